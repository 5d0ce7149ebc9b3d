/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue_state.h: the queues that a pool has seen, and the progress of each.
 *
 * A queue state keeps its queue's object alive, so that checking under the pool's lock whether a
 * stamp has passed is one load. It is removed when the queue ends: then all its work is complete,
 * and a stamp without a queue state has passed. A queue that has already ended gets no queue state,
 * since nothing would remove it.
 *
 * A stamp is the next point of its queue, which may not be marked yet. A thread that needs to know
 * whether it has passed marks it, if the library owns the queue. On adopted queues the freeing
 * thread marks at the end of a batch of frees, because only the program knows when other threads
 * may submit to them.
 *
 * The number of the next point is one above `issued`, which is read relaxed. If the value is old,
 * the signals of the numbers above it come behind the thread's work: a thread whose work comes
 * behind a signal sees the signal's number, since the driver orders the two calls.
 */
#ifndef VR_QUEUE_STATE_H
#define VR_QUEUE_STATE_H

#include "core/space/block.h"
#include "device/objects.h"

enum { VR_QUEUE_STATE_BUCKETS = 64 };

/* The number of a queue in the order in which the pool first saw them; from 2 on; 0: none. */
struct vr_queue_state_id {
    uint64_t number;
};

struct vr_queue_state {
    struct vr_queue_state *next; /* in its bucket, by handle */
    struct vr_queue_id id;
    struct vr_queue_object *queue; /* referenced */
    uint64_t stamped;              /* highest value of a stamp given out for it */
    uint64_t unmarked_bytes;       /* freed on it since the last mark by a freeing thread */
    uint64_t plans_marked;         /* pool->plans at that mark */
    struct vr_queue_state_id number;
};

struct vr_queue_states {
    struct vr_queue_state *buckets[VR_QUEUE_STATE_BUCKETS];
    uint64_t created_count; /* since the start */
};

static inline struct vr_queue_state **vr_queue_state_bucket(struct vr_queue_states *queue_states,
                                                            struct vr_queue_id queue) {
    return &queue_states->buckets[(queue.handle * UINT64_C(0x9E3779B97F4A7C15)) >> 58];
}

/* All calls but vr_queue_state_free are made under the pool's lock. */
static inline struct vr_queue_state *vr_queue_state_find(struct vr_queue_states *queue_states,
                                                         struct vr_queue_id queue) {
    struct vr_queue_state *queue_state = *vr_queue_state_bucket(queue_states, queue);
    while (queue_state && !vr_queue_id_same(queue_state->id, queue)) {
        queue_state = queue_state->next;
    }
    return queue_state;
}

/* Makes sure that a queue, which the caller has pinned, has a queue state. VRAM_ERR_HOST_MEMORY,
   with the error set. VRAM_ERR_STALE, without: the queue has ended, all its stamps have passed. */
vram_status vr_queue_state_ensure(struct vr_queue_states *queue_states,
                                  struct vr_queue_object *queue);
/* Removes the queue state; the caller frees it with vr_queue_state_free, without the lock. NULL:
   none. */
struct vr_queue_state *vr_queue_state_take(struct vr_queue_states *queue_states,
                                           struct vr_queue_id queue);
/* The queue state with that number; NULL: its queue has ended. A linear search. */
struct vr_queue_state *vr_queue_state_numbered(struct vr_queue_states *queue_states,
                                               struct vr_queue_state_id number);
/* The queue state with the next higher handle; NULL after the last. */
struct vr_queue_state *vr_queue_state_behind(struct vr_queue_states *queue_states,
                                             struct vr_queue_id last);
/* The queue state after the one with handle `last` (0: the first), in an internal order that stays
   the same while queue states are added and removed; NULL after the last. */
struct vr_queue_state *vr_queue_state_next(struct vr_queue_states *queue_states,
                                           struct vr_queue_id last);
void vr_queue_state_free(struct vr_queue_state *queue_state);

/* The newest stamp of the next queue state, in the order of vr_queue_state_next, whose newest stamp
   is not marked yet, or has not passed; queue 0: none. `last`: the handle returned before, 0 at the
   start. */
struct vr_queue_stamp vr_queue_state_unmarked(struct vr_queue_states *queue_states,
                                              struct vr_queue_id last);
struct vr_queue_stamp vr_queue_state_unpassed(struct vr_queue_states *queue_states,
                                              struct vr_queue_id last);

/* The stamp for memory that was freed on this queue until now; queue 0 if there is no queue. */
struct vr_queue_stamp vr_queue_state_stamp(struct vr_queue_states *queue_states,
                                           struct vr_queue_id queue);
bool vr_queue_state_passed(struct vr_queue_states *queue_states, struct vr_queue_stamp stamp);

#endif
