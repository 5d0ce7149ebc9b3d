/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording.h: the events of a trace file, one at a time, with what they speak of in words.
 *
 * Memory is bounded: besides a chunk (chunk_reader.h) only definitions are kept, of which a file
 * has RECORDING_DEFINITIONS_MAX at most. Every number is checked before it is used.
 */
#ifndef REPLAY_RECORDING_H
#define REPLAY_RECORDING_H

#include "chunk_reader.h"

enum { RECORDING_DEFINITIONS_MAX = 1 << 16, RECORDING_TEXT_MAX = 255, RECORDING_FRAMES_MAX = 64 };

enum recorded_kind {
    RECORDED_ALLOC = 0x10,
    RECORDED_FREE = 0x11,
    RECORDED_RESIZE = 0x12,
    RECORDED_REFUSE = 0x13,
    RECORDED_POOL_BEGIN = 0x14,
    RECORDED_POOL_END = 0x15,
    RECORDED_SAMPLE = 0x16,
    RECORDED_MARK = 0x17,
    RECORDED_TRANSFER = 0x40 /* none of the events that a file counts */
};

/* A look at a pool, in bytes. */
struct recorded_sample {
    uint64_t live, held, reserved, cached, free, largest_free;
    uint64_t limit; /* 0: none */
    uint64_t hits, misses;
};

struct recorded {
    enum recorded_kind kind;
    uint64_t offset;              /* of the record in the file */
    uint64_t time_ns;             /* since the trace began */
    uint64_t thread;              /* 0: not known */
    uint64_t pool, queue, device; /* handles; 0: none */
    uint64_t id, addr;
    uint64_t bytes;       /* asked for */
    uint64_t held;        /* after rounding */
    uint64_t before;      /* RESIZE: bytes as they were */
    int status;           /* REFUSE and TRANSFER: why, as vram_status */
    uint64_t took_ns;     /* TRANSFER: from its call until its end was seen, which is `time_ns`, */
    uint64_t direction;   /* where to, */
    uint64_t route;       /* and how: numbers of vram/transfer.h, or any other */
    uint32_t stack;       /* number for recording_frames; 0: none */
    uint32_t tag_number;  /* of `tag`; 0: none */
    uint32_t pool_number; /* of the pool's definition; 0: none */
    const char *tag, *name,
        *pool_name; /* "" when there is none; borrowed while the recording is open */
    struct recorded_sample sample;
};

/* What a number stands for. */
struct definition {
    uint8_t kind;  /* 0: nothing yet */
    uint8_t count; /* frames of a stack */
    uint64_t handle, device;
    union {
        char *text;       /* of a text, frame or pool */
        uint32_t *frames; /* numbers, the innermost first */
    };
};

struct recording {
    struct chunk_reader reader;
    struct chunk_view chunk;
    const uint8_t *at, *end; /* of the chunk's records */
    uint64_t time_ns, last_id, last_addr;
    uint64_t
        first_sequence; /* of the first chunk there is; above 0: a ring has lost its beginning */
    uint64_t first_blocks, first_bytes; /* live before it */
    uint64_t event_count;
    struct definition *definitions; /* by number, from 1 */
    size_t definition_count;
    uint64_t problem_at;
    char problem[CHUNK_PROBLEM_MAX];
};

/* Reads the header. False with the problem and its offset set; recording_close is due either
   way. */
bool recording_open(struct recording *recording, struct trace_source *source);

/* The next event or transfer; *there is false behind the last. Time never falls from event to
   event, but a transfer may be told a little later than it ended. False with the problem set. */
bool recording_next(struct recording *recording, struct recorded *event, bool *there);

/* The text of frame `index` of a stack, the innermost first; NULL behind the outermost. */
const char *recording_frame(const struct recording *recording, uint32_t stack, uint32_t index);

void recording_close(struct recording *recording);

#endif
