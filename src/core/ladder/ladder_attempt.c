/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder_attempt.c: one attempt within a run of the ladder, and its status; see ladder.h.
 */
#include "core/ladder/ladder.h"
#include "core/object/request.h"

#include "base/size.h"
#include "core/limit/budget.h"

/* A segment is allocated as a whole: if the driver refuses one of the preferred size, the smallest
   sufficient one is tried. */
void vr_ladder_try(struct vr_ladder_run *run) {
    struct vr_pool *pool = run->pool;
    const struct vr_request *request = run->request;
    if (run->attempt) {
        run->tried = run->attempt(run);
        return;
    }
    run->grown = 0;
    run->tried = pool->miss->plan(pool, request, 0, &run->grown, run->block);
    uint64_t grown = 0;
    if (vr_status_is_short(run->tried) && !pool->range &&
        vr_round_up(request->bytes, pool->granule, &grown)) {
        run->tried = pool->miss->plan(pool, request, VR_WANT_NO_GROWTH, &grown, run->block);
    }
    if (vr_status_is_short(run->tried)) {
        vram_status held = pool->miss->held(pool, request, run->block);
        run->tried = vr_status_is_short(held) ? run->tried : held;
    }
}

void vr_ladder_released(struct vr_ladder_run *run, uint64_t bytes) {
    run->results[run->step].bytes += bytes;
    if (bytes) {
        vr_ladder_try(run);
    }
}

vram_status vr_ladder_status(const struct vr_ladder_run *run) {
    bool limited = vr_budget_get(run->pool).bound != VR_BOUND_NONE;
    if (run->status != VRAM_ERR_NOT_READY) {
        return run->status;
    }
    return limited ? VRAM_ERR_LIMIT : VRAM_ERR_DEVICE_MEMORY;
}
