/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_turn.c: one change of a pool's sleep, from its start to its end: which naps take part, and
 * the driver's calls that falling asleep and waking share.
 */
#include "core/backing/backing.h"
#include "core/cache/drain.h"

#include "base/error.h"
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

static int by_address(const void *a, const void *b) {
    const struct vr_nap *first = *(struct vr_nap *const *)a, *second = *(struct vr_nap *const *)b;
    return (first->piece->addr > second->piece->addr) - (first->piece->addr < second->piece->addr);
}

/* Lists the naps that are turning. Under the lock. */
vram_status vr_turn_gather(struct vr_turn *turn) {
    assert(vr_pool_is_locked(turn->pool));
    uint32_t count = 0;
    for (struct vr_nap *nap = turn->pool->sleep.naps; nap; nap = nap->next) {
        count += nap->turning;
    }
    turn->naps = vr_mem_alloc(count + 1, sizeof(struct vr_nap *), vr_operation());
    if (!turn->naps) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (struct vr_nap *nap = turn->pool->sleep.naps; nap; nap = nap->next) {
        if (nap->turning) {
            turn->naps[turn->count++] = nap;
        }
    }
    qsort(turn->naps, turn->count, sizeof(struct vr_nap *), by_address);
    return VRAM_OK;
}

void vr_sleep_note(struct vr_pool *pool) {
    uint32_t others = vr_load(&pool->uncached, VR_RELAXED) &
                      ~(uint32_t)(VR_UNCACHED_TURNING | VR_UNCACHED_ASLEEP);
    uint32_t turning = pool->sleep.turning ? VR_UNCACHED_TURNING : 0;
    uint32_t asleep = pool->sleep.whole ? VR_UNCACHED_ASLEEP : 0;
    vr_store(&pool->uncached, others | turning | asleep, VR_SEQ_CST);
    vr_addresses_note_sleep(pool, turning || asleep || pool->sleep.naps);
}

/* Ends the naps of what is awake again and hands them to the caller. Under the lock. */
static struct vr_nap *rouse(struct vr_pool *pool) {
    struct vr_nap *ended = NULL;
    uint64_t asleep = 0;
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_sleep_rouse(pool->spaces[part], &pool->sleep.naps, &ended);
    }
    for (struct vr_nap *nap = pool->sleep.naps; nap; nap = nap->next) {
        nap->turning = false;
        asleep += nap->piece->bytes;
    }
    vr_store(&pool->tally.asleep_bytes, asleep, VR_RELAXED);
    return ended;
}

/* The change is over, whatever came of it; `whole`: the pool hands nothing out from now on. No lock
   held. */
void vr_turn_end(struct vr_turn *turn, bool whole) {
    struct vr_pool *pool = turn->pool;
    struct vram_error error;
    vr_error_save(&error);
    vr_mutex_lock(&pool->lock);
    assert(pool->sleep.turning); /* ours since the change began: sleep.h (3) */
    struct vr_nap *ended = rouse(pool);
    pool->sleep.whole = whole && !(turn->waking && !pool->sleep.naps);
    pool->sleep.turning = false;
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_space_rest(pool->spaces[part], pool->sleep.whole);
    }
    vr_pool_settle(pool);
    vr_sleep_note(pool);
    vr_pool_note_peak(pool);
    vr_mutex_unlock(&pool->lock);
    while (ended) {
        struct vr_nap *nap = ended;
        ended = nap->next;
        vr_nap_free_host(pool, nap);
        vr_mem_free(nap);
    }
    vr_mem_free(turn->naps);
    vr_error_restore(&error);
}

vram_status vr_turn_step(struct vr_pool *pool, const struct vr_nap *nap, enum vr_step_kind kind) {
    struct vr_step one = {
        .kind = kind, .piece = nap->piece, .addr = nap->piece->addr, .bytes = nap->piece->bytes};
    return vr_pool_step(pool, &one);
}

/* Makes one run of mapped pieces, [from, to), accessible. */
vram_status vr_turn_access(const struct vr_turn *turn, uint32_t from, uint32_t to) {
    const struct vr_piece *first = turn->naps[from]->piece, *last = turn->naps[to - 1]->piece;
    struct vr_step access = {.kind = VR_STEP_ACCESS,
                             .handles = to - from,
                             .addr = first->addr,
                             .bytes = last->addr + last->bytes - first->addr};
    return vr_pool_step(turn->pool, &access);
}

vram_status vr_turn_release(const struct vr_turn *turn, struct vr_nap *nap) {
    vram_status status = vr_turn_step(turn->pool, nap, VR_STEP_RELEASE);
    if (status == VRAM_OK) {
        vr_mutex_lock(&turn->pool->lock);
        vr_sleep_gone(nap, true);
        vr_mutex_unlock(&turn->pool->lock);
    }
    return status;
}

void vr_pool_forget_sleep(struct vr_pool *pool) {
    while (pool->sleep.naps) {
        struct vr_nap *nap = pool->sleep.naps;
        pool->sleep.naps = nap->next;
        vr_nap_free_host(pool, nap);
        vr_mem_free(nap);
    }
}
