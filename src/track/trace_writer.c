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
#include "base/memory.h"
#include "base/os/os.h"
#include "track/trace_names.h"
#include "track/trace_report.h"

#include <string.h>

enum { REPORTS_AT_ONCE = 64 };

struct vr_trace_writer {
    uint64_t process; /* that made the file; keeps (4) */
    struct vr_trace_shards shards;
    struct vr_trace_names names;
};

/* ------------------------------------------------------------------- writing */

/* The present time in the shard, where it never falls. */
static uint64_t shard_now(const struct vr_trace_writer *writer,
                          const struct vr_trace_shard *shard) {
    uint64_t now = vr_trace_file_now(&writer->shards.file);
    return (int64_t)(now - shard->time) > 0 ? now : shard->time;
}

/* Where to write the event's record, after its first byte and time; NULL: the event is lost. The
   shard's chunk defines what it speaks of. `bytes`: what vr_trace_names_refer said. */
static uint8_t *event_begin(struct vr_trace_writer *writer, struct vr_trace_shard *shard,
                            const struct vr_trace_refs *refs, uint32_t bytes) {
    bool fresh;
    if (!vr_trace_shard_reserve(&writer->shards, shard, bytes, &fresh)) {
        return NULL;
    }
    if (fresh || bytes > VR_TRACE_EVENT_MAX) {
        vr_trace_names_define(&writer->names, shard, refs);
    }
    uint64_t now = shard_now(writer, shard), passed = now - shard->time;
    shard->time = shard->chunk.last = now;
    return vr_trace_number(vr_trace_shard_at(shard) + 1, passed);
}

static void event_end(struct vr_trace_shard *shard, uint8_t kind, const uint8_t *at) {
    vr_trace_shard_commit(shard, kind, at);
    vr_store(&shard->events, vr_load(&shard->events, VR_RELAXED) + 1, VR_RELAXED);
}

static uint8_t *put_addr(struct vr_trace_shard *shard, uint8_t *at, uint64_t addr) {
    at = vr_trace_difference(at, addr, shard->addr);
    shard->addr = addr;
    return at;
}

static uint64_t excess_of(uint64_t held, uint64_t bytes) {
    return held > bytes ? held - bytes : 0;
}

/* What the event changes in the sums of its chunk. */
static void count_live(struct vr_trace_chunk *chunk, int64_t blocks, uint64_t more, uint64_t less) {
    chunk->blocks += blocks;
    chunk->live_bytes = (int64_t)((uint64_t)chunk->live_bytes + more - less); /* may wrap */
}

static uint8_t *put_block_event(struct vr_trace_shard *shard, const struct vr_trace_refs *refs,
                                const struct vr_event *event, uint8_t *at) {
    at = vr_trace_number(vr_trace_number(at, refs->of[VR_REF_POOL]), refs->of[VR_REF_QUEUE]);
    switch (event->kind) {
    case VR_EVENT_ALLOC:
        count_live(&shard->chunk, 1, event->bytes, 0);
        at = vr_trace_number(put_addr(shard, at, event->addr), event->bytes);
        at = vr_trace_number(at, excess_of(event->held, event->bytes));
        return vr_trace_number(
            vr_trace_number(vr_trace_number(at, refs->of[VR_REF_TAG]), refs->of[VR_REF_NAME]),
            refs->of[VR_REF_STACK]);
    case VR_EVENT_FREE:
        count_live(&shard->chunk, -1, 0, event->bytes);
        return vr_trace_number(put_addr(shard, at, event->addr), event->bytes);
    case VR_EVENT_RESIZE:
        count_live(&shard->chunk, 0, event->bytes, event->before);
        at = vr_trace_number(put_addr(shard, at, event->addr), event->before);
        at = vr_trace_number(at, event->bytes);
        return vr_trace_number(at, excess_of(event->held, event->bytes));
    default: /* refused */
        at = vr_trace_number(vr_trace_number(at, event->bytes), (uint64_t)-event->status);
        return vr_trace_number(at, refs->of[VR_REF_TAG]);
    }
}

