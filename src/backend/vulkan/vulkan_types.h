/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_types.h: types and values of the part of Vulkan 1.2 that the backend uses, declared here
 * so that neither building nor running needs an SDK. vulkan_api.h has the functions.
 *
 * Names begin with vr_vk_, so this header can be included beside the real vulkan.h: where one is
 * found, tests/lint/vulkan_abi.c includes both and the compiler compares every size, offset, value
 * and prototype. Values and layouts are Khronos's ABI and do not change. Handles are pointers, as
 * they are on every 64-bit system.
 */
#ifndef VR_VULKAN_TYPES_H
#define VR_VULKAN_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* -------------------------------------------------------------------- types */

typedef int32_t vr_vk_result; /* VkResult; one of vr_vk_code, or anything else */

struct vr_vk_instance;                /* VkInstance points to it, and so on */
struct vr_vk_physical;                /* VkPhysicalDevice */
struct vr_vk_device;                  /* VkDevice */
struct vr_vk_queue;                   /* VkQueue */
struct vr_vk_commands;                /* VkCommandBuffer */
struct vr_vk_memory;                  /* VkDeviceMemory */
struct vr_vk_buffer;                  /* VkBuffer */
struct vr_vk_semaphore;               /* VkSemaphore */
struct vr_vk_fence;                   /* VkFence; none is ever used */
struct vr_vk_command_pool;            /* VkCommandPool */
struct vr_vk_shader;                  /* VkShaderModule */
struct vr_vk_layout;                  /* VkPipelineLayout */
struct vr_vk_pipeline;                /* VkPipeline */
struct vr_vk_pipeline_cache;          /* VkPipelineCache; none is ever used */
struct vr_vk_buffer_barrier;          /* VkBufferMemoryBarrier; none is ever used */
struct vr_vk_image_barrier;           /* VkImageMemoryBarrier; none is ever used */
struct vr_vk_allocator;               /* VkAllocationCallbacks; none is ever used */
typedef void (*vr_vk_function)(void); /* PFN_vkVoidFunction */

/* The head of every struct that can be part of a chain. */
struct vr_vk_head {
    uint32_t type; /* enum vr_vk_type */
    void *next;
};

/* ------------------------------------------------------------------- values */

/* Result codes that the backend distinguishes; vulkan_error.c maps them to statuses. */
enum vr_vk_code {
    VR_VK_SUCCESS = 0,
    VR_VK_NOT_READY = 1,
    VR_VK_TIMEOUT = 2,
    VR_VK_INCOMPLETE = 5,
    VR_VK_OUT_OF_HOST_MEMORY = -1,
    VR_VK_OUT_OF_DEVICE_MEMORY = -2,
    VR_VK_INITIALIZATION_FAILED = -3,
    VR_VK_DEVICE_LOST = -4,
    VR_VK_MEMORY_MAP_FAILED = -5,
    VR_VK_LAYER_NOT_PRESENT = -6,
    VR_VK_EXTENSION_NOT_PRESENT = -7,
    VR_VK_FEATURE_NOT_PRESENT = -8,
    VR_VK_INCOMPATIBLE_DRIVER = -9,
    VR_VK_TOO_MANY_OBJECTS = -10,
    VR_VK_FORMAT_NOT_SUPPORTED = -11,
    VR_VK_FRAGMENTED_POOL = -12,
    VR_VK_UNKNOWN = -13,
    VR_VK_OUT_OF_POOL_MEMORY = -1000069000,
    VR_VK_FRAGMENTATION = -1000161000,
    VR_VK_INVALID_ADDRESS = -1000257000,
    VR_VK_INVALID_SHADER = -1000012000,
    VR_VK_INVALID_EXTERNAL_HANDLE = -1000072003,
    VR_VK_NOT_PERMITTED = -1000174001
};

