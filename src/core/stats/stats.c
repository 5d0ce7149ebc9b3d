/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.c: counters and peaks of pools, summed on demand.
 *
 * A hit writes only counters of its own thread (cache.h). All other code adds to the pool's
 * counters. Both are read here, while threads run.
 */
#include "base/error.h"
#include "core/cache/drain.h"
#include "core/stats/pool_stats.h"

#include "core/limit/budget.h"

/* Sums over all threads. */
struct sums {
    const struct vr_pool *pool;
    struct vram_pool_stats *stats;
    uint64_t uncached, overflows;
};

static void add_counts(struct sums *sums, const struct vr_cache_counts *counts) {
    sums->stats->allocs += vr_load(&counts->allocs, VR_RELAXED);
    sums->stats->frees += vr_load(&counts->frees, VR_RELAXED);
    sums->stats->requested_bytes += vr_load(&counts->requested, VR_RELAXED);
    sums->stats->allocated_bytes += vr_load(&counts->held, VR_RELAXED);
    sums->stats->misses += vr_load(&counts->misses, VR_RELAXED);
    sums->uncached += vr_load(&counts->uncached, VR_RELAXED);
    sums->overflows += vr_load(&counts->overflows, VR_RELAXED);
}

static void add_thread(struct vr_thread_state *thread, void *user) {
    struct sums *sums = user;
    for (uint32_t i = 0; thread->caches && i <= thread->cache_mask; i++) {
        if (thread->caches[i] && thread->caches[i]->pool == sums->pool) {
            vr_pool_report_cache(thread->caches[i]);
            add_counts(sums, &thread->caches[i]->counts);
            sums->stats->allocs += vr_cache_hits(thread->caches[i]);
            sums->stats->cached_bytes += vr_cache_bytes(thread->caches[i]);
            sums->stats->thread_cache_bytes += sizeof *thread->caches[i];
        }
    }
}

static void add_space(struct vr_pool *pool, struct vram_pool_stats *stats) {
    struct vr_space_stats space;
    vr_mutex_lock(&pool->lock);
    stats->cached_bytes += pool->central.held_bytes;
    stats->metadata_bytes =
        vr_block_table_bytes(&pool->table) + sizeof *pool + pool->central.table_bytes;
    stats->peak_reserved_bytes = pool->peak_reserved_bytes;
    stats->peak_allocated_bytes = pool->peak_out_bytes;
    stats->peak_scopes = pool->peaks.depth;
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_space_stats_get(pool->spaces[part], &space);
        stats->metadata_bytes += space.metadata_bytes;
        stats->reserved_bytes += space.reserved_bytes;
        stats->moved_handles += space.moved_pieces;
        stats->moved_bytes += space.moved_bytes;
        stats->move_ns += space.move_ns;
        stats->spare_handles += space.spares;
    }
    vr_mutex_unlock(&pool->lock);
}

static void add_calls(const struct vr_pool *pool, struct vram_pool_stats *stats) {
    stats->driver_creates = vr_load(&pool->calls[VR_CALL_CREATE], VR_RELAXED);
    stats->driver_releases = vr_load(&pool->calls[VR_CALL_RELEASE], VR_RELAXED);
    stats->driver_maps = vr_load(&pool->calls[VR_CALL_MAP], VR_RELAXED);
    stats->driver_unmaps = vr_load(&pool->calls[VR_CALL_UNMAP], VR_RELAXED);
    stats->driver_accesses = vr_load(&pool->calls[VR_CALL_ACCESS], VR_RELAXED);
    stats->driver_allocs = vr_load(&pool->calls[VR_CALL_ALLOC], VR_RELAXED);
    stats->driver_frees = vr_load(&pool->calls[VR_CALL_FREE], VR_RELAXED);
    stats->driver_markers = vr_load(&pool->calls[VR_CALL_MARK], VR_RELAXED);
}

/* Copies counters of one kind, as many as both structs have. */
static void copy_counters(uint64_t *to, const vr_atomic_u64 *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        to[i] = vr_load(&from[i], VR_RELAXED);
    }
}

