/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_space.c: what the naive model of the block engine (tests/pool/model.c) does not ask: when
 * memory is moved, what is left to large blocks, what a request costs, and memory that is mapped
 * elsewhere under the work of its own queue.
 */
#include "rig/rig.h"
#include "unit/space_driver.h"

#include <stdlib.h>

struct fixture {
    struct driver driver;
    struct vr_space_config config;
    struct vr_space *space;
};

static void assert_sound(const struct vr_space *space) {
    char text[200] = "";
    if (!vr_space_check(space, text, sizeof text)) {
        fail_msg("%s", text);
    }
}

static struct vr_space_stats stats_of(struct fixture *fixture) {
    struct vr_space_stats stats;
    vr_space_stats_get(fixture->space, &stats);
    return stats;
}

static int begin(void) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->config = driver_config(&fixture->driver);
    assert_int_equal(vr_space_create(&fixture->config, &fixture->space), VRAM_OK);
    rig_state = fixture;
    return 0;
}

static int end(void) {
    struct fixture *fixture = rig_state;
    assert_sound(fixture->space);
    vr_space_destroy(fixture->space);
    free(fixture);
    return 0;
}

/* An empty space with today's configuration; queue 1 has completed its work up to `passed`. */
static void restart(struct fixture *fixture, uint64_t passed) {
    vr_space_destroy(fixture->space);
    fixture->driver = (struct driver){.passed = {[1] = passed}};
    assert_int_equal(vr_space_create(&fixture->config, &fixture->space), VRAM_OK);
}

/* A block of queue 1. */
static struct vr_block *get(struct fixture *fixture, uint64_t bytes) {
    bool segments = fixture->config.mode == VR_SPACE_SEGMENTS;
    struct vr_want want = {.bytes = bytes, .queue = 1, .now_ns = 1};
    struct vr_block *block = driver_want(&fixture->driver, fixture->space, &want, segments);
    assert_non_null(block);
    assert_sound(fixture->space);
    return block;
}

static void put(struct fixture *fixture, struct vr_block *block, uint64_t value) {
    driver_free(fixture->space, block, 1, value);
    assert_sound(fixture->space);
}

/* --------------------------------------------------------------------- what is chosen */

/* Free memory in two holes serves a block that neither has room for, where there is time to spend
   on moves, once enough time has passed, and where the pool may not grow. */
TEST(moves_have_a_budget) {
    static const struct {
        uint64_t credit_ns, now_ns;
        uint32_t share_ppm, flags;
        bool moves;
    } rows[] = {
        {1000000000, 1, 10000, 0, true},    {0, 1, 0, 0, false},
        {0, 1, 0, VR_WANT_NO_GROWTH, true}, {0, 1, 10000, 0, false},
        {0, 2000000000, 10000, 0, true},
    };
    struct fixture *fixture = rig_state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct vr_want want = {
            .bytes = 12 * VR_MIB, .queue = 1, .now_ns = rows[i].now_ns, .flags = rows[i].flags};
        struct vr_block *blocks[4];
        fixture->config.credit_ns = rows[i].credit_ns;
        fixture->config.share_ppm = rows[i].share_ppm;
        restart(fixture, UINT64_MAX);
        for (uint64_t k = 0; k < 4; k++) {
            blocks[k] = get(fixture, 8 * VR_MIB + k * 512);
        }
        put(fixture, blocks[0], 1);
        put(fixture, blocks[2], 1);
        uint64_t reserved = stats_of(fixture).reserved_bytes;
        assert_non_null(driver_want(&fixture->driver, fixture->space, &want, false));
        assert_sound(fixture->space);
        assert_int_equal(stats_of(fixture).moved_pieces > 0, rows[i].moves);
        assert_int_equal(stats_of(fixture).reserved_bytes > reserved, !rows[i].moves);
    }
}

/* A block goes into the hole that it fills, and a small one leaves the topmost to large ones. */
TEST(holes_are_chosen) {
    static const uint64_t sizes[] = {40, 5, 1, 6, 2, 7, 30};
    struct fixture *fixture = rig_state;
    struct vr_block *blocks[7];
    uint64_t addrs[7];
    restart(fixture, UINT64_MAX);
    for (int i = 0; i < 7; i++) {
        blocks[i] = get(fixture, sizes[i] * VR_MIB);
        addrs[i] = addr_of(blocks[i]);
    }
    for (int i = 0; i < 7; i += 2) {
        put(fixture, blocks[i], 1);
    }
    assert_int_equal(addr_of(get(fixture, VR_MIB)), addrs[2]);
    assert_int_equal(addr_of(get(fixture, 3 * VR_MIB)), addrs[0]);
    assert_int_equal(addr_of(get(fixture, 20 * VR_MIB)), addrs[6]);
}

/* A coarse space is mapped ahead for whatever comes, a sixteenth of what it holds. */
TEST(coarse_spaces_grow_by_segments) {
    struct fixture *fixture = rig_state;
    for (int coarse = 0; coarse < 2; coarse++) {
        fixture->config.coarse = coarse;
        restart(fixture, UINT64_MAX);
        (void)get(fixture, 512 * VR_MIB);
        (void)get(fixture, 4 * VR_MIB);
        assert_int_equal(stats_of(fixture).reserved_bytes, (512 + (coarse ? 34 : 4)) * VR_MIB);
    }
}

