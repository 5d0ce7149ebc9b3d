/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/stats.h: every live block of a pool, who asked for it and since when; what was live at the peak;
 * and what nobody ever freed.
 *
 * A pool that is tracked keeps a record of 40 bytes for each of its live blocks. It is tracked from its
 * creation or not at all: as VRAM_POOL_TRACKED or vram_limits.tracking of the pool or its device says, else the
 * option `tracking`, else the preset, else the build (debug: on, release: off); VRAM_TRACKING in the environment has the last
 * word. A pool that is not tracked pays nothing, and has nothing to tell here.
 *
 * The option `track_stacks` has call stacks taken, of every allocation (1) or of every n-th of a thread. What
 * addresses of code are called is looked up when a stack is printed: static functions by the symbol table of their
 * file, on Linux, unless it was stripped.
 *
 * No allocation fails for want of memory for its record: the record is lost, and counted. Totals and peaks
 * are exact all the same.
 *
 * When a tracked pool ends with live blocks, by itself or with its device or context, that is a
 * leak: the log has a warning for each site, and where the option `leaks` says `text` or `json`
 * there is a report on standard error, or at the end of the file that the option `leak_file` names.
 * With the option `leak_exit` the same is done for all pools that are there when the process ends.
 * Otherwise nothing is ever written. That file, and the one of `leak_suppressions`, must be a plain
 * file or a character device such as a terminal or /dev/null. A pipe is refused with a message in
 * the log, since writing to it could block forever.
 */
#ifndef VRAM_STATS_H
#define VRAM_STATS_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------- counters and peaks */

/**
 * The same counters as vram_pool_stats_get has them, summed over the pools that a device has now, through
 * whatever handle on it, or over all devices of a context. reserved_bytes is all that was taken from the
 * device, what was allocated past pools included. peak_requested_bytes and peak_reserved_bytes are peaks of
 * the sum, of pools that have ended since too (the first may be off by 1 MiB for each pool); peak_allocated_bytes is the sum of the pools' own peaks.
 */
VRAM_API vram_status vram_device_stats_get(vram_device *device, vram_pool_stats *stats);
VRAM_API vram_status vram_context_stats_get(vram_context *context, vram_pool_stats *stats);

/** What of that is known of a tag and all below it; the rest is 0. */
VRAM_API vram_status vram_tag_stats_get(vram_device *device, const char *tag,
                                        vram_pool_stats *stats);

/** The most that there was since a moment. */
typedef struct vram_peaks {
    size_t size;              /* in: sizeof(vram_peaks) of the caller */
    uint64_t requested_bytes; /* live, as asked for */
    uint64_t allocated_bytes; /* live or at hand, after rounding; of a pool only, else 0 */
    uint64_t reserved_bytes;  /* taken from the driver */
} vram_peaks;

/**
 * Peaks of a part of the program. Begin starts anew with what there is now, end tells the most there was
 * since, and from then on the peaks are again what they would be without the two. They nest, 16 deep
 * (VRAM_ERR_LIMIT); an end without a beginning is VRAM_ERR_INVALID. One stack for all threads.
 */
VRAM_API vram_status vram_pool_peaks_begin(vram_pool *pool);
VRAM_API vram_status vram_pool_peaks_end(vram_pool *pool, vram_peaks *peaks);
VRAM_API vram_status vram_device_peaks_begin(vram_device *device);
VRAM_API vram_status vram_device_peaks_end(vram_device *device, vram_peaks *peaks);
VRAM_API vram_status vram_context_peaks_begin(vram_context *context);
VRAM_API vram_status vram_context_peaks_end(vram_context *context, vram_peaks *peaks);

/** Forgets all peaks: they are what there is now. A device's takes those of its tags with it. */
VRAM_API vram_status vram_pool_peaks_reset(vram_pool *pool);
VRAM_API vram_status vram_device_peaks_reset(vram_device *device);
VRAM_API vram_status vram_context_peaks_reset(vram_context *context);

/* -------------------------------------------------------------- live blocks */

enum { VRAM_LIVE_NAME_MAX = 64 }; /* bytes of a block's name, the final 0 included */

/** One live block. */
typedef struct vram_live_block {
    size_t size; /* sizeof(vram_live_block) of the library; in: of the caller, for vram_live_get */
    uint64_t id; /* unique in the process, rising within a pool */
    vram_pool *pool;     /* borrowed, as the next two */
    vram_device *device; /* the handle that the pool was made on */
    vram_queue *queue;   /* it was asked for on; NULL: none */
    vram_addr addr;
    uint64_t requested_bytes; /* as asked for, or resized to */
    uint64_t held_bytes;      /* after rounding */
    uint64_t elements;        /* as its options said; 0: nothing */
    vram_memory_kind kind;
    uint32_t stack;      /* for vram_stack_text; 0: none was taken */
    uint64_t thread;     /* the library's number of the thread that asked; the last 21 bits */
    uint64_t created_ns; /* by a monotonic clock that moves in steps of some milliseconds */
    uint64_t age_ns;
    const char *tag;               /* NULL: none; valid until the context ends */
    char name[VRAM_LIVE_NAME_MAX]; /* a label, which others may have too; "": none */
} vram_live_block;

