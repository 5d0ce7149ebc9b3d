/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording.c: see recording.h.
 *
 * A record is read whole or not at all: `cut_short` says that it goes past the end of what there
 * is, which is an error in a chunk that was sealed, and the end of the trace in one that was not.
 */
#include "recording.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT = 0x01,
    FRAME = 0x02,
    STACK = 0x03,
    THREAD = 0x04,
    QUEUE = 0x05,
    POOL = 0x06,
    LENGTHS = 0x40 /* kinds from here on say how long they are */
};

/* One record on its way. */
struct cursor {
    struct recording *recording;
    const uint8_t *at, *end;
    const char *wrong; /* what is wrong with it; NULL: nothing so far */
    bool cut_short;    /* it goes past the end */
};

static bool refuse(struct recording *recording, uint64_t offset, const char *problem) {
    snprintf(recording->problem, sizeof recording->problem, "%s", problem);
    recording->problem_at = offset;
    return false;
}

static uint64_t offset_of(const struct recording *recording, const uint8_t *at) {
    return recording->chunk.offset + (uint64_t)(at - recording->chunk.records);
}

static void wrong(struct cursor *cursor, const char *why) {
    cursor->wrong = cursor->wrong != NULL ? cursor->wrong : why;
}

/* ------------------------------------------------------------------- numbers */

static uint64_t number(struct cursor *cursor) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (cursor->at == cursor->end) {
            cursor->cut_short = true;
            return 0;
        }
        uint8_t byte = *cursor->at++;
        if (shift == 63 && byte > 1) {
            break;
        }
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return value;
        }
    }
    wrong(cursor, "a number has more than 64 bits");
    return 0;
}

static uint64_t difference(struct cursor *cursor, uint64_t *last) {
    uint64_t zigzag = number(cursor);
    *last += zigzag >> 1 ^ (zigzag & 1 ? UINT64_MAX : 0);
    return *last;
}

static uint64_t sum(struct cursor *cursor, uint64_t one, uint64_t other) {
    if (one > UINT64_MAX - other) {
        wrong(cursor, "a sum does not fit in 64 bits");
        return UINT64_MAX;
    }
    return one + other;
}

/* --------------------------------------------------------------- definitions */

/* What a number stands for, which must be of that kind; NULL for 0 and for what is wrong. */
static const struct definition *spoken(struct cursor *cursor, uint8_t kind, uint32_t *which) {
    uint64_t own = number(cursor);
    *which = 0;
    if (own == 0 || cursor->cut_short || cursor->wrong != NULL) {
        return NULL;
    }
    const struct definition *definition = own <= cursor->recording->definition_count
                                              ? &cursor->recording->definitions[own - 1]
                                              : NULL;
    if (definition == NULL || definition->kind != kind) {
        wrong(cursor, "a number refers to something that was not defined");
        return NULL;
    }
    *which = (uint32_t)own;
    return definition;
}

static const char *spoken_text(struct cursor *cursor, uint32_t *which) {
    const struct definition *definition = spoken(cursor, TEXT, which);
    return definition != NULL ? definition->text : "";
}

static char *read_text(struct cursor *cursor) {
    uint64_t bytes = number(cursor);
    if (cursor->cut_short || cursor->wrong != NULL) {
        return NULL;
    }
    if (bytes > RECORDING_TEXT_MAX) {
        wrong(cursor, "a text is longer than 255 bytes");
        return NULL;
    }
    if (bytes > (uint64_t)(cursor->end - cursor->at)) {
        cursor->cut_short = true;
        return NULL;
    }
    char *text = calloc(bytes + 1, 1);
    if (text == NULL) {
        wrong(cursor, "out of host memory");
        return NULL;
    }
    memcpy(text, cursor->at, bytes);
    cursor->at += bytes;
    for (uint64_t i = 0; i < bytes; i++) {
        text[i] = text[i] != 0 ? text[i] : '?';
    }
    return text;
}

static uint32_t *read_frames(struct cursor *cursor, uint8_t *count) {
    uint64_t frames = number(cursor);
    if (frames > RECORDING_FRAMES_MAX) {
        wrong(cursor, "a stack has more than 64 frames");
    }
    if (cursor->cut_short || cursor->wrong != NULL) {
        return NULL;
    }
    uint32_t *numbers = calloc(frames + 1, sizeof *numbers);
    if (numbers == NULL) {
        wrong(cursor, "out of host memory");
        return NULL;
    }
    *count = (uint8_t)frames;
    for (uint64_t i = 0; i < frames; i++) {
        spoken(cursor, FRAME, &numbers[i]);
    }
    return numbers;
}

static void forget(struct definition *definition) {
    if (definition->kind == STACK) {
        free(definition->frames);
    } else {
        free(definition->text);
    }
    memset(definition, 0, sizeof *definition);
}

static bool same(const struct definition *one, const struct definition *other) {
    if (one->kind != other->kind || one->handle != other->handle || one->device != other->device ||
        one->count != other->count) {
        return false;
    }
    if (one->kind == STACK) {
        return memcmp(one->frames, other->frames, one->count * sizeof one->frames[0]) == 0;
    }
    return one->text == NULL || strcmp(one->text, other->text) == 0;
}

