/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_set.c: several queues of one device that are created, waited for and destroyed together.
 *
 *  (1) A set pins its device and watches it, so it ends with the device at the latest; by then the
 *      device has ended the queues.
 *  (2) `streams` does not change between creation and destructor. Transfer and join queue are
 *      created by the first call that needs them. It installs the queue by a compare and swap; a
 *      thread that loses the race destroys its own. So there is no lock.
 *  (3) Destroying retires the handle and then destroys every queue. A call that was inside may
 *      install a queue after that: the destructor, which runs when it has left, destroys it.
 *      Handles of queues that have ended never refer to others.
 *  (4) stream_wait.c waits. Only VRAM_ERR_NOT_READY is "not ready". Every other status ends a wait,
 *      so that a failure is reported at once.
 *  (5) The join queue waits for a point of each stream and gets no other work. So it delays
 *      nothing, and a join waits at most for the points of other joins at the same time.
 */
#include "xfer/stream_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/status.h"
#include "device/device_calls.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------- queues */

/* A queue of the set besides its streams; keeps (2). */
vram_status vr_stream_extra_queue(struct vr_stream_set *set, vr_atomic_ptr *place,
                                  vram_queue **queue) {
    void *there = vr_load(place, VR_ACQUIRE);
    vram_queue *made = NULL;
    if (!there) {
        vram_device *device = (vram_device *)(uintptr_t)set->device->object.handle;
        vram_status status = vr_queue_make(device, NULL, &made);
        if (status != VRAM_OK) {
            return status;
        }
        if (!vr_cas(place, &there, (void *)made, VR_ACQ_REL)) {
            (void)vr_queue_end(made); /* it has no work */
        } else {
            there = made;
        }
    }
    *queue = there;
    return VRAM_OK;
}

vram_status vr_stream_check(const struct vr_stream_set *set, uint32_t index) {
    return index < set->count ? VRAM_OK
                              : vr_fail(VRAM_ERR_INVALID, "there is no stream %u; the set has %u",
                                        index, set->count);
}

/* ------------------------------------------------------------------- ending */

/* Destroys a queue of the set; the program may have done so, or may be doing so. */
static vram_status end_queue(vram_queue *handle, uint64_t deadline) {
    struct vr_queue_object *queue = handle ? vr_handle_pin(VR_KIND_QUEUE, handle) : NULL;
    if (!queue) {
        return VRAM_OK;
    }
    vram_status status = vr_queue_destroy_by(queue, deadline);
    vr_leave(queue);
    return status == VRAM_ERR_STALE ? VRAM_OK : status;
}

/* Destroys the join queue last: it waits for the others. Returns the first failure. */
static vram_status end_queues(struct vr_stream_set *set) {
    VR_OPERATION("vram_stream_set_destroy");
    struct vram_error error;
    uint64_t deadline = vr_deadline_in(set->device->context->wait_ns);
    vram_status first = VRAM_OK;
    vr_error_save(&error);
    for (uint32_t i = 0; i < set->count + 2; i++) {
        vram_queue *queue = i < set->count    ? set->streams[i].queue
                            : i == set->count ? vr_load(&set->transfer, VR_ACQUIRE)
                                              : vr_load(&set->join, VR_ACQUIRE);
        vram_status status = end_queue(queue, deadline);
        first = first == VRAM_OK ? status : first;
    }
    vr_error_restore(&error);
    return first == VRAM_OK ? VRAM_OK
                            : vr_fail(first,
                                      "work of the set is unfinished: %s; its queues are kept "
                                      "aside until the device is closed",
                                      vr_status_text(first));
}

/* The destructor, also of a half-built set; keeps (3). */
static void set_free(void *memory) {
    struct vr_stream_set *set = memory;
    uint64_t device = set->device->object.handle;
    if (!vr_exiting()) {
        (void)end_queues(set);
    }
    vr_mem_free(set);
    vr_handle_unpin(device);
}

