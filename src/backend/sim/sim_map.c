/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/sim/sim_map.h"

#include "base/memory.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static const char operation[] = "simulated address map";

/* ---------------------------------------------------------------------- searching */

/* The last row whose low end is at most `key`; 0 when all are above. */
static uint32_t row_of(const struct vr_sim_map *map, uint64_t key) {
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

/* How many keys of a shelf are at most `key`. */
static uint32_t count_below(const struct vr_sim_shelf *shelf, uint64_t key) {
    uint32_t low = 0, high = shelf->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (shelf->keys[middle] <= key) {
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
    uint32_t row = row_of(map, key);
    const struct vr_sim_shelf *shelf = map->rows[row].shelf;
    uint32_t below = count_below(shelf, key);
    if (below == 0 && row > 0) {
        shelf = map->rows[row - 1].shelf; /* whose last key is below this row's low end */
        below = shelf->count;
    }
    return below ? shelf->values[below - 1] : NULL;
}

/* ----------------------------------------------------------------------- changing */

/* Opens a gap of one row at `at`, with an empty shelf in it. */
static struct vr_sim_shelf *add_row(struct vr_sim_map *map, uint32_t at, uint64_t low) {
    if (map->count == map->room) {
        uint32_t room = map->room ? map->room * 2 : 8;
        struct vr_sim_row *larger = vr_mem_resize(map->rows, room, sizeof *larger, operation);
        if (!larger) {
            return NULL;
        }
        map->rows = larger;
        map->room = room;
    }
    struct vr_sim_shelf *shelf = vr_mem_alloc(1, sizeof *shelf, operation);
    if (shelf) {
        memmove(&map->rows[at + 1], &map->rows[at], (map->count - at) * sizeof map->rows[0]);
        map->rows[at] = (struct vr_sim_row){low, shelf};
        map->count++;
    }
    return shelf;
}

/* Moves the upper half of a full shelf to a new one behind it. */
static bool split(struct vr_sim_map *map, uint32_t row) {
    enum { HALF = VR_SIM_SHELF_MAX / 2 };
    struct vr_sim_shelf *full = map->rows[row].shelf;
    struct vr_sim_shelf *upper = add_row(map, row + 1, full->keys[HALF]);
    if (!upper) {
        return false;
    }
    memcpy(upper->keys, &full->keys[HALF], HALF * sizeof full->keys[0]);
    memcpy(upper->values, &full->values[HALF], HALF * sizeof full->values[0]);
    upper->count = full->count = HALF;
    return true;
}

bool vr_sim_map_insert(struct vr_sim_map *map, uint64_t key, void *value) {
    if (map->count == 0 && !add_row(map, 0, key)) {
        return false;
    }
    uint32_t row = row_of(map, key);
    if (map->rows[row].shelf->count == VR_SIM_SHELF_MAX) {
        if (!split(map, row)) {
            return false;
        }
        row = row_of(map, key);
    }
    struct vr_sim_shelf *shelf = map->rows[row].shelf;
    uint32_t at = count_below(shelf, key), behind = shelf->count - at;
    assert(at == 0 || shelf->keys[at - 1] != key);
    memmove(&shelf->keys[at + 1], &shelf->keys[at], behind * sizeof shelf->keys[0]);
    memmove(&shelf->values[at + 1], &shelf->values[at], behind * sizeof shelf->values[0]);
    shelf->keys[at] = key;
    shelf->values[at] = value;
    shelf->count++;
    if (key < map->rows[row].low) { /* only below all rows */
        map->rows[row].low = key;
    }
    return true;
}

void vr_sim_map_remove(struct vr_sim_map *map, uint64_t key) {
    uint32_t row = row_of(map, key);
    struct vr_sim_shelf *shelf = map->rows[row].shelf;
    uint32_t behind = count_below(shelf, key), at = behind - 1;
    assert(behind > 0 && shelf->keys[at] == key);
    uint32_t rest = shelf->count - behind;
    memmove(&shelf->keys[at], &shelf->keys[behind], rest * sizeof shelf->keys[0]);
    memmove(&shelf->values[at], &shelf->values[behind], rest * sizeof shelf->values[0]);
    if (--shelf->count == 0) {
        vr_mem_free(shelf);
        map->count--;
        memmove(&map->rows[row], &map->rows[row + 1], (map->count - row) * sizeof map->rows[0]);
    }
}

void vr_sim_map_free(struct vr_sim_map *map) {
    for (uint32_t i = 0; i < map->count; i++) {
        vr_mem_free(map->rows[i].shelf);
    }
    vr_mem_free(map->rows);
    *map = (struct vr_sim_map){0};
}
