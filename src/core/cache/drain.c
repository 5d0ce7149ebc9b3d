/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c: returns blocks from thread caches and the central cache to the space, where they merge
 * with their neighbours and can serve any request.
 *
 *  (1) Blocks in a thread cache or in a bin of the central cache were freed on its queue. The stamp
 *      they get here is the queue's next point, which comes after all of these frees.
 *  (2) Caches of other threads are emptied with the threads kept out (thread.h); the pool's lock is
 *      taken inside: ranks THREAD < POOL.
 */
#include "core/cache/drain.h"
#include "core/cache/other_memory.h"
#include "core/cache/stamp.h"
#include "core/limit/limit.h"

#include "base/error.h"
#include "base/memory.h"

#include <assert.h>

enum {
    BATCH = 256,           /* blocks that are removed from a cache at a time */
    BATCH_BYTES = 16 << 20 /* freed on a queue: worth a mark, which costs a microsecond */
};

/* Removes a use of a block. Under the lock. */
static void drop_use(struct vr_block *block) {
    struct vr_uses *use = block->uses;
    block->uses = use->next;
    vr_mem_free(use);
    vr_block_note_held(block);
}

/* Uses that are left here were added during the free, which is too late, or while it was asleep,
   when no work used it; they are dropped. */
void vr_pool_leave_books(struct vr_pool *pool, struct vr_block *block,
                         struct vr_queue_stamp stamp) {
    assert(vr_block_is_cached(block)); /* the caller owns it: block.h (1) */
    assert(!vr_block_stays(block) && !block->stateless);
    while (block->uses) {
        drop_use(block);
    }
    block->freed = stamp;
    block->stamp = vr_pool_stamp_to_space(pool, stamp);
    vr_pool_in(pool, block);
    vr_block_table_remove(&pool->table, block);
    vr_store(&block->state, VR_BLOCK_FREE, VR_RELAXED);
}

void vr_pool_to_space(struct vr_pool *pool, struct vr_block *block, struct vr_queue_stamp stamp) {
    vr_pool_leave_books(pool, block, stamp);
    if (vr_block_is_other(block)) {
        vr_fallback_freed(pool, block);
        return;
    }
    vr_space_free(pool->spaces[block->part], block);
}

void vr_pool_put_back(struct vr_pool *pool, struct vr_block *block, struct vr_queue_stamp stamp) {
    if (!block->asleep && !block->sealed) {
        vr_pool_to_space(pool, block, stamp);
        return;
    }
    block->freed = stamp; /* keeps sleep.h (2) and (5) */
    assert(vr_pool_is_locked(pool) && vr_block_is_cached(block));
    block->next = pool->deferred;
    pool->deferred = block;
}

void vr_pool_list_to_space(struct vr_pool *pool, struct vr_block *list, struct vr_queue_id queue) {
    struct vr_queue_stamp stamp = vr_queue_state_stamp(&pool->queue_states, queue); /* keeps (1) */
    while (list) {
        struct vr_block *next = list->next;
        vr_pool_to_space(pool, list, stamp);
        list = next;
    }
}

/* ----------------------------------------------------------------- deferred */

static bool is_used(struct vr_pool *pool, struct vr_block *block) {
    if (block->stateless || vr_block_stays(block)) {
        return true;
    }
    while (block->uses && vr_queue_state_passed(&pool->queue_states, block->uses->stamp)) {
        drop_use(block);
    }
    return block->uses || block->pins || !vr_queue_state_passed(&pool->queue_states, block->before);
}

void vr_pool_settle(struct vr_pool *pool) {
    assert(vr_pool_is_locked(pool));
    for (struct vr_block **at = &pool->deferred; *at;) {
        struct vr_block *block = *at;
        assert(vr_block_is_cached(block)); /* freed, and owned by the list: block.h (1) */
        if (is_used(pool, block)) {
            at = &block->next;
        } else {
            *at = block->next;
            vr_pool_to_space(pool, block, block->freed);
        }
    }
}

