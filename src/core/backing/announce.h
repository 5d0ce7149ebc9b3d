/* SPDX-License-Identifier: Apache-2.0 */
/*
 * announce.h: tells a tool such as compute-sanitizer which memory of a pool is in blocks
 * (track/nvtx.h).
 *
 *  (1) A pool announces its blocks from its creation on or never. It does if a tool asks for it,
 *      the option nvtx is on, and the pool takes device memory of CUDA: not that of a provider, not
 *      shared memory, and not with safety modes, which write outside the blocks.
 *  (2) Such a pool runs on segments: tools know what the driver allocated, not what is mapped.
 *  (3) A block is announced before the program has its address, with the bytes that were requested,
 *      and withdrawn when it is freed. Work submitted before the free may still use it, and a tool
 *      would report that, so the free waits for that work: for ANNOUNCE_WAIT_NS at most, because a
 *      kernel may wait for the program.
 *  (4) The driver's context is current while the tool is called: compute-sanitizer knows memory by
 *      it, and refuses otherwise.
 */
#ifndef VR_ANNOUNCE_H
#define VR_ANNOUNCE_H

#include "core/object/pool_object.h"
#include "device/address.h"

/* A segment of the pool, which the tool's heap is noted in, and its end before the driver gets it
   back. Nothing happens for pools that announce nothing. No lock held. */
void vr_announce_segment(const struct vr_pool *pool, struct vr_record *record, uint64_t addr,
                         uint64_t bytes);
void vr_announce_segment_end(const struct vr_pool *pool, struct vr_record *record);

/* Whether a new pool announces its blocks; keeps (1). No lock held. */
bool vr_announce_begin(const struct vr_pool *pool, const struct vram_pool_options *options);

#endif
