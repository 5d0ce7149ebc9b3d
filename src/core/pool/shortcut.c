/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortcut.c: the most common miss, and the most common overflow, by the shortest code path.
 *
 * A program whose sizes differ from step to step misses with nearly every large block, and nearly
 * always the space has a hole for it. A program that allocates many small blocks and then frees
 * them empties and fills its bins, and the central cache has the blocks. Such a request has no
 * options, no tag and no guard, and needs no plan. Anything else is left to the request path
 * (pool.c, miss.c), which starts from the beginning.
 *
 *  (1) The thread stays inside its caches, which keeps pool, queue and cache alive: nothing is
 *      pinned. So it must not block: it only tries the pool's lock, holds it for a bounded time,
 *      and allocates no memory of the host.
 *  (2) What may take long is done outside, with a reference to the pool: marking a queue, releasing
 *      memory above a limit, checking the pressure.
 *  (3) Blocks move between a thread's bin and the central cache by half a bin at a time.
 */
#include "core/cache/drain.h"
#include "core/limit/limit.h"
#include "core/pool/hit.h"
#include "core/pool/pool_calls.h"

#include "base/handle.h"

void vr_pool_hand_out(struct vr_pool *pool, const struct vr_request *request,
                      struct vr_block *block) {
    vr_fetch_add(&pool->past.allocs, 1, VR_RELAXED);
    vr_fetch_add(&pool->past.uncached, 1, VR_RELAXED);
    vr_fetch_add(&pool->past.misses, request->missed && *request->missed, VR_RELAXED);
    vr_fetch_add(&pool->past.requested, request->size, VR_RELAXED);
    vr_fetch_add(&pool->past.held, vr_load(&block->bytes, VR_RELAXED), VR_RELAXED);
    vr_pool_report_bytes(pool, (int64_t)request->size, (int64_t)request->size);
    vr_become_live(block, request->size, request->tag);
}

/* Does what may take long, see (2), outside the caches; then the thread is outside. */
__attribute__((noinline)) static void cache_leave_busy(struct vr_cache *cache, bool marks,
                                                       bool presses) {
    struct vr_pool *pool = cache->pool;
    uint64_t handle = cache->pool_handle;
    struct vr_queue_id queue = cache->queue;
    bool lives = vr_handle_try_ref(handle); /* otherwise the pool is ending */
    vr_thread_leave(cache->thread);
    if (!lives) {
        return;
    }
    if (marks) {
        vr_pool_mark_batch(pool, queue);
    }
    vr_limit_trim_cached(pool);
    if (presses) {
        vr_pressure_tick(pool, false);
    }
    vr_handle_unpin(handle);
}

static inline void cache_leave(struct vr_cache *cache, bool marks, bool presses) {
    bool limited = vr_load(&cache->pool->caps.cached_bytes, VR_RELAXED) != VRAM_LIMIT_NONE;
    if (__builtin_expect(marks || presses || limited, 0)) {
        cache_leave_busy(cache, marks, presses);
    } else {
        vr_thread_leave(cache->thread);
    }
}

/* Takes half a bin from the central cache; returns one of the blocks, and the others are in the
   bin, which was empty. The lines of the blocks may be with another processor: all are requested at
   once. Under the lock. */
static struct vr_block *refill_bin(struct vr_cache *cache, uint64_t bytes) {
    struct vr_bin *bin = &cache->small[bytes / VR_UNIT];
    uint32_t most = cache->depth / 2 + 1;
    uint32_t count = vr_central_take(&cache->pool->central, cache->queue, bytes, bin->blocks, most);
    assert(bin->count == 0);
    for (uint32_t i = 0; i < count; i++) {
        vr_prefetch_to_write(bin->blocks[i]);
    }
    bin->count = count ? count - 1 : 0;
    return count ? bin->blocks[bin->count] : NULL;
}

bool vr_pool_alloc_shortcut(struct vr_cache *cache, uint64_t size, uint64_t bytes,
                            vram_addr *addr) {
    struct vr_pool *pool = cache->pool;
    bool marks = false;
    if (vr_load(&pool->uncached, VR_RELAXED) || !vr_mutex_try(&pool->lock)) {
        return false;
    }
    struct vr_block *block = bytes <= VR_SMALL_BYTES
                                 ? refill_bin(cache, bytes)
                                 : vr_pool_supply_held(pool, cache->queue, bytes, &marks);
    if (!block) {
        vr_mutex_unlock(&pool->lock);
        return false;
    }
    *addr = vr_hand_out(cache, block, size, bytes, NULL);
    vr_count(&cache->counts.allocs, 1);
    vr_count(&cache->counts.uncached, 1);
    vr_pool_report_locked(cache);
    vr_mutex_unlock(&pool->lock);
    cache_leave(cache, marks, vr_pressure_is_due(pool));
    return true;
}

/* Puts half of a full bin into the central cache and the block into the bin; false if the central
   cache has no room. If thread caches have all that may be cached, that half goes to the space.
   Under the lock. */
static bool spill_bin(struct vr_cache *cache, struct vr_block *block, uint64_t bytes) {
    struct vr_block *blocks[VR_SMALL_DEPTH];
    uint32_t kept = cache->depth / 2, count = cache->small[bytes / VR_UNIT].count;
    if (kept >= count ||
        (!vr_load(&cache->pool->caps.all_blocks, VR_RELAXED) &&
         !vr_central_has_room(&cache->pool->central, cache->queue, bytes, count - kept))) {
        return false;
    }
    block->home = cache->queue;
    count = vr_cache_spill(cache, block, bytes, blocks);
    vr_pool_put_cached(cache->pool, cache->queue, bytes, blocks, count);
    return true;
}

bool vr_pool_free_shortcut(struct vr_cache *cache, struct vr_block *block, uint64_t bytes) {
    struct vr_pool *pool = cache->pool;
    bool marks = false;
    uint32_t depth = vr_load(&pool->caps.small_blocks, VR_RELAXED);
    if (vr_load(&pool->uncached, VR_RELAXED) || cache->depth != depth ||
        !vr_mutex_try(&pool->lock)) {
        return false;
    }
    bool done = !block->uses && !block->pins && !vr_block_stays(block);
    if (done && bytes <= VR_SMALL_BYTES) {
        done = spill_bin(cache, block, bytes);
    } else if (done) {
        vr_pool_to_space(pool, block, vr_queue_state_stamp(&pool->queue_states, cache->queue));
    }
    if (done) {
        uint64_t freed = bytes <= VR_SMALL_BYTES ? (depth - depth / 2) * bytes : bytes;
        marks = vr_pool_batch_is_full(pool, cache->queue, freed);
        vr_count(&cache->counts.overflows, 1);
        vr_pool_report_locked(cache);
    }
    vr_mutex_unlock(&pool->lock);
    if (done) {
        cache_leave(cache, marks, false);
    }
    return done;
}
