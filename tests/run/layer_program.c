/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_program opencl|vulkan: takes 1, 2 and 4 MiB of the first device, frees the first block and
 * leaves the others behind. Exit code 3: a request was refused. `layer_program again` loads and
 * unloads OpenCL's loader three times, with a buffer of 1 MiB each time. It declares the few
 * functions that it needs, so that it is built everywhere.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20, REFUSED = 3 };

static void must(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "layer_program: %s\n", what);
        exit(2);
    }
}

static void symbol(void *library, const char *name, void *to) {
    void *found = library ? dlsym(library, name) : NULL;
    must(found != NULL, name);
    memcpy(to, &found, sizeof found);
}

/* -------------------------------------------------------------------- OpenCL */

static void *(*create_buffer)(void *context, uint64_t flags, size_t bytes, void *host,
                              int32_t *code);

__attribute__((noinline)) static void *leave_buffer(void *context, size_t bytes) {
    int32_t code = 0;
    void *memory = create_buffer(context, 1, bytes, NULL, &code);
    if (!memory) {
        printf("clCreateBuffer: %d\n", code);
        exit(REFUSED);
    }
    return memory;
}

static int32_t (*release_buffer)(void *memory);

static void *opencl_context(void *library) {
    void *platform, *device;
    int32_t (*platforms)(uint32_t room, void **found, uint32_t *count), code = 0;
    int32_t (*devices)(void *platform, uint64_t type, uint32_t room, void **found, uint32_t *count);
    int32_t (*info)(void *device, uint32_t what, size_t bytes, void *value, size_t *needed);
    void *(*create)(const intptr_t *props, uint32_t count, void **devices, void *fault, void *user,
                    int32_t *code);
    uint32_t count = 0;
    uint64_t total = 0;
    symbol(library, "clGetPlatformIDs", &platforms);
    symbol(library, "clGetDeviceIDs", &devices);
    symbol(library, "clGetDeviceInfo", &info);
    symbol(library, "clCreateContext", &create);
    symbol(library, "clCreateBuffer", &create_buffer);
    symbol(library, "clReleaseMemObject", &release_buffer);
    must(platforms(1, &platform, &count) == 0, "clGetPlatformIDs");
    must(devices(platform, 0xFFFFFFFF, 1, &device, &count) == 0, "clGetDeviceIDs");
    must(info(device, 0x101F, sizeof total, &total, NULL) == 0, "clGetDeviceInfo");
    printf("total %llu\n", (unsigned long long)total);
    void *context = create(NULL, 1, &device, NULL, NULL, &code);
    must(context != NULL, "clCreateContext");
    return context;
}

static void opencl(void) {
    void *context = opencl_context(dlopen("libOpenCL.so.1", RTLD_NOW));
    void *first = leave_buffer(context, MIB);
    leave_buffer(context, 2 * MIB);
    leave_buffer(context, 4 * MIB);
    release_buffer(first);
}

static void again(void) {
    for (int i = 0; i < 3; i++) {
        int32_t (*release)(void *context);
        void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *context = opencl_context(library);
        symbol(library, "clReleaseContext", &release);
        release_buffer(leave_buffer(context, MIB));
        release(context);
        dlclose(library);
    }
}

/* -------------------------------------------------------------------- Vulkan */

struct head {
    uint32_t type;
    const void *next;
};

static int32_t (*allocate)(void *device, const void *info, const void *allocator, uint64_t *memory);

__attribute__((noinline)) static uint64_t leave_memory(void *device, uint64_t bytes) {
    const struct { /* VkMemoryAllocateInfo */
        struct head head;
        uint64_t bytes;
        uint32_t type;
    } info = {.head.type = 5, .bytes = bytes};
    uint64_t memory = 0;
    int32_t result = allocate(device, &info, NULL, &memory);
    if (result) {
        printf("vkAllocateMemory: %d\n", result);
        exit(REFUSED);
    }
    return memory;
}

static void vulkan(void) {
    const struct { /* VkInstanceCreateInfo */
        struct head head;
        uint64_t rest[6];
    } instance_info = {.head.type = 1};
    const float priority = 1;
    const struct { /* VkDeviceQueueCreateInfo */
        struct head head;
        uint32_t flags, family, count;
        const float *priorities;
    } queue = {.head.type = 2, .count = 1, .priorities = &priority};
    const struct { /* VkDeviceCreateInfo */
        struct head head;
        uint32_t flags, queue_count;
        const void *queues;
        uint64_t rest[5];
    } device_info = {.head.type = 3, .queue_count = 1, .queues = &queue};
    struct { /* VkPhysicalDeviceMemoryProperties */
        uint32_t type_count, types[64], heap_count;
        struct {
            uint64_t bytes;
            uint32_t flags;
        } heaps[16];
    } memory;
    void *library = dlopen("libvulkan.so.1", RTLD_NOW), *instance = NULL, *physical = NULL, *device;
    int32_t (*create)(const void *info, const void *allocator, void **instance);
    int32_t (*list)(void *instance, uint32_t *count, void **physicals);
    void (*heaps)(void *physical, void *memory);
    int32_t (*open)(void *physical, const void *info, const void *allocator, void **device);
    void (*release)(void *device, uint64_t memory, const void *allocator);
    void (*end)(void *device, const void *allocator);
    uint32_t count = 1;
    symbol(library, "vkCreateInstance", &create);
    symbol(library, "vkEnumeratePhysicalDevices", &list);
    symbol(library, "vkGetPhysicalDeviceMemoryProperties", &heaps);
    symbol(library, "vkCreateDevice", &open);
    symbol(library, "vkAllocateMemory", &allocate);
    symbol(library, "vkFreeMemory", &release);
    symbol(library, "vkDestroyDevice", &end);
    must(create(&instance_info, NULL, &instance) == 0, "vkCreateInstance");
    must(list(instance, &count, &physical) >= 0 && physical, "vkEnumeratePhysicalDevices");
    heaps(physical, &memory);
    printf("total %llu\n", (unsigned long long)memory.heaps[0].bytes);
    must(open(physical, &device_info, NULL, &device) == 0, "vkCreateDevice");
    uint64_t first = leave_memory(device, MIB);
    (void)leave_memory(device, 2 * MIB);
    (void)leave_memory(device, 4 * MIB);
    release(device, first, NULL);
    end(device, NULL);
}

int layer_main(int argc, char **argv);
int layer_main(int argc, char **argv) {
    must(argc == 2, "opencl, vulkan or again?");
    if (strcmp(argv[1], "opencl") == 0) {
        opencl();
    } else if (strcmp(argv[1], "again") == 0) {
        again();
    } else {
        vulkan();
    }
    return 0;
}
