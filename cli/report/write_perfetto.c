/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_perfetto.c: a trace for ui.perfetto.dev: a file of TracePacket messages with TrackEvents.
 *
 *   counters   live bytes of all, of each pool and of each tag, and what each pool holds
 *   slices     each block, from its allocation to its free, on a track for its address; of the
 *              TRACKS_MAX addresses that are seen first, and on shared tracks for the others
 *   instants   marks and refusals
 *
 * Numbers are those of perfetto's protos: trace_packet.proto, track_event.proto,
 * track_descriptor.proto, interned_data.proto.
 */
#include "proto_writer.h"
#include "replay/trace_ids.h"
#include "report_writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRACE_PACKET = 1, /* of Trace */
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_DESCRIPTOR = 60,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30,
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PARENT = 5,
    DESCRIPTOR_COUNTER = 8,
    COUNTER_UNIT = 3,
    INTERNED_EVENT_NAMES = 2,
    NAME_IID = 1,
    NAME_TEXT = 2,
    ANNOTATION_NAME = 10,
    ANNOTATION_UINT = 3,
    ANNOTATION_STRING = 6,
    ANNOTATION_POINTER = 7
};

enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4, UNIT_BYTES = 3 };
enum { FLAG_CLEARED = 1, FLAG_NEEDS = 2 };
enum { TRACKS_MAX = 1000, SHARED_MAX = 1000, COUNTERS_MAX = 128, NO_TRACK = 0 };

/* Tracks by number: fixed ones, counters of pools and tags, then addresses. */
enum { TRACK_ROOT = 1, TRACK_LIVE = 2, TRACK_MARKS = 3, TRACK_COUNTERS = 16, TRACK_BLOCKS = 4096 };

struct counter {
    uint64_t key;
    uint64_t bytes;
};

struct perfetto {
    struct report_writer *writer;
    uint64_t live;
    struct counter live_of_pool[COUNTERS_MAX], held_of_pool[COUNTERS_MAX], tags[COUNTERS_MAX];
    size_t pool_count, held_count, tag_count;
    struct trace_ids *tracks; /* by address */
    uint32_t track_count, shared_count;
    uint32_t shared_unused[SHARED_MAX];
    uint32_t shared_unused_count;
    uint64_t not_drawn;
    uint8_t *named; /* by stack: its name was written */
    size_t named_capacity;
    bool begun;
};

/* -------------------------------------------------------------------- packets */

static void write_packet(struct perfetto *perfetto, struct proto *packet) {
    proto_number(packet, PACKET_SEQUENCE, 1);
    proto_number(packet, PACKET_FLAGS, perfetto->begun ? FLAG_NEEDS : FLAG_CLEARED | FLAG_NEEDS);
    perfetto->begun = true;
    proto_write(packet, TRACE_PACKET, perfetto->writer->to);
}

static void write_track(struct perfetto *perfetto, uint64_t track, uint64_t parent,
                        const char *name, bool counter) {
    struct proto packet = {.bytes = 0}, descriptor = {.bytes = 0}, empty = {.bytes = 0};
    proto_number(&descriptor, DESCRIPTOR_UUID, track);
    if (parent != 0) {
        proto_number(&descriptor, DESCRIPTOR_PARENT, parent);
    }
    proto_text(&descriptor, DESCRIPTOR_NAME, name);
    if (counter) {
        proto_number(&empty, COUNTER_UNIT, UNIT_BYTES);
        proto_message(&descriptor, DESCRIPTOR_COUNTER, &empty);
    }
    proto_message(&packet, PACKET_DESCRIPTOR, &descriptor);
    write_packet(perfetto, &packet);
}

static void write_event(struct perfetto *perfetto, uint64_t time_ns, const struct proto *event,
                        const struct proto *interned) {
    struct proto packet = {.bytes = 0};
    proto_number(&packet, PACKET_TIMESTAMP, time_ns);
    if (interned != NULL && interned->bytes > 0) {
        proto_message(&packet, PACKET_INTERNED, interned);
    }
    proto_message(&packet, PACKET_TRACK_EVENT, event);
    write_packet(perfetto, &packet);
}

static void write_counter(struct perfetto *perfetto, uint64_t track, uint64_t time_ns,
                          uint64_t value) {
    struct proto event = {.bytes = 0};
    proto_number(&event, EVENT_TYPE, TYPE_COUNTER);
    proto_number(&event, EVENT_TRACK, track);
    proto_number(&event, EVENT_COUNTER, value);
    write_event(perfetto, time_ns, &event, NULL);
}

/* ------------------------------------------------------------------- counters */

/* Kinds of counters have numbers of their own. */
enum counter_kind { COUNTER_POOL, COUNTER_HELD, COUNTER_TAG };

