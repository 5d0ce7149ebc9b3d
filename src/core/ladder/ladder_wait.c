/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder_wait.c: waiting, for queues and for other threads; see ladder.h.
 *
 *  (1) A thread first records which pool it waits for. Then it checks whether any thread is left
 *      that does not wait. That check and the end of its wait are under one lock. So if all threads
 *      wait, exactly one finds out, and the others then wait for that one.
 *  (2) A free wakes no waiter, since a hit must cost nothing: waiters poll, at first often.
 *  (3) A thread that finds no other left tries once more: the last of the others may have freed its
 *      memory and ended since the attempt before.
 *  (4) Memory may be on its way when an attempt looks for it: a plan of another thread moves it, a
 *      free puts it into the space, or work that has just ended held it. Whether any is pending is
 *      asked later than that. So a request that would fit into what the pool has unused is not
 *      refused while plans are open or when any of these has happened since the last look. In a
 *      pool that never rests it is, after REPEATS_MOST looks.
 */
#include "core/cache/drain.h"
#include "core/cache/stamp.h"
#include "core/ladder/ladder.h"
#include "core/object/request.h"

#include "base/clock.h"
#include "base/error.h"
#include "core/cache/thread.h"

#include <assert.h>

enum {
    WAIT_NS = 50000,  /* the first wait for memory; each next one is twice as long, */
    WAIT_DOUBLES = 6, /* up to so many doublings */
    REPEATS_MOST = 64 /* see (4): about 0.2 s */
};

static uint64_t slice_of(uint32_t round) {
    return (uint64_t)WAIT_NS << (round < WAIT_DOUBLES ? round : WAIT_DOUBLES);
}

/* ------------------------------------------------------------------- for queues */

/* Finds the oldest work that still holds memory, in either space or in blocks that wait for several
   queues. */
static bool find_oldest(struct vr_ladder_run *run, struct vr_queue_stamp *stamp) {
    struct vr_pool *pool = run->pool;
    struct vr_space *small = pool->spaces[VR_PART_SMALL], *large = pool->spaces[VR_PART_LARGE];
    struct vr_space *space = vr_request_space(pool, run->request);
    struct vr_stamp held;
    vr_mutex_lock(&pool->lock);
    bool pending =
        vr_space_pending(space, &held) || vr_space_pending(space == small ? large : small, &held);
    if (pending) {
        *stamp = vr_pool_stamp_from_space(pool, held);
    } else {
        pending = vr_pool_deferred(pool, stamp);
    }
    vr_mutex_unlock(&pool->lock);
    return pending;
}

/* The same, or that of another queue if it is a captured region's, for which nobody waits. */
static bool find_pending(struct vr_ladder_run *run, struct vr_queue_stamp *stamp) {
    struct vr_pool *pool = run->pool;
    bool pending = find_oldest(run, stamp);
    for (struct vr_queue_id last = VR_NO_QUEUE; pending && vr_pool_is_region(stamp->queue);
         last = stamp->queue) {
        vr_mutex_lock(&pool->lock);
        *stamp = vr_queue_state_unpassed(&pool->queue_states, last);
        vr_mutex_unlock(&pool->lock);
        pending = stamp->queue.handle != 0;
    }
    return pending;
}

uint64_t vr_ladder_changes(const struct vr_pool *pool) {
    uint64_t changes = 0 - vr_space_changes_here();
    assert(vr_pool_is_locked(pool));
    for (uint32_t i = 0; i < VR_PART_COUNT; i++) {
        changes += vr_space_changes(pool->spaces[i]);
    }
    return changes;
}

/* keeps (4). A pool with a limit of its own may have as much as that; its plans may have charged
   what they have not created yet. */
static bool is_in_transit(struct vr_ladder_run *run) {
    struct vr_pool *pool = run->pool;
    uint64_t held = 0, own = vr_load(&pool->caps.own_bytes, VR_RELAXED);
    vr_mutex_lock(&pool->lock);
    uint64_t changes = vr_ladder_changes(pool);
    bool moves = pool->leaving_plans;
    for (uint32_t i = 0; i < VR_PART_COUNT; i++) {
        moves = moves || vr_space_open_plans(pool->spaces[i]);
        held += vr_space_reserved(pool->spaces[i]);
    }
    if (!moves && changes != run->changes) {
        moves = run->repeats++ < REPEATS_MOST;
    }
    run->changes = changes;
    held = own != UINT64_MAX && own > held ? own : held;
    bool fits = run->request->bytes + pool->out_bytes <= held;
    vr_mutex_unlock(&pool->lock);
    return moves && fits;
}

