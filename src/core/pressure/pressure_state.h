/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure_state.h: the state by which a pool measures memory pressure and responds to it.
 *
 *   pressure_level.c  the number and its levels
 *   pressure.c        when it is checked
 *   pressure_watch.c  callbacks when it crosses thresholds
 *   response.c        what a pool does by itself; response_rules.c: what it may do
 *   decay.c           which cached sizes are used, and releasing the others
 *   trim.c            releases free memory to the driver
 *   release.c         releases on demand; mem/trim_calls.c: the program's calls
 *   limit_set.c       sets limits and releases what exceeds them
 *   fragmentation.c   how scattered free memory is
 *   health.c          all of it in one answer
 *   monitor.c         a thread for programs that want one
 *
 *  (1) One thread at a time checks a pool, notifies and responds: the one that set `notifying`. A
 *      concurrent thread, or a callback that allocates, sets `again` instead. So `response` needs
 *      no lock, and no callback is called while it runs.
 *  (2) No lock is held across a callback or a driver call. Watches are in the device's list of
 *      watchers, under its lock.
 *  (3) The error record of the calling thread does not change.
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

/* Which steps it has taken; keeps (1). */
struct vr_response {
    bool high_done, emergency_done; /* taken since pressure was last below */
    uint64_t high_ns, emergency_ns; /* when they were taken last, plus 1; 0: never */
};

struct vr_pool_pressure {
    vr_atomic_u64 changes; /* plans that changed what the pool holds */
    vr_atomic_u64 noted;   /* `changes` at the last check */
    vr_atomic_u64 passes;  /* misses */
    vr_atomic_u64 checked_ns;
    vr_atomic_bool notifying, again; /* keeps (1) */
    uint32_t level;                  /* vram_pressure_level that was counted last; keeps (1) */
    struct vr_response response;
    vr_atomic_u64 ticked_ns;     /* the last tick of the decay */
    vr_atomic_u64 maintained_ns; /* the last maintenance, plus 1; 0: none yet */
    struct vr_rules rules;       /* from here on: the pool's lock */
    uint64_t needed_bytes;  /* most of the pool's out_bytes since the last tick or maintenance, */
    uint64_t needed_before; /* and in the interval before */
    struct vr_types types;
};

struct vr_pool;

/* Initialises a new pool; refuses invalid options. */
vram_status vr_pressure_begin(struct vr_pool *pool, const struct vram_response_options *options);

/* Measures the pressure; `fresh`: the driver is asked now. For a device, `given` has the driver's
   last answer, or NULL. No lock held. */
void vr_pressure_of_pool(struct vr_pool *pool, bool fresh, struct vram_pressure *pressure);
void vr_pressure_of_device(struct vr_device_object *device, const struct vram_pressure *given,
                           struct vram_pressure *pressure);
/* The pressure of a pool by the driver's last answer and the last budget: calls no driver. Any lock
   below the pool's may be held. */
void vr_pressure_last(struct vr_pool *pool, struct vram_pressure *pressure);
/* Where a level begins; and the level after `last`, which falls only when pressure is below by more
   than the hysteresis. */
double vr_pressure_level_begin(uint32_t level);
uint32_t vr_pressure_level_after(uint32_t last, const struct vram_pressure *pressure,
                                 double hysteresis);

/* Called by every miss: checks if something has changed or a check is due. No lock held. The second
   only tells whether the caller has to call vr_pressure_tick. */
void vr_pressure_on_miss(struct vr_pool *pool);
bool vr_pressure_is_due(struct vr_pool *pool);
/* Decays and checks if that is due; `always`: checks in any case, with a fresh sample. */
void vr_pressure_tick(struct vr_pool *pool, bool always);
/* After memory was taken or released: checks, notifies, responds. `fresh`: the driver is asked. No
   lock held. */
void vr_pressure_note(struct vr_pool *pool, bool fresh);

/* Notifies the watches of a pool, or with NULL those of the device; keeps (2); pressure_watch.c. */
void vr_watches_notify(struct vr_device_object *device, struct vr_pool *pool,
                       const struct vram_pressure *pressure);
/* Ends the watches of an ending pool; waits for their calls until the deadline. No lock held. */
void vr_watches_end(struct vr_pool *pool, uint64_t deadline);

/* Takes the steps that this pressure requires; returns whether it took any. Keeps (1);
   response.c. */
bool vr_response_take(struct vr_pool *pool, const struct vram_pressure *pressure);
/* Reads options of any version; and the rules in force, for callers without the lock. */
vram_status vr_rules_read(const struct vram_response_options *options, struct vr_rules *rules);
struct vr_rules vr_rules_of(struct vr_pool *pool);

/* The value of an option in millionths; response_rules.c. */
double vr_pressure_option(enum vr_option option);
/* Whether `warn` and `emergency` are valid thresholds and the hysteresis is below them; otherwise
   records the error. */
vram_status vr_pressure_thresholds(double warn, double emergency, double hysteresis);

/* What the pool holds. No lock held; trim.c. */
uint64_t vr_pool_reserved(struct vr_pool *pool);
/* Releases free memory until the pool holds at most keep_bytes; *released: how much less it holds;
   release.c. */
vram_status vr_pool_trim(struct vr_pool *pool, uint64_t keep_bytes, uint64_t *released);
/* Releases up to so many bytes of free memory to the driver; returns how many. No lock held;
   release.c. */
uint64_t vr_pool_release_bytes(struct vr_pool *pool, uint64_t bytes);
/* What vram_pool_fragmentation_get does; no lock held; fragmentation.c. */
void vr_pool_measure_fragmentation(struct vr_pool *pool, struct vram_fragmentation *found);
/* The larger of vram_fragmentation's two numbers; fragmentation.c. */
double vr_pool_fragmentation(struct vr_pool *pool);
/* Starts a new interval of needed_bytes; no lock held; decay.c. */
void vr_pool_restart_need(struct vr_pool *pool);
/* Does maintenance if it is due; release.c. */
vram_status vr_pool_maintain(struct vr_pool *pool, uint64_t interval_ns, uint64_t *released);
/* What trims have released. */
struct vr_trimmed {
    uint64_t to_driver; /* bytes released to the driver */
    uint64_t to_pool;   /* bytes returned from caches and buffers to the pool */
};
/* Trims a pool by the flags of `options`, except its buffers; adds to *trimmed. No lock held;
   release.c. */
vram_status vr_pool_trim_by(struct vr_pool *pool, const struct vram_trim_options *options,
                            struct vr_trimmed *trimmed);
/* Releases memory that a device (slot NULL: all of them) caches outside pools; returns the bytes.
   No lock held; release.c. */
uint64_t vr_spare(struct vr_context *context, const struct vr_slot *slot);
/* Counts a cleanup that released so many bytes; release.c. */
void vr_count_cleanup(struct vr_pool *pool, uint64_t released);
/* Emergency cleanup of the device, for the library's own use: waits for nothing and skips
   deterministic pools. Returns how many bytes less its pools hold. The second does it for all
   devices. No lock held; release.c. */
uint64_t vr_device_cleanup(struct vr_device_object *device);
/* The same, but each pool keeps what the program needed of it lately: it would only take that
   again. */
uint64_t vr_device_relieve(struct vr_device_object *device);
uint64_t vr_context_cleanup(struct vr_context *context);

#endif
