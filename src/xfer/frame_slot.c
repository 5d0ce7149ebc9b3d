/* SPDX-License-Identifier: Apache-2.0 */
/* frame_slot.c: memory that a device reads or writes without a thread waiting, and when it is free
   again. */
#include "xfer/frame_slot.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/device_calls.h"

enum { REFUSALS = 4 }; /* polls that a driver may refuse before it is not asked again */

/* ------------------------------------------------------------------- pending */

vram_status vr_slot_mark(struct vr_frame_slot *slot, int which, vram_queue *queue,
                         vram_point *point) {
    struct vr_slot_work *pending = &slot->pending[which];
    vram_point made;
    pending->queue = queue;
    vram_status status = vr_submit_mark(queue, &made);
    if (status == VRAM_OK) {
        *pending = (struct vr_slot_work){.point = made};
        if (point) {
            *point = made;
        }
    }
    return status;
}

void vr_slot_note(struct vr_frame_slot *slot, int which, vram_queue *queue) {
    slot->pending[which].queue = queue;
}

/* Marks work that could not be marked when it was submitted. A queue that has ended, and whose
   handle is invalid, has completed all of it; a queue that is ending reports that until then. */
static vram_status mark_late(struct vr_slot_work *pending) {
    vram_point made;
    vram_status status = vr_submit_mark(pending->queue, &made);
    if (status == VRAM_OK) {
        *pending = (struct vr_slot_work){.point = made};
    } else if (status == VRAM_ERR_STALE && vr_handle_was(VR_KIND_QUEUE, pending->queue)) {
        *pending = (struct vr_slot_work){.queue = NULL};
        status = VRAM_OK;
    }
    return status;
}

static vram_status poll_work(struct vr_slot_work *pending) {
    vram_status status = pending->queue ? mark_late(pending) : VRAM_OK;
    if (status == VRAM_OK) {
        status = vr_point_poll(pending->point);
    }
    if (status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST) {
        *pending = (struct vr_slot_work){.queue = NULL}; /* no work runs on a lost device */
        return VRAM_OK;
    }
    return status;
}

vram_status vr_slot_settled(struct vr_frame_slot *slot) {
    struct vram_error error;
    vr_error_save(&error);
    for (int i = 0; i < VR_SLOT_QUEUES; i++) {
        vram_status status = poll_work(&slot->pending[i]);
        if (status != VRAM_OK) {
            return status;
        }
    }
    vr_error_restore(&error);
    return VRAM_OK;
}

vram_status vr_slot_settle(struct vr_frame_slot *slot, uint64_t deadline) {
    vram_status status;
    unsigned refusals = 0;
    while ((status = vr_slot_settled(slot)) != VRAM_OK) {
        refusals += status != VRAM_ERR_NOT_READY;
        if (refusals == REFUSALS || vr_deadline_passed(deadline) || vr_exiting()) {
            return status == VRAM_ERR_NOT_READY ? VRAM_ERR_TIMEOUT : status;
        }
        vr_clock_sleep(50000);
    }
    return VRAM_OK;
}

/* -------------------------------------------------------------------- memory */

static void free_host(void *host, bool pinned, vram_device *device) {
    if (!pinned) {
        vr_mem_free(host);
    } else { /* a closing device frees its memory itself */
        (void)vr_device_free(device, (vram_addr)(uintptr_t)host);
    }
}

/* Whether ordinary memory is an acceptable replacement after this failure to page-lock. */
static bool may_be_pageable(vram_status status) {
    return vr_status_is_exhausted(status) || status == VRAM_ERR_UNSUPPORTED;
}

vram_status vr_slot_reserve_host(struct vr_frame_slot *slot, vram_device *device, uint64_t bytes) {
    struct vram_error error;
    vram_addr addr = 0;
    if (slot->host && slot->host_bytes >= bytes) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = vr_device_alloc(device, bytes, VRAM_MEMORY_PINNED, &addr);
    void *host = (void *)(uintptr_t)addr;
    bool pinned = status == VRAM_OK;
    if (may_be_pageable(status)) {
        vr_error_restore(&error);
        host = bytes <= SIZE_MAX ? vr_mem_alloc(1, (size_t)bytes, vr_operation()) : NULL;
        status = host ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    }
    if (status != VRAM_OK) {
        return status;
    }
    free_host(slot->host, slot->pinned, device);
    vr_error_restore(&error); /* a driver that refuses to free memory is reported by the log */
    slot->host = host;
    slot->host_bytes = bytes;
    slot->pinned = pinned;
    return VRAM_OK;
}

vram_status vr_slot_reserve_shadow(struct vr_frame_slot *slot, vram_device *device,
                                   uint64_t bytes) {
    struct vram_error error;
    vram_addr addr;
    if (slot->shadow && slot->shadow_bytes >= bytes) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = vr_device_alloc(device, bytes, VRAM_MEMORY_DEVICE, &addr);
    if (vr_status_is_exhausted(status) && slot->shadow) {
        /* Frees the smaller one first: it is too small for this frame, and its memory may be what
           is missing. */
        (void)vr_device_free(device, slot->shadow);
        slot->shadow = 0;
        slot->shadow_bytes = 0;
        status = vr_device_alloc(device, bytes, VRAM_MEMORY_DEVICE, &addr);
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (slot->shadow) {
        (void)vr_device_free(device, slot->shadow);
    }
    vr_error_restore(&error);
    slot->shadow = addr;
    slot->shadow_bytes = bytes;
    return VRAM_OK;
}

bool vr_slot_end(struct vr_frame_slot *slot, vram_device *device, uint64_t deadline) {
    bool settled = vr_slot_settle(slot, deadline) == VRAM_OK;
    if (settled) {
        if (slot->host) {
            free_host(slot->host, slot->pinned, device);
        }
        if (slot->shadow) {
            (void)vr_device_free(device, slot->shadow);
        }
    } else if (slot->host && !slot->pinned) {
        vr_log(VRAM_LOG_ERROR, "a transfer never finished; its %llu bytes of host memory are kept",
               (unsigned long long)slot->host_bytes);
    }
    *slot = (struct vr_frame_slot){.host = NULL};
    return settled;
}
