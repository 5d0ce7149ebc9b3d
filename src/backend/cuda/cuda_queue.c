/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_queue.c: streams, the library's own and the program's.
 *
 * Invariants
 *  (1) No signal or wait is submitted to a stream that is being captured: a graph would write the
 *      old value again at each replay. Only the driver knows, and a program may capture any stream
 *      whose handle it can get, so every signal and wait asks.
 *  (2) No call ends a capture: see below. One that would is not made, and answers VRAM_ERR_CAPTURE.
 *  (3) A word is given back only when no write to it can be pending.
 *  (4) No signal is submitted to a stream that has the handle of an adopted one and is not it: a
 *      program may destroy its stream too early, and the driver reuses handles. A captured stream
 *      cannot be asked for its id; the first call after the capture asks.
 *
 * Which calls invalidate a capture, as NVIDIA documents it and as driver 580.159 did on an H200,
 * where each call of this backend was made in each of these cases. All others are harmless, also
 * those that create, map and release physical memory, reserve addresses, create and destroy streams
 * and events, load modules, and all that submits work to a stream that is not captured.
 *
 *  - Calls on the captured stream itself, in every mode, by any thread: cuStreamQuery,
 *    cuStreamSynchronize, cuStreamGetId, cuMemcpyPeerAsync and cuMemPrefetchAsync (900), and
 *    cuStreamWaitEvent for an event that was recorded outside (905). So cuStreamIsCapturing comes
 *    first: it and cuStreamGetCtx are harmless. Other copies, fills, kernels and markers become
 *    part of the graph.
 *  - Calls on the legacy stream (NULL, 1), while a blocking stream of the same context is captured,
 *    in every mode, by any thread: all but cuStreamIsCapturing, which answers 906 as the others do
 *    and harms nothing. They invalidate the captures of blocking streams. CuPy's streams are
 *    blocking if not asked otherwise, PyTorch's are not.
 *  - "Potentially unsafe" calls (900): cuMemAlloc, cuMemFree, cuMemAllocManaged, cuMemAdvise,
 *    cuMemHostAlloc, cuMemFreeHost, cuMemHostRegister, cuMemHostUnregister, cuModuleUnload,
 *    cuEventQuery, and cuStreamQuery and cuStreamSynchronize of any stream. They invalidate
 *    captures in mode GLOBAL whoever calls, and those in mode THREAD_LOCAL that the calling thread
 *    began; none in mode RELAXED, and none at all when the calling thread has exchanged its own
 *    mode for RELAXED: VR_CUDA_RELAXED.
 *  - cuEventQuery of an event that was recorded in a capture (907), and cuCtxSynchronize while any
 *    stream of the context is captured (900). The library makes neither call.
 *
 * Between the question and the call another thread may begin a capture; only the program can
 * prevent that.
 *
 * The per-thread default stream is one handle for one stream per thread. It is adopted for the
 * calling thread: submissions by other threads are refused, because they would go to another
 * stream. Other threads ask the legacy stream whether its work is complete, which is in order with
 * it.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <limits.h>

enum { FINISH_TRIES = 3 }; /* how often a refused wait is repeated */

/* -------------------------------------------------------------- submissions */

static bool is_foreign_thread(const struct vr_cuda_queue *impl) {
    return impl->thread && impl->thread != vr_os_thread_number();
}

static vram_status check_thread(const struct vr_queue *queue, enum vr_cu_call call) {
    const struct vr_cuda_dialect *dialect = vr_cuda_device_of(queue)->api->dialect;
    if (!is_foreign_thread(queue->impl)) {
        return VRAM_OK;
    }
    return vr_error_set(VRAM_ERR_INVALID, dialect->name, dialect->names[call], 0,
                        "the per-thread default stream was adopted by another thread and takes "
                        "work from that one only");
}

struct vr_cu_stream *vr_cuda_stream(const struct vr_queue *queue) {
    const struct vr_cuda_queue *impl = queue->impl;
    return impl->stream;
}

/* The handle of another thread's default stream would mean that of the calling thread. The legacy
   stream runs after the work of all default streams, and of other blocking ones, so it is complete
   at the same time or later. */
struct vr_cu_stream *vr_cuda_query_stream(const struct vr_cuda_queue *impl) {
    return is_foreign_thread(impl) ? (struct vr_cu_stream *)(uintptr_t)VR_CU_STREAM_LEGACY
                                   : impl->stream;
}

/* An invalidated capture counts too. The legacy stream returns an error while any other stream that
   it would wait for is captured. */
static vram_status stream_is_captured(const struct vr_cuda_device *cuda,
                                      struct vr_cu_stream *stream, bool *captured) {
    enum vr_cu_capture_status found = VR_CU_CAPTURE_NONE;
    vr_cu_result code = cuda->api->cuStreamIsCapturing(stream, &found);
    if (code == VR_CU_CAPTURE_IMPLICIT) {
        *captured = true;
        return VRAM_OK;
    }
    vram_status status =
        vr_cuda_check(cuda->api, VR_CU_CALL_cuStreamIsCapturing, code, VRAM_ERR_DEVICE_MEMORY);
    if (status == VRAM_OK) {
        *captured = found != VR_CU_CAPTURE_NONE;
    }
    return status;
}