/* The place of a number that may be defined; NULL: no memory. */
static struct definition *place_of(struct recording *recording, uint64_t own) {
    size_t count = recording->definition_count;
    if (own > count) {
        size_t wanted = count > 0 ? count : 32;
        while (wanted < own) {
            wanted *= 2;
        }
        struct definition *grown = realloc(recording->definitions, wanted * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        memset(grown + count, 0, (wanted - count) * sizeof *grown);
        recording->definitions = grown;
        recording->definition_count = wanted;
    }
    return &recording->definitions[own - 1];
}

/* Every chunk defines what it speaks of; a number always stands for the same. */
static void read_definition(struct cursor *cursor, uint8_t kind) {
    struct definition made = {.kind = kind};
    uint64_t own = number(cursor);
    if (!cursor->cut_short && (own == 0 || own > RECORDING_DEFINITIONS_MAX)) {
        wrong(cursor, "a number is defined that is out of range");
    }
    if (kind == THREAD || kind == QUEUE || kind == POOL) {
        made.handle = number(cursor);
    }
    if (kind == POOL) {
        made.device = number(cursor);
    }
    if (kind == STACK) {
        made.frames = read_frames(cursor, &made.count);
    } else if (kind != THREAD && kind != QUEUE) {
        made.text = read_text(cursor);
    }
    if (cursor->cut_short || cursor->wrong != NULL) {
        forget(&made);
        return;
    }
    struct definition *place = place_of(cursor->recording, own);
    if (place != NULL && place->kind == 0) {
        *place = made;
        return;
    }
    if (place == NULL) {
        wrong(cursor, "out of host memory");
    } else if (!same(place, &made)) {
        wrong(cursor, "a number is defined again as something else");
    }
    forget(&made);
}

const char *recording_frame(const struct recording *recording, uint32_t stack, uint32_t index) {
    if (stack == 0 || stack > recording->definition_count) {
        return NULL;
    }
    const struct definition *definition = &recording->definitions[stack - 1];
    if (definition->kind != STACK || index >= definition->count) {
        return NULL;
    }
    uint32_t frame = definition->frames[index];
    return frame != 0 ? recording->definitions[frame - 1].text : "?";
}

/* -------------------------------------------------------------------- events */

static void read_pool(struct cursor *cursor, struct recorded *event) {
    const struct definition *pool = spoken(cursor, POOL, &event->pool_number);
    event->pool = pool != NULL ? pool->handle : 0;
    event->device = pool != NULL ? pool->device : 0;
    event->pool_name = pool != NULL ? pool->text : "";
}

static void read_place(struct cursor *cursor, struct recorded *event) {
    uint32_t which;
    const struct definition *thread = spoken(cursor, THREAD, &which);
    event->thread = thread != NULL ? thread->handle : 0;
    read_pool(cursor, event);
    const struct definition *queue = spoken(cursor, QUEUE, &which);
    event->queue = queue != NULL ? queue->handle : 0;
}

static void read_alloc(struct cursor *cursor, struct recorded *event) {
    uint32_t ignored;
    event->id = difference(cursor, &cursor->recording->last_id);
    event->addr = difference(cursor, &cursor->recording->last_addr);
    event->bytes = number(cursor);
    event->held = sum(cursor, event->bytes, number(cursor));
    event->tag = spoken_text(cursor, &event->tag_number);
    event->name = spoken_text(cursor, &ignored);
    spoken(cursor, STACK, &event->stack);
}

static void read_sample(struct cursor *cursor, struct recorded_sample *sample) {
    uint64_t *const fields[] = {&sample->live,   &sample->held, &sample->reserved,
                                &sample->cached, &sample->free, &sample->largest_free,
                                &sample->limit,  &sample->hits, &sample->misses};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] = number(cursor);
    }
}

static void read_body(struct cursor *cursor, struct recorded *event) {
    uint32_t ignored;
    switch (event->kind) {
    case RECORDED_ALLOC:
        read_place(cursor, event);
        read_alloc(cursor, event);
        return;
    case RECORDED_FREE:
        read_place(cursor, event);
        event->id = difference(cursor, &cursor->recording->last_id);
        event->bytes = number(cursor);
        return;
    case RECORDED_RESIZE:
        read_place(cursor, event);
        event->id = difference(cursor, &cursor->recording->last_id);
        event->before = number(cursor);
        event->bytes = number(cursor);
        event->held = sum(cursor, event->bytes, number(cursor));
        return;
    case RECORDED_REFUSE:
        read_place(cursor, event);
        event->bytes = number(cursor);
        uint64_t status = number(cursor);
        event->status = status <= 10000 ? -(int)status : -10000;
        event->tag = spoken_text(cursor, &event->tag_number);
        return;
    case RECORDED_POOL_BEGIN:
    case RECORDED_POOL_END:
        read_pool(cursor, event);
        return;
    case RECORDED_SAMPLE:
        read_pool(cursor, event);
        read_sample(cursor, &event->sample);
        return;
    case RECORDED_MARK:
        event->name = spoken_text(cursor, &ignored);
        return;
    default:
        wrong(cursor, "this kind of record is unknown");
    }
}