static vram_status set_unlist(void *object) {
    struct vr_stream_set *set = object;
    vr_mutex_lock(&set->device->lock);
    vr_link_remove(&set->watcher.link);
    vr_mutex_unlock(&set->device->lock);
    return VRAM_OK;
}

static vram_status set_end(void *object) {
    (void)set_unlist(object);
    return end_queues(object);
}

static void device_closing(struct vr_watcher *watcher, bool finished) {
    (void)finished; /* the device keeps queues that never finished */
    vr_object_parent_ended(&VR_CONTAINER(watcher, struct vr_stream_set, watcher)->object,
                           set_unlist);
}

static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    (void)watcher, (void)queue, (void)finished;
}

vram_status vram_stream_set_destroy(vram_stream_set *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_STREAM_SET, handle, set_end, NULL);
}

/* ----------------------------------------------------------------- creating */

static const struct vram_stream_plan three[VRAM_STREAM_COUNT] = {
    [VRAM_STREAM_COMPUTE] = {.name = "compute"},
    [VRAM_STREAM_MEMORY] = {.name = "memory"},
    [VRAM_STREAM_ANALYSIS] = {.name = "analysis"},
};

static vram_status read_options(const struct vram_stream_set_options *options,
                                struct vram_stream_set_options *taken) {
    vram_status status = vr_options_take(taken, sizeof *taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    if (taken->count == 0 && taken->streams) {
        return vr_fail(VRAM_ERR_INVALID, "the list of streams is not NULL, but count is 0");
    }
    if (taken->count > VRAM_STREAMS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "%u streams are too many: a set has at most %d",
                       taken->count, VRAM_STREAMS_MAX);
    }
    if (taken->count == 0) {
        taken->count = VRAM_STREAM_COUNT;
        taken->streams = three;
    }
    return VRAM_OK;
}

static vram_status take_name(struct vr_stream_set *set, uint32_t index, const char *name) {
    struct vr_stream *stream = &set->streams[index];
    if (!name) {
        snprintf(stream->name, sizeof stream->name, "%u", index);
    } else if (!name[0] || strlen(name) >= sizeof stream->name) {
        return vr_fail(VRAM_ERR_INVALID, "the name of stream %u has 1 to %d bytes", index,
                       VRAM_STREAM_NAME_MAX - 1);
    } else {
        memcpy(stream->name, name, strlen(name) + 1);
    }
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(set->streams[i].name, stream->name) == 0) {
            return vr_fail(VRAM_ERR_INVALID, "streams %u and %u are both called \"%s\"", i, index,
                           stream->name);
        }
    }
    return VRAM_OK;
}

/* Checks the names first: they are the caller's mistakes, and nothing has been created yet. */
static vram_status set_fill(struct vr_stream_set *set,
                            const struct vram_stream_set_options *options) {
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < set->count && status == VRAM_OK; i++) {
        set->streams[i].priority = options->streams ? options->streams[i].priority : 0;
        status = take_name(set, i, options->streams ? options->streams[i].name : NULL);
    }
    for (uint32_t i = 0; i < set->count && status == VRAM_OK; i++) {
        struct vram_queue_options queue = {.size = sizeof queue,
                                           .priority = set->streams[i].priority};
        status = vr_queue_make((vram_device *)(uintptr_t)set->device->object.handle, &queue,
                               &set->streams[i].queue);
    }
    return status;
}

/* `device` is entered. */
static vram_status set_create(struct vr_device_object *device,
                              const struct vram_stream_set_options *options,
                              vram_stream_set **out) {
    struct vr_stream_set *set =
        vr_mem_alloc(1, sizeof *set + options->count * sizeof set->streams[0], vr_operation());
    if (!set) {
        return VRAM_ERR_HOST_MEMORY;
    }
    set->object.process = vr_os_process_generation();
    set->watcher.closing = device_closing;
    set->watcher.queue_ended = queue_ended;
    set->device = device;
    set->count = options->count;
    vr_handle_ref(device->object.handle);
    vram_status status = set_fill(set, options);
    if (status == VRAM_OK) {
        status = vr_handle_publish(VR_KIND_STREAM_SET, set, set_free, &set->object.handle);
    }
    if (status != VRAM_OK) {
        set_free(set);
        return status;
    }
    uint64_t handle = set->watcher.handle = set->object.handle;
    status = vr_device_list_watcher(device, &set->watcher);
    if (status != VRAM_OK) {
        vr_handle_retire(handle);
        vr_handle_unpin(handle);
        return status;
    }
    *out = (vram_stream_set *)(uintptr_t)handle;
    return VRAM_OK;
}

