/* SPDX-License-Identifier: Apache-2.0 */
/* payload.c: see payload.h. */
#include "payload.h"

#include <string.h>

static void base64_write(const uint8_t *data, size_t bytes, FILE *to) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[PAYLOAD_BUFFER / 3 * 4 + 4];
    size_t length = 0;
    for (size_t i = 0; i < bytes; i += 3) {
        uint32_t three = (uint32_t)data[i] << 16;
        three |= i + 1 < bytes ? (uint32_t)data[i + 1] << 8 : 0;
        three |= i + 2 < bytes ? data[i + 2] : 0;
        text[length++] = digits[three >> 18];
        text[length++] = digits[three >> 12 & 63];
        text[length++] = i + 1 < bytes ? digits[three >> 6 & 63] : '=';
        text[length++] = i + 2 < bytes ? digits[three & 63] : '=';
    }
    (void)fwrite(text, 1, length, to);
}

static void buffer_write(struct payload *payload) {
    base64_write(payload->buffer, payload->filled, payload->to);
    payload->filled = 0;
}

bool payload_begin(struct payload *payload, FILE *to) {
    payload->to = to;
    payload->filled = 0;
    payload->failed = false;
    payload->deflater = deflate_built ? deflater_create() : NULL;
    return payload->deflater != NULL || !deflate_built;
}

/* Compresses until all is taken, and at the end until all is given. */
static void deflate_write(struct payload *payload, const uint8_t *data, size_t bytes, bool end) {
    bool done = false;
    while (!payload->failed && (bytes > 0 || (end && !done))) {
        size_t taken = bytes, given = sizeof payload->buffer - payload->filled;
        payload->failed = !deflater_step(payload->deflater, data, &taken,
                                         payload->buffer + payload->filled, &given, end, &done);
        data += taken;
        bytes -= taken;
        payload->filled += given;
        if (payload->filled == sizeof payload->buffer) {
            buffer_write(payload);
        }
    }
}

static void plain_write(struct payload *payload, const uint8_t *data, size_t bytes) {
    while (bytes > 0) {
        size_t room = sizeof payload->buffer - payload->filled;
        size_t part = bytes < room ? bytes : room;
        memcpy(payload->buffer + payload->filled, data, part);
        payload->filled += part;
        data += part;
        bytes -= part;
        if (payload->filled == sizeof payload->buffer) {
            buffer_write(payload);
        }
    }
}

void payload_write(struct payload *payload, const void *data, size_t bytes) {
    if (payload->deflater != NULL) {
        deflate_write(payload, data, bytes, false);
    } else {
        plain_write(payload, data, bytes);
    }
}

bool payload_end(struct payload *payload) {
    if (payload->deflater != NULL) {
        deflate_write(payload, NULL, 0, true);
        deflater_destroy(payload->deflater);
    }
    buffer_write(payload);
    return !payload->failed;
}
