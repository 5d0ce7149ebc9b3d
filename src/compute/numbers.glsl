/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.glsl: the numbers of a search as it computes with them, for vectors.comp and shortlist.comp. Uses half.glsl
 * and the arguments precision_of and scale.
 */
const uint HALF = 2, INT8 = 4; /* of vram/buffer.h */

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

/* A number as it is computed with. What is not finite then is told, and is 0; what is beyond 8 bits is counted. */
float taken(float value, inout bool odd, inout uint beyond) {
    if (finite(value) && precision_of == HALF) {
        uint bits = half_of(value);
        value = (bits & 0x7C00u) == 0x7C00u ? uintBitsToFloat(0x7F800000u) : half_float(bits);
    } else if (finite(value) && precision_of == INT8) {
        value *= scale;
        value = value < 0 ? value - 0.5 : value + 0.5;
        beyond += value >= 128.0 || value <= -129.0 ? 1u : 0u;
        value = trunc(clamp(value, -128.0, 127.0));
    }
    bool good = finite(value);
    odd = odd || !good;
    return good ? value : 0;
}
