/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_reader.h: the lines of a text, one at a time, and their fields.
 */
#ifndef FORMATS_LINE_READER_H
#define FORMATS_LINE_READER_H

#include "replay/trace_source.h"

enum { LINE_BYTES_MAX = 512, LINE_FIELDS_MAX = 8 };

struct line_reader {
    struct trace_source *source;
    uint64_t number; /* of the present line, from 1 */
    char text[LINE_BYTES_MAX + 1];
    size_t bytes;
    char *fields[LINE_FIELDS_MAX]; /* of the line, cut at its commas */
    size_t field_count;
    size_t begin, end;
    uint8_t buffer[SOURCE_PIECE_BYTES];
    const char *problem;
};

void line_reader_begin(struct line_reader *reader, struct trace_source *source);

/* The next line that is not empty, cut into fields; *there is false behind the last. False with the
   problem set. */
bool line_reader_next(struct line_reader *reader, bool *there);

/* A whole number of 64 bits, decimal or with 0x in front; false when it is none. */
bool line_reader_number(const char *text, uint64_t *number);

#endif
