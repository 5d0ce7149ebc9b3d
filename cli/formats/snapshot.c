/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c: see snapshot.h.
 */
#include "snapshot.h"

#include <vram/base.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool refuse_memory(struct snapshot *snapshot) {
    snprintf(snapshot->problem, sizeof snapshot->problem, "out of host memory");
    return false;
}

/* ---------------------------------------------------------------------- pools */

/* The segment of the end that an address lies in; NULL: none. */
static const struct snapshot_segment *segment_of(const struct snapshot *snapshot, uint32_t device,
                                                 uint64_t addr) {
    const struct snapshot_data *data = &snapshot->data;
    size_t from = 0, to = data->segment_count;
    while (from < to) { /* sorted by device and address */
        size_t middle = from + (to - from) / 2;
        const struct snapshot_segment *segment = &data->segments[middle];
        bool before = segment->device != device ? segment->device < device : segment->addr <= addr;
        from = before ? middle + 1 : from;
        to = before ? to : middle;
    }
    const struct snapshot_segment *found = from > 0 ? &data->segments[from - 1] : NULL;
    bool inside = found != NULL && found->device == device && addr - found->addr < found->size;
    return inside ? found : NULL;
}

struct pool_key {
    uint64_t device, pool[2], stream;
};

static void name_pool(struct snapshot_pool *pool, const struct pool_key *key) {
    char more[40] = "", stream[24] = "";
    if (key->pool[0] != 0 || key->pool[1] != 0) {
        snprintf(more, sizeof more, ", pool %" PRIu64 ".%" PRIu64, key->pool[0] % 1000000,
                 key->pool[1] % 1000000);
    }
    if (key->stream != 0) {
        snprintf(stream, sizeof stream, ", 0x%" PRIx64, key->stream);
    }
    snprintf(pool->name, sizeof pool->name, "GPU %u%s%s", pool->device, more, stream);
}

uint32_t snapshot_pool_of(struct snapshot *snapshot, uint32_t device, uint16_t place,
                          uint64_t addr) {
    struct snapshot_place where = snapshot_data_place(&snapshot->data, place);
    if (!where.pool_known && snapshot->private_pools) {
        const struct snapshot_segment *segment = segment_of(snapshot, device, addr);
        if (segment != NULL) {
            struct snapshot_place there = snapshot_data_place(&snapshot->data, segment->place);
            memcpy(where.pool, there.pool, sizeof where.pool);
        }
    }
    struct pool_key key = {device, {where.pool[0], where.pool[1]}, where.stream};
    uint32_t known = snapshot->pool_keys.count;
    uint32_t number = interner_number(&snapshot->pool_keys, &key, sizeof key);
    uint32_t index =
        number == 0 || number > SNAPSHOT_POOLS_MAX ? SNAPSHOT_POOLS_MAX - 1 : number - 1;
    if (snapshot->pool_keys.count > known && number <= SNAPSHOT_POOLS_MAX) {
        snapshot->pools[index].device = device;
        name_pool(&snapshot->pools[index], &key);
    }
    return index;
}

void snapshot_pool_id(const struct snapshot *snapshot, uint32_t pool_number, uint64_t id[2]) {
    struct pool_key key;
    size_t bytes;
    const void *known = interner_get(&snapshot->pool_keys, pool_number, &bytes);
    memset(&key, 0, sizeof key);
    if (known != NULL) {
        memcpy(&key, known, sizeof key);
    }
    memcpy(id, key.pool, sizeof key.pool);
}

static int by_segment(const void *one, const void *other) {
    const struct snapshot_segment *a = one, *b = other;
    if (a->device != b->device) {
        return a->device < b->device ? -1 : 1;
    }
    return (a->addr > b->addr) - (a->addr < b->addr);
}

static int by_time(const void *one, const void *other) {
    const struct snapshot_note *a = one, *b = other;
    return (a->time_us > b->time_us) - (a->time_us < b->time_us);
}

