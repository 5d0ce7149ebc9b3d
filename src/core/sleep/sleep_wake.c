/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_wake.c: pools wake. Handles are made, all of them, mapped, made accessible, and filled;
 * whatever fails, all of that is taken back. The contents on the host go when all is done.
 */
#include "core/ladder/handler.h"
#include "core/ladder/report.h"
#include "core/limit/budget.h"
#include "core/object/request.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/status.h"

#include <assert.h>

/* Marks what is to wake. Under the lock. */
static vram_status call(struct vr_turn *turn) {
    struct vr_pool *pool = turn->pool;
    assert(vr_pool_is_locked(pool));
    if (pool->sleep.turning) {
        return vr_fail(VRAM_ERR_BUSY, "another thread is putting the pool to sleep or waking it");
    }
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_sleep_call(pool->spaces[part], turn->tag);
    }
    vram_status status = vr_turn_gather(turn);
    if (status == VRAM_OK && !turn->count && (turn->tag || !pool->sleep.whole)) {
        vr_mem_free(turn->naps);
        status = turn->tag
                     ? vr_fail(VRAM_ERR_INVALID, "nothing tagged \"%s\" is asleep", turn->tag)
                     : vr_fail(VRAM_ERR_INVALID, "nothing of pool \"%s\" is asleep", pool->name);
    }
    if (status != VRAM_OK) {
        for (struct vr_nap *nap = pool->sleep.naps; nap; nap = nap->next) {
            nap->turning = false;
        }
        return status;
    }
    pool->sleep.turning = true;
    vr_sleep_note(pool);
    return VRAM_OK;
}

/* Gives back what this change has taken from the driver. */
static void release_fresh(const struct vr_turn *turn) {
    for (uint32_t i = 0; i < turn->count; i++) {
        struct vr_nap *nap = turn->naps[i];
        if (nap->made && !nap->mapped) {
            (void)(vr_turn_release(turn, nap) == VRAM_OK || vr_turn_release(turn, nap) == VRAM_OK);
        }
        nap->made = false;
    }
}

/* A piece on its way back. */
struct piece {
    const struct vr_turn *turn;
    const struct vr_nap *nap;
};

static vram_status create(struct vr_climb *climb) {
    const struct piece *piece = climb->subject;
    vr_budget_refresh(climb->pool, false);
    return vr_turn_step(piece->turn->pool, piece->nap, VR_STEP_CREATE);
}

/* What pieces from `at` on lack. */
static uint64_t missing_from(const struct vr_turn *turn, uint32_t at) {
    uint64_t bytes = 0;
    for (; at < turn->count; at++) {
        bytes += turn->naps[at]->piece->gone ? turn->naps[at]->piece->bytes : 0;
    }
    return bytes;
}

/* When memory is short it climbs the ladder, for all that is still missing. */
static vram_status create_one(const struct vr_turn *turn, uint32_t at) {
    struct vr_pool *pool = turn->pool;
    struct piece piece = {turn, turn->naps[at]};
    struct vr_climb climb;
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_turn_step(pool, piece.nap, VR_STEP_CREATE);
    if (!vr_status_is_short(status)) {
        return status;
    }
    uint64_t bytes = missing_from(turn, at);
    struct vr_request request = {.size = bytes, .bytes = bytes};
    vr_climb_begin_for(&climb, VR_FOR_WAKE, pool, &request, status, create, &piece);
    status = vr_climb_run(&climb);
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    } else if (vr_status_is_exhausted(status)) {
        vr_report_write(pool, &request, status, &climb);
    }
    return status;
}

static vram_status create_all(const struct vr_turn *turn) {
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < turn->count && status == VRAM_OK; i++) {
        struct vr_nap *nap = turn->naps[i];
        if (!nap->piece->gone) {
            continue;
        }
        assert(nap->turning && !nap->mapped); /* what is gone is mapped nowhere */
        status = create_one(turn, i);
        if (status == VRAM_OK) {
            nap->made = true;
            vr_mutex_lock(&turn->pool->lock);
            vr_sleep_gone(nap, false);
            vr_mutex_unlock(&turn->pool->lock);
        }
    }
    return status;
}

