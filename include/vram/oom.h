/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/oom.h: what a pool does when memory is short, and what it reports if nothing helped.
 *
 * A request that the driver or a limit refuses runs the ladder: a list of steps, each of which
 * releases memory or looks for it elsewhere. The order is that of vram_pool_ladder_set or of the
 * option `ladder`; by default all steps are taken, as listed here. After a step that released
 * something, the request is tried again.
 *
 *   drain      the blocks in thread caches go back to the pool
 *   finished   memory that queues have finished with is reused; see below
 *   move       free physical memory is moved to where it is needed, whatever the time budget
 *   trim       free memory in other parts of this pool goes back to the driver
 *   others     free memory in the other pools of the device goes back to the driver
 *   callbacks  the program is asked to free something: vram_oom_callback_add
 *   cleanup    everything cached on the device goes back to the driver
 *   lease      other processes are asked, if the context has a lease on the device (vram/lease.h)
 *   retry      exactly one more attempt, whether or not anything was released
 *   wait       for other threads to free, up to the option `oom_wait`
 *   fallback   managed, pinned or host memory, if the pool allows it: vram_ladder_options.fallback;
 *              never with VRAM_CAP_INTEGRATED, where that is the memory that is short
 *
 * One more step is taken only if the order names it, as in
 * "drain,finished,move,trim,others,callbacks,cleanup,lease,retry,rebuild,wait,fallback":
 *
 *   rebuild    memory that is free in handles which also have live blocks is won by a copy on the
 *              device: vram_pool_rebuild. To name it declares that every allocation from the pool
 *              is a safe point: while a thread is in it, no other thread submits work that uses the
 *              pool's memory. That holds for a program that allocates and submits in one thread.
 *
 * Only exhaustion runs it (vram_status_is_exhausted). Every other error is returned unchanged, and
 * nothing is retried. These requests take fewer steps:
 *
 *  - with VRAM_ALLOC_CACHED_ONLY, or refused by the quota of a tag: none
 *  - larger than the device or than the program's limit: `fallback` alone
 *  - if the library's own host memory ran out: cleanup, of all devices of the context, and retry
 *  - in a deterministic pool: others, callbacks, cleanup (of other pools), lease and retry, because
 *    the rest would make addresses depend on time
 *
 * vram_pool_wake runs it too.
 *
 * drain, finished, move and trim concern the pool alone. If a run of them in the order contains
 * `finished`, the pool waits at the end of that run for unfinished work that holds its memory: on
 * the device if one queue can wait for the other, else on the host up to the option `wait_timeout`.
 * The run is taken again whenever some of that work has completed.
 *
 * In `wait` a thread waits only while another thread that has used this pool is not waiting itself,
 * or while work is pending. If all of them wait, exactly one fails at once, and the others go on
 * waiting for what its thread then frees.
 *
 * Callbacks and the error handler are called with no lock held and may call the library: allocate,
 * free, trim, even destroy the pool (the request then returns VRAM_ERR_STALE). They have no
 * deadline: one that runs long delays its own thread and no other.
 */
#ifndef VRAM_OOM_H
#define VRAM_OOM_H

#include <vram/lease.h>
#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------- the ladder */

/** The steps. The default order is that of the numbers, with `lease` before `retry` and without
    `rebuild`. */
typedef enum vram_ladder_step {
    VRAM_LADDER_DRAIN = 0,     /* the blocks in thread caches go back to the pool */
    VRAM_LADDER_FINISHED = 1,  /* memory of another queue, after its work or a wait on the device */
    VRAM_LADDER_MOVE = 2,      /* free physical memory is moved to where it is needed */
    VRAM_LADDER_TRIM = 3,      /* free memory of this pool goes back to the driver */
    VRAM_LADDER_OTHERS = 4,    /* the same for the other pools of the device */
    VRAM_LADDER_CALLBACKS = 5, /* the program is asked to free something */
    VRAM_LADDER_CLEANUP = 6,   /* emergency cleanup of the device */
    VRAM_LADDER_RETRY = 7,     /* once more, from the start */
    VRAM_LADDER_WAIT = 8,      /* for other threads and for work, up to the deadline */
    VRAM_LADDER_FALLBACK = 9,  /* managed, pinned or host memory, if the pool allows it */
    VRAM_LADDER_REBUILD = 10,  /* free parts of large handles are won; only if it is named */
    VRAM_LADDER_LEASE = 11     /* other processes are asked, if there is a lease (vram/lease.h) */
} vram_ladder_step;

