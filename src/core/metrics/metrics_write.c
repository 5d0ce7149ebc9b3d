/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_write.c: the public calls of vram/metrics.h. */
#include "core/metrics/metrics_text.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/os/page_file.h"
#include "core/live/page_rows.h"

#include <string.h>

static vram_status text_begin(struct vr_metrics_text *text, vram_metrics_format format,
                              vram_write_fn *write, void *user) {
    if ((unsigned)format > VRAM_METRICS_PROMETHEUS) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a format of metrics", (int)format);
    }
    text->format = format;
    text->used = 0;
    return vr_writer_begin(&text->writer, VRAM_REPORT_TEXT, write, user, vr_operation());
}

/* The same figures that the context has in the live page of its process, collected now. */
static void context_collect(struct vr_context *context, struct vr_page_rows *rows) {
    vram_live_page *head = &rows->image.head;
    rows->missed = UINT32_MAX; /* there is no collection before, whose counters could be used */
    vr_page_rows_begin(rows, vr_os_now());
    vr_page_rows_add(rows, context);
    vr_page_rows_end(rows);
    head->pid = vr_os_process_id();
    head->origin = VRAM_LIVE_PAGE_LIBRARY;
    memcpy(head->library, VRAM_VERSION_TEXT, sizeof VRAM_VERSION_TEXT);
    vr_os_command_line(head->command, sizeof head->command);
}

static vram_status sources_write(struct vr_metrics_text *text,
                                 const struct vram_metrics_source *const *sources, size_t count) {
    vr_metrics_families(text, sources, count);
    vr_metrics_finish(text);
    return vr_writer_end(&text->writer, vr_operation());
}

static vram_status context_write(struct vr_context *context, struct vr_metrics_text *text) {
    struct vr_page_rows *rows = vr_mem_alloc(1, sizeof *rows, vr_operation());
    if (!rows) {
        return VRAM_ERR_HOST_MEMORY;
    }
    context_collect(context, rows);
    const struct vram_metrics_source source = {.size = sizeof source,
                                               .page = &rows->image.head,
                                               .devices = rows->image.devices,
                                               .pools = rows->image.pools,
                                               .tags = rows->image.tags};
    vram_status status = sources_write(text, &(const struct vram_metrics_source *){&source}, 1);
    vr_mem_free(rows);
    return status;
}

/* The context stays entered, and no lock is held while the program's function runs. */
static vram_status metrics_write(vram_context *handle, vram_metrics_format format,
                                 vram_write_fn *write, void *user) {
    struct vr_metrics_text text;
    void *context;
    vram_status status = text_begin(&text, format, write, user);
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_CONTEXT, handle, &context);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = context_write(context, &text);
    vr_leave(context);
    return status;
}

vram_status vram_metrics_write(vram_context *context, vram_write_fn *write, void *user) {
    VR_CALL;
    return metrics_write(context, VRAM_METRICS_OPENMETRICS, write, user);
}

vram_status vram_metrics_write_as(vram_context *context, vram_metrics_format format,
                                  vram_write_fn *write, void *user) {
    VR_CALL;
    return metrics_write(context, format, write, user);
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
