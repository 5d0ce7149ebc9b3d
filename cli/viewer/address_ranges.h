/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address_ranges.h: the addresses that a trace uses, as ranges without the gaps between them, so
 * that a picture of them has no empty terabytes. A place is the offset of an address when the
 * ranges are laid one after the other.
 */
#ifndef VIEWER_ADDRESS_RANGES_H
#define VIEWER_ADDRESS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ADDRESS_RANGES_MAX = 4096, ADDRESS_GAP = 2 << 20 }; /* smaller gaps are part of a range */

struct address_range {
    uint64_t begin, end;
    uint64_t place; /* of `begin`, once ranges_place was called */
};

struct address_ranges {
    struct address_range *all; /* by address, disjoint */
    size_t count, capacity;
    uint64_t bytes; /* of all, once ranges_place was called */
};

/* Adds [addr, addr + bytes). False: no memory. */
bool ranges_add(struct address_ranges *ranges, uint64_t addr, uint64_t bytes);

void ranges_place(struct address_ranges *ranges);

/* The place of an address that was added. */
uint64_t ranges_find(const struct address_ranges *ranges, uint64_t addr);

#endif
