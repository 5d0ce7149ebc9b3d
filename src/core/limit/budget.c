/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.c: how much a pool may hold now, and the charges that enforce it.
 */
#include "core/limit/budget.h"

#include "base/error.h"
#include "base/size_text.h"
#include "base/text.h"
#include "device/ops.h"

#include <assert.h>

/* ------------------------------------------------------------------ sampling */

/* Memory is charged before the driver allocates it and uncharged after the driver has freed it. So
   the sum may be too large for a moment, by what is in progress. */
static void take_sample(struct vr_device_object *device, struct vr_ledger *ledger, uint64_t now) {
    vram_value free = {0}, total = device->base.info.memory_bytes;
    uint64_t before = vr_load(&device->slot->account->charged_bytes, VR_RELAXED);
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_memory_info(&device->base, &free, &total);
    vr_error_restore(&error); /* a later call reports the error if it matters */
    if (status != VRAM_OK) {
        return;
    }
    uint64_t after = vr_load(&device->slot->account->charged_bytes, VR_RELAXED);
    uint64_t held = before < after ? before : after;
    vr_mutex_lock(&ledger->lock);
    ledger->sample = (struct vr_sample){free, total, now};
    vr_store(&ledger->usable_bytes, free.known ? held + free.value : UINT64_MAX, VR_RELAXED);
    vr_mutex_unlock(&ledger->lock);
}

/* One thread advances the due time and asks the driver; the others use the last sample. */
void vr_sample_refresh(struct vr_device_object *device, bool now) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    if (!(device->base.info.caps & VRAM_CAP_MEMORY_INFO) ||
        vr_load(&device->base.lost, VR_ACQUIRE)) {
        return;
    }
    uint64_t time = vr_device_now(device), due = vr_load(&ledger->due_ns, VR_ACQUIRE);
    if ((now || !due || time >= due) &&
        vr_cas(&ledger->due_ns, &due, time + ledger->sample_ns + 1, VR_ACQ_REL)) {
        take_sample(device, ledger, time);
    }
}

bool vr_sample_get(struct vr_device_object *device, struct vr_sample *sample) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    vr_mutex_lock(&ledger->lock);
    *sample = ledger->sample;
    vr_mutex_unlock(&ledger->lock);
    return sample->total.known || sample->free.known;
}

/* -------------------------------------------------------------------- budget */

void vr_budget_refresh(struct vr_pool *pool, bool now) {
    vr_limit_derive(pool);
    if (vr_load(&pool->caps.min_free_bytes, VR_RELAXED)) { /* otherwise no sample is needed */
        vr_sample_refresh(pool->device, now);
    }
}

static uint64_t limit_minus(uint64_t bytes, uint64_t by) {
    return bytes == UINT64_MAX ? bytes : bytes > by ? bytes - by : 0;
}

/* The most that may be charged to the device when this pool grows, by the fraction or by the memory
   that must stay free. */
static uint64_t device_bytes(const struct vr_pool *pool, enum vr_bound *bound) {
    uint64_t fraction = vr_load(&pool->caps.fraction_bytes, VR_RELAXED);
    uint64_t min_free = vr_load(&pool->caps.min_free_bytes, VR_RELAXED), usable = UINT64_MAX;
    if (min_free) {
        usable =
            limit_minus(vr_load(&vr_ledger_of(pool->device)->usable_bytes, VR_RELAXED), min_free);
    }
    *bound = usable < fraction        ? VR_BOUND_FREE
             : fraction != UINT64_MAX ? VR_BOUND_FRACTION
                                      : VR_BOUND_NONE;
    return usable < fraction ? usable : fraction;
}

static void take_less(struct vr_budget *budget, uint64_t bytes, enum vr_bound bound) {
    if (bytes < budget->bytes) {
        budget->bytes = bytes;
        budget->bound = bound;
    }
}

struct vr_budget vr_budget_get(const struct vr_pool *pool) {
    uint64_t held = vr_load(&pool->charged, VR_RELAXED);
    struct vr_budget budget = {.bytes = UINT64_MAX, .held_bytes = held, .bound = VR_BOUND_NONE};
    take_less(&budget, vr_load(&pool->caps.own_bytes, VR_RELAXED), VR_BOUND_POOL);
    if (vr_pool_is_charged(pool)) {
        enum vr_bound bound;
        uint64_t all = vr_load(&pool->device->slot->account->charged_bytes, VR_RELAXED);
        uint64_t others = all > held ? all - held : 0, hard = vr_charge_limit(pool->device);
        take_less(&budget, limit_minus(hard ? hard : UINT64_MAX, others), VR_BOUND_DEVICE);
        uint64_t most = device_bytes(pool, &bound);
        take_less(&budget, limit_minus(most, others), bound);
        take_less(&budget, limit_minus(vr_lease_limit(pool->device), others), VR_BOUND_LEASE);
    }
    return budget;
}

