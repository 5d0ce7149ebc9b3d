/* SPDX-License-Identifier: Apache-2.0 */
/*
 * physical.c: memory without an address.
 */
#include "device/mapping.h"
#include "vram/vmm.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "device/ops.h"

static void physical_free(void *memory) {
    struct vr_physical *physical = memory;
    struct vr_device_object *device = physical->device;
    if (physical->native && !physical->mapped) {
        /* Tries twice: the driver may refuse temporarily. */
        if (vr_vmm_release(&device->base, physical->native, physical->bytes) != VRAM_OK &&
            vr_vmm_release(&device->base, physical->native, physical->bytes) != VRAM_OK) {
            vr_log(VRAM_LOG_ERROR, "the driver refused to free %llu bytes: %s",
                   (unsigned long long)physical->bytes, vr_error_get()->text);
        }
        vr_held_sub(device, physical->bytes);
        vr_uncharge(device, physical->bytes);
    }
    vr_mutex_lock(&device->lock);
    vr_link_remove(&physical->link);
    vr_mutex_unlock(&device->lock);
    vr_mem_free(physical);
    vr_leave(device);
}

static vram_status physical_make(struct vr_device_object *device, uint64_t bytes,
                                 vram_physical **out) {
    struct vr_physical *physical = vr_mem_alloc(1, sizeof *physical, vr_operation());
    if (!physical) {
        return VRAM_ERR_HOST_MEMORY;
    }
    physical->object.process = vr_os_process_generation();
    physical->device = device;
    physical->bytes = bytes;
    vr_handle_ref(device->object.handle);
    vram_status status = vr_charge(device, bytes);
    if (status != VRAM_OK) {
        goto fail;
    }
    status = vr_vmm_create(&device->base, bytes, &physical->native);
    if (status != VRAM_OK) {
        vr_uncharge(device, bytes);
        goto fail;
    }
    uint64_t held = vr_held_add(device, bytes);
    status = vr_handle_publish(VR_KIND_PHYSICAL, physical, physical_free, &physical->object.handle);
    if (status != VRAM_OK) {
        goto fail;
    }
    uint64_t handle = physical->object.handle;
    status = vr_device_list_child(device, &device->physicals, &physical->link);
    if (status != VRAM_OK) {
        if (vr_handle_retire(handle)) {
            vr_handle_unpin(handle);
        }
        return status;
    }
    vr_held_peak(device, held);
    *out = (vram_physical *)(uintptr_t)handle;
    return VRAM_OK;
fail : {
    struct vram_error error;
    vr_error_save(&error);
    physical_free(physical);
    vr_error_restore(&error);
    return status;
}
}

vram_status vram_physical_create(vram_device *handle, uint64_t bytes, vram_physical **physical) {
    VR_CALL;
    void *device;
    uint64_t rounded;
    if (!physical) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the handle is NULL");
    }
    vram_status status = vr_vmm_enter(handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_vmm_round(device, bytes, &rounded);
    if (status == VRAM_OK) {
        status = physical_make(device, rounded, physical);
    }
    vr_leave(device);
    return status;
}

/* Prevents other threads from mapping or releasing the handle. */
static vram_status physical_claim(struct vr_physical *physical) {
    vram_status status = VRAM_OK;
    vr_mutex_lock(&physical->device->lock);
    if (physical->mapped) {
        status = vr_fail(VRAM_ERR_BUSY, "the memory is mapped; unmap it first");
    } else if (physical->releasing || !vr_link_linked(&physical->link)) {
        status = vr_fail(VRAM_ERR_STALE, "the handle was destroyed meanwhile");
    } else {
        physical->releasing = true;
    }
    vr_mutex_unlock(&physical->device->lock);
    return status;
}

/* Releases a claimed handle's memory to the driver. If the driver refuses, the handle stays as it
   was. */
static vram_status physical_release(struct vr_physical *physical) {
    struct vr_device_object *device = physical->device;
    vram_status status = vr_vmm_release(&device->base, physical->native, physical->bytes);
    if (status == VRAM_OK) {
        physical->native = 0;
        vr_held_sub(device, physical->bytes);
        vr_uncharge(device, physical->bytes);
    }
    vr_mutex_lock(&device->lock);
    physical->releasing = status == VRAM_OK;
    if (status == VRAM_OK) {
        vr_link_remove(&physical->link);
    }
    vr_mutex_unlock(&device->lock);
    return status;
}

vram_status vram_physical_destroy(vram_physical *handle) {
    VR_CALL;
    void *entered;
    if (!handle || vr_exiting()) {
        return VRAM_OK;
    }
    vram_status status = vr_enter(VR_KIND_PHYSICAL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_physical *physical = entered;
    status = physical_claim(physical);
    if (status == VRAM_OK) {
        status = physical_release(physical);
        if (status == VRAM_OK && vr_handle_retire(physical->object.handle)) {
            vr_handle_unpin(physical->object.handle);
        }
    }
    vr_leave(physical);
    return status;
}

uint64_t vram_physical_bytes(vram_physical *handle) {
    VR_CALL;
    void *physical;
    if (vr_enter(VR_KIND_PHYSICAL, handle, &physical) != VRAM_OK) {
        return 0;
    }
    uint64_t bytes = ((struct vr_physical *)physical)->bytes;
    vr_leave(physical);
    return bytes;
}
