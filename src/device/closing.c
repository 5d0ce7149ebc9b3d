/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closing.c: how a device ends.
 *
 *  (1) The device stops accepting children. Then its queues end, each after the last call that
 *      submits work to it and after that work.
 *  (2) Queues of other devices may read its memory as a peer's. Their work is waited for too. First
 *      the copies that are being submitted are waited for; later ones are refused.
 *  (3) Only then is anything freed that work could use: kernels, mappings, physical memory.
 *      Allocations with an address are freed with the last reference, in the destructor.
 *  (4) If work does not finish before the deadline, all of that is kept: the handles are retired,
 *      but the references to their objects stay. That is a leak, which is logged; it is better than
 *      freeing memory under running work. Memory of peers that such work may read is kept as well.
 */
#include "device/objects.h"

#include "base/error.h"
#include "base/log.h"

/* -------------------------------------------------------- work that never ends */

static void set_unfinished(struct vr_device_object *device) {
    vr_mutex_lock(&device->lock);
    device->unfinished = true;
    vr_mutex_unlock(&device->lock);
}

static bool is_unfinished(struct vr_device_object *device) {
    vr_mutex_lock(&device->lock);
    bool unfinished = device->unfinished;
    vr_mutex_unlock(&device->lock);
    return unfinished;
}

/* The device has a queue that never finished: keeps (4) for it and for what that queue may read. */
static void keep_all_memory(struct vr_device_object *device) {
    uint64_t last = 0;
    set_unfinished(device);
    for (struct vr_device_object *other; (other = vr_device_behind(device->context, last));) {
        last = other->object.handle;
        if (vr_device_reads(device, last)) {
            set_unfinished(other);
        }
        vr_leave(other);
    }
}

/* ------------------------------------------------------------------- queues */

static void close_to_children(struct vr_device_object *device) {
    vr_mutex_lock(&device->lock);
    device->closing = true;
    vr_mutex_unlock(&device->lock);
    (void)vr_entry_close(&device->readers);
}

/* A queue is listed until it has finished, or is given up and everything that it may use is marked.
   So a thread that closes another device meanwhile finds one of the two. */
void vr_device_stop_queues(struct vr_device_object *device, uint64_t deadline) {
    close_to_children(device);
    for (struct vr_queue_object *queue; (queue = vr_queue_behind(device, 0));) {
        if (!vr_queue_retire(queue, deadline)) {
            keep_all_memory(device);
            vr_queue_unlist(queue);
        }
        vr_leave(queue);
    }
}

/* ------------------------------------------------------------------ readers */

bool vr_reader_begin(struct vr_device_object *device) {
    return vr_entry_enter(&device->readers);
}

void vr_reader_end(struct vr_device_object *device) {
    vr_entry_leave(&device->readers);
}

/* Work of a lost device reads nothing any more. */
static bool is_lost(const struct vr_device_object *device) {
    return vr_load(&device->base.lost, VR_ACQUIRE);
}

/* Waits for all work of a device's queues, which stay open. */
static bool settle_queues(struct vr_device_object *device, uint64_t deadline) {
    VR_OPERATION("vram_device_close");
    bool settled = true;
    uint64_t last = 0;
    for (struct vr_queue_object *queue; (queue = vr_queue_behind(device, last));) {
        vram_status status = VRAM_OK;
        last = queue->object.handle;
        if (vr_queue_hold(queue)) {
            status = vr_queue_settle(queue, deadline);
            vr_queue_release(queue);
        }
        /* On a lost device nothing runs. */
        settled = settled && (status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST);
        vr_leave(queue);
    }
    return settled;
}

/* Keeps (2). */
bool vr_readers_wait(struct vr_device_object *device, uint64_t deadline) {
    uint64_t last = 0;
    bool settled = vr_entry_wait(&device->readers, deadline, &device->base.lost) || is_lost(device);
    for (struct vr_device_object *other; (other = vr_device_behind(device->context, last));) {
        last = other->object.handle;
        if (other != device && vr_device_reads(other, device->object.handle)) {
            settled = settle_queues(other, deadline) && settled;
        }
        vr_leave(other);
    }
    return settled && !is_unfinished(device);
}

/* ------------------------------------------------------------------- ending */

/* Removes the first child from a list; 0 if the list is empty. Adds a reference for the caller,
   since the owner's may be dropped at any moment. */
static uint64_t take_child(struct vr_device_object *device, struct vr_list *list,
                           size_t to_object) {
    vr_mutex_lock(&device->lock);
    struct vr_link *link = vr_list_first(list);
    uint64_t handle = 0;
    if (link) {
        vr_link_remove(link);
        handle = ((struct vr_object *)((char *)link - to_object))->handle;
        vr_handle_ref(handle);
    }
    vr_mutex_unlock(&device->lock);
    return handle;
}

/* Retires the handles of a list of children; with `finished` their owner's references are dropped
   too. */
static void end_children(struct vr_device_object *device, struct vr_list *list, size_t to_object,
                         bool finished) {
    uint64_t found;
    while ((found = take_child(device, list, to_object))) {
        if (vr_handle_retire(found) && finished) {
            vr_handle_unpin(found);
        }
        vr_handle_unpin(found);
    }
}

/* Unmaps everything. A concurrent call that maps undoes its own mapping. */
static void mappings_remove(struct vr_device_object *device) {
    vr_mutex_lock(&device->lock);
    device->unmapping = true;
    vr_mutex_unlock(&device->lock);
    vr_ranges_unmap(device);
}

static void unlist_device(struct vr_device_object *device) {
    vr_mutex_lock(&device->context->lock);
    vr_link_remove(&device->link);
    vr_mutex_unlock(&device->context->lock);
}

static void report_kept(struct vr_device_object *device) {
    vr_log(VRAM_LOG_ERROR,
           "work that uses %s device %u never finished; its memory, %llu bytes, is kept",
           device->base.info.backend, device->base.index,
           (unsigned long long)vr_load(&device->held_bytes, VR_RELAXED));
}

vram_status vr_device_finish(struct vr_device_object *device, uint64_t deadline) {
    struct vram_error error;
    vr_error_save(&error); /* the only reported failure is unfinished work */
    vr_device_stop_queues(device, deadline);
    bool finished = vr_readers_wait(device, deadline);
    if (!finished) {
        set_unfinished(device);
        report_kept(device);
    }
    vr_device_notify(device, 0, finished);
    end_children(device, &device->kernels, offsetof(struct vr_kernel, link), finished);
    if (finished) {
        mappings_remove(device);
    }
    end_children(device, &device->physicals, offsetof(struct vr_physical, link), finished);
    unlist_device(device);
    vr_error_restore(&error);
    if (!finished) {
        return vr_fail(VRAM_ERR_TIMEOUT,
                       "work that uses %s device %u never finished; its memory is kept",
                       device->base.info.backend, device->base.index);
    }
    vr_handle_unpin(device->object.handle); /* the owner's reference */
    return VRAM_OK;
}
