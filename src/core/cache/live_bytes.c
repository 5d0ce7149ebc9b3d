/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_bytes.c: how many bytes are handed out through caches, as far as pool, device and context
 * know.
 *
 * The peak of what is live is a matter of all threads, and a hit tells nobody. So each cache
 * remembers the highest it stood since it last told the pool, and the pool takes the peak to be
 * what all have told plus that. One thread's peak is exact. With several it may be off by what
 * their caches have handed out or taken back without a word, and that is never more than the caches
 * can hold: whoever wants more has a miss, whoever gives more an overflow, and both tell.
 */
#include "core/cache/drain.h"

/* Device and context are told when it is worth it, or when somebody asks: their peaks may be off by
   as much for each pool. What they have of a pool is what `requested_up` says. */
#define UP_BYTES ((int64_t)1 << 20)

static void tell_up(struct vr_pool *pool, int64_t high, int64_t now) {
    int64_t up = (int64_t)vr_exchange(&pool->requested_up, (uint64_t)now, VR_RELAXED);
    vr_gauge_add(&pool->device->slot->requested, high - up, now - up);
    vr_gauge_add(&pool->device->context->requested, high - up, now - up);
}

/* A pool whose blocks are tracked has its own exact numbers, which are ahead of this. */
void vr_pool_report_bytes(struct vr_pool *pool, int64_t high, int64_t change) {
    int64_t before;
    if (vr_pool_is_tracked(pool)) {
        before = (int64_t)vr_load(&pool->requested_now, VR_RELAXED) - change;
    } else {
        before = (int64_t)vr_fetch_add(&pool->requested_now, (uint64_t)change, VR_RELAXED);
        if (before + high > 0) {
            vr_atomic_max(&pool->requested_peak, (uint64_t)(before + high));
        }
    }
    int64_t up = (int64_t)vr_load(&pool->requested_up, VR_RELAXED);
    if (before + high - up >= UP_BYTES || up - before - change >= UP_BYTES) {
        tell_up(pool, before + high, before + change);
    }
}

void vr_pool_report_up(struct vr_pool *pool) {
    int64_t now = (int64_t)vr_load(&pool->requested_now, VR_RELAXED);
    tell_up(pool, now, now);
}

void vr_pool_report_cache(struct vr_cache *cache) {
    int64_t live = vr_cache_live(cache), told = cache->told_bytes;
    if (live != told || cache->high_bytes != told) {
        vr_pool_report_bytes(cache->pool, cache->high_bytes - told, live - told);
        cache->high_bytes = cache->told_bytes = live;
    }
}
