/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_reference.c: the count of those who need the native device, which the last of them closes.
 *
 * The device's handle is one of them. A queue of another device that was told to wait for a word of
 * this one is another, since the driver may look at that word for as long as the queue lives.
 */
#include "device/objects.h"

#include "base/memory.h"
#include "device/ops.h"

#include <string.h>

void vr_device_keep(struct vr_device_object *device) {
    vr_fetch_add(&device->keepers, 1, VR_RELAXED);
}

void vr_device_free_later(struct vr_device_object *device, void *memory) {
    vr_mutex_lock(&device->lock);
    memcpy(memory, &device->late, sizeof device->late);
    device->late = memory;
    vr_mutex_unlock(&device->lock);
}

/* Work that never ends keeps its queue and the device, and thereby this. */
static void free_late(struct vr_device_object *device) {
    for (void *memory = device->late, *next; memory; memory = next) {
        memcpy(&next, memory, sizeof next);
        vr_mem_free(memory);
    }
}

void vr_device_drop(struct vr_device_object *device) {
    uint64_t context = device->context->object.handle;
    if (vr_fetch_sub(&device->keepers, 1, VR_ACQ_REL) != 1) {
        return;
    }
    if (device->base.ops) {
        vr_device_close(&device->base);
    }
    free_late(device);
    vr_mutex_destroy(&device->lock);
    vr_handle_set_free(&device->natives);
    vr_mem_free(device->peers);
    vr_mem_free(vr_load(&device->transfers, VR_RELAXED));
    vr_mem_free(device);
    vr_handle_unpin(context);
}
