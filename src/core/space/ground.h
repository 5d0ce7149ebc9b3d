/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ground.h: which piece of physical memory lies under each granule of a reserved range. Two levels, so
 * that addresses nobody has used cost nothing: pages[] -> 512 granules each.
 */
#ifndef VR_GROUND_H
#define VR_GROUND_H

#include "vram/base.h"

struct vr_piece;
struct vr_ground_page;

struct vr_ground {
    uint64_t base, bytes;
    unsigned shift; /* log2 of the granule */
    uint64_t count; /* pages */
    uint64_t made;  /* of them, allocated */
    struct vr_ground_page **pages;
};

/* For a range of whole granules. A zeroed struct vr_ground may be freed. */
vram_status vr_ground_init(struct vr_ground *ground, uint64_t base, uint64_t bytes,
                           uint64_t granule);
void vr_ground_free(struct vr_ground *ground);

/* Makes the pages under [addr, addr + bytes), which lies in the range. */
vram_status vr_ground_prepare(struct vr_ground *ground, uint64_t addr, uint64_t bytes);

/* The piece mapped at `addr`, or NULL. */
struct vr_piece *vr_ground_get(const struct vr_ground *ground, uint64_t addr);

/* Whole granules; NULL: nothing is mapped there now. The pages are prepared. */
void vr_ground_set(struct vr_ground *ground, uint64_t addr, uint64_t bytes, struct vr_piece *piece);

/* Host memory of the tables. */
uint64_t vr_ground_bytes(const struct vr_ground *ground);

#endif
