/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk_reader.h: the chunks of a trace file (docs/trace-format.md), of either version, in the
 * order they were begun.
 *
 * The file is hostile until shown otherwise. A ring, which may begin anywhere, is held whole, and
 * is 256 MiB at most; otherwise each chunk has memory of its own. What is sealed is checked against
 * its checksum; what is not is handed on as far as it goes: in version 1 only the last may be such,
 * in version 2 the last of each shard.
 */
#ifndef REPLAY_CHUNK_READER_H
#define REPLAY_CHUNK_READER_H

#include "trace_source.h"

#define RECORDING_MAGIC       "\x89VRT\r\n\x1a\n"
#define RECORDING_MAGIC_BYTES 8

enum { CHUNK_PROBLEM_MAX = 160, CHUNK_SHARDS_MAX = 256 };

/* How the writing of a file came to its end. */
enum recording_end {
    RECORDING_ENDED, /* as it should */
    /* the disk was full, or the system refused something else; the rest was lost */
    RECORDING_STOPPED,
    RECORDING_CUT /* the program was killed, still runs, or the file is not whole */
};

struct chunk_view {
    uint64_t offset;        /* of its first record in the file */
    const uint8_t *records; /* in `memory`, or in the ring, until the reader is closed */
    size_t bytes;           /* of them */
    uint8_t *memory;        /* the caller's to free; NULL: a ring's */
    bool whole;             /* checked; else the last of its shard, which may end inside a record */
    uint32_t shard;         /* 0 in version 1 */
    uint64_t sequence;      /* its number, from 0 */
    uint64_t begin;         /* in ticks; none of its events is from before */
    int64_t gone_blocks, gone_bytes;  /* live before it, by records that are gone */
    uint64_t gone_until, gone_chunks; /* time of the last of those, in ticks, and their chunks */
};

struct chunk_reader {
    struct trace_source *source;
    uint64_t offset; /* bytes of the file read so far */
    uint32_t version, head_bytes;
    uint32_t header_bytes, chunk_bytes, slots;
    uint64_t date_ns, process; /* when it was begun, ns since 1970, and by whom */
    uint64_t rate;             /* ticks per second */
    bool ended;                /* the header says how it ended: */
    bool stopped;
    uint64_t events, lost, chunks, end_ticks, file_bytes;
    uint64_t next;       /* sequence that is due */
    uint64_t found;      /* chunks that were handed on */
    uint64_t last_begin; /* of the last of them */
    bool last;           /* no chunk follows */
    bool cut;            /* it is not whole */
    uint8_t *memory;     /* a chunk, or all of a ring */
    size_t memory_bytes; /* of a ring: what was read */
    uint32_t *order;     /* a ring's slots by sequence */
    uint32_t order_count, order_next;
    struct chunk_view gone; /* the chunk that says what of a ring is gone */
    uint64_t problem_at;    /* offset of what is wrong */
    char problem[CHUNK_PROBLEM_MAX];
};

/* Reads the header from a source of which nothing was read yet. False with the problem set; in
   either case chunk_reader_close is due. The source stays the caller's. */
bool chunk_reader_open(struct chunk_reader *reader, struct trace_source *source);

/* The next chunk; *there is false behind the last. False with the problem set. */
bool chunk_reader_next(struct chunk_reader *reader, struct chunk_view *view, bool *there);

/* After the last chunk: how the file ended. */
enum recording_end chunk_reader_end(const struct chunk_reader *reader);

void chunk_reader_close(struct chunk_reader *reader);

/* CRC-32 as gzip has it, of headers and of chunks of version 1; XXH64, of those of version 2. */
uint32_t chunk_crc(const uint8_t *data, size_t bytes);
uint64_t chunk_xxh64(const uint8_t *data, size_t bytes, uint64_t seed);

#endif
