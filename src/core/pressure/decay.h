/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decay.h: which sizes of cached blocks are used, and letting go of the others.
 *
 * A hit is counted in its bin (cache.h), a block taken from the central cache in the central
 * cache's. Whoever looks at the bins adds that up by size in the pool's table of types. Small sizes
 * have a place each; larger ones share the rest by a hash, so that a rarely used size may hide
 * behind a hot one, never the other way round.
 */
#ifndef VR_DECAY_H
#define VR_DECAY_H

#include "core/cache/cache.h"

enum { VR_TYPES = 256 };

/* Uses of each type; older ones count half at each look that ages them. Under the pool's lock. */
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

/* The place of a size. */
static inline uint32_t vr_type_of(uint64_t bytes) {
    if (bytes <= VR_SMALL_BYTES) {
        return (uint32_t)(bytes / VR_UNIT);
    }
    uint64_t mixed = (bytes / VR_UNIT * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
    return VR_SMALL_UNITS + 1 + (uint32_t)(mixed % (VR_TYPES - VR_SMALL_UNITS - 1));
}

struct vr_pool;

/* Looks at all caches of the pool. `age`: what was used before counts half from now on. No lock
   held. */
void vr_decay_survey(struct vr_pool *pool, bool age, struct vr_survey *survey);

/* Half of the blocks of every bin go back to the space; of bins with one block, every second.
   Returns their bytes. No lock held. */
uint64_t vr_decay_halve(struct vr_pool *pool);
/* All of the types that the survey calls rare do. */
uint64_t vr_decay_drop(struct vr_pool *pool, const struct vr_survey *survey);
/* Half of those of every bin that was not used since the last tick do. */
uint64_t vr_decay_tick(struct vr_pool *pool);

#endif
