/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.c: creating, adopting and ending queues.
 *
 * A queue ends in steps:
 *  (1) It is closed to calls that submit work: every call except those on its points returns
 *      VRAM_ERR_STALE.
 *  (2) Calls that entered before and may still submit work leave (base/entry_guard.h). Nested calls
 *      of such a thread still enter: only the outermost one is waited for.
 *  (3) Its work is waited for.
 *  (4) Its handle is retired; its points count as passed from then on.
 *  (5) Its last reference is dropped, which destroys the native queue.
 * A queue whose work does not finish within the deadline, or that cannot be queried because it is
 * being captured, stays before (4), and its points still report the truth. When the device is
 * closed, it tries once more. If that fails too, the queue is never destroyed.
 *
 * After an adoption has ended the native queue is not touched any more. So queries to the driver
 * are counted in the same way, and no new one begins.
 *
 * The default stream of a thread (vr_queue.thread) is marked when its thread ends. From then on
 * that mark tells when its work is complete. If the process owns the queue, a later caller of
 * vram_queue_shared ends it.
 */
#include "device/objects.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "device/ops.h"

#include <assert.h>

static uint64_t deadline_of(const struct vr_queue_object *queue) {
    return vr_deadline_in(queue->device->context->wait_ns);
}

/* The work is done and no other call is inside. But several threads may have waited for it, each
   with a mark, and the first mark to arrive releases all of them: the others' signals may still be
   pending, with no work before them. */
static vram_status wait_for_signals(struct vr_queue_object *queue, uint64_t deadline) {
    VR_OPERATION("vram_queue_destroy");
    vram_status status;
    while ((status = vr_queue_poll(&queue->base)) == VRAM_ERR_NOT_READY) {
        if (vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_TIMEOUT, "the last signal of the queue did not arrive in time");
        }
        vr_clock_sleep(20000);
    }
    return status;
}

/* The destructor; also of a queue that was never published. */
static void queue_free(void *memory) {
    struct vr_queue_object *queue = memory;
    uint64_t device = queue->device->object.handle;
    if (queue->base.word) {
        assert(vr_load(&queue->finished, VR_ACQUIRE));
        if (queue->object.handle && vr_entry_is_open(&queue->querying)) {
            wait_for_signals(queue, deadline_of(queue));
        }
        vr_queue_destroy(&queue->base);
    }
    for (uint32_t i = 0; i < queue->awaited_count; i++) {
        vr_native_unref(queue->awaited[i]);
    }
    vr_mem_free(queue->awaited);
    vr_mem_free(queue);
    vr_handle_unpin(device);
}

static struct vr_queue_object *queue_make(struct vr_device_object *device) {
    struct vr_queue_object *queue = vr_mem_alloc(1, sizeof *queue, vr_operation());
    if (queue) {
        queue->object.process = vr_os_process_generation();
        queue->device = device;
        queue->base.device = &device->base;
        vr_handle_ref(device->object.handle);
    }
    return queue;
}

/* Gives a started queue its handle and lists it; undoes that on failure. */
static vram_status queue_publish(struct vr_queue_object *queue, vram_queue **out) {
    uint64_t word = vr_load(queue->base.word, VR_ACQUIRE);
    vr_store(&queue->issued, word, VR_RELAXED);
    vr_store(&queue->signalled, word, VR_RELAXED);
    vram_status status = vr_handle_publish(VR_KIND_QUEUE, queue, queue_free, &queue->object.handle);
    if (status != VRAM_OK) {
        vr_store(&queue->finished, true, VR_RELAXED);
        queue_free(queue);
        return status;
    }
    uint64_t handle = queue->object.handle;
    status = vr_device_list_child(queue->device, &queue->device->queues, &queue->link);
    if (status != VRAM_OK) {
        vr_queue_retire(queue, vr_deadline_in(queue->device->context->wait_ns));
        return status;
    }
    *out = (vram_queue *)(uintptr_t)handle;
    return VRAM_OK;
}

