/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size_tree.h: an ordered set for best fit: nodes by queue, size and address, and the first one
 * that is not below a given place. Nodes lie inside what is kept, so nothing is allocated here.
 */
#ifndef REPLAY_SIZE_TREE_H
#define REPLAY_SIZE_TREE_H

#include <stdint.h>

struct size_node {
    struct size_node *left, *right;
    uint64_t priority; /* a heap by this, a search tree by the rest */
    uint64_t bytes, addr;
    uint32_t queue;
};

struct size_tree {
    struct size_node *root;
    uint64_t random; /* of the priorities */
};

/* Adds a node whose queue, bytes and addr are set; no other may be equal to it. */
void size_tree_add(struct size_tree *tree, struct size_node *node);

/* Takes out a node that is in it. */
void size_tree_remove(struct size_tree *tree, struct size_node *node);

/* The smallest node of that queue with at least so many bytes, the lowest address of equals; NULL
   when there is none. */
struct size_node *size_tree_fit(const struct size_tree *tree, uint32_t queue, uint64_t bytes);

/* The node of the lowest queue, size and address that follows `node`; the first one for NULL. */
struct size_node *size_tree_next(const struct size_tree *tree, const struct size_node *node);

#endif
