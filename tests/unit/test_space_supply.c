/* SPDX-License-Identifier: Apache-2.0 */
/* test_space_supply.c: the block engine: whose memory is taken, when, and how large handles are
   made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/space/span.h"
#include "space_fixture.h"

static int begin(void **state) {
    return fixture_begin(state, UINT64_MAX, false);
}

/* Where the one handle lies that is given up first. */
static uint64_t first_given_up(struct fixture *fixture) {
    struct vr_plan *plan = NULL;
    uint64_t addr = 0;
    assert_int_equal(
        vr_space_trim(fixture->space, stats_of(fixture).reserved_bytes - GRANULE, &plan), VRAM_OK);
    assert_non_null(plan);
    for (uint32_t i = 0; i < plan->count; i++) {
        addr = plan->steps[i].kind == VR_STEP_UNMAP ? plan->steps[i].addr : addr;
    }
    vr_space_undo(fixture->space, plan, 0);
    vr_space_abort(fixture->space, plan, NULL);
    assert_sound(fixture->space);
    return addr;
}

/* A hole that ends at bare addresses shrinks from there; one between blocks from below. */
static void test_bare_end(void **state) {
    struct fixture *fixture = *state;
    struct vr_block *low = fixture_get(fixture, 32 * VR_MIB),
                    *mid = fixture_get(fixture, 2 * VR_MIB);
    struct vr_block *high = fixture_get(fixture, 30 * VR_MIB);
    uint64_t start = addr_of(low), top = addr_of(high) + 30 * VR_MIB;
    fixture_put(fixture, low);
    assert_int_equal(first_given_up(fixture), start);
    fixture_put(fixture, mid);
    low = fixture_get(fixture, 34 * VR_MIB); /* all of the hole */
    fixture_put(fixture, high);
    assert_true(first_given_up(fixture) >= top - 4 * VR_MIB);
    fixture_put(fixture, low);
}

/* A small hole beside bare addresses goes before an older one between blocks, a large one does
   not. */
static void test_islands_first(void **state) {
    struct fixture *fixture = *state;
    for (int large = 0; large < 2; large++) {
        fixture_restart(fixture);
        struct vr_block *old = fixture_get(fixture, 32 * VR_MIB),
                        *between = fixture_get(fixture, 2 * VR_MIB);
        struct vr_block *island = fixture_get(fixture, (large ? 320 : 32) * VR_MIB);
        uint64_t at = addr_of(island);
        fixture_put(fixture, old);
        fixture_put(fixture, island);
        assert_int_equal(first_given_up(fixture) >= at, !large);
        fixture_put(fixture, between);
    }
}

/* Two holes of 8 MiB, of which neither has room for 12. */
static void two_holes(struct fixture *fixture) {
    struct vr_block *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = fixture_get(fixture, 8 * VR_MIB + 512 * (uint64_t)i);
    }
    fixture_put(fixture, blocks[0]);
    fixture_put(fixture, blocks[2]);
}

/* With an empty time budget a block that is much to the pool moves memory, and one that is little
   grows it. */
static void test_giants(void **state) {
    struct fixture *fixture = *state;
    fixture->config.share_ppm = 0;
    for (int giant = 0; giant < 2; giant++) {
        fixture_restart(fixture);
        fixture_get(fixture, (giant ? 256 : 4096) * VR_MIB);
        two_holes(fixture);
        fixture_get(fixture, 12 * VR_MIB);
        assert_int_equal(stats_of(fixture).moved_pieces > 0, giant);
    }
}

/* The slack is wider while there is no time for moving in hand, unless the program has set it. */
static void test_elastic_slack(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        uint32_t ppm;
        uint64_t bytes, now_ns;
        bool moves;
    } cases[] = {{200000, 0, 1, false},
                 {200000, 0, 1000000000, true},
                 {0, 10 * VR_MIB, 1, true},
                 {0, 24 * VR_MIB, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture->config.slack_ppm = cases[i].ppm;
        fixture->config.slack_bytes = cases[i].bytes;
        fixture_restart(fixture);
        fixture_get(fixture, 32 * VR_MIB);
        two_holes(fixture);
        struct vr_want want = {.bytes = 12 * VR_MIB, .queue = 1, .now_ns = cases[i].now_ns};
        assert_non_null(driver_want(&fixture->driver, fixture->space, &want, false));
        assert_sound(fixture->space);
        assert_int_equal(stats_of(fixture).moved_pieces > 0, cases[i].moves);
    }
}

/* Handles made of others are fine at both ends of a window and coarse inside. */
static void test_graded(void **state) {
    struct fixture *fixture = *state;
    struct vr_block *blocks[80];
    for (int i = 0; i < 80; i++) {
        blocks[i] = fixture_get(fixture, (i % 2 ? 2 : 8) * VR_MIB);
    }
    for (int i = 0; i < 80; i += 2) {
        fixture_put(fixture, blocks[i]);
    }
    struct vr_want want = {.bytes = 256 * VR_MIB, .queue = 1, .flags = VR_WANT_NO_GROWTH};
    struct vr_answer answer;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    uint64_t start = answer.plan->addr, end = start + want.bytes, largest = 0;
    for (uint32_t i = 0; i < answer.plan->count; i++) {
        const struct vr_step *step = &answer.plan->steps[i];
        if (step->kind == VR_STEP_MAP) {
            uint64_t below = step->addr > start ? step->addr - start : 0;
            uint64_t above = end > step->addr ? end - step->addr : 0;
            uint64_t most = (below < above ? below : above) / 2;
            assert_true(step->bytes <= (most > 4 * VR_MIB ? most : 4 * VR_MIB));
            largest = step->bytes > largest ? step->bytes : largest;
        }
    }
    assert_int_equal(largest, 32 * VR_MIB);
    driver_commit(&fixture->driver, fixture->space, answer.plan, false);
}

/* The largest handle of those that are made for a block when `first` bytes are out already; where
   they lie says the plan. */
static uint64_t largest_made(struct fixture *fixture, uint64_t first, uint64_t bytes) {
    struct vr_want want = {.bytes = bytes, .queue = 1};
    struct vr_answer answer;
    uint64_t largest = 0;
    fixture_restart(fixture);
    fixture_get(fixture, first);
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    uint64_t start = answer.plan->addr, end = start + bytes;
    for (uint32_t i = 0; i < answer.plan->count; i++) {
        const struct vr_step *step = &answer.plan->steps[i];
        if (step->kind == VR_STEP_CREATE) {
            largest = step->bytes > largest ? step->bytes : largest;
        }
        if (step->kind == VR_STEP_MAP && (step->addr < start + 8 * VR_MIB || step->addr >= end)) {
            assert_true(step->bytes <= 4 * VR_MIB);
        }
    }
    driver_commit(&fixture->driver, fixture->space, answer.plan, false);
    return largest;
}

/* What a block is made of that is half of all memory is coarse inside from the start; others are
   not. */
static void test_vast(void **state) {
    struct fixture *fixture = *state;
    assert_int_equal(largest_made(fixture, 64 * VR_MIB, 512 * VR_MIB), 8 * VR_MIB);
    assert_int_equal(largest_made(fixture, 1024 * VR_MIB, 512 * VR_MIB), 4 * VR_MIB);
    assert_int_equal(largest_made(fixture, 4 * VR_MIB, 128 * VR_MIB), 4 * VR_MIB);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bare_end, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_islands_first, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_giants, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_elastic_slack, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_graded, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_vast, begin, fixture_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
