/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.h: the block engine. It works on addresses, sizes and stamps and makes no driver call.
 *
 * A space allocates and frees blocks of the pool's addresses. Driver work that an allocation needs
 * (map physical memory, allocate a segment) becomes a plan: a list of steps. The pool executes the
 * steps in order without holding its lock, then commits or aborts the plan.
 *
 *     vr_space_alloc --FOUND--> block                                      no driver needed
 *          |
 *          +---------PLAN---> pool runs the steps --all done--> vr_space_commit --> block
 *                                   |
 *                                   +--step k failed--> vr_space_undo (writes the undo steps),
 *                                                       pool runs them, vr_space_abort
 *
 * Two modes. VMM: the space has reserved ranges of addresses. Physical memory comes in handles of
 * one or more granules, each mapped and unmapped whole; free handles move to where memory is
 * needed. SEGMENTS: the provider allocates whole segments; best fit, coalescing, and empty segments
 * are released.
 *
 * Rules for the caller:
 *  (1) Every call is made under the pool's lock; nothing here locks, waits, or calls a driver.
 *      While the steps of a plan run, the lock is not held and other calls may be made: all that an
 *      open plan touches is claimed, and those calls do not find it. Any number of plans may be
 *      open.
 *  (2) The steps of a plan and the fields of a piece that they use may be read without the lock
 *      while the plan is open; the pool writes `native` of a piece in a CREATE step, and `ns` of
 *      each step.
 *  (3) vr_space_free, _commit, _undo and _abort never fail and never allocate. If vr_space_alloc or
 *      vr_space_trim returns an error, nothing visible to the caller has changed.
 *  (4) A piece is unmapped or released only when the stamps of all frees over it have passed. With
 *      `alias`, a piece with unfinished work may be mapped at a second place for a block of the
 *      same queue: stream order separates the two uses. vr_space_sweep unmaps the first place when
 *      that work is complete. Pieces under live blocks are never touched, so pinning a block needs
 *      no call here.
 *  (5) `passed` is called under the lock, must be quick, and once true for a stamp must stay true.
 *      It is never called in deterministic mode. There the space does not move memory, and a queue
 *      finds only what was freed on that queue or on a queue that was since forgotten, so that
 *      addresses depend on the order of calls alone.
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
    bool direct;             /* one segment, or handles of its own, for each block, never reused */
    bool coarse;             /* VMM: grows by handles as large as segments would be */
    bool alias;              /* VMM: a handle may be mapped at several places */
    uint64_t base, bytes;    /* VMM: the first reserved range, multiples of granule */
    uint64_t granule;        /* a power of two >= 4096: unit of handles and of segments */
    uint64_t limit_bytes;    /* physical memory the space may hold; 0: no limit */
    uint64_t largest_handle; /* bytes; 0: 64 MiB; VMM */
    uint64_t slack_bytes;    /* may be held beyond need before memory is moved; 0: slack_ppm */
    uint32_t slack_ppm;      /* the same, in millionths of the peak need */
    uint32_t share_ppm;      /* millionths of elapsed time that may be spent on moving */
    uint64_t credit_ns;      /* initial extra_budget_ns: see span.h */
    bool (*passed)(void *user,
                   struct vr_stamp stamp); /* whether the work is known to be complete */
    void *user;                            /* argument of passed */
};

/* ------------------------------------------------------------------- plans */

/* Physical memory: a handle that may be mapped (VMM), or a segment. */
struct vr_piece {
    uint64_t native; /* the pool's name for it; written by the pool in the CREATE step */
    uint64_t addr;   /* where it is mapped, or VR_NOWHERE; a segment's is written by the pool */
    uint64_t bytes;
    struct vr_link all, spare;          /* private to the space, as the next two */
    uint32_t stale_mappings;            /* further places where it is still mapped */
    struct vr_block *first;             /* lowest span of a segment */
    struct vr_sleep_state *sleep_state; /* asleep: sleep.h; else NULL */
    struct vr_sleep_state *seal;        /* sealed: sleep.h; else NULL */
    struct vr_rebuild *rebuild;         /* to be rebuilt: rebuild.h; else NULL */
    bool released; /* asleep, and released to the driver: `native` is invalid */
    bool woken;    /* private to sleep_space.c: awake again, its holes still hidden */
    uint8_t seen;  /* private to sleep_space.c: kinds of span that lie over it */
};

#define VR_NOWHERE UINT64_MAX

