/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit.c: limits as they are set, and the limits in force.
 */
#include "core/limit/limit.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/size.h"
#include "core/limit/budget.h"
#include "core/object/walk.h"

#include <assert.h>
#include <float.h>

#define FRACTION_LEAST 0.1
#define FREE_PART      16 /* at most 1/16 of the device stays free unless it is set */

/* ------------------------------------------------------------------- presets */

static const struct vram_limits presets[] = {
#define ROW(NAME, number, name, part, free, blocks, track, fallback)                               \
    [number] = {.size = sizeof(struct vram_limits),                                                \
                .fraction = (part),                                                                \
                .min_free_bytes = (free)*VR_MIB,                                                   \
                .hard_bytes = VRAM_LIMIT_NONE,                                                     \
                .cached_bytes = VRAM_LIMIT_NONE,                                                   \
                .cached_blocks = (blocks),                                                         \
                .tracking = (track),                                                               \
                .cpu_fallback = (fallback)},
    VRAM_PRESET_MAP(ROW)
#undef ROW
};

enum { PRESET_COUNT = sizeof presets / sizeof presets[0] };

vram_status vram_preset_get(vram_preset preset, vram_limits *limits) {
    VR_CALL;
    if ((unsigned)preset >= PRESET_COUNT) {
        return vr_fail(VRAM_ERR_INVALID, "unknown preset: %d", (int)preset);
    }
    return vr_info_give(limits, &presets[preset], sizeof presets[0], sizeof presets[0]);
}

/* ------------------------------------------------------------------- reading */

static bool is_switch(vram_switch value) {
    return (unsigned)value <= VRAM_SWITCH_OFF;
}

