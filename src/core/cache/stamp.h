/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamp.h: stamps of queues: how a pool names the work that its memory waits for, and learns that
 * it is done.
 */
#ifndef VR_STAMP_H
#define VR_STAMP_H

#include "core/object/pool_object.h"

/* Sees to it that stamps of the queue can be asked for. The caller has it pinned; NULL: no queue.
   VRAM_ERR_STALE: it has come to its end. Under the lock; stamp.c. */
vram_status vr_pool_ensure_queue(struct vr_pool *pool, struct vr_queue_object *queue);

/* The number by which the spaces know a queue, and the same for a stamp; 0: no queue, or it has
   ended. And the reverse. Under the lock; stamp.c. */
uint64_t vr_pool_queue_in_space(struct vr_pool *pool, struct vr_queue_id queue);
struct vr_stamp vr_pool_stamp_to_space(struct vr_pool *pool, struct vr_queue_stamp stamp);
struct vr_queue_stamp vr_pool_stamp_from_space(struct vr_pool *pool, struct vr_stamp stamp);

/* All work of the queue state's queue is done; for deterministic pools. Under the lock; stamp.c. */
void vr_pool_forget_queue_state(struct vr_pool *pool, const struct vr_queue_state *queue_state);

/* Marks the stamp's queue so that its stamps can pass: the library's own, or any with `ours`. Other
   queues are not marked but asked whether they are idle. No lock held. */
void vr_pool_mark(struct vr_pool *pool, struct vr_queue_stamp stamp, bool ours);

/* Waits until a stamp has passed: VRAM_OK, VRAM_ERR_TIMEOUT, VRAM_ERR_NOT_READY when nobody has
   marked it, or why that cannot be known; 0: looks once. No lock held. */
vram_status vr_pool_await(struct vr_queue_stamp stamp, uint64_t timeout);

/* Lets stamps pass that can: marks what nobody can see the end of yet, asks each pending queue once
   how far it is, and waits for none. `idle`: queues that have nothing to do are found out before
   they are marked, which would keep them busy for a moment. False when nothing is pending, or no
   queue could tell. No lock held. */
bool vr_pool_poll(struct vr_pool *pool, bool idle);

#endif
