/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild.h: wins the free granules of a coarse piece that has blocks beside them. A piece moves
 * and is released only whole, so its used granules are copied to finer pieces, which then take its
 * place at the same addresses:
 *
 *     before    | BLOCK | HOLE                 | BLOCK |      one piece
 *               +-------+----------------------+-------+
 *     stage     | copy of the used granules |                 finer pieces, at other addresses
 *               +-------+----------------------+-------+
 *     after     | BLOCK | HOLE | VOID   | HOLE | BLOCK |      the finer pieces; the coarse one is
 *                                                             released
 *
 * The space knows which granules are used, and records the outcome of each driver call. The caller
 * (sleep_rebuild.c) makes the calls. As for all of the space, everything is under the pool's lock.
 */
#ifndef VR_REBUILD_H
#define VR_REBUILD_H

#include "core/space/span.h"

/* One run of used granules of the coarse piece, and the piece that it gets. */
struct vr_rebuild_part {
    uint64_t to, bytes;     /* place and size, whole granules */
    struct vr_piece *piece; /* NULL: not created yet */
};

/* One coarse piece that may be rebuilt. */
struct vr_rebuild {
    struct vr_rebuild *next;
    struct vr_space *space;
    struct vr_piece *coarse;
    uint64_t used_bytes; /* granules with blocks: what is copied */
    uint64_t counted_to; /* end of the last granule that was counted */
    bool fixed;          /* a block over it must not be touched */
    struct vr_rebuild_part *parts;
    uint32_t part_count;
    struct vr_block **freed; /* claims over its free granules */
    uint32_t freed_count;
    struct vr_block *stage; /* block over the addresses of the stage; NULL: none */
    struct vr_block *edge;  /* a record set aside for vr_rebuild_unstaged; NULL: none */
};

/* Lists the pieces that may be rebuilt: larger than a granule, with both used and free granules, in
   use by the program only through blocks that are not pinned. piece->rebuild is set for each. Fails
   only with VRAM_ERR_HOST_MEMORY; the list is then to be ended all the same. */
vram_status vr_rebuild_find(struct vr_space *space, struct vr_rebuild **list);

/* Finds the parts of the listed pieces, once their holes have become claims (sleep_space.c), and
   cuts these claims at granules. VRAM_ERR_HOST_MEMORY. */
vram_status vr_rebuild_prepare(struct vr_space *space);

/* Plans the stage: creates the finer pieces and maps them one behind the other at free addresses.
   The block that its commit returns is to be kept in rebuild->stage. If the plan fails, call
   vr_rebuild_forget. VRAM_ERR_FRAGMENTED: there are no such addresses. VRAM_ERR_HOST_MEMORY. */
vram_status vr_rebuild_stage(struct vr_rebuild *rebuild, struct vr_plan **plan);
void vr_rebuild_forget(struct vr_rebuild *rebuild);

/* The first `count` finer pieces are no longer mapped at the stage. The others, if any, become a
   hole there. */
void vr_rebuild_unstaged(struct vr_rebuild *rebuild, uint32_t count);

/* Gives up after vr_rebuild_unstaged: the finer pieces that are mapped nowhere become spares. */
void vr_rebuild_give_up(struct vr_rebuild *rebuild);

/* The coarse piece was unmapped, and the finer ones have its place: its free granules are void now.
   `released`: it is gone; otherwise it becomes a spare. It has no sleep state any more. */
void vr_rebuild_swap(struct vr_rebuild *rebuild, bool released);

/* Ends all of a list. */
void vr_rebuild_end(struct vr_rebuild **list);

#endif
