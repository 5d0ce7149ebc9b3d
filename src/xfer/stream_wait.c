/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_wait.c: waits for all streams of a set, and streams that wait for each other. The numbers
 * in brackets are those of stream_set.c.
 */
#include "xfer/stream_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/device_calls.h"
#include "vram/async.h"
#include "xfer/xfer_calls.h"

enum {
    QUEUES_MAX =
        VRAM_STREAMS_MAX + 1, /* that a set waits for: its streams and the transfer queue */
    SLICE_NS = 500000         /* of a wait for one queue, before the others are polled */
};

/* Number of queues that marks and waits include. */
static uint32_t queue_count(struct vr_stream_set *set) {
    return set->count + (vr_load(&set->transfer, VR_ACQUIRE) ? 1 : 0);
}

static vram_queue *queue_at(struct vr_stream_set *set, uint32_t index) {
    return index < set->count ? set->streams[index].queue
                              : (vram_queue *)vr_load(&set->transfer, VR_ACQUIRE);
}

/* Puts the stream's name in front of the recorded error. */
static vram_status name_failure(struct vr_stream_set *set, uint32_t index, vram_status status) {
    struct vram_error error;
    vr_error_save(&error);
    return vr_error_set(status, error.backend, error.operation, error.native_code,
                        "stream \"%s\": %s",
                        index < set->count ? set->streams[index].name : "transfer", error.text);
}

/* ---------------------------------------------------------- waiting for all */

vram_status vram_stream_set_poll(vram_stream_set *handle) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    bool pending = false;
    vram_status status = vr_stream_set_enter(handle, &set);
    if (status != VRAM_OK) {
        return status;
    }
    uint32_t count = queue_count(set);
    for (uint32_t i = 0; i < count && status == VRAM_OK; i++) {
        status = vr_queue_done(queue_at(set, i));
        if (status == VRAM_ERR_NOT_READY) { /* keeps (4) */
            pending = true;
            status = VRAM_OK;
        } else if (status != VRAM_OK) {
            status = name_failure(set, i, status);
        }
    }
    vr_leave(set);
    return status == VRAM_OK && pending ? VRAM_ERR_NOT_READY : status;
}

static vram_status mark_all(struct vr_stream_set *set, vram_point points[QUEUES_MAX],
                            uint32_t *count) {
    vram_status status = VRAM_OK;
    *count = queue_count(set);
    for (uint32_t i = 0; i < *count && status == VRAM_OK; i++) {
        status = vr_submit_mark(queue_at(set, i), &points[i]);
        if (status != VRAM_OK) {
            status = name_failure(set, i, status);
        }
    }
    return status;
}

/* Polls each once; *first is the first that has not passed, `count` when all have. */
static vram_status poll_all(struct vr_stream_set *set, const vram_point *points, uint32_t count,
                            uint32_t *first) {
    *first = count;
    for (uint32_t i = 0; i < count; i++) {
        vram_status status = vr_point_poll(points[i]);
        if (status == VRAM_ERR_NOT_READY) {
            *first = *first == count ? i : *first;
        } else if (status != VRAM_OK) {
            return name_failure(set, i, status); /* keeps (4) */
        }
    }
    return VRAM_OK;
}

/* Waits for one after another in slices, so that a failure of one is seen while another is slow. */
static vram_status wait_all(struct vr_stream_set *set, const vram_point *points, uint32_t count,
                            uint64_t deadline) {
    struct vram_error error;
    uint32_t first;
    vr_error_save(&error);
    for (;;) {
        vram_status status = poll_all(set, points, count, &first);
        if (status != VRAM_OK || first == count) {
            return status;
        }
        uint64_t left = vr_deadline_left(deadline);
        status = vr_point_wait(points[first], left < SLICE_NS ? left : SLICE_NS);
        if (status != VRAM_OK && (status != VRAM_ERR_TIMEOUT || left == 0)) {
            return name_failure(set, first, status);
        }
        vr_error_restore(&error); /* the end of a slice is not a failure */
    }
}

