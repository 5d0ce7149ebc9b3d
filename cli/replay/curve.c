/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curve.c: see curve.h.
 */
#include "curve.h"

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Begins parts up to `count` with what was noted last. */
static void reach(struct curve *curve, uint32_t count) {
    for (; curve->count < count; curve->count++) {
        curve->held[curve->count] = curve->last_held;
        curve->asked[curve->count] = curve->last_asked;
    }
}

void curve_note(struct curve *curve, uint32_t part, uint64_t held, uint64_t asked) {
    part = part < CURVE_POINTS ? part : CURVE_POINTS - 1;
    reach(curve, part + 1);
    curve->held[part] = larger(curve->held[part], held);
    curve->asked[part] = larger(curve->asked[part], asked);
    curve->last_held = held;
    curve->last_asked = asked;
}

void curve_finish(struct curve *curve) {
    reach(curve, CURVE_POINTS);
}

void curve_column(const struct curve *curve, uint32_t column, uint32_t columns, uint64_t *held,
                  uint64_t *asked) {
    uint32_t first = column * CURVE_POINTS / columns;
    uint32_t end = (column + 1) * CURVE_POINTS / columns;
    *held = *asked = 0;
    for (uint32_t i = first; (i < end || i == first) && i < curve->count; i++) {
        *held = larger(*held, curve->held[i]);
        *asked = larger(*asked, curve->asked[i]);
    }
}

uint32_t curve_coarse(const struct curve *curve, uint64_t held[CURVE_COARSE],
                      uint64_t asked[CURVE_COARSE]) {
    const uint32_t each = CURVE_POINTS / CURVE_COARSE;
    uint32_t count = (curve->count + each - 1) / each;
    for (uint32_t i = 0; i < count; i++) {
        curve_column(curve, i, CURVE_COARSE, &held[i], &asked[i]);
    }
    return count;
}

uint64_t curve_most(const struct curve *curve) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < curve->count; i++) {
        most = larger(most, curve->held[i]);
    }
    return most;
}
