/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size_tree.c: see size_tree.h. A treap: priorities are random, so it is shallow whatever comes,
 * and adding and removing are two short rules, split and join.
 */
#include "size_tree.h"

#include <stdbool.h>
#include <stddef.h>

static bool below(const struct size_node *a, const struct size_node *b) {
    if (a->queue != b->queue) {
        return a->queue < b->queue;
    }
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->addr < b->addr;
}

/* xorshift64, never 0. */
static uint64_t draw(struct size_tree *tree) {
    uint64_t x = tree->random != 0 ? tree->random : UINT64_C(0x2545f4914f6cdd1d);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return tree->random = x;
}

/* Parts a tree into what is below `key` and the rest; walks down one path. */
static void split(struct size_node *tree, const struct size_node *key, struct size_node **low,
                  struct size_node **high) {
    while (tree != NULL) {
        if (below(tree, key)) {
            *low = tree;
            low = &tree->right;
            tree = tree->right;
        } else {
            *high = tree;
            high = &tree->left;
            tree = tree->left;
        }
    }
    *low = *high = NULL;
}

/* Joins two trees of which all of `low` is below all of `high`. */
static struct size_node *join(struct size_node *low, struct size_node *high) {
    struct size_node *root = NULL, **at = &root;
    while (low != NULL && high != NULL) {
        if (low->priority > high->priority) {
            *at = low;
            at = &low->right;
            low = low->right;
        } else {
            *at = high;
            at = &high->left;
            high = high->left;
        }
    }
    *at = low != NULL ? low : high;
    return root;
}

void size_tree_add(struct size_tree *tree, struct size_node *node) {
    struct size_node **at = &tree->root;
    node->priority = draw(tree);
    while (*at != NULL && (*at)->priority > node->priority) {
        at = below(*at, node) ? &(*at)->right : &(*at)->left;
    }
    split(*at, node, &node->left, &node->right);
    *at = node;
}

void size_tree_remove(struct size_tree *tree, struct size_node *node) {
    struct size_node **at = &tree->root;
    while (*at != NULL && *at != node) {
        at = below(*at, node) ? &(*at)->right : &(*at)->left;
    }
    if (*at != NULL) {
        *at = join(node->left, node->right);
    }
}

/* The first node that is not below `key`, or behind it when that is asked for. */
static struct size_node *first_from(const struct size_tree *tree, const struct size_node *key,
                                    bool behind) {
    struct size_node *best = NULL;
    for (struct size_node *node = tree->root; node != NULL;) {
        bool good = behind ? below(key, node) : !below(node, key);
        best = good ? node : best;
        node = good ? node->left : node->right;
    }
    return best;
}

struct size_node *size_tree_fit(const struct size_tree *tree, uint32_t queue, uint64_t bytes) {
    struct size_node key = {.queue = queue, .bytes = bytes, .addr = 0};
    struct size_node *found = first_from(tree, &key, false);
    return found != NULL && found->queue == queue ? found : NULL;
}

struct size_node *size_tree_next(const struct size_tree *tree, const struct size_node *node) {
    struct size_node least = {.queue = 0, .bytes = 0, .addr = 0};
    return node != NULL ? first_from(tree, node, true) : first_from(tree, &least, false);
}
