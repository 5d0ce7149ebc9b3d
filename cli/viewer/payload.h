/* SPDX-License-Identifier: Apache-2.0 */
/*
 * payload.h: bytes written as text into a page: gzip'd where zlib was there to build with, and
 * base64.
 */
#ifndef VIEWER_PAYLOAD_H
#define VIEWER_PAYLOAD_H

#include "deflate.h"

#include <stdio.h>

enum { PAYLOAD_BUFFER = 3 << 12 }; /* a multiple of 3, so that only the end is padded */

struct payload {
    FILE *to;
    struct deflater *deflater; /* NULL: plain */
    uint8_t buffer[PAYLOAD_BUFFER];
    size_t filled;
    bool failed; /* of compressing; the stream keeps its own failures */
};

/* False: no memory. payload_end is due only after true. */
bool payload_begin(struct payload *payload, FILE *to);
void payload_write(struct payload *payload, const void *data, size_t bytes);
/* False: it is not whole. */
bool payload_end(struct payload *payload);

#endif
