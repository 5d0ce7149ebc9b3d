/* SPDX-License-Identifier: Apache-2.0 */
/*
 * submit.c: access to queues and memory of a device for libraries on top of libvram.
 */
#include "device/objects.h"

#include "base/error.h"
#include "base/size.h"
#include "device/address.h"
#include "vram/extension.h"

vram_status vram_queue_submit(vram_queue *handle, vram_submit_fn *submit, void *user) {
    VR_CALL;
    void *queue;
    if (!submit) {
        return vr_fail(VRAM_ERR_INVALID, "the function that submits is NULL");
    }
    vram_status status = vr_submit_enter(handle, &queue);
    if (status == VRAM_OK) {
        VR_UNCANCELLED;
        status = submit(user, ((struct vr_queue_object *)queue)->base.native);
        vr_submit_leave(queue);
    }
    return status;
}

/* Page-locked memory that kernels access by its address. */
static bool is_pinned(struct vr_device_object *device, vram_addr addr, uint64_t bytes,
                      struct vr_address_info *place) {
    return device->base.info.caps & VRAM_CAP_TRUE_ADDRESS && vr_address_find(addr, place) &&
           place->device == device->object.handle && place->kind == VRAM_MEMORY_PINNED &&
           vr_inside(addr, bytes, place->base, place->bytes) &&
           vr_address_info_covers(device, place, addr, bytes);
}

vram_status vram_memory_check(vram_device *handle, vram_addr addr, uint64_t bytes) {
    VR_CALL;
    struct vr_address_info place;
    void *device;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status == VRAM_OK) {
        status = is_pinned(device, addr, bytes, &place) ? vr_block_check(&place, addr, bytes)
                                                        : vr_span_check(device, addr, bytes);
        vr_leave(device);
    }
    return status;
}

bool vram_memory_is_known(const void *host) {
    struct vr_address_info place;
    return vr_address_find((vram_addr)(uintptr_t)host, &place);
}

vram_status vram_host_free_later(vram_device *handle, void *memory) {
    VR_CALL;
    void *device;
    if (!memory) {
        return VRAM_OK;
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status == VRAM_OK) {
        vr_device_free_later(device, memory);
        vr_leave(device);
    }
    return status;
}
