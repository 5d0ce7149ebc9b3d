/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_history.c: what `vram report` adds up is what a second, slower book says; and each rule of
 * its advice speaks when it should, and only then.
 */
#include "byte_units.h"
#include "report/advice.h"
#include "rig/rig.h"

#include <stdlib.h>
#include <string.h>

#include <vram/vram.h>

static struct recorded event_of(enum recorded_kind kind, uint64_t time_ns, uint64_t id,
                                uint64_t bytes) {
    return (struct recorded){.kind = kind,
                             .time_ns = time_ns,
                             .id = id,
                             .bytes = bytes,
                             .held = bytes,
                             .pool = 1,
                             .tag = "",
                             .name = "",
                             .pool_name = "main"};
}

static void add(struct history *history, enum recorded_kind kind, uint64_t time_ns, uint64_t id,
                uint64_t bytes) {
    struct recorded event = event_of(kind, time_ns, id, bytes);
    assert_true(history_add(history, &event));
}

static void begin(struct history *history) {
    assert_true(history_begin(history, "t"));
}

/* --------------------------------------------------------------- a second book */

enum { BLOCKS = 64, GROUPS = 5, STEPS = 20000 };

/* Allocations, frees and resizes at random; at each new peak the slow book is copied whole. */
TEST(agrees_with_a_slower_book) {
    uint64_t bytes[BLOCKS] = {0}, ids[BLOCKS] = {0}, groups[BLOCKS] = {0}, at_peak[GROUPS] = {0};
    uint64_t live = 0, peak = 0, next = 1, allocs = 0, random = 1;
    struct history history;
    begin(&history);
    for (uint64_t step = 0; step < STEPS; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t slot = random >> 33 & (BLOCKS - 1);
        struct recorded event = event_of(RECORDED_ALLOC, step * 1000, ids[slot], random >> 40);
        if (ids[slot] == 0) {
            ids[slot] = event.id = next++;
            bytes[slot] = event.bytes;
            groups[slot] = random >> 20 & 1 ? 1 + (random >> 50) % 4 : 0;
            event.tag_number = (uint32_t)groups[slot];
            event.stack = (uint32_t)groups[slot] / 2;
            live += event.bytes;
            allocs++;
        } else if (random >> 61 & 1) {
            event.kind = RECORDED_RESIZE;
            event.before = bytes[slot];
            live = live - bytes[slot] + event.bytes;
            bytes[slot] = event.bytes;
        } else {
            event.kind = RECORDED_FREE;
            live -= bytes[slot];
            bytes[slot] = ids[slot] = 0;
        }
        assert_true(history_add(&history, &event));
        if (live > peak) {
            peak = live;
            memset(at_peak, 0, sizeof at_peak);
            for (size_t i = 0; i < BLOCKS; i++) {
                at_peak[groups[i]] += bytes[i];
            }
        }
        assert_int_equal(history.live_bytes, live);
    }
    history_finish(&history);
    assert_int_equal(history.peak_bytes, peak);
    assert_int_equal(history.allocs, allocs);
    uint64_t seen = 0;
    for (size_t i = 0; i < history.group_count; i++) {
        assert_int_equal(history.groups[i].peak_bytes, at_peak[history.groups[i].tag_number]);
        seen += history.groups[i].peak_bytes;
    }
    assert_int_equal(seen, peak);
    uint64_t in_slices = 0;
    for (size_t i = 0; i < history.slice_count; i++) {
        in_slices += history.slices[i].allocs;
    }
    assert_int_equal(in_slices, allocs);
    assert_true(history.slice_count * history.slice_ns >= history.duration_ns);
    assert_true((history.slice_count - 1) * history.slice_ns <= history.duration_ns);
    history_free(&history);
}

