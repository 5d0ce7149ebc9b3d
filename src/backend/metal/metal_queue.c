/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_queue.c: command queues, the library's own and the program's; recording and committing
 * command buffers. metal_timeline.c has the invariants.
 *
 * Concurrency: `submission` orders commits and is held while a command buffer is recorded, which
 * waits for nothing; `lock` guards the entries and is not held across calls of Metal.
 */
#include "backend/metal/metal_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/stable.h"

/* Command buffers in progress per queue; beyond that, Metal itself waits. */
enum { BUFFERS_MAX = 8192 };

/* --------------------------------------------------------------- submission */

static int64_t queue_failure(struct vr_metal_queue *queue) {
    vr_mutex_lock(&queue->lock);
    int64_t code = queue->failed;
    vr_mutex_unlock(&queue->lock);
    return code;
}

vram_status vr_metal_begin(struct vr_queue *queue, const char *operation,
                           struct vr_metal_recording *recording) {
    struct vr_metal_queue *impl = queue->impl;
    int64_t code = queue_failure(impl);
    if (code) {
        return vr_metal_status(code); /* keeps (4) */
    }
    *recording = (struct vr_metal_recording){.queue = impl, .device = impl->device};
    recording->entry = vr_mem_alloc(1, sizeof *recording->entry, operation);
    if (!recording->entry) {
        return VRAM_ERR_HOST_MEMORY;
    }
    recording->entry->queue = impl;
    recording->pool = impl->device->api->objc_autoreleasePoolPush();
    vr_mutex_lock(&impl->submission);
    recording->buffer = VR_SEND0(impl->device->api, command_buffer, impl->queue);
    if (!recording->buffer) {
        vr_metal_cancel(recording);
        return vr_metal_nil(VRAM_ERR_HOST_MEMORY, "commandBuffer");
    }
    return VRAM_OK;
}

void vr_metal_on_complete(struct vr_metal_recording *recording, void *to, const void *from,
                          uint64_t bytes, vr_mtl_id staging) {
    recording->entry->to = to;
    recording->entry->from = from;
    recording->entry->bytes = bytes;
    recording->entry->staging = staging;
}

static void recording_leave(struct vr_metal_recording *recording) {
    vr_mutex_unlock(&recording->queue->submission);
    recording->device->api->objc_autoreleasePoolPop(recording->pool);
}

void vr_metal_commit(struct vr_metal_recording *recording) {
    static const struct vr_mtl_block_descriptor descriptor = {0, sizeof(struct vr_mtl_block)};
    const struct vr_metal_api *api = recording->device->api;
    struct vr_mtl_block block = {.isa = api->_NSConcreteStackBlock,
                                 .invoke = vr_metal_completed,
                                 .descriptor = &descriptor,
                                 .data = recording->entry};
    VR_SEND(api, add_completed, recording->buffer, &block); /* this copies the block */
    vr_mutex_lock(&recording->queue->lock);
    vr_list_append(&recording->queue->entries, &recording->entry->link);
    recording->queue->refs++; /* keeps (5) */
    vr_mutex_unlock(&recording->queue->lock);
    VR_SEND0(api, commit, recording->buffer);
    recording_leave(recording);
}

void vr_metal_cancel(struct vr_metal_recording *recording) {
    vr_mem_free(recording->entry);
    recording_leave(recording);
}

vr_mtl_id vr_metal_blit_encoder(const struct vr_metal_recording *recording) {
    vr_mtl_id encoder = VR_SEND0(recording->device->api, blit_encoder, recording->buffer);
    if (!encoder) {
        vr_metal_nil(VRAM_ERR_HOST_MEMORY, "blitCommandEncoder");
    }
    return encoder;
}

vr_mtl_id vr_metal_compute_encoder(const struct vr_metal_recording *recording) {
    vr_mtl_id encoder = VR_SEND0(recording->device->api, compute_encoder, recording->buffer);
    if (!encoder) {
        vr_metal_nil(VRAM_ERR_HOST_MEMORY, "computeCommandEncoder");
    }
    return encoder;
}

/* ---------------------------------------------------------- making and ending */

static struct vr_stable word_memory = VR_STABLE_INIT(struct vr_metal_word);

void vr_metal_queue_free(struct vr_metal_queue *queue) {
    vr_cond_destroy(&queue->done);
    vr_mutex_destroy(&queue->submission);
    vr_mutex_destroy(&queue->lock);
    vr_stable_give(&word_memory, queue->word);
    vr_mem_free(queue);
}

static vram_status adopt_error(const char *why) {
    return vr_error_set(VRAM_ERR_INVALID, "metal", "vram_queue_adopt", 0, "%s", why);
}

/* Retains the program's queue. A queue of another GPU could not use this device's memory; one GPU
   may have several device objects. */
