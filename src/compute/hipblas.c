/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hipblas.c: products by hipBLAS, with its interface declared here. As cublas.c, except that HIP
 * has a current device instead of contexts, and that only single precision is supported: the types
 * of the call for others changed between versions. Not run on hardware yet.
 */
#include "compute/arithmetic.h"

#include "base/error.h"
#include "base/loader.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/text.h"
#include "compute/setting.h"
#include "vram/extension.h"

#include <limits.h>
#include <string.h>

enum { OP_N = 111, OP_T = 112 };

struct hipblas_api {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*sgemm)(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
                 const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
                 int ldc);
};

struct runtime_api {
    int (*get_device)(int *device);
    int (*set_device)(int device);
};

static const struct vr_symbol hipblas_symbols[] = {
    {"hipblasCreate", NULL, offsetof(struct hipblas_api, create), false},
    {"hipblasDestroy", NULL, offsetof(struct hipblas_api, destroy), false},
    {"hipblasSetStream", NULL, offsetof(struct hipblas_api, set_stream), false},
    {"hipblasSgemm", NULL, offsetof(struct hipblas_api, sgemm), false},
};

static const struct vr_symbol runtime_symbols[] = {
    {"hipGetDevice", NULL, offsetof(struct runtime_api, get_device), false},
    {"hipSetDevice", NULL, offsetof(struct runtime_api, set_device), false},
};

struct hipblas {
    struct vr_library library, runtime;
    struct hipblas_api api;
    struct runtime_api hip;
    int device;
    struct vr_mutex lock; /* held around calls with the handle */
    void *handle;
};

static vram_status hipblas_status(int code, const char *call) {
    if (code == 0) {
        return VRAM_OK;
    }
    vram_status status = code == 2   ? VRAM_ERR_DEVICE_MEMORY
                         : code == 7 ? VRAM_ERR_UNSUPPORTED
                                     : VRAM_ERR_BACKEND;
    return vr_error_set(status, "hip", call, code, "hipBLAS answered %d", code);
}

/* Makes the device current; *before is the previous one. */
static vram_status device_enter(const struct hipblas *hipblas, int *before) {
    int code = hipblas->hip.get_device(before);
    if (code == 0) {
        code = hipblas->hip.set_device(hipblas->device);
    }
    return code == 0 ? VRAM_OK
                     : vr_error_set(VRAM_ERR_BACKEND, "hip", "hipSetDevice", code,
                                    "the device cannot be made current: %d", code);
}

/* hipBLAS stores matrices by columns: swaps A and B. */
static vram_status hipblas_call(struct hipblas *hipblas, void *stream,
                                const struct vr_device_gemm *gemm) {
    static const float one = 1, zero = 0;
    const float *a = (const float *)(uintptr_t)vr_matrix_addr(&gemm->a, sizeof(float));
    const float *b = (const float *)(uintptr_t)vr_matrix_addr(&gemm->b, sizeof(float));
    float *c = (float *)(uintptr_t)vr_matrix_addr(&gemm->c, sizeof(float));
    vr_mutex_lock(&hipblas->lock);
    vram_status status =
        hipblas_status(hipblas->api.set_stream(hipblas->handle, stream), "hipblasSetStream");
    if (status == VRAM_OK) {
        status =
            hipblas_status(hipblas->api.sgemm(hipblas->handle, gemm->trans_b ? OP_T : OP_N,
                                              gemm->trans_a ? OP_T : OP_N, (int)gemm->n,
                                              (int)gemm->m, (int)gemm->k, &one, b, (int)gemm->ldb,
                                              a, (int)gemm->lda, &zero, c, (int)gemm->ldc),
                           "hipblasSgemm");
    }
    vr_mutex_unlock(&hipblas->lock);
    return status;
}

struct hipblas_work {
    struct hipblas *hipblas;
    const struct vr_device_gemm *gemm;
};

static vram_status submit_to(void *user, void *stream) {
    const struct hipblas_work *work = user;
    int before;
    vram_status status = device_enter(work->hipblas, &before);
    if (status == VRAM_OK) {
        status = hipblas_call(work->hipblas, stream, work->gemm);
        (void)work->hipblas->hip.set_device(before);
    }
    return status;
}