bool vr_pool_deferred(struct vr_pool *pool, struct vr_queue_stamp *stamp) {
    for (struct vr_block *block = pool->deferred; block; block = block->next) {
        if (!block->pins && !vr_block_stays(block) && is_used(pool, block)) {
            *stamp = block->uses        ? block->uses->stamp
                     : block->stateless ? block->freed
                                        : block->before;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- returning */

/* Sets what the block must wait for besides the queue it is freed on: keeps block.h (5). Under the
   lock. */
static void note_before(struct vr_pool *pool, struct vr_queue_id queue, struct vr_block *block) {
    assert(!(block->home.handle & VR_HOME_TAGGED)); /* the free cleared it: block.h (6) */
    for (struct vr_uses *use = block->uses; use; use = use->next) {
        if (!use->stamp.value) { /* it could not be marked: waits for the next mark */
            use->stamp = vr_queue_state_stamp(&pool->queue_states, use->stamp.queue);
        }
    }
    bool foreign = block->home.handle && !vr_queue_id_same(block->home, queue);
    block->before = foreign ? vr_queue_state_stamp(&pool->queue_states, block->home)
                            : (struct vr_queue_stamp){{0}, 0};
    block->home = queue;
}

void vr_pool_put_cached(struct vr_pool *pool, struct vr_queue_id queue, uint64_t bytes,
                        struct vr_block *const *blocks, uint32_t count) {
    struct vr_queue_id from;
    struct vr_block *out = NULL;
    uint32_t kept = 0;
    assert(vr_pool_is_locked(pool));
    if (bytes <= VR_SMALL_BYTES && !vr_load(&pool->uncached, VR_RELAXED) &&
        !vr_load(&pool->caps.all_blocks, VR_RELAXED)) { /* thread caches have all of those */
        kept = vr_central_put(&pool->central, queue, bytes, blocks, count, &out, &from);
        vr_pool_list_to_space(pool, out, from);
    }
    if (kept < count) {
        struct vr_queue_stamp stamp = vr_queue_state_stamp(&pool->queue_states, queue);
        for (uint32_t i = kept; i < count; i++) {
            vr_pool_to_space(pool, blocks[i], stamp);
        }
    }
}

static void return_one(struct vr_pool *pool, struct vr_queue_id queue, struct vr_block *block) {
    assert(vr_pool_is_locked(pool) && vr_block_is_cached(block));
    assert(vr_load(&block->pool, VR_RELAXED) == pool->object.handle);
    note_before(pool, queue, block);
    if (block->uses || block->pins || vr_block_stays(block) || block->before.queue.handle) {
        block->freed = vr_queue_state_stamp(&pool->queue_states, queue);
        block->next = pool->deferred;
        pool->deferred = block;
    } else if (vr_block_is_other(block)) {
        vr_pool_to_space(pool, block, vr_queue_state_stamp(&pool->queue_states, queue));
    } else {
        vr_pool_put_cached(pool, queue, vr_load(&block->bytes, VR_RELAXED), &block, 1);
    }
}

/* A pool that is served from the memory it holds does not need to know the progress of queues, so
   it makes no mark. */
bool vr_pool_batch_is_full(struct vr_pool *pool, struct vr_queue_id queue, uint64_t bytes) {
    assert(vr_pool_is_locked(pool));
    struct vr_queue_state *queue_state =
        queue.handle ? vr_queue_state_find(&pool->queue_states, queue) : NULL;
    if (!queue_state) {
        return false;
    }
    queue_state->unmarked_bytes += bytes;
    if (queue_state->unmarked_bytes < BATCH_BYTES || queue_state->plans_marked == pool->plans) {
        return false;
    }
    queue_state->unmarked_bytes = 0;
    queue_state->plans_marked = pool->plans;
    return true;
}

/* Called by the freeing thread, which may mark adopted queues too. */
void vr_pool_mark_batch(struct vr_pool *pool, struct vr_queue_id queue) {
    struct vram_error error;
    vr_error_save(&error);
    vr_pool_mark(pool, (struct vr_queue_stamp){queue, 0}, true);
    vr_error_restore(&error);
}

struct vr_uses *vr_pool_uses(struct vr_pool *pool, const struct vr_block *block) {
    assert(vr_block_is_cached(block)); /* claimed: block.h (1) */
    vr_mutex_lock(&pool->lock);
    struct vr_uses *uses = block->uses;
    vr_mutex_unlock(&pool->lock);
    return uses;
}

/* Marks the other queues that use a block, at its free. Those that cannot be marked now, because
   they are being captured, are ending or the driver fails, keep the value 0: note_before stamps
   them with their next point. */
static void mark_uses(struct vr_pool *pool, const struct vr_block *block) {
    struct vram_error error;
    if (!vr_load(&block->held, VR_RELAXED)) {
        return;
    }
    vr_error_save(&error);
    for (struct vr_uses *use = vr_pool_uses(pool, block); use; use = use->next) {
        if (!use->stamp.value) {
            use->stamp.value = vr_pool_mark(pool, use->stamp, true);
        }
    }
    vr_error_restore(&error);
}

static void return_blocks(struct vr_pool *pool, struct vr_queue_id queue, struct vr_block **blocks,
                          uint32_t count) {
    uint64_t bytes = 0;
    vr_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < count; i++) {
        bytes += vr_load(&blocks[i]->bytes, VR_RELAXED);
        return_one(pool, queue, blocks[i]);
    }
    bool full = vr_pool_batch_is_full(pool, queue, bytes);
    vr_mutex_unlock(&pool->lock);
    if (full) {
        vr_pool_mark_batch(pool, queue);
    }
}

void vr_pool_return(struct vr_pool *pool, struct vr_queue_id queue, struct vr_block **blocks,
                    uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        mark_uses(pool, blocks[i]);
    }
    return_blocks(pool, queue, blocks, count);
}

/* ---------------------------------------- blocks on queues without a queue state */

/* Defers the block: there is no memory for a queue state, so the block itself records the queue's
   next point. */
static void defer_stateless(struct vr_pool *pool, const struct vr_queue_object *queue,
                            struct vr_block *block) {
    struct vr_queue_id id = {queue->object.handle};
    note_before(pool, id, block);
    assert(vr_pool_is_locked(pool) && !vr_queue_state_find(&pool->queue_states, id));
    block->freed = (struct vr_queue_stamp){id, vr_load(&queue->issued, VR_RELAXED) + 1};
    block->stateless = true;
    block->next = pool->deferred;
    pool->deferred = block;
    pool->stateless_blocks++;
}

void vr_pool_return_new(struct vr_pool *pool, struct vr_queue_object *queue,
                        struct vr_block *block) {
    if (!queue) {
        vr_pool_return(pool, VR_NO_QUEUE, &block, 1);
        return;
    }
    struct vram_error error;
    mark_uses(pool, block);
    vr_error_save(&error);
    vr_mutex_lock(&pool->lock);
    bool none = vr_pool_ensure_queue(pool, queue) == VRAM_ERR_HOST_MEMORY;
    if (none) {
        defer_stateless(pool, queue, block);
    }
    vr_mutex_unlock(&pool->lock);
    vr_error_restore(&error); /* the free succeeds */
    if (!none) {
        return_blocks(pool, (struct vr_queue_id){queue->object.handle}, &block, 1);
    }
}

/* The lowest queue above `last` that a stateless block waits for; 0: none. Under the lock. */
static struct vr_queue_id stateless_queue(const struct vr_pool *pool, struct vr_queue_id last) {
    struct vr_queue_id best = {0};
    for (const struct vr_block *block = pool->deferred; block; block = block->next) {
        struct vr_queue_id queue = block->freed.queue;
        bool behind = block->stateless && queue.handle > last.handle;
        best = behind && (!best.handle || queue.handle < best.handle) ? queue : best;
    }
    return best;
}

struct vr_queue_id vr_pool_stateless_behind(struct vr_pool *pool, struct vr_queue_id last) {
    vr_mutex_lock(&pool->lock);
    struct vr_queue_id queue = stateless_queue(pool, last);
    vr_mutex_unlock(&pool->lock);
    return queue;
}

/* Ends the stateless waiting of blocks whose queue has a queue state now, has completed that work,
   or has ended (NULL). Under the lock. */
static void settle_stateless(struct vr_pool *pool, struct vr_queue_id id,
                             struct vr_queue_object *queue) {
    struct vr_queue_state *queue_state = vr_queue_state_find(&pool->queue_states, id);
    for (struct vr_block *block = pool->deferred; block; block = block->next) {
        bool passed = !queue || vr_queue_passed(queue, block->freed.value);
        if (block->stateless && vr_queue_id_same(block->freed.queue, id) &&
            (queue_state || passed)) {
            assert(pool->stateless_blocks > 0);
            block->stateless = false;
            pool->stateless_blocks--;
            if (!passed && block->freed.value > queue_state->stamped) {
                queue_state->stamped = block->freed.value; /* so that it is marked */
            }
        }
    }
}

void vr_pool_make_queue_states(struct vr_pool *pool) {
    struct vram_error error;
    vr_error_save(&error);
    vr_mutex_lock(&pool->lock);
    for (struct vr_queue_id id = {0};
         pool->stateless_blocks && (id = stateless_queue(pool, id)).handle;) {
        vr_mutex_unlock(&pool->lock);
        /* Pinned without the lock: dropping a queue's last reference calls the driver. */
        struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, vr_queue_id_handle(id));
        vr_mutex_lock(&pool->lock);
        bool ended = !queue || vr_pool_ensure_queue(pool, queue) == VRAM_ERR_STALE;
        settle_stateless(pool, id, ended ? NULL : queue);
        if (queue) {
            vr_mutex_unlock(&pool->lock);
            vr_leave(queue);
            vr_mutex_lock(&pool->lock);
        }
    }
    vr_mutex_unlock(&pool->lock);
    vr_error_restore(&error);
}

