/* SPDX-License-Identifier: Apache-2.0 */
/* aging.c: when a space wears, and how much that is. */
#include "core/space/aging.h"

#include "base/size.h"

#include <assert.h>

enum {
    WEAR_MOST = 3,   /* the finest */
    WEAR_AGAIN = 2,  /* at least, once the program has started over */
    LULL_PART = 6,   /* little is out when it is less than this part of the peak, */
    BLOCKS_PART = 8, /* and nearly all is back when this part of the most blocks is more, too */
    TIGHT_OF = 3,    /* memory is tight when this many of */
    TIGHT_PART = 4,  /* so many parts of it are needed, */
    FINE_MOST =
        2 /* and a piece is coarse then that has more granules, and more than growth makes */
};

/* In the time budget: */
#define CREEP_NS INT64_C(200000000) /* what is stuck is not for want of time */
#define AGAIN_NS INT64_C(20000000)  /* there is some to spend on the next pass */

static bool may_age(const struct vr_space *space, uint32_t most, int64_t least_ns) {
    return space->aging < most && space->budget_ns > least_ns && !space->config.deterministic &&
           space->config.mode == VR_SPACE_VMM;
}

void vr_aging_note_growth(struct vr_space *space) {
    if (may_age(space, WEAR_MOST, CREEP_NS)) {
        space->aging++;
    }
}

void vr_aging_note_free(struct vr_space *space) {
    uint64_t blocks = space->stats.blocks;
    if (blocks > space->most_blocks) {
        space->most_blocks = blocks;
    } else if (blocks < space->most_blocks / BLOCKS_PART && vr_aging_is_idle(space) &&
               may_age(space, WEAR_AGAIN, AGAIN_NS)) {
        space->aging = WEAR_AGAIN;
    }
}

void vr_aging_note_need(struct vr_space *space, uint64_t need_bytes) {
    if (need_bytes / TIGHT_OF > space->memory_bytes / TIGHT_PART && !space->config.deterministic &&
        space->config.mode == VR_SPACE_VMM) {
        space->tight = true;
        space->aging = WEAR_MOST;
    }
}

bool vr_aging_is_coarse(const struct vr_space *space, const struct vr_piece *piece) {
    uint64_t fine =
        vr_larger(FINE_MOST * space->config.granule, space->stats.peak_need_bytes / VR_GROW_PART);
    return space->tight && piece->bytes > fine;
}

bool vr_aging_is_idle(const struct vr_space *space) {
    return space->stats.out_bytes < space->stats.peak_need_bytes / LULL_PART;
}

uint64_t vr_aging_bytes(const struct vr_space *space, uint64_t granules) {
    assert(space->aging <= WEAR_MOST);
    uint64_t left = granules >> space->aging;
    return (left ? left : 1) * space->config.granule;
}