vram_status vr_queue_make(vram_device *handle, const vram_queue_options *options,
                          vram_queue **out) {
    VR_OPERATION("vram_queue_create");
    struct vram_queue_options taken;
    void *device;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the queue is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_options_take(&taken, sizeof taken, options);
    struct vr_queue_object *queue = status == VRAM_OK ? queue_make(device) : NULL;
    if (queue) {
        status = vr_queue_create(&queue->base, &taken);
        if (status == VRAM_OK) {
            status = queue_publish(queue, out);
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

vram_status vram_queue_create(vram_device *handle, const vram_queue_options *options,
                              vram_queue **out) {
    return vr_queue_make(handle, options, out);
}

/* ------------------------------------------------- queues of the calling thread */

enum { THREAD_QUEUES = 16 }; /* one for each device, as a rule */

/* Handles of the queues that only this thread submits to; 0 or ended: the place is free. */
static _Thread_local uint64_t thread_queues[THREAD_QUEUES];
static _Thread_local bool thread_noted;

/* Only this thread can mark the queue, and now for the last time. */
static void queue_last_mark(struct vr_queue_object *queue) {
    VR_OPERATION("vram_queue_end");
    uint64_t last = UINT64_MAX;
    struct vram_error error;
    vr_error_save(&error);
    if (vr_submit_begin(queue)) {
        (void)vr_queue_mark(queue, &last); /* unchanged if the driver refuses */
        vr_submit_end(queue);
    }
    vr_store(&queue->base.last, last, VR_RELEASE);
    vr_error_restore(&error);
}

static void thread_ended(void *unused) {
    (void)unused;
    thread_noted = false; /* a destructor that runs later may need a queue, which is another one */
    for (int i = 0; i < THREAD_QUEUES && !vr_exiting(); i++) {
        struct vr_queue_object *queue = vr_shared_find(VR_KIND_QUEUE, thread_queues[i]);
        thread_queues[i] = 0;
        if (queue) {
            queue_last_mark(queue);
            vr_leave(queue);
        }
    }
}

/* Without a free place, others learn about its work from the driver alone. */
static void thread_note(uint64_t queue) {
    for (int i = 0; i < THREAD_QUEUES; i++) {
        struct vr_queue_object *there = vr_shared_find(VR_KIND_QUEUE, thread_queues[i]);
        if (!there) {
            thread_noted = thread_noted || vr_os_thread_end_first(thread_ended, NULL);
            thread_queues[i] = queue;
            return;
        }
        vr_leave(there);
    }
}

/* --------------------------------------------------------------------- adopting */

/* Creates a queue around a native one, for ordinary work or for a captured region. */
static vram_status queue_adopt(struct vr_device_object *device, void *native, bool region,
                               vram_queue **out) {
    if (!(device->base.info.caps & VRAM_CAP_ADOPT)) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "%s has no native queues to adopt",
                       device->base.info.backend);
    }
    struct vr_queue_object *queue = queue_make(device);
    if (!queue) {
        return VRAM_ERR_HOST_MEMORY;
    }
    queue->base.native = native;
    queue->base.adopted = true;
    queue->region = region;
    vr_store(&queue->captured, region, VR_RELAXED);
    vram_status status = vr_queue_adopt(&queue->base);
    if (status != VRAM_OK) {
        queue->base.word = NULL;
        queue_free(queue);
        return status;
    }
    bool own = queue->base.thread && !region;
    status = queue_publish(queue, out);
    if (status == VRAM_OK && own) {
        thread_note((uint64_t)(uintptr_t)*out);
    }
    return status;
}

vram_status vr_queue_take(vram_device *handle, void *native, vram_queue **out) {
    VR_OPERATION("vram_queue_adopt");
    void *device;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the queue is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status == VRAM_OK) {
        status = queue_adopt(device, native, false, out);
        vr_leave(device);
    }
    return status;
}

