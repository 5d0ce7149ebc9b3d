/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track_world.h: tracked pools, and blocks with all that can be said of them, for the tests of
 * questions and reports.
 */
#ifndef TEST_TRACK_WORLD_H
#define TEST_TRACK_WORLD_H

#include "byte_units.h"
#include "track/stack.h"
#include "unit/device_world.h"
#include "vram/limits.h"
#include "vram/stats.h"

static inline vram_pool *pool_make(vram_device *device, const char *name) {
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_ON};
    vram_pool_options options = {.size = sizeof options, .limits = &limits, .name = name};
    vram_pool *pool;
    assert_ok(vram_pool_create(device, &options, &pool));
    return pool;
}

/* A block of elements of four bytes. */
static inline vram_addr take(vram_pool *pool, uint64_t size, const char *tag, const char *name,
                             vram_queue *queue) {
    vram_alloc_options options = {
        .size = sizeof options, .tag = tag, .name = name, .elements = size / 4};
    vram_addr addr;
    assert_ok(vram_alloc_with(pool, size, queue, &options, &addr));
    return addr;
}

/* At the end of a test: no plan of failures and no stacks are left, nor anything else. */
static inline int track_clean(void) {
    vr_mem_fail_at(0, false);
    vr_stacks_reset();
    return nothing_left();
}

#endif
