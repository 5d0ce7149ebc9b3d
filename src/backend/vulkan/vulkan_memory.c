/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_memory.c: allocations, which are buffers bound to memory of their own; device and pinned
 * memory, and how much of it is free.
 *
 * Memory types are tried in an order of preference. Device memory is taken first from types that
 * the host cannot map, because mappable ones may be a small window (a PCI BAR). It is never taken
 * from the host's heaps: a device that is full says so. Pinned memory is coherent, so that nothing
 * has to be flushed, and cached if there is such a type, because the host reads it.
 *
 * A driver may allocate more than a heap has, and then fail or swap later: so the memory that this
 * backend uses of each heap is counted against its size. Vulkan also limits the number of
 * allocations.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/stable.h"
#include "base/window.h"

static struct vr_stable record_memory = VR_STABLE_INIT(struct vr_vulkan_memory);

/* -------------------------------------------------------------------- types */

enum {
    TYPE_FLAGS = VR_VK_MEMORY_DEVICE_LOCAL | VR_VK_MEMORY_HOST_VISIBLE |
                 VR_VK_MEMORY_HOST_COHERENT | VR_VK_MEMORY_HOST_CACHED
};

/* The preference of a type, from 1 on; 0: never. Types with other flags are for special uses. */
static unsigned type_rank(uint32_t flags, enum vr_vulkan_memory_kind use) {
    bool local = flags & VR_VK_MEMORY_DEVICE_LOCAL, visible = flags & VR_VK_MEMORY_HOST_VISIBLE;
    if (flags & ~(uint32_t)TYPE_FLAGS) {
        return 0;
    }
    if (use == VR_VULKAN_ON_DEVICE) {
        return !local ? 0 : visible ? 1 : 2;
    }
    if (!visible || !(flags & VR_VK_MEMORY_HOST_COHERENT)) {
        return 0;
    }
    return 1 + (flags & VR_VK_MEMORY_HOST_CACHED ? 2 : 0) + (local ? 0 : 1);
}

/* The types of `allowed` (bits), best first. */
static uint32_t types_order(const struct vr_vk_memory_properties *memory, uint32_t allowed,
                            enum vr_vulkan_memory_kind use, uint32_t types[VR_VK_MEMORY_TYPES]) {
    uint32_t count = 0;
    for (unsigned wanted = 4; wanted > 0; wanted--) {
        for (uint32_t i = 0; i < memory->type_count; i++) {
            if (allowed >> i & 1 && type_rank(memory->types[i].flags, use) == wanted) {
                types[count++] = i;
            }
        }
    }
    return count;
}

/* --------------------------------------------------------------- allocations */

static vram_status heap_charge(struct vr_vulkan_physical *physical, uint32_t heap, uint64_t bytes,
                               vram_status exhausted) {
    uint64_t most = physical->memory.heaps[heap].bytes;
    uint64_t used = vr_load(&physical->heap_used[heap], VR_RELAXED);
    do {
        if (bytes > most || used > most - bytes) {
            return vr_error_set(
                exhausted, "vulkan", "vkAllocateMemory", VR_VK_OUT_OF_DEVICE_MEMORY,
                "heap %u of %s has %llu bytes, of which %llu are held: %llu more do "
                "not fit",
                heap, physical->properties.name, (unsigned long long)most, (unsigned long long)used,
                (unsigned long long)bytes);
        }
    } while (!vr_cas_weak(&physical->heap_used[heap], &used, used + bytes, VR_RELAXED));
    return VRAM_OK;
}

static vram_status allocation_count_charge(struct vr_vulkan_device *device) {
    uint64_t most = device->physical->properties.limits.max_allocations;
    if (vr_fetch_add(&device->allocations, 1, VR_RELAXED) < most) {
        return VRAM_OK;
    }
    vr_fetch_sub(&device->allocations, 1, VR_RELAXED);
    return vr_error_set(VRAM_ERR_LIMIT, "vulkan", "vkAllocateMemory", VR_VK_TOO_MANY_OBJECTS,
                        "the driver allows %llu allocations at a time (maxMemoryAllocationCount); "
                        "a pool takes few large ones",
                        (unsigned long long)most);
}

