/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hip_driver.c: AMD's dialect.
 *
 * HIP has no contexts to push: each thread has a current device, and a last error until it is read.
 * Both are left unchanged. Its codes are CUDA's where both have one; the rest are its own.
 */
#include "backend/hip/hip_backend.h"

#include "base/error.h"

#include <stdio.h>

#define NOT_RUN     "not run on hardware"
#define VERSION_MIN 50000000 /* 5.0, as hipDriverGetVersion encodes it */

/* Device memory comes in whole pages; HIP promises no more. */
#define GRANULE 4096

enum vr_hip_code {
#define VR_HIP_CODE(NAME, value, theirs) VR_HIP_##NAME = (value),
    VR_HIP_CODES(VR_HIP_CODE)
#undef VR_HIP_CODE
};

/* Numbers of hipDeviceAttribute_t. */
enum {
    HIP_ATTRIBUTE_CONCURRENT_MANAGED = 9,
    HIP_ATTRIBUTE_INTEGRATED = 16,
    HIP_ATTRIBUTE_MAJOR = 23,
    HIP_ATTRIBUTE_MANAGED = 24,
    HIP_ATTRIBUTE_MINOR = 61,
    HIP_ATTRIBUTE_VMM = 89,
    HIP_ATTRIBUTE_STREAM_WAIT_VALUE = 10013
};

/* Numbers of hipMemcpyKind. */
enum { HIP_HOST_TO_DEVICE = 1, HIP_DEVICE_TO_HOST = 2, HIP_DEVICE_TO_DEVICE = 3 };

#define HIP_HOST_COHERENT 0x40000000u /* the host sees device writes without a fence */

/* -------------------------------------------------------------------- codes */

