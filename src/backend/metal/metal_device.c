/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_device.c: opening and closing a device.
 */
#include "backend/metal/metal_backend.h"

#include "base/error.h"
#include "base/memory.h"

/* Objects are released on a lost device too: that concerns this process only, not the device. */
static void device_close(struct vr_device *device) {
    struct vr_metal_device *metal = device->impl;
    void *pool = metal->api->objc_autoreleasePoolPush();
    vr_metal_builtins_end(metal);
    VR_SEND0(metal->api, release, metal->device);
    metal->api->objc_autoreleasePoolPop(pool);
    vr_mutex_destroy(&metal->lock);
    vr_mem_free(metal);
    device->impl = NULL;
}

static const struct vr_device_ops device_ops = {
    .close = device_close,
    .memory_info = vr_metal_memory_info,
    .alloc = vr_metal_memory_alloc,
    .free = vr_metal_memory_free,
};

/* Buffers report their address on newer systems; a buffer is created only to ask. */
static bool has_addresses(struct vr_metal_device *metal) {
    vr_mtl_id buffer;
    void *contents;
    struct vram_error error;
    vr_error_save(&error);
    if (vr_metal_shared_buffer_make(metal, VR_METAL_GRANULE, "gpuAddress", &buffer, &contents) !=
        VRAM_OK) {
        vr_error_restore(&error);
        return false;
    }
    bool tells = VR_SEND(metal->api, responds, buffer, metal->api->selectors[VR_METAL_gpu_address]);
    VR_SEND0(metal->api, release, buffer);
    return tells;
}

static vram_status device_start(struct vr_metal_device *metal, const struct vr_metal *backend,
                                uint32_t index) {
    vr_mtl_id found = vr_metal_device_at(backend, index);
    if (!found) {
        return VRAM_ERR_NO_DEVICE;
    }
    metal->device = VR_SEND0(metal->api, retain, found);
    vram_status status = vr_metal_builtins_make(metal);
    if (status != VRAM_OK) {
        VR_SEND0(metal->api, release, metal->device);
        return status;
    }
    metal->addresses = has_addresses(metal);
    return VRAM_OK;
}

vram_status vr_metal_device_open(struct vr_device *device) {
    const struct vr_metal *backend = device->backend->impl;
    struct vr_metal_device *metal = vr_mem_alloc(1, sizeof *metal, "metal_device_open");
    if (!metal) {
        return VRAM_ERR_HOST_MEMORY;
    }
    metal->api = &backend->api;
    vr_mutex_init(&metal->lock, VR_RANK_BACKEND);
    vr_list_init(&metal->pinned);
    void *pool = metal->api->objc_autoreleasePoolPush();
    vram_status status = device_start(metal, backend, device->index);
    metal->api->objc_autoreleasePoolPop(pool);
    if (status != VRAM_OK) {
        vr_mutex_destroy(&metal->lock);
        vr_mem_free(metal);
        return status;
    }
    device->impl = metal;
    device->ops = &device_ops;
    device->queue_ops = &vr_metal_queue_ops;
    device->pinned = &vr_metal_pinned_ops;
    device->kernel = &vr_metal_kernel_ops;
    device->handles = &vr_metal_handle_ops;
    return VRAM_OK;
}
