/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_reader.c: see event_reader.h.
 */
#include "event_reader.h"
#include "pickle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum event_format event_format_of(struct trace_source *source) {
    if (trace_source_begins(source, RECORDING_MAGIC, RECORDING_MAGIC_BYTES)) {
        return FORMAT_RECORDING;
    }
    return pickle_begins(source)         ? FORMAT_SNAPSHOT
           : rmm_log_begins(source)      ? FORMAT_RMM
           : chrome_trace_begins(source) ? FORMAT_CHROME
                                         : FORMAT_CSV;
}

const char *event_format_name(enum event_format format) {
    static const char *const names[] = {"csv", "trace", "snapshot", "rmm", "chrome"};
    return names[format];
}

const char *event_format_words(enum event_format format) {
    static const char *const words[] = {"CSV", "trace", "PyTorch memory snapshot", "RMM log",
                                        "Chrome JSON"};
    return words[format];
}

/* --------------------------------------------------------------- problems */

static bool refuse_at(struct event_reader *reader, const char *where, uint64_t at,
                      const char *problem) {
    snprintf(reader->problem, sizeof reader->problem, "%s %" PRIu64 ": %.160s", where, at, problem);
    return false;
}

static bool tell(struct event_reader *reader) {
    switch (reader->format) {
    case FORMAT_RECORDING:
        return refuse_at(reader, "at offset", reader->recording->problem_at,
                         reader->recording->problem);
    case FORMAT_SNAPSHOT:
        return refuse_at(reader, "at offset", reader->snapshot->problem_at,
                         reader->snapshot->problem);
    case FORMAT_RMM:
        return refuse_at(reader, "line", reader->rmm->lines.number, reader->rmm->problem);
    default:
        return refuse_at(reader, "at offset", reader->chrome->problem_at, reader->chrome->problem);
    }
}

/* ----------------------------------------------------------- open and close */

static size_t state_bytes(enum event_format format) {
    return format == FORMAT_RECORDING  ? sizeof(struct recording)
           : format == FORMAT_SNAPSHOT ? sizeof(struct snapshot)
           : format == FORMAT_RMM      ? sizeof(struct rmm_log)
                                       : sizeof(struct chrome_trace);
}

bool event_reader_open(struct event_reader *reader, enum event_format format,
                       struct trace_source *source, bool late_frees) {
    bool good;
    memset(reader, 0, sizeof *reader);
    reader->format = format;
    reader->any = calloc(1, state_bytes(format));
    if (reader->any == NULL) {
        snprintf(reader->problem, sizeof reader->problem, "out of host memory");
        return false;
    }
    switch (format) {
    case FORMAT_RECORDING:
        good = recording_open(reader->recording, source);
        break;
    case FORMAT_SNAPSHOT:
        reader->snapshot->late_frees = late_frees;
        good = snapshot_open(reader->snapshot, source);
        break;
    case FORMAT_RMM:
        good = rmm_log_open(reader->rmm, source);
        break;
    default:
        good = chrome_trace_open(reader->chrome, source);
    }
    return good || tell(reader);
}

void event_reader_close(struct event_reader *reader) {
    if (reader->any == NULL) {
        return;
    }
    switch (reader->format) {
    case FORMAT_RECORDING:
        recording_close(reader->recording);
        break;
    case FORMAT_SNAPSHOT:
        snapshot_close(reader->snapshot);
        break;
    case FORMAT_RMM:
        rmm_log_close(reader->rmm);
        break;
    default:
        chrome_trace_close(reader->chrome);
    }
    free(reader->any);
    reader->any = NULL;
}

/* --------------------------------------------------------------------- events */

bool event_reader_next(struct event_reader *reader, struct recorded *event, bool *there) {
    bool good;
    switch (reader->format) {
    case FORMAT_RECORDING:
        good = recording_next(reader->recording, event, there);
        break;
    case FORMAT_SNAPSHOT:
        good = snapshot_next(reader->snapshot, event, there);
        break;
    case FORMAT_RMM:
        good = rmm_log_next(reader->rmm, event, there);
        break;
    default:
        good = chrome_trace_next(reader->chrome, event, there);
    }
    if (good && *there && event->kind == RECORDED_ALLOC && event->bytes > RECORDED_BYTES_MAX) {
        snprintf(reader->problem, sizeof reader->problem,
                 "a block of %" PRIu64 " bytes is more than addresses can name", event->bytes);
        return false;
    }
    return good || tell(reader);
}

const char *event_reader_frame(struct event_reader *reader, uint32_t stack, uint32_t index) {
    if (reader->format == FORMAT_RECORDING) {
        return recording_frame(reader->recording, stack, index);
    }
    return reader->format == FORMAT_SNAPSHOT
               ? stack_table_write(&reader->snapshot->data.stacks, stack, index, reader->frame)
               : NULL;
}

uint64_t event_reader_gpus(const struct event_reader *reader) {
    uint64_t gpus = 0;
    for (size_t i = 0; reader->format == FORMAT_SNAPSHOT && i < SNAPSHOT_DEVICES_MAX; i++) {
        gpus |= (uint64_t)(reader->snapshot->data.devices[i].count > 0) << i;
    }
    return gpus;
}

static bool snapshot_missing(const struct snapshot *snapshot, char *text, size_t bytes) {
    uint64_t live = 0;
    for (size_t i = 0; i < snapshot->first_count; i++) {
        live += snapshot->first[i].bytes;
    }
    if (snapshot->first_count == 0 && snapshot->data.timed && !snapshot->inexact) {
        return false;
    }
    int used = 0;
    if (snapshot->first_count > 0) {
        used =
            snprintf(text, bytes,
                     "the history begins late: %.2f MiB in %zu block%s were live already, %" PRIu64
                     " of them from an unknown call site, and an earlier peak is not known",
                     (double)live / 1048576, snapshot->first_count,
                     snapshot->first_count == 1 ? "" : "s", snapshot->unknown_stacks);
    }
    if (!snapshot->data.timed) {
        used += snprintf(text + used, bytes - (size_t)used,
                         "%sthe entries have no times: each counts as a microsecond",
                         used > 0 ? "; " : "");
    }
    if (snapshot->inexact) {
        snprintf(text + used, bytes - (size_t)used,
                 "%sallocated bytes are estimated for blocks whose free memory is not known",
                 used > 0 ? "; " : "");
    }
    return true;
}

uint64_t event_reader_date_us(const struct event_reader *reader) {
    enum { YEAR_2001 = 1000000000 }; /* seconds; what is less is no date */
    uint64_t us = 0;
    if (reader->any != NULL && reader->format == FORMAT_RECORDING) {
        us = reader->recording->reader.date_ns / 1000;
    } else if (reader->any != NULL && reader->format == FORMAT_SNAPSHOT) {
        us = reader->snapshot->first_us;
    }
    return us / 1000000 >= YEAR_2001 ? us : 0;
}

bool event_reader_missing(const struct event_reader *reader, char *text, size_t bytes) {
    if (reader->format == FORMAT_SNAPSHOT) {
        return snapshot_missing(reader->snapshot, text, bytes);
    }
    if (reader->format == FORMAT_CHROME && reader->chrome->host_events > 0) {
        snprintf(text, bytes, "CPU memory is left out, events: %" PRIu64,
                 reader->chrome->host_events);
        return true;
    }
    return false;
}
