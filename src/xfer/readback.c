/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readback.c: frames from arrival to release, and creation and destruction of a readback.
 * readback_start.c starts them. Numbers in brackets are those of readback_object.h.
 */
#include "xfer/readback_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "xfer/xfer_calls.h"

#include <string.h>

/* ------------------------------------------------------------------- arriving */

/* What one poll has to ask about one slot. */
struct slot_poll {
    enum vr_frame_state state; /* IN_FLIGHT or SETTLING; IDLE: nothing */
    uint64_t number;
    vram_point point;
};

/* Returns how many there are. */
static uint32_t collect_polls(struct vr_readback *readback, struct slot_poll *polls) {
    uint32_t count = readback->count;
    vr_mutex_lock(&readback->lock);
    for (uint32_t i = 0; i < count; i++) {
        struct vr_frame *frame = &readback->frames[i];
        polls[i] = (struct slot_poll){.state = VR_FRAME_IDLE};
        if (frame->state == VR_FRAME_IN_FLIGHT) {
            polls[i] = (struct slot_poll){VR_FRAME_IN_FLIGHT, frame->number, frame->point};
        } else if (frame->state == VR_FRAME_SETTLING) {
            polls[i].state = VR_FRAME_SETTLING;
            frame->state = VR_FRAME_STARTING; /* keeps (2) */
        }
    }
    vr_mutex_unlock(&readback->lock);
    return count;
}

/* Ends the flight of a frame; under the lock. The caller ends *count without it. */
static void frame_arrive(struct vr_readback *readback, struct vr_frame *frame, vram_status status,
                         struct vr_transfer_count *count) {
    bool lost = status == VRAM_ERR_DEVICE_LOST;
    *count = frame->count;
    memset(&frame->count, 0, sizeof frame->count);
    memset(frame->memory.pending, 0, sizeof frame->memory.pending);
    frame->state = lost ? VR_FRAME_FAILED : VR_FRAME_DONE;
    readback->stats.arrived += !lost;
    readback->stats.failed += lost;
    readback->stats.bytes += lost ? 0 : frame->bytes;
    if (lost) {
        vr_error_save(&frame->error);
    }
}

static vram_status poll_in_flight(struct vr_readback *readback, struct vr_frame *frame,
                                  const struct slot_poll *poll) {
    vram_status status = vr_point_poll(poll->point);
    if (status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST) { /* keeps (4) */
        struct vr_transfer_count count = {.metrics = NULL};
        vr_mutex_lock(&readback->lock);
        uint64_t bytes = frame->bytes;
        if (frame->state == VR_FRAME_IN_FLIGHT && frame->number == poll->number) {
            frame_arrive(readback, frame, status, &count);
        }
        vr_mutex_unlock(&readback->lock);
        vr_transfer_end(&count, bytes, status);
        return VRAM_OK;
    }
    return status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
}

static vram_status poll_settling(struct vr_readback *readback, struct vr_frame *frame) {
    vram_status status = vr_slot_settled(&frame->memory);
    vr_mutex_lock(&readback->lock);
    frame->state = status == VRAM_OK ? VR_FRAME_IDLE : VR_FRAME_SETTLING;
    vr_mutex_unlock(&readback->lock);
    return status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
}

vram_status vr_readback_refresh(struct vr_readback *readback, struct vram_error *trouble) {
    struct slot_poll polls[VRAM_READBACK_SLOTS_MAX];
    struct vram_error before;
    vram_status first = VRAM_OK;
    vr_error_save(&before);
    uint32_t count = collect_polls(readback, polls);
    for (uint32_t i = 0; i < count; i++) {
        struct vr_frame *frame = &readback->frames[i];
        vram_status status = VRAM_OK;
        if (polls[i].state == VR_FRAME_IN_FLIGHT) {
            status = poll_in_flight(readback, frame, &polls[i]);
        } else if (polls[i].state == VR_FRAME_SETTLING) {
            status = poll_settling(readback, frame);
        }
        if (status != VRAM_OK && first == VRAM_OK) {
            first = status;
            vr_error_save(trouble);
        }
    }
    vr_error_restore(&before);
    return first;
}

/* --------------------------------------------------------------- one by number */

