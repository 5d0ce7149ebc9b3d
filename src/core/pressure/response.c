/* SPDX-License-Identifier: Apache-2.0 */
/*
 * response.c: what a pool does by itself when memory runs low, as vram_response_options says.
 *
 * It acts on cached memory only and takes each step once per crossing of its threshold. So a
 * program that always runs near its limit does not refill its caches again and again.
 */
#include "core/object/pool_object.h"

#include "base/error.h"
#include "base/option.h"

/* --------------------------------------------------------------------- steps */

static bool is_on(const struct vr_rules *rules, vram_response_step step) {
    return !(rules->off & (UINT32_C(1) << step));
}

static void count_step(struct vr_pool *pool, vram_response_step step, uint64_t bytes) {
    vr_counter_add(&pool->counters.response_steps[step], 1);
    vr_counter_add(&pool->counters.response_bytes[step], bytes);
}

static bool is_high(const struct vram_pressure *p) {
    return p->known && p->value >= vr_pressure_level_begin(VRAM_PRESSURE_HIGH);
}

/* Whether a step is due now that pressure is `above` its threshold, or `below` it by the
   hysteresis. */
static bool is_due(bool above, bool below, bool *done, uint64_t *last, uint64_t now,
                   uint64_t interval) {
    *done = *done && !below;
    bool due = above && !*done && (!*last || now - (*last - 1) >= interval);
    if (due) {
        *done = true;
        *last = now + 1;
    }
    return due;
}

static void respond_to_high(struct vr_pool *pool, const struct vr_rules *rules) {
    struct vram_pressure now;
    struct vr_survey survey;
    if (is_on(rules, VRAM_RESPONSE_HALVE)) {
        uint64_t bytes = vr_decay_halve(pool);
        vr_pool_release_bytes(pool, bytes);
        count_step(pool, VRAM_RESPONSE_HALVE, bytes);
    }
    vr_pressure_of_pool(pool, true, &now);
    if (is_on(rules, VRAM_RESPONSE_DROP) && is_high(&now)) {
        vr_decay_survey(pool, true, &survey);
        uint64_t bytes = vr_decay_drop(pool, &survey);
        vr_pool_release_bytes(pool, bytes);
        count_step(pool, VRAM_RESPONSE_DROP, bytes);
    }
}

bool vr_response_take(struct vr_pool *pool, const struct vram_pressure *p) {
    struct vr_response *response = &pool->pressure.response;
    const struct vr_rules copy = vr_rules_of(pool), *rules = &copy;
    double high = vr_pressure_level_begin(VRAM_PRESSURE_HIGH);
    struct vram_pressure now = *p;
    bool acted = false;
    if (!p->known || (pool->flags & VRAM_POOL_DETERMINISTIC)) {
        return false;
    }
    uint64_t ns = vr_pool_now(pool);
    if (is_due(is_high(p), p->value < high - rules->hysteresis, &response->high_done,
               &response->high_ns, ns, rules->interval_ns)) {
        respond_to_high(pool, rules);
        vr_pressure_of_pool(pool, true, &now);
        acted = true;
    }
    if (is_due(now.value > rules->emergency, now.value < rules->emergency - rules->hysteresis,
               &response->emergency_done, &response->emergency_ns, ns, rules->interval_ns) &&
        is_on(rules, VRAM_RESPONSE_EMERGENCY)) {
        count_step(pool, VRAM_RESPONSE_EMERGENCY, vr_device_relieve(pool->device));
        acted = true;
    }
    return acted;
}
