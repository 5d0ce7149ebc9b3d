/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_table.h: from the address of a block to the block, without a lock for readers.
 *
 * Open addressing over pointers to blocks, 16 bytes a block. Every block that has left the space is
 * in it, live or cached. Readers verify what they find (block.h (2)), so a slot may change under
 * them; a block that is live during the whole look-up is always found, because entries never move
 * within a table, and a new table is complete before it is published. The old one is freed when no
 * thread can be inside it any more.
 */
#ifndef VR_BLOCK_TABLE_H
#define VR_BLOCK_TABLE_H

#include "core/space/block.h"

struct vr_block_slots;

struct vr_block_table {
    vr_atomic_ptr slots;   /* struct vr_block_slots *, the newest */
    vr_atomic_ptr retired; /* struct vr_block_slots *, replaced, waiting to be freed; writers' */
    uint64_t used;         /* entries and tombstones in it; writers' */
    uint64_t live;         /* entries; writers' */
};

/* Room for one more entry; call it before the block is committed to. Writers hold the pool's
   lock. */
vram_status vr_block_table_reserve(struct vr_block_table *table);
/* Never fails after a reserve. */
void vr_block_table_insert(struct vr_block_table *table, struct vr_block *block);
void vr_block_table_remove(struct vr_block_table *table, const struct vr_block *block);
void vr_block_table_free(struct vr_block_table *table);
/* Takes the replaced tables away. The caller frees them with vr_block_slots_free once every reader
   has been seen outside (vr_thread_quiesce). NULL: none. Whether there are any may be asked without
   the lock: who made them sees them. */
static inline bool vr_block_table_has_retired(const struct vr_block_table *table) {
    return vr_load(&table->retired, VR_RELAXED) != NULL;
}
struct vr_block_slots *vr_block_table_retired(struct vr_block_table *table);
void vr_block_slots_free(struct vr_block_slots *slots);
uint64_t vr_block_table_bytes(struct vr_block_table *table);

/* The entries in no particular order: *at is 0 at the start, NULL is the end. For writers. */
struct vr_block *vr_block_table_next(struct vr_block_table *table, uint64_t *at);

/* The block that starts at `addr`, or NULL. Lock-free. */
struct vr_block *vr_block_table_find(struct vr_block_table *table, vram_addr addr);

#endif
