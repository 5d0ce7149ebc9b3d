/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_memory.c: blocks, which are buffers bound whole to memory of their own; device and pinned
 * memory, which are blocks; and how much of it is free.
 *
 * Memory types are tried in an order of preference. The device's own memory is taken from types
 * that the host does not see first, since those that it does see may be a small window (a PCI BAR);
 * never from the host's heaps: a device that is full says so. Pinned memory is coherent, so that
 * nothing has to be flushed, and cached where there is such a type, since the host reads it.
 *
 * A driver may give out more than a heap has, and then fail or swap at a bad moment: what this
 * backend holds of each heap is counted against its size. Vulkan also bounds the number of
 * allocations.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/window.h"

static struct vr_stable block_memory = VR_STABLE_INIT(struct vr_vulkan_block);

/* -------------------------------------------------------------------- types */

enum {
    TYPE_FLAGS = VR_VK_MEMORY_DEVICE_LOCAL | VR_VK_MEMORY_HOST_VISIBLE |
                 VR_VK_MEMORY_HOST_COHERENT | VR_VK_MEMORY_HOST_CACHED
};

/* How gladly a type is taken, from 1 on; 0: never. Types with other flags are for special uses. */
static unsigned rank(uint32_t flags, enum vr_vulkan_use use) {
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
static uint32_t order_types(const struct vr_vk_memory_properties *memory, uint32_t allowed,
                            enum vr_vulkan_use use, uint32_t types[VR_VK_MEMORY_TYPES]) {
    uint32_t count = 0;
    for (unsigned wanted = 4; wanted > 0; wanted--) {
        for (uint32_t i = 0; i < memory->type_count; i++) {
            if (allowed >> i & 1 && rank(memory->types[i].flags, use) == wanted) {
                types[count++] = i;
            }
        }
    }
    return count;
}

/* --------------------------------------------------------------- allocations */

static vram_status charge_heap(struct vr_vulkan_physical *physical, uint32_t heap, uint64_t bytes,
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

static vram_status charge_count(struct vr_vulkan_device *device) {
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

static void uncharge(struct vr_vulkan_device *device, const struct vr_vulkan_block *block) {
    vr_fetch_sub(&device->physical->heap_used[block->own.heap], block->own.held, VR_RELAXED);
    vr_fetch_sub(&device->allocations, 1, VR_RELAXED);
}

/* Takes `bytes` of one type. */
static vram_status allocate(struct vr_vulkan_device *device, struct vr_vulkan_block *block,
                            uint64_t bytes, uint32_t type, vram_status exhausted) {
    struct vr_vk_allocate_flags flags = {.head = {VR_VK_TYPE_ALLOCATE_FLAGS, NULL},
                                         .flags = VR_VK_ALLOCATE_ADDRESS};
    const struct vr_vk_allocate_info info = {
        .head = {VR_VK_TYPE_ALLOCATE, device->addresses ? &flags : NULL},
        .bytes = bytes,
        .type = type};
    block->own.heap = device->physical->memory.types[type].heap;
    block->own.held = bytes;
    vram_status status = charge_heap(device->physical, block->own.heap, bytes, exhausted);
    if (status != VRAM_OK) {
        return status;
    }
    status = charge_count(device);
    if (status != VRAM_OK) {
        vr_fetch_sub(&device->physical->heap_used[block->own.heap], bytes, VR_RELAXED);
        return status;
    }
    status = vr_vulkan_device_check(
        device, "vkAllocateMemory",
        device->api.vkAllocateMemory(device->handle, &info, NULL, &block->own.memory), exhausted);
    if (status == VRAM_OK && !block->own.memory) {
        status = vr_vulkan_lied("vkAllocateMemory", 0);
    }
    if (status != VRAM_OK) {
        block->own.memory = NULL;
        uncharge(device, block);
    }
    return status;
}

/* Takes memory of the best type that has some. */
static vram_status allocate_best(struct vr_vulkan_device *device, struct vr_vulkan_block *block,
                                 const struct vr_vk_requirements *needs, uint64_t extra,
                                 enum vr_vulkan_use use) {
    vram_status exhausted =
        use == VR_VULKAN_ON_DEVICE ? VRAM_ERR_DEVICE_MEMORY : VRAM_ERR_HOST_MEMORY;
    uint32_t types[VR_VK_MEMORY_TYPES], count;
    uint64_t bytes;
    count = order_types(&device->physical->memory, needs->types, use, types);
    if (!count || !vr_add(needs->bytes, extra, &bytes)) {
        return vr_vulkan_lied("vkGetBufferMemoryRequirements", needs->types);
    }
    vram_status status = exhausted;
    for (uint32_t i = 0; i < count && status == exhausted; i++) {
        status = allocate(device, block, bytes, types[i], exhausted);
    }
    return status;
}

static void give_memory(struct vr_vulkan_device *device, struct vr_vulkan_block *block) {
    device->api.vkFreeMemory(device->handle, block->own.memory, NULL); /* which unmaps it */
    block->own.memory = NULL;
    uncharge(device, block);
}

/* ------------------------------------------------------------------- blocks */

static vram_status make_buffer(struct vr_vulkan_device *device, struct vr_vulkan_block *block) {
    const struct vr_vk_buffer_info info = {
        .head = {VR_VK_TYPE_BUFFER, NULL},
        .bytes = block->own.bytes,
        .usage = VR_VK_USAGE_TRANSFER_FROM | VR_VK_USAGE_TRANSFER_TO | VR_VK_USAGE_UNIFORM |
                 VR_VK_USAGE_STORAGE | VR_VK_USAGE_INDEX | VR_VK_USAGE_VERTEX |
                 VR_VK_USAGE_INDIRECT | (device->addresses ? VR_VK_USAGE_ADDRESS : 0u),
        .sharing = device->family_count > 1 ? VR_VK_SHARING_CONCURRENT : VR_VK_SHARING_EXCLUSIVE,
        .family_count = device->family_count > 1 ? device->family_count : 0,
        .families = device->families};
    vram_status status =
        VR_VULKAN(device, vkCreateBuffer, device->handle, &info, NULL, &block->own.buffer);
    if (status == VRAM_OK && !block->own.buffer) {
        status = vr_vulkan_lied("vkCreateBuffer", 0);
    }
    return status;
}

/* Maps the block's memory. *shift is where the buffer has to begin to lie on a page boundary. */
static vram_status map(struct vr_vulkan_device *device, struct vr_vulkan_block *block,
                       uint64_t *shift) {
    void *pointer = NULL;
    vram_status status = vr_vulkan_device_check(
        device, "vkMapMemory",
        device->api.vkMapMemory(device->handle, block->own.memory, 0, VR_VK_WHOLE, 0, &pointer),
        VRAM_ERR_HOST_MEMORY);
    if (status == VRAM_OK && !pointer) {
        status = vr_vulkan_lied("vkMapMemory", 0);
    }
    if (status == VRAM_OK) {
        uint64_t page = vr_os_page_bytes(), rest = (uintptr_t)pointer % page;
        *shift = rest ? page - rest : 0;
        block->own.mapped = (char *)pointer + *shift;
    }
    return status;
}

/* Mapped memory begins where the driver likes. When that is inside a page, a page more is taken. */
static vram_status bind_on_host(struct vr_vulkan_device *device, struct vr_vulkan_block *block,
                                const struct vr_vk_requirements *needs, uint64_t *shift) {
    vram_status status = allocate_best(device, block, needs, 0, VR_VULKAN_ON_HOST);
    if (status == VRAM_OK) {
        status = map(device, block, shift);
    }
    if (status != VRAM_OK || *shift == 0) {
        return status;
    }
    give_memory(device, block);
    status = allocate_best(device, block, needs, vr_os_page_bytes(), VR_VULKAN_ON_HOST);
    if (status == VRAM_OK) {
        status = map(device, block, shift);
    }
    if (status == VRAM_OK && needs->align && *shift % needs->align) {
        status = vr_vulkan_lied("vkMapMemory", (uintptr_t)block->own.mapped - *shift);
    }
    return status;
}

static vram_status bind(struct vr_vulkan_device *device, struct vr_vulkan_block *block,
                        enum vr_vulkan_use use) {
    struct vr_vk_requirements needs = {0};
    uint64_t shift = 0;
    device->api.vkGetBufferMemoryRequirements(device->handle, block->own.buffer, &needs);
    if (needs.bytes < block->own.bytes) {
        return vr_vulkan_lied("vkGetBufferMemoryRequirements", needs.bytes);
    }
    vram_status status = use == VR_VULKAN_ON_HOST ? bind_on_host(device, block, &needs, &shift)
                                                  : allocate_best(device, block, &needs, 0, use);
    if (status == VRAM_OK) {
        status = VR_VULKAN(device, vkBindBufferMemory, device->handle, block->own.buffer,
                           block->own.memory, shift);
    }
    return status;
}

struct vr_vulkan_block *vr_vulkan_block_take(uint64_t bytes) {
    struct vr_vulkan_block *block = vr_stable_take(&block_memory, "vulkan_alloc");
    if (block) {
        block->own = (struct vr_vulkan_owned){.bytes = bytes};
    }
    return block;
}

vram_status vr_vulkan_block_make(struct vr_vulkan_device *device, uint64_t bytes,
                                 enum vr_vulkan_use use, struct vr_vulkan_block **made) {
    struct vr_vulkan_block *block = vr_vulkan_block_take(bytes);
    if (!block) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = make_buffer(device, block);
    if (status == VRAM_OK) {
        status = bind(device, block, use);
    }
    if (status == VRAM_OK && device->addresses && use == VR_VULKAN_ON_DEVICE) {
        const struct vr_vk_address_info info = {.head = {VR_VK_TYPE_ADDRESS, NULL},
                                                .buffer = block->own.buffer};
        block->own.address = device->api.vkGetBufferDeviceAddress(device->handle, &info);
        status = block->own.address ? VRAM_OK : vr_vulkan_lied("vkGetBufferDeviceAddress", 0);
    }
    if (status != VRAM_OK) {
        vr_vulkan_block_end(device, block, status == VRAM_ERR_DEVICE_LOST);
        return status;
    }
    *made = block;
    return VRAM_OK;
}

/* Also of a block that is half made. */
void vr_vulkan_block_end(struct vr_vulkan_device *device, struct vr_vulkan_block *block,
                         bool lost) {
    if (block->own.buffer && !lost) {
        device->api.vkDestroyBuffer(device->handle, block->own.buffer, NULL);
    }
    if (block->own.memory && !lost) {
        give_memory(device, block);
    } else if (block->own.memory) {
        uncharge(device, block);
    }
    vr_stable_give(&block_memory, block);
}

void vr_vulkan_block_show(struct vr_vulkan_device *device, struct vr_vulkan_block *block) {
    vr_store(&block->device, device, VR_RELEASE);
    vr_store(&block->buffer, block->own.buffer, VR_RELEASE);
    vr_store(&block->bytes, block->own.bytes, VR_RELEASE);
    vr_store(&block->address, block->own.address, VR_RELEASE);
}

/* What was read is true when the window is still the block's afterwards. */
vram_status vr_vulkan_find(const struct vr_vulkan_device *device, vram_addr addr,
                           const char *operation, struct vr_vulkan_place *place) {
    uint64_t offset = 0, again = 0;
    struct vr_vulkan_block *block = vr_window_find(addr, &offset);
    if (block && vr_load(&block->device, VR_ACQUIRE) == device) {
        uint64_t address = vr_load(&block->address, VR_ACQUIRE);
        struct vr_vulkan_place found = {.buffer = vr_load(&block->buffer, VR_ACQUIRE),
                                        .offset = offset,
                                        .bytes = vr_load(&block->bytes, VR_ACQUIRE),
                                        .address = address ? address + offset : 0};
        if (vr_window_find(addr, &again) == block && again == offset) {
            *place = found;
            return VRAM_OK;
        }
    }
    return vr_error_set(VRAM_ERR_INVALID, "vulkan", operation, 0,
                        "0x%llx is no memory that this backend gave; it has no VkBuffer",
                        (unsigned long long)addr);
}

/* ------------------------------------------------------------ device memory */

/* Costs microseconds or more and counts other processes too. Some drivers tell a budget beyond the
   heap, or a use beyond the budget. */
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

vram_status vr_vulkan_memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_vulkan_device *vulkan = device->impl;
    struct vr_vulkan_block *block;
    vram_status status = vr_vulkan_block_make(vulkan, bytes, VR_VULKAN_ON_DEVICE, &block);
    if (status != VRAM_OK) {
        return status;
    }
    vr_vulkan_block_show(vulkan, block);
    status = vr_window_open(bytes, VR_VULKAN_GRANULE, block, "vulkan_alloc", addr);
    if (status != VRAM_OK) {
        vram_error error;
        vr_error_save(&error);
        vr_vulkan_block_end(vulkan, block, false);
        vr_error_restore(&error);
    }
    return status;
}

/* The wrapper's caller owns the memory: nobody else ends the block meanwhile. */
vram_status vr_vulkan_memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_vulkan_device *vulkan = device->impl;
    uint64_t offset;
    struct vr_vulkan_block *block = vr_window_find(addr, &offset);
    if (!block) {
        return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vkFreeMemory", 0,
                            "0x%llx is no memory that this backend gave", (unsigned long long)addr);
    }
    vr_window_close(addr, bytes);
    vr_vulkan_block_end(vulkan, block, vr_load(&device->lost, VR_ACQUIRE));
    return VRAM_OK;
}

