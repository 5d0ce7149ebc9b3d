/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_space_edges.c: the block engine at its edges: ranges that are full, records that run out,
 * more spans than a search looks at, reserves that find no place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/stable.h"
#include "core/space/plan.h"
#include "core/space/rebuild.h"
#include "space_fixture.h"

/* ---------------------------------------------------------------- records */

static uint64_t takes_left = UINT64_MAX; /* of the store of records, until it fails */

void *__real_vr_stable_take(struct vr_stable *stable, const char *operation);
void *__wrap_vr_stable_take(struct vr_stable *stable, const char *operation);
void *__wrap_vr_stable_take(struct vr_stable *stable, const char *operation) {
    if (takes_left != UINT64_MAX && takes_left-- == 0) {
        takes_left = 0;
        return NULL;
    }
    return __real_vr_stable_take(stable, operation);
}

static int begin(void **state) {
    takes_left = UINT64_MAX;
    return fixture_begin(state, 100, true);
}

/* A range of so many granules, and handles of one granule each. */
static void restart(struct fixture *fixture, uint64_t granules) {
    fixture->config.bytes = granules * GRANULE;
    fixture->config.largest_handle = GRANULE;
    fixture_restart(fixture);
}

static vram_status ask(struct fixture *fixture, struct vr_want want, struct vr_answer *answer) {
    want.queue = want.queue ? want.queue : 1;
    want.now_ns = 1;
    return vr_space_alloc(fixture->space, &want, answer);
}

static void configurations(void **state) {
    struct fixture *fixture = *state;
    struct vr_space *space = NULL;
    for (int i = 0; i < 6; i++) {
        struct vr_space_config wrong = fixture->config;
        wrong.granule = i == 0 ? 3 * GRANULE : i == 1 ? 2048 : GRANULE;
        wrong.passed = i == 2 ? NULL : wrong.passed;
        wrong.bytes = i == 3 ? GRANULE / 2 : i == 4 ? GRANULE + 512 : wrong.bytes;
        wrong.base = i == 5 ? 512 : wrong.base;
        assert_int_equal(vr_space_create(&wrong, &space), VRAM_ERR_INVALID);
    }
    takes_left = 0; /* no record for the range */
    assert_int_equal(vr_space_create(&fixture->config, &space), VRAM_ERR_HOST_MEMORY);
    takes_left = 1; /* enough for it, though not for the stock */
    assert_int_equal(vr_space_create(&fixture->config, &space), VRAM_OK);
    takes_left = UINT64_MAX;
    vr_space_destroy(space);
}

/* Uses up the records in stock: cuts the block into parts that stay in use. */
static void stock_drain(struct fixture *fixture, struct vr_block *block) {
    struct vr_block *tail;
    uint64_t bytes = GRANULE;
    takes_left = 0;
    do {
        bytes -= 512;
    } while (vr_space_split(fixture->space, block, bytes, &tail) == VRAM_OK);
    takes_left = UINT64_MAX;
    assert_int_equal(fixture->space->stock_count, 0);
    assert_sound(fixture->space);
}

static void records_run_out(void **state) {
    struct fixture *fixture = *state;
    struct vr_answer answer;
    stock_drain(fixture, fixture_get(fixture, GRANULE));
    takes_left = 0;
    assert_int_equal(ask(fixture, (struct vr_want){.bytes = 512}, &answer), VRAM_ERR_HOST_MEMORY);
    assert_null(vr_space_take(fixture->space, 512, 1));
    takes_left = UINT64_MAX;
}

static void sizes_that_no_space_has(void **state) {
    struct fixture *fixture = *state;
    struct vr_answer answer;
    struct vr_want want = {.bytes = UINT64_MAX};
    assert_int_equal(ask(fixture, want, &answer), VRAM_ERR_FRAGMENTED);
    want = (struct vr_want){.bytes = 512, .align = 2 * GRANULE};
    assert_int_equal(ask(fixture, want, &answer), VRAM_ERR_INVALID);
    struct vr_block *block = fixture_get(fixture, 0); /* as for one byte */
    assert_int_equal(vr_load(&block->bytes, VR_RELAXED), 512);
    assert_false(vr_span_is_free(block));
    assert_true(vr_span_is_free(block->span.after));
}

