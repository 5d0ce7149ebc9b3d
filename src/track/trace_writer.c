/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_writer.c: see trace_writer.h, and trace_format.h for the format.
 *
 * An event is written in three steps. What it refers to gets entries in the table. Space is
 * reserved for the event and for the definitions that the chunk does not have yet. Then the
 * definitions are written and, last, the event. A fresh chunk always has enough space: all texts
 * and stacks are bounded.
 */
#include "track/trace_writer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "track/trace_file.h"
#include "track/trace_format.h"
#include "track/trace_table.h"

#include <string.h>

enum {
    NUMBER_MAX = 10, /* bytes of a 64-bit number */
    EVENT_MAX = 1 + 12 * NUMBER_MAX
};

/* What one event refers to, without the frames of a stack. */
enum { THREAD, POOL, QUEUE, TAG, NAME, STACK, REF_COUNT };

_Static_assert(EVENT_MAX +
                       (REF_COUNT + VR_TRACE_FRAMES_MAX) * (VR_TRACE_TEXT_MAX + 4 * NUMBER_MAX) +
                       VR_TRACE_FRAMES_MAX * NUMBER_MAX <
                   VR_TRACE_RESERVE_MAX,
               "an event and all it speaks of fit in a fresh chunk");

struct vr_trace_writer {
    uint64_t process; /* that made the file; keeps (4) */
    uint64_t start_ns;
    struct vr_trace_stacks stacks;
    struct vr_mutex lock; /* guards the rest */
    struct vr_trace_file file;
    struct vr_trace_table table;
    uint64_t last_id, last_addr; /* of the chunk */
    struct {
        uint64_t own;
        uint32_t number;
    } recent[8]; /* latest number for threads, queues and pools, by kind; 0: none */
};

/* Numbers in the table; 0: none. */
struct event_refs {
    uint32_t of[REF_COUNT];
};

/* ------------------------------------------------------------------- numbers */

