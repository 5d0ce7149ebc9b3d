/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_block.c: a product by blocks.
 *
 *        B, k x n: panels of DEPTH rows and WIDE columns, packed into strips as wide as a tile
 *        A, m x k: blocks of TALL rows and DEPTH columns, packed into strips as tall as a tile
 *
 *   for each panel of B      stays in the second-level cache
 *     for each block of A    stays there as well
 *       for each strip of B  in the first-level cache
 *         for each strip of A: one tile of C in registers (gemm_kernel.c)
 *
 * Packing turns every layout and precision into the same strips of single precision, padded with
 * zeros, so the innermost loops know neither edges nor types. Products of a few rows read B in
 * order, without packing, which would only double the reads.
 */
#include "compute/gemm.h"

#include "base/error.h"
#include "base/memory.h"
#include "compute/half.h"

enum { DEPTH = 256, WIDE = 512, TALL = 192, FEW = 2, FEW_TURNED = 4 };

float vr_element(const void *matrix, vram_precision precision, uint64_t at) {
    switch (precision) {
    case VRAM_PRECISION_FP16:
        return vr_half_float(((const uint16_t *)matrix)[at]);
    case VRAM_PRECISION_BF16:
        return vr_bfloat_float(((const uint16_t *)matrix)[at]);
    case VRAM_PRECISION_INT8:
        return (float)((const int8_t *)matrix)[at];
    default:
        return ((const float *)matrix)[at];
    }
}

/* -------------------------------------------------------------------- packing */

/* One operand as packing sees it: element (line, p), where a strip has lines side by side and the
   product sums over p. */
struct operand {
    const void *matrix;
    vram_precision precision;
    uint64_t line_stride, step_stride; /* elements */
};

static struct operand operand_a(const struct vr_gemm *gemm) {
    return (struct operand){gemm->a, gemm->precision, gemm->trans_a ? 1 : gemm->lda,
                            gemm->trans_a ? gemm->lda : 1};
}

static struct operand operand_b(const struct vr_gemm *gemm) {
    return (struct operand){gemm->b, gemm->precision, gemm->trans_b ? gemm->ldb : 1,
                            gemm->trans_b ? 1 : gemm->ldb};
}

/* A strip of single precision: `width` lines, of which `lines` exist. */
static void pack_floats(const float *from, uint64_t line_stride, uint64_t step_stride,
                        uint64_t lines, uint64_t width, uint64_t depth, float *to) {
    for (uint64_t p = 0; p < depth; p++, to += width) {
        const float *at = from + p * step_stride;
        uint64_t i = 0;
        if (line_stride == 1) {
            for (; i < lines; i++) {
                to[i] = at[i];
            }
        } else {
            for (; i < lines; i++) {
                to[i] = at[i * line_stride];
            }
        }
        for (; i < width; i++) {
            to[i] = 0;
        }
    }
}

static void pack_others(const struct operand *from, uint64_t first, uint64_t step, uint64_t lines,
                        uint64_t width, uint64_t depth, float *to) {
    for (uint64_t p = 0; p < depth; p++, to += width) {
        for (uint64_t i = 0; i < width; i++) {
            to[i] =
                i < lines
                    ? vr_element(from->matrix, from->precision,
                                 (first + i) * from->line_stride + (step + p) * from->step_stride)
                    : 0;
        }
    }
}

/* Lines [first, first + lines) and steps [step, step + depth), as strips of `width` lines. */
static void pack_strips(const struct operand *from, uint64_t first, uint64_t lines, uint64_t step,
                        uint64_t depth, uint64_t width, float *to) {
    for (uint64_t done = 0; done < lines; done += width, to += width * depth) {
        uint64_t here = lines - done < width ? lines - done : width;
        if (from->precision == VRAM_PRECISION_FP32) {
            const float *at = (const float *)from->matrix + (first + done) * from->line_stride +
                              step * from->step_stride;
            pack_floats(at, from->line_stride, from->step_stride, here, width, depth, to);
        } else {
            pack_others(from, first + done, step, here, width, depth, to);
        }
    }
}

/* -------------------------------------------------------------------- blocks */

/* Computes a tile at the edge into a buffer first: the loops always compute whole tiles. */
static void edge_tile(const struct vr_gemm_kernel *kernel, uint64_t depth, const float *a,
                      const float *b, float *c, uint64_t ldc, uint64_t rows, uint64_t columns,
                      bool add) {
    float tile[VR_GEMM_TILE_MAX];
    kernel->run(depth, a, b, tile, kernel->columns, false);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint64_t j = 0; j < columns; j++) {
            float sum = tile[i * kernel->columns + j];
            c[i * ldc + j] = add ? c[i * ldc + j] + sum : sum;
        }
    }
}

