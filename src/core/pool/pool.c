/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c: the hit paths, and the slower paths behind them.
 *
 * A hit is what this library is optimised for: find the thread's cache by two numbers, take a block
 * from a bin, record its size and tag. It takes no lock, calls no driver and touches no cache line
 * that another thread normally writes. The one locked instruction of an allocation and a free is
 * the compare-and-swap that makes a second free of the same address fail (block.h (1)).
 */
#include "core/cache/drain.h"
#include "core/cache/stamp.h"
#include "core/guard/block_lookup.h"
#include "core/ladder/report.h"
#include "core/limit/limit.h"
#include "core/pool/hit.h"
#include "core/pool/pool_calls.h"
#include "core/tracking/pool_tracking.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "device/ops.h"

/* ------------------------------------------------------------------ hit paths */

/* Claims a block for the caller if it is live, belongs to that pool and starts at `addr`: keeps
   block.h (1), (4). */
static inline bool block_claim(struct vr_block *block, uint64_t pool, vram_addr addr) {
    uint32_t seen = vr_load(&block->state, VR_ACQUIRE);
    return (seen & VR_BLOCK_STATES) == VR_BLOCK_LIVE && vr_load(&block->addr, VR_RELAXED) == addr &&
           vr_load(&block->pool, VR_RELAXED) == pool &&
           vr_cas(&block->state, &seen, seen ^ (VR_BLOCK_CACHED ^ VR_BLOCK_LIVE), VR_ACQ_REL);
}

/* Claims the live block that starts at `addr`, found in the thread's recent blocks or in the pool's
   table; NULL if there is none. The thread is inside its caches. */
static inline struct vr_block *block_claim_at(struct vr_cache *cache, vram_addr addr) {
    struct vr_block *block = cache->recent[vr_recent_index(addr)];
    if (__builtin_expect(block && block_claim(block, cache->pool_handle, addr), 1)) {
        return block;
    }
    block = vr_block_table_find_to_claim(&cache->pool->table, addr);
    return block && block_claim(block, cache->pool_handle, addr) ? block : NULL;
}

static inline bool is_held(const struct vr_block *block) {
    return vr_load(&block->held, VR_RELAXED);
}

/* Whether work of another queue than the one it is freed on may still use the block, from before
   its last allocation; keeps block.h (5). */
static inline bool is_foreign(const struct vr_block *block, struct vr_queue_id queue) {
    return block->home.handle && !vr_queue_id_same(block->home, queue);
}

/* Whether a block freed on `queue` can serve that queue again at once. */
static inline bool is_plain(const struct vr_block *block, struct vr_queue_id queue) {
    return !is_held(block) && !is_foreign(block, queue);
}

static inline void count_free(struct vr_cache *cache, const struct vr_block *block,
                              uint64_t bytes) {
    vr_count(&cache->counts.frees, 1);
    vr_uncount(&cache->counts.requested, vr_load(&block->requested, VR_RELAXED));
    vr_uncount(&cache->counts.held, bytes);
}

/* Code that a hit does not run is in functions of its own, each a tail call of its caller. So a hit
   saves no registers and needs no stack protector. */
#define COLD __attribute__((noinline)) static

/* Inlined into both the public call and the library's own, so that neither calls the other. */
#define HIT __attribute__((always_inline)) static inline

/* A hit from a cache of any pool, tagged or not. In a tracked pool (pool_tracking.h) it is recorded
   first; if that is not possible here, the request path does it. The thread is inside its caches;
   after a hit it is outside. */
