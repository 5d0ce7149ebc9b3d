/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectors.comp: vectors turned into what products take, and their terms, for Vulkan: vram_vectors of shortlist.cu.
 * 32 invocations take a vector.
 */
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_GOOGLE_include_directive : require

#include "half.glsl"

layout(local_size_x = 256, local_size_y = 1, local_size_z = 1) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
    float at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
    uint at[];
};

/* The arguments of vram_queue_launch, in their order. */
layout(push_constant, std430) uniform Arguments {
    Floats from;
    Words to;
    Floats terms;
    Words found;
    Floats centre;
    uint rows, dim, stride, stored, precision_of, metric, flags;
    float scale;
};

const uint INNER = 2, COSINE = 3; /* of vram/distance.h */
const uint CENTRED = 1, QUERIES = 2; /* flags */
shared vec4 sums[256];

#include "numbers.glsl"

/* Four numbers of a row. */
void store(uint row, uint column, vec4 values, bool changed) {
    uint at = row * stride + column;
    if (stored == HALF) {
        to.at[at / 2] = half_of(values.x) | half_of(values.y) << 16;
        to.at[at / 2 + 1] = half_of(values.z) | half_of(values.w) << 16;
    } else if (stored == INT8) {
        uvec4 bytes = uvec4(ivec4(values)) & 0xFFu;
        to.at[at / 4] = bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
    } else if (changed) {
        for (uint i = 0; i < 4 && column + i < dim; i++) {
            to.at[at + i] = floatBitsToUint(values[i]);
        }
    }
}

void main() {
    uint thread = gl_LocalInvocationID.x, lane = thread % 32, beyond = 0;
    uint row = gl_WorkGroupID.x * 8 + thread / 32;
    bool odd = false, any = false, centred = (flags & CENTRED) != 0;
    vec4 sum = vec4(0); /* squares, squares less the centre, along the centre, and the size of that */
    for (uint at = 4 * lane; row < rows && at < stride; at += 128) {
        vec4 values = vec4(0);
        bool bad = false;
        for (uint i = 0; i < 4 && at + i < dim; i++) {
            float value = taken(from.at[row * dim + at + i], bad, beyond);
            sum.x += value * value;
            any = any || value != 0;
            if (centred) {
                float middle = centre.at[at + i];
                value -= middle;
                sum.y += value * value;
                sum.z += value * middle;
                sum.w += abs(value * middle);
            }
            values[i] = value;
        }
        odd = odd || bad;
        store(row, at, values, centred || bad);
    }
    sums[thread] = sum;
    for (uint step = 16; step > 0; step /= 2) {
        barrier();
        if (lane < step) {
            sums[thread] += sums[thread + step];
        }
    }
    barrier();
    sum = sums[thread - lane];
    if (odd) {
        found.at[0] = 1;
    }
    if (any && sum.x < 1e-30) {
        found.at[1] = 1;
    }
    if (beyond > 0) {
        atomicAdd(found.at[(flags & QUERIES) != 0 ? 3 : 2], beyond);
    }
    if (lane == 0 && row < rows) {
        float length = centred ? sum.y : sum.x, error = float(dim + 8) * 2.384185791015625e-07;
        float both = error + (precision_of == HALF && centred ? 0.00390625 : 0.0);
        if (!(sum.x < 1e36)) {
            found.at[1] = 1;
        }
        if (metric == INNER) {
            bool along = centred && (flags & QUERIES) == 0;
            terms.at[row] = -0.5 * both * length - (along ? sum.z + error * sum.w : 0.0);
        } else if (metric == COSINE) {
            terms.at[row] = length > 0 ? 1.0 / sqrt(length) : 0.0;
        } else {
            terms.at[row] = length - both * length;
        }
        if ((flags & QUERIES) == 0) {
            atomicMax(found.at[4], floatBitsToUint(length));
            atomicMax(found.at[5], ~floatBitsToUint(length));
        }
    }
}
