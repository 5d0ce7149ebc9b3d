/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_slot.h: one of the buffers of a readback or a feed: host memory, its shadow on the device,
 * and the work that may still use them.
 *
 *     host memory   page-locked where it can be had, else ordinary
 *     shadow        the same bytes in device memory, where a copy there keeps two queues apart
 *     pending       the last work of each of the two queues that touch the slot
 *
 * A slot belongs to whoever has claimed it from its readback or feed: nothing here takes a lock. It
 * may be written, grown or freed when vr_slot_settled says that nothing is pending, and not before.
 * Work that was submitted and could not be marked is remembered by its queue: it is marked when
 * somebody asks.
 */
#ifndef VR_FRAME_SLOT_H
#define VR_FRAME_SLOT_H

#include "device/objects.h"

/* Work of one queue that may use a slot. */
struct vr_slot_work {
    vram_point point;  /* it is behind all of it; all zero: there is none */
    vram_queue *queue; /* not NULL: there is more on this queue, not marked yet */
};

enum { VR_SLOT_TRANSFER = 0, VR_SLOT_OTHER = 1, VR_SLOT_QUEUES = 2 };

struct vr_frame_slot {
    void *host;                                  /* NULL: none yet */
    uint64_t host_bytes;                         /* of it */
    bool pinned;                                 /* it is page-locked, and the device's */
    vram_addr shadow;                            /* 0: none */
    uint64_t shadow_bytes;                       /* of it */
    struct vr_slot_work pending[VR_SLOT_QUEUES]; /* of the transfer queue, and of the program's */
};

/* Has room for `bytes` in host memory, or in the shadow, from now on. Nothing is pending. Contents
   are lost when memory has to be taken; on failure all is as it was. Pinned memory that cannot be
   had is made up for by ordinary memory. */
vram_status vr_slot_reserve_host(struct vr_frame_slot *slot, vram_device *device, uint64_t bytes);
vram_status vr_slot_reserve_shadow(struct vr_frame_slot *slot, vram_device *device, uint64_t bytes);

/* Work was submitted to a queue; which: VR_SLOT_. It is marked here when that is possible: *point,
   which may be NULL, is behind it then. */
vram_status vr_slot_mark(struct vr_frame_slot *slot, int which, vram_queue *queue,
                         vram_point *point);
/* Work was submitted, and nobody needs a point now. */
void vr_slot_note(struct vr_frame_slot *slot, int which, vram_queue *queue);

/* VRAM_OK when nothing is pending, VRAM_ERR_NOT_READY, or why that cannot be told. A lost device
   has nothing pending. */
vram_status vr_slot_settled(struct vr_frame_slot *slot);
/* The same after waiting until the deadline; VRAM_ERR_TIMEOUT. A driver that refuses to tell is
   asked a few times. */
vram_status vr_slot_settle(struct vr_frame_slot *slot, uint64_t deadline);

/* Gives the memory back. What is pending still keeps it: pinned memory and shadow are then the
   device's to end, ordinary memory stays for good; false then. */
bool vr_slot_end(struct vr_frame_slot *slot, vram_device *device, uint64_t deadline);

#endif
