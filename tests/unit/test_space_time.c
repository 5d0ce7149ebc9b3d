/* SPDX-License-Identifier: Apache-2.0 */
/* test_space_time.c: the block engine and the queues: who may reuse what, and when. */
#include "rig/rig.h"
#include "space_fixture.h"

#include <string.h>

static int begin(void) {
    return fixture_begin(0, false);
}

static struct vr_block *get(struct fixture *fixture, uint64_t bytes, uint64_t queue) {
    struct vr_block *block = driver_alloc(&fixture->driver, fixture->space, bytes, queue);
    assert_sound(fixture->space);
    return block;
}

static void put(struct fixture *fixture, struct vr_block *block, uint64_t queue, uint64_t value) {
    driver_free(fixture->space, block, queue, value);
    assert_sound(fixture->space);
}

/* A block of memory that is held already, or NULL. */
static struct vr_block *held(struct fixture *fixture, uint64_t bytes, uint64_t queue,
                             uint32_t flags, struct vr_stamp *after) {
    struct vr_want want = {.bytes = bytes, .queue = queue, .flags = VR_WANT_HELD | flags};
    struct vr_answer answer;
    if (vr_space_alloc(fixture->space, &want, &answer) != VRAM_OK) {
        return NULL;
    }
    assert_sound(fixture->space);
    *after = answer.after;
    return answer.block;
}

TEST(test_same_queue) {
    struct fixture *fixture = rig_state;
    struct vr_stamp after;
    struct vr_block *block = get(fixture, 8 * VR_MIB, 1);
    uint64_t addr = addr_of(block);
    put(fixture, block, 1, 10);
    block = held(fixture, 8 * VR_MIB, 1, 0, &after);
    assert_non_null(block);
    assert_int_equal(addr_of(block), addr);
    assert_int_equal(after.queue, 0);
}

TEST(test_other_queue) {
    struct fixture *fixture = rig_state;
    struct vr_stamp after, pending;
    put(fixture, get(fixture, 8 * VR_MIB, 1), 1, 10);
    assert_null(held(fixture, 8 * VR_MIB, 2, 0, &after));
    assert_true(vr_space_pending(fixture->space, &pending));
    assert_int_equal(pending.queue, 1);
    assert_int_equal(pending.value, 10);
    fixture->driver.passed[1] = 9;
    assert_null(held(fixture, 8 * VR_MIB, 2, 0, &after));
    fixture->driver.passed[1] = 10;
    assert_non_null(held(fixture, 8 * VR_MIB, 2, 0, &after));
    assert_int_equal(after.queue, 0);
    assert_false(vr_space_pending(fixture->space, &pending));
}

static uint64_t pending_holes(struct fixture *fixture) {
    struct vr_space_stats stats;
    vr_space_stats_get(fixture->space, &stats);
    return stats.pending_bytes / 512;
}

/* After thousands of small frees a request looks at a part of them, and at all when memory is
   short: others wait for the lock meanwhile. */
TEST(test_settles_in_parts) {
    enum { COUNT = 3000, PART = 1024 };
    struct fixture *fixture = rig_state;
    struct vr_block *blocks[2 * COUNT];
    struct vr_stamp after;
    for (int i = 0; i < 2 * COUNT; i++) {
        blocks[i] = driver_alloc(&fixture->driver, fixture->space, 512, 1);
    }
    for (int i = 0; i < 2 * COUNT; i += 2) {
        driver_free(fixture->space, blocks[i], 1, 10);
    }
    assert_int_equal(pending_holes(fixture), COUNT);
    fixture->driver.passed[1] = 10;
    assert_null(held(fixture, 64 * VR_MIB, 2, 0, &after));
    assert_int_equal(pending_holes(fixture), COUNT - PART);
    assert_null(held(fixture, 64 * VR_MIB, 2, VR_WANT_AFTER, &after));
    assert_int_equal(pending_holes(fixture), 0);
}

