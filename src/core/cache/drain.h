/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.h: how blocks leave a space and find the way back through caches and central cache.
 */
#ifndef VR_DRAIN_H
#define VR_DRAIN_H

#include "core/object/pool_object.h"

/* Bytes of large blocks that all caches of the pool may hold together: a budget; cache.c. */
bool vr_pool_large_take(struct vr_pool *pool, uint64_t bytes);
void vr_pool_large_give(struct vr_pool *pool, uint64_t bytes);

/* A cache tells the pool what has become of the bytes handed out through it: at every miss,
   overflow and drain. Inside enter, or revoked. The second is for blocks that go past all caches;
   live_bytes.c. */
void vr_pool_report_cache(struct vr_cache *cache);
void vr_pool_report_bytes(struct vr_pool *pool, int64_t high, int64_t change);

/* Passes on to device and context what the pool knows. */
void vr_pool_report_up(struct vr_pool *pool);

/* A block leaves the space, or the memory that is no space's, for a cache or a program. Under the
   lock, with room in the table; miss.c. */
void vr_pool_leave_space(struct vr_pool *pool, struct vr_block *block, struct vr_queue_id queue);

/* Gives an owned block (state CACHED) to its space, to be used when the stamp has passed. Under the
   lock; drain.c. */
void vr_pool_to_space(struct vr_pool *pool, struct vr_block *block, struct vr_queue_stamp stamp);

/* The same for one that may have fallen asleep meanwhile, and then waits until it is awake. */
void vr_pool_put_back(struct vr_pool *pool, struct vr_block *block, struct vr_queue_stamp stamp);

/* The same for a list of blocks that were freed on `queue`. */
void vr_pool_list_to_space(struct vr_pool *pool, struct vr_block *list, struct vr_queue_id queue);

/* Whether the frees on a queue, with `bytes` more, have become a batch that is worth a mark, which
   the caller then makes. Under the lock; and with no lock held. */
bool vr_pool_batch_is_full(struct vr_pool *pool, struct vr_queue_id queue, uint64_t bytes);
void vr_pool_mark_batch(struct vr_pool *pool, struct vr_queue_id queue);

/* Gives owned blocks (state CACHED) that were freed on `queue` back, to the central cache or the
   space; drain.c. Never fails. */
void vr_pool_return(struct vr_pool *pool, struct vr_queue_id queue, struct vr_block **blocks,
                    uint32_t count);

/* The same for one block, by a thread that has pinned the queue (NULL: none), which may be new. */
void vr_pool_return_new(struct vr_pool *pool, struct vr_queue_object *queue,
                        struct vr_block *block);

/* The same, after the queue has been told to wait for all other users of the block, in a
   deterministic pool; with no queue, the first of the users; order.c. */
void vr_pool_return_ordered(struct vr_pool *pool, struct vr_queue_object *queue,
                            struct vr_block *block);

/* Waits until all that was freed in a deterministic pool is everybody's; VRAM_ERR_TIMEOUT. No lock
   held; order.c. */
vram_status vr_pool_finish(struct vr_pool *pool);

/* Makes up for queue states that could not be made. No lock held. */
void vr_pool_make_queue_states(struct vr_pool *pool);

/* The next queue by handle that blocks wait for without a queue state; 0 behind the last. No lock
   held. */
struct vr_queue_id vr_pool_stateless_behind(struct vr_pool *pool, struct vr_queue_id last);

/* A queue has ended: forgets its queue state and what is owed to it. No lock held. */
void vr_pool_forget_queue(struct vr_pool *pool, struct vr_queue_id queue);

/* Takes all blocks out of all caches and the central cache into the space; bytes that came back. */
uint64_t vr_pool_drain(struct vr_pool *pool);

/* Takes all blocks out of the central cache, or those of one queue (0: all), into the space, and
   settles. Under the lock. */
void vr_pool_empty_central(struct vr_pool *pool, struct vr_queue_id only);

/* Drops all caches of the pool, or those of one queue (0: all). */
void vr_pool_drop_caches(struct vr_pool *pool, struct vr_queue_id queue);

/* What a thread that ends does with its caches. */
void vr_pool_thread_ended(struct vr_thread_state *thread);

/* Frees what of `deferred` has become free. Under the lock. */
void vr_pool_settle(struct vr_pool *pool);

/* Work that one of `deferred` waits for; false when none does. Under the lock. */
bool vr_pool_deferred(struct vr_pool *pool, struct vr_queue_stamp *stamp);

/* The thread's cache for this pool and queue, made if need be, with the thread inside it; NULL
   where there can be none: the pool then counts for itself. No lock held; cache_entry.c. */
struct vr_cache *vr_pool_cache_enter(struct vr_pool *pool, struct vr_queue_object *queue);

#endif
