/* SPDX-License-Identifier: Apache-2.0 */
/* test_live_past.c: the past of a watched process: bounded, with its peaks, and its refusals. */
#include "rig/rig.h"
#include "serve/live_document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define UNKNOWN   VRAM_LIVE_PAGE_UNKNOWN

enum { TAGS = 64 };

/* A page with rows that a test fills in. */
struct world {
    struct page_view view;
    vram_live_page_tag tags[TAGS];
    vram_live_page_pool pools[2];
    vram_live_page_device devices[1];
    vram_live_page_refusal refusals[VRAM_LIVE_PAGE_REFUSALS];
};

static void world_begin(struct world *world) {
    memset(world, 0, sizeof *world);
    world->view.tags = world->tags;
    world->view.pools = world->pools;
    world->view.devices = world->devices;
    world->view.refusals = world->refusals;
    world->view.head.sum.limit_bytes = UNKNOWN;
    world->devices[0].limit_bytes = UNKNOWN;
}

static void live_set(struct world *world, uint64_t live, uint64_t held) {
    world->view.head.sum.allocated_bytes = live;
    world->view.head.sum.held_bytes = held;
}

static void tag_set(struct world *world, uint32_t row, const char *name, uint64_t own) {
    snprintf(world->tags[row].name, sizeof world->tags[row].name, "%s", name);
    world->tags[row].own_bytes = own;
    if (world->view.head.tags.count <= row) {
        world->view.head.tags.count = row + 1;
    }
}

static size_t column_find(const struct live_past *past, const char *name) {
    size_t at = 0;
    while (at < past->tag_count && strcmp(past->tags[at].name, name) != 0) {
        at++;
    }
    return at;
}

/* ------------------------------------------------------------------------ slots */

TEST(test_slot_keeps_its_peak) {
    struct world world;
    struct live_past past;
    world_begin(&world);
    assert_true(live_past_begin(&past));
    live_set(&world, 10, 100);
    tag_set(&world, 0, "a", 10);
    live_past_add(&past, 0, &world.view);
    live_set(&world, 70, 90);
    tag_set(&world, 0, "a", 60);
    live_past_add(&past, SECOND_NS / 2, &world.view);
    live_set(&world, 20, 50);
    tag_set(&world, 0, "a", 20);
    live_past_add(&past, SECOND_NS - 1, &world.view);
    assert_int_equal(past.count, 1);
    assert_int_equal(past.slots[0].live_bytes, 70);
    assert_int_equal(past.slots[0].held_bytes, 100);
    assert_int_equal(past.slots[0].tags[column_find(&past, "a")], 60);
    live_past_add(&past, SECOND_NS, &world.view);
    assert_int_equal(past.count, 2);
    assert_int_equal(past.slots[1].live_bytes, 20);
    assert_int_equal(past.generation, 1);
    live_past_free(&past);
}

/* Days of samples, some with gaps: the bound holds, and each slot has the most of its time. */
TEST(test_slots_stay_bounded) {
    enum { SAMPLES = 9000 };
    static uint64_t times[SAMPLES], lives[SAMPLES];
    struct world world;
    struct live_past past;
    uint64_t now = 0;
    world_begin(&world);
    assert_true(live_past_begin(&past));
    srand(5);
    for (int i = 0; i < SAMPLES; i++) {
        now += i == 4000 ? 86400 * SECOND_NS : (uint64_t)(rand() % 1500) * (SECOND_NS / 1000);
        times[i] = now;
        lives[i] = (uint64_t)(rand() % 1000000);
        live_set(&world, lives[i], lives[i] * 2);
        uint64_t generation = past.generation;
        size_t count = past.count;
        live_past_add(&past, now, &world.view);
        assert_true(past.count <= PAST_SLOTS);
        assert_true(past.generation > generation || past.count == count || past.count == count + 1);
    }
    assert_true(past.generation > 1 && past.interval_ns > SECOND_NS);
    size_t at = 0;
    for (size_t slot = 0; slot < past.count; slot++) {
        uint64_t most = 0, end = (past.slots[slot].number + 1) * past.interval_ns;
        assert_true(slot == 0 || past.slots[slot].number > past.slots[slot - 1].number);
        for (; at < SAMPLES && times[at] < end; at++) {
            assert_true(times[at] >= past.slots[slot].number * past.interval_ns);
            most = lives[at] > most ? lives[at] : most;
        }
        assert_int_equal(past.slots[slot].live_bytes, most);
        assert_int_equal(past.slots[slot].held_bytes, most * 2);
    }
    assert_int_equal(at, SAMPLES);
    live_past_free(&past);
}

