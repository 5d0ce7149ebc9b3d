/* SPDX-License-Identifier: Apache-2.0 */
/* wear.c: when a space wears, and how much that is. */
#include "core/space/wear.h"

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

/* In the purse: */
#define CREEP_NS INT64_C(200000000) /* what is stuck is not for want of time */
#define AGAIN_NS INT64_C(20000000)  /* there is some to spend on the next pass */

static bool may_wear(const struct vr_space *space, uint32_t most, int64_t least_ns) {
    return space->wear < most && space->purse_ns > least_ns && !space->config.deterministic &&
           space->config.mode == VR_SPACE_VMM;
}

void vr_wear_creep(struct vr_space *space) {
    if (may_wear(space, WEAR_MOST, CREEP_NS)) {
        space->wear++;
    }
}

void vr_wear_note(struct vr_space *space) {
    uint64_t blocks = space->stats.blocks;
    if (blocks > space->most_blocks) {
        space->most_blocks = blocks;
    } else if (blocks < space->most_blocks / BLOCKS_PART && vr_wear_lull(space) &&
               may_wear(space, WEAR_AGAIN, AGAIN_NS)) {
        space->wear = WEAR_AGAIN;
    }
}

void vr_wear_tight(struct vr_space *space, uint64_t need_bytes) {
    if (need_bytes / TIGHT_OF > space->memory_bytes / TIGHT_PART && !space->config.deterministic &&
        space->config.mode == VR_SPACE_VMM) {
        space->tight = true;
        space->wear = WEAR_MOST;
    }
}

bool vr_wear_is_coarse(const struct vr_space *space, const struct vr_piece *piece) {
    uint64_t fine =
        vr_larger(FINE_MOST * space->config.granule, space->stats.peak_need_bytes / VR_GROW_PART);
    return space->tight && piece->bytes > fine;
}

bool vr_wear_lull(const struct vr_space *space) {
    return space->stats.out_bytes < space->stats.peak_need_bytes / LULL_PART;
}

uint64_t vr_wear_bytes(const struct vr_space *space, uint64_t granules) {
    assert(space->wear <= WEAR_MOST);
    uint64_t left = granules >> space->wear;
    return (left ? left : 1) * space->config.granule;
}
