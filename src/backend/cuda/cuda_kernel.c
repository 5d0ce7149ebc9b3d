/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_kernel.c: loads and launches code in the driver's own formats.
 *
 * A kernel is one module with one function. The driver gets a copy of the code that ends with a 0,
 * because PTX is text without a length. Arguments are passed as the launch has them: one pointer
 * per value, whose size the driver knows from the code.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

struct cuda_kernel {
    struct vr_cu_module *module;
    struct vr_cu_function *function;
};

static vram_status module_load(struct vr_cuda_device *cuda, const char *image, const char *entry,
                               struct cuda_kernel *kernel) {
    vram_status status = VR_CUDA(cuda, cuModuleLoadData, &kernel->module, image);
    if (status != VRAM_OK) {
        return status;
    }
    status = VR_CUDA(cuda, cuModuleGetFunction, &kernel->function, kernel->module, entry);
    if (status == VRAM_OK && !kernel->function) {
        status = vr_cuda_bad_result(cuda->api, VR_CU_CALL_cuModuleGetFunction, 0);
    }
    if (status != VRAM_OK) {
        vr_cuda_warn(cuda->api, VR_CU_CALL_cuModuleUnload,
                     cuda->api->cuModuleUnload(kernel->module));
    }
    return status;
}

static vram_status kernel_load(struct vr_device *device, const struct vram_kernel_source *source,
                               void **out) {
    struct vr_cuda_device *cuda = device->impl;
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    struct vr_cuda_scope scope;
    if (source->format != dialect->kernel_format) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, dialect->name, "kernel_load", 0,
                            "%s runs %s only", dialect->name, dialect->kernel_format_name);
    }
    struct cuda_kernel *kernel = vr_mem_alloc(1, sizeof *kernel, "kernel_load");
    char *image = kernel ? vr_mem_alloc(source->code_bytes + 1, 1, "kernel_load") : NULL;
    if (!image) {
        vr_mem_free(kernel);
        return VRAM_ERR_HOST_MEMORY;
    }
    memcpy(image, source->code, source->code_bytes);
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = module_load(cuda, image, source->entry, kernel);
        vr_cuda_leave(&scope);
    }
    vr_mem_free(image);
    if (status != VRAM_OK) {
        vr_mem_free(kernel);
        return status;
    }
    *out = kernel;
    return VRAM_OK;
}

static void kernel_unload(struct vr_device *device, void *loaded) {
    struct vr_cuda_device *cuda = device->impl;
    struct cuda_kernel *kernel = loaded;
    struct vr_cuda_scope scope;
    vram_error before;
    vr_error_save(&before);
    if (!vr_load(&device->lost, VR_ACQUIRE) &&
        vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED) == VRAM_OK) {
        vr_cuda_warn(cuda->api, VR_CU_CALL_cuModuleUnload,
                     cuda->api->cuModuleUnload(kernel->module));
        vr_cuda_leave(&scope);
    }
    vr_error_restore(&before);
    vr_mem_free(kernel);
}

static vram_status queue_launch(struct vr_queue *queue, void *loaded,
                                const struct vram_launch *launch) {
    const struct vr_cuda_device *cuda = queue->device->impl;
    const struct cuda_kernel *kernel = loaded;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_submit_begin(queue, &scope, VR_CU_CALL_cuLaunchKernel);
    if (status == VRAM_OK) {
        status = VR_CUDA(cuda, cuLaunchKernel, kernel->function, launch->groups[0],
                         launch->groups[1], launch->groups[2], launch->group_size[0],
                         launch->group_size[1], launch->group_size[2], 0, vr_cuda_stream(queue),
                         (void **)(uintptr_t)launch->arguments, NULL);
        vr_cuda_leave(&scope);
    }
    return status;
}

const struct vr_kernel_ops vr_cuda_kernel_ops = {
    .load = kernel_load,
    .unload = kernel_unload,
    .launch = queue_launch,
};