static uint8_t *put_number(uint8_t *to, uint64_t value) {
    while (value >= 128) {
        *to++ = (uint8_t)(value | 128);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

/* Zigzag: small differences of either sign are small numbers. */
static uint8_t *put_difference(uint8_t *to, uint64_t value, uint64_t before) {
    uint64_t difference = value - before;
    return put_number(to, difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0));
}

static uint8_t *put_text(uint8_t *to, const char *text) {
    size_t bytes = strnlen(text, VR_TRACE_TEXT_MAX);
    to = put_number(to, bytes);
    memcpy(to, text, bytes);
    return to + bytes;
}

/* ---------------------------------------------------------- what is referred to */

static uint32_t number_of(struct vr_trace_writer *writer, uint8_t kind, const void *key,
                          size_t key_bytes, const void *body, size_t body_bytes) {
    uint32_t number = vr_trace_table_find(&writer->table, kind, key, key_bytes);
    return number ? number
                  : vr_trace_table_add(&writer->table, kind, key, key_bytes, body, body_bytes);
}

/* Threads and queues, which have only their own number. 0 is none. */
static uint32_t plain_number(struct vr_trace_writer *writer, uint8_t kind, uint64_t own) {
    uint8_t body[NUMBER_MAX];
    if (!own || (writer->recent[kind].own == own && writer->recent[kind].number)) {
        return own ? writer->recent[kind].number : 0;
    }
    size_t bytes = (size_t)(put_number(body, own) - body);
    writer->recent[kind].own = own;
    return writer->recent[kind].number = number_of(writer, kind, body, bytes, body, bytes);
}

static uint32_t text_number(struct vr_trace_writer *writer, uint8_t kind, const char *text) {
    uint8_t body[NUMBER_MAX + VR_TRACE_TEXT_MAX];
    if (!text || !*text) {
        return 0;
    }
    size_t bytes = (size_t)(put_text(body, text) - body);
    return number_of(writer, kind, body, bytes, body, bytes);
}

/* A pool is identified by its handle; device and name come with its first event. */
static uint32_t pool_number(struct vr_trace_writer *writer, uint64_t pool, uint64_t device,
                            const char *name) {
    uint8_t body[3 * NUMBER_MAX + VR_TRACE_TEXT_MAX];
    if (!pool ||
        (writer->recent[VR_RECORD_POOL].own == pool && writer->recent[VR_RECORD_POOL].number)) {
        return pool ? writer->recent[VR_RECORD_POOL].number : 0;
    }
    uint8_t *at = put_text(put_number(put_number(body, pool), device), name ? name : "");
    writer->recent[VR_RECORD_POOL].own = pool;
    return writer->recent[VR_RECORD_POOL].number =
               number_of(writer, VR_RECORD_POOL, &pool, sizeof pool, body, (size_t)(at - body));
}

/* -------------------------------------------------------------------- stacks */

/* Texts of frames, formatted without the lock. */
struct frame_texts {
    uint32_t count;
    uint64_t frames[VR_TRACE_FRAMES_MAX];
    char texts[VR_TRACE_FRAMES_MAX][VR_TRACE_TEXT_MAX + 1];
};

static uint32_t find_stack(const struct vr_trace_writer *writer, uint32_t stack) {
    return vr_trace_table_find(&writer->table, VR_RECORD_STACK, &stack, sizeof stack);
}

static void add_stack(struct vr_trace_writer *writer, uint32_t stack,
                      const struct frame_texts *frame_texts) {
    uint8_t body[(VR_TRACE_FRAMES_MAX + 1) * NUMBER_MAX];
    uint8_t *at = put_number(body, frame_texts->count);
    for (uint32_t i = 0; i < frame_texts->count; i++) {
        at = put_number(at, text_number(writer, VR_RECORD_FRAME, frame_texts->texts[i]));
    }
    (void)number_of(writer, VR_RECORD_STACK, &stack, sizeof stack, body, (size_t)(at - body));
}

/* Makes sure that a stack has a number, if possible. No lock held: keeps (3). */
static void prepare_stack(struct vr_trace_writer *writer, uint32_t stack) {
    VR_OPERATION("vram_trace_begin");
    vr_mutex_lock(&writer->lock);
    bool known = find_stack(writer, stack) || writer->file.stopped != VRAM_OK;
    vr_mutex_unlock(&writer->lock);
    struct frame_texts *frame_texts =
        known ? NULL : vr_mem_alloc(1, sizeof *frame_texts, vr_operation());
    if (!frame_texts) {
        return;
    }
    frame_texts->count = writer->stacks.frames(stack, frame_texts->frames, VR_TRACE_FRAMES_MAX);
    for (uint32_t i = 0; i < frame_texts->count; i++) {
        writer->stacks.describe(frame_texts->frames[i], frame_texts->texts[i],
                                sizeof frame_texts->texts[i]);
    }
    vr_mutex_lock(&writer->lock);
    add_stack(writer, stack, frame_texts);
    vr_mutex_unlock(&writer->lock);
    vr_mem_free(frame_texts);
}

/* --------------------------------------------------------------- definitions */

/* Bytes that the definition of a number may need in this chunk; 0: it is defined. */
static uint32_t definition_cost(struct vr_trace_writer *writer, uint32_t number) {
    if (!number) {
        return 0;
    }
    const struct vr_trace_entry *entry = vr_trace_table_at(&writer->table, number);
    bool defined = writer->file.chunk && entry->chunk == writer->file.sequence;
    return defined ? 0 : 1 + NUMBER_MAX + entry->body_bytes;
}

static void definition_write(struct vr_trace_writer *writer, uint32_t number) {
    if (!definition_cost(writer, number)) {
        return;
    }
    struct vr_trace_entry *entry = vr_trace_table_at(&writer->table, number);
    uint8_t *record = writer->file.chunk + writer->file.used;
    uint8_t *at = put_number(record + 1, number);
    memcpy(at, writer->table.bytes + entry->body, entry->body_bytes);
    vr_trace_file_commit(&writer->file, entry->kind, (uint32_t)(at - record) + entry->body_bytes);
    entry->chunk = writer->file.sequence;
}

/* The next frame of a stack, whose body is at *at; 0 after the last. The body is our own, and
   valid. */
static uint64_t next_number(const uint8_t **at) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return value;
        }
    }
}

