/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_staging.c: staging memory for copies from and to pageable memory.
 *
 * A device accesses only memory that Vulkan knows. Other memory is copied by the host into staging
 * memory, or out of it. Staging memory has a few sizes, powers of four, so that the next copy finds
 * one that fits. A limited number of bytes is kept for reuse; the rest is freed.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/size.h"

#define SMALLEST (UINT64_C(128) << 10) /* bytes of the smallest size */
#define KEPT     (UINT64_C(64) << 20)  /* bytes that are kept for reuse */

static uint64_t staging_size(uint64_t bytes) {
    uint64_t size = SMALLEST;
    while (size < bytes) {
        size *= 4;
    }
    return size;
}

vram_status vr_vulkan_staging_take(struct vr_vulkan_device *device, uint64_t bytes,
                                   struct vr_vulkan_memory **memory) {
    uint64_t size = staging_size(bytes);
    struct vr_vulkan_memory *found = NULL;
    vr_mutex_lock(&device->lock);
    for (struct vr_link *link = vr_list_first(&device->staging); link;
         link = vr_list_next(&device->staging, link)) {
        struct vr_vulkan_memory *candidate = vr_vulkan_memory_of(link);
        if (candidate->own.bytes == size) {
            found = candidate;
            vr_link_remove(link);
            device->staging_bytes -= size;
            break;
        }
    }
    vr_mutex_unlock(&device->lock);
    if (!found) {
        return vr_vulkan_memory_make(device, size, VR_VULKAN_ON_HOST, memory);
    }
    *memory = found;
    return VRAM_OK;
}

void vr_vulkan_staging_give(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory) {
    vr_mutex_lock(&device->lock);
    bool keep = device->staging_bytes + memory->own.bytes <= KEPT;
    if (keep) {
        vr_list_append(&device->staging, &memory->own.link);
        device->staging_bytes += memory->own.bytes;
    }
    vr_mutex_unlock(&device->lock);
    if (!keep) {
        vr_vulkan_memory_end(device, memory, vr_load(&device->lost, VR_ACQUIRE));
    }
}

void vr_vulkan_staging_give_all(struct vr_vulkan_device *device, struct vr_list *list) {
    struct vr_link *link;
    while ((link = vr_list_first(list))) {
        vr_link_remove(link);
        vr_vulkan_staging_give(device, vr_vulkan_memory_of(link));
    }
}

/* The device is closing: no other thread uses it. */
void vr_vulkan_staging_end(struct vr_vulkan_device *device, bool lost) {
    struct vr_link *link;
    while ((link = vr_list_first(&device->staging))) {
        vr_link_remove(link);
        vr_vulkan_memory_end(device, vr_vulkan_memory_of(link), lost);
    }
}
