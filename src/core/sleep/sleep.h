/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep.h: memory that is released while its addresses stay reserved, and memory that is sealed: it
 * no longer changes, so that its contents are copied to the host only once.
 *
 * A sleep state stands for one piece that is asleep. The blocks over the piece stay as they are;
 * its holes become claims, so that no allocation finds them:
 *
 *     awake    | BLOCK | HOLE  | BLOCK |     piece: mapped, with a driver handle
 *     asleep   | BLOCK | CLAIM | BLOCK |     piece->sleep_state: not mapped, released, contents
 *                                            in sleep_state->host or dropped
 *
 *  (1) A piece with a sleep state does not count as memory: vr_space_covers returns false for it.
 *  (2) A block over such a piece is `asleep`: if it is freed, it waits in `deferred` until all of
 *      its pieces are awake, or until the next wake begins, which makes claims of it (7). It is in
 *      no thread cache and not in the central cache.
 *  (3) One thread at a time changes sleep states: the one that set `changing`. It makes its driver
 *      calls without the lock.
 *  (4) Whatever fails, each piece is awake with its contents, or has a sleep state that records
 *      what is left of it.
 *  (5) A seal is a sleep state whose piece is in use, and the owner of the contents on the host.
 *      The piece is read-only where the driver can do that, its holes stay claims, and a block over
 *      it is `sealed`: if it is freed, it is deferred like one that is asleep. So the host has what
 *      the piece has. If the piece falls asleep, it gets a second sleep state, which borrows the
 *      contents: its `store` is NULL.
 *  (6) A piece under an exported block stays awake: other processes have it mapped. Sleep keeps
 *      such pieces, with whatever else lies on them, and takes the others. Other pins refuse it.
 *  (7) A wake asks for the memory of live blocks alone, and of holes that belong to a captured
 *      region: a released piece under none ends where it is, and its addresses become a void.
 */
#ifndef VR_SLEEP_H
#define VR_SLEEP_H

#include "core/space/space.h"
#include "device/objects.h"
#include "vram/pool.h"

struct vr_pool;

struct vr_sleep_state {
    struct vr_sleep_state *next; /* in the pool's list */
    struct vr_space *space;      /* of the piece */
    struct vr_piece *piece;
    const struct vr_tag *tag; /* of the blocks over it */
    bool mixed;               /* they have several tags */
    uint64_t from, to;        /* from the first block over it to the end of the last; equal: none */
    uint64_t cover_from, cover_to; /* the one live block over it, when it wakes; 0: there is none */
    uint64_t hidden_bytes;         /* in holes over it, which have become claims */
    char *host;                    /* contents of [from, to); NULL: dropped */
    struct vr_sleep_store *store;  /* that `host` lies in; NULL: none, or borrowed: (5) */
    bool emptied;                  /* the piece was released: only `host` has the contents */
    bool mapped;                   /* still, or again */
    bool read_only;                /* made so by the change in progress */
    bool changing;                 /* part of the change in progress */
    bool created;                  /* by the change in progress */
    bool fresh;                    /* mapped by the change in progress */
};

/* Of a pool; under its lock. */
struct vr_sleep {
    bool changing;                       /* see (3) */
    bool whole;                          /* the whole pool is asleep and allocates nothing */
    struct vr_sleep_state *sleep_states; /* all */
    struct vr_sleep_state *seals;        /* all, see (5) */
    struct vr_sleep_store *locked;       /* freed, but the driver refused to unlock their pages */
};

/* Whether a block's tag is `tag` or below it: "a/b" is below "a". */
bool vr_sleep_tag_covers(const char *tag, const char *of_block);

/* The next eight are called under the pool's lock. */

/* Creates a sleep state for each piece that lies only under holes and blocks of the tag (NULL: for
   every piece), in front of *sleep_states. With `seal`, only live blocks count, and the piece lies
   under at least one and is not sealed yet. *seen: there is such a block, asleep or not.
   VRAM_ERR_BUSY: one is pinned. On failure nothing has changed. */
