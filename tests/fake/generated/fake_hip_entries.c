/* Made by tools/driver-table from src/backend/hip/hip.entries. */
/* SPDX-License-Identifier: Apache-2.0 */
/* fake_hip_entries.c: the symbols that the tests' HIP driver exports. */
#include "fake/fake_state.h"

/* clang-format off */

const char *const fake_driver = "hip";

const char *const fake_names[FAKE_CALL_COUNT] = {
    [FAKE_cuInit] = "hipInit",
    [FAKE_cuDriverGetVersion] = "hipDriverGetVersion",
    [FAKE_cuGetErrorName] = "hipDrvGetErrorName",
    [FAKE_cuGetErrorString] = "hipDrvGetErrorString",
    [FAKE_cuDeviceGet] = "hipDeviceGet",
    [FAKE_cuDeviceGetCount] = "hipGetDeviceCount",
    [FAKE_cuDeviceGetName] = "hipDeviceGetName",
    [FAKE_cuDeviceGetUuid] = "hipDeviceGetUuid",
    [FAKE_cuDeviceGetPCIBusId] = "hipDeviceGetPCIBusId",
    [FAKE_cuDeviceGetAttribute] = "hipDeviceGetAttribute",
    [FAKE_cuDeviceTotalMem] = "hipDeviceTotalMem",
    [FAKE_hipGetDevice] = "hipGetDevice",
    [FAKE_hipSetDevice] = "hipSetDevice",
    [FAKE_hipPeekAtLastError] = "hipPeekAtLastError",
    [FAKE_hipGetLastError] = "hipGetLastError",
    [FAKE_cuThreadExchangeStreamCaptureMode] = "hipThreadExchangeStreamCaptureMode",
    [FAKE_cuMemGetInfo] = "hipMemGetInfo",
    [FAKE_cuMemAlloc] = "hipMalloc",
    [FAKE_cuMemFree] = "hipFree",
    [FAKE_cuMemHostAlloc] = "hipHostMalloc",
    [FAKE_cuMemFreeHost] = "hipHostFree",
    [FAKE_cuMemHostGetFlags] = "hipHostGetFlags",
    [FAKE_cuMemHostRegister] = "hipHostRegister",
    [FAKE_cuMemHostUnregister] = "hipHostUnregister",
    [FAKE_cuMemGetAllocationGranularity] = "hipMemGetAllocationGranularity",
    [FAKE_cuMemAddressReserve] = "hipMemAddressReserve",
    [FAKE_cuMemAddressFree] = "hipMemAddressFree",
    [FAKE_cuMemCreate] = "hipMemCreate",
    [FAKE_cuMemExportToShareableHandle] = "hipMemExportToShareableHandle",
    [FAKE_cuMemImportFromShareableHandle] = "hipMemImportFromShareableHandle",
    [FAKE_cuMemRelease] = "hipMemRelease",
    [FAKE_cuMemMap] = "hipMemMap",
    [FAKE_cuMemSetAccess] = "hipMemSetAccess",
    [FAKE_cuMemUnmap] = "hipMemUnmap",
    [FAKE_cuStreamCreateWithPriority] = "hipStreamCreateWithPriority",
    [FAKE_cuStreamDestroy] = "hipStreamDestroy",
    [FAKE_cuStreamSynchronize] = "hipStreamSynchronize",
    [FAKE_cuStreamQuery] = "hipStreamQuery",
    [FAKE_hipStreamGetDevice] = "hipStreamGetDevice",
    [FAKE_cuStreamIsCapturing] = "hipStreamIsCapturing",
    [FAKE_cuStreamWriteValue64] = "hipStreamWriteValue64",
    [FAKE_hipStreamWaitValue64] = "hipStreamWaitValue64",
    [FAKE_cuStreamWaitEvent] = "hipStreamWaitEvent",
    [FAKE_cuEventCreate] = "hipEventCreateWithFlags",
    [FAKE_cuEventRecord] = "hipEventRecord",
    [FAKE_cuEventDestroy] = "hipEventDestroy",
    [FAKE_cuLaunchHostFunc] = "hipLaunchHostFunc",
    [FAKE_cuMemcpyHtoDAsync] = "hipMemcpyHtoDAsync",
    [FAKE_cuMemcpyDtoHAsync] = "hipMemcpyDtoHAsync",
    [FAKE_cuMemcpyDtoDAsync] = "hipMemcpyDtoDAsync",
    [FAKE_hipMemcpy2DAsync] = "hipMemcpy2DAsync",
    [FAKE_cuMemsetD8Async] = "hipMemsetD8Async",
    [FAKE_cuMemsetD16Async] = "hipMemsetD16Async",
    [FAKE_cuMemsetD32Async] = "hipMemsetD32Async",
    [FAKE_cuMemAllocManaged] = "hipMallocManaged",
    [FAKE_hipMemPrefetchAsync] = "hipMemPrefetchAsync",
    [FAKE_hipMemAdvise] = "hipMemAdvise",
    [FAKE_cuDeviceCanAccessPeer] = "hipDeviceCanAccessPeer",
    [FAKE_hipDeviceEnablePeerAccess] = "hipDeviceEnablePeerAccess",
    [FAKE_hipMemcpyPeerAsync] = "hipMemcpyPeerAsync",
    [FAKE_cuModuleLoadData] = "hipModuleLoadData",
    [FAKE_cuModuleUnload] = "hipModuleUnload",
    [FAKE_cuModuleGetFunction] = "hipModuleGetFunction",
    [FAKE_cuLaunchKernel] = "hipModuleLaunchKernel",
    [FAKE_cuEventQuery] = "hipEventQuery",
};

