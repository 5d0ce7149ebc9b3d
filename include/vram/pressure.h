/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/pressure.h: how near memory is to its end, who is told, and what is done about it.
 *
 * Pressure is a number: 0 is empty, 1 is full. Of a pool it is what the pool has reserved over what
 * it may hold at most (its budget: limits, and what the device has); of a device it is 1 - free /
 * total, over all processes. The larger of the two counts for a pool. Where neither is known it is
 * unknown, not guessed.
 *
 * It is looked at where memory was taken or given back and by the clock, never on the way of a hit.
 * When it rises a pool gives up cached memory by itself, step by step; live blocks are never
 * touched. Every step is counted in vram_pool_stats and can be switched off.
 *
 * Callbacks are made with no lock held, on the thread that noticed, and may call anything:
 * allocate, free, end their own watch, destroy the pool. While one runs, what it causes is told
 * after it returns.
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

/** The level of a number; VRAM_PRESSURE_UNKNOWN for what is none (NaN) or negative. */
VRAM_API vram_pressure_level vram_pressure_level_of(double value);

/** "low", "high"; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_pressure_level_name(vram_pressure_level level);

typedef struct vram_pressure {
    size_t size; /* in: sizeof(vram_pressure) of the caller */
    vram_pressure_level level;
    bool known;              /* whether the next field says anything */
    double value;            /* the larger of the two that follow; may pass 1 */
    bool own_known;          /* of the pool, or of a device with a limit of its own: */
    double own;              /* held / limit */
    bool device_known;       /* of the device: */
    double device;           /* 1 - free / total */
    uint64_t reserved_bytes; /* held by the pool, or by all that use the device through libvram */
    vram_value limit_bytes;  /* what `own` is measured against */
    vram_value free_bytes, total_bytes; /* of the device, as last asked */
} vram_pressure;

/**
 * How things stand now. Asks the driver for its free memory (microseconds), tells whoever watches,
 * and lets the pool respond, as a miss would: also a way to have pressure looked at where no
 * allocation comes by.
 */
VRAM_API vram_status vram_pool_pressure_get(vram_pool *pool, vram_pressure *pressure);
VRAM_API vram_status vram_device_pressure_get(vram_device *device, vram_pressure *pressure);

/* ----------------------------------------------------------------- watching */

typedef struct vram_watch vram_watch;

typedef enum vram_pressure_edge {
    VRAM_PRESSURE_WARN = 1 << 0,      /* above `warn`, or below it again */
    VRAM_PRESSURE_EMERGENCY = 1 << 1, /* the same of `emergency` */
    VRAM_PRESSURE_LEVEL = 1 << 2      /* another level than the last that was told */
} vram_pressure_edge;

