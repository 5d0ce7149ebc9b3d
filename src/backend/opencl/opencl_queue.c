/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_queue.c: command queues, the library's own and the program's; copies, fills and
 * prefetches.
 *
 * Queues of the library's own are in order. One that the program made may be out of order: then
 * every command of ours stands between two barriers, so that it is in order with all that the
 * program gives the queue, and markers and waits mean what they mean elsewhere.
 *
 * Copies between buffers use the buffer of the whole segment, with offsets. Its context has one
 * device, so there is one copy of the memory, and what runs at the same time touches other parts of
 * it.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"
#include "base/memory.h"

enum { FINISHES = 3 }; /* how often a wait that was refused is repeated */

/* -------------------------------------------------------------- submissions */

static struct vr_opencl_device *opencl_of(const struct vr_queue *queue) {
    return queue->device->impl;
}

static vram_status barrier(const struct vr_queue *queue) {
    const struct vr_opencl_queue *impl = queue->impl;
    return impl->unordered ? VR_OPENCL(opencl_of(queue), clEnqueueBarrierWithWaitList, impl->queue,
                                       0, NULL, NULL)
                           : VRAM_OK;
}

/* NVIDIA's driver answers everything with an invalid queue once a kernel of it has crashed. */
static vram_status check_submission(const struct vr_queue *queue, const char *operation,
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
    return barrier(queue);
}

/* The command is submitted, whatever becomes of what comes behind it; the driver sees to it at the
   next flush if not at this one. */
vram_status vr_opencl_submit_end(const struct vr_queue *queue, const char *operation,
                                 vr_cl_int code) {
    const struct vr_opencl_queue *impl = queue->impl;
    vram_status status = check_submission(queue, operation, code);
    if (status == VRAM_OK) {
        vr_opencl_line_count(impl->line);
        status = barrier(queue);
    }
    if (status == VRAM_OK) {
        vr_opencl_shrug("clFlush", opencl_of(queue)->api->clFlush(impl->queue));
    }
    return status;
}

/* --------------------------------------------------------- copies and fills */

static vr_cl_int pointer_copy(const struct vr_queue *queue, void *to, const void *from,
                              uint64_t bytes) {
    const struct vr_opencl_device *opencl = opencl_of(queue);
    const struct vr_opencl_queue *impl = queue->impl;
    if (opencl->unit->way == VR_OPENCL_USM) {
        return opencl->unit->usm.clEnqueueMemcpyINTEL(impl->queue, 0, to, from, bytes, 0, NULL,
                                                      NULL);
    }
    return opencl->api->clEnqueueSVMMemcpy(impl->queue, 0, to, from, bytes, 0, NULL, NULL);
}

static const char *pointer_copy_name(const struct vr_queue *queue) {
    return opencl_of(queue)->unit->way == VR_OPENCL_USM ? "clEnqueueMemcpyINTEL"
                                                        : "clEnqueueSVMMemcpy";
}

/* Memory of the program's provider need not be ours, and buffers are found by their windows only.
   Where memory is pointers, those that the program made are buffers all the same. */
static bool is_buffer(const struct vr_queue *queue, vram_addr addr,
                      struct vr_opencl_memory **memory, uint64_t *offset) {
    *memory = vr_opencl_buffer_at(addr, offset);
    return *memory && vr_load(&(*memory)->device, VR_ACQUIRE) == opencl_of(queue);
}

static vram_status write_buffer(struct vr_queue *queue, const struct vr_opencl_memory *memory,
                                uint64_t offset, const void *from, uint64_t bytes) {
    const struct vr_opencl_queue *impl = queue->impl;
    vr_cl_int code = opencl_of(queue)->api->clEnqueueWriteBuffer(
        impl->queue, vr_load(&memory->buffer, VR_RELAXED), 0, offset, bytes, from, 0, NULL, NULL);
    return vr_opencl_submit_end(queue, "clEnqueueWriteBuffer", code);
}

static vram_status read_buffer(struct vr_queue *queue, const struct vr_opencl_memory *memory,
                               uint64_t offset, void *to, uint64_t bytes) {
    const struct vr_opencl_queue *impl = queue->impl;
    vr_cl_int code = opencl_of(queue)->api->clEnqueueReadBuffer(
        impl->queue, vr_load(&memory->buffer, VR_RELAXED), 0, offset, bytes, to, 0, NULL, NULL);
    return vr_opencl_submit_end(queue, "clEnqueueReadBuffer", code);
}

/* Pointers need calls that a driver with nothing but buffers lacks; managed memory has them
   there. */
static vram_status copy_pointers(struct vr_queue *queue, void *to, const void *from,
                                 uint64_t bytes) {
    const struct vr_opencl_unit *unit = opencl_of(queue)->unit;
    if (unit->way == VR_OPENCL_BUFFERS && !unit->fine_svm) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "copy", 0,
                            "the memory is no buffer of this device");
    }
    return vr_opencl_submit_end(queue, pointer_copy_name(queue),
                                pointer_copy(queue, to, from, bytes));
}

