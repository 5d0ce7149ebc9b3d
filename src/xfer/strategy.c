/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strategy.c: the public copies. Each enters its queue, looks up its route, submits it to the
 * backend by the strategy, and makes the handle from a point behind it.
 */
#include "vram/transfer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "device/device_calls.h"
#include "device/ops.h"
#include "xfer/flight.h"
#include "xfer/registration.h"
#include "xfer/staging.h"
#include "xfer/submission.h"
#include "xfer/xfer_calls.h"

#include <string.h>

static const char *const names[] = {"auto", "sync", "async", "direct", "dma_polling"};

enum { STRATEGIES = sizeof names / sizeof names[0] };

#define STAGED_LEAST (UINT64_C(256) * VR_KIB) /* smaller copies go the driver's way; see least_of */
#define BRIEF_MOST   (UINT64_C(4) * VR_MIB)   /* the largest download made inside the call */

enum { MARK_AND_WAIT_NS = 5000 }; /* on an H200; see remaining_ns */

const char *vram_transfer_strategy_name(vram_transfer_strategy strategy) {
    return (unsigned)strategy < STRATEGIES ? names[strategy] : "unknown";
}

/* ------------------------------------------------------------- submission.h */

vram_status vr_submission_begin(vram_queue *handle, const vram_transfer_options *options,
                                struct vr_submission *submission) {
    vram_transfer_options taken;
    void *queue;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK && (unsigned)taken.strategy >= STRATEGIES) {
        status =
            vr_fail(VRAM_ERR_INVALID, "%d is not a vram_transfer_strategy", (int)taken.strategy);
    }
    if (status == VRAM_OK) {
        status = vr_submit_enter(handle, &queue);
    }
    if (status == VRAM_OK && vr_load(&((struct vr_queue_object *)queue)->captured, VR_ACQUIRE)) {
        vr_submit_leave(queue);
        status = vr_fail(VRAM_ERR_CAPTURE,
                         "the queue is being captured, and captured work has no async handles");
    }
    if (status == VRAM_OK) {
        *submission = (struct vr_submission){
            .queue = queue,
            .strategy = taken.strategy,
            .poll_ns = taken.poll_ns ? taken.poll_ns : VRAM_TRANSFER_POLL_NS,
            .timeout = taken.timeout_ns ? taken.timeout_ns : VRAM_TIMEOUT_DEFAULT};
    }
    return status;
}

/* Leaves the queue before it waits, so that the queue can end while this thread waits. */
static vram_status finish_sync(struct vr_submission *submission, uint64_t value) {
    struct vr_queue_object *queue = submission->queue;
    vr_submit_end(queue);
    vram_status status = vr_queue_wait_value(queue, value, submission->timeout);
    vr_leave(queue);
    return status;
}

/* Marks the queue. If the driver accepted the copy and refuses the marker, *value is 0: the copy is
   complete when the queue is idle. */
static vram_status mark_queue(struct vr_submission *submission, uint64_t *value) {
    struct vr_queue_object *queue = submission->queue;
    struct vram_error kept;
    vr_error_save(&kept);
    vram_status status = vr_queue_mark(queue, value);
    if (status != VRAM_OK && status != VRAM_ERR_CAPTURE && status != VRAM_ERR_DEVICE_LOST &&
        status != VRAM_ERR_SHUTDOWN) {
        uint64_t taken = vr_load(&queue->issued, VR_ACQUIRE);
        struct vram_error refusal;
        vr_error_save(&refusal);
        if (vr_queue_wait_value(queue, taken, submission->timeout) == VRAM_OK) {
            *value = 0;
            status = VRAM_OK;
        }
        vr_error_restore(status == VRAM_OK ? &kept : &refusal);
    }
    return status;
}

/* Without memory for a record the handle has only the point, and lacks the operation's name. */
static vram_async make_handle(struct vr_submission *submission, uint64_t value, uint64_t result) {
    vram_async made;
    struct vram_error kept;
    vr_error_save(&kept);
    if (vr_async_of_value(submission->queue, value, result, &made) != VRAM_OK) {
        made = (vram_async){{submission->queue->object.handle, value, 0, result}};
        vr_error_restore(&kept);
    }
    if (submission->strategy == VRAM_TRANSFER_DMA_POLLING) {
        vr_async_poll_interval(&made, submission->poll_ns);
    }
    return made;
}

