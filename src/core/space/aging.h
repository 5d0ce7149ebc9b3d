/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aging.h: how placement changes once a pool has run its workload several times.
 *
 * Each pass of a program over its workload fragments the space a little more: blocks end up in more
 * and more isolated places, and the free part of a handle that they use is stuck: a handle moves
 * only whole. A space becomes aged, for ever,
 *
 *  (1) when it grows past its aim for a need that it has met before, although there was time for
 *      moving: then all free memory is stuck;
 *  (2) when nearly all blocks have been freed: the program starts over;
 *  (3) when the program needs five eighths of the memory: then memory held in pieces that are too
 *      coarse may be missing for a later block.
 *
 * An aged space spends time on what a first pass with plenty of memory cannot afford:
 *
 *  (4) handles are recreated at an eighth of the size, and free handles that are coarser than what
 *      would be created in their place are released instead of moved (supply.c);
 *  (5) blocks avoid isolated holes and the inside of coarse pieces, and go to low addresses while
 *      little memory is in use (fit.c);
 *  (6) in case (3), no block is put where it would cut a free coarse piece if there is another way
 *      (space.c);
 *  (7) the space is renewed: the next time that little memory is in use, all free memory that is
 *      isolated or in coarse pieces is released (extension.c), and the program's next blocks lie
 *      side by side again, in pieces like those of a first pass. A renewal is due once for a space
 *      that grew past its aim for a need that it has met before, with or without time, before it
 *      was aged; and again whenever it does so later and then holds a third more beyond its need
 *      than when it became aged. It is paid from the time budget, of which it may take a quarter.
 *
 *  (8) A space whose pieces can be rebuilt (rebuild.h) skips (3): what is stuck in coarse pieces is
 *      won when it is missing, so it need not be avoided in advance.
 *
 * A first pass with plenty of memory, and a program whose passes are all the same, cause no aging
 * and no cost. Deterministic pools do not age, because aging depends on the clock.
 */
#ifndef VR_AGING_H
#define VR_AGING_H

#include "core/space/span.h"

enum { VR_GROW_PART = 4096 }; /* a handle created by growth is this part of the peak need */

/* The space grew past its aim for a need that it has met before: (1), (7). */
void vr_aging_note_growth(struct vr_space *space);
/* A block is about to be allocated; checks how many are in use: (2). */
void vr_aging_note_blocks(struct vr_space *space);

/* Notes how much of the memory is needed: (3). */
void vr_aging_note_need(struct vr_space *space, uint64_t need_bytes);

/* Whether the piece is coarser than what growth creates: (6), (7). */
bool vr_aging_is_coarse(const struct vr_space *space, const struct vr_piece *piece);

/* Whether little memory is in use compared with the peak need. */
bool vr_aging_is_idle(const struct vr_space *space);

/* Whether a renewal is due, little memory is in use, and the time budget has what it takes: (7).
   Then a request does not take free memory, but has a plan made. */
bool vr_aging_renews(const struct vr_space *space);

/* The size in bytes of a new handle that would have `granules` without aging: (4). */
uint64_t vr_aging_bytes(const struct vr_space *space, uint64_t granules);

#endif
