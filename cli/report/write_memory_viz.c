/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_memory_viz.c: a trace as PyTorch's memory snapshot, for pytorch.org/memory_viz and for
 * torch.cuda._memory_viz; see report_writer.h and formats/snapshot_data.h.
 *
 * Each device has a list of its own, and devices come in any order: each list goes to a temporary
 * file first. Frames and stacks are written once for each device and referred to afterwards.
 */
#include "pickle_writer.h"
#include "report_writer.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 1000 }; /* as Python's own writer: a reader holds that many values */

/* Texts that come again and again: the first numbers of the memo. */
enum word {
    WORD_ACTION,
    WORD_ADDR,
    WORD_SIZE,
    WORD_STREAM,
    WORD_TIME,
    WORD_FRAMES,
    WORD_METADATA,
    WORD_POOL,
    WORD_NAME,
    WORD_FILENAME,
    WORD_LINE,
    WORD_ALLOC,
    WORD_FREE_REQUESTED,
    WORD_FREE_COMPLETED,
    WORD_OOM,
    WORD_DEVICE_FREE,
    WORD_SEGMENT_ALLOC,
    WORD_SEGMENT_FREE,
    WORD_SEGMENT_MAP,
    WORD_SEGMENT_UNMAP,
    WORD_COUNT
};

static const char *const words[WORD_COUNT] = {
    "action",      "addr",          "size",           "stream",         "time_us",
    "frames",      "user_metadata", "pool_id",        "name",           "filename",
    "line",        "alloc",         "free_requested", "free_completed", "oom",
    "device_free", "segment_alloc", "segment_free",   "segment_map",    "segment_unmap"};

struct viz_device {
    uint64_t handle;
    FILE *file;
    uint32_t *stacks; /* memo of each stack; 0: not written yet */
    size_t stack_capacity;
    struct interner frames; /* texts; their memo numbers are in frame_memo */
    uint32_t *frame_memo;
    size_t frame_capacity;
    uint64_t in_batch;
};

struct viz {
    struct report_writer *writer;
    struct viz_device devices[SNAPSHOT_DEVICES_MAX];
    size_t device_count;
    uint32_t next_memo;
    uint64_t budget, first_us;
    FILE *notes;
    uint64_t note_count;
};

/* -------------------------------------------------------------------- devices */

void write_memory_viz_forget(struct report_writer *writer) {
    struct viz *viz = writer->state;
    for (size_t i = 0; i < viz->device_count; i++) {
        struct viz_device *device = &viz->devices[i];
        if (device->file != NULL) {
            fclose(device->file);
        }
        free(device->stacks);
        free(device->frame_memo);
        interner_free(&device->frames);
    }
    if (viz->notes != NULL) {
        fclose(viz->notes);
    }
    free(viz);
}

/* The list of a device; those that are more than there can be share the last. A snapshot's devices
   keep their numbers. */
static struct viz_device *device_of(struct viz *viz, uint64_t handle) {
    bool numbered = viz->writer->input->format == FORMAT_SNAPSHOT && handle > 0;
    size_t i = 0, wanted = numbered ? (size_t)handle : viz->device_count + 1;
    while (i < viz->device_count && viz->devices[i].handle != handle) {
        i++;
    }
    if (i < viz->device_count) {
        return &viz->devices[i];
    }
    wanted = wanted < SNAPSHOT_DEVICES_MAX ? wanted : SNAPSHOT_DEVICES_MAX;
    while (viz->device_count < wanted) {
        struct viz_device *device = &viz->devices[viz->device_count++];
        device->handle = numbered ? viz->device_count : handle;
        device->file = tmpfile();
        if (!interner_begin(&device->frames, &viz->budget) || device->file == NULL) {
            return NULL;
        }
    }
    return &viz->devices[wanted - 1];
}

