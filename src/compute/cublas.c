/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cublas.c: products by cuBLAS, with its interface declared here.
 *
 *  (1) A handle of cuBLAS belongs to a slot, one per queue of the scheduler, and takes one call at
 *      a time: its lock is held around the call.
 *  (2) cuBLAS works in the current context. The context is found from the stream and pushed for the
 *      call; afterwards the previous context is current again. For the end it is stored at the
 *      beginning: when everything ends with the device, the streams may have been destroyed.
 *  (3) A slot's scratch memory is allocated from the pool. It is set again whenever the handle
 *      returns to the slot's own stream, and is used on no other, since products of two streams run
 *      at once. On other streams, and if the pool has no memory, cuBLAS uses its own.
 *  (4) cuBLAS finds the driver by its own name. If the backend works with another library, cuBLAS
 *      does not know its contexts and streams, and is not used. A library that the option
 *      cublas_library names is trusted to know the driver; one that is found here is only loaded
 *      beside a driver that can be NVIDIA's.
 *  (5) During its calls the thread's capture mode is relaxed: cuBLAS allocates and loads code,
 *      which would end a capture in global mode. Its end waits for the device, which ends every
 *      capture.
 *  (6) cuBLAS stores matrices by columns. Ours, stored by rows, are their transposes: C' = B' * A'.
 */
#include "compute/arithmetic.h"

#include "base/error.h"
#include "base/loader.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/text.h"
#include "compute/setting.h"
#include "vram/extension.h"

#include <limits.h>
#include <string.h>

enum {
    OP_N = 0,
    OP_T = 1,
    TYPE_F32 = 0,
    TYPE_F16 = 2,
    TYPE_I8 = 3,
    TYPE_I32 = 10,
    TYPE_BF16 = 14,
    COMPUTE_32F = 68,
    COMPUTE_32I = 72,
    ALGORITHM_DEFAULT = -1,
    MODE_RELAXED = 2 /* CU_STREAM_CAPTURE_MODE_RELAXED */
};

#define DRIVER        "libcuda.so.1"       /* what cuBLAS opens */
#define SCRATCH_BYTES (UINT64_C(32) << 20) /* what NVIDIA recommends for its largest GPUs */

struct cublas_api {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*set_workspace)(void *handle, void *workspace, size_t bytes);
    int (*sgemm)(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
                 const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
                 int ldc);
    int (*gemm_ex)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                   const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                   const void *beta, void *c, int type_c, int ldc, int compute, int algorithm);
};

struct driver_api {
    int (*export_table)(const void **table, const void *id); /* never called here: see (4) */
    int (*stream_context)(void *stream, void **context);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*exchange_mode)(int *mode); /* NULL: drivers before CUDA 10.1 */
};

static const struct vr_symbol cublas_symbols[] = {
    {"cublasCreate_v2", NULL, offsetof(struct cublas_api, create), false},
    {"cublasDestroy_v2", NULL, offsetof(struct cublas_api, destroy), false},
    {"cublasSetStream_v2", NULL, offsetof(struct cublas_api, set_stream), false},
    {"cublasSetWorkspace_v2", NULL, offsetof(struct cublas_api, set_workspace), true},
    {"cublasSgemm_v2", NULL, offsetof(struct cublas_api, sgemm), false},
    {"cublasGemmEx", NULL, offsetof(struct cublas_api, gemm_ex), false},
};

/* The runtime inside cuBLAS needs the export table: a driver without one is not NVIDIA's. */
static const struct vr_symbol driver_symbols[] = {
    {"cuGetExportTable", NULL, offsetof(struct driver_api, export_table), true},
    {"cuStreamGetCtx", NULL, offsetof(struct driver_api, stream_context), false},
    {"cuCtxPushCurrent_v2", NULL, offsetof(struct driver_api, push), false},
    {"cuCtxPopCurrent_v2", NULL, offsetof(struct driver_api, pop), false},
    {"cuThreadExchangeStreamCaptureMode", NULL, offsetof(struct driver_api, exchange_mode), true},
};

