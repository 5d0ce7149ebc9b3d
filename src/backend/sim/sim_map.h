/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_map.h: an ordered map from addresses to what lies there, inside the objects themselves.
 *
 * A treap: a search tree by key that is at the same time a heap by a hash of the key, which keeps
 * its depth near 2 ln n whatever the order of insertion. It allocates nothing, so that giving
 * memory back cannot fail for want of memory.
 */
#ifndef VR_SIM_MAP_H
#define VR_SIM_MAP_H

#include <stdint.h>

struct vr_sim_node {
    struct vr_sim_node *left, *right;
    uint64_t key;
    uint64_t weight; /* higher is nearer to the root */
};

struct vr_sim_map {
    struct vr_sim_node *root;
};

/* Inserts a node under `key`, which no other node of the map has. */
void vr_sim_map_insert(struct vr_sim_map *map, struct vr_sim_node *node, uint64_t key);
/* Takes a node out; it is in the map. */
void vr_sim_map_remove(struct vr_sim_map *map, struct vr_sim_node *node);
/* The node with the greatest key that is at most `key`, or NULL. */
struct vr_sim_node *vr_sim_map_below(const struct vr_sim_map *map, uint64_t key);
/* The node with the smallest key that is at least `key`, or NULL. */
struct vr_sim_node *vr_sim_map_above(const struct vr_sim_map *map, uint64_t key);

#endif
