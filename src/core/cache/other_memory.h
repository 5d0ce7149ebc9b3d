/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_memory.h: blocks of a pool that are not of its own memory: managed, page-locked or the
 * host's.
 */
#ifndef VR_OTHER_MEMORY_H
#define VR_OTHER_MEMORY_H

#include "core/object/request.h"

/* Of memory that is not the device's: a block of it is back, under the lock; gives back to the
   driver what no work uses any more, no lock held; gives everything back when the pool ends;
   other_memory.c. */
void vr_fallback_freed(struct vr_pool *pool, struct vr_block *block);

/* A block of the first of these kinds (vram_fallback) that the device has and that can be had. Any
   exhaustion leads to the next kind, another error ends it. False: the device has none of them. No
   lock held. */
bool vr_fallback_first_of(struct vr_pool *pool, const struct vr_request *request, uint32_t allowed,
                          struct vr_block **block, vram_status *status);

/* A block of other memory for a request that asks for it. No lock held. */
vram_status vr_fallback_supply(struct vr_pool *pool, const struct vr_request *request,
                               struct vr_block **block);
void vr_fallback_reap(struct vr_pool *pool);
void vr_fallback_end(struct vr_pool *pool);

#endif