vram_status vram_stream_set_create(vram_device *handle, const vram_stream_set_options *options,
                                   vram_stream_set **set) {
    VR_CALL;
    struct vram_stream_set_options taken;
    void *device;
    if (!set) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the set is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = read_options(options, &taken);
    if (status == VRAM_OK) {
        status = set_create(device, &taken, set);
    }
    vr_leave(device);
    return status;
}

/* --------------------------------------------------------------- its queues */

vram_status vr_stream_set_enter(vram_stream_set *handle, struct vr_stream_set **set) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_STREAM_SET, handle, &entered);
    if (status == VRAM_OK) {
        *set = entered;
    }
    return status;
}

/* For calls that return a queue. */
static vram_status enter_for_queue(vram_stream_set *handle, vram_queue **queue,
                                   struct vr_stream_set **set) {
    if (!queue) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the queue is NULL");
    }
    return vr_stream_set_enter(handle, set);
}

vram_status vram_stream_set_get(vram_stream_set *handle, uint32_t index, vram_queue **queue) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    vram_status status = enter_for_queue(handle, queue, &set);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_stream_check(set, index);
    if (status == VRAM_OK) {
        *queue = set->streams[index].queue;
    }
    vr_leave(set);
    return status;
}

vram_status vram_stream_set_find(vram_stream_set *handle, const char *name, vram_queue **queue) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    if (!name) {
        return vr_fail(VRAM_ERR_INVALID, "the name is NULL");
    }
    vram_status status = enter_for_queue(handle, queue, &set);
    if (status != VRAM_OK) {
        return status;
    }
    uint32_t i = 0;
    while (i < set->count && strcmp(set->streams[i].name, name) != 0) {
        i++;
    }
    if (i < set->count) {
        *queue = set->streams[i].queue;
    } else {
        status = vr_fail(VRAM_ERR_INVALID, "no stream is called \"%s\"", name);
    }
    vr_leave(set);
    return status;
}

vram_status vram_stream_set_next(vram_stream_set *handle, vram_queue **queue) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    vram_status status = enter_for_queue(handle, queue, &set);
    if (status == VRAM_OK) {
        *queue = set->streams[vr_fetch_add(&set->turn, 1, VR_RELAXED) % set->count].queue;
        vr_leave(set);
    }
    return status;
}

vram_status vram_stream_set_transfer(vram_stream_set *handle, vram_queue **queue) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    vram_status status = enter_for_queue(handle, queue, &set);
    if (status == VRAM_OK) {
        status = vr_stream_extra_queue(set, &set->transfer, queue);
        vr_leave(set);
    }
    return status;
}

vram_status vram_stream_info_get(vram_stream_set *handle, uint32_t index, vram_stream_info *info) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    vram_status status = vr_stream_set_enter(handle, &set);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_stream_check(set, index);
    if (status == VRAM_OK) {
        const struct vr_stream *stream = &set->streams[index];
        uint64_t turns = vr_load(&set->turn, VR_RELAXED);
        struct vram_stream_info found = {.index = index,
                                         .priority = stream->priority,
                                         .queue = stream->queue,
                                         .turns =
                                             turns / set->count + (index < turns % set->count)};
        memcpy(found.name, stream->name, sizeof found.name);
        status = vr_info_give(info, &found, sizeof found,
                              offsetof(struct vram_stream_info, name) + sizeof found.name);
    }
    vr_leave(set);
    return status;
}
