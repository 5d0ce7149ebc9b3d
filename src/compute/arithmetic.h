/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arithmetic.h: providers that compute products on a device.
 *
 * A provider is a row of a table: whether it can serve a device, and how it submits one product to
 * a queue. Libraries are first, the library's own kernels last. Nothing waits: a product is ordered
 * on its queue like a copy.
 *
 *   arithmetic.c      the table
 *   cublas.c          cuBLAS
 *   hipblas.c         hipBLAS
 *   clblast.c         CLBlast
 *   matmul_kernel.c   the library's own kernels: C on host and simulation, PTX, OpenCL C, SPIR-V
 */
#ifndef VR_ARITHMETIC_H
#define VR_ARITHMETIC_H

#include "compute/gemm.h"
#include "vram/pool.h"

/* A matrix on the device: the first address of its block, and its first element in it. */
struct vr_matrix {
    vram_addr base;
    uint64_t offset; /* elements */
};

/* C = A * B on a device, as vr_gemm on the CPU. */
struct vr_device_gemm {
    uint64_t m, n, k;
    struct vr_matrix a, b, c;
    uint64_t lda, ldb, ldc;
    bool trans_a, trans_b;
    /* Of A and B: FP32, FP16, BF16, or INT8: then A is not transposed, B is, and k and the strides
       of rows are multiples of 16. */
    vram_precision precision;
};

enum { VR_QUEUES_MAX = 8 };

struct vr_arithmetic {
    const struct vr_provider *provider; /* NULL: the device cannot compute products */
    vram_device *device;
    vram_pool *pool;
    vram_queue *queues[VR_QUEUES_MAX]; /* the scheduler's queues */
    uint32_t queue_count;
    struct vram_device_info info;
    const struct vr_blas *blas;     /* for the kernel in C */
    uint32_t cpu_threads;           /* for the kernel in C */
    char name[VRAM_ERROR_TEXT_MAX]; /* "libcublas.so.12", or why there is no provider */
    vram_kernel *kernel;            /* own kernel, also for types the provider lacks; NULL: none */
    vram_kernel *kernel_int8;       /* own kernel for INT8; NULL: none */
    void *library;                  /* private to the provider */
};

struct vr_provider {
    const char *backend; /* that it serves */
    /* VRAM_ERR_UNSUPPORTED or _NO_DRIVER: the next provider is asked. */
    vram_status (*open)(struct vr_arithmetic *arithmetic);
    vram_status (*submit)(struct vr_arithmetic *arithmetic, uint32_t slot, vram_queue *queue,
                          const struct vr_device_gemm *gemm);
    void (*close)(struct vr_arithmetic *arithmetic); /* NULL: a kernel of the library's own */
    uint64_t lines_max;  /* most rows, columns and steps of one product */
    uint32_t precisions; /* supported: bit i for precision i */
    bool integers;       /* products of INT8 are integers of 32 bits, not of single precision */
};

/* Finds the provider for the device; the fields above `name` are set. VRAM_OK with provider NULL:
   there is none. */
vram_status vr_arithmetic_open(struct vr_arithmetic *arithmetic);
void vr_arithmetic_close(struct vr_arithmetic *arithmetic);

/* The library's own kernel in the device's language; also for types that a provider lacks. */
vram_status vr_kernel_open(struct vr_arithmetic *arithmetic);
vram_status vr_kernel_submit(struct vr_arithmetic *arithmetic, uint32_t slot, vram_queue *queue,
                             const struct vr_device_gemm *gemm);
/* The same in C, for host and simulation. */
vram_status vr_kernel_open_c(struct vr_arithmetic *arithmetic);
vram_status vr_kernel_submit_c(struct vr_arithmetic *arithmetic, uint32_t slot, vram_queue *queue,
                               const struct vr_device_gemm *gemm);

enum { VR_KERNEL_TILE = 64 }; /* rows and columns of the result that a group computes */

/* What 65,535 groups of a launch cover; element indices have 32 bits. */
#define VR_KERNEL_LINES_MAX (UINT64_C(65535) * VR_KERNEL_TILE)

/* The address of the first element of `matrix`. */
static inline vram_addr vr_matrix_addr(const struct vr_matrix *matrix, uint64_t element_bytes) {
    return matrix->base + matrix->offset * element_bytes;
}

extern const struct vr_provider vr_cublas_provider, vr_hipblas_provider, vr_clblast_provider;

/* Frees a block after the work of a queue, which may be ending; keeps the error record. A pool that
   has ended has freed it already. 0 is allowed; attached.c. */
void vr_block_free_after(vram_pool *pool, vram_addr block, vram_queue *queue);

#endif