enum { VRAM_LADDER_STEPS = 12 }; /* how many there are; values are below it */

/** "drain", "finished", ...; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_ladder_step_name(vram_ladder_step step);

/** Other memory than the device's that a pool may hand out if nothing else is left. */
typedef enum vram_fallback {
    VRAM_FALLBACK_MANAGED = 1 << 0, /* migrates by itself; queues use it like any other */
    VRAM_FALLBACK_PINNED = 1 << 1,  /* page-locked host memory: kernels reach it, slowly */
    VRAM_FALLBACK_HOST = 1 << 2     /* plain host memory: only the host reaches it */
} vram_fallback;

typedef struct vram_ladder_options {
    size_t size;       /* sizeof(vram_ladder_options) */
    const char *steps; /* "drain,trim", in order; "none"; "": all; NULL: option `ladder` */
    uint32_t fallback; /* bits of vram_fallback, tried in that order; 0: none */
    uint64_t wait_ns;  /* longest wait for other threads; 0: option `oom_wait` */
} vram_ladder_options;

/**
 * Sets the ladder of this pool; NULL: as the options say. VRAM_ERR_INVALID, naming the word, for a
 * step that is unknown or named twice.
 */
VRAM_API vram_status vram_pool_ladder_set(vram_pool *pool, const vram_ladder_options *options);

/* ---------------------------------------------------------------- callbacks */

enum {
    VRAM_OOM_CALLBACKS_MAX = 16, /* callbacks of one device */
    VRAM_OOM_NESTING_MAX = 2     /* depth of callbacks: a request made at this depth calls none */
};

/** The request that a callback is called for. */
typedef struct vram_oom_event {
    size_t size;         /* sizeof(vram_oom_event) of the library */
    vram_device *device; /* borrowed */
    vram_pool *pool;     /* borrowed: the one that is short of memory */
    uint64_t bytes;      /* what the request needs, after rounding */
    vram_status status;  /* why it was refused */
    uint32_t nesting;    /* 1; 2 if a callback made the request */
} vram_oom_event;

/**
 * Frees what the program can do without, in any pool of the device, and returns how many bytes that
 * was; 0: nothing. The number goes into counters and reports. After any other value than 0 the
 * request is tried again, and if that succeeds the later callbacks are not called.
 */
typedef uint64_t vram_oom_fn(void *user, const vram_oom_event *event);

/**
 * Adds a callback: it is called once per run of the ladder, for every request of the device's pools
 * that reaches the step `callbacks`, in the order in which callbacks were added. *id names it.
 * VRAM_ERR_LIMIT if there are VRAM_OOM_CALLBACKS_MAX already.
 */
VRAM_API vram_status vram_oom_callback_add(vram_device *device, vram_oom_fn *call, void *user,
                                           uint64_t *id);

/**
 * Removes a callback, and waits until no other thread is inside it. VRAM_ERR_TIMEOUT if one still
 * is after the option `wait_timeout`; it is not called again all the same. A callback may remove
 * itself. VRAM_ERR_INVALID for an unknown id.
 */
VRAM_API vram_status vram_oom_callback_remove(vram_device *device, uint64_t id);

/* --------------------------------------------------------------- the report */

/**
 * Why a request could not be served: X(NAME, value, "name", "in words"). The status says who
 * refused it: a limit, the device or the host. The cause says what stood in the way: a pool at its
 * limit with much free in small pieces fails with VRAM_ERR_LIMIT, and the cause is "fragmented".
 */
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
    X(ADDRESSES, 11, "addresses", "the memory is there, but no addresses to map it at")            \
    X(LEASE, 12, "lease", "other processes hold it under leases and did not give it")

typedef enum vram_oom_cause {
#define VRAM_OOM_CAUSE_ENUM(NAME, value, name, text) VRAM_OOM_##NAME = (value),
    VRAM_OOM_CAUSE_MAP(VRAM_OOM_CAUSE_ENUM)
#undef VRAM_OOM_CAUSE_ENUM
} vram_oom_cause;

/** "full", "limit", ...; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_oom_cause_name(vram_oom_cause cause);

enum {
    VRAM_OOM_LIST_MAX = 8,  /* entries of a list in a report, largest first; the rest is left out */
    VRAM_OOM_NAME_MAX = 64, /* bytes of a name in a report, the final 0 included */
    VRAM_OOM_LEASE_MAX = 160 /* the same of vram_oom_report.lease_reason */
};

