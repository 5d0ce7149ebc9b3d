/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_copy.c: copies, fills, prefetches, and rows by one command.
 *
 * Copies between buffers use the buffer of the whole segment, with offsets. Its context has one
 * device, so there is one copy of the memory, and commands that run at the same time use different
 * parts of it.
 *
 * OpenCL has commands for rows of buffers only: rows of shared virtual memory are copied one by
 * one, and so are rows that it refuses. Within one buffer, which contains many blocks of a pool, it
 * copies only rows with equal pitches.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"

/* --------------------------------------------------------- copies and fills */

static vr_cl_int pointer_copy(const struct vr_queue *queue, void *to, const void *from,
                              uint64_t bytes) {
    const struct vr_opencl_device *opencl = vr_opencl_device_of(queue);
    const struct vr_opencl_queue *impl = queue->impl;
    if (opencl->physical->memory_kind == VR_OPENCL_USM) {
        return opencl->physical->usm.clEnqueueMemcpyINTEL(impl->queue, 0, to, from, bytes, 0, NULL,
                                                          NULL);
    }
    return opencl->api->clEnqueueSVMMemcpy(impl->queue, 0, to, from, bytes, 0, NULL, NULL);
}

static const char *pointer_copy_name(const struct vr_queue *queue) {
    return vr_opencl_device_of(queue)->physical->memory_kind == VR_OPENCL_USM
               ? "clEnqueueMemcpyINTEL"
               : "clEnqueueSVMMemcpy";
}

/* Memory of a program's provider may be unknown here; buffers are found by their windows only. Even
   if memory is pointers, an object of the program is a buffer. */
static bool is_buffer(const struct vr_queue *queue, vram_addr addr,
                      struct vr_opencl_memory **memory, uint64_t *offset) {
    *memory = vr_opencl_buffer_at(addr, offset);
    return *memory && vr_load(&(*memory)->device, VR_ACQUIRE) == vr_opencl_device_of(queue);
}

static vram_status buffer_write(struct vr_queue *queue, const struct vr_opencl_memory *memory,
                                uint64_t offset, const void *from, uint64_t bytes) {
    const struct vr_opencl_queue *impl = queue->impl;
    vr_cl_int code = vr_opencl_device_of(queue)->api->clEnqueueWriteBuffer(
        impl->queue, vr_load(&memory->buffer, VR_RELAXED), 0, offset, bytes, from, 0, NULL, NULL);
    return vr_opencl_submit_end(queue, "clEnqueueWriteBuffer", code);
}

static vram_status buffer_read(struct vr_queue *queue, const struct vr_opencl_memory *memory,
                               uint64_t offset, void *to, uint64_t bytes) {
    const struct vr_opencl_queue *impl = queue->impl;
    vr_cl_int code = vr_opencl_device_of(queue)->api->clEnqueueReadBuffer(
        impl->queue, vr_load(&memory->buffer, VR_RELAXED), 0, offset, bytes, to, 0, NULL, NULL);
    return vr_opencl_submit_end(queue, "clEnqueueReadBuffer", code);
}

/* Pointers need calls that a driver with only buffers lacks; with managed memory it has them. */
static vram_status pointers_copy(struct vr_queue *queue, void *to, const void *from,
                                 uint64_t bytes) {
    const struct vr_opencl_physical *physical = vr_opencl_device_of(queue)->physical;
    if (physical->memory_kind == VR_OPENCL_BUFFERS && !physical->fine_svm) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "copy", 0,
                            "the memory is no buffer of this device");
    }
    return vr_opencl_submit_end(queue, pointer_copy_name(queue),
                                pointer_copy(queue, to, from, bytes));
}

vram_status vr_opencl_upload(struct vr_queue *queue, vram_addr to, const void *from,
                             uint64_t bytes) {
    struct vr_opencl_memory *memory;
    uint64_t offset;
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    return is_buffer(queue, to, &memory, &offset)
               ? buffer_write(queue, memory, offset, from, bytes)
               : pointers_copy(queue, (void *)(uintptr_t)to, from, bytes);
}

