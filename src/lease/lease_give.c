/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_give.c: giving memory that others need, from what costs nothing to what costs most:
 *
 *     the part of the grant that is not used;  memory that lies free in pools;
 *     what the program frees in its callback;  listed pools, which sleep
 *
 * The last two only where the program allows it: at a safe point, or at any time. What is given is
 * measured: the grant is lowered to what is still held, never below the minimum.
 */
#include "lease/lease_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "core/ladder/ladder.h"
#include "core/object/walk.h"
#include "core/sleep/sleep.h"

#include <string.h>

enum {
    WORK_NS = 50000, /* the first wait for work that ends soon; each next one is twice as long, */
    WORK_DOUBLES = 9 /* so many times: 25 ms in all */
};

/* What must stay of the grant. Under the lock. */
static uint64_t grant_least(const struct vr_lease *lease) {
    return vr_larger(vr_lease_level(lease), lease->options.min_bytes);
}

/* Lowers the grant by up to `bytes`, as far as it is not used. Under the lock. */
static uint64_t grant_lower(struct vr_lease *lease, uint64_t bytes) {
    uint64_t before = lease->grant, least = grant_least(lease);
    uint64_t given = before > least ? vr_smaller(before - least, bytes) : 0;
    if (!given || lease->fd < 0) {
        return 0;
    }
    vr_lease_grant_set(lease, before - given);
    uint64_t held = vr_lease_held(lease); /* keeps (2) of lease_object.h */
    if (held > lease->grant) {
        uint64_t back = vr_smaller(held - lease->grant, given);
        given -= back;
        vr_lease_grant_set(lease, before - given);
    }
    return given;
}

/* Gives what is not used, and says how it goes on. Returns the bytes. */
static uint64_t gift_send(struct vr_lease *lease, uint64_t number, vram_lease_why why, bool final) {
    uint64_t given = 0;
    struct vr_lease_ask *ask = &lease->ask;
    vr_mutex_lock(&lease->lock);
    if (ask->number == number) {
        given = grant_lower(lease, ask->bytes);
        ask->bytes -= given;
        final = final || !ask->bytes;
        lease->counts.given_bytes += given;
        lease->reported = vr_lease_held(lease);
        uint64_t reason = (uint64_t)(ask->bytes ? why : VRAM_LEASE_GAVE);
        (void)vr_lease_tell(lease, &(struct vr_lease_message){
                                       .type = VR_LEASE_GIVE,
                                       .n = {number, given, reason, final, lease->reported}});
        if (final) {
            ask->number = 0;
        }
        vr_store(&lease->asked, !final, VR_RELAXED);
    }
    vr_mutex_unlock(&lease->lock);
    return given;
}

void vr_lease_give_unused(struct vr_lease *lease) {
    vr_mutex_lock(&lease->lock);
    uint64_t given = grant_lower(lease, UINT64_MAX);
    if (given) {
        lease->counts.given_bytes += given;
        (void)vr_lease_tell(lease, &(struct vr_lease_message){
                                       .type = VR_LEASE_GIVE,
                                       .n = {0, given, VRAM_LEASE_GAVE, 1, vr_lease_held(lease)}});
    }
    vr_mutex_unlock(&lease->lock);
}

/* What is asked is still open: how many bytes more must be freed for it. 0: none. */
static uint64_t ask_missing(struct vr_lease *lease, uint64_t number) {
    vr_mutex_lock(&lease->lock);
    uint64_t bytes = lease->ask.number == number ? lease->ask.bytes : 0;
    uint64_t held = vr_lease_held(lease), min = lease->options.min_bytes;
    uint64_t least = grant_least(lease), unused = lease->grant > least ? lease->grant - least : 0;
    vr_mutex_unlock(&lease->lock);
    uint64_t above = held > min ? held - min : 0; /* what is below the minimum stays */
    return bytes > unused ? vr_smaller(bytes - unused, above) : 0;
}

/* ------------------------------------------------------------------ the sources */

/* Whether memory of the pool is free but for work that has not ended. */
static bool pool_is_pending(struct vr_pool *pool) {
    struct vr_space_stats stats;
    vr_mutex_lock(&pool->lock);
    bool pending = pool->deferred;
    for (int part = 0; part < VR_PART_COUNT && !pending; part++) {
        vr_space_stats_get(pool->spaces[part], &stats);
        pending = stats.pending_bytes;
    }
    vr_mutex_unlock(&pool->lock);
    return pending;
}

/* Releases what lies free in pools; returns whether more is about to be free. */
static bool pools_release(struct vr_lease *lease, uint64_t number) {
    struct vr_walk walk = {.context = lease->device->context,
                           .account = lease->device->slot->account};
    struct vr_pool *pool;
    uint64_t missing;
    bool pending = false;
    while ((missing = ask_missing(lease, number)) && (pool = vr_walk_next(&walk))) {
        if (vr_pool_is_charged(pool) && !(pool->flags & VRAM_POOL_DETERMINISTIC)) {
            (void)vr_pool_release_free(pool, missing);
            pending |= pool_is_pending(pool);
        }
        vr_leave(pool);
    }
    return pending;
}

/* The same, with a moment for work that ends soon: what was freed is free when its queue has
   completed that work. */
static void pools_trim(struct vr_lease *lease, const struct vr_lease_ask *ask) {
    for (int round = 0; pools_release(lease, ask->number) && round < WORK_DOUBLES &&
                        ask_missing(lease, ask->number) && !vr_deadline_passed(ask->deadline);
         round++) {
        vr_os_sleep((uint64_t)WORK_NS << round);
    }
}

