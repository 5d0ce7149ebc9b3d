/* Made by tools/driver-table from src/backend/hip/hip.entries. */
/* SPDX-License-Identifier: Apache-2.0 */
/* hip_entries.h: lists of the HIP runtime's entry points. */
#ifndef VR_HIP_ENTRIES_H
#define VR_HIP_ENTRIES_H

/* clang-format off */

/* X(NAME, value, the runtime's name): results that are told apart. */
#define VR_HIP_CODES(X)                                                                            \
    X(SUCCESS, 0, hipSuccess)                                                                      \
    X(INVALID_VALUE, 1, hipErrorInvalidValue)                                                      \
    X(OUT_OF_MEMORY, 2, hipErrorOutOfMemory)                                                       \
    X(NOT_INITIALIZED, 3, hipErrorNotInitialized)                                                  \
    X(DEINITIALIZED, 4, hipErrorDeinitialized)                                                     \
    X(INVALID_PITCH, 12, hipErrorInvalidPitchValue)                                                \
    X(INVALID_DEVICE_POINTER, 17, hipErrorInvalidDevicePointer)                                    \
    X(INVALID_DIRECTION, 21, hipErrorInvalidMemcpyDirection)                                       \
    X(INSUFFICIENT_DRIVER, 35, hipErrorInsufficientDriver)                                         \
    X(NO_DEVICE, 100, hipErrorNoDevice)                                                            \
    X(INVALID_DEVICE, 101, hipErrorInvalidDevice)                                                  \
    X(INVALID_IMAGE, 200, hipErrorInvalidImage)                                                    \
    X(INVALID_CONTEXT, 201, hipErrorInvalidContext)                                                \
    X(MAP_FAILED, 205, hipErrorMapFailed)                                                          \
    X(ALREADY_MAPPED, 208, hipErrorAlreadyMapped)                                                  \
    X(NO_BINARY_FOR_GPU, 209, hipErrorNoBinaryForGpu)                                              \
    X(NOT_MAPPED, 211, hipErrorNotMapped)                                                          \
    X(ECC_UNCORRECTABLE, 214, hipErrorECCNotCorrectable)                                           \
    X(PEER_UNSUPPORTED, 217, hipErrorPeerAccessUnsupported)                                        \
    X(INVALID_KERNEL_FILE, 218, hipErrorInvalidKernelFile)                                         \
    X(FILE_NOT_FOUND, 301, hipErrorFileNotFound)                                                   \
    X(SHARED_OBJECT_SYMBOL_NOT_FOUND, 302, hipErrorSharedObjectSymbolNotFound)                     \
    X(SHARED_OBJECT_INIT_FAILED, 303, hipErrorSharedObjectInitFailed)                              \
    X(OPERATING_SYSTEM, 304, hipErrorOperatingSystem)                                              \
    X(INVALID_HANDLE, 400, hipErrorInvalidHandle)                                                  \
    X(ILLEGAL_STATE, 401, hipErrorIllegalState)                                                    \
    X(NOT_FOUND, 500, hipErrorNotFound)                                                            \
    X(NOT_READY, 600, hipErrorNotReady)                                                            \
    X(ILLEGAL_ADDRESS, 700, hipErrorIllegalAddress)                                                \
    X(LAUNCH_OUT_OF_RESOURCES, 701, hipErrorLaunchOutOfResources)                                  \
    X(LAUNCH_TIMEOUT, 702, hipErrorLaunchTimeOut)                                                  \
    X(PEER_ACCESS_ALREADY_ENABLED, 704, hipErrorPeerAccessAlreadyEnabled)                          \
    X(CONTEXT_DESTROYED, 709, hipErrorContextIsDestroyed)                                          \
    X(ASSERT, 710, hipErrorAssert)                                                                 \
    X(HOST_REGISTERED, 712, hipErrorHostMemoryAlreadyRegistered)                                   \
    X(HOST_NOT_REGISTERED, 713, hipErrorHostMemoryNotRegistered)                                   \
    X(LAUNCH_FAILED, 719, hipErrorLaunchFailure)                                                   \
    X(NOT_SUPPORTED, 801, hipErrorNotSupported)                                                    \
    X(CAPTURE_FIRST, 900, hipErrorStreamCaptureUnsupported)                                        \
    X(CAPTURE_IMPLICIT, 906, hipErrorStreamCaptureImplicit)                                        \
    X(CAPTURE_LAST, 908, hipErrorStreamCaptureWrongThread)                                         \
    X(UNKNOWN, 999, hipErrorUnknown)                                                               \
    X(RUNTIME_MEMORY, 1052, hipErrorRuntimeMemory)                                                 \
    X(RUNTIME_OTHER, 1053, hipErrorRuntimeOther)

