/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_wake.c: wakes pools. All handles are created, mapped, made accessible, and filled with
 * their contents; on a failure all of that is undone. The contents on the host are freed last.
 *
 * That is done part by part: one part is filled while the next is created, and sealed pieces of a
 * part are made read-only as soon as it is filled. What a piece costs the driver is the same in one
 * call for many as in calls for each, so only doing it beside the copies saves time.
 */
#include "core/cache/drain.h"
#include "core/cache/stamp.h"
#include "core/ladder/handler.h"
#include "core/ladder/report.h"
#include "core/limit/budget.h"
#include "core/object/request.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/limit/tag.h"
#include "core/space/span.h"

#include <assert.h>

/* Whether the block can become claims over memory that sleeps. */
static bool can_hide(const struct vr_block *block, const char *tag) {
    const char *name = vr_tag_name(vr_load(&block->tag, VR_RELAXED));
    return block->asleep && !block->pins && !block->growing && !block->stateless &&
           (!tag || vr_sleep_tag_covers(tag, name));
}

/* Makes claims of the blocks of the tag (NULL: all) in `deferred` that are asleep. *any: there was
   one. */
static vram_status hide_freed(struct vr_pool *pool, const char *tag, bool *any) {
    assert(vr_pool_is_locked(pool));
    for (struct vr_block **at = &pool->deferred; *at;) {
        struct vr_block *block = *at;
        struct vr_space *space = pool->spaces[block->part];
        if (!can_hide(block, tag)) {
            at = &block->next;
            continue;
        }
        if (vr_span_stock(space, vr_sleep_pieces(space, block)) != VRAM_OK) {
            return VRAM_ERR_HOST_MEMORY;
        }
        *at = block->next;
        block->asleep = block->sealed = false;
        vr_block_note_held(block);
        vr_pool_leave_books(pool, block, block->freed);
        vr_sleep_hide_block(space, block);
        *any = true;
    }
    return VRAM_OK;
}

/* Whether memory was freed in a captured region, whose graphs run again once the pool is awake. */
static bool is_of_region(struct vr_pool *pool, struct vr_stamp stamp) {
    const struct vr_queue_state *state =
        vr_queue_state_find(&pool->queue_states, vr_pool_stamp_from_space(pool, stamp).queue);
    return state && vr_load(&state->queue->captured, VR_ACQUIRE);
}

/* Frees the blocks of the tag that the program has freed, and ends what then is under no block:
   keeps sleep.h (7). *any: there was something of the tag. Under the lock. */
static vram_status end_unused(struct vr_sleep_change *change, bool *any) {
    struct vr_pool *pool = change->pool;
    vram_status status = hide_freed(pool, change->tag, any);
    for (int part = 0; part < VR_PART_COUNT && status == VRAM_OK; part++) {
        vr_sleep_drop_unused(pool->spaces[part], pool, is_of_region, &pool->sleep, &change->ended);
    }
    vr_sleep_note_bytes(pool);
    *any = *any || (change->ended && !change->tag); /* what ends otherwise is of no tag */
    return status;
}

/* Marks the sleep states that wake, and sets `changing`. Under the lock. */
static vram_status wake_begin(struct vr_sleep_change *change) {
    struct vr_pool *pool = change->pool;
    assert(vr_pool_is_locked(pool));
    if (pool->sleep.changing) {
        return vr_fail(VRAM_ERR_BUSY, "another thread is changing the pool's sleep or seals");
    }
    bool any = false;
    vram_status status = end_unused(change, &any);
    for (int part = 0; part < VR_PART_COUNT && status == VRAM_OK; part++) {
        vr_sleep_mark(pool->spaces[part], change->tag);
    }
    if (status == VRAM_OK) {
        status = vr_sleep_change_gather(change);
    }
    if (status == VRAM_OK && !change->count && !any && (change->tag || !pool->sleep.whole)) {
        vr_mem_free(change->sleep_states);
        status = change->tag
                     ? vr_fail(VRAM_ERR_INVALID, "nothing tagged \"%s\" is asleep", change->tag)
                     : vr_fail(VRAM_ERR_INVALID, "nothing of pool \"%s\" is asleep", pool->name);
    }
    if (status != VRAM_OK) {
        for (struct vr_sleep_state *sleep_state = pool->sleep.sleep_states; sleep_state;
             sleep_state = sleep_state->next) {
            sleep_state->changing = false;
        }
        return status;
    }
    vr_sleep_join(&pool->sleep, change->sleep_states, &change->count);
    pool->sleep.changing = true;
    vr_sleep_note(pool);
    return VRAM_OK;
}

