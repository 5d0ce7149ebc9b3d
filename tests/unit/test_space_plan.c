/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_space_plan.c: plans that fail. Every step of a plan fails in turn, then every step of its
 * undo; what the driver holds and what the space says it holds must agree afterwards.
 */
#include "rig/rig.h"
#include "space_driver.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES_MOST = 4096 };

/* What a driver would hold. */
struct held {
    uint64_t bytes;
    uint64_t mapped[PIECES_MOST]; /* address by native number; 0: nowhere */
};

struct fixture {
    struct driver driver;
    struct held held;
    struct vr_space *space;
    struct vr_block *blocks[8];
};

static void assert_sound(const struct vr_space *space) {
    char text[200] = "";
    if (!vr_space_check(space, text, sizeof text)) {
        fail_msg("%s", text);
    }
}

static void execute(struct fixture *fixture, struct vr_step *step) {
    struct held *held = &fixture->held;
    driver_step(&fixture->driver, step, false);
    if (step->kind == VR_STEP_ACCESS) {
        return;
    }
    uint64_t *at = &held->mapped[step->piece->native];
    assert_true(step->piece->native < PIECES_MOST);
    switch (step->kind) {
    case VR_STEP_CREATE:
        held->bytes += step->bytes;
        break;
    case VR_STEP_MAP:
        assert_int_equal(*at, 0);
        *at = step->addr;
        break;
    case VR_STEP_UNMAP:
        assert_int_equal(*at, step->addr);
        *at = 0;
        break;
    default:
        assert_int_equal(*at, 0);
        held->bytes -= step->bytes;
        break;
    }
}

static struct vr_block *execute_all(struct fixture *fixture, struct vr_plan *plan) {
    for (uint32_t i = 0; i < plan->count; i++) {
        execute(fixture, &plan->steps[i]);
    }
    return vr_space_commit(fixture->space, plan);
}

static struct vr_block *get(struct fixture *fixture, uint64_t bytes) {
    struct vr_want want = {.bytes = bytes, .queue = 1};
    struct vr_answer answer;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    return answer.plan ? execute_all(fixture, answer.plan) : answer.block;
}

/* Holes of 24 and 6 MiB between blocks, and a limit: what is asked for next needs moving, releasing
   and creating. */
static int begin(void) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    struct vr_space_config config = driver_config(&fixture->driver);
    config.limit_bytes = 72 * VR_MIB;
    fixture->driver.passed[1] = UINT64_MAX;
    assert_int_equal(vr_space_create(&config, &fixture->space), VRAM_OK);
    static const uint64_t sizes[] = {24, 6, 6, 6};
    for (int i = 0; i < 4; i++) {
        fixture->blocks[i] = get(fixture, sizes[i] * VR_MIB + 512 * (uint64_t)i);
    }
    driver_free(fixture->space, fixture->blocks[0], 1, 1);
    driver_free(fixture->space, fixture->blocks[2], 1, 1);
    rig_state = fixture;
    return 0;
}

static int end(void) {
    struct fixture *fixture = rig_state;
    vr_space_destroy(fixture->space);
    free(fixture);
    assert_int_equal(vr_mem_live_blocks(), 0);
    return 0;
}

/* A plan that has steps of several kinds. */
static struct vr_plan *plan_of(struct fixture *fixture) {
    struct vr_want want = {.bytes = 54 * VR_MIB, .queue = 1};
    struct vr_answer answer;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    assert_non_null(answer.plan);
    return answer.plan;
}

static void assert_agreed(struct fixture *fixture) {
    struct vr_space_stats stats;
    uint64_t found = 0;
    assert_sound(fixture->space);
    vr_space_stats_get(fixture->space, &stats);
    assert_int_equal(stats.reserved_bytes, fixture->held.bytes);
    for (struct vr_piece *piece = NULL;
         (piece = vr_space_piece_next(fixture->space, piece)) != NULL;) {
        uint64_t at = fixture->held.mapped[piece->native];
        assert_int_equal(piece->addr, at ? at : VR_NOWHERE);
        found += piece->bytes;
    }
    assert_int_equal(found, fixture->held.bytes);
}

static uint32_t steps_in_plan(void) {
    begin();
    struct fixture *fixture = rig_state;
    struct vr_plan *plan = plan_of(fixture);
    uint32_t count = plan->count, kinds = 0;
    for (uint32_t i = 0; i < count; i++) {
        kinds |= 1u << plan->steps[i].kind;
    }
    assert_true(kinds & 1u << VR_STEP_CREATE);
    assert_true(kinds & 1u << VR_STEP_UNMAP);
    assert_non_null(execute_all(fixture, plan));
    assert_agreed(fixture);
    end();
    return count;
}

