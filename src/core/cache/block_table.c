/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_table.c: the table behind block_table.h.
 *
 *  (1) At most half of the slots are used, tombstones included, so every probe ends at an empty
 *      slot.
 *  (2) A removed entry leaves a tombstone, or an empty slot if the next slot is empty: then no
 *      entry behind it was displaced by it. Tombstones in front of that slot become empty for the
 *      same reason. So a reader that probes past other entries never stops too early.
 *  (3) A table that is too full is replaced by one without tombstones, filled before it is
 *      published. A reader may still use the old one, so it is only added to `retired` here.
 */
#include "core/cache/block_table.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

#include <assert.h>

struct vr_block_slots {
    struct vr_block_slots *older; /* in the list of retired ones */
    uint64_t mask;                /* number of slots, a power of two, minus 1 */
    vr_atomic_ptr entries[];
};

static struct vr_block tombstone;

/* Block addresses are multiples of 256: the bits above are mixed, so that runs of blocks spread. */
static uint64_t addr_hash(vram_addr addr) {
    uint64_t mixed = (addr >> 8) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ mixed >> 29;
}

static struct vr_block_slots *slots_of(struct vr_block_table *table) {
    return vr_load(&table->slots, VR_ACQUIRE);
}

static void slot_put(struct vr_block_slots *slots, struct vr_block *block, uint64_t *used) {
    uint64_t at = addr_hash(vr_load(&block->addr, VR_RELAXED));
    for (;; at++) {
        struct vr_block *found = vr_load(&slots->entries[at & slots->mask], VR_RELAXED);
        assert(found != block); /* it is in the table once */
        if (!found || found == &tombstone) {
            *used += !found;
            vr_store(&slots->entries[at & slots->mask], block, VR_RELEASE);
            return;
        }
    }
}

/* Removes the entry in slot `at`; keeps (2). */
static void slot_clear(struct vr_block_slots *slots, uint64_t at, uint64_t *used) {
    if (vr_load(&slots->entries[(at + 1) & slots->mask], VR_RELAXED)) {
        vr_store(&slots->entries[at & slots->mask], &tombstone, VR_RELEASE);
        return;
    }
    do {
        vr_store(&slots->entries[at & slots->mask], NULL, VR_RELEASE);
        --*used;
        at--;
    } while (vr_load(&slots->entries[at & slots->mask], VR_RELAXED) == &tombstone);
}

bool vr_block_table_has_room(struct vr_block_table *table) {
    const struct vr_block_slots *slots = slots_of(table);
    return slots && table->used < (slots->mask + 1) / 2;
}

vram_status vr_block_table_reserve(struct vr_block_table *table) {
    struct vr_block_slots *old = slots_of(table);
    if (vr_block_table_has_room(table)) {
        return VRAM_OK;
    }
    uint64_t count = 256;
    while (count < 4 * (table->live + 1)) {
        count *= 2;
    }
    struct vr_block_slots *slots =
        vr_mem_alloc(1, sizeof *slots + (size_t)count * sizeof slots->entries[0], "vram_alloc");
    if (!slots) {
        return VRAM_ERR_HOST_MEMORY;
    }
    slots->mask = count - 1;
    table->used = 0;
    for (uint64_t i = 0; old && i <= old->mask; i++) {
        struct vr_block *block = vr_load(&old->entries[i], VR_RELAXED);
        if (block && block != &tombstone) {
            slot_put(slots, block, &table->used);
        }
    }
    vr_store(&table->slots, slots, VR_RELEASE); /* keeps (3) */
    if (old) {
        old->older = vr_load(&table->retired, VR_RELAXED);
        vr_store(&table->retired, old, VR_RELAXED);
    }
    return VRAM_OK;
}

void vr_block_table_insert(struct vr_block_table *table, struct vr_block *block) {
    assert(table->used < (slots_of(table)->mask + 1) / 2); /* reserved for: (1) */
    slot_put(slots_of(table), block, &table->used);
    table->live++;
}

void vr_block_table_remove(struct vr_block_table *table, const struct vr_block *block) {
    struct vr_block_slots *slots = slots_of(table);
    assert(table->live > 0);
    for (uint64_t at = addr_hash(vr_load(&block->addr, VR_RELAXED));; at++) {
        struct vr_block *found = vr_load(&slots->entries[at & slots->mask], VR_RELAXED);
        assert(found);
        if (found == block) {
            slot_clear(slots, at, &table->used);
            table->live--;
            return;
        }
    }
}

static inline struct vr_block *table_find(struct vr_block_table *table, vram_addr addr,
                                          bool claims) {
    struct vr_block_slots *slots = slots_of(table);
    if (!slots) {
        return NULL;
    }
    for (uint64_t at = addr_hash(addr), left = slots->mask + 1; left > 0; at++, left--) {
        struct vr_block *found = vr_load(&slots->entries[at & slots->mask], VR_ACQUIRE);
        if (!found) {
            return NULL;
        }
        if (claims) {
            vr_prefetch_to_write(found);
        }
        if (found != &tombstone && vr_load(&found->addr, VR_RELAXED) == addr) {
            return found;
        }
    }
    return NULL;
}

struct vr_block *vr_block_table_find(struct vr_block_table *table, vram_addr addr) {
    return table_find(table, addr, false);
}

struct vr_block *vr_block_table_find_to_claim(struct vr_block_table *table, vram_addr addr) {
    return table_find(table, addr, true);
}

struct vr_block *vr_block_table_step(struct vr_block_table *table, uint64_t *at, uint32_t *left) {
    struct vr_block_slots *slots = slots_of(table);
    while (slots && *at <= slots->mask && *left) {
        struct vr_block *block = vr_load(&slots->entries[(*at)++], VR_RELAXED);
        --*left;
        if (block && block != &tombstone) {
            return block;
        }
    }
    return NULL;
}

struct vr_block *vr_block_table_next(struct vr_block_table *table, uint64_t *at) {
    struct vr_block_slots *slots = slots_of(table);
    while (slots && *at <= slots->mask) {
        struct vr_block *block = vr_load(&slots->entries[(*at)++], VR_RELAXED);
        if (block && block != &tombstone) {
            return block;
        }
    }
    return NULL;
}

struct vr_block_slots *vr_block_table_retired(struct vr_block_table *table) {
    struct vr_block_slots *retired = vr_load(&table->retired, VR_RELAXED);
    vr_store(&table->retired, NULL, VR_RELAXED);
    return retired;
}

void vr_block_slots_free(struct vr_block_slots *slots) {
    while (slots) {
        struct vr_block_slots *older = slots->older;
        vr_mem_free(slots);
        slots = older;
    }
}

void vr_block_table_free(struct vr_block_table *table) {
    vr_block_slots_free(vr_load(&table->retired, VR_RELAXED));
    vr_mem_free(slots_of(table));
    *table = (struct vr_block_table){.used = 0};
}

uint64_t vr_block_table_bytes(struct vr_block_table *table) {
    struct vr_block_slots *slots = slots_of(table);
    return slots ? sizeof *slots + (slots->mask + 1) * sizeof slots->entries[0] : 0;
}
