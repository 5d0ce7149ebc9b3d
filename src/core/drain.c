/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c: the way back. Blocks leave caches and the depot for the space, where they merge with their
 * neighbours and can be given to anybody.
 *
 *  (1) Blocks in a cache or in the depot were freed on that cache's queue. The stamp they get here names
 *      the queue's next point, which lies behind all of their frees.
 *  (2) Other threads' caches are emptied with the threads kept out (thread.h), the pool's lock inside:
 *      ranks THREAD < POOL.
 */
#include "core/pool_object.h"

#include "base/error.h"
#include "base/memory.h"

enum {
    BATCH = 256,           /* blocks that leave a cache at a time */
    BATCH_BYTES = 16 << 20 /* so much freed on a queue is worth a mark, which costs a microsecond */
};

/* Gives one block to the space. Under the lock. */
static void to_space(struct vr_pool *pool, struct vr_block *block, struct vr_stamp stamp) {
    block->stamp = stamp;
    vr_block_table_remove(&pool->table, block);
    vr_store(&block->state, VR_BLOCK_FREE, VR_RELEASE);
    vr_space_free(vr_pool_space(pool, vr_load(&block->bytes, VR_RELAXED)), block);
}

/* Gives a list of blocks of one queue to the space. Under the lock. */
static void list_to_space(struct vr_pool *pool, struct vr_block *list, uint64_t queue) {
    struct vr_stamp stamp = vr_lane_stamp(&pool->lanes, queue); /* keeps (1) */
    while (list) {
        struct vr_block *next = list->next;
        to_space(pool, list, stamp);
        list = next;
    }
}

/* ----------------------------------------------------------------- deferred */

static bool is_used(struct vr_pool *pool, struct vr_block *block) {
    while (block->uses && vr_lane_passed(&pool->lanes, block->uses->stamp)) {
        struct vr_uses *use = block->uses;
        block->uses = use->next;
        vr_mem_free(use);
    }
    return block->uses || block->pins;
}

void vr_pool_settle(struct vr_pool *pool) {
    for (struct vr_block **at = &pool->deferred; *at;) {
        struct vr_block *block = *at;
        if (is_used(pool, block)) {
            at = &block->next;
        } else {
            *at = block->next;
            to_space(pool, block, block->stamp);
        }
    }
}

/* ---------------------------------------------------------------- returning */

static void return_one(struct vr_pool *pool, uint64_t queue, struct vr_block *block) {
    uint64_t from;
    if (block->uses || block->pins) {
        block->stamp = vr_lane_stamp(&pool->lanes, queue);
        block->next = pool->deferred;
        pool->deferred = block;
    } else if (vr_load(&block->bytes, VR_RELAXED) > VR_SMALL_BYTES ||
               (pool->flags & VRAM_POOL_DETERMINISTIC)) {
        to_space(pool, block, vr_lane_stamp(&pool->lanes, queue));
    } else {
        struct vr_block *out = vr_depot_put(&pool->depot, queue, block, &from);
        list_to_space(pool, out, from);
    }
}

/* Whether the frees on a queue have become a batch that is worth a mark. A pool that finds all it needs
   in what it holds wants to know nothing about time: it makes no mark. Under the lock. */
static bool batch_is_full(struct vr_pool *pool, uint64_t queue, uint64_t bytes) {
    struct vr_lane *lane = queue ? vr_lane_find(&pool->lanes, queue) : NULL;
    if (!lane) {
        return false;
    }
    lane->unmarked_bytes += bytes;
    if (lane->unmarked_bytes < BATCH_BYTES || lane->plans_marked == pool->plans) {
        return false;
    }
    lane->unmarked_bytes = 0;
    lane->plans_marked = pool->plans;
    return true;
}

void vr_pool_return(struct vr_pool *pool, uint64_t queue, struct vr_block **blocks,
                    uint32_t count) {
    uint64_t bytes = 0;
    vr_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < count; i++) {
        bytes += vr_load(&blocks[i]->bytes, VR_RELAXED);
        return_one(pool, queue, blocks[i]);
    }
    bool full = batch_is_full(pool, queue, bytes);
    vr_mutex_unlock(&pool->lock);
    if (full) {
        struct vram_error error;
        vr_error_save(&error);
        vr_pool_mark(pool, queue, true); /* the freeing thread may, on adopted queues too */
        vr_error_restore(&error);
    }
}

/* ----------------------------------------------------------------- draining */

/* Empties a cache into the space. Its thread is kept out. */
static void drain_cache(struct vr_cache *cache) {
    struct vr_pool *pool = cache->pool;
    struct vr_block *blocks[BATCH];
    uint32_t count;
    vr_mutex_lock(&pool->lock);
    struct vr_stamp stamp = vr_lane_stamp(&pool->lanes, cache->queue_handle);
    while ((count = vr_cache_empty(cache, blocks, BATCH))) {
        for (uint32_t i = 0; i < count; i++) {
            to_space(pool, blocks[i], stamp);
        }
    }
    vr_mutex_unlock(&pool->lock);
}

static void drain_thread(struct vr_thread_state *thread, void *user) {
    for (uint32_t i = 0; thread->caches && i <= thread->cache_mask; i++) {
        struct vr_cache *cache = thread->caches[i];
        if (cache && cache->pool == user) {
            cache->shy = VR_SHY;
            drain_cache(cache);
        }
    }
}