/* Waits, and counts that as waiting time of the program. */
static vram_status wait_sync(struct vr_submission *submission, uint64_t value) {
    struct vr_device_object *device = submission->queue->device;
    uint64_t before = vr_clock_now();
    vr_handle_ref(device->object.handle);
    vram_status status = finish_sync(submission, value);
    if (submission->count.metrics) {
        vr_transfer_waited(device, (vram_transfer_direction)submission->count.direction,
                           (vram_transfer_route)submission->count.route, vr_clock_now() - before);
        vr_transfer_end(&submission->count, submission->result, status);
    }
    vr_leave(device);
    return status;
}

vram_status vr_submission_end(struct vr_submission *submission, vram_status status, uint64_t result,
                              vram_async *async) {
    struct vr_queue_object *queue = submission->queue;
    bool sync = submission->strategy == VRAM_TRANSFER_SYNC;
    vram_async made = {{0, 0, 0, result}};
    uint64_t value = 0;
    bool looked_after = submission->made.word[VR_ASYNC_RECORD] != 0;
    bool wanted = status == VRAM_OK && submission->any && (async || sync) && !looked_after;
    submission->result = result;
    if (status != VRAM_OK && submission->parts) {
        (void)vr_queue_drained((vram_queue *)(uintptr_t)queue->object.handle);
    }
    if (wanted) {
        status = mark_queue(submission, &value);
    }
    if (wanted && status == VRAM_OK && sync) {
        status = wait_sync(submission, value);
    } else {
        if (looked_after) {
            made = submission->made;
        } else if (status == VRAM_OK && value) {
            made = make_handle(submission, value, result);
        }
        if (status == VRAM_OK && (looked_after || value)) {
            vr_async_count(&made, &submission->count);
        }
        vr_transfer_end(&submission->count, result, status);
        vr_submit_leave(queue);
    }
    if (status == VRAM_OK && async) {
        *async = made;
    }
    return status;
}

/* The route follows from the strategy, unless `route` says otherwise. */
void vr_submission_count(struct vr_submission *submission, enum vr_way way,
                         vram_transfer_route route) {
    static const vram_transfer_direction directions[] = {
        [VR_WAY_UPLOAD] = VRAM_TRANSFER_TO_DEVICE, [VR_WAY_DOWNLOAD] = VRAM_TRANSFER_TO_HOST,
        [VR_WAY_COPY] = VRAM_TRANSFER_ON_DEVICE,   [VR_WAY_PEER] = VRAM_TRANSFER_PEER,
        [VR_WAY_BRIDGE] = VRAM_TRANSFER_PEER,      [VR_WAY_FILL] = VRAM_TRANSFER_FILL};
    static const vram_transfer_route routes[STRATEGIES] = {VRAM_ROUTE_ASYNC, VRAM_ROUTE_SYNC,
                                                           VRAM_ROUTE_ASYNC, VRAM_ROUTE_DIRECT,
                                                           VRAM_ROUTE_DMA_POLLING};
    if (!submission->count.metrics) {
        vr_transfer_begin(submission->queue->device, directions[way],
                          route == VRAM_ROUTE_ANY ? routes[submission->strategy] : route,
                          &submission->count);
    }
}

/* Copies nothing. The fence orders the device's reads behind the host's writes, and the handle's
   point the host's reads behind the device's writes. Memory that migrates is prefetched to the side
   that uses it next; a refused hint changes nothing. */
vram_status vr_submission_direct(struct vr_submission *submission, const struct vr_route *route) {
    struct vram_error kept;
    if (!route->same) {
        return vr_fail(VRAM_ERR_INVALID,
                       "a direct transfer needs the same address on both sides, and these differ");
    }
    atomic_thread_fence(memory_order_seq_cst);
    submission->any = true;
    vr_error_save(&kept);
    if (route->managed && submission->queue->base.device->managed) {
        struct vr_queue *queue = &submission->queue->base;
        int32_t target =
            route->way == VR_WAY_DOWNLOAD ? VRAM_TARGET_HOST : (int32_t)queue->device->index;
        vram_status status = vr_managed_prefetch(queue, route->to, route->bytes, target);
        if (status == VRAM_ERR_DEVICE_LOST) {
            return status;
        }
        vr_error_restore(&kept);
    }
    return VRAM_OK;
}

/* The smallest staged copy. Where the driver makes the caller of a download wait, staging is faster
   from the first byte, and does not make the caller wait while the queue is busy. Uploads return at
   once. */
static uint64_t least_of(const struct vr_device_object *device, const struct vr_route *route) {
    return route->way == VR_WAY_DOWNLOAD && device->base.pageable_waits ? 1 : STAGED_LEAST;
}

