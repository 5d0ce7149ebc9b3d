/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/stats.h: counters and peaks of devices, contexts and tags; every live block of a tracked
 * pool; and leaks.
 *
 * A tracked pool keeps a record of 40 bytes for each live block: who asked for it, and when. A pool
 * is tracked from its creation or not at all. What decides, in this order: VRAM_TRACKING in the
 * environment; VRAM_POOL_TRACKED or vram_limits.tracking of the pool or its device; the option
 * `tracking`; the preset; the build (debug: on, release: off). Whatever these say, a new pool is
 * tracked while a trace is written, the log is at debug level, or the option `leaks` or `leak_exit`
 * asks for a report. A pool that is not tracked pays nothing, and its blocks do not appear here.
 *
 * With the option `track_stacks` the library takes call stacks, of every allocation (1) or of every
 * n-th of a thread. Code addresses get their names when a stack is printed or goes into a trace. On
 * Linux static functions are found in the symbol table of their file, unless it was stripped, and
 * source files and lines in its debug information (-g), unless that is compressed (-gz) or in a
 * file of its own. The first stack through a module takes about 10 ms per MB of its .debug_line.
 * Where a thread executes Python (CPython 3.9 to 3.14 with its lock, on Linux), the Python code's
 * frames, "train (train.py:12)", are in place of the interpreter's and of all beyond.
 *
 * No allocation fails because memory for its record ran out: the record is lost and counted. Totals
 * and peaks are still exact.
 *
 * A pool that ends with live blocks, by itself or with its device or context, has leaked them. The
 * log has one warning for it, tracked or not, with the tags that have most. If the option `leaks`
 * is `text` or `json`, a report goes to standard error, or to the end of the file that the option
 * `leak_file` names. With the option `leak_exit` the same happens for all pools that exist when the
 * process ends; records of foreign memory (vram/foreign.h) that a context still has at its end are
 * reported in the same way. Otherwise nothing is ever written. That file, and the one of
 * `leak_suppressions`, must be a plain file or a character device such as a terminal or /dev/null.
 * A pipe is refused with a message in the log, because writing to it could block forever.
 */
#ifndef VRAM_STATS_H
#define VRAM_STATS_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------- counters and peaks */

/**
 * The counters of vram_pool_stats_get, summed over the present pools of a device, through any
 * handle on it, or over all devices of a context. reserved_bytes is all that was taken from the
 * device, memory allocated without a pool included. peak_requested_bytes and peak_reserved_bytes
 * are peaks of the sum, pools that have ended included; the first may be off, for each pool, by
 * 1 MiB or 1/64 of its live bytes, whichever is more. peak_allocated_bytes is the sum of the pools'
 * own peaks.
 */
VRAM_API vram_status vram_device_stats_get(vram_device *device, vram_pool_stats *stats);
VRAM_API vram_status vram_context_stats_get(vram_context *context, vram_pool_stats *stats);

/**
 * Writes all counters of a pool, a device or a context, and the pressure of the first two. As text
 * each is a line "name: value"; as JSON they have the schema vram.stats/1, with the names of
 * vram_pool_stats.
 */
VRAM_API vram_status vram_pool_stats_write(vram_pool *pool, vram_report_format format,
                                           vram_write_fn *write, void *user);
VRAM_API vram_status vram_device_stats_write(vram_device *device, vram_report_format format,
                                             vram_write_fn *write, void *user);
VRAM_API vram_status vram_context_stats_write(vram_context *context, vram_report_format format,
                                              vram_write_fn *write, void *user);

/** The counters that a tag and all tags below it have; the others are 0. */
VRAM_API vram_status vram_tag_stats_get(vram_device *device, const char *tag,
                                        vram_pool_stats *stats);

