/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_response.c: what a pool does about pressure by itself, and all of it at once from many
 * threads.
 */
#include "trims.h"
#include "unit/pressure_world.h"

/* ------------------------------------------------------------------ response */

struct steps {
    uint64_t halve, drop, emergency;
};

static void expect_steps(vram_pool *pool, struct steps want) {
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.response_steps[VRAM_RESPONSE_HALVE], want.halve);
    assert_int_equal(stats.response_steps[VRAM_RESPONSE_DROP], want.drop);
    assert_int_equal(stats.response_steps[VRAM_RESPONSE_EMERGENCY], want.emergency);
}

/* At each boundary what is due there and no more; what is live is never touched. */
TEST(acceptance_06_response_at_each_boundary) {
    static const struct {
        uint64_t value;
        struct steps steps;
        bool cached; /* something is cached afterwards */
    } walk[] = {{5999, {0, 0, 0}, true},  {6000, {0, 0, 0}, true}, {7999, {0, 0, 0}, true},
                {8000, {1, 1, 0}, true},  {9000, {1, 1, 0}, true}, {9001, {1, 1, 1}, false},
                {9500, {1, 1, 1}, false}, {9501, {1, 1, 1}, false}};
    vram_addr live;
    struct rig rig = rig_told();
    vram_pool *pool = pool_of(&rig, NULL);
    assert_ok(vram_alloc(pool, 3 * MIB, rig.queue, &live));
    cache_blocks(&rig, pool, 4 * KIB, 32, 100);
    cache_blocks(&rig, pool, 8 * KIB, 32, 0);
    vram_pool_stats before = stats_of(pool);
    for (unsigned i = 0; i < sizeof walk / sizeof walk[0]; i++) {
        told_pressure(walk[i].value);
        pressure_of(pool);
        expect_steps(pool, walk[i].steps);
        vram_pool_stats after = stats_of(pool);
        assert_int_equal(after.cached_bytes != 0, walk[i].cached);
        assert_int_equal(after.allocated_bytes, before.allocated_bytes);
        assert_int_equal(after.live_blocks, 1);
        assert_int_equal(after.allocs, before.allocs);
        if (walk[i].value == 8000) { /* half of all, then all of the size that nobody hits */
            uint64_t halved = after.response_bytes[VRAM_RESPONSE_HALVE];
            assert_true(halved >= before.cached_bytes / 2); /* of an odd number the larger half */
            assert_true(halved <= before.cached_bytes / 2 + 4 * 8 * KIB);
            assert_true(after.cached_bytes < before.cached_bytes / 2);
            assert_int_equal(after.cached_bytes % (4 * KIB), 0);
        }
    }
    assert_ok(vram_free(live, rig.queue));
    rig_end_clean(&rig);
}

/* Once per crossing, and not sooner than the interval. */
TEST(responses_are_armed_again) {
    struct rig rig = rig_told();
    vram_pool *pool = pool_of(&rig, NULL);
    told_pressure(8500);
    pressure_of(pool);
    told_pressure(7600); /* within the hysteresis: not below */
    pressure_of(pool);
    told_pressure(8500);
    assert_ok(vram_sim_clock_advance(rig.context, 2 * SECOND));
    pressure_of(pool);
    expect_steps(pool, (struct steps){1, 1, 0});
    told_pressure(7000);
    pressure_of(pool);
    told_pressure(8500);
    pressure_of(pool);
    expect_steps(pool, (struct steps){2, 2, 0});
    told_pressure(7000);
    pressure_of(pool);
    told_pressure(8500); /* too soon, and made up for as soon as it may be */
    pressure_of(pool);
    expect_steps(pool, (struct steps){2, 2, 0});
    assert_ok(vram_sim_clock_advance(rig.context, 1 * SECOND));
    pressure_of(pool);
    expect_steps(pool, (struct steps){3, 3, 0});
    rig_end_clean(&rig);
}

TEST(each_step_can_be_switched_off) {
    static const char *const options[] = {"response_halve", "response_drop", "response_emergency"};
    for (unsigned i = 0; i < 6; i++) {
        unsigned off = i % 3;
        vram_response_options response = {.size = sizeof response, .off = 1u << off};
        vram_pool_options wanted = {.size = sizeof wanted, .response = &response};
        if (i >= 3) { /* by option, and set when the pool is there already */
            response.off = 0;
            assert_ok(vram_option_set(options[off], "off"));
        }
        struct rig rig = rig_told();
        vram_pool *pool = pool_of(&rig, &wanted);
        vram_pool *later = pool_of(&rig, NULL);
        assert_ok(vram_pool_response_set(later, &response));
        told_pressure(9900);
        pressure_of(pool);
        expect_steps(pool, (struct steps){off != 0, off != 1, off != 2});
        pressure_of(later);
        expect_steps(later, (struct steps){off != 0, off != 1, off != 2});
        rig_end_clean(&rig);
        vr_option_reset();
    }
}

