/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_device.c: opening and closing a device, its memory, and pinned host memory.
 *
 * Every driver call that needs a current device is made between vr_cuda_enter and vr_cuda_leave, on
 * failing paths too, so the caller's own is found again as it was.
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

vram_status vr_cuda_enter(struct vr_cuda_scope *scope, const struct vr_cuda_device *device,
                          enum vr_cuda_manner manner) {
    *scope = (struct vr_cuda_scope){.device = device, .mode = VR_CU_MODE_RELAXED};
    vram_status status = device->api->dialect->enter(scope, device);
    if (status != VRAM_OK) {
        return status;
    }
    /* A driver without the call, or that refuses it, is used as it is: only a capture that runs at
       this very moment could tell the difference, and would get the driver's own error. */
    scope->relaxed = manner == VR_CUDA_RELAXED && device->api->cuThreadExchangeStreamCaptureMode &&
                     device->api->cuThreadExchangeStreamCaptureMode(&scope->mode) == VR_CU_SUCCESS;
    return VRAM_OK;
}

void vr_cuda_leave(const struct vr_cuda_scope *scope) {
    const struct vr_cuda_api *api = scope->device->api;
    enum vr_cu_capture_mode mode = scope->mode;
    if (scope->relaxed) {
        vr_cuda_shrug(api, VR_CU_CALL_cuThreadExchangeStreamCaptureMode,
                      api->cuThreadExchangeStreamCaptureMode(&mode));
    }
    api->dialect->leave(scope);
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
    if (status == VRAM_OK && (!found || found % cuda->api->dialect->granule)) {
        if (found) {
            vr_cuda_shrug(cuda->api, VR_CU_CALL_cuMemFree, cuda->api->cuMemFree(found));
        }
        status = vr_cuda_lied(cuda->api, VR_CU_CALL_cuMemAlloc, found);
    }
    vr_cuda_leave(&scope);
    if (status == VRAM_OK) {
        *addr = found;
    }
    return status;
}

vram_status vr_cuda_memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
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

static vram_status memory_others(struct vr_device *device, vram_value *bytes) {
    const struct vr_cuda_device *cuda = device->impl;
    if (!cuda->api->dialect->others) {
        *bytes = (vram_value){0, false};
        return VRAM_OK;
    }
    return cuda->api->dialect->others(device, bytes);
}

/* ------------------------------------------------------------ pinned memory */

#define PINNED_GRANULE (UINT64_C(2) << 20) /* what drivers map for itself */

/* Portable, so that every device may use it. What runs out is the host's memory. */
static vram_status host_alloc(struct vr_cuda_device *cuda, uint64_t bytes, void **memory) {
    return vr_cuda_check(cuda->api, VR_CU_CALL_cuMemHostAlloc,
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
        vr_cuda_shrug(cuda->api, VR_CU_CALL_cuMemFreeHost, cuda->api->cuMemFreeHost(*memory));
        *memory = NULL;
        if (vr_round_up(bytes, PINNED_GRANULE, &rounded)) {
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
            vr_cuda_shrug(cuda->api, VR_CU_CALL_cuMemFreeHost, cuda->api->cuMemFreeHost(memory));
        }
        status = vr_cuda_lied(cuda->api, VR_CU_CALL_cuMemHostAlloc, (uintptr_t)memory);
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

/* Of memory that it has not locked the driver knows no flags. */
static vram_status pinned_check(struct vr_device *device, vram_addr addr, vram_value *pinned) {
    const struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    unsigned flags = 0;
    if (!cuda->api->cuMemHostGetFlags) {
        *pinned = (vram_value){0, false};
        return VRAM_OK;
    }
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    vr_cu_result code = cuda->api->cuMemHostGetFlags(&flags, (void *)(uintptr_t)addr);
    if (code != VR_CU_INVALID_VALUE) {
        status =
            vr_cuda_check(cuda->api, VR_CU_CALL_cuMemHostGetFlags, code, VRAM_ERR_DEVICE_MEMORY);
    }
    vr_cuda_leave(&scope);
    if (status == VRAM_OK) {
        *pinned = (vram_value){.value = code == VR_CU_SUCCESS, .known = true};
    }
    return status;
}

/* Portable like what the driver allocates itself. */
static vram_status pinned_register(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    const struct vr_cuda_device *cuda = device->impl;
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    struct vr_cuda_scope scope;
    if (!cuda->api->cuMemHostRegister || !cuda->api->cuMemHostUnregister) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, dialect->name,
                            dialect->names[VR_CU_CALL_cuMemHostRegister], 0,
                            "this driver cannot page-lock memory where it lies");
    }
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = vr_cuda_check(
            cuda->api, VR_CU_CALL_cuMemHostRegister,
            cuda->api->cuMemHostRegister((void *)(uintptr_t)addr, bytes, VR_CU_HOST_PORTABLE),
            VRAM_ERR_HOST_MEMORY);
        vr_cuda_leave(&scope);
    }
    return status;
}

