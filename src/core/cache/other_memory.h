/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_memory.h: blocks of a pool in other memory than its own: managed, page-locked or host
 * memory.
 */
#ifndef VR_OTHER_MEMORY_H
#define VR_OTHER_MEMORY_H

#include "core/object/request.h"

/* Counts a freed block of other memory. Under the lock. */
void vr_fallback_freed(struct vr_pool *pool, struct vr_block *block);

/* Allocates a block of the first of these kinds (vram_fallback) that the device has and that is not
   exhausted; any other error ends the search. False: the device has none of them. No lock held. */
bool vr_fallback_first_of(struct vr_pool *pool, const struct vr_request *request, uint32_t allowed,
                          struct vr_block **block, vram_status *status);

/* Allocates a block for a request of other memory (vr_request_is_other). No lock held. */
vram_status vr_fallback_supply(struct vr_pool *pool, const struct vr_request *request,
                               struct vr_block **block);
/* Releases the memory of freed blocks that no work uses any more. No lock held. */
void vr_fallback_reap(struct vr_pool *pool);
/* Releases the memory of all blocks when the pool is destroyed. No lock held. */
void vr_fallback_end(struct vr_pool *pool);

#endif
