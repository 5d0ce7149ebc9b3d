/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_abi.c: our declarations of Vulkan against Khronos's own, by the compiler.
 *
 * Compiling this file is the test; there is nothing to run. The build does so where it finds
 * vulkan/vulkan.h of 1.3 or newer. Where that is not installed the test is skipped, with that
 * reason.
 */
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include "abi.h"
#include "backend/vulkan/vulkan_api.h"
#include "layer_vulkan_abi.h"

/* ------------------------------------------------------------------- values */

SAME(VR_VK_SUCCESS, VK_SUCCESS);
SAME(VR_VK_NOT_READY, VK_NOT_READY);
SAME(VR_VK_TIMEOUT, VK_TIMEOUT);
SAME(VR_VK_INCOMPLETE, VK_INCOMPLETE);
SAME(VR_VK_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_HOST_MEMORY);
SAME(VR_VK_OUT_OF_DEVICE_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY);
SAME(VR_VK_INITIALIZATION_FAILED, VK_ERROR_INITIALIZATION_FAILED);
SAME(VR_VK_DEVICE_LOST, VK_ERROR_DEVICE_LOST);
SAME(VR_VK_MEMORY_MAP_FAILED, VK_ERROR_MEMORY_MAP_FAILED);
SAME(VR_VK_LAYER_NOT_PRESENT, VK_ERROR_LAYER_NOT_PRESENT);
SAME(VR_VK_EXTENSION_NOT_PRESENT, VK_ERROR_EXTENSION_NOT_PRESENT);
SAME(VR_VK_FEATURE_NOT_PRESENT, VK_ERROR_FEATURE_NOT_PRESENT);
SAME(VR_VK_INCOMPATIBLE_DRIVER, VK_ERROR_INCOMPATIBLE_DRIVER);
SAME(VR_VK_TOO_MANY_OBJECTS, VK_ERROR_TOO_MANY_OBJECTS);
SAME(VR_VK_FORMAT_NOT_SUPPORTED, VK_ERROR_FORMAT_NOT_SUPPORTED);
SAME(VR_VK_FRAGMENTED_POOL, VK_ERROR_FRAGMENTED_POOL);
SAME(VR_VK_UNKNOWN, VK_ERROR_UNKNOWN);
SAME(VR_VK_OUT_OF_POOL_MEMORY, VK_ERROR_OUT_OF_POOL_MEMORY);
SAME(VR_VK_FRAGMENTATION, VK_ERROR_FRAGMENTATION);
SAME(VR_VK_INVALID_ADDRESS, VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS);
SAME(VR_VK_INVALID_SHADER, VK_ERROR_INVALID_SHADER_NV);
SAME(VR_VK_INVALID_EXTERNAL_HANDLE, VK_ERROR_INVALID_EXTERNAL_HANDLE);
SAME(VR_VK_NOT_PERMITTED, VK_ERROR_NOT_PERMITTED_KHR);

