/* Made by tools/driver-table from src/backend/cuda/cuda.entries. */
/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cuda_entries.c: the symbols that the tests' CUDA driver exports. */
#include "fake/fake_state.h"

/* clang-format off */

const char *const fake_driver = "cuda";

const char *const fake_names[FAKE_CALL_COUNT] = {
    [FAKE_cuInit] = "cuInit",
    [FAKE_cuDriverGetVersion] = "cuDriverGetVersion",
    [FAKE_cuGetErrorName] = "cuGetErrorName",
    [FAKE_cuGetErrorString] = "cuGetErrorString",
    [FAKE_cuDeviceGet] = "cuDeviceGet",
    [FAKE_cuDeviceGetCount] = "cuDeviceGetCount",
    [FAKE_cuDeviceGetName] = "cuDeviceGetName",
    [FAKE_cuDeviceGetUuid] = "cuDeviceGetUuid",
    [FAKE_cuDeviceGetPCIBusId] = "cuDeviceGetPCIBusId",
    [FAKE_cuDeviceGetAttribute] = "cuDeviceGetAttribute",
    [FAKE_cuDeviceTotalMem] = "cuDeviceTotalMem",
    [FAKE_cuDevicePrimaryCtxRetain] = "cuDevicePrimaryCtxRetain",
    [FAKE_cuDevicePrimaryCtxRelease] = "cuDevicePrimaryCtxRelease",
    [FAKE_cuCtxGetId] = "cuCtxGetId",
    [FAKE_cuCtxPushCurrent] = "cuCtxPushCurrent",
    [FAKE_cuCtxPopCurrent] = "cuCtxPopCurrent",
    [FAKE_cuThreadExchangeStreamCaptureMode] = "cuThreadExchangeStreamCaptureMode",
    [FAKE_cuMemGetInfo] = "cuMemGetInfo",
    [FAKE_cuMemAlloc] = "cuMemAlloc",
    [FAKE_cuMemFree] = "cuMemFree",
    [FAKE_cuMemHostAlloc] = "cuMemHostAlloc",
    [FAKE_cuMemFreeHost] = "cuMemFreeHost",
    [FAKE_cuMemHostGetFlags] = "cuMemHostGetFlags",
    [FAKE_cuMemHostRegister] = "cuMemHostRegister",
    [FAKE_cuMemHostUnregister] = "cuMemHostUnregister",
    [FAKE_cuMemGetAllocationGranularity] = "cuMemGetAllocationGranularity",
    [FAKE_cuMemAddressReserve] = "cuMemAddressReserve",
    [FAKE_cuMemAddressFree] = "cuMemAddressFree",
    [FAKE_cuMemCreate] = "cuMemCreate",
    [FAKE_cuMemExportToShareableHandle] = "cuMemExportToShareableHandle",
    [FAKE_cuMemImportFromShareableHandle] = "cuMemImportFromShareableHandle",
    [FAKE_cuMemRelease] = "cuMemRelease",
    [FAKE_cuMemMap] = "cuMemMap",
    [FAKE_cuMemSetAccess] = "cuMemSetAccess",
    [FAKE_cuMemUnmap] = "cuMemUnmap",
    [FAKE_cuStreamCreateWithPriority] = "cuStreamCreateWithPriority",
    [FAKE_cuStreamDestroy] = "cuStreamDestroy",
    [FAKE_cuStreamSynchronize] = "cuStreamSynchronize",
    [FAKE_cuStreamQuery] = "cuStreamQuery",
    [FAKE_cuStreamGetCtx] = "cuStreamGetCtx",
    [FAKE_cuStreamIsCapturing] = "cuStreamIsCapturing",
    [FAKE_cuStreamWriteValue64] = "cuStreamWriteValue64",
    [FAKE_cuStreamWaitValue64] = "cuStreamWaitValue64",
    [FAKE_cuStreamWaitEvent] = "cuStreamWaitEvent",
    [FAKE_cuEventCreate] = "cuEventCreate",
    [FAKE_cuEventRecord] = "cuEventRecord",
    [FAKE_cuEventDestroy] = "cuEventDestroy",
    [FAKE_cuLaunchHostFunc] = "cuLaunchHostFunc",
    [FAKE_cuMemcpyHtoDAsync] = "cuMemcpyHtoDAsync",
    [FAKE_cuMemcpyDtoHAsync] = "cuMemcpyDtoHAsync",
    [FAKE_cuMemcpyDtoDAsync] = "cuMemcpyDtoDAsync",
    [FAKE_cuMemcpy2DAsync] = "cuMemcpy2DAsync",
    [FAKE_cuMemsetD8Async] = "cuMemsetD8Async",
    [FAKE_cuMemsetD16Async] = "cuMemsetD16Async",
    [FAKE_cuMemsetD32Async] = "cuMemsetD32Async",
    [FAKE_cuMemAllocManaged] = "cuMemAllocManaged",
    [FAKE_cuMemPrefetchAsync] = "cuMemPrefetchAsync",
    [FAKE_cuMemAdvise] = "cuMemAdvise",
    [FAKE_cuStreamGetId] = "cuStreamGetId",
    [FAKE_cuDeviceCanAccessPeer] = "cuDeviceCanAccessPeer",
    [FAKE_cuCtxEnablePeerAccess] = "cuCtxEnablePeerAccess",
    [FAKE_cuMemcpyPeerAsync] = "cuMemcpyPeerAsync",
    [FAKE_cuModuleLoadData] = "cuModuleLoadData",
    [FAKE_cuModuleUnload] = "cuModuleUnload",
    [FAKE_cuModuleGetFunction] = "cuModuleGetFunction",
    [FAKE_cuLaunchKernel] = "cuLaunchKernel",
    [FAKE_cuEventQuery] = "cuEventQuery",
};

