/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curve.h: what a policy held and what the program had asked for, over the time of a trace.
 *
 * The time is cut into equal parts. Each keeps the most there was in it, so that no peak is lost
 * however short it was; a part in which nothing happened has what was there before.
 */
#ifndef REPLAY_CURVE_H
#define REPLAY_CURVE_H

#include <stddef.h>
#include <stdint.h>

enum { CURVE_POINTS = 1920, CURVE_COARSE = 240 /* of curve_coarse; it divides the other */ };

struct curve {
    uint64_t held[CURVE_POINTS];    /* bytes taken from the driver, most in each part */
    uint64_t asked[CURVE_POINTS];   /* bytes live, as asked for, most in each part */
    uint32_t count;                 /* parts so far; fewer than all after a pass that failed */
    uint64_t last_held, last_asked; /* as noted last */
};

/* Notes what there is in part `part`, which is no earlier than the last one noted. */
void curve_note(struct curve *curve, uint32_t part, uint64_t held, uint64_t asked);

/* The parts that were not reached have what was noted last. */
void curve_finish(struct curve *curve);

/* One column of `columns`: the most of the parts that it covers. Both are 0 where nothing was
   noted. */
void curve_column(const struct curve *curve, uint32_t column, uint32_t columns, uint64_t *held,
                  uint64_t *asked);

/* The same curve in CURVE_COARSE parts. Returns how many there are. */
uint32_t curve_coarse(const struct curve *curve, uint64_t held[CURVE_COARSE],
                      uint64_t asked[CURVE_COARSE]);

/* The most that was held. */
uint64_t curve_most(const struct curve *curve);

#endif
