/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_backend.c: loads Vulkan's loader and creates an instance, or adopts the program's.
 *
 * If loader or driver is missing, too old or broken, `vram info` prints the reason and what to do:
 * every failure here is VRAM_ERR_NO_DRIVER or VRAM_ERR_NO_DEVICE. An impossible adoption is the
 * program's mistake, VRAM_ERR_INVALID, and no context is created.
 *
 * Once an instance was created, the library stays loaded: drivers start threads and register exit
 * handlers, whose code must not be unloaded.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/size.h"
#include "base/struct_tail.h"

#include <stdio.h>
#include <string.h>

#define SONAME      "libvulkan.so.1"
#define VERSION_MIN VR_VK_VERSION(1, 2)

/* The one symbol of the library itself. */
struct loader_entry {
    vr_vk_get_fn *get;
};

static const struct vr_symbol symbols[] = {
    {"vkGetInstanceProcAddr", NULL, offsetof(struct loader_entry, get), false},
};

static const struct {
    const char *name;
    size_t offset;
    enum vr_vk_level level;
} functions[] = {
#define ROW(returns, name, level, parameters, names)                                               \
    {#name, offsetof(struct vr_vulkan_api, name), level},
    VR_VULKAN_FUNCTIONS(ROW)
#undef ROW
};

/* ----------------------------------------------------------------- starting */

/* The driver's status, reduced to those that an absent backend may return. If memory of the library
   itself ran out, there is no driver code, and the start fails. */
static vram_status absent_status(vram_status status) {
    vram_error error;
    vr_error_save(&error);
    bool ours = status == VRAM_ERR_HOST_MEMORY && error.native_code == 0;
    if (status != VRAM_OK && status != VRAM_ERR_NO_DEVICE && !ours) {
        error.status = status = VRAM_ERR_NO_DRIVER;
        vr_error_restore(&error);
    }
    return status;
}

static vram_status loader_load(struct vr_vulkan *vulkan) {
    char path[VR_OPTION_TEXT_MAX];
    struct loader_entry entry = {NULL};
    vr_option_text(VR_OPTION_VULKAN_LIBRARY, path);
    const char *const sonames[] = {*path ? path : SONAME, NULL};
    const char *hint = *path ? "the option vulkan_library (VRAM_VULKAN_LIBRARY) asks for it"
                             : "install the Vulkan loader (libvulkan1)";
    vram_status status = vr_library_load(&vulkan->library, "vulkan", sonames, hint);
    if (status == VRAM_OK) {
        status = vr_library_fill(&vulkan->library, "vulkan", symbols,
                                 sizeof symbols / sizeof symbols[0], &entry);
    }
    vulkan->get = entry.get;
    return status;
}

/* Loads the functions of one level. vkGetInstanceProcAddr finds global functions without an
   instance. */
static vram_status functions_load(struct vr_vulkan *vulkan, enum vr_vk_level level) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (functions[i].level != level) {
            continue;
        }
        vr_vk_function found = vulkan->get(vulkan->instance, functions[i].name);
        if (!found) {
            return vr_error_set(VRAM_ERR_NO_DRIVER, "vulkan", "vkGetInstanceProcAddr", 0,
                                "the Vulkan loader has no %s: it is too old or not what its name "
                                "says",
                                functions[i].name);
        }
        memcpy((char *)&vulkan->api + functions[i].offset, &found, sizeof found);
    }
    return VRAM_OK;
}

vram_status vr_vulkan_device_functions_load(struct vr_vulkan_device *device) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (functions[i].level != VR_VK_DEVICE && functions[i].level != VR_VK_EXTENSION) {
            continue;
        }
        vr_vk_function found = device->api.vkGetDeviceProcAddr(device->handle, functions[i].name);
        if (!found && functions[i].level == VR_VK_DEVICE) {
            return vr_error_set(VRAM_ERR_UNSUPPORTED, "vulkan", "vkGetDeviceProcAddr", 0,
                                "the Vulkan driver has no %s, which is part of Vulkan 1.2",
                                functions[i].name);
        }
        memcpy((char *)&device->api + functions[i].offset, &found, sizeof found);
    }
    return VRAM_OK;
}

