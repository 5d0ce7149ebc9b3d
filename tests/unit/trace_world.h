/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_world.h: a place for trace files, events to write into them, and what a reader finds there.
 */
#ifndef TEST_TRACE_WORLD_H
#define TEST_TRACE_WORLD_H

#include "base/clock.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "replay/recording.h"
#include "track/trace_format.h"
#include "track/trace_writer.h"
#include "unit/assert_ok.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char trace_path[64];

static inline int trace_world_begin(void) {
    snprintf(trace_path, sizeof trace_path, "/tmp/vram-trace-%ld.vrt", (long)getpid());
    unlink(trace_path);
    return 0;
}

static inline int trace_world_end(void) {
    unlink(trace_path);
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

#define FIRST_ADDRESS UINT64_C(0x7f0000000000)

static inline struct vr_event event_of(enum vr_event_kind kind, uint64_t id, uint64_t bytes) {
    return (struct vr_event){.kind = kind,
                             .id = id,
                             .bytes = bytes,
                             .held = (bytes + 511) / 512 * 512,
                             .pool = 0x106,
                             .device = 0x102,
                             .queue = 0x103,
                             .addr = FIRST_ADDRESS + id * 4096,
                             .tag = "model/weights"};
}

static inline void write_one(struct vr_trace_writer *writer, enum vr_event_kind kind, uint64_t id,
                             uint64_t bytes) {
    struct vr_event event = event_of(kind, id, bytes);
    vr_trace_write_event(writer, &event);
}

static inline uint8_t *file_bytes(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &about), 0);
    uint8_t *data = malloc((size_t)about.st_size + 1);
    assert_non_null(data);
    *bytes = fread(data, 1, (size_t)about.st_size, file);
    assert_int_equal(*bytes, about.st_size);
    fclose(file);
    return data;
}

/* What a reader makes of a file. */
struct found {
    bool good;
    uint64_t events, transfers, allocs, frees, first_sequence, first_bytes, last_id;
    uint64_t hash; /* of all events */
    enum recording_end end;
    uint64_t lost, problem_at;
    char problem[CHUNK_PROBLEM_MAX];
};

static inline uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

static inline uint64_t mix_text(uint64_t hash, const char *text) {
    for (; *text; text++) {
        hash = mix(hash, (uint8_t)*text);
    }
    return mix(hash, 0);
}

static inline uint64_t mix_event(uint64_t hash, const struct recording *recording,
                                 const struct recorded *event) {
    const uint64_t numbers[] = {event->kind,        event->time_ns,      event->thread,
                                event->pool,        event->queue,        event->device,
                                event->id,          event->addr,         event->bytes,
                                event->held,        event->before,       (uint64_t)event->status,
                                event->took_ns,     event->direction,    event->route,
                                event->sample.live, event->sample.misses};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        hash = mix(hash, numbers[i]);
    }
    const char *frame;
    for (uint32_t i = 0; (frame = recording_frame(recording, event->stack, i)) != NULL; i++) {
        hash = mix_text(hash, frame);
    }
    return mix_text(mix_text(mix_text(hash, event->tag), event->name), event->pool_name);
}

typedef void each_event(const struct recording *recording, const struct recorded *event);

/* `each` is given every event, unless NULL. */
static inline struct found read_memory(const uint8_t *data, size_t bytes, each_event *each) {
    struct found found = {.good = true, .hash = 1};
    static struct trace_source source;
    struct recording recording;
    struct recorded event;
    bool there = true;
    trace_source_open_memory(&source, data, bytes);
    found.good = recording_open(&recording, &source);
    while (found.good && there) {
        found.good = recording_next(&recording, &event, &there);
        if (found.good && there) {
            found.events += event.kind != RECORDED_TRANSFER;
            found.transfers += event.kind == RECORDED_TRANSFER;
            found.allocs += event.kind == RECORDED_ALLOC;
            found.frees += event.kind == RECORDED_FREE;
            found.last_id = event.addr > FIRST_ADDRESS ? (event.addr - FIRST_ADDRESS) / 4096 : 0;
            found.hash = mix_event(found.hash, &recording, &event);
            if (each != NULL) {
                each(&recording, &event);
            }
        }
    }
    found.first_sequence = recording.first_sequence;
    found.first_bytes = recording.first_bytes;
    found.end = chunk_reader_end(&recording.reader);
    found.lost = recording.reader.lost;
    found.problem_at = recording.problem_at;
    snprintf(found.problem, sizeof found.problem, "%s", recording.problem);
    recording_close(&recording);
    trace_source_close(&source);
    assert_true(found.good == (found.problem[0] == 0));
    return found;
}

/* What the file holds, which is as it should be. */
static inline struct found read_each(const char *path, each_event *each) {
    size_t bytes;
    uint8_t *data = file_bytes(path, &bytes);
    struct found found = read_memory(data, bytes, each);
    free(data);
    assert_string_equal(found.problem, "");
    return found;
}

static inline struct found read_trace(void) {
    return read_each(trace_path, NULL);
}

#endif