static void define_stack(struct vr_trace_writer *writer, uint32_t stack) {
    if (!definition_cost(writer, stack)) {
        return;
    }
    const uint8_t *at = writer->table.bytes + vr_trace_table_at(&writer->table, stack)->body;
    for (uint64_t left = next_number(&at); left > 0; left--) {
        definition_write(writer, (uint32_t)next_number(&at));
    }
    definition_write(writer, stack);
}

static uint32_t stack_cost(struct vr_trace_writer *writer, uint32_t stack) {
    uint32_t bytes = definition_cost(writer, stack);
    if (bytes) {
        const uint8_t *at = writer->table.bytes + vr_trace_table_at(&writer->table, stack)->body;
        for (uint64_t left = next_number(&at); left > 0; left--) {
            bytes += definition_cost(writer, (uint32_t)next_number(&at));
        }
    }
    return bytes;
}

/* ------------------------------------------------------------------- writing */

/* Where to write the event's record, after its first byte and time; NULL: the event is lost. */
static uint8_t *event_begin(struct vr_trace_writer *writer, const struct event_refs *refs,
                            uint64_t time_ns, uint8_t **record) {
    struct vr_trace_file *file = &writer->file;
    uint32_t bytes = EVENT_MAX + stack_cost(writer, refs->of[STACK]);
    bool fresh;
    for (uint32_t i = 0; i < STACK; i++) {
        bytes += definition_cost(writer, refs->of[i]);
    }
    if (!vr_trace_file_reserve(file, bytes, &fresh)) {
        file->lost++;
        return NULL;
    }
    if (fresh) {
        writer->last_id = writer->last_addr = 0;
    }
    if (fresh || bytes > EVENT_MAX) {
        for (uint32_t i = 0; i < STACK; i++) {
            definition_write(writer, refs->of[i]);
        }
        define_stack(writer, refs->of[STACK]);
    }
    uint64_t since = time_ns > writer->start_ns ? time_ns - writer->start_ns : 0;
    uint64_t passed = since > file->time_ns ? since - file->time_ns : 0;
    file->time_ns += passed;
    *record = file->chunk + file->used;
    return put_number(*record + 1, passed);
}

static void event_end(struct vr_trace_writer *writer, uint8_t kind, const uint8_t *record,
                      const uint8_t *at) {
    vr_trace_file_commit(&writer->file, kind, (uint32_t)(at - record));
    if (vr_trace_file_flush(&writer->file)) {
        writer->file.events++;
    } else {
        writer->file.lost++;
    }
}

static uint8_t *put_id(struct vr_trace_writer *writer, uint8_t *at, uint64_t id) {
    at = put_difference(at, id, writer->last_id);
    writer->last_id = id;
    return at;
}

static uint8_t *put_addr(struct vr_trace_writer *writer, uint8_t *at, uint64_t addr) {
    at = put_difference(at, addr, writer->last_addr);
    writer->last_addr = addr;
    return at;
}

static uint64_t excess_of(uint64_t held, uint64_t bytes) {
    return held > bytes ? held - bytes : 0;
}

/* Subtracts from a live sum, not below 0: blocks from before the trace began are freed in it
   too. */
static void live_subtract(uint64_t *sum, uint64_t by) {
    *sum -= by < *sum ? by : *sum;
}

static uint8_t *put_block_event(struct vr_trace_writer *writer, const struct event_refs *refs,
                                const struct vr_event *event, uint8_t *at) {
    struct vr_trace_file *file = &writer->file;
    at = put_number(put_number(at, refs->of[THREAD]), refs->of[POOL]);
    at = put_number(at, refs->of[QUEUE]);
    switch (event->kind) {
    case VR_EVENT_ALLOC:
        at = put_addr(writer, put_id(writer, at, event->id), event->addr);
        at = put_number(put_number(at, event->bytes), excess_of(event->held, event->bytes));
        file->live_blocks++;
        file->live_bytes += event->bytes;
        return put_number(put_number(put_number(at, refs->of[TAG]), refs->of[NAME]),
                          refs->of[STACK]);
    case VR_EVENT_FREE:
        live_subtract(&file->live_blocks, 1);
        live_subtract(&file->live_bytes, event->bytes);
        return put_number(put_id(writer, at, event->id), event->bytes);
    case VR_EVENT_RESIZE:
        live_subtract(&file->live_bytes, event->before);
        file->live_bytes += event->bytes;
        at = put_number(put_id(writer, at, event->id), event->before);
        return put_number(put_number(at, event->bytes), excess_of(event->held, event->bytes));
    default: /* refused */
        at = put_number(put_number(at, event->bytes), (uint64_t)-event->status);
        return put_number(at, refs->of[TAG]);
    }
}

