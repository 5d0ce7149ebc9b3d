/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps_trace.c: traces, and what their files say. A file is read as soon as its trace has ended,
 * by the command's reader: what is live in it must be what the pools and the model have.
 */
#include "calls/program.h"

#include "replay/recording.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RECORDED_MAX = 4096 };

struct recorded_block {
    uint64_t addr, bytes, pool;
};

/* What the file of the trace says. */
static struct {
    char path[256];
    struct recorded_block live[RECORDED_MAX];
    uint64_t begun[RECORDED_MAX]; /* handles of pools that began in it */
    unsigned live_count, begun_count;
} file;

/* ----------------------------------------------------------------------- file */

static struct recorded_block *live_find(uint64_t addr) {
    for (unsigned i = 0; i < file.live_count; i++) {
        if (file.live[i].addr == addr) {
            return &file.live[i];
        }
    }
    return NULL;
}

static void live_remove(struct recorded_block *block_of) {
    if (block_of) {
        *block_of = file.live[--file.live_count];
    }
}

static bool has_begun(uint64_t handle) {
    for (unsigned i = 0; i < file.begun_count; i++) {
        if (file.begun[i] == handle) {
            return true;
        }
    }
    return false;
}

/* Whether the file has all that became of the pool's blocks in order. A call that returns beside
   the end of its pool may be counted by the end or not. */
static bool is_exact(uint64_t handle) {
    return settings.threads == 1 && has_begun(handle);
}

/* A pool ends with its blocks, and says how many they were. */
static void pool_ended(struct run *r, const struct recorded *event) {
    uint64_t blocks = 0, bytes = 0;
    for (unsigned i = file.live_count; i-- > 0;) {
        if (file.live[i].pool == event->pool) {
            blocks++;
            bytes += file.live[i].bytes;
            live_remove(&file.live[i]);
        }
    }
    bool exact = is_exact(event->pool);
    EXPECT(!exact || (event->blocks == blocks && event->bytes == bytes),
           "a pool ends in the trace with %llu blocks of %llu bytes, but %llu of %llu were live",
           (unsigned long long)event->blocks, (unsigned long long)event->bytes,
           (unsigned long long)blocks, (unsigned long long)bytes);
}

static void event_note(struct run *r, const struct recorded *event) {
    struct recorded_block *found = live_find(event->addr);
    switch (event->kind) {
    case RECORDED_POOL_BEGIN:
        EXPECT(file.begun_count < RECORDED_MAX, "too many pools in the trace");
        file.begun[file.begun_count++] = event->pool;
        break;
    case RECORDED_POOL_END:
        pool_ended(r, event);
        break;
    case RECORDED_ALLOC:
        EXPECT(!found && file.live_count < RECORDED_MAX, "the block %llx is allocated twice",
               (unsigned long long)event->addr);
        file.live[file.live_count++] =
            (struct recorded_block){event->addr, event->bytes, event->pool};
        break;
    case RECORDED_FREE:
        EXPECT(found || !is_exact(event->pool), "the block %llx is freed and was not live",
               (unsigned long long)event->addr);
        live_remove(found);
        break;
    case RECORDED_RESIZE:
        EXPECT(found ? found->bytes == event->before : !is_exact(event->pool),
               "the block %llx had another size than %llu before it was resized",
               (unsigned long long)event->addr, (unsigned long long)event->before);
        if (found) {
            found->bytes = event->bytes;
        }
        break;
    default:
        break;
    }
}

static void file_read(struct run *r) {
    static struct recording recording;
    static struct trace_source source;
    struct recorded event;
    bool there = true;
    file.live_count = file.begun_count = 0;
    EXPECT(trace_source_open(&source, file.path), "%s", source.problem);
    bool good = recording_open(&recording, &source);
    while (good && there) {
        good = recording_next(&recording, &event, &there);
        /* Without host memory an event may be left out, or not say of which pool it is. */
        if (good && there && !faults_were) {
            event_note(r, &event);
        }
    }
    EXPECT(good, "the trace is invalid at byte %llu: %s", (unsigned long long)recording.problem_at,
           recording.problem);
    recording_close(&recording);
    trace_source_close(&source);
    unlink(file.path);
}

/* ---------------------------------------------------------------------- model */

/* The blocks of the model are in the file, with their sizes. */
static void blocks_check(struct run *r) {
    for (unsigned i = 0; settings.threads == 1 && i < SLOTS_block; i++) {
        struct object *one = OBJECT(BLOCK, i);
        if (!is_live(one) || !one->parent->traced) {
            continue;
        }
        const struct recorded_block *found = live_find(block[i]);
        EXPECT(found && found->bytes == one->bytes,
               "block[%u] of %llu bytes has %lld bytes in the trace", i,
               (unsigned long long)one->bytes, found ? (long long)found->bytes : -1LL);
    }
}

struct expected trace_expected(void) {
    struct expected sum = {0};
    for (unsigned i = 0; i < SLOTS_pool; i++) {
        vram_pool_stats stats = {.size = sizeof stats};
        if (is_live(OBJECT(POOL, i)) && vram_pool_stats_get(pool[i], &stats) == VRAM_OK) {
            sum.least += OBJECT(POOL, i)->traced ? stats.live_blocks : 0;
            sum.most += stats.live_blocks;
        }
    }
    return sum;
}

void trace_ended(struct run *r, struct expected expected) {
    file_read(r);
    if (!faults_were) {
        EXPECT(file.live_count >= expected.least && file.live_count <= expected.most,
               "%u blocks are live in the trace, %llu to %llu in the pools", file.live_count,
               (unsigned long long)expected.least, (unsigned long long)expected.most);
        blocks_check(r);
    }
    for (unsigned i = 0; i < SLOTS_pool; i++) {
        OBJECT(POOL, i)->traced = false;
    }
}

/* ---------------------------------------------------------------------- steps */

STEP(trace_begin) {
    struct object *made = OBJECT(TRACE, op->trace), *in = OBJECT(CONTEXT, 0);
    vram_trace_options options = {.size = sizeof options, .path = "program-%p.vrt"};
    vram_trace_info info = {.size = sizeof info};
    vram_trace *begun;
    if (in->state == STATE_NONE) {
        return;
    }
    uint64_t may = !is_live(in) ? STALE : is_live(made) ? BUSY : OK;
    if (DO(may, vram_trace_begin(context, &options, &begun)) == VRAM_OK) {
        trace[op->trace] = begun;
        object_new(made, in);
        EXPECT(vram_trace_info_get(begun, &info) == VRAM_OK, "a trace without a path");
        memcpy(file.path, info.path, sizeof file.path);
    }
}

STEP(trace_end) {
    vram_trace_info info = {.size = sizeof info};
    bool live = r->may & OK;
    if (live) {
        DO(OK, vram_trace_info_get(trace[op->trace], &info));
        EXPECT(info.stopped == VRAM_OK && info.lost_events == 0,
               "the trace has stopped (%s) or lost %llu events", vram_status_name(info.stopped),
               (unsigned long long)info.lost_events);
    }
    if (DO(r->may, vram_trace_end(trace[op->trace])) == VRAM_OK) {
        object_end(r, OBJECT(TRACE, op->trace));
        if (live) {
            trace_ended(r, trace_expected());
        }
    }
}
