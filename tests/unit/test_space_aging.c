/* SPDX-License-Identifier: Apache-2.0 */
/* test_space_aging.c: the block engine: how placement changes once a pool has run its workload
   several times (aging.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/space/aging.h"
#include "space_fixture.h"

static const uint64_t second = 1000000000;

static int begin(void **state) {
    int status = fixture_begin(state, UINT64_MAX, false);
    struct fixture *fixture = *state;
    fixture->config.share_ppm = 80000;
    fixture->config.slack_ppm = 1;
    fixture_restart(fixture);
    return status;
}

/* A block that is asked for at that time. */
static struct vr_block *get_at(struct fixture *fixture, uint64_t bytes, uint64_t now_ns) {
    struct vr_want want = {.bytes = bytes, .queue = 1, .now_ns = now_ns};
    struct vr_block *block = driver_want(&fixture->driver, fixture->space, &want, false);
    assert_non_null(block);
    assert_sound(fixture->space);
    return block;
}

/* The largest handle that is made for a new block, long after. */
static uint64_t made_next(struct fixture *fixture, uint64_t bytes) {
    struct vr_want want = {.bytes = bytes, .queue = 1, .now_ns = UINT64_C(1) << 40};
    struct vr_answer answer;
    uint64_t largest = 0;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    for (uint32_t i = 0; i < answer.plan->count; i++) {
        const struct vr_step *step = &answer.plan->steps[i];
        largest = step->kind == VR_STEP_CREATE && step->bytes > largest ? step->bytes : largest;
    }
    driver_commit(&fixture->driver, fixture->space, answer.plan, false);
    return largest;
}

/* Half of what was needed is out, and the rest is free in pieces that a block touches each: 12 MiB
   more are no new need, and yet the space has to grow. The time budget has what `now_ns` earned. */
static void grow_for_nothing_new(struct fixture *fixture, uint64_t now_ns) {
    struct vr_block *blocks[32];
    fixture_restart(fixture);
    for (int i = 0; i < 32; i++) {
        blocks[i] = fixture_get(fixture, 3 * VR_MIB + 512 * (uint64_t)i);
    }
    for (int i = 0; i < 32; i += 2) {
        fixture_put(fixture, blocks[i]);
    }
    uint64_t before = stats_of(fixture).reserved_bytes, need = stats_of(fixture).peak_need_bytes;
    get_at(fixture, 12 * VR_MIB, now_ns);
    assert_true(stats_of(fixture).reserved_bytes > before);
    assert_int_equal(stats_of(fixture).peak_need_bytes, need);
}

/* A space that grows for a need that it has met before, with time in its budget, becomes aged and
   makes finer handles from then on; one that has no time for moving, still grows, or is
   deterministic does not. */
static void test_creep(void **state) {
    struct fixture *fixture = *state;
    grow_for_nothing_new(fixture, 10 * second);
    assert_true(fixture->space->aged && fixture->space->renewal_due);
    assert_int_equal(made_next(fixture, 64 * VR_MIB), 2 * VR_MIB);
    grow_for_nothing_new(fixture, second);
    assert_false(fixture->space->aged);
    assert_true(fixture->space->renewal_due); /* when it is aged */
    assert_int_equal(made_next(fixture, 64 * VR_MIB), 4 * VR_MIB);
    assert_false(fixture->space->aged); /* that was new */
    fixture->config.deterministic = true;
    grow_for_nothing_new(fixture, 10 * second);
    assert_false(fixture->space->aged || fixture->space->renewal_due);
}

/* So does one to which nearly all blocks have come back, but not one that has only few blocks or
   only few bytes in use. */
