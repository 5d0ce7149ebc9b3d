/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/transfer_stats.h: what transfers moved, how fast, how long they took, and how much of that time the
 * host had for itself.
 *
 *   vram_transfer_stats stats = {.size = sizeof stats};
 *   vram_transfer_stats_get(device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_ANY, &stats);
 *   printf("%.1f GB/s, 99 %% within %llu ns\n", stats.bytes_per_second / 1e9,
 *          (unsigned long long)vram_transfer_stats_percentile(&stats, 99));
 *
 * Every copy of transfers, staging, readbacks, feeds and rings is counted for its device, by its direction and
 * by the route it took, from the call that began it until the library saw its end: nobody watches in the
 * background, so the time of a copy that nobody asks about ends when somebody does. Plain vram_queue_upload
 * and its like are the driver's alone and not counted.
 *
 * A trace (vram/trace.h) has each of them, with its bytes and its time.
 *
 * Counting is always on: about a hundred nanoseconds a copy, without a lock. Numbers are read while others count:
 * each is right, and between two of them a copy may have ended.
 */
#ifndef VRAM_TRANSFER_STATS_H
#define VRAM_TRANSFER_STATS_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** From where to where: X(NAME, number, "name"). */
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
 * How they got there: X(NAME, number, "name"). The four strategies that a program chooses from, and what
 * `auto` and the parts above make of them: through the staging ring, from memory that was pinned in place,
 * as one of a list, by a readback, a feed or a ring.
 */
#define VRAM_TRANSFER_ROUTE_MAP(X)                                                                 \
    X(SYNC, 0, "sync")                                                                             \
    X(ASYNC, 1, "async")                                                                           \
    X(UNIFIED, 2, "unified")                                                                       \
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

enum { VRAM_TRANSFER_BUCKETS = 40 }; /* of the histogram: up to 9 minutes, and all above */

typedef struct vram_transfer_stats {
    size_t size;         /* in: sizeof(vram_transfer_stats) of the caller */
    uint64_t started;    /* copies that began */
    uint64_t operations; /* of these, ended; the others are under way */
    uint64_t failures;   /* of those that ended */
    uint64_t bytes;      /* moved by those that did not fail */
    uint64_t busy_ns;    /* time with at least one under way */
    uint64_t
        waited_ns;   /* time that threads of the program waited for them in calls of the library */
    uint64_t stalls; /* times that a copy could not begin for want of a slot or of room, */
    uint64_t stall_ns;                       /* and how long that was */
    uint64_t latency_ns;                     /* from begin to end, summed over operations */
    uint64_t min_latency_ns, max_latency_ns; /* 0 without operations */
    double bytes_per_second;                 /* bytes over busy_ns; 0 without either */
    double
        overlap; /* share of busy_ns that nobody waited, 0 to 1: the host had it for other work */
    uint64_t
        histogram[VRAM_TRANSFER_BUCKETS]; /* operations by latency: [i] has those from 2^i ns to
                                                  below 2^(i+1); the first also 0, the last all above */
} vram_transfer_stats;

/**
 * What was counted since the device was opened, through this handle on it. ANY sums over all directions, or
 * over all routes of a direction; its busy_ns is the time with at least one of them under way. A device that
 * nothing was copied to has all zeros. VRAM_ERR_INVALID for a number that is no direction or no route, and
 * for VRAM_TRANSFER_ANY together with a route.
 */
VRAM_API vram_status vram_transfer_stats_get(vram_device *device, vram_transfer_direction direction,
                                             vram_transfer_route route, vram_transfer_stats *stats);

/**
 * The latency that `percent` of the operations did not pass: the upper end of its bucket, and never more
 * than the longest there was. 0 without operations; percent above 100 is 100.
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
