/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hit.h: how a cached block is handed out, for the code paths of a hit (pool.c, tagged.c).
 */
#ifndef VR_HIT_H
#define VR_HIT_H

#include "core/cache/cache.h"

#include <assert.h>

/* Makes a cached block, which the caller holds, live. */
static inline void vr_become_live(struct vr_block *block, uint64_t size, struct vr_tag *tag) {
    uint32_t cached = vr_load(&block->state, VR_RELAXED);
    assert((cached & VR_BLOCK_STATES) == VR_BLOCK_CACHED); /* block.h (1) */
    assert(size <= vr_load(&block->bytes, VR_RELAXED));
    vr_store(&block->requested, size, VR_RELAXED);
    vr_store(&block->tag, tag, VR_RELAXED);
    block->home.handle |= tag ? VR_HOME_TAGGED : 0; /* keeps block.h (6) */
    vr_store(&block->state, cached ^ (VR_BLOCK_CACHED ^ VR_BLOCK_LIVE), VR_RELEASE);
}

/* The same through a cache, which counts the bytes. The thread is inside its caches. */
static inline vram_addr vr_hand_out(struct vr_cache *cache, struct vr_block *block, uint64_t size,
                                    uint64_t bytes, struct vr_tag *tag) {
    vram_addr addr = vr_load(&block->addr, VR_RELAXED);
    vr_become_live(block, size, tag);
    cache->recent[vr_recent_index(addr)] = block;
    vr_count(&cache->counts.requested, size);
    vr_count(&cache->counts.held, bytes);
    int64_t live = vr_cache_live(cache);
    if (__builtin_expect(live > cache->high_bytes, 0)) {
        cache->high_bytes = live;
    }
    return addr;
}

/* Takes a block from the cache of any pool, with a tag or NULL. False: the cache has none, and
   nothing has changed. The thread is inside its caches; after a hit it is outside; pool.c. */
bool vr_hit_from(struct vr_cache *cache, uint64_t size, uint64_t bytes, struct vr_tag *tag,
                 vram_addr *addr);

#endif