/* The counter of a pool or tag, made when it is new; NULL: there are too many. */
static struct counter *counter_of(struct perfetto *perfetto, enum counter_kind kind, uint64_t key,
                                  const char *name, uint64_t *track) {
    static const char *const titles[] = {"live, pool", "held, pool", "live, tag"};
    struct counter *list = kind == COUNTER_POOL   ? perfetto->live_of_pool
                           : kind == COUNTER_HELD ? perfetto->held_of_pool
                                                  : perfetto->tags;
    size_t *count = kind == COUNTER_POOL   ? &perfetto->pool_count
                    : kind == COUNTER_HELD ? &perfetto->held_count
                                           : &perfetto->tag_count;
    size_t i = 0;
    while (i < *count && list[i].key != key) {
        i++;
    }
    if (i == COUNTERS_MAX) {
        return NULL;
    }
    *track = TRACK_COUNTERS + (uint64_t)kind * COUNTERS_MAX + i;
    if (i == *count) {
        char text[320];
        list[(*count)++] = (struct counter){.key = key};
        snprintf(text, sizeof text, "%s %.255s", titles[kind], name[0] != 0 ? name : "(no name)");
        write_track(perfetto, *track, TRACK_ROOT, text, true);
    }
    return &list[i];
}

static void count_block(struct perfetto *perfetto, const struct flow_block *block, bool comes,
                        uint64_t time_ns) {
    uint64_t change = comes ? block->bytes : 0 - block->bytes, track;
    perfetto->live += change;
    write_counter(perfetto, TRACK_LIVE, time_ns, perfetto->live);
    struct counter *pool =
        counter_of(perfetto, COUNTER_POOL, block->pool, block->pool_name, &track);
    if (pool != NULL) {
        pool->bytes += change;
        write_counter(perfetto, track, time_ns, pool->bytes);
    }
    struct counter *tag = block->tag[0] == 0 ? NULL
                                             : counter_of(perfetto, COUNTER_TAG, block->tag_number,
                                                          block->tag, &track);
    if (tag != NULL) {
        tag->bytes += change;
        write_counter(perfetto, track, time_ns, tag->bytes);
    }
}

/* --------------------------------------------------------------------- slices */

/* The track of a block; NO_TRACK: there is none left. */
static bool track_of(struct perfetto *perfetto, const struct flow_block *block, uint32_t *track) {
    char name[40];
    if (trace_ids_find(perfetto->tracks, block->addr, track)) {
        return true;
    }
    if (perfetto->track_count < TRACKS_MAX) {
        *track = TRACK_BLOCKS + perfetto->track_count++;
        snprintf(name, sizeof name, "0x%" PRIx64, block->addr);
        write_track(perfetto, *track, TRACK_ROOT, name, false);
        return trace_ids_add(perfetto->tracks, block->addr, *track);
    }
    if (perfetto->shared_unused_count > 0) {
        *track = perfetto->shared_unused[--perfetto->shared_unused_count];
    } else if (perfetto->shared_count < SHARED_MAX) {
        *track = TRACK_BLOCKS + TRACKS_MAX + perfetto->shared_count++;
        write_track(perfetto, *track, TRACK_ROOT, "other addresses", false);
    } else {
        *track = NO_TRACK;
        perfetto->not_drawn++;
    }
    return true;
}

/* The name of a slice is its call site, or its tag; each is written once. */
static bool name_slice(struct perfetto *perfetto, const struct flow_block *block,
                       struct proto *event, struct proto *interned) {
    struct history_group group = {.stack = block->stack, .tag = block->tag};
    char site[SITE_TEXT_MAX];
    if (block->stack == 0) {
        proto_text(event, EVENT_NAME, block->tag[0] != 0 ? block->tag : "block");
        return true;
    }
    if (block->stack >= perfetto->named_capacity) {
        size_t capacity = (size_t)block->stack * 2 + 64;
        uint8_t *named = realloc(perfetto->named, capacity);
        if (named == NULL) {
            return false;
        }
        memset(named + perfetto->named_capacity, 0, capacity - perfetto->named_capacity);
        perfetto->named = named;
        perfetto->named_capacity = capacity;
    }
    if (!perfetto->named[block->stack]) {
        struct proto name = {.bytes = 0};
        perfetto->named[block->stack] = 1;
        site_name(perfetto->writer->input, &group, site);
        proto_number(&name, NAME_IID, block->stack);
        proto_text(&name, NAME_TEXT, site);
        proto_message(interned, INTERNED_EVENT_NAMES, &name);
    }
    proto_number(event, EVENT_NAME_IID, block->stack);
    return true;
}

