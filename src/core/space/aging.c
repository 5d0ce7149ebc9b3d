/* SPDX-License-Identifier: Apache-2.0 */
/* aging.c: when a space becomes aged, and what that changes. */
#include "core/space/aging.h"

#include "base/size.h"

#include <assert.h>

enum {
    IDLE_PART = 6,   /* little is in use when it is less than 1/6 of the peak need, */
    BLOCKS_PART = 8, /* and the program starts over when also blocks < 1/8 of the most */
    TIGHT_OF = 5,    /* memory is tight when TIGHT_OF / TIGHT_PART of it is needed */
    TIGHT_PART = 8,
    FINE_MOST = 2,   /* a piece with more granules, and larger than growth creates, is coarse */
    AGED_PART = 8,   /* handles of an aged space have 1/8 of the size, */
    WORN_PART = 3,   /* which is renewed when it holds 1/3 more beyond its need, */
    RENEWAL_PART = 4 /* with 1/4 of the time in the budget */
};

/* A space ages only with at least this much time in the budget: */
#define GROWTH_NS  INT64_C(200000000) /* (1): lack of time did not cause the growth */
#define RESTART_NS INT64_C(20000000)  /* (2): some is left to spend on the next pass */

static bool may_age(const struct vr_space *space) {
    return !space->config.deterministic && space->config.mode == VR_SPACE_VMM;
}

/* Bytes held beyond the peak need. */
static uint64_t excess_bytes(const struct vr_space *space) {
    uint64_t held = space->stats.reserved_bytes, need = space->stats.peak_need_bytes;
    return held > need ? held - need : 0;
}

static void become_aged(struct vr_space *space) {
    double slack = (double)space->stats.peak_need_bytes * space->config.slack_ppm / 1e6;
    space->aged = true;
    space->excess_bytes = vr_larger(excess_bytes(space), (uint64_t)slack);
}

void vr_aging_note_growth(struct vr_space *space) {
    uint64_t worn = space->excess_bytes + space->excess_bytes / WORN_PART;
    if (!may_age(space)) {
        return;
    }
    space->renewal_due = space->renewal_due || !space->aged || excess_bytes(space) > worn;
    if (!space->aged && space->budget_ns > GROWTH_NS) {
        become_aged(space);
    }
}

void vr_aging_note_blocks(struct vr_space *space) {
    uint64_t blocks = space->stats.blocks;
    if (blocks > space->most_blocks) {
        space->most_blocks = blocks;
    } else if (!space->aged && blocks < space->most_blocks / BLOCKS_PART &&
               vr_aging_is_idle(space) && may_age(space) && space->budget_ns > RESTART_NS) {
        become_aged(space);
    }
}

void vr_aging_note_need(struct vr_space *space, uint64_t need_bytes) {
    if (need_bytes / TIGHT_OF > space->memory_bytes / TIGHT_PART && may_age(space) &&
        !space->rebuilds) {
        space->tight = true;
        if (!space->aged) {
            become_aged(space);
        }
    }
}

bool vr_aging_is_coarse(const struct vr_space *space, const struct vr_piece *piece) {
    uint64_t fine =
        vr_larger(FINE_MOST * space->config.granule, space->stats.peak_need_bytes / VR_GROW_PART);
    return piece->bytes > fine;
}

bool vr_aging_is_idle(const struct vr_space *space) {
    return space->stats.out_bytes < space->stats.peak_need_bytes / IDLE_PART;
}

bool vr_aging_renews(const struct vr_space *space) {
    if (!space->aged || !space->renewal_due || !vr_aging_is_idle(space)) {
        return false;
    }
    uint64_t each = 0; /* every free handle is released and one like it created */
    for (int kind = 0; kind <= VR_STEP_RELEASE; kind++) {
        each += space->prices[kind];
    }
    return (double)space->budget_ns > (double)each * (double)space->stats.pieces * RENEWAL_PART;
}

uint64_t vr_aging_bytes(const struct vr_space *space, uint64_t granules) {
    uint64_t left = space->aged ? granules / AGED_PART : granules;
    return (left ? left : 1) * space->config.granule;
}
