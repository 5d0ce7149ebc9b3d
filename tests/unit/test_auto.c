/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_auto.c: objects that end with the block of code they were declared in, on every way out of
 * it.
 */
#include "unit/mem_world.h"
#include "unit/pool_flags.h"
#include "vram/auto.h"
#include "vram/compute.h"
#include "vram/transfer.h"

/* How far to come before giving up. */
enum { STEPS = 6 };

static vram_status give_up(int at, int step) {
    return at == step ? vr_fail_in(VRAM_ERR_TIMEOUT, "work", "gave up at step %d", step) : VRAM_OK;
}

static vram_status work(vram_device *device, int step, vram_pool **kept) {
    VRAM_AUTO(vram_queue) *queue = NULL;
    VRAM_TRY(vram_queue_create(device, NULL, &queue));
    VRAM_TRY(give_up(0, step));
    VRAM_AUTO(vram_pool) *pool = NULL;
    VRAM_TRY(test_pool_create(device, NULL, &pool));
    VRAM_TRY(give_up(1, step));
    VRAM_AUTO(vram_auto_block) block = {pool, 0, queue};
    VRAM_TRY(vram_alloc(pool, 5000, queue, &block.addr));
    VRAM_TRY(give_up(2, step));
    VRAM_AUTO(vram_buffer) *buffer = NULL;
    VRAM_TRY(vram_buffer_create(pool, 5000, queue, NULL, &buffer));
    VRAM_TRY(give_up(3, step));
    VRAM_AUTO(vram_scope) *scope = NULL;
    VRAM_TRY(vram_scope_begin(pool, NULL, &scope));
    VRAM_TRY(vram_scope_alloc(scope, 5000, queue, &(vram_addr){0}));
    VRAM_TRY(give_up(4, step));
    VRAM_AUTO(vram_batch) *batch = NULL;
    VRAM_TRY(vram_batch_create(pool, queue, NULL, &batch));
    vram_batch_item item = {.size = sizeof item, .elements = 5000};
    VRAM_TRY(vram_batch_add(batch, &item, 1, &(uint32_t){0}));
    VRAM_TRY(give_up(5, step));
    assert_int_equal(live_in(pool), 4);
    *kept = VRAM_AUTO_TAKE(pool);
    assert_null(pool);
    return VRAM_OK;
}

TEST(every_way_out) {
    SKIP_UNDER(TEST_POOL_GUARDS, false,
               "such a pool has a queue of its own, which counts as an object");
    for (int step = 0; step <= STEPS; step++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *kept = NULL;
        uint64_t before = vr_handle_live(0);
        vram_status status = work(rig.device, step, &kept);
        assert_int_equal(status, step < STEPS ? VRAM_ERR_TIMEOUT : VRAM_OK);
        assert_int_equal(vr_handle_live(0), before + (step == STEPS)); /* the pool that was kept */
        if (step < STEPS) { /* what failed can still be read */
            assert_null(kept);
            assert_int_equal(vram_error_get()->status, VRAM_ERR_TIMEOUT);
            assert_non_null(strstr(vram_error_get()->text, "gave up"));
        } else {
            assert_int_equal(live_in(kept), 0);
            assert_ok(vram_pool_destroy(kept));
        }
        rig_end_clean(&rig);
    }
}

/* What moves data and computes: each ends on every way out, in front of what it stands on. */
enum { MOVING_STEPS = 8 };

static vram_status moving(struct rig *rig, vram_pool *pool, int step) {
    static uint8_t own[1 << 16];
    VRAM_AUTO(vram_stream_set) *set = NULL;
    VRAM_TRY(vram_stream_set_create(rig->device, NULL, &set));
    VRAM_TRY(give_up(0, step));
    VRAM_AUTO(vram_auto_block) source = {pool, 0, rig->queue};
    VRAM_TRY(vram_alloc(pool, 4096, rig->queue, &source.addr));
    VRAM_AUTO(vram_readback) *readback = NULL;
    VRAM_TRY(vram_readback_create(rig->device, NULL, &readback));
    VRAM_TRY(vram_readback_start(readback, rig->queue, source.addr, 4096, NULL));
    VRAM_TRY(vram_readback_wait(readback, 0, VRAM_TIMEOUT_DEFAULT));
    VRAM_AUTO(vram_auto_frame) frame = {readback, {0}};
    VRAM_TRY(vram_readback_latest(readback, &frame.frame));
    VRAM_TRY(give_up(1, step));
    VRAM_AUTO(vram_feed) *feed = NULL;
    VRAM_TRY(vram_feed_create(rig->device, NULL, &feed));
    VRAM_AUTO(vram_auto_feed_block) block = {feed, {0}};
    VRAM_TRY(vram_feed_begin(feed, 4096, 0, &block.block));
    VRAM_TRY(give_up(2, step));
    VRAM_AUTO(vram_async) copy = {{0}};
    VRAM_TRY(vram_transfer_upload(rig->queue, source.addr, own, 4096, NULL, &copy));
    VRAM_TRY(give_up(3, step));
    VRAM_AUTO(vram_ring) *ring = NULL;
    VRAM_TRY(vram_ring_create(pool, NULL, &ring));
    VRAM_TRY(give_up(4, step));
    VRAM_AUTO(vram_scheduler) *scheduler = NULL;
    VRAM_TRY(vram_scheduler_create(pool, NULL, &scheduler));
    VRAM_AUTO(vram_weights) *weights = NULL;
    const vram_weights_options shape = {.size = sizeof shape, .k = 8, .n = 8, .b = own};
    VRAM_TRY(vram_weights_create(scheduler, &shape, &weights));
    VRAM_TRY(give_up(5, step));
    VRAM_AUTO(vram_labels) *labels = NULL;
    VRAM_TRY(vram_labels_create(NULL, &labels));
    VRAM_TRY(give_up(6, step));
    VRAM_AUTO(vram_auto_pinned) pinned = {rig->device, NULL, sizeof own};
    VRAM_TRY(vram_pinned_begin(rig->device, own, sizeof own));
    pinned.memory = own;
    VRAM_TRY(give_up(7, step));
    return VRAM_OK;
}

