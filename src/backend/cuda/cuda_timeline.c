/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_timeline.c: words, which tell how far a stream's work is complete; signals, waits and polls.
 *
 *      page of locked host memory, visible to every device at the same address
 *     +--------+--------+--------+-     -+--------+
 *     | word 0 | word 1 | word 2 |  ...  | word 63|     64 bytes each, one cache line: a thread
 *     +--------+--------+--------+-     -+--------+     that spins on one does not disturb others
 *
 * Invariants
 *  (1) The first page is allocated with its device, and one more whenever all words are in use.
 *      None is freed before the device is closed. So a word stays readable, by the host and by
 *      streams that wait for it, for as long as backend.h requires.
 *  (2) A word is never reset: its next queue continues counting where the last one stopped. A
 *      stream that still waits for a value of the old queue is therefore never blocked.
 *  (3) A word is given back only when no write to it is pending.
 *  (4) Words can be read until the device is closed, whatever the program does to the driver. So
 *      their memory is the library's own, and registered: a reset of the device (cudaDeviceReset)
 *      unmaps what the driver allocated, and the next free of the program reads a word. Where the
 *      device would have another address for it the driver allocates it after all.
 *
 * A signal is one of three, in this order of preference:
 *  - a 64-bit memory operation of the stream, if the device has them;
 *  - a host function that the driver calls after the stream's work. Once the device is lost the
 *    driver does not call it; its argument is then left in type-stable memory, so that a call that
 *    is already running finds it valid;
 *  - an event. Nobody writes the word then: whoever polls the queue queries the oldest event first
 *    and writes the value of each that is complete. Events of one stream complete in order. The
 *    word is correct but late; waits poll, so they end.
 * The device tells which by an attribute, a missing symbol, or "not supported" at the first call.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/stable.h"

#include <string.h>

enum { PAGE_BYTES = 4096, WORD_STRIDE = 64, PAGE_WORDS = PAGE_BYTES / WORD_STRIDE };
_Static_assert(PAGE_WORDS == 64, "one bit of vr_cuda_page.taken per word");

struct vr_cuda_page {
    struct vr_cuda_page *next;
    unsigned char *memory; /* PAGE_BYTES or, if own, page_bytes(); locked */
    bool own;              /* keeps (4) */
    uint64_t taken;        /* bit i: word i belongs to a queue */
};

/* ------------------------------------------------------------ taking, giving */

static bool registers_words(const struct vr_cuda_device *device) {
    const struct vr_cuda_api *api = device->api;
    int query = api->dialect->queries[VR_CUDA_QUERY_HOST_ADDRESS], same = 0;
    return query != VR_CUDA_NO_QUERY && api->cuMemHostRegister && api->cuMemHostUnregister &&
           api->cuDeviceGetAttribute(&same, (enum vr_cu_attribute)query, device->ordinal) ==
               VR_CU_SUCCESS &&
           same;
}

/* Whole pages: what is registered is locked page by page. */
static size_t page_bytes(void) {
    size_t page = vr_os_page_bytes();
    return page > PAGE_BYTES ? page : PAGE_BYTES;
}

/* keeps (4). VRAM_ERR_UNSUPPORTED, without an error record, if the device cannot. */
static vram_status page_register(const struct vr_cuda_device *device, struct vr_cuda_page *page) {
    const struct vr_cuda_api *api = device->api;
    void *memory = NULL;
    if (!registers_words(device)) {
        return VRAM_ERR_UNSUPPORTED;
    }
    vram_status status = vr_os_pages_alloc_shared(page_bytes(), &memory);
    if (status != VRAM_OK) {
        return status;
    }
    vr_cu_result code = api->cuMemHostRegister(memory, page_bytes(), api->dialect->word_flags);
    status = vr_cuda_status(api->dialect, code);
    if (status != VRAM_OK) {
        (void)vr_os_pages_free(memory, page_bytes());
        return status == VRAM_ERR_UNSUPPORTED
                   ? status
                   : vr_cuda_check(api, VR_CU_CALL_cuMemHostRegister, code, VRAM_ERR_HOST_MEMORY);
    }
    page->memory = memory;
    page->own = true;
    return VRAM_OK;
}

/* Zeroed: a driver may return memory with old contents. */
static vram_status page_allocate(const struct vr_cuda_device *device, struct vr_cuda_page *page) {
    void *found = NULL;
    vram_status status = vr_cuda_check(
        device->api, VR_CU_CALL_cuMemHostAlloc,
        device->api->cuMemHostAlloc(&found, PAGE_BYTES, device->api->dialect->word_flags),
        VRAM_ERR_HOST_MEMORY);
    if (status != VRAM_OK) {
        return status;
    }
    if (!found || (uintptr_t)found % WORD_STRIDE) {
        if (found) {
            vr_cuda_warn(device->api, VR_CU_CALL_cuMemFreeHost, device->api->cuMemFreeHost(found));
        }
        return vr_cuda_bad_result(device->api, VR_CU_CALL_cuMemHostAlloc, (uintptr_t)found);
    }
    page->memory = memset(found, 0, PAGE_BYTES);
    return VRAM_OK;
}

