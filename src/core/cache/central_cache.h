/* SPDX-License-Identifier: Apache-2.0 */
/*
 * central_cache.h: cached blocks that threads exchange.
 *
 * Blocks that overflow one thread's cache wait here for another thread, by queue and exact size,
 * before they return to the space to be merged. So a thread that only frees supplies one that only
 * allocates. The table has a fixed size; if two keys need the same bin, the older one is evicted.
 * All calls are made under the pool's lock.
 *
 * A bin is a stack of pointers. Blocks move between it and a thread's bin in batches, by copying
 * the pointers: neither side reads the blocks, whose cache lines belong to another processor.
 */
#ifndef VR_CENTRAL_H
#define VR_CENTRAL_H

#include "core/space/block.h"

enum { VR_CENTRAL_BINS = 512 };
#define VR_CENTRAL_BIN_BYTES (UINT64_C(2) << 20) /* maximum per bin */

struct vr_central_bin {
    struct vr_queue_id queue; /* the key: queue */
    uint64_t bytes;           /* and size; 0: none */
    struct vr_block **blocks; /* the oldest first; NULL: never used, or emptied */
    uint32_t count, capacity;
    bool used;     /* blocks were taken since the last tick of the decay, apart from `hits` */
    uint64_t hits; /* blocks taken since the decay last read it; decay.h */
};

struct vr_central_cache {
    struct vr_central_bin bins[VR_CENTRAL_BINS];
    uint64_t held_bytes;
    uint64_t table_bytes; /* host memory of the stacks */
};

/* Takes up to `most` blocks of that key; returns how many. */
uint32_t vr_central_take(struct vr_central_cache *central, struct vr_queue_id queue, uint64_t bytes,
                         struct vr_block **blocks, uint32_t most);

/* Whether a put of that many blocks neither evicts a key nor allocates memory, and keeps all. */
bool vr_central_has_room(const struct vr_central_cache *central, struct vr_queue_id queue,
                         uint64_t bytes, uint32_t count);

/* Keeps blocks of one size, at most half of VR_CENTRAL_BIN_BYTES; returns how many, from the first
   on: the bin may be full, or host memory may have run out. *out, of *out_queue: a list of blocks
   of an older key that must go to the space instead. */
uint32_t vr_central_put(struct vr_central_cache *central, struct vr_queue_id queue, uint64_t bytes,
                        struct vr_block *const *blocks, uint32_t count, struct vr_block **out,
                        struct vr_queue_id *out_queue);

/* Removes the blocks of one key, of the queue `only` (0: of any queue): a list of one queue's
   blocks; NULL when none are left. */
struct vr_block *vr_central_empty(struct vr_central_cache *central, struct vr_queue_id only,
                                  struct vr_queue_id *queue);

/* Removes the `count` oldest blocks from bin `at`: a list. */
struct vr_block *vr_central_thin(struct vr_central_cache *central, uint32_t at, uint32_t count);

/* Frees the host memory of all bins. The blocks in them belong to their spaces. */
void vr_central_free(struct vr_central_cache *central);

#endif
