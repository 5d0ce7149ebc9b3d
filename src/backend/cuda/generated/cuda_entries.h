/* Made by tools/driver-table from src/backend/cuda/cuda.entries. */
/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_entries.h: lists of the CUDA driver's entry points and result codes. */
#ifndef VR_CUDA_ENTRIES_H
#define VR_CUDA_ENTRIES_H

/* clang-format off */

/* X(NAME, value, the driver's name): results that are told apart. */
#define VR_CUDA_CODES(X)                                                                           \
    X(SUCCESS, 0, CUDA_SUCCESS)                                                                    \
    X(INVALID_VALUE, 1, CUDA_ERROR_INVALID_VALUE)                                                  \
    X(OUT_OF_MEMORY, 2, CUDA_ERROR_OUT_OF_MEMORY)                                                  \
    X(NOT_INITIALIZED, 3, CUDA_ERROR_NOT_INITIALIZED)                                              \
    X(DEINITIALIZED, 4, CUDA_ERROR_DEINITIALIZED)                                                  \
    X(STUB_LIBRARY, 34, CUDA_ERROR_STUB_LIBRARY)                                                   \
    X(NEWER_DRIVER_NEEDED, 36, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER)                              \
    X(DEVICE_UNAVAILABLE, 46, CUDA_ERROR_DEVICE_UNAVAILABLE)                                       \
    X(NO_DEVICE, 100, CUDA_ERROR_NO_DEVICE)                                                        \
    X(INVALID_DEVICE, 101, CUDA_ERROR_INVALID_DEVICE)                                              \
    X(NOT_LICENSED, 102, CUDA_ERROR_DEVICE_NOT_LICENSED)                                           \
    X(INVALID_IMAGE, 200, CUDA_ERROR_INVALID_IMAGE)                                                \
    X(INVALID_CONTEXT, 201, CUDA_ERROR_INVALID_CONTEXT)                                            \
    X(ALREADY_MAPPED, 208, CUDA_ERROR_ALREADY_MAPPED)                                              \
    X(NO_BINARY_FOR_GPU, 209, CUDA_ERROR_NO_BINARY_FOR_GPU)                                        \
    X(NOT_MAPPED, 211, CUDA_ERROR_NOT_MAPPED)                                                      \
    X(ECC_UNCORRECTABLE, 214, CUDA_ERROR_ECC_UNCORRECTABLE)                                        \
    X(PEER_UNSUPPORTED, 217, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)                                   \
    X(INVALID_PTX, 218, CUDA_ERROR_INVALID_PTX)                                                    \
    X(NVLINK_UNCORRECTABLE, 220, CUDA_ERROR_NVLINK_UNCORRECTABLE)                                  \
    X(JIT_COMPILER_NOT_FOUND, 221, CUDA_ERROR_JIT_COMPILER_NOT_FOUND)                              \
    X(UNSUPPORTED_PTX_VERSION, 222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)                            \
    X(CONTAINED, 226, CUDA_ERROR_CONTAINED)                                                        \
    X(SHARED_OBJECT_SYMBOL_NOT_FOUND, 302, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND)              \
    X(SHARED_OBJECT_INIT_FAILED, 303, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)                        \
    X(OPERATING_SYSTEM, 304, CUDA_ERROR_OPERATING_SYSTEM)                                          \
    X(INVALID_HANDLE, 400, CUDA_ERROR_INVALID_HANDLE)                                              \
    X(ILLEGAL_STATE, 401, CUDA_ERROR_ILLEGAL_STATE)                                                \
    X(NOT_FOUND, 500, CUDA_ERROR_NOT_FOUND)                                                        \
    X(NOT_READY, 600, CUDA_ERROR_NOT_READY)                                                        \
    X(ILLEGAL_ADDRESS, 700, CUDA_ERROR_ILLEGAL_ADDRESS)                                            \
    X(LAUNCH_OUT_OF_RESOURCES, 701, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)                            \
    X(LAUNCH_TIMEOUT, 702, CUDA_ERROR_LAUNCH_TIMEOUT)                                              \
    X(LAUNCH_INCOMPATIBLE_TEXTURING, 703, CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING)                \
    X(PEER_ACCESS_ALREADY_ENABLED, 704, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)                    \
    X(CONTEXT_DESTROYED, 709, CUDA_ERROR_CONTEXT_IS_DESTROYED)                                     \
    X(ASSERT, 710, CUDA_ERROR_ASSERT)                                                              \
    X(TOO_MANY_PEERS, 711, CUDA_ERROR_TOO_MANY_PEERS)                                              \
    X(HOST_REGISTERED, 712, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)                             \
    X(HOST_NOT_REGISTERED, 713, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)                             \
    X(HARDWARE_STACK, 714, CUDA_ERROR_HARDWARE_STACK_ERROR)                                        \
    X(ILLEGAL_INSTRUCTION, 715, CUDA_ERROR_ILLEGAL_INSTRUCTION)                                    \
    X(MISALIGNED_ADDRESS, 716, CUDA_ERROR_MISALIGNED_ADDRESS)                                      \
    X(INVALID_ADDRESS_SPACE, 717, CUDA_ERROR_INVALID_ADDRESS_SPACE)                                \
    X(INVALID_PC, 718, CUDA_ERROR_INVALID_PC)                                                      \
    X(LAUNCH_FAILED, 719, CUDA_ERROR_LAUNCH_FAILED)                                                \
    X(TENSOR_MEMORY_LEAK, 721, CUDA_ERROR_TENSOR_MEMORY_LEAK)                                      \
    X(NOT_PERMITTED, 800, CUDA_ERROR_NOT_PERMITTED)                                                \
    X(NOT_SUPPORTED, 801, CUDA_ERROR_NOT_SUPPORTED)                                                \
    X(SYSTEM_NOT_READY, 802, CUDA_ERROR_SYSTEM_NOT_READY)                                          \
    X(DRIVER_MISMATCH, 803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)                                     \
    X(COMPAT_UNSUPPORTED, 804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)                          \
    X(MPS_CLIENT_TERMINATED, 810, CUDA_ERROR_MPS_CLIENT_TERMINATED)                                \
    X(CAPTURE_FIRST, 900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)                                   \
    X(CAPTURE_IMPLICIT, 906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)                                   \
    X(CAPTURE_LAST, 908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)                                   \
    X(TIMEOUT, 909, CUDA_ERROR_TIMEOUT)                                                            \
    X(EXTERNAL_DEVICE, 911, CUDA_ERROR_EXTERNAL_DEVICE)                                            \
    X(UNKNOWN, 999, CUDA_ERROR_UNKNOWN)

