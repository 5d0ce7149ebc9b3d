/* SPDX-License-Identifier: Apache-2.0 */
/* fake_stream.c: the fake driver's entry points for copies, fills, streams and events. */
#include "fake/fake_engine.h"

#include <stdlib.h>
#include <string.h>

/* Pageable memory is copied before the call returns, as the driver does. */
/* Begins in page-locked memory and reaches past it: the real driver refuses that. */
static bool leaves_pinned(const void *memory, size_t bytes) {
    return fake_is_pinned(memory, 1) && !fake_is_pinned(memory, bytes);
}

vr_cu_result fake_cuMemcpyHtoDAsync(vr_cu_addr to, const void *from, size_t bytes,
                                    struct vr_cu_stream *stream) {
    FAKE_ENTER(cuMemcpyHtoDAsync, FAKE_NEEDS_CONTEXT);
    struct fake_op op = {.kind = UPLOAD, .to = to, .from = (uintptr_t)from, .bytes = bytes};
    if (leaves_pinned(from, bytes)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (!fake_is_pinned(from, bytes)) {
        op.staged = malloc(bytes ? bytes : 1);
        if (!op.staged) {
            return fake_leave(VR_CU_OUT_OF_MEMORY);
        }
        memcpy(op.staged, from, bytes);
        op.from = 0;
    }
    return fake_submit(stream, &op, false);
}

/* Into pageable memory the driver copies before it returns. */
vr_cu_result fake_cuMemcpyDtoHAsync(void *to, vr_cu_addr from, size_t bytes,
                                    struct vr_cu_stream *stream) {
    FAKE_ENTER(cuMemcpyDtoHAsync, FAKE_NEEDS_CONTEXT);
    struct fake_op op = {.kind = DOWNLOAD, .to = (uintptr_t)to, .from = from, .bytes = bytes};
    if (fake_thread.lie == FAKE_CUDA_NULL) {
        return fake_leave(VR_CU_SUCCESS); /* a copy that never comes */
    }
    if (leaves_pinned(to, bytes)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    return fake_submit(stream, &op, !fake_is_pinned(to, bytes));
}

vr_cu_result fake_cuMemcpyDtoDAsync(vr_cu_addr to, vr_cu_addr from, size_t bytes,
                                    struct vr_cu_stream *stream) {
    FAKE_ENTER(cuMemcpyDtoDAsync, FAKE_NEEDS_CONTEXT);
    struct fake_op op = {.kind = COPY, .to = to, .from = from, .bytes = bytes};
    return fake_submit(stream, &op, false);
}

static vr_cu_result set(vr_cu_addr to, uint64_t value, unsigned pattern_bytes, size_t count,
                        struct vr_cu_stream *stream) {
    struct fake_op op = {.kind = SET,
                         .to = to,
                         .bytes = count * pattern_bytes,
                         .value = value,
                         .pattern_bytes = pattern_bytes};
    if (to % pattern_bytes) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    return fake_submit(stream, &op, false);
}

vr_cu_result fake_cuMemsetD8Async(vr_cu_addr to, unsigned char value, size_t count,
                                  struct vr_cu_stream *stream) {
    FAKE_ENTER(cuMemsetD8Async, FAKE_NEEDS_CONTEXT);
    return set(to, value, 1, count, stream);
}

vr_cu_result fake_cuMemsetD16Async(vr_cu_addr to, unsigned short value, size_t count,
                                   struct vr_cu_stream *stream) {
    FAKE_ENTER(cuMemsetD16Async, FAKE_NEEDS_CONTEXT);
    return set(to, value, 2, count, stream);
}

vr_cu_result fake_cuMemsetD32Async(vr_cu_addr to, unsigned value, size_t count,
                                   struct vr_cu_stream *stream) {
    FAKE_ENTER(cuMemsetD32Async, FAKE_NEEDS_CONTEXT);
    return set(to, value, 4, count, stream);
}

/* For work that graphs do not know: success, or what the call answers. */
static vr_cu_result no_node(struct vr_cu_stream *handle) {
    struct vr_cu_stream *stream = fake_stream_of(handle);
    return stream ? fake_uncaptured(stream) : VR_CU_INVALID_HANDLE;
}

vr_cu_result fake_peer_copy(vr_cu_addr to, struct fake_device *from_device, vr_cu_addr from,
                            size_t bytes, struct vr_cu_stream *stream) {
    struct fake_op op = {.kind = COPY, .to = to, .from = from, .bytes = bytes, .peer = from_device};
    vr_cu_result code = no_node(stream);
    return code ? fake_leave(code) : fake_submit(stream, &op, false);
}

vr_cu_result fake_cuMemcpyPeerAsync(vr_cu_addr to, struct vr_cu_context *to_context,
                                    vr_cu_addr from, struct vr_cu_context *from_context,
                                    size_t bytes, struct vr_cu_stream *stream) {
    FAKE_ENTER(cuMemcpyPeerAsync, FAKE_NEEDS_CONTEXT);
    if (to_context != fake_current_context() || !from_context->alive) {
        return fake_leave(VR_CU_INVALID_CONTEXT);
    }
    return fake_peer_copy(to, from_context->device, from, bytes, stream);
}

/* Pages are where they are; what is checked is that the call is a right one, and that it is
   ordered. */
vr_cu_result fake_prefetch(vr_cu_addr addr, size_t bytes, int to, struct vr_cu_stream *stream) {
    fake.hinted = to;
    struct fake_op op = {.kind = NOTHING, .to = addr, .bytes = bytes};
    vr_cu_result code = fake_is_managed(addr, bytes) ? no_node(stream) : VR_CU_INVALID_VALUE;
    return code ? fake_leave(code) : fake_submit(stream, &op, false);
}

/* A device's ordinal, -1 for the host; false for a place that there is not. */
static bool location_known(struct vr_cu_location location, int *ordinal) {
    *ordinal = location.type == VR_CU_LOCATION_HOST ? -1 : location.id;
    return location.type == VR_CU_LOCATION_HOST ||
           (location.type == VR_CU_LOCATION_DEVICE && location.id >= 0 &&
            location.id < fake.device_count);
}

vr_cu_result fake_cuMemPrefetchAsync(vr_cu_addr addr, size_t bytes, struct vr_cu_location to,
                                     unsigned flags, struct vr_cu_stream *stream) {
    FAKE_ENTER(cuMemPrefetchAsync, FAKE_NEEDS_CONTEXT);
    int ordinal;
    return !flags && location_known(to, &ordinal) ? fake_prefetch(addr, bytes, ordinal, stream)
                                                  : fake_leave(VR_CU_INVALID_VALUE);
}

vr_cu_result fake_cuMemAdvise(vr_cu_addr addr, size_t bytes, enum vr_cu_advice advice,
                              struct vr_cu_location location) {
    FAKE_ENTER(cuMemAdvise, FAKE_NEEDS_SAFETY);
    bool good = location_known(location, &fake.hinted) && fake_is_managed(addr, bytes) &&
                advice >= VR_CU_ADVISE_READ_MOSTLY && advice <= VR_CU_ADVISE_PREFER_NONE;
    return fake_leave(good ? VR_CU_SUCCESS : VR_CU_INVALID_VALUE);
}

/* --------------------------------------------------------- streams by handle */

vr_cu_result fake_cuStreamGetId(struct vr_cu_stream *handle, unsigned long long *id) {
    FAKE_ENTER(cuStreamGetId, FAKE_NEEDS_CONTEXT);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    vr_cu_result code = stream ? fake_uncaptured(stream) : VR_CU_INVALID_HANDLE;
    if (code == VR_CU_SUCCESS) {
        *id = stream->id;
    }
    return fake_leave(code);
}

vr_cu_result fake_cuStreamCreateWithPriority(struct vr_cu_stream **stream, unsigned flags,
                                             int priority) {
    FAKE_ENTER(cuStreamCreateWithPriority, FAKE_NEEDS_CONTEXT);
    if (fake_thread.lie == FAKE_CUDA_NULL) {
        *stream = NULL;
        return fake_leave(VR_CU_SUCCESS);
    }
    struct vr_cu_stream *made =
        fake_stream_new(fake_current_context(), !(flags & VR_CU_STREAM_NON_BLOCKING), false);
    if (!made) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    made->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    *stream = made;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuStreamDestroy(struct vr_cu_stream *handle) {
    FAKE_ENTER(cuStreamDestroy, FAKE_NEEDS_CONTEXT);
    struct vr_cu_stream *stream =
        (uintptr_t)handle > VR_CU_STREAM_PER_THREAD ? fake_stream_of(handle) : NULL;
    if (!stream) {
        return fake_leave(VR_CU_INVALID_HANDLE);
    }
    if (stream->program) {
        fake_violation("a stream of the program's was destroyed");
    }
    stream->destroyed = true;
    fake.live.streams -= !stream->program;
    fake_streams_sweep();
    return fake_leave(VR_CU_SUCCESS);
}

/* Queries and waits spoil a capture of the very stream whatever the thread's mode. */
static vr_cu_result asks(struct vr_cu_stream *stream) {
    vr_cu_result code = stream ? fake_uncaptured(stream) : VR_CU_INVALID_HANDLE;
    return code == VR_CU_SUCCESS ? fake_unsafe() : code;
}

vr_cu_result fake_cuStreamSynchronize(struct vr_cu_stream *handle) {
    FAKE_ENTER(cuStreamSynchronize, FAKE_NEEDS_CONTEXT);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    vr_cu_result code = asks(stream);
    while (code == VR_CU_SUCCESS && fake_busy(stream) && !stream->device->sticky) {
        pthread_cond_wait(&fake.changed, &fake.lock);
    }
    return fake_leave(code ? code : stream->device->sticky);
}

vr_cu_result fake_cuStreamQuery(struct vr_cu_stream *handle) {
    FAKE_ENTER(cuStreamQuery, FAKE_NEEDS_CONTEXT);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    vr_cu_result code = asks(stream);
    return fake_leave(code ? code : fake_busy(stream) ? VR_CU_NOT_READY : VR_CU_SUCCESS);
}

/* A stream of its own has its context; only the legacy one is that of the context at hand. */
vr_cu_result fake_cuStreamGetCtx(struct vr_cu_stream *handle, struct vr_cu_context **context) {
    bool any = (uintptr_t)handle > VR_CU_STREAM_PER_THREAD && !fake_thread.depth;
    FAKE_ENTER(cuStreamGetCtx, any ? FAKE_NEEDS_INIT : FAKE_NEEDS_CONTEXT);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    vr_cu_result code = stream ? fake_implicit(stream) : VR_CU_INVALID_HANDLE;
    if (code == VR_CU_SUCCESS) {
        *context = stream->context;
    }
    return fake_leave(code);
}

vr_cu_result fake_cuStreamIsCapturing(struct vr_cu_stream *handle,
                                      enum vr_cu_capture_status *status) {
    FAKE_ENTER(cuStreamIsCapturing, FAKE_NEEDS_CONTEXT);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    vr_cu_result code = stream ? fake_implicit_query(stream) : VR_CU_INVALID_HANDLE;
    if (code == VR_CU_SUCCESS) {
        *status = stream->capture;
    }
    return fake_leave(code);
}

/* -------------------------------------------------------------- time on GPU */

static bool good_word(vr_cu_addr addr) {
    return addr % 8 == 0 && fake_is_pinned((void *)(uintptr_t)addr, 8);
}

vr_cu_result fake_wait_value(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t value) {
    struct fake_op op = {.kind = WAIT_VALUE, .to = addr, .value = value};
    if (fake_thread.lie == FAKE_CUDA_NULL) {
        op.value = UINT64_MAX >> 1; /* a wait that never ends */
    }
    return good_word(addr) ? fake_submit(stream, &op, false) : fake_leave(VR_CU_INVALID_VALUE);
}

vr_cu_result fake_cuStreamWriteValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t value,
                                       unsigned flags) {
    FAKE_ENTER(cuStreamWriteValue64, FAKE_NEEDS_CONTEXT);
    struct fake_op op = {.kind = WRITE, .to = addr, .value = value};
    if (flags || !good_word(addr)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_thread.lie == FAKE_CUDA_NULL) {
        return fake_leave(VR_CU_SUCCESS); /* a write that never comes */
    }
    return fake_submit(stream, &op, false);
}

vr_cu_result fake_cuStreamWaitValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t value,
                                      unsigned flags) {
    FAKE_ENTER(cuStreamWaitValue64, FAKE_NEEDS_CONTEXT);
    return flags == VR_CU_WAIT_GEQ ? fake_wait_value(stream, addr, value)
                                   : fake_leave(VR_CU_INVALID_VALUE);
}

vr_cu_result fake_cuLaunchHostFunc(struct vr_cu_stream *stream, void (*called)(void *),
                                   void *argument) {
    FAKE_ENTER(cuLaunchHostFunc, FAKE_NEEDS_CONTEXT);
    if (fake.no_functions) {
        return fake_leave(VR_CU_NOT_SUPPORTED);
    }
    struct fake_op op = {.kind = CALL, .run = called, .argument = argument};
    return fake_submit(stream, &op, false);
}

vr_cu_result fake_cuEventCreate(struct vr_cu_event **event, unsigned flags) {
    FAKE_ENTER(cuEventCreate, FAKE_NEEDS_CONTEXT);
    struct vr_cu_event *made = calloc(1, sizeof *made);
    if (!made || flags != VR_CU_EVENT_DISABLE_TIMING) {
        free(made);
        return fake_leave(made ? VR_CU_INVALID_VALUE : VR_CU_OUT_OF_MEMORY);
    }
    made->next = fake_events;
    fake_events = made;
    fake.live.events++;
    *event = made;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuEventDestroy(struct vr_cu_event *event) {
    FAKE_ENTER(cuEventDestroy, FAKE_NEEDS_CONTEXT);
    event->destroyed = true;
    fake.live.events--;
    fake_event_drop(event);
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuEventRecord(struct vr_cu_event *event, struct vr_cu_stream *stream) {
    FAKE_ENTER(cuEventRecord, FAKE_NEEDS_CONTEXT);
    struct fake_op op = {.kind = RECORD, .event = event, .ticket = ++event->recorded};
    return fake_submit(stream, &op, false);
}

vr_cu_result fake_cuEventQuery(struct vr_cu_event *event) {
    FAKE_ENTER(cuEventQuery, FAKE_NEEDS_SAFETY);
    vr_cu_result code = fake_captured_event(event, NULL);
    return fake_leave(code                                ? code
                      : event->reached >= event->recorded ? VR_CU_SUCCESS
                                                          : VR_CU_NOT_READY);
}

vr_cu_result fake_cuStreamWaitEvent(struct vr_cu_stream *stream, struct vr_cu_event *event,
                                    unsigned flags) {
    FAKE_ENTER(cuStreamWaitEvent, FAKE_NEEDS_CONTEXT);
    struct fake_op op = {.kind = WAIT_EVENT, .event = event, .ticket = event->recorded};
    if (flags) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    return fake_submit(stream, &op, false);
}

/* ------------------------------------------------------------------ control */

static struct vr_cu_stream *control_stream_make(int device, bool blocking, bool other_context) {
    pthread_mutex_lock(&fake.lock);
    struct fake_device *found = &fake.devices[device];
    struct vr_cu_stream *stream =
        fake_stream_new(other_context ? &found->other : &found->primary, blocking, true);
    pthread_mutex_unlock(&fake.lock);
    return stream;
}

static void control_stream_end(struct vr_cu_stream *stream) {
    pthread_mutex_lock(&fake.lock);
    stream->destroyed = true;
    fake_streams_sweep();
    pthread_mutex_unlock(&fake.lock);
}

static int control_stream_priority(struct vr_cu_stream *stream) {
    return stream->priority;
}

static void control_stream_renew(struct vr_cu_stream *stream) {
    pthread_mutex_lock(&fake.lock);
    stream->id += UINT64_C(1) << 32;
    pthread_mutex_unlock(&fake.lock);
}

static void control_capture(struct vr_cu_stream *stream, enum vr_cu_capture_status status) {
    pthread_mutex_lock(&fake.lock);
    stream->capture = status;
    stream->capture_mode = VR_CU_MODE_GLOBAL;
    stream->capture_thread = &fake_thread;
    pthread_mutex_unlock(&fake.lock);
}

static enum vr_cu_capture_status control_capture_status(struct vr_cu_stream *stream) {
    pthread_mutex_lock(&fake.lock);
    enum vr_cu_capture_status status = stream->capture;
    pthread_mutex_unlock(&fake.lock);
    return status;
}

static uint64_t control_captured(void) {
    pthread_mutex_lock(&fake.lock);
    uint64_t captured = fake.captured;
    pthread_mutex_unlock(&fake.lock);
    return captured;
}

static void control_host_functions(bool are_called) {
    pthread_mutex_lock(&fake.lock);
    fake.no_functions = !are_called;
    pthread_mutex_unlock(&fake.lock);
}

static void control_hold(bool held) {
    pthread_mutex_lock(&fake.lock);
    fake.held = held;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

void fake_stream_fill_control(struct fake_cuda_control *control) {
    control->stream_make = control_stream_make;
    control->stream_end = control_stream_end;
    control->stream_priority = control_stream_priority;
    control->stream_renew = control_stream_renew;
    control->capture = control_capture;
    control->capture_status = control_capture_status;
    control->captured = control_captured;
    control->hold = control_hold;
    control->host_functions = control_host_functions;
}
