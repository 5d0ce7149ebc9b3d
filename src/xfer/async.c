/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async.c: the public calls on async handles. A handle without a record is answered from its words:
 * its work was complete before the handle was made, or its record was freed since.
 */
#include "vram/async.h"

#include "base/error.h"
#include "base/os/os.h"
#include "device/device_calls.h"
#include "xfer/async_record.h"
#include "xfer/xfer_calls.h"

#include <string.h>

static vram_point point_of(const vram_async *async) {
    return (vram_point){(vram_queue *)(uintptr_t)async->word[VR_ASYNC_QUEUE],
                        async->word[VR_ASYNC_VALUE]};
}

/* Polls, or waits if `timeout` is not NULL, and leaves the record pinned; NULL without one. */
static vram_status poll_or_wait(const vram_async *async, const uint64_t *timeout,
                                struct vr_async **record) {
    vram_status status = vr_async_enter(async, record);
    if (status != VRAM_OK) {
        return status;
    }
    if (*record) {
        return timeout ? vr_async_wait(*record, *timeout) : vr_async_check(*record);
    }
    return timeout ? vr_point_wait(point_of(async), *timeout) : vr_point_poll(point_of(async));
}

static void leave_record(struct vr_async *record) {
    if (record) {
        vr_async_leave(record);
    }
}

vram_status vr_async_poll(const vram_async *async) {
    struct vr_async *record;
    vram_status status = poll_or_wait(async, NULL, &record);
    leave_record(record);
    return status;
}

vram_status vram_async_poll(const vram_async *async) {
    VR_CALL;
    return vr_async_poll(async);
}

vram_status vram_async_wait(const vram_async *async, uint64_t timeout) {
    VR_CALL;
    struct vr_async *record;
    vram_status status = poll_or_wait(async, &timeout, &record);
    leave_record(record);
    return status;
}

/* The state of the handle; VRAM_OK unless it is not a handle, or is of another process. */
static vram_status state_of(const vram_async *async, struct vram_error *error,
                            vram_async_state *state) {
    struct vram_error kept;
    struct vr_async *record;
    vr_error_save(&kept);
    vram_status status = poll_or_wait(async, NULL, &record);
    *error = (struct vram_error){VRAM_OK, "", "", 0, ""};
    if (record) {
        vr_async_error(record, error);
        vr_async_leave(record);
    } else if (status != VRAM_OK && status != VRAM_ERR_NOT_READY) {
        return status; /* no record: whatever failed, it was not the work */
    }
    *state = status == VRAM_OK          ? VRAM_ASYNC_READY
             : error->status != VRAM_OK ? VRAM_ASYNC_ERROR
                                        : VRAM_ASYNC_PENDING;
    vr_error_restore(&kept);
    return VRAM_OK;
}

bool vram_async_is_ready(const vram_async *async) {
    VR_CALL;
    struct vram_error error;
    vram_async_state state;
    return state_of(async, &error, &state) == VRAM_OK && state != VRAM_ASYNC_PENDING;
}

vram_status vram_async_state_get(const vram_async *async, vram_async_state *state) {
    VR_CALL;
    struct vram_error error;
    vram_async_state found;
    if (!state) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the state is NULL");
    }
    vram_status status = state_of(async, &error, &found);
    if (status == VRAM_OK) {
        *state = found;
    }
    return status;
}

vram_status vram_async_error_get(const vram_async *async, vram_error *error) {
    VR_CALL;
    struct vram_error found;
    vram_async_state state;
    if (!error) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the error is NULL");
    }
    vram_status status = state_of(async, &found, &state);
    if (status == VRAM_OK && state == VRAM_ASYNC_PENDING) {
        return VRAM_ERR_NOT_READY;
    }
    if (status == VRAM_OK) {
        *error = found;
    }
    return status;
}

vram_status vram_async_result_get(const vram_async *async, uint64_t *result) {
    VR_CALL;
    struct vr_async *record;
    if (!result) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the result is NULL");
    }
    vram_status status = poll_or_wait(async, NULL, &record);
    if (status == VRAM_OK) {
        *result = record ? vr_async_result(record) : async->word[VR_ASYNC_RESULT];
    }
    leave_record(record);
    return status;
}

