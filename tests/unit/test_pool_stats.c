/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_stats.c: what a pool says of itself, while other threads hold caches, after they and
 * their queues have ended, and at its peaks.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/limits.h"
#include "vram/oom.h"
#include "vram/pool.h"
#include "vram/pressure.h"

#include <pthread.h>
#include <semaphore.h>

static uint64_t rounded(uint64_t size) {
    return size ? (size + 511) / 512 * 512 : 512;
}

/* ------------------------------------------------------------------------- peaks */

/* Small and large blocks lie apart, and their peaks need not come together. */
TEST(the_peak_is_of_all_blocks_together, "sim:memory=1G") {
    vram_pool *pool;
    vram_addr small[64], large;
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    assert_ok(vram_alloc(pool, 100 * MIB, rig->queue, &large));
    vram_pool_stats first = stats_of(pool);
    assert_int_equal(first.peak_allocated_bytes, 100 * MIB);
    assert_ok(vram_free(large, rig->queue));
    assert_ok(vram_pool_trim(pool, NULL, NULL)); /* nothing is live or cached any more */
    for (int i = 0; i < 64; i++) {
        assert_ok(vram_alloc(pool, 32 * KIB, rig->queue, &small[i]));
    }
    vram_pool_stats second = stats_of(pool);
    assert_true(second.allocated_bytes + second.cached_bytes >= 2 * MIB);
    assert_int_equal(second.peak_allocated_bytes, 100 * MIB); /* not 102 */
    assert_ok(vram_alloc(pool, 99 * MIB, rig->queue, &large));
    vram_pool_stats third = stats_of(pool);
    assert_int_equal(third.peak_allocated_bytes, third.allocated_bytes + third.cached_bytes);
}

/* ----------------------------------------------------------------------- threads */

/* A thread that does its work, then waits with its caches full until it is told to end. */
struct worker {
    vram_pool *pool;
    vram_queue *queue;
    uint64_t size;
    unsigned kept; /* blocks that stay live */
    vram_addr addrs[32];
    sem_t done, end;
    pthread_t thread;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    for (unsigned i = 0; i < 32; i++) {
        assert_ok(vram_alloc(worker->pool, worker->size, worker->queue, &worker->addrs[i]));
    }
    for (unsigned i = worker->kept; i < 32; i++) {
        assert_ok(vram_free(worker->addrs[i], worker->queue));
    }
    sem_post(&worker->done);
    sem_wait(&worker->end);
    return NULL;
}

static void expect_sums(vram_pool *pool, const struct worker *workers, unsigned count) {
    uint64_t live = 0, requested = 0, allocated = 0;
    vram_pool_stats stats = stats_of(pool);
    for (unsigned i = 0; i < count; i++) {
        live += workers[i].kept;
        requested += workers[i].kept * workers[i].size;
        allocated += workers[i].kept * rounded(workers[i].size);
    }
    assert_int_equal(stats.live_blocks, live);
    assert_int_equal(stats.requested_bytes, requested);
    assert_int_equal(stats.allocated_bytes, allocated);
    assert_int_equal(stats.allocs, 32 * count);
    assert_int_equal(stats.frees, 32 * count - live);
    assert_int_equal(stats.hits + stats.misses, stats.allocs);
    assert_true(stats.returns <= stats.frees);
    assert_true(stats.reserved_bytes >= stats.allocated_bytes + stats.cached_bytes);
    assert_true(stats.peak_requested_bytes >= requested);
    assert_true(stats.peak_allocated_bytes >= stats.allocated_bytes + stats.cached_bytes);
}

TEST(other_threads_caches_are_counted, "sim:memory=1G") {
    enum { CREW = 5 };
    static const uint64_t sizes[CREW] = {300000, 50000, 30000, 4096, 100};
    static struct worker workers[CREW];
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    for (unsigned i = 0; i < CREW; i++) {
        struct worker *worker = &workers[i];
        *worker = (struct worker){.pool = pool, .size = sizes[i], .kept = i * 3};
        assert_ok(vram_queue_create(rig->device, NULL, &worker->queue));
        sem_init(&worker->done, 0, 0);
        sem_init(&worker->end, 0, 0);
        assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
        sem_wait(&worker->done);
        expect_sums(pool, workers, i + 1);
    }
    uint64_t cached = stats_of(pool).cached_bytes, hits = stats_of(pool).cache_hits;
    assert_true(cached >= 17 * 4096);
    assert_true(stats_of(pool).thread_cache_bytes > 0);
    for (unsigned i = 0; i < CREW; i++) { /* threads end, then their queues: nothing is forgotten */
        sem_post(&workers[i].end);
        pthread_join(workers[i].thread, NULL);
        expect_sums(pool, workers, CREW);
        vram_queue_destroy(workers[i].queue);
        expect_sums(pool, workers, CREW);
        assert_int_equal(stats_of(pool).cache_hits, hits);
    }
    assert_true(stats_of(pool).cached_bytes < cached);
    assert_int_equal(stats_of(pool).thread_cache_bytes, 0);
    for (unsigned i = 0; i < CREW; i++) {
        for (unsigned n = 0; n < workers[i].kept; n++) {
            assert_ok(vram_free(workers[i].addrs[n], rig->queue));
        }
    }
    assert_int_equal(stats_of(pool).live_blocks, 0);
    assert_int_equal(stats_of(pool).requested_bytes, 0);
    assert_int_equal(stats_of(pool).allocated_bytes, 0);
}

