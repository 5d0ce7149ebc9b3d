/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_kernel.c: the library's own kernels for products: C on host and simulation, PTX, OpenCL C
 * and SPIR-V.
 *
 * All take the same arguments in the same order: three addresses, then numbers of 32 bits. If
 * memory is behind handles, a kernel can only get whole blocks, so each matrix has the index of its
 * first element; elsewhere that is part of the address.
 */
#include "compute/arithmetic.h"

#include "base/error.h"
#include "base/text.h"

#include <string.h>

/* The code is longer than the string literals that every compiler must support. */
#pragma GCC diagnostic ignored "-Woverlength-strings"
#include "compute/generated/matmul_int8_ptx.h"
#include "compute/generated/matmul_ptx.h"
#include "compute/generated/matmul_spirv.h"
#include "compute/matmul_opencl.h"

enum { TILE = VR_KERNEL_TILE, GROUP = 16, ARGUMENTS = 14 };

/* ------------------------------------------------------------------ in C */

struct c_arguments {
    struct vr_device_gemm gemm;
    const struct vr_blas *blas;
    uint32_t threads;
};

static void matmul_c(const vram_kernel_call *call) {
    vram_addr a, b, c;
    struct c_arguments arguments;
    memcpy(&a, call->arguments[0], sizeof a);
    memcpy(&b, call->arguments[1], sizeof b);
    memcpy(&c, call->arguments[2], sizeof c);
    memcpy(&arguments, call->arguments[3], sizeof arguments);
    const struct vr_device_gemm *from = &arguments.gemm;
    struct vr_gemm gemm = {.m = from->m,
                           .n = from->n,
                           .k = from->k,
                           .a = (const void *)(uintptr_t)a,
                           .b = (const void *)(uintptr_t)b,
                           .c = (float *)(uintptr_t)c,
                           .lda = from->lda,
                           .ldb = from->ldb,
                           .ldc = from->ldc,
                           .trans_a = from->trans_a,
                           .trans_b = from->trans_b,
                           .precision = from->precision};
    vr_gemm_cpu(&gemm, arguments.blas, arguments.threads);
}

vram_status vr_kernel_submit_c(struct vr_arithmetic *arithmetic, uint32_t slot, vram_queue *queue,
                               const struct vr_device_gemm *gemm) {
    uint64_t each = vram_precision_bytes(gemm->precision);
    vram_addr a = vr_matrix_addr(&gemm->a, each), b = vr_matrix_addr(&gemm->b, each);
    vram_addr c = vr_matrix_addr(&gemm->c, sizeof(float));
    struct c_arguments rest;
    (void)slot;
    memset(&rest, 0, sizeof rest);
    rest.gemm = *gemm;
    rest.blas = arithmetic->blas;
    rest.threads = arithmetic->cpu_threads;
    const void *arguments[] = {&a, &b, &c, &rest};
    const size_t bytes[] = {sizeof a, sizeof b, sizeof c, sizeof rest};
    struct vram_launch launch = {.size = sizeof launch,
                                 .groups = {1, 1, 1},
                                 .group_size = {1, 1, 1},
                                 .argument_count = 4,
                                 .arguments = arguments,
                                 .argument_bytes = bytes,
                                 .address_mask = 7};
    return vram_queue_launch(queue, arithmetic->kernel, &launch);
}

/* ------------------------------------------------------ in the device's language */

static bool by_handle(const struct vr_arithmetic *arithmetic) {
    return (arithmetic->info.caps & VRAM_CAP_HANDLES) != 0 &&
           strcmp(arithmetic->info.backend, "opencl") == 0;
}

/* The address argument for the kernel; *first is the element to begin at. */
static vram_addr matrix_address(const struct vr_arithmetic *arithmetic,
                                const struct vr_matrix *matrix, uint64_t each, uint32_t *first) {
    bool whole = by_handle(arithmetic);
    *first = whole ? (uint32_t)matrix->offset : 0;
    return whole ? matrix->base : vr_matrix_addr(matrix, each);
}

/* The shader reads elements of 16 bits in words of 32: an odd first element stays in *first. */
static void align_word(const struct vr_arithmetic *arithmetic, vram_addr *addr, uint64_t each,
                       uint32_t *first) {
    if (!by_handle(arithmetic) && each == 2 && (*addr & 3) != 0) {
        *addr -= 2;
        *first += 1;
    }
}

