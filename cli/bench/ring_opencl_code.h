/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_opencl_code.h: the kernels of `vram bench ring` in OpenCL C, the same as those of
 * ring_kernel.h. Having no clock, echo counts the turns in which nothing came.
 */
#ifndef RING_OPENCL_CODE_H
#define RING_OPENCL_CODE_H

#include <vram/ring_opencl.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const char ring_opencl_code[] = VRAM_RING_OPENCL_C
    "ulong ring_word(ulong message, uint i) {\n"
    "    return (message + 1) * 0x9e3779b97f4a7c15UL ^ (ulong)i << 56 ^ message;\n"
    "}\n"
    "__kernel void vram_ring_sink(__global ulong *control, ulong count, ulong size) {\n"
    "    vram_ring_peer peer;\n"
    "    uint bytes;\n"
    "    if (get_global_id(0) != 0 || vram_ring_peer_open(control, &peer)) return;\n"
    "    for (;;) {\n"
    "        volatile __global ulong *in = vram_ring_peer_take(&peer, &bytes);\n"
    "        if (in) {\n"
    "            int whole = 1;\n"
    "            for (uint i = 0; i < bytes / 8; i++) whole &= in[i] == ring_word(peer.tail, i);\n"
    "            peer.errors += !whole;\n"
    "            vram_ring_peer_done(&peer);\n"
    "        } else if (!(peer.flags & 1) || vram_ring_peer_stopping(&peer)) break;\n"
    "    }\n"
    "    vram_ring_peer_end(&peer, peer.flags & 1 ? 1 : 2);\n"
    "}\n"
    "__kernel void vram_ring_source(__global ulong *control, ulong count, ulong size) {\n"
    "    vram_ring_peer peer;\n"
    "    if (get_global_id(0) != 0 || vram_ring_peer_open(control, &peer)) return;\n"
    "    while (peer.head < count) {\n"
    "        volatile __global ulong *out = vram_ring_peer_room(&peer);\n"
    "        if (out) {\n"
    "            for (uint i = 0; i < size / 8; i++) out[i] = ring_word(peer.head, i);\n"
    "            vram_ring_peer_publish(&peer, (uint)size, 0);\n"
    "        } else if (!(peer.flags & 1) || vram_ring_load(peer.words) >> 32) break;\n"
    "    }\n"
    "    vram_ring_peer_end(&peer, peer.head >= count ? 1 : 2);\n"
    "}\n"
    "__kernel void vram_ring_echo(__global ulong *control, ulong patience, ulong size) {\n"
    "    vram_ring_peer peer;\n"
    "    uint bytes;\n"
    "    if (get_global_id(0) != 0 || vram_ring_peer_open(control, &peer)) return;\n"
    "    for (ulong idle = 0; idle < patience; idle++) {\n"
    "        volatile __global ulong *in = vram_ring_peer_take(&peer, &bytes);\n"
    "        volatile __global ulong *out = in ? vram_ring_peer_room(&peer) : 0;\n"
    "        if (out) {\n"
    "            for (uint i = 0; i < bytes / 8; i++) out[i] = in[i];\n"
    "            vram_ring_peer_publish(&peer, bytes, 9);\n"
    "            vram_ring_peer_done(&peer);\n"
    "            idle = 0;\n"
    "        } else if (!(peer.flags & 1) || (!in && vram_ring_peer_stopping(&peer))) break;\n"
    "    }\n"
    "    vram_ring_peer_end(&peer, peer.flags & 1 ? 1 : 2);\n"
    "}\n";
#pragma GCC diagnostic pop

#endif
