/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unzstd_zstd.c: see unzstd.h. Frames that follow one another are read as one text. A frame that
 * asks for a window above zstd's default of 128 MiB is refused, so that memory is bounded.
 */
#include "unzstd.h"

#include <stdlib.h>
#include <zstd.h>

const bool unzstd_built = true;

struct unzstd {
    ZSTD_DStream *stream;
    bool whole; /* the last byte taken ended a frame */
};

struct unzstd *unzstd_create(void) {
    struct unzstd *unzstd = calloc(1, sizeof *unzstd);
    if (unzstd == NULL) {
        return NULL;
    }
    unzstd->stream = ZSTD_createDStream();
    if (unzstd->stream == NULL) {
        free(unzstd);
        return NULL;
    }
    return unzstd;
}

void unzstd_destroy(struct unzstd *unzstd) {
    if (unzstd != NULL) {
        ZSTD_freeDStream(unzstd->stream);
        free(unzstd);
    }
}

bool unzstd_step(struct unzstd *unzstd, const uint8_t *from, size_t *from_bytes, uint8_t *to,
                 size_t *to_bytes) {
    ZSTD_inBuffer in = {from, *from_bytes, 0};
    ZSTD_outBuffer out = {to, *to_bytes, 0};
    size_t hint = ZSTD_decompressStream(unzstd->stream, &out, &in);
    *from_bytes = in.pos;
    *to_bytes = out.pos;
    if (ZSTD_isError(hint)) {
        return false;
    }
    unzstd->whole = hint == 0;
    return true;
}

bool unzstd_whole(const struct unzstd *unzstd) {
    return unzstd->whole;
}
