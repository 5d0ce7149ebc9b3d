/* SPDX-License-Identifier: Apache-2.0 */
/* test_space_fit.c: the block engine: where blocks are put, and whose memory is taken for them. */
#include "core/space/span.h"
#include "rig/rig.h"
#include "space_fixture.h"

static int begin(void) {
    return fixture_begin(UINT64_MAX, false);
}

/* Holes of 3, 1 and 2 MiB between blocks: a block of 1 MiB goes into the one of 1 MiB. */
TEST(test_best_fit) {
    struct fixture *fixture = rig_state;
    static const uint64_t sizes[] = {3, 5, 1, 6, 2, 7};
    struct vr_block *blocks[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = fixture_get(fixture, sizes[i] * VR_MIB);
    }
    uint64_t one = addr_of(blocks[2]);
    for (int i = 0; i < 6; i += 2) {
        fixture_put(fixture, blocks[i]);
    }
    struct vr_block *again = fixture_get(fixture, VR_MIB);
    assert_int_equal(addr_of(again), one);
    fixture_put(fixture, again);
    for (int i = 1; i < 6; i += 2) {
        fixture_put(fixture, blocks[i]);
    }
    assert_int_equal(stats_of(fixture).blocks, 0);
}

/* Small blocks leave the topmost hole to large ones while they fit elsewhere. */
TEST(test_topmost) {
    struct fixture *fixture = rig_state;
    struct vr_block *low = fixture_get(fixture, 40 * VR_MIB),
                    *wall = fixture_get(fixture, 3 * VR_MIB);
    struct vr_block *top = fixture_get(fixture, 30 * VR_MIB);
    uint64_t low_addr = addr_of(low), top_addr = addr_of(top);
    fixture_put(fixture, low);
    fixture_put(fixture, top);
    struct vr_block *small = fixture_get(fixture, VR_MIB),
                    *large = fixture_get(fixture, 20 * VR_MIB);
    assert_int_equal(addr_of(small), low_addr);
    assert_int_equal(addr_of(large), top_addr);
    fixture_put(fixture, small);
    fixture_put(fixture, large);
    fixture_put(fixture, wall);
}

/* A large block with nothing to build on leaves void in front of it; the next one grows into
   that. */
TEST(test_guard) {
    struct fixture *fixture = rig_state;
    fixture_get(fixture, VR_MIB);
    struct vr_block *block = fixture_get(fixture, 300 * VR_MIB);
    uint64_t addr = addr_of(block);
    assert_true(addr >= BASE + 600 * VR_MIB);
    fixture_put(fixture, block);
    uint64_t reserved = stats_of(fixture).reserved_bytes;
    block = fixture_get(fixture, 400 * VR_MIB);
    assert_true(addr_of(block) <= addr);
    assert_true(addr_of(block) + 400 * VR_MIB >= addr + 300 * VR_MIB);
    assert_true(stats_of(fixture).reserved_bytes - reserved <= 104 * VR_MIB);
    fixture_put(fixture, block);
}

/* Large blocks that find a hole take its two ends in turn. */
TEST(test_turns) {
    struct fixture *fixture = rig_state;
    struct vr_block *first = fixture_get(fixture, 1200 * VR_MIB);
    uint64_t low = addr_of(first), high = low + 1200 * VR_MIB;
    fixture_put(fixture, first);
    struct vr_block *one = fixture_get(fixture, 300 * VR_MIB),
                    *two = fixture_get(fixture, 310 * VR_MIB);
    bool one_low = addr_of(one) == low;
    assert_true(one_low || addr_of(one) + 300 * VR_MIB == high);
    assert_true(one_low ? addr_of(two) + 310 * VR_MIB == high : addr_of(two) == low);
    fixture_put(fixture, one);
    fixture_put(fixture, two);
}

/* A run goes on in the window that was foreseen for it, although a hole elsewhere would do. */
TEST(test_run_in_window) {
    struct fixture *fixture = rig_state;
    struct vr_block *blocks[6][32];
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 32; j++) {
            blocks[i][j] = fixture_get(fixture, (uint64_t)(5 + i) * VR_MIB);
        }
    }
    for (int j = 1; j < 32; j++) {
        assert_int_equal(addr_of(blocks[5][j]), addr_of(blocks[5][j - 1]) + 10 * VR_MIB);
    }
    for (int i = 0; i < 6 * 32; i++) {
        fixture_put(fixture, blocks[i / 32][i % 32]);
    }
}

/* Blocks of one size that come one after another lie side by side. */
TEST(test_siblings) {
    struct fixture *fixture = rig_state;
    struct vr_block *runs[6][8];
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 8; j++) {
            runs[i][j] = fixture_get(fixture, (uint64_t)(3 + i) * VR_MIB + 512 * 7);
        }
    }
    for (int j = 1; j < 8; j++) {
        assert_int_equal(addr_of(runs[5][j]),
                         addr_of(runs[5][j - 1]) + vr_load(&runs[5][j]->bytes, VR_RELAXED));
    }
    for (int i = 0; i < 48; i++) {
        fixture_put(fixture, runs[i / 8][i % 8]);
    }
}

/* Of three holes the longest idle gives its memory first; what is left of it stays the oldest. */
TEST(test_oldest_first) {
    struct fixture *fixture = rig_state;
    static const int order[] = {4, 0, 2};
    struct vr_block *blocks[6];
    uint64_t low[6], high[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = fixture_get(fixture, (uint64_t)(i % 2 ? 2 : 64) * VR_MIB + 512 * (uint64_t)i);
        low[i] = addr_of(blocks[i]);
        high[i] = low[i] + vr_load(&blocks[i]->bytes, VR_RELAXED);
    }
    for (int i = 0; i < 3; i++) {
        fixture_put(fixture, blocks[order[i]]);
    }
    for (int i = 0; i < 2; i++) {
        struct vr_want want = {.bytes = 88 * VR_MIB, .queue = 1, .flags = VR_WANT_NO_GROWTH};
        struct vr_answer answer;
        assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
        struct vr_plan *plan = answer.plan;
        for (uint32_t j = 0; j < plan->count; j++) {
            uint64_t addr = plan->steps[j].addr;
            if (plan->steps[j].kind == VR_STEP_UNMAP) {
                assert_false(addr >= low[2] && addr < high[2]); /* the youngest is spared */
            }
        }
        if (i == 0) {
            vr_space_undo(fixture->space, plan, 0);
            vr_space_abort(fixture->space, plan, NULL);
        } else {
            driver_commit(&fixture->driver, fixture->space, plan, false);
        }
        assert_sound(fixture->space);
    }
}

EACH_TEST(begin, fixture_end)