enum vr_vk_type {
    VR_VK_TYPE_APPLICATION = 0,
    VR_VK_TYPE_INSTANCE = 1,
    VR_VK_TYPE_DEVICE_QUEUE = 2,
    VR_VK_TYPE_DEVICE = 3,
    VR_VK_TYPE_SUBMIT = 4,
    VR_VK_TYPE_ALLOCATE = 5,
    VR_VK_TYPE_SEMAPHORE = 9,
    VR_VK_TYPE_BUFFER = 12,
    VR_VK_TYPE_SHADER = 16,
    VR_VK_TYPE_STAGE = 18,
    VR_VK_TYPE_COMPUTE_PIPELINE = 29,
    VR_VK_TYPE_LAYOUT = 30,
    VR_VK_TYPE_COMMAND_POOL = 39,
    VR_VK_TYPE_COMMANDS = 40,
    VR_VK_TYPE_BEGIN = 42,
    VR_VK_TYPE_BARRIER = 46,
    VR_VK_TYPE_FEATURES_11 = 49,
    VR_VK_TYPE_FEATURES_12 = 51,
    VR_VK_TYPE_FEATURES = 1000059000,
    VR_VK_TYPE_PROPERTIES = 1000059001,
    VR_VK_TYPE_MEMORY_PROPERTIES = 1000059006,
    VR_VK_TYPE_ALLOCATE_FLAGS = 1000060000,
    VR_VK_TYPE_EXTERNAL_BUFFER = 1000071002,
    VR_VK_TYPE_EXTERNAL_BUFFER_PROPERTIES = 1000071003,
    VR_VK_TYPE_ID = 1000071004,
    VR_VK_TYPE_EXTERNAL_BUFFER_MADE = 1000072000,
    VR_VK_TYPE_EXPORT = 1000072002,
    VR_VK_TYPE_IMPORT_FD = 1000074000,
    VR_VK_TYPE_GET_FD = 1000074002,
    VR_VK_TYPE_DEDICATED = 1000127001,
    VR_VK_TYPE_MAINTENANCE_3 = 1000168000,
    VR_VK_TYPE_SEMAPHORE_TYPE = 1000207002,
    VR_VK_TYPE_TIMELINE_SUBMIT = 1000207003,
    VR_VK_TYPE_SEMAPHORE_WAIT = 1000207004,
    VR_VK_TYPE_PCI = 1000212000,
    VR_VK_TYPE_BUDGET = 1000237000,
    VR_VK_TYPE_ADDRESS = 1000244001,
    VR_VK_TYPE_MAINTENANCE_4 = 1000413001
};

#define VR_VK_VERSION(major, minor)  ((uint32_t)(major) << 22 | (uint32_t)(minor) << 12)
#define VR_VK_VERSION_MAJOR(version) ((version) >> 22 & 0x7F)
#define VR_VK_VERSION_MINOR(version) ((version) >> 12 & 0x3FF)
#define VR_VK_VERSION_PATCH(version) ((version)&0xFFF)

#define VR_VK_EXT_BUDGET "VK_EXT_memory_budget"
#define VR_VK_EXT_FD     "VK_KHR_external_memory_fd"
#define VR_VK_EXT_PCI    "VK_EXT_pci_bus_info"

enum {
    VR_VK_KIND_INTEGRATED = 1, /* VkPhysicalDeviceType */
    VR_VK_KIND_CPU = 4,

    VR_VK_QUEUE_COMPUTE = 2, /* VkQueueFlagBits; graphics and compute queues transfer, too */
    VR_VK_QUEUE_GRAPHICS = 1,
    VR_VK_QUEUE_TRANSFER = 4,

    VR_VK_MEMORY_DEVICE_LOCAL = 1, /* VkMemoryPropertyFlagBits */
    VR_VK_MEMORY_HOST_VISIBLE = 2,
    VR_VK_MEMORY_HOST_COHERENT = 4,
    VR_VK_MEMORY_HOST_CACHED = 8,
    VR_VK_MEMORY_LAZY = 16,
    VR_VK_MEMORY_PROTECTED = 32,

    VR_VK_HEAP_DEVICE_LOCAL = 1, /* VkMemoryHeapFlagBits */

    VR_VK_USAGE_TRANSFER_FROM = 1, /* VkBufferUsageFlagBits */
    VR_VK_USAGE_TRANSFER_TO = 2,
    VR_VK_USAGE_UNIFORM = 0x10,
    VR_VK_USAGE_STORAGE = 0x20,
    VR_VK_USAGE_INDEX = 0x40,
    VR_VK_USAGE_VERTEX = 0x80,
    VR_VK_USAGE_INDIRECT = 0x100,
    VR_VK_USAGE_ADDRESS = 0x20000,

    VR_VK_SHARING_EXCLUSIVE = 0,
    VR_VK_SHARING_CONCURRENT = 1,

    VR_VK_ALLOCATE_ADDRESS = 2,

    VR_VK_OPAQUE_FD = 1,           /* VkExternalMemoryHandleTypeFlagBits */
    VR_VK_EXTERNAL_EXPORTABLE = 2, /* VkExternalMemoryFeatureFlagBits */
    VR_VK_EXTERNAL_IMPORTABLE = 4,

    VR_VK_SEMAPHORE_TIMELINE = 1,

    VR_VK_POOL_TRANSIENT = 1,
    VR_VK_POOL_RESET = 2, /* command buffers can be reset one by one */
    VR_VK_BEGIN_ONCE = 1,

    VR_VK_STAGE_COMPUTE = 0x20, /* VkShaderStageFlagBits */

