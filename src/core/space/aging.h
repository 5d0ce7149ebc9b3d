/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aging.h: how placement changes once a pool has run its workload several times.
 *
 * Each pass of a program over its workload fragments the space a little more: long-lived blocks end
 * up in more and more isolated places, and the free part of a handle that they use is stuck: a
 * handle moves only whole. A space has a degree of aging from 0 to 3, which rises
 *
 *  (1) by one each time the space grows past its aim for a need that it has met before, although
 *      there was time for moving: then all free memory is stuck;
 *  (2) to at least two when nearly all blocks have been freed: the program starts over;
 *  (3) to three, permanently, once the program needs five eighths of the memory: then memory held
 *      in pieces that are too coarse may be missing for a later block.
 *
 * An aged space spends time on what a first pass with plenty of memory cannot afford:
 *
 *  (4) new handles are half as large for each degree, and free handles that are much coarser are
 *      released instead of moved (supply.c);
 *  (5) blocks avoid isolated holes and the inside of coarse pieces, and go to low addresses while
 *      little memory is in use (fit.c);
 *  (6) in case (3), no block is put where it would cut a free coarse piece if there is another way
 *      (space.c).
 *
 * A first pass with plenty of memory, and a program whose passes are all the same, cause no aging
 * and no cost. Deterministic pools do not age, because aging depends on the clock.
 */
#ifndef VR_AGING_H
#define VR_AGING_H

#include "core/space/span.h"

enum { VR_GROW_PART = 4096 }; /* a handle created by growth is this part of the peak need */

/* The space grew past its aim for a need that it has met before: (1). */
void vr_aging_note_growth(struct vr_space *space);
/* A block is about to be allocated; checks how many are in use: (2). */
void vr_aging_note_blocks(struct vr_space *space);

/* Notes how much of the memory is needed: (3). */
void vr_aging_note_need(struct vr_space *space, uint64_t need_bytes);

/* Whether memory is tight and the piece so coarse that it is better not cut: (6). */
bool vr_aging_is_coarse(const struct vr_space *space, const struct vr_piece *piece);

/* Whether little memory is in use compared with the peak need. */
bool vr_aging_is_idle(const struct vr_space *space);

/* The size in bytes of a new handle that would have `granules` without aging: (4). */
uint64_t vr_aging_bytes(const struct vr_space *space, uint64_t granules);

#endif
