/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_out.c: see json_out.h. Each element passes `element` first, which alone writes commas, line
 * breaks and keys, and alone knows where an element may stand.
 */
#include "json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 40 }; /* "-1.7976931348623157e+308", and more */

/* -------------------------------------------------------------------- strings */

/* Bytes that the first byte of a character announces; 0 if none begins with it. */
static size_t announced(unsigned char lead) {
    return lead < 0x80   ? 1
           : lead < 0xc2 ? 0
           : lead < 0xe0 ? 2
           : lead < 0xf0 ? 3
           : lead < 0xf5 ? 4
                         : 0;
}

/*
 * Bytes of the UTF-8 character that `text` starts with, and its code; 0 if it is not one: overlong
 * forms and surrogates are not.
 */
static size_t character_at(const char *text, uint32_t *code) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;
    size_t length = announced(bytes[0]);
    *code = length == 1 ? bytes[0] : bytes[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | (bytes[i] & 0x3fu);
    }
    bool surrogate = *code >= 0xd800 && *code <= 0xdfff;
    return *code < smallest[length] || surrogate || *code > 0x10ffff ? 0 : length;
}

/*
 * Whether a character must not stand as it is. More than JSON asks for: C1 controls drive
 * terminals, U+2028 and U+2029 end lines of the JavaScript that documents are pasted into, and
 * those behind them turn the direction of a line, so that a name shows as another one.
 */
static bool must_escape(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code == '"' || code == '\\';
}

static void put_escaped(FILE *to, uint32_t code) {
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: the character, its letter */
    for (size_t i = 0; i + 1 < sizeof letters; i += 2) {
        if (code == (unsigned char)letters[i]) {
            fprintf(to, "\\%c", letters[i + 1]);
            return;
        }
    }
    fprintf(to, "\\u%04x", (unsigned)code);
}

static void put_string(FILE *to, const char *text) {
    fputc('"', to);
    while (*text != 0) {
        uint32_t code;
        size_t length = character_at(text, &code);
        if (length == 0) {
            fputs("\xEF\xBF\xBD", to); /* U+FFFD */
        } else if (must_escape(code)) {
            put_escaped(to, code);
        } else {
            fwrite(text, 1, length, to);
        }
        text += length > 0 ? length : 1;
    }
    fputc('"', to);
}

/* ------------------------------------------------------------------ structure */

static uint32_t level_bit(const struct json_out *json) {
    return json->depth > 0 ? UINT32_C(1) << (json->depth - 1) : 0;
}

static bool in_object(const struct json_out *json) {
    return (json->object_bits & level_bit(json)) != 0;
}

static void put_line(const struct json_out *json) {
    fprintf(json->to, "\n%*s", (int)(2 * json->depth), "");
}

static bool misused(struct json_out *json, const char *mistake) {
    json->mistake = mistake;
    return false;
}

/* Makes way for an element: whether it may stand here, its comma, its line and its key. */
static bool element(struct json_out *json, const char *key) {
    if (json->mistake != NULL) {
        return false;
    }
    if (json->done) {
        return misused(json, "a second value at the top");
    }
    if (in_object(json) != (key != NULL)) {
        return misused(json, key != NULL ? "a key outside of an object" : "a value without a key");
    }
    if ((json->filled_bits & level_bit(json)) != 0) {
        fputc(',', json->to);
    }
    json->filled_bits |= level_bit(json);
    if (json->depth > 0) {
        put_line(json);
    }
    if (key != NULL) {
        put_string(json->to, key);
        fputs(": ", json->to);
    }
    return true;
}

static void scalar(struct json_out *json, const char *key, const char *text) {
    if (element(json, key)) {
        fputs(text, json->to);
        json->done = json->depth == 0;
    }
}

static void open_level(struct json_out *json, const char *key, bool object) {
    if (json->mistake == NULL && json->depth == JSON_LEVELS_MAX) {
        misused(json, "more than 32 levels");
    }
    if (!element(json, key)) {
        return;
    }
    fputc(object ? '{' : '[', json->to);
    json->depth++;
    json->filled_bits &= ~level_bit(json);
    json->object_bits &= ~level_bit(json);
    json->object_bits |= object ? level_bit(json) : 0;
}

static void close_level(struct json_out *json, bool object) {
    if (json->mistake != NULL) {
        return;
    }
    if (json->depth == 0 || in_object(json) != object) {
        misused(json, object ? "an end of no object" : "an end of no array");
        return;
    }
    bool filled = (json->filled_bits & level_bit(json)) != 0;
    json->depth--;
    if (filled) {
        put_line(json);
    }
    fputc(object ? '}' : ']', json->to);
    json->done = json->depth == 0;
}

void json_begin(struct json_out *json, FILE *to) {
    *json = (struct json_out){.to = to};
}

const char *json_end(struct json_out *json) {
    if (json->mistake == NULL && !json->done) {
        misused(json, json->depth > 0 ? "an object or array without its end" : "no value at all");
    }
    fputc('\n', json->to);
    return json->mistake;
}

void json_object_begin(struct json_out *json, const char *key) {
    open_level(json, key, true);
}

void json_object_end(struct json_out *json) {
    close_level(json, true);
}

void json_array_begin(struct json_out *json, const char *key) {
    open_level(json, key, false);
}

void json_array_end(struct json_out *json) {
    close_level(json, false);
}

/* --------------------------------------------------------------------- values */

void json_text(struct json_out *json, const char *key, const char *text) {
    if (text == NULL) {
        scalar(json, key, "null");
    } else if (element(json, key)) {
        put_string(json->to, text);
        json->done = json->depth == 0;
    }
}

void json_unsigned(struct json_out *json, const char *key, uint64_t value) {
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    scalar(json, key, text);
}

void json_address(struct json_out *json, const char *key, uint64_t addr) {
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "0x%" PRIx64, addr);
    json_text(json, key, text);
}

void json_signed(struct json_out *json, const char *key, int64_t value) {
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRId64, value);
    scalar(json, key, text);
}

/* Drops what an exponent does not need: 1e+05 becomes 1e5, 1e-05 becomes 1e-5. */
static void shorten_exponent(char *text) {
    char *at = strchr(text, 'e');
    if (at != NULL) {
        char *digits = at + 2 + strspn(at + 2, "0"); /* printf always writes the sign */
        at += at[1] == '-' ? 2 : 1;
        memmove(at, digits, strlen(digits) + 1);
    }
}

/*
 * Whole numbers stay digits, as people write them; of the others the first precision that reads
 * back the same is the shortest, and 17 always does. The command leaves LC_NUMERIC as it is in C.
 */
void json_number(struct json_out *json, const char *key, double value) {
    char text[NUMBER_BYTES];
    if (!isfinite(value)) {
        scalar(json, key, "null");
        return;
    }
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value) {
        snprintf(text, sizeof text, "%.0f", value);
    } else {
        int precision = 0;
        do {
            snprintf(text, sizeof text, "%.*g", ++precision, value);
        } while (precision < 17 && strtod(text, NULL) != value);
    }
    shorten_exponent(text);
    scalar(json, key, text);
}

void json_bool(struct json_out *json, const char *key, bool value) {
    scalar(json, key, value ? "true" : "false");
}

void json_null(struct json_out *json, const char *key) {
    scalar(json, key, "null");
}

void json_value(struct json_out *json, const char *key, vram_value value) {
    if (value.known) {
        json_unsigned(json, key, value.value);
    } else {
        json_null(json, key);
    }
}
