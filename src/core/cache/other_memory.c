/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_memory.c: blocks in other memory than the pool's own: managed, page-locked or host memory,
 * or that of the provider of one buffer, of which the record then has a copy.
 *
 *  (1) Each such block is a separate allocation with its own record in the address map. It is in no
 *      space; the block is in the pool's list `other_blocks`, through span.after, from its
 *      allocation until its memory is released.
 *  (2) It counts as held (block.h), so that a free bypasses all caches and no other request gets
 *      it.
 *  (3) A free calls no driver: the block waits in the list, FREE, until its stamp has passed. Its
 *      memory is released when the pool is next drained, or destroyed.
 *  (4) It is charged to no limit: the program has allowed the fallback. Managed memory that the
 *      caller chose (CHOSEN) is charged to the device's limit, because it may migrate there.
 */
#include "core/cache/other_memory.h"
#include "core/cache/drain.h"
#include "core/cache/provided.h"
#include "core/cache/stamp.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/status.h"
#include "core/limit/tag.h"
#include "core/space/span.h"
#include "device/ops.h"
#include "track/event.h"

#include <assert.h>

/* ------------------------------------------------------------------------ kinds */

static vram_status host_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    void *pages;
    vram_status status = vr_os_pages_alloc(bytes, &pages);
    (void)device;
    if (status == VRAM_OK) {
        *addr = (uintptr_t)pages;
    }
    return status;
}

static vram_status host_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)device;
    return vr_os_pages_free((void *)(uintptr_t)addr, bytes);
}

