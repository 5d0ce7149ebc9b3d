/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx.c: the memory extension of NVTX, as far as it is called here. The declarations follow
 * nvToolsExtMem.h and nvtxExtTypes.h; the tool fills a table of functions by their numbers.
 */
#include "track/nvtx.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/os/os.h"
#include "base/text.h"

#include <string.h>

/* ------------------------------------------------------------ declarations of NVTX */

enum {
    NVTX_VERSION = 3,
    MODULE_MEMORY = 1,
    MEMORY_VERSION = 0x0102, /* extCompatID of every struct */
    SEGMENT_ONE = 1,         /* the table's number; the extension has one table */
    SLOT_COUNT = 63,         /* functions in the table, most of them reserved */
    FIRST_ADDRESS = 16,      /* slots below this hold a state, not a function */

    USAGE_SUB_ALLOCATOR = 1, /* of a heap: only its regions may be accessed */
    TYPE_VIRTUAL_ADDRESS = 1,
    REFERENCE_POINTER = 1,
    MESSAGE_ASCII = 1,
};

enum slot {
    SLOT_HEAP_REGISTER = 0,
    SLOT_HEAP_UNREGISTER = 1,
    SLOT_REGIONS_REGISTER = 3,
    SLOT_REGIONS_RESIZE = 4,
    SLOT_REGIONS_UNREGISTER = 5,
    SLOT_REGIONS_NAME = 6,
};

struct module_segment {
    size_t id, slot_count;
    intptr_t *slots;
};

struct module_info {
    uint16_t nvtx_version, struct_size, module, compat;
    size_t segment_count;
    struct module_segment *segments;
    intptr_t (*get_export)(uint32_t id); /* not needed by this extension */
    const void *extra;
};

struct virtual_range {
    size_t size;
    const void *ptr;
};

struct heap_desc {
    uint16_t compat, struct_size;
    uint32_t reserved0;
    uint32_t usage, type;
    size_t range_size;
    const struct virtual_range *range;
    uint32_t category, message_type;
    const char *message;
};

struct regions_register {
    uint16_t compat, struct_size;
    uint32_t type;
    void *heap;
    size_t count, element_size;
    const struct virtual_range *elements;
    void **handles_out;
};

struct regions_resize {
    uint16_t compat, struct_size;
    uint32_t type;
    size_t count, element_size;
    const struct virtual_range *elements;
};

struct regions_unregister {
    uint16_t compat, struct_size;
    uint32_t reference_type;
    size_t count, element_size;
    const void *const *elements;
};

struct region_name {
    uint32_t reference_type, name_type;
    const void *region;
    const char *name;
    uint32_t category, reserved0;
};

struct regions_name {
    uint16_t compat, struct_size;
    uint32_t reserved0;
    size_t count, element_size;
    const struct region_name *elements;
    size_t reserved1;
};

/* The first argument is a domain; NULL is the default one, which is what a tool without domains
   gives. */
typedef int initialize_fn(struct module_info *info);
typedef void *heap_register_fn(void *domain, const struct heap_desc *desc);
typedef void heap_unregister_fn(void *domain, void *heap);
typedef void batch_fn(void *domain, const void *batch);

/* -------------------------------------------------------------------------- the tool */

static struct {
    struct vr_once once;
    bool wanted; /* written once */
    heap_register_fn *heap_register;
    heap_unregister_fn *heap_unregister;
    batch_fn *regions_register, *regions_resize, *regions_unregister, *regions_name;
} tool = {.once = VR_ONCE_INIT};

/* Stores a function of the tool's table; NULL where it has none. */
static void slot_take(const intptr_t *slots, enum slot slot, void *function) {
    intptr_t address = slots[slot] < FIRST_ADDRESS ? 0 : slots[slot];
    memcpy(function, &address, sizeof address);
}

static bool tool_attach(initialize_fn *initialize) {
    static intptr_t slots[SLOT_COUNT]; /* a tool may keep the pointer */
    struct module_segment segment = {SEGMENT_ONE, SLOT_COUNT, slots};
    struct module_info info = {.nvtx_version = NVTX_VERSION,
                               .struct_size = sizeof info,
                               .module = MODULE_MEMORY,
                               .compat = MEMORY_VERSION,
                               .segment_count = 1,
                               .segments = &segment};
    if (!initialize(&info)) {
        return false;
    }
    slot_take(slots, SLOT_HEAP_REGISTER, &tool.heap_register);
    slot_take(slots, SLOT_HEAP_UNREGISTER, &tool.heap_unregister);
    slot_take(slots, SLOT_REGIONS_REGISTER, &tool.regions_register);
    slot_take(slots, SLOT_REGIONS_RESIZE, &tool.regions_resize);
    slot_take(slots, SLOT_REGIONS_UNREGISTER, &tool.regions_unregister);
    slot_take(slots, SLOT_REGIONS_NAME, &tool.regions_name);
    return tool.heap_register && tool.heap_unregister && tool.regions_register &&
           tool.regions_resize && tool.regions_unregister;
}

