/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_start.c: the state in which the histories of a snapshot begin; see snapshot.h, (1).
 *
 * One pass over the entries finds what is freed without having been allocated; the final segments
 * add what was never touched. Memory that segments hold at the start is what they hold at the end
 * less what came in between and with what went.
 */
#include "replay/trace_ids.h"
#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

/* A segment that was there at the start. */
struct first_segment {
    uint64_t addr, size;
};

/* Of one device, while its entries are passed over. */
struct scan {
    struct snapshot *snapshot;
    uint32_t device;
    struct trace_ids *live, *given; /* addresses: allocated, and with their free requested */
    struct trace_ids *segments;
    struct first_segment *first;
    size_t first_count, first_capacity;
    size_t from; /* its first block in snapshot->first */
};

static bool add_first_segment(struct scan *scan, uint64_t addr, uint64_t size) {
    if (scan->first_count == scan->first_capacity) {
        size_t old = scan->first_capacity, capacity = old > 0 ? old * 2 : 64;
        struct first_segment *grown = budget_grow(&scan->snapshot->data.budget, scan->first,
                                                  old * sizeof *grown, capacity * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        scan->first = grown;
        scan->first_capacity = capacity;
    }
    scan->first[scan->first_count++] = (struct first_segment){addr, size};
    return true;
}

static bool add_first(struct scan *scan, const struct snapshot_first *first) {
    struct snapshot *snapshot = scan->snapshot;
    if (snapshot->first_count == snapshot->first_capacity) {
        size_t old = snapshot->first_capacity, capacity = old > 0 ? old * 2 : 64;
        struct snapshot_first *grown = budget_grow(&snapshot->data.budget, snapshot->first,
                                                   old * sizeof *grown, capacity * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        snapshot->first = grown;
        snapshot->first_capacity = capacity;
    }
    snapshot->first[snapshot->first_count++] = *first;
    snapshot->unknown_stacks += first->stack == 0;
    return true;
}

static bool add_freed(struct scan *scan, const struct snapshot_event *event) {
    const struct snapshot_first first = {
        .addr = event->addr, .bytes = event->size, .device = scan->device, .place = event->place};
    return add_first(scan, &first);
}

static bool has(const struct trace_ids *ids, uint64_t addr) {
    uint32_t ignored;
    return trace_ids_find(ids, addr, &ignored);
}

static bool set(struct trace_ids *ids, uint64_t addr) {
    return has(ids, addr) || trace_ids_add(ids, addr, 0);
}

/* Bytes that the pool of a segment did not have before. */
static void came(struct scan *scan, const struct snapshot_event *event, bool came) {
    struct snapshot *snapshot = scan->snapshot;
    uint32_t pool = snapshot_pool_of(snapshot, scan->device, event->place, event->addr);
    uint64_t *reserved = &snapshot->pools[pool].reserved; /* in two's complement until the end */
    *reserved += came ? 0 - event->size : event->size;
}

static bool scan_event(struct scan *scan, const struct snapshot_event *event) {
    uint64_t addr = event->addr;
    switch (snapshot_action_of(event)) {
    case SNAPSHOT_ALLOC:
        trace_ids_remove(scan->given, addr);
        return set(scan->live, addr);
    case SNAPSHOT_FREE_REQUESTED:
        if (!has(scan->live, addr) && !has(scan->given, addr) && !add_freed(scan, event)) {
            return false;
        }
        trace_ids_remove(scan->live, addr);
        return set(scan->given, addr);
    case SNAPSHOT_FREE_COMPLETED:
        if (!has(scan->live, addr) && !has(scan->given, addr) && !add_freed(scan, event)) {
            return false;
        }
        trace_ids_remove(scan->live, addr);
        trace_ids_remove(scan->given, addr);
        return true;
    case SNAPSHOT_SEGMENT_ALLOC:
        came(scan, event, true);
        return set(scan->segments, addr);
    case SNAPSHOT_SEGMENT_FREE:
        came(scan, event, false);
        if (!has(scan->segments, addr)) {
            return add_first_segment(scan, addr, event->size);
        }
        trace_ids_remove(scan->segments, addr);
        return true;
    case SNAPSHOT_SEGMENT_MAP:
    case SNAPSHOT_SEGMENT_UNMAP:
        came(scan, event, snapshot_action_of(event) == SNAPSHOT_SEGMENT_MAP);
        return true;
    default:
        return true;
    }
}

/* Blocks and segments of the end that no entry speaks of. */
static bool scan_segment(struct scan *scan, const struct snapshot_segment *segment) {
    struct snapshot *snapshot = scan->snapshot;
    const struct snapshot_data *data = &snapshot->data;
    uint32_t pool = snapshot_pool_of(snapshot, scan->device, segment->place, segment->addr);
    snapshot->pools[pool].reserved += segment->size;
    bool old = !segment->expandable && !has(scan->segments, segment->addr);
    if (old && !add_first_segment(scan, segment->addr, segment->size)) {
        return false;
    }
    for (size_t i = 0; i < segment->block_count; i++) {
        const struct snapshot_block *block = &data->blocks[segment->first_block + i];
        if (!block->active || has(scan->live, block->addr) || has(scan->given, block->addr)) {
            continue;
        }
        const struct snapshot_first first = {.addr = block->addr,
                                             .bytes = block->requested,
                                             .size = block->size,
                                             .stack = block->stack,
                                             .device = scan->device,
                                             .place = segment->place};
        if (!add_first(scan, &first) || !set(scan->live, block->addr)) {
            return false;
        }
    }
    return true;
}

static int by_block(const void *one, const void *other) {
    const struct snapshot_first *a = one, *b = other;
    return (a->addr > b->addr) - (a->addr < b->addr);
}

static int by_segment(const void *one, const void *other) {
    const struct first_segment *a = one, *b = other;
    return (a->addr > b->addr) - (a->addr < b->addr);
}

/* Puts a block of the start into the map. */
static bool seed_block(struct scan *scan, const struct snapshot_first *first, uint64_t *end) {
    struct snapshot *snapshot = scan->snapshot;
    const struct split_rule rule = {snapshot->data.expandable, snapshot->data.split_most};
    bool exact;
    struct map_block *block = segment_map_take(&snapshot->devices[scan->device].map, first->addr,
                                               first->bytes, first->size, &rule, &exact);
    if (block == NULL) {
        return false;
    }
    snapshot->inexact = snapshot->inexact || !exact;
    *end = block->size <= UINT64_MAX - block->addr ? block->addr + block->size : UINT64_MAX;
    return true;
}

/* The map at the start: the blocks of the segments that were there, and free memory between. */
static bool seed(struct scan *scan) {
    struct snapshot *snapshot = scan->snapshot;
    struct segment_map *map = &snapshot->devices[scan->device].map;
    size_t count = snapshot->first_count - scan->from, at = 0;
    struct snapshot_first *blocks = count > 0 ? snapshot->first + scan->from : NULL;
    if (count > 0) {
        qsort(blocks, count, sizeof *blocks, by_block);
    }
    if (scan->first_count > 0) {
        qsort(scan->first, scan->first_count, sizeof *scan->first, by_segment);
    }
    for (size_t i = 0; i <= scan->first_count; i++) {
        bool last = i == scan->first_count; /* blocks that lie in no segment */
        struct first_segment segment =
            last ? (struct first_segment){UINT64_MAX, 0} : scan->first[i];
        uint64_t end, from = segment.addr;
        while (at < count && blocks[at].addr < segment.addr) {
            if (!seed_block(scan, &blocks[at++], &end)) {
                return false;
            }
        }
        if (last || segment.size > UINT64_MAX - segment.addr) {
            continue;
        }
        if (!segment_map_add(map, segment.addr, 0, false)) {
            return false;
        }
        while (at < count && blocks[at].addr - segment.addr < segment.size) {
            uint64_t gap = blocks[at].addr > from ? blocks[at].addr - from : 0;
            if (!segment_map_add(map, from, gap, true) || !seed_block(scan, &blocks[at++], &end)) {
                return false;
            }
            from = end;
        }
        uint64_t stop = segment.addr + segment.size;
        if (from < stop && !segment_map_add(map, from, stop - from, true)) {
            return false;
        }
    }
    return true;
}

static bool scan_device(struct scan *scan) {
    const struct snapshot_data *data = &scan->snapshot->data;
    const struct snapshot_events *events = &data->devices[scan->device];
    scan->live = trace_ids_create();
    scan->given = trace_ids_create();
    scan->segments = trace_ids_create();
    bool good = scan->live != NULL && scan->given != NULL && scan->segments != NULL;
    for (size_t i = 0; good && i < events->count; i++) {
        good = scan_event(scan, &events->all[i]);
    }
    for (size_t i = 0; good && i < data->segment_count; i++) {
        if (data->segments[i].device == scan->device) {
            good = scan_segment(scan, &data->segments[i]);
        }
    }
    trace_ids_destroy(scan->live);
    trace_ids_destroy(scan->given);
    trace_ids_destroy(scan->segments);
    good = good && seed(scan);
    free(scan->first);
    return good;
}

bool snapshot_find_start(struct snapshot *snapshot) {
    for (uint32_t i = 0; i < snapshot->data.device_count; i++) {
        struct scan scan = {.snapshot = snapshot, .device = i, .from = snapshot->first_count};
        if (!scan_device(&scan)) {
            return false;
        }
    }
    for (size_t i = 0; i < SNAPSHOT_POOLS_MAX; i++) { /* a history that contradicts its end */
        bool negative = snapshot->pools[i].reserved > UINT64_MAX >> 1;
        snapshot->pools[i].reserved = negative ? 0 : snapshot->pools[i].reserved;
    }
    return true;
}
