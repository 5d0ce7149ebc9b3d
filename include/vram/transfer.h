/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/transfer.h: copies by strategy, each with a handle that tells when it is complete; and their
 * statistics.
 *
 * vram/queue.h has the plain copies, which a program orders and waits for itself. The copies here
 * take a strategy, or choose one. They find out what kind of memory each side is, reach the memory
 * of other devices whether they are peers or not, and return a vram_async. All are ordered on their
 * queue like any other work.
 *
 *  - Addresses are checked before anything is submitted: live memory, in one piece, of the right
 *    device. A range past the end, or in freed or unknown memory, is VRAM_ERR_INVALID, and nothing
 *    has happened. For blocks of a pool, a range that begins with a block must end in it. A range
 *    that begins inside a block, or in freed memory that the pool keeps, is checked against the
 *    memory of the pool alone. Spans of buffers (vram/buffer.h) are checked exactly; the safety
 *    modes of vram/pool.h find the rest.
 *  - Page-locked memory of the library may be given as an address or as a host pointer, which are
 *    the same.
 *  - Host memory must not change until the handle is ready. No device reaches ordinary (pageable)
 *    memory. From 256 KiB on (downloads on CUDA and HIP: from the first byte on) it is copied by
 *    the driver or through the library's own page-locked memory, filled by several threads
 *    (staging, vram/pinned.h), whichever was measured to be faster for that size. An upload may
 *    wait until the memory was read, and a download until the memory was written; a driver that
 *    copies such memory in the background (host and simulated devices, OpenCL) does not make them
 *    wait. The handle tells when or, without one, the queue. There is one case in which the handle
 *    alone tells: if all of a download fits into the free slots of staging, there are workers, and
 *    a handle is asked for, then the call returns at once, and a worker writes the memory. Up to
 *    4 MiB of an idle queue are written before the call returns. Copies of page-locked memory never
 *    wait.
 *  - `async` may be NULL for callers that wait for the queue instead. 0 bytes do nothing and are
 *    ready at once.
 *  - A call that fails has changed nothing, except in two cases. If a driver fails in the middle of
 *    work in several pieces (lists, rectangles, ordinary memory from 256 KiB on, devices that are
 *    not peers), part of the target may have been written: each byte there is old or new, and the
 *    call may be repeated. And if a driver accepts the work and then fails both to mark it and to
 *    wait for it, the work may run until the queue has completed.
 */
#ifndef VRAM_TRANSFER_H
#define VRAM_TRANSFER_H

#include <vram/async.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------- strategies */

typedef enum vram_transfer_strategy {
    VRAM_TRANSFER_AUTO = 0,  /* ASYNC, or DIRECT if both sides are the same memory */
    VRAM_TRANSFER_SYNC = 1,  /* complete when the call returns */
    VRAM_TRANSFER_ASYNC = 2, /* on the queue; returns at once, except for ordinary memory */
    /* No copy: both sides are the same memory, which host and device reach. Whatever the platform
       needs between the writes of one and the reads of the other is done: memory that migrates is
       prefetched, and the handle is ready when the queue has completed its work. The result is 0
       bytes. VRAM_ERR_INVALID for two different places. */
    VRAM_TRANSFER_DIRECT = 3,
    VRAM_TRANSFER_DMA_POLLING = 4 /* as ASYNC, but a wait sleeps between polls and never spins */
} vram_transfer_strategy;

/** "auto", "sync", "async", "direct", "dma_polling"; "unknown" for any other number. */
VRAM_API const char *vram_transfer_strategy_name(vram_transfer_strategy strategy);

/** How long a wait with VRAM_TRANSFER_DMA_POLLING sleeps between two polls by default: 100 us. */
#define VRAM_TRANSFER_POLL_NS UINT64_C(100000)

typedef struct vram_transfer_options {
    size_t size; /* sizeof(vram_transfer_options) */
    vram_transfer_strategy strategy;
    /* DMA_POLLING: between polls; 0: VRAM_TRANSFER_POLL_NS. A wait never outlives its deadline */
    uint64_t poll_ns;
    /* SYNC: ns to wait; 0: VRAM_TIMEOUT_DEFAULT. After VRAM_ERR_TIMEOUT a copy of ordinary memory
       has not begun. Any other goes on, and only the queue can be waited for */
    uint64_t timeout_ns;
} vram_transfer_options;

/* ------------------------------------------------------------------- copies */

/** Host to device. */
VRAM_API vram_status vram_transfer_upload(vram_queue *queue, vram_addr to, const void *from,
                                          uint64_t bytes, const vram_transfer_options *options,
                                          vram_async *async);

