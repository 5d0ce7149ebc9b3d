/* SPDX-License-Identifier: Apache-2.0 */
/* layer_vulkan_memory.c: allocations, and the sizes of heaps and budgets under a limit. */
#include "layer_vulkan.h"

#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

/* Handles need to be unique within a device only. */
static uint64_t value_of(const struct layer_vk_device *device, const struct vr_vk_memory *memory) {
    return (uint64_t)(uintptr_t)memory ^ (device->serial - 1) * UINT64_C(0x9E3779B97F4A7C15);
}

/* ------------------------------------------------------ the driver's own figures */

static bool has_budget(struct layer_vk_instance *instance, struct vr_vk_physical *physical) {
    uint32_t count = 0;
    bool found = false;
    if (instance->vkEnumerateDeviceExtensionProperties(physical, NULL, &count, NULL)) {
        return false;
    }
    struct vr_vk_extension *extensions = vr_mem_alloc(count, sizeof *extensions, "vram run");
    vr_vk_result result =
        extensions
            ? instance->vkEnumerateDeviceExtensionProperties(physical, NULL, &count, extensions)
            : VR_VK_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; (!result || result == VR_VK_INCOMPLETE) && i < count && !found; i++) {
        found = strncmp(extensions[i].name, VR_VK_EXT_BUDGET, sizeof extensions[i].name) == 0;
    }
    vr_mem_free(extensions);
    return found;
}

/* The part of all budgets of local heaps that this process does not use. */
static uint64_t budget_free(struct layer_vk_instance *instance, struct vr_vk_physical *physical) {
    struct vr_vk_budget budget = {.head.type = VR_VK_TYPE_BUDGET};
    struct vr_vk_memory_properties_2 memory = {.head = {VR_VK_TYPE_MEMORY_PROPERTIES, &budget}};
    uint64_t bytes = 0;
    if (instance->vkGetPhysicalDeviceMemoryProperties2) {
        instance->vkGetPhysicalDeviceMemoryProperties2(physical, &memory);
    } else {
        instance->vkGetPhysicalDeviceMemoryProperties2KHR(physical, &memory);
    }
    for (uint32_t i = 0; i < memory.properties.heap_count && i < VR_VK_MEMORY_HEAPS; i++) {
        bool local = memory.properties.heaps[i].flags & VR_VK_HEAP_DEVICE_LOCAL;
        bytes +=
            local && budget.budget[i] > budget.usage[i] ? budget.budget[i] - budget.usage[i] : 0;
    }
    return bytes;
}

bool layer_vk_free(struct layer_vk_instance *instance, struct vr_vk_physical *physical,
                   uint64_t *bytes) {
    bool able = (instance->vkGetPhysicalDeviceMemoryProperties2 ||
                 instance->vkGetPhysicalDeviceMemoryProperties2KHR) &&
                has_budget(instance, physical);
    if (able) {
        *bytes = budget_free(instance, physical);
    }
    return able;
}

static void figure_note(struct layer_vk_device *device) {
    struct vr_vk_physical *physical = vr_load(&device->physical, VR_RELAXED);
    if (device->budget && run_device_due(device->number)) {
        run_device_figure(device->number, budget_free(device->instance, physical));
    }
}

/* --------------------------------------------------------------- allocations */

/* What a chain imports; 0: nothing. */
static uint32_t import_of(const struct vr_vk_allocate_info *info) {
    for (const struct vr_vk_head *at = info->head.next; at; at = at->next) {
        switch (at->type) {
        case LAYER_VK_TYPE_IMPORT_FD:
        case LAYER_VK_TYPE_IMPORT_WIN32:
        case LAYER_VK_TYPE_IMPORT_WIN32_NV:
        case LAYER_VK_TYPE_IMPORT_ZIRCON:
            if (((const struct layer_vk_import *)at)->handle_type) {
                return at->type;
            }
            break;
        case LAYER_VK_TYPE_IMPORT_ANDROID:
        case LAYER_VK_TYPE_IMPORT_HOST:
        case LAYER_VK_TYPE_IMPORT_METAL:
        case LAYER_VK_TYPE_IMPORT_COLLECTION:
            return at->type;
        default:
            break;
        }
    }
    return 0;
}

static bool is_local(const struct vr_vk_memory_properties *memory, uint32_t heap) {
    return heap >= memory->heap_count || heap >= VR_VK_MEMORY_HEAPS ||
           memory->heaps[heap].flags & VR_VK_HEAP_DEVICE_LOCAL;
}

static enum run_kind kind_of(const struct layer_vk_device *device,
                             const struct vr_vk_allocate_info *info) {
    const struct vr_vk_memory_properties *memory = &device->memory;
    uint32_t import = import_of(info);
    if (import) {
        return import == LAYER_VK_TYPE_IMPORT_HOST ? RUN_REGISTERED : RUN_IMPORTED;
    }
    return info->type < memory->type_count && info->type < VR_VK_MEMORY_TYPES &&
                   !is_local(memory, memory->types[info->type].heap)
               ? RUN_PINNED
               : RUN_DEVICE;
}