static void memory_uncharge(struct vr_vulkan_device *device,
                            const struct vr_vulkan_memory *memory) {
    vr_fetch_sub(&device->physical->heap_used[memory->own.heap], memory->own.held, VR_RELAXED);
    vr_fetch_sub(&device->allocations, 1, VR_RELAXED);
}

struct external_chain {
    struct vr_vk_dedicated dedicated;
    struct vr_vk_export exported;
    struct vr_vk_import_fd imported;
};

/* What is told of memory for other processes, before `next`. It belongs to its one buffer on both
   sides, which some drivers need, and which the two sides must agree on. */
static void *external_chain(const struct vr_vulkan_memory *memory, void *next,
                            struct external_chain *chain) {
    if (!memory->own.external) {
        return next;
    }
    chain->dedicated = (struct vr_vk_dedicated){.head = {VR_VK_TYPE_DEDICATED, next},
                                                .buffer = memory->own.buffer};
    if (memory->own.import_from) {
        chain->imported =
            (struct vr_vk_import_fd){.head = {VR_VK_TYPE_IMPORT_FD, &chain->dedicated},
                                     .handle_type = VR_VK_OPAQUE_FD,
                                     .fd = *memory->own.import_from};
        return &chain->imported;
    }
    chain->exported = (struct vr_vk_export){.head = {VR_VK_TYPE_EXPORT, &chain->dedicated},
                                            .handle_types = VR_VK_OPAQUE_FD};
    return &chain->exported;
}

/* Allocates `bytes` of one type. */
static vram_status memory_allocate(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory,
                                   uint64_t bytes, uint32_t type, vram_status exhausted) {
    struct vr_vk_allocate_flags flags = {.head = {VR_VK_TYPE_ALLOCATE_FLAGS, NULL},
                                         .flags = VR_VK_ALLOCATE_ADDRESS};
    struct external_chain chain;
    const struct vr_vk_allocate_info info = {
        .head = {VR_VK_TYPE_ALLOCATE,
                 external_chain(memory, device->addresses ? &flags : NULL, &chain)},
        .bytes = bytes,
        .type = type};
    memory->own.heap = device->physical->memory.types[type].heap;
    memory->own.held = memory->own.import_from ? 0 : bytes; /* its own process counts it */
    vram_status status =
        heap_charge(device->physical, memory->own.heap, memory->own.held, exhausted);
    if (status != VRAM_OK) {
        return status;
    }
    status = allocation_count_charge(device);
    if (status != VRAM_OK) {
        vr_fetch_sub(&device->physical->heap_used[memory->own.heap], memory->own.held, VR_RELAXED);
        return status;
    }
    status = vr_vulkan_device_check(
        device, "vkAllocateMemory",
        device->api.vkAllocateMemory(device->handle, &info, NULL, &memory->own.memory), exhausted);
    if (status == VRAM_OK && !memory->own.memory) {
        status = vr_vulkan_bad_result("vkAllocateMemory", 0);
    }
    if (status == VRAM_OK && memory->own.import_from) {
        *memory->own.import_from = -1;
    }
    if (status != VRAM_OK) {
        memory->own.memory = NULL;
        memory_uncharge(device, memory);
    }
    return status;
}

