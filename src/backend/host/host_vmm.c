/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_vmm.c: virtual memory management with mmap.
 *
 *  (1) All physical memory of the backend is one sparse file in memory. A handle is its offset in
 *      that file. Offset 0 is never used, so no handle is 0.
 *  (2) An offset is never used twice. A stale handle therefore finds zeros, never the data of
 *      another handle. Released memory is a hole in the file and costs nothing.
 *  (3) The addresses of a range stay reserved at all times: mapping replaces the reserved pages in
 *      place and unmapping restores them, so no other mmap can get addresses of the range.
 *
 *      range   [ reserved | mapped, no access | mapped | reserved        ]   addresses
 *                               |                 |
 *      file    [ 0 | hole | handle | hole       | handle | never used .. ]   memory
 *                                                        ^ host->next
 */
#include "backend/host/host_backend.h"

#include "base/error.h"
#include "base/os/os.h"

/* The nominal size of the file, set at the start so that no call has to resize it. Allocating one
   GiB per second reaches the end in 136 years. */
#define FILE_BYTES (UINT64_C(1) << 62)

vram_status vr_host_file_open(struct vr_host *host) {
    int file;
    vram_status status = vr_os_file_create("vram-host", &file);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_os_file_resize(file, FILE_BYTES);
    if (status != VRAM_OK) {
        vr_os_file_close(file);
        return status;
    }
    host->file = file;
    vr_store(&host->next, VR_HOST_VMM_GRANULE, VR_RELAXED); /* keeps (1) */
    return VRAM_OK;
}

void vr_host_file_close(struct vr_host *host) {
    if (host->vmm) {
        vr_os_file_close(host->file);
    }
}

static vram_status vmm_reserve(struct vr_device *device, uint64_t bytes, uint64_t align,
                               vram_addr *addr) {
    (void)device;
    void *pages;
    if (vr_os_pages_reserve(bytes, align, &pages) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "no room for the addresses");
    }
    *addr = (vram_addr)(uintptr_t)pages;
    return VRAM_OK;
}

static vram_status vmm_unreserve(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)device;
    if (vr_os_pages_free(vr_host_pointer(addr), bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "addresses not given back");
    }
    return VRAM_OK;
}

/* The next unused offset; keeps (2). */
static vram_status file_offset_take(struct vr_host *host, uint64_t bytes, uint64_t *offset) {
    uint64_t next = vr_load(&host->next, VR_RELAXED);
    do {
        if (bytes > FILE_BYTES - next) {
            return vr_error_set(VRAM_ERR_LIMIT, "host", "create", 0,
                                "the file of physical memory has no offsets left");
        }
    } while (!vr_cas_weak(&host->next, &next, next + bytes, VR_RELAXED));
    *offset = next;
    return VRAM_OK;
}

static vram_status vmm_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    struct vr_host *host = device->impl;
    vram_status status = vr_host_charge(host, bytes, "create");
    if (status != VRAM_OK) {
        return status;
    }
    status = file_offset_take(host, bytes, handle);
    if (status != VRAM_OK) {
        vr_host_uncharge(host, bytes);
    }
    return status;
}

static vram_status vmm_release(struct vr_device *device, uint64_t handle, uint64_t bytes) {
    struct vr_host *host = device->impl;
    if (handle & VR_HOST_SHARED) {
        vr_host_share_release(host, handle, bytes);
        return VRAM_OK;
    }
    if (vr_os_file_punch(host->file, handle, bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "physical memory not given back");
    }
    vr_host_uncharge(host, bytes);
    return VRAM_OK;
}

static vram_status vmm_map(struct vr_device *device, vram_addr addr, uint64_t handle,
                           uint64_t bytes) {
    struct vr_host *host = device->impl;
    uint64_t offset;
    int file = vr_host_handle_file(host, handle, &offset);
    if (vr_os_file_map(file, offset, vr_host_pointer(addr), bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "physical memory not mapped");
    }
    return VRAM_OK;
}

static vram_status vmm_access(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)device;
    if (vr_os_pages_access(vr_host_pointer(addr), bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "mapped memory not made accessible");
    }
    return VRAM_OK;
}

static vram_status vmm_protect(struct vr_device *device, vram_addr addr, uint64_t bytes,
                               bool read_only) {
    if (!read_only) {
        return vmm_access(device, addr, bytes);
    }
    if (vr_os_pages_read_only(vr_host_pointer(addr), bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "mapped memory not made read-only");
    }
    return VRAM_OK;
}

static vram_status vmm_unmap(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)device;
    if (vr_os_pages_unmap(vr_host_pointer(addr), bytes) != VRAM_OK) { /* keeps (3) */
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "physical memory not unmapped");
    }
    return VRAM_OK;
}

const struct vr_vmm_ops vr_host_vmm_ops = {
    .reserve = vmm_reserve,
    .unreserve = vmm_unreserve,
    .create = vmm_create,
    .release = vmm_release,
    .map = vmm_map,
    .access = vmm_access,
    .protect = vmm_protect,
    .unmap = vmm_unmap,
};
