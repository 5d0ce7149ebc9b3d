/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_api.h: the part of the CUDA driver's interface that the backend uses, in our own words, so
 * that neither building nor running needs NVIDIA's toolkit.
 *
 * Names of types begin with vr_cu_ so that this header can stand beside the real cuda.h: where a
 * toolkit is found, tests/lint/cuda_abi.c includes both and has the compiler compare every size,
 * offset, value and prototype. Values and layouts are NVIDIA's ABI and do not change.
 *
 * VR_CUDA_FUNCTIONS is the one list of entry points. The table of pointers, the loader's rows and
 * the prototypes of the tests' driver all come from it.
 */
#ifndef VR_CUDA_API_H
#define VR_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

/* -------------------------------------------------------------------- types */

typedef int vr_cu_result;                /* CUresult; one of vr_cu_code, or anything else */
typedef int vr_cu_device;                /* CUdevice, an ordinal */
typedef unsigned long long vr_cu_addr;   /* CUdeviceptr */
typedef unsigned long long vr_cu_memory; /* CUmemGenericAllocationHandle */

struct vr_cu_context; /* CUcontext points to it */
struct vr_cu_stream;  /* CUstream points to it */
struct vr_cu_event;   /* CUevent points to it */

struct vr_cu_uuid {
    char bytes[16];
};

struct vr_cu_location {
    int type; /* VR_CU_LOCATION_DEVICE */
    int id;   /* the device's ordinal */
};

