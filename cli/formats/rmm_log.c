/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rmm_log.c: see rmm_log.h.
 */
#include "rmm_log.h"

#include <vram/base.h>

#include <string.h>

enum { FIELDS = 6 };

#define DAY_US (UINT64_C(24) * 3600 * 1000000)

static bool refuse(struct rmm_log *log, const char *problem) {
    snprintf(log->problem, sizeof log->problem, "%s", problem);
    return false;
}

bool rmm_log_begins(struct trace_source *source) {
    return trace_source_begins(source, RMM_LOG_HEADER, 7);
}

bool rmm_log_open(struct rmm_log *log, struct trace_source *source) {
    bool there;
    memset(log, 0, sizeof *log);
    line_reader_begin(&log->lines, source);
    if (!live_addresses_begin(&log->live)) {
        return refuse(log, "out of host memory");
    }
    if (!line_reader_next(&log->lines, &there)) {
        return refuse(log, log->lines.problem);
    }
    if (!there || log->lines.field_count != FIELDS ||
        strcmp(log->lines.fields[FIELDS - 1], "Stream") != 0) {
        return refuse(log, "this is not a log of RMM: its header is not " RMM_LOG_HEADER);
    }
    return true;
}

void rmm_log_close(struct rmm_log *log) {
    live_addresses_free(&log->live);
}

/* H:M:S with a fraction of a second behind a point or a colon. */
static bool read_time(struct rmm_log *log, const char *text) {
    unsigned hours, minutes, seconds;
    char point, more;
    unsigned long micros;
    if (sscanf(text, "%2u:%2u:%2u%1c%6lu%c", &hours, &minutes, &seconds, &point, &micros, &more) !=
            5 ||
        hours > 23 || minutes > 59 || seconds > 60 || (point != '.' && point != ':')) {
        return refuse(log, "the time is not as in 14:03:07.123456");
    }
    uint64_t us =
        log->days_us + ((hours * 60 + minutes) * UINT64_C(60) + seconds) * 1000000 + micros;
    if (!log->begun) {
        log->begun = true;
        log->first_us = log->now_us = us;
    }
    if (us + DAY_US / 2 < log->now_us) {
        log->days_us += DAY_US;
        us += DAY_US;
    }
    log->now_us = us > log->now_us ? us : log->now_us; /* threads write a little out of order */
    return true;
}

static bool read_pointer(const char *text, uint64_t *number) {
    if (strcmp(text, "(nil)") == 0) {
        *number = 0;
        return true;
    }
    return line_reader_number(text, number);
}

static bool take_alloc(struct rmm_log *log, struct recorded *event) {
    struct live_address *before = live_addresses_find(&log->live, event->addr);
    if (before != NULL) { /* its free is not in the log */
        log->due = *event;
        log->freed = true;
        event->kind = RECORDED_FREE;
        event->id = before->id;
        event->bytes = event->held = before->bytes;
        live_addresses_remove(&log->live, event->addr);
        return true;
    }
    const struct live_address block = {++log->last_id, event->bytes, 0};
    event->id = block.id;
    if (!live_addresses_add(&log->live, event->addr, &block)) {
        return refuse(log, "out of host memory");
    }
    return true;
}

/* One from before the log began gets an id that no other has. */
static void take_free(struct rmm_log *log, struct recorded *event) {
    const struct live_address *block = live_addresses_find(&log->live, event->addr);
    event->id = block != NULL ? block->id : ++log->last_id;
    event->bytes = event->held = block != NULL ? block->bytes : event->bytes;
    live_addresses_remove(&log->live, event->addr);
}

static bool take_line(struct rmm_log *log, struct recorded *event) {
    char *const *fields = log->lines.fields;
    *event = (struct recorded){.tag = "", .name = "", .pool_name = ""};
    if (log->lines.field_count != FIELDS) {
        return refuse(log, "there are not 6 fields");
    }
    if (!line_reader_number(fields[0], &event->thread)) {
        return refuse(log, "the thread is not a whole number");
    }
    if (!read_time(log, fields[1])) {
        return false;
    }
    if (!read_pointer(fields[3], &event->addr)) {
        return refuse(log, "the pointer is not a number");
    }
    if (!line_reader_number(fields[4], &event->bytes)) {
        return refuse(log, "the size is not a whole number of 64 bits");
    }
    if (!read_pointer(fields[5], &event->queue)) {
        return refuse(log, "the stream is not a number");
    }
    event->time_ns = (log->now_us - log->first_us) * 1000;
    event->held = event->bytes;
    if (strcmp(fields[2], "allocate") == 0) {
        event->kind = RECORDED_ALLOC;
        return take_alloc(log, event);
    }
    if (strcmp(fields[2], "free") == 0) {
        event->kind = RECORDED_FREE;
        take_free(log, event);
        return true;
    }
    if (strcmp(fields[2], "allocate failure") == 0) {
        event->kind = RECORDED_REFUSE;
        event->status = VRAM_ERR_DEVICE_MEMORY;
        return true;
    }
    return refuse(log, "the action is not one of allocate, free, allocate failure");
}

bool rmm_log_next(struct rmm_log *log, struct recorded *event, bool *there) {
    *there = true;
    if (log->freed) {
        *event = log->due;
        log->freed = false;
        return take_alloc(log, event);
    }
    if (!line_reader_next(&log->lines, there)) {
        return refuse(log, log->lines.problem);
    }
    return !*there || take_line(log, event);
}
