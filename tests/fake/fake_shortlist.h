/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_shortlist.h: the kernels of a search for drivers that know kernels by name, as shortlist.cu
 * and shortlist_opencl.h have them. Arguments: addresses, then the numbers of the enums here.
 */
#ifndef FAKE_SHORTLIST_H
#define FAKE_SHORTLIST_H

#include "compute/half.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { VECTORS_ADDRESSES = 5, SHORTLIST_ADDRESSES = 7, FAKE_FOUND = 6 };

enum fake_vectors_number {
    VECTORS_ROWS,
    VECTORS_DIM,
    VECTORS_STRIDE,
    VECTORS_STORED, /* 1 single, 2 half, 4 of 8 bits */
    VECTORS_PRECISION,
    VECTORS_METRIC,
    VECTORS_FLAGS, /* 1: there is a centre, 2: they are queries */
    VECTORS_SCALE, /* the bits of a float */
    VECTORS_NUMBERS
};

enum fake_shortlist_number {
    SHORTLIST_COLUMNS,
    SHORTLIST_STRIDE,
    SHORTLIST_K,
    SHORTLIST_PLACE,
    SHORTLIST_DIM,
    SHORTLIST_METRIC, /* of vram/distance.h */
    SHORTLIST_PRECISION,
    SHORTLIST_FLAGS, /* 1: there is a centre, 2: the list is empty, 4: products are integers */
    SHORTLIST_SCALE,
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

static inline float fake_taken(float value, uint64_t precision, float scale, uint32_t *beyond) {
    if (fake_finite(value) && precision == 2) {
        return vr_half_float(vr_float_half(value));
    }
    if (fake_finite(value) && precision == 4) {
        value *= scale;
        value = value < 0 ? value - 0.5f : value + 0.5f;
        *beyond += value >= 128 || value <= -129;
        return (float)(int)(value >= 128 ? 127 : value <= -129 ? -128 : value);
    }
    return value;
}

static inline void fake_store(void *to, uint64_t stored, uint64_t at, float value) {
    if (stored == 2) {
        ((uint16_t *)to)[at] = vr_float_half(value);
    } else if (stored == 4) {
        ((int8_t *)to)[at] = (int8_t)value;
    } else {
        ((float *)to)[at] = value;
    }
}

static inline float fake_rounding(uint64_t dim) {
    return (float)(dim + 8) * 0x1.0p-22f;
}

/* `to` is `from` for single precision without a centre. */
static inline void fake_vectors_run(const float *from, void *to, float *terms, uint32_t *found,
                                    const float *centre, const uint64_t *numbers, uint64_t groups) {
    uint64_t dim = numbers[VECTORS_DIM], stride = numbers[VECTORS_STRIDE];
    uint64_t precision = numbers[VECTORS_PRECISION], metric = numbers[VECTORS_METRIC];
    bool centred = numbers[VECTORS_FLAGS] & 1, queries = numbers[VECTORS_FLAGS] & 2;
    float scale = vr_bits_float((uint32_t)numbers[VECTORS_SCALE]), error = fake_rounding(dim);
    float both = error + (precision == 2 && centred ? 0x1.0p-8f : 0);
    for (uint64_t i = 0; i < numbers[VECTORS_ROWS] && i < groups * 8; i++) {
        float raw = 0, length = 0, along = 0;
        bool any = false;
        for (uint64_t j = 0; j < stride; j++) {
            uint32_t beyond = 0;
            float value = j < dim ? fake_taken(from[i * dim + j], precision, scale, &beyond) : 0;
            found[queries ? 3 : 2] += beyond;
            if (!fake_finite(value)) {
                found[0] = 1;
                value = 0;
            }
            any |= value != 0;
            raw += value * value;
            if (centred && j < dim) {
                value -= centre[j];
                along += value * centre[j];
                length += value * value;
            }
            fake_store(to, numbers[VECTORS_STORED], i * stride + j, value);
        }
        length = centred ? length : raw;
        if (!(raw < 1e36f) || (any && raw < 1e-30f)) {
            found[1] = 1;
        }
        if (metric == 2) {
            float size = along < 0 ? -along : along;
            terms[i] = -0.5f * both * length - (centred && !queries ? along + error * size : 0);
        } else if (metric == 3) {
            terms[i] = length > 0 ? 1.0f / fake_root(length) : 0;
        } else {
            terms[i] = length - both * length;
        }
        uint32_t bits = vr_float_bits(length);
        for (int k = 4; k < FAKE_FOUND && !queries; k++, bits = ~bits) {
            found[k] = found[k] > bits ? found[k] : bits;
        }
    }
}

static inline uint32_t fake_rank(float key) {
    uint32_t bits = key == 0 ? 0 : vr_float_bits(key);
    return bits & UINT32_C(0x80000000) ? ~bits : bits | UINT32_C(0x80000000);
}

static inline float fake_bound(float product, float query, float vector, const uint64_t *numbers) {
    float value = numbers[SHORTLIST_FLAGS] & 4 ? (float)(int32_t)vr_float_bits(product) : product;
    float key = query + vector - 2.0f * value;
    return numbers[SHORTLIST_METRIC] == 3
               ? 1.0f - fake_rounding(numbers[SHORTLIST_DIM]) - value * query * vector
           : numbers[SHORTLIST_METRIC] == 2 ? query + vector - value
           : key > 0                        ? key
                                            : 0;
}

/* In double precision, rounded once. */
static inline float fake_key(const float *query, const float *vector, const float *centre,
                             const uint64_t *numbers) {
    uint64_t metric = numbers[SHORTLIST_METRIC], precision = numbers[SHORTLIST_PRECISION];
    float scale = vr_bits_float((uint32_t)numbers[SHORTLIST_SCALE]);
    double squares = 0, product = 0, both = 0, gap = 0, queries = 0, vectors = 0;
    uint32_t beyond;
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < numbers[SHORTLIST_DIM]; i++) {
            float of_q = fake_taken(query[i], precision, scale, &beyond);
            float of_c = fake_taken(vector[i], precision, scale, &beyond);
            double q = fake_finite(of_q) ? (double)of_q : 0,
                   c = fake_finite(of_c) ? (double)of_c : 0;
            if (pass == 0) {
                squares += (q - c) * (q - c);
                product += q * (numbers[SHORTLIST_FLAGS] & 1 ? c - (double)centre[i] : c);
                gap += (c - q) * (c + q);
                queries += q * q;
                vectors += c * c;
            } else {
                double x = q - c + c * gap;
                both += x * x;
            }
        }
        double length = (double)fake_root((float)vectors);
        gap = pass == 0 && vectors > 0
                  ? gap / (length * (length + (double)fake_root((float)queries)))
                  : gap;
    }
    return (float)(metric == 2                  ? -product
                   : metric != 3                ? squares
                   : queries > 0 && vectors > 0 ? both / 2 / queries
                                                : 1);
}

