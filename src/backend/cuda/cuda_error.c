/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_error.c: the one table from the driver's codes to statuses, contract (4) of backend.h.
 *
 * Codes after which NVIDIA says that the process "must be terminated and relaunched" are
 * VRAM_ERR_DEVICE_LOST: every later call would answer the same, so nothing is retried and nothing
 * is taken for an exhaustion. A code without a row, documented or not, is VRAM_ERR_BACKEND.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/log.h"

#define RESTART "work submitted earlier failed; restart the process to use the device again"

static const struct row {
    vr_cu_result first, last; /* codes, both included */
    vram_status status;
    const char *mend; /* what the user can do about it, or NULL */
} rows[] = {
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
    {VR_CU_INVALID_CONTEXT, VR_CU_INVALID_CONTEXT, VRAM_ERR_INVALID, NULL},
    {VR_CU_ALREADY_MAPPED, VR_CU_ALREADY_MAPPED, VRAM_ERR_BUSY, NULL},
    {VR_CU_NOT_MAPPED, VR_CU_NOT_MAPPED, VRAM_ERR_INVALID, NULL},
    {VR_CU_ECC_UNCORRECTABLE, VR_CU_ECC_UNCORRECTABLE, VRAM_ERR_DEVICE_LOST,
     "the device's memory has failed"},
    {VR_CU_PEER_UNSUPPORTED, VR_CU_PEER_UNSUPPORTED, VRAM_ERR_UNSUPPORTED, NULL},
    {VR_CU_NVLINK_UNCORRECTABLE, VR_CU_NVLINK_UNCORRECTABLE, VRAM_ERR_DEVICE_LOST,
     "the link between devices has failed"},
    {VR_CU_CONTAINED, VR_CU_CONTAINED, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_OPERATING_SYSTEM, VR_CU_OPERATING_SYSTEM, VRAM_ERR_IO,
     "see that /dev/nvidia* exist and may be opened"},
    {VR_CU_INVALID_HANDLE, VR_CU_ILLEGAL_STATE, VRAM_ERR_INVALID, NULL},
    {VR_CU_NOT_READY, VR_CU_NOT_READY, VRAM_ERR_NOT_READY, NULL},
    {VR_CU_ILLEGAL_ADDRESS, VR_CU_ILLEGAL_ADDRESS, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_LAUNCH_TIMEOUT, VR_CU_LAUNCH_TIMEOUT, VRAM_ERR_DEVICE_LOST, RESTART},
    {VR_CU_CONTEXT_DESTROYED, VR_CU_CONTEXT_DESTROYED, VRAM_ERR_DEVICE_LOST,
     "the program reset the device, as cudaDeviceReset does"},
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

static const struct row *find(vr_cu_result code) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (code >= rows[i].first && code <= rows[i].last) {
            return &rows[i];
        }
    }
    return NULL;
}

vram_status vr_cuda_status(vr_cu_result code) {
    const struct row *row = find(code);
    return row ? row->status : VRAM_ERR_BACKEND;
}

/* The driver's own words, static strings of its own; NULL for a code that it has none for. */
static const char *words(vr_cu_result (*ask)(vr_cu_result, const char **), vr_cu_result code) {
    const char *text = NULL;
    return ask(code, &text) == VR_CU_SUCCESS ? text : NULL;
}

vram_status vr_cuda_check(const struct vr_cuda_api *api, const char *operation, vr_cu_result code,
                          vram_status exhausted) {
    if (code == VR_CU_SUCCESS) {
        return VRAM_OK;
    }
    const struct row *row = find(code);
    vram_status status = row ? row->status : VRAM_ERR_BACKEND;
    status = status == VRAM_ERR_DEVICE_MEMORY ? exhausted : status;
    const char *mend = row && row->mend ? row->mend : "";
    const char *text = words(api->cuGetErrorString, code), *name = words(api->cuGetErrorName, code);
    if (!text || !name) {
        return vr_error_set(status, "cuda", operation, code, "%s answered %d%s%s", operation, code,
                            *mend ? "; " : "", mend);
    }
    return vr_error_set(status, "cuda", operation, code, "%s: %s (%s, %d)%s%s", operation, text,
                        name, code, *mend ? "; " : "", mend);
}

/* Worth an error in the log beside the status: it is never the caller's doing. */
vram_status vr_cuda_lied(const char *operation, uint64_t result) {
    vr_log(VRAM_LOG_ERROR, "cuda: %s succeeded with 0x%llx, which cannot be", operation,
           (unsigned long long)result);
    return vr_error_set(VRAM_ERR_CORRUPT, "cuda", operation, 0,
                        "%s succeeded with 0x%llx, which cannot be; the driver is broken",
                        operation, (unsigned long long)result);
}

/* A warning and no more: the caller's own answer is already decided. */
void vr_cuda_shrug(const struct vr_cuda_api *api, const char *operation, vr_cu_result code) {
    if (code != VR_CU_SUCCESS) {
        const char *name = words(api->cuGetErrorName, code);
        vr_log(VRAM_LOG_WARN, "cuda: %s refused: %s (%d)", operation, name ? name : "no name",
               code);
    }
}
