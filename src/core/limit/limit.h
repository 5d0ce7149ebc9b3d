/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit.h: limits as they were set, what is in force of them, and the ledger that a device has for
 * all its pools.
 *
 *      vr_account (device tier) -> vr_ledger  one per device of a context, for all handles on it,
 *                                             of whatever backend: a GPU that several show has one
 *                                   limits    as vram_device_limits_set has them, 0 where not set
 *                                   sample    how much memory was free when the device was last
 *                                             asked
 *                                   tags      who has how much: tag.h
 *                                   foreigns  what others have allocated: foreign_record.h
 *      vr_pool                      limits    as its options or vram_pool_limits_set have them
 *                                   caps      what follows for it: budget.h
 *
 *  (1) limits of pools and devices are read and written under the ledger's lock; caps are atomics
 *      that whoever finds them out of date derives anew.
 *  (2) A ledger is made when it is first asked for and ends with the context, after all devices.
 */
#ifndef VR_LIMIT_H
#define VR_LIMIT_H

#include "core/limit/foreign_record.h"
#include "core/limit/tag.h"
#include "core/object/pool_object.h"
#include "vram/limits.h"

/* Device memory as the driver told it last. */
struct vr_sample {
    vram_value free, total; /* bytes */
    uint64_t at_ns;         /* when, in the device's time */
};

struct vr_ledger {
    uint64_t sample_ns;             /* option memory_sample, at creation */
    vr_atomic_u64 generation;       /* goes up whenever limits change; starts with 1 */
    vr_atomic_u64 due_ns;           /* when the next sample may be taken; 0: none was */
    vr_atomic_u64 processes_due_ns; /* when other processes may be asked for again; 0: never were */
    vr_atomic_u64
        usable_bytes;     /* charged and free together, at the last sample; UINT64_MAX: unknown */
    struct vr_mutex lock; /* guards the rest */
    struct vram_limits limits;
    struct vr_sample sample;
    vram_value processes; /* bytes that other processes hold, when that was last asked; report.c */
    struct vr_tags tags;
    struct vr_foreigns foreigns;
};

/* The ledger of the device, made if need be; NULL with the error set: host memory is out, or the
   option quotas unreadable. */
struct vr_ledger *vr_ledger_get(struct vr_device_object *device);
/* The same once there is one: every pool's device has it. */
static inline struct vr_ledger *vr_ledger_of(const struct vr_device_object *device) {
    return vr_load(&device->slot->account->ledger, VR_ACQUIRE);
}

/* Checks limits of whatever version and writes them as they are kept: fractions inside 0.1 to 1. */
vram_status vr_limits_take(struct vram_limits *to, const struct vram_limits *from);

/* What is in force: `own` if set, else `parent` (NULL: none), else options and preset; never looser
   than `parent` or the environment. `total`: the device's memory. */
void vr_limits_resolve(const struct vram_limits *own, const struct vram_limits *parent,
                       vram_value total, struct vram_limits *effective);

/* Finds out the pool's caps again if limits have changed since. No lock held. */
void vr_limit_derive(struct vr_pool *pool);

/* Whether other memory than the device's may stand in for the pool's: vram_limits.cpu_fallback.
   Whoever falls back asks first. No lock held. */
bool vr_limit_falls_back(struct vr_pool *pool);

/* What the device's own limits let all pools together hold; UINT64_MAX: no limit applies. */
uint64_t vr_limit_device_bytes(struct vr_device_object *device, struct vr_ledger *ledger);

/* Gives memory back of which the pool holds more than it may keep for later. No lock held. */
void vr_limit_trim_cached(struct vr_pool *pool);

#endif
