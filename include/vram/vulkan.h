/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/vulkan.h: a program's own Vulkan device, adopted by libvram.
 *
 * A renderer or an inference engine has a VkDevice already. If it is adopted, it is the only device
 * of the backend `vulkan` in that context. Memory of libvram then consists of VkBuffers of the
 * program's device (vram_native gives buffer, offset and device address), and queues work on the
 * program's VkQueues. Without an adoption libvram creates its own instance and devices.
 *
 * No header of Vulkan is needed: handles are passed as void pointers, which they are on every
 * 64-bit system.
 */
#ifndef VRAM_VULKAN_H
#define VRAM_VULKAN_H

#include <vram/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void vram_vulkan_lock_fn(void *user); /* locks or unlocks a queue of the program */

/** One queue of the adopted device that libvram may submit to. */
typedef struct vram_vulkan_queue {
    void *queue;     /* VkQueue */
    uint32_t family; /* its queue family index */
    /* Vulkan forbids two threads to submit to one VkQueue at the same time. If the program submits
       to it, too, libvram calls `lock` before each submission and `unlock` after it; the program
       holds the same lock for its own submissions. Both NULL: only libvram uses the queue. They
       must not call libvram. */
    vram_vulkan_lock_fn *lock;
    vram_vulkan_lock_fn *unlock;
    void *user;
} vram_vulkan_queue;

/**
 * What vram_context_options.vulkan points to. Everything is borrowed and must outlive the context.
 */
typedef struct vram_vulkan_adoption {
    size_t size;           /* sizeof(vram_vulkan_adoption) */
    void *get_proc;        /* PFN_vkGetInstanceProcAddr; NULL: from the option vulkan_library */
    void *instance;        /* VkInstance, made for Vulkan 1.2 or later */
    void *physical_device; /* VkPhysicalDevice */
    void *device;          /* VkDevice, made with the feature timelineSemaphore */
    bool addresses;        /* made with the feature bufferDeviceAddress, which kernels need */
    const vram_vulkan_queue *queues; /* 1 to 8, of families for compute or copies */
    uint32_t queue_count;
} vram_vulkan_adoption;

#ifdef __cplusplus
}
#endif

#endif
