/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_reference.c: counts the users of the native device; the last one closes it.
 *
 * The device's handle is one of them. A queue of another device that waits for a word of this
 * device is another, since the driver may read that word as long as the queue exists.
 */
#include "device/objects.h"

#include "base/memory.h"
#include "device/ops.h"

#include <string.h>

void vr_native_ref(struct vr_device_object *device) {
    vr_fetch_add(&device->native_users, 1, VR_RELAXED);
}

void vr_device_free_later(struct vr_device_object *device, void *memory) {
    vr_mutex_lock(&device->lock);
    memcpy(memory, &device->deferred, sizeof device->deferred);
    device->deferred = memory;
    vr_mutex_unlock(&device->lock);
}

/* If work never ends, its queue and the device are kept, and so is this memory. */
static void deferred_free(struct vr_device_object *device) {
    for (void *memory = device->deferred, *next; memory; memory = next) {
        memcpy(&next, memory, sizeof next);
        vr_mem_free(memory);
    }
}

void vr_native_unref(struct vr_device_object *device) {
    uint64_t context = device->context->object.handle;
    if (vr_fetch_sub(&device->native_users, 1, VR_ACQ_REL) != 1) {
        return;
    }
    if (device->base.ops) {
        vr_device_close(&device->base);
    }
    deferred_free(device);
    vr_mutex_destroy(&device->lock);
    vr_handle_set_free(&device->natives);
    vr_mem_free(device->peers);
    vr_mem_free(vr_load(&device->transfers, VR_RELAXED));
    vr_mem_free(device);
    vr_handle_unpin(context);
}