/* The packed block of A times the packed panel of B. */
static void multiply_block(const struct vr_gemm_kernel *kernel, const float *a, uint64_t rows,
                           const float *b, uint64_t columns, uint64_t depth, float *c, uint64_t ldc,
                           bool add) {
    for (uint64_t j = 0; j < columns; j += kernel->columns) {
        const float *strip_b = b + j * depth;
        uint64_t wide = columns - j < kernel->columns ? columns - j : kernel->columns;
        for (uint64_t i = 0; i < rows; i += kernel->rows) {
            const float *strip_a = a + i * depth;
            float *to = c + i * ldc + j;
            uint64_t tall = rows - i < kernel->rows ? rows - i : kernel->rows;
            if (tall == kernel->rows && wide == kernel->columns) {
                kernel->run(depth, strip_a, strip_b, to, ldc, add);
            } else {
                edge_tile(kernel, depth, strip_a, strip_b, to, ldc, tall, wide, add);
            }
        }
    }
}

static void by_blocks(const struct vr_gemm *gemm, const struct vr_gemm_kernel *kernel, float *block,
                      float *panel) {
    struct operand a = operand_a(gemm), b = operand_b(gemm);
    for (uint64_t j = 0; j < gemm->n; j += WIDE) {
        uint64_t columns = gemm->n - j < WIDE ? gemm->n - j : WIDE;
        for (uint64_t p = 0; p < gemm->k; p += DEPTH) {
            uint64_t depth = gemm->k - p < DEPTH ? gemm->k - p : DEPTH;
            pack_strips(&b, j, columns, p, depth, kernel->columns, panel);
            for (uint64_t i = 0; i < gemm->m; i += TALL) {
                uint64_t rows = gemm->m - i < TALL ? gemm->m - i : TALL;
                pack_strips(&a, i, rows, p, depth, kernel->rows, block);
                multiply_block(kernel, block, rows, panel, columns, depth,
                               gemm->c + i * gemm->ldc + j, gemm->ldc, p > 0);
            }
        }
    }
}

/* ---------------------------------------------------------- without packing */

/* Any layout and type, slowly: the last resort. */
static void multiply_plain(const struct vr_gemm *gemm) {
    struct operand a = operand_a(gemm), b = operand_b(gemm);
    for (uint64_t i = 0; i < gemm->m; i++) {
        for (uint64_t j = 0; j < gemm->n; j++) {
            float sum = 0;
            for (uint64_t p = 0; p < gemm->k; p++) {
                sum += vr_element(a.matrix, a.precision, i * a.line_stride + p * a.step_stride) *
                       vr_element(b.matrix, b.precision, j * b.line_stride + p * b.step_stride);
            }
            gemm->c[i * gemm->ldc + j] = sum;
        }
    }
}

/* One row of C, of single precision and B not transposed: a sum of B's rows. */
static void row_of_sums(const struct vr_gemm *gemm, uint64_t i, const struct operand *a) {
    float *restrict c = gemm->c + i * gemm->ldc;
    for (uint64_t j = 0; j < gemm->n; j++) {
        c[j] = 0;
    }
    for (uint64_t p = 0; p < gemm->k; p++) {
        const float *restrict b = (const float *)gemm->b + p * gemm->ldb;
        float factor = ((const float *)a->matrix)[i * a->line_stride + p * a->step_stride];
        for (uint64_t j = 0; j < gemm->n; j++) {
            c[j] += factor * b[j];
        }
    }
}

/* A few rows, with B in place. False: these operands need packing. */
static bool by_rows(const struct vr_gemm *gemm, const struct vr_gemm_kernel *kernel) {
    struct operand a = operand_a(gemm);
    if (gemm->m > (gemm->trans_b ? FEW_TURNED : FEW) || gemm->precision != VRAM_PRECISION_FP32 ||
        (gemm->trans_b && a.step_stride != 1)) {
        return false;
    }
    for (uint64_t i = 0; i < gemm->m; i++) {
        if (gemm->trans_b) {
            kernel->dots(gemm->k, (const float *)a.matrix + i * a.line_stride, gemm->b, gemm->ldb,
                         gemm->n, gemm->c + i * gemm->ldc);
        } else {
            row_of_sums(gemm, i, &a);
        }
    }
    return true;
}

void vr_gemm_block(const struct vr_gemm *gemm) {
    vr_gemm_block_by(gemm, vr_gemm_kernel(0));
}

void vr_gemm_block_by(const struct vr_gemm *gemm, const struct vr_gemm_kernel *kernel) {
    struct vram_error error;
    if (by_rows(gemm, kernel)) {
        return;
    }
    /* As much as needed: strips are padded to whole tiles. */
    uint64_t depth = gemm->k < DEPTH ? gemm->k : DEPTH;
    uint64_t rows = (gemm->m < TALL ? gemm->m : TALL) + kernel->rows;
    uint64_t columns = (gemm->n < WIDE ? gemm->n : WIDE) + kernel->columns;
    vr_error_save(&error);
    float *packed = vr_mem_alloc((size_t)(depth * (rows + columns)), sizeof(float), "vr_gemm");
    vr_error_restore(&error);
    if (packed) {
        by_blocks(gemm, kernel, packed, packed + depth * rows);
        vr_mem_free(packed);
    } else {
        multiply_plain(gemm);
    }
}