/* The buffer is the same for every block of a segment, and nothing has to be made: `bytes` does not
   matter. */
vram_status vr_vulkan_native(struct vr_device *device, vram_addr addr, uint64_t bytes,
                             struct vr_native *native) {
    struct vr_vulkan_place place;
    (void)bytes;
    vram_status status = vr_vulkan_find(device->impl, addr, "vram_native", &place);
    if (status == VRAM_OK) {
        native->handle = place.buffer;
        native->offset = place.offset;
        native->bytes = place.bytes;
        native->device_address = (vram_value){place.address, place.address != 0};
    }
    return status;
}

const struct vr_handle_ops vr_vulkan_handle_ops = {.native = vr_vulkan_native};

/* ------------------------------------------------------------ pinned memory */

static vram_status pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_vulkan_device *vulkan = device->impl;
    struct vr_vulkan_block *block;
    vram_status status = vr_vulkan_block_make(vulkan, bytes, VR_VULKAN_ON_HOST, &block);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&vulkan->lock);
    vr_list_append(&vulkan->pinned, &block->own.link);
    vr_mutex_unlock(&vulkan->lock);
    *addr = (uintptr_t)block->own.mapped;
    return VRAM_OK;
}

/* The block of the list that [host, host + bytes) lies in; the device is locked. */
static struct vr_vulkan_block *pinned_at(struct vr_vulkan_device *device, uint64_t at,
                                         uint64_t bytes) {
    struct vr_link *link = vr_list_first(&device->pinned);
    for (; link; link = vr_list_next(&device->pinned, link)) {
        struct vr_vulkan_block *block = vr_vulkan_block_of(link);
        if (vr_inside(at, bytes, (uintptr_t)block->own.mapped, block->own.bytes)) {
            return block;
        }
    }
    return NULL;
}

