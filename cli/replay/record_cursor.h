/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_cursor.h: reads the parts of one record: numbers, texts and definitions.
 *
 * A record is read whole or not at all: `cut_short` says that it goes past the end of what there
 * is, which is an error in a chunk that was sealed, and the end of the trace in one that was not.
 */
#ifndef REPLAY_RECORD_CURSOR_H
#define REPLAY_RECORD_CURSOR_H

#include "chunk_reader.h"

enum { RECORDING_DEFINITIONS_MAX = 1 << 16, RECORDING_TEXT_MAX = 255, RECORDING_FRAMES_MAX = 64 };

enum definition_kind {
    DEFINITION_TEXT = 0x01,
    DEFINITION_FRAME = 0x02,
    DEFINITION_STACK = 0x03,
    DEFINITION_THREAD = 0x04,
    DEFINITION_QUEUE = 0x05,
    DEFINITION_POOL = 0x06
};

/* What a number stands for. */
struct definition {
    uint8_t kind;  /* 0: nothing yet */
    uint8_t count; /* frames of a stack */
    bool ended;    /* a pool, by now */
    uint64_t handle, device;
    union {
        char *text;       /* of a text, frame or pool */
        uint32_t *frames; /* numbers, the innermost first */
    };
};

/* Of the whole file. */
struct definitions {
    struct definition *all; /* by number, from 1 */
    size_t count;
};

/* One record on its way. */
struct cursor {
    struct definitions *definitions;
    const uint8_t *at, *end;
    const char *wrong; /* what is wrong with it; NULL: nothing so far */
    bool cut_short;    /* it goes past the end */
};

/* Says what is wrong; the first complaint counts. */
void cursor_refuse(struct cursor *cursor, const char *why);

uint64_t cursor_number(struct cursor *cursor);
/* A zigzag difference to *last, which becomes the number. */
uint64_t cursor_difference(struct cursor *cursor, uint64_t *last);
/* The sum of both, which must fit. */
uint64_t cursor_sum(struct cursor *cursor, uint64_t one, uint64_t other);

/* What a number stands for, which must be of that kind; NULL for 0 and for what is wrong. */
const struct definition *cursor_definition(struct cursor *cursor, enum definition_kind kind,
                                           uint32_t *which);
/* The same for a text: "" for 0. */
const char *cursor_text(struct cursor *cursor, uint32_t *which);

/* Reads a definition behind its kind. */
void cursor_define(struct cursor *cursor, enum definition_kind kind);

void definitions_free(struct definitions *definitions);

#endif
