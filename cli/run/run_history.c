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
        if (!report_input_next(&history->input, &event, &there)) {
            snprintf(history->problem, sizeof history->problem, "%.200s", history->input.problem);
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
    if (!report_input_open(&history->input, path)) {
        snprintf(history->problem, sizeof history->problem, "%.200s", history->input.problem);
        return false;
    }
    if (history->input.format != FORMAT_RECORDING) {
        snprintf(history->problem, sizeof history->problem, "%.200s: not a trace of ours", path);
        return false;
    }
    good = events_read(history);
    for (unsigned i = 0; i < RUN_PARTS; i++) {
        const struct chunk_reader *reader = &history->input.events.recording->reader;
        history->parts[i].format = FORMAT_RECORDING;
        history->parts[i].end = chunk_reader_end(reader);
        history->parts[i].lost_events = reader->lost;
        history_finish(&history->parts[i]);
    }
    return good;
}

void run_history_free(struct run_history *history) {
    for (unsigned i = 0; i < RUN_PARTS; i++) {
        history_free(&history->parts[i]);
    }
    report_input_close(&history->input);
    memset(history, 0, sizeof *history);
}
