/* SPDX-License-Identifier: Apache-2.0 */
/* shim_vulkan.c: see shim_vulkan.h. The list of the backend's own header makes a wrapper per
   function. */
#include "shim_vulkan.h"

#include "backend/vulkan/vulkan_api.h"
#include "fake/strike.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SHIM_API __attribute__((visibility("default")))

enum row {
#define ROW(returns, name, level, parameters, names) ROW_##name,
    VR_VULKAN_FUNCTIONS(ROW)
#undef ROW
        ROWS
};

static const char *const row_names[ROWS] = {
#define NAME(returns, name, level, parameters, names) #name,
    VR_VULKAN_FUNCTIONS(NAME)
#undef NAME
};

enum { VOID_vr_vk_result = 0, VOID_void = 1, VOID_uint64_t = 1, VOID_vr_vk_function = 1 };
static const bool row_void[ROWS] = {
#define IS_VOID(returns, name, level, parameters, names) VOID_##returns,
    VR_VULKAN_FUNCTIONS(IS_VOID)
#undef IS_VOID
};

static struct vr_vulkan_api real; /* of the loader, for all instances and devices */
static vr_vk_get_fn *real_get;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct strike plan = {.names = row_names, .count = ROWS, .last = ""};
static const char *hidden;
static struct shim_vulkan_control control;

enum { LIE = 1 };

/* -------------------------------------------------------------------- plans */

/* Whether the call is not to reach the driver. Functions without a result are struck by lies
   alone. */
static bool struck(enum row row, vr_vk_result *answer) {
    pthread_mutex_lock(&lock);
    bool now;
    if (row_void[row] && plan.lie != LIE) {
        plan.counts[row]++;
        plan.total++;
        now = false;
    } else {
        now = strike_now(&plan, row);
    }
    *answer = plan.lie == LIE ? VR_VK_SUCCESS : plan.code;
    pthread_mutex_unlock(&lock);
    return now;
}

/* ------------------------------------------------------------------ objects */

/* What was made and not ended. A device that the backend holds for lost is left to the driver with
   all that hangs on it; the driver behind the shim is as well as ever, and control_reset ends it
   there. */
enum { OBJECTS_MAX = 1 << 12 };
static struct object {
    enum row row; /* that made it */
    void *parent, *handle;
} objects[OBJECTS_MAX];
static unsigned object_count;
static const char *wrong; /* what made an object that outlived its device */

static bool makes(enum row row) {
    return strncmp(row_names[row], "vkCreate", 8) == 0 || row == ROW_vkAllocateMemory;
}

static bool ends(enum row row) {
    return strncmp(row_names[row], "vkDestroy", 9) == 0 || row == ROW_vkFreeMemory;
}

static void forget(const void *handle) {
    for (unsigned i = 0; i < object_count; i++) {
        if (objects[i].handle == handle) {
            object_count--;
            memmove(&objects[i], &objects[i + 1], (object_count - i) * sizeof objects[0]);
            return;
        }
    }
}

/* The first two arguments of a call that succeeded, and the last: where a new object is. */
static void note_object(enum row row, const void *first, const void *second, const void *last) {
    pthread_mutex_lock(&lock);
    if (makes(row) && object_count < OBJECTS_MAX) {
        struct object *object = &objects[object_count++];
        *object = (struct object){.row = row, .parent = (void *)(uintptr_t)first};
        memcpy(&object->handle, last, sizeof object->handle);
    } else if (ends(row)) {
        for (unsigned i = object_count; row == ROW_vkDestroyDevice && i-- > 0;) {
            if (objects[i].parent == first) { /* it is gone with the device */
                wrong = row_names[objects[i].row];
                forget(objects[i].handle);
            }
        }
        forget(row == ROW_vkDestroyInstance || row == ROW_vkDestroyDevice ? first : second);
    }
    pthread_mutex_unlock(&lock);
}

