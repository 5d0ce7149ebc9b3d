/* SPDX-License-Identifier: Apache-2.0 */
/* layer_opencl_memory.c: buffers, images and pipes, which are counted by references. */
#include "layer_handles.h"
#include "layer_opencl.h"

static uint64_t value_of(const void *handle) {
    return (uint64_t)(uintptr_t)handle;
}

/* --------------------------------------------------------------- allocations */

bool layer_cl_begin(struct run_block *block, vr_cl_int refusal, vr_cl_int *code) {
    if (run_limit_take(block->device, block->kind, block->bytes)) {
        return true;
    }
    run_refused(block->device, block->kind, block->bytes, true);
    if (code) {
        *code = refusal;
    }
    return false;
}

static bool means_exhausted(vr_cl_int code) {
    return code == VR_CL_MEM_OBJECT_ALLOCATION_FAILURE || code == VR_CL_OUT_OF_RESOURCES ||
           code == VR_CL_OUT_OF_HOST_MEMORY;
}

void layer_cl_end(struct run_block *block, const void *value, const vr_cl_int *code) {
    if (value) {
        block->value = value_of(value);
        run_alloc(block);
        return;
    }
    run_limit_give(block->device, block->kind, block->bytes);
    if (code && means_exhausted(*code)) {
        run_refused(block->device, block->kind, block->bytes, false);
    }
}

/* Whose memory a buffer or image is: by its flags, and by the properties that import memory. */
static enum run_kind kind_of(vr_cl_bits flags, const vr_cl_bits *props, enum run_kind otherwise) {
    for (; props && *props; props += 2) {
        if (*props >= LAYER_CL_EXTERNAL_FIRST && *props <= LAYER_CL_EXTERNAL_LAST) {
            return RUN_IMPORTED;
        }
    }
    return flags & LAYER_CL_MEM_USE_HOST_PTR  ? RUN_REGISTERED
           : flags & VR_CL_MEM_ALLOC_HOST_PTR ? RUN_PINNED
                                              : otherwise;
}

static struct run_block block_of(struct vr_cl_context *context, enum run_kind kind, size_t bytes) {
    return (struct run_block){.device = layer_cl_context(context, NULL),
                              .kind = kind,
                              .space = RUN_SPACE_CL_MEM,
                              .bytes = bytes};
}

static void handle_enter(struct vr_cl_memory *memory, struct vr_cl_memory *parent) {
    if (!memory) {
        return;
    }
    layer_handle_retain(value_of(parent));
    (void)layer_handle_put(&(struct layer_handle){
        .value = value_of(memory), .parent = value_of(parent), .references = 1});
}

/* ------------------------------------------------------------------- buffers */

struct vr_cl_memory *layer_clCreateBuffer(struct vr_cl_context *context, vr_cl_bits flags,
                                          size_t bytes, void *host, vr_cl_int *code) {
    struct run_block block = block_of(context, kind_of(flags, NULL, RUN_DEVICE), bytes);
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    if (!layer_cl_begin(&block, VR_CL_MEM_OBJECT_ALLOCATION_FAILURE, code)) {
        return NULL;
    }
    struct vr_cl_memory *memory = layer_cl()->clCreateBuffer(context, flags, bytes, host, answer);
    handle_enter(memory, NULL);
    layer_cl_end(&block, memory, answer);
    return memory;
}

struct vr_cl_memory *layer_clCreateBufferWithProperties(struct vr_cl_context *context,
                                                        const vr_cl_bits *props, vr_cl_bits flags,
                                                        size_t bytes, void *host, vr_cl_int *code) {
    struct run_block block = block_of(context, kind_of(flags, props, RUN_DEVICE), bytes);
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    if (!layer_cl_begin(&block, VR_CL_MEM_OBJECT_ALLOCATION_FAILURE, code)) {
        return NULL;
    }
    struct vr_cl_memory *memory =
        layer_cl()->clCreateBufferWithProperties(context, props, flags, bytes, host, answer);
    handle_enter(memory, NULL);
    layer_cl_end(&block, memory, answer);
    return memory;
}

/* No memory of its own, but it keeps its parent's. */
struct vr_cl_memory *layer_clCreateSubBuffer(struct vr_cl_memory *memory, vr_cl_bits flags,
                                             vr_cl_uint type, const void *region, vr_cl_int *code) {
    struct vr_cl_memory *part = layer_cl()->clCreateSubBuffer(memory, flags, type, region, code);
    handle_enter(part, memory);
    return part;
}

/* ---------------------------------------------------------- images and pipes */

/* Only the driver knows how large an image or a pipe is. So it is made first, and given back if
   that is beyond the limit. */