/* ------------------------------------------------------------------------- tags */

/* Small tags lose their columns to larger ones, and what a slot has of tags is never too much. */
TEST(test_columns_go_to_the_largest) {
    struct world world;
    struct live_past past;
    char name[16];
    world_begin(&world);
    assert_true(live_past_begin(&past));
    for (uint32_t i = 0; i < TAGS; i++) {
        snprintf(name, sizeof name, "small%u", (unsigned)i);
        tag_set(&world, i, name, 10 + i);
    }
    live_set(&world, 5000, 5000);
    live_past_add(&past, 0, &world.view);
    assert_int_equal(past.tag_count, PAST_TAGS);
    for (uint32_t i = 0; i < TAGS; i++) { /* those with most have columns */
        snprintf(name, sizeof name, "small%u", (unsigned)i);
        size_t column = column_find(&past, name);
        assert_int_equal(column < PAST_TAGS, i >= TAGS - PAST_TAGS);
        assert_true(column == PAST_TAGS || past.slots[0].tags[column] == 10 + i);
    }
    uint64_t generation = past.generation;
    tag_set(&world, 0, "large", 1000);
    live_past_add(&past, SECOND_NS, &world.view);
    size_t large = column_find(&past, "large");
    assert_true(large < PAST_TAGS && past.generation > generation);
    assert_int_equal(past.slots[0].tags[large], 0);
    assert_int_equal(past.slots[1].tags[large], 1000);
    live_set(&world, 500, 500); /* a page that lies: its tags have more than is live */
    live_past_add(&past, 2 * SECOND_NS, &world.view);
    for (size_t slot = 0; slot < past.count; slot++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < PAST_TAGS; i++) {
            sum += past.slots[slot].tags[i];
        }
        assert_true(sum <= past.slots[slot].live_bytes);
    }
    live_past_free(&past);
}

TEST(test_tags_of_two_devices_are_one) {
    struct world world;
    struct live_past past;
    world_begin(&world);
    assert_true(live_past_begin(&past));
    tag_set(&world, 0, "a", 30);
    tag_set(&world, 1, "a", 12);
    tag_set(&world, 2, "b", UNKNOWN);
    live_set(&world, 50, UNKNOWN);
    live_past_add(&past, 0, &world.view);
    assert_int_equal(past.tag_count, 1);
    assert_int_equal(past.slots[0].tags[0], 42);
    assert_int_equal(past.slots[0].held_bytes, 0);
    live_past_free(&past);
}

/* Programs under `vram run` have no tags: kinds of memory, which are pools, take their place. */
TEST(test_pools_take_the_place_of_tags) {
    struct world world;
    struct live_past past;
    world_begin(&world);
    assert_true(live_past_begin(&past));
    live_set(&world, 100, 100);
    world.view.head.pools.count = world.view.head.pools.total = 2;
    snprintf(world.pools[0].name, sizeof world.pools[0].name, "device");
    world.pools[0].counts.allocated_bytes = 60;
    snprintf(world.pools[1].name, sizeof world.pools[1].name, "code");
    world.pools[1].counts.allocated_bytes = UNKNOWN;
    world.pools[1].counts.live_bytes = 30;
    live_past_add(&past, 0, &world.view);
    assert_int_equal(past.tag_count, 2);
    assert_int_equal(past.slots[0].tags[column_find(&past, "device")], 60);
    assert_int_equal(past.slots[0].tags[column_find(&past, "code")], 30);
    tag_set(&world, 0, "a", 5); /* from now on */
    live_past_add(&past, SECOND_NS, &world.view);
    assert_int_equal(past.slots[1].tags[column_find(&past, "device")], 0);
    assert_int_equal(past.slots[1].tags[column_find(&past, "a")], 5);
    live_past_free(&past);
}