const struct fake_code fake_codes[] = {
    {1, "hipErrorInvalidValue"},
    {2, "hipErrorOutOfMemory"},
    {3, "hipErrorNotInitialized"},
    {4, "hipErrorDeinitialized"},
    {12, "hipErrorInvalidPitchValue"},
    {17, "hipErrorInvalidDevicePointer"},
    {21, "hipErrorInvalidMemcpyDirection"},
    {35, "hipErrorInsufficientDriver"},
    {100, "hipErrorNoDevice"},
    {101, "hipErrorInvalidDevice"},
    {200, "hipErrorInvalidImage"},
    {201, "hipErrorInvalidContext"},
    {205, "hipErrorMapFailed"},
    {208, "hipErrorAlreadyMapped"},
    {209, "hipErrorNoBinaryForGpu"},
    {211, "hipErrorNotMapped"},
    {214, "hipErrorECCNotCorrectable"},
    {217, "hipErrorPeerAccessUnsupported"},
    {218, "hipErrorInvalidKernelFile"},
    {301, "hipErrorFileNotFound"},
    {302, "hipErrorSharedObjectSymbolNotFound"},
    {303, "hipErrorSharedObjectInitFailed"},
    {304, "hipErrorOperatingSystem"},
    {400, "hipErrorInvalidHandle"},
    {401, "hipErrorIllegalState"},
    {500, "hipErrorNotFound"},
    {600, "hipErrorNotReady"},
    {700, "hipErrorIllegalAddress"},
    {701, "hipErrorLaunchOutOfResources"},
    {702, "hipErrorLaunchTimeOut"},
    {704, "hipErrorPeerAccessAlreadyEnabled"},
    {709, "hipErrorContextIsDestroyed"},
    {710, "hipErrorAssert"},
    {712, "hipErrorHostMemoryAlreadyRegistered"},
    {713, "hipErrorHostMemoryNotRegistered"},
    {719, "hipErrorLaunchFailure"},
    {801, "hipErrorNotSupported"},
    {900, "hipErrorStreamCaptureUnsupported"},
    {906, "hipErrorStreamCaptureImplicit"},
    {908, "hipErrorStreamCaptureWrongThread"},
    {999, "hipErrorUnknown"},
    {1052, "hipErrorRuntimeMemory"},
    {1053, "hipErrorRuntimeOther"},
    {0, NULL},
};