bool vr_hit_from(struct vr_cache *cache, uint64_t size, uint64_t bytes, struct vr_tag *tag,
                 vram_addr *addr) {
    bool watched = vr_cache_is_watched(cache);
    struct vr_block *block =
        !watched || vr_tracking_is_quick(cache->pool) ? vr_cache_take(cache, bytes) : NULL;
    uint64_t id = 0;
    if (!block) {
        return false;
    }
    if (watched && !vr_tracking_quick(cache, block, size, tag, &id)) {
        vr_cache_untake(cache, block, bytes);
        return false;
    }
    if (tag) {
        vr_tag_charge_unlimited(tag, bytes, size);
    }
    *addr = vr_hand_out(cache, block, size, bytes, tag);
    if (tag) {
        vr_tag_confirm(tag);
    }
    if (watched && vr_events_wanted() && !vr_tracking_trace_hit(cache, block, size, tag)) {
        vr_tracking_notify_hit(cache, block, size, tag, id); /* leaves the caches */
    } else {
        vr_thread_leave(cache->thread);
    }
    return true;
}

/* The queue differs from the last one, or the recent cache has no block of that size. Caches of
   watched pools are never the thread's recent one, so that hits of other pools do not pay for
   tracking. The thread is inside its caches. */
COLD vram_status alloc_cold(struct vr_thread_state *thread, vram_pool *pool, uint64_t size,
                            vram_queue *queue, vram_addr *addr) {
    const struct vr_cache *recent = thread->recent;
    struct vr_cache *cache = vr_cache_find(thread, (uintptr_t)pool, vr_queue_id_of(queue));
    uint64_t bytes = 0;
    (void)vr_block_bytes(size, &bytes); /* cannot fail: the caller has checked it */
    bool tried = cache == recent && !(cache && cache->pool->flags & VRAM_POOL_POWER_OF_TWO);
    cache = cache && vr_pool_bucket(cache->pool, &bytes) ? cache : NULL;
    if (cache && !tried && vr_hit_from(cache, size, bytes, NULL, addr)) {
        return VRAM_OK;
    }
    if (cache && !vr_cache_is_watched(cache) && vr_pool_alloc_shortcut(cache, size, bytes, addr)) {
        return VRAM_OK;
    }
    vr_thread_leave(thread);
    return vr_pool_alloc_slow(pool, size, queue, NULL, addr);
}

COLD vram_status alloc_unentered(struct vr_thread_state *thread, vram_pool *pool, uint64_t size,
                                 vram_queue *queue, vram_addr *addr) {
    uint64_t bytes;
    bool again = addr && vr_block_bytes(size, &bytes) && thread && vr_thread_let_in(thread);
    return again ? vr_alloc(pool, size, queue, addr)
                 : vr_pool_alloc_slow(pool, size, queue, NULL, addr);
}

HIT vram_status alloc_hit(vram_pool *pool, uint64_t size, vram_queue *queue, vram_addr *addr) {
    struct vr_thread_state *thread = vr_thread_current;
    uint64_t bytes;
    if (__builtin_expect(
            !thread || !addr || !vr_block_bytes(size, &bytes) || !vr_thread_enter(thread), 0)) {
        return alloc_unentered(thread, pool, size, queue, addr);
    }
    struct vr_cache *cache = vr_cache_recent(thread, (uintptr_t)pool, vr_queue_id_of(queue));
    struct vr_block *block = cache ? vr_cache_take(cache, bytes) : NULL;
    if (__builtin_expect(!block, 0)) {
        return alloc_cold(thread, pool, size, queue, addr);
    }
    *addr = vr_hand_out(cache, block, size, bytes, NULL);
    vr_thread_leave(thread);
    return VRAM_OK;
}

vram_status vr_alloc(vram_pool *pool, uint64_t size, vram_queue *queue, vram_addr *addr) {
    return alloc_hit(pool, size, queue, addr);
}

vram_status vram_alloc(vram_pool *pool, uint64_t size, vram_queue *queue, vram_addr *addr) {
    return alloc_hit(pool, size, queue, addr);
}

COLD vram_status free_slow(vram_pool *handle, vram_addr addr, vram_queue *queue);
COLD void free_overflow(struct vr_cache *cache, struct vr_block *block, uint64_t bytes, bool plain);

