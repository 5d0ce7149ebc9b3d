/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_slot.h: one of the slots of a readback or a feed: host memory, its shadow on the device,
 * and the work that may still use them.
 *
 *     host memory   page-locked where possible, else ordinary
 *     shadow        the same bytes in device memory, where a copy keeps two queues independent
 *     pending       the last work of each of the two queues that use the slot
 *
 * A slot belongs to the call that has claimed it from its readback or feed: nothing here takes a
 * lock. It may be written, grown or freed only when vr_slot_settled says that nothing is pending.
 * Work that was submitted but could not be marked is recorded by its queue, and marked at the next
 * poll.
 */
#ifndef VR_FRAME_SLOT_H
#define VR_FRAME_SLOT_H

#include "device/objects.h"

/* Work of one queue that may use a slot. */
struct vr_slot_work {
    vram_point point;  /* behind all of it; all zero: none */
    vram_queue *queue; /* not NULL: this queue has more work, not marked yet */
};

enum { VR_SLOT_TRANSFER = 0, VR_SLOT_OTHER = 1, VR_SLOT_QUEUES = 2 };

struct vr_frame_slot {
    void *host;                                  /* NULL: none yet */
    uint64_t host_bytes;                         /* of `host` */
    bool pinned;                                 /* page-locked memory of the device */
    vram_addr shadow;                            /* 0: none */
    uint64_t shadow_bytes;                       /* of `shadow` */
    struct vr_slot_work pending[VR_SLOT_QUEUES]; /* of the transfer queue, and of the program's */
};

/* Makes host memory, or the shadow, at least `bytes` large. Nothing is pending. Contents are lost
   when memory is allocated; a failure changes nothing. Ordinary memory replaces page-locked memory
   that cannot be allocated. */
vram_status vr_slot_reserve_host(struct vr_frame_slot *slot, vram_device *device, uint64_t bytes);
vram_status vr_slot_reserve_shadow(struct vr_frame_slot *slot, vram_device *device, uint64_t bytes);

/* Records work that was submitted to a queue; which: VR_SLOT_. Marks it if possible: *point, which
   may be NULL, is then behind it. */
vram_status vr_slot_mark(struct vr_frame_slot *slot, int which, vram_queue *queue,
                         vram_point *point);
/* Records work that was submitted, without a point. */
void vr_slot_note(struct vr_frame_slot *slot, int which, vram_queue *queue);

/* VRAM_OK when nothing is pending, VRAM_ERR_NOT_READY, or why that is unknown. A lost device has
   nothing pending. */
vram_status vr_slot_settled(struct vr_frame_slot *slot);
/* The same after waiting until the deadline; VRAM_ERR_TIMEOUT. Asks a driver that refuses to answer
   a few times. */
vram_status vr_slot_settle(struct vr_frame_slot *slot, uint64_t deadline);

/* Frees the memory. False if work is still pending: then the device frees pinned memory and shadow
   when it closes, and ordinary memory is never freed. May leave an error record behind. */
bool vr_slot_end(struct vr_frame_slot *slot, vram_device *device, uint64_t deadline);

#endif
