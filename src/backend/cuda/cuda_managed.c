/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_managed.c: managed memory, which migrates between host and device, and hints for it.
 *
 * Only offered if host and device may use it at the same time: otherwise the host must not touch
 * any of it while any kernel runs, which no caller could ensure. A driver that does not know a
 * hint, or does not support it, ignores it.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/os/os.h"

static vram_status managed_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    vr_cu_addr found = 0;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status = VR_CUDA(cuda, cuMemAllocManaged, &found, bytes, VR_CU_MANAGED_GLOBAL);
    if (status == VRAM_OK && (!found || found % vr_os_page_bytes())) {
        if (found) {
            vr_cuda_warn(cuda->api, VR_CU_CALL_cuMemFree, cuda->api->cuMemFree(found));
        }
        status = vr_cuda_bad_result(cuda->api, VR_CU_CALL_cuMemAllocManaged, found);
    }
    vr_cuda_leave(&scope);
    if (status == VRAM_OK) {
        *addr = found;
    }
    return status;
}

static vram_status managed_prefetch(struct vr_queue *queue, vram_addr addr, uint64_t bytes,
                                    int32_t target) {
    struct vr_cuda_scope scope;
    const struct vr_cuda_device *cuda = queue->device->impl;
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    vram_status status = vr_cuda_mark_begin(queue, &scope, dialect->prefetch_call);
    if (status != VRAM_OK) {
        return status;
    }
    vr_cu_result code = dialect->prefetch(cuda, vr_cuda_stream(queue), addr, bytes, target);
    if (code != VR_CU_NOT_SUPPORTED) {
        status = vr_cuda_check(cuda->api, dialect->prefetch_call, code, VRAM_ERR_DEVICE_MEMORY);
    }
    vr_cuda_leave(&scope);
    return status;
}

/* Advice has two parts, how the range is used and where it should be; one call sets both. */
static vram_status managed_advise(struct vr_device *device, vram_addr addr, uint64_t bytes,
                                  vram_advice advice, int32_t target) {
    const struct vr_cuda_device *cuda = device->impl;
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    const enum vr_cu_advice reads =
        advice == VRAM_ADVICE_READ_MOSTLY ? VR_CU_ADVISE_READ_MOSTLY : VR_CU_ADVISE_NOT_READ_MOSTLY;
    const enum vr_cu_advice place =
        advice == VRAM_ADVICE_PREFER ? VR_CU_ADVISE_PREFER : VR_CU_ADVISE_PREFER_NONE;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    vr_cu_result code = dialect->advise(cuda, addr, bytes, reads, cuda->ordinal);
    code = code == VR_CU_SUCCESS ? dialect->advise(cuda, addr, bytes, place, target) : code;
    if (code != VR_CU_NOT_SUPPORTED) {
        status = vr_cuda_check(cuda->api, dialect->advise_call, code, VRAM_ERR_DEVICE_MEMORY);
    }
    vr_cuda_leave(&scope);
    return status;
}

const struct vr_managed_ops vr_cuda_managed_ops = {
    .alloc = managed_alloc,
    .free = vr_cuda_memory_free,
    .prefetch = managed_prefetch,
    .advise = managed_advise,
};
