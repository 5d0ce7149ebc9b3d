/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interner.h: byte strings numbered from 1, equal ones alike: the texts, frames and stacks of a
 * trace, which repeat for every allocation.
 */
#ifndef FORMATS_INTERNER_H
#define FORMATS_INTERNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interner {
    uint8_t *data; /* all strings: length, bytes, and a zero byte */
    size_t data_bytes, data_capacity;
    size_t *offsets; /* by number, from 1: where its length is, with the string behind it */
    uint32_t count, capacity;
    uint32_t *table; /* numbers by hash; 0: unused */
    uint32_t mask;
    uint64_t seed;
    uint64_t *budget; /* bytes that may still be allocated, shared with others */
};

/* False: no memory. interner_free is due either way. */
bool interner_begin(struct interner *interner, uint64_t *budget);
void interner_free(struct interner *interner);

/* The number of a string, added when it is new. 0: no memory, or the budget is used up. */
uint32_t interner_number(struct interner *interner, const void *data, size_t bytes);

/* The string of a number, aligned for uint32_t, with its bytes; NULL for 0 and other numbers. Valid
   until the next one is added. */
const void *interner_get(const struct interner *interner, uint32_t number, size_t *bytes);

/* The same as text: "" for what is not there. */
const char *interner_text(const struct interner *interner, uint32_t number);

/* realloc of an array, charged to a budget; NULL, with the array as it was: refused. */
void *budget_grow(uint64_t *budget, void *array, size_t old_bytes, size_t new_bytes);

#endif
