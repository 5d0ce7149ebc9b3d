/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder_world.h: what the tests of the ladder and of its report share: a simulated device of 64
 * MiB that is nearly full, with pools on it.
 */
#ifndef TEST_LADDER_WORLD_H
#define TEST_LADDER_WORLD_H

#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "unit/whole_device.h"
#include "vram/oom.h"
#include "vram/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define GRANULE (2 * MIB)
#define SIM     "memory=64M,granule=2M"

static inline vram_pool *pool_on(vram_device *device, const char *name, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .name = name, .flags = flags};
    vram_pool *pool;
    whole_device(device);
    assert_ok(vram_pool_create(device, &options, &pool));
    return pool;
}

static inline void climb_by(vram_pool *pool, const char *steps, uint32_t fallback) {
    vram_ladder_options options = {.size = sizeof options, .steps = steps, .fallback = fallback};
    assert_ok(vram_pool_ladder_set(pool, &options));
}

static inline vram_addr take(vram_pool *pool, uint64_t bytes, vram_queue *queue) {
    vram_addr addr = 0;
    assert_ok(vram_alloc(pool, bytes, queue, &addr));
    return addr;
}

static inline void refused(vram_pool *pool, uint64_t bytes, vram_queue *queue, vram_status status) {
    vram_addr addr = 0;
    assert_int_equal(vram_alloc(pool, bytes, queue, &addr), status);
    assert_int_equal(addr, 0);
    assert_int_equal(vram_error_get()->status, status);
}

/* Memory of the device that no pool has. */
static inline vram_addr ballast(struct rig *rig, uint64_t bytes) {
    vram_addr addr;
    assert_ok(vram_device_alloc(rig->device, bytes, VRAM_MEMORY_DEVICE, &addr));
    return addr;
}

#endif