struct cublas_slot {
    struct vr_mutex lock; /* (1) */
    void *handle;         /* NULL: none */
    void *own;            /* the stream of the slot's queue */
    void *stream;         /* that the handle was set to last */
    vram_addr scratch;    /* 0: cuBLAS has its own */
};

struct cublas {
    struct vr_library library, driver;
    struct cublas_api api;
    struct driver_api cuda;
    void *context; /* NULL: not known yet; (2) */
    uint32_t slot_count;
    struct cublas_slot slots[VR_QUEUES_MAX];
};

/* ---------------------------------------------------------------------- errors */

static vram_status cublas_status(int code, const char *call) {
    switch (code) {
    case 0:
        return VRAM_OK;
    case 3:
        return vr_error_set(VRAM_ERR_DEVICE_MEMORY, "cuda", call, code,
                            "cuBLAS ran out of device memory for its workspace");
    case 8:
    case 15:
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "cuda", call, code,
                            "cuBLAS does not support this product on this GPU");
    default:
        return vr_error_set(VRAM_ERR_BACKEND, "cuda", call, code, "cuBLAS answered %d", code);
    }
}

/* What a call is made in: a context that is current for it, and the thread's mode before. */
struct scope {
    void *context;
    int mode;
    bool relaxed;
};

static int context_push(const struct cublas *cublas, struct scope *scope) {
    int code = cublas->cuda.push(scope->context);
    scope->mode = MODE_RELAXED; /* keeps (5) */
    scope->relaxed =
        code == 0 && cublas->cuda.exchange_mode && cublas->cuda.exchange_mode(&scope->mode) == 0;
    return code;
}

/* Makes the context of a stream current. After VRAM_OK the caller calls context_leave. */
static vram_status context_enter(const struct cublas *cublas, void *stream, struct scope *scope) {
    int code = cublas->cuda.stream_context(stream, &scope->context);
    if (code == 0) {
        code = context_push(cublas, scope);
    }
    return code == 0 ? VRAM_OK
                     : vr_error_set(VRAM_ERR_BACKEND, "cuda", "cuCtxPushCurrent", code,
                                    "the context of the stream cannot be used: %d", code);
}

static void context_leave(const struct cublas *cublas, struct scope *scope) {
    if (scope->relaxed) {
        (void)cublas->cuda.exchange_mode(&scope->mode);
    }
    (void)cublas->cuda.pop(&scope->context);
}

/* --------------------------------------------------------------------- products */

/* Sets the stream of the handle, and its scratch memory: keeps (3). */
static vram_status set_stream(struct cublas *cublas, struct cublas_slot *slot, void *stream) {
    if (slot->stream == stream) {
        return VRAM_OK;
    }
    vram_status status =
        cublas_status(cublas->api.set_stream(slot->handle, stream), "cublasSetStream");
    if (status == VRAM_OK && slot->scratch && stream == slot->own) {
        status = cublas_status(cublas->api.set_workspace(
                                   slot->handle, (void *)(uintptr_t)slot->scratch, SCRATCH_BYTES),
                               "cublasSetWorkspace");
    }
    slot->stream = status == VRAM_OK ? stream : NULL;
    return status;
}

