/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_lists.h: the live blocks of a recording by the pool they are of, so that the end of a pool ends them.
 *
 * A block is known by its slot, a small number that its owner gives it and may give to another once it was
 * removed; a pool by the number of its definition. All but growing takes constant time.
 */
#ifndef REPLAY_POOL_LISTS_H
#define REPLAY_POOL_LISTS_H

#include <stdbool.h>
#include <stdint.h>

struct pool_link;

struct pool_lists {
    uint32_t *first;         /* by pool: its first block's slot, and 1; 0: it has none */
    struct pool_link *links; /* by slot */
    uint32_t capacity;       /* slots */
};

/* False: no memory. pool_lists_free is due either way. */
bool pool_lists_begin(struct pool_lists *lists);
void pool_lists_free(struct pool_lists *lists);

/* A block that is in no list becomes one of `pool`, which is 1 to RECORDING_DEFINITIONS_MAX; any other pool has no
   list, and nothing is done. False: no memory. */
bool pool_lists_add(struct pool_lists *lists, uint32_t pool, uint32_t slot, uint64_t id);

/* Fine for a block that is in no list. */
void pool_lists_remove(struct pool_lists *lists, uint32_t slot);

/* A block of the pool; false: it has none. */
bool pool_lists_any(const struct pool_lists *lists, uint32_t pool, uint32_t *slot, uint64_t *id);

#endif
