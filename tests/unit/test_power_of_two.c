/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_power_of_two.c: pools that round requests up to powers of two, by flag and by option: on
 * every path to a block, with resizes, tags, warm-up and red zones, and sizes that overflow.
 */
#include "unit/device_world.h"
#include "unit/mem_world.h"
#include "unit/stats_of.h"

static uint64_t bucket_of(uint64_t size) {
    uint64_t bucket = 512;
    while (bucket < size) {
        bucket *= 2;
    }
    return bucket;
}

static vram_pool *bucket_pool(struct rig *rig, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_POWER_OF_TWO | flags};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

static const uint64_t sizes[] = {0,     1,          512,     513,     1536,        40000,   65536,
                                 65537, 600 * 1024, MIB + 1, 3 * MIB, 5 * MIB + 7, 17 * MIB};

/* The first time, from a cache, and without caches. */
TEST(requests_take_a_bucket) {
    static const uint32_t flags[] = {0, VRAM_POOL_SEGMENTS, VRAM_POOL_DETERMINISTIC,
                                     VRAM_POOL_TRACKED};
    for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = bucket_pool(&rig, flags[f]);
        for (int round = 0; round < 3; round++) {
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                vram_addr addr, tagged;
                vram_alloc_options tag = {.size = sizeof tag, .tag = "built/on/buckets"};
                assert_ok(vram_alloc(pool, sizes[i], rig.queue, &addr));
                assert_ok(vram_alloc_with(pool, sizes[i], rig.queue, &tag, &tagged));
                assert_int_equal(block_info_of(addr).requested_bytes, sizes[i]);
                assert_int_equal(block_info_of(addr).held_bytes, bucket_of(sizes[i]));
                assert_int_equal(block_info_of(tagged).held_bytes, bucket_of(sizes[i]));
                assert_int_equal(stats_of(pool).allocated_bytes, 2 * bucket_of(sizes[i]));
                assert_ok(vram_free(addr, rig.queue));
                assert_ok(vram_free(tagged, rig.queue));
            }
        }
        rig_end_clean(&rig);
    }
}

/* Sizes that share a bucket share its blocks: no driver call and no new memory from the second
   on. */
TEST(a_bucket_serves_its_sizes, "sim:memory=1G") {
    vram_pool *pool = bucket_pool(rig, 0);
    vram_addr first, addr;
    assert_ok(vram_alloc(pool, 33000, rig->queue, &first));
    assert_ok(vram_free(first, rig->queue));
    uint64_t misses = stats_of(pool).misses, hits = stats_of(pool).cache_hits, rounds = 0;
    for (uint64_t size = 32769; size <= 65536; size += 1111) {
        assert_ok(vram_alloc(pool, size, rig->queue, &addr));
        assert_int_equal(addr, first);
        assert_ok(vram_free(addr, rig->queue));
        rounds++;
    }
    assert_int_equal(stats_of(pool).misses, misses);
    assert_int_equal(stats_of(pool).cache_hits, hits + rounds); /* all from the thread's cache */
}

/* An operator turns it on; pools that exist stay as they are. */
TEST(the_option_is_the_flag, "sim:memory=1G") {
    vram_pool *before, *after;
    vram_addr addr;
    assert_ok(vram_pool_create(rig->device, NULL, &before));
    assert_ok(vram_option_set("power_of_two", "on"));
    assert_ok(vram_pool_create(rig->device, NULL, &after));
    assert_ok(vram_alloc(before, 40000, rig->queue, &addr));
    assert_int_equal(block_info_of(addr).held_bytes, 40448); /* 79 * 512 */
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_alloc(after, 40000, rig->queue, &addr));
    assert_int_equal(block_info_of(addr).held_bytes, 65536);
    assert_ok(vram_free(addr, rig->queue));
}
