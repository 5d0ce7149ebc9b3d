/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_staging.c: host memory that copies from and to pageable memory go through.
 *
 * A device reads and writes memory that Vulkan knows. Other memory is copied by the host into a
 * block of staging, or out of one. Blocks have a few sizes, powers of four, so that the next copy
 * finds one that fits; so many bytes of them are kept for it, the rest goes back to the driver.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/size.h"

#define SMALLEST (UINT64_C(128) << 10) /* bytes of the smallest block */
#define KEPT     (UINT64_C(64) << 20)  /* bytes of blocks that wait for use */

static uint64_t size_for(uint64_t bytes) {
    uint64_t size = SMALLEST;
    while (size < bytes) {
        size *= 4;
    }
    return size;
}

vram_status vr_vulkan_staging_take(struct vr_vulkan_device *device, uint64_t bytes,
                                   struct vr_vulkan_block **block) {
    uint64_t size = size_for(bytes);
    struct vr_vulkan_block *found = NULL;
    vr_mutex_lock(&device->lock);
    for (struct vr_link *link = vr_list_first(&device->staging); link;
         link = vr_list_next(&device->staging, link)) {
        struct vr_vulkan_block *candidate = vr_vulkan_block_of(link);
        if (candidate->own.bytes == size) {
            found = candidate;
            vr_link_remove(link);
            device->staging_bytes -= size;
            break;
        }
    }
    vr_mutex_unlock(&device->lock);
    if (!found) {
        return vr_vulkan_block_make(device, size, VR_VULKAN_ON_HOST, block);
    }
    *block = found;
    return VRAM_OK;
}

void vr_vulkan_staging_give(struct vr_vulkan_device *device, struct vr_vulkan_block *block) {
    vr_mutex_lock(&device->lock);
    bool kept = device->staging_bytes + block->own.bytes <= KEPT;
    if (kept) {
        vr_list_append(&device->staging, &block->own.link);
        device->staging_bytes += block->own.bytes;
    }
    vr_mutex_unlock(&device->lock);
    if (!kept) {
        vr_vulkan_block_end(device, block, vr_load(&device->lost, VR_ACQUIRE));
    }
}

void vr_vulkan_staging_give_all(struct vr_vulkan_device *device, struct vr_list *blocks) {
    struct vr_link *link;
    while ((link = vr_list_first(blocks))) {
        vr_link_remove(link);
        vr_vulkan_staging_give(device, vr_vulkan_block_of(link));
    }
}

/* The device is closing: nobody else is here. */
void vr_vulkan_staging_end(struct vr_vulkan_device *device, bool lost) {
    struct vr_link *link;
    while ((link = vr_list_first(&device->staging))) {
        vr_link_remove(link);
        vr_vulkan_block_end(device, vr_vulkan_block_of(link), lost);
    }
}
