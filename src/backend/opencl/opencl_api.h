/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_api.h: the part of the OpenCL API that the backend uses, declared here so that neither
 * building nor running needs an SDK.
 *
 * Names of types begin with vr_cl_, so this header can be included beside the real CL/cl.h: where
 * that is found, tests/lint/opencl_abi.c includes both and the compiler compares every size, value
 * and prototype. Values and layouts are Khronos's ABI and do not change.
 *
 * VR_OPENCL_FUNCTIONS is the one list of entry points. The table of pointers, the loader's rows,
 * the tests' driver and the shim that makes calls fail are all generated from it.
 */
#ifndef VR_OPENCL_API_H
#define VR_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

/* -------------------------------------------------------------------- types */

typedef int32_t vr_cl_int;    /* cl_int; a result is one of vr_cl_code, or anything else */
typedef uint32_t vr_cl_uint;  /* cl_uint, cl_bool */
typedef uint64_t vr_cl_bits;  /* cl_bitfield and the types made of it */
typedef intptr_t vr_cl_props; /* cl_context_properties */

struct vr_cl_platform; /* cl_platform_id points to it, and so on */
struct vr_cl_device;
struct vr_cl_context;
struct vr_cl_queue;
struct vr_cl_memory;
struct vr_cl_event;
struct vr_cl_program;
struct vr_cl_kernel;

struct vr_cl_region { /* cl_buffer_region */
    size_t origin, size;
};

struct vr_cl_pci { /* cl_device_pci_bus_info_khr */
    vr_cl_uint domain, bus, device, function;
};

typedef void vr_cl_notify_fn(struct vr_cl_event *event, vr_cl_int status, void *user);
typedef void vr_cl_built_fn(struct vr_cl_program *program, void *user);
typedef void vr_cl_fault_fn(const char *text, const void *data, size_t bytes, void *user);

/* ------------------------------------------------------------------- values */

/* Every result code of OpenCL 3.0 that its core and loader know: X(NAME, value). opencl_error.c
   says what each becomes. */
