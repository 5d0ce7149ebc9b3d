/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.c: releases memory on demand: trims, emergency cleanup, maintenance. mem/trim_calls.c has
 * the program's calls.
 *
 * Nothing here touches live blocks or their counters.
 */
#include "core/backing/backing.h"
#include "core/cache/drain.h"
#include "core/cache/stamp.h"
#include "core/object/walk.h"
#include "core/pressure/trim.h"

#include "base/error.h"

/* -------------------------------------------------------------------- a pool */

static uint64_t sub_or_zero(uint64_t before, uint64_t after) {
    return before > after ? before - after : 0;
}

void vr_count_cleanup(struct vr_pool *pool, uint64_t released) {
    vr_counter_add(&pool->counters.cleanups, 1);
    vr_counter_add(&pool->counters.cleaned_bytes, released);
    vr_store(&pool->counters.last_cleanup_ns, vr_pool_now(pool) + 1, VR_RELAXED);
}

vram_status vr_pool_trim(struct vr_pool *pool, uint64_t keep_bytes, uint64_t *released) {
    uint64_t before = vr_pool_reserved(pool);
    vram_status status = vr_pool_trim_to(pool, keep_bytes);
    *released = sub_or_zero(before, vr_pool_reserved(pool));
    vr_count_cleanup(pool, *released);
    return status;
}

/* Shrinks the part of large blocks first, as a trim does; what the driver refuses stays. */
static uint64_t shrink_to(struct vr_pool *pool, uint64_t keep_bytes) {
    uint64_t before = vr_pool_reserved(pool), held = before;
    struct vram_error error;
    vr_error_save(&error);
    vr_pool_poll(pool, true);
    bool calm = vr_pool_quiesce_begin(pool);
    for (int part = VR_PART_COUNT - 1; calm && part >= 0 && held > keep_bytes; part--) {
        vr_mutex_lock(&pool->lock);
        uint64_t own = vr_space_reserved(pool->spaces[part]);
        vr_mutex_unlock(&pool->lock);
        (void)vr_pool_shrink(pool, pool->spaces[part], sub_or_zero(own, held - keep_bytes));
        held = vr_pool_reserved(pool);
    }
    if (calm) {
        vr_pool_quiesce_end(pool);
    }
    vr_error_restore(&error);
    return sub_or_zero(before, held);
}

/* The most that the program needed of the pool in this interval and the one before; decay.c. */
static uint64_t recent_need(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    uint64_t needed = pool->pressure.needed_bytes, before = pool->pressure.needed_before;
    vr_mutex_unlock(&pool->lock);
    return needed > before ? needed : before;
}

uint64_t vr_pool_release_bytes(struct vr_pool *pool, uint64_t bytes) {
    uint64_t reserved = vr_pool_reserved(pool), keep = sub_or_zero(reserved, bytes);
    uint64_t needed = sub_or_zero(recent_need(pool), bytes);
    return bytes ? shrink_to(pool, keep > needed ? keep : needed) : 0;
}

/* ---------------------------------------------------------------- maintenance */

/* Whether maintenance is due; if so, this thread does it. */
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
    uint64_t needed = sub_or_zero(pool->pressure.needed_bytes, dropped);
    needed = needed > pool->out_bytes ? needed : pool->out_bytes;
    vr_mutex_unlock(&pool->lock);
    *released = shrink_to(pool, needed);
    vr_pool_restart_need(pool);
    vr_counter_add(&pool->counters.response_steps[VRAM_RESPONSE_MAINTAIN], 1);
    vr_counter_add(&pool->counters.response_bytes[VRAM_RESPONSE_MAINTAIN], dropped);
    vr_count_cleanup(pool, *released);
    return VRAM_OK;
}

/* --------------------------------------------------------------- by options */

/* Returns every cached block to the space. */
static uint64_t clear_caches(struct vr_pool *pool) {
    struct vr_survey survey;
    vr_decay_survey(pool, false, &survey);
    (void)vr_pool_drain(pool);
    vr_count_cleanup(pool, 0);
    return survey.all_bytes;
}

vram_status vr_pool_trim_by(struct vr_pool *pool, const struct vram_trim_options *options,
                            struct vr_trimmed *trimmed) {
    vram_status status = VRAM_OK;
    uint64_t bytes;
    if (options->flags & VRAM_TRIM_CACHES) {
        trimmed->to_pool += clear_caches(pool);
    }
    if (options->flags & VRAM_TRIM_RARE) {
        status = vr_pool_maintain(pool, options->interval_ns, &bytes);
        trimmed->to_driver += bytes;
    }
    if (status == VRAM_OK && options->flags & VRAM_TRIM_MEMORY) {
        status = vr_pool_trim(pool, options->keep_bytes, &bytes);
        trimmed->to_driver += bytes;
    }
    return status;
}

/* --------------------------------------------------------------- many pools */

uint64_t vr_spare(struct vr_context *context, const struct vr_slot *slot) {
    struct vr_device_object *device;
    uint64_t bytes = 0;
    for (uint64_t last = 0; (device = vr_device_behind(context, last)); vr_leave(device)) {
        last = device->object.handle;
        bytes += !slot || device->slot == slot ? vr_device_spare(device) : 0;
    }
    return bytes;
}

/* Trims all pools on a device (slot NULL: on all devices), to nothing or to what was needed lately.
   Releasing page-locked memory is expensive and does not help a device. */
static uint64_t trim_pools(struct vr_context *context, const struct vr_slot *slot,
                           bool keep_needed) {
    struct vr_walk walk = {.context = context, .slot = slot};
    uint64_t released, bytes;
    struct vram_error error;
    vr_error_save(&error);
    released = slot ? 0 : vr_spare(context, NULL);
    for (struct vr_pool *pool; (pool = vr_walk_next(&walk)); vr_leave(pool)) {
        if (!(pool->flags & VRAM_POOL_DETERMINISTIC) &&
            (!slot || pool->kind != VRAM_MEMORY_PINNED)) {
            (void)vr_pool_trim(pool, keep_needed ? recent_need(pool) : 0, &bytes);
            released += bytes;
        }
    }
    vr_error_restore(&error);
    return released;
}

uint64_t vr_device_cleanup(struct vr_device_object *device) {
    return trim_pools(device->context, device->slot, false);
}

uint64_t vr_device_relieve(struct vr_device_object *device) {
    return trim_pools(device->context, device->slot, true);
}

uint64_t vr_context_cleanup(struct vr_context *context) {
    return trim_pools(context, NULL, false);
}
