/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_file.h: the file of a trace: a header and chunks of records.
 *
 *  (1) A chunk belongs to one shard (trace_shard.h) until it is sealed, and is written through a
 *      mapping of the file: what has been stored there survives the end of the process. A file that
 *      another process truncates does not raise SIGBUS (vr_os_disk_map).
 *  (2) A record is valid as soon as its first byte is not 0, which is stored last. Storing eight
 *      bytes seals a chunk or ends the trace. So a reader finds the old or the new state, whenever
 *      the writer died.
 *  (3) Disk blocks are allocated before they are written. If the disk is full, the file was
 *      truncated, or any other call fails, the file is stopped for good: later events are lost and
 *      counted.
 *  (4) Chunks begin in the order of their sequence, each later than the one before.
 *  (5) A ring overwrites the chunk whose last record is the oldest; chunks that shards are writing
 *      stay. So a ring has everything from the latest record that was overwritten on.
 *  (6) Any thread may call these functions; a chunk is used by the thread that has its shard. Only
 *      vr_trace_file_open changes the thread's error record.
 *  (7) A thread that needs a chunk while another one waits for the disk waits a tenth of a
 *      second, since on a busy machine the other one may only be waiting for a processor; then its
 *      events are lost and counted, until the disk has answered.
 */
#ifndef VR_TRACE_FILE_H
#define VR_TRACE_FILE_H

#include "base/lock.h"
#include "vram/base.h"

/* A chunk that is being written. */
struct vr_trace_chunk {
    uint8_t *bytes;     /* mapped; NULL: there is none */
    uint32_t used;      /* bytes */
    uint32_t slot;      /* its place in the file */
    uint32_t shard;     /* the number of its shard */
    uint64_t sequence;  /* its number */
    uint64_t last;      /* ticks of its last record, at first of its begin */
    int64_t blocks;     /* its allocations minus its frees */
    int64_t live_bytes; /* and their bytes */
};

/* A place of a ring. */
struct vr_trace_slot {
    bool open, used;            /* a shard is writing it; there is a chunk */
    uint64_t last;              /* as in vr_trace_chunk */
    int64_t blocks, live_bytes; /* as in vr_trace_chunk */
};

struct vr_trace_file {
    int fd; /* -1: not open */
    uint32_t header_bytes;
    uint32_t slots;              /* of a ring; 0: the file grows */
    uint64_t start;              /* vr_clock_ticks when the trace began */
    uint8_t *header;             /* mapped, of a ring the whole file, */
    uint64_t mapped_bytes;       /* that much */
    vr_atomic_u32 stopped;       /* a vram_status, negated: why nothing more is written; 0: it is */
    vr_atomic_u64 chunks;        /* begun */
    vr_atomic_u64 lost;          /* events, as the header shows them */
    vr_atomic_u64 growing_since; /* vr_clock_ticks when a thread called the disk; 0: none has */
    struct vr_mutex lock;        /* guards the rest */
    uint64_t sequence;           /* chunks that have a number */
    uint64_t allocated;          /* chunks that the disk has room for */
    uint64_t next_begin;         /* ticks; the earliest begin of the next chunk */
    struct vr_trace_slot *ring;  /* by slot; NULL: the file grows */
    struct vr_trace_slot gone;   /* sums of what was overwritten */
    uint64_t gone_chunks;        /* how many */
    uint32_t end_slot, end_used; /* the last place of a file that grows, and bytes used there */
};

/* Creates the file. ring_bytes 0: it grows; otherwise it keeps about the last ring_bytes. After a
   failure there is nothing to close. */
vram_status vr_trace_file_open(struct vr_trace_file *file, const char *path, uint64_t ring_bytes);

/* Ticks since the trace began, read after all earlier loads. */
uint64_t vr_trace_file_now(const struct vr_trace_file *file);

/* Ends a shard's chunk, if it has one, and begins its next. VRAM_ERR_BUSY: not now, by (7), and
   nothing has changed. VRAM_ERR_IO: the file is stopped. */
vram_status vr_trace_chunk_next(struct vr_trace_file *file, uint32_t shard,
                                struct vr_trace_chunk *chunk);
/* Seals it; accepts one that was never begun. */
void vr_trace_chunk_end(struct vr_trace_file *file, struct vr_trace_chunk *chunk);
/* Forgets it in a forked child. */
void vr_trace_chunk_forget(const struct vr_trace_file *file, struct vr_trace_chunk *chunk);

/* Events that could not be written, as the file shows them until it ends. */
void vr_trace_file_lose(struct vr_trace_file *file, uint64_t events);

static inline vram_status vr_trace_file_stopped(const struct vr_trace_file *file) {
    return (vram_status) - (int)vr_load(&file->stopped, VR_RELAXED);
}

struct vr_trace_end {
    uint64_t events, lost; /* written, and not */
    uint64_t last;         /* ticks of the last event */
};

/* Writes the end into the header, truncates unused space, and closes. All chunks are sealed.
   Accepts a file that was never opened. */
void vr_trace_file_close(struct vr_trace_file *file, const struct vr_trace_end *end);

/* Closes without writing: the file belongs to the parent process. */
void vr_trace_file_abandon(struct vr_trace_file *file);

/* For tests in which nothing may be lost on a busy machine: the wait of (7), before any thread
   traces. 0 restores it. */
void vr_trace_patience_set(uint64_t ms);

#endif