/* Ends the charge of a claimed block to its tag: keeps tag.h (2) and block.h (6). */
static void release_tag(struct vr_block *block) {
    struct vr_tag *tag = vr_load(&block->tag, VR_RELAXED);
    if (tag && block->home.handle & VR_HOME_TAGGED) {
        block->home.handle &= ~(uint64_t)VR_HOME_TAGGED;
        vr_tag_release(tag, vr_load(&block->bytes, VR_RELAXED),
                       vr_load(&block->requested, VR_RELAXED));
    }
}

/* Takes back a block that is claimed and counted, and that its bin does not accept as it is. The
   thread is inside its caches. */
COLD vram_status free_to_cache(struct vr_cache *cache, struct vr_block *block, uint64_t bytes) {
    release_tag(block);
    bool plain = is_plain(block, cache->queue);
    if (plain && vr_cache_put(cache, block, bytes)) {
        block->home = cache->queue;
        vr_thread_leave(cache->thread);
    } else if (!plain || !vr_pool_free_shortcut(cache, block, bytes)) {
        free_overflow(cache, block, bytes, plain); /* leaves the caches, as the shortcut does */
    }
    return VRAM_OK;
}

/* Frees a claimed and counted block of a watched pool that has listeners. A listener may take long,
   so it is called outside the caches, before any thread can get the block again; the cache may be
   gone afterwards. The thread is inside its caches. */
COLD vram_status free_notified(struct vr_cache *cache, struct vr_block *block, uint64_t bytes) {
    struct vr_thread_state *thread = cache->thread;
    struct vr_pool *pool = cache->pool;
    uint64_t handle = cache->pool_handle;
    struct vr_queue_id queue = cache->queue;
    struct vr_event event;
    if (!vr_tracking_free(pool, block, queue.handle, &event)) {
        return free_to_cache(cache, block, bytes);
    }
    bool lives = vr_handle_try_ref(handle);
    vr_thread_leave(thread);
    if (!lives) { /* the ending pool takes the block with it */
        return VRAM_OK;
    }
    vr_event_tell(&event);
    (void)vr_thread_enter_wait(thread);
    cache = vr_cache_find(thread, handle, queue);
    if (cache) {
        cache->emptied_at = UINT64_MAX;           /* the free was counted before */
        (void)free_to_cache(cache, block, bytes); /* leaves the caches */
    } else {
        vr_thread_leave(thread);
        release_tag(block);
        vr_pool_return(pool, queue, &block, 1);
    }
    vr_handle_unpin(handle);
    return VRAM_OK;
}

/* The same without listeners, as far as this thread can see, or with a trace that takes the event
   here. */
static vram_status free_watched(struct vr_cache *cache, struct vr_block *block, uint64_t bytes) {
    if (vr_events_wanted() && !vr_tracking_trace_free(cache, block)) {
        return free_notified(cache, block, bytes);
    }
    vr_tracking_remove(cache->pool, block, NULL);
    return free_to_cache(cache, block, bytes);
}

/* The cache if it belongs to that queue and pool; with a NULL pool, to any pool. */
HIT struct vr_cache *cache_for_free(struct vr_cache *cache, const vram_pool *pool,
                                    const vram_queue *queue) {
    return cache && (!pool || cache->pool_handle == (uintptr_t)pool) &&
                   vr_queue_id_same(cache->queue, vr_queue_id_of(queue))
               ? cache
               : NULL;
}

/* The queue or pool differs from the last one, the pool is watched, or the thread does not remember
   the block. The thread is inside its caches. */
