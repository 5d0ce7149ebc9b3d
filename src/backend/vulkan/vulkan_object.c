/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_object.c: buffers that the program made, used where they are. Only of a device that the
 * program gave us: of one of ours it has no way to make any.
 *
 *      window   [ 0 ... offset )[ offset ... offset + bytes )   ->  block  ->  the program's
 *               VkBuffer
 *                                ^ what is given out
 *
 * The window begins where the buffer does, so that an address's place in the window is its place in
 * the buffer. The block has no memory of its own. Vulkan counts no references and tells neither a
 * buffer's size nor its usage: what is told, the memory that it needs, is a bound on its size, and
 * the rest is the program's word.
 */
#include "backend/vulkan/vulkan_backend.h"
#include "vram/buffer.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/window.h"

/* The whole pages of a window whose last byte is in front of `end`. */
static uint64_t window_bytes(uint64_t end) {
    uint64_t page = vr_os_page_bytes();
    return (end + page - 1) / page * page;
}

static vram_status examine(struct vr_vulkan_device *vulkan, struct vr_vk_buffer *buffer,
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

static vram_status adopt(struct vr_device *device, const struct vram_wrap *wrap, vram_addr *addr) {
    struct vr_vulkan_device *vulkan = device->impl;
    vram_addr base;
    uint64_t end = 0;
    vram_status status = examine(vulkan, wrap->pointer, wrap, &end);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_vulkan_block *block = vr_vulkan_block_take(end);
    if (!block) {
        return VRAM_ERR_HOST_MEMORY;
    }
    block->own.buffer = wrap->pointer;
    block->own.address = wrap->address;
    vr_vulkan_block_show(vulkan, block);
    status = vr_window_open(window_bytes(end), vr_os_page_bytes(), block, "vulkan_adopt", &base);
    if (status != VRAM_OK) {
        block->own.buffer = NULL; /* not ours to destroy */
        vr_vulkan_block_end(vulkan, block, false);
        return status;
    }
    *addr = base + wrap->offset;
    return VRAM_OK;
}

static void give(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    uint64_t offset = 0;
    struct vr_vulkan_block *block = vr_window_find(addr, &offset);
    if (block) {
        vr_window_close(addr - offset, window_bytes(offset + bytes));
        block->own.buffer = NULL;
        vr_vulkan_block_end(device->impl, block, vr_load(&device->lost, VR_ACQUIRE));
    }
}

const struct vr_object_ops vr_vulkan_object_ops = {
    .adopt = adopt, .give = give, .native = vr_vulkan_native};
