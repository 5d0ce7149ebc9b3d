/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.c: giving memory back on demand: shrink, clear, emergency cleanup, maintenance, and what
 * there would be to give.
 *
 * Nothing here touches a live block or what is counted of it.
 */
#include "core/backing/backing.h"
#include "core/cache/stamp.h"
#include "core/object/walk.h"
#include "core/pressure/trim.h"

#include "base/error.h"

/* -------------------------------------------------------------------- a pool */

static uint64_t less(uint64_t before, uint64_t after) {
    return before > after ? before - after : 0;
}

void vr_count_cleanup(struct vr_pool *pool, uint64_t released) {
    vr_tally(&pool->tally.cleanups, 1);
    vr_tally(&pool->tally.cleaned_bytes, released);
    vr_store(&pool->tally.last_cleanup_ns, vr_pool_now(pool) + 1, VR_RELAXED);
}

vram_status vr_pool_trim(struct vr_pool *pool, uint64_t keep_bytes, uint64_t *released) {
    uint64_t before = vr_pool_reserved(pool);
    vram_status status = vr_pool_trim_to(pool, keep_bytes);
    *released = less(before, vr_pool_reserved(pool));
    vr_count_cleanup(pool, *released);
    return status;
}

/* Large blocks first, as a trim does; what the driver refuses stays. */
static uint64_t shrink_to(struct vr_pool *pool, uint64_t keep_bytes) {
    uint64_t before = vr_pool_reserved(pool), held = before;
    struct vram_error error;
    vr_error_save(&error);
    vr_pool_look(pool, true);
    bool calm = vr_pool_calm_begin(pool);
    for (int part = VR_PART_COUNT; calm && part-- > 0 && held > keep_bytes;) {
        vr_mutex_lock(&pool->lock);
        uint64_t own = vr_space_reserved(pool->spaces[part]);
        vr_mutex_unlock(&pool->lock);
        (void)vr_pool_shrink(pool, pool->spaces[part], less(own, held - keep_bytes));
        held = vr_pool_reserved(pool);
    }
    if (calm) {
        vr_pool_calm_end(pool);
    }
    vr_error_restore(&error);
    return less(before, held);
}

uint64_t vr_pool_give_back(struct vr_pool *pool, uint64_t bytes) {
    vr_mutex_lock(&pool->lock);
    uint64_t needed = pool->pressure.needed_bytes;
    uint64_t before = pool->pressure.needed_before;
    vr_mutex_unlock(&pool->lock);
    uint64_t reserved = vr_pool_reserved(pool), keep = less(reserved, bytes);
    needed = needed > before ? needed : before;
    needed = less(needed, bytes);
    return bytes ? shrink_to(pool, keep > needed ? keep : needed) : 0;
}

/* ---------------------------------------------------------------- maintenance */

/* Whether it is due; then this thread is the one to do it. */
static bool is_due(struct vr_pool *pool, uint64_t interval_ns) {
    vr_atomic_u64 *last = &pool->pressure.maintained_ns;
    uint64_t seen = vr_load(last, VR_RELAXED), now = vr_pool_now(pool);
    return (!seen || now - (seen - 1) >= interval_ns) && vr_cas(last, &seen, now + 1, VR_ACQ_REL);
}

vram_status vr_pool_maintain(struct vr_pool *pool, uint64_t interval_ns, uint64_t *released) {
    struct vr_survey survey;
    *released = 0;
    if ((pool->flags & VRAM_POOL_DETERMINISTIC) || !is_due(pool, interval_ns)) {
        return VRAM_OK;
    }
    vr_decay_survey(pool, true, &survey);
    uint64_t dropped = vr_decay_drop(pool, &survey);
    vr_mutex_lock(&pool->lock);
    uint64_t needed = less(pool->pressure.needed_bytes, dropped);
    needed = needed > pool->out_bytes ? needed : pool->out_bytes;
    vr_mutex_unlock(&pool->lock);
    *released = shrink_to(pool, needed);
    vr_pool_need_anew(pool);
    vr_tally(&pool->tally.response_steps[VRAM_RESPONSE_MAINTAIN], 1);
    vr_tally(&pool->tally.response_bytes[VRAM_RESPONSE_MAINTAIN], dropped);
    vr_count_cleanup(pool, *released);
    return VRAM_OK;
}

/* --------------------------------------------------------------- many pools */

/* What is kept beside pools, on a device or on all of them. */
static uint64_t spare(struct vr_context *context, const struct vr_slot *slot) {
    struct vr_device_object *device;
    uint64_t bytes = 0;
    for (uint64_t last = 0; (device = vr_device_behind(context, last)); vr_leave(device)) {
        last = device->object.handle;
        bytes += !slot || device->slot == slot ? vr_device_spare(device) : 0;
    }
    return bytes;
}

vram_status vr_cleanup(struct vr_context *context, const struct vr_slot *slot, bool ours,
                       uint64_t *released) {
    struct vr_walk walk = {.context = context, .slot = slot};
    vram_status first = VRAM_OK;
    struct vram_error error;
    bool for_device = ours && slot;
    *released = for_device ? 0 : spare(context, slot);
    for (struct vr_pool *pool; (pool = vr_walk_next(&walk)); vr_leave(pool)) {
        uint64_t bytes = 0;
        if ((ours && (pool->flags & VRAM_POOL_DETERMINISTIC)) ||
            (for_device && pool->kind == VRAM_MEMORY_PINNED)) {
            continue;
        }
        vram_status status = vr_pool_trim(pool, 0, &bytes);
        *released += bytes;
        if (first == VRAM_OK && status != VRAM_OK) {
            first = status;
            vr_error_save(&error);
        }
    }
    if (first != VRAM_OK) {
        vr_error_restore(&error);
    }
    return first;
}

static uint64_t clean_quietly(struct vr_context *context, const struct vr_slot *slot) {
    struct vram_error error;
    uint64_t released;
    vr_error_save(&error);
    (void)vr_cleanup(context, slot, true, &released);
    vr_error_restore(&error);
    return released;
}

uint64_t vr_device_cleanup(struct vr_device_object *device) {
    return clean_quietly(device->context, device->slot);
}

uint64_t vr_context_cleanup(struct vr_context *context) {
    return clean_quietly(context, NULL);
}
