/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_device.c: opening and closing a device, and the current context.
 *
 * Every driver call that needs a current device is made between vr_cuda_enter and vr_cuda_leave,
 * also on failing paths, so the caller's own context is restored.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/size.h"
#include "vram/limits.h"

/* ----------------------------------------------------------------- contexts */

vram_status vr_cuda_enter(struct vr_cuda_scope *scope, const struct vr_cuda_device *device,
                          enum vr_cuda_mode how) {
    *scope = (struct vr_cuda_scope){.device = device, .mode = VR_CU_MODE_RELAXED};
    vram_status status = device->api->dialect->enter(scope, device);
    if (status != VRAM_OK) {
        return status;
    }
    /* If the driver lacks the call or refuses it, the mode stays: only a capture that runs at this
       very moment could notice, and would get the driver's own error. */
    scope->relaxed = how == VR_CUDA_RELAXED && device->api->cuThreadExchangeStreamCaptureMode &&
                     device->api->cuThreadExchangeStreamCaptureMode(&scope->mode) == VR_CU_SUCCESS;
    return VRAM_OK;
}

void vr_cuda_leave(const struct vr_cuda_scope *scope) {
    const struct vr_cuda_api *api = scope->device->api;
    enum vr_cu_capture_mode mode = scope->mode;
    if (scope->relaxed) {
        vr_cuda_warn(api, VR_CU_CALL_cuThreadExchangeStreamCaptureMode,
                     api->cuThreadExchangeStreamCaptureMode(&mode));
    }
    api->dialect->leave(scope);
}

/* ---------------------------------------------------------- opening, closing */

/* Whether streams can write and wait for 64-bit words. Drivers before 11.7 have another number for
   this attribute. A device that says yes is trusted until it returns "not supported". */
static bool has_memory_ops(const struct vr_cuda_device *cuda) {
    const struct vr_cuda_api *api = cuda->api;
    const int *queries = api->dialect->queries;
    int now = 0, earlier = queries[VR_CUDA_QUERY_MEMORY_OPS_EARLIER];
    if (!api->cuStreamWriteValue64) {
        return false;
    }
    if (api->cuDeviceGetAttribute(&now, (enum vr_cu_attribute)queries[VR_CUDA_QUERY_MEMORY_OPS],
                                  cuda->ordinal)) {
        now = 0;
    }
    if (!now && earlier != VR_CUDA_NO_QUERY &&
        api->cuDeviceGetAttribute(&now, (enum vr_cu_attribute)earlier, cuda->ordinal)) {
        now = 0;
    }
    return now;
}

/* Closing cannot fail, so it leaves no failure in the caller's error record. */
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

static vram_status device_check(struct vr_device *device) {
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_enter(&scope, device->impl, VR_CUDA_UNCHANGED);
    if (status == VRAM_OK) {
        vr_cuda_leave(&scope);
    }
    return status;
}

static const struct vr_device_ops device_ops = {
    .close = device_close,
    .memory_info = vr_cuda_memory_info,
    .alloc = vr_cuda_memory_alloc,
    .free = vr_cuda_memory_free,
    .others = vr_cuda_memory_others,
    .check = device_check,
};

/* Two handles on one device retain the context twice and share nothing else. A context that is
   already lost is not released: the driver would only return the same error again. */
static void call_within(struct vr_device *device, void (*call)(void *user), void *user) {
    struct vr_cuda_scope scope;
    if (vr_cuda_enter(&scope, device->impl, VR_CUDA_UNCHANGED) == VRAM_OK) {
        call(user);
        vr_cuda_leave(&scope);
    }
}

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
    bool rdma = device->info.caps & VRAM_CAP_RDMA;
    vr_store(&cuda->rdma, rdma && vr_option_number(VR_OPTION_RDMA) != VRAM_SWITCH_OFF, VR_RELAXED);
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
    device->within = dialect->nvtx ? call_within : NULL;
    device->pinned = &vr_cuda_pinned_ops;
    uint32_t caps = device->info.caps;
    device->vmm = caps & VRAM_CAP_VMM ? &vr_cuda_vmm_ops : NULL;
    device->share = vr_cuda_can_share(cuda, caps) ? &vr_cuda_share_ops : NULL;
    device->fabric = device->share && vr_cuda_has_fabric(cuda) ? &vr_cuda_fabric_ops : NULL;
    device->managed = caps & VRAM_CAP_MANAGED ? &vr_cuda_managed_ops : NULL;
    device->peer = caps & VRAM_CAP_PEERS ? &vr_cuda_peer_ops : NULL;
    device->kernel = caps & VRAM_CAP_KERNELS ? &vr_cuda_kernel_ops : NULL;
    vr_cuda_peers_init(cuda, caps & VRAM_CAP_PEERS);
    status = dialect->probe ? dialect->probe(device) : VRAM_OK;
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
