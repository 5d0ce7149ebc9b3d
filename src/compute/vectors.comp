/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectors.comp: vectors turned into what products take, and measured, for Vulkan: vram_vectors of shortlist.cu.
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
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Words {
    uint at[];
};

/* The arguments of vram_queue_launch, in their order. flags: 1 lengths are 1 / length, else squared. */
layout(push_constant, std430) uniform Arguments {
    Floats from;
    Words to;
    Floats lengths;
    Words found;
    uint rows, dim, stride, precision_of, flags;
};

const uint HALF = 2, INT8 = 4; /* of vram/buffer.h */
shared float sums[256];
shared float mosts[256];

bool finite(float value) {
    return (floatBitsToUint(value) & 0x7F800000u) != 0x7F800000u;
}

/* To the nearest half, ties to even. What packHalf2x16 does with ties is its own affair. */
uint half_of(float value) {
    uint word = floatBitsToUint(value), magnitude = word & 0x7FFFFFFFu, number;
    if (magnitude >= 0x47800000u) { /* 65536 and more, what is not finite too */
        number = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;
    } else if (magnitude >= 0x38800000u) { /* normal as a half; rounding may carry into the exponent */
        number = (magnitude - 0x38000000u + 0x0FFFu + (magnitude >> 13 & 1u)) >> 13;
    } else if (magnitude >= 0x33000000u) { /* denormal: shifted, and rounded by what falls off */
        uint drop = 126u - (magnitude >> 23), whole = (magnitude & 0x007FFFFFu) | 0x00800000u;
        uint rest = whole & ((1u << drop) - 1u), middle = 1u << (drop - 1u);
        number = whole >> drop;
        number += rest > middle || (rest == middle && (number & 1u) != 0) ? 1u : 0u;
    } else {
        number = 0;
    }
    return (word >> 16 & 0x8000u) | number;
}

/* A number as it is computed with; what is not finite then is told, and is 0. */
float taken(float value, inout bool odd) {
    if (finite(value) && precision_of == HALF) {
        uint bits = half_of(value);
        value = (bits & 0x7C00u) == 0x7C00u ? uintBitsToFloat(0x7F800000u) : half_float(bits);
    } else if (finite(value) && precision_of == INT8) {
        value = clamp(value * 127.0, -128.0, 127.0);
        value = trunc(value < 0 ? value - 0.5 : value + 0.5);
    }
    bool good = finite(value);
    odd = odd || !good;
    return good ? value : 0;
}

void main() {
    uint thread = gl_LocalInvocationID.x, lane = thread % 32;
    uint row = gl_WorkGroupID.x * 8 + thread / 32;
    bool odd = false;
    float sum = 0, most = 0;
    for (uint at = 2 * lane; row < rows && at < stride; at += 64) {
        uint first = row * dim + at;
        bool bad = false;
        float a = 0, b = 0;
        if (at < dim) {
            a = taken(from.at[first], bad);
        }
        if (at + 1 < dim) {
            b = taken(from.at[first + 1], bad);
        }
        sum += a * a + b * b;
        most = max(most, max(abs(a), abs(b)));
        odd = odd || bad;
        if (precision_of == HALF || precision_of == INT8) {
            to.at[(row * stride + at) / 2] = half_of(a) | half_of(b) << 16;
        } else if (bad) {
            from.at[first] = a;
            if (at + 1 < dim) {
                from.at[first + 1] = b;
            }
        }
    }
    sums[thread] = sum;
    mosts[thread] = most;
    for (uint step = 16; step > 0; step /= 2) {
        barrier();
        if (lane < step) {
            sums[thread] += sums[thread + step];
            mosts[thread] = max(mosts[thread], mosts[thread + step]);
        }
    }
    if (odd) {
        found.at[0] = 1;
    }
    if (lane == 0 && row < rows) {
        sum = sums[thread];
        if (!(sum < 1e36) || (mosts[thread] > 0 && sum < 1e-30)) {
            found.at[1] = 1;
        }
        lengths.at[row] = (flags & 1) == 0 ? sum : sum > 0 ? 1.0 / sqrt(sum) : 0.0;
    }
}
