/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_device.c: heaps and what lies in them, pinned memory, and the working set.
 *
 *  (1) Metal gives memory beyond what the device can keep resident, and work that uses it fails
 *      later. So an allocation that would pass the recommended working set is refused here, where
 *      it can be told.
 *  (2) A record of memory is given back after its window has closed, and is type-stable: who looks
 *      an address up meanwhile finds an old buffer or none, and never anything else.
 */
#include "backend/metal/metal_backend.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/window.h"

static struct vr_stable records = VR_STABLE_INIT(struct vr_metal_memory);

enum {
    PRIVATE_TRACKED = VR_MTL_PRIVATE << VR_MTL_STORAGE_SHIFT | VR_MTL_TRACKED
                                                                   << VR_MTL_HAZARDS_SHIFT,
    SHARED_TRACKED = VR_MTL_SHARED << VR_MTL_STORAGE_SHIFT | VR_MTL_TRACKED << VR_MTL_HAZARDS_SHIFT
};

static void release(const struct vr_metal_api *api, vr_mtl_id object) {
    if (object) {
        VR_TELL(api, release, object);
    }
}

/* -------------------------------------------------------------- working set */

/* Several threads may pass here at once and each find room: the recommendation is one, not a
   limit. */
static uint64_t room(const struct vr_metal_device *metal) {
    uint64_t all = VR_TELL(metal->api, working_set, metal->device);
    uint64_t used = VR_TELL(metal->api, allocated_size, metal->device);
    return used < all ? all - used : 0;
}

static vram_status memory_info(struct vr_device *device, vram_value *free, vram_value *total) {
    const struct vr_metal_device *metal = device->impl;
    uint64_t all = VR_TELL(metal->api, working_set, metal->device);
    *free = (vram_value){room(metal), all != 0};
    *total = (vram_value){all, all != 0};
    return VRAM_OK;
}

/* ------------------------------------------------------------ device memory */

static vram_status make_heap(struct vr_metal_device *metal, uint64_t bytes, vr_mtl_id *heap) {
    const struct vr_metal_api *api = metal->api;
    vr_mtl_id class = api->objc_getClass("MTLHeapDescriptor");
    vr_mtl_id descriptor = class ? VR_TELL(api, create, class) : NULL;
    if (!descriptor) {
        return vr_metal_nothing(VRAM_ERR_HOST_MEMORY, "MTLHeapDescriptor");
    }
    struct vr_mtl_size_and_align fit =
        VR_SEND(api, heap_fit, metal->device, bytes, (unsigned long)PRIVATE_TRACKED);
    VR_SEND(api, set_size, descriptor, fit.size > bytes ? fit.size : bytes);
    VR_SEND(api, set_storage, descriptor, (unsigned long)VR_MTL_PRIVATE);
    VR_SEND(api, set_type, descriptor, (long)VR_MTL_PLACEMENT);
    VR_SEND(api, set_hazards, descriptor, (unsigned long)VR_MTL_TRACKED);
    *heap = VR_SEND(api, heap_create, metal->device, descriptor);
    VR_TELL(api, release, descriptor);
    return *heap ? VRAM_OK : vr_metal_nothing(VRAM_ERR_DEVICE_MEMORY, "newHeapWithDescriptor:");
}

static vram_status make_memory(struct vr_metal_device *metal, uint64_t bytes,
                               struct vr_metal_memory *memory) {
    const struct vr_metal_api *api = metal->api;
    if (bytes > room(metal)) { /* keeps (1) */
        return vr_error_set(VRAM_ERR_DEVICE_MEMORY, "metal", "recommendedMaxWorkingSetSize", 0,
                            "%llu bytes more would pass what the device can keep in memory",
                            (unsigned long long)bytes);
    }
    vram_status status = make_heap(metal, bytes, &memory->heap);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mtl_id buffer =
        VR_SEND(api, heap_buffer, memory->heap, bytes, (unsigned long)PRIVATE_TRACKED, 0ul);
    if (!buffer) {
        return vr_metal_nothing(VRAM_ERR_DEVICE_MEMORY, "newBufferWithLength:options:offset:");
    }
    vr_store(&memory->bytes, bytes, VR_RELEASE);
    vr_store(&memory->address, metal->addresses ? VR_TELL(api, gpu_address, buffer) : 0,
             VR_RELEASE);
    vr_store(&memory->buffer, buffer, VR_RELEASE);
    return VRAM_OK;
}

static struct vr_metal_memory *take_record(const char *operation) {
    struct vr_metal_memory *memory = vr_stable_take(&records, operation);
    if (memory) {
        memory->heap = NULL;
        memory->link = (struct vr_link){NULL, NULL};
        vr_store(&memory->buffer, NULL, VR_RELEASE);
    }
    return memory;
}

static void end_memory(const struct vr_metal_api *api, struct vr_metal_memory *memory) {
    vr_mtl_id buffer = vr_load(&memory->buffer, VR_RELAXED), heap = memory->heap;
    vr_store(&memory->buffer, NULL, VR_RELEASE);
    vr_stable_give(&records, memory);
    release(api, buffer);
    release(api, heap);
}

