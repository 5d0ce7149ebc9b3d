/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder_step.c: the steps that release memory; see ladder.h.
 */
#include "core/backing/backing.h"
#include "core/cache/drain.h"
#include "core/cache/other_memory.h"
#include "core/cache/stamp.h"
#include "core/ladder/ladder.h"

#include "base/error.h"
#include "base/size.h"
#include "base/status.h"
#include "core/limit/limit.h"
#include "core/object/walk.h"
#include "core/pressure/pressure_state.h"

enum { GROWTH_LEAST = 2 }; /* least growth of a space, in granules: supply.c */

/* What a step changes in a pool. */
struct gauge {
    uint64_t pending, moved; /* bytes */
};

static struct gauge read_gauge(struct vr_pool *pool) {
    struct vr_space_stats stats;
    struct gauge gauge = {0};
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_space_stats_get(pool->spaces[part], &stats);
        gauge.pending += stats.pending_bytes;
        gauge.moved += stats.moved_bytes;
    }
    vr_mutex_unlock(&pool->lock);
    return gauge;
}

static uint64_t sub_or_zero(uint64_t before, uint64_t after) {
    return before > after ? before - after : 0;
}

/* ------------------------------------------------------------- the pool's own */

bool vr_step_drain(struct vr_ladder_run *run) {
    vr_ladder_released(run, vr_pool_drain(run->pool));
    return true;
}

bool vr_step_finished(struct vr_ladder_run *run) {
    uint64_t before = read_gauge(run->pool).pending;
    struct vr_stamp stamp;
    vr_pool_poll(run->pool, false);
    vr_mutex_lock(&run->pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        (void)vr_space_pending(run->pool->spaces[part], &stamp); /* settles holes */
    }
    vr_mutex_unlock(&run->pool->lock);
    vr_ladder_released(run, sub_or_zero(before, read_gauge(run->pool).pending));
    return true;
}

/* The driver gives again what it gave for a larger plan. A segment is allocated as a whole, so the
   smallest sufficient one is tried. Then plans without more memory from the driver. */
bool vr_step_move(struct vr_ladder_run *run) {
    struct vr_pool *pool = run->pool;
    const struct vr_request *request = run->request;
    uint64_t before = read_gauge(pool).moved;
    if (!pool->range && !vr_round_up(request->bytes, pool->granule, &run->grown)) {
        run->grown = 0;
    }
    if (run->grown) {
        run->tried = pool->miss->plan(pool, request, VR_WANT_NO_GROWTH, &run->grown, run->block);
    }
    if (vr_status_is_short(run->tried)) {
        run->grown = 0;
        run->tried = pool->miss->plan(pool, request, VR_WANT_NO_GROWTH, &run->grown, run->block);
    }
    uint64_t after = read_gauge(pool).moved;
    run->results[run->step].bytes += after > before ? after - before : 0;
    return true;
}

/* Releases as much free memory of the part as the request needs; returns how much. A driver error
   that is no shortage ends the run. */
static uint64_t trim_part(struct vr_ladder_run *run, int part) {
    struct vr_pool *pool = run->pool;
    struct vr_space *space = pool->spaces[part];
    uint64_t least = GROWTH_LEAST * pool->granule;
    uint64_t need = run->request->bytes > least ? run->request->bytes : least;
    vr_mutex_lock(&pool->lock);
    uint64_t before = vr_space_reserved(space);
    vr_mutex_unlock(&pool->lock);
    vram_status status = vr_pool_shrink(pool, space, sub_or_zero(before, need));
    if (status != VRAM_OK && !vr_status_is_short(status)) {
        run->tried = status;
    }
    vr_mutex_lock(&pool->lock);
    uint64_t after = vr_space_reserved(space);
    vr_mutex_unlock(&pool->lock);
    return sub_or_zero(before, after);
}

/* Releases free memory of the other space. With segments, which are released as a whole, this
   space's too; and when the pool wakes, since free memory cannot back sleeping blocks. */
bool vr_step_trim(struct vr_ladder_run *run) {
    int own = vr_request_part(run->request);
    int parts = run->pool->range && !run->attempt ? 1 : VR_PART_COUNT;
    for (int i = 0; i < parts && vr_status_is_short(run->tried); i++) {
        uint64_t bytes = trim_part(run, i ? own : !own);
        if (vr_status_is_short(run->tried)) {
            vr_ladder_released(run, bytes);
        }
    }
    return true;
}

