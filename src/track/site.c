/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.c: finds and adds sites, and replaces tables of them.
 */
#include "track/site.h"

#include "base/memory.h"

#include <string.h>

enum { LEAST_ROOM = 16 };

static uint32_t hash_of(const struct vr_site_key *key) {
    uint64_t mixed = (uint64_t)(uintptr_t)key->tag * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ key->queue ^ mixed >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ key->stack ^ mixed >> 32) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(mixed >> 32);
}

uint32_t vr_site_find(const struct vr_sites *sites, const struct vr_site_key *key) {
    if (!sites->capacity) {
        return 0;
    }
    for (uint32_t at = hash_of(key);; at++) {
        uint32_t place = sites->slots[at & sites->mask];
        if (!place || vr_site_same(&sites->all[place].key, key)) {
            return place;
        }
    }
}

static void slot_insert(struct vr_sites *sites, uint32_t place) {
    uint32_t at = hash_of(&sites->all[place].key);
    while (sites->slots[at & sites->mask]) {
        at++;
    }
    sites->slots[at & sites->mask] = place;
}

uint32_t vr_site_add(struct vr_sites *sites, const struct vr_site_key *key, uint64_t epoch) {
    uint32_t place = sites->free;
    if (place) {
        sites->free = sites->all[place].prepared;
        sites->all[place] = (struct vr_site){.key = *key, .used = true, .epoch = epoch};
        slot_insert(sites, place);
    }
    return place;
}

/* Keeps track.h (5). */
static bool is_needed(const struct vr_site *site, uint64_t epoch) {
    return site->used &&
           (site->count || site->prepared || (site->epoch == epoch && site->peak_count));
}

uint32_t vr_sites_wanted(const struct vr_sites *sites, uint64_t epoch) {
    uint32_t needed = 0;
    for (uint32_t place = 1; place <= sites->capacity; place++) {
        needed += is_needed(&sites->all[place], epoch);
    }
    if (!sites->capacity) {
        return LEAST_ROOM;
    }
    return needed > sites->capacity / 2 ? 2 * sites->capacity : sites->capacity;
}

bool vr_sites_make(struct vr_sites *sites, uint32_t capacity) {
    uint32_t slots = 2 * LEAST_ROOM;
    while (slots < 2 * capacity) {
        slots *= 2;
    }
    *sites = (struct vr_sites){.capacity = capacity, .mask = slots - 1};
    sites->all = vr_mem_alloc(capacity + 1, sizeof *sites->all, "vram_alloc");
    sites->slots = sites->all ? vr_mem_alloc(slots, sizeof *sites->slots, "vram_alloc") : NULL;
    if (!sites->slots) {
        vr_sites_free(sites);
        return false;
    }
    return true;
}

void vr_sites_free(struct vr_sites *sites) {
    vr_mem_free(sites->all);
    vr_mem_free(sites->slots);
    *sites = (struct vr_sites){0};
}

void vr_sites_move(struct vr_sites *to, const struct vr_sites *from, uint64_t epoch) {
    for (uint32_t place = to->capacity; place >= 1; place--) {
        if (place <= from->capacity && is_needed(&from->all[place], epoch)) {
            to->all[place] = from->all[place];
            slot_insert(to, place);
        } else {
            to->all[place].prepared = to->free;
            to->free = place;
        }
    }
}

uint64_t vr_sites_bytes(const struct vr_sites *sites) {
    return sites->capacity ? (uint64_t)(sites->capacity + 1) * sizeof *sites->all +
                                 (uint64_t)(sites->mask + 1) * sizeof *sites->slots
                           : 0;
}
