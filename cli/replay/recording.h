/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording.h: the events of a trace file, one at a time in the order of their times, with what
 * they speak of in words. Both versions of the format read the same from here.
 *
 *  (1) Events of several shards are merged by time. At equal times an allocation waits for the free
 *      of its address, and a free for the allocation, if another shard has it.
 *  (2) An address that is allocated while it is live was freed by an event that is lost: a free of
 *      the recording's making comes first.
 *  (3) Of a ring that has lost its beginning, what is from before the last record that it lost is
 *      passed over, and is part of what was live before its first event.
 *
 * Memory is bounded: besides two chunks of each shard (chunk_reader.h) only definitions are kept,
 * of which a file has RECORDING_DEFINITIONS_MAX at most, and the addresses of live blocks. Every
 * number is checked before it is used.
 */
#ifndef REPLAY_RECORDING_H
#define REPLAY_RECORDING_H

#include "live_addresses.h"
#include "shard_reader.h"

struct recording {
    struct chunk_reader reader;
    struct shard_reader shards[CHUNK_SHARDS_MAX];
    uint32_t shard_count;    /* of those that have been seen */
    struct chunk_view ahead; /* the next chunk, not in its shard yet */
    bool has_ahead, at_end;  /* it is there; no more follow */
    struct definitions definitions;
    struct live_addresses live;
    uint64_t last_id;                   /* of version 2 */
    uint64_t first_sequence;            /* chunks that a ring has lost; 0: none */
    uint64_t first_blocks, first_bytes; /* live before its first event */
    int64_t gone_blocks, gone_bytes;    /* the same, while it is summed up */
    uint64_t event_count;
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
