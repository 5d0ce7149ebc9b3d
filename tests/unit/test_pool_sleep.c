/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_sleep.c: pools that give their memory back and keep their addresses. Contents are
 * compared through the simulated device; then every step of falling asleep and of waking fails in
 * turn.
 */
#include "unit/sleep_world.h"
#include "unit/test_time.h"

/* ------------------------------------------------------------------ whole pools */

/* Without page-locked memory contents go through ordinary memory, which is no error; but what the
   program wants page-locked is refused. */
TEST(sleep_without_page_locked_memory) {
    assert_ok(vram_option_set("staging_threads", "2"));
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, rig.pool);
    struct vr_device *device = &pool->device->base;
    vram_sim_fault refused = {.size = sizeof refused,
                              .call = VRAM_SIM_PINNED_REGISTER,
                              .nth = 1,
                              .for_ever = true,
                              .code = VRAM_SIM_OUT_OF_MEMORY};
    fill(&rig);
    assert_ok(vram_sim_fault_set(rig.context, &refused));
    vram_error_clear();
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_ok(vram_pool_wake(rig.pool, NULL));
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_int_not_equal(put_to_sleep(&rig, VRAM_SLEEP_PINNED, NULL), VRAM_OK);
    assert_true(is_usable(&rig, 0));
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    const struct vr_pinned_ops *pinned = device->pinned;
    device->pinned = NULL;
    assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_PINNED, NULL), VRAM_ERR_UNSUPPORTED);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    device->pinned = pinned;
    for (int i = 0; i < BLOCKS; i++) {
        expect_contents(&rig, i);
    }
    vr_handle_unpin(pool->object.handle);
    rig_end(&rig, true);
}

/* ------------------------------------------------------------------------ tags */

/* The program chooses the order: what it wakes first is awake although memory is too short for the
   rest, which sleeps on with its contents and wakes when there is memory again. */
TEST(the_first_tag_to_wake_gets_the_memory) {
    static const char *const order[3] = {"cache", "model/b", "model/a"};
    vram_addr addrs[3];
    uint8_t found = 0;
    struct rig rig = rig_make("memory=8M,granule=256K", 0);
    for (int i = 0; i < 3; i++) {
        vram_alloc_options wish = {.size = sizeof wish, .tag = order[i]};
        assert_ok(vram_alloc_with(rig.pool, 2 * MIB, rig.queue, &wish, &addrs[i]));
        assert_ok(vram_queue_fill(rig.queue, addrs[i], (uint32_t)(i + 1), 1, 2 * MIB));
    }
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_sim_others_set(rig.context, 0, 3 * MIB + 512 * KIB)); /* memory for two */
    for (int i = 2; i >= 0; i--) {
        vram_status status = vram_pool_wake(rig.pool, order[i]);
        assert_int_equal(status, i ? VRAM_OK : VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(native_of(addrs[i]), i ? VRAM_OK : VRAM_ERR_BUSY);
        spaces_are_sound(&rig);
    }
    assert_int_equal(vram_pool_wake(rig.pool, "model"), VRAM_ERR_INVALID); /* it is awake */
    assert_ok(vram_sim_others_set(rig.context, 0, 0));
    assert_ok(vram_pool_wake(rig.pool, "cache"));
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_queue_download(rig.queue, &found, addrs[i] + MIB, 1));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_int_equal(found, i + 1);
    }
    rig_end(&rig, true);
}

/* A block of the tag that is freed while its tag sleeps, by a thread with a cache. */
TEST(sleeping_blocks_stay_out_of_caches) {
    vram_addr mine, other, addr;
    vram_alloc_options wish = {.size = sizeof wish, .tag = "mine"};
    struct rig rig = rig_make("memory=8M,granule=256K", 0);
    assert_ok(vram_alloc_with(rig.pool, 512 * KIB, rig.queue, &wish, &mine));
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, "mine"));
    for (int i = 0; i < 40; i++) { /* caches come back, and keep what is awake */
        assert_ok(vram_alloc(rig.pool, 8 * KIB, rig.queue, &other));
        assert_ok(vram_free(other, rig.queue));
    }
    assert_true(stats_of(rig.pool).cache_hits > 30);
    assert_ok(vram_free(mine, rig.queue));
    assert_ok(vram_alloc(rig.pool, 512 * KIB, rig.queue, &addr));
    assert_true(addr != mine);
    assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 512 * KIB));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    assert_ok(vram_free(addr, rig.queue));
    rig_end(&rig, true);
}

/* -------------------------------------------------------------------- refusals */

TEST(a_copy_without_an_end_keeps_the_pool_awake) {
    uint8_t data[64];
    memset(data, 9, sizeof data);
    struct rig rig = rig_make("memory=2M,granule=64K,lag=10000,seed=3", 0);
    fill(&rig);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_queue_upload(rig.queue, rig.addrs[0], data, sizeof data));
        test_time_begin(0, UINT64_C(60000000000)); /* every wait is over at the second look */
        assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_HOST, i ? "model" : NULL), VRAM_ERR_TIMEOUT);
        test_time_end();
        spaces_are_sound(&rig);
        assert_int_equal(stats_of(rig.pool).asleep_bytes, 0);
        assert_int_equal(stats_of(rig.pool).sleeps, 0);
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    }
    assert_true(is_usable(&rig, 0));
    for (int i = 1; i < BLOCKS; i++) {
        expect_contents(&rig, i);
    }
    vram_addr addr;
    assert_ok(vram_alloc(rig.pool, 1 * KIB, rig.queue, &addr));
    rig_end(&rig, true);
}

EACH_TEST(NULL, nothing_left)
