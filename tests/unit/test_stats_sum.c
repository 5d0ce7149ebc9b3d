/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stats_sum.c: counters of devices, contexts and tags, peaks of parts of a program, and what
 * rounding and full caches do to the books.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "vram/limits.h"
#include "vram/stats.h"

static vram_pool *pool_on(vram_device *device) {
    vram_pool *pool;
    assert_ok(vram_pool_create(device, NULL, &pool));
    return pool;
}

static vram_pool_stats of_pool(vram_pool *pool) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(pool, &stats));
    return stats;
}

static vram_pool_stats of_device(vram_device *device) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_device_stats_get(device, &stats));
    return stats;
}

static vram_pool_stats of_context(vram_context *context) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_context_stats_get(context, &stats));
    return stats;
}

/* -------------------------------------------------------------------------- sums */

/* Pools that peak one after the other have no common peak; what is taken past pools is held too. */
TEST(devices_and_contexts_sum_their_pools, "sim:memory=1G,devices=2") {
    vram_addr first, second, third, coarse;
    vram_device *again;
    assert_int_equal(of_device(rig->device).reserved_bytes, 0);
    assert_true(of_context(rig->context).hit_rate == 0.0);
    assert_ok(vram_device_open(rig->context, 0, &again));
    vram_pool *one = pool_on(rig->device), *two = pool_on(again), *far = pool_on(rig->other);
    assert_ok(vram_alloc(one, 100 * MIB, rig->queue, &first));
    assert_ok(vram_free(first, rig->queue));
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    assert_ok(vram_pool_trim(one, NULL, NULL));
    assert_ok(vram_alloc(two, 60 * MIB + 100, NULL, &second));
    assert_ok(vram_alloc(far, 30 * MIB, rig->other_queue, &third));
    assert_ok(vram_device_alloc(again, 8 * MIB, VRAM_MEMORY_DEVICE, &coarse));
    vram_pool_stats device = of_device(rig->device), all = of_context(rig->context);
    assert_int_equal(device.requested_bytes, 60 * MIB + 100);
    assert_int_equal(device.rounding_bytes, 412);
    assert_int_equal(device.peak_requested_bytes, 100 * MIB);
    assert_int_equal(device.peak_reserved_bytes, 100 * MIB);
    assert_int_equal(device.reserved_bytes, of_pool(two).reserved_bytes + 8 * MIB);
    assert_int_equal(device.allocs, 2);
    assert_int_equal(device.frees, 1);
    assert_int_equal(device.live_blocks, 1);
    assert_int_equal(device.misses, 2);
    assert_int_equal(device.driver_creates,
                     of_pool(one).driver_creates + of_pool(two).driver_creates);
    assert_true(device.budget_bytes.known);
    assert_int_equal(all.requested_bytes, 90 * MIB + 100);
    assert_int_equal(all.peak_requested_bytes, 100 * MIB);
    assert_int_equal(all.allocs, 3);
    assert_int_equal(all.reserved_bytes,
                     device.reserved_bytes + of_device(rig->other).reserved_bytes);
    assert_ok(vram_alloc(one, 50 * MIB, rig->queue, &first));
    assert_int_equal(of_context(rig->context).peak_requested_bytes, 140 * MIB + 100);
    assert_ok(vram_pool_destroy(two)); /* with a live block, which is gone now */
    assert_int_equal(of_device(rig->device).requested_bytes, 50 * MIB);
    assert_ok(vram_alloc(one, 60 * MIB, rig->queue, &first));
    assert_int_equal(of_device(rig->device).peak_requested_bytes, 110 * MIB + 100);
    vram_device_close(again);
}

/* A tag's blocks are those of the tags below it, too. */
TEST(tags_have_statistics, "sim:memory=1G") {
    vram_alloc_options options = {.size = sizeof options, .tag = "t/a"};
    vram_addr addr;
    vram_pool_stats stats = {.size = sizeof stats};
    vram_pool *pool = pool_on(rig->device);
    assert_ok(vram_alloc_with(pool, 1000, rig->queue, &options, &addr));
    options.tag = "t/b";
    assert_ok(vram_alloc_with(pool, 600, rig->queue, &options, &addr));
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_tag_stats_get(rig->device, "t", &stats));
    assert_int_equal(stats.requested_bytes, 1000);
    assert_int_equal(stats.allocated_bytes, 1024);
    assert_int_equal(stats.rounding_bytes, 24);
    assert_int_equal(stats.peak_allocated_bytes, 2048);
    assert_ok(vram_device_peaks_reset(rig->device));
    assert_ok(vram_tag_stats_get(rig->device, "t", &stats));
    assert_int_equal(stats.peak_allocated_bytes, 1024);
}

/* ------------------------------------------------------------------------- peaks */

