/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.c: see lane.h.
 */
#include "core/cache/lane.h"

#include "base/memory.h"

static struct vr_lane **bucket(struct vr_lanes *lanes, uint64_t handle) {
    return &lanes->buckets[(handle * UINT64_C(0x9E3779B97F4A7C15)) >> 58];
}

struct vr_lane *vr_lane_find(struct vr_lanes *lanes, uint64_t handle) {
    struct vr_lane *lane = *bucket(lanes, handle);
    while (lane && lane->handle != handle) {
        lane = lane->next;
    }
    return lane;
}

/* A queue is finished before its pools are told that it ends, and that takes the pool's lock: a lane that
   is made here, under the lock, is found there. */
vram_status vr_lane_know(struct vr_lanes *lanes, struct vr_queue_object *queue) {
    if (vr_lane_find(lanes, queue->object.handle)) {
        return VRAM_OK;
    }
    if (vr_load(&queue->finished, VR_ACQUIRE)) {
        return VRAM_ERR_STALE;
    }
    struct vr_lane *lane = vr_mem_alloc(1, sizeof *lane, "vram_alloc");
    if (!lane) {
        return VRAM_ERR_HOST_MEMORY;
    }
    lane->handle = queue->object.handle;
    lane->queue = queue;
    lane->number = lanes->made++ + 2;
    vr_handle_ref(lane->handle);
    lane->next = *bucket(lanes, lane->handle);
    *bucket(lanes, lane->handle) = lane;
    return VRAM_OK;
}

struct vr_lane *vr_lane_take(struct vr_lanes *lanes, uint64_t handle) {
    for (struct vr_lane **at = bucket(lanes, handle); *at; at = &(*at)->next) {
        if ((*at)->handle == handle) {
            struct vr_lane *lane = *at;
            *at = lane->next;
            return lane;
        }
    }
    return NULL;
}

struct vr_lane *vr_lane_behind(struct vr_lanes *lanes, uint64_t last) {
    struct vr_lane *best = NULL;
    for (int i = 0; i < VR_LANE_BUCKETS; i++) {
        for (struct vr_lane *lane = lanes->buckets[i]; lane; lane = lane->next) {
            best = lane->handle > last && (!best || lane->handle < best->handle) ? lane : best;
        }
    }
    return best;
}

void vr_lane_free(struct vr_lane *lane) {
    if (lane) {
        vr_handle_unpin(lane->handle);
        vr_mem_free(lane);
    }
}

struct vr_lane *vr_lane_next(struct vr_lanes *lanes, uint64_t last) {
    struct vr_lane **from = last ? bucket(lanes, last) : lanes->buckets;
    for (struct vr_lane **at = from; at < lanes->buckets + VR_LANE_BUCKETS; at++) {
        struct vr_lane *best = NULL;
        for (struct vr_lane *lane = *at; lane; lane = lane->next) {
            bool behind = at != from || lane->handle > last;
            best = behind && (!best || lane->handle < best->handle) ? lane : best;
        }
        if (best) {
            return best;
        }
    }
    return NULL;
}

struct vr_stamp vr_lane_unmarked(struct vr_lanes *lanes, uint64_t last) {
    struct vr_lane *lane = vr_lane_next(lanes, last);
    while (lane && lane->stamped <= vr_load(&lane->queue->issued, VR_ACQUIRE)) {
        lane = vr_lane_next(lanes, lane->handle);
    }
    return lane ? (struct vr_stamp){lane->handle, lane->stamped} : (struct vr_stamp){0, 0};
}

struct vr_stamp vr_lane_unpassed(struct vr_lanes *lanes, uint64_t last) {
    struct vr_lane *lane = vr_lane_next(lanes, last);
    while (lane && (vr_load(&lane->queue->finished, VR_ACQUIRE) ||
                    vr_queue_passed(lane->queue, lane->stamped))) {
        lane = vr_lane_next(lanes, lane->handle);
    }
    return lane ? (struct vr_stamp){lane->handle, lane->stamped} : (struct vr_stamp){0, 0};
}

struct vr_stamp vr_lane_stamp(struct vr_lanes *lanes, uint64_t handle) {
    struct vr_lane *lane = handle ? vr_lane_find(lanes, handle) : NULL;
    if (!lane) {
        return (struct vr_stamp){0, 0}; /* no queue, or one that has ended */
    }
    lane->stamped = vr_load(&lane->queue->issued, VR_ACQUIRE) + 1;
    return (struct vr_stamp){handle, lane->stamped};
}

bool vr_lane_passed(struct vr_lanes *lanes, struct vr_stamp stamp) {
    struct vr_lane *lane = stamp.queue ? vr_lane_find(lanes, stamp.queue) : NULL;
    return !lane || vr_load(&lane->queue->finished, VR_ACQUIRE) ||
           vr_queue_passed(lane->queue, stamp.value);
}
