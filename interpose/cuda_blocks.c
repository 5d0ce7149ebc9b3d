/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_blocks.c: memory of CUDA with an address, and arrays: counted on its way through.
 */
#include "cuda_run.h"
#include "serve.h"

#include <assert.h>

#define CALLER __builtin_return_address(0)

/* A request on its way to the driver. */
struct cuda_request {
    uint32_t device;
    enum run_kind kind;
    uint64_t bytes;
};

/* False: over the limit, which is recorded. */
static bool request_begin(struct cuda_request *request, enum run_kind kind, uint64_t bytes) {
    *request = (struct cuda_request){cuda_device_current(), kind, bytes};
    if (run_limit_take(request->device, kind, bytes)) {
        return true;
    }
    run_refused(request->device, kind, bytes, true);
    return false;
}

/* The driver has answered; `block` says what was made. */
static int request_end(const struct cuda_request *request, int code, enum run_space space,
                       uint64_t value, uint64_t queue, const void *caller) {
    if (code == CUDA_SUCCESS) {
        run_alloc(&(struct run_block){.device = request->device,
                                      .kind = request->kind,
                                      .space = space,
                                      .value = value,
                                      .bytes = request->bytes,
                                      .queue = queue,
                                      .caller = caller});
        if (space == RUN_SPACE_ADDRESS && request->kind == RUN_DEVICE) {
            cuda_figure(request->device);
        }
        return code;
    }
    run_limit_give(request->device, request->kind, request->bytes);
    if (code == CUDA_OUT_OF_MEMORY) {
        run_refused(request->device, request->kind, request->bytes, false);
    }
    return code;
}

/* ------------------------------------------------------------------- of the device */

int cuMemAlloc_v2(cuda_addr *addr, size_t bytes) {
    struct cuda_request request;
    if (!request_begin(&request, RUN_DEVICE, bytes)) {
        return CUDA_OUT_OF_MEMORY;
    }
    int code = CUDA_REAL(cuMemAlloc_v2)(addr, bytes);
    return request_end(&request, code, RUN_SPACE_ADDRESS, code ? 0 : *addr, 0, CALLER);
}

/* The driver chooses the pitch; until then the width stands for it. */
int cuMemAllocPitch_v2(cuda_addr *addr, size_t *pitch, size_t width, size_t height,
                       unsigned element) {
    struct cuda_request request;
    size_t bytes;
    if (__builtin_mul_overflow(width, height, &bytes)) {
        bytes = SIZE_MAX;
    }
    if (!request_begin(&request, RUN_DEVICE, bytes)) {
        return CUDA_OUT_OF_MEMORY;
    }
    int code = CUDA_REAL(cuMemAllocPitch_v2)(addr, pitch, width, height, element);
    uint64_t exact = code == CUDA_SUCCESS ? (uint64_t)*pitch * height : bytes;
    if (exact > bytes && run_limit_take(request.device, RUN_DEVICE, exact - bytes)) {
        request.bytes = exact;
    }
    return request_end(&request, code, RUN_SPACE_ADDRESS, code ? 0 : *addr, 0, CALLER);
}

int cuMemAllocManaged(cuda_addr *addr, size_t bytes, unsigned flags) {
    struct cuda_request request;
    if (!request_begin(&request, RUN_MANAGED, bytes)) {
        return CUDA_OUT_OF_MEMORY;
    }
    int code = CUDA_REAL(cuMemAllocManaged)(addr, bytes, flags);
    return request_end(&request, code, RUN_SPACE_ADDRESS, code ? 0 : *addr, 0, CALLER);
}

int cuMemFree_v2(cuda_addr addr) {
    struct run_block block;
    int code;
    if (serve_free(addr, &code)) {
        return code;
    }
    bool known = run_free_begin(RUN_SPACE_ADDRESS, addr, &block);
    code = CUDA_REAL(cuMemFree_v2)(addr);
    run_free_end(known ? &block : NULL, code == CUDA_SUCCESS);
    return code;
}

/* ------------------------------------------------------------------ stream-ordered */

typedef int alloc_async_fn(cuda_addr *addr, size_t bytes, void *stream);
typedef int alloc_pool_fn(cuda_addr *addr, size_t bytes, void *pool, void *stream);
typedef int free_async_fn(cuda_addr addr, void *stream);

static int alloc_async(alloc_async_fn *plain, alloc_pool_fn *of_pool, cuda_addr *addr, size_t bytes,
                       void *pool, void *stream, const void *caller) {
    struct cuda_request request;
    int code;
    assert(plain || of_pool); /* cuda_real never returns NULL */
    if (serve_alloc(addr, bytes, pool, stream, caller, &code)) {
        return code;
    }
    if (!request_begin(&request, RUN_STREAM, bytes)) {
        return CUDA_OUT_OF_MEMORY;
    }
    code = of_pool ? of_pool(addr, bytes, pool, stream) : plain(addr, bytes, stream);
    return request_end(&request, code, RUN_SPACE_ADDRESS, code ? 0 : *addr,
                       (uint64_t)(uintptr_t)stream, caller);
}