#define VR_CL_CODES(X)                                                                             \
    X(SUCCESS, 0)                                                                                  \
    X(DEVICE_NOT_FOUND, -1)                                                                        \
    X(DEVICE_NOT_AVAILABLE, -2)                                                                    \
    X(COMPILER_NOT_AVAILABLE, -3)                                                                  \
    X(MEM_OBJECT_ALLOCATION_FAILURE, -4)                                                           \
    X(OUT_OF_RESOURCES, -5)                                                                        \
    X(OUT_OF_HOST_MEMORY, -6)                                                                      \
    X(PROFILING_INFO_NOT_AVAILABLE, -7)                                                            \
    X(MEM_COPY_OVERLAP, -8)                                                                        \
    X(IMAGE_FORMAT_MISMATCH, -9)                                                                   \
    X(IMAGE_FORMAT_NOT_SUPPORTED, -10)                                                             \
    X(BUILD_PROGRAM_FAILURE, -11)                                                                  \
    X(MAP_FAILURE, -12)                                                                            \
    X(MISALIGNED_SUB_BUFFER_OFFSET, -13)                                                           \
    X(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14)                                              \
    X(COMPILE_PROGRAM_FAILURE, -15)                                                                \
    X(LINKER_NOT_AVAILABLE, -16)                                                                   \
    X(LINK_PROGRAM_FAILURE, -17)                                                                   \
    X(DEVICE_PARTITION_FAILED, -18)                                                                \
    X(KERNEL_ARG_INFO_NOT_AVAILABLE, -19)                                                          \
    X(INVALID_VALUE, -30)                                                                          \
    X(INVALID_DEVICE_TYPE, -31)                                                                    \
    X(INVALID_PLATFORM, -32)                                                                       \
    X(INVALID_DEVICE, -33)                                                                         \
    X(INVALID_CONTEXT, -34)                                                                        \
    X(INVALID_QUEUE_PROPERTIES, -35)                                                               \
    X(INVALID_COMMAND_QUEUE, -36)                                                                  \
    X(INVALID_HOST_PTR, -37)                                                                       \
    X(INVALID_MEM_OBJECT, -38)                                                                     \
    X(INVALID_IMAGE_FORMAT_DESCRIPTOR, -39)                                                        \
    X(INVALID_IMAGE_SIZE, -40)                                                                     \
    X(INVALID_SAMPLER, -41)                                                                        \
    X(INVALID_BINARY, -42)                                                                         \
    X(INVALID_BUILD_OPTIONS, -43)                                                                  \
    X(INVALID_PROGRAM, -44)                                                                        \
    X(INVALID_PROGRAM_EXECUTABLE, -45)                                                             \
    X(INVALID_KERNEL_NAME, -46)                                                                    \
    X(INVALID_KERNEL_DEFINITION, -47)                                                              \
    X(INVALID_KERNEL, -48)                                                                         \
    X(INVALID_ARG_INDEX, -49)                                                                      \
    X(INVALID_ARG_VALUE, -50)                                                                      \
    X(INVALID_ARG_SIZE, -51)                                                                       \
    X(INVALID_KERNEL_ARGS, -52)                                                                    \
    X(INVALID_WORK_DIMENSION, -53)                                                                 \
    X(INVALID_WORK_GROUP_SIZE, -54)                                                                \
    X(INVALID_WORK_ITEM_SIZE, -55)                                                                 \
    X(INVALID_GLOBAL_OFFSET, -56)                                                                  \
    X(INVALID_EVENT_WAIT_LIST, -57)                                                                \
    X(INVALID_EVENT, -58)                                                                          \
    X(INVALID_OPERATION, -59)                                                                      \
    X(INVALID_GL_OBJECT, -60)                                                                      \
    X(INVALID_BUFFER_SIZE, -61)                                                                    \
    X(INVALID_MIP_LEVEL, -62)                                                                      \
    X(INVALID_GLOBAL_WORK_SIZE, -63)                                                               \
    X(INVALID_PROPERTY, -64)                                                                       \
    X(INVALID_IMAGE_DESCRIPTOR, -65)                                                               \
    X(INVALID_COMPILER_OPTIONS, -66)                                                               \
    X(INVALID_LINKER_OPTIONS, -67)                                                                 \
    X(INVALID_DEVICE_PARTITION_COUNT, -68)                                                         \
    X(INVALID_PIPE_SIZE, -69)                                                                      \
    X(INVALID_DEVICE_QUEUE, -70)                                                                   \
    X(INVALID_SPEC_ID, -71)                                                                        \
    X(MAX_SIZE_RESTRICTION_EXCEEDED, -72)                                                          \
    X(PLATFORM_NOT_FOUND_KHR, -1001)                                                               \
    X(CONTEXT_TERMINATED_KHR, -1121)

enum vr_cl_code {
#define VR_CL_CODE(NAME, value) VR_CL_##NAME = value,
    VR_CL_CODES(VR_CL_CODE)
#undef VR_CL_CODE
        VR_CL_ILLEGAL_ACCESS_NV = -9999 /* NVIDIA's own: a kernel accessed an invalid address */
};

enum vr_cl_platform_info { VR_CL_PLATFORM_VERSION = 0x0901, VR_CL_PLATFORM_NAME = 0x0902 };

enum vr_cl_device_info {
    VR_CL_DEVICE_TYPE = 0x1000,
    VR_CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    VR_CL_DEVICE_MEM_BASE_ADDR_ALIGN = 0x1019, /* in bits */
    VR_CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    VR_CL_DEVICE_AVAILABLE = 0x1027,
    VR_CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    VR_CL_DEVICE_NAME = 0x102B,
    VR_CL_DEVICE_VERSION = 0x102F,
    VR_CL_DEVICE_EXTENSIONS = 0x1030,
    VR_CL_DEVICE_SVM_CAPABILITIES = 0x1053,
    VR_CL_DEVICE_UUID_KHR = 0x106A,
    VR_CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV = 0x4000,
    VR_CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV = 0x4001,
    VR_CL_DEVICE_PCI_BUS_INFO_KHR = 0x410F
};

