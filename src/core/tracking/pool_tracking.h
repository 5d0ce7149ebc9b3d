/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_tracking.h: the only interface through which a pool reports its blocks to the tracker
 * (track/track.h), and through it to the listeners of events (track/event.h).
 *
 *  (1) A pool is tracked from its creation on or never: `track` is set or NULL. It sends events
 *      from its creation on or never: `traced`; a tracked pool does. The hit path of other pools
 *      has no code for either: caches of such watched pools are never a thread's recent cache, so
 *      only the slower paths check for them (pool.c).
 *  (2) A record is prepared before the request searches for a block (vr_tracking_prepare), outside
 *      the caches, where memory can be allocated. The block gets it while the caller holds the
 *      block and it is not live yet. A free removes it after the claim and before another thread
 *      can get the block. So a live block has one record, whichever threads free it.
 *  (3) Nothing here makes a call fail: records without memory are counted as lost.
 *  (4) The end of a pool ends its blocks for listeners, too. An allocation that returns beside it
 *      may be told after it, and is told as freed right away: nobody else would end the block.
 */
#ifndef VR_POOL_TRACKING_H
#define VR_POOL_TRACKING_H

#include "core/limit/tag.h"
#include "core/object/request.h"
#include "track/event.h"
#include "track/track.h"

/* Decides whether a new pool is tracked: by the limit `tracking`, or because of the level of the
   log, a report of leaks, or stacks for a listener. A listener alone has it traced. */
void vr_tracking_begin(struct vr_pool *pool);
/* Ends the tracking, once, and reports blocks that are still live as leaks, also those of a pool
   that is not tracked. No lock held. */
void vr_tracking_end(struct vr_pool *pool);

/* Whether a hit can be recorded inside the cache: no stack and no fill is needed. */
static inline bool vr_tracking_is_quick(const struct vr_pool *pool) {
    return !pool->stack_every && !pool->guard.by_stream;
}

/* Records a hit, with its tag or NULL, if its watched pool is tracked; *id: its id. The thread is
   inside its caches and holds the block. False: not possible here, use the request path. */
static inline bool vr_tracking_quick(struct vr_cache *cache, struct vr_block *block, uint64_t size,
                                     const struct vr_tag *tag, uint64_t *id) {
    if (!cache->pool->track) {
        return true;
    }
    struct vr_site_key key = {.tag = vr_tag_name(tag), .queue = cache->queue.handle};
    uint32_t record = vr_track_quick(cache->pool->track, &key, &cache->site[tag != NULL],
                                     vr_load(&block->addr, VR_RELAXED), size,
                                     vr_load(&block->bytes, VR_RELAXED), id);
    vr_store(&block->record, record, VR_RELAXED);
    return record != 0;
}

/* Prepares a record for the request; the pool has a track. Outside the caches. */
void vr_tracking_prepare(struct vr_pool *pool, struct vr_request *request);
/* Makes the request's record the block's; returns its id. Inside or outside the caches. */
uint64_t vr_tracking_alloc(struct vr_pool *pool, const struct vr_request *request,
                           struct vr_block *block);
/* Writes a hit to the trace, if that is the only listener and has all it needs: as
   vr_trace_quick_alloc. The thread is inside its caches and holds the block. */
bool vr_tracking_trace_hit(const struct vr_cache *cache, struct vr_block *block, uint64_t size,
                           const struct vr_tag *tag);
/* The same for a free of a claimed block. */
bool vr_tracking_trace_free(const struct vr_cache *cache, struct vr_block *block);
/* Notifies the listeners; there are some, and the pool is watched. Outside the caches, before the
   program has the address. */
void vr_tracking_notify(struct vr_pool *pool, const struct vr_request *request,
                        struct vr_block *block, uint64_t id);
/* The same for a hit recorded by vr_tracking_quick. The thread is inside its caches, and leaves
   first. A pool that is already ending notifies no listener. */
void vr_tracking_notify_hit(struct vr_cache *cache, struct vr_block *block, uint64_t size,
                            struct vr_tag *tag, uint64_t id);
/* The request failed. Outside the caches. */
void vr_tracking_refuse(struct vr_pool *pool, const struct vr_request *request, vram_status status);
/* Why the request of the calling thread that is about to fail does. No lock held. */
void vr_tracking_report(struct vr_pool *pool, const struct vr_request *request,
                        const struct vram_oom_report *report);

/* Removes the record of a claimed block, if the pool has a track. Inside or outside the caches. */
static inline void vr_tracking_remove(struct vr_pool *pool, struct vr_block *block,
                                      struct vr_track_brief *brief) {
    if (!pool->track) {
        return;
    }
    uint32_t record = vr_load(&block->record, VR_RELAXED);
    vr_store(&block->record, 0, VR_RELAXED);
    vr_track_remove(pool->track, record, vr_load(&block->requested, VR_RELAXED),
                    vr_load(&block->bytes, VR_RELAXED), brief);
}
/* The same. True: the caller notifies listeners of *event before another thread can get the
   block. */
bool vr_tracking_free(struct vr_pool *pool, struct vr_block *block, uint64_t queue,
                      struct vr_event *event);

/* A live block that the caller has claimed was resized in place from `before`. True: the caller
   notifies listeners of *event. The pool's lock may be held; `queue` is a handle. */
bool vr_tracking_resize(struct vr_pool *pool, struct vr_block *block, struct vr_track_size before,
                        uint64_t queue, struct vr_event *event);

/* The number of the record of the live block that starts at `addr`; *pool is entered;
   block_lookup.c. */
vram_status vr_pool_record_of(vram_addr addr, struct vr_pool **pool, uint32_t *record);

#endif
