/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.c: giving memory back on demand: shrink, clear, emergency cleanup, maintenance, and what there
 * would be to give.
 *
 * Nothing here touches a live block or what is counted of it.
 */
#include "core/pool/walk.h"

#include "base/error.h"

/* -------------------------------------------------------------------- a pool */

uint64_t vr_pool_reserved(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    uint64_t bytes = vr_space_reserved(pool->spaces[VR_PART_SMALL]) +
                     vr_space_reserved(pool->spaces[VR_PART_LARGE]);
    vr_mutex_unlock(&pool->lock);
    return bytes;
}

static uint64_t less(uint64_t before, uint64_t after) {
    return before > after ? before - after : 0;
}

static void count_cleanup(struct vr_pool *pool, uint64_t released) {
    vr_tally(&pool->tally.cleanups, 1);
    vr_tally(&pool->tally.cleaned_bytes, released);
    vr_store(&pool->tally.last_cleanup_ns, vr_pool_now(pool) + 1, VR_RELAXED);
}

vram_status vr_pool_trim(struct vr_pool *pool, uint64_t keep_bytes, uint64_t *released) {
    uint64_t before = vr_pool_reserved(pool);
    vram_status status = vr_pool_trim_to(pool, keep_bytes);
    *released = less(before, vr_pool_reserved(pool));
    count_cleanup(pool, *released);
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

void vr_pool_need_anew(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    pool->pressure.needed_before = pool->pressure.needed_bytes;
    pool->pressure.needed_bytes = pool->out_bytes;
    vr_mutex_unlock(&pool->lock);
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
    count_cleanup(pool, *released);
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

/* Shrinks all pools on a device (slot NULL: on all devices); the first failure. `ours`: not on behalf of the
   program, which then has to wait for nothing. Page-locked memory is dear, and giving it back is no help to a
   device. */
static vram_status cleanup(struct vr_context *context, const struct vr_slot *slot, bool ours,
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
    (void)cleanup(context, slot, true, &released);
    vr_error_restore(&error);
    return released;
}

uint64_t vr_device_cleanup(struct vr_device_object *device) {
    return clean_quietly(device->context, device->slot);
}

uint64_t vr_context_cleanup(struct vr_context *context) {
    return clean_quietly(context, NULL);
}

/* ------------------------------------------------------------- fragmentation */

static vram_fragmentation_level level_of(double value) {
    return value >= 0.50   ? VRAM_FRAGMENTATION_HIGH
           : value >= 0.25 ? VRAM_FRAGMENTATION_MEDIUM
                           : VRAM_FRAGMENTATION_LOW;
}

void vr_pool_measure(struct vr_pool *pool, struct vram_fragmentation *found) {
    struct vr_survey survey;
    struct vr_space_stats space;
    vr_decay_survey(pool, false, &survey);
    *found = (struct vram_fragmentation){.size = sizeof *found,
                                         .cached_bytes = survey.all_bytes,
                                         .rare_bytes = survey.rare_bytes,
                                         .types = survey.types,
                                         .rare_types = survey.rare_types};
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_space_stats_get(pool->spaces[part], &space);
        found->free_bytes += space.hole_bytes + space.spare_bytes;
        if (space.largest_hole_bytes > found->largest_free_bytes) {
            found->largest_free_bytes = space.largest_hole_bytes;
        }
    }
    vr_mutex_unlock(&pool->lock);
    if (found->free_bytes) {
        found->scattered = 1 - (double)found->largest_free_bytes / (double)found->free_bytes;
    }
    if (found->cached_bytes) {
        found->rare = (double)found->rare_bytes / (double)found->cached_bytes;
    }
    found->level = level_of(found->scattered > found->rare ? found->scattered : found->rare);
}

double vr_pool_fragmentation(struct vr_pool *pool) {
    struct vram_fragmentation found;
    vr_pool_measure(pool, &found);
    return found.scattered > found.rare ? found.scattered : found.rare;
}

vram_status vram_pool_fragmentation_get(vram_pool *handle, vram_fragmentation *fragmentation) {
    static const char operation[] = "vram_pool_fragmentation_get";
    struct vram_fragmentation full;
    void *pool;
    vram_status status = vr_enter(VR_KIND_POOL, handle, operation, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    vr_pool_measure(pool, &full);
    status = vr_info_give(fragmentation, &full, sizeof full, sizeof full, operation);
    vr_leave(pool);
    return status;
}

/* -------------------------------------------------------------------- public */

/* Enters for a call that answers with a number of bytes. */
static vram_status enter(enum vr_kind kind, const void *handle, const uint64_t *place,
                         const char *operation, void **entered) {
    if (!place) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the bytes is NULL");
    }
    return vr_enter(kind, handle, operation, entered);
}

vram_status vram_pool_shrink(vram_pool *handle, uint64_t *released) {
    uint64_t bytes = 0;
    void *pool;
    vram_status status = enter(VR_KIND_POOL, handle, released, "vram_pool_shrink", &pool);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_pool_trim(pool, 0, &bytes);
    vr_pressure_note(pool, false);
    vr_leave(pool);
    if (status == VRAM_OK) {
        *released = bytes;
    }
    return status;
}

vram_status vram_pool_clear(vram_pool *handle, uint64_t *cached) {
    struct vr_survey survey;
    void *pool;
    vram_status status = enter(VR_KIND_POOL, handle, cached, "vram_pool_clear", &pool);
    if (status == VRAM_OK) {
        vr_decay_survey(pool, false, &survey);
        vr_pool_drain(pool);
        count_cleanup(pool, 0);
        *cached = survey.all_bytes;
        vr_leave(pool);
    }
    return status;
}

vram_status vram_pool_maintain(vram_pool *handle, uint64_t interval_ns, uint64_t *released) {
    void *pool;
    vram_status status = enter(VR_KIND_POOL, handle, released, "vram_pool_maintain", &pool);
    if (status == VRAM_OK) {
        status = vr_pool_maintain(pool, interval_ns, released);
        vr_pressure_tick(pool, false);
        vr_leave(pool);
    }
    return status;
}

vram_status vram_device_cleanup(vram_device *handle, uint64_t *released) {
    void *entered;
    vram_status status = enter(VR_KIND_DEVICE, handle, released, "vram_device_cleanup", &entered);
    if (status == VRAM_OK) {
        struct vr_device_object *device = entered;
        status = cleanup(device->context, device->slot, false, released);
        vr_leave(device);
    }
    return status;
}

vram_status vram_context_cleanup(vram_context *handle, uint64_t *released) {
    void *context;
    vram_status status = enter(VR_KIND_CONTEXT, handle, released, "vram_context_cleanup", &context);
    if (status == VRAM_OK) {
        status = cleanup(context, NULL, false, released);
        vr_leave(context);
    }
    return status;
}