vram_status vram_stream_set_wait(vram_stream_set *handle, uint64_t timeout) {
    VR_CALL;
    vram_point points[QUEUES_MAX];
    struct vr_stream_set *set = NULL;
    uint32_t count;
    vram_status status = vr_stream_set_enter(handle, &set);
    if (status != VRAM_OK) {
        return status;
    }
    uint64_t deadline = vr_wait_deadline(set->device->context, timeout);
    status = mark_all(set, points, &count);
    if (status == VRAM_OK) {
        status = wait_all(set, points, count, deadline);
    }
    vr_leave(set);
    return status;
}

/* Keeps (5). */
static vram_status join_streams(struct vr_stream_set *set, vram_point *point) {
    vram_point points[QUEUES_MAX];
    vram_queue *queue = NULL;
    uint32_t count = 0;
    vram_status status = vr_stream_extra_queue(set, &set->join, &queue);
    if (status == VRAM_OK) {
        status = mark_all(set, points, &count);
    }
    for (uint32_t i = 0; i < count && status == VRAM_OK; i++) {
        status = vr_submit_after(queue, points[i]);
        if (status != VRAM_OK) {
            status = name_failure(set, i, status);
        }
    }
    return status == VRAM_OK ? vr_submit_mark(queue, point) : status;
}

vram_status vram_stream_set_mark(vram_stream_set *handle, vram_point *point) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    if (!point) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the point is NULL");
    }
    vram_status status = vr_stream_set_enter(handle, &set);
    if (status == VRAM_OK) {
        status = join_streams(set, point);
        vr_leave(set);
    }
    return status;
}

vram_status vram_stream_set_sync(vram_stream_set *handle, vram_async *async) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    vram_point point;
    if (!async) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the handle is NULL");
    }
    vram_status status = vr_stream_set_enter(handle, &set);
    if (status != VRAM_OK) {
        return status;
    }
    status = join_streams(set, &point);
    if (status == VRAM_OK) {
        status = vr_async_of_point(point, vr_operation(), async);
    }
    vr_leave(set);
    return status;
}

/* ----------------------------------------------------- waits between queues */

vram_status vram_stream_set_order(vram_stream_set *handle, uint32_t earlier, uint32_t later) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    vram_point point;
    vram_status status = vr_stream_set_enter(handle, &set);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_stream_check(set, earlier);
    if (status == VRAM_OK) {
        status = vr_stream_check(set, later);
    }
    if (status == VRAM_OK && earlier != later) { /* a queue is ordered with itself */
        status = vr_submit_mark(set->streams[earlier].queue, &point);
        status = status == VRAM_OK ? vr_submit_after(set->streams[later].queue, point)
                                   : name_failure(set, earlier, status);
    }
    vr_leave(set);
    return status;
}

static vram_status order_after(struct vr_stream_set *set, vram_point point) {
    struct vram_error error;
    vram_status first = VRAM_OK;
    uint32_t count = queue_count(set);
    for (uint32_t i = 0; i < count; i++) {
        vram_status status = vr_submit_after(queue_at(set, i), point);
        if (status != VRAM_OK && first == VRAM_OK) {
            first = name_failure(set, i, status);
            vr_error_save(&error);
        }
    }
    if (first != VRAM_OK) {
        vr_error_restore(&error); /* the first, not the last */
    }
    return first;
}

vram_status vram_stream_set_after(vram_stream_set *handle, vram_point point) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    vram_status status = vr_stream_set_enter(handle, &set);
    if (status == VRAM_OK) {
        status = order_after(set, point);
        vr_leave(set);
    }
    return status;
}

vram_status vram_stream_set_barrier(vram_stream_set *handle) {
    VR_CALL;
    struct vr_stream_set *set = NULL;
    vram_point point;
    vram_status status = vr_stream_set_enter(handle, &set);
    if (status != VRAM_OK) {
        return status;
    }
    status = join_streams(set, &point);
    if (status == VRAM_OK) {
        status = order_after(set, point);
    }
    vr_leave(set);
    return status;
}
