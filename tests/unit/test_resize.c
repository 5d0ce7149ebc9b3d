/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_resize.c: blocks that grow and shrink where they are, in every kind of pool; what they count
 * for; what is in their way; and every call of the driver and of the host's memory failing in turn.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/limits.h"
#include "vram/oom.h"

static uint64_t held_by(vram_addr addr) {
    vram_block_info info = {.size = sizeof info};
    assert_ok(vram_block_info_get(addr, &info));
    return info.held_bytes;
}

static uint64_t asked_for(vram_addr addr) {
    vram_block_info info = {.size = sizeof info};
    assert_ok(vram_block_info_get(addr, &info));
    return info.requested_bytes;
}

static vram_pool *pool_make(struct rig *rig, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .flags = flags};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

/* ------------------------------------------------------------------------ room */

/* Many blocks side by side, each with room: all of them grow in place, again and again, and what is
   between two growths is nobody else's. */
TEST(blocks_with_room_grow_side_by_side) {
    static const uint32_t flags[] = {0, VRAM_POOL_DETERMINISTIC};
    vram_alloc_options wishes = {.size = sizeof wishes, .reserve_bytes = 61 * MIB, .tag = "t"};
    for (size_t i = 0; i < 2; i++) {
        vram_addr addrs[12], other;
        struct rig rig = rig_make("sim", "memory=2G");
        vram_pool *pool = pool_make(&rig, flags[i]);
        for (uint64_t k = 0; k < 12; k++) {
            assert_ok(vram_alloc_with(pool, 3 * MIB + k, rig.queue, &wishes, &addrs[k]));
            assert_int_equal(held_by(addrs[k]), 4 * MIB);
            assert_int_equal(asked_for(addrs[k]), 3 * MIB + k);
            assert_ok(vram_alloc(pool, 3 * MIB, rig.queue, &other)); /* in between */
        }
        for (uint64_t mib = 5; mib <= 64; mib += 13) {
            for (uint64_t k = 0; k < 12; k++) {
                assert_ok(vram_resize(addrs[k], mib * MIB + k, rig.queue));
                assert_int_equal(held_by(addrs[k]),
                                 (mib * MIB + k + 2 * MIB - 1) / (2 * MIB) * 2 * MIB);
                assert_ok(vram_alloc(pool, 100 * KIB, rig.queue, &other));
            }
        }
        vram_tag_info tag = {.size = sizeof tag};
        assert_ok(vram_tag_info_get(rig.device, "t", &tag));
        uint64_t held = 0;
        for (uint64_t k = 0; k < 12; k++) {
            held += held_by(addrs[k]);
            assert_ok(vram_free(addrs[k], rig.queue));
        }
        assert_int_equal(tag.used_bytes, held);
        rig_end_clean(&rig);
    }
}

/* ------------------------------------------------------------------------ uses */

/* The tail of a block that another queue uses is freed as the block would be: after the work that
   this queue has by then. Contents decide. */
TEST(tails_wait_for_other_users) {
    for (int ordered = 0; ordered < 2; ordered++) {
        static uint8_t found[4096];
        vram_addr addr, next;
        vram_queue *other;
        struct rig rig = rig_make("sim", "memory=16M,real=on,lag=1000,seed=5");
        assert_ok(vram_queue_create(rig.device, NULL, &other));
        vram_pool *pool = pool_make(&rig, ordered ? VRAM_POOL_DETERMINISTIC : 0);
        assert_ok(vram_alloc(pool, 12 * MIB, rig.queue, &addr));
        assert_ok(vram_use(addr, other));
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_queue_fill(other, addr, 0xDD, 1, 12 * MIB)); /* late */
        assert_ok(vram_resize(addr, 2 * MIB, rig.queue));
        assert_int_equal(held_by(addr), 2 * MIB);
        assert_ok(vram_alloc(pool, 10 * MIB, rig.queue, &next)); /* its memory is the tail's */
        assert_ok(vram_queue_fill(rig.queue, next, 0x11, 1, 10 * MIB));
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_queue_wait(other, 30 * SECOND));
        assert_ok(vram_queue_download(rig.queue, found, next, sizeof found));
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        for (size_t i = 0; i < sizeof found; i++) {
            assert_int_equal(found[i], 0x11);
        }
        rig_end_clean(&rig);
    }
}

