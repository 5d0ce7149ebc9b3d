/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.c: see history.h.
 */
#include "history.h"
#include "replay/trace_ids.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHAINS = 1 << 14,
    FREE_MATTERS = 16 << 20 /* bytes below which it is no matter how they lie */
};

static bool refuse(struct history *history, const char *problem) {
    snprintf(history->problem, sizeof history->problem, "%s", problem);
    return false;
}

static uint64_t less(uint64_t from, uint64_t by) {
    return from > by ? from - by : 0;
}

static uint64_t more(uint64_t one, uint64_t other) {
    return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

bool history_begin(struct history *history, const char *name) {
    memset(history, 0, sizeof *history);
    snprintf(history->name, sizeof history->name, "%s", name);
    history->slice_ns = 15625; /* doubled six times it is a millisecond */
    history->ids = trace_ids_create();
    history->chains = calloc(CHAINS, sizeof *history->chains);
    history->pools = malloc(HISTORY_POOLS_MAX * sizeof *history->pools);
    bool good = history->ids != NULL && history->chains != NULL && history->pools != NULL;
    return good || refuse(history, "out of host memory");
}

void history_free(struct history *history) {
    trace_ids_destroy(history->ids);
    pool_lists_free(&history->by_pool);
    free(history->chains);
    free(history->pools);
    free(history->groups);
    free(history->blocks);
    free(history->used);
    free(history->unused);
    memset(history, 0, sizeof *history);
}

/* --------------------------------------------------------------------- groups */

static bool grow_groups(struct history *history) {
    size_t capacity = history->group_capacity > 0 ? history->group_capacity * 2 : 64;
    struct history_group *groups = realloc(history->groups, capacity * sizeof *groups);
    if (groups == NULL) {
        return refuse(history, "out of host memory");
    }
    history->groups = groups;
    history->group_capacity = capacity;
    return true;
}

/* The group of a pair, made when it is new. */
static bool find_group(struct history *history, const struct recorded *event, uint32_t *group) {
    uint64_t hash = (event->tag_number * UINT64_C(0x9E3779B97F4A7C15)) ^
                    (event->stack * UINT64_C(0xC2B2AE3D27D4EB4F));
    uint32_t *chain = &history->chains[hash >> 32 & (CHAINS - 1)];
    for (uint64_t at = *chain; at > 0; at = history->groups[at - 1].next) {
        const struct history_group *known = &history->groups[at - 1];
        if (known->tag_number == event->tag_number && known->stack == event->stack) {
            *group = (uint32_t)(at - 1);
            return true;
        }
    }
    if (history->group_count == HISTORY_GROUPS_MAX) {
        *group = HISTORY_GROUPS_MAX - 1;
        return true;
    }
    if (history->group_count == history->group_capacity && !grow_groups(history)) {
        return false;
    }
    *group = (uint32_t)history->group_count;
    history->groups[history->group_count++] = (struct history_group){
        .tag_number = event->tag_number, .stack = event->stack, .tag = event->tag, .next = *chain};
    *chain = (uint32_t)history->group_count;
    return true;
}

/* Before a group changes: what it has now is what it had at the last peak. */
static struct history_group *touch(struct history *history, uint32_t index) {
    struct history_group *group = &history->groups[index];
    if (group->epoch != history->epoch) {
        group->peak_bytes = group->bytes;
        group->peak_blocks = group->blocks;
        group->epoch = history->epoch;
    }
    return group;
}

/* ---------------------------------------------------------------------- pools */

static struct history_pool *find_pool(struct history *history, const struct recorded *event,
                                      uint32_t *index) {
    size_t i = 0;
    while (i < history->pool_count && history->pools[i].handle != event->pool) {
        i++;
    }
    i = i < HISTORY_POOLS_MAX ? i : HISTORY_POOLS_MAX - 1;
    if (i == history->pool_count) {
        history->pool_count++;
        history->pools[i] = (struct history_pool){.handle = event->pool};
        snprintf(history->pools[i].name, sizeof history->pools[i].name, "%s", event->pool_name);
    }
    *index = (uint32_t)i;
    return &history->pools[i];
}

/* --------------------------------------------------------------------- slices */

/* The slice of a time; when there are no more, each two become one. */
static struct history_slice *slice_of(struct history *history, uint64_t time_ns) {
    while (time_ns / history->slice_ns >= HISTORY_SLICES) {
        for (size_t i = 0; i < HISTORY_SLICES / 2; i++) {
            const struct history_slice *one = &history->slices[2 * i], *two = one + 1;
            struct history_slice both = two->used ? *two : *one;
            both.used = one->used || two->used;
            both.peak = one->peak > two->peak ? one->peak : two->peak;
            both.scattered = one->scattered > two->scattered ? one->scattered : two->scattered;
            both.allocs = one->allocs + two->allocs;
            both.frees = one->frees + two->frees;
            both.reserved = one->reserved > two->reserved ? one->reserved : two->reserved;
            if (!both.sampled && one->sampled) {
                both.sampled = true;
                both.cached = one->cached;
                both.free = one->free;
                both.largest_free = one->largest_free;
            }
            history->slices[i] = both;
        }
        memset(history->slices + HISTORY_SLICES / 2, 0, sizeof history->slices / 2);
        for (size_t i = 0; i < history->group_count; i++) {
            growth_halve(&history->groups[i].growth);
        }
        history->slice_ns *= 2;
        history->slice_count = (history->slice_count + 1) / 2;
    }
    size_t at = (size_t)(time_ns / history->slice_ns);
    history->slice_count = at + 1 > history->slice_count ? at + 1 : history->slice_count;
    history->slices[at].used = true;
    return &history->slices[at];
}

/* What the pool of an event holds after it. Between two samples a pool may have grown: it holds at
   least what is live in it. */
static void note_reserved(struct history *history, const struct recorded *event) {
    uint32_t index;
    struct history_pool *pool = find_pool(history, event, &index);
    uint64_t before = pool->reserved;
    uint64_t least =
        pool->sampled && pool->last.reserved > pool->bytes ? pool->last.reserved : pool->bytes;
    pool->reserved = pool->ended ? 0 : least;
    pool->peak_reserved =
        pool->reserved > pool->peak_reserved ? pool->reserved : pool->peak_reserved;
    history->reserved = more(less(history->reserved, before), pool->reserved);
}

static void note_slice(struct history *history, const struct recorded *event) {
    struct history_slice *slice = slice_of(history, event->time_ns);
    if (event->kind != RECORDED_MARK) {
        note_reserved(history, event);
    }
    if (history->sampled) { /* live blocks from before the trace are in no pool */
        slice->reserved_last =
            history->reserved > history->live_bytes ? history->reserved : history->live_bytes;
        slice->reserved =
            slice->reserved_last > slice->reserved ? slice->reserved_last : slice->reserved;
        history->peak_reserved = slice->reserved_last > history->peak_reserved
                                     ? slice->reserved_last
                                     : history->peak_reserved;
    }
    slice->live = history->live_bytes;
    slice->peak = history->live_bytes > slice->peak ? history->live_bytes : slice->peak;
    slice->allocs += event->kind == RECORDED_ALLOC;
    slice->frees += event->kind == RECORDED_FREE;
}

/* --------------------------------------------------------------------- blocks */

static void note_peak(struct history *history, uint64_t time_ns) {
    history->peak_held =
        history->live_held > history->peak_held ? history->live_held : history->peak_held;
    if (history->live_bytes > history->peak_bytes) {
        history->peak_bytes = history->live_bytes;
        history->peak_blocks = history->live_blocks;
        history->peak_ns = time_ns;
        history->epoch++;
    }
}

static bool grow_blocks(struct history *history) {
    uint32_t capacity = history->block_capacity > 0 ? history->block_capacity * 2 : 256;
    if (history->block_capacity == HISTORY_BLOCKS_MAX) {
        return refuse(history, "more than 4194304 blocks are live at once");
    }
    struct history_block *blocks = realloc(history->blocks, capacity * sizeof *blocks);
    history->blocks = blocks != NULL ? blocks : history->blocks;
    bool *used = realloc(history->used, capacity * sizeof *used);
    history->used = used != NULL ? used : history->used;
    uint32_t *unused = realloc(history->unused, capacity * sizeof *unused);
    history->unused = unused != NULL ? unused : history->unused;
    if (blocks == NULL || used == NULL || unused == NULL) {
        return refuse(history, "out of host memory");
    }
    history->block_capacity = capacity;
    return true;
}

static bool take_slot(struct history *history, uint64_t id, uint32_t *slot) {
    if (history->unused_count > 0) {
        *slot = history->unused[--history->unused_count];
    } else {
        if (history->block_slots == history->block_capacity && !grow_blocks(history)) {
            return false;
        }
        *slot = history->block_slots++;
    }
    history->used[*slot] = true;
    return trace_ids_add(history->ids, id, *slot) || refuse(history, "out of host memory");
}

static size_t power_of(uint64_t bytes) {
    size_t power = 0;
    while (bytes > 1) {
        bytes >>= 1;
        power++;
    }
    return power;
}

static void note_request(struct history *history, uint64_t bytes) {
    history->sizes[power_of(bytes)]++;
    history->small += bytes < 512;
    history->largest_bytes = bytes > history->largest_bytes ? bytes : history->largest_bytes;
}

/* The group has had `before` blocks. */
static void note_growth(const struct history *history, struct history_group *group,
                        uint64_t time_ns, uint64_t before) {
    group->most_blocks = group->blocks > group->most_blocks ? group->blocks : group->most_blocks;
    growth_note(&group->growth, (uint32_t)(time_ns / history->slice_ns), before, group->blocks);
}

static bool add_alloc(struct history *history, const struct recorded *event) {
    uint32_t slot, index, pool_index;
    struct history_pool *pool = find_pool(history, event, &pool_index);
    if (event->bytes > UINT64_MAX - history->live_bytes) {
        return refuse(history, "the live bytes do not fit in 64 bits");
    }
    if (event->id != 0 && trace_ids_find(history->ids, event->id, &slot)) {
        return refuse(history, "a block is allocated that is live already");
    }
    if (!find_group(history, event, &index)) {
        return false;
    }
    struct history_group *group = touch(history, index);
    if (event->id != 0) {
        if (!take_slot(history, event->id, &slot)) {
            return false;
        }
        if (!pool_lists_add(&history->by_pool, event->pool_number, slot, event->id)) {
            return refuse(history, "out of host memory");
        }
        history->blocks[slot] = (struct history_block){.id = event->id,
                                                       .bytes = event->bytes,
                                                       .held = event->held,
                                                       .addr = event->addr,
                                                       .time_ns = event->time_ns,
                                                       .thread = event->thread,
                                                       .queue = event->queue,
                                                       .group = index,
                                                       .pool = pool_index,
                                                       .name = event->name};
        group->bytes += event->bytes;
        group->blocks++;
        history->live_bytes += event->bytes;
        history->live_held = more(history->live_held, event->held);
        history->live_blocks++;
        note_growth(history, group, event->time_ns, group->blocks - 1);
        pool->bytes = more(pool->bytes, event->bytes);
        pool->peak_bytes = pool->bytes > pool->peak_bytes ? pool->bytes : pool->peak_bytes;
    }
    if (event->earlier) {
        history->earlier_blocks++;
        history->earlier_bytes = more(history->earlier_bytes, event->bytes);
    } else {
        group->allocs++;
        group->alloc_bytes = more(group->alloc_bytes, event->bytes);
        pool->allocs++;
        history->allocs++;
        history->alloc_bytes = more(history->alloc_bytes, event->bytes);
        note_request(history, event->bytes);
    }
    note_peak(history, event->time_ns);
    return true;
}

/* Bytes of blocks that were allocated before the first event of the file. */
static void free_unknown(struct history *history, uint64_t bytes) {
    bytes = bytes < history->first_bytes ? bytes : history->first_bytes;
    history->first_bytes -= bytes;
    history->live_bytes = less(history->live_bytes, bytes);
    if (history->first_bytes == 0) {
        history->live_blocks = less(history->live_blocks, history->first_blocks);
        history->first_blocks = 0;
    }
}

/* One from before the trace, or from a part of it that is gone, is known by its bytes alone. */
static void free_stranger(struct history *history, const struct recorded *event) {
    history->strangers += event->id != 0;
    if (event->id != 0 && history->first_blocks > 0) {
        history->first_blocks--;
        history->live_blocks = less(history->live_blocks, 1);
        free_unknown(history, event->bytes);
    }
}

/* Removes a block from the live ones. Its slot can still be read until it is returned. */
static void end_block(struct history *history, uint32_t slot, uint64_t time_ns) {
    const struct history_block *block = &history->blocks[slot];
    struct history_group *group = touch(history, block->group);
    struct history_pool *pool = &history->pools[block->pool];
    group->bytes -= block->bytes;
    group->blocks--;
    history->live_bytes -= block->bytes;
    history->live_held = less(history->live_held, block->held);
    history->live_blocks--;
    note_growth(history, group, time_ns, group->blocks + 1);
    pool->bytes = less(pool->bytes, block->bytes);
    pool_lists_remove(&history->by_pool, slot);
    trace_ids_remove(history->ids, block->id);
}

static void give_slot(struct history *history, uint32_t slot) {
    history->used[slot] = false;
    history->unused[history->unused_count++] = slot;
}

static void add_free(struct history *history, const struct recorded *event) {
    uint32_t slot, pool_index;
    struct history_pool *pool = find_pool(history, event, &pool_index);
    history->frees++;
    pool->frees++;
    if (event->id == 0 || !trace_ids_find(history->ids, event->id, &slot)) {
        free_stranger(history, event);
        return;
    }
    bool brief = event->time_ns - history->blocks[slot].time_ns <= HISTORY_BRIEF_NS;
    end_block(history, slot, event->time_ns);
    history->groups[history->blocks[slot].group].brief += brief;
    history->brief += brief;
    give_slot(history, slot);
}

static bool add_resize(struct history *history, const struct recorded *event) {
    uint32_t slot;
    history->resizes++;
    if (event->id == 0 || !trace_ids_find(history->ids, event->id, &slot)) {
        return true;
    }
    struct history_block *block = &history->blocks[slot];
    if (event->bytes > UINT64_MAX - history->live_bytes) {
        return refuse(history, "the live bytes do not fit in 64 bits");
    }
    struct history_group *group = touch(history, block->group);
    struct history_pool *pool = &history->pools[block->pool];
    group->bytes = group->bytes - block->bytes + event->bytes;
    history->live_bytes = history->live_bytes - block->bytes + event->bytes;
    pool->bytes = more(less(pool->bytes, block->bytes), event->bytes);
    pool->peak_bytes = pool->bytes > pool->peak_bytes ? pool->bytes : pool->peak_bytes;
    history->live_held = more(less(history->live_held, block->held), event->held);
    block->bytes = event->bytes;
    block->held = event->held;
    note_peak(history, event->time_ns);
    return true;
}

/* --------------------------------------------------------------------- others */

static void add_refusal(struct history *history, const struct recorded *event) {
    uint32_t index;
    size_t i = 0;
    find_pool(history, event, &index)->refusals++;
    history->refusals++;
    while (i < history->status_count && history->statuses[i].status != event->status) {
        i++;
    }
    i = i < HISTORY_STATUSES_MAX ? i : HISTORY_STATUSES_MAX - 1;
    if (i == history->status_count) {
        history->statuses[history->status_count++].status = event->status;
    }
    history->statuses[i].count++;
    if (event->bytes > history->statuses[i].bytes) {
        history->statuses[i].bytes = event->bytes;
    }
}

static double share(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* What all pools hold together, each as it was when it was looked at last. */
static void add_up_pools(struct history *history, struct history_slice *slice) {
    uint64_t reserved = 0, cached = 0, unused = 0, largest = 0;
    for (size_t i = 0; i < history->pool_count; i++) {
        const struct history_pool *pool = &history->pools[i];
        if (pool->sampled && !pool->ended) {
            reserved = more(reserved, pool->last.reserved);
            cached = more(cached, pool->last.cached);
            unused = more(unused, pool->last.free);
            largest = pool->last.largest_free > largest ? pool->last.largest_free : largest;
        }
    }
    slice->sampled = history->sampled = true;
    slice->cached = cached;
    slice->free = unused;
    slice->largest_free = largest;
    /* A pool that is about to end has nothing but idle memory. */
    if (history->live_bytes > 0 && share(more(cached, unused), reserved) > history->worst_idle) {
        history->worst_idle = share(more(cached, unused), reserved);
        history->worst_idle_bytes = more(cached, unused);
    }
}

static void add_sample(struct history *history, const struct recorded *event) {
    uint32_t index;
    const struct recorded_sample *sample = &event->sample;
    struct history_pool *pool = find_pool(history, event, &index);
    struct history_slice *slice = slice_of(history, event->time_ns);
    pool->last = *sample;
    pool->sampled = true;
    history->rough = history->rough || sample->rough;
    double scattered =
        sample->largest_free < sample->free ? 1 - share(sample->largest_free, sample->free) : 0;
    double pressure = sample->limit > 0 ? share(sample->reserved, sample->limit) : 0;
    slice->scattered = scattered > slice->scattered ? scattered : slice->scattered;
    if (sample->free >= sample->reserved / 10 && sample->free >= FREE_MATTERS &&
        scattered > history->worst_scattered) {
        history->worst_scattered = scattered;
    }
    history->worst_pressure =
        pressure > history->worst_pressure ? pressure : history->worst_pressure;
    add_up_pools(history, slice);
}

static void add_pool(struct history *history, const struct recorded *event) {
    uint32_t index;
    struct history_pool *pool = find_pool(history, event, &index);
    pool->begun = pool->begun || event->kind == RECORDED_POOL_BEGIN;
    pool->ended = pool->ended || event->kind == RECORDED_POOL_END;
}

/*
 * Blocks that are live when their pool ends were never freed: they are leaks (vram/stats.h), but no
 * longer live. Of blocks from an overwritten part of the trace only the bytes are known, from the
 * sample of the pool before its end.
 */
static void end_pool(struct history *history, const struct recorded *event) {
    uint32_t slot, index;
    uint64_t id, bytes = 0;
    while (pool_lists_any(&history->by_pool, event->pool_number, &slot, &id)) {
        struct history_block *block = &history->blocks[slot];
        end_block(history, slot, event->time_ns);
        struct history_group *group = &history->groups[block->group];
        group->lost_bytes = more(group->lost_bytes, block->bytes);
        group->lost_blocks++;
        bytes += block->bytes;
        block->lost = true;
        if (history->lost_blocks++ >= HISTORY_LOST_MAX) {
            give_slot(history, slot);
        }
    }
    history->lost_bytes = more(history->lost_bytes, bytes);
    struct history_pool *pool = find_pool(history, event, &index);
    if (pool->handle == event->pool && pool->sampled) {
        free_unknown(history, less(pool->last.live, bytes));
    }
}

static void add_mark(struct history *history, const struct recorded *event) {
    if (history->mark_count < HISTORY_MARKS_MAX) {
        struct history_mark *mark = &history->marks[history->mark_count];
        mark->time_ns = event->time_ns;
        snprintf(mark->text, sizeof mark->text, "%s", event->name);
    }
    history->mark_count++;
}

/* It moves nothing on: no event, and of no part of the time. */
static void add_transfer(struct history *history, const struct recorded *event) {
    size_t direction = event->direction < VRAM_TRANSFER_ANY ? event->direction : VRAM_TRANSFER_ANY;
    size_t route = event->route < VRAM_ROUTE_ANY ? event->route : VRAM_ROUTE_ANY;
    vram_transfer_stats *sum = &history->transfers[direction][route];
    size_t bucket = power_of(event->took_ns);
    sum->size = sizeof *sum;
    sum->min_latency_ns = sum->operations == 0 || event->took_ns < sum->min_latency_ns
                              ? event->took_ns
                              : sum->min_latency_ns;
    sum->max_latency_ns =
        event->took_ns > sum->max_latency_ns ? event->took_ns : sum->max_latency_ns;
    sum->operations++;
    sum->failures += event->status != VRAM_OK;
    sum->bytes = more(sum->bytes, event->status == VRAM_OK ? event->bytes : 0);
    sum->latency_ns = more(sum->latency_ns, event->took_ns);
    sum->bytes_per_second =
        sum->latency_ns > 0 ? (double)sum->bytes * 1e9 / (double)sum->latency_ns : 0;
    sum->histogram[bucket < VRAM_TRANSFER_BUCKETS ? bucket : VRAM_TRANSFER_BUCKETS - 1]++;
    history->transfer_count++;
    history->duration_ns =
        event->time_ns > history->duration_ns ? event->time_ns : history->duration_ns;
}

bool history_add(struct history *history, const struct recorded *event) {
    bool good = true;
    if (event->kind == RECORDED_TRANSFER) {
        add_transfer(history, event);
        return true;
    }
    history->events++;
    history->duration_ns =
        event->time_ns > history->duration_ns ? event->time_ns : history->duration_ns;
    slice_of(history, event->time_ns); /* parts of the time are as they stay for this event */
    switch (event->kind) {
    case RECORDED_ALLOC:
        good = add_alloc(history, event);
        break;
    case RECORDED_FREE:
        add_free(history, event);
        break;
    case RECORDED_RESIZE:
        good = add_resize(history, event);
        break;
    case RECORDED_REFUSE:
        add_refusal(history, event);
        break;
    case RECORDED_SAMPLE:
        add_sample(history, event);
        break;
    case RECORDED_POOL_END:
        end_pool(history, event);
        add_pool(history, event);
        break;
    case RECORDED_POOL_BEGIN:
        add_pool(history, event);
        break;
    case RECORDED_MARK:
        add_mark(history, event);
        break;
    case RECORDED_TRANSFER:
        break;
    }
    note_slice(history, event);
    return good;
}

void history_finish(struct history *history) {
    for (size_t i = 0; i < history->group_count; i++) {
        struct history_group *group = touch(history, (uint32_t)i);
        growth_finish(&group->growth, (uint32_t)history->slice_count, group->blocks);
    }
    for (size_t i = 1; i < history->slice_count; i++) { /* nothing happened: all is as before */
        struct history_slice *slice = &history->slices[i], *before = slice - 1;
        if (!slice->used) {
            *slice = *before;
            slice->allocs = slice->frees = 0;
            slice->peak = slice->live;
            slice->reserved = slice->reserved_last;
        } else if (!slice->sampled && before->sampled) {
            slice->sampled = true;
            slice->cached = before->cached;
            slice->free = before->free;
            slice->largest_free = before->largest_free;
            slice->scattered = before->scattered;
        }
    }
}

void history_note_first(struct history *history, const struct recording *recording) {
    if (history->events == 0 && recording->first_sequence > 0) {
        history->missing_chunks = recording->first_sequence;
        history->first_bytes = history->live_bytes = recording->first_bytes;
        history->first_blocks = history->live_blocks = recording->first_blocks;
        note_peak(history, 0);
    }
}
