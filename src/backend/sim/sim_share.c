/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_share.c: memory that other processes import. Its contents lie in a sealed file in memory of
 * its own, as in host_share.c, whether addresses are real or synthetic. An importer's device does
 * not count the memory, as a GPU that both processes share would not.
 */
#include "backend/sim/sim_backend.h"

#include "base/os/os.h"

static bool bytes_check(struct vr_sim_call *call, uint64_t bytes) {
    if (bytes == 0 || bytes % call->sim->config.granule) {
        return vr_sim_violation(call, "%llu bytes are no multiple of the granule",
                                (unsigned long long)bytes);
    }
    return true;
}

static vram_status share_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    struct vr_sim_call call;
    int file;
    if (!vr_sim_begin(&call, device, VRAM_SIM_CREATE, 0, bytes)) {
        return vr_sim_end(&call);
    }
    if (call.lie) {
        *handle = call.lie_addr;
    } else if (bytes_check(&call, bytes) &&
               vr_sim_system(&call, vr_os_shared_create("vram-sim-shared", bytes, &file))) {
        struct vr_sim_block *block = vr_sim_block_make(&call, VR_SIM_KIND_PHYSICAL, bytes, 0);
        if (block) {
            vr_sim_block_share(block, file);
            *handle = call.addr = block->handle;
        } else {
            vr_os_file_close(file);
        }
    }
    return vr_sim_end(&call);
}

static vram_status share_export(struct vr_device *device, uint64_t handle, uint64_t bytes,
                                bool read_only, int *descriptor) {
    struct vr_sim_call call;
    if (!vr_sim_begin(&call, device, VRAM_SIM_EXPORT, handle, bytes)) {
        return vr_sim_end(&call);
    }
    struct vr_sim_block *block = vr_sim_handle_find(call.sim, VR_SIM_KIND_PHYSICAL, handle);
    if (!block || !block->shared) {
        vr_sim_violation(&call, "0x%llx is no handle that can be exported",
                         (unsigned long long)handle);
    } else if (vr_sim_check_block(&call, block, bytes)) {
        vr_sim_system(&call, vr_os_shared_reopen(block->file, read_only, descriptor));
    }
    return vr_sim_end(&call);
}

static vram_status share_import(struct vr_device *device, int descriptor, uint64_t bytes,
                                uint64_t *handle) {
    struct vr_sim_call call;
    int file;
    if (!vr_sim_begin(&call, device, VRAM_SIM_IMPORT, 0, bytes)) {
        return vr_sim_end(&call);
    }
    if (vr_os_shared_check(descriptor, bytes) != VRAM_OK) {
        vr_sim_refuse(&call, VRAM_SIM_INVALID_VALUE, "the descriptor is not shared memory");
    } else if (bytes_check(&call, bytes) &&
               vr_sim_system(&call, vr_os_shared_duplicate(descriptor, &file))) {
        struct vr_sim_block *block = vr_sim_block_import(&call, bytes, file);
        if (block) {
            *handle = call.addr = block->handle;
        } else {
            vr_os_file_close(file);
        }
    }
    return vr_sim_end(&call);
}

const struct vr_share_ops vr_sim_share_ops = {
    .create = share_create,
    .export_handle = share_export,
    .import_handle = share_import,
    .export_is_slow = true,
};
