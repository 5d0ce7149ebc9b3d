/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_map.h: an ordered map from addresses to pointers.
 *
 * A tree of two levels: an array of rows, each with a leaf of sorted keys; a full leaf is split in
 * two. Both searches, for the leaf and in it, are binary and run over adjacent keys, so that a
 * look-up among tens of thousands of addresses touches few cache lines. Removing never allocates,
 * so that freeing memory cannot fail because memory ran out.
 *
 *   rows    [ low | leaf ] [ low | leaf ] [ low | leaf ]      low <= first key of the leaf
 *                     |              |
 *                 keys, values   keys, values                 sorted; never empty
 */
#ifndef VR_SIM_MAP_H
#define VR_SIM_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define VR_SIM_LEAF_MAX 256 /* keys in one leaf */

struct vr_sim_leaf {
    uint32_t count;
    uint64_t keys[VR_SIM_LEAF_MAX];
    void *values[VR_SIM_LEAF_MAX];
};

struct vr_sim_row {
    uint64_t low; /* at most the first key of the leaf, above the last of the one before */
    struct vr_sim_leaf *leaf;
};

struct vr_sim_map {
    struct vr_sim_row *rows;
    uint32_t count;    /* rows in use */
    uint32_t capacity; /* allocated rows */
};

/* Inserts a key that the map does not have. False, with the error set, if host memory ran out. */
bool vr_sim_map_insert(struct vr_sim_map *map, uint64_t key, void *value);
/* Removes a key that the map has. */
void vr_sim_map_remove(struct vr_sim_map *map, uint64_t key);
/* The value of the greatest key that is at most `key`; NULL if there is none. */
void *vr_sim_map_below(const struct vr_sim_map *map, uint64_t key);
/* Frees the map's memory, not the values. */
void vr_sim_map_free(struct vr_sim_map *map);

#endif
