/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_table.h: finds a block by its address, without a lock for readers.
 *
 * Open addressing over pointers to blocks, 16 bytes per block. Every block that has left the space
 * is in it, live or cached. Readers verify what they find (block.h (2)), so a slot may change while
 * they read. A block that is live during the whole lookup is always found: entries never move
 * within a table, and a new table is complete before it is published. The old table is freed when
 * no thread can be reading it any more.
 */
#ifndef VR_BLOCK_TABLE_H
#define VR_BLOCK_TABLE_H

#include "core/space/block.h"

struct vr_block_slots;

struct vr_block_table {
    vr_atomic_ptr slots;   /* struct vr_block_slots *, the newest */
    vr_atomic_ptr retired; /* struct vr_block_slots *, replaced, to be freed; for writers */
    uint64_t used;         /* entries and tombstones in `slots`; for writers */
    uint64_t live;         /* entries; for writers */
};

/* Makes sure that one more entry fits; called before a block leaves the space. Writers hold the
   pool's lock. */
vram_status vr_block_table_reserve(struct vr_block_table *table);
/* Whether it fits already. */
bool vr_block_table_has_room(struct vr_block_table *table);
/* Never fails after a reserve. */
void vr_block_table_insert(struct vr_block_table *table, struct vr_block *block);
void vr_block_table_remove(struct vr_block_table *table, const struct vr_block *block);
void vr_block_table_free(struct vr_block_table *table);
/* Removes the replaced tables from the list; NULL: none. The caller frees them with
   vr_block_slots_free once no reader can be inside one (vr_thread_quiesce). _has_retired may be
   called without the lock: the thread that replaced a table sees it. */
static inline bool vr_block_table_has_retired(const struct vr_block_table *table) {
    return vr_load(&table->retired, VR_RELAXED) != NULL;
}
struct vr_block_slots *vr_block_table_retired(struct vr_block_table *table);
void vr_block_slots_free(struct vr_block_slots *slots);
uint64_t vr_block_table_bytes(struct vr_block_table *table);

/* Iterates over the entries in no particular order: *at is 0 at the start; NULL after the last. For
   writers. */
struct vr_block *vr_block_table_next(struct vr_block_table *table, uint64_t *at);

/* The same, but looks at no more than *slots slots, which it counts down; NULL with *slots at 0:
   not at the end yet. */
struct vr_block *vr_block_table_step(struct vr_block_table *table, uint64_t *at, uint32_t *slots);

/* The block that starts at `addr`, or NULL. Lock-free. The second is for a thread that is about to
   change the block's state: its cache line is fetched once, to be written. */
struct vr_block *vr_block_table_find(struct vr_block_table *table, vram_addr addr);
struct vr_block *vr_block_table_find_to_claim(struct vr_block_table *table, vram_addr addr);

#endif
