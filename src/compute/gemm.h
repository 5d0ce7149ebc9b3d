/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm.h: one product of matrices, C = A * B, on the CPU.
 *
 * All matrices are stored by rows. A has m x k elements, or is stored as k x m and transposed; B
 * has k x n, or is stored as n x k. C has m x n numbers of single precision.
 *
 *   gemm.c         the choice: a BLAS if there is one, else the own kernel on a few threads
 *   gemm_block.c   the own kernel: blocks of both operands, packed in the order of their use
 *   gemm_kernel.c  its innermost loops, for each kind of processor
 *   blas.c         the library with cblas_sgemm
 */
#ifndef VR_GEMM_H
#define VR_GEMM_H

#include "vram/buffer.h"

struct vr_gemm {
    uint64_t m, n, k;
    const void *a, *b; /* of `precision` */
    float *c;
    uint64_t lda, ldb, ldc;   /* elements from one row, as it is stored, to the next */
    bool trans_a, trans_b;    /* stored transposed */
    vram_precision precision; /* of A and B: FP32, FP16, BF16 or INT8; sums are single precision */
};

/* Element `at` of a matrix. */
float vr_element(const void *matrix, vram_precision precision, uint64_t at);

struct vr_blas;

/* Computes it, by the BLAS if there is one, else on the calling thread and at most `threads` - 1
   more (0: as many as there are processors, up to 16). Cannot fail: without host memory it is
   slow. */
void vr_gemm_cpu(const struct vr_gemm *gemm, const struct vr_blas *blas, uint32_t threads);

/* The same by the own kernel, on one thread. */
void vr_gemm_block(const struct vr_gemm *gemm);

/* The tile that the innermost loops compute at once: `rows` x `columns`, from k columns of A and k
   rows of B, both packed. Adds to C, or sets it. */
struct vr_gemm_kernel {
    const char *name; /* "avx512" */
    uint32_t rows, columns;
    void (*run)(uint64_t k, const float *a, const float *b, float *c, uint64_t ldc, bool add);
    /* One row: c[j] = a * row j of b, for n rows of k numbers, a distance of ldb apart; nothing is
       packed. */
    void (*dots)(uint64_t k, const float *a, const float *b, uint64_t ldb, uint64_t n, float *c);
};
enum { VR_GEMM_TILE_MAX = 16 * 32 }; /* most of rows * columns */

/* The kernels that this processor can run, the best first; NULL past the last. */
const struct vr_gemm_kernel *vr_gemm_kernel(uint32_t index);

/* vr_gemm_block by one of them. */
void vr_gemm_block_by(const struct vr_gemm *gemm, const struct vr_gemm_kernel *kernel);

/* ---------------------------------------------------------------- the BLAS */

typedef void vr_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);

struct vr_blas {
    vr_sgemm_fn *sgemm;             /* cblas_sgemm; NULL: there is none */
    char name[VRAM_ERROR_TEXT_MAX]; /* of the library; else why there is none */
};

/* Opens the library that the option blas_library names or, if that is empty, OpenBLAS or BLIS. It
   is never closed: its threads would not survive that. */
void vr_blas_open(struct vr_blas *blas);

#endif
