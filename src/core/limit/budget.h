/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h: how much a pool may hold now.
 *
 * The budget is read before every plan and set as the limit of the space, so that the block engine
 * moves memory instead of exceeding it. Two concurrent plans may each be within the budget, but not
 * both together: memory taken from the driver is charged, and the charge decides.
 *
 * The driver is asked on a timer how much is free. Between two samples the program knows what it
 * takes and releases itself. So the limit is compared with `usable_bytes`, the sum of what it held
 * and what was free: only other programs change that.
 */
#ifndef VR_BUDGET_H
#define VR_BUDGET_H

#include "core/limit/limit.h"

/* Which limit is the smallest. */
enum vr_bound {
    VR_BOUND_NONE = 0,
    VR_BOUND_POOL = 1,     /* hard_bytes of the pool */
    VR_BOUND_DEVICE = 2,   /* hard_bytes of the device, or option device_limit */
    VR_BOUND_FRACTION = 3, /* of the device's memory */
    VR_BOUND_FREE = 4,     /* min_free_bytes */
    VR_BOUND_LEASE = 5     /* the grant of a lease: src/lease */
};

struct vr_budget {
    uint64_t bytes;      /* that the pool may hold; UINT64_MAX: no limit applies */
    uint64_t held_bytes; /* that it holds, or is about to hold */
    enum vr_bound bound;
};

/* Asks the driver how much is free, if a sample is due or with `now`. If the driver does not
   answer, the last sample stays. The device has a ledger. No lock held. */
void vr_sample_refresh(struct vr_device_object *device, bool now);
/* The last sample; false: there is none yet. Same conditions. */
bool vr_sample_get(struct vr_device_object *device, struct vr_sample *sample);

/* Brings limits and sample up to date for vr_budget_get. No lock held: may call the driver. */
void vr_budget_refresh(struct vr_pool *pool, bool now);
struct vr_budget vr_budget_get(const struct vr_pool *pool);
uint64_t vr_budget_bytes(const struct vr_pool *pool);

/* Sets the limit of the space from the budget. Under the pool's lock. */
void vr_budget_apply(struct vr_pool *pool, struct vr_space *space);

/* Charge and uncharge what the pool takes from the driver or its provider. VRAM_ERR_LIMIT with the
   error set. */
vram_status vr_budget_charge(struct vr_pool *pool, uint64_t bytes);
/* Whether the grant of a lease, if there is one, has so many bytes left. VRAM_ERR_LIMIT with the
   error set. */
vram_status vr_budget_check_lease(const struct vr_pool *pool, uint64_t bytes);
void vr_budget_uncharge(struct vr_pool *pool, uint64_t bytes);

#endif
