/* SPDX-License-Identifier: Apache-2.0 */
/*
 * response.c: what a pool does by itself when memory runs low: vram_response_options says what.
 *
 * It acts on cached memory only and takes each step once per crossing of its threshold: a program that runs
 * near its limit all the time is not made to fill its caches again and again.
 */
#include "core/pool/pool_object.h"

#include "base/error.h"
#include "base/option.h"

/* ------------------------------------------------------------------- options */

double vr_pressure_option(enum vr_option option) {
    return (double)vr_option_number(option) / 1e6;
}

vram_status vr_pressure_thresholds(double warn, double emergency, double hysteresis,
                                   const char *operation) {
    /* Written so that what is no number fails. */
    if (!(warn > 0 && warn <= emergency && emergency <= 1)) {
        return vr_fail(
            VRAM_ERR_INVALID, operation,
            "thresholds are above 0, at most 1 and in order: 0 < warn <= emergency <= 1");
    }
    if (!(hysteresis >= 0 && hysteresis < warn)) {
        return vr_fail(VRAM_ERR_INVALID, operation,
                       "the hysteresis is at least 0 and below the lowest threshold");
    }
    return VRAM_OK;
}

static uint32_t options_off(void) {
    static const enum vr_option switches[] = {
        [VRAM_RESPONSE_HALVE] = VR_OPTION_RESPONSE_HALVE,
        [VRAM_RESPONSE_DROP] = VR_OPTION_RESPONSE_DROP,
        [VRAM_RESPONSE_EMERGENCY] = VR_OPTION_RESPONSE_EMERGENCY,
        [VRAM_RESPONSE_DECAY] = VR_OPTION_RESPONSE_DECAY,
    };
    uint32_t off = 0;
    for (uint32_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        off |= vr_option_number(switches[i]) ? 0 : UINT32_C(1) << i;
    }
    return off;
}

vram_status vr_rules_read(const struct vram_response_options *options, const char *operation,
                          struct vr_rules *rules) {
    const uint32_t steps = (UINT32_C(1) << VRAM_RESPONSE_HALVE) | (1 << VRAM_RESPONSE_DROP) |
                           (1 << VRAM_RESPONSE_EMERGENCY) | (1 << VRAM_RESPONSE_DECAY);
    struct vram_response_options taken;
    vram_status status = vr_options_take(&taken, sizeof taken, options, operation);
    if (status != VRAM_OK) {
        return status;
    }
    if (taken.off & ~steps) {
        return vr_fail(VRAM_ERR_INVALID, operation, "there are no such steps: 0x%x", taken.off);
    }
    taken.emergency =
        taken.emergency != 0 ? taken.emergency : vr_pressure_option(VR_OPTION_PRESSURE_EMERGENCY);
    taken.hysteresis = taken.hysteresis != 0 ? taken.hysteresis
                                             : vr_pressure_option(VR_OPTION_PRESSURE_HYSTERESIS);
    status = vr_pressure_thresholds(taken.emergency, taken.emergency, taken.hysteresis, operation);
    if (status == VRAM_OK && !(taken.hysteresis < vr_pressure_level_begin(VRAM_PRESSURE_HIGH))) {
        status = vr_fail(VRAM_ERR_INVALID, operation, "the hysteresis is below 0.8");
    }
    if (status != VRAM_OK) {
        return status;
    }
    *rules = (struct vr_rules){.off = taken.off | options_off(),
                               .emergency = taken.emergency,
                               .hysteresis = taken.hysteresis,
                               .interval_ns = taken.interval_ns,
                               .decay_ns = taken.decay_ns};
    if (!rules->interval_ns) {
        rules->interval_ns = vr_option_number(VR_OPTION_RESPONSE_INTERVAL);
    }
    if (!rules->decay_ns) {
        rules->decay_ns = vr_option_number(VR_OPTION_DECAY_INTERVAL);
    }
    if (rules->off & (1 << VRAM_RESPONSE_DECAY)) {
        rules->decay_ns = UINT64_MAX;
    }
    return VRAM_OK;
}

struct vr_rules vr_rules_of(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    struct vr_rules rules = pool->pressure.rules;
    vr_mutex_unlock(&pool->lock);
    return rules;
}

/* --------------------------------------------------------------------- steps */

static bool is_on(const struct vr_rules *rules, vram_response_step step) {
    return !(rules->off & (UINT32_C(1) << step));
}

static void count(struct vr_pool *pool, vram_response_step step, uint64_t bytes) {
    vr_tally(&pool->tally.response_steps[step], 1);
    vr_tally(&pool->tally.response_bytes[step], bytes);
}

static bool is_high(const struct vram_pressure *p) {
    return p->known && p->value >= vr_pressure_level_begin(VRAM_PRESSURE_HIGH);
}

/* Whether a step is to be taken now that pressure is `above` its threshold, or `below` it for good. */
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
        vr_pool_give_back(pool, bytes);
        count(pool, VRAM_RESPONSE_HALVE, bytes);
    }
    vr_pressure_of_pool(pool, true, &now);
    if (is_on(rules, VRAM_RESPONSE_DROP) && is_high(&now)) {
        vr_decay_survey(pool, true, &survey);
        uint64_t bytes = vr_decay_drop(pool, &survey);
        vr_pool_give_back(pool, bytes);
        count(pool, VRAM_RESPONSE_DROP, bytes);
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
        count(pool, VRAM_RESPONSE_EMERGENCY, vr_device_cleanup(pool->device));
        acted = true;
    }
    return acted;
}

/* -------------------------------------------------------------------- public */

vram_status vram_pool_response_set(vram_pool *handle, const vram_response_options *options) {
    static const char operation[] = "vram_pool_response_set";
    struct vr_rules rules;
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    status = vr_rules_read(options, operation, &rules);
    if (status == VRAM_OK) {
        vr_mutex_lock(&pool->lock);
        pool->pressure.rules = rules;
        vr_mutex_unlock(&pool->lock);
    }
    vr_leave(pool);
    return status;
}
