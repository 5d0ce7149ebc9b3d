/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_queue.c: streams, the library's own and the program's.
 *
 * Invariants
 *  (1) No marker goes into a stream that is being captured: a graph would write the old value again
 *      at each replay. The driver has no cheaper way to know than to be asked, and a program may
 *      capture any stream whose handle it can get, so every signal and wait asks.
 *  (2) A captured stream is neither queried nor synchronised: that would spoil the capture.
 *  (3) A word is given back only when no write to it can be outstanding.
 *  (4) No marker goes into a stream that has the handle of an adopted one and is not it: a program
 *      may destroy its stream too early, and the driver uses handles again.
 *
 * The per-thread default stream is one handle for as many streams as there are threads. It is
 * adopted for the calling thread: submissions by others are refused rather than put out of order.
 * Whether its work is done others learn from the legacy stream, which is in order with it.
 *
 * Copies are handed to the driver as they are. It copies from and to pageable memory before the
 * call returns, waiting for earlier work of the stream; only pinned memory makes them asynchronous.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <limits.h>

enum { FINISHES = 3 }; /* how often a wait that was refused is repeated */

static struct vr_cuda_device *cuda_of(const struct vr_queue *queue) {
    return queue->device->impl;
}

/* -------------------------------------------------------------- submissions */

static bool foreign_thread(const struct vr_cuda_queue *impl) {
    return impl->thread && impl->thread != vr_os_thread_number();
}

static vram_status refuse_foreign_thread(const struct vr_queue *queue, enum vr_cu_call call) {
    const struct vr_cuda_dialect *dialect = cuda_of(queue)->api->dialect;
    if (!foreign_thread(queue->impl)) {
        return VRAM_OK;
    }
    return vr_error_set(VRAM_ERR_INVALID, dialect->name, dialect->names[call], 0,
                        "the per-thread default stream was adopted by another thread and takes "
                        "work from that one only");
}

vram_status vr_cuda_submit_begin(const struct vr_queue *queue, struct vr_cuda_scope *scope,
                                 enum vr_cu_call call) {
    vram_status status = refuse_foreign_thread(queue, call);
    return status == VRAM_OK ? vr_cuda_enter(scope, cuda_of(queue), VR_CUDA_AS_IT_IS) : status;
}

struct vr_cu_stream *vr_cuda_stream(const struct vr_queue *queue) {
    const struct vr_cuda_queue *impl = queue->impl;
    return impl->stream;
}

/* The stream to ask whether the work of a queue is done. Here the handle of another thread's
   default stream would mean our own. The legacy stream comes behind the work of all default
   streams, and of other blocking ones, so it answers later at worst. */
static struct vr_cu_stream *asked_stream(const struct vr_cuda_queue *impl) {
    return foreign_thread(impl) ? (struct vr_cu_stream *)(uintptr_t)VR_CU_STREAM_LEGACY
                                : impl->stream;
}

/* Whether the stream is part of a capture, a spoiled one included. The legacy stream answers with
   an error while any other stream that it would wait for is captured. The context is current. */