COLD vram_status free_cold(struct vr_thread_state *thread, vram_pool *pool, vram_addr addr,
                           vram_queue *queue) {
    struct vr_cache *cache = cache_for_free(thread->recent, pool, queue);
    struct vr_block *block = cache ? block_claim_at(cache, addr) : NULL;
    if (!block) {
        cache = cache_for_free(thread->watched, pool, queue);
        block = cache ? block_claim_at(cache, addr) : NULL;
    }
    if (!block) { /* usually one of these two has it: saves 5 to 20 ns over a look-up first */
        uint64_t handle = pool ? (uintptr_t)pool : vr_address_pool(addr);
        cache = vr_cache_find(thread, handle, vr_queue_id_of(queue));
        block = cache ? block_claim_at(cache, addr) : NULL;
    }
    if (!block) {
        vr_thread_leave(thread);
        return free_slow(pool, addr, queue);
    }
    uint64_t bytes = vr_load(&block->bytes, VR_RELAXED);
    count_free(cache, block, bytes);
    return vr_cache_is_watched(cache) ? free_watched(cache, block, bytes)
                                      : free_to_cache(cache, block, bytes);
}

COLD vram_status free_unentered(struct vr_thread_state *thread, vram_pool *pool, vram_addr addr,
                                vram_queue *queue) {
    return addr && thread && vr_thread_let_in(thread) ? vr_free(pool, addr, queue)
                                                      : free_slow(pool, addr, queue);
}

/* `pool`: the block must belong to it; NULL: to whichever pool has memory there. */
HIT vram_status free_block(vram_pool *pool, vram_addr addr, vram_queue *queue) {
    struct vr_thread_state *thread = vr_thread_current;
    if (__builtin_expect(!thread || !addr || !vr_thread_enter(thread), 0)) {
        return free_unentered(thread, pool, addr, queue);
    }
    struct vr_cache *cache = cache_for_free(thread->recent, pool, queue);
    struct vr_block *block = cache ? cache->recent[vr_recent_index(addr)] : NULL;
    if (__builtin_expect(!block || !block_claim(block, cache->pool_handle, addr), 0)) {
        return free_cold(thread, pool, addr, queue);
    }
    uint64_t bytes = vr_load(&block->bytes, VR_RELAXED);
    count_free(cache, block, bytes);
    if (__builtin_expect(!is_plain(block, vr_queue_id_of(queue)) ||
                             !vr_cache_put_quick(cache, block, bytes),
                         0)) {
        return free_to_cache(cache, block, bytes);
    }
    block->home = vr_queue_id_of(queue);
    vr_thread_leave(thread);
    return VRAM_OK;
}

vram_status vr_free(vram_pool *pool, vram_addr addr, vram_queue *queue) {
    return free_block(pool, addr, queue);
}

vram_status vram_free(vram_addr addr, vram_queue *queue) {
    return free_block(NULL, addr, queue);
}

/* ---------------------------------------------------------------- slow paths */

/* Returns the block that did not fit, or half of a full bin, which then keeps the block. `plain`:
   the block can serve the cache's queue again at once. The thread is inside its caches. */
static void free_overflow(struct vr_cache *cache, struct vr_block *block, uint64_t bytes,
                          bool plain) {
    struct vr_block *blocks[VR_SMALL_DEPTH];
    struct vr_pool *pool = cache->pool;
    struct vr_queue_id queue = cache->queue;
    uint32_t count = 1;
    blocks[0] = block;
    cache->depth = vr_load(&pool->caps.small_blocks, VR_RELAXED); /* limits may have changed */
    vr_count(&cache->counts.overflows, 1);
    if (bytes <= VR_SMALL_BYTES && plain &&
        cache->depth / 2 < cache->small[bytes / VR_UNIT].count) {
        block->home = queue;
        count = vr_cache_spill(cache, block, bytes, blocks);
    }
    /* The reference keeps the pool alive while the thread is outside. A pool that is already ending
       takes these blocks with it. */
    vr_pool_report_cache(cache);
    uint64_t handle = cache->pool_handle;
    bool lives = vr_handle_try_ref(handle);
    vr_thread_leave(cache->thread);
    if (lives) {
        vr_pool_return(pool, queue, blocks, count);
        vr_limit_trim_cached(pool);
        vr_handle_unpin(handle);
    }
}