/* The live blocks of a pool end with it. */
static uint8_t *put_pool_event(struct vr_trace_writer *writer, const struct event_refs *refs,
                               const struct vr_event *event, uint8_t *at) {
    if (event->kind == VR_EVENT_POOL_END) {
        live_subtract(&writer->file.live_blocks, event->elements);
        live_subtract(&writer->file.live_bytes, event->bytes);
    }
    return put_number(at, refs->of[POOL]);
}

static uint8_t record_of(enum vr_event_kind kind) {
    switch (kind) {
    case VR_EVENT_POOL_BEGIN:
        return VR_RECORD_POOL_BEGIN;
    case VR_EVENT_POOL_END:
        return VR_RECORD_POOL_END;
    case VR_EVENT_ALLOC:
        return VR_RECORD_ALLOC;
    case VR_EVENT_FREE:
        return VR_RECORD_FREE;
    case VR_EVENT_RESIZE:
        return VR_RECORD_RESIZE;
    default:
        return VR_RECORD_REFUSE;
    }
}

static void write_event(struct vr_trace_writer *writer, const struct vr_event *event) {
    bool of_pool = event->kind == VR_EVENT_POOL_BEGIN || event->kind == VR_EVENT_POOL_END;
    struct event_refs refs = {0};
    uint8_t *record;
    refs.of[POOL] = pool_number(writer, event->pool, event->device, of_pool ? event->name : NULL);
    if (!of_pool) {
        refs.of[THREAD] = plain_number(writer, VR_RECORD_THREAD, event->thread);
        refs.of[QUEUE] = plain_number(writer, VR_RECORD_QUEUE, event->queue);
    }
    if (event->kind == VR_EVENT_ALLOC || event->kind == VR_EVENT_REFUSED) {
        refs.of[TAG] = text_number(writer, VR_RECORD_TEXT, event->tag);
    }
    if (event->kind == VR_EVENT_ALLOC) {
        refs.of[NAME] = text_number(writer, VR_RECORD_TEXT, event->name);
        refs.of[STACK] =
            event->stack && writer->stacks.frames ? find_stack(writer, event->stack) : 0;
    }
    uint8_t *at = event_begin(writer, &refs, event->time_ns, &record);
    if (at) {
        at = of_pool ? put_pool_event(writer, &refs, event, at)
                     : put_block_event(writer, &refs, event, at);
        event_end(writer, record_of(event->kind), record, at);
    }
}

/*
 * A reader may skip this record. So it defines nothing, is not counted as an event, and its time,
 * relative to the previous record, does not change the base of the next one.
 */
static void write_transfer(struct vr_trace_writer *writer, const struct vr_event *event) {
    struct vr_trace_file *file = &writer->file;
    uint64_t since = event->time_ns > writer->start_ns ? event->time_ns - writer->start_ns : 0;
    bool fresh;
    if (!vr_trace_file_reserve(file, EVENT_MAX, &fresh)) {
        file->lost++;
        return;
    }
    if (fresh) {
        writer->last_id = writer->last_addr = 0;
    }
    const uint64_t numbers[] = {since > file->time_ns ? since - file->time_ns : 0,
                                event->thread,
                                event->device,
                                event->memory,
                                event->stack,
                                event->bytes,
                                event->held,
                                (uint64_t)-event->status};
    uint8_t *record = file->chunk + file->used, *at = record + 2;
    _Static_assert(sizeof numbers / sizeof numbers[0] * NUMBER_MAX + 2 <= EVENT_MAX &&
                       sizeof numbers / sizeof numbers[0] * NUMBER_MAX < 128,
                   "it fits, and its length into one byte");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        at = put_number(at, numbers[i]);
    }
    record[1] = (uint8_t)(at - record - 2);
    vr_trace_file_commit(file, VR_RECORD_TRANSFER, (uint32_t)(at - record));
    file->lost += !vr_trace_file_flush(file);
}

