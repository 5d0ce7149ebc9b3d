/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c: unmaps stale mappings (the old places of pieces that were moved while work still used
 * them) when that work is complete.
 */
#include "core/space/plan.h"

#include <assert.h>

enum {
    SWEEP_MOST = 512,  /* stale mappings unmapped by one plan */
    UNPASSED_MOST = 64 /* unpassed stamps after which the search stops */
};

/* Puts the stale mappings whose stamps have passed into the plan. */
static vram_status take_passed(struct vr_space *space, struct vr_plan *plan) {
    uint32_t unpassed = UNPASSED_MOST;
    struct vr_link *link = vr_list_first(&space->stale_mappings), *next;
    for (; link && unpassed > 0 && plan->item_count < SWEEP_MOST; link = next) {
        struct vr_block *stale = VR_CONTAINER(link, struct vr_block, span.age);
        next = vr_list_next(&space->stale_mappings, link);
        assert(stale->span.kind == VR_SPAN_STALE && space->stats.stale_mappings); /* span.h (6) */
        assert(stale->span.segment && stale->span.segment->stale_mappings);
        if (stale->stamp.queue && !space->config.passed(space->config.user, stale->stamp)) {
            unpassed--;
            continue;
        }
        struct vr_plan_item *item = vr_plan_add(plan, stale->span.segment);
        if (!item) {
            return VRAM_ERR_HOST_MEMORY;
        }
        vr_link_remove(link);
        space->stats.stale_mappings--;
        stale->span.kind = VR_SPAN_CLAIM;
        item->source = stale;
    }
    return VRAM_OK;
}

vram_status vr_plan_sweep(struct vr_space *space, struct vr_plan **out) {
    *out = NULL;
    if (vr_list_empty(&space->stale_mappings)) {
        return VRAM_OK;
    }
    struct vr_plan *plan = vr_plan_new(space);
    if (!plan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    plan->sweep = true;
    return vr_plan_finish(space, plan, take_passed(space, plan), out);
}