/* Another queue's memory, and what to wait for. */
TEST(test_after) {
    struct fixture *fixture = rig_state;
    struct vr_stamp after = {0};
    put(fixture, get(fixture, 8 * VR_MIB, 1), 1, 10);
    put(fixture, get(fixture, 4 * VR_MIB, 3), 3, 7);
    struct vr_block *block = held(fixture, 4 * VR_MIB, 2, VR_WANT_AFTER, &after);
    assert_non_null(block);
    assert_int_equal(after.queue, 3); /* the smaller of the two holes */
    assert_int_equal(after.value, 7);
    put(fixture, block, 2, 1);
    block = held(fixture, 8 * VR_MIB, 2, VR_WANT_AFTER, &after);
    assert_non_null(block);
    assert_int_equal(after.queue, 1);
    assert_int_equal(after.value, 10);
}

/* Neighbours of two queues stay apart until one of the stamps passes. */
TEST(test_neighbours) {
    struct fixture *fixture = rig_state;
    struct vr_stamp after;
    struct vr_block *low = get(fixture, 2 * VR_MIB, 1), *high = get(fixture, 2 * VR_MIB, 1);
    assert_int_equal(addr_of(high), addr_of(low) + 2 * VR_MIB);
    put(fixture, low, 1, 10);
    put(fixture, high, 2, 20);
    assert_int_equal(stats_of(fixture).holes, 2);
    assert_null(held(fixture, 4 * VR_MIB, 1, 0, &after));
    assert_null(held(fixture, 4 * VR_MIB, 2, 0, &after));
    fixture->driver.passed[1] = 10;
    assert_null(held(fixture, 4 * VR_MIB, 1, 0, &after));
    assert_int_equal(stats_of(fixture).holes, 1);
    struct vr_block *both = held(fixture, 4 * VR_MIB, 2, 0, &after);
    assert_non_null(both);
    put(fixture, both, 0, 0);
    assert_int_equal(stats_of(fixture).pending_bytes, 0);
    assert_non_null(held(fixture, 4 * VR_MIB, 5, 0, &after));
}

/* [1][2 passed][1] becomes one hole of queue 1. */
TEST(test_chain_of_mergers) {
    struct fixture *fixture = rig_state;
    struct vr_block *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = get(fixture, 2 * VR_MIB, 1);
    }
    put(fixture, blocks[0], 1, 10);
    put(fixture, blocks[1], 2, 20);
    fixture->driver.passed[2] = 20;
    put(fixture, blocks[2], 1, 11);
    assert_int_equal(stats_of(fixture).holes, 1);
    assert_int_equal(stats_of(fixture).largest_hole_bytes, 6 * VR_MIB);
}

/* Memory under unfinished work does not move, however much it is needed. */
TEST(test_no_move_under_work) {
    struct fixture *fixture = rig_state;
    fixture->config.limit_bytes = 64 * VR_MIB;
    vr_space_destroy(fixture->space);
    assert_int_equal(vr_space_create(&fixture->config, &fixture->space), VRAM_OK);
    struct vr_block *low = get(fixture, 32 * VR_MIB, 1), *high = get(fixture, 32 * VR_MIB - 512, 1);
    put(fixture, low, 1, 10);
    struct vr_want want = {.bytes = 24 * VR_MIB, .queue = 2};
    struct vr_answer answer;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_ERR_NOT_READY);
    want.flags = VR_WANT_NO_GROWTH;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_ERR_NOT_READY);
    struct vr_plan *plan = NULL;
    assert_int_equal(vr_space_trim(fixture->space, 0, &plan), VRAM_OK);
    assert_null(plan);
    fixture->driver.passed[1] = 10;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    assert_non_null(answer.block);
    vr_space_free(fixture->space, answer.block);
    put(fixture, high, 1, 11);
}

/* A thousand holes of as many queues: all of them settle in the end. */
TEST(test_many_queues) {
    struct fixture *fixture = rig_state;
    enum { COUNT = 1000 };
    struct vr_block *blocks[COUNT];
    struct vr_stamp after;
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = get(fixture, 4096, 1);
    }
    for (int i = 0; i < COUNT; i++) {
        put(fixture, blocks[i], 8 + (uint64_t)i, 1); /* queues 8 .. 1007, all distinct */
    }
    assert_true(stats_of(fixture).holes >= COUNT);
    assert_null(held(fixture, 8192, 1, 0, &after));
    assert_non_null(held(fixture, 4096, 1, VR_WANT_AFTER, &after));
    assert_true(after.queue >= 8);
    for (int i = 0; i < 8; i++) {
        fixture->driver.passed[i] = 1;
    }
    assert_non_null(held(fixture, 64 * 4096, 1, 0, &after));
    assert_true(stats_of(fixture).holes <= 2);
}