/* Empty segments are returned before the space grows past its peak. */
TEST(empty_segments_go_first) {
    struct fixture *fixture = rig_state;
    fixture->config.mode = VR_SPACE_SEGMENTS;
    restart(fixture, UINT64_MAX);
    put(fixture, get(fixture, 100 * VR_MIB), 1);
    struct vr_block *larger = get(fixture, 200 * VR_MIB);
    assert_int_equal(stats_of(fixture).reserved_bytes, 200 * VR_MIB);
    struct vr_block *small = get(fixture, 100), *tiny = get(fixture, 100);
    assert_int_equal(addr_of(tiny), addr_of(small) + 512);
    put(fixture, larger, 1);
    put(fixture, tiny, 1);
    put(fixture, small, 1);
    assert_int_equal(stats_of(fixture).holes, stats_of(fixture).pieces);
}

/* After thousands of small frees a request looks at a part of them, and at all when memory is
   short: others wait for the lock meanwhile. */
TEST(settles_in_parts) {
    enum { COUNT = 3000, PART = 1024 };
    struct fixture *fixture = rig_state;
    struct vr_block *blocks[2 * COUNT];
    struct vr_want want = {.bytes = 64 * VR_MIB, .queue = 2, .flags = VR_WANT_HELD};
    struct vr_answer answer;
    for (int i = 0; i < 2 * COUNT; i++) {
        blocks[i] = driver_alloc(&fixture->driver, fixture->space, 512, 1);
    }
    for (int i = 0; i < 2 * COUNT; i += 2) {
        driver_free(fixture->space, blocks[i], 1, 10);
    }
    assert_int_equal(stats_of(fixture).pending_bytes, COUNT * 512);
    fixture->driver.passed[1] = 10;
    assert_int_not_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    assert_int_equal(stats_of(fixture).pending_bytes, (COUNT - PART) * 512);
    want.flags |= VR_WANT_AFTER;
    assert_int_not_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    assert_int_equal(stats_of(fixture).pending_bytes, 0);
}

/* What a plan's steps took is paid from the budget; and a plan that fails, at whichever step,
   leaves no memory created for nothing. */
TEST(plans_are_paid_and_undone) {
    struct fixture *fixture = rig_state;
    struct vr_answer answer = {0};
    uint32_t count = UINT32_MAX;
    for (uint32_t nth = 0; nth <= count; nth++) {
        struct vr_want want = {.bytes = 20 * VR_MIB, .queue = 1, .now_ns = 1};
        struct vr_block *blocks[3];
        restart(fixture, UINT64_MAX);
        for (uint64_t k = 0; k < 3; k++) {
            blocks[k] = get(fixture, 8 * VR_MIB + k * 512);
        }
        put(fixture, blocks[0], 1);
        put(fixture, blocks[2], 1);
        struct vr_space_stats before = stats_of(fixture);
        assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
        struct vr_plan *plan = answer.plan;
        assert_non_null(plan);
        count = plan->count;
        for (uint32_t i = 0; i < nth; i++) {
            plan->steps[i].ns = 1000 * plan->steps[i].handles;
            driver_step(&fixture->driver, &plan->steps[i], false);
        }
        if (nth == count) {
            assert_non_null(vr_space_commit(fixture->space, plan));
            uint64_t paid = stats_of(fixture).move_ns - before.move_ns;
            assert_in_range(paid, 1, 1000 * 1000);
        } else {
            vr_space_undo(fixture->space, plan, nth);
            vr_space_abort(fixture->space, plan, NULL);
            assert_true(stats_of(fixture).reserved_bytes <= before.reserved_bytes);
        }
        assert_sound(fixture->space);
    }
}

/* ---------------------------------------------------------------------------- aliases */

static struct vr_plan *sweep_of(struct fixture *fixture) {
    struct vr_plan *plan = NULL;
    assert_int_equal(vr_space_sweep(fixture->space, &plan), VRAM_OK);
    assert_sound(fixture->space);
    return plan;
}

/* A queue's own unfinished memory is mapped where it is needed, and no other queue's; the old
   places go after the work, and nothing of it is given back before. */
TEST(memory_moves_under_its_own_work) {
    struct fixture *fixture = rig_state;
    fixture->config.alias = true;
    for (uint64_t queue = 1; queue <= 2; queue++) {
        struct vr_want want = {.bytes = 64 * VR_MIB, .queue = queue, .now_ns = 1};
        struct vr_answer answer = {0};
        struct vr_plan *trim = NULL;
        restart(fixture, 0);
        struct vr_block *low = get(fixture, 32 * VR_MIB);
        (void)get(fixture, GRANULE);
        struct vr_block *high = get(fixture, 32 * VR_MIB);
        (void)get(fixture, GRANULE);
        put(fixture, low, 10);
        put(fixture, high, 11);
        uint64_t held = stats_of(fixture).reserved_bytes;
        assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
        assert_non_null(answer.plan);
        assert_int_equal(answer.plan->moved_handles > 0, queue == 1);
        struct vr_block *block =
            driver_commit(&fixture->driver, fixture->space, answer.plan, false);
        assert_sound(fixture->space);
        uint64_t stale = stats_of(fixture).stale_mappings;
        assert_int_equal(stale > 0, queue == 1);
        assert_int_equal(stats_of(fixture).reserved_bytes > held, queue == 2);
        assert_true(vr_space_covers(fixture->space, addr_of(block), 64 * VR_MIB));
        if (queue == 2) {
            continue;
        }
        driver_free(fixture->space, block, 0, 0); /* free at once */
        assert_int_equal(vr_space_trim(fixture->space, 0, &trim), VRAM_OK);
        assert_null(trim);
        assert_null(sweep_of(fixture)); /* the work is not over */
        fixture->driver.passed[1] = 11;
        struct vr_plan *sweep = sweep_of(fixture);
        assert_int_equal(sweep->count, stale);
        driver_commit(&fixture->driver, fixture->space, sweep, false);
        assert_int_equal(stats_of(fixture).stale_mappings, 0);
        assert_null(sweep_of(fixture));
    }
}

EACH_TEST(begin, end)
