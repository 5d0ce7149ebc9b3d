/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.c: making, adopting and ending queues.
 *
 * A queue ends in two steps. First it is `ended`: every call but those on its points answers that
 * it is gone, and its submitted work is waited for. Then its handle is retired. A queue whose work
 * does not finish within the deadline stays in the first state, with its points still answering the
 * truth, until the device is closed and asks once more.
 */
#include "device/objects.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "device/ops.h"

/* The destructor; also of a queue that was never published. A queue with unfinished work is left
   as it is, with its device: taking memory away under running work would be worse than a leak. */
static void queue_free(void *memory) {
    struct vr_queue_object *queue = memory;
    uint64_t device = queue->device->object.handle;
    bool lost = vr_load(&queue->device->base.lost, VR_ACQUIRE);
    if (queue->base.word && !lost && !vr_load(&queue->idle, VR_ACQUIRE)) {
        vr_log(VRAM_LOG_ERROR, "a queue of %s device %u never finished; it and the device are kept",
               queue->device->base.info.backend, queue->device->base.index);
        return;
    }
    if (queue->base.word) {
        vr_queue_destroy(&queue->base);
    }
    for (uint32_t i = 0; i < queue->followed_count; i++) {
        vr_handle_unpin(queue->followed[i]);
    }
    vr_mem_free(queue->followed);
    vr_mem_free(queue);
    vr_handle_unpin(device);
}

static void unlist(struct vr_queue_object *queue) {
    vr_mutex_lock(&queue->device->lock);
    vr_link_remove(&queue->link);
    vr_mutex_unlock(&queue->device->lock);
}

static struct vr_queue_object *queue_make(struct vr_device_object *device, const char *operation) {
    struct vr_queue_object *queue = vr_mem_alloc(1, sizeof *queue, operation);
    if (queue) {
        queue->object.process = vr_os_process_generation();
        queue->device = device;
        queue->base.device = &device->base;
        vr_handle_ref(device->object.handle);
    }
    return queue;
}

/* Gives a started queue its handle and its place; undoes it when that fails. */
static vram_status queue_publish(struct vr_queue_object *queue, const char *operation,
                                 vram_queue **out) {
    vr_store(&queue->issued, vr_load(queue->base.word, VR_ACQUIRE), VR_RELAXED);
    vram_status status = vr_handle_publish(VR_KIND_QUEUE, queue, queue_free, &queue->object.handle);
    if (status != VRAM_OK) {
        vr_store(&queue->idle, true, VR_RELAXED);
        queue_free(queue);
        return status;
    }
    uint64_t handle = queue->object.handle;
    status = vr_device_list_child(queue->device, &queue->device->queues, &queue->link, operation);
    if (status != VRAM_OK) {
        vr_queue_retire(queue);
        return status;
    }
    *out = (vram_queue *)(uintptr_t)handle;
    return VRAM_OK;
}

vram_status vram_queue_create(vram_device *handle, const vram_queue_options *options,
                              vram_queue **out) {
    static const char operation[] = "vram_queue_create";
    struct vram_queue_options taken;
    void *device;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the queue is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, operation, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_options_take(&taken, sizeof taken, options, operation);
    struct vr_queue_object *queue = status == VRAM_OK ? queue_make(device, operation) : NULL;
    if (queue) {
        status = vr_queue_create(&queue->base, &taken);
        if (status == VRAM_OK) {
            status = queue_publish(queue, operation, out);
        } else {
            queue->base.word = NULL;
            queue_free(queue);
        }
    } else if (status == VRAM_OK) {
        status = VRAM_ERR_HOST_MEMORY;
    }
    vr_leave(device);
    return status;
}

vram_status vram_queue_adopt(vram_device *handle, void *native, vram_queue **out) {
    static const char operation[] = "vram_queue_adopt";
    void *entered;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the queue is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    struct vr_queue_object *queue = NULL;
    if (!(device->base.info.caps & VRAM_CAP_ADOPT)) {
        status = vr_fail(VRAM_ERR_UNSUPPORTED, operation, "%s has no native queues to adopt",
                         device->base.info.backend);
    } else if (!(queue = queue_make(device, operation))) {
        status = VRAM_ERR_HOST_MEMORY;
    } else {
        queue->base.native = native;
        queue->base.adopted = true;
        status = vr_queue_adopt(&queue->base);
        if (status == VRAM_OK) {
            status = queue_publish(queue, operation, out);
        } else {
            queue->base.word = NULL;
            queue_free(queue);
        }
    }
    vr_leave(device);
    return status;
}

/* ------------------------------------------------------------------- ending */

