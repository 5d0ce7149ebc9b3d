/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_error.c: the one table from Metal's codes to statuses, contract (4) of backend.h.
 *
 * The codes are those of command buffers. Other calls return nil, sometimes with an NSError, and
 * the caller says which status that is.
 */
#include "backend/metal/metal_backend.h"

#include "base/error.h"
#include "base/status.h"

static const struct metal_error_row {
    int64_t code;
    vram_status status;
    const char *text;
} rows[] = {
    {VR_MTL_INTERNAL, VRAM_ERR_BACKEND, "an internal error"},
    {VR_MTL_TIMEOUT, VRAM_ERR_BACKEND, "the work took too long and was stopped"},
    {VR_MTL_PAGE_FAULT, VRAM_ERR_BACKEND, "the work touched memory that is not its own"},
    {VR_MTL_ACCESS_REVOKED, VRAM_ERR_DEVICE_LOST,
     "the system has taken the device away after too many faults; restart the program"},
    {VR_MTL_NOT_PERMITTED, VRAM_ERR_UNSUPPORTED, "the process may not use the device now"},
    {VR_MTL_OUT_OF_MEMORY, VRAM_ERR_DEVICE_MEMORY, "the work needs more memory than there is"},
    {VR_MTL_INVALID_RESOURCE, VRAM_ERR_BACKEND, "memory was freed under the work"},
    {VR_MTL_MEMORYLESS, VRAM_ERR_BACKEND, "no room for memoryless textures"},
    {VR_MTL_DEVICE_REMOVED, VRAM_ERR_DEVICE_LOST, "the device was removed"},
    {VR_MTL_STACK_OVERFLOW, VRAM_ERR_BACKEND, "a kernel's stack overflowed"},
};

static const struct metal_error_row *error_row_find(int64_t code) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].code == code) {
            return &rows[i];
        }
    }
    return NULL;
}

vram_status vr_metal_status(int64_t code) {
    const struct metal_error_row *row = error_row_find(code);
    vram_status status = row ? row->status : VRAM_ERR_BACKEND;
    return vr_error_set(status, "metal", "MTLCommandBuffer", code,
                        "work submitted earlier failed: %s (%lld)", row ? row->text : "no reason",
                        (long long)code);
}

vram_status vr_metal_nil(vram_status status, const char *operation) {
    return vr_error_set(status, "metal", operation, 0, "%s gave nothing: %s", operation,
                        vr_status_text(status));
}

vram_status vr_metal_error(const struct vr_metal_api *api, vr_mtl_id error, vram_status status,
                           const char *operation) {
    vr_mtl_id words = error ? VR_SEND0(api, error_text, error) : NULL;
    const char *text = words ? VR_SEND0(api, utf8, words) : NULL;
    if (!text) {
        return vr_metal_nil(status, operation);
    }
    return vr_error_set(status, "metal", operation, VR_SEND0(api, error_code, error), "%s: %s",
                        operation, text);
}
