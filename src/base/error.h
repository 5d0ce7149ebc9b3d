/* SPDX-License-Identifier: Apache-2.0 */
/* error.h: how the library's own code fills and reads the calling thread's error record. */
#ifndef VR_ERROR_H
#define VR_ERROR_H

#include "vram/base.h"

/*
 * The operation that the calling thread is inside, for its error record; "" outside of any. A
 * public call names itself once, where it begins, and nothing hands the name down. Who is called by
 * the program from inside another call, in a callback, names itself for that time.
 */
extern _Thread_local const char *vr_operation_inside __attribute__((tls_model("initial-exec")));

static inline const char *vr_operation(void) {
    return vr_operation_inside;
}

static inline const char *vr_operation_begin(const char *name) {
    const char *outer = vr_operation_inside;
    vr_operation_inside = name;
    return outer;
}

static inline void vr_operation_end(const char *const *outer) {
    vr_operation_inside = *outer;
}

/* At the head of a block: until it is left, the thread is inside the operation `name`, which has
   static storage. VR_CALL is that for a public function. */
#define VR_OPERATION(name)                                                                         \
    __attribute__((cleanup(vr_operation_end), unused)) const char *const vr_operation_outer =      \
        vr_operation_begin(name)
#define VR_CALL VR_OPERATION(__func__)

/*
 * Records a failure and returns `status`, so that a failing path is one line:
 *     return vr_error_set(VRAM_ERR_LIMIT, "cuda", "cuMemHostAlloc", code, "out of %s", what);
 * `backend` and `operation` must have static storage. `format` makes the one-line text for people;
 * control characters in it become '?'. Never allocates, never fails.
 */
vram_status vr_error_set(vram_status status, const char *backend, const char *operation,
                         int64_t native_code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The same without backend and native code, for mistakes found by the library itself: of the
   operation that the thread is inside. */
#define vr_fail(status, ...) vr_error_set(status, "", vr_operation(), 0, __VA_ARGS__)
/* The same of an operation that the thread need not be inside. */
#define vr_fail_in(status, operation, ...) vr_error_set(status, "", operation, 0, __VA_ARGS__)

/* The calling thread's record, for good; and without a failure in it. What vram_error_get and
   vram_error_clear do. */
const vram_error *vr_error_get(void);
void vr_error_clear(void);

/* Saves and restores the record around clean-up that may fail itself. */
void vr_error_save(vram_error *copy);
void vr_error_restore(const vram_error *copy);

#endif