TEST(strange_events) {
    struct history history;
    begin(&history);
    add(&history, RECORDED_FREE, 1, 77, 100); /* from before the trace */
    add(&history, RECORDED_FREE, 1, 0, 100);  /* its record was lost */
    add(&history, RECORDED_ALLOC, 2, 0, 100);
    add(&history, RECORDED_RESIZE, 3, 78, 100);
    assert_int_equal(history.live_blocks, 0);
    assert_int_equal(history.strangers, 1);
    add(&history, RECORDED_ALLOC, 4, 5, 0); /* an empty one */
    struct recorded again = event_of(RECORDED_ALLOC, 5, 5, 10);
    assert_false(history_add(&history, &again));
    assert_string_equal(history.problem, "a block is allocated that is live already");
    struct recorded huge = event_of(RECORDED_ALLOC, UINT64_MAX, 6, UINT64_MAX);
    assert_true(history_add(&history, &huge));
    huge.id = 7;
    assert_false(history_add(&history, &huge));
    assert_string_equal(history.problem, "the live bytes do not fit in 64 bits");
    history_finish(&history);
    history_free(&history);
}

static struct recorded of_pool(enum recorded_kind kind, uint64_t id, uint64_t bytes,
                               uint32_t pool) {
    struct recorded event = event_of(kind, 1, id, bytes);
    event.pool = pool;
    event.pool_number = pool;
    return event;
}

/* A pool's end takes its blocks and no other's; pools that share a place in the report are told
   apart. */
TEST(a_pool_takes_its_blocks_with_it) {
    struct history history;
    begin(&history);
    for (uint32_t i = 1; i <= 2000; i++) {
        struct recorded event = of_pool(RECORDED_ALLOC, i, 10, 1 + i % 1000);
        assert_true(history_add(&history, &event));
    }
    struct recorded freed = of_pool(RECORDED_FREE, 999, 10, 1000);
    assert_true(history_add(&history, &freed));
    struct recorded grown = of_pool(RECORDED_RESIZE, 1999, 50, 1000);
    assert_true(history_add(&history, &grown));
    struct recorded end = of_pool(RECORDED_POOL_END, 0, 0, 1000);
    assert_true(history_add(&history, &end));
    assert_true(history_add(&history, &end)); /* it has nothing left */
    assert_int_equal(history.live_bytes, 19980);
    assert_int_equal(history.live_blocks, 1998);
    assert_int_equal(history.lost_bytes, 50);
    assert_int_equal(history.lost_blocks, 1);
    freed.id = 1999; /* on another thread, and late */
    assert_true(history_add(&history, &freed));
    assert_int_equal(history.live_blocks, 1998);
    assert_int_equal(history.strangers, 1);
    history_finish(&history);
    assert_int_equal(history.groups[0].bytes, 19980);
    assert_int_equal(history.groups[0].lost_bytes, 50);
    history_free(&history);
}

/* In a ring that has lost its beginning the look before a pool's end tells what it had from
   then. */
TEST(a_pool_takes_unknown_blocks_with_it) {
    struct history history;
    struct recording ring = {.first_sequence = 3, .first_blocks = 5, .first_bytes = 1000};
    begin(&history);
    history_note_first(&history, &ring);
    struct recorded event = of_pool(RECORDED_ALLOC, 77, 50, 1);
    assert_true(history_add(&history, &event));
    event = of_pool(RECORDED_SAMPLE, 0, 0, 1);
    event.sample.live = 650;
    assert_true(history_add(&history, &event));
    event.kind = RECORDED_POOL_END;
    assert_true(history_add(&history, &event));
    assert_int_equal(history.live_bytes, 400);
    assert_int_equal(history.first_bytes, 400);
    event = of_pool(RECORDED_SAMPLE, 0, 0, 2);
    event.sample.live = 400;
    assert_true(history_add(&history, &event));
    event.kind = RECORDED_POOL_END;
    assert_true(history_add(&history, &event));
    assert_int_equal(history.live_bytes, 0);
    assert_int_equal(history.live_blocks, 0);
    history_free(&history);
}

/* Transfers are summed by direction and route, those of later versions apart, and move nothing
   on. */