enum vr_step_kind {
    VR_STEP_CREATE = 0, /* VMM: physical memory of `bytes`; segments: a segment of `bytes`. The pool
                            writes piece->native, and piece->addr of a segment. */
    VR_STEP_UNMAP = 1,  /* the handle from [addr, addr + bytes) */
    VR_STEP_MAP = 2,    /* the handle at [addr, addr + bytes) */
    VR_STEP_ACCESS = 3, /* make [addr, addr + bytes), all of it mapped before, usable; no piece */
    VR_STEP_RELEASE = 4 /* release the piece: an unmapped handle, or a segment at addr */
};

struct vr_step {
    enum vr_step_kind kind;
    uint32_t handles;       /* ACCESS: handles in the range; else 1 */
    struct vr_piece *piece; /* NULL for ACCESS */
    uint64_t addr, bytes;
    uint64_t ns;               /* duration, written by the pool; 0: not measured */
    bool failed;               /* of an undo, written by the pool; see vr_space_abort */
    struct vr_plan_item *item; /* private to the space: its item; ACCESS: the first of several */
};

struct vr_plan {
    struct vr_step *steps;
    uint32_t count;
    bool sweep;               /* only unmaps stale mappings */
    bool tidies;              /* only releases surplus memory, or what a renewal releases */
    bool renews;              /* a renewal: aging.h (7) */
    bool behind;              /* its block lies directly behind another */
    struct vr_block *reserve; /* private to the space: kept behind the window; NULL: none */
    uint32_t moved_handles;   /* taken from elsewhere (UNMAP and MAP), or spares mapped */
    uint32_t created_handles; /* new ones (CREATE) */
    uint32_t released_handles;
    uint64_t moved_bytes, created_bytes, released_bytes;
    /* Private to the space: the pieces and their steps; the claimed window; the future block. */
    struct vr_plan_item *items;
    uint32_t item_count, item_capacity;
    struct vr_block *target; /* first claim of the window; NULL: none */
    struct vr_block *edges;  /* two records set aside for the commit */
    uint64_t to;             /* end of the window */
    uint64_t addr, bytes;    /* of the block; bytes 0: none */
    uint64_t queue;          /* that requested the block */
    uint64_t run_end;        /* expected end of the block's run (fit.c); 0: no run is expected */
    uint64_t price_ns;       /* charged to the budget in advance */
};

/* -------------------------------------------------------------- allocation */

enum vr_want_flag {
    /* Only memory that is mapped already: FOUND or an error, no plan. */
    VR_WANT_HELD = 1 << 0,
    /* Hold at most grow_bytes more than now: move memory even with an empty time budget. */
    VR_WANT_NO_GROWTH = 1 << 1,
    /* Memory that another queue still uses is acceptable: see answer.after. */
    VR_WANT_AFTER = 1 << 2,
    /* FOUND if the policy would choose mapped memory; otherwise an error, no plan. */
    VR_WANT_PROBE = 1 << 3,
    /* Move free memory that fits before growing, even with an empty time budget: what is worth
       moving, or with VR_WANT_NO_GROWTH all of it. */
    VR_WANT_GATHER = 1 << 4,
    /* With VR_WANT_HELD: also where a coarse piece would be cut: aging.h (6). */
    VR_WANT_ANY = 1 << 5
};

struct vr_want {
    uint64_t bytes;   /* > 0; the space rounds up to 512 */
    uint64_t align;   /* a power of two up to the granule; 0: 512 */
    uint64_t queue;   /* handle number, not 0: the queue that uses it first */
    uint64_t reserve; /* VMM, best effort: addresses to keep free behind it, if this and bytes are
                            whole granules; 0: none */
    struct vr_block *behind; /* the block in front of it, for vr_space_join; NULL: anywhere */
    uint64_t now_ns;         /* of a monotonic clock, for the time budget */
    uint64_t idle_bytes;     /* of stats.out_bytes: in caches, so not needed by the program */
    uint64_t grow_bytes;     /* with VR_WANT_NO_GROWTH: what the driver can still provide */
    uint32_t flags;          /* of vr_want_flag */
};

struct vr_answer {
    struct vr_block *block; /* FOUND: the block, its state still VR_BLOCK_FREE; else NULL */
    struct vr_plan *plan;   /* PLAN: to be executed; else NULL */
    struct vr_stamp after;  /* FOUND with VR_WANT_AFTER: work that the queue must wait for before it
                               uses the block; queue 0: none */
};

vram_status vr_space_create(const struct vr_space_config *config, struct vr_space **space);

