/* SPDX-License-Identifier: Apache-2.0 */
/* ground.c: a hash table of pages, at most half full, from which pages are never removed. */
#include "core/space/ground.h"

#include "base/memory.h"
#include "base/size.h"

#include <assert.h>

enum { PAGE_BITS = 9, PAGE = 1 << PAGE_BITS /* granules of a page */, SLOTS_LEAST = 16 };

struct vr_ground_page {
    uint64_t number; /* address of its first granule, in pages */
    struct vr_piece *pieces[PAGE];
};

static uint64_t page_number(const struct vr_ground *ground, uint64_t addr) {
    return addr >> (ground->shift + PAGE_BITS);
}

static uint64_t page_index(const struct vr_ground *ground, uint64_t addr) {
    return (addr >> ground->shift) & (PAGE - 1);
}

/* The slot that a page has or would have. */
static struct vr_ground_page **slot_of(const struct vr_ground *ground, uint64_t number) {
    uint64_t at = (number * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
    while (ground->table[at & (ground->slots - 1)] &&
           ground->table[at & (ground->slots - 1)]->number != number) {
        at++;
    }
    return &ground->table[at & (ground->slots - 1)];
}

static struct vr_ground_page *page_at(const struct vr_ground *ground, uint64_t addr) {
    return ground->slots ? *slot_of(ground, page_number(ground, addr)) : NULL;
}

void vr_ground_init(struct vr_ground *ground, uint64_t granule) {
    *ground = (struct vr_ground){.shift = vr_low_bit(granule)};
}

void vr_ground_free(struct vr_ground *ground) {
    for (uint64_t i = 0; i < ground->slots; i++) {
        vr_mem_free(ground->table[i]);
    }
    vr_mem_free(ground->table);
    *ground = (struct vr_ground){0};
}

/* Makes sure that one more page has room. */
static vram_status grow(struct vr_ground *ground) {
    assert(ground->made <= ground->slots / 2); /* so every search for a page ends */
    if (ground->made < ground->slots / 2) {
        return VRAM_OK;
    }
    struct vr_ground larger = {.shift = ground->shift, .made = ground->made};
    larger.slots = ground->slots ? ground->slots * 2 : SLOTS_LEAST;
    larger.table = vr_mem_alloc((size_t)larger.slots, sizeof *larger.table, "vram_alloc");
    if (!larger.table) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (uint64_t i = 0; i < ground->slots; i++) {
        if (ground->table[i]) {
            *slot_of(&larger, ground->table[i]->number) = ground->table[i];
        }
    }
    vr_mem_free(ground->table);
    *ground = larger;
    return VRAM_OK;
}

vram_status vr_ground_prepare(struct vr_ground *ground, uint64_t addr, uint64_t bytes) {
    uint64_t last = page_number(ground, addr + bytes - 1);
    for (uint64_t number = page_number(ground, addr); number <= last; number++) {
        if (grow(ground) != VRAM_OK) {
            return VRAM_ERR_HOST_MEMORY;
        }
        struct vr_ground_page **slot = slot_of(ground, number);
        if (!*slot) {
            struct vr_ground_page *page = vr_mem_alloc(1, sizeof *page, "vram_alloc");
            if (!page) {
                return VRAM_ERR_HOST_MEMORY;
            }
            page->number = number;
            *slot = page;
            ground->made++;
        }
    }
    return VRAM_OK;
}

struct vr_piece *vr_ground_get(const struct vr_ground *ground, uint64_t addr) {
    const struct vr_ground_page *page = page_at(ground, addr);
    return page ? page->pieces[page_index(ground, addr)] : NULL;
}

void vr_ground_set(struct vr_ground *ground, uint64_t addr, uint64_t bytes,
                   struct vr_piece *piece) {
    assert(((addr | bytes) & ((UINT64_C(1) << ground->shift) - 1)) == 0);
    for (uint64_t at = addr; at - addr < bytes; at += UINT64_C(1) << ground->shift) {
        struct vr_ground_page *page = page_at(ground, at);
        assert(page);
        assert(!piece || !page->pieces[page_index(ground, at)]); /* one piece under a granule */
        page->pieces[page_index(ground, at)] = piece;
    }
}

uint64_t vr_ground_next(const struct vr_ground *ground, uint64_t addr) {
    unsigned shift = ground->shift + (page_at(ground, addr) ? 0 : PAGE_BITS);
    return ((addr >> shift) + 1) << shift;
}

uint64_t vr_ground_bytes(const struct vr_ground *ground) {
    return ground->slots * sizeof(void *) + ground->made * sizeof(struct vr_ground_page);
}
