/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_layer_vulkan.c: the Vulkan layer between a loader and a driver that the test both is. The
 * driver's handles of memory are numbers from 1 on, in every device anew, as Vulkan allows.
 */
#include "unit/child.h"

#include "interpose/layer_vulkan_abi.h"
#include "unit/watched_world.h"

#include <pthread.h>
#include <string.h>

vr_vk_result vkNegotiateLoaderLayerInterfaceVersion(struct layer_vk_negotiate *negotiate);

enum { MIB = 1024 * 1024, DEVICES = 16 };

/* ---------------------------------------------------------------- the driver */

struct vr_vk_instance {
    void *dispatch; /* what the loader puts first */
};
struct vr_vk_physical {
    void *dispatch;
};
struct vr_vk_device {
    void *dispatch;
    uintptr_t handles; /* that were given out */
};

static char instance_dispatch[2], device_dispatch[DEVICES];
static struct vr_vk_instance driver_instances[2];
static struct vr_vk_physical driver_physicals[2];
static struct vr_vk_device driver_devices[DEVICES];
static unsigned instance_count, device_count;
static vr_vk_result answer; /* of whatever creates or allocates */
static _Atomic(uint64_t) asked, freed;
static bool has_properties_2 = true;

static vr_vk_result create_instance(const struct vr_vk_instance_info *info,
                                    const struct vr_vk_allocator *allocator,
                                    struct vr_vk_instance **instance) {
    (void)info, (void)allocator;
    if (!answer) {
        *instance = &driver_instances[instance_count];
        (*instance)->dispatch = &instance_dispatch[instance_count++];
    }
    return answer;
}

static void destroy_instance(struct vr_vk_instance *instance,
                             const struct vr_vk_allocator *allocator) {
    (void)instance, (void)allocator;
    instance_count--;
}

static vr_vk_result list_physicals(struct vr_vk_instance *instance, uint32_t *count,
                                   struct vr_vk_physical **physicals) {
    (void)instance;
    *count = *count < 2 ? *count : 2;
    for (uint32_t i = 0; physicals && i < *count; i++) {
        physicals[i] = &driver_physicals[i];
    }
    return VR_VK_SUCCESS;
}

static void get_properties(struct vr_vk_physical *physical, struct vr_vk_properties *properties) {
    (void)physical;
    memset(properties, 'x', sizeof *properties); /* a name without an end */
}

/* 512 MiB of the device's own, 2 GiB of the host, and a window of 64 MiB into the first. */
static void get_memory(struct vr_vk_physical *physical, struct vr_vk_memory_properties *memory) {
    (void)physical;
    *memory = (struct vr_vk_memory_properties){
        .type_count = 3,
        .types = {{VR_VK_MEMORY_DEVICE_LOCAL, 0}, {VR_VK_MEMORY_HOST_VISIBLE, 1}, {3, 2}},
        .heap_count = 3,
        .heaps = {{UINT64_C(512) * MIB, VR_VK_HEAP_DEVICE_LOCAL},
                  {UINT64_C(2048) * MIB, 0},
                  {UINT64_C(64) * MIB, VR_VK_HEAP_DEVICE_LOCAL}}};
}

static uint64_t driver_budget = UINT64_C(500) * MIB, driver_usage;

static void get_memory_2(struct vr_vk_physical *physical,
                         struct vr_vk_memory_properties_2 *memory) {
    get_memory(physical, &memory->properties);
    for (struct vr_vk_head *at = memory->head.next; at; at = at->next) {
        struct vr_vk_budget *budget = (struct vr_vk_budget *)at;
        for (int i = 0; at->type == VR_VK_TYPE_BUDGET && i < 3; i++) {
            budget->budget[i] = driver_budget;
            budget->usage[i] = driver_usage;
        }
    }
}

static bool has_budget;

static vr_vk_result list_extensions(struct vr_vk_physical *physical, const char *of_layer,
                                    uint32_t *count, struct vr_vk_extension *extensions) {
    (void)physical, (void)of_layer;
    if (extensions) {
        strcpy(extensions[0].name, "VK_KHR_other");
        strcpy(extensions[1].name, has_budget ? VR_VK_EXT_BUDGET : "VK_KHR_another");
    }
    *count = 2;
    return VR_VK_SUCCESS;
}

