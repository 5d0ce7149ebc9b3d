/* Made by tools/driver-table from src/backend/cuda/cuda.entries. */
/* SPDX-License-Identifier: Apache-2.0 */
/* shim_cuda_entries.c: the symbols of the shim in front of a CUDA driver. */
#include "fake/shim.h"

#include <string.h>

/* clang-format off */

const char *const shim_driver = "cuda";

const struct shim_entry shim_entries[] = {
    {"cuInit", {"cuInit", NULL}},
    {"cuDriverGetVersion", {"cuDriverGetVersion", NULL}},
    {"cuGetErrorName", {"cuGetErrorName", NULL}},
    {"cuGetErrorString", {"cuGetErrorString", NULL}},
    {"cuDeviceGet", {"cuDeviceGet", NULL}},
    {"cuDeviceGetCount", {"cuDeviceGetCount", NULL}},
    {"cuDeviceGetName", {"cuDeviceGetName", NULL}},
    {"cuDeviceGetUuid", {"cuDeviceGetUuid_v2", "cuDeviceGetUuid"}},
    {"cuDeviceGetPCIBusId", {"cuDeviceGetPCIBusId", NULL}},
    {"cuDeviceGetAttribute", {"cuDeviceGetAttribute", NULL}},
    {"cuDeviceTotalMem", {"cuDeviceTotalMem_v2", NULL}},
    {"cuDevicePrimaryCtxRetain", {"cuDevicePrimaryCtxRetain", NULL}},
    {"cuDevicePrimaryCtxRelease", {"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"}},
    {"cuCtxGetId", {"cuCtxGetId", NULL}},
    {"cuCtxPushCurrent", {"cuCtxPushCurrent_v2", NULL}},
    {"cuCtxPopCurrent", {"cuCtxPopCurrent_v2", NULL}},
    {"cuThreadExchangeStreamCaptureMode", {"cuThreadExchangeStreamCaptureMode", NULL}},
    {"cuMemGetInfo", {"cuMemGetInfo_v2", NULL}},
    {"cuMemAlloc", {"cuMemAlloc_v2", NULL}},
    {"cuMemFree", {"cuMemFree_v2", NULL}},
    {"cuMemHostAlloc", {"cuMemHostAlloc", NULL}},
    {"cuMemFreeHost", {"cuMemFreeHost", NULL}},
    {"cuMemHostGetFlags", {"cuMemHostGetFlags", NULL}},
    {"cuMemHostRegister", {"cuMemHostRegister_v2", "cuMemHostRegister"}},
    {"cuMemHostUnregister", {"cuMemHostUnregister", NULL}},
    {"cuMemGetAllocationGranularity", {"cuMemGetAllocationGranularity", NULL}},
    {"cuMemAddressReserve", {"cuMemAddressReserve", NULL}},
    {"cuMemAddressFree", {"cuMemAddressFree", NULL}},
    {"cuMemCreate", {"cuMemCreate", NULL}},
    {"cuMemExportToShareableHandle", {"cuMemExportToShareableHandle", NULL}},
    {"cuMemImportFromShareableHandle", {"cuMemImportFromShareableHandle", NULL}},
    {"cuMemRelease", {"cuMemRelease", NULL}},
    {"cuMemMap", {"cuMemMap", NULL}},
    {"cuMemSetAccess", {"cuMemSetAccess", NULL}},
    {"cuMemUnmap", {"cuMemUnmap", NULL}},
    {"cuStreamCreateWithPriority", {"cuStreamCreateWithPriority", NULL}},
    {"cuStreamDestroy", {"cuStreamDestroy_v2", NULL}},
    {"cuStreamSynchronize", {"cuStreamSynchronize", NULL}},
    {"cuStreamQuery", {"cuStreamQuery", NULL}},
    {"cuStreamGetCtx", {"cuStreamGetCtx", NULL}},
    {"cuStreamIsCapturing", {"cuStreamIsCapturing", NULL}},
    {"cuStreamWriteValue64", {"cuStreamWriteValue64_v2", "cuStreamWriteValue64"}},
    {"cuStreamWaitValue64", {"cuStreamWaitValue64_v2", "cuStreamWaitValue64"}},
    {"cuStreamWaitEvent", {"cuStreamWaitEvent", NULL}},
    {"cuEventCreate", {"cuEventCreate", NULL}},
    {"cuEventRecord", {"cuEventRecord", NULL}},
    {"cuEventDestroy", {"cuEventDestroy_v2", NULL}},
    {"cuLaunchHostFunc", {"cuLaunchHostFunc", NULL}},
    {"cuMemcpyHtoDAsync", {"cuMemcpyHtoDAsync_v2", NULL}},
    {"cuMemcpyDtoHAsync", {"cuMemcpyDtoHAsync_v2", NULL}},
    {"cuMemcpyDtoDAsync", {"cuMemcpyDtoDAsync_v2", NULL}},
    {"cuMemcpy2DAsync", {"cuMemcpy2DAsync_v2", NULL}},
    {"cuMemsetD8Async", {"cuMemsetD8Async", NULL}},
    {"cuMemsetD16Async", {"cuMemsetD16Async", NULL}},
    {"cuMemsetD32Async", {"cuMemsetD32Async", NULL}},
    {"cuMemAllocManaged", {"cuMemAllocManaged", NULL}},
    {"cuMemPrefetchAsync", {"cuMemPrefetchAsync_v2", NULL}},
    {"cuMemAdvise", {"cuMemAdvise_v2", NULL}},
    {"cuStreamGetId", {"cuStreamGetId", NULL}},
    {"cuDeviceCanAccessPeer", {"cuDeviceCanAccessPeer", NULL}},
    {"cuCtxEnablePeerAccess", {"cuCtxEnablePeerAccess", NULL}},
    {"cuMemcpyPeerAsync", {"cuMemcpyPeerAsync", NULL}},
    {"cuModuleLoadData", {"cuModuleLoadData", NULL}},
    {"cuModuleUnload", {"cuModuleUnload", NULL}},
    {"cuModuleGetFunction", {"cuModuleGetFunction", NULL}},
    {"cuLaunchKernel", {"cuLaunchKernel", NULL}},
    {"cuEventQuery", {"cuEventQuery", NULL}},
};

