/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/ring_opencl.h: the device's end of a ring in OpenCL C, as text to put before the text of a
 * kernel.
 *
 *   static const char text[] = VRAM_RING_OPENCL_C
 *       "__kernel void echo(__global ulong *control) {\n"
 *       "    vram_ring_peer peer;\n"
 *       "    if (get_global_id(0) != 0 || vram_ring_peer_open(control, &peer)) return;\n"
 *       ...
 *
 * The functions are those of vram/ring_device.h, which explains them, for one producer only. Of the
 * telemetry there is only the number of messages. vram_ring_peer_open needs the address of the
 * control block, so pass vram_ring_info.control as an address (vram_launch.address_mask). A kernel
 * can keep running only on devices with fine-grained shared memory and atomics
 * (vram_ring_info.live). On others it must end with 2, VRAM_RING_RELAUNCHABLE.
 *
 * The text is longer than the 4095 bytes that C guarantees. Every compiler that builds libvram
 * accepts it, but -Woverlength-strings, which -Wpedantic turns on, warns.
 */
#ifndef VRAM_RING_OPENCL_H
#define VRAM_RING_OPENCL_H

/* clang-format off */
#define VRAM_RING_OPENCL_C \
    "#if __OPENCL_C_VERSION__ >= 300\n" \
    "#ifdef __opencl_c_atomic_scope_all_devices\n" \
    "#define VRAM_RING_SCOPE memory_scope_all_devices\n" \
    "#else\n" \
    "#define VRAM_RING_SCOPE memory_scope_device\n" \
    "#endif\n" \
    "#elif __OPENCL_C_VERSION__ >= 200\n" \
    "#define VRAM_RING_SCOPE memory_scope_all_svm_devices\n" \
    "#endif\n" \
    "#ifdef VRAM_RING_SCOPE\n" \
    "#define VRAM_RING_FENCE() atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, VRAM_RING_SCOPE)\n" \
    "#else\n" \
    "#define VRAM_RING_FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)\n" \
    "#endif\n" \
    "typedef struct {\n" \
    "    volatile __global ulong *words;\n" \
    "    ulong in_capacity, in_bytes, out_capacity, out_bytes, flags;\n" \
    "    ulong tail, head_seen, head, tail_seen, processed, errors, error;\n" \
    "} vram_ring_peer;\n" \
    "ulong vram_ring_stride(ulong bytes) { return (bytes + 95) / 64 * 64; }\n" \
    "ulong vram_ring_load(volatile __global ulong *word) {\n" \
    "    ulong value = *word;\n" \
    "    VRAM_RING_FENCE();\n" \
    "    return value;\n" \
    "}\n" \
    "void vram_ring_store(volatile __global ulong *word, ulong value) {\n" \
    "    VRAM_RING_FENCE();\n" \
    "    *word = value;\n" \
    "}\n" \
    "uint vram_ring_crc(volatile __global uchar *data, uint bytes) {\n" \
    "    uint crc = ~0u;\n" \
    "    for (uint i = 0; i < bytes; i++) {\n" \
    "        crc ^= data[i];\n" \
    "        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);\n" \
    "    }\n" \
    "    return ~crc;\n" \
    "}\n" \
    "int vram_ring_peer_open(__global void *control, vram_ring_peer *peer) {\n" \
    "    volatile __global ulong *w = (volatile __global ulong *)control;\n" \
    "    ulong sum = 0xcbf29ce484222325UL;\n" \
    "    for (int i = 4; i < 13; i++) {\n" \
    "        ulong x = i < 12 ? w[i] : w[14];\n" \
    "        x = i == 7 || i == 11 ? x << 32 | x >> 32 : x;\n" \
    "        sum = (sum ^ x) * 0x100000001b3UL;\n" \
    "        sum ^= sum >> 29;\n" \
    "    }\n" \
    "    if (w[12] != 0x31474e4952565244UL || w[13] != sum) {\n" \
    "        vram_ring_store(w + 1, 1UL << 32 | 1);\n" \
    "        return 1;\n" \
    "    }\n" \
    "    peer->words = w;\n" \
    "    peer->in_capacity = w[7] & 0xffffffff;\n" \
    "    peer->in_bytes = w[7] >> 32;\n" \
    "    peer->out_capacity = w[11] & 0xffffffff;\n" \
    "    peer->out_bytes = w[11] >> 32;\n" \
    "    peer->flags = w[14];\n" \
    "    peer->tail = peer->head_seen = w[48];\n" \
    "    peer->head = w[64];\n" \
    "    peer->tail_seen = w[80];\n" \
    "    peer->processed = w[2];\n" \
    "    peer->errors = w[1] >> 32;\n" \
    "    peer->error = 0;\n" \
    "    vram_ring_store(w + 1, peer->errors << 32);\n" \
    "    return 0;\n" \
    "}\n" \
    "volatile __global uchar *vram_ring_slot(vram_ring_peer *peer, int out, ulong n) {\n" \
    "    volatile __global uchar *slots = (volatile __global uchar *)peer->words + 768;\n" \
    "    ulong capacity = out ? peer->out_capacity : peer->in_capacity;\n" \
    "    slots += out ? peer->in_capacity * vram_ring_stride(peer->in_bytes) : 0;\n" \
    "    return slots + (n & (capacity - 1)) * vram_ring_stride(out ? peer->out_bytes : peer->in_bytes);\n" \
    "}\n" \
    "volatile __global void *vram_ring_peer_take(vram_ring_peer *peer, uint *bytes) {\n" \
    "    if (!peer->in_capacity) return 0;\n" \
    "    if (peer->head_seen == peer->tail) peer->head_seen = vram_ring_load(peer->words + 32);\n" \
    "    if (peer->head_seen == peer->tail) return 0;\n" \
    "    volatile __global uchar *slot = vram_ring_slot(peer, 0, peer->tail);\n" \
    "    volatile __global uint *header = (volatile __global uint *)slot;\n" \
    "    if (peer->head_seen - peer->tail > peer->in_capacity) peer->error = 2;\n" \
    "    else if (*(volatile __global ulong *)slot != peer->tail + 1) peer->error = 3;\n" \
    "    else if (header[4] > peer->in_bytes) peer->error = 4;\n" \
    "    else if (peer->flags & 2 && vram_ring_crc(slot + 32, header[4]) != header[5]) peer->error = 5;\n" \
    "    else {\n" \
    "        *bytes = header[4];\n" \
    "        return slot + 32;\n" \
    "    }\n" \
    "    peer->errors++;\n" \
    "    if (peer->error == 5) vram_ring_store(peer->words + 48, ++peer->tail);\n" \
    "    return 0;\n" \
    "}\n" \
    "void vram_ring_peer_done(vram_ring_peer *peer) {\n" \
    "    peer->processed++;\n" \
    "    vram_ring_store(peer->words + 48, ++peer->tail);\n" \
    "}\n" \
    "volatile __global void *vram_ring_peer_room(vram_ring_peer *peer) {\n" \
    "    if (peer->head - peer->tail_seen >= peer->out_capacity) peer->tail_seen = vram_ring_load(peer->words + 80);\n" \
    "    return peer->head - peer->tail_seen >= peer->out_capacity ? 0 : vram_ring_slot(peer, 1, peer->head) + 32;\n" \
    "}\n" \
    "void vram_ring_peer_publish(vram_ring_peer *peer, uint bytes, uint kind) {\n" \
    "    volatile __global uchar *slot = vram_ring_slot(peer, 1, peer->head);\n" \
    "    volatile __global uint *header = (volatile __global uint *)slot;\n" \
    "    header[2] = header[3] = 0;\n" \
    "    header[4] = bytes;\n" \
    "    header[5] = peer->flags & 2 ? vram_ring_crc(slot + 32, bytes) : 0;\n" \
    "    header[6] = kind;\n" \
    "    *(volatile __global ulong *)slot = peer->head + 1;\n" \
    "    vram_ring_store(peer->words + 64, ++peer->head);\n" \
    "}\n" \
    "int vram_ring_peer_stopping(vram_ring_peer *peer) {\n" \
    "    if (!(vram_ring_load(peer->words) >> 32)) return 0;\n" \
    "    return !peer->in_capacity || peer->error || vram_ring_load(peer->words + 32) == peer->tail;\n" \
    "}\n" \
    "void vram_ring_peer_end(vram_ring_peer *peer, uint how) {\n" \
    "    peer->words[2] = peer->processed;\n" \
    "    peer->words[16] = peer->processed;\n" \
    "    peer->words[23] = peer->error;\n" \
    "    vram_ring_store(peer->words + 1, peer->errors << 32 | how);\n" \
    "}\n"
/* clang-format on */

#endif
