/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_gpu_blas.h: cuBLAS, or with FAKE_BLAS_HIP hipBLAS, over the tests' own driver: a product is
 * a launch of the kernel vram_matmul, which the driver knows by name.
 */
#ifndef FAKE_GPU_BLAS_H
#define FAKE_GPU_BLAS_H

#include "fake/fake_blas_plan.h"
#include "fake/fake_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef FAKE_BLAS_HIP
#define DRIVER     "libamdhip64.so.6"
#define CALL(name) hip##name
#define BLAS(name) hipblas##name
enum { OP_N = 111, OP_T = 112, NOT_INITIALIZED = 1, ALLOC_FAILED = 2, INVALID_VALUE = 3 };
enum { EXECUTION_FAILED = 6 };
#else
#define DRIVER     "libcuda.so.1"
#define CALL(name) cu##name
#define BLAS(name) cublas##name##_v2
enum { OP_N = 0, OP_T = 1, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7 };
enum { EXECUTION_FAILED = 13 };
#endif

/* Of the driver, found by its name as the real library finds it. */
struct driver {
    int (*load)(void **module, const void *image);
    int (*unload)(void *module);
    int (*function)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned groups_x, unsigned groups_y, unsigned groups_z,
                  unsigned items_x, unsigned items_y, unsigned items_z, unsigned shared_bytes,
                  void *stream, void **parameters, void **extra);
    int (*get_device)(int *device);
    const struct fake_cuda_control *(*control)(void);
};

static struct driver driver;
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

struct handle {
    uint64_t magic;
    const void *context; /* or device */
    void *module, *function;
    void *stream;
    bool told; /* its stream */
    const void *workspace;
    int busy;
};

#define MAGIC UINT64_C(0xB1A5B1A5B1A5)

/* Which stream a workspace was used on last: two streams may run at once. */
static struct {
    const void *workspace;
    void *stream;
} users[64];

static bool find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* Handles are made by several threads at once; what is there is written once, and read without a
   lock. */
static bool find_driver(void) {
    void *library = dlopen(DRIVER, RTLD_NOW | RTLD_NOLOAD);
    struct driver now;
    memset(&now, 0, sizeof now);
    if (!library) {
        return false;
    }
#ifdef FAKE_BLAS_HIP
    bool all = find(library, "hipModuleLaunchKernel", &now.launch) &&
               find(library, "hipGetDevice", &now.get_device) &&
               find(library, "hipModuleLoadData", &now.load) &&
               find(library, "hipModuleUnload", &now.unload) &&
               find(library, "hipModuleGetFunction", &now.function);
#else
    bool all = find(library, "cuLaunchKernel", &now.launch) &&
               find(library, "cuModuleLoadData", &now.load) &&
               find(library, "cuModuleUnload", &now.unload) &&
               find(library, "cuModuleGetFunction", &now.function);
#endif
    all = all && find(library, "fake_cuda_control", &now.control);
    pthread_mutex_lock(&finding);
    if (memcmp(&driver, &now, sizeof now) != 0) {
        driver = now;
    }
    pthread_mutex_unlock(&finding);
    return all;
}

/* What is current: a context of CUDA's, or the number of a device, from 1. */
static const void *current(void) {
#ifdef FAKE_BLAS_HIP
    int device = -1;
    return driver.get_device(&device) == 0 ? (const void *)(uintptr_t)(device + 1) : NULL;
#else
    return driver.control()->current();
#endif
}

/* Takes a handle for one call; the code to answer where that cannot be. */
static int hold(struct handle *handle) {
    if (!handle || handle->magic != MAGIC) {
        blas_violation("a handle that is none");
        return NOT_INITIALIZED;
    }
    if (__atomic_exchange_n(&handle->busy, 1, __ATOMIC_ACQUIRE)) {
        blas_violation("a handle in two calls at once");
    }
    if (current() != handle->context) {
        blas_violation("another context is current than the handle's");
    }
    return 0;
}

static int release(struct handle *handle, int code) {
    __atomic_store_n(&handle->busy, 0, __ATOMIC_RELEASE);
    return code;
}

