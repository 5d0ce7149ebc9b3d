/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth_policy.c: how large a buffer becomes. Integers only: a capacity times a factor is exact,
 * and saturates at UINT64_MAX.
 */
#include "base/error.h"
#include "base/size.h"
#include "device/objects.h"
#include "mem/growth_state.h"
#include "mem/mem_calls.h"

enum { WHOLE_PPM = 1000000 };

static vram_status growth_check(const struct vram_growth *growth) {
    if ((unsigned)growth->policy > VRAM_GROWTH_FIXED) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a vram_growth_policy", (int)growth->policy);
    }
    if (growth->policy == VRAM_GROWTH_FACTOR && growth->factor_ppm <= WHOLE_PPM) {
        return vr_fail(VRAM_ERR_INVALID,
                       "a factor of %u parts per million does not grow; it must be above %d",
                       growth->factor_ppm, WHOLE_PPM);
    }
    if (growth->max_bytes && growth->min_bytes > growth->max_bytes) {
        return vr_fail(VRAM_ERR_INVALID, "the minimum of %llu bytes is above the maximum of %llu",
                       (unsigned long long)growth->min_bytes,
                       (unsigned long long)growth->max_bytes);
    }
    return VRAM_OK;
}

vram_status vr_growth_take(const struct vram_growth *given, struct vram_growth *growth) {
    vram_status status = vr_options_take(growth, sizeof *growth, given);
    growth->size = sizeof *growth;
    return status == VRAM_OK ? growth_check(growth) : status;
}

/* floor(capacity * ppm / 10^6), or UINT64_MAX. Multiplies quotient and remainder of the capacity
   apart, so that neither product overflows. */
static uint64_t capacity_times(uint64_t capacity, uint32_t ppm) {
    uint64_t whole, sum;
    uint64_t rest = capacity % WHOLE_PPM * ppm / WHOLE_PPM;
    return vr_mul(capacity / WHOLE_PPM, ppm, &whole) && vr_add(whole, rest, &sum) ? sum
                                                                                  : UINT64_MAX;
}

/* The capacity plus the fewest whole steps that hold `needed`, or UINT64_MAX. */
static uint64_t capacity_steps(uint64_t capacity, uint64_t needed, uint64_t step) {
    uint64_t count = (needed - capacity - 1) / step + 1, more, sum;
    return vr_mul(count, step, &more) && vr_add(capacity, more, &sum) ? sum : UINT64_MAX;
}

/* The capacity by the policy, before its bounds; `needed` is more than the capacity. */
static uint64_t capacity_wanted(const struct vram_growth *growth, uint64_t capacity,
                                uint64_t needed) {
    uint64_t bytes = needed;
    if (growth->policy == VRAM_GROWTH_FACTOR) {
        bytes = capacity_times(capacity, growth->factor_ppm);
    } else if (growth->policy == VRAM_GROWTH_FIXED) {
        bytes = capacity_steps(capacity, needed, growth->step_bytes);
    }
    bytes = bytes > growth->min_bytes ? bytes : growth->min_bytes;
    return bytes > needed ? bytes : needed;
}

vram_status vr_growth_next(const struct vram_growth *growth, uint64_t capacity, uint64_t needed,
                           uint64_t *bytes) {
    uint64_t most = growth->max_bytes ? growth->max_bytes : UINT64_MAX;
    if (growth->policy == VRAM_GROWTH_FIXED && !growth->step_bytes && capacity < most) {
        most = capacity;
    }
    if (needed <= capacity) {
        *bytes = capacity;
        return VRAM_OK;
    }
    if (needed > most) {
        return vr_fail(VRAM_ERR_LIMIT,
                       "%llu bytes are needed, and the buffer's policy lets it have %llu",
                       (unsigned long long)needed, (unsigned long long)most);
    }
    uint64_t next = capacity_wanted(growth, capacity, needed);
    *bytes = next < most ? next : most;
    return VRAM_OK;
}

vram_status vr_growth_next_given(const vram_growth *given, uint64_t capacity, uint64_t needed,
                                 uint64_t *bytes) {
    VR_OPERATION("vram_growth_next");
    struct vram_growth growth;
    if (!bytes) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the bytes is NULL");
    }
    vram_status status = vr_growth_take(given, &growth);
    return status == VRAM_OK ? vr_growth_next(&growth, capacity, needed, bytes) : status;
}

vram_status vram_growth_next(const vram_growth *given, uint64_t capacity, uint64_t needed,
                             uint64_t *bytes) {
    return vr_growth_next_given(given, capacity, needed, bytes);
}

vram_status vr_growth_first(const struct vram_growth *given, uint64_t bytes,
                            struct vram_growth *growth, uint64_t *capacity) {
    vram_status status = vr_growth_take(given, growth);
    if (status == VRAM_OK && growth->max_bytes && bytes > growth->max_bytes) {
        status = vr_fail(VRAM_ERR_LIMIT,
                         "%llu bytes are needed, and the buffer's policy lets it have %llu",
                         (unsigned long long)bytes, (unsigned long long)growth->max_bytes);
    }
    *capacity = bytes > growth->min_bytes ? bytes : growth->min_bytes;
    return status;
}
