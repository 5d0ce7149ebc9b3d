/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site_growth.h: call sites whose live blocks grow for as long as the program runs, although the
 * rest of its memory comes and goes: a list that every step appends to. They are found by their
 * least count in each part of the time, so it does not matter that all are freed before the trace
 * ends.
 */
#ifndef REPORT_SITE_GROWTH_H
#define REPORT_SITE_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GROWTH_PARTS = 64 };

/* Fewest live blocks of one group in each part of the time. */
struct growth {
    uint32_t least[GROWTH_PARTS];
    uint32_t part; /* the last one that is filled */
};

/* Notes that a group has gone from `before` to `after` blocks in a part of the time. */
void growth_note(struct growth *growth, uint32_t part, uint64_t before, uint64_t after);

/* Each two parts become one. */
void growth_halve(struct growth *growth);

/* Behind the last event: all parts up to `count` are filled. */
void growth_finish(struct growth *growth, uint32_t count, uint64_t blocks);

/* A span of the time in which the count grew and never fell. */
struct growth_span {
    uint32_t from, to; /* parts */
    uint32_t blocks;   /* by which it grew */
    uint32_t rises;    /* parts in which it did */
};

/* The longest steady growth in `count` parts; false: there is none that lasts a third of the time,
   rises at least five times, and comes in no single burst. */
bool growth_find(const struct growth *growth, uint32_t count, struct growth_span *span);

#endif
