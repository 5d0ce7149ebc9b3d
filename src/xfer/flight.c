/* SPDX-License-Identifier: Apache-2.0 */
/* flight.c: the list of work in flight on one device, from its first record until its device, and
   then its context, closes. The invariants are those of flight.h. */
#include "xfer/flight.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "core/pool/pool_calls.h"
#include "device/device_calls.h"

#include <assert.h>

static void flight_free(void *memory) {
    struct vr_flight *flight = memory;
    uint64_t context = flight->context->object.handle;
    assert(vr_list_empty(&flight->pending) && vr_list_empty(&flight->settled));
    vr_cond_destroy(&flight->changed);
    vr_mutex_destroy(&flight->lock);
    vr_mem_free(flight);
    vr_handle_unpin(context);
}

/* Takes a reference to the first record of a list, on `queue` if that is not 0, that is still
   alive. */
static struct vr_async *first_of(struct vr_flight *flight, struct vr_list *list, uint64_t queue,
                                 bool following) {
    struct vr_async *found = NULL;
    vr_mutex_lock(&flight->lock);
    for (struct vr_link *link = vr_list_first(list); link && !found;
         link = vr_list_next(list, link)) {
        struct vr_async *record = VR_CONTAINER(link, struct vr_async, link);
        bool follows = vr_load(&record->state, VR_RELAXED) == VR_ASYNC_FOLLOWING;
        bool fits = (!following || follows) &&
                    (!queue || (follows && (uint64_t)(uintptr_t)record->point.queue == queue));
        found = fits && vr_handle_try_ref(record->object.handle) ? record : NULL;
    }
    vr_mutex_unlock(&flight->lock);
    return found;
}

/* Keeps (5): settles the records of a queue that has ended. Callbacks that no poll has made are
   made now. */
static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    struct vr_flight *flight = VR_CONTAINER(watcher, struct vr_flight, watcher);
    for (struct vr_async *record;
         finished && (record = first_of(flight, &flight->pending, queue, true));) {
        (void)vr_async_conclude(record, VRAM_OK);
        vr_leave(record);
    }
}

/* Frees records that were settled and kept. */
static void forget_settled(struct vr_flight *flight) {
    vr_mutex_lock(&flight->lock);
    flight->done = true;
    vr_mutex_unlock(&flight->lock);
    for (struct vr_async *record; (record = first_of(flight, &flight->settled, 0, false));) {
        vr_mutex_lock(&flight->lock);
        vr_link_remove(&record->link); /* others may still hold a reference */
        vr_mutex_unlock(&flight->lock);
        vr_async_end(record);
        vr_leave(record);
    }
}

static void context_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_flight *flight = VR_CONTAINER(watcher, struct vr_flight, watcher);
    (void)finished;
    vr_mutex_lock(&flight->context->lock);
    vr_link_remove(&watcher->link);
    vr_mutex_unlock(&flight->context->lock);
    forget_settled(flight);
    vr_handle_unpin(flight->object.handle); /* the owner's reference, kept by device_closing */
}

/* Keeps (3): false when the context is closing, too. */
static bool watch_context(struct vr_flight *flight) {
    vr_mutex_lock(&flight->lock);
    bool wanted = !vr_list_empty(&flight->settled) || !vr_list_empty(&flight->pending);
    vr_mutex_unlock(&flight->lock);
    vr_mutex_lock(&flight->context->lock);
    wanted = wanted && !flight->context->closing;
    if (wanted) {
        flight->watcher.closing = context_closing;
        vr_list_append(&flight->context->watchers, &flight->watcher.link);
    }
    vr_mutex_unlock(&flight->context->lock);
    return wanted;
}

/* Work that never ended fails: its device is closed. */
static void settle_left(struct vr_flight *flight) {
    for (struct vr_async *record; (record = first_of(flight, &flight->pending, 0, true));) {
        (void)vr_async_check(record);
        if (vr_load(&record->state, VR_ACQUIRE) == VR_ASYNC_FOLLOWING) {
            vr_fail_in(VRAM_ERR_SHUTDOWN, record->operation,
                       "the device was closed before the work had ended");
            vr_async_settle(record, VRAM_ERR_SHUTDOWN, vr_error_get());
        }
        vr_leave(record);
    }
}

