/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_format.h: the numbers of a trace file, version 2. docs/trace-format.md is the contract for
 * readers; this is the writer's side of it.
 *
 *      0            header_bytes     + chunk_bytes    + 2 chunk_bytes
 *      +------------+----------------+----------------+------ ... --+
 *      |   header   |     chunk      |     chunk      |             |
 *      +------------+----------------+----------------+------ ... --+
 *
 *   chunk: | magic | shard | seal | sequence | begin | gone: blocks, bytes, until, chunks | records
 *          0       4       8      16         24      32            40     48     56       64
 *
 * All numbers are little-endian. Chunk n of a file that grows is in place n; a chunk of a ring can
 * be in any place.
 */
#ifndef VR_TRACE_FORMAT_H
#define VR_TRACE_FORMAT_H

#include <stdint.h>

#define VR_TRACE_MAGIC                                                                             \
    "\x89VRT\r\n\x1a\n" /* 8 bytes: shows that it is not text, and detects changes made as text */
#define VR_TRACE_VERSION UINT32_C(2)

enum {
    VR_TRACE_CHUNK_BYTES = 65536,
    VR_TRACE_CHUNK_HEAD = 64,       /* bytes before a chunk's records */
    VR_TRACE_SHARDS_MAX = 64,       /* a power of two; a reader accepts up to 256 */
    VR_TRACE_RING_SLOTS_MIN = 4,    /* chunks of the smallest ring */
    VR_TRACE_RING_SLOTS_MAX = 4096, /* 256 MiB */
    VR_TRACE_TEXT_MAX = 255,        /* bytes of one text; longer ones are truncated */
    VR_TRACE_FRAMES_MAX = 64        /* of one stack; the outermost beyond it are left out */
};

/* Offsets in the header. */
enum {
    VR_TRACE_AT_VERSION = 8,
    VR_TRACE_AT_HEADER_BYTES = 12,
    VR_TRACE_AT_CHUNK_BYTES = 16,
    VR_TRACE_AT_SLOTS = 20, /* of a ring; 0: the file grows */
    VR_TRACE_AT_DATE = 24,  /* ns since 1970, when it was begun */
    VR_TRACE_AT_PROCESS = 32,
    VR_TRACE_AT_CRC = 52, /* CRC-32 of all before it */
    VR_TRACE_AT_END_SEAL =
        64, /* 0 until the trace has ended; then CRC-32 (high) of the next 48 bytes, and a mark */
    VR_TRACE_AT_EVENTS = 72,      /* events written */
    VR_TRACE_AT_LOST = 80,        /* events lost */
    VR_TRACE_AT_CHUNKS = 88,      /* chunks begun */
    VR_TRACE_AT_END_TIME = 96,    /* ticks since the trace began */
    VR_TRACE_AT_FILE_BYTES = 104, /* of the whole file */
    VR_TRACE_AT_RATE = 112,       /* ticks per second, */
    VR_TRACE_AT_RATE_NOW = 128,   /* and as known while the trace is written */
    VR_TRACE_AT_LOST_NOW = 136,   /* events lost, while it is written */
    VR_TRACE_HEADER_USED = 144
};

/* Offsets in a chunk. `gone`: what of a ring was overwritten before the chunk began. */
enum {
    VR_TRACE_AT_SHARD =
        4, /* a shard's chunks follow each other; several shards are written at once */
    VR_TRACE_AT_SEAL =
        8, /* 0: being written; else XXH64 (its low half), mark, bytes of the records (low) */
    VR_TRACE_AT_SEQUENCE = 16,
    VR_TRACE_AT_BEGIN = 24,       /* ticks since the trace began; no record is from before */
    VR_TRACE_AT_GONE_BLOCKS = 32, /* allocations minus frees */
    VR_TRACE_AT_GONE_BYTES = 40,  /* and their bytes */
    VR_TRACE_AT_GONE_UNTIL = 48,  /* ticks of the last of those records */
    VR_TRACE_AT_GONE_CHUNKS = 56  /* how many chunks */
};

/* The mark makes sure that more than one byte of a seal is not 0. */
#define VR_TRACE_CHUNK_MARK   UINT64_C(0x80A50000)
#define VR_TRACE_ENDED_MARK   UINT64_C(0x80A50001)
#define VR_TRACE_STOPPED_MARK UINT64_C(0x80A50002) /* ended, and the disk was full before */
#define VR_TRACE_VOID_SEAL    UINT64_MAX           /* a ring's chunk that is being reused */

/*
 * Records: a kind, then numbers in LEB128. `time` is in ticks since the previous event of the chunk
 * or, for the first, since its begin; `addr` is the zigzag difference from the previous one of the
 * chunk, which begins with 0. Kinds from 0x40 on are followed by their length in bytes, so that a
 * reader can skip those it does not know.
 */
enum vr_trace_record {
    VR_RECORD_NONE = 0x00, /* no more records in this chunk */
    /* Definitions that the chunk's events refer to by number; 0 is none. */
    VR_RECORD_TEXT = 0x01,  /* number, bytes, the text */
    VR_RECORD_FRAME = 0x02, /* number, bytes, the text */
    VR_RECORD_STACK = 0x03, /* number, count, that many frames, the innermost first */
    VR_RECORD_QUEUE = 0x05, /* number, handle */
    VR_RECORD_POOL = 0x06,  /* number, handle, device, bytes, the name */
    VR_RECORD_BY = 0x08,    /* the library's number of the thread whose events follow */
    /* Events. */
    VR_RECORD_ALLOC = 0x10,  /* time, pool, queue, addr, bytes, held - bytes, tag, name, stack */
    VR_RECORD_FREE = 0x11,   /* time, pool, queue, addr, bytes */
    VR_RECORD_RESIZE = 0x12, /* time, pool, queue, addr, old bytes, new bytes, held - new bytes */
    VR_RECORD_REFUSE = 0x13, /* time, pool, queue, bytes, status negated, tag */
    VR_RECORD_POOL_BEGIN = 0x14, /* time, pool */
    VR_RECORD_POOL_END = 0x15,   /* time, pool, blocks that were live, their bytes */
    VR_RECORD_SAMPLE = 0x16, /* time, pool, live, held, reserved, cached, free, largest free, limit,
                                hits, misses */
    VR_RECORD_MARK = 0x17,   /* time, text */
    VR_RECORD_LENGTHS = 0x40, /* from here on: bytes, that many bytes */
    VR_RECORD_TRANSFER =
        0x40 /* bytes; time, which does not count for the next record, thread, device,
                                 direction, route, bytes, ns, status negated */
    ,
    VR_RECORD_REPORT = 0x41 /* bytes; why the next refusal of the thread is one: trace_report.c */
};

#endif
