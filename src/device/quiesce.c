/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiesce.c: see quiesce.h.
 */
#include "device/quiesce.h"

#include "base/error.h"
#include "base/os/os.h"
#include "device/ops.h"

#define POLL_NS UINT64_C(20000) /* ns between two polls */

/* Whether the queue has work, is getting work, or cannot tell. */
static bool is_working(struct vr_queue_object *queue) {
    vram_status status = VRAM_OK;
    if (vr_load(&queue->captured, VR_ACQUIRE) || vr_entry_inside(&queue->submitting)) {
        return true;
    }
    if (vr_queue_hold(queue)) {
        status = vr_queue_poll(&queue->base);
        vr_queue_release(queue);
    }
    return status != VRAM_OK && status != VRAM_ERR_DEVICE_LOST;
}

static bool has_work(struct vr_device_object *device) {
    bool working = false;
    uint64_t last = 0;
    for (struct vr_queue_object *queue; !working && (queue = vr_queue_behind(device, last));) {
        last = queue->object.handle;
        working = is_working(queue);
        vr_leave(queue);
    }
    return working;
}

/* Keeps (1). The time is stored after the thread and before the queues are checked, for (4). */
bool vr_quiesce_begin(struct vr_device_object *device) {
    struct vr_context *context = device->context;
    struct vram_error error;
    uint64_t none = 0, last = 0;
    bool working = false;
    if (!vr_cas(&context->quiescing_thread, &none, vr_os_thread_number(), VR_SEQ_CST)) {
        return false;
    }
    vr_store(&context->quiesce_began, vr_os_now(), VR_SEQ_CST);
    vr_error_save(&error);
    for (struct vr_device_object *other; !working && (other = vr_device_behind(context, last));) {
        last = other->object.handle;
        working = other->base.backend == device->base.backend && has_work(other);
        vr_leave(other);
    }
    vr_error_restore(&error);
    if (working) {
        vr_quiesce_end(device);
    }
    return !working;
}

void vr_quiesce_end(struct vr_device_object *device) {
    vr_store(&device->context->quiescing_thread, 0, VR_SEQ_CST);
}

/* Keeps (2), (3) and (4). */
void vr_quiesce_await(struct vr_device_object *device) {
    struct vr_context *context = device->context;
    for (uint64_t quiescing_thread;
         (quiescing_thread = vr_load(&context->quiescing_thread, VR_SEQ_CST)) &&
         quiescing_thread != vr_os_thread_number() &&
         vr_os_now() - vr_load(&context->quiesce_began, VR_SEQ_CST) < VR_QUIESCE_NS;) {
        vr_os_sleep(POLL_NS);
    }
}
