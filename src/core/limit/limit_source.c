/* SPDX-License-Identifier: Apache-2.0 */
#include "core/limit/limit_source.h"

#include "base/option.h"
#include "base/size_text.h"
#include "base/text.h"
#include "core/limit/limit.h"

/* Who has set it. A limit of the environment is a ceiling for the device's and the pool's, and the
   device's is one for the pool's. */
enum setter {
    BY_POOL, /* vram_pool_limits_set or the pool's options; or nobody: then this call changes it */
    BY_DEVICE, /* vram_device_limits_set */
    BY_OPTION, /* vram_option_set, before the context was created */
    BY_ENVIRONMENT,
    BY_PRESET, /* VRAM_PRESET in the environment */
    SETTER_COUNT
};

static const struct vr_limit_source sources[][SETTER_COUNT] = {
    [VR_BOUND_NONE] = {[BY_POOL] = {"", ""}},
    [VR_BOUND_POOL] =
        {
            [BY_POOL] = {"hard_bytes of the pool",
                         "raise hard_bytes of the pool by vram_pool_limits_set"},
            [BY_ENVIRONMENT] = {"VRAM_POOL_LIMIT", "raise VRAM_POOL_LIMIT in the environment"},
        },
    [VR_BOUND_DEVICE] =
        {
            [BY_DEVICE] = {"hard_bytes of the device",
                           "raise hard_bytes of the device by vram_device_limits_set"},
            [BY_OPTION] = {"option device_limit", "raise the option device_limit by "
                                                  "vram_option_set before the context is created"},
            [BY_ENVIRONMENT] = {"VRAM_DEVICE_LIMIT", "raise VRAM_DEVICE_LIMIT in the environment"},
        },
    [VR_BOUND_FRACTION] =
        {
            [BY_POOL] = {"fraction of the pool", "raise fraction of the pool by "
                                                 "vram_pool_limits_set"},
            [BY_DEVICE] = {"fraction of the device",
                           "raise fraction of the device by vram_device_limits_set"},
            [BY_ENVIRONMENT] = {"VRAM_MEMORY_FRACTION",
                                "raise VRAM_MEMORY_FRACTION in the environment"},
            [BY_PRESET] =
                {"VRAM_PRESET",
                 "set VRAM_MEMORY_FRACTION in the environment: it overrides the preset's"},
        },
    [VR_BOUND_FREE] =
        {
            [BY_POOL] = {"min_free_bytes of the pool",
                         "lower min_free_bytes of the pool by vram_pool_limits_set"},
            [BY_DEVICE] = {"min_free_bytes of the device",
                           "lower min_free_bytes of the device by vram_device_limits_set"},
            [BY_ENVIRONMENT] = {"VRAM_MIN_FREE", "lower VRAM_MIN_FREE in the environment"},
            [BY_PRESET] = {"VRAM_PRESET",
                           "set VRAM_MIN_FREE in the environment: it overrides the preset's"},
        },
    [VR_BOUND_LEASE] =
        {
            [BY_POOL] = {"the lease's grant",
                         "raise want_bytes of the lease, or have other processes give more"},
        },
};

static enum setter setter_of_pool(const struct vr_pool *pool) {
    uint64_t outside, own = pool->limits.hard_bytes;
    bool set = vr_option_environment(VR_OPTION_POOL_LIMIT, &outside) && outside;
    return set && (!own || outside <= own) ? BY_ENVIRONMENT : BY_POOL;
}

/* As vr_charge_limit chooses. */
static enum setter setter_of_device(const struct vr_pool *pool) {
    uint64_t option = pool->device->context->limit_bytes, outside;
    uint64_t own = vr_load(&pool->device->slot->account->limit_bytes, VR_RELAXED);
    if (own && (!option || own < option)) {
        return BY_DEVICE;
    }
    return vr_option_environment(VR_OPTION_DEVICE_LIMIT, &outside) && outside == option
               ? BY_ENVIRONMENT
               : BY_OPTION;
}

