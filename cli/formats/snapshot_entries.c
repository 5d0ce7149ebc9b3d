/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_entries.c: the dictionaries of a snapshot in compact form; see snapshot_machine.h. What
 * a dictionary is its keys tell.
 */
#include "snapshot_machine.h"

#include "replay/shard_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The known keys are the first texts of the table, so that a key is its number. */
enum key {
    KEY_NONE,
    KEY_ACTION,
    KEY_ADDR,
    KEY_SIZE,
    KEY_STREAM,
    KEY_TIME,
    KEY_FRAMES,
    KEY_METADATA,
    KEY_CONTEXT,
    KEY_POOL,
    KEY_DEVICE_FREE,
    KEY_NAME,
    KEY_FILENAME,
    KEY_LINE,
    KEY_ADDRESS,
    KEY_REQUESTED,
    KEY_STATE,
    KEY_TOTAL,
    KEY_DEVICE,
    KEY_SEGMENT_POOL,
    KEY_EXPANDABLE,
    KEY_BLOCKS,
    KEY_STAGE,
    KEY_COUNT
};

static const char *const key_names[KEY_COUNT] = {
    [KEY_ACTION] = "action",
    [KEY_ADDR] = "addr",
    [KEY_SIZE] = "size",
    [KEY_STREAM] = "stream",
    [KEY_TIME] = "time_us",
    [KEY_FRAMES] = "frames",
    [KEY_METADATA] = "user_metadata",
    [KEY_CONTEXT] = "compile_context",
    [KEY_POOL] = "pool_id",
    [KEY_DEVICE_FREE] = "device_free",
    [KEY_NAME] = "name",
    [KEY_FILENAME] = "filename",
    [KEY_LINE] = "line",
    [KEY_ADDRESS] = "address",
    [KEY_REQUESTED] = "requested_size",
    [KEY_STATE] = "state",
    [KEY_TOTAL] = "total_size",
    [KEY_DEVICE] = "device",
    [KEY_SEGMENT_POOL] = "segment_pool_id",
    [KEY_EXPANDABLE] = "is_expandable",
    [KEY_BLOCKS] = "blocks",
    [KEY_STAGE] = "stage",
};

/* The value of each key of one dictionary; kind VALUE_NONE: it has none. */
struct entry_fields {
    struct value of[KEY_COUNT];
};

static uint64_t number_of(const struct entry_fields *fields, enum key key) {
    return fields->of[key].kind == VALUE_NUMBER ? fields->of[key].data : 0;
}

/* Whether the value is a number of bytes; else the snapshot is refused. */
static bool has_bytes(struct snapshot_machine *machine, const struct entry_fields *fields,
                      enum key key) {
    struct value value = fields->of[key];
    if (value.kind != VALUE_NUMBER) {
        return pickle_refuse(&machine->pickle, "%s is not a whole number", key_names[key]);
    }
    return value.data <= RECORDED_BYTES_MAX ||
           pickle_refuse(&machine->pickle, "%s is %" PRId64 ", not a number of bytes",
                         key_names[key], (int64_t)value.data);
}

static uint32_t stack_of(struct snapshot_machine *machine, const struct entry_fields *fields) {
    struct value frames = fields->of[KEY_FRAMES];
    if (frames.kind == VALUE_STACK) {
        return (uint32_t)frames.data;
    }
    snapshot_machine_give(machine, frames); /* an empty list */
    return 0;
}

static enum snapshot_action action_of(const char *name) {
    static const char *const names[] = {
        [SNAPSHOT_OTHER] = "",
        [SNAPSHOT_ALLOC] = "alloc",
        [SNAPSHOT_FREE_REQUESTED] = "free_requested",
        [SNAPSHOT_FREE_COMPLETED] = "free_completed",
        [SNAPSHOT_SEGMENT_ALLOC] = "segment_alloc",
        [SNAPSHOT_SEGMENT_FREE] = "segment_free",
        [SNAPSHOT_SEGMENT_MAP] = "segment_map",
        [SNAPSHOT_SEGMENT_UNMAP] = "segment_unmap",
        [SNAPSHOT_SNAPSHOT] = "snapshot",
        [SNAPSHOT_OOM] = "oom",
    };
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return (enum snapshot_action)i;
        }
    }
    return SNAPSHOT_OTHER;
}

