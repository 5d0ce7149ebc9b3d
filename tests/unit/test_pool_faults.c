/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_faults.c: pools when host memory, the driver or a provider fails them. Every call fails
 * in turn, in every kind of pool; then the scenes that such loops meet only by chance, each by
 * itself.
 */
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

static struct rig rig_make(const char *sim) {
    struct rig rig = {.pool = NULL};
    vram_context_options wanted = {.size = sizeof wanted, .backends = "sim", .sim = sim};
    assert_ok(vram_context_create(&wanted, &rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.other));
    return rig;
}

static struct rig rig_with_pool(const char *sim, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .flags = flags};
    struct rig rig = rig_make(sim);
    assert_ok(vram_pool_create(rig.device, &options, &rig.pool));
    return rig;
}

static vram_sim_state sim_state(const struct rig *rig) {
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_sim_state_get(rig->context, &state));
    return state;
}

static void fault(const struct rig *rig, vram_sim_call call, bool for_ever, int32_t code) {
    vram_sim_fault planned = {
        .size = sizeof planned, .call = call, .nth = 1, .for_ever = for_ever, .code = code};
    assert_ok(vram_sim_fault_set(rig->context, code ? &planned : NULL));
}

/* `complete`: the driver has taken everything back. */
static void rig_end(struct rig *rig, bool complete) {
    char text[200] = "";
    vram_device_close(rig->device);
    vram_sim_violation(rig->context, 0, text, sizeof text);
    assert_string_equal(text, "");
    if (complete) {
        assert_int_equal(sim_state(rig).live_bytes, 0);
        assert_int_equal(sim_state(rig).live_handles, 0);
    }
    vram_context_destroy(rig->context);
}

/* ------------------------------------------------------------- frees that have no memory */

/* A queue that the pool has never seen, and no host memory to note it down: the free succeeds, and
   the block is nobody else's before that queue's work is over. */
TEST(a_free_needs_no_memory) {
    vram_addr addr, again = 0;
    uint8_t found[64];
    struct rig rig = rig_with_pool("memory=64M,lag=40,seed=5", 0);
    for (int round = 0; round < 6; round++) {
        vram_queue *fresh;
        assert_ok(vram_queue_create(rig.device, NULL, &fresh));
        assert_ok(vram_alloc(rig.pool, 40 * MIB, rig.queue, &addr));
        assert_ok(vram_queue_fill(fresh, addr, 0xAA, 1, 40 * MIB));
        vram_error_clear();
        vr_mem_fail_at(1, true);
        assert_ok(vram_free(addr, fresh));
        assert_true(vr_mem_failed() > 0);
        vr_mem_fail_at(0, false);
        assert_int_equal(vram_error_get()->status, VRAM_OK);
        assert_int_equal(vram_free(addr, fresh), VRAM_ERR_INVALID);
        if (round % 3 == 0) {
            vram_queue_destroy(fresh); /* what is owed to a queue that ended is settled */
        }
        /* There is no room for two: the second block is made of the first one's memory. */
        assert_ok(vram_alloc(rig.pool, 40 * MIB, rig.queue, &again));
        assert_ok(vram_queue_fill(rig.queue, again, 0x55, 1, 40 * MIB));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        if (round % 3) {
            assert_ok(vram_queue_wait(fresh, VRAM_TIMEOUT_DEFAULT));
        }
        assert_ok(vram_queue_download(rig.queue, found, again, sizeof found));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        for (size_t i = 0; i < sizeof found; i++) {
            assert_int_equal(found[i], 0x55);
        }
        assert_ok(vram_free(again, rig.queue));
    }
    rig_end(&rig, true);
}

/* The pool ends while such blocks wait: after the work of their queues, and not before. */
TEST(pools_end_after_what_they_owe) {
    vram_addr addr;
    for (int ended = 0; ended < 2; ended++) {
        struct rig rig = rig_with_pool("memory=64M,lag=100,seed=3", 0);
        assert_ok(vram_alloc(rig.pool, 4 * MIB, rig.queue, &addr));
        assert_ok(vram_queue_fill(rig.other, addr, 1, 1, 4 * MIB));
        vr_mem_fail_at(1, true);
        assert_ok(vram_free(addr, rig.other));
        vr_mem_fail_at(0, false);
        if (ended) {
            vram_queue_destroy(rig.other);
        }
        assert_ok(vram_pool_destroy(rig.pool));
        assert_int_equal(sim_state(&rig).violations, 0); /* nothing was unmapped under work */
        rig_end(&rig, true);
    }
}

/* -------------------------------------------------------------- drivers that take nothing back */

static unsigned errors_logged;

static void count_errors(void *user, vram_log_level level, const char *text) {
    (void)user, (void)text;
    errors_logged += level == VRAM_LOG_ERROR;
}

/* The pool ends all the same and the log says what is left; what the device holds stays counted. */
TEST(stubborn_drivers_are_told_of) {
    static const struct {
        vram_sim_call call;
        uint32_t flags;
        bool holds; /* memory, not only addresses */
    } scenes[] = {
        {VRAM_SIM_RELEASE, 0, true},
        {VRAM_SIM_UNMAP, 0, true},
        {VRAM_SIM_UNRESERVE, 0, false},
        {VRAM_SIM_FREE, VRAM_POOL_SEGMENTS, true},
    };
    vram_log_set(count_errors, NULL, VRAM_LOG_ERROR);
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        struct rig rig = rig_with_pool("memory=64M", scenes[i].flags);
        vram_memory_info info = {.size = sizeof info};
        vram_addr addr;
        assert_ok(vram_alloc(rig.pool, 4 * MIB, rig.queue, &addr));
        errors_logged = 0;
        fault(&rig, scenes[i].call, true, 9999);
        assert_ok(vram_pool_destroy(rig.pool));
        assert_true(errors_logged > 0);
        assert_ok(vram_memory_info_get(rig.device, &info));
        assert_int_equal(info.held_bytes, sim_state(&rig).live_bytes);
        assert_true(scenes[i].holds == (info.held_bytes > 0));
        fault(&rig, scenes[i].call, false, 0);
        rig_end(&rig, false);
    }
}