/* The two limits that the preset, the device and the pool set. Under the ledger's lock. */
static enum setter setter_of_share(const struct vr_pool *pool, const struct vr_ledger *ledger,
                                   enum vr_bound bound) {
    const struct vram_limits *device = &ledger->limits;
    struct vram_limits all, ceiling;
    struct vr_capacity capacity = vr_capacity_of(pool->device);
    uint64_t number;
    bool fraction = bound == VR_BOUND_FRACTION;
    enum vr_option option = fraction ? VR_OPTION_MEMORY_FRACTION : VR_OPTION_MIN_FREE;
    vr_limits_resolve(&pool->limits, device, capacity, &all);
    vr_limits_ceiling(capacity, VR_OPTION_POOL_LIMIT, &ceiling);
    if (fraction ? all.fraction == ceiling.fraction
                 : all.min_free_bytes == ceiling.min_free_bytes) {
        return vr_option_environment(option, &number) && number ? BY_ENVIRONMENT : BY_PRESET;
    }
    return (fraction ? all.fraction == device->fraction
                     : all.min_free_bytes == device->min_free_bytes)
               ? BY_DEVICE
               : BY_POOL;
}

struct vr_limit_source vr_limit_source_of(const struct vr_pool *pool, enum vr_bound bound) {
    struct vr_ledger *ledger = vr_ledger_of(pool->device);
    vr_mutex_lock(&ledger->lock);
    enum setter by = bound == VR_BOUND_NONE || bound == VR_BOUND_LEASE ? BY_POOL
                     : bound == VR_BOUND_POOL                          ? setter_of_pool(pool)
                     : bound == VR_BOUND_DEVICE                        ? setter_of_device(pool)
                                                : setter_of_share(pool, ledger, bound);
    vr_mutex_unlock(&ledger->lock);
    return sources[bound][by];
}

void vr_limit_explain(const struct vr_pool *pool, uint64_t bytes, char *text, size_t text_bytes) {
    struct vr_budget budget = vr_budget_get(pool);
    const char *name = vr_limit_source_of(pool, budget.bound).name;
    char asked[VRAM_SIZE_TEXT_MAX], most[VRAM_SIZE_TEXT_MAX], held[VRAM_SIZE_TEXT_MAX],
        all[VRAM_SIZE_TEXT_MAX];
    vr_size_format(bytes, asked);
    vr_size_format(budget.bytes, most);
    vr_size_format(budget.held_bytes, held);
    switch (budget.bound) {
    case VR_BOUND_POOL:
        vr_text_format(text, text_bytes, "%s do not fit: the pool may hold %s (%s) and holds %s",
                       asked, most, name, held);
        return;
    case VR_BOUND_DEVICE:
        vr_text_format(
            text, text_bytes,
            "%s do not fit: the device's limit (%s) leaves %s to this pool, which holds %s", asked,
            name, most, held);
        return;
    case VR_BOUND_FRACTION: {
        double total = (double)pool->device->base.info.memory_bytes.value;
        vr_text_format(
            text, text_bytes,
            "%s do not fit: pools may use %.3g%% of the device's %s (%s), which leaves "
            "%s to this pool, and it holds %s",
            asked, 100.0 * (double)vr_load(&pool->caps.fraction_bytes, VR_RELAXED) / total,
            vr_size_format(pool->device->base.info.memory_bytes.value, all), name, most, held);
        return;
    }
    case VR_BOUND_FREE:
        vr_text_format(text, text_bytes,
                       "%s do not fit: %s of the device must stay free (%s), which leaves %s to "
                       "this pool, and it holds %s",
                       asked, vr_size_format(vr_load(&pool->caps.min_free_bytes, VR_RELAXED), all),
                       name, most, held);
        return;
    case VR_BOUND_LEASE:
        vr_text_format(text, text_bytes,
                       "%s do not fit: the lease's grant leaves %s to this pool, and it holds %s",
                       asked, most, held);
        return;
    case VR_BOUND_NONE:
        vr_text_format(text, text_bytes, "%s do not fit", asked);
    }
}
