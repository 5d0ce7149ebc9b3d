/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_source.h: where the text of a trace comes from: a file, standard input or memory, plain,
 * gzip'd or zstd'd, told apart by its first bytes.
 */
#ifndef REPLAY_TRACE_SOURCE_H
#define REPLAY_TRACE_SOURCE_H

#include "inflate.h"
#include "unzstd.h"

#include <stdio.h>

enum {
    SOURCE_RAW_BYTES = 65536,
    SOURCE_PIECE_BYTES = 8192, /* that a reader asks for at a time */
    SOURCE_PROBLEM_MAX = 160,
    SOURCE_PEEK_MAX = 8
};

struct trace_source {
    FILE *file;                      /* NULL: memory */
    const uint8_t *memory;           /* what is left of it */
    size_t memory_bytes;             /* that much */
    struct inflater *inflater;       /* of gzip; both NULL: plain */
    struct unzstd *unzstd;           /* of zstd */
    size_t raw_begin, raw_end;       /* what of `raw` was not handed on */
    uint8_t peeked[SOURCE_PEEK_MAX]; /* read ahead, and handed on first */
    size_t peeked_begin, peeked_end;
    bool begun, ended; /* the first bytes were looked at; there are no more */
    char problem[SOURCE_PROBLEM_MAX];
    uint8_t raw[SOURCE_RAW_BYTES]; /* as it was read; the last, as it is not cleared */
};

/* Opens a file, or standard input for "-". False with the problem set. */
bool trace_source_open(struct trace_source *source, const char *path);
void trace_source_open_memory(struct trace_source *source, const void *text, size_t bytes);

/* Up to *bytes bytes; *bytes is set to what came, 0 at the end. False with the problem set. */
bool trace_source_read(struct trace_source *source, uint8_t *to, size_t *bytes);

/* Whether it begins with these bytes, at most SOURCE_PEEK_MAX; they are still to be read. Before
   anything was read. False too when it cannot be read: the next read says why. */
bool trace_source_begins(struct trace_source *source, const void *text, size_t bytes);

void trace_source_close(struct trace_source *source);

#endif
