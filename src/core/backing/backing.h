/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backing.h: the driver resources of a pool: ranges of addresses (addresses.c), and memory in them
 * (executor.c).
 */
#ifndef VR_BACKING_H
#define VR_BACKING_H

#include "core/object/pool_object.h"

/* Executes a plan of that space, without the lock, and commits or undoes it. On VRAM_OK *block is
   the plan's block, or NULL for a plan without one. *grown: bytes created, even if the plan failed
   later; executor.c. */
vram_status vr_pool_execute(struct vr_pool *pool, struct vr_space *space, struct vr_plan *plan,
                            struct vr_block **block, uint64_t *grown);

/* Makes the driver call of one step, counts it and charges it to the limits. No lock held;
   executor.c. */
vram_status vr_pool_step(struct vr_pool *pool, struct vr_step *step);
/* Makes mapped memory read-only, or writable again. */
vram_status vr_pool_protect(struct vr_pool *pool, uint64_t addr, uint64_t bytes, bool read_only);

/* Updates the peaks of the pool and its device with what is held now. Called after the steps of a
   plan, and after the undo of a failed one. Under the lock; executor.c. */
void vr_pool_note_peak(struct vr_pool *pool);

/* Unmaps stale mappings that no work can use any more, and releases surplus and coarse memory
   (vr_space_sweep, _tidy). Failures are ignored; executor.c. No lock held. */
void vr_pool_sweep(struct vr_pool *pool, struct vr_space *space);

/* Releases free memory of a space until it holds at most keep_bytes; executor.c. No lock held. */
vram_status vr_pool_shrink(struct vr_pool *pool, struct vr_space *space, uint64_t keep_bytes);

/* Releases every piece when the pool is destroyed; executor.c. */
void vr_pool_release_all(struct vr_pool *pool);

/* Reserves the first range of a pool that maps memory, with `wanted` bytes for each space; 0: the
   defaults of addresses.c. Its first *small_bytes are for small blocks. */
vram_status vr_addresses_begin(struct vr_pool *pool, uint64_t wanted, uint64_t *small_bytes);

/* Adds a further range, in which a block of `bytes` fits, to the space of that part.
   VRAM_ERR_FRAGMENTED, with no error recorded: there are no such addresses. No lock held. */
vram_status vr_addresses_add(struct vr_pool *pool, enum vr_pool_part part, uint64_t bytes);

/* Sets whether parts of the ranges may be asleep, or sealed: vr_record. Under the lock. */
void vr_addresses_note_sleep(struct vr_pool *pool, bool sleeps, bool seals);

/* Returns all ranges in which nothing is mapped to the driver. */
void vr_addresses_end(struct vr_pool *pool);

#endif
