/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/oom.h: what a pool does when memory is short, and what it says when nothing helped.
 *
 * A request that the driver or a limit refuses climbs the ladder: a declared list of steps, each of which
 * gives memory back or looks for it elsewhere, in the order of the option `ladder` or of
 * vram_pool_ladder_set; by default all of them, as listed here. A step that gave something back is followed
 * by another attempt. Only exhaustion climbs (vram_status_is_exhausted): every other error is returned as it
 * is, and nothing is tried twice for it. VRAM_ALLOC_CACHED_ONLY asks for no step, a request that a tag's
 * quota refuses takes none, and one that is larger than the device or than the program's limit none but
 * `fallback`. When the library's own host memory has run out, only cleanup, of all devices of the context,
 * and retry can help. vram_pool_wake climbs, too.
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
 * waiting itself, or work is pending. When all wait, exactly one of them fails at once, and the others go on
 * waiting for what its thread then frees.
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

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------- the ladder */

/** What is done when memory is short, in the order in which it is tried unless the program says otherwise. */
typedef enum vram_ladder_step {
    VRAM_LADDER_DRAIN = 0, /* what threads keep at hand goes back to the pool */
    VRAM_LADDER_FINISHED =
        1,                  /* memory of another queue, after its work or one wait on the device */
    VRAM_LADDER_MOVE = 2,   /* free handles are moved to where they are needed */
    VRAM_LADDER_TRIM = 3,   /* this pool gives free memory back to the driver */
    VRAM_LADDER_OTHERS = 4, /* the other pools of the device do */
    VRAM_LADDER_CALLBACKS = 5, /* the program is asked to let go of something */
    VRAM_LADDER_CLEANUP = 6,   /* emergency cleanup of the device */
    VRAM_LADDER_RETRY = 7,     /* once more, from the start */
    VRAM_LADDER_WAIT = 8,      /* for other threads and for work, up to the deadline */
    VRAM_LADDER_FALLBACK = 9 /* managed, pinned or host memory, where the pool's option allows it */
} vram_ladder_step;

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

/* --------------------------------------------------------------- the report */

/** Why a request could not be served: X(NAME, value, "name", "in words"). */
#define VRAM_OOM_CAUSE_MAP(X)                                                                      \
    X(FULL, 0, "full", "the memory is in use by this program")                                     \
    X(LIMIT, 1, "limit", "a limit was reached")                                                    \
    X(FRAGMENTED, 2, "fragmented", "enough is free in the pool, but not in one piece")             \
    X(PENDING, 3, "pending", "enough was freed, but queues have not finished with it")             \
    X(STRANDED, 4, "stranded", "enough lies free in other pools")                                  \
    X(OTHERS, 5, "others", "other programs hold it")                                               \
    X(TOO_LARGE, 6, "too_large", "it is more than there can ever be")                              \
    X(REFUSED, 7, "refused", "the driver refused, although it says that enough is free")           \
    X(HOST, 8, "host", "the library has no host memory for its own bookkeeping")                   \
    X(QUOTA, 9, "quota", "the quota of a tag was reached")                                         \
    X(PINNED, 10, "pinned", "enough was freed, but it is pinned")                                  \
    X(ADDRESSES, 11, "addresses", "the memory is there, but no addresses to map it at")

typedef enum vram_oom_cause {
#define VRAM_OOM_CAUSE_ENUM(NAME, value, name, text) VRAM_OOM_##NAME = (value),
    VRAM_OOM_CAUSE_MAP(VRAM_OOM_CAUSE_ENUM)
#undef VRAM_OOM_CAUSE_ENUM
} vram_oom_cause;

/** "full", "limit", ...; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_oom_cause_name(vram_oom_cause cause);

enum {
    VRAM_OOM_LIST_MAX =
        8, /* entries of a list in a report: the largest come first, the rest is left out */
    VRAM_OOM_NAME_MAX = 64 /* bytes of a name in a report, the final 0 included */
};

