/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vram/ring_device.glsl: the device's end of a ring in GLSL, for compute shaders on Vulkan.
 *
 *   #extension GL_EXT_buffer_reference : require
 *   #extension GL_GOOGLE_include_directive : require
 *   #include "vram/ring_device.glsl"
 *   layout(push_constant, std430) uniform Arguments { VramRing ring; };      vram_ring_info.control
 *   void main() {
 *       VramRingPeer peer;
 *       uint from, to, bytes;
 *       if (gl_GlobalInvocationID.x != 0 || !vram_ring_peer_open(ring, peer)) return;
 *       while (vram_ring_peer_take(peer, from, bytes) && vram_ring_peer_room(peer, to)) {
 *           ... ring.word[to + i] from ring.word[from + i] ...
 *           vram_ring_peer_publish(peer, bytes, 0);
 *           vram_ring_peer_done(peer);
 *       }
 *       vram_ring_peer_end(peer, 2);
 *   }
 *
 * Vulkan has no memory model between the host and a running shader. A shader therefore handles the
 * messages that are there, ends with 2, VRAM_RING_RELAUNCHABLE, and is launched again on the ring's
 * queue (vram/ring.h). vram/ring_layout.h has the layout and the convention; vram/ring_device.h
 * explains the functions. There is one producer, and payloads are whole words.
 */

/* The ring as words of 32 bits, counted from the control block. */
layout(buffer_reference, std430, buffer_reference_align = 128) coherent buffer VramRing {
    uint word[];
};

const uint VRAM_RING_INPUT_HEAD = 64, VRAM_RING_INPUT_TAIL = 96;
const uint VRAM_RING_OUTPUT_HEAD = 128, VRAM_RING_OUTPUT_TAIL = 160;
const uint VRAM_RING_SLOTS = 192, VRAM_RING_HEADER = 8;

struct VramRingPeer {
    VramRing ring;
    uint in_capacity, in_bytes, out_capacity, out_bytes, flags;
    uvec2 tail, head;    /* this end's counters: low and high word */
    uint waiting, room;  /* input messages, and output messages that fit, when it was opened */
    uint processed, errors, error;
};

uvec2 vram_ring_next(uvec2 count) {
    return uvec2(count.x + 1, count.x == 0xffffffffu ? count.y + 1 : count.y);
}

uint vram_ring_stride(uint bytes) {
    return (bytes + 95) / 64 * 16; /* in words */
}

uint vram_ring_crc(VramRing ring, uint at, uint bytes) {
    uint crc = 0xffffffffu;
    for (uint i = 0; i < bytes; i++) {
        crc ^= ring.word[at + i / 4] >> (i % 4 * 8) & 0xffu;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1u) != 0u ? 0xEDB88320u : 0u);
        }
    }
    return ~crc;
}

/* One round of the checksum of the constants: vram_ring_check_of in vram/ring_device.h. */
uvec2 vram_ring_check_next(uvec2 sum, uint low, uint high) {
    uint carry, product;
    sum ^= uvec2(low, high);
    umulExtended(sum.x, 0x1b3u, carry, product);
    sum = uvec2(product, sum.y * 0x1b3u + carry + (sum.x << 8));
    return sum ^ uvec2(sum.x >> 29 | sum.y << 3, sum.y >> 29);
}

uvec2 vram_ring_check_of(VramRing ring) {
    uvec2 sum = uvec2(0x84222325u, 0xcbf29ce4u);
    for (uint i = 8; i < 24; i += 2) { /* capacity (high) and message size: one word */
        bool pair = i == 14 || i == 22;
        sum = vram_ring_check_next(sum, ring.word[pair ? i + 1 : i], ring.word[pair ? i : i + 1]);
    }
    return vram_ring_check_next(sum, ring.word[28], ring.word[29]);
}

/* Tells the host that the ring cannot be used; the vram_ring_error says why. */
bool vram_ring_peer_refuse(VramRing ring, uint error) {
    ring.word[46] = error;
    memoryBarrierBuffer();
    ring.word[3] = ring.word[3] + 1;
    ring.word[2] = 1; /* VRAM_RING_DONE */
    return false;
}

