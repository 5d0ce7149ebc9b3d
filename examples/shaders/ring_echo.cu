/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_echo.cu: a kernel that stays on the GPU and answers every number with twice that number, until the host says
 * that it is to end. One thread is enough for that: a real one would hand the messages to its block.
 */
#include <vram/ring_device.h>

extern "C" __global__ void ring_echo(vram_ring_control *control) {
    vram_ring_peer peer;
    if (blockIdx.x != 0 || threadIdx.x != 0 || vram_ring_peer_open(control, &peer) != 0) {
        return;
    }
    for (;;) {
        uint32_t bytes;
        const uint64_t *in = (const uint64_t *)vram_ring_peer_take(&peer, &bytes);
        uint64_t *out = in ? (uint64_t *)vram_ring_peer_room(&peer) : 0;
        if (out) {
            *out = *in * 2;
            vram_ring_peer_publish(&peer, sizeof *out, 0);
            vram_ring_peer_done(&peer);
        } else if (!in && vram_ring_peer_stopping(&peer)) {
            break;
        }
    }
    vram_ring_peer_end(&peer, VRAM_RING_DONE);
}