/* Allocates memory of the best type that has some. */
static vram_status memory_allocate_best(struct vr_vulkan_device *device,
                                        struct vr_vulkan_memory *memory,
                                        const struct vr_vk_requirements *needs, uint64_t extra,
                                        enum vr_vulkan_memory_kind use) {
    vram_status exhausted =
        use == VR_VULKAN_ON_DEVICE ? VRAM_ERR_DEVICE_MEMORY : VRAM_ERR_HOST_MEMORY;
    uint32_t types[VR_VK_MEMORY_TYPES], count;
    uint64_t bytes;
    count = types_order(&device->physical->memory, needs->types, use, types);
    if (!count || !vr_add(needs->bytes, extra, &bytes)) {
        return vr_vulkan_bad_result("vkGetBufferMemoryRequirements", needs->types);
    }
    if (memory->own.external) {
        count = 1; /* an importer has to use the same type, and does not know which it was */
    }
    vram_status status = exhausted;
    for (uint32_t i = 0; i < count && status == exhausted; i++) {
        status = memory_allocate(device, memory, bytes, types[i], exhausted);
    }
    return status;
}

static void memory_release(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory) {
    device->api.vkFreeMemory(device->handle, memory->own.memory, NULL); /* this also unmaps it */
    memory->own.memory = NULL;
    memory_uncharge(device, memory);
}

/* -------------------------------------------------------- buffers with memory */

uint32_t vr_vulkan_usage(bool addresses) {
    return VR_VK_USAGE_TRANSFER_FROM | VR_VK_USAGE_TRANSFER_TO | VR_VK_USAGE_UNIFORM |
           VR_VK_USAGE_STORAGE | VR_VK_USAGE_INDEX | VR_VK_USAGE_VERTEX | VR_VK_USAGE_INDIRECT |
           (addresses ? VR_VK_USAGE_ADDRESS : 0u);
}

static vram_status buffer_make(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory) {
    struct vr_vk_external_buffer_made external = {.head = {VR_VK_TYPE_EXTERNAL_BUFFER_MADE, NULL},
                                                  .handle_types = VR_VK_OPAQUE_FD};
    const struct vr_vk_buffer_info info = {
        .head = {VR_VK_TYPE_BUFFER, memory->own.external ? &external : NULL},
        .bytes = memory->own.bytes,
        .usage = vr_vulkan_usage(device->addresses),
        .sharing = device->family_count > 1 ? VR_VK_SHARING_CONCURRENT : VR_VK_SHARING_EXCLUSIVE,
        .family_count = device->family_count > 1 ? device->family_count : 0,
        .families = device->families};
    vram_status status =
        VR_VULKAN(device, vkCreateBuffer, device->handle, &info, NULL, &memory->own.buffer);
    if (status == VRAM_OK && !memory->own.buffer) {
        status = vr_vulkan_bad_result("vkCreateBuffer", 0);
    }
    return status;
}

/* Maps the memory. *shift is the offset of the first page boundary, where the buffer has to
   begin. */
static vram_status memory_map(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory,
                              uint64_t *shift) {
    void *pointer = NULL;
    vram_status status = vr_vulkan_device_check(
        device, "vkMapMemory",
        device->api.vkMapMemory(device->handle, memory->own.memory, 0, VR_VK_WHOLE, 0, &pointer),
        VRAM_ERR_HOST_MEMORY);
    if (status == VRAM_OK && !pointer) {
        status = vr_vulkan_bad_result("vkMapMemory", 0);
    }
    if (status == VRAM_OK) {
        uint64_t page = vr_os_page_bytes(), rest = (uintptr_t)pointer % page;
        *shift = rest ? page - rest : 0;
        memory->own.mapped = (char *)pointer + *shift;
    }
    return status;
}

/* The driver chooses where mapped memory begins. If that is inside a page, one page more is
   allocated. */
static vram_status memory_bind_on_host(struct vr_vulkan_device *device,
                                       struct vr_vulkan_memory *memory,
                                       const struct vr_vk_requirements *needs, uint64_t *shift) {
    vram_status status = memory_allocate_best(device, memory, needs, 0, VR_VULKAN_ON_HOST);
    if (status == VRAM_OK) {
        status = memory_map(device, memory, shift);
    }
    if (status != VRAM_OK || *shift == 0) {
        return status;
    }
    memory_release(device, memory);
    status = memory_allocate_best(device, memory, needs, vr_os_page_bytes(), VR_VULKAN_ON_HOST);
    if (status == VRAM_OK) {
        status = memory_map(device, memory, shift);
    }
    if (status == VRAM_OK && needs->align && *shift % needs->align) {
        status = vr_vulkan_bad_result("vkMapMemory", (uintptr_t)memory->own.mapped - *shift);
    }
    return status;
}

