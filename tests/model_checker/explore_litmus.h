/* SPDX-License-Identifier: Apache-2.0 */
/* explore_litmus.h: programs whose outcomes are known, to check the checker. */
#ifndef EXPLORE_LITMUS_H
#define EXPLORE_LITMUS_H

#include "explore_checker.h"
#include "explore_scenario.h"

struct litmus {
    struct scenario scenario;
    uint64_t outcomes; /* a bit for each that is possible, and must be found */
};
extern const struct litmus litmus_tests[]; /* ended by one without a name */

/* By finish: this execution ended so; below 64. */
void explore_outcome(unsigned outcome);

#endif