static void test_again(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        bool deterministic;
        int small, large; /* of 32 blocks of 1 MiB and 32 of 15 MiB, how many stay */
        uint64_t ms;      /* of time until then, of which 8 % are in the time budget */
        bool aged;        /* expected */
    } cases[] = {
        {false, 6, 0, 1000, true}, {false, 7, 0, 1000, false}, {false, 0, 6, 1000, false},
        {false, 0, 5, 1000, true}, {false, 6, 0, 200, false},  {true, 6, 0, 1000, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vr_block *blocks[64];
        fixture->config.deterministic = cases[i].deterministic;
        fixture_restart(fixture);
        for (int k = 0; k < 64; k++) {
            blocks[k] =
                get_at(fixture, (k < 32 ? 1 : 15) * VR_MIB, k < 63 ? 1 : cases[i].ms * 1000000);
        }
        for (int k = 0; k < 64; k++) {
            if (k < 32 ? k >= cases[i].small : k - 32 >= cases[i].large) {
                fixture_put(fixture, blocks[k]);
            }
        }
        fixture_get(fixture, VR_MIB);
        assert_int_equal(fixture->space->aged, cases[i].aged);
        assert_false(fixture->space->renewal_due); /* it has not grown for nothing */
    }
}

/* An island of 28 MiB, and a hole of 64 between two blocks. In an aged space a block stays off
   the island, unless next to nothing would be left of it or there is nowhere else. */
static void test_off_islands(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        bool aged;
        uint64_t kib; /* of the block */
        bool lands;   /* on the island */
    } cases[] = {
        {false, 25088, true}, {true, 25088, false}, {true, 28160, true}, {false, 40960, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_restart(fixture);
        fixture_get(fixture, 66 * VR_MIB); /* enough is out */
        struct vr_block *wide = fixture_get(fixture, 64 * VR_MIB);
        fixture_get(fixture, 2 * VR_MIB);
        struct vr_block *below = fixture_get(fixture, 32 * VR_MIB);
        struct vr_block *island = fixture_get(fixture, 28 * VR_MIB);
        uint64_t shore = addr_of(island), inland = addr_of(wide);
        struct vr_plan *plan = NULL;
        fixture_put(fixture, below);
        assert_int_equal(vr_space_trim(fixture->space, 0, &plan), VRAM_OK);
        driver_commit(&fixture->driver, fixture->space, plan, false);
        fixture_put(fixture, island);
        fixture_put(fixture, wide);
        fixture->space->aged = cases[i].aged;
        struct vr_block *block = fixture_get(fixture, cases[i].kib * VR_KIB);
        assert_int_equal(addr_of(block), cases[i].lands ? shore : inland);
        if (!cases[i].lands && cases[i].aged) {
            struct vr_block *rest = fixture_get(fixture, 36 * VR_MIB);
            assert_int_equal(addr_of(fixture_get(fixture, cases[i].kib * VR_KIB)), shore);
            fixture_put(fixture, rest);
        }
    }
}

/* While little is out blocks go to low addresses, in an aged space. */
static void test_low(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        bool aged;
        uint64_t out_mib; /* besides */
        bool low;
    } cases[] = {{false, 2, false}, {true, 2, true}, {true, 128, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_restart(fixture);
        struct vr_block *wide = fixture_get(fixture, 66 * VR_MIB);
        fixture_get(fixture, 2 * VR_MIB);
        struct vr_block *narrow = fixture_get(fixture, 34 * VR_MIB);
        fixture_get(fixture, cases[i].out_mib * VR_MIB);
        uint64_t low = addr_of(wide), high = addr_of(narrow);
        fixture_put(fixture, wide);
        fixture_put(fixture, narrow);
        fixture->space->aged = cases[i].aged;
        assert_int_equal(addr_of(fixture_get(fixture, 17 * VR_MIB)), cases[i].low ? low : high);
        assert_int_equal(addr_of(fixture_get(fixture, 66 * VR_MIB)) == low, !cases[i].low);
    }
}

/* [4 MiB][one piece of 64 MiB][2 MiB][80 MiB in pieces of 4 MiB][out_mib]: the first, third and
   fifth are blocks, the others are free. */
static void make_coarse(struct fixture *fixture, uint64_t out_mib, uint64_t *coarse,
                        uint64_t *fine) {
    fixture_restart(fixture);
    struct vr_block *first = fixture_get(fixture, 4 * VR_MIB);
    struct vr_want more = {
        .bytes = 64 * VR_MIB, .queue = 1, .behind = first, .flags = VR_WANT_GATHER, .now_ns = 1};
    struct vr_block *piece = driver_want(&fixture->driver, fixture->space, &more, false);
    assert_non_null(piece);
    fixture_get(fixture, 2 * VR_MIB);
    struct vr_block *pieces = fixture_get(fixture, 80 * VR_MIB);
    get_at(fixture, out_mib * VR_MIB, 10 * second);
    *coarse = addr_of(piece);
    *fine = addr_of(pieces);
    fixture_put(fixture, piece);
    fixture_put(fixture, pieces);
    struct vr_stamp none;
    assert_false(vr_space_pending(fixture->space, &none)); /* all of it is seen to be free */
    fixture->space->surplus_bytes = 0;
}

