/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_queue.c: queues: creating, adopting, destroying.
 *
 * A queue is a timeline, a pool of command buffers and a native queue. Several queues share a
 * native queue if there are more of them than the driver has: a new queue goes to the one with the
 * fewest.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/memory.h"

#define FINISH_NS UINT64_C(60000000000) /* longest wait of a queue that is destroyed */
enum { FINISH_TRIES = 3 };              /* how often a refused wait is repeated */

/* ---------------------------------------------------------- making and ending */

/* The native queue with the fewest queues; one that runs kernels, if there is one. */
static struct vr_vulkan_native_queue *native_queue_choose(struct vr_vulkan_device *device) {
    struct vr_vulkan_native_queue *best = &device->native_queues[0];
    vr_mutex_lock(&device->lock);
    for (uint32_t i = 1; i < device->native_queue_count; i++) {
        struct vr_vulkan_native_queue *native_queue = &device->native_queues[i];
        if (native_queue->compute != best->compute ? native_queue->compute
                                                   : native_queue->users < best->users) {
            best = native_queue;
        }
    }
    best->users++;
    vr_mutex_unlock(&device->lock);
    return best;
}

static void native_queue_leave(struct vr_vulkan_device *device,
                               struct vr_vulkan_native_queue *native_queue) {
    vr_mutex_lock(&device->lock);
    native_queue->users--;
    vr_mutex_unlock(&device->lock);
}

static struct vr_vulkan_native_queue *native_queue_find(struct vr_vulkan_device *device,
                                                        const void *native) {
    for (uint32_t i = 0; i < device->native_queue_count; i++) {
        if ((void *)device->native_queues[i].handle == native) {
            vr_mutex_lock(&device->lock);
            device->native_queues[i].users++;
            vr_mutex_unlock(&device->lock);
            return &device->native_queues[i];
        }
    }
    return NULL;
}

static vram_status command_pool_make(struct vr_vulkan_queue *queue) {
    struct vr_vulkan_device *device = queue->device;
    const struct vr_vk_command_pool_info info = {.head = {VR_VK_TYPE_COMMAND_POOL, NULL},
                                                 .flags = VR_VK_POOL_TRANSIENT | VR_VK_POOL_RESET,
                                                 .family = queue->native_queue->family};
    vram_status status =
        VR_VULKAN(device, vkCreateCommandPool, device->handle, &info, NULL, &queue->pool);
    if (status == VRAM_OK && !queue->pool) {
        status = vr_vulkan_bad_result("vkCreateCommandPool", 0);
    }
    return status;
}

static vram_status queue_make(struct vr_queue *queue, struct vr_vulkan_native_queue *native_queue) {
    struct vr_vulkan_device *device = queue->device->impl;
    struct vr_vulkan_queue *impl = vr_mem_alloc(1, sizeof *impl, "vulkan_queue_create");
    vram_status status = VRAM_ERR_HOST_MEMORY;
    if (!impl) {
        goto fail_native;
    }
    impl->device = device;
    impl->native_queue = native_queue;
    vr_list_init(&impl->busy);
    vr_list_init(&impl->idle);
    vr_list_init(&impl->staging_busy);
    status = vr_vulkan_timeline_take(device, &impl->timeline);
    if (status != VRAM_OK) {
        goto fail_impl;
    }
    if (device->physical->properties.kind == VR_VK_KIND_CPU) {
        status = vr_vulkan_word_thread_start(device, impl->timeline, &impl->word_thread);
    }
    if (status == VRAM_OK) {
        status = command_pool_make(impl);
    }
    if (status != VRAM_OK) {
        goto fail_timeline;
    }
    impl->word_high = (uint32_t)(vr_load(impl->timeline->word, VR_ACQUIRE) >> 32);
    queue->impl = impl;
    queue->native = native_queue->handle;
    queue->word = impl->timeline->word;
    return VRAM_OK;

fail_timeline:
    vr_vulkan_word_thread_end(impl->word_thread, false);
    vr_vulkan_timeline_give(device, impl->timeline);
fail_impl:
    vr_mem_free(impl);
fail_native:
    native_queue_leave(device, native_queue);
    return status;
}

/* Vulkan has priorities for native queues only, set when the device is created. */
static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    (void)options;
    return queue_make(queue, native_queue_choose(queue->device->impl));
}

static vram_status queue_adopt(struct vr_queue *queue) {
    struct vr_vulkan_native_queue *native_queue =
        native_queue_find(queue->device->impl, queue->native);
    if (!native_queue) {
        return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vram_queue_adopt", 0,
                            "the VkQueue is not one of this device: name it, with its family, in "
                            "the adoption of the device (vram/vulkan.h)");
    }
    return queue_make(queue, native_queue);
}

/* The caller frees the memory of this work next, so a driver that refuses to wait is asked again. A
   lost device and a timeout are final. */
static bool queue_finish(const struct vr_vulkan_queue *impl) {
    uint64_t submitted = vr_load(&impl->timeline->submitted, VR_ACQUIRE);
    vram_status status = VRAM_OK;
    for (int i = 0; submitted && i <= FINISH_TRIES; i++) {
        status = vr_vulkan_timeline_wait(impl->device, impl->timeline, submitted, FINISH_NS);
        if (status == VRAM_OK || status == VRAM_ERR_TIMEOUT || status == VRAM_ERR_DEVICE_LOST) {
            break;
        }
    }
    return status == VRAM_OK;
}

/* If the work does not complete, timeline and command buffers are not reused: the driver may still
   use them. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_device *device = impl->device;
    bool lost = vr_load(&queue->device->lost, VR_ACQUIRE), finished = false;
    vram_error before;
    vr_error_save(&before);
    if (!lost) {
        finished = queue_finish(impl);
    }
    vr_vulkan_word_thread_end(impl->word_thread, finished);
    vr_vulkan_command_buffers_end(impl, !finished);
    if (finished) {
        vr_vulkan_timeline_give(device, impl->timeline);
    }
    native_queue_leave(device, impl->native_queue);
    vr_error_restore(&before);
    vr_mem_free(impl);
    queue->impl = NULL;
}

const struct vr_queue_ops vr_vulkan_queue_ops = {
    .create = queue_create,
    .adopt = queue_adopt,
    .destroy = queue_destroy,
    .upload = vr_vulkan_upload,
    .download = vr_vulkan_download,
    .copy = vr_vulkan_copy,
    .fill = vr_vulkan_fill,
    .signal = vr_vulkan_signal,
    .after = vr_vulkan_after,
    .poll = vr_vulkan_poll,
};
