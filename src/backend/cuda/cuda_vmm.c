/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_vmm.c: virtual memory management.
 *
 * Properties of the driver that shape this file
 *  (1) A handle is mapped and unmapped whole: offsets into a handle are refused.
 *  (2) Access belongs to the mapping: it must be set after every map, for every device that uses
 *      the memory, which are this one and its peers; see cuda_peer.c.
 *  (3) Neither unmapping nor releasing waits for work that still uses the memory. Such work would
 *      fault and lose the device. The callers have waited.
 *  (4) A handle is exportable to other processes only if it was created so, which costs time on
 *      some drivers. Only cuda_share.c creates such handles.
 *  (5) Network cards can register only memory that was created for it. Such a registration survives
 *      that the memory is mapped elsewhere: the pools keep it where it is, see network_card.c.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/log.h"

/* The device's ordinal is the location of physical memory and of access rights. */
static struct vr_cu_location location_of(const struct vr_cuda_device *cuda) {
    return (struct vr_cu_location){.type = VR_CU_LOCATION_DEVICE, .id = cuda->ordinal};
}

/* Addresses belong to the process: what runs out is a limit of the system. */
static vram_status vmm_reserve(struct vr_device *device, uint64_t bytes, uint64_t align,
                               vram_addr *addr) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    vr_cu_addr found = 0;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    status =
        vr_cuda_check(cuda->api, VR_CU_CALL_cuMemAddressReserve,
                      cuda->api->cuMemAddressReserve(&found, bytes, align, 0, 0), VRAM_ERR_LIMIT);
    if (status == VRAM_OK && (!found || found % align)) {
        if (found) {
            vr_cuda_warn(cuda->api, VR_CU_CALL_cuMemAddressFree,
                         cuda->api->cuMemAddressFree(found, bytes));
        }
        status = vr_cuda_bad_result(cuda->api, VR_CU_CALL_cuMemAddressReserve, found);
    }
    vr_cuda_leave(&scope);
    if (status == VRAM_OK) {
        *addr = found;
    }
    return status;
}

static vram_status vmm_unreserve(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    if (vr_load(&device->lost, VR_ACQUIRE)) {
        return VRAM_OK;
    }
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = VR_CUDA(cuda, cuMemAddressFree, addr, bytes);
        vr_cuda_leave(&scope);
    }
    return status;
}

/* Handles are counters on some drivers and pointers on others; 0 is neither. */
vram_status vr_cuda_physical_create(struct vr_cuda_device *cuda, uint64_t bytes, int handle_type,
                                    uint64_t *handle) {
    struct vr_cu_prop prop = {.type = VR_CU_ALLOCATION_PINNED,
                              .requested_handle_types = handle_type,
                              .location = location_of(cuda),
                              .flags.rdma_capable = vr_load(&cuda->rdma, VR_RELAXED)};
    struct vr_cuda_scope scope;
    vr_cu_memory found = 0;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    vr_cu_result code = cuda->api->cuMemCreate(&found, bytes, &prop, 0);
    if (prop.flags.rdma_capable && (code == VR_CU_INVALID_VALUE || code == VR_CU_NOT_SUPPORTED)) {
        prop.flags.rdma_capable = 0; /* keeps (5): refused, whatever the attribute says */
        code = cuda->api->cuMemCreate(&found, bytes, &prop, 0);
        if (code == VR_CU_SUCCESS && vr_exchange(&cuda->rdma, false, VR_RELAXED)) {
            vr_log(VRAM_LOG_WARN, "the driver creates no memory for GPUDirect RDMA: network cards "
                                  "cannot register it");
        }
    }
    status = vr_cuda_check(cuda->api, VR_CU_CALL_cuMemCreate, code, VRAM_ERR_DEVICE_MEMORY);
    vr_cuda_leave(&scope);
    if (status == VRAM_OK && !found) {
        return vr_cuda_bad_result(cuda->api, VR_CU_CALL_cuMemCreate, found);
    }
    if (status == VRAM_OK) {
        *handle = found;
    }
    return status;
}

static vram_status vmm_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    return vr_cuda_physical_create(device->impl, bytes, 0, handle); /* keeps (4) */
}

static vram_status vmm_release(struct vr_device *device, uint64_t handle, uint64_t bytes) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    (void)bytes;
    if (vr_load(&device->lost, VR_ACQUIRE)) {
        return VRAM_OK;
    }
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = VR_CUDA(cuda, cuMemRelease, handle);
        vr_cuda_leave(&scope);
    }
    return status;
}

/* keeps (1): the offset is 0 and the size is that of the handle. */
static vram_status vmm_map(struct vr_device *device, vram_addr addr, uint64_t handle,
                           uint64_t bytes) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_mapping_add(cuda, addr, bytes);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = VR_CUDA(cuda, cuMemMap, addr, bytes, 0, handle, 0);
        vr_cuda_leave(&scope);
    }
    if (status != VRAM_OK) {
        vr_cuda_mapping_remove(cuda, addr, bytes);
    }
    return status;
}

/* Sets access for this device and its peers; cuda_peer.c (1). */
static vram_status access_set(struct vr_cuda_device *cuda, vram_addr addr, uint64_t bytes,
                              bool read_only) {
    struct vr_cu_access access[VR_CUDA_PEERS_MAX];
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        vr_cuda_mapping_note(cuda, addr, bytes, true, read_only);
        size_t count = vr_cuda_readers(cuda, access);
        for (size_t i = 0; i < count && read_only; i++) {
            access[i].flags = VR_CU_ACCESS_READ;
        }
        status = VR_CUDA(cuda, cuMemSetAccess, addr, bytes, access, count);
        vr_cuda_leave(&scope);
    }
    return status;
}

/* keeps (2). This is the most expensive mapping call and costs time per handle in the range, so the
   callers pass many handles at once. */
static vram_status vmm_access(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_cuda_device *cuda = device->impl;
    vram_status status = access_set(cuda, addr, bytes, false);
    if (status != VRAM_OK) {
        vr_cuda_mapping_note(cuda, addr, bytes, false, false);
    }
    return status;
}

static vram_status vmm_protect(struct vr_device *device, vram_addr addr, uint64_t bytes,
                               bool read_only) {
    struct vr_cuda_device *cuda = device->impl;
    vram_status status = access_set(cuda, addr, bytes, read_only);
    if (status != VRAM_OK) { /* it is as before */
        vr_cuda_mapping_note(cuda, addr, bytes, true, !read_only);
    }
    return status;
}

static vram_status vmm_unmap(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_cuda_device *cuda = device->impl;
    struct vr_cuda_scope scope;
    if (vr_load(&device->lost, VR_ACQUIRE)) {
        return VRAM_OK;
    }
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = VR_CUDA(cuda, cuMemUnmap, addr, bytes);
        vr_cuda_leave(&scope);
    }
    if (status == VRAM_OK) {
        vr_cuda_mapping_remove(cuda, addr, bytes);
    }
    return status;
}

const struct vr_vmm_ops vr_cuda_vmm_ops = {
    .reserve = vmm_reserve,
    .unreserve = vmm_unreserve,
    .create = vmm_create,
    .release = vmm_release,
    .map = vmm_map,
    .access = vmm_access,
    .protect = vmm_protect,
    .unmap = vmm_unmap,
};
