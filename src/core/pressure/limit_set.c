/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit_set.c: sets limits. They apply at once: free memory above them is released.
 */
#include "core/limit/budget.h"
#include "core/object/walk.h"
#include "core/pressure/trim.h"

#include "base/error.h"

static bool keeps_too_much(struct vr_pool *pool, uint64_t most, uint64_t *keep_bytes) {
    vr_mutex_lock(&pool->lock);
    uint64_t reserved = vr_space_reserved(pool->spaces[VR_PART_SMALL]) +
                        vr_space_reserved(pool->spaces[VR_PART_LARGE]);
    uint64_t out = pool->out_bytes;
    vr_mutex_unlock(&pool->lock);
    *keep_bytes = out + most;
    return reserved > out && reserved - out > most;
}

/* Not in a deterministic pool, whose addresses would depend on the moment. */
void vr_limit_trim_cached(struct vr_pool *pool) {
    uint64_t most = vr_load(&pool->caps.cached_bytes, VR_RELAXED), keep;
    struct vram_error error;
    if (most == VRAM_LIMIT_NONE || (pool->flags & VRAM_POOL_DETERMINISTIC) ||
        !keeps_too_much(pool, most, &keep)) {
        return;
    }
    vr_error_save(&error);
    if (vr_pool_quiesce_begin(pool)) {
        (void)vr_pool_shrink_to(pool, keep);
        vr_pool_quiesce_end(pool);
    }
    vr_error_restore(&error);
}

/* Releases free memory that exceeds the new limits. */
static void fit_pool(struct vr_pool *pool) {
    struct vram_error error;
    vr_error_save(&error);
    vr_budget_refresh(pool, true);
    struct vr_budget budget = vr_budget_get(pool);
    if (budget.held_bytes > budget.bytes) {
        (void)vr_pool_trim_to(pool, budget.bytes);
    }
    vr_limit_trim_cached(pool);
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
