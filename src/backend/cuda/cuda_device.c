/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_device.c: a device's primary context, its memory, and pinned host memory.
 *
 * Invariants
 *  (1) The primary context is the one that the runtime API (cudaMalloc, PyTorch, ...) uses, so
 *      memory of ours and of the program's is good for both. It is retained from open to close.
 *  (2) Every driver call that needs a context is made between vr_cuda_enter and vr_cuda_leave, on
 *      failing paths too, so the caller's current context is found again as it was.
 *
 * The driver waits for the device's work inside cuMemFree, cuMemFreeHost and cuMemHostAlloc. That
 * is its nature; pools exist so that it happens seldom.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"

/* ----------------------------------------------------------------- contexts */

/* A context that we retain and the driver does not know was destroyed by the program behind our
   back: what was in it is gone. */
static vram_status context_push(const struct vr_cuda_device *device) {
    vr_cu_result code = device->api->cuCtxPushCurrent(device->context);
    if (code == VR_CU_INVALID_CONTEXT) {
        code = VR_CU_CONTEXT_DESTROYED;
    }
    return vr_cuda_check(device->api, "cuCtxPushCurrent", code, VRAM_ERR_DEVICE_MEMORY);
}

vram_status vr_cuda_enter(struct vr_cuda_scope *scope, const struct vr_cuda_device *device,
                          enum vr_cuda_manner manner) {
    vram_status status = context_push(device);
    if (status != VRAM_OK) {
        return status;
    }
    *scope = (struct vr_cuda_scope){.device = device, .mode = VR_CU_MODE_RELAXED};
    /* A driver without the call, or that refuses it, is used as it is: only a capture that runs at
       this very moment could tell the difference, and would get the driver's own error. */
    scope->relaxed = manner == VR_CUDA_RELAXED && device->api->cuThreadExchangeStreamCaptureMode &&
                     device->api->cuThreadExchangeStreamCaptureMode(&scope->mode) == VR_CU_SUCCESS;
    return VRAM_OK;
}

void vr_cuda_leave(const struct vr_cuda_scope *scope) {
    const struct vr_cuda_api *api = scope->device->api;
    enum vr_cu_capture_mode mode = scope->mode;
    struct vr_cu_context *popped;
    if (scope->relaxed) {
        vr_cuda_shrug(api, "cuThreadExchangeStreamCaptureMode",
                      api->cuThreadExchangeStreamCaptureMode(&mode));
    }
    vr_cuda_shrug(api, "cuCtxPopCurrent", api->cuCtxPopCurrent(&popped));
}

/* ------------------------------------------------------------ device memory */

/* Costs microseconds, counts other processes too, and says nothing about pieces: callers sample. */
static vram_status memory_info(struct vr_device *device, vram_value *free, vram_value *total) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    size_t free_bytes = 0, total_bytes = 0;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status = VR_CUDA(cuda, cuMemGetInfo, &free_bytes, &total_bytes);
    vr_cuda_leave(&scope);
    if (status == VRAM_OK) {
        *free = (vram_value){free_bytes, true};
        *total = (vram_value){total_bytes, true};
    }
    return status;
}

/* The driver promises 256 bytes of alignment and gives whole granules their own pages, on their own
   boundary. The library builds on the latter, so it is checked rather than hoped for. */
static vram_status memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    vr_cu_addr found = 0;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status = VR_CUDA(cuda, cuMemAlloc, &found, bytes);
    if (status == VRAM_OK && (!found || found % VR_CUDA_GRANULE)) {
        if (found) {
            vr_cuda_shrug(cuda->api, "cuMemFree", cuda->api->cuMemFree(found));
        }
        status = vr_cuda_lied("cuMemAlloc", found);
    }
    vr_cuda_leave(&scope);
    if (status == VRAM_OK) {
        *addr = found;
    }
    return status;
}

static vram_status memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    (void)bytes;
    if (vr_load(&device->lost, VR_ACQUIRE)) {
        return VRAM_OK;
    }
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = VR_CUDA(cuda, cuMemFree, addr);
        vr_cuda_leave(&scope);
    }
    return status;
}

/* ------------------------------------------------------------ pinned memory */

/* Portable, so that every device may use it. What runs out is the host's memory. */
static vram_status host_alloc(struct vr_cuda_device *cuda, uint64_t bytes, void **memory) {
    return vr_cuda_check(cuda->api, "cuMemHostAlloc",
                         cuda->api->cuMemHostAlloc(memory, bytes, VR_CU_HOST_PORTABLE),
                         VRAM_ERR_HOST_MEMORY);
}

/* Host memory on a page boundary. The driver cuts small blocks out of larger ones and may then
   start inside a page, behind a block of somebody else's; whole granules it maps for themselves.
   *memory is NULL when the driver's success was none. */