/* X(the CUDA entry that it stands in for, symbol, an older symbol or NULL,
   VR_CU_REQUIRED or _OPTIONAL). */
#define VR_HIP_ALIASES(X)                                                                          \
    X(cuInit, hipInit, NULL, VR_CU_REQUIRED)                                                       \
    X(cuDriverGetVersion, hipDriverGetVersion, NULL, VR_CU_REQUIRED)                               \
    X(cuGetErrorName, hipDrvGetErrorName, NULL, VR_CU_OPTIONAL)                                    \
    X(cuGetErrorString, hipDrvGetErrorString, NULL, VR_CU_OPTIONAL)                                \
    X(cuDeviceGet, hipDeviceGet, NULL, VR_CU_REQUIRED)                                             \
    X(cuDeviceGetCount, hipGetDeviceCount, NULL, VR_CU_REQUIRED)                                   \
    X(cuDeviceGetName, hipDeviceGetName, NULL, VR_CU_REQUIRED)                                     \
    X(cuDeviceGetUuid, hipDeviceGetUuid, NULL, VR_CU_OPTIONAL)                                     \
    X(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId, NULL, VR_CU_OPTIONAL)                             \
    X(cuDeviceGetAttribute, hipDeviceGetAttribute, NULL, VR_CU_REQUIRED)                           \
    X(cuDeviceTotalMem, hipDeviceTotalMem, NULL, VR_CU_REQUIRED)                                   \
    X(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode, NULL, VR_CU_OPTIONAL) \
    X(cuMemGetInfo, hipMemGetInfo, NULL, VR_CU_REQUIRED)                                           \
    X(cuMemAlloc, hipMalloc, NULL, VR_CU_REQUIRED)                                                 \
    X(cuMemFree, hipFree, NULL, VR_CU_REQUIRED)                                                    \
    X(cuMemHostAlloc, hipHostMalloc, NULL, VR_CU_REQUIRED)                                         \
    X(cuMemFreeHost, hipHostFree, NULL, VR_CU_REQUIRED)                                            \
    X(cuMemHostGetFlags, hipHostGetFlags, NULL, VR_CU_OPTIONAL)                                    \
    X(cuMemHostRegister, hipHostRegister, NULL, VR_CU_OPTIONAL)                                    \
    X(cuMemHostUnregister, hipHostUnregister, NULL, VR_CU_OPTIONAL)                                \
    X(cuMemGetAllocationGranularity, hipMemGetAllocationGranularity, NULL, VR_CU_OPTIONAL)         \
    X(cuMemAddressReserve, hipMemAddressReserve, NULL, VR_CU_OPTIONAL)                             \
    X(cuMemAddressFree, hipMemAddressFree, NULL, VR_CU_OPTIONAL)                                   \
    X(cuMemCreate, hipMemCreate, NULL, VR_CU_OPTIONAL)                                             \
    X(cuMemExportToShareableHandle, hipMemExportToShareableHandle, NULL, VR_CU_OPTIONAL)           \
    X(cuMemImportFromShareableHandle, hipMemImportFromShareableHandle, NULL, VR_CU_OPTIONAL)       \
    X(cuMemRelease, hipMemRelease, NULL, VR_CU_OPTIONAL)                                           \
    X(cuMemMap, hipMemMap, NULL, VR_CU_OPTIONAL)                                                   \
    X(cuMemSetAccess, hipMemSetAccess, NULL, VR_CU_OPTIONAL)                                       \
    X(cuMemUnmap, hipMemUnmap, NULL, VR_CU_OPTIONAL)                                               \
    X(cuStreamCreateWithPriority, hipStreamCreateWithPriority, NULL, VR_CU_REQUIRED)               \
    X(cuStreamDestroy, hipStreamDestroy, NULL, VR_CU_REQUIRED)                                     \
    X(cuStreamSynchronize, hipStreamSynchronize, NULL, VR_CU_REQUIRED)                             \
    X(cuStreamQuery, hipStreamQuery, NULL, VR_CU_REQUIRED)                                         \
    X(cuStreamIsCapturing, hipStreamIsCapturing, NULL, VR_CU_REQUIRED)                             \
    X(cuStreamWriteValue64, hipStreamWriteValue64, NULL, VR_CU_OPTIONAL)                           \
    X(cuStreamWaitEvent, hipStreamWaitEvent, NULL, VR_CU_REQUIRED)                                 \
    X(cuEventCreate, hipEventCreateWithFlags, NULL, VR_CU_REQUIRED)                                \
    X(cuEventRecord, hipEventRecord, NULL, VR_CU_REQUIRED)                                         \
    X(cuEventDestroy, hipEventDestroy, NULL, VR_CU_REQUIRED)                                       \
    X(cuLaunchHostFunc, hipLaunchHostFunc, NULL, VR_CU_REQUIRED)                                   \
    X(cuMemcpyHtoDAsync, hipMemcpyHtoDAsync, NULL, VR_CU_REQUIRED)                                 \
    X(cuMemcpyDtoHAsync, hipMemcpyDtoHAsync, NULL, VR_CU_REQUIRED)                                 \
    X(cuMemcpyDtoDAsync, hipMemcpyDtoDAsync, NULL, VR_CU_REQUIRED)                                 \
    X(cuMemsetD8Async, hipMemsetD8Async, NULL, VR_CU_REQUIRED)                                     \
    X(cuMemsetD16Async, hipMemsetD16Async, NULL, VR_CU_REQUIRED)                                   \
    X(cuMemsetD32Async, hipMemsetD32Async, NULL, VR_CU_REQUIRED)                                   \
    X(cuMemAllocManaged, hipMallocManaged, NULL, VR_CU_OPTIONAL)                                   \
    X(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer, NULL, VR_CU_OPTIONAL)                         \
    X(cuModuleLoadData, hipModuleLoadData, NULL, VR_CU_OPTIONAL)                                   \
    X(cuModuleUnload, hipModuleUnload, NULL, VR_CU_OPTIONAL)                                       \
    X(cuModuleGetFunction, hipModuleGetFunction, NULL, VR_CU_OPTIONAL)                             \
    X(cuLaunchKernel, hipModuleLaunchKernel, NULL, VR_CU_OPTIONAL)                                 \
    X(cuEventQuery, hipEventQuery, NULL, VR_CU_REQUIRED)