typedef enum vram_live_order {
    VRAM_LIVE_ANY = 0, /* as they are found: needs no memory */
    VRAM_LIVE_LARGEST = 1,
    VRAM_LIVE_OLDEST = 2
} vram_live_order;

/** Old, where nobody says what that is: 60 seconds. */
#define VRAM_LIVE_OLD_NS UINT64_C(60000000000)

/** Which blocks. One of the first three says where they are looked for. */
typedef struct vram_live_query {
    size_t size; /* sizeof(vram_live_query) */
    vram_pool *pool;
    vram_device *device;   /* all pools of the device, through whatever handle on it */
    vram_context *context; /* all pools of all devices */
    const char *tag;       /* of this tag and all below it; "": without one; NULL: all */
    uint64_t older_ns;     /* at least that old; VRAM_LIVE_OLD_NS; 0: all */
    uint32_t stack;        /* of that stack; 0: all */
    uint32_t most;         /* stop after that many; 0: never */
    vram_live_order order;
} vram_live_query;

/** Is called for each, with no lock held, and may call everything. False: that is enough. */
typedef bool vram_live_fn(void *user, const vram_live_block *block);

/**
 * Calls `visit` for each live block of tracked pools. Blocks that come and go meanwhile may be seen or not;
 * each that is seen was live, and is seen once.
 */
VRAM_API vram_status vram_live_visit(const vram_live_query *query, vram_live_fn *visit, void *user);

/** The live block that starts at `addr`. VRAM_ERR_UNSUPPORTED: its pool is not tracked, or its record lost. */
VRAM_API vram_status vram_live_get(vram_addr addr, vram_live_block *block);

/* ------------------------------------------------------------- sums and peaks */

/** What tracked pools have, and had when they had most: the peak is exact, over all threads. */
typedef struct vram_live_stats {
    size_t size;                      /* in: sizeof(vram_live_stats) of the caller */
    uint64_t pools;                   /* that are tracked */
    uint64_t live_blocks;             /* now */
    uint64_t live_bytes, held_bytes;  /* as asked for, and after rounding */
    uint64_t peak_bytes, peak_blocks; /* of each pool, summed: when its live_bytes were highest */
    vram_value peak_ns;               /* when that was; of one pool only */
    uint64_t allocs, frees, resizes;  /* told of so far */
    uint64_t lost_records;            /* for want of memory */
    uint64_t record_bytes, metadata_bytes; /* host memory of records, and of everything */
} vram_live_stats;

/** Of the pools that a query names; its other fields do not count. */
VRAM_API vram_status vram_live_stats_get(const vram_live_query *query, vram_live_stats *stats);

typedef enum vram_live_by {
    VRAM_LIVE_BY_TAG = 0,
    VRAM_LIVE_BY_STACK = 1,
    VRAM_LIVE_BY_QUEUE = 2
} vram_live_by;

/** Blocks with something in common. */
typedef struct vram_live_group {
    size_t size;                      /* sizeof(vram_live_group) of the library */
    const char *tag;                  /* by tag; NULL: none; valid until the context ends */
    uint32_t stack;                   /* by stack; 0: none was taken */
    vram_queue *queue;                /* by queue; NULL: none */
    uint64_t live_blocks, live_bytes; /* now, as asked for */
    uint64_t peak_blocks, peak_bytes; /* live when the pool had most */
} vram_live_group;

typedef bool vram_live_group_fn(void *user, const vram_live_group *group);

/**
 * Calls `visit` for each group of the query's pools that has something now or had at the peak, most bytes
 * at the peak first. Of the query only the pools and `tag` count.
 */
VRAM_API vram_status vram_live_groups(const vram_live_query *query, vram_live_by by,
                                      vram_live_group_fn *visit, void *user);

/**
 * A stack as text, a line for each frame, innermost first: "function+0x1f (module+0x2a3f)". Returns the bytes
 * it has without the final 0, as snprintf does; 0 for a stack that there is not.
 */
VRAM_API size_t vram_stack_text(uint32_t stack, char *text, size_t text_bytes);

/* -------------------------------------------------------------------- leaks */

typedef struct vram_leak_summary {
    size_t size;            /* in: sizeof(vram_leak_summary) of the caller */
    uint64_t blocks, bytes; /* in the report, as asked for */
    uint64_t groups;        /* by tag and stack */
    uint64_t suppressed_blocks, suppressed_bytes;
    uint64_t lost_records; /* blocks that may be missing */
} vram_leak_summary;

/**
 * Writes every block of the query as a report of leaks, grouped by tag and stack, most bytes first; as
 * JSON with the schema vram.leaks/1. The
 * option `leak_suppressions` names a file of lines "leak:PATTERN", as LeakSanitizer has them: what has a tag, or a
 * function or module in its stack, that the pattern is a part of ('*' stands for anything, '^' and '$' for
 * the ends) is counted and not shown. VRAM_ERR_IO: `write` refused. `summary` may be NULL.
 */
VRAM_API vram_status vram_leaks_write(const vram_live_query *query, vram_report_format format,
                                      vram_write_fn *write, void *user, vram_leak_summary *summary);

#ifdef __cplusplus
}
#endif

#endif
