/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_abi.c: our declarations of the CUDA driver against NVIDIA's own, by the compiler.
 *
 * Compiling this file is the test; there is nothing to run. The build does so where it finds the
 * cuda.h of CUDA 12.2 or newer, with its folder in the CMake variable CUDA_CROSSCHECK_INCLUDE:
 *     cc -std=c11 -fsyntax-only -I src -I include -isystem ${CUDA_CROSSCHECK_INCLUDE} cuda_abi.c
 * Where no toolkit is installed the test is skipped, with that reason.
 */
#include <cuda.h>

#include "abi.h"
#include "backend/cuda/cuda_api.h"

#if CUDA_VERSION < 12020
#error "cuda_abi.c compares with CUDA 12.2 or newer; leave CUDA_CROSSCHECK_INCLUDE empty"
#endif

/* ------------------------------------------------------------------- values */

/* The codes that came with CUDA 13. */
#if CUDA_VERSION < 13000
#define CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER VR_CU_NEWER_DRIVER_NEEDED
#define CUDA_ERROR_CONTAINED                  VR_CU_CONTAINED
#define CUDA_ERROR_TENSOR_MEMORY_LEAK         VR_CU_TENSOR_MEMORY_LEAK
#endif
#define SAME_CODE(NAME, value, theirs) SAME(VR_CU_##NAME, theirs);
VR_CUDA_CODES(SAME_CODE)

SAME(VR_CU_ATTRIBUTE_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(VR_CU_ATTRIBUTE_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(VR_CU_ATTRIBUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(VR_CU_ATTRIBUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(VR_CU_ATTRIBUTE_HOST_ADDRESS, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
SAME(VR_CU_ATTRIBUTE_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(VR_CU_ATTRIBUTE_FABRIC, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
SAME(VR_CU_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
SAME(VR_CU_ATTRIBUTE_DESCRIPTORS, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(VR_CU_ATTRIBUTE_MEMORY_OPS_V1, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1);
SAME(VR_CU_ATTRIBUTE_MEMORY_OPS, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);

SAME(VR_CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(VR_CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(VR_CU_CAPTURE_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(VR_CU_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(VR_CU_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(VR_CU_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(VR_CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(VR_CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(VR_CU_HANDLE_DESCRIPTOR, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(VR_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(VR_CU_LOCATION_HOST, CU_MEM_LOCATION_TYPE_HOST);
SAME(VR_CU_MANAGED_GLOBAL, CU_MEM_ATTACH_GLOBAL);
SAME(VR_CU_ADVISE_READ_MOSTLY, CU_MEM_ADVISE_SET_READ_MOSTLY);
SAME(VR_CU_ADVISE_NOT_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
SAME(VR_CU_ADVISE_PREFER, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
SAME(VR_CU_ADVISE_PREFER_NONE, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
SAME(VR_CU_ATTRIBUTE_MANAGED, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
SAME(VR_CU_ATTRIBUTE_CONCURRENT_MANAGED, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
SAME(VR_CU_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(VR_CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(VR_CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(VR_CU_HOST_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(VR_CU_SIDE_HOST, CU_MEMORYTYPE_HOST);
SAME(VR_CU_SIDE_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(VR_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(VR_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(VR_CU_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
SAME(VR_CU_WRITE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);

/* ------------------------------------------------------------------ layouts */

SAME(sizeof(vr_cu_result), sizeof(CUresult));
SAME(sizeof(vr_cu_device), sizeof(CUdevice));
SAME(sizeof(vr_cu_addr), sizeof(CUdeviceptr));
SAME(sizeof(vr_cu_memory), sizeof(CUmemGenericAllocationHandle));
LAYOUT(vr_cu_uuid, CUuuid, 0);

LAYOUT(vr_cu_location, CUmemLocation, 2, type, type, id, id);

LAYOUT(vr_cu_prop, CUmemAllocationProp, 7, type, type, requested_handle_types, requestedHandleTypes,
       location, location, win32_meta, win32HandleMetaData, flags.compression,
       allocFlags.compressionType, flags.rdma_capable, allocFlags.gpuDirectRDMACapable, flags.usage,
       allocFlags.usage);
FIELDS_1(vr_cu_prop, CUmemAllocationProp, flags.reserved, allocFlags.reserved);

LAYOUT(vr_cu_access, CUmemAccessDesc, 2, location, location, flags, flags);

LAYOUT(vr_cu_rows, CUDA_MEMCPY2D, 7, from.x, srcXInBytes, from.y, srcY, from.type, srcMemoryType,
       from.host, srcHost, from.device, srcDevice, from.array, srcArray, from.pitch, srcPitch);
FIELDS_7(vr_cu_rows, CUDA_MEMCPY2D, to.x, dstXInBytes, to.y, dstY, to.type, dstMemoryType, to.host,
         dstHost, to.device, dstDevice, to.array, dstArray, to.pitch, dstPitch);
FIELDS_2(vr_cu_rows, CUDA_MEMCPY2D, row_bytes, WidthInBytes, rows, Height);

/* --------------------------------------------------------------- prototypes */

/* The list is expanded once more with NVIDIA's types in the place of ours: each row must then have
   the very type of the function that cuda.h declares under that symbol. */
#define vr_cu_result         CUresult
#define vr_cu_device         CUdevice
#define vr_cu_addr           CUdeviceptr
#define vr_cu_memory         CUmemGenericAllocationHandle
#define vr_cu_context        CUctx_st
#define vr_cu_stream         CUstream_st
#define vr_cu_event          CUevent_st
#define vr_cu_module         CUmod_st
#define vr_cu_function       CUfunc_st
#define vr_cu_location       CUmemLocation_st
#define vr_cu_advice         CUmem_advise_enum
#define vr_cu_uuid           CUuuid_st
#define vr_cu_rows           CUDA_MEMCPY2D_st
#define vr_cu_prop           CUmemAllocationProp_st
#define vr_cu_access         CUmemAccessDesc_st
#define vr_cu_attribute      CUdevice_attribute_enum
#define vr_cu_capture_status CUstreamCaptureStatus_enum
#define vr_cu_capture_mode   CUstreamCaptureMode_enum
#define vr_cu_handle_type    CUmemAllocationHandleType_enum
#define vr_cu_granularity    CUmemAllocationGranularity_flags_enum

#define PROTOTYPE(name, symbol, fallback, optional, parameters)                                    \
    _Static_assert(_Generic(&symbol, CUresult(*) parameters : true, default : false), #symbol);
VR_CUDA_FUNCTIONS(PROTOTYPE)