static vram_status memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_metal_device *metal = device->impl;
    struct vr_metal_memory *memory = take_record("metal_memory_alloc");
    if (!memory) {
        return VRAM_ERR_HOST_MEMORY;
    }
    void *pool = metal->api->objc_autoreleasePoolPush();
    vram_status status = make_memory(metal, bytes, memory);
    if (status == VRAM_OK) {
        status =
            vr_window_open(bytes, VR_METAL_GRANULE, memory, "metal_memory_alloc", &memory->addr);
    }
    if (status == VRAM_OK) {
        *addr = memory->addr;
    } else {
        end_memory(metal->api, memory);
    }
    metal->api->objc_autoreleasePoolPop(pool);
    return status;
}

static vram_status memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_metal_device *metal = device->impl;
    uint64_t offset;
    struct vr_metal_memory *memory = vr_window_find(addr, &offset);
    if (!memory || offset) {
        return vr_error_set(VRAM_ERR_INVALID, "metal", "memory_free", 0,
                            "no memory of Metal's begins at 0x%llx", (unsigned long long)addr);
    }
    vr_window_close(addr, bytes); /* keeps (2) */
    void *pool = metal->api->objc_autoreleasePoolPush();
    end_memory(metal->api, memory);
    metal->api->objc_autoreleasePoolPop(pool);
    return VRAM_OK;
}

/* Read between two looks, so that what was found belongs together; keeps (2). */
static bool find_window(vram_addr addr, struct vr_metal_span *span) {
    uint64_t offset = 0, again = 0;
    struct vr_metal_memory *memory = vr_window_find(addr, &offset);
    if (!memory) {
        return false;
    }
    uint64_t address = vr_load(&memory->address, VR_ACQUIRE);
    *span = (struct vr_metal_span){.buffer = vr_load(&memory->buffer, VR_ACQUIRE),
                                   .offset = offset,
                                   .bytes = vr_load(&memory->bytes, VR_ACQUIRE),
                                   .address = address ? address + offset : 0};
    return span->buffer && vr_window_find(addr, &again) == memory && again == offset;
}

static vram_status memory_native(struct vr_device *device, vram_addr addr, uint64_t bytes,
                                 struct vr_native *native) {
    struct vr_metal_span span;
    (void)bytes; /* a block is the heap's buffer and an offset */
    (void)device;
    if (!find_window(addr, &span)) {
        return vr_error_set(VRAM_ERR_INVALID, "metal", "memory_native", 0,
                            "no memory of Metal's lies at 0x%llx", (unsigned long long)addr);
    }
    *native = (struct vr_native){.handle = span.buffer,
                                 .offset = span.offset,
                                 .bytes = span.bytes,
                                 .device_address = {span.address, span.address != 0}};
    return VRAM_OK;
}

/* ------------------------------------------------------------ pinned memory */

vram_status vr_metal_shared(struct vr_metal_device *metal, uint64_t bytes, const char *operation,
                            vr_mtl_id *buffer, void **contents) {
    vr_mtl_id made =
        VR_SEND(metal->api, buffer_create, metal->device, bytes, (unsigned long)SHARED_TRACKED);
    void *memory = made ? VR_TELL(metal->api, contents, made) : NULL;
    if (!memory) {
        release(metal->api, made);
        return vr_metal_nothing(VRAM_ERR_HOST_MEMORY, operation);
    }
    *buffer = made;
    *contents = memory;
    return VRAM_OK;
}

static vram_status pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_metal_device *metal = device->impl;
    void *contents = NULL;
    struct vr_metal_memory *memory = take_record("metal_pinned_alloc");
    if (!memory) {
        return VRAM_ERR_HOST_MEMORY;
    }
    void *pool = metal->api->objc_autoreleasePoolPush();
    vr_mtl_id buffer = NULL;
    vram_status status =
        vr_metal_shared(metal, bytes, "newBufferWithLength:options:", &buffer, &contents);
    vr_store(&memory->buffer, buffer, VR_RELEASE);
    vr_store(&memory->bytes, bytes, VR_RELEASE);
    if (status == VRAM_OK && (uintptr_t)contents % vr_os_page_bytes()) {
        status = vr_error_set(VRAM_ERR_CORRUPT, "metal", "contents", 0,
                              "shared memory begins inside a page");
    }
    if (status == VRAM_OK) {
        *addr = memory->addr = (uintptr_t)contents;
        vr_mutex_lock(&metal->lock);
        vr_list_append(&metal->pinned, &memory->link);
        vr_mutex_unlock(&metal->lock);
    } else {
        end_memory(metal->api, memory);
    }
    metal->api->objc_autoreleasePoolPop(pool);
    return status;
}