/* In the order in which they are tried. */
static const struct kind {
    uint32_t bit, cap; /* vram_fallback; vram_cap that the device needs, 0: none */
    vram_memory_kind kind;
    bool drivers; /* driver memory, counted as held on the device */
    vr_memory_alloc_fn *alloc;
    vr_memory_free_fn *free;
} kinds[] = {
    {VRAM_FALLBACK_MANAGED, VRAM_CAP_MANAGED, VRAM_MEMORY_MANAGED, true, vr_managed_alloc,
     vr_managed_free},
    {VRAM_FALLBACK_PINNED, VRAM_CAP_PINNED, VRAM_MEMORY_PINNED, true, vr_pinned_alloc,
     vr_pinned_free},
    {VRAM_FALLBACK_HOST, 0, VRAM_MEMORY_HOST, false, host_alloc, host_free},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static const struct kind *kind_of(const struct vr_record *record) {
    unsigned i = 0;
    while (i < KIND_COUNT - 1 && kinds[i].kind != vr_load(&record->kind, VR_RELAXED)) {
        i++;
    }
    return &kinds[i];
}

/* ----------------------------------------------------------------------- taking */

/* Releases the memory of a record that is not in the address map. */
static vram_status release_memory(struct vr_pool *pool, const struct kind *kind, vram_addr base,
                                  uint64_t bytes) {
    vram_status status = kind->free(&pool->device->base, base, bytes);
    if (status == VRAM_OK && kind->drivers) {
        vr_held_sub(pool->device, bytes);
    }
    return status;
}

/* Bytes of such memory that count against the device's limit: keeps (4). */
static uint64_t charge_of(const struct kind *kind, bool chosen, uint64_t bytes) {
    return chosen && kind->kind == VRAM_MEMORY_MANAGED ? bytes : 0;
}

/* Allocates memory of that kind and enters it in the address map. */
static vram_status take_memory(struct vr_pool *pool, const struct kind *kind, uint64_t bytes,
                               struct vr_record **out) {
    vram_addr base = 0;
    uint64_t end;
    struct vr_record *record = vr_record_take();
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = kind->alloc(&pool->device->base, bytes, &base);
    if (status == VRAM_OK && (!base || base % vr_os_page_bytes() || !vr_add(base, bytes, &end))) {
        status = vr_fail(VRAM_ERR_CORRUPT,
                         "the driver reported success with the impossible address 0x%llx",
                         (unsigned long long)base);
    } else if (status == VRAM_OK) {
        uint64_t held = kind->drivers ? vr_held_add(pool->device, bytes) : 0;
        vr_store(&record->pool, pool->object.handle, VR_RELEASE);
        status =
            vr_record_publish(record, base, bytes, pool->device->object.handle, kind->kind, false);
        if (status == VRAM_OK) {
            vr_held_peak(pool->device, held);
        } else if (status == VRAM_ERR_CORRUPT && kind->drivers) {
            vr_held_sub(pool->device, bytes); /* the map has another owner: it is left alone */
        } else {
            struct vram_error error;
            vr_error_save(&error);
            (void)release_memory(pool, kind, base, bytes);
            vr_error_restore(&error);
        }
    }
    if (status != VRAM_OK) {
        vr_record_give(record);
        return status;
    }
    *out = record;
    return VRAM_OK;
}

/* Makes a block over the record's memory, for the program. Keeps (1) and (2). */
static vram_status make_block(struct vr_pool *pool, const struct vr_request *request,
                              struct vr_record *record, struct vr_block **made) {
    struct vr_space *space = pool->spaces[VR_PART_LARGE];
    uint64_t addr = vr_load(&record->base, VR_RELAXED);
    vr_mutex_lock(&pool->lock);
    vram_status status = vr_pool_ensure_queue(pool, request->queue_object);
    if (status == VRAM_OK) {
        status = vr_span_stock(space, 1);
    }
    if (status == VRAM_OK) {
        status = vr_block_table_reserve(&pool->table);
    }
    if (status == VRAM_OK) {
        (void)vr_round_up(addr, request->align ? request->align : VR_UNIT, &addr);
        struct vr_block *block = vr_span_new(space, addr, request->bytes);
        block->span.kind = request->flags & VR_REQUEST_CHOSEN ? VR_SPAN_CHOSEN : VR_SPAN_FALLBACK;
        block->span.record = record;
        block->span.after = pool->other_blocks;
        pool->other_blocks = block;
        vr_pool_leave_space(pool, block, request->queue);
        vr_block_note_held(block);
        assert(vr_load(&block->held, VR_RELAXED)); /* keeps (2) */
        vr_store(&pool->has_other_blocks, true, VR_RELAXED);
        *made = block;
    }
    vr_mutex_unlock(&pool->lock);
    return status;
}

static void record_drop(struct vr_record *record) {
    vr_mem_free(record->provider);
    vr_record_give(record);
}

/* Releases a record and its memory. False if the driver refused: the record stays, outside the
   map. */
static bool release_record(struct vr_pool *pool, struct vr_record *record, bool chosen) {
    const struct kind *kind = kind_of(record);
    uint64_t base = vr_load(&record->base, VR_RELAXED);
    uint64_t bytes = vr_load(&record->bytes, VR_RELAXED);
    if (vr_load(&record->sequence, VR_RELAXED) % 2 == 0) {
        vr_record_withdraw(record);
    }
    vram_status status = record->provider ? vr_provided_release(record->provider, base, bytes)
                                          : release_memory(pool, kind, base, bytes);
    if (status != VRAM_OK) {
        return false; /* it stays out of the map, which does no harm: its block was freed */
    }
    vr_uncharge(pool->device, record->provider ? 0 : charge_of(kind, chosen, bytes));
    record_drop(record);
    return true;
}

/* make_block; if that fails, the record and its memory are released. */
static vram_status block_over(struct vr_pool *pool, const struct vr_request *request,
                              struct vr_record *record, struct vr_block **block) {
    vram_status status = make_block(pool, request, record, block);
    if (status != VRAM_OK) {
        struct vram_error error;
        uint64_t bytes = vr_load(&record->bytes, VR_RELAXED);
        vr_error_save(&error);
        if (!release_record(pool, record, request->flags & VR_REQUEST_CHOSEN)) {
            vr_log(VRAM_LOG_ERROR, "the driver refused to release %llu bytes of a pool",
                   (unsigned long long)bytes);
            record_drop(record);
        }
        vr_error_restore(&error);
    }
    return status;
}

static vram_status fall_back(struct vr_pool *pool, const struct vr_request *request,
                             const struct kind *kind, struct vr_block **block) {
    VR_OPERATION("vram_alloc");
    struct vr_record *record = NULL;
    uint64_t page = vr_os_page_bytes(), bytes = request->bytes;
    uint64_t more = request->align > page ? request->align : 0;
    bool chosen = request->flags & VR_REQUEST_CHOSEN;
    if (!vr_add(bytes, more, &bytes) || !vr_round_up(bytes, page, &bytes)) {
        return vr_fail(VRAM_ERR_HOST_MEMORY, "%llu bytes are more than can be addressed",
                       (unsigned long long)request->bytes);
    }
    vram_status status = vr_charge(pool->device, charge_of(kind, chosen, bytes));
    if (status != VRAM_OK) {
        return status;
    }
    status = take_memory(pool, kind, bytes, &record);
    if (status != VRAM_OK) {
        vr_uncharge(pool->device, charge_of(kind, chosen, bytes));
        return status;
    }
    return block_over(pool, request, record, block);
}

/* Takes the request's memory from its provider. */
static vram_status take_provided(struct vr_pool *pool, const struct vr_request *request,
                                 struct vr_block **block) {
    VR_OPERATION("vram_alloc");
    const struct vr_provided *source = request->provided;
    struct vr_record *record;
    uint64_t bytes;
    if (!vr_round_up(request->bytes, vr_provided_granule(source->provider), &bytes)) {
        return vr_fail(VRAM_ERR_HOST_MEMORY, "%llu bytes are more than can be addressed",
                       (unsigned long long)request->bytes);
    }
    struct vram_provider *copy = vr_mem_alloc(1, sizeof *copy, vr_operation());
    if (!copy) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_provided_take(pool, source, bytes, &record);
    if (status != VRAM_OK) {
        vr_mem_free(copy);
        return status;
    }
    *copy = *source->provider;
    record->provider = copy;
    return block_over(pool, request, record, block);
}

static void count_fallback(struct vr_pool *pool, const struct vr_request *request,
                           const struct vr_block *block) {
    bool chosen = request->flags & VR_REQUEST_CHOSEN;
    vr_counter_add(&pool->counters.fallbacks,
                   !(request->flags & (VR_REQUEST_CHOSEN | VR_REQUEST_MOVED)));
    vr_counter_add(chosen ? &pool->counters.other_bytes : &pool->counters.fallback_bytes,
                   vr_load(&block->bytes, VR_RELAXED));
    if (!chosen) {
        vr_memory_log(request->name, vr_tag_name(request->tag), pool->name,
                      "fallback: %llu bytes of %s memory", (unsigned long long)request->size,
                      vr_memory_name(kind_of(block->span.record)->kind));
    }
}

bool vr_fallback_first_of(struct vr_pool *pool, const struct vr_request *request, uint32_t allowed,
                          struct vr_block **block, vram_status *status) {
    uint32_t caps = pool->device->base.info.caps;
    bool any = false;
    *status = VRAM_ERR_LIMIT;
    for (unsigned i = 0; i < KIND_COUNT && vr_status_is_exhausted(*status); i++) {
        if ((allowed & kinds[i].bit) && !(kinds[i].cap & ~caps)) {
            *status = fall_back(pool, request, &kinds[i], block);
            any = true;
        }
    }
    if (*status == VRAM_OK) {
        vr_request_miss(request);
        count_fallback(pool, request, *block);
    }
    return any;
}

/* Memory of freed blocks is released first: it may be what the request needs. */
vram_status vr_fallback_supply(struct vr_pool *pool, const struct vr_request *request,
                               struct vr_block **block) {
    VR_OPERATION("vram_alloc");
    const struct vram_device_info *info = &pool->device->base.info;
    struct vram_error error;
    vram_status status;
    vr_error_save(&error);
    vr_fallback_reap(pool);
    if (request->provided) {
        status = take_provided(pool, request, block);
        if (status == VRAM_OK) {
            vr_request_miss(request);
            count_fallback(pool, request, *block);
        }
        return status;
    }
    if (!vr_fallback_first_of(pool, request, request->other, block, &status)) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "%s device %u has no memory of the requested kind",
                       info->backend, info->backend_index);
    }
    if (status == VRAM_OK) {
        vr_error_restore(&error); /* exhausted earlier kinds are not an error */
    }
    return status;
}