bool vr_ladder_wait_transit(struct vr_ladder_run *run) {
    uint64_t left = vr_deadline_left(run->deadline), slice = slice_of(run->rounds);
    if (vr_deadline_passed(run->deadline) || !is_in_transit(run)) {
        return false;
    }
    run->rounds++;
    vr_clock_sleep(slice < left ? slice : left);
    return true;
}

/* Waits for a short time; false: nothing is pending, or no time is left. The time is short because
   other queues may finish first. */
static bool wait_for_work(struct vr_ladder_run *run) {
    struct vr_pool *pool = run->pool;
    uint64_t left = vr_deadline_left(run->deadline), slice = slice_of(run->rounds);
    struct vr_queue_stamp stamp;
    if (!find_pending(run, &stamp) || vr_deadline_passed(run->deadline)) {
        return vr_ladder_wait_transit(run);
    }
    run->rounds++;
    vr_pool_mark(pool, stamp, false);
    vram_status status = vr_pool_await(stamp, slice < left ? slice : left);
    if (status == VRAM_OK) {
        return true;
    }
    bool answered = vr_pool_poll(pool, false);
    if (status != VRAM_ERR_TIMEOUT && answered) {
        vr_clock_sleep(slice); /* that queue cannot be polled: waits for the others */
    }
    return status == VRAM_ERR_TIMEOUT || answered;
}

bool vr_ladder_wait(struct vr_ladder_run *run) {
    run->tried = run->pool->miss->after(run->pool, run->request, run->block);
    if (!vr_status_is_short(run->tried) || !wait_for_work(run)) {
        return false;
    }
    vr_ladder_try(run); /* the request may need less now */
    return vr_status_is_short(run->tried);
}

/* ------------------------------------------------------------------ for threads */

static struct vr_mutex waiters = VR_MUTEX_INIT(VR_RANK_SHORT); /* keeps (1) */

/* Whether another thread could still free memory of a pool. */
struct thread_search {
    const struct vr_pool *pool;
    bool found;
};

static void look_at_thread(struct vr_thread_state *thread, void *user) {
    struct thread_search *search = user;
    bool waits = vr_load(&thread->short_of, VR_RELAXED) == search->pool->object.handle;
    for (uint32_t i = 0; thread->caches && i <= thread->cache_mask && !waits; i++) {
        const struct vr_cache *cache = thread->caches[i];
        search->found = search->found || (cache && cache->pool == search->pool);
    }
}

/* Whether to go on waiting; if not, the thread no longer counts as waiting: keeps (1). */
static bool may_wait(struct vr_ladder_run *run, struct vr_thread_state *thread) {
    struct thread_search search = {.pool = run->pool};
    struct vr_queue_stamp stamp;
    bool pending = find_pending(run, &stamp);
    vr_mutex_lock(&waiters);
    vr_thread_visit_all(look_at_thread, &search);
    bool may = pending || search.found;
    if (!may) {
        vr_store(&thread->short_of, 0, VR_RELAXED);
    }
    vr_mutex_unlock(&waiters);
    return may;
}

bool vr_step_wait(struct vr_ladder_run *run) {
    VR_OPERATION("vram_alloc");
    struct vr_pool *pool = run->pool;
    uint64_t deadline = vr_deadline_in(run->ladder.wait_ns), slice;
    bool patient = run->ladder.wait_ns && !(run->request->flags & VRAM_ALLOC_NO_WAIT);
    struct vr_thread_state *thread = patient ? vr_thread_get() : NULL;
    bool waited = false, alone = false;
    if (!thread) {
        return false;
    }
    vr_store(&thread->short_of, pool->object.handle, VR_RELAXED);
    for (uint32_t round = 0;
         vr_status_is_short(run->tried) && !vr_deadline_passed(deadline) && !alone; round++) {
        uint64_t left = vr_deadline_left(deadline);
        slice = slice_of(round);
        alone = !may_wait(run, thread);
        if (!alone) {
            vr_clock_sleep(slice < left ? slice : left);
            waited = true;
        }
        (void)vr_pool_drain(pool);
        vr_pool_poll(pool, false);
        vr_ladder_try(run); /* keeps (2), and (3) when alone */
    }
    vr_store(&thread->short_of, 0, VR_RELAXED);
    return waited || !vr_status_is_short(run->tried);
}
