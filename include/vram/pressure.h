/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/pressure.h: how close memory is to running out, callbacks for it, and the automatic
 * response.
 *
 * Pressure is a number: 0 is empty, 1 is full. For a pool it is what the pool has reserved, divided
 * by the most that it may hold (its budget, from limits and the device's memory). For a device it
 * is 1 - free / total, with the memory of all processes. For a pool the larger of the two counts.
 * If neither is known, pressure is unknown; it is not guessed.
 *
 * Pressure is measured after memory was taken from the driver or returned to it, and at intervals,
 * never in an allocation that a thread cache serves. If it rises, a pool gives up cached memory
 * step by step; live blocks are never touched. Each step is counted in vram_pool_stats and can be
 * turned off.
 *
 * Callbacks run on the thread that noticed the change. No lock is held, so they may call anything:
 * allocate, free, end their own watch, destroy the pool. Changes that a callback causes are
 * reported after it returns.
 */
#ifndef VRAM_PRESSURE_H
#define VRAM_PRESSURE_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- levels */

/** Every level: X(NAME, number, "name", "which pressure"). */
#define VRAM_PRESSURE_MAP(X)                                                                       \
    X(UNKNOWN, 0, "unknown", "neither a limit nor the device's free memory is known")              \
    X(LOW, 1, "low", "below 0.60")                                                                 \
    X(MEDIUM, 2, "medium", "from 0.60, below 0.80")                                                \
    X(HIGH, 3, "high", "from 0.80 to 0.95")                                                        \
    X(CRITICAL, 4, "critical", "above 0.95")

typedef enum vram_pressure_level {
#define VRAM_PRESSURE_ENUM(NAME, number, name, text) VRAM_PRESSURE_##NAME = number,
    VRAM_PRESSURE_MAP(VRAM_PRESSURE_ENUM)
#undef VRAM_PRESSURE_ENUM
} vram_pressure_level;

/** The level of a pressure; VRAM_PRESSURE_UNKNOWN for NaN and negative numbers. */
VRAM_API vram_pressure_level vram_pressure_level_of(double value);

/** "low", "high"; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_pressure_level_name(vram_pressure_level level);

typedef struct vram_pressure {
    size_t size; /* in: sizeof(vram_pressure) of the caller */
    vram_pressure_level level;
    bool known;              /* whether `value` is set */
    double value;            /* the larger of `own` and `device`; may exceed 1 */
    bool own_known;          /* whether `own` is set: for a pool or device with a limit */
    double own;              /* reserved_bytes / limit_bytes */
    bool device_known;       /* whether `device` is set */
    double device;           /* 1 - free / total */
    uint64_t reserved_bytes; /* of the pool, or of everything on the device through libvram */
    vram_value limit_bytes;  /* what `own` is measured against */
    vram_value free_bytes, total_bytes; /* of the device, when last asked */
} vram_pressure;

/**
 * Measures pressure now. Asks the driver for its free memory (microseconds), calls watches, and
 * lets the pool respond as after a miss. A program may call it to have pressure checked while it
 * does not allocate.
 */
VRAM_API vram_status vram_pool_pressure_get(vram_pool *pool, vram_pressure *pressure);
VRAM_API vram_status vram_device_pressure_get(vram_device *device, vram_pressure *pressure);

/* ----------------------------------------------------------------- watching */

typedef struct vram_watch vram_watch;

typedef enum vram_pressure_edge {
    VRAM_PRESSURE_WARN = 1 << 0,      /* rose above `warn`, or fell below it */
    VRAM_PRESSURE_EMERGENCY = 1 << 1, /* the same for `emergency` */
    VRAM_PRESSURE_LEVEL = 1 << 2      /* a level other than the last one reported */
} vram_pressure_edge;

typedef struct vram_pressure_event {
    size_t size; /* sizeof(vram_pressure_event) of the library */
    vram_pressure_edge edge;
    bool up;                         /* it rose */
    vram_pressure_level level, last; /* now; as reported last */
    double value;                    /* the pressure now */
    double threshold;    /* that was crossed; VRAM_PRESSURE_LEVEL: the level's boundary */
    vram_device *device; /* borrowed */
    vram_pool *pool;     /* borrowed; NULL for a watch of a device */
} vram_pressure_event;

typedef void vram_pressure_fn(void *user, const vram_pressure_event *event);