/* What cuMemCreate is to make. All zero but type and location: no export, no compression. */
struct vr_cu_prop {
    int type; /* VR_CU_ALLOCATION_PINNED */
    int requested_handle_types;
    struct vr_cu_location location;
    void *win32_meta;
    struct {
        unsigned char compression;
        unsigned char rdma_capable;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};

struct vr_cu_access {
    struct vr_cu_location location;
    int flags; /* VR_CU_ACCESS_READWRITE */
};

/* ------------------------------------------------------------------- values */

/* Result codes that the backend tells apart; cuda_error.c says what each becomes. */
enum vr_cu_code {
    VR_CU_SUCCESS = 0,
    VR_CU_INVALID_VALUE = 1,
    VR_CU_OUT_OF_MEMORY = 2,
    VR_CU_NOT_INITIALIZED = 3,
    VR_CU_DEINITIALIZED = 4,
    VR_CU_STUB_LIBRARY = 34,
    VR_CU_NEWER_DRIVER_NEEDED = 36,
    VR_CU_DEVICE_UNAVAILABLE = 46,
    VR_CU_NO_DEVICE = 100,
    VR_CU_INVALID_DEVICE = 101,
    VR_CU_NOT_LICENSED = 102,
    VR_CU_INVALID_CONTEXT = 201,
    VR_CU_ALREADY_MAPPED = 208,
    VR_CU_NOT_MAPPED = 211,
    VR_CU_ECC_UNCORRECTABLE = 214,
    VR_CU_PEER_UNSUPPORTED = 217,
    VR_CU_NVLINK_UNCORRECTABLE = 220,
    VR_CU_CONTAINED = 226,
    VR_CU_OPERATING_SYSTEM = 304,
    VR_CU_INVALID_HANDLE = 400,
    VR_CU_ILLEGAL_STATE = 401,
    VR_CU_NOT_READY = 600,
    VR_CU_ILLEGAL_ADDRESS = 700,
    VR_CU_LAUNCH_TIMEOUT = 702,
    VR_CU_CONTEXT_DESTROYED = 709,
    VR_CU_ASSERT = 710,
    VR_CU_HARDWARE_STACK = 714,
    VR_CU_ILLEGAL_INSTRUCTION = 715,
    VR_CU_MISALIGNED_ADDRESS = 716,
    VR_CU_INVALID_ADDRESS_SPACE = 717,
    VR_CU_INVALID_PC = 718,
    VR_CU_LAUNCH_FAILED = 719,
    VR_CU_TENSOR_MEMORY_LEAK = 721,
    VR_CU_NOT_PERMITTED = 800,
    VR_CU_NOT_SUPPORTED = 801,
    VR_CU_SYSTEM_NOT_READY = 802,
    VR_CU_DRIVER_MISMATCH = 803,
    VR_CU_COMPAT_UNSUPPORTED = 804,
    VR_CU_MPS_CLIENT_TERMINATED = 810,
    VR_CU_CAPTURE_FIRST = 900, /* STREAM_CAPTURE_UNSUPPORTED */
    VR_CU_CAPTURE_IMPLICIT = 906,
    VR_CU_CAPTURE_LAST = 908, /* STREAM_CAPTURE_WRONG_THREAD */
    VR_CU_TIMEOUT = 909,
    VR_CU_EXTERNAL_DEVICE = 911,
    VR_CU_UNKNOWN = 999
};

enum vr_cu_attribute {
    VR_CU_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    VR_CU_ATTRIBUTE_MAJOR = 75,
    VR_CU_ATTRIBUTE_MINOR = 76,
    VR_CU_ATTRIBUTE_MEMORY_OPS_V1 = 93, /* 64-bit stream memory operations, drivers before 11.7 */
    VR_CU_ATTRIBUTE_VMM = 102,
    VR_CU_ATTRIBUTE_MEMORY_OPS = 122 /* the same, since 11.7 */
};

enum vr_cu_capture_status {
    VR_CU_CAPTURE_NONE = 0,
    VR_CU_CAPTURE_ACTIVE = 1,
    VR_CU_CAPTURE_INVALIDATED = 2
};

enum vr_cu_capture_mode {
    VR_CU_MODE_GLOBAL = 0,
    VR_CU_MODE_THREAD_LOCAL = 1,
    VR_CU_MODE_RELAXED = 2
};

enum vr_cu_granularity { VR_CU_GRANULARITY_MINIMUM = 0 };

enum {
    VR_CU_ALLOCATION_PINNED = 1,
    VR_CU_LOCATION_DEVICE = 1,
    VR_CU_ACCESS_READWRITE = 3,
    VR_CU_HOST_PORTABLE = 1,
    VR_CU_HOST_DEVICEMAP = 2,
    VR_CU_STREAM_NON_BLOCKING = 1,
    VR_CU_EVENT_DISABLE_TIMING = 2,
    VR_CU_WAIT_GEQ = 0,
    VR_CU_WRITE_DEFAULT = 0,
    VR_CU_STREAM_LEGACY = 1,    /* handles that are numbers: the legacy default stream ... */
    VR_CU_STREAM_PER_THREAD = 2 /* ... and the calling thread's own default stream */
};

/* ---------------------------------------------------------------- functions */

#define VR_CU_REQUIRED false
#define VR_CU_OPTIONAL true

/*
 * X(name, symbol, fallback, VR_CU_REQUIRED or _OPTIONAL, (parameters)). `symbol` is what a driver
 * exports today, version suffix included; `fallback` is an older symbol that does the same.
 * All return a vr_cu_result. (clang-format would take the parameters for products.)
 */
/* clang-format off */
#define VR_CUDA_FUNCTIONS(X)                                                                       \
    X(cuInit, cuInit, NULL, VR_CU_REQUIRED, (unsigned flags))                                      \
    X(cuDriverGetVersion, cuDriverGetVersion, NULL, VR_CU_REQUIRED, (int *version))                \
    X(cuGetErrorName, cuGetErrorName, NULL, VR_CU_REQUIRED,                                        \
      (vr_cu_result code, const char **text))                                                      \
    X(cuGetErrorString, cuGetErrorString, NULL, VR_CU_REQUIRED,                                    \
      (vr_cu_result code, const char **text))                                                      \
    X(cuDeviceGet, cuDeviceGet, NULL, VR_CU_REQUIRED, (vr_cu_device *device, int ordinal))         \
    X(cuDeviceGetCount, cuDeviceGetCount, NULL, VR_CU_REQUIRED, (int *count))                      \
    X(cuDeviceGetName, cuDeviceGetName, NULL, VR_CU_REQUIRED,                                      \
      (char *name, int bytes, vr_cu_device device))                                                \
    X(cuDeviceGetUuid, cuDeviceGetUuid_v2, "cuDeviceGetUuid", VR_CU_OPTIONAL,                      \
      (struct vr_cu_uuid *uuid, vr_cu_device device))                                              \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, NULL, VR_CU_OPTIONAL,                              \
      (char *text, int bytes, vr_cu_device device))                                                \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, NULL, VR_CU_REQUIRED,                            \
      (int *value, enum vr_cu_attribute attribute, vr_cu_device device))                           \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, NULL, VR_CU_REQUIRED,                                 \
      (size_t *bytes, vr_cu_device device))                                                        \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, NULL, VR_CU_REQUIRED,                    \
      (struct vr_cu_context **context, vr_cu_device device))                                       \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease",        \
      VR_CU_REQUIRED, (vr_cu_device device))                                                       \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, NULL, VR_CU_REQUIRED,                                 \
      (struct vr_cu_context *context))                                                             \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, NULL, VR_CU_REQUIRED,                                   \
      (struct vr_cu_context **context))                                                            \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, NULL, VR_CU_OPTIONAL,  \
      (enum vr_cu_capture_mode *mode))                                                             \
    X(cuMemGetInfo, cuMemGetInfo_v2, NULL, VR_CU_REQUIRED, (size_t *free, size_t *total))          \
    X(cuMemAlloc, cuMemAlloc_v2, NULL, VR_CU_REQUIRED, (vr_cu_addr *addr, size_t bytes))           \
    X(cuMemFree, cuMemFree_v2, NULL, VR_CU_REQUIRED, (vr_cu_addr addr))                            \
    X(cuMemHostAlloc, cuMemHostAlloc, NULL, VR_CU_REQUIRED,                                        \
      (void **memory, size_t bytes, unsigned flags))                                               \
    X(cuMemFreeHost, cuMemFreeHost, NULL, VR_CU_REQUIRED, (void *memory))                          \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, NULL, VR_CU_OPTIONAL,          \
      (size_t *bytes, const struct vr_cu_prop *prop, enum vr_cu_granularity which))                \
    X(cuMemAddressReserve, cuMemAddressReserve, NULL, VR_CU_OPTIONAL,                              \
      (vr_cu_addr *addr, size_t bytes, size_t align, vr_cu_addr hint, unsigned long long flags))   \
    X(cuMemAddressFree, cuMemAddressFree, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t bytes))   \
    X(cuMemCreate, cuMemCreate, NULL, VR_CU_OPTIONAL,                                              \
      (vr_cu_memory *handle, size_t bytes, const struct vr_cu_prop *prop,                          \
       unsigned long long flags))                                                                  \
    X(cuMemRelease, cuMemRelease, NULL, VR_CU_OPTIONAL, (vr_cu_memory handle))                     \
    X(cuMemMap, cuMemMap, NULL, VR_CU_OPTIONAL,                                                    \
      (vr_cu_addr addr, size_t bytes, size_t offset, vr_cu_memory handle,                          \
       unsigned long long flags))                                                                  \
    X(cuMemSetAccess, cuMemSetAccess, NULL, VR_CU_OPTIONAL,                                        \
      (vr_cu_addr addr, size_t bytes, const struct vr_cu_access *access, size_t count))            \
    X(cuMemUnmap, cuMemUnmap, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t bytes))               \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, NULL, VR_CU_REQUIRED,                \
      (struct vr_cu_stream **stream, unsigned flags, int priority))                                \
    X(cuStreamDestroy, cuStreamDestroy_v2, NULL, VR_CU_REQUIRED, (struct vr_cu_stream *stream))    \
    X(cuStreamSynchronize, cuStreamSynchronize, NULL, VR_CU_REQUIRED,                              \
      (struct vr_cu_stream *stream))                                                               \
    X(cuStreamQuery, cuStreamQuery, NULL, VR_CU_REQUIRED, (struct vr_cu_stream *stream))           \
    X(cuStreamGetCtx, cuStreamGetCtx, NULL, VR_CU_OPTIONAL,                                        \
      (struct vr_cu_stream *stream, struct vr_cu_context **context))                               \
    X(cuStreamIsCapturing, cuStreamIsCapturing, NULL, VR_CU_REQUIRED,                              \
      (struct vr_cu_stream *stream, enum vr_cu_capture_status *status))                            \
    X(cuStreamWriteValue64, cuStreamWriteValue64_v2, "cuStreamWriteValue64", VR_CU_OPTIONAL,       \
      (struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t value, unsigned flags))              \
    X(cuStreamWaitValue64, cuStreamWaitValue64_v2, "cuStreamWaitValue64", VR_CU_OPTIONAL,          \
      (struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t value, unsigned flags))              \
    X(cuStreamWaitEvent, cuStreamWaitEvent, NULL, VR_CU_REQUIRED,                                  \
      (struct vr_cu_stream *stream, struct vr_cu_event *event, unsigned flags))                    \
    X(cuEventCreate, cuEventCreate, NULL, VR_CU_REQUIRED,                                          \
      (struct vr_cu_event **event, unsigned flags))                                                \
    X(cuEventRecord, cuEventRecord, NULL, VR_CU_REQUIRED,                                          \
      (struct vr_cu_event *event, struct vr_cu_stream *stream))                                    \
    X(cuEventDestroy, cuEventDestroy_v2, NULL, VR_CU_REQUIRED, (struct vr_cu_event *event))        \
    X(cuLaunchHostFunc, cuLaunchHostFunc, NULL, VR_CU_REQUIRED,                                    \
      (struct vr_cu_stream *stream, void (*run)(void *), void *argument))                          \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, NULL, VR_CU_REQUIRED,                               \
      (vr_cu_addr to, const void *from, size_t bytes, struct vr_cu_stream *stream))                \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, NULL, VR_CU_REQUIRED,                               \
      (void *to, vr_cu_addr from, size_t bytes, struct vr_cu_stream *stream))                      \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, NULL, VR_CU_REQUIRED,                               \
      (vr_cu_addr to, vr_cu_addr from, size_t bytes, struct vr_cu_stream *stream))                 \
    X(cuMemsetD8Async, cuMemsetD8Async, NULL, VR_CU_REQUIRED,                                      \
      (vr_cu_addr to, unsigned char value, size_t count, struct vr_cu_stream *stream))             \
    X(cuMemsetD16Async, cuMemsetD16Async, NULL, VR_CU_REQUIRED,                                    \
      (vr_cu_addr to, unsigned short value, size_t count, struct vr_cu_stream *stream))            \
    X(cuMemsetD32Async, cuMemsetD32Async, NULL, VR_CU_REQUIRED,                                    \
      (vr_cu_addr to, unsigned value, size_t count, struct vr_cu_stream *stream))
/* clang-format on */

/* The loaded driver: one pointer per row above, NULL where an optional symbol is absent. */
struct vr_cuda_api {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): these are declarations, not expressions */
#define VR_CUDA_FIELD(name, symbol, fallback, optional, parameters) vr_cu_result(*name) parameters;
    VR_CUDA_FUNCTIONS(VR_CUDA_FIELD)
#undef VR_CUDA_FIELD
};

#endif
