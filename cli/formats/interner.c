/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interner.c: see interner.h. Open addressing, at most half full; the hash is seeded by an address,
 * so that no file can be written whose texts all fall into one place.
 */
#include "interner.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_STRINGS = 256, FIRST_BYTES = 4096 };

void *budget_grow(uint64_t *budget, void *array, size_t old_bytes, size_t new_bytes) {
    if (new_bytes - old_bytes > *budget) {
        return NULL;
    }
    void *grown = realloc(array, new_bytes);
    if (grown != NULL) {
        *budget -= new_bytes - old_bytes;
    }
    return grown;
}

bool interner_begin(struct interner *interner, uint64_t *budget) {
    memset(interner, 0, sizeof *interner);
    interner->budget = budget;
    interner->data = malloc(FIRST_BYTES);
    interner->offsets = calloc(FIRST_STRINGS + 1, sizeof *interner->offsets);
    interner->table = calloc((size_t)FIRST_STRINGS * 2, sizeof *interner->table);
    interner->data_capacity = FIRST_BYTES;
    interner->capacity = FIRST_STRINGS;
    interner->mask = FIRST_STRINGS * 2 - 1;
    interner->seed = (uint64_t)(uintptr_t)interner->table * UINT64_C(0xff51afd7ed558ccd);
    return interner->data != NULL && interner->offsets != NULL && interner->table != NULL;
}

void interner_free(struct interner *interner) {
    free(interner->data);
    free(interner->offsets);
    free(interner->table);
    memset(interner, 0, sizeof *interner);
}

static uint64_t hash_of(const struct interner *interner, const uint8_t *data, size_t bytes) {
    uint64_t hash = interner->seed ^ bytes;
    for (; bytes >= 8; bytes -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; bytes > 0; bytes--, data++) {
        hash = (hash ^ *data) * UINT64_C(0xd6e8feb86659fd93);
    }
    return hash ^ hash >> 32;
}

const void *interner_get(const struct interner *interner, uint32_t number, size_t *bytes) {
    if (number == 0 || number > interner->count) {
        *bytes = 0;
        return NULL;
    }
    const uint8_t *start = interner->data + interner->offsets[number - 1];
    memcpy(bytes, start, sizeof *bytes);
    return start + sizeof *bytes;
}

const char *interner_text(const struct interner *interner, uint32_t number) {
    size_t bytes;
    const char *text = interner_get(interner, number, &bytes);
    return text != NULL ? text : "";
}

/* The place of a string in the table, or the unused one where it would go. */
static uint32_t *place_of(const struct interner *interner, const void *data, size_t bytes) {
    uint64_t at = hash_of(interner, data, bytes) & interner->mask;
    for (;; at = (at + 1) & interner->mask) {
        uint32_t *place = &interner->table[at];
        size_t known_bytes;
        const void *known = interner_get(interner, *place, &known_bytes);
        if (known == NULL || (known_bytes == bytes && memcmp(known, data, bytes) == 0)) {
            return place;
        }
    }
}

static bool grow_table(struct interner *interner) {
    uint32_t capacity = interner->capacity * 2;
    size_t entry = sizeof *interner->offsets;
    if (interner->capacity >= UINT32_C(1) << 30) {
        return false;
    }
    size_t *offsets = budget_grow(interner->budget, interner->offsets,
                                  (interner->capacity + 1) * entry, (capacity + 1) * entry);
    if (offsets == NULL) {
        return false;
    }
    interner->offsets = offsets;
    entry = sizeof *interner->table;
    uint32_t *table = budget_grow(interner->budget, interner->table, (interner->mask + 1) * entry,
                                  (size_t)capacity * 2 * entry);
    if (table == NULL) {
        return false;
    }
    interner->capacity = capacity;
    interner->table = table;
    interner->mask = capacity * 2 - 1;
    memset(table, 0, (size_t)capacity * 2 * entry);
    for (uint32_t i = 1; i <= interner->count; i++) {
        size_t bytes;
        const void *data = interner_get(interner, i, &bytes);
        *place_of(interner, data, bytes) = i;
    }
    return true;
}

static bool grow_data(struct interner *interner, size_t needed) {
    size_t capacity = interner->data_capacity;
    while (capacity - interner->data_bytes < needed) {
        capacity *= 2;
    }
    uint8_t *data =
        budget_grow(interner->budget, interner->data, interner->data_capacity, capacity);
    if (data == NULL) {
        return false;
    }
    interner->data = data;
    interner->data_capacity = capacity;
    return true;
}

uint32_t interner_number(struct interner *interner, const void *data, size_t bytes) {
    uint32_t *place = place_of(interner, data, bytes);
    if (*place != 0) {
        return *place;
    }
    size_t needed = sizeof bytes + bytes + 1;
    needed = (needed + sizeof bytes - 1) / sizeof bytes * sizeof bytes;
    if (interner->count == interner->capacity) {
        if (!grow_table(interner)) {
            return 0;
        }
        place = place_of(interner, data, bytes);
    }
    if (interner->data_capacity - interner->data_bytes < needed && !grow_data(interner, needed)) {
        return 0;
    }
    uint8_t *to = interner->data + interner->data_bytes;
    memcpy(to, &bytes, sizeof bytes);
    memcpy(to + sizeof bytes, data, bytes);
    to[sizeof bytes + bytes] = 0;
    interner->offsets[interner->count] = interner->data_bytes;
    interner->data_bytes += needed;
    *place = ++interner->count;
    return *place;
}
