/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_input.h: the file of a report: events of any format, with their stacks.
 */
#ifndef REPORT_INPUT_H
#define REPORT_INPUT_H

#include "formats/event_reader.h"
#include "replay/trace_ops.h"

struct report_input {
    struct trace_source source;
    bool opened;
    enum event_format format;
    struct event_reader events; /* all formats but CSV */
    struct trace trace;         /* CSV */
    const struct trace *given;  /* instead of that one; NULL: none */
    size_t next;
    char problem[TRACE_PROBLEM_MAX]; /* with the name of the file */
};

/* Opens a file, or standard input for "-". False with the problem set; report_input_close is due
   either way. */
bool report_input_open(struct report_input *input, const char *path);
void report_input_close(struct report_input *input);

/* The next event; *there is false behind the last. False with the problem set. */
bool report_input_next(struct report_input *input, struct recorded *event, bool *there);

/* A trace that can be read again: a file, or one that is in memory. */
struct report_source {
    const char *path;
    const struct trace *trace; /* borrowed; NULL: the file */
};
/* As report_input_open. */
bool report_source_open(struct report_input *input, const struct report_source *source);

/* When time 0 of the events was, in us since 1970; 0: not known. */
uint64_t report_input_date_us(const struct report_input *input);

/* As event_reader_frame. */
const char *report_input_frame(struct report_input *input, uint32_t stack, uint32_t index);

/* What errors call the file. */
const char *report_input_name(const char *path);

#endif
