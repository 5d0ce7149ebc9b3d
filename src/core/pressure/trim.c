/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trim.c: releases free memory of a pool to the driver.
 */
#include "core/pressure/trim.h"
#include "core/backing/backing.h"
#include "core/cache/drain.h"
#include "core/cache/stamp.h"

#include "device/quiesce.h"

#include <assert.h>

uint64_t vr_pool_reserved(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    uint64_t bytes = vr_space_reserved(pool->spaces[VR_PART_SMALL]) +
                     vr_space_reserved(pool->spaces[VR_PART_LARGE]);
    vr_mutex_unlock(&pool->lock);
    return bytes;
}

/* out_bytes has blocks that hold nothing of the pool's: other memory, and what is asleep. */
uint64_t vr_pool_idle_bytes(const struct vr_pool *pool) {
    const struct vr_pool_counters *counters = &pool->counters;
    assert(vr_pool_is_locked(pool));
    uint64_t held = vr_space_reserved(pool->spaces[VR_PART_SMALL]) +
                    vr_space_reserved(pool->spaces[VR_PART_LARGE]) + pool->central.held_bytes +
                    vr_load(&counters->fallback_bytes, VR_RELAXED) +
                    vr_load(&counters->other_bytes, VR_RELAXED);
    return held > pool->out_bytes ? held - pool->out_bytes : 0;
}

/* Shrinks one part to what the other part leaves of `keep_bytes`. */
static vram_status shrink_part(struct vr_pool *pool, int part, uint64_t keep_bytes) {
    vr_mutex_lock(&pool->lock);
    uint64_t other = vr_space_reserved(pool->spaces[!part]);
    vr_mutex_unlock(&pool->lock);
    return vr_pool_shrink(pool, pool->spaces[part], keep_bytes > other ? keep_bytes - other : 0);
}

vram_status vr_pool_shrink_to(struct vr_pool *pool, uint64_t keep_bytes) {
    vram_status status = VRAM_OK;
    for (int part = VR_PART_COUNT; part-- > 0 && status == VRAM_OK;) {
        status = shrink_part(pool, part, keep_bytes);
    }
    return status;
}

static bool driver_waits(const struct vr_pool *pool) {
    return pool->kind == VRAM_MEMORY_PINNED && pool->device->base.pageable_waits &&
           !(pool->flags & VRAM_POOL_DETERMINISTIC);
}

bool vr_pool_quiesce_begin(struct vr_pool *pool) {
    return !driver_waits(pool) || vr_quiesce_begin(pool->device);
}

void vr_pool_quiesce_end(struct vr_pool *pool) {
    if (driver_waits(pool)) {
        vr_quiesce_end(pool->device);
    }
}

vram_status vr_pool_trim_to(struct vr_pool *pool, uint64_t keep_bytes) {
    vram_status status = VRAM_OK;
    (void)vr_guard_release(pool);
    (void)vr_pool_drain(pool);
    if (pool->flags & VRAM_POOL_DETERMINISTIC) {
        status = vr_pool_finish(pool);
    } else {
        vr_pool_poll(pool, true);
    }
    if (status == VRAM_OK && vr_pool_quiesce_begin(pool)) {
        status = vr_pool_shrink_to(pool, keep_bytes);
        vr_pool_quiesce_end(pool);
    }
    return status;
}