/* The number of stream and pool; more than there can be share the last. */
static bool place_of(struct snapshot_machine *machine, const struct entry_fields *fields,
                     enum key pool_key, uint16_t *place) {
    struct snapshot_data *data = machine->data;
    struct snapshot_place made;
    size_t bytes;
    memset(&made, 0, sizeof made);
    made.stream = number_of(fields, KEY_STREAM);
    if (fields->of[pool_key].kind == VALUE_PAIR) {
        memcpy(made.pool, interner_get(&data->pairs, (uint32_t)fields->of[pool_key].data, &bytes),
               sizeof made.pool);
        made.pool_known = true;
    }
    uint32_t number = interner_number(&data->places, &made, sizeof made);
    *place = (uint16_t)((number < SNAPSHOT_PLACES_MAX ? number : SNAPSHOT_PLACES_MAX) - 1);
    return number != 0 || snapshot_machine_refuse_memory(machine);
}

/* What the program has said about it: user_metadata, else the part of a compiled graph. */
static bool tag_of(struct snapshot_machine *machine, const struct entry_fields *fields,
                   uint16_t *tag) {
    struct value text = fields->of[KEY_METADATA];
    if (snapshot_machine_text(machine, text)[0] == 0) {
        text = fields->of[KEY_CONTEXT];
    }
    const char *words = snapshot_machine_text(machine, text);
    *tag = 0;
    if (words[0] == 0 || strcmp(words, "N/A") == 0) {
        return true;
    }
    uint32_t number = (uint32_t)text.data;
    number = interner_number(&machine->data->tags, &number, sizeof number);
    *tag = (uint16_t)(number < SNAPSHOT_TAGS_MAX ? number : SNAPSHOT_TAGS_MAX);
    return number != 0 || snapshot_machine_refuse_memory(machine);
}

static bool grow_pending(struct snapshot_machine *machine) {
    uint32_t old = machine->pending_capacity, capacity = old > 0 ? old * 2 : 1024;
    uint64_t *budget = &machine->data->budget;
    struct snapshot_event *pending =
        budget_grow(budget, machine->pending, old * sizeof *pending, capacity * sizeof *pending);
    machine->pending = pending != NULL ? pending : machine->pending;
    uint32_t *unused = budget_grow(budget, machine->pending_unused, old * sizeof *unused,
                                   capacity * sizeof *unused);
    machine->pending_unused = unused != NULL ? unused : machine->pending_unused;
    if (pending == NULL || unused == NULL || capacity > UINT32_C(1) << 28) {
        return snapshot_machine_refuse_memory(machine);
    }
    machine->pending_capacity = capacity;
    return true;
}

static bool make_event(struct snapshot_machine *machine, const struct entry_fields *fields,
                       struct value *entry) {
    struct snapshot_event event = {.size = number_of(fields, KEY_SIZE)};
    enum snapshot_action action = action_of(snapshot_machine_text(machine, fields->of[KEY_ACTION]));
    bool freed = fields->of[KEY_ADDR].kind == VALUE_NONE; /* an oom has device_free instead */
    bool places = action >= SNAPSHOT_ALLOC && action <= SNAPSHOT_SEGMENT_UNMAP;
    if (places && !has_bytes(machine, fields, KEY_SIZE)) {
        return false;
    }
    if (places && freed) {
        return pickle_refuse(&machine->pickle, "addr is not a whole number");
    }
    if (number_of(fields, KEY_TIME) > UINT64_MAX >> 4) {
        return pickle_refuse(&machine->pickle, "time_us is %" PRId64 ", not a time",
                             (int64_t)number_of(fields, KEY_TIME));
    }
    event.addr = number_of(fields, freed ? KEY_DEVICE_FREE : KEY_ADDR);
    event.time_action = number_of(fields, KEY_TIME) << 4 | (uint64_t)action;
    event.stack = stack_of(machine, fields);
    machine->data->timed = machine->data->timed || fields->of[KEY_TIME].kind == VALUE_NUMBER;
    if (!place_of(machine, fields, KEY_POOL, &event.place) ||
        !tag_of(machine, fields, &event.tag)) {
        return false;
    }
    uint32_t index;
    if (machine->pending_unused_count > 0) {
        index = machine->pending_unused[--machine->pending_unused_count];
    } else {
        if (machine->pending_count == machine->pending_capacity && !grow_pending(machine)) {
            return false;
        }
        index = machine->pending_count++;
    }
    machine->pending[index] = event;
    *entry = (struct value){VALUE_EVENT, index};
    return true;
}