/* ------------------------------------------------------------------- handles */

FAKE_BLAS_API int BLAS(Create)(void **made);
FAKE_BLAS_API int BLAS(Destroy)(void *handle);
FAKE_BLAS_API int BLAS(SetStream)(void *handle, void *stream);

int BLAS(Create)(void **made) {
    static const char text[] = ".version 7.0\n.visible .entry vram_matmul()\n{\n}\n";
    int code = blas_enter(BLAS_CREATE);
    if (code) {
        return code;
    }
    struct handle *handle = find_driver() ? calloc(1, sizeof *handle) : NULL;
    void *scrap; /* as the real ones, it makes calls that a capture in global mode forbids */
    if (!handle || !(handle->context = current()) || driver.load(&scrap, text) != 0 ||
        driver.unload(scrap) != 0 || driver.load(&handle->module, text) != 0) {
        free(handle);
        return NOT_INITIALIZED;
    }
    if (driver.function(&handle->function, handle->module, "vram_matmul") != 0) {
        (void)driver.unload(handle->module);
        free(handle);
        return ALLOC_FAILED;
    }
    handle->magic = MAGIC;
    *made = handle;
    pthread_mutex_lock(&blas_lock);
    blas_handles++;
    pthread_mutex_unlock(&blas_lock);
    return 0;
}

/* Done even where it is to fail: nobody could try again. */
int BLAS(Destroy)(void *from) {
    struct handle *handle = from;
    int code = blas_enter(BLAS_DESTROY), held = hold(handle);
    if (held) {
        return held;
    }
    (void)driver.unload(handle->module);
    handle->magic = 0;
    free(handle);
    pthread_mutex_lock(&blas_lock);
    if (--blas_handles == 0) {
        memset(users, 0, sizeof users);
    }
    pthread_mutex_unlock(&blas_lock);
    return code;
}

int BLAS(SetStream)(void *from, void *stream) {
    struct handle *handle = from;
    int code = blas_enter(BLAS_SET_STREAM), held = hold(handle);
    if (held || code) {
        return held ? held : release(handle, code);
    }
    handle->stream = stream;
    handle->told = true;
    handle->workspace = NULL; /* as documented: the library's own is in use again */
    return release(handle, 0);
}

/* ------------------------------------------------------------------- products */

static void use_workspace(const struct handle *handle) {
    int free_at = -1;
    pthread_mutex_lock(&blas_lock);
    for (int i = 0; i < 64; i++) {
        if (users[i].workspace == handle->workspace) {
            free_at = i;
            break;
        }
        free_at = free_at < 0 && !users[i].workspace ? i : free_at;
    }
    bool other =
        free_at >= 0 && users[free_at].workspace && users[free_at].stream != handle->stream;
    if (free_at >= 0) {
        users[free_at].workspace = handle->workspace;
        users[free_at].stream = handle->stream;
    }
    pthread_mutex_unlock(&blas_lock);
    if (other) {
        blas_violation("one workspace for two streams");
    }
}

struct product {
    int op_a, op_b, m, n, k;
    const void *a, *b;
    void *c;
    int lda, ldb, ldc;
    uint32_t precision; /* of the kernel */
};

