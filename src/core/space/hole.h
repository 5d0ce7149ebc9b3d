/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hole.h: free spans, found by size. See span.h for the rules they keep.
 *
 * A hole belongs to the queue of its stamp until that stamp is seen to have passed, and to
 * everybody from then on. A search names a queue: its own number, 0 for settled holes,
 * VR_QUEUE_VOID for voids.
 */
#ifndef VR_HOLE_H
#define VR_HOLE_H

#include "base/size.h"
#include "core/space/span.h"

/* Enters a free span, which merges with its neighbours where (2) asks for it. A hole counts as
   freed just now. */
void vr_hole_add(struct vr_space *space, struct vr_block *span);
/* The same for a hole that counts as the oldest: it was taken for that, and is not needed after
   all. */
void vr_hole_return(struct vr_space *space, struct vr_block *span);

/* Cuts [addr, addr + bytes) out of the free span that holds it; what is left of it stays free, with
   its age. Needs up to two records in stock. The part returned is in no bin and in no list. */
struct vr_block *vr_hole_cut(struct vr_space *space, struct vr_block *span, uint64_t addr,
                             uint64_t bytes);

/* The smallest of at least `bytes`; the lowest of those. NULL: none. */
struct vr_block *vr_hole_least(const struct vr_space *space, uint64_t queue, uint64_t bytes);

/* The next smaller than `span`, or the largest of all when span is NULL. */
struct vr_block *vr_hole_smaller(const struct vr_space *space, uint64_t queue,
                                 const struct vr_block *span);

/* The lowest queue above `queue` that has a hole; VR_QUEUE_VOID: none. */
uint64_t vr_hole_queue_next(const struct vr_space *space, uint64_t queue);

#define VR_ISLAND_BYTES (256 * VR_MIB) /* larger holes are no islands */

/* How many sides of a hole are bare, if it is no larger than an island. With both it is one: few
   blocks fit it, and it goes without leaving edges behind. */
static inline int vr_hole_shores(const struct vr_block *hole) {
    return vr_span_bytes(hole) > VR_ISLAND_BYTES
               ? 0
               : vr_span_is_bare(hole->span.before) + vr_span_is_bare(hole->span.after);
}

/* The set of size bins that a queue's spans lie on; and whether one that lies there is found by
   what it is. For checks. */
uint32_t vr_hole_bins(uint64_t queue);
bool vr_hole_key_holds(const struct vr_block *span);

/* Settles all holes of a queue, whatever their stamps. */
void vr_hole_forget(struct vr_space *space, uint64_t queue);

/* Looks which stamps have passed, oldest first, and settles those holes. True when there were any.
   Looks at a bounded number of those that have not, unless `all`: a queue that does not come on
   hides the others' holes behind its own, which matters when memory is short. */
bool vr_hole_settle(struct vr_space *space, bool all);

#endif