/* Its addresses follow from the order of calls alone: it is told of pressure and does nothing. */
TEST(deterministic_pools_do_not_respond) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_DETERMINISTIC};
    struct log log = {0};
    struct rig rig = rig_told();
    vram_pool *pool = pool_of(&rig, &options), *other = pool_of(&rig, NULL);
    cache_blocks(&rig, pool, 3 * MIB, 4, 0);
    watch_pool(pool, write_down, &log, 0);
    uint64_t held = stats_of(pool).reserved_bytes;
    told_pressure(9900);
    pressure_of(pool);
    pressure_of(other); /* whose emergency cleanup passes by the first */
    expect_steps(pool, (struct steps){0, 0, 0});
    expect_steps(other, (struct steps){1, 1, 1});
    assert_int_equal(stats_of(pool).reserved_bytes, held);
    assert_int_equal(log.calls, 2);
    rig_end_clean(&rig);
}

static void fall_when_told(void *user, const vram_pressure_event *event) {
    write_down(user, event);
    told_pressure(1000);
}

/* What an emergency has released is seen by the same check of the pressure. */
TEST(an_emergency_is_followed_by_a_look) {
    struct log log = {0};
    struct rig rig = rig_told();
    vram_pool *pool = pool_of(&rig, NULL);
    told_pressure(8500);
    pressure_of(pool);
    watch_pool(pool, fall_when_told, &log, 0);
    told_pressure(9500);
    pressure_of(pool);
    expect_steps(pool, (struct steps){1, 1, 1});
    assert_false(log.last.up);
    rig_end_clean(&rig);
}

/* What a thread has not used for a while goes, by halves; what it uses stays. No thread is
   needed. */
TEST(idle_caches_decay) {
    vram_addr addr;
    struct rig rig = rig_told();
    vram_pool *pool = pool_of(&rig, NULL);
    cache_blocks(&rig, pool, 2 * MIB, 1, 0);
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_CACHES), &(uint64_t){0})); /* a hole */
    cache_blocks(&rig, pool, 4 * KIB, 32, 1);
    cache_blocks(&rig, pool, 8 * KIB, 32, 1);
    uint64_t before = stats_of(pool).cached_bytes;
    pressure_of(pool);
    assert_int_equal(stats_of(pool).cached_bytes, before);
    assert_ok(vram_sim_clock_advance(rig.context, 10 * SECOND));
    pressure_of(pool); /* both were used since the start; what lies in the central cache was not */
    uint64_t last = stats_of(pool).cached_bytes;
    assert_true(last >= before / 2 && last < before);
    for (int round = 0; round < 8; round++) {
        assert_ok(vram_alloc(pool, 4 * KIB, rig.queue, &addr)); /* a hit */
        assert_ok(vram_free(addr, rig.queue));
        assert_ok(vram_sim_clock_advance(rig.context, 10 * SECOND));
        pressure_of(pool);
        uint64_t now = stats_of(pool).cached_bytes;
        assert_true(now < last || round > 3);
        last = now;
    }
    assert_int_equal(last % (4 * KIB), 0);
    assert_true(last >= 16 * 4 * KIB && last <= 32 * 4 * KIB);
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.response_steps[VRAM_RESPONSE_DECAY], 9);
    assert_int_equal(stats.response_bytes[VRAM_RESPONSE_DECAY], before - last);
    assert_ok(vram_sim_clock_advance(rig.context, 10 * SECOND));
    for (int i = 0; i < 16; i++) { /* misses come by */
        vram_alloc_options aligned = {.size = sizeof aligned, .alignment = 4096};
        assert_ok(vram_alloc_with(pool, 40 * KIB, rig.queue, &aligned, &addr));
        assert_ok(vram_free(addr, rig.queue));
    }
    assert_int_equal(stats_of(pool).response_steps[VRAM_RESPONSE_DECAY], 10);
    vram_response_options off = {.size = sizeof off, .off = 1 << VRAM_RESPONSE_DECAY};
    assert_ok(vram_pool_response_set(pool, &off));
    assert_ok(vram_sim_clock_advance(rig.context, 100 * SECOND));
    pressure_of(pool);
    assert_int_equal(stats_of(pool).response_steps[VRAM_RESPONSE_DECAY], 10);
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_ok(vram_pool_trim(pool, NULL, NULL)); /* what went is free memory */
    assert_int_equal(stats_of(pool).reserved_bytes, 0);
    rig_end_clean(&rig);
}