typedef struct vram_pressure_event {
    size_t size; /* sizeof(vram_pressure_event) of the library */
    vram_pressure_edge edge;
    bool up;                         /* it rose */
    vram_pressure_level level, last; /* now; what was told last */
    double value;                    /* the pressure now */
    double threshold;    /* what was crossed: the level's boundary for VRAM_PRESSURE_LEVEL */
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
 * Has `call` called when pressure crosses a threshold. Up: when the value is above it. Down: when
 * the value has fallen below the threshold by more than the hysteresis, so that a value which
 * dances around a threshold is told of once. The first look counts as a crossing from below.
 * VRAM_ERR_INVALID for thresholds that are no numbers, not in order or outside of 0 to 1.
 */
VRAM_API vram_status vram_pool_watch_begin(vram_pool *pool, const vram_watch_options *options,
                                           vram_watch **watch);
VRAM_API vram_status vram_device_watch_begin(vram_device *device, const vram_watch_options *options,
                                             vram_watch **watch);

/**
 * Ends a watch; so does the end of its pool or device. When it returns no call is under way, unless
 * it was made by that very call, or with VRAM_ERR_TIMEOUT: one has been running for the option
 * `wait_timeout`, and `user` must last until it returns. NULL is allowed.
 */
VRAM_API vram_status vram_watch_end(vram_watch *watch);

/* ----------------------------------------------------------------- response */

/** What a pool or device does by itself when memory runs low. Acts on cached memory only. */
typedef enum vram_response_step {
    VRAM_RESPONSE_HALVE = 0,     /* cached counts were halved */
    VRAM_RESPONSE_DROP = 1,      /* the least used sizes were let go */
    VRAM_RESPONSE_EMERGENCY = 2, /* all that is cached on the device was given back */
    VRAM_RESPONSE_DECAY = 3,     /* what lay idle too long was given back */
    VRAM_RESPONSE_MAINTAIN = 4   /* maintenance by its interval */
} vram_response_step;

/**
 * What a pool does by itself, on cached memory only, after an allocation that missed, a trim, or by
 * the monitor:
 *
 *   from 0.80      VRAM_RESPONSE_HALVE: half of all cached blocks, of every size, go back to the
 *                  pool; if that was not enough, VRAM_RESPONSE_DROP: so do all of rarely used
 *                  sizes. What became free is given back to the driver.
 *   above 0.9      VRAM_RESPONSE_EMERGENCY: emergency cleanup of the device (`emergency`)
 *   by the clock   VRAM_RESPONSE_DECAY: half of the cached blocks of sizes that a thread has not
 *                  used for `decay_ns` go back to the pool
 *
 * A step is taken once when its threshold is crossed, again after pressure has been below by more
 * than the hysteresis, and never sooner than `interval_ns` after it was taken last. A deterministic
 * pool does none of it. A size is rarely used when it had less than a quarter of the average of
 * hits; older ones count half at each look.
 */
typedef struct vram_response_options {
    size_t size;          /* sizeof(vram_response_options) */
    uint32_t off;         /* steps not to take: bits 1 << vram_response_step */
    double emergency;     /* 0 < emergency <= 1; 0: option pressure_emergency, 0.9 */
    double hysteresis;    /* 0 <= hysteresis < 0.8; 0: option pressure_hysteresis, 0.05 */
    uint64_t interval_ns; /* 0: option response_interval, 1 s; in the device's time */
    uint64_t decay_ns;    /* 0: option decay_interval, 10 s */
} vram_response_options;

/** Changes how a pool responds, in the place of vram_pool_options.response; NULL: all defaults. */
VRAM_API vram_status vram_pool_response_set(vram_pool *pool, const vram_response_options *options);

/* ------------------------------------------------------------- fragmentation */

typedef enum vram_fragmentation_level {
    VRAM_FRAGMENTATION_LOW = 0,    /* below 0.25 */
    VRAM_FRAGMENTATION_MEDIUM = 1, /* from 0.25, below 0.50 */
    VRAM_FRAGMENTATION_HIGH = 2    /* from 0.50 */
} vram_fragmentation_level;

/** What is free and yet of little use. */
typedef struct vram_fragmentation {
    size_t size;                    /* in: sizeof(vram_fragmentation) of the caller */
    vram_fragmentation_level level; /* of the larger of the next two */
    double scattered;    /* 1 - largest_free_bytes / free_bytes; 0: all in one piece, or none. A
                                      pool that can move memory moves it; others must grow */
    double rare;         /* rare_bytes / cached_bytes; 0 with nothing cached */
    uint64_t free_bytes; /* in the pool, of no block and in no cache */
    uint64_t largest_free_bytes; /* largest run of it */
    uint64_t cached_bytes;       /* in thread caches and depot */
    uint64_t rare_bytes;         /* of these, in sizes that are rarely used */
    uint32_t types, rare_types;  /* sizes that are cached; of these, rarely used; sizes above 32 KiB
                                      share 191 places */
} vram_fragmentation;

VRAM_API vram_status vram_pool_fragmentation_get(vram_pool *pool,
                                                 vram_fragmentation *fragmentation);

/* -------------------------------------------------------------------- health */

typedef enum vram_health_verdict {
    VRAM_HEALTH_UNKNOWN = 0,   /* nothing is known of the device's memory */
    VRAM_HEALTH_GOOD = 1,      /* at most `warn` */
    VRAM_HEALTH_WARN = 2,      /* above it */
    VRAM_HEALTH_EMERGENCY = 3, /* above `emergency` */
    VRAM_HEALTH_LOST = 4       /* the device is lost */
} vram_health_verdict;

typedef struct vram_health_options {
    size_t size;      /* sizeof(vram_health_options) */
    double warn;      /* 0: option pressure_warn, 0.7 */
    double emergency; /* 0: option pressure_emergency, 0.9 */
    bool look_only;   /* no cleanup, whatever is found */
} vram_health_options;

typedef struct vram_health_info {
    size_t size;                 /* in: sizeof(vram_health_info) of the caller */
    vram_health_verdict verdict; /* as it was found */
    vram_pressure pressure;      /* as it was found: the highest of device and pools */
    vram_pressure after;         /* after the cleanup; the same without one */
    bool cleaned;                /* an emergency cleanup was made */
    uint64_t released_bytes;     /* by it */
    uint32_t pools;              /* on the device */
    uint64_t live_bytes, cached_bytes, reserved_bytes; /* of all of them, as found */
    double hit_rate;                                   /* of all of them; 0 of 0 is 0 */
    double fragmentation; /* the worst of vram_fragmentation.scattered and .rare of them */
    char text[200];       /* one line for people: what is, what was done, what would help */
} vram_health_info;

/**
 * The health check of a device in one call: looks at pressure, logs a warning above `warn` and an
 * error above `emergency`, and then makes an emergency cleanup. VRAM_OK whatever it finds.
 */
VRAM_API vram_status vram_health(vram_device *device, const vram_health_options *options,
                                 vram_health_info *health);

/* ------------------------------------------------------------------- monitor */

typedef struct vram_monitor vram_monitor;

typedef struct vram_monitor_options {
    size_t size;          /* sizeof(vram_monitor_options) */
    uint64_t interval_ns; /* between looks, in real time; 0: option monitor_interval, 1 s */
    uint64_t maintain_ns; /* VRAM_TRIM_RARE of each pool, so often; 0: none */
} vram_monitor_options;

/**
 * A thread that looks at every opened device of the context and at its pools: samples, tells
 * watches, lets pools respond and decay, maintains them. Nothing needs it: without one all of that
 * happens when allocations come by. It ends with its context. Several are allowed. In a forked
 * child there is none.
 */
VRAM_API vram_status vram_monitor_begin(vram_context *context, const vram_monitor_options *options,
                                        vram_monitor **monitor);

/**
 * Ends it and waits for a look that is under way, unless it was called by that look. NULL is
 * allowed.
 */
VRAM_API vram_status vram_monitor_end(vram_monitor *monitor);

#ifdef __cplusplus
}
#endif

#endif