static void get_properties_2(struct vr_vk_physical *physical,
                             struct vr_vk_properties_2 *properties) {
    struct vr_vk_id *id = properties->head.next;
    assert_int_equal(id->head.type, VR_VK_TYPE_ID);
    memset(id->device_uuid, 0x40 + (int)(physical - driver_physicals), sizeof id->device_uuid);
}

static vr_vk_result create_device(struct vr_vk_physical *physical,
                                  const struct vr_vk_device_info *info,
                                  const struct vr_vk_allocator *allocator,
                                  struct vr_vk_device **device) {
    (void)physical, (void)info, (void)allocator;
    if (!answer) {
        *device = &driver_devices[device_count];
        **device = (struct vr_vk_device){.dispatch = &device_dispatch[device_count++]};
    }
    return answer;
}

static void destroy_device(struct vr_vk_device *device, const struct vr_vk_allocator *allocator) {
    (void)device, (void)allocator;
}

static vr_vk_result allocate(struct vr_vk_device *device, const struct vr_vk_allocate_info *info,
                             const struct vr_vk_allocator *allocator,
                             struct vr_vk_memory **memory) {
    (void)info, (void)allocator;
    asked++;
    if (!answer) {
        *memory = (struct vr_vk_memory *)__atomic_add_fetch(&device->handles, 1, __ATOMIC_RELAXED);
    }
    return answer;
}

static void deallocate(struct vr_vk_device *device, struct vr_vk_memory *memory,
                       const struct vr_vk_allocator *allocator) {
    (void)device, (void)memory, (void)allocator;
    freed++;
}

static void other_call(void) {}

static vr_vk_function driver_device_get(struct vr_vk_device *device, const char *name);

static vr_vk_function driver_get(struct vr_vk_instance *instance, const char *name) {
    static const struct {
        const char *name;
        vr_vk_function function;
    } rows[] = {
        {"vkCreateInstance", (vr_vk_function)create_instance},
        {"vkGetInstanceProcAddr", (vr_vk_function)driver_get},
        {"vkGetDeviceProcAddr", (vr_vk_function)driver_device_get},
        {"vkDestroyInstance", (vr_vk_function)destroy_instance},
        {"vkEnumeratePhysicalDevices", (vr_vk_function)list_physicals},
        {"vkGetPhysicalDeviceProperties", (vr_vk_function)get_properties},
        {"vkGetPhysicalDeviceProperties2", (vr_vk_function)get_properties_2},
        {"vkEnumerateDeviceExtensionProperties", (vr_vk_function)list_extensions},
        {"vkGetPhysicalDeviceMemoryProperties", (vr_vk_function)get_memory},
        {"vkGetPhysicalDeviceMemoryProperties2", (vr_vk_function)get_memory_2},
        {"vkCreateDevice", (vr_vk_function)create_device},
        {"vkDestroyDevice", (vr_vk_function)destroy_device},
        {"vkAllocateMemory", (vr_vk_function)allocate},
        {"vkFreeMemory", (vr_vk_function)deallocate},
        {"vkQueueSubmit", other_call},
    };
    (void)instance;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0 &&
            (has_properties_2 || rows[i].function != (vr_vk_function)get_memory_2)) {
            return rows[i].function;
        }
    }
    return NULL;
}

static vr_vk_function driver_device_get(struct vr_vk_device *device, const char *name) {
    (void)device;
    return driver_get(NULL, name);
}

/* ---------------------------------------------------------------- the loader */

static struct layer_vk_negotiate layer;

#define OF_INSTANCE(type, instance, name) ((type *)layer.instance_get(instance, name))
#define OF_DEVICE(type, device, name)     ((type *)layer.device_get(device, name))

typedef vr_vk_result create_instance_fn(const struct vr_vk_instance_info *,
                                        const struct vr_vk_allocator *, struct vr_vk_instance **);
typedef vr_vk_result create_device_fn(struct vr_vk_physical *, const struct vr_vk_device_info *,
                                      const struct vr_vk_allocator *, struct vr_vk_device **);
