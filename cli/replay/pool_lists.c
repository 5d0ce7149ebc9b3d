/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_lists.c: see pool_lists.h. Doubly linked lists through an array of slots.
 */
#include "pool_lists.h"

#include "recording.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_POOLS = 16, FIRST_SLOTS = 256 };

struct pool_link {
    uint64_t id;
    uint32_t pool;           /* 0: in no list */
    uint32_t next, previous; /* slot + 1; 0: none */
};

void pool_lists_free(struct pool_lists *lists) {
    free(lists->first);
    free(lists->links);
    *lists = (struct pool_lists){0};
}

/* The array with an entry `index`, doubled from `least` entries as often as that needs; new entries
   are 0. NULL: no memory, and the array is as it was. */
static void *array_reach(void *array, uint32_t *capacity, uint32_t index, uint32_t least,
                         size_t entry_bytes) {
    uint64_t wanted = *capacity > 0 ? *capacity : least;
    if (index < *capacity) {
        return array;
    }
    while (wanted <= index) {
        wanted *= 2;
    }
    char *grown = realloc(array, wanted * entry_bytes);
    if (grown != NULL) {
        memset(grown + *capacity * entry_bytes, 0, (wanted - *capacity) * entry_bytes);
        *capacity = (uint32_t)wanted;
    }
    return grown;
}

static bool places_make(struct pool_lists *lists, uint32_t pool, uint32_t slot) {
    uint32_t *first = array_reach(lists->first, &lists->pools, pool, FIRST_POOLS, sizeof *first);
    lists->first = first != NULL ? first : lists->first;
    struct pool_link *links =
        array_reach(lists->links, &lists->capacity, slot, FIRST_SLOTS, sizeof *links);
    lists->links = links != NULL ? links : lists->links;
    return first != NULL && links != NULL;
}

bool pool_lists_add(struct pool_lists *lists, uint32_t pool, uint32_t slot, uint64_t id) {
    if (pool == 0 || pool > RECORDING_DEFINITIONS_MAX) {
        return true;
    }
    if (!places_make(lists, pool, slot)) {
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
    if (pool >= lists->pools || lists->first[pool] == 0) {
        return false;
    }
    *slot = lists->first[pool] - 1;
    *id = lists->links[*slot].id;
    return true;
}