static void takes_that_are_refused(void **state) {
    struct fixture *fixture = *state;
    fixture_get(fixture, 512);
    fixture->space->renewal_due = true; /* but it is not aged */
    assert_non_null(vr_space_take(fixture->space, 512, 1));
    fixture->space->aged = true;
    fixture->space->stats.peak_need_bytes *= 100; /* so that the space is idle */
    fixture->space->budget_ns = 1000000000000;
    assert_null(vr_space_take(fixture->space, 512, 1));
    fixture->space->aged = fixture->space->renewal_due = false;
    vr_space_suspend(fixture->space, true);
    assert_null(vr_space_take(fixture->space, 512, 1));
    struct vr_answer answer;
    assert_int_equal(ask(fixture, (struct vr_want){.bytes = 512}, &answer), VRAM_ERR_BUSY);
    vr_space_suspend(fixture->space, false);
    fixture->config.direct = true;
    fixture_restart(fixture);
    fixture_get(fixture, GRANULE);
    assert_null(vr_space_take(fixture->space, 512, 1));
}

/* --------------------------------------------------------------- reserves */

static void reserves_that_are_none(void **state) {
    struct fixture *fixture = *state;
    static const struct vr_want wants[] = {
        {.bytes = GRANULE + 512, .reserve = GRANULE},
        {.bytes = GRANULE, .reserve = 512},
        {.bytes = GRANULE, .reserve = UINT64_MAX / 4 - UINT64_MAX / 4 % GRANULE + GRANULE},
    };
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        struct vr_want want = wants[i];
        want.queue = 1;
        struct vr_block *block = driver_want(&fixture->driver, fixture->space, &want, false);
        assert_int_equal(vr_space_reserve(block), 0);
        assert_sound(fixture->space);
    }
    fixture->config.mode = VR_SPACE_SEGMENTS;
    fixture_restart(fixture);
    struct vr_want want = {.bytes = GRANULE, .reserve = GRANULE, .queue = 1};
    struct vr_block *block = driver_want(&fixture->driver, fixture->space, &want, true);
    assert_int_equal(vr_space_reserve(block), 0);
}

static void reserves_without_addresses(void **state) {
    struct fixture *fixture = *state;
    struct vr_answer answer;
    restart(fixture, 4);
    struct vr_block *block = fixture_get(fixture, 3 * GRANULE);
    struct vr_want want = {.bytes = 2 * GRANULE, .reserve = GRANULE};
    assert_int_equal(ask(fixture, want, &answer), VRAM_ERR_FRAGMENTED); /* a void too small */
    fixture_get(fixture, GRANULE);
    want.bytes = GRANULE;
    assert_int_equal(ask(fixture, want, &answer), VRAM_ERR_FRAGMENTED); /* and none at all */
    fixture_put(fixture, block);
}

/* The reserve of a plan that is open stays; that of a block ends when addresses run out. */
static void reserves_end(void **state) {
    struct fixture *fixture = *state;
    for (int direct = 0; direct < 2; direct++) {
        struct vr_answer answer, other;
        fixture->config.direct = direct;
        restart(fixture, 4);
        struct vr_want want = {.bytes = GRANULE, .reserve = 3 * GRANULE};
        assert_int_equal(ask(fixture, want, &answer), VRAM_OK);
        assert_non_null(answer.plan);
        want.reserve = 0;
        assert_int_equal(ask(fixture, want, &other), VRAM_ERR_FRAGMENTED);
        struct vr_block *block =
            driver_commit(&fixture->driver, fixture->space, answer.plan, false);
        vr_store(&block->state, VR_BLOCK_LIVE, VR_RELAXED);
        assert_int_equal(vr_space_reserve(block), 3 * GRANULE);
        fixture_get(fixture, GRANULE);
        assert_int_equal(vr_space_reserve(block), 0);
    }
}

