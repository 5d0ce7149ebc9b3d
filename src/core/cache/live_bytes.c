/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_bytes.c: live bytes of the caches, as reported to pool, device and context.
 *
 * The peak of live bytes depends on all threads, but a hit reports nothing. So each cache keeps its
 * highest value since its last report, and the pool's peak is the sum of all reports plus that
 * value. With one thread the peak is exact. With several it may be off by the bytes that their
 * caches have allocated or freed since their last reports. That is never more than the caches can
 * hold: beyond it there is a miss or an overflow, and both report.
 */
#include "core/cache/drain.h"

/* The pool reports to device and context when its value has changed by this much, or on demand:
   their peaks may be off by as much per pool. `requested_up` is what they have of the pool. */
#define UP_BYTES ((int64_t)1 << 20)

static void report_up(struct vr_pool *pool, int64_t high, int64_t now) {
    int64_t up = (int64_t)vr_exchange(&pool->requested_up, (uint64_t)now, VR_RELAXED);
    vr_gauge_add(&pool->device->slot->requested, high - up, now - up);
    vr_gauge_add(&pool->device->context->requested, high - up, now - up);
}

/* For a tracked pool the track keeps the pool's exact values; only device and context are updated
   here. */
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
        report_up(pool, before + high, before + change);
    }
}

void vr_pool_report_up(struct vr_pool *pool) {
    int64_t now = (int64_t)vr_load(&pool->requested_now, VR_RELAXED);
    report_up(pool, now, now);
}

void vr_pool_report_cache(struct vr_cache *cache) {
    int64_t live = vr_cache_live(cache), reported = cache->reported_bytes;
    if (live != reported || cache->high_bytes != reported) {
        vr_pool_report_bytes(cache->pool, cache->high_bytes - reported, live - reported);
        cache->high_bytes = cache->reported_bytes = live;
    }
}
