/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool.c: what a pool promises its users: distinct and aligned blocks, mistakes found out,
 * memory reused in the time of queues, nothing left at the end.
 */
#include "byte_units.h"
#include "rig/rig.h"
#include "unit/stats_of.h"
#include "vram/pool.h"
#include "vram/vram.h"

#include "unit/whole_device.h"

struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *other;
    vram_pool *pool;
};

static struct rig rig_make_with(const char *backend, const char *sim,
                                const vram_pool_options *options) {
    struct rig rig;
    vram_context_options wanted = {.size = sizeof wanted, .backends = backend, .sim = sim};
    assert_int_equal(vram_context_create(&wanted, &rig.context), VRAM_OK);
    assert_int_equal(vram_device_open(rig.context, 0, &rig.device), VRAM_OK);
    assert_int_equal(vram_queue_create(rig.device, NULL, &rig.queue), VRAM_OK);
    assert_int_equal(vram_queue_create(rig.device, NULL, &rig.other), VRAM_OK);
    whole_device(rig.device);
    assert_int_equal(vram_pool_create(rig.device, options, &rig.pool), VRAM_OK);
    return rig;
}

static struct rig rig_make(const char *sim) {
    return rig_make_with("sim", sim, NULL);
}

static void rig_end(struct rig *rig) {
    vram_device_close(rig->device);
    vram_sim_state state = {.size = sizeof state};
    if (vram_sim_state_get(rig->context, &state) == VRAM_OK) {
        char text[200] = "";
        vram_sim_violation(rig->context, 0, text, sizeof text);
        assert_string_equal(text, "");
        assert_int_equal(state.live_bytes, 0);
        assert_int_equal(state.live_handles, 0);
    }
    vram_context_destroy(rig->context);
}

/* ------------------------------------------------------------------- basics */

/* Small and large blocks have a space each; neither starves while the other holds memory for
   nothing. */
TEST(free_memory_of_one_size_serves_another) {
    enum { COUNT = 1000 };
    static vram_addr addrs[COUNT];
    vram_addr large;
    for (int vmm = 0; vmm < 2; vmm++) {
        struct rig rig = rig_make(vmm ? "memory=64M" : "memory=64M,vmm=off");
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
        rig_end(&rig);
    }
}

/* ------------------------------------------------------------------ mistakes */

/* Records of blocks go from pool to pool. What a thread remembers of one pool's blocks must not be
   taken for another's: each goes back to its own, and none twice. */
TEST(blocks_go_back_to_their_own_pool) {
    enum { COUNT = 2000 };
    static vram_addr ours[COUNT], foreign[COUNT];
    struct rig rig = rig_make("memory=1G,granule=64K");
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
    rig_end(&rig);
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
        rig_end(&rig);
    }
}
