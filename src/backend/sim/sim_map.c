/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/sim/sim_map.h"

#include "base/memory.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static const char operation[] = "simulated address map";

/* ---------------------------------------------------------------------- searching */

/* The last row whose low end is at most `key`; 0 if all are above. */
static uint32_t map_row(const struct vr_sim_map *map, uint64_t key) {
    uint32_t low = 0, high = map->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (map->rows[middle].low <= key) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* How many keys of a leaf are at most `key`. */
static uint32_t leaf_count_below(const struct vr_sim_leaf *leaf, uint64_t key) {
    uint32_t low = 0, high = leaf->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (leaf->keys[middle] <= key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void *vr_sim_map_below(const struct vr_sim_map *map, uint64_t key) {
    if (map->count == 0) {
        return NULL;
    }
    uint32_t row = map_row(map, key);
    const struct vr_sim_leaf *leaf = map->rows[row].leaf;
    uint32_t below = leaf_count_below(leaf, key);
    if (below == 0 && row > 0) {
        leaf = map->rows[row - 1].leaf; /* whose last key is below this row's low end */
        below = leaf->count;
    }
    return below ? leaf->values[below - 1] : NULL;
}

/* ----------------------------------------------------------------------- changing */

/* Inserts a row with an empty leaf at `at`. */
static struct vr_sim_leaf *map_add_row(struct vr_sim_map *map, uint32_t at, uint64_t low) {
    if (map->count == map->capacity) {
        uint32_t capacity = map->capacity ? map->capacity * 2 : 8;
        struct vr_sim_row *larger = vr_mem_resize(map->rows, capacity, sizeof *larger, operation);
        if (!larger) {
            return NULL;
        }
        map->rows = larger;
        map->capacity = capacity;
    }
    struct vr_sim_leaf *leaf = vr_mem_alloc(1, sizeof *leaf, operation);
    if (leaf) {
        memmove(&map->rows[at + 1], &map->rows[at], (map->count - at) * sizeof map->rows[0]);
        map->rows[at] = (struct vr_sim_row){low, leaf};
        map->count++;
    }
    return leaf;
}

/* Moves the upper half of a full leaf to a new one after it. */
static bool leaf_split(struct vr_sim_map *map, uint32_t row) {
    enum { HALF = VR_SIM_LEAF_MAX / 2 };
    struct vr_sim_leaf *full = map->rows[row].leaf;
    struct vr_sim_leaf *upper = map_add_row(map, row + 1, full->keys[HALF]);
    if (!upper) {
        return false;
    }
    memcpy(upper->keys, &full->keys[HALF], HALF * sizeof full->keys[0]);
    memcpy(upper->values, &full->values[HALF], HALF * sizeof full->values[0]);
    upper->count = full->count = HALF;
    return true;
}

bool vr_sim_map_insert(struct vr_sim_map *map, uint64_t key, void *value) {
    if (map->count == 0 && !map_add_row(map, 0, key)) {
        return false;
    }
    uint32_t row = map_row(map, key);
    if (map->rows[row].leaf->count == VR_SIM_LEAF_MAX) {
        if (!leaf_split(map, row)) {
            return false;
        }
        row = map_row(map, key);
    }
    struct vr_sim_leaf *leaf = map->rows[row].leaf;
    uint32_t at = leaf_count_below(leaf, key), behind = leaf->count - at;
    assert(at == 0 || leaf->keys[at - 1] != key);
    memmove(&leaf->keys[at + 1], &leaf->keys[at], behind * sizeof leaf->keys[0]);
    memmove(&leaf->values[at + 1], &leaf->values[at], behind * sizeof leaf->values[0]);
    leaf->keys[at] = key;
    leaf->values[at] = value;
    leaf->count++;
    if (key < map->rows[row].low) { /* only if it is below all rows */
        map->rows[row].low = key;
    }
    return true;
}

void vr_sim_map_remove(struct vr_sim_map *map, uint64_t key) {
    uint32_t row = map_row(map, key);
    struct vr_sim_leaf *leaf = map->rows[row].leaf;
    uint32_t behind = leaf_count_below(leaf, key), at = behind - 1;
    assert(behind > 0 && leaf->keys[at] == key);
    uint32_t rest = leaf->count - behind;
    memmove(&leaf->keys[at], &leaf->keys[behind], rest * sizeof leaf->keys[0]);
    memmove(&leaf->values[at], &leaf->values[behind], rest * sizeof leaf->values[0]);
    if (--leaf->count == 0) {
        vr_mem_free(leaf);
        map->count--;
        memmove(&map->rows[row], &map->rows[row + 1], (map->count - row) * sizeof map->rows[0]);
    }
}

void vr_sim_map_free(struct vr_sim_map *map) {
    for (uint32_t i = 0; i < map->count; i++) {
        vr_mem_free(map->rows[i].leaf);
    }
    vr_mem_free(map->rows);
    *map = (struct vr_sim_map){0};
}
