/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c: a JSON writer that stores its position in the document, not the document.
 *
 *  (1) While there is no mistake, what was written is the beginning of a valid document.
 *  (2) After the first failure nothing more is written, so a reader sees a truncated document,
 *      never one that is wrong in the middle.
 *  (3) Each element calls `element_begin` first. It alone writes commas, line breaks and keys, and
 *      checks whether an element is allowed there.
 */
#include "base/json.h"

#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_BYTES = 40 /* "-1.7976931348623157e+308" and any locale's decimal point */
};

/* -------------------------------------------------------------------- writing */

static void bytes_put(struct vr_json *json, const char *text, size_t bytes) {
    vr_writer_put(json->writer, text, bytes);
}

static void put_text(struct vr_json *json, const char *text) {
    bytes_put(json, text, strlen(text));
}

static bool mistake_note(struct vr_json *json, const char *mistake) {
    json->mistake = mistake;
    return false;
}

static void put_line(struct vr_json *json) {
    put_text(json, "\n");
    for (uint32_t i = 0; i < json->depth; i++) {
        put_text(json, "  ");
    }
}

/* The escape for one character of a string; NULL if it needs none. */
static const char *char_escape(uint32_t code, char text[8]) {
    switch (code) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        break;
    }
    /* More than JSON requires: C1 controls drive terminals, and U+2028 and U+2029 end lines of the
       JavaScript that reports are pasted into. */
    if (!vr_text_is_control(code)) {
        return NULL;
    }
    snprintf(text, 8, "\\u%04x", (unsigned)(code & 0xFFFF));
    return text;
}

/* Writes runs of plain characters whole, and only what must be escaped separately. */
static void put_string(struct vr_json *json, const char *text) {
    size_t bytes = strlen(text);
    size_t plain = 0; /* start of the run not yet written */
    put_text(json, "\"");
    for (size_t at = 0; at < bytes;) {
        char escaped[8];
        uint32_t code = 0;
        size_t length = vr_text_char(text + at, bytes - at, &code);
        const char *instead = length ? char_escape(code, escaped) : "\xEF\xBF\xBD"; /* U+FFFD */
        size_t next = at + (length ? length : 1);
        if (instead) {
            bytes_put(json, text + plain, at - plain);
            put_text(json, instead);
            plain = next;
        }
        at = next;
    }
    bytes_put(json, text + plain, bytes - plain);
    put_text(json, "\"");
}

/* ------------------------------------------------------------------ structure */

static uint32_t level_bit(const struct vr_json *json) {
    return json->depth ? UINT32_C(1) << (json->depth - 1) : 0;
}

static bool in_object(const struct vr_json *json) {
    return (json->object_bits & level_bit(json)) != 0;
}

/* Begins an element: checks that it is allowed here, writes its comma, its line break and its
   key. */
static bool element_begin(struct vr_json *json, const char *key) {
    if (json->mistake) {
        return false;
    }
    if (json->done) {
        return mistake_note(json, "a second value at the top");
    }
    if (in_object(json) != (key != NULL)) {
        return mistake_note(json, key ? "a key outside of an object" : "a value without a key");
    }
    if (json->filled_bits & level_bit(json)) {
        put_text(json, ",");
    }
    json->filled_bits |= level_bit(json);
    if (json->depth) {
        put_line(json);
    }
    if (key) {
        put_string(json, key);
        put_text(json, ": ");
    }
    return true;
}

/* A value is complete; at the top that is the end of the document. */
static void value_complete(struct vr_json *json) {
    json->done = json->depth == 0;
}

static void scalar_put(struct vr_json *json, const char *key, const char *text) {
    if (element_begin(json, key)) {
        put_text(json, text);
        value_complete(json);
    }
}

static void open_level(struct vr_json *json, const char *key, bool object) {
    if (!json->mistake && json->depth == VR_JSON_LEVELS_MAX) {
        mistake_note(json, "more than 32 levels");
    }
    if (!element_begin(json, key)) {
        return;
    }
    put_text(json, object ? "{" : "[");
    json->depth++;
    json->filled_bits &= ~level_bit(json);
    json->object_bits &= ~level_bit(json);
    json->object_bits |= object ? level_bit(json) : 0;
}