static void prepare_tables(struct snapshot *snapshot) {
    struct snapshot_data *data = &snapshot->data;
    if (data->segment_count > 0) {
        qsort(data->segments, data->segment_count, sizeof *data->segments, by_segment);
    }
    if (data->note_count > 0) {
        qsort(data->notes, data->note_count, sizeof *data->notes, by_time);
    }
    for (size_t i = 0; i < data->segment_count; i++) {
        struct snapshot_place place = snapshot_data_place(data, data->segments[i].place);
        snapshot->private_pools =
            snapshot->private_pools || place.pool[0] != 0 || place.pool[1] != 0;
    }
}

/* --------------------------------------------------------------------- events */

static void fill(const struct snapshot *snapshot, struct recorded *event, enum recorded_kind kind,
                 uint32_t pool) {
    *event = (struct recorded){.kind = kind,
                               .time_ns = snapshot->now_ns,
                               .pool = (uint64_t)pool + 1,
                               .pool_number = pool + 1,
                               .device = (uint64_t)snapshot->pools[pool].device + 1,
                               .tag = "",
                               .name = "",
                               .pool_name = snapshot->pools[pool].name};
}

static void fill_sample(const struct snapshot *snapshot, struct recorded *event, uint32_t pool) {
    fill(snapshot, event, RECORDED_SAMPLE, pool);
    event->sample.reserved = snapshot->pools[pool].reserved;
    event->sample.held = snapshot->pools[pool].held;
    event->sample.rough = true;
}

static void fill_block(struct snapshot *snapshot, struct recorded *event, enum recorded_kind kind,
                       const struct map_block *block) {
    struct snapshot_pool *pool = &snapshot->pools[block->pool];
    fill(snapshot, event, kind, block->pool);
    event->id = block->id;
    event->addr = block->addr;
    event->bytes = block->bytes;
    event->held = block->size;
    pool->held += kind == RECORDED_ALLOC ? block->size : 0 - block->size;
}

/* A block from before the first entry. False: another took its place, as in no whole file. */
static bool take_first(struct snapshot *snapshot, struct recorded *event) {
    const struct snapshot_first *first = &snapshot->first[snapshot->first_next++];
    struct map_block *block = segment_map_find(&snapshot->devices[first->device].map, first->addr);
    if (block == NULL || block->id != 0) {
        return false;
    }
    block->id = ++snapshot->last_id;
    block->pool = snapshot_pool_of(snapshot, first->device, first->place, first->addr);
    fill_block(snapshot, event, RECORDED_ALLOC, block);
    event->stack = first->stack;
    event->queue = snapshot_data_place(&snapshot->data, first->place).stream;
    event->earlier = true;
    return true;
}

static bool take_alloc(struct snapshot *snapshot, uint32_t device,
                       const struct snapshot_event *entry, struct recorded *event) {
    const struct split_rule rule = {snapshot->data.expandable, snapshot->data.split_most};
    bool exact;
    struct map_block *block = segment_map_take(&snapshot->devices[device].map, entry->addr,
                                               entry->size, 0, &rule, &exact);
    if (block == NULL) {
        return refuse_memory(snapshot);
    }
    snapshot->inexact = snapshot->inexact || !exact;
    block->id = ++snapshot->last_id;
    block->pool = snapshot_pool_of(snapshot, device, entry->place, entry->addr);
    fill_block(snapshot, event, RECORDED_ALLOC, block);
    event->stack = entry->stack;
    event->tag = snapshot_data_tag(&snapshot->data, entry->tag);
    event->tag_number = entry->tag;
    event->queue = snapshot_data_place(&snapshot->data, entry->place).stream;
    return true;
}

/* The free of a live block. *there is false for one that was told already, or comes later. */
static bool take_free(struct snapshot *snapshot, uint32_t device,
                      const struct snapshot_event *entry, bool completed, struct recorded *event,
                      bool *there) {
    struct segment_map *map = &snapshot->devices[device].map;
    struct map_block *block = segment_map_find(map, entry->addr);
    if (block == NULL) {
        return true;
    }
    bool now = completed == snapshot->late_frees || completed; /* a request may be lost */
    *there = now && !block->given;
    if (*there) {
        fill_block(snapshot, event, RECORDED_FREE, block);
        event->stack = entry->stack;
        event->queue = snapshot_data_place(&snapshot->data, entry->place).stream;
    }
    block->given = block->given || now;
    return !completed || segment_map_give(map, entry->addr) || refuse_memory(snapshot);
}