FAKE_API vr_cu_result hipInit(unsigned flags);
FAKE_API vr_cu_result hipInit(unsigned flags) {
    return fake_cuInit(flags);
}

FAKE_API vr_cu_result hipDriverGetVersion(int *version);
FAKE_API vr_cu_result hipDriverGetVersion(int *version) {
    return fake_cuDriverGetVersion(version);
}

FAKE_API vr_cu_result hipDrvGetErrorName(vr_cu_result code, const char **text);
FAKE_API vr_cu_result hipDrvGetErrorName(vr_cu_result code, const char **text) {
    return fake_cuGetErrorName(code, text);
}

FAKE_API vr_cu_result hipDrvGetErrorString(vr_cu_result code, const char **text);
FAKE_API vr_cu_result hipDrvGetErrorString(vr_cu_result code, const char **text) {
    return fake_cuGetErrorString(code, text);
}

FAKE_API vr_cu_result hipDeviceGet(vr_cu_device *device, int ordinal);
FAKE_API vr_cu_result hipDeviceGet(vr_cu_device *device, int ordinal) {
    return fake_cuDeviceGet(device, ordinal);
}

FAKE_API vr_cu_result hipGetDeviceCount(int *count);
FAKE_API vr_cu_result hipGetDeviceCount(int *count) {
    return fake_cuDeviceGetCount(count);
}

FAKE_API vr_cu_result hipDeviceGetName(char *name, int bytes, vr_cu_device device);
FAKE_API vr_cu_result hipDeviceGetName(char *name, int bytes, vr_cu_device device) {
    return fake_cuDeviceGetName(name, bytes, device);
}

FAKE_API vr_cu_result hipDeviceGetUuid(struct vr_cu_uuid *uuid, vr_cu_device device);
FAKE_API vr_cu_result hipDeviceGetUuid(struct vr_cu_uuid *uuid, vr_cu_device device) {
    return fake_cuDeviceGetUuid(uuid, device);
}

FAKE_API vr_cu_result hipDeviceGetPCIBusId(char *text, int bytes, vr_cu_device device);
FAKE_API vr_cu_result hipDeviceGetPCIBusId(char *text, int bytes, vr_cu_device device) {
    return fake_cuDeviceGetPCIBusId(text, bytes, device);
}

FAKE_API vr_cu_result hipDeviceGetAttribute(int *value, enum vr_cu_attribute attribute, vr_cu_device
    device);
FAKE_API vr_cu_result hipDeviceGetAttribute(int *value, enum vr_cu_attribute attribute, vr_cu_device
    device) {
    return fake_cuDeviceGetAttribute(value, attribute, device);
}

FAKE_API vr_cu_result hipDeviceTotalMem(size_t *bytes, vr_cu_device device);
FAKE_API vr_cu_result hipDeviceTotalMem(size_t *bytes, vr_cu_device device) {
    return fake_cuDeviceTotalMem(bytes, device);
}

FAKE_API vr_cu_result hipGetDevice(int *device);
FAKE_API vr_cu_result hipGetDevice(int *device) {
    return fake_hipGetDevice(device);
}

FAKE_API vr_cu_result hipSetDevice(int device);
FAKE_API vr_cu_result hipSetDevice(int device) {
    return fake_hipSetDevice(device);
}

FAKE_API vr_cu_result hipPeekAtLastError(void);
FAKE_API vr_cu_result hipPeekAtLastError(void) {
    return fake_hipPeekAtLastError();
}

FAKE_API vr_cu_result hipGetLastError(void);
FAKE_API vr_cu_result hipGetLastError(void) {
    return fake_hipGetLastError();
}

FAKE_API vr_cu_result hipThreadExchangeStreamCaptureMode(enum vr_cu_capture_mode *mode);
FAKE_API vr_cu_result hipThreadExchangeStreamCaptureMode(enum vr_cu_capture_mode *mode) {
    return fake_cuThreadExchangeStreamCaptureMode(mode);
}

