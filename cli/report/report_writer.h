/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_writer.h: a trace in the formats of other tools: `vram report FILE --format NAME -o FILE`.
 *
 * A format that shows every event is written while the file is read (begin, then the flow of
 * blocks, then end); one that shows what they add up to is written from the history alone (end).
 * The HTML page reads the file again.
 */
#ifndef REPORT_WRITER_H
#define REPORT_WRITER_H

#include "block_flow.h"
#include "report_view.h"

struct report_writer;

struct report_format {
    const char *name;
    bool binary;                                 /* not for a terminal */
    bool (*begin)(struct report_writer *writer); /* NULL: it needs no events. False: no memory */
    bool (*end)(struct report_writer *writer, const struct report_view *view); /* the same */
    void (*forget)(struct report_writer *writer); /* frees `state`, if there is one */
};

struct report_writer {
    const struct report_format *format;
    const char *source;      /* the trace's file, to be read again */
    const char *const *more; /* html: further files for the same page */
    size_t more_count;
    bool told; /* one line on stderr has said what failed */
    const char *path;
    FILE *to;
    struct report_input *input;
    struct block_flow flow; /* begun by `begin` */
    void *state;            /* the format's own, from malloc */
    bool leaks;             /* --leaks: weights are bytes that were never freed */
    bool count;             /* --count: weights are allocations */
};

/* All names, by blanks, for the command line. */
#define REPORT_FORMATS "html text json memory_viz perfetto folded csv"

/* NULL: there is none of that name. */
const struct report_format *report_format_find(const char *name);

/* Opens the file, or standard output for "-", before the input is read. False after one line on
   stderr. report_writer_close is due either way. */
bool report_writer_open(struct report_writer *writer, const char *path);
/* Behind the last event, with the view of the history; without (NULL) after a failure, which
   removes what was written. False after one line on stderr. */
bool report_writer_close(struct report_writer *writer, const struct report_view *view);

/* The formats that are files of their own. */
bool write_csv_begin(struct report_writer *writer);
bool write_memory_viz_begin(struct report_writer *writer);
bool write_memory_viz_end(struct report_writer *writer, const struct report_view *view);
bool write_perfetto_begin(struct report_writer *writer);
bool write_perfetto_end(struct report_writer *writer, const struct report_view *view);
void write_memory_viz_forget(struct report_writer *writer);
void write_perfetto_forget(struct report_writer *writer);
bool write_html_end(struct report_writer *writer, const struct report_view *view);
bool write_text_end(struct report_writer *writer, const struct report_view *view);

#endif