/* Hands out a supplied block and puts the further ones into the thread's cache. */
static vram_addr deliver_block(struct vr_pool *pool, struct vr_queue_object *queue,
                               const struct vr_request *request, struct vr_block *block,
                               struct vr_block **more, uint32_t extra) {
    vram_addr addr = vr_load(&block->addr, VR_RELAXED) + vr_guard_front(block);
    uint64_t id = vr_tracking_alloc(pool, request, block);
    if (vr_pool_is_watched(pool) && vr_events_wanted()) {
        vr_tracking_notify(pool, request, block, id);
    }
    struct vr_cache *cache = vr_pool_cache_enter(pool, queue);
    if (!cache) {
        vr_pool_hand_out(pool, request, block);
        vr_pool_return(pool, request->queue, more, extra);
        return addr;
    }
    vr_hand_out(cache, block, request->size, vr_load(&block->bytes, VR_RELAXED), request->tag);
    vr_count(&cache->counts.allocs, 1);
    vr_count(&cache->counts.uncached, 1);
    vr_count(&cache->counts.misses, *request->missed);
    vr_pool_report_cache(cache);
    while (extra > 0 && vr_cache_put(cache, more[extra - 1], request->bytes)) {
        extra--; /* the first of `more` is handed out first */
    }
    vr_thread_leave(cache->thread);
    vr_pool_return(pool, request->queue, more, extra);
    return addr;
}

/* A hit that vr_hit_from leaves to the request path: of a request with options, or in a pool whose
   records need more than a cache has. Its tag is charged and its record prepared already. False:
   the thread's cache has no such block. */
static bool hit_request(struct vr_pool *pool, const struct vr_request *request, vram_addr *addr) {
    struct vr_thread_state *thread = vr_thread_current;
    uint64_t id = 0;
    if (request->align || !thread || !vr_thread_enter_wait(thread)) {
        return false;
    }
    struct vr_cache *cache = vr_cache_find(thread, pool->object.handle, request->queue);
    struct vr_block *block = cache ? vr_cache_take(cache, request->bytes) : NULL;
    if (block) {
        block->home = pool->guard.by_stream ? request->queue : block->home; /* as below */
        id = vr_tracking_alloc(pool, request, block);
        *addr = vr_hand_out(cache, block, request->size, request->bytes, request->tag);
    }
    vr_thread_leave(thread);
    if (block && pool->guard.by_stream) {
        vr_guard_fill_by_stream(pool, request, block);
    }
    if (block && vr_pool_is_watched(pool) && vr_events_wanted()) {
        vr_tracking_notify(pool, request, block, id);
    }
    return block != NULL;
}

/* Serves the request from the thread's cache or from another source (miss.c). */
static vram_status alloc_entered(struct vr_pool *pool, struct vr_request *request,
                                 vram_addr *addr) {
    struct vr_block *block, *more[VR_SMALL_DEPTH / 2];
    bool small = request->bytes <= VR_SMALL_BYTES && !request->align &&
                 !vr_load(&pool->uncached, VR_RELAXED) && !vr_request_is_other(request);
    uint32_t extra = small ? vr_load(&pool->caps.small_blocks, VR_RELAXED) / 2 : 0;
    bool missed = false;
    if (request->try_cache && hit_request(pool, request, addr)) {
        return VRAM_OK;
    }
    request->missed = &missed;
    vram_status status = vr_pool_supply(pool, request, &block, more, &extra);
    if (status == VRAM_OK && vr_load(&pool->guard.modes, VR_RELAXED)) {
        status = vr_guard_prepare(pool, request, block);
    }
    if (status == VRAM_OK && pool->guard.by_stream) {
        block->home = request->queue; /* keeps block.h (5) */
        vr_guard_fill_by_stream(pool, request, block);
    }
    if (status == VRAM_OK) {
        *addr = deliver_block(pool, request->queue_object, request, block, more, extra);
        vr_limit_trim_cached(pool);
    }
    request->missed = NULL;
    vr_pressure_on_miss(pool);
    return status;
}