/* -------------------------------------------------------------------------- rates */

/* A rate of nothing is 0, not a division by it; the other figures follow from the counters. */
TEST(rates_follow_from_counters, "sim:memory=1G") {
    vram_pool *pool;
    vram_addr addr;
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    vram_pool_stats none = stats_of(pool);
    assert_true(none.hit_rate == 0.0);
    assert_false(none.last_cleanup_ns.known);
    for (int i = 0; i < 4; i++) {
        assert_ok(vram_alloc(pool, 600, rig->queue, &addr));
        if (i < 3) {
            assert_ok(vram_free(addr, rig->queue));
        }
    }
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.hits, 3);
    assert_true(stats.hit_rate == 0.75);
    assert_int_equal(stats.rounding_bytes, 1024 - 600);
    assert_int_equal(stats.active_buffers, 1);
    assert_int_equal(stats.fallbacks + stats.ladder_runs + stats.refusals + stats.cleanups, 0);
}

/* Two blocks of one size, used over and over, ask the driver in the first round only. Which blocks
   a thread's cache keeps is another matter, and another counter. */
TEST(held_memory_is_a_hit_at_every_size) {
    static const uint64_t sizes[] = {600, 40 * KIB, MIB, 4 * MIB, 64 * MIB};
    enum { ROUNDS = 500 };
    for (uint32_t flags = 0; flags <= VRAM_POOL_SEGMENTS; flags += VRAM_POOL_SEGMENTS) {
        for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            struct rig rig = rig_make("sim", "memory=1G");
            const vram_pool_options options = {.size = sizeof options, .flags = flags};
            vram_pool *pool;
            vram_addr addr[2];
            assert_ok(vram_pool_create(rig.device, &options, &pool));
            for (int round = 0; round < ROUNDS; round++) {
                assert_ok(vram_alloc(pool, sizes[s], rig.queue, &addr[0]));
                assert_ok(vram_alloc(pool, sizes[s], rig.queue, &addr[1]));
                assert_ok(vram_free(addr[0], rig.queue));
                assert_ok(vram_free(addr[1], rig.queue));
            }
            vram_pool_stats stats = stats_of(pool);
            assert_int_equal(stats.hits + stats.misses, stats.allocs);
            assert_int_equal(stats.allocs, 2 * ROUNDS);
            assert_in_range(stats.misses, 1, 2);
            assert_true(stats.hit_rate >= (double)(2 * ROUNDS - 2) / (2 * ROUNDS));
            assert_int_equal(stats.returns, stats.frees);
            assert_true(stats.cache_hits <= stats.hits && stats.cache_returns <= stats.returns);
            if (sizes[s] <= 40 * KIB) { /* a cache keeps both */
                assert_true(stats.cache_hits >= 2 * ROUNDS - 2);
                assert_true(stats.cache_returns >= 2 * ROUNDS - 2);
            }
            vram_health_info health = {.size = sizeof health};
            assert_ok(vram_health(rig.device, NULL, &health));
            assert_true(health.hit_rate == stats.hit_rate);
            rig_end_clean(&rig);
        }
    }
}

/* What the driver is called for is a miss: growth, memory that is moved, other memory. */
TEST(growth_moves_and_fallbacks_are_misses, "sim:memory=64M,granule=2M") {
    const uint64_t handle = 2 * MIB;
    vram_addr blocks[28], addr;
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    for (int i = 0; i < 28; i++) {
        assert_ok(vram_alloc(pool, handle, rig->queue, &blocks[i]));
    }
    uint64_t misses = stats_of(pool).misses; /* growth, of a few blocks at a time */
    assert_true(misses > 0 && stats_of(pool).driver_creates > 0);
    for (int i = 0; i < 28; i += 2) {
        assert_ok(vram_free(blocks[i], rig->queue));
    }
    assert_ok(vram_alloc(pool, 4 * handle, rig->queue, &addr)); /* from holes of one handle each */
    vram_pool_stats moved = stats_of(pool);
    assert_true(moved.moved_handles > 0);
    assert_int_equal(moved.misses, misses + 1);
    const vram_ladder_options ladder = {.size = sizeof ladder, .fallback = VRAM_FALLBACK_HOST};
    assert_ok(vram_pool_ladder_set(pool, &ladder));
    vram_addr other;
    assert_ok(vram_alloc(pool, 48 * MIB, rig->queue, &other));
    vram_pool_stats fallen = stats_of(pool);
    assert_int_equal(fallen.fallbacks, 1);
    assert_int_equal(fallen.misses, moved.misses + 1);
    assert_int_equal(fallen.hits + fallen.misses, fallen.allocs);
    assert_ok(vram_free(other, rig->queue));
    assert_int_equal(stats_of(pool).returns, fallen.returns); /* the pool keeps none of it */
}
