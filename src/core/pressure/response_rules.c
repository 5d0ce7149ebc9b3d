/* SPDX-License-Identifier: Apache-2.0 */
/*
 * response_rules.c: how a pool responds to pressure, by the options and the program.
 */
#include "core/object/pool_object.h"

#include "base/error.h"
#include "base/option.h"

double vr_pressure_option(enum vr_option option) {
    return (double)vr_option_number(option) / 1e6;
}

vram_status vr_pressure_thresholds(double warn, double emergency, double hysteresis) {
    /* Written so that NaN fails. */
    if (!(warn > 0 && warn <= emergency && emergency <= 1)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the thresholds are invalid: use 0 < warn <= emergency <= 1");
    }
    if (!(hysteresis >= 0 && hysteresis < warn)) {
        return vr_fail(
            VRAM_ERR_INVALID,
            "the hysteresis is invalid: use at least 0 and less than the lowest threshold");
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

vram_status vr_rules_read(const struct vram_response_options *options, struct vr_rules *rules) {
    const uint32_t steps = (UINT32_C(1) << VRAM_RESPONSE_HALVE) | (1 << VRAM_RESPONSE_DROP) |
                           (1 << VRAM_RESPONSE_EMERGENCY) | (1 << VRAM_RESPONSE_DECAY);
    struct vram_response_options taken;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    if (taken.off & ~steps) {
        return vr_fail(VRAM_ERR_INVALID, "unknown steps: 0x%x", taken.off);
    }
    taken.emergency =
        taken.emergency != 0 ? taken.emergency : vr_pressure_option(VR_OPTION_PRESSURE_EMERGENCY);
    taken.hysteresis = taken.hysteresis != 0 ? taken.hysteresis
                                             : vr_pressure_option(VR_OPTION_PRESSURE_HYSTERESIS);
    status = vr_pressure_thresholds(taken.emergency, taken.emergency, taken.hysteresis);
    if (status == VRAM_OK && !(taken.hysteresis < vr_pressure_level_begin(VRAM_PRESSURE_HIGH))) {
        status = vr_fail(VRAM_ERR_INVALID, "the hysteresis is too large: use less than 0.8");
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

vram_status vram_pool_response_set(vram_pool *handle, const vram_response_options *options) {
    VR_CALL;
    struct vr_rules rules;
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    status = vr_rules_read(options, &rules);
    if (status == VRAM_OK) {
        vr_mutex_lock(&pool->lock);
        pool->pressure.rules = rules;
        vr_mutex_unlock(&pool->lock);
    }
    vr_leave(pool);
    return status;
}