const unsigned shim_entry_count = sizeof shim_entries / sizeof shim_entries[0];

FAKE_API vr_cu_result cuInit(unsigned flags);
FAKE_API vr_cu_result cuInit(unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(0, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(unsigned) = NULL;
    void *address = shim_real(0, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(flags);
    shim_note(0, begin);
    return answer;
}

FAKE_API vr_cu_result cuDriverGetVersion(int *version);
FAKE_API vr_cu_result cuDriverGetVersion(int *version) {
    vr_cu_result answer;
    if (shim_strike(1, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(int *) = NULL;
    void *address = shim_real(1, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(version);
    shim_note(1, begin);
    return answer;
}

FAKE_API vr_cu_result cuGetErrorName(vr_cu_result code, const char **text);
FAKE_API vr_cu_result cuGetErrorName(vr_cu_result code, const char **text) {
    vr_cu_result answer;
    if (shim_strike(2, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_result, const char **) = NULL;
    void *address = shim_real(2, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(code, text);
    shim_note(2, begin);
    return answer;
}

FAKE_API vr_cu_result cuGetErrorString(vr_cu_result code, const char **text);
FAKE_API vr_cu_result cuGetErrorString(vr_cu_result code, const char **text) {
    vr_cu_result answer;
    if (shim_strike(3, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_result, const char **) = NULL;
    void *address = shim_real(3, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(code, text);
    shim_note(3, begin);
    return answer;
}

FAKE_API vr_cu_result cuDeviceGet(vr_cu_device *device, int ordinal);
FAKE_API vr_cu_result cuDeviceGet(vr_cu_device *device, int ordinal) {
    vr_cu_result answer;
    if (shim_strike(4, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_device *, int) = NULL;
    void *address = shim_real(4, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(device, ordinal);
    shim_note(4, begin);
    return answer;
}

FAKE_API vr_cu_result cuDeviceGetCount(int *count);
FAKE_API vr_cu_result cuDeviceGetCount(int *count) {
    vr_cu_result answer;
    if (shim_strike(5, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(int *) = NULL;
    void *address = shim_real(5, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(count);
    shim_note(5, begin);
    return answer;
}

FAKE_API vr_cu_result cuDeviceGetName(char *name, int bytes, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetName(char *name, int bytes, vr_cu_device device) {
    vr_cu_result answer;
    if (shim_strike(6, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(char *, int, vr_cu_device) = NULL;
    void *address = shim_real(6, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(name, bytes, device);
    shim_note(6, begin);
    return answer;
}

FAKE_API vr_cu_result cuDeviceGetUuid_v2(struct vr_cu_uuid *uuid, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetUuid_v2(struct vr_cu_uuid *uuid, vr_cu_device device) {
    vr_cu_result answer;
    if (shim_strike(7, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_uuid *, vr_cu_device) = NULL;
    void *address = shim_real(7, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(uuid, device);
    shim_note(7, begin);
    return answer;
}

FAKE_API vr_cu_result cuDeviceGetUuid(struct vr_cu_uuid *uuid, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetUuid(struct vr_cu_uuid *uuid, vr_cu_device device) {
    vr_cu_result answer;
    if (shim_strike(7, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_uuid *, vr_cu_device) = NULL;
    void *address = shim_real(7, 1);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(uuid, device);
    shim_note(7, begin);
    return answer;
}

FAKE_API vr_cu_result cuDeviceGetPCIBusId(char *text, int bytes, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetPCIBusId(char *text, int bytes, vr_cu_device device) {
    vr_cu_result answer;
    if (shim_strike(8, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(char *, int, vr_cu_device) = NULL;
    void *address = shim_real(8, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(text, bytes, device);
    shim_note(8, begin);
    return answer;
}

FAKE_API vr_cu_result cuDeviceGetAttribute(int *value, enum vr_cu_attribute attribute, vr_cu_device
    device);
FAKE_API vr_cu_result cuDeviceGetAttribute(int *value, enum vr_cu_attribute attribute, vr_cu_device
    device) {
    vr_cu_result answer;
    if (shim_strike(9, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(int *, enum vr_cu_attribute, vr_cu_device) = NULL;
    void *address = shim_real(9, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(value, attribute, device);
    shim_note(9, begin);
    return answer;
}

FAKE_API vr_cu_result cuDeviceTotalMem_v2(size_t *bytes, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceTotalMem_v2(size_t *bytes, vr_cu_device device) {
    vr_cu_result answer;
    if (shim_strike(10, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(size_t *, vr_cu_device) = NULL;
    void *address = shim_real(10, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(bytes, device);
    shim_note(10, begin);
    return answer;
}

FAKE_API vr_cu_result cuDevicePrimaryCtxRetain(struct vr_cu_context **context, vr_cu_device device);
FAKE_API vr_cu_result cuDevicePrimaryCtxRetain(struct vr_cu_context **context, vr_cu_device device)
    {
    vr_cu_result answer;
    if (shim_strike(11, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_context **, vr_cu_device) = NULL;
    void *address = shim_real(11, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(context, device);
    shim_note(11, begin);
    return answer;
}

FAKE_API vr_cu_result cuDevicePrimaryCtxRelease_v2(vr_cu_device device);
FAKE_API vr_cu_result cuDevicePrimaryCtxRelease_v2(vr_cu_device device) {
    vr_cu_result answer;
    if (shim_strike(12, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_device) = NULL;
    void *address = shim_real(12, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(device);
    shim_note(12, begin);
    return answer;
}

FAKE_API vr_cu_result cuDevicePrimaryCtxRelease(vr_cu_device device);
FAKE_API vr_cu_result cuDevicePrimaryCtxRelease(vr_cu_device device) {
    vr_cu_result answer;
    if (shim_strike(12, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_device) = NULL;
    void *address = shim_real(12, 1);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(device);
    shim_note(12, begin);
    return answer;
}

FAKE_API vr_cu_result cuCtxGetId(struct vr_cu_context *context, unsigned long long *id);
FAKE_API vr_cu_result cuCtxGetId(struct vr_cu_context *context, unsigned long long *id) {
    vr_cu_result answer;
    if (shim_strike(13, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_context *, unsigned long long *) = NULL;
    void *address = shim_real(13, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(context, id);
    shim_note(13, begin);
    return answer;
}

FAKE_API vr_cu_result cuCtxPushCurrent_v2(struct vr_cu_context *context);
FAKE_API vr_cu_result cuCtxPushCurrent_v2(struct vr_cu_context *context) {
    vr_cu_result answer;
    if (shim_strike(14, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_context *) = NULL;
    void *address = shim_real(14, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(context);
    shim_note(14, begin);
    return answer;
}

FAKE_API vr_cu_result cuCtxPopCurrent_v2(struct vr_cu_context **context);
FAKE_API vr_cu_result cuCtxPopCurrent_v2(struct vr_cu_context **context) {
    vr_cu_result answer;
    if (shim_strike(15, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_context **) = NULL;
    void *address = shim_real(15, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(context);
    shim_note(15, begin);
    return answer;
}

FAKE_API vr_cu_result cuThreadExchangeStreamCaptureMode(enum vr_cu_capture_mode *mode);
FAKE_API vr_cu_result cuThreadExchangeStreamCaptureMode(enum vr_cu_capture_mode *mode) {
    vr_cu_result answer;
    if (shim_strike(16, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(enum vr_cu_capture_mode *) = NULL;
    void *address = shim_real(16, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(mode);
    shim_note(16, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemGetInfo_v2(size_t *free, size_t *total);
FAKE_API vr_cu_result cuMemGetInfo_v2(size_t *free, size_t *total) {
    vr_cu_result answer;
    if (shim_strike(17, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(size_t *, size_t *) = NULL;
    void *address = shim_real(17, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(free, total);
    shim_note(17, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemAlloc_v2(vr_cu_addr *addr, size_t bytes);
FAKE_API vr_cu_result cuMemAlloc_v2(vr_cu_addr *addr, size_t bytes) {
    vr_cu_result answer;
    if (shim_strike(18, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr *, size_t) = NULL;
    void *address = shim_real(18, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr, bytes);
    shim_note(18, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemFree_v2(vr_cu_addr addr);
FAKE_API vr_cu_result cuMemFree_v2(vr_cu_addr addr) {
    vr_cu_result answer;
    if (shim_strike(19, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr) = NULL;
    void *address = shim_real(19, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr);
    shim_note(19, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
FAKE_API vr_cu_result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(20, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(void **, size_t, unsigned) = NULL;
    void *address = shim_real(20, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(memory, bytes, flags);
    shim_note(20, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemFreeHost(void *memory);
FAKE_API vr_cu_result cuMemFreeHost(void *memory) {
    vr_cu_result answer;
    if (shim_strike(21, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(void *) = NULL;
    void *address = shim_real(21, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(memory);
    shim_note(21, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemHostGetFlags(unsigned *flags, void *memory);
FAKE_API vr_cu_result cuMemHostGetFlags(unsigned *flags, void *memory) {
    vr_cu_result answer;
    if (shim_strike(22, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(unsigned *, void *) = NULL;
    void *address = shim_real(22, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(flags, memory);
    shim_note(22, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
FAKE_API vr_cu_result cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(23, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(void *, size_t, unsigned) = NULL;
    void *address = shim_real(23, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(memory, bytes, flags);
    shim_note(23, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemHostRegister(void *memory, size_t bytes, unsigned flags);
FAKE_API vr_cu_result cuMemHostRegister(void *memory, size_t bytes, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(23, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(void *, size_t, unsigned) = NULL;
    void *address = shim_real(23, 1);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(memory, bytes, flags);
    shim_note(23, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemHostUnregister(void *memory);
FAKE_API vr_cu_result cuMemHostUnregister(void *memory) {
    vr_cu_result answer;
    if (shim_strike(24, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(void *) = NULL;
    void *address = shim_real(24, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(memory);
    shim_note(24, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemGetAllocationGranularity(size_t *bytes, const struct vr_cu_prop *prop,
    enum vr_cu_granularity which);
FAKE_API vr_cu_result cuMemGetAllocationGranularity(size_t *bytes, const struct vr_cu_prop *prop,
    enum vr_cu_granularity which) {
    vr_cu_result answer;
    if (shim_strike(25, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(size_t *, const struct vr_cu_prop *, enum vr_cu_granularity) = NULL;
    void *address = shim_real(25, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(bytes, prop, which);
    shim_note(25, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemAddressReserve(vr_cu_addr *addr, size_t bytes, size_t align, vr_cu_addr
    hint, unsigned long long flags);
FAKE_API vr_cu_result cuMemAddressReserve(vr_cu_addr *addr, size_t bytes, size_t align, vr_cu_addr
    hint, unsigned long long flags) {
    vr_cu_result answer;
    if (shim_strike(26, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr *, size_t, size_t, vr_cu_addr, unsigned long long) = NULL;
    void *address = shim_real(26, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr, bytes, align, hint, flags);
    shim_note(26, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemAddressFree(vr_cu_addr addr, size_t bytes);
FAKE_API vr_cu_result cuMemAddressFree(vr_cu_addr addr, size_t bytes) {
    vr_cu_result answer;
    if (shim_strike(27, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, size_t) = NULL;
    void *address = shim_real(27, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr, bytes);
    shim_note(27, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemCreate(vr_cu_memory *handle, size_t bytes, const struct vr_cu_prop *prop,
    unsigned long long flags);
FAKE_API vr_cu_result cuMemCreate(vr_cu_memory *handle, size_t bytes, const struct vr_cu_prop *prop,
    unsigned long long flags) {
    vr_cu_result answer;
    if (shim_strike(28, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_memory *, size_t, const struct vr_cu_prop *, unsigned long long) =
        NULL;
    void *address = shim_real(28, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(handle, bytes, prop, flags);
    shim_note(28, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemExportToShareableHandle(void *shareable, vr_cu_memory handle, enum
    vr_cu_handle_type type, unsigned long long flags);
FAKE_API vr_cu_result cuMemExportToShareableHandle(void *shareable, vr_cu_memory handle, enum
    vr_cu_handle_type type, unsigned long long flags) {
    vr_cu_result answer;
    if (shim_strike(29, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(void *, vr_cu_memory, enum vr_cu_handle_type, unsigned long long) = NULL;
    void *address = shim_real(29, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(shareable, handle, type, flags);
    shim_note(29, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemImportFromShareableHandle(vr_cu_memory *handle, void *shareable, enum
    vr_cu_handle_type type);
FAKE_API vr_cu_result cuMemImportFromShareableHandle(vr_cu_memory *handle, void *shareable, enum
    vr_cu_handle_type type) {
    vr_cu_result answer;
    if (shim_strike(30, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_memory *, void *, enum vr_cu_handle_type) = NULL;
    void *address = shim_real(30, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(handle, shareable, type);
    shim_note(30, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemRelease(vr_cu_memory handle);
FAKE_API vr_cu_result cuMemRelease(vr_cu_memory handle) {
    vr_cu_result answer;
    if (shim_strike(31, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_memory) = NULL;
    void *address = shim_real(31, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(handle);
    shim_note(31, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemMap(vr_cu_addr addr, size_t bytes, size_t offset, vr_cu_memory handle,
    unsigned long long flags);
FAKE_API vr_cu_result cuMemMap(vr_cu_addr addr, size_t bytes, size_t offset, vr_cu_memory handle,
    unsigned long long flags) {
    vr_cu_result answer;
    if (shim_strike(32, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, size_t, size_t, vr_cu_memory, unsigned long long) = NULL;
    void *address = shim_real(32, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr, bytes, offset, handle, flags);
    shim_note(32, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemSetAccess(vr_cu_addr addr, size_t bytes, const struct vr_cu_access
    *access, size_t count);
FAKE_API vr_cu_result cuMemSetAccess(vr_cu_addr addr, size_t bytes, const struct vr_cu_access
    *access, size_t count) {
    vr_cu_result answer;
    if (shim_strike(33, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, size_t, const struct vr_cu_access *, size_t) = NULL;
    void *address = shim_real(33, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr, bytes, access, count);
    shim_note(33, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemUnmap(vr_cu_addr addr, size_t bytes);
FAKE_API vr_cu_result cuMemUnmap(vr_cu_addr addr, size_t bytes) {
    vr_cu_result answer;
    if (shim_strike(34, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, size_t) = NULL;
    void *address = shim_real(34, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr, bytes);
    shim_note(34, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamCreateWithPriority(struct vr_cu_stream **stream, unsigned flags, int
    priority);
FAKE_API vr_cu_result cuStreamCreateWithPriority(struct vr_cu_stream **stream, unsigned flags, int
    priority) {
    vr_cu_result answer;
    if (shim_strike(35, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream **, unsigned, int) = NULL;
    void *address = shim_real(35, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, flags, priority);
    shim_note(35, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamDestroy_v2(struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuStreamDestroy_v2(struct vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(36, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *) = NULL;
    void *address = shim_real(36, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream);
    shim_note(36, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamSynchronize(struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuStreamSynchronize(struct vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(37, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *) = NULL;
    void *address = shim_real(37, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream);
    shim_note(37, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamQuery(struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuStreamQuery(struct vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(38, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *) = NULL;
    void *address = shim_real(38, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream);
    shim_note(38, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamGetCtx(struct vr_cu_stream *stream, struct vr_cu_context **context);
FAKE_API vr_cu_result cuStreamGetCtx(struct vr_cu_stream *stream, struct vr_cu_context **context) {
    vr_cu_result answer;
    if (shim_strike(39, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *, struct vr_cu_context **) = NULL;
    void *address = shim_real(39, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, context);
    shim_note(39, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamIsCapturing(struct vr_cu_stream *stream, enum vr_cu_capture_status
    *status);
FAKE_API vr_cu_result cuStreamIsCapturing(struct vr_cu_stream *stream, enum vr_cu_capture_status
    *status) {
    vr_cu_result answer;
    if (shim_strike(40, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *, enum vr_cu_capture_status *) = NULL;
    void *address = shim_real(40, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, status);
    shim_note(40, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamWriteValue64_v2(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags);
FAKE_API vr_cu_result cuStreamWriteValue64_v2(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(41, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *, vr_cu_addr, uint64_t, unsigned) = NULL;
    void *address = shim_real(41, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, addr, value, flags);
    shim_note(41, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamWriteValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags);
FAKE_API vr_cu_result cuStreamWriteValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(41, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *, vr_cu_addr, uint64_t, unsigned) = NULL;
    void *address = shim_real(41, 1);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, addr, value, flags);
    shim_note(41, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamWaitValue64_v2(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags);
FAKE_API vr_cu_result cuStreamWaitValue64_v2(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(42, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *, vr_cu_addr, uint64_t, unsigned) = NULL;
    void *address = shim_real(42, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, addr, value, flags);
    shim_note(42, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamWaitValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags);
FAKE_API vr_cu_result cuStreamWaitValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t
    value, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(42, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *, vr_cu_addr, uint64_t, unsigned) = NULL;
    void *address = shim_real(42, 1);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, addr, value, flags);
    shim_note(42, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamWaitEvent(struct vr_cu_stream *stream, struct vr_cu_event *event,
    unsigned flags);
FAKE_API vr_cu_result cuStreamWaitEvent(struct vr_cu_stream *stream, struct vr_cu_event *event,
    unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(43, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *, struct vr_cu_event *, unsigned) = NULL;
    void *address = shim_real(43, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, event, flags);
    shim_note(43, begin);
    return answer;
}

FAKE_API vr_cu_result cuEventCreate(struct vr_cu_event **event, unsigned flags);
FAKE_API vr_cu_result cuEventCreate(struct vr_cu_event **event, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(44, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_event **, unsigned) = NULL;
    void *address = shim_real(44, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(event, flags);
    shim_note(44, begin);
    return answer;
}

FAKE_API vr_cu_result cuEventRecord(struct vr_cu_event *event, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuEventRecord(struct vr_cu_event *event, struct vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(45, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_event *, struct vr_cu_stream *) = NULL;
    void *address = shim_real(45, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(event, stream);
    shim_note(45, begin);
    return answer;
}

FAKE_API vr_cu_result cuEventDestroy_v2(struct vr_cu_event *event);
FAKE_API vr_cu_result cuEventDestroy_v2(struct vr_cu_event *event) {
    vr_cu_result answer;
    if (shim_strike(46, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_event *) = NULL;
    void *address = shim_real(46, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(event);
    shim_note(46, begin);
    return answer;
}

FAKE_API vr_cu_result cuLaunchHostFunc(struct vr_cu_stream *stream, void (*run)(void *), void
    *argument);
FAKE_API vr_cu_result cuLaunchHostFunc(struct vr_cu_stream *stream, void (*run)(void *), void
    *argument) {
    vr_cu_result answer;
    if (shim_strike(47, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *, void (*)(void *), void *) = NULL;
    void *address = shim_real(47, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, run, argument);
    shim_note(47, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemcpyHtoDAsync_v2(vr_cu_addr to, const void *from, size_t bytes, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemcpyHtoDAsync_v2(vr_cu_addr to, const void *from, size_t bytes, struct
    vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(48, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, const void *, size_t, struct vr_cu_stream *) = NULL;
    void *address = shim_real(48, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(to, from, bytes, stream);
    shim_note(48, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemcpyDtoHAsync_v2(void *to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemcpyDtoHAsync_v2(void *to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(49, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(void *, vr_cu_addr, size_t, struct vr_cu_stream *) = NULL;
    void *address = shim_real(49, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(to, from, bytes, stream);
    shim_note(49, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemcpyDtoDAsync_v2(vr_cu_addr to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemcpyDtoDAsync_v2(vr_cu_addr to, vr_cu_addr from, size_t bytes, struct
    vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(50, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, vr_cu_addr, size_t, struct vr_cu_stream *) = NULL;
    void *address = shim_real(50, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(to, from, bytes, stream);
    shim_note(50, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemcpy2DAsync_v2(const struct vr_cu_rows *rows, struct vr_cu_stream
    *stream);
FAKE_API vr_cu_result cuMemcpy2DAsync_v2(const struct vr_cu_rows *rows, struct vr_cu_stream *stream)
    {
    vr_cu_result answer;
    if (shim_strike(51, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(const struct vr_cu_rows *, struct vr_cu_stream *) = NULL;
    void *address = shim_real(51, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(rows, stream);
    shim_note(51, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemsetD8Async(vr_cu_addr to, unsigned char value, size_t count, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemsetD8Async(vr_cu_addr to, unsigned char value, size_t count, struct
    vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(52, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, unsigned char, size_t, struct vr_cu_stream *) = NULL;
    void *address = shim_real(52, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(to, value, count, stream);
    shim_note(52, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemsetD16Async(vr_cu_addr to, unsigned short value, size_t count, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemsetD16Async(vr_cu_addr to, unsigned short value, size_t count, struct
    vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(53, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, unsigned short, size_t, struct vr_cu_stream *) = NULL;
    void *address = shim_real(53, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(to, value, count, stream);
    shim_note(53, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemsetD32Async(vr_cu_addr to, unsigned value, size_t count, struct
    vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemsetD32Async(vr_cu_addr to, unsigned value, size_t count, struct
    vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(54, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, unsigned, size_t, struct vr_cu_stream *) = NULL;
    void *address = shim_real(54, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(to, value, count, stream);
    shim_note(54, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemAllocManaged(vr_cu_addr *addr, size_t bytes, unsigned flags);
FAKE_API vr_cu_result cuMemAllocManaged(vr_cu_addr *addr, size_t bytes, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(55, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr *, size_t, unsigned) = NULL;
    void *address = shim_real(55, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr, bytes, flags);
    shim_note(55, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemPrefetchAsync_v2(vr_cu_addr addr, size_t bytes, struct vr_cu_location to,
    unsigned flags, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemPrefetchAsync_v2(vr_cu_addr addr, size_t bytes, struct vr_cu_location to,
    unsigned flags, struct vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(56, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, size_t, struct vr_cu_location, unsigned, struct vr_cu_stream *)
        = NULL;
    void *address = shim_real(56, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr, bytes, to, flags, stream);
    shim_note(56, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemAdvise_v2(vr_cu_addr addr, size_t bytes, enum vr_cu_advice advice, struct
    vr_cu_location location);
FAKE_API vr_cu_result cuMemAdvise_v2(vr_cu_addr addr, size_t bytes, enum vr_cu_advice advice, struct
    vr_cu_location location) {
    vr_cu_result answer;
    if (shim_strike(57, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, size_t, enum vr_cu_advice, struct vr_cu_location) = NULL;
    void *address = shim_real(57, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(addr, bytes, advice, location);
    shim_note(57, begin);
    return answer;
}

FAKE_API vr_cu_result cuStreamGetId(struct vr_cu_stream *stream, unsigned long long *id);
FAKE_API vr_cu_result cuStreamGetId(struct vr_cu_stream *stream, unsigned long long *id) {
    vr_cu_result answer;
    if (shim_strike(58, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_stream *, unsigned long long *) = NULL;
    void *address = shim_real(58, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(stream, id);
    shim_note(58, begin);
    return answer;
}

FAKE_API vr_cu_result cuDeviceCanAccessPeer(int *can, vr_cu_device device, vr_cu_device peer);
FAKE_API vr_cu_result cuDeviceCanAccessPeer(int *can, vr_cu_device device, vr_cu_device peer) {
    vr_cu_result answer;
    if (shim_strike(59, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(int *, vr_cu_device, vr_cu_device) = NULL;
    void *address = shim_real(59, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(can, device, peer);
    shim_note(59, begin);
    return answer;
}

FAKE_API vr_cu_result cuCtxEnablePeerAccess(struct vr_cu_context *peer, unsigned flags);
FAKE_API vr_cu_result cuCtxEnablePeerAccess(struct vr_cu_context *peer, unsigned flags) {
    vr_cu_result answer;
    if (shim_strike(60, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_context *, unsigned) = NULL;
    void *address = shim_real(60, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(peer, flags);
    shim_note(60, begin);
    return answer;
}

FAKE_API vr_cu_result cuMemcpyPeerAsync(vr_cu_addr to, struct vr_cu_context *to_context, vr_cu_addr
    from, struct vr_cu_context *from_context, size_t bytes, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemcpyPeerAsync(vr_cu_addr to, struct vr_cu_context *to_context, vr_cu_addr
    from, struct vr_cu_context *from_context, size_t bytes, struct vr_cu_stream *stream) {
    vr_cu_result answer;
    if (shim_strike(61, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(vr_cu_addr, struct vr_cu_context *, vr_cu_addr, struct vr_cu_context *,
        size_t, struct vr_cu_stream *) = NULL;
    void *address = shim_real(61, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(to, to_context, from, from_context, bytes, stream);
    shim_note(61, begin);
    return answer;
}

FAKE_API vr_cu_result cuModuleLoadData(struct vr_cu_module **module, const void *image);
FAKE_API vr_cu_result cuModuleLoadData(struct vr_cu_module **module, const void *image) {
    vr_cu_result answer;
    if (shim_strike(62, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_module **, const void *) = NULL;
    void *address = shim_real(62, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(module, image);
    shim_note(62, begin);
    return answer;
}

FAKE_API vr_cu_result cuModuleUnload(struct vr_cu_module *module);
FAKE_API vr_cu_result cuModuleUnload(struct vr_cu_module *module) {
    vr_cu_result answer;
    if (shim_strike(63, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_module *) = NULL;
    void *address = shim_real(63, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(module);
    shim_note(63, begin);
    return answer;
}

FAKE_API vr_cu_result cuModuleGetFunction(struct vr_cu_function **function, struct vr_cu_module
    *module, const char *name);
FAKE_API vr_cu_result cuModuleGetFunction(struct vr_cu_function **function, struct vr_cu_module
    *module, const char *name) {
    vr_cu_result answer;
    if (shim_strike(64, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_function **, struct vr_cu_module *, const char *) = NULL;
    void *address = shim_real(64, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(function, module, name);
    shim_note(64, begin);
    return answer;
}

FAKE_API vr_cu_result cuLaunchKernel(struct vr_cu_function *function, unsigned groups_x, unsigned
    groups_y, unsigned groups_z, unsigned items_x, unsigned items_y, unsigned items_z, unsigned
    shared_bytes, struct vr_cu_stream *stream, void **parameters, void **extra);
FAKE_API vr_cu_result cuLaunchKernel(struct vr_cu_function *function, unsigned groups_x, unsigned
    groups_y, unsigned groups_z, unsigned items_x, unsigned items_y, unsigned items_z, unsigned
    shared_bytes, struct vr_cu_stream *stream, void **parameters, void **extra) {
    vr_cu_result answer;
    if (shim_strike(65, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_function *, unsigned, unsigned, unsigned, unsigned, unsigned,
        unsigned, unsigned, struct vr_cu_stream *, void **, void **) = NULL;
    void *address = shim_real(65, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(function, groups_x, groups_y, groups_z, items_x, items_y, items_z, shared_bytes,
        stream, parameters, extra);
    shim_note(65, begin);
    return answer;
}

FAKE_API vr_cu_result cuEventQuery(struct vr_cu_event *event);
FAKE_API vr_cu_result cuEventQuery(struct vr_cu_event *event) {
    vr_cu_result answer;
    if (shim_strike(66, &answer)) {
        return answer;
    }
    vr_cu_result (*real)(struct vr_cu_event *) = NULL;
    void *address = shim_real(66, 0);
    if (!address) {
        return SHIM_NO_SYMBOL;
    }
    memcpy(&real, &address, sizeof real);
    uint64_t begin = shim_now();
    answer = real(event);
    shim_note(66, begin);
    return answer;
}

/* clang-format on */