static vram_status memory_bind(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory,
                               enum vr_vulkan_memory_kind use) {
    struct vr_vk_requirements needs = {0};
    uint64_t shift = 0;
    device->api.vkGetBufferMemoryRequirements(device->handle, memory->own.buffer, &needs);
    if (needs.bytes < memory->own.bytes) {
        return vr_vulkan_bad_result("vkGetBufferMemoryRequirements", needs.bytes);
    }
    if (memory->own.external && needs.bytes != memory->own.bytes) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "vulkan", "vkGetBufferMemoryRequirements", 0,
                            "the driver needs %llu bytes for a buffer of %llu: the other process "
                            "could not know that",
                            (unsigned long long)needs.bytes, (unsigned long long)memory->own.bytes);
    }
    vram_status status = use == VR_VULKAN_ON_HOST
                             ? memory_bind_on_host(device, memory, &needs, &shift)
                             : memory_allocate_best(device, memory, &needs, 0, use);
    if (status == VRAM_OK) {
        status = VR_VULKAN(device, vkBindBufferMemory, device->handle, memory->own.buffer,
                           memory->own.memory, shift);
    }
    return status;
}

struct vr_vulkan_memory *vr_vulkan_memory_take(uint64_t bytes) {
    struct vr_vulkan_memory *memory = vr_stable_take(&record_memory, "vulkan_alloc");
    if (memory) {
        memory->own = (struct vr_vulkan_owned){.bytes = bytes};
    }
    return memory;
}

/* Gives a new record its buffer and memory, or ends it. */
static vram_status memory_fill(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory,
                               enum vr_vulkan_memory_kind use, struct vr_vulkan_memory **made) {
    vram_status status = buffer_make(device, memory);
    if (status == VRAM_OK) {
        status = memory_bind(device, memory, use);
    }
    if (status == VRAM_OK && device->addresses && use == VR_VULKAN_ON_DEVICE) {
        const struct vr_vk_address_info info = {.head = {VR_VK_TYPE_ADDRESS, NULL},
                                                .buffer = memory->own.buffer};
        memory->own.address = device->api.vkGetBufferDeviceAddress(device->handle, &info);
        status =
            memory->own.address ? VRAM_OK : vr_vulkan_bad_result("vkGetBufferDeviceAddress", 0);
    }
    if (status != VRAM_OK) {
        vr_vulkan_memory_end(device, memory, status == VRAM_ERR_DEVICE_LOST);
        return status;
    }
    *made = memory;
    return VRAM_OK;
}

vram_status vr_vulkan_memory_make(struct vr_vulkan_device *device, uint64_t bytes,
                                  enum vr_vulkan_memory_kind use, struct vr_vulkan_memory **made) {
    struct vr_vulkan_memory *memory = vr_vulkan_memory_take(bytes);
    return memory ? memory_fill(device, memory, use, made) : VRAM_ERR_HOST_MEMORY;
}

vram_status vr_vulkan_memory_make_external(struct vr_vulkan_device *device, uint64_t bytes,
                                           int *import_from, struct vr_vulkan_memory **made) {
    struct vr_vulkan_memory *memory = vr_vulkan_memory_take(bytes);
    if (!memory) {
        return VRAM_ERR_HOST_MEMORY;
    }
    memory->own.external = true;
    memory->own.import_from = import_from;
    return memory_fill(device, memory, VR_VULKAN_ON_DEVICE, made);
}