/* ------------------------------------------------------------- limits, pressure */

TEST(test_limit_and_pressure) {
    struct world world;
    struct live_past past;
    world_begin(&world);
    assert_true(live_past_begin(&past));
    world.view.head.pools.count = world.view.head.pools.total = 2;
    world.view.head.devices.count = 1;
    world.pools[0].counts.limit_bytes = 100;
    world.pools[1].counts.limit_bytes = UNKNOWN;
    world.pools[1].pressure_level = 3;
    live_past_add(&past, 0, &world.view);
    assert_true(past.slots[0].limit_bytes == UNKNOWN);
    assert_int_equal(past.slots[0].level, 3);
    world.pools[1].counts.limit_bytes = 20;
    world.pools[1].pressure_level = 1;
    live_past_add(&past, 1, &world.view);
    assert_int_equal(past.slots[0].limit_bytes, 120);
    assert_int_equal(past.slots[0].level, 3);
    world.devices[0].limit_bytes = 90;
    live_past_add(&past, 2, &world.view);
    assert_int_equal(past.slots[0].limit_bytes, 90);
    world.view.head.pools.total = 3; /* one that is not in the page */
    world.devices[0].limit_bytes = UNKNOWN;
    live_past_add(&past, 3, &world.view);
    assert_true(past.slots[0].limit_bytes == UNKNOWN);
    live_past_free(&past);
}

/* --------------------------------------------------------------------- refusals */

TEST(test_refusals_are_kept_once) {
    static struct live_document now;
    struct world world;
    world_begin(&world);
    memset(&now, 0, sizeof now);
    for (uint64_t number = 1; number <= 200; number++) {
        uint32_t count =
            number < VRAM_LIVE_PAGE_REFUSALS ? (uint32_t)number : (uint32_t)VRAM_LIVE_PAGE_REFUSALS;
        for (uint32_t i = 0; i < count; i++) {
            world.refusals[i].number = number - i; /* newest first */
        }
        world.view.head.refusals.count = count;
        now.view = world.view;
        live_refusals_add(&now, false);
        live_refusals_add(&now, false);
    }
    assert_int_equal(now.refusal_count, LIVE_REFUSALS);
    for (uint32_t i = 0; i < LIVE_REFUSALS; i++) {
        assert_int_equal(now.refusals[i].number, 200 - i);
    }
    world.refusals[0].number = 1; /* another program after exec */
    world.view.head.refusals.count = 1;
    now.view = world.view;
    live_refusals_add(&now, false);
    assert_int_equal(now.refusals[0].number, 200);
    live_refusals_add(&now, true);
    assert_int_equal(now.refusals[0].number, 1);
    assert_int_equal(now.refusals[1].number, 200);
}

/* Blocks may be older than the clock was when they were asked for. */
TEST(blocks_have_an_age) {
    static struct live_document now;
    static char text[1 << 16];
    assert_true(live_past_begin(&now.past));
    for (uint64_t ns = 50; ns <= 150; ns += 100) {
        now.blocks_known = true;
        now.blocks_ns = 100;
        FILE *file = fmemopen(text, sizeof text, "w");
        assert_non_null(file);
        assert_true(live_document_write(&now, ns, 0, 0, file));
        assert_int_equal(fclose(file), 0);
        assert_non_null(strstr(text, ns < 100 ? "\"age_ns\": 0" : "\"age_ns\": 50"));
    }
    live_document_free(&now);
}