/* The live blocks of a pool end with it. */
static uint8_t *put_pool_event(struct vr_trace_shard *shard, const struct vr_trace_refs *refs,
                               const struct vr_event *event, uint8_t *at) {
    at = vr_trace_number(at, refs->of[VR_REF_POOL]);
    if (event->kind == VR_EVENT_POOL_END) {
        count_live(&shard->chunk, -(int64_t)event->elements, 0, event->bytes);
        at = vr_trace_number(vr_trace_number(at, event->elements), event->bytes);
    }
    return at;
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

static bool is_of_pool(const struct vr_event *event) {
    return event->kind == VR_EVENT_POOL_BEGIN || event->kind == VR_EVENT_POOL_END;
}

static struct vr_trace_mention mention_of(const struct vr_event *event) {
    bool alloc = event->kind == VR_EVENT_ALLOC, refused = event->kind == VR_EVENT_REFUSED;
    return (struct vr_trace_mention){
        .pool = event->pool,
        .device = event->device,
        .pool_name = is_of_pool(event) ? event->name : NULL,
        .queue = is_of_pool(event) ? 0 : event->queue,
        .tag = alloc || refused ? event->tag : NULL,
        .name = alloc ? event->name : NULL,
        .stack = alloc || event->kind == VR_EVENT_REPORT ? event->stack : 0,
    };
}

/* The next events of this kind are written by the quick functions, or counted as lost by them. */
static void keep_site(struct vr_trace_shard *shard, const struct vr_event *event,
                      const struct vr_trace_refs *refs) {
    if (event->kind == VR_EVENT_ALLOC || event->kind == VR_EVENT_FREE) {
        struct vr_trace_numbers numbers = {refs->of[VR_REF_POOL], refs->of[VR_REF_QUEUE],
                                           refs->of[VR_REF_TAG]};
        vr_trace_site_keep(shard, event->pool, event->queue,
                           event->kind == VR_EVENT_ALLOC ? event->tag : NULL, &numbers);
        shard->thread = vr_os_thread_number();
    }
}

static void write_event(struct vr_trace_writer *writer, struct vr_trace_shard *shard,
                        const struct vr_event *event) {
    struct vr_trace_refs refs;
    struct vr_trace_mention about = mention_of(event);
    uint32_t bytes = vr_trace_names_refer(&writer->names, shard, &about, &refs);
    uint8_t *at = event_begin(writer, shard, &refs, bytes);
    if (at) {
        at = is_of_pool(event) ? put_pool_event(shard, &refs, event, at)
                               : put_block_event(shard, &refs, event, at);
        event_end(shard, record_of(event->kind), at);
    }
    keep_site(shard, event, &refs);
}

/*
 * A reader may skip this record. So it defines nothing, is not counted as an event, and its time,
 * relative to the previous record, does not change the base of the next one.
 */
static void write_transfer(struct vr_trace_writer *writer, struct vr_trace_shard *shard,
                           const struct vr_event *event) {
    bool fresh;
    if (!vr_trace_shard_reserve(&writer->shards, shard, VR_TRACE_EVENT_MAX, &fresh)) {
        return;
    }
    const uint64_t numbers[] = {shard_now(writer, shard) - shard->time,
                                event->thread,
                                event->device,
                                event->memory,
                                event->stack,
                                event->bytes,
                                event->held,
                                (uint64_t)-event->status};
    uint8_t *record = vr_trace_shard_at(shard), *at = record + 2;
    _Static_assert(sizeof numbers / sizeof numbers[0] * VR_TRACE_NUMBER_MAX + 2 <=
                           VR_TRACE_EVENT_MAX &&
                       sizeof numbers / sizeof numbers[0] * VR_TRACE_NUMBER_MAX < 128,
                   "it fits, and its length into one byte");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        at = vr_trace_number(at, numbers[i]);
    }
    record[1] = (uint8_t)(at - record - 2);
    vr_trace_shard_commit(shard, VR_RECORD_TRANSFER, at);
}

/* A reader may skip this record too; the stack that it speaks of is defined in front of it, as that
   of any event. A program that is refused over and over gets REPORTS_AT_ONCE
   reports for each shard, and then one in ten milliseconds: a report is much larger than an
   event. */
static void write_report(struct vr_trace_writer *writer, struct vr_trace_shard *shard,
                         const struct vr_event *event) {
    uint8_t body[VR_TRACE_REPORT_MAX];
    uint64_t now = shard_now(writer, shard);
    bool fresh;
    uint64_t period = vr_clock_tick_rate() / 100;
    if (shard->report_due > now + (REPORTS_AT_ONCE - 1) * period) {
        return;
    }
    struct vr_trace_refs refs;
    struct vr_trace_mention about = {.stack = event->stack};
    uint32_t names = vr_trace_names_refer(&writer->names, shard, &about, &refs);
    uint8_t *end = vr_trace_report_put(body, event->report);
    size_t bytes = (size_t)(vr_trace_number(end, refs.of[VR_REF_STACK]) - body);
    _Static_assert(VR_TRACE_REPORT_MAX + VR_TRACE_EVENT_MAX +
                           (VR_TRACE_FRAMES_MAX + 1) *
                               (VR_TRACE_TEXT_MAX + 5 * VR_TRACE_NUMBER_MAX) <=
                       VR_TRACE_RESERVE_MAX,
                   "a fresh chunk has enough space, for the frames too");
    if (!vr_trace_shard_reserve(&writer->shards, shard,
                                names + (uint32_t)bytes + 1 + VR_TRACE_NUMBER_MAX, &fresh)) {
        return;
    }
    if (fresh || names > VR_TRACE_EVENT_MAX) {
        vr_trace_names_define(&writer->names, shard, &refs);
    }
    shard->report_due = (shard->report_due > now ? shard->report_due : now) + period;
    uint8_t *at = vr_trace_number(vr_trace_shard_at(shard) + 1, bytes);
    memcpy(at, body, bytes);
    vr_trace_shard_commit(shard, VR_RECORD_REPORT, at + bytes);
}

/* The calling thread's shard; NULL: nothing is to be written. Keeps (4). */
static struct vr_trace_shard *writer_enter(struct vr_trace_writer *writer) {
    return writer->process == vr_os_process_generation() ? vr_trace_shard_take(&writer->shards)
                                                         : NULL;
}

