/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed_object.h: the object behind a vram_feed, and the states of its slots.
 *
 *  (1) `lock` guards states, numbers and counters; no driver call is made under it. A slot is IDLE,
 *      OPEN (the program fills it), BUSY (one call has claimed it), IN_FLIGHT (its upload reads it)
 *      or SETTLING (released after a submit that failed, whose work may still read it).
 *  (2) Host memory of a slot is free when its upload has passed. Its shadow is free when the
 *      consumer's copy has passed: the host does not wait for that, the next upload into it does,
 *      on the device.
 *  (3) A shadow is replaced by a larger one only when no work is pending on the slot. Otherwise the
 *      block is sent DIRECT.
 *  (4) A submit stays inside both queues from its first step to its last, so neither ends in
 *      between.
 */
#ifndef VR_FEED_OBJECT_H
#define VR_FEED_OBJECT_H

#include "vram/feed.h"
#include "xfer/frame_slot.h"
#include "xfer/transfer_counts.h"

enum vr_feed_state {
    VR_FEED_IDLE = 0,
    VR_FEED_OPEN,
    VR_FEED_BUSY,
    VR_FEED_IN_FLIGHT,
    VR_FEED_SETTLING
};

struct vr_feed_slot {
    struct vr_frame_slot memory;
    enum vr_feed_state state;
    uint64_t number;                /* of the block in it */
    uint64_t bytes;                 /* as asked for */
    vram_point point;               /* IN_FLIGHT: passed when its upload is complete */
    uint64_t sent;                  /* bytes that the upload reads */
    struct vr_transfer_count count; /* in the device's counters */
};

struct vr_feed {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    vram_queue *transfer;            /* the feed's own queue */
    enum vram_feed_mode mode;
    vr_atomic_bool closing; /* the device is closing: waits end */
    struct vr_mutex lock;   /* guards the rest */
    uint64_t begun;         /* number of the last block */
    struct vram_feed_stats stats;
    uint32_t count;
    struct vr_feed_slot slots[];
};

vram_status vr_feed_enter(vram_feed *handle, struct vr_feed **feed);

static inline vram_device *vr_feed_device(const struct vr_feed *feed) {
    return (vram_device *)(uintptr_t)feed->device->object.handle;
}

void vr_feed_set_state(struct vr_feed *feed, struct vr_feed_slot *slot, enum vr_feed_state state);

/* Claims the block that the program fills. */
vram_status vr_feed_claim_open(struct vr_feed *feed, uint64_t number, struct vr_feed_slot **found);

/* Updates the statistics after the memory of a slot has changed from `was`. */
void vr_feed_recount(struct vr_feed *feed, const struct vr_frame_slot *was,
                     const struct vr_frame_slot *slot);

#endif
