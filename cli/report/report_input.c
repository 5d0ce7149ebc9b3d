/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_input.c: see report_input.h.
 */
#include "report_input.h"
#include "replay/trace_reader.h"

#include <string.h>

const char *report_input_name(const char *path) {
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static bool refuse(struct report_input *input, const char *name, const char *problem) {
    snprintf(input->problem, sizeof input->problem, "%.80s: %.170s", name, problem);
    return false;
}

bool report_input_open(struct report_input *input, const char *path) {
    const char *name = report_input_name(path);
    memset(input, 0, sizeof *input);
    if (!trace_source_open(&input->source, path)) {
        return refuse(input, name, input->source.problem);
    }
    input->opened = true;
    input->format = event_format_of(&input->source);
    if (input->format == FORMAT_CSV) {
        input->opened = false; /* the reader closes it */
        return trace_read_source(name, &input->source, &input->trace, input->problem);
    }
    return event_reader_open(&input->events, input->format, &input->source, false) ||
           refuse(input, name, input->events.problem);
}

bool report_source_open(struct report_input *input, const struct report_source *source) {
    if (source->trace == NULL) {
        return report_input_open(input, source->path);
    }
    memset(input, 0, sizeof *input);
    input->format = FORMAT_CSV;
    input->given = source->trace;
    return true;
}

uint64_t report_input_date_us(const struct report_input *input) {
    return input->format == FORMAT_CSV ? 0 : event_reader_date_us(&input->events);
}

void report_input_close(struct report_input *input) {
    if (input->format != FORMAT_CSV) {
        event_reader_close(&input->events);
    }
    if (input->opened) {
        trace_source_close(&input->source);
    }
    trace_free(&input->trace);
}

/* An operation of a CSV trace as an event; a use is none. */
static bool take_op(struct report_input *input, struct recorded *event) {
    const struct trace *trace = input->given != NULL ? input->given : &input->trace;
    while (input->next < trace->op_count && trace->ops[input->next].kind == TRACE_USE) {
        input->next++;
    }
    if (input->next == trace->op_count) {
        return false;
    }
    const struct trace_op *op = &trace->ops[input->next++];
    *event =
        (struct recorded){.kind = op->kind == TRACE_ALLOC ? RECORDED_ALLOC : RECORDED_FREE,
                          .time_ns = op->t_us > UINT64_MAX / 1000 ? UINT64_MAX : op->t_us * 1000,
                          .id = (uint64_t)op->block + 1,
                          .bytes = op->bytes,
                          .held = op->bytes,
                          .queue = op->queue,
                          .thread = op->thread,
                          .tag = "",
                          .name = "",
                          .pool_name = ""};
    return true;
}

bool report_input_next(struct report_input *input, struct recorded *event, bool *there) {
    if (input->format == FORMAT_CSV) {
        *there = take_op(input, event);
        return true;
    }
    if (!event_reader_next(&input->events, event, there)) {
        snprintf(input->problem, sizeof input->problem, "%.250s", input->events.problem);
        return false;
    }
    return true;
}

const char *report_input_frame(struct report_input *input, uint32_t stack, uint32_t index) {
    return input->format == FORMAT_CSV ? NULL : event_reader_frame(&input->events, stack, index);
}