enum {
    VR_CL_DEVICE_TYPE_CPU = 1 << 1,
    VR_CL_SVM_COARSE_GRAIN_BUFFER = 1 << 0,
    VR_CL_SVM_FINE_GRAIN_BUFFER = 1 << 1,
    VR_CL_MEM_READ_WRITE = 1 << 0,
    VR_CL_MEM_ALLOC_HOST_PTR = 1 << 4,
    VR_CL_MEM_SVM_FINE_GRAIN_BUFFER = 1 << 10,
    VR_CL_MAP_READ = 1 << 0,
    VR_CL_MAP_WRITE = 1 << 1,
    VR_CL_MIGRATE_HOST = 1 << 0,
    VR_CL_BUFFER_CREATE_TYPE_REGION = 0x1220,
    VR_CL_MEM_TYPE = 0x1100,
    VR_CL_MEM_SIZE = 0x1102,
    VR_CL_MEM_REFERENCES = 0x1105,
    VR_CL_MEM_CONTEXT = 0x1106,
    VR_CL_MEM_OBJECT_BUFFER = 0x10F0,
    VR_CL_CONTEXT_DEVICES = 0x1081,
    VR_CL_QUEUE_CONTEXT = 0x1090,
    VR_CL_QUEUE_DEVICE = 0x1091,
    VR_CL_QUEUE_PROPERTIES = 0x1093,
    VR_CL_QUEUE_OUT_OF_ORDER = 1 << 0,
    VR_CL_QUEUE_PRIORITY_KHR = 0x1096,
    VR_CL_QUEUE_PRIORITY_HIGH_KHR = 1 << 0,
    VR_CL_QUEUE_PRIORITY_LOW_KHR = 1 << 2,
    VR_CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,
    VR_CL_COMPLETE = 0,
    VR_CL_PROGRAM_BUILD_LOG = 0x1183,
    VR_CL_KERNEL_NUM_ARGS = 0x1191,
    VR_CL_KERNEL_ARG_ADDRESS_QUALIFIER = 0x1196,
    VR_CL_ARG_GLOBAL = 0x119B,
    VR_CL_ARG_LOCAL = 0x119C,
    VR_CL_ARG_CONSTANT = 0x119D,
    VR_CL_ARG_PRIVATE = 0x119E
};

#define VR_CL_DEVICE_TYPE_ALL UINT64_C(0xFFFFFFFF)

/* ---------------------------------------------------------------- functions */

#define VR_CL_REQUIRED false
#define VR_CL_OPTIONAL true

/*
 * CALL(name, need, (parameters), (arguments)): returns a vr_cl_int. MAKE(name, need, type,
 * (parameters), (arguments)): returns a type *, or NULL with *code. GIVE(name, need, (parameters),
 * (arguments)): returns a void * and no code. TAKE(name, need, (parameters), (arguments)): returns
 * nothing. What OpenCL 1.2 has is required; what came later is not. (clang-format would take the
 * parameters for products.)
 */