typedef void destroy_instance_fn(struct vr_vk_instance *, const struct vr_vk_allocator *);
typedef void destroy_device_fn(struct vr_vk_device *, const struct vr_vk_allocator *);
typedef vr_vk_result allocate_fn(struct vr_vk_device *, const struct vr_vk_allocate_info *,
                                 const struct vr_vk_allocator *, struct vr_vk_memory **);
typedef void free_fn(struct vr_vk_device *, struct vr_vk_memory *, const struct vr_vk_allocator *);
typedef void memory_fn(struct vr_vk_physical *, struct vr_vk_memory_properties *);
typedef void memory_2_fn(struct vr_vk_physical *, struct vr_vk_memory_properties_2 *);

static vr_vk_result instance_make(struct vr_vk_instance **instance) {
    struct layer_vk_instance_link link = {NULL, driver_get, NULL};
    struct layer_vk_chain chain = {.head.type = LAYER_VK_TYPE_LOADER_INSTANCE,
                                   .function = LAYER_VK_LINK,
                                   .link.instance = &link};
    struct layer_vk_chain other = {.head = {LAYER_VK_TYPE_LOADER_INSTANCE, &chain},
                                   .function = 1}; /* not a link */
    struct vr_vk_instance_info info = {.head = {VR_VK_TYPE_INSTANCE, &other}};
    vr_vk_result result =
        OF_INSTANCE(create_instance_fn, NULL, "vkCreateInstance")(&info, NULL, instance);
    assert_true(result == VR_VK_OUT_OF_HOST_MEMORY || !chain.link.instance);
    return result;
}

static struct vr_vk_instance *instance;
static destroy_instance_fn *instance_end;

static vr_vk_result device_make(unsigned physical, struct vr_vk_device **device) {
    struct layer_vk_device_link link = {NULL, driver_get, driver_device_get};
    struct layer_vk_chain chain = {
        .head.type = LAYER_VK_TYPE_LOADER_DEVICE, .function = LAYER_VK_LINK, .link.device = &link};
    struct vr_vk_device_info info = {.head = {VR_VK_TYPE_DEVICE, &chain}};
    driver_physicals[physical].dispatch = instance->dispatch;
    return OF_INSTANCE(create_device_fn, instance, "vkCreateDevice")(&driver_physicals[physical],
                                                                     &info, NULL, device);
}

static struct vr_vk_device *device_of(unsigned physical) {
    struct vr_vk_device *device = NULL;
    assert_int_equal(device_make(physical, &device), VR_VK_SUCCESS);
    return device;
}

static void device_end(struct vr_vk_device *device) {
    OF_DEVICE(destroy_device_fn, device, "vkDestroyDevice")(device, NULL);
}

static vr_vk_result take(struct vr_vk_device *device, uint64_t bytes, uint32_t type, void *chain,
                         struct vr_vk_memory **memory) {
    struct vr_vk_allocate_info info = {
        .head = {VR_VK_TYPE_ALLOCATE, chain}, .bytes = bytes, .type = type};
    return OF_DEVICE(allocate_fn, device, "vkAllocateMemory")(device, &info, NULL, memory);
}

static void give(struct vr_vk_device *device, struct vr_vk_memory *memory) {
    OF_DEVICE(free_fn, device, "vkFreeMemory")(device, memory, NULL);
}

static struct watched now(unsigned ordinal) {
    return watched_of(RUN_VULKAN, ordinal);
}

/* --------------------------------------------------------------------- tests */

TEST(an_old_loader_leaves_the_layer_out) {
    struct layer_vk_negotiate old = {.type = LAYER_VK_NEGOTIATE, .version = 1};
    struct layer_vk_negotiate wrong = {.type = 7, .version = 2};
    assert_int_equal(vkNegotiateLoaderLayerInterfaceVersion(&old), VR_VK_INITIALIZATION_FAILED);
    assert_int_equal(vkNegotiateLoaderLayerInterfaceVersion(&wrong), VR_VK_INITIALIZATION_FAILED);
    assert_int_equal(vkNegotiateLoaderLayerInterfaceVersion(NULL), VR_VK_INITIALIZATION_FAILED);
    layer = (struct layer_vk_negotiate){.type = LAYER_VK_NEGOTIATE, .version = 9};
    assert_int_equal(vkNegotiateLoaderLayerInterfaceVersion(&layer), VR_VK_SUCCESS);
    assert_int_equal(layer.version, 2);
    assert_true(layer.instance_get && layer.device_get);
}