static void page_free(const struct vr_cuda_device *device, const struct vr_cuda_page *page) {
    const struct vr_cuda_api *api = device->api;
    if (!page->own) {
        vr_cuda_warn(api, VR_CU_CALL_cuMemFreeHost, api->cuMemFreeHost(page->memory));
        return;
    }
    vr_cu_result code = api->cuMemHostUnregister(page->memory);
    vr_cuda_warn(api, VR_CU_CALL_cuMemHostUnregister, code);
    if (code == VR_CU_SUCCESS) {
        (void)vr_os_pages_free(page->memory, page_bytes());
    }
}

/* Allocates one more page and lists it. No lock is held across the driver call, so two threads may
   both add one; both will be used. */
static vram_status page_add(struct vr_cuda_device *device) {
    struct vr_cuda_page *page = vr_mem_alloc(1, sizeof *page, "cuMemHostAlloc");
    if (!page) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = page_register(device, page);
    if (status == VRAM_ERR_UNSUPPORTED) {
        status = page_allocate(device, page);
    }
    if (status != VRAM_OK) {
        vr_mem_free(page);
        return status;
    }
    vr_mutex_lock(&device->words.lock);
    page->next = device->words.pages;
    device->words.pages = page;
    vr_mutex_unlock(&device->words.lock);
    return VRAM_OK;
}

/* A free word of the existing pages, or NULL. */
static vr_atomic_u64 *word_find(struct vr_cuda_device *device) {
    vr_atomic_u64 *word = NULL;
    vr_mutex_lock(&device->words.lock);
    for (struct vr_cuda_page *page = device->words.pages; page && !word; page = page->next) {
        if (~page->taken) {
            unsigned index = vr_low_bit(~page->taken);
            page->taken |= UINT64_C(1) << index;
            word = (vr_atomic_u64 *)(void *)(page->memory + (size_t)index * WORD_STRIDE);
        }
    }
    vr_mutex_unlock(&device->words.lock);
    return word;
}

vram_status vr_cuda_word_take(struct vr_cuda_device *device, vr_atomic_u64 **word) {
    vr_atomic_u64 *found;
    while (!(found = word_find(device))) {
        vram_status status = page_add(device);
        if (status != VRAM_OK) {
            return status;
        }
    }
    *word = found;
    return VRAM_OK;
}

void vr_cuda_word_give(struct vr_cuda_device *device, vr_atomic_u64 *word) {
    uintptr_t at = (uintptr_t)word;
    vr_mutex_lock(&device->words.lock);
    for (struct vr_cuda_page *page = device->words.pages; page; page = page->next) {
        if (vr_inside(at, sizeof *word, (uintptr_t)page->memory, PAGE_BYTES)) {
            page->taken &= ~(UINT64_C(1) << (at - (uintptr_t)page->memory) / WORD_STRIDE);
        }
    }
    vr_mutex_unlock(&device->words.lock);
}

vram_status vr_cuda_words_init(struct vr_cuda_device *device) {
    vr_mutex_init(&device->words.lock, VR_RANK_BACKEND);
    vram_status status = page_add(device);
    if (status != VRAM_OK) {
        vr_mutex_destroy(&device->words.lock);
    }
    return status;
}

/* A word that was not given back may still be written: its page stays until the process ends. */
void vr_cuda_words_end(struct vr_cuda_device *device, bool lost) {
    while (device->words.pages) {
        struct vr_cuda_page *page = device->words.pages;
        device->words.pages = page->next;
        if (!lost && !page->taken) {
            page_free(device, page);
        }
        vr_mem_free(page);
    }
    vr_mutex_destroy(&device->words.lock);
}

/* ------------------------------------------------------------------ writing */

/* A write that a host function does. */
struct word_write {
    void *link; /* vr_stable's own */
    vr_atomic_u64 *word;
    uint64_t value;
};

static struct vr_stable word_writes = VR_STABLE_INIT(struct word_write);

/* Runs on a thread of the driver, which forbids driver calls from here. The record is given back
   first: once the word is written, the device may be closed. */
static void word_write_run(void *argument) {
    struct word_write write = *(struct word_write *)argument;
    vr_stable_give(&word_writes, argument);
    vr_store(write.word, write.value, VR_RELEASE);
}

