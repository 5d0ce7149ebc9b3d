/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inflate_zlib.c: see inflate.h. Members that follow one another, as `cat a.gz b.gz` makes them,
 * are read as one text.
 */
#include "inflate.h"

#include <stdlib.h>
#include <zlib.h>

const bool inflate_built = true;

struct inflater {
    z_stream stream;
    bool whole; /* the last byte taken ended a member */
};

enum { GZIP_WINDOW = 15 + 16 }; /* zlib's way to say: largest window, gzip header and no other */

struct inflater *inflater_create(void) {
    struct inflater *inflater = calloc(1, sizeof *inflater);
    if (inflater != NULL && inflateInit2(&inflater->stream, GZIP_WINDOW) != Z_OK) {
        free(inflater);
        return NULL;
    }
    return inflater;
}

void inflater_destroy(struct inflater *inflater) {
    if (inflater != NULL) {
        inflateEnd(&inflater->stream);
        free(inflater);
    }
}

bool inflater_step(struct inflater *inflater, const uint8_t *from, size_t *from_bytes, uint8_t *to,
                   size_t *to_bytes) {
    z_stream *stream = &inflater->stream;
    if (inflater->whole && *from_bytes > 0) {
        inflateReset(stream);
        inflater->whole = false;
    }
    stream->next_in = (z_const Bytef *)from;
    stream->avail_in = (uInt)*from_bytes;
    stream->next_out = to;
    stream->avail_out = (uInt)*to_bytes;
    int code = inflate(stream, Z_NO_FLUSH);
    *from_bytes -= stream->avail_in;
    *to_bytes -= stream->avail_out;
    inflater->whole = code == Z_STREAM_END;
    return code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR;
}

bool inflater_whole(const struct inflater *inflater) {
    return inflater->whole;
}
