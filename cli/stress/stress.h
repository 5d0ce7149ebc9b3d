/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stress.h: what `vram stress` is made of: a soak, which runs for as long as one likes, and a
 * script, in which all is planned.
 */
#ifndef STRESS_H
#define STRESS_H

#include "target.h"

/* ---------------------------------------------------------------------- soak */

enum { SOAK_THREADS_MAX = 64 };

struct soak_plan {
    double seconds;
    uint32_t threads;
    uint64_t bytes; /* that the pool may hold; 0: a quarter of what is free, at most 1 GiB */
    uint64_t seed;
};

struct soak_result {
    uint64_t allocs, frees;   /* that succeeded */
    uint64_t refusals;        /* allocations refused because memory ran out: not a failure */
    uint64_t failures;        /* calls that failed in another way */
    uint64_t verified, wrong; /* blocks whose contents were looked at, and were not as written */
    uint64_t limit_bytes;
    vram_pool_stats stats; /* of the pool when all blocks were freed */
    uint64_t left_bytes;   /* still held after all was given back */
    char first[256];       /* what the first failure was; "" without one */
    double seconds;        /* that it took */
    bool interrupted;      /* by SIGINT, before the time was over */
};

/* False after one line on stderr when it could not run at all. */
bool soak_run(const struct soak_plan *plan, const struct target *target,
              const struct terminal *terminal, struct soak_result *result);
/* Whether nothing failed, all contents were right and nothing was left. */
bool soak_is_good(const struct soak_result *result);

/* -------------------------------------------------------------------- script */

enum { SCRIPT_LINES_MAX = 128 };

/* One thing that was planned, and what was found. */
struct script_line {
    char name[64]; /* "levels: rises into high" */
    uint64_t planned, found;
};

struct script_result {
    struct script_line lines[SCRIPT_LINES_MAX];
    uint32_t count, wrong;
    uint32_t skipped;    /* fallbacks that the device has no memory for */
    uint64_t unit_bytes; /* one hundredth of what the pool may hold */
};

/* False after one line on stderr when a call failed that the plan has succeed. */
bool script_run(const struct target *target, bool simulated, const struct terminal *terminal,
                struct script_result *result);

#endif
