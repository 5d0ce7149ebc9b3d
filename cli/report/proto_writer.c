/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto_writer.c: see proto_writer.h.
 */
#include "proto_writer.h"
#include "utf8_text.h"

#include <string.h>

enum { WIRE_NUMBER = 0, WIRE_BYTES = 2, NUMBER_MAX = 10, TEXT_MAX = 512 };
enum { NUMBERS_MAX = 2 * NUMBER_MAX }; /* of a field, and of its value or its length */

static size_t put_number(uint8_t to[NUMBER_MAX], uint64_t value) {
    size_t bytes = 0;
    do {
        to[bytes] = (uint8_t)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        value >>= 7;
        bytes++;
    } while (value > 0);
    return bytes;
}

static void append(struct proto *proto, uint64_t value) {
    proto->bytes += put_number(proto->data + proto->bytes, value);
}

void proto_number(struct proto *proto, uint32_t field, uint64_t value) {
    if (proto->bytes + NUMBERS_MAX <= PROTO_MAX) {
        append(proto, (uint64_t)field << 3 | WIRE_NUMBER);
        append(proto, value);
    }
}

static void proto_bytes(struct proto *proto, uint32_t field, const void *data, size_t bytes) {
    if (proto->bytes + NUMBERS_MAX + bytes <= PROTO_MAX) {
        append(proto, (uint64_t)field << 3 | WIRE_BYTES);
        append(proto, bytes);
        memcpy(proto->data + proto->bytes, data, bytes);
        proto->bytes += bytes;
    }
}

void proto_text(struct proto *proto, uint32_t field, const char *text) {
    char clean[TEXT_MAX];
    proto_bytes(proto, field, clean, utf8_copy(text, clean, sizeof clean));
}

void proto_message(struct proto *proto, uint32_t field, const struct proto *message) {
    proto_bytes(proto, field, message->data, message->bytes);
}

void proto_write(const struct proto *proto, uint32_t field, FILE *to) {
    uint8_t head[NUMBERS_MAX];
    size_t bytes = put_number(head, (uint64_t)field << 3 | WIRE_BYTES);
    bytes += put_number(head + bytes, proto->bytes);
    fwrite(head, 1, bytes, to);
    fwrite(proto->data, 1, proto->bytes, to);
}
