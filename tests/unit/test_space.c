/* SPDX-License-Identifier: Apache-2.0 */
/* test_space.c: the block engine: blocks found, planned, freed, merged; memory moved and
   limited. */
#include "rig/rig.h"
#include "space_fixture.h"

#include <stdlib.h>
#include <string.h>

static int begin(void) {
    return fixture_begin(UINT64_MAX, false);
}

static struct vr_block *get(struct fixture *fixture, uint64_t bytes) {
    bool segments = fixture->config.mode == VR_SPACE_SEGMENTS;
    struct vr_want want = {.bytes = bytes, .queue = 1, .now_ns = 1};
    struct vr_block *block = driver_want(&fixture->driver, fixture->space, &want, segments);
    assert_sound(fixture->space);
    return block;
}

static void put(struct fixture *fixture, struct vr_block *block) {
    driver_free(fixture->space, block, 1, 1);
    assert_sound(fixture->space);
}

TEST_IN(NULL, NULL, test_config) {
    struct driver driver = {{0}, 0, 0, 0};
    struct vr_space_config good = driver_config(&driver), bad;
    struct vr_space *space = NULL;
    bad = good;
    bad.granule = 3 * VR_MIB;
    assert_int_equal(vr_space_create(&bad, &space), VRAM_ERR_INVALID);
    bad = good;
    bad.base += 4096;
    assert_int_equal(vr_space_create(&bad, &space), VRAM_ERR_INVALID);
    bad = good;
    bad.bytes = 0;
    assert_int_equal(vr_space_create(&bad, &space), VRAM_ERR_INVALID);
    bad = good;
    bad.base = UINT64_MAX & ~(GRANULE - 1);
    bad.bytes = 2 * GRANULE;
    assert_int_equal(vr_space_create(&bad, &space), VRAM_ERR_INVALID);
    bad = good;
    bad.passed = NULL;
    assert_int_equal(vr_space_create(&bad, &space), VRAM_ERR_INVALID);
    assert_null(space);
    vr_space_destroy(NULL);
}

/* The steps of a first block: one creation each, then mapped, then access to all of it. */
TEST(test_first_plan) {
    struct fixture *fixture = rig_state;
    struct vr_want want = {.bytes = 5 * VR_MIB, .queue = 1};
    struct vr_answer answer;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
    assert_null(answer.block);
    struct vr_plan *plan = answer.plan;
    assert_int_equal(plan->created_bytes, 3 * GRANULE);
    assert_int_equal(plan->moved_handles, 0);
    assert_int_equal(plan->released_handles, 0);
    uint32_t created = plan->created_handles;
    assert_int_equal(plan->count, 2 * created + 1);
    for (uint32_t i = 0; i < created; i++) {
        assert_int_equal(plan->steps[i].kind, VR_STEP_CREATE);
        assert_int_equal(plan->steps[created + i].kind, VR_STEP_MAP);
        assert_int_equal(plan->steps[created + i].addr % GRANULE, 0);
    }
    assert_int_equal(plan->steps[2 * created].kind, VR_STEP_ACCESS);
    assert_int_equal(plan->steps[2 * created].handles, created);
    assert_int_equal(plan->steps[2 * created].bytes, 3 * GRANULE);
    struct vr_block *block = driver_commit(&fixture->driver, fixture->space, plan, false);
    assert_int_equal(vr_load(&block->bytes, VR_RELAXED), 5 * VR_MIB);
    assert_int_equal(vr_load(&block->state, VR_RELAXED), VR_BLOCK_FREE);
    assert_int_equal(stats_of(fixture).reserved_bytes, 3 * GRANULE);
    assert_int_equal(stats_of(fixture).hole_bytes, VR_MIB);
    put(fixture, block);
    assert_int_equal(stats_of(fixture).largest_hole_bytes, 3 * GRANULE);
}

