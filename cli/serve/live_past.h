/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_past.h: what a process held since it is watched, in bounded memory.
 *
 * Time is cut into slots of one second. A slot keeps the sample with the most live bytes, so that a
 * peak between two slots stays visible. When all slots are used, each two become one and a slot is
 * twice as long.
 *
 *  (1) Slots are in the order of time, and their numbers rise. The last one still changes.
 *  (2) `generation` changes whenever slots before the last one do: a reader that knows an older
 *      generation has to read all again.
 *  (3) The sum of a slot's tags is at most its live bytes; the rest has no tag, or one without a
 *      column.
 */
#ifndef LIVE_PAST_H
#define LIVE_PAST_H

#include "live/page_view.h"

enum {
    PAST_SLOTS = 2048,
    PAST_TAGS = 32 /* columns: tags that are told apart; pools where nothing has a tag */
};

struct past_slot {
    uint64_t number;      /* begins at number * interval_ns */
    uint64_t live_bytes;  /* after rounding */
    uint64_t held_bytes;  /* most of the slot */
    uint64_t limit_bytes; /* VRAM_LIVE_PAGE_UNKNOWN: no limit */
    uint64_t level;       /* a vram_pressure_level, the highest of the slot */
    uint64_t tags[PAST_TAGS];
};

/* A column. */
struct past_tag {
    char name[sizeof((vram_live_page_tag *)0)->name];
    uint64_t peak_bytes; /* most that it had in a slot */
};

struct live_past {
    uint64_t interval_ns; /* of a slot */
    uint64_t generation;
    struct past_slot *slots; /* PAST_SLOTS */
    size_t count;
    struct past_tag tags[PAST_TAGS];
    size_t tag_count;
};

/* False: out of host memory. */
bool live_past_begin(struct live_past *past);
void live_past_free(struct live_past *past);

/* Adds what the page says now, so long after the beginning. Times must not fall. */
void live_past_add(struct live_past *past, uint64_t since_ns, const struct page_view *view);

/* The highest level of pressure of its pools and devices. */
uint32_t live_pressure(const struct page_view *view);

#endif