/* Keeps (4). */
static bool is_ours(const struct vr_trace_writer *writer) {
    return writer->process == vr_os_process_generation();
}

void vr_trace_write_event(struct vr_trace_writer *writer, const struct vr_event *event) {
    if (!is_ours(writer)) {
        return;
    }
    if (event->kind == VR_EVENT_ALLOC && event->stack && writer->stacks.frames) {
        prepare_stack(writer, event->stack);
    }
    vr_mutex_lock(&writer->lock);
    if (event->kind == VR_EVENT_TRANSFER) {
        write_transfer(writer, event);
    } else {
        write_event(writer, event);
    }
    vr_mutex_unlock(&writer->lock);
}

void vr_trace_write_sample(struct vr_trace_writer *writer, const struct vr_trace_sample *sample,
                           uint64_t time_ns) {
    const uint64_t numbers[] = {
        sample->live_bytes,   sample->held_bytes, sample->reserved_bytes,
        sample->cached_bytes, sample->free_bytes, sample->largest_free_bytes,
        sample->limit_bytes,  sample->hits,       sample->misses};
    uint8_t *record;
    if (!is_ours(writer)) {
        return;
    }
    vr_mutex_lock(&writer->lock);
    struct event_refs refs = {.of[POOL] = pool_number(writer, sample->pool, 0, NULL)};
    uint8_t *at = event_begin(writer, &refs, time_ns, &record);
    if (at) {
        at = put_number(at, refs.of[POOL]);
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            at = put_number(at, numbers[i]);
        }
        event_end(writer, VR_RECORD_SAMPLE, record, at);
    }
    vr_mutex_unlock(&writer->lock);
}

void vr_trace_write_mark(struct vr_trace_writer *writer, const char *text, uint64_t time_ns) {
    uint8_t *record;
    if (!is_ours(writer)) {
        return;
    }
    vr_mutex_lock(&writer->lock);
    struct event_refs refs = {.of[NAME] = text_number(writer, VR_RECORD_TEXT, text)};
    uint8_t *at = event_begin(writer, &refs, time_ns, &record);
    if (at) {
        event_end(writer, VR_RECORD_MARK, record, put_number(at, refs.of[NAME]));
    }
    vr_mutex_unlock(&writer->lock);
}

void vr_trace_writer_sums(struct vr_trace_writer *writer, struct vr_trace_sums *sums) {
    vr_mutex_lock(&writer->lock);
    const struct vr_trace_file *file = &writer->file;
    uint64_t slots = file->slots ? file->slots : file->sequence;
    *sums = (struct vr_trace_sums){.events = file->events,
                                   .lost = file->lost,
                                   .chunks = file->sequence,
                                   .bytes = file->header_bytes + slots * VR_TRACE_CHUNK_BYTES,
                                   .stopped = file->stopped};
    vr_mutex_unlock(&writer->lock);
}

/* ---------------------------------------------------------- opening, closing */

vram_status vr_trace_writer_open(const char *path, uint64_t ring_bytes,
                                 const struct vr_trace_stacks *stacks,
                                 struct vr_trace_writer **out) {
    VR_OPERATION("vram_trace_begin");
    struct vr_trace_writer *writer = vr_mem_alloc(1, sizeof *writer, vr_operation());
    if (!writer) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_trace_file_open(&writer->file, path, ring_bytes);
    if (status != VRAM_OK) {
        vr_mem_free(writer);
        return status;
    }
    vr_mutex_init(&writer->lock, VR_RANK_TRACE);
    writer->process = vr_os_process_generation();
    writer->start_ns = vr_clock_now();
    if (stacks) {
        writer->stacks = *stacks;
    }
    *out = writer;
    return VRAM_OK;
}

void vr_trace_writer_close(struct vr_trace_writer *writer) {
    if (!writer) {
        return;
    }
    if (is_ours(writer)) {
        vr_trace_file_close(&writer->file);
    } else {
        vr_trace_file_abandon(&writer->file);
    }
    vr_trace_table_free(&writer->table);
    vr_mutex_destroy(&writer->lock);
    vr_mem_free(writer);
}
