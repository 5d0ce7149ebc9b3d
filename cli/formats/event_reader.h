/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_reader.h: the events of a trace file, whatever its format, one at a time in the order of
 * their times. The format is recognised by the first bytes. CSV of the library's own is none of
 * these: replay/trace_reader.h reads it.
 */
#ifndef FORMATS_EVENT_READER_H
#define FORMATS_EVENT_READER_H

#include "chrome_trace.h"
#include "replay/recording.h"
#include "rmm_log.h"
#include "snapshot.h"

enum event_format {
    FORMAT_CSV,       /* docs/trace-format.md; not read here */
    FORMAT_RECORDING, /* a .vrt file: the same document */
    FORMAT_SNAPSHOT,  /* PyTorch's memory snapshot */
    FORMAT_RMM,       /* RMM's log */
    FORMAT_CHROME     /* Chrome's JSON */
};

struct event_reader {
    enum event_format format;
    union { /* by format; NULL: not opened */
        struct recording *recording;
        struct snapshot *snapshot;
        struct rmm_log *rmm;
        struct chrome_trace *chrome;
        void *any;
    };
    char frame[STACK_TABLE_TEXT_MAX + 1]; /* the text given out last */
    char problem[256];                    /* with the place in the file */
};

/* Which format a source has, of which nothing was read yet. */
enum event_format event_format_of(struct trace_source *source);

/* "trace", "csv", "snapshot", "rmm" or "chrome"; and in words. */
const char *event_format_name(enum event_format format);
const char *event_format_words(enum event_format format);

/* Opens a source, which stays the caller's. With `late_frees` a block of a snapshot is freed when
   its memory can be reused, as for replaying; else when the program frees it. False with the
   problem set; event_reader_close is due either way. */
bool event_reader_open(struct event_reader *reader, enum event_format format,
                       struct trace_source *source, bool late_frees);

/* The next event or transfer; *there is false behind the last. False with the problem set. */
bool event_reader_next(struct event_reader *reader, struct recorded *event, bool *there);

/* Frame `index` of a stack, the innermost first; NULL behind the outermost. Valid until the next
   call. */
const char *event_reader_frame(struct event_reader *reader, uint32_t stack, uint32_t index);

/* The GPUs of a snapshot that have a history: bit i is GPU i. 0 for other formats. */
uint64_t event_reader_gpus(const struct event_reader *reader);

/* When time 0 of the events was, in us since 1970; 0: the file does not say. */
uint64_t event_reader_date_us(const struct event_reader *reader);

/* After the last event: what of the trace is not known, in one sentence. False: nothing. */
bool event_reader_missing(const struct event_reader *reader, char *text, size_t bytes);

void event_reader_close(struct event_reader *reader);

#endif