static vram_status native_retain(struct vr_metal_queue *impl, vr_mtl_id native) {
    const struct vr_metal_api *api = impl->device->api;
    if (!native) {
        return adopt_error("Metal has no default queue: NULL cannot be adopted");
    }
    if (!VR_SEND(api, responds, native, api->selectors[VR_METAL_command_buffer])) {
        return adopt_error("the object is no MTLCommandQueue");
    }
    vr_mtl_id device = VR_SEND0(api, queue_device, native);
    uint64_t id = device ? VR_SEND0(api, registry_id, device) : 0;
    if (!id || id != VR_SEND0(api, registry_id, impl->device->device)) {
        return adopt_error("the queue was made by another device than this one; "
                           "vram_context_options.metal takes that up");
    }
    impl->queue = VR_SEND0(api, retain, native);
    return VRAM_OK;
}

static vram_status native_make(struct vr_metal_queue *impl, const struct vr_queue *queue) {
    const struct vr_metal_api *api = impl->device->api;
    if (queue->adopted) {
        vram_status status = native_retain(impl, queue->native);
        if (status != VRAM_OK) {
            return status;
        }
    } else {
        impl->queue = VR_SEND(api, queue_create, impl->device->device, (unsigned long)BUFFERS_MAX);
    }
    if (!impl->queue) {
        return vr_metal_nil(VRAM_ERR_LIMIT, "newCommandQueueWithMaxCommandBufferCount:");
    }
    impl->event = VR_SEND0(api, event_create, impl->device->device);
    if (!impl->event) {
        VR_SEND0(api, release, impl->queue);
        return vr_metal_nil(VRAM_ERR_LIMIT, "newSharedEvent");
    }
    return VRAM_OK;
}

/* Creates the native queue, or adopts the program's. */
static vram_status queue_make(struct vr_queue *queue) {
    struct vr_metal_device *metal = queue->device->impl;
    struct vr_metal_queue *impl = vr_mem_alloc(1, sizeof *impl, "metal_queue_create");
    if (!impl) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = VRAM_ERR_HOST_MEMORY;
    impl->device = metal;
    impl->api = *metal->api;
    impl->refs = 1;
    impl->word = vr_stable_take(&word_memory, "metal_queue_create");
    if (!impl->word) {
        goto fail;
    }
    status = vr_cond_init(&impl->done);
    if (status != VRAM_OK) {
        goto fail_word;
    }
    void *pool = metal->api->objc_autoreleasePoolPush();
    status = native_make(impl, queue);
    metal->api->objc_autoreleasePoolPop(pool);
    if (status != VRAM_OK) {
        goto fail_cond;
    }
    vr_mutex_init(&impl->submission, VR_RANK_QUEUE);
    vr_mutex_init(&impl->lock, VR_RANK_BACKEND);
    vr_list_init(&impl->entries);
    queue->impl = impl;
    queue->native = impl->queue;
    queue->word = &impl->word->value;
    return VRAM_OK;

fail_cond:
    vr_cond_destroy(&impl->done);
fail_word:
    vr_stable_give(&word_memory, impl->word);
fail:
    vr_mem_free(impl);
    return status;
}

/* Metal has no queue priorities: options have no effect. */
static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    (void)options;
    return queue_make(queue);
}

static vram_status queue_adopt(struct vr_queue *queue) {
    return queue_make(queue);
}

/* Waits for submitted work, unless the device is lost: keeps (5). On an adopted queue that is the
   library's work only. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_metal_queue *impl = queue->impl;
    const struct vr_metal_api *api = impl->device->api;
    bool lost = vr_load(&queue->device->lost, VR_ACQUIRE);
    vr_mtl_id native = impl->queue, event = impl->event;
    vr_mutex_lock(&impl->lock);
    while (!lost && !vr_list_empty(&impl->entries)) {
        vr_cond_wait(&impl->done, &impl->lock, UINT64_MAX);
    }
    bool last = --impl->refs == 0;
    vr_mutex_unlock(&impl->lock);
    if (last) {
        vr_metal_queue_free(impl);
    }
    void *pool = api->objc_autoreleasePoolPush();
    VR_SEND0(api, release, event);
    VR_SEND0(api, release, native);
    api->objc_autoreleasePoolPop(pool);
    queue->impl = NULL;
}

const struct vr_queue_ops vr_metal_queue_ops = {
    .create = queue_create,
    .adopt = queue_adopt,
    .destroy = queue_destroy,
    .upload = vr_metal_upload,
    .download = vr_metal_download,
    .copy = vr_metal_copy,
    .fill = vr_metal_fill,
    .signal = vr_metal_signal,
    .after = vr_metal_after,
    .poll = vr_metal_poll,
};
