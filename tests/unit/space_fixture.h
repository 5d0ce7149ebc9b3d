/* SPDX-License-Identifier: Apache-2.0 */
/* space_fixture.h: a space over the driver of space_driver.h; include that before. */
#ifndef VR_SPACE_FIXTURE_H
#define VR_SPACE_FIXTURE_H

#include "space_driver.h"

#include "base/memory.h"

#include <stdlib.h>

struct fixture {
    struct driver driver;
    struct vr_space_config config;
    struct vr_space *space;
};

static inline void assert_sound(const struct vr_space *space) {
    char text[200] = "";
    if (!vr_space_check(space, text, sizeof text)) {
        fail_msg("%s", text);
    }
}

static inline struct vr_space_stats stats_of(struct fixture *fixture) {
    struct vr_space_stats stats;
    vr_space_stats_get(fixture->space, &stats);
    return stats;
}

/* How far queue 1 has come at the start, and whether handles may have aliases. */
static inline int fixture_begin(uint64_t passed, bool alias) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->config = driver_config(&fixture->driver);
    fixture->config.alias = alias;
    fixture->driver.passed[1] = passed;
    assert_int_equal(vr_space_create(&fixture->config, &fixture->space), VRAM_OK);
    rig_state = fixture;
    return 0;
}

/* Begins anew with another configuration. */
static inline void fixture_restart(struct fixture *fixture) {
    vr_space_destroy(fixture->space);
    assert_int_equal(vr_space_create(&fixture->config, &fixture->space), VRAM_OK);
}

/* A block of queue 1, and back at its first point. */
static inline struct vr_block *fixture_get(struct fixture *fixture, uint64_t bytes) {
    struct vr_block *block = driver_alloc(&fixture->driver, fixture->space, bytes, 1);
    assert_non_null(block);
    assert_sound(fixture->space);
    return block;
}

static inline void fixture_put(struct fixture *fixture, struct vr_block *block) {
    driver_free(fixture->space, block, 1, 1);
    assert_sound(fixture->space);
}

static inline int fixture_end(void) {
    struct fixture *fixture = rig_state;
    assert_sound(fixture->space);
    vr_space_destroy(fixture->space);
    free(fixture);
    assert_int_equal(vr_mem_live_blocks(), 0);
    return 0;
}

#endif
