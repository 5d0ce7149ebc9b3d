/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readback_object.h: the object behind a vram_readback, and the states of its slots.
 *
 *              start claims              submitted              point passed
 *     IDLE -----------------> STARTING -----------> IN_FLIGHT -----------------> DONE
 *      ^                         | |                     |                        |
 *      |   nothing submitted     | | submitted, failed   | device lost            | given (EVERY),
 *      +-------------------------+ v                     v                        | or claimed by a
 *      +---- nothing pending -- SETTLING              FAILED                      | start (NEWEST)
 *      +--------------------------------------------------------------------------+
 *
 *  (1) `lock` guards states, numbers and counters. No driver call is made under it: a thread that
 *      polls a point copies it, polls the copy, and then checks that the slot still has the same
 *      frame.
 *  (2) The state of a slot tells who owns its memory: in STARTING the start that claimed it, in
 *      IN_FLIGHT the transfer queue, in DONE the readers. A thread that polls a slot in SETTLING
 *      sets it to STARTING first.
 *  (3) A slot with readers is DONE and stays so. A slot is claimed only in IDLE and FAILED and,
 *      with NEWEST, in DONE without readers when a newer frame is DONE too.
 *  (4) Only a point that has passed makes a frame DONE, and only a lost device makes one FAILED. If
 *      a driver cannot answer at the moment, the caller gets its error, and the frame stays
 *      IN_FLIGHT.
 *  (5) A frame gets its number when all of it has been submitted. So numbers have no gaps, and a
 *      frame that has one is available, in flight, failed, or overwritten.
 */
#ifndef VR_READBACK_OBJECT_H
#define VR_READBACK_OBJECT_H

#include "vram/readback.h"
#include "xfer/frame_slot.h"
#include "xfer/transfer_counts.h"

enum vr_frame_state {
    VR_FRAME_IDLE = 0,
    VR_FRAME_STARTING = 1,
    VR_FRAME_IN_FLIGHT = 2,
    VR_FRAME_DONE = 3,
    VR_FRAME_FAILED = 4,
    VR_FRAME_SETTLING = 5
};

struct vr_frame {
    struct vr_frame_slot memory;
    enum vr_frame_state state;
    uint64_t number; /* of the frame in it; 0: none */
    uint64_t bytes;
    enum vram_readback_mode mode;
    vram_point point;               /* IN_FLIGHT: passed when it has arrived */
    uint32_t readers;               /* borrowers */
    bool seen;                      /* it was borrowed at least once */
    bool delivered;                 /* vram_readback_next returned it, or its failure */
    struct vram_error error;        /* FAILED: why */
    struct vr_transfer_count count; /* IN_FLIGHT: in the device's counters */
};

struct vr_readback {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    vram_queue *transfer;            /* the readback's own queue */
    enum vram_readback_mode mode;
    enum vram_readback_policy policy;
    vr_atomic_bool closing; /* the device is closing: waits end */
    struct vr_mutex lock;   /* guards the rest */
    uint64_t delivered;     /* highest number that vram_readback_next returned */
    struct vram_readback_stats stats;
    uint32_t count;
    struct vr_frame frames[]; /* one per slot */
};

vram_status vr_readback_enter(vram_readback *handle, struct vr_readback **readback);

/* Polls the points of all frames in flight, and what is settling; keeps (4). VRAM_OK, or the first
   failure of a driver to answer: in *trouble, not in the thread's error record. */
vram_status vr_readback_refresh(struct vr_readback *readback, struct vram_error *trouble);

static inline vram_device *vr_readback_device(const struct vr_readback *readback) {
    return (vram_device *)(uintptr_t)readback->device->object.handle;
}

#endif
