/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h: free blocks that a thread keeps, in one cache per thread, pool and queue.
 *
 *      vr_cache
 *      +-----------------+  blocks of 512, 1024, ... 32 KiB: one bin each, found by index
 *      | small bins      |
 *      +-----------------+  larger: bins found by a hash of the exact size; an empty bin changes to
 *      | exact bins      |  another size when that needs it
 *      +-----------------+
 *      | recent          |  address -> block for the latest allocations, so that a free finds its
 *      +-----------------+  block without a lookup in the pool's table
 *
 * All blocks in a cache were last used on its queue, so a hit need not check any stamp. Only the
 * owning thread uses a cache, between vr_thread_enter and vr_thread_leave ("inside enter"); another
 * thread revokes first (thread.h). Counters are written by the owner; any thread may read them.
 */
#ifndef VR_CACHE_H
#define VR_CACHE_H

#include "core/cache/thread.h"
#include "core/space/block.h"

#include <assert.h>
#include <string.h>

struct vr_pool;

/* 0: a build without the tracker, for comparison (bench/track_off.sh). */
#ifndef VR_TRACKER
#define VR_TRACKER 1
#endif

enum {
    VR_UNIT = 512,             /* sizes are rounded up to this */
    VR_SMALL_UNITS = 64,       /* largest small size in units: 32 KiB */
    VR_SMALL_DEPTH = 32,       /* blocks in a small bin, if limits allow it */
    VR_EXACT_BINS = 64,        /* exact bins, a power of two */
    VR_EXACT_DEPTH = 16,       /* blocks in one, for up to VR_LARGE_BYTES, if limits allow it */
    VR_LARGE_BYTES = 64 << 10, /* above this a bin holds one block */
    VR_SKIP_LEAST = 16384,  /* large blocks not kept after a drain; doubled if that was too few, */
    VR_SKIP_MOST = 1 << 20, /* up to this: cache.c (3) */
    VR_RECENT = 1024        /* entries, a power of two */
};

#define VR_SMALL_BYTES ((uint64_t)VR_SMALL_UNITS * VR_UNIT)

/* Each bin counts its hits: that is as cheap as one counter per cache, and shows which sizes are
   worth caching (decay.h). */
struct vr_bin {
    uint32_t count;
    bool used;     /* hits since the last tick of the decay, apart from `hits` */
    uint64_t hits; /* since they were last added to the cache's count */
    struct vr_block *blocks[VR_SMALL_DEPTH];
};

struct vr_exact_bin {
    uint64_t bytes; /* its one size; 0: none yet */
    uint32_t count;
    bool used;
    uint64_t hits;
    struct vr_block *blocks[VR_EXACT_DEPTH];
};

/* Counters of a cache: written by the owner, read by any thread. A hit writes only three of them;
   the contents of the bins are summed on demand. */
struct vr_cache_counts {
    vr_atomic_u64 allocs;           /* without the hits counted in bins */
    vr_atomic_u64 uncached, misses; /* of all: not served by a bin; the driver was called */
    vr_atomic_u64 frees, overflows; /* all; not kept by a bin */
    vr_atomic_u64 requested;        /* bytes as requested: allocated minus freed, modulo 2^64 */
    vr_atomic_u64 held;             /* the same after rounding */
};

struct vr_cache {
    char apart_before[128];   /* padding: other threads write to the memory before it */
    uint64_t pool_handle;     /* the key: pool */
    struct vr_queue_id queue; /* and queue */
    struct vr_pool *pool;
    struct vr_thread_state *thread;
    uint32_t depth;       /* blocks that a small bin may keep: vr_caps.small_blocks */
    uint32_t skip_large;  /* large blocks still not to be kept: the pool was short of memory */
    uint32_t skip_next;   /* skip_large after the next drain; 0: VR_SKIP_LEAST */
    uint64_t large_bytes; /* of large blocks in exact bins, charged to pool->large_left */
    struct vr_cache_counts counts;
    uint64_t emptied_at;    /* vr_cache_puts when its bins were last emptied; UINT64_MAX: that does
                               not tell whether a block has entered since */
    int64_t high_bytes;     /* highest counts.requested since the last report to the pool */
    int64_t reported_bytes; /* counts.requested at that report */
    struct vr_bin small[VR_SMALL_UNITS + 1];
    struct vr_exact_bin exact[VR_EXACT_BINS];
    struct vr_block *recent[VR_RECENT];
    bool watched;     /* its pool is tracked or traced: it is never the thread's recent cache */
    uint32_t site[2]; /* hints: the track's sites for untagged and tagged blocks */
    char apart_behind[128];
};