static bool take_segment(struct snapshot *snapshot, uint32_t device,
                         const struct snapshot_event *entry, struct recorded *event) {
    enum snapshot_action action = snapshot_action_of(entry);
    bool came = action == SNAPSHOT_SEGMENT_ALLOC || action == SNAPSHOT_SEGMENT_MAP;
    struct segment_map *map = &snapshot->devices[device].map;
    uint32_t index = snapshot_pool_of(snapshot, device, entry->place, entry->addr);
    struct snapshot_pool *pool = &snapshot->pools[index];
    uint64_t most = UINT64_MAX - pool->reserved, least = pool->reserved;
    if (came) {
        pool->reserved += entry->size < most ? entry->size : most;
    } else {
        pool->reserved -= entry->size < least ? entry->size : least;
    }
    fill_sample(snapshot, event, index);
    event->addr = entry->addr;
    event->bytes = entry->size;
    event->status = (int)action;
    event->stack = entry->stack;
    event->queue = snapshot_data_place(&snapshot->data, entry->place).stream;
    bool good = came
                    ? segment_map_add(map, entry->addr, entry->size, action == SNAPSHOT_SEGMENT_MAP)
                    : segment_map_remove(map, entry->addr, entry->size);
    return good || refuse_memory(snapshot);
}

static bool take_entry(struct snapshot *snapshot, uint32_t device,
                       const struct snapshot_event *entry, struct recorded *event, bool *there) {
    *there = true;
    switch (snapshot_action_of(entry)) {
    case SNAPSHOT_ALLOC:
        return take_alloc(snapshot, device, entry, event);
    case SNAPSHOT_FREE_REQUESTED:
    case SNAPSHOT_FREE_COMPLETED:
        *there = false;
        return take_free(snapshot, device, entry,
                         snapshot_action_of(entry) == SNAPSHOT_FREE_COMPLETED, event, there);
    case SNAPSHOT_SEGMENT_ALLOC:
    case SNAPSHOT_SEGMENT_FREE:
    case SNAPSHOT_SEGMENT_MAP:
    case SNAPSHOT_SEGMENT_UNMAP:
        return take_segment(snapshot, device, entry, event);
    case SNAPSHOT_OOM:
        fill(snapshot, event, RECORDED_REFUSE, snapshot_pool_of(snapshot, device, entry->place, 0));
        event->bytes = entry->size;
        event->held = entry->addr; /* PyTorch has device_free there */
        event->status = VRAM_ERR_DEVICE_MEMORY;
        event->stack = entry->stack;
        return true;
    case SNAPSHOT_SNAPSHOT:
        fill(snapshot, event, RECORDED_MARK, 0);
        event->name = "snapshot";
        return true;
    case SNAPSHOT_OTHER:
        snapshot->other_actions++;
        break;
    }
    *there = false;
    return true;
}

/* ---------------------------------------------------------------------- order */

static uint64_t time_of(const struct snapshot *snapshot, uint32_t device) {
    const struct snapshot_events *events = &snapshot->data.devices[device];
    const struct snapshot_device *state = &snapshot->devices[device];
    if (!snapshot->data.timed) {
        return state->next; /* entries are counted instead */
    }
    uint64_t time = events->all[state->next].time_action >> 4;
    return time > state->now_us ? time : state->now_us;
}

/* The device whose entry is next; false: there is none. */
static bool next_device(const struct snapshot *snapshot, uint32_t *device) {
    bool found = false;
    for (uint32_t i = 0; i < snapshot->data.device_count; i++) {
        bool more = snapshot->devices[i].next < snapshot->data.devices[i].count;
        if (more && (!found || time_of(snapshot, i) < time_of(snapshot, *device))) {
            *device = i;
            found = true;
        }
    }
    return found;
}

static void set_time(struct snapshot *snapshot, uint64_t time_us) {
    uint64_t us = time_us > snapshot->first_us ? time_us - snapshot->first_us : 0;
    uint64_t ns = us < UINT64_MAX / 1000 ? us * 1000 : UINT64_MAX;
    snapshot->now_ns = ns > snapshot->now_ns ? ns : snapshot->now_ns;
}