TEST(test_rounding) {
    struct fixture *fixture = rig_state;
    for (uint64_t bytes = 1; bytes < 5000; bytes += 37) {
        struct vr_block *block = get(fixture, bytes);
        assert_int_equal(vr_load(&block->bytes, VR_RELAXED), (bytes + 511) / 512 * 512);
        assert_int_equal(addr_of(block) % 512, 0);
    }
    for (uint64_t align = 512; align <= GRANULE; align *= 2) {
        struct vr_want want = {.bytes = 700, .align = align, .queue = 1};
        struct vr_block *block = driver_want(&fixture->driver, fixture->space, &want, false);
        assert_int_equal(addr_of(block) % align, 0);
        assert_sound(fixture->space);
    }
}

/* Whatever the order of frees, one hole is left. */
TEST(test_merge) {
    struct fixture *fixture = rig_state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 6; i++) {
        struct vr_block *blocks[3];
        for (int j = 0; j < 3; j++) {
            blocks[j] = get(fixture, 64 * VR_KIB);
        }
        for (int j = 0; j < 3; j++) {
            put(fixture, blocks[orders[i][j]]);
        }
        assert_int_equal(stats_of(fixture).holes, 1);
        assert_int_equal(stats_of(fixture).hole_bytes, stats_of(fixture).reserved_bytes);
        assert_int_equal(stats_of(fixture).blocks, 0);
    }
}

/* Room for many small blocks, made at once: none of them needs a plan. */
TEST(test_warm) {
    struct fixture *fixture = rig_state;
    put(fixture, get(fixture, 8 * VR_MIB));
    struct vr_want held = {.bytes = 4096, .queue = 1, .flags = VR_WANT_HELD};
    struct vr_want probe = {.bytes = 4096, .queue = 1, .flags = VR_WANT_PROBE};
    struct vr_answer answer;
    for (int i = 0; i < 2048; i++) {
        assert_int_equal(vr_space_alloc(fixture->space, i % 2 ? &held : &probe, &answer), VRAM_OK);
        assert_non_null(answer.block);
    }
    assert_int_equal(vr_space_alloc(fixture->space, &held, &answer), VRAM_ERR_LIMIT);
    assert_int_equal(vr_space_alloc(fixture->space, &probe, &answer), VRAM_ERR_LIMIT);
}

TEST(test_refusals) {
    struct fixture *fixture = rig_state;
    struct vr_answer answer;
    struct vr_want want = {.bytes = UINT64_MAX, .queue = 1};
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_ERR_FRAGMENTED);
    want.bytes = fixture->config.bytes + 512;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_ERR_FRAGMENTED);
    want = (struct vr_want){.bytes = 1, .queue = 1, .align = 3000};
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_ERR_INVALID);
    want.align = 2 * GRANULE;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_ERR_INVALID);
    want = (struct vr_want){.bytes = 1, .queue = 1, .flags = VR_WANT_HELD};
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_ERR_LIMIT);
    fixture->config.limit_bytes = 8 * GRANULE;
    fixture_restart(fixture);
    assert_non_null(get(fixture, 8 * GRANULE));
    want = (struct vr_want){.bytes = GRANULE, .queue = 1};
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_ERR_LIMIT);
    want.flags = VR_WANT_NO_GROWTH;
    assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_ERR_LIMIT);
    assert_int_equal(stats_of(fixture).reserved_bytes, 8 * GRANULE);
}

/* Free memory in two holes of 8 MiB serves a block of 16 MiB: nothing new is created. */
TEST(test_moving) {
    struct fixture *fixture = rig_state;
    struct vr_block *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = get(fixture, 8 * VR_MIB + (uint64_t)i * 512);
    }
    put(fixture, blocks[0]);
    put(fixture, blocks[2]);
    uint64_t reserved = stats_of(fixture).reserved_bytes;
    assert_non_null(get(fixture, 12 * VR_MIB));
    assert_true(stats_of(fixture).reserved_bytes <= reserved);
    assert_true(stats_of(fixture).moved_pieces > 0);
    assert_true(stats_of(fixture).move_ns > 0);
    put(fixture, blocks[1]);
    put(fixture, blocks[3]);
}