static vram_status queue_upload(struct vr_queue *queue, vram_addr to, const void *from,
                                uint64_t bytes) {
    struct vr_opencl_memory *memory;
    uint64_t offset;
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    return is_buffer(queue, to, &memory, &offset)
               ? write_buffer(queue, memory, offset, from, bytes)
               : copy_pointers(queue, (void *)(uintptr_t)to, from, bytes);
}

static vram_status queue_download(struct vr_queue *queue, void *to, vram_addr from,
                                  uint64_t bytes) {
    struct vr_opencl_memory *memory;
    uint64_t offset;
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    return is_buffer(queue, from, &memory, &offset)
               ? read_buffer(queue, memory, offset, to, bytes)
               : copy_pointers(queue, to, (const void *)(uintptr_t)from, bytes);
}

/* Managed memory is the host's too: to and from buffers it is copied as such. */
static vram_status queue_copy(struct vr_queue *queue, vram_addr to, vram_addr from,
                              uint64_t bytes) {
    const struct vr_opencl_queue *impl = queue->impl;
    struct vr_opencl_memory *target, *source;
    uint64_t target_at = 0, source_at = 0;
    bool to_buffer = is_buffer(queue, to, &target, &target_at);
    bool from_buffer = is_buffer(queue, from, &source, &source_at);
    if (to_buffer && !from_buffer) {
        return queue_upload(queue, to, (const void *)(uintptr_t)from, bytes);
    }
    if (from_buffer && !to_buffer) {
        return queue_download(queue, (void *)(uintptr_t)to, from, bytes);
    }
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    if (!to_buffer) {
        return copy_pointers(queue, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    }
    return vr_opencl_submit_end(
        queue, "clEnqueueCopyBuffer",
        opencl_of(queue)->api->clEnqueueCopyBuffer(impl->queue, source->buffer, target->buffer,
                                                   source_at, target_at, bytes, 0, NULL, NULL));
}

static vram_status fill_pointer(struct vr_queue *queue, vram_addr to, const void *pattern,
                                uint32_t pattern_bytes, uint64_t bytes) {
    const struct vr_opencl_device *opencl = opencl_of(queue);
    const struct vr_opencl_queue *impl = queue->impl;
    void *at = (void *)(uintptr_t)to;
    if (opencl->unit->way == VR_OPENCL_USM) {
        return vr_opencl_submit_end(queue, "clEnqueueMemFillINTEL",
                                    opencl->unit->usm.clEnqueueMemFillINTEL(impl->queue, at,
                                                                            pattern, pattern_bytes,
                                                                            bytes, 0, NULL, NULL));
    }
    if (opencl->unit->way == VR_OPENCL_BUFFERS && !opencl->unit->fine_svm) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "fill", 0,
                            "the memory is no buffer of this device");
    }
    return vr_opencl_submit_end(queue, "clEnqueueSVMMemFill",
                                opencl->api->clEnqueueSVMMemFill(
                                    impl->queue, at, pattern, pattern_bytes, bytes, 0, NULL, NULL));
}

/* The pattern's low bytes come first on every machine that has an OpenCL driver. */
static vram_status queue_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                              uint32_t pattern_bytes, uint64_t bytes) {
    const struct vr_opencl_queue *impl = queue->impl;
    struct vr_opencl_memory *memory;
    uint64_t offset;
    unsigned char unit[4];
    for (unsigned i = 0; i < 4; i++) {
        unit[i] = (unsigned char)(pattern >> 8 * i);
    }
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    if (!is_buffer(queue, to, &memory, &offset)) {
        return fill_pointer(queue, to, unit, pattern_bytes, bytes);
    }
    return vr_opencl_submit_end(queue, "clEnqueueFillBuffer",
                                opencl_of(queue)->api->clEnqueueFillBuffer(
                                    impl->queue, vr_load(&memory->buffer, VR_RELAXED), unit,
                                    pattern_bytes, offset, bytes, 0, NULL, NULL));
}

/* A hint: drivers without the call, and memory that is not shared virtual memory, go without. */
vram_status vr_opencl_prefetch(struct vr_queue *queue, vram_addr addr, uint64_t bytes,
                               bool to_host) {
    const struct vr_opencl_device *opencl = opencl_of(queue);
    const struct vr_opencl_queue *impl = queue->impl;
    const void *pointers[] = {(const void *)(uintptr_t)addr};
    const size_t sizes[] = {bytes};
    if (opencl->unit->way == VR_OPENCL_USM || !opencl->api->clEnqueueSVMMigrateMem) {
        return VRAM_OK;
    }
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    return vr_opencl_submit_end(
        queue, "clEnqueueSVMMigrateMem",
        opencl->api->clEnqueueSVMMigrateMem(impl->queue, 1, pointers, sizes,
                                            to_host ? VR_CL_MIGRATE_HOST : 0, 0, NULL, NULL));
}

