/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_writer.c: see report_writer.h.
 */
#include "report_writer.h"
#include "output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool write_folded(struct report_writer *writer, const struct report_view *view) {
    enum folded_weight weight = writer->count   ? FOLDED_COUNT
                                : writer->leaks ? FOLDED_LEAKED
                                                : FOLDED_PEAK;
    return report_write_folded(view, weight, writer->to);
}

static bool write_json(struct report_writer *writer, const struct report_view *view) {
    return report_write(view, writer->to);
}

static const struct report_format formats[] = {
    {"html", true, NULL, write_html_end, NULL},
    {"text", false, NULL, write_text_end, NULL},
    {"json", false, NULL, write_json, NULL},
    {"memory_viz", true, write_memory_viz_begin, write_memory_viz_end, write_memory_viz_forget},
    {"perfetto", true, write_perfetto_begin, write_perfetto_end, write_perfetto_forget},
    {"folded", false, NULL, write_folded, NULL},
    {"csv", false, write_csv_begin, NULL, NULL},
};

const struct report_format *report_format_find(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return &formats[i];
        }
    }
    return NULL;
}

bool report_writer_open(struct report_writer *writer, const char *path) {
    bool to_stdout = path == NULL || strcmp(path, "-") == 0;
    writer->path = to_stdout ? NULL : path;
    if (to_stdout && writer->format->binary && isatty(STDOUT_FILENO)) {
        say_error("--format=%s is not for a terminal; name a file: -o FILE", writer->format->name);
        return false;
    }
    writer->to = to_stdout ? stdout : output_create(path);
    if (writer->to == NULL) {
        say_error("%.200s: %s", path, strerror(errno));
        return false;
    }
    if (writer->format->begin != NULL && !writer->format->begin(writer)) {
        say_error("out of host memory");
        return false;
    }
    return true;
}

bool report_writer_close(struct report_writer *writer, const struct report_view *view) {
    const struct report_format *format = writer->format;
    bool good = view != NULL;
    if (good && format->end != NULL && !format->end(writer, view)) {
        if (!writer->told && output_is_whole()) {
            say_error("out of host memory, or of space for temporary files");
        }
        good = false;
    }
    good = good && output_is_whole();
    if (format->forget != NULL && writer->state != NULL) {
        format->forget(writer);
    }
    if (format->begin != NULL) {
        block_flow_free(&writer->flow);
    }
    if (writer->to != NULL && writer->path != NULL) {
        errno = 0;
        bool failed = ferror(writer->to) != 0;
        failed = fclose(writer->to) != 0 || failed;
        if (failed && good) {
            say_error("%.200s: %s", writer->path,
                      errno != 0 ? strerror(errno) : "it cannot be written");
        }
        good = good && !failed;
        if (!good) {
            remove_file(writer->path);
        }
    }
    writer->to = NULL;
    return good;
}
