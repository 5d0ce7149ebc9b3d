/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_exiting.c: calls of a process that is exiting. No driver is called from then on: what waits
 * stops, what ends an object does nothing, everything else is refused. Exit begins inside a call of
 * the driver (the hook), before a call, or between the end of an object and its last reference; the
 * test takes it back afterwards and finds all as it was.
 */
#include "unit/mem_world.h"
#include "unit/transfer_world.h"
#include "vram/extension.h"
#include "vram/vram.h"

static void exit_begins(void *argument) {
    (void)argument;
    vr_os_exit_begins();
}

/* The test goes on where a process would not. */
static void exit_ends(void) {
    assert_true(vr_os_exiting());
    vr_store(&vr_os_exit_began, false, VR_SEQ_CST);
    vram_error_clear();
}

/* A handle of work that does not end. */
static vram_async async_pending(struct rig *rig) {
    vram_async async;
    vram_point point;
    hook_set(rig->device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_mark(rig->queue, &point));
    assert_ok(vram_async_of_point(point, "work", &async));
    return async;
}

TEST(waits_stop, "sim:memory=64M,lag=1000") {
    size_t index = 77;
    vram_async async = async_pending(rig);
    hook.meanwhile = exit_begins;
    assert_int_equal(vram_async_wait(&async, 60 * SECOND), VRAM_ERR_SHUTDOWN);
    exit_ends();
    hook.meanwhile = exit_begins;
    assert_int_equal(vram_async_wait_any(&async, 1, 60 * SECOND, &index), VRAM_ERR_SHUTDOWN);
    assert_int_equal(index, 77);
    exit_ends();
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
}

/* What ends something does nothing; the rest is refused. */
TEST(calls_are_refused, "sim:memory=64M") {
    vram_async async, other;
    vram_async_work *work;
    vram_physical *physical;
    vram_addr range, block;
    vram_point point;
    vram_pool *pool = pool_of(rig, 0);
    assert_ok(vram_alloc(pool, 100, NULL, &block));
    assert_ok(vram_physical_create(rig->device, 2 * MIB, &physical));
    assert_ok(vram_range_create(rig->device, 2 * MIB, &range));
    assert_ok(vram_async_begin(rig->device, "work", 0, &async, &work));
    assert_ok(vram_queue_mark(rig->queue, &point));
    other = async;
    vr_os_exit_begins();
    assert_int_equal(vram_async_of_point(point, NULL, &other), VRAM_ERR_SHUTDOWN);
    assert_memory_equal(&other, &async, sizeof async);
    assert_int_equal(vram_async_finish(work, VRAM_OK), VRAM_ERR_SHUTDOWN);
    assert_ok(vram_async_end(&other));
    assert_ok(vram_physical_destroy(physical));
    assert_ok(vram_range_destroy(rig->device, range));
    exit_ends();
    assert_int_equal(stats_of(pool).live_blocks, 1);
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
    assert_ok(vram_async_finish(work, VRAM_OK));
    assert_ok(vram_async_poll(&async));
    assert_ok(vram_async_end(&async));
    assert_int_equal(vram_physical_bytes(physical), 2 * MIB);
    assert_ok(vram_physical_destroy(physical));
    assert_ok(vram_range_destroy(rig->device, range));
    assert_ok(vram_free(block, NULL));
}

/* The memory and the queue of an object whose last reference is dropped while the process exits
   stay with the device. */
TEST(last_references_call_no_driver, "sim:memory=64M") {
    vram_readback_options frames = {.size = sizeof frames, .bytes = 4096};
    vram_feed_options blocks = {.size = sizeof blocks, .bytes = 4096};
    vram_readback *readback;
    vram_feed *feed;
    vram_stream_set *set;
    assert_ok(vram_readback_create(rig->device, &frames, &readback));
    assert_ok(vram_feed_create(rig->device, &blocks, &feed));
    assert_ok(vram_stream_set_create(rig->device, NULL, &set));
    void *held[] = {vr_handle_pin(VR_KIND_READBACK, readback), vr_handle_pin(VR_KIND_FEED, feed),
                    vr_handle_pin(VR_KIND_STREAM_SET, set)};
    (void)vram_readback_destroy(readback);
    (void)vram_feed_destroy(feed);
    (void)vram_stream_set_destroy(set);
    uint64_t before = sim_state(rig).calls, live = sim_state(rig).live_bytes;
    assert_true(live > 0);
    vr_os_exit_begins();
    for (int i = 0; i < 3; i++) {
        assert_non_null(held[i]);
        vr_leave(held[i]);
    }
    exit_ends();
    assert_int_equal(sim_state(rig).calls, before);
    assert_int_equal(sim_state(rig).live_bytes, live);
}
