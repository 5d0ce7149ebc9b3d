/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.h: the table of sites of one track, found by key. See track.h (4) and (5).
 *
 * Places are numbers from 1 to `capacity` and stay valid while a block refers to them. A full table
 * is replaced by one that is allocated outside the lock and filled inside; a place keeps its
 * number.
 */
#ifndef VR_SITE_H
#define VR_SITE_H

#include "track/track.h"

struct vr_sites {
    struct vr_site *all; /* by place; [0] is unused */
    uint32_t *slots;     /* by hash, open addressing; 0: free; at most half of them used */
    uint32_t capacity;   /* places */
    uint32_t mask;       /* slots, a power of two, minus 1 */
    uint32_t free;       /* first free place, the next by `prepared`; 0: none */
};

/* The place of a key; 0: none. Inside the lock. */
uint32_t vr_site_find(const struct vr_sites *sites, const struct vr_site_key *key);
/* Adds a key that has no place; 0: the table is full. Inside the lock. */
uint32_t vr_site_add(struct vr_sites *sites, const struct vr_site_key *key, uint64_t epoch);

static inline bool vr_site_same(const struct vr_site_key *one, const struct vr_site_key *other) {
    return one->tag == other->tag && one->queue == other->queue && one->stack == other->stack;
}

/* Whether a place belongs to that key. */
static inline bool vr_site_is(const struct vr_sites *sites, uint32_t place,
                              const struct vr_site_key *key) {
    return place && place <= sites->capacity && sites->all[place].used &&
           vr_site_same(&sites->all[place].key, key);
}

/* How many places the next table should have: as many as now if at most half of them are still
   needed, keeps track.h (5). Inside the lock. */
uint32_t vr_sites_wanted(const struct vr_sites *sites, uint64_t epoch);
/* An empty table; false: memory ran out. Outside the lock. */
bool vr_sites_make(struct vr_sites *sites, uint32_t capacity);
void vr_sites_free(struct vr_sites *sites);
/* Fills an empty table with all sites of another one that are still needed. Inside the lock. */
void vr_sites_move(struct vr_sites *to, const struct vr_sites *from, uint64_t epoch);
uint64_t vr_sites_bytes(const struct vr_sites *sites);

#endif