vram_status vr_sleep_pick(struct vr_space *space, const char *tag, bool seal,
                          struct vr_sleep_state **sleep_states, bool *seen);

/* Creates a sleep state for each piece that is listed to be rebuilt (rebuild.h). On failure nothing
   has changed. */
vram_status vr_sleep_pick_rebuilds(struct vr_space *space, struct vr_sleep_state **sleep_states);

/* The next two keep (7). Makes claims of an owned block that is asleep, and holes of what lies on
   memory that is neither asleep nor sealed. Needs as many records as vr_sleep_pieces says. */
uint32_t vr_sleep_pieces(const struct vr_space *space, const struct vr_block *block);
void vr_sleep_hide_block(struct vr_space *space, struct vr_block *block);

/* Moves the sleep states and seals of released pieces under no block to *ended, for the caller to
   free; the pieces end. Not those under a hole whose stamp the pool keeps. */
typedef bool vr_sleep_keeps_fn(struct vr_pool *pool, struct vr_stamp stamp);
void vr_sleep_drop_unused(struct vr_space *space, struct vr_pool *pool, vr_sleep_keeps_fn *keeps,
                          struct vr_sleep *sleep, struct vr_sleep_state **ended);

/* Marks as `changing` the sleep states of the space under blocks of the tag (NULL: all). */
void vr_sleep_mark(struct vr_space *space, const char *tag);

/* Of states that are changing, by address: joins pieces that are released and adjacent, because a
   driver takes its time for each piece, not for each byte. Those are sealed pieces under blocks of
   one tag, whose contents follow each other on the host, which do not move and sleep together; and
   pieces without contents under one block. */
void vr_sleep_join(struct vr_sleep *sleep, struct vr_sleep_state **sleep_states, uint32_t *count);

/* Marks as `changing` the seals of the space under blocks of the tag (NULL: all). */
void vr_sleep_mark_seals(struct vr_space *space, const char *tag);

/* Updates whether the blocks of the space are asleep and sealed. */
void vr_sleep_note_blocks(struct vr_space *space);

/* Whether a piece under [addr, addr + bytes) is sealed, or asleep. */
bool vr_sleep_rests(const struct vr_space *space, enum vr_rest how, uint64_t addr, uint64_t bytes);

/* Ends the sleep states that are changing and whose pieces exist and are mapped: their blocks and
   holes are as before, except for what is sealed: (5). Moves them from *sleep_states to *ended, for
   the caller to free. */
void vr_sleep_end(struct vr_space *space, struct vr_sleep_state **sleep_states,
                  struct vr_sleep_state **ended);

/* Records that the piece was released to the driver, or created again. */
void vr_sleep_set_released(struct vr_sleep_state *sleep_state, bool released);

/* ------------------------------------------------------------------ a change */

struct vr_pool;
struct vr_device_object;

enum vr_sleep_kind {
    VR_SLEEP_FALL,
    VR_SLEEP_WAKE,
    VR_SLEEP_SEAL,
    VR_SLEEP_UNSEAL,
    VR_SLEEP_REBUILD
};

/* One change in progress. */
struct vr_sleep_change {
    struct vr_pool *pool;
    enum vr_sleep_kind kind;
    const char *tag;
    vram_sleep_contents contents;
    struct vr_sleep_state **sleep_states; /* those that are changing, by address */
    uint32_t count;
    uint64_t bytes;               /* of their pieces */
    uint64_t deadline;            /* of all but waking and unsealing */
    struct vr_sleep_state *ended; /* by (7) */
    bool woken; /* a wake that succeeded: a pool without blocks has nothing else that says so */
};

/* Frees states that ended, and their host memory. Not under the lock. */
void vr_sleep_states_free(struct vr_pool *pool, struct vr_sleep_state *first);
/* To be called after a change of pool->sleep: updates whether threads may cache blocks, and whether
   addresses must be checked before use. Under the lock. */
