/* SPDX-License-Identifier: Apache-2.0 */
/* space_driver.h: a driver that does what plans say, for the tests of the block engine. */
#ifndef VR_SPACE_DRIVER_H
#define VR_SPACE_DRIVER_H

#include "base/size.h"
#include "core/space/space.h"

#define GRANULE (2 * VR_MIB)
#define BASE    (UINT64_C(1) << 40)

/* How far queue 1 .. 7 have come, and how often anybody asked. */
struct driver {
    uint64_t passed[8];
    uint64_t questions;
    uint64_t segment; /* where the next one goes */
    uint64_t natives;
};

static inline bool driver_passed(void *user, struct vr_stamp stamp) {
    struct driver *driver = user;
    driver->questions++;
    return stamp.value <= driver->passed[stamp.queue % 8];
}

static inline struct vr_space_config driver_config(struct driver *driver) {
    return (struct vr_space_config){.base = BASE,
                                    .bytes = UINT64_C(64) * VR_GIB,
                                    .granule = GRANULE,
                                    .share_ppm = 1000000,
                                    .credit_ns = UINT64_C(1000000000),
                                    .passed = driver_passed,
                                    .user = driver};
}

static inline void driver_step(struct driver *driver, struct vr_step *step, bool segments) {
    if (step->kind == VR_STEP_CREATE) {
        step->piece->native = ++driver->natives;
        if (segments) {
            driver->segment = driver->segment ? driver->segment : BASE;
            step->piece->addr = driver->segment;
            driver->segment += step->bytes + GRANULE;
        }
    }
}

static inline struct vr_block *driver_commit(struct driver *driver, struct vr_space *space,
                                             struct vr_plan *plan, bool segments) {
    for (uint32_t i = 0; i < plan->count; i++) {
        driver_step(driver, &plan->steps[i], segments);
    }
    return vr_space_commit(space, plan);
}

/* A block, planned or found; NULL when the space has none. */
static inline struct vr_block *driver_want(struct driver *driver, struct vr_space *space,
                                           const struct vr_want *want, bool segments) {
    struct vr_answer answer;
    if (vr_space_alloc(space, want, &answer) != VRAM_OK) {
        return NULL;
    }
    struct vr_block *block =
        answer.plan ? driver_commit(driver, space, answer.plan, segments) : answer.block;
    vr_store(&block->state, VR_BLOCK_LIVE, VR_RELAXED);
    return block;
}

static inline struct vr_block *driver_alloc(struct driver *driver, struct vr_space *space,
                                            uint64_t bytes, uint64_t queue) {
    struct vr_want want = {.bytes = bytes, .queue = queue, .now_ns = 1};
    return driver_want(driver, space, &want, false);
}

static inline void driver_free(struct vr_space *space, struct vr_block *block, uint64_t queue,
                               uint64_t value) {
    block->stamp = (struct vr_stamp){queue, value};
    vr_space_free(space, block);
}

static inline uint64_t addr_of(const struct vr_block *block) {
    return vr_load(&block->addr, VR_RELAXED);
}

#endif