static void close_level(struct vr_json *json, bool object) {
    if (json->mistake) {
        return;
    }
    if (json->depth == 0 || in_object(json) != object) {
        mistake_note(json, object ? "an end of no object" : "an end of no array");
        return;
    }
    bool filled = (json->filled_bits & level_bit(json)) != 0;
    json->depth--;
    if (filled) {
        put_line(json);
    }
    put_text(json, object ? "}" : "]");
    value_complete(json);
}

void vr_json_document_begin(struct vr_json *json, struct vr_writer *writer) {
    *json = (struct vr_json){.writer = writer};
}

vram_status vr_json_document_end(struct vr_json *json, const char *operation) {
    if (!json->mistake && !json->done) {
        mistake_note(json, json->depth ? "an object or array without its end" : "no value at all");
    }
    put_text(json, json->mistake ? "" : "\n");
    vram_status status = vr_writer_end(json->writer, operation);
    if (status == VRAM_OK && json->mistake) {
        status = vr_fail_in(VRAM_ERR_INVALID, operation, "the document is incomplete: %s",
                            json->mistake);
    }
    return status;
}

void vr_json_object_begin(struct vr_json *json, const char *key) {
    open_level(json, key, true);
}

void vr_json_object_end(struct vr_json *json) {
    close_level(json, true);
}

void vr_json_array_begin(struct vr_json *json, const char *key) {
    open_level(json, key, false);
}

void vr_json_array_end(struct vr_json *json) {
    close_level(json, false);
}

/* --------------------------------------------------------------------- values */

void vr_json_text(struct vr_json *json, const char *key, const char *text) {
    if (!text) {
        scalar_put(json, key, "null");
    } else if (element_begin(json, key)) {
        put_string(json, text);
        value_complete(json);
    }
}

void vr_json_unsigned(struct vr_json *json, const char *key, uint64_t value) {
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    scalar_put(json, key, text);
}

void vr_json_bool(struct vr_json *json, const char *key, bool value) {
    scalar_put(json, key, value ? "true" : "false");
}

void vr_json_address(struct vr_json *json, const char *key, uint64_t addr) {
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "0x%" PRIx64, addr);
    vr_json_text(json, key, addr ? text : NULL);
}

/* Makes printf's output the same in every locale: whatever is between the digits is the decimal
   point. Removes what an exponent does not need: 1e+05 becomes 1e5. */
static void number_normalise(char *text) {
    char *out = text;
    for (const char *at = text; *at;) {
        if (strchr("0123456789-", *at)) {
            *out++ = *at++;
        } else if (*at == 'e') {
            *out++ = *at++;
            if (*at == '-') {
                *out++ = *at;
            }
            at++; /* printf always writes the sign */
            at += strspn(at, "0");
        } else {
            *out++ = '.';
            at += strcspn(at, "0123456789");
        }
    }
    *out = '\0';
}

void vr_json_number(struct vr_json *json, const char *key, double value) {
    char text[NUMBER_BYTES];
    if (!isfinite(value)) {
        scalar_put(json, key, "null");
        return;
    }
    /* Whole numbers are written as digits. For other numbers the first precision that reads back as
       the same value is the shortest; 17 digits always do. Written and read in the same locale. */
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value) {
        snprintf(text, sizeof text, "%.0f", value);
    } else {
        int precision = 0;
        do {
            snprintf(text, sizeof text, "%.*g", ++precision, value);
        } while (precision < 17 && strtod(text, NULL) != value);
    }
    number_normalise(text);
    scalar_put(json, key, text);
}

void vr_json_value(struct vr_json *json, const char *key, vram_value value) {
    if (value.known) {
        vr_json_unsigned(json, key, value.value);
    } else {
        scalar_put(json, key, "null");
    }
}
