/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Length of the sequence that a lead byte begins; 0 if it cannot lead. C0, C1 and F5 up never
   appear. */
static size_t sequence_length(unsigned char lead) {
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xC2) {
        return 0;
    }
    if (lead < 0xE0) {
        return 2;
    }
    return lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

static bool is_continuation(char byte) {
    return ((unsigned char)byte & 0xC0) == 0x80;
}

size_t vr_text_char(const char *text, size_t bytes, uint32_t *code) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = bytes ? sequence_length((unsigned char)text[0]) : 0;
    if (length == 0 || length > bytes) {
        return 0;
    }
    uint32_t value = (unsigned char)text[0];
    value &= length == 1 ? 0x7Fu : 0xFFu >> (length + 1);
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(text[i])) {
            return 0;
        }
        value = value << 6 | ((unsigned char)text[i] & 0x3Fu);
    }
    /* Overlong forms and surrogates can bypass filters: they are not characters. */
    if (value < smallest[length] || (value >= 0xD800 && value <= 0xDFFF) || value > 0x10FFFF) {
        return 0;
    }
    *code = value;
    return length;
}

bool vr_text_is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

char vr_text_lower(char c) {
    if (c >= 'A' && c <= 'Z') {
        return (char)(c + ('a' - 'A'));
    }
    return c;
}

char vr_text_upper(char c) {
    if (c >= 'a' && c <= 'z') {
        return (char)(c - ('a' - 'A'));
    }
    return c;
}

/* The result is never longer than the source, so one pass in place suffices. */
void vr_text_clean(char *text) {
    size_t bytes = strlen(text);
    char *out = text;
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t length = vr_text_char(text + at, bytes - at, &code);
        if (length == 0 || vr_text_is_control(code)) {
            *out++ = '?';
            at += length ? length : 1;
            continue;
        }
        memmove(out, text + at, length);
        out += length;
        at += length;
    }
    *out = '\0';
}

/* Removes an incomplete character at the end of a full buffer. Text that was not UTF-8 loses at
   most three bytes. */
static void drop_partial(char *text) {
    size_t end = strlen(text);
    size_t at = end;
    while (at > 0 && end - at < 3 && is_continuation(text[at - 1])) {
        at--;
    }
    if (at > 0 && sequence_length((unsigned char)text[at - 1]) > end - at + 1) {
        text[at - 1] = '\0';
    }
}

bool vr_text_format_list(char *to, size_t to_bytes, const char *format, va_list arguments) {
    if (to_bytes == 0) {
        return false;
    }
    int length = vsnprintf(to, to_bytes, format, arguments);
    if (length < 0) { /* a conversion failed: the buffer's content is undefined */
        to[0] = '\0';
        return false;
    }
    bool whole = (size_t)length < to_bytes;
    if (!whole) {
        drop_partial(to);
    }
    vr_text_clean(to);
    return whole;
}

bool vr_text_format(char *to, size_t to_bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    bool whole = vr_text_format_list(to, to_bytes, format, arguments);
    va_end(arguments);
    return whole;
}

bool vr_text_copy(char *to, size_t to_bytes, const char *from) {
    if (to_bytes == 0) {
        return false;
    }
    size_t bytes = strlen(from);
    bool whole = bytes < to_bytes;
    size_t kept = whole ? bytes : to_bytes - 1;
    memcpy(to, from, kept);
    to[kept] = '\0';
    if (!whole) {
        drop_partial(to);
    }
    return whole;
}

enum { DISTANCE_MAX = 64 }; /* names are shorter than this */

static uint32_t lesser_of(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Optimal string alignment: only the last three rows of the usual table are kept. */
uint32_t vr_text_distance(const char *text, size_t bytes, const char *name) {
    uint32_t rows[3][DISTANCE_MAX];
    size_t name_bytes = strlen(name);
    if (bytes >= DISTANCE_MAX || name_bytes >= DISTANCE_MAX) {
        return UINT32_MAX;
    }
    uint32_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= name_bytes; j++) {
        last[j] = (uint32_t)j;
    }
    for (size_t i = 1; i <= bytes; i++) {
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= name_bytes; j++) {
            uint32_t replaced = last[j - 1] + (text[i - 1] != name[j - 1]);
            row[j] = lesser_of(replaced, lesser_of(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && text[i - 1] == name[j - 2] && text[i - 2] == name[j - 1]) {
                row[j] = lesser_of(row[j], before[j - 2] + 1);
            }
        }
        uint32_t *spare = before;
        before = last, last = row, row = spare;
    }
    return last[name_bytes];
}
