/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment_map.c: see segment_map.h.
 */
#include "segment_map.h"
#include "replay/trace_ids.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDING = 512, SMALL_BYTES = 1 << 20, BLOCKS_MAX = 1 << 23 };

bool segment_map_begin(struct segment_map *map) {
    memset(map, 0, sizeof *map);
    map->starts = trace_ids_create();
    map->ends = trace_ids_create();
    map->borders = trace_ids_create();
    return map->starts != NULL && map->ends != NULL && map->borders != NULL;
}

void segment_map_free(struct segment_map *map) {
    trace_ids_destroy(map->starts);
    trace_ids_destroy(map->ends);
    trace_ids_destroy(map->borders);
    free(map->blocks);
    free(map->unused);
    memset(map, 0, sizeof *map);
}

static bool take_slot(struct segment_map *map, uint32_t *slot) {
    if (map->unused_count > 0) {
        *slot = map->unused[--map->unused_count];
        return true;
    }
    if (map->count == map->capacity) {
        uint32_t capacity = map->capacity > 0 ? map->capacity * 2 : 256;
        if (capacity > BLOCKS_MAX) {
            return false;
        }
        struct map_block *blocks = realloc(map->blocks, capacity * sizeof *blocks);
        map->blocks = blocks != NULL ? blocks : map->blocks;
        uint32_t *unused = realloc(map->unused, capacity * sizeof *unused);
        map->unused = unused != NULL ? unused : map->unused;
        if (blocks == NULL || unused == NULL) {
            return false;
        }
        map->capacity = capacity;
    }
    *slot = map->count++;
    return true;
}

static void set_end(struct segment_map *map, uint64_t end) {
    trace_ids_remove(map->ends, end); /* in a broken file another may end there */
}

/* Takes a block out of the tables. */
static void drop(struct segment_map *map, uint32_t slot) {
    const struct map_block *block = &map->blocks[slot];
    trace_ids_remove(map->starts, block->addr);
    if (!block->live) {
        set_end(map, block->addr + block->size);
    }
    map->unused[map->unused_count++] = slot;
}

static bool put(struct segment_map *map, const struct map_block *block, uint32_t *slot) {
    uint32_t there;
    if (trace_ids_find(map->starts, block->addr, &there)) {
        drop(map, there);
    }
    if (!take_slot(map, slot)) {
        return false;
    }
    map->blocks[*slot] = *block;
    if (!trace_ids_add(map->starts, block->addr, *slot)) {
        map->unused[map->unused_count++] = *slot;
        return false;
    }
    if (block->live) {
        return true;
    }
    set_end(map, block->addr + block->size);
    return trace_ids_add(map->ends, block->addr + block->size, *slot);
}

static bool is_border(const struct segment_map *map, uint64_t addr) {
    uint32_t ignored;
    return trace_ids_find(map->borders, addr, &ignored);
}

/* A free block, merged with its neighbours. */
static bool put_free(struct segment_map *map, uint64_t addr, uint64_t size) {
    struct map_block block = {.addr = addr, .size = size};
    uint32_t slot;
    if (size == 0 || addr > UINT64_MAX - size) {
        return true;
    }
    if (!is_border(map, addr + size) && trace_ids_find(map->starts, addr + size, &slot) &&
        !map->blocks[slot].live && map->blocks[slot].size <= UINT64_MAX - addr - block.size) {
        block.size += map->blocks[slot].size;
        drop(map, slot);
    }
    if (!is_border(map, addr) && trace_ids_find(map->ends, addr, &slot)) {
        block.addr = map->blocks[slot].addr;
        block.size += map->blocks[slot].size;
        drop(map, slot);
    }
    return put(map, &block, &slot);
}

bool segment_map_add(struct segment_map *map, uint64_t addr, uint64_t size, bool merge) {
    uint32_t slot;
    if (!merge && !is_border(map, addr) && !trace_ids_add(map->borders, addr, 0)) {
        return false;
    }
    return trace_ids_find(map->starts, addr, &slot) || put_free(map, addr, size);
}

bool segment_map_remove(struct segment_map *map, uint64_t addr, uint64_t size) {
    uint32_t slot;
    trace_ids_remove(map->borders, addr);
    if (trace_ids_find(map->starts, addr, &slot) && !map->blocks[slot].live) {
        uint64_t whole = map->blocks[slot].size;
        drop(map, slot);
        return whole <= size || put_free(map, addr + size, whole - size);
    }
    if (size <= UINT64_MAX - addr && trace_ids_find(map->ends, addr + size, &slot) &&
        map->blocks[slot].size > size) {
        struct map_block block = map->blocks[slot];
        drop(map, slot);
        return put_free(map, block.addr, block.size - size);
    }
    return true;
}

struct map_block *segment_map_find(const struct segment_map *map, uint64_t addr) {
    uint32_t slot;
    bool there = trace_ids_find(map->starts, addr, &slot) && map->blocks[slot].live;
    return there ? &map->blocks[slot] : NULL;
}

/* What is cut off a free block of `whole` bytes for a request of `rounded`. */
static uint64_t cut_size(uint64_t rounded, uint64_t whole, const struct split_rule *rule) {
    uint64_t rest = whole - rounded;
    bool split = rounded <= SMALL_BYTES || rule->expandable
                     ? rest >= ROUNDING
                     : rest > SMALL_BYTES && (rule->most == 0 || rounded < rule->most);
    return split ? rounded : whole;
}

struct map_block *segment_map_take(struct segment_map *map, uint64_t addr, uint64_t bytes,
                                   uint64_t size, const struct split_rule *rule, bool *exact) {
    uint64_t most = UINT64_MAX - ROUNDING;
    uint64_t wanted = bytes == 0 ? 1 : bytes < most ? bytes : most;
    uint64_t rounded = size > 0 ? size : (wanted + ROUNDING - 1) / ROUNDING * ROUNDING;
    struct map_block block = {.addr = addr, .size = rounded, .bytes = bytes, .live = true};
    uint32_t slot;
    *exact = size > 0 || rule->expandable;
    if (trace_ids_find(map->starts, addr, &slot) && !map->blocks[slot].live &&
        map->blocks[slot].size >= rounded) {
        uint64_t whole = map->blocks[slot].size;
        block.size = size > 0 ? size : cut_size(rounded, whole, rule);
        *exact = true;
        drop(map, slot);
        if (!put(map, &block, &slot)) {
            return NULL;
        }
        uint32_t at = slot; /* kept while the rest goes in */
        bool good = whole == block.size || put_free(map, addr + block.size, whole - block.size);
        return good ? &map->blocks[at] : NULL;
    }
    return put(map, &block, &slot) ? &map->blocks[slot] : NULL;
}

bool segment_map_give(struct segment_map *map, uint64_t addr) {
    uint32_t slot;
    if (!trace_ids_find(map->starts, addr, &slot) || !map->blocks[slot].live) {
        return true;
    }
    uint64_t size = map->blocks[slot].size;
    drop(map, slot);
    return put_free(map, addr, size);
}