/* The slot that has frame `number`, or with 0 the last frame; under the lock. */
static vram_status find_frame(struct vr_readback *readback, uint64_t number,
                              struct vr_frame **found) {
    uint64_t wanted = number ? number : readback->stats.started;
    if (wanted == 0 || wanted > readback->stats.started) {
        return vr_fail(VRAM_ERR_INVALID, "frame %llu was never started",
                       (unsigned long long)number);
    }
    for (uint32_t i = 0; i < readback->count; i++) {
        struct vr_frame *frame = &readback->frames[i];
        if (frame->number == wanted && frame->state >= VR_FRAME_IN_FLIGHT &&
            frame->state <= VR_FRAME_FAILED) {
            *found = frame;
            return VRAM_OK;
        }
    }
    return vr_fail(VRAM_ERR_STALE, "frame %llu was overwritten or released",
                   (unsigned long long)wanted);
}

/* The status of a frame, and its point while it is in flight, else none. */
static vram_status frame_status(struct vr_readback *readback, uint64_t number, vram_point *point) {
    struct vr_frame *frame = NULL;
    *point = (vram_point){NULL, 0};
    vr_mutex_lock(&readback->lock);
    vram_status status = find_frame(readback, number, &frame);
    if (status == VRAM_OK && frame->state == VR_FRAME_IN_FLIGHT) {
        *point = frame->point;
        status = VRAM_ERR_NOT_READY;
    } else if (status == VRAM_OK && frame->state == VR_FRAME_FAILED) {
        status = frame->error.status;
        vr_error_restore(&frame->error);
    }
    vr_mutex_unlock(&readback->lock);
    return status;
}

vram_status vram_readback_poll(vram_readback *handle, uint64_t number) {
    VR_CALL;
    struct vr_readback *readback = NULL;
    struct vram_error trouble;
    vram_point point;
    vram_status status = vr_readback_enter(handle, &readback);
    if (status != VRAM_OK) {
        return status;
    }
    vram_status asked = vr_readback_refresh(readback, &trouble);
    status = frame_status(readback, number, &point);
    if (status == VRAM_ERR_NOT_READY && asked != VRAM_OK) {
        status = asked; /* keeps (4) */
        vr_error_restore(&trouble);
    }
    vr_leave(readback);
    return status;
}

/* Waits for a frame, and counts that as waiting time of the program. */
static vram_status wait_for(struct vr_readback *readback, vram_point point, uint64_t timeout) {
    uint64_t began = vr_clock_now();
    vram_status status = vr_point_wait(point, timeout);
    vr_transfer_waited(readback->device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK,
                       vr_clock_now() - began);
    return status;
}

vram_status vram_readback_wait(vram_readback *handle, uint64_t number, uint64_t timeout) {
    VR_CALL;
    struct vr_readback *readback = NULL;
    struct vram_error trouble;
    vram_point point;
    vram_status status = vr_readback_enter(handle, &readback);
    if (status != VRAM_OK) {
        return status;
    }
    status = frame_status(readback, number, &point);
    if (status == VRAM_ERR_NOT_READY) {
        status = wait_for(readback, point, timeout);
        (void)vr_readback_refresh(readback, &trouble);
    }
    vr_leave(readback);
    return status;
}

vram_status vram_readback_point(vram_readback *handle, uint64_t number, vram_point *point) {
    VR_CALL;
    struct vr_readback *readback = NULL;
    vram_point found;
    if (!point) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the point is NULL");
    }
    vram_status status = vr_readback_enter(handle, &readback);
    if (status != VRAM_OK) {
        return status;
    }
    status = frame_status(readback, number, &found);
    if (status == VRAM_OK || status == VRAM_ERR_NOT_READY) {
        *point = found;
        status = VRAM_OK;
    }
    vr_leave(readback);
    return status;
}

vram_status vram_readback_async(vram_readback *handle, uint64_t number, vram_async *async) {
    VR_CALL;
    struct vr_readback *readback = NULL;
    vram_point point;
    if (!async) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the handle is NULL");
    }
    vram_status status = vr_readback_enter(handle, &readback);
    if (status != VRAM_OK) {
        return status;
    }
    status = frame_status(readback, number, &point);
    if (status == VRAM_OK || status == VRAM_ERR_NOT_READY) {
        status = vr_async_of_point(point, "vram_readback_start", async);
    }
    vr_leave(readback);
    return status;
}