FAKE_API vr_cu_result hipMemGetInfo(size_t *free, size_t *total);
FAKE_API vr_cu_result hipMemGetInfo(size_t *free, size_t *total) {
    return fake_cuMemGetInfo(free, total);
}

FAKE_API vr_cu_result hipMalloc(vr_cu_addr *addr, size_t bytes);
FAKE_API vr_cu_result hipMalloc(vr_cu_addr *addr, size_t bytes) {
    return fake_cuMemAlloc(addr, bytes);
}

FAKE_API vr_cu_result hipFree(vr_cu_addr addr);
FAKE_API vr_cu_result hipFree(vr_cu_addr addr) {
    return fake_cuMemFree(addr);
}

FAKE_API vr_cu_result hipHostMalloc(void **memory, size_t bytes, unsigned flags);
FAKE_API vr_cu_result hipHostMalloc(void **memory, size_t bytes, unsigned flags) {
    return fake_cuMemHostAlloc(memory, bytes, flags);
}

FAKE_API vr_cu_result hipHostFree(void *memory);
FAKE_API vr_cu_result hipHostFree(void *memory) {
    return fake_cuMemFreeHost(memory);
}

FAKE_API vr_cu_result hipHostGetFlags(unsigned *flags, void *memory);
FAKE_API vr_cu_result hipHostGetFlags(unsigned *flags, void *memory) {
    return fake_cuMemHostGetFlags(flags, memory);
}

FAKE_API vr_cu_result hipHostRegister(void *memory, size_t bytes, unsigned flags);
FAKE_API vr_cu_result hipHostRegister(void *memory, size_t bytes, unsigned flags) {
    return fake_cuMemHostRegister(memory, bytes, flags);
}

FAKE_API vr_cu_result hipHostUnregister(void *memory);
FAKE_API vr_cu_result hipHostUnregister(void *memory) {
    return fake_cuMemHostUnregister(memory);
}

FAKE_API vr_cu_result hipMemGetAllocationGranularity(size_t *bytes, const struct vr_cu_prop *prop,
    enum vr_cu_granularity which);
FAKE_API vr_cu_result hipMemGetAllocationGranularity(size_t *bytes, const struct vr_cu_prop *prop,
    enum vr_cu_granularity which) {
    return fake_cuMemGetAllocationGranularity(bytes, prop, which);
}

FAKE_API vr_cu_result hipMemAddressReserve(vr_cu_addr *addr, size_t bytes, size_t align, vr_cu_addr
    hint, unsigned long long flags);
FAKE_API vr_cu_result hipMemAddressReserve(vr_cu_addr *addr, size_t bytes, size_t align, vr_cu_addr
    hint, unsigned long long flags) {
    return fake_cuMemAddressReserve(addr, bytes, align, hint, flags);
}

FAKE_API vr_cu_result hipMemAddressFree(vr_cu_addr addr, size_t bytes);
FAKE_API vr_cu_result hipMemAddressFree(vr_cu_addr addr, size_t bytes) {
    return fake_cuMemAddressFree(addr, bytes);
}

FAKE_API vr_cu_result hipMemCreate(vr_cu_memory *handle, size_t bytes, const struct vr_cu_prop
    *prop, unsigned long long flags);
FAKE_API vr_cu_result hipMemCreate(vr_cu_memory *handle, size_t bytes, const struct vr_cu_prop
    *prop, unsigned long long flags) {
    return fake_cuMemCreate(handle, bytes, prop, flags);
}

FAKE_API vr_cu_result hipMemExportToShareableHandle(void *shareable, vr_cu_memory handle, enum
    vr_cu_handle_type type, unsigned long long flags);
FAKE_API vr_cu_result hipMemExportToShareableHandle(void *shareable, vr_cu_memory handle, enum
    vr_cu_handle_type type, unsigned long long flags) {
    return fake_cuMemExportToShareableHandle(shareable, handle, type, flags);
}

