/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_driver.c: NVIDIA's dialect.
 *
 * Codes after which NVIDIA says that the process "must be terminated and relaunched" are
 * VRAM_ERR_DEVICE_LOST: every later call would return the same, so nothing is retried and nothing
 * is taken for an exhaustion.
 *
 * The primary context is the one that the runtime API (cudaMalloc, PyTorch, ...) uses, so memory of
 * the library and of the program is valid in both. It is retained from open to close.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"

#include <stdio.h>

#define SONAME      "libcuda.so.1"
#define VERSION_MIN 11000               /* 11.0, as cuDriverGetVersion encodes it */
#define GRANULE     (UINT64_C(2) << 20) /* what the driver maps at once on current GPUs */

/* -------------------------------------------------------------------- codes */

#define RESTART "work submitted earlier failed; restart the process to use the device again"

static const struct vr_cuda_error_row rows[] = {
    {VR_CU_SUCCESS, VR_CU_SUCCESS, VRAM_OK, NULL},
    {VR_CU_INVALID_VALUE, VR_CU_INVALID_VALUE, VRAM_ERR_INVALID, NULL},
    {VR_CU_OUT_OF_MEMORY, VR_CU_OUT_OF_MEMORY, VRAM_ERR_DEVICE_MEMORY, NULL},
    {VR_CU_NOT_INITIALIZED, VR_CU_NOT_INITIALIZED, VRAM_ERR_NO_DRIVER, NULL},
    {VR_CU_DEINITIALIZED, VR_CU_DEINITIALIZED, VRAM_ERR_SHUTDOWN, NULL},
    {VR_CU_STUB_LIBRARY, VR_CU_STUB_LIBRARY, VRAM_ERR_NO_DRIVER,
     "the library is the toolkit's stub: take its folder off the library path and install the "
     "NVIDIA driver"},
    {VR_CU_NEWER_DRIVER_NEEDED, VR_CU_NEWER_DRIVER_NEEDED, VRAM_ERR_NO_DRIVER,
     "update the NVIDIA driver"},
    {VR_CU_DEVICE_UNAVAILABLE, VR_CU_DEVICE_UNAVAILABLE, VRAM_ERR_BUSY,
     "another process has the device to itself"},
    {VR_CU_NO_DEVICE, VR_CU_NO_DEVICE, VRAM_ERR_NO_DEVICE,
     "see what nvidia-smi shows and what CUDA_VISIBLE_DEVICES hides"},
    {VR_CU_INVALID_DEVICE, VR_CU_INVALID_DEVICE, VRAM_ERR_INVALID, NULL},
    {VR_CU_NOT_LICENSED, VR_CU_NOT_LICENSED, VRAM_ERR_NO_DEVICE, NULL},
    {VR_CU_INVALID_IMAGE, VR_CU_INVALID_IMAGE, VRAM_ERR_INVALID, "the code cannot be read"},
    {VR_CU_INVALID_CONTEXT, VR_CU_INVALID_CONTEXT, VRAM_ERR_INVALID, NULL},
    {VR_CU_ALREADY_MAPPED, VR_CU_ALREADY_MAPPED, VRAM_ERR_BUSY, NULL},
    {VR_CU_NO_BINARY_FOR_GPU, VR_CU_NO_BINARY_FOR_GPU, VRAM_ERR_UNSUPPORTED,
     "the code was made for another GPU"},
    {VR_CU_NOT_MAPPED, VR_CU_NOT_MAPPED, VRAM_ERR_INVALID, NULL},
    {VR_CU_ECC_UNCORRECTABLE, VR_CU_ECC_UNCORRECTABLE, VRAM_ERR_DEVICE_LOST,
     "the device's memory has failed"},
    {VR_CU_PEER_UNSUPPORTED, VR_CU_PEER_UNSUPPORTED, VRAM_ERR_UNSUPPORTED, NULL},
    {VR_CU_INVALID_PTX, VR_CU_INVALID_PTX, VRAM_ERR_INVALID, "the PTX does not compile"},
    {VR_CU_JIT_COMPILER_NOT_FOUND, VR_CU_JIT_COMPILER_NOT_FOUND, VRAM_ERR_UNSUPPORTED,
     "the driver's compiler, libnvidia-ptxjitcompiler, is not installed"},
    {VR_CU_UNSUPPORTED_PTX_VERSION, VR_CU_UNSUPPORTED_PTX_VERSION, VRAM_ERR_UNSUPPORTED,
     "the PTX is newer than the driver: update the NVIDIA driver"},
    {VR_CU_NVLINK_UNCORRECTABLE, VR_CU_NVLINK_UNCORRECTABLE, VRAM_ERR_DEVICE_LOST,
     "the link between devices has failed"},
    {VR_CU_CONTAINED, VR_CU_CONTAINED, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_OPERATING_SYSTEM, VR_CU_OPERATING_SYSTEM, VRAM_ERR_IO,
     "see that /dev/nvidia* exist and may be opened"},
    {VR_CU_INVALID_HANDLE, VR_CU_ILLEGAL_STATE, VRAM_ERR_INVALID, NULL},
    {VR_CU_NOT_FOUND, VR_CU_NOT_FOUND, VRAM_ERR_INVALID, "the code has no such entry"},
    {VR_CU_NOT_READY, VR_CU_NOT_READY, VRAM_ERR_NOT_READY, NULL},
    {VR_CU_ILLEGAL_ADDRESS, VR_CU_ILLEGAL_ADDRESS, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_LAUNCH_OUT_OF_RESOURCES, VR_CU_LAUNCH_OUT_OF_RESOURCES, VRAM_ERR_INVALID,
     "a group of this size needs more than the device has"},
    {VR_CU_LAUNCH_TIMEOUT, VR_CU_LAUNCH_TIMEOUT, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_TOO_MANY_PEERS, VR_CU_TOO_MANY_PEERS, VRAM_ERR_UNSUPPORTED,
     "the device has as many peers as it can have"},
    {VR_CU_CONTEXT_DESTROYED, VR_CU_CONTEXT_DESTROYED, VRAM_ERR_DEVICE_LOST,
     "the program reset the device, as cudaDeviceReset does"},
    {VR_CU_HOST_REGISTERED, VR_CU_HOST_REGISTERED, VRAM_ERR_BUSY,
     "somebody has page-locked it already"},
    {VR_CU_HOST_NOT_REGISTERED, VR_CU_HOST_NOT_REGISTERED, VRAM_ERR_INVALID, NULL},
    {VR_CU_ASSERT, VR_CU_ASSERT, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_HARDWARE_STACK, VR_CU_LAUNCH_FAILED, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_TENSOR_MEMORY_LEAK, VR_CU_TENSOR_MEMORY_LEAK, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_NOT_PERMITTED, VR_CU_NOT_SUPPORTED, VRAM_ERR_UNSUPPORTED, NULL},
    {VR_CU_SYSTEM_NOT_READY, VR_CU_SYSTEM_NOT_READY, VRAM_ERR_NO_DRIVER,
     "start nvidia-fabricmanager, or wait until it is up"},
    {VR_CU_DRIVER_MISMATCH, VR_CU_DRIVER_MISMATCH, VRAM_ERR_NO_DRIVER,
     "the driver was updated under the running kernel module: restart the machine"},
    {VR_CU_COMPAT_UNSUPPORTED, VR_CU_COMPAT_UNSUPPORTED, VRAM_ERR_NO_DRIVER,
     "take the compat folder of CUDA off the library path"},
    {VR_CU_MPS_CLIENT_TERMINATED, VR_CU_MPS_CLIENT_TERMINATED, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_CAPTURE_FIRST, VR_CU_CAPTURE_LAST, VRAM_ERR_CAPTURE, NULL},
    {VR_CU_TIMEOUT, VR_CU_TIMEOUT, VRAM_ERR_TIMEOUT, NULL},
    {VR_CU_EXTERNAL_DEVICE, VR_CU_EXTERNAL_DEVICE, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_UNKNOWN, VR_CU_UNKNOWN, VRAM_ERR_BACKEND,
     "the kernel's log may tell more; nvidia-modprobe -u loads a missing module"},
};

