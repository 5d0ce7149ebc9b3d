/* SPDX-License-Identifier: Apache-2.0 */
/*
 * climb.c: one attempt of a climb, and what it comes to; see ladder.h.
 */
#include "core/ladder/ladder.h"
#include "core/object/request.h"

#include "base/size.h"
#include "core/limit/budget.h"

/* A segment comes whole: when a good one is refused, the smallest that will do is asked for. */
void vr_climb_try(struct vr_climb *climb) {
    struct vr_pool *pool = climb->pool;
    const struct vr_request *request = climb->request;
    if (climb->attempt) {
        climb->tried = climb->attempt(climb);
        return;
    }
    climb->grown = 0;
    climb->tried = pool->miss->plan(pool, request, 0, &climb->grown, climb->block);
    uint64_t grown = 0;
    if (vr_status_is_short(climb->tried) && !pool->range &&
        vr_round_up(request->bytes, pool->granule, &grown)) {
        climb->tried = pool->miss->plan(pool, request, VR_WANT_NO_GROWTH, &grown, climb->block);
    }
    if (vr_status_is_short(climb->tried)) {
        vram_status held = pool->miss->held(pool, request, climb->block);
        climb->tried = vr_status_is_short(held) ? climb->tried : held;
    }
}

void vr_climb_gave(struct vr_climb *climb, uint64_t bytes) {
    climb->rungs[climb->step].bytes += bytes;
    if (bytes) {
        vr_climb_try(climb);
    }
}

vram_status vr_climb_status(const struct vr_climb *climb) {
    bool limited = vr_budget_get(climb->pool).bound != VR_BOUND_NONE;
    if (climb->status != VRAM_ERR_NOT_READY) {
        return climb->status;
    }
    return limited ? VRAM_ERR_LIMIT : VRAM_ERR_DEVICE_MEMORY;
}
