/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_stats.h: collects the counters of many places in one vram_pool_stats.
 */
#ifndef VR_POOL_STATS_H
#define VR_POOL_STATS_H

#include "core/limit/limit.h"

/* All counters of a pool; takes the pool's lock, and visits every thread. */
void vr_stats_of_pool(struct vr_pool *pool, struct vram_pool_stats *stats);

/* What thread caches have counted for a pool; and adds what one cache has. The thread is kept
   out. */
struct vr_thread_counts {
    uint64_t allocs, frees;    /* calls that succeeded */
    uint64_t misses, uncached; /* of the allocations, as in vr_cache_counts */
    uint64_t requested, held;  /* live bytes, before and after rounding; modulo 2^64 */
    uint64_t cached_bytes;     /* in the bins */
};
void vr_thread_counts_add(struct vr_thread_counts *counts, const struct vr_cache *cache);
/* The counters of a pool without a visit to its threads, whose part is given; no limit is derived
   anew. Takes the pool's lock. */
void vr_stats_last(struct vr_pool *pool, const struct vr_thread_counts *threads,
                   struct vram_pool_stats *stats);

/* All counters summed for a device and for a context (vram/stats.h), into zeroed counters. */
void vr_stats_of_device(struct vr_device_object *device, struct vram_pool_stats *stats);
void vr_stats_of_context(struct vr_context *context, struct vram_pool_stats *stats);

/* Publishes what caches have counted, of one pool, or of one device's or one context's pools. */
struct vr_stats_scope {
    const struct vr_pool *pool;       /* NULL: of all */
    const struct vr_slot *slot;       /* NULL: of all */
    const struct vr_context *context; /* NULL: of all */
};
void vr_stats_publish(struct vr_stats_scope scope);

/* Derives rates, differences and other names from the counters. Call it last. */
void vr_stats_derive(struct vram_pool_stats *stats);

#endif
