/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_data.h: what a PyTorch memory snapshot says, in compact form.
 *
 * torch.cuda.memory._dump_snapshot writes a pickle of one dictionary:
 *
 *   segments              the memory that the allocator holds at the end, and the blocks in it
 *   device_traces         for each GPU its history, a list of entries, the oldest first
 *   allocator_settings    how the allocator was configured
 *   external_annotations  what the program has marked
 *
 * A history is a ring: it may have lost its beginning. An entry takes 32 bytes here, whatever its
 * size in the file, so that 1 GB of pickle fits in less than 1 GB of memory.
 */
#ifndef FORMATS_SNAPSHOT_DATA_H
#define FORMATS_SNAPSHOT_DATA_H

#include "stack_table.h"

enum {
    SNAPSHOT_DEVICES_MAX = 64,
    SNAPSHOT_PLACES_MAX = 65535, /* pairs of stream and private pool */
    SNAPSHOT_TAGS_MAX = 65535
};

/* The most memory that reading one file may take. */
#define SNAPSHOT_MEMORY_MAX (UINT64_C(960) << 20)

enum snapshot_action {
    SNAPSHOT_OTHER, /* one that this reader does not know */
    SNAPSHOT_ALLOC,
    SNAPSHOT_FREE_REQUESTED, /* the program gave it up; from here on it is not allocated */
    SNAPSHOT_FREE_COMPLETED, /* the streams that used it are done; it can be reused */
    SNAPSHOT_SEGMENT_ALLOC,
    SNAPSHOT_SEGMENT_FREE,
    SNAPSHOT_SEGMENT_MAP, /* of an expandable segment */
    SNAPSHOT_SEGMENT_UNMAP,
    SNAPSHOT_SNAPSHOT,
    SNAPSHOT_OOM
};

struct snapshot_event {
    uint64_t addr; /* of an OOM: bytes that the device had free */
    uint64_t size;
    uint64_t time_action; /* microseconds * 16 + enum snapshot_action */
    uint32_t stack;       /* number in the table; 0: none */
    uint16_t place;       /* number of stream and private pool, from 0 */
    uint16_t tag;         /* number of a text of its own, from 1; 0: none */
};

struct snapshot_events {
    struct snapshot_event *all;
    size_t count, capacity;
};

/* Where memory comes from: PyTorch reuses none across either. */
struct snapshot_place {
    uint64_t stream;
    uint64_t pool[2]; /* id of the private pool; 0, 0: none */
    bool pool_known;  /* the entry has named it; else the segment does */
};

struct snapshot_block {
    uint64_t addr, size; /* as the allocator cut it */
    uint64_t requested;
    uint32_t stack;
    bool active, addr_known;
};

struct snapshot_segment {
    uint64_t addr, size;
    uint32_t device;
    uint16_t place;
    bool expandable;
    size_t first_block, block_count; /* in snapshot_data.blocks */
};

/* A mark of the program's. */
struct snapshot_note {
    uint64_t time_us;
    uint32_t text;
};

struct snapshot_data {
    uint64_t budget; /* bytes that may still be allocated */
    struct stack_table stacks;
    struct interner places, tags; /* struct snapshot_place, text numbers */
    struct interner pairs;        /* two numbers of 64 bits: ids of private pools */
    struct snapshot_events devices[SNAPSHOT_DEVICES_MAX];
    size_t device_count;
    struct snapshot_segment *segments;
    size_t segment_count, segment_capacity;
    struct snapshot_block *blocks;
    size_t block_count, block_capacity;
    struct snapshot_note *notes;
    size_t note_count, note_capacity;
    bool timed;          /* entries have times */
    bool expandable;     /* expandable_segments was on */
    uint64_t split_most; /* blocks of at least that size are not split; 0: no such limit */
    uint64_t bytes;      /* of the file */
};

/* Reads a whole snapshot. False with one line in `problem`; snapshot_data_free is due either
   way. */
struct trace_source;
bool snapshot_data_read(struct snapshot_data *data, struct trace_source *source,
                        uint64_t *problem_at, char *problem, size_t problem_bytes);
void snapshot_data_free(struct snapshot_data *data);

/* The place and the tag of a number. */
struct snapshot_place snapshot_data_place(const struct snapshot_data *data, uint16_t place);
const char *snapshot_data_tag(const struct snapshot_data *data, uint16_t tag);

#endif