/** Memory that was freed and waits for a queue. */
typedef struct vram_oom_queue {
    vram_queue *queue; /* borrowed */
    uint64_t bytes;
} vram_oom_queue;

/** Another pool of the device. */
typedef struct vram_oom_pool {
    vram_pool *pool; /* borrowed */
    char name[VRAM_OOM_NAME_MAX];
    uint64_t reserved_bytes; /* taken from the driver */
    uint64_t free_bytes;     /* of them, in no live block */
} vram_oom_pool;

/**
 * Who holds memory of the device, in its pools and of others' that counts (vram/foreign.h). A tag counts all
 * below it: what "a/b" has, "a" has too.
 */
typedef struct vram_oom_holder {
    char tag[VRAM_OOM_NAME_MAX]; /* "" for blocks without one */
    uint64_t bytes, blocks;      /* live, after rounding */
} vram_oom_holder;

/** What one step of the ladder did. */
typedef struct vram_oom_step {
    vram_ladder_step step;
    uint32_t taken; /* times; 0: it was in the order, and there was nothing it could do */
    uint64_t bytes; /* that it gave back, or found */
    uint64_t ns;    /* that it took, in the device's time */
} vram_oom_step;

/**
 * Everything that is known of a request that ran out of memory, at the moment it did. All text is inside
 * the struct: it stays valid for as long as the caller keeps it.
 */
typedef struct vram_oom_report {
    size_t size;     /* in: sizeof(vram_oom_report) of the caller */
    uint64_t number; /* counts the reports of the process, from 1 */
    vram_status status;
    vram_oom_cause cause;
    char summary[256];               /* one line: what was asked, and why it could not be had */
    char advice[256];                /* one line: which knob would help */
    char error[VRAM_ERROR_TEXT_MAX]; /* the error record's own line */

    vram_pool *pool; /* borrowed */
    char pool_name[VRAM_OOM_NAME_MAX];
    char device_name[VRAM_OOM_NAME_MAX]; /* "sim 0" */
    char tag[VRAM_OOM_NAME_MAX];         /* of the request; "" when it had none */
    vram_queue *queue;                   /* of the request, borrowed; NULL when it had none */
    uint64_t asked_bytes;                /* as asked for */
    uint64_t needed_bytes;               /* after rounding */
    uint64_t alignment;                  /* bytes */

    vram_value total_bytes, free_bytes; /* of the device, as the driver says */
    uint64_t process_bytes;             /* of it, held through this context */
    vram_value others_bytes; /* the rest: other programs, other contexts, the driver itself */
    vram_value
        processes_bytes; /* of it, in other processes, as NVIDIA's management library says at most once a
                                second; unknown where there is nobody to ask */
    vram_value limit_bytes;             /* most that the pool may hold; unknown: no limit applies */
    char limit_name[VRAM_OOM_NAME_MAX]; /* which limit that is; "" when none applies */
    char quota_tag
        [VRAM_OOM_NAME_MAX]; /* whose quota refused the request; "" for every other cause */
    uint64_t quota_bytes, quota_used_bytes; /* that quota, and what the tag had of it */

    uint64_t
        reserved_bytes; /* of the pool: live - asleep + cached + unused + pending + pinned + lost */
    uint64_t live_bytes;      /* in blocks of the program's, after rounding */
    uint64_t asleep_bytes;    /* addresses without memory, most of them of live blocks */
    uint64_t rounding_bytes;  /* of live_bytes, lost to rounding */
    uint64_t cached_bytes;    /* at hand in threads */
    uint64_t unused_bytes;    /* free for any use */
    uint64_t largest_bytes;   /* the largest of it in one piece */
    uint64_t elsewhere_bytes; /* of unused_bytes, in the part for blocks of other sizes */
    uint64_t spare_bytes;     /* of unused_bytes, mapped nowhere */
    uint64_t lost_bytes;      /* could not be taken back after a failure of the driver's */
    uint64_t pending_bytes;   /* freed, and in use by queues */
    uint64_t pinned_bytes;    /* freed, and kept by vram_pin */
    uint64_t fallback_bytes;  /* of other memory than the device's, beside all these */
    uint64_t stranded_bytes;  /* unused in other pools of the device */

    uint32_t queue_count, pool_count, holder_count, step_count; /* entries of the lists */
    vram_oom_queue queues[VRAM_OOM_LIST_MAX];                   /* that pending_bytes wait for */
    vram_oom_pool pools[VRAM_OOM_LIST_MAX];                     /* the others, most unused first */
    vram_oom_holder
        holders[VRAM_OOM_LIST_MAX];        /* in all pools of the device, the largest first; a tag
                                that has nothing but what one tag below it has is left out */
    vram_oom_step steps[VRAM_LADDER_ROOM]; /* in the order of the pool's ladder */

    uint64_t
        address_bytes; /* addresses that the pool has reserved for blocks of this size; 0: it does
                               not map memory, and its addresses are the driver's */
    uint64_t longest_bytes; /* of them, the longest run with neither memory nor use */
} vram_oom_report;

