/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async_record.c: one piece of work in flight, from its beginning until no handle refers to it. The
 * invariants are those of flight.h.
 */
#include "xfer/async_record.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "xfer/flight.h"

#include <assert.h>

_Static_assert(sizeof(vram_async) == 32, "a handle has 32 bytes");

enum {
    SLICE_NS = 2000000 /* a wait for a producer checks the clock this often */
};

/* The failure of a FAILED record; NULL: there was no memory for it. */
static struct vram_error *error_of(struct vr_async *record) {
    return (struct vram_error *)(uintptr_t)vr_load(&record->outcome, VR_ACQUIRE);
}

static void record_free(void *memory) {
    struct vr_async *record = memory;
    struct vr_flight *flight = record->flight;
    assert(!record->last);
    if (vr_load(&record->state, VR_ACQUIRE) == VR_ASYNC_FAILED) {
        vr_mem_free(error_of(record));
    }
    vr_mutex_lock(&flight->lock);
    vr_link_remove(&record->link);
    vr_mutex_unlock(&flight->lock);
    vr_mem_free(record);
    vr_leave(flight);
}

/* Drops the owner's reference, once. */
static void record_retire(struct vr_async *record) {
    uint64_t handle = record->object.handle;
    if (vr_handle_retire(handle)) {
        vr_handle_unpin(handle);
    }
}

/* Whether the device is lost, or was lost when it closed. */
static bool is_device_lost(struct vr_flight *flight) {
    vr_mutex_lock(&flight->lock);
    bool lost = flight->device ? vr_load(&flight->device->base.lost, VR_ACQUIRE) : flight->lost;
    vr_mutex_unlock(&flight->lock);
    return lost;
}

/* The flight's device with a reference that vr_leave drops; NULL once it has closed. Under the
   lock. */
static struct vr_device_object *device_of(struct vr_flight *flight) {
    struct vr_device_object *device = flight->device;
    if (device) {
        vr_handle_ref(device->object.handle); /* the flight has a reference */
    }
    return device;
}

/* A failure under the name of the program's call, with the name of the driver call that caused it.
   NULL if there is no memory for it. No lock held. */
static struct vram_error *failure_make(const struct vr_async *record, vram_status status,
                                       const struct vram_error *cause) {
    struct vram_error kept, taken = cause ? *cause : (struct vram_error){.status = VRAM_OK};
    vr_error_save(&kept);
    struct vram_error *made = vr_mem_alloc(1, sizeof *made, record->operation);
    bool known = taken.status == status;
    bool driver = known && taken.operation[0] && taken.backend[0];
    if (made) {
        vr_error_set(status, known ? taken.backend : "", record->operation,
                     known ? taken.native_code : 0, "%s%s%s", driver ? taken.operation : "",
                     driver ? ": " : "", known ? taken.text : vr_status_text(status));
        vr_error_save(made);
    }
    vr_error_restore(&kept);
    return made;
}

/* Makes the failure of a FAILED record the thread's error record. */
static vram_status failure_restore(struct vr_async *record) {
    const struct vram_error *error = error_of(record);
    vram_status status = (vram_status)record->status;
    if (error) {
        vr_error_restore(error);
        return status;
    }
    return vr_fail_in(status, record->operation, "%s", vr_status_text(status));
}

/* The transfer that a record counts, to be ended while `device` is pinned. */
static struct vr_transfer_count count_of(const struct vr_async *record,
                                         struct vr_device_object *device) {
    return (struct vr_transfer_count){.metrics = vr_load(&device->transfers, VR_ACQUIRE),
                                      .start_ns = record->start_ns,
                                      .direction = record->direction,
                                      .route = record->route,
                                      .busy = record->busy};
}

/* Takes the callbacks off the record, in the order of registration. */
static struct vr_callback *callbacks_take(struct vr_async *record) {
    struct vr_callback *list = NULL;
    for (struct vr_callback *callback; (callback = record->last);) {
        record->last = callback->next;
        callback->next = list;
        list = callback;
    }
    return list;
}

