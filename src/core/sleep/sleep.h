/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep.h: memory that is given back while its addresses stay.
 *
 * A sleep state is one piece asleep. Where it lay, its blocks stay as they are and its holes are
 * claims, so that nobody finds them:
 *
 *     awake    | BLOCK | HOLE | BLOCK |     piece: mapped, a handle of the driver's
 *     asleep   | BLOCK | CLAIM| BLOCK |     piece->sleep_state: not mapped, released, contents
 *                                            in sleep_state->host or dropped
 *
 *  (1) A piece with a sleep state is covered by nobody's claim to memory: vr_space_covers says no.
 *  (2) A block over such a piece is `asleep`: when it is freed it waits in `deferred` until all of
 *      its pieces are awake. It is in no cache and in no central cache.
 *  (3) One thread at a time changes sleep states: who has set `changing`. What it does to the
 *      driver it does without the lock.
 *  (4) Whatever fails, each piece is awake with its contents, or has a sleep state that knows what
 *      is left of it.
 */
#ifndef VR_SLEEP_H
#define VR_SLEEP_H

#include "core/space/space.h"
#include "vram/pool.h"

struct vr_sleep_state {
    struct vr_sleep_state *next; /* in the pool's list */
    struct vr_space *space;      /* whose piece it is */
    struct vr_piece *piece;
    uint64_t from, to; /* from the first block over it to the end of the last; equal: none */
    void *host;        /* contents of that; NULL: dropped */
    bool pinned;       /* where `host` comes from */
    bool mapped;       /* the driver has it mapped still, or again */
    bool changing;     /* part of the change under way, which has */
    bool made;         /* taken it from the driver, */
    bool fresh;        /* mapped it */
};

/* Of a pool; under its lock. */
struct vr_sleep {
    bool changing;                       /* see (3) */
    bool whole;                          /* nothing is handed out */
    struct vr_sleep_state *sleep_states; /* all */
};

/* Whether a block's tag is `tag` or below it: "a/b" is below "a". */
bool vr_sleep_tag_covers(const char *tag, const char *of_block);

/* All under the pool's lock. Gives every piece of the space a sleep state that lies under blocks of
   the tag and holes alone (NULL: every piece), in front of *sleep states; *seen: there is such a
   block, asleep or not. VRAM_ERR_BUSY: one is pinned. On failure nothing has changed. */
vram_status vr_sleep_pick(struct vr_space *space, const char *tag,
                          struct vr_sleep_state **sleep_states, bool *seen);

/* Marks as `changing` the sleep states of the space under blocks of the tag (NULL: all); how many
   bytes they lack. */
uint64_t vr_sleep_mark(struct vr_space *space, const char *tag);

/* Ends the sleep states that are changing, mapped and no longer gone: their blocks and holes are as
   before. They are taken out of *sleep states into *ended, for the caller to free. */
void vr_sleep_end(struct vr_space *space, struct vr_sleep_state **sleep_states,
                  struct vr_sleep_state **ended);

/* A piece was given back to the driver, or taken again. */
void vr_sleep_set_released(struct vr_sleep_state *sleep_state, bool released);

/* ------------------------------------------------------------------ a change */

struct vr_pool;

/* One change under way. */
struct vr_sleep_change {
    struct vr_pool *pool;
    const char *tag;
    vram_sleep_contents contents;
    struct vr_sleep_state **sleep_states; /* those that take part, by address */
    uint32_t count;
    bool waking;
    uint64_t deadline; /* of falling asleep */
};

/* After a change of the pool's sleep: says whether threads may keep something at hand, and whether
   addresses must be looked at before they are used. Under the lock. */
void vr_sleep_note(struct vr_pool *pool);
/* Lists the sleep states that are changing. Under the lock. */
vram_status vr_sleep_change_gather(struct vr_sleep_change *change);
/* The change is over, whatever came of it; `whole`: the pool hands nothing out from now on. No lock
   held, as below. */
void vr_sleep_change_end(struct vr_sleep_change *change, bool whole);
/* One driver call for a piece. */
vram_status vr_sleep_change_step(struct vr_pool *pool, const struct vr_sleep_state *sleep_state,
                                 enum vr_step_kind kind);
/* Gives an unmapped piece back. */
vram_status vr_sleep_change_release(const struct vr_sleep_change *change,
                                    struct vr_sleep_state *sleep_state);
/* Makes one run of mapped pieces, [from, to), accessible. */
vram_status vr_sleep_change_access(const struct vr_sleep_change *change, uint32_t from,
                                   uint32_t to);
/* Copies contents out to the host, or back in. *safe: no copy is on its way any more, whatever
   happened. */
vram_status vr_sleep_change_copy(const struct vr_sleep_change *change, bool out, bool *safe);
/* Frees what a sleep state has on the host. */
void vr_sleep_state_free_host(struct vr_pool *pool, struct vr_sleep_state *sleep_state);

/* At the end of a pool: frees kept contents. What is asleep and not gone is released with all else;
   sleep_change.c. */
void vr_pool_forget_sleep(struct vr_pool *pool);

#endif
