/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_clblast.c: CLBlast over the tests' own OpenCL driver: operands are read in the order of the
 * queue, and the result is written there. Rows of which a part belongs to somebody else are left as
 * they are.
 */
#define FAKE_BLAS_CONTROL fake_clblast_control
#include "fake/fake_blas_plan.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, INVALID_VALUE = -30, UNEXPECTED = -2039 };

typedef int copy_fn(void *queue, void *buffer, unsigned blocking, size_t offset, size_t bytes,
                    void *host, unsigned waits, const void *const *events, void **event);

static copy_fn *find(const char *name) {
    copy_fn *function = NULL;
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(&function, &found, sizeof found);
    return function;
}

/* Lines of `columns` numbers, `stride` apart, as they lie in a buffer. */
struct lines {
    void *buffer;
    size_t offset, rows, columns, stride;
};

static int move(copy_fn *copy, void *queue, const struct lines *lines, float *packed) {
    int code = copy ? 0 : UNEXPECTED;
    for (size_t i = 0; i < lines->rows && !code; i++) {
        code = copy(queue, lines->buffer, 1, (lines->offset + i * lines->stride) * sizeof(float),
                    lines->columns * sizeof(float), packed + i * lines->columns, 0, NULL, NULL);
    }
    return code;
}

FAKE_BLAS_API int CLBlastSgemm(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k,
                               float alpha, void *a, size_t a_offset, size_t lda, void *b,
                               size_t b_offset, size_t ldb, float beta, void *c, size_t c_offset,
                               size_t ldc, void **queue, void **event);

int CLBlastSgemm(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha,
                 void *a, size_t a_offset, size_t lda, void *b, size_t b_offset, size_t ldb,
                 float beta, void *c, size_t c_offset, size_t ldc, void **queue, void **event) {
    bool turned_a = trans_a == TRANSPOSED, turned_b = trans_b == TRANSPOSED;
    struct lines from_a = {a, a_offset, turned_a ? k : m, turned_a ? m : k, lda};
    struct lines from_b = {b, b_offset, turned_b ? n : k, turned_b ? k : n, ldb};
    struct lines to_c = {c, c_offset, m, n, ldc};
    int code = blas_enter(BLAS_SGEMM);
    if (code) {
        return code;
    }
    if (layout != ROW_MAJOR || (!turned_a && trans_a != PLAIN) || (!turned_b && trans_b != PLAIN) ||
        !m || !n || !k || alpha != 1 || beta != 0 || !a || !b || !c || !queue || !*queue || event ||
        lda < from_a.columns || ldb < from_b.columns || ldc < n) {
        blas_violation("a product of no shape");
        return INVALID_VALUE;
    }
    float *numbers = malloc((m * k + k * n + m * n) * sizeof(float));
    float *left = numbers, *right = numbers + m * k, *sums = numbers + m * k + k * n;
    code = numbers ? move(find("clEnqueueReadBuffer"), *queue, &from_a, left) : -6;
    code = code ? code : move(find("clEnqueueReadBuffer"), *queue, &from_b, right);
    for (size_t i = 0; i < m && !code; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t p = 0; p < k; p++) {
                sum += (double)left[turned_a ? p * m + i : i * k + p] *
                       right[turned_b ? j * k + p : p * n + j];
            }
            sums[i * n + j] = (float)sum;
        }
    }
    code = code ? code : move(find("clEnqueueWriteBuffer"), *queue, &to_c, sums);
    free(numbers);
    return code;
}
