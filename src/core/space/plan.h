/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h: the driver steps for an allocation, and their outcome.
 *
 * A plan owns its claims: the window in which the block will lie, and the places that pieces are
 * taken from. Each item is one piece and what happens to it:
 *
 *     source --UNMAP--> --MAP--> target        moved
 *     source            --MAP--> target        moved while work of its queue uses it: source
 *                                              becomes a stale mapping
 *     spare             --MAP--> target        a spare is used
 *     CREATE            --MAP--> target        the space grows
 *     source --UNMAP--> RELEASE                released, to trim or to create a better size instead
 *     stale mapping --UNMAP-->                 swept
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
    VR_DONE_STUCK = 1 << 8 /* mapped without access, and the undo's UNMAP failed */
};

struct vr_plan_item {
    struct vr_piece *piece;
    struct vr_block *source; /* claim where it is mapped now; NULL: a spare, or to be created */
    struct vr_block *target; /* claim where it will be mapped; NULL: it is released */
    uint64_t to;             /* address in the target */
    bool fresh;              /* to be created */
    bool alias;              /* mapped at the target while the source stays mapped */
    bool growth;             /* fresh, and replaces nothing that is released: costs no budget */
    uint32_t done;           /* of vr_plan_done */
};

/* Plans a block in a window, and the memory that is missing there. */
vram_status vr_plan_window(struct vr_space *space, const struct vr_want *want,
                           const struct vr_placement *place, struct vr_plan **plan);

/* Plans a segment for a block. */
vram_status vr_plan_segment(struct vr_space *space, const struct vr_want *want,
                            struct vr_plan **plan);

/* These implement vr_space_trim, _sweep and _tidy. */
vram_status vr_plan_trim(struct vr_space *space, uint64_t keep_bytes, struct vr_plan **plan);
vram_status vr_plan_sweep(struct vr_space *space, struct vr_plan **plan);
vram_status vr_plan_tidy(struct vr_space *space, struct vr_plan **plan);

/* ------------------------------------ memory behind a block; extension.c */

#define VR_EXTENSION_MOST (1024 * VR_MIB) /* the largest handle that is created there */

/* Puts free pieces into the plan, the largest first, until *bytes are filled; *bytes becomes what
   is still missing. `selective`: only pieces that are worth moving. Memory that only work of
   `queue` (0: none) may still use counts as free. *left: bytes that were free and not taken. */
vram_status vr_extension_gather(struct vr_space *space, struct vr_plan *plan, uint64_t queue,
                                bool selective, uint64_t *bytes, uint64_t *left);

/* ---------------------------------------------------------- reserves; address_reserve.c */

/* Finds a place for a block with want->reserve behind it. If all are smaller, want->reserve is
   reduced; false: there is no place. */
bool vr_reserve_find(struct vr_space *space, struct vr_want *want, struct vr_placement *found);
/* Makes the first `bytes` of `span` a reserve; NULL if it is not a void, is too small, or no record
   could be allocated. */
struct vr_block *vr_reserve_cut(struct vr_space *space, struct vr_block *span, uint64_t bytes);
/* Turns the reserve into a void. */
void vr_reserve_end(struct vr_space *space, struct vr_block *reserve);
/* Ends the reserves of all blocks; false if there was none. */
bool vr_reserve_end_all(struct vr_space *space);

/* ------------------------------------------------ between the files of plans */

/* An empty plan; NULL with the error set. */
struct vr_plan *vr_plan_new(struct vr_space *space);
/* Adds an item, zeroed but for its piece; NULL with the error set. */
struct vr_plan_item *vr_plan_add(struct vr_plan *plan, struct vr_piece *piece);
/* Puts a free piece into the plan: one that lies in the hole, or a spare if hole is NULL. */
vram_status vr_plan_take(struct vr_space *space, struct vr_plan *plan, struct vr_piece *piece,
                         struct vr_block *hole);
/* Writes the steps of the items. After it, no item can be added. */
vram_status vr_plan_write(struct vr_space *space, struct vr_plan *plan);
/* Removes the record of a piece that was released. */
void vr_piece_leave(struct vr_space *space, struct vr_piece *piece);
/* Cancels a plan of which no step was executed. */
void vr_plan_cancel(struct vr_space *space, struct vr_plan *plan);
/* Completes a plan after the search for its pieces returned `status`. *out is the plan; NULL if
   nothing was found or on failure, and the plan is cancelled then. */
vram_status vr_plan_finish(struct vr_space *space, struct vr_plan *plan, vram_status status,
                           struct vr_plan **out);

#endif
