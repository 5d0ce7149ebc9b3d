/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rmm_log.h: the events of a log of RMM (RMM_LOG_FILE, logging_resource_adaptor):
 *
 *   Thread,Time,Action,Pointer,Size,Stream
 *   4211,14:03:07.123456,allocate,0x7f2e3a000000,1024,0x0
 *
 * Actions are allocate, free and "allocate failure". Times have no date: one that falls by more
 * than half a day is after midnight.
 */
#ifndef FORMATS_RMM_LOG_H
#define FORMATS_RMM_LOG_H

#include "line_reader.h"
#include "replay/live_addresses.h"
#include "replay/shard_reader.h"

#define RMM_LOG_HEADER "Thread,Time,Action,Pointer,Size,Stream"

struct rmm_log {
    struct line_reader lines;
    struct live_addresses live;
    uint64_t last_id, first_us, now_us, days_us;
    bool begun;          /* the first time was read */
    bool freed;          /* the line allocates where a block is live: its free was told, */
    struct recorded due; /* and this is what comes next */
    char problem[CHUNK_PROBLEM_MAX];
};

/* Whether a file begins as such a log. */
bool rmm_log_begins(struct trace_source *source);

/* False with the problem set; rmm_log_close is due either way. */
bool rmm_log_open(struct rmm_log *log, struct trace_source *source);
bool rmm_log_next(struct rmm_log *log, struct recorded *event, bool *there);
void rmm_log_close(struct rmm_log *log);

#endif
