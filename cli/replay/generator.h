/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generator.h: made-up traces, for what recorded ones do not show: many queues, a host that runs
 * ahead of the device, threads, and shapes that repeat exactly.
 *
 * A specification is "KIND[,key=value...]". The same one gives the same trace everywhere.
 */
#ifndef REPLAY_GENERATOR_H
#define REPLAY_GENERATOR_H

#include "trace_ops.h"

/* The kinds, by blanks, for completion. */
#define GENERATOR_KINDS "steady varied queues ahead threads"

/*
 * Generates the trace that `text` asks for. False, nothing to free, and one line in `problem` that
 * names the mistake and what is accepted.
 */
bool generator_run(const char *text, struct trace *trace, char problem[TRACE_PROBLEM_MAX]);

#endif