static void device_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_flight *flight = VR_CONTAINER(watcher, struct vr_flight, watcher);
    (void)finished;
    if (!vr_handle_retire(flight->object.handle)) {
        return; /* flight_list retires it, because another thread's flight was first */
    }
    struct vr_device_object *device = flight->device;
    vr_mutex_lock(&device->lock);
    vr_link_remove(&watcher->link);
    vr_mutex_unlock(&device->lock);
    vr_mutex_lock(&flight->lock);
    flight->closed = true;
    vr_mutex_unlock(&flight->lock);
    settle_left(flight);
    vr_mutex_lock(&flight->lock);
    flight->lost = vr_load(&device->base.lost, VR_ACQUIRE);
    flight->device = NULL;
    vr_mutex_unlock(&flight->lock);
    vr_handle_unpin(device->object.handle);
    if (!watch_context(flight)) {
        forget_settled(flight);
        vr_handle_unpin(flight->object.handle);
    }
}

static struct vr_flight *flight_make(struct vr_device_object *device) {
    struct vr_flight *flight = vr_mem_alloc(1, sizeof *flight, vr_operation());
    if (!flight) {
        return NULL;
    }
    if (vr_cond_init(&flight->changed) != VRAM_OK) {
        vr_mem_free(flight);
        return NULL;
    }
    vr_mutex_init(&flight->lock, VR_RANK_ASYNC);
    vr_list_init(&flight->pending);
    vr_list_init(&flight->settled);
    flight->object.process = vr_os_process_generation();
    flight->context = device->context;
    flight->device = device;
    flight->watcher.queue_ended = queue_ended;
    flight->watcher.closing = device_closing;
    vr_handle_ref(device->context->object.handle);
    return flight;
}

/* Adds a published flight to the device, unless another thread's was first. The device may close
   meanwhile. */
static vram_status flight_list(struct vr_flight *flight) {
    struct vr_device_object *device = flight->device;
    uint64_t handle = flight->object.handle, none = 0;
    vr_handle_ref(handle);
    vr_handle_ref(device->object.handle);
    vram_status status = vr_device_list_watcher(device, &flight->watcher);
    if (status != VRAM_OK || !vr_cas(&device->flight, &none, handle, VR_ACQ_REL)) {
        vr_mutex_lock(&device->lock);
        vr_link_remove(&flight->watcher.link);
        vr_mutex_unlock(&device->lock);
        if (vr_handle_retire(handle)) { /* else device_closing has done it */
            vr_mutex_lock(&flight->lock);
            flight->device = NULL;
            vr_mutex_unlock(&flight->lock);
            vr_handle_unpin(device->object.handle);
            vr_handle_unpin(handle);
        }
    }
    vr_handle_unpin(handle);
    return status;
}

struct vr_flight *vr_flight_enter(struct vr_device_object *device) {
    uint64_t handle = vr_load(&device->flight, VR_ACQUIRE);
    if (!handle) {
        struct vr_flight *made = flight_make(device);
        if (!made) {
            return NULL;
        }
        if (vr_handle_publish(VR_KIND_FLIGHT, made, flight_free, &made->object.handle) != VRAM_OK) {
            flight_free(made);
            return NULL;
        }
        made->watcher.handle = made->object.handle;
        if (flight_list(made) != VRAM_OK) {
            return NULL;
        }
        handle = vr_load(&device->flight, VR_ACQUIRE);
    }
    struct vr_flight *flight = vr_handle_pin(VR_KIND_FLIGHT, (void *)(uintptr_t)handle);
    if (!flight) {
        vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed");
    }
    return flight;
}

/* ---------------------------------------------------------------- beginning */

enum { POLLS_PER_BEGIN = 2 }; /* records polled when one begins: keeps (7) */

/* Keeps (7): reads one word, no driver call. */
static void poll_oldest(struct vr_flight *flight) {
    struct vr_async *record = NULL;
    vr_mutex_lock(&flight->lock);
    struct vr_link *link = vr_list_first(&flight->pending);
    if (link) {
        vr_link_remove(link);
        vr_list_append(&flight->pending, link);
        record = VR_CONTAINER(link, struct vr_async, link);
        bool fits = vr_load(&record->state, VR_RELAXED) == VR_ASYNC_FOLLOWING && !record->last;
        record = fits && vr_handle_try_ref(record->object.handle) ? record : NULL;
    }
    vr_mutex_unlock(&flight->lock);
    if (!record) {
        return;
    }
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, record->point.queue);
    bool passed = !queue || vr_queue_passed(queue, record->point.value);
    if (queue) {
        vr_leave(queue);
    }
    if (passed) {
        (void)vr_async_conclude(record, VRAM_OK);
    }
    vr_leave(record);
}

