/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_queue.c: command queues, the library's own and the program's.
 *
 * Queues of the library are in order. A queue of the program may be out of order: then every
 * command is submitted between two barriers, so that it is in order with all commands of the
 * program, and signals and waits mean the same as elsewhere.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"
#include "base/memory.h"

enum { FINISH_TRIES = 3 }; /* how often a refused wait is repeated */

/* -------------------------------------------------------------- submissions */

static vram_status queue_barrier(const struct vr_queue *queue) {
    const struct vr_opencl_queue *impl = queue->impl;
    return impl->unordered ? VR_OPENCL(vr_opencl_device_of(queue), clEnqueueBarrierWithWaitList,
                                       impl->queue, 0, NULL, NULL)
                           : VRAM_OK;
}

/* NVIDIA's driver reports an invalid queue for every call once one of its kernels has crashed. */
static vram_status submit_check(const struct vr_queue *queue, const char *operation,
                                vr_cl_int code) {
    vram_status status = vr_opencl_check(operation, code);
    if (code == VR_CL_INVALID_COMMAND_QUEUE && !queue->adopted) {
        vram_error error;
        vr_error_save(&error);
        error.status = status = VRAM_ERR_DEVICE_LOST;
        vr_error_restore(&error);
    }
    return status;
}

vram_status vr_opencl_submit_begin(const struct vr_queue *queue) {
    return queue_barrier(queue);
}

/* The command is submitted even if what follows fails; if this flush fails, the next one starts
   it. */
vram_status vr_opencl_submit_end(const struct vr_queue *queue, const char *operation,
                                 vr_cl_int code) {
    const struct vr_opencl_queue *impl = queue->impl;
    vram_status status = submit_check(queue, operation, code);
    if (status == VRAM_OK) {
        vr_opencl_timeline_count(impl->timeline);
        status = queue_barrier(queue);
    }
    if (status == VRAM_OK) {
        vr_opencl_warn("clFlush", vr_opencl_device_of(queue)->api->clFlush(impl->queue));
    }
    return status;
}

/* ---------------------------------------------------------- making and ending */

static bool native_query(const struct vr_opencl_device *opencl, struct vr_cl_queue *queue,
                         vr_cl_uint what, void *value, size_t bytes, vram_status *status) {
    *status = VR_OPENCL(opencl, clGetCommandQueueInfo, queue, what, bytes, value, NULL);
    return *status == VRAM_OK;
}

/* A queue of another context cannot use this device's memory. */
static vram_status native_check(const struct vr_opencl_device *opencl, struct vr_cl_queue *queue,
                                bool *unordered) {
    struct vr_cl_context *context = NULL;
    struct vr_cl_device *device = NULL;
    vr_cl_bits props = 0;
    vram_status status;
    if (!queue) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "clGetCommandQueueInfo", 0,
                            "OpenCL has no default queue: NULL cannot be adopted");
    }
    if (!native_query(opencl, queue, VR_CL_QUEUE_CONTEXT, &context, sizeof context, &status) ||
        !native_query(opencl, queue, VR_CL_QUEUE_DEVICE, &device, sizeof device, &status) ||
        !native_query(opencl, queue, VR_CL_QUEUE_PROPERTIES, &props, sizeof props, &status)) {
        return status;
    }
    if (context != opencl->context || device != opencl->physical->id) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "clGetCommandQueueInfo", 0,
                            "the queue belongs to another context: make it in that of a queue of "
                            "this device (CL_QUEUE_CONTEXT of vram_queue_native)");
    }
    *unordered = (props & VR_CL_QUEUE_OUT_OF_ORDER) != 0;
    return VRAM_OK;
}

static vram_status native_retain(const struct vr_opencl_device *opencl, struct vr_queue *queue,
                                 struct vr_opencl_queue *impl) {
    vram_status status = native_check(opencl, queue->native, &impl->unordered);
    if (status == VRAM_OK) {
        status = VR_OPENCL(opencl, clRetainCommandQueue, queue->native);
    }
    if (status == VRAM_OK) {
        impl->queue = queue->native;
    }
    return status;
}

static vram_status queue_make(struct vr_queue *queue, int32_t priority) {
    struct vr_opencl_device *opencl = vr_opencl_device_of(queue);
    struct vr_opencl_queue *impl = vr_mem_alloc(1, sizeof *impl, "opencl_queue_create");
    if (!impl) {
        return VRAM_ERR_HOST_MEMORY;
    }
    impl->timeline = vr_opencl_timeline_take(opencl->api);
    vram_status status = VRAM_ERR_HOST_MEMORY;
    if (impl->timeline) {
        status = queue->adopted ? native_retain(opencl, queue, impl)
                                : vr_opencl_queue_new(opencl, priority, &impl->queue);
    }
    if (status != VRAM_OK) {
        if (impl->timeline) {
            vr_opencl_timeline_end(impl->timeline, false);
        }
        vr_mem_free(impl);
        return status;
    }
    queue->impl = impl;
    queue->native = impl->queue;
    queue->word = vr_opencl_timeline_word(impl->timeline);
    return VRAM_OK;
}

static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    return queue_make(queue, options ? options->priority : 0);
}

static vram_status queue_adopt(struct vr_queue *queue) {
    return queue_make(queue, 0);
}

/* The caller frees the memory of this work next, so a driver that refuses to wait is asked
   again. */
static void queue_finish(const struct vr_opencl_device *opencl, struct vr_cl_queue *queue) {
    vr_cl_int code = opencl->api->clFinish(queue);
    for (int i = 0; i < FINISH_TRIES && code != VR_CL_SUCCESS; i++) {
        code = opencl->api->clFinish(queue);
    }
    vr_opencl_warn("clFinish", code);
}

/* A queue of the program is waited for only if signals of the library are pending. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_opencl_device *opencl = vr_opencl_device_of(queue);
    struct vr_opencl_queue *impl = queue->impl;
    bool lost = vr_load(&queue->device->lost, VR_ACQUIRE);
    if (!lost) {
        if (!queue->adopted || vr_opencl_timeline_busy(impl->timeline)) {
            queue_finish(opencl, impl->queue);
        }
        vr_opencl_warn("clReleaseCommandQueue", opencl->api->clReleaseCommandQueue(impl->queue));
    }
    vr_opencl_timeline_end(impl->timeline, lost);
    vr_mem_free(impl);
    queue->impl = NULL;
}

const struct vr_queue_ops vr_opencl_queue_ops = {
    .create = queue_create,
    .adopt = queue_adopt,
    .destroy = queue_destroy,
    .upload = vr_opencl_upload,
    .download = vr_opencl_download,
    .copy = vr_opencl_copy,
    .copy_rows = vr_opencl_copy_rows,
    .fill = vr_opencl_fill,
    .signal = vr_opencl_signal,
    .after = vr_opencl_after,
    .poll = vr_opencl_poll,
};