static inline bool vr_cache_is_watched(const struct vr_cache *cache) {
    return VR_TRACKER && cache->watched;
}

/* Rounds a request to the size of its block; false on overflow. 0 counts as 1. */
static inline bool vr_block_bytes(uint64_t size, uint64_t *bytes) {
    uint64_t rounded = (size + (VR_UNIT - 1)) & ~(uint64_t)(VR_UNIT - 1);
    *bytes = rounded ? rounded : VR_UNIT;
    return rounded >= size;
}

/* The calling thread's cache for that pool and queue; NULL: none. Inside enter. */
struct vr_cache *vr_cache_find_slow(struct vr_thread_state *thread, uint64_t pool,
                                    struct vr_queue_id queue);

/* The same if it is the last used one; otherwise NULL. */
static inline struct vr_cache *vr_cache_recent(const struct vr_thread_state *thread, uint64_t pool,
                                               struct vr_queue_id queue) {
    struct vr_cache *recent = thread->recent;
    return recent && recent->pool_handle == pool && vr_queue_id_same(recent->queue, queue) ? recent
                                                                                           : NULL;
}

static inline struct vr_cache *vr_cache_find(struct vr_thread_state *thread, uint64_t pool,
                                             struct vr_queue_id queue) {
    struct vr_cache *recent = vr_cache_recent(thread, pool, queue);
    return recent ? recent : vr_cache_find_slow(thread, pool, queue);
}

