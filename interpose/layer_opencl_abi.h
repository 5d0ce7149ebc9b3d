/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_opencl_abi.h: the part of OpenCL and of its loader's ABI that the layer needs and the
 * backend does not. tests/lint/opencl_abi.c compares it with Khronos's headers, where there are
 * some.
 *
 * A loader hands a layer its dispatch table, an array of pointers in an order that never changes.
 * Each row below is a function that the layer reads or replaces, by its place in that array.
 */
#ifndef LAYER_OPENCL_ABI_H
#define LAYER_OPENCL_ABI_H

#include "backend/opencl/opencl_api.h"

enum {
    LAYER_CL_API_VERSION = 0x4240, /* CL_LAYER_API_VERSION */
    LAYER_CL_NAME = 0x4241,
    LAYER_CL_API_VERSION_100 = 100,

    LAYER_CL_DEVICE_PARENT = 0x1042,
    LAYER_CL_DEVICE_FREE_MEMORY_AMD = 0x4039, /* size_t[1 or 2], in KiB */
    LAYER_CL_MEM_USE_HOST_PTR = 1 << 3,
    LAYER_CL_EXTERNAL_FIRST = 0x2060, /* CL_EXTERNAL_MEMORY_HANDLE_..._KHR */
    LAYER_CL_EXTERNAL_LAST = 0x206F
};

struct layer_cl_image_format; /* cl_image_format */

struct layer_cl_image_desc { /* cl_image_desc */
    vr_cl_uint type;
    size_t width, height, depth, array_size, row_pitch, slice_pitch;
    vr_cl_uint mip_levels, samples;
    struct vr_cl_memory *parent;
};

typedef void layer_cl_free_fn(struct vr_cl_queue *queue, vr_cl_uint count, void **pointers,
                              void *user);

/* X(place, returns, name, (parameters)): first those that the layer only calls. */
/* clang-format off */
#define LAYER_CL_CALLED(X)                                                                         \
    X(0, vr_cl_int, clGetPlatformIDs,                                                              \
      (vr_cl_uint room, struct vr_cl_platform **platforms, vr_cl_uint *count))                     \
    X(2, vr_cl_int, clGetDeviceIDs,                                                                \
      (struct vr_cl_platform *platform, vr_cl_bits type, vr_cl_uint room,                          \
       struct vr_cl_device **devices, vr_cl_uint *count))                                          \
    X(8, vr_cl_int, clGetContextInfo,                                                              \
      (struct vr_cl_context *context, vr_cl_uint what, size_t bytes, void *value, size_t *needed)) \
    X(20, vr_cl_int, clGetMemObjectInfo,                                                           \
      (struct vr_cl_memory *memory, vr_cl_uint what, size_t bytes, void *value, size_t *needed))

