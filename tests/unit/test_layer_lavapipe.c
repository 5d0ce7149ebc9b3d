/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_layer_lavapipe.c: the Vulkan layer as vram run has it loaded: by the system's loader, in
 * front of lavapipe. The recorder is that of the library which the loader loads. What it notes of
 * each call is in test_layer_vulkan.c.
 */
#include "unit/child.h"

#include "interpose/layer_vulkan_abi.h"
#include "unit/watched_world.h"

#include <dlfcn.h>
#include <string.h>

enum { MIB = 1024 * 1024 };

#define VK_FIELD(returns, name, parameters) returns(*name) parameters;
struct instance_world {
    struct vr_vk_instance *handle;
    struct vr_vk_physical *physical;
    LAYER_VK_INSTANCE_FUNCTIONS(VK_FIELD)
    LAYER_VK_INSTANCE_CALLED(VK_FIELD)
    layer_vk_device_get *vkGetDeviceProcAddr;
};
struct device_world {
    struct vr_vk_device *handle;
    LAYER_VK_DEVICE_FUNCTIONS(VK_FIELD)
};
#undef VK_FIELD

static layer_vk_instance_get *get;

static void instance_begin(struct instance_world *world) {
    vr_vk_result (*create)(const struct vr_vk_instance_info *, const struct vr_vk_allocator *,
                           struct vr_vk_instance **);
    struct vr_vk_application application = {.head.type = VR_VK_TYPE_APPLICATION,
                                            .api_version = VR_VK_VERSION(1, 1)};
    struct vr_vk_instance_info info = {.head.type = VR_VK_TYPE_INSTANCE,
                                       .application = &application};
    uint32_t count = 1;
    vr_vk_function found = get(NULL, "vkCreateInstance");
    memcpy(&create, &found, sizeof found);
    assert_int_equal(create(&info, NULL, &world->handle), VR_VK_SUCCESS);
#define FILL(returns, name, parameters)                                                            \
    found = get(world->handle, #name);                                                             \
    memcpy(&world->name, &found, sizeof found);
    LAYER_VK_INSTANCE_FUNCTIONS(FILL)
    LAYER_VK_INSTANCE_CALLED(FILL)
    FILL(, vkGetDeviceProcAddr, )
#undef FILL
    vr_vk_result result =
        world->vkEnumeratePhysicalDevices(world->handle, &count, &world->physical);
    assert_true((result == VR_VK_SUCCESS || result == VR_VK_INCOMPLETE) && count == 1);
}

static void instance_end(struct instance_world *world) {
    world->vkDestroyInstance(world->handle, NULL);
}

static void device_begin(struct instance_world *instance, struct device_world *world) {
    float priority = 1;
    struct vr_vk_device_queue_info queue = {
        .head.type = VR_VK_TYPE_DEVICE_QUEUE, .count = 1, .priorities = &priority};
    struct vr_vk_device_info info = {
        .head.type = VR_VK_TYPE_DEVICE, .queue_count = 1, .queues = &queue};
    assert_int_equal(instance->vkCreateDevice(instance->physical, &info, NULL, &world->handle),
                     VR_VK_SUCCESS);
#define FILL(returns, name, parameters)                                                            \
    found = instance->vkGetDeviceProcAddr(world->handle, #name);                                   \
    memcpy(&world->name, &found, sizeof found);
    vr_vk_function found;
    LAYER_VK_DEVICE_FUNCTIONS(FILL)
#undef FILL
}

static void device_end(struct device_world *world) {
    world->vkDestroyDevice(world->handle, NULL);
}

static vr_vk_result take(struct device_world *world, uint64_t bytes, struct vr_vk_memory **memory) {
    struct vr_vk_allocate_info info = {.head.type = VR_VK_TYPE_ALLOCATE, .bytes = bytes};
    return world->vkAllocateMemory(world->handle, &info, NULL, memory);
}

static struct watched now(void) {
    return watched_of(RUN_VULKAN, 0);
}

/* The path is the newest thing of what a loader has to know. */
static int loader_open(void) {
    struct instance_world instance;
    struct device_world device;
    struct vr_vk_memory *memory;
    watched_file();
    setenv("VK_ADD_LAYER_PATH", VRAM_LAYER_PATH, 1);
    setenv("VK_INSTANCE_LAYERS", "VK_LAYER_VRAM_run", 1);
    assert_non_null(dlopen(VRAM_RUN_PATH, RTLD_NOW)); /* as the loader will, or does not */
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW);
    assert_non_null(loader);
    void *found = dlsym(loader, "vkGetInstanceProcAddr");
    memcpy(&get, &found, sizeof found);
    instance_begin(&instance);
    device_begin(&instance, &device);
    assert_int_equal(take(&device, MIB, &memory), VR_VK_SUCCESS);
    device.vkFreeMemory(device.handle, memory, NULL);
    device_end(&device);
    instance_end(&instance);
    if (!now().allocs) {
        watched_end();
        puts("skipped: this Vulkan loader does not know VK_ADD_LAYER_PATH");
        exit(77);
    }
    return 0;
}

static int loader_leave(void) {
    watched_end();
    return 0;
}

/* --------------------------------------------------------------------- tests */

TEST(instances_and_devices_end_in_any_order) {
    struct instance_world first, second;
    struct device_world of_first, of_second, more;
    struct vr_vk_memory *memory[3];
    struct watched before = now();
    instance_begin(&first);
    instance_begin(&second);
    device_begin(&first, &of_first);
    device_begin(&second, &of_second);
    device_begin(&first, &more);
    assert_int_equal(take(&of_first, 3 * MIB, &memory[0]), VR_VK_SUCCESS);
    assert_int_equal(take(&of_second, 5 * MIB, &memory[1]), VR_VK_SUCCESS);
    assert_int_equal(take(&more, 7 * MIB, &memory[2]), VR_VK_SUCCESS);
    assert_int_equal(now().live[RUN_DEVICE], 15 * MIB);
    of_first.vkFreeMemory(of_first.handle, memory[0], NULL);
    device_end(&of_first);
    more.vkFreeMemory(more.handle, memory[2], NULL);
    more.vkFreeMemory(more.handle, NULL, NULL);
    assert_int_equal(now().live[RUN_DEVICE], 5 * MIB);
    device_end(&more);
    instance_end(&first);
    of_second.vkFreeMemory(of_second.handle, memory[1], NULL);
    device_end(&of_second);
    instance_end(&second);
    assert_int_equal(now().live[RUN_DEVICE], 0);
    assert_int_equal(now().allocs - before.allocs, 3);
    assert_int_equal(now().frees - before.frees, 3);
    assert_int_equal(now().strangers, 0);
}

TEST(under_a_limit_the_heap_is_smaller) {
    struct instance_world instance;
    struct device_world device;
    struct vr_vk_memory_properties memory;
    struct vr_vk_memory_properties_2 second = {.head.type = VR_VK_TYPE_MEMORY_PROPERTIES};
    struct vr_vk_memory *first, *more = NULL;
    watched_limit(100 * MIB);
    instance_begin(&instance);
    device_begin(&instance, &device);
    instance.vkGetPhysicalDeviceMemoryProperties(instance.physical, &memory);
    instance.vkGetPhysicalDeviceMemoryProperties2(instance.physical, &second);
    assert_int_equal(memory.heaps[0].bytes, 100 * MIB);
    assert_int_equal(second.properties.heaps[0].bytes, 100 * MIB);
    assert_int_equal(take(&device, 60 * MIB, &first), VR_VK_SUCCESS);
    assert_int_equal(take(&device, 60 * MIB, &more), VR_VK_OUT_OF_DEVICE_MEMORY);
    assert_null(more);
    device.vkFreeMemory(device.handle, first, NULL);
    assert_int_equal(take(&device, 100 * MIB, &first), VR_VK_SUCCESS);
    device.vkFreeMemory(device.handle, first, NULL);
    watched_limit(0);
    device_end(&device);
    instance_end(&instance);
}

WHOLE_FILE(loader_open, loader_leave)
