/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue_state.c: see queue_state.h.
 */
#include "core/cache/queue_state.h"

#include "base/memory.h"

#include <assert.h>

/* A queue sets `finished` before it notifies its pools that it ends, and the notification takes the
   pool's lock: a queue state created here, under the lock, is found and removed there. */
vram_status vr_queue_state_ensure(struct vr_queue_states *queue_states,
                                  struct vr_queue_object *queue) {
    struct vr_queue_id id = {queue->object.handle};
    if (vr_queue_state_find(queue_states, id)) {
        return VRAM_OK;
    }
    if (vr_load(&queue->finished, VR_ACQUIRE)) {
        return VRAM_ERR_STALE;
    }
    struct vr_queue_state *queue_state = vr_mem_alloc(1, sizeof *queue_state, "vram_alloc");
    if (!queue_state) {
        return VRAM_ERR_HOST_MEMORY;
    }
    queue_state->id = id;
    queue_state->queue = queue;
    queue_state->number.number = queue_states->created_count++ + 2;
    vr_handle_ref(id.handle);
    struct vr_queue_state **at = vr_queue_state_bucket(queue_states, id);
    while (*at && (*at)->id.handle < id.handle) {
        at = &(*at)->next;
    }
    queue_state->next = *at;
    *at = queue_state;
    return VRAM_OK;
}

struct vr_queue_state *vr_queue_state_take(struct vr_queue_states *queue_states,
                                           struct vr_queue_id queue) {
    for (struct vr_queue_state **at = vr_queue_state_bucket(queue_states, queue); *at;
         at = &(*at)->next) {
        if (vr_queue_id_same((*at)->id, queue)) {
            struct vr_queue_state *queue_state = *at;
            *at = queue_state->next;
            return queue_state;
        }
    }
    return NULL;
}

struct vr_queue_state *vr_queue_state_numbered(struct vr_queue_states *queue_states,
                                               struct vr_queue_state_id number) {
    for (int i = 0; i < VR_QUEUE_STATE_BUCKETS; i++) {
        for (struct vr_queue_state *queue_state = queue_states->buckets[i]; queue_state;
             queue_state = queue_state->next) {
            if (queue_state->number.number == number.number) {
                return queue_state;
            }
        }
    }
    return NULL;
}

struct vr_queue_state *vr_queue_state_behind(struct vr_queue_states *queue_states,
                                             struct vr_queue_id last) {
    struct vr_queue_state *best = NULL;
    for (int i = 0; i < VR_QUEUE_STATE_BUCKETS; i++) {
        for (struct vr_queue_state *queue_state = queue_states->buckets[i]; queue_state;
             queue_state = queue_state->next) {
            best = queue_state->id.handle > last.handle &&
                           (!best || queue_state->id.handle < best->id.handle)
                       ? queue_state
                       : best;
        }
    }
    return best;
}

void vr_queue_state_free(struct vr_queue_state *queue_state) {
    if (queue_state) {
        assert(vr_locks_held() == 0); /* the last reference to a queue calls the driver */
        vr_handle_unpin(queue_state->id.handle);
        vr_mem_free(queue_state);
    }
}

/* The first queue state in the buckets from `at` on. */
static struct vr_queue_state *first_from(struct vr_queue_states *queue_states,
                                         struct vr_queue_state **at) {
    struct vr_queue_state **end = queue_states->buckets + VR_QUEUE_STATE_BUCKETS;
    while (at < end && !*at) {
        at++;
    }
    return at < end ? *at : NULL;
}

/* vr_queue_state_next, of one that is there. */
static struct vr_queue_state *state_after(struct vr_queue_states *queue_states,
                                          const struct vr_queue_state *queue_state) {
    return queue_state->next
               ? queue_state->next
               : first_from(queue_states, vr_queue_state_bucket(queue_states, queue_state->id) + 1);
}

struct vr_queue_state *vr_queue_state_next(struct vr_queue_states *queue_states,
                                           struct vr_queue_id last) {
    struct vr_queue_state **from = vr_queue_state_bucket(queue_states, last), *queue_state = *from;
    if (!last.handle) {
        return first_from(queue_states, queue_states->buckets);
    }
    while (queue_state && queue_state->id.handle <= last.handle) {
        queue_state = queue_state->next;
    }
    return queue_state ? queue_state : first_from(queue_states, from + 1);
}

/* The newest stamp of a queue state; NULL: none. */
static struct vr_queue_stamp stamp_of(const struct vr_queue_state *queue_state) {
    return queue_state ? (struct vr_queue_stamp){queue_state->id, queue_state->stamped}
                       : (struct vr_queue_stamp){{0}, 0};
}

struct vr_queue_stamp vr_queue_state_unmarked(struct vr_queue_states *queue_states,
                                              struct vr_queue_id last) {
    struct vr_queue_state *queue_state = vr_queue_state_next(queue_states, last);
    while (queue_state &&
           queue_state->stamped <= vr_load(&queue_state->queue->issued, VR_RELAXED)) {
        queue_state = state_after(queue_states, queue_state);
    }
    return stamp_of(queue_state);
}

struct vr_queue_stamp vr_queue_state_unpassed(struct vr_queue_states *queue_states,
                                              struct vr_queue_id last) {
    struct vr_queue_state *queue_state = vr_queue_state_next(queue_states, last);
    while (queue_state && (vr_load(&queue_state->queue->finished, VR_ACQUIRE) ||
                           vr_queue_passed(queue_state->queue, queue_state->stamped))) {
        queue_state = state_after(queue_states, queue_state);
    }
    return stamp_of(queue_state);
}

struct vr_queue_stamp vr_queue_state_stamp(struct vr_queue_states *queue_states,
                                           struct vr_queue_id queue) {
    struct vr_queue_state *queue_state =
        queue.handle ? vr_queue_state_find(queue_states, queue) : NULL;
    if (queue_state) {
        uint64_t next = vr_load(&queue_state->queue->issued, VR_RELAXED) + 1;
        assert(next >=
               queue_state->stamped); /* points only rise: a later free has no lower stamp */
        queue_state->stamped = next;
    }
    return stamp_of(queue_state); /* none: no queue, or one that has ended */
}

bool vr_queue_state_passed(struct vr_queue_states *queue_states, struct vr_queue_stamp stamp) {
    struct vr_queue_state *queue_state =
        stamp.queue.handle ? vr_queue_state_find(queue_states, stamp.queue) : NULL;
    return !queue_state || vr_load(&queue_state->queue->finished, VR_ACQUIRE) ||
           vr_queue_passed(queue_state->queue, stamp.value);
}
