/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history_read.c: a history from a whole file.
 */
#include "history.h"

#include <inttypes.h>

/* What is wrong, and where in the file if its format says. */
static bool refuse_event(struct history *history, const struct report_input *input,
                         const struct recorded *event) {
    char why[CHUNK_PROBLEM_MAX];
    if (input->format == FORMAT_RECORDING) {
        snprintf(why, sizeof why, "%.150s", history->problem);
        snprintf(history->problem, sizeof history->problem, "at offset %" PRIu64 ": %s",
                 event->offset, why);
    }
    return false;
}

bool history_read(struct history *history, struct report_input *input,
                  const struct event_sink *sink) {
    struct recorded event;
    bool there;
    history->format = input->format;
    for (;;) {
        if (!report_input_next(input, &event, &there)) {
            snprintf(history->problem, sizeof history->problem, "%s", input->problem);
            return false;
        }
        if (!there) {
            break;
        }
        if (input->format == FORMAT_RECORDING) {
            history_note_first(history, input->events.recording);
        }
        if (!history_add(history, &event)) {
            return refuse_event(history, input, &event);
        }
        if (sink != NULL && !sink->add(sink->user, &event)) {
            snprintf(history->problem, sizeof history->problem, "out of host memory");
            return false;
        }
    }
    if (input->format == FORMAT_RECORDING) {
        history->end = chunk_reader_end(&input->events.recording->reader);
        history->lost_events = input->events.recording->reader.lost;
    } else if (input->format != FORMAT_CSV) {
        history->partial =
            event_reader_missing(&input->events, history->missing, sizeof history->missing);
    }
    history_finish(history);
    return true;
}
