/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_set.h: the blocks that are live while a trace is read, and what each event changes in them.
 *
 * A resize is a free and an allocation; a pool that ends takes its blocks along. So whoever uses
 * this set sees allocations and frees alone.
 */
#ifndef VIEWER_LIVE_SET_H
#define VIEWER_LIVE_SET_H

#include "replay/shard_reader.h"

enum { LIVE_BLOCKS_MAX = 1 << 22 };

struct live_block {
    uint64_t id;
    uint64_t addr; /* 0: not known */
    uint64_t bytes;
    uint64_t begin_ns, begin_step;
    uint64_t pool, queue; /* handles */
    uint32_t tag, stack;  /* numbers of the recording; 0: none */
    bool used;            /* the slot is */
};

/* Whoever is told. `end_ns` is LIVE_TO_THE_END for a block that was live when the trace ended;
   `left`: the program never freed it, as that one and those of a pool that ended. */
#define LIVE_TO_THE_END UINT64_MAX

struct live_watcher {
    void *user;
    void (*begun)(void *user, const struct live_block *block);
    void (*ended)(void *user, const struct live_block *block, uint64_t end_ns, bool left);
};

struct live_set {
    struct trace_ids *ids;
    struct live_block *blocks;
    uint32_t *unused; /* slots, a stack */
    uint32_t capacity, slots, unused_count;
    uint64_t step;     /* of the change that is being made: how many there were, with it */
    uint64_t left_out; /* blocks that were too many to keep */
};

/* False: no memory. live_set_free is due either way. */
bool live_set_begin(struct live_set *set);

/* Whether an event changes what is live: such events are counted, and one axis of the page has each
   of them at the same width. */
bool live_set_is_step(const struct recorded *event);

/* One event; false: no memory. */
bool live_set_add(struct live_set *set, const struct recorded *event,
                  const struct live_watcher *watcher);

/* Tells of all blocks that are live as never freed. */
void live_set_finish(struct live_set *set, const struct live_watcher *watcher);

void live_set_free(struct live_set *set);

#endif