static struct vr_cl_memory *made(struct vr_cl_context *context, enum run_kind kind,
                                 struct vr_cl_memory *parent, struct vr_cl_memory *memory,
                                 vr_cl_int *code) {
    struct run_block block = block_of(context, kind, 0);
    size_t bytes = 0;
    if (memory && parent) {
        handle_enter(memory, parent);
        return memory;
    }
    if (memory && layer_cl()->clGetMemObjectInfo(memory, VR_CL_MEM_SIZE, sizeof bytes, &bytes,
                                                 NULL) == VR_CL_SUCCESS) {
        block.bytes = bytes;
    }
    if (memory && !layer_cl_begin(&block, VR_CL_MEM_OBJECT_ALLOCATION_FAILURE, code)) {
        layer_cl()->clReleaseMemObject(memory);
        return NULL;
    }
    handle_enter(memory, NULL);
    layer_cl_end(&block, memory, code);
    return memory;
}

static struct vr_cl_memory *parent_of(const struct layer_cl_image_desc *desc,
                                      const struct vr_cl_memory *memory) {
    return memory ? desc->parent : NULL; /* the driver has accepted desc, then */
}

struct vr_cl_memory *layer_clCreateImage(struct vr_cl_context *context, vr_cl_bits flags,
                                         const struct layer_cl_image_format *format,
                                         const struct layer_cl_image_desc *desc, void *host,
                                         vr_cl_int *code) {
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    struct vr_cl_memory *memory =
        layer_cl()->clCreateImage(context, flags, format, desc, host, answer);
    return made(context, kind_of(flags, NULL, RUN_ARRAY), parent_of(desc, memory), memory, answer);
}

struct vr_cl_memory *layer_clCreateImageWithProperties(struct vr_cl_context *context,
                                                       const vr_cl_bits *props, vr_cl_bits flags,
                                                       const struct layer_cl_image_format *format,
                                                       const struct layer_cl_image_desc *desc,
                                                       void *host, vr_cl_int *code) {
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    struct vr_cl_memory *memory =
        layer_cl()->clCreateImageWithProperties(context, props, flags, format, desc, host, answer);
    return made(context, kind_of(flags, props, RUN_ARRAY), parent_of(desc, memory), memory, answer);
}

struct vr_cl_memory *layer_clCreateImage2D(struct vr_cl_context *context, vr_cl_bits flags,
                                           const struct layer_cl_image_format *format, size_t width,
                                           size_t height, size_t row_pitch, void *host,
                                           vr_cl_int *code) {
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    return made(
        context, kind_of(flags, NULL, RUN_ARRAY), NULL,
        layer_cl()->clCreateImage2D(context, flags, format, width, height, row_pitch, host, answer),
        answer);
}

struct vr_cl_memory *layer_clCreateImage3D(struct vr_cl_context *context, vr_cl_bits flags,
                                           const struct layer_cl_image_format *format, size_t width,
                                           size_t height, size_t depth, size_t row_pitch,
                                           size_t slice_pitch, void *host, vr_cl_int *code) {
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    return made(context, kind_of(flags, NULL, RUN_ARRAY), NULL,
                layer_cl()->clCreateImage3D(context, flags, format, width, height, depth, row_pitch,
                                            slice_pitch, host, answer),
                answer);
}

struct vr_cl_memory *layer_clCreatePipe(struct vr_cl_context *context, vr_cl_bits flags,
                                        vr_cl_uint packet_bytes, vr_cl_uint packets,
                                        const vr_cl_props *props, vr_cl_int *code) {
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    return made(context, RUN_DEVICE, NULL,
                layer_cl()->clCreatePipe(context, flags, packet_bytes, packets, props, answer),
                answer);
}

/* ---------------------------------------------------------------- references */

vr_cl_int layer_clRetainMemObject(struct vr_cl_memory *memory) {
    vr_cl_int code = layer_cl()->clRetainMemObject(memory);
    if (code == VR_CL_SUCCESS) {
        layer_handle_retain(value_of(memory));
    }
    return code;
}

/* Parents whose last reference was that child's are gone with it. */
static void parent_drop(uint64_t value) {
    struct layer_handle handle;
    struct run_block block;
    while (value && layer_handle_release(value, &handle)) {
        if (run_free_begin(RUN_SPACE_CL_MEM, value, &block)) {
            run_free_end(&block, true);
        }
        value = handle.parent;
    }
}

/* The last reference is forgotten before the driver can use the handle's value again. */
vr_cl_int layer_clReleaseMemObject(struct vr_cl_memory *memory) {
    struct layer_handle handle;
    struct run_block block;
    uint64_t value = value_of(memory);
    bool last = layer_handle_release(value, &handle);
    bool known = last && !handle.parent && run_free_begin(RUN_SPACE_CL_MEM, value, &block);
    vr_cl_int code = layer_cl()->clReleaseMemObject(memory);
    if (known) {
        run_free_end(&block, code == VR_CL_SUCCESS);
    }
    if (last && code == VR_CL_SUCCESS) {
        parent_drop(handle.parent);
    } else if (last) {
        (void)layer_handle_put(&handle);
    } else if (code != VR_CL_SUCCESS) {
        layer_handle_retain(value);
    }
    return code;
}
