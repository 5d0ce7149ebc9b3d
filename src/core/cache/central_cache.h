/* SPDX-License-Identifier: Apache-2.0 */
/*
 * central_cache.h: cached blocks that threads exchange.
 *
 * Blocks that overflow one thread's cache wait here for another thread, by queue and exact size,
 * before they return to the space to be merged. So a thread that only frees supplies one that only
 * allocates, in batches. The table has a fixed size; if two keys need the same bin, the older one
 * is evicted. All calls are made under the pool's lock.
 */
#ifndef VR_CENTRAL_H
#define VR_CENTRAL_H

#include "core/space/block.h"

enum { VR_CENTRAL_BINS = 512 };
#define VR_CENTRAL_BIN_BYTES (UINT64_C(2) << 20) /* maximum per bin */

struct vr_central_bin {
    struct vr_queue_id queue; /* the key: queue */
    uint64_t bytes;           /* and size; 0: none */
    struct vr_block *first;
    uint32_t count;
    bool used;     /* blocks were taken since the last tick of the decay, apart from `hits` */
    uint64_t hits; /* blocks taken since the decay last read it; decay.h */
};

struct vr_central_cache {
    struct vr_central_bin bins[VR_CENTRAL_BINS];
    uint64_t held_bytes;
};

/* A block of that key, or NULL. */
struct vr_block *vr_central_take(struct vr_central_cache *central, struct vr_queue_id queue,
                                 uint64_t bytes);

/* Keeps a block of at most half of VR_CENTRAL_BIN_BYTES. Returns a list of blocks of one queue
   that must go to the space instead: those of an older key, or the block itself if its bin is
   full. */
struct vr_block *vr_central_put(struct vr_central_cache *central, struct vr_queue_id queue,
                                struct vr_block *block, struct vr_queue_id *out_queue);

/* Removes the blocks of one key, of the queue `only` (0: of any queue): a list of one queue's
   blocks; NULL when none are left. */
struct vr_block *vr_central_empty(struct vr_central_cache *central, struct vr_queue_id only,
                                  struct vr_queue_id *queue);

/* Removes the `count` oldest blocks from bin `at`: a list. */
struct vr_block *vr_central_thin(struct vr_central_cache *central, uint32_t at, uint32_t count);

#endif
