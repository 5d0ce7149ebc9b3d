/* SPDX-License-Identifier: Apache-2.0 */
/*
 * granule_map.h: which piece of physical memory lies under each granule of the reserved addresses.
 * A hash table of pages of 512 granules each. A page is created when memory is first mapped in its
 * addresses: unused addresses cost nothing, however many are reserved.
 */
#ifndef VR_GRANULE_MAP_H
#define VR_GRANULE_MAP_H

#include "vram/base.h"

struct vr_piece;
struct vr_granule_page;

struct vr_granule_map {
    unsigned shift;                 /* log2 of the granule */
    uint64_t page_count;            /* pages in the table */
    uint64_t slots;                 /* of the table: a power of two, or 0 before the first page */
    struct vr_granule_page **table; /* by a hash of their addresses, open addressing */
};

/* Creates no page. A zeroed struct vr_granule_map may be freed. */
void vr_granule_map_init(struct vr_granule_map *granule_map, uint64_t granule);
void vr_granule_map_free(struct vr_granule_map *granule_map);

/* Creates the pages for [addr, addr + bytes), which does not wrap; bytes > 0. */
vram_status vr_granule_map_prepare(struct vr_granule_map *granule_map, uint64_t addr,
                                   uint64_t bytes);

/* The piece mapped at `addr`, or NULL. */
struct vr_piece *vr_granule_map_get(const struct vr_granule_map *granule_map, uint64_t addr);

/* Sets the piece of whole granules; NULL: nothing is mapped there. The pages must be prepared. */
void vr_granule_map_set(struct vr_granule_map *granule_map, uint64_t addr, uint64_t bytes,
                        struct vr_piece *piece);

/* The next address whose entry may differ from that of `addr`: the next granule or, if nothing was
   ever mapped around `addr`, the next page. */
uint64_t vr_granule_map_next(const struct vr_granule_map *granule_map, uint64_t addr);

/* Host memory of table and pages. */
uint64_t vr_granule_map_bytes(const struct vr_granule_map *granule_map);

#endif