static void drain_depot(struct vr_pool *pool, uint64_t only) {
    uint64_t queue;
    struct vr_block *list;
    vr_mutex_lock(&pool->lock);
    while ((list = vr_depot_empty(&pool->depot, only, &queue))) {
        list_to_space(pool, list, queue);
    }
    vr_pool_settle(pool);
    vr_mutex_unlock(&pool->lock);
}

void vr_pool_drain(struct vr_pool *pool) {
    vr_thread_visit_all(drain_thread, pool);
    drain_depot(pool, 0);
}

/* ----------------------------------------------------------------- dropping */

/* Adds a dying cache's counts to the pool's. */
static void keep_counts(struct vr_pool *pool, const struct vr_cache_counts *counts) {
    vr_fetch_add(&pool->past.allocs, vr_load(&counts->allocs, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.frees, vr_load(&counts->frees, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.hits, vr_load(&counts->hits, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.returns, vr_load(&counts->returns, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.requested_in, vr_load(&counts->requested_in, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.requested_out, vr_load(&counts->requested_out, VR_RELAXED),
                 VR_RELAXED);
    vr_fetch_add(&pool->past.held_in, vr_load(&counts->held_in, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&pool->past.held_out, vr_load(&counts->held_out, VR_RELAXED), VR_RELAXED);
}

static void drop(struct vr_cache *cache) {
    drain_cache(cache);
    keep_counts(cache->pool, &cache->counts);
    vr_cache_drop(cache);
}

/* Which caches go. */
struct dropping {
    struct vr_pool *pool;
    uint64_t queue; /* 0: of all queues */
};

/* Dropping moves the entries behind, so the search begins anew after each. */
static void drop_of_thread(struct vr_thread_state *thread, void *user) {
    const struct dropping *dropping = user;
    for (bool found = true; found;) {
        found = false;
        for (uint32_t i = 0; thread->caches && i <= thread->cache_mask && !found; i++) {
            struct vr_cache *cache = thread->caches[i];
            found = cache && cache->pool == dropping->pool &&
                    (!dropping->queue || cache->queue_handle == dropping->queue);
            if (found) {
                drop(cache);
            }
        }
    }
}

void vr_pool_drop_caches(struct vr_pool *pool, uint64_t queue) {
    struct dropping dropping = {pool, queue};
    vr_thread_visit_all(drop_of_thread, &dropping);
    drain_depot(pool, queue);
}

/* The thread is at its end and touches its caches no more; pools and queues may end meanwhile, so it
   is entered like any other visit. */
void vr_pool_thread_ended(struct vr_thread_state *thread) {
    while (thread->caches) {
        for (uint32_t i = 0; i <= thread->cache_mask; i++) {
            if (thread->caches[i]) {
                drop(thread->caches[i]);
                break;
            }
        }
    }
}

/* ------------------------------------------------------------------ marking */

void vr_pool_mark(struct vr_pool *pool, uint64_t queue, bool ours) {
    vram_point point;
    void *entered;
    if (vr_queue_enter((vram_queue *)(uintptr_t)queue, "vram_alloc", &entered) != VRAM_OK) {
        return; /* it has ended: all its stamps have passed */
    }
    bool adopted = ((struct vr_queue_object *)entered)->base.adopted;
    vr_leave(entered);
    if (!adopted || ours) {
        vr_fetch_add(&pool->calls[VR_CALL_MARK], 1, VR_RELAXED);
        (void)vram_queue_mark((vram_queue *)(uintptr_t)queue, &point);
    }
}

static void mark_all(struct vr_pool *pool) {
    uint64_t queue = 0;
    for (;;) {
        vr_mutex_lock(&pool->lock);
        queue = vr_lane_unmarked(&pool->lanes, queue);
        vr_mutex_unlock(&pool->lock);
        if (!queue) {
            return;
        }
        vr_pool_mark(pool, queue, false);
    }
}

/* The space's next stamp that has not been seen to pass, other than `last`, which was asked about just
   now. */
static bool next_pending(struct vr_pool *pool, struct vr_space *space, struct vr_stamp *last) {
    struct vr_stamp stamp;
    vr_mutex_lock(&pool->lock);
    bool pending = vr_space_pending(space, &stamp) &&
                   (stamp.queue != last->queue || stamp.value != last->value);
    vr_mutex_unlock(&pool->lock);
    *last = pending ? stamp : *last;
    return pending;
}

static void look(struct vr_pool *pool, struct vr_space *space) {
    struct vr_stamp stamp = {0, 0};
    bool passed = true;
    while (passed && next_pending(pool, space, &stamp)) {
        vram_point point = {(vram_queue *)(uintptr_t)stamp.queue, stamp.value};
        passed = vram_point_wait(point, 0) == VRAM_OK;
    }
}

void vr_pool_look(struct vr_pool *pool) {
    struct vram_error error;
    if (pool->flags & VRAM_POOL_DETERMINISTIC) {
        return; /* such a pool does not look at time */
    }
    vr_error_save(&error);
    mark_all(pool);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        look(pool, pool->spaces[part]);
    }
    vr_error_restore(&error);
}
