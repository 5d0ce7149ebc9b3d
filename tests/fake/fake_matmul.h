/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_matmul.h: the kernel of src/compute for drivers that know kernels by name, as matmul.cu and
 * matmul_opencl.h have it. Arguments: a, b, c, then the eleven numbers of enum fake_matmul_number.
 */
#ifndef FAKE_MATMUL_H
#define FAKE_MATMUL_H

#include "compute/half.h"

#include <stdint.h>
#include <string.h>

enum fake_matmul_number {
    MATMUL_M,
    MATMUL_N,
    MATMUL_K,
    MATMUL_LDA,
    MATMUL_LDB,
    MATMUL_LDC,
    MATMUL_A_FIRST, /* elements before the matrix */
    MATMUL_B_FIRST,
    MATMUL_C_FIRST,
    MATMUL_FLAGS,     /* 1: A is transposed, 2: B is */
    MATMUL_PRECISION, /* 1 single, 2 half, 3 bfloat16, 4 of 8 bits; 5 with integers as results */
    MATMUL_NUMBERS
};

enum { MATMUL_TILE = 64 }; /* rows, and columns, that a group computes */

static inline float fake_matmul_element(const void *matrix, uint64_t precision, uint64_t at) {
    float single;
    uint16_t bits;
    if (precision == 1) {
        memcpy(&single, (const char *)matrix + at * sizeof single, sizeof single);
        return single;
    }
    if (precision >= 4) {
        return (float)((const int8_t *)matrix)[at];
    }
    memcpy(&bits, (const char *)matrix + at * sizeof bits, sizeof bits);
    return precision == 2 ? vr_half_float(bits) : vr_bfloat_float(bits);
}

/* What so many groups compute: results that none of them covers stay as they are. */
static inline void fake_matmul_run(const void *a, const void *b, float *c,
                                   const uint64_t numbers[MATMUL_NUMBERS], uint64_t groups_x,
                                   uint64_t groups_y) {
    uint64_t k = numbers[MATMUL_K], precision = numbers[MATMUL_PRECISION];
    uint64_t a_row = numbers[MATMUL_LDA], a_step = 1, b_row = numbers[MATMUL_LDB], b_column = 1;
    if (numbers[MATMUL_FLAGS] & 1) {
        a_step = a_row;
        a_row = 1;
    }
    if (numbers[MATMUL_FLAGS] & 2) {
        b_column = b_row;
        b_row = 1;
    }
    for (uint64_t i = 0; i < numbers[MATMUL_M] && i < groups_y * MATMUL_TILE; i++) {
        for (uint64_t j = 0; j < numbers[MATMUL_N] && j < groups_x * MATMUL_TILE; j++) {
            float sum = 0;
            for (uint64_t p = 0; p < k; p++) {
                uint64_t at = numbers[MATMUL_A_FIRST] + i * a_row + p * a_step;
                uint64_t with = numbers[MATMUL_B_FIRST] + p * b_row + j * b_column;
                sum +=
                    fake_matmul_element(a, precision, at) * fake_matmul_element(b, precision, with);
            }
            int32_t whole = (int32_t)sum;
            memcpy(&c[numbers[MATMUL_C_FIRST] + i * numbers[MATMUL_LDC] + j],
                   precision == 5 ? (const void *)&whole : (const void *)&sum, sizeof sum);
        }
    }
}

#endif
