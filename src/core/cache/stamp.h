/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamp.h: stamps of queues: how a pool identifies the work that its memory waits for, and learns
 * that it is complete.
 */
#ifndef VR_STAMP_H
#define VR_STAMP_H

#include "core/object/pool_object.h"

/* Makes sure that the queue has a queue state, so that it can be stamped. The caller has pinned the
   queue; NULL: no queue. VRAM_ERR_STALE: it has ended. Under the lock; stamp.c. */
vram_status vr_pool_ensure_queue(struct vr_pool *pool, struct vr_queue_object *queue);

/* Convert a queue to the number by which the spaces know it (0: no queue, or it has ended), a stamp
   likewise, and a stamp back. Under the lock; stamp.c. */
uint64_t vr_pool_queue_in_space(struct vr_pool *pool, struct vr_queue_id queue);
struct vr_stamp vr_pool_stamp_to_space(struct vr_pool *pool, struct vr_queue_stamp stamp);
struct vr_queue_stamp vr_pool_stamp_from_space(struct vr_pool *pool, struct vr_stamp stamp);

/* All work of the queue is complete: notifies the spaces of a deterministic pool. Under the lock;
   stamp.c. */
void vr_pool_forget_queue_state(struct vr_pool *pool, const struct vr_queue_state *queue_state);

/* Marks the stamp's queue so that its stamps can pass: queues of the library, or with `ours` any.
   An adopted queue is otherwise only polled for being idle. The number of the mark; 0: there is
   none. No lock held. */
uint64_t vr_pool_mark(struct vr_pool *pool, struct vr_queue_stamp stamp, bool ours);

/* Waits until a stamp has passed; timeout 0 polls once. VRAM_OK, VRAM_ERR_TIMEOUT,
   VRAM_ERR_NOT_READY if it is not marked, or an error that prevents the wait. No lock held. */
vram_status vr_pool_await(struct vr_queue_stamp stamp, uint64_t timeout);

/* Whether it is the queue of a captured region that has not ended: its stamps do not pass before
   that, so nobody waits for them. No lock held. */
bool vr_pool_is_region(struct vr_queue_id id);

/* Updates which stamps have passed, without waiting: marks queues whose newest stamps are not
   marked, then polls each pending queue once. `idle`: first finds queues that are idle, because a
   mark would keep them busy for a moment. False if nothing is pending or no queue could be polled.
   No lock held. */
bool vr_pool_poll(struct vr_pool *pool, bool idle);

#endif