/* clang-format off */
#define VR_OPENCL_FUNCTIONS(CALL, MAKE, GIVE, TAKE)                                                \
    CALL(clGetPlatformIDs, VR_CL_REQUIRED,                                                         \
         (vr_cl_uint room, struct vr_cl_platform **platforms, vr_cl_uint *count),                  \
         (room, platforms, count))                                                                 \
    CALL(clGetPlatformInfo, VR_CL_REQUIRED,                                                        \
         (struct vr_cl_platform *platform, vr_cl_uint what, size_t bytes, void *value,             \
          size_t *needed), (platform, what, bytes, value, needed))                                 \
    CALL(clGetDeviceIDs, VR_CL_REQUIRED,                                                           \
         (struct vr_cl_platform *platform, vr_cl_bits type, vr_cl_uint room,                       \
          struct vr_cl_device **devices, vr_cl_uint *count),                                       \
         (platform, type, room, devices, count))                                                   \
    CALL(clGetDeviceInfo, VR_CL_REQUIRED,                                                          \
         (struct vr_cl_device *device, vr_cl_uint what, size_t bytes, void *value, size_t *needed),\
         (device, what, bytes, value, needed))                                                     \
    MAKE(clCreateContext, VR_CL_REQUIRED, struct vr_cl_context,                                    \
         (const vr_cl_props *props, vr_cl_uint count, struct vr_cl_device *const *devices,         \
          vr_cl_fault_fn *fault, void *user, vr_cl_int *code),                                     \
         (props, count, devices, fault, user, code))                                               \
    CALL(clRetainContext, VR_CL_REQUIRED, (struct vr_cl_context *context), (context))              \
    CALL(clReleaseContext, VR_CL_REQUIRED, (struct vr_cl_context *context), (context))             \
    CALL(clGetContextInfo, VR_CL_REQUIRED,                                                         \
         (struct vr_cl_context *context, vr_cl_uint what, size_t bytes, void *value,               \
          size_t *needed),                                                                         \
         (context, what, bytes, value, needed))                                                    \
    MAKE(clCreateCommandQueue, VR_CL_REQUIRED, struct vr_cl_queue,                                 \
         (struct vr_cl_context *context, struct vr_cl_device *device, vr_cl_bits props,            \
          vr_cl_int *code), (context, device, props, code))                                        \
    MAKE(clCreateCommandQueueWithProperties, VR_CL_OPTIONAL, struct vr_cl_queue,                   \
         (struct vr_cl_context *context, struct vr_cl_device *device, const vr_cl_bits *props,     \
          vr_cl_int *code), (context, device, props, code))                                        \
    CALL(clRetainCommandQueue, VR_CL_REQUIRED, (struct vr_cl_queue *queue), (queue))               \
    CALL(clReleaseCommandQueue, VR_CL_REQUIRED, (struct vr_cl_queue *queue), (queue))              \
    CALL(clGetCommandQueueInfo, VR_CL_REQUIRED,                                                    \
         (struct vr_cl_queue *queue, vr_cl_uint what, size_t bytes, void *value, size_t *needed),  \
         (queue, what, bytes, value, needed))                                                      \
    CALL(clFlush, VR_CL_REQUIRED, (struct vr_cl_queue *queue), (queue))                            \
    CALL(clFinish, VR_CL_REQUIRED, (struct vr_cl_queue *queue), (queue))                           \
    MAKE(clCreateBuffer, VR_CL_REQUIRED, struct vr_cl_memory,                                      \
         (struct vr_cl_context *context, vr_cl_bits flags, size_t bytes, void *host,               \
          vr_cl_int *code), (context, flags, bytes, host, code))                                   \
    MAKE(clCreateSubBuffer, VR_CL_REQUIRED, struct vr_cl_memory,                                   \
         (struct vr_cl_memory *memory, vr_cl_bits flags, vr_cl_uint type, const void *region,      \
          vr_cl_int *code), (memory, flags, type, region, code))                                   \
    CALL(clRetainMemObject, VR_CL_REQUIRED, (struct vr_cl_memory *memory), (memory))               \
    CALL(clReleaseMemObject, VR_CL_REQUIRED, (struct vr_cl_memory *memory), (memory))              \
    CALL(clGetMemObjectInfo, VR_CL_REQUIRED,                                                       \
         (struct vr_cl_memory *memory, vr_cl_uint what, size_t bytes, void *value,                 \
          size_t *needed), (memory, what, bytes, value, needed))                                   \
    CALL(clEnqueueReadBuffer, VR_CL_REQUIRED,                                                      \
         (struct vr_cl_queue *queue, struct vr_cl_memory *memory, vr_cl_uint wait, size_t offset,  \
          size_t bytes, void *to, vr_cl_uint count, struct vr_cl_event *const *events,             \
          struct vr_cl_event **event),                                                             \
         (queue, memory, wait, offset, bytes, to, count, events, event))                           \
    CALL(clEnqueueWriteBuffer, VR_CL_REQUIRED,                                                     \
         (struct vr_cl_queue *queue, struct vr_cl_memory *memory, vr_cl_uint wait, size_t offset,  \
          size_t bytes, const void *from, vr_cl_uint count, struct vr_cl_event *const *events,     \
          struct vr_cl_event **event),                                                             \
         (queue, memory, wait, offset, bytes, from, count, events, event))                         \
    CALL(clEnqueueCopyBuffer, VR_CL_REQUIRED,                                                      \
         (struct vr_cl_queue *queue, struct vr_cl_memory *from, struct vr_cl_memory *to,           \
          size_t from_offset, size_t to_offset, size_t bytes, vr_cl_uint count,                    \
          struct vr_cl_event *const *events, struct vr_cl_event **event),                          \
         (queue, from, to, from_offset, to_offset, bytes, count, events, event))                   \
    CALL(clEnqueueReadBufferRect, VR_CL_OPTIONAL,                                                  \
         (struct vr_cl_queue *queue, struct vr_cl_memory *memory, vr_cl_uint wait,                 \
          const size_t *origin, const size_t *host_origin, const size_t *region, size_t pitch,     \
          size_t slice, size_t host_pitch, size_t host_slice, void *to, vr_cl_uint count,          \
          struct vr_cl_event *const *events, struct vr_cl_event **event),                          \
         (queue, memory, wait, origin, host_origin, region, pitch, slice, host_pitch, host_slice,  \
          to, count, events, event))                                                               \
    CALL(clEnqueueWriteBufferRect, VR_CL_OPTIONAL,                                                 \
         (struct vr_cl_queue *queue, struct vr_cl_memory *memory, vr_cl_uint wait,                 \
          const size_t *origin, const size_t *host_origin, const size_t *region, size_t pitch,     \
          size_t slice, size_t host_pitch, size_t host_slice, const void *from, vr_cl_uint count,  \
          struct vr_cl_event *const *events, struct vr_cl_event **event),                          \
         (queue, memory, wait, origin, host_origin, region, pitch, slice, host_pitch, host_slice,  \
          from, count, events, event))                                                             \
    CALL(clEnqueueCopyBufferRect, VR_CL_OPTIONAL,                                                  \
         (struct vr_cl_queue *queue, struct vr_cl_memory *from, struct vr_cl_memory *to,           \
          const size_t *from_origin, const size_t *to_origin, const size_t *region,                \
          size_t from_pitch, size_t from_slice, size_t to_pitch, size_t to_slice,                  \
          vr_cl_uint count, struct vr_cl_event *const *events, struct vr_cl_event **event),        \
         (queue, from, to, from_origin, to_origin, region, from_pitch, from_slice, to_pitch,       \
          to_slice, count, events, event))                                                         \
    CALL(clEnqueueFillBuffer, VR_CL_REQUIRED,                                                      \
         (struct vr_cl_queue *queue, struct vr_cl_memory *memory, const void *pattern,             \
          size_t pattern_bytes, size_t offset, size_t bytes, vr_cl_uint count,                     \
          struct vr_cl_event *const *events, struct vr_cl_event **event),                          \
         (queue, memory, pattern, pattern_bytes, offset, bytes, count, events, event))             \
    CALL(clEnqueueMigrateMemObjects, VR_CL_REQUIRED,                                               \
         (struct vr_cl_queue *queue, vr_cl_uint memory_count, struct vr_cl_memory *const *memories,\
          vr_cl_bits flags, vr_cl_uint count, struct vr_cl_event *const *events,                   \
          struct vr_cl_event **event),                                                             \
         (queue, memory_count, memories, flags, count, events, event))                             \
    MAKE(clEnqueueMapBuffer, VR_CL_REQUIRED, void,                                                 \
         (struct vr_cl_queue *queue, struct vr_cl_memory *memory, vr_cl_uint wait,                 \
          vr_cl_bits flags, size_t offset, size_t bytes, vr_cl_uint count,                         \
          struct vr_cl_event *const *events, struct vr_cl_event **event, vr_cl_int *code),         \
         (queue, memory, wait, flags, offset, bytes, count, events, event, code))                  \
    CALL(clEnqueueUnmapMemObject, VR_CL_REQUIRED,                                                  \
         (struct vr_cl_queue *queue, struct vr_cl_memory *memory, void *mapped, vr_cl_uint count,  \
          struct vr_cl_event *const *events, struct vr_cl_event **event),                          \
         (queue, memory, mapped, count, events, event))                                            \
    CALL(clEnqueueMarkerWithWaitList, VR_CL_REQUIRED,                                              \
         (struct vr_cl_queue *queue, vr_cl_uint count, struct vr_cl_event *const *events,          \
          struct vr_cl_event **event), (queue, count, events, event))                              \
    CALL(clEnqueueBarrierWithWaitList, VR_CL_REQUIRED,                                             \
         (struct vr_cl_queue *queue, vr_cl_uint count, struct vr_cl_event *const *events,          \
          struct vr_cl_event **event), (queue, count, events, event))                              \
    MAKE(clCreateUserEvent, VR_CL_REQUIRED, struct vr_cl_event,                                    \
         (struct vr_cl_context *context, vr_cl_int *code), (context, code))                        \
    CALL(clSetUserEventStatus, VR_CL_REQUIRED, (struct vr_cl_event *event, vr_cl_int status),      \
         (event, status))                                                                          \
    CALL(clGetEventInfo, VR_CL_REQUIRED,                                                           \
         (struct vr_cl_event *event, vr_cl_uint what, size_t bytes, void *value, size_t *needed),  \
         (event, what, bytes, value, needed))                                                      \
    CALL(clReleaseEvent, VR_CL_REQUIRED, (struct vr_cl_event *event), (event))                     \
    CALL(clSetEventCallback, VR_CL_REQUIRED,                                                       \
         (struct vr_cl_event *event, vr_cl_int status, vr_cl_notify_fn *notify, void *user),       \
         (event, status, notify, user))                                                            \
    MAKE(clCreateProgramWithSource, VR_CL_REQUIRED, struct vr_cl_program,                          \
         (struct vr_cl_context *context, vr_cl_uint count, const char **texts,                     \
          const size_t *lengths, vr_cl_int *code), (context, count, texts, lengths, code))         \
    CALL(clBuildProgram, VR_CL_REQUIRED,                                                           \
         (struct vr_cl_program *program, vr_cl_uint count, struct vr_cl_device *const *devices,    \
          const char *options, vr_cl_built_fn *built, void *user),                                 \
         (program, count, devices, options, built, user))                                          \
    CALL(clGetProgramBuildInfo, VR_CL_REQUIRED,                                                    \
         (struct vr_cl_program *program, struct vr_cl_device *device, vr_cl_uint what,             \
          size_t bytes, void *value, size_t *needed),                                              \
         (program, device, what, bytes, value, needed))                                            \
    CALL(clReleaseProgram, VR_CL_REQUIRED, (struct vr_cl_program *program), (program))             \
    MAKE(clCreateKernel, VR_CL_REQUIRED, struct vr_cl_kernel,                                      \
         (struct vr_cl_program *program, const char *name, vr_cl_int *code),                       \
         (program, name, code))                                                                    \
    CALL(clReleaseKernel, VR_CL_REQUIRED, (struct vr_cl_kernel *kernel), (kernel))                 \
    CALL(clGetKernelInfo, VR_CL_REQUIRED,                                                          \
         (struct vr_cl_kernel *kernel, vr_cl_uint what, size_t bytes, void *value, size_t *needed),\
         (kernel, what, bytes, value, needed))                                                     \
    CALL(clGetKernelArgInfo, VR_CL_REQUIRED,                                                       \
         (struct vr_cl_kernel *kernel, vr_cl_uint index, vr_cl_uint what, size_t bytes,            \
          void *value, size_t *needed), (kernel, index, what, bytes, value, needed))               \
    CALL(clSetKernelArg, VR_CL_REQUIRED,                                                           \
         (struct vr_cl_kernel *kernel, vr_cl_uint index, size_t bytes, const void *value),         \
         (kernel, index, bytes, value))                                                            \
    CALL(clEnqueueNDRangeKernel, VR_CL_REQUIRED,                                                   \
         (struct vr_cl_queue *queue, struct vr_cl_kernel *kernel, vr_cl_uint axes,                 \
          const size_t *offset, const size_t *items, const size_t *group, vr_cl_uint count,        \
          struct vr_cl_event *const *events, struct vr_cl_event **event),                          \
         (queue, kernel, axes, offset, items, group, count, events, event))                        \
    GIVE(clGetExtensionFunctionAddressForPlatform, VR_CL_REQUIRED,                                 \
         (struct vr_cl_platform *platform, const char *name), (platform, name))                    \
    GIVE(clSVMAlloc, VR_CL_OPTIONAL,                                                               \
         (struct vr_cl_context *context, vr_cl_bits flags, size_t bytes, vr_cl_uint align),        \
         (context, flags, bytes, align))                                                           \
    TAKE(clSVMFree, VR_CL_OPTIONAL, (struct vr_cl_context *context, void *memory),                 \
         (context, memory))                                                                        \
    CALL(clSetKernelArgSVMPointer, VR_CL_OPTIONAL,                                                 \
         (struct vr_cl_kernel *kernel, vr_cl_uint index, const void *pointer),                     \
         (kernel, index, pointer))                                                                 \
    CALL(clEnqueueSVMMemcpy, VR_CL_OPTIONAL,                                                       \
         (struct vr_cl_queue *queue, vr_cl_uint wait, void *to, const void *from, size_t bytes,    \
          vr_cl_uint count, struct vr_cl_event *const *events, struct vr_cl_event **event),        \
         (queue, wait, to, from, bytes, count, events, event))                                     \
    CALL(clEnqueueSVMMemFill, VR_CL_OPTIONAL,                                                      \
         (struct vr_cl_queue *queue, void *to, const void *pattern, size_t pattern_bytes,          \
          size_t bytes, vr_cl_uint count, struct vr_cl_event *const *events,                       \
          struct vr_cl_event **event),                                                             \
         (queue, to, pattern, pattern_bytes, bytes, count, events, event))                         \
    CALL(clEnqueueSVMMigrateMem, VR_CL_OPTIONAL,                                                   \
         (struct vr_cl_queue *queue, vr_cl_uint pointer_count, const void **pointers,              \
          const size_t *sizes, vr_cl_bits flags, vr_cl_uint count,                                 \
          struct vr_cl_event *const *events, struct vr_cl_event **event),                          \
         (queue, pointer_count, pointers, sizes, flags, count, events, event))
