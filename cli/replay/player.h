/* SPDX-License-Identifier: Apache-2.0 */
/*
 * player.h: plays a trace with a policy, and measures.
 *
 * A session is a device of its own with one policy on it; a pass is the trace played once. What the
 * policy has learned in one pass is there in the next. Operations happen in the order of the trace,
 * each on the thread that it names.
 *
 * Time is the device's: on a simulated one the clock of the simulation, which counts what driver
 * calls cost and follows the times of the trace between them; elsewhere the wall clock.
 */
#ifndef REPLAY_PLAYER_H
#define REPLAY_PLAYER_H

#include "checker.h"
#include "curve.h"

struct session_options {
    struct place_options place;
    bool verify;         /* fill and check every block */
    bool pace;           /* wait for the times of the trace; simulated devices always do */
    struct curve *curve; /* drawn by each pass anew; borrowed; NULL: none is */
};

enum pass_result {
    PASS_DONE,
    PASS_EXHAUSTED, /* memory ran out: the trace does not fit */
    PASS_FAILED     /* anything else */
};

enum { PASS_REASON_MAX = 384 };

/* What one pass gave. */
struct pass {
    const struct trace *trace;
    const struct policy *policy;
    uint32_t repeat; /* from 1 */
    enum pass_result result;
    char reason[PASS_REASON_MAX]; /* when it was not done */
    size_t op_count;              /* operations played */
    struct policy_counts counts;  /* of this pass; the peak since the session began */
    uint64_t spent_ns;            /* inside the policy */
    uint64_t mismatched_bytes;    /* with verify */
    bool device_checked;          /* by the device itself, not by reading everything back */
    const struct curve *curve;    /* of the session; NULL: none was asked for */
};

struct session;

/* Told every few thousand operations. */
typedef void session_progress_fn(void *user, size_t op_count);

/* Opens a device of its own and starts the policy. The trace must outlive the session. */
vram_status session_open(const struct session_options *options, const struct trace *trace,
                         const struct policy *policy, struct session **session);

/* Plays the trace once; failures are in the pass. Blocks that the trace leaves are freed behind
   it. */
void session_play(struct session *session, session_progress_fn *progress, void *user,
                  struct pass *pass);

void session_close(struct session *session);

#endif
