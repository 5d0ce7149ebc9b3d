/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_entry.c: NVIDIA's own allocators enter the contest: cudaMallocAsync with a pool that keeps
 * all it has, and cudaMalloc. Both through the driver, which is loaded at run time: the runtime
 * library adds nothing to them but its own nanoseconds.
 *
 * The primary context is used, the one that libvram and the runtime use too.
 */
#include "bench/loop.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_POOL_RELEASE_THRESHOLD = 4 };

/* The driver's functions that are needed: X(result of ours, symbol, parameters). */
#define CUDA_CALLS(X)                                                                              \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                       \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                            \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                       \
    X(set_current, "cuCtxSetCurrent", (void *context))                                             \
    X(stream_create, "cuStreamCreate", (void **stream, unsigned flags))                            \
    X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                        \
    X(stream_wait, "cuStreamSynchronize", (void *stream))                                          \
    X(alloc, "cuMemAlloc_v2", (uint64_t * addr, size_t bytes))                                     \
    X(free, "cuMemFree_v2", (uint64_t addr))                                                       \
    X(alloc_async, "cuMemAllocAsync", (uint64_t * addr, size_t bytes, void *stream))               \
    X(free_async, "cuMemFreeAsync", (uint64_t addr, void *stream))                                 \
    X(pool_get, "cuDeviceGetDefaultMemPool", (void **pool, int device))                            \
    X(pool_set, "cuMemPoolSetAttribute", (void *pool, int attribute, void *value))

struct cuda_calls {
#define CUDA_FIELD(name, symbol, parameters) int(*name) parameters;
    CUDA_CALLS(CUDA_FIELD)
#undef CUDA_FIELD
};

struct cuda_state {
    void *library;
    struct cuda_calls calls;
    int device;
    void *context; /* NULL: not retained */
};

static bool fails(int code, const char *what, char reason[REASON_MAX]) {
    if (code != 0) {
        snprintf(reason, REASON_MAX, "%s failed with CUDA error %d", what, code);
    }
    return code != 0;
}

static inline uint64_t take(struct worker *worker, uint64_t bytes) {
    const struct cuda_state *state = worker->entry->state;
    uint64_t addr = 0;
    return fails(state->calls.alloc(&addr, bytes), "cuMemAlloc", worker->reason) ? 0 : addr;
}

static inline bool give(struct worker *worker, uint64_t addr) {
    const struct cuda_state *state = worker->entry->state;
    return !fails(state->calls.free(addr), "cuMemFree", worker->reason);
}

static inline uint64_t take_async(struct worker *worker, uint64_t bytes) {
    const struct cuda_state *state = worker->entry->state;
    uint64_t addr = 0;
    int code = state->calls.alloc_async(&addr, bytes, worker->native);
    return fails(code, "cuMemAllocAsync", worker->reason) ? 0 : addr;
}

static inline bool give_async(struct worker *worker, uint64_t addr) {
    const struct cuda_state *state = worker->entry->state;
    return !fails(state->calls.free_async(addr, worker->native), "cuMemFreeAsync", worker->reason);
}

/* The library that the backend was told to use, a stand-in of a test for one, is used here too. */
static bool load(struct cuda_state *state, char reason[REASON_MAX]) {
    char path[256] = "";
    vram_option_get("cuda_library", path, sizeof path, NULL);
    state->library = dlopen(path[0] != 0 ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (state->library == NULL) {
        snprintf(reason, REASON_MAX, "not found: the CUDA driver cannot be loaded");
        return false;
    }
    void *found;
#define CUDA_LOAD(name, symbol, parameters)                                                        \
    found = dlsym(state->library, symbol);                                                         \
    if (found == NULL) {                                                                           \
        snprintf(reason, REASON_MAX, "not found: the CUDA driver has no %s", symbol);              \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&state->calls.name, &found, sizeof found); /* C has no cast from data to code */
    CUDA_CALLS(CUDA_LOAD)
#undef CUDA_LOAD
    return true;
}

static void close_entry(struct entry *entry) {
    struct cuda_state *state = entry->state;
    if (state == NULL) {
        return;
    }
    if (state->context != NULL) {
        state->calls.release(state->device);
    }
    if (state->library != NULL) {
        dlclose(state->library);
    }
    free(state);
}

static bool open_entry(struct entry *entry) {
    struct cuda_state *state = calloc(1, sizeof *state);
    char *reason = entry->reason;
    entry->state = state;
    if (state == NULL) {
        snprintf(reason, REASON_MAX, "out of host memory");
        return false;
    }
    return load(state, reason) && !fails(state->calls.init(0), "cuInit", reason) &&
           !fails(state->calls.device_get(&state->device, (int)entry->backend_index), "cuDeviceGet",
                  reason) &&
           !fails(state->calls.retain(&state->context, state->device), "cuDevicePrimaryCtxRetain",
                  reason);
}

/* Without the threshold the pool gives all its memory back at every synchronisation. */
static bool open_async(struct entry *entry) {
    if (!open_entry(entry)) {
        return false;
    }
    const struct cuda_state *state = entry->state;
    uint64_t all = UINT64_MAX;
    void *pool = NULL;
    return !fails(state->calls.pool_get(&pool, state->device), "cuDeviceGetDefaultMemPool",
                  entry->reason) &&
           !fails(state->calls.pool_set(pool, CUDA_POOL_RELEASE_THRESHOLD, &all),
                  "cuMemPoolSetAttribute", entry->reason);
}

/* The side that frees in a handover has the stream already; it needs the context all the same. */
static bool begin_worker(struct worker *worker) {
    const struct cuda_state *state = worker->entry->state;
    if (fails(state->calls.set_current(state->context), "cuCtxSetCurrent", worker->reason)) {
        return false;
    }
    return worker->native != NULL ||
           !fails(state->calls.stream_create(&worker->native, CUDA_STREAM_NON_BLOCKING),
                  "cuStreamCreate", worker->reason);
}

static void end_worker(struct worker *worker) {
    const struct cuda_state *state = worker->entry->state;
    if (worker->native != NULL) {
        state->calls.stream_wait(worker->native);
        state->calls.stream_destroy(worker->native);
    }
    state->calls.set_current(NULL);
}

static bool run_plain(struct worker *worker, uint64_t pairs) {
    return loop_run(worker, pairs, take, give);
}

static bool drain_plain(struct worker *worker, uint64_t pairs) {
    return loop_drain(worker, pairs, give);
}

static bool hold_plain(struct worker *worker) {
    return loop_hold(worker, take);
}

static void sweep_plain(struct worker *worker) {
    loop_sweep(worker, give);
}

LOOP_FUNCTIONS(take_async, give_async)

const struct allocator allocator_cuda = {.open = open_entry,
                                         .close = close_entry,
                                         .worker_begin = begin_worker,
                                         .worker_end = end_worker,
                                         .run = run_plain,
                                         .drain = drain_plain,
                                         .hold = hold_plain,
                                         .sweep = sweep_plain};

const struct allocator allocator_cuda_async = {.open = open_async,
                                               .close = close_entry,
                                               .worker_begin = begin_worker,
                                               .worker_end = end_worker,
                                               LOOP_FIELDS};