int cuMemAllocAsync(cuda_addr *addr, size_t bytes, void *stream) {
    return alloc_async(CUDA_REAL(cuMemAllocAsync), NULL, addr, bytes, NULL, stream, CALLER);
}

/* The stream that 0 means for callers built with per-thread default streams. */
static void *stream_per_thread(void *stream) {
    return stream ? stream : (void *)(uintptr_t)2;
}

int cuMemAllocAsync_ptsz(cuda_addr *addr, size_t bytes, void *stream) {
    return alloc_async(CUDA_REAL(cuMemAllocAsync_ptsz), NULL, addr, bytes, NULL,
                       stream_per_thread(stream), CALLER);
}

int cuMemAllocFromPoolAsync(cuda_addr *addr, size_t bytes, void *pool, void *stream) {
    return alloc_async(NULL, CUDA_REAL(cuMemAllocFromPoolAsync), addr, bytes, pool, stream, CALLER);
}

int cuMemAllocFromPoolAsync_ptsz(cuda_addr *addr, size_t bytes, void *pool, void *stream) {
    return alloc_async(NULL, CUDA_REAL(cuMemAllocFromPoolAsync_ptsz), addr, bytes, pool,
                       stream_per_thread(stream), CALLER);
}

static int free_async(free_async_fn *real, cuda_addr addr, void *stream) {
    struct run_block block;
    int code;
    if (serve_free_async(addr, stream, &code)) {
        return code;
    }
    bool known = run_free_begin(RUN_SPACE_ADDRESS, addr, &block);
    code = real(addr, stream);
    run_free_end(known ? &block : NULL, code == CUDA_SUCCESS);
    return code;
}

int cuMemFreeAsync(cuda_addr addr, void *stream) {
    return free_async(CUDA_REAL(cuMemFreeAsync), addr, stream);
}

int cuMemFreeAsync_ptsz(cuda_addr addr, void *stream) {
    return free_async(CUDA_REAL(cuMemFreeAsync_ptsz), addr, stream_per_thread(stream));
}

/* --------------------------------------------------------------------- of the host */

int cuMemAllocHost_v2(void **memory, size_t bytes) {
    struct cuda_request request;
    (void)request_begin(&request, RUN_PINNED, bytes);
    int code = CUDA_REAL(cuMemAllocHost_v2)(memory, bytes);
    return request_end(&request, code, RUN_SPACE_ADDRESS, code ? 0 : (uintptr_t)*memory, 0, CALLER);
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    struct cuda_request request;
    (void)request_begin(&request, RUN_PINNED, bytes);
    int code = CUDA_REAL(cuMemHostAlloc)(memory, bytes, flags);
    return request_end(&request, code, RUN_SPACE_ADDRESS, code ? 0 : (uintptr_t)*memory, 0, CALLER);
}

int cuMemFreeHost(void *memory) {
    struct run_block block;
    bool known = run_free_begin(RUN_SPACE_ADDRESS, (uintptr_t)memory, &block);
    int code = CUDA_REAL(cuMemFreeHost)(memory);
    run_free_end(known ? &block : NULL, code == CUDA_SUCCESS);
    return code;
}

int cuMemHostRegister(void *memory, size_t bytes, unsigned flags) {
    struct cuda_request request;
    (void)request_begin(&request, RUN_REGISTERED, bytes);
    int code = CUDA_REAL(cuMemHostRegister)(memory, bytes, flags);
    return request_end(&request, code, RUN_SPACE_REGISTERED, (uintptr_t)memory, 0, CALLER);
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    struct cuda_request request;
    (void)request_begin(&request, RUN_REGISTERED, bytes);
    int code = CUDA_REAL(cuMemHostRegister_v2)(memory, bytes, flags);
    return request_end(&request, code, RUN_SPACE_REGISTERED, (uintptr_t)memory, 0, CALLER);
}

int cuMemHostUnregister(void *memory) {
    struct run_block block;
    bool known = run_free_begin(RUN_SPACE_REGISTERED, (uintptr_t)memory, &block);
    int code = CUDA_REAL(cuMemHostUnregister)(memory);
    run_free_end(known ? &block : NULL, code == CUDA_SUCCESS);
    return code;
}

/* ------------------------------------------------------------------------- arrays */

struct array_descriptor { /* CUDA_ARRAY_DESCRIPTOR */
    size_t width, height;
    int format;
    unsigned channels;
};

struct array3d_descriptor { /* CUDA_ARRAY3D_DESCRIPTOR */
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
};

