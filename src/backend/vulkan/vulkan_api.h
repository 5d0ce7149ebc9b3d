/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_api.h: the functions of Vulkan 1.2 that the backend calls.
 *
 * VR_VULKAN_FUNCTIONS is the one list of entry points. The table of pointers, the loader's loop and
 * the tests' driver are all generated from it.
 */
#ifndef VR_VULKAN_API_H
#define VR_VULKAN_API_H

#include "backend/vulkan/vulkan_types.h"

/* How a function is looked up: in the library, by an instance, or by a device; VR_VK_EXTENSION: by
   a device, which may not have it. */
enum vr_vk_level { VR_VK_GLOBAL, VR_VK_INSTANCE, VR_VK_DEVICE, VR_VK_EXTENSION };

/* The one symbol that is looked up in the library; it finds all others. */
typedef vr_vk_function vr_vk_get_fn(struct vr_vk_instance *instance, const char *name);

/* X(what it returns, name, level, (parameters), (their names)). clang-format would take the
   parameters for products. */
/* clang-format off */
#define VR_VULKAN_FUNCTIONS(X)                                                                     \
    X(vr_vk_result, vkEnumerateInstanceVersion, VR_VK_GLOBAL, (uint32_t *version), (version))      \
    X(vr_vk_result, vkCreateInstance, VR_VK_GLOBAL,                                                \
      (const struct vr_vk_instance_info *info, const struct vr_vk_allocator *allocator,            \
       struct vr_vk_instance **instance), (info, allocator, instance))                             \
    X(void, vkDestroyInstance, VR_VK_INSTANCE,                                                     \
      (struct vr_vk_instance *instance, const struct vr_vk_allocator *allocator),                  \
      (instance, allocator))                                                                       \
    X(vr_vk_result, vkEnumeratePhysicalDevices, VR_VK_INSTANCE,                                    \
      (struct vr_vk_instance *instance, uint32_t *count, struct vr_vk_physical **devices),         \
      (instance, count, devices))                                                                  \
    X(void, vkGetPhysicalDeviceProperties, VR_VK_INSTANCE,                                         \
      (struct vr_vk_physical *device, struct vr_vk_properties *properties), (device, properties))  \
    X(void, vkGetPhysicalDeviceProperties2, VR_VK_INSTANCE,                                        \
      (struct vr_vk_physical *device, struct vr_vk_properties_2 *properties),                      \
      (device, properties))                                                                        \
    X(void, vkGetPhysicalDeviceFeatures2, VR_VK_INSTANCE,                                          \
      (struct vr_vk_physical *device, struct vr_vk_features_2 *features), (device, features))      \
    X(void, vkGetPhysicalDeviceMemoryProperties2, VR_VK_INSTANCE,                                  \
      (struct vr_vk_physical *device, struct vr_vk_memory_properties_2 *properties),               \
      (device, properties))                                                                        \
    X(void, vkGetPhysicalDeviceQueueFamilyProperties, VR_VK_INSTANCE,                              \
      (struct vr_vk_physical *device, uint32_t *count, struct vr_vk_family *families),             \
      (device, count, families))                                                                   \
    X(void, vkGetPhysicalDeviceExternalBufferProperties, VR_VK_INSTANCE,                           \
      (struct vr_vk_physical *device, const struct vr_vk_external_buffer *info,                    \
       struct vr_vk_external_buffer_properties *properties), (device, info, properties))           \
    X(vr_vk_result, vkEnumerateDeviceExtensionProperties, VR_VK_INSTANCE,                          \
      (struct vr_vk_physical *device, const char *layer, uint32_t *count,                          \
       struct vr_vk_extension *extensions), (device, layer, count, extensions))                    \
    X(vr_vk_result, vkCreateDevice, VR_VK_INSTANCE,                                                \
      (struct vr_vk_physical *physical, const struct vr_vk_device_info *info,                      \
       const struct vr_vk_allocator *allocator, struct vr_vk_device **device),                     \
      (physical, info, allocator, device))                                                         \
    X(vr_vk_function, vkGetDeviceProcAddr, VR_VK_INSTANCE,                                         \
      (struct vr_vk_device *device, const char *name), (device, name))                             \
    X(void, vkDestroyDevice, VR_VK_DEVICE,                                                         \
      (struct vr_vk_device *device, const struct vr_vk_allocator *allocator),                      \
      (device, allocator))                                                                         \
    X(vr_vk_result, vkDeviceWaitIdle, VR_VK_DEVICE, (struct vr_vk_device *device), (device))       \
    X(void, vkGetDeviceQueue, VR_VK_DEVICE,                                                        \
      (struct vr_vk_device *device, uint32_t family, uint32_t index,                               \
       struct vr_vk_queue **queue), (device, family, index, queue))                                \
    X(vr_vk_result, vkQueueSubmit, VR_VK_DEVICE,                                                   \
      (struct vr_vk_queue *queue, uint32_t count, const struct vr_vk_submit *submits,              \
       struct vr_vk_fence *fence), (queue, count, submits, fence))                                 \
    X(vr_vk_result, vkAllocateMemory, VR_VK_DEVICE,                                                \
      (struct vr_vk_device *device, const struct vr_vk_allocate_info *info,                        \
       const struct vr_vk_allocator *allocator, struct vr_vk_memory **memory),                     \
      (device, info, allocator, memory))                                                           \
    X(void, vkFreeMemory, VR_VK_DEVICE,                                                            \
      (struct vr_vk_device *device, struct vr_vk_memory *memory,                                   \
       const struct vr_vk_allocator *allocator), (device, memory, allocator))                      \
    X(vr_vk_result, vkGetMemoryFdKHR, VR_VK_EXTENSION,                                             \
      (struct vr_vk_device *device, const struct vr_vk_get_fd *info, int *fd), (device, info, fd)) \
    X(vr_vk_result, vkMapMemory, VR_VK_DEVICE,                                                     \
      (struct vr_vk_device *device, struct vr_vk_memory *memory, uint64_t offset,                  \
       uint64_t bytes, uint32_t flags, void **pointer),                                            \
      (device, memory, offset, bytes, flags, pointer))                                             \
    X(vr_vk_result, vkCreateBuffer, VR_VK_DEVICE,                                                  \
      (struct vr_vk_device *device, const struct vr_vk_buffer_info *info,                          \
       const struct vr_vk_allocator *allocator, struct vr_vk_buffer **buffer),                     \
      (device, info, allocator, buffer))                                                           \
    X(void, vkDestroyBuffer, VR_VK_DEVICE,                                                         \
      (struct vr_vk_device *device, struct vr_vk_buffer *buffer,                                   \
       const struct vr_vk_allocator *allocator), (device, buffer, allocator))                      \
    X(void, vkGetBufferMemoryRequirements, VR_VK_DEVICE,                                           \
      (struct vr_vk_device *device, struct vr_vk_buffer *buffer,                                   \
       struct vr_vk_requirements *requirements), (device, buffer, requirements))                   \
    X(vr_vk_result, vkBindBufferMemory, VR_VK_DEVICE,                                              \
      (struct vr_vk_device *device, struct vr_vk_buffer *buffer, struct vr_vk_memory *memory,      \
       uint64_t offset), (device, buffer, memory, offset))                                         \
    X(uint64_t, vkGetBufferDeviceAddress, VR_VK_DEVICE,                                            \
      (struct vr_vk_device *device, const struct vr_vk_address_info *info), (device, info))        \
    X(vr_vk_result, vkCreateSemaphore, VR_VK_DEVICE,                                               \
      (struct vr_vk_device *device, const struct vr_vk_semaphore_info *info,                       \
       const struct vr_vk_allocator *allocator, struct vr_vk_semaphore **semaphore),               \
      (device, info, allocator, semaphore))                                                        \
    X(void, vkDestroySemaphore, VR_VK_DEVICE,                                                      \
      (struct vr_vk_device *device, struct vr_vk_semaphore *semaphore,                             \
       const struct vr_vk_allocator *allocator), (device, semaphore, allocator))                   \
    X(vr_vk_result, vkGetSemaphoreCounterValue, VR_VK_DEVICE,                                      \
      (struct vr_vk_device *device, struct vr_vk_semaphore *semaphore, uint64_t *value),           \
      (device, semaphore, value))                                                                  \
    X(vr_vk_result, vkWaitSemaphores, VR_VK_DEVICE,                                                \
      (struct vr_vk_device *device, const struct vr_vk_semaphore_wait *info, uint64_t timeout),    \
      (device, info, timeout))                                                                     \
    X(vr_vk_result, vkCreateCommandPool, VR_VK_DEVICE,                                             \
      (struct vr_vk_device *device, const struct vr_vk_command_pool_info *info,                    \
       const struct vr_vk_allocator *allocator, struct vr_vk_command_pool **pool),                 \
      (device, info, allocator, pool))                                                             \
    X(void, vkDestroyCommandPool, VR_VK_DEVICE,                                                    \
      (struct vr_vk_device *device, struct vr_vk_command_pool *pool,                               \
       const struct vr_vk_allocator *allocator), (device, pool, allocator))                        \
    X(vr_vk_result, vkAllocateCommandBuffers, VR_VK_DEVICE,                                        \
      (struct vr_vk_device *device, const struct vr_vk_commands_info *info,                        \
       struct vr_vk_commands **commands), (device, info, commands))                                \
    X(vr_vk_result, vkBeginCommandBuffer, VR_VK_DEVICE,                                            \
      (struct vr_vk_commands *commands, const struct vr_vk_begin_info *info), (commands, info))    \
    X(vr_vk_result, vkEndCommandBuffer, VR_VK_DEVICE,                                              \
      (struct vr_vk_commands *commands), (commands))                                               \
    X(void, vkCmdPipelineBarrier, VR_VK_DEVICE,                                                    \
      (struct vr_vk_commands *commands, uint32_t from_stages, uint32_t to_stages,                  \
       uint32_t flags, uint32_t count, const struct vr_vk_barrier *barriers,                       \
       uint32_t buffer_count, const struct vr_vk_buffer_barrier *buffer_barriers,                  \
       uint32_t image_count, const struct vr_vk_image_barrier *image_barriers),                    \
      (commands, from_stages, to_stages, flags, count, barriers, buffer_count,                     \
       buffer_barriers, image_count, image_barriers))                                              \
    X(void, vkCmdCopyBuffer, VR_VK_DEVICE,                                                         \
      (struct vr_vk_commands *commands, struct vr_vk_buffer *from, struct vr_vk_buffer *to,        \
       uint32_t count, const struct vr_vk_copy *copies), (commands, from, to, count, copies))      \
    X(void, vkCmdFillBuffer, VR_VK_DEVICE,                                                         \
      (struct vr_vk_commands *commands, struct vr_vk_buffer *to, uint64_t offset,                  \
       uint64_t bytes, uint32_t pattern), (commands, to, offset, bytes, pattern))                  \
    X(void, vkCmdUpdateBuffer, VR_VK_DEVICE,                                                       \
      (struct vr_vk_commands *commands, struct vr_vk_buffer *to, uint64_t offset,                  \
       uint64_t bytes, const void *data), (commands, to, offset, bytes, data))                     \
    X(vr_vk_result, vkCreateShaderModule, VR_VK_DEVICE,                                            \
      (struct vr_vk_device *device, const struct vr_vk_shader_info *info,                          \
       const struct vr_vk_allocator *allocator, struct vr_vk_shader **shader),                     \
      (device, info, allocator, shader))                                                           \
    X(void, vkDestroyShaderModule, VR_VK_DEVICE,                                                   \
      (struct vr_vk_device *device, struct vr_vk_shader *shader,                                   \
       const struct vr_vk_allocator *allocator), (device, shader, allocator))                      \
    X(vr_vk_result, vkCreatePipelineLayout, VR_VK_DEVICE,                                          \
      (struct vr_vk_device *device, const struct vr_vk_layout_info *info,                          \
       const struct vr_vk_allocator *allocator, struct vr_vk_layout **layout),                     \
      (device, info, allocator, layout))                                                           \
    X(void, vkDestroyPipelineLayout, VR_VK_DEVICE,                                                 \
      (struct vr_vk_device *device, struct vr_vk_layout *layout,                                   \
       const struct vr_vk_allocator *allocator), (device, layout, allocator))                      \
    X(vr_vk_result, vkCreateComputePipelines, VR_VK_DEVICE,                                        \
      (struct vr_vk_device *device, struct vr_vk_pipeline_cache *cache, uint32_t count,            \
       const struct vr_vk_compute_info *infos, const struct vr_vk_allocator *allocator,            \
       struct vr_vk_pipeline **pipelines), (device, cache, count, infos, allocator, pipelines))    \
    X(void, vkDestroyPipeline, VR_VK_DEVICE,                                                       \
      (struct vr_vk_device *device, struct vr_vk_pipeline *pipeline,                               \
       const struct vr_vk_allocator *allocator), (device, pipeline, allocator))                    \
    X(void, vkCmdBindPipeline, VR_VK_DEVICE,                                                       \
      (struct vr_vk_commands *commands, uint32_t point, struct vr_vk_pipeline *pipeline),          \
      (commands, point, pipeline))                                                                 \
    X(void, vkCmdPushConstants, VR_VK_DEVICE,                                                      \
      (struct vr_vk_commands *commands, struct vr_vk_layout *layout, uint32_t stages,              \
       uint32_t offset, uint32_t bytes, const void *values),                                       \
      (commands, layout, stages, offset, bytes, values))                                           \
    X(void, vkCmdDispatch, VR_VK_DEVICE,                                                           \
      (struct vr_vk_commands *commands, uint32_t x, uint32_t y, uint32_t z), (commands, x, y, z))
/* clang-format on */

/* The loaded driver: one pointer per row above. */
struct vr_vulkan_api {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): these are declarations, not expressions */
#define VR_VULKAN_FIELD(returns, name, level, parameters, names) returns(*name) parameters;
    VR_VULKAN_FUNCTIONS(VR_VULKAN_FIELD)
#undef VR_VULKAN_FIELD
};

#endif
