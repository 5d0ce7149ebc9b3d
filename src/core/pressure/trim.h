/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trim.h: releases free memory of a pool to the driver.
 */
#ifndef VR_TRIM_H
#define VR_TRIM_H

#include "core/object/pool_object.h"

/* What the pool holds beside live blocks and the bins of threads: holes, spares, the central cache.
   Under the lock; trim.c. */
uint64_t vr_pool_idle_bytes(const struct vr_pool *pool);

/* Releases free memory until at most keep_bytes are held; trim.c. No lock held. */
vram_status vr_pool_trim_to(struct vr_pool *pool, uint64_t keep_bytes);

/* The same for free memory outside the caches. */
vram_status vr_pool_shrink_to(struct vr_pool *pool, uint64_t keep_bytes);

/* Around a release that is not urgent. False: the driver would wait for running kernels before it
   frees the memory, which stays for now. A deterministic pool releases anyway, since its addresses
   must not depend on that; trim.c. */
bool vr_pool_quiesce_begin(struct vr_pool *pool);
void vr_pool_quiesce_end(struct vr_pool *pool);

#endif