/* One order of requests, one layout: time and what has passed have no part in it. */
static uint64_t deterministic_run(uint64_t lag, uint64_t *questions) {
    struct driver driver = {{0}, 0, 0, 0};
    struct vr_space_config config = driver_config(&driver);
    struct vr_space *space = NULL;
    struct vr_block *blocks[64] = {NULL};
    config.deterministic = true;
    assert_int_equal(vr_space_create(&config, &space), VRAM_OK);
    uint64_t random = 1;
    for (uint64_t i = 0; i < 5000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        uint64_t slot = random >> 32 & 63, queue = 1 + (random >> 40) % 3;
        driver.passed[queue] = i > lag ? i - lag : 0;
        if (blocks[slot]) {
            driver_free(space, blocks[slot], queue, i);
            blocks[slot] = NULL;
        } else {
            struct vr_want want = {.bytes = 1 + (random >> 20) % (8 * VR_MIB),
                                   .queue = queue,
                                   .now_ns = i * lag * 1000};
            blocks[slot] = driver_want(&driver, space, &want, false);
            assert_non_null(blocks[slot]);
        }
    }
    assert_sound(space);
    uint64_t hash = vr_space_hash(space);
    vr_space_destroy(space);
    *questions = driver.questions;
    return hash;
}

TEST_IN(NULL, NULL, test_deterministic) {
    uint64_t questions = 0;
    uint64_t hash = deterministic_run(1, &questions);
    assert_int_equal(questions, 0);
    assert_int_equal(deterministic_run(4000, &questions), hash);
    assert_int_equal(questions, 0);
}

/* ----------------------------------------------------------------- aliases */

static int begin_alias(void) {
    return fixture_begin(0, true);
}

/* Two blocks apart, freed under work of queue 1; together they are as large as `wish`. */
static void leave_two_holes(struct fixture *fixture, uint64_t wish) {
    struct vr_block *low = get(fixture, wish / 2, 1), *wall = get(fixture, GRANULE, 1);
    struct vr_block *high = get(fixture, wish / 2, 1), *top = get(fixture, GRANULE, 1);
    assert_non_null(wall);
    assert_non_null(top);
    put(fixture, low, 1, 10);
    put(fixture, high, 1, 11);
}

static struct vr_plan *plan_of(struct fixture *fixture, uint64_t bytes, uint64_t queue, bool grow) {
    struct vr_want want = {
        .bytes = bytes, .queue = queue, .now_ns = 1, .flags = grow ? 0 : VR_WANT_NO_GROWTH};
    struct vr_answer answer = {0};
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    assert_non_null(answer.plan);
    return answer.plan;
}

static uint32_t steps_of(const struct vr_plan *plan, enum vr_step_kind kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        count += plan->steps[i].kind == kind;
    }
    return count;
}

static struct vr_plan *sweep_of(struct fixture *fixture) {
    struct vr_plan *plan = NULL;
    assert_int_equal(vr_space_sweep(fixture->space, &plan), VRAM_OK);
    assert_sound(fixture->space);
    return plan;
}

/* The queue's own unfinished memory is mapped where it is needed; the old places go after the
   work. */
