/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure.c: when the pressure of a pool is checked.
 *
 * A hit checks nothing. A miss only counts. Every sixteenth miss, and every one that changed what
 * the pool holds, reads the clock and does what is due: a tick of the decay, and a check of the
 * pressure with its notifications and responses.
 */
#include "core/limit/budget.h"
#include "core/object/pool_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/option.h"
#include "device/ops.h"

enum {
    PASSES = 16, /* misses between two reads of the clock if nothing has changed */
    ROUNDS = 8   /* checks in one call while callbacks keep changing things */
};

/* ------------------------------------------------------------------- noting */

/* Counts the levels between the last one and this; keeps pressure_state.h (1). Levels fall with
   hysteresis, so the counts match the notifications. */
static void count_levels(struct vr_pool *pool, const struct vram_pressure *p) {
    uint32_t *level = &pool->pressure.level;
    uint32_t now = vr_pressure_level_after(*level, p, vr_rules_of(pool).hysteresis);
    for (; *level < now; ++*level) {
        if (*level >= VRAM_PRESSURE_LOW) { /* becoming known is no rise */
            vr_counter_add(&pool->counters.rises[*level + 1], 1);
        }
    }
    for (; *level > now; --*level) {
        vr_counter_add(&pool->counters.falls[*level - 1], 1);
    }
}

static bool note_once(struct vr_pool *pool, bool fresh) {
    struct vram_pressure now, device;
    vr_store(&pool->pressure.noted, vr_load(&pool->pressure.changes, VR_RELAXED), VR_RELAXED);
    vr_pressure_of_pool(pool, fresh, &now);
    count_levels(pool, &now);
    vr_watches_notify(pool->device, pool, &now);
    if (vr_pool_on_device(pool)) {
        vr_pressure_of_device(pool->device, &now, &device);
        vr_watches_notify(pool->device, NULL, &device);
    }
    /* A callback may have destroyed the pool. */
    return vr_pool_is_open(pool) && vr_response_take(pool, &now);
}

void vr_pressure_note(struct vr_pool *pool, bool fresh) {
    struct vr_pool_pressure *state = &pool->pressure;
    struct vram_error error;
    if (vr_exchange(&state->notifying, true, VR_ACQ_REL)) {
        vr_store(&state->again, true, VR_RELEASE);
        return;
    }
    vr_error_save(&error);
    bool again = true;
    for (int round = 0; again && round < ROUNDS; round++) {
        vr_store(&state->again, false, VR_RELEASE);
        bool acted = note_once(pool, fresh || round > 0);
        again = vr_pool_is_open(pool) && (acted || vr_load(&state->again, VR_ACQUIRE));
    }
    vr_store(&state->notifying, false, VR_RELEASE);
    vr_error_restore(&error);
}

/* Whether `ns` have passed since *last; true for one of several threads. */
static bool is_due(vr_atomic_u64 *last, uint64_t now, uint64_t ns) {
    uint64_t seen = vr_load(last, VR_RELAXED);
    return now >= seen && now - seen >= ns && vr_cas(last, &seen, now, VR_ACQ_REL);
}

static void decay_tick(struct vr_pool *pool) {
    uint64_t bytes = vr_decay_tick(pool);
    vr_pool_restart_need(pool);
    vr_counter_add(&pool->counters.response_steps[VRAM_RESPONSE_DECAY], 1);
    vr_counter_add(&pool->counters.response_bytes[VRAM_RESPONSE_DECAY], bytes);
}

void vr_pressure_tick(struct vr_pool *pool, bool always) {
    struct vr_pool_pressure *state = &pool->pressure;
    uint64_t now = vr_pool_now(pool);
    bool changed = vr_load(&state->changes, VR_RELAXED) != vr_load(&state->noted, VR_RELAXED);
    bool timeless = pool->flags & VRAM_POOL_DETERMINISTIC;
    if (!timeless && is_due(&state->ticked_ns, now, vr_rules_of(pool).decay_ns)) {
        decay_tick(pool);
    }
    if (is_due(&state->checked_ns, now, vr_ledger_of(pool->device)->sample_ns) || changed ||
        always) {
        vr_pressure_note(pool, always);
    }
}

bool vr_pressure_is_due(struct vr_pool *pool) {
    struct vr_pool_pressure *state = &pool->pressure;
    bool changed = vr_load(&state->changes, VR_RELAXED) != vr_load(&state->noted, VR_RELAXED);
    uint64_t passes = vr_load(&state->passes, VR_RELAXED);
    if (!changed) { /* concurrent misses may be lost, which is harmless */
        vr_store(&state->passes, passes + 1, VR_RELAXED);
    }
    return changed || passes % PASSES == 0;
}

void vr_pressure_on_miss(struct vr_pool *pool) {
    if (vr_pressure_is_due(pool)) {
        vr_pressure_tick(pool, false);
    }
}

vram_status vr_pressure_begin(struct vr_pool *pool, const struct vram_response_options *options) {
    struct vr_pool_pressure *state = &pool->pressure;
    uint64_t now = vr_pool_now(pool);
    vram_status status = vr_rules_read(options, &state->rules);
    vr_store(&state->ticked_ns, now, VR_RELAXED);
    vr_store(&state->checked_ns, now, VR_RELAXED);
    return status;
}

/* ------------------------------------------------------------------- public */

vram_status vram_pool_pressure_get(vram_pool *handle, vram_pressure *pressure) {
    VR_CALL;
    struct vram_pressure full;
    void *pool;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    vr_pressure_tick(pool, true);
    vr_pressure_of_pool(pool, true, &full);
    status = vr_info_give(pressure, &full, sizeof full, sizeof full);
    vr_leave(pool);
    return status;
}

vram_status vram_device_pressure_get(vram_device *handle, vram_pressure *pressure) {
    VR_CALL;
    struct vram_pressure full;
    void *device;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    vr_pressure_of_device(device, NULL, &full);
    vr_watches_notify(device, NULL, &full);
    status = vr_info_give(pressure, &full, sizeof full, sizeof full);
    vr_leave(device);
    return status;
}