vram_status vr_opencl_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    struct vr_opencl_memory *memory;
    uint64_t offset;
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    return is_buffer(queue, from, &memory, &offset)
               ? buffer_read(queue, memory, offset, to, bytes)
               : pointers_copy(queue, to, (const void *)(uintptr_t)from, bytes);
}

/* Managed memory is host memory too: copies between it and buffers are uploads and downloads. */
vram_status vr_opencl_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    const struct vr_opencl_queue *impl = queue->impl;
    struct vr_opencl_memory *target, *source;
    uint64_t target_at = 0, source_at = 0;
    bool to_buffer = is_buffer(queue, to, &target, &target_at);
    bool from_buffer = is_buffer(queue, from, &source, &source_at);
    if (to_buffer && !from_buffer) {
        return vr_opencl_upload(queue, to, (const void *)(uintptr_t)from, bytes);
    }
    if (from_buffer && !to_buffer) {
        return vr_opencl_download(queue, (void *)(uintptr_t)to, from, bytes);
    }
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    if (!to_buffer) {
        return pointers_copy(queue, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    }
    return vr_opencl_submit_end(queue, "clEnqueueCopyBuffer",
                                vr_opencl_device_of(queue)->api->clEnqueueCopyBuffer(
                                    impl->queue, source->buffer, target->buffer, source_at,
                                    target_at, bytes, 0, NULL, NULL));
}

static vram_status pointer_fill(struct vr_queue *queue, vram_addr to, const void *pattern,
                                uint32_t pattern_bytes, uint64_t bytes) {
    const struct vr_opencl_device *opencl = vr_opencl_device_of(queue);
    const struct vr_opencl_queue *impl = queue->impl;
    void *at = (void *)(uintptr_t)to;
    if (opencl->physical->memory_kind == VR_OPENCL_USM) {
        return vr_opencl_submit_end(
            queue, "clEnqueueMemFillINTEL",
            opencl->physical->usm.clEnqueueMemFillINTEL(impl->queue, at, pattern, pattern_bytes,
                                                        bytes, 0, NULL, NULL));
    }
    if (opencl->physical->memory_kind == VR_OPENCL_BUFFERS && !opencl->physical->fine_svm) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "fill", 0,
                            "the memory is no buffer of this device");
    }
    return vr_opencl_submit_end(queue, "clEnqueueSVMMemFill",
                                opencl->api->clEnqueueSVMMemFill(
                                    impl->queue, at, pattern, pattern_bytes, bytes, 0, NULL, NULL));
}

/* Little-endian, as every machine with an OpenCL driver. */
vram_status vr_opencl_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                           uint32_t pattern_bytes, uint64_t bytes) {
    const struct vr_opencl_queue *impl = queue->impl;
    struct vr_opencl_memory *memory;
    uint64_t offset;
    unsigned char repeated[4];
    for (unsigned i = 0; i < 4; i++) {
        repeated[i] = (unsigned char)(pattern >> 8 * i);
    }
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    if (!is_buffer(queue, to, &memory, &offset)) {
        return pointer_fill(queue, to, repeated, pattern_bytes, bytes);
    }
    return vr_opencl_submit_end(queue, "clEnqueueFillBuffer",
                                vr_opencl_device_of(queue)->api->clEnqueueFillBuffer(
                                    impl->queue, vr_load(&memory->buffer, VR_RELAXED), repeated,
                                    pattern_bytes, offset, bytes, 0, NULL, NULL));
}

/* A hint: without the call, or without shared virtual memory, it does nothing. The call migrates to
   the queue's device alone. */
vram_status vr_opencl_prefetch(struct vr_queue *queue, vram_addr addr, uint64_t bytes,
                               int32_t target) {
    const struct vr_opencl_device *opencl = vr_opencl_device_of(queue);
    const struct vr_opencl_queue *impl = queue->impl;
    const void *pointers[] = {(const void *)(uintptr_t)addr};
    const size_t sizes[] = {bytes};
    if (target >= 0 && (uint32_t)target != queue->device->index) {
        return vr_fail_in(VRAM_ERR_UNSUPPORTED, "clEnqueueSVMMigrateMem",
                          "memory migrates to the device of the queue alone, not to device %d",
                          (int)target);
    }
    if (opencl->physical->memory_kind == VR_OPENCL_USM || !opencl->api->clEnqueueSVMMigrateMem) {
        return VRAM_OK;
    }
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    return vr_opencl_submit_end(
        queue, "clEnqueueSVMMigrateMem",
        opencl->api->clEnqueueSVMMigrateMem(impl->queue, 1, pointers, sizes,
                                            target < 0 ? VR_CL_MIGRATE_HOST : 0, 0, NULL, NULL));
}