TEST(what_cannot_be_created_is_forgotten) {
    may_leave("tables of vram run stay");
    struct vr_vk_instance_info bare = {.head.type = VR_VK_TYPE_INSTANCE};
    struct vr_vk_device *device = NULL;
    assert_int_equal(
        OF_INSTANCE(create_instance_fn, NULL, "vkCreateInstance")(&bare, NULL, &instance),
        VR_VK_INITIALIZATION_FAILED);
    answer = VR_VK_INCOMPATIBLE_DRIVER;
    assert_int_equal(instance_make(&instance), VR_VK_INCOMPATIBLE_DRIVER);
    answer = VR_VK_SUCCESS;
    memory_fails(1, true); /* the record of the first is used again: no memory is needed */
    assert_int_equal(instance_make(&instance), VR_VK_SUCCESS);
    struct vr_vk_instance *second = NULL;
    assert_int_equal(instance_make(&second), VR_VK_OUT_OF_HOST_MEMORY);
    assert_int_equal(device_make(0, &device), VR_VK_OUT_OF_HOST_MEMORY);
    memory_fails(0, false);
    answer = VR_VK_DEVICE_LOST;
    assert_int_equal(device_make(0, &device), VR_VK_DEVICE_LOST);
    answer = VR_VK_SUCCESS;
    assert_null(device);
}

TEST(functions_are_found_as_the_driver_has_them) {
    struct vr_vk_device *device = device_of(0);
    assert_null(layer.instance_get(NULL, "vkQueueSubmit"));
    assert_null(layer.instance_get(instance, NULL));
    assert_null(layer.device_get(device, NULL));
    assert_null(layer.device_get(NULL, "vkFreeMemory"));
    assert_null(layer.instance_get(instance, "vkOfTomorrow"));
    assert_null(layer.instance_get(instance, "vkGetPhysicalDeviceMemoryProperties2KHR"));
    assert_true(layer.instance_get(instance, "vkQueueSubmit") == other_call);
    assert_true(layer.device_get(device, "vkQueueSubmit") == other_call);
    assert_true(layer.device_get(device, "vkFreeMemory") != (vr_vk_function)deallocate);
    assert_true(layer.instance_get(instance, "vkFreeMemory") != (vr_vk_function)deallocate);
    assert_true(layer.device_get(device, "vkGetDeviceProcAddr") ==
                (vr_vk_function)layer.device_get);
    assert_true(layer.instance_get(instance, "vkGetInstanceProcAddr") ==
                (vr_vk_function)layer.instance_get);
    has_properties_2 = false;
    assert_null(layer.instance_get(instance, "vkGetPhysicalDeviceMemoryProperties2"));
    has_properties_2 = true;
    device_end(device);
}

TEST(equal_handles_of_two_devices_are_two_blocks) {
    may_leave("tables of vram run stay");
    struct vr_vk_device *first = device_of(0), *second = device_of(1);
    struct vr_vk_memory *of_first, *of_second;
    struct watched before = now(0);
    assert_int_equal(take(first, 3 * MIB, 0, NULL, &of_first), VR_VK_SUCCESS);
    assert_int_equal(take(second, 5 * MIB, 0, NULL, &of_second), VR_VK_SUCCESS);
    assert_ptr_equal(of_first, of_second);
    assert_int_equal(now(0).live[RUN_DEVICE], 3 * MIB);
    assert_int_equal(now(1).live[RUN_DEVICE], 5 * MIB);
    give(second, of_second);
    give(second, NULL);
    assert_int_equal(now(0).live[RUN_DEVICE], 3 * MIB);
    assert_int_equal(now(1).live[RUN_DEVICE], 0);
    device_end(first); /* with what it has not freed */
    assert_int_equal(now(0).live[RUN_DEVICE], 0);
    assert_int_equal(now(0).strangers, before.strangers);
    device_end(second);
}

