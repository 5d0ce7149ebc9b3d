/* SPDX-License-Identifier: Apache-2.0 */
/* half.h: conversion of half precision and bfloat16 to single precision and back, as plain
   arithmetic. */
#ifndef VR_HALF_H
#define VR_HALF_H

#include <stdint.h>
#include <string.h>

static inline float vr_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t vr_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Exact. A multiplication moves the exponent of normal numbers, a subtraction that of denormals. */
static inline float vr_half_float(uint16_t half) {
    uint32_t word = (uint32_t)half << 16, twice = word + word;
    float normal = vr_bits_float((twice >> 4) + (UINT32_C(0xE0) << 23)) * 0x1.0p-112f;
    float denormal = vr_bits_float((twice >> 17) | (UINT32_C(126) << 23)) - 0.5f;
    uint32_t bits = twice < (UINT32_C(1) << 27) ? vr_float_bits(denormal) : vr_float_bits(normal);
    return vr_bits_float((word & UINT32_C(0x80000000)) | bits);
}

/* To the nearest, ties to even; too large numbers become infinite, a NaN stays a NaN. */
static inline uint16_t vr_float_half(float value) {
    uint32_t word = vr_float_bits(value), twice = word + word;
    uint32_t bias = twice & UINT32_C(0xFF000000);
    float base = (vr_bits_float(word & UINT32_C(0x7FFFFFFF)) * 0x1.0p+112f) * 0x1.0p-110f;
    bias = bias < UINT32_C(0x71000000) ? UINT32_C(0x71000000) : bias;
    uint32_t bits = vr_float_bits(vr_bits_float((bias >> 1) + UINT32_C(0x07800000)) + base);
    uint32_t number = ((bits >> 13) & UINT32_C(0x7C00)) + (bits & UINT32_C(0x0FFF));
    return (uint16_t)((word >> 16 & UINT32_C(0x8000)) |
                      (twice > UINT32_C(0xFF000000) ? UINT32_C(0x7E00) : number));
}

static inline float vr_bfloat_float(uint16_t bfloat) {
    return vr_bits_float((uint32_t)bfloat << 16);
}

/* To the nearest, ties to even. */
static inline uint16_t vr_float_bfloat(float value) {
    uint32_t word = vr_float_bits(value);
    if ((word & UINT32_C(0x7FFFFFFF)) > UINT32_C(0x7F800000)) {
        return (uint16_t)(word >> 16 | 0x40);
    }
    return (uint16_t)((word + UINT32_C(0x7FFF) + (word >> 16 & 1)) >> 16);
}

#endif