/* VMM: adds a range of whole granules that overlaps no other range of the space. Fails only with
   VRAM_ERR_HOST_MEMORY, with nothing changed. The range stays until the space is destroyed. */
vram_status vr_space_add_range(struct vr_space *space, uint64_t base, uint64_t bytes);

/* Frees the bookkeeping, including the records of all blocks; calls no driver. Before it, the pool
   walks the pieces and releases them. No plan may be open. NULL is allowed. */
void vr_space_destroy(struct vr_space *space);

/*
 * Finds or plans a block. VRAM_ERR_LIMIT: growing would exceed the limit (or VR_WANT_NO_GROWTH,
 * _HELD, _PROBE forbid it). VRAM_ERR_FRAGMENTED: no free run of addresses is long enough.
 * VRAM_ERR_NOT_READY: there will be enough once stamps pass: see vr_space_pending. VRAM_ERR_BUSY:
 * the space is suspended, or the addresses behind want->behind are in use; if they are only used by
 * unfinished work and VR_WANT_HELD is set, VRAM_ERR_NOT_READY. VRAM_ERR_INVALID: the alignment.
 * VRAM_ERR_HOST_MEMORY; only this one is recorded as an error.
 */
vram_status vr_space_alloc(struct vr_space *space, const struct vr_want *want,
                           struct vr_answer *answer);

/* The same with VR_WANT_HELD, if it needs no memory of the host for records: the block, or NULL.
   `bytes`: a multiple of 512. */
struct vr_block *vr_space_take(struct vr_space *space, uint64_t bytes, uint64_t queue);

/* Frees a block. block->stamp is the point until which work may use it. The record belongs to the
   space from then on. */
void vr_space_free(struct vr_space *space, struct vr_block *block);

/* The same for a block over memory that is asleep or sealed, which no allocation may find: it
   becomes a claim (sleep.h). */
void vr_space_hide(struct vr_space *space, struct vr_block *block);

/* Joins `tail`, a block allocated behind `block`, to it. The record `tail` is no longer valid. */
void vr_space_join(struct vr_space *space, struct vr_block *block, struct vr_block *tail);

/* Splits the block: the lower part has `bytes`, a multiple of 512 below its size; *tail is the
   upper part. Fails only with VRAM_ERR_HOST_MEMORY, with nothing changed. */
vram_status vr_space_split(struct vr_space *space, struct vr_block *block, uint64_t bytes,
                           struct vr_block **tail);

/* Addresses that are kept behind the block. */
uint64_t vr_space_reserve(const struct vr_block *block);
/* Keeps up to `bytes`, whole granules, behind the block, if they are free and the block ends on a
   granule. */
void vr_space_keep_reserve(struct vr_space *space, struct vr_block *block, uint64_t bytes);

/* All steps succeeded. Returns the block of the plan, or NULL if it has none. Frees the plan. */
struct vr_block *vr_space_commit(struct vr_space *space, struct vr_plan *plan);

/* Step number `done` failed; all before it succeeded. Replaces the steps by the undo steps: they
   unmap handles mapped without access and release memory that is not used. There may be none. */
void vr_space_undo(struct vr_space *space, struct vr_plan *plan, uint32_t done);

/* Ends a plan after vr_space_undo. failed[i], or if `failed` is NULL the step itself, says whether
   undo step i failed. A step whose piece failed earlier in this list is not tried and counts as
   failed. Handles that are mapped nowhere stay as spares. A handle that could not be unmapped is
   lost with its addresses, and counted as lost. Frees the plan. */
void vr_space_abort(struct vr_space *space, struct vr_plan *plan, const bool *failed);

/* The next four plan without a block: *plan is NULL when there is nothing to do, and
   vr_space_commit returns NULL for it. */

/* Plans to release free memory until at most keep_bytes are held, as far as possible. */
vram_status vr_space_trim(struct vr_space *space, uint64_t keep_bytes, struct vr_plan **plan);

/* Plans to unmap the stale mappings that no work can reach any more. */
vram_status vr_space_sweep(struct vr_space *space, struct vr_plan **plan);

/* Plans to release surplus memory: what was free, in pieces too small to be worth moving, when a
   block grew by new memory; or all free memory when a renewal is due (aging.h). Does nothing
   without time in the budget. */
vram_status vr_space_tidy(struct vr_space *space, struct vr_plan **plan);

/* Sets the limit of what the space may hold; what it holds already stays, and open plans are not
   checked again. `memory_bytes`: memory available to the space, whether or not that is a limit;
   UINT64_MAX: not known. `kept_bytes`: free memory that the pool keeps at most; UINT64_MAX: any. It
   bounds ordinary segments, since one block keeps all of its segment. */
