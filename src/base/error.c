/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.c: the calling thread's error record. It lives in thread-local storage, so recording a
 * failure takes no lock and allocates nothing: memory may be what ran out.
 */
#include "base/error.h"

#include "base/text.h"

#include <assert.h>
#include <string.h>

static const vram_error no_error = {VRAM_OK, "", "", 0, ""};

static _Thread_local vram_error record = {VRAM_OK, "", "", 0, ""};

_Thread_local const char *vr_operation_inside __attribute__((tls_model("initial-exec"))) = "";

const vram_error *vr_error_get(void) {
    return &record;
}

const vram_error *vram_error_get(void) {
    return vr_error_get();
}

void vr_error_clear(void) {
    record = no_error;
}

void vram_error_clear(void) {
    vr_error_clear();
}

vram_status(vr_error_set)(vram_status status, const char *backend, const char *operation,
                          int64_t native_code, const char *format, ...) {
    assert(status != VRAM_OK);
    /* The arguments may point into the record itself (a failure that wraps an earlier one), so the
       new text is formatted in a separate buffer. */
    char text[VRAM_ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vr_text_format_list(text, sizeof text, format, arguments);
    va_end(arguments);

    record.status = status;
    record.backend = backend ? backend : "";
    record.operation = operation ? operation : "";
    record.native_code = native_code;
    memcpy(record.text, text, strlen(text) + 1);
    return status;
}

/* Copies only up to the end of the text: save and restore are mostly called when nothing has
   failed, and the text is empty. */
static inline void copy_record(vram_error *to, const vram_error *from) {
    to->status = from->status;
    to->backend = from->backend;
    to->operation = from->operation;
    to->native_code = from->native_code;
    if (from->text[0]) {
        memcpy(to->text, from->text, strlen(from->text) + 1);
    } else {
        to->text[0] = '\0';
    }
}

vram_status vram_error_set(const vram_error *error) {
    if (!error || error->status == VRAM_OK) {
        copy_record(&record, &no_error);
        return VRAM_OK;
    }
    return vr_error_set(error->status, error->backend, error->operation, error->native_code, "%.*s",
                        VRAM_ERROR_TEXT_MAX - 1, error->text);
}

void vr_error_save(vram_error *copy) {
    copy_record(copy, &record);
}

void vr_error_restore(const vram_error *copy) {
    copy_record(&record, copy);
}
