/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_bytes.c: live bytes of the caches, as reported to pool, device and context.
 *
 * The peak of live bytes depends on all threads, but a hit reports nothing. So each cache keeps its
 * highest value since its last report, and the pool's peak is the sum of all reports plus that
 * value. With one thread the peak is exact. With several it may be off by the bytes that their
 * caches have allocated or freed since their last reports. That is never more than the caches can
 * hold: beyond it there is a miss or an overflow, and both report.
 *
 * Most reports are made under the pool's lock (shortcut.c). They add to a number of their own, with
 * no locked instruction; the sum of the two is what was reported.
 */
#include "core/cache/drain.h"

#include <assert.h>

/* The pool reports to device and context when its value has changed by UP_BYTES and by 1/UP_PART of
   it, or on demand: their peaks may be off by as much per pool. `requested_up` is what they have of
   the pool. */
#define UP_BYTES ((int64_t)1 << 20)
enum { UP_PART = 64 };

static int64_t requested_now(const struct vr_pool *pool) {
    return (int64_t)(vr_load(&pool->requested_now, VR_RELAXED) +
                     vr_load(&pool->requested_more, VR_RELAXED));
}

uint64_t vr_pool_requested(const struct vr_pool *pool) {
    int64_t now = requested_now(pool);
    return now > 0 ? (uint64_t)now : 0;
}

static void report_up(struct vr_pool *pool, int64_t high, int64_t now) {
    int64_t up = (int64_t)vr_exchange(&pool->requested_up, (uint64_t)now, VR_RELAXED);
    vr_gauge_add(&pool->device->slot->requested, high - up, now - up);
    vr_gauge_add(&pool->device->context->requested, high - up, now - up);
}

/* The pool's live bytes rose to `high` and are `now`. */
static void note_reported(struct vr_pool *pool, int64_t high, int64_t now) {
    int64_t up = (int64_t)vr_load(&pool->requested_up, VR_RELAXED);
    int64_t least = up / UP_PART > UP_BYTES ? up / UP_PART : UP_BYTES;
    if (!vr_pool_is_tracked(pool) && high > 0 &&
        (uint64_t)high > vr_load(&pool->requested_peak, VR_RELAXED)) {
        vr_atomic_max(&pool->requested_peak, (uint64_t)high);
    }
    if (high - up >= least || up - now >= least) {
        report_up(pool, high, now);
    }
}

/* For a tracked pool the track keeps the pool's exact values; only device and context are updated
   here. */
void vr_pool_report_bytes(struct vr_pool *pool, int64_t high, int64_t change) {
    if (!vr_pool_is_tracked(pool)) {
        vr_fetch_add(&pool->requested_now, (uint64_t)change, VR_RELAXED);
    }
    int64_t now = requested_now(pool);
    note_reported(pool, now - change + high, now);
}

void vr_pool_report_up(struct vr_pool *pool) {
    int64_t now = requested_now(pool);
    report_up(pool, now, now);
}

void vr_pool_report_cache(struct vr_cache *cache) {
    int64_t live = vr_cache_live(cache), reported = cache->reported_bytes;
    if (live != reported || cache->high_bytes != reported) {
        vr_pool_report_bytes(cache->pool, cache->high_bytes - reported, live - reported);
        cache->high_bytes = cache->reported_bytes = live;
    }
}

void vr_pool_report_locked(struct vr_cache *cache) {
    struct vr_pool *pool = cache->pool;
    int64_t live = vr_cache_live(cache), reported = cache->reported_bytes;
    assert(vr_pool_is_locked(pool));
    if (!vr_pool_is_tracked(pool)) {
        vr_count(&pool->requested_more, (uint64_t)(live - reported));
    }
    int64_t now = requested_now(pool);
    note_reported(pool, now - live + cache->high_bytes, now);
    cache->high_bytes = cache->reported_bytes = live;
}
