/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit.h: chooses the place of a block.
 */
#ifndef VR_FIT_H
#define VR_FIT_H

#include "core/space/hole.h"

/* Adjacent holes and voids that a queue may use. Memory must be mapped in the voids first. */
struct vr_window {
    struct vr_block *first; /* the span that contains addr */
    uint64_t addr, bytes;   /* bytes: of the block and of its expected siblings (fit.c) */
    uint64_t missing;       /* granules without memory */
};

/* A place in a hole, or in a window. */
struct vr_placement {
    struct vr_block *hole; /* the block goes to `addr` in it; NULL: none */
    uint64_t addr;
    struct vr_window window; /* first NULL: none */
    uint64_t run_end;        /* expected end of the block's run; 0: no run is expected */
};

/* Chooses a hole or a window. want->bytes and align are rounded already. */
struct vr_placement vr_fit_find(struct vr_space *space, const struct vr_want *want);

/* The same without mapping memory: a hole or nothing. */
struct vr_placement vr_fit_held(struct vr_space *space, const struct vr_want *want);

/* Chooses a hole that another queue may still use. */
struct vr_placement vr_fit_after(struct vr_space *space, const struct vr_want *want);

/* The place directly behind want->behind: a hole or a window on VRAM_OK. VRAM_ERR_NOT_READY: only
   unfinished work is in the way; VRAM_ERR_BUSY: something else is. */
vram_status vr_fit_behind(const struct vr_space *space, const struct vr_want *want,
                          struct vr_placement *place);

/* Direct spaces: addresses with nothing mapped for a block and its handles. */
struct vr_window vr_fit_void(const struct vr_space *space, uint64_t bytes);
/* Whether the place directly behind want->behind is part of its last handle, or void. */
bool vr_fit_is_alone(const struct vr_space *space, const struct vr_want *want);

/* The size of an ordinary segment: the larger, the more the space holds. */
uint64_t vr_fit_segment_bytes(const struct vr_space *space);
/* Coarse spaces: extends a window, so that a handle of that size fits, if the limit allows it. */
void vr_fit_widen(const struct vr_space *space, const struct vr_want *want,
                  struct vr_window *window);

/* Records a block that was allocated, or freed, for the prediction of runs. */
void vr_fit_note(struct vr_space *space, struct vr_block *block, uint64_t queue, uint64_t run_end);
void vr_fit_forget(struct vr_space *space, const struct vr_block *block);

#endif
