/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_reader.c: see json_reader.h. The reader is a state machine with one byte of state (`want`)
 * and a bit for each open level; it does not recurse.
 */
#include "model/json_reader.h"

#include "base/decimal.h"
#include "base/text.h"

#include <string.h>

static const struct vr_json_token bad = {VR_JSON_BAD, "", 0};

size_t vr_json_mark_bytes(const char *text, size_t bytes) {
    return bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

void vr_json_begin(struct vr_json_reader *reader, const char *text, size_t bytes) {
    *reader = (struct vr_json_reader){.text = text,
                                      .bytes = bytes,
                                      .at = vr_json_mark_bytes(text, bytes),
                                      .want = VR_JSON_WANT_VALUE};
}

static struct vr_json_token reader_refuse(struct vr_json_reader *reader, const char *problem) {
    reader->problem = problem;
    return bad;
}

/* The byte at the cursor; 0 at the end, with which no token begins. */
static char peek_byte(const struct vr_json_reader *reader) {
    return reader->at < reader->bytes ? reader->text[reader->at] : '\0';
}

static void skip_blanks(struct vr_json_reader *reader) {
    char c;
    while ((c = peek_byte(reader)) == ' ' || c == '\t' || c == '\n' || c == '\r') {
        reader->at++;
    }
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* ------------------------------------------------------------------- tokens */

static int hex_digit(char c) {
    char lower = vr_text_lower(c);
    return is_digit(c) ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The four digits behind "\u"; false: they are not hexadecimal. */
static bool read_hex(const char *at, const char *end, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < 4; i++) {
        int digit = at + i < end ? hex_digit(at[i]) : -1;
        if (digit < 0) {
            return false;
        }
        *code = *code * 16 + (uint32_t)digit;
    }
    return true;
}

/* The character of an escape at `at`, a backslash, and the length of the escape; 0: invalid. */
static size_t read_escape(const char *at, const char *end, uint32_t *code) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint32_t low;
    if (end - at < 2) {
        return 0;
    }
    const char *name = at[1] ? strchr(names, at[1]) : NULL;
    if (name) {
        *code = (uint32_t)(unsigned char)values[name - names];
        return 2;
    }
    if (at[1] != 'u' || !read_hex(at + 2, end, code) || (*code >= 0xDC00 && *code < 0xE000)) {
        return 0;
    }
    if (*code < 0xD800 || *code >= 0xE000) {
        return 6;
    }
    /* A pair of surrogates is one character; half of a pair is invalid. */
    if (end - at < 12 || at[6] != '\\' || at[7] != 'u' || !read_hex(at + 8, end, &low) ||
        low < 0xDC00 || low >= 0xE000) {
        return 0;
    }
    *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    return 12;
}

/* One character of a text, escaped or not; 0: invalid. */
static size_t read_character(const char *at, const char *end, uint32_t *code) {
    if (*at == '\\') {
        return read_escape(at, end, code);
    }
    if ((unsigned char)*at < 0x20) {
        return 0;
    }
    return vr_text_char(at, (size_t)(end - at), code);
}

static struct vr_json_token read_text(struct vr_json_reader *reader, enum vr_json_kind kind) {
    const char *start = reader->text + ++reader->at, *end = reader->text + reader->bytes;
    const char *at = start;
    while (at < end && *at != '"') {
        uint32_t code;
        size_t bytes = read_character(at, end, &code);
        if (bytes == 0) {
            return reader_refuse(reader, "a string has an invalid character");
        }
        at += bytes;
    }
    if (at == end) {
        return reader_refuse(reader, "a string is not terminated");
    }
    reader->at = (size_t)(at - reader->text) + 1;
    return (struct vr_json_token){kind, start, (size_t)(at - start)};
}

static bool next_is(const struct vr_json_reader *reader, const char *word) {
    size_t bytes = strlen(word);
    return reader->bytes - reader->at >= bytes &&
           memcmp(reader->text + reader->at, word, bytes) == 0;
}

static struct vr_json_token read_number(struct vr_json_reader *reader) {
    const char *start = reader->text + reader->at;
    size_t bytes = vr_decimal_bytes(start, reader->bytes - reader->at);
    if (next_is(reader, "-Infinity")) {
        reader->at += strlen("-Infinity");
        return (struct vr_json_token){VR_JSON_NOT_FINITE, start, strlen("-Infinity")};
    }
    reader->at += bytes;
    return bytes > 0 ? (struct vr_json_token){VR_JSON_NUMBER, start, bytes}
                     : reader_refuse(reader, "a number is not complete");
}

static struct vr_json_token read_word(struct vr_json_reader *reader) {
    static const struct {
        const char *word;
        enum vr_json_kind kind;
    } words[] = {{"true", VR_JSON_TRUE},
                 {"false", VR_JSON_FALSE},
                 {"null", VR_JSON_NULL},
                 {"NaN", VR_JSON_NOT_FINITE},
                 {"Infinity", VR_JSON_NOT_FINITE}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (next_is(reader, words[i].word)) {
            reader->at += strlen(words[i].word);
            return (struct vr_json_token){words[i].kind, words[i].word, strlen(words[i].word)};
        }
    }
    return reader_refuse(reader, reader->at < reader->bytes
                                     ? "expected a value"
                                     : "the text ends where a value is expected");
}

/* ------------------------------------------------------------------ machine */

static struct vr_json_token open_level(struct vr_json_reader *reader, bool object) {
    if (reader->depth == VR_JSON_DEPTH_MAX) {
        return reader_refuse(reader, "objects and arrays are nested too deep");
    }
    uint64_t bit = UINT64_C(1) << reader->depth++;
    reader->object_bits = object ? reader->object_bits | bit : reader->object_bits & ~bit;
    reader->want = VR_JSON_WANT_FIRST;
    reader->at++;
    return (struct vr_json_token){object ? VR_JSON_OBJECT : VR_JSON_ARRAY, "", 0};
}

/* Whether the innermost of the open levels, of which there is one, is an object. */
static bool in_object(const struct vr_json_reader *reader) {
    return reader->object_bits >> (reader->depth - 1) & 1;
}

static struct vr_json_token close_level(struct vr_json_reader *reader) {
    bool object = in_object(reader);
    reader->depth--;
    reader->want = VR_JSON_WANT_NEXT;
    reader->at++;
    return (struct vr_json_token){object ? VR_JSON_OBJECT_END : VR_JSON_ARRAY_END, "", 0};
}

static struct vr_json_token read_value(struct vr_json_reader *reader) {
    char c = peek_byte(reader);
    if (c == '{' || c == '[') {
        return open_level(reader, c == '{');
    }
    reader->want = VR_JSON_WANT_NEXT;
    if (c == '"') {
        return read_text(reader, VR_JSON_TEXT);
    }
    return c == '-' || is_digit(c) ? read_number(reader) : read_word(reader);
}

static struct vr_json_token read_key(struct vr_json_reader *reader) {
    if (peek_byte(reader) != '"') {
        return reader_refuse(reader, "expected a key");
    }
    struct vr_json_token key = read_text(reader, VR_JSON_KEY);
    if (key.kind != VR_JSON_KEY) {
        return key;
    }
    skip_blanks(reader);
    if (peek_byte(reader) != ':') {
        return reader_refuse(reader, "expected a colon");
    }
    reader->at++;
    reader->want = VR_JSON_WANT_VALUE;
    return key;
}

struct vr_json_token vr_json_next(struct vr_json_reader *reader) {
    if (reader->problem) {
        return bad;
    }
    skip_blanks(reader);
    char c = peek_byte(reader);
    if (reader->depth == 0 && reader->want == VR_JSON_WANT_NEXT) {
        return reader->at == reader->bytes
                   ? (struct vr_json_token){VR_JSON_END, "", 0}
                   : reader_refuse(reader, "expected nothing after the value");
    }
    if (reader->depth > 0 &&
        (reader->want == VR_JSON_WANT_FIRST || reader->want == VR_JSON_WANT_NEXT)) {
        if (c == (in_object(reader) ? '}' : ']')) {
            return close_level(reader);
        }
        if (reader->want == VR_JSON_WANT_NEXT) {
            if (c != ',') {
                return reader_refuse(reader, c ? "expected a comma"
                                               : "the text ends inside an object or array");
            }
            reader->at++;
            skip_blanks(reader);
        }
        return in_object(reader) ? read_key(reader) : read_value(reader);
    }
    return read_value(reader);
}

bool vr_json_skip(struct vr_json_reader *reader, struct vr_json_token token) {
    uint32_t depth = reader->depth;
    if (token.kind == VR_JSON_KEY) {
        return vr_json_skip(reader, vr_json_next(reader));
    }
    if (token.kind != VR_JSON_OBJECT && token.kind != VR_JSON_ARRAY) {
        return token.kind != VR_JSON_BAD;
    }
    while (reader->depth >= depth && token.kind != VR_JSON_BAD) {
        token = vr_json_next(reader);
    }
    return token.kind != VR_JSON_BAD;
}

/* -------------------------------------------------------------------- values */

static bool is_text(struct vr_json_token token) {
    return token.kind == VR_JSON_KEY || token.kind == VR_JSON_TEXT;
}

static size_t write_character(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = bytes - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(heads[bytes] | code);
    return bytes;
}

bool vr_json_copy(struct vr_json_token token, char *to, size_t to_bytes) {
    const char *at = token.at, *end = token.at + token.bytes;
    size_t used = 0;
    while (is_text(token) && at < end) {
        uint32_t code = 0;
        char out[4];
        at += read_character(at, end, &code);
        size_t bytes = write_character(code, out);
        if (code == 0 || bytes >= to_bytes - used) {
            to[0] = '\0';
            return false;
        }
        memcpy(to + used, out, bytes);
        used += bytes;
    }
    to[used] = '\0';
    return is_text(token);
}

bool vr_json_is(struct vr_json_token token, const char *word) {
    char text[64];
    size_t bytes = strlen(word);
    if (!is_text(token)) {
        return false;
    }
    if (!memchr(token.at, '\\', token.bytes)) {
        return token.bytes == bytes && memcmp(token.at, word, bytes) == 0;
    }
    return vr_json_copy(token, text, sizeof text) && strcmp(text, word) == 0;
}

bool vr_json_unsigned_read(struct vr_json_token token, uint64_t *value) {
    struct vr_decimal number;
    if (token.kind != VR_JSON_NUMBER || !vr_decimal_read(token.at, token.bytes, 0, &number) ||
        number.negative || !number.exact) {
        return false;
    }
    *value = number.value;
    return true;
}
