/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <vram/vram.h>

/* CUDA's functions: X(field, symbol, parameters). */
#define CALLS(X)                                                                                   \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                            \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                       \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                                \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                                 \
    X(stream_make, "cuStreamCreateWithPriority", (void **stream, unsigned flags, int priority))    \
    X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                        \
    X(begin, "cuStreamBeginCapture_v2", (void *stream, int mode))                                  \
    X(end, "cuStreamEndCapture", (void *stream, void **graph))                                     \
    X(is_capturing, "cuStreamIsCapturing", (void *stream, int *status))                            \
    X(fill, "cuMemsetD8Async",                                                                     \
      (unsigned long long addr, unsigned char value, size_t count, void *stream))                  \
    X(destroy, "cuGraphDestroy", (void *graph))

static struct {
    void *library;
#define FIELD(name, symbol, parameters) int(*name) parameters;
    CALLS(FIELD)
#undef FIELD
} cuda;

static const char *const modes[] = {"global", "thread_local", "relaxed"};

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over; /* the thread is to end the capture */
    enum { NEW, ON, FAILED } state;
    unsigned device;
    int mode;             /* index in `modes` */
    bool blocking, graph; /* graph: it ended with one */
    void *context, *stream;
    vram_context *vram;
    vram_device *opened;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr block;
} beside = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool load(void) {
    char path[256] = "";
    vram_option_get("cuda_library", path, sizeof path, NULL);
    cuda.library = cuda.library ? cuda.library
                                : dlopen(path[0] ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = cuda.library;
#define LOAD(name, symbol, parameters)                                                             \
    found = found ? dlsym(cuda.library, symbol) : NULL;                                            \
    memcpy(&cuda.name, &found, sizeof found);
    CALLS(LOAD)
#undef LOAD
    return found != NULL;
}

bool capture_name_ok(const char *name) {
    for (beside.mode = 0; beside.mode < 3; beside.mode++) {
        size_t length = strlen(modes[beside.mode]);
        if (strncmp(name, modes[beside.mode], length) == 0) {
            beside.blocking = strcmp(name + length, ",blocking") == 0;
            return beside.blocking || name[length] == 0;
        }
    }
    return false;
}

/* The library knows the stream before it is captured, and owns what the graph uses. */
static bool open_device(void) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    return vram_context_create(&options, &beside.vram) == VRAM_OK &&
           vram_device_open(beside.vram, beside.device, &beside.opened) == VRAM_OK &&
           vram_queue_adopt(beside.opened, beside.stream, &beside.queue) == VRAM_OK &&
           vram_pool_create(beside.opened, NULL, &beside.pool) == VRAM_OK &&
           vram_alloc(beside.pool, 4096, beside.queue, &beside.block) == VRAM_OK;
}

static void close_device(void) {
    vram_queue_end(beside.queue);
    vram_device_close(beside.opened);
    vram_context_destroy(beside.vram);
}

static void *run(void *unused) {
    void *popped, *graph = NULL;
    bool on = cuda.push(beside.context) == 0 &&
              cuda.stream_make(&beside.stream, beside.blocking ? 0 : 1, 0) == 0 && open_device() &&
              cuda.begin(beside.stream, beside.mode) == 0 &&
              cuda.fill(beside.block, 1, 4096, beside.stream) == 0;
    pthread_mutex_lock(&beside.lock);
    beside.state = on ? ON : FAILED;
    pthread_cond_broadcast(&beside.changed);
    while (on && !beside.over) {
        pthread_cond_wait(&beside.changed, &beside.lock);
    }
    pthread_mutex_unlock(&beside.lock);
    if (on) {
        beside.graph = cuda.end(beside.stream, &graph) == 0 && graph;
    }
    if (graph) {
        cuda.destroy(graph);
    }
    close_device();
    if (beside.stream) {
        cuda.stream_destroy(beside.stream);
    }
    cuda.pop(&popped);
    (void)unused;
    return NULL;
}

bool capture_begin(const char *name, unsigned device) {
    if (!capture_name_ok(name) || !load() || cuda.init(0) != 0 ||
        cuda.retain(&beside.context, (int)device) != 0) {
        fprintf(stderr, "conform: the driver cannot capture\n");
        return false;
    }
    beside.device = device;
    beside.state = NEW;
    beside.over = beside.graph = false;
    if (pthread_create(&beside.thread, NULL, run, NULL) != 0) {
        return false;
    }
    pthread_mutex_lock(&beside.lock);
    while (beside.state == NEW) {
        pthread_cond_wait(&beside.changed, &beside.lock);
    }
    bool on = beside.state == ON;
    pthread_mutex_unlock(&beside.lock);
    if (!on) {
        capture_end();
        fprintf(stderr, "conform: the capture does not begin: %s\n", vram_error_get()->text);
    }
    return on;
}

bool capture_alive(void) {
    int status = 0;
    void *popped;
    cuda.push(beside.context);
    int code = cuda.is_capturing(beside.stream, &status);
    cuda.pop(&popped);
    return code == 0 && status == 1;
}

bool capture_end(void) {
    pthread_mutex_lock(&beside.lock);
    beside.over = true;
    pthread_cond_broadcast(&beside.changed);
    pthread_mutex_unlock(&beside.lock);
    pthread_join(beside.thread, NULL);
    cuda.release((int)beside.device);
    return beside.graph;
}
