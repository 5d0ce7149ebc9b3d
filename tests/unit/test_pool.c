/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool.c: pools whose memory serves any size, and goes back to its own pool; pools with
 * pooling switched off (option pool), where the driver sees every call; and pools that host memory
 * or the driver fails when something is freed.
 */
#include "unit/pool_world.h"
#include "unit/whole_device.h"

#include <stdio.h>
#include <string.h>

static void fault(const struct rig *rig, vram_sim_call call, bool for_ever, int32_t code) {
    vram_sim_fault planned = {
        .size = sizeof planned, .call = call, .nth = 1, .for_ever = for_ever, .code = code};
    assert_ok(vram_sim_fault_set(rig->context, code ? &planned : NULL));
}

/* ------------------------------------------------------------------- basics */

/* Small and large blocks have a space each; neither starves while the other holds memory for
   nothing. */
TEST(free_memory_of_one_size_serves_another) {
    enum { COUNT = 1000 };
    static vram_addr addrs[COUNT];
    vram_addr large;
    for (int vmm = 0; vmm < 2; vmm++) {
        struct rig rig = rig_make(vmm ? "memory=64M" : "memory=64M,vmm=off", 0);
        whole_device(rig.device);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(vram_alloc(rig.pool, 62 * MIB, rig.queue, &large), VRAM_OK);
            assert_int_equal(vram_free(large, rig.queue), VRAM_OK);
            for (int i = 0; i < COUNT; i++) {
                assert_int_equal(vram_alloc(rig.pool, 32 * KIB, rig.queue, &addrs[i]), VRAM_OK);
            }
            for (int i = 0; i < COUNT; i++) {
                assert_int_equal(vram_free(addrs[i], rig.queue), VRAM_OK);
            }
        }
        rig_end(&rig, true);
    }
}

/* ------------------------------------------------------------------ mistakes */

/* Records of blocks go from pool to pool. What a thread remembers of one pool's blocks must not be
   taken for another's: each goes back to its own, and none twice. */
TEST(blocks_go_back_to_their_own_pool) {
    enum { COUNT = 2000 };
    static vram_addr ours[COUNT], foreign[COUNT];
    struct rig rig = rig_make("memory=1G,granule=64K", 0);
    vram_pool *other;
    assert_int_equal(vram_pool_create(rig.device, NULL, &other), VRAM_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_alloc(rig.pool, 512 * (1 + i % 3), rig.queue, &ours[i]), VRAM_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_free(ours[i], rig.queue), VRAM_OK);
    }
    assert_int_equal(vram_pool_trim(rig.pool, NULL, NULL), VRAM_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_alloc(other, 512 * (1 + i % 3), rig.queue, &foreign[i]), VRAM_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_alloc(rig.pool, 512, rig.queue, &ours[i]), VRAM_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_free(foreign[i], rig.queue), VRAM_OK);
        assert_int_equal(vram_free(ours[i], rig.queue), VRAM_OK);
        assert_int_equal(vram_free(foreign[i], rig.queue), VRAM_ERR_INVALID);
        assert_int_equal(stats_of(other).live_blocks, COUNT - 1 - i);
        assert_int_equal(stats_of(rig.pool).live_blocks, COUNT - 1 - i);
    }
    rig_end(&rig, true);
}

/* ---------------------------------------------------------- modes, providers */

/* Up to the slack a pool grows; past it free memory is moved to where it is needed. */
TEST(slack_is_the_users_choice) {
    enum { COUNT = 16 };
    assert_int_equal(vram_option_set("move_credit", "1s"), VRAM_OK);
    for (uint64_t slack = 0; slack <= 64 * MIB; slack += 64 * MIB) {
        vram_pool_options options = {.size = sizeof options, .slack_bytes = slack};
        struct rig rig = rig_make_with("sim", "memory=4G", &options);
        vram_addr addrs[COUNT], large;
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(vram_alloc(rig.pool, 2 * MIB, rig.queue, &addrs[i]), VRAM_OK);
        }
        for (int i = 0; i < COUNT; i += 2) {
            assert_int_equal(vram_free(addrs[i], rig.queue), VRAM_OK);
        }
        assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
        uint64_t reserved = stats_of(rig.pool).reserved_bytes;
        assert_int_equal(vram_alloc(rig.pool, 12 * MIB, rig.queue, &large), VRAM_OK);
        vram_pool_stats stats = stats_of(rig.pool);
        assert_true(slack ? stats.moved_handles == 0 : stats.moved_handles > 0);
        assert_true(slack ? stats.reserved_bytes > reserved + 8 * MIB
                          : stats.reserved_bytes < reserved + 8 * MIB);
        rig_end(&rig, true);
    }
}