void vr_sleep_note(struct vr_pool *pool);
/* Counts what is asleep and sealed. Under the lock. */
void vr_sleep_note_bytes(struct vr_pool *pool);
/* Lists the sleep states that are changing. Under the lock. */
vram_status vr_sleep_change_gather(struct vr_sleep_change *change);
/* Changes go part by part: the end of the part of the states that begins at `first`. */
uint32_t vr_sleep_part_end(const struct vr_sleep_change *change, uint32_t first);
/* Ends the change, successful or not; `whole`: the pool allocates nothing from now on. This and all
   calls below: without the lock. */
void vr_sleep_change_end(struct vr_sleep_change *change, bool whole);
/* Logs a change that has succeeded, before it ends. */
void vr_sleep_change_log(const struct vr_sleep_change *change);
/* One driver call for a piece. */
vram_status vr_sleep_change_step(struct vr_pool *pool, const struct vr_sleep_state *sleep_state,
                                 enum vr_step_kind kind);
/* Releases an unmapped piece. */
vram_status vr_sleep_change_release(const struct vr_sleep_change *change,
                                    struct vr_sleep_state *sleep_state);
/* Makes one run of mapped pieces, [from, to), accessible. */
vram_status vr_sleep_change_access(const struct vr_sleep_change *change, uint32_t from,
                                   uint32_t to);

/* The end of the run of adjacent sealed pieces that begins at `from`; `from`: there is none. */
uint32_t vr_sleep_change_sealed_run(const struct vr_sleep_change *change, uint32_t from,
                                    uint32_t to);
/* Makes one such run, [from, to), read-only, or writable again. */
vram_status vr_sleep_change_protect(const struct vr_sleep_change *change, uint32_t from,
                                    uint32_t to, bool read_only);
/* Makes the sealed pieces of the states [first, last) read-only that are not, one by one: a driver
   takes its time for each piece, and others can use it in between. False: it refused one. */
bool vr_sleep_protect_part(const struct vr_sleep_change *change, uint32_t first, uint32_t last);
/* The same for all states. Logged if the driver refuses. */
void vr_sleep_protect(const struct vr_sleep_change *change);

/* Reports a byte of sealed memory that was written; returns VRAM_ERR_CORRUPT. */
vram_status vr_sleep_seal_broken(const struct vr_sleep_change *change, vram_addr addr,
                                 uint8_t sealed, uint8_t found);

/* --------- what falling asleep, sealing and rebuilding share; sleep.c has the steps */

/* What is done with the states [first, last) when they have been copied, beside other copies. A
   failure stops these. */
typedef vram_status vr_sleep_part_fn(const struct vr_sleep_change *change, uint32_t first,
                                     uint32_t last);

/* Whether memory of the pool can sleep and be sealed; NULL: no tag. */
vram_status vr_sleep_check(const struct vr_pool *pool, const char *tag);
/* The same for all options of a sleep. */
vram_status vr_sleep_options_check(const struct vr_pool *pool,
                                   const struct vram_sleep_options *options);
/* vram_pool_sleep for a pool that was entered. No lock held. */
vram_status vr_pool_sleep(struct vr_pool *pool, const struct vram_sleep_options *options);
/* Step 1. If it fails, nothing has changed; else vr_sleep_change_end ends the change. */
vram_status vr_sleep_change_begin(const struct vr_sleep_change *change);
/* Step 2. */
vram_status vr_sleep_change_settle(const struct vr_sleep_change *change);
/* Steps 2 to 4. */
vram_status vr_sleep_change_pick(struct vr_sleep_change *change);
/* Waits for all queues of the device, up to the change's deadline: any may use the memory, even one
   unknown to the pool. */