/* Its time is no event's: the next one goes on from the event before. Bytes behind its numbers are
   of versions to come. */
static void read_transfer(struct cursor *body, struct recorded *event) {
    event->time_ns = sum(body, body->recording->time_ns, number(body));
    uint64_t *const fields[] = {&event->thread, &event->device, &event->direction,
                                &event->route,  &event->bytes,  &event->took_ns};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] = number(body);
    }
    uint64_t status = number(body);
    event->status = status <= 10000 ? -(int)status : -10000;
    if (body->cut_short) {
        wrong(body, "a transfer record is too short");
    }
}

/* A record that says how long it is; what is not known is passed over. */
static void read_long(struct cursor *cursor, struct recorded *event) {
    uint64_t bytes = number(cursor);
    if (bytes > (uint64_t)(cursor->end - cursor->at)) {
        cursor->cut_short = true;
    }
    if (cursor->cut_short || cursor->wrong != NULL) {
        return;
    }
    struct cursor body = {cursor->recording, cursor->at, cursor->at + bytes, NULL, false};
    if (event->kind == RECORDED_TRANSFER) {
        read_transfer(&body, event);
    }
    cursor->wrong = body.wrong;
    cursor->at += bytes;
}

/* Reads one record; *is_event when it was one, or a transfer. False: the chunk has no more, or the
   problem is set. */
static bool read_record(struct recording *recording, struct recorded *event, bool *is_event) {
    struct cursor cursor = {recording, recording->at, recording->end, NULL, false};
    uint64_t last_id = recording->last_id, last_addr = recording->last_addr;
    uint64_t offset = offset_of(recording, cursor.at), time_ns = recording->time_ns;
    uint8_t kind = *cursor.at++;
    *is_event = kind >= RECORDED_ALLOC && kind <= RECORDED_TRANSFER;
    *event = (struct recorded){
        .kind = (enum recorded_kind)kind, .offset = offset, .tag = "", .name = "", .pool_name = ""};
    if (kind >= LENGTHS) {
        read_long(&cursor, event);
    } else if (*is_event) {
        time_ns = event->time_ns = sum(&cursor, time_ns, number(&cursor));
        read_body(&cursor, event);
    } else if (kind >= TEXT && kind <= POOL) {
        read_definition(&cursor, kind);
    } else {
        wrong(&cursor, "this kind of record is unknown");
    }
    if (cursor.wrong != NULL && !cursor.cut_short) {
        return refuse(recording, offset, cursor.wrong);
    }
    if (cursor.cut_short) {
        recording->last_id = last_id;
        recording->last_addr = last_addr;
        recording->at = recording->end;
        return recording->chunk.whole ? refuse(recording, offset, "a record extends past its chunk")
                                      : false;
    }
    recording->time_ns = time_ns;
    recording->at = cursor.at;
    return true;
}

/* A chunk that was not sealed has zeros behind its last record. */
static bool at_records(const struct recording *recording) {
    return recording->at < recording->end && (recording->chunk.whole || *recording->at != 0);
}

static bool next_chunk(struct recording *recording, bool *there) {
    bool first = recording->chunk.records == NULL;
    if (!chunk_reader_next(&recording->reader, &recording->chunk, there)) {
        return refuse(recording, recording->reader.problem_at, recording->reader.problem);
    }
    if (!*there) {
        return true;
    }
    recording->at = recording->chunk.records;
    recording->end = recording->at + recording->chunk.bytes;
    recording->last_id = recording->last_addr = 0;
    if (recording->chunk.time_ns > recording->time_ns) {
        recording->time_ns = recording->chunk.time_ns;
    }
    if (first) {
        recording->first_sequence = recording->chunk.sequence;
        recording->first_blocks = recording->chunk.live_blocks;
        recording->first_bytes = recording->chunk.live_bytes;
    }
    return true;
}

bool recording_next(struct recording *recording, struct recorded *event, bool *there) {
    for (*there = false;;) {
        bool is_event = false;
        while (at_records(recording)) {
            if (!read_record(recording, event, &is_event)) {
                if (recording->problem[0] != 0) {
                    return false;
                }
                break;
            }
            if (is_event) {
                recording->event_count += event->kind != RECORDED_TRANSFER;
                *there = true;
                return true;
            }
        }
        bool more = false;
        if (!next_chunk(recording, &more)) {
            return false;
        }
        if (!more) {
            return true;
        }
    }
}

/* ------------------------------------------------------------- open and close */

bool recording_open(struct recording *recording, struct trace_source *source) {
    memset(recording, 0, sizeof *recording);
    if (!chunk_reader_open(&recording->reader, source)) {
        return refuse(recording, recording->reader.problem_at, recording->reader.problem);
    }
    return true;
}

void recording_close(struct recording *recording) {
    for (size_t i = 0; i < recording->definition_count; i++) {
        forget(&recording->definitions[i]);
    }
    free(recording->definitions);
    recording->definitions = NULL;
    recording->definition_count = 0;
    chunk_reader_close(&recording->reader);
}
