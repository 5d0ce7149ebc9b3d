/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_driver_cuda.c: NVIDIA's own copies and page-locked memory, by the driver's entry points,
 * which are what cudaMemcpy, cudaMemcpyAsync and cudaMallocHost call. The primary context is used,
 * as libvram does.
 */
#include "bench/copy_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_NON_BLOCKING = 1 };

/* The driver's functions that are needed: X(field, symbol, parameters). */
#define COPY_CALLS(X)                                                                              \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                       \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                            \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                       \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                                \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                                 \
    X(stream_create, "cuStreamCreateWithPriority", (void **stream, unsigned flags, int priority))  \
    X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                        \
    X(stream_wait, "cuStreamSynchronize", (void *stream))                                          \
    X(upload, "cuMemcpyHtoD_v2", (uint64_t to, const void *from, size_t bytes))                    \
    X(download, "cuMemcpyDtoH_v2", (void *to, uint64_t from, size_t bytes))                        \
    X(upload_async, "cuMemcpyHtoDAsync_v2",                                                        \
      (uint64_t to, const void *from, size_t bytes, void *stream))                                 \
    X(download_async, "cuMemcpyDtoHAsync_v2",                                                      \
      (void *to, uint64_t from, size_t bytes, void *stream))                                       \
    X(host_alloc, "cuMemHostAlloc", (void **pointer, size_t bytes, unsigned flags))                \
    X(host_free, "cuMemFreeHost", (void *pointer))

struct cuda_copy {
    void *library;
#define COPY_FIELD(name, symbol, parameters) int(*name) parameters;
    COPY_CALLS(COPY_FIELD)
#undef COPY_FIELD
    int device;
    void *context; /* NULL: not retained */
    bool pushed;   /* the context is this thread's */
    void *stream;
};

static bool good(struct copy_driver *driver, int code, const char *what) {
    if (code != 0) {
        snprintf(driver->reason, sizeof driver->reason, "%s failed with CUDA error %d", what, code);
    }
    return code == 0;
}

static bool to_device(struct copy_driver *driver, vram_addr to, const void *from, uint64_t bytes,
                      bool pinned) {
    const struct cuda_copy *cuda = driver->state;
    if (!pinned) {
        return good(driver, cuda->upload(to, from, bytes), "cuMemcpyHtoD");
    }
    return good(driver, cuda->upload_async(to, from, bytes, cuda->stream), "cuMemcpyHtoDAsync") &&
           good(driver, cuda->stream_wait(cuda->stream), "cuStreamSynchronize");
}

static bool to_host(struct copy_driver *driver, void *to, vram_addr from, uint64_t bytes,
                    bool pinned) {
    const struct cuda_copy *cuda = driver->state;
    if (!pinned) {
        return good(driver, cuda->download(to, from, bytes), "cuMemcpyDtoH");
    }
    return good(driver, cuda->download_async(to, from, bytes, cuda->stream), "cuMemcpyDtoHAsync") &&
           good(driver, cuda->stream_wait(cuda->stream), "cuStreamSynchronize");
}

/* cuMemcpyHtoD returns when ordinary memory has been read, and at small sizes that is before it has
   arrived. It goes through the default stream, for which a stream that does not block with it does
   not wait. */
static bool settle(struct copy_driver *driver) {
    const struct cuda_copy *cuda = driver->state;
    return good(driver, cuda->stream_wait(NULL), "cuStreamSynchronize");
}

static bool pair(struct copy_driver *driver, uint64_t bytes) {
    const struct cuda_copy *cuda = driver->state;
    void *pointer;
    return good(driver, cuda->host_alloc(&pointer, bytes, 0), "cuMemHostAlloc") &&
           good(driver, cuda->host_free(pointer), "cuMemFreeHost");
}

static void end(struct copy_driver *driver) {
    struct cuda_copy *cuda = driver->state;
    if (cuda->stream != NULL) {
        cuda->stream_destroy(cuda->stream);
    }
    if (cuda->pushed) {
        void *popped;
        cuda->pop(&popped);
    }
    if (cuda->context != NULL) {
        cuda->release(cuda->device);
    }
    if (cuda->library != NULL) {
        dlclose(cuda->library);
    }
    free(cuda);
}

/* The library that the backend was told to use, a stand-in of a test for one, is used here too. */
static bool load(struct copy_driver *driver, struct cuda_copy *cuda) {
    char path[256] = "";
    vram_option_get("cuda_library", path, sizeof path, NULL);
    cuda->library = dlopen(path[0] != 0 ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (cuda->library == NULL) {
        snprintf(driver->reason, sizeof driver->reason, "the CUDA driver cannot be loaded");
        return false;
    }
    void *found;
#define COPY_LOAD(name, symbol, parameters)                                                        \
    found = dlsym(cuda->library, symbol);                                                          \
    if (found == NULL) {                                                                           \
        snprintf(driver->reason, sizeof driver->reason, "the CUDA driver has no %s", symbol);      \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&cuda->name, &found, sizeof found); /* C has no cast from data to code */
    COPY_CALLS(COPY_LOAD)
#undef COPY_LOAD
    return true;
}

bool copy_driver_cuda(struct copy_driver *driver, uint32_t backend_index) {
    struct cuda_copy *cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL) {
        return false;
    }
    *driver = (struct copy_driver){
        .pageable_about = {"cuMemcpyHtoD, until it returns", "cuMemcpyDtoH"},
        .pinned_about = {"cuMemcpyHtoDAsync and cuStreamSynchronize",
                         "cuMemcpyDtoHAsync and cuStreamSynchronize"},
        .pair_about = "cuMemHostAlloc and cuMemFreeHost, which may keep small pieces",
        .state = cuda,
        .to_device = to_device,
        .to_host = to_host,
        .settle = settle,
        .pair = pair,
        .close = end};
    if (load(driver, cuda) && good(driver, cuda->init(0), "cuInit") &&
        good(driver, cuda->device_get(&cuda->device, (int)backend_index), "cuDeviceGet") &&
        good(driver, cuda->retain(&cuda->context, cuda->device), "cuDevicePrimaryCtxRetain") &&
        (cuda->pushed = good(driver, cuda->push(cuda->context), "cuCtxPushCurrent")) &&
        good(driver, cuda->stream_create(&cuda->stream, STREAM_NON_BLOCKING, 0),
             "cuStreamCreateWithPriority")) {
        return true;
    }
    end(driver);
    return false;
}