static void end_object(const struct object *object) {
    void *parent = object->parent, *handle = object->handle;
    switch ((int)object->row) {
    case ROW_vkCreateInstance:
        real.vkDestroyInstance(handle, NULL);
        break;
    case ROW_vkCreateDevice:
        real.vkDestroyDevice(handle, NULL);
        break;
    case ROW_vkAllocateMemory:
        real.vkFreeMemory(parent, handle, NULL);
        break;
    case ROW_vkCreateBuffer:
        real.vkDestroyBuffer(parent, handle, NULL);
        break;
    case ROW_vkCreateSemaphore:
        real.vkDestroySemaphore(parent, handle, NULL);
        break;
    case ROW_vkCreateCommandPool:
        real.vkDestroyCommandPool(parent, handle, NULL);
        break;
    case ROW_vkCreateShaderModule:
        real.vkDestroyShaderModule(parent, handle, NULL);
        break;
    case ROW_vkCreatePipelineLayout:
        real.vkDestroyPipelineLayout(parent, handle, NULL);
        break;
    default: /* vkCreateComputePipelines */
        real.vkDestroyPipeline(parent, handle, NULL);
    }
}

static void end_objects(void) {
    for (unsigned i = 0; i < object_count; i++) {
        if (objects[i].row == ROW_vkCreateDevice) {
            real.vkDeviceWaitIdle(objects[i].handle);
        }
    }
    while (object_count) { /* newest first */
        end_object(&objects[--object_count]);
    }
}

#define FIRST_OF(a, ...)                                 a
#define FIRST(...)                                       FIRST_OF(__VA_ARGS__, 0)
#define SECOND_OF(a, b, ...)                             b
#define SECOND(...)                                      SECOND_OF(__VA_ARGS__, 0, 0)
#define LAST_OF(a, b, c, d, e, f, g, h, i, j, last, ...) last
#define LAST_1(a)                                        a
#define LAST_2(a, b)                                     b
#define LAST_3(a, b, c)                                  c
#define LAST_4(a, b, c, d)                               d
#define LAST_5(a, b, c, d, e)                            e
#define LAST_6(a, b, c, d, e, f)                         f
#define LAST_10(a, b, c, d, e, f, g, h, i, j)            j
#define LAST(...)                                                                                  \
    LAST_OF(__VA_ARGS__, LAST_10, none, none, none, LAST_6, LAST_5, LAST_4, LAST_3, LAST_2,        \
            LAST_1, none)                                                                          \
    (__VA_ARGS__)
#define POINTER(argument) ((const void *)(uintptr_t)(argument))

/* ----------------------------------------------------------------- wrappers */

