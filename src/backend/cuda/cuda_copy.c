/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_copy.c: copies and fills.
 *
 * Copies are passed to the driver unchanged. It copies from and to pageable memory before the call
 * returns, after waiting for earlier work of the stream; only pinned memory makes copies
 * asynchronous.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/os/os.h"

/* A copy between device and host memory. */
struct cuda_host_copy {
    bool to_device;
    vram_addr device;
    char *host;
};

/* How many bytes from `host` on are either all page-locked or all pageable, at most `bytes`; asks
   the driver for each page. */
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

static vr_cu_result copy_part(const struct vr_queue *queue, const struct cuda_host_copy *copy,
                              uint64_t offset, uint64_t bytes) {
    const struct vr_cuda_api *api = vr_cuda_device_of(queue)->api;
    struct vr_cu_stream *stream = vr_cuda_stream(queue);
    return copy->to_device
               ? api->cuMemcpyHtoDAsync(copy->device + offset, copy->host + offset, bytes, stream)
               : api->cuMemcpyDtoHAsync(copy->host + offset, copy->device + offset, bytes, stream);
}

/* The driver rejects a range that begins in page-locked memory and extends past it. Pageable memory
   may be adjacent to locked pages, so such a range is copied in parts. */
static vram_status copy_host(struct vr_queue *queue, const struct cuda_host_copy *copy,
                             uint64_t bytes) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
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

vram_status vr_cuda_upload(struct vr_queue *queue, vram_addr to, const void *from, uint64_t bytes) {
    return copy_host(queue, &(struct cuda_host_copy){true, to, (char *)(uintptr_t)from}, bytes);
}

vram_status vr_cuda_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    return copy_host(queue, &(struct cuda_host_copy){false, from, to}, bytes);
}

vram_status vr_cuda_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    const struct vr_cuda_queue *impl = queue->impl;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_submit_begin(queue, &scope, VR_CU_CALL_cuMemcpyDtoDAsync);
    if (status == VRAM_OK) {
        status =
            VR_CUDA(vr_cuda_device_of(queue), cuMemcpyDtoDAsync, to, from, bytes, impl->stream);
        vr_cuda_leave(&scope);
    }
    return status;
}

/* The driver returns "invalid value" for a pitch that the device does not support, and for other
   mistakes. Those are reported when the caller submits the rows one by one. */
vram_status vr_cuda_copy_rows(struct vr_queue *queue, const struct vr_rectangle *rectangle) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
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

vram_status vr_cuda_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                         uint32_t pattern_bytes, uint64_t bytes) {
    const struct vr_cuda_device *cuda = vr_cuda_device_of(queue);
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
