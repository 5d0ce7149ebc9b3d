/* SPDX-License-Identifier: Apache-2.0 */
/* error.h: how the library's own code fills and reads the calling thread's error record. */
#ifndef VR_ERROR_H
#define VR_ERROR_H

#include "vram/base.h"

/*
 * Records a failure and returns `status`, so that a failing path is one line:
 *     return vr_error_set(VRAM_ERR_LIMIT, "cuda", "cuMemHostAlloc", code, "out of %s", what);
 * `backend` and `operation` must have static storage. `format` makes the one-line text for people;
 * control characters in it become '?'. Never allocates, never fails.
 */
vram_status vr_error_set(vram_status status, const char *backend, const char *operation,
                         int64_t native_code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The same without backend and native code, for mistakes found by the library itself. */
#define vr_fail(status, operation, ...) vr_error_set(status, "", operation, 0, __VA_ARGS__)

/* The calling thread's record, for good; and without a failure in it. What vram_error_get and
   vram_error_clear do. */
const vram_error *vr_error_get(void);
void vr_error_clear(void);

/* Saves and restores the record around clean-up that may fail itself. */
void vr_error_save(vram_error *copy);
void vr_error_restore(const vram_error *copy);

#endif