#define BODY_vr_vk_result(name, names)                                                             \
    {                                                                                              \
        vr_vk_result answer;                                                                       \
        if (struck(ROW_##name, &answer)) {                                                         \
            return answer;                                                                         \
        }                                                                                          \
        answer = real.name names;                                                                  \
        if (answer == VR_VK_SUCCESS) {                                                             \
            note_object(ROW_##name, POINTER(FIRST names), POINTER(SECOND names),                   \
                        POINTER(LAST names));                                                      \
        }                                                                                          \
        return answer;                                                                             \
    }
#define BODY_void(name, names)                                                                     \
    {                                                                                              \
        vr_vk_result answer;                                                                       \
        if (!struck(ROW_##name, &answer)) {                                                        \
            note_object(ROW_##name, POINTER(FIRST names), POINTER(SECOND names), NULL);            \
            real.name names;                                                                       \
        }                                                                                          \
    }
#define BODY_uint64_t(name, names)                                                                 \
    {                                                                                              \
        vr_vk_result answer;                                                                       \
        return struck(ROW_##name, &answer) ? 0 : real.name names;                                  \
    }
#define BODY_vr_vk_function(name, names) /* vkGetDeviceProcAddr: by our own table */               \
    {                                                                                              \
        (void)device;                                                                              \
        return find(name_of names);                                                                \
    }
#define name_of(device, name) name

static vr_vk_function find(const char *name);

#define WRAP(returns, name, level, parameters, names)                                              \
    static returns shim_##name parameters BODY_##returns(name, names)
VR_VULKAN_FUNCTIONS(WRAP)
#undef WRAP

/* ---------------------------------------------------------------- pretences */

static vr_vk_result pretend_version(uint32_t *version) {
    vr_vk_result answer = shim_vkEnumerateInstanceVersion(version);
    if (answer == VR_VK_SUCCESS && control.pretence.loader_version) {
        *version = control.pretence.loader_version;
    }
    return answer;
}

static vr_vk_result pretend_instance(const struct vr_vk_instance_info *info,
                                     const struct vr_vk_allocator *allocator,
                                     struct vr_vk_instance **instance) {
    vr_vk_result answer = shim_vkCreateInstance(info, allocator, instance);
    if (answer == VR_VK_SUCCESS && *instance) {
#define LOAD(returns, name, level, parameters, names)                                              \
    if (level != VR_VK_GLOBAL && !real.name) { /* others may be calling it */                      \
        vr_vk_function found = real_get(*instance, #name);                                         \
        memcpy(&real.name, &found, sizeof found);                                                  \
    }
        pthread_mutex_lock(&lock);
        VR_VULKAN_FUNCTIONS(LOAD)
        pthread_mutex_unlock(&lock);
#undef LOAD
    }
    return answer;
}

static vr_vk_result as_list(vr_vk_result answer) {
    return answer == VR_VK_SUCCESS && control.pretence.incomplete ? VR_VK_INCOMPLETE : answer;
}

static vr_vk_result pretend_devices(struct vr_vk_instance *instance, uint32_t *number,
                                    struct vr_vk_physical **devices) {
    vr_vk_result answer = shim_vkEnumeratePhysicalDevices(instance, number, devices);
    if (answer == VR_VK_SUCCESS && control.pretence.no_devices) {
        *number = 0;
    }
    return devices ? as_list(answer) : answer;
}

static void change_limits(struct vr_vk_properties *properties) {
    const struct shim_vulkan_pretence *pretence = &control.pretence;
    if (pretence->gpu || getenv("SHIM_VULKAN_GPU")) {
        properties->kind = 2;
    }
    if (pretence->integrated) {
        properties->kind = VR_VK_KIND_INTEGRATED;
    }
    if (pretence->device_version) {
        properties->api_version = pretence->device_version;
    }
    if (pretence->max_allocations) {
        properties->limits.max_allocations = pretence->max_allocations;
    }
}

static void pretend_properties(struct vr_vk_physical *device, struct vr_vk_properties *properties) {
    shim_vkGetPhysicalDeviceProperties(device, properties);
    change_limits(properties);
}

/* The struct of a type in a chain, which is taken out when the driver must not see it. */
static void *chained(void *chain, uint32_t type, bool take_out) {
    struct vr_vk_head *before = chain;
    for (struct vr_vk_head *at = before->next; at; before = at, at = at->next) {
        if (at->type == type) {
            before->next = take_out ? at->next : at;
            return at;
        }
    }
    return NULL;
}

static void pretend_properties_2(struct vr_vk_physical *device,
                                 struct vr_vk_properties_2 *properties) {
    struct vr_vk_pci *pci = control.pretence.pci ? chained(properties, VR_VK_TYPE_PCI, true) : NULL;
    shim_vkGetPhysicalDeviceProperties2(device, properties);
    change_limits(&properties->properties);
    if (pci) {
        pci->domain = 1, pci->bus = 0xC2, pci->device = 3, pci->function = 1;
    }
    struct vr_vk_id *id = chained(properties, VR_VK_TYPE_ID, false);
    if (id && control.pretence.other_driver) {
        id->driver_uuid[0] ^= 1;
    }
    if (id && control.pretence.driver_uuid) {
        memcpy(id->driver_uuid, control.pretence.driver_uuid, sizeof id->driver_uuid);
    }
    struct vr_vk_maintenance_3 *limits = chained(properties, VR_VK_TYPE_MAINTENANCE_3, false);
    if (limits && control.pretence.max_allocation_bytes) {
        limits->max_allocation = control.pretence.max_allocation_bytes;
    }
}

static void pretend_features(struct vr_vk_physical *device, struct vr_vk_features_2 *features) {
    shim_vkGetPhysicalDeviceFeatures2(device, features);
    struct vr_vk_features_12 *found = chained(features, VR_VK_TYPE_FEATURES_12, false);
    if (found && control.pretence.no_timeline) {
        found->values[VR_VK_FEATURE_12_TIMELINE] = 0;
    }
    if (found && control.pretence.no_addresses) {
        found->values[VR_VK_FEATURE_12_ADDRESS] = 0;
    }
    if (found && control.pretence.no_device_scope) {
        found->values[VR_VK_FEATURE_12_MODEL_DEVICE_SCOPE] = 0;
    }
}

static void pretend_memory(struct vr_vk_physical *device,
                           struct vr_vk_memory_properties_2 *memory) {
    const struct shim_vulkan_pretence *pretence = &control.pretence;
    struct vr_vk_budget *budget =
        pretence->budget ? chained(memory, VR_VK_TYPE_BUDGET, true) : NULL;
    shim_vkGetPhysicalDeviceMemoryProperties2(device, memory);
    if (pretence->memory) {
        memory->properties = *pretence->memory;
    }
    for (uint32_t i = 0; budget && i < VR_VK_MEMORY_HEAPS; i++) {
        budget->budget[i] = pretence->budget_bytes;
        budget->usage[i] = pretence->usage_bytes;
    }
    for (uint32_t i = 0; i < memory->properties.type_count && pretence->no_local_memory; i++) {
        memory->properties.types[i].flags &= ~(uint32_t)VR_VK_MEMORY_DEVICE_LOCAL;
    }
    for (uint32_t i = 0; i < memory->properties.heap_count && pretence->heap_bytes; i++) {
        memory->properties.heaps[i].bytes = pretence->heap_bytes;
    }
}

static void pretend_external(struct vr_vk_physical *device,
                             const struct vr_vk_external_buffer *info,
                             struct vr_vk_external_buffer_properties *properties) {
    shim_vkGetPhysicalDeviceExternalBufferProperties(device, info, properties);
    if (control.pretence.no_export) {
        properties->features = VR_VK_EXTERNAL_IMPORTABLE;
    }
    if (control.pretence.no_import) {
        properties->features = VR_VK_EXTERNAL_EXPORTABLE;
    }
}

static void pretend_families(struct vr_vk_physical *device, uint32_t *number,
                             struct vr_vk_family *families) {
    if (control.pretence.families) {
        *number = control.pretence.family_count;
        memcpy(families, control.pretence.families, *number * sizeof *families);
        return;
    }
    shim_vkGetPhysicalDeviceQueueFamilyProperties(device, number, families);
    for (uint32_t i = 0; families && i < *number && control.pretence.family_flags; i++) {
        families[i].flags = control.pretence.family_flags;
    }
}

/* The extensions that are made up come behind the driver's own. */
static vr_vk_result pretend_extensions(struct vr_vk_physical *device, const char *layer,
                                       uint32_t *number, struct vr_vk_extension *extensions) {
    uint32_t more = control.pretence.budget + control.pretence.pci, room = *number;
    if (control.pretence.no_extensions) {
        *number = 0;
        return VR_VK_SUCCESS;
    }
    if (extensions && room >= more) {
        *number = room - more;
    }
    vr_vk_result answer =
        shim_vkEnumerateDeviceExtensionProperties(device, layer, number, extensions);
    if (answer != VR_VK_SUCCESS) {
        return answer;
    }
    if (extensions && control.pretence.budget) {
        strcpy(extensions[*number].name, VR_VK_EXT_BUDGET);
    }
    if (extensions && control.pretence.pci) {
        strcpy(extensions[*number + control.pretence.budget].name, VR_VK_EXT_PCI);
    }
    *number += more + (extensions && control.pretence.more_extensions);
    return extensions ? as_list(answer) : answer;
}

static vr_vk_result pretend_device(struct vr_vk_physical *physical,
                                   const struct vr_vk_device_info *info,
                                   const struct vr_vk_allocator *allocator,
                                   struct vr_vk_device **device) {
    struct vr_vk_device_info changed = *info;
    struct vr_vk_device_queue_info queues = *info->queues;
    void (*before)(void) = control.pretence.before_device;
    control.pretence.before_device = NULL;
    if (before) {
        before();
    }
    if (control.pretence.budget) { /* which comes first */
        changed.extension_count--;
        changed.extensions++;
    }
    if (control.pretence.families) {
        queues.family = 0;
        queues.count = 1;
        changed.queues = &queues;
    }
    return shim_vkCreateDevice(physical, &changed, allocator, device);
}

static void pretend_queue(struct vr_vk_device *device, uint32_t family, uint32_t index,
                          struct vr_vk_queue **queue) {
    bool first = control.pretence.families;
    shim_vkGetDeviceQueue(device, first ? 0 : family, first ? 0 : index, queue);
}

static vr_vk_result pretend_pool(struct vr_vk_device *device,
                                 const struct vr_vk_command_pool_info *info,
                                 const struct vr_vk_allocator *allocator,
                                 struct vr_vk_command_pool **pool) {
    struct vr_vk_command_pool_info changed = *info;
    changed.family = control.pretence.families ? 0 : info->family;
    return shim_vkCreateCommandPool(device, &changed, allocator, pool);
}

static vr_vk_result pretend_allocate(struct vr_vk_device *device,
                                     const struct vr_vk_allocate_info *info,
                                     const struct vr_vk_allocator *allocator,
                                     struct vr_vk_memory **memory) {
    struct vr_vk_allocate_info changed = *info;
    changed.type = control.pretence.memory ? 0 : info->type;
    return shim_vkAllocateMemory(device, &changed, allocator, memory);
}

static void pretend_requirements(struct vr_vk_device *device, struct vr_vk_buffer *buffer,
                                 struct vr_vk_requirements *needs) {
    const struct shim_vulkan_pretence *pretence = &control.pretence;
    shim_vkGetBufferMemoryRequirements(device, buffer, needs);
    if (pretence->memory) {
        needs->types = (UINT32_C(1) << pretence->memory->type_count) - 1;
    }
    needs->types &= ~pretence->no_types;
    needs->bytes += pretence->more_bytes;
    needs->align = pretence->no_align ? 0 : needs->align;
}

static vr_vk_result pretend_map(struct vr_vk_device *device, struct vr_vk_memory *memory,
                                uint64_t offset, uint64_t bytes, uint32_t flags, void **pointer) {
    vr_vk_result answer = shim_vkMapMemory(device, memory, offset, bytes, flags, pointer);
    if (answer == VR_VK_SUCCESS && *pointer) {
        *pointer = (char *)*pointer + control.pretence.map_shift;
    }
    return answer;
}

/* ------------------------------------------------------------------ look-up */

static const struct {
    enum row row;
    vr_vk_function function;
} pretences[] = {
    {ROW_vkEnumerateInstanceVersion, (vr_vk_function)pretend_version},
    {ROW_vkCreateInstance, (vr_vk_function)pretend_instance},
    {ROW_vkEnumeratePhysicalDevices, (vr_vk_function)pretend_devices},
    {ROW_vkGetPhysicalDeviceProperties, (vr_vk_function)pretend_properties},
    {ROW_vkGetPhysicalDeviceProperties2, (vr_vk_function)pretend_properties_2},
    {ROW_vkGetPhysicalDeviceFeatures2, (vr_vk_function)pretend_features},
    {ROW_vkGetPhysicalDeviceMemoryProperties2, (vr_vk_function)pretend_memory},
    {ROW_vkGetPhysicalDeviceQueueFamilyProperties, (vr_vk_function)pretend_families},
    {ROW_vkGetPhysicalDeviceExternalBufferProperties, (vr_vk_function)pretend_external},
    {ROW_vkEnumerateDeviceExtensionProperties, (vr_vk_function)pretend_extensions},
    {ROW_vkCreateDevice, (vr_vk_function)pretend_device},
    {ROW_vkGetDeviceQueue, (vr_vk_function)pretend_queue},
    {ROW_vkCreateCommandPool, (vr_vk_function)pretend_pool},
    {ROW_vkAllocateMemory, (vr_vk_function)pretend_allocate},
    {ROW_vkGetBufferMemoryRequirements, (vr_vk_function)pretend_requirements},
    {ROW_vkMapMemory, (vr_vk_function)pretend_map},
};

static const vr_vk_function wrappers[ROWS] = {
#define WRAPPER(returns, name, level, parameters, names) (vr_vk_function) shim_##name,
    VR_VULKAN_FUNCTIONS(WRAPPER)
#undef WRAPPER
};

static vr_vk_function find(const char *name) {
    unsigned row = strike_call(&plan, name);
    if (row == ROWS || (hidden && strcmp(hidden, name) == 0)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof pretences / sizeof pretences[0]; i++) {
        if (pretences[i].row == row) {
            return pretences[i].function;
        }
    }
    return wrappers[row];
}

/* An instance that nobody uses keeps the driver loaded: its compiler leaves a little behind each
   time that it is unloaded, and takes a while to be loaded again. */
static struct vr_vk_instance *anchor;

static void keep_loaded(void) {
    static const struct vr_vk_application application = {.head = {VR_VK_TYPE_APPLICATION, NULL},
                                                         .api_version = VR_VK_VERSION(1, 2)};
    static const struct vr_vk_instance_info info = {.head = {VR_VK_TYPE_INSTANCE, NULL},
                                                    .application = &application};
    if (real.vkCreateInstance(&info, NULL, &anchor) != VR_VK_SUCCESS) {
        anchor = NULL;
    }
}

static void load_real(void) {
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    memcpy(&real_get, &found, sizeof real_get);
    if (!real_get) {
        return;
    }
    vr_vk_function version = real_get(NULL, "vkEnumerateInstanceVersion");
    vr_vk_function create = real_get(NULL, "vkCreateInstance");
    memcpy(&real.vkEnumerateInstanceVersion, &version, sizeof version);
    memcpy(&real.vkCreateInstance, &create, sizeof create);
    keep_loaded();
}

SHIM_API vr_vk_get_fn vkGetInstanceProcAddr;

vr_vk_function vkGetInstanceProcAddr(struct vr_vk_instance *instance, const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)instance;
    pthread_once(&once, load_real);
    return real_get ? find(name) : NULL;
}

/* ------------------------------------------------------------------ control */

static void control_plan(const char *name, uint64_t nth, int code, int lie, bool for_ever) {
    pthread_mutex_lock(&lock);
    strike_set(&plan, name, nth, code, lie, for_ever);
    pthread_mutex_unlock(&lock);
}

static void control_reset(void) {
    control_plan(NULL, 0, 0, 0, false);
    memset(&control.pretence, 0, sizeof control.pretence);
    hidden = wrong = NULL;
    end_objects();
}

static void control_refuse(const char *name, uint64_t nth, int code, bool for_ever) {
    control_plan(name, nth, code, 0, for_ever);
}

static void control_lie(const char *name, uint64_t nth) {
    control_plan(name, nth, 0, LIE, false);
}

static void control_hide(const char *name) {
    hidden = name;
}

static uint64_t control_struck(void) {
    pthread_mutex_lock(&lock);
    uint64_t number = plan.struck;
    pthread_mutex_unlock(&lock);
    return number;
}

static const char *control_last_call(void) {
    return plan.last ? plan.last : "";
}

static uint64_t control_calls(const char *name) {
    pthread_mutex_lock(&lock);
    uint64_t number = name ? plan.counts[strike_call(&plan, name)] : plan.total;
    pthread_mutex_unlock(&lock);
    return number;
}

static int64_t control_live(void) {
    pthread_mutex_lock(&lock);
    int64_t number = object_count;
    pthread_mutex_unlock(&lock);
    return number;
}

static const char *control_wrong(void) {
    return wrong;
}

SHIM_API shim_vulkan_control_fn shim_vulkan_control;

struct shim_vulkan_control *shim_vulkan_control(void) {
    control.reset = control_reset;
    control.refuse = control_refuse;
    control.lie = control_lie;
    control.hide = control_hide;
    control.struck = control_struck;
    control.last_call = control_last_call;
    control.calls = control_calls;
    control.live = control_live;
    control.wrong = control_wrong;
    return &control;
}