/* With no time to spend the pool grows; told not to grow it moves all the same. */
TEST(test_budget) {
    struct fixture *fixture = rig_state;
    fixture->config.credit_ns = 0;
    fixture->config.share_ppm = 0;
    fixture_restart(fixture);
    struct vr_block *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = get(fixture, 8 * VR_MIB + (uint64_t)i * 512);
    }
    put(fixture, blocks[0]);
    put(fixture, blocks[2]);
    uint64_t reserved = stats_of(fixture).reserved_bytes;
    struct vr_block *grown = get(fixture, 12 * VR_MIB);
    assert_true(stats_of(fixture).reserved_bytes > reserved);
    assert_int_equal(stats_of(fixture).moved_pieces, 0);
    put(fixture, grown);
    grown = get(fixture, stats_of(fixture).largest_hole_bytes); /* takes the large hole away */
    struct vr_want want = {.bytes = 12 * VR_MIB, .queue = 1, .flags = VR_WANT_NO_GROWTH};
    reserved = stats_of(fixture).reserved_bytes;
    assert_non_null(driver_want(&fixture->driver, fixture->space, &want, false));
    assert_true(stats_of(fixture).reserved_bytes <= reserved);
    assert_true(stats_of(fixture).moved_pieces > 0);
}

/* Time that passes buys moves. */
TEST(test_budget_grows) {
    struct fixture *fixture = rig_state;
    fixture->config.credit_ns = 0;
    fixture->config.share_ppm = 10000;
    fixture_restart(fixture);
    struct vr_block *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = get(fixture, 8 * VR_MIB + (uint64_t)i * 512);
    }
    put(fixture, blocks[0]);
    put(fixture, blocks[2]);
    struct vr_want want = {.bytes = 12 * VR_MIB, .queue = 1, .now_ns = UINT64_C(2000000000)};
    assert_non_null(driver_want(&fixture->driver, fixture->space, &want, false));
    assert_true(stats_of(fixture).moved_pieces > 0);
}

static void trim_to(struct fixture *fixture, uint64_t keep) {
    struct vr_plan *plan = NULL;
    assert_int_equal(vr_space_trim(fixture->space, keep, &plan), VRAM_OK);
    if (plan) {
        bool segments = fixture->config.mode == VR_SPACE_SEGMENTS;
        assert_null(driver_commit(&fixture->driver, fixture->space, plan, segments));
    }
    assert_sound(fixture->space);
}

TEST(test_trim) {
    struct fixture *fixture = rig_state;
    for (int mode = 0; mode < 2; mode++) {
        fixture->config.mode = mode ? VR_SPACE_SEGMENTS : VR_SPACE_VMM;
        fixture_restart(fixture);
        struct vr_block *one = get(fixture, 64 * VR_MIB), *two = get(fixture, 32 * VR_MIB);
        trim_to(fixture, 0);
        assert_true(stats_of(fixture).reserved_bytes >= 96 * VR_MIB);
        put(fixture, one);
        trim_to(fixture, 80 * VR_MIB);
        assert_true(stats_of(fixture).reserved_bytes <= 80 * VR_MIB);
        assert_true(stats_of(fixture).reserved_bytes >= 32 * VR_MIB);
        put(fixture, two);
        trim_to(fixture, 0);
        assert_int_equal(stats_of(fixture).reserved_bytes, 0);
        assert_int_equal(stats_of(fixture).pieces, 0);
        assert_null(vr_space_piece_next(fixture->space, NULL));
    }
}

/* Empty segments are returned before the space grows past its peak. */
TEST(test_segments) {
    struct fixture *fixture = rig_state;
    fixture->config.mode = VR_SPACE_SEGMENTS;
    fixture_restart(fixture);
    struct vr_block *block = get(fixture, 100 * VR_MIB);
    assert_int_equal(addr_of(block) % GRANULE, 0);
    put(fixture, block);
    assert_int_equal(stats_of(fixture).holes, 1);
    struct vr_block *larger = get(fixture, 200 * VR_MIB);
    assert_int_equal(stats_of(fixture).reserved_bytes, 200 * VR_MIB);
    assert_int_equal(stats_of(fixture).pieces, 1);
    struct vr_block *small = get(fixture, 100), *tiny = get(fixture, 100);
    assert_int_equal(addr_of(tiny), addr_of(small) + 512);
    put(fixture, larger);
    put(fixture, tiny);
    put(fixture, small);
    assert_int_equal(stats_of(fixture).holes, stats_of(fixture).pieces);
    int count = 0;
    for (struct vr_piece *piece = NULL;
         (piece = vr_space_piece_next(fixture->space, piece)) != NULL;) {
        count++;
    }
    assert_int_equal(count, (int)stats_of(fixture).pieces);
}