/* Accepts half-built records. */
void vr_vulkan_memory_end(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory,
                          bool lost) {
    if (memory->own.buffer && !lost) {
        device->api.vkDestroyBuffer(device->handle, memory->own.buffer, NULL);
    }
    if (memory->own.memory && !lost) {
        memory_release(device, memory);
    } else if (memory->own.memory) {
        memory_uncharge(device, memory);
    }
    vr_stable_give(&record_memory, memory);
}

void vr_vulkan_memory_show(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory) {
    vr_store(&memory->device, device, VR_RELEASE);
    vr_store(&memory->buffer, memory->own.buffer, VR_RELEASE);
    vr_store(&memory->bytes, memory->own.bytes, VR_RELEASE);
    vr_store(&memory->address, memory->own.address, VR_RELEASE);
}

/* The values are valid if the window still belongs to the record afterwards. */
vram_status vr_vulkan_find(const struct vr_vulkan_device *device, vram_addr addr,
                           const char *operation, struct vr_vulkan_location *location) {
    uint64_t offset = 0, again = 0;
    struct vr_vulkan_memory *memory = vr_window_find(addr, &offset);
    if (memory && vr_load(&memory->device, VR_ACQUIRE) == device) {
        uint64_t address = vr_load(&memory->address, VR_ACQUIRE);
        struct vr_vulkan_location found = {.buffer = vr_load(&memory->buffer, VR_ACQUIRE),
                                           .offset = offset,
                                           .bytes = vr_load(&memory->bytes, VR_ACQUIRE),
                                           .address = address ? address + offset : 0};
        if (vr_window_find(addr, &again) == memory && again == offset) {
            *location = found;
            return VRAM_OK;
        }
    }
    return vr_error_set(VRAM_ERR_INVALID, "vulkan", operation, 0,
                        "0x%llx is no memory that this backend gave; it has no VkBuffer",
                        (unsigned long long)addr);
}

/* ------------------------------------------------------------ device memory */

/* Takes microseconds or more and includes other processes. Some drivers report a budget larger than
   the heap, or a usage larger than the budget. */
vram_status vr_vulkan_memory_info(struct vr_device *device, vram_value *free, vram_value *total) {
    struct vr_vulkan_device *vulkan = device->impl;
    struct vr_vk_budget budget = {.head = {VR_VK_TYPE_BUDGET, NULL}};
    struct vr_vk_memory_properties_2 memory = {.head = {VR_VK_TYPE_MEMORY_PROPERTIES, &budget}};
    uint64_t free_bytes = 0, total_bytes = device->info.memory_bytes.value;
    vulkan->api.vkGetPhysicalDeviceMemoryProperties2(vulkan->physical->handle, &memory);
    for (uint32_t i = 0; i < vulkan->physical->memory.heap_count; i++) {
        const struct vr_vk_heap *heap = &vulkan->physical->memory.heaps[i];
        if (heap->flags & VR_VK_HEAP_DEVICE_LOCAL && heap->bytes == total_bytes) {
            uint64_t most = budget.budget[i] < heap->bytes ? budget.budget[i] : heap->bytes;
            free_bytes = most > budget.usage[i] ? most - budget.usage[i] : 0;
        }
    }
    *free = (vram_value){free_bytes, true};
    *total = (vram_value){total_bytes, true};
    return VRAM_OK;
}

vram_status vr_vulkan_memory_publish(struct vr_vulkan_device *device,
                                     struct vr_vulkan_memory *memory, vram_addr *addr) {
    vr_vulkan_memory_show(device, memory);
    vram_status status =
        vr_window_open(memory->own.bytes, VR_VULKAN_GRANULE, memory, "vulkan_alloc", addr);
    if (status != VRAM_OK) {
        vram_error error;
        vr_error_save(&error);
        vr_vulkan_memory_end(device, memory, false);
        vr_error_restore(&error);
    }
    return status;
}

vram_status vr_vulkan_memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_vulkan_device *vulkan = device->impl;
    struct vr_vulkan_memory *memory;
    vram_status status = vr_vulkan_memory_make(vulkan, bytes, VR_VULKAN_ON_DEVICE, &memory);
    return status == VRAM_OK ? vr_vulkan_memory_publish(vulkan, memory, addr) : status;
}