void vr_pool_forget_queue(struct vr_pool *pool, struct vr_queue_id queue) {
    vr_mutex_lock(&pool->lock);
    struct vr_queue_state *queue_state = vr_queue_state_take(&pool->queue_states, queue);
    settle_stateless(pool, queue, NULL);
    if (queue_state) {
        vr_pool_forget_queue_state(pool, queue_state);
    }
    vr_mutex_unlock(&pool->lock);
    vr_queue_state_free(queue_state);
}

/* ----------------------------------------------------------------- draining */

/* Empties a cache into the space; returns the bytes. Its thread is kept out. The bins of a cache
   are 28 KiB: those of one that nothing has entered since the last time are not looked at. */
static uint64_t drain_cache(struct vr_cache *cache) {
    struct vr_pool *pool = cache->pool;
    vr_pool_report_cache(cache);
    cache->depth = vr_load(&pool->caps.small_blocks, VR_RELAXED);
    struct vr_block *blocks[BATCH];
    uint32_t count;
    uint64_t puts = vr_cache_puts(cache);
    if (puts == cache->emptied_at) {
        assert(vr_cache_bytes(cache) == 0);
        return 0;
    }
    cache->emptied_at = puts;
    vr_mutex_lock(&pool->lock);
    uint64_t before = pool->out_bytes;
    struct vr_queue_stamp stamp = vr_queue_state_stamp(&pool->queue_states, cache->queue);
    while ((count = vr_cache_empty(cache, blocks, BATCH))) {
        for (uint32_t i = 0; i < count; i++) {
            vr_pool_to_space(pool, blocks[i], stamp);
        }
    }
    uint64_t drained = before - pool->out_bytes;
    vr_mutex_unlock(&pool->lock);
    return drained;
}

