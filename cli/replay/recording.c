/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording.c: see recording.h.
 *
 * Chunks are begun in the order of the file, each later than the one before, and none has events
 * from before its begin. So whatever is from before the begin of the next chunk can be handed on
 * without it.
 */
#include "recording.h"

#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static bool refuse(struct recording *recording, uint64_t offset, const char *problem) {
    snprintf(recording->problem, sizeof recording->problem, "%s", problem);
    recording->problem_at = offset;
    return false;
}

const char *recording_frame(const struct recording *recording, uint32_t stack, uint32_t index) {
    const struct definitions *definitions = &recording->definitions;
    if (stack == 0 || stack > definitions->count) {
        return NULL;
    }
    const struct definition *definition = &definitions->all[stack - 1];
    if (definition->kind != DEFINITION_STACK || index >= definition->count) {
        return NULL;
    }
    uint32_t frame = definition->frames[index];
    return frame != 0 ? definitions->all[frame - 1].text : "?";
}

/* Nanoseconds of ticks since the trace began. */
static uint64_t ns_of(const struct recording *recording, uint64_t ticks) {
    uint64_t rate = recording->reader.rate, seconds = ticks / rate;
    uint64_t rest = ticks % rate * SECOND / rate; /* the rate is 10 GHz at most */
    return seconds < UINT64_MAX / SECOND ? seconds * SECOND + rest : UINT64_MAX;
}

/* --------------------------------------------------------------------- chunks */

static bool read_ahead(struct recording *recording) {
    struct chunk_reader *reader = &recording->reader;
    if (recording->has_ahead || recording->at_end) {
        return true;
    }
    if (!chunk_reader_next(reader, &recording->ahead, &recording->has_ahead)) {
        recording->has_ahead = false;
        return refuse(recording, reader->problem_at, reader->problem);
    }
    recording->at_end = !recording->has_ahead;
    return true;
}

/* Gives the next chunk to its shard. */
static bool chunk_place(struct recording *recording) {
    struct shard_problem problem = {0, NULL};
    uint32_t number = recording->ahead.shard;
    struct shard_reader *shard = &recording->shards[number];
    shard->version = recording->reader.version;
    recording->shard_count = number < recording->shard_count ? recording->shard_count : number + 1;
    recording->has_ahead = false;
    return shard_reader_add(shard, &recording->ahead, &problem) ||
           refuse(recording, problem.at, problem.text);
}

/* --------------------------------------------------------------------- order */

static bool is_live(const struct recording *recording, uint64_t addr) {
    const struct live_address *block = live_addresses_find(&recording->live, addr);
    return block != NULL &&
           !(block->pool_number && recording->definitions.all[block->pool_number - 1].ended);
}

/* Whether the shard's event can come now, by (1). */
static bool may_come(const struct recording *recording, const struct shard_reader *shard) {
    const struct recorded *event = &shard->next;
    switch (event->kind) {
    case RECORDED_ALLOC:
        return !is_live(recording, event->addr);
    case RECORDED_FREE:
    case RECORDED_RESIZE:
        return is_live(recording, event->addr);
    default:
        return true;
    }
}

/* The shard whose event is next; NULL: none has one. Of those with equal times the first that may
   come. */
static struct shard_reader *shard_first(struct recording *recording) {
    struct shard_reader *first = NULL;
    bool good = true; /* that of `first` may come; looked at only if there is a choice */
    for (uint32_t i = 0; i < recording->shard_count; i++) {
        struct shard_reader *shard = &recording->shards[i];
        if (!shard->ready || (first != NULL && shard->order > first->order)) {
            continue;
        }
        if (first == NULL || shard->order < first->order) {
            first = shard;
            good = true;
            continue;
        }
        good = good && may_come(recording, first);
        if (!good && may_come(recording, shard)) {
            first = shard;
            good = true;
        }
    }
    return first;
}

static bool shards_fill(struct recording *recording) {
    struct shard_problem problem = {0, NULL};
    for (uint32_t i = 0; i < recording->shard_count; i++) {
        struct shard_reader *shard = &recording->shards[i];
        if (!shard->ready && shard->chunk_count > 0 &&
            !shard_reader_fill(shard, &recording->definitions, &problem)) {
            return refuse(recording, problem.at, problem.text);
        }
    }
    return true;
}

/* The shard of the next event, whatever chunks it takes to know; NULL: there is none. */
static bool event_find(struct recording *recording, struct shard_reader **found) {
    for (;;) {
        if (!shards_fill(recording)) {
            return false;
        }
        struct shard_reader *shard = shard_first(recording);
        bool sure = shard != NULL && recording->reader.version == 1;
        if (!sure && !read_ahead(recording)) {
            return false;
        }
        if (sure || !recording->has_ahead ||
            (shard != NULL && shard->order < recording->ahead.begin)) {
            *found = shard;
            return true;
        }
        if (!chunk_place(recording)) {
            return false;
        }
    }
}

/* -------------------------------------------------------------------- events */