/* A block grows into addresses behind which there is no room for a reserve. */
static void reserves_behind_growth(void **state) {
    struct fixture *fixture = *state;
    struct vr_plan *plan;
    struct vr_block *blocks[6];
    restart(fixture, 6);
    for (int i = 0; i < 6; i++) {
        blocks[i] = fixture_get(fixture, GRANULE);
    }
    fixture_put(fixture, blocks[1]);
    fixture_put(fixture, blocks[3]);
    fixture_put(fixture, blocks[4]);
    assert_int_equal(vr_space_trim(fixture->space, 0, &plan), VRAM_OK);
    driver_commit(&fixture->driver, fixture->space, plan, false);
    for (int i = 0; i <= 2; i += 2) { /* a block behind, and a void that is too short */
        struct vr_want want = {
            .bytes = GRANULE, .reserve = 2 * GRANULE, .queue = 1, .behind = blocks[i]};
        struct vr_answer answer;
        assert_int_equal(vr_space_alloc(fixture->space, &want, &answer), VRAM_OK);
        struct vr_block *tail = driver_commit(&fixture->driver, fixture->space, answer.plan, false);
        vr_store(&tail->state, VR_BLOCK_LIVE, VR_RELAXED);
        assert_int_equal(vr_space_reserve(tail), 0);
        vr_space_join(fixture->space, blocks[i], tail);
        assert_sound(fixture->space);
    }
}

/* ------------------------------------------------------------ many spans */

/* A block, then `count` times a hole and a void, each of a granule; NULL: the records ran out. */
static struct vr_block *comb_make(struct fixture *fixture, int count) {
    struct vr_block *blocks[300];
    struct vr_plan *plan;
    restart(fixture, 1024);
    for (int i = 0; i <= 2 * count; i++) {
        blocks[i] = fixture_get(fixture, GRANULE);
    }
    for (int i = 2; i <= 2 * count; i += 2) {
        driver_free(fixture->space, blocks[i], 1, 1);
    }
    assert_int_equal(vr_space_trim(fixture->space, 0, &plan), VRAM_OK);
    driver_commit(&fixture->driver, fixture->space, plan, false);
    for (int i = 1; i <= 2 * count; i += 2) {
        driver_free(fixture->space, blocks[i], 1, 1);
    }
    assert_sound(fixture->space);
    return blocks[0];
}

static void searches_end(void **state) {
    struct fixture *fixture = *state;
    struct vr_answer answer;
    struct vr_block *block = comb_make(fixture, 70);
    struct vr_want want = {.bytes = 120 * GRANULE, .behind = block};
    assert_int_equal(ask(fixture, want, &answer), VRAM_ERR_BUSY); /* too many spans to look at */
    want.behind = NULL;
    assert_int_equal(ask(fixture, want, &answer), VRAM_OK);
    driver_commit(&fixture->driver, fixture->space, answer.plan, false);
    assert_sound(fixture->space);
}

/* More idle holes between blocks than a search for a piece looks at. */
static void idle_holes_end(void **state) {
    struct fixture *fixture = *state;
    struct vr_block *blocks[150];
    struct vr_plan *plan;
    restart(fixture, 1024);
    for (int i = 0; i < 150; i++) {
        blocks[i] = fixture_get(fixture, GRANULE);
    }
    for (int i = 1; i < 150; i += 2) {
        fixture_put(fixture, blocks[i]);
    }
    assert_int_equal(vr_space_trim(fixture->space, 149 * GRANULE, &plan), VRAM_OK);
    assert_non_null(plan);
    driver_commit(&fixture->driver, fixture->space, plan, false);
    assert_sound(fixture->space);
}