/* A mark of the program's that is due before `time_us`. */
static bool take_note(struct snapshot *snapshot, uint64_t time_us, struct recorded *event) {
    const struct snapshot_data *data = &snapshot->data;
    if (snapshot->note_next == data->note_count || !data->timed ||
        data->notes[snapshot->note_next].time_us > time_us) {
        return false;
    }
    const struct snapshot_note *note = &data->notes[snapshot->note_next++];
    set_time(snapshot, note->time_us);
    fill(snapshot, event, RECORDED_MARK, 0);
    event->name = interner_text(&data->stacks.texts, note->text);
    return true;
}

/* An allocation where one is live: the free between them is not in the file. */
static bool imply_free(struct snapshot *snapshot, uint32_t device,
                       const struct snapshot_event *entry, struct recorded *event, bool *there) {
    if (snapshot_action_of(entry) != SNAPSHOT_ALLOC ||
        segment_map_find(&snapshot->devices[device].map, entry->addr) == NULL) {
        return false;
    }
    snapshot->inexact = true;
    return take_free(snapshot, device, entry, true, event, there);
}

bool snapshot_next(struct snapshot *snapshot, struct recorded *event, bool *there) {
    uint32_t device = 0;
    *there = true;
    while (snapshot->pool_next < snapshot->pool_keys.count &&
           snapshot->pool_next < SNAPSHOT_POOLS_MAX && snapshot->first_next == 0) {
        uint32_t pool = (uint32_t)snapshot->pool_next++;
        if (snapshot->pools[pool].reserved > 0) {
            fill_sample(snapshot, event, pool);
            return true;
        }
    }
    while (snapshot->first_next < snapshot->first_count) {
        if (take_first(snapshot, event)) {
            return true;
        }
    }
    *there = false;
    while (!*there && next_device(snapshot, &device)) {
        uint64_t time = time_of(snapshot, device);
        struct snapshot_device *state = &snapshot->devices[device];
        const struct snapshot_event *entry = &snapshot->data.devices[device].all[state->next];
        if (take_note(snapshot, time, event)) {
            *there = true;
            return true;
        }
        state->now_us = time;
        set_time(snapshot, time);
        if (imply_free(snapshot, device, entry, event, there)) {
            continue;
        }
        state->next++;
        snapshot->event_count++;
        if (!take_entry(snapshot, device, entry, event, there)) {
            return false;
        }
    }
    if (!*there) {
        *there = take_note(snapshot, UINT64_MAX, event);
    }
    return true;
}

/* ------------------------------------------------------------- open and close */

bool snapshot_open(struct snapshot *snapshot, struct trace_source *source) {
    bool late = snapshot->late_frees;
    memset(snapshot, 0, sizeof *snapshot);
    snapshot->late_frees = late;
    if (!snapshot_data_read(&snapshot->data, source, &snapshot->problem_at, snapshot->problem,
                            sizeof snapshot->problem)) {
        return false;
    }
    size_t count = snapshot->data.device_count;
    snapshot->devices = calloc(count + 1, sizeof *snapshot->devices);
    if (snapshot->devices == NULL ||
        !interner_begin(&snapshot->pool_keys, &snapshot->data.budget)) {
        return refuse_memory(snapshot);
    }
    snapshot->first_us = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct snapshot_events *events = &snapshot->data.devices[i];
        uint64_t time = events->count > 0 ? events->all[0].time_action >> 4 : UINT64_MAX;
        snapshot->first_us = time < snapshot->first_us ? time : snapshot->first_us;
        if (!segment_map_begin(&snapshot->devices[i].map)) {
            return refuse_memory(snapshot);
        }
    }
    snapshot->first_us = snapshot->data.timed ? snapshot->first_us : 0;
    prepare_tables(snapshot);
    return snapshot_find_start(snapshot) || refuse_memory(snapshot);
}

void snapshot_close(struct snapshot *snapshot) {
    for (size_t i = 0; snapshot->devices != NULL && i < snapshot->data.device_count; i++) {
        segment_map_free(&snapshot->devices[i].map);
    }
    free(snapshot->devices);
    free(snapshot->first);
    interner_free(&snapshot->pool_keys);
    snapshot_data_free(&snapshot->data);
    memset(snapshot, 0, sizeof *snapshot);
}
