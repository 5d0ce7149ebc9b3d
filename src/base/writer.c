/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c: see writer.h. */
#include "base/writer.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

vram_status vr_writer_begin(struct vr_writer *writer, vram_report_format format,
                            vram_write_fn *write, void *user, const char *operation) {
    if (!write) {
        return vr_fail_in(VRAM_ERR_INVALID, operation, "the write callback is NULL");
    }
    if ((unsigned)format > VRAM_REPORT_JSON) {
        return vr_fail_in(VRAM_ERR_INVALID, operation, "%d is not a report format", (int)format);
    }
    *writer = (struct vr_writer){.write = write, .user = user};
    return VRAM_OK;
}

vram_status vr_writer_end(const struct vr_writer *writer, const char *operation) {
    return writer->refused ? vr_fail_in(VRAM_ERR_IO, operation,
                                        "the write callback refused; the report is cut short")
                           : VRAM_OK;
}

void vr_writer_put(struct vr_writer *writer, const char *text, size_t bytes) {
    VR_UNCANCELLED;
    if (bytes && !writer->refused) {
        writer->refused = !writer->write(writer->user, text, bytes);
    }
}

void vr_writer_print(struct vr_writer *writer, const char *format, ...) {
    char text[VR_WRITER_LINE];
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (bytes > 0) {
        vr_writer_put(writer, text, strlen(text));
    }
}

void vr_writer_line(struct vr_writer *writer, const char *format, ...) {
    char line[VR_WRITER_LINE];
    va_list arguments;
    va_start(arguments, format);
    (void)vr_text_format_list(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    size_t bytes = strlen(line);
    line[bytes] = '\n';
    vr_writer_put(writer, line, bytes + 1);
}