/** Device to host. */
VRAM_API vram_status vram_transfer_download(vram_queue *queue, void *to, vram_addr from,
                                            uint64_t bytes, const vram_transfer_options *options,
                                            vram_async *async);

/**
 * Device to device, to memory of the queue's device. From another device the copy is direct after
 * vram_device_peer_enable; otherwise, or if peers are not available, it goes through page-locked
 * host memory in pieces. The devices wait for each other, the host does not. VRAM_ERR_INVALID for
 * ranges that overlap.
 */
VRAM_API vram_status vram_transfer_copy(vram_queue *queue, vram_addr to, vram_addr from,
                                        uint64_t bytes, const vram_transfer_options *options,
                                        vram_async *async);

/** Repeats a pattern of 1, 2 or 4 bytes, like vram_queue_fill. */
VRAM_API vram_status vram_transfer_fill(vram_queue *queue, vram_addr to, uint32_t pattern,
                                        uint32_t pattern_bytes, uint64_t bytes,
                                        const vram_transfer_options *options, vram_async *async);

/* ---------------------------------------------------------- many, and strided */

/** One copy of a list. Each side is an address or a host pointer; the other field is 0 or NULL. */
typedef struct vram_copy {
    vram_addr to;          /* on the queue's device, or page-locked memory */
    void *to_host;         /* host memory */
    vram_addr from;        /* on the queue's device, or page-locked memory */
    const void *from_host; /* host memory */
    uint64_t bytes;
} vram_copy;

/**
 * Many copies in one call, which are checked and submitted together and have one handle. They may
 * run in any order: no range that is written may overlap another range of the list
 * (VRAM_ERR_INVALID). Memory of another device must be that of an enabled peer.
 *
 * Neighbours on both sides become one copy. Small uploads to neighbouring addresses are gathered in
 * page-locked memory, before the call returns, and sent as one. Other small copies, if the device
 * has a kernel for it (CUDA and the host), go in one launch that reads and writes page-locked
 * memory itself. If the driver refuses in the middle, the call waits for what was submitted before,
 * and the error names the copy that was refused.
 */
VRAM_API vram_status vram_transfer_batch(vram_queue *queue, const vram_copy *copies, size_t count,
                                         const vram_transfer_options *options, vram_async *async);

/** A rectangle: `rows` of `row_bytes` each, which start `pitch` bytes apart. */
typedef struct vram_copy_2d {
    vram_copy first;     /* the first row; its `bytes` are ignored */
    uint64_t row_bytes;  /* of each row */
    uint64_t rows;       /* how many */
    uint64_t to_pitch;   /* at least row_bytes; 0: row_bytes */
    uint64_t from_pitch; /* the same */
} vram_copy_2d;

/**
 * A strided copy. It is one operation of the driver if it has one for such rows (CUDA, HIP, OpenCL
 * buffers), else a vram_transfer_batch of its rows. If neither side has gaps, it is one plain copy.
 * VRAM_ERR_INVALID for a pitch below row_bytes, for rectangles of one pitch that share bytes
 * (columns of one matrix may be copied beside each other), and for those of two pitches if one
 * begins between the other's first byte and its last. _OVERFLOW for a rectangle that does not fit
 * in 64 bits.
 */
VRAM_API vram_status vram_transfer_2d(vram_queue *queue, const vram_copy_2d *copy,
                                      const vram_transfer_options *options, vram_async *async);

/* --------------------------------------------------------------- statistics */

/*
 * What transfers moved, how fast, how long they took, and how much of that time the host had for
 * other work:
 *
 *   vram_transfer_stats stats = {.size = sizeof stats};
 *   vram_transfer_stats_get(device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_ANY, &stats);
 *   printf("%.1f GB/s, 99 %% within %llu ns\n", stats.bytes_per_second / 1e9,
 *          (unsigned long long)vram_transfer_stats_percentile(&stats, 99));
 *
 * Every copy of transfers, staging, readbacks, feeds and rings is counted for its device, by
 * direction and by route, from the call that began it until the library saw its end. No thread
 * watches in the background: if nobody asks about a copy, its time ends when somebody does. Plain
 * vram_queue_upload and the like are not counted. A trace (vram/trace.h) has each of them, with its
 * bytes and its time.
 *
 * Counting is always on and costs about a hundred nanoseconds a copy, without a lock. Numbers are
 * read while others count: each is exact, but a copy may end between two of them.
 */

