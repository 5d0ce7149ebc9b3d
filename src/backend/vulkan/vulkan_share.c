/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_share.c: memory that other processes import, by VK_KHR_external_memory_fd.
 *
 *  (1) A handle is the address of a whole allocation: Vulkan maps no memory at addresses of ours.
 *      Memory is made exportable from the start, and a descriptor gives access to all of it.
 *  (2) An opaque descriptor can be imported by the same driver and device only, into memory of the
 *      same type and size, and a buffer made in the same way. src/share compares the two UUIDs;
 *      the rest holds because both sides take the best type, and nothing but whole granules.
 *  (3) A successful import takes the descriptor; the driver counts references to the memory.
 *  (4) A descriptor cannot be made read-only: copies and fills are refused by their address alone.
 *  (5) The specification wants the ownership of a buffer passed between queue families of the two
 *      processes. Drivers do nothing at that for buffers, and the library does not record it.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/window.h"

bool vr_vulkan_can_share(const struct vr_vulkan_device *device, const char **reason) {
    *reason = device->backend->adopted.device
                  ? "it was adopted, and buffers of another process would differ from its own"
              : !device->physical->external_fd
                  ? "its driver has no VK_KHR_external_memory_fd for buffers"
              : !device->api.vkGetMemoryFdKHR ? "its driver has no vkGetMemoryFdKHR"
                                              : NULL;
    return !*reason;
}

static vram_status share_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    struct vr_vulkan_memory *memory;
    vram_status status = vr_vulkan_memory_make_external(device->impl, bytes, NULL, &memory);
    return status == VRAM_OK ? vr_vulkan_memory_publish(device->impl, memory, handle) : status;
}

/* The memory is exported, so nobody frees it meanwhile. */
static vram_status share_export(struct vr_device *device, uint64_t handle, uint64_t bytes,
                                bool read_only, int *descriptor) {
    struct vr_vulkan_device *vulkan = device->impl;
    uint64_t offset;
    const struct vr_vulkan_memory *memory = vr_window_find(handle, &offset);
    int found = -1;
    (void)bytes;
    (void)read_only; /* (4) */
    if (!memory || !memory->own.external) {
        return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vkGetMemoryFdKHR", 0,
                            "0x%llx is no memory that can be exported", (unsigned long long)handle);
    }
    const struct vr_vk_get_fd info = {.head = {VR_VK_TYPE_GET_FD, NULL},
                                      .memory = memory->own.memory,
                                      .handle_type = VR_VK_OPAQUE_FD};
    vram_status status = VR_VULKAN(vulkan, vkGetMemoryFdKHR, vulkan->handle, &info, &found);
    if (status == VRAM_OK && found < 0) {
        return vr_vulkan_bad_result("vkGetMemoryFdKHR", (uint64_t)(int64_t)found);
    }
    if (status == VRAM_OK) {
        *descriptor = found;
    }
    return status;
}

static vram_status share_import(struct vr_device *device, int descriptor, uint64_t bytes,
                                uint64_t *handle) {
    struct vr_vulkan_memory *memory;
    vram_error error;
    int own; /* the caller keeps its own; (3) */
    vram_status status = vr_os_shared_duplicate(descriptor, &own);
    if (status == VRAM_OK) {
        status = vr_vulkan_memory_make_external(device->impl, bytes, &own, &memory);
        if (own >= 0) {
            vr_error_save(&error);
            vr_os_file_close(own);
            vr_error_restore(&error);
        }
    }
    if (status != VRAM_OK) {
        return status;
    }
    memory->own.import_from = NULL;
    return vr_vulkan_memory_publish(device->impl, memory, handle);
}

const struct vr_share_ops vr_vulkan_share_ops = {
    .create = share_create,
    .export_handle = share_export,
    .import_handle = share_import,
    .export_is_slow = true,
};
