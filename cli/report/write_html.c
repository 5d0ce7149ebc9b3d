/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_html.c: a report as one HTML file for a browser. The trace is read again, twice: what the
 * page shows has to be known before it is placed (viewer/scene.h).
 */
#include "report_writer.h"
#include "viewer/page.h"

#include <stdlib.h>

struct html_job {
    struct report_input input;
    struct scene scene;
};

bool write_html_end(struct report_writer *writer, const struct report_view *view) {
    struct html_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return false;
    }
    bool good = scene_read(&job->scene, writer->source, &job->input) &&
                page_write(writer->to, &job->scene, &job->input, view);
    scene_free(&job->scene);
    report_input_close(&job->input);
    free(job);
    return good;
}
