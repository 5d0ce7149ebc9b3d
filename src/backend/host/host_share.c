/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_share.c: memory that other processes import.
 *
 *  (1) Each handle has a file in memory of its own: a descriptor gives access to a whole file, and
 *      must not give access to other memory of the process.
 *  (2) The file is sealed at its size. An importer can therefore never be killed by a bus error
 *      because another process has cut the file, and refuses a file that is not sealed.
 *  (3) The system frees the memory when the last descriptor and mapping of all processes have gone,
 *      however a process ends.
 *  (4) An importer counts no memory: the process that created it does.
 *
 *      handle   [ VR_HOST_SHARED | IMPORTED | 0 ... | descriptor of the file ]
 *                      63             62               30 .. 0
 */
#include "backend/host/host_backend.h"

#include "base/os/os.h"

#define IMPORTED (UINT64_C(1) << 62) /* in a handle; see (4) */

static vram_status share_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    struct vr_host *host = device->impl;
    int file;
    vram_status status = vr_host_charge(host, bytes, "create");
    if (status != VRAM_OK) {
        return status;
    }
    if (vr_os_shared_create("vram-shared", bytes, &file) != VRAM_OK) { /* keeps (2) */
        status = vr_host_error(VRAM_ERR_HOST_MEMORY, "no file for shared memory");
        vr_host_uncharge(host, bytes);
        return status;
    }
    *handle = VR_HOST_SHARED | (uint64_t)file;
    return VRAM_OK;
}

static vram_status share_export(struct vr_device *device, uint64_t handle, uint64_t bytes,
                                bool read_only, int *descriptor) {
    uint64_t offset;
    (void)bytes;
    if (vr_os_shared_reopen(vr_host_handle_file(device->impl, handle, &offset), read_only,
                            descriptor) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "no descriptor for shared memory");
    }
    return VRAM_OK;
}

static vram_status share_import(struct vr_device *device, int descriptor, uint64_t bytes,
                                uint64_t *handle) {
    int file;
    (void)device;
    if (vr_os_shared_check(descriptor, bytes) != VRAM_OK ||
        vr_os_shared_duplicate(descriptor, &file) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "shared memory not imported");
    }
    *handle = VR_HOST_SHARED | IMPORTED | (uint64_t)file;
    return VRAM_OK;
}

void vr_host_share_release(struct vr_host *host, uint64_t handle, uint64_t bytes) {
    uint64_t offset;
    vr_os_file_close(vr_host_handle_file(host, handle, &offset));
    if (!(handle & IMPORTED)) { /* keeps (4) */
        vr_host_uncharge(host, bytes);
    }
}

const struct vr_share_ops vr_host_share_ops = {
    .create = share_create,
    .export_handle = share_export,
    .import_handle = share_import,
};