#define LAYER_CL_REPLACED(X)                                                                       \
    X(3, vr_cl_int, clGetDeviceInfo,                                                               \
      (struct vr_cl_device *device, vr_cl_uint what, size_t bytes, void *value, size_t *needed))   \
    X(4, struct vr_cl_context *, clCreateContext,                                                  \
      (const vr_cl_props *props, vr_cl_uint count, struct vr_cl_device *const *devices,            \
       vr_cl_fault_fn *fault, void *user, vr_cl_int *code))                                        \
    X(5, struct vr_cl_context *, clCreateContextFromType,                                          \
      (const vr_cl_props *props, vr_cl_bits type, vr_cl_fault_fn *fault, void *user,               \
       vr_cl_int *code))                                                                           \
    X(14, struct vr_cl_memory *, clCreateBuffer,                                                   \
      (struct vr_cl_context *context, vr_cl_bits flags, size_t bytes, void *host,                  \
       vr_cl_int *code))                                                                           \
    X(15, struct vr_cl_memory *, clCreateImage2D,                                                  \
      (struct vr_cl_context *context, vr_cl_bits flags,                                            \
       const struct layer_cl_image_format *format, size_t width, size_t height, size_t row_pitch,  \
       void *host, vr_cl_int *code))                                                               \
    X(16, struct vr_cl_memory *, clCreateImage3D,                                                  \
      (struct vr_cl_context *context, vr_cl_bits flags,                                            \
       const struct layer_cl_image_format *format, size_t width, size_t height, size_t depth,      \
       size_t row_pitch, size_t slice_pitch, void *host, vr_cl_int *code))                         \
    X(17, vr_cl_int, clRetainMemObject, (struct vr_cl_memory *memory))                             \
    X(18, vr_cl_int, clReleaseMemObject, (struct vr_cl_memory *memory))                            \
    X(65, void *, clGetExtensionFunctionAddress, (const char *name))                               \
    X(82, struct vr_cl_memory *, clCreateSubBuffer,                                                \
      (struct vr_cl_memory *memory, vr_cl_bits flags, vr_cl_uint type, const void *region,         \
       vr_cl_int *code))                                                                           \
    X(96, struct vr_cl_memory *, clCreateImage,                                                    \
      (struct vr_cl_context *context, vr_cl_bits flags, const struct layer_cl_image_format *format,\
       const struct layer_cl_image_desc *desc, void *host, vr_cl_int *code))                       \
    X(107, void *, clGetExtensionFunctionAddressForPlatform,                                       \
      (struct vr_cl_platform *platform, const char *name))                                         \
    X(124, struct vr_cl_memory *, clCreatePipe,                                                    \
      (struct vr_cl_context *context, vr_cl_bits flags, vr_cl_uint packet_bytes,                   \
       vr_cl_uint packets, const vr_cl_props *props, vr_cl_int *code))                             \
    X(126, void *, clSVMAlloc,                                                                     \
      (struct vr_cl_context *context, vr_cl_bits flags, size_t bytes, vr_cl_uint align))           \
    X(127, void, clSVMFree, (struct vr_cl_context *context, void *pointer))                        \
    X(128, vr_cl_int, clEnqueueSVMFree,                                                            \
      (struct vr_cl_queue *queue, vr_cl_uint pointer_count, void **pointers,                       \
       layer_cl_free_fn *callback, void *user, vr_cl_uint count,                                   \
       struct vr_cl_event *const *events, struct vr_cl_event **event))                             \
    X(146, struct vr_cl_memory *, clCreateBufferWithProperties,                                    \
      (struct vr_cl_context *context, const vr_cl_bits *props, vr_cl_bits flags, size_t bytes,     \
       void *host, vr_cl_int *code))                                                               \
    X(147, struct vr_cl_memory *, clCreateImageWithProperties,                                     \
      (struct vr_cl_context *context, const vr_cl_bits *props, vr_cl_bits flags,                   \
       const struct layer_cl_image_format *format, const struct layer_cl_image_desc *desc,         \
       void *host, vr_cl_int *code))

#define LAYER_CL_FUNCTIONS(X) LAYER_CL_CALLED(X) LAYER_CL_REPLACED(X)

/* Unified shared memory (cl_intel_unified_shared_memory): a platform's own functions, which a
   program asks for by name. */
#define LAYER_CL_USM_FUNCTIONS(X)                                                                  \
    X(0, void *, clHostMemAllocINTEL,                                                              \
      (struct vr_cl_context *context, const vr_cl_bits *props, size_t bytes, vr_cl_uint align,     \
       vr_cl_int *code))                                                                           \
    X(1, void *, clDeviceMemAllocINTEL,                                                            \
      (struct vr_cl_context *context, struct vr_cl_device *device, const vr_cl_bits *props,        \
       size_t bytes, vr_cl_uint align, vr_cl_int *code))                                           \
    X(2, void *, clSharedMemAllocINTEL,                                                            \
      (struct vr_cl_context *context, struct vr_cl_device *device, const vr_cl_bits *props,        \
       size_t bytes, vr_cl_uint align, vr_cl_int *code))                                           \
    X(3, vr_cl_int, clMemFreeINTEL, (struct vr_cl_context *context, void *pointer))                \
    X(4, vr_cl_int, clMemBlockingFreeINTEL, (struct vr_cl_context *context, void *pointer))
/* clang-format on */

enum { LAYER_CL_PLACES = 149 };

#endif
