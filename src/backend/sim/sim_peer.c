/* SPDX-License-Identifier: Apache-2.0 */
/* sim_peer.c: every simulated device can access every other one of its machine, once enabled. */
#include "backend/sim/sim_backend.h"

static bool peer_reachable(struct vr_device *device, struct vr_device *peer) {
    return device->backend == peer->backend;
}

static uint64_t peer_bit(const struct vr_device *peer) {
    return UINT64_C(1) << peer->index;
}

static vram_status peer_enable(struct vr_device *device, struct vr_device *peer) {
    struct vr_sim_call call;
    if (vr_sim_begin(&call, device, VRAM_SIM_PEER_ENABLE, peer->index, 0)) {
        call.device->peers |= peer_bit(peer);
    }
    return vr_sim_end(&call);
}

/* The source is busy like the destination: a common mistake with peers is to free it on its own
   device while the copy is running. */
static vram_status peer_copy(struct vr_queue *queue, vram_addr to, struct vr_device *peer,
                             vram_addr from, uint64_t bytes) {
    struct vr_sim_call call;
    struct vr_sim_device *other = peer->impl;
    if (!vr_sim_begin(&call, queue->device, VRAM_SIM_PEER_COPY, to, bytes)) {
        return vr_sim_end(&call);
    }
    if (!(call.device->peers & peer_bit(peer)) && other->gpu != call.gpu) {
        vr_sim_violation(&call, "device %u was not enabled as a peer", peer->index);
    } else if (vr_sim_check_memory(&call, call.gpu, to, bytes, true) &&
               vr_sim_check_memory(&call, other->gpu, from, bytes, false)) {
        struct vr_sim_work *work = vr_sim_work_make(&call, queue);
        if (work) {
            work->to = to;
            work->from = from;
            work->bytes = bytes;
            vr_sim_work_submit(call.sim, work);
        }
    }
    return vr_sim_end(&call);
}

const struct vr_peer_ops vr_sim_peer_ops = {
    .reachable = peer_reachable,
    .enable = peer_enable,
    .copy = peer_copy,
};
