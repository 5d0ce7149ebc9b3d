/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder_fallback.c: other memory than the device's, for pools whose option allows it; see ladder.h.
 *
 *  (1) A block of such memory is an allocation of its own, with a record of its own in the address map.
 *      It is in no space; its record is in the pool's list `fallen`, through span.after, from the
 *      moment it is handed out until the memory is given back.
 *  (2) It counts as held (block.h), so that a free passes every cache by and no other request gets it.
 *  (3) A free calls no driver: the block waits in the list, FREE, until its stamp has passed, and goes when
 *      the pool is drained the next time, or ends.
 *  (4) It is charged to no limit: the program has allowed what goes beyond.
 */
#include "core/ladder.h"

#include "base/error.h"
#include "base/log.h"
#include "base/os/os.h"
#include "base/size.h"
#include "core/limit.h"
#include "core/span.h"
#include "device/ops.h"

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
    bool drivers; /* the driver's, and counted as held through the device */
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

/* Gives the memory of a record that is in no map to whom it came from. */
static vram_status give_memory(struct vr_pool *pool, const struct kind *kind, vram_addr base,
                               uint64_t bytes) {
    vram_status status = kind->free(&pool->device->base, base, bytes);
    if (status == VRAM_OK && kind->drivers) {
        vr_held_sub(pool->device, bytes);
    }
    return status;
}