static vram_status capture_ask(const struct vr_queue *queue, bool *captured) {
    const struct vr_cuda_device *cuda = cuda_of(queue);
    enum vr_cu_capture_status found = VR_CU_CAPTURE_NONE;
    vr_cu_result code = cuda->api->cuStreamIsCapturing(asked_stream(queue->impl), &found);
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

/* keeps (4), where the driver can tell. */
static vram_status refuse_stranger(const struct vr_queue *queue, enum vr_cu_call call) {
    const struct vr_cuda_device *cuda = cuda_of(queue);
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
static vram_status refuse_capture(const struct vr_queue *queue, enum vr_cu_call call) {
    const struct vr_cuda_dialect *dialect = cuda_of(queue)->api->dialect;
    bool captured = false;
    vram_status status = refuse_stranger(queue, call);
    if (status == VRAM_OK) {
        status = capture_ask(queue, &captured);
    }
    if (status == VRAM_OK && captured) {
        status = vr_error_set(VRAM_ERR_CAPTURE, dialect->name, dialect->names[call], 0,
                              "the stream is being captured into a graph; end the capture first");
    }
    return status;
}

/* --------------------------------------------------------- copies and fills */

/* One copy between a device and host memory. */
struct host_copy {
    bool to_device;
    vram_addr device;
    char *host;
};

/* How many bytes from `host` on are either all page-locked or all not, at most `bytes`; asks the
   driver for each page. */
static uint64_t uniform_bytes(const struct vr_cuda_device *cuda, char *host, uint64_t bytes) {
    uint64_t page = vr_os_page_bytes(), alike = page - (uintptr_t)host % page;
    unsigned flags;
    if (!cuda->api->cuMemHostGetFlags) {
        return bytes;
    }
    vr_cu_result first = cuda->api->cuMemHostGetFlags(&flags, host);
    while (alike < bytes && cuda->api->cuMemHostGetFlags(&flags, host + alike) == first) {
        alike += page;
    }
    return alike < bytes ? alike : bytes;
}

static vr_cu_result copy_part(const struct vr_queue *queue, const struct host_copy *copy,
                              uint64_t offset, uint64_t bytes) {
    const struct vr_cuda_api *api = cuda_of(queue)->api;
    struct vr_cu_stream *stream = vr_cuda_stream(queue);
    return copy->to_device
               ? api->cuMemcpyHtoDAsync(copy->device + offset, copy->host + offset, bytes, stream)
               : api->cuMemcpyDtoHAsync(copy->host + offset, copy->device + offset, bytes, stream);
}

/* The driver rejects a range that begins in page-locked memory and extends past it. Any ordinary
   memory may lie next to pages that were locked, so such a range is copied in parts. */
static vram_status copy_host(struct vr_queue *queue, const struct host_copy *copy, uint64_t bytes) {
    const struct vr_cuda_device *cuda = cuda_of(queue);
    enum vr_cu_call call =
        copy->to_device ? VR_CU_CALL_cuMemcpyHtoDAsync : VR_CU_CALL_cuMemcpyDtoHAsync;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_submit_begin(queue, &scope, call);
    if (status != VRAM_OK) {
        return status;
    }
    vr_cu_result code = copy_part(queue, copy, 0, bytes);
    if (code == VR_CU_INVALID_VALUE && uniform_bytes(cuda, copy->host, bytes) < bytes) {
        code = VR_CU_SUCCESS;
        for (uint64_t done = 0, part; done < bytes && code == VR_CU_SUCCESS; done += part) {
            part = uniform_bytes(cuda, copy->host + done, bytes - done);
            code = copy_part(queue, copy, done, part);
        }
    }
    status = vr_cuda_check(cuda->api, call, code, VRAM_ERR_DEVICE_MEMORY);
    vr_cuda_leave(&scope);
    return status;
}

static vram_status queue_upload(struct vr_queue *queue, vram_addr to, const void *from,
                                uint64_t bytes) {
    return copy_host(queue, &(struct host_copy){true, to, (char *)(uintptr_t)from}, bytes);
}

static vram_status queue_download(struct vr_queue *queue, void *to, vram_addr from,
                                  uint64_t bytes) {
    return copy_host(queue, &(struct host_copy){false, from, to}, bytes);
}

static vram_status queue_copy(struct vr_queue *queue, vram_addr to, vram_addr from,
                              uint64_t bytes) {
    const struct vr_cuda_queue *impl = queue->impl;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_submit_begin(queue, &scope, VR_CU_CALL_cuMemcpyDtoDAsync);
    if (status == VRAM_OK) {
        status = VR_CUDA(cuda_of(queue), cuMemcpyDtoDAsync, to, from, bytes, impl->stream);
        vr_cuda_leave(&scope);
    }
    return status;
}

/* A pitch that is none for this device, be it too wide or not one of the driver's own making, is an
   invalid value to it, as much else would be: what is wrong with more than the pitch the single
   rows will tell. */
static vram_status queue_copy_rows(struct vr_queue *queue, const struct vr_rectangle *rectangle) {
    const struct vr_cuda_device *cuda = cuda_of(queue);
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_submit_begin(queue, &scope, dialect->copy_rows_call);
    if (status != VRAM_OK) {
        return status;
    }
    vr_cu_result code = dialect->copy_rows(cuda, vr_cuda_stream(queue), rectangle);
    if (code == VR_CU_INVALID_VALUE) {
        status = vr_error_set(
            VRAM_ERR_UNSUPPORTED, dialect->name, dialect->names[dialect->copy_rows_call], code,
            "the driver does not copy rows that are %llu and %llu bytes apart",
            (unsigned long long)rectangle->from_pitch, (unsigned long long)rectangle->to_pitch);
    } else {
        status = vr_cuda_check(cuda->api, dialect->copy_rows_call, code, VRAM_ERR_DEVICE_MEMORY);
    }
    vr_cuda_leave(&scope);
    return status;
}

static vram_status queue_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                              uint32_t pattern_bytes, uint64_t bytes) {
    const struct vr_cuda_device *cuda = cuda_of(queue);
    const struct vr_cuda_queue *impl = queue->impl;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_submit_begin(queue, &scope, VR_CU_CALL_cuMemsetD8Async);
    if (status != VRAM_OK) {
        return status;
    }
    if (pattern_bytes == 1) {
        status = VR_CUDA(cuda, cuMemsetD8Async, to, (unsigned char)pattern, bytes, impl->stream);
    } else if (pattern_bytes == 2) {
        status =
            VR_CUDA(cuda, cuMemsetD16Async, to, (unsigned short)pattern, bytes / 2, impl->stream);
    } else {
        status = VR_CUDA(cuda, cuMemsetD32Async, to, pattern, bytes / 4, impl->stream);
    }
    vr_cuda_leave(&scope);
    return status;
}

/* --------------------------------------------------------------------- time */

/* Several threads may signal one queue; their values may then reach the stream in another order
   than they were taken. src/device/point.c shows why that is harmless. */
static vram_status queue_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_cuda_queue *impl = queue->impl;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_submit_begin(queue, &scope, VR_CU_CALL_cuStreamWriteValue64);
    if (status != VRAM_OK) {
        return status;
    }
    status = refuse_capture(queue, VR_CU_CALL_cuStreamWriteValue64);
    if (status == VRAM_OK) {
        vr_atomic_max(&impl->signalled, value); /* before the write exists: queue_destroy looks */
        status = vr_cuda_word_write(cuda_of(queue), impl->stream, queue->word, value);
        if (status == VRAM_ERR_UNSUPPORTED) {
            status = vr_cuda_mark_add(cuda_of(queue), impl, value);
        }
    }
    vr_cuda_leave(&scope);
    return status;
}

