/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h: safety modes of a pool, all off by default.
 *
 *     block of the space   | front zone |   the program's bytes   | rear zone |
 *                          ^ addr       ^ the program's address   ^ addr + zone + size
 *
 *  (1) A pool with a mode has no thread caches, so that every call runs these checks and other
 *      pools pay nothing.
 *  (2) Only the mode red_zones adds zones. The front zone is as long as the block's alignment, at
 *      least 512 bytes. Of both zones only the part nearest to the program's bytes is written and
 *      checked.
 *  (3) Zeros are written in stream order. A check for bad writes waits for the queue that the block
 *      is freed on; after that no work of it can touch the block.
 *  (4) A block in quarantine is freed, poisoned and in no cache. Blocks leave, oldest first, when
 *      quarantine holds too many bytes or memory is short. A block is checked when it leaves.
 *  (5) Blocks that are pinned, asleep or sealed when they are freed, and blocks that are not device
 *      memory, are not checked.
 *  (6) A free succeeds whatever the driver returns: a block that could not be checked or
 *      overwritten is logged, and every block that was not checked, those of (5) included, is
 *      counted. A check allocates no host memory, since the pool has a buffer. With zero_free, once
 *      a block was freed without being zeroed, blocks are also zeroed when they are handed out: no
 *      later owner sees old contents.
 *  (7) The option poison=stream is no mode. Such a pool keeps its caches, and hands out memory by
 *      the same rules as without. Before the program gets a block, a fill of it is submitted to its
 *      queue: what still reads the memory for an earlier owner, or is early on another queue, reads
 *      the pattern. Nothing waits for the fill. A block without a queue, or for one that is being
 *      captured, is not filled. Caches are watched (cache.h): the request path serves every hit.
 */
#ifndef VR_GUARD_H
#define VR_GUARD_H

#include "core/space/block.h"
#include "vram/pool.h"

struct vr_pool;
struct vr_request;
struct vr_queue_object;

enum {
    VR_GUARD_MODES =
        VRAM_POOL_ZERO_ALLOC | VRAM_POOL_ZERO_FREE | VRAM_POOL_POISON | VRAM_POOL_RED_ZONES,
    VR_GUARD_ZONE = 512, /* bytes written of a zone; least length of the rear zone */
    VR_GUARD_NEW = 0xCD  /* in a new block, before its first write */
};

struct vr_guard {
    vr_atomic_u32 modes;     /* of VR_GUARD_MODES; fixed at the pool's creation */
    bool by_stream;          /* (7); fixed at the pool's creation */
    uint64_t most_bytes;     /* most bytes in quarantine */
    vram_queue *queue;       /* the pool's own, for allocations and frees without a queue */
    vr_atomic_bool unzeroed; /* zero_free: a block was freed without being zeroed; keeps (6) */
    /* Under the pool's lock. */
    struct vr_block *first, *last; /* in quarantine, through `next`, oldest first */
    uint64_t bytes;
    struct vr_guard_buffer *buffer; /* to read into; NULL: in use, or no mode checks */
    struct vr_guard_buffer *stuck;  /* buffers that a copy may still write to */
};

/* The modes of a new pool: those of the flags and of the options together. */
uint32_t vr_guard_modes(const struct vr_pool *pool, const struct vram_pool_options *options);
/* Creates what these modes need. */
vram_status vr_guard_make(struct vr_pool *pool, const struct vram_pool_options *options);
/* At the end of a pool, after vr_guard_release; and when all its work is complete. */
void vr_guard_end(struct vr_pool *pool);
void vr_guard_forget(struct vr_pool *pool);

/* Adds the zones to the size of a request; false: too large. */
bool vr_guard_widen(const struct vr_pool *pool, struct vr_request *request);
/* Prepares a supplied block: zones, poison, zeros. Not OK: the block was returned to the pool. No
   lock held. */
vram_status vr_guard_prepare(struct vr_pool *pool, const struct vr_request *request,
                             struct vr_block *block);

/* Keeps (7): fills a block whose `home` is the queue of the request. Never fails; the error record
   does not change. No lock held; stream_fill.c. */
void vr_guard_fill_by_stream(const struct vr_pool *pool, const struct vr_request *request,
                             const struct vr_block *block);

/*
 * These return whether they found damage, which the error record then describes; otherwise the
 * record does not change. A check that fails because of the driver or of host memory finds no
 * damage: keeps (6). No lock held.
 */

/* Checks the zones of a block that is being freed, and writes zeros or poison. `*queue`, entered by
   the caller or NULL, becomes the queue in whose order the block is free. The caller then leaves
   *own, unless it is NULL. *poisoned: the block may enter quarantine. */
bool vr_guard_check(struct vr_pool *pool, struct vr_queue_object **queue,
                    struct vr_queue_object **own, struct vr_block *block, bool *poisoned);
/* Puts a freed and poisoned block into quarantine. *kept: false if it may not stay there. The
   damage is that of blocks that had to leave for it. */
bool vr_guard_quarantine(struct vr_pool *pool, struct vr_block *block, bool *kept);
/* Takes all blocks out of quarantine. */
bool vr_guard_empty_quarantine(struct vr_pool *pool);

/* The same for a caller that needs the memory; returns whether there were any. Damage is in the log
   and the counters. */
bool vr_guard_release(struct vr_pool *pool);

/* The block whose program's bytes start at `addr`, by the pool's table; NULL: none. */
struct vr_block *vr_guard_find(struct vr_pool *pool, vram_addr addr);

/* Bytes of the front zone. */
static inline uint64_t vr_guard_front(const struct vr_block *block) {
    uint8_t zone = vr_load(&block->zone, VR_RELAXED);
    return zone ? UINT64_C(1) << zone : 0;
}

#endif
