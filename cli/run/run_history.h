/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_history.h: what the trace of one watched process adds up to: its memory on devices, what the
 * driver took for itself, and memory of the host, apart from each other.
 */
#ifndef RUN_HISTORY_H
#define RUN_HISTORY_H

#include "report/history.h"
#include "report/report_input.h"
#include "run_page.h"

/* Whose memory it is. */
enum run_part {
    RUN_PART_PROGRAM, /* device memory that the program or its libraries asked for */
    RUN_PART_DRIVER,  /* code and contexts */
    RUN_PART_HOST,    /* of the host, page-locked */
    RUN_PART_SERVED,  /* by the pool of --serve, whose memory is part of the first */
    RUN_PART_OTHER,   /* of other processes */
    RUN_PARTS
};

struct run_history {
    struct report_input input;
    struct history parts[RUN_PARTS];
    char problem[TRACE_PROBLEM_MAX];
};

/* Reads the trace, also while it is written. False with the problem set; run_history_free is due
   either way. */
bool run_history_read(struct run_history *history, const char *path);
void run_history_free(struct run_history *history);

#endif