/* The same within the quotas of the tag: keeps tag.h (2). */
static vram_status alloc_tagged(struct vr_pool *pool, struct vr_request *request, vram_addr *addr) {
    uint32_t crossed;
    vram_status status = vr_quota_charge(pool, request, &crossed);
    if (status != VRAM_OK) {
        return status;
    }
    status = alloc_entered(pool, request, addr);
    if (status != VRAM_OK) {
        vr_tag_cancel(request->tag, request->bytes, request->size);
        return status;
    }
    vr_tag_confirm(request->tag);
    if (crossed) {
        vr_tag_notify(pool->device, pool, request->tag, crossed);
    }
    return status;
}

vram_status vr_pool_alloc_request(struct vr_pool *pool, struct vr_request *request,
                                  vram_addr *addr) {
    if (vr_pool_is_tracked(pool)) {
        vr_tracking_prepare(pool, request);
    }
    vram_status status =
        request->tag ? alloc_tagged(pool, request, addr) : alloc_entered(pool, request, addr);
    if (status != VRAM_OK && vr_pool_is_watched(pool)) {
        vr_tracking_refuse(pool, request, status);
    }
    return status;
}

vram_status vr_pool_alloc_slow(vram_pool *handle, uint64_t size, vram_queue *queue_handle,
                               const vram_alloc_options *options, vram_addr *addr) {
    VR_OPERATION("vram_alloc");
    struct vr_request request = {
        .size = size, .queue = vr_queue_id_of(queue_handle), .try_cache = options != NULL};
    struct vr_pool *pool;
    struct vr_queue_object *queue;
    if (!addr) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the address is NULL");
    }
    if (!vr_block_bytes(size, &request.bytes)) {
        return vr_fail_size(size);
    }
    vram_status status = vr_pool_enter(handle, queue_handle, &pool, &queue);
    if (status != VRAM_OK) {
        return status;
    }
    request.queue_object = queue;
    request.try_cache |=
        vr_pool_is_watched(pool); /* vr_hit_from may have left a hit to this path */
    status = options ? vr_request_read(pool, options, &request) : VRAM_OK;
    if (status == VRAM_OK && !vr_guard_widen(pool, &request)) {
        status = vr_fail(VRAM_ERR_OVERFLOW,
                         "a size of %llu bytes overflows when red zones are added; request less",
                         (unsigned long long)size);
    }
    if (status == VRAM_OK && !vr_pool_bucket(pool, &request.bytes)) {
        status = vr_fail_size(size);
    }
    if (status == VRAM_OK) {
        status = vr_pool_alloc_request(pool, &request, addr);
    }
    vr_pool_leave(pool, queue);
    return status;
}

/* Counts the free of a claimed block and returns the block to the pool; `quarantine`: it may stay
   there first. Returns whether a block that had to leave quarantine was damaged; then the error
   record describes it. */
