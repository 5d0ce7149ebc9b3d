/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_view.c: the sub-buffers that stand for a pool's blocks.
 *
 * A kernel gets a cl_mem, not an address, and giving it the buffer that a whole segment is while
 * other kernels have parts of it is undefined. So each block has a sub-buffer of exactly its
 * extent, made when it is first asked for and found by its address from then on.
 *
 *  (1) One table for the process: open addressing by address over pointers to views. Readers take
 *      no lock. Views are type-stable and say by an odd sequence number that they stand for
 *      nothing; tables are replaced when they fill up and, being few, never given back.
 *  (2) Nobody tells when a block is gone. It is known to be when another one is asked for that
 *      begins at the same address with another size, or overlaps it. The first kind is replaced at
 *      once; the second is swept when a buffer has twice as many views as after the last sweep.
 *  (3) Each look-up notes on its view how many views had been made in the process by then. Of two
 *      that overlap only one can be a live block's, and it was asked for after the other block had
 *      died: so the one with the lower note may go. Equal notes tell nothing, and both stay.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"

#include <stdlib.h>

struct view {
    void *free_link;           /* vr_stable's */
    vr_atomic_u64 sequence;    /* even: it stands for a block */
    vr_atomic_u64 addr, bytes; /* of the block */
    vr_atomic_ptr handle;      /* struct vr_cl_memory * */
    vr_atomic_u64 noted;       /* (3) */
    struct vr_link link;       /* in its buffer's list, or in one of views that go */
};

struct table {
    uint64_t mask; /* slots, a power of two, minus 1 */
    vr_atomic_ptr slots[];
};

static struct vr_stable view_memory = VR_STABLE_INIT(struct view);
static struct view tombstone;

/* All changes are made under the lock; it is never held across a driver call. */
static struct {
    struct vr_mutex lock;
    vr_atomic_ptr table; /* struct table *, the newest */
    uint64_t used, live; /* slots taken, tombstones included, and without them */
    vr_atomic_u64 made;  /* views ever made: (3) */
} views = {.lock = VR_MUTEX_INIT(VR_RANK_BACKEND)};

/* -------------------------------------------------------------------- table */

static uint64_t hash(vram_addr addr) {
    uint64_t mixed = (addr >> 7) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ mixed >> 29;
}

static void put(struct table *table, struct view *view, uint64_t *used) {
    for (uint64_t at = hash(vr_load(&view->addr, VR_RELAXED));; at++) {
        struct view *found = vr_load(&table->slots[at & table->mask], VR_RELAXED);
        if (!found || found == &tombstone) {
            *used += !found;
            vr_store(&table->slots[at & table->mask], view, VR_RELEASE);
            return;
        }
    }
}

static void take_out(const struct view *view) {
    struct table *table = vr_load(&views.table, VR_RELAXED);
    uint64_t at = hash(vr_load(&view->addr, VR_RELAXED));
    while (vr_load(&table->slots[at & table->mask], VR_RELAXED) != view) {
        at++;
    }
    vr_store(&table->slots[at & table->mask], &tombstone, VR_RELEASE);
    views.live--;
}

/* Room for one more, so that every search ends at an empty slot. */
static vram_status reserve(void) {
    struct table *old = vr_load(&views.table, VR_RELAXED);
    uint64_t count = 512, bytes = 0;
    void *pages;
    if (old && views.used < (old->mask + 1) / 2) {
        return VRAM_OK;
    }
    while (count < 4 * (views.live + 1)) {
        count *= 2;
    }
    (void)vr_round_up(sizeof *old + count * sizeof old->slots[0], vr_os_page_bytes(), &bytes);
    vram_status status = vr_os_pages_alloc(bytes, &pages);
    if (status != VRAM_OK) {
        return status;
    }
    struct table *table = pages;
    table->mask = count - 1;
    views.used = 0;
    for (uint64_t i = 0; old && i <= old->mask; i++) {
        struct view *view = vr_load(&old->slots[i], VR_RELAXED);
        if (view && view != &tombstone) {
            put(table, view, &views.used);
        }
    }
    vr_store(&views.table, table, VR_RELEASE);
    return VRAM_OK;
}

