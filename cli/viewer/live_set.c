/* SPDX-License-Identifier: Apache-2.0 */
/* live_set.c: see live_set.h. */
#include "live_set.h"
#include "replay/trace_ids.h"

#include <stdlib.h>
#include <string.h>

bool live_set_begin(struct live_set *set) {
    memset(set, 0, sizeof *set);
    set->ids = trace_ids_create();
    return set->ids != NULL;
}

void live_set_free(struct live_set *set) {
    trace_ids_destroy(set->ids);
    free(set->blocks);
    free(set->unused);
    memset(set, 0, sizeof *set);
}

static bool set_grow(struct live_set *set) {
    uint32_t capacity = set->capacity > 0 ? set->capacity * 2 : 1024;
    struct live_block *blocks = realloc(set->blocks, capacity * sizeof *blocks);
    set->blocks = blocks != NULL ? blocks : set->blocks;
    uint32_t *unused = realloc(set->unused, capacity * sizeof *unused);
    set->unused = unused != NULL ? unused : set->unused;
    if (blocks == NULL || unused == NULL) {
        return false;
    }
    set->capacity = capacity;
    return true;
}

static void block_end(struct live_set *set, uint32_t slot, uint64_t end_ns, bool left,
                      const struct live_watcher *watcher) {
    struct live_block *block = &set->blocks[slot];
    trace_ids_remove(set->ids, block->id);
    watcher->ended(watcher->user, block, end_ns, left);
    block->used = false;
    set->unused[set->unused_count++] = slot;
}

static bool block_begin(struct live_set *set, const struct recorded *event,
                        const struct live_watcher *watcher) {
    uint32_t slot;
    if (trace_ids_find(set->ids, event->id, &slot)) { /* its free was lost */
        block_end(set, slot, event->time_ns, false, watcher);
    }
    if (set->unused_count == 0 && set->slots == LIVE_BLOCKS_MAX) {
        set->left_out++;
        return true;
    }
    if (set->unused_count == 0 && set->slots == set->capacity && !set_grow(set)) {
        return false;
    }
    slot = set->unused_count > 0 ? set->unused[--set->unused_count] : set->slots++;
    set->blocks[slot] = (struct live_block){.id = event->id,
                                            .addr = event->addr,
                                            .bytes = event->bytes,
                                            .begin_ns = event->time_ns,
                                            .begin_step = set->step,
                                            .pool = event->pool,
                                            .queue = event->queue,
                                            .tag = event->tag_number,
                                            .stack = event->stack,
                                            .used = true};
    if (!trace_ids_add(set->ids, event->id, slot)) {
        set->blocks[slot].used = false;
        return false;
    }
    watcher->begun(watcher->user, &set->blocks[slot]);
    return true;
}

/* The block with its new size; it keeps what the event does not say. */
static bool block_resize(struct live_set *set, const struct recorded *event,
                         const struct live_watcher *watcher) {
    uint32_t slot;
    if (!trace_ids_find(set->ids, event->id, &slot)) {
        return true;
    }
    struct recorded again = *event;
    again.stack = event->stack > 0 ? event->stack : set->blocks[slot].stack;
    again.tag_number = event->tag_number > 0 ? event->tag_number : set->blocks[slot].tag;
    again.addr = event->addr > 0 ? event->addr : set->blocks[slot].addr;
    again.queue = set->blocks[slot].queue;
    block_end(set, slot, event->time_ns, false, watcher);
    return block_begin(set, &again, watcher);
}

static void pool_end(struct live_set *set, const struct recorded *event,
                     const struct live_watcher *watcher) {
    for (uint32_t slot = 0; slot < set->slots; slot++) {
        if (set->blocks[slot].used && set->blocks[slot].pool == event->pool) {
            block_end(set, slot, event->time_ns, true, watcher);
        }
    }
}

bool live_set_is_step(const struct recorded *event) {
    return event->kind == RECORDED_ALLOC || event->kind == RECORDED_FREE ||
           event->kind == RECORDED_RESIZE;
}

bool live_set_add(struct live_set *set, const struct recorded *event,
                  const struct live_watcher *watcher) {
    uint32_t slot;
    set->step += live_set_is_step(event);
    switch (event->kind) {
    case RECORDED_ALLOC:
        return block_begin(set, event, watcher);
    case RECORDED_FREE:
        if (trace_ids_find(set->ids, event->id, &slot)) {
            block_end(set, slot, event->time_ns, false, watcher);
        }
        return true;
    case RECORDED_RESIZE:
        return block_resize(set, event, watcher);
    case RECORDED_POOL_END:
        pool_end(set, event, watcher);
        return true;
    default:
        return true;
    }
}

void live_set_finish(struct live_set *set, const struct live_watcher *watcher) {
    for (uint32_t slot = 0; slot < set->slots; slot++) {
        if (set->blocks[slot].used) {
            block_end(set, slot, LIVE_TO_THE_END, true, watcher);
        }
    }
}
