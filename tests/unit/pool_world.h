/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_world.h: what the tests of pools share: a device with two queues and a pool. The simulated
 * driver is the judge: a breach of its protocol fails the test.
 */
#ifndef TEST_POOL_WORLD_H
#define TEST_POOL_WORLD_H

#include "base/memory.h"
#include "byte_units.h"
#include "unit/assert_ok.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *other;
    vram_pool *pool;
};

static inline struct rig rig_make_with(const char *backend, const char *sim,
                                       const vram_pool_options *options) {
    struct rig rig;
    vram_context_options wanted = {.size = sizeof wanted, .backends = backend, .sim = sim};
    assert_ok(vram_context_create(&wanted, &rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.other));
    assert_ok(vram_pool_create(rig.device, options, &rig.pool));
    return rig;
}

static inline struct rig rig_make(const char *sim, uint32_t flags) {
    const vram_pool_options options = {.size = sizeof options, .flags = flags};
    return rig_make_with("sim", sim, &options);
}

static inline vram_sim_state sim_state(const struct rig *rig) {
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_sim_state_get(rig->context, &state));
    return state;
}

/* `complete`: the driver has taken everything back. */
static inline void rig_end(struct rig *rig, bool complete) {
    char text[200] = "";
    vram_device_close(rig->device);
    (void)vram_sim_violation(rig->context, 0, text, sizeof text);
    assert_string_equal(text, "");
    if (complete) {
        assert_int_equal(sim_state(rig).live_bytes, 0);
        assert_int_equal(sim_state(rig).live_handles, 0);
    }
    assert_ok(vram_context_destroy(rig->context));
}

#endif