static bool fit(uint32_t **array, size_t *capacity, size_t index) {
    if (index < *capacity) {
        return true;
    }
    size_t wanted = *capacity * 2 > index + 64 ? *capacity * 2 : index + 64;
    uint32_t *grown = realloc(*array, wanted * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    memset(grown + *capacity, 0, (wanted - *capacity) * sizeof *grown);
    *array = grown;
    *capacity = wanted;
    return true;
}

/* --------------------------------------------------------------------- frames */

static void write_word(FILE *to, enum word word) {
    pickle_write_get(to, (uint32_t)word);
}

/* "name (file:line)" and "name (file:line, module)" are taken apart again. */
static uint64_t split_frame(char *text, const char **file) {
    char *open = NULL, *at = text;
    uint64_t line = 0;
    *file = "";
    while ((at = strstr(at, " (")) != NULL) {
        open = at++;
    }
    size_t length = strlen(text);
    if (open == NULL || text[length - 1] != ')') {
        return 0;
    }
    char *inside = open + 2, *end = inside + strcspn(inside, ",)"), *colon = NULL;
    for (char *c = inside; c < end; c++) {
        colon = *c == ':' ? c : colon;
    }
    if (colon == NULL || strspn(colon + 1, "0123456789") != (size_t)(end - colon - 1)) {
        return 0;
    }
    line = strtoull(colon + 1, NULL, 10);
    *open = *colon = 0;
    *file = inside;
    return line;
}

static bool write_frame(struct viz *viz, struct viz_device *device, const char *frame) {
    FILE *to = device->file;
    char text[STACK_TABLE_TEXT_MAX + 1];
    const char *file;
    uint32_t known = device->frames.count;
    uint32_t number = interner_number(&device->frames, frame, strlen(frame));
    if (number == 0 || !fit(&device->frame_memo, &device->frame_capacity, number)) {
        return false;
    }
    if (device->frames.count == known) {
        pickle_write_get(to, device->frame_memo[number]);
        return true;
    }
    device->frame_memo[number] = viz->next_memo;
    snprintf(text, sizeof text, "%s", frame);
    uint64_t line = split_frame(text, &file);
    pickle_write_dict(to);
    pickle_write_put(to, viz->next_memo++);
    pickle_write_mark(to);
    write_word(to, WORD_NAME);
    pickle_write_text(to, text);
    write_word(to, WORD_FILENAME);
    pickle_write_text(to, file);
    write_word(to, WORD_LINE);
    pickle_write_number(to, line);
    pickle_write_items(to);
    return true;
}

static bool write_stack(struct viz *viz, struct viz_device *device, uint32_t stack) {
    FILE *to = device->file;
    const char *frame;
    if (!fit(&device->stacks, &device->stack_capacity, stack)) {
        return false;
    }
    if (device->stacks[stack] != 0) {
        pickle_write_get(to, device->stacks[stack]);
        return true;
    }
    device->stacks[stack] = viz->next_memo;
    pickle_write_list(to);
    pickle_write_put(to, viz->next_memo++);
    pickle_write_mark(to);
    for (uint32_t i = 0; (frame = report_input_frame(viz->writer->input, stack, i)) != NULL; i++) {
        char text[STACK_TABLE_TEXT_MAX + 1];
        snprintf(text, sizeof text, "%s", frame);
        if (!write_frame(viz, device, text)) {
            return false;
        }
    }
    pickle_write_appends(to);
    return true;
}

/* -------------------------------------------------------------------- entries */

struct entry {
    enum word action;
    uint64_t addr, size, stream, time_ns, pool[2];
    uint32_t stack;
    const char *tag;
};

static bool write_entry(struct viz *viz, struct viz_device *device, const struct entry *entry) {
    FILE *to = device->file;
    if (device->in_batch == BATCH) {
        pickle_write_appends(to);
        pickle_write_mark(to);
        device->in_batch = 0;
    }
    device->in_batch++;
    pickle_write_dict(to);
    pickle_write_mark(to);
    write_word(to, WORD_ACTION);
    write_word(to, entry->action);
    write_word(to, entry->action == WORD_OOM ? WORD_DEVICE_FREE : WORD_ADDR);
    pickle_write_number(to, entry->addr);
    write_word(to, WORD_SIZE);
    pickle_write_number(to, entry->size);
    write_word(to, WORD_STREAM);
    pickle_write_number(to, entry->stream);
    write_word(to, WORD_TIME);
    pickle_write_number(to, viz->first_us + entry->time_ns / 1000);
    write_word(to, WORD_POOL);
    pickle_write_number(to, entry->pool[0]);
    pickle_write_number(to, entry->pool[1]);
    pickle_write_pair(to);
    if (entry->tag[0] != 0) {
        write_word(to, WORD_METADATA);
        pickle_write_text(to, entry->tag);
    }
    write_word(to, WORD_FRAMES);
    if (!write_stack(viz, device, entry->stack)) {
        return false;
    }
    pickle_write_items(to);
    return true;
}

/* The first pool is the default one; the others are private. */
static void fill_pool(const struct viz *viz, uint32_t pool_number, struct entry *entry) {
    if (viz->writer->input->format == FORMAT_SNAPSHOT) {
        snapshot_pool_id(viz->writer->input->events.snapshot, pool_number, entry->pool);
    } else {
        entry->pool[1] = pool_number > 0 ? pool_number - 1 : 0;
    }
}

static bool write_block(struct viz *viz, const struct flow_block *block, enum word action,
                        uint64_t time_ns) {
    struct viz_device *device = device_of(viz, block->device);
    struct entry entry = {.action = action,
                          .addr = block->addr,
                          .size = block->bytes,
                          .stream = block->queue,
                          .time_ns = time_ns,
                          .stack = block->stack,
                          .tag = action == WORD_ALLOC ? block->tag : ""};
    fill_pool(viz, block->pool_number, &entry);
    return device != NULL && write_entry(viz, device, &entry);
}

/* A block from before the history is in the final segments, or only freed: PyTorch has no entry for
   it either. */
static bool viz_alloc(void *user, struct flow_block *block) {
    return block->earlier || write_block(user, block, WORD_ALLOC, block->time_ns);
}

static bool viz_free(void *user, const struct flow_block *block, uint64_t time_ns) {
    return write_block(user, block, WORD_FREE_REQUESTED, time_ns) &&
           write_block(user, block, WORD_FREE_COMPLETED, time_ns);
}

/* A refusal, or what a segment did. */
static bool write_other(struct viz *viz, const struct recorded *event, enum word action) {
    struct viz_device *device = device_of(viz, event->device);
    struct entry entry = {.action = action,
                          .addr = event->addr,
                          .size = event->bytes,
                          .stream = event->queue,
                          .time_ns = event->time_ns,
                          .stack = event->stack,
                          .tag = ""};
    fill_pool(viz, event->pool_number, &entry);
    return device != NULL && write_entry(viz, device, &entry);
}

static void write_note(struct viz *viz, const struct recorded *event) {
    FILE *to = viz->notes;
    pickle_write_dict(to);
    pickle_write_mark(to);
    pickle_write_text(to, "stage");
    pickle_write_text(to, "START");
    write_word(to, WORD_NAME);
    pickle_write_text(to, event->name);
    pickle_write_text(to, "device");
    pickle_write_number(to, 0);
    write_word(to, WORD_TIME);
    pickle_write_number(to, viz->first_us + event->time_ns / 1000);
    pickle_write_items(to);
    if (++viz->note_count % BATCH == 0) {
        pickle_write_appends(to);
        pickle_write_mark(to);
    }
}

static bool viz_other(void *user, const struct recorded *event) {
    if (event->kind == RECORDED_REFUSE) {
        return write_other(user, event, WORD_OOM);
    }
    if (event->kind == RECORDED_MARK) {
        write_note(user, event);
    }
    if (event->kind != RECORDED_SAMPLE || event->bytes == 0) {
        return true;
    }
    switch (event->status) {
    case SNAPSHOT_SEGMENT_ALLOC:
        return write_other(user, event, WORD_SEGMENT_ALLOC);
    case SNAPSHOT_SEGMENT_FREE:
        return write_other(user, event, WORD_SEGMENT_FREE);
    case SNAPSHOT_SEGMENT_MAP:
        return write_other(user, event, WORD_SEGMENT_MAP);
    case SNAPSHOT_SEGMENT_UNMAP:
        return write_other(user, event, WORD_SEGMENT_UNMAP);
    default:
        return true;
    }
}

/* ------------------------------------------------------------- begin and end */

bool write_memory_viz_begin(struct report_writer *writer) {
    struct viz *viz = calloc(1, sizeof *viz);
    if (viz == NULL) {
        return false;
    }
    const struct flow_writer flow = {
        .user = viz, .alloc = viz_alloc, .free = viz_free, .other = viz_other};
    writer->state = viz;
    viz->writer = writer;
    viz->next_memo = WORD_COUNT;
    viz->budget = SNAPSHOT_MEMORY_MAX;
    viz->notes = tmpfile();
    viz->first_us =
        writer->input->format == FORMAT_SNAPSHOT ? writer->input->events.snapshot->first_us : 0;
    return block_flow_begin(&writer->flow, &flow) && viz->notes != NULL;
}

static bool copy_file(FILE *from, FILE *to) {
    char buffer[1 << 14];
    size_t bytes;
    if (fflush(from) != 0 || fseek(from, 0, SEEK_SET) != 0) {
        return false;
    }
    while ((bytes = fread(buffer, 1, sizeof buffer, from)) > 0) {
        fwrite(buffer, 1, bytes, to);
    }
    return !ferror(from);
}

static void write_field(FILE *to, const char *key, uint64_t value) {
    pickle_write_text(to, key);
    pickle_write_number(to, value);
}

static void write_segment(FILE *to, const struct snapshot_data *data,
                          const struct snapshot_segment *segment) {
    struct snapshot_place place = snapshot_data_place(data, segment->place);
    pickle_write_dict(to);
    pickle_write_mark(to);
    write_field(to, "device", segment->device);
    write_field(to, "address", segment->addr);
    write_field(to, "total_size", segment->size);
    write_field(to, "stream", place.stream);
    write_field(to, "is_expandable", segment->expandable);
    pickle_write_text(to, "segment_type");
    pickle_write_text(to, segment->size > 2 << 20 ? "large" : "small");
    pickle_write_text(to, "segment_pool_id");
    pickle_write_number(to, place.pool[0]);
    pickle_write_number(to, place.pool[1]);
    pickle_write_pair(to);
    pickle_write_text(to, "blocks");
    pickle_write_list(to);
    pickle_write_mark(to);
    for (size_t i = 0; i < segment->block_count; i++) {
        const struct snapshot_block *block = &data->blocks[segment->first_block + i];
        pickle_write_dict(to);
        pickle_write_mark(to);
        write_field(to, "address", block->addr);
        write_field(to, "size", block->size);
        write_field(to, "requested_size", block->requested);
        pickle_write_text(to, "state");
        pickle_write_text(to, block->active ? "active_allocated" : "inactive");
        pickle_write_text(to, "frames");
        pickle_write_list(to);
        pickle_write_items(to);
    }
    pickle_write_appends(to);
    pickle_write_items(to);
}

static void write_segments(struct report_writer *writer) {
    FILE *to = writer->to;
    pickle_write_text(to, "segments");
    pickle_write_list(to);
    if (writer->input->format == FORMAT_SNAPSHOT) {
        const struct snapshot_data *data = &writer->input->events.snapshot->data;
        for (size_t i = 0; i < data->segment_count; i++) {
            pickle_write_mark(to);
            write_segment(to, data, &data->segments[i]);
            pickle_write_appends(to);
        }
    }
}

bool write_memory_viz_end(struct report_writer *writer, const struct report_view *view) {
    struct viz *viz = writer->state;
    FILE *to = writer->to;
    bool good = true;
    (void)view;
    pickle_write_begin(to);
    pickle_write_dict(to);
    pickle_write_mark(to);
    pickle_write_text(to, "written_by"); /* and with it the first texts of the memo */
    pickle_write_list(to);
    pickle_write_mark(to);
    for (uint32_t i = 0; i < WORD_COUNT; i++) {
        pickle_write_text(to, words[i]);
        pickle_write_put(to, i);
    }
    pickle_write_appends(to);
    pickle_write_text(to, "device_traces");
    pickle_write_list(to);
    for (size_t i = 0; i < viz->device_count; i++) {
        pickle_write_mark(to);
        pickle_write_list(to);
        pickle_write_mark(to);
        good = copy_file(viz->devices[i].file, to) && good;
        pickle_write_appends(to);
        pickle_write_appends(to);
    }
    write_segments(writer);
    pickle_write_text(to, "external_annotations");
    pickle_write_list(to);
    pickle_write_mark(to);
    good = copy_file(viz->notes, to) && good;
    pickle_write_appends(to);
    pickle_write_items(to);
    pickle_write_end(to);
    return good;
}