TEST(transfers_are_added_up) {
    struct history history;
    begin(&history);
    assert_null(history_transfers(&history, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_STAGED));
    add(&history, RECORDED_ALLOC, 10, 1, 100);
    struct recorded copy = {.kind = RECORDED_TRANSFER,
                            .time_ns = 500,
                            .direction = VRAM_TRANSFER_TO_HOST,
                            .route = VRAM_ROUTE_STAGED,
                            .bytes = 4096,
                            .took_ns = 1000,
                            .tag = "",
                            .name = "",
                            .pool_name = ""};
    assert_true(history_add(&history, &copy));
    copy.took_ns = 3000;
    copy.bytes = 8192;
    assert_true(history_add(&history, &copy));
    copy.status = VRAM_ERR_DEVICE_LOST;
    copy.took_ns = UINT64_MAX;
    assert_true(history_add(&history, &copy));
    copy.direction = 77;
    copy.route = UINT64_MAX;
    assert_true(history_add(&history, &copy));
    add(&history, RECORDED_FREE, 11, 1, 100);
    history_finish(&history);
    assert_int_equal(history.events, 2);
    assert_int_equal(history.transfer_count, 4);
    assert_int_equal(history.duration_ns, 500);
    const vram_transfer_stats *sum =
        history_transfers(&history, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_STAGED);
    assert_non_null(sum);
    assert_int_equal(sum->operations, 3);
    assert_int_equal(sum->failures, 1);
    assert_int_equal(sum->bytes, 12288);
    assert_int_equal(sum->latency_ns, UINT64_MAX); /* not around */
    assert_int_equal(sum->min_latency_ns, 1000);
    assert_int_equal(sum->max_latency_ns, UINT64_MAX);
    assert_int_equal(vram_transfer_stats_percentile(sum, 33), 1023);
    assert_int_equal(vram_transfer_stats_percentile(sum, 100), UINT64_MAX);
    const vram_transfer_stats *other =
        history_transfers(&history, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY);
    assert_non_null(other);
    assert_int_equal(other->operations, 1);
    assert_int_equal(other->bytes, 0);
    history_free(&history);
}

/* ---------------------------------------------------------------------- advice */

