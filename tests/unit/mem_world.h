/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_world.h: what the tests of scopes, batches and named buffers share.
 *
 * A part is what a program does with memory, with its cleanup when something fails. fail_every_call
 * runs it with call 1, 2, 3 ... failing, of host memory and of the driver, or with the driver
 * reporting an impossible success, until no call is left to fail; after each the pool has no live
 * block, and at the end nothing is left.
 */
#ifndef TEST_MEM_WORLD_H
#define TEST_MEM_WORLD_H

#include "unit/device_world.h"
#include "unit/fault_step.h"
#include "unit/pool_flags.h"
#include "unit/stats_of.h"
#include "vram/pool.h"

static inline uint64_t live_in(vram_pool *pool) {
    return stats_of(pool).live_blocks;
}

static inline vram_pool *pool_of(struct rig *rig, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .flags = flags};
    vram_pool *pool;
    assert_ok(test_pool_create(rig->device, &options, &pool));
    return pool;
}

typedef vram_status part_fn(struct rig *rig, vram_pool *pool);

/* One run of the part; whether a fault struck. */
static inline bool fail_one_call(part_fn *part, const char *sim, int32_t code, vram_sim_lie lie,
                                 bool for_ever, uint64_t nth) {
    struct rig rig = rig_make("sim", sim);
    vram_pool *pool = pool_of(&rig, 0);
    vram_log_set(lie ? NULL : on_log, NULL,
                 VRAM_LOG_ERROR); /* a false success is logged as an error */
    if (code || lie) {
        vram_sim_fault plan = {
            .size = sizeof plan, .nth = nth, .for_ever = for_ever, .code = code, .lie = lie};
        assert_ok(vram_sim_fault_set(rig.context, &plan));
    } else {
        vr_mem_fail_at(nth, for_ever);
    }
    vram_error_clear();
    vram_status status = part(&rig, pool);
    bool struck = sim_state(&rig).faults + vr_mem_failed() > 0;
    if (status != VRAM_OK) {
        assert_true(struck);
        assert_int_equal(vram_error_get()->status, status);
    }
    vr_mem_fail_at(0, false);
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_int_equal(live_in(pool), 0);
    assert_int_equal(stats_of(pool).requested_bytes, 0);
    rig_end_clean(&rig);
    return struck;
}

static inline void fail_every_call(part_fn *part, const char *sim) {
    static const struct {
        int32_t code; /* of the driver; 0: a lie, or the host's memory */
        vram_sim_lie lie;
    } faults[] = {{0, 0},
                  {VRAM_SIM_OUT_OF_MEMORY, 0},
                  {9999, 0},
                  {0, VRAM_SIM_LIE_NULL},
                  {0, VRAM_SIM_LIE_MISALIGNED},
                  {0, VRAM_SIM_LIE_OVERLAP}};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            uint64_t nth = 1;
            while (fail_one_call(part, sim, faults[i].code, faults[i].lie, for_ever, nth)) {
                nth += FAULT_STEP;
                assert_true(nth < 2000);
            }
            assert_true(nth > 1 || faults[i].lie); /* there was something to fail */
        }
    }
}

#endif
