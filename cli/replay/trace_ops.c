/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_ops.c: see trace_ops.h.
 */
#include "trace_ops.h"
#include "trace_ids.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- traces */

uint64_t trace_ns(const struct trace *trace) {
    uint64_t us = trace->op_count > 0 ? trace->ops[trace->op_count - 1].t_us : 0;
    return us > UINT64_MAX / 1000 ? UINT64_MAX : us * 1000;
}

void trace_free(struct trace *trace) {
    free(trace->ops);
    memset(trace, 0, sizeof *trace);
}

/* A sixth column only where more than one thread needs it: other tools read five. */
static void write_op(const struct trace *trace, const struct trace_op *op, uint64_t id, FILE *to) {
    static const char letters[] = {[TRACE_ALLOC] = 'a', [TRACE_FREE] = 'f', [TRACE_USE] = 'u'};
    fprintf(to, "%c,%" PRIu64 ",", letters[op->kind], id);
    if (op->kind != TRACE_FREE) {
        fprintf(to, "%" PRIu64, op->bytes);
    }
    fprintf(to, ",%u,%" PRIu64, op->queue, op->t_us);
    if (trace->thread_count > 1) {
        fprintf(to, ",%u", op->thread);
    }
    fputc('\n', to);
}

bool trace_write(const struct trace *trace, FILE *to) {
    uint64_t *ids = calloc((size_t)trace->block_slots + 1, sizeof *ids);
    uint64_t next = 0;
    if (ids == NULL) {
        return false;
    }
    fprintf(to, "%s%s\n", TRACE_HEADER, trace->thread_count > 1 ? ",thread" : "");
    for (size_t i = 0; i < trace->op_count && !ferror(to); i++) {
        const struct trace_op *op = &trace->ops[i];
        if (op->kind == TRACE_ALLOC) {
            ids[op->block] = next++;
        }
        write_op(trace, op, ids[op->block], to);
    }
    free(ids);
    return !ferror(to);
}

/* ------------------------------------------------------------------ building */

__attribute__((format(printf, 2, 3))) static bool refuse(struct trace_builder *builder,
                                                         const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(builder->problem, sizeof builder->problem, format, arguments);
    va_end(arguments);
    return false;
}

static bool refuse_memory(struct trace_builder *builder) {
    return refuse(builder, "out of host memory after %zu operations", builder->trace->op_count);
}

bool trace_builder_begin(struct trace_builder *builder, struct trace *trace, const char *name) {
    memset(trace, 0, sizeof *trace);
    memset(builder, 0, sizeof *builder);
    snprintf(trace->name, sizeof trace->name, "%s", name);
    builder->trace = trace;
    builder->op_limit = TRACE_OPS_MAX;
    builder->ids = trace_ids_create();
    return builder->ids != NULL || refuse_memory(builder);
}

void trace_builder_end(struct trace_builder *builder) {
    trace_ids_destroy(builder->ids);
    free(builder->blocks);
    free(builder->unused);
    builder->ids = NULL;
    builder->blocks = NULL;
    builder->unused = NULL;
}

/* The place of a name, added when it is new. */
static bool name_place(struct trace_names *names, uint64_t name, uint32_t *place) {
    uint32_t i = 0;
    while (i < names->count && names->names[i] != name) {
        i++;
    }
    if (i == TRACE_QUEUES_MAX) {
        return false;
    }
    if (i == names->count) {
        names->names[names->count++] = name;
    }
    *place = i;
    return true;
}

static bool grow_ops(struct trace_builder *builder) {
    struct trace *trace = builder->trace;
    size_t capacity = trace->op_capacity > 0 ? trace->op_capacity * 2 : 4096;
    struct trace_op *ops = realloc(trace->ops, capacity * sizeof *ops);
    if (ops == NULL) {
        return refuse_memory(builder);
    }
    trace->ops = ops;
    trace->op_capacity = capacity;
    return true;
}

/* Both tables grow together, so that a free never needs memory. */
static bool grow_blocks(struct trace_builder *builder) {
    uint32_t capacity = builder->block_capacity > 0 ? builder->block_capacity * 2 : 256;
    struct trace_block *blocks = realloc(builder->blocks, capacity * sizeof *blocks);
    if (blocks != NULL) {
        builder->blocks = blocks;
    }
    uint32_t *unused = realloc(builder->unused, capacity * sizeof *unused);
    if (unused != NULL) {
        builder->unused = unused;
    }
    if (blocks == NULL || unused == NULL) {
        return refuse_memory(builder);
    }
    builder->block_capacity = capacity;
    return true;
}

