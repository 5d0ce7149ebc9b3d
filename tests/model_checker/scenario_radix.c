/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_radix.c: the address map (base/radix.c). Records are written before they are mapped, and
 * read by whoever finds them.
 */
#include "explore_scenario.h"

#include "base/radix.h"

#define PAGE VR_RADIX_PAGE
#define FAR  (UINT64_C(1) << 40) /* shares the root only */

struct record {
    uint64_t base;
};

static struct vr_radix radix = VR_RADIX_INIT;
static struct record records[4];

static struct record *record_make(unsigned at, uint64_t base) {
    records[at].base = base;
    return &records[at];
}

static void record_insert(unsigned at, uint64_t base) {
    CHECK(vr_radix_insert(&radix, base, PAGE, record_make(at, base)) == VRAM_OK);
}

static void record_remove(unsigned at, uint64_t base) {
    CHECK(vr_radix_remove(&radix, base, PAGE, &records[at]) == VRAM_OK);
}

/* What is found may be another record, and tells so. */
static bool record_find(unsigned at, uint64_t base) {
    struct record *found = vr_radix_find(&radix, base);
    return found && found->base == base && found == &records[at];
}

/* A record that stays, beside those that come and go; nodes for them were used before. */
static void one_mapped(void) {
    record_insert(0, PAGE);
    record_insert(1, FAR);
    record_remove(1, FAR);
}

static void stable_grown(void) {
    record_insert(0, PAGE);
    record_remove(0, PAGE);
}

/* A tree without a root. */
static void nothing_mapped(void) {}

static void first_insert(void) {
    record_insert(1, FAR);
}

static void first_find(void) {
    (void)record_find(1, FAR);
    (void)record_find(1, FAR);
}

static void neighbour_insert(void) {
    record_insert(2, 2 * PAGE);
    record_remove(2, 2 * PAGE);
}

static void kept_find(void) {
    CHECK(record_find(0, PAGE));
    (void)record_find(2, 2 * PAGE);
    CHECK(record_find(0, PAGE));
}

static void far_insert_remove(void) {
    record_insert(1, FAR);
    record_remove(1, FAR);
    record_insert(3, 2 * FAR);
}

static void kept_find_far(void) {
    (void)record_find(1, FAR);
    CHECK(record_find(0, PAGE));
}

static void reused_find(void) {
    (void)record_find(3, 2 * FAR);
    (void)record_find(1, FAR);
}

static void second_insert(void) {
    record_insert(3, FAR + PAGE);
}

static void neighbour_remains(void) {
    CHECK(record_find(0, PAGE) && !vr_radix_find(&radix, 2 * PAGE));
}

static void far_remains(void) {
    CHECK(record_find(0, PAGE) && record_find(3, 2 * FAR) && !vr_radix_find(&radix, FAR));
}

static void both_remain(void) {
    CHECK(record_find(1, FAR) && record_find(3, FAR + PAGE));
}

const struct scenario radix_scenarios[] = {
    {"radix", "a first root", nothing_mapped, {first_insert, first_find}, NULL, false},
    {"radix", "a first mapping", stable_grown, {first_insert, first_find}, NULL, false},
    {"radix",
     "a mapping beside",
     one_mapped,
     {neighbour_insert, kept_find},
     neighbour_remains,
     false},
    {"radix",
     "nodes come and go",
     one_mapped,
     {far_insert_remove, kept_find_far},
     far_remains,
     false},
    {"radix", "nodes used again", one_mapped, {far_insert_remove, reused_find}, far_remains, true},
    {"radix", "two writers", stable_grown, {first_insert, second_insert}, both_remain, false},
    {.name = NULL}};
