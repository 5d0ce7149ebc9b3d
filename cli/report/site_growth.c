/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site_growth.c: see site_growth.h.
 */
#include "site_growth.h"

enum { RISES_MIN = 5 };

static uint32_t small(uint64_t number) {
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

void growth_note(struct growth *growth, uint32_t part, uint64_t before, uint64_t after) {
    part = part < GROWTH_PARTS ? part : GROWTH_PARTS - 1;
    while (growth->part < part) {
        growth->least[++growth->part] = small(before);
    }
    uint32_t *least = &growth->least[part];
    uint32_t now = small(before < after ? before : after);
    *least = now < *least ? now : *least;
}

void growth_halve(struct growth *growth) {
    for (size_t i = 0; i < GROWTH_PARTS / 2; i++) {
        uint32_t one = growth->least[2 * i], two = growth->least[2 * i + 1];
        bool both = 2 * i + 1 <= growth->part;
        growth->least[i] = both && two < one ? two : one;
    }
    growth->part /= 2;
}

void growth_finish(struct growth *growth, uint32_t count, uint64_t blocks) {
    if (count > 0) {
        growth_note(growth, count - 1, blocks, blocks);
    }
}

/* The span that begins at `from`: until the count falls, and not past its last rise. */
static struct growth_span span_from(const struct growth *growth, uint32_t count, uint32_t from,
                                    uint32_t *burst) {
    struct growth_span span = {from, from, 0, 0};
    *burst = 0;
    for (uint32_t i = from + 1; i < count && growth->least[i] >= growth->least[i - 1]; i++) {
        uint32_t rise = growth->least[i] - growth->least[i - 1];
        if (rise > 0) {
            span.from = span.rises == 0 ? i - 1 : span.from;
            span.to = i;
            span.rises++;
            span.blocks += rise;
            *burst = rise > *burst ? rise : *burst;
        }
    }
    return span;
}

bool growth_find(const struct growth *growth, uint32_t count, struct growth_span *best) {
    bool found = false;
    count = count < GROWTH_PARTS ? count : GROWTH_PARTS;
    for (uint32_t from = 0; from < count; from++) {
        uint32_t burst;
        struct growth_span span = span_from(growth, count, from, &burst);
        bool steady = span.rises >= RISES_MIN && (span.to - span.from) * 3 >= count &&
                      burst * 3 <= span.blocks;
        if (steady && (!found || span.rises > best->rises)) {
            *best = span;
            found = true;
        }
    }
    return found;
}
