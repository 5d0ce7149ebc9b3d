/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_over_public.c: the parts of src/base that exist once in a process, for the shared libraries
 * on top of libvram.
 *
 * libvram-compute and libvram-model each contain their own copy of the code without process-wide
 * state (text, locks, threads, files, handles). The error record and host memory belong to libvram:
 * here their internal functions are implemented by its public functions. The static libraries do
 * not need this file, since libvram.a has the internal functions.
 */
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

/* ------------------------------------------------------------ the error record */

/* Each library records the calls of its own that the thread is inside. */
_Thread_local const char *vr_operation_inside __attribute__((tls_model("initial-exec"))) = "";

vram_status(vr_error_set)(vram_status status, const char *backend, const char *operation,
                          int64_t native_code, const char *format, ...) {
    vram_error error = {
        .status = status, .backend = backend, .operation = operation, .native_code = native_code};
    va_list arguments;
    va_start(arguments, format);
    vr_text_format_list(error.text, sizeof error.text, format, arguments);
    va_end(arguments);
    return vram_error_set(&error);
}

void vr_error_save(vram_error *copy) {
    const vram_error *record = vram_error_get();
    copy->status = record->status;
    copy->backend = record->backend;
    copy->operation = record->operation;
    copy->native_code = record->native_code;
    memcpy(copy->text, record->text, strlen(record->text) + 1);
}

void vr_error_restore(const vram_error *copy) {
    (void)vram_error_set(copy);
}

/* ----------------------------------------------------------------- host memory */

void *vr_mem_alloc(size_t count, size_t bytes, const char *operation) {
    void *memory = vram_host_alloc(count, bytes);
    if (!memory) {
        vram_error error;
        vr_error_save(&error);
        error.operation = operation; /* the call that needed the memory */
        (void)vram_error_set(&error);
    }
    return memory;
}

void vr_mem_free(void *memory) {
    vram_host_free(memory);
}