    VR_VK_PIPE_TRANSFER = 0x1000, /* VkPipelineStageFlagBits */
    VR_VK_PIPE_HOST = 0x4000,
    VR_VK_PIPE_ALL = 0x10000,

    VR_VK_ACCESS_HOST_READ = 0x2000,
    VR_VK_ACCESS_MEMORY_READ = 0x8000,
    VR_VK_ACCESS_MEMORY_WRITE = 0x10000,

    VR_VK_BIND_COMPUTE = 1
};

#define VR_VK_WHOLE UINT64_MAX

/* -------------------------------------------------------- what devices tell */

struct vr_vk_limits {
    uint32_t other_1[8];
    uint32_t max_push_constants; /* bytes */
    uint32_t max_allocations;    /* VkDeviceMemory objects at a time */
    uint32_t other_2[45];
    uint32_t max_groups[3];
    uint32_t max_group_items;
    uint32_t max_group_size[3];
    uint32_t other_3[64];
};

struct vr_vk_properties {
    uint32_t api_version, driver_version, vendor, device;
    uint32_t kind; /* VR_VK_KIND_CPU, ... */
    char name[256];
    uint8_t cache_uuid[16];
    _Alignas(8) struct vr_vk_limits limits;
    uint32_t sparse[5];
};

struct vr_vk_properties_2 {
    struct vr_vk_head head;
    struct vr_vk_properties properties;
};

struct vr_vk_id {
    struct vr_vk_head head;
    uint8_t device_uuid[16], driver_uuid[16], luid[8];
    uint32_t node_mask, luid_valid;
};

struct vr_vk_maintenance_3 {
    struct vr_vk_head head;
    uint32_t max_descriptors;
    uint64_t max_allocation; /* bytes */
};

struct vr_vk_maintenance_4 {
    struct vr_vk_head head;
    uint64_t max_buffer; /* bytes */
};

struct vr_vk_pci {
    struct vr_vk_head head;
    uint32_t domain, bus, device, function;
};

/* Features are lists of 32-bit booleans; these are the indices of those that are used. */
enum {
    VR_VK_FEATURE_FLOAT64 = 39,
    VR_VK_FEATURE_INT64 = 40,
    VR_VK_FEATURE_INT16 = 41,
    VR_VK_FEATURE_COUNT = 55,

    VR_VK_FEATURE_11_STORAGE16 = 0,
    VR_VK_FEATURE_11_COUNT = 12,

    VR_VK_FEATURE_12_STORAGE8 = 2,
    VR_VK_FEATURE_12_FLOAT16 = 7,
    VR_VK_FEATURE_12_INT8 = 8,
    VR_VK_FEATURE_12_SCALAR_LAYOUT = 31,
    VR_VK_FEATURE_12_TIMELINE = 37,
    VR_VK_FEATURE_12_ADDRESS = 38,
    VR_VK_FEATURE_12_MEMORY_MODEL = 41,
    VR_VK_FEATURE_12_MODEL_DEVICE_SCOPE = 42,
    VR_VK_FEATURE_12_COUNT = 47
};

struct vr_vk_features_2 {
    struct vr_vk_head head;
    uint32_t values[VR_VK_FEATURE_COUNT];
};

struct vr_vk_features_11 {
    struct vr_vk_head head;
    uint32_t values[VR_VK_FEATURE_11_COUNT];
};

struct vr_vk_features_12 {
    struct vr_vk_head head;
    uint32_t values[VR_VK_FEATURE_12_COUNT];
};

enum { VR_VK_MEMORY_TYPES = 32, VR_VK_MEMORY_HEAPS = 16 };

struct vr_vk_memory_properties {
    uint32_t type_count;
    struct vr_vk_memory_type {
        uint32_t flags, heap;
    } types[VR_VK_MEMORY_TYPES];
    uint32_t heap_count;
    struct vr_vk_heap {
        uint64_t bytes;
        uint32_t flags;
    } heaps[VR_VK_MEMORY_HEAPS];
};

struct vr_vk_memory_properties_2 {
    struct vr_vk_head head;
    struct vr_vk_memory_properties properties;
};

struct vr_vk_budget {
    struct vr_vk_head head;
    uint64_t budget[VR_VK_MEMORY_HEAPS], usage[VR_VK_MEMORY_HEAPS]; /* bytes */
};

struct vr_vk_external_buffer {
    struct vr_vk_head head;
    uint32_t flags, usage, handle_type;
};

struct vr_vk_external_buffer_properties {
    struct vr_vk_head head;
    uint32_t features, exported_from, compatible;
};

struct vr_vk_family {
    uint32_t flags, count, timestamp_bits, image_granularity[3];
};

struct vr_vk_extension {
    char name[256];
    uint32_t version;
};

