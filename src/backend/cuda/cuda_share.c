/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_share.c: memory that other processes import, by POSIX file descriptors or, on other
 * machines, by fabric handles. Fabric handles have not run on hardware.
 *
 *  (1) A handle must have been created for export (requestedHandleTypes), and a descriptor gives
 *      access to the whole handle.
 *  (2) The driver counts references: the memory goes when the last process that has a handle, a
 *      mapping or a descriptor of it has gone, however that process ended.
 *  (3) A descriptor cannot be made read-only. The importer's own mapping can.
 *  (4) The driver checks what a descriptor is, but not whether the memory is as large as the peer
 *      said. Mapping a handle with a wrong size fails, so nothing beyond it can be reached.
 *  (5) A device may have fabric handles, and the system may still allow this process none (no IMEX
 *      channel): then creating such memory fails, and says so.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"

#include <string.h>

bool vr_cuda_can_share(const struct vr_cuda_device *cuda, uint32_t caps) {
    const struct vr_cuda_api *api = cuda->api;
    int query = api->dialect->queries[VR_CUDA_QUERY_DESCRIPTORS], found = 1;
    return (caps & VRAM_CAP_VMM) && api->cuMemExportToShareableHandle &&
           api->cuMemImportFromShareableHandle &&
           (query == VR_CUDA_NO_QUERY ||
            (api->cuDeviceGetAttribute(&found, (enum vr_cu_attribute)query, cuda->ordinal) ==
                 VR_CU_SUCCESS &&
             found));
}

static vram_status share_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    return vr_cuda_physical_create(device->impl, bytes, VR_CU_HANDLE_DESCRIPTOR, handle);
}

static vram_status share_export(struct vr_device *device, uint64_t handle, uint64_t bytes,
                                bool read_only, int *descriptor) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    int found = -1;
    (void)bytes;
    (void)read_only; /* (3) */
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status =
        VR_CUDA(cuda, cuMemExportToShareableHandle, &found, handle, VR_CU_HANDLE_DESCRIPTOR, 0);
    vr_cuda_leave(&scope);
    if (status == VRAM_OK && found < 0) {
        return vr_cuda_bad_result(cuda->api, VR_CU_CALL_cuMemExportToShareableHandle,
                                  (uint64_t)(int64_t)found);
    }
    if (status == VRAM_OK) {
        *descriptor = found;
    }
    return status;
}

/* `from` is what the driver takes for that type: a descriptor's number, or a fabric handle. */
static vram_status memory_import(struct vr_cuda_device *cuda, void *from,
                                 enum vr_cu_handle_type type, uint64_t *handle) {
    struct vr_cuda_scope scope;
    vr_cu_memory found = 0;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status = VR_CUDA(cuda, cuMemImportFromShareableHandle, &found, from, type);
    vr_cuda_leave(&scope);
    if (status == VRAM_OK && !found) {
        return vr_cuda_bad_result(cuda->api, VR_CU_CALL_cuMemImportFromShareableHandle, found);
    }
    if (status == VRAM_OK) {
        *handle = found;
    }
    return status;
}

static vram_status share_import(struct vr_device *device, int descriptor, uint64_t bytes,
                                uint64_t *handle) {
    (void)bytes; /* (4) */
    return memory_import(device->impl, (void *)(intptr_t)descriptor, VR_CU_HANDLE_DESCRIPTOR,
                         handle);
}

const struct vr_share_ops vr_cuda_share_ops = {
    .create = share_create,
    .export_handle = share_export,
    .import_handle = share_import,
    .export_is_slow = true,
};

/* ----------------------------------------------------------- between machines */

bool vr_cuda_has_fabric(const struct vr_cuda_device *cuda) {
    int query = cuda->api->dialect->queries[VR_CUDA_QUERY_FABRIC], found = 0;
    return query != VR_CUDA_NO_QUERY &&
           cuda->api->cuDeviceGetAttribute(&found, (enum vr_cu_attribute)query, cuda->ordinal) ==
               VR_CU_SUCCESS &&
           found;
}

static vram_status fabric_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    return vr_cuda_physical_create(device->impl, bytes,
                                   VR_CU_HANDLE_DESCRIPTOR | VR_CU_HANDLE_FABRIC, handle);
}

static vram_status fabric_export(struct vr_device *device, uint64_t handle,
                                 uint8_t fabric[VR_FABRIC_BYTES]) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    uint8_t found[VR_FABRIC_BYTES] = {0};
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status = VR_CUDA(cuda, cuMemExportToShareableHandle, found, handle, VR_CU_HANDLE_FABRIC, 0);
    vr_cuda_leave(&scope);
    if (status == VRAM_OK) {
        memcpy(fabric, found, sizeof found);
    }
    return status;
}

static vram_status fabric_import(struct vr_device *device, const uint8_t fabric[VR_FABRIC_BYTES],
                                 uint64_t *handle) {
    uint8_t given[VR_FABRIC_BYTES];
    memcpy(given, fabric, sizeof given);
    return memory_import(device->impl, given, VR_CU_HANDLE_FABRIC, handle);
}

const struct vr_fabric_ops vr_cuda_fabric_ops = {
    .create = fabric_create,
    .export_handle = fabric_export,
    .import_handle = fabric_import,
};
