/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.h: the block engine. It knows addresses, sizes and stamps, never a device.
 *
 * A space hands out blocks of the pool's addresses and takes them back. What the driver has to do
 * for it (map physical memory, fetch a segment) it only writes down, as a plan: a list of steps
 * that the pool executes in order, without its lock, and then commits or aborts.
 *
 *     vr_space_alloc --FOUND--> block                                      no driver needed
 *          |
 *          +---------PLAN---> pool runs the steps --all done--> vr_space_commit --> block
 *                                   |
 *                                   +--step k failed--> vr_space_undo (the steps that take back
 *                                   what
 *                                                       cannot stay), run them, vr_space_abort
 *
 * Two modes. VMM: reserved ranges of addresses; physical memory comes in handles of one or more
 * granules, each mapped and unmapped whole, and free handles are moved to where they are needed.
 * SEGMENTS: the provider gives whole segments; best fit, coalescing, empty segments returned.
 *
 * Rules for the caller:
 *  (1) Every call is made under the pool's lock; nothing here locks, waits, or calls a driver.
 *      While the steps of a plan run, the lock is open and other calls may be made: all that an
 *      open plan touches is claimed and invisible to them. Any number of plans may be open.
 *  (2) The steps of a plan and the fields of a piece that they use may be read without the lock
 *      while the plan is open; the pool writes `native` of a piece in a CREATE step, and `ns` of
 *      each step.
 *  (3) vr_space_free, _commit, _undo and _abort never fail and never allocate. vr_space_alloc and
 *      vr_space_trim that return an error have changed nothing that can be seen from outside.
 *  (4) A piece is unmapped or returned only when the stamps of all frees over it have passed. With
 *      `alias` a piece whose work is unfinished may be mapped at a second place for a block of the
 *      same queue, whose order keeps the two apart; the first place is unmapped by vr_space_sweep
 *      when that work has ended. Pieces under live blocks are never touched, so a pin of one needs
 *      no call here.
 *  (5) `passed` is called under the lock, must be quick, and once true for a stamp must stay true.
 *      It is never called in deterministic mode, where the space does not move memory and a queue
 *      finds only what was freed on that queue, or on one that was forgotten since, so that
 *      addresses follow from the order of calls alone.
 */
#ifndef VR_SPACE_H
#define VR_SPACE_H

#include "base/list.h"
#include "core/space/block.h"

struct vr_space;
struct vr_plan_item;

enum vr_space_mode { VR_SPACE_VMM = 0, VR_SPACE_SEGMENTS = 1 };

struct vr_space_config {
    enum vr_space_mode mode;
    bool deterministic;
    bool direct;             /* segments: one for each block, and none is used twice */
    bool alias;              /* VMM: a handle may be mapped at several places */
    uint64_t base, bytes;    /* VMM: the first reserved range, multiples of granule */
    uint64_t granule;        /* a power of two >= 4096: unit of handles and of segments */
    uint64_t limit_bytes;    /* physical memory the space may hold; 0: no limit */
    uint64_t largest_handle; /* bytes; 0: 64 MiB; VMM */
    uint64_t slack_bytes;    /* may be held beyond need before memory is moved; 0: the next */
    uint32_t slack_ppm;      /* the same as a part of the peak */
    uint32_t share_ppm;      /* of elapsed time, may be spent on moving */
    uint64_t credit_ns; /* of moving, in hand at the start, for when growth would be far too much */
    bool (*passed)(void *user, struct vr_stamp stamp); /* whether the work is known to be over */
    void *user;                                        /* handed to passed */
};

/* ------------------------------------------------------------------- plans */

/* Physical memory: a handle that may be mapped (VMM), or a segment. */
struct vr_piece {
    uint64_t native; /* the pool's name for it; written by the pool in the CREATE step */
    uint64_t addr;   /* where it is mapped, or VR_NOWHERE; a segment's is written by the pool */
    uint64_t bytes;
    struct vr_link all, spare; /* the space's own */
    uint32_t stale_mappings;   /* the space's own: further places where it is still mapped */
    struct vr_block *first;    /* the space's own: lowest span of a segment */
    struct vr_sleep_state *sleep_state; /* asleep: sleep.h; else NULL */
    bool gone;    /* asleep, and the driver has it back: `native` means nothing */
    bool roused;  /* sleep_space.c's own: awake again, its holes not yet */
    uint8_t seen; /* sleep_space.c's own: what lies over it */
};