/* Keeps (6): swaps A and B, and m and n. */
static vram_status cublas_call(const struct cublas *cublas, const struct cublas_slot *slot,
                               const struct vr_device_gemm *gemm) {
    static const float one = 1, zero = 0;
    static const int32_t whole_one = 1, whole_zero = 0;
    uint64_t each = vram_precision_bytes(gemm->precision);
    const void *a = (const void *)(uintptr_t)vr_matrix_addr(&gemm->a, each);
    const void *b = (const void *)(uintptr_t)vr_matrix_addr(&gemm->b, each);
    void *c = (void *)(uintptr_t)vr_matrix_addr(&gemm->c, sizeof(float));
    int op_a = gemm->trans_a ? OP_T : OP_N, op_b = gemm->trans_b ? OP_T : OP_N;
    int m = (int)gemm->m, n = (int)gemm->n, k = (int)gemm->k;
    if (gemm->precision == VRAM_PRECISION_FP32) {
        return cublas_status(cublas->api.sgemm(slot->handle, op_b, op_a, n, m, k, &one, b,
                                               (int)gemm->ldb, a, (int)gemm->lda, &zero, c,
                                               (int)gemm->ldc),
                             "cublasSgemm");
    }
    if (gemm->precision == VRAM_PRECISION_INT8) { /* on tensor cores, where there are some */
        return cublas_status(cublas->api.gemm_ex(slot->handle, op_b, op_a, n, m, k, &whole_one, b,
                                                 TYPE_I8, (int)gemm->ldb, a, TYPE_I8,
                                                 (int)gemm->lda, &whole_zero, c, TYPE_I32,
                                                 (int)gemm->ldc, COMPUTE_32I, ALGORITHM_DEFAULT),
                             "cublasGemmEx");
    }
    int type = gemm->precision == VRAM_PRECISION_FP16 ? TYPE_F16 : TYPE_BF16;
    return cublas_status(cublas->api.gemm_ex(slot->handle, op_b, op_a, n, m, k, &one, b, type,
                                             (int)gemm->ldb, a, type, (int)gemm->lda, &zero, c,
                                             TYPE_F32, (int)gemm->ldc, COMPUTE_32F,
                                             ALGORITHM_DEFAULT),
                         "cublasGemmEx");
}

struct cublas_work {
    struct cublas *cublas;
    struct cublas_slot *slot;
    const struct vr_device_gemm *gemm;
};

static vram_status submit_to(void *user, void *stream) {
    struct cublas_work *work = user;
    struct scope scope;
    vram_status status = context_enter(work->cublas, stream, &scope);
    if (status == VRAM_OK) {
        vr_mutex_lock(&work->slot->lock);
        status = set_stream(work->cublas, work->slot, stream);
        if (status == VRAM_OK) {
            status = cublas_call(work->cublas, work->slot, work->gemm);
        }
        vr_mutex_unlock(&work->slot->lock);
        context_leave(work->cublas, &scope);
    }
    return status;
}

static vram_status cublas_submit(struct vr_arithmetic *arithmetic, uint32_t number,
                                 vram_queue *queue, const struct vr_device_gemm *gemm) {
    struct cublas *cublas = arithmetic->library;
    struct cublas_work work = {cublas, &cublas->slots[number % cublas->slot_count], gemm};
    return vram_queue_submit(queue, submit_to, &work);
}

/* --------------------------------------------------------------- opening, closing */

static void close_library(struct vr_arithmetic *arithmetic) {
    struct cublas *cublas = arithmetic->library;
    struct scope scope = {.context = cublas->context};
    bool alive = cublas->context && context_push(cublas, &scope) == 0;
    for (uint32_t i = 0; i < cublas->slot_count; i++) {
        struct cublas_slot *slot = &cublas->slots[i];
        if (slot->handle && alive) {
            (void)cublas->api.destroy(slot->handle);
        }
        vr_mutex_destroy(&slot->lock);
    }
    if (alive) {
        context_leave(cublas, &scope);
    }
    for (uint32_t i = 0; i < cublas->slot_count; i++) {
        vr_block_free_after(arithmetic->pool, cublas->slots[i].scratch, arithmetic->queues[i]);
    }
    vr_library_close(&cublas->driver); /* cuBLAS itself stays loaded: it may have threads */
    vr_mem_free(cublas);
    arithmetic->library = NULL;
}

