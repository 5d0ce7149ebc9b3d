/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_vulkan.c: the Vulkan layer: what the loader calls to load it, instances and devices.
 */
#include "layer_vulkan.h"

#include "base/lock.h"
#include "base/memory.h"
#include "layer_loaders.h"

#include <string.h>

#define LAYER_EXPORT __attribute__((visibility("default")))

vr_vk_result vkNegotiateLoaderLayerInterfaceVersion(struct layer_vk_negotiate *negotiate);

static vr_atomic_ptr instances, devices;                      /* lists; a record stays for ever */
static struct vr_mutex lock = VR_MUTEX_INIT(VR_RANK_MONITOR); /* guards additions */
static vr_atomic_u64 device_count;                            /* that were created so far */

static void *key_of(const void *handle) {
    void *key = NULL;
    if (handle) {
        memcpy(&key, handle, sizeof key);
    }
    return key;
}

/* ------------------------------------------------------------------- records */

struct layer_vk_instance *layer_vk_instance_of(const void *handle) {
    void *key = key_of(handle);
    struct layer_vk_instance *at = key ? vr_load(&instances, VR_ACQUIRE) : NULL;
    while (at && vr_load(&at->key, VR_ACQUIRE) != key) {
        at = at->next;
    }
    return at;
}

struct layer_vk_device *layer_vk_device_of(const void *handle) {
    void *key = key_of(handle);
    struct layer_vk_device *at = key ? vr_load(&devices, VR_ACQUIRE) : NULL;
    while (at && vr_load(&at->key, VR_ACQUIRE) != key) {
        at = at->next;
    }
    return at;
}

/* Both kinds of records begin with their key and the next one. */
struct record_head {
    vr_atomic_ptr key;
    struct record_head *next;
};

static char reserved; /* the key of a record that is being filled */

/* A record that is not in use, or a new one. Keeps (1). NULL: no memory. */
static void *record_take(vr_atomic_ptr *list, size_t bytes) {
    vr_mutex_lock(&lock);
    struct record_head *at = vr_load(list, VR_ACQUIRE);
    while (at && vr_load(&at->key, VR_ACQUIRE)) {
        at = at->next;
    }
    bool fresh = !at;
    if (fresh && (at = vr_mem_alloc(1, bytes, "vram run"))) {
        at->next = vr_load(list, VR_RELAXED);
    }
    if (at) {
        vr_store(&at->key, &reserved, VR_RELEASE);
    }
    if (at && fresh) {
        vr_store(list, at, VR_RELEASE);
    }
    vr_mutex_unlock(&lock);
    return at;
}

static void record_give(vr_atomic_ptr *key) {
    vr_store(key, NULL, VR_RELEASE);
}

/* ----------------------------------------------------------------- instances */

/* The link of this layer in the chain of what is created; NULL: it was not called by a loader. */
static struct layer_vk_chain *chain_find(const void *chain, uint32_t type) {
    struct layer_vk_chain *at = (struct layer_vk_chain *)(uintptr_t)chain;
    while (at && !(at->head.type == type && at->function == LAYER_VK_LINK)) {
        at = at->head.next;
    }
    return at;
}

