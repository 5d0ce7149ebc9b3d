/* SPDX-License-Identifier: Apache-2.0 */
/* ground.c: two levels of tables over a reserved range. */
#include "core/space/ground.h"

#include "base/memory.h"
#include "base/size.h"

#include <assert.h>

enum { PAGE = 512 }; /* granules of a page */

struct vr_ground_page {
    struct vr_piece *pieces[PAGE];
};

static uint64_t granule_of(const struct vr_ground *ground, uint64_t addr) {
    assert(vr_inside(addr, 1, ground->base, ground->bytes));
    return (addr - ground->base) >> ground->shift;
}

vram_status vr_ground_init(struct vr_ground *ground, uint64_t base, uint64_t bytes,
                           uint64_t granule) {
    ground->base = base;
    ground->bytes = bytes;
    ground->shift = vr_low_bit(granule);
    ground->count = ((bytes >> ground->shift) + PAGE - 1) / PAGE;
    ground->pages = vr_mem_alloc((size_t)ground->count, sizeof(void *), "vram_pool_create");
    return ground->pages ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
}

void vr_ground_free(struct vr_ground *ground) {
    for (uint64_t i = 0; ground->pages && i < ground->count; i++) {
        vr_mem_free(ground->pages[i]);
    }
    vr_mem_free(ground->pages);
    *ground = (struct vr_ground){0};
}

vram_status vr_ground_prepare(struct vr_ground *ground, uint64_t addr, uint64_t bytes) {
    uint64_t last = granule_of(ground, addr + bytes - 1) / PAGE;
    for (uint64_t i = granule_of(ground, addr) / PAGE; i <= last; i++) {
        if (!ground->pages[i]) {
            ground->pages[i] = vr_mem_alloc(1, sizeof(struct vr_ground_page), "vram_alloc");
            if (!ground->pages[i]) {
                return VRAM_ERR_HOST_MEMORY;
            }
            ground->made++;
        }
    }
    return VRAM_OK;
}

struct vr_piece *vr_ground_get(const struct vr_ground *ground, uint64_t addr) {
    uint64_t at = granule_of(ground, addr);
    const struct vr_ground_page *page = ground->pages[at / PAGE];
    return page ? page->pieces[at % PAGE] : NULL;
}

void vr_ground_set(struct vr_ground *ground, uint64_t addr, uint64_t bytes,
                   struct vr_piece *piece) {
    uint64_t at = granule_of(ground, addr);
    uint64_t end = at + (bytes >> ground->shift);
    for (; at < end; at++) {
        ground->pages[at / PAGE]->pieces[at % PAGE] = piece;
    }
}

uint64_t vr_ground_bytes(const struct vr_ground *ground) {
    return ground->count * sizeof(void *) + ground->made * sizeof(struct vr_ground_page);
}
