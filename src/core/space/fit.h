/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit.h: where a block goes.
 */
#ifndef VR_FIT_H
#define VR_FIT_H

#include "core/space/hole.h"

/* A run of addresses that is free for a queue, of which some granules are void. */
struct vr_window {
    struct vr_block *first; /* the span that holds addr */
    uint64_t addr, bytes;   /* bytes: of the block and of its siblings to come */
    uint64_t missing;       /* granules */
};

/* One or the other. */
struct vr_placement {
    struct vr_block *hole; /* the block goes to `addr` in it; NULL: none */
    uint64_t addr;
    struct vr_window window; /* first NULL: none */
    uint64_t run_end;        /* where the siblings that are to follow will end; 0: none are */
};

/* Where the block goes. want->bytes and align are rounded already. */
struct vr_placement vr_fit_find(struct vr_space *space, const struct vr_want *want);

/* The same when nothing new may be mapped: hole or nothing. */
struct vr_placement vr_fit_held(struct vr_space *space, const struct vr_want *want);

/* A hole that another queue may still use. */
struct vr_placement vr_fit_after(struct vr_space *space, const struct vr_want *want);

/* Right behind want->behind: a hole or a window on VRAM_OK. VRAM_ERR_NOT_READY: only work that has
   not ended is in the way; VRAM_ERR_BUSY: something else is. */
vram_status vr_fit_behind(const struct vr_space *space, const struct vr_want *want,
                          struct vr_placement *place);

/* A block was handed out, or came back: keeps account of runs. */
void vr_fit_note(struct vr_space *space, struct vr_block *block, uint64_t queue, uint64_t run_end);
void vr_fit_forget(struct vr_space *space, const struct vr_block *block);

#endif
