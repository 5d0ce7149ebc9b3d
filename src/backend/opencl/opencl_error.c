/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_error.c: the one table from OpenCL's codes to statuses, contract (4) of backend.h.
 *
 * Most codes of OpenCL say what the caller did wrong. They have no row and are VRAM_ERR_INVALID;
 * the error record has their names. A code that OpenCL does not define is VRAM_ERR_BACKEND.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"
#include "base/log.h"

static const struct opencl_error_row {
    vr_cl_int code;
    vram_status status;
    const char *hint; /* what the user can do about it, or NULL */
} rows[] = {
    {VR_CL_SUCCESS, VRAM_OK, NULL},
    {VR_CL_DEVICE_NOT_FOUND, VRAM_ERR_NO_DEVICE, "see what clinfo shows"},
    {VR_CL_DEVICE_NOT_AVAILABLE, VRAM_ERR_BUSY, "another process may have the device to itself"},
    {VR_CL_COMPILER_NOT_AVAILABLE, VRAM_ERR_UNSUPPORTED, NULL},
    {VR_CL_MEM_OBJECT_ALLOCATION_FAILURE, VRAM_ERR_DEVICE_MEMORY, NULL},
    {VR_CL_OUT_OF_RESOURCES, VRAM_ERR_DEVICE_MEMORY, NULL},
    {VR_CL_OUT_OF_HOST_MEMORY, VRAM_ERR_HOST_MEMORY, NULL},
    {VR_CL_PROFILING_INFO_NOT_AVAILABLE, VRAM_ERR_UNSUPPORTED, NULL},
    {VR_CL_IMAGE_FORMAT_NOT_SUPPORTED, VRAM_ERR_UNSUPPORTED, NULL},
    {VR_CL_MAP_FAILURE, VRAM_ERR_HOST_MEMORY, NULL},
    {VR_CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, VRAM_ERR_DEVICE_LOST,
     "work submitted earlier failed"},
    {VR_CL_LINKER_NOT_AVAILABLE, VRAM_ERR_UNSUPPORTED, NULL},
    {VR_CL_KERNEL_ARG_INFO_NOT_AVAILABLE, VRAM_ERR_UNSUPPORTED, NULL},
    {VR_CL_INVALID_BUFFER_SIZE, VRAM_ERR_LIMIT, "it is more than the device's largest allocation"},
    {VR_CL_MAX_SIZE_RESTRICTION_EXCEEDED, VRAM_ERR_LIMIT, NULL},
    {VR_CL_PLATFORM_NOT_FOUND_KHR, VRAM_ERR_NO_DEVICE,
     "install an OpenCL driver for your device, or PoCL (pocl-opencl-icd) for the CPU"},
    {VR_CL_CONTEXT_TERMINATED_KHR, VRAM_ERR_DEVICE_LOST, NULL},
    {VR_CL_ILLEGAL_ACCESS_NV, VRAM_ERR_DEVICE_LOST, "a kernel touched memory that is not its"},
};

/* All codes that OpenCL defines: one without a row above is a mistake of the caller. */
static const struct {
    vr_cl_int code;
    const char *name;
} names[] = {
#define NAME(NAME, value) {value, "CL_" #NAME},
    VR_CL_CODES(NAME)
#undef NAME
};

static const struct opencl_error_row *error_row_find(vr_cl_int code) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (code == rows[i].code) {
            return &rows[i];
        }
    }
    return NULL;
}

const char *vr_opencl_code_name(vr_cl_int code) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (code == names[i].code) {
            return names[i].name;
        }
    }
    return NULL;
}

vram_status vr_opencl_status(vr_cl_int code) {
    const struct opencl_error_row *row = error_row_find(code);
    if (row) {
        return row->status;
    }
    return vr_opencl_code_name(code) ? VRAM_ERR_INVALID : VRAM_ERR_BACKEND;
}

vram_status vr_opencl_check(const char *operation, vr_cl_int code) {
    if (code == VR_CL_SUCCESS) {
        return VRAM_OK;
    }
    const struct opencl_error_row *row = error_row_find(code);
    const char *name = vr_opencl_code_name(code);
    const char *hint = row && row->hint ? row->hint : "";
    return vr_error_set(vr_opencl_status(code), "opencl", operation, code,
                        "%s answered %s (%d)%s%s", operation,
                        name ? name : "what OpenCL has no name for", code, *hint ? ": " : "", hint);
}

/* Also logged as an error, because it is never the caller's mistake. */
vram_status vr_opencl_bad_result(const char *operation, uint64_t result) {
    vr_log(VRAM_LOG_ERROR, "opencl: %s succeeded with 0x%llx, which cannot be", operation,
           (unsigned long long)result);
    return vr_error_set(VRAM_ERR_CORRUPT, "opencl", operation, 0,
                        "%s succeeded with 0x%llx, which cannot be; the driver is broken",
                        operation, (unsigned long long)result);
}

void vr_opencl_warn(const char *operation, vr_cl_int code) {
    if (code != VR_CL_SUCCESS) {
        const char *name = vr_opencl_code_name(code);
        vr_log(VRAM_LOG_WARN, "opencl: %s refused: %s (%d)", operation, name ? name : "no name",
               code);
    }
}
