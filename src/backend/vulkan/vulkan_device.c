/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_device.c: logical devices and their native queues.
 *
 * All handles that a context has on one physical device share one logical device, because
 * semaphores, and so waits between queues, work only within one. A lost device stays with the
 * handles that use it; the next handle gets a new one.
 *
 * A device that the library creates has native queues of one family only, so that buffers belong to
 * that family and need not be shared. A family for compute without graphics is preferred, because
 * programs that draw do not use it. Buffers of an adopted device may be used on all of its
 * families.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/memory.h"

/* ------------------------------------------------------------ native queues */

static void native_queue_init(struct vr_vulkan_device *device, struct vr_vk_queue *handle,
                              uint32_t family, const struct vram_vulkan_queue *adopted) {
    struct vr_vulkan_native_queue *native_queue =
        &device->native_queues[device->native_queue_count++];
    uint32_t flags = device->physical->families[family].flags;
    native_queue->handle = handle;
    native_queue->family = family;
    native_queue->compute = (flags & VR_VK_QUEUE_COMPUTE) != 0;
    if (adopted) {
        native_queue->user_lock = adopted->lock;
        native_queue->user_unlock = adopted->unlock;
        native_queue->user = adopted->user;
    }
    vr_mutex_init(&native_queue->lock, VR_RANK_QUEUE);
}

/* The program's lock is taken first: the caller may already hold it, if it is recursive. */
void vr_vulkan_native_queue_lock(struct vr_vulkan_native_queue *native_queue) {
    if (native_queue->user_lock) {
        native_queue->user_lock(native_queue->user);
    }
    vr_mutex_lock(&native_queue->lock);
}

void vr_vulkan_native_queue_unlock(struct vr_vulkan_native_queue *native_queue) {
    vr_mutex_unlock(&native_queue->lock);
    if (native_queue->user_unlock) {
        native_queue->user_unlock(native_queue->user);
    }
}

/* ------------------------------------------------------------------- making */

/* The family for devices that the library creates; a device without one was left out. */
static uint32_t family_choose(const struct vr_vulkan_physical *physical) {
    uint32_t any = 0;
    for (uint32_t i = physical->family_count; i-- > 0;) {
        uint32_t flags = physical->families[i].flags;
        if (!(flags & VR_VK_QUEUE_COMPUTE) || !physical->families[i].count) {
            continue;
        }
        if (!(flags & VR_VK_QUEUE_GRAPHICS)) {
            return i;
        }
        any = i;
    }
    return any;
}

static vram_status device_make_native(struct vr_vulkan_device *device) {
    struct vr_vulkan_physical *physical = device->physical;
    static const float priorities[VR_VULKAN_NATIVE_QUEUES] = {0};
    const char *extensions[2];
    uint32_t extension_count = 0;
    uint32_t family = family_choose(physical), count = physical->families[family].count;
    const struct vr_vk_device_queue_info queues = {
        .head = {VR_VK_TYPE_DEVICE_QUEUE, NULL},
        .family = family,
        .count = count < VR_VULKAN_NATIVE_QUEUES ? count : VR_VULKAN_NATIVE_QUEUES,
        .priorities = priorities};
    if (physical->budget) {
        extensions[extension_count++] = VR_VK_EXT_BUDGET;
    }
    if (physical->external_fd) {
        extensions[extension_count++] = VR_VK_EXT_FD;
    }
    const struct vr_vk_device_info info = {.head = {VR_VK_TYPE_DEVICE, &physical->features},
                                           .queue_count = 1,
                                           .queues = &queues,
                                           .extension_count = extension_count,
                                           .extensions = extensions};
    vram_status status =
        vr_vulkan_check("vkCreateDevice",
                        device->api.vkCreateDevice(physical->handle, &info, NULL, &device->handle),
                        VRAM_ERR_DEVICE_MEMORY);
    if (status == VRAM_OK && !device->handle) {
        status = vr_vulkan_bad_result("vkCreateDevice", 0);
    }
    if (status == VRAM_OK) {
        status = vr_vulkan_device_functions_load(device);
    }
    for (uint32_t i = 0; status == VRAM_OK && i < queues.count; i++) {
        struct vr_vk_queue *queue = NULL;
        device->api.vkGetDeviceQueue(device->handle, family, i, &queue);
        if (queue) {
            native_queue_init(device, queue, family, NULL);
        } else {
            status = vr_vulkan_bad_result("vkGetDeviceQueue", 0);
        }
    }
    device->families[0] = family;
    device->family_count = 1;
    return status;
}

static vram_status device_adopt_native(struct vr_vulkan_device *device) {
    const struct vram_vulkan_adoption *adopted = &device->backend->adopted;
    device->handle = adopted->device;
    vram_status status = vr_vulkan_device_functions_load(device);
    for (uint32_t i = 0; status == VRAM_OK && i < adopted->queue_count; i++) {
        const struct vram_vulkan_queue *queue = &adopted->queues[i];
        native_queue_init(device, queue->queue, queue->family, queue);
    }
    device->family_count = device->physical->family_count;
    for (uint32_t i = 0; i < device->family_count; i++) {
        device->families[i] = i;
    }
    return status;
}