/* The view at `addr` and what it says at one moment; NULL when there is none. Lock-free. */
static struct view *find(vram_addr addr, uint64_t *bytes, struct vr_cl_memory **handle) {
    struct table *table = vr_load(&views.table, VR_ACQUIRE);
    for (uint64_t at = hash(addr), left = table ? table->mask + 1 : 0; left > 0; at++, left--) {
        struct view *view = vr_load(&table->slots[at & table->mask], VR_ACQUIRE);
        if (!view) {
            return NULL;
        }
        uint64_t before = vr_load(&view->sequence, VR_ACQUIRE);
        if (view != &tombstone && before % 2 == 0 && vr_load(&view->addr, VR_ACQUIRE) == addr) {
            *bytes = vr_load(&view->bytes, VR_ACQUIRE);
            *handle = vr_load(&view->handle, VR_ACQUIRE);
            return vr_load(&view->sequence, VR_ACQUIRE) == before ? view : NULL;
        }
    }
    return NULL;
}

/* -------------------------------------------------------------------- views */

static void note(struct view *view, uint64_t value) {
    if (vr_load(&view->noted, VR_RELAXED) != value) {
        vr_store(&view->noted, value, VR_RELAXED);
    }
}

static struct view *view_new(vram_addr addr, uint64_t bytes, struct vr_cl_memory *handle) {
    struct view *view = vr_stable_take(&view_memory, "clCreateSubBuffer");
    if (!view) {
        return NULL;
    }
    if (vr_load(&view->sequence, VR_RELAXED) % 2 == 0) {
        vr_store(&view->sequence, 1, VR_RELAXED); /* fresh from the system: all zero */
    }
    vr_store(&view->addr, addr, VR_RELEASE);
    vr_store(&view->bytes, bytes, VR_RELEASE);
    vr_store(&view->handle, handle, VR_RELEASE);
    return view;
}

/* Under the lock, with room in the table. */
static void view_add(struct vr_opencl_memory *memory, struct view *view) {
    vr_store(&view->noted, 2 * (vr_fetch_add(&views.made, 1, VR_RELAXED) + 1), VR_RELAXED);
    vr_fetch_add(&view->sequence, 1, VR_RELEASE);
    put(vr_load(&views.table, VR_RELAXED), view, &views.used);
    views.live++;
    vr_list_append(&memory->views, &view->link);
    memory->view_count++;
}

/* Takes a view out of everything but `gone`. Under the lock. */
static void view_drop(struct vr_opencl_memory *memory, struct view *view, struct vr_list *gone) {
    take_out(view);
    vr_fetch_add(&view->sequence, 1, VR_ACQ_REL);
    vr_link_remove(&view->link);
    vr_list_append(gone, &view->link);
    memory->view_count--;
}

/* Releases what was dropped. No lock held. */
static void release(const struct vr_opencl_memory *memory, struct vr_list *gone, bool lost) {
    struct vr_link *link;
    while ((link = vr_list_first(gone))) {
        struct view *view = VR_CONTAINER(link, struct view, link);
        vr_link_remove(link);
        if (!lost) {
            vr_opencl_shrug("clReleaseMemObject",
                            vr_load(&memory->device, VR_RELAXED)
                                ->api->clReleaseMemObject(vr_load(&view->handle, VR_RELAXED)));
        }
        vr_stable_give(&view_memory, view);
    }
}

/* ----------------------------------------------------------------- sweeping */

static int by_address(const void *a, const void *b) {
    uint64_t left = vr_load(&(*(struct view *const *)a)->addr, VR_RELAXED);
    uint64_t right = vr_load(&(*(struct view *const *)b)->addr, VR_RELAXED);
    return left < right ? -1 : left > right;
}

static uint64_t end_of(const struct view *view) {
    return vr_load(&view->addr, VR_RELAXED) + vr_load(&view->bytes, VR_RELAXED);
}

/* keeps (3): of two neighbours that overlap the older goes. Under the lock. */
static void sweep_sorted(struct vr_opencl_memory *memory, struct view **sorted, uint64_t count,
                         struct vr_list *gone) {
    struct view *kept = sorted[0];
    for (uint64_t i = 1; i < count; i++) {
        struct view *next = sorted[i];
        uint64_t older = vr_load(&kept->noted, VR_RELAXED);
        uint64_t newer = vr_load(&next->noted, VR_RELAXED);
        bool overlap = end_of(kept) > vr_load(&next->addr, VR_RELAXED);
        if (overlap && newer < older) {
            view_drop(memory, next, gone);
            continue;
        }
        if (overlap && older < newer) {
            view_drop(memory, kept, gone);
        }
        kept = next;
    }
}