vram_status vr_cuda_capture_query(const struct vr_queue *queue, bool *captured) {
    return stream_is_captured(vr_cuda_device_of(queue), vr_cuda_query_stream(queue->impl),
                              captured);
}

/* keeps (4), if the driver can tell: learns the id of an adopted stream, or compares it. The stream
   is not captured. */
static vram_status check_stream_id(const struct vr_cuda_device *cuda, struct vr_cuda_queue *impl,
                                   enum vr_cu_call call) {
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    unsigned long long id = 0;
    uint64_t known = 0;
    if (!impl->has_id) {
        return VRAM_OK;
    }
    vram_status status = VR_CUDA(cuda, cuStreamGetId, impl->stream, &id);
    if (status == VRAM_OK && !vr_cas(&impl->id, &known, id, VR_ACQ_REL) && known != id) {
        status = vr_error_set(VRAM_ERR_STALE, dialect->name, dialect->names[call], 0,
                              "the adopted stream was destroyed, and another has its handle; "
                              "vram_queue_end comes first");
    }
    return status;
}

static vram_status refuse_captured(const struct vr_queue *queue, enum vr_cu_call call) {
    const struct vr_cuda_dialect *dialect = vr_cuda_device_of(queue)->api->dialect;
    bool captured = false;
    vram_status status = vr_cuda_capture_query(queue, &captured);
    return status == VRAM_OK && captured
               ? vr_error_set(VRAM_ERR_CAPTURE, dialect->name, dialect->names[call], 0,
                              "the stream, or one that it waits for, is being captured into a "
                              "graph; end the capture first")
               : status;
}

/* keeps (1) and (4) */
static vram_status check_marked(const struct vr_queue *queue, enum vr_cu_call call) {
    vram_status status = refuse_captured(queue, call);
    return status == VRAM_OK ? check_stream_id(vr_cuda_device_of(queue), queue->impl, call)
                             : status;
}

/* What a captured stream takes becomes part of the graph; the legacy stream would end the capture
   of another one: keeps (2). */
static vram_status check_submitted(const struct vr_queue *queue, enum vr_cu_call call) {
    bool legacy = (uintptr_t)vr_cuda_stream(queue) <= VR_CU_STREAM_LEGACY;
    return legacy ? refuse_captured(queue, call) : VRAM_OK;
}

static vram_status
scope_begin(const struct vr_queue *queue, struct vr_cuda_scope *scope, enum vr_cu_call call,
            vram_status (*check)(const struct vr_queue *queue, enum vr_cu_call call)) {
    vram_status status = check_thread(queue, call);
    if (status == VRAM_OK) {
        status = vr_cuda_enter(scope, vr_cuda_device_of(queue), VR_CUDA_UNCHANGED);
    }
    if (status == VRAM_OK && (status = check(queue, call)) != VRAM_OK) {
        vr_cuda_leave(scope);
    }
    return status;
}

vram_status vr_cuda_submit_begin(const struct vr_queue *queue, struct vr_cuda_scope *scope,
                                 enum vr_cu_call call) {
    return scope_begin(queue, scope, call, check_submitted);
}

vram_status vr_cuda_mark_begin(const struct vr_queue *queue, struct vr_cuda_scope *scope,
                               enum vr_cu_call call) {
    return scope_begin(queue, scope, call, check_marked);
}

/* ---------------------------------------------------------- making and ending */

/* In CUDA lower numbers have priority. It clamps values outside its range. */
static int native_priority(int32_t priority) {
    return priority == INT32_MIN ? INT_MAX : -priority;
}

static vram_status stream_create(const struct vr_cuda_device *cuda, struct vr_cuda_queue *impl,
                                 int32_t priority) {
    vram_status status = VR_CUDA(cuda, cuStreamCreateWithPriority, &impl->stream,
                                 VR_CU_STREAM_NON_BLOCKING, native_priority(priority));
    if (status == VRAM_OK && !impl->stream) {
        status = vr_cuda_bad_result(cuda->api, VR_CU_CALL_cuStreamCreateWithPriority, 0);
    }
    return status;
}

/* A stream of another device or context cannot use this device's memory. The default streams belong
   to whichever context is current. */
static vram_status stream_adopt(const struct vr_cuda_device *cuda, struct vr_cuda_queue *impl,
                                void *native) {
    uintptr_t number = (uintptr_t)native;
    impl->stream = native;
    if (number == VR_CU_STREAM_PER_THREAD) {
        impl->thread = vr_os_thread_number();
    }
    if (number <= VR_CU_STREAM_PER_THREAD) {
        return VRAM_OK;
    }
    bool captured = false;
    impl->has_id = cuda->api->cuStreamGetId != NULL;
    vram_status status = cuda->api->dialect->stream_home(cuda, impl->stream);
    if (status == VRAM_OK && impl->has_id) {
        status = stream_is_captured(cuda, impl->stream, &captured);
    }
    return status == VRAM_OK && !captured ? check_stream_id(cuda, impl, VR_CU_CALL_cuStreamGetId)
                                          : status;
}

