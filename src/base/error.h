/* SPDX-License-Identifier: Apache-2.0 */
/* error.h: how the library's own code fills and reads the calling thread's error record. */
#ifndef VR_ERROR_H
#define VR_ERROR_H

#include "vram/base.h"

/*
 * The operation that the calling thread is inside, for its error record; "" outside of any. A
 * public call sets its name once, where it begins, and no function passes the name on. A function
 * of the library that the program calls from inside a callback sets its own name until it returns.
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

/* At the head of a block: until the block is left, the thread is inside the operation `name`, which
   has static storage. VR_CALL does that for a public function. */
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
#ifdef VR_ANALYSIS /* tools/analyze: so that it sees that a failure is never VRAM_OK */
#define vr_error_set(status, ...) ((vr_error_set)(status, __VA_ARGS__), (status))
#endif

/* The same without backend and native code, for mistakes that the library itself finds. The
   operation is the one that the thread is inside. */
#define vr_fail(status, ...) vr_error_set(status, "", vr_operation(), 0, __VA_ARGS__)
/* The same for an operation that the thread need not be inside. */
#define vr_fail_in(status, operation, ...) vr_error_set(status, "", operation, 0, __VA_ARGS__)

/* The calling thread's record, valid as long as the thread; and a reset of it. What vram_error_get
   and vram_error_clear do. */
const vram_error *vr_error_get(void);
void vr_error_clear(void);

/* Saves and restores the record around clean-up that may itself fail. */
void vr_error_save(vram_error *copy);
void vr_error_restore(const vram_error *copy);

#endif
