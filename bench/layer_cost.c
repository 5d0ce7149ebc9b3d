/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_cost opencl|vulkan [BYTES]: the time of an allocation and its free by the system's OpenCL
 * or Vulkan loader, on the first device: the least, the median and the 99th percentile of 20,000
 * pairs. Run alone and under vram run, the difference is what the layer costs.
 *
 * The few declarations are written out here: an SDK is needed neither to build nor to run.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAIRS = 20000, WARM = 1000 };

static uint64_t times[PAIRS];

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void must(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "layer_cost: %s failed\n", what);
        exit(2);
    }
}

/* A pointer to a function is none to an object, for a compiler. */
static void symbol(void *library, const char *name, void *to) {
    void *found = library ? dlsym(library, name) : NULL;
    must(found != NULL, name);
    memcpy(to, &found, sizeof found);
}

static void pairs_time(void (*pair)(void *user), void *user, const char *name) {
    for (int i = -WARM; i < PAIRS; i++) {
        uint64_t start = now_ns();
        pair(user);
        if (i >= 0) {
            times[i] = now_ns() - start;
        }
    }
    qsort(times, PAIRS, sizeof times[0], compare);
    printf("%s: a pair takes %llu ns at least, %llu ns in the median, %llu ns at the 99th "
           "percentile\n",
           name, (unsigned long long)times[0], (unsigned long long)times[PAIRS / 2],
           (unsigned long long)times[PAIRS / 100 * 99]);
}

/* -------------------------------------------------------------------- OpenCL */

struct opencl {
    void *context;
    size_t bytes;
    void *(*create)(void *context, uint64_t flags, size_t bytes, void *host, int32_t *code);
    int32_t (*release)(void *memory);
};

static void opencl_pair(void *user) {
    const struct opencl *cl = user;
    int32_t code = 0;
    void *memory = cl->create(cl->context, 1, cl->bytes, NULL, &code);
    must(memory != NULL, "clCreateBuffer");
    cl->release(memory);
}

static void opencl_time(size_t bytes) {
    struct opencl cl = {.bytes = bytes};
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *platform, *device;
    int32_t (*platforms)(uint32_t room, void **found, uint32_t *count), code = 0;
    int32_t (*devices)(void *platform, uint64_t type, uint32_t room, void **found, uint32_t *count);
    void *(*context)(const intptr_t *props, uint32_t count, void **devices, void *fault, void *user,
                     int32_t *code);
    uint32_t count = 0;
    symbol(library, "clGetPlatformIDs", &platforms);
    symbol(library, "clGetDeviceIDs", &devices);
    symbol(library, "clCreateContext", &context);
    symbol(library, "clCreateBuffer", &cl.create);
    symbol(library, "clReleaseMemObject", &cl.release);
    must(platforms(1, &platform, &count) == 0, "clGetPlatformIDs");
    must(devices(platform, 0xFFFFFFFF, 1, &device, &count) == 0, "clGetDeviceIDs");
    cl.context = context(NULL, 1, &device, NULL, NULL, &code);
    must(cl.context != NULL, "clCreateContext");
    pairs_time(opencl_pair, &cl, "clCreateBuffer and clReleaseMemObject");
}

/* -------------------------------------------------------------------- Vulkan */

struct head {
    uint32_t type;
    const void *next;
};

struct vulkan {
    void *device;
    struct {
        struct head head;
        uint64_t bytes;
        uint32_t type;
    } info; /* VkMemoryAllocateInfo */
    int32_t (*allocate)(void *device, const void *info, const void *allocator, uint64_t *memory);
    void (*release)(void *device, uint64_t memory, const void *allocator);
};

static void vulkan_pair(void *user) {
    const struct vulkan *vk = user;
    uint64_t memory = 0;
    must(vk->allocate(vk->device, &vk->info, NULL, &memory) == 0, "vkAllocateMemory");
    vk->release(vk->device, memory, NULL);
}

static void vulkan_time(size_t bytes) {
    struct vulkan vk = {.info = {.head.type = 5, .bytes = bytes}};
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
    void *library = dlopen("libvulkan.so.1", RTLD_NOW), *instance = NULL, *physical = NULL;
    int32_t (*create)(const void *info, const void *allocator, void **instance);
    int32_t (*list)(void *instance, uint32_t *count, void **physicals);
    int32_t (*open)(void *physical, const void *info, const void *allocator, void **device);
    uint32_t count = 1;
    symbol(library, "vkCreateInstance", &create);
    symbol(library, "vkEnumeratePhysicalDevices", &list);
    symbol(library, "vkCreateDevice", &open);
    symbol(library, "vkAllocateMemory", &vk.allocate);
    symbol(library, "vkFreeMemory", &vk.release);
    must(create(&instance_info, NULL, &instance) == 0, "vkCreateInstance");
    must(list(instance, &count, &physical) >= 0 && physical, "vkEnumeratePhysicalDevices");
    must(open(physical, &device_info, NULL, &vk.device) == 0, "vkCreateDevice");
    pairs_time(vulkan_pair, &vk, "vkAllocateMemory and vkFreeMemory");
}

int main(int argc, char **argv) {
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 4096;
    if (argc > 1 && strcmp(argv[1], "opencl") == 0) {
        opencl_time(bytes);
    } else if (argc > 1 && strcmp(argv[1], "vulkan") == 0) {
        vulkan_time(bytes);
    } else {
        fprintf(stderr, "usage: layer_cost opencl|vulkan [BYTES]\n");
        return 2;
    }
    return 0;
}