const struct fake_code fake_codes[] = {
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {4, "CUDA_ERROR_DEINITIALIZED"},
    {34, "CUDA_ERROR_STUB_LIBRARY"},
    {36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {100, "CUDA_ERROR_NO_DEVICE"},
    {101, "CUDA_ERROR_INVALID_DEVICE"},
    {102, "CUDA_ERROR_DEVICE_NOT_LICENSED"},
    {200, "CUDA_ERROR_INVALID_IMAGE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {208, "CUDA_ERROR_ALREADY_MAPPED"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {211, "CUDA_ERROR_NOT_MAPPED"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
    {218, "CUDA_ERROR_INVALID_PTX"},
    {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {226, "CUDA_ERROR_CONTAINED"},
    {302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND"},
    {303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM"},
    {400, "CUDA_ERROR_INVALID_HANDLE"},
    {401, "CUDA_ERROR_ILLEGAL_STATE"},
    {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {710, "CUDA_ERROR_ASSERT"},
    {711, "CUDA_ERROR_TOO_MANY_PEERS"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"},
    {718, "CUDA_ERROR_INVALID_PC"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"},
    {800, "CUDA_ERROR_NOT_PERMITTED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
    {810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    {909, "CUDA_ERROR_TIMEOUT"},
    {911, "CUDA_ERROR_EXTERNAL_DEVICE"},
    {999, "CUDA_ERROR_UNKNOWN"},
    {0, NULL},
};

FAKE_API vr_cu_result cuInit(unsigned flags);
FAKE_API vr_cu_result cuInit(unsigned flags) {
    return fake_cuInit(flags);
}

FAKE_API vr_cu_result cuDriverGetVersion(int *version);
FAKE_API vr_cu_result cuDriverGetVersion(int *version) {
    return fake_cuDriverGetVersion(version);
}

FAKE_API vr_cu_result cuGetErrorName(vr_cu_result code, const char **text);
FAKE_API vr_cu_result cuGetErrorName(vr_cu_result code, const char **text) {
    return fake_cuGetErrorName(code, text);
}

FAKE_API vr_cu_result cuGetErrorString(vr_cu_result code, const char **text);
FAKE_API vr_cu_result cuGetErrorString(vr_cu_result code, const char **text) {
    return fake_cuGetErrorString(code, text);
}

FAKE_API vr_cu_result cuDeviceGet(vr_cu_device *device, int ordinal);
FAKE_API vr_cu_result cuDeviceGet(vr_cu_device *device, int ordinal) {
    return fake_cuDeviceGet(device, ordinal);
}

FAKE_API vr_cu_result cuDeviceGetCount(int *count);
FAKE_API vr_cu_result cuDeviceGetCount(int *count) {
    return fake_cuDeviceGetCount(count);
}

FAKE_API vr_cu_result cuDeviceGetName(char *name, int bytes, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetName(char *name, int bytes, vr_cu_device device) {
    return fake_cuDeviceGetName(name, bytes, device);
}

FAKE_API vr_cu_result cuDeviceGetUuid_v2(struct vr_cu_uuid *uuid, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetUuid_v2(struct vr_cu_uuid *uuid, vr_cu_device device) {
    return fake_cuDeviceGetUuid(uuid, device);
}

FAKE_API vr_cu_result cuDeviceGetUuid(struct vr_cu_uuid *uuid, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetUuid(struct vr_cu_uuid *uuid, vr_cu_device device) {
    return fake_cuDeviceGetUuid(uuid, device);
}

FAKE_API vr_cu_result cuDeviceGetPCIBusId(char *text, int bytes, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetPCIBusId(char *text, int bytes, vr_cu_device device) {
    return fake_cuDeviceGetPCIBusId(text, bytes, device);
}

FAKE_API vr_cu_result cuDeviceGetAttribute(int *value, enum vr_cu_attribute attribute, vr_cu_device
    device);
FAKE_API vr_cu_result cuDeviceGetAttribute(int *value, enum vr_cu_attribute attribute, vr_cu_device
    device) {
    return fake_cuDeviceGetAttribute(value, attribute, device);
}

FAKE_API vr_cu_result cuDeviceTotalMem_v2(size_t *bytes, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceTotalMem_v2(size_t *bytes, vr_cu_device device) {
    return fake_cuDeviceTotalMem(bytes, device);
}

FAKE_API vr_cu_result cuDevicePrimaryCtxRetain(struct vr_cu_context **context, vr_cu_device device);
FAKE_API vr_cu_result cuDevicePrimaryCtxRetain(struct vr_cu_context **context, vr_cu_device device)
    {
    return fake_cuDevicePrimaryCtxRetain(context, device);
}

FAKE_API vr_cu_result cuDevicePrimaryCtxRelease_v2(vr_cu_device device);
FAKE_API vr_cu_result cuDevicePrimaryCtxRelease_v2(vr_cu_device device) {
    return fake_cuDevicePrimaryCtxRelease(device);
}

FAKE_API vr_cu_result cuDevicePrimaryCtxRelease(vr_cu_device device);
FAKE_API vr_cu_result cuDevicePrimaryCtxRelease(vr_cu_device device) {
    return fake_cuDevicePrimaryCtxRelease(device);
}

FAKE_API vr_cu_result cuCtxGetId(struct vr_cu_context *context, unsigned long long *id);
FAKE_API vr_cu_result cuCtxGetId(struct vr_cu_context *context, unsigned long long *id) {
    return fake_cuCtxGetId(context, id);
}

FAKE_API vr_cu_result cuCtxPushCurrent_v2(struct vr_cu_context *context);
FAKE_API vr_cu_result cuCtxPushCurrent_v2(struct vr_cu_context *context) {
    return fake_cuCtxPushCurrent(context);
}

FAKE_API vr_cu_result cuCtxPopCurrent_v2(struct vr_cu_context **context);
FAKE_API vr_cu_result cuCtxPopCurrent_v2(struct vr_cu_context **context) {
    return fake_cuCtxPopCurrent(context);
}

FAKE_API vr_cu_result cuThreadExchangeStreamCaptureMode(enum vr_cu_capture_mode *mode);
FAKE_API vr_cu_result cuThreadExchangeStreamCaptureMode(enum vr_cu_capture_mode *mode) {
    return fake_cuThreadExchangeStreamCaptureMode(mode);
}

FAKE_API vr_cu_result cuMemGetInfo_v2(size_t *free, size_t *total);
FAKE_API vr_cu_result cuMemGetInfo_v2(size_t *free, size_t *total) {
    return fake_cuMemGetInfo(free, total);
}

FAKE_API vr_cu_result cuMemAlloc_v2(vr_cu_addr *addr, size_t bytes);
FAKE_API vr_cu_result cuMemAlloc_v2(vr_cu_addr *addr, size_t bytes) {
    return fake_cuMemAlloc(addr, bytes);
}

FAKE_API vr_cu_result cuMemFree_v2(vr_cu_addr addr);
FAKE_API vr_cu_result cuMemFree_v2(vr_cu_addr addr) {
    return fake_cuMemFree(addr);
}

FAKE_API vr_cu_result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
FAKE_API vr_cu_result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    return fake_cuMemHostAlloc(memory, bytes, flags);
}

FAKE_API vr_cu_result cuMemFreeHost(void *memory);
FAKE_API vr_cu_result cuMemFreeHost(void *memory) {
    return fake_cuMemFreeHost(memory);
}

FAKE_API vr_cu_result cuMemHostGetFlags(unsigned *flags, void *memory);
FAKE_API vr_cu_result cuMemHostGetFlags(unsigned *flags, void *memory) {
    return fake_cuMemHostGetFlags(flags, memory);
}

FAKE_API vr_cu_result cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
FAKE_API vr_cu_result cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    return fake_cuMemHostRegister(memory, bytes, flags);
}

FAKE_API vr_cu_result cuMemHostRegister(void *memory, size_t bytes, unsigned flags);
FAKE_API vr_cu_result cuMemHostRegister(void *memory, size_t bytes, unsigned flags) {
    return fake_cuMemHostRegister(memory, bytes, flags);
}

FAKE_API vr_cu_result cuMemHostUnregister(void *memory);
FAKE_API vr_cu_result cuMemHostUnregister(void *memory) {
    return fake_cuMemHostUnregister(memory);
}

FAKE_API vr_cu_result cuMemGetAllocationGranularity(size_t *bytes, const struct vr_cu_prop *prop,
    enum vr_cu_granularity which);
FAKE_API vr_cu_result cuMemGetAllocationGranularity(size_t *bytes, const struct vr_cu_prop *prop,
    enum vr_cu_granularity which) {
    return fake_cuMemGetAllocationGranularity(bytes, prop, which);
}

FAKE_API vr_cu_result cuMemAddressReserve(vr_cu_addr *addr, size_t bytes, size_t align, vr_cu_addr
    hint, unsigned long long flags);
FAKE_API vr_cu_result cuMemAddressReserve(vr_cu_addr *addr, size_t bytes, size_t align, vr_cu_addr
    hint, unsigned long long flags) {
    return fake_cuMemAddressReserve(addr, bytes, align, hint, flags);
}

FAKE_API vr_cu_result cuMemAddressFree(vr_cu_addr addr, size_t bytes);
FAKE_API vr_cu_result cuMemAddressFree(vr_cu_addr addr, size_t bytes) {
    return fake_cuMemAddressFree(addr, bytes);
}

FAKE_API vr_cu_result cuMemCreate(vr_cu_memory *handle, size_t bytes, const struct vr_cu_prop *prop,
    unsigned long long flags);
FAKE_API vr_cu_result cuMemCreate(vr_cu_memory *handle, size_t bytes, const struct vr_cu_prop *prop,
    unsigned long long flags) {
    return fake_cuMemCreate(handle, bytes, prop, flags);
}

FAKE_API vr_cu_result cuMemExportToShareableHandle(void *shareable, vr_cu_memory handle, enum
    vr_cu_handle_type type, unsigned long long flags);
FAKE_API vr_cu_result cuMemExportToShareableHandle(void *shareable, vr_cu_memory handle, enum
    vr_cu_handle_type type, unsigned long long flags) {
    return fake_cuMemExportToShareableHandle(shareable, handle, type, flags);
}

FAKE_API vr_cu_result cuMemImportFromShareableHandle(vr_cu_memory *handle, void *shareable, enum
    vr_cu_handle_type type);
FAKE_API vr_cu_result cuMemImportFromShareableHandle(vr_cu_memory *handle, void *shareable, enum
    vr_cu_handle_type type) {
    return fake_cuMemImportFromShareableHandle(handle, shareable, type);
}

FAKE_API vr_cu_result cuMemRelease(vr_cu_memory handle);
FAKE_API vr_cu_result cuMemRelease(vr_cu_memory handle) {
    return fake_cuMemRelease(handle);
}

FAKE_API vr_cu_result cuMemMap(vr_cu_addr addr, size_t bytes, size_t offset, vr_cu_memory handle,
    unsigned long long flags);
FAKE_API vr_cu_result cuMemMap(vr_cu_addr addr, size_t bytes, size_t offset, vr_cu_memory handle,
    unsigned long long flags) {
    return fake_cuMemMap(addr, bytes, offset, handle, flags);
}

FAKE_API vr_cu_result cuMemSetAccess(vr_cu_addr addr, size_t bytes, const struct vr_cu_access
    *access, size_t count);
FAKE_API vr_cu_result cuMemSetAccess(vr_cu_addr addr, size_t bytes, const struct vr_cu_access
    *access, size_t count) {
    return fake_cuMemSetAccess(addr, bytes, access, count);
}

FAKE_API vr_cu_result cuMemUnmap(vr_cu_addr addr, size_t bytes);
FAKE_API vr_cu_result cuMemUnmap(vr_cu_addr addr, size_t bytes) {
    return fake_cuMemUnmap(addr, bytes);
}

FAKE_API vr_cu_result cuStreamCreateWithPriority(struct vr_cu_stream **stream, unsigned flags, int
    priority);
FAKE_API vr_cu_result cuStreamCreateWithPriority(struct vr_cu_stream **stream, unsigned flags, int
    priority) {
    return fake_cuStreamCreateWithPriority(stream, flags, priority);
}

FAKE_API vr_cu_result cuStreamDestroy_v2(struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuStreamDestroy_v2(struct vr_cu_stream *stream) {
    return fake_cuStreamDestroy(stream);
}

FAKE_API vr_cu_result cuStreamSynchronize(struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuStreamSynchronize(struct vr_cu_stream *stream) {
    return fake_cuStreamSynchronize(stream);
}

FAKE_API vr_cu_result cuStreamQuery(struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuStreamQuery(struct vr_cu_stream *stream) {
    return fake_cuStreamQuery(stream);
}

FAKE_API vr_cu_result cuStreamGetCtx(struct vr_cu_stream *stream, struct vr_cu_context **context);
FAKE_API vr_cu_result cuStreamGetCtx(struct vr_cu_stream *stream, struct vr_cu_context **context) {
    return fake_cuStreamGetCtx(stream, context);
}

FAKE_API vr_cu_result cuStreamIsCapturing(struct vr_cu_stream *stream, enum vr_cu_capture_status
    *status);
FAKE_API vr_cu_result cuStreamIsCapturing(struct vr_cu_stream *stream, enum vr_cu_capture_status
    *status) {
    return fake_cuStreamIsCapturing(stream, status);
}

FAKE_API vr_cu_result cuStreamWriteValue64_v2(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags);
FAKE_API vr_cu_result cuStreamWriteValue64_v2(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags) {
    return fake_cuStreamWriteValue64(stream, addr, value, flags);
}

FAKE_API vr_cu_result cuStreamWriteValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags);
FAKE_API vr_cu_result cuStreamWriteValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags) {
    return fake_cuStreamWriteValue64(stream, addr, value, flags);
}

FAKE_API vr_cu_result cuStreamWaitValue64_v2(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags);
FAKE_API vr_cu_result cuStreamWaitValue64_v2(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags) {
    return fake_cuStreamWaitValue64(stream, addr, value, flags);
}

FAKE_API vr_cu_result cuStreamWaitValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags);
FAKE_API vr_cu_result cuStreamWaitValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags) {
    return fake_cuStreamWaitValue64(stream, addr, value, flags);
}

FAKE_API vr_cu_result cuStreamWaitEvent(struct vr_cu_stream *stream, struct vr_cu_event *event,
    unsigned flags);
FAKE_API vr_cu_result cuStreamWaitEvent(struct vr_cu_stream *stream, struct vr_cu_event *event,
    unsigned flags) {
    return fake_cuStreamWaitEvent(stream, event, flags);
}

FAKE_API vr_cu_result cuEventCreate(struct vr_cu_event **event, unsigned flags);
FAKE_API vr_cu_result cuEventCreate(struct vr_cu_event **event, unsigned flags) {
    return fake_cuEventCreate(event, flags);
}

FAKE_API vr_cu_result cuEventRecord(struct vr_cu_event *event, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuEventRecord(struct vr_cu_event *event, struct vr_cu_stream *stream) {
    return fake_cuEventRecord(event, stream);
}

FAKE_API vr_cu_result cuEventDestroy_v2(struct vr_cu_event *event);
FAKE_API vr_cu_result cuEventDestroy_v2(struct vr_cu_event *event) {
    return fake_cuEventDestroy(event);
}

FAKE_API vr_cu_result cuLaunchHostFunc(struct vr_cu_stream *stream, void (*run)(void *), void
    *argument);
FAKE_API vr_cu_result cuLaunchHostFunc(struct vr_cu_stream *stream, void (*run)(void *), void
    *argument) {
    return fake_cuLaunchHostFunc(stream, run, argument);
}

FAKE_API vr_cu_result cuMemcpyHtoDAsync_v2(vr_cu_addr to, const void *from, size_t bytes, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemcpyHtoDAsync_v2(vr_cu_addr to, const void *from, size_t bytes, struct
    vr_cu_stream *stream) {
    return fake_cuMemcpyHtoDAsync(to, from, bytes, stream);
}

FAKE_API vr_cu_result cuMemcpyDtoHAsync_v2(void *to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemcpyDtoHAsync_v2(void *to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream) {
    return fake_cuMemcpyDtoHAsync(to, from, bytes, stream);
}

FAKE_API vr_cu_result cuMemcpyDtoDAsync_v2(vr_cu_addr to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemcpyDtoDAsync_v2(vr_cu_addr to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream) {
    return fake_cuMemcpyDtoDAsync(to, from, bytes, stream);
}

FAKE_API vr_cu_result cuMemcpy2DAsync_v2(const struct vr_cu_rows *rows, struct vr_cu_stream
    *stream);
FAKE_API vr_cu_result cuMemcpy2DAsync_v2(const struct vr_cu_rows *rows, struct vr_cu_stream *stream)
    {
    return fake_cuMemcpy2DAsync(rows, stream);
}

FAKE_API vr_cu_result cuMemsetD8Async(vr_cu_addr to, unsigned char value, size_t count, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemsetD8Async(vr_cu_addr to, unsigned char value, size_t count, struct
    vr_cu_stream *stream) {
    return fake_cuMemsetD8Async(to, value, count, stream);
}

FAKE_API vr_cu_result cuMemsetD16Async(vr_cu_addr to, unsigned short value, size_t count, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemsetD16Async(vr_cu_addr to, unsigned short value, size_t count, struct
    vr_cu_stream *stream) {
    return fake_cuMemsetD16Async(to, value, count, stream);
}

FAKE_API vr_cu_result cuMemsetD32Async(vr_cu_addr to, unsigned value, size_t count, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemsetD32Async(vr_cu_addr to, unsigned value, size_t count, struct
    vr_cu_stream *stream) {
    return fake_cuMemsetD32Async(to, value, count, stream);
}

FAKE_API vr_cu_result cuMemAllocManaged(vr_cu_addr *addr, size_t bytes, unsigned flags);
FAKE_API vr_cu_result cuMemAllocManaged(vr_cu_addr *addr, size_t bytes, unsigned flags) {
    return fake_cuMemAllocManaged(addr, bytes, flags);
}

FAKE_API vr_cu_result cuMemPrefetchAsync_v2(vr_cu_addr addr, size_t bytes, struct vr_cu_location to,
    unsigned flags, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemPrefetchAsync_v2(vr_cu_addr addr, size_t bytes, struct vr_cu_location to,
    unsigned flags, struct vr_cu_stream *stream) {
    return fake_cuMemPrefetchAsync(addr, bytes, to, flags, stream);
}

FAKE_API vr_cu_result cuMemAdvise_v2(vr_cu_addr addr, size_t bytes, enum vr_cu_advice advice, struct
    vr_cu_location location);
FAKE_API vr_cu_result cuMemAdvise_v2(vr_cu_addr addr, size_t bytes, enum vr_cu_advice advice, struct
    vr_cu_location location) {
    return fake_cuMemAdvise(addr, bytes, advice, location);
}

FAKE_API vr_cu_result cuStreamGetId(struct vr_cu_stream *stream, unsigned long long *id);
FAKE_API vr_cu_result cuStreamGetId(struct vr_cu_stream *stream, unsigned long long *id) {
    return fake_cuStreamGetId(stream, id);
}

FAKE_API vr_cu_result cuDeviceCanAccessPeer(int *can, vr_cu_device device, vr_cu_device peer);
FAKE_API vr_cu_result cuDeviceCanAccessPeer(int *can, vr_cu_device device, vr_cu_device peer) {
    return fake_cuDeviceCanAccessPeer(can, device, peer);
}

FAKE_API vr_cu_result cuCtxEnablePeerAccess(struct vr_cu_context *peer, unsigned flags);
FAKE_API vr_cu_result cuCtxEnablePeerAccess(struct vr_cu_context *peer, unsigned flags) {
    return fake_cuCtxEnablePeerAccess(peer, flags);
}

FAKE_API vr_cu_result cuMemcpyPeerAsync(vr_cu_addr to, struct vr_cu_context *to_context, vr_cu_addr
    from, struct vr_cu_context *from_context, size_t bytes, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemcpyPeerAsync(vr_cu_addr to, struct vr_cu_context *to_context, vr_cu_addr
    from, struct vr_cu_context *from_context, size_t bytes, struct vr_cu_stream *stream) {
    return fake_cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, stream);
}

FAKE_API vr_cu_result cuModuleLoadData(struct vr_cu_module **module, const void *image);
FAKE_API vr_cu_result cuModuleLoadData(struct vr_cu_module **module, const void *image) {
    return fake_cuModuleLoadData(module, image);
}

FAKE_API vr_cu_result cuModuleUnload(struct vr_cu_module *module);
FAKE_API vr_cu_result cuModuleUnload(struct vr_cu_module *module) {
    return fake_cuModuleUnload(module);
}

FAKE_API vr_cu_result cuModuleGetFunction(struct vr_cu_function **function, struct vr_cu_module
    *module, const char *name);
FAKE_API vr_cu_result cuModuleGetFunction(struct vr_cu_function **function, struct vr_cu_module
    *module, const char *name) {
    return fake_cuModuleGetFunction(function, module, name);
}

FAKE_API vr_cu_result cuLaunchKernel(struct vr_cu_function *function, unsigned groups_x, unsigned
    groups_y, unsigned groups_z, unsigned items_x, unsigned items_y, unsigned items_z, unsigned
    shared_bytes, struct vr_cu_stream *stream, void **parameters, void **extra);
FAKE_API vr_cu_result cuLaunchKernel(struct vr_cu_function *function, unsigned groups_x, unsigned
    groups_y, unsigned groups_z, unsigned items_x, unsigned items_y, unsigned items_z, unsigned
    shared_bytes, struct vr_cu_stream *stream, void **parameters, void **extra) {
    return fake_cuLaunchKernel(function, groups_x, groups_y, groups_z, items_x, items_y, items_z,
        shared_bytes, stream, parameters, extra);
}

FAKE_API vr_cu_result cuEventQuery(struct vr_cu_event *event);
FAKE_API vr_cu_result cuEventQuery(struct vr_cu_event *event) {
    return fake_cuEventQuery(event);
}

/* clang-format on */
