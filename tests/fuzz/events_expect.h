/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events_expect.h: what holds of every file of another program's that is read, whatever is in it:
 * it is refused with a reason, or its events follow each other in time, add up, and can be replayed
 * and written.
 */
#ifndef TEST_EVENTS_EXPECT_H
#define TEST_EVENTS_EXPECT_H

#include "fuzz.h"

#include "replay/trace_reader.h"
#include "report/advice.h"

#include <string.h>

/* Reads all events; whether the file was good. */
static inline bool add_up_events(struct event_reader *reader, struct history *history) {
    struct recorded event;
    bool there = true;
    uint64_t last = 0;
    while (there) {
        if (!event_reader_next(reader, &event, &there)) {
            return false;
        }
        if (!there) {
            break;
        }
        FUZZ_EXPECT(event.time_ns >= last);
        FUZZ_EXPECT(event.tag != NULL && event.name != NULL && event.pool_name != NULL);
        last = event.time_ns;
        if (!history_add(history, &event)) {
            FUZZ_EXPECT(history->problem[0] != 0);
            return true;
        }
        FUZZ_EXPECT(history->live_bytes <= history->peak_bytes);
        for (uint32_t i = 0; event_reader_frame(reader, event.stack, i) != NULL; i++) {
            FUZZ_EXPECT(i < STACK_TABLE_FRAMES_MAX);
        }
    }
    return true;
}

static inline void read_events(const uint8_t *data, size_t bytes, enum event_format format) {
    static struct trace_source source;
    static struct event_reader reader;
    struct history history;
    struct advice advice[ADVICE_MAX];
    struct trace trace;
    char text[400], problem[TRACE_PROBLEM_MAX] = "";
    trace_source_open_memory(&source, data, bytes);
    FUZZ_EXPECT(history_begin(&history, "input"));
    history.format = format;
    bool good = event_reader_open(&reader, format, &source, false);
    good = good && add_up_events(&reader, &history);
    FUZZ_EXPECT(good == (reader.problem[0] == 0));
    if (good) {
        event_reader_missing(&reader, text, sizeof text);
        history_finish(&history);
        FUZZ_EXPECT(advice_give(&history, advice) < ADVICE_MAX);
    }
    history_free(&history);
    event_reader_close(&reader);
    trace_source_close(&source);
    if (trace_read_memory("input", data, bytes, &trace, problem)) {
        trace_free(&trace);
    } else {
        FUZZ_EXPECT(strncmp(problem, "input", 5) == 0);
    }
}

#endif
