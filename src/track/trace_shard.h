/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_shard.h: where the threads of a traced program write their records: in shards, each with a
 * chunk of its own, so that threads share no memory as long as there are no more of them than
 * shards.
 *
 *  (1) A thread writes to the shard of its number, modulo their count, while it has the shard's
 *      lock. A chunk says which thread the following records are of; when a thread has ended, the
 *      next one goes on in its chunk.
 *  (2) The time of an event is read while its thread has the block: after an allocation has taken
 *      it, before a free gives it away. In a shard it never falls. Where the block may come from
 *      another thread, the clock is read behind all earlier loads: at a free of a block that
 *      another thread allocated, and at events outside the thread's caches, which is where a thread
 *      gets blocks of others. Any other event has at least the time of the thread's event before,
 *      which the allocation of a block is to its free. So events of one address have times in the
 *      order in which they happened, or equal times.
 *  (3) The quick functions write what a shard's chunk has everything for: the definitions of pool,
 *      queue and tag, and space. They take no other lock, make no system call and do not wait.
 */
#ifndef VR_TRACE_SHARD_H
#define VR_TRACE_SHARD_H

#include "track/biased_lock.h"
#include "track/trace_file.h"
#include "track/trace_format.h"

enum {
    VR_TRACE_NUMBER_MAX = 10, /* bytes of a 64-bit number */
    VR_TRACE_EVENT_MAX = 1 + 12 * VR_TRACE_NUMBER_MAX,
    VR_TRACE_SITES = 8,        /* a power of two */
    VR_TRACE_DEFINED = 1 << 13 /* bytes, a bit for each definition */
};

/* Most bytes that one event needs in a fresh chunk. */
#define VR_TRACE_RESERVE_MAX (VR_TRACE_CHUNK_BYTES - VR_TRACE_CHUNK_HEAD - 2 * VR_TRACE_NUMBER_MAX)

/* Pool, queue and tag that the shard's chunk defines, encoded; zeros behind the bytes used. */
struct vr_trace_site {
    uint64_t pool, queue; /* handles; pool 0: unused */
    const char *tag;      /* NULL: none */
    uint8_t place_bytes, tail_bytes;
    uint8_t place[8]; /* the numbers of pool and queue */
    uint8_t tail[8];  /* the tag's number, no name, no stack */
};

struct vr_trace_shard {
    char apart_before[128]; /* other threads write to the memory before it */
    struct vr_biased_lock lock;
    struct vr_trace_chunk chunk;
    uint64_t thread;            /* whose records follow; 0: none yet in this chunk */
    uint64_t time;              /* ticks of the last event */
    uint64_t addr;              /* the last one of the chunk */
    uint64_t report_due;        /* ticks; how far reports of refusals are ahead of their rate */
    vr_atomic_u64 events, lost; /* written, and not; written by the lock's holder */
    uint64_t lost_told;         /* of those lost, as the file's header has them */
    uint32_t number;
    bool stopped; /* it gets no more chunks */
    struct vr_trace_site sites[VR_TRACE_SITES];
    uint8_t defined[VR_TRACE_DEFINED]; /* by number - 1: the chunk has the definition */
    char apart_behind[128];
};

/* The shards of a trace. What every event reads is apart from what is written now and then. */
struct vr_trace_shards {
    uint64_t start;                         /* the file's */
    uint32_t count;                         /* a power of two */
    vr_atomic_ptr all[VR_TRACE_SHARDS_MAX]; /* struct vr_trace_shard *; NULL: not used yet */
    vr_atomic_u64 due; /* ticks since the start, when an event has more to do than be written */
    char apart[128];
    vr_atomic_u64 tossed; /* events lost outside of shards */
    struct vr_trace_file file;
};

/* After the file was opened; makes the first shard. */
vram_status vr_trace_shards_begin(struct vr_trace_shards *shards);
/* Seals all chunks; `ours` false: forgets them, in a forked child. No call may be in progress. */
void vr_trace_shards_end(struct vr_trace_shards *shards, bool ours, struct vr_trace_end *end);
/* Sums so far. */
void vr_trace_shards_sums(struct vr_trace_shards *shards, struct vr_trace_end *sums);

/* The calling thread's shard, locked; NULL: this is a signal handler inside a shard, and the event
   is lost. */
struct vr_trace_shard *vr_trace_shard_take(struct vr_trace_shards *shards);
void vr_trace_shard_give(struct vr_trace_shard *shard);

/* Makes sure that the shard's chunk has that much space, at most VR_TRACE_RESERVE_MAX, and says
   which thread follows. *fresh: it is a new chunk, without definitions. False: the file is stopped,
   and the event counted as lost. */
bool vr_trace_shard_reserve(struct vr_trace_shards *shards, struct vr_trace_shard *shard,
                            uint32_t bytes, bool *fresh);
void vr_trace_shard_lose(struct vr_trace_shards *shards, struct vr_trace_shard *shard);

/* Where the next record begins. */
static inline uint8_t *vr_trace_shard_at(const struct vr_trace_shard *shard) {
    return shard->chunk.bytes + shard->chunk.used;
}

/* Makes the record that ends at `end` valid; all but its first byte is written. */
static inline void vr_trace_shard_commit(struct vr_trace_shard *shard, uint8_t kind,
                                         const uint8_t *end) {
    uint8_t *at = vr_trace_shard_at(shard);
    vr_store((vr_atomic_u8 *)at, kind, VR_RELEASE);
    shard->chunk.used += (uint32_t)(end - at);
}

static inline uint8_t *vr_trace_number(uint8_t *to, uint64_t value) {
    while (__builtin_expect(value >= 128, 0)) {
        *to++ = (uint8_t)(value | 128);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

/* Zigzag: small differences of either sign are small numbers. */
static inline uint8_t *vr_trace_difference(uint8_t *to, uint64_t value, uint64_t before) {
    uint64_t difference = value - before;
    return vr_trace_number(to, difference << 1 ^ (0 - (difference >> 63)));
}

/* Whether the chunk defines a number. */
static inline bool vr_trace_is_defined(const struct vr_trace_shard *shard, uint32_t number) {
    return shard->defined[(number - 1) / 8] >> (number - 1) % 8 & 1;
}

static inline void vr_trace_set_defined(struct vr_trace_shard *shard, uint32_t number) {
    shard->defined[(number - 1) / 8] |= (uint8_t)(1 << (number - 1) % 8);
}

/* Has the quick functions find what the chunk defines by these numbers. */
struct vr_trace_numbers {
    uint32_t pool, queue, tag;
};
void vr_trace_site_keep(struct vr_trace_shard *shard, uint64_t pool, uint64_t queue,
                        const char *tag, const struct vr_trace_numbers *numbers);

/* ------------------------------------------------------------- quick events */

/* A block as it is allocated or freed. */
struct vr_trace_block {
    uint64_t pool, queue;       /* handles; queue 0: none */
    const char *tag;            /* of an allocation; NULL: none */
    uint64_t addr, bytes, held; /* `held` of an allocation */
    bool own;                   /* of a free: the calling thread wrote the allocation's event */
};

/* Has quick functions write to these shards from now on; NULL: to none. Then calls may be in
   progress until every thread has left its caches. */
void vr_trace_quick_to(struct vr_trace_shards *shards);

/* Writes the event, or counts it as lost if the file is stopped; inside the thread's caches. False:
   nothing was done, the event has to be sent (vr_event_tell). */
bool vr_trace_quick_alloc(const struct vr_trace_block *block);
bool vr_trace_quick_free(const struct vr_trace_block *block);

#endif