FAKE_API vr_cu_result hipMemImportFromShareableHandle(vr_cu_memory *handle, void *shareable, enum
    vr_cu_handle_type type);
FAKE_API vr_cu_result hipMemImportFromShareableHandle(vr_cu_memory *handle, void *shareable, enum
    vr_cu_handle_type type) {
    return fake_cuMemImportFromShareableHandle(handle, shareable, type);
}

FAKE_API vr_cu_result hipMemRelease(vr_cu_memory handle);
FAKE_API vr_cu_result hipMemRelease(vr_cu_memory handle) {
    return fake_cuMemRelease(handle);
}

FAKE_API vr_cu_result hipMemMap(vr_cu_addr addr, size_t bytes, size_t offset, vr_cu_memory handle,
    unsigned long long flags);
FAKE_API vr_cu_result hipMemMap(vr_cu_addr addr, size_t bytes, size_t offset, vr_cu_memory handle,
    unsigned long long flags) {
    return fake_cuMemMap(addr, bytes, offset, handle, flags);
}

FAKE_API vr_cu_result hipMemSetAccess(vr_cu_addr addr, size_t bytes, const struct vr_cu_access
    *access, size_t count);
FAKE_API vr_cu_result hipMemSetAccess(vr_cu_addr addr, size_t bytes, const struct vr_cu_access
    *access, size_t count) {
    return fake_cuMemSetAccess(addr, bytes, access, count);
}

FAKE_API vr_cu_result hipMemUnmap(vr_cu_addr addr, size_t bytes);
FAKE_API vr_cu_result hipMemUnmap(vr_cu_addr addr, size_t bytes) {
    return fake_cuMemUnmap(addr, bytes);
}

FAKE_API vr_cu_result hipStreamCreateWithPriority(struct vr_cu_stream **stream, unsigned flags, int
    priority);
FAKE_API vr_cu_result hipStreamCreateWithPriority(struct vr_cu_stream **stream, unsigned flags, int
    priority) {
    return fake_cuStreamCreateWithPriority(stream, flags, priority);
}

FAKE_API vr_cu_result hipStreamDestroy(struct vr_cu_stream *stream);
FAKE_API vr_cu_result hipStreamDestroy(struct vr_cu_stream *stream) {
    return fake_cuStreamDestroy(stream);
}

FAKE_API vr_cu_result hipStreamSynchronize(struct vr_cu_stream *stream);
FAKE_API vr_cu_result hipStreamSynchronize(struct vr_cu_stream *stream) {
    return fake_cuStreamSynchronize(stream);
}

FAKE_API vr_cu_result hipStreamQuery(struct vr_cu_stream *stream);
FAKE_API vr_cu_result hipStreamQuery(struct vr_cu_stream *stream) {
    return fake_cuStreamQuery(stream);
}

FAKE_API vr_cu_result hipStreamGetDevice(struct vr_cu_stream *stream, int *device);
FAKE_API vr_cu_result hipStreamGetDevice(struct vr_cu_stream *stream, int *device) {
    return fake_hipStreamGetDevice(stream, device);
}

FAKE_API vr_cu_result hipStreamIsCapturing(struct vr_cu_stream *stream, enum vr_cu_capture_status
    *status);
FAKE_API vr_cu_result hipStreamIsCapturing(struct vr_cu_stream *stream, enum vr_cu_capture_status
    *status) {
    return fake_cuStreamIsCapturing(stream, status);
}

FAKE_API vr_cu_result hipStreamWriteValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags);
FAKE_API vr_cu_result hipStreamWriteValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags) {
    return fake_cuStreamWriteValue64(stream, addr, value, flags);
}

FAKE_API vr_cu_result hipStreamWaitValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags, uint64_t mask);
FAKE_API vr_cu_result hipStreamWaitValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags, uint64_t mask) {
    return fake_hipStreamWaitValue64(stream, addr, value, flags, mask);
}

