/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ground.h: which piece of physical memory lies under each granule of the reserved addresses. A
 * hash table of pages of 512 granules each, made where memory is mapped for the first time:
 * addresses that nobody has used cost nothing, however many are reserved.
 */
#ifndef VR_GROUND_H
#define VR_GROUND_H

#include "vram/base.h"

struct vr_piece;
struct vr_ground_page;

struct vr_ground {
    unsigned shift;                /* log2 of the granule */
    uint64_t made;                 /* pages in the table */
    uint64_t slots;                /* of the table: a power of two, or 0 before the first page */
    struct vr_ground_page **table; /* by a hash of their addresses, open addressing */
};

/* With no page. A zeroed struct vr_ground may be freed. */
void vr_ground_init(struct vr_ground *ground, uint64_t granule);
void vr_ground_free(struct vr_ground *ground);

/* Makes the pages under [addr, addr + bytes), which does not wrap; bytes > 0. */
vram_status vr_ground_prepare(struct vr_ground *ground, uint64_t addr, uint64_t bytes);

/* The piece mapped at `addr`, or NULL. */
struct vr_piece *vr_ground_get(const struct vr_ground *ground, uint64_t addr);

/* Whole granules; NULL: nothing is mapped there now. The pages are prepared. */
void vr_ground_set(struct vr_ground *ground, uint64_t addr, uint64_t bytes, struct vr_piece *piece);

/* The next address whose entry may differ from that of `addr`: the next granule or, if nothing was
   ever mapped around `addr`, the next page. */
uint64_t vr_ground_next(const struct vr_ground *ground, uint64_t addr);

/* Host memory of the tables. */
uint64_t vr_ground_bytes(const struct vr_ground *ground);

#endif
