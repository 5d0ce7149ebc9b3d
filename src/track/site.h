/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.h: the table of sites of one track, found by key. See track.h (4) and (5).
 *
 * Places are numbers from 1 to `room` and stay while a block has them. A table that is full is
 * replaced by one that the track's user makes outside and fills inside; a place keeps its number
 * then.
 */
#ifndef VR_SITE_H
#define VR_SITE_H

#include "track/track.h"

struct vr_sites {
    struct vr_site *all; /* by place; [0] is nobody's */
    uint32_t *slots;     /* by hash, open addressing; 0: free; at most half of them used */
    uint32_t room;       /* places */
    uint32_t mask;       /* slots, a power of two, minus 1 */
    uint32_t free;       /* first free place, the next by `prepared`; 0: none */
};

/* The place of a key; 0: none. Inside the track. */
uint32_t vr_site_find(const struct vr_sites *sites, const struct vr_site_key *key);
/* A place for a key that has none; 0: there is no room. Inside. */
uint32_t vr_site_add(struct vr_sites *sites, const struct vr_site_key *key, uint64_t epoch);

static inline bool vr_site_same(const struct vr_site_key *one, const struct vr_site_key *other) {
    return one->tag == other->tag && one->queue == other->queue && one->stack == other->stack;
}

/* Whether a place is that key's. */
static inline bool vr_site_is(const struct vr_sites *sites, uint32_t place,
                              const struct vr_site_key *key) {
    return place && place <= sites->room && sites->all[place].used &&
           vr_site_same(&sites->all[place].key, key);
}

/* How many places the next table should have: as many, if half of them may be used for others by
   now, keeps track.h (5). Inside. */
uint32_t vr_sites_wanted(const struct vr_sites *sites, uint64_t epoch);
/* An empty table; false: no memory. Outside. */
bool vr_sites_make(struct vr_sites *sites, uint32_t room);
void vr_sites_free(struct vr_sites *sites);
/* Fills an empty table with all of another one that is still needed. Inside. */
void vr_sites_move(struct vr_sites *to, const struct vr_sites *from, uint64_t epoch);
uint64_t vr_sites_bytes(const struct vr_sites *sites);

#endif
