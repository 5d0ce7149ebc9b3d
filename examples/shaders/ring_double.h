/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_double.h: the device's end of 21_ring, in the words that C and CUDA C share: answers every
 * number with twice that number, until the host says that it is to end.
 */
#ifndef RING_DOUBLE_H
#define RING_DOUBLE_H

#include <vram/ring_device.h>

VRAM_RING_FN void ring_double(vram_ring_control *control) {
    vram_ring_peer peer;
    if (vram_ring_peer_open(control, &peer) != 0) {
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

#endif
