/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scoreboard.h: a contest and its judgement as text and as JSON.
 */
#ifndef SCOREBOARD_H
#define SCOREBOARD_H

#include "bench/contest.h"
#include "target.h"

/* One peer's ratio held against that of an earlier run. */
struct verdict {
    const char *peer;
    double ratio, baseline_ratio;
    bool worse; /* past the margin */
};

/* What --baseline came to. */
struct judgement {
    const char *path; /* NULL: not asked for */
    double margin;    /* 0.15: 15 % worse is still good */
    struct verdict verdicts[ENTRIES_MAX];
    uint32_t verdict_count;
    bool worse; /* any of them is */
};

void scoreboard_print(const struct terminal *terminal, const struct contest *contest,
                      const struct target *target, const struct judgement *judgement);

/* False when the document could not be written. */
bool scoreboard_write(const struct contest *contest, const struct target *target,
                      const struct judgement *judgement);

#endif
