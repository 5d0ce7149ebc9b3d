/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated device with two queues and one policy of `vram replay` on it. */
#ifndef TESTS_POLICY_WORLD_H
#define TESTS_POLICY_WORLD_H

#include "byte_units.h"
#include "replay/policy.h"
#include "rig/rig.h"

#include <string.h>

struct bench {
    struct place place;
    void *state;
    const struct policy *policy;
};

static inline void open_bench(struct bench *bench, const struct policy *policy, const char *sim) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = sim};
    memset(bench, 0, sizeof *bench);
    bench->policy = policy;
    bench->place.info.size = sizeof bench->place.info;
    assert_int_equal(vram_context_create(&options, &bench->place.context), VRAM_OK);
    assert_int_equal(vram_device_open(bench->place.context, 0, &bench->place.device), VRAM_OK);
    assert_int_equal(vram_device_describe(bench->place.device, &bench->place.info), VRAM_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(vram_queue_create(bench->place.device, NULL, &bench->place.queues[i]),
                         VRAM_OK);
    }
    bench->place.queue_count = 2;
    assert_int_equal(policy->begin(&bench->place, &bench->state), VRAM_OK);
}

/* Whatever was left, the driver has all of its memory back. */
static inline void close_bench(struct bench *bench) {
    vram_sim_state sim = {.size = sizeof sim};
    bench->policy->end(bench->state);
    assert_int_equal(vram_sim_state_get(bench->place.context, &sim), VRAM_OK);
    assert_int_equal(sim.live_bytes, 0);
    assert_int_equal(sim.violations, 0);
    vram_context_destroy(bench->place.context);
}

static inline struct replay_block take(struct bench *bench, uint64_t bytes, uint32_t queue) {
    struct replay_block block = {.bytes = bytes, .queue = queue, .serial = 1};
    assert_int_equal(bench->policy->alloc(bench->state, bytes, queue, &block), VRAM_OK);
    return block;
}

static inline void give(struct bench *bench, struct replay_block *block) {
    assert_int_equal(bench->policy->free(bench->state, block, block->queue), VRAM_OK);
}

static inline uint64_t reserved(const struct bench *bench) {
    vram_memory_info info = {.size = sizeof info};
    assert_int_equal(vram_memory_info_get(bench->place.device, &info), VRAM_OK);
    return info.held_bytes;
}

#endif