/* --------------------------------------------------------------- kinds of pools */

/* Memory that the pool fell back to shrinks in number alone. */
TEST(fallback_memory_does_not_grow, "sim:memory=16M,real=on") {
    vram_addr addr, all;
    vram_ladder_options ladder = {.size = sizeof ladder, .fallback = VRAM_FALLBACK_HOST};
    vram_pool *pool = pool_make(rig, 0);
    assert_ok(vram_pool_ladder_set(pool, &ladder));
    assert_ok(vram_alloc(pool, 14 * MIB, rig->queue, &all));
    assert_ok(vram_alloc(pool, 8 * MIB, rig->queue, &addr));
    assert_int_equal(stats_of(pool).fallbacks, 1);
    assert_int_equal(vram_resize(addr, 9 * MIB, rig->queue), VRAM_ERR_UNSUPPORTED);
    assert_ok(vram_resize(addr, MIB, rig->queue));
    assert_int_equal(held_by(addr), 8 * MIB);
    assert_ok(vram_resize(addr, 8 * MIB, rig->queue));
    /* And growing never falls back. */
    vram_status status = vram_resize(all, 20 * MIB, rig->queue);
    assert_true(vram_status_is_exhausted(status));
    assert_int_equal(stats_of(pool).fallbacks, 1);
    assert_int_equal(held_by(all), 14 * MIB);
}

/* ----------------------------------------------------------- limits and quotas */

static vram_tag_info tag_of(vram_device *device, const char *name) {
    vram_tag_info info = {.size = sizeof info};
    assert_ok(vram_tag_info_get(device, name, &info));
    return info;
}

TEST(quotas_hold_at_every_level, "sim:memory=1G") {
    vram_addr addr;
    vram_alloc_options wishes = {.size = sizeof wishes, .tag = "t/m"};
    vram_pool *pool = pool_make(rig, 0);
    assert_ok(vram_tag_quota_set(rig->device, "t", 0, 24 * MIB));
    assert_ok(vram_alloc_with(pool, 8 * MIB, rig->queue, &wishes, &addr));
    assert_ok(vram_resize(addr, 16 * MIB + 1, rig->queue));
    assert_int_equal(tag_of(rig->device, "t").used_bytes, 16 * MIB + 512);
    assert_int_equal(tag_of(rig->device, "t/m").requested_bytes, 16 * MIB + 1);
    assert_int_equal(tag_of(rig->device, "t/m").live_blocks, 1);
    assert_int_equal(vram_resize(addr, 25 * MIB, rig->queue), VRAM_ERR_LIMIT);
    assert_int_equal(stats_of(pool).quota_refusals, 1);
    assert_int_equal(tag_of(rig->device, "t").used_bytes, 16 * MIB + 512);
    assert_ok(vram_resize(addr, 24 * MIB, rig->queue));
    assert_int_equal(tag_of(rig->device, "t").peak_bytes, 24 * MIB);
    assert_ok(vram_resize(addr, 4 * MIB, rig->queue));
    assert_int_equal(tag_of(rig->device, "t").used_bytes, 4 * MIB);
    assert_ok(vram_resize(addr, 4 * MIB - 5, rig->queue));
    assert_int_equal(tag_of(rig->device, "t/m").requested_bytes, 4 * MIB - 5);
    assert_ok(vram_free(addr, rig->queue));
    assert_int_equal(tag_of(rig->device, "t").used_bytes, 0);
    assert_int_equal(tag_of(rig->device, "t/m").requested_bytes, 0);
}

/* -------------------------------------------------------------------- meanwhile */

struct meanwhile {
    vram_pool *pool;
    vram_addr addr;
    vram_queue *queue;
    vram_status resized, freed, looked, pinned;
};

