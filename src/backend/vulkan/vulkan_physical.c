/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_physical.c: properties and features of each physical device, read once at the start.
 *
 * Devices that the library creates enable the features that kernels commonly need and that cost
 * nothing if unused; features that make every access slower (robust access) stay off.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>

#define VERSION_MIN VR_VK_VERSION(1, 2)

/* ------------------------------------------------------------------ reading */

/* If the list grows between the two calls, only what fits is read. */
static vram_status physical_read_extensions(const struct vr_vulkan_api *api,
                                            struct vr_vulkan_physical *physical, bool *pci) {
    uint32_t count = 0;
    static const char operation[] = "vkEnumerateDeviceExtensionProperties";
    vram_status status = vr_vulkan_check(
        operation, api->vkEnumerateDeviceExtensionProperties(physical->handle, NULL, &count, NULL),
        VRAM_ERR_HOST_MEMORY);
    if (status != VRAM_OK || count == 0) {
        return status;
    }
    struct vr_vk_extension *list = vr_mem_alloc(count, sizeof *list, operation);
    if (!list) {
        return VRAM_ERR_HOST_MEMORY;
    }
    uint32_t room = count;
    vr_vk_result code =
        api->vkEnumerateDeviceExtensionProperties(physical->handle, NULL, &count, list);
    status =
        code == VR_VK_INCOMPLETE ? VRAM_OK : vr_vulkan_check(operation, code, VRAM_ERR_HOST_MEMORY);
    for (uint32_t i = 0; status == VRAM_OK && i < count && i < room; i++) {
        list[i].name[sizeof list[i].name - 1] = 0;
        physical->budget |= strcmp(list[i].name, VR_VK_EXT_BUDGET) == 0;
        physical->external_fd |= strcmp(list[i].name, VR_VK_EXT_FD) == 0;
        *pci |= strcmp(list[i].name, VR_VK_EXT_PCI) == 0;
    }
    vr_mem_free(list);
    return status;
}

static void physical_read_families(const struct vr_vulkan_api *api,
                                   struct vr_vulkan_physical *physical) {
    uint32_t count = VR_VULKAN_FAMILIES;
    api->vkGetPhysicalDeviceQueueFamilyProperties(physical->handle, &count, physical->families);
    physical->family_count = count < VR_VULKAN_FAMILIES ? count : VR_VULKAN_FAMILIES;
}

/* Keeps in `values` the features that are both wanted and available. */
static void features_keep(uint32_t *values, uint32_t count, const uint32_t *wanted,
                          uint32_t wanted_count) {
    uint32_t kept[VR_VK_FEATURE_COUNT] = {0};
    for (uint32_t i = 0; i < wanted_count; i++) {
        kept[wanted[i]] = values[wanted[i]] != 0;
    }
    memcpy(values, kept, count * sizeof *values);
}

static void physical_read_features(const struct vr_vulkan_api *api,
                                   struct vr_vulkan_physical *physical) {
    static const uint32_t wanted[] = {VR_VK_FEATURE_FLOAT64, VR_VK_FEATURE_INT64,
                                      VR_VK_FEATURE_INT16};
    static const uint32_t wanted_11[] = {VR_VK_FEATURE_11_STORAGE16};
    static const uint32_t wanted_12[] = {
        VR_VK_FEATURE_12_STORAGE8,     VR_VK_FEATURE_12_FLOAT16,
        VR_VK_FEATURE_12_INT8,         VR_VK_FEATURE_12_SCALAR_LAYOUT,
        VR_VK_FEATURE_12_TIMELINE,     VR_VK_FEATURE_12_ADDRESS,
        VR_VK_FEATURE_12_MEMORY_MODEL, VR_VK_FEATURE_12_MODEL_DEVICE_SCOPE};
    physical->features.head = (struct vr_vk_head){VR_VK_TYPE_FEATURES, &physical->features_11};
    physical->features_11.head =
        (struct vr_vk_head){VR_VK_TYPE_FEATURES_11, &physical->features_12};
    physical->features_12.head = (struct vr_vk_head){VR_VK_TYPE_FEATURES_12, NULL};
    api->vkGetPhysicalDeviceFeatures2(physical->handle, &physical->features);
    features_keep(physical->features.values, VR_VK_FEATURE_COUNT, wanted, sizeof wanted / 4);
    features_keep(physical->features_11.values, VR_VK_FEATURE_11_COUNT, wanted_11,
                  sizeof wanted_11 / 4);
    features_keep(physical->features_12.values, VR_VK_FEATURE_12_COUNT, wanted_12,
                  sizeof wanted_12 / 4);
    /* With the memory model, but without its device scope, a shader must not use a plain
       atomicAdd. */
    if (!physical->features_12.values[VR_VK_FEATURE_12_MODEL_DEVICE_SCOPE]) {
        physical->features_12.values[VR_VK_FEATURE_12_MEMORY_MODEL] = 0;
    }
    physical->addresses = physical->features_12.values[VR_VK_FEATURE_12_ADDRESS];
}