void vr_space_limit_set(struct vr_space *space, uint64_t bytes, uint64_t memory_bytes,
                        uint64_t kept_bytes);
/* Whether the pool may rebuild pieces (rebuild.h) when memory is short: aging.h (7). */
void vr_space_rebuilds_set(struct vr_space *space, bool rebuilds);
/* Whether memory may be registered with network cards: free pieces are recreated then where they
   are needed, and never moved. */
void vr_space_stays_set(struct vr_space *space, bool stays);
/* A suspended space allocates nothing and plans no block; free memory may still be released. */
void vr_space_suspend(struct vr_space *space, bool suspended);
/* Plans that are neither committed nor aborted. */
uint32_t vr_space_open_plans(const struct vr_space *space);
/* Counts what may serve a request that failed before: plans that ended, blocks that were freed, and
   holes whose stamps were seen to have passed. */
uint64_t vr_space_changes(const struct vr_space *space);
/* Of these, the plans and the frees of this thread, in all spaces. */
uint64_t vr_space_changes_here(void);

/* The stamp of the oldest free that has not passed, or is not known to have: the work to wait for
   so that more memory is free to all queues. False when there is none. */
bool vr_space_pending(struct vr_space *space, struct vr_stamp *stamp);

/* All work of that queue is complete: any queue may use what was freed on it. Deterministic spaces
   learn that in no other way, and look through all spans for it. O(log n) for each hole. */
void vr_space_forget(struct vr_space *space, uint64_t queue);

/* Whether memory is mapped throughout [addr, addr + bytes); VMM only. */
bool vr_space_covers(const struct vr_space *space, uint64_t addr, uint64_t bytes);

/* The piece that is mapped at `addr`; NULL: none is; VMM only. */
struct vr_piece *vr_space_piece_at(const struct vr_space *space, uint64_t addr);

/* The piece after `piece`, in no particular order; the first for NULL, NULL after the last. */
struct vr_piece *vr_space_piece_next(struct vr_space *space, struct vr_piece *piece);

/* The same for stale mappings: a place, with its piece in span.segment. For the destruction of a
   pool, which unmaps them itself. */
struct vr_block *vr_space_stale_next(struct vr_space *space, struct vr_block *stale);

/* The bytes of a block whose pieces are asleep and released. */
uint64_t vr_space_released(const struct vr_space *space, const struct vr_block *block);

/* Frees the record of a piece that is asleep and released; nothing is mapped at its addresses. */
void vr_space_forget_piece(struct vr_space *space, struct vr_piece *piece);

/* Makes one piece of two adjacent ones that are asleep and released: `second` is freed. */
void vr_space_join_pieces(struct vr_space *space, struct vr_piece *first, struct vr_piece *second);

/* ------------------------------------------------------------- statistics */

struct vr_space_stats {
    uint64_t reserved_bytes; /* physical memory: mapped, spare and lost, not what is asleep */
    uint64_t peak_reserved_bytes;
    uint64_t out_bytes;          /* in allocated blocks: live, or in caches */
    uint64_t peak_need_bytes;    /* highest out_bytes - idle_bytes of a request */
    uint64_t hole_bytes;         /* mapped and free */
    uint64_t largest_hole_bytes; /* largest mapped free run under one stamp */
    uint64_t pending_bytes;      /* of hole_bytes, under stamps not known to have passed */
    uint64_t spare_bytes;        /* created, mapped nowhere */
    uint64_t lost_bytes;         /* neither usable nor releasable after a failed step */
    uint64_t address_bytes;      /* reserved: all ranges */
    uint64_t largest_void_bytes; /* longest run of reserved addresses with nothing mapped */
    uint64_t blocks, holes, pieces, spares, lost, stale_mappings;
    uint64_t moved_pieces, moved_bytes, move_ns; /* since the space was created */
    uint64_t metadata_bytes;                     /* host memory of the bookkeeping */
};

uint64_t vr_space_reserved(const struct vr_space *space);
void vr_space_stats_get(struct vr_space *space, struct vr_space_stats *stats);

/* A hash of the present layout: equal layouts have equal hashes. O(n). */
uint64_t vr_space_hash(const struct vr_space *space);

/* Checks every invariant; false with the first violation in `text`. O(n), for tests. Debug builds
   run it at intervals: see VR_SPACE_CHECKS in span.h. */
bool vr_space_check(const struct vr_space *space, char *text, size_t text_bytes);

#endif
