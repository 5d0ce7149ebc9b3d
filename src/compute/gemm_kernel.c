/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_kernel.c: the innermost loops of a product: a tile of C stays in registers while a column of A and a row
 * of B go by.
 *
 * One body in plain C with vectors of the compiler's, compiled for several processors; which one runs is found
 * out at run time. The tile's size is what fits the registers: rows * vectors sums, and the row of B.
 */
#include "compute/gemm.h"

#define BODY(name, attributes, ROWS, VECTORS, WIDTH)                                               \
    typedef float name##_vector __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));    \
    attributes static void name(uint64_t k, const float *a, const float *b, float *c,              \
                                uint64_t ldc, bool add) {                                          \
        name##_vector sums[ROWS][VECTORS] = {{{0}}};                                               \
        for (uint64_t p = 0; p < k; p++, a += (ROWS), b += (VECTORS)*WIDTH) {                      \
            const name##_vector *row = (const name##_vector *)b;                                   \
            _Pragma("GCC unroll 16") for (int i = 0; i < (ROWS); i++) {                            \
                _Pragma("GCC unroll 4") for (int v = 0; v < (VECTORS); v++) {                      \
                    sums[i][v] += a[i] * row[v];                                                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (int i = 0; i < (ROWS); i++) {                                \
            name##_vector *to = (name##_vector *)(c + (uint64_t)i * ldc);                          \
            _Pragma("GCC unroll 4") for (int v = 0; v < (VECTORS); v++) {                          \
                if (add) {                                                                         \
                    sums[i][v] += to[v];                                                           \
                }                                                                                  \
                to[v] = sums[i][v];                                                                \
            }                                                                                      \
        }                                                                                          \
    }

#if defined(__x86_64__)
BODY(sse, , 4, 2, 4)
BODY(avx2, __attribute__((target("avx2,fma"))), 6, 2, 8)
BODY(avx512, __attribute__((target("avx512f"))), 12, 2, 16)

static const struct vr_gemm_kernel kernels[] = {
    {"avx512", 12, 32, avx512}, {"avx2", 6, 16, avx2}, {"sse", 4, 8, sse}};

const struct vr_gemm_kernel *vr_gemm_kernel(void) {
    if (__builtin_cpu_supports("avx512f")) {
        return &kernels[0];
    }
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernels[1]
                                                                           : &kernels[2];
}
#else
/* 32 registers of four numbers, as aarch64 has them. */
BODY(portable, , 8, 2, 4)

static const struct vr_gemm_kernel only = {"portable", 8, 8, portable};

const struct vr_gemm_kernel *vr_gemm_kernel(void) {
    return &only;
}
#endif
