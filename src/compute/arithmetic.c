/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arithmetic.c: who computes on a device, and our own kernels: C on host and simulation, PTX, OpenCL C and SPIR-V.
 *
 * All of our kernels take the same arguments in the same order: three addresses, then numbers of 32 bits. Where
 * memory lies behind handles a kernel can only be given whole blocks, so each matrix comes with the element
 * it begins at; elsewhere that is part of the address.
 */
#include "compute/arithmetic.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/text.h"
#include <string.h>

/* Code for a device is longer than the texts that every compiler takes. */
#pragma GCC diagnostic ignored "-Woverlength-strings"
#include "compute/matmul_opencl.h"
#include "compute/matmul_ptx.h"
#include "compute/matmul_spirv.h"

enum { TILE = 64, GROUP = 16, ARGUMENTS = 14 };

/* What 65,535 groups of a launch cover; elements are counted in 32 bits. */
#define LINES_MAX (UINT64_C(65535) * TILE)
#define ALL_TYPES                                                                                  \
    (1u << VRAM_PRECISION_FP32 | 1u << VRAM_PRECISION_FP16 | 1u << VRAM_PRECISION_BF16)

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

static vram_status submit_c(struct vr_arithmetic *arithmetic, uint32_t lane, vram_queue *queue,
                            const struct vr_device_gemm *gemm) {
    uint64_t each = vram_precision_bytes(gemm->precision);
    vram_addr a = vr_matrix_addr(&gemm->a, each), b = vr_matrix_addr(&gemm->b, each);
    vram_addr c = vr_matrix_addr(&gemm->c, sizeof(float));
    struct c_arguments rest;
    (void)lane;
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

/* An argument for the kernel, and the element that is left to count from there. */
static vram_addr address(const struct vr_arithmetic *arithmetic, const struct vr_matrix *matrix,
                         uint64_t each, uint32_t *first) {
    bool whole = by_handle(arithmetic);
    *first = whole ? (uint32_t)matrix->offset : 0;
    return whole ? matrix->base : vr_matrix_addr(matrix, each);
}

/* Elements of 16 bits are read in words of 32 by the shader: an odd one is counted. */
static void even(const struct vr_arithmetic *arithmetic, vram_addr *addr, uint64_t each,
                 uint32_t *first) {
    if (!by_handle(arithmetic) && each == 2 && (*addr & 3) != 0) {
        *addr -= 2;
        *first += 1;
    }
}

vram_status vr_kernel_submit(struct vr_arithmetic *arithmetic, uint32_t lane, vram_queue *queue,
                             const struct vr_device_gemm *gemm) {
    static const size_t bytes[ARGUMENTS] = {8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
    uint64_t each = vram_precision_bytes(gemm->precision);
    uint32_t first[3];
    vram_addr addrs[3] = {address(arithmetic, &gemm->a, each, &first[0]),
                          address(arithmetic, &gemm->b, each, &first[1]),
                          address(arithmetic, &gemm->c, sizeof(float), &first[2])};
    (void)lane;
    even(arithmetic, &addrs[0], each, &first[0]);
    even(arithmetic, &addrs[1], each, &first[1]);
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
    return vram_queue_launch(queue, arithmetic->kernel, &launch);
}

static vram_status load(struct vr_arithmetic *arithmetic, enum vram_kernel_format format,
                        const void *code, size_t bytes) {
    const struct vram_kernel_source source = {.size = sizeof source,
                                              .format = format,
                                              .code = code,
                                              .code_bytes = bytes,
                                              .entry = "vram_matmul"};
    return vram_kernel_create(arithmetic->device, &source, &arithmetic->kernel);
}

static vram_status open_c(struct vr_arithmetic *arithmetic) {
    vram_kernel_fn *code = matmul_c;
    const void *pointer;
    memcpy(&pointer, &code, sizeof pointer); /* a function behind a pointer to void */
    (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, "vram c");
    return load(arithmetic, VRAM_KERNEL_C, pointer, 0);
}

vram_status vr_kernel_open(struct vr_arithmetic *arithmetic) {
    const char *backend = arithmetic->info.backend;
    if (strcmp(backend, "cuda") == 0) {
        (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, "vram ptx");
        return load(arithmetic, VRAM_KERNEL_PTX, matmul_ptx, sizeof matmul_ptx - 1);
    }
    if (strcmp(backend, "opencl") == 0) {
        (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, "vram opencl c");
        return load(arithmetic, VRAM_KERNEL_OPENCL_C, matmul_opencl, sizeof matmul_opencl - 1);
    }
    (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, "vram spir-v");
    return load(arithmetic, VRAM_KERNEL_SPIRV, matmul_spirv, sizeof matmul_spirv);
}

static void close_kernel(struct vr_arithmetic *arithmetic) {
    (void)arithmetic; /* the kernel goes with all others */
}

/* -------------------------------------------------------------------- the table */

static const struct vr_provider c_host = {"host",       open_c,     submit_c,
                                          close_kernel, UINT64_MAX, ALL_TYPES};
static const struct vr_provider c_sim = {"sim",        open_c,     submit_c,
                                         close_kernel, UINT64_MAX, ALL_TYPES};
static const struct vr_provider ptx = {"cuda",       vr_kernel_open, vr_kernel_submit,
                                       close_kernel, LINES_MAX,      ALL_TYPES};
static const struct vr_provider opencl = {"opencl",     vr_kernel_open, vr_kernel_submit,
                                          close_kernel, LINES_MAX,      ALL_TYPES};
static const struct vr_provider spirv = {"vulkan",     vr_kernel_open, vr_kernel_submit,
                                         close_kernel, LINES_MAX,      ALL_TYPES};

static const struct vr_provider *const providers[] = {&vr_cublas_provider,
                                                      &vr_hipblas_provider,
                                                      &vr_clblast_provider,
                                                      &ptx,
                                                      &opencl,
                                                      &spirv,
                                                      &c_host,
                                                      &c_sim};

/* Whether the next provider is to be asked: this one is not there, or cannot; or it is a library of somebody
   else's that could not begin, which is no reason to compute nothing. */
static bool goes_on(const struct vr_provider *provider, vram_status status) {
    bool library = provider->close != close_kernel;
    return status == VRAM_ERR_UNSUPPORTED || status == VRAM_ERR_NO_DRIVER ||
           (library && status == VRAM_ERR_BACKEND);
}

vram_status vr_arithmetic_open(struct vr_arithmetic *arithmetic) {
    VR_UNCANCELLED;
    struct vram_error error;
    vr_error_save(&error);
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++) {
        if (strcmp(providers[i]->backend, arithmetic->info.backend) != 0) {
            continue;
        }
        vram_status status = providers[i]->open(arithmetic);
        if (status == VRAM_OK) {
            arithmetic->provider = providers[i];
            vr_error_restore(&error);
            return VRAM_OK;
        }
        vram_kernel_destroy(arithmetic->kernel);
        arithmetic->kernel = NULL;
        if (!goes_on(providers[i], status)) {
            return status;
        }
        (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, vram_error_get()->text);
    }
    vr_error_restore(&error);
    return VRAM_OK;
}

void vr_arithmetic_close(struct vr_arithmetic *arithmetic) {
    VR_UNCANCELLED;
    if (arithmetic->provider) {
        arithmetic->provider->close(arithmetic);
    }
    vram_kernel_destroy(arithmetic->kernel);
    arithmetic->kernel = NULL;
    arithmetic->provider = NULL;
}
