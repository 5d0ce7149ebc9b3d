/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c: devices that may read each other's memory.
 */
#include "device/objects.h"

#include "base/error.h"
#include "base/memory.h"
#include "device/ops.h"

bool vr_device_reads(struct vr_device_object *device, uint64_t peer) {
    bool found = false;
    vr_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < device->peer_count && !found; i++) {
        found = device->peers[i] == peer;
    }
    vr_mutex_unlock(&device->lock);
    return found;
}

/* Stores the peer's handle, replacing one of a closed device if there is one. */
static vram_status peer_store(struct vr_device_object *device, uint64_t peer) {
    vram_status status = VRAM_OK;
    uint32_t at = 0;
    vr_mutex_lock(&device->lock);
    while (at < device->peer_count && device->peers[at] != peer &&
           !vr_handle_was(VR_KIND_DEVICE, (void *)(uintptr_t)device->peers[at])) {
        at++;
    }
    if (at == device->peer_count) {
        uint64_t *larger =
            vr_mem_resize(device->peers, at + UINT64_C(1), sizeof *larger, vr_operation());
        status = larger ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
        device->peers = larger ? larger : device->peers;
        device->peer_count += larger ? 1 : 0;
    }
    if (status == VRAM_OK) {
        device->peers[at] = peer;
    }
    vr_mutex_unlock(&device->lock);
    return status;
}

static vram_status peer_enable(struct vr_device_object *device, struct vr_device_object *peer) {
    vram_status status = vr_check_lost(&device->base, vr_operation());
    if (status != VRAM_OK || (status = vr_check_lost(&peer->base, vr_operation())) != VRAM_OK) {
        return status;
    }
    if (device->base.backend != peer->base.backend || !device->base.peer ||
        !vr_peer_reachable(&device->base, &peer->base)) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "there is no direct path from %s device %u to %s device %u",
                       peer->base.info.backend, peer->base.index, device->base.info.backend,
                       device->base.index);
    }
    status = vr_peer_enable(&device->base, &peer->base);
    return status == VRAM_OK ? peer_store(device, peer->object.handle) : status;
}

vram_status vram_device_peer_enable(vram_device *handle, vram_device *peer_handle) {
    VR_CALL;
    void *device, *peer;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_enter(VR_KIND_DEVICE, peer_handle, &peer);
    if (status == VRAM_OK) {
        status = device == peer ? vr_fail(VRAM_ERR_INVALID, "a device cannot be its own peer")
                                : peer_enable(device, peer);
        vr_leave(peer);
    }
    vr_leave(device);
    return status;
}