/* Releases what this change has created. */
static void release_fresh(const struct vr_sleep_change *change) {
    for (uint32_t i = 0; i < change->count; i++) {
        struct vr_sleep_state *sleep_state = change->sleep_states[i];
        if (sleep_state->created && !sleep_state->mapped) {
            (void)(vr_sleep_change_release(change, sleep_state) == VRAM_OK ||
                   vr_sleep_change_release(change, sleep_state) == VRAM_OK);
        }
        sleep_state->created = false;
    }
}

/* A piece to be created again. */
struct wake_piece {
    const struct vr_sleep_change *change;
    const struct vr_sleep_state *sleep_state;
    uint64_t all; /* bytes that the grant of a lease must have for it */
};

static vram_status create_now(const struct wake_piece *piece) {
    vram_status status = vr_budget_check_lease(piece->change->pool, piece->all);
    return status == VRAM_OK
               ? vr_sleep_change_step(piece->change->pool, piece->sleep_state, VR_STEP_CREATE)
               : status;
}

static vram_status create_piece(struct vr_ladder_run *run) {
    vr_budget_refresh(run->pool, false);
    return create_now(run->subject);
}

/* Bytes still to be created for the pieces from `at` on. */
static uint64_t missing_from(const struct vr_sleep_change *change, uint32_t at) {
    uint64_t bytes = 0;
    for (; at < change->count; at++) {
        bytes +=
            change->sleep_states[at]->piece->released ? change->sleep_states[at]->piece->bytes : 0;
    }
    return bytes;
}

/* Creates one piece. If memory is short, runs the ladder for all bytes that are still missing.
   Under a lease, nothing is created before all of it is granted: a process that waits for others
   would keep what it has created from them. */
static vram_status create_one(const struct vr_sleep_change *change, uint32_t at, bool first,
                              struct vr_lease_hold *hold) {
    struct vr_pool *pool = change->pool;
    struct wake_piece piece = {change, change->sleep_states[at],
                               first ? missing_from(change, at) : 0};
    struct vr_ladder_run run;
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = create_now(&piece);
    if (!vr_status_is_short(status)) {
        return status;
    }
    uint64_t bytes = missing_from(change, at);
    struct vr_request request = {.size = bytes, .bytes = bytes};
    vr_ladder_begin_for(&run, VR_FOR_WAKE, pool, &request, status, create_piece, &piece);
    run.hold = hold;
    status = vr_ladder_execute(&run);
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    } else if (vr_status_is_exhausted(status)) {
        vr_report_write(pool, &request, status, &run);
    }
    return status;
}

static vram_status create_part(const struct vr_sleep_change *change, uint32_t first, uint32_t last,
                               bool *begun, struct vr_lease_hold *hold) {
    vram_status status = VRAM_OK;
    for (uint32_t i = first; i < last && status == VRAM_OK; i++) {
        struct vr_sleep_state *sleep_state = change->sleep_states[i];
        if (!sleep_state->piece->released) {
            continue;
        }
        assert(sleep_state->changing && !sleep_state->mapped); /* a released piece is unmapped */
        status = create_one(change, i, !*begun, hold);
        *begun = true;
        if (status == VRAM_OK) {
            sleep_state->created = true;
            vr_mutex_lock(&change->pool->lock);
            vr_sleep_set_released(sleep_state, false);
            vr_mutex_unlock(&change->pool->lock);
        }
    }
    return status;
}

/* Maps the pieces that are not mapped, and makes them accessible run by run. */
static vram_status map_part(const struct vr_sleep_change *change, uint32_t first, uint32_t last) {
    vram_status status = VRAM_OK;
    for (uint32_t from = first, to = first; from < last && status == VRAM_OK; from = to) {
        uint64_t end = change->sleep_states[from]->piece->addr;
        while (to < last && change->sleep_states[to]->piece->addr == end && status == VRAM_OK) {
            struct vr_sleep_state *sleep_state = change->sleep_states[to++];
            end += sleep_state->piece->bytes;
            status = sleep_state->mapped
                         ? VRAM_OK
                         : vr_sleep_change_step(change->pool, sleep_state, VR_STEP_MAP);
            sleep_state->fresh = !sleep_state->mapped && status == VRAM_OK;
            sleep_state->mapped = sleep_state->mapped || sleep_state->fresh;
        }
        if (status == VRAM_OK) {
            status = vr_sleep_change_access(change, from, to);
        }
    }
    return status;
}

