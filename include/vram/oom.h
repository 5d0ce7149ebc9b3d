/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/oom.h: what a pool does when memory is short, and what it says when nothing helped.
 *
 * A request that the driver or a limit refuses climbs the ladder: a declared list of steps, each of which
 * gives memory back or looks for it elsewhere, in the order of the option `ladder` or of
 * vram_pool_ladder_set; by default all of them, as listed here. A step that gave something back is followed by another attempt. Only exhaustion
 * climbs (vram_status_is_exhausted, host memory apart): every other error is returned as it is, and
 * nothing is tried twice for it. VRAM_ALLOC_CACHED_ONLY asks for no step, and a request that is larger than
 * the device or than the program's limit takes none but `fallback`.
 *
 *   drain      what threads keep at hand goes back to the pool
 *   finished   memory that queues have finished with; see below
 *   move       free handles are moved to where they are needed, whatever the time budget says
 *   trim       what lies free in other parts of this pool is given back to the driver
 *   others     what lies free in the other pools of the device is given back
 *   callbacks  the program is asked to let go of something: vram_oom_callback_add
 *   cleanup    everything cached on the device is given back
 *   retry      one more attempt, exactly one, whether or not anything was given back
 *   wait       for other threads to free, up to the option `oom_wait`
 *   fallback   managed, pinned or host memory, where the pool allows it: vram_ladder_options.fallback
 *
 * drain, finished, move and trim are the pool's own business. With `finished` among a row of them, unfinished
 * work that holds memory of the pool is waited for behind the last of that row, on the device where one queue
 * can wait for the other, else on the host up to the option `wait_timeout`, and the row is taken again
 * whenever some of it has ended.
 *
 * `wait` does not wait for nobody: a thread waits only while another thread that has used this pool is not
 * waiting itself, or work is pending. When all wait the last one fails at once, and the others with it.
 *
 * A deterministic pool takes others, callbacks, cleanup (of other pools) and retry only, since the rest would
 * make addresses depend on time.
 *
 * All that is called here of the program's (callbacks, the error handler) is called with no lock held and
 * may call the library: allocate, free, trim, even destroy the pool, which the request then notices
 * (VRAM_ERR_STALE). No deadline is put to it: code that runs long delays its own thread and no other.
 */
#ifndef VRAM_OOM_H
#define VRAM_OOM_H

#include <vram/json.h>
#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------- the ladder */

enum { VRAM_LADDER_STEPS = 10 }; /* steps there are: values of vram_ladder_step below it */

/** "drain", "finished", ...; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_ladder_step_name(vram_ladder_step step);

/** Other memory than the device's that a pool may hand out when nothing else is left. */
typedef enum vram_fallback {
    VRAM_FALLBACK_MANAGED = 1 << 0, /* migrates by itself; queues may work on it like on any */
    VRAM_FALLBACK_PINNED = 1 << 1,  /* page-locked host memory: kernels reach it, slowly */
    VRAM_FALLBACK_HOST = 1 << 2     /* plain host memory: only the host reaches it */
} vram_fallback;

typedef struct vram_ladder_options {
    size_t size;       /* sizeof(vram_ladder_options) */
    const char *steps; /* names by comma, in order, "none"; "": all; NULL: option `ladder` */
    uint32_t fallback; /* of vram_fallback, tried in that order; 0: no fallback */
    uint64_t wait_ns;  /* longest wait for other threads; 0: option `oom_wait` */
} vram_ladder_options;

/**
 * Says how this pool's requests climb from now on; NULL: as the options say. VRAM_ERR_INVALID, naming
 * the word, for a step that is unknown or named twice.
 */
VRAM_API vram_status vram_pool_ladder_set(vram_pool *pool, const vram_ladder_options *options);

/* ---------------------------------------------------------------- callbacks */

enum {
    VRAM_OOM_CALLBACKS_MAX = 16, /* callbacks of one device */
    VRAM_OOM_NESTING_MAX =
        2 /* callbacks inside callbacks: a request made at this depth calls none */
};

/** What a callback is told. */
typedef struct vram_oom_event {
    size_t size;         /* sizeof(vram_oom_event) of the library */
    vram_device *device; /* borrowed */
    vram_pool *pool;     /* borrowed: the one that is short */
    uint64_t bytes;      /* what the request needs, after rounding */
    vram_status status;  /* why it was refused */
    uint32_t nesting;    /* 1; 2 when the request was made by a callback */
} vram_oom_event;

/**
 * Frees what the program can do without, in any pool of the device, and answers how many bytes that was;
 * 0: nothing. The number goes into counters and reports; after any answer but 0 the request is tried again,
 * and the callbacks behind this one are not called when that succeeds.
 */
typedef uint64_t vram_oom_fn(void *user, const vram_oom_event *event);

/**
 * Has `call` called for every request of this device's pools that gets as far as the step `callbacks`, once
 * a climb, in the order in which callbacks were added. *id names it. VRAM_ERR_LIMIT when there are
 * VRAM_OOM_CALLBACKS_MAX already.
 */
VRAM_API vram_status vram_oom_callback_add(vram_device *device, vram_oom_fn *call, void *user,
                                           uint64_t *id);

/**
 * Removes it. Returns when no other thread is inside it; VRAM_ERR_TIMEOUT when one still is after the
 * option `wait_timeout`: it is not called again all the same. A callback may remove itself.
 * VRAM_ERR_INVALID for an id that names none.
 */
VRAM_API vram_status vram_oom_callback_remove(vram_device *device, uint64_t id);

#ifdef __cplusplus
}
#endif

#endif
