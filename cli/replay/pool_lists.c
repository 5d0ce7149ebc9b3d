/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_lists.c: see pool_lists.h. Doubly linked lists through an array of slots.
 */
#include "pool_lists.h"

#include "recording.h"

#include <stdlib.h>
#include <string.h>

struct pool_link {
    uint64_t id;
    uint32_t pool;           /* 0: in no list */
    uint32_t next, previous; /* slot + 1; 0: none */
};

bool pool_lists_begin(struct pool_lists *lists) {
    *lists = (struct pool_lists){0};
    lists->first = calloc(RECORDING_DEFINITIONS_MAX + 1, sizeof *lists->first);
    return lists->first != NULL;
}

void pool_lists_free(struct pool_lists *lists) {
    free(lists->first);
    free(lists->links);
    *lists = (struct pool_lists){0};
}

static bool grow(struct pool_lists *lists, uint32_t slot) {
    uint64_t capacity = lists->capacity > 0 ? lists->capacity : 256;
    while (capacity <= slot) {
        capacity *= 2;
    }
    struct pool_link *links = realloc(lists->links, capacity * sizeof *links);
    if (links == NULL) {
        return false;
    }
    memset(links + lists->capacity, 0, (capacity - lists->capacity) * sizeof *links);
    lists->links = links;
    lists->capacity = (uint32_t)capacity;
    return true;
}

bool pool_lists_add(struct pool_lists *lists, uint32_t pool, uint32_t slot, uint64_t id) {
    if (pool == 0 || pool > RECORDING_DEFINITIONS_MAX) {
        return true;
    }
    if (slot >= lists->capacity && !grow(lists, slot)) {
        return false;
    }
    uint32_t next = lists->first[pool];
    lists->links[slot] = (struct pool_link){.id = id, .pool = pool, .next = next};
    if (next != 0) {
        lists->links[next - 1].previous = slot + 1;
    }
    lists->first[pool] = slot + 1;
    return true;
}

void pool_lists_remove(struct pool_lists *lists, uint32_t slot) {
    if (slot >= lists->capacity || lists->links[slot].pool == 0) {
        return;
    }
    struct pool_link *link = &lists->links[slot];
    if (link->next != 0) {
        lists->links[link->next - 1].previous = link->previous;
    }
    if (link->previous != 0) {
        lists->links[link->previous - 1].next = link->next;
    } else {
        lists->first[link->pool] = link->next;
    }
    link->pool = 0;
}

bool pool_lists_any(const struct pool_lists *lists, uint32_t pool, uint32_t *slot, uint64_t *id) {
    if (pool == 0 || pool > RECORDING_DEFINITIONS_MAX || lists->first[pool] == 0) {
        return false;
    }
    *slot = lists->first[pool] - 1;
    *id = lists->links[*slot].id;
    return true;
}
