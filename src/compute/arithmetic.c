/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arithmetic.c: the table of providers that compute products on a device, and the choice between
 * them.
 */
#include "compute/arithmetic.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/text.h"

#include <string.h>

#define FLOATS    (1u << VRAM_PRECISION_FP32 | 1u << VRAM_PRECISION_FP16 | 1u << VRAM_PRECISION_BF16)
#define ALL_TYPES (FLOATS | 1u << VRAM_PRECISION_INT8)

/* The library's own kernels. They close nothing: all they hold is `kernel`. */
static const struct vr_provider c_host = {
    "host", vr_kernel_open_c, vr_kernel_submit_c, NULL, UINT64_MAX, ALL_TYPES, false};
static const struct vr_provider c_sim = {
    "sim", vr_kernel_open_c, vr_kernel_submit_c, NULL, UINT64_MAX, ALL_TYPES, false};
static const struct vr_provider ptx = {
    "cuda", vr_kernel_open, vr_kernel_submit, NULL, VR_KERNEL_LINES_MAX, ALL_TYPES, false};
static const struct vr_provider opencl = {
    "opencl", vr_kernel_open, vr_kernel_submit, NULL, VR_KERNEL_LINES_MAX, FLOATS, false};
static const struct vr_provider spirv = {
    "vulkan", vr_kernel_open, vr_kernel_submit, NULL, VR_KERNEL_LINES_MAX, FLOATS, false};

static const struct vr_provider *const providers[] = {&vr_cublas_provider,
                                                      &vr_hipblas_provider,
                                                      &vr_clblast_provider,
                                                      &ptx,
                                                      &opencl,
                                                      &spirv,
                                                      &c_host,
                                                      &c_sim};

/* Whether to ask the next provider: this one is missing, or cannot serve the device, or is another
   vendor's library that failed to start. */
static bool try_next(const struct vr_provider *provider, vram_status status) {
    bool library = provider->close != NULL;
    return status == VRAM_ERR_UNSUPPORTED || status == VRAM_ERR_NO_DRIVER ||
           (library && status == VRAM_ERR_BACKEND);
}

static void close_kernels(struct vr_arithmetic *arithmetic) {
    vram_kernel_destroy(arithmetic->kernel);
    vram_kernel_destroy(arithmetic->kernel_int8);
    arithmetic->kernel = arithmetic->kernel_int8 = NULL;
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
        close_kernels(arithmetic);
        if (!try_next(providers[i], status)) {
            return status;
        }
        (void)vr_text_copy(arithmetic->name, sizeof arithmetic->name, vram_error_get()->text);
    }
    vr_error_restore(&error);
    return VRAM_OK;
}

void vr_arithmetic_close(struct vr_arithmetic *arithmetic) {
    VR_UNCANCELLED;
    if (arithmetic->provider && arithmetic->provider->close) {
        arithmetic->provider->close(arithmetic);
    }
    close_kernels(arithmetic);
    arithmetic->provider = NULL;
}
