/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_reader.c: see trace_reader.h, and event_reader.h for all formats but CSV.
 *
 * The text is hostile until shown otherwise: one line at a time is held, of at most LINE_MAX_BYTES,
 * fields are slices of it, and numbers are read digit by digit with a check for overflow.
 */
#include "trace_reader.h"
#include "formats/event_reader.h"
#include "pool_lists.h"
#include "trace_ids.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 256, FIELDS_MAX = 6 };

struct field {
    const char *text;
    size_t bytes;
};

struct reader {
    struct trace_builder builder;
    struct pool_lists pools; /* blocks of a trace of our own; no lists for CSV */
    uint64_t line;           /* number of the present line, from 1 */
    size_t field_count;      /* columns that the header names; 0 before it */
    char text[LINE_MAX_BYTES];
    size_t text_bytes;             /* of the line so far */
    const char *complaint;         /* what is wrong with it; NULL: the builder or the source says */
    bool binary;                   /* `line` is an offset */
    uint32_t gpu;                  /* the only one whose events count, from 1; 0: all */
    char whole[TRACE_PROBLEM_MAX]; /* what is wrong, with its place; "": as above */
    struct trace_source source;    /* its opening clears it; what is below is never cleared */
    uint8_t chunk[SOURCE_PIECE_BYTES];
};

static bool complain(struct reader *reader, const char *complaint) {
    reader->complaint = complaint;
    return false;
}

/* Splits at every comma. Returns how many fields there are, FIELDS_MAX + 1 for too many. */
static size_t split(const char *text, size_t bytes, struct field fields[FIELDS_MAX]) {
    const char *end = text + bytes;
    for (size_t count = 0; count < FIELDS_MAX;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *stop = comma != NULL ? comma : end;
        fields[count++] = (struct field){text, (size_t)(stop - text)};
        if (comma == NULL) {
            return count;
        }
        text = comma + 1;
    }
    return FIELDS_MAX + 1;
}