/**
 * The report of the last request in this pool that ran out of memory or, with NULL, of the last one of the
 * calling thread in any. Requests for cached memory alone make none. Reports lie in fixed places, so
 * that none is ever missing for want of memory; with more than 32 threads that have run out of memory, the
 * oldest thread's own goes. VRAM_ERR_INVALID when there is none.
 */
VRAM_API vram_status vram_oom_report_get(vram_pool *pool, vram_oom_report *report);

/**
 * Writes a report. As text it is several lines, the cause first, what would help last; as JSON it
 * has the schema vram.oom/1. Allocates nothing. VRAM_ERR_INVALID for a report that is NULL or that
 * vram_oom_report_get did not fill.
 */
VRAM_API vram_status vram_oom_report_write(const vram_oom_report *report, vram_report_format format,
                                           vram_write_fn *write, void *user);

/* -------------------------------------------------------- the error handler */

enum { VRAM_ERROR_RETRIES_MAX = 3 }; /* retries of one request that a handler can have */

/** What a handler wants done. */
typedef enum vram_error_answer {
    VRAM_ERROR_FAIL = 0,     /* the call fails with this error */
    VRAM_ERROR_RETRY = 1,    /* once more, from the start */
    VRAM_ERROR_FALL_BACK = 2 /* other memory than the device's, for this request */
} vram_error_answer;

/** What a handler is told. */
typedef struct vram_error_event {
    size_t size;             /* sizeof(vram_error_event) of the library */
    const vram_error *error; /* the record; borrowed until the handler returns */
    vram_context *context;   /* borrowed, as the next two */
    vram_device *device;
    vram_pool *pool;
    uint64_t bytes;   /* what was asked for */
    uint32_t retries; /* of this request so far */
    uint64_t total;   /* errors of this status that the context's handler has been told of */
    double
        recent; /* the same, each counting half as much for every `error_half_life` that has passed */
} vram_error_event;

/** Called on the thread whose request failed. Errors of calls that it makes itself are not handed to it. */
typedef vram_error_answer vram_error_fn(void *user, const vram_error_event *event);

/**
 * Has every error of a pool's allocation (vram_alloc, vram_alloc_with, vram_resize, vram_pool_warm) and of
 * vram_pool_wake handed to `handler` before the call returns it: after the ladder, and after the report was
 * written, which it may read. Mistakes in arguments are not, nor is a request for cached memory alone that
 * found none.
 *
 * What it answers counts for exhaustion only: any other error is returned whatever it says, and nothing that
 * it says has a device reset. RETRY is followed VRAM_ERROR_RETRIES_MAX times, FALL_BACK once: it takes the
 * kinds of memory that the pool allows or, when it allows none, any that can be had. A quota counts all
 * memory, so FALL_BACK is no way past one; nor does it wake anything.
 *
 * NULL: no handler. A call of the former one under way on another thread may still be inside it when this
 * returns. Counts go on from where they were.
 */
VRAM_API vram_status vram_error_handler_set(vram_context *context, vram_error_fn *handler,
                                            void *user);

#ifdef __cplusplus
}
#endif

#endif