/* -------------------------------------------------------------------- rows */

/* One side of the copy: a buffer, or host memory. */
struct rows_side {
    struct vr_cl_memory *buffer; /* NULL: host memory */
    size_t origin[3];            /* of the first byte: offset in its row, row, slice */
    char *host;
};

/* The origin is given as offset and row, because drivers may require it to be inside a row. */
static struct rows_side rows_side(const struct vr_queue *queue, uint64_t place, uint64_t pitch,
                                  bool host) {
    struct rows_side side = {.host = (char *)(uintptr_t)place};
    uint64_t offset = 0;
    struct vr_opencl_memory *memory = host ? NULL : vr_opencl_buffer_at(place, &offset);
    if (memory && vr_load(&memory->device, VR_ACQUIRE) == queue->device->impl) {
        side.buffer = vr_load(&memory->buffer, VR_RELAXED);
        side.origin[0] = offset % pitch;
        side.origin[1] = offset / pitch;
    }
    return side;
}

/* The driver refuses unsupported pitches and interleaved rows with these two codes. */
static vram_status rows_end(const struct vr_queue *queue, const char *operation, vr_cl_int code) {
    if (code == VR_CL_INVALID_VALUE || code == VR_CL_MEM_COPY_OVERLAP) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "opencl", operation, code,
                            "the driver does not copy these rows with one command");
    }
    return vr_opencl_submit_end(queue, operation, code);
}

static vram_status rows_unsupported(const char *operation) {
    return vr_error_set(VRAM_ERR_UNSUPPORTED, "opencl", operation, 0,
                        "there is no command for rows of this memory");
}

vram_status vr_opencl_copy_rows(struct vr_queue *queue, const struct vr_rectangle *rectangle) {
    const struct vr_opencl_device *opencl = queue->device->impl;
    const struct vr_opencl_api *api = opencl->api;
    const struct vr_opencl_queue *impl = queue->impl;
    const size_t to_pitch = rectangle->to_pitch, from_pitch = rectangle->from_pitch;
    const size_t region[3] = {rectangle->row_bytes, rectangle->rows, 1};
    struct rows_side to = rows_side(queue, rectangle->to, to_pitch, rectangle->to_host);
    struct rows_side from = rows_side(queue, rectangle->from, from_pitch, rectangle->from_host);
    const char *name = to.buffer && from.buffer ? "clEnqueueCopyBufferRect"
                       : to.buffer              ? "clEnqueueWriteBufferRect"
                                                : "clEnqueueReadBufferRect";
    bool known = to.buffer && from.buffer ? api->clEnqueueCopyBufferRect != NULL
                 : to.buffer              ? api->clEnqueueWriteBufferRect != NULL
                                          : from.buffer && api->clEnqueueReadBufferRect;
    vr_cl_int code;
    vram_status status = known ? vr_opencl_submit_begin(queue) : rows_unsupported(name);
    if (status != VRAM_OK) {
        return status;
    }
    if (to.buffer && from.buffer) {
        code = api->clEnqueueCopyBufferRect(impl->queue, from.buffer, to.buffer, from.origin,
                                            to.origin, region, from_pitch, 0, to_pitch, 0, 0, NULL,
                                            NULL);
    } else if (to.buffer) {
        code =
            api->clEnqueueWriteBufferRect(impl->queue, to.buffer, 0, to.origin, from.origin, region,
                                          to_pitch, 0, from_pitch, 0, from.host, 0, NULL, NULL);
    } else {
        code = api->clEnqueueReadBufferRect(impl->queue, from.buffer, 0, from.origin, to.origin,
                                            region, from_pitch, 0, to_pitch, 0, to.host, 0, NULL,
                                            NULL);
    }
    return rows_end(queue, name, code);
}
