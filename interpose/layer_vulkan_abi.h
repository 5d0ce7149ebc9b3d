/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_vulkan_abi.h: the part of Vulkan and of its loader's ABI that the layer needs and the
 * backend does not. tests/lint/vulkan_abi.c compares it with Khronos's headers, where there are
 * some.
 */
#ifndef LAYER_VULKAN_ABI_H
#define LAYER_VULKAN_ABI_H

#include "backend/vulkan/vulkan_types.h"

enum {
    LAYER_VK_INTERFACE_VERSION = 2,
    LAYER_VK_NEGOTIATE = 1, /* LAYER_NEGOTIATE_INTERFACE_STRUCT */
    LAYER_VK_LINK = 0,      /* VK_LAYER_LINK_INFO */

    LAYER_VK_TYPE_LOADER_INSTANCE = 47, /* VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO */
    LAYER_VK_TYPE_LOADER_DEVICE = 48,

    /* Memory that belongs to something else already. */
    LAYER_VK_TYPE_IMPORT_WIN32_NV = 1000057000,
    LAYER_VK_TYPE_IMPORT_WIN32 = 1000073000,
    LAYER_VK_TYPE_IMPORT_FD = 1000074000,
    LAYER_VK_TYPE_IMPORT_ANDROID = 1000129003,
    LAYER_VK_TYPE_IMPORT_HOST = 1000178000,
    LAYER_VK_TYPE_IMPORT_METAL = 1000311005,
    LAYER_VK_TYPE_IMPORT_ZIRCON = 1000364000,
    LAYER_VK_TYPE_IMPORT_COLLECTION = 1000366001
};

typedef vr_vk_function layer_vk_instance_get(struct vr_vk_instance *instance, const char *name);
typedef vr_vk_function layer_vk_device_get(struct vr_vk_device *device, const char *name);

struct layer_vk_negotiate { /* VkNegotiateLayerInterface */
    uint32_t type;
    void *next;
    uint32_t version;
    layer_vk_instance_get *instance_get;
    layer_vk_device_get *device_get;
    layer_vk_instance_get *physical_get;
};

struct layer_vk_instance_link { /* VkLayerInstanceLink */
    struct layer_vk_instance_link *next;
    layer_vk_instance_get *instance_get, *physical_get;
};

struct layer_vk_device_link { /* VkLayerDeviceLink */
    struct layer_vk_device_link *next;
    layer_vk_instance_get *instance_get;
    layer_vk_device_get *device_get;
};

/* VkLayerInstanceCreateInfo, VkLayerDeviceCreateInfo: the loader's part of a chain. */
struct layer_vk_chain {
    struct vr_vk_head head;
    uint32_t function;
    union {
        struct layer_vk_instance_link *instance;
        struct layer_vk_device_link *device;
    } link;
};

/* What VkImportMemoryFdInfoKHR and its kin begin with. No handle type: nothing is imported. */
struct layer_vk_import {
    struct vr_vk_head head;
    uint32_t handle_type;
};

/* X(returns, name, (parameters)): what the layer replaces of an instance ... */
/* clang-format off */
#define LAYER_VK_INSTANCE_FUNCTIONS(X)                                                             \
    X(vr_vk_result, vkCreateDevice,                                                                \
      (struct vr_vk_physical *physical, const struct vr_vk_device_info *info,                      \
       const struct vr_vk_allocator *allocator, struct vr_vk_device **device))                     \
    X(void, vkDestroyInstance,                                                                     \
      (struct vr_vk_instance *instance, const struct vr_vk_allocator *allocator))                  \
    X(void, vkGetPhysicalDeviceMemoryProperties,                                                   \
      (struct vr_vk_physical *physical, struct vr_vk_memory_properties *properties))               \
    X(void, vkGetPhysicalDeviceMemoryProperties2,                                                  \
      (struct vr_vk_physical *physical, struct vr_vk_memory_properties_2 *properties))             \
    X(void, vkGetPhysicalDeviceMemoryProperties2KHR,                                               \
      (struct vr_vk_physical *physical, struct vr_vk_memory_properties_2 *properties))

/* ... calls of it ... */
#define LAYER_VK_INSTANCE_CALLED(X)                                                                \
    X(vr_vk_result, vkEnumeratePhysicalDevices,                                                    \
      (struct vr_vk_instance *instance, uint32_t *count, struct vr_vk_physical **physicals))       \
    X(void, vkGetPhysicalDeviceProperties,                                                         \
      (struct vr_vk_physical *physical, struct vr_vk_properties *properties))                      \
    X(void, vkGetPhysicalDeviceProperties2,                                                        \
      (struct vr_vk_physical *physical, struct vr_vk_properties_2 *properties))                    \
    X(vr_vk_result, vkEnumerateDeviceExtensionProperties,                                          \
      (struct vr_vk_physical *physical, const char *layer, uint32_t *count,                        \
       struct vr_vk_extension *extensions))

/* ... and replaces of a device. */
#define LAYER_VK_DEVICE_FUNCTIONS(X)                                                               \
    X(void, vkDestroyDevice,                                                                       \
      (struct vr_vk_device *device, const struct vr_vk_allocator *allocator))                      \
    X(vr_vk_result, vkAllocateMemory,                                                              \
      (struct vr_vk_device *device, const struct vr_vk_allocate_info *info,                        \
       const struct vr_vk_allocator *allocator, struct vr_vk_memory **memory))                     \
    X(void, vkFreeMemory,                                                                          \
      (struct vr_vk_device *device, struct vr_vk_memory *memory,                                   \
       const struct vr_vk_allocator *allocator))
/* clang-format on */

#endif
