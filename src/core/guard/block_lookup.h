/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_lookup.h: from an address to its pool and its live block.
 */
#ifndef VR_BLOCK_LOOKUP_H
#define VR_BLOCK_LOOKUP_H

#include "core/object/pool_object.h"

/* Makes a live block of the pool an object's, or takes that away: keeps block.h (7). False: it is
   none, or is so already; block_lookup.c. */
bool vr_pool_own(uint64_t pool, vram_addr addr, bool owned);

/* Enters the pool whose memory `addr` is. One that ended meanwhile has none there any more;
   block_lookup.c. */
vram_status vr_pool_enter_at(vram_addr addr, struct vr_pool **pool);

/* The same with a queue, which may be NULL. */
vram_status vr_pool_enter_block(vram_addr addr, vram_queue *queue_handle, struct vr_pool **pool,
                                struct vr_queue_object **queue);

/* The live block that starts at `addr`; NULL with the error set. Under the lock. */
struct vr_block *vr_pool_live_block(struct vr_pool *pool, vram_addr addr);

/* What vram_block_info_get tells. */
vram_status vr_block_info_get(vram_addr addr, vram_block_info *info);

/* How the device tier learns where blocks end, for drivers that have an object for each;
   block_lookup.c. */
vr_extent_fn vr_pool_extent;

#endif