vram_status vram_queue_adopt(vram_device *handle, void *native, vram_queue **out) {
    return vr_queue_take(handle, native, out);
}

vram_status vram_capture_begin(vram_queue *handle, vram_queue **out) {
    VR_CALL;
    void *entered;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the queue is NULL");
    }
    vram_status status = vr_queue_enter(handle, &entered);
    if (status == VRAM_OK) {
        struct vr_queue_object *queue = entered;
        vr_store(&queue->shown, true, VR_RELAXED); /* a region submits to its native queue */
        status = queue_adopt(queue->device, queue->base.native, true, out);
        vr_leave(queue);
    }
    return status;
}

/* ------------------------------------------------------------------- ending */

/* Waits for all submitted work, (2) and (3), and records when it is done. If both marker and query
   fail, the driver cannot tell; then it counts as done too: backend.h requires destroy to finish
   what is left. */
static vram_status queue_drain(struct vr_queue_object *queue, uint64_t deadline) {
    VR_OPERATION("vram_queue_destroy");
    if (!vr_queue_hold(queue)) {
        return VRAM_OK;
    }
    vram_status status = vr_calls_wait(queue, &queue->submitting, deadline);
    if (status == VRAM_OK) {
        status = vr_queue_settle(queue, deadline);
    }
    if (status != VRAM_ERR_TIMEOUT && status != VRAM_ERR_CAPTURE && status != VRAM_ERR_SHUTDOWN) {
        vr_store(&queue->finished, true, VR_RELEASE);
    }
    vr_queue_release(queue);
    return status;
}

/* Retires the handle and drops the owner's reference, unless that was done already. */
static void queue_retire(struct vr_queue_object *queue) {
    uint64_t handle = queue->object.handle;
    vr_queue_unlist(queue);
    if (vr_handle_retire(handle)) {
        vr_device_notify(queue->device, handle, true);
        vr_handle_unpin(handle);
    }
}

/* The device is closing. The caller has a reference. */
bool vr_queue_retire(struct vr_queue_object *queue, uint64_t deadline) {
    struct vram_error error;
    vr_error_save(&error);
    vr_store(&queue->closed, true, VR_SEQ_CST);
    vr_store(&queue->captured, false, VR_SEQ_CST); /* graphs end with the device */
    queue_drain(queue, deadline);
    vr_error_restore(&error);
    if (!vr_load(&queue->finished, VR_ACQUIRE)) {
        vr_log(VRAM_LOG_ERROR, "a queue of %s device %u never finished; it and the device are kept",
               queue->device->base.info.backend, queue->device->base.index);
        return false;
    }
    queue_retire(queue);
    return true;
}

vram_status vr_queue_destroy_by(struct vr_queue_object *queue, uint64_t deadline) {
    struct vram_error error;
    if (!vr_entry_close(&queue->submitting)) {
        return vr_fail(VRAM_ERR_STALE, "the queue is being destroyed already");
    }
    vr_error_save(&error);
    vram_status status = queue_drain(queue, deadline);
    vr_error_restore(&error); /* a driver that cannot tell counts as done, as in queue_drain */
    if (vr_load(&queue->finished, VR_ACQUIRE)) {
        queue_retire(queue);
        return VRAM_OK;
    }
    vr_device_notify(queue->device, queue->object.handle, false);
    vr_log(VRAM_LOG_WARN, "a queue was destroyed with unfinished work; it is kept "
                          "until its device is closed");
    return vr_fail(status,
                   "work of the queue is unfinished: %s; it is kept until its device is "
                   "closed",
                   vr_status_text(status));
}

vram_status vr_queue_end(vram_queue *handle) {
    VR_OPERATION("vram_queue_destroy");
    void *entered;
    vram_status status = vr_end_enter(VR_KIND_QUEUE, handle, &entered);
    struct vr_queue_object *queue = entered;
    if (!queue) {
        return status;
    }
    status = queue->base.adopted
                 ? vr_fail(VRAM_ERR_INVALID, "the queue was adopted; vram_queue_end ends it")
                 : vr_queue_destroy_by(queue, deadline_of(queue));
    vr_leave(queue);
    return status;
}