/* What only HIP has: X(name, symbol, an older symbol or NULL, VR_CU_REQUIRED or _OPTIONAL,
   (parameters)). */
#define VR_HIP_FUNCTIONS(X)                                                                        \
    X(hipGetDevice, hipGetDevice, NULL, VR_CU_REQUIRED, (int *device))                             \
    X(hipSetDevice, hipSetDevice, NULL, VR_CU_REQUIRED, (int device))                              \
    X(hipPeekAtLastError, hipPeekAtLastError, NULL, VR_CU_OPTIONAL, (void))                        \
    X(hipGetLastError, hipGetLastError, NULL, VR_CU_OPTIONAL, (void))                              \
    X(hipStreamGetDevice, hipStreamGetDevice, NULL, VR_CU_OPTIONAL, (struct vr_cu_stream *stream,  \
      int *device))                                                                                \
    X(hipStreamWaitValue64, hipStreamWaitValue64, NULL, VR_CU_OPTIONAL, (struct vr_cu_stream       \
      *stream, vr_cu_addr addr, uint64_t value, unsigned flags, uint64_t mask))                    \
    X(hipMemcpy2DAsync, hipMemcpy2DAsync, NULL, VR_CU_OPTIONAL, (vr_cu_addr to, size_t to_pitch,   \
      vr_cu_addr from, size_t from_pitch, size_t row_bytes, size_t rows, int kind, struct          \
      vr_cu_stream *stream))                                                                       \
    X(hipMemPrefetchAsync, hipMemPrefetchAsync, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t     \
      bytes, int device, struct vr_cu_stream *stream))                                             \
    X(hipMemAdvise, hipMemAdvise, NULL, VR_CU_OPTIONAL, (vr_cu_addr addr, size_t bytes, enum       \
      vr_cu_advice advice, int device))                                                            \
    X(hipDeviceEnablePeerAccess, hipDeviceEnablePeerAccess, NULL, VR_CU_OPTIONAL, (int peer,       \
      unsigned flags))                                                                             \
    X(hipMemcpyPeerAsync, hipMemcpyPeerAsync, NULL, VR_CU_OPTIONAL, (vr_cu_addr to, int to_device, \
      vr_cu_addr from, int from_device, size_t bytes, struct vr_cu_stream *stream))

/* clang-format on */

#endif
