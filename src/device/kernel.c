/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.c: loading code and launching it, on devices that have the kernel group.
 */
#include "device/objects.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "device/address.h"
#include "device/device_calls.h"
#include "device/ops.h"
#include "device/quiesce.h"

#include <string.h>

enum { ARGUMENTS_MAX = 32, ARGUMENT_BYTES_MAX = 4096 };

static void kernel_free(void *memory) {
    struct vr_kernel *kernel = memory;
    struct vr_device_object *device = kernel->device;
    if (kernel->impl) {
        vr_kernel_unload(&device->base, kernel->impl);
    }
    vr_mutex_lock(&device->lock);
    vr_link_remove(&kernel->link);
    vr_mutex_unlock(&device->lock);
    vr_mem_free(kernel);
    vr_leave(device);
}

static vram_status check_source(const struct vram_kernel_source *source) {
    if ((unsigned)source->format > VRAM_KERNEL_METAL) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a kernel format", (int)source->format);
    }
    if (!source->code || !source->entry || !*source->entry) {
        return vr_fail(VRAM_ERR_INVALID, "a kernel needs code and the name of its entry");
    }
    return VRAM_OK;
}

static vram_status kernel_make(struct vr_device_object *device,
                               const struct vram_kernel_source *source, vram_kernel **out) {
    struct vr_kernel *kernel = vr_mem_alloc(1, sizeof *kernel, vr_operation());
    if (!kernel) {
        return VRAM_ERR_HOST_MEMORY;
    }
    kernel->object.process = vr_os_process_generation();
    kernel->device = device;
    vr_handle_ref(device->object.handle);
    vram_status status = vr_kernel_load(&device->base, source, &kernel->impl);
    if (status == VRAM_OK) {
        status = vr_handle_publish(VR_KIND_KERNEL, kernel, kernel_free, &kernel->object.handle);
    }
    if (status != VRAM_OK) {
        kernel_free(kernel);
        return status;
    }
    uint64_t handle = kernel->object.handle;
    status = vr_device_list_child(device, &device->kernels, &kernel->link);
    if (status != VRAM_OK) {
        if (vr_handle_retire(handle)) {
            vr_handle_unpin(handle);
        }
        return status;
    }
    *out = (vram_kernel *)(uintptr_t)handle;
    return VRAM_OK;
}

vram_status vr_kernel_create(vram_device *handle, const vram_kernel_source *source,
                             vram_kernel **out) {
    VR_OPERATION("vram_kernel_create");
    struct vram_kernel_source taken;
    void *entered;
    if (!out || !source) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the source or the pointer that receives the kernel is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    if (!device->base.kernel) {
        status = vr_fail(VRAM_ERR_UNSUPPORTED, "%s device %u launches no kernels",
                         device->base.info.backend, device->base.index);
    } else if ((status = vr_options_take(&taken, sizeof taken, source)) == VRAM_OK &&
               (status = check_source(&taken)) == VRAM_OK) {
        status = kernel_make(device, &taken, out);
    }
    vr_leave(device);
    return status;
}

vram_status vram_kernel_create(vram_device *handle, const vram_kernel_source *source,
                               vram_kernel **out) {
    return vr_kernel_create(handle, source, out);
}

/* Unlisted before the owner's reference is dropped: what a closing device finds in the list has
   one. */
static vram_status kernel_end(void *object) {
    struct vr_kernel *kernel = object;
    vr_mutex_lock(&kernel->device->lock);
    vr_link_remove(&kernel->link);
    vr_mutex_unlock(&kernel->device->lock);
    return VRAM_OK;
}

vram_status vr_kernel_destroy(vram_kernel *handle) {
    VR_OPERATION("vram_kernel_destroy");
    return vr_object_destroy(VR_KIND_KERNEL, handle, kernel_end, NULL);
}

vram_status vram_kernel_destroy(vram_kernel *handle) {
    return vr_kernel_destroy(handle);
}

/* ----------------------------------------------------------------- launching */

