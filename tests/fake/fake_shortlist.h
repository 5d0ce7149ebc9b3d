/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_shortlist.h: the kernels of a search for drivers that know kernels by name, as shortlist.cu
 * and shortlist_opencl.h have them. Arguments: four addresses, then the numbers of the enums here.
 */
#ifndef FAKE_SHORTLIST_H
#define FAKE_SHORTLIST_H

#include "compute/half.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum fake_vectors_number {
    VECTORS_ROWS,
    VECTORS_DIM,
    VECTORS_STRIDE,
    VECTORS_PRECISION, /* 1 single, 2 half, 4 of 8 bits */
    VECTORS_FLAGS,     /* 1: lengths are 1 / length */
    VECTORS_NUMBERS
};

enum fake_shortlist_number {
    SHORTLIST_COLUMNS,
    SHORTLIST_STRIDE,
    SHORTLIST_K,
    SHORTLIST_PLACE,
    SHORTLIST_METRIC, /* of vram/distance.h */
    SHORTLIST_FLAGS,  /* 1: the list is empty, 2: of 8 bits */
    SHORTLIST_NUMBERS
};

/* By Newton's way from half the exponent: drivers of the tests link no libm. */
static inline float fake_root(float value) {
    double of = (double)value, guess = of;
    uint64_t bits;
    if (!(of > 0)) {
        return 0;
    }
    memcpy(&bits, &of, sizeof bits);
    bits = (bits >> 1) + (UINT64_C(1023) << 51);
    memcpy(&guess, &bits, sizeof guess);
    for (int i = 0; i < 6; i++) {
        guess = (guess + of / guess) / 2;
    }
    return (float)guess;
}

static inline bool fake_finite(float value) {
    return value - value == 0;
}

static inline float fake_vectors_taken(float value, uint64_t precision) {
    if (fake_finite(value) && precision == 2) {
        return vr_half_float(vr_float_half(value));
    }
    if (fake_finite(value) && precision == 4) {
        value *= 127.0f;
        value = value > 127 ? 127 : value < -128 ? -128 : value;
        return (float)(int)(value < 0 ? value - 0.5f : value + 0.5f);
    }
    return value;
}

/* `to` is `from` for single precision. */
static inline void fake_vectors_run(float *from, void *to, float *lengths, uint32_t *found,
                                    const uint64_t *numbers, uint64_t groups) {
    uint64_t dim = numbers[VECTORS_DIM], precision = numbers[VECTORS_PRECISION];
    for (uint64_t i = 0; i < numbers[VECTORS_ROWS] && i < groups * 8; i++) {
        float sum = 0;
        bool any = false;
        for (uint64_t j = 0; j < dim; j++) {
            float value = fake_vectors_taken(from[i * dim + j], precision);
            if (!fake_finite(value)) {
                found[0] = 1;
                value = 0;
            }
            any |= value != 0;
            sum += value * value;
            if (precision == 1) {
                from[i * dim + j] = value;
            } else {
                ((uint16_t *)to)[i * numbers[VECTORS_STRIDE] + j] = vr_float_half(value);
            }
        }
        if (!(sum < 1e36f) || (any && sum < 1e-30f)) {
            found[1] = 1;
        }
        lengths[i] = !(numbers[VECTORS_FLAGS] & 1) ? sum : sum > 0 ? 1.0f / fake_root(sum) : 0;
    }
}

static inline uint32_t fake_shortlist_rank(float product, float query, float vector,
                                           uint64_t metric, float scale) {
    float value = product * scale;
    if (metric == 3) {
        value = 1.0f - product * query * vector;
    } else if (metric != 2) {
        value = (query + vector - 2.0f * product) * scale;
        value = value > 0 ? value : 0;
        value = metric == 1 ? fake_root(value) : value;
    }
    uint32_t bits = value == 0 ? 0 : vr_float_bits(value);
    bits = bits & UINT32_C(0x80000000) ? ~bits : bits | UINT32_C(0x80000000);
    return metric == 2 ? ~bits : bits;
}

/* Lists are in order, and what comes is put where it belongs. */
static inline void fake_shortlist_run(const float *products, const float *queries,
                                      const float *corpus, uint64_t *best, const uint64_t *numbers,
                                      uint64_t rows) {
    uint64_t k = numbers[SHORTLIST_K];
    float scale = numbers[SHORTLIST_FLAGS] & 2 ? 1.0f / 16129.0f : 1.0f;
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t *list = best + i * k;
        for (uint64_t j = 0; numbers[SHORTLIST_FLAGS] & 1 && j < k; j++) {
            list[j] = UINT64_MAX;
        }
        for (uint64_t j = 0; j < numbers[SHORTLIST_COLUMNS]; j++) {
            uint32_t rank =
                fake_shortlist_rank(products[i * numbers[SHORTLIST_STRIDE] + j], queries[i],
                                    corpus[j], numbers[SHORTLIST_METRIC], scale);
            uint64_t at = k, place = (uint64_t)rank << 32 | (numbers[SHORTLIST_PLACE] + j);
            while (at > 0 && place < list[at - 1]) {
                if (at < k) {
                    list[at] = list[at - 1];
                }
                list[--at] = place;
            }
        }
    }
}

#endif