/* Without a record, or with one that is settled, the calling thread makes the call. */
vram_status vram_async_then(const vram_async *async, vram_async_fn *call, void *user) {
    VR_CALL;
    struct vr_async *record;
    struct vram_error kept;
    bool over = true;
    if (!call) {
        return vr_fail(VRAM_ERR_INVALID, "the callback is NULL");
    }
    vram_status status = vr_async_enter(async, &record);
    if (status != VRAM_OK) {
        return status;
    }
    vr_error_save(&kept);
    status = record ? vr_async_check(record) : vr_point_poll(point_of(async));
    if (record) {
        vram_status added = vr_async_then(record, call, user, &over);
        status = over ? vr_async_check(record) : status;
        vr_async_leave(record);
        if (added != VRAM_OK) {
            return added;
        }
    } else if (status != VRAM_OK) {
        return vr_fail(VRAM_ERR_STALE, "the handle was ended while it was pending");
    }
    if (over) {
        VR_UNCANCELLED;
        call(user, status);
    }
    vr_error_restore(&kept);
    return VRAM_OK;
}

vram_status vram_async_poll_all(vram_device *handle, uint64_t *pending) {
    VR_CALL;
    void *device;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status == VRAM_OK) {
        struct vram_error kept;
        vr_error_save(&kept);
        uint64_t left = vr_async_check_all(device);
        vr_error_restore(&kept);
        vr_leave(device);
        if (pending) {
            *pending = left;
        }
    }
    return status;
}

/* Makes a handle for work under the program's name for it. */
static vram_status of_value(struct vr_queue_object *queue, uint64_t value, const char *name,
                            vram_async *async) {
    VR_OPERATION(name);
    return vr_async_of_value(queue, value, 0, async);
}

vram_status vr_async_of_point(vram_point point, const char *operation, vram_async *async) {
    VR_OPERATION("vram_async_of_point");
    void *queue;
    if (!async) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the handle is NULL");
    }
    struct vram_error kept;
    vr_error_save(&kept);
    vram_status status = vr_point_poll(point);
    if (status == VRAM_OK) {
        *async = (vram_async){{(uint64_t)(uintptr_t)point.queue, point.value, 0, 0}};
        return VRAM_OK;
    }
    if (status == VRAM_ERR_INVALID || status == VRAM_ERR_FORKED || status == VRAM_ERR_SHUTDOWN) {
        return status;
    }
    vr_error_restore(&kept); /* if the driver cannot answer now, it is asked through the handle */
    status = vr_enter(VR_KIND_QUEUE, point.queue, &queue);
    if (status == VRAM_ERR_STALE) { /* ended since: its points have passed */
        vr_error_restore(&kept);
        *async = (vram_async){{(uint64_t)(uintptr_t)point.queue, point.value, 0, 0}};
        return VRAM_OK;
    }
    if (status == VRAM_OK) {
        status = of_value(queue, point.value, operation ? operation : "work", async);
        vr_leave(queue);
    }
    return status;
}

vram_status vram_async_of_point(vram_point point, const char *operation, vram_async *async) {
    return vr_async_of_point(point, operation, async);
}

vram_status vr_async_close(vram_async *async) {
    VR_OPERATION("vram_async_end");
    struct vr_async *record;
    struct vram_error kept;
    if (!async) {
        return VRAM_OK;
    }
    vr_error_save(&kept);
    vram_status status = vr_async_enter(async, &record);
    if (record) {
        vr_async_end(record);
        vr_async_leave(record);
    }
    memset(async, 0, sizeof *async);
    if (status == VRAM_ERR_FORKED || status == VRAM_ERR_SHUTDOWN) {
        status = VRAM_OK; /* nothing to release in this process */
    }
    if (status == VRAM_OK) {
        vr_error_restore(&kept);
    }
    return status;
}

vram_status vram_async_end(vram_async *async) {
    return vr_async_close(async);
}