/* ------------------------------------------------------------------ borrowing */

/* Under the lock; keeps (3). */
static void frame_borrow(struct vr_readback *readback, struct vr_frame *from, vram_frame *frame) {
    from->readers++;
    from->seen = true;
    *frame = (vram_frame){.data = from->memory.host,
                          .bytes = from->bytes,
                          .number = from->number,
                          .slot = (uint32_t)(from - readback->frames),
                          .mode = from->mode,
                          .pinned = from->memory.pinned};
}

/* The newest frame in a state; NULL: none. Under the lock. */
static struct vr_frame *newest_frame(struct vr_readback *readback, enum vr_frame_state state) {
    struct vr_frame *best = NULL;
    for (uint32_t i = 0; i < readback->count; i++) {
        struct vr_frame *frame = &readback->frames[i];
        if (frame->state == state && (!best || frame->number > best->number)) {
            best = frame;
        }
    }
    return best;
}

vram_status vram_readback_latest(vram_readback *handle, vram_frame *frame) {
    VR_CALL;
    struct vr_readback *readback = NULL;
    struct vram_error trouble;
    if (!frame) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the frame is NULL");
    }
    vram_status status = vr_readback_enter(handle, &readback);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_readback_refresh(readback, &trouble);
    vr_mutex_lock(&readback->lock);
    struct vr_frame *found = newest_frame(readback, VR_FRAME_DONE);
    struct vr_frame *failed = newest_frame(readback, VR_FRAME_FAILED);
    if (found) {
        frame_borrow(readback, found, frame);
        status = VRAM_OK;
    } else if (failed) {
        vr_error_restore(&failed->error);
        status = failed->error.status;
    } else if (status != VRAM_OK) {
        vr_error_restore(&trouble);
    } else {
        status = VRAM_ERR_NOT_READY;
    }
    vr_mutex_unlock(&readback->lock);
    vr_leave(readback);
    return status;
}

/* The oldest frame that was not given out; under the lock. */
static struct vr_frame *oldest_undelivered(struct vr_readback *readback) {
    struct vr_frame *best = NULL;
    for (uint32_t i = 0; i < readback->count; i++) {
        struct vr_frame *frame = &readback->frames[i];
        if (frame->state >= VR_FRAME_IN_FLIGHT && frame->state <= VR_FRAME_FAILED &&
            frame->number > readback->delivered && (!best || frame->number < best->number)) {
            best = frame;
        }
    }
    return best;
}

/* VRAM_ERR_BUSY: it is in flight until *point has passed. */
static vram_status take_next(struct vr_readback *readback, vram_frame *frame, vram_point *point) {
    vram_status status = VRAM_OK;
    vr_mutex_lock(&readback->lock);
    struct vr_frame *found = oldest_undelivered(readback);
    if (!found) {
        status = VRAM_ERR_NOT_READY;
    } else if (found->state == VR_FRAME_IN_FLIGHT) {
        *point = found->point;
        status = VRAM_ERR_BUSY;
    } else {
        readback->delivered = found->number;
        found->delivered = true;
        if (found->state == VR_FRAME_FAILED) {
            vr_error_restore(&found->error);
            status = found->error.status;
        } else {
            frame_borrow(readback, found, frame);
        }
    }
    vr_mutex_unlock(&readback->lock);
    return status;
}

vram_status vram_readback_next(vram_readback *handle, uint64_t timeout, vram_frame *frame) {
    VR_CALL;
    struct vr_readback *readback = NULL;
    struct vram_error before, trouble;
    vram_point point = {NULL, 0};
    if (!frame) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the frame is NULL");
    }
    vram_status status = vr_readback_enter(handle, &readback);
    if (status != VRAM_OK) {
        return status;
    }
    vr_error_save(&before);
    uint64_t deadline = vr_wait_deadline(readback->device->context, timeout);
    for (;;) {
        (void)vr_readback_refresh(readback, &trouble);
        vr_error_restore(&before);
        status = take_next(readback, frame, &point);
        if (status != VRAM_ERR_BUSY) {
            break;
        }
        status = wait_for(readback, point, vr_deadline_left(deadline));
        if (status != VRAM_OK && status != VRAM_ERR_DEVICE_LOST) {
            break; /* the frame itself reports the loss, once */
        }
    }
    vr_leave(readback);
    return status;
}