TEST(heaps_and_imports_are_told_apart) {
    struct layer_vk_import fd = {{LAYER_VK_TYPE_IMPORT_FD, NULL}, 1};
    struct layer_vk_import none = {{LAYER_VK_TYPE_IMPORT_FD, NULL}, 0};
    struct layer_vk_import host = {{LAYER_VK_TYPE_IMPORT_HOST, NULL}, 0x80};
    struct vr_vk_head dedicated = {1000127001, &fd};
    struct vr_vk_device *device = device_of(0);
    struct vr_vk_memory *memory[6];
    watched_limit(now(0).counted + 3 * MIB);
    assert_int_equal(take(device, MIB, 1, NULL, &memory[0]), 0);
    assert_int_equal(take(device, MIB, 0, &dedicated, &memory[1]), 0);
    assert_int_equal(take(device, MIB, 0, &host, &memory[2]), 0);
    assert_int_equal(take(device, MIB, 0, &none, &memory[3]), 0);
    assert_int_equal(take(device, MIB, 2, NULL, &memory[4]), 0);
    assert_int_equal(take(device, MIB, 77, NULL, &memory[5]), 0); /* no such type: the driver's */
    assert_int_equal(now(0).live[RUN_PINNED], MIB);
    assert_int_equal(now(0).live[RUN_IMPORTED], MIB);
    assert_int_equal(now(0).live[RUN_REGISTERED], MIB);
    assert_int_equal(now(0).live[RUN_DEVICE], 3 * MIB);
    watched_limit(0);
    for (int i = 0; i < 6; i++) {
        give(device, memory[i]);
    }
    assert_int_equal(now(0).counted, 0);
    device_end(device);
}

