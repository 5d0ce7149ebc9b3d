/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_device.c: a device's context, from opening to closing.
 *
 * Every handle on a device has its own context with that one device: memory then has one location,
 * and no driver migrates it. A program that wants to use memory of the library in its own commands
 * creates its queues in this context, which any queue of the library reports (CL_QUEUE_CONTEXT). Or
 * it passes its own context (vram/opencl.h), which every handle then retains.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"
#include "base/memory.h"

vram_status vr_opencl_queue_new(const struct vr_opencl_device *device, int32_t priority,
                                struct vr_cl_queue **queue) {
    const struct vr_opencl_api *api = device->api;
    vr_cl_int code = VR_CL_SUCCESS;
    struct vr_cl_queue *made;
    if (priority && device->physical->priorities) {
        const vr_cl_bits props[] = {
            VR_CL_QUEUE_PRIORITY_KHR,
            priority > 0 ? VR_CL_QUEUE_PRIORITY_HIGH_KHR : VR_CL_QUEUE_PRIORITY_LOW_KHR, 0};
        made = api->clCreateCommandQueueWithProperties(device->context, device->physical->id, props,
                                                       &code);
    } else {
        made = api->clCreateCommandQueue(device->context, device->physical->id, 0, &code);
    }
    vram_status status = vr_opencl_check("clCreateCommandQueue", code);
    if (status == VRAM_OK && !made) {
        status = vr_opencl_bad_result("clCreateCommandQueue", 0);
    }
    if (status == VRAM_OK) {
        *queue = made;
    }
    return status;
}

static vram_status context_make(struct vr_opencl_device *device, struct vr_cl_context *adopted) {
    vr_cl_int code = VR_CL_SUCCESS;
    if (adopted) {
        vram_status kept = VR_OPENCL(device, clRetainContext, adopted);
        device->context = kept == VRAM_OK ? adopted : NULL;
        return kept;
    }
    struct vr_cl_context *made =
        device->api->clCreateContext(NULL, 1, &device->physical->id, NULL, NULL, &code);
    vram_status status = vr_opencl_check("clCreateContext", code);
    if (status == VRAM_OK && !made) {
        status = vr_opencl_bad_result("clCreateContext", 0);
    }
    if (status == VRAM_OK) {
        device->context = made;
    }
    return status;
}

/* Closing cannot fail, so it leaves no failure in the caller's error record. */
static void device_close(struct vr_device *device) {
    struct vr_opencl_device *opencl = device->impl;
    if (!vr_load(&device->lost, VR_ACQUIRE)) {
        vr_opencl_warn("clReleaseCommandQueue",
                       opencl->api->clReleaseCommandQueue(opencl->service));
        vr_opencl_warn("clReleaseContext", opencl->api->clReleaseContext(opencl->context));
    }
    vr_opencl_scratch_give(opencl->scratch);
    vr_mutex_destroy(&opencl->memory);
    vr_mem_free(opencl);
    device->impl = NULL;
}

static const struct vr_device_ops device_ops = {
    .close = device_close,
    .alloc = vr_opencl_alloc,
    .free = vr_opencl_free,
};

vram_status vr_opencl_device_open(struct vr_device *device) {
    const struct vr_opencl *backend = device->backend->impl;
    struct vr_opencl_device *opencl = vr_mem_alloc(1, sizeof *opencl, "opencl_device_open");
    if (!opencl) {
        return VRAM_ERR_HOST_MEMORY;
    }
    opencl->scratch = vr_opencl_scratch_take();
    if (!opencl->scratch) {
        vr_mem_free(opencl);
        return VRAM_ERR_HOST_MEMORY;
    }
    opencl->api = &backend->api;
    opencl->physical = &backend->physicals[device->index];
    vr_mutex_init(&opencl->memory, VR_RANK_DRIVER);
    opencl->memory_bytes =
        device->info.memory_bytes.known ? device->info.memory_bytes.value : UINT64_MAX;
    vram_status status = context_make(opencl, backend->adopted);
    if (status == VRAM_OK) {
        status = vr_opencl_queue_new(opencl, 0, &opencl->service);
    }
    if (status != VRAM_OK) {
        if (opencl->context) {
            vr_opencl_warn("clReleaseContext", opencl->api->clReleaseContext(opencl->context));
        }
        vr_opencl_scratch_give(opencl->scratch);
        vr_mutex_destroy(&opencl->memory);
        vr_mem_free(opencl);
        return status;
    }
    uint32_t caps = device->info.caps;
    device->impl = opencl;
    device->ops = &device_ops;
    device->queue_ops = &vr_opencl_queue_ops;
    device->pinned = caps & VRAM_CAP_PINNED ? &vr_opencl_pinned_ops : NULL;
    device->managed = caps & VRAM_CAP_MANAGED ? &vr_opencl_managed_ops : NULL;
    device->kernel = caps & VRAM_CAP_KERNELS ? &vr_opencl_kernel_ops : NULL;
    device->handles = caps & VRAM_CAP_HANDLES ? &vr_opencl_handle_ops : NULL;
    device->objects = &vr_opencl_object_ops;
    return VRAM_OK;
}
