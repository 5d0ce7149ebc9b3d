/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/sim/sim_map.h"

#include <assert.h>
#include <stddef.h>

/* The finaliser of splitmix64: every bit of the key reaches every bit of the weight. */
static uint64_t weight_of(uint64_t key) {
    key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
    return key ^ (key >> 31);
}

void vr_sim_map_insert(struct vr_sim_map *map, struct vr_sim_node *node, uint64_t key) {
    struct vr_sim_node **link = &map->root;
    node->key = key;
    node->weight = weight_of(key);
    while (*link && (*link)->weight > node->weight) {
        link = key < (*link)->key ? &(*link)->left : &(*link)->right;
    }
    /* The subtree found is lighter: it is split at the key, and its halves hang below the node. */
    struct vr_sim_node *rest = *link, **left = &node->left, **right = &node->right;
    *link = node;
    while (rest) {
        assert(rest->key != key);
        if (rest->key < key) {
            *left = rest;
            left = &rest->right;
            rest = rest->right;
        } else {
            *right = rest;
            right = &rest->left;
            rest = rest->left;
        }
    }
    *left = *right = NULL;
}

void vr_sim_map_remove(struct vr_sim_map *map, struct vr_sim_node *node) {
    struct vr_sim_node **link = &map->root;
    while (*link != node) {
        assert(*link);
        link = node->key < (*link)->key ? &(*link)->left : &(*link)->right;
    }
    struct vr_sim_node *left = node->left, *right = node->right;
    while (left && right) {
        if (left->weight > right->weight) {
            *link = left;
            link = &left->right;
            left = left->right;
        } else {
            *link = right;
            link = &right->left;
            right = right->left;
        }
    }
    *link = left ? left : right;
    node->left = node->right = NULL;
}

struct vr_sim_node *vr_sim_map_below(const struct vr_sim_map *map, uint64_t key) {
    struct vr_sim_node *node = map->root, *best = NULL;
    while (node) {
        if (node->key <= key) {
            best = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return best;
}

struct vr_sim_node *vr_sim_map_above(const struct vr_sim_map *map, uint64_t key) {
    struct vr_sim_node *node = map->root, *best = NULL;
    while (node) {
        if (node->key >= key) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}