static vram_status instance_make(struct vr_vulkan *vulkan) {
    const struct vr_vk_application application = {.head = {VR_VK_TYPE_APPLICATION, NULL},
                                                  .name = "libvram",
                                                  .version = VRAM_VERSION,
                                                  .engine = "libvram",
                                                  .engine_version = VRAM_VERSION,
                                                  .api_version = VERSION_MIN};
    const struct vr_vk_instance_info info = {.head = {VR_VK_TYPE_INSTANCE, NULL},
                                             .application = &application};
    uint32_t version = 0;
    vram_status status = functions_load(vulkan, VR_VK_GLOBAL);
    if (status != VRAM_OK) {
        return status;
    }
    status =
        vr_vulkan_check("vkEnumerateInstanceVersion",
                        vulkan->api.vkEnumerateInstanceVersion(&version), VRAM_ERR_HOST_MEMORY);
    if (status == VRAM_OK && version < VERSION_MIN) {
        status = vr_error_set(VRAM_ERR_NO_DRIVER, "vulkan", "vkEnumerateInstanceVersion", version,
                              "the Vulkan loader knows %u.%u, libvram needs 1.2: update it",
                              VR_VK_VERSION_MAJOR(version), VR_VK_VERSION_MINOR(version));
    }
    if (status == VRAM_OK) {
        status = vr_vulkan_check("vkCreateInstance",
                                 vulkan->api.vkCreateInstance(&info, NULL, &vulkan->instance),
                                 VRAM_ERR_HOST_MEMORY);
    }
    if (status == VRAM_OK && !vulkan->instance) {
        status = vr_vulkan_bad_result("vkCreateInstance", 0);
    }
    return status == VRAM_OK ? functions_load(vulkan, VR_VK_INSTANCE) : status;
}

/* ----------------------------------------------------------------- adopting */

static vram_status adoption_error(const char *why) {
    return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vram_context_create", 0,
                        "vram_context_options.vulkan: %s", why);
}

/* Copies the adoption, as far as the caller's header defines it. */
static vram_status adoption_copy(struct vr_vulkan *vulkan,
                                 const struct vram_vulkan_adoption *from) {
    struct vram_vulkan_adoption *to = &vulkan->adopted;
    if (vr_options_take(to, sizeof *to, from) != VRAM_OK) {
        return adoption_error(
            "set size to sizeof(vram_vulkan_adoption), and what this version does "
            "not know to 0");
    }
    if (!to->instance || !to->physical_device || !to->device) {
        return adoption_error("instance, physical_device or device is NULL");
    }
    if (!to->queues || to->queue_count == 0 || to->queue_count > VR_VULKAN_NATIVE_QUEUES) {
        return adoption_error("there must be 1 to 8 queues");
    }
    vulkan->adopted_queues = vr_mem_alloc(to->queue_count, sizeof *to->queues, "vulkan_start");
    if (!vulkan->adopted_queues) {
        return VRAM_ERR_HOST_MEMORY;
    }
    memcpy(vulkan->adopted_queues, to->queues, to->queue_count * sizeof *to->queues);
    to->queues = vulkan->adopted_queues;
    for (uint32_t i = 0; i < to->queue_count; i++) {
        if (!to->queues[i].queue || !to->queues[i].lock != !to->queues[i].unlock) {
            return adoption_error("a queue is NULL, or has only one of lock and unlock");
        }
    }
    return VRAM_OK;
}

static vram_status adopted_queues_check(const struct vr_vulkan *vulkan) {
    const struct vr_vulkan_physical *physical = vulkan->physicals;
    for (uint32_t i = 0; i < vulkan->adopted.queue_count; i++) {
        uint32_t family = vulkan->adopted.queues[i].family;
        if (family >= physical->family_count ||
            !(physical->families[family].flags &
              (VR_VK_QUEUE_COMPUTE | VR_VK_QUEUE_GRAPHICS | VR_VK_QUEUE_TRANSFER))) {
            return adoption_error("a queue's family is not there or copies nothing");
        }
    }
    return VRAM_OK;
}

static vram_status instance_adopt(struct vr_vulkan *vulkan,
                                  const struct vram_vulkan_adoption *adoption) {
    const char *reason = NULL;
    vram_status status = adoption_copy(vulkan, adoption);
    if (status != VRAM_OK) {
        return status;
    }
    if (vulkan->adopted.get_proc) {
        memcpy(&vulkan->get, &vulkan->adopted.get_proc, sizeof vulkan->get);
    } else if ((status = loader_load(vulkan)) != VRAM_OK) {
        return status;
    }
    vulkan->instance = vulkan->adopted.instance;
    status = functions_load(vulkan, VR_VK_INSTANCE);
    if (status != VRAM_OK) {
        return status;
    }
    vulkan->physicals = vr_mem_alloc(1, sizeof *vulkan->physicals, "vulkan_start");
    if (!vulkan->physicals) {
        return VRAM_ERR_HOST_MEMORY;
    }
    status = vr_vulkan_physical_read(vulkan, vulkan->adopted.physical_device, vulkan->physicals,
                                     &reason);
    if (status == VRAM_OK && reason) {
        status = adoption_error(reason);
    }
    if (status == VRAM_OK) {
        vulkan->physical_count = 1;
        vulkan->physicals->addresses = vulkan->physicals->addresses && vulkan->adopted.addresses;
        status = adopted_queues_check(vulkan);
    }
    return status;
}