/* Waits for all that `other` was given so far, which includes the signal; more than was asked for,
   and right. The event may be destroyed at once: the driver keeps it until it has served. */
static vram_status wait_for_event(struct vr_queue *queue, struct vr_queue *other) {
    const struct vr_cuda_device *cuda = cuda_of(queue), *signaller = cuda_of(other);
    const struct vr_cuda_queue *impl = queue->impl, *source = other->impl;
    struct vr_cuda_scope outer, inner;
    struct vr_cu_event *event = NULL;
    vram_status status = vr_cuda_submit_begin(other, &outer, VR_CU_CALL_cuEventRecord);
    if (status != VRAM_OK) {
        return status;
    }
    status = refuse_capture(other, VR_CU_CALL_cuEventRecord);
    if (status == VRAM_OK) {
        status = VR_CUDA(signaller, cuEventCreate, &event, VR_CU_EVENT_DISABLE_TIMING);
    }
    if (status == VRAM_OK) {
        status = VR_CUDA(signaller, cuEventRecord, event, source->stream);
        if (status == VRAM_OK &&
            (status = vr_cuda_enter(&inner, cuda, VR_CUDA_AS_IT_IS)) == VRAM_OK) {
            status = VR_CUDA(cuda, cuStreamWaitEvent, impl->stream, event, 0);
            vr_cuda_leave(&inner);
        }
        vr_cuda_shrug(signaller->api, VR_CU_CALL_cuEventDestroy,
                      signaller->api->cuEventDestroy(event));
    }
    vr_cuda_leave(&outer);
    return status;
}