vr_vk_result layer_vkAllocateMemory(struct vr_vk_device *handle,
                                    const struct vr_vk_allocate_info *info,
                                    const struct vr_vk_allocator *allocator,
                                    struct vr_vk_memory **memory) {
    struct layer_vk_device *device = layer_vk_device_of(handle);
    if (!device) {
        return VR_VK_OUT_OF_HOST_MEMORY; /* no device of a loader */
    }
    struct run_block block = {.device = device->number,
                              .kind = kind_of(device, info),
                              .space = RUN_SPACE_VK_MEMORY,
                              .bytes = info->bytes,
                              .queue = device->serial};
    if (!run_limit_take(block.device, block.kind, block.bytes)) {
        run_refused(block.device, block.kind, block.bytes, true);
        return VR_VK_OUT_OF_DEVICE_MEMORY;
    }
    vr_vk_result result = device->vkAllocateMemory(handle, info, allocator, memory);
    if (result == VR_VK_SUCCESS) {
        block.value = value_of(device, *memory);
        run_alloc(&block);
        figure_note(device);
        return result;
    }
    run_limit_give(block.device, block.kind, block.bytes);
    if (result == VR_VK_OUT_OF_DEVICE_MEMORY || result == VR_VK_OUT_OF_HOST_MEMORY) {
        run_refused(block.device, block.kind, block.bytes, false);
    }
    return result;
}

void layer_vkFreeMemory(struct vr_vk_device *handle, struct vr_vk_memory *memory,
                        const struct vr_vk_allocator *allocator) {
    struct layer_vk_device *device = layer_vk_device_of(handle);
    struct run_block block;
    if (!device) {
        return;
    }
    bool known = memory && run_free_begin(RUN_SPACE_VK_MEMORY, value_of(device, memory), &block);
    device->vkFreeMemory(handle, memory, allocator);
    run_free_end(known ? &block : NULL, true);
}

struct not_freed {
    uint64_t serial, blocks, bytes;
};

static bool of_device(const struct run_block *block, void *user) {
    struct not_freed *sum = user;
    bool own = block->space == RUN_SPACE_VK_MEMORY && block->queue == sum->serial;
    sum->blocks += own;
    sum->bytes += own ? block->bytes : 0;
    return own;
}

/* Vulkan asks programs to free memory first; the driver does it for those that do not. The trace
   has such blocks as never freed. If other devices share the recorder's one, only their number is
   told. */
void layer_vk_memory_end(const struct layer_vk_device *device, bool alone) {
    struct not_freed sum = {.serial = device->serial};
    char text[128];
    if (alone) {
        run_context_ended(device->number);
        return;
    }
    run_free_all(device->number, of_device, &sum);
    if (sum.blocks) {
        (void)vr_text_format(text, sizeof text,
                             "vkDestroyDevice: %" PRIu64 " allocations of %" PRIu64
                             " bytes were not freed before",
                             sum.blocks, sum.bytes);
        run_mark(text);
    }
}

/* ---------------------------------------------------------------- under limit */

static void heaps_limit(struct vr_vk_memory_properties *memory) {
    for (uint32_t i = 0; i < memory->heap_count && i < VR_VK_MEMORY_HEAPS; i++) {
        if (memory->heaps[i].flags & VR_VK_HEAP_DEVICE_LOCAL) {
            run_limit_view(RUN_NO_DEVICE, NULL, &memory->heaps[i].bytes);
        }
    }
}

/* What is left of the budget is what is left of the limit, or less. */
static void budget_limit(struct vr_vk_budget *budget, const struct vr_vk_memory_properties *memory,
                         uint32_t number) {
    for (uint32_t i = 0; i < memory->heap_count && i < VR_VK_MEMORY_HEAPS; i++) {
        if (memory->heaps[i].flags & VR_VK_HEAP_DEVICE_LOCAL) {
            uint64_t limit = budget->budget[i], usage = budget->usage[i];
            uint64_t left = limit > usage ? limit - usage : 0;
            run_limit_view(number, &left, &limit);
            budget->usage[i] = usage < limit ? usage : limit;
            left = left < limit - budget->usage[i] ? left : limit - budget->usage[i];
            budget->budget[i] = budget->usage[i] + left;
        }
    }
}

static void properties_limit(const struct vr_vk_physical *physical,
                             struct vr_vk_memory_properties_2 *properties) {
    heaps_limit(&properties->properties);
    for (struct vr_vk_head *at = properties->head.next; at && run_limit_bytes(); at = at->next) {
        if (at->type == VR_VK_TYPE_BUDGET) {
            budget_limit((struct vr_vk_budget *)at, &properties->properties,
                         layer_vk_number(physical));
        }
    }
}

void layer_vkGetPhysicalDeviceMemoryProperties(struct vr_vk_physical *physical,
                                               struct vr_vk_memory_properties *properties) {
    struct layer_vk_instance *instance = layer_vk_instance_of(physical);
    if (instance) {
        instance->vkGetPhysicalDeviceMemoryProperties(physical, properties);
        heaps_limit(properties);
    }
}

void layer_vkGetPhysicalDeviceMemoryProperties2(struct vr_vk_physical *physical,
                                                struct vr_vk_memory_properties_2 *properties) {
    struct layer_vk_instance *instance = layer_vk_instance_of(physical);
    if (instance) {
        instance->vkGetPhysicalDeviceMemoryProperties2(physical, properties);
        properties_limit(physical, properties);
    }
}

void layer_vkGetPhysicalDeviceMemoryProperties2KHR(struct vr_vk_physical *physical,
                                                   struct vr_vk_memory_properties_2 *properties) {
    struct layer_vk_instance *instance = layer_vk_instance_of(physical);
    if (instance) {
        instance->vkGetPhysicalDeviceMemoryProperties2KHR(physical, properties);
        properties_limit(physical, properties);
    }
}
