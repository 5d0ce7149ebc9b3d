/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_text.h: the text of metrics, made of live pages (vram/live_page.h).
 *
 *   metrics_text.c    writes labels and samples in either form
 *   metrics_family.c  the list of metrics, and all samples of each
 *   metrics_write.c   the public calls
 *
 * The format wants all samples of a family together, whatever process they are of. So all pages
 * are read first, and then written family by family.
 */
#ifndef VR_METRICS_TEXT_H
#define VR_METRICS_TEXT_H

#include "base/writer.h"
#include "vram/live_page.h"
#include "vram/metrics.h"

/* -------------------------------------------------------------- metrics_text.c */

struct vr_metrics_text {
    struct vr_writer writer;
    vram_metrics_format format;
    char line[4096]; /* what is not written yet */
    size_t used;
    bool labelled; /* the sample has a label already */
};

enum vr_metric_type {
    VR_METRIC_GAUGE,
    VR_METRIC_COUNTER, /* its samples end in _total */
    VR_METRIC_INFO,    /* its samples end in _info and are 1 */
    VR_METRIC_STATES   /* one sample per state, 1 for the present one */
};

struct vr_metric_head {
    const char *name; /* without _total and _info */
    const char *unit; /* the last part of the name, "bytes"; NULL: none */
    const char *help;
    enum vr_metric_type type;
};

/* The lines before a family's samples. */
void vr_metrics_head(struct vr_metrics_text *text, const struct vr_metric_head *head);

/* One sample: begin, labels, end. A label is at most `bytes` long, or ends at a 0 before that. */
void vr_metrics_sample_begin(struct vr_metrics_text *text, const struct vr_metric_head *head);
void vr_metrics_label(struct vr_metrics_text *text, const char *name, const char *value,
                      size_t bytes);
void vr_metrics_label_number(struct vr_metrics_text *text, const char *name, uint64_t value);
void vr_metrics_sample_end(struct vr_metrics_text *text, uint64_t value);
void vr_metrics_sample_end_ratio(struct vr_metrics_text *text, uint64_t millionths);

/* The last line of the format, and everything that is not written yet. */
void vr_metrics_finish(struct vr_metrics_text *text);

/* ------------------------------------------------------------ metrics_family.c */

/* All families of all pages; each was checked by vr_metrics_source_fits. */
void vr_metrics_families(struct vr_metrics_text *text,
                         const struct vram_metrics_source *const *sources, size_t count);

/* Whether the page is there, and its rows are as long as this version's. */
bool vr_metrics_source_fits(const struct vram_metrics_source *source);

#endif