/* ------------------------------------------------------------- pooling switched off */

/* Every allocation is one of the driver's, and every free one too; nothing is held between them. */
TEST(the_driver_sees_every_call) {
    static const uint64_t sizes[] = {0, 1, 700, 40 * 1024, 3 * 1024 * 1024 + 5};
    assert_ok(vram_option_set("pool", "off"));
    struct rig rig = rig_make("memory=64M", 0);
    uint64_t taken = 0;
    for (int round = 0; round < 3; round++) {
        vram_addr addrs[5];
        uint64_t held = 0;
        for (int i = 0; i < 5; i++) {
            assert_ok(vram_alloc(rig.pool, sizes[i], rig.queue, &addrs[i]));
            held += ((sizes[i] ? sizes[i] : 1) + 4095) / 4096 * 4096;
            assert_int_equal(stats_of(rig.pool).driver_allocs, ++taken);
            assert_int_equal(stats_of(rig.pool).reserved_bytes, held);
            assert_int_equal(sim_state(&rig).live_bytes, held);
        }
        assert_int_equal(stats_of(rig.pool).live_blocks, 5);
        assert_int_equal(stats_of(rig.pool).hits, 0);
        for (int i = 0; i < 5; i++) {
            assert_ok(vram_free(addrs[i], rig.queue));
            assert_int_equal(vram_free(addrs[i], rig.queue), VRAM_ERR_INVALID);
        }
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_free(0, rig.queue));
        vram_addr last;
        assert_ok(vram_alloc(rig.pool, 1, NULL, &last));
        taken++;
        assert_ok(vram_free(last, NULL));
        assert_int_equal(stats_of(rig.pool).driver_frees, taken);
        assert_int_equal(stats_of(rig.pool).reserved_bytes, 0);
        assert_int_equal(sim_state(&rig).live_bytes, 0);
        assert_int_equal(stats_of(rig.pool).cached_bytes, 0);
    }
    rig_end(&rig, true);
}

/* What work still uses is neither given back nor handed out again. */
TEST(work_keeps_its_memory) {
    assert_ok(vram_option_set("pool", "off"));
    for (uint32_t seed = 1; seed <= 20; seed++) {
        char sim[64];
        snprintf(sim, sizeof sim, "memory=64M,lag=60,seed=%u", seed);
        struct rig rig = rig_make(sim, seed % 2 ? VRAM_POOL_DETERMINISTIC : 0);
        for (int i = 0; i < 40; i++) {
            vram_addr addr;
            assert_ok(vram_alloc(rig.pool, 100 * KIB, rig.queue, &addr));
            assert_ok(vram_queue_fill(rig.queue, addr, 7, 1, 100 * KIB));
            if (i % 3 == 0) {
                assert_ok(vram_queue_fill(rig.other, addr, 7, 1, 100 * KIB));
                assert_ok(vram_use(addr, rig.other));
            }
            if (i % 5 == 0) {
                assert_ok(vram_pin(addr));
            }
            assert_ok(vram_free(addr, rig.queue));
            if (i % 5 == 0) {
                assert_ok(vram_unpin(addr));
            }
            assert_int_equal(sim_state(&rig).violations, 0);
        }
        rig_end(&rig, true);
    }
}

TEST(sleep_is_refused_in_words) {
    assert_ok(vram_option_set("pool", "off"));
    struct rig rig = rig_make("memory=1M", 0);
    assert_int_equal(vram_pool_sleep(rig.pool, NULL), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "option pool"));
    rig_end(&rig, true);
}

/* ------------------------------------------------------------- frees that have no memory */

/* A queue that the pool has never seen, and no host memory to note it down: the free succeeds, and
   the block is nobody else's before that queue's work is over. */
TEST(a_free_needs_no_memory) {
    vram_addr addr, again = 0;
    uint8_t found[64];
    struct rig rig = rig_make("memory=64M,lag=40,seed=5", 0);
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
        struct rig rig = rig_make("memory=64M,lag=100,seed=3", 0);
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
        struct rig rig = rig_make("memory=64M", scenes[i].flags);
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