/* Whether a download ends so soon that its caller best makes it: nothing is in front of it. */
static bool is_brief(struct vr_submission *submission, const struct vr_route *route) {
    return route->bytes <= BRIEF_MOST && vr_queue_is_idle(submission->queue);
}

/* Whether a route goes through page-locked memory of the library. *flight is then pinned. */
static bool is_staged(struct vr_submission *submission, const struct vr_route *route,
                      struct vr_flight **flight) {
    struct vr_device_object *device = submission->queue->device;
    struct vram_error kept;
    *flight = NULL;
    if (route->pinned || route->managed || route->bytes < least_of(device, route) ||
        (route->way != VR_WAY_UPLOAD && route->way != VR_WAY_DOWNLOAD) ||
        !vr_staging_is_useful(device)) {
        return false;
    }
    vr_error_save(&kept);
    *flight = vr_flight_enter(device);
    vr_error_restore(&kept);
    return *flight &&
           vr_rates_choose(&(*flight)->rates, route->way == VR_WAY_DOWNLOAD, route->bytes);
}

/* Leaves a download to workers. False: there are too few slots or no workers, and the caller must
   make it. */
static bool hand_over(struct vr_submission *submission, const struct vr_route *route,
                      vram_status *status) {
    vram_queue *queue = (vram_queue *)(uintptr_t)submission->queue->object.handle;
    struct vram_error kept;
    struct vr_async *record = NULL;
    vram_async made = {{0}};
    bool begun = false;
    vr_error_save(&kept);
    if (vr_async_begin(submission->queue->device, route->bytes, &made, &record) != VRAM_OK) {
        vr_error_restore(&kept);
        return false;
    }
    *status =
        vr_staging_download_begin(queue, route->to_host, route->from, route->bytes, record, &begun);
    if (begun) {
        submission->made = made;
        return true;
    }
    vr_error_save(&kept);
    vr_async_finish(record, VRAM_OK); /* its handle was not given out */
    vr_async_close(&made);
    vr_error_restore(&kept);
    return *status != VRAM_OK;
}

/* What a download still costs after the call: the driver's needs a mark and a wait for it, a staged
   one is complete. */
static uint64_t remaining_ns(bool to_host, bool staged) {
    return to_host && !staged ? MARK_AND_WAIT_NS : 0;
}

/* Ordinary memory: chooses the way that keeps the caller for less time; rates.h. */
static vram_status submit_by_rate(struct vr_submission *submission, const struct vr_route *route) {
    vram_queue *queue = (vram_queue *)(uintptr_t)submission->queue->object.handle;
    bool to_host = route->way == VR_WAY_DOWNLOAD;
    struct vr_flight *flight;
    bool staged = is_staged(submission, route, &flight);
    uint64_t before = flight ? vr_clock_now() : 0;
    vr_submission_count(submission, route->way, staged ? VRAM_ROUTE_STAGED : VRAM_ROUTE_ANY);
    vram_status status = VRAM_OK;
    submission->parts = staged;
    if (staged && to_host && submission->handle && submission->strategy != VRAM_TRANSFER_SYNC &&
        !is_brief(submission, route) && hand_over(submission, route, &status)) {
        vr_leave(flight);
        return status;
    }
    status = !staged   ? vr_route_submit(submission->queue, route)
             : to_host ? vr_staging_download(queue, route->to_host, route->from, route->bytes)
                       : vr_staging_upload(queue, route->to, route->from_host, route->bytes);
    if (staged && to_host && status == VRAM_OK) {
        submission->any = false; /* it is complete: nothing to wait for */
    }
    if (flight) {
        if (status == VRAM_OK) {
            vr_rates_note(&flight->rates, to_host, staged, route->bytes,
                          vr_clock_now() - before + remaining_ns(to_host, staged));
        }
        vr_leave(flight);
    }
    return status;
}

/* A driver, or staging, may wait for the queue inside the call when it copies ordinary memory. If
   the caller has set a deadline, waits for the queue first, so that only the copy itself
   remains. */
static vram_status wait_before(struct vr_submission *submission, const struct vr_route *route) {
    uint64_t value = 0;
    if (submission->strategy != VRAM_TRANSFER_SYNC || route->pinned ||
        submission->timeout == VRAM_TIMEOUT_DEFAULT ||
        (route->way != VR_WAY_UPLOAD && route->way != VR_WAY_DOWNLOAD)) {
        return VRAM_OK;
    }
    vram_status status = mark_queue(submission, &value);
    return status == VRAM_OK ? vr_queue_wait_value(submission->queue, value, submission->timeout)
                             : status;
}

/* Treats memory of the program that is page-locked in place (vram/pinned.h) like the library's.
   Copies too small to be staged go the driver's way anyway, which knows such memory. */