/* Keeps (1): with no lock held. */
static void call_back(struct vr_async *record, struct vr_callback *callback, vram_status status) {
    VR_UNCANCELLED;
    while (callback) {
        struct vr_callback *next = callback->next;
        if (status != VRAM_OK) {
            (void)failure_restore(record);
        }
        callback->call(callback->user, status);
        vr_mem_free(callback);
        callback = next;
    }
}

/* Keeps (1) to (4). The caller has a reference. */
void vr_async_settle(struct vr_async *record, vram_status status, const struct vram_error *cause) {
    struct vr_flight *flight = record->flight;
    struct vram_error *error = status != VRAM_OK ? failure_make(record, status, cause) : NULL;
    struct vr_transfer_count count = {0};
    struct vram_error kept;
    vr_mutex_lock(&flight->lock);
    if (vr_load(&record->state, VR_RELAXED) >= VR_ASYNC_READY) {
        vr_mutex_unlock(&flight->lock);
        vr_mem_free(error);
        return;
    }
    bool stays = (status != VRAM_OK || record->late) && !record->ended;
    struct vr_callback *callbacks = callbacks_take(record);
    struct vr_device_object *device = record->counted ? device_of(flight) : NULL;
    if (device) {
        count = count_of(record, device);
    }
    uint64_t bytes = vr_load(&record->outcome, VR_RELAXED);
    record->counted = false;
    vr_link_remove(&record->link);
    vr_list_append(&flight->settled, &record->link);
    if (status != VRAM_OK) {
        record->status = (int32_t)status;
        vr_store(&record->outcome, (uintptr_t)error, VR_RELEASE);
    }
    vr_store(&record->state, status == VRAM_OK ? VR_ASYNC_READY : VR_ASYNC_FAILED, VR_RELEASE);
    vr_cond_broadcast(&flight->changed);
    stays = stays && !flight->done;
    vr_mutex_unlock(&flight->lock);
    if (device) {
        vr_transfer_end(&count, bytes, status);
        vr_leave(device);
    }
    vr_error_save(&kept);
    if (status != VRAM_OK) {
        vr_log(VRAM_LOG_WARN, "%s failed: %s", record->operation,
               error ? error->text : vr_status_text(status));
    }
    call_back(record, callbacks, status);
    vr_error_restore(&kept);
    if (!stays) {
        record_retire(record);
    }
}

static vram_status record_status(struct vr_async *record) {
    switch (vr_load(&record->state, VR_ACQUIRE)) {
    case VR_ASYNC_READY:
        return VRAM_OK;
    case VR_ASYNC_FAILED:
        return failure_restore(record);
    default:
        return VRAM_ERR_NOT_READY;
    }
}

/* Settles by what polling the point returned: keeps (5) and (6). */
vram_status vr_async_conclude(struct vr_async *record, vram_status status) {
    if (status == VRAM_OK && vr_handle_was(VR_KIND_QUEUE, record->point.queue) &&
        is_device_lost(record->flight)) {
        status = vr_fail_in(VRAM_ERR_DEVICE_LOST, record->operation,
                            "the device was lost before the work was known to have ended");
    }
    if (status != VRAM_OK && status != VRAM_ERR_DEVICE_LOST) {
        return status;
    }
    vr_async_settle(record, status, status == VRAM_OK ? NULL : vr_error_get());
    return record_status(record);
}

vram_status vr_async_check(struct vr_async *record) {
    if (vr_load(&record->state, VR_ACQUIRE) != VR_ASYNC_FOLLOWING) {
        return record_status(record);
    }
    return vr_async_conclude(record, vr_point_poll(record->point));
}

static void wait_for_producer(struct vr_async *record, uint64_t deadline) {
    struct vr_flight *flight = record->flight;
    vr_mutex_lock(&flight->lock);
    if (vr_load(&record->state, VR_RELAXED) == VR_ASYNC_HELD) {
        uint64_t left = vr_deadline_left(deadline);
        (void)vr_cond_wait(&flight->changed, &flight->lock, left < SLICE_NS ? left : SLICE_NS);
    }
    vr_mutex_unlock(&flight->lock);
}

uint64_t vr_async_deadline(const struct vr_async *record, uint64_t timeout) {
    return vr_wait_deadline(record->flight->context, timeout);
}