static void annotate(struct proto *event, const char *name, uint32_t field, uint64_t number) {
    struct proto annotation = {.bytes = 0};
    proto_text(&annotation, ANNOTATION_NAME, name);
    proto_number(&annotation, field, number);
    proto_message(event, EVENT_ANNOTATION, &annotation);
}

static bool perfetto_alloc(void *user, struct flow_block *block) {
    struct perfetto *perfetto = user;
    struct proto event = {.bytes = 0}, interned = {.bytes = 0};
    count_block(perfetto, block, true, block->time_ns);
    if (!track_of(perfetto, block, &block->note)) {
        return false;
    }
    if (block->note == NO_TRACK) {
        return true;
    }
    proto_number(&event, EVENT_TYPE, TYPE_BEGIN);
    proto_number(&event, EVENT_TRACK, block->note);
    if (!name_slice(perfetto, block, &event, &interned)) {
        return false;
    }
    annotate(&event, "bytes", ANNOTATION_UINT, block->bytes);
    annotate(&event, "held bytes", ANNOTATION_UINT, block->held);
    annotate(&event, "address", ANNOTATION_POINTER, block->addr);
    annotate(&event, "stream", ANNOTATION_UINT, block->queue);
    write_event(perfetto, block->time_ns, &event, &interned);
    return true;
}

static bool perfetto_free(void *user, const struct flow_block *block, uint64_t time_ns) {
    struct perfetto *perfetto = user;
    struct proto event = {.bytes = 0};
    count_block(perfetto, block, false, time_ns);
    if (block->note == NO_TRACK) {
        return true;
    }
    proto_number(&event, EVENT_TYPE, TYPE_END);
    proto_number(&event, EVENT_TRACK, block->note);
    write_event(perfetto, time_ns, &event, NULL);
    if (block->note >= TRACK_BLOCKS + TRACKS_MAX) {
        perfetto->shared_unused[perfetto->shared_unused_count++] = block->note;
    }
    return true;
}

static bool perfetto_other(void *user, const struct recorded *recorded) {
    struct perfetto *perfetto = user;
    struct proto event = {.bytes = 0};
    uint64_t track;
    if (recorded->kind == RECORDED_SAMPLE) {
        struct counter *pool =
            counter_of(perfetto, COUNTER_HELD, recorded->pool, recorded->pool_name, &track);
        if (pool != NULL) {
            write_counter(perfetto, track, recorded->time_ns, recorded->sample.reserved);
        }
        return true;
    }
    proto_number(&event, EVENT_TYPE, TYPE_INSTANT);
    proto_number(&event, EVENT_TRACK, TRACK_MARKS);
    proto_text(&event, EVENT_NAME,
               recorded->kind == RECORDED_REFUSE ? "out of memory" : recorded->name);
    if (recorded->kind == RECORDED_REFUSE) {
        annotate(&event, "bytes", ANNOTATION_UINT, recorded->bytes);
    }
    write_event(perfetto, recorded->time_ns, &event, NULL);
    return true;
}

bool write_perfetto_begin(struct report_writer *writer) {
    struct perfetto *perfetto = calloc(1, sizeof *perfetto);
    if (perfetto == NULL) {
        return false;
    }
    const struct flow_writer flow = {
        .user = perfetto, .alloc = perfetto_alloc, .free = perfetto_free, .other = perfetto_other};
    writer->state = perfetto;
    perfetto->writer = writer;
    perfetto->tracks = trace_ids_create();
    if (perfetto->tracks == NULL) {
        return false;
    }
    write_track(perfetto, TRACK_ROOT, 0, "GPU memory", false);
    write_track(perfetto, TRACK_LIVE, TRACK_ROOT, "live", true);
    write_track(perfetto, TRACK_MARKS, TRACK_ROOT, "marks", false);
    return block_flow_begin(&writer->flow, &flow);
}

void write_perfetto_forget(struct report_writer *writer) {
    struct perfetto *perfetto = writer->state;
    trace_ids_destroy(perfetto->tracks);
    free(perfetto->named);
    free(perfetto);
}

/* What is live at the end stays open: the viewer draws it to the end. */
bool write_perfetto_end(struct report_writer *writer, const struct report_view *view) {
    struct perfetto *perfetto = writer->state;
    struct proto event = {.bytes = 0};
    if (perfetto->not_drawn > 0) {
        proto_number(&event, EVENT_TYPE, TYPE_INSTANT);
        proto_number(&event, EVENT_TRACK, TRACK_MARKS);
        proto_text(&event, EVENT_NAME, "some blocks are only in the counters: too many at once");
        annotate(&event, "blocks", ANNOTATION_UINT, perfetto->not_drawn);
        write_event(perfetto, view->history->duration_ns, &event, NULL);
    }
    return true;
}
