/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder_lease.c: asks other processes for memory, through the lease of the device; see ladder.h.
 *
 * A process that was killed has lost its lease before the driver has taken back its memory. So a
 * driver that still refuses after a grant is tried again for a moment.
 */
#include "core/ladder/ladder.h"

#include "base/clock.h"
#include "base/size.h"
#include "core/limit/budget.h"

enum {
    GROWTH_LEAST = 2,    /* least growth of a space, in granules: supply.c */
    RECLAIM_NS = 500000, /* the first wait for the driver; each next one is twice as long, */
    RECLAIM_DOUBLES = 9  /* so many times: a quarter of a second in all */
};

/* The bytes that the request may still need from the driver. */
static uint64_t need_of(const struct vr_ladder_run *run) {
    uint64_t bytes, granule = run->pool->granule;
    if (!vr_round_up(run->request->bytes, granule, &bytes) ||
        !vr_add(bytes, GROWTH_LEAST * granule, &bytes)) {
        return run->request->bytes;
    }
    return bytes;
}

/* Tries again while the driver refuses. */
static void reclaim_wait(struct vr_ladder_run *run) {
    for (int round = 0; run->tried == VRAM_ERR_DEVICE_MEMORY && round < RECLAIM_DOUBLES; round++) {
        vr_clock_sleep((uint64_t)RECLAIM_NS << round);
        vr_ladder_try(run);
    }
}

/* Asks once; false: there is nothing to ask for, or the answer was no. */
static bool lease_ask(struct vr_ladder_run *run, const struct vr_lease_ops *ops, uint64_t lease,
                      struct vr_lease_hold *hold) {
    struct vr_device_object *device = run->pool->device;
    uint64_t bytes = need_of(run), got = 0, grant = vr_lease_limit(device), all = UINT64_MAX;
    uint64_t charged = vr_load(&device->slot->account->charged_bytes, VR_RELAXED);
    bool passes =
        !vr_add(charged, bytes, &all) || all > grant; /* a sum that overflows is too much */
    bool refused = run->tried == VRAM_ERR_DEVICE_MEMORY || run->status == VRAM_ERR_DEVICE_MEMORY;
    if (!passes && !refused) {
        return false; /* another limit is in the way */
    }
    if (ops->need(lease, bytes, !passes, hold, &got, &run->refusal) != VRAM_OK) {
        return false;
    }
    run->results[run->step].bytes += got;
    vr_budget_refresh(run->pool, true);
    vr_ladder_try(run);
    reclaim_wait(run);
    return true;
}

void vr_lease_hold_begin(const struct vr_pool *pool, struct vr_lease_hold *hold) {
    struct vr_ledger *ledger = vr_ledger_of(pool->device);
    uint64_t lease = vr_load(&ledger->lease, VR_ACQUIRE);
    if (lease) {
        atomic_load_explicit(&ledger->lease_ops, memory_order_acquire)->begin(lease, hold);
    }
}

void vr_lease_hold_end(const struct vr_pool *pool, struct vr_lease_hold *hold) {
    if (hold->lease) {
        const struct vr_ledger *ledger = vr_ledger_of(pool->device);
        atomic_load_explicit(&ledger->lease_ops, memory_order_acquire)->done(hold);
    }
}

bool vr_step_lease(struct vr_ladder_run *run) {
    struct vr_ledger *ledger = vr_ledger_of(run->pool->device);
    const struct vr_lease_ops *ops = atomic_load_explicit(&ledger->lease_ops, memory_order_acquire);
    uint64_t lease = vr_load(&ledger->lease, VR_ACQUIRE);
    struct vr_lease_hold own = {.lease = NULL};
    enum { ASKS = 2 }; /* once for the grant, once for what the driver then refuses */
    bool granted = true;
    if (!ops || !lease || !vr_pool_is_charged(run->pool) ||
        run->request->flags & VRAM_ALLOC_NO_WAIT) {
        return false;
    }
    int asks = 0;
    while (granted && asks < ASKS && vr_status_is_short(run->tried)) {
        granted = lease_ask(run, ops, lease, run->hold ? run->hold : &own);
        asks += granted || *run->refusal.text;
    }
    vr_lease_hold_end(run->pool, &own);
    return asks != 0;
}
