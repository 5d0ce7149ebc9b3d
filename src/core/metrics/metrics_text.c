/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_text.c: see metrics_text.h. */
#include "core/metrics/metrics_text.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void text_flush(struct vr_metrics_text *text) {
    vr_writer_put(&text->writer, text->line, text->used);
    text->used = 0;
}

static void text_put(struct vr_metrics_text *text, const char *from, size_t bytes) {
    while (bytes > 0) {
        size_t part = sizeof text->line - text->used;
        part = part < bytes ? part : bytes;
        memcpy(text->line + text->used, from, part);
        text->used += part;
        from += part;
        bytes -= part;
        if (text->used == sizeof text->line) {
            text_flush(text);
        }
    }
}

static void text_add(struct vr_metrics_text *text, const char *from) {
    text_put(text, from, strlen(from));
}

/* ------------------------------------------------------------------------- head */

static const char *suffix_of(enum vr_metric_type type) {
    return type == VR_METRIC_COUNTER ? "_total" : type == VR_METRIC_INFO ? "_info" : "";
}

/* Prometheus' own format knows counters and gauges, and names them as their samples. */
static const char *type_of(vram_metrics_format format, enum vr_metric_type type) {
    static const char *const open[] = {"gauge", "counter", "info", "stateset"};
    static const char *const plain[] = {"gauge", "counter", "gauge", "gauge"};
    return format == VRAM_METRICS_OPENMETRICS ? open[type] : plain[type];
}

static void head_line(struct vr_metrics_text *text, const char *word,
                      const struct vr_metric_head *head, const char *rest) {
    text_add(text, "# ");
    text_add(text, word);
    text_add(text, " ");
    text_add(text, head->name);
    text_add(text, text->format == VRAM_METRICS_PROMETHEUS ? suffix_of(head->type) : "");
    text_add(text, " ");
    text_add(text, rest);
    text_add(text, "\n");
}

void vr_metrics_head(struct vr_metrics_text *text, const struct vr_metric_head *head) {
    head_line(text, "HELP", head, head->help);
    head_line(text, "TYPE", head, type_of(text->format, head->type));
    if (head->unit && text->format == VRAM_METRICS_OPENMETRICS) {
        head_line(text, "UNIT", head, head->unit);
    }
}

/* ---------------------------------------------------------------------- samples */

void vr_metrics_sample_begin(struct vr_metrics_text *text, const struct vr_metric_head *head) {
    text_add(text, head->name);
    text_add(text, suffix_of(head->type));
    text->labelled = false;
}

static void label_begin(struct vr_metrics_text *text, const char *name) {
    text_add(text, text->labelled ? "," : "{");
    text_add(text, name);
    text_add(text, "=\"");
    text->labelled = true;
}

/* One character of a label's value. Names come from programs and drivers: what is not UTF-8 would
   make the whole text invalid, and what moves the cursor does not belong on a terminal. */
static size_t label_char(struct vr_metrics_text *text, const char *value, size_t bytes) {
    uint32_t code;
    size_t length = vr_text_char(value, bytes, &code);
    if (length == 0 || vr_text_is_control(code)) {
        text_add(text, "?");
    } else if (code == '"' || code == '\\') {
        text_add(text, code == '"' ? "\\\"" : "\\\\");
    } else {
        text_put(text, value, length);
    }
    return length > 0 ? length : 1;
}

void vr_metrics_label(struct vr_metrics_text *text, const char *name, const char *value,
                      size_t bytes) {
    label_begin(text, name);
    for (size_t at = 0; at < bytes && value[at] != 0;) {
        at += label_char(text, value + at, bytes - at);
    }
    text_add(text, "\"");
}

void vr_metrics_label_number(struct vr_metrics_text *text, const char *name, uint64_t value) {
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, value);
    vr_metrics_label(text, name, number, sizeof number);
}

static void sample_end(struct vr_metrics_text *text, const char *value) {
    text_add(text, text->labelled ? "} " : " ");
    text_add(text, value);
    text_add(text, "\n");
}

void vr_metrics_sample_end(struct vr_metrics_text *text, uint64_t value) {
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, value);
    sample_end(text, number);
}

/* Without printf of a double, whose point depends on the program's locale. */
void vr_metrics_sample_end_ratio(struct vr_metrics_text *text, uint64_t millionths) {
    char number[40];
    snprintf(number, sizeof number, "%" PRIu64 ".%06" PRIu64, millionths / 1000000,
             millionths % 1000000);
    sample_end(text, number);
}

void vr_metrics_finish(struct vr_metrics_text *text) {
    if (text->format == VRAM_METRICS_OPENMETRICS) {
        text_add(text, "# EOF\n");
    }
    text_flush(text);
}
