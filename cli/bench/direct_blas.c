/* SPDX-License-Identifier: Apache-2.0 */
/* direct_blas.c: see direct_blas.h. The entry points are declared in our own words. */
#include "bench/direct_blas.h"

#include <dlfcn.h>
#include <string.h>

enum { ROW_MAJOR = 101, PLAIN = 111, OP_N = 0 };

typedef void cblas_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
typedef int create_fn(void **handle);
typedef int destroy_fn(void *handle);
typedef int stream_fn(void *handle, void *stream);
typedef int sgemm_fn(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
                     const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
                     int ldc);
typedef int context_fn(void *stream, void **context);
typedef int push_fn(void *context);
typedef int pop_fn(void **context);

static void *open_first(const char *const *names) {
    void *library = NULL;
    for (; *names && !library; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

/* A function behind a pointer to void. */
static bool find(void *library, const char *name, void *function) {
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

void direct_begin(struct direct_blas *direct) {
    static const char *const cblas[] = {"libopenblas.so.0", "libblis.so.4", "libblis.so.3", NULL};
    static const char *const cublas[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
                                         NULL};
    static const char *const cuda[] = {"libcuda.so.1", NULL};
    direct->cblas = open_first(cblas);
    direct->cublas = open_first(cublas);
    direct->cuda = direct->cublas ? open_first(cuda) : NULL;
}

void direct_end(struct direct_blas *direct) {
    direct->handle = NULL; /* it goes with its context; the libraries keep threads of their own */
}

bool direct_cblas(struct direct_blas *direct, uint64_t side, const float *a, const float *b,
                  float *c) {
    cblas_fn *sgemm;
    if (!find(direct->cblas, "cblas_sgemm", &sgemm)) {
        return false;
    }
    int n = (int)side;
    sgemm(ROW_MAJOR, PLAIN, PLAIN, n, n, n, 1, a, n, b, n, 0, c, n);
    return true;
}

/* In the context of the stream, which is current. Rows are columns there: A and B change places. */
static bool multiply(struct direct_blas *direct, void *stream, uint64_t side,
                     const vram_addr at[3]) {
    static const float one = 1, zero = 0;
    create_fn *create;
    stream_fn *set_stream;
    sgemm_fn *sgemm;
    int n = (int)side;
    if (!find(direct->cublas, "cublasCreate_v2", &create) ||
        !find(direct->cublas, "cublasSetStream_v2", &set_stream) ||
        !find(direct->cublas, "cublasSgemm_v2", &sgemm) ||
        (!direct->handle && create(&direct->handle) != 0)) {
        return false;
    }
    return set_stream(direct->handle, stream) == 0 &&
           sgemm(direct->handle, OP_N, OP_N, n, n, n, &one, (const float *)(uintptr_t)at[1], n,
                 (const float *)(uintptr_t)at[0], n, &zero, (float *)(uintptr_t)at[2], n) == 0;
}

bool direct_cublas(struct direct_blas *direct, vram_queue *queue, uint64_t side,
                   const vram_addr at[3]) {
    context_fn *stream_context;
    push_fn *push;
    pop_fn *pop;
    void *stream = NULL, *context = NULL;
    if (!find(direct->cuda, "cuStreamGetCtx", &stream_context) ||
        !find(direct->cuda, "cuCtxPushCurrent_v2", &push) ||
        !find(direct->cuda, "cuCtxPopCurrent_v2", &pop) ||
        vram_queue_native(queue, &stream) != VRAM_OK || !stream ||
        stream_context(stream, &context) != 0 || push(context) != 0) {
        return false;
    }
    bool done = multiply(direct, stream, side, at);
    (void)pop(&context);
    return done;
}
