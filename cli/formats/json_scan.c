/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan.c: see json_scan.h.
 */
#include "json_scan.h"

#include "base/decimal.h"

#include <string.h>

static bool refuse(struct json_scan *scan, const char *problem) {
    scan->problem = scan->problem != NULL ? scan->problem : problem;
    return false;
}

/* The next byte, which stays; -1 behind the last, -2 after a failure. */
static int look(struct json_scan *scan) {
    if (scan->begin == scan->end) {
        size_t bytes = sizeof scan->buffer;
        if (!trace_source_read(scan->source, scan->buffer, &bytes)) {
            refuse(scan, scan->source->problem);
            return -2;
        }
        scan->begin = 0;
        scan->end = bytes;
        if (bytes == 0) {
            return -1;
        }
    }
    return scan->buffer[scan->begin];
}

static int take(struct json_scan *scan) {
    int byte = look(scan);
    scan->begin += byte >= 0;
    scan->offset += byte >= 0;
    return byte;
}

void json_scan_begin(struct json_scan *scan, struct trace_source *source) {
    memset(scan, 0, sizeof *scan);
    scan->source = source;
    scan->expects_value = true;
    if (trace_source_begins(source, JSON_SCAN_MARK, 3)) {
        take(scan), take(scan), take(scan);
    }
}

static void keep(struct json_scan *scan, int byte) {
    if (scan->text_bytes < JSON_SCAN_TEXT_MAX && byte != 0) {
        scan->text[scan->text_bytes++] = (char)byte;
    }
    scan->text[scan->text_bytes] = 0;
}

/* A character outside of ASCII as UTF-8; halves of a pair become '?'. */
static void keep_character(struct json_scan *scan, unsigned code) {
    if (code < 0x80) {
        keep(scan, (int)code);
    } else if (code < 0x800) {
        keep(scan, (int)(0xC0 | code >> 6));
        keep(scan, (int)(0x80 | (code & 0x3F)));
    } else if (code >= 0xD800 && code < 0xE000) {
        keep(scan, '?');
    } else {
        keep(scan, (int)(0xE0 | code >> 12));
        keep(scan, (int)(0x80 | (code >> 6 & 0x3F)));
        keep(scan, (int)(0x80 | (code & 0x3F)));
    }
}

static bool take_escape(struct json_scan *scan) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int byte = take(scan);
    unsigned code = 0;
    if (byte >= 0 && byte != 'u') {
        const char *known = byte > 0 ? strchr(from, byte) : NULL;
        if (known == NULL) {
            return refuse(scan, "invalid JSON: a wrong escape in a text");
        }
        keep(scan, to[known - from]);
        return true;
    }
    for (int i = 0; i < 4 && byte == 'u'; i++) {
        int digit = take(scan);
        bool letter = (digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F');
        if (!letter && (digit < '0' || digit > '9')) {
            return refuse(scan, "invalid JSON: a wrong escape in a text");
        }
        code = code * 16 + (unsigned)(letter ? (digit | 0x20) - 'a' + 10 : digit - '0');
    }
    keep_character(scan, code);
    return true;
}

static bool take_text(struct json_scan *scan) {
    scan->text_bytes = 0;
    keep(scan, 0);
    for (;;) {
        int byte = take(scan);
        if (byte == '"') {
            return true;
        }
        if (byte < 0) {
            return refuse(scan, "invalid JSON: the file ends inside a text");
        }
        if (byte == '\\') {
            if (!take_escape(scan)) {
                return false;
            }
        } else {
            keep(scan, byte);
        }
    }
}

/* A number or a word: all up to the next separator. */
static bool take_plain(struct json_scan *scan, int first) {
    bool number = first == '-' || (first >= '0' && first <= '9');
    scan->text_bytes = 0;
    for (int byte = first; byte > ' ' && strchr(",:]}\"", byte) == NULL; byte = look(scan)) {
        keep(scan, take(scan));
    }
    scan->kind = number ? JSON_NUMBER : JSON_WORD;
    if (!number && strcmp(scan->text, "true") != 0 && strcmp(scan->text, "false") != 0 &&
        strcmp(scan->text, "null") != 0) {
        return refuse(scan, "invalid JSON: expected a value");
    }
    if (number && vr_decimal_bytes(scan->text, scan->text_bytes) != scan->text_bytes) {
        return refuse(scan, "invalid JSON: a number is not complete");
    }
    return true;
}

/* ------------------------------------------------------------------ structure */

/* Whether the innermost of the open levels, of which there is one, is an object. */
static bool in_object(const struct json_scan *scan) {
    return scan->objects[scan->depth - 1];
}

static void after_value(struct json_scan *scan) {
    scan->expects_value = scan->expects_key = false;
    scan->may_end = true;
    scan->done = scan->depth == 0;
}

static bool open(struct json_scan *scan, bool object) {
    if (scan->depth == JSON_SCAN_DEPTH_MAX) {
        return refuse(scan, "the JSON nests too deeply");
    }
    scan->objects[scan->depth++] = object;
    scan->expects_value = !object;
    scan->expects_key = object;
    scan->may_end = true;
    scan->kind = object ? JSON_OBJECT_BEGIN : JSON_ARRAY_BEGIN;
    return true;
}

static bool shut(struct json_scan *scan, bool object) {
    if (scan->depth == 0 || in_object(scan) != object || !scan->may_end) {
        return refuse(scan, "invalid JSON: an object or array ends where none can");
    }
    scan->depth--;
    scan->kind = object ? JSON_OBJECT_END : JSON_ARRAY_END;
    after_value(scan);
    return true;
}

static int skip_blanks(struct json_scan *scan) {
    int byte = look(scan);
    while (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t') {
        take(scan);
        byte = look(scan);
    }
    return byte;
}

static bool take_key(struct json_scan *scan) {
    take(scan);
    if (!take_text(scan)) {
        return false;
    }
    if (skip_blanks(scan) != ':') {
        return refuse(scan, "invalid JSON: expected a colon");
    }
    take(scan);
    scan->kind = JSON_KEY;
    scan->expects_key = scan->may_end = false;
    scan->expects_value = true;
    return true;
}

static bool take_value(struct json_scan *scan, int byte) {
    if (byte == '{' || byte == '[') {
        take(scan);
        return open(scan, byte == '{');
    }
    if (byte == '"') {
        take(scan);
        scan->kind = JSON_TEXT;
        if (!take_text(scan)) {
            return false;
        }
    } else if (!take_plain(scan, byte)) {
        return false;
    }
    after_value(scan);
    return true;
}

bool json_scan_next(struct json_scan *scan) {
    int byte = skip_blanks(scan);
    if (byte == -2) {
        return false;
    }
    if (scan->done) {
        scan->kind = JSON_END;
        return true;
    }
    if (byte == ',' && !scan->expects_value && !scan->expects_key) {
        take(scan);
        scan->expects_key = in_object(scan);
        scan->expects_value = !scan->expects_key;
        scan->may_end = false;
        byte = skip_blanks(scan);
    }
    if (byte == '}' || byte == ']') {
        take(scan);
        return shut(scan, byte == '}');
    }
    if (scan->expects_key && byte == '"') {
        return take_key(scan);
    }
    if (scan->expects_value && byte >= 0) {
        return take_value(scan, byte);
    }
    return refuse(scan, byte < 0 ? "invalid JSON: the file ends in the middle"
                                 : "invalid JSON: expected a comma, a key or an end");
}

bool json_scan_skip(struct json_scan *scan) {
    uint32_t depth = scan->depth;
    while (scan->depth >= depth) {
        if (!json_scan_next(scan)) {
            return false;
        }
    }
    return true;
}