/* The pinned memory that an address lies in, with the lock held. */
static struct vr_metal_memory *find_pinned(struct vr_metal_device *metal, vram_addr addr) {
    for (struct vr_link *link = vr_list_first(&metal->pinned); link;
         link = vr_list_next(&metal->pinned, link)) {
        struct vr_metal_memory *memory = VR_CONTAINER(link, struct vr_metal_memory, link);
        if (addr >= memory->addr && addr - memory->addr < vr_load(&memory->bytes, VR_RELAXED)) {
            return memory;
        }
    }
    return NULL;
}

static vram_status pinned_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_metal_device *metal = device->impl;
    (void)bytes;
    vr_mutex_lock(&metal->lock);
    struct vr_metal_memory *memory = find_pinned(metal, addr);
    if (memory) {
        vr_link_remove(&memory->link);
    }
    vr_mutex_unlock(&metal->lock);
    if (!memory) {
        return vr_error_set(VRAM_ERR_INVALID, "metal", "pinned_free", 0,
                            "no pinned memory begins at 0x%llx", (unsigned long long)addr);
    }
    void *pool = metal->api->objc_autoreleasePoolPush();
    end_memory(metal->api, memory);
    metal->api->objc_autoreleasePoolPop(pool);
    return VRAM_OK;
}

bool vr_metal_find(struct vr_metal_device *metal, vram_addr addr, struct vr_metal_span *span) {
    if (find_window(addr, span)) {
        return true;
    }
    vr_mutex_lock(&metal->lock);
    struct vr_metal_memory *memory = find_pinned(metal, addr);
    if (memory) {
        *span = (struct vr_metal_span){.buffer = vr_load(&memory->buffer, VR_RELAXED),
                                       .offset = addr - memory->addr};
    }
    vr_mutex_unlock(&metal->lock);
    return memory != NULL;
}

/* ---------------------------------------------------------- opening, closing */

/* Objects are given back on a lost device too: that is bookkeeping of this process, and no call of
   the device's. */
static void device_close(struct vr_device *device) {
    struct vr_metal_device *metal = device->impl;
    void *pool = metal->api->objc_autoreleasePoolPush();
    vr_metal_tools_end(metal);
    VR_TELL(metal->api, release, metal->device);
    metal->api->objc_autoreleasePoolPop(pool);
    vr_mutex_destroy(&metal->lock);
    vr_mem_free(metal);
    device->impl = NULL;
}

static const struct vr_device_ops device_ops = {
    .close = device_close,
    .memory_info = memory_info,
    .alloc = memory_alloc,
    .free = memory_free,
};

static const struct vr_pinned_ops pinned_ops = {.alloc = pinned_alloc, .free = pinned_free};
static const struct vr_handle_ops handle_ops = {.native = memory_native};

/* Buffers tell their address on newer systems; the one that is asked is made for it. */
static bool tells_addresses(struct vr_metal_device *metal) {
    vr_mtl_id buffer;
    void *contents;
    struct vram_error error;
    vr_error_save(&error);
    if (vr_metal_shared(metal, VR_METAL_GRANULE, "gpuAddress", &buffer, &contents) != VRAM_OK) {
        vr_error_restore(&error);
        return false;
    }
    bool tells = VR_SEND(metal->api, responds, buffer, metal->api->selectors[VR_METAL_gpu_address]);
    VR_TELL(metal->api, release, buffer);
    return tells;
}

static vram_status open_device(struct vr_metal_device *metal, const struct vr_metal *backend,
                               uint32_t index) {
    vr_mtl_id found = vr_metal_device_at(backend, index);
    if (!found) {
        return VRAM_ERR_NO_DEVICE;
    }
    metal->device = VR_TELL(metal->api, retain, found);
    vram_status status = vr_metal_tools_make(metal);
    if (status != VRAM_OK) {
        VR_TELL(metal->api, release, metal->device);
        return status;
    }
    metal->addresses = tells_addresses(metal);
    return VRAM_OK;
}

vram_status vr_metal_device_open(struct vr_device *device) {
    const struct vr_metal *backend = device->backend->impl;
    struct vr_metal_device *metal = vr_mem_alloc(1, sizeof *metal, "metal_device_open");
    if (!metal) {
        return VRAM_ERR_HOST_MEMORY;
    }
    metal->api = &backend->api;
    vr_mutex_init(&metal->lock, VR_RANK_BACKEND);
    vr_list_init(&metal->pinned);
    void *pool = metal->api->objc_autoreleasePoolPush();
    vram_status status = open_device(metal, backend, device->index);
    metal->api->objc_autoreleasePoolPop(pool);
    if (status != VRAM_OK) {
        vr_mutex_destroy(&metal->lock);
        vr_mem_free(metal);
        return status;
    }
    device->impl = metal;
    device->ops = &device_ops;
    device->queue_ops = &vr_metal_queue_ops;
    device->pinned = &pinned_ops;
    device->kernel = &vr_metal_kernel_ops;
    device->handles = &handle_ops;
    return VRAM_OK;
}