/* Waits for the word itself, no longer than needed. NVIDIA warns that such waits can deadlock when
   what they wait for is submitted later; ours is submitted already, and so was all before it. */
static vram_status wait_for_word(struct vr_queue *queue, struct vr_queue *other, uint64_t value,
                                 bool *supported) {
    struct vr_cuda_device *cuda = cuda_of(queue);
    const struct vr_cuda_queue *impl = queue->impl;
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    vr_cu_result code = dialect->wait_value(cuda->api, impl->stream, (uintptr_t)other->word, value);
    *supported = code != VR_CU_NOT_SUPPORTED;
    if (!*supported) {
        vr_store(&cuda->stream_waits, false, VR_RELAXED);
        return VRAM_OK;
    }
    return vr_cuda_check(cuda->api, dialect->wait_call, code, VRAM_ERR_DEVICE_MEMORY);
}

/* Asks for a capture whichever way it waits: inside a graph the wait would look at the word again
   at each replay, when the word may long have gone with its device. */
static vram_status queue_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    const struct vr_cuda_device *cuda = cuda_of(queue);
    enum vr_cu_call call = cuda->api->dialect->wait_call;
    bool supported =
        vr_load(&cuda->memory_ops, VR_RELAXED) && vr_load(&cuda->stream_waits, VR_RELAXED);
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_submit_begin(queue, &scope, call);
    if (status != VRAM_OK) {
        return status;
    }
    status = refuse_capture(queue, call);
    if (status == VRAM_OK && supported) {
        status = wait_for_word(queue, other, value, &supported);
    }
    vr_cuda_leave(&scope);
    return status == VRAM_OK && !supported ? wait_for_event(queue, other) : status;
}

/* Relaxed, since waits poll from any thread while others capture. */
static vram_status queue_poll(struct vr_queue *queue) {
    const struct vr_cuda_device *cuda = cuda_of(queue);
    struct vr_cuda_scope scope;
    bool captured = false;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status = capture_ask(queue, &captured);
    if (status == VRAM_OK && captured) {
        status = VRAM_ERR_NOT_READY; /* keeps (2); what was submitted before goes on */
    } else if (status == VRAM_OK) {
        vr_cu_result code = cuda->api->cuStreamQuery(asked_stream(queue->impl));
        /* After the question: of a stream that is done, no event is left behind. */
        status = vr_cuda_marks_look(cuda, queue->impl, queue->word);
        if (code == VR_CU_NOT_READY) {
            status = status == VRAM_OK ? VRAM_ERR_NOT_READY : status;
        } else if (code != VR_CU_SUCCESS) {
            status =
                vr_cuda_check(cuda->api, VR_CU_CALL_cuStreamQuery, code, VRAM_ERR_DEVICE_MEMORY);
        }
    }
    vr_cuda_leave(&scope);
    return status;
}

/* ---------------------------------------------------------- making and ending */

/* CUDA counts the other way: lower numbers run first. It clamps what is out of its range. */
static int native_priority(int32_t priority) {
    return priority == INT32_MIN ? INT_MAX : -priority;
}

static vram_status stream_create(const struct vr_cuda_device *cuda, struct vr_cuda_queue *impl,
                                 int32_t priority) {
    vram_status status = VR_CUDA(cuda, cuStreamCreateWithPriority, &impl->stream,
                                 VR_CU_STREAM_NON_BLOCKING, native_priority(priority));
    if (status == VRAM_OK && !impl->stream) {
        status = vr_cuda_lied(cuda->api, VR_CU_CALL_cuStreamCreateWithPriority, 0);
    }
    return status;
}

