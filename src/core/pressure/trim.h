/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trim.h: free memory of a pool goes back to the driver.
 */
#ifndef VR_TRIM_H
#define VR_TRIM_H

#include "core/object/pool_object.h"

/* Gives free memory back until at most keep_bytes are held; trim.c. No lock held. */
vram_status vr_pool_trim_to(struct vr_pool *pool, uint64_t keep_bytes);

/* The same of what lies in no cache. */
vram_status vr_pool_shrink_to(struct vr_pool *pool, uint64_t keep_bytes);

/* Around giving back what nobody needs at once. False: the driver would wait for kernels to take
   the pool's memory back, and there may be some; it stays for now. Addresses of deterministic pools
   do not depend on that: their driver waits; trim.c. */
bool vr_pool_quiesce_begin(struct vr_pool *pool);
void vr_pool_quiesce_end(struct vr_pool *pool);

#endif