/* ---------------------------------------------------------- making and ending */

static bool ask_queue(const struct vr_opencl_device *opencl, struct vr_cl_queue *queue,
                      vr_cl_uint what, void *value, size_t bytes, vram_status *status) {
    *status = VR_OPENCL(opencl, clGetCommandQueueInfo, queue, what, bytes, value, NULL);
    return *status == VRAM_OK;
}

/* A queue of another context could not use this device's memory. */
static vram_status queue_examine(const struct vr_opencl_device *opencl, struct vr_cl_queue *queue,
                                 bool *unordered) {
    struct vr_cl_context *context = NULL;
    struct vr_cl_device *device = NULL;
    vr_cl_bits props = 0;
    vram_status status;
    if (!queue) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "clGetCommandQueueInfo", 0,
                            "OpenCL has no default queue: NULL cannot be adopted");
    }
    if (!ask_queue(opencl, queue, VR_CL_QUEUE_CONTEXT, &context, sizeof context, &status) ||
        !ask_queue(opencl, queue, VR_CL_QUEUE_DEVICE, &device, sizeof device, &status) ||
        !ask_queue(opencl, queue, VR_CL_QUEUE_PROPERTIES, &props, sizeof props, &status)) {
        return status;
    }
    if (context != opencl->context || device != opencl->unit->id) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "clGetCommandQueueInfo", 0,
                            "the queue belongs to another context: make it in that of a queue of "
                            "this device (CL_QUEUE_CONTEXT of vram_queue_native)");
    }
    *unordered = (props & VR_CL_QUEUE_OUT_OF_ORDER) != 0;
    return VRAM_OK;
}

static vram_status queue_retain(const struct vr_opencl_device *opencl, struct vr_queue *queue,
                                struct vr_opencl_queue *impl) {
    vram_status status = queue_examine(opencl, queue->native, &impl->unordered);
    if (status == VRAM_OK) {
        status = VR_OPENCL(opencl, clRetainCommandQueue, queue->native);
    }
    if (status == VRAM_OK) {
        impl->queue = queue->native;
    }
    return status;
}

static vram_status queue_make(struct vr_queue *queue, int32_t priority) {
    struct vr_opencl_device *opencl = opencl_of(queue);
    struct vr_opencl_queue *impl = vr_mem_alloc(1, sizeof *impl, "opencl_queue_create");
    if (!impl) {
        return VRAM_ERR_HOST_MEMORY;
    }
    impl->line = vr_opencl_line_take(opencl->api);
    vram_status status = VRAM_ERR_HOST_MEMORY;
    if (impl->line) {
        status = queue->adopted ? queue_retain(opencl, queue, impl)
                                : vr_opencl_queue_new(opencl, priority, &impl->queue);
    }
    if (status != VRAM_OK) {
        if (impl->line) {
            vr_opencl_line_leave(impl->line, false);
        }
        vr_mem_free(impl);
        return status;
    }
    queue->impl = impl;
    queue->native = impl->queue;
    queue->word = vr_opencl_line_word(impl->line);
    return VRAM_OK;
}

static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    return queue_make(queue, options ? options->priority : 0);
}

static vram_status queue_adopt(struct vr_queue *queue) {
    return queue_make(queue, 0);
}

/* The memory under its work goes back next: a driver that refuses to wait is asked more than
   once. */
static void queue_finish(const struct vr_opencl_device *opencl, struct vr_cl_queue *queue) {
    vr_cl_int code = opencl->api->clFinish(queue);
    for (int i = 0; i < FINISHES && code != VR_CL_SUCCESS; i++) {
        code = opencl->api->clFinish(queue);
    }
    vr_opencl_shrug("clFinish", code);
}

/* A queue that the program made is waited for only as far as markers of ours are in it. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_opencl_device *opencl = opencl_of(queue);
    struct vr_opencl_queue *impl = queue->impl;
    bool lost = vr_load(&queue->device->lost, VR_ACQUIRE);
    if (!lost) {
        if (!queue->adopted || vr_opencl_line_busy(impl->line)) {
            queue_finish(opencl, impl->queue);
        }
        vr_opencl_shrug("clReleaseCommandQueue", opencl->api->clReleaseCommandQueue(impl->queue));
    }
    vr_opencl_line_leave(impl->line, lost);
    vr_mem_free(impl);
    queue->impl = NULL;
}

const struct vr_queue_ops vr_opencl_queue_ops = {
    .create = queue_create,
    .adopt = queue_adopt,
    .destroy = queue_destroy,
    .upload = queue_upload,
    .download = queue_download,
    .copy = queue_copy,
    .copy_rows = vr_opencl_copy_rows,
    .fill = queue_fill,
    .signal = vr_opencl_signal,
    .after = vr_opencl_after,
    .poll = vr_opencl_poll,
};