static vram_status word_write_by_function(struct vr_cuda_device *device,
                                          struct vr_cu_stream *stream, vr_atomic_u64 *word,
                                          uint64_t value) {
    struct word_write *write = vr_stable_take(&word_writes, "cuLaunchHostFunc");
    if (!write) {
        return VRAM_ERR_HOST_MEMORY;
    }
    write->word = word;
    write->value = value;
    vr_cu_result code = device->api->cuLaunchHostFunc(stream, word_write_run, write);
    if (code == VR_CU_SUCCESS) {
        return VRAM_OK;
    }
    vr_stable_give(&word_writes, write);
    if (code == VR_CU_NOT_SUPPORTED) {
        vr_store(&device->no_functions, true, VR_RELAXED);
        return VRAM_ERR_UNSUPPORTED;
    }
    return vr_cuda_check(device->api, VR_CU_CALL_cuLaunchHostFunc, code, VRAM_ERR_DEVICE_MEMORY);
}

/* Makes the stream write `value` after its work. VRAM_ERR_UNSUPPORTED, without an error record, if
   streams cannot. */
static vram_status word_write_submit(struct vr_cuda_device *device, struct vr_cu_stream *stream,
                                     vr_atomic_u64 *word, uint64_t value) {
    if (vr_load(&device->memory_ops, VR_RELAXED)) {
        vr_cu_result code =
            device->api->cuStreamWriteValue64(stream, (uintptr_t)word, value, VR_CU_WRITE_DEFAULT);
        if (code != VR_CU_NOT_SUPPORTED) {
            return vr_cuda_check(device->api, VR_CU_CALL_cuStreamWriteValue64, code,
                                 VRAM_ERR_DEVICE_MEMORY);
        }
        vr_store(&device->memory_ops, false, VR_RELAXED);
    }
    return vr_load(&device->no_functions, VR_RELAXED)
               ? VRAM_ERR_UNSUPPORTED
               : word_write_by_function(device, stream, word, value);
}

/* ------------------------------------------------------------------ events */

struct vr_cuda_signal_event {
    struct vr_cuda_signal_event *next;
    struct vr_cu_event *event;
    uint64_t value;
};

void vr_cuda_events_init(struct vr_cuda_events *events) {
    vr_mutex_init(&events->lock, VR_RANK_BACKEND);
    events->first = events->last = NULL;
}

static void event_append(struct vr_cuda_events *events, struct vr_cuda_signal_event *signal) {
    vr_mutex_lock(&events->lock);
    if (events->last) {
        events->last->next = signal;
    } else {
        events->first = signal;
    }
    events->last = signal;
    vr_mutex_unlock(&events->lock);
}

/* Takes the oldest; NULL if there is none. */
static struct vr_cuda_signal_event *event_take(struct vr_cuda_events *events) {
    vr_mutex_lock(&events->lock);
    struct vr_cuda_signal_event *signal = events->first;
    if (signal) {
        events->first = signal->next;
        events->last = events->first ? events->last : NULL;
        signal->next = NULL;
    }
    vr_mutex_unlock(&events->lock);
    return signal;
}

/* Puts back one that is not complete. Several threads may do so in any order: which event is
   queried first does not matter, because the word only rises. */
static void event_put_back(struct vr_cuda_events *events, struct vr_cuda_signal_event *signal) {
    vr_mutex_lock(&events->lock);
    signal->next = events->first;
    events->first = signal;
    events->last = events->last ? events->last : signal;
    vr_mutex_unlock(&events->lock);
}

static void event_end(const struct vr_cuda_device *device, struct vr_cuda_signal_event *signal,
                      bool lost) {
    if (!lost) {
        vr_cuda_warn(device->api, VR_CU_CALL_cuEventDestroy,
                     device->api->cuEventDestroy(signal->event));
    }
    vr_mem_free(signal);
}

static vram_status event_signal(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                                uint64_t value) {
    struct vr_cuda_signal_event *signal = vr_mem_alloc(1, sizeof *signal, "signal");
    if (!signal) {
        return VRAM_ERR_HOST_MEMORY;
    }
    signal->value = value;
    vram_status status = VR_CUDA(device, cuEventCreate, &signal->event, VR_CU_EVENT_DISABLE_TIMING);
    if (status != VRAM_OK) {
        vr_mem_free(signal);
        return status;
    }
    status = VR_CUDA(device, cuEventRecord, signal->event, queue->stream);
    if (status != VRAM_OK) {
        event_end(device, signal, false);
        return status;
    }
    event_append(&queue->events, signal);
    return VRAM_OK;
}