static bool make_frame(struct snapshot_machine *machine, const struct entry_fields *fields,
                       struct value *entry) {
    struct value name = fields->of[KEY_NAME], file = fields->of[KEY_FILENAME];
    uint64_t line = number_of(fields, KEY_LINE);
    struct stack_frame frame = {
        .name = name.kind == VALUE_TEXT ? (uint32_t)name.data : 0,
        .file = file.kind == VALUE_TEXT ? (uint32_t)file.data : 0,
        .line = line < UINT32_MAX ? (uint32_t)line : 0,
    };
    uint32_t number = stack_table_frame(&machine->data->stacks, &frame);
    *entry = (struct value){VALUE_FRAME, number};
    return number != 0 || snapshot_machine_refuse_memory(machine);
}

/* One more element of an array of the data. */
static bool grow_data(struct snapshot_machine *machine, void *array, size_t count, size_t *capacity,
                      size_t bytes) {
    void **at = array;
    if (count < *capacity) {
        return true;
    }
    size_t wanted = *capacity > 0 ? *capacity * 2 : 64;
    void *grown = budget_grow(&machine->data->budget, *at, *capacity * bytes, wanted * bytes);
    if (grown == NULL) {
        return snapshot_machine_refuse_memory(machine);
    }
    *at = grown;
    *capacity = wanted;
    return true;
}

static bool make_block(struct snapshot_machine *machine, const struct entry_fields *fields,
                       struct value *entry) {
    struct snapshot_data *data = machine->data;
    const char *state = snapshot_machine_text(machine, fields->of[KEY_STATE]);
    struct snapshot_block block = {.addr = number_of(fields, KEY_ADDRESS),
                                   .size = number_of(fields, KEY_SIZE),
                                   .requested = number_of(fields, KEY_REQUESTED),
                                   .stack = stack_of(machine, fields),
                                   .active = strncmp(state, "active", 6) == 0,
                                   .addr_known = fields->of[KEY_ADDRESS].kind == VALUE_NUMBER};
    bool told = fields->of[KEY_REQUESTED].kind == VALUE_NUMBER;
    block.requested = told ? block.requested : block.size;
    if (!has_bytes(machine, fields, KEY_SIZE) ||
        (told && !has_bytes(machine, fields, KEY_REQUESTED)) ||
        !grow_data(machine, &data->blocks, data->block_count, &data->block_capacity,
                   sizeof *data->blocks)) {
        return false;
    }
    data->blocks[data->block_count] = block;
    *entry = (struct value){VALUE_BLOCK, data->block_count++};
    return true;
}

/* The blocks of a segment were made one after another, just before it. */
static bool take_blocks(struct snapshot_machine *machine, const struct entry_fields *fields,
                        struct snapshot_segment *segment) {
    struct snapshot_data *data = machine->data;
    struct object *list = snapshot_machine_object(machine, fields->of[KEY_BLOCKS], OBJECT_LIST);
    if (list == NULL || list->count == 0) {
        return true;
    }
    segment->first_block = (size_t)list->items[0].data;
    segment->block_count = list->count;
    uint64_t addr = segment->addr;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind != VALUE_BLOCK || list->items[i].data != segment->first_block + i) {
            return pickle_refuse(&machine->pickle, "the blocks of a segment are not its own");
        }
        struct snapshot_block *block = &data->blocks[segment->first_block + i];
        block->addr = block->addr_known ? block->addr : addr;
        addr = block->addr + block->size;
    }
    snapshot_machine_give(machine, fields->of[KEY_BLOCKS]);
    return true;
}

