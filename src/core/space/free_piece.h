/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_piece.h: finds a free piece, to move it or to release it.
 *
 * A piece is free if it lies wholly inside one hole. Each function returns a piece and the hole it
 * is in, or NULL. The order in which supply.c asks is the order in which memory is used: spares,
 * then settled pieces, then those that are mapped a second time while their old place stays mapped
 * (alias).
 */
#ifndef VR_FREE_PIECE_H
#define VR_FREE_PIECE_H

#include "core/space/span.h"

/* The longest unused spare. */
struct vr_piece *vr_free_spare(const struct vr_space *space);

/* A piece of the least valuable among the longest idle holes. A hole without a whole piece is
   removed from the list; it is listed again when it changes. */
struct vr_piece *vr_free_idle(struct vr_space *space, struct vr_block **hole);

/* A piece of at most `most` bytes in the oldest hole that only work of `queue` may still use; queue
   0: none. *seen is the last hole with nothing to take, NULL at first. When a hole is cut, the rest
   keeps its place in the list, behind *seen. To be aliased. */
struct vr_piece *vr_free_pending(struct vr_space *space, uint64_t queue, uint64_t most,
                                 struct vr_link **seen, struct vr_block **hole);

/* A piece of at most `most` bytes in a settled hole, whatever stale mappings it has: their work is
   complete, but they have not been swept yet. To be aliased. */
struct vr_piece *vr_free_unswept(const struct vr_space *space, uint64_t most,
                                 struct vr_block **hole);

#endif