static vram_status check_launch(const struct vram_launch *launch) {
    size_t total = 0;
    for (int axis = 0; axis < 3; axis++) {
        if (launch->groups[axis] == 0 || launch->group_size[axis] == 0) {
            return vr_fail(VRAM_ERR_INVALID, "groups and group sizes must be at least 1");
        }
    }
    if (launch->argument_count > ARGUMENTS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "%u arguments exceed the limit of %d",
                       launch->argument_count, ARGUMENTS_MAX);
    }
    if (launch->argument_count && (!launch->arguments || !launch->argument_bytes)) {
        return vr_fail(VRAM_ERR_INVALID, "the arguments or their sizes are NULL");
    }
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        size_t bytes = launch->argument_bytes[i];
        if (!launch->arguments[i] || bytes == 0 || bytes > ARGUMENT_BYTES_MAX - total) {
            return vr_fail(VRAM_ERR_INVALID,
                           "argument %u is NULL, is empty, or exceeds the total limit of %d bytes",
                           i, ARGUMENT_BYTES_MAX);
        }
        total += bytes;
    }
    for (uint32_t i = 0; i < 32; i++) {
        if (launch->address_mask >> i & 1 &&
            (i >= launch->argument_count || launch->argument_bytes[i] != sizeof(vram_addr))) {
            return vr_fail(VRAM_ERR_INVALID,
                           "address_mask names argument %u, which is not of 8 bytes", i);
        }
    }
    return VRAM_OK;
}

/* Checks an address argument of a kernel. Page-locked memory belongs to the host, and copies do not
   accept it as device memory; but a kernel can access it if the device's addresses are native. */
static vram_status check_address(struct vr_device_object *device, vram_addr addr) {
    struct vr_address_info place;
    bool pinned = device->base.info.caps & VRAM_CAP_TRUE_ADDRESS && vr_address_find(addr, &place) &&
                  place.device == device->object.handle && place.kind == VRAM_MEMORY_PINNED;
    return pinned ? VRAM_OK : vr_span_check(device, addr, 1);
}

/* The driver's name for the address, if it has one. Memory that is also the host's has none: its
   address is valid everywhere. */
static vram_status name_address(struct vr_device_object *device, vram_addr addr,
                                struct vr_native *native) {
    struct vr_address_info place;
    if (vr_address_find(addr, &place) && place.kind != VRAM_MEMORY_DEVICE) {
        *native = (struct vr_native){.device_address = {addr, true}};
        return VRAM_OK;
    }
    return vr_memory_native(&device->base, addr, vr_address_extent(addr), native);
}

/* Launches with every address checked and, on devices with handles, translated to the driver's
   names. */
static vram_status launch_named(struct vr_queue_object *queue, void *kernel,
                                const struct vram_launch *launch) {
    struct vr_native natives[ARGUMENTS_MAX];
    const void *arguments[ARGUMENTS_MAX];
    size_t bytes[ARGUMENTS_MAX];
    struct vram_launch named = *launch;
    bool handles = queue->device->base.handles != NULL;
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        arguments[i] = launch->arguments[i];
        bytes[i] = launch->argument_bytes[i];
        if (launch->address_mask >> i & 1) {
            vram_addr addr;
            memcpy(&addr, launch->arguments[i], sizeof addr);
            vram_status status = check_address(queue->device, addr);
            if (status == VRAM_OK && handles) {
                status = name_address(queue->device, addr, &natives[i]);
                arguments[i] = &natives[i];
                bytes[i] = sizeof natives[i];
            }
            if (status != VRAM_OK) {
                return status;
            }
        }
    }
    named.arguments = arguments;
    named.argument_bytes = bytes;
    return vr_queue_launch(&queue->base, kernel, &named);
}

vram_status vr_submit_launch(vram_queue *queue_handle, vram_kernel *kernel_handle,
                             const vram_launch *launch) {
    VR_OPERATION("vram_queue_launch");
    struct vram_launch taken;
    void *queue_entered, *kernel_entered;
    if (!launch) {
        return vr_fail(VRAM_ERR_INVALID, "the launch is NULL");
    }
    vram_status status = vr_submit_enter(queue_handle, &queue_entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_queue_object *queue = queue_entered;
    vr_quiesce_await(queue->device);
    status = vr_enter(VR_KIND_KERNEL, kernel_handle, &kernel_entered);
    if (status == VRAM_OK) {
        struct vr_kernel *kernel = kernel_entered;
        if (kernel->device != queue->device) {
            status = vr_fail(VRAM_ERR_INVALID,
                             "the kernel was loaded on another device than the queue's");
        } else if ((status = vr_options_take(&taken, sizeof taken, launch)) == VRAM_OK &&
                   (status = check_launch(&taken)) == VRAM_OK) {
            status = taken.address_mask ? launch_named(queue, kernel->impl, &taken)
                                        : vr_queue_launch(&queue->base, kernel->impl, &taken);
        }
        vr_leave(kernel);
    }
    vr_submit_leave(queue);
    return status;
}

vram_status vram_queue_launch(vram_queue *queue_handle, vram_kernel *kernel_handle,
                              const vram_launch *launch) {
    return vr_submit_launch(queue_handle, kernel_handle, launch);
}