#define VR_NOWHERE UINT64_MAX

enum vr_step_kind {
    VR_STEP_CREATE = 0, /* VMM: physical memory of `bytes`; segments: a segment of `bytes`. The pool
                            writes piece->native, and piece->addr of a segment. */
    VR_STEP_UNMAP = 1,  /* the handle from [addr, addr + bytes) */
    VR_STEP_MAP = 2,    /* the handle at [addr, addr + bytes) */
    VR_STEP_ACCESS = 3, /* make [addr, addr + bytes), all of it mapped before, usable; no piece */
    VR_STEP_RELEASE = 4 /* give the piece back: an unmapped handle, or a segment at addr */
};

struct vr_step {
    enum vr_step_kind kind;
    uint32_t handles;       /* ACCESS: handles in the range; else 1 */
    struct vr_piece *piece; /* NULL for ACCESS */
    uint64_t addr, bytes;
    uint64_t ns;               /* what it took, written by the pool; 0: not measured */
    bool failed;               /* of an undo, written by the pool; see vr_space_abort */
    struct vr_plan_item *item; /* the space's own: what it is done for; ACCESS: the first of them */
};

struct vr_plan {
    struct vr_step *steps;
    uint32_t count;
    bool sweep;               /* only unmaps stale mappings */
    bool tidies;              /* only gives back what was owed */
    bool behind;              /* its block goes behind another */
    struct vr_block *reserve; /* the space's own: kept behind the window; NULL: none */
    uint32_t moved_handles;   /* taken from elsewhere (UNMAP and MAP), or spares mapped */
    uint32_t created_handles; /* new ones (CREATE) */
    uint32_t released_handles;
    uint64_t moved_bytes, created_bytes, released_bytes;
    /* The space's own: what happens to which piece; the claimed window; the block to be. */
    struct vr_plan_item *items;
    uint32_t item_count, item_capacity;
    struct vr_block *target; /* first claim of the window; NULL: none */
    struct vr_block *edges;  /* two records put aside for the commit */
    uint64_t to;             /* where the window ends */
    uint64_t addr, bytes;    /* of the block; bytes 0: none */
    uint64_t queue;          /* who asked */
    uint64_t run_end;        /* where the siblings of the block will end; 0: none are expected */
    uint64_t price_ns;       /* charged to the budget in advance */
};

/* -------------------------------------------------------------- allocation */

enum vr_want_flag {
    VR_WANT_HELD = 1 << 0,      /* only memory that is mapped already: FOUND or an error, no plan */
    VR_WANT_NO_GROWTH = 1 << 1, /* hold at most grow_bytes more than now: move, whatever the time
                                   budget says */
    VR_WANT_AFTER = 1 << 2,     /* memory that another queue still uses will do: see answer.after */
    VR_WANT_PROBE = 1 << 3,     /* FOUND where the policy would have it so, otherwise no plan */
    VR_WANT_GATHER =
        1 << 4, /* free memory that fits comes first, whatever the time budget says, if it is
                               worth moving; with VR_WANT_NO_GROWTH all of it */
    VR_WANT_ANY =
        1 << 5 /* with VR_WANT_HELD: also where a coarse piece would be cut: aging.h (6) */
};

struct vr_want {
    uint64_t bytes;   /* > 0; the space rounds up to 512 */
    uint64_t align;   /* a power of two up to the granule; 0: 512 */
    uint64_t queue;   /* handle number, not 0: who uses it first */
    uint64_t reserve; /* VMM, a wish: addresses to keep free behind it, where these and bytes are
                            whole granules; 0: none */
    struct vr_block
        *behind;         /* it starts where this block ends, for vr_space_join; NULL: anywhere */
    uint64_t now_ns;     /* a clock that never goes back, for the time budget */
    uint64_t idle_bytes; /* of what is out of the space, how much lies in caches and is no need */
    uint64_t grow_bytes; /* with VR_WANT_NO_GROWTH: what the driver may still have */
    uint32_t flags;      /* of vr_want_flag */
};

