/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_vmm.c: virtual memory management with mmap.
 *
 *  (1) All physical memory of the backend is one sparse file in memory. A handle is the offset of
 *      its piece. Offset 0 is never handed out, so no handle is 0.
 *  (2) An offset is never handed out twice. A stale handle therefore meets zeros, never somebody
 *      else's data; what was released is a hole in the file and costs nothing.
 *  (3) A range is reserved pages at all times: mapping replaces them in place and unmapping puts
 *      them back, so that nobody else can get addresses of the range in between.
 *
 *      range   [ reserved | mapped, no access | mapped | reserved        ]   addresses
 *                               |                 |
 *      file    [ 0 | hole | piece | hole        | piece | never used ... ]   memory
 *                                                       ^ host->next
 */
#include "backend/host/host.h"

#include "base/error.h"
#include "base/os/os.h"

/* What the file claims to be, from the start, so that no call has to resize it. Taking and giving
   back a GiB a second reaches the end in 136 years. */
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

static vram_status reserve(struct vr_device *device, uint64_t bytes, uint64_t align,
                           vram_addr *addr) {
    (void)device;
    void *pages;
    if (vr_os_pages_reserve(bytes, align, &pages) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "no room for the addresses");
    }
    *addr = (vram_addr)(uintptr_t)pages;
    return VRAM_OK;
}

static vram_status unreserve(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)device;
    if (vr_os_pages_free(vr_host_pointer(addr), bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "addresses not given back");
    }
    return VRAM_OK;
}

/* The next piece of the file; keeps (2). */
static vram_status take_offset(struct vr_host *host, uint64_t bytes, uint64_t *offset) {
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

static vram_status create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    struct vr_host *host = device->impl;
    vram_status status = vr_host_charge(host, bytes, "create");
    if (status != VRAM_OK) {
        return status;
    }
    status = take_offset(host, bytes, handle);
    if (status != VRAM_OK) {
        vr_host_discharge(host, bytes);
    }
    return status;
}

static vram_status release(struct vr_device *device, uint64_t handle, uint64_t bytes) {
    struct vr_host *host = device->impl;
    if (vr_os_file_punch(host->file, handle, bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "physical memory not given back");
    }
    vr_host_discharge(host, bytes);
    return VRAM_OK;
}

static vram_status map(struct vr_device *device, vram_addr addr, uint64_t handle, uint64_t bytes) {
    struct vr_host *host = device->impl;
    if (vr_os_file_map(host->file, handle, vr_host_pointer(addr), bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "physical memory not mapped");
    }
    return VRAM_OK;
}

static vram_status set_access(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)device;
    if (vr_os_pages_access(vr_host_pointer(addr), bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "mapped memory not made accessible");
    }
    return VRAM_OK;
}

static vram_status unmap(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)device;
    if (vr_os_pages_unmap(vr_host_pointer(addr), bytes) != VRAM_OK) { /* keeps (3) */
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "physical memory not unmapped");
    }
    return VRAM_OK;
}

const struct vr_vmm_ops vr_host_vmm = {
    .reserve = reserve,
    .unreserve = unreserve,
    .create = create,
    .release = release,
    .map = map,
    .access = set_access,
    .unmap = unmap,
};
