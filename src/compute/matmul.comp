/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul.comp: C = A * B for Vulkan. A group of 16 x 16 invocations computes 64 x 64 results, 4 x 4 each, from
 * tiles of 16 steps in shared memory. Memory comes by address, as words: two elements of 16 bits share one.
 */
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_GOOGLE_include_directive : require

#include "half.glsl"

layout(local_size_x = 16, local_size_y = 16, local_size_z = 1) in;

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Words {
    uint at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Floats {
    float at[];
};

/* The arguments of vram_queue_launch, in their order. flags: 1 A is transposed, 2 B is. */
layout(push_constant, std430) uniform Arguments {
    Words a;
    Words b;
    Floats c;
    uint m, n, k, lda, ldb, ldc, a_first, b_first, c_first, flags, precision_of;
};

const uint TILE = 64, STEPS = 16;
shared float tile_a[STEPS][TILE + 1];
shared float tile_b[STEPS][TILE + 1];

/* Precisions as in vram/buffer.h: 1 single, 2 half, 3 bfloat16. */
float element(Words matrix, uint at) {
    if (precision_of == 1) {
        return uintBitsToFloat(matrix.at[at]);
    }
    uint word = matrix.at[at >> 1];
    uint bits = (at & 1) == 0 ? word & 0xFFFF : word >> 16;
    return precision_of == 3 ? uintBitsToFloat(bits << 16) : half_float(bits);
}

void main() {
    uint row = gl_WorkGroupID.y * TILE, column = gl_WorkGroupID.x * TILE;
    uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
    float sums[4][4];
    for (uint i = 0; i < 4; i++) {
        for (uint j = 0; j < 4; j++) {
            sums[i][j] = 0;
        }
    }
    for (uint step = 0; step < k; step += STEPS) {
        for (uint i = y * 16 + x; i < TILE * STEPS; i += 256) {
            bool turned = (flags & 1) != 0;
            uint p = turned ? i / TILE : i % STEPS, line = turned ? i % TILE : i / STEPS;
            uint at = turned ? (step + p) * lda + row + line : (row + line) * lda + step + p;
            tile_a[p][line] = row + line < m && step + p < k ? element(a, a_first + at) : 0;
            turned = (flags & 2) != 0;
            p = turned ? i % STEPS : i / TILE;
            line = turned ? i / STEPS : i % TILE;
            at = turned ? (column + line) * ldb + step + p : (step + p) * ldb + column + line;
            tile_b[p][line] = column + line < n && step + p < k ? element(b, b_first + at) : 0;
        }
        barrier();
        for (uint p = 0; p < STEPS; p++) {
            for (uint i = 0; i < 4; i++) {
                for (uint j = 0; j < 4; j++) {
                    sums[i][j] += tile_a[p][y + 16 * i] * tile_b[p][x + 16 * j];
                }
            }
        }
        barrier();
    }
    for (uint i = 0; i < 4; i++) {
        for (uint j = 0; j < 4; j++) {
            uint r = row + y + 16 * i, s = column + x + 16 * j;
            if (r < m && s < n) {
                c.at[c_first + r * ldc + s] = sums[i][j];
            }
        }
    }
}