static void tool_load(void) {
    char why[256] = "";
    const char *path = vr_os_environment("NVTX_INJECTION64_PATH");
    initialize_fn *initialize = NULL;
    if (!path || !*path) {
        return;
    }
    VR_UNCANCELLED;
    void *library = vr_os_library_open(path, why, sizeof why);
    void *found =
        library ? vr_os_library_symbol(library, "InitializeInjectionNvtxExtension") : NULL;
    if (!library) {
        vr_log(VRAM_LOG_WARN, "the tool that NVTX_INJECTION64_PATH names does not load: %s", why);
    }
    if (!found) { /* a tool without extensions */
        return;
    }
    memcpy(&initialize, &found, sizeof initialize);
    tool.wanted = tool_attach(initialize);
}

bool vr_nvtx_wanted(void) {
    vr_once(&tool.once, tool_load);
    return tool.wanted;
}

/* ------------------------------------------------------------------ heaps and blocks */

static const void *pointer_of(uint64_t addr) {
    return (const void *)(uintptr_t)addr;
}

uint64_t vr_nvtx_heap_begin(uint64_t addr, uint64_t bytes) {
    struct virtual_range range = {.size = bytes, .ptr = pointer_of(addr)};
    struct heap_desc desc = {.compat = MEMORY_VERSION,
                             .struct_size = sizeof desc,
                             .usage = USAGE_SUB_ALLOCATOR,
                             .type = TYPE_VIRTUAL_ADDRESS,
                             .range_size = sizeof range,
                             .range = &range};
    VR_UNCANCELLED;
    return vr_nvtx_wanted() ? (uint64_t)(uintptr_t)tool.heap_register(NULL, &desc) : 0;
}

void vr_nvtx_heap_end(uint64_t heap) {
    if (heap) {
        VR_UNCANCELLED;
        tool.heap_unregister(NULL, (void *)(uintptr_t)heap);
    }
}

/* Tools refuse names that are empty or not printable; such a block has none. */
static void block_name(uint64_t addr, const char *name) {
    struct region_name element = {.reference_type = REFERENCE_POINTER,
                                  .name_type = MESSAGE_ASCII,
                                  .region = pointer_of(addr),
                                  .name = name};
    struct regions_name batch = {.compat = MEMORY_VERSION,
                                 .struct_size = sizeof batch,
                                 .count = 1,
                                 .element_size = sizeof element,
                                 .elements = &element};
    if (!tool.regions_name || !*name) {
        return;
    }
    for (const char *at = name; *at; at++) {
        if (*at < ' ' || *at > '~') {
            return;
        }
    }
    tool.regions_name(NULL, &batch);
}

void vr_nvtx_block_begin(uint64_t heap, uint64_t addr, uint64_t bytes, const char *name) {
    struct virtual_range range = {.size = bytes, .ptr = pointer_of(addr)};
    struct regions_register batch = {.compat = MEMORY_VERSION,
                                     .struct_size = sizeof batch,
                                     .type = TYPE_VIRTUAL_ADDRESS,
                                     .heap = (void *)(uintptr_t)heap,
                                     .count = 1,
                                     .element_size = sizeof range,
                                     .elements = &range};
    VR_UNCANCELLED;
    tool.regions_register(NULL, &batch);
    if (name) {
        block_name(addr, name);
    }
}

void vr_nvtx_block_resize(uint64_t addr, uint64_t bytes) {
    struct virtual_range range = {.size = bytes, .ptr = pointer_of(addr)};
    struct regions_resize batch = {.compat = MEMORY_VERSION,
                                   .struct_size = sizeof batch,
                                   .type = TYPE_VIRTUAL_ADDRESS,
                                   .count = 1,
                                   .element_size = sizeof range,
                                   .elements = &range};
    VR_UNCANCELLED;
    tool.regions_resize(NULL, &batch);
}

void vr_nvtx_block_end(uint64_t addr) {
    const void *reference = pointer_of(addr);
    struct regions_unregister batch = {.compat = MEMORY_VERSION,
                                       .struct_size = sizeof batch,
                                       .reference_type = REFERENCE_POINTER,
                                       .count = 1,
                                       .element_size = sizeof reference,
                                       .elements = &reference};
    VR_UNCANCELLED;
    tool.regions_unregister(NULL, &batch);
}