static vram_lease_answer program_ask(struct vr_lease *lease, const struct vr_lease_ask *ask,
                                     bool at_point) {
    VR_UNCANCELLED;
    if (!lease->options.revoke) {
        return VRAM_LEASE_DONE;
    }
    struct vram_lease_event event = {.size = sizeof event,
                                     .lease = (vram_lease *)(uintptr_t)lease->object.handle,
                                     .device =
                                         (vram_device *)(uintptr_t)lease->device->object.handle,
                                     .bytes = ask_missing(lease, ask->number),
                                     .left_ns = vr_deadline_left(ask->deadline),
                                     .process = ask->process,
                                     .name = ask->name,
                                     .priority = ask->priority,
                                     .at_point = at_point};
    return lease->options.revoke(lease->options.user, &event);
}

/* The entry at `at`; false: there is none. */
static bool pool_entry(struct vr_lease *lease, uint32_t at, struct vr_lease_pool *entry) {
    vr_mutex_lock(&lease->lock);
    bool there = at < lease->pool_count;
    if (there) {
        *entry = lease->pools[at];
    }
    vr_mutex_unlock(&lease->lock);
    return there;
}

/* Puts listed pools to sleep until enough is free. What cannot sleep now is passed over. Returns
   the bytes that fell asleep. */
static uint64_t pools_sleep(struct vr_lease *lease, const struct vr_lease_ask *ask) {
    struct vr_lease_pool entry;
    uint64_t bytes = 0;
    for (uint32_t i = 0; pool_entry(lease, i, &entry) && ask_missing(lease, ask->number); i++) {
        void *entered;
        if (vr_enter(VR_KIND_POOL, (const void *)(uintptr_t)entry.pool, &entered) != VRAM_OK) {
            continue; /* destroyed */
        }
        struct vr_pool *pool = entered;
        struct vram_sleep_options options = {.size = sizeof options,
                                             .contents = entry.contents,
                                             .tag = entry.tagged ? entry.tag : NULL};
        uint64_t before = vr_load(&pool->counters.asleep_bytes, VR_RELAXED);
        if (vr_pool_sleep(pool, &options) == VRAM_OK) {
            uint64_t after = vr_load(&pool->counters.asleep_bytes, VR_RELAXED);
            bytes += after > before ? after - before : 0;
        }
        vr_leave(pool);
    }
    return bytes;
}

/* ----------------------------------------------------------------------- giving */

/* The answer is no more than for now. */
static void ask_postpone(struct vr_lease *lease, uint64_t number) {
    vr_mutex_lock(&lease->lock);
    lease->ask.later |= lease->ask.number == number;
    vr_mutex_unlock(&lease->lock);
}

/* Whether a request of this process is under way: what it takes can be given when it has ended. */
static bool requests_go_on(struct vr_lease *lease) {
    vr_mutex_lock(&lease->lock);
    bool any = vr_list_first(&lease->holds) || lease->question.answer == VR_LEASE_YES;
    vr_mutex_unlock(&lease->lock);
    return any;
}

/* What follows when the free parts do not suffice. Returns why more was not given. */
static vram_lease_why program_give(struct vr_lease *lease, const struct vr_lease_ask *ask,
                                   bool at_point, bool *final, uint64_t *asleep) {
    *final = true;
    switch (program_ask(lease, ask, at_point)) {
    case VRAM_LEASE_LATER:
        *final = false;
        ask_postpone(lease, ask->number);
        return VRAM_LEASE_NO_POINT;
    case VRAM_LEASE_REFUSE:
        return VRAM_LEASE_REFUSED;
    case VRAM_LEASE_DONE:
        break;
    }
    pools_trim(lease, ask); /* what the program has freed lies in pools */
    bool wait = requests_go_on(lease);
    *asleep = pools_sleep(lease, ask);
    *final = !wait && !requests_go_on(lease);
    return VRAM_LEASE_IN_USE;
}

static uint64_t ask_give(struct vr_lease *lease, const struct vr_lease_ask *ask, bool free_only,
                         bool at_point) {
    bool final = ask->unused_alone;
    vram_lease_why why = ask->unused_alone ? VRAM_LEASE_PRIORITY : VRAM_LEASE_NO_POINT;
    uint64_t given = 0, asleep = 0;
    if (!free_only && !ask->unused_alone && vr_deadline_passed(ask->deadline)) {
        free_only = true; /* nobody waits for it any more */
    }
    if (!ask->unused_alone) {
        pools_trim(lease, ask);
    }
    given = gift_send(lease, ask->number, why, final);
    if (!free_only && !final && ask_missing(lease, ask->number)) {
        why = program_give(lease, ask, at_point, &final, &asleep);
        given += gift_send(lease, ask->number, why, final);
    }
    /* If the question has ended nothing is given, but the program must know what sleeps. */
    return given ? given : asleep;
}

uint64_t vr_lease_give(struct vr_lease *lease, bool free_only, bool at_point) {
    struct vram_error error;
    vr_mutex_lock(&lease->lock);
    struct vr_lease_ask ask = lease->ask;
    bool due = ask.number && !ask.giving;
    lease->ask.giving |= due;
    vr_mutex_unlock(&lease->lock);
    if (!due) {
        return 0;
    }
    vr_error_save(&error);
    vr_store(&lease->giver, vr_os_thread_number(), VR_RELAXED);
    uint64_t given = ask_give(lease, &ask, free_only, at_point);
    vr_store(&lease->giver, 0, VR_RELAXED);
    vr_error_restore(&error);
    vr_mutex_lock(&lease->lock);
    lease->ask.giving = false;
    bool other = lease->ask.number && (lease->ask.at_once || lease->ask.rest);
    vr_cond_broadcast(&lease->changed);
    vr_mutex_unlock(&lease->lock);
    if (other) { /* it has come meanwhile, and the thread left it to this one */
        vr_os_event_send(lease->wake[1]);
    }
    return given;
}