static vram_status record_begin(struct vr_device_object *device, uint64_t result, vram_point point,
                                vram_async *async, struct vr_async **record) {
    struct vram_error kept;
    struct vr_async *made = NULL;
    struct vr_flight *flight = vr_flight_enter(device);
    if (!flight) {
        return vr_error_get()->status;
    }
    vr_error_save(&kept);
    for (int i = 0; i < POLLS_PER_BEGIN; i++) {
        poll_oldest(flight);
    }
    vr_error_restore(&kept);
    vram_status status = vr_async_make(flight, result, point, &made);
    vr_leave(flight);
    if (status == VRAM_OK) {
        *async = (vram_async){
            {(uint64_t)(uintptr_t)point.queue, point.value, made->object.handle, result}};
        *record = made;
    }
    return status;
}

vram_status vr_async_begin(struct vr_device_object *device, uint64_t result, vram_async *async,
                           struct vr_async **record) {
    return record_begin(device, result, (vram_point){0}, async, record);
}

vram_status vr_async_of_value(struct vr_queue_object *queue, uint64_t value, uint64_t result,
                              vram_async *async) {
    vram_point point = {(vram_queue *)(uintptr_t)queue->object.handle, value};
    struct vr_async *record = NULL;
    if (vr_queue_passed(queue, value)) {
        *async = (vram_async){{queue->object.handle, value, 0, result}};
        return VRAM_OK;
    }
    vram_status status = record_begin(queue->device, result, point, async, &record);
    if (status == VRAM_OK) {
        vr_leave(record);
    }
    return status;
}

uint64_t vr_async_check_all(struct vr_device_object *device) {
    uint64_t handle = vr_load(&device->flight, VR_ACQUIRE), pending = 0, rounds = 0;
    struct vr_flight *flight =
        handle ? vr_handle_pin(VR_KIND_FLIGHT, (void *)(uintptr_t)handle) : NULL;
    if (!flight) {
        return 0;
    }
    vr_mutex_lock(&flight->lock);
    for (struct vr_link *link = vr_list_first(&flight->pending); link;
         link = vr_list_next(&flight->pending, link)) {
        rounds++;
    }
    vr_mutex_unlock(&flight->lock);
    for (; rounds; rounds--) {
        struct vr_async *record = NULL;
        vr_mutex_lock(&flight->lock);
        struct vr_link *link = vr_list_first(&flight->pending);
        if (link) { /* to the end of the list: the rest of this round is in front of it */
            vr_link_remove(link);
            vr_list_append(&flight->pending, link);
            record = VR_CONTAINER(link, struct vr_async, link);
            record = vr_handle_try_ref(record->object.handle) ? record : NULL;
        }
        vr_mutex_unlock(&flight->lock);
        if (record) {
            (void)vr_async_check(record);
            pending += vr_load(&record->state, VR_ACQUIRE) < VR_ASYNC_READY;
            vr_leave(record);
        }
    }
    vr_leave(flight);
    return pending;
}

/* ------------------------------------------------- what transfers need besides */

vram_queue *vr_flight_queue(struct vr_device_object *device) {
    struct vr_flight *flight = vr_flight_enter(device);
    vram_queue *made = NULL;
    if (!flight) {
        return NULL;
    }
    uint64_t found = vr_load(&flight->bridge, VR_ACQUIRE);
    if (!found &&
        vr_queue_make((vram_device *)(uintptr_t)device->object.handle, NULL, &made) == VRAM_OK) {
        if (vr_cas(&flight->bridge, &found, (uint64_t)(uintptr_t)made, VR_ACQ_REL)) {
            found = (uint64_t)(uintptr_t)made;
        } else {
            vr_queue_end(made);
        }
    }
    vr_leave(flight);
    return (vram_queue *)(uintptr_t)found;
}

void vr_block_give(vram_pool *pool, vram_addr block, vram_queue *queue) {
    struct vram_error kept;
    vr_error_save(&kept);
    if (vr_free(pool, block, queue) == VRAM_ERR_STALE) {
        (void)vr_pool_free_after_queue(pool, block, queue);
    }
    vr_error_restore(&kept);
}

vram_pool *vr_flight_pinned(struct vr_device_object *device) {
    vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_PINNED};
    struct vr_flight *flight = vr_flight_enter(device);
    vram_pool *made = NULL;
    if (!flight) {
        return NULL;
    }
    uint64_t found = vr_load(&flight->pinned, VR_ACQUIRE);
    if (!found && vr_pool_create((vram_device *)(uintptr_t)device->object.handle, &options,
                                 &made) == VRAM_OK) {
        if (vr_cas(&flight->pinned, &found, (uint64_t)(uintptr_t)made, VR_ACQ_REL)) {
            found = (uint64_t)(uintptr_t)made;
        } else {
            vr_pool_destroy(made);
        }
    }
    vr_leave(flight);
    return (vram_pool *)(uintptr_t)found;
}
