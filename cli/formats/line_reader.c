/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_reader.c: see line_reader.h.
 */
#include "line_reader.h"

#include <string.h>

void line_reader_begin(struct line_reader *reader, struct trace_source *source) {
    memset(reader, 0, sizeof *reader);
    reader->source = source;
}

static void split(struct line_reader *reader) {
    char *at = reader->text;
    reader->field_count = 0;
    while (at != NULL && reader->field_count < LINE_FIELDS_MAX) {
        reader->fields[reader->field_count++] = at;
        at = strchr(at, ',');
        if (at != NULL) {
            *at++ = 0;
        }
    }
}

/* One more byte of the line; true when it is whole. */
static bool take(struct line_reader *reader, uint8_t byte) {
    if (byte == '\n') {
        return true;
    }
    if (reader->bytes == LINE_BYTES_MAX) {
        reader->problem = "the line is too long";
        return true;
    }
    reader->text[reader->bytes++] = (char)byte;
    return false;
}

static bool read_line(struct line_reader *reader, bool *ended) {
    reader->bytes = 0;
    for (;;) {
        while (reader->begin < reader->end) {
            if (take(reader, reader->buffer[reader->begin++])) {
                return reader->problem == NULL;
            }
        }
        size_t bytes = sizeof reader->buffer;
        if (!trace_source_read(reader->source, reader->buffer, &bytes)) {
            reader->problem = reader->source->problem;
            return false;
        }
        reader->begin = 0;
        reader->end = bytes;
        *ended = bytes == 0;
        if (*ended) {
            return true;
        }
    }
}

bool line_reader_next(struct line_reader *reader, bool *there) {
    bool ended = false;
    *there = false;
    while (!ended) {
        reader->number++;
        if (!read_line(reader, &ended)) {
            return false;
        }
        if (memchr(reader->text, 0, reader->bytes) != NULL) {
            reader->problem = "the line has a zero byte";
            return false;
        }
        while (reader->bytes > 0 && reader->text[reader->bytes - 1] == '\r') {
            reader->bytes--;
        }
        reader->text[reader->bytes] = 0;
        if (reader->bytes > 0) {
            split(reader);
            *there = true;
            return true;
        }
    }
    return true;
}

static unsigned digit_of(char letter) {
    return letter >= '0' && letter <= '9'   ? (unsigned)(letter - '0')
           : letter >= 'a' && letter <= 'f' ? (unsigned)(letter - 'a') + 10
           : letter >= 'A' && letter <= 'F' ? (unsigned)(letter - 'A') + 10
                                            : 99;
}

bool line_reader_number(const char *text, uint64_t *number) {
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    uint64_t value = 0, base = hex ? 16 : 10;
    text += hex ? 2 : 0;
    if (*text == 0) {
        return false;
    }
    for (; *text != 0; text++) {
        unsigned digit = digit_of(*text);
        if (digit >= base || value > (UINT64_MAX - digit) / base) {
            return false;
        }
        value = value * base + digit;
    }
    *number = value;
    return true;
}
