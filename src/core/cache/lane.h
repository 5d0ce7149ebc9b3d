/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.h: the queues a pool has seen, and how far each has come.
 *
 * A lane keeps its queue's object alive, so that asking "has this passed?" under the pool's lock is one
 * look at a word. It goes when the queue ends: then all its work is done, and a stamp whose lane is
 * gone has passed. No lane is made of a queue whose work has ended already, or it would never go.
 *
 * A stamp names the next point of its queue, which need not be marked yet. Whoever needs to know marks
 * the queues that the library owns; on adopted queues the freeing thread does so at the end of a batch
 * of frees, since only the program knows when others may submit to them.
 */
#ifndef VR_LANE_H
#define VR_LANE_H

#include "core/space/block.h"
#include "device/objects.h"

enum { VR_LANE_BUCKETS = 64 };

/* The place of a queue in the order in which the pool has seen them; from 2 on; 0: none. */
struct vr_lane_id {
    uint64_t number;
};

struct vr_lane {
    struct vr_lane *next; /* in its bucket */
    struct vr_queue_id id;
    struct vr_queue_object *queue; /* referenced */
    uint64_t stamped;              /* highest value a stamp of this lane has */
    uint64_t unmarked_bytes;       /* freed on it since the last mark by a freeing thread */
    uint64_t plans_marked;         /* the pool's number of plans at that mark */
    struct vr_lane_id number;
};

struct vr_lanes {
    struct vr_lane *buckets[VR_LANE_BUCKETS];
    uint64_t made; /* since the start */
};

/* All under the pool's lock. */
struct vr_lane *vr_lane_find(struct vr_lanes *lanes, struct vr_queue_id queue);
/* Sees to it that a queue, which the caller has pinned, has a lane. VRAM_ERR_HOST_MEMORY with the error
   set; VRAM_ERR_STALE, without, when the queue has come to its end: all its stamps have passed. */
vram_status vr_lane_know(struct vr_lanes *lanes, struct vr_queue_object *queue);
/* Takes the lane out; the caller frees it with vr_lane_free, without the lock. NULL: no such. */
struct vr_lane *vr_lane_take(struct vr_lanes *lanes, struct vr_queue_id queue);
/* The lane with that number; NULL: its queue has ended. Looks at all. */
struct vr_lane *vr_lane_numbered(struct vr_lanes *lanes, struct vr_lane_id number);
/* The lane with the next higher handle; NULL behind the last. */
struct vr_lane *vr_lane_behind(struct vr_lanes *lanes, struct vr_queue_id last);
/* The lane behind the one with handle `last`, 0: the first, in an order of their own that stays the same
   while lanes come and go; NULL behind the last. */
struct vr_lane *vr_lane_next(struct vr_lanes *lanes, struct vr_queue_id last);
void vr_lane_free(struct vr_lane *lane);

/* The newest stamp of the next lane, in the order of vr_lane_next, whose newest stamps are not marked yet,
   or have not passed; queue 0: none. `last` is the handle that was answered before, 0 at the start. */
struct vr_queue_stamp vr_lane_unmarked(struct vr_lanes *lanes, struct vr_queue_id last);
struct vr_queue_stamp vr_lane_unpassed(struct vr_lanes *lanes, struct vr_queue_id last);

/* The stamp of memory that was freed on this queue up to now; queue 0 when there is no queue. */
struct vr_queue_stamp vr_lane_stamp(struct vr_lanes *lanes, struct vr_queue_id queue);
bool vr_lane_passed(struct vr_lanes *lanes, struct vr_queue_stamp stamp);

#endif
