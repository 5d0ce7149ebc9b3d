/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h: scenes as one HTML file that needs nothing else: the viewer (viewer/, built into
 * generated/viewer_page.h) and its data.
 *
 * The data is one line for each trace, base64 of gzip of:
 *
 *     bytes of the JSON, 4 bytes; 4 bytes 0     all numbers are little-endian
 *     JSON, filled up with spaces to a multiple of 8
 *     the arrays that the JSON lists, in that order, each filled up with zeros to a multiple of 8
 *
 * So no name of a trace is ever part of the HTML. The JSON has "schema": "vram.page/1"; the viewer
 * in the same file is the only reader, so the format may change with each version.
 */
#ifndef VIEWER_PAGE_H
#define VIEWER_PAGE_H

#include "replay/curve.h"
#include "report/report_view.h"
#include "scene.h"

#include <stdio.h>

enum { PAGE_TRACES_MAX = 16, PAGE_POLICIES_MAX = 8 };

/* A policy that the trace was replayed with. */
struct page_policy {
    const char *name;
    uint64_t held_bytes; /* most that it held */
    uint64_t calls;      /* of the driver */
    uint64_t spent_ns;   /* inside it */
    uint64_t begin_ns;   /* of the trace's first event, */
    uint64_t span_ns;    /* and of the curve, which begins at 0 of the same clock */
    const char *problem; /* why it was not done; NULL: it was */
    const struct curve *curve;
};

struct page_trace {
    const struct scene *scene;
    struct report_input *input;
    const struct report_view *view;
    const struct page_policy *policies;
    size_t policy_count;
};

/* The page up to its data. */
void page_begin(FILE *to);
/* One trace. False: out of host memory. The stream keeps its own failures. */
bool page_add(FILE *to, const struct page_trace *trace);
void page_end(FILE *to);

#endif
