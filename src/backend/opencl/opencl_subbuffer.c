/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_subbuffer.c: the sub-buffers that stand for a pool's blocks.
 *
 * A kernel gets a cl_mem, not an address. Passing the buffer of a whole segment while other kernels
 * use parts of it is undefined. So each block has a sub-buffer of exactly its extent, created at
 * the first request and found by its address afterwards.
 *
 *  (1) One hash table for the process: open addressing by address over pointers to records. Readers
 *      take no lock. Records are type-stable, and an odd sequence number says that a record is not
 *      in use. A full table is replaced; old tables are few and are never freed.
 *  (2) Nobody reports that a block is freed. It is known to be stale when another block is
 *      requested that begins at the same address with another size, or that overlaps it. The first
 *      kind is replaced at once. The second is removed by a sweep, when a buffer has twice as many
 *      sub-buffers as after the last sweep.
 *  (3) Each look-up stores in its record how many sub-buffers had been created in the process by
 *      then. Of two records that overlap only one can belong to a live block, and it was requested
 *      after the other block was freed: so the one with the lower number is stale. With equal
 *      numbers both stay.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/stable.h"

#include <stdlib.h>

struct subbuffer {
    void *free_link;           /* vr_stable's */
    vr_atomic_u64 sequence;    /* even: in use */
    vr_atomic_u64 addr, bytes; /* of the block */
    vr_atomic_ptr handle;      /* struct vr_cl_memory * */
    vr_atomic_u64 noted;       /* (3) */
    struct vr_link link;       /* in its buffer's list, or in a list of removed ones */
};

struct subbuffer_table {
    uint64_t mask; /* number of slots, a power of two, minus 1 */
    vr_atomic_ptr slots[];
};

static struct vr_stable subbuffer_memory = VR_STABLE_INIT(struct subbuffer);
static struct subbuffer tombstone;

/* All changes are made under the lock; it is never held across a driver call. */
static struct {
    struct vr_mutex lock;
    vr_atomic_ptr table; /* struct subbuffer_table *, the newest */
    uint64_t used, live; /* slots in use with and without tombstones */
    vr_atomic_u64 made;  /* sub-buffers ever created: (3) */
} subbuffers = {.lock = VR_MUTEX_INIT(VR_RANK_BACKEND)};

/* -------------------------------------------------------------------- table */

static uint64_t address_hash(vram_addr addr) {
    uint64_t mixed = (addr >> 7) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ mixed >> 29;
}

static void table_put(struct subbuffer_table *table, struct subbuffer *subbuffer, uint64_t *used) {
    for (uint64_t at = address_hash(vr_load(&subbuffer->addr, VR_RELAXED));; at++) {
        struct subbuffer *found = vr_load(&table->slots[at & table->mask], VR_RELAXED);
        if (!found || found == &tombstone) {
            *used += !found;
            vr_store(&table->slots[at & table->mask], subbuffer, VR_RELEASE);
            return;
        }
    }
}

static void table_remove(const struct subbuffer *subbuffer) {
    struct subbuffer_table *table = vr_load(&subbuffers.table, VR_RELAXED);
    uint64_t at = address_hash(vr_load(&subbuffer->addr, VR_RELAXED));
    while (vr_load(&table->slots[at & table->mask], VR_RELAXED) != subbuffer) {
        at++;
    }
    vr_store(&table->slots[at & table->mask], &tombstone, VR_RELEASE);
    subbuffers.live--;
}

/* Makes space for one more, so that every search ends at an empty slot. */
static vram_status table_reserve(void) {
    struct subbuffer_table *old = vr_load(&subbuffers.table, VR_RELAXED);
    uint64_t count = 512, bytes = 0;
    void *pages;
    if (old && subbuffers.used < (old->mask + 1) / 2) {
        return VRAM_OK;
    }
    while (count < 4 * (subbuffers.live + 1)) {
        count *= 2;
    }
    (void)vr_round_up(sizeof *old + count * sizeof old->slots[0], vr_os_page_bytes(), &bytes);
    vram_status status = vr_os_pages_alloc(bytes, &pages);
    if (status != VRAM_OK) {
        return status;
    }
    struct subbuffer_table *table = pages;
    table->mask = count - 1;
    subbuffers.used = 0;
    for (uint64_t i = 0; old && i <= old->mask; i++) {
        struct subbuffer *subbuffer = vr_load(&old->slots[i], VR_RELAXED);
        if (subbuffer && subbuffer != &tombstone) {
            table_put(table, subbuffer, &subbuffers.used);
        }
    }
    vr_store(&subbuffers.table, table, VR_RELEASE);
    return VRAM_OK;
}

