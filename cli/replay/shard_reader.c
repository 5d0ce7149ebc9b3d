/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_reader.c: see shard_reader.h.
 */
#include "shard_reader.h"

#include <stdlib.h>
#include <string.h>

enum {
    BY = 0x08,     /* version 2: whose records follow */
    LENGTHS = 0x40 /* kinds from here on say how long they are */
};

static bool refuse(struct shard_problem *problem, uint64_t at, const char *text) {
    problem->at = at;
    problem->text = text;
    return false;
}

/* -------------------------------------------------------------------- events */

static void read_pool(struct cursor *cursor, struct recorded *event) {
    const struct definition *pool = cursor_definition(cursor, DEFINITION_POOL, &event->pool_number);
    event->pool = pool != NULL ? pool->handle : 0;
    event->device = pool != NULL ? pool->device : 0;
    event->pool_name = pool != NULL ? pool->text : "";
}

static void read_place(struct shard_reader *shard, struct cursor *cursor, struct recorded *event) {
    uint32_t which;
    event->thread = shard->thread;
    if (shard->version == 1) {
        const struct definition *thread = cursor_definition(cursor, DEFINITION_THREAD, &which);
        event->thread = thread != NULL ? thread->handle : 0;
    }
    read_pool(cursor, event);
    const struct definition *queue = cursor_definition(cursor, DEFINITION_QUEUE, &which);
    event->queue = queue != NULL ? queue->handle : 0;
}

/* Version 1 names a block by its id, and has its address once; version 2 by its address. */
static void read_block(struct shard_reader *shard, struct cursor *cursor, struct recorded *event) {
    read_place(shard, cursor, event);
    if (shard->version == 1) {
        event->id = cursor_difference(cursor, &shard->last_id);
    }
    if (shard->version == 2 || event->kind == RECORDED_ALLOC) {
        event->addr = cursor_difference(cursor, &shard->last_addr);
    }
}

static void read_alloc(struct cursor *cursor, struct recorded *event) {
    uint32_t ignored;
    event->bytes = cursor_number(cursor);
    event->held = cursor_sum(cursor, event->bytes, cursor_number(cursor));
    event->tag = cursor_text(cursor, &event->tag_number);
    event->name = cursor_text(cursor, &ignored);
    cursor_definition(cursor, DEFINITION_STACK, &event->stack);
}

static void read_sample(struct cursor *cursor, struct recorded_sample *sample) {
    uint64_t *const fields[] = {&sample->live,   &sample->held, &sample->reserved,
                                &sample->cached, &sample->free, &sample->largest_free,
                                &sample->limit,  &sample->hits, &sample->misses};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] = cursor_number(cursor);
    }
}

static void read_refusal(struct cursor *cursor, struct recorded *event) {
    event->bytes = cursor_number(cursor);
    uint64_t status = cursor_number(cursor);
    event->status = status <= 10000 ? -(int)status : -10000;
    event->tag = cursor_text(cursor, &event->tag_number);
}

/* A request that was tried again with success leaves a report without a refusal, which must not
   become that of a later one. */
static void take_report(struct shard_reader *shard, struct recorded *event) {
    const struct refusal_report *report = shard->report;
    if (shard->reported && report->thread == event->thread && report->asked == event->bytes) {
        event->report = report;
        event->stack = report->stack;
        shard->reported = false;
    }
}

static void read_body(struct shard_reader *shard, struct cursor *cursor, struct recorded *event) {
    uint32_t ignored;
    switch (event->kind) {
    case RECORDED_ALLOC:
        read_block(shard, cursor, event);
        read_alloc(cursor, event);
        return;
    case RECORDED_FREE:
        read_block(shard, cursor, event);
        event->bytes = cursor_number(cursor);
        return;
    case RECORDED_RESIZE:
        read_block(shard, cursor, event);
        event->before = cursor_number(cursor);
        event->bytes = cursor_number(cursor);
        event->held = cursor_sum(cursor, event->bytes, cursor_number(cursor));
        return;
    case RECORDED_REFUSE:
        read_place(shard, cursor, event);
        read_refusal(cursor, event);
        take_report(shard, event);
        return;
    case RECORDED_POOL_BEGIN:
        read_pool(cursor, event);
        return;
    case RECORDED_POOL_END:
        read_pool(cursor, event);
        event->blocks = shard->version == 2 ? cursor_number(cursor) : 0;
        event->bytes = shard->version == 2 ? cursor_number(cursor) : 0;
        return;
    case RECORDED_SAMPLE:
        read_pool(cursor, event);
        read_sample(cursor, &event->sample);
        return;
    case RECORDED_MARK:
        event->name = cursor_text(cursor, &ignored);
        return;
    default:
        cursor_refuse(cursor, "this kind of record is unknown");
    }
}

/* Its time is no event's: the next one goes on from the event before. Bytes behind its numbers are
   of versions to come. */
static void read_transfer(struct cursor *body, uint64_t ticks, struct recorded *event) {
    event->time_ns = cursor_sum(body, ticks, cursor_number(body));
    uint64_t *const fields[] = {&event->thread, &event->device, &event->direction,
                                &event->route,  &event->bytes,  &event->took_ns};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] = cursor_number(body);
    }
    uint64_t status = cursor_number(body);
    event->status = status <= 10000 ? -(int)status : -10000;
    if (body->cut_short) {
        cursor_refuse(body, "a transfer record is too short");
    }
}

