/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_memory.c: heaps and their buffers, pinned memory, and the working set.
 *
 *  (1) Metal allocates more memory than the device can keep resident, and work that uses it fails
 *      later. So an allocation beyond the recommended working set is refused here, where the
 *      failure can be reported.
 *  (2) A record is given back after its window is closed, and is type-stable: a look-up that runs
 *      meanwhile finds an old buffer or none.
 */
#include "backend/metal/metal_backend.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/stable.h"
#include "base/window.h"

static struct vr_stable record_memory = VR_STABLE_INIT(struct vr_metal_memory);

enum {
    PRIVATE_TRACKED = VR_MTL_PRIVATE << VR_MTL_STORAGE_SHIFT | VR_MTL_TRACKED
                                                                   << VR_MTL_HAZARDS_SHIFT,
    SHARED_TRACKED = VR_MTL_SHARED << VR_MTL_STORAGE_SHIFT | VR_MTL_TRACKED << VR_MTL_HAZARDS_SHIFT
};

static void object_release(const struct vr_metal_api *api, vr_mtl_id object) {
    if (object) {
        VR_SEND0(api, release, object);
    }
}

/* -------------------------------------------------------------- working set */

/* Several threads may be here at once and each find enough left: the working set is a
   recommendation, not a limit. */
static uint64_t working_set_left(const struct vr_metal_device *metal) {
    uint64_t all = VR_SEND0(metal->api, working_set, metal->device);
    uint64_t used = VR_SEND0(metal->api, allocated_size, metal->device);
    return used < all ? all - used : 0;
}

vram_status vr_metal_memory_info(struct vr_device *device, vram_value *free, vram_value *total) {
    const struct vr_metal_device *metal = device->impl;
    uint64_t all = VR_SEND0(metal->api, working_set, metal->device);
    *free = (vram_value){working_set_left(metal), all != 0};
    *total = (vram_value){all, all != 0};
    return VRAM_OK;
}

/* ------------------------------------------------------------ device memory */

static vram_status heap_make(struct vr_metal_device *metal, uint64_t bytes, vr_mtl_id *heap) {
    const struct vr_metal_api *api = metal->api;
    vr_mtl_id class = api->objc_getClass("MTLHeapDescriptor");
    vr_mtl_id descriptor = class ? VR_SEND0(api, create, class) : NULL;
    if (!descriptor) {
        return vr_metal_nil(VRAM_ERR_HOST_MEMORY, "MTLHeapDescriptor");
    }
    struct vr_mtl_size_and_align fit =
        VR_SEND(api, heap_fit, metal->device, bytes, (unsigned long)PRIVATE_TRACKED);
    VR_SEND(api, set_size, descriptor, fit.size > bytes ? fit.size : bytes);
    VR_SEND(api, set_storage, descriptor, (unsigned long)VR_MTL_PRIVATE);
    VR_SEND(api, set_type, descriptor, (long)VR_MTL_PLACEMENT);
    VR_SEND(api, set_hazards, descriptor, (unsigned long)VR_MTL_TRACKED);
    *heap = VR_SEND(api, heap_create, metal->device, descriptor);
    VR_SEND0(api, release, descriptor);
    return *heap ? VRAM_OK : vr_metal_nil(VRAM_ERR_DEVICE_MEMORY, "newHeapWithDescriptor:");
}

static vram_status memory_make(struct vr_metal_device *metal, uint64_t bytes,
                               struct vr_metal_memory *memory) {
    const struct vr_metal_api *api = metal->api;
    if (bytes > working_set_left(metal)) { /* keeps (1) */
        return vr_error_set(VRAM_ERR_DEVICE_MEMORY, "metal", "recommendedMaxWorkingSetSize", 0,
                            "%llu bytes more would pass what the device can keep in memory",
                            (unsigned long long)bytes);
    }
    vram_status status = heap_make(metal, bytes, &memory->heap);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mtl_id buffer =
        VR_SEND(api, heap_buffer, memory->heap, bytes, (unsigned long)PRIVATE_TRACKED, 0ul);
    if (!buffer) {
        return vr_metal_nil(VRAM_ERR_DEVICE_MEMORY, "newBufferWithLength:options:offset:");
    }
    vr_store(&memory->bytes, bytes, VR_RELEASE);
    vr_store(&memory->address, metal->addresses ? VR_SEND0(api, gpu_address, buffer) : 0,
             VR_RELEASE);
    vr_store(&memory->buffer, buffer, VR_RELEASE);
    return VRAM_OK;
}

static struct vr_metal_memory *record_take(const char *operation) {
    struct vr_metal_memory *memory = vr_stable_take(&record_memory, operation);
    if (memory) {
        memory->heap = NULL;
        memory->link = (struct vr_link){NULL, NULL};
        vr_store(&memory->buffer, NULL, VR_RELEASE);
    }
    return memory;
}

static void memory_end(const struct vr_metal_api *api, struct vr_metal_memory *memory) {
    vr_mtl_id buffer = vr_load(&memory->buffer, VR_RELAXED), heap = memory->heap;
    vr_store(&memory->buffer, NULL, VR_RELEASE);
    vr_stable_give(&record_memory, memory);
    object_release(api, buffer);
    object_release(api, heap);
}

