/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_ids.c: see trace_ids.h. Open addressing with linear probing, at most half full.
 *
 * Removal moves later entries of the same run back instead of leaving a mark, so a trace of
 * millions of short-lived blocks does not fill the table with marks. The hash is seeded by the
 * table's own address: nobody can write a trace whose ids all fall into one place.
 */
#include "trace_ids.h"

#include <stdlib.h>

struct entry {
    uint64_t id;
    uint32_t block;
    uint32_t used;
};

struct trace_ids {
    struct entry *entries;
    uint64_t mask; /* entries, a power of two, minus 1 */
    uint64_t count;
    uint64_t seed;
};

enum { ENTRIES_AT_FIRST = 256 };

static uint64_t home(const struct trace_ids *ids, uint64_t id) {
    uint64_t hash = (id ^ ids->seed) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ (hash >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return (hash ^ (hash >> 32)) & ids->mask;
}

struct trace_ids *trace_ids_create(void) {
    struct trace_ids *ids = calloc(1, sizeof *ids);
    if (ids == NULL) {
        return NULL;
    }
    ids->entries = calloc(ENTRIES_AT_FIRST, sizeof *ids->entries);
    if (ids->entries == NULL) {
        free(ids);
        return NULL;
    }
    ids->mask = ENTRIES_AT_FIRST - 1;
    ids->seed = (uint64_t)(uintptr_t)ids->entries * UINT64_C(0xff51afd7ed558ccd);
    return ids;
}

void trace_ids_destroy(struct trace_ids *ids) {
    if (ids != NULL) {
        free(ids->entries);
        free(ids);
    }
}

/* The entry of an id, or the free one where it would go: there always is one. */
static struct entry *locate(const struct trace_ids *ids, uint64_t id) {
    uint64_t at = home(ids, id);
    while (ids->entries[at].used && ids->entries[at].id != id) {
        at = (at + 1) & ids->mask;
    }
    return &ids->entries[at];
}

bool trace_ids_find(const struct trace_ids *ids, uint64_t id, uint32_t *block) {
    const struct entry *entry = locate(ids, id);
    if (entry->used) {
        *block = entry->block;
    }
    return entry->used;
}

static bool grow(struct trace_ids *ids) {
    struct entry *old = ids->entries;
    uint64_t old_count = ids->mask + 1;
    struct entry *entries = calloc(old_count * 2, sizeof *entries);
    if (entries == NULL) {
        return false;
    }
    ids->entries = entries;
    ids->mask = old_count * 2 - 1;
    for (uint64_t i = 0; i < old_count; i++) {
        if (old[i].used) {
            *locate(ids, old[i].id) = old[i];
        }
    }
    free(old);
    return true;
}

bool trace_ids_add(struct trace_ids *ids, uint64_t id, uint32_t block) {
    if (ids->count * 2 > ids->mask && !grow(ids)) {
        return false;
    }
    *locate(ids, id) = (struct entry){id, block, 1};
    ids->count++;
    return true;
}

/* An entry may move back into the hole unless its home lies behind the hole, in the run's order. */
void trace_ids_remove(struct trace_ids *ids, uint64_t id) {
    uint64_t hole = (uint64_t)(locate(ids, id) - ids->entries);
    if (!ids->entries[hole].used) {
        return;
    }
    for (uint64_t at = (hole + 1) & ids->mask; ids->entries[at].used; at = (at + 1) & ids->mask) {
        uint64_t from_home = (at - home(ids, ids->entries[at].id)) & ids->mask;
        if (from_home >= ((at - hole) & ids->mask)) {
            ids->entries[hole] = ids->entries[at];
            hole = at;
        }
    }
    ids->entries[hole].used = 0;
    ids->count--;
}
