/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_ops.h: a trace of allocations in memory, checked, and ready to be replayed in any order of
 * policies as often as wanted.
 *
 * A trace is built operation by operation, by the reader of files and by the generator alike, and
 * whatever does not make sense is refused on the way: a block that is freed twice, one that was
 * never allocated, more live bytes than 64 bits count. What is in a struct trace can be replayed
 * without a further look. Memory is bounded: a trace with more operations, queues or threads than
 * the limits below is refused.
 */
#ifndef REPLAY_TRACE_OPS_H
#define REPLAY_TRACE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    TRACE_OPS_MAX = 1 << 24, /* operations; 24 bytes each */
    TRACE_QUEUES_MAX = 64,   /* a set of queues fits in 64 bits */
    TRACE_THREADS_MAX = 64,
    TRACE_NAME_MAX = 256,
    TRACE_PROBLEM_MAX = 384
};

#define TRACE_HEADER "op,id,bytes,stream,t_us"

enum trace_kind {
    TRACE_ALLOC, /* a: a block of `bytes`, for work on the queue */
    TRACE_FREE,  /* f: given back, in the time of the queue */
    TRACE_USE    /* u: the queue writes the first `bytes` of the block */
};

struct trace_op {
    uint64_t bytes; /* asked for, or written by a use */
    uint64_t t_us;  /* when, since the start of the trace; never falls */
    uint32_t block; /* place in a table of trace.block_slots; reused after the free */
    uint16_t queue; /* below trace.queue_count */
    uint8_t thread; /* below trace.thread_count */
    uint8_t kind;   /* enum trace_kind */
};

struct trace {
    char name[TRACE_NAME_MAX]; /* for reports */
    struct trace_op *ops;
    size_t op_count, op_capacity;
    uint64_t alloc_count;
    uint64_t peak_bytes; /* most bytes live at once, as asked for */
    uint32_t block_slots, queue_count, thread_count;
    uint64_t gpus; /* bit i: GPU i of a snapshot has entries; 0: not a snapshot */
};

/* How long the recorded program took. */
uint64_t trace_ns(const struct trace *trace);

/* Writes it as CSV; ids count from 0. False when memory or the stream failed. */
bool trace_write(const struct trace *trace, FILE *to);

void trace_free(struct trace *trace);

/* ------------------------------------------------------------------ building */

struct trace_block {
    uint64_t bytes;
    uint16_t queue;
};

/* The names of queues or threads in the order of their first use: any numbers, often pointers. */
struct trace_names {
    uint64_t names[TRACE_QUEUES_MAX];
    uint32_t count;
};

struct trace_ids;

struct trace_builder {
    struct trace *trace;
    struct trace_ids *ids;      /* id to block, of live blocks */
    struct trace_block *blocks; /* by block */
    uint32_t *unused;           /* blocks to take again, a stack */
    uint32_t block_capacity, unused_count;
    struct trace_names queues, threads;
    uint64_t live_bytes, first_us;
    size_t op_limit;                 /* TRACE_OPS_MAX, unless a test lowers it */
    char problem[TRACE_PROBLEM_MAX]; /* what is wrong with the last operation */
};

/* One operation as a file tells it. */
struct trace_entry {
    enum trace_kind kind;
    uint64_t id, bytes, stream, thread, t_us;
    bool bytes_given, stream_given; /* a use without bytes writes all; a free may name no stream */
};

/* Starts an empty trace. False: no memory. trace_builder_end is due either way. */
bool trace_builder_begin(struct trace_builder *builder, struct trace *trace, const char *name);

/* Adds an operation; false with builder->problem set when it makes no sense or does not fit. */
bool trace_builder_add(struct trace_builder *builder, const struct trace_entry *entry);

/* Forgets the builder; the trace stays with the caller. */
void trace_builder_end(struct trace_builder *builder);

#endif
