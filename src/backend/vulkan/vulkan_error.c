/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_error.c: the one table from Vulkan's result codes to statuses, contract (4) of backend.h.
 *
 * A code without a row, documented or not, is VRAM_ERR_BACKEND. So are codes above 0, which are
 * kinds of success: the few calls that may return them check for them first.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"

static const struct vulkan_error_row {
    vr_vk_result code;
    vram_status status;
    const char *name; /* as in Vulkan's documentation */
    const char *hint; /* what the user can do about it, or NULL */
} rows[] = {
    {VR_VK_SUCCESS, VRAM_OK, "VK_SUCCESS", NULL},
    {VR_VK_OUT_OF_HOST_MEMORY, VRAM_ERR_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY", NULL},
    {VR_VK_OUT_OF_DEVICE_MEMORY, VRAM_ERR_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY", NULL},
    {VR_VK_INITIALIZATION_FAILED, VRAM_ERR_NO_DRIVER, "VK_ERROR_INITIALIZATION_FAILED",
     "the driver is there but does not start; VK_LOADER_DEBUG=all tells more"},
    {VR_VK_DEVICE_LOST, VRAM_ERR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST",
     "work submitted earlier failed, or the device was reset"},
    {VR_VK_MEMORY_MAP_FAILED, VRAM_ERR_HOST_MEMORY, "VK_ERROR_MEMORY_MAP_FAILED", NULL},
    {VR_VK_LAYER_NOT_PRESENT, VRAM_ERR_NO_DRIVER, "VK_ERROR_LAYER_NOT_PRESENT",
     "VK_INSTANCE_LAYERS names a layer that is not installed"},
    {VR_VK_EXTENSION_NOT_PRESENT, VRAM_ERR_UNSUPPORTED, "VK_ERROR_EXTENSION_NOT_PRESENT", NULL},
    {VR_VK_FEATURE_NOT_PRESENT, VRAM_ERR_UNSUPPORTED, "VK_ERROR_FEATURE_NOT_PRESENT", NULL},
    {VR_VK_INCOMPATIBLE_DRIVER, VRAM_ERR_NO_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER",
     "no driver was found: install one, or see what VK_DRIVER_FILES names"},
    {VR_VK_TOO_MANY_OBJECTS, VRAM_ERR_LIMIT, "VK_ERROR_TOO_MANY_OBJECTS",
     "the driver's limit on allocations is reached; a pool takes few large ones"},
    {VR_VK_FORMAT_NOT_SUPPORTED, VRAM_ERR_UNSUPPORTED, "VK_ERROR_FORMAT_NOT_SUPPORTED", NULL},
    {VR_VK_FRAGMENTED_POOL, VRAM_ERR_HOST_MEMORY, "VK_ERROR_FRAGMENTED_POOL", NULL},
    {VR_VK_UNKNOWN, VRAM_ERR_BACKEND, "VK_ERROR_UNKNOWN",
     "validation layers (VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation) may tell more"},
    {VR_VK_OUT_OF_POOL_MEMORY, VRAM_ERR_HOST_MEMORY, "VK_ERROR_OUT_OF_POOL_MEMORY", NULL},
    {VR_VK_FRAGMENTATION, VRAM_ERR_FRAGMENTED, "VK_ERROR_FRAGMENTATION", NULL},
    {VR_VK_INVALID_ADDRESS, VRAM_ERR_BACKEND, "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS", NULL},
    {VR_VK_INVALID_SHADER, VRAM_ERR_INVALID, "VK_ERROR_INVALID_SHADER_NV", NULL},
    {VR_VK_INVALID_EXTERNAL_HANDLE, VRAM_ERR_INVALID, "VK_ERROR_INVALID_EXTERNAL_HANDLE", NULL},
    {VR_VK_NOT_PERMITTED, VRAM_ERR_UNSUPPORTED, "VK_ERROR_NOT_PERMITTED_KHR", NULL},
};

static const struct vulkan_error_row *error_row_find(vr_vk_result code) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (code == rows[i].code) {
            return &rows[i];
        }
    }
    return NULL;
}

vram_status vr_vulkan_check(const char *operation, vr_vk_result code, vram_status exhausted) {
    if (code == VR_VK_SUCCESS) {
        return VRAM_OK;
    }
    const struct vulkan_error_row *row = error_row_find(code);
    if (!row) {
        return vr_error_set(VRAM_ERR_BACKEND, "vulkan", operation, code, "%s answered %d",
                            operation, code);
    }
    vram_status status = row->status == VRAM_ERR_DEVICE_MEMORY ? exhausted : row->status;
    return vr_error_set(status, "vulkan", operation, code, "%s answered %s (%d)%s%s", operation,
                        row->name, code, row->hint ? "; " : "", row->hint ? row->hint : "");
}

vram_status vr_vulkan_device_check(struct vr_vulkan_device *device, const char *operation,
                                   vr_vk_result code, vram_status exhausted) {
    if (code == VR_VK_DEVICE_LOST) {
        vr_store(&device->lost, true, VR_RELEASE);
    }
    return vr_vulkan_check(operation, code, exhausted);
}

vram_status vr_vulkan_bad_result(const char *operation, uint64_t result) {
    return vr_error_set(VRAM_ERR_CORRUPT, "vulkan", operation, 0,
                        "%s succeeded with 0x%llx, which cannot be; the driver is broken",
                        operation, (unsigned long long)result);
}