static vram_status wait_for(struct vr_async *record, uint64_t timeout) {
    VR_OPERATION("vram_async_wait");
    uint64_t deadline = vr_async_deadline(record, timeout);
    vram_status status;
    while ((status = vr_async_check(record)) == VRAM_ERR_NOT_READY) {
        if (vr_exiting()) {
            return vr_fail(VRAM_ERR_SHUTDOWN, "the process is exiting");
        }
        if (vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_TIMEOUT, "%s had not ended when the deadline passed",
                           record->operation);
        }
        uint64_t poll_ns = vr_load(&record->poll_us, VR_RELAXED) * UINT64_C(1000);
        uint64_t left = vr_deadline_left(deadline);
        if (vr_load(&record->state, VR_ACQUIRE) != VR_ASYNC_FOLLOWING) {
            wait_for_producer(record, deadline);
        } else if (poll_ns) {
            vr_clock_sleep(poll_ns < left ? poll_ns : left);
        } else if ((status = vr_point_wait(record->point, left)) != VRAM_ERR_TIMEOUT) {
            return vr_async_conclude(record, status);
        }
    }
    return status;
}

/* Counts the time that a thread waits for a transfer with that transfer. */
vram_status vr_async_wait(struct vr_async *record, uint64_t timeout) {
    vr_mutex_lock(&record->flight->lock);
    struct vr_device_object *device = record->counted ? device_of(record->flight) : NULL;
    vram_transfer_direction direction = (vram_transfer_direction)record->direction;
    vram_transfer_route route = (vram_transfer_route)record->route;
    vr_mutex_unlock(&record->flight->lock);
    uint64_t before = device ? vr_clock_now() : 0;
    vram_status status = wait_for(record, timeout);
    if (device) {
        vr_transfer_waited(device, direction, route, vr_clock_now() - before);
        vr_leave(device);
    }
    return status;
}

/* ---------------------------------------------------------------- beginning */

vram_status vr_async_make(struct vr_flight *flight, uint64_t result, vram_point point,
                          struct vr_async **made) {
    struct vr_async *record = vr_mem_alloc(1, sizeof *record, vr_operation());
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    record->object.process = vr_os_process_generation();
    record->flight = flight;
    record->operation = vr_operation();
    record->point = point;
    vr_store(&record->outcome, result, VR_RELAXED);
    vr_store(&record->state, point.queue ? VR_ASYNC_FOLLOWING : VR_ASYNC_HELD, VR_RELAXED);
    vr_handle_ref(flight->object.handle);
    vram_status status =
        vr_handle_publish(VR_KIND_ASYNC, record, record_free, &record->object.handle);
    if (status != VRAM_OK) {
        vr_mem_free(record);
        vr_leave(flight);
        return status;
    }
    vr_handle_ref(record->object.handle);
    vr_mutex_lock(&flight->lock);
    bool closed = flight->closed;
    if (!closed) {
        vr_list_append(&flight->pending, &record->link);
    }
    vr_mutex_unlock(&flight->lock);
    if (closed) {
        record_retire(record);
        vr_leave(record);
        return vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed");
    }
    *made = record;
    return VRAM_OK;
}

/* ---------------------------------------------------------------- producers */

void vr_async_finish(struct vr_async *record, vram_status status) {
    vr_async_settle(record, status, vr_error_get());
    vr_leave(record);
}

void vr_async_finish_value(struct vr_async *record, uint64_t result) {
    vr_mutex_lock(&record->flight->lock);
    record->late = true;
    vr_store(&record->outcome, result, VR_RELEASE);
    vr_mutex_unlock(&record->flight->lock);
    vr_async_settle(record, VRAM_OK, NULL);
    vr_leave(record);
}

void vr_async_follow(struct vr_async *record, uint64_t queue, uint64_t value) {
    vr_mutex_lock(&record->flight->lock);
    assert(vr_load(&record->state, VR_RELAXED) == VR_ASYNC_HELD);
    record->point = (vram_point){(vram_queue *)(uintptr_t)queue, value};
    vr_store(&record->state, VR_ASYNC_FOLLOWING, VR_RELEASE);
    vr_cond_broadcast(&record->flight->changed);
    bool closed = record->flight->closed;
    vr_mutex_unlock(&record->flight->lock);
    if (closed) { /* the flight gets no notification any more when the queue ends */
        (void)vr_async_check(record);
    }
    vr_leave(record);
}

