/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_object.c: buffers that the program created. Only on an adopted device: the program cannot
 * create buffers on a device of the library.
 *
 *      window   [ 0 ... offset )[ offset ... offset + bytes )   ->  record  ->  the program's
 *      VkBuffer
 *                                ^ the address that is returned
 *
 * The window begins where the buffer does, so that an offset in the window is an offset in the
 * buffer. The record has no memory of its own. Vulkan counts no references and reports neither size
 * nor usage of a buffer. It reports the memory that the buffer needs, which is an upper bound of
 * its size; for the rest the program is trusted.
 */
#include "backend/vulkan/vulkan_backend.h"
#include "vram/buffer.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/window.h"

/* The whole pages that a window up to `end` needs. */
static uint64_t window_bytes(uint64_t end) {
    uint64_t page = vr_os_page_bytes();
    return (end + page - 1) / page * page;
}

static vram_status object_check(struct vr_vulkan_device *vulkan, struct vr_vk_buffer *buffer,
                                const struct vram_wrap *wrap, uint64_t *end) {
    struct vr_vk_requirements needs = {0};
    bool fits = vr_add(wrap->offset, wrap->bytes, end);
    if (fits) {
        vulkan->api.vkGetBufferMemoryRequirements(vulkan->handle, buffer, &needs);
        fits = *end <= needs.bytes;
    }
    return fits ? VRAM_OK
                : vr_error_set(VRAM_ERR_INVALID, "vulkan", "vkGetBufferMemoryRequirements", 0,
                               "%llu bytes at %llu are not in the VkBuffer, which needs %llu bytes "
                               "of memory",
                               (unsigned long long)wrap->bytes, (unsigned long long)wrap->offset,
                               (unsigned long long)needs.bytes);
}

static vram_status object_adopt(struct vr_device *device, const struct vram_wrap *wrap,
                                vram_addr *addr) {
    struct vr_vulkan_device *vulkan = device->impl;
    vram_addr base;
    uint64_t end = 0;
    vram_status status = object_check(vulkan, wrap->pointer, wrap, &end);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_vulkan_memory *memory = vr_vulkan_memory_take(end);
    if (!memory) {
        return VRAM_ERR_HOST_MEMORY;
    }
    memory->own.buffer = wrap->pointer;
    memory->own.address = wrap->address;
    vr_vulkan_memory_show(vulkan, memory);
    status = vr_window_open(window_bytes(end), vr_os_page_bytes(), memory, "vulkan_adopt", &base);
    if (status != VRAM_OK) {
        memory->own.buffer = NULL; /* the program's: not destroyed */
        vr_vulkan_memory_end(vulkan, memory, false);
        return status;
    }
    *addr = base + wrap->offset;
    return VRAM_OK;
}

static void object_give(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    uint64_t offset = 0;
    struct vr_vulkan_memory *memory = vr_window_find(addr, &offset);
    vr_window_close(addr - offset, window_bytes(offset + bytes));
    memory->own.buffer = NULL;
    vr_vulkan_memory_end(device->impl, memory, vr_load(&device->lost, VR_ACQUIRE));
}

const struct vr_object_ops vr_vulkan_object_ops = {
    .adopt = object_adopt, .give = object_give, .native = vr_vulkan_native};