/* The record at `addr` and a consistent copy of its fields; NULL if there is none. Lock-free. */
static struct subbuffer *subbuffer_find(vram_addr addr, uint64_t *bytes,
                                        struct vr_cl_memory **handle) {
    struct subbuffer_table *table = vr_load(&subbuffers.table, VR_ACQUIRE);
    for (uint64_t at = address_hash(addr), left = table ? table->mask + 1 : 0; left > 0;
         at++, left--) {
        struct subbuffer *subbuffer = vr_load(&table->slots[at & table->mask], VR_ACQUIRE);
        if (!subbuffer) {
            return NULL;
        }
        uint64_t before = vr_load(&subbuffer->sequence, VR_ACQUIRE);
        if (subbuffer != &tombstone && before % 2 == 0 &&
            vr_load(&subbuffer->addr, VR_ACQUIRE) == addr) {
            *bytes = vr_load(&subbuffer->bytes, VR_ACQUIRE);
            *handle = vr_load(&subbuffer->handle, VR_ACQUIRE);
            return vr_load(&subbuffer->sequence, VR_ACQUIRE) == before ? subbuffer : NULL;
        }
    }
    return NULL;
}

/* -------------------------------------------------------------------- views */

static void subbuffer_note(struct subbuffer *subbuffer, uint64_t value) {
    if (vr_load(&subbuffer->noted, VR_RELAXED) != value) {
        vr_store(&subbuffer->noted, value, VR_RELAXED);
    }
}

static struct subbuffer *subbuffer_make(vram_addr addr, uint64_t bytes,
                                        struct vr_cl_memory *handle) {
    struct subbuffer *subbuffer = vr_stable_take(&subbuffer_memory, "clCreateSubBuffer");
    if (!subbuffer) {
        return NULL;
    }
    if (vr_load(&subbuffer->sequence, VR_RELAXED) % 2 == 0) {
        vr_store(&subbuffer->sequence, 1, VR_RELAXED); /* new memory is all zero */
    }
    vr_store(&subbuffer->addr, addr, VR_RELEASE);
    vr_store(&subbuffer->bytes, bytes, VR_RELEASE);
    vr_store(&subbuffer->handle, handle, VR_RELEASE);
    return subbuffer;
}

/* Under the lock, with space in the table. */
static void subbuffer_add(struct vr_opencl_memory *memory, struct subbuffer *subbuffer) {
    vr_store(&subbuffer->noted, 2 * (vr_fetch_add(&subbuffers.made, 1, VR_RELAXED) + 1),
             VR_RELAXED);
    vr_fetch_add(&subbuffer->sequence, 1, VR_RELEASE);
    table_put(vr_load(&subbuffers.table, VR_RELAXED), subbuffer, &subbuffers.used);
    subbuffers.live++;
    vr_list_append(&memory->subbuffers, &subbuffer->link);
    memory->subbuffer_count++;
}

/* Moves a record from the table and its buffer's list to `gone`. Under the lock. */
static void subbuffer_drop(struct vr_opencl_memory *memory, struct subbuffer *subbuffer,
                           struct vr_list *gone) {
    table_remove(subbuffer);
    vr_fetch_add(&subbuffer->sequence, 1, VR_ACQ_REL);
    vr_link_remove(&subbuffer->link);
    vr_list_append(gone, &subbuffer->link);
    memory->subbuffer_count--;
}

/* Releases what was removed. No lock held. */
static void subbuffers_release(const struct vr_opencl_memory *memory, struct vr_list *gone,
                               bool lost) {
    struct vr_link *link;
    while ((link = vr_list_first(gone))) {
        struct subbuffer *subbuffer = VR_CONTAINER(link, struct subbuffer, link);
        vr_link_remove(link);
        if (!lost) {
            vr_opencl_warn("clReleaseMemObject",
                           vr_load(&memory->device, VR_RELAXED)
                               ->api->clReleaseMemObject(vr_load(&subbuffer->handle, VR_RELAXED)));
        }
        vr_stable_give(&subbuffer_memory, subbuffer);
    }
}

/* ----------------------------------------------------------------- sweeping */

static int subbuffer_compare(const void *a, const void *b) {
    uint64_t left = vr_load(&(*(struct subbuffer *const *)a)->addr, VR_RELAXED);
    uint64_t right = vr_load(&(*(struct subbuffer *const *)b)->addr, VR_RELAXED);
    return left < right ? -1 : left > right;
}

static uint64_t subbuffer_end(const struct subbuffer *subbuffer) {
    return vr_load(&subbuffer->addr, VR_RELAXED) + vr_load(&subbuffer->bytes, VR_RELAXED);
}

/* keeps (3): of two neighbours that overlap, the stale one is removed. Under the lock. */
static void sweep_overlaps(struct vr_opencl_memory *memory, struct subbuffer **sorted,
                           uint64_t count, struct vr_list *gone) {
    struct subbuffer *kept = sorted[0];
    for (uint64_t i = 1; i < count; i++) {
        struct subbuffer *next = sorted[i];
        uint64_t older = vr_load(&kept->noted, VR_RELAXED);
        uint64_t newer = vr_load(&next->noted, VR_RELAXED);
        bool overlap = subbuffer_end(kept) > vr_load(&next->addr, VR_RELAXED);
        if (overlap && newer < older) {
            subbuffer_drop(memory, next, gone);
            continue;
        }
        if (overlap && older < newer) {
            subbuffer_drop(memory, kept, gone);
        }
        kept = next;
    }
}

