/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backing.h: what a pool has of the driver: ranges of addresses (addresses.c), and memory in them
 * (executor.c).
 */
#ifndef VR_BACKING_H
#define VR_BACKING_H

#include "core/object/pool_object.h"

/* Carries a plan of that space out, without the lock, and commits or undoes it. On VRAM_OK *block
   is the plan's block, or NULL for a plan without one. *grown is what the driver gave before the
   plan was done or refused; executor.c. */
vram_status vr_pool_execute(struct vr_pool *pool, struct vr_space *space, struct vr_plan *plan,
                            struct vr_block **block, uint64_t *grown);

/* Makes the driver call of one step, counted and charged. No lock held; executor.c. */
vram_status vr_pool_step(struct vr_pool *pool, struct vr_step *step);

/* Updates the peaks of the pool and its device with what is held now, after a plan's steps and the
   undoing of failed ones. Under the lock; executor.c. */
void vr_pool_note_peak(struct vr_pool *pool);

/* Unmaps what no work can reach any more, as far as the driver lets it; executor.c. No lock
   held. */
void vr_pool_sweep(struct vr_pool *pool, struct vr_space *space);

/* Gives free memory of a space back to the driver until it holds at most keep_bytes; executor.c. No
   lock held. */
vram_status vr_pool_shrink(struct vr_pool *pool, struct vr_space *space, uint64_t keep_bytes);

/* Gives every piece back to the driver, when the pool ends; executor.c. */
void vr_pool_release_all(struct vr_pool *pool);

/* Reserves the first range of a pool that maps memory, with `wanted` bytes for each space; 0: the
   defaults of addresses.c. Its first *small_bytes are for small blocks. */
vram_status vr_addresses_begin(struct vr_pool *pool, uint64_t wanted, uint64_t *small_bytes);

/* Gives the space of that part a further range in which a block of `bytes` fits.
   VRAM_ERR_FRAGMENTED, with no error recorded: there are no such addresses. No lock held. */
vram_status vr_addresses_add(struct vr_pool *pool, enum vr_pool_part part, uint64_t bytes);

/* Whether parts of the ranges may be asleep: vr_record.sleeps. Under the lock. */
void vr_addresses_note_sleep(struct vr_pool *pool, bool sleeps);

/* Returns all ranges in which nothing is mapped to the driver. */
void vr_addresses_end(struct vr_pool *pool);

#endif