/* ------------------------------------------------------------------ async.c */

vram_status vr_async_enter(const vram_async *async, struct vr_async **record) {
    void *handle, *entered;
    *record = NULL;
    if (!async) {
        return vr_fail(VRAM_ERR_INVALID, "the handle is NULL");
    }
    handle = (void *)(uintptr_t)async->word[VR_ASYNC_RECORD];
    if (!handle || vr_handle_was(VR_KIND_ASYNC, handle)) {
        return VRAM_OK;
    }
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_enter(VR_KIND_ASYNC, handle, &entered);
    if (status == VRAM_ERR_STALE) {
        vr_error_restore(&error);
        return VRAM_OK; /* it was freed between the two checks */
    }
    if (status == VRAM_OK) {
        *record = entered;
    }
    return status;
}

void vr_async_poll_interval(const vram_async *async, uint64_t ns) {
    struct vr_async *record =
        vr_handle_pin(VR_KIND_ASYNC, (void *)(uintptr_t)async->word[VR_ASYNC_RECORD]);
    if (record) {
        uint64_t us = ns / 1000 + (ns % 1000 != 0);
        vr_store(&record->poll_us, us < UINT32_MAX ? (uint32_t)us : UINT32_MAX, VR_RELAXED);
        vr_leave(record);
    }
}

void vr_async_count(const vram_async *async, struct vr_transfer_count *count) {
    struct vr_async *record =
        vr_handle_pin(VR_KIND_ASYNC, (void *)(uintptr_t)async->word[VR_ASYNC_RECORD]);
    bool taken = false;
    if (record) {
        vr_mutex_lock(&record->flight->lock);
        taken = vr_load(&record->state, VR_RELAXED) < VR_ASYNC_READY;
        if (taken && count->metrics) {
            assert(!record->flight->device ||
                   count->metrics == vr_load(&record->flight->device->transfers, VR_RELAXED));
            record->counted = true;
            record->start_ns = count->start_ns;
            record->direction = count->direction;
            record->route = count->route;
            record->busy = count->busy;
        }
        vr_mutex_unlock(&record->flight->lock);
        vr_leave(record);
    }
    if (!taken) {
        vr_transfer_end(count, async->word[VR_ASYNC_RESULT], VRAM_OK);
    }
    count->metrics = NULL;
}

void vr_async_leave(struct vr_async *record) {
    vr_leave(record);
}

void vr_async_error(struct vr_async *record, struct vram_error *error) {
    if (vr_load(&record->state, VR_ACQUIRE) == VR_ASYNC_FAILED) {
        struct vram_error kept;
        vr_error_save(&kept);
        (void)failure_restore(record);
        vr_error_save(error);
        vr_error_restore(&kept);
    }
}

uint64_t vr_async_result(struct vr_async *record) {
    return vr_load(&record->outcome, VR_ACQUIRE);
}

vram_status vr_async_then(struct vr_async *record, vram_async_fn *call, void *user, bool *over) {
    struct vr_callback *callback = vr_mem_alloc(1, sizeof *callback, vr_operation());
    if (!callback) {
        return VRAM_ERR_HOST_MEMORY;
    }
    *callback = (struct vr_callback){NULL, call, user};
    vr_mutex_lock(&record->flight->lock);
    *over = vr_load(&record->state, VR_RELAXED) >= VR_ASYNC_READY;
    bool ended = record->ended && !*over;
    if (!*over && !ended) {
        callback->next = record->last;
        record->last = callback;
    }
    vr_mutex_unlock(&record->flight->lock);
    if (*over || ended) {
        vr_mem_free(callback);
    }
    return ended ? vr_fail(VRAM_ERR_STALE, "the handle was ended") : VRAM_OK;
}

void vr_async_end(struct vr_async *record) {
    vr_mutex_lock(&record->flight->lock);
    record->ended = true;
    bool owed = vr_load(&record->state, VR_RELAXED) < VR_ASYNC_READY &&
                (record->last || record->counted); /* keeps (4) */
    vr_mutex_unlock(&record->flight->lock);
    if (!owed) {
        record_retire(record);
    }
}