/* -------------------------------------------------------------------- releasing */

void vr_fallback_freed(struct vr_pool *pool, struct vr_block *block) {
    assert(vr_pool_is_locked(pool) && vr_block_is_other(block) &&
           vr_block_is_free(block)); /* (3) */
    vr_atomic_u64 *bytes = block->span.kind == VR_SPAN_CHOSEN ? &pool->counters.other_bytes
                                                              : &pool->counters.fallback_bytes;
    vr_fetch_sub(bytes, vr_load(&block->bytes, VR_RELAXED), VR_RELAXED);
    vr_counter_add(&pool->counters.other_frees, 1);
}

/* Removes the first block from the list that was freed and that no work uses any more, or with
   `all` the first of any; NULL: none. *waits: the stamp of a freed block that had to stay. */
static struct vr_block *take_done(struct vr_pool *pool, bool all, struct vr_queue_stamp *waits) {
    struct vr_block *found = NULL;
    vr_mutex_lock(&pool->lock);
    for (struct vr_block **at = &pool->other_blocks; *at && !found;) {
        struct vr_block *block = *at;
        assert(vr_block_is_other(block)); /* (1) */
        bool freed = vr_load(&block->state, VR_RELAXED) == VR_BLOCK_FREE;
        if (all || (freed && vr_queue_state_passed(&pool->queue_states, block->freed))) {
            *at = block->span.after;
            found = block;
        } else {
            *waits = freed ? block->freed : *waits;
            at = &block->span.after;
        }
    }
    vr_mutex_unlock(&pool->lock);
    return found;
}

