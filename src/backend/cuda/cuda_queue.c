/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_queue.c: streams, the library's own and the program's.
 *
 * Invariants
 *  (1) No signal or wait is submitted to a stream that is being captured: a graph would write the
 *      old value again at each replay. Only the driver knows, and a program may capture any stream
 *      whose handle it can get, so every signal and wait asks.
 *  (2) A captured stream is neither queried nor synchronised: that would invalidate the capture.
 *  (3) A word is given back only when no write to it can be pending.
 *  (4) No signal is submitted to a stream that has the handle of an adopted one and is not it: a
 *      program may destroy its stream too early, and the driver reuses handles.
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

vram_status vr_cuda_submit_begin(const struct vr_queue *queue, struct vr_cuda_scope *scope,
                                 enum vr_cu_call call) {
    vram_status status = check_thread(queue, call);
    return status == VRAM_OK ? vr_cuda_enter(scope, vr_cuda_device_of(queue), VR_CUDA_UNCHANGED)
                             : status;
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
vram_status vr_cuda_capture_query(const struct vr_queue *queue, bool *captured) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
    enum vr_cu_capture_status found = VR_CU_CAPTURE_NONE;
    vr_cu_result code = cuda->api->cuStreamIsCapturing(vr_cuda_query_stream(queue->impl), &found);
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

/* keeps (4), if the driver can tell. */
static vram_status check_stream_id(const struct vr_queue *queue, enum vr_cu_call call) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
    const struct vr_cuda_queue *impl = queue->impl;
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    unsigned long long id = 0;
    if (!impl->id) {
        return VRAM_OK;
    }
    vram_status status = VR_CUDA(cuda, cuStreamGetId, impl->stream, &id);
    if (status == VRAM_OK && id != impl->id) {
        status = vr_error_set(VRAM_ERR_STALE, dialect->name, dialect->names[call], 0,
                              "the adopted stream was destroyed, and another has its handle; "
                              "vram_queue_end comes first");
    }
    return status;
}

/* keeps (1) */
vram_status vr_cuda_capture_check(const struct vr_queue *queue, enum vr_cu_call call) {
    const struct vr_cuda_dialect *dialect = vr_cuda_device_of(queue)->api->dialect;
    bool captured = false;
    vram_status status = check_stream_id(queue, call);
    if (status == VRAM_OK) {
        status = vr_cuda_capture_query(queue, &captured);
    }
    if (status == VRAM_OK && captured) {
        status = vr_error_set(VRAM_ERR_CAPTURE, dialect->name, dialect->names[call], 0,
                              "the stream is being captured into a graph; end the capture first");
    }
    return status;
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
    vram_status status = cuda->api->dialect->stream_home(cuda, impl->stream);
    if (status == VRAM_OK && cuda->api->cuStreamGetId) {
        status = VR_CUDA(cuda, cuStreamGetId, impl->stream, &impl->id);
    }
    return status;
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
    bool captured = false;
    if (signals_done(queue)) {
        return true;
    }
    if (is_foreign_thread(impl) ||
        check_stream_id(queue, VR_CU_CALL_cuStreamSynchronize) != VRAM_OK ||
        vr_cuda_capture_query(queue, &captured) != VRAM_OK || captured) {
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