/* clang-format on */

/* The loaded driver: one pointer per row above, NULL if an optional symbol is absent. */
struct vr_opencl_api {
/* NOLINTBEGIN(bugprone-macro-parentheses): these are declarations, not expressions */
#define VR_CL_CALL(name, need, parameters, arguments)       vr_cl_int(*name) parameters;
#define VR_CL_MAKE(name, need, type, parameters, arguments) type *(*name)parameters;
#define VR_CL_GIVE(name, need, parameters, arguments)       void *(*name)parameters;
#define VR_CL_TAKE(name, need, parameters, arguments)       void(*name) parameters;
    VR_OPENCL_FUNCTIONS(VR_CL_CALL, VR_CL_MAKE, VR_CL_GIVE, VR_CL_TAKE)
#undef VR_CL_CALL
#undef VR_CL_MAKE
#undef VR_CL_GIVE
#undef VR_CL_TAKE
    /* NOLINTEND(bugprone-macro-parentheses) */
};

/* Unified shared memory, cl_intel_unified_shared_memory; present as a whole or not at all. */
struct vr_opencl_usm {
    void *(*clDeviceMemAllocINTEL)(struct vr_cl_context *context, struct vr_cl_device *device,
                                   const vr_cl_bits *props, size_t bytes, vr_cl_uint align,
                                   vr_cl_int *code);
    void *(*clSharedMemAllocINTEL)(struct vr_cl_context *context, struct vr_cl_device *device,
                                   const vr_cl_bits *props, size_t bytes, vr_cl_uint align,
                                   vr_cl_int *code);
    vr_cl_int (*clMemFreeINTEL)(struct vr_cl_context *context, void *memory);
    vr_cl_int (*clSetKernelArgMemPointerINTEL)(struct vr_cl_kernel *kernel, vr_cl_uint index,
                                               const void *pointer);
    vr_cl_int (*clEnqueueMemFillINTEL)(struct vr_cl_queue *queue, void *to, const void *pattern,
                                       size_t pattern_bytes, size_t bytes, vr_cl_uint count,
                                       struct vr_cl_event *const *events,
                                       struct vr_cl_event **event);
    vr_cl_int (*clEnqueueMemcpyINTEL)(struct vr_cl_queue *queue, vr_cl_uint wait, void *to,
                                      const void *from, size_t bytes, vr_cl_uint count,
                                      struct vr_cl_event *const *events,
                                      struct vr_cl_event **event);
};

#endif
