/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_reader.h: reads JSON one token at a time from memory, strictly by the grammar of RFC 8259,
 * and the words that Python's json module writes for numbers that are not finite: NaN, Infinity and
 * -Infinity.
 *
 * Nothing is built or allocated: a token is a place in the text. Every value is visited once, so
 * time is linear. Text that is nested deeper than VR_JSON_DEPTH_MAX, not valid UTF-8, truncated, or
 * followed by anything but blanks is refused. Numbers keep their text: integers are read in 64
 * bits, without floating point.
 */
#ifndef VR_JSON_READER_H
#define VR_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VR_JSON_DEPTH_MAX 64

enum vr_json_kind {
    VR_JSON_BAD, /* reader->problem says why; every later call returns the same */
    VR_JSON_END, /* the one value is complete */
    VR_JSON_OBJECT,
    VR_JSON_OBJECT_END,
    VR_JSON_ARRAY,
    VR_JSON_ARRAY_END,
    VR_JSON_KEY, /* of the next value */
    VR_JSON_TEXT,
    VR_JSON_NUMBER,
    VR_JSON_NOT_FINITE, /* NaN, Infinity, -Infinity: a value, but not a number that can be read */
    VR_JSON_TRUE,
    VR_JSON_FALSE,
    VR_JSON_NULL
};

struct vr_json_token {
    enum vr_json_kind kind;
    const char *at; /* keys and texts: between the quotes, with escapes; numbers: all of it */
    size_t bytes;
};

struct vr_json_reader {
    const char *text;
    size_t bytes, at;
    uint32_t depth;       /* open objects and arrays */
    uint64_t object_bits; /* bit d: level d is an object */
    enum { VR_JSON_WANT_VALUE, VR_JSON_WANT_FIRST, VR_JSON_WANT_KEY, VR_JSON_WANT_NEXT } want;
    const char *problem; /* NULL: none */
};

/* The length of a byte order mark that the text begins with, which is passed over; 0: none. */
size_t vr_json_mark_bytes(const char *text, size_t bytes);

void vr_json_begin(struct vr_json_reader *reader, const char *text, size_t bytes);

/* The next token. */
struct vr_json_token vr_json_next(struct vr_json_reader *reader);

/* Skips the rest of the value that `token` has begun. False: the text is invalid. */
bool vr_json_skip(struct vr_json_reader *reader, struct vr_json_token token);

/* Whether a key or text is `word`, with its escapes resolved. */
bool vr_json_is(struct vr_json_token token, const char *word);

/* Copies the key or text, escapes resolved, always terminated. False: it does not fit, holds a zero
   byte, or is not a text; then `to` is "". */
bool vr_json_copy(struct vr_json_token token, char *to, size_t to_bytes);

/* Reads a whole number that is not negative: "12", "12.0" and "1.2e1" alike. False: it is not such
   a number. */
bool vr_json_unsigned_read(struct vr_json_token token, uint64_t *value);

#endif