void vr_trace_write_event(struct vr_trace_writer *writer, const struct vr_event *event) {
    if ((event->kind == VR_EVENT_ALLOC || event->kind == VR_EVENT_REPORT) && event->stack &&
        writer->process == vr_os_process_generation()) {
        vr_trace_names_stack(&writer->names, event->stack);
    }
    struct vr_trace_shard *shard = writer_enter(writer);
    if (!shard) {
        return;
    }
    if (event->kind == VR_EVENT_TRANSFER) {
        write_transfer(writer, shard, event);
    } else if (event->kind == VR_EVENT_REPORT) {
        write_report(writer, shard, event);
    } else {
        write_event(writer, shard, event);
    }
    vr_trace_shard_give(shard);
}

void vr_trace_write_sample(struct vr_trace_writer *writer, const struct vr_trace_sample *sample) {
    const uint64_t numbers[] = {
        sample->live_bytes,   sample->held_bytes, sample->reserved_bytes,
        sample->cached_bytes, sample->free_bytes, sample->largest_free_bytes,
        sample->limit_bytes,  sample->hits,       sample->misses};
    struct vr_trace_shard *shard = writer_enter(writer);
    if (!shard) {
        return;
    }
    struct vr_trace_refs refs;
    const struct vr_trace_mention about = {.pool = sample->pool};
    uint32_t bytes = vr_trace_names_refer(&writer->names, shard, &about, &refs);
    uint8_t *at = event_begin(writer, shard, &refs, bytes);
    if (at) {
        at = vr_trace_number(at, refs.of[VR_REF_POOL]);
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            at = vr_trace_number(at, numbers[i]);
        }
        event_end(shard, VR_RECORD_SAMPLE, at);
    }
    vr_trace_shard_give(shard);
}

void vr_trace_write_mark(struct vr_trace_writer *writer, const char *text) {
    struct vr_trace_shard *shard = writer_enter(writer);
    if (!shard) {
        return;
    }
    struct vr_trace_refs refs;
    const struct vr_trace_mention about = {.name = text};
    uint32_t bytes = vr_trace_names_refer(&writer->names, shard, &about, &refs);
    uint8_t *at = event_begin(writer, shard, &refs, bytes);
    if (at) {
        event_end(shard, VR_RECORD_MARK, vr_trace_number(at, refs.of[VR_REF_NAME]));
    }
    vr_trace_shard_give(shard);
}

void vr_trace_writer_sums(struct vr_trace_writer *writer, struct vr_trace_sums *sums) {
    struct vr_trace_end end;
    struct vr_trace_file *file = &writer->shards.file;
    vr_trace_shards_sums(&writer->shards, &end);
    uint64_t chunks = vr_load(&file->chunks, VR_RELAXED), slots = file->slots;
    *sums = (struct vr_trace_sums){.events = end.events,
                                   .lost = end.lost,
                                   .chunks = chunks,
                                   .bytes = file->header_bytes +
                                            (slots ? slots : chunks) * VR_TRACE_CHUNK_BYTES,
                                   .stopped = vr_trace_file_stopped(file)};
}

void vr_trace_writer_quick(struct vr_trace_writer *writer, bool on) {
    vr_trace_quick_to(on ? &writer->shards : NULL);
}

bool vr_trace_writer_due(struct vr_trace_writer *writer, uint64_t period_ns) {
    uint64_t now = vr_trace_file_now(&writer->shards.file);
    uint64_t due = vr_load(&writer->shards.due, VR_RELAXED);
    if (now < due) {
        return false;
    }
    double ticks = (double)period_ns * (double)vr_clock_tick_rate() / 1e9;
    uint64_t passed = ticks < 9e18 ? (uint64_t)ticks : UINT64_C(9000000000000000000);
    return vr_cas(&writer->shards.due, &due, now + passed, VR_RELAXED);
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
    vram_status status = vr_trace_file_open(&writer->shards.file, path, ring_bytes);
    if (status != VRAM_OK) {
        vr_mem_free(writer);
        return status;
    }
    vr_mutex_init(&writer->names.lock, VR_RANK_TRACE);
    writer->process = vr_os_process_generation();
    if (stacks) {
        writer->names.stacks = *stacks;
    }
    status = vr_trace_shards_begin(&writer->shards);
    if (status != VRAM_OK) {
        vr_trace_writer_close(writer);
        return status;
    }
    *out = writer;
    return VRAM_OK;
}

void vr_trace_writer_close(struct vr_trace_writer *writer) {
    struct vr_trace_end end;
    if (!writer) {
        return;
    }
    bool ours = writer->process == vr_os_process_generation();
    vr_trace_shards_end(&writer->shards, ours, &end);
    if (ours) {
        vr_trace_file_close(&writer->shards.file, &end);
    } else {
        vr_trace_file_abandon(&writer->shards.file);
    }
    vr_trace_table_free(&writer->names.table);
    vr_mutex_destroy(&writer->names.lock);
    vr_mem_free(writer);
}
