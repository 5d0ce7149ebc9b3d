/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_rows.c: rows of buffers, copied by one command.
 *
 * OpenCL has such commands for buffers only: rows of shared virtual memory go one by one, and so do
 * those that it refuses. Within one buffer, which holds many blocks of a pool, it copies rows of
 * one pitch only.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"

/* One side: in a buffer, or where the host has it. */
struct side {
    struct vr_cl_memory *buffer; /* NULL: host memory */
    size_t origin[3];            /* of the first byte: bytes in its row, row, slice */
    char *host;
};

/* The first byte is given by its place in a row, since drivers may want it to be in one. */
static struct side side_of(const struct vr_queue *queue, uint64_t place, uint64_t pitch,
                           bool host) {
    struct side side = {.host = (char *)(uintptr_t)place};
    uint64_t offset = 0;
    struct vr_opencl_memory *memory = host ? NULL : vr_opencl_buffer_at(place, &offset);
    if (memory && vr_load(&memory->device, VR_ACQUIRE) == queue->device->impl) {
        side.buffer = vr_load(&memory->buffer, VR_RELAXED);
        side.origin[0] = offset % pitch;
        side.origin[1] = offset / pitch;
    }
    return side;
}

/* Pitches that it does not take, and rows that lie between each other, are refused by these two
   codes. */
static vram_status rows_end(const struct vr_queue *queue, const char *operation, vr_cl_int code) {
    if (code == VR_CL_INVALID_VALUE || code == VR_CL_MEM_COPY_OVERLAP) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "opencl", operation, code,
                            "the driver does not copy these rows with one command");
    }
    return vr_opencl_submit_end(queue, operation, code);
}

static vram_status no_command(const char *operation) {
    return vr_error_set(VRAM_ERR_UNSUPPORTED, "opencl", operation, 0,
                        "there is no command for rows of this memory");
}

vram_status vr_opencl_copy_rows(struct vr_queue *queue, const struct vr_rectangle *rectangle) {
    const struct vr_opencl_device *opencl = queue->device->impl;
    const struct vr_opencl_api *api = opencl->api;
    const struct vr_opencl_queue *impl = queue->impl;
    const size_t to_pitch = rectangle->to_pitch, from_pitch = rectangle->from_pitch;
    const size_t region[3] = {rectangle->row_bytes, rectangle->rows, 1};
    struct side to = side_of(queue, rectangle->to, to_pitch, rectangle->to_host);
    struct side from = side_of(queue, rectangle->from, from_pitch, rectangle->from_host);
    const char *name = to.buffer && from.buffer ? "clEnqueueCopyBufferRect"
                       : to.buffer              ? "clEnqueueWriteBufferRect"
                                                : "clEnqueueReadBufferRect";
    bool known = to.buffer && from.buffer ? api->clEnqueueCopyBufferRect != NULL
                 : to.buffer              ? api->clEnqueueWriteBufferRect != NULL
                                          : from.buffer && api->clEnqueueReadBufferRect;
    vr_cl_int code;
    vram_status status = known ? vr_opencl_submit_begin(queue) : no_command(name);
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