/** Freed memory that a queue still uses. */
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
 * A tag that holds memory of the device, in its pools or as memory of others that counts
 * (vram/foreign.h). A tag includes all tags below it: what "a/b" has, "a" has too.
 */
typedef struct vram_oom_holder {
    char tag[VRAM_OOM_NAME_MAX]; /* "" for blocks without one */
    uint64_t bytes, blocks;      /* live, after rounding */
} vram_oom_holder;

/** Another process that was asked for memory under a lease. */
typedef struct vram_oom_lender {
    uint64_t process; /* its id; 0: not visible from here */
    char name[VRAM_OOM_NAME_MAX];
    uint64_t asked_bytes, given_bytes;
    vram_lease_why why; /* it did not give all of it */
    int32_t priority;
} vram_oom_lender;

/** Another process that has memory of the pool open (vram/share.h). */
typedef struct vram_oom_reader {
    uint64_t process; /* its id, as this process sees it; 0 in another pid namespace */
    uint64_t bytes;   /* of the exports that it has open */
} vram_oom_reader;

/** What one step of the ladder did. */
typedef struct vram_oom_step {
    vram_ladder_step step;
    uint32_t taken; /* times; 0: there was nothing that it could do */
    uint64_t bytes; /* that it released, or found */
    uint64_t ns;    /* duration, in the device's time */
} vram_oom_step;

/**
 * Everything that is known about a request that ran out of memory, at that moment. All text is
 * inside the struct, so it stays valid as long as the caller keeps it.
 */
typedef struct vram_oom_report {
    size_t size;     /* in: sizeof(vram_oom_report) of the caller */
    uint64_t number; /* counts the reports of the process, from 1 */
    vram_status status;
    vram_oom_cause cause;
    char summary[256];               /* one line: the request, and why it failed */
    char advice[256];                /* one line: which setting would help */
    char error[VRAM_ERROR_TEXT_MAX]; /* the error record's own line */

    vram_pool *pool; /* borrowed */
    char pool_name[VRAM_OOM_NAME_MAX];
    char device_name[VRAM_OOM_NAME_MAX]; /* "sim 0" */
    char tag[VRAM_OOM_NAME_MAX];         /* of the request; "": none */
    vram_queue *queue;                   /* of the request, borrowed; NULL: none */
    uint64_t asked_bytes;                /* as asked for */
    uint64_t needed_bytes;               /* after rounding */
    uint64_t alignment;                  /* bytes */

    vram_value total_bytes, free_bytes; /* of the device, by its driver */
    uint64_t process_bytes;             /* of it, held through this context */
    vram_value others_bytes; /* the rest: other programs, other contexts, the driver itself */
    /* Of it, in other processes, as NVIDIA's management library says, asked at most once a second;
       unknown without it. */
    vram_value processes_bytes;
    vram_value limit_bytes;             /* most that the pool may hold; unknown: no limit applies */
    char limit_name[VRAM_OOM_NAME_MAX]; /* which limit that is; "": none */
    /* The tag whose quota refused the request; "" for every other cause. */
    char quota_tag[VRAM_OOM_NAME_MAX];
    uint64_t quota_bytes, quota_used_bytes; /* that quota, and how much of it the tag used */

    /* Of the pool: live - asleep + cached + unused + pending + pinned + lost. */
    uint64_t reserved_bytes;
    uint64_t live_bytes;      /* in blocks of the program, after rounding, without fallback_bytes */
    uint64_t asleep_bytes;    /* of live_bytes, without memory while it sleeps */
    uint64_t rounding_bytes;  /* of live_bytes, lost to rounding */
    uint64_t cached_bytes;    /* in thread caches */
    uint64_t unused_bytes;    /* free for any use */
    uint64_t largest_bytes;   /* the largest of it in one piece */
    uint64_t elsewhere_bytes; /* of unused_bytes, in the part for blocks of other sizes */
    uint64_t spare_bytes;     /* of unused_bytes, mapped nowhere */
    uint64_t lost_bytes;      /* not recovered after a failure of the driver */
    uint64_t pending_bytes;   /* freed, but queues still use it */
    uint64_t pinned_bytes;    /* freed, but kept: vram_pin, vram_pool_seal, quarantine, or asleep */
    uint64_t fallback_bytes;  /* in live blocks of other memory than the pool's, not in the sum */
    uint64_t stranded_bytes;  /* unused in other pools of the device */

    uint32_t queue_count, pool_count, holder_count, step_count; /* entries of the lists */
    vram_oom_queue queues[VRAM_OOM_LIST_MAX];                   /* that use the pending_bytes */
    vram_oom_pool pools[VRAM_OOM_LIST_MAX];                     /* the others, most unused first */
    /* In all pools of the device, largest first. A tag that has no more than one tag below it is
       left out. */
    vram_oom_holder holders[VRAM_OOM_LIST_MAX];
    vram_oom_step steps[VRAM_LADDER_ROOM]; /* in the order of the pool's ladder */

    /* Addresses that the pool has reserved for blocks of this size; 0: it does not map memory, and
       its addresses are the driver's. */
    uint64_t address_bytes;
    uint64_t longest_bytes; /* of them, the longest run that is free and has no memory */

    bool integrated; /* VRAM_CAP_INTEGRATED: there is no other memory to fall back to */

    vram_value lease_bytes; /* the grant of the context's lease; unknown: it has none */
    char lease_reason[VRAM_OOM_LEASE_MAX]; /* why it was not raised; "": nobody was asked */
    uint32_t lender_count;
    vram_oom_lender lenders[VRAM_OOM_LIST_MAX]; /* the processes that were asked, or hold memory */

    uint32_t reader_count;                      /* entries of `readers` */
    uint64_t shared_bytes;                      /* of the pool, under exports */
    vram_oom_reader readers[VRAM_OOM_LIST_MAX]; /* who has them open, in no order */
} vram_oom_report;