/* In an aged space blocks do not go where they would hold most of a coarse piece, as long as
   there is another hole. */
static void test_off_coarse(void **state) {
    struct fixture *fixture = *state;
    uint64_t coarse, fine;
    for (int aged = 0; aged < 2; aged++) {
        make_coarse(fixture, 256, &coarse, &fine);
        fixture->space->aged = aged;
        assert_int_equal(addr_of(fixture_get(fixture, 7 * VR_MIB)), aged ? fine : coarse);
        assert_int_equal(addr_of(fixture_get(fixture, 57 * VR_MIB)),
                         aged ? coarse : coarse + 7 * VR_MIB); /* leaves 7 of it, or none */
    }
    make_coarse(fixture, 256, &coarse, &fine);
    fixture->space->aged = true;
    assert_int_equal(addr_of(fixture_get(fixture, 40 * VR_MIB)),
                     fine); /* 24 of it are too much, too */
    make_coarse(fixture, 256, &coarse, &fine);
    fixture->space->aged = true;
    fixture_get(fixture, 80 * VR_MIB);
    assert_int_equal(addr_of(fixture_get(fixture, 7 * VR_MIB)), coarse); /* there is no other */
}

/* Blocks of 1 MiB, 16 of them apart in handles that are free otherwise: nothing can be moved, so
   that a block of 12 MiB makes the space grow, and it is aged, with a renewal due. `now_ns` is when
   that block is requested. All blocks but one of `left` are freed then. */
static void make_worn(struct fixture *fixture, uint64_t now_ns, struct vr_block **left) {
    struct vr_block *blocks[32];
    fixture_restart(fixture);
    for (int i = 0; i < 32; i++) {
        blocks[i] = fixture_get(fixture, 3 * VR_MIB + 512 * (uint64_t)i);
    }
    for (int i = 0; i < 32; i += 2) {
        fixture_put(fixture, blocks[i]);
    }
    struct vr_block *last = get_at(fixture, 12 * VR_MIB, now_ns);
    *left = blocks[1];
    fixture_put(fixture, last);
    for (int i = 3; i < 32; i += 2) {
        fixture_put(fixture, blocks[i]);
    }
}

/* Whether free memory is refused, so that the pool has a plan made. */
static bool is_refused(struct fixture *fixture, uint32_t flags) {
    struct vr_want want = {.bytes = VR_MIB, .queue = 1, .flags = VR_WANT_HELD | flags};
    struct vr_answer answer = {.block = NULL};
    vram_status status = vr_space_alloc(fixture->space, &want, &answer);
    if (answer.block) {
        fixture_put(fixture, answer.block);
    }
    return status == VRAM_ERR_LIMIT;
}

/* Executes what vr_space_tidy plans; the bytes that it released. */
static uint64_t tidy(struct fixture *fixture) {
    struct vr_plan *plan = NULL;
    uint64_t before = stats_of(fixture).reserved_bytes;
    assert_int_equal(vr_space_tidy(fixture->space, &plan), VRAM_OK);
    if (plan) {
        driver_commit(&fixture->driver, fixture->space, plan, false);
        assert_sound(fixture->space);
    }
    return before - stats_of(fixture).reserved_bytes;
}

/* When little is in use, coarse pieces are released. What replaces them has the
   size of a first pass and is charged to the time budget. */