vram_status vr_kernel_submit(struct vr_arithmetic *arithmetic, uint32_t slot, vram_queue *queue,
                             const struct vr_device_gemm *gemm) {
    static const size_t bytes[ARGUMENTS] = {8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
    uint64_t each = vram_precision_bytes(gemm->precision);
    bool integers = gemm->precision == VRAM_PRECISION_INT8;
    vram_kernel *kernel = integers ? arithmetic->kernel_int8 : arithmetic->kernel;
    uint32_t first[3];
    if (!kernel) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "the GPU has no dp4a, which products of int8 need");
    }
    vram_addr addrs[3] = {matrix_address(arithmetic, &gemm->a, each, &first[0]),
                          matrix_address(arithmetic, &gemm->b, each, &first[1]),
                          matrix_address(arithmetic, &gemm->c, sizeof(float), &first[2])};
    (void)slot;
    align_word(arithmetic, &addrs[0], each, &first[0]);
    align_word(arithmetic, &addrs[1], each, &first[1]);
    const uint32_t numbers[11] = {(uint32_t)gemm->m,
                                  (uint32_t)gemm->n,
                                  (uint32_t)gemm->k,
                                  (uint32_t)gemm->lda,
                                  (uint32_t)gemm->ldb,
                                  (uint32_t)gemm->ldc,
                                  first[0],
                                  first[1],
                                  first[2],
                                  (gemm->trans_a ? 1u : 0u) | (gemm->trans_b ? 2u : 0u),
                                  (uint32_t)gemm->precision};
    const void *arguments[ARGUMENTS];
    for (int i = 0; i < ARGUMENTS; i++) {
        arguments[i] = i < 3 ? (const void *)&addrs[i] : (const void *)&numbers[i - 3];
    }
    struct vram_launch launch = {.size = sizeof launch,
                                 .groups = {(uint32_t)((gemm->n + TILE - 1) / TILE),
                                            (uint32_t)((gemm->m + TILE - 1) / TILE), 1},
                                 .group_size = {GROUP, GROUP, 1},
                                 .argument_count = ARGUMENTS,
                                 .arguments = arguments,
                                 .argument_bytes = bytes,
                                 .address_mask = 7};
    return vram_queue_launch(queue, kernel, &launch);
}

static vram_status matmul_load(struct vr_arithmetic *arithmetic, enum vram_kernel_format format,
                               const void *code, size_t bytes) {
    const struct vram_kernel_source source = {.size = sizeof source,
                                              .format = format,
                                              .code = code,
                                              .code_bytes = bytes,
                                              .entry = "vram_matmul"};
    return vram_kernel_create(arithmetic->device, &source, &arithmetic->kernel);
}

/* A GPU that is too old for it computes such integers as halves. */
static vram_status load_int8(struct vr_arithmetic *arithmetic) {
    struct vram_error error;
    const struct vram_kernel_source source = {.size = sizeof source,
                                              .format = VRAM_KERNEL_PTX,
                                              .code = matmul_int8_ptx,
                                              .code_bytes = sizeof matmul_int8_ptx - 1,
                                              .entry = "vram_matmul_int8"};
    vr_error_save(&error);
    vram_status status = vram_kernel_create(arithmetic->device, &source, &arithmetic->kernel_int8);
    if (status == VRAM_ERR_UNSUPPORTED || status == VRAM_ERR_BACKEND ||
        status == VRAM_ERR_INVALID) {
        vr_error_restore(&error);
        status = VRAM_OK;
    }
    return status;
}

vram_status vr_kernel_open_c(struct vr_arithmetic *arithmetic) {
    vram_kernel_fn *code = matmul_c;
    const void *pointer;
    memcpy(&pointer, &code, sizeof pointer); /* a function pointer as a pointer to void */
    (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, "vram c");
    return matmul_load(arithmetic, VRAM_KERNEL_C, pointer, 0);
}

vram_status vr_kernel_open(struct vr_arithmetic *arithmetic) {
    const char *backend = arithmetic->info.backend;
    if (strcmp(backend, "cuda") == 0) {
        (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, "vram ptx");
        vram_status status =
            matmul_load(arithmetic, VRAM_KERNEL_PTX, matmul_ptx, sizeof matmul_ptx - 1);
        return status == VRAM_OK ? load_int8(arithmetic) : status;
    }
    if (strcmp(backend, "opencl") == 0) {
        (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, "vram opencl c");
        return matmul_load(arithmetic, VRAM_KERNEL_OPENCL_C, matmul_opencl,
                           sizeof matmul_opencl - 1);
    }
    (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, "vram spir-v");
    return matmul_load(arithmetic, VRAM_KERNEL_SPIRV, matmul_spirv, sizeof matmul_spirv);
}