static inline uint32_t vr_exact_index(uint64_t bytes) {
    return (uint32_t)((bytes / VR_UNIT * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (VR_EXACT_BINS - 1);
}

static inline uint32_t vr_recent_index(vram_addr addr) {
    return (uint32_t)(((addr >> 9) * UINT64_C(0x9E3779B97F4A7C15)) >> 40) & (VR_RECENT - 1);
}

/* Adds to a counter that only this thread writes: no locked instruction. */
static inline void vr_count(vr_atomic_u64 *counter, uint64_t value) {
    vr_store(counter, vr_load(counter, VR_RELAXED) + value, VR_RELAXED);
}

static inline void vr_uncount(vr_atomic_u64 *counter, uint64_t value) {
    vr_store(counter, vr_load(counter, VR_RELAXED) - value, VR_RELAXED);
}

/* Bytes allocated minus bytes freed through this cache; below 0 if it freed blocks that were
   allocated through others. Inside enter. */
static inline int64_t vr_cache_live(const struct vr_cache *cache) {
    return (int64_t)vr_load(&cache->counts.requested, VR_RELAXED);
}

/* Whether a bin for `bytes` may keep the block: this thread owns it, and it has no tag any more
   (block.h (1), (6)). For asserts. */
static inline bool vr_cache_may_keep(const struct vr_block *block, uint64_t bytes) {
    return vr_block_is_cached(block) && vr_load(&block->bytes, VR_RELAXED) == bytes &&
           !(block->home.handle & VR_HOME_TAGGED);
}

/* A cached block of exactly `bytes`, or NULL. Inside enter. */
static inline struct vr_block *vr_cache_take(struct vr_cache *cache, uint64_t bytes) {
    struct vr_block *block = NULL;
    if (bytes <= VR_SMALL_BYTES) {
        struct vr_bin *bin = &cache->small[bytes / VR_UNIT];
        if (bin->count) {
            block = bin->blocks[--bin->count];
            bin->hits++;
        }
    } else {
        struct vr_exact_bin *bin = &cache->exact[vr_exact_index(bytes)];
        if (bin->bytes == bytes && bin->count) {
            block = bin->blocks[--bin->count];
            bin->hits++;
        }
    }
    assert(!block || vr_cache_may_keep(block, bytes)); /* as when it was put in */
    return block;
}

/* Undoes a vr_cache_take. Inside enter. */
static inline void vr_cache_untake(struct vr_cache *cache, struct vr_block *block, uint64_t bytes) {
    assert(vr_cache_may_keep(block, bytes));
    if (bytes <= VR_SMALL_BYTES) {
        struct vr_bin *bin = &cache->small[bytes / VR_UNIT];
        bin->blocks[bin->count++] = block;
        bin->hits--;
    } else {
        struct vr_exact_bin *bin = &cache->exact[vr_exact_index(bytes)];
        bin->blocks[bin->count++] = block;
        bin->hits--;
    }
}

/* Keeps a block; false if no bin can. Inside enter. */
bool vr_cache_put_slow(struct vr_cache *cache, struct vr_block *block, uint64_t bytes);

/* The same, but only if its bin can keep it without a change of size. */
static inline bool vr_cache_put_quick(struct vr_cache *cache, struct vr_block *block,
                                      uint64_t bytes) {
    assert(vr_cache_may_keep(block, bytes));
    if (bytes <= VR_SMALL_BYTES) {
        struct vr_bin *bin = &cache->small[bytes / VR_UNIT];
        if (__builtin_expect(bin->count < cache->depth, 1)) {
            bin->blocks[bin->count++] = block;
            return true;
        }
        return false;
    }
    struct vr_exact_bin *bin = &cache->exact[vr_exact_index(bytes)];
    if (__builtin_expect(bin->bytes == bytes && bin->count == 0, 1)) {
        bin->blocks[bin->count++] = block;
        return true;
    }
    return false;
}

static inline bool vr_cache_put(struct vr_cache *cache, struct vr_block *block, uint64_t bytes) {
    return vr_cache_put_quick(cache, block, bytes) ||
           (bytes > VR_SMALL_BYTES && vr_cache_put_slow(cache, block, bytes));
}

/* Moves half of the blocks that a small bin may keep, or more if it has more, out of it, and puts
   the block, which did not fit, into it. Returns how many; there is at least one. Inside enter. */
static inline uint32_t vr_cache_spill(struct vr_cache *cache, struct vr_block *block,
                                      uint64_t bytes, struct vr_block **blocks) {
    struct vr_bin *bin = &cache->small[bytes / VR_UNIT];
    uint32_t kept = cache->depth / 2, count = bin->count - kept;
    assert(kept < bin->count && vr_cache_may_keep(block, bytes));
    memcpy(blocks, bin->blocks + kept, count * sizeof *blocks);
    bin->blocks[kept] = block;
    bin->count = kept + 1;
    return count;
}

/* Rises whenever a block may have entered a bin: a free keeps one, or a request that no bin served
   brings more. The thread is kept out, or inside. */
static inline uint64_t vr_cache_puts(const struct vr_cache *cache) {
    return vr_load(&cache->counts.frees, VR_RELAXED) + vr_load(&cache->counts.uncached, VR_RELAXED);
}

/* Creates a cache and adds it to the thread's table. Not inside enter. NULL with the error set. */
struct vr_cache *vr_cache_make(struct vr_thread_state *thread, struct vr_pool *pool,
                               uint64_t pool_handle, struct vr_queue_id queue);

/* Bytes of the blocks in all bins. The thread is kept out. */
uint64_t vr_cache_bytes(const struct vr_cache *cache);

/* Hits that bins have counted. The thread is kept out. */
uint64_t vr_cache_hits(const struct vr_cache *cache);

/* One bin, small or exact, as the decay sees it. */
struct vr_bin_view {
    uint64_t bytes; /* of each of its blocks */
    uint32_t count;
    bool used;     /* since the last tick */
    uint64_t hits; /* since the last view */
};

enum { VR_CACHE_BINS = VR_SMALL_UNITS + 1 + VR_EXACT_BINS };

/* Describes bin `at`, below VR_CACHE_BINS, and adds its hits to the cache's count. Revoked. */
struct vr_bin_view vr_cache_bin_view(struct vr_cache *cache, uint32_t at);
/* Marks the bin as unused since the last tick. Revoked. */
void vr_cache_tick(struct vr_cache *cache, uint32_t at);
/* Removes the `count` oldest blocks, at most VR_SMALL_DEPTH, from bin `at`. Revoked. */
void vr_cache_thin(struct vr_cache *cache, uint32_t at, uint32_t count, struct vr_block **blocks);

/* Removes up to `capacity` blocks of any size from the cache. Inside enter, or revoked. */
uint32_t vr_cache_empty(struct vr_cache *cache, struct vr_block **blocks, uint32_t capacity);

/* Removes the cache, which is empty, from its thread's table and frees it. Revoked, or by the
   owner. */
void vr_cache_drop(struct vr_cache *cache);

#endif
