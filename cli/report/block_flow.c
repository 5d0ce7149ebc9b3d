/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_flow.c: see block_flow.h.
 */
#include "block_flow.h"
#include "replay/trace_ids.h"

#include <stdlib.h>
#include <string.h>

enum { ADDRESS_ROUNDING = 512 };

#define FIRST_ADDRESS UINT64_C(0x100000000)

bool block_flow_begin(struct block_flow *flow, const struct flow_writer *writer) {
    memset(flow, 0, sizeof *flow);
    flow->writer = *writer;
    flow->next_addr = FIRST_ADDRESS;
    flow->ids = trace_ids_create();
    return flow->ids != NULL;
}

void block_flow_free(struct block_flow *flow) {
    trace_ids_destroy(flow->ids);
    pool_lists_free(&flow->by_pool);
    free(flow->blocks);
    free(flow->unused);
    memset(flow, 0, sizeof *flow);
}

static bool take_slot(struct block_flow *flow, uint32_t *slot) {
    if (flow->unused_count > 0) {
        *slot = flow->unused[--flow->unused_count];
        return true;
    }
    if (flow->count == flow->capacity) {
        uint32_t capacity = flow->capacity > 0 ? flow->capacity * 2 : 256;
        struct flow_block *blocks = realloc(flow->blocks, capacity * sizeof *blocks);
        flow->blocks = blocks != NULL ? blocks : flow->blocks;
        uint32_t *unused = realloc(flow->unused, capacity * sizeof *unused);
        flow->unused = unused != NULL ? unused : flow->unused;
        if (blocks == NULL || unused == NULL) { /* the history has a limit: its blocks are these */
            return false;
        }
        flow->capacity = capacity;
    }
    *slot = flow->count++;
    return true;
}

static uint64_t address_of(struct block_flow *flow, const struct recorded *event) {
    if (event->addr != 0) {
        return event->addr;
    }
    uint64_t addr = flow->next_addr;
    uint64_t bytes = event->held < UINT64_MAX >> 16 ? event->held : UINT64_MAX >> 16;
    flow->next_addr += (bytes / ADDRESS_ROUNDING + 1) * ADDRESS_ROUNDING;
    return addr;
}

static bool add_alloc(struct block_flow *flow, const struct recorded *event) {
    uint32_t slot;
    if (event->id == 0) { /* a part of its record is lost */
        return true;
    }
    if (!take_slot(flow, &slot)) {
        return false;
    }
    struct flow_block *block = &flow->blocks[slot];
    *block = (struct flow_block){.id = event->id,
                                 .addr = address_of(flow, event),
                                 .bytes = event->bytes,
                                 .held = event->held > event->bytes ? event->held : event->bytes,
                                 .time_ns = event->time_ns,
                                 .queue = event->queue,
                                 .thread = event->thread,
                                 .pool = event->pool,
                                 .device = event->device,
                                 .pool_number = event->pool_number,
                                 .stack = event->stack,
                                 .tag_number = event->tag_number,
                                 .tag = event->tag,
                                 .pool_name = event->pool_name,
                                 .earlier = event->earlier};
    return trace_ids_add(flow->ids, event->id, slot) &&
           pool_lists_add(&flow->by_pool, event->pool_number, slot, event->id) &&
           flow->writer.alloc(flow->writer.user, block);
}

static bool end_slot(struct block_flow *flow, uint32_t slot, uint64_t time_ns) {
    const struct flow_block *block = &flow->blocks[slot];
    bool good = flow->writer.free(flow->writer.user, block, time_ns);
    pool_lists_remove(&flow->by_pool, slot);
    trace_ids_remove(flow->ids, block->id);
    flow->unused[flow->unused_count++] = slot;
    return good;
}

/* The same block with another size: stack and tag stay its own. */
static bool add_resize(struct block_flow *flow, uint32_t slot, const struct recorded *event) {
    struct recorded again = *event;
    const struct flow_block *block = &flow->blocks[slot];
    again.stack = block->stack;
    again.tag = block->tag;
    again.tag_number = block->tag_number;
    again.addr = event->addr != 0 ? event->addr : block->addr;
    return end_slot(flow, slot, event->time_ns) && add_alloc(flow, &again);
}

bool block_flow_add(void *user, const struct recorded *event) {
    struct block_flow *flow = user;
    uint32_t slot = 0;
    uint64_t id;
    bool live = event->id != 0 && trace_ids_find(flow->ids, event->id, &slot);
    switch (event->kind) {
    case RECORDED_ALLOC:
        return add_alloc(flow, event);
    case RECORDED_FREE:
        return !live || end_slot(flow, slot, event->time_ns);
    case RECORDED_RESIZE:
        return !live || add_resize(flow, slot, event);
    case RECORDED_POOL_END:
        while (pool_lists_any(&flow->by_pool, event->pool_number, &slot, &id)) {
            if (!end_slot(flow, slot, event->time_ns)) {
                return false;
            }
        }
        return true;
    case RECORDED_REFUSE:
    case RECORDED_SAMPLE:
    case RECORDED_MARK:
        return flow->writer.other == NULL || flow->writer.other(flow->writer.user, event);
    default:
        return true;
    }
}
