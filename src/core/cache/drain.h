/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.h: how blocks leave a space, and return to it through thread caches and central cache.
 */
#ifndef VR_DRAIN_H
#define VR_DRAIN_H

#include "core/object/pool_object.h"

/* Charges and uncharges the budget for large blocks in all caches of the pool; cache.c. */
bool vr_pool_large_take(struct vr_pool *pool, uint64_t bytes);
void vr_pool_large_give(struct vr_pool *pool, uint64_t bytes);

/* Reports the live bytes of a cache to the pool: at every miss, overflow and drain. Inside enter,
   or revoked. The second is for blocks that bypass all caches; live_bytes.c. */
void vr_pool_report_cache(struct vr_cache *cache);
void vr_pool_report_locked(struct vr_cache *cache); /* the same under the pool's lock */
void vr_pool_report_bytes(struct vr_pool *pool, int64_t high, int64_t change);

/* The live bytes as reported. */
uint64_t vr_pool_requested(const struct vr_pool *pool);

/* Reports the pool's live bytes to device and context. */
void vr_pool_report_up(struct vr_pool *pool);

/* Makes a block of a space, or of other memory, CACHED for a cache or the program. Under the lock,
   after vr_block_table_reserve; live_block.c. */
void vr_pool_leave_space(struct vr_pool *pool, struct vr_block *block, struct vr_queue_id queue);

/* The first part of vr_pool_to_space: the block is FREE, and its span is for the caller to end. */
void vr_pool_leave_books(struct vr_pool *pool, struct vr_block *block, struct vr_queue_stamp stamp);

/* Returns an owned block (state CACHED) to its space, to be reused when the stamp has passed. Under
   the lock; drain.c. */
void vr_pool_to_space(struct vr_pool *pool, struct vr_block *block, struct vr_queue_stamp stamp);

/* The same, but a block that is asleep or sealed is deferred until it is neither. */
void vr_pool_put_back(struct vr_pool *pool, struct vr_block *block, struct vr_queue_stamp stamp);

/* Returns owned blocks of `bytes` each, freed on `queue` and used by no other one, to the central
   cache or the space. Under the lock. */
void vr_pool_put_cached(struct vr_pool *pool, struct vr_queue_id queue, uint64_t bytes,
                        struct vr_block *const *blocks, uint32_t count);

/* The same as vr_pool_to_space for a list of blocks that were freed on `queue`. */
void vr_pool_list_to_space(struct vr_pool *pool, struct vr_block *list, struct vr_queue_id queue);

/* Whether the frees on a queue, with `bytes` more, are a batch worth a mark. Under the lock. If so
   the caller then calls the second, with no lock held. */
bool vr_pool_batch_is_full(struct vr_pool *pool, struct vr_queue_id queue, uint64_t bytes);
void vr_pool_mark_batch(struct vr_pool *pool, struct vr_queue_id queue);

/* The uses of a claimed block, which do not change until it is returned: a vram_use that found the
   block live before it was claimed has ended. No lock held. */
struct vr_uses *vr_pool_uses(struct vr_pool *pool, const struct vr_block *block);

/* Returns owned blocks (state CACHED) that were freed on `queue` to the central cache or the space,
   and marks the other queues that use them; drain.c. Never fails. */
void vr_pool_return(struct vr_pool *pool, struct vr_queue_id queue, struct vr_block **blocks,
                    uint32_t count);

/* The same for one block, by a thread that has pinned the queue (NULL: none), which may be new to
   the pool. */
void vr_pool_return_new(struct vr_pool *pool, struct vr_queue_object *queue,
                        struct vr_block *block);

/* The same in a deterministic pool, after the queue was made to wait for all other users of the
   block; without a queue, the first of the users waits; order.c. */
void vr_pool_return_ordered(struct vr_pool *pool, struct vr_queue_object *queue,
                            struct vr_block *block);

/* Makes the queue wait on the device for all other queues that may use a claimed block; if it
   cannot, the host waits. False: some may still use it. No lock held; order.c. */
bool vr_pool_join_block(struct vr_queue_object *queue, struct vr_block *block);

/* Waits until any queue may use all that was freed in a deterministic pool; VRAM_ERR_TIMEOUT. No
   lock held; order.c. */
vram_status vr_pool_finish(struct vr_pool *pool);

/* Tries again to create the queue states for which memory had run out. No lock held. */
void vr_pool_make_queue_states(struct vr_pool *pool);

/* The next queue by handle on which blocks were freed and that has no queue state; 0 after the
   last. No lock held. */
struct vr_queue_id vr_pool_stateless_behind(struct vr_pool *pool, struct vr_queue_id last);

/* A queue has ended: removes its queue state, and no block waits for it any more. No lock held. */
void vr_pool_forget_queue(struct vr_pool *pool, struct vr_queue_id queue);

/* Returns all blocks in all caches and the central cache to the space; returns their bytes. */
uint64_t vr_pool_drain(struct vr_pool *pool);

/* Returns all blocks of the central cache, or those of one queue (0: all), to the space, and
   settles. Under the lock. */
void vr_pool_empty_central(struct vr_pool *pool, struct vr_queue_id only);

/* Drops all caches of the pool, or those of one queue (0: all). */
void vr_pool_drop_caches(struct vr_pool *pool, struct vr_queue_id queue);

/* Drops all caches of a thread that ends. */
void vr_pool_thread_ended(struct vr_thread_state *thread);

/* Returns the blocks in `deferred` that no longer wait to the space. Under the lock. */
void vr_pool_settle(struct vr_pool *pool);

/* Work that a block in `deferred` waits for; false: none. Under the lock. */
bool vr_pool_deferred(struct vr_pool *pool, struct vr_queue_stamp *stamp);

/* The thread's cache for this pool and queue, created if necessary, with the thread inside it. NULL
   if there can be none: the caller then counts in the pool. No lock held; cache_entry.c. */
struct vr_cache *vr_pool_cache_enter(struct vr_pool *pool, struct vr_queue_object *queue);

#endif
