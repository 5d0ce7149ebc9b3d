/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_report.h: passes as a table for people and as JSON for programs.
 */
#ifndef REPLAY_REPORT_H
#define REPLAY_REPORT_H

#include "replay/least.h"
#include "target.h"
#include "terminal.h"

/* Many passes, and what they have in common. */
struct replay_report {
    struct target *target;
    uint64_t memory_bytes; /* that could be used; 0: all that the device says it has */
    uint32_t repeats;      /* passes of each trace with each policy */
    bool verify;
    struct pass *passes;
    size_t pass_count;
    struct least *leasts; /* of --least, one for each trace and policy; NULL: passes instead */
    size_t least_count;
    struct curve *curves; /* one for each trace and policy; NULL: no picture is wanted */
};

/* One table for each trace, a row for each pass. */
void replay_report_print(const struct replay_report *report, const struct terminal *terminal);

/*
 * Parts of it: the title, the line about a trace, what --verify found, and why a pass was not done,
 * if it was not.
 */
void replay_report_head(const struct replay_report *report, const struct terminal *terminal);
void replay_report_trace(const struct trace *trace, const struct terminal *terminal);
void replay_report_verdict(const struct replay_report *report, const struct terminal *terminal);
void pass_print_problem(const struct terminal *terminal, const struct pass *pass);

/* One document of the schema vram.replay/1. False: it is not whole. */
bool replay_report_write(const struct replay_report *report);

/* Peak held over peak asked for; 0 when nothing was asked for or the pass was not done. */
double pass_ratio(const struct pass *pass);

/* The colour of a ratio: tight is good, twice what was asked for is not. */
enum style ratio_style(double ratio);

/* Driver calls of all kinds. */
uint64_t pass_calls(const struct pass *pass);

/* Time spent on moving memory over the time of the program; 0 when that is 0. */
double pass_move_share(const struct pass *pass);

/* Time inside the policy for each operation; 0 for an empty trace. */
double pass_ns_per_op(const struct pass *pass);

#endif