static vram_status host_alloc_aligned(struct vr_cuda_device *cuda, uint64_t bytes, void **memory) {
    size_t page = vr_os_page_bytes();
    vram_status status = host_alloc(cuda, bytes, memory);
    if (status == VRAM_OK && *memory && (uintptr_t)*memory % page) {
        uint64_t rounded;
        vr_cuda_shrug(cuda->api, "cuMemFreeHost", cuda->api->cuMemFreeHost(*memory));
        *memory = NULL;
        if (vr_round_up(bytes, VR_CUDA_GRANULE, &rounded)) {
            status = host_alloc(cuda, rounded, memory);
        }
    }
    return status;
}

static vram_status pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    void *memory = NULL;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status = host_alloc_aligned(cuda, bytes, &memory);
    if (status == VRAM_OK && (!memory || (uintptr_t)memory % vr_os_page_bytes())) {
        if (memory) {
            vr_cuda_shrug(cuda->api, "cuMemFreeHost", cuda->api->cuMemFreeHost(memory));
        }
        status = vr_cuda_lied("cuMemHostAlloc", (uintptr_t)memory);
    }
    vr_cuda_leave(&scope);
    if (status == VRAM_OK) {
        *addr = (uintptr_t)memory;
    }
    return status;
}

static vram_status pinned_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    (void)bytes;
    if (vr_load(&device->lost, VR_ACQUIRE)) {
        return VRAM_OK;
    }
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = VR_CUDA(cuda, cuMemFreeHost, (void *)(uintptr_t)addr);
        vr_cuda_leave(&scope);
    }
    return status;
}

/* ---------------------------------------------------------- opening, closing */

/* Whether streams can write and await 64-bit words. Drivers before 11.7 know the question by
   another number. A device that says yes is still believed only until it says "not supported". */
static bool has_memory_ops(const struct vr_cuda_device *cuda) {
    int now = 0, earlier = 0;
    const struct vr_cuda_api *api = cuda->api;
    if (!api->cuStreamWriteValue64 || !api->cuStreamWaitValue64) {
        return false;
    }
    if (api->cuDeviceGetAttribute(&now, VR_CU_ATTRIBUTE_MEMORY_OPS, cuda->ordinal)) {
        now = 0;
    }
    if (!now && api->cuDeviceGetAttribute(&earlier, VR_CU_ATTRIBUTE_MEMORY_OPS_V1, cuda->ordinal)) {
        earlier = 0;
    }
    return now || earlier;
}

/* Closing cannot fail, so it leaves no failure in the caller's error record either. */
static void device_close(struct vr_device *device) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    vram_error before;
    if (vr_load(&device->lost, VR_ACQUIRE)) {
        vr_cuda_words_end(cuda, true);
    } else {
        vr_error_save(&before);
        bool entered = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED) == VRAM_OK;
        vr_cuda_words_end(cuda, !entered);
        if (entered) {
            vr_cuda_leave(&scope);
        }
        vr_cuda_shrug(cuda->api, "cuDevicePrimaryCtxRelease",
                      cuda->api->cuDevicePrimaryCtxRelease(cuda->ordinal));
        vr_error_restore(&before);
    }
    vr_mem_free(cuda);
    device->impl = NULL;
}

static const struct vr_device_ops device_ops = {
    .close = device_close,
    .memory_info = memory_info,
    .alloc = memory_alloc,
    .free = memory_free,
};

static const struct vr_pinned_ops pinned_ops = {.alloc = pinned_alloc, .free = pinned_free};

/* Two handles on one device retain the context twice and share nothing else. A context that is lost
   already is not released: the driver would only answer the same error again. */
vram_status vr_cuda_device_open(struct vr_device *device) {
    const struct vr_cuda *backend = device->backend->impl;
    struct vr_cuda_scope scope;
    vram_status status;
    struct vr_cuda_device *cuda = vr_mem_alloc(1, sizeof *cuda, "cuda_device_open");
    if (!cuda) {
        return VRAM_ERR_HOST_MEMORY;
    }
    cuda->api = &backend->api;
    status = VR_CUDA(cuda, cuDeviceGet, &cuda->ordinal, (int)device->index);
    if (status != VRAM_OK) {
        goto fail;
    }
    status = VR_CUDA(cuda, cuDevicePrimaryCtxRetain, &cuda->context, cuda->ordinal);
    if (status != VRAM_OK) {
        goto fail;
    }
    vr_store(&cuda->memory_ops, has_memory_ops(cuda), VR_RELAXED);
    status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = vr_cuda_words_init(cuda);
        vr_cuda_leave(&scope);
    }
    if (status != VRAM_OK) {
        goto fail;
    }
    device->impl = cuda;
    device->ops = &device_ops;
    device->queue_ops = &vr_cuda_queue_ops;
    device->pinned = &pinned_ops;
    device->vmm = device->info.caps & VRAM_CAP_VMM ? &vr_cuda_vmm_ops : NULL;
    return VRAM_OK;
fail:
    if (cuda->context && status != VRAM_ERR_DEVICE_LOST) {
        vr_cuda_shrug(cuda->api, "cuDevicePrimaryCtxRelease",
                      cuda->api->cuDevicePrimaryCtxRelease(cuda->ordinal));
    }
    vr_mem_free(cuda);
    return status;
}
