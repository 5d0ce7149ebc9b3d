/* SPDX-License-Identifier: Apache-2.0 */
/*
 * radix.h: finds the range of an address without a lock.
 *
 * A tree like a CPU's page tables: 64-bit addresses in units of 4 KiB pages, 512 slots a node, six
 * levels (7 + 5 * 9 bits above the page). A slot holds a child node, a record, or nothing. A record
 * that covers a slot's whole span is stored at that level, as a huge page is, so an 80 GiB range
 * takes a handful of slots, not 20 million.
 *
 * Readers take no lock and follow pointers only into type-stable nodes (vr_stable), which may have
 * been emptied and reused meanwhile but are always nodes. The caller must check a record it finds:
 * records are type-stable too, and base, size and generation tell whether it is the right one.
 * Writers hold the tree's lock.
 *
 * Mappings made before a fork belong to the parent: memory that a child does not inherit leaves
 * addresses free, which the system may assign again in the child. So a tree starts empty at the
 * first insertion of a forked child; nodes of the parent's tree stay as they are.
 */
#ifndef VR_RADIX_H
#define VR_RADIX_H

#include "base/lock.h"

#include "base/atomic.h"
#include "vram/base.h"

#define VR_RADIX_PAGE UINT64_C(4096)

struct vr_radix_node;

struct vr_radix {
    struct vr_mutex lock;
    vr_atomic_ptr root; /* struct vr_radix_node *, made at the first insertion */
    uint64_t process;   /* vr_os_process_generation of that insertion; guarded by the lock */
};

/* Only for variables of static storage, as VR_MUTEX_INIT. */
#define VR_RADIX_INIT                                                                              \
    { .lock = VR_MUTEX_INIT(VR_RANK_RADIX) }

/* Maps [base, base + bytes), multiples of VR_RADIX_PAGE, bytes > 0, not wrapping (it may end at
   2^64), to `record` (not NULL, at least 2-byte aligned). VRAM_ERR_INVALID if an argument violates
   this; VRAM_ERR_BUSY if any of it is mapped already; VRAM_ERR_HOST_MEMORY if nodes cannot be
   allocated. A failure changes nothing. Adjacent ranges must have different records. */
vram_status vr_radix_insert(struct vr_radix *radix, uint64_t base, uint64_t bytes, void *record);

/* Unmaps exactly what was inserted with `record`; otherwise VRAM_ERR_INVALID, and nothing changes.
   Never allocates, so freeing cannot fail because memory ran out. */
vram_status vr_radix_remove(struct vr_radix *radix, uint64_t base, uint64_t bytes,
                            const void *record);

/* The record at `addr`, or NULL. Lock-free; accepts any 64-bit value. */
void *vr_radix_find(struct vr_radix *radix, uint64_t addr);

/* Nodes in use, the root included. */
uint64_t vr_radix_nodes(void);

#endif
