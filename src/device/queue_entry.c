/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue_entry.c: the calls that are inside a queue, so that its end can wait for them.
 *
 * Numbers in brackets are those of queue.c.
 */
#include "device/objects.h"

#include "base/error.h"

bool vr_queue_is_open(const struct vr_queue_object *queue) {
    return vr_entry_is_open(&queue->submitting) && !vr_load(&queue->closed, VR_SEQ_CST);
}

/* Queues that the calling thread is submitting to, so that its nested calls enter: keeps (2).
   Further queues are entered as by any other call. */
static _Thread_local struct {
    const struct vr_queue_object *queue; /* NULL: free */
    uint32_t depth;                      /* calls that have entered it and not left */
} inside[4];

enum { INSIDE = sizeof inside / sizeof inside[0] };

/* The index of a queue, or INSIDE if it is absent; with NULL, of a free entry. */
static unsigned inside_find(const struct vr_queue_object *queue) {
    unsigned i = 0;
    while (i < INSIDE && inside[i].queue != queue) {
        i++;
    }
    return i;
}

/* The caller has nothing to leave: it may tell by the pointer. */
static vram_status entry_refuse(void **entered) {
    vr_leave(*entered);
    *entered = NULL;
    return vr_fail(VRAM_ERR_STALE, "the queue was destroyed");
}

vram_status vr_queue_enter(const vram_queue *handle, void **entered) {
    vram_status status = vr_enter(VR_KIND_QUEUE, handle, entered);
    return status != VRAM_OK || vr_queue_is_open(*entered) || inside_find(*entered) < INSIDE
               ? status
               : entry_refuse(entered);
}

vram_status vr_submit_enter(const vram_queue *handle, void **entered) {
    vram_status status = vr_enter(VR_KIND_QUEUE, handle, entered);
    return status != VRAM_OK || vr_submit_begin(*entered) ? status : entry_refuse(entered);
}

void vr_submit_leave(void *queue) {
    vr_submit_end(queue);
    vr_leave(queue);
}

bool vr_submit_begin(struct vr_queue_object *queue) {
    unsigned at = inside_find(queue);
    if (at < INSIDE) {
        inside[at].depth++;
        return true;
    }
    if (!vr_entry_enter(&queue->submitting)) {
        return false;
    }
    if (vr_load(&queue->closed, VR_SEQ_CST)) { /* set before the count is waited for */
        vr_entry_leave(&queue->submitting);
        return false;
    }
    at = inside_find(NULL);
    if (at < INSIDE) {
        inside[at].queue = queue;
        inside[at].depth = 1;
    }
    return true;
}

void vr_submit_end(struct vr_queue_object *queue) {
    unsigned at = inside_find(queue);
    if (at < INSIDE && --inside[at].depth) {
        return;
    }
    if (at < INSIDE) {
        inside[at].queue = NULL;
    }
    vr_entry_leave(&queue->submitting);
}

vram_status vr_calls_wait(const struct vr_queue_object *queue, const struct vr_entry_guard *guard,
                          uint64_t deadline) {
    VR_OPERATION("vram_queue_destroy");
    const vr_atomic_bool *lost = &queue->base.device->lost;
    return vr_entry_wait(guard, deadline, lost) || vr_load(lost, VR_ACQUIRE)
               ? VRAM_OK
               : vr_fail(VRAM_ERR_TIMEOUT, "another thread did not leave the queue in time");
}

bool vr_submits_wait(struct vr_device_object *device, uint64_t deadline) {
    bool left = true;
    uint64_t last = 0;
    for (struct vr_queue_object *queue; (queue = vr_queue_behind(device, last));) {
        last = queue->object.handle;
        left = left && (inside_find(queue) < INSIDE ||
                        vr_calls_wait(queue, &queue->submitting, deadline) == VRAM_OK);
        vr_leave(queue);
    }
    return left;
}

bool vr_queue_hold(struct vr_queue_object *queue) {
    return vr_entry_enter(&queue->querying);
}

void vr_queue_release(struct vr_queue_object *queue) {
    vr_entry_leave(&queue->querying);
}
