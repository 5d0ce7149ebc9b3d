/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_live.c: see run_live.h. Open addressing with linear probing; a removal moves the blocks behind
 * it up, so there are no marks of removed ones.
 */
#include "run_live.h"

#include "base/lock.h"
#include "base/memory.h"

enum { FIRST = 256 };

static struct vr_mutex lock = VR_MUTEX_INIT(VR_RANK_MONITOR); /* guards all below */
static struct run_block *table; /* `bytes` and `serial` 0: a free place */
static uint64_t mask;           /* places, a power of two, minus 1 */
static uint64_t count;          /* at most three quarters of them */

static uint64_t place_first(enum run_space space, uint64_t value) {
    uint64_t mixed = (value ^ (uint64_t)space << 60) * UINT64_C(0x9E3779B97F4A7C15);
    return (mixed ^ mixed >> 32) & mask;
}

static bool place_used(uint64_t place) {
    return table[place].serial != 0;
}

/* The place of a block, or the free one where it would be. */
static uint64_t place_find(enum run_space space, uint64_t value) {
    uint64_t place = place_first(space, value);
    while (place_used(place) && !(table[place].value == value && table[place].space == space)) {
        place = (place + 1) & mask;
    }
    return place;
}

/* Makes the table twice as large; false: memory ran out. */
static bool table_grow(void) {
    uint64_t places = table ? 2 * (mask + 1) : FIRST, old_places = table ? mask + 1 : 0;
    struct run_block *old = table, *fresh = vr_mem_alloc(places, sizeof *fresh, "vram run");
    if (!fresh) {
        return false;
    }
    table = fresh;
    mask = places - 1;
    for (uint64_t i = 0; i < old_places; i++) {
        if (old[i].serial) {
            table[place_find(old[i].space, old[i].value)] = old[i];
        }
    }
    vr_mem_free(old);
    return true;
}

/* Fills the gap with blocks from behind it that may be there. */
static void place_clear(uint64_t gap) {
    table[gap] = (struct run_block){0};
    for (uint64_t at = (gap + 1) & mask; place_used(at); at = (at + 1) & mask) {
        uint64_t first = place_first(table[at].space, table[at].value);
        if (((at - first) & mask) >= ((at - gap) & mask)) {
            table[gap] = table[at];
            table[at] = (struct run_block){0};
            gap = at;
        }
    }
    count--;
}

bool run_live_add(const struct run_block *block, struct run_block *replaced) {
    *replaced = (struct run_block){0};
    vr_mutex_lock(&lock);
    bool fits = table && 4 * (count + 1) <= 3 * (mask + 1);
    if (fits || table_grow()) {
        uint64_t place = place_find(block->space, block->value);
        *replaced = table[place];
        count += !place_used(place);
        table[place] = *block;
        fits = true;
    }
    vr_mutex_unlock(&lock);
    return fits;
}

static bool block_find(enum run_space space, uint64_t value, struct run_block *block, bool take) {
    vr_mutex_lock(&lock);
    uint64_t place = table ? place_find(space, value) : 0;
    bool found = table && place_used(place);
    if (found) {
        *block = table[place];
        if (take) {
            place_clear(place);
        }
    }
    vr_mutex_unlock(&lock);
    return found;
}

bool run_live_take(enum run_space space, uint64_t value, struct run_block *block) {
    return block_find(space, value, block, true);
}

bool run_live_look(enum run_space space, uint64_t value, struct run_block *block) {
    return block_find(space, value, block, false);
}

bool run_live_take_any(uint64_t *at, bool (*which)(const struct run_block *block, void *user),
                       void *user, struct run_block *block) {
    bool found = false;
    vr_mutex_lock(&lock);
    for (uint64_t places = table ? mask + 1 : 0; !found && *at < places;) {
        found = place_used(*at) && which(&table[*at], user);
        if (found) {
            *block = table[*at];
            place_clear(*at); /* another block may be here now: look again */
        } else {
            ++*at;
        }
    }
    vr_mutex_unlock(&lock);
    return found;
}

void run_live_clear(void) {
    vr_mutex_lock(&lock);
    vr_mem_free(table);
    table = NULL;
    mask = count = 0;
    vr_mutex_unlock(&lock);
}