static void instance_fill(struct layer_vk_instance *record, struct vr_vk_instance *instance,
                          layer_vk_instance_get *get) {
    vr_vk_function found;
    record->handle = instance;
    record->get = get;
#define FILL(returns, name, parameters)                                                            \
    found = get(instance, #name);                                                                  \
    memcpy(&record->name, &found, sizeof found);
    LAYER_VK_INSTANCE_FUNCTIONS(FILL)
    LAYER_VK_INSTANCE_CALLED(FILL)
#undef FILL
    vr_store(&record->key, key_of(instance), VR_RELEASE);
}

typedef vr_vk_result create_instance_fn(const struct vr_vk_instance_info *info,
                                        const struct vr_vk_allocator *allocator,
                                        struct vr_vk_instance **instance);

static vr_vk_result create_instance(const struct vr_vk_instance_info *info,
                                    const struct vr_vk_allocator *allocator,
                                    struct vr_vk_instance **instance) {
    struct layer_vk_chain *chain = chain_find(info->head.next, LAYER_VK_TYPE_LOADER_INSTANCE);
    if (!chain || !chain->link.instance) {
        return VR_VK_INITIALIZATION_FAILED;
    }
    layer_vk_instance_get *get = chain->link.instance->instance_get;
    create_instance_fn *create = (create_instance_fn *)get(NULL, "vkCreateInstance");
    struct layer_vk_instance *record = record_take(&instances, sizeof *record);
    if (!record) {
        return VR_VK_OUT_OF_HOST_MEMORY;
    }
    chain->link.instance = chain->link.instance->next; /* the next layer finds its own link */
    vr_vk_result result = create ? create(info, allocator, instance) : VR_VK_INITIALIZATION_FAILED;
    if (result == VR_VK_SUCCESS) {
        instance_fill(record, *instance, get);
    } else {
        record_give(&record->key);
    }
    return result;
}

void layer_vkDestroyInstance(struct vr_vk_instance *instance,
                             const struct vr_vk_allocator *allocator) {
    struct layer_vk_instance *record = layer_vk_instance_of(instance);
    if (record) {
        void (*destroy)(struct vr_vk_instance *, const struct vr_vk_allocator *) =
            record->vkDestroyInstance;
        record_give(&record->key); /* before the loader can use the value again */
        destroy(instance, allocator);
    }
}

/* ------------------------------------------------------------------- devices */

enum { PHYSICALS = 64 };

static uint32_t ordinal_of(struct layer_vk_instance *instance,
                           const struct vr_vk_physical *physical) {
    struct vr_vk_physical *physicals[PHYSICALS];
    uint32_t count = PHYSICALS, ordinal = 0;
    vr_vk_result result = instance->vkEnumeratePhysicalDevices(instance->handle, &count, physicals);
    if (result != VR_VK_SUCCESS && result != VR_VK_INCOMPLETE) {
        count = 0;
    }
    while (ordinal < count && physicals[ordinal] != physical) {
        ordinal++;
    }
    return ordinal;
}

static uint64_t local_bytes(const struct vr_vk_memory_properties *memory) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < memory->heap_count && i < VR_VK_MEMORY_HEAPS; i++) {
        bytes += memory->heaps[i].flags & VR_VK_HEAP_DEVICE_LOCAL ? memory->heaps[i].bytes : 0;
    }
    return bytes;
}

/* The identity by which other interfaces know the device; Vulkan has it since 1.1. */
static void uuid_tell(struct layer_vk_instance *instance, struct vr_vk_physical *physical,
                      uint32_t number) {
    struct vr_vk_id id = {.head.type = VR_VK_TYPE_ID};
    struct vr_vk_properties_2 properties = {.head = {VR_VK_TYPE_PROPERTIES, &id}};
    if (instance->vkGetPhysicalDeviceProperties2) {
        instance->vkGetPhysicalDeviceProperties2(physical, &properties);
        run_device_uuid(number, id.device_uuid);
    }
}

static uint32_t number_find(struct layer_vk_instance *instance, struct vr_vk_physical *physical,
                            const struct vr_vk_memory_properties *memory) {
    struct vr_vk_properties properties = {.name = ""};
    instance->vkGetPhysicalDeviceProperties(physical, &properties);
    properties.name[sizeof properties.name - 1] = 0;
    uint32_t number = run_device_find(RUN_VULKAN, ordinal_of(instance, physical), properties.name,
                                      local_bytes(memory));
    uuid_tell(instance, physical, number);
    return number;
}

uint32_t layer_vk_number(const struct vr_vk_physical *physical) {
    const struct layer_vk_device *at = vr_load(&devices, VR_ACQUIRE);
    while (at && vr_load(&at->physical, VR_ACQUIRE) != physical) {
        at = at->next;
    }
    return at ? at->number : RUN_NO_DEVICE;
}

