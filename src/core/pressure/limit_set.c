/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit_set.c: sets limits. They apply at once: free memory above them is released.
 */
#include "core/cache/drain.h"
#include "core/cache/stamp.h"
#include "core/limit/budget.h"
#include "core/object/walk.h"
#include "core/pressure/trim.h"

#include "base/error.h"
#include "device/quiesce.h"

/* Whether the driver would wait for work before it frees a segment. */
static bool segments_wait(const struct vr_pool *pool) {
    return !pool->range && !pool->provider.alloc && pool->device->base.pageable_waits;
}

static void release_idle(struct vr_pool *pool, uint64_t most) {
    bool waits = segments_wait(pool);
    struct vram_error error;
    vr_error_save(&error);
    (void)vr_pool_drain(pool);
    vr_pool_poll(pool, true);
    if (!waits || vr_quiesce_begin(pool->device)) {
        vr_mutex_lock(&pool->lock);
        vr_pool_settle(pool);
        uint64_t idle = vr_pool_idle_bytes(pool), excess = idle > most ? idle - most : 0;
        vr_mutex_unlock(&pool->lock);
        uint64_t held = vr_pool_reserved(pool);
        (void)vr_pool_shrink_to(pool, held > excess ? held - excess : 0);
        if (waits) {
            vr_quiesce_end(pool->device);
        }
    }
    vr_error_restore(&error); /* what the driver refuses stays, and is tried again */
}

enum { IDLE_CALLS = 64 }; /* see is_due */

/* A release is tried when the idle bytes exceed the limit by an eighth of it (`now`: at all).
   Unfinished work may keep the memory, and a free must stay cheap meanwhile: then it is tried again
   with each further eighth, and at calls number 1, 2, 4, ... 64, 128, 192, ... since then. Under
   the lock. */
static bool is_due(struct vr_pool *pool, uint64_t most, bool now) {
    uint64_t idle = vr_pool_idle_bytes(pool), step = now ? 0 : most / 8;
    uint64_t *tried = &pool->idle_tried_bytes, *calls = &pool->idle_calls;
    *tried = now || idle < *tried ? 0 : *tried;
    if (idle <= most || idle - most <= step) {
        *calls = 0;
        return false;
    }
    bool again = *tried && (++*calls % IDLE_CALLS == 0 || (*calls & (*calls - 1)) == 0);
    return again || idle - most > step + (*tried > most ? *tried - most : 0);
}

/* Not in a deterministic pool, whose addresses would depend on the moment. */
static void trim_idle(struct vr_pool *pool, bool now) {
    uint64_t most = vr_load(&pool->caps.cached_bytes, VR_RELAXED);
    if (most == VRAM_LIMIT_NONE || (pool->flags & VRAM_POOL_DETERMINISTIC)) {
        return;
    }
    vr_mutex_lock(&pool->lock);
    bool due = is_due(pool, most, now);
    vr_mutex_unlock(&pool->lock);
    if (due) {
        release_idle(pool, most);
        vr_mutex_lock(&pool->lock);
        pool->idle_tried_bytes = vr_pool_idle_bytes(pool);
        vr_mutex_unlock(&pool->lock);
    }
}

void vr_limit_trim_cached(struct vr_pool *pool) {
    trim_idle(pool, false);
}

/* Releases free memory that exceeds the new limits. */
static void fit_pool(struct vr_pool *pool) {
    struct vram_error error;
    vr_error_save(&error);
    vr_budget_refresh(pool, true);
    if (vr_load(&pool->caps.all_blocks, VR_RELAXED)) {
        (void)vr_pool_drain(pool); /* they may be fewer than before */
    }
    struct vr_budget budget = vr_budget_get(pool);
    if (budget.held_bytes > budget.bytes) {
        (void)vr_pool_trim_to(pool, budget.bytes);
    }
    trim_idle(pool, true);
    vr_error_restore(&error);
}

static void fit_pools(const struct vr_device_object *device) {
    struct vr_walk walk = {.context = device->context, .account = device->slot->account};
    for (struct vr_pool *pool; (pool = vr_walk_next(&walk)); vr_leave(pool)) {
        fit_pool(pool);
    }
}

static vram_status too_much(uint64_t held, uint64_t most) {
    return vr_fail(VRAM_ERR_LIMIT,
                   "%llu bytes are in use and the limit is now %llu: the limit is in force, and "
                   "allocations fail until fewer are in use",
                   (unsigned long long)held, (unsigned long long)most);
}

vram_status vram_pool_limits_set(vram_pool *handle, const vram_limits *limits) {
    VR_CALL;
    struct vram_limits taken;
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    status = vr_limits_take(&taken, limits);
    if (status == VRAM_OK) {
        struct vr_ledger *ledger = vr_ledger_of(pool->device);
        vr_mutex_lock(&ledger->lock);
        pool->limits = taken;
        vr_store(&pool->caps.generation, 0, VR_RELEASE);
        vr_mutex_unlock(&ledger->lock);
        fit_pool(pool);
        struct vr_budget budget = vr_budget_get(pool);
        if (budget.held_bytes > budget.bytes) {
            status = too_much(budget.held_bytes, budget.bytes);
        }
    }
    vr_leave(pool);
    return status;
}

vram_status vram_device_limits_set(vram_device *handle, const vram_limits *limits) {
    VR_CALL;
    struct vram_limits taken;
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    struct vr_ledger *ledger = NULL;
    status = vr_limits_take(&taken, limits);
    if (status == VRAM_OK && !(ledger = vr_ledger_get(device))) {
        status = vr_error_get()->status;
    }
    if (status == VRAM_OK) {
        uint64_t hard = taken.hard_bytes == VRAM_LIMIT_NONE ? 0 : taken.hard_bytes;
        vr_mutex_lock(&ledger->lock);
        ledger->limits = taken;
        vr_store(&device->slot->account->limit_bytes, hard, VR_RELAXED);
        vr_fetch_add(&ledger->generation, 1, VR_ACQ_REL);
        vr_mutex_unlock(&ledger->lock);
        vr_sample_refresh(device, true);
        fit_pools(device);
        uint64_t held = vr_load(&device->slot->account->charged_bytes, VR_RELAXED);
        uint64_t most = vr_limit_device_bytes(device, ledger);
        status = held > most ? too_much(held, most) : VRAM_OK;
    }
    vr_leave(device);
    return status;
}
