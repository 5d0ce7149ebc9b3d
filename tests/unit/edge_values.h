/* SPDX-License-Identifier: Apache-2.0 */
/* edge_values.h: the numbers around every power of two, where arithmetic goes wrong. */
#ifndef EDGE_VALUES_H
#define EDGE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VALUES_MAX = 3 * 64 + 1 };

static uint64_t values[VALUES_MAX];
static size_t value_count;

static inline void make_values(void) {
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t power = UINT64_C(1) << bit;
        values[value_count++] = power - 1;
        values[value_count++] = power;
        values[value_count++] = power + 1;
    }
    values[value_count++] = UINT64_MAX;
}

/* Runs the body for every value, as `name`. */
#define FOR_EACH(name)                                                                             \
    for (uint64_t at_##name = 0, name;                                                             \
         at_##name < value_count && (name = values[at_##name], true); at_##name++)

#endif