vram_status vr_metal_memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_metal_device *metal = device->impl;
    struct vr_metal_memory *memory = record_take("metal_memory_alloc");
    if (!memory) {
        return VRAM_ERR_HOST_MEMORY;
    }
    void *pool = metal->api->objc_autoreleasePoolPush();
    vram_status status = memory_make(metal, bytes, memory);
    if (status == VRAM_OK) {
        status =
            vr_window_open(bytes, VR_METAL_GRANULE, memory, "metal_memory_alloc", &memory->addr);
    }
    if (status == VRAM_OK) {
        *addr = memory->addr;
    } else {
        memory_end(metal->api, memory);
    }
    metal->api->objc_autoreleasePoolPop(pool);
    return status;
}

vram_status vr_metal_memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_metal_device *metal = device->impl;
    uint64_t offset;
    struct vr_metal_memory *memory = vr_window_find(addr, &offset);
    if (!memory || offset) {
        return vr_error_set(VRAM_ERR_INVALID, "metal", "memory_free", 0,
                            "no memory of Metal's begins at 0x%llx", (unsigned long long)addr);
    }
    vr_window_close(addr, bytes); /* keeps (2) */
    void *pool = metal->api->objc_autoreleasePoolPush();
    memory_end(metal->api, memory);
    metal->api->objc_autoreleasePoolPop(pool);
    return VRAM_OK;
}

/* The window is looked up before and after, so that the fields read in between belong together;
   keeps (2). */
static bool window_location(vram_addr addr, struct vr_metal_location *location) {
    uint64_t offset = 0, again = 0;
    struct vr_metal_memory *memory = vr_window_find(addr, &offset);
    if (!memory) {
        return false;
    }
    uint64_t address = vr_load(&memory->address, VR_ACQUIRE);
    *location = (struct vr_metal_location){.buffer = vr_load(&memory->buffer, VR_ACQUIRE),
                                           .offset = offset,
                                           .bytes = vr_load(&memory->bytes, VR_ACQUIRE),
                                           .address = address ? address + offset : 0};
    return location->buffer && vr_window_find(addr, &again) == memory && again == offset;
}

static vram_status memory_native(struct vr_device *device, vram_addr addr, uint64_t bytes,
                                 struct vr_native *native) {
    struct vr_metal_location location;
    (void)bytes; /* a block is the heap's buffer and an offset */
    (void)device;
    if (!window_location(addr, &location)) {
        return vr_error_set(VRAM_ERR_INVALID, "metal", "memory_native", 0,
                            "no memory of Metal's lies at 0x%llx", (unsigned long long)addr);
    }
    *native = (struct vr_native){.handle = location.buffer,
                                 .offset = location.offset,
                                 .bytes = location.bytes,
                                 .device_address = {location.address, location.address != 0}};
    return VRAM_OK;
}

/* ------------------------------------------------------------ pinned memory */

vram_status vr_metal_shared_buffer_make(struct vr_metal_device *metal, uint64_t bytes,
                                        const char *operation, vr_mtl_id *buffer, void **contents) {
    vr_mtl_id made =
        VR_SEND(metal->api, buffer_create, metal->device, bytes, (unsigned long)SHARED_TRACKED);
    void *memory = made ? VR_SEND0(metal->api, contents, made) : NULL;
    if (!memory) {
        object_release(metal->api, made);
        return vr_metal_nil(VRAM_ERR_HOST_MEMORY, operation);
    }
    *buffer = made;
    *contents = memory;
    return VRAM_OK;
}

static vram_status pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_metal_device *metal = device->impl;
    void *contents = NULL;
    struct vr_metal_memory *memory = record_take("metal_pinned_alloc");
    if (!memory) {
        return VRAM_ERR_HOST_MEMORY;
    }
    void *pool = metal->api->objc_autoreleasePoolPush();
    vr_mtl_id buffer = NULL;
    vram_status status = vr_metal_shared_buffer_make(
        metal, bytes, "newBufferWithLength:options:", &buffer, &contents);
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
        memory_end(metal->api, memory);
    }
    metal->api->objc_autoreleasePoolPop(pool);
    return status;
}

/* The pinned memory that contains an address, with the lock held. */
static struct vr_metal_memory *pinned_find(struct vr_metal_device *metal, vram_addr addr) {
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
    struct vr_metal_memory *memory = pinned_find(metal, addr);
    if (memory) {
        vr_link_remove(&memory->link);
    }
    vr_mutex_unlock(&metal->lock);
    if (!memory) {
        return vr_error_set(VRAM_ERR_INVALID, "metal", "pinned_free", 0,
                            "no pinned memory begins at 0x%llx", (unsigned long long)addr);
    }
    void *pool = metal->api->objc_autoreleasePoolPush();
    memory_end(metal->api, memory);
    metal->api->objc_autoreleasePoolPop(pool);
    return VRAM_OK;
}

bool vr_metal_location_find(struct vr_metal_device *metal, vram_addr addr,
                            struct vr_metal_location *location) {
    if (window_location(addr, location)) {
        return true;
    }
    vr_mutex_lock(&metal->lock);
    struct vr_metal_memory *memory = pinned_find(metal, addr);
    if (memory) {
        *location = (struct vr_metal_location){.buffer = vr_load(&memory->buffer, VR_RELAXED),
                                               .offset = addr - memory->addr};
    }
    vr_mutex_unlock(&metal->lock);
    return memory != NULL;
}

const struct vr_pinned_ops vr_metal_pinned_ops = {.alloc = pinned_alloc, .free = pinned_free};
const struct vr_handle_ops vr_metal_handle_ops = {.native = memory_native};