typedef struct vram_watch_options {
    size_t size;            /* sizeof(vram_watch_options) */
    vram_pressure_fn *call; /* required */
    void *user;             /* handed to each call */
    uint32_t edges;         /* of vram_pressure_edge; 0: warn and emergency */
    double warn;            /* 0 < warn <= emergency <= 1; 0: option pressure_warn, 0.7 */
    double emergency;       /* 0: option pressure_emergency, 0.9 */
    double hysteresis;      /* 0 <= hysteresis < warn; 0: option pressure_hysteresis, 0.05 */
} vram_watch_options;

/**
 * Calls `call` when pressure crosses a threshold: upwards when it is above the threshold, downwards
 * when it is below the threshold by more than the hysteresis. A value that varies around a
 * threshold is reported once. The first measurement counts as a crossing from below.
 * VRAM_ERR_INVALID for thresholds that are NaN, not in order or outside 0 to 1.
 */
VRAM_API vram_status vram_pool_watch_begin(vram_pool *pool, const vram_watch_options *options,
                                           vram_watch **watch);
VRAM_API vram_status vram_device_watch_begin(vram_device *device, const vram_watch_options *options,
                                             vram_watch **watch);

/**
 * Ends a watch; so does destroying its pool or closing its device. When it returns, no callback of
 * it is running, with two exceptions. A callback may end its own watch. And after VRAM_ERR_TIMEOUT
 * a callback has been running for longer than the option `wait_timeout`: `user` must stay valid
 * until it returns. NULL is allowed.
 */
VRAM_API vram_status vram_watch_end(vram_watch *watch);

/* ----------------------------------------------------------------- response */

/** What a pool or device does automatically if memory runs low. Acts on cached memory only. */
typedef enum vram_response_step {
    VRAM_RESPONSE_HALVE = 0,     /* cached counts were halved */
    VRAM_RESPONSE_DROP = 1,      /* rarely used sizes were dropped from the caches */
    VRAM_RESPONSE_EMERGENCY = 2, /* all pools of the device released what is not needed */
    VRAM_RESPONSE_DECAY = 3,     /* memory that was idle too long was released */
    VRAM_RESPONSE_MAINTAIN = 4   /* maintenance at its interval */
} vram_response_step;

/**
 * What a pool does automatically, with cached memory only, after an allocation that missed, after a
 * trim, or when the monitor checks it:
 *
 *   from 0.80      VRAM_RESPONSE_HALVE: half of all cached blocks, of every size, go back to the
 *                  pool. If that is not enough, VRAM_RESPONSE_DROP: all cached blocks of rarely
 *                  used sizes follow. Memory that becomes free goes to the driver.
 *   above 0.9      VRAM_RESPONSE_EMERGENCY: all pools of the device release their cached memory
 *                  (`emergency`), except what the program needed of them within the last one or two
 *                  `decay_ns`: it would take that again at once
 *   at intervals   VRAM_RESPONSE_DECAY: half of the cached blocks of sizes that a thread has not
 *                  used for `decay_ns` go back to the pool
 *
 * A step is taken once when its threshold is crossed. It is taken again only after pressure has
 * been below the threshold by more than the hysteresis, and at least `interval_ns` after the last
 * time. A deterministic pool takes no steps. A size is rarely used if it had less than a quarter of
 * the average number of hits; at each check the hits so far count half.
 */
typedef struct vram_response_options {
    size_t size;          /* sizeof(vram_response_options) */
    uint32_t off;         /* steps to skip: bits 1 << vram_response_step */
    double emergency;     /* 0 < emergency <= 1; 0: option pressure_emergency, 0.9 */
    double hysteresis;    /* 0 <= hysteresis < 0.8; 0: option pressure_hysteresis, 0.05 */
    uint64_t interval_ns; /* 0: option response_interval, 1 s; in the device's time */
    uint64_t decay_ns;    /* 0: option decay_interval, 10 s */
} vram_response_options;

/** Replaces vram_pool_options.response. NULL: all defaults. */
VRAM_API vram_status vram_pool_response_set(vram_pool *pool, const vram_response_options *options);

/* ------------------------------------------------------------- fragmentation */