/** The most since some moment. */
typedef struct vram_peaks {
    size_t size;              /* in: sizeof(vram_peaks) of the caller */
    uint64_t requested_bytes; /* live, before rounding */
    uint64_t allocated_bytes; /* live or cached, after rounding; of a pool only, else 0 */
    uint64_t reserved_bytes;  /* taken from the driver */
} vram_peaks;

/**
 * Peaks of a part of the program. Begin starts from the present values; end returns the most since
 * then, and restores the peaks to what they would be without the two calls. They nest 16 deep
 * (VRAM_ERR_LIMIT). An end without a begin is VRAM_ERR_INVALID. All threads share one stack.
 */
VRAM_API vram_status vram_pool_peaks_begin(vram_pool *pool);
VRAM_API vram_status vram_pool_peaks_end(vram_pool *pool, vram_peaks *peaks);
VRAM_API vram_status vram_device_peaks_begin(vram_device *device);
VRAM_API vram_status vram_device_peaks_end(vram_device *device, vram_peaks *peaks);
VRAM_API vram_status vram_context_peaks_begin(vram_context *context);
VRAM_API vram_status vram_context_peaks_end(vram_context *context, vram_peaks *peaks);

/** Resets all peaks to the present values. For a device, those of its tags too. */
VRAM_API vram_status vram_pool_peaks_reset(vram_pool *pool);
VRAM_API vram_status vram_device_peaks_reset(vram_device *device);
VRAM_API vram_status vram_context_peaks_reset(vram_context *context);

/* -------------------------------------------------------------- live blocks */

enum { VRAM_LIVE_NAME_MAX = 64 }; /* bytes of a block's name, the final 0 included */

/** One live block. */
typedef struct vram_live_block {
    size_t size; /* sizeof(vram_live_block) of the library; in: of the caller, for vram_live_get */
    uint64_t id; /* unique in the process, rising within a pool; see vram_buffer_info.id */
    vram_pool *pool;     /* borrowed, as the next two */
    vram_device *device; /* the handle that the pool was made on */
    vram_queue *queue;   /* the queue that it was allocated on; NULL: none */
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
    bool
        foreign; /* a record of memory of others (vram/foreign.h), with its number as `id`: no pool,
                     queue, address or stack */
} vram_live_block;

typedef enum vram_live_order {
    VRAM_LIVE_ANY = 0, /* as they are found: needs no memory */
    VRAM_LIVE_LARGEST = 1,
    VRAM_LIVE_OLDEST = 2
} vram_live_order;

/** What counts as old by default: 60 seconds. */
#define VRAM_LIVE_OLD_NS UINT64_C(60000000000)

/** Which blocks. One of the first three says where to look. */
typedef struct vram_live_query {
    size_t size; /* sizeof(vram_live_query) */
    vram_pool *pool;
    vram_device *device;   /* all pools of the device, through any handle on it, and its records
                              of foreign memory */
    vram_context *context; /* the same of all devices */
    const char *tag;       /* of this tag and all below it; "": without one; NULL: all */
    uint64_t older_ns;     /* at least that old; VRAM_LIVE_OLD_NS; 0: all */
    uint32_t stack;        /* of that stack; 0: all */
    uint32_t most;         /* stop after that many; 0: never */
    vram_live_order order;
} vram_live_query;

/** Called for each block with no lock held; may call the library. False: stop. */
typedef bool vram_live_fn(void *user, const vram_live_block *block);

/**
 * Calls `visit` for each live block of tracked pools, and for each record of foreign memory if the
 * query names a device or a context. Blocks that are allocated or freed meanwhile
 * may be seen or not; each block that is seen was live, and is seen once.
 */
VRAM_API vram_status vram_live_visit(const vram_live_query *query, vram_live_fn *visit, void *user);

/**
 * The live block at `addr`. VRAM_ERR_UNSUPPORTED: its pool is not tracked, or its record was lost.
 */
VRAM_API vram_status vram_live_get(vram_addr addr, vram_live_block *block);

/* ------------------------------------------------------------- sums and peaks */

