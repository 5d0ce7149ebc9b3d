/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_power_of_two.c: pools that round requests up to powers of two, by flag and by option: on
 * every path to a block, with resizes, tags, warm-up and red zones, and sizes that overflow.
 */
#include "unit/block_info_of.h"
#include "unit/mem_world.h"

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

/* A block stays in its bucket while its size does. */
TEST(resizes_move_between_buckets, "sim:memory=1G") {
    vram_pool *pool = bucket_pool(rig, 0);
    vram_alloc_options room = {.size = sizeof room, .reserve_bytes = 64 * MIB};
    vram_addr addr;
    assert_ok(vram_alloc_with(pool, 5 * MIB, rig->queue, &room, &addr));
    assert_int_equal(block_info_of(addr).held_bytes, 8 * MIB);
    assert_ok(vram_resize(addr, 7 * MIB, rig->queue));
    assert_int_equal(block_info_of(addr).held_bytes, 8 * MIB);
    assert_int_equal(block_info_of(addr).requested_bytes, 7 * MIB);
    assert_ok(vram_resize(addr, 9 * MIB, rig->queue));
    assert_int_equal(block_info_of(addr).held_bytes, 16 * MIB);
    assert_ok(vram_resize(addr, 3 * MIB, rig->queue));
    assert_int_equal(block_info_of(addr).held_bytes, 4 * MIB);
    assert_int_equal(vram_resize(addr, (UINT64_C(1) << 63) + 1, rig->queue), VRAM_ERR_OVERFLOW);
    assert_ok(vram_free(addr, rig->queue));
}

TEST(warm_blocks_are_buckets, "sim:memory=1G") {
    vram_pool *pool = bucket_pool(rig, 0);
    vram_addr addrs[4];
    assert_ok(vram_pool_warm(pool, 600 * 1024, 4, rig->queue));
    uint64_t calls = stats_of(pool).driver_creates + stats_of(pool).driver_maps;
    for (int i = 0; i < 4; i++) {
        assert_ok(vram_alloc(pool, 1000 * 1024, rig->queue, &addrs[i])); /* the same bucket */
    }
    assert_int_equal(stats_of(pool).driver_creates + stats_of(pool).driver_maps, calls);
    for (int i = 0; i < 4; i++) {
        assert_ok(vram_free(addrs[i], rig->queue));
    }
}

/* Red zones lie in the bucket; a size past half of all numbers has none. */
TEST(the_rest_of_the_bucket, "sim:memory=1G,real=on") {
    vram_pool *guarded = bucket_pool(rig, VRAM_POOL_RED_ZONES), *pool = bucket_pool(rig, 0);
    vram_addr addr;
    assert_ok(vram_alloc(guarded, 60000, rig->queue, &addr));
    assert_int_equal(stats_of(guarded).allocated_bytes, 65536);
    assert_ok(vram_free(addr, rig->queue));
    const uint64_t huge[] = {(UINT64_C(1) << 63) + 1, UINT64_MAX - 511, UINT64_MAX};
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        assert_int_equal(vram_alloc(pool, huge[i], rig->queue, &addr), VRAM_ERR_OVERFLOW);
        assert_int_equal(vram_pool_warm(pool, huge[i], 1, rig->queue), VRAM_ERR_OVERFLOW);
    }
    assert_true(vram_status_is_exhausted(vram_alloc(pool, UINT64_C(1) << 62, rig->queue, &addr)));
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