/* Columns are rows to the kernel: C' = B' * A'. */
static int launch(struct handle *handle, const struct product *p) {
    int a_rows = p->op_a == OP_N ? p->m : p->k, b_rows = p->op_b == OP_N ? p->k : p->n;
    if (p->m <= 0 || p->n <= 0 || p->k <= 0 || p->lda < a_rows || p->ldb < b_rows ||
        p->ldc < p->m || (p->op_a != OP_N && p->op_a != OP_T) ||
        (p->op_b != OP_N && p->op_b != OP_T)) {
        blas_violation("a product of no shape");
        return INVALID_VALUE;
    }
    if (!handle->told) {
        blas_violation("a product before its handle has a stream");
    }
    if (handle->workspace) {
        use_workspace(handle);
    }
    uint64_t addrs[3] = {(uintptr_t)p->b, (uintptr_t)p->a, (uintptr_t)p->c};
    uint32_t numbers[11] = {(uint32_t)p->n,
                            (uint32_t)p->m,
                            (uint32_t)p->k,
                            (uint32_t)p->ldb,
                            (uint32_t)p->lda,
                            (uint32_t)p->ldc,
                            0,
                            0,
                            0,
                            0,
                            p->precision};
    numbers[9] = (p->op_b == OP_T ? 1u : 0u) | (p->op_a == OP_T ? 2u : 0u);
    void *parameters[14];
    for (int i = 0; i < 14; i++) {
        parameters[i] = i < 3 ? (void *)&addrs[i] : (void *)&numbers[i - 3];
    }
    unsigned wide = ((unsigned)p->m + 63) / 64, tall = ((unsigned)p->n + 63) / 64;
    return driver.launch(handle->function, wide, tall, 1, 16, 16, 1, 0, handle->stream, parameters,
                         NULL) == 0
               ? 0
               : EXECUTION_FAILED;
}

static int multiply(void *from, enum blas_call call, const struct product *product, float alpha,
                    float beta) {
    struct handle *handle = from;
    int code = blas_enter(call), held = hold(handle);
    if (held) {
        return held;
    }
    if (alpha != 1 || beta != 0) {
        blas_violation("a product that is more than one");
    }
    return release(handle, code ? code : launch(handle, product));
}

FAKE_BLAS_API int BLAS(Sgemm)(void *handle, int op_a, int op_b, int m, int n, int k,
                              const float *alpha, const float *a, int lda, const float *b, int ldb,
                              const float *beta, float *c, int ldc);

int BLAS(Sgemm)(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
                const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
                int ldc) {
    struct product product = {op_a, op_b, m, n, k, a, b, c, lda, ldb, ldc, 1};
    return multiply(handle, BLAS_SGEMM, &product, *alpha, *beta);
}

#ifndef FAKE_BLAS_HIP
FAKE_BLAS_API int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes);
FAKE_BLAS_API int cublasGemmEx(void *handle, int op_a, int op_b, int m, int n, int k,
                               const void *alpha, const void *a, int type_a, int lda, const void *b,
                               int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,
                               int compute, int algorithm);

int cublasSetWorkspace_v2(void *from, void *workspace, size_t bytes) {
    struct handle *handle = from;
    int code = blas_enter(BLAS_SET_WORKSPACE), held = hold(handle);
    if (held || code) {
        return held ? held : release(handle, code);
    }
    if ((uintptr_t)workspace % 256 != 0 || !workspace || !bytes) {
        blas_violation("a workspace off its alignment");
        return release(handle, INVALID_VALUE);
    }
    handle->workspace = workspace;
    return release(handle, 0);
}

int cublasGemmEx(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                 const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                 const void *beta, void *c, int type_c, int ldc, int compute, int algorithm) {
    enum { F32 = 0, F16 = 2, I8 = 3, I32 = 10, BF16 = 14, COMPUTE_32F = 68, COMPUTE_32I = 72 };
    struct product product = {op_a, op_b, m, n, k, a, b, c, lda, ldb, ldc, type_a == F16 ? 2 : 3};
    if (type_a == I8) {
        if (type_b != I8 || type_c != I32 || compute != COMPUTE_32I || lda % 4 != 0 ||
            ldb % 4 != 0 || (uintptr_t)a % 4 != 0 || (uintptr_t)b % 4 != 0) {
            blas_violation("integers off their alignment, or types that do not go together");
        }
        product.precision = 5;
        return multiply(handle, BLAS_GEMM_EX, &product, (float)*(const int32_t *)alpha,
                        (float)*(const int32_t *)beta);
    }
    if (type_a != type_b || (type_a != F16 && type_a != BF16) || type_c != F32 ||
        compute != COMPUTE_32F || algorithm != -1) {
        blas_violation("types that do not go together");
    }
    return multiply(handle, BLAS_GEMM_EX, &product, *(const float *)alpha, *(const float *)beta);
}
#endif

#endif
