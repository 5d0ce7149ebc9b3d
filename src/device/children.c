/* SPDX-License-Identifier: Apache-2.0 */
/*
 * children.c: the lists of a context's devices and of a device's children.
 *
 * Each list is guarded by the lock of the parent. A walk takes one child at a time, with a
 * reference, and holds no lock in between: the list may change meanwhile.
 */
#include "device/objects.h"

#include "base/error.h"
#include "device/address.h"

/* ------------------------------------------------------------------ walking */

struct vr_device_object *vr_device_behind(struct vr_context *context, uint64_t last) {
    struct vr_device_object *best = NULL;
    vr_mutex_lock(&context->lock);
    for (struct vr_link *link = vr_list_first(&context->devices); link;
         link = vr_list_next(&context->devices, link)) {
        struct vr_device_object *device = VR_CONTAINER(link, struct vr_device_object, link);
        uint64_t handle = device->object.handle;
        best = handle > last && (!best || handle < best->object.handle) ? device : best;
    }
    if (best) {
        vr_handle_ref(best->object.handle); /* listed: its owner still has its reference */
    }
    vr_mutex_unlock(&context->lock);
    return best;
}

struct vr_queue_object *vr_queue_behind(struct vr_device_object *device, uint64_t last) {
    struct vr_queue_object *best = NULL;
    vr_mutex_lock(&device->lock);
    for (struct vr_link *link = vr_list_first(&device->queues); link;
         link = vr_list_next(&device->queues, link)) {
        struct vr_queue_object *queue = VR_CONTAINER(link, struct vr_queue_object, link);
        uint64_t handle = queue->object.handle;
        best = handle > last && (!best || handle < best->object.handle) ? queue : best;
    }
    if (best) {
        vr_handle_ref(best->object.handle);
    }
    vr_mutex_unlock(&device->lock);
    return best;
}

void *vr_shared_find(enum vr_kind kind, uint64_t handle) {
    struct vr_object *object = handle ? vr_handle_pin(kind, (const void *)(uintptr_t)handle) : NULL;
    if (object && vr_forked(object)) {
        vr_leave(object);
        object = NULL;
    }
    return object;
}

/* ------------------------------------------------------------------ listing */

vram_status vr_device_list_child(struct vr_device_object *device, struct vr_list *list,
                                 struct vr_link *link) {
    vr_mutex_lock(&device->lock);
    bool closing = device->closing;
    if (!closing) {
        vr_list_append(list, link);
    }
    vr_mutex_unlock(&device->lock);
    return closing ? vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed") : VRAM_OK;
}

void vr_queue_unlist(struct vr_queue_object *queue) {
    vr_mutex_lock(&queue->device->lock);
    vr_link_remove(&queue->link);
    vr_mutex_unlock(&queue->device->lock);
}

void vr_record_list(struct vr_device_object *device, struct vr_record *record) {
    vr_mutex_lock(&device->lock);
    vr_list_append(&device->records, &record->link);
    vr_mutex_unlock(&device->lock);
}

void vr_record_unlist(struct vr_device_object *device, struct vr_record *record) {
    vr_mutex_lock(&device->lock);
    vr_link_remove(&record->link);
    vr_mutex_unlock(&device->lock);
}
