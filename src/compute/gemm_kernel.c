/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_kernel.c: the innermost loops of a product: a tile of C stays in registers while columns of
 * A and rows of B are read; or, for one row, four sums.
 *
 * One body in plain C with compiler vectors, compiled for several processors; the choice is made at
 * run time. The tile is as large as the registers allow: rows * vectors sums, and the row of B.
 */
#include "compute/gemm.h"

#include "base/os/machine.h"

#define BODY(name, attributes, ROWS, VECTORS, WIDTH)                                               \
    typedef float name##_vector __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));    \
    attributes static void name(uint64_t k, const float *a, const float *b, float *c,              \
                                uint64_t ldc, bool add) {                                          \
        enum { COLUMNS = (VECTORS)*WIDTH };                                                        \
        name##_vector sums[ROWS][VECTORS] = {{{0}}};                                               \
        for (uint64_t p = 0; p < k; p++, a += (ROWS), b += COLUMNS) {                              \
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

/* A row times the rows of a transposed B, four at a time: B is read once and in order. */
#define DOTS(name, attributes, WIDTH)                                                              \
    attributes static void name##_dots(uint64_t k, const float *a, const float *b, uint64_t ldb,   \
                                       uint64_t n, float *c) {                                     \
        enum { STEP = 2 * WIDTH };                                                                 \
        for (uint64_t j = 0; j < n; j += 4) {                                                      \
            uint64_t here = n - j < 4 ? n - j : 4, p = 0;                                          \
            const float *rows[4];                                                                  \
            name##_vector sums[4][2] = {{{0}}};                                                    \
            for (uint64_t r = 0; r < 4; r++) { /* past the end: the last row again */              \
                rows[r] = b + (j + (r < here ? r : here - 1)) * ldb;                               \
            }                                                                                      \
            for (; p + STEP <= k; p += STEP) {                                                     \
                const name##_vector *x = (const name##_vector *)(a + p);                           \
                _Pragma("GCC unroll 4") for (int r = 0; r < 4; r++) {                              \
                    const name##_vector *y = (const name##_vector *)(rows[r] + p);                 \
                    sums[r][0] += x[0] * y[0];                                                     \
                    sums[r][1] += x[1] * y[1];                                                     \
                }                                                                                  \
            }                                                                                      \
            for (uint64_t r = 0; r < here; r++) {                                                  \
                name##_vector both = sums[r][0] + sums[r][1];                                      \
                float sum = 0;                                                                     \
                for (int v = 0; v < WIDTH; v++) {                                                  \
                    sum += both[v];                                                                \
                }                                                                                  \
                for (uint64_t rest = p; rest < k; rest++) {                                        \
                    sum += a[rest] * rows[r][rest];                                                \
                }                                                                                  \
                c[j + r] = sum;                                                                    \
            }                                                                                      \
        }                                                                                          \
    }

#if defined(__x86_64__)
#define AVX2   __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
BODY(sse, , 4, 2, 4)
DOTS(sse, , 4)
BODY(avx2, AVX2, 6, 2, 8)
DOTS(avx2, AVX2, 8)
BODY(avx512, AVX512, 12, 2, 16)
DOTS(avx512, AVX512, 16)

static const struct vr_gemm_kernel kernels[] = {{"avx512", 12, 32, avx512, avx512_dots},
                                                {"avx2", 6, 16, avx2, avx2_dots},
                                                {"sse", 4, 8, sse, sse_dots}};

const struct vr_gemm_kernel *vr_gemm_kernel(uint32_t index) {
    uint32_t vectors = vr_machine_vectors();
    const bool runs[] = {(vectors & VR_MACHINE_AVX512) != 0, (vectors & VR_MACHINE_AVX2) != 0,
                         true};
    for (uint32_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (runs[i] && index-- == 0) {
            return &kernels[i];
        }
    }
    return NULL;
}
#else
/* 32 registers of four numbers, as aarch64 has them. */
BODY(portable, , 8, 2, 4)
DOTS(portable, , 4)

static const struct vr_gemm_kernel only = {"portable", 8, 8, portable, portable_dots};

const struct vr_gemm_kernel *vr_gemm_kernel(uint32_t index) {
    return index == 0 ? &only : NULL;
}
#endif
