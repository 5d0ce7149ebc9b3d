/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment_map.h: how PyTorch's allocator cut its segments into blocks, followed entry by entry.
 *
 * An entry says what was requested. What was allocated can be more: sizes are rounded to 512 bytes,
 * and what is left of a free block stays with the allocation when it is too small to be cut off.
 * Entries carry addresses, so the free block that was taken is known, and with it that remainder.
 *
 * Neighbouring free blocks of one segment merge; across the begin of a segment they do not.
 */
#ifndef FORMATS_SEGMENT_MAP_H
#define FORMATS_SEGMENT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_ids;

struct map_block {
    uint64_t addr, size; /* as it was cut */
    uint64_t id, bytes;  /* of a live one: its number, and what was requested */
    uint32_t pool;       /* the owner's; of a live one */
    bool live;
    bool given; /* live, but its free was requested */
};

struct segment_map {
    struct trace_ids *starts;  /* blocks, free or live, by address */
    struct trace_ids *ends;    /* free blocks by the address behind them */
    struct trace_ids *borders; /* where segments begin */
    struct map_block *blocks;
    uint32_t *unused;
    uint32_t count, capacity, unused_count;
};

/* False: no memory. segment_map_free is due either way. */
bool segment_map_begin(struct segment_map *map);
void segment_map_free(struct segment_map *map);

/* Free memory comes: a segment, or with `merge` a piece of an expandable one. False: no memory. */
bool segment_map_add(struct segment_map *map, uint64_t addr, uint64_t size, bool merge);
/* It goes again. */
bool segment_map_remove(struct segment_map *map, uint64_t addr, uint64_t size);

/* The live block at an address; NULL: none. Valid until the next call. */
struct map_block *segment_map_find(const struct segment_map *map, uint64_t addr);

/* How the allocator rounds and splits. */
struct split_rule {
    bool expandable;
    uint64_t most; /* blocks of at least that size are not split; 0: no such limit */
};

/* Puts a live block at an address where none is. Its size is what the allocator cut for `bytes`, or
   `size` where that is not 0; *exact says whether the free block was known. NULL: no memory. */
struct map_block *segment_map_take(struct segment_map *map, uint64_t addr, uint64_t bytes,
                                   uint64_t size, const struct split_rule *rule, bool *exact);

/* The block at an address, which is live, becomes free. False: no memory. */
bool segment_map_give(struct segment_map *map, uint64_t addr);

#endif