struct vr_vk_buffer *vr_vulkan_pinned_find(struct vr_vulkan_device *device, const void *host,
                                           uint64_t bytes, uint64_t *offset) {
    struct vr_vk_buffer *buffer = NULL;
    vr_mutex_lock(&device->lock);
    struct vr_vulkan_block *block = pinned_at(device, (uintptr_t)host, bytes);
    if (block) {
        buffer = block->own.buffer;
        *offset = (uintptr_t)host - (uintptr_t)block->own.mapped;
    }
    vr_mutex_unlock(&device->lock);
    return buffer;
}

static vram_status pinned_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_vulkan_device *vulkan = device->impl;
    vr_mutex_lock(&vulkan->lock);
    struct vr_vulkan_block *block = pinned_at(vulkan, addr, bytes);
    if (block) {
        vr_link_remove(&block->own.link);
    }
    vr_mutex_unlock(&vulkan->lock);
    if (!block) {
        return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vkFreeMemory", 0,
                            "0x%llx is no pinned memory", (unsigned long long)addr);
    }
    vr_vulkan_block_end(vulkan, block, vr_load(&device->lost, VR_ACQUIRE));
    return VRAM_OK;
}

const struct vr_pinned_ops vr_vulkan_pinned_ops = {.alloc = pinned_alloc, .free = pinned_free};
