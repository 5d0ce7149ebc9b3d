/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk.h: pieces of a segment's addresses, linked in their order, for the models of other
 * allocators. The chunks of a segment cover it; a free one is also in a tree by size.
 */
#ifndef REPLAY_CHUNK_H
#define REPLAY_CHUNK_H

#include "policy.h"
#include "size_tree.h"

struct chunk {
    struct size_node node;         /* first; address, size and queue, and its place in a tree */
    struct chunk *before, *behind; /* neighbours in the segment */
    void *segment;                 /* the policy's own */
    bool small;                    /* which pool it belongs to, where there are two */
    bool taken;                    /* handed out, or waiting for queues (chunk_waits.h) */
    bool unmapped;                 /* addresses without memory */
    bool pending;                  /* freed in the order of node.queue, and not known to be idle */
    uint64_t freed_at;             /* of a pending one: number of the operation */
    vram_point point;              /* its end, where the queue had work */
};

/* A chunk of its own, which is not taken. NULL: no memory. */
struct chunk *chunk_create(vram_addr addr, uint64_t bytes, uint32_t queue);

/* Cuts `chunk` after `bytes` and returns what is behind, which differs in address and size alone
   and is in no tree. NULL, with the chunk as it was: no memory. */
struct chunk *chunk_cut(struct chunk *chunk, uint64_t bytes);

/* Cuts [addr, addr + bytes) out of a chunk that is in no tree, so that up to two others remain
   around it. NULL, with the chunk as it was: no memory. */
struct chunk *chunk_carve(struct chunk *chunk, vram_addr addr, uint64_t bytes);

/* Joins the chunk behind `chunk`, which is in no tree, to it. */
void chunk_join(struct chunk *chunk);

/* -------------------------------------------------------------------- waiting */

/* Freed chunks that other queues used: each is ready when these have come as far as they were at
   its free. */
struct chunk_waits {
    struct place *place;
    struct policy_counts *counts; /* its markers */
    struct chunk_wait *oldest, **newest;
    void (*ready)(void *user, struct chunk *chunk);
    void *user;
};

void chunk_waits_begin(struct chunk_waits *waits);

/* Has the chunk wait for a set of queues. Whatever is returned, it is ready sooner or later. */
vram_status chunk_waits_add(struct chunk_waits *waits, struct chunk *chunk, uint64_t queues);

/* Tells of those that have waited long enough, oldest first. With `wait`, waits for all. */
vram_status chunk_waits_settle(struct chunk_waits *waits, bool wait);

/* All count as ready; for a device that is lost. */
void chunk_waits_end(struct chunk_waits *waits);

#endif
