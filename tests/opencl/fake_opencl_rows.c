/* SPDX-License-Identifier: Apache-2.0 */
/* fake_opencl_rows.c: the tests' OpenCL driver's commands for rows of buffers, with the checks of
   OpenCL's text. */
#include "opencl/fake_opencl.h"

/* The first byte of a side, and how many there are from it to the last one. */
static size_t offset_of(const size_t *origin, size_t pitch) {
    return origin[1] * pitch + origin[0];
}

static size_t extent_of(const size_t *region, size_t pitch) {
    return (region[1] - 1) * pitch + region[0];
}

static bool good_side(const size_t *origin, const size_t *region, size_t pitch, size_t slice) {
    return region[0] && region[1] && region[2] == 1 && origin[2] == 0 && pitch >= region[0] &&
           slice == 0;
}

static vr_cl_int read_rows(struct vr_cl_queue *queue, struct vr_cl_memory *memory, vr_cl_uint wait,
                           const size_t *origin, const size_t *host_origin, const size_t *region,
                           size_t pitch, size_t slice, size_t host_pitch, size_t host_slice,
                           void *to, vr_cl_uint count, struct vr_cl_event *const *events,
                           struct vr_cl_event **event) {
    struct fake_command command = {.to = (char *)to + offset_of(host_origin, host_pitch),
                                   .bytes = region[0],
                                   .rows = region[1],
                                   .to_pitch = host_pitch,
                                   .from_pitch = pitch,
                                   .memories = {memory}};
    char *from = NULL;
    if (!good_side(origin, region, pitch, slice) ||
        !good_side(host_origin, region, host_pitch, host_slice) || !to) {
        return VR_CL_INVALID_VALUE;
    }
    vr_cl_int code =
        fake_bytes_of(queue, memory, offset_of(origin, pitch), extent_of(region, pitch), &from);
    command.from = from;
    return code ? code : fake_submit(queue, &command, wait, count, events, event);
}

static vr_cl_int write_rows(struct vr_cl_queue *queue, struct vr_cl_memory *memory, vr_cl_uint wait,
                            const size_t *origin, const size_t *host_origin, const size_t *region,
                            size_t pitch, size_t slice, size_t host_pitch, size_t host_slice,
                            const void *from, vr_cl_uint count, struct vr_cl_event *const *events,
                            struct vr_cl_event **event) {
    struct fake_command command = {.from = (const char *)from + offset_of(host_origin, host_pitch),
                                   .bytes = region[0],
                                   .rows = region[1],
                                   .to_pitch = pitch,
                                   .from_pitch = host_pitch,
                                   .memories = {memory}};
    if (!good_side(origin, region, pitch, slice) ||
        !good_side(host_origin, region, host_pitch, host_slice) || !from) {
        return VR_CL_INVALID_VALUE;
    }
    vr_cl_int code = fake_bytes_of(queue, memory, offset_of(origin, pitch),
                                   extent_of(region, pitch), &command.to);
    return code ? code : fake_submit(queue, &command, wait, count, events, event);
}

/* Within one buffer: of one pitch, and apart as a whole. */
static vr_cl_int check_one_buffer(size_t from, size_t to, const size_t *region, size_t from_pitch,
                                  size_t to_pitch) {
    size_t extent = extent_of(region, from_pitch);
    if (from_pitch != to_pitch) {
        return VR_CL_INVALID_VALUE;
    }
    return from < to + extent && to < from + extent ? VR_CL_MEM_COPY_OVERLAP : VR_CL_SUCCESS;
}

static vr_cl_int copy_rows(struct vr_cl_queue *queue, struct vr_cl_memory *source,
                           struct vr_cl_memory *target, const size_t *from_origin,
                           const size_t *to_origin, const size_t *region, size_t from_pitch,
                           size_t from_slice, size_t to_pitch, size_t to_slice, vr_cl_uint count,
                           struct vr_cl_event *const *events, struct vr_cl_event **event) {
    struct fake_command command = {.bytes = region[0],
                                   .rows = region[1],
                                   .to_pitch = to_pitch,
                                   .from_pitch = from_pitch,
                                   .memories = {source, target}};
    size_t from_at = offset_of(from_origin, from_pitch), to_at = offset_of(to_origin, to_pitch);
    char *from = NULL;
    if (!good_side(from_origin, region, from_pitch, from_slice) ||
        !good_side(to_origin, region, to_pitch, to_slice)) {
        return VR_CL_INVALID_VALUE;
    }
    vr_cl_int code = source == target
                         ? check_one_buffer(from_at, to_at, region, from_pitch, to_pitch)
                         : VR_CL_SUCCESS;
    if (!code) {
        code = fake_bytes_of(queue, source, from_at, extent_of(region, from_pitch), &from);
    }
    if (!code) {
        code = fake_bytes_of(queue, target, to_at, extent_of(region, to_pitch), &command.to);
    }
    command.from = from;
    return code ? code : fake_submit(queue, &command, false, count, events, event);
}

void fake_fill_rows_calls(struct vr_opencl_api *api) {
    api->clEnqueueReadBufferRect = read_rows;
    api->clEnqueueWriteBufferRect = write_rows;
    api->clEnqueueCopyBufferRect = copy_rows;
}
