/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.h: how what is counted in many places becomes one vram_pool_stats.
 */
#ifndef VR_STATS_H
#define VR_STATS_H

#include "core/pool_object.h"

/* All that a pool counts; takes the pool's lock, and visits every thread. */
void vr_stats_of_pool(struct vr_pool *pool, struct vram_pool_stats *stats);

/* What follows from the counters: rates, differences, other names. The last thing to be done. */
void vr_stats_derive(struct vram_pool_stats *stats);

#endif