/* The pool is short of memory: keeps cache.c (3). */
static void skip_large_blocks(struct vr_cache *cache) {
    uint32_t skip_next = cache->skip_next ? cache->skip_next : VR_SKIP_LEAST;
    if (cache->large_bytes && skip_next < VR_SKIP_MOST) {
        skip_next *= 2;
    }
    cache->skip_next = cache->skip_large = skip_next;
}

struct draining {
    const struct vr_pool *pool;
    uint64_t bytes; /* returned to the space */
};

static void drain_thread(struct vr_thread_state *thread, void *user) {
    struct draining *draining = user;
    for (uint32_t i = 0; thread->caches && i <= thread->cache_mask; i++) {
        struct vr_cache *cache = thread->caches[i];
        if (cache && cache->pool == draining->pool) {
            skip_large_blocks(cache);
            draining->bytes += drain_cache(cache);
        }
    }
}

void vr_pool_empty_central(struct vr_pool *pool, struct vr_queue_id only) {
    struct vr_queue_id queue;
    struct vr_block *list;
    while ((list = vr_central_empty(&pool->central, only, &queue))) {
        vr_pool_list_to_space(pool, list, queue);
    }
    assert(only.handle || pool->central.held_bytes == 0);
    vr_pool_settle(pool);
}

static uint64_t drain_central(struct vr_pool *pool, struct vr_queue_id only) {
    vr_mutex_lock(&pool->lock);
    uint64_t before = pool->out_bytes;
    vr_pool_empty_central(pool, only);
    uint64_t drained = before - pool->out_bytes;
    vr_mutex_unlock(&pool->lock);
    return drained;
}

