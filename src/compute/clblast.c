/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clblast.c: products by CLBlast, with its interface declared here. It takes buffers, so it serves
 * devices whose memory is behind cl_mem. The library's own kernel serves shared virtual memory, and
 * types of 16 bits, whose sums CLBlast would compute in 16 bits too.
 */
#include "compute/arithmetic.h"

#include "base/error.h"
#include "base/loader.h"
#include "base/memory.h"
#include "base/text.h"
#include "compute/setting.h"
#include "vram/extension.h"

#include <limits.h>
#include <string.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

struct clblast_api {
    int (*sgemm)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha,
                 void *a, size_t a_offset, size_t lda, void *b, size_t b_offset, size_t ldb,
                 float beta, void *c, size_t c_offset, size_t ldc, void **queue, void **event);
};

static const struct vr_symbol symbols[] = {
    {"CLBlastSgemm", NULL, offsetof(struct clblast_api, sgemm), false}};

struct clblast {
    struct vr_library library;
    struct clblast_api api;
};

/* The buffer of a matrix, and the offset of the matrix in it in elements. */
static vram_status find_buffer(const struct vr_matrix *matrix, void **buffer, size_t *offset) {
    struct vram_native_info info = {.size = sizeof info};
    vram_status status = vram_native(matrix->base, &info);
    if (status == VRAM_OK) {
        *buffer = info.handle;
        *offset = (size_t)(info.offset / sizeof(float) + matrix->offset);
    }
    return status;
}

static vram_status clblast_status(int code) {
    if (code == 0) {
        return VRAM_OK;
    }
    vram_status status = code == -4 || code == -5 ? VRAM_ERR_DEVICE_MEMORY : VRAM_ERR_BACKEND;
    return vr_error_set(status, "opencl", "CLBlastSgemm", code, "CLBlast answered %d", code);
}

static vram_status clblast_call(struct clblast *clblast, void *queue,
                                const struct vr_device_gemm *gemm) {
    void *a, *b, *c;
    size_t offset_a, offset_b, offset_c;
    vram_status status = find_buffer(&gemm->a, &a, &offset_a);
    if (status == VRAM_OK) {
        status = find_buffer(&gemm->b, &b, &offset_b);
    }
    if (status == VRAM_OK) {
        status = find_buffer(&gemm->c, &c, &offset_c);
    }
    if (status != VRAM_OK) {
        return status;
    }
    return clblast_status(clblast->api.sgemm(
        ROW_MAJOR, gemm->trans_a ? TRANSPOSED : PLAIN, gemm->trans_b ? TRANSPOSED : PLAIN,
        (size_t)gemm->m, (size_t)gemm->n, (size_t)gemm->k, 1, a, offset_a, (size_t)gemm->lda, b,
        offset_b, (size_t)gemm->ldb, 0, c, offset_c, (size_t)gemm->ldc, &queue, NULL));
}

struct clblast_work {
    struct clblast *clblast;
    const struct vr_device_gemm *gemm;
};

static vram_status submit_to(void *user, void *native) {
    const struct clblast_work *work = user;
    return clblast_call(work->clblast, native, work->gemm);
}

static vram_status clblast_submit(struct vr_arithmetic *arithmetic, uint32_t slot,
                                  vram_queue *queue, const struct vr_device_gemm *gemm) {
    struct clblast_work work = {arithmetic->library, gemm};
    return gemm->precision == VRAM_PRECISION_FP32 ? vram_queue_submit(queue, submit_to, &work)
                                                  : vr_kernel_submit(arithmetic, slot, queue, gemm);
}

static void close_library(struct vr_arithmetic *arithmetic) {
    vr_mem_free(arithmetic->library); /* CLBlast stays loaded: it caches programs of the context */
    arithmetic->library = NULL;
}

static vram_status open_clblast(struct vr_arithmetic *arithmetic) {
    VR_OPERATION("CLBlastSgemm");
    static const char *const names[] = {"libclblast.so.1", NULL};
    char path[VR_SETTING_MAX];
    const char *const chosen[] = {path, NULL};
    vr_setting_text("clblast_library", path);
    if (strcmp(path, "none") == 0 || !(arithmetic->info.caps & VRAM_CAP_HANDLES) ||
        (!*path && arithmetic->info.kind != VRAM_DEVICE_GPU)) {
        return vr_fail_in(VRAM_ERR_UNSUPPORTED, "dlopen", "CLBlast does not serve this device");
    }
    vram_status status = vr_kernel_open(arithmetic);
    if (status != VRAM_OK) {
        return status;
    }
    struct clblast *clblast = vr_mem_alloc(1, sizeof *clblast, vr_operation());
    if (!clblast) {
        return VRAM_ERR_HOST_MEMORY;
    }
    status = vr_library_open(&clblast->library, "opencl", *path ? chosen : names, symbols, 1,
                             &clblast->api);
    if (status != VRAM_OK) {
        vr_mem_free(clblast);
        return status;
    }
    arithmetic->library = clblast;
    (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, clblast->library.name);
    return VRAM_OK;
}

const struct vr_provider vr_clblast_provider = {
    "opencl",
    open_clblast,
    clblast_submit,
    close_library,
    INT_MAX,
    1u << VRAM_PRECISION_FP32 | 1u << VRAM_PRECISION_FP16 | 1u << VRAM_PRECISION_BF16,
    false};
