/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html_trace.h: a trace into an HTML page that is being written (viewer/page.h). The trace is read
 * twice for it: what the page shows has to be known before it is placed (viewer/scene.h).
 */
#ifndef REPORT_HTML_TRACE_H
#define REPORT_HTML_TRACE_H

#include "viewer/page.h"

enum { HTML_PROBLEM_MAX = 400 };

struct html_trace {
    FILE *to;
    struct report_source source;
    size_t blocks; /* kept one by one; 0: as many as a page may have */
    const struct page_policy *policies;
    size_t policy_count;
    char problem[HTML_PROBLEM_MAX]; /* what failed, with the name of the file */
};

/* Adds a trace whose history is known. False with the problem set. */
bool html_trace_add(struct html_trace *trace, const struct report_view *view);

/* Adds one by name, whose history is read here, for which `view` says how to show it. */
bool html_trace_read(struct html_trace *trace, const char *name, const struct report_view *view);

#endif