static uint64_t u64_min(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Never 0, and the same in all processes that use the driver: FNV-1a. */
static uint32_t driver_id_of(const uint8_t uuid[16]) {
    uint32_t id = UINT32_C(2166136261);
    for (int i = 0; i < 16; i++) {
        id = (id ^ uuid[i]) * UINT32_C(16777619);
    }
    return id ? id : 1;
}

/* Identity and limits. maxBufferSize came with 1.3; a 1.2 driver is not asked. */
static void physical_read_properties(const struct vr_vulkan_api *api,
                                     struct vr_vulkan_physical *physical, bool pci) {
    struct vr_vk_pci bus = {.head = {VR_VK_TYPE_PCI, NULL}};
    struct vr_vk_maintenance_4 buffers = {.head = {VR_VK_TYPE_MAINTENANCE_4, pci ? &bus : NULL},
                                          .max_buffer = UINT64_MAX};
    bool newer = physical->properties.api_version >= VR_VK_VERSION(1, 3);
    struct vr_vk_maintenance_3 memory = {
        .head = {VR_VK_TYPE_MAINTENANCE_3, newer ? (void *)&buffers : buffers.head.next}};
    struct vr_vk_id id = {.head = {VR_VK_TYPE_ID, &memory}};
    struct vr_vk_properties_2 all = {.head = {VR_VK_TYPE_PROPERTIES, &id}};
    struct vr_vk_memory_properties_2 heaps = {.head = {VR_VK_TYPE_MEMORY_PROPERTIES, NULL}};
    uint64_t largest = 0;
    api->vkGetPhysicalDeviceProperties2(physical->handle, &all);
    api->vkGetPhysicalDeviceMemoryProperties2(physical->handle, &heaps);
    physical->memory = heaps.properties;
    for (uint32_t i = 0; i < physical->memory.heap_count && i < VR_VK_MEMORY_HEAPS; i++) {
        uint64_t bytes = physical->memory.heaps[i].bytes;
        largest = bytes > largest ? bytes : largest;
    }
    physical->alloc_max = u64_min(u64_min(memory.max_allocation, buffers.max_buffer), largest);
    physical->alloc_max -= physical->alloc_max % VR_VULKAN_GRANULE;
    memcpy(physical->uuid, id.device_uuid, sizeof physical->uuid);
    physical->uuid_known = true;
    physical->driver_id = driver_id_of(id.driver_uuid);
    if (pci) {
        (void)snprintf(physical->pci, sizeof physical->pci, "%04x:%02x:%02x.%x",
                       bus.domain & 0xFFFF, bus.bus & 0xFF, bus.device & 0x1F, bus.function & 7);
        physical->pci_known = true;
    }
}

/* Keeps external_fd only if the driver both exports and imports buffers as the library makes them.
 */
static void physical_read_external(const struct vr_vulkan_api *api,
                                   struct vr_vulkan_physical *physical) {
    const struct vr_vk_external_buffer info = {.head = {VR_VK_TYPE_EXTERNAL_BUFFER, NULL},
                                               .usage = vr_vulkan_usage(physical->addresses),
                                               .handle_type = VR_VK_OPAQUE_FD};
    struct vr_vk_external_buffer_properties found = {
        .head = {VR_VK_TYPE_EXTERNAL_BUFFER_PROPERTIES, NULL}};
    if (physical->external_fd) {
        api->vkGetPhysicalDeviceExternalBufferProperties(physical->handle, &info, &found);
        physical->external_fd = found.features & VR_VK_EXTERNAL_EXPORTABLE &&
                                found.features & VR_VK_EXTERNAL_IMPORTABLE;
    }
}

/* ------------------------------------------------------------------ judging */

/* Whether the reported memory types are consistent; the rest of the backend relies on that. */
static bool memory_is_plausible(const struct vr_vk_memory_properties *memory) {
    const uint32_t pinned = VR_VK_MEMORY_HOST_VISIBLE | VR_VK_MEMORY_HOST_COHERENT;
    bool local = false, visible = false;
    if (memory->type_count > VR_VK_MEMORY_TYPES || memory->heap_count > VR_VK_MEMORY_HEAPS) {
        return false;
    }
    for (uint32_t i = 0; i < memory->type_count; i++) {
        uint32_t flags = memory->types[i].flags;
        if (memory->types[i].heap >= memory->heap_count) {
            return false;
        }
        local |= (flags & VR_VK_MEMORY_DEVICE_LOCAL) != 0;
        visible |= (flags & pinned) == pinned;
    }
    return local && visible;
}

static bool has_compute_queue(const struct vr_vulkan_physical *physical) {
    for (uint32_t i = 0; i < physical->family_count; i++) {
        if (physical->families[i].flags & VR_VK_QUEUE_COMPUTE && physical->families[i].count) {
            return true;
        }
    }
    return false;
}

static const char *unusable_reason(const struct vr_vulkan_physical *physical) {
    if (!physical->features_12.values[VR_VK_FEATURE_12_TIMELINE]) {
        return "it has no timeline semaphores";
    }
    if (!memory_is_plausible(&physical->memory)) {
        return "its memory types cannot be";
    }
    if (physical->alloc_max == 0) {
        return "it allocates no memory";
    }
    return has_compute_queue(physical) ? NULL : "it has no queue for compute";
}

vram_status vr_vulkan_physical_read(const struct vr_vulkan *vulkan, struct vr_vk_physical *handle,
                                    struct vr_vulkan_physical *physical, const char **reason) {
    const struct vr_vulkan_api *api = &vulkan->api;
    bool pci = false;
    *physical = (struct vr_vulkan_physical){.handle = handle};
    api->vkGetPhysicalDeviceProperties(handle, &physical->properties);
    physical->properties.name[sizeof physical->properties.name - 1] = 0;
    if (physical->properties.api_version < VERSION_MIN) {
        *reason = "its driver knows no Vulkan 1.2: update it";
        return VRAM_OK;
    }
    vram_status status = physical_read_extensions(api, physical, &pci);
    if (status == VRAM_OK) {
        physical_read_families(api, physical);
        physical_read_features(api, physical);
        physical_read_properties(api, physical, pci);
        physical_read_external(api, physical);
        *reason = unusable_reason(physical);
    }
    return status;
}

/* ------------------------------------------------------------------ finding */

static vram_status physicals_read(struct vr_vulkan *vulkan, struct vr_vk_physical **handles,
                                  uint32_t count) {
    char reasons[VRAM_ERROR_TEXT_MAX] = "no physical device is there";
    for (uint32_t i = 0; i < count; i++) {
        struct vr_vulkan_physical *physical = &vulkan->physicals[vulkan->physical_count];
        const char *reason = NULL;
        vram_status status = vr_vulkan_physical_read(vulkan, handles[i], physical, &reason);
        if (status != VRAM_OK) {
            return status;
        }
        if (!reason) {
            vulkan->physical_count++;
            continue;
        }
        vr_log(VRAM_LOG_INFO, "vulkan: %s is left out: %s", physical->properties.name, reason);
        snprintf(reasons, sizeof reasons, "%.100s is left out: %s", physical->properties.name,
                 reason);
    }
    return vulkan->physical_count ? VRAM_OK
                                  : vr_error_set(VRAM_ERR_NO_DEVICE, "vulkan",
                                                 "vkEnumeratePhysicalDevices", 0, "%s", reasons);
}

vram_status vr_vulkan_physicals_find(struct vr_vulkan *vulkan) {
    static const char operation[] = "vkEnumeratePhysicalDevices";
    const struct vr_vulkan_api *api = &vulkan->api;
    struct vr_vk_physical **handles = NULL;
    uint32_t count = 0;
    vram_status status =
        vr_vulkan_check(operation, api->vkEnumeratePhysicalDevices(vulkan->instance, &count, NULL),
                        VRAM_ERR_HOST_MEMORY);
    if (status != VRAM_OK) {
        return status;
    }
    uint32_t room = count ? count : 1;
    handles = vr_mem_alloc(room, sizeof *handles, operation);
    vulkan->physicals = vr_mem_alloc(room, sizeof *vulkan->physicals, operation);
    if (!handles || !vulkan->physicals) {
        vr_mem_free(handles);
        return VRAM_ERR_HOST_MEMORY;
    }
    if (count) {
        vr_vk_result code = api->vkEnumeratePhysicalDevices(vulkan->instance, &count, handles);
        status = code == VR_VK_INCOMPLETE ? VRAM_OK
                                          : vr_vulkan_check(operation, code, VRAM_ERR_HOST_MEMORY);
    }
    if (status == VRAM_OK) {
        status = physicals_read(vulkan, handles, count < room ? count : room);
    }
    vr_mem_free(handles);
    return status;
}
