/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_tracking.h: the one door through which a pool tells of its blocks: to the tracker
 * (track/track.h), and through it to whoever listens to events (track/event.h).
 *
 *  (1) A pool tells from its creation on or never: `track` is there or NULL. The hit path of a pool
 *      that does not tell is what it would be without all this: caches of pools that do are never a
 *      thread's recent cache, so only the ways behind the hit path ever look (pool.c).
 *  (2) A record is prepared before the request looks for a block (vr_tracking_prepare), outside caches,
 *      where memory can be asked for. Its block gets it while it is the caller's and not live yet;
 *      a free takes it away between the claim and the moment others can have the block. So a block
 *      that is live has one record, whatever threads free it, and however often.
 *  (3) Nothing here fails a call: what gets no memory is counted as lost.
 */
#ifndef VR_POOL_TRACKING_H
#define VR_POOL_TRACKING_H

#include "core/limit/tag.h"
#include "core/object/request.h"
#include "track/event.h"
#include "track/track.h"

/* A new pool: decides whether it tells, by its limits' `tracking` and by whether somebody
   listens. */
void vr_tracking_begin(struct vr_pool *pool);
/* Its end, once: what is live then is lost to the program. No lock held. */
void vr_tracking_end(struct vr_pool *pool);

/* Whether a hit can be noted inside the cache: no stack is wanted. */
static inline bool vr_tracking_is_quick(const struct vr_pool *pool) {
    return !pool->stack_every;
}

/* Notes a hit, of a tag unless that is NULL, and has its id. Inside enter, the block is the
   caller's. False: it could not be, try the slow way. */
static inline bool vr_tracking_quick(struct vr_cache *cache, struct vr_block *block, uint64_t size,
                                     const struct vr_tag *tag, uint64_t *id) {
    struct vr_site_key key = {.tag = vr_tag_name(tag), .queue = cache->queue.handle};
    uint32_t record = vr_track_quick(cache->pool->track, &key, &cache->site[tag != NULL],
                                     vr_load(&block->addr, VR_RELAXED), size,
                                     vr_load(&block->bytes, VR_RELAXED), id);
    vr_store(&block->record, record, VR_RELAXED);
    return record != 0;
}

/* Prepares a record for the request; the pool has a track. Outside. */
void vr_tracking_prepare(struct vr_pool *pool, struct vr_request *request);
/* The block is the request's: its record becomes the block's; its id. Inside or outside. */
uint64_t vr_tracking_alloc(struct vr_pool *pool, const struct vr_request *request,
                           struct vr_block *block);
/* Tells listeners of it; there are some, and the pool has a track. Outside, before the program has
   the address. */
void vr_tracking_notify(struct vr_pool *pool, const struct vr_request *request,
                        struct vr_block *block, uint64_t id);
/* The same of a hit that was noted quickly, for a thread inside, which leaves first. A pool that is
   at its end already tells nobody. */
void vr_tracking_notify_hit(struct vr_cache *cache, struct vr_block *block, uint64_t size,
                            struct vr_tag *tag, uint64_t id);
/* There was no block for the request. Outside. */
void vr_tracking_refuse(struct vr_pool *pool, const struct vr_request *request, vram_status status);

/* A claimed block loses its record; the pool has a track. Inside or outside. */
static inline void vr_tracking_remove(struct vr_pool *pool, struct vr_block *block,
                                      struct vr_track_brief *brief) {
    uint32_t record = vr_load(&block->record, VR_RELAXED);
    vr_store(&block->record, 0, VR_RELAXED);
    vr_track_remove(pool->track, record, vr_load(&block->requested, VR_RELAXED),
                    vr_load(&block->bytes, VR_RELAXED), brief);
}
/* The same. True: listeners are to be told of *event before anybody can have the block again. */
bool vr_tracking_free(struct vr_pool *pool, struct vr_block *block, uint64_t queue,
                      struct vr_event *event);

/* A live block that the caller has seized has become larger or smaller in place: it had `requested`
   and `held` bytes before, and has its new ones now. True: listeners are to be told of *event. The
   pool's lock may be held; `queue` is a handle. */
bool vr_tracking_resize(struct vr_pool *pool, struct vr_block *block, struct vr_track_size before,
                        uint64_t queue, struct vr_event *event);

/* The number of the record of the live block that starts at `addr`; *pool is entered;
   block_lookup.c. */
vram_status vr_pool_record_of(vram_addr addr, struct vr_pool **pool, uint32_t *record);

#endif
