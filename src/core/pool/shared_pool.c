/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_pool.c: the process's own pool of a device; vram/shared.h. Its handle lies in the device,
 * and is entered by compare-and-swap, as src/device/shared_device.c does.
 */
#include "core/pool/pool_calls.h"

#include "base/error.h"
#include "device/objects.h"
#include "vram/shared.h"

static vram_status pool_find(vram_device *handle, struct vr_device_object *device,
                             vram_pool **out) {
    const struct vram_pool_options options = {.size = sizeof options, .name = "shared"};
    for (;;) {
        uint64_t before = vr_load(&device->shared_pool, VR_ACQUIRE);
        void *pool = vr_shared_find(VR_KIND_POOL, before);
        if (pool) {
            *out = (vram_pool *)(uintptr_t)before;
            vr_leave(pool);
            return VRAM_OK;
        }
        vram_pool *made;
        vram_status status = vr_pool_create(handle, &options, &made);
        if (status != VRAM_OK) {
            return status;
        }
        if (!vr_cas(&device->shared_pool, &before, (uint64_t)(uintptr_t)made, VR_ACQ_REL)) {
            (void)vr_pool_destroy(made);
        }
    }
}

vram_status vram_pool_shared(vram_device *handle, vram_pool **out) {
    VR_CALL;
    void *device;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the pool is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_device_is_shared(device)
                 ? pool_find(handle, device, out)
                 : vr_fail(VRAM_ERR_INVALID, "the device is a handle of the program's own; the "
                                             "shared pool is that of vram_device_shared");
    vr_leave(device);
    return status;
}