/* No call is made on a lost device, so it and the instance are not destroyed; the same applies if
   the driver has no function to destroy it. */
static void device_end(struct vr_vulkan_device *device, bool lost) {
    bool own = device->handle && !device->backend->adopted.device;
    if (own && !lost &&
        device->api.vkDeviceWaitIdle) { /* submissions that have signalled may not have ended yet */
        (void)device->api.vkDeviceWaitIdle(device->handle);
    }
    vr_vulkan_staging_end(device, lost);
    vr_vulkan_timelines_end(device, lost);
    if (own && !lost && device->api.vkDestroyDevice) {
        device->api.vkDestroyDevice(device->handle, NULL);
    } else if (own) {
        vr_store(&device->backend->keep_instance, true, VR_RELEASE);
    }
    for (uint32_t i = 0; i < device->native_queue_count; i++) {
        vr_mutex_destroy(&device->native_queues[i].lock);
    }
    vr_mutex_destroy(&device->lock);
    vr_mem_free(device);
}

static vram_status device_make(struct vr_vulkan *backend, struct vr_vulkan_physical *physical,
                               struct vr_vulkan_device **made) {
    struct vr_vulkan_device *device = vr_mem_alloc(1, sizeof *device, "vulkan_device_open");
    if (!device) {
        return VRAM_ERR_HOST_MEMORY;
    }
    device->backend = backend;
    device->physical = physical;
    device->api = backend->api;
    device->addresses = physical->addresses;
    device->users = 1;
    vr_list_init(&device->pinned);
    vr_list_init(&device->staging);
    vr_list_init(&device->pages);
    vr_mutex_init(&device->lock, VR_RANK_BACKEND);
    vram_status status =
        backend->adopted.device ? device_adopt_native(device) : device_make_native(device);
    if (status != VRAM_OK) {
        vram_error error;
        vr_error_save(&error);
        device_end(device, vr_load(&device->lost, VR_ACQUIRE));
        vr_error_restore(&error);
        return status;
    }
    *made = device;
    return VRAM_OK;
}

/* ------------------------------------------------------------------ sharing */

/* The existing logical device, with one more user; NULL: none that works. */
static struct vr_vulkan_device *device_share(struct vr_vulkan *backend,
                                             const struct vr_vulkan_physical *physical) {
    struct vr_vulkan_device *found = NULL;
    vr_mutex_lock(&backend->lock);
    if (physical->open && !vr_load(&physical->open->lost, VR_ACQUIRE)) {
        found = physical->open;
        found->users++;
    }
    vr_mutex_unlock(&backend->lock);
    return found;
}

/* Publishes a new logical device; returns another thread's if that was first. */
static struct vr_vulkan_device *device_publish(struct vr_vulkan *backend,
                                               struct vr_vulkan_physical *physical,
                                               struct vr_vulkan_device *made) {
    struct vr_vulkan_device *earlier = device_share(backend, physical);
    if (earlier) {
        device_end(made, false);
        return earlier;
    }
    vr_mutex_lock(&backend->lock);
    physical->open = made;
    vr_mutex_unlock(&backend->lock);
    return made;
}

static void device_close(struct vr_device *device) {
    struct vr_vulkan_device *vulkan = device->impl;
    struct vr_vulkan *backend = vulkan->backend;
    vr_mutex_lock(&backend->lock);
    bool last = --vulkan->users == 0;
    if (last && vulkan->physical->open == vulkan) {
        vulkan->physical->open = NULL;
    }
    vr_mutex_unlock(&backend->lock);
    if (last) { /* its loss may have been told to another handle */
        device_end(vulkan,
                   vr_load(&device->lost, VR_ACQUIRE) || vr_load(&vulkan->lost, VR_ACQUIRE));
    }
    device->impl = NULL;
}

static const struct vr_device_ops device_ops = {
    .close = device_close,
    .memory_info = vr_vulkan_memory_info,
    .alloc = vr_vulkan_memory_alloc,
    .free = vr_vulkan_memory_free,
};

vram_status vr_vulkan_device_open(struct vr_device *device) {
    struct vr_vulkan *backend = device->backend->impl;
    struct vr_vulkan_physical *physical = &backend->physicals[device->index];
    struct vr_vulkan_device *vulkan = device_share(backend, physical);
    if (!vulkan) {
        vram_status status = device_make(backend, physical, &vulkan);
        if (status != VRAM_OK) {
            return status;
        }
        vulkan = device_publish(backend, physical, vulkan);
    }
    device->impl = vulkan;
    device->ops = &device_ops;
    device->queue_ops = &vr_vulkan_queue_ops;
    device->pinned = &vr_vulkan_pinned_ops;
    device->handles = &vr_vulkan_handle_ops;
    device->objects = backend->adopted.device ? &vr_vulkan_object_ops : NULL;
    device->share = vr_vulkan_can_share(vulkan, &device->no_share) ? &vr_vulkan_share_ops : NULL;
    device->driver_id = physical->driver_id;
    device->kernel = vulkan->addresses ? &vr_vulkan_kernel_ops : NULL;
    return VRAM_OK;
}
