/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_flow.h: the events of a trace as blocks that come and go, for writers of other formats.
 *
 * A resize is a free and an allocation. What is live when its pool ends is freed then. A trace
 * without addresses gets some: each block lies behind the one before it.
 */
#ifndef REPORT_BLOCK_FLOW_H
#define REPORT_BLOCK_FLOW_H

#include "history.h"

struct flow_block {
    uint64_t id, addr, bytes, held, time_ns, queue, thread;
    uint64_t pool, device; /* handles of the trace */
    uint32_t pool_number, stack, tag_number;
    const char *tag, *pool_name;
    bool earlier;  /* live before the first event */
    uint32_t note; /* the writer's own */
};

/* What a writer does. All return false when memory ran out; `other` may be NULL. */
struct flow_writer {
    void *user;
    bool (*alloc)(void *user, struct flow_block *block);
    bool (*free)(void *user, const struct flow_block *block, uint64_t time_ns);
    bool (*other)(void *user, const struct recorded *event); /* refusals, samples and marks */
};

struct block_flow {
    struct flow_writer writer;
    struct trace_ids *ids;
    struct pool_lists by_pool;
    struct flow_block *blocks;
    uint32_t *unused;
    uint32_t count, capacity, unused_count;
    uint64_t next_addr;
};

/* False: no memory. block_flow_free is due either way. */
bool block_flow_begin(struct block_flow *flow, const struct flow_writer *writer);
void block_flow_free(struct block_flow *flow);

/* One event; fits event_sink. */
bool block_flow_add(void *flow, const struct recorded *event);

#endif