vram_status vr_cuda_events_poll(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                                vr_atomic_u64 *word) {
    vram_status status = VRAM_OK;
    struct vr_cuda_signal_event *signal;
    while (status == VRAM_OK && (signal = event_take(&queue->events))) {
        vr_cu_result code = device->api->cuEventQuery(signal->event);
        if (code == VR_CU_SUCCESS) {
            vr_atomic_max(word, signal->value);
            event_end(device, signal, false);
            continue;
        }
        event_put_back(&queue->events, signal);
        if (code == VR_CU_NOT_READY) {
            break;
        }
        status = vr_cuda_check(device->api, VR_CU_CALL_cuEventQuery, code, VRAM_ERR_DEVICE_MEMORY);
    }
    return status;
}

void vr_cuda_events_end(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                        vr_atomic_u64 *word, bool finished, bool lost) {
    struct vr_cuda_signal_event *signal;
    while ((signal = event_take(&queue->events))) {
        if (finished) {
            vr_atomic_max(word, signal->value);
        }
        event_end(device, signal, lost);
    }
    vr_mutex_destroy(&queue->events.lock);
}

/* -------------------------------------------------- signals, waits and polls */

/* Several threads may signal one queue; their values may then reach the stream in another order
   than they were counted. src/device/point.c shows why that is harmless. */
vram_status vr_cuda_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_cuda_queue *impl = queue->impl;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_mark_begin(queue, &scope, VR_CU_CALL_cuStreamWriteValue64);
    if (status != VRAM_OK) {
        return status;
    }
    vr_atomic_max(&impl->signalled,
                  value); /* before the write is submitted: queue_destroy reads it */
    status = word_write_submit(vr_cuda_device_of(queue), impl->stream, queue->word, value);
    if (status == VRAM_ERR_UNSUPPORTED) {
        status = event_signal(vr_cuda_device_of(queue), impl, value);
    }
    vr_cuda_leave(&scope);
    return status;
}

/* Waits for everything submitted to `other` so far, which includes the signal and may be more. The
   event may be destroyed at once: the driver keeps it while it is in use. */
static vram_status wait_for_event(struct vr_queue *queue, struct vr_queue *other) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue),
                                *signaller = vr_cuda_device_of(other);
    const struct vr_cuda_queue *impl = queue->impl, *source = other->impl;
    struct vr_cuda_scope outer, inner;
    struct vr_cu_event *event = NULL;
    vram_status status = vr_cuda_mark_begin(other, &outer, VR_CU_CALL_cuEventRecord);
    if (status != VRAM_OK) {
        return status;
    }
    status = VR_CUDA(signaller, cuEventCreate, &event, VR_CU_EVENT_DISABLE_TIMING);
    if (status == VRAM_OK) {
        status = VR_CUDA(signaller, cuEventRecord, event, source->stream);
        if (status == VRAM_OK &&
            (status = vr_cuda_enter(&inner, cuda, VR_CUDA_UNCHANGED)) == VRAM_OK) {
            status = VR_CUDA(cuda, cuStreamWaitEvent, impl->stream, event, 0);
            vr_cuda_leave(&inner);
        }
        vr_cuda_warn(signaller->api, VR_CU_CALL_cuEventDestroy,
                     signaller->api->cuEventDestroy(event));
    }
    vr_cuda_leave(&outer);
    return status;
}

/* Waits for the word itself, no longer than needed. NVIDIA warns that such waits can deadlock if
   what they wait for is submitted later; here it is already submitted, and so is all before it. */
static vram_status wait_for_word(struct vr_queue *queue, struct vr_queue *other, uint64_t value,
                                 bool *supported) {
    struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
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

/* Checks for a capture in both cases: inside a graph the wait would read the word at each replay,
   when its device may long be closed. */
vram_status vr_cuda_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
    enum vr_cu_call call = cuda->api->dialect->wait_call;
    bool supported =
        vr_load(&cuda->memory_ops, VR_RELAXED) && vr_load(&cuda->stream_waits, VR_RELAXED);
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_mark_begin(queue, &scope, call);
    if (status != VRAM_OK) {
        return status;
    }
    if (supported) {
        status = wait_for_word(queue, other, value, &supported);
    }
    vr_cuda_leave(&scope);
    return status == VRAM_OK && !supported ? wait_for_event(queue, other) : status;
}

/* Relaxed, because waits poll from any thread while others capture. */
vram_status vr_cuda_poll(struct vr_queue *queue) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
    struct vr_cuda_scope scope;
    bool captured = false;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_cuda_capture_query(queue, &captured);
    if (status == VRAM_OK && captured) {
        status = VRAM_ERR_NOT_READY; /* keeps (2) of cuda_queue.c; earlier work continues */
    } else if (status == VRAM_OK) {
        vr_cu_result code = cuda->api->cuStreamQuery(vr_cuda_query_stream(queue->impl));
        /* After the query: if the stream is complete, no event is left. */
        status = vr_cuda_events_poll(cuda, queue->impl, queue->word);
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
