/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c: the public calls of vram/metrics.h. */
#include "core/metrics/metrics.h"

#include "base/error.h"

static vram_status text_begin(struct vr_metrics_text *text, vram_metrics_format format,
                              vram_write_fn *write, void *user) {
    if ((unsigned)format > VRAM_METRICS_PROMETHEUS) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a format of metrics", (int)format);
    }
    text->format = format;
    text->used = 0;
    return vr_writer_begin(&text->writer, VRAM_REPORT_TEXT, write, user, vr_operation());
}

static vram_status sources_write(struct vr_metrics_text *text,
                                 const struct vram_metrics_source *const *sources, size_t count) {
    vr_metrics_families(text, sources, count);
    vr_metrics_finish(text);
    return vr_writer_end(&text->writer, vr_operation());
}

vram_status vram_metrics_pages_write(const vram_metrics_source *const *sources, size_t count,
                                     vram_metrics_format format, vram_write_fn *write, void *user) {
    VR_CALL;
    struct vr_metrics_text text;
    if (!sources && count > 0) {
        return vr_fail(VRAM_ERR_INVALID, "the list of pages is NULL");
    }
    for (size_t i = 0; i < count; i++) {
        if (!sources[i] || sources[i]->size < sizeof **sources ||
            !vr_metrics_source_fits(sources[i])) {
            return vr_fail(VRAM_ERR_INVALID, "page %zu lacks its head or rows, or they are short",
                           i);
        }
    }
    vram_status status = text_begin(&text, format, write, user);
    return status == VRAM_OK ? sources_write(&text, sources, count) : status;
}
