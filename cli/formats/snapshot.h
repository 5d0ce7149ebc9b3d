/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h: the events of a PyTorch memory snapshot, in the order of their times.
 *
 *  (1) What was live when a history begins is known from its end: a block that is freed or live at
 *      the end, but was never allocated in between, was live before. It comes first, as an
 *      allocation that is marked `earlier`. Who allocated it is known only if it is still live.
 *  (2) Each pair of private pool and stream of a GPU is a pool: PyTorch reuses no memory across.
 *  (3) Of an allocation `bytes` is what was requested, `held` what PyTorch counts as allocated.
 */
#ifndef FORMATS_SNAPSHOT_H
#define FORMATS_SNAPSHOT_H

#include "replay/shard_reader.h"
#include "segment_map.h"
#include "snapshot_data.h"

enum { SNAPSHOT_POOLS_MAX = 256 /* what is more shares the last */ };

struct snapshot_pool {
    uint64_t reserved; /* bytes of its segments, now */
    uint64_t held;     /* bytes that count as allocated, now */
    uint32_t device;
    char name[96];
};

/* A block that was live when the history began. */
struct snapshot_first {
    uint64_t addr, bytes;
    uint64_t size; /* 0: not known */
    uint32_t stack, device;
    uint16_t place;
};

struct snapshot_device {
    struct segment_map map;
    size_t next; /* entry */
    uint64_t now_us;
};

struct snapshot {
    struct snapshot_data data;
    bool late_frees; /* a free takes place when it is completed, not when it is requested */
    struct snapshot_device *devices;
    struct interner pool_keys;
    struct snapshot_pool pools[SNAPSHOT_POOLS_MAX];
    bool private_pools;
    struct snapshot_first *first;
    size_t first_count, first_capacity;
    size_t first_next, pool_next, note_next; /* what is to come */
    uint64_t first_us, now_ns, last_id, event_count;
    uint64_t unknown_stacks; /* of `first`, those of which nobody knows who allocated them */
    uint64_t other_actions;  /* entries of kinds that are not known */
    bool inexact;            /* `held` is estimated for some */
    uint64_t problem_at;
    char problem[CHUNK_PROBLEM_MAX];
};

/* Reads the file. False with the problem set; snapshot_close is due either way. */
bool snapshot_open(struct snapshot *snapshot, struct trace_source *source);
bool snapshot_next(struct snapshot *snapshot, struct recorded *event, bool *there);
void snapshot_close(struct snapshot *snapshot);

/* snapshot_start.c: finds what was live, and held, when the histories begin: keeps (1). */
bool snapshot_find_start(struct snapshot *snapshot);

/* The pool of an address, by (2): index in `pools`. */
uint32_t snapshot_pool_of(struct snapshot *snapshot, uint32_t device, uint16_t place,
                          uint64_t addr);

/* The id of the private pool of a pool number, as events have it; 0, 0: none. */
void snapshot_pool_id(const struct snapshot *snapshot, uint32_t pool_number, uint64_t id[2]);

static inline enum snapshot_action snapshot_action_of(const struct snapshot_event *event) {
    return (enum snapshot_action)(event->time_action & 15);
}

#endif
