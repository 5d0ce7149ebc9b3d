/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_entry.c: OpenCL's own allocator enters the contest: clCreateBuffer and clReleaseMemObject,
 * in the context that libvram uses, which one of its queues names. The loader is opened at run
 * time.
 *
 * Drivers give a buffer memory when it is first used, so a buffer that is created and released has
 * none. What does the same work as ours is a buffer that was used: a byte of it is read. The other
 * one is shown, and not compared.
 */
#include "bench/loop.h"
#include "output.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPENCL_QUEUE_CONTEXT = 0x1090, OPENCL_MEM_READ_WRITE = 1 };

struct opencl_state {
    vram_device *device;
    vram_queue *queue; /* names the context */
    void *library;
    void *context; /* a cl_context */
    void *native;  /* the queue's cl_command_queue */
    int32_t (*queue_info)(void *queue, uint32_t what, size_t bytes, void *value, size_t *needed);
    void *(*create)(void *context, uint64_t flags, size_t bytes, void *host, int32_t *code);
    int32_t (*release)(void *memory);
    int32_t (*read)(void *queue, void *memory, uint32_t wait, size_t offset, size_t bytes, void *to,
                    uint32_t count, const void *events, void *event);
};

static bool fails(int32_t code, const char *what, char reason[REASON_MAX]) {
    if (code != 0) {
        snprintf(reason, REASON_MAX, "%s failed with OpenCL error %d", what, code);
    }
    return code != 0;
}

static inline uint64_t take(struct worker *worker, uint64_t bytes) {
    const struct opencl_state *state = worker->entry->state;
    int32_t code = 0;
    void *memory = state->create(state->context, OPENCL_MEM_READ_WRITE, bytes, NULL, &code);
    return fails(code, "clCreateBuffer", worker->reason) ? 0 : (uintptr_t)memory;
}

static inline bool give(struct worker *worker, uint64_t addr) {
    const struct opencl_state *state = worker->entry->state;
    return !fails(state->release((void *)(uintptr_t)addr), "clReleaseMemObject", worker->reason);
}

static inline uint64_t take_used(struct worker *worker, uint64_t bytes) {
    const struct opencl_state *state = worker->entry->state;
    unsigned char byte;
    uint64_t addr = take(worker, bytes);
    if (addr != 0 &&
        fails(state->read(state->native, (void *)(uintptr_t)addr, 1, 0, 1, &byte, 0, NULL, NULL),
              "clEnqueueReadBuffer", worker->reason)) {
        state->release((void *)(uintptr_t)addr);
        addr = 0;
    }
    return addr;
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

LOOP_FUNCTIONS(take_used, give)

static bool find(const struct opencl_state *state, const char *symbol, void *place,
                 char reason[REASON_MAX]) {
    void *found = dlsym(state->library, symbol);
    if (found == NULL) {
        snprintf(reason, REASON_MAX, "not found: the OpenCL loader has no %s", symbol);
        return false;
    }
    memcpy(place, &found, sizeof found); /* C has no cast from data to code */
    return true;
}

/* The library that the backend was told to use, a stand-in of a test for one, is used here too. */
static bool load(struct opencl_state *state, char reason[REASON_MAX]) {
    char path[256] = "";
    vram_option_get("opencl_library", path, sizeof path, NULL);
    state->library = dlopen(path[0] != 0 ? path : "libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (state->library == NULL) {
        snprintf(reason, REASON_MAX, "not found: the OpenCL loader cannot be loaded");
        return false;
    }
    return find(state, "clGetCommandQueueInfo", &state->queue_info, reason) &&
           find(state, "clCreateBuffer", &state->create, reason) &&
           find(state, "clReleaseMemObject", &state->release, reason) &&
           find(state, "clEnqueueReadBuffer", &state->read, reason);
}

static bool find_context(struct entry *entry, struct opencl_state *state) {
    vram_status status = vram_device_open(entry->context, entry->device_index, &state->device);
    if (status == VRAM_OK) {
        status = vram_queue_create(state->device, NULL, &state->queue);
    }
    if (status == VRAM_OK) {
        status = vram_queue_native(state->queue, &state->native);
    }
    if (status != VRAM_OK) {
        snprintf(entry->reason, REASON_MAX, "%s", failure_text(status));
        return false;
    }
    return !fails(state->queue_info(state->native, OPENCL_QUEUE_CONTEXT, sizeof state->context,
                                    &state->context, NULL),
                  "clGetCommandQueueInfo", entry->reason);
}

static bool open_entry(struct entry *entry) {
    struct opencl_state *state = calloc(1, sizeof *state);
    entry->state = state;
    if (state == NULL) {
        snprintf(entry->reason, REASON_MAX, "out of host memory");
        return false;
    }
    return load(state, entry->reason) && find_context(entry, state);
}

static void close_entry(struct entry *entry) {
    struct opencl_state *state = entry->state;
    if (state == NULL) {
        return;
    }
    vram_device_close(state->device);
    if (state->library != NULL) {
        dlclose(state->library);
    }
    free(state);
}

const struct allocator allocator_opencl = {.open = open_entry, .close = close_entry, LOOP_FIELDS};

const struct allocator allocator_opencl_lazy = {.open = open_entry,
                                                .close = close_entry,
                                                .run = run_plain,
                                                .drain = drain_plain,
                                                .hold = hold_plain,
                                                .sweep = sweep_plain};
