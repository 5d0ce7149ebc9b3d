/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure_world.h: what the tests of pressure and release share: a simulated device whose driver
 * says how much memory is free as the test wants it, and pools with caches of known contents.
 */
#ifndef TEST_PRESSURE_WORLD_H
#define TEST_PRESSURE_WORLD_H

#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

/* What the driver says; total 0 with `set`: that there is no memory at all. */
static struct {
    const struct vr_device_ops *ops;
    struct vr_device_ops copy;
    bool set;
    uint64_t free, total;
} told;

static inline vram_status tell_memory(struct vr_device *device, vram_value *free,
                                      vram_value *total) {
    vram_status status = told.ops->memory_info(device, free, total);
    if (status == VRAM_OK && told.set) {
        *free = (vram_value){.known = true, .value = told.free};
        *total = (vram_value){.known = true, .value = told.total};
    }
    return status;
}

static inline void told_hook(vram_device *handle) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, handle);
    assert_non_null(device);
    memset(&told, 0, sizeof told);
    told.ops = device->base.ops;
    told.copy = *told.ops;
    told.copy.memory_info = tell_memory;
    device->base.ops = &told.copy;
    vr_leave(device);
}

/* The device's pressure in ten thousandths, of 10000 MiB. */
static inline void told_pressure(uint64_t ten_thousandths) {
    told.set = true;
    told.total = 10000 * MIB;
    told.free = (10000 - ten_thousandths) * MIB;
}

/* A device of 10000 MiB whose pressure is what told_pressure says. */
static inline struct rig rig_told(void) {
    struct rig rig = rig_make("sim", "memory=10000M");
    told_hook(rig.device);
    told_pressure(0);
    return rig;
}

static inline vram_pool *pool_of(struct rig *rig, const vram_pool_options *options) {
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, options, &pool));
    return pool;
}

static inline vram_pressure pressure_of(vram_pool *pool) {
    vram_pressure pressure = {.size = sizeof pressure};
    assert_ok(vram_pool_pressure_get(pool, &pressure));
    return pressure;
}

/* `count` blocks of that size at hand, and `uses` hits of it. */
static inline void cache_blocks(struct rig *rig, vram_pool *pool, uint64_t size, unsigned count,
                                unsigned uses) {
    vram_addr addrs[64];
    assert_true(count <= 64);
    for (unsigned i = 0; i < count; i++) {
        assert_ok(vram_alloc(pool, size, rig->queue, &addrs[i]));
    }
    for (unsigned i = 0; i < count; i++) {
        assert_ok(vram_free(addrs[i], rig->queue));
    }
    for (unsigned i = 0; i < uses; i++) {
        assert_ok(vram_alloc(pool, size, rig->queue, &addrs[0]));
        assert_ok(vram_free(addrs[0], rig->queue));
    }
}

/* What a watch was told. */
struct log {
    unsigned calls, ups, downs;
    vram_pressure_event last, all[16];
    vram_pool *pool;
    vram_queue *queue;
    vram_watch *watch;
    vram_addr addr;
    vram_status status;
    vram_context *context;
};

static inline void write_down(void *user, const vram_pressure_event *event) {
    struct log *log = user;
    log->last = log->all[log->calls % 16] = *event;
    log->calls++;
    log->ups += event->up;
    log->downs += !event->up;
    assert_int_equal(vr_locks_held(), 0);
    assert_true(event->size == sizeof *event);
}

static inline vram_watch *watch_pool(vram_pool *pool, vram_pressure_fn *call, struct log *log,
                                     uint32_t edges) {
    vram_watch_options options = {
        .size = sizeof options, .call = call, .user = log, .edges = edges};
    vram_watch *watch;
    assert_ok(vram_pool_watch_begin(pool, &options, &watch));
    return watch;
}

#endif