struct vr_answer {
    struct vr_block *block; /* FOUND: the block, its state still VR_BLOCK_FREE; else NULL */
    struct vr_plan *plan;   /* PLAN: to be run; else NULL */
    struct vr_stamp after; /* FOUND with VR_WANT_AFTER: work to be waited for by the queue before it
                               uses the block; queue 0: none */
};

vram_status vr_space_create(const struct vr_space_config *config, struct vr_space **space);

/* VMM: adds a range of whole granules that overlaps none of its own. Fails only with
   VRAM_ERR_HOST_MEMORY, with nothing changed. The range stays until the space is destroyed. */
vram_status vr_space_add_range(struct vr_space *space, uint64_t base, uint64_t bytes);

/* Frees the bookkeeping, and with it all blocks' records; calls no driver. The pool walks the
   pieces before it and gives them back. No plan may be open. NULL is allowed. */
void vr_space_destroy(struct vr_space *space);

/*
 * Finds or plans a block. VRAM_ERR_LIMIT: growing would pass the limit (or VR_WANT_NO_GROWTH,
 * _HELD, _PROBE forbid it). VRAM_ERR_FRAGMENTED: no run of addresses is long enough.
 * VRAM_ERR_NOT_READY: enough would be there once stamps pass: see vr_space_pending. VRAM_ERR_BUSY:
 * the space rests (vr_space_rest), or something else lies behind want->behind; where that is only
 * work that has not ended and VR_WANT_HELD is set, VRAM_ERR_NOT_READY. VRAM_ERR_INVALID: the
 * alignment. VRAM_ERR_HOST_MEMORY; only this one is recorded as an error.
 */
vram_status vr_space_alloc(struct vr_space *space, const struct vr_want *want,
                           struct vr_answer *answer);

/* Takes a block back. block->stamp says until when work may use it. The record is the space's from
   here on. */
void vr_space_free(struct vr_space *space, struct vr_block *block);

/* The block that was found behind `block` becomes part of it: `tail` is gone. */
void vr_space_join(struct vr_space *space, struct vr_block *block, struct vr_block *tail);

/* Cuts the block in two, the lower with `bytes`, a multiple of 512 below its own: *tail is the
   upper. Only VRAM_ERR_HOST_MEMORY, with nothing changed. */
vram_status vr_space_split(struct vr_space *space, struct vr_block *block, uint64_t bytes,
                           struct vr_block **tail);

/* Addresses that are kept behind the block; and keeps up to `bytes`, whole granules, if they are
   free and the block ends with a granule. */
uint64_t vr_space_reserve(const struct vr_block *block);
void vr_space_keep_reserve(struct vr_space *space, struct vr_block *block, uint64_t bytes);

/* All steps are done. The block of the plan, or NULL (trim). The plan is gone. */
struct vr_block *vr_space_commit(struct vr_space *space, struct vr_plan *plan);

/* Step `done` failed, the `done` before it succeeded. Replaces the steps by those that take back
   what cannot stay: handles mapped without access, memory created for nothing. May be none. */
void vr_space_undo(struct vr_space *space, struct vr_plan *plan, uint32_t done);

/* Ends a plan after vr_space_undo. failed[i], or where that is NULL the step itself, says whether
   undo step i failed; a step whose piece failed before in this list is not tried and has failed
   too. Handles that are mapped nowhere stay as spares; one that could not be taken back is lost
   with its addresses, and counted. The plan is gone. */
void vr_space_abort(struct vr_space *space, struct vr_plan *plan, const bool *failed);

/* Plans to give free memory back until at most keep_bytes are held, as far as possible: *plan is
   NULL when there is nothing to do. Commit returns NULL for it. */
