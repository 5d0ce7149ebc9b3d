/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aging.h: what a space does otherwise that is used over and over.
 *
 * A program that goes through its work again and again leaves the space a little more cut up each
 * time: long-lived blocks come to lie on more and more islands, and what is free beside them in the
 * handles they touch is stuck. A space wears
 *
 *  (1) each time that it grows past its aim although nothing more is needed than ever before, and
 *      not for want of time: all that is free is stuck then;
 *  (2) when nearly all blocks have come back: the program starts over;
 *  (3) permanently, once the program needs three quarters of the memory: a later block may then
 *      lack what is held in pieces too coarse.
 *
 * From then on it spends time on what a first pass with memory to spare cannot afford:
 *
 *  (4) new handles are half as large for each time, and free ones that are much coarser are
 *      released when they would be moved (supply.c);
 *  (5) blocks stay off islands and off the inside of coarse pieces, and go to low addresses while
 *      little is out (fit.c);
 *  (6) and in case (3) free pieces that are coarse are released before the next plan (extension.c),
 *      and no block is put where it would cut one, as long as there is another way (space.c).
 *
 * A program's first pass with memory to spare, and one that always allocates the same, has no wear
 * and no cost. Deterministic pools have none, since it depends on the clock.
 */
#ifndef VR_AGING_H
#define VR_AGING_H

#include "core/space/span.h"

enum { VR_GROW_PART = 4096 }; /* a handle made by growth is this part of the peak */

/* The space grew past its aim for nothing new: (1). */
void vr_aging_note_growth(struct vr_space *space);
/* A block is about to leave the space: (2). */
void vr_aging_note_free(struct vr_space *space);

/* Notes how much of the memory is needed: (3). */
void vr_aging_note_need(struct vr_space *space, uint64_t need_bytes);

/* Whether memory is tight, and the piece so coarse that it is released as soon as it is free:
   (6). */
bool vr_aging_is_coarse(const struct vr_space *space, const struct vr_piece *piece);

/* Whether little is out beside the most that ever was. */
bool vr_aging_is_idle(const struct vr_space *space);

/* The size of a new handle that would have so many granules without wear: (4). */
uint64_t vr_aging_bytes(const struct vr_space *space, uint64_t granules);

#endif