/* Records run out at every step of a window over many spans. */
static void windows_without_records(void **state) {
    struct fixture *fixture = *state;
    struct vr_answer answer;
    struct vr_block *block = comb_make(fixture, 25);
    struct vr_want want = {.bytes = 40 * GRANULE};
    struct vr_stamp stamp;
    vr_space_pending(fixture->space, &stamp); /* settles */
    vram_status status = VRAM_ERR_HOST_MEMORY;
    uint64_t failures = 0;
    stock_drain(fixture, block);
    for (uint64_t takes = 0; status == VRAM_ERR_HOST_MEMORY; takes++, failures++) {
        takes_left = takes;
        status = ask(fixture, want, &answer);
        takes_left = UINT64_MAX;
        assert_sound(fixture->space);
    }
    assert_int_equal(status, VRAM_OK);
    assert_true(failures > 1);
    driver_commit(&fixture->driver, fixture->space, answer.plan, false);
}

/* ------------------------------------------------------------------ places */

/* Below a hole at the start of all addresses there is no room for a window. */
static void windows_at_the_lowest_address(void **state) {
    struct fixture *fixture = *state;
    fixture->config.base = GRANULE;
    restart(fixture, 1024);
    struct vr_block *block = fixture_get(fixture, GRANULE);
    fixture_put(fixture, block);
    struct vr_block *large = fixture_get(fixture, 100 * GRANULE);
    assert_int_equal(addr_of(large), GRANULE);
}

static void large_blocks(void **state) {
    struct fixture *fixture = *state;
    struct vr_answer answer;
    struct vr_block *vast = fixture_get(fixture, 16 * VR_GIB);
    fixture_get(fixture, 256 * VR_MIB); /* small beside the peak */
    fixture_put(fixture, vast);
    fixture->config.bytes = 512 * VR_MIB;
    fixture_restart(fixture);
    fixture_get(fixture, 400 * VR_MIB);
    struct vr_want want = {.bytes = 256 * VR_MIB};
    assert_int_equal(ask(fixture, want, &answer), VRAM_ERR_FRAGMENTED);
}

static void coarse_without_a_limit(void **state) {
    struct fixture *fixture = *state;
    fixture->config.coarse = true;
    fixture->config.limit_bytes = 0;
    fixture->config.slack_bytes = UINT64_MAX;
    fixture_restart(fixture);
    struct vr_block *block = fixture_get(fixture, GRANULE);
    fixture_put(fixture, block);
}

/* A run of siblings that is longer than what is mapped ahead at once. */
static void long_runs(void **state) {
    struct fixture *fixture = *state;
    struct vr_block *blocks[16];
    fixture_get(fixture, 16 * VR_GIB);
    for (int round = 0; round < 8; round++) {
        uint64_t bytes = (24 + (uint64_t)round % 2) * VR_MIB;
        for (int i = 0; i < 8; i++) {
            blocks[i] = fixture_get(fixture, bytes);
        }
        for (int i = 1; i < 8 && round == 7; i++) { /* in a row, as the run was foreseen */
            assert_int_equal(addr_of(blocks[i]), addr_of(blocks[i - 1]) + bytes);
        }
    }
}

/* Runs of eight blocks of 24 MiB and of 25 MiB in turn, so that the next one is foreseen. */
static void runs_make(struct fixture *fixture) {
    fixture_get(fixture, 16 * VR_GIB);
    for (int i = 0; i < 64; i++) {
        fixture_get(fixture, (24 + (uint64_t)i / 8 % 2) * VR_MIB);
    }
}

/* Others allocate where a run was to go on, or the next of it has an alignment. */
static void runs_that_are_cut_short(void **state) {
    struct fixture *fixture = *state;
    for (int aligned = 0; aligned < 2; aligned++) {
        struct vr_block *last = NULL;
        fixture_restart(fixture);
        runs_make(fixture);
        for (int i = 0; i < 4; i++) {
            last = fixture_get(fixture, 24 * VR_MIB + 512);
        }
        if (!aligned) {
            driver_alloc(&fixture->driver, fixture->space, 3 * VR_MIB, 2);
        }
        struct vr_want want = {
            .bytes = 24 * VR_MIB + 512, .queue = 1, .align = aligned ? GRANULE : 0};
        struct vr_block *next = driver_want(&fixture->driver, fixture->space, &want, false);
        assert_non_null(next);
        assert_true(addr_of(next) > addr_of(last) + 24 * VR_MIB + 512);
        assert_sound(fixture->space);
    }
}

