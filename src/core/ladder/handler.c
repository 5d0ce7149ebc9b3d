/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handler.c: see handler.h.
 *
 *  (1) The handler is called with no lock held; its calls are counted under the context's lock.
 *  (2) A thread inside a handler is not asked again: its calls fail as if there were no handler.
 */
#include "core/ladder/handler.h"
#include "core/object/request.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/status.h"

static _Thread_local bool inside; /* keeps (2) */

/* The index of a status in the counts. */
static unsigned status_index(vram_status status) {
    static const vram_status statuses[VR_STATUS_COUNT] = {
#define PLACE(name, value, text) [VR_STATUS_OF_##name] = VRAM_##name,
        VRAM_STATUS_MAP(PLACE)
#undef PLACE
    };
    unsigned index = VR_STATUS_COUNT - 1;
    while (index > 0 && statuses[index] != status) {
        index--;
    }
    return index;
}

/* Halves the count once per half-life; within the last half-life it falls linearly. */
static double count_decay(double recent, uint64_t passed_ns, uint64_t half_ns) {
    while (passed_ns >= half_ns && recent > 1e-9) {
        recent /= 2;
        passed_ns -= half_ns;
    }
    return recent > 1e-9 ? recent * (1 - (double)passed_ns / (double)half_ns / 2) : 0;
}

/* Counts an error, and writes the counts into the event. Under the lock. */
static void count_error(struct vr_error_count *counted, struct vram_error_event *event) {
    uint64_t now = vr_clock_now(), half = vr_option_number(VR_OPTION_ERROR_HALF_LIFE);
    uint64_t passed = now > counted->at_ns ? now - counted->at_ns : 0;
    counted->recent = 1 + count_decay(counted->recent, passed, half);
    counted->at_ns = now;
    event->total = ++counted->total;
    event->recent = counted->recent;
}

static vram_error_answer handler_call(struct vr_pool *pool, struct vram_error_event *event,
                                      vram_status status) {
    struct vr_context *context = pool->device->context;
    vr_mutex_lock(&context->lock);
    vram_error_fn *call = (vram_error_fn *)context->handler.call;
    void *user = context->handler.user;
    if (call) {
        count_error(&context->handler.counts[status_index(status)], event);
    }
    vr_mutex_unlock(&context->lock);
    if (!call) {
        return VRAM_ERROR_FAIL;
    }
    VR_UNCANCELLED;
    inside = true;
    vram_error_answer answer = call(user, event); /* keeps (1) */
    inside = false;
    return answer;
}

vram_error_answer vr_handler_ask(struct vr_pool *pool, const struct vr_request *request,
                                 vram_status status, uint32_t retries) {
    struct vram_error error;
    vr_error_save(&error);
    struct vram_error_event event = {
        .size = sizeof event,
        .error = &error,
        .context = (vram_context *)(uintptr_t)pool->device->context->object.handle,
        .device = (vram_device *)(uintptr_t)pool->device->object.handle,
        .pool = (vram_pool *)(uintptr_t)pool->object.handle,
        .bytes = request->size,
        .retries = retries};
    if (inside || (request->flags & VRAM_ALLOC_CACHED_ONLY)) {
        return VRAM_ERROR_FAIL;
    }
    vram_error_answer answer = handler_call(pool, &event, status);
    vr_error_restore(&error);
    bool may = vr_status_is_exhausted(status) &&
               (answer == VRAM_ERROR_FALL_BACK ||
                (answer == VRAM_ERROR_RETRY && retries < VRAM_ERROR_RETRIES_MAX));
    return may ? answer : VRAM_ERROR_FAIL;
}

vram_status vram_error_handler_set(vram_context *handle, vram_error_fn *handler, void *user) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, &entered);
    if (status == VRAM_OK) {
        struct vr_context *context = entered;
        vr_mutex_lock(&context->lock);
        context->handler.call = (vr_program_fn *)handler;
        context->handler.user = user;
        vr_mutex_unlock(&context->lock);
        vr_leave(context);
    }
    return status;
}
