/* SPDX-License-Identifier: Apache-2.0 */
/* size.h: arithmetic on sizes and addresses that detects overflow. */
#ifndef VR_SIZE_H
#define VR_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns true if the result fits; *out is written only then. */
static inline bool vr_add(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *out = sum;
    return true;
}

static inline bool vr_mul(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

static inline uint64_t vr_smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t vr_larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static inline bool vr_is_power_of_two(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

/* Rounds up to a multiple of `align`, any number above 0. */
static inline bool vr_round_up(uint64_t value, uint64_t align, uint64_t *out) {
    uint64_t rest = value % align;
    return vr_add(value, rest ? align - rest : 0, out);
}

/* Whether [addr, addr + bytes) lies inside [base, base + size), which does not wrap. */
static inline bool vr_inside(uint64_t addr, uint64_t bytes, uint64_t base, uint64_t size) {
    return addr >= base && addr - base <= size && bytes <= size - (addr - base);
}

/* Whether two ranges share a byte; neither wraps, but each may end at 2^64. */
static inline bool vr_overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a_bytes && b_bytes && (a <= b ? b - a < a_bytes : a - b < b_bytes);
}

/* Index of the lowest set bit of a value that is not 0, and of the highest. */
static inline unsigned vr_low_bit(uint64_t value) {
    return (unsigned)__builtin_ctzll(value);
}
static inline unsigned vr_high_bit(uint64_t value) {
    return 63u - (unsigned)__builtin_clzll(value);
}

#define VR_KIB UINT64_C(1024)
#define VR_MIB (UINT64_C(1024) * VR_KIB)
#define VR_GIB (UINT64_C(1024) * VR_MIB)

#endif