bool vr_step_retry(struct vr_ladder_run *run) {
    if (run->attempt) {
        run->tried = run->attempt(run);
        return true;
    }
    run->grown = 0;
    run->tried = run->pool->miss->plan(run->pool, run->request, 0, &run->grown, run->block);
    return true;
}

/* Wins as much as the latest attempt lacked: what the driver gave for it is there already. Again,
   because the next attempt may place the block elsewhere. */
bool vr_step_rebuild(struct vr_ladder_run *run) {
    struct vr_pool *pool = run->pool;
    struct vram_rebuild_result result;
    bool any = false;
    do {
        uint64_t lacking = sub_or_zero(run->request->bytes, run->grown);
        (void)pool->miss->rebuild(pool, lacking + GROWTH_LEAST * pool->granule, &result);
        any = any || result.handles;
        vr_ladder_released(run, result.won_bytes);
    } while (result.won_bytes && vr_status_is_short(run->tried));
    return any;
}

/* ------------------------------------------------------- the pools of a device */

/* Large blocks leave whole handles free, so their part comes first. Memory that the driver refuses
   to take back stays. */
uint64_t vr_pool_release_free(struct vr_pool *pool, uint64_t need) {
    uint64_t given = 0;
    struct vram_error error;
    vr_error_save(&error);
    (void)vr_pool_drain(pool);
    vr_pool_poll(pool, true);
    for (int part = VR_PART_COUNT; part-- > 0 && given < need;) {
        vr_mutex_lock(&pool->lock);
        uint64_t before = vr_space_reserved(pool->spaces[part]);
        vr_mutex_unlock(&pool->lock);
        (void)vr_pool_shrink(pool, pool->spaces[part], sub_or_zero(before, need - given));
        vr_mutex_lock(&pool->lock);
        given += sub_or_zero(before, vr_space_reserved(pool->spaces[part]));
        vr_mutex_unlock(&pool->lock);
    }
    vr_error_restore(&error);
    return given;
}

/* Whether memory that this pool releases helps another one. Not from a deterministic pool, whose
   addresses depend on what it holds. */
static bool can_yield(const struct vr_pool *pool) {
    return vr_pool_is_charged(pool) && !(pool->flags & VRAM_POOL_DETERMINISTIC);
}

bool vr_step_others(struct vr_ladder_run *run) {
    struct vr_pool *own = run->pool, *pool;
    struct vr_walk walk = {.context = own->device->context, .account = own->device->slot->account};
    uint64_t least = GROWTH_LEAST * own->granule;
    uint64_t need = run->request->bytes > least ? run->request->bytes : least;
    bool any = false;
    if (!vr_pool_is_charged(own)) {
        return false;
    }
    while (vr_status_is_short(run->tried) && (pool = vr_walk_next(&walk))) {
        bool other = pool != own && can_yield(pool);
        uint64_t given = other ? vr_pool_release_free(pool, need) : 0;
        any = any || other;
        vr_leave(pool);
        vr_ladder_released(run, given);
    }
    return any;
}

/* Host memory may be in pools of any device, whatever memory this pool has. */
bool vr_step_cleanup(struct vr_ladder_run *run) {
    bool all = run->purpose == VR_FOR_HOST;
    struct vr_device_object *device = run->pool->device;
    if (!vr_pool_is_charged(run->pool) && !all) {
        return false; /* the device's memory does not help it */
    }
    vr_ladder_released(run, all ? vr_context_cleanup(device->context) : vr_device_cleanup(device));
    return true;
}

/* -------------------------------------------------------------- other memory */

bool vr_step_fallback(struct vr_ladder_run *run) {
    struct vr_pool *pool = run->pool;
    if (run->request->flags & (VR_REQUEST_AHEAD | VRAM_ALLOC_NO_FALLBACK) ||
        !vr_limit_falls_back(pool)) {
        return false; /* blocks prepared ahead must be the pool's own memory */
    }
    vram_status status;
    uint32_t kinds =
        run->ladder.fallback ? run->ladder.fallback : vr_load(&pool->caps.fallback, VR_RELAXED);
    if (!vr_fallback_first_of(pool, run->request, kinds, run->block, &status)) {
        return false;
    }
    if (!vr_status_is_exhausted(status)) {
        run->tried = status;
    }
    if (status == VRAM_OK) {
        run->results[run->step].bytes += vr_load(&(*run->block)->bytes, VR_RELAXED);
    }
    return true;
}