/* Fails step `nth`, then step `spoilt` of the undo. False: the undo has no such step. */
static bool fail_at(uint32_t nth, uint32_t spoilt, uint64_t *lost) {
    begin();
    struct fixture *fixture = rig_state;
    uint64_t held = fixture->held.bytes;
    struct vr_plan *plan = plan_of(fixture);
    for (uint32_t i = 0; i < nth; i++) {
        execute(fixture, &plan->steps[i]);
    }
    vr_space_undo(fixture->space, plan, nth);
    assert_sound(fixture->space);
    uint32_t count = plan->count;
    bool failed[PIECES_MOST] = {false};
    for (uint32_t i = 0; i < count; i++) {
        failed[i] = i == spoilt;
        for (uint32_t j = 0; j < i; j++) {
            failed[i] |= failed[j] && plan->steps[j].piece == plan->steps[i].piece;
        }
        if (!failed[i]) {
            execute(fixture, &plan->steps[i]);
        }
    }
    vr_space_abort(fixture->space, plan, failed);
    assert_agreed(fixture);
    struct vr_space_stats stats;
    vr_space_stats_get(fixture->space, &stats);
    *lost += stats.lost;
    if (spoilt >= count) {
        assert_true(fixture->held.bytes <= held); /* nothing was created for nothing */
    }
    if (!stats.lost) {
        /* Nothing is lost: the same request succeeds after all. */
        assert_non_null(execute_all(fixture, plan_of(fixture)));
        assert_agreed(fixture);
    }
    end();
    return spoilt < count;
}

TEST_IN(NULL, NULL, test_every_step) {
    uint64_t lost = 0, undone = 0;
    uint32_t count = steps_in_plan();
    for (uint32_t nth = 0; nth < count; nth++) {
        fail_at(nth, UINT32_MAX, &lost);
        assert_int_equal(lost, 0);
    }
    for (uint32_t nth = 0; nth < count; nth++) {
        for (uint32_t spoilt = 0; fail_at(nth, spoilt, &lost); spoilt++) {
            undone++;
        }
    }
    assert_true(undone > 0);
    assert_true(lost > 0);
}

/* Others come and go while a plan is open: its window and its victims are not for them. */
TEST(test_claims) {
    struct fixture *fixture = rig_state;
    struct vr_plan *plan = plan_of(fixture);
    uint64_t low = plan->addr, high = plan->addr + plan->bytes;
    struct vr_block *taken[64];
    int count = 0;
    struct vr_want want = {.bytes = VR_MIB, .queue = 1, .flags = VR_WANT_HELD};
    struct vr_answer answer;
    while (count < 64 && vr_space_alloc(fixture->space, &want, &answer) == VRAM_OK) {
        uint64_t addr = addr_of(answer.block);
        assert_true(addr + VR_MIB <= low || addr >= high);
        for (uint32_t i = 0; i < plan->count; i++) {
            const struct vr_step *step = &plan->steps[i];
            assert_false(step->kind == VR_STEP_UNMAP &&
                         vr_overlap(addr, VR_MIB, step->addr, step->bytes));
        }
        taken[count++] = answer.block;
    }
    driver_free(fixture->space, fixture->blocks[1], 1, 2);
    assert_sound(fixture->space);
    struct vr_plan *nothing = NULL;
    assert_int_equal(vr_space_trim(fixture->space, UINT64_MAX, &nothing), VRAM_OK);
    assert_null(nothing);
    struct vr_block *block = execute_all(fixture, plan);
    assert_int_equal(addr_of(block), low);
    while (count > 0) {
        driver_free(fixture->space, taken[--count], 1, 3);
    }
    assert_agreed(fixture);
}

/* A failed trim leaves spares; they are used before anything else is touched. */
TEST(test_spares) {
    struct fixture *fixture = rig_state;
    struct vr_plan *plan = NULL;
    struct vr_space_stats stats;
    assert_int_equal(vr_space_trim(fixture->space, 0, &plan), VRAM_OK);
    uint32_t unmaps = 0;
    while (plan->steps[unmaps].kind == VR_STEP_UNMAP) {
        execute(fixture, &plan->steps[unmaps++]);
    }
    assert_true(unmaps > 0);
    vr_space_undo(fixture->space, plan, unmaps);
    assert_int_equal(plan->count, 0);
    vr_space_abort(fixture->space, plan, NULL);
    assert_agreed(fixture);
    vr_space_stats_get(fixture->space, &stats);
    assert_int_equal(stats.spares, unmaps);
    uint64_t spare = stats.spare_bytes;
    struct vr_want want = {.bytes = GRANULE, .queue = 1, .flags = VR_WANT_NO_GROWTH};
    struct vr_answer answer;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    if (answer.plan) {
        assert_int_not_equal(answer.plan->steps[0].kind, VR_STEP_UNMAP);
        execute_all(fixture, answer.plan);
        vr_space_stats_get(fixture->space, &stats);
        assert_true(stats.spare_bytes < spare);
    }
    assert_agreed(fixture);
    assert_int_equal(vr_space_trim(fixture->space, 0, &plan), VRAM_OK);
    execute_all(fixture, plan);
    vr_space_stats_get(fixture->space, &stats);
    assert_int_equal(stats.spares, 0);
    assert_agreed(fixture);
}

/* What the driver charges is learnt and paid from the budget. */
TEST(test_prices) {
    struct fixture *fixture = rig_state;
    struct vr_space_stats before, after;
    vr_space_stats_get(fixture->space, &before);
    struct vr_plan *plan = plan_of(fixture);
    for (uint32_t i = 0; i < plan->count; i++) {
        plan->steps[i].ns = 1000 * plan->steps[i].handles;
    }
    execute_all(fixture, plan);
    vr_space_stats_get(fixture->space, &after);
    assert_true(after.move_ns > before.move_ns);
    assert_true(after.move_ns - before.move_ns < 1000 * 1000);
}

EACH_TEST(begin, end)
