/* SPDX-License-Identifier: Apache-2.0 */
/* address_ranges.c: see address_ranges.h. */
#include "address_ranges.h"

#include <stdlib.h>
#include <string.h>

/* The number of ranges that begin at or before `addr`. */
static size_t ranges_before(const struct address_ranges *ranges, uint64_t addr) {
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->all[middle].begin <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint64_t gap_after(const struct address_ranges *ranges, size_t i) {
    uint64_t end = ranges->all[i].end, next = ranges->all[i + 1].begin;
    return next > end ? next - end : 0;
}

/* Joins range i and the next. */
static void ranges_join(struct address_ranges *ranges, size_t i) {
    struct address_range *at = &ranges->all[i];
    at->end = at[1].end > at->end ? at[1].end : at->end;
    ranges->count--;
    memmove(at + 1, at + 2, (ranges->count - i - 1) * sizeof *at);
}

/* Makes room by joining the two with the smallest gap. */
static void ranges_shrink(struct address_ranges *ranges) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < ranges->count; i++) {
        best = gap_after(ranges, i) < gap_after(ranges, best) ? i : best;
    }
    ranges_join(ranges, best);
}

static bool range_insert(struct address_ranges *ranges, size_t at, uint64_t begin, uint64_t end) {
    if (ranges->count == ranges->capacity) {
        size_t capacity = ranges->capacity > 0 ? ranges->capacity * 2 : 16;
        struct address_range *all = realloc(ranges->all, capacity * sizeof *all);
        if (all == NULL) {
            return false;
        }
        ranges->all = all;
        ranges->capacity = capacity;
    }
    struct address_range *place = &ranges->all[at];
    memmove(place + 1, place, (ranges->count - at) * sizeof *place);
    *place = (struct address_range){.begin = begin, .end = end};
    ranges->count++;
    return true;
}

bool ranges_add(struct address_ranges *ranges, uint64_t addr, uint64_t bytes) {
    uint64_t end = bytes > UINT64_MAX - addr ? UINT64_MAX : addr + bytes;
    size_t at = ranges_before(ranges, addr);
    if (at > 0 && end <= ranges->all[at - 1].end) {
        return true; /* the usual case */
    }
    if (at > 0 &&
        (addr <= ranges->all[at - 1].end || addr - ranges->all[at - 1].end < ADDRESS_GAP)) {
        at--;
        ranges->all[at].end = end > ranges->all[at].end ? end : ranges->all[at].end;
    } else if (!range_insert(ranges, at, addr, end)) {
        return false;
    }
    while (at + 1 < ranges->count && gap_after(ranges, at) < ADDRESS_GAP) {
        ranges_join(ranges, at);
    }
    if (ranges->count > ADDRESS_RANGES_MAX) {
        ranges_shrink(ranges);
    }
    return true;
}

void ranges_place(struct address_ranges *ranges) {
    ranges->bytes = 0;
    for (size_t i = 0; i < ranges->count; i++) {
        ranges->all[i].place = ranges->bytes;
        ranges->bytes += ranges->all[i].end - ranges->all[i].begin;
    }
}

uint64_t ranges_find(const struct address_ranges *ranges, uint64_t addr) {
    size_t at = ranges_before(ranges, addr);
    if (at == 0) {
        return 0;
    }
    const struct address_range *range = &ranges->all[at - 1];
    return range->place + (addr < range->end ? addr - range->begin : range->end - range->begin);
}