static vram_status make_slot(const struct vr_arithmetic *arithmetic, struct cublas *cublas,
                             uint32_t number) {
    struct cublas_slot *slot = &cublas->slots[number];
    struct vram_error error;
    struct scope scope;
    vram_status status = vram_queue_native(arithmetic->queues[number], &slot->own);
    if (status == VRAM_OK && (status = context_enter(cublas, slot->own, &scope)) == VRAM_OK) {
        cublas->context = scope.context;
        status = cublas_status(cublas->api.create(&slot->handle), "cublasCreate");
        context_leave(cublas, &scope);
    }
    if (status == VRAM_OK && cublas->api.set_workspace) {
        vr_error_save(&error);
        if (vram_alloc(arithmetic->pool, SCRATCH_BYTES, arithmetic->queues[number],
                       &slot->scratch) != VRAM_OK) {
            slot->scratch = 0; /* keeps (3) */
            vr_error_restore(&error);
        }
    }
    return status;
}

/* Keeps (4): a library is opened only once, by whatever name. */
static vram_status same_driver(const struct cublas *cublas) {
    struct vr_library found = {.native = NULL};
    struct driver_api unused;
    const char *const names[] = {DRIVER, NULL};
    vram_status status = vr_library_open(&found, "cuda", names, driver_symbols,
                                         sizeof driver_symbols / sizeof driver_symbols[0], &unused);
    bool same = status == VRAM_OK && found.native == cublas->driver.native;
    vr_library_close(&found);
    return same || status != VRAM_OK ? status
                                     : vr_fail_in(VRAM_ERR_UNSUPPORTED, "dlopen",
                                                  "cuBLAS works with %s, the device with %s",
                                                  DRIVER, cublas->driver.name);
}

static vram_status open_libraries(struct cublas *cublas, const char *path) {
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
                                        NULL};
    char driver[VR_SETTING_MAX];
    const char *const chosen[] = {path, NULL};
    vr_setting_text("cuda_library", driver);
    const char *const of_driver[] = {*driver ? driver : DRIVER, NULL};
    vram_status status =
        vr_library_open(&cublas->driver, "cuda", of_driver, driver_symbols,
                        sizeof driver_symbols / sizeof driver_symbols[0], &cublas->cuda);
    if (status == VRAM_OK && !*path && !cublas->cuda.export_table) {
        return vr_fail_in(VRAM_ERR_UNSUPPORTED, "dlopen",
                          "%s is not the driver that cuBLAS works with", cublas->driver.name);
    }
    if (status == VRAM_OK) {
        status = same_driver(cublas);
    }
    if (status == VRAM_OK) {
        status = vr_library_open(&cublas->library, "cuda", *path ? chosen : names, cublas_symbols,
                                 sizeof cublas_symbols / sizeof cublas_symbols[0], &cublas->api);
    }
    return status;
}

static vram_status open_cublas(struct vr_arithmetic *arithmetic) {
    VR_OPERATION("cublasCreate");
    char path[VR_SETTING_MAX];
    vr_setting_text("cublas_library", path);
    if (strcmp(path, "none") == 0) {
        return vr_fail_in(VRAM_ERR_UNSUPPORTED, "dlopen", "cublas_library is none");
    }
    struct cublas *cublas = vr_mem_alloc(1, sizeof *cublas, vr_operation());
    if (!cublas) {
        return VRAM_ERR_HOST_MEMORY;
    }
    arithmetic->library = cublas;
    vram_status status = open_libraries(cublas, path);
    for (uint32_t i = 0; status == VRAM_OK && i < arithmetic->queue_count; i++) {
        vr_mutex_init(&cublas->slots[i].lock, VR_RANK_DRIVER);
        cublas->slot_count = i + 1;
        status = make_slot(arithmetic, cublas, i);
    }
    if (status == VRAM_OK) {
        (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, cublas->library.name);
        return VRAM_OK;
    }
    struct vram_error error;
    vr_error_save(&error);
    close_library(arithmetic);
    vr_error_restore(&error);
    return status;
}

const struct vr_provider vr_cublas_provider = {
    "cuda",
    open_cublas,
    cublas_submit,
    close_library,
    INT_MAX,
    1u << VRAM_PRECISION_FP32 | 1u << VRAM_PRECISION_FP16 | 1u << VRAM_PRECISION_BF16 |
        1u << VRAM_PRECISION_INT8,
    true};