vram_status vram_queue_destroy(vram_queue *handle) {
    return vr_queue_end(handle);
}

/* Ends an adoption that is closed to calls; on failure the adoption continues. */
static vram_status native_leave(struct vr_queue_object *queue) {
    uint64_t deadline = deadline_of(queue);
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = queue_drain(queue, deadline);
    if (!vr_load(&queue->finished, VR_ACQUIRE)) {
        return status;
    }
    (void)vr_entry_close(&queue->querying);
    status = vr_calls_wait(queue, &queue->querying, deadline);
    if (status == VRAM_OK) {
        status = wait_for_signals(queue, deadline);
    }
    if (status == VRAM_ERR_TIMEOUT || status == VRAM_ERR_SHUTDOWN) {
        vr_store(&queue->finished, false, VR_RELEASE);
        vr_entry_reopen(&queue->querying);
        return status;
    }
    vr_error_restore(&error); /* a driver that cannot tell counts as done, as in queue_drain */
    queue_retire(queue);
    return VRAM_OK;
}

static vram_status end_adoption(vram_queue *handle, bool region) {
    void *entered;
    vram_status status = vr_end_enter(VR_KIND_QUEUE, handle, &entered);
    struct vr_queue_object *queue = entered;
    if (!queue) {
        return status;
    }
    if (!queue->base.adopted) {
        status =
            vr_fail(VRAM_ERR_INVALID, "the queue is the library's own; vram_queue_destroy ends it");
    } else if (queue->region != region) {
        status = vr_fail(VRAM_ERR_INVALID, "%s ends this queue",
                         queue->region ? "vram_capture_end" : "vram_queue_end");
    } else if (!vr_entry_close(&queue->submitting)) {
        status = vr_fail(VRAM_ERR_STALE, "the queue is being ended already");
    } else {
        vr_store(&queue->captured, false, VR_SEQ_CST);
        status = native_leave(queue);
        if (status != VRAM_OK) {
            vr_store(&queue->captured, region, VR_SEQ_CST);
            vr_entry_reopen(&queue->submitting);
        }
    }
    vr_leave(queue);
    return status;
}

vram_status vram_queue_end(vram_queue *handle) {
    VR_CALL;
    return end_adoption(handle, false);
}

/* Whether its thread has ended, and its work. */
static bool is_over(struct vr_queue_object *queue) {
    bool over = false;
    if (vr_load(&queue->base.last, VR_ACQUIRE) && vr_queue_hold(queue)) {
        over = vr_queue_poll(&queue->base) == VRAM_OK;
        vr_queue_release(queue);
    }
    return over;
}

void vr_queues_sweep(struct vr_device_object *device) {
    struct vram_error error;
    uint64_t last = 0;
    vr_error_save(&error);
    for (struct vr_queue_object *queue; (queue = vr_queue_behind(device, last));) {
        last = queue->object.handle;
        bool over = vr_load(&queue->shared, VR_RELAXED) && is_over(queue);
        vr_leave(queue);
        if (over) {
            (void)end_adoption((vram_queue *)(uintptr_t)last, false);
        }
    }
    vr_error_restore(&error);
}

vram_status vram_capture_end(vram_queue *handle) {
    VR_CALL;
    return end_adoption(handle, true);
}

vram_status vram_queue_native(vram_queue *handle, void **native) {
    VR_CALL;
    void *queue;
    if (!native) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the native queue is NULL");
    }
    vram_status status = vr_queue_enter(handle, &queue);
    if (status == VRAM_OK) {
        vr_store(&((struct vr_queue_object *)queue)->shown, true, VR_RELAXED);
        *native = ((struct vr_queue_object *)queue)->base.native;
        vr_leave(queue);
    }
    return status;
}