/* Bytes of an element, as far as the format is a plain one; 1 for the others. */
static uint64_t format_bytes(int format) {
    switch (format) {
    case 0x02: /* unsigned int16 */
    case 0x09: /* signed int16 */
    case 0x10: /* half */
        return 2;
    case 0x03: /* unsigned int32 */
    case 0x0a: /* signed int32 */
    case 0x20: /* float */
        return 4;
    default:
        return 1;
    }
}

static uint64_t array_bytes(uint64_t width, uint64_t height, uint64_t depth, int format,
                            unsigned channels) {
    const uint64_t factors[] = {height ? height : 1, depth ? depth : 1, format_bytes(format),
                                channels ? channels : 1};
    uint64_t bytes = width;
    for (unsigned i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        if (__builtin_mul_overflow(bytes, factors[i], &bytes)) {
            return UINT64_MAX;
        }
    }
    return bytes;
}

static uint64_t array3d_bytes(const struct array3d_descriptor *from) {
    return from ? array_bytes(from->width, from->height, from->depth, from->format, from->channels)
                : 0;
}

int cuArrayCreate_v2(void **array, const void *descriptor) {
    const struct array_descriptor *from = descriptor;
    struct cuda_request request;
    uint64_t bytes =
        from ? array_bytes(from->width, from->height, 1, from->format, from->channels) : 0;
    if (!request_begin(&request, RUN_ARRAY, bytes)) {
        return CUDA_OUT_OF_MEMORY;
    }
    int code = CUDA_REAL(cuArrayCreate_v2)(array, descriptor);
    return request_end(&request, code, RUN_SPACE_ARRAY, code ? 0 : (uintptr_t)*array, 0, CALLER);
}

int cuArray3DCreate_v2(void **array, const void *descriptor) {
    struct cuda_request request;
    if (!request_begin(&request, RUN_ARRAY, array3d_bytes(descriptor))) {
        return CUDA_OUT_OF_MEMORY;
    }
    int code = CUDA_REAL(cuArray3DCreate_v2)(array, descriptor);
    return request_end(&request, code, RUN_SPACE_ARRAY, code ? 0 : (uintptr_t)*array, 0, CALLER);
}

/* Each level has at least a quarter of the one before: a third more is a good guess. */
int cuMipmappedArrayCreate(void **array, const void *descriptor, unsigned levels) {
    struct cuda_request request;
    uint64_t first = array3d_bytes(descriptor), more = levels > 1 ? first / 3 : 0;
    uint64_t bytes = first > UINT64_MAX - more ? UINT64_MAX : first + more;
    if (!request_begin(&request, RUN_ARRAY, bytes)) {
        return CUDA_OUT_OF_MEMORY;
    }
    int code = CUDA_REAL(cuMipmappedArrayCreate)(array, descriptor, levels);
    return request_end(&request, code, RUN_SPACE_ARRAY, code ? 0 : (uintptr_t)*array, 0, CALLER);
}

static int array_destroy(int (*real)(void *array), void *array) {
    struct run_block block;
    bool known = run_free_begin(RUN_SPACE_ARRAY, (uintptr_t)array, &block);
    int code = real(array);
    run_free_end(known ? &block : NULL, code == CUDA_SUCCESS);
    return code;
}

int cuArrayDestroy(void *array) {
    return array_destroy(CUDA_REAL(cuArrayDestroy), array);
}

int cuMipmappedArrayDestroy(void *array) {
    return array_destroy(CUDA_REAL(cuMipmappedArrayDestroy), array);
}

/* ---------------------------------------------------------- memory of other processes */

typedef int ipc_open_fn(cuda_addr *addr, struct cuda_ipc_handle handle, unsigned flags);

/* Its size is not known here, and it is not this process's. */
static int ipc_open(ipc_open_fn *real, cuda_addr *addr, struct cuda_ipc_handle handle,
                    unsigned flags, const void *caller) {
    struct cuda_request request;
    (void)request_begin(&request, RUN_IMPORTED, 0);
    int code = real(addr, handle, flags);
    return request_end(&request, code, RUN_SPACE_ADDRESS, code ? 0 : *addr, 0, caller);
}

int cuIpcOpenMemHandle(cuda_addr *addr, struct cuda_ipc_handle handle, unsigned flags) {
    return ipc_open(CUDA_REAL(cuIpcOpenMemHandle), addr, handle, flags, CALLER);
}

int cuIpcOpenMemHandle_v2(cuda_addr *addr, struct cuda_ipc_handle handle, unsigned flags) {
    return ipc_open(CUDA_REAL(cuIpcOpenMemHandle_v2), addr, handle, flags, CALLER);
}

int cuIpcCloseMemHandle(cuda_addr addr) {
    struct run_block block;
    bool known = run_free_begin(RUN_SPACE_ADDRESS, addr, &block);
    int code = CUDA_REAL(cuIpcCloseMemHandle)(addr);
    run_free_end(known ? &block : NULL, code == CUDA_SUCCESS);
    return code;
}