/**
 * The report of the last request in this pool that ran out of memory or, with NULL, of the last one
 * of the calling thread in any pool. Requests for cached memory alone make no report. Reports lie
 * in fixed storage, so memory for one never runs out. If more than 32 threads have run out of
 * memory, the report of the oldest one is dropped. VRAM_ERR_INVALID if there is no report.
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

enum { VRAM_ERROR_RETRIES_MAX = 3 }; /* most retries of one request */

/** What is to be done about an error. */
typedef enum vram_error_answer {
    VRAM_ERROR_FAIL = 0,     /* the call fails with this error */
    VRAM_ERROR_RETRY = 1,    /* once more, from the start */
    VRAM_ERROR_FALL_BACK = 2 /* other memory than the device's, for this request */
} vram_error_answer;

/** The error that a handler is called for. */
typedef struct vram_error_event {
    size_t size;             /* sizeof(vram_error_event) of the library */
    const vram_error *error; /* the record; borrowed until the handler returns */
    vram_context *context;   /* borrowed, as the next two */
    vram_device *device;
    vram_pool *pool;
    uint64_t bytes;   /* what was asked for */
    uint32_t retries; /* of this request so far */
    uint64_t total;   /* errors of this status that the handler was called for */
    /* The same, but an error counts half as much after each `error_half_life`. */
    double recent;
} vram_error_event;

/** Called on the thread whose request failed. It is not called for errors of its own calls. */
typedef vram_error_answer vram_error_fn(void *user, const vram_error_event *event);

/**
 * Sets the handler of a context; NULL: none. It is called for every error of a pool's allocation
 * (vram_alloc, vram_alloc_with, vram_resize, vram_pool_warm) and of vram_pool_wake before the call
 * returns the error, after the ladder, and after the report was made, which it may read. It is also
 * called, without a report, if other memory than the pool's is exhausted that the program asked for
 * (page-locked and managed buffers, a buffer with a provider), and if named buffers (vram/named.h)
 * would exceed the limit of their manager or the maximum of a policy. It is not called for mistakes
 * in arguments, nor for a request for cached memory alone that found none.
 *
 * The answer matters for exhaustion only. Any other error is returned whatever the handler says,
 * and no answer resets a device. RETRY is followed up to VRAM_ERROR_RETRIES_MAX times, FALL_BACK
 * once: it takes the kinds of memory that the pool allows or, if it allows none, any kind that is
 * available. A quota or a manager of named buffers counts all memory, so FALL_BACK does not get
 * around one; and it wakes nothing.
 *
 * A call under way on another thread may still be inside the former handler when this returns.
 * Counts go on from where they were.
 */
VRAM_API vram_status vram_error_handler_set(vram_context *context, vram_error_fn *handler,
                                            void *user);

#ifdef __cplusplus
}
#endif

#endif
