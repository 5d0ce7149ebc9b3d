/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm.c: a product on the CPU: by a BLAS if there is one, else by the library's own kernel on a
 * few threads. A single row always uses the own kernel: a BLAS packs all of B for it, which takes
 * longer than the product.
 *
 * Threads are started for a product that is worth it and end with it: the library keeps none. Each
 * computes its own rows, or columns, of C, so they share only what is read.
 */
#include "compute/gemm.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <limits.h>

enum { THREADS_MAX = 16, ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

#define THREAD_WORK  (UINT64_C(1) << 23)   /* multiplications that are worth a thread */
#define CONVERT_MOST (UINT64_C(512) << 20) /* bytes of operands that are converted for a BLAS */

/* ------------------------------------------------------------------- by a BLAS */

static bool fits_blas(const struct vr_gemm *gemm) {
    return gemm->m <= INT_MAX && gemm->n <= INT_MAX && gemm->k <= INT_MAX && gemm->lda <= INT_MAX &&
           gemm->ldb <= INT_MAX && gemm->ldc <= INT_MAX;
}

static void call_blas(vr_sgemm_fn *sgemm, const struct vr_gemm *gemm) {
    VR_UNCANCELLED;
    sgemm(ROW_MAJOR, gemm->trans_a ? TRANSPOSED : PLAIN, gemm->trans_b ? TRANSPOSED : PLAIN,
          (int)gemm->m, (int)gemm->n, (int)gemm->k, 1, gemm->a, (int)gemm->lda, gemm->b,
          (int)gemm->ldb, 0, gemm->c, (int)gemm->ldc);
}

/* Converts `rows` rows of `columns` elements. */
static void convert_rows(const void *from, vram_precision precision, uint64_t rows,
                         uint64_t columns, uint64_t stride, float *to) {
    for (uint64_t i = 0; i < rows; i++) {
        for (uint64_t j = 0; j < columns; j++) {
            to[i * columns + j] = vr_element(from, precision, i * stride + j);
        }
    }
}

/* Converts operands of other types to single precision; false: no memory for that. */
static bool call_converted(vr_sgemm_fn *sgemm, const struct vr_gemm *gemm) {
    uint64_t rows_a = gemm->trans_a ? gemm->k : gemm->m, rows_b = gemm->trans_b ? gemm->n : gemm->k;
    uint64_t columns_a = gemm->m * gemm->k / rows_a, columns_b = gemm->n * gemm->k / rows_b;
    uint64_t elements = gemm->m * gemm->k + gemm->k * gemm->n;
    struct vr_gemm single = *gemm;
    struct vram_error error;
    if (elements > CONVERT_MOST / sizeof(float)) {
        return false;
    }
    vr_error_save(&error);
    float *operands = vr_mem_alloc((size_t)elements, sizeof(float), "vr_gemm");
    vr_error_restore(&error);
    if (!operands) {
        return false;
    }
    convert_rows(gemm->a, gemm->precision, rows_a, columns_a, gemm->lda, operands);
    convert_rows(gemm->b, gemm->precision, rows_b, columns_b, gemm->ldb,
                 operands + gemm->m * gemm->k);
    single.a = operands;
    single.b = operands + gemm->m * gemm->k;
    single.lda = columns_a;
    single.ldb = columns_b;
    single.precision = VRAM_PRECISION_FP32;
    call_blas(sgemm, &single);
    vr_mem_free(operands);
    return true;
}

/* ------------------------------------------------------------- by the own kernel */

/* A part of the product: `count` rows or columns of C from `first` on. */
static struct vr_gemm gemm_part(const struct vr_gemm *gemm, bool rows, uint64_t first,
                                uint64_t count) {
    struct vr_gemm part = *gemm;
    uint64_t each = vram_precision_bytes(gemm->precision);
    if (rows) {
        part.m = count;
        part.a = (const char *)gemm->a + first * each * (gemm->trans_a ? 1 : gemm->lda);
        part.c = gemm->c + first * gemm->ldc;
    } else {
        part.n = count;
        part.b = (const char *)gemm->b + first * each * (gemm->trans_b ? gemm->ldb : 1);
        part.c = gemm->c + first;
    }
    return part;
}

struct helper {
    struct vr_thread thread;
    struct vr_gemm part;
};

static void run_helper(void *argument) {
    vr_gemm_block(argument);
}

static uint32_t thread_count(const struct vr_gemm *gemm, uint32_t most) {
    uint64_t worth = gemm->m * gemm->n / THREAD_WORK * gemm->k +
                     gemm->m * gemm->n % THREAD_WORK * gemm->k / THREAD_WORK;
    if (worth < 2 || most == 1) {
        return 1;
    }
    uint32_t there = most ? most : vr_os_processors();
    there = there > THREADS_MAX ? THREADS_MAX : there;
    return worth < there ? (uint32_t)worth : there;
}

static void by_threads(const struct vr_gemm *gemm, uint32_t threads) {
    struct helper helpers[THREADS_MAX];
    struct vram_error error;
    bool rows = gemm->m >= gemm->n;
    uint64_t lines = rows ? gemm->m : gemm->n, unit = rows ? 48 : 32;
    uint64_t each = (lines / threads + unit - 1) / unit * unit; /* whole tiles */
    uint64_t first = each < lines ? each : lines;
    uint32_t started = 0;
    vr_error_save(&error);
    while (first < lines && started + 1 < threads) {
        struct helper *helper = &helpers[started];
        uint64_t count = started + 2 == threads || lines - first < each ? lines - first : each;
        *helper = (struct helper){.part = gemm_part(gemm, rows, first, count)};
        if (vr_os_thread_start(&helper->thread, "vram-gemm", run_helper, &helper->part) !=
            VRAM_OK) {
            break;
        }
        started++;
        first += count;
    }
    struct vr_gemm own = gemm_part(gemm, rows, 0, each < lines ? each : lines);
    vr_gemm_block(&own);
    if (first < lines) { /* what no thread was started for */
        own = gemm_part(gemm, rows, first, lines - first);
        vr_gemm_block(&own);
    }
    for (uint32_t i = 0; i < started; i++) {
        vr_os_thread_join(&helpers[i].thread);
    }
    vr_error_restore(&error);
}

void vr_gemm_cpu(const struct vr_gemm *gemm, const struct vr_blas *blas, uint32_t threads) {
    vr_sgemm_fn *sgemm = blas->sgemm;
    bool one_row = gemm->m == 1 && gemm->precision == VRAM_PRECISION_FP32;
    if (sgemm && fits_blas(gemm) && !one_row) {
        if (gemm->precision == VRAM_PRECISION_FP32) {
            call_blas(sgemm, gemm);
            return;
        }
        if (call_converted(sgemm, gemm)) {
            return;
        }
    }
    uint32_t count = thread_count(gemm, threads);
    if (count > 1) {
        by_threads(gemm, count);
    } else {
        vr_gemm_block(gemm);
    }
}
