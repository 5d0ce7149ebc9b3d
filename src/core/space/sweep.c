/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c: ghosts, the places where pieces were mapped before they were moved under work, are
 * unmapped when that work has ended.
 */
#include "core/space/plan.h"

#include <assert.h>

enum {
    SWEEP_MOST = 512,  /* ghosts unmapped by one plan, and */
    UNPASSED_MOST = 64 /* ghosts passed over that are not ready */
};

/* Puts the ghosts that have passed into the plan. */
static vram_status sweep(struct vr_space *space, struct vr_plan *plan) {
    uint32_t unpassed = UNPASSED_MOST;
    struct vr_link *link = vr_list_first(&space->ghosts), *next;
    for (; link && unpassed > 0 && plan->item_count < SWEEP_MOST; link = next) {
        struct vr_block *ghost = VR_CONTAINER(link, struct vr_block, span.age);
        next = vr_list_next(&space->ghosts, link);
        assert(ghost->span.kind == VR_SPAN_GHOST && space->stats.ghosts); /* span.h (6) */
        assert(ghost->span.segment && ghost->span.segment->ghosts);
        if (ghost->stamp.queue && !space->config.passed(space->config.user, ghost->stamp)) {
            unpassed--;
            continue;
        }
        struct vr_plan_item *item = vr_plan_add(plan, ghost->span.segment);
        if (!item) {
            return VRAM_ERR_HOST_MEMORY;
        }
        vr_link_remove(link);
        space->stats.ghosts--;
        ghost->span.kind = VR_SPAN_CLAIM;
        item->source = ghost;
    }
    return VRAM_OK;
}

vram_status vr_plan_sweep(struct vr_space *space, struct vr_plan **out) {
    *out = NULL;
    if (vr_list_empty(&space->ghosts)) {
        return VRAM_OK;
    }
    struct vr_plan *plan = vr_plan_new(space);
    if (!plan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    plan->sweep = true;
    return vr_plan_finish(space, plan, sweep(space, plan), out);
}
