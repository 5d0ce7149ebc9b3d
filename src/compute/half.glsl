/* SPDX-License-Identifier: Apache-2.0 */
/*
 * half.glsl: half precision to single precision, as half.h does it. Not by unpackHalf2x16: llvmpipe
 * of Mesa 22.3 generates invalid code for it on processors without the x86 extension F16C, so on
 * every aarch64 one: results are wrong, or LLVM aborts the process.
 */

/* Exact: a multiplication moves the exponent of normal numbers, a subtraction that of denormals. */
float half_float(uint bits) {
    uint magnitude = bits & 0x7FFFu;
    float scale = uintBitsToFloat(0x07800000u); /* 2^-112 */
    float normal = uintBitsToFloat((magnitude << 13) + 0x70000000u) * scale;
    float denormal = uintBitsToFloat(magnitude | 0x3F000000u) - 0.5;
    float value = magnitude < 0x400u ? denormal : normal;
    return uintBitsToFloat(floatBitsToUint(value) | (bits & 0x8000u) << 16);
}
