/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_map.h: an ordered map from addresses to what lies there.
 *
 * Shelves of sorted keys, in order; a shelf that is full is split in two. Both searches, for the
 * shelf and on it, are binary and run over keys that lie side by side, so that a lookup among tens
 * of thousands of addresses meets few cache lines. Taking out never needs memory, so that giving
 * memory back cannot fail for want of it.
 *
 *   rows    [ low | shelf ] [ low | shelf ] [ low | shelf ]      low <= first key of the shelf
 *                     |               |
 *                 keys, values    keys, values                   sorted; never empty
 */
#ifndef VR_SIM_MAP_H
#define VR_SIM_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define VR_SIM_SHELF_MAX 256 /* keys on one shelf */

struct vr_sim_shelf {
    uint32_t count;
    uint64_t keys[VR_SIM_SHELF_MAX];
    void *values[VR_SIM_SHELF_MAX];
};

struct vr_sim_row {
    uint64_t low; /* at most the first key of the shelf, above the last of the one before */
    struct vr_sim_shelf *shelf;
};

struct vr_sim_map {
    struct vr_sim_row *rows;
    uint32_t count; /* rows in use */
    uint32_t room;  /* rows there is memory for */
};

/* Inserts a key that the map does not have. False, with the error recorded, without host memory. */
bool vr_sim_map_insert(struct vr_sim_map *map, uint64_t key, void *value);
/* Takes out a key that the map has. */
void vr_sim_map_remove(struct vr_sim_map *map, uint64_t key);
/* The value of the greatest key that is at most `key`; NULL when there is none. */
void *vr_sim_map_below(const struct vr_sim_map *map, uint64_t key);
/* Frees the map's memory; the values are their owners'. */
void vr_sim_map_free(struct vr_sim_map *map);

#endif