/* keeps (2). Without memory for it there is no sweep this time. */
static void sweep(struct vr_opencl_memory *memory, struct vr_list *gone) {
    vram_error error;
    uint64_t count = 0;
    vr_error_save(&error);
    struct view **sorted =
        vr_mem_alloc(memory->view_count, sizeof(struct view *), "clCreateSubBuffer");
    vr_error_restore(&error);
    if (sorted) {
        for (struct vr_link *link = vr_list_first(&memory->views); link;
             link = vr_list_next(&memory->views, link)) {
            sorted[count++] = VR_CONTAINER(link, struct view, link);
        }
        qsort(sorted, count, sizeof(struct view *), by_address);
        sweep_sorted(memory, sorted, count, gone);
        vr_mem_free(sorted);
    }
    memory->sweep_at = memory->view_count < 32 ? 64 : 2 * memory->view_count;
}

/* ------------------------------------------------------------------- public */

static vram_status sub_buffer(const struct vr_opencl_memory *memory, uint64_t offset,
                              uint64_t bytes, struct vr_cl_memory **handle) {
    const struct vr_cl_region region = {offset, bytes};
    vr_cl_int code = VR_CL_SUCCESS;
    uint64_t align = vr_load(&memory->device, VR_RELAXED)->unit->view_align;
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
        status = vr_opencl_lied("clCreateSubBuffer", 0);
    }
    if (status == VRAM_OK) {
        *handle = made;
    }
    return status;
}

/* Puts a new view in its place. One that another thread has made meanwhile stays instead: *handle
   is then that one's, and the new view is among those that go. */
static vram_status enter(struct vr_opencl_memory *memory, struct view *fresh,
                         struct vr_cl_memory **handle, struct vr_list *gone) {
    struct vr_cl_memory *other;
    uint64_t bytes;
    vr_mutex_lock(&views.lock);
    vram_status status = reserve();
    struct view *old =
        status == VRAM_OK ? find(vr_load(&fresh->addr, VR_RELAXED), &bytes, &other) : NULL;
    if (status != VRAM_OK || (old && bytes == vr_load(&fresh->bytes, VR_RELAXED))) {
        *handle = status == VRAM_OK ? other : *handle;
        vr_list_append(gone, &fresh->link);
    } else {
        if (old) {
            view_drop(memory, old, gone);
        }
        view_add(memory, fresh);
        if (memory->view_count >= memory->sweep_at) {
            sweep(memory, gone);
        }
    }
    vr_mutex_unlock(&views.lock);
    return status;
}

vram_status vr_opencl_view(struct vr_opencl_memory *memory, vram_addr addr, uint64_t offset,
                           uint64_t bytes, struct vr_cl_memory **handle) {
    struct vr_list gone;
    struct vr_cl_memory *made;
    uint64_t found;
    struct view *view = find(addr, &found, &made);
    if (view && found == bytes) {
        note(view, 2 * vr_load(&views.made, VR_RELAXED) + 1);
        *handle = made;
        return VRAM_OK;
    }
    vram_status status = sub_buffer(memory, offset, bytes, &made);
    if (status != VRAM_OK) {
        return status;
    }
    view = view_new(addr, bytes, made);
    if (!view) {
        vr_opencl_shrug("clReleaseMemObject",
                        vr_load(&memory->device, VR_RELAXED)->api->clReleaseMemObject(made));
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_list_init(&gone);
    status = enter(memory, view, &made, &gone);
    release(memory, &gone, false);
    if (status == VRAM_OK) {
        *handle = made;
    }
    return status;
}

void vr_opencl_views_end(struct vr_opencl_memory *memory, bool lost) {
    struct vr_link *link;
    struct vr_list gone;
    vr_list_init(&gone);
    vr_mutex_lock(&views.lock);
    while ((link = vr_list_first(&memory->views))) {
        view_drop(memory, VR_CONTAINER(link, struct view, link), &gone);
    }
    vr_mutex_unlock(&views.lock);
    release(memory, &gone, lost);
}
