/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_out.h: the command's JSON writer. Documents go to a stream, with line breaks and two spaces
 * a level.
 *
 *     struct json_out json;
 *     json_begin(&json, stdout);
 *     json_object_begin(&json, NULL);
 *     json_text(&json, "name", name);
 *     json_object_end(&json);
 *     const char *mistake = json_end(&json);
 *
 * Allocates nothing, escapes everything (invalid UTF-8 becomes U+FFFD), and cannot produce
 * malformed JSON: after a mistake (a value without a key inside an object, more than 32 levels, an
 * unbalanced end) it writes nothing more, and json_end names the mistake. The stream keeps its own
 * failures (ferror).
 */
#ifndef JSON_OUT_H
#define JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <vram/base.h>

enum { JSON_LEVELS_MAX = 32 };

struct json_out {
    FILE *to;
    uint32_t depth;       /* open objects and arrays */
    uint32_t object_bits; /* bit d: level d is an object */
    uint32_t filled_bits; /* bit d: level d has an element already */
    bool done;            /* the one top value is complete */
    const char *mistake;  /* the first one; NULL: none */
};

void json_begin(struct json_out *json, FILE *to);

/* Ends the document with a line break. NULL: it is whole; else what was wrong. */
const char *json_end(struct json_out *json);

/* Elements. `key` is the name inside an object, and NULL inside an array and at the top. */
void json_object_begin(struct json_out *json, const char *key);
void json_object_end(struct json_out *json);
void json_array_begin(struct json_out *json, const char *key);
void json_array_end(struct json_out *json);

/* A string; NULL writes null. */
void json_text(struct json_out *json, const char *key, const char *text);
void json_unsigned(struct json_out *json, const char *key, uint64_t value);
/* "0x7f60c0000000", a string: readers that know only doubles are exact up to 2^53. */
void json_address(struct json_out *json, const char *key, uint64_t addr);
void json_signed(struct json_out *json, const char *key, int64_t value);
/* The shortest text that reads back the same; null if it is not finite. */
void json_number(struct json_out *json, const char *key, double value);
void json_bool(struct json_out *json, const char *key, bool value);
void json_null(struct json_out *json, const char *key);
/* The number if it is known, else null. */
void json_value(struct json_out *json, const char *key, vram_value value);

#endif