SAME(VR_VK_TYPE_APPLICATION, VK_STRUCTURE_TYPE_APPLICATION_INFO);
SAME(VR_VK_TYPE_INSTANCE, VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
SAME(VR_VK_TYPE_DEVICE_QUEUE, VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
SAME(VR_VK_TYPE_DEVICE, VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
SAME(VR_VK_TYPE_SUBMIT, VK_STRUCTURE_TYPE_SUBMIT_INFO);
SAME(VR_VK_TYPE_ALLOCATE, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
SAME(VR_VK_TYPE_SEMAPHORE, VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
SAME(VR_VK_TYPE_BUFFER, VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
SAME(VR_VK_TYPE_SHADER, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
SAME(VR_VK_TYPE_STAGE, VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
SAME(VR_VK_TYPE_COMPUTE_PIPELINE, VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
SAME(VR_VK_TYPE_LAYOUT, VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
SAME(VR_VK_TYPE_COMMAND_POOL, VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
SAME(VR_VK_TYPE_COMMANDS, VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
SAME(VR_VK_TYPE_BEGIN, VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
SAME(VR_VK_TYPE_BARRIER, VK_STRUCTURE_TYPE_MEMORY_BARRIER);
SAME(VR_VK_TYPE_FEATURES_11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
SAME(VR_VK_TYPE_FEATURES_12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
SAME(VR_VK_TYPE_FEATURES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
SAME(VR_VK_TYPE_PROPERTIES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
SAME(VR_VK_TYPE_MEMORY_PROPERTIES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
SAME(VR_VK_TYPE_ALLOCATE_FLAGS, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
SAME(VR_VK_TYPE_EXTERNAL_BUFFER, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO);
SAME(VR_VK_TYPE_EXTERNAL_BUFFER_PROPERTIES, VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES);
SAME(VR_VK_TYPE_EXTERNAL_BUFFER_MADE, VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
SAME(VR_VK_TYPE_EXPORT, VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
SAME(VR_VK_TYPE_IMPORT_FD, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
SAME(VR_VK_TYPE_GET_FD, VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR);
SAME(VR_VK_TYPE_DEDICATED, VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO);
SAME(VR_VK_TYPE_ID, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
SAME(VR_VK_TYPE_MAINTENANCE_3, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
SAME(VR_VK_TYPE_SEMAPHORE_TYPE, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
SAME(VR_VK_TYPE_TIMELINE_SUBMIT, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
SAME(VR_VK_TYPE_SEMAPHORE_WAIT, VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
SAME(VR_VK_TYPE_PCI, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
SAME(VR_VK_TYPE_BUDGET, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
SAME(VR_VK_TYPE_ADDRESS, VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
SAME(VR_VK_TYPE_MAINTENANCE_4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);

SAME(VR_VK_VERSION(1, 2), VK_API_VERSION_1_2);
SAME(VR_VK_VERSION_MAJOR(VK_API_VERSION_1_3), VK_API_VERSION_MAJOR(VK_API_VERSION_1_3));
SAME(VR_VK_VERSION_MINOR(VK_API_VERSION_1_3), VK_API_VERSION_MINOR(VK_API_VERSION_1_3));
SAME(VR_VK_KIND_INTEGRATED, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU);
SAME(VR_VK_KIND_CPU, VK_PHYSICAL_DEVICE_TYPE_CPU);
SAME(VR_VK_QUEUE_COMPUTE, VK_QUEUE_COMPUTE_BIT);
SAME(VR_VK_QUEUE_GRAPHICS, VK_QUEUE_GRAPHICS_BIT);
SAME(VR_VK_QUEUE_TRANSFER, VK_QUEUE_TRANSFER_BIT);
SAME(VR_VK_MEMORY_DEVICE_LOCAL, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
SAME(VR_VK_MEMORY_HOST_VISIBLE, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
SAME(VR_VK_MEMORY_HOST_COHERENT, VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
SAME(VR_VK_MEMORY_HOST_CACHED, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
SAME(VR_VK_MEMORY_LAZY, VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT);
SAME(VR_VK_MEMORY_PROTECTED, VK_MEMORY_PROPERTY_PROTECTED_BIT);
SAME(VR_VK_HEAP_DEVICE_LOCAL, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT);
SAME(VR_VK_USAGE_TRANSFER_FROM, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
SAME(VR_VK_USAGE_TRANSFER_TO, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
SAME(VR_VK_USAGE_UNIFORM, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT);
SAME(VR_VK_USAGE_STORAGE, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
SAME(VR_VK_USAGE_INDEX, VK_BUFFER_USAGE_INDEX_BUFFER_BIT);
SAME(VR_VK_USAGE_VERTEX, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
SAME(VR_VK_USAGE_INDIRECT, VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT);
SAME(VR_VK_USAGE_ADDRESS, VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT);
SAME(VR_VK_SHARING_EXCLUSIVE, VK_SHARING_MODE_EXCLUSIVE);
SAME(VR_VK_SHARING_CONCURRENT, VK_SHARING_MODE_CONCURRENT);
SAME(VR_VK_ALLOCATE_ADDRESS, VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT);
SAME(VR_VK_OPAQUE_FD, VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT);
SAME(VR_VK_EXTERNAL_EXPORTABLE, VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT);
SAME(VR_VK_EXTERNAL_IMPORTABLE, VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT);
SAME(VR_VK_SEMAPHORE_TIMELINE, VK_SEMAPHORE_TYPE_TIMELINE);
SAME(VR_VK_POOL_TRANSIENT, VK_COMMAND_POOL_CREATE_TRANSIENT_BIT);
SAME(VR_VK_POOL_RESET, VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT);
SAME(VR_VK_BEGIN_ONCE, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
SAME(VR_VK_STAGE_COMPUTE, VK_SHADER_STAGE_COMPUTE_BIT);
SAME(VR_VK_PIPE_TRANSFER, VK_PIPELINE_STAGE_TRANSFER_BIT);
SAME(VR_VK_PIPE_HOST, VK_PIPELINE_STAGE_HOST_BIT);
SAME(VR_VK_PIPE_ALL, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
SAME(VR_VK_ACCESS_HOST_READ, VK_ACCESS_HOST_READ_BIT);
SAME(VR_VK_ACCESS_MEMORY_READ, VK_ACCESS_MEMORY_READ_BIT);
SAME(VR_VK_ACCESS_MEMORY_WRITE, VK_ACCESS_MEMORY_WRITE_BIT);
SAME(VR_VK_BIND_COMPUTE, VK_PIPELINE_BIND_POINT_COMPUTE);
SAME(VR_VK_WHOLE == VK_WHOLE_SIZE, true);
SAME(VR_VK_MEMORY_TYPES, VK_MAX_MEMORY_TYPES);
SAME(VR_VK_MEMORY_HEAPS, VK_MAX_MEMORY_HEAPS);

/* ----------------------------------------------------------------- features */

/* A feature's place in the list of values that follows the head. */
#define TRUTH(place, theirs, field)                                                                \
    SAME((place) * sizeof(VkBool32), offsetof(theirs, field) - offsetof(theirs, THEIR_FIRST))

#define THEIR_FIRST robustBufferAccess
TRUTH(VR_VK_FEATURE_FLOAT64, VkPhysicalDeviceFeatures, shaderFloat64);
TRUTH(VR_VK_FEATURE_INT64, VkPhysicalDeviceFeatures, shaderInt64);
TRUTH(VR_VK_FEATURE_INT16, VkPhysicalDeviceFeatures, shaderInt16);
TRUTH(VR_VK_FEATURE_COUNT - 1, VkPhysicalDeviceFeatures, inheritedQueries);
#undef THEIR_FIRST
#define THEIR_FIRST storageBuffer16BitAccess
TRUTH(VR_VK_FEATURE_11_STORAGE16, VkPhysicalDeviceVulkan11Features, storageBuffer16BitAccess);
TRUTH(VR_VK_FEATURE_11_COUNT - 1, VkPhysicalDeviceVulkan11Features, shaderDrawParameters);
#undef THEIR_FIRST
#define THEIR_FIRST samplerMirrorClampToEdge
TRUTH(VR_VK_FEATURE_12_STORAGE8, VkPhysicalDeviceVulkan12Features, storageBuffer8BitAccess);
TRUTH(VR_VK_FEATURE_12_FLOAT16, VkPhysicalDeviceVulkan12Features, shaderFloat16);
TRUTH(VR_VK_FEATURE_12_INT8, VkPhysicalDeviceVulkan12Features, shaderInt8);
TRUTH(VR_VK_FEATURE_12_SCALAR_LAYOUT, VkPhysicalDeviceVulkan12Features, scalarBlockLayout);
TRUTH(VR_VK_FEATURE_12_TIMELINE, VkPhysicalDeviceVulkan12Features, timelineSemaphore);
TRUTH(VR_VK_FEATURE_12_ADDRESS, VkPhysicalDeviceVulkan12Features, bufferDeviceAddress);
TRUTH(VR_VK_FEATURE_12_MEMORY_MODEL, VkPhysicalDeviceVulkan12Features, vulkanMemoryModel);
TRUTH(VR_VK_FEATURE_12_MODEL_DEVICE_SCOPE, VkPhysicalDeviceVulkan12Features,
      vulkanMemoryModelDeviceScope);
TRUTH(VR_VK_FEATURE_12_COUNT - 1, VkPhysicalDeviceVulkan12Features, subgroupBroadcastDynamicId);

/* ------------------------------------------------------------------ layouts */

#define HEADED(ours, theirs, ...)                                                                  \
    LAYOUT(ours, theirs, __VA_ARGS__);                                                             \
    FIELDS_2(ours, theirs, head.type, sType, head.next, pNext)

LAYOUT(vr_vk_limits, VkPhysicalDeviceLimits, 5, max_push_constants, maxPushConstantsSize,
       max_allocations, maxMemoryAllocationCount, max_groups, maxComputeWorkGroupCount,
       max_group_items, maxComputeWorkGroupInvocations, max_group_size, maxComputeWorkGroupSize);
LAYOUT(vr_vk_properties, VkPhysicalDeviceProperties, 4, api_version, apiVersion, kind, deviceType,
       name, deviceName, limits, limits);
HEADED(vr_vk_properties_2, VkPhysicalDeviceProperties2, 1, properties, properties);
HEADED(vr_vk_id, VkPhysicalDeviceIDProperties, 1, device_uuid, deviceUUID);
HEADED(vr_vk_maintenance_3, VkPhysicalDeviceMaintenance3Properties, 1, max_allocation,
       maxMemoryAllocationSize);
HEADED(vr_vk_maintenance_4, VkPhysicalDeviceMaintenance4Properties, 1, max_buffer, maxBufferSize);
HEADED(vr_vk_pci, VkPhysicalDevicePCIBusInfoPropertiesEXT, 4, domain, pciDomain, bus, pciBus,
       device, pciDevice, function, pciFunction);
HEADED(vr_vk_features_2, VkPhysicalDeviceFeatures2, 1, values, features);
HEADED(vr_vk_features_11, VkPhysicalDeviceVulkan11Features, 0);
HEADED(vr_vk_features_12, VkPhysicalDeviceVulkan12Features, 0);
LAYOUT(vr_vk_memory_properties, VkPhysicalDeviceMemoryProperties, 4, type_count, memoryTypeCount,
       types, memoryTypes, heap_count, memoryHeapCount, heaps, memoryHeaps);
FIELDS_2(vr_vk_memory_type, VkMemoryType, flags, propertyFlags, heap, heapIndex);
FIELDS_2(vr_vk_heap, VkMemoryHeap, bytes, size, flags, flags);
HEADED(vr_vk_memory_properties_2, VkPhysicalDeviceMemoryProperties2, 1, properties,
       memoryProperties);
HEADED(vr_vk_budget, VkPhysicalDeviceMemoryBudgetPropertiesEXT, 2, budget, heapBudget, usage,
       heapUsage);
LAYOUT(vr_vk_family, VkQueueFamilyProperties, 2, flags, queueFlags, count, queueCount);
LAYOUT(vr_vk_extension, VkExtensionProperties, 1, name, extensionName);

HEADED(vr_vk_application, VkApplicationInfo, 5, name, pApplicationName, version, applicationVersion,
       engine, pEngineName, engine_version, engineVersion, api_version, apiVersion);
HEADED(vr_vk_instance_info, VkInstanceCreateInfo, 4, flags, flags, application, pApplicationInfo,
       layer_count, enabledLayerCount, extension_count, enabledExtensionCount);
HEADED(vr_vk_device_queue_info, VkDeviceQueueCreateInfo, 3, family, queueFamilyIndex, count,
       queueCount, priorities, pQueuePriorities);
HEADED(vr_vk_device_info, VkDeviceCreateInfo, 6, queue_count, queueCreateInfoCount, queues,
       pQueueCreateInfos, layer_count, enabledLayerCount, extension_count, enabledExtensionCount,
       extensions, ppEnabledExtensionNames, features, pEnabledFeatures);
HEADED(vr_vk_allocate_info, VkMemoryAllocateInfo, 2, bytes, allocationSize, type, memoryTypeIndex);
HEADED(vr_vk_allocate_flags, VkMemoryAllocateFlagsInfo, 1, flags, flags);
HEADED(vr_vk_dedicated, VkMemoryDedicatedAllocateInfo, 2, image, image, buffer, buffer);
HEADED(vr_vk_export, VkExportMemoryAllocateInfo, 1, handle_types, handleTypes);
HEADED(vr_vk_import_fd, VkImportMemoryFdInfoKHR, 2, handle_type, handleType, fd, fd);
HEADED(vr_vk_get_fd, VkMemoryGetFdInfoKHR, 2, memory, memory, handle_type, handleType);
HEADED(vr_vk_external_buffer_made, VkExternalMemoryBufferCreateInfo, 1, handle_types, handleTypes);
HEADED(vr_vk_external_buffer, VkPhysicalDeviceExternalBufferInfo, 2, usage, usage, handle_type,
       handleType);
HEADED(vr_vk_external_buffer_properties, VkExternalBufferProperties, 1, features,
       externalMemoryProperties.externalMemoryFeatures);
HEADED(vr_vk_buffer_info, VkBufferCreateInfo, 5, bytes, size, usage, usage, sharing, sharingMode,
       family_count, queueFamilyIndexCount, families, pQueueFamilyIndices);
LAYOUT(vr_vk_requirements, VkMemoryRequirements, 3, bytes, size, align, alignment, types,
       memoryTypeBits);
HEADED(vr_vk_address_info, VkBufferDeviceAddressInfo, 1, buffer, buffer);
HEADED(vr_vk_semaphore_info, VkSemaphoreCreateInfo, 0);
HEADED(vr_vk_semaphore_type, VkSemaphoreTypeCreateInfo, 2, type, semaphoreType, start,
       initialValue);
HEADED(vr_vk_semaphore_wait, VkSemaphoreWaitInfo, 3, count, semaphoreCount, semaphores, pSemaphores,
       values, pValues);
HEADED(vr_vk_command_pool_info, VkCommandPoolCreateInfo, 2, flags, flags, family, queueFamilyIndex);
HEADED(vr_vk_commands_info, VkCommandBufferAllocateInfo, 3, pool, commandPool, level, level, count,
       commandBufferCount);
HEADED(vr_vk_begin_info, VkCommandBufferBeginInfo, 1, flags, flags);
HEADED(vr_vk_submit, VkSubmitInfo, 7, wait_count, waitSemaphoreCount, waits, pWaitSemaphores,
       wait_stages, pWaitDstStageMask, commands_count, commandBufferCount, commands,
       pCommandBuffers, signal_count, signalSemaphoreCount, signals, pSignalSemaphores);
HEADED(vr_vk_timeline_submit, VkTimelineSemaphoreSubmitInfo, 4, wait_count, waitSemaphoreValueCount,
       wait_values, pWaitSemaphoreValues, signal_count, signalSemaphoreValueCount, signal_values,
       pSignalSemaphoreValues);
HEADED(vr_vk_barrier, VkMemoryBarrier, 2, from_access, srcAccessMask, to_access, dstAccessMask);
LAYOUT(vr_vk_copy, VkBufferCopy, 3, from, srcOffset, to, dstOffset, bytes, size);
HEADED(vr_vk_shader_info, VkShaderModuleCreateInfo, 2, bytes, codeSize, code, pCode);
LAYOUT(vr_vk_push_range, VkPushConstantRange, 3, stages, stageFlags, offset, offset, bytes, size);
HEADED(vr_vk_layout_info, VkPipelineLayoutCreateInfo, 3, set_count, setLayoutCount, range_count,
       pushConstantRangeCount, ranges, pPushConstantRanges);
LAYOUT(vr_vk_constant, VkSpecializationMapEntry, 3, id, constantID, offset, offset, bytes, size);
LAYOUT(vr_vk_constants, VkSpecializationInfo, 3, entries, pMapEntries, bytes, dataSize, data,
       pData);
HEADED(vr_vk_stage, VkPipelineShaderStageCreateInfo, 4, stage, stage, shader, module, entry, pName,
       constants, pSpecializationInfo);
HEADED(vr_vk_compute_info, VkComputePipelineCreateInfo, 4, stage, stage, layout, layout, base,
       basePipelineHandle, base_index, basePipelineIndex);

/* ------------------------------------------------------ the layer of vram run */

SAME(LAYER_VK_INTERFACE_VERSION, CURRENT_LOADER_LAYER_INTERFACE_VERSION);
SAME(LAYER_VK_NEGOTIATE, LAYER_NEGOTIATE_INTERFACE_STRUCT);
SAME(LAYER_VK_LINK, VK_LAYER_LINK_INFO);
SAME(LAYER_VK_TYPE_LOADER_INSTANCE, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
SAME(LAYER_VK_TYPE_LOADER_DEVICE, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
SAME(LAYER_VK_TYPE_IMPORT_WIN32_NV, VK_STRUCTURE_TYPE_IMPORT_MEMORY_WIN32_HANDLE_INFO_NV);
SAME(LAYER_VK_TYPE_IMPORT_WIN32, VK_STRUCTURE_TYPE_IMPORT_MEMORY_WIN32_HANDLE_INFO_KHR);
SAME(LAYER_VK_TYPE_IMPORT_FD, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
SAME(LAYER_VK_TYPE_IMPORT_ANDROID, VK_STRUCTURE_TYPE_IMPORT_ANDROID_HARDWARE_BUFFER_INFO_ANDROID);
SAME(LAYER_VK_TYPE_IMPORT_HOST, VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
SAME(LAYER_VK_TYPE_IMPORT_METAL, VK_STRUCTURE_TYPE_IMPORT_METAL_BUFFER_INFO_EXT);
SAME(LAYER_VK_TYPE_IMPORT_ZIRCON, VK_STRUCTURE_TYPE_IMPORT_MEMORY_ZIRCON_HANDLE_INFO_FUCHSIA);
SAME(LAYER_VK_TYPE_IMPORT_COLLECTION, VK_STRUCTURE_TYPE_IMPORT_MEMORY_BUFFER_COLLECTION_FUCHSIA);
LAYOUT(layer_vk_negotiate, VkNegotiateLayerInterface, 3, version, loaderLayerInterfaceVersion,
       instance_get, pfnGetInstanceProcAddr, physical_get, pfnGetPhysicalDeviceProcAddr);
LAYOUT(layer_vk_instance_link, VkLayerInstanceLink, 1, instance_get, pfnNextGetInstanceProcAddr);
LAYOUT(layer_vk_device_link, VkLayerDeviceLink, 1, device_get, pfnNextGetDeviceProcAddr);
FIELDS_2(layer_vk_chain, VkLayerInstanceCreateInfo, function, function, link.instance,
         u.pLayerInfo);
FIELDS_2(layer_vk_chain, VkLayerDeviceCreateInfo, function, function, link.device, u.pLayerInfo);
FIELDS_1(layer_vk_import, VkImportMemoryFdInfoKHR, handle_type, handleType);
FIELDS_1(layer_vk_import, VkImportMemoryHostPointerInfoEXT, handle_type, handleType);

/* --------------------------------------------------------------- prototypes */

/* The list is expanded once more with Khronos's types in the place of ours: each row must then have
   the very type of the function that vulkan.h declares under that name. Enums without negative
   values are 32-bit numbers. */
#define vr_vk_result                     VkResult
#define vr_vk_function                   PFN_vkVoidFunction
#define vr_vk_instance                   VkInstance_T
#define vr_vk_physical                   VkPhysicalDevice_T
#define vr_vk_device                     VkDevice_T
#define vr_vk_queue                      VkQueue_T
#define vr_vk_commands                   VkCommandBuffer_T
#define vr_vk_memory                     VkDeviceMemory_T
#define vr_vk_buffer                     VkBuffer_T
#define vr_vk_semaphore                  VkSemaphore_T
#define vr_vk_fence                      VkFence_T
#define vr_vk_command_pool               VkCommandPool_T
#define vr_vk_shader                     VkShaderModule_T
#define vr_vk_layout                     VkPipelineLayout_T
#define vr_vk_pipeline                   VkPipeline_T
#define vr_vk_pipeline_cache             VkPipelineCache_T
#define vr_vk_allocator                  VkAllocationCallbacks
#define vr_vk_properties                 VkPhysicalDeviceProperties
#define vr_vk_properties_2               VkPhysicalDeviceProperties2
#define vr_vk_features_2                 VkPhysicalDeviceFeatures2
#define vr_vk_memory_properties_2        VkPhysicalDeviceMemoryProperties2
#define vr_vk_family                     VkQueueFamilyProperties
#define vr_vk_extension                  VkExtensionProperties
#define vr_vk_instance_info              VkInstanceCreateInfo
#define vr_vk_device_info                VkDeviceCreateInfo
#define vr_vk_submit                     VkSubmitInfo
#define vr_vk_allocate_info              VkMemoryAllocateInfo
#define vr_vk_buffer_info                VkBufferCreateInfo
#define vr_vk_get_fd                     VkMemoryGetFdInfoKHR
#define vr_vk_external_buffer            VkPhysicalDeviceExternalBufferInfo
#define vr_vk_external_buffer_properties VkExternalBufferProperties
#define vr_vk_requirements               VkMemoryRequirements
#define vr_vk_address_info               VkBufferDeviceAddressInfo
#define vr_vk_semaphore_info             VkSemaphoreCreateInfo
#define vr_vk_semaphore_wait             VkSemaphoreWaitInfo
#define vr_vk_command_pool_info          VkCommandPoolCreateInfo
#define vr_vk_commands_info              VkCommandBufferAllocateInfo
#define vr_vk_begin_info                 VkCommandBufferBeginInfo
#define vr_vk_barrier                    VkMemoryBarrier
#define vr_vk_buffer_barrier             VkBufferMemoryBarrier
#define vr_vk_image_barrier              VkImageMemoryBarrier
#define vr_vk_copy                       VkBufferCopy
#define vr_vk_shader_info                VkShaderModuleCreateInfo
#define vr_vk_layout_info                VkPipelineLayoutCreateInfo
#define vr_vk_compute_info               VkComputePipelineCreateInfo

#define PROTOTYPE(returns, name, level, parameters, names)                                         \
    _Static_assert(_Generic((PFN_##name)0, returns(*) parameters : true, default : false), #name);
VR_VULKAN_FUNCTIONS(PROTOTYPE)

#define vr_vk_memory_properties VkPhysicalDeviceMemoryProperties
#define LAYER(returns, name, parameters)                                                           \
    _Static_assert(_Generic((PFN_##name)0, returns(*) parameters : true, default : false), #name);
LAYER_VK_INSTANCE_FUNCTIONS(LAYER)
LAYER_VK_INSTANCE_CALLED(LAYER)
LAYER_VK_DEVICE_FUNCTIONS(LAYER)
