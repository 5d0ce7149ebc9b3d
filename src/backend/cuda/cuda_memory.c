/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_memory.c: device memory and pinned host memory.
 *
 * The driver waits for the device's work inside cuMemFree, cuMemFreeHost and cuMemHostAlloc. Pools
 * exist so that this happens seldom.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"

/* ------------------------------------------------------------ device memory */

/* Memory that an integrated GPU shares with the host. There the driver counts the page cache as
   used, which the system drops when a program needs the memory; and what the driver could still
   allocate by swapping others out is not free. So the system's own figure replaces it. */
static uint64_t shared_free(uint64_t free_bytes, uint64_t total_bytes) {
    vram_value host, available;
    vr_os_memory(&host, &available);
    uint64_t usable = available.known ? available.value : free_bytes;
    return usable < total_bytes ? usable : total_bytes;
}

/* Takes microseconds, includes other processes, and does not tell whether the free memory is
   contiguous: callers sample it. */
vram_status vr_cuda_memory_info(struct vr_device *device, vram_value *free, vram_value *total) {
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
        bool shared = device->info.caps & VRAM_CAP_INTEGRATED;
        *free = (vram_value){shared ? shared_free(free_bytes, total_bytes) : free_bytes, true};
        *total = (vram_value){total_bytes, true};
    }
    return status;
}

/* The driver promises an alignment of 256 bytes, and in practice aligns whole granules to a
   granule. The library relies on the latter, so it is checked. */
vram_status vr_cuda_memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
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
            vr_cuda_warn(cuda->api, VR_CU_CALL_cuMemFree, cuda->api->cuMemFree(found));
        }
        status = vr_cuda_bad_result(cuda->api, VR_CU_CALL_cuMemAlloc, found);
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

vram_status vr_cuda_memory_others(struct vr_device *device, vram_value *bytes) {
    const struct vr_cuda_device *cuda = device->impl;
    if (!cuda->api->dialect->others) {
        *bytes = (vram_value){0, false};
        return VRAM_OK;
    }
    return cuda->api->dialect->others(device, bytes);
}

/* ------------------------------------------------------------ pinned memory */

#define PINNED_GRANULE (UINT64_C(2) << 20) /* what drivers map separately */

/* Portable, so that every device may use it. What runs out is host memory. */
static vram_status host_alloc(struct vr_cuda_device *cuda, uint64_t bytes, void **memory) {
    return vr_cuda_check(cuda->api, VR_CU_CALL_cuMemHostAlloc,
                         cuda->api->cuMemHostAlloc(memory, bytes, VR_CU_HOST_PORTABLE),
                         VRAM_ERR_HOST_MEMORY);
}

/* Host memory on a page boundary. The driver cuts small blocks out of larger ones, so a block may
   start inside a page that another block shares; whole granules it maps separately. *memory is NULL
   if the driver returned success without memory. */
static vram_status host_alloc_aligned(struct vr_cuda_device *cuda, uint64_t bytes, void **memory) {
    size_t page = vr_os_page_bytes();
    vram_status status = host_alloc(cuda, bytes, memory);
    if (status == VRAM_OK && *memory && (uintptr_t)*memory % page) {
        uint64_t rounded;
        vr_cuda_warn(cuda->api, VR_CU_CALL_cuMemFreeHost, cuda->api->cuMemFreeHost(*memory));
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
            vr_cuda_warn(cuda->api, VR_CU_CALL_cuMemFreeHost, cuda->api->cuMemFreeHost(memory));
        }
        status = vr_cuda_bad_result(cuda->api, VR_CU_CALL_cuMemHostAlloc, (uintptr_t)memory);
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

/* The driver knows no flags of memory that it has not locked. */
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

/* Portable, like memory that the driver allocates. */
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

const struct vr_pinned_ops vr_cuda_pinned_ops = {
    .alloc = pinned_alloc,
    .free = pinned_free,
    .check = pinned_check,
    .register_pages = pinned_register,
    .unregister_pages = pinned_unregister,
};
