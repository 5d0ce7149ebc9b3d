/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_opencl.h: C = A * B in OpenCL C, which the device's driver compiles. A group of 16 x 16
 * items computes 64 x 64 results, 4 x 4 each, from tiles of 16 steps in local memory.
 */
#ifndef VR_MATMUL_OPENCL_H
#define VR_MATMUL_OPENCL_H

/* Precisions as in vram/buffer.h: 1 single, 2 half, 3 bfloat16. flags: 1 A is transposed, 2 B
   is. */
static const char matmul_opencl[] =
    "#define TILE 64\n"
    "#define STEPS 16\n"
    "float element(__global const void *matrix, uint precision, ulong at) {\n"
    "    if (precision == 1) return ((__global const float *)matrix)[at];\n"
    "    if (precision == 2) return vload_half(at, (__global const half *)matrix);\n"
    "    return as_float((uint)((__global const ushort *)matrix)[at] << 16);\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(16, 16, 1)))\n"
    "void vram_matmul(__global const void *a, __global const void *b, __global float *c, uint m,\n"
    "                 uint n, uint k, uint lda, uint ldb, uint ldc, uint a_first, uint b_first,\n"
    "                 uint c_first, uint flags, uint precision) {\n"
    "    __local float tile_a[STEPS][TILE + 1], tile_b[STEPS][TILE + 1];\n"
    "    uint row = get_group_id(1) * TILE, column = get_group_id(0) * TILE;\n"
    "    uint x = get_local_id(0), y = get_local_id(1);\n"
    "    float sums[4][4];\n"
    "    for (uint i = 0; i < 4; i++) for (uint j = 0; j < 4; j++) sums[i][j] = 0;\n"
    "    for (uint step = 0; step < k; step += STEPS) {\n"
    "        for (uint i = y * 16 + x; i < TILE * STEPS; i += 256) {\n"
    "            uint turned = flags & 1;\n"
    "            uint p = turned ? i / TILE : i % STEPS, line = turned ? i % TILE : i / STEPS;\n"
    "            ulong at = turned ? (ulong)(step + p) * lda + row + line\n"
    "                              : (ulong)(row + line) * lda + step + p;\n"
    "            tile_a[p][line] =\n"
    "                row + line < m && step + p < k ? element(a, precision, a_first + at) : 0;\n"
    "            turned = flags & 2;\n"
    "            p = turned ? i % STEPS : i / TILE;\n"
    "            line = turned ? i / STEPS : i % TILE;\n"
    "            at = turned ? (ulong)(column + line) * ldb + step + p\n"
    "                        : (ulong)(step + p) * ldb + column + line;\n"
    "            tile_b[p][line] =\n"
    "                column + line < n && step + p < k ? element(b, precision, b_first + at) : 0;\n"
    "        }\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        for (uint p = 0; p < STEPS; p++)\n"
    "            for (uint i = 0; i < 4; i++)\n"
    "                for (uint j = 0; j < 4; j++)\n"
    "                    sums[i][j] += tile_a[p][y + 16 * i] * tile_b[p][x + 16 * j];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    for (uint i = 0; i < 4; i++)\n"
    "        for (uint j = 0; j < 4; j++) {\n"
    "            uint r = row + y + 16 * i, s = column + x + 16 * j;\n"
    "            if (r < m && s < n) c[c_first + (ulong)r * ldc + s] = sums[i][j];\n"
    "        }\n"
    "}\n";

#endif
