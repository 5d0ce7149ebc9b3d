/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortcut.c: the most common miss, by the shortest code path.
 *
 * A program whose sizes differ from step to step misses with nearly every large block, and nearly
 * always the space has a hole for it. Such a request has no options, no tag and no guard, and needs
 * no plan. So this path pins only the pool and takes its lock once. Anything else it leaves to the
 * request path (pool.c, miss.c), which starts from the beginning.
 *
 * Measured: `vram bench alloc --pattern mixed` takes 428 ns a pair on the host, and 508 without
 * this path.
 *
 * The queue is not pinned: under the pool's lock its queue state keeps it alive (queue_state.h),
 * and it is not used after that.
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

/* Hands out the block through the thread's cache, if the thread still has one. */
static void hand_over(struct vr_pool *pool, const struct vr_request *request,
                      struct vr_block *block) {
    struct vr_thread_state *thread = vr_thread_current;
    while (!vr_thread_enter(thread)) {
        vr_thread_wait_revoked(thread);
    }
    struct vr_cache *cache = vr_cache_find(thread, pool->object.handle, request->queue);
    if (cache) {
        (void)vr_hand_out(cache, block, request->size, request->bytes, NULL);
        vr_count(&cache->counts.allocs, 1);
        vr_count(&cache->counts.uncached, 1);
        vr_pool_report_cache(cache);
    }
    vr_thread_leave(thread);
    if (!cache) {
        vr_pool_hand_out(pool, request, block);
    }
}

bool vr_pool_alloc_shortcut(vram_pool *handle, uint64_t size, uint64_t bytes, vram_queue *queue,
                            vram_addr *addr) {
    const struct vr_request request = {
        .size = size, .bytes = bytes, .queue = vr_queue_id_of(queue)};
    struct vr_pool *pool = vr_exiting() ? NULL : vr_handle_pin(VR_KIND_POOL, handle);
    struct vr_block *block = NULL;
    bool marks;
    if (!pool) {
        return false;
    }
    if (!vr_forked(&pool->object) && !vr_load(&pool->uncached, VR_RELAXED)) {
        block = vr_pool_supply_held(pool, &request, &marks);
    }
    if (block) {
        *addr = vr_load(&block->addr, VR_RELAXED);
        vr_pool_reap(pool);
        hand_over(pool, &request, block);
        if (marks) {
            vr_pool_mark_batch(pool, request.queue);
        }
        vr_limit_trim_cached(pool);
        vr_pressure_on_miss(pool);
    }
    vr_leave(pool);
    return block != NULL;
}