static bool return_block(struct vr_pool *pool, struct vr_queue_object *queue,
                         struct vr_block *block, bool quarantine) {
    struct vr_event event;
    assert(vr_block_is_cached(block) && vr_load(&block->pool, VR_RELAXED) == pool->object.handle);
    if (vr_pool_is_watched(pool) &&
        vr_tracking_free(pool, block, queue ? queue->object.handle : 0, &event)) {
        vr_event_tell(&event);
    }
    struct vr_cache *cache = vr_pool_cache_enter(pool, queue);
    uint64_t bytes = vr_load(&block->bytes, VR_RELAXED);
    uint64_t requested = vr_load(&block->requested, VR_RELAXED);
    release_tag(block);
    if (cache) {
        count_free(cache, block, bytes);
        vr_count(&cache->counts.overflows, 1);
        vr_pool_report_cache(cache);
        vr_thread_leave(cache->thread);
    } else {
        vr_fetch_add(&pool->past.frees, 1, VR_RELAXED);
        vr_fetch_add(&pool->past.overflows, 1, VR_RELAXED);
        vr_fetch_sub(&pool->past.requested, requested, VR_RELAXED);
        vr_fetch_sub(&pool->past.held, bytes, VR_RELAXED);
        vr_pool_report_bytes(pool, 0, -(int64_t)requested);
    }
    struct vr_queue_id id = {queue ? queue->object.handle : 0};
    if (quarantine) {
        bool kept, damaged = vr_guard_quarantine(pool, block, &kept);
        if (kept) {
            return damaged;
        }
    }
    if ((pool->flags & VRAM_POOL_DETERMINISTIC) && (block->uses || is_foreign(block, id))) {
        vr_pool_return_ordered(pool, queue, block);
    } else {
        vr_pool_return_new(pool, queue, block);
    }
    vr_pool_flush(pool);
    vr_limit_trim_cached(pool);
    return false;
}

/* The same in a pool with safety modes, whose checks come first. */
static bool return_guarded(struct vr_pool *pool, struct vr_queue_object *queue,
                           struct vr_block *block) {
    struct vr_queue_object *own;
    bool poisoned, damaged = vr_guard_check(pool, &queue, &own, block, &poisoned);
    struct vram_error error;
    vr_error_save(&error);
    bool other = return_block(pool, queue, block, poisoned);
    if (own) {
        vr_leave(own);
    }
    if (damaged) {
        vr_error_restore(&error);
    }
    return damaged || other;
}

static vram_status free_entered(struct vr_pool *pool, struct vr_queue_object *queue,
                                vram_addr addr) {
    vr_mutex_lock(&pool->lock);
    struct vr_block *block = vr_guard_find(pool, addr);
    bool ours = block && block_claim(block, pool->object.handle, addr - vr_guard_front(block));
    vr_mutex_unlock(&pool->lock);
    if (!ours) {
        return vr_pool_no_block(pool, addr);
    }
    bool damaged = vr_load(&pool->guard.modes, VR_RELAXED)
                       ? return_guarded(pool, queue, block)
                       : return_block(pool, queue, block, false);
    return damaged ? VRAM_ERR_CORRUPT : VRAM_OK;
}

/* A free without a cache: the first one on this thread and queue, or a mistake of the program. */
static vram_status free_slow(vram_pool *handle, vram_addr addr, vram_queue *queue_handle) {
    VR_OPERATION("vram_free");
    struct vr_pool *pool;
    struct vr_queue_object *queue;
    if (vr_exiting() || !addr) {
        return VRAM_OK;
    }
    vram_status status = handle ? vr_pool_enter(handle, queue_handle, &pool, &queue)
                                : vr_pool_enter_block(addr, queue_handle, &pool, &queue);
    if (status == VRAM_OK) {
        status = free_entered(pool, queue, addr);
        vr_pool_leave(pool, queue);
    }
    return status;
}

/* Safety modes write to the block. So this first waits for the work of a queue that accepts no more
   work. */
vram_status vr_pool_free_after_queue(vram_pool *handle, vram_addr addr, vram_queue *queue_handle) {
    VR_OPERATION("vram_free");
    void *entered;
    if (vr_exiting()) {
        return VRAM_OK;
    }
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, queue_handle); /* NULL: ended */
    bool guarded = queue && vr_load(&pool->guard.modes, VR_RELAXED);
    uint64_t deadline = vr_deadline_in(pool->device->context->wait_ns);
    if (guarded && vr_pool_settle_queue(queue, deadline) != VRAM_OK) {
        (void)vr_pin(addr); /* pinned blocks are neither checked nor overwritten: guard.h (5) */
    }
    status = free_entered(pool, guarded ? NULL : queue, addr);
    vr_pool_leave(pool, queue);
    return status;
}