static void resize_and_free(void *argument) {
    struct meanwhile *scene = argument;
    vram_block_info info = {.size = sizeof info};
    scene->resized = vram_resize(scene->addr, MIB, scene->queue);
    scene->looked = vram_block_info_get(scene->addr, &info);
    scene->pinned = vram_pin(scene->addr);
    (void)vram_unpin(scene->addr);
    scene->freed = vram_free(scene->addr, scene->queue);
}

/* A block that is freed while memory is mapped behind it is freed; what was mapped goes back to the
   pool. */
TEST(a_free_meanwhile_wins) {
    for (int tagged = 0; tagged < 2; tagged++) {
        vram_alloc_options wishes = {.size = sizeof wishes, .tag = tagged ? "t" : NULL};
        vram_addr addr, again;
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_make(&rig, 0);
        assert_ok(vram_alloc_with(pool, 8 * MIB, rig.queue, &wishes, &addr));
        struct meanwhile scene = {.pool = pool, .addr = addr, .queue = rig.queue};
        hook_set(rig.device);
        hook.map_meanwhile = resize_and_free;
        hook.argument = &scene;
        assert_int_equal(vram_resize(addr, 32 * MIB, rig.queue), VRAM_ERR_INVALID);
        assert_int_equal(scene.resized, VRAM_ERR_BUSY);
        assert_ok(scene.looked);
        assert_ok(scene.pinned);
        assert_ok(scene.freed);
        vram_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.allocated_bytes, 0);
        assert_int_equal(stats.requested_bytes, 0);
        assert_int_equal(stats.live_blocks, 0);
        if (tagged) {
            assert_int_equal(tag_of(rig.device, "t").used_bytes, 0);
        }
        assert_int_equal(vram_free(addr, rig.queue), VRAM_ERR_INVALID);
        assert_ok(vram_alloc(pool, 32 * MIB, rig.queue, &again)); /* all of it is free */
        assert_in_range(stats_of(pool).reserved_bytes, 32 * MIB, 40 * MIB);
        assert_ok(vram_free(again, rig.queue));
        rig_end_clean(&rig);
    }
}

/* Blocks of pools with safety modes keep their size, and blocks that sleep wait until they wake. */
TEST(some_blocks_are_not_resized) {
    static const struct {
        uint32_t flags;
        const char *asleep; /* a tag, or "" for the pool */
        vram_status status;
    } rows[] = {{VRAM_POOL_ZERO_ALLOC, NULL, VRAM_ERR_UNSUPPORTED},
                {VRAM_POOL_ZERO_FREE, NULL, VRAM_ERR_UNSUPPORTED},
                {VRAM_POOL_POISON, NULL, VRAM_ERR_UNSUPPORTED},
                {VRAM_POOL_RED_ZONES, NULL, VRAM_ERR_UNSUPPORTED},
                {0, "t", VRAM_ERR_BUSY},
                {0, "", VRAM_ERR_BUSY}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_alloc_options tagged = {.size = sizeof tagged, .tag = "t"};
        vram_sleep_options sleep = {.size = sizeof sleep, .tag = rows[i].asleep};
        struct rig rig = rig_make("sim", "memory=1G,real=on");
        vram_pool *pool = pool_make(&rig, rows[i].flags);
        vram_addr addr;
        assert_ok(vram_alloc_with(pool, 8 * MIB, rig.queue, &tagged, &addr));
        if (rows[i].asleep) {
            sleep.tag = *rows[i].asleep ? rows[i].asleep : NULL;
            assert_ok(vram_pool_sleep(pool, &sleep));
        }
        assert_int_equal(vram_resize(addr, 9 * MIB, rig.queue), rows[i].status);
        assert_int_equal(vram_resize(addr, 7 * MIB, rig.queue), rows[i].status);
        if (rows[i].asleep) {
            assert_ok(vram_pool_wake(pool, NULL));
        }
        assert_int_equal(asked_for(addr), 8 * MIB);
        assert_ok(vram_free(addr, rig.queue)); /* its red zones are where they were */
        rig_end_clean(&rig);
    }
}
