/* SPDX-License-Identifier: Apache-2.0 */
/*
 * central_cache.h: cached blocks on their way between threads.
 *
 * What overflows one thread's cache waits here for another's, sorted by queue and exact size,
 * before it is given back to the space to be merged: a thread that only frees and one that only
 * allocates meet here, a batch at a time. A fixed table; when two keys meet in one bin the older
 * one is given up. All calls under the pool's lock.
 */
#ifndef VR_CENTRAL_H
#define VR_CENTRAL_H

#include "core/space/block.h"

enum { VR_CENTRAL_BINS = 512 };
#define VR_CENTRAL_BIN_BYTES (UINT64_C(2) << 20) /* a bin holds at most so many bytes */

struct vr_central_bin {
    struct vr_queue_id queue; /* the key, */
    uint64_t bytes;           /* with this; 0: none */
    struct vr_block *first;
    uint32_t count;
    bool used;     /* blocks were taken since the last tick of the decay, before those in `hits` */
    uint64_t hits; /* blocks taken since the last look; decay.h */
};

struct vr_central_cache {
    struct vr_central_bin bins[VR_CENTRAL_BINS];
    uint64_t held_bytes;
};

/* A block of that key, or NULL. */
struct vr_block *vr_central_take(struct vr_central_cache *central, struct vr_queue_id queue,
                                 uint64_t bytes);

/* Keeps a block of at most half of VR_CENTRAL_BIN_BYTES. Returns what must leave for it, a list of
   blocks of one queue for the space: an older key's, or the block itself when its bin is full. */
struct vr_block *vr_central_put(struct vr_central_cache *central, struct vr_queue_id queue,
                                struct vr_block *block, struct vr_queue_id *out_queue);

/* Takes everything out, or everything of one queue (0: all), key by key: a list of one queue's
   blocks, NULL when nothing is left. */
struct vr_block *vr_central_empty(struct vr_central_cache *central, struct vr_queue_id only,
                                  struct vr_queue_id *queue);

/* Takes `count` blocks out of bin `at`, those that lay longest: a list. */
struct vr_block *vr_central_thin(struct vr_central_cache *central, uint32_t at, uint32_t count);

#endif