/* ----------------------------------------------------------- start and stop */

static void vulkan_free(struct vr_vulkan *vulkan) {
    if (vulkan->instance && !vulkan->adopted.device && vulkan->api.vkDestroyInstance &&
        !vr_load(&vulkan->keep_instance, VR_ACQUIRE)) {
        vulkan->api.vkDestroyInstance(vulkan->instance, NULL);
    }
    vr_mutex_destroy(&vulkan->lock);
    vr_mem_free(vulkan->physicals);
    vr_mem_free(vulkan->adopted_queues);
    vr_mem_free(vulkan);
}

static vram_status instance_start(struct vr_vulkan *vulkan) {
    vram_status status = loader_load(vulkan);
    if (status == VRAM_OK) {
        status = instance_make(vulkan);
    }
    if (status == VRAM_OK) {
        status = vr_vulkan_physicals_find(vulkan);
    }
    return absent_status(status);
}

static vram_status vulkan_start(struct vr_backend *backend,
                                const struct vram_context_options *options) {
    struct vr_vulkan *vulkan = vr_mem_alloc(1, sizeof *vulkan, "vulkan_start");
    if (!vulkan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&vulkan->lock, VR_RANK_BACKEND);
    vram_status status = options && options->vulkan ? instance_adopt(vulkan, options->vulkan)
                                                    : instance_start(vulkan);
    if (status != VRAM_OK) {
        vulkan_free(vulkan);
        return status;
    }
    uint32_t version = vulkan->physicals[0].properties.api_version;
    snprintf(backend->version, sizeof backend->version, "%u.%u.%u", VR_VK_VERSION_MAJOR(version),
             VR_VK_VERSION_MINOR(version), VR_VK_VERSION_PATCH(version));
    backend->impl = vulkan;
    return VRAM_OK;
}

static void vulkan_stop(struct vr_backend *backend) {
    vulkan_free(backend->impl);
    backend->impl = NULL;
}

static uint32_t vulkan_count(struct vr_backend *backend) {
    const struct vr_vulkan *vulkan = backend->impl;
    return vulkan->physical_count;
}

/* --------------------------------------------------------------- describing */

#define CAP_BIT(NAME, bit, name, text) | VRAM_CAP_##NAME
enum { ALL_CAPS = 0 VRAM_CAP_MAP(CAP_BIT) };
#undef CAP_BIT

/* The device's memory is its largest local heap: a second one is a window to the same memory (a PCI
   BAR), or too small to matter. */
static uint64_t local_heap_bytes(const struct vr_vk_memory_properties *memory) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < memory->heap_count; i++) {
        if (memory->heaps[i].flags & VR_VK_HEAP_DEVICE_LOCAL && memory->heaps[i].bytes > most) {
            most = memory->heaps[i].bytes;
        }
    }
    return most;
}

/* Start has read everything: no driver call here. */
static vram_status vulkan_describe(struct vr_backend *backend, uint32_t index,
                                   struct vram_device_info *info) {
    const struct vr_vulkan *vulkan = backend->impl;
    const struct vr_vulkan_physical *physical = &vulkan->physicals[index];
    info->kind = physical->properties.kind == VR_VK_KIND_CPU ? VRAM_DEVICE_CPU : VRAM_DEVICE_GPU;
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1,
             physical->properties.name);
    info->uuid_known = physical->uuid_known;
    memcpy(info->uuid, physical->uuid, sizeof info->uuid);
    info->pci_known = physical->pci_known;
    memcpy(info->pci, physical->pci, sizeof info->pci);
    info->caps_known = ALL_CAPS;
    info->caps = VRAM_CAP_PINNED | VRAM_CAP_ADOPT | VRAM_CAP_HANDLES |
                 (physical->addresses ? VRAM_CAP_KERNELS : 0u) |
                 (physical->budget ? VRAM_CAP_MEMORY_INFO : 0u) |
                 (physical->properties.kind == VR_VK_KIND_INTEGRATED ? VRAM_CAP_INTEGRATED : 0u);
    info->memory_bytes = (vram_value){local_heap_bytes(&physical->memory), true};
    info->alloc_granule = (vram_value){VR_VULKAN_GRANULE, true};
    info->alloc_max = (vram_value){physical->alloc_max, true};
    return VRAM_OK;
}

const struct vr_backend_ops vr_vulkan_backend = {
    .name = "vulkan",
    .start = vulkan_start,
    .stop = vulkan_stop,
    .count = vulkan_count,
    .describe = vulkan_describe,
    .device_open = vr_vulkan_device_open,
};
