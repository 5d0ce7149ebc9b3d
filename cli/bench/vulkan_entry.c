/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_entry.c: Vulkan's own allocator enters the contest: what a program without a pool does for
 * each buffer, vkCreateBuffer, vkAllocateMemory and vkBindBufferMemory, and to end it
 * vkDestroyBuffer and vkFreeMemory. The loader is opened at run time; the device is the entry's
 * own.
 */
#include "bench/loop.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As Vulkan lays them out; what is not needed is left 0. */
struct vulkan_instance_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
    const struct vulkan_application {
        uint32_t type;
        const void *next;
        const char *name;
        uint32_t version;
        const char *engine;
        uint32_t engine_version, api_version;
    } * application;
    uint32_t layer_count;
    const void *layers;
    uint32_t extension_count;
    const void *extensions;
};

struct vulkan_queue_info {
    uint32_t type;
    const void *next;
    uint32_t flags, family, count;
    const float *priorities;
};

struct vulkan_device_info {
    uint32_t type;
    const void *next;
    uint32_t flags, queue_count;
    const struct vulkan_queue_info *queues;
    uint32_t layer_count;
    const void *layers;
    uint32_t extension_count;
    const void *extensions, *features;
};

struct vulkan_buffer_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint64_t bytes;
    uint32_t usage, sharing, family_count;
    const uint32_t *families;
};

struct vulkan_allocate_info {
    uint32_t type;
    const void *next;
    uint64_t bytes;
    uint32_t memory_type;
};

struct vulkan_requirements {
    uint64_t bytes, align;
    uint32_t types;
};

struct vulkan_memory {
    uint32_t type_count;
    struct {
        uint32_t flags, heap;
    } types[32];
    uint32_t heap_count;
    struct {
        uint64_t bytes;
        uint32_t flags;
    } heaps[16];
};

enum {
    TYPE_APPLICATION = 0,
    TYPE_INSTANCE = 1,
    TYPE_QUEUE = 2,
    TYPE_DEVICE = 3,
    TYPE_ALLOCATE = 5,
    TYPE_BUFFER = 12,
    USAGE_STORAGE_AND_COPIES = 0x23,
    MEMORY_DEVICE_LOCAL = 1,
    DEVICES_MAX = 16
};

/* The functions that are needed: X(result, name, parameters). */
#define VULKAN_CALLS(X)                                                                            \
    X(int, vkEnumeratePhysicalDevices, (void *instance, uint32_t *count, void **devices))          \
    X(void, vkGetPhysicalDeviceMemoryProperties, (void *device, struct vulkan_memory *memory))     \
    X(int, vkCreateDevice,                                                                         \
      (void *physical, const struct vulkan_device_info *info, const void *none, void **device))    \
    X(void, vkDestroyInstance, (void *instance, const void *none))                                 \
    X(void, vkDestroyDevice, (void *device, const void *none))                                     \
    X(int, vkCreateBuffer,                                                                         \
      (void *device, const struct vulkan_buffer_info *info, const void *none, void **buffer))      \
    X(void, vkDestroyBuffer, (void *device, void *buffer, const void *none))                       \
    X(void, vkGetBufferMemoryRequirements,                                                         \
      (void *device, void *buffer, struct vulkan_requirements *needs))                             \
    X(int, vkAllocateMemory,                                                                       \
      (void *device, const struct vulkan_allocate_info *info, const void *none, void **memory))    \
    X(void, vkFreeMemory, (void *device, void *memory, const void *none))                          \
    X(int, vkBindBufferMemory, (void *device, void *buffer, void *memory, uint64_t offset))

struct vulkan_state {
    void *library, *instance, *device;
    struct vulkan_memory memory;
#define VULKAN_FIELD(result, name, parameters) result(*name) parameters;
    VULKAN_CALLS(VULKAN_FIELD)
#undef VULKAN_FIELD
};

/* What an address of this entry points to. */
struct vulkan_block {
    void *buffer, *memory;
};

static bool fails(int code, const char *what, char reason[REASON_MAX]) {
    if (code != 0) {
        snprintf(reason, REASON_MAX, "%s failed with Vulkan error %d", what, code);
    }
    return code != 0;
}

static uint32_t type_of(const struct vulkan_state *state, uint32_t allowed) {
    uint32_t best = 0;
    for (uint32_t i = state->memory.type_count; i-- > 0;) {
        if (allowed >> i & 1 && state->memory.types[i].flags & MEMORY_DEVICE_LOCAL) {
            best = i;
        }
    }
    return best;
}

static void end_block(const struct vulkan_state *state, struct vulkan_block *block) {
    state->vkDestroyBuffer(state->device, block->buffer, NULL);
    state->vkFreeMemory(state->device, block->memory, NULL);
    free(block);
}

