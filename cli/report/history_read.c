/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history_read.c: a history from a whole recording, or from a trace that was read for replaying.
 */
#include "history.h"

#include <inttypes.h>

bool history_read(struct history *history, struct recording *recording) {
    struct recorded event;
    bool there = true;
    history->recorded = true;
    while (there) {
        if (!recording_next(recording, &event, &there)) {
            snprintf(history->problem, sizeof history->problem, "at offset %" PRIu64 ": %s",
                     recording->problem_at, recording->problem);
            return false;
        }
        if (!there) {
            break;
        }
        history_note_first(history, recording);
        if (!history_add(history, &event)) {
            char why[CHUNK_PROBLEM_MAX];
            snprintf(why, sizeof why, "%.150s", history->problem);
            snprintf(history->problem, sizeof history->problem, "at offset %" PRIu64 ": %s",
                     event.offset, why);
            return false;
        }
    }
    history->end = chunk_reader_end(&recording->reader);
    history->lost_events = recording->reader.lost;
    history_finish(history);
    return true;
}

bool history_take(struct history *history, const struct trace *trace) {
    history->end = RECORDING_ENDED;
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct trace_op *op = &trace->ops[i];
        struct recorded event = {.kind = op->kind == TRACE_ALLOC ? RECORDED_ALLOC : RECORDED_FREE,
                                 .time_ns =
                                     op->t_us > UINT64_MAX / 1000 ? UINT64_MAX : op->t_us * 1000,
                                 .id = (uint64_t)op->block + 1,
                                 .bytes = op->bytes,
                                 .held = op->bytes,
                                 .queue = op->queue,
                                 .thread = op->thread,
                                 .tag = "",
                                 .name = "",
                                 .pool_name = ""};
        if (op->kind != TRACE_USE && !history_add(history, &event)) {
            return false;
        }
    }
    history_finish(history);
    return true;
}
