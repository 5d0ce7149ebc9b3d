/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_history.c: see run_history.h. The kind of memory follows from the number of the pool, as the
 * recorder gives it (interpose/run_process.h).
 */
#include "run_history.h"

#include <stdlib.h>
#include <string.h>

static enum run_part part_of(uint64_t pool) {
    switch ((enum run_kind)((pool - 1) % RUN_KINDS)) {
    case RUN_CODE:
    case RUN_CONTEXT:
        return RUN_PART_DRIVER;
    case RUN_PINNED:
    case RUN_REGISTERED:
    case RUN_HOST:
        return RUN_PART_HOST;
    case RUN_SERVED:
        return RUN_PART_SERVED;
    case RUN_IMPORTED:
        return RUN_PART_OTHER;
    default:
        return RUN_PART_PROGRAM;
    }
}

static bool events_read(struct run_history *history) {
    struct recorded event;
    bool there = true;
    for (;;) {
        if (!recording_next(&history->recording, &event, &there)) {
            snprintf(history->problem, sizeof history->problem, "at offset %llu: %.150s",
                     (unsigned long long)history->recording.problem_at, history->recording.problem);
            return false;
        }
        if (!there) {
            return true;
        }
        enum run_part part = event.pool != 0 ? part_of(event.pool) : RUN_PART_PROGRAM;
        if (!history_add(&history->parts[part], &event)) {
            snprintf(history->problem, sizeof history->problem, "%.150s",
                     history->parts[part].problem);
            return false;
        }
    }
}

bool run_history_read(struct run_history *history, const char *path) {
    memset(history, 0, sizeof *history);
    bool good = true;
    for (unsigned i = 0; i < RUN_PARTS; i++) {
        good = history_begin(&history->parts[i], path) && good;
    }
    if (!good) {
        snprintf(history->problem, sizeof history->problem, "out of host memory");
        return false;
    }
    if (!trace_source_open(&history->source, path)) {
        snprintf(history->problem, sizeof history->problem, "%.150s", history->source.problem);
        return false;
    }
    history->opened = true;
    history->recorded = true;
    if (!recording_open(&history->recording, &history->source)) {
        snprintf(history->problem, sizeof history->problem, "%.150s", history->recording.problem);
        return false;
    }
    good = events_read(history);
    for (unsigned i = 0; i < RUN_PARTS; i++) {
        history->parts[i].recorded = true;
        history->parts[i].end = chunk_reader_end(&history->recording.reader);
        history->parts[i].lost_events = history->recording.reader.lost;
        history_finish(&history->parts[i]);
    }
    return good;
}

void run_history_free(struct run_history *history) {
    for (unsigned i = 0; i < RUN_PARTS; i++) {
        history_free(&history->parts[i]);
    }
    if (history->recorded) {
        recording_close(&history->recording);
    }
    if (history->opened) {
        trace_source_close(&history->source);
    }
    memset(history, 0, sizeof *history);
}