static vram_status pinned_unregister(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    const struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    (void)bytes;
    if (vr_load(&device->lost, VR_ACQUIRE)) {
        return VRAM_OK;
    }
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = vr_cuda_check(cuda->api, VR_CU_CALL_cuMemHostUnregister,
                               cuda->api->cuMemHostUnregister((void *)(uintptr_t)addr),
                               VRAM_ERR_HOST_MEMORY);
        vr_cuda_leave(&scope);
    }
    return status;
}

/* ---------------------------------------------------------- opening, closing */

/* Whether streams can write and await 64-bit words. Drivers before 11.7 know the question by
   another number. A device that says yes is still believed only until it says "not supported". */
static bool has_memory_ops(const struct vr_cuda_device *cuda) {
    const struct vr_cuda_api *api = cuda->api;
    const int *facts = api->dialect->facts;
    int now = 0, earlier = facts[VR_CUDA_FACT_MEMORY_OPS_EARLIER];
    if (!api->cuStreamWriteValue64) {
        return false;
    }
    if (api->cuDeviceGetAttribute(&now, (enum vr_cu_attribute)facts[VR_CUDA_FACT_MEMORY_OPS],
                                  cuda->ordinal)) {
        now = 0;
    }
    if (!now && earlier != VR_CUDA_NOT_ASKED &&
        api->cuDeviceGetAttribute(&now, (enum vr_cu_attribute)earlier, cuda->ordinal)) {
        now = 0;
    }
    return now;
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
        cuda->api->dialect->release(cuda);
        vr_error_restore(&before);
    }
    vr_cuda_peers_end(cuda);
    vr_mem_free(cuda);
    device->impl = NULL;
}

static const struct vr_device_ops device_ops = {
    .close = device_close,
    .memory_info = memory_info,
    .alloc = memory_alloc,
    .free = vr_cuda_memory_free,
    .others = memory_others,
};

static const struct vr_pinned_ops pinned_ops = {
    .alloc = pinned_alloc,
    .free = pinned_free,
    .check = pinned_check,
    .register_pages = pinned_register,
    .unregister_pages = pinned_unregister,
};

/* Two handles on one device retain the context twice and share nothing else. A context that is lost
   already is not released: the driver would only answer the same error again. */
vram_status vr_cuda_device_open(struct vr_device *device) {
    const struct vr_cuda *backend = device->backend->impl;
    const struct vr_cuda_dialect *dialect = backend->api.dialect;
    struct vr_cuda_scope scope;
    vram_status status;
    bool retained = false;
    struct vr_cuda_device *cuda = vr_mem_alloc(1, sizeof *cuda, "device_open");
    if (!cuda) {
        return VRAM_ERR_HOST_MEMORY;
    }
    cuda->api = &backend->api;
    status = VR_CUDA(cuda, cuDeviceGet, &cuda->ordinal, (int)device->index);
    if (status != VRAM_OK) {
        goto fail;
    }
    status = dialect->retain(cuda);
    if (status != VRAM_OK) {
        goto fail;
    }
    retained = true;
    vr_store(&cuda->memory_ops, has_memory_ops(cuda), VR_RELAXED);
    vr_store(&cuda->stream_waits, true, VR_RELAXED);
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
    device->pageable_waits = true;
    device->pinned = &pinned_ops;
    uint32_t caps = device->info.caps;
    device->vmm = caps & VRAM_CAP_VMM ? &vr_cuda_vmm_ops : NULL;
    device->managed = caps & VRAM_CAP_MANAGED ? &vr_cuda_managed_ops : NULL;
    device->peer = caps & VRAM_CAP_PEERS ? &vr_cuda_peer_ops : NULL;
    device->kernel = caps & VRAM_CAP_KERNELS ? &vr_cuda_kernel_ops : NULL;
    vr_cuda_peers_init(cuda, caps & VRAM_CAP_PEERS);
    status = dialect->trial ? dialect->trial(device) : VRAM_OK;
    if (status != VRAM_OK) {
        vr_store(&device->lost, status == VRAM_ERR_DEVICE_LOST, VR_RELEASE);
        device_close(device);
    }
    return status;
fail:
    if (retained && status != VRAM_ERR_DEVICE_LOST) {
        dialect->release(cuda);
    }
    vr_mem_free(cuda);
    return status;
}
