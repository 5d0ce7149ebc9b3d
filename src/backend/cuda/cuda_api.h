/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_api.h: the part of the CUDA driver API that the backend uses, declared here so that neither
 * building nor running needs NVIDIA's toolkit.
 *
 * Names of types begin with vr_cu_, so this header can be included beside the real cuda.h: where a
 * toolkit is found, tests/lint/cuda_abi.c includes both and the compiler compares every size,
 * offset, value and prototype. Values and layouts are NVIDIA's ABI and do not change.
 *
 * cuda.entries lists the entry points and the codes they return; generated/cuda_entries.h is
 * made from it.
 */
#ifndef VR_CUDA_API_H
#define VR_CUDA_API_H

#include "backend/cuda/generated/cuda_entries.h"
#include "backend/hip/generated/hip_entries.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -------------------------------------------------------------------- types */

typedef int vr_cu_result;                /* CUresult; one of vr_cu_code, or anything else */
typedef int vr_cu_device;                /* CUdevice, an ordinal */
typedef unsigned long long vr_cu_addr;   /* CUdeviceptr */
typedef unsigned long long vr_cu_memory; /* CUmemGenericAllocationHandle */

struct vr_cu_context;  /* CUcontext points to it */
struct vr_cu_stream;   /* CUstream points to it */
struct vr_cu_event;    /* CUevent points to it */
struct vr_cu_module;   /* CUmodule points to it */
struct vr_cu_function; /* CUfunction points to it */

struct vr_cu_uuid {
    char bytes[16];
};

struct vr_cu_location {
    int type; /* VR_CU_LOCATION_DEVICE or _HOST */
    int id;   /* the device's ordinal */
};

/* The argument of cuMemCreate. All zero but type and location, in cuda_share.c the handle type, and
   rdma_capable where the device has it: no compression. */
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
    int flags; /* VR_CU_ACCESS_ */
};

/* One side of a copy of rows; `type` says which of the three pointers is used. */
struct vr_cu_rows_side {
    size_t x, y; /* bytes and rows to skip */
    int type;    /* VR_CU_SIDE_HOST or _DEVICE */
    void *host;
    vr_cu_addr device;
    void *array;
    size_t pitch;
};

/* The argument of cuMemcpy2DAsync. */
struct vr_cu_rows {
    struct vr_cu_rows_side from, to;
    size_t row_bytes, rows;
};

/* ------------------------------------------------------------------- values */

/* Result codes that the backend distinguishes; cuda_driver.c maps them to statuses. */
enum vr_cu_code {
#define VR_CU_CODE(NAME, value, theirs) VR_CU_##NAME = (value),
    VR_CUDA_CODES(VR_CU_CODE)
#undef VR_CU_CODE
};

enum vr_cu_attribute {
    VR_CU_ATTRIBUTE_INTEGRATED = 18,
    VR_CU_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    VR_CU_ATTRIBUTE_MAJOR = 75,
    VR_CU_ATTRIBUTE_MINOR = 76,
    VR_CU_ATTRIBUTE_MANAGED = 83,
    VR_CU_ATTRIBUTE_CONCURRENT_MANAGED = 89,
    VR_CU_ATTRIBUTE_HOST_ADDRESS = 91,  /* registered host memory has the host's address */
    VR_CU_ATTRIBUTE_MEMORY_OPS_V1 = 93, /* 64-bit stream memory operations, drivers before 11.7 */
    VR_CU_ATTRIBUTE_VMM = 102,
    VR_CU_ATTRIBUTE_DESCRIPTORS = 103, /* memory can be exported as a file descriptor */
    VR_CU_ATTRIBUTE_RDMA = 110,        /* network cards can register mapped memory */
    VR_CU_ATTRIBUTE_MEMORY_OPS = 122,  /* 64-bit stream memory operations, since 11.7 */
    VR_CU_ATTRIBUTE_FABRIC = 128       /* memory can be exported as a fabric handle */
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

enum vr_cu_advice {
    VR_CU_ADVISE_READ_MOSTLY = 1,
    VR_CU_ADVISE_NOT_READ_MOSTLY = 2,
    VR_CU_ADVISE_PREFER = 3,
    VR_CU_ADVISE_PREFER_NONE = 4
};

enum vr_cu_granularity { VR_CU_GRANULARITY_MINIMUM = 0 };

enum vr_cu_handle_type {
    VR_CU_HANDLE_DESCRIPTOR = 1, /* a handle that is exported as a POSIX file descriptor */
    VR_CU_HANDLE_FABRIC = 8      /* the same as a CUmemFabricHandle, 64 bytes */
};

enum {
    VR_CU_ALLOCATION_PINNED = 1,
    VR_CU_LOCATION_DEVICE = 1,
    VR_CU_LOCATION_HOST = 2,
    VR_CU_MANAGED_GLOBAL = 1, /* any stream on any device may use it */
    VR_CU_ACCESS_READ = 1,
    VR_CU_ACCESS_READWRITE = 3,
    VR_CU_HOST_PORTABLE = 1,
    VR_CU_HOST_DEVICEMAP = 2,
    VR_CU_STREAM_NON_BLOCKING = 1,
    VR_CU_EVENT_DISABLE_TIMING = 2,
    VR_CU_WAIT_GEQ = 0,
    VR_CU_WRITE_DEFAULT = 0,
    VR_CU_SIDE_HOST = 1,
    VR_CU_SIDE_DEVICE = 2,
    VR_CU_STREAM_LEGACY = 1,    /* handles that are numbers: the legacy default stream ... */
    VR_CU_STREAM_PER_THREAD = 2 /* ... and the calling thread's own default stream */
};

/* ---------------------------------------------------------------- functions */

#define VR_CU_REQUIRED false
#define VR_CU_OPTIONAL true

/* Every entry point by number. Those that only HIP has follow CUDA's. */
enum vr_cu_call {
#define VR_CU_CALL(name, symbol, fallback, optional, parameters) VR_CU_CALL_##name,
    VR_CUDA_FUNCTIONS(VR_CU_CALL) VR_HIP_FUNCTIONS(VR_CU_CALL)
#undef VR_CU_CALL
        VR_CU_CALL_COUNT
};

struct vr_cuda_dialect;

/* The loaded driver: one pointer per row of the tables, NULL if it has no such symbol. */
struct vr_cuda_api {
    const struct vr_cuda_dialect *dialect;
/* NOLINTNEXTLINE(bugprone-macro-parentheses): these are declarations, not expressions */
#define VR_CUDA_FIELD(name, symbol, fallback, optional, parameters) vr_cu_result(*name) parameters;
    VR_CUDA_FUNCTIONS(VR_CUDA_FIELD) VR_HIP_FUNCTIONS(VR_CUDA_FIELD)
#undef VR_CUDA_FIELD
};

#endif
