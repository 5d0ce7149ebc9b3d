/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address_reserve.c: addresses that are kept free behind a block, so that it can grow there.
 *
 *     | BLOCK (whole granules) |      RESERVE      | ...
 *
 * Addresses are plentiful: a space has many times as many as the device has memory. A reserve costs
 * only addresses and is best effort: it becomes a void when addresses run out, or when its block is
 * freed.
 */
#include "core/space/plan.h"

#include <assert.h>

struct vr_block *vr_reserve_cut(struct vr_space *space, struct vr_block *span, uint64_t bytes) {
    if (!bytes || !vr_span_is(span, VR_SPAN_VOID) || vr_span_bytes(span) < bytes ||
        vr_span_stock(space, 2) != VRAM_OK) {
        return NULL;
    }
    struct vr_block *reserve = vr_hole_cut(space, span, vr_span_addr(span), bytes);
    assert(vr_span_is_whole(space, reserve)); /* span.h (8), as the next */
    assert(vr_span_is(reserve->span.before, VR_SPAN_BLOCK) ||
           vr_span_is(reserve->span.before, VR_SPAN_CLAIM));
    reserve->span.kind = VR_SPAN_RESERVE;
    space->reserves++;
    return reserve;
}

void vr_reserve_end(struct vr_space *space, struct vr_block *reserve) {
    assert(reserve->span.kind == VR_SPAN_RESERVE && space->reserves > 0);
    reserve->span.kind = VR_SPAN_VOID;
    reserve->stamp = (struct vr_stamp){0};
    space->reserves--;
    vr_hole_add(space, reserve);
}

/* A reserve behind a claim belongs to its plan and stays. Ending a reserve frees only records
   behind it, so `span` stays valid. */
bool vr_reserve_end_all(struct vr_space *space) {
    uint64_t before = space->reserves;
    for (struct vr_block *span = vr_span_first(space); span && space->reserves;
         span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_BLOCK && vr_span_is(span->span.after, VR_SPAN_RESERVE)) {
            vr_reserve_end(space, span->span.after);
        }
    }
    return space->reserves < before;
}

uint64_t vr_space_reserve(const struct vr_block *block) {
    const struct vr_block *next = block->span.after;
    return vr_span_is(next, VR_SPAN_RESERVE) ? vr_span_bytes(next) : 0;
}

void vr_space_keep_reserve(struct vr_space *space, struct vr_block *block, uint64_t bytes) {
    struct vr_block *next = block->span.after;
    bool whole = vr_granule_down(space, vr_span_end(block)) == vr_span_end(block);
    if (whole && vr_span_is(next, VR_SPAN_VOID)) {
        (void)vr_reserve_cut(space, next,
                             bytes < vr_span_bytes(next) ? bytes : vr_span_bytes(next));
    }
}

/* Takes the start of the smallest void that is large enough for block and reserve, to keep larger
   ones. If there is none, takes the largest void, and half of the rest of it as reserve. */
bool vr_reserve_find(struct vr_space *space, struct vr_want *want, struct vr_placement *found) {
    struct vr_block *place = vr_hole_least(space, VR_QUEUE_VOID, want->bytes + want->reserve);
    if (!place) {
        place = vr_hole_smaller(space, VR_QUEUE_VOID, NULL);
        uint64_t rest =
            place && vr_span_bytes(place) > want->bytes ? vr_span_bytes(place) - want->bytes : 0;
        want->reserve = vr_granule_down(space, rest / 2);
    }
    if (!place || !want->reserve) {
        return false;
    }
    *found = (struct vr_placement){.window = {.first = place,
                                              .addr = vr_span_addr(place),
                                              .bytes = want->bytes,
                                              .missing = want->bytes / space->config.granule}};
    return true;
}
