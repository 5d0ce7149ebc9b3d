/* SPDX-License-Identifier: Apache-2.0 */
/* aging.c: when the aging of a space rises, and what it changes. */
#include "core/space/aging.h"

#include "base/size.h"

#include <assert.h>

enum {
    AGING_MOST = 3,    /* highest degree */
    AGING_RESTART = 2, /* degree once the program has started over */
    IDLE_PART = 6,     /* little is in use when it is less than 1/6 of the peak need, */
    BLOCKS_PART = 8,   /* and the program starts over when also blocks < 1/8 of the most */
    TIGHT_OF = 5,      /* memory is tight when TIGHT_OF / TIGHT_PART of it is needed */
    TIGHT_PART = 8,
    FINE_MOST = 2 /* then a piece with more granules, and larger than growth creates, is coarse */
};

/* Aging rises only with at least this much time in the budget: */
#define GROWTH_NS  INT64_C(200000000) /* (1): lack of time did not cause the growth */
#define RESTART_NS INT64_C(20000000)  /* (2): some is left to spend on the next pass */

static bool may_age(const struct vr_space *space, uint32_t most, int64_t least_ns) {
    return space->aging < most && space->budget_ns > least_ns && !space->config.deterministic &&
           space->config.mode == VR_SPACE_VMM;
}

void vr_aging_note_growth(struct vr_space *space) {
    if (may_age(space, AGING_MOST, GROWTH_NS)) {
        space->aging++;
    }
}

void vr_aging_note_blocks(struct vr_space *space) {
    uint64_t blocks = space->stats.blocks;
    if (blocks > space->most_blocks) {
        space->most_blocks = blocks;
    } else if (blocks < space->most_blocks / BLOCKS_PART && vr_aging_is_idle(space) &&
               may_age(space, AGING_RESTART, RESTART_NS)) {
        space->aging = AGING_RESTART;
    }
}

void vr_aging_note_need(struct vr_space *space, uint64_t need_bytes) {
    if (need_bytes / TIGHT_OF > space->memory_bytes / TIGHT_PART && !space->config.deterministic &&
        space->config.mode == VR_SPACE_VMM) {
        space->tight = true;
        space->aging = AGING_MOST;
    }
}

bool vr_aging_is_coarse(const struct vr_space *space, const struct vr_piece *piece) {
    uint64_t fine =
        vr_larger(FINE_MOST * space->config.granule, space->stats.peak_need_bytes / VR_GROW_PART);
    return space->tight && piece->bytes > fine;
}

bool vr_aging_is_idle(const struct vr_space *space) {
    return space->stats.out_bytes < space->stats.peak_need_bytes / IDLE_PART;
}

uint64_t vr_aging_bytes(const struct vr_space *space, uint64_t granules) {
    assert(space->aging <= AGING_MOST);
    uint64_t left = granules >> space->aging;
    return (left ? left : 1) * space->config.granule;
}
