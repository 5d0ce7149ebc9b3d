/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hole.h: free spans, found by size. span.h has their invariants.
 *
 * Only the queue of its stamp may use a hole until that stamp is known to have passed; then the
 * hole is settled and any queue may use it. A search names a queue: its number, 0 for settled
 * holes, VR_QUEUE_VOID for voids.
 */
#ifndef VR_HOLE_H
#define VR_HOLE_H

#include "base/size.h"
#include "core/space/span.h"

/* Adds a free span and merges it with its neighbours as span.h (2) requires. A hole becomes the
   youngest of its list. */
void vr_hole_add(struct vr_space *space, struct vr_block *span);
/* The same, but a hole becomes the oldest: a plan took it because it was, and does not need it. */
void vr_hole_return(struct vr_space *space, struct vr_block *span);

/* Cuts [addr, addr + bytes) out of the free span that contains it; the rest of it stays free and
   keeps its age. Needs up to two records in stock. The returned part is in no bin and no list. */
struct vr_block *vr_hole_cut(struct vr_space *space, struct vr_block *span, uint64_t addr,
                             uint64_t bytes);

/* The smallest of at least `bytes`, and of equal ones the lowest. NULL: none. */
struct vr_block *vr_hole_least(const struct vr_space *space, uint64_t queue, uint64_t bytes);

/* The next smaller than `span`, or the largest of all when span is NULL. */
struct vr_block *vr_hole_smaller(const struct vr_space *space, uint64_t queue,
                                 const struct vr_block *span);

/* The lowest queue above `queue` that has a hole; VR_QUEUE_VOID: none. */
uint64_t vr_hole_queue_next(const struct vr_space *space, uint64_t queue);

#define VR_ISOLATED_BYTES (256 * VR_MIB) /* larger holes do not count as isolated */

/* The number of sides of a hole that border on unmapped addresses; 0 for large holes. A hole with 2
   is isolated: few blocks fit it, and all its pieces can be moved away. */
static inline int vr_hole_unmapped_sides(const struct vr_block *hole) {
    return vr_span_bytes(hole) > VR_ISOLATED_BYTES
               ? 0
               : vr_span_is_unmapped(hole->span.before) + vr_span_is_unmapped(hole->span.after);
}

/* The index of the set of size bins for a queue's spans. */
uint32_t vr_hole_bins(uint64_t queue);
/* Whether the sort key in the bins still matches the span. For checks. */
bool vr_hole_key_holds(const struct vr_block *span);

/* Settles all holes of a queue, whatever their stamps. */
void vr_hole_forget(struct vr_space *space, uint64_t queue);

/* Checks which stamps have passed, oldest first, and settles those holes. True when there were any.
   Unless `all`, it stops after a bounded number of stamps that have not passed: then the holes of a
   queue that makes no progress can hide others, which matters only when memory is short. */
bool vr_hole_settle(struct vr_space *space, bool all);
/* The same, for at most so many holes; how many. */
uint32_t vr_hole_settle_some(struct vr_space *space, bool all, uint32_t most);
/* Counts a plan that ended or a block that was freed, by this thread: vr_space_changes. */
void vr_hole_note_change(struct vr_space *space);

#endif