static vram_status hipblas_submit(struct vr_arithmetic *arithmetic, uint32_t slot,
                                  vram_queue *queue, const struct vr_device_gemm *gemm) {
    struct hipblas_work work = {arithmetic->library, gemm};
    (void)slot;
    return vram_queue_submit(queue, submit_to, &work);
}

static void close_library(struct vr_arithmetic *arithmetic) {
    struct hipblas *hipblas = arithmetic->library;
    int before;
    if (hipblas->handle && device_enter(hipblas, &before) == VRAM_OK) {
        (void)hipblas->api.destroy(hipblas->handle);
        (void)hipblas->hip.set_device(before);
    }
    vr_mutex_destroy(&hipblas->lock);
    vr_library_close(&hipblas->runtime);
    vr_mem_free(hipblas);
    arithmetic->library = NULL;
}

/* hipBLAS is linked with its runtime: it does not know streams of another one, which an option may
   name. */
static vram_status same_runtime(const struct hipblas *hipblas) {
    void *own = vr_os_library_symbol(hipblas->library.native, "hipSetDevice");
    void *ours = vr_os_library_symbol(hipblas->runtime.native, "hipSetDevice");
    return !own || own == ours
               ? VRAM_OK
               : vr_fail_in(VRAM_ERR_UNSUPPORTED, "dlopen",
                            "hipBLAS works with another runtime than the device, which uses %s",
                            hipblas->runtime.name);
}

static vram_status open_libraries(struct hipblas *hipblas, const char *path) {
    static const char *const names[] = {"libhipblas.so.3", "libhipblas.so.2", "libhipblas.so.1",
                                        NULL};
    static const char *const runtimes[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                           "libamdhip64.so.5", NULL};
    char runtime[VR_SETTING_MAX];
    const char *const chosen[] = {path, NULL}, *const chosen_runtime[] = {runtime, NULL};
    vr_setting_text("hip_library", runtime);
    vram_status status = vr_library_open(
        &hipblas->runtime, "hip", *runtime ? chosen_runtime : runtimes, runtime_symbols,
        sizeof runtime_symbols / sizeof runtime_symbols[0], &hipblas->hip);
    if (status == VRAM_OK) {
        status = vr_library_open(&hipblas->library, "hip", *path ? chosen : names, hipblas_symbols,
                                 sizeof hipblas_symbols / sizeof hipblas_symbols[0], &hipblas->api);
    }
    if (status == VRAM_OK) {
        status = same_runtime(hipblas);
    }
    return status;
}

static vram_status open_hipblas(struct vr_arithmetic *arithmetic) {
    VR_OPERATION("hipblasCreate");
    char path[VR_SETTING_MAX];
    int before;
    vr_setting_text("hipblas_library", path);
    if (strcmp(path, "none") == 0) {
        return vr_fail_in(VRAM_ERR_UNSUPPORTED, "dlopen", "hipblas_library is none");
    }
    struct hipblas *hipblas = vr_mem_alloc(1, sizeof *hipblas, vr_operation());
    if (!hipblas) {
        return VRAM_ERR_HOST_MEMORY;
    }
    arithmetic->library = hipblas;
    hipblas->device = (int)arithmetic->info.backend_index;
    vr_mutex_init(&hipblas->lock, VR_RANK_DRIVER);
    vram_status status = open_libraries(hipblas, path);
    if (status == VRAM_OK && (status = device_enter(hipblas, &before)) == VRAM_OK) {
        status = hipblas_status(hipblas->api.create(&hipblas->handle), "hipblasCreate");
        (void)hipblas->hip.set_device(before);
    }
    if (status == VRAM_OK) {
        (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, hipblas->library.name);
        return VRAM_OK;
    }
    struct vram_error error;
    vr_error_save(&error);
    close_library(arithmetic);
    vr_error_restore(&error);
    return status;
}

const struct vr_provider vr_hipblas_provider = {
    "hip", open_hipblas, hipblas_submit, close_library, INT_MAX, 1u << VRAM_PRECISION_FP32, false};