/* Creates the queue for a stream: queue->native if the program created it, else a new one. */
static vram_status queue_make(struct vr_queue *queue, int32_t priority) {
    struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
    struct vr_cuda_scope scope;
    vr_atomic_u64 *word = NULL;
    struct vr_cuda_queue *impl = vr_mem_alloc(1, sizeof *impl, "queue_create");
    if (!impl) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        vr_mem_free(impl);
        return status;
    }
    status = vr_cuda_word_take(cuda, &word);
    if (status == VRAM_OK) {
        status = queue->adopted ? stream_adopt(cuda, impl, queue->native)
                                : stream_create(cuda, impl, priority);
    }
    vr_cuda_leave(&scope);
    if (status != VRAM_OK) {
        if (word) {
            vr_cuda_word_give(cuda, word);
        }
        vr_mem_free(impl);
        return status;
    }
    vr_store(&impl->signalled, vr_load(word, VR_RELAXED), VR_RELAXED);
    vr_cuda_events_init(&impl->events);
    queue->impl = impl;
    queue->native = impl->stream;
    queue->thread = impl->thread;
    queue->word = word;
    return VRAM_OK;
}

static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    return queue_make(queue, options ? options->priority : 0);
}

static vram_status queue_adopt(struct vr_queue *queue) {
    return queue_make(queue, 0);
}

/* Whether no write to the word is pending. Work after the last signal does not matter here. */
static bool signals_done(const struct vr_queue *queue) {
    const struct vr_cuda_queue *impl = queue->impl;
    return vr_load(queue->word, VR_ACQUIRE) >= vr_load(&impl->signalled, VR_ACQUIRE);
}

/* The caller frees the memory of this work next, so a driver that refuses to wait is asked again.
   If it lost the device, or the stream is captured, that is final. */
static bool stream_finish(const struct vr_cuda_device *cuda, struct vr_cu_stream *stream) {
    vram_status status = VR_CUDA(cuda, cuStreamSynchronize, stream);
    for (int i = 0; i < FINISH_TRIES && status != VRAM_OK && status != VRAM_ERR_DEVICE_LOST &&
                    status != VRAM_ERR_CAPTURE;
         i++) {
        status = VR_CUDA(cuda, cuStreamSynchronize, stream);
    }
    return status == VRAM_OK;
}

/* Waits for the signals of an adopted stream, without touching a stream that has none pending or
   that must not be touched. False if a write may still come. */
static bool finish_adopted(const struct vr_queue *queue) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
    const struct vr_cuda_queue *impl = queue->impl;
    if (signals_done(queue)) {
        return true;
    }
    if (is_foreign_thread(impl) || check_marked(queue, VR_CU_CALL_cuStreamSynchronize) != VRAM_OK) {
        return false; /* keeps (2) and (4) */
    }
    return stream_finish(cuda, impl->stream);
}

/* The stream is destroyed in both cases; its word must not be reused while a write may be
   pending. */
static bool finish_own(const struct vr_queue *queue) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
    const struct vr_cuda_queue *impl = queue->impl;
    bool finished = stream_finish(cuda, impl->stream);
    vr_cuda_warn(cuda->api, VR_CU_CALL_cuStreamDestroy, cuda->api->cuStreamDestroy(impl->stream));
    return finished;
}

/* On a lost device no write will come, and the word is not used again. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
    struct vr_cuda_scope scope;
    vram_error before;
    bool finished = false;
    vr_error_save(&before);
    if (!vr_load(&queue->device->lost, VR_ACQUIRE) &&
        vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED) == VRAM_OK) {
        (void)vr_cuda_events_poll(cuda, queue->impl, queue->word);
        finished = queue->adopted ? finish_adopted(queue) : finish_own(queue);
        vr_cuda_events_end(cuda, queue->impl, queue->word, finished, false);
        vr_cuda_leave(&scope);
    } else {
        vr_cuda_events_end(cuda, queue->impl, queue->word, false, true);
    }
    if (finished) {
        vr_cuda_word_give(cuda, queue->word); /* keeps (3) */
    }
    vr_error_restore(&before);
    vr_mem_free(queue->impl);
    queue->impl = NULL;
}

const struct vr_queue_ops vr_cuda_queue_ops = {
    .create = queue_create,
    .adopt = queue_adopt,
    .destroy = queue_destroy,
    .upload = vr_cuda_upload,
    .download = vr_cuda_download,
    .copy = vr_cuda_copy,
    .copy_rows = vr_cuda_copy_rows,
    .fill = vr_cuda_fill,
    .signal = vr_cuda_signal,
    .after = vr_cuda_after,
    .poll = vr_cuda_poll,
};
