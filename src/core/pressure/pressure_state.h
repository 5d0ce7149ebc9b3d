/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure_state.h: what a pool keeps to know how near its memory is to the end, and what it does
 * about it.
 *
 *   pressure_level.c  the number and its levels
 *   pressure.c        when it is looked at
 *   pressure_watch.c  who is told of it
 *   response.c        what a pool does by itself; response_rules.c: what it may do
 *   decay.c           which cached sizes are used, and letting go of the others
 *   trim.c            free memory goes back to the driver
 *   release.c         giving back on demand; release_calls.c: the program's calls
 *   limit_set.c       limits that are set, and what is held above them
 *   fragmentation.c   how scattered free memory is
 *   health.c          all of it in one answer
 *   monitor.c         a thread for programs that want one
 *
 *  (1) One thread at a time looks at a pool, tells and responds: whoever raised `telling`. Another
 *      that comes by meanwhile, or a callback that allocates, leaves word in `again`. So nothing of
 *      `response` needs a lock, and a callback is never called while it runs.
 *  (2) No lock is held across a callback or a driver call. Watches are in the device's list of
 *      watchers, under its lock.
 *  (3) The record of the calling thread's last error is as it was: what is tried here is nobody's
 *      business.
 */
#ifndef VR_PRESSURE_STATE_H
#define VR_PRESSURE_STATE_H

#include "base/option.h"
#include "core/pressure/decay.h"
#include "device/objects.h"
#include "vram/pressure.h"

/* How a pool responds, as vram_response_options has it. Under the pool's lock. */
struct vr_rules {
    uint32_t off; /* bits 1 << vram_response_step */
    double emergency, hysteresis;
    uint64_t interval_ns, decay_ns; /* decay_ns UINT64_MAX: none */
};

/* What it has done; keeps (1). */
struct vr_response {
    bool high_done, emergency_done; /* taken since pressure was below */
    uint64_t high_ns, emergency_ns; /* when they were taken last, and 1; 0: never */
};

struct vr_pool_pressure {
    vr_atomic_u64 changes; /* times that a plan changed what the pool holds */
    vr_atomic_u64 noted;   /* what that was at the last look */
    vr_atomic_u64 passes;  /* misses that came by */
    vr_atomic_u64 checked_ns;
    vr_atomic_bool notifying, again; /* keeps (1) */
    uint32_t level;                  /* vram_pressure_level that was counted last; keeps (1) */
    struct vr_response response;
    vr_atomic_u64 ticked_ns;     /* the last tick of the decay */
    vr_atomic_u64 maintained_ns; /* the last maintenance, and 1; 0: none yet */
    struct vr_rules rules;       /* from here on: the pool's lock */
    uint64_t needed_bytes;  /* most of the pool's out_bytes since the last tick or maintenance, */
    uint64_t needed_before; /* and between that and the one before */
    struct vr_types types;
};

struct vr_pool;

/* A new pool begins; refuses what makes no sense. */
vram_status vr_pressure_begin(struct vr_pool *pool, const struct vram_response_options *options);

/* How things stand; `fresh`: the driver is asked now. Of a device with what it said already
   `given`, or NULL. No lock held. */
void vr_pressure_of_pool(struct vr_pool *pool, bool fresh, struct vram_pressure *pressure);
void vr_pressure_of_device(struct vr_device_object *device, const struct vram_pressure *given,
                           struct vram_pressure *pressure);
/* Where a level begins, and which one follows on `last` when levels fall by more than the
   hysteresis only. */
double vr_pressure_level_begin(uint32_t level);
uint32_t vr_pressure_level_after(uint32_t last, const struct vram_pressure *pressure,
                                 double hysteresis);

/* A miss comes by: looks if anything has changed, or it is time. No lock held. */
void vr_pressure_on_miss(struct vr_pool *pool);
/* The same by the clock: decays if that is due, and looks; `always`: in any case, with a fresh
   sample. */
void vr_pressure_tick(struct vr_pool *pool, bool always);
/* Memory was taken or given back: looks, tells, responds. `fresh`: the driver is asked. No lock
   held. */
void vr_pressure_note(struct vr_pool *pool, bool fresh);

/* Tells the watches of a pool, or with NULL those of the device; keeps (2); pressure_watch.c. */
void vr_watches_notify(struct vr_device_object *device, struct vr_pool *pool,
                       const struct vram_pressure *pressure);
/* The pool ends: so do its watches; calls under way are waited for until the deadline. No lock
   held. */
void vr_watches_end(struct vr_pool *pool, uint64_t deadline);

/* Takes the steps that this pressure asks for; whether any was. Keeps (1); response.c. */
bool vr_response_take(struct vr_pool *pool, const struct vram_pressure *pressure);
/* Reads options of whatever version; the rules that are in force, for who has no lock. */
vram_status vr_rules_read(const struct vram_response_options *options, struct vr_rules *rules);
struct vr_rules vr_rules_of(struct vr_pool *pool);

/* The value of an option that is given in millionths; response_rules.c. */
double vr_pressure_option(enum vr_option option);
/* Whether `warn` and `emergency` are thresholds and the hysteresis fits below them; records what is
   wrong with them. */
vram_status vr_pressure_thresholds(double warn, double emergency, double hysteresis);

/* What the pool holds. No lock held; trim.c. */
uint64_t vr_pool_reserved(struct vr_pool *pool);
/* Gives free memory back until at most keep_bytes are held; *released: how much less it holds;
   release.c. */
vram_status vr_pool_trim(struct vr_pool *pool, uint64_t keep_bytes, uint64_t *released);
/* Gives up to so many bytes of free memory back to the driver; how many. No lock held;
   release.c. */
uint64_t vr_pool_release_bytes(struct vr_pool *pool, uint64_t bytes);
/* What vram_pool_fragmentation_get says; no lock held; fragmentation.c. */
void vr_pool_measure_fragmentation(struct vr_pool *pool, struct vram_fragmentation *found);
/* The larger of vram_fragmentation's two numbers; fragmentation.c. */
double vr_pool_fragmentation(struct vr_pool *pool);
/* What is needed from now on counts anew; no lock held; decay.c. */
void vr_pool_restart_need(struct vr_pool *pool);
/* Maintenance if it is due; release.c. */
vram_status vr_pool_maintain(struct vr_pool *pool, uint64_t interval_ns, uint64_t *released);
/* What trims have given back. */
struct vr_trimmed {
    uint64_t to_driver; /* bytes that are held no more */
    uint64_t to_pool;   /* bytes that left caches and buffers for the pool */
};
/* Trims a pool as the flags of `options` say, but for its buffers; adds to *trimmed. No lock held;
   release.c. */
vram_status vr_pool_trim_by(struct vr_pool *pool, const struct vram_trim_options *options,
                            struct vr_trimmed *trimmed);
/* Has a device (slot NULL: all of them) give back what is kept beside pools: the bytes. No lock
   held; release.c. */
uint64_t vr_spare(struct vr_context *context, const struct vr_slot *slot);
/* Counts a cleanup that gave back so many bytes; release.c. */
void vr_count_cleanup(struct vr_pool *pool, uint64_t released);
/* Emergency cleanup of the device behind that handle, for the library's own use: waits for nothing
   and passes by deterministic pools. The bytes that its pools hold less. The same of all devices.
   No lock held; release.c. */
uint64_t vr_device_cleanup(struct vr_device_object *device);
uint64_t vr_context_cleanup(struct vr_context *context);

#endif