/* All handles but those of the library's own: work that was given up goes on, and devices keep
   lists of it. */
static uint64_t held_by_programs(void) {
    return vr_handle_live(0) - vr_handle_live(VR_KIND_ASYNC) - vr_handle_live(VR_KIND_FLIGHT) -
           vr_handle_live(VR_KIND_STAGING);
}

TEST(every_way_out_of_moving) {
    for (int step = 0; step <= MOVING_STEPS; step++) {
        struct rig rig = rig_make("host", NULL);
        vram_pool *pool = pool_of(&rig, 0);
        uint64_t before = held_by_programs();
        vram_status status = moving(&rig, pool, step);
        assert_int_equal(status, step < MOVING_STEPS ? VRAM_ERR_TIMEOUT : VRAM_OK);
        assert_true(step == MOVING_STEPS || strstr(vram_error_get()->text, "gave up") != NULL);
        assert_int_equal(held_by_programs(), before);
        assert_int_equal(live_in(pool), 0);
        assert_ok(vram_pool_destroy(pool));
        vram_context_destroy(rig.context);
    }
}

/* What has ended otherwise is passed over, and NULL is nothing. */
TEST(ended_before, "sim:memory=1G") {
    vram_pool *pool = pool_of(rig, 0);
    vram_error_clear();
    {
        VRAM_AUTO(vram_buffer) *buffer = NULL;
        VRAM_AUTO(vram_scope) *scope = NULL;
        VRAM_AUTO(vram_auto_block) block = {pool, 0, NULL};
        assert_ok(vram_buffer_create(pool, 100, NULL, NULL, &buffer));
        assert_ok(vram_scope_begin(pool, NULL, &scope));
        assert_ok(vram_alloc(pool, 100, NULL, &block.addr));
        assert_ok(vram_pool_destroy(pool));
    }
    expect_no_record();
    {
        VRAM_AUTO(vram_context) *context = NULL;
        VRAM_AUTO(vram_device) *device = NULL;
        VRAM_AUTO(vram_queue) *queue = NULL;
        VRAM_AUTO(vram_kernel) *kernel = NULL;
        VRAM_AUTO(vram_pool) *nothing = NULL;
        VRAM_AUTO(vram_batch) *batch = NULL;
        VRAM_AUTO(vram_named) *named = NULL;
        VRAM_AUTO(vram_stream_set) *set = NULL;
        VRAM_AUTO(vram_readback) *readback = NULL;
        VRAM_AUTO(vram_feed) *feed = NULL;
        VRAM_AUTO(vram_ring) *ring = NULL;
        VRAM_AUTO(vram_scheduler) *scheduler = NULL;
        VRAM_AUTO(vram_weights) *weights = NULL;
        VRAM_AUTO(vram_labels) *labels = NULL;
        VRAM_AUTO(vram_async) async = {{0}};
        VRAM_AUTO(vram_auto_frame) frame = {readback, {0}};
        VRAM_AUTO(vram_auto_feed_block) block = {feed, {0}};
        VRAM_AUTO(vram_auto_pinned) pinned = {NULL, NULL, 0};
        assert_true(!set && !readback && !feed && !ring && !scheduler && !weights && !labels);
        assert_true(!async.word[0] && !frame.frame.number && !block.block.number && !pinned.memory);
        assert_true(!context && !device && !queue && !kernel && !nothing && !batch && !named);
    }
    expect_no_record();
    vram_context_auto_end(NULL);
    vram_device_auto_end(NULL);
    vram_queue_auto_end(NULL);
    vram_kernel_auto_end(NULL);
    vram_pool_auto_end(NULL);
    vram_buffer_auto_end(NULL);
    vram_scope_auto_end(NULL);
    vram_batch_auto_end(NULL);
    vram_named_auto_end(NULL);
    vram_auto_block_auto_end(NULL);
    vram_stream_set_auto_end(NULL);
    vram_readback_auto_end(NULL);
    vram_feed_auto_end(NULL);
    vram_ring_auto_end(NULL);
    vram_scheduler_auto_end(NULL);
    vram_weights_auto_end(NULL);
    vram_labels_auto_end(NULL);
    vram_async_auto_end(NULL);
    vram_auto_frame_auto_end(NULL);
    vram_auto_feed_block_auto_end(NULL);
    vram_auto_pinned_auto_end(NULL);
    expect_no_record();
}

/* A block whose queue has ended is freed all the same. */
TEST(a_block_outlives_its_queue, "sim:memory=64M") {
    vram_auto_block block = {.pool = pool_of(rig, 0), .queue = rig->queue};
    assert_ok(vram_alloc(block.pool, 5000, rig->queue, &block.addr));
    assert_ok(vram_queue_destroy(rig->queue));
    vram_error_clear();
    vram_auto_block_auto_end(&block);
    expect_no_record();
    assert_int_equal(live_in(block.pool), 0);
}

/* Queues of the program's own are left to it, but not adopted any more. */
TEST(adopted_queues, "sim:memory=1G") {
    void *native;
    assert_ok(vram_queue_native(rig->queue, &native));
    uint64_t before = vr_handle_live(VR_KIND_QUEUE);
    {
        VRAM_AUTO(vram_queue) *queue = NULL;
        assert_ok(vram_queue_adopt(rig->device, native, &queue));
    }
    assert_int_equal(vr_handle_live(VR_KIND_QUEUE), before);
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
}