/* A stream of another device or context could not use this device's memory. The default streams
   belong to whichever is current. */
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

/* Makes the queue around a stream: queue->native where the program made it, else a new one. */
static vram_status queue_make(struct vr_queue *queue, int32_t priority) {
    struct vr_cuda_device *cuda = cuda_of(queue);
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
    vr_cuda_marks_init(&impl->marks);
    queue->impl = impl;
    queue->native = impl->stream;
    queue->word = word;
    return VRAM_OK;
}

static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    return queue_make(queue, options ? options->priority : 0);
}

static vram_status queue_adopt(struct vr_queue *queue) {
    return queue_make(queue, 0);
}

/* Whether no write to the word is outstanding. Work behind the last signal does not matter here. */
static bool signals_done(const struct vr_queue *queue) {
    const struct vr_cuda_queue *impl = queue->impl;
    return vr_load(queue->word, VR_ACQUIRE) >= vr_load(&impl->signalled, VR_ACQUIRE);
}

/* The memory under its work goes back next: a driver that refuses to wait is asked more than once.
   One that lost the device, or says that the stream is captured, has given its answer. */
static bool stream_finish(const struct vr_cuda_device *cuda, struct vr_cu_stream *stream) {
    vram_status status = VR_CUDA(cuda, cuStreamSynchronize, stream);
    for (int i = 0; i < FINISHES && status != VRAM_OK && status != VRAM_ERR_DEVICE_LOST &&
                    status != VRAM_ERR_CAPTURE;
         i++) {
        status = VR_CUDA(cuda, cuStreamSynchronize, stream);
    }
    return status == VRAM_OK;
}

/* Finishes what is left of an adopted stream's signals, without touching a stream that has none
   left or that may not be touched. False when a write may still come. */
static bool finish_adopted(const struct vr_queue *queue) {
    const struct vr_cuda_device *cuda = cuda_of(queue);
    const struct vr_cuda_queue *impl = queue->impl;
    bool captured = false;
    if (signals_done(queue)) {
        return true;
    }
    if (foreign_thread(impl) || refuse_stranger(queue, VR_CU_CALL_cuStreamSynchronize) != VRAM_OK ||
        capture_ask(queue, &captured) != VRAM_OK || captured) {
        return false; /* keeps (2) and (4) */
    }
    return stream_finish(cuda, impl->stream);
}

/* The stream is destroyed either way; only its word must outlast what could still be written. */
static bool finish_own(const struct vr_queue *queue) {
    const struct vr_cuda_device *cuda = cuda_of(queue);
    const struct vr_cuda_queue *impl = queue->impl;
    bool finished = stream_finish(cuda, impl->stream);
    vr_cuda_shrug(cuda->api, VR_CU_CALL_cuStreamDestroy, cuda->api->cuStreamDestroy(impl->stream));
    return finished;
}

/* On a lost device no write will come, but nobody will take the word again either. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_cuda_device *cuda = cuda_of(queue);
    struct vr_cuda_scope scope;
    vram_error before;
    bool finished = false;
    vr_error_save(&before);
    if (!vr_load(&queue->device->lost, VR_ACQUIRE) &&
        vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED) == VRAM_OK) {
        (void)vr_cuda_marks_look(cuda, queue->impl, queue->word);
        finished = queue->adopted ? finish_adopted(queue) : finish_own(queue);
        vr_cuda_marks_end(cuda, queue->impl, queue->word, finished, false);
        vr_cuda_leave(&scope);
    } else {
        vr_cuda_marks_end(cuda, queue->impl, queue->word, false, true);
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
    .upload = queue_upload,
    .download = queue_download,
    .copy = queue_copy,
    .copy_rows = queue_copy_rows,
    .fill = queue_fill,
    .signal = queue_signal,
    .after = queue_after,
    .poll = queue_poll,
};