static bool add_alloc(struct trace_builder *builder, const struct trace_entry *entry,
                      struct trace_op *op) {
    struct trace *trace = builder->trace;
    if (trace_ids_find(builder->ids, entry->id, &op->block)) {
        return refuse(builder, "block %" PRIu64 " is allocated again before it is freed",
                      entry->id);
    }
    if (entry->bytes > UINT64_MAX - builder->live_bytes) {
        return refuse(builder, "block %" PRIu64 ": the live bytes do not fit in 64 bits",
                      entry->id);
    }
    bool fresh = builder->unused_count == 0;
    if (fresh && trace->block_slots == builder->block_capacity && !grow_blocks(builder)) {
        return false;
    }
    op->block = fresh ? trace->block_slots : builder->unused[builder->unused_count - 1];
    if (!trace_ids_add(builder->ids, entry->id, op->block)) {
        return refuse_memory(builder);
    }
    trace->block_slots += fresh;
    builder->unused_count -= !fresh;
    builder->blocks[op->block] = (struct trace_block){entry->bytes, op->queue};
    builder->live_bytes += entry->bytes;
    trace->alloc_count++;
    if (builder->live_bytes > trace->peak_bytes) {
        trace->peak_bytes = builder->live_bytes;
    }
    return true;
}

/* A free or a use: the block must be live; what the entry leaves out is the block's own. */
static bool add_to_live(struct trace_builder *builder, const struct trace_entry *entry,
                        struct trace_op *op) {
    if (!trace_ids_find(builder->ids, entry->id, &op->block)) {
        return refuse(builder, "block %" PRIu64 " is %s, but it is not live", entry->id,
                      entry->kind == TRACE_FREE ? "freed" : "used");
    }
    const struct trace_block *block = &builder->blocks[op->block];
    if (entry->kind == TRACE_USE && entry->bytes_given && entry->bytes > block->bytes) {
        return refuse(builder, "block %" PRIu64 " has %" PRIu64 " bytes, but %" PRIu64 " are used",
                      entry->id, block->bytes, entry->bytes);
    }
    op->queue = entry->stream_given ? op->queue : block->queue;
    op->bytes = entry->kind == TRACE_USE && entry->bytes_given ? entry->bytes : block->bytes;
    if (entry->kind == TRACE_FREE) {
        builder->live_bytes -= block->bytes;
        builder->unused[builder->unused_count++] = op->block;
        trace_ids_remove(builder->ids, entry->id);
    }
    return true;
}

static bool name_places(struct trace_builder *builder, const struct trace_entry *entry,
                        uint32_t *queue, uint32_t *thread) {
    if (entry->stream_given && !name_place(&builder->queues, entry->stream, queue)) {
        return refuse(builder, "more than %d streams", TRACE_QUEUES_MAX);
    }
    if (!name_place(&builder->threads, entry->thread, thread)) {
        return refuse(builder, "more than %d threads", TRACE_THREADS_MAX);
    }
    return true;
}

/*
 * Times count from the first operation. Several threads write one log, so a time may fall a little
 * behind the one before it: it is raised, and order stays what the file says.
 */
bool trace_builder_add(struct trace_builder *builder, const struct trace_entry *entry) {
    struct trace *trace = builder->trace;
    uint32_t queue = 0, thread = 0;
    if (trace->op_count == builder->op_limit) {
        return refuse(builder, "more than %zu operations; split the trace", builder->op_limit);
    }
    if (trace->op_count == trace->op_capacity && !grow_ops(builder)) {
        return false;
    }
    if (!name_places(builder, entry, &queue, &thread)) {
        return false;
    }
    uint64_t before = trace->op_count > 0 ? trace->ops[trace->op_count - 1].t_us : 0;
    builder->first_us = trace->op_count > 0 ? builder->first_us : entry->t_us;
    uint64_t now = entry->t_us > builder->first_us ? entry->t_us - builder->first_us : 0;
    struct trace_op op = {.bytes = entry->bytes,
                          .t_us = now > before ? now : before,
                          .queue = (uint16_t)queue,
                          .thread = (uint8_t)thread,
                          .kind = (uint8_t)entry->kind};
    if (!(entry->kind == TRACE_ALLOC ? add_alloc : add_to_live)(builder, entry, &op)) {
        return false;
    }
    trace->ops[trace->op_count++] = op;
    trace->queue_count = builder->queues.count > 0 ? builder->queues.count : 1;
    trace->thread_count = builder->threads.count;
    return true;
}