vram_status vram_readback_release(vram_readback *handle, uint64_t number) {
    VR_CALL;
    struct vr_readback *readback = NULL;
    struct vr_frame *frame = NULL;
    vram_status status = vr_readback_enter(handle, &readback);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&readback->lock);
    for (uint32_t i = 0; i < readback->count && !frame; i++) {
        bool is_it = readback->frames[i].number == number && readback->frames[i].readers > 0;
        frame = is_it ? &readback->frames[i] : NULL;
    }
    if (frame) {
        frame->readers--;
        if (frame->readers == 0 && frame->delivered && readback->policy == VRAM_READBACK_EVERY) {
            frame->state = VR_FRAME_IDLE;
        }
    }
    vr_mutex_unlock(&readback->lock);
    vr_leave(readback);
    return frame ? VRAM_OK
                 : vr_fail(VRAM_ERR_INVALID, "frame %llu is not borrowed",
                           (unsigned long long)number);
}

vram_status vram_readback_stats_get(vram_readback *handle, vram_readback_stats *stats) {
    VR_CALL;
    struct vr_readback *readback = NULL;
    struct vram_error trouble;
    vram_status status = vr_readback_enter(handle, &readback);
    if (status != VRAM_OK) {
        return status;
    }
    (void)vr_readback_refresh(readback, &trouble);
    vr_mutex_lock(&readback->lock);
    struct vram_readback_stats found = readback->stats;
    vr_mutex_unlock(&readback->lock);
    status = vr_info_give(stats, &found, sizeof found, sizeof found);
    vr_leave(readback);
    return status;
}

/* --------------------------------------------------------------------- ending */

/* Destroys the transfer queue and frees the memory; no other call is inside. VRAM_ERR_TIMEOUT when
   a transfer does not end: its memory stays until the device is closed. A second call does
   nothing. */
static vram_status readback_release_all(struct vr_readback *readback) {
    VR_OPERATION("vram_readback_destroy");
    bool over = true, waits = !vr_load(&readback->closing, VR_ACQUIRE);
    uint64_t deadline = vr_deadline_in(waits ? readback->device->context->wait_ns : 0);
    struct vr_queue_object *queue =
        readback->transfer ? vr_handle_pin(VR_KIND_QUEUE, readback->transfer) : NULL;
    struct vram_error error;
    vr_error_save(&error);
    if (queue) { /* first: it ends when its work has ended, even if that work could not be marked */
        vram_status status = vr_queue_destroy_by(queue, deadline);
        over = status == VRAM_OK || status == VRAM_ERR_STALE; /* STALE: see the slots */
        vr_leave(queue);
    }
    readback->transfer = NULL;
    for (uint32_t i = 0; i < readback->count; i++) {
        struct vr_frame *frame = &readback->frames[i];
        bool settled = vr_slot_end(&frame->memory, vr_readback_device(readback), deadline);
        vr_transfer_end(&frame->count, frame->bytes, settled ? VRAM_OK : VRAM_ERR_TIMEOUT);
        over = over && settled;
    }
    vr_error_restore(&error);
    return over ? VRAM_OK
                : vr_fail(VRAM_ERR_TIMEOUT,
                          "a transfer of the readback is unfinished; its memory is kept until the "
                          "device is closed");
}

/* The destructor, also of a half-built readback: no call is inside any more. */
static void readback_free(void *memory) {
    struct vr_readback *readback = memory;
    uint64_t device = readback->device->object.handle;
    if (!vr_exiting()) {
        (void)readback_release_all(readback);
    }
    vr_mutex_destroy(&readback->lock);
    vr_mem_free(readback);
    vr_handle_unpin(device);
}

/* A call that is inside, in another thread or further up this one's stack, leaves the rest to the
   destructor. */
static vram_status readback_end(void *object) {
    struct vr_readback *readback = object;
    vr_mutex_lock(&readback->device->lock);
    vr_link_remove(&readback->watcher.link);
    vr_mutex_unlock(&readback->device->lock);
    return vr_handle_is_last(readback->object.handle) ? readback_release_all(readback) : VRAM_OK;
}