/** Directions: X(NAME, number, "name"). */
#define VRAM_TRANSFER_DIRECTION_MAP(X)                                                             \
    X(TO_DEVICE, 0, "to_device")                                                                   \
    X(TO_HOST, 1, "to_host")                                                                       \
    X(ON_DEVICE, 2, "on_device")                                                                   \
    X(PEER, 3, "peer")                                                                             \
    X(FILL, 4, "fill")                                                                             \
    X(ANY, 5, "any")

typedef enum vram_transfer_direction {
#define VRAM_TRANSFER_DIRECTION_ENUM(NAME, number, name) VRAM_TRANSFER_##NAME = (number),
    VRAM_TRANSFER_DIRECTION_MAP(VRAM_TRANSFER_DIRECTION_ENUM)
#undef VRAM_TRANSFER_DIRECTION_ENUM
} vram_transfer_direction;

/**
 * Routes: X(NAME, number, "name"). The four strategies that a program chooses from, and what `auto`
 * and the parts above make of them: through staging, from memory that was pinned in place, as one
 * of a list, by a readback, a feed or a ring.
 */
#define VRAM_TRANSFER_ROUTE_MAP(X)                                                                 \
    X(SYNC, 0, "sync")                                                                             \
    X(ASYNC, 1, "async")                                                                           \
    X(DIRECT, 2, "direct")                                                                         \
    X(DMA_POLLING, 3, "dma_polling")                                                               \
    X(STAGED, 4, "staged")                                                                         \
    X(REGISTERED, 5, "registered")                                                                 \
    X(BATCH, 6, "batch")                                                                           \
    X(READBACK, 7, "readback")                                                                     \
    X(FEED, 8, "feed")                                                                             \
    X(RING, 9, "ring")                                                                             \
    X(ANY, 10, "any")

typedef enum vram_transfer_route {
#define VRAM_TRANSFER_ROUTE_ENUM(NAME, number, name) VRAM_ROUTE_##NAME = (number),
    VRAM_TRANSFER_ROUTE_MAP(VRAM_TRANSFER_ROUTE_ENUM)
#undef VRAM_TRANSFER_ROUTE_ENUM
} vram_transfer_route;

/** The names in the maps above; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_transfer_direction_name(vram_transfer_direction direction);
VRAM_API const char *vram_transfer_route_name(vram_transfer_route route);

enum { VRAM_TRANSFER_BUCKETS = 40 }; /* of the histogram: up to 9 minutes, and more */

typedef struct vram_transfer_stats {
    size_t size;         /* in: sizeof(vram_transfer_stats) of the caller */
    uint64_t started;    /* copies that began */
    uint64_t operations; /* of these, ended; the others are in flight */
    uint64_t failures;   /* of those that ended */
    uint64_t bytes;      /* moved by those that did not fail */
    uint64_t busy_ns;    /* time with at least one in flight */
    uint64_t waited_ns;  /* time that the program's threads waited for them in the library */
    uint64_t stalls;     /* times that a copy could not begin because no slot or room was free, */
    uint64_t stall_ns;   /* and how long that was */
    uint64_t latency_ns; /* from begin to end, summed over operations */
    uint64_t min_latency_ns, max_latency_ns; /* 0 without operations */
    double bytes_per_second;                 /* bytes over busy_ns; 0 without either */
    /* Share of busy_ns in which no thread waited, 0 to 1: the host had it for other work. */
    double overlap;
    /* Operations by latency: [i] has those from 2^i ns to below 2^(i+1); the first also 0, the last
       all above. */
    uint64_t histogram[VRAM_TRANSFER_BUCKETS];
} vram_transfer_stats;

/**
 * What was counted since the device was opened, through this handle on it. ANY sums over all
 * directions, or over all routes of a direction; its busy_ns is the time with at least one of them
 * in flight. A device without copies has all zeros. VRAM_ERR_INVALID for an unknown direction or
 * route, and for VRAM_TRANSFER_ANY together with a route.
 */
VRAM_API vram_status vram_transfer_stats_get(vram_device *device, vram_transfer_direction direction,
                                             vram_transfer_route route, vram_transfer_stats *stats);

/**
 * The latency that `percent` of the operations did not exceed: the upper end of its bucket, and
 * never more than the longest. 0 without operations. A percent above 100 is 100.
 */
VRAM_API uint64_t vram_transfer_stats_percentile(const vram_transfer_stats *stats,
                                                 uint32_t percent);

/**
 * Writes a report of every direction and route that has counted something, a line each as text. As
 * JSON it has the schema vram.transfers/1, with an array `transfers`: direction, route, the fields
 * above, and the histogram as pairs of limit and count.
 */
VRAM_API vram_status vram_transfer_stats_write(vram_device *device, vram_report_format format,
                                               vram_write_fn *write, void *user);

#ifdef __cplusplus
}
#endif

#endif