static void find_registered(struct vr_submission *submission, struct vr_route *route) {
    struct vr_device_object *device = submission->queue->device;
    bool upload = route->way == VR_WAY_UPLOAD;
    struct vr_staging *staging;
    struct vram_error kept;
    if (route->pinned || (!upload && route->way != VR_WAY_DOWNLOAD) ||
        route->bytes < least_of(device, route) || !vr_staging_is_useful(device)) {
        return;
    }
    vr_error_save(&kept);
    if (vr_staging_enter(device, &staging) == VRAM_OK) {
        route->pinned = vr_registration_covers(&staging->registrations,
                                               upload ? route->from : route->to, route->bytes);
        vr_staging_leave(staging);
    }
    vr_error_restore(&kept);
    if (route->pinned) {
        vr_submission_count(submission, route->way, VRAM_ROUTE_REGISTERED);
    }
}

vram_status vr_submission_add(struct vr_submission *submission, struct vr_route *route,
                              uint64_t *result) {
    bool direct =
        submission->strategy == VRAM_TRANSFER_DIRECT ||
        (submission->strategy == VRAM_TRANSFER_AUTO && route->same && route->way != VR_WAY_COPY);
    if (direct) {
        *result = 0;
        vr_submission_count(submission, route->way, VRAM_ROUTE_DIRECT);
        return vr_submission_direct(submission, route);
    }
    if (route->overlap) {
        return vr_fail(VRAM_ERR_INVALID, "the two ranges overlap");
    }
    find_registered(submission, route);
    vram_status status = wait_before(submission, route);
    if (status != VRAM_OK) {
        return status;
    }
    submission->any = true;
    *result = route->bytes;
    if (route->way == VR_WAY_BRIDGE) {
        vr_submission_count(submission, route->way, VRAM_ROUTE_ANY);
        return vr_bridge_submit(submission->queue, route);
    }
    return submit_by_rate(submission, route);
}

/* ------------------------------------------------------------------- public */

static vram_status submit_transfer(vram_queue *handle, const vram_copy *copy,
                                   const vram_transfer_options *options, vram_async *async) {
    struct vr_submission submission;
    struct vr_route route;
    uint64_t result = 0;
    vram_status status = vr_submission_begin(handle, options, &submission);
    if (status != VRAM_OK) {
        return status;
    }
    submission.handle = async != NULL;
    if (copy->bytes && (status = vr_route_find(submission.queue, copy, &route)) == VRAM_OK) {
        status = vr_submission_add(&submission, &route, &result);
        vr_route_leave(&route);
    }
    return vr_submission_end(&submission, status, result, async);
}

vram_status vram_transfer_upload(vram_queue *queue, vram_addr to, const void *from, uint64_t bytes,
                                 const vram_transfer_options *options, vram_async *async) {
    VR_CALL;
    vram_copy copy = {.to = to, .from_host = from, .bytes = bytes};
    return submit_transfer(queue, &copy, options, async);
}

vram_status vram_transfer_download(vram_queue *queue, void *to, vram_addr from, uint64_t bytes,
                                   const vram_transfer_options *options, vram_async *async) {
    VR_CALL;
    vram_copy copy = {.to_host = to, .from = from, .bytes = bytes};
    return submit_transfer(queue, &copy, options, async);
}

vram_status vram_transfer_copy(vram_queue *queue, vram_addr to, vram_addr from, uint64_t bytes,
                               const vram_transfer_options *options, vram_async *async) {
    VR_CALL;
    vram_copy copy = {.to = to, .from = from, .bytes = bytes};
    return submit_transfer(queue, &copy, options, async);
}

vram_status vram_transfer_fill(vram_queue *queue, vram_addr to, uint32_t pattern,
                               uint32_t pattern_bytes, uint64_t bytes,
                               const vram_transfer_options *options, vram_async *async) {
    VR_CALL;
    struct vr_submission submission;
    vram_status status = vr_submission_begin(queue, options, &submission);
    if (status != VRAM_OK) {
        return status;
    }
    if (submission.strategy == VRAM_TRANSFER_DIRECT) {
        status = vr_fail(VRAM_ERR_INVALID, "a fill has one side and cannot be direct");
    } else {
        vr_submission_count(&submission, VR_WAY_FILL, VRAM_ROUTE_ANY);
        status = vr_submit_fill(queue, to, pattern, pattern_bytes, bytes);
        submission.any = status == VRAM_OK && bytes;
    }
    return vr_submission_end(&submission, status, bytes, async);
}