static void device_fill(struct layer_vk_device *record, struct vr_vk_device *device,
                        struct vr_vk_physical *physical, layer_vk_device_get *get) {
    vr_vk_function found;
    record->get = get;
#define FILL(returns, name, parameters)                                                            \
    found = get(device, #name);                                                                    \
    memcpy(&record->name, &found, sizeof found);
    LAYER_VK_DEVICE_FUNCTIONS(FILL)
#undef FILL
    record->serial = vr_fetch_add(&device_count, 1, VR_RELAXED) + 1;
    vr_store(&record->physical, physical, VR_RELEASE);
    vr_store(&record->key, key_of(device), VR_RELEASE);
}

vr_vk_result layer_vkCreateDevice(struct vr_vk_physical *physical,
                                  const struct vr_vk_device_info *info,
                                  const struct vr_vk_allocator *allocator,
                                  struct vr_vk_device **device) {
    struct layer_vk_instance *instance = layer_vk_instance_of(physical);
    struct layer_vk_chain *chain = chain_find(info->head.next, LAYER_VK_TYPE_LOADER_DEVICE);
    uint64_t left = 0;
    if (!instance || !chain || !chain->link.device) {
        return VR_VK_INITIALIZATION_FAILED;
    }
    layer_vk_device_get *get = chain->link.device->device_get;
    struct layer_vk_device *record = record_take(&devices, sizeof *record);
    if (!record) {
        return VR_VK_OUT_OF_HOST_MEMORY;
    }
    chain->link.device = chain->link.device->next; /* the next layer finds its own link */
    vr_vk_result result = instance->vkCreateDevice(physical, info, allocator, device);
    if (result != VR_VK_SUCCESS) {
        record_give(&record->key);
        return result;
    }
    instance->vkGetPhysicalDeviceMemoryProperties(physical, &record->memory);
    record->instance = instance;
    record->number = number_find(instance, physical, &record->memory);
    record->budget = layer_vk_free(instance, physical, &left);
    if (record->budget) {
        run_device_figure(record->number, left);
    }
    device_fill(record, *device, physical, get);
    return result;
}

/* Whether no other device is of the same physical one. */
static bool is_alone(const struct layer_vk_device *record) {
    const struct layer_vk_device *at = vr_load(&devices, VR_ACQUIRE);
    while (at &&
           (at == record || !vr_load(&at->physical, VR_ACQUIRE) || at->number != record->number)) {
        at = at->next;
    }
    return !at;
}

void layer_vkDestroyDevice(struct vr_vk_device *device, const struct vr_vk_allocator *allocator) {
    struct layer_vk_device *record = layer_vk_device_of(device);
    if (record) {
        void (*destroy)(struct vr_vk_device *, const struct vr_vk_allocator *) =
            record->vkDestroyDevice;
        layer_vk_memory_end(record, is_alone(record));
        vr_store(&record->physical, NULL, VR_RELEASE);
        record_give(&record->key);
        destroy(device, allocator);
    }
}

/* --------------------------------------------------------- functions by name */

static vr_vk_function device_get(struct vr_vk_device *device, const char *name);
static vr_vk_function instance_get(struct vr_vk_instance *instance, const char *name);

static vr_vk_function own_of_device(const char *name) {
#define OWN(returns, function, parameters)                                                         \
    if (!strcmp(name, #function)) {                                                                \
        return (vr_vk_function)layer_##function;                                                   \
    }
    LAYER_VK_DEVICE_FUNCTIONS(OWN)
    return strcmp(name, "vkGetDeviceProcAddr") == 0 ? (vr_vk_function)device_get : NULL;
}

static vr_vk_function own_of_instance(const char *name) {
    LAYER_VK_INSTANCE_FUNCTIONS(OWN)
#undef OWN
    return strcmp(name, "vkCreateInstance") == 0        ? (vr_vk_function)create_instance
           : strcmp(name, "vkGetInstanceProcAddr") == 0 ? (vr_vk_function)instance_get
                                                        : own_of_device(name);
}

/* A function that the driver does not offer, because of its version or extensions, is none of the
   layer's either. */
static vr_vk_function device_get(struct vr_vk_device *device, const char *name) {
    const struct layer_vk_device *record = layer_vk_device_of(device);
    vr_vk_function next = record && name ? record->get(device, name) : NULL;
    vr_vk_function own = next ? own_of_device(name) : NULL;
    return own ? own : next;
}

static vr_vk_function instance_get(struct vr_vk_instance *instance, const char *name) {
    if (!name) {
        return NULL;
    }
    if (!instance) { /* what a program calls before it has an instance */
        return strcmp(name, "vkCreateInstance") == 0 || strcmp(name, "vkGetInstanceProcAddr") == 0
                   ? own_of_instance(name)
                   : NULL;
    }
    const struct layer_vk_instance *record = layer_vk_instance_of(instance);
    vr_vk_function next = record ? record->get(instance, name) : NULL;
    vr_vk_function own = next ? own_of_instance(name) : NULL;
    return own ? own : next;
}

LAYER_EXPORT vr_vk_result
vkNegotiateLoaderLayerInterfaceVersion(struct layer_vk_negotiate *negotiate) {
    if (!negotiate || negotiate->type != LAYER_VK_NEGOTIATE ||
        negotiate->version < LAYER_VK_INTERFACE_VERSION) {
        return VR_VK_INITIALIZATION_FAILED; /* the loader leaves the layer out */
    }
    layer_loaded(RUN_VULKAN);
    negotiate->version = LAYER_VK_INTERFACE_VERSION;
    negotiate->instance_get = instance_get;
    negotiate->device_get = device_get;
    negotiate->physical_get = NULL;
    return VR_VK_SUCCESS;
}
