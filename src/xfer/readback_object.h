/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readback_object.h: what stands behind a vram_readback, and the life of its slots.
 *
 *              start claims              submitted              point passed
 *     IDLE -----------------> STARTING -------------> FLYING ------------------> DONE
 *      ^                         | |                     |                        |
 *      |     nothing was begun   | | begun and failed    | device lost            | given (EVERY),
 *      +-------------------------+ v                     v                        | or claimed by a
 *      +---- nothing pending -- SETTLING              FAILED                      | start (NEWEST)
 *      +--------------------------------------------------------------------------+
 *
 *  (1) `lock` guards states, numbers and counters. No driver call is made under it: who wants to
 *      ask about a point copies it, asks, and looks whether the slot still has the same frame.
 *  (2) The memory of a slot belongs to its state: in STARTING to the start that claimed it, in
 *      FLYING to the transfer queue, in DONE to readers, in SETTLING to whoever set it to STARTING
 *      to look.
 *  (3) A slot with readers is DONE and stays so. A slot is claimed only in IDLE and FAILED and,
 *      with NEWEST, in DONE without readers when a newer frame is DONE too.
 *  (4) Only a point that has passed makes a frame DONE, and only a lost device makes one FAILED. A
 *      driver that cannot be asked at this moment is told of to the caller, and the frame stays
 *      FLYING.
 *  (5) A number is given to a frame when all of it has been submitted. So numbers have no gaps, and
 *      a frame that has one is either there, on its way, failed, or gone.
 */
#ifndef VR_READBACK_OBJECT_H
#define VR_READBACK_OBJECT_H

#include "vram/readback.h"
#include "xfer/frame_slot.h"
#include "xfer/metrics.h"

enum vr_frame_state {
    VR_FRAME_IDLE = 0,
    VR_FRAME_STARTING = 1,
    VR_FRAME_FLYING = 2,
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
    vram_point point;               /* FLYING: when it has arrived */
    uint32_t readers;               /* borrowers */
    bool seen;                      /* somebody has borrowed it */
    bool delivered;                 /* vram_readback_next gave it out, or its failure */
    struct vram_error error;        /* FAILED: why */
    struct vr_transfer_count count; /* FLYING: in the device's counters */
};

struct vr_readback {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    vram_queue *transfer;            /* its own */
    enum vram_readback_mode mode;
    enum vram_readback_policy policy;
    vr_atomic_bool closing; /* the device is: nothing is waited for any more */
    struct vr_mutex lock;   /* guards the rest */
    uint64_t delivered;     /* highest number that vram_readback_next gave out */
    struct vram_readback_stats stats;
    uint32_t count;
    struct vr_frame frames[]; /* one per slot */
};

vram_status vr_readback_enter(vram_readback *handle, struct vr_readback **readback);

/* Looks at the points of all frames that are on their way, and at what is settling; keeps (4).
   VRAM_OK, or what a driver that could not be asked has answered first: in *trouble, not in the
   thread's record. */
vram_status vr_readback_refresh(struct vr_readback *readback, struct vram_error *trouble);

static inline vram_device *vr_readback_device(const struct vr_readback *readback) {
    return (vram_device *)(uintptr_t)readback->device->object.handle;
}

#endif