/* Lists are in order, and what comes is put where it belongs. */
static inline void fake_shortlist_run(void *const at[SHORTLIST_ADDRESSES], const uint64_t *numbers,
                                      uint64_t rows) {
    uint64_t k = numbers[SHORTLIST_K], dim = numbers[SHORTLIST_DIM];
    const float *products = at[0], *queries = at[1], *corpus = at[2];
    const float *query = at[4], *vectors = at[5], *centre = at[6];
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t *list = (uint64_t *)at[3] + i * k;
        for (uint64_t j = 0; numbers[SHORTLIST_FLAGS] & 2 && j < k; j++) {
            list[j] = UINT64_MAX;
        }
        for (uint64_t j = 0; j < numbers[SHORTLIST_COLUMNS]; j++) {
            float bound = fake_bound(products[i * numbers[SHORTLIST_STRIDE] + j], queries[i],
                                     corpus[j], numbers);
            if (fake_rank(bound) >= list[k - 1] >> 32) {
                continue;
            }
            float key = fake_key(query + i * dim, vectors + j * dim, centre, numbers);
            uint64_t to = k;
            uint64_t place = (uint64_t)fake_rank(key) << 32 | (numbers[SHORTLIST_PLACE] + j) << 1;
            while (to > 0 && place < list[to - 1]) {
                if (to < k) {
                    list[to] = list[to - 1];
                }
                list[--to] = place;
            }
        }
    }
}

#endif
