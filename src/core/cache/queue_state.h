/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue state.h: the queues a pool has seen, and how far each has come.
 *
 * A queue state keeps its queue's object alive, so that asking "has this passed?" under the pool's
 * lock is one look at a word. It goes when the queue ends: then all its work is done, and a stamp
 * whose queue state is gone has passed. No queue state is made of a queue whose work has ended
 * already, or it would never go.
 *
 * A stamp names the next point of its queue, which need not be marked yet. Whoever needs to know
 * marks the queues that the library owns; on adopted queues the freeing thread does so at the end
 * of a batch of frees, since only the program knows when others may submit to them.
 */
#ifndef VR_QUEUE_STATE_H
#define VR_QUEUE_STATE_H

#include "core/space/block.h"
#include "device/objects.h"

enum { VR_QUEUE_STATE_BUCKETS = 64 };

/* The place of a queue in the order in which the pool has seen them; from 2 on; 0: none. */
struct vr_queue_state_id {
    uint64_t number;
};

struct vr_queue_state {
    struct vr_queue_state *next; /* in its bucket */
    struct vr_queue_id id;
    struct vr_queue_object *queue; /* referenced */
    uint64_t stamped;              /* highest value a stamp of this queue state has */
    uint64_t unmarked_bytes;       /* freed on it since the last mark by a freeing thread */
    uint64_t plans_marked;         /* the pool's number of plans at that mark */
    struct vr_queue_state_id number;
};

struct vr_queue_states {
    struct vr_queue_state *buckets[VR_QUEUE_STATE_BUCKETS];
    uint64_t made; /* since the start */
};

/* All under the pool's lock. */
struct vr_queue_state *vr_queue_state_find(struct vr_queue_states *queue_states,
                                           struct vr_queue_id queue);
/* Sees to it that a queue, which the caller has pinned, has a queue state. VRAM_ERR_HOST_MEMORY
   with the error set; VRAM_ERR_STALE, without, when the queue has come to its end: all its stamps
   have passed. */
vram_status vr_queue_state_ensure(struct vr_queue_states *queue_states,
                                  struct vr_queue_object *queue);
/* Takes the queue state out; the caller frees it with vr_queue_state_free, without the lock. NULL:
   no such. */
struct vr_queue_state *vr_queue_state_take(struct vr_queue_states *queue_states,
                                           struct vr_queue_id queue);
/* The queue state with that number; NULL: its queue has ended. Looks at all. */
struct vr_queue_state *vr_queue_state_numbered(struct vr_queue_states *queue_states,
                                               struct vr_queue_state_id number);
/* The queue state with the next higher handle; NULL behind the last. */
struct vr_queue_state *vr_queue_state_behind(struct vr_queue_states *queue_states,
                                             struct vr_queue_id last);
/* The queue state behind the one with handle `last`, 0: the first, in an order of their own that
   stays the same while queue states come and go; NULL behind the last. */
struct vr_queue_state *vr_queue_state_next(struct vr_queue_states *queue_states,
                                           struct vr_queue_id last);
void vr_queue_state_free(struct vr_queue_state *queue_state);

/* The newest stamp of the next queue state, in the order of vr_queue_state_next, whose newest
   stamps are not marked yet, or have not passed; queue 0: none. `last` is the handle that was
   answered before, 0 at the start. */
struct vr_queue_stamp vr_queue_state_unmarked(struct vr_queue_states *queue_states,
                                              struct vr_queue_id last);
struct vr_queue_stamp vr_queue_state_unpassed(struct vr_queue_states *queue_states,
                                              struct vr_queue_id last);

/* The stamp of memory that was freed on this queue up to now; queue 0 when there is no queue. */
struct vr_queue_stamp vr_queue_state_stamp(struct vr_queue_states *queue_states,
                                           struct vr_queue_id queue);
bool vr_queue_state_passed(struct vr_queue_states *queue_states, struct vr_queue_stamp stamp);

#endif
