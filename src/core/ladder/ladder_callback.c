/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder_callback.c: the program's callbacks; see ladder.h.
 *
 *  (1) A callback is called with no lock held. `inside` counts the calls in progress, so that the
 *      thread that removes it can wait for them, except for its own calls.
 *  (2) An entry is reused only when no call is inside it any more.
 */
#include "core/ladder/ladder.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"

#include <assert.h>

static_assert((int)VR_OOM_CALLBACKS == (int)VRAM_OOM_CALLBACKS_MAX, "the places of a device");

enum { REMOVE_NS = 100000 }; /* between two checks whether a call has returned */

/* The callbacks that this thread is inside of, outermost first. */
static _Thread_local struct {
    uint32_t depth;
    const struct vr_oom_callback *calls[VRAM_OOM_NESTING_MAX];
} nest;

/* The next callback by id, about to be called; NULL after the last. Takes the device's lock. */
static struct vr_oom_callback *callback_behind(struct vr_device_object *device, uint64_t last,
                                               struct vr_oom_callback *copy) {
    struct vr_oom_callback *best = NULL;
    vr_mutex_lock(&device->lock);
    for (int i = 0; i < VRAM_OOM_CALLBACKS_MAX; i++) {
        struct vr_oom_callback *one = &device->callbacks[i];
        best = one->call && one->id > last && (!best || one->id < best->id) ? one : best;
    }
    if (best) {
        best->inside++;
        *copy = *best;
    }
    vr_mutex_unlock(&device->lock);
    return best;
}

/* The call has returned. If the callback was removed in the meantime, its entry is free now. */
static void callback_leave(struct vr_device_object *device, struct vr_oom_callback *callback) {
    vr_mutex_lock(&device->lock);
    callback->inside--;
    if (!callback->call && !callback->inside) {
        callback->id = 0; /* keeps (2) */
    }
    vr_mutex_unlock(&device->lock);
}

/* Calls one callback, and tries again if it reports that it released memory. */
static void call_one(struct vr_ladder_run *run, struct vr_oom_callback *place,
                     const struct vr_oom_callback *copy) {
    VR_OPERATION("vram_alloc");
    VR_UNCANCELLED;
    struct vr_pool *pool = run->pool;
    vram_pool *handle = (vram_pool *)(uintptr_t)pool->object.handle;
    struct vram_oom_event event = {.size = sizeof event,
                                   .device = (vram_device *)(uintptr_t)pool->device->object.handle,
                                   .pool = handle,
                                   .bytes = run->request->bytes,
                                   .status = vr_ladder_status(run),
                                   .nesting = nest.depth + 1};
    nest.calls[nest.depth++] = place;
    uint64_t held = vr_load(&pool->device->held_bytes, VR_RELAXED);
    uint64_t bytes = ((vram_oom_fn *)copy->call)(copy->user, &event);
    nest.depth--;
    callback_leave(pool->device, place);
    if (vr_handle_was(VR_KIND_POOL, handle)) {
        run->tried = vr_fail(VRAM_ERR_STALE, "the pool was destroyed by an out-of-memory callback");
        return;
    }
    vr_ladder_released(run,
                       bytes < held ? bytes : held); /* no more can be released than was held */
}

bool vr_step_callbacks(struct vr_ladder_run *run) {
    struct vr_device_object *device = run->pool->device;
    struct vr_oom_callback copy, *place;
    bool any = false;
    if (nest.depth >= VRAM_OOM_NESTING_MAX) {
        return false;
    }
    for (uint64_t last = 0;
         vr_status_is_short(run->tried) && (place = callback_behind(device, last, &copy));) {
        last = copy.id;
        any = true;
        call_one(run, place, &copy);
    }
    return any;
}

/* ------------------------------------------------------------- adding, removing */

static vram_status callback_add(struct vr_device_object *device, vram_oom_fn *call, void *user,
                                uint64_t *id) {
    vram_status status = VRAM_ERR_LIMIT;
    vr_mutex_lock(&device->lock);
    for (int i = 0; i < VRAM_OOM_CALLBACKS_MAX && status != VRAM_OK; i++) {
        if (!device->callbacks[i].id) {
            *id = ++device->callback_ids;
            device->callbacks[i] =
                (struct vr_oom_callback){.call = (vr_program_fn *)call, .user = user, .id = *id};
            status = VRAM_OK;
        }
    }
    vr_mutex_unlock(&device->lock);
    return status == VRAM_OK
               ? status
               : vr_fail(
                     status,
                     "the device already has %d callbacks, which is the limit; remove one first",
                     VRAM_OOM_CALLBACKS_MAX);
}

vram_status vram_oom_callback_add(vram_device *handle, vram_oom_fn *call, void *user,
                                  uint64_t *id) {
    VR_CALL;
    void *device;
    if (!call || !id) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the function, or the pointer that receives its id, is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status == VRAM_OK) {
        status = callback_add(device, call, user, id);
        vr_leave(device);
    }
    return status;
}

/* How many calls of the callback the calling thread itself is inside of. */
static uint32_t own_calls(const struct vr_oom_callback *callback) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < nest.depth; i++) {
        count += nest.calls[i] == callback;
    }
    return count;
}

/* Disables the callback; NULL: there is no such id. */
static struct vr_oom_callback *callback_retire(struct vr_device_object *device, uint64_t id) {
    struct vr_oom_callback *found = NULL;
    vr_mutex_lock(&device->lock);
    for (int i = 0; i < VRAM_OOM_CALLBACKS_MAX && !found; i++) {
        bool same = id && device->callbacks[i].id == id && device->callbacks[i].call;
        found = same ? &device->callbacks[i] : NULL;
    }
    if (found) {
        found->call = NULL;
        found->id = found->inside ? id : 0; /* keeps (2) */
    }
    vr_mutex_unlock(&device->lock);
    return found;
}

static bool is_inside(struct vr_device_object *device, const struct vr_oom_callback *callback,
                      uint64_t id) {
    vr_mutex_lock(&device->lock);
    bool inside = callback->id == id && callback->inside > own_calls(callback);
    vr_mutex_unlock(&device->lock);
    return inside;
}

static vram_status retire_and_wait(struct vr_device_object *device, uint64_t id) {
    uint64_t deadline = vr_deadline_in(device->context->wait_ns);
    struct vr_oom_callback *callback = callback_retire(device, id);
    if (!callback) {
        return vr_fail(VRAM_ERR_INVALID, "no callback of the device has the id %llu",
                       (unsigned long long)id);
    }
    while (is_inside(device, callback, id)) {
        if (vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_TIMEOUT,
                           "another thread is still inside the callback; it is not called again");
        }
        vr_clock_sleep(REMOVE_NS);
    }
    return VRAM_OK;
}

vram_status vram_oom_callback_remove(vram_device *handle, uint64_t id) {
    VR_CALL;
    void *device;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status == VRAM_OK) {
        status = retire_and_wait(device, id);
        vr_leave(device);
    }
    return status;
}