/* X(name, symbol, an older symbol or NULL, VR_CU_REQUIRED or _OPTIONAL, (parameters)). */
#define VR_CUDA_FUNCTIONS(X)                                                                       \
    X(cuInit, cuInit, NULL, VR_CU_REQUIRED, (unsigned flags))                                      \
    X(cuDriverGetVersion, cuDriverGetVersion, NULL, VR_CU_REQUIRED, (int *version))                \
    X(cuGetErrorName, cuGetErrorName, NULL, VR_CU_REQUIRED, (vr_cu_result code, const char         \
      **text))                                                                                     \
    X(cuGetErrorString, cuGetErrorString, NULL, VR_CU_REQUIRED, (vr_cu_result code, const char     \
      **text))                                                                                     \
    X(cuDeviceGet, cuDeviceGet, NULL, VR_CU_REQUIRED, (vr_cu_device *device, int ordinal))         \
    X(cuDeviceGetCount, cuDeviceGetCount, NULL, VR_CU_REQUIRED, (int *count))                      \
    X(cuDeviceGetName, cuDeviceGetName, NULL, VR_CU_REQUIRED, (char *name, int bytes, vr_cu_device \
      device))                                                                                     \
    X(cuDeviceGetUuid, cuDeviceGetUuid_v2, "cuDeviceGetUuid", VR_CU_OPTIONAL, (struct vr_cu_uuid   \
      *uuid, vr_cu_device device))                                                                 \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, NULL, VR_CU_OPTIONAL, (char *text, int bytes,      \
      vr_cu_device device))                                                                        \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, NULL, VR_CU_REQUIRED, (int *value, enum          \
      vr_cu_attribute attribute, vr_cu_device device))                                             \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, NULL, VR_CU_REQUIRED, (size_t *bytes, vr_cu_device    \
      device))                                                                                     \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, NULL, VR_CU_REQUIRED, (struct            \
      vr_cu_context **context, vr_cu_device device))                                               \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease",        \
      VR_CU_REQUIRED, (vr_cu_device device))                                                       \
    X(cuCtxGetId, cuCtxGetId, NULL, VR_CU_OPTIONAL, (struct vr_cu_context *context, unsigned long  \
      long *id))                                                                                   \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, NULL, VR_CU_REQUIRED, (struct vr_cu_context           \
      *context))                                                                                   \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, NULL, VR_CU_REQUIRED, (struct vr_cu_context **context)) \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, NULL, VR_CU_OPTIONAL,  \
      (enum vr_cu_capture_mode *mode))                                                             \
    X(cuMemGetInfo, cuMemGetInfo_v2, NULL, VR_CU_REQUIRED, (size_t *free, size_t *total))          \
    X(cuMemAlloc, cuMemAlloc_v2, NULL, VR_CU_REQUIRED, (vr_cu_addr *addr, size_t bytes))           \
    X(cuMemFree, cuMemFree_v2, NULL, VR_CU_REQUIRED, (vr_cu_addr addr))                            \
    X(cuMemHostAlloc, cuMemHostAlloc, NULL, VR_CU_REQUIRED, (void **memory, size_t bytes, unsigned \
      flags))                                                                                      \
    X(cuMemFreeHost, cuMemFreeHost, NULL, VR_CU_REQUIRED, (void *memory))                          \
    X(cuMemHostGetFlags, cuMemHostGetFlags, NULL, VR_CU_OPTIONAL, (unsigned *flags, void *memory)) \
    X(cuMemHostRegister, cuMemHostRegister_v2, "cuMemHostRegister", VR_CU_OPTIONAL, (void *memory, \
      size_t bytes, unsigned flags))                                                               \
    X(cuMemHostUnregister, cuMemHostUnregister, NULL, VR_CU_OPTIONAL, (void *memory))              \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, NULL, VR_CU_OPTIONAL, (size_t  \
      *bytes, const struct vr_cu_prop *prop, enum vr_cu_granularity which))                        \
    X(cuMemAddressReserve, cuMemAddressReserve, NULL, VR_CU_OPTIONAL, (vr_cu_addr *addr, size_t    \
      bytes, size_t align, vr_cu_addr hint, unsigned long long flags))                             \
    X(cuMemAddressFree, cuMemAddressFree, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t bytes))   \
    X(cuMemCreate, cuMemCreate, NULL, VR_CU_OPTIONAL, (vr_cu_memory *handle, size_t bytes, const   \
      struct vr_cu_prop *prop, unsigned long long flags))                                          \
    X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, NULL, VR_CU_OPTIONAL, (void      \
      *shareable, vr_cu_memory handle, enum vr_cu_handle_type type, unsigned long long flags))     \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, NULL, VR_CU_OPTIONAL,        \
      (vr_cu_memory *handle, void *shareable, enum vr_cu_handle_type type))                        \
    X(cuMemRelease, cuMemRelease, NULL, VR_CU_OPTIONAL, (vr_cu_memory handle))                     \
    X(cuMemMap, cuMemMap, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t bytes, size_t offset,     \
      vr_cu_memory handle, unsigned long long flags))                                              \
    X(cuMemSetAccess, cuMemSetAccess, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t bytes, const  \
      struct vr_cu_access *access, size_t count))                                                  \
    X(cuMemUnmap, cuMemUnmap, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t bytes))               \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, NULL, VR_CU_REQUIRED, (struct        \
      vr_cu_stream **stream, unsigned flags, int priority))                                        \
    X(cuStreamDestroy, cuStreamDestroy_v2, NULL, VR_CU_REQUIRED, (struct vr_cu_stream *stream))    \
    X(cuStreamSynchronize, cuStreamSynchronize, NULL, VR_CU_REQUIRED, (struct vr_cu_stream         \
      *stream))                                                                                    \
    X(cuStreamQuery, cuStreamQuery, NULL, VR_CU_REQUIRED, (struct vr_cu_stream *stream))           \
    X(cuStreamGetCtx, cuStreamGetCtx, NULL, VR_CU_OPTIONAL, (struct vr_cu_stream *stream, struct   \
      vr_cu_context **context))                                                                    \
    X(cuStreamIsCapturing, cuStreamIsCapturing, NULL, VR_CU_REQUIRED, (struct vr_cu_stream         \
      *stream, enum vr_cu_capture_status *status))                                                 \
    X(cuStreamWriteValue64, cuStreamWriteValue64_v2, "cuStreamWriteValue64", VR_CU_OPTIONAL,       \
      (struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t value, unsigned flags))              \
    X(cuStreamWaitValue64, cuStreamWaitValue64_v2, "cuStreamWaitValue64", VR_CU_OPTIONAL, (struct  \
      vr_cu_stream *stream, vr_cu_addr addr, uint64_t value, unsigned flags))                      \
    X(cuStreamWaitEvent, cuStreamWaitEvent, NULL, VR_CU_REQUIRED, (struct vr_cu_stream *stream,    \
      struct vr_cu_event *event, unsigned flags))                                                  \
    X(cuEventCreate, cuEventCreate, NULL, VR_CU_REQUIRED, (struct vr_cu_event **event, unsigned    \
      flags))                                                                                      \
    X(cuEventRecord, cuEventRecord, NULL, VR_CU_REQUIRED, (struct vr_cu_event *event, struct       \
      vr_cu_stream *stream))                                                                       \
    X(cuEventDestroy, cuEventDestroy_v2, NULL, VR_CU_REQUIRED, (struct vr_cu_event *event))        \
    X(cuLaunchHostFunc, cuLaunchHostFunc, NULL, VR_CU_REQUIRED, (struct vr_cu_stream *stream, void \
      (*run)(void *), void *argument))                                                             \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, NULL, VR_CU_REQUIRED, (vr_cu_addr to, const void    \
      *from, size_t bytes, struct vr_cu_stream *stream))                                           \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, NULL, VR_CU_REQUIRED, (void *to, vr_cu_addr from,   \
      size_t bytes, struct vr_cu_stream *stream))                                                  \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, NULL, VR_CU_REQUIRED, (vr_cu_addr to, vr_cu_addr    \
      from, size_t bytes, struct vr_cu_stream *stream))                                            \
    X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, NULL, VR_CU_OPTIONAL, (const struct vr_cu_rows *rows,   \
      struct vr_cu_stream *stream))                                                                \
    X(cuMemsetD8Async, cuMemsetD8Async, NULL, VR_CU_REQUIRED, (vr_cu_addr to, unsigned char value, \
      size_t count, struct vr_cu_stream *stream))                                                  \
    X(cuMemsetD16Async, cuMemsetD16Async, NULL, VR_CU_REQUIRED, (vr_cu_addr to, unsigned short     \
      value, size_t count, struct vr_cu_stream *stream))                                           \
    X(cuMemsetD32Async, cuMemsetD32Async, NULL, VR_CU_REQUIRED, (vr_cu_addr to, unsigned value,    \
      size_t count, struct vr_cu_stream *stream))                                                  \
    X(cuMemAllocManaged, cuMemAllocManaged, NULL, VR_CU_OPTIONAL, (vr_cu_addr *addr, size_t bytes, \
      unsigned flags))                                                                             \
    X(cuMemPrefetchAsync, cuMemPrefetchAsync_v2, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t    \
      bytes, struct vr_cu_location to, unsigned flags, struct vr_cu_stream *stream))               \
    X(cuMemAdvise, cuMemAdvise_v2, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t bytes, enum      \
      vr_cu_advice advice, struct vr_cu_location location))                                        \
    X(cuStreamGetId, cuStreamGetId, NULL, VR_CU_OPTIONAL, (struct vr_cu_stream *stream, unsigned   \
      long long *id))                                                                              \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, NULL, VR_CU_OPTIONAL, (int *can, vr_cu_device  \
      device, vr_cu_device peer))                                                                  \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, NULL, VR_CU_OPTIONAL, (struct vr_cu_context    \
      *peer, unsigned flags))                                                                      \
    X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, NULL, VR_CU_OPTIONAL, (vr_cu_addr to, struct           \
      vr_cu_context *to_context, vr_cu_addr from, struct vr_cu_context *from_context, size_t       \
      bytes, struct vr_cu_stream *stream))                                                         \
    X(cuModuleLoadData, cuModuleLoadData, NULL, VR_CU_OPTIONAL, (struct vr_cu_module **module,     \
      const void *image))                                                                          \
    X(cuModuleUnload, cuModuleUnload, NULL, VR_CU_OPTIONAL, (struct vr_cu_module *module))         \
    X(cuModuleGetFunction, cuModuleGetFunction, NULL, VR_CU_OPTIONAL, (struct vr_cu_function       \
      **function, struct vr_cu_module *module, const char *name))                                  \
    X(cuLaunchKernel, cuLaunchKernel, NULL, VR_CU_OPTIONAL, (struct vr_cu_function *function,      \
      unsigned groups_x, unsigned groups_y, unsigned groups_z, unsigned items_x, unsigned items_y, \
      unsigned items_z, unsigned shared_bytes, struct vr_cu_stream *stream, void **parameters,     \
      void **extra))                                                                               \
    X(cuEventQuery, cuEventQuery, NULL, VR_CU_REQUIRED, (struct vr_cu_event *event))

/* clang-format on */

#endif