FAKE_API vr_cu_result hipStreamWaitEvent(struct vr_cu_stream *stream, struct vr_cu_event *event,
    unsigned flags);
FAKE_API vr_cu_result hipStreamWaitEvent(struct vr_cu_stream *stream, struct vr_cu_event *event,
    unsigned flags) {
    return fake_cuStreamWaitEvent(stream, event, flags);
}

FAKE_API vr_cu_result hipEventCreateWithFlags(struct vr_cu_event **event, unsigned flags);
FAKE_API vr_cu_result hipEventCreateWithFlags(struct vr_cu_event **event, unsigned flags) {
    return fake_cuEventCreate(event, flags);
}

FAKE_API vr_cu_result hipEventRecord(struct vr_cu_event *event, struct vr_cu_stream *stream);
FAKE_API vr_cu_result hipEventRecord(struct vr_cu_event *event, struct vr_cu_stream *stream) {
    return fake_cuEventRecord(event, stream);
}

FAKE_API vr_cu_result hipEventDestroy(struct vr_cu_event *event);
FAKE_API vr_cu_result hipEventDestroy(struct vr_cu_event *event) {
    return fake_cuEventDestroy(event);
}

FAKE_API vr_cu_result hipLaunchHostFunc(struct vr_cu_stream *stream, void (*run)(void *), void
    *argument);
FAKE_API vr_cu_result hipLaunchHostFunc(struct vr_cu_stream *stream, void (*run)(void *), void
    *argument) {
    return fake_cuLaunchHostFunc(stream, run, argument);
}

