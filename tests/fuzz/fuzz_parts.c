/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_parts.c: splits of inputs for formats that several targets read, and a choice by them. */
#include "fuzz.h"

#include <string.h>

uint64_t fuzz_choice(const uint8_t *data, size_t bytes, uint64_t below) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
    }
    return (hash >> 32) % below;
}

size_t fuzz_split_lines(const uint8_t *data, size_t bytes, struct fuzz_part *parts) {
    size_t count = 0, begin = 0;
    for (size_t i = 0; i < bytes && count < FUZZ_PARTS_MAX; i++) {
        if (data[i] == '\n' || i + 1 == bytes) {
            parts[count++] = (struct fuzz_part){begin, i + 1 - begin};
            begin = i + 1;
        }
    }
    return count;
}

/* The end of the value that begins here: its comma is a part of it. */
static size_t value_end(const uint8_t *data, size_t bytes, size_t at) {
    bool quoted = false;
    for (int depth = 0; at < bytes; at++) {
        uint8_t byte = data[at];
        if (quoted) {
            at += byte == '\\';
            quoted = byte != '"';
        } else if (byte == '"') {
            quoted = true;
        } else if (byte == '{' || byte == '[') {
            depth++;
        } else if ((byte == '}' || byte == ']') && depth-- == 0) {
            return at;
        } else if (byte == ',' && depth == 0) {
            return at + 1;
        }
    }
    return bytes;
}

size_t fuzz_split_json(const uint8_t *data, size_t bytes, struct fuzz_part *parts) {
    size_t count = 0;
    bool quoted = false;
    for (size_t i = 0; i < bytes && count < FUZZ_PARTS_MAX; i++) {
        if (quoted) {
            i += data[i] == '\\';
            quoted = i < bytes && data[i] != '"';
        } else if (data[i] == '"') {
            quoted = true;
        } else if (data[i] == '{' || data[i] == '[' || data[i] == ',') {
            size_t end = value_end(data, bytes, i + 1);
            if (end > i + 1) {
                parts[count++] = (struct fuzz_part){i + 1, end - i - 1};
            }
        }
    }
    return count;
}

void fuzz_fields(const uint8_t *data, size_t bytes, struct fuzz_field *fields, size_t count) {
    size_t field = 0, used = 0;
    memset(fields, 0, count * sizeof *fields);
    for (size_t i = 0; i < bytes && field < count; i++) {
        fields[field].given = fields[field].text;
        if (data[i] == '\n') {
            field++;
            used = 0;
        } else if (used < FUZZ_FIELD_BYTES - 1 && data[i] != 0) {
            fields[field].text[used++] = (char)data[i];
        }
    }
}

uint64_t fuzz_get(const uint8_t *from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) {
        value = value << 8 | from[i];
    }
    return value;
}

void fuzz_put(uint8_t *to, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}
