/* SPDX-License-Identifier: Apache-2.0 */
/* driver_vulkan.c: Vulkan, by the shim in front of lavapipe; see drivers.h. */
#include "drivers.h"

#include "check/scale_kernel.h"
#include "vulkan/shim_vulkan.h"

#include "backend/vulkan/vulkan_api.h"
#include "base/size.h"

#include <dlfcn.h>
#include <string.h>

static struct shim_vulkan_control *shim;

static bool load(const char *path) {
    shim_vulkan_control_fn *get = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "shim_vulkan_control") : NULL;
    memcpy(&get, &found, sizeof get);
    shim = found ? get() : NULL;
    return shim != NULL;
}

/* Words that the device writes are a race of threads where the device is the CPU. */
#if defined(__SANITIZE_THREAD__)
static const char *const manners[] = {"a CPU"};
enum { GPU = 1, CPU = 0 };
#else
static const char *const manners[] = {"a GPU", "a CPU"};
enum { GPU = 0, CPU = 1 };
#endif

static void reset(unsigned manner) {
    shim->reset();
    shim->pretence.gpu = manner == GPU;
}

static void set(int key, long value, const void *world) {
    (void)key, (void)value;
    if (world) {
        memcpy(&shim->pretence, world, sizeof shim->pretence);
    }
}

static void plan(const char *call, uint64_t nth, int code, int lie, bool for_ever) {
    if (lie) {
        shim->lie(call, nth);
    } else {
        shim->refuse(call, nth, code, for_ever);
    }
}

static void hide(const char *symbol) {
    shim->hide(symbol);
}

static void hold(bool held) {
    (void)held; /* the device is the CPU */
}

static uint64_t struck(void) {
    return shim->struck();
}

static const char *last_call(void) {
    return shim->last_call();
}

static uint64_t live(void) {
    return (uint64_t)shim->live();
}

static const char *wrong(const char *last, bool all) {
    (void)last;
    return all ? NULL : shim->wrong(); /* layers see more: conformance.vulkan_validated */
}

/* ------------------------------------------------------------------- tables */

static const int codes[] = {
    1,   2,   3,           4,           5,           -1,          -2,          -3,
    -4,  -5,  -6,          -7,          -8,          -9,          -10,         -11,
    -12, -13, -1000069000, -1000072003, -1000161000, -1000257000, -1000012000, -1000174001};