vram_status vr_space_trim(struct vr_space *space, uint64_t keep_bytes, struct vr_plan **plan);

/* Plans to unmap the stale mappings that no work can reach any more: *plan is NULL when there are
   none. Commit returns NULL for it. */
vram_status vr_space_sweep(struct vr_space *space, struct vr_plan **plan);

/* Plans to give back some of what was free, in pieces too small to move, when a block grew by new
   memory: *plan is NULL when nothing is owed or there is no time for it. Commit returns NULL. */
vram_status vr_space_tidy(struct vr_space *space, struct vr_plan **plan);

/* Plans to give back free pieces that are too coarse for memory as tight as it is: *plan is NULL
   when there are none. Commit returns NULL for it. */
vram_status vr_space_refine(struct vr_space *space, struct vr_plan **plan);

/* From now on the space may hold that much; what it holds already stays. Plans that are open are
   not looked at again. `memory_bytes`: how much there is for it, whether or not that is a limit;
   UINT64_MAX: not known. */
void vr_space_limit_set(struct vr_space *space, uint64_t bytes, uint64_t memory_bytes);
/* While it rests a space hands nothing out and plans no block; what is free may still be given
   back. */
void vr_space_rest(struct vr_space *space, bool resting);
/* Plans that are neither committed nor aborted. */
uint32_t vr_space_open_plans(const struct vr_space *space);

/* The work that must end next for more memory to be free to all: the stamp of the oldest free that
   has not passed. False when there is none. */
bool vr_space_pending(struct vr_space *space, struct vr_stamp *stamp);

/* All work of that queue is done: what was freed on it is everybody's. For deterministic spaces,
   which find out in no other way; O(log n) for each of its holes. */
void vr_space_forget(struct vr_space *space, uint64_t queue);

/* Whether memory is mapped throughout [addr, addr + bytes); VMM only. */
bool vr_space_covers(const struct vr_space *space, uint64_t addr, uint64_t bytes);

/* The pieces in no particular order: NULL gives the first, the last gives NULL. */
struct vr_piece *vr_space_piece_next(struct vr_space *space, struct vr_piece *piece);

/* The stale mappings likewise: a place, with its piece in span.segment. For the end of a pool,
   which unmaps them itself. */
struct vr_block *vr_space_stale_next(struct vr_space *space, struct vr_block *stale);

/* ---------------------------------------------------------------- looking */

struct vr_space_stats {
    uint64_t reserved_bytes; /* physical memory: mapped, spare and lost, not what is asleep */
    uint64_t peak_reserved_bytes;
    uint64_t out_bytes;          /* in blocks handed out (the program's, or in caches) */
    uint64_t peak_need_bytes;    /* most of out_bytes - idle_bytes that was asked for */
    uint64_t hole_bytes;         /* mapped and free */
    uint64_t largest_hole_bytes; /* largest mapped free run under one stamp */
    uint64_t pending_bytes;      /* of hole_bytes, under stamps not seen to have passed */
    uint64_t spare_bytes;        /* created, mapped nowhere */
    uint64_t lost_bytes;         /* could neither be used nor taken back after a failed step */
    uint64_t address_bytes;      /* reserved: all ranges */
    uint64_t largest_void_bytes; /* the longest run of them with nothing mapped */
    uint64_t blocks, holes, pieces, spares, lost, stale_mappings;
    uint64_t moved_pieces, moved_bytes, move_ns; /* since the start */
    uint64_t metadata_bytes;                     /* host memory of all this */
};

uint64_t vr_space_reserved(const struct vr_space *space);
void vr_space_stats_get(struct vr_space *space, struct vr_space_stats *stats);

/* A number for the present layout: equal layouts have equal numbers. O(n). */
uint64_t vr_space_hash(const struct vr_space *space);

/* Checks every invariant; false with the first violation in `text`. O(n), for tests; debug
   builds call it by themselves: see VR_SPACE_CHECKS in span.h. */
bool vr_space_check(const struct vr_space *space, char *text, size_t text_bytes);

#endif