static inline uint64_t take(struct worker *worker, uint64_t bytes) {
    const struct vulkan_state *state = worker->entry->state;
    const struct vulkan_buffer_info buffer = {
        .type = TYPE_BUFFER, .bytes = bytes, .usage = USAGE_STORAGE_AND_COPIES};
    struct vulkan_block *block = calloc(1, sizeof *block);
    if (block == NULL) {
        snprintf(worker->reason, REASON_MAX, "out of host memory");
        return 0;
    }
    if (!fails(state->vkCreateBuffer(state->device, &buffer, NULL, &block->buffer),
               "vkCreateBuffer", worker->reason)) {
        struct vulkan_requirements needs = {0};
        state->vkGetBufferMemoryRequirements(state->device, block->buffer, &needs);
        const struct vulkan_allocate_info info = {.type = TYPE_ALLOCATE,
                                                  .bytes = needs.bytes,
                                                  .memory_type = type_of(state, needs.types)};
        if (!fails(state->vkAllocateMemory(state->device, &info, NULL, &block->memory),
                   "vkAllocateMemory", worker->reason) &&
            !fails(state->vkBindBufferMemory(state->device, block->buffer, block->memory, 0),
                   "vkBindBufferMemory", worker->reason)) {
            return (uintptr_t)block;
        }
    }
    end_block(state, block);
    return 0;
}

static inline bool give(struct worker *worker, uint64_t addr) {
    end_block(worker->entry->state, (struct vulkan_block *)(uintptr_t)addr);
    return true;
}

LOOP_FUNCTIONS(take, give)

typedef void (*vulkan_function)(void);
typedef vulkan_function vulkan_get(void *instance, const char *name);

static bool make_instance(struct vulkan_state *state, vulkan_get *get, char reason[REASON_MAX]) {
    static const struct vulkan_application application = {.type = TYPE_APPLICATION,
                                                          .api_version = 1u << 22 | 2u << 12};
    static const struct vulkan_instance_info info = {.type = TYPE_INSTANCE,
                                                     .application = &application};
    int (*create)(const struct vulkan_instance_info *, const void *, void **) = NULL;
    vulkan_function found = get(NULL, "vkCreateInstance");
    memcpy(&create, &found, sizeof create);
    if (create == NULL ||
        fails(create(&info, NULL, &state->instance), "vkCreateInstance", reason)) {
        return false;
    }
#define VULKAN_FIND(result, name, parameters)                                                      \
    found = get(state->instance, #name);                                                           \
    if (found == NULL) {                                                                           \
        snprintf(reason, REASON_MAX, "not found: the Vulkan loader has no " #name);                \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&state->name, &found, sizeof found);
    VULKAN_CALLS(VULKAN_FIND)
#undef VULKAN_FIND
    return true;
}

/* The library that the backend was told to use, a stand-in of a test for one, is used here too. */
static bool load(struct vulkan_state *state, char reason[REASON_MAX]) {
    char path[256] = "";
    vulkan_get *get = NULL;
    vram_option_get("vulkan_library", path, sizeof path, NULL);
    state->library = dlopen(path[0] != 0 ? path : "libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = state->library != NULL ? dlsym(state->library, "vkGetInstanceProcAddr") : NULL;
    memcpy(&get, &found, sizeof get); /* C has no cast from data to code */
    if (get == NULL) {
        snprintf(reason, REASON_MAX, "not found: the Vulkan loader cannot be loaded");
        return false;
    }
    return make_instance(state, get, reason);
}

static bool make_device(struct entry *entry, struct vulkan_state *state) {
    const float priority = 1;
    const struct vulkan_queue_info queue = {
        .type = TYPE_QUEUE, .count = 1, .priorities = &priority};
    const struct vulkan_device_info info = {
        .type = TYPE_DEVICE, .queue_count = 1, .queues = &queue};
    void *physicals[DEVICES_MAX];
    uint32_t count = DEVICES_MAX;
    int code = state->vkEnumeratePhysicalDevices(state->instance, &count, physicals);
    if (fails(code < 0 ? code : 0, "vkEnumeratePhysicalDevices", entry->reason)) {
        return false;
    }
    if (entry->backend_index >= count) {
        snprintf(entry->reason, REASON_MAX, "not found: there are %u devices", count);
        return false;
    }
    void *physical = physicals[entry->backend_index];
    state->vkGetPhysicalDeviceMemoryProperties(physical, &state->memory);
    return !fails(state->vkCreateDevice(physical, &info, NULL, &state->device), "vkCreateDevice",
                  entry->reason);
}

static bool open_entry(struct entry *entry) {
    struct vulkan_state *state = calloc(1, sizeof *state);
    entry->state = state;
    if (state == NULL) {
        snprintf(entry->reason, REASON_MAX, "out of host memory");
        return false;
    }
    return load(state, entry->reason) && make_device(entry, state);
}

/* The library stays: drivers do not like to be unloaded. */
static void close_entry(struct entry *entry) {
    struct vulkan_state *state = entry->state;
    if (state != NULL && state->device != NULL) {
        state->vkDestroyDevice(state->device, NULL);
    }
    if (state != NULL && state->instance != NULL && state->vkDestroyInstance != NULL) {
        state->vkDestroyInstance(state->instance, NULL);
    }
    free(state);
}

const struct allocator allocator_vulkan = {.open = open_entry, .close = close_entry, LOOP_FIELDS};