/* Drops the record of a block whose memory was released. */
static void block_forget(struct vr_pool *pool, struct vr_block *block) {
    vr_mutex_lock(&pool->lock);
    vr_span_drop(pool->spaces[VR_PART_LARGE], block);
    vr_mutex_unlock(&pool->lock);
}

/* Puts a block back into the list: the driver refused the release, which is tried again later. */
static void list_again(struct vr_pool *pool, struct vr_block *block) {
    vr_mutex_lock(&pool->lock);
    block->span.after = pool->other_blocks;
    pool->other_blocks = block;
    vr_mutex_unlock(&pool->lock);
}

void vr_fallback_reap(struct vr_pool *pool) {
    struct vr_queue_stamp waits = {{0}, 0}, asked = {{0}, 0};
    struct vr_block *block;
    struct vram_error error;
    if (!vr_load(&pool->has_other_blocks, VR_RELAXED)) {
        return;
    }
    vr_error_save(&error);
    for (;;) {
        while ((block = take_done(pool, false, &waits))) {
            if (!release_record(pool, block->span.record, block->span.kind == VR_SPAN_CHOSEN)) {
                list_again(pool, block);
                vr_error_restore(&error);
                return;
            }
            block_forget(pool, block);
        }
        if (!waits.queue.handle || vr_queue_id_same(waits.queue, asked.queue)) {
            break;
        }
        asked = waits;
        vr_pool_mark(pool, waits, false);
        (void)vr_pool_await(waits, 0); /* polls once */
    }
    vr_error_restore(&error);
}

void vr_fallback_end(struct vr_pool *pool) {
    struct vr_queue_stamp waits;
    for (struct vr_block *block; (block = take_done(pool, true, &waits));) {
        struct vr_record *record = block->span.record;
        bool chosen = block->span.kind == VR_SPAN_CHOSEN;
        if (!release_record(pool, record, chosen) && !release_record(pool, record, chosen)) {
            vr_log(VRAM_LOG_ERROR, "the driver refused to release %llu bytes of a pool",
                   (unsigned long long)vr_load(&record->bytes, VR_RELAXED));
            record_drop(record);
        }
        block_forget(pool, block);
    }
}
