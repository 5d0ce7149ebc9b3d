/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closing.c: how a device ends.
 *
 *  (1) A device takes no children any more, then its queues end, each after the last call that
 *      gives it work and after that work.
 *  (2) Queues of other devices may read its memory as a peer's. They are waited for, too; a copy
 *      that is on its way to the driver is waited for before, and later ones are refused.
 *  (3) Only then does anything go that work could use: kernels, mappings, physical memory. What has
 *      an address of its own goes with the last reference, in the destructor.
 *  (4) Work that does not finish until the deadline keeps all of that: the handles die, but the
 *      references of what they stood for stay, which is a leak, logged, and better than memory that
 *      is taken away under running work. Memory of peers, which such work may read, stays as well.
 */
#include "device/objects.h"

#include "base/error.h"
#include "base/log.h"

/* --------------------------------------------------------- work without an end */

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
static void keep_all(struct vr_device_object *device) {
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

/* A queue is listed until it is done, or given up and everything marked that it may use: whoever
   closes another device meanwhile finds the one or the other. */
void vr_device_quiet(struct vr_device_object *device, uint64_t deadline) {
    close_to_children(device);
    for (struct vr_queue_object *queue; (queue = vr_queue_behind(device, 0));) {
        if (!vr_queue_retire(queue, deadline)) {
            keep_all(device);
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

/* Nothing of a lost device is read any more. */
static bool is_lost(const struct vr_device_object *device) {
    return vr_load(&device->base.lost, VR_ACQUIRE);
}

/* Waits for all work of a device's queues; they stay as they are. */
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
        /* On a lost device nothing runs any more. */
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

/* Takes the first child off a list; 0 when there is none left. A reference is added for the caller,
   since the child's own may go at any moment. */
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

/* Kills the handles of a list of children; with `finished` the children go, too. */
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

/* Unmaps everything; calls that are mapping meanwhile see to what they leave behind. */
static void sweep(struct vr_device_object *device) {
    vr_mutex_lock(&device->lock);
    device->sweeping = true;
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
    vr_error_save(&error); /* the one failure of ending is work that goes on */
    vr_device_quiet(device, deadline);
    bool finished = vr_readers_wait(device, deadline);
    if (!finished) {
        set_unfinished(device);
        report_kept(device);
    }
    vr_device_tell(device, 0, finished);
    end_children(device, &device->kernels, offsetof(struct vr_kernel, link), finished);
    if (finished) {
        sweep(device);
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
