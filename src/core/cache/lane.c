/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.c: see lane.h.
 */
#include "core/cache/lane.h"

#include "base/memory.h"

#include <assert.h>

static struct vr_lane **bucket(struct vr_lanes *lanes, struct vr_queue_id queue) {
    return &lanes->buckets[(queue.handle * UINT64_C(0x9E3779B97F4A7C15)) >> 58];
}

struct vr_lane *vr_lane_find(struct vr_lanes *lanes, struct vr_queue_id queue) {
    struct vr_lane *lane = *bucket(lanes, queue);
    while (lane && !vr_queue_id_same(lane->id, queue)) {
        lane = lane->next;
    }
    return lane;
}

/* A queue is finished before its pools are told that it ends, and that takes the pool's lock: a
   lane that is made here, under the lock, is found there. */
vram_status vr_lane_know(struct vr_lanes *lanes, struct vr_queue_object *queue) {
    struct vr_queue_id id = {queue->object.handle};
    if (vr_lane_find(lanes, id)) {
        return VRAM_OK;
    }
    if (vr_load(&queue->finished, VR_ACQUIRE)) {
        return VRAM_ERR_STALE;
    }
    struct vr_lane *lane = vr_mem_alloc(1, sizeof *lane, "vram_alloc");
    if (!lane) {
        return VRAM_ERR_HOST_MEMORY;
    }
    lane->id = id;
    lane->queue = queue;
    lane->number.number = lanes->made++ + 2;
    vr_handle_ref(id.handle);
    lane->next = *bucket(lanes, id);
    *bucket(lanes, id) = lane;
    return VRAM_OK;
}

struct vr_lane *vr_lane_take(struct vr_lanes *lanes, struct vr_queue_id queue) {
    for (struct vr_lane **at = bucket(lanes, queue); *at; at = &(*at)->next) {
        if (vr_queue_id_same((*at)->id, queue)) {
            struct vr_lane *lane = *at;
            *at = lane->next;
            return lane;
        }
    }
    return NULL;
}

struct vr_lane *vr_lane_numbered(struct vr_lanes *lanes, struct vr_lane_id number) {
    for (int i = 0; i < VR_LANE_BUCKETS; i++) {
        for (struct vr_lane *lane = lanes->buckets[i]; lane; lane = lane->next) {
            if (lane->number.number == number.number) {
                return lane;
            }
        }
    }
    return NULL;
}

struct vr_lane *vr_lane_behind(struct vr_lanes *lanes, struct vr_queue_id last) {
    struct vr_lane *best = NULL;
    for (int i = 0; i < VR_LANE_BUCKETS; i++) {
        for (struct vr_lane *lane = lanes->buckets[i]; lane; lane = lane->next) {
            best = lane->id.handle > last.handle && (!best || lane->id.handle < best->id.handle)
                       ? lane
                       : best;
        }
    }
    return best;
}

void vr_lane_free(struct vr_lane *lane) {
    if (lane) {
        assert(vr_locks_held() == 0); /* the last reference to a queue calls the driver */
        vr_handle_unpin(lane->id.handle);
        vr_mem_free(lane);
    }
}

struct vr_lane *vr_lane_next(struct vr_lanes *lanes, struct vr_queue_id last) {
    struct vr_lane **from = last.handle ? bucket(lanes, last) : lanes->buckets;
    for (struct vr_lane **at = from; at < lanes->buckets + VR_LANE_BUCKETS; at++) {
        struct vr_lane *best = NULL;
        for (struct vr_lane *lane = *at; lane; lane = lane->next) {
            bool behind = at != from || lane->id.handle > last.handle;
            best = behind && (!best || lane->id.handle < best->id.handle) ? lane : best;
        }
        if (best) {
            return best;
        }
    }
    return NULL;
}

/* Its newest; NULL: none. */
static struct vr_queue_stamp stamp_of(const struct vr_lane *lane) {
    return lane ? (struct vr_queue_stamp){lane->id, lane->stamped}
                : (struct vr_queue_stamp){{0}, 0};
}

struct vr_queue_stamp vr_lane_unmarked(struct vr_lanes *lanes, struct vr_queue_id last) {
    struct vr_lane *lane = vr_lane_next(lanes, last);
    while (lane && lane->stamped <= vr_load(&lane->queue->issued, VR_ACQUIRE)) {
        lane = vr_lane_next(lanes, lane->id);
    }
    return stamp_of(lane);
}

struct vr_queue_stamp vr_lane_unpassed(struct vr_lanes *lanes, struct vr_queue_id last) {
    struct vr_lane *lane = vr_lane_next(lanes, last);
    while (lane && (vr_load(&lane->queue->finished, VR_ACQUIRE) ||
                    vr_queue_passed(lane->queue, lane->stamped))) {
        lane = vr_lane_next(lanes, lane->id);
    }
    return stamp_of(lane);
}

struct vr_queue_stamp vr_lane_stamp(struct vr_lanes *lanes, struct vr_queue_id queue) {
    struct vr_lane *lane = queue.handle ? vr_lane_find(lanes, queue) : NULL;
    if (lane) {
        uint64_t next = vr_load(&lane->queue->issued, VR_ACQUIRE) + 1;
        assert(next >= lane->stamped); /* points only rise: a later free has no earlier stamp */
        lane->stamped = next;
    }
    return stamp_of(lane); /* none: no queue, or one that has ended */
}

bool vr_lane_passed(struct vr_lanes *lanes, struct vr_queue_stamp stamp) {
    struct vr_lane *lane = stamp.queue.handle ? vr_lane_find(lanes, stamp.queue) : NULL;
    return !lane || vr_load(&lane->queue->finished, VR_ACQUIRE) ||
           vr_queue_passed(lane->queue, stamp.value);
}
