/* SPDX-License-Identifier: Apache-2.0 */
/* write_html.c: a report on one trace or on several as one HTML file for a browser. */
#include "html_trace.h"
#include "output.h"
#include "report_writer.h"

bool write_html_end(struct report_writer *writer, const struct report_view *view) {
    struct html_trace trace = {.to = writer->to,
                               .source = {.path = writer->source},
                               .blocks = SCENE_BLOCKS / (writer->more_count + 1)};
    page_begin(writer->to);
    bool good = html_trace_add(&trace, view);
    for (size_t i = 0; i < writer->more_count && good; i++) {
        trace.source.path = writer->more[i];
        good = html_trace_read(&trace, writer->more[i], view);
    }
    page_end(writer->to);
    if (!good) {
        say_error("%s", trace.problem);
        writer->told = true;
    }
    return good;
}