/* Digits alone: no signs, no blanks. */
static bool read_number(struct field field, uint64_t *number) {
    uint64_t value = 0;
    for (size_t i = 0; i < field.bytes; i++) {
        unsigned digit = (unsigned)(unsigned char)field.text[i] - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *number = value;
    return field.bytes > 0;
}

/* The first line. A byte order mark before it is what some editors leave. */
static bool read_header(struct reader *reader) {
    static const char mark[] = "\xef\xbb\xbf", plain[] = TRACE_HEADER, more[] = ",thread";
    const char *text = reader->text;
    size_t bytes = reader->text_bytes, skip = sizeof mark - 1, named = sizeof plain - 1;
    if (bytes >= skip && memcmp(text, mark, skip) == 0) {
        text += skip;
        bytes -= skip;
    }
    if (bytes >= named && memcmp(text, plain, named) == 0) {
        bool threads =
            bytes == named + sizeof more - 1 && memcmp(text + named, more, sizeof more - 1) == 0;
        reader->field_count = bytes == named ? 5 : threads ? 6 : 0;
    }
    return reader->field_count > 0 ||
           complain(reader,
                    "this is not a trace: neither one of libvram (VRAM_TRACE), nor a memory "
                    "snapshot of PyTorch, nor Chrome JSON, nor a log of RMM, nor CSV that "
                    "begins with " TRACE_HEADER "; plain, gzip'd or zstd'd");
}

/* The numbers of a line into an entry; its letter is known already. */
static bool read_fields(struct reader *reader, const struct field *fields,
                        struct trace_entry *entry) {
    bool alloc = entry->kind == TRACE_ALLOC;
    entry->bytes_given = entry->kind != TRACE_FREE && fields[2].bytes > 0;
    entry->stream_given = fields[3].bytes > 0;
    if (!read_number(fields[1], &entry->id)) {
        return complain(reader, "the id is not a whole number of 64 bits");
    }
    if ((entry->bytes_given || alloc) && !read_number(fields[2], &entry->bytes)) {
        return complain(reader, "the bytes are not a whole number of 64 bits");
    }
    if (entry->kind == TRACE_FREE && fields[2].bytes > 0) {
        uint64_t ignored; /* some recorders repeat the size */
        if (!read_number(fields[2], &ignored)) {
            return complain(reader, "the bytes are not a whole number of 64 bits");
        }
    }
    if ((entry->stream_given || entry->kind != TRACE_FREE) &&
        !read_number(fields[3], &entry->stream)) {
        return complain(reader, "the stream is not a whole number of 64 bits");
    }
    if (!read_number(fields[4], &entry->t_us)) {
        return complain(reader, "the time is not a whole number of 64 bits");
    }
    if (reader->field_count == 6 && !read_number(fields[5], &entry->thread)) {
        return complain(reader, "the thread is not a whole number of 64 bits");
    }
    return true;
}

static bool read_operation(struct reader *reader) {
    struct field fields[FIELDS_MAX] = {{NULL, 0}};
    struct trace_entry entry = {.kind = TRACE_ALLOC};
    size_t count = split(reader->text, reader->text_bytes, fields);
    if (count != reader->field_count) {
        return complain(reader, reader->field_count == 6 ? "there are not 6 fields"
                                                         : "there are not 5 fields");
    }
    switch (fields[0].bytes == 1 ? fields[0].text[0] : 0) {
    case 'a':
        entry.kind = TRACE_ALLOC;
        break;
    case 'f':
        entry.kind = TRACE_FREE;
        break;
    case 'u':
        entry.kind = TRACE_USE;
        break;
    default:
        return complain(reader, "the operation is not one of a (allocate), f (free), u (use)");
    }
    return read_fields(reader, fields, &entry) && trace_builder_add(&reader->builder, &entry);
}

static bool read_line(struct reader *reader) {
    if (reader->text_bytes > 0 && reader->text[reader->text_bytes - 1] == '\r') {
        reader->text_bytes--;
    }
    bool good = reader->field_count == 0 ? read_header(reader)
                : reader->text_bytes > 0 ? read_operation(reader)
                                         : true;
    reader->text_bytes = 0;
    return good;
}

/* Adds a piece of a line; a whole one is read. */
static bool take(struct reader *reader, const uint8_t *text, size_t bytes, bool ends) {
    if (bytes > LINE_MAX_BYTES - reader->text_bytes) {
        return complain(reader, "the line is too long for a trace");
    }
    memcpy(reader->text + reader->text_bytes, text, bytes);
    reader->text_bytes += bytes;
    if (!ends) {
        return true;
    }
    reader->line++;
    return read_line(reader);
}

static bool read_csv(struct reader *reader) {
    for (;;) {
        size_t bytes = sizeof reader->chunk;
        if (!trace_source_read(&reader->source, reader->chunk, &bytes)) {
            return false;
        }
        const uint8_t *at = reader->chunk, *end = at + bytes;
        while (at < end) {
            const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
            const uint8_t *next = stop != NULL ? stop + 1 : end;
            if (!take(reader, at, (size_t)((stop != NULL ? stop : end) - at), stop != NULL)) {
                reader->line += stop == NULL; /* it was not counted yet */
                return false;
            }
            at = next;
        }
        if (bytes == 0) { /* the last line may lack its end; an empty file lacks even the header */
            return (reader->text_bytes == 0 && reader->field_count > 0) ||
                   take(reader, reader->chunk, 0, true);
        }
    }
}

/* ------------------------------------------------------- events of other formats */

static bool add_block(struct reader *reader, enum trace_kind kind, const struct recorded *event) {
    struct trace_entry entry = {.kind = kind,
                                .id = event->id,
                                .bytes = event->bytes,
                                .stream = event->queue,
                                .thread = event->thread,
                                .t_us = event->time_ns / 1000,
                                .bytes_given = kind == TRACE_ALLOC,
                                .stream_given = true};
    reader->line = event->offset;
    return trace_builder_add(&reader->builder, &entry);
}

static bool add_alloc(struct reader *reader, const struct recorded *event) {
    uint32_t block;
    if (!add_block(reader, TRACE_ALLOC, event)) {
        return false;
    }
    return !trace_ids_find(reader->builder.ids, event->id, &block) ||
           pool_lists_add(&reader->pools, event->pool_number, block, event->id) ||
           complain(reader, "out of host memory");
}

static bool add_free(struct reader *reader, uint32_t block, const struct recorded *event) {
    pool_lists_remove(&reader->pools, block);
    return add_block(reader, TRACE_FREE, event);
}

/* The live blocks of the pool are freed with it, each on its own queue, by the thread of the last
   event. */
static bool end_pool(struct reader *reader, const struct recorded *event) {
    const struct trace *trace = reader->builder.trace;
    struct trace_entry entry = {.kind = TRACE_FREE, .t_us = event->time_ns / 1000};
    uint32_t block;
    reader->line = event->offset;
    while (pool_lists_any(&reader->pools, event->pool_number, &block, &entry.id)) {
        entry.thread = reader->builder.threads.names[trace->ops[trace->op_count - 1].thread];
        pool_lists_remove(&reader->pools, block);
        if (!trace_builder_add(&reader->builder, &entry)) {
            return false;
        }
    }
    return true;
}

/* A resize is played as a free and an allocation. Blocks from before the trace, and those whose
   record was lost, which have id 0, are not played. */
static bool add_event(struct reader *reader, const struct recorded *event) {
    uint32_t block = 0;
    bool live = event->id != 0 && trace_ids_find(reader->builder.ids, event->id, &block);
    switch (event->kind) {
    case RECORDED_ALLOC:
        return event->id == 0 || add_alloc(reader, event);
    case RECORDED_FREE:
        return !live || add_free(reader, block, event);
    case RECORDED_RESIZE:
        return !live || (add_free(reader, block, event) && add_alloc(reader, event));
    case RECORDED_POOL_END:
        return end_pool(reader, event);
    default:
        return true;
    }
}

/* Any format but CSV. */
static bool read_events(struct reader *reader, enum event_format format) {
    struct event_reader *events = calloc(1, sizeof *events);
    struct recorded event;
    bool there = true;
    if (events == NULL) {
        return complain(reader, "out of host memory");
    }
    bool good = event_reader_open(events, format, &reader->source, true);
    reader->builder.trace->gpus = good ? event_reader_gpus(events) : 0;
    while (good && there) {
        good = event_reader_next(events, &event, &there);
        bool counts = there && (reader->gpu == 0 || event.device == reader->gpu);
        good = good && (!counts || add_event(reader, &event));
    }
    reader->binary = true;
    if (!good && (events->problem[0] != 0 || format != FORMAT_RECORDING)) {
        const char *why = reader->complaint != NULL ? reader->complaint : reader->builder.problem;
        snprintf(reader->whole, sizeof reader->whole, "%s",
                 events->problem[0] != 0 ? events->problem : why);
    }
    event_reader_close(events);
    free(events);
    return good;
}

static bool read_all(struct reader *reader) {
    enum event_format format = event_format_of(&reader->source);
    return format == FORMAT_CSV ? read_csv(reader) : read_events(reader, format);
}

/* What went wrong, from whoever knows: the source, the line, or the trace as a whole. */
static void tell(const struct reader *reader, const char *name, char problem[TRACE_PROBLEM_MAX]) {
    const char *why = reader->complaint != NULL ? reader->complaint : reader->builder.problem;
    if (reader->whole[0] != 0) {
        snprintf(problem, TRACE_PROBLEM_MAX, "%.60s: %.190s", name, reader->whole);
    } else if (reader->source.problem[0] != 0) {
        snprintf(problem, TRACE_PROBLEM_MAX, "%.120s: %.120s", name, reader->source.problem);
    } else {
        snprintf(problem, TRACE_PROBLEM_MAX, "%.100s%s%" PRIu64 ": %.240s", name,
                 reader->binary ? ": at offset " : ":", reader->line, why);
    }
}

/* The name without its folders and without .csv, .vrt, .gz and so on, as people speak of it. */
static void short_name(const char *path, char name[TRACE_NAME_MAX]) {
    static const char *const suffixes[] = {".gz", ".zst", ".csv", ".vrt", ".pickle", ".json"};
    const char *slash = strrchr(path, '/');
    snprintf(name, TRACE_NAME_MAX, "%s", slash != NULL && slash[1] != 0 ? slash + 1 : path);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t bytes = strlen(name), suffix = strlen(suffixes[i]);
        if (bytes > suffix && strcmp(name + bytes - suffix, suffixes[i]) == 0) {
            name[bytes - suffix] = 0;
        }
    }
}

