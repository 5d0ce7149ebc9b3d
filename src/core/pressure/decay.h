/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decay.h: which sizes of cached blocks are used, and releasing the others.
 *
 * Bins count their hits (cache.h), and so does the central cache. A survey of the bins adds the
 * counts up by size, in the pool's table of types. Small sizes have an entry each; larger ones
 * share the rest by a hash. So a rarely used size may look hot because it shares an entry, never
 * the reverse.
 */
#ifndef VR_DECAY_H
#define VR_DECAY_H

#include "core/cache/cache.h"

enum { VR_TYPES = 256 };

/* Uses of each type; every survey with `age` halves them. Under the pool's lock. */
struct vr_types {
    uint64_t score[VR_TYPES];
};

/* What is cached, by type. */
struct vr_survey {
    uint64_t bytes[VR_TYPES];
    uint32_t blocks[VR_TYPES];
    bool rare[VR_TYPES]; /* cached, and rarely used */
    uint64_t all_bytes, rare_bytes;
    uint32_t types, rare_types;
};

/* The index of a size. */
static inline uint32_t vr_type_of(uint64_t bytes) {
    if (bytes <= VR_SMALL_BYTES) {
        return (uint32_t)(bytes / VR_UNIT);
    }
    uint64_t mixed = (bytes / VR_UNIT * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
    return VR_SMALL_UNITS + 1 + (uint32_t)(mixed % (VR_TYPES - VR_SMALL_UNITS - 1));
}

struct vr_pool;

/* Reads all caches of the pool. `age`: halves the uses counted so far. No lock held. */
void vr_decay_survey(struct vr_pool *pool, bool age, struct vr_survey *survey);

/* Returns half of the blocks of every bin to the space, and the block of every second bin that has
   one. Returns their bytes. No lock held. */
uint64_t vr_decay_halve(struct vr_pool *pool);
/* The same with all blocks of the types that the survey calls rare. */
uint64_t vr_decay_drop(struct vr_pool *pool, const struct vr_survey *survey);
/* The same with half of the blocks of every bin that was not used since the last tick. */
uint64_t vr_decay_tick(struct vr_pool *pool);

#endif
