/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit.h: limits as they were set, the limits in force, and the ledger that a device has for all
 * its pools.
 *
 *      vr_account (device tier) -> vr_ledger  one per device of a context, for all its handles and
 *                                             backends: a GPU that several show has one
 *                                   limits    set by vram_device_limits_set, 0 where not set
 *                                   sample    how much memory was free when the driver was last
 *                                             asked
 *                                   tags      accounts and quotas: tag.h
 *                                   foreigns  memory allocated by other code: foreign_record.h
 *      vr_pool                      limits    set by its options or vram_pool_limits_set
 *                                   caps      derived from all of these: budget.h
 *
 *  (1) Limits of pools and devices are read and written under the ledger's lock. Caps are atomics;
 *      a thread that finds them out of date derives them again.
 *  (2) A ledger is created when it is first needed and freed with the context, after all devices.
 */
#ifndef VR_LIMIT_H
#define VR_LIMIT_H

#include "base/option.h"
#include "core/limit/foreign_record.h"
#include "core/limit/tag.h"
#include "core/object/pool_object.h"
#include "vram/limits.h"
#include "vram/oom.h"

/* Device memory as the driver reported it last. */
struct vr_sample {
    vram_value free, total; /* bytes */
    uint64_t at_ns;         /* when, in the device's time */
};

struct vr_lease_refusal {
    uint32_t count; /* of lenders */
    struct vram_oom_lender lenders[VRAM_OOM_LIST_MAX];
    char text[VRAM_OOM_LEASE_MAX];
};

/* What keeps a grant for the request that asked for it: without it, the process would give the
   grant away as unused before the request has taken its memory. Begins as 0. */
struct vr_lease_hold {
    void *lease; /* pinned; NULL: none */
    struct vr_link link;
    uint64_t level; /* bytes that the context holds once the request has what it was granted */
};

/* What src/lease does for requests. No lock held. */
struct vr_lease_ops {
    /* A request begins for which other processes may have to wait, whether it needs more or not. */
    void (*begin)(uint64_t lease, struct vr_lease_hold *hold);
    /* Asks under the lease of that handle, for a request that needs `bytes` more. `refused`: the
       grant would do, but the driver refuses. VRAM_OK: the request may try again, and *got says how
       much the grant rose; else *refusal says why not. */
    vram_status (*need)(uint64_t lease, uint64_t bytes, bool refused, struct vr_lease_hold *hold,
                        uint64_t *got, struct vr_lease_refusal *refusal);
    /* The request has ended. */
    void (*done)(struct vr_lease_hold *hold);
};

/* "unknown" if the value is none; lease_why.c. */
const char *vr_lease_why_name(vram_lease_why why);
const char *vr_lease_why_text(vram_lease_why why);

struct vr_ledger {
    uint64_t sample_ns;             /* option memory_sample, at creation */
    vr_atomic_u64 generation;       /* rises whenever limits change; starts at 1 */
    vr_atomic_u64 due_ns;           /* when the next sample may be taken; 0: none was */
    vr_atomic_u64 processes_due_ns; /* same for the query for other processes */
    vr_atomic_u64 usable_bytes;     /* charged plus free, at the last sample; UINT64_MAX: unknown */
    vr_atomic_u64 lease;            /* handle of the lease; 0: none */
    _Atomic(const struct vr_lease_ops *) lease_ops; /* set before the first one */
    struct vr_mutex lock;                           /* guards the rest */
    struct vram_limits limits;
    struct vr_sample sample;
    vram_value processes; /* bytes that other processes held at the last query; report.c */
    struct vr_tags tags;
    struct vr_foreigns foreigns;
};

/* The ledger of the device, created if necessary. NULL with the error set: host memory ran out, or
   the option quotas cannot be read. */
struct vr_ledger *vr_ledger_get(struct vr_device_object *device);
/* The ledger if there is one: the device of every pool has it. */
static inline struct vr_ledger *vr_ledger_of(const struct vr_device_object *device) {
    return vr_load(&device->slot->account->ledger, VR_ACQUIRE);
}

/* Checks limits of any version and writes them in the stored form: fractions from 0.1 to 1. */
vram_status vr_limits_take(struct vram_limits *to, const struct vram_limits *from);

/* The memory that limits refer to. */
struct vr_capacity {
    vram_value total; /* bytes of the device */
    bool shared;      /* with the host: VRAM_CAP_INTEGRATED */
};

struct vr_capacity vr_capacity_of(const struct vr_device_object *device);

/* The limits in force: `own` if set, else `parent` (NULL: none), else options and preset; never
   looser than `parent` or the environment. */
void vr_limits_resolve(const struct vram_limits *own, const struct vram_limits *parent,
                       struct vr_capacity capacity, struct vram_limits *effective);

/* The environment's limits; 0 where it sets nothing. `hard` is the option for hard_bytes. */
void vr_limits_ceiling(struct vr_capacity capacity, enum vr_option hard,
                       struct vram_limits *result);

/* Derives the pool's caps again if limits have changed since. No lock held. */
void vr_limit_derive(struct vr_pool *pool);

/* A thread is about to have one more cache of the pool, or has dropped one. True: the others may
   keep fewer blocks now, and are to be drained. No higher lock held. */
bool vr_limit_caches_add(struct vr_pool *pool, bool added);

/* Whether other memory may replace the pool's: vram_limits.cpu_fallback. Checked before every
   fallback. No lock held. */
bool vr_limit_falls_back(struct vr_pool *pool);

/* How much the device's own limits allow all pools together; UINT64_MAX: no limit applies. */
uint64_t vr_limit_device_bytes(struct vr_device_object *device, struct vr_ledger *ledger);

/* After an allocation or a free: releases idle memory if there is too much for cached_bytes. Waits
   for no work. No lock held; limit_set.c. */
void vr_limit_trim_cached(struct vr_pool *pool);

#endif