static bool finish(struct reader *reader, const char *name, struct trace *trace, bool good,
                   char problem[TRACE_PROBLEM_MAX]) {
    if (!good) {
        tell(reader, name, problem);
        trace_free(trace);
    }
    trace_builder_end(&reader->builder);
    pool_lists_free(&reader->pools);
    trace_source_close(&reader->source);
    free(reader);
    return good;
}

static struct reader *start(const char *name, struct trace *trace,
                            char problem[TRACE_PROBLEM_MAX]) {
    char title[TRACE_NAME_MAX];
    struct reader *reader = malloc(sizeof *reader);
    short_name(strcmp(name, "-") == 0 ? "standard input" : name, title);
    if (reader != NULL) {
        memset(reader, 0, offsetof(struct reader, source));
    }
    if (reader == NULL || !trace_builder_begin(&reader->builder, trace, title)) {
        snprintf(problem, TRACE_PROBLEM_MAX, "%.120s: out of host memory", name);
        free(reader);
        return NULL;
    }
    return reader;
}

bool trace_read(const char *path, struct trace *trace, char problem[TRACE_PROBLEM_MAX]) {
    return trace_read_gpu(path, 0, trace, problem);
}

bool trace_read_gpu(const char *path, uint32_t gpu, struct trace *trace,
                    char problem[TRACE_PROBLEM_MAX]) {
    struct reader *reader = start(path, trace, problem);
    if (reader == NULL) {
        return false;
    }
    if (gpu > 0) {
        size_t used = strlen(trace->name);
        snprintf(trace->name + used, sizeof trace->name - used, ", GPU %u", gpu - 1);
    }
    reader->gpu = gpu;
    bool good = trace_source_open(&reader->source, path) && read_all(reader);
    return finish(reader, strcmp(path, "-") == 0 ? "standard input" : path, trace, good, problem);
}

/* The reader has the source from here on. */
bool trace_read_source(const char *name, struct trace_source *source, struct trace *trace,
                       char problem[TRACE_PROBLEM_MAX]) {
    struct reader *reader = start(name, trace, problem);
    if (reader == NULL) {
        trace_source_close(source);
        return false;
    }
    reader->source = *source;
    memset(source, 0, sizeof *source);
    return finish(reader, name, trace, read_all(reader), problem);
}

bool trace_read_memory(const char *name, const void *text, size_t bytes, struct trace *trace,
                       char problem[TRACE_PROBLEM_MAX]) {
    struct reader *reader = start(name, trace, problem);
    if (reader == NULL) {
        return false;
    }
    trace_source_open_memory(&reader->source, text, bytes);
    return finish(reader, name, trace, read_all(reader), problem);
}