/* Takes and frees so many bytes: a peak of that much above what there is. */
static void bump(vram_pool *pool, vram_queue *queue, uint64_t bytes) {
    vram_addr addr;
    assert_ok(vram_alloc(pool, bytes, queue, &addr));
    assert_ok(vram_free(addr, queue));
}

TEST(scopes_have_their_own_peaks, "sim:memory=1G") {
    vram_peaks inner = {.size = sizeof inner}, outer = inner;
    vram_addr addr;
    vram_pool *pool = pool_on(rig->device);
    bump(pool, rig->queue, 10000); /* a peak from before */
    assert_ok(vram_alloc(pool, 1000, rig->queue, &addr));
    assert_ok(vram_pool_peaks_begin(pool));
    assert_int_equal(of_pool(pool).peak_requested_bytes, 1000);
    bump(pool, rig->queue, 2000);
    assert_ok(vram_pool_peaks_begin(pool));
    assert_int_equal(of_pool(pool).peak_scopes, 2);
    bump(pool, rig->queue, 500);
    assert_ok(vram_pool_peaks_end(pool, &inner));
    assert_int_equal(inner.requested_bytes, 1500);
    assert_true(inner.reserved_bytes >= 2 * MIB);
    assert_ok(vram_pool_peaks_end(pool, &outer));
    assert_int_equal(outer.requested_bytes, 3000);
    assert_int_equal(of_pool(pool).peak_requested_bytes, 10000); /* as without the scopes */
    assert_ok(vram_pool_peaks_begin(pool));
    bump(pool, rig->queue, 20000);
    assert_ok(vram_pool_peaks_end(pool, &outer));
    assert_int_equal(of_pool(pool).peak_requested_bytes, 21000); /* a higher one stays */
    assert_ok(vram_pool_peaks_reset(pool));
    assert_int_equal(of_pool(pool).peak_requested_bytes, 1000);
    assert_int_equal(of_pool(pool).peak_reserved_bytes, of_pool(pool).reserved_bytes);
}

/* ---------------------------------------------------------------------- rounding */

/* A block is as large as was asked for, whatever lies in caches. */
TEST(acceptance_11_a_returned_block_serves_its_size_only, "sim:memory=1G") {
    vram_addr small, large;
    vram_block_info info = {.size = sizeof info};
    vram_pool *pool = pool_on(rig->device);
    assert_ok(vram_alloc(pool, 400, rig->queue, &small));
    assert_ok(vram_free(small, rig->queue));
    assert_ok(
        vram_alloc(pool, 600, rig->queue, &large)); /* 1024 rounded, never the 512 just freed */
    assert_int_not_equal(small, large);
    assert_ok(vram_free(large, rig->queue));
    assert_ok(vram_alloc(pool, 1000, rig->queue, &large)); /* the same size after rounding */
    assert_ok(vram_block_info_get(large, &info));
    assert_true(info.held_bytes >= 1000);
    for (uint64_t size = 1; size <= 9 * MIB; size = size * 9 / 8 + 1) {
        vram_addr addr;
        assert_ok(vram_alloc(pool, size, rig->queue, &addr));
        assert_ok(vram_block_info_get(addr, &info));
        assert_true(info.held_bytes >= size && info.held_bytes < size + 512); /* the waste cap */
        assert_ok(vram_free(addr, rig->queue));
    }
}

/* More blocks of a size come back than caches take: the books are at 0 when all have. */
TEST(acceptance_11_over_full_bins_add_up) {
    enum { COUNT = 3000 };
    static vram_addr addrs[COUNT];
    static const uint64_t sizes[] = {512, 600, 40 * KIB, 65 * KIB};
    for (size_t n = 0; n < 4; n++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_on(rig.device);
        for (int i = 0; i < COUNT; i++) {
            assert_ok(vram_alloc(pool, sizes[n], rig.queue, &addrs[i]));
        }
        assert_int_equal(of_pool(pool).requested_bytes, COUNT * sizes[n]);
        for (int i = 0; i < COUNT; i++) {
            assert_ok(vram_free(addrs[i], rig.queue));
        }
        vram_pool_stats stats = of_pool(pool);
        assert_int_equal(stats.requested_bytes + stats.allocated_bytes + stats.rounding_bytes, 0);
        assert_int_equal(stats.live_blocks + stats.active_buffers, 0);
        assert_true(stats.cache_returns < COUNT && stats.returns == COUNT);
        assert_true(stats.cached_bytes <= stats.reserved_bytes);
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        stats = of_pool(pool);
        assert_int_equal(stats.cached_bytes + stats.reserved_bytes, 0);
        assert_int_equal(of_device(rig.device).reserved_bytes, 0);
        rig_end_clean(&rig);
    }
}
