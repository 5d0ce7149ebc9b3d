/* SPDX-License-Identifier: Apache-2.0 */
/* granule_map.c: a hash table of pages, at most half full, from which pages are never removed. */
#include "core/space/granule_map.h"

#include "base/memory.h"
#include "base/size.h"

#include <assert.h>

enum { PAGE_BITS = 9, PAGE = 1 << PAGE_BITS /* granules of a page */, SLOTS_LEAST = 16 };

struct vr_granule_page {
    uint64_t number; /* address of its first granule, in pages */
    struct vr_piece *pieces[PAGE];
};

static uint64_t page_number(const struct vr_granule_map *granule_map, uint64_t addr) {
    return addr >> (granule_map->shift + PAGE_BITS);
}

static uint64_t page_index(const struct vr_granule_map *granule_map, uint64_t addr) {
    return (addr >> granule_map->shift) & (PAGE - 1);
}

/* The slot of a page, or the empty slot where it belongs. */
static struct vr_granule_page **slot_of(const struct vr_granule_map *granule_map, uint64_t number) {
    uint64_t at = (number * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
    while (granule_map->table[at & (granule_map->slots - 1)] &&
           granule_map->table[at & (granule_map->slots - 1)]->number != number) {
        at++;
    }
    return &granule_map->table[at & (granule_map->slots - 1)];
}

static struct vr_granule_page *page_at(const struct vr_granule_map *granule_map, uint64_t addr) {
    return granule_map->slots ? *slot_of(granule_map, page_number(granule_map, addr)) : NULL;
}

void vr_granule_map_init(struct vr_granule_map *granule_map, uint64_t granule) {
    *granule_map = (struct vr_granule_map){.shift = vr_low_bit(granule)};
}

void vr_granule_map_free(struct vr_granule_map *granule_map) {
    for (uint64_t i = 0; i < granule_map->slots; i++) {
        vr_mem_free(granule_map->table[i]);
    }
    vr_mem_free(granule_map->table);
    *granule_map = (struct vr_granule_map){0};
}

/* Makes sure that the table can take one more page. */
static vram_status table_grow(struct vr_granule_map *granule_map) {
    assert(granule_map->page_count <= granule_map->slots / 2); /* so every probe ends */
    if (granule_map->page_count < granule_map->slots / 2) {
        return VRAM_OK;
    }
    struct vr_granule_map larger = {.shift = granule_map->shift,
                                    .page_count = granule_map->page_count};
    larger.slots = granule_map->slots ? granule_map->slots * 2 : SLOTS_LEAST;
    larger.table = vr_mem_alloc((size_t)larger.slots, sizeof *larger.table, "vram_alloc");
    if (!larger.table) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (uint64_t i = 0; i < granule_map->slots; i++) {
        if (granule_map->table[i]) {
            *slot_of(&larger, granule_map->table[i]->number) = granule_map->table[i];
        }
    }
    vr_mem_free(granule_map->table);
    *granule_map = larger;
    return VRAM_OK;
}

vram_status vr_granule_map_prepare(struct vr_granule_map *granule_map, uint64_t addr,
                                   uint64_t bytes) {
    uint64_t last = page_number(granule_map, addr + bytes - 1);
    for (uint64_t number = page_number(granule_map, addr); number <= last; number++) {
        if (table_grow(granule_map) != VRAM_OK) {
            return VRAM_ERR_HOST_MEMORY;
        }
        struct vr_granule_page **slot = slot_of(granule_map, number);
        if (!*slot) {
            struct vr_granule_page *page = vr_mem_alloc(1, sizeof *page, "vram_alloc");
            if (!page) {
                return VRAM_ERR_HOST_MEMORY;
            }
            page->number = number;
            *slot = page;
            granule_map->page_count++;
        }
    }
    return VRAM_OK;
}

struct vr_piece *vr_granule_map_get(const struct vr_granule_map *granule_map, uint64_t addr) {
    const struct vr_granule_page *page = page_at(granule_map, addr);
    return page ? page->pieces[page_index(granule_map, addr)] : NULL;
}

void vr_granule_map_set(struct vr_granule_map *granule_map, uint64_t addr, uint64_t bytes,
                        struct vr_piece *piece) {
    assert(((addr | bytes) & ((UINT64_C(1) << granule_map->shift) - 1)) == 0);
    for (uint64_t at = addr; at - addr < bytes; at += UINT64_C(1) << granule_map->shift) {
        struct vr_granule_page *page = page_at(granule_map, at);
        assert(page);
        assert(!piece ||
               !page->pieces[page_index(granule_map, at)]); /* one piece under a granule */
        page->pieces[page_index(granule_map, at)] = piece;
    }
}

uint64_t vr_granule_map_next(const struct vr_granule_map *granule_map, uint64_t addr) {
    unsigned shift = granule_map->shift + (page_at(granule_map, addr) ? 0 : PAGE_BITS);
    return ((addr >> shift) + 1) << shift;
}

uint64_t vr_granule_map_bytes(const struct vr_granule_map *granule_map) {
    return granule_map->slots * sizeof(void *) +
           granule_map->page_count * sizeof(struct vr_granule_page);
}