/* Maps what is not mapped, and makes it accessible, one run after the other. */
static vram_status map_all(const struct vr_turn *turn) {
    vram_status status = VRAM_OK;
    for (uint32_t from = 0, to = 0; from < turn->count && status == VRAM_OK; from = to) {
        uint64_t end = turn->naps[from]->piece->addr;
        while (to < turn->count && turn->naps[to]->piece->addr == end && status == VRAM_OK) {
            struct vr_nap *nap = turn->naps[to++];
            end += nap->piece->bytes;
            status = nap->mapped ? VRAM_OK : vr_turn_step(turn->pool, nap, VR_STEP_MAP);
            nap->fresh = !nap->mapped && status == VRAM_OK;
            nap->mapped = nap->mapped || nap->fresh;
        }
        if (status == VRAM_OK) {
            status = vr_turn_access(turn, from, to);
        }
    }
    return status;
}

/* Unmaps what this change has mapped, or tries to: what the driver keeps mapped is the nap's to
   know. */
static void unmap_fresh(const struct vr_turn *turn) {
    for (uint32_t i = 0; i < turn->count; i++) {
        struct vr_nap *nap = turn->naps[i];
        if (nap->fresh && (vr_turn_step(turn->pool, nap, VR_STEP_UNMAP) == VRAM_OK ||
                           vr_turn_step(turn->pool, nap, VR_STEP_UNMAP) == VRAM_OK)) {
            nap->mapped = false;
        }
        nap->fresh = false;
    }
}

static vram_status wake_up(const struct vr_turn *turn) {
    bool safe = true;
    vram_status status = create_all(turn);
    if (status == VRAM_OK) {
        status = map_all(turn);
    }
    if (status == VRAM_OK) {
        status = vr_turn_copy(turn, false, &safe);
    }
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        if (safe) { /* else a copy may still write there: it all stays until the next time */
            unmap_fresh(turn);
            release_fresh(turn);
        }
        vr_error_restore(&error);
    }
    for (uint32_t i = 0; i < turn->count; i++) {
        turn->naps[i]->fresh = turn->naps[i]->made = false;
        turn->naps[i]->turning = status == VRAM_OK;
    }
    return status;
}

/* Whether the error handler, asked after a failure, wants it tried once more. */
static bool is_retried(const struct vr_turn *turn, uint64_t bytes, vram_status *status,
                       uint32_t retries) {
    struct vr_pool *pool = turn->pool;
    struct vr_request request = {.size = bytes, .bytes = bytes};
    if (vr_handler_ask(pool, &request, *status, retries) != VRAM_ERROR_RETRY) {
        return false;
    }
    if (vr_handle_was(VR_KIND_POOL, (const void *)(uintptr_t)pool->object.handle)) {
        *status = vr_fail(VRAM_ERR_STALE, "the pool was destroyed by the error handler");
        return false;
    }
    for (uint32_t i = 0; i < turn->count; i++) {
        turn->naps[i]->turning = true;
    }
    return true;
}

static vram_status wake_with_handler(const struct vr_turn *turn) {
    uint64_t bytes = missing_from(turn, 0);
    uint32_t retries = 0;
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = wake_up(turn);
    while (status != VRAM_OK && is_retried(turn, bytes, &status, retries++)) {
        status = wake_up(turn);
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
    struct vr_turn turn = {.pool = pool, .tag = tag, .waking = true};
    vr_mutex_lock(&pool->lock);
    status = call(&turn);
    vr_mutex_unlock(&pool->lock);
    if (status == VRAM_OK) {
        status = wake_with_handler(&turn);
        if (status == VRAM_OK) {
            vr_tally(&pool->tally.wakes, 1);
        }
        vr_turn_end(&turn, pool->sleep.whole);
    }
    vr_leave(pool);
    return status;
}