/* ------------------------------------------------------------ what is made */

struct vr_vk_application {
    struct vr_vk_head head;
    const char *name;
    uint32_t version;
    const char *engine;
    uint32_t engine_version, api_version;
};

struct vr_vk_instance_info {
    struct vr_vk_head head;
    uint32_t flags;
    const struct vr_vk_application *application;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
};

struct vr_vk_device_queue_info {
    struct vr_vk_head head;
    uint32_t flags, family, count;
    const float *priorities;
};

struct vr_vk_device_info {
    struct vr_vk_head head;
    uint32_t flags, queue_count;
    const struct vr_vk_device_queue_info *queues;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
    const void *features; /* NULL: they are in the chain */
};

struct vr_vk_allocate_info {
    struct vr_vk_head head;
    uint64_t bytes;
    uint32_t type;
};

struct vr_vk_allocate_flags {
    struct vr_vk_head head;
    uint32_t flags, device_mask;
};

struct vr_vk_dedicated {
    struct vr_vk_head head;
    void *image; /* none is ever used */
    struct vr_vk_buffer *buffer;
};

struct vr_vk_export {
    struct vr_vk_head head;
    uint32_t handle_types;
};

struct vr_vk_import_fd {
    struct vr_vk_head head;
    uint32_t handle_type;
    int fd;
};

struct vr_vk_get_fd {
    struct vr_vk_head head;
    struct vr_vk_memory *memory;
    uint32_t handle_type;
};

struct vr_vk_external_buffer_made {
    struct vr_vk_head head;
    uint32_t handle_types;
};

struct vr_vk_buffer_info {
    struct vr_vk_head head;
    uint32_t flags;
    uint64_t bytes;
    uint32_t usage, sharing, family_count;
    const uint32_t *families;
};

struct vr_vk_requirements {
    uint64_t bytes, align;
    uint32_t types; /* bit i: memory type i can be used */
};

struct vr_vk_address_info {
    struct vr_vk_head head;
    struct vr_vk_buffer *buffer;
};

struct vr_vk_semaphore_info {
    struct vr_vk_head head;
    uint32_t flags;
};

struct vr_vk_semaphore_type {
    struct vr_vk_head head;
    uint32_t type;
    uint64_t start;
};

struct vr_vk_semaphore_wait {
    struct vr_vk_head head;
    uint32_t flags, count;
    struct vr_vk_semaphore *const *semaphores;
    const uint64_t *values;
};

struct vr_vk_command_pool_info {
    struct vr_vk_head head;
    uint32_t flags, family;
};

struct vr_vk_commands_info {
    struct vr_vk_head head;
    struct vr_vk_command_pool *pool;
    uint32_t level, count;
};

struct vr_vk_begin_info {
    struct vr_vk_head head;
    uint32_t flags;
    const void *inheritance;
};

struct vr_vk_submit {
    struct vr_vk_head head;
    uint32_t wait_count;
    struct vr_vk_semaphore *const *waits;
    const uint32_t *wait_stages;
    uint32_t commands_count;
    struct vr_vk_commands *const *commands;
    uint32_t signal_count;
    struct vr_vk_semaphore *const *signals;
};

struct vr_vk_timeline_submit {
    struct vr_vk_head head;
    uint32_t wait_count;
    const uint64_t *wait_values;
    uint32_t signal_count;
    const uint64_t *signal_values;
};

struct vr_vk_barrier {
    struct vr_vk_head head;
    uint32_t from_access, to_access;
};

struct vr_vk_copy {
    uint64_t from, to, bytes; /* offsets in the two buffers */
};

struct vr_vk_shader_info {
    struct vr_vk_head head;
    uint32_t flags;
    size_t bytes;
    const uint32_t *code;
};

struct vr_vk_push_range {
    uint32_t stages, offset, bytes;
};

struct vr_vk_layout_info {
    struct vr_vk_head head;
    uint32_t flags, set_count;
    const void *sets;
    uint32_t range_count;
    const struct vr_vk_push_range *ranges;
};

struct vr_vk_constant {
    uint32_t id, offset;
    size_t bytes;
};

struct vr_vk_constants {
    uint32_t count;
    const struct vr_vk_constant *entries;
    size_t bytes;
    const void *data;
};

struct vr_vk_stage {
    struct vr_vk_head head;
    uint32_t flags, stage;
    struct vr_vk_shader *shader;
    const char *entry;
    const struct vr_vk_constants *constants;
};

struct vr_vk_compute_info {
    struct vr_vk_head head;
    uint32_t flags;
    struct vr_vk_stage stage;
    struct vr_vk_layout *layout;
    struct vr_vk_pipeline *base;
    int32_t base_index;
};

#endif
