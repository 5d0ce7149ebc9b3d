/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_segment.c: segments of shareable pools.
 *
 * A physical handle is shared whole, so it must contain nothing that the program does not want to
 * share. Each segment is therefore one handle that can be exported, mapped in a range of its own.
 * In a pool with VRAM_POOL_SHAREABLE alone a segment holds one block (space.h, `direct`). With
 * VRAM_POOL_SHARE_GROUP it holds blocks of the one group that the pool stands for.
 */
#include "core/backing/backing.h"

#include "base/error.h"
#include "base/log.h"
#include "device/ops.h"

/* Tries twice: a driver may refuse temporarily. What it finally refuses stays taken. */
static void release_handle(struct vr_device *device, uint64_t handle, uint64_t bytes) {
    if (vr_vmm_release(device, handle, bytes) != VRAM_OK &&
        vr_vmm_release(device, handle, bytes) != VRAM_OK) {
        vr_log(VRAM_LOG_ERROR, "the driver refused to release %llu bytes of shared memory",
               (unsigned long long)bytes);
    }
}

static void release_addresses(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    if (vr_vmm_unreserve(device, addr, bytes) != VRAM_OK &&
        vr_vmm_unreserve(device, addr, bytes) != VRAM_OK) {
        vr_log(VRAM_LOG_ERROR, "the driver refused to release %llu bytes of addresses",
               (unsigned long long)bytes);
    }
}

vram_status vr_shared_segment_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr,
                                    uint64_t *handle) {
    uint64_t granule = device->info.vmm_granule.value, made = 0;
    struct vram_error error;
    vram_addr base = 0;
    vram_status status = vr_vmm_reserve(device, bytes, granule, &base);
    if (status != VRAM_OK) {
        return status;
    }
    if (!base || base % granule) {
        return vr_fail(VRAM_ERR_CORRUPT,
                       "the driver reported success with the impossible address 0x%llx",
                       (unsigned long long)base);
    }
    status = vr_share_create(device, bytes, &made);
    if (status != VRAM_OK) {
        goto fail_addresses;
    }
    status = vr_vmm_map(device, base, made, bytes);
    if (status != VRAM_OK) {
        goto fail_handle;
    }
    status = vr_vmm_access(device, base, bytes);
    if (status == VRAM_OK) {
        *addr = base;
        *handle = made;
        return VRAM_OK;
    }
    vr_error_save(&error);
    if (vr_vmm_unmap(device, base, bytes) != VRAM_OK &&
        vr_vmm_unmap(device, base, bytes) != VRAM_OK) {
        vr_log(VRAM_LOG_ERROR, "the driver refused to unmap %llu bytes of shared memory",
               (unsigned long long)bytes);
        vr_error_restore(&error);
        return status; /* what is mapped cannot be released either */
    }
    vr_error_restore(&error);
fail_handle:
    vr_error_save(&error);
    release_handle(device, made, bytes);
    vr_error_restore(&error);
fail_addresses:
    vr_error_save(&error);
    release_addresses(device, base, bytes);
    vr_error_restore(&error);
    return status;
}

/* If the driver refuses to unmap, the segment stays in use. After that nothing can be undone: other
   processes that have opened the memory keep it. */
vram_status vr_shared_segment_free(struct vr_device *device, vram_addr addr, uint64_t bytes,
                                   uint64_t handle) {
    struct vram_error error;
    vram_status status = vr_vmm_unmap(device, addr, bytes);
    if (status == VRAM_OK) {
        vr_error_save(&error);
        release_handle(device, handle, bytes);
        release_addresses(device, addr, bytes);
        vr_error_restore(&error);
    }
    return status;
}