TEST(beyond_the_limit_memory_runs_out) {
    struct vr_vk_device *device = device_of(0);
    struct vr_vk_memory *memory = NULL, *more = NULL;
    struct watched before = now(0);
    watched_limit(100 * MIB);
    assert_int_equal(take(device, 60 * MIB, 0, NULL, &memory), 0);
    uint64_t calls = asked;
    assert_int_equal(take(device, 41 * MIB, 0, NULL, &more), VR_VK_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(take(device, UINT64_MAX, 0, NULL, &more), VR_VK_OUT_OF_DEVICE_MEMORY);
    assert_null(more);
    assert_int_equal(asked, calls); /* the driver was not */
    answer = VR_VK_OUT_OF_DEVICE_MEMORY;
    assert_int_equal(take(device, 40 * MIB, 0, NULL, &more), VR_VK_OUT_OF_DEVICE_MEMORY);
    answer = VR_VK_SUCCESS;
    assert_int_equal(take(device, 40 * MIB, 0, NULL, &more), 0);
    assert_int_equal(now(0).limit_refusals, before.limit_refusals + 2);
    assert_int_equal(now(0).refusals, before.refusals + 1);
    watched_limit(0);
    give(device, memory);
    give(device, more);
    device_end(device);
}

TEST(heaps_and_budgets_agree_with_the_limit) {
    struct vr_vk_device *device = device_of(0);
    struct vr_vk_budget budget = {.head.type = VR_VK_TYPE_BUDGET};
    struct vr_vk_memory_properties plain;
    struct vr_vk_memory_properties_2 both = {.head = {VR_VK_TYPE_MEMORY_PROPERTIES, &budget}};
    struct vr_vk_memory *memory;
    memory_fn *get = OF_INSTANCE(memory_fn, instance, "vkGetPhysicalDeviceMemoryProperties");
    memory_2_fn *get_2 = OF_INSTANCE(memory_2_fn, instance, "vkGetPhysicalDeviceMemoryProperties2");
    get_2(&driver_physicals[0], &both);
    assert_int_equal(both.properties.heaps[0].bytes, UINT64_C(512) * MIB);
    assert_int_equal(budget.budget[0], driver_budget);
    watched_limit(100 * MIB);
    assert_int_equal(take(device, 60 * MIB, 0, NULL, &memory), 0);
    driver_usage = 70 * MIB; /* with what the driver has for itself */
    get(&driver_physicals[0], &plain);
    assert_int_equal(plain.heaps[0].bytes, 100 * MIB);
    assert_int_equal(plain.heaps[1].bytes, UINT64_C(2048) * MIB);
    assert_int_equal(plain.heaps[2].bytes, 64 * MIB);
    get_2(&driver_physicals[0], &both);
    assert_int_equal(both.properties.heaps[0].bytes, 100 * MIB);
    assert_int_equal(budget.usage[0], 70 * MIB);
    assert_int_equal(budget.budget[0], 100 * MIB);
    assert_int_equal(budget.budget[1], driver_budget); /* the host's heap stays */
    get_2(&driver_physicals[1], &both);                /* which has no device yet */
    assert_int_equal(budget.budget[0], 100 * MIB);
    driver_usage = 600 * MIB; /* more than its own budget */
    get_2(&driver_physicals[0], &both);
    assert_true(budget.usage[0] <= 100 * MIB && budget.budget[0] == budget.usage[0]);
    driver_usage = 0;
    watched_limit(0);
    give(device, memory);
    device_end(device);
}

static const struct run_device *recorded(unsigned ordinal) {
    for (int i = 0; i < RUN_DEVICES; i++) {
        const struct run_device *at = &watched_page->slots[0].devices[i];
        if (at->api == RUN_VULKAN && at->ordinal == ordinal) {
            return at;
        }
    }
    return NULL;
}

TEST(the_driver_is_asked_what_is_free) {
    unsigned char uuid[16];
    struct vr_vk_device *device = device_of(0);
    assert_int_equal(recorded(0)->first.time_ns, 0); /* it does not tell */
    assert_int_equal(recorded(0)->total, UINT64_C(576) * MIB);
    memset(uuid, 0x40, sizeof uuid);
    assert_memory_equal(recorded(0)->uuid, uuid, sizeof uuid);
    device_end(device);
    has_budget = true;
    driver_usage = 300 * MIB;
    device = device_of(0);
    assert_int_equal(recorded(0)->first.free, UINT64_C(400) * MIB); /* 200 of each local heap */
    device_end(device);
    has_budget = false;
    driver_usage = 0;
}

TEST(what_a_device_did_not_free_ends_with_it) {
    struct vr_vk_device *first = device_of(0), *second = device_of(0);
    struct vr_vk_memory *memory;
    struct watched before = now(0);
    assert_int_equal(take(first, MIB, 0, NULL, &memory), 0);
    assert_int_equal(take(second, 2 * MIB, 0, NULL, &memory), 0);
    device_end(first);
    assert_int_equal(now(0).counted, 2 * MIB);
    device_end(second);
    assert_int_equal(now(0).counted, 0);
    assert_int_equal(now(0).strangers, before.strangers);
}

/* ------------------------------------------------------------------- threads */

enum { THREADS = 4, ROUNDS = 500 };

static void *work(void *argument) {
    struct vr_vk_device *device = argument;
    for (int i = 0; i < ROUNDS; i++) {
        struct vr_vk_memory *memory[3];
        for (int k = 0; k < 3; k++) {
            (void)take(device, 4096, 0, NULL, &memory[k]);
        }
        for (int k = 3; k-- > 0;) {
            give(device, memory[k]);
        }
    }
    return NULL;
}

TEST(threads_leave_nothing) {
    struct vr_vk_device *first = device_of(0), *second = device_of(1);
    pthread_t threads[THREADS];
    struct watched before = now(0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, i % 2 ? first : second), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(now(0).counted + now(1).counted, 0);
    assert_int_equal(now(0).allocs - before.allocs, 3 * THREADS * ROUNDS);
    assert_int_equal(now(0).strangers, before.strangers);
    device_end(first);
    device_end(second);
}

TEST(an_instance_ends) {
    instance_end = OF_INSTANCE(destroy_instance_fn, instance, "vkDestroyInstance");
    instance_end(instance, NULL);
    assert_int_equal(instance_count, 0);
    assert_null(layer.instance_get(instance, "vkQueueSubmit"));
    instance_end(NULL, NULL);
}

static int watch(void) {
    watched_begin();
    return 0;
}

WHOLE_FILE(watch, NULL)