uint64_t vr_budget_bytes(const struct vr_pool *pool) {
    return vr_budget_get(pool).bytes;
}

void vr_budget_apply(struct vr_pool *pool, struct vr_space *space) {
    struct vr_space *small = pool->spaces[VR_PART_SMALL], *large = pool->spaces[VR_PART_LARGE];
    const struct vram_value memory = pool->device->base.info.memory_bytes;
    uint64_t other = vr_space_reserved(space == small ? large : small);
    assert(vr_pool_is_locked(pool) && (space == small || space == large));
    uint64_t all = vr_load(&pool->device->slot->account->charged_bytes, VR_RELAXED);
    uint64_t held = vr_load(&pool->charged, VR_RELAXED), others = all > held ? all - held : 0;
    bool known = memory.known && vr_pool_on_device(pool);
    uint64_t kept = pool->flags & VRAM_POOL_DETERMINISTIC /* which releases by no free */
                        ? UINT64_MAX
                        : vr_load(&pool->caps.cached_bytes, VR_RELAXED);
    vr_space_limit_set(space, limit_minus(vr_budget_bytes(pool), other),
                       known ? limit_minus(limit_minus(memory.value, others), other) : UINT64_MAX,
                       kept);
}

/* ------------------------------------------------------------------- charging */

static vram_status charge_own(struct vr_pool *pool, uint64_t bytes) {
    VR_OPERATION("vram_alloc");
    uint64_t most = vr_load(&pool->caps.own_bytes, VR_RELAXED);
    uint64_t before = vr_load(&pool->charged, VR_RELAXED);
    while (bytes <= most && before <= most - bytes) {
        if (vr_cas_weak(&pool->charged, &before, before + bytes, VR_RELAXED)) {
            return VRAM_OK;
        }
    }
    return vr_fail(
        VRAM_ERR_LIMIT,
        "%llu bytes more would exceed the limit of %llu bytes for pool \"%s\" (hard_bytes, "
        "option pool_limit); %llu are held",
        (unsigned long long)bytes, (unsigned long long)most, pool->name,
        (unsigned long long)before);
}

static vram_status charge_device(struct vr_pool *pool, uint64_t bytes) {
    VR_OPERATION("vram_alloc");
    static const char *const whys[] = {
        [VR_BOUND_NONE] = "hard_bytes, option device_limit",
        [VR_BOUND_DEVICE] = "hard_bytes, option device_limit",
        [VR_BOUND_FRACTION] = "fraction, option memory_fraction",
        [VR_BOUND_FREE] = "min_free_bytes, option min_free",
        [VR_BOUND_LEASE] = "the grant of its lease",
    };
    enum vr_bound bound;
    uint64_t most = device_bytes(pool, &bound), hard = vr_charge_limit(pool->device);
    if (hard && hard < most) {
        most = hard;
        bound = VR_BOUND_DEVICE;
    }
    return vr_charge_within(pool->device, bytes, most, whys[bound]);
}

vram_status vr_budget_charge(struct vr_pool *pool, uint64_t bytes) {
    vram_status status = charge_own(pool, bytes);
    if (status == VRAM_OK && vr_pool_is_charged(pool)) {
        status = charge_device(pool, bytes);
        if (status != VRAM_OK) {
            vr_fetch_sub(&pool->charged, bytes, VR_RELAXED);
        }
    }
    return status;
}

vram_status vr_budget_check_lease(const struct vr_pool *pool, uint64_t bytes) {
    uint64_t grant = vr_lease_limit(pool->device);
    uint64_t held = vr_load(&pool->device->slot->account->charged_bytes, VR_RELAXED);
    if (!vr_pool_is_charged(pool) || (held <= grant && bytes <= grant - held)) {
        return VRAM_OK;
    }
    return vr_fail(VRAM_ERR_LIMIT,
                   "%llu bytes more would pass the limit of %llu bytes for this device (the grant "
                   "of its lease); %llu are held",
                   (unsigned long long)bytes, (unsigned long long)grant, (unsigned long long)held);
}

void vr_budget_uncharge(struct vr_pool *pool, uint64_t bytes) {
    uint64_t before = vr_fetch_sub(&pool->charged, bytes, VR_RELAXED);
    assert(before >= bytes); /* each charge is removed once */
    (void)before;
    if (vr_pool_is_charged(pool)) {
        vr_uncharge(pool->device, bytes);
    }
}