TEST_IN(begin_alias, fixture_end, test_moved_under_work) {
    struct fixture *fixture = rig_state;
    uint64_t wish = 64 * VR_MIB;
    leave_two_holes(fixture, wish);
    uint64_t held_bytes = stats_of(fixture).reserved_bytes;
    struct vr_plan *plan = plan_of(fixture, wish, 1, false);
    assert_int_equal(plan->created_bytes, 0);
    assert_int_equal(steps_of(plan, VR_STEP_UNMAP), 0);
    assert_true(plan->moved_handles > 0);
    struct vr_block *block = driver_commit(&fixture->driver, fixture->space, plan, false);
    assert_sound(fixture->space);
    assert_int_equal(stats_of(fixture).reserved_bytes, held_bytes);
    uint64_t stale_mappings = stats_of(fixture).stale_mappings;
    assert_true(stale_mappings > 0);
    assert_true(vr_space_covers(fixture->space, addr_of(block), wish));
    assert_null(sweep_of(fixture)); /* the work is not over */
    fixture->driver.passed[1] = 11;
    plan = sweep_of(fixture);
    assert_non_null(plan);
    assert_int_equal(steps_of(plan, VR_STEP_UNMAP), stale_mappings);
    assert_int_equal(plan->count, stale_mappings);
    assert_null(driver_commit(&fixture->driver, fixture->space, plan, false));
    assert_sound(fixture->space);
    assert_int_equal(stats_of(fixture).stale_mappings, 0);
    assert_true(vr_space_covers(fixture->space, addr_of(block), wish));
    assert_null(sweep_of(fixture));
}

/* Another queue's unfinished memory stays where it is. */
TEST_IN(begin_alias, fixture_end, test_not_of_others) {
    struct fixture *fixture = rig_state;
    leave_two_holes(fixture, 64 * VR_MIB);
    struct vr_plan *plan = plan_of(fixture, 64 * VR_MIB, 2, true);
    assert_int_equal(plan->moved_handles, 0);
    assert_int_equal(plan->created_bytes, 64 * VR_MIB);
    driver_commit(&fixture->driver, fixture->space, plan, false);
    assert_sound(fixture->space);
    assert_int_equal(stats_of(fixture).stale_mappings, 0);
}

/* What the block leaves of its window is the queue's, not everybody's. */
TEST_IN(begin_alias, fixture_end, test_rest_is_pending) {
    struct fixture *fixture = rig_state;
    struct vr_stamp after;
    leave_two_holes(fixture, 64 * VR_MIB);
    struct vr_plan *plan = plan_of(fixture, 64 * VR_MIB - 4096, 1, false);
    struct vr_block *block = driver_commit(&fixture->driver, fixture->space, plan, false);
    assert_sound(fixture->space);
    assert_true(stats_of(fixture).stale_mappings > 0);
    assert_null(held(fixture, 4096, 2, 0, &after));
    struct vr_block *rest = held(fixture, 4096, 1, 0, &after);
    assert_non_null(rest);
    assert_int_equal(addr_of(rest), addr_of(block) + 64 * VR_MIB - 4096);
}

/* A driver that fails half-way leaves everything as it was, under its stamps. */
TEST_IN(begin_alias, fixture_end, test_alias_undone) {
    struct fixture *fixture = rig_state;
    struct vr_stamp after;
    leave_two_holes(fixture, 64 * VR_MIB);
    struct vr_space_stats before = stats_of(fixture);
    struct vr_plan *plan = plan_of(fixture, 64 * VR_MIB, 1, false);
    uint32_t maps = steps_of(plan, VR_STEP_MAP);
    vr_space_undo(fixture->space, plan, maps); /* the access failed */
    assert_int_equal(plan->count, maps);
    assert_int_equal(steps_of(plan, VR_STEP_UNMAP), maps);
    vr_space_abort(fixture->space, plan, NULL);
    assert_sound(fixture->space);
    assert_int_equal(stats_of(fixture).stale_mappings, 0);
    assert_int_equal(stats_of(fixture).pending_bytes, before.pending_bytes);
    assert_int_equal(stats_of(fixture).reserved_bytes, before.reserved_bytes);
    assert_null(held(fixture, 32 * VR_MIB, 2, 0, &after));
    assert_non_null(held(fixture, 32 * VR_MIB, 1, 0, &after));
}

/* Memory with a stale mapping is not given back, and a sweep that fails leaves the stale
   mapping. */
