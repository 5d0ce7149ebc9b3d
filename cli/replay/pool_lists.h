/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_lists.h: the live blocks of a recording, listed by pool, so that the end of a pool ends its
 * blocks.
 *
 * A block is identified by its slot, a small number that the owner may reuse once the block was
 * removed; a pool by the number of its definition. All operations take constant time, except
 * growing.
 */
#ifndef REPLAY_POOL_LISTS_H
#define REPLAY_POOL_LISTS_H

#include <stdbool.h>
#include <stdint.h>

struct pool_link;

/* All 0: no list has a block. Memory is taken as blocks are added. */
struct pool_lists {
    uint32_t *first;         /* by pool: slot of its first block + 1; 0: no block */
    uint32_t pools;          /* that `first` has a place for */
    struct pool_link *links; /* by slot */
    uint32_t capacity;       /* slots */
};

void pool_lists_free(struct pool_lists *lists);

/* Adds a block that is in no list to that of `pool`, which is 1 to RECORDING_DEFINITIONS_MAX; for
   any other pool it does nothing. False: no memory. */
bool pool_lists_add(struct pool_lists *lists, uint32_t pool, uint32_t slot, uint64_t id);

/* Does nothing for a block that is in no list. */
void pool_lists_remove(struct pool_lists *lists, uint32_t slot);

/* A block of the pool; false: it has none. */
bool pool_lists_any(const struct pool_lists *lists, uint32_t pool, uint32_t *slot, uint64_t *id);

#endif
