/* SPDX-License-Identifier: Apache-2.0 */
/* live_past.c: see live_past.h. */
#include "serve/live_past.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_NS UINT64_C(1000000000)

bool live_past_begin(struct live_past *past) {
    *past = (struct live_past){.interval_ns = SLOT_NS, .generation = 1};
    past->slots = calloc(PAST_SLOTS, sizeof *past->slots);
    return past->slots != NULL;
}

void live_past_free(struct live_past *past) {
    free(past->slots);
    *past = (struct live_past){0};
}

uint32_t live_pressure(const struct page_view *view) {
    uint32_t level = 0;
    for (uint32_t i = 0; i < view->head.pools.count; i++) {
        level = view->pools[i].pressure_level > level ? view->pools[i].pressure_level : level;
    }
    for (uint32_t i = 0; i < view->head.devices.count; i++) {
        level = view->devices[i].pressure_level > level ? view->devices[i].pressure_level : level;
    }
    return level;
}

static uint64_t known(uint64_t bytes) {
    return bytes == VRAM_LIVE_PAGE_UNKNOWN ? 0 : bytes;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b; /* unknown is the largest number */
}

/* Live bytes, after rounding where that is known. */
static uint64_t live_of(const vram_live_page_counts *counts) {
    bool rounded = counts->allocated_bytes != VRAM_LIVE_PAGE_UNKNOWN;
    return known(rounded ? counts->allocated_bytes : counts->live_bytes);
}

/* ---------------------------------------------------------------------- columns */

/* The column with the smallest peak is given to another tag; what it had joins the rest. */
static size_t column_reuse(struct live_past *past, uint64_t bytes) {
    size_t least = 0;
    for (size_t i = 1; i < PAST_TAGS; i++) {
        least = past->tags[i].peak_bytes < past->tags[least].peak_bytes ? i : least;
    }
    if (past->tags[least].peak_bytes >= bytes) {
        return PAST_TAGS;
    }
    for (size_t i = 0; i < past->count; i++) {
        past->slots[i].tags[least] = 0;
    }
    past->generation++; /* keeps (2) */
    return least;
}

/* The column of a tag; PAST_TAGS: it has none. */
static size_t column_of(struct live_past *past, const char *name, uint64_t bytes) {
    size_t at = 0;
    while (at < past->tag_count && strcmp(past->tags[at].name, name) != 0) {
        at++;
    }
    if (at < past->tag_count || bytes == 0) {
        return at < past->tag_count ? at : PAST_TAGS;
    }
    at = past->tag_count < PAST_TAGS ? past->tag_count++ : column_reuse(past, bytes);
    if (at < PAST_TAGS) {
        past->tags[at] = (struct past_tag){0};
        snprintf(past->tags[at].name, sizeof past->tags[at].name, "%s", name);
    }
    return at;
}

/* What tag `row` has of its own. Where nothing has a tag, as under `vram run`, pools take their
   place. NULL: there is no such row. */
static const char *row_of(const struct page_view *view, uint32_t row, uint64_t *bytes) {
    if (view->head.tags.count > 0) {
        *bytes = row < view->head.tags.count ? known(view->tags[row].own_bytes) : 0;
        return row < view->head.tags.count ? view->tags[row].name : NULL;
    }
    *bytes = row < view->head.pools.count ? live_of(&view->pools[row].counts) : 0;
    return row < view->head.pools.count ? view->pools[row].name : NULL;
}

/* Tags of several devices have one column. A page may lie about their sum: keeps (3). */
static void tags_take(struct live_past *past, const struct page_view *view,
                      struct past_slot *slot) {
    uint64_t left = slot->live_bytes, bytes;
    const char *name;
    for (uint32_t i = 0; (name = row_of(view, i, &bytes)) != NULL; i++) {
        uint64_t generation = past->generation;
        bytes = smaller(bytes, left);
        size_t column = column_of(past, name, bytes);
        if (column == PAST_TAGS) {
            continue;
        }
        if (past->generation != generation) { /* it was another tag's */
            slot->tags[column] = 0;
        }
        slot->tags[column] += bytes;
        left -= bytes;
        struct past_tag *tag = &past->tags[column];
        tag->peak_bytes =
            slot->tags[column] > tag->peak_bytes ? slot->tags[column] : tag->peak_bytes;
    }
}

/* ------------------------------------------------------------------------ slots */

/* Adds a later sample of the same slot. */
static void slot_merge(struct past_slot *slot, const struct past_slot *later) {
    struct past_slot both = later->live_bytes >= slot->live_bytes ? *later : *slot;
    both.number = slot->number;
    both.held_bytes = later->held_bytes > slot->held_bytes ? later->held_bytes : slot->held_bytes;
    both.level = later->level > slot->level ? later->level : slot->level;
    both.limit_bytes = later->limit_bytes;
    *slot = both;
}

/* Slots become twice as long. */
static void slots_halve(struct live_past *past) {
    size_t kept = 0;
    for (size_t i = 0; i < past->count; i++) {
        struct past_slot slot = past->slots[i];
        slot.number /= 2;
        if (kept > 0 && past->slots[kept - 1].number == slot.number) {
            slot_merge(&past->slots[kept - 1], &slot);
        } else {
            past->slots[kept++] = slot;
        }
    }
    past->count = kept;
    past->interval_ns *= 2;
    past->generation++; /* keeps (2) */
}

/* The most that the process may hold: by the limits of its pools, or by those of its devices. A
   pool that is not in the page may have none. */
static uint64_t limit_of(const struct page_view *view) {
    uint64_t pools = view->head.pools.count > 0 ? 0 : VRAM_LIVE_PAGE_UNKNOWN;
    uint64_t devices = view->head.devices.count > 0 ? 0 : VRAM_LIVE_PAGE_UNKNOWN;
    for (uint32_t i = 0; i < view->head.pools.count; i++) {
        pools = page_sum(pools, view->pools[i].counts.limit_bytes);
    }
    for (uint32_t i = 0; i < view->head.devices.count; i++) {
        devices = page_sum(devices, view->devices[i].limit_bytes);
    }
    pools = view->head.pools.total > view->head.pools.count ? VRAM_LIVE_PAGE_UNKNOWN : pools;
    return smaller(view->head.sum.limit_bytes, smaller(pools, devices));
}

void live_past_add(struct live_past *past, uint64_t since_ns, const struct page_view *view) {
    const vram_live_page_counts *sum = &view->head.sum;
    struct past_slot slot = {.live_bytes = live_of(sum),
                             .held_bytes = known(sum->held_bytes),
                             .limit_bytes = limit_of(view),
                             .level = live_pressure(view)};
    tags_take(past, view, &slot);
    slot.number = since_ns / past->interval_ns;
    if (past->count > 0 && past->slots[past->count - 1].number >= slot.number) {
        slot_merge(&past->slots[past->count - 1], &slot);
        return;
    }
    while (past->count == PAST_SLOTS) { /* slots far apart do not merge at once */
        slots_halve(past);
    }
    slot.number = since_ns / past->interval_ns;
    if (past->count > 0 && past->slots[past->count - 1].number == slot.number) {
        slot_merge(&past->slots[past->count - 1], &slot);
    } else {
        past->slots[past->count++] = slot;
    }
}