/* Unmaps what this change has mapped, with two tries each. A piece that the driver keeps mapped
   stays recorded as mapped in its sleep state. */
static void unmap_fresh(const struct vr_sleep_change *change) {
    for (uint32_t i = 0; i < change->count; i++) {
        struct vr_sleep_state *sleep_state = change->sleep_states[i];
        if (sleep_state->fresh &&
            (vr_sleep_change_step(change->pool, sleep_state, VR_STEP_UNMAP) == VRAM_OK ||
             vr_sleep_change_step(change->pool, sleep_state, VR_STEP_UNMAP) == VRAM_OK)) {
            sleep_state->mapped = false;
        }
        sleep_state->fresh = false;
    }
}

/* A part has its contents. */
static vram_status protect_part(const struct vr_sleep_change *change, uint32_t first,
                                uint32_t last) {
    (void)vr_sleep_protect_part(change, first,
                                last); /* what is refused is tried again at the end */
    return VRAM_OK;
}

static vram_status wake_up(const struct vr_sleep_change *change, struct vr_lease_hold *hold) {
    struct vr_sleep_copies *copies;
    bool safe, begun = false;
    vram_status status = vr_sleep_copies_begin(change, VR_SLEEP_IN, protect_part, &copies);
    for (uint32_t first = 0, last; status == VRAM_OK && first < change->count; first = last) {
        last = vr_sleep_part_end(change, first);
        status = create_part(change, first, last, &begun, hold);
        if (status == VRAM_OK && (status = map_part(change, first, last)) == VRAM_OK) {
            vr_sleep_copies_allow(copies, last);
        }
    }
    status = vr_sleep_copies_end(copies, status, &safe);
    if (status == VRAM_OK) {
        vr_sleep_protect(change);
    } else {
        struct vram_error error;
        vr_error_save(&error);
        if (safe) { /* otherwise a copy may still write there: all stays for the next try */
            unmap_fresh(change);
            release_fresh(change);
        }
        vr_error_restore(&error);
    }
    for (uint32_t i = 0; i < change->count; i++) {
        change->sleep_states[i]->fresh = change->sleep_states[i]->created = false;
        change->sleep_states[i]->read_only = false;
        change->sleep_states[i]->changing = status == VRAM_OK;
    }
    return status;
}

/* Calls the error handler after a failure; whether it wants another try. */
static bool is_retried(const struct vr_sleep_change *change, uint64_t bytes, vram_status *status,
                       uint32_t retries) {
    struct vr_pool *pool = change->pool;
    struct vr_request request = {.size = bytes, .bytes = bytes};
    if (vr_handler_ask(pool, &request, *status, retries) != VRAM_ERROR_RETRY) {
        return false;
    }
    if (vr_handle_was(VR_KIND_POOL, (const void *)(uintptr_t)pool->object.handle)) {
        *status = vr_fail(VRAM_ERR_STALE, "the pool was destroyed by the error handler");
        return false;
    }
    for (uint32_t i = 0; i < change->count; i++) {
        change->sleep_states[i]->changing = true;
    }
    return true;
}

static vram_status wake_with_handler(const struct vr_sleep_change *change,
                                     struct vr_lease_hold *hold) {
    uint64_t bytes = missing_from(change, 0);
    uint32_t retries = 0;
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = wake_up(change, hold);
    while (status != VRAM_OK && is_retried(change, bytes, &status, retries++)) {
        vr_lease_hold_end(change->pool, hold);
        vr_lease_hold_begin(change->pool, hold);
        status = wake_up(change, hold);
    }
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

vram_status vram_pool_wake(vram_pool *handle, const char *tag) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    struct vr_sleep_change change = {.pool = pool, .kind = VR_SLEEP_WAKE, .tag = tag};
    struct vr_lease_hold hold = {.lease = NULL};
    vr_lease_hold_begin(pool, &hold);
    vr_mutex_lock(&pool->lock);
    status = wake_begin(&change);
    vr_mutex_unlock(&pool->lock);
    if (status == VRAM_OK) {
        status = wake_with_handler(&change, &hold);
        change.woken = status == VRAM_OK;
        if (change.woken) {
            vr_counter_add(&pool->counters.wakes, 1);
            vr_sleep_change_log(&change);
        }
        vr_sleep_change_end(&change, pool->sleep.whole);
    } else {
        vr_sleep_states_free(pool, change.ended);
    }
    vr_lease_hold_end(pool, &hold); /* now it can sleep again */
    vr_leave(pool);
    return status;
}
