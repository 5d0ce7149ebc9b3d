/* SPDX-License-Identifier: Apache-2.0 */
/* replay_page.c: see replay_page.h. */
#include "replay_page.h"
#include "report/html_trace.h"

#include <errno.h>
#include <string.h>

/* The traces of the report, each once. Returns how many, PAGE_TRACES_MAX at most. */
static size_t traces_of(const struct replay_report *report,
                        const struct trace *traces[PAGE_TRACES_MAX]) {
    size_t count = 0;
    for (size_t i = 0; i < report->pass_count && count < PAGE_TRACES_MAX; i++) {
        const struct trace *trace = report->passes[i].trace;
        if (count == 0 || traces[count - 1] != trace) {
            traces[count++] = trace;
        }
    }
    return count;
}

static size_t policies_of(const struct replay_report *report, const struct trace *trace,
                          struct page_policy policies[PICTURE_PANELS_MAX]) {
    const struct pass *panels[PICTURE_PANELS_MAX];
    size_t count = picture_panels(report, trace, panels);
    for (size_t i = 0; i < count; i++) {
        const struct pass *pass = panels[i];
        policies[i] = (struct page_policy){
            .name = pass->policy->name,
            .held_bytes = pass->counts.peak_reserved_bytes,
            .calls = pass_calls(pass),
            .spent_ns = pass->spent_ns,
            .begin_ns = trace->op_count > 0 ? trace->ops[0].t_us * 1000 : 0,
            .span_ns = trace_ns(trace),
            .problem = pass->result == PASS_DONE ? NULL : pass->reason,
            .curve = pass->curve,
        };
    }
    return count;
}

static bool traces_write(const struct replay_report *report, struct html_trace *page,
                         const struct terminal *terminal, replay_file_fn *file_of, void *user) {
    const struct report_view view = {.terminal = terminal, .top = 10};
    const struct trace *traces[PAGE_TRACES_MAX];
    struct page_policy policies[PICTURE_PANELS_MAX];
    size_t count = traces_of(report, traces);
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        const char *file = file_of(user, traces[i]);
        page->source = (struct report_source){file, file == NULL ? traces[i] : NULL};
        page->blocks = SCENE_BLOCKS / count;
        page->policies = policies;
        page->policy_count = policies_of(report, traces[i], policies);
        good = html_trace_read(page, file != NULL ? file : traces[i]->name, &view);
    }
    return good;
}

bool replay_page_write(const struct replay_report *report, const char *path,
                       const struct terminal *terminal, replay_file_fn *file_of, void *user) {
    struct html_trace page = {.to = output_create(path)};
    if (page.to == NULL) {
        say_error("cannot write the page to %.200s: %s", path, strerror(errno));
        return false;
    }
    page_begin(page.to);
    bool good = traces_write(report, &page, terminal, file_of, user);
    page_end(page.to);
    bool failed = ferror(page.to) != 0;
    failed = fclose(page.to) != 0 || failed;
    if (!good) {
        say_error("%s", page.problem);
    } else if (failed) {
        say_error("cannot write the page to %.200s: %s", path, strerror(errno));
    }
    if (!good || failed) {
        remove_file(path);
    }
    return good && !failed;
}