static bool make_segment(struct snapshot_machine *machine, const struct entry_fields *fields,
                         struct value *entry) {
    struct snapshot_data *data = machine->data;
    uint64_t device = number_of(fields, KEY_DEVICE);
    struct snapshot_segment segment = {
        .addr = number_of(fields, KEY_ADDRESS),
        .size = number_of(fields, KEY_TOTAL),
        .device = device < SNAPSHOT_DEVICES_MAX ? (uint32_t)device : SNAPSHOT_DEVICES_MAX - 1,
        .expandable = number_of(fields, KEY_EXPANDABLE) != 0};
    stack_of(machine, fields);
    if (!has_bytes(machine, fields, KEY_TOTAL) ||
        !place_of(machine, fields, KEY_SEGMENT_POOL, &segment.place) ||
        !take_blocks(machine, fields, &segment) ||
        !grow_data(machine, &data->segments, data->segment_count, &data->segment_capacity,
                   sizeof *data->segments)) {
        return false;
    }
    data->segments[data->segment_count] = segment;
    *entry = (struct value){VALUE_SEGMENT, data->segment_count++};
    return true;
}

static bool make_note(struct snapshot_machine *machine, const struct entry_fields *fields,
                      struct value *entry) {
    struct snapshot_data *data = machine->data;
    struct value name = fields->of[KEY_NAME];
    bool starts = strcmp(snapshot_machine_text(machine, fields->of[KEY_STAGE]), "START") == 0;
    struct snapshot_note note = {.time_us = number_of(fields, KEY_TIME),
                                 .text = name.kind == VALUE_TEXT ? (uint32_t)name.data : 0};
    if (!grow_data(machine, &data->notes, data->note_count, &data->note_capacity,
                   sizeof *data->notes)) {
        return false;
    }
    *entry = (struct value){VALUE_NOTE, data->note_count};
    data->notes[data->note_count] = note;
    data->note_count += starts;
    return true;
}

bool snapshot_entry_make(struct snapshot_machine *machine, const struct value *items, size_t count,
                         struct value *entry) {
    struct entry_fields fields;
    memset(&fields, 0, sizeof fields);
    for (size_t i = 0; i + 1 < count; i += 2) {
        if (items[i].kind == VALUE_TEXT && items[i].data < KEY_COUNT) {
            fields.of[items[i].data] = items[i + 1];
        }
    }
    if (fields.of[KEY_ACTION].kind == VALUE_TEXT) {
        return make_event(machine, &fields, entry);
    }
    if (fields.of[KEY_FILENAME].kind != VALUE_NONE && fields.of[KEY_LINE].kind != VALUE_NONE) {
        return make_frame(machine, &fields, entry);
    }
    if (fields.of[KEY_TOTAL].kind == VALUE_NUMBER) {
        return make_segment(machine, &fields, entry);
    }
    if (fields.of[KEY_STATE].kind == VALUE_TEXT && fields.of[KEY_SIZE].kind == VALUE_NUMBER) {
        return make_block(machine, &fields, entry);
    }
    if (fields.of[KEY_STAGE].kind == VALUE_TEXT) {
        return make_note(machine, &fields, entry);
    }
    return true;
}

/* ---------------------------------------------------------------- the whole */

/* The value of a key of a dictionary of any other kind. */
static struct value value_of(struct snapshot_machine *machine, struct value dict,
                             const char *name) {
    struct object *object = snapshot_machine_object(machine, dict, OBJECT_DICT);
    for (size_t i = 0; object != NULL && i + 1 < object->count; i += 2) {
        if (strcmp(snapshot_machine_text(machine, object->items[i]), name) == 0) {
            return object->items[i + 1];
        }
    }
    return (struct value){VALUE_NONE, 0};
}

/* Takes the histories over: one of each device, in their order. */
static bool take_traces(struct snapshot_machine *machine, struct value traces) {
    struct snapshot_data *data = machine->data;
    struct object *list = snapshot_machine_object(machine, traces, OBJECT_LIST);
    if (list == NULL) {
        return pickle_refuse(&machine->pickle, "this pickle is not a memory snapshot: it has no "
                                               "device_traces");
    }
    if (list->count > SNAPSHOT_DEVICES_MAX) {
        return pickle_refuse(&machine->pickle, "the snapshot has more than %d devices",
                             SNAPSHOT_DEVICES_MAX);
    }
    for (size_t i = 0; i < list->count; i++) {
        struct object *events = snapshot_machine_object(machine, list->items[i], OBJECT_EVENTS);
        if (events != NULL) { /* one that comes twice is empty the second time */
            data->devices[i] =
                (struct snapshot_events){events->events, events->count, events->capacity};
            events->events = NULL;
            events->count = events->capacity = 0;
        }
    }
    data->device_count = list->count;
    return true;
}