/* -------------------------------------------------------------------- names */

static const struct vr_symbol symbols[] = {
#define SYMBOL(name, symbol, fallback, optional, parameters)                                       \
    {#symbol, fallback, offsetof(struct vr_cuda_api, name), optional},
    VR_CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static const char *const names[VR_CU_CALL_COUNT] = {
#define NAME(name, symbol, fallback, optional, parameters) [VR_CU_CALL_##name] = #name,
    VR_CUDA_FUNCTIONS(NAME)
#undef NAME
};

static const char *const sonames[] = {SONAME, NULL};

/* cuDriverGetVersion returns 1000 * major + 10 * minor. */
static vram_status cuda_version(const struct vr_cuda_api *api, char *text, size_t bytes) {
    int found = 0;
    vram_status status = vr_cuda_check(api, VR_CU_CALL_cuDriverGetVersion,
                                       api->cuDriverGetVersion(&found), VRAM_ERR_HOST_MEMORY);
    if (status != VRAM_OK) {
        return status;
    }
    if (found < VERSION_MIN) {
        return vr_error_set(VRAM_ERR_NO_DRIVER, "cuda", "cuDriverGetVersion", found,
                            "the NVIDIA driver knows CUDA %d.%d, libvram needs %d.%d: update it",
                            found / 1000, found % 1000 / 10, VERSION_MIN / 1000,
                            VERSION_MIN % 1000 / 10);
    }
    snprintf(text, bytes, "%d.%d", found / 1000, found % 1000 / 10);
    return VRAM_OK;
}

/* ----------------------------------------------------------------- contexts */

static void cuda_release(struct vr_cuda_device *device) {
    vr_cuda_warn(device->api, VR_CU_CALL_cuDevicePrimaryCtxRelease,
                 device->api->cuDevicePrimaryCtxRelease(device->ordinal));
}

/* If the driver does not know a context that is retained here, the program destroyed it: everything
   in it is gone. */
static vram_status context_check(const struct vr_cuda_device *device, enum vr_cu_call call,
                                 vr_cu_result code) {
    code = code == VR_CU_INVALID_CONTEXT ? VR_CU_CONTEXT_DESTROYED : code;
    return vr_cuda_check(device->api, call, code, VRAM_ERR_DEVICE_MEMORY);
}

static vram_status context_id(const struct vr_cuda_device *device, unsigned long long *id) {
    return context_check(device, VR_CU_CALL_cuCtxGetId,
                         device->api->cuCtxGetId(device->context, id));
}

static vram_status cuda_retain(struct vr_cuda_device *device) {
    vram_status status =
        VR_CUDA(device, cuDevicePrimaryCtxRetain, &device->context, device->ordinal);
    if (status == VRAM_OK && device->api->cuCtxGetId) {
        status = context_id(device, &device->context_id);
        if (status != VRAM_OK) {
            cuda_release(device);
        }
    }
    return status;
}

/* A reset leaves the context's handle as it is: the driver makes it current, also when something
   has created the context again, and crashes when it is given a stream of the time before (580.159
   on an H200). So the id is compared first, which drivers have since 12.0. */
static vram_status cuda_enter(struct vr_cuda_scope *scope, const struct vr_cuda_device *device) {
    unsigned long long id = device->context_id;
    vram_status status = id ? context_id(device, &id) : VRAM_OK;
    (void)scope;
    if (status == VRAM_OK && id != device->context_id) {
        status = context_check(device, VR_CU_CALL_cuCtxGetId, VR_CU_CONTEXT_DESTROYED);
    }
    return status == VRAM_OK ? context_check(device, VR_CU_CALL_cuCtxPushCurrent,
                                             device->api->cuCtxPushCurrent(device->context))
                             : status;
}

static void cuda_leave(const struct vr_cuda_scope *scope) {
    const struct vr_cuda_api *api = scope->device->api;
    struct vr_cu_context *popped;
    vr_cuda_warn(api, VR_CU_CALL_cuCtxPopCurrent, api->cuCtxPopCurrent(&popped));
}

/* ------------------------------------------------------------------ streams */

static vram_status cuda_stream_home(const struct vr_cuda_device *device,
                                    struct vr_cu_stream *stream) {
    struct vr_cu_context *context = NULL;
    if (!device->api->cuStreamGetCtx) {
        return VRAM_OK;
    }
    vram_status status = VR_CUDA(device, cuStreamGetCtx, stream, &context);
    if (status == VRAM_OK && context != device->context) {
        status = vr_error_set(VRAM_ERR_INVALID, "cuda", "cuStreamGetCtx", 0,
                              "the stream belongs to another device or context than the primary "
                              "one of device %d",
                              device->ordinal);
    }
    return status;
}

static vr_cu_result cuda_wait_value(const struct vr_cuda_api *api, struct vr_cu_stream *stream,
                                    vr_cu_addr addr, uint64_t value) {
    return api->cuStreamWaitValue64 ? api->cuStreamWaitValue64(stream, addr, value, VR_CU_WAIT_GEQ)
                                    : VR_CU_NOT_SUPPORTED;
}

/* -------------------------------------------------------------------- copies */

static struct vr_cu_rows_side rows_side(uint64_t place, uint64_t pitch, bool host) {
    struct vr_cu_rows_side side = {.type = host ? VR_CU_SIDE_HOST : VR_CU_SIDE_DEVICE,
                                   .pitch = pitch};
    if (host) {
        side.host = (void *)(uintptr_t)place;
    } else {
        side.device = place;
    }
    return side;
}

static vr_cu_result cuda_copy_rows(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                                   const struct vr_rectangle *rectangle) {
    const struct vr_cu_rows taken = {
        .from = rows_side(rectangle->from, rectangle->from_pitch, rectangle->from_host),
        .to = rows_side(rectangle->to, rectangle->to_pitch, rectangle->to_host),
        .row_bytes = rectangle->row_bytes,
        .rows = rectangle->rows};
    return device->api->cuMemcpy2DAsync ? device->api->cuMemcpy2DAsync(&taken, stream)
                                        : VR_CU_NOT_SUPPORTED;
}

/* ------------------------------------------------------------ other devices */

/* Devices are ordinals. */
static struct vr_cu_location location_of(int32_t target) {
    bool host = target == VRAM_TARGET_HOST;
    return (struct vr_cu_location){host ? VR_CU_LOCATION_HOST : VR_CU_LOCATION_DEVICE,
                                   host ? 0 : target};
}

static vr_cu_result cuda_prefetch(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                                  vr_cu_addr addr, size_t bytes, int32_t target) {
    return device->api->cuMemPrefetchAsync
               ? device->api->cuMemPrefetchAsync(addr, bytes, location_of(target), 0, stream)
               : VR_CU_NOT_SUPPORTED;
}

static vr_cu_result cuda_advise(const struct vr_cuda_device *device, vr_cu_addr addr, size_t bytes,
                                enum vr_cu_advice advice, int32_t target) {
    return device->api->cuMemAdvise
               ? device->api->cuMemAdvise(addr, bytes, advice, location_of(target))
               : VR_CU_NOT_SUPPORTED;
}

static bool cuda_has_peer_calls(const struct vr_cuda_api *api) {
    return api->cuCtxEnablePeerAccess && api->cuMemcpyPeerAsync;
}

static vr_cu_result cuda_peer_enable(const struct vr_cuda_device *device,
                                     const struct vr_cuda_device *peer) {
    return device->api->cuCtxEnablePeerAccess(peer->context, 0);
}

static vr_cu_result cuda_peer_copy(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                                   vr_cu_addr to, const struct vr_cuda_device *peer,
                                   vr_cu_addr from, size_t bytes) {
    return device->api->cuMemcpyPeerAsync(to, device->context, from, peer->context, bytes, stream);
}

/* ------------------------------------------------------------------ backend */

const struct vr_cuda_dialect vr_cuda_dialect = {
    .name = "cuda",
    .names = names,
    .sonames = sonames,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof symbols[0],
    .library = VR_OPTION_CUDA_LIBRARY,
    .chosen = "the option cuda_library (VRAM_CUDA_LIBRARY) asks for it",
    .install = "install the NVIDIA driver",
    .rows = rows,
    .row_count = sizeof rows / sizeof rows[0],
    .queries = {[VR_CUDA_QUERY_UNIFIED] = VR_CU_ATTRIBUTE_UNIFIED_ADDRESSING,
                [VR_CUDA_QUERY_INTEGRATED] = VR_CU_ATTRIBUTE_INTEGRATED,
                [VR_CUDA_QUERY_MAJOR] = VR_CU_ATTRIBUTE_MAJOR,
                [VR_CUDA_QUERY_MINOR] = VR_CU_ATTRIBUTE_MINOR,
                [VR_CUDA_QUERY_HOST_ADDRESS] = VR_CU_ATTRIBUTE_HOST_ADDRESS,
                [VR_CUDA_QUERY_MEMORY_OPS] = VR_CU_ATTRIBUTE_MEMORY_OPS,
                [VR_CUDA_QUERY_MEMORY_OPS_EARLIER] = VR_CU_ATTRIBUTE_MEMORY_OPS_V1,
                [VR_CUDA_QUERY_VMM] = VR_CU_ATTRIBUTE_VMM,
                [VR_CUDA_QUERY_RDMA] = VR_CU_ATTRIBUTE_RDMA,
                [VR_CUDA_QUERY_DESCRIPTORS] = VR_CU_ATTRIBUTE_DESCRIPTORS,
                [VR_CUDA_QUERY_FABRIC] = VR_CU_ATTRIBUTE_FABRIC,
                [VR_CUDA_QUERY_MANAGED] = VR_CU_ATTRIBUTE_MANAGED,
                [VR_CUDA_QUERY_CONCURRENT_MANAGED] = VR_CU_ATTRIBUTE_CONCURRENT_MANAGED},
    .architecture = "sm_%d%d",
    .granule = GRANULE,
    .nvtx = true,
    .word_flags = VR_CU_HOST_PORTABLE | VR_CU_HOST_DEVICEMAP,
    .wait_call = VR_CU_CALL_cuStreamWaitValue64,
    .version = cuda_version,
    .retain = cuda_retain,
    .release = cuda_release,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .stream_home = cuda_stream_home,
    .wait_value = cuda_wait_value,
    .kernel_format = VRAM_KERNEL_PTX,
    .kernel_format_name = "VRAM_KERNEL_PTX",
    .others = vr_cuda_others,
    .prefetch = cuda_prefetch,
    .prefetch_call = VR_CU_CALL_cuMemPrefetchAsync,
    .advise = cuda_advise,
    .advise_call = VR_CU_CALL_cuMemAdvise,
    .has_peer_calls = cuda_has_peer_calls,
    .peer_enable = cuda_peer_enable,
    .peer_call = VR_CU_CALL_cuCtxEnablePeerAccess,
    .peer_copy = cuda_peer_copy,
    .peer_copy_call = VR_CU_CALL_cuMemcpyPeerAsync,
    .copy_rows = cuda_copy_rows,
    .copy_rows_call = VR_CU_CALL_cuMemcpy2DAsync,
};

static vram_status cuda_start(struct vr_backend *backend,
                              const struct vram_context_options *options) {
    (void)options;
    return vr_cuda_start(backend, &vr_cuda_dialect);
}

const struct vr_backend_ops vr_cuda_backend = {
    .name = "cuda",
    .start = cuda_start,
    .stop = vr_cuda_stop,
    .count = vr_cuda_count,
    .describe = vr_cuda_describe,
    .device_open = vr_cuda_device_open,
};
