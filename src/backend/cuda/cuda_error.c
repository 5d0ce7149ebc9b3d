/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_error.c: from the driver's codes to statuses, by the dialect's one table.
 *
 * A code without a row, documented or not, is VRAM_ERR_BACKEND.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/log.h"

static const struct vr_cuda_error_row *error_row_find(const struct vr_cuda_dialect *dialect,
                                                      vr_cu_result code) {
    for (size_t i = 0; i < dialect->row_count; i++) {
        if (code >= dialect->rows[i].first && code <= dialect->rows[i].last) {
            return &dialect->rows[i];
        }
    }
    return NULL;
}

vram_status vr_cuda_status(const struct vr_cuda_dialect *dialect, vr_cu_result code) {
    const struct vr_cuda_error_row *row = error_row_find(dialect, code);
    return row ? row->status : VRAM_ERR_BACKEND;
}

/* The driver's own text, a static string; NULL for a code that has none. */
static const char *driver_text(vr_cu_result (*ask)(vr_cu_result, const char **),
                               vr_cu_result code) {
    const char *text = NULL;
    return ask && ask(code, &text) == VR_CU_SUCCESS ? text : NULL;
}

vram_status vr_cuda_check(const struct vr_cuda_api *api, enum vr_cu_call call, vr_cu_result code,
                          vram_status exhausted) {
    if (code == VR_CU_SUCCESS) {
        return VRAM_OK;
    }
    const struct vr_cuda_dialect *dialect = api->dialect;
    const struct vr_cuda_error_row *row = error_row_find(dialect, code);
    vram_status status = row ? row->status : VRAM_ERR_BACKEND;
    status = status == VRAM_ERR_DEVICE_MEMORY ? exhausted : status;
    const char *hint = row && row->hint ? row->hint : "", *operation = dialect->names[call];
    const char *text = driver_text(api->cuGetErrorString, code),
               *name = driver_text(api->cuGetErrorName, code);
    if (!text || !name) {
        return vr_error_set(status, dialect->name, operation, code, "%s answered %d%s%s", operation,
                            code, *hint ? "; " : "", hint);
    }
    return vr_error_set(status, dialect->name, operation, code, "%s: %s (%s, %d)%s%s", operation,
                        text, name, code, *hint ? "; " : "", hint);
}

/* Also logged as an error, because it is never the caller's mistake. */
vram_status vr_cuda_bad_result(const struct vr_cuda_api *api, enum vr_cu_call call,
                               uint64_t result) {
    const struct vr_cuda_dialect *dialect = api->dialect;
    vr_log(VRAM_LOG_ERROR, "%s: %s succeeded with 0x%llx, which cannot be", dialect->name,
           dialect->names[call], (unsigned long long)result);
    return vr_error_set(VRAM_ERR_CORRUPT, dialect->name, dialect->names[call], 0,
                        "%s succeeded with 0x%llx, which cannot be; the driver is broken",
                        dialect->names[call], (unsigned long long)result);
}

/* Only a warning: the result of the caller is already decided. */
void vr_cuda_warn(const struct vr_cuda_api *api, enum vr_cu_call call, vr_cu_result code) {
    if (code != VR_CU_SUCCESS) {
        const char *name = driver_text(api->cuGetErrorName, code);
        vr_log(VRAM_LOG_WARN, "%s: %s refused: %s (%d)", api->dialect->name,
               api->dialect->names[call], name ? name : "no name", code);
    }
}
