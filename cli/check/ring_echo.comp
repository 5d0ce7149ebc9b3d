/* SPDX-License-Identifier: Apache-2.0 */
/* ring_echo.comp: the other end of a ring, for the conformance suite: gives back what is there, and ends. */
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_GOOGLE_include_directive : require

#include "vram/ring_device.glsl"

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(push_constant, std430) uniform Arguments {
    VramRing ring;
};

void main() {
    VramRingPeer peer;
    uint from, to, bytes;
    if (gl_GlobalInvocationID.x != 0 || !vram_ring_peer_open(ring, peer)) {
        return;
    }
    while (vram_ring_peer_take(peer, from, bytes) && vram_ring_peer_room(peer, to)) {
        for (uint i = 0; i < bytes / 4; i++) {
            ring.word[to + i] = ring.word[from + i];
        }
        vram_ring_peer_publish(peer, bytes, 9);
        vram_ring_peer_done(peer);
    }
    vram_ring_peer_end(peer, 2);
}