static void device_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_readback *readback = VR_CONTAINER(watcher, struct vr_readback, watcher);
    (void)finished; /* points tell which slots are not finished */
    vr_store(&readback->closing, true, VR_RELEASE);
    vr_object_parent_ended(&readback->object, readback_end);
}

static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    (void)watcher, (void)queue, (void)finished;
}

vram_status vram_readback_destroy(vram_readback *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_READBACK, handle, readback_end, NULL);
}

/* ------------------------------------------------------------------- creating */

vram_status vr_readback_enter(vram_readback *handle, struct vr_readback **readback) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_READBACK, handle, &entered);
    if (status == VRAM_OK) {
        *readback = entered;
    }
    return status;
}

static vram_status read_options(const struct vram_readback_options *options,
                                struct vram_readback_options *taken) {
    vram_status status = vr_options_take(taken, sizeof *taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    taken->slots = taken->slots ? taken->slots : 2;
    if (taken->slots < 2 || taken->slots > VRAM_READBACK_SLOTS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "a readback has 2 to %d slots, not %u",
                       VRAM_READBACK_SLOTS_MAX, taken->slots);
    }
    if ((unsigned)taken->mode > VRAM_READBACK_STEADY ||
        (unsigned)taken->policy > VRAM_READBACK_EVERY) {
        return vr_fail(
            VRAM_ERR_INVALID,
            "mode %d is not a vram_readback_mode, or policy %d not a vram_readback_policy",
            (int)taken->mode, (int)taken->policy);
    }
    return VRAM_OK;
}

/* Creates the queue, and allocates the memory that was asked for in advance. */
static vram_status readback_setup(struct vr_readback *readback,
                                  const struct vram_readback_options *options) {
    struct vram_queue_options queue = {.size = sizeof queue, .priority = options->priority};
    vram_device *device = vr_readback_device(readback);
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_queue_make(device, &queue, &readback->transfer);
    for (uint32_t i = 0; i < readback->count && options->bytes && status == VRAM_OK; i++) {
        struct vr_frame_slot *slot = &readback->frames[i].memory;
        status = vr_slot_reserve_host(slot, device, options->bytes);
        if (status == VRAM_OK && readback->mode == VRAM_READBACK_SNAPSHOT) {
            status = vr_slot_reserve_shadow(slot, device, options->bytes);
            if (vr_status_is_exhausted(status)) {
                vr_error_restore(&error);
                status = VRAM_OK;
            }
        }
        readback->stats.host_bytes += slot->host_bytes;
        readback->stats.pinned_bytes += slot->pinned ? slot->host_bytes : 0;
        readback->stats.device_bytes += slot->shadow_bytes;
    }
    return status;
}

/* `device` is entered. */
static vram_status readback_create(struct vr_device_object *device,
                                   const struct vram_readback_options *options,
                                   vram_readback **out) {
    struct vr_readback *readback = vr_mem_alloc(
        1, sizeof *readback + options->slots * sizeof readback->frames[0], vr_operation());
    if (!readback) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&readback->lock, VR_RANK_SLOTS);
    readback->object.process = vr_os_process_generation();
    readback->watcher.closing = device_closing;
    readback->watcher.queue_ended = queue_ended;
    readback->device = device;
    readback->mode = options->mode;
    readback->policy = options->policy;
    readback->count = options->slots;
    vr_handle_ref(device->object.handle);
    vram_status status = readback_setup(readback, options);
    if (status == VRAM_OK) {
        status =
            vr_handle_publish(VR_KIND_READBACK, readback, readback_free, &readback->object.handle);
    }
    if (status != VRAM_OK) {
        readback_free(readback);
        return status;
    }
    uint64_t handle = readback->watcher.handle = readback->object.handle;
    status = vr_device_list_watcher(device, &readback->watcher);
    if (status != VRAM_OK) {
        vr_handle_retire(handle);
        vr_handle_unpin(handle);
        return status;
    }
    *out = (vram_readback *)(uintptr_t)handle;
    return VRAM_OK;
}

vram_status vram_readback_create(vram_device *handle, const vram_readback_options *options,
                                 vram_readback **readback) {
    VR_CALL;
    struct vram_readback_options taken;
    void *device;
    if (!readback) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the readback is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = read_options(options, &taken);
    if (status == VRAM_OK) {
        status = readback_create(device, &taken, readback);
    }
    vr_leave(device);
    return status;
}