/* Of the segments only those of the GPUs stay: page-locked host memory has a list of its own. */
static void take_segments(struct snapshot_machine *machine, struct value segments) {
    struct snapshot_data *data = machine->data;
    struct object *list = snapshot_machine_object(machine, segments, OBJECT_LIST);
    size_t kept = 0;
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        size_t index = (size_t)list->items[i].data;
        if (list->items[i].kind == VALUE_SEGMENT && index >= kept) { /* in order, and each once */
            data->segments[kept++] = data->segments[index];
        }
    }
    data->segment_count = kept;
}

static bool take_all(struct snapshot_machine *machine, struct value root) {
    struct snapshot_data *data = machine->data;
    take_segments(machine, value_of(machine, root, "segments"));
    struct value settings = value_of(machine, root, "allocator_settings");
    uint64_t most = value_of(machine, settings, "max_split_size").data;
    data->expandable = value_of(machine, settings, "expandable_segments").data != 0;
    data->split_most = most < UINT64_MAX >> 1 ? most : 0;
    data->bytes = machine->pickle.offset;
    return take_traces(machine, value_of(machine, root, "device_traces"));
}

static bool begin_data(struct snapshot_data *data) {
    memset(data, 0, sizeof *data);
    data->budget = SNAPSHOT_MEMORY_MAX;
    bool stacks = stack_table_begin(&data->stacks, &data->budget);
    bool places = interner_begin(&data->places, &data->budget);
    bool tags = interner_begin(&data->tags, &data->budget);
    bool good = interner_begin(&data->pairs, &data->budget) && stacks && places && tags;
    for (uint32_t i = 1; good && i < KEY_COUNT; i++) {
        good = stack_table_text(&data->stacks, key_names[i], strlen(key_names[i])) == i;
    }
    return good;
}

bool snapshot_data_read(struct snapshot_data *data, struct trace_source *source,
                        uint64_t *problem_at, char *problem, size_t problem_bytes) {
    struct snapshot_machine *machine = calloc(1, sizeof *machine);
    struct value root;
    *problem_at = 0;
    if (!begin_data(data) || machine == NULL) {
        snprintf(problem, problem_bytes, "out of host memory");
        free(machine);
        return false;
    }
    machine->data = data;
    pickle_begin(&machine->pickle, source);
    bool good = snapshot_machine_run(machine, &root) && take_all(machine, root);
    if (!good) {
        snprintf(problem, problem_bytes, "%s", machine->pickle.problem);
        *problem_at = machine->pickle.problem_at;
    }
    snapshot_machine_free(machine);
    free(machine);
    return good;
}

void snapshot_data_free(struct snapshot_data *data) {
    for (size_t i = 0; i < SNAPSHOT_DEVICES_MAX; i++) {
        free(data->devices[i].all);
    }
    stack_table_free(&data->stacks);
    interner_free(&data->places);
    interner_free(&data->tags);
    interner_free(&data->pairs);
    free(data->segments);
    free(data->blocks);
    free(data->notes);
    memset(data, 0, sizeof *data);
}

struct snapshot_place snapshot_data_place(const struct snapshot_data *data, uint16_t place) {
    struct snapshot_place made;
    size_t bytes;
    const void *known = interner_get(&data->places, (uint32_t)place + 1, &bytes);
    memset(&made, 0, sizeof made);
    if (known != NULL) {
        memcpy(&made, known, sizeof made);
    }
    return made;
}

const char *snapshot_data_tag(const struct snapshot_data *data, uint16_t tag) {
    uint32_t text = 0;
    size_t bytes;
    const void *known = interner_get(&data->tags, tag, &bytes);
    if (known != NULL) {
        memcpy(&text, known, sizeof text);
    }
    return interner_text(&data->stacks.texts, text);
}