/* Host memory runs out at the first, second ... allocation: nothing has changed then. */
TEST(test_host_memory) {
    struct fixture *fixture = rig_state;
    for (int mode = 0; mode < 2; mode++) {
        fixture->config.mode = mode ? VR_SPACE_SEGMENTS : VR_SPACE_VMM;
        fixture_restart(fixture);
        struct vr_block *blocks[4];
        for (int i = 0; i < 4; i++) {
            blocks[i] = get(fixture, 40 * VR_MIB + (uint64_t)i * 512);
        }
        put(fixture, blocks[0]);
        put(fixture, blocks[2]);
        struct vr_stamp stamp;
        vr_space_pending(fixture->space, &stamp); /* settles what has passed */
        uint64_t hash = vr_space_hash(fixture->space), nth = 0;
        struct vr_want want = {.bytes = 70 * VR_MIB, .queue = 1};
        struct vr_answer answer;
        vram_status status;
        do {
            vr_mem_fail_at(++nth, false);
            status = vr_space_alloc(fixture->space, &want, &answer);
            vr_mem_fail_at(0, false);
            if (status != VRAM_OK) {
                assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
                assert_int_equal(vr_space_hash(fixture->space), hash);
                assert_sound(fixture->space);
            }
        } while (status != VRAM_OK);
        assert_true(nth > 2);
        driver_commit(&fixture->driver, fixture->space, answer.plan, mode == 1);
        struct vr_plan *plan = NULL;
        put(fixture, blocks[1]);
        vr_space_pending(fixture->space, &stamp);
        hash = vr_space_hash(fixture->space);
        for (nth = 1; plan == NULL; nth++) {
            vr_mem_fail_at(nth, false);
            status = vr_space_trim(fixture->space, 0, &plan);
            vr_mem_fail_at(0, false);
            assert_true(status == VRAM_OK || vr_space_hash(fixture->space) == hash);
            assert_sound(fixture->space);
        }
        driver_commit(&fixture->driver, fixture->space, plan, mode == 1);
    }
}

TEST(test_create_fails) {
    struct fixture *fixture = rig_state;
    uint64_t nth = 0;
    vram_status status;
    do {
        struct vr_space *space = NULL;
        vr_mem_fail_at(++nth, false);
        status = vr_space_create(&fixture->config, &space);
        vr_mem_fail_at(0, false);
        assert_true((status == VRAM_OK) == (space != NULL));
        vr_space_destroy(space);
    } while (status != VRAM_OK);
    assert_int_equal(nth, 3);
}

/* A hundred thousand blocks: sound, and as deep as a tree should be. */
TEST(test_many) {
    struct fixture *fixture = rig_state;
    enum { COUNT = 100000 };
    struct vr_block **blocks = calloc(COUNT, sizeof *blocks);
    assert_non_null(blocks);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] =
            driver_alloc(&fixture->driver, fixture->space, (uint64_t)(i * 37 % 97 + 1) * 512, 1);
        assert_non_null(blocks[i]);
    }
    for (int i = 0; i < COUNT; i += 2) {
        driver_free(fixture->space, blocks[i], 1, 1);
    }
    assert_sound(fixture->space);
    assert_int_equal(stats_of(fixture).blocks, COUNT / 2);
    for (int i = 1; i < COUNT; i += 2) {
        driver_free(fixture->space, blocks[i], 1, 1);
    }
    free(blocks);
    assert_true(stats_of(fixture).metadata_bytes > 0);
}

EACH_TEST(begin, fixture_end)