vram_status vr_limits_take(struct vram_limits *to, const struct vram_limits *from) {
    struct vram_limits taken;
    if (!from) {
        return vr_fail(VRAM_ERR_INVALID, "the limits are NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, from);
    if (status != VRAM_OK) {
        return status;
    }
    if (!(taken.fraction >= 0 && taken.fraction <= DBL_MAX)) { /* false for NaN, too */
        return vr_fail(VRAM_ERR_INVALID,
                       "fraction %g is invalid: use a number from 0.1 to 1, or 0 for the default",
                       taken.fraction);
    }
    if (!is_switch(taken.tracking) || !is_switch(taken.cpu_fallback)) {
        return vr_fail(VRAM_ERR_INVALID, "tracking or cpu_fallback is invalid: use a vram_switch");
    }
    if (taken.fraction > 0) {
        taken.fraction = taken.fraction < FRACTION_LEAST ? FRACTION_LEAST : taken.fraction;
        taken.fraction = taken.fraction > 1 ? 1 : taken.fraction;
    }
    *to = taken;
    return VRAM_OK;
}

/* ----------------------------------------------------------------- resolving */

static double fraction_of(uint64_t millionths) {
    double fraction = (double)millionths / 1e6;
    return millionths && fraction < FRACTION_LEAST ? FRACTION_LEAST : fraction;
}

/* The preset's min_free_bytes, reduced on a small device. If the host shares the memory, it gets
   that part of it whatever the preset says: presets are made for what drivers and screens need. */
static uint64_t free_of(const struct vram_limits *preset, struct vr_capacity capacity) {
    uint64_t most =
        capacity.total.known ? capacity.total.value / FREE_PART : preset->min_free_bytes;
    return preset->min_free_bytes < most && !capacity.shared ? preset->min_free_bytes : most;
}

static struct vram_limits outside_start(struct vr_capacity capacity, enum vr_option hard) {
    const struct vram_limits *preset = &presets[vr_option_number(VR_OPTION_PRESET)];
    struct vram_limits start = *preset;
    uint64_t fraction = vr_option_number(VR_OPTION_MEMORY_FRACTION);
    uint64_t free = vr_option_number(VR_OPTION_MIN_FREE);
    uint64_t blocks = vr_option_number(VR_OPTION_CACHED_BLOCKS);
    uint64_t bytes = vr_option_number(hard), cached = vr_option_number(VR_OPTION_CACHED_LIMIT);
    start.fraction = fraction ? fraction_of(fraction) : start.fraction;
    start.min_free_bytes = free ? free : free_of(preset, capacity);
    start.hard_bytes = bytes ? bytes : VRAM_LIMIT_NONE;
    start.cached_bytes = cached ? cached : VRAM_LIMIT_NONE;
    start.cached_blocks = blocks ? (uint32_t)blocks : start.cached_blocks;
    uint64_t tracking = vr_option_number(VR_OPTION_TRACKING);
    start.tracking = tracking ? (vram_switch)tracking : start.tracking;
    return start;
}

void vr_limits_ceiling(struct vr_capacity capacity, enum vr_option hard,
                       struct vram_limits *result) {
    struct vram_limits ceiling = {.size = sizeof ceiling};
    uint64_t number;
    if (vr_option_environment(VR_OPTION_PRESET, &number)) {
        ceiling.fraction = presets[number].fraction;
        ceiling.min_free_bytes = free_of(&presets[number], capacity);
        ceiling.cached_blocks = presets[number].cached_blocks;
    }
    if (vr_option_environment(VR_OPTION_MEMORY_FRACTION, &number) && number) {
        ceiling.fraction = fraction_of(number);
    }
    if (vr_option_environment(VR_OPTION_MIN_FREE, &number) && number) {
        ceiling.min_free_bytes = number;
    }
    if (vr_option_environment(VR_OPTION_CACHED_BLOCKS, &number) && number) {
        ceiling.cached_blocks = (uint32_t)number;
    }
    if (vr_option_environment(hard, &number)) {
        ceiling.hard_bytes = number;
    }
    if (vr_option_environment(VR_OPTION_CACHED_LIMIT, &number)) {
        ceiling.cached_bytes = number;
    }
    *result = ceiling;
}

static uint64_t apply_ceiling(uint64_t value, uint64_t ceiling) {
    return ceiling && ceiling < value ? ceiling : value;
}

static uint64_t first_set(uint64_t own, uint64_t parent, uint64_t start) {
    return own ? own : parent ? parent : start;
}

/* Makes every field of `limits` at least as strict as the field of `ceiling`, if that is set. */
static void tighten_limits(struct vram_limits *limits, const struct vram_limits *ceiling) {
    if (ceiling->fraction > 0 && ceiling->fraction < limits->fraction) {
        limits->fraction = ceiling->fraction;
    }
    if (ceiling->min_free_bytes != VRAM_LIMIT_NONE &&
        (limits->min_free_bytes == VRAM_LIMIT_NONE ||
         ceiling->min_free_bytes > limits->min_free_bytes)) {
        limits->min_free_bytes =
            ceiling->min_free_bytes ? ceiling->min_free_bytes : limits->min_free_bytes;
    }
    limits->cached_bytes = apply_ceiling(limits->cached_bytes, ceiling->cached_bytes);
    limits->cached_blocks = (uint32_t)apply_ceiling(limits->cached_blocks, ceiling->cached_blocks);
}

void vr_limits_resolve(const struct vram_limits *own, const struct vram_limits *parent,
                       struct vr_capacity capacity, struct vram_limits *effective) {
    static const struct vram_limits nothing = {.size = sizeof nothing};
    enum vr_option hard = parent ? VR_OPTION_POOL_LIMIT : VR_OPTION_DEVICE_LIMIT;
    struct vram_limits start = outside_start(capacity, hard), ceiling;
    vr_limits_ceiling(capacity, hard, &ceiling);
    const struct vram_limits *above = parent ? parent : &nothing;
    struct vram_limits all = {.size = sizeof all};
    all.fraction = own->fraction > 0     ? own->fraction
                   : above->fraction > 0 ? above->fraction
                                         : start.fraction;
    all.min_free_bytes =
        first_set(own->min_free_bytes, above->min_free_bytes, start.min_free_bytes);
    all.hard_bytes = first_set(own->hard_bytes, 0, start.hard_bytes); /* the device has its own */
    all.cached_bytes = first_set(own->cached_bytes, above->cached_bytes, start.cached_bytes);
    all.cached_blocks =
        (uint32_t)first_set(own->cached_blocks, above->cached_blocks, start.cached_blocks);
    all.tracking = (vram_switch)first_set(own->tracking, above->tracking, start.tracking);
    all.cpu_fallback =
        (vram_switch)first_set(own->cpu_fallback, above->cpu_fallback, start.cpu_fallback);
    tighten_limits(&all, above);
    tighten_limits(&all, &ceiling);
    all.hard_bytes = apply_ceiling(all.hard_bytes, ceiling.hard_bytes);
    all.cached_blocks = (uint32_t)apply_ceiling(all.cached_blocks, VR_EXACT_DEPTH);
    if (capacity.shared) {
        all.cpu_fallback = VRAM_SWITCH_OFF; /* host memory is the same memory */
    }
    uint64_t outside;
    if (vr_option_environment(VR_OPTION_TRACKING, &outside) && outside) {
        all.tracking = (vram_switch)outside; /* the environment takes precedence */
    }
    if (all.tracking == VRAM_SWITCH_DEFAULT) {
#ifdef NDEBUG
        all.tracking = VRAM_SWITCH_OFF;
#else
        all.tracking = VRAM_SWITCH_ON;
#endif
    }
    *effective = all;
}

/* ------------------------------------------------------------------ deriving */

static uint64_t part_of(vram_value total, double fraction) {
    return total.known && fraction < 1 ? (uint64_t)((double)total.value * fraction) : UINT64_MAX;
}

struct vr_capacity vr_capacity_of(const struct vr_device_object *device) {
    const struct vram_device_info *info = &device->base.info;
    return (struct vr_capacity){info->memory_bytes, (info->caps & VRAM_CAP_INTEGRATED) != 0};
}

/* Of a pool on other memory the device's size is no measure. */
static struct vr_capacity pool_capacity(const struct vr_pool *pool) {
    struct vr_capacity capacity = vr_capacity_of(pool->device);
    if (!vr_pool_on_device(pool)) {
        capacity.total = (vram_value){0};
    }
    return capacity;
}

/* Thread caches keep large blocks up to 1/200 of what the pool may hold, and no more than it may
   cache. Blocks that they already have stay. Under the ledger's lock. */
static void allow_large(struct vr_pool *pool, const struct vram_limits *limits) {
    assert(vr_mutex_is_held(&vr_ledger_of(pool->device)->lock));
    vram_value total = pool->device->base.info.memory_bytes;
    uint64_t most = total.known ? total.value / 200 : 64 * VR_MIB;
    most = limits->hard_bytes / 200 < most ? limits->hard_bytes / 200 : most;
    most = limits->cached_bytes < most ? limits->cached_bytes : most;
    vr_fetch_add(&pool->large_left, most - pool->large_most, VR_RELAXED);
    pool->large_most = most;
}

/* Whether anybody has set cached_blocks. The default preset's 8 bound each cache, and small sizes
   do not follow it: bins of 8 instead of 32 make bursts of small blocks 45 % slower. Under the
   ledger's lock. */
static bool blocks_are_set(const struct vr_pool *pool, const struct vr_ledger *ledger) {
    return pool->limits.cached_blocks || ledger->limits.cached_blocks ||
           vr_option_number(VR_OPTION_CACHED_BLOCKS) ||
           vr_option_number(VR_OPTION_PRESET) != VRAM_PRESET_DEFAULT;
}

/* Gives every cache an equal share of the blocks of one size that the pool may cache. Under the
   ledger's lock. */
static void share_blocks(struct vr_pool *pool, uint32_t each, bool set) {
    struct vr_caps *caps = &pool->caps;
    uint32_t share = each / (pool->cache_count ? pool->cache_count : 1);
    vr_store(&caps->all_blocks, set ? each : 0, VR_RELAXED);
    vr_store(&caps->cached_blocks, set ? share : each, VR_RELAXED);
    vr_store(&caps->small_blocks, set ? share : VR_SMALL_DEPTH, VR_RELAXED);
}

bool vr_limit_caches_add(struct vr_pool *pool, bool added) {
    struct vr_ledger *ledger = vr_ledger_of(pool->device);
    vr_mutex_lock(&ledger->lock);
    uint32_t all = vr_load(&pool->caps.all_blocks, VR_RELAXED);
    uint32_t before = vr_load(&pool->caps.small_blocks, VR_RELAXED);
    assert(added || pool->cache_count > 0);
    pool->cache_count += added ? 1 : UINT32_MAX; /* one less */
    if (all) {
        share_blocks(pool, all, true);
    }
    bool fewer = vr_load(&pool->caps.small_blocks, VR_RELAXED) < before;
    vr_mutex_unlock(&ledger->lock);
    return fewer;
}

void vr_limit_derive(struct vr_pool *pool) {
    struct vr_ledger *ledger = vr_ledger_of(pool->device);
    struct vr_caps *caps = &pool->caps;
    struct vram_limits limits;
    if (vr_load(&caps->generation, VR_ACQUIRE) == vr_load(&ledger->generation, VR_ACQUIRE)) {
        return;
    }
    vr_mutex_lock(&ledger->lock);
    struct vr_capacity capacity = pool_capacity(pool);
    bool alone = pool->flags & VRAM_POOL_DETERMINISTIC; /* it ignores what other programs hold */
    vr_limits_resolve(&pool->limits, &ledger->limits, capacity, &limits);
    uint64_t free = limits.min_free_bytes == VRAM_LIMIT_NONE ? 0 : limits.min_free_bytes;
    vr_store(&caps->own_bytes, limits.hard_bytes, VR_RELAXED);
    vr_store(&caps->fraction_bytes, part_of(capacity.total, limits.fraction), VR_RELAXED);
    vr_store(&caps->min_free_bytes, alone || !vr_pool_on_device(pool) ? 0 : free, VR_RELAXED);
    vr_store(&caps->cached_bytes, limits.cached_bytes, VR_RELAXED);
    share_blocks(pool, limits.cached_blocks, blocks_are_set(pool, ledger));
    vr_store(&caps->falls_back, limits.cpu_fallback != VRAM_SWITCH_OFF, VR_RELAXED);
    bool asked = pool->limits.cpu_fallback == VRAM_SWITCH_ON ||
                 (pool->limits.cpu_fallback == VRAM_SWITCH_DEFAULT &&
                  ledger->limits.cpu_fallback == VRAM_SWITCH_ON);
    vr_store(&caps->fallback, asked ? VRAM_FALLBACK_PINNED : 0, VR_RELAXED);
    allow_large(pool, &limits);
    vr_store(&caps->generation, vr_load(&ledger->generation, VR_RELAXED), VR_RELEASE);
    vr_mutex_unlock(&ledger->lock);
}

bool vr_limit_falls_back(struct vr_pool *pool) {
    vr_limit_derive(pool);
    return vr_load(&pool->caps.falls_back, VR_RELAXED);
}

vram_status vram_pool_limits_get(vram_pool *handle, vram_limits *limits) {
    VR_CALL;
    struct vram_limits effective;
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    struct vr_ledger *ledger = vr_ledger_of(pool->device);
    vr_mutex_lock(&ledger->lock);
    vr_limits_resolve(&pool->limits, &ledger->limits, pool_capacity(pool), &effective);
    vr_mutex_unlock(&ledger->lock);
    status = vr_info_give(limits, &effective, sizeof effective, sizeof effective);
    vr_leave(pool);
    return status;
}

uint64_t vr_limit_device_bytes(struct vr_device_object *device, struct vr_ledger *ledger) {
    struct vram_limits limits;
    struct vr_capacity capacity = vr_capacity_of(device);
    uint64_t usable = vr_load(&ledger->usable_bytes, VR_RELAXED), hard = vr_charge_limit(device);
    vr_mutex_lock(&ledger->lock);
    vr_limits_resolve(&ledger->limits, NULL, capacity, &limits);
    vr_mutex_unlock(&ledger->lock);
    uint64_t most = part_of(capacity.total, limits.fraction);
    uint64_t free = limits.min_free_bytes == VRAM_LIMIT_NONE ? 0 : limits.min_free_bytes;
    if (usable != UINT64_MAX) {
        usable = usable > free ? usable - free : 0;
    }
    most = hard && hard < most ? hard : most;
    return usable < most ? usable : most;
}

vram_status vram_device_limits_get(vram_device *handle, vram_limits *limits) {
    VR_CALL;
    struct vram_limits effective, own = {.size = sizeof own};
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    struct vr_ledger *ledger = vr_ledger_of(device);
    if (ledger) {
        vr_mutex_lock(&ledger->lock);
        own = ledger->limits;
        vr_mutex_unlock(&ledger->lock);
    }
    vr_limits_resolve(&own, NULL, vr_capacity_of(device), &effective);
    uint64_t hard = vr_charge_limit(device);
    effective.hard_bytes = hard ? hard : VRAM_LIMIT_NONE;
    status = vr_info_give(limits, &effective, sizeof effective, sizeof effective);
    vr_leave(device);
    return status;
}
