/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_addresses.c: see live_addresses.h.
 */
#include "live_addresses.h"

#include <stdlib.h>

bool live_addresses_begin(struct live_addresses *live) {
    *live = (struct live_addresses){.slots = trace_ids_create()};
    return live->slots != NULL;
}

void live_addresses_free(struct live_addresses *live) {
    if (live->slots == NULL) { /* nothing was begun */
        return;
    }
    trace_ids_destroy(live->slots);
    free(live->all);
    free(live->unused);
    *live = (struct live_addresses){.slots = NULL};
}

struct live_address *live_addresses_find(const struct live_addresses *live, uint64_t addr) {
    uint32_t slot;
    return trace_ids_find(live->slots, addr, &slot) ? &live->all[slot] : NULL;
}

static bool make_room(struct live_addresses *live) {
    size_t capacity = live->capacity > 0 ? live->capacity * 2 : 256;
    if (live->unused_count > 0 || live->count < live->capacity) {
        return true;
    }
    struct live_address *all = realloc(live->all, capacity * sizeof *all);
    live->all = all != NULL ? all : live->all;
    uint32_t *unused = all != NULL ? realloc(live->unused, capacity * sizeof *unused) : NULL;
    live->unused = unused != NULL ? unused : live->unused;
    live->capacity = unused != NULL ? capacity : live->capacity;
    return unused != NULL;
}

bool live_addresses_add(struct live_addresses *live, uint64_t addr,
                        const struct live_address *block) {
    if (!make_room(live)) {
        return false;
    }
    uint32_t slot =
        live->unused_count > 0 ? live->unused[live->unused_count - 1] : (uint32_t)live->count;
    if (!trace_ids_add(live->slots, addr, slot)) {
        return false;
    }
    if (live->unused_count > 0) {
        live->unused_count--;
    } else {
        live->count++;
    }
    live->all[slot] = *block;
    return true;
}

void live_addresses_remove(struct live_addresses *live, uint64_t addr) {
    uint32_t slot;
    if (trace_ids_find(live->slots, addr, &slot)) {
        trace_ids_remove(live->slots, addr);
        live->unused[live->unused_count++] = slot;
    }
}