static void test_renewal(void **state) {
    struct fixture *fixture = *state;
    uint64_t coarse, fine;
    make_coarse(fixture, 2, &coarse, &fine);
    fixture->space->aged = fixture->space->renewal_due = true;
    fixture->space->budget_ns = (int64_t)second;
    assert_true(is_refused(fixture, 0));
    assert_false(is_refused(fixture, VR_WANT_ANY)); /* memory is short: no time for it */
    uint64_t released = tidy(fixture);
    assert_int_equal(fixture->space->renewed_bytes, released);
    assert_false(vr_space_covers(fixture->space, coarse, 64 * VR_MIB));
    assert_true(vr_space_covers(fixture->space, fine, 80 * VR_MIB));
    assert_false(fixture->space->renewal_due || is_refused(fixture, 0));
    uint64_t spent = stats_of(fixture).move_ns;
    assert_int_equal(made_next(fixture, 128 * VR_MIB), 4 * VR_MIB);
    assert_int_equal(fixture->space->renewed_bytes, 0);
    assert_true(stats_of(fixture).move_ns > spent);
}

/* And so are isolated holes, but not one between two blocks. */
static void test_renewal_isolated(void **state) {
    struct fixture *fixture = *state;
    struct vr_plan *plan = NULL;
    fixture_restart(fixture);
    fixture_get(fixture, 2 * VR_MIB);
    struct vr_block *wide = fixture_get(fixture, 64 * VR_MIB);
    fixture_get(fixture, 2 * VR_MIB);
    struct vr_block *below = fixture_get(fixture, 32 * VR_MIB);
    struct vr_block *island = fixture_get(fixture, 28 * VR_MIB);
    uint64_t shore = addr_of(island), inland = addr_of(wide);
    fixture_put(fixture, below);
    assert_int_equal(vr_space_trim(fixture->space, 0, &plan), VRAM_OK);
    driver_commit(&fixture->driver, fixture->space, plan, false);
    fixture_put(fixture, island);
    fixture_put(fixture, wide);
    fixture->space->aged = fixture->space->renewal_due = true;
    fixture->space->budget_ns = (int64_t)second;
    assert_int_equal(tidy(fixture), 28 * VR_MIB);
    assert_false(vr_space_covers(fixture->space, shore, 2 * VR_MIB));
    assert_true(vr_space_covers(fixture->space, inland, 64 * VR_MIB));
}

/* It waits until there is time for it, until the space is aged, until little is in use, and until
   most of what is free is settled. */
static void test_renewal_waits(void **state) {
    struct fixture *fixture = *state;
    struct vr_block *left;
    make_worn(fixture, 10 * second, &left);
    int64_t budget = fixture->space->budget_ns;
    fixture->space->budget_ns = 1000000;
    assert_false(is_refused(fixture, 0));
    assert_int_equal(tidy(fixture), 0);
    fixture->space->budget_ns = budget;
    fixture->space->aged = false;
    assert_false(is_refused(fixture, 0));
    fixture->space->aged = true;
    struct vr_block *more = get_at(fixture, 17 * VR_MIB, 10 * second); /* a sixth of the need */
    assert_false(is_refused(fixture, 0));
    driver_free(fixture->space, more, 2, 1000); /* on a queue that has not completed it */
    assert_true(is_refused(fixture, 0));
    assert_int_equal(tidy(fixture), 0);
    for (int i = 1; i < 64; i++) {
        assert_false(is_refused(fixture, 0));
    }
    assert_true(is_refused(fixture, 0)); /* it is tried again */
    assert_true(fixture->space->renewal_due);
}

/* An aged space is renewed when it holds a third more beyond its need. */
static void test_renewal_again(void **state) {
    struct fixture *fixture = *state;
    fixture_restart(fixture);
    fixture_get(fixture, 100 * VR_MIB);
    fixture->space->budget_ns = (int64_t)second;
    fixture->space->aged = true;
    fixture->space->stats.peak_need_bytes -= 12 * VR_MIB;
    fixture->space->excess_bytes = 9 * VR_MIB;
    vr_aging_note_growth(fixture->space);
    assert_false(fixture->space->renewal_due);
    fixture->space->stats.peak_need_bytes -= VR_MIB;
    vr_aging_note_growth(fixture->space);
    assert_true(fixture->space->renewal_due);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_creep, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_again, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_off_islands, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_low, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_off_coarse, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_renewal, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_renewal_isolated, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_renewal_waits, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_renewal_again, begin, fixture_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