typedef enum vram_fragmentation_level {
    VRAM_FRAGMENTATION_LOW = 0,    /* below 0.25 */
    VRAM_FRAGMENTATION_MEDIUM = 1, /* from 0.25, below 0.50 */
    VRAM_FRAGMENTATION_HIGH = 2    /* from 0.50 */
} vram_fragmentation_level;

/** Free memory that is of little use. */
typedef struct vram_fragmentation {
    size_t size;                    /* in: sizeof(vram_fragmentation) of the caller */
    vram_fragmentation_level level; /* of the larger of `scattered` and `rare` */
    double scattered;    /* 1 - largest_free_bytes / free_bytes; 0: one piece, or none. A pool
                            that can move memory moves it; others must grow */
    double rare;         /* rare_bytes / cached_bytes; 0 if nothing is cached */
    uint64_t free_bytes; /* in the pool, in no block and no cache */
    uint64_t largest_free_bytes; /* the largest contiguous part of it */
    uint64_t cached_bytes;       /* in thread caches and the central cache */
    uint64_t rare_bytes;         /* of these, in rarely used sizes */
    uint32_t types, rare_types; /* cached sizes; of these, rarely used. Sizes above 32 KiB share 191
                                   classes */
} vram_fragmentation;

VRAM_API vram_status vram_pool_fragmentation_get(vram_pool *pool,
                                                 vram_fragmentation *fragmentation);

/* -------------------------------------------------------------------- health */

typedef enum vram_health_verdict {
    VRAM_HEALTH_UNKNOWN = 0,   /* pressure is unknown */
    VRAM_HEALTH_GOOD = 1,      /* pressure is at most `warn` */
    VRAM_HEALTH_WARN = 2,      /* above `warn` */
    VRAM_HEALTH_EMERGENCY = 3, /* above `emergency` */
    VRAM_HEALTH_LOST = 4       /* the device is lost */
} vram_health_verdict;

typedef struct vram_health_options {
    size_t size;      /* sizeof(vram_health_options) */
    double warn;      /* 0: option pressure_warn, 0.7 */
    double emergency; /* 0: option pressure_emergency, 0.9 */
    bool look_only;   /* never clean up */
} vram_health_options;

typedef struct vram_health_info {
    size_t size;                 /* in: sizeof(vram_health_info) of the caller */
    vram_health_verdict verdict; /* before the cleanup */
    vram_pressure pressure;      /* before the cleanup: the highest of device and pools */
    vram_pressure after;         /* after the cleanup; the same if there was none */
    bool cleaned;                /* there was an emergency cleanup */
    uint64_t released_bytes;     /* by it */
    uint32_t pools;              /* on the device */
    uint64_t live_bytes, cached_bytes, reserved_bytes; /* of all pools, before the cleanup */
    double hit_rate;      /* hits / allocs of all its pools; 0 before the first allocation */
    double fragmentation; /* the highest vram_fragmentation.scattered or .rare of the pools */
    char text[200];       /* one line: what was found, what was done, what would help */
} vram_health_info;

/**
 * Checks the health of a device in one call: measures pressure, logs a warning above `warn`, and
 * above `emergency` logs an error and makes an emergency cleanup. VRAM_OK whatever it finds.
 */
VRAM_API vram_status vram_health(vram_device *device, const vram_health_options *options,
                                 vram_health_info *health);

/* ------------------------------------------------------------------- monitor */

typedef struct vram_monitor vram_monitor;

typedef struct vram_monitor_options {
    size_t size;          /* sizeof(vram_monitor_options) */
    uint64_t interval_ns; /* between checks, in real time; 0: option monitor_interval, 1 s */
    uint64_t maintain_ns; /* between VRAM_TRIM_RARE of each pool; 0: never */
} vram_monitor_options;

/**
 * Starts a thread that checks every opened device of the context and its pools: it measures
 * pressure, calls watches, lets pools respond and decay, and maintains them. It is optional:
 * without one, all of that happens during allocations. It ends with its context. Several are
 * allowed. A forked child has none.
 */
VRAM_API vram_status vram_monitor_begin(vram_context *context, const vram_monitor_options *options,
                                        vram_monitor **monitor);

/**
 * Ends a monitor and waits for a check that is running, unless that check made this call. NULL is
 * allowed.
 */
VRAM_API vram_status vram_monitor_end(vram_monitor *monitor);

#ifdef __cplusplus
}
#endif

#endif