/* A hole for one block, and no memory for its siblings. */
static void runs_that_find_a_hole(void **state) {
    struct fixture *fixture = *state;
    struct vr_block *room = fixture_get(fixture, 30 * VR_MIB);
    runs_make(fixture);
    fixture_put(fixture, room);
    struct vr_block *first = fixture_get(fixture, 24 * VR_MIB);
    assert_int_equal(addr_of(first), addr_of(room));
}

/* A run is foreseen, and the range has no addresses left. */
static void runs_without_addresses(void **state) {
    struct fixture *fixture = *state;
    struct vr_answer answer;
    int more = 0;
    fixture_restart(fixture);
    runs_make(fixture);
    for (struct vr_block *left; (left = vr_hole_smaller(fixture->space, VR_QUEUE_VOID, NULL));) {
        fixture_get(fixture, vr_span_bytes(left));
        assert_true(more++ < 16);
    }
    for (int i = 0; i < 64; i++) { /* what was mapped ahead is used up, and the run goes on */
        driver_alloc(&fixture->driver, fixture->space, 24 * VR_MIB, 1);
    }
    struct vr_want want = {.bytes = 24 * VR_MIB};
    assert_int_equal(ask(fixture, want, &answer), VRAM_ERR_FRAGMENTED);
    assert_sound(fixture->space);
}

/* The memory of a run is recreated from pieces that lie scattered. */
static void runs_of_recreated_memory(void **state) {
    struct fixture *fixture = *state;
    enum { COUNT = 200 };
    struct vr_block *small[COUNT];
    struct vr_space_stats before, after;
    fixture_restart(fixture);
    runs_make(fixture);
    for (int i = 0; i < COUNT; i++) {
        small[i] = driver_alloc(&fixture->driver, fixture->space, GRANULE, 2);
        assert_non_null(small[i]);
    }
    for (int i = 1; i < COUNT; i += 2) {
        driver_free(fixture->space, small[i], 2, 0);
    }
    fixture->space->budget_ns = 1000000000000;
    vr_space_stats_get(fixture->space, &before);
    fixture_get(fixture, 24 * VR_MIB);
    vr_space_stats_get(fixture->space, &after);
    assert_int_equal(after.reserved_bytes, before.reserved_bytes); /* nothing new was needed */
}

/* The smallest hole belongs to another queue. */
static void holes_of_another_queue(void **state) {
    struct fixture *fixture = *state;
    struct vr_block *block = fixture_get(fixture, 512);
    fixture_get(fixture, 512);
    driver_free(fixture->space, block, 1, 200);
    assert_null(vr_hole_smaller(fixture->space, 3, NULL));
    assert_ptr_equal(vr_hole_smaller(fixture->space, 1, NULL), block);
    fixture->driver.passed[1] = 200;
}

/* -------------------------------------------------------------- surplus */

/* Two idle holes past the aim, and time or memory for less. */
static void surplus_make(struct fixture *fixture) {
    struct vr_block *blocks[5];
    struct vr_stamp stamp;
    restart(fixture, 64);
    for (int i = 0; i < 5; i++) {
        blocks[i] = fixture_get(fixture, 2 * GRANULE);
    }
    fixture_put(fixture, blocks[1]);
    fixture_put(fixture, blocks[3]);
    vr_space_pending(fixture->space, &stamp);
    fixture->space->stats.peak_need_bytes = fixture->space->stats.out_bytes;
    fixture->space->surplus_bytes = 4 * GRANULE;
    fixture->space->budget_ns = 1000000000;
}

