/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_source.c: see trace_source.h.
 */
#include "trace_source.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static bool refuse(struct trace_source *source, const char *problem) {
    snprintf(source->problem, sizeof source->problem, "%s", problem);
    return false;
}

bool trace_source_open(struct trace_source *source, const char *path) {
    memset(source, 0, offsetof(struct trace_source, raw));
    source->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    return source->file != NULL || refuse(source, strerror(errno));
}

void trace_source_open_memory(struct trace_source *source, const void *text, size_t bytes) {
    memset(source, 0, offsetof(struct trace_source, raw));
    source->memory = text;
    source->memory_bytes = bytes;
}

void trace_source_close(struct trace_source *source) {
    inflater_destroy(source->inflater);
    unzstd_destroy(source->unzstd);
    if (source->file != NULL && source->file != stdin) {
        fclose(source->file);
    }
    source->inflater = NULL;
    source->unzstd = NULL;
    source->file = NULL;
}

/* Fills the raw bytes once they are used up. */
static bool refill(struct trace_source *source) {
    if (source->raw_begin < source->raw_end || source->ended) {
        return true;
    }
    size_t got = source->memory_bytes < SOURCE_RAW_BYTES ? source->memory_bytes : SOURCE_RAW_BYTES;
    if (source->file != NULL) {
        errno = 0;
        got = fread(source->raw, 1, sizeof source->raw, source->file);
        if (ferror(source->file)) {
            return refuse(source, errno != 0 ? strerror(errno) : "it cannot be read");
        }
    } else if (got > 0) {
        memcpy(source->raw, source->memory, got);
        source->memory += got;
        source->memory_bytes -= got;
    }
    source->raw_begin = 0;
    source->raw_end = got;
    source->ended = got == 0;
    return true;
}

/* Looks at the first bytes: gzip says 1f 8b, zstd 28 b5 2f fd, and no trace does. */
static bool begin(struct trace_source *source) {
    static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    source->begun = true;
    if (!refill(source)) {
        return false;
    }
    if (source->raw_end >= sizeof gzip && memcmp(source->raw, gzip, sizeof gzip) == 0) {
        if (!inflate_built) {
            return refuse(source, "it is gzip'd and this build has no zlib; pipe it: zcat FILE | "
                                  "vram replay -");
        }
        source->inflater = inflater_create();
        return source->inflater != NULL || refuse(source, "out of host memory");
    }
    if (source->raw_end >= sizeof zstd && memcmp(source->raw, zstd, sizeof zstd) == 0) {
        if (!unzstd_built) {
            return refuse(source, "it is zstd'd and this build has no zstd; pipe it: zstdcat FILE "
                                  "| vram replay -");
        }
        source->unzstd = unzstd_create();
        return source->unzstd != NULL || refuse(source, "out of host memory");
    }
    return true;
}

static bool read_plain(struct trace_source *source, uint8_t *to, size_t *bytes) {
    if (!refill(source)) {
        return false;
    }
    size_t there = source->raw_end - source->raw_begin;
    *bytes = there < *bytes ? there : *bytes;
    memcpy(to, source->raw + source->raw_begin, *bytes);
    source->raw_begin += *bytes;
    return true;
}

static bool is_whole(const struct trace_source *source) {
    return source->inflater != NULL ? inflater_whole(source->inflater)
                                    : unzstd_whole(source->unzstd);
}

static bool step(struct trace_source *source, size_t *taken, uint8_t *to, size_t *given) {
    const uint8_t *from = source->raw + source->raw_begin;
    return source->inflater != NULL ? inflater_step(source->inflater, from, taken, to, given)
                                    : unzstd_step(source->unzstd, from, taken, to, given);
}

/* Goes on until something comes out: a step may do no more than read a header. */
static bool read_packed(struct trace_source *source, uint8_t *to, size_t *bytes) {
    for (;;) {
        if (!refill(source)) {
            return false;
        }
        size_t taken = source->raw_end - source->raw_begin, given = *bytes;
        if (taken == 0 && is_whole(source)) {
            *bytes = 0;
            return true;
        }
        if (!step(source, &taken, to, &given)) {
            return refuse(source, source->inflater != NULL ? "its gzip data is damaged"
                                                           : "its zstd data is damaged");
        }
        source->raw_begin += taken;
        if (given > 0) {
            *bytes = given;
            return true;
        }
        if (source->ended && taken == 0) {
            return refuse(source, source->inflater != NULL
                                      ? "it ends in the middle of its gzip data"
                                      : "it ends in the middle of its zstd data");
        }
    }
}

static bool read_on(struct trace_source *source, uint8_t *to, size_t *bytes) {
    if (!source->begun && !begin(source)) {
        return false;
    }
    return source->inflater != NULL || source->unzstd != NULL ? read_packed(source, to, bytes)
                                                              : read_plain(source, to, bytes);
}

bool trace_source_begins(struct trace_source *source, const void *text, size_t bytes) {
    while (source->peeked_end < bytes) {
        size_t some = bytes - source->peeked_end;
        if (!read_on(source, source->peeked + source->peeked_end, &some) || some == 0) {
            return false;
        }
        source->peeked_end += some;
    }
    return memcmp(source->peeked, text, bytes) == 0;
}

bool trace_source_read(struct trace_source *source, uint8_t *to, size_t *bytes) {
    size_t kept = source->peeked_end - source->peeked_begin;
    if (kept == 0) {
        return read_on(source, to, bytes);
    }
    *bytes = kept < *bytes ? kept : *bytes;
    memcpy(to, source->peeked + source->peeked_begin, *bytes);
    source->peeked_begin += *bytes;
    return true;
}
