/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h: writes the text of a report to the program's vram_write_fn.
 *
 *     vram_status status = vr_writer_begin(&writer, format, write, user, operation);
 *     ...
 *     vr_writer_line(&writer, "%llu blocks", count);
 *     return vr_writer_end(&writer, operation);
 *
 * Once the program has refused a part, it gets no more, and the end reports VRAM_ERR_IO. Callers
 * hold no lock.
 */
#ifndef VR_WRITER_H
#define VR_WRITER_H

#include "vram/base.h"

struct vr_writer {
    vram_write_fn *write;
    void *user;
    bool refused; /* by `write`, which is not called again */
};

/* Checks the arguments of a vram_X_write; VRAM_ERR_INVALID. */
vram_status vr_writer_begin(struct vr_writer *writer, vram_report_format format,
                            vram_write_fn *write, void *user, const char *operation);

/* VRAM_ERR_IO if anything was refused. */
vram_status vr_writer_end(const struct vr_writer *writer, const char *operation);

void vr_writer_put(struct vr_writer *writer, const char *text, size_t bytes);

/* Text of up to VR_WRITER_LINE - 1 bytes, unchanged: the caller has cleaned it. */
enum { VR_WRITER_LINE = 768 };
void vr_writer_print(struct vr_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A whole line, cleaned (base/text.h), with its line break. */
void vr_writer_line(struct vr_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