static void surplus_and_little_time(void **state) {
    struct fixture *fixture = *state;
    struct vr_plan *plan;
    surplus_make(fixture);
    fixture->space->budget_ns = 1;
    assert_int_equal(vr_space_tidy(fixture->space, &plan), VRAM_OK);
    assert_non_null(plan);
    driver_commit(&fixture->driver, fixture->space, plan, false);
    assert_int_equal(fixture->space->surplus_bytes, 3 * GRANULE);
}

static void surplus_without_host_memory(void **state) {
    struct fixture *fixture = *state;
    for (int renews = 0; renews < 2; renews++) {
        struct vr_plan *plan = NULL;
        vram_status status = VRAM_ERR_HOST_MEMORY;
        uint64_t failures = 0;
        surplus_make(fixture);
        if (renews) {
            fixture->space->aged = true;
            fixture->space->stats.peak_need_bytes *= 100; /* so that the space is idle */
        }
        for (uint64_t nth = 1; status != VRAM_OK; nth++) {
            fixture->space->renewal_due = renews;
            fixture->space->budget_ns = 1000000000000;
            vr_mem_fail_at(nth, false);
            status = vr_space_tidy(fixture->space, &plan);
            failures += vr_mem_failed();
            vr_mem_fail_at(0, false);
            assert_sound(fixture->space);
        }
        assert_true(failures > 0);
        if (plan) {
            driver_commit(&fixture->driver, fixture->space, plan, false);
        }
    }
}

/* A queue ends while a plan has claimed a hole of its work and addresses beside it. */
static void claims_of_a_queue_that_ends(void **state) {
    struct fixture *fixture = *state;
    struct vr_answer answer;
    fixture->config.deterministic = true;
    restart(fixture, 16);
    struct vr_block *block = fixture_get(fixture, 2 * GRANULE);
    driver_free(fixture->space, block, 2, 7); /* which has not passed */
    struct vr_want want = {.bytes = 4 * GRANULE, .queue = 2};
    assert_int_equal(ask(fixture, want, &answer), VRAM_OK);
    assert_non_null(answer.plan);
    vr_space_forget(fixture->space, 1);
    vr_space_forget(fixture->space, 2);
    struct vr_block *large = driver_commit(&fixture->driver, fixture->space, answer.plan, false);
    vr_store(&large->state, VR_BLOCK_LIVE, VR_RELAXED);
    assert_sound(fixture->space);
}

static void nothing_to_rebuild(void **state) {
    struct fixture *fixture = *state;
    struct vr_rebuild *list = NULL;
    fixture->config.mode = VR_SPACE_SEGMENTS;
    fixture_restart(fixture);
    struct vr_want want = {.bytes = 4 * GRANULE, .queue = 1};
    assert_non_null(driver_want(&fixture->driver, fixture->space, &want, true));
    assert_int_equal(vr_rebuild_find(fixture->space, &list), VRAM_OK);
    assert_null(list);
}

#define EDGE(test) cmocka_unit_test_setup_teardown(test, begin, fixture_end)

int main(void) {
    const struct CMUnitTest tests[] = {
        EDGE(configurations),
        EDGE(records_run_out),
        EDGE(sizes_that_no_space_has),
        EDGE(takes_that_are_refused),
        EDGE(reserves_that_are_none),
        EDGE(reserves_without_addresses),
        EDGE(reserves_end),
        EDGE(reserves_behind_growth),
        EDGE(searches_end),
        EDGE(idle_holes_end),
        EDGE(windows_without_records),
        EDGE(windows_at_the_lowest_address),
        EDGE(large_blocks),
        EDGE(coarse_without_a_limit),
        EDGE(long_runs),
        EDGE(runs_that_are_cut_short),
        EDGE(runs_that_find_a_hole),
        EDGE(runs_without_addresses),
        EDGE(runs_of_recreated_memory),
        EDGE(holes_of_another_queue),
        EDGE(surplus_and_little_time),
        EDGE(surplus_without_host_memory),
        EDGE(claims_of_a_queue_that_ends),
        EDGE(nothing_to_rebuild),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