/* keeps (2). If memory ran out, there is no sweep this time. */
static void subbuffers_sweep(struct vr_opencl_memory *memory, struct vr_list *gone) {
    vram_error error;
    uint64_t count = 0;
    vr_error_save(&error);
    struct subbuffer **sorted =
        vr_mem_alloc(memory->subbuffer_count, sizeof(struct subbuffer *), "clCreateSubBuffer");
    vr_error_restore(&error);
    if (sorted) {
        for (struct vr_link *link = vr_list_first(&memory->subbuffers); link;
             link = vr_list_next(&memory->subbuffers, link)) {
            sorted[count++] = VR_CONTAINER(link, struct subbuffer, link);
        }
        qsort(sorted, count, sizeof(struct subbuffer *), subbuffer_compare);
        sweep_overlaps(memory, sorted, count, gone);
        vr_mem_free(sorted);
    }
    memory->sweep_at = memory->subbuffer_count < 32 ? 64 : 2 * memory->subbuffer_count;
}

/* ------------------------------------------------------------------- public */

static vram_status native_make(const struct vr_opencl_memory *memory, uint64_t offset,
                               uint64_t bytes, struct vr_cl_memory **handle) {
    const struct vr_cl_region region = {offset, bytes};
    vr_cl_int code = VR_CL_SUCCESS;
    uint64_t align = vr_load(&memory->device, VR_RELAXED)->physical->subbuffer_align;
    if (offset % align) {
        return vr_error_set(
            VRAM_ERR_UNSUPPORTED, "opencl", "clCreateSubBuffer", VR_CL_MISALIGNED_SUB_BUFFER_OFFSET,
            "this device's kernels take blocks on multiples of %llu bytes: allocate "
            "with that alignment",
            (unsigned long long)align);
    }
    struct vr_cl_memory *made =
        vr_load(&memory->device, VR_RELAXED)
            ->api->clCreateSubBuffer(vr_load(&memory->buffer, VR_RELAXED), VR_CL_MEM_READ_WRITE,
                                     VR_CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    vram_status status = vr_opencl_check("clCreateSubBuffer", code);
    if (status == VRAM_OK && !made) {
        status = vr_opencl_bad_result("clCreateSubBuffer", 0);
    }
    if (status == VRAM_OK) {
        *handle = made;
    }
    return status;
}

/* Inserts a new record. If another thread has inserted one for the same block meanwhile, that one
   stays: *handle is then that one's, and the new record goes to `gone`. */
static vram_status subbuffer_enter(struct vr_opencl_memory *memory, struct subbuffer *fresh,
                                   struct vr_cl_memory **handle, struct vr_list *gone) {
    struct vr_cl_memory *other;
    uint64_t bytes;
    vr_mutex_lock(&subbuffers.lock);
    vram_status status = table_reserve();
    struct subbuffer *old = status == VRAM_OK
                                ? subbuffer_find(vr_load(&fresh->addr, VR_RELAXED), &bytes, &other)
                                : NULL;
    if (status != VRAM_OK || (old && bytes == vr_load(&fresh->bytes, VR_RELAXED))) {
        *handle = status == VRAM_OK ? other : *handle;
        vr_list_append(gone, &fresh->link);
    } else {
        if (old) {
            subbuffer_drop(memory, old, gone);
        }
        subbuffer_add(memory, fresh);
        if (memory->subbuffer_count >= memory->sweep_at) {
            subbuffers_sweep(memory, gone);
        }
    }
    vr_mutex_unlock(&subbuffers.lock);
    return status;
}

vram_status vr_opencl_subbuffer_get(struct vr_opencl_memory *memory, vram_addr addr,
                                    uint64_t offset, uint64_t bytes, struct vr_cl_memory **handle) {
    struct vr_list gone;
    struct vr_cl_memory *made;
    uint64_t found;
    struct subbuffer *subbuffer = subbuffer_find(addr, &found, &made);
    if (subbuffer && found == bytes) {
        subbuffer_note(subbuffer, 2 * vr_load(&subbuffers.made, VR_RELAXED) + 1);
        *handle = made;
        return VRAM_OK;
    }
    vram_status status = native_make(memory, offset, bytes, &made);
    if (status != VRAM_OK) {
        return status;
    }
    subbuffer = subbuffer_make(addr, bytes, made);
    if (!subbuffer) {
        vr_opencl_warn("clReleaseMemObject",
                       vr_load(&memory->device, VR_RELAXED)->api->clReleaseMemObject(made));
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_list_init(&gone);
    status = subbuffer_enter(memory, subbuffer, &made, &gone);
    subbuffers_release(memory, &gone, false);
    if (status == VRAM_OK) {
        *handle = made;
    }
    return status;
}

void vr_opencl_subbuffers_end(struct vr_opencl_memory *memory, bool lost) {
    struct vr_link *link;
    struct vr_list gone;
    vr_list_init(&gone);
    vr_mutex_lock(&subbuffers.lock);
    while ((link = vr_list_first(&memory->subbuffers))) {
        subbuffer_drop(memory, VR_CONTAINER(link, struct subbuffer, link), &gone);
    }
    vr_mutex_unlock(&subbuffers.lock);
    subbuffers_release(memory, &gone, lost);
}
