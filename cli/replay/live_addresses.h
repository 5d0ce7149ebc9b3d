/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_addresses.h: the blocks of a trace of version 2, whose events name them by their address.
 */
#ifndef REPLAY_LIVE_ADDRESSES_H
#define REPLAY_LIVE_ADDRESSES_H

#include "trace_ids.h"

#include <stddef.h>

/* A block that is live. */
struct live_address {
    uint64_t id, bytes;
    uint32_t pool_number;
};

struct live_addresses {
    struct trace_ids *slots; /* by address */
    struct live_address *all;
    uint32_t *unused; /* slots that are free again */
    size_t capacity, count, unused_count;
};

bool live_addresses_begin(struct live_addresses *live);
void live_addresses_free(struct live_addresses *live);

/* The block at an address; NULL: none. Valid until the next one is added. */
struct live_address *live_addresses_find(const struct live_addresses *live, uint64_t addr);
/* Adds a block where there is none. False: no memory. */
bool live_addresses_add(struct live_addresses *live, uint64_t addr,
                        const struct live_address *block);
/* Removes the block at an address where there is one. */
void live_addresses_remove(struct live_addresses *live, uint64_t addr);

#endif