vram_status vr_sleep_wait_for_work(const struct vr_sleep_change *change);
/* Whether graphs were captured that may use memory of the device. */
bool vr_sleep_has_graphs(struct vr_device_object *device);
/* Maps an unmapped piece again, with two tries. If that is refused it stays asleep. */
void vr_sleep_change_map_again(const struct vr_sleep_change *change, uint32_t at);
/* Step 5; `copied`: see vr_sleep_copies_begin. */
vram_status vr_sleep_change_keep(const struct vr_sleep_change *change, vr_sleep_part_fn *copied);

/* ------------------------------------------------------ rebuilding; sleep_rebuild.c */

/* What vram_pool_rebuild does; `result` is written whatever the status. No lock held. */
vram_status vr_pool_rebuild(struct vr_pool *pool, uint64_t bytes,
                            struct vram_rebuild_result *result);

/* -------------------------------------------------- host memory; sleep_store.c */

/* Host memory in large pages. */
vram_status vr_sleep_store_make(uint64_t bytes, struct vr_sleep_store **out);
char *vr_sleep_store_pages(const struct vr_sleep_store *store);
/* Page-locks it. */
vram_status vr_sleep_store_lock(const struct vr_pool *pool, struct vr_sleep_store *store);
/* Frees it, or leaves it to vr_sleep_stores_forget if the driver refuses to unlock it. Not under
   the lock. */
void vr_sleep_store_end(struct vr_pool *pool, struct vr_sleep_store *store);
/* At the destruction of a pool. */
void vr_sleep_stores_forget(struct vr_pool *pool);

/* The contents of two states that follow each other in it have become those of one. */
void vr_sleep_store_join(struct vr_sleep_store *store);

/* Finds a place for all contents of a change. VRAM_ERR_HOST_MEMORY; nothing has changed then but
   what vr_sleep_state_free_host undoes. */
vram_status vr_sleep_store_open(const struct vr_sleep_change *change);
/* Page-locks these places. */
vram_status vr_sleep_stores_lock(const struct vr_sleep_change *change);
/* Gives a place back, in two steps, the first for all states that end together: what the second one
   gives to the system depends on what is kept after them. */
void vr_sleep_state_wake_host(struct vr_pool *pool, struct vr_sleep_state *sleep_state);
void vr_sleep_state_free_host(struct vr_pool *pool, struct vr_sleep_state *sleep_state);

/* -------------------------------------------------------- copies; sleep_copy.c */

/* Copies of all contents of a change, by several threads. */
struct vr_sleep_copies;

enum vr_sleep_copy_kind {
    VR_SLEEP_OUT,  /* contents that are not sealed, to the host */
    VR_SLEEP_IN,   /* contents that only the host has, to the device */
    VR_SLEEP_CHECK /* compares sealed contents: VRAM_ERR_CORRUPT if they differ */
};

/* Starts copies; NULL in *copies: there is nothing to copy. `copied` is called for parts in which
   something was copied; NULL: nothing is. */
vram_status vr_sleep_copies_begin(const struct vr_sleep_change *change,
                                  enum vr_sleep_copy_kind kind, vr_sleep_part_fn *copied,
                                  struct vr_sleep_copies **copies);
/* The memory of the first `count` states may be used from now on. NULL is allowed. */
void vr_sleep_copies_allow(struct vr_sleep_copies *copies, uint32_t count);
/* Helps until all is copied, or, if `status` is a failure, stops; then ends the threads, and frees
   `copies`. Returns `status`, or the failure of a copy. *safe: no copy is still running, whatever
   the status. NULL is allowed. */
vram_status vr_sleep_copies_end(struct vr_sleep_copies *copies, vram_status status, bool *safe);

/* With the mode poison, compares the sealed memory of a change with its contents on the host.
   VRAM_ERR_CORRUPT: something has written to it. That it could not be compared is only logged. */
vram_status vr_sleep_seals_verify(const struct vr_sleep_change *change);

/* At the destruction of a pool: frees all sleep states and seals, and their host memory. Pieces
   that are asleep but not released are released with all others; sleep_change.c. */
void vr_pool_forget_sleep(struct vr_pool *pool);

#endif