/* The caller owns the memory: no other thread frees it meanwhile. */
vram_status vr_vulkan_memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_vulkan_device *vulkan = device->impl;
    uint64_t offset;
    struct vr_vulkan_memory *memory = vr_window_find(addr, &offset);
    if (!memory) {
        return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vkFreeMemory", 0,
                            "0x%llx is no memory that this backend gave", (unsigned long long)addr);
    }
    vr_window_close(addr, bytes);
    vr_vulkan_memory_end(vulkan, memory, vr_load(&device->lost, VR_ACQUIRE));
    return VRAM_OK;
}

/* The buffer is the same for every block of a segment, and nothing has to be created: `bytes` does
   not matter. */
vram_status vr_vulkan_native(struct vr_device *device, vram_addr addr, uint64_t bytes,
                             struct vr_native *native) {
    struct vr_vulkan_location location;
    (void)bytes;
    vram_status status = vr_vulkan_find(device->impl, addr, "vram_native", &location);
    if (status == VRAM_OK) {
        native->handle = location.buffer;
        native->offset = location.offset;
        native->bytes = location.bytes;
        native->device_address = (vram_value){location.address, location.address != 0};
    }
    return status;
}

const struct vr_handle_ops vr_vulkan_handle_ops = {.native = vr_vulkan_native};

/* ------------------------------------------------------------ pinned memory */

static vram_status pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_vulkan_device *vulkan = device->impl;
    struct vr_vulkan_memory *memory;
    vram_status status = vr_vulkan_memory_make(vulkan, bytes, VR_VULKAN_ON_HOST, &memory);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&vulkan->lock);
    vr_list_append(&vulkan->pinned, &memory->own.link);
    vr_mutex_unlock(&vulkan->lock);
    *addr = (uintptr_t)memory->own.mapped;
    return VRAM_OK;
}

/* The pinned memory that contains [at, at + bytes); the device is locked. */
static struct vr_vulkan_memory *pinned_at(struct vr_vulkan_device *device, uint64_t at,
                                          uint64_t bytes) {
    struct vr_link *link = vr_list_first(&device->pinned);
    for (; link; link = vr_list_next(&device->pinned, link)) {
        struct vr_vulkan_memory *memory = vr_vulkan_memory_of(link);
        if (vr_inside(at, bytes, (uintptr_t)memory->own.mapped, memory->own.bytes)) {
            return memory;
        }
    }
    return NULL;
}

struct vr_vk_buffer *vr_vulkan_pinned_find(struct vr_vulkan_device *device, const void *host,
                                           uint64_t bytes, uint64_t *offset) {
    struct vr_vk_buffer *buffer = NULL;
    vr_mutex_lock(&device->lock);
    struct vr_vulkan_memory *memory = pinned_at(device, (uintptr_t)host, bytes);
    if (memory) {
        buffer = memory->own.buffer;
        *offset = (uintptr_t)host - (uintptr_t)memory->own.mapped;
    }
    vr_mutex_unlock(&device->lock);
    return buffer;
}

static vram_status pinned_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_vulkan_device *vulkan = device->impl;
    vr_mutex_lock(&vulkan->lock);
    struct vr_vulkan_memory *memory = pinned_at(vulkan, addr, bytes);
    if (memory) {
        vr_link_remove(&memory->own.link);
    }
    vr_mutex_unlock(&vulkan->lock);
    if (!memory) {
        return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vkFreeMemory", 0,
                            "0x%llx is no pinned memory", (unsigned long long)addr);
    }
    vr_vulkan_memory_end(vulkan, memory, vr_load(&device->lost, VR_ACQUIRE));
    return VRAM_OK;
}

const struct vr_pinned_ops vr_vulkan_pinned_ops = {.alloc = pinned_alloc, .free = pinned_free};
