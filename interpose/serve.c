/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c: see serve.h.
 *
 *  (1) The tables have a lock of the C library's own: the library asserts that none of its locks is
 *      held when it calls a driver, and making a pool does that.
 *  (2) The library inside finds its driver like any other code of the process, so its calls come
 *      back through the entry points of this library: `inside` tells them apart. They are counted as
 *      memory of RUN_POOL_OWNER.
 *  (3) A stream is adopted at its first use and given back before it is destroyed. Threads remember
 *      the last stream that they used, as long as `stream_epoch` stays.
 */
#include "serve.h"

#include "base/log.h"
#include "base/os/os.h"
#include "run_owner.h"
#include "serve_pools.h"

#include <pthread.h>
#include <vram/vram.h>

enum { STREAM_PER_THREAD = 2, CAPTURE_UNSUPPORTED = 900, UNKNOWN_ERROR = 999, INVALID_VALUE = 1 };

static _Thread_local unsigned inside; /* see (2) */

static void inside_begin(void) {
    inside++;
    run_owner_as(RUN_POOL_OWNER);
}

static void inside_end(void) {
    if (--inside == 0) {
        run_owner_as(NULL);
    }
}

static bool serve_wanted(void) {
    const struct run_page *page = inside ? NULL : run_page_get();
    return page && page->settings.serve && !vr_os_exiting();
}

static int code_of(vram_status status) {
    if (status == VRAM_OK) {
        return CUDA_SUCCESS;
    }
    return vram_status_is_exhausted(status) ? CUDA_OUT_OF_MEMORY
           : status == VRAM_ERR_CAPTURE     ? CAPTURE_UNSUPPORTED
           : status == VRAM_ERR_INVALID     ? INVALID_VALUE
                                            : UNKNOWN_ERROR;
}

/* ---------------------------------------------------------------------- streams */

struct served_stream {
    void *stream;
    int ordinal;
    vram_queue *queue; /* NULL: a free place */
};

static pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table; see (1) */
static struct served_stream streams[SERVE_STREAMS];
static unsigned stream_count; /* places that were ever used */
static _Atomic(uint64_t) stream_epoch = 1;
static _Thread_local struct {
    struct served_stream last;
    uint64_t epoch;
} recent;

/* Under the lock. */
static struct served_stream *stream_find(void *stream, int ordinal) {
    for (unsigned i = 0; i < stream_count; i++) {
        if (streams[i].queue && streams[i].stream == stream && streams[i].ordinal == ordinal) {
            return &streams[i];
        }
    }
    return NULL;
}

static struct served_stream *stream_place(void) {
    for (unsigned i = 0; i < stream_count; i++) {
        if (!streams[i].queue) {
            return &streams[i];
        }
    }
    return stream_count < SERVE_STREAMS ? &streams[stream_count++] : NULL;
}

/* Keeps (3). */
static vram_queue *queue_of_stream(vram_device *device, int ordinal, void *stream) {
    vram_queue *queue = NULL;
    pthread_mutex_lock(&stream_lock);
    struct served_stream *found = stream_find(stream, ordinal);
    if (!found && (found = stream_place())) {
        inside_begin();
        if (vram_queue_adopt(device, stream, &queue) == VRAM_OK) {
            *found = (struct served_stream){stream, ordinal, queue};
        }
        inside_end();
    }
    queue = found ? found->queue : NULL;
    pthread_mutex_unlock(&stream_lock);
    return queue;
}

/* The calling thread's own stream: libvram ends the queue with the thread. */
static vram_queue *queue_of_thread(vram_device *device, void *stream) {
    vram_queue *queue = NULL;
    inside_begin();
    if (vram_queue_shared(device, stream, &queue) != VRAM_OK) {
        queue = NULL;
    }
    inside_end();
    return queue;
}

/* The queue of a stream; NULL: it cannot be adopted. */
static vram_queue *queue_of(vram_device *device, int ordinal, void *stream) {
    uint64_t epoch = atomic_load(&stream_epoch);
    if (recent.epoch == epoch && recent.last.stream == stream && recent.last.ordinal == ordinal) {
        return recent.last.queue;
    }
    vram_queue *queue = (uintptr_t)stream == STREAM_PER_THREAD
                            ? queue_of_thread(device, stream)
                            : queue_of_stream(device, ordinal, stream);
    if (queue) {
        recent.last = (struct served_stream){stream, ordinal, queue};
        recent.epoch = epoch;
    }
    return queue;
}

void serve_stream_ends(void *stream) {
    if (!serve_wanted() || !stream) {
        return;
    }
    pthread_mutex_lock(&stream_lock);
    for (unsigned i = 0; i < stream_count; i++) {
        if (streams[i].queue && streams[i].stream == stream) {
            inside_begin();
            (void)vram_queue_end(streams[i].queue);
            inside_end();
            streams[i] = (struct served_stream){0};
            atomic_fetch_add(&stream_epoch, 1);
        }
    }
    pthread_mutex_unlock(&stream_lock);
}

/* A capture records what the driver would do: graphs keep their own memory. */
static bool is_captured(void *stream) {
    int status = 0;
    const struct cuda_driver_calls *calls = cuda_calls();
    return calls->stream_capturing && calls->stream_capturing(stream, &status) == CUDA_SUCCESS &&
           status != 0;
}