static const struct advice *find(const struct history *history, const char *name) {
    static struct advice list[ADVICE_MAX];
    size_t count = advice_give(history, list);
    assert_true(count < ADVICE_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_true(list[i].found[0] != 0 && list[i].mend != NULL);
        assert_true(i == 0 || list[i].weight <= list[i - 1].weight);
        if (strcmp(list[i].name, name) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

static void sample(struct history *history, uint64_t time_ns, struct recorded_sample sample) {
    struct recorded event = event_of(RECORDED_SAMPLE, time_ns, 0, 0);
    event.sample = sample;
    assert_true(history_add(history, &event));
}

/* Between two looks at a pool it may grow: it never holds less than what is live in it. */
TEST(held_is_never_below_live) {
    struct history history;
    begin(&history);
    sample(&history, 1000, (struct recorded_sample){.reserved = 0});
    add(&history, RECORDED_ALLOC, 2000, 1, 160 * MIB);
    add(&history, RECORDED_ALLOC, 3000, 2, 40 * MIB);
    add(&history, RECORDED_FREE, 40000, 2, 40 * MIB);
    sample(&history, 80000, (struct recorded_sample){.reserved = 162 * MIB, .live = 160 * MIB});
    add(&history, RECORDED_FREE, 120000, 1, 160 * MIB);
    history_finish(&history);
    assert_int_equal(history.peak_bytes, 200 * MIB);
    assert_int_equal(history.peak_reserved, 200 * MIB);
    assert_int_equal(history.pools[0].peak_reserved, 200 * MIB);
    for (size_t i = 0; i < history.slice_count; i++) {
        assert_true(history.slices[i].reserved >= history.slices[i].peak);
        assert_true(history.slices[i].reserved_last >= history.slices[i].live);
    }
    assert_int_equal(history.slices[history.slice_count - 1].reserved_last, 162 * MIB);
    history_free(&history);
}

TEST(nothing_to_be_said) {
    struct history history;
    struct advice list[ADVICE_MAX];
    begin(&history);
    assert_int_equal(advice_give(&history, list), 0);
    add(&history, RECORDED_ALLOC, 1, 1, 100 * MIB);
    sample(&history, 2,
           (struct recorded_sample){
               .live = 100 * MIB, .reserved = 102 * MIB, .free = 2 * MIB, .limit = 1024 * MIB});
    add(&history, RECORDED_FREE, 3, 1, 100 * MIB);
    history_finish(&history);
    assert_null(find(&history, "leaks"));
    assert_null(find(&history, "pressure"));
    assert_null(find(&history, "idle"));
    assert_null(find(&history, "fragmentation"));
    assert_null(find(&history, "misses"));
    history_free(&history);
}

TEST(leaks_and_old_blocks) {
    struct history history;
    begin(&history);
    add(&history, RECORDED_ALLOC, 1, 1, 100 * MIB);
    add(&history, RECORDED_ALLOC, UINT64_C(50000000000), 2, 10 * MIB);
    history_finish(&history);
    assert_non_null(find(&history, "leaks"));
    assert_null(find(&history, "long-lived"));
    add(&history, RECORDED_FREE, UINT64_C(60000000002), 2, 10 * MIB);
    assert_non_null(find(&history, "long-lived"));
    history_free(&history);
}

TEST(pressure_idle_and_fragmentation) {
    struct history history;
    begin(&history);
    add(&history, RECORDED_ALLOC, 1, 1, 100 * MIB);
    struct recorded_sample looked = {
        .live = 100 * MIB, .reserved = 700 * MIB, .free = 20 * MIB, .largest_free = 20 * MIB};
    looked.limit = 1000 * MIB;
    sample(&history, 2, looked);
    assert_null(find(&history, "pressure")); /* 0.7 is not above */
    looked.reserved = 701 * MIB;
    sample(&history, 3, looked);
    assert_int_equal(find(&history, "pressure")->weight, ADVICE_WARN);
    looked.reserved = 901 * MIB;
    sample(&history, 4, looked);
    assert_int_equal(find(&history, "pressure")->weight, ADVICE_BAD);
    assert_null(find(&history, "idle"));
    assert_null(find(&history, "fragmentation"));
    looked.free = 300 * MIB;
    looked.largest_free = 200 * MIB;
    sample(&history, 5, looked);
    assert_non_null(find(&history, "idle"));
    assert_int_equal(find(&history, "fragmentation")->weight, ADVICE_NOTE);
    looked.largest_free = 100 * MIB;
    sample(&history, 6, looked);
    assert_int_equal(find(&history, "fragmentation")->weight, ADVICE_WARN);
    history_free(&history);
}

TEST(churn_small_large_and_misses) {
    struct history history;
    begin(&history);
    for (uint64_t i = 1; i <= 1000; i++) {
        add(&history, RECORDED_ALLOC, i, i, 256);
        add(&history, RECORDED_FREE, i, i, 256);
    }
    assert_non_null(find(&history, "churn"));
    assert_non_null(find(&history, "small"));
    assert_null(find(&history, "large"));
    assert_null(find(&history, "misses"));
    sample(&history, 1001, (struct recorded_sample){.reserved = MIB, .hits = 900, .misses = 100});
    assert_null(find(&history, "misses"));
    sample(&history, 1002, (struct recorded_sample){.reserved = MIB, .hits = 700, .misses = 300});
    assert_non_null(find(&history, "misses"));
    add(&history, RECORDED_ALLOC, 2000, 2000, 100 * MIB);
    assert_non_null(find(&history, "large"));
    assert_null(find(&history, "churn"));
    history_free(&history);
}

TEST(refusals_and_losses) {
    struct history history;
    begin(&history);
    struct recorded refused = event_of(RECORDED_REFUSE, 1, 0, 100);
    refused.status = VRAM_ERR_DEVICE_MEMORY;
    assert_true(history_add(&history, &refused));
    assert_int_equal(find(&history, "refusals")->weight, ADVICE_BAD);
    assert_null(find(&history, "loss"));
    history.missing_chunks = 3;
    assert_int_equal(find(&history, "loss")->weight, ADVICE_NOTE);
    history.lost_events = 3;
    assert_int_equal(find(&history, "loss")->weight, ADVICE_WARN);
    for (int i = 0; i < 100; i++) { /* statuses of a hostile file */
        refused.status = -i;
        assert_true(history_add(&history, &refused));
    }
    assert_non_null(find(&history, "refusals"));
    history_free(&history);
}

TEST(blocks_from_before_are_freed) {
    struct history history;
    begin(&history);
    history.first_blocks = history.live_blocks = 2;
    history.first_bytes = history.live_bytes = 100;
    add(&history, RECORDED_FREE, 1, 0, 10); /* its record was lost */
    assert_int_equal(history.first_blocks, 2);
    add(&history, RECORDED_FREE, 1, 77, 10);
    assert_int_equal(history.first_blocks, 1);
    assert_int_equal(history.live_bytes, 90);
    add(&history, RECORDED_FREE, 2, 78, 90);
    add(&history, RECORDED_FREE, 3, 79, 10); /* one more than there were */
    assert_int_equal(history.live_blocks, 0);
    assert_int_equal(history.live_bytes, 0);
    history_free(&history);
}

/* -------------------------------------------------------------------------- growth */

/* A group that grew by `step` blocks in each of the parts `from` to `to`. */
static struct history_group grown(uint32_t from, uint32_t to, uint32_t step) {
    struct history_group group = {.tag = ""};
    uint64_t blocks = 1;
    for (uint32_t part = 0; part < GROWTH_PARTS; part++) {
        growth_note(&group.growth, part, blocks, blocks);
        blocks += part >= from && part < to ? step : 0;
    }
    growth_finish(&group.growth, GROWTH_PARTS, blocks);
    return group;
}

TEST(the_worst_growth_comes_first) {
    static struct history history;
    static struct history_group groups[5];
    struct history_growth list[3];
    groups[0] = grown(10, 40, 1);
    groups[1] = grown(10, 50, 1); /* rises more often */
    groups[2] = grown(10, 40, 5); /* as often, by more */
    groups[3] = grown(30, 34, 1); /* too short */
    groups[4] = grown(10, 40, 1); /* no better than the first */
    history.groups = groups;
    history.group_count = 5;
    history.slice_count = GROWTH_PARTS;
    for (size_t i = 0; i < GROWTH_PARTS; i++) {
        history.slices[i].allocs = history.slices[i].frees = 10;
    }
    assert_int_equal(history_find_growth(&history, list, 3), 3);
    assert_ptr_equal(list[0].group, &groups[1]);
    assert_ptr_equal(list[1].group, &groups[2]);
    assert_ptr_equal(list[2].group, &groups[0]);
    assert_int_equal(history_find_growth(&history, list, 1), 1);
    assert_ptr_equal(list[0].group, &groups[1]);
    for (size_t i = 0; i < GROWTH_PARTS; i++) { /* everything grows: a model is loaded */
        history.slices[i].frees = 0;
    }
    assert_int_equal(history_find_growth(&history, list, 3), 0);
}

TEST(growth_has_bounds) {
    struct growth growth = {.least = {0}};
    struct growth_span span;
    growth_finish(&growth, 0, 5); /* a time without parts */
    assert_int_equal(growth.part, 0);
    growth_note(&growth, 1, UINT64_MAX, UINT64_MAX);
    assert_int_equal(growth.least[1], UINT32_MAX);
    assert_false(growth_find(&growth, 0, &span));
    /* Two spans of it, of which the first is the longer one. */
    uint64_t blocks = 0;
    growth = (struct growth){.least = {0}};
    for (uint32_t part = 0; part < GROWTH_PARTS; part++) {
        blocks = part == 34 ? 0 : blocks + 1;
        growth_note(&growth, part, blocks, blocks);
    }
    assert_true(growth_find(&growth, GROWTH_PARTS, &span));
    assert_int_equal(span.from, 0);
    assert_int_equal(span.to, 33);
}

/* A snapshot of which nearly all that is reserved is held; and blocks that are old and small. */
TEST(little_is_not_worth_saying) {
    struct history history;
    begin(&history);
    add(&history, RECORDED_ALLOC, 0, 1, 10);
    add(&history, RECORDED_ALLOC, UINT64_C(120000000000), 2, 1000);
    history_finish(&history);
    assert_null(find(&history, "long-lived"));
    history.format = FORMAT_SNAPSHOT;
    history.peak_held = 95;
    history.peak_reserved = 100;
    assert_null(find(&history, "reserved"));
    history.peak_held = 50;
    assert_non_null(find(&history, "reserved"));
    history_free(&history);
}