/* Memory of that kind, in the address map. */
static vram_status take_memory(struct vr_pool *pool, const struct kind *kind, uint64_t bytes,
                               struct vr_record **out) {
    static const char operation[] = "vram_alloc";
    vram_addr base = 0;
    uint64_t end;
    struct vr_record *record = vr_record_take(operation);
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = kind->alloc(&pool->device->base, bytes, &base);
    if (status == VRAM_OK && (!base || base % vr_os_page_bytes() || !vr_add(base, bytes, &end))) {
        status = vr_fail(VRAM_ERR_CORRUPT, operation,
                         "the driver reported success with the impossible address 0x%llx",
                         (unsigned long long)base);
    } else if (status == VRAM_OK) {
        if (kind->drivers) {
            vr_held_add(pool->device, bytes);
        }
        vr_store(&record->pool, pool->object.handle, VR_RELEASE);
        status = vr_record_publish(record, base, bytes, pool->device->object.handle, kind->kind,
                                   false, operation);
        if (status == VRAM_ERR_CORRUPT && kind->drivers) {
            vr_held_sub(pool->device, bytes); /* whose it is nobody knows: it is left alone */
        } else if (status != VRAM_OK) {
            struct vram_error error;
            vr_error_save(&error);
            (void)give_memory(pool, kind, base, bytes);
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

/* A block over the record's memory, which leaves for the program. Keeps (1) and (2). */
static vram_status make_block(struct vr_climb *climb, struct vr_record *record) {
    struct vr_pool *pool = climb->pool;
    const struct vr_request *request = climb->request;
    struct vr_space *space = pool->spaces[VR_PART_LARGE];
    uint64_t addr = vr_load(&record->base, VR_RELAXED);
    vr_mutex_lock(&pool->lock);
    vram_status status = vr_span_stock(space, 1);
    if (status == VRAM_OK) {
        status = vr_block_table_reserve(&pool->table);
    }
    if (status == VRAM_OK) {
        (void)vr_round_up(addr, request->align ? request->align : VR_UNIT, &addr);
        struct vr_block *block = vr_span_new(space, addr, request->bytes);
        block->span.kind = VR_SPAN_FALLEN;
        block->span.record = record;
        block->span.after = pool->fallen;
        pool->fallen = block;
        vr_pool_leave_space(pool, block, request->queue);
        vr_block_note_held(block);
        *climb->block = block;
    }
    vr_mutex_unlock(&pool->lock);
    return status;
}

/* Gives a record's memory back and forgets it; false, and all as it was, when that was refused. */
static bool give_record(struct vr_pool *pool, struct vr_record *record) {
    const struct kind *kind = kind_of(record);
    uint64_t base = vr_load(&record->base, VR_RELAXED);
    uint64_t bytes = vr_load(&record->bytes, VR_RELAXED);
    if (vr_load(&record->sequence, VR_RELAXED) % 2 == 0) {
        vr_record_withdraw(record);
    }
    if (give_memory(pool, kind, base, bytes) == VRAM_OK) {
        vr_record_give(record);
        return true;
    }
    return false; /* it is in no map any more, which nobody misses: its block was freed */
}

static vram_status fall_back(struct vr_climb *climb, const struct kind *kind) {
    struct vr_pool *pool = climb->pool;
    struct vr_record *record = NULL;
    uint64_t page = vr_os_page_bytes(), bytes = climb->request->bytes;
    uint64_t more = climb->request->align > page ? climb->request->align : 0;
    if (!vr_add(bytes, more, &bytes) || !vr_round_up(bytes, page, &bytes)) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = take_memory(pool, kind, bytes, &record);
    if (status == VRAM_OK && (status = make_block(climb, record)) != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        if (!give_record(pool, record)) {
            vr_log(VRAM_LOG_ERROR, "the driver refused to take back %llu bytes of a pool",
                   (unsigned long long)bytes);
            vr_record_give(record);
        }
        vr_error_restore(&error);
    }
    return status;
}

/* Any exhaustion leads to the next kind; another error ends the climb. */
bool vr_step_fallback(struct vr_climb *climb) {
    struct vr_pool *pool = climb->pool;
    uint32_t caps = pool->device->base.info.caps, allowed = climb->ladder.fallback;
    vram_status status = VRAM_ERR_LIMIT;
    bool any = false;
    if ((climb->request->flags & VR_REQUEST_AHEAD) || !vr_limit_falls_back(pool)) {
        return false; /* what is prepared ahead must be the pool's own memory */
    }
    for (unsigned i = 0; i < KIND_COUNT && vram_status_is_exhausted(status); i++) {
        if ((allowed & kinds[i].bit) && !(kinds[i].cap & ~caps)) {
            status = fall_back(climb, &kinds[i]);
            any = true;
        }
    }
    if (any && (status == VRAM_OK || !vram_status_is_exhausted(status))) {
        climb->tried = status;
    }
    if (status == VRAM_OK) {
        uint64_t bytes = vr_load(&(*climb->block)->bytes, VR_RELAXED);
        climb->rungs[climb->step].bytes += bytes;
        vr_tally(&pool->tally.fallbacks, 1);
        vr_tally(&pool->tally.fallback_bytes, bytes);
    }
    return any;
}

/* ------------------------------------------------------------------ giving back */

void vr_fallback_freed(struct vr_pool *pool, struct vr_block *block) {
    vr_fetch_sub(&pool->tally.fallback_bytes, vr_load(&block->bytes, VR_RELAXED), VR_RELAXED);
}

/* Takes the first block out of the list that was freed and that no work uses any more, or with `all` any;
   NULL: none. Its stamp tells what one waits for that could not be taken. */
static struct vr_block *take_done(struct vr_pool *pool, bool all, struct vr_stamp *waits) {
    struct vr_block *found = NULL;
    vr_mutex_lock(&pool->lock);
    for (struct vr_block **at = &pool->fallen; *at && !found;) {
        struct vr_block *block = *at;
        bool freed = vr_load(&block->state, VR_RELAXED) == VR_BLOCK_FREE;
        if (all || (freed && vr_lane_passed(&pool->lanes, block->stamp))) {
            *at = block->span.after;
            found = block;
        } else {
            *waits = freed ? block->stamp : *waits;
            at = &block->span.after;
        }
    }
    vr_mutex_unlock(&pool->lock);
    return found;
}

/* The record of a block whose memory is gone. */
static void forget(struct vr_pool *pool, struct vr_block *block) {
    vr_mutex_lock(&pool->lock);
    vr_span_drop(pool->spaces[VR_PART_LARGE], block);
    vr_mutex_unlock(&pool->lock);
}

/* The driver would not have it: it is tried again the next time. */
static void put_back(struct vr_pool *pool, struct vr_block *block) {
    vr_mutex_lock(&pool->lock);
    block->span.after = pool->fallen;
    pool->fallen = block;
    vr_mutex_unlock(&pool->lock);
}

void vr_fallback_reap(struct vr_pool *pool) {
    struct vr_stamp waits = {0, 0}, asked = {0, 0};
    struct vr_block *block;
    struct vram_error error;
    if (!vr_load(&pool->tally.fallbacks, VR_RELAXED)) {
        return;
    }
    vr_error_save(&error);
    for (;;) {
        while ((block = take_done(pool, false, &waits))) {
            if (!give_record(pool, block->span.record)) {
                put_back(pool, block);
                vr_error_restore(&error);
                return;
            }
            forget(pool, block);
        }
        if (!waits.queue || waits.queue == asked.queue) {
            break;
        }
        asked = waits;
        vr_pool_mark(pool, waits, false);
        (void)vr_pool_await(waits, 0); /* looks once */
    }
    vr_error_restore(&error);
}

void vr_fallback_end(struct vr_pool *pool) {
    struct vr_stamp waits;
    for (struct vr_block *block; (block = take_done(pool, true, &waits));) {
        struct vr_record *record = block->span.record;
        if (!give_record(pool, record) && !give_record(pool, record)) {
            vr_log(VRAM_LOG_ERROR, "the driver refused to take back %llu bytes of a pool",
                   (unsigned long long)vr_load(&record->bytes, VR_RELAXED));
            vr_record_give(record);
        }
        forget(pool, block);
    }
}
