/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_lookup.h: from an address to its pool and its live block.
 */
#ifndef VR_BLOCK_LOOKUP_H
#define VR_BLOCK_LOOKUP_H

#include "core/object/pool_object.h"

/* Marks a live block of the pool as owned by an object, or removes the mark: keeps block.h (7).
   False: there is no such block, or nothing to change; block_lookup.c. */
bool vr_pool_own(uint64_t pool, vram_addr addr, bool owned);

/* Enters the pool that has memory at `addr`. A pool that ended in the meantime has none;
   block_lookup.c. */
vram_status vr_pool_enter_at(vram_addr addr, struct vr_pool **pool);

/* The same with a queue, which may be NULL. */
vram_status vr_pool_enter_block(vram_addr addr, vram_queue *queue_handle, struct vr_pool **pool,
                                struct vr_queue_object **queue);

/* Records why no live block of the program starts at `addr`: VRAM_ERR_INVALID. No lock held. */
vram_status vr_pool_no_block(struct vr_pool *pool, vram_addr addr);

/* The live block that starts at `addr`; NULL with the error set. Under the lock. */
struct vr_block *vr_pool_live_block(struct vr_pool *pool, vram_addr addr);

/* What vram_block_info_get does. */
vram_status vr_block_info_get(vram_addr addr, vram_block_info *info);

/* How the device tier learns where a block ends, for drivers that have one object per block;
   block_lookup.c. */
vr_extent_fn vr_pool_extent;

#endif