#define TWIN_vr_vk_result(name)   #name
#define TWIN_void(name)           NULL
#define TWIN_uint64_t(name)       NULL
#define TWIN_vr_vk_function(name) NULL
#define LACKS_VR_VK_GLOBAL        NULL
#define LACKS_VR_VK_INSTANCE      NULL
#define LACKS_VR_VK_DEVICE        NULL
#define LACKS_VR_VK_EXTENSION     "share"
#define ENTRY(returns, name, level, parameters, names)                                             \
    {#name, TWIN_##returns(name), #name, NULL, LACKS_##level, COUNT_OF(codes), codes},
static const struct driver_entry entries[] = {VR_VULKAN_FUNCTIONS(ENTRY)};

static const struct code_row statuses[] = {
    {-1, -1, VRAM_ERR_HOST_MEMORY},
    {-2, -2, VRAM_ERR_DEVICE_MEMORY},
    {-3, -3, VRAM_ERR_NO_DRIVER},
    {-4, -4, VRAM_ERR_DEVICE_LOST},
    {-5, -5, VRAM_ERR_HOST_MEMORY},
    {-6, -6, VRAM_ERR_NO_DRIVER},
    {-8, -7, VRAM_ERR_UNSUPPORTED},
    {-9, -9, VRAM_ERR_NO_DRIVER},
    {-10, -10, VRAM_ERR_LIMIT},
    {-11, -11, VRAM_ERR_UNSUPPORTED},
    {-12, -12, VRAM_ERR_HOST_MEMORY},
    {-1000069000, -1000069000, VRAM_ERR_HOST_MEMORY},
    {-1000072003, -1000072003, VRAM_ERR_INVALID},
    {-1000161000, -1000161000, VRAM_ERR_FRAGMENTED},
    {-1000012000, -1000012000, VRAM_ERR_INVALID},
    {-1000174001, -1000174001, VRAM_ERR_UNSUPPORTED},
    {INT_MIN, INT_MAX, VRAM_ERR_BACKEND},
};

static const int each[] = {-2, -4, -13, 0};

static const struct excuse excuses[] = {
    {"vkGetSemaphoreCounterValue", ANY_CODE, VRAM_OK}, /* asked again */
    {"vkGetMemoryFdKHR", ANY_CODE, VRAM_OK},           /* a reader has it made once more */
    {"vkDeviceWaitIdle", ANY_CODE, VRAM_OK},
    {"vkWaitSemaphores", 2, VRAM_ERR_TIMEOUT, OR_PASS},
    {"vkWaitSemaphores", ANY_CODE, VRAM_OK},
    {"vkAllocateMemory", -2, VRAM_ERR_HOST_MEMORY, OR_USUAL | OR_PASS}, /* of another type */
    {"vk*", -2, VRAM_ERR_HOST_MEMORY, OR_USUAL}, /* memory for the host, from the device's heap */
};

static const struct lie lies[] = {{"vkCreateInstance", 1, false},
                                  {"vkCreateDevice", 1, false},
                                  {"vkGetDeviceQueue", 1, false},
                                  {"vkAllocateMemory", 1, false},
                                  {"vkMapMemory", 1, false},
                                  {"vkGetMemoryFdKHR", 1, false},
                                  {"vkCreateBuffer", 1, false},
                                  {"vkCreateSemaphore", 1, false},
                                  {"vkGetBufferDeviceAddress", 1, false},
                                  {"vkGetBufferMemoryRequirements", 1, false},
                                  {"vkCreateCommandPool", 1, false},
                                  {"vkAllocateCommandBuffers", 1, false},
                                  {"vkCreateShaderModule", 1, false},
                                  {"vkCreatePipelineLayout", 1, false},
                                  {"vkCreateComputePipelines", 1, false}};

#define PRETEND(...)                                                                               \
    .world = &(const struct shim_vulkan_pretence) {                                                \
        __VA_ARGS__                                                                                \
    }

enum {
    LOCAL = VR_VK_MEMORY_DEVICE_LOCAL,
    VISIBLE = VR_VK_MEMORY_HOST_VISIBLE,
    COHERENT = VR_VK_MEMORY_HOST_COHERENT
};

/* Memory that cannot be. */
#define MEMORY(count_of_types, flags, heap, count_of_heaps)                                        \
    PRETEND(.memory =                                                                              \
                &(const struct vr_vk_memory_properties){                                           \
                    .type_count = (count_of_types),                                                \
                    .types = {{(flags), (heap)}},                                                  \
                    .heap_count = (count_of_heaps),                                                \
                    .heaps = {{VR_GIB, VR_VK_HEAP_DEVICE_LOCAL}}}),                                \
        .reason = "memory types cannot be"

static const struct vr_vk_family no_compute[] = {{.flags = VR_VK_QUEUE_TRANSFER, .count = 1},
                                                 {.flags = VR_VK_QUEUE_COMPUTE, .count = 0}};

static const struct answer answers[] = {
    {"no library", .library = "/nowhere/libvulkan.so.1", .reason = "vulkan_library"},
    {"an old loader", PRETEND(.loader_version = VR_VK_VERSION(1, 1)),
     .reason = "knows 1.1, libvram needs 1.2"},
    {"no driver", .plan = {"vkCreateInstance", .code = -9}, .reason = "VK_DRIVER_FILES"},
    {"no device", PRETEND(.no_devices = true), .reason = "no physical device"},
    {"an old device", PRETEND(.device_version = VR_VK_VERSION(1, 1)),
     .reason = "knows no Vulkan 1.2"},
    {"no timeline", PRETEND(.no_timeline = true), .reason = "no timeline semaphores"},
    {"no memory", PRETEND(.no_local_memory = true), .reason = "memory types cannot be"},
    {"queues that only copy", PRETEND(.family_flags = VR_VK_QUEUE_TRANSFER),
     .reason = "no queue for compute"},
    {"families without queues", PRETEND(.families = no_compute, .family_count = 2),
     .reason = "no queue for compute"},
    {"small allocations", PRETEND(.max_allocation_bytes = 4096), .reason = "allocates no memory"},
    {"more types than there can be",
     MEMORY(VR_VK_MEMORY_TYPES + 1, LOCAL | VISIBLE | COHERENT, 0, 1)},
    {"more heaps than there can be", MEMORY(1, LOCAL | VISIBLE | COHERENT, 0, UINT32_MAX)},
    {"a type in a heap that is not there", MEMORY(1, LOCAL | VISIBLE | COHERENT, 1, 1)},
    {"memory out of sight", MEMORY(1, LOCAL, 0, 1)},
    {"memory to be flushed", MEMORY(1, LOCAL | VISIBLE, 0, 1)},
    {"no addresses", PRETEND(.no_addresses = true), .lacks = VRAM_CAP_KERNELS},
    {"a budget", PRETEND(.budget = true, .budget_bytes = VR_GIB), .has = VRAM_CAP_MEMORY_INFO},
    {"the host's memory", PRETEND(.integrated = true), .has = VRAM_CAP_INTEGRATED},
    {"a place on the bus", PRETEND(.pci = true), .unknown = PCI_UNKNOWN},
    {"longer lists meanwhile", PRETEND(.incomplete = true)},
    {"longer lists than room", PRETEND(.more_extensions = true)},
    {"no extensions", PRETEND(.no_extensions = true)},
    {"memory that is not exported", PRETEND(.no_export = true)},
    {"memory that is not imported", PRETEND(.no_import = true)},
    {"words of a group only", PRETEND(.no_device_scope = true)},
    {"buffers of any alignment", PRETEND(.no_align = true)},
};

static const vram_kernel_source kernel = {.size = sizeof kernel,
                                          .format = VRAM_KERNEL_SPIRV,
                                          .code = device_code_spirv,
                                          .code_bytes = sizeof device_code_spirv,
                                          .entry = "vram_check_scale"};

const struct driver driver_vulkan = {.name = "vulkan",
                                     .option = "vulkan_library",
                                     .library = SHIM_VULKAN_PATH,
                                     .entries = entries,
                                     .entry_count = COUNT_OF(entries),
                                     .statuses = statuses,
                                     .excuses = excuses,
                                     .excuse_count = COUNT_OF(excuses),
                                     .answers = answers,
                                     .answer_count = COUNT_OF(answers),
                                     .lies = lies,
                                     .lie_count = COUNT_OF(lies),
                                     .sample = "vkCreateShaderModule",
                                     .each = each,
                                     .manners = manners,
                                     .manner_count = COUNT_OF(manners),
                                     .usual_manners = COUNT_OF(manners),
                                     .slow = true,
                                     .kernel = &kernel,
                                     .load = load,
                                     .reset = reset,
                                     .set = set,
                                     .plan = plan,
                                     .hide = hide,
                                     .hold = hold,
                                     .struck = struck,
                                     .last_call = last_call,
                                     .live = live,
                                     .wrong = wrong};