static void add_counters(const struct vr_pool_counters *counters, struct vram_pool_stats *stats) {
    uint64_t cleaned = vr_load(&counters->last_cleanup_ns, VR_RELAXED);
    copy_counters(&stats->refusals, &counters->refusals, 1);
    copy_counters(&stats->limit_refusals, &counters->limit_refusals, 1);
    copy_counters(&stats->quota_refusals, &counters->quota_refusals, 1);
    copy_counters(&stats->quota_crossings, &counters->quota_crossings, 1);
    copy_counters(&stats->fallbacks, &counters->fallbacks, 1);
    copy_counters(&stats->fallback_bytes, &counters->fallback_bytes, 1);
    copy_counters(&stats->other_bytes, &counters->other_bytes, 1);
    copy_counters(&stats->promotions, &counters->promotions, 1);
    copy_counters(&stats->promoted_bytes, &counters->promoted_bytes, 1);
    copy_counters(&stats->demotions, &counters->demotions, 1);
    copy_counters(&stats->demoted_bytes, &counters->demoted_bytes, 1);
    copy_counters(&stats->ladder_runs, &counters->ladder_runs, 1);
    copy_counters(stats->ladder_steps, counters->ladder_steps, VRAM_LADDER_ROOM);
    copy_counters(stats->ladder_bytes, counters->ladder_bytes, VRAM_LADDER_ROOM);
    copy_counters(stats->ladder_rescues, counters->ladder_rescues, VRAM_LADDER_ROOM);
    copy_counters(stats->response_steps, counters->response_steps, VRAM_RESPONSE_ROOM);
    copy_counters(stats->response_bytes, counters->response_bytes, VRAM_RESPONSE_ROOM);
    copy_counters(stats->rises, counters->rises, VRAM_PRESSURE_ROOM);
    copy_counters(stats->falls, counters->falls, VRAM_PRESSURE_ROOM);
    copy_counters(&stats->cleanups, &counters->cleanups, 1);
    copy_counters(&stats->cleaned_bytes, &counters->cleaned_bytes, 1);
    copy_counters(&stats->sleeps, &counters->sleeps, 1);
    copy_counters(&stats->wakes, &counters->wakes, 1);
    copy_counters(&stats->asleep_bytes, &counters->asleep_bytes, 1);
    copy_counters(&stats->asleep_host_bytes, &counters->asleep_host_bytes, 1);
    copy_counters(&stats->sealed_bytes, &counters->sealed_bytes, 1);
    copy_counters(&stats->shared_bytes, &counters->shared_bytes, 1);
    copy_counters(&stats->quarantine_bytes, &counters->quarantine_bytes, 1);
    copy_counters(&stats->damaged_blocks, &counters->damaged_blocks, 1);
    copy_counters(&stats->unchecked_blocks, &counters->unchecked_blocks, 1);
    stats->last_cleanup_ns =
        (vram_value){.known = cleaned != 0, .value = cleaned ? cleaned - 1 : 0};
}

void vr_stats_derive(struct vram_pool_stats *stats) {
    stats->live_blocks = stats->allocs - stats->frees;
    stats->active_buffers = stats->live_blocks;
    stats->rounding_bytes = stats->allocated_bytes - stats->requested_bytes;
    stats->hit_rate = stats->allocs ? (double)stats->hits / (double)stats->allocs : 0.0;
}

void vr_stats_of_pool(struct vr_pool *pool, struct vram_pool_stats *stats) {
    struct sums sums = {.pool = pool, .stats = stats};
    vr_thread_visit_all(add_thread, &sums);
    add_counts(&sums, &pool->past);
    vr_pool_report_up(pool);
    stats->peak_requested_bytes = vr_load(&pool->requested_peak, VR_RELAXED);
    stats->hits = stats->allocs - stats->misses;
    stats->cache_hits = stats->allocs - sums.uncached;
    stats->returns =
        pool->direct ? 0 : stats->frees - vr_load(&pool->counters.other_frees, VR_RELAXED);
    stats->cache_returns = stats->frees - sums.overflows;
    add_space(pool, stats);
    add_calls(pool, stats);
    add_counters(&pool->counters, stats);
    vr_limit_derive(pool);
    uint64_t budget = vr_budget_bytes(pool);
    stats->budget_bytes =
        (vram_value){.known = budget != UINT64_MAX, .value = budget != UINT64_MAX ? budget : 0};
    vr_stats_derive(stats);
}

void vr_thread_counts_add(struct vr_thread_counts *counts, const struct vr_cache *cache) {
    counts->allocs += vr_load(&cache->counts.allocs, VR_RELAXED) + vr_cache_hits(cache);
    counts->frees += vr_load(&cache->counts.frees, VR_RELAXED);
    counts->misses += vr_load(&cache->counts.misses, VR_RELAXED);
    counts->uncached += vr_load(&cache->counts.uncached, VR_RELAXED);
    counts->requested += vr_load(&cache->counts.requested, VR_RELAXED);
    counts->held += vr_load(&cache->counts.held, VR_RELAXED);
    counts->cached_bytes += vr_cache_bytes(cache);
}

void vr_stats_last(struct vr_pool *pool, const struct vr_thread_counts *threads,
                   struct vram_pool_stats *stats) {
    struct sums sums = {.pool = pool, .stats = stats};
    add_counts(&sums, &pool->past);
    stats->allocs += threads->allocs;
    stats->frees += threads->frees;
    stats->misses += threads->misses;
    stats->requested_bytes += threads->requested;
    stats->allocated_bytes += threads->held;
    stats->cached_bytes += threads->cached_bytes;
    stats->peak_requested_bytes = vr_load(&pool->requested_peak, VR_RELAXED);
    stats->hits = stats->allocs - stats->misses;
    stats->cache_hits = stats->allocs - sums.uncached - threads->uncached;
    add_space(pool, stats);
    add_calls(pool, stats);
    add_counters(&pool->counters, stats);
    vr_stats_derive(stats);
}

vram_status vram_pool_stats_get(vram_pool *handle, vram_pool_stats *stats) {
    VR_CALL;
    struct vram_pool_stats full = {.size = sizeof full};
    void *pool;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    vr_stats_of_pool(pool, &full);
    status = vr_info_give(stats, &full, sizeof full, sizeof full);
    vr_leave(pool);
    return status;
}