uint64_t vr_pool_drain(struct vr_pool *pool) {
    struct draining draining = {.pool = pool};
    assert(vr_locks_held() == 0); /* threads come before pools: (2) */
    vr_pool_make_queue_states(pool);
    vr_thread_visit_all(drain_thread, &draining);
    draining.bytes += drain_central(pool, VR_NO_QUEUE);
    vr_fallback_reap(pool);
    return draining.bytes;
}

/* ----------------------------------------------------------------- dropping */

/* Adds the counts of a cache that is being dropped to the pool's. */
static void keep_counts(struct vr_pool *pool, const struct vr_cache *cache) {
    const struct vr_cache_counts *counts = &cache->counts;
    uint64_t allocs = vr_load(&counts->allocs, VR_RELAXED) + vr_cache_hits(cache);
    vr_fetch_add(&pool->past.allocs, allocs, VR_RELAXED);
    vr_fetch_add(&pool->past.uncached, vr_load(&counts->uncached, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.misses, vr_load(&counts->misses, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.frees, vr_load(&counts->frees, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.overflows, vr_load(&counts->overflows, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.requested, vr_load(&counts->requested, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.held, vr_load(&counts->held, VR_RELAXED), VR_RELAXED);
}

static void cache_drop(struct vr_cache *cache) {
    (void)drain_cache(cache);
    keep_counts(cache->pool, cache);
    (void)vr_limit_caches_add(cache->pool, false);
    vr_cache_drop(cache);
}

/* Which caches are dropped. */
struct dropping {
    struct vr_pool *pool;
    struct vr_queue_id queue; /* 0: of all queues */
};

/* Dropping a cache moves entries behind it, so the search starts over after each. */
static void drop_of_thread(struct vr_thread_state *thread, void *user) {
    const struct dropping *dropping = user;
    for (bool found = true; found;) {
        found = false;
        for (uint32_t i = 0; thread->caches && i <= thread->cache_mask && !found; i++) {
            struct vr_cache *cache = thread->caches[i];
            found = cache && cache->pool == dropping->pool &&
                    (!dropping->queue.handle || vr_queue_id_same(cache->queue, dropping->queue));
            if (found) {
                cache_drop(cache);
            }
        }
    }
}

void vr_pool_drop_caches(struct vr_pool *pool, struct vr_queue_id queue) {
    struct dropping dropping = {pool, queue};
    vr_thread_visit_all(drop_of_thread, &dropping);
    (void)drain_central(pool, queue);
}

/* The thread is ending and does not use its caches any more. Pools and queues may end at the same
   time, so this runs under the list's lock, as any visit does. */
void vr_pool_thread_ended(struct vr_thread_state *thread) {
    while (thread->caches) {
        for (uint32_t i = 0; i <= thread->cache_mask; i++) {
            if (thread->caches[i]) {
                cache_drop(thread->caches[i]);
                break;
            }
        }
    }
}
