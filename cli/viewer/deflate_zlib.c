/* SPDX-License-Identifier: Apache-2.0 */
/* deflate_zlib.c: see deflate.h. */
#include "deflate.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

const bool deflate_built = true;

struct deflater {
    z_stream stream;
};

enum { GZIP_WINDOW = 15 + 16, MEMORY_LEVEL = 8 };

struct deflater *deflater_create(void) {
    struct deflater *deflater = calloc(1, sizeof *deflater);
    if (deflater != NULL && deflateInit2(&deflater->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                                         GZIP_WINDOW, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(deflater);
        return NULL;
    }
    return deflater;
}

void deflater_destroy(struct deflater *deflater) {
    if (deflater != NULL) {
        deflateEnd(&deflater->stream);
        free(deflater);
    }
}

bool deflater_step(struct deflater *deflater, const uint8_t *from, size_t *from_bytes, uint8_t *to,
                   size_t *to_bytes, bool end, bool *done) {
    z_stream *stream = &deflater->stream;
    size_t taken = *from_bytes < UINT_MAX ? *from_bytes : UINT_MAX;
    stream->next_in = (z_const Bytef *)from;
    stream->avail_in = (uInt)taken;
    stream->next_out = to;
    stream->avail_out = (uInt)*to_bytes;
    int code = deflate(stream, end ? Z_FINISH : Z_NO_FLUSH);
    *from_bytes = taken - stream->avail_in;
    *to_bytes -= stream->avail_out;
    *done = code == Z_STREAM_END;
    return code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR;
}