/* The free that is missing before an allocation: keeps (2). */
static void imply_free(struct recording *recording, const struct recorded *alloc,
                       struct recorded *event) {
    const struct live_address *block = live_addresses_find(&recording->live, alloc->addr);
    const struct definition *pool =
        block->pool_number ? &recording->definitions.all[block->pool_number - 1] : NULL;
    *event = *alloc;
    event->kind = RECORDED_FREE;
    event->id = block->id;
    event->bytes = block->bytes;
    event->held = event->stack = 0;
    event->tag = event->name = "";
    event->tag_number = 0;
    event->pool_number = block->pool_number;
    event->pool = pool != NULL ? pool->handle : 0;
    event->device = pool != NULL ? pool->device : 0;
    event->pool_name = pool != NULL ? pool->text : "";
    live_addresses_remove(&recording->live, alloc->addr);
}

/* Gives the event of a block its id, in version 2. A block from before the trace gets one that no
   other has. */
static bool identify(struct recording *recording, struct recorded *event) {
    struct live_address *block = live_addresses_find(&recording->live, event->addr);
    bool allocs = event->kind == RECORDED_ALLOC;
    event->id = block != NULL && !allocs ? block->id : ++recording->last_id;
    if (allocs) {
        struct live_address made = {event->id, event->bytes, event->pool_number};
        live_addresses_remove(&recording->live, event->addr);
        return live_addresses_add(&recording->live, event->addr, &made) ||
               refuse(recording, event->offset, "out of host memory");
    }
    if (event->kind == RECORDED_FREE) {
        live_addresses_remove(&recording->live, event->addr);
    } else if (block != NULL) {
        block->bytes = event->bytes;
    }
    return true;
}

static bool is_of_block(const struct recorded *event) {
    return event->kind == RECORDED_ALLOC || event->kind == RECORDED_FREE ||
           event->kind == RECORDED_RESIZE;
}

/* Takes the shard's event. */
static bool event_take(struct recording *recording, struct shard_reader *shard,
                       struct recorded *event) {
    *event = shard->next;
    bool second = recording->reader.version == 2;
    if (second && event->kind == RECORDED_ALLOC && is_live(recording, event->addr)) {
        imply_free(recording, &shard->next, event);
    } else {
        shard->ready = false;
        recording->event_count += event->kind != RECORDED_TRANSFER;
        if (second && is_of_block(event) && !identify(recording, event)) {
            return false;
        }
    }
    if (event->kind == RECORDED_POOL_END && event->pool_number) {
        recording->definitions.all[event->pool_number - 1].ended = true;
    }
    event->time_ns = ns_of(recording, event->time_ns);
    return true;
}

/* ---------------------------------------------------------------------- rings */

/* Adds up what an event has changed that is passed over: keeps (3). */
static void pass_over(struct recording *recording, const struct recorded *event) {
    uint64_t bytes = event->bytes;
    switch (event->kind) {
    case RECORDED_ALLOC:
        recording->gone_blocks++;
        recording->gone_bytes = (int64_t)((uint64_t)recording->gone_bytes + bytes);
        break;
    case RECORDED_FREE:
        recording->gone_blocks--;
        recording->gone_bytes = (int64_t)((uint64_t)recording->gone_bytes - bytes);
        break;
    case RECORDED_RESIZE:
        recording->gone_bytes = (int64_t)((uint64_t)recording->gone_bytes + bytes - event->before);
        break;
    case RECORDED_POOL_END:
        recording->gone_blocks = (int64_t)((uint64_t)recording->gone_blocks - event->blocks);
        recording->gone_bytes = (int64_t)((uint64_t)recording->gone_bytes - bytes);
        break;
    default:
        break;
    }
}

static void note_first(struct recording *recording) {
    recording->first_blocks = recording->gone_blocks > 0 ? (uint64_t)recording->gone_blocks : 0;
    recording->first_bytes = recording->gone_bytes > 0 ? (uint64_t)recording->gone_bytes : 0;
}

bool recording_next(struct recording *recording, struct recorded *event, bool *there) {
    const struct chunk_view *gone = &recording->reader.gone;
    struct shard_reader *shard = NULL;
    *there = false;
    while (event_find(recording, &shard)) {
        if (shard == NULL) {
            return true;
        }
        if (gone->gone_until > 0 && shard->order <= gone->gone_until) {
            pass_over(recording, &shard->next);
            note_first(recording);
            shard->ready = false;
            continue;
        }
        *there = event_take(recording, shard, event);
        return *there;
    }
    return false;
}

/* ------------------------------------------------------------- open and close */

bool recording_open(struct recording *recording, struct trace_source *source) {
    memset(recording, 0, sizeof *recording);
    if (!chunk_reader_open(&recording->reader, source)) {
        return refuse(recording, recording->reader.problem_at, recording->reader.problem);
    }
    recording->first_sequence = recording->reader.gone.gone_chunks;
    recording->gone_blocks = recording->reader.gone.gone_blocks;
    recording->gone_bytes = recording->reader.gone.gone_bytes;
    note_first(recording);
    return live_addresses_begin(&recording->live) || refuse(recording, 0, "out of host memory");
}

void recording_close(struct recording *recording) {
    for (uint32_t i = 0; i < CHUNK_SHARDS_MAX; i++) {
        shard_reader_free(&recording->shards[i]);
    }
    if (recording->has_ahead) {
        free(recording->ahead.memory);
    }
    definitions_free(&recording->definitions);
    live_addresses_free(&recording->live);
    chunk_reader_close(&recording->reader);
}
