/* SPDX-License-Identifier: Apache-2.0 */
/*
 * least.h: the least device memory in which a trace still runs with a policy, by bisection, and
 * what it costs there.
 */
#ifndef REPLAY_LEAST_H
#define REPLAY_LEAST_H

#include "player.h"

/* A memory in which the trace runs. */
struct least_memory {
    uint64_t bytes;    /* of the device */
    uint64_t spent_ns; /* inside the policy */
};

struct least {
    struct pass freely;        /* with all the memory there is; if it was not done, the rest is 0 */
    struct least_memory tight; /* the least in which it runs */
    struct least_memory quick; /* the least in which the program takes at most 5 % longer */
    uint32_t runs;             /* passes that the search took */
};

/*
 * Searches between what the trace has live and what the policy holds if nothing limits it, to a
 * two-thousandth of the former. `memory_bytes` is all there is. A policy may fail in some memory
 * and run in less: then this is one of the places where it begins to run. VRAM_OK also if the trace
 * does not run, which least->freely says.
 */
vram_status least_find(const struct session_options *options, uint64_t memory_bytes,
                       const struct trace *trace, const struct policy *policy, struct least *least);

/* A memory over what the trace has live at its peak; 0 if that is 0. */
double least_ratio(const struct least *least, const struct least_memory *memory);

/* How much longer the program takes: its own time and the policy's, over both in `freely`. */
double least_slowdown(const struct least *least, const struct least_memory *memory);

#endif