/* Polls until the driver says that nothing is left. */
static vram_status poll_until_idle(struct vr_queue_object *queue, uint64_t deadline) {
    for (;;) {
        vram_status status = vr_queue_poll(&queue->base);
        if (status != VRAM_ERR_NOT_READY) {
            return status;
        }
        if (vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_TIMEOUT, "vram_queue_destroy",
                           "the queue's work did not finish in time");
        }
        vr_clock_sleep(20000);
    }
}

/* Waits for all submitted work and notes that it is done. A driver that cannot tell, because the
   marker and the question both fail, is taken at its word too: backend.h has destroy finish what is
   left. */
static vram_status drain(struct vr_queue_object *queue) {
    uint64_t timeout = queue->device->context->wait_ns;
    uint64_t value;
    if (vr_load(&queue->idle, VR_ACQUIRE)) {
        return VRAM_OK;
    }
    vram_status status = vr_queue_mark(queue, &value);
    if (status == VRAM_OK) {
        status = vr_queue_wait_value(queue, value, timeout, "vram_queue_destroy");
    } else if (status != VRAM_ERR_CAPTURE && status != VRAM_ERR_DEVICE_LOST) {
        status = poll_until_idle(queue, vr_deadline_in(timeout));
    }
    if (status != VRAM_ERR_TIMEOUT && status != VRAM_ERR_CAPTURE && status != VRAM_ERR_SHUTDOWN) {
        vr_store(&queue->idle, true, VR_RELEASE);
    }
    return status;
}

/* Retires the handle and drops the owner's reference, if nobody has. */
static void retire(struct vr_queue_object *queue) {
    uint64_t handle = queue->object.handle;
    unlist(queue);
    if (vr_handle_retire(handle)) {
        vr_handle_unpin(handle);
    }
}

/* The device is closing: the queue ends now, finished or not. The caller holds a reference. */
void vr_queue_retire(struct vr_queue_object *queue) {
    struct vram_error error;
    vr_error_save(&error);
    vr_store(&queue->ended, true, VR_RELEASE);
    drain(queue);
    vr_error_restore(&error);
    retire(queue);
}

void vram_queue_destroy(vram_queue *handle) {
    static const char operation[] = "vram_queue_destroy";
    void *entered;
    if (!handle || vr_exiting() ||
        vr_enter(VR_KIND_QUEUE, handle, operation, &entered) != VRAM_OK) {
        return;
    }
    struct vr_queue_object *queue = entered;
    if (queue->base.adopted) {
        vr_fail(VRAM_ERR_INVALID, operation, "the queue was adopted; vram_queue_end ends it");
    } else if (!vr_exchange(&queue->ended, true, VR_ACQ_REL)) {
        struct vram_error error;
        vr_error_save(&error);
        vram_status status = drain(queue);
        vr_error_restore(&error); /* destroying cannot fail: what happened is logged, if anything */
        if (status == VRAM_ERR_TIMEOUT) {
            vr_log(VRAM_LOG_WARN, "a queue was destroyed with unfinished work; it is kept aside "
                                  "until its device is closed");
        } else {
            retire(queue);
        }
    }
    vr_leave(queue);
}

vram_status vram_queue_end(vram_queue *handle) {
    static const char operation[] = "vram_queue_end";
    void *entered;
    vram_status status = vr_enter(VR_KIND_QUEUE, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_queue_object *queue = entered;
    if (!queue->base.adopted) {
        status = vr_fail(VRAM_ERR_INVALID, operation,
                         "the queue is the library's own; vram_queue_destroy ends it");
    } else if (vr_exchange(&queue->ended, true, VR_ACQ_REL)) {
        status = vr_fail(VRAM_ERR_STALE, operation, "the queue is being ended already");
    } else {
        status = drain(queue);
        if (vr_load(&queue->idle, VR_ACQUIRE)) {
            retire(queue);
            status = VRAM_OK;
        } else {
            vr_store(&queue->ended, false, VR_RELEASE); /* the adoption goes on */
        }
    }
    vr_leave(queue);
    return status;
}

vram_status vram_queue_native(vram_queue *handle, void **native) {
    static const char operation[] = "vram_queue_native";
    void *queue;
    if (!native) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the native queue is NULL");
    }
    vram_status status = vr_queue_enter(handle, operation, &queue);
    if (status == VRAM_OK) {
        *native = ((struct vr_queue_object *)queue)->base.native;
        vr_leave(queue);
    }
    return status;
}

vram_status vr_queue_enter(const vram_queue *handle, const char *operation, void **entered) {
    vram_status status = vr_enter(VR_KIND_QUEUE, handle, operation, entered);
    if (status == VRAM_OK && vr_load(&((struct vr_queue_object *)*entered)->ended, VR_ACQUIRE)) {
        vr_leave(*entered);
        status = vr_fail(VRAM_ERR_STALE, operation, "the queue was destroyed");
    }
    return status;
}
