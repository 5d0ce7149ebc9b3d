/* SPDX-License-Identifier: Apache-2.0 */
/* html_trace.c: see html_trace.h. */
#include "html_trace.h"

#include <stdlib.h>

struct html_job {
    struct report_input input;
    struct scene scene;
    struct history history;
};

static bool html_refuse(struct html_trace *trace, const char *name, const char *problem) {
    snprintf(trace->problem, sizeof trace->problem, "%.120s: %.250s", name, problem);
    return false;
}

bool html_trace_add(struct html_trace *trace, const struct report_view *view) {
    const char *name = view->history->name;
    struct html_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return html_refuse(trace, name, "out of host memory");
    }
    const struct page_trace shown = {.scene = &job->scene,
                                     .input = &job->input,
                                     .view = view,
                                     .policies = trace->policies,
                                     .policy_count = trace->policy_count};
    bool good = scene_read(&job->scene, &trace->source, trace->blocks, &job->input);
    if (!good) {
        html_refuse(trace, name,
                    job->scene.problem != NULL ? job->scene.problem : job->input.problem);
    } else if (!page_add(trace->to, &shown)) {
        good = html_refuse(trace, name, "out of host memory");
    }
    scene_free(&job->scene);
    report_input_close(&job->input);
    free(job);
    return good;
}

bool html_trace_read(struct html_trace *trace, const char *name, const struct report_view *view) {
    struct html_job *job = calloc(1, sizeof *job);
    static const struct against nothing;
    if (job == NULL) {
        return html_refuse(trace, name, "out of host memory");
    }
    struct report_view own = *view;
    own.history = &job->history;
    own.input = &job->input;
    own.against = &nothing;
    bool good = false;
    if (!history_begin(&job->history, name)) {
        html_refuse(trace, name, job->history.problem);
    } else if (!report_source_open(&job->input, &trace->source)) {
        snprintf(trace->problem, sizeof trace->problem, "%s", job->input.problem);
    } else {
        good = history_read(&job->history, &job->input, NULL) ||
               html_refuse(trace, name, job->history.problem);
    }
    good = good && html_trace_add(trace, &own);
    history_free(&job->history);
    report_input_close(&job->input);
    free(job);
    return good;
}