/** What tracked pools have, and had at their peak. The peak is exact over all threads. */
typedef struct vram_live_stats {
    size_t size;                           /* in: sizeof(vram_live_stats) of the caller */
    uint64_t pools;                        /* how many are tracked */
    uint64_t live_blocks;                  /* now */
    uint64_t live_bytes, held_bytes;       /* before and after rounding */
    uint64_t peak_bytes, peak_blocks;      /* when live_bytes were highest, summed over the pools */
    vram_value peak_ns;                    /* when that was; of one pool only */
    uint64_t allocs, frees, resizes;       /* so far */
    uint64_t lost_records;                 /* because memory ran out */
    uint64_t record_bytes, metadata_bytes; /* host memory: of records, and in all */
    uint64_t foreign_blocks, foreign_bytes; /* records of foreign memory; not in those above */
} vram_live_stats;

/** The sums for the pools that the query names; its other fields are ignored. */
VRAM_API vram_status vram_live_stats_get(const vram_live_query *query, vram_live_stats *stats);

typedef enum vram_live_by {
    VRAM_LIVE_BY_TAG = 0,
    VRAM_LIVE_BY_STACK = 1,
    VRAM_LIVE_BY_QUEUE = 2
} vram_live_by;

/** Blocks that share a tag, a stack or a queue. */
typedef struct vram_live_group {
    size_t size;                            /* sizeof(vram_live_group) of the library */
    const char *tag;                        /* by tag; NULL: none; valid until the context ends */
    uint32_t stack;                         /* by stack; 0: none was taken */
    vram_queue *queue;                      /* by queue; NULL: none */
    uint64_t live_blocks, live_bytes;       /* now, before rounding */
    uint64_t peak_blocks, peak_bytes;       /* live at the pool's peak */
    uint64_t foreign_blocks, foreign_bytes; /* records of foreign memory; not in those above */
} vram_live_group;

typedef bool vram_live_group_fn(void *user, const vram_live_group *group);

/**
 * Calls `visit` for each group of the query's pools that has something now or had at the peak, most
 * bytes at the peak first. Of the query only the pools and `tag` are used.
 */
VRAM_API vram_status vram_live_groups(const vram_live_query *query, vram_live_by by,
                                      vram_live_group_fn *visit, void *user);

/**
 * Writes a stack as text, one line per frame, innermost first, as far as it is known:
 * "function+0x1f (main.c:42, module+0x2a3f)".
 * Returns its length without the final 0, like snprintf; 0 for an unknown stack.
 */
VRAM_API size_t vram_stack_text(uint32_t stack, char *text, size_t text_bytes);

/* -------------------------------------------------------------------- leaks */

typedef struct vram_leak_summary {
    size_t size;            /* in: sizeof(vram_leak_summary) of the caller */
    uint64_t blocks, bytes; /* in the report, before rounding */
    uint64_t groups;        /* by tag and stack */
    uint64_t suppressed_blocks, suppressed_bytes;
    uint64_t lost_records;                  /* blocks that may be missing */
    uint64_t foreign_blocks, foreign_bytes; /* of `blocks` and `bytes`, those of foreign memory */
} vram_leak_summary;

/**
 * Writes every block of the query as a report of leaks, grouped by tag and stack, most bytes first.
 * Records of foreign memory are groups of their own, marked as foreign.
 * As JSON it has the schema vram.leaks/1. The option `leak_suppressions` names a file of lines
 * "leak:PATTERN", as LeakSanitizer has them. A block whose tag, or a function, source file or
 * module of whose stack, contains the pattern ('*' stands for anything, '^' and '$' for the ends)
 * is counted and not shown. `summary` may be NULL.
 */
VRAM_API vram_status vram_leaks_write(const vram_live_query *query, vram_report_format format,
                                      vram_write_fn *write, void *user, vram_leak_summary *summary);

#ifdef __cplusplus
}
#endif

#endif