#define RESTART "work submitted earlier failed; restart the process to use the device again"
#define ONE(NAME, status, hint)                                                                    \
    { VR_HIP_##NAME, VR_HIP_##NAME, status, hint }

static const struct vr_cuda_error_row rows[] = {
    ONE(SUCCESS, VRAM_OK, NULL),
    ONE(INVALID_VALUE, VRAM_ERR_INVALID, NULL),
    ONE(OUT_OF_MEMORY, VRAM_ERR_DEVICE_MEMORY, NULL),
    ONE(NOT_INITIALIZED, VRAM_ERR_NO_DRIVER, NULL),
    ONE(DEINITIALIZED, VRAM_ERR_SHUTDOWN, NULL),
    ONE(INVALID_PITCH, VRAM_ERR_UNSUPPORTED, "the rows are too far apart for the device"),
    ONE(INVALID_DEVICE_POINTER, VRAM_ERR_INVALID, NULL),
    ONE(INVALID_DIRECTION, VRAM_ERR_INVALID, NULL),
    ONE(INSUFFICIENT_DRIVER, VRAM_ERR_NO_DRIVER, "update the amdgpu kernel driver"),
    ONE(NO_DEVICE, VRAM_ERR_NO_DEVICE,
        "see what rocminfo shows, what HIP_VISIBLE_DEVICES hides, and that you may open /dev/kfd"),
    ONE(INVALID_DEVICE, VRAM_ERR_INVALID, NULL),
    ONE(INVALID_IMAGE, VRAM_ERR_INVALID, "the code cannot be read"),
    ONE(INVALID_CONTEXT, VRAM_ERR_INVALID, NULL),
    ONE(ALREADY_MAPPED, VRAM_ERR_BUSY, NULL),
    ONE(NO_BINARY_FOR_GPU, VRAM_ERR_UNSUPPORTED, "the code was made for another GPU"),
    ONE(NOT_MAPPED, VRAM_ERR_INVALID, NULL),
    ONE(ECC_UNCORRECTABLE, VRAM_ERR_DEVICE_LOST, "the device's memory has failed"),
    ONE(PEER_UNSUPPORTED, VRAM_ERR_UNSUPPORTED, NULL),
    ONE(INVALID_KERNEL_FILE, VRAM_ERR_INVALID, "the code cannot be read"),
    ONE(OPERATING_SYSTEM, VRAM_ERR_IO, "see that /dev/kfd and /dev/dri exist and may be opened"),
    ONE(INVALID_HANDLE, VRAM_ERR_INVALID, NULL),
    ONE(ILLEGAL_STATE, VRAM_ERR_INVALID, NULL),
    ONE(NOT_FOUND, VRAM_ERR_INVALID, "the code has no such entry"),
    ONE(NOT_READY, VRAM_ERR_NOT_READY, NULL),
    ONE(ILLEGAL_ADDRESS, VRAM_ERR_DEVICE_LOST, RESTART),
    ONE(LAUNCH_OUT_OF_RESOURCES, VRAM_ERR_INVALID,
        "a group of this size needs more than the device has"),
    ONE(LAUNCH_TIMEOUT, VRAM_ERR_DEVICE_LOST, RESTART),
    ONE(CONTEXT_DESTROYED, VRAM_ERR_DEVICE_LOST, "the program reset the device"),
    ONE(HOST_REGISTERED, VRAM_ERR_BUSY, "somebody has page-locked it already"),
    ONE(HOST_NOT_REGISTERED, VRAM_ERR_INVALID, NULL),
    ONE(ASSERT, VRAM_ERR_DEVICE_LOST, RESTART),
    ONE(LAUNCH_FAILED, VRAM_ERR_DEVICE_LOST, RESTART),
    ONE(NOT_SUPPORTED, VRAM_ERR_UNSUPPORTED, NULL),
    {VR_HIP_CAPTURE_FIRST, VR_HIP_CAPTURE_LAST, VRAM_ERR_CAPTURE, NULL},
    ONE(UNKNOWN, VRAM_ERR_BACKEND, "the kernel's log may tell more"),
};

/* -------------------------------------------------------------------- names */

static const struct vr_symbol symbols[] = {
#define ALIAS(name, symbol, fallback, optional)                                                    \
    {#symbol, fallback, offsetof(struct vr_cuda_api, name), optional},
#define OWN(name, symbol, fallback, optional, parameters) ALIAS(name, symbol, fallback, optional)
    VR_HIP_ALIASES(ALIAS) VR_HIP_FUNCTIONS(OWN)
#undef ALIAS
#undef OWN
};

static const char *const names[VR_CU_CALL_COUNT] = {
#define ALIAS(name, symbol, fallback, optional)           [VR_CU_CALL_##name] = #symbol,
#define OWN(name, symbol, fallback, optional, parameters) [VR_CU_CALL_##name] = #symbol,
    VR_HIP_ALIASES(ALIAS) VR_HIP_FUNCTIONS(OWN)
#undef ALIAS
#undef OWN
};

static const char *const sonames[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                      "libamdhip64.so", NULL};

/* hipDriverGetVersion returns 10000000 * major + 100000 * minor + patch. */
static vram_status hip_version(const struct vr_cuda_api *api, char *text, size_t bytes) {
    int found = 0;
    vram_status status = vr_cuda_check(api, VR_CU_CALL_cuDriverGetVersion,
                                       api->cuDriverGetVersion(&found), VRAM_ERR_HOST_MEMORY);
    if (status != VRAM_OK) {
        return status;
    }
    int major = found / 10000000, minor = found / 100000 % 100;
    if (found < VERSION_MIN) {
        return vr_error_set(VRAM_ERR_NO_DRIVER, "hip", "hipDriverGetVersion", found,
                            "the runtime is HIP %d.%d, libvram needs %d.0: update ROCm", major,
                            minor, VERSION_MIN / 10000000);
    }
    snprintf(text, bytes, "%d.%d (" NOT_RUN ")", major, minor);
    return VRAM_OK;
}

/* ------------------------------------------------------------------ devices */

/* Opening acquires nothing: a device starts at its first use. */
static vram_status hip_retain(struct vr_cuda_device *device) {
    (void)device;
    return VRAM_OK;
}

static void hip_release(struct vr_cuda_device *device) {
    (void)device;
}

static vram_status hip_enter(struct vr_cuda_scope *scope, const struct vr_cuda_device *device) {
    const struct vr_cuda_api *api = device->api;
    scope->clean = api->hipPeekAtLastError && api->hipGetLastError &&
                   api->hipPeekAtLastError() == VR_CU_SUCCESS;
    vram_status status = VR_CUDA(device, hipGetDevice, &scope->before);
    if (status == VRAM_OK && scope->before != device->ordinal) {
        status = VR_CUDA(device, hipSetDevice, device->ordinal);
    }
    if (status != VRAM_OK && scope->clean) {
        (void)api->hipGetLastError();
    }
    return status;
}

/* The program must not find an error of the library; its own unread error stays. */
static void hip_leave(const struct vr_cuda_scope *scope) {
    const struct vr_cuda_device *device = scope->device;
    if (scope->before != device->ordinal) {
        vr_cuda_warn(device->api, VR_CU_CALL_hipSetDevice,
                     device->api->hipSetDevice(scope->before));
    }
    if (scope->clean) {
        (void)device->api->hipGetLastError();
    }
}

/* ------------------------------------------------------------------ streams */

static vram_status hip_stream_home(const struct vr_cuda_device *device,
                                   struct vr_cu_stream *stream) {
    int home = -1;
    if (!device->api->hipStreamGetDevice) {
        return VRAM_OK;
    }
    vram_status status = VR_CUDA(device, hipStreamGetDevice, stream, &home);
    if (status == VRAM_OK && home != device->ordinal) {
        status = vr_error_set(VRAM_ERR_INVALID, "hip", "hipStreamGetDevice", 0,
                              "the stream belongs to device %d, not to device %d", home,
                              device->ordinal);
    }
    return status;
}

static vr_cu_result hip_wait_value(const struct vr_cuda_api *api, struct vr_cu_stream *stream,
                                   vr_cu_addr addr, uint64_t value) {
    return api->hipStreamWaitValue64
               ? api->hipStreamWaitValue64(stream, addr, value, VR_CU_WAIT_GEQ, UINT64_MAX)
               : VR_CU_NOT_SUPPORTED;
}

/* -------------------------------------------------------------------- copies */

static vr_cu_result hip_copy_rows(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                                  const struct vr_rectangle *rectangle) {
    int kind = rectangle->from_host ? HIP_HOST_TO_DEVICE
               : rectangle->to_host ? HIP_DEVICE_TO_HOST
                                    : HIP_DEVICE_TO_DEVICE;
    return device->api->hipMemcpy2DAsync
               ? device->api->hipMemcpy2DAsync(rectangle->to, rectangle->to_pitch, rectangle->from,
                                               rectangle->from_pitch, rectangle->row_bytes,
                                               rectangle->rows, kind, stream)
               : VR_CU_NOT_SUPPORTED;
}

/* ------------------------------------------------------------ other devices */

_Static_assert(VRAM_TARGET_HOST == -1, "the host as hipMemPrefetchAsync and hipMemAdvise name it");

static vr_cu_result hip_prefetch(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                                 vr_cu_addr addr, size_t bytes, int32_t target) {
    return device->api->hipMemPrefetchAsync
               ? device->api->hipMemPrefetchAsync(addr, bytes, target, stream)
               : VR_CU_NOT_SUPPORTED;
}

static vr_cu_result hip_advise(const struct vr_cuda_device *device, vr_cu_addr addr, size_t bytes,
                               enum vr_cu_advice advice, int32_t target) {
    return device->api->hipMemAdvise ? device->api->hipMemAdvise(addr, bytes, advice, target)
                                     : VR_CU_NOT_SUPPORTED;
}

static bool hip_has_peer_calls(const struct vr_cuda_api *api) {
    return api->hipDeviceEnablePeerAccess && api->hipMemcpyPeerAsync;
}

static vr_cu_result hip_peer_enable(const struct vr_cuda_device *device,
                                    const struct vr_cuda_device *peer) {
    return device->api->hipDeviceEnablePeerAccess(peer->ordinal, 0);
}

static vr_cu_result hip_peer_copy(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                                  vr_cu_addr to, const struct vr_cuda_device *peer, vr_cu_addr from,
                                  size_t bytes) {
    return device->api->hipMemcpyPeerAsync(to, device->ordinal, from, peer->ordinal, bytes, stream);
}

/* ------------------------------------------------------------------ backend */

const struct vr_cuda_dialect vr_hip_dialect = {
    .name = "hip",
    .names = names,
    .sonames = sonames,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof symbols[0],
    .library = VR_OPTION_HIP_LIBRARY,
    .chosen = "the option hip_library (VRAM_HIP_LIBRARY) asks for it",
    .install = "install AMD's ROCm (this backend is " NOT_RUN " yet)",
    .rows = rows,
    .row_count = sizeof rows / sizeof rows[0],
    .queries = {[VR_CUDA_QUERY_UNIFIED] = VR_CUDA_NO_QUERY, /* AMD's devices always have it */
                [VR_CUDA_QUERY_INTEGRATED] = HIP_ATTRIBUTE_INTEGRATED,
                [VR_CUDA_QUERY_MAJOR] = HIP_ATTRIBUTE_MAJOR,
                [VR_CUDA_QUERY_MINOR] = HIP_ATTRIBUTE_MINOR,
                [VR_CUDA_QUERY_HOST_ADDRESS] = VR_CUDA_NO_QUERY, /* words are never registered */
                [VR_CUDA_QUERY_MEMORY_OPS] = HIP_ATTRIBUTE_STREAM_WAIT_VALUE,
                [VR_CUDA_QUERY_MEMORY_OPS_EARLIER] = VR_CUDA_NO_QUERY,
                [VR_CUDA_QUERY_VMM] = HIP_ATTRIBUTE_VMM,
                [VR_CUDA_QUERY_DESCRIPTORS] = VR_CUDA_NO_QUERY,
                [VR_CUDA_QUERY_FABRIC] = VR_CUDA_NO_QUERY,
                [VR_CUDA_QUERY_RDMA] = VR_CUDA_NO_QUERY, /* not known to have it */
                [VR_CUDA_QUERY_MANAGED] = HIP_ATTRIBUTE_MANAGED,
                [VR_CUDA_QUERY_CONCURRENT_MANAGED] = HIP_ATTRIBUTE_CONCURRENT_MANAGED},
    .architecture = NULL, /* gfx90a and gfx900 have the same numbers */
    .granule = GRANULE,
    .sets_memory_aside = true,
    .word_flags = VR_CU_HOST_PORTABLE | VR_CU_HOST_DEVICEMAP | HIP_HOST_COHERENT,
    .wait_call = VR_CU_CALL_hipStreamWaitValue64,
    .version = hip_version,
    .retain = hip_retain,
    .release = hip_release,
    .enter = hip_enter,
    .leave = hip_leave,
    .stream_home = hip_stream_home,
    .wait_value = hip_wait_value,
    .kernel_format = VRAM_KERNEL_HSACO,
    .kernel_format_name = "VRAM_KERNEL_HSACO",
    .prefetch = hip_prefetch,
    .prefetch_call = VR_CU_CALL_hipMemPrefetchAsync,
    .advise = hip_advise,
    .advise_call = VR_CU_CALL_hipMemAdvise,
    .has_peer_calls = hip_has_peer_calls,
    .peer_enable = hip_peer_enable,
    .peer_call = VR_CU_CALL_hipDeviceEnablePeerAccess,
    .peer_copy = hip_peer_copy,
    .peer_copy_call = VR_CU_CALL_hipMemcpyPeerAsync,
    .copy_rows = hip_copy_rows,
    .copy_rows_call = VR_CU_CALL_hipMemcpy2DAsync,
    .probe = vr_hip_probe,
};

static vram_status hip_start(struct vr_backend *backend,
                             const struct vram_context_options *options) {
    (void)options;
    return vr_cuda_start(backend, &vr_hip_dialect);
}

const struct vr_backend_ops vr_hip_backend = {
    .name = "hip",
    .start = hip_start,
    .stop = vr_cuda_stop,
    .count = vr_cuda_count,
    .describe = vr_cuda_describe,
    .device_open = vr_cuda_device_open,
};