FAKE_API vr_cu_result hipMemcpyHtoDAsync(vr_cu_addr to, const void *from, size_t bytes, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result hipMemcpyHtoDAsync(vr_cu_addr to, const void *from, size_t bytes, struct
    vr_cu_stream *stream) {
    return fake_cuMemcpyHtoDAsync(to, from, bytes, stream);
}

FAKE_API vr_cu_result hipMemcpyDtoHAsync(void *to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result hipMemcpyDtoHAsync(void *to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream) {
    return fake_cuMemcpyDtoHAsync(to, from, bytes, stream);
}

FAKE_API vr_cu_result hipMemcpyDtoDAsync(vr_cu_addr to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result hipMemcpyDtoDAsync(vr_cu_addr to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream) {
    return fake_cuMemcpyDtoDAsync(to, from, bytes, stream);
}

FAKE_API vr_cu_result hipMemcpy2DAsync(vr_cu_addr to, size_t to_pitch, vr_cu_addr from, size_t
    from_pitch, size_t row_bytes, size_t rows, int kind, struct vr_cu_stream *stream);
FAKE_API vr_cu_result hipMemcpy2DAsync(vr_cu_addr to, size_t to_pitch, vr_cu_addr from, size_t
    from_pitch, size_t row_bytes, size_t rows, int kind, struct vr_cu_stream *stream) {
    return fake_hipMemcpy2DAsync(to, to_pitch, from, from_pitch, row_bytes, rows, kind, stream);
}

FAKE_API vr_cu_result hipMemsetD8Async(vr_cu_addr to, unsigned char value, size_t count, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result hipMemsetD8Async(vr_cu_addr to, unsigned char value, size_t count, struct
    vr_cu_stream *stream) {
    return fake_cuMemsetD8Async(to, value, count, stream);
}

FAKE_API vr_cu_result hipMemsetD16Async(vr_cu_addr to, unsigned short value, size_t count, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result hipMemsetD16Async(vr_cu_addr to, unsigned short value, size_t count, struct
    vr_cu_stream *stream) {
    return fake_cuMemsetD16Async(to, value, count, stream);
}

FAKE_API vr_cu_result hipMemsetD32Async(vr_cu_addr to, unsigned value, size_t count, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result hipMemsetD32Async(vr_cu_addr to, unsigned value, size_t count, struct
    vr_cu_stream *stream) {
    return fake_cuMemsetD32Async(to, value, count, stream);
}

FAKE_API vr_cu_result hipMallocManaged(vr_cu_addr *addr, size_t bytes, unsigned flags);
FAKE_API vr_cu_result hipMallocManaged(vr_cu_addr *addr, size_t bytes, unsigned flags) {
    return fake_cuMemAllocManaged(addr, bytes, flags);
}

FAKE_API vr_cu_result hipMemPrefetchAsync(vr_cu_addr addr, size_t bytes, int device, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result hipMemPrefetchAsync(vr_cu_addr addr, size_t bytes, int device, struct
    vr_cu_stream *stream) {
    return fake_hipMemPrefetchAsync(addr, bytes, device, stream);
}

FAKE_API vr_cu_result hipMemAdvise(vr_cu_addr addr, size_t bytes, enum vr_cu_advice advice, int
    device);
FAKE_API vr_cu_result hipMemAdvise(vr_cu_addr addr, size_t bytes, enum vr_cu_advice advice, int
    device) {
    return fake_hipMemAdvise(addr, bytes, advice, device);
}

FAKE_API vr_cu_result hipDeviceCanAccessPeer(int *can, vr_cu_device device, vr_cu_device peer);
FAKE_API vr_cu_result hipDeviceCanAccessPeer(int *can, vr_cu_device device, vr_cu_device peer) {
    return fake_cuDeviceCanAccessPeer(can, device, peer);
}

FAKE_API vr_cu_result hipDeviceEnablePeerAccess(int peer, unsigned flags);
FAKE_API vr_cu_result hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    return fake_hipDeviceEnablePeerAccess(peer, flags);
}

FAKE_API vr_cu_result hipMemcpyPeerAsync(vr_cu_addr to, int to_device, vr_cu_addr from, int
    from_device, size_t bytes, struct vr_cu_stream *stream);
FAKE_API vr_cu_result hipMemcpyPeerAsync(vr_cu_addr to, int to_device, vr_cu_addr from, int
    from_device, size_t bytes, struct vr_cu_stream *stream) {
    return fake_hipMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

FAKE_API vr_cu_result hipModuleLoadData(struct vr_cu_module **module, const void *image);
FAKE_API vr_cu_result hipModuleLoadData(struct vr_cu_module **module, const void *image) {
    return fake_cuModuleLoadData(module, image);
}

FAKE_API vr_cu_result hipModuleUnload(struct vr_cu_module *module);
FAKE_API vr_cu_result hipModuleUnload(struct vr_cu_module *module) {
    return fake_cuModuleUnload(module);
}

FAKE_API vr_cu_result hipModuleGetFunction(struct vr_cu_function **function, struct vr_cu_module
    *module, const char *name);
FAKE_API vr_cu_result hipModuleGetFunction(struct vr_cu_function **function, struct vr_cu_module
    *module, const char *name) {
    return fake_cuModuleGetFunction(function, module, name);
}

FAKE_API vr_cu_result hipModuleLaunchKernel(struct vr_cu_function *function, unsigned groups_x,
    unsigned groups_y, unsigned groups_z, unsigned items_x, unsigned items_y, unsigned items_z,
    unsigned shared_bytes, struct vr_cu_stream *stream, void **parameters, void **extra);
FAKE_API vr_cu_result hipModuleLaunchKernel(struct vr_cu_function *function, unsigned groups_x,
    unsigned groups_y, unsigned groups_z, unsigned items_x, unsigned items_y, unsigned items_z,
    unsigned shared_bytes, struct vr_cu_stream *stream, void **parameters, void **extra) {
    return fake_cuLaunchKernel(function, groups_x, groups_y, groups_z, items_x, items_y, items_z,
        shared_bytes, stream, parameters, extra);
}

FAKE_API vr_cu_result hipEventQuery(struct vr_cu_event *event);
FAKE_API vr_cu_result hipEventQuery(struct vr_cu_event *event) {
    return fake_cuEventQuery(event);
}

/* clang-format on */
