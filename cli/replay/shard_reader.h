/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_reader.h: the events of one shard of a trace, in the order they were written. A file of
 * version 1 has one shard.
 */
#ifndef REPLAY_SHARD_READER_H
#define REPLAY_SHARD_READER_H

#include "refusal_report.h"

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

enum { RECORD_REPORT = 0x41 }; /* no event: it becomes `report` of the refusal that follows */

/* A look at a pool, in bytes. */
struct recorded_sample {
    uint64_t live, held, reserved, cached, free, largest_free;
    uint64_t limit; /* 0: none */
    uint64_t hits, misses;
    bool rough; /* only live, held and reserved are known */
};

/* More bytes than any address can name: a block of more is a damaged file, or a negative number. */
#define RECORDED_BYTES_MAX (UINT64_C(1) << 57)

struct recorded {
    enum recorded_kind kind;
    uint64_t offset;              /* of the record in the file */
    uint64_t time_ns;             /* since the trace began */
    uint64_t thread;              /* 0: not known */
    uint64_t pool, queue, device; /* handles; 0: none */
    uint64_t id;                  /* of the block; in version 2 of the recording's making */
    uint64_t addr;
    uint64_t bytes;       /* asked for */
    uint64_t held;        /* after rounding. REFUSE of a snapshot: what the device had free */
    uint64_t before;      /* RESIZE: bytes as they were */
    uint64_t blocks;      /* POOL_END: those that were live then, of `bytes`; version 2 */
    int status;           /* REFUSE and TRANSFER: why, as vram_status. SAMPLE of a snapshot: what
                             the segment of `bytes` at `addr` did, as enum snapshot_action */
    uint64_t took_ns;     /* TRANSFER: from its call until its end was seen, which is `time_ns`, */
    uint64_t direction;   /* where to, */
    uint64_t route;       /* and how: numbers of vram/transfer.h, or any other */
    uint32_t stack;       /* number for recording_frame; 0: none */
    uint32_t tag_number;  /* of `tag`; 0: none */
    uint32_t pool_number; /* of the pool's definition; 0: none */
    bool earlier;         /* ALLOC: it was live before the first event; when it was made and, with
                             stack 0, by whom is not known */
    const char *tag, *name,
        *pool_name; /* "" when there is none; borrowed while the recording is open */
    struct recorded_sample sample;
    const struct refusal_report *report; /* REFUSE: why, or NULL; until the next event is read */
};

/* What is wrong with a file. */
struct shard_problem {
    uint64_t at;      /* offset */
    const char *text; /* NULL: nothing */
};

enum { SHARD_CHUNKS = 2 }; /* a shard's next chunk comes when at most one is still being read */

struct shard_reader {
    uint32_t version;
    struct chunk_view chunks[SHARD_CHUNKS]; /* the first is being read */
    uint32_t chunk_count;
    bool unfinished;         /* its last chunk was not sealed */
    const uint8_t *at, *end; /* of the first chunk's records; NULL: not begun */
    uint64_t ticks;          /* of the last event */
    uint64_t thread;         /* whose records follow */
    uint64_t last_id, last_addr;
    struct refusal_report *report; /* read last; NULL: none yet */
    bool reported;                 /* it waits for its refusal */
    struct recorded next;          /* its time is in ticks */
    bool ready;                    /* `next` is there, */
    uint64_t order;                /* and takes its turn at this time, in ticks */
};

/* Adds the shard's next chunk, whose memory is the shard's from here on. */
bool shard_reader_add(struct shard_reader *shard, const struct chunk_view *chunk,
                      struct shard_problem *problem);

/* Reads on until an event is ready, or what it has is read. */
bool shard_reader_fill(struct shard_reader *shard, struct definitions *definitions,
                       struct shard_problem *problem);

void shard_reader_free(struct shard_reader *shard);

#endif
