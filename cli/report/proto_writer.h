/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto_writer.h: builds a message in the encoding of Protocol Buffers.
 */
#ifndef REPORT_PROTO_WRITER_H
#define REPORT_PROTO_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { PROTO_MAX = 2048 }; /* bytes of a message; what does not fit is left out whole */

struct proto {
    uint8_t data[PROTO_MAX];
    size_t bytes;
};

void proto_number(struct proto *proto, uint32_t field, uint64_t value);
/* What is not UTF-8 becomes '?'; 512 bytes at most. */
void proto_text(struct proto *proto, uint32_t field, const char *text);
void proto_message(struct proto *proto, uint32_t field, const struct proto *message);

/* The message as field `field` of a file that is one message. */
void proto_write(const struct proto *proto, uint32_t field, FILE *to);

#endif