TEST_IN(begin_alias, fixture_end, test_stale_mappings_hold) {
    struct fixture *fixture = rig_state;
    struct vr_plan *plan;
    leave_two_holes(fixture, 64 * VR_MIB);
    struct vr_block *block = driver_commit(&fixture->driver, fixture->space,
                                           plan_of(fixture, 64 * VR_MIB, 1, false), false);
    uint64_t stale_mappings = stats_of(fixture).stale_mappings;
    put(fixture, block, 0, 0); /* free at once */
    assert_int_equal(vr_space_trim(fixture->space, 0, &plan), VRAM_OK);
    assert_null(plan);
    fixture->driver.passed[1] = 11;
    plan = sweep_of(fixture);
    vr_space_undo(fixture->space, plan, 1);
    assert_int_equal(plan->count, 0);
    vr_space_abort(fixture->space, plan, NULL);
    assert_sound(fixture->space);
    assert_int_equal(stats_of(fixture).stale_mappings, stale_mappings - 1);
    driver_commit(&fixture->driver, fixture->space, sweep_of(fixture), false);
    assert_int_equal(stats_of(fixture).stale_mappings, 0);
    put(fixture, get(fixture, 512, 1), 0, 0); /* a hole that changes is looked at again */
}

/* But it is mapped where it is needed, a further time, until the sweep. */
TEST_IN(begin_alias, fixture_end, test_stale_mappings_move) {
    struct fixture *fixture = rig_state;
    leave_two_holes(fixture, 64 * VR_MIB);
    struct vr_block *block = driver_commit(&fixture->driver, fixture->space,
                                           plan_of(fixture, 64 * VR_MIB, 1, false), false);
    uint64_t stale_mappings = stats_of(fixture).stale_mappings;
    put(fixture, block, 0, 0); /* free at once */
    struct vr_want want = {.bytes = 32 * VR_MIB,
                           .reserve = 2 * VR_MIB, /* so that it goes to another place */
                           .queue = 1,
                           .now_ns = 1,
                           .flags = VR_WANT_NO_GROWTH};
    struct vr_answer answer = {0};
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    assert_non_null(answer.plan);
    assert_int_equal(answer.plan->created_bytes, 0);
    assert_int_equal(steps_of(answer.plan, VR_STEP_UNMAP), 0);
    uint64_t handles = answer.plan->moved_handles;
    block = driver_commit(&fixture->driver, fixture->space, answer.plan, false);
    assert_sound(fixture->space);
    assert_true(vr_space_covers(fixture->space, addr_of(block), 32 * VR_MIB));
    assert_int_equal(stats_of(fixture).stale_mappings, stale_mappings + handles);
    fixture->driver.passed[1] = 11;
    driver_commit(&fixture->driver, fixture->space, sweep_of(fixture), false);
    assert_int_equal(stats_of(fixture).stale_mappings, 0);
    assert_true(vr_space_covers(fixture->space, addr_of(block), 32 * VR_MIB));
}

/* A window whose last granules no piece under work is small enough for becomes longer, so that a
   larger one fits, and the pool does not grow; if the driver fails it is as long as it was. */
TEST_IN(begin_alias, fixture_end, test_reaches_further) {
    struct fixture *fixture = rig_state;
    leave_two_holes(fixture, 64 * VR_MIB);
    uint64_t held_bytes = stats_of(fixture).reserved_bytes, wish = 62 * VR_MIB;
    struct vr_want want = {.bytes = wish, .queue = 1, .now_ns = 1000000000};
    struct vr_answer answer = {0};
    for (int fails = 1; fails >= 0; fails--) {
        uint64_t hash = vr_space_hash(fixture->space);
        assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
        assert_non_null(answer.plan);
        assert_sound(fixture->space);
        assert_int_equal(answer.plan->created_bytes, 0);
        assert_true(answer.plan->moved_bytes > wish);
        if (fails) {
            vr_space_undo(fixture->space, answer.plan, steps_of(answer.plan, VR_STEP_MAP));
            vr_space_abort(fixture->space, answer.plan, NULL);
            assert_sound(fixture->space);
            assert_int_equal(vr_space_hash(fixture->space), hash);
        }
    }
    struct vr_block *block = driver_commit(&fixture->driver, fixture->space, answer.plan, false);
    assert_sound(fixture->space);
    assert_int_equal(stats_of(fixture).reserved_bytes, held_bytes);
    assert_true(vr_space_covers(fixture->space, addr_of(block), wish + GRANULE));
}

EACH_TEST(begin, fixture_end)