static void read_report(struct shard_reader *shard, struct cursor *body) {
    if (shard->report == NULL) {
        shard->report = malloc(sizeof *shard->report);
    }
    if (shard->report == NULL) {
        cursor_refuse(body, "out of host memory");
        return;
    }
    refusal_report_read(body, shard->report);
    shard->report->thread = shard->thread;
    shard->reported = true;
}

/* A record that says how long it is; what is not known is passed over. */
static void read_long(struct shard_reader *shard, struct cursor *cursor, struct recorded *event) {
    uint64_t bytes = cursor_number(cursor);
    if (bytes > (uint64_t)(cursor->end - cursor->at)) {
        cursor->cut_short = true;
    }
    if (cursor->cut_short || cursor->wrong != NULL) {
        return;
    }
    struct cursor body = {cursor->definitions, cursor->at, cursor->at + bytes, NULL, false};
    if (event->kind == RECORDED_TRANSFER) {
        read_transfer(&body, shard->ticks, event);
    } else if ((int)event->kind == RECORD_REPORT) {
        read_report(shard, &body);
    }
    cursor->wrong = body.wrong;
    cursor->at += bytes;
}

/* ------------------------------------------------------------------- records */

static void read_kind(struct shard_reader *shard, struct cursor *cursor, struct recorded *event) {
    uint8_t kind = (uint8_t)event->kind;
    if (kind >= LENGTHS) {
        read_long(shard, cursor, event);
    } else if (kind >= RECORDED_ALLOC) {
        event->time_ns = cursor_sum(cursor, shard->ticks, cursor_number(cursor));
        read_body(shard, cursor, event);
    } else if (kind == BY && shard->version == 2) {
        shard->thread = cursor_number(cursor);
    } else if (kind >= DEFINITION_TEXT && kind <= DEFINITION_POOL) {
        cursor_define(cursor, kind);
    } else {
        cursor_refuse(cursor, "this kind of record is unknown");
    }
}

/* Reads one record; an event or a transfer becomes `next`. What goes past the end of a chunk that
   was never finished ends it. */
static bool read_record(struct shard_reader *shard, struct definitions *definitions,
                        struct shard_problem *problem) {
    const struct chunk_view *chunk = &shard->chunks[0];
    struct cursor cursor = {definitions, shard->at, shard->end, NULL, false};
    uint64_t offset = chunk->offset + (uint64_t)(shard->at - chunk->records);
    uint8_t kind = *cursor.at++;
    struct recorded *event = &shard->next;
    *event = (struct recorded){
        .kind = (enum recorded_kind)kind, .offset = offset, .tag = "", .name = "", .pool_name = ""};
    read_kind(shard, &cursor, event);
    if (cursor.wrong != NULL && !cursor.cut_short) {
        return refuse(problem, offset, cursor.wrong);
    }
    if (cursor.cut_short) {
        shard->at = shard->end;
        return !chunk->whole || refuse(problem, offset, "a record extends past its chunk");
    }
    shard->at = cursor.at;
    shard->ready = kind >= RECORDED_ALLOC && kind <= RECORDED_TRANSFER;
    if (kind >= RECORDED_ALLOC && kind < LENGTHS) {
        shard->ticks = event->time_ns;
    }
    shard->order = shard->ticks;
    return true;
}

/* -------------------------------------------------------------------- chunks */

static bool chunk_begin(struct shard_reader *shard, struct shard_problem *problem) {
    const struct chunk_view *chunk = &shard->chunks[0];
    shard->at = chunk->records;
    shard->end = chunk->records + chunk->bytes;
    shard->last_id = shard->last_addr = shard->thread = 0;
    if (shard->version == 2 && shard->ticks > chunk->begin) {
        return refuse(problem, chunk->offset,
                      "the chunk begins before the end of the one before it in its shard");
    }
    shard->ticks = chunk->begin > shard->ticks ? chunk->begin : shard->ticks;
    return true;
}

static void chunk_drop(struct shard_reader *shard) {
    free(shard->chunks[0].memory);
    shard->chunks[0] = shard->chunks[1];
    shard->chunks[1] = (struct chunk_view){.memory = NULL};
    shard->chunk_count--;
    shard->at = NULL;
}

bool shard_reader_add(struct shard_reader *shard, const struct chunk_view *chunk,
                      struct shard_problem *problem) {
    if (shard->chunk_count == SHARD_CHUNKS || shard->unfinished) {
        free(chunk->memory);
        return refuse(problem, chunk->offset,
                      shard->unfinished ? "a chunk follows one of its shard that was never finished"
                                        : "the chunk begins before the end of others of its shard");
    }
    shard->chunks[shard->chunk_count++] = *chunk;
    shard->unfinished = !chunk->whole;
    return true;
}

/* A chunk that was not sealed has zeros behind its last record. */
static bool at_records(const struct shard_reader *shard) {
    return shard->at < shard->end && (shard->chunks[0].whole || *shard->at != 0);
}

bool shard_reader_fill(struct shard_reader *shard, struct definitions *definitions,
                       struct shard_problem *problem) {
    while (!shard->ready && shard->chunk_count > 0) {
        if (shard->at == NULL && !chunk_begin(shard, problem)) {
            return false;
        }
        if (!at_records(shard)) {
            chunk_drop(shard);
        } else if (!read_record(shard, definitions, problem)) {
            return false;
        }
    }
    return true;
}

void shard_reader_free(struct shard_reader *shard) {
    for (uint32_t i = 0; i < shard->chunk_count; i++) {
        free(shard->chunks[i].memory);
    }
    shard->chunk_count = 0;
    free(shard->report);
    shard->report = NULL;
}
