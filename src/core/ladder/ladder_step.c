/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder_step.c: the steps that give memory back; see ladder.h.
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

enum { GROWTH_LEAST = 2 }; /* granules by which a space grows at least: supply.c */

/* What changes in a pool while a step is taken. */
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

static uint64_t less(uint64_t before, uint64_t after) {
    return before > after ? before - after : 0;
}

/* ------------------------------------------------------------- the pool's own */

bool vr_step_drain(struct vr_climb *climb) {
    vr_climb_gave(climb, vr_pool_drain(climb->pool));
    return true;
}

bool vr_step_finished(struct vr_climb *climb) {
    uint64_t before = read_gauge(climb->pool).pending;
    struct vr_stamp stamp;
    vr_pool_poll(climb->pool, false);
    vr_mutex_lock(&climb->pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        (void)vr_space_pending(climb->pool->spaces[part], &stamp); /* settles what has passed */
    }
    vr_mutex_unlock(&climb->pool->lock);
    vr_climb_gave(climb, less(before, read_gauge(climb->pool).pending));
    return true;
}

/* What the driver gave of a larger plan it will give again; a segment comes whole, so the smallest
   that will do is tried. Then without the driver's help. */
bool vr_step_move(struct vr_climb *climb) {
    struct vr_pool *pool = climb->pool;
    const struct vr_request *request = climb->request;
    uint64_t before = read_gauge(pool).moved;
    if (!pool->range && !vr_round_up(request->bytes, pool->granule, &climb->grown)) {
        climb->grown = 0;
    }
    if (climb->grown) {
        climb->tried =
            pool->miss->plan(pool, request, VR_WANT_NO_GROWTH, &climb->grown, climb->block);
    }
    if (vr_status_is_short(climb->tried)) {
        climb->grown = 0;
        climb->tried =
            pool->miss->plan(pool, request, VR_WANT_NO_GROWTH, &climb->grown, climb->block);
    }
    uint64_t after = read_gauge(pool).moved;
    climb->rungs[climb->step].bytes += after > before ? after - before : 0;
    return true;
}

/* Gives back what the request needs, as far as the part has it free; how much that was. An error of
   the driver's that is no shortage ends the climb. */
static uint64_t trim_part(struct vr_climb *climb, int part) {
    struct vr_pool *pool = climb->pool;
    struct vr_space *space = pool->spaces[part];
    uint64_t least = GROWTH_LEAST * pool->granule;
    uint64_t need = climb->request->bytes > least ? climb->request->bytes : least;
    vr_mutex_lock(&pool->lock);
    uint64_t before = vr_space_reserved(space);
    vr_mutex_unlock(&pool->lock);
    vram_status status = vr_pool_shrink(pool, space, less(before, need));
    if (status != VRAM_OK && !vr_status_is_short(status)) {
        climb->tried = status;
    }
    vr_mutex_lock(&pool->lock);
    uint64_t after = vr_space_reserved(space);
    vr_mutex_unlock(&pool->lock);
    return less(before, after);
}

/* What the other space has free is given back, and of segments, which come whole, also what this
   one has; of a pool that wakes, too, since what it has free serves no sleeper. */
bool vr_step_trim(struct vr_climb *climb) {
    int own = vr_request_part(climb->request);
    int parts = climb->pool->range && !climb->attempt ? 1 : VR_PART_COUNT;
    for (int i = 0; i < parts && vr_status_is_short(climb->tried); i++) {
        uint64_t bytes = trim_part(climb, i ? own : !own);
        if (vr_status_is_short(climb->tried)) {
            vr_climb_gave(climb, bytes);
        }
    }
    return true;
}

bool vr_step_retry(struct vr_climb *climb) {
    if (climb->attempt) {
        climb->tried = climb->attempt(climb);
        return true;
    }
    climb->grown = 0;
    climb->tried =
        climb->pool->miss->plan(climb->pool, climb->request, 0, &climb->grown, climb->block);
    return true;
}

/* ------------------------------------------------------- the pools of a device */

/* Large blocks leave whole handles free, so their part goes first. What a driver refuses to take
   back is simply not given. */
uint64_t vr_pool_yield(struct vr_pool *pool, uint64_t need) {
    uint64_t given = 0;
    struct vram_error error;
    vr_error_save(&error);
    (void)vr_pool_drain(pool);
    vr_pool_poll(pool, true);
    for (int part = VR_PART_COUNT; part-- > 0 && given < need;) {
        vr_mutex_lock(&pool->lock);
        uint64_t before = vr_space_reserved(pool->spaces[part]);
        vr_mutex_unlock(&pool->lock);
        (void)vr_pool_shrink(pool, pool->spaces[part], less(before, need - given));
        vr_mutex_lock(&pool->lock);
        given += less(before, vr_space_reserved(pool->spaces[part]));
        vr_mutex_unlock(&pool->lock);
    }
    vr_error_restore(&error);
    return given;
}

/* Whether memory that this pool gives back is any use to another one, and giving it is its own
   affair: addresses of a deterministic pool depend on what it holds. */
static bool can_yield(const struct vr_pool *pool) {
    return vr_pool_on_device(pool) && !(pool->flags & VRAM_POOL_DETERMINISTIC);
}

bool vr_step_others(struct vr_climb *climb) {
    struct vr_pool *own = climb->pool, *pool;
    struct vr_walk walk = {.context = own->device->context, .account = own->device->slot->account};
    uint64_t least = GROWTH_LEAST * own->granule;
    uint64_t need = climb->request->bytes > least ? climb->request->bytes : least;
    bool any = false;
    if (!vr_pool_on_device(own)) {
        return false;
    }
    while (vr_status_is_short(climb->tried) && (pool = vr_walk_next(&walk))) {
        bool other = pool != own && can_yield(pool);
        uint64_t given = other ? vr_pool_yield(pool, need) : 0;
        any = any || other;
        vr_leave(pool);
        vr_climb_gave(climb, given);
    }
    return any;
}

/* Host memory may lie in pools of any device, whatever the present one is made of. */
bool vr_step_cleanup(struct vr_climb *climb) {
    bool all = climb->purpose == VR_FOR_HOST;
    struct vr_device_object *device = climb->pool->device;
    if (!vr_pool_on_device(climb->pool) && !all) {
        return false; /* the device's memory is no use to it */
    }
    vr_climb_gave(climb, all ? vr_context_cleanup(device->context) : vr_device_cleanup(device));
    return true;
}

/* -------------------------------------------------------------- other memory */

bool vr_step_fallback(struct vr_climb *climb) {
    struct vr_pool *pool = climb->pool;
    if ((climb->request->flags & VR_REQUEST_AHEAD) || !vr_limit_falls_back(pool)) {
        return false; /* what is prepared ahead must be the pool's own memory */
    }
    vram_status status;
    if (!vr_fallback_first_of(pool, climb->request, climb->ladder.fallback, climb->block,
                              &status)) {
        return false;
    }
    if (!vr_status_is_exhausted(status)) {
        climb->tried = status;
    }
    if (status == VRAM_OK) {
        climb->rungs[climb->step].bytes += vr_load(&(*climb->block)->bytes, VR_RELAXED);
    }
    return true;
}