/* Opens the device's end where an earlier launch left off. False: no ring, or a damaged one. */
bool vram_ring_peer_open(VramRing ring, out VramRingPeer peer) {
    peer.ring = ring;
    if (ring.word[24] != 0x52565244u || ring.word[25] != 0x31474e49u ||
        vram_ring_check_of(ring) != uvec2(ring.word[26], ring.word[27])) {
        return vram_ring_peer_refuse(ring, 1);
    }
    peer.in_capacity = ring.word[14];
    peer.in_bytes = ring.word[15];
    peer.out_capacity = ring.word[22];
    peer.out_bytes = ring.word[23];
    peer.flags = ring.word[28];
    peer.tail = uvec2(ring.word[VRAM_RING_INPUT_TAIL], ring.word[VRAM_RING_INPUT_TAIL + 1]);
    peer.head = uvec2(ring.word[VRAM_RING_OUTPUT_HEAD], ring.word[VRAM_RING_OUTPUT_HEAD + 1]);
    peer.waiting = ring.word[VRAM_RING_INPUT_HEAD] - peer.tail.x;
    peer.room = peer.out_capacity - (peer.head.x - ring.word[VRAM_RING_OUTPUT_TAIL]);
    peer.processed = ring.word[4];
    peer.errors = ring.word[3];
    peer.error = 0;
    if (peer.waiting > peer.in_capacity || peer.room > peer.out_capacity) {
        return vram_ring_peer_refuse(ring, 2);
    }
    ring.word[2] = 0;
    return true;
}

uint vram_ring_slot(VramRingPeer peer, bool outwards, uint n) {
    uint first = VRAM_RING_SLOTS +
                 (outwards ? peer.in_capacity * vram_ring_stride(peer.in_bytes) : 0u);
    return first + (n & ((outwards ? peer.out_capacity : peer.in_capacity) - 1u)) *
                       vram_ring_stride(outwards ? peer.out_bytes : peer.in_bytes);
}

void vram_ring_peer_done(inout VramRingPeer peer) {
    peer.tail = vram_ring_next(peer.tail);
    peer.waiting--;
    peer.processed++;
    memoryBarrierBuffer();
    peer.ring.word[VRAM_RING_INPUT_TAIL] = peer.tail.x;
    peer.ring.word[VRAM_RING_INPUT_TAIL + 1] = peer.tail.y;
}

/* The oldest message: its first word and its bytes. False: there is none, or something is wrong. */
bool vram_ring_peer_take(inout VramRingPeer peer, out uint at, out uint bytes) {
    at = bytes = 0;
    if (peer.waiting == 0 || peer.error != 0) {
        return false;
    }
    uint slot = vram_ring_slot(peer, false, peer.tail.x);
    uvec2 next = vram_ring_next(peer.tail);
    at = slot + VRAM_RING_HEADER;
    bytes = peer.ring.word[slot + 4];
    if (peer.ring.word[slot] != next.x || peer.ring.word[slot + 1] != next.y) {
        peer.error = 3;
    } else if (bytes > peer.in_bytes) {
        peer.error = 4;
    } else if ((peer.flags & 2u) != 0u &&
               vram_ring_crc(peer.ring, at, bytes) != peer.ring.word[slot + 5]) {
        peer.error = 5;
    }
    peer.errors += peer.error != 0 ? 1u : 0u;
    return peer.error == 0;
}

/* The first word of the next output message's payload. False: the ring is full. */
bool vram_ring_peer_room(inout VramRingPeer peer, out uint at) {
    at = vram_ring_slot(peer, true, peer.head.x) + VRAM_RING_HEADER;
    return peer.room != 0;
}

void vram_ring_peer_publish(inout VramRingPeer peer, uint bytes, uint kind) {
    uint slot = vram_ring_slot(peer, true, peer.head.x);
    peer.head = vram_ring_next(peer.head);
    peer.room--;
    peer.ring.word[slot + 2] = peer.ring.word[slot + 3] = 0;
    peer.ring.word[slot + 4] = bytes;
    peer.ring.word[slot + 5] =
        (peer.flags & 2u) != 0u ? vram_ring_crc(peer.ring, slot + VRAM_RING_HEADER, bytes) : 0u;
    peer.ring.word[slot + 6] = kind;
    peer.ring.word[slot] = peer.head.x;
    peer.ring.word[slot + 1] = peer.head.y;
    memoryBarrierBuffer();
    peer.ring.word[VRAM_RING_OUTPUT_HEAD] = peer.head.x;
    peer.ring.word[VRAM_RING_OUTPUT_HEAD + 1] = peer.head.y;
}

/* The last thing that a shader does: 1, VRAM_RING_DONE, or 2, VRAM_RING_RELAUNCHABLE. */
void vram_ring_peer_end(inout VramRingPeer peer, uint how) {
    peer.ring.word[4] = peer.processed;
    peer.ring.word[32] = peer.processed;
    peer.ring.word[46] = peer.error;
    memoryBarrierBuffer();
    peer.ring.word[3] = peer.errors;
    peer.ring.word[2] = how;
}
