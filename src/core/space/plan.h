/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h: what the driver has to do for an allocation, written down, and what became of it.
 *
 * A plan owns its claims: the window that the block will lie in, and the places that pieces are
 * taken from. Each item is one piece and its way:
 *
 *     source --UNMAP--> --MAP--> target        moved
 *     source          --MAP--> target          moved under work of its queue: source becomes a
 *                     stale mapping
 *     spare           --MAP--> target          a spare used
 *     CREATE          --MAP--> target          grown
 *     source --UNMAP--> RELEASE                given back, to trim or to make room for a better
 *                                              size
 *     stale mapping  --UNMAP-->                        swept
 */
#ifndef VR_PLAN_H
#define VR_PLAN_H

#include "core/space/fit.h"

enum vr_plan_done {
    VR_DONE_CREATE = 1 << VR_STEP_CREATE,
    VR_DONE_UNMAP = 1 << VR_STEP_UNMAP,
    VR_DONE_MAP = 1 << VR_STEP_MAP,
    VR_DONE_ACCESS = 1 << VR_STEP_ACCESS,
    VR_DONE_RELEASE = 1 << VR_STEP_RELEASE,
    VR_DONE_STUCK = 1 << 8 /* mapped without access, and the unmap failed */
};

struct vr_plan_item {
    struct vr_piece *piece;
    struct vr_block *source; /* the claim it lies under; NULL: a spare, or to be created */
    struct vr_block *target; /* the claim it goes to; NULL: it is released */
    uint64_t to;             /* address in the target */
    bool fresh;              /* to be created */
    bool alias;              /* mapped at the target while the source stays mapped */
    bool growth;             /* and in the place of nothing that was released: not moving */
    uint32_t done;           /* of vr_plan_done */
};

/* Plans the memory that is missing in a window, and the block in it. */
vram_status vr_plan_window(struct vr_space *space, const struct vr_want *want,
                           const struct vr_placement *place, struct vr_plan **plan);

/* Plans a segment for a block. */
vram_status vr_plan_segment(struct vr_space *space, const struct vr_want *want,
                            struct vr_plan **plan);

/* Plans to release what is free; see vr_space_trim. */
vram_status vr_plan_trim(struct vr_space *space, uint64_t keep_bytes, struct vr_plan **plan);

/* Plans to unmap stale mappings; see vr_space_sweep. */
vram_status vr_plan_sweep(struct vr_space *space, struct vr_plan **plan);

/* Plans to give back what was free when a block grew past the aim all the same; see
   vr_space_tidy. */
vram_status vr_plan_tidy(struct vr_space *space, struct vr_plan **plan);

/* Plans to give coarse pieces back; see vr_space_refine. */
vram_status vr_plan_refine(struct vr_space *space, struct vr_plan **plan);

/* ------------------------------------ memory behind a block; extension.c */

#define VR_EXTENSION_MOST (1024 * VR_MIB) /* the largest handle that is made there */

/* Puts free pieces into the plan, the largest first, for *bytes to be filled, which is what is
   still lacking afterwards; with `weighs` only those that are worth it. Memory that only work of
   `queue` (0: none) may still use counts as free. *left: what was free and was not taken. */
vram_status vr_extension_gather(struct vr_space *space, struct vr_plan *plan, uint64_t queue,
                                bool weighs, uint64_t *bytes, uint64_t *left);

/* ---------------------------------------------------------- reserves; address_reserve.c */

/* Finds a place for a block with want->room behind it. Where there is only a place with less,
   want->room becomes that; false: there is none. */
bool vr_reserve_find(struct vr_space *space, struct vr_want *want, struct vr_placement *found);
/* Makes the first `bytes` of a void a reserve; NULL: it is none or has fewer, or no record is in
   stock. */
struct vr_block *vr_reserve_cut(struct vr_space *space, struct vr_block *span, uint64_t bytes);
/* The room becomes a void. */
void vr_reserve_end(struct vr_space *space, struct vr_block *reserve);
/* All reserves of blocks do; whether there was one. */
bool vr_reserve_end_all(struct vr_space *space);

/* ------------------------------------------------ between the files of plans */

/* A plan with room for `items`; NULL with the error set. */
struct vr_plan *vr_plan_new(struct vr_space *space);
/* Adds an item, zeroed but for its piece; NULL with the error set. */
struct vr_plan_item *vr_plan_add(struct vr_plan *plan, struct vr_piece *piece);
/* Puts a free piece into the plan: one of the hole, or with no hole a spare. */
vram_status vr_plan_take(struct vr_space *space, struct vr_plan *plan, struct vr_piece *piece,
                         struct vr_block *hole);
/* Writes the steps of the items. The plan is open from here on. */
vram_status vr_plan_write(struct vr_space *space, struct vr_plan *plan);
/* Undoes what planning has done so far: nothing was executed. */
void vr_plan_cancel(struct vr_space *space, struct vr_plan *plan);
/* Completes a plan after the search for its pieces returned `status`. *out is the plan; NULL if
   nothing was found or on failure, and the plan is cancelled then. */
vram_status vr_plan_finish(struct vr_space *space, struct vr_plan *plan, vram_status status,
                           struct vr_plan **out);

#endif