/* ----------------------------------------------------------------------- blocks */

/* For `vram run` with VRAM_LOG=debug: why an allocation is not served. */
static bool left_to_driver(size_t bytes, const char *why) {
    vr_log(VRAM_LOG_DEBUG, "left to the driver: %zu bytes: %s", bytes, why);
    return false;
}

bool serve_alloc(cuda_addr *addr, size_t bytes, void *pool, void *stream, const void *caller,
                 int *code) {
    int ordinal = 0;
    const struct cuda_driver_calls *calls = cuda_calls();
    if (!serve_wanted() || !addr || !bytes) {
        return false; /* the driver says what it thinks of that */
    }
    if (is_captured(stream)) {
        return left_to_driver(bytes, "the stream is captured");
    }
    if (!calls->context_device || calls->context_device(&ordinal) != CUDA_SUCCESS) {
        return left_to_driver(bytes, "no context is current");
    }
    if (!pool && (!calls->current_pool || calls->current_pool(&pool, ordinal) != CUDA_SUCCESS)) {
        return left_to_driver(bytes, "the device has no pool");
    }
    struct served_pool *served = serve_pool_take(pool, ordinal, inside_begin, inside_end);
    vram_queue *queue = served ? queue_of(served->device, served->ordinal, stream) : NULL;
    if (!queue) {
        return left_to_driver(bytes, served ? "the stream cannot be adopted"
                                            : "the pool is shared, or could not be made");
    }
    vram_addr found;
    inside_begin();
    vram_status status = vram_alloc(served->pool, bytes, queue, &found);
    inside_end();
    *code = code_of(status);
    if (status == VRAM_OK) {
        *addr = (cuda_addr)found;
        run_alloc(&(struct run_block){.device = cuda_device(served->ordinal),
                                      .kind = RUN_SERVED,
                                      .space = RUN_SPACE_ADDRESS,
                                      .value = found,
                                      .bytes = bytes,
                                      .queue = (uintptr_t)stream,
                                      .caller = caller});
    }
    return true;
}

/* Whether the memory came from here. */
static bool is_served(cuda_addr addr) {
    struct run_block block;
    return run_page_get() && run_page_get()->settings.serve && !inside &&
           run_block_find(RUN_SPACE_ADDRESS, addr, &block) && block.kind == RUN_SERVED;
}

static int block_free(cuda_addr addr, vram_queue *queue) {
    struct run_block block;
    bool known = run_free_begin(RUN_SPACE_ADDRESS, addr, &block);
    inside_begin();
    vram_status status = vram_free(addr, queue);
    inside_end();
    run_free_end(known ? &block : NULL, status == VRAM_OK);
    return code_of(status);
}

bool serve_free_async(cuda_addr addr, void *stream, int *code) {
    int ordinal = 0;
    const struct cuda_driver_calls *calls = cuda_calls();
    if (!is_served(addr)) {
        return false;
    }
    if (vr_os_exiting()) { /* the driver frees everything */
        *code = CUDA_SUCCESS;
        return true;
    }
    if (calls->context_device) {
        (void)calls->context_device(&ordinal);
    }
    vram_device *device = serve_device(ordinal);
    vram_queue *queue = device ? queue_of(device, ordinal, stream) : NULL;
    if (!queue) { /* not a stream that can be waited for later */
        return serve_free(addr, code);
    }
    *code = block_free(addr, queue);
    return true;
}

bool serve_free(cuda_addr addr, int *code) {
    const struct cuda_driver_calls *calls = cuda_calls();
    if (!is_served(addr)) {
        return false;
    }
    *code = vr_os_exiting() || !calls->context_synchronize ? CUDA_SUCCESS
                                                           : calls->context_synchronize();
    if (*code == CUDA_SUCCESS && !vr_os_exiting()) {
        *code = block_free(addr, NULL);
    }
    return true;
}

/* ------------------------------------------------------------------------ pools */

void serve_pool_created(void *pool, const void *props) {
    if (serve_wanted()) {
        serve_pool_note(pool, props);
    }
}

void serve_pool_ends(void *pool) {
    if (serve_wanted()) {
        serve_pool_forget(pool, inside_begin, inside_end);
    }
}

bool serve_pool_trim(void *pool, size_t keep, int *code) {
    struct served_pool *served = serve_wanted() ? serve_pool_find(pool) : NULL;
    if (!served) {
        return false;
    }
    const vram_trim_options options = {.size = sizeof options, .keep_bytes = keep};
    inside_begin();
    *code = code_of(vram_pool_trim(served->pool, keep ? &options : NULL, NULL));
    inside_end();
    return true;
}

bool serve_pool_attribute(void *pool, int attribute, void *value, bool set, int *code) {
    struct served_pool *served = serve_wanted() ? serve_pool_find(pool) : NULL;
    return served && value && serve_pool_value(served, attribute, value, set, code);
}

void serve_pool_shared(void *pool, const int *locations, size_t count) {
    if (serve_wanted()) {
        serve_pool_refuse(pool, locations, count);
    }
}
