/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_feed.c: blocks of host data on their way to the device. Every block has one value, and the
 * consumer's queue copies what it sees into a place of its own: a block that came early, late or
 * mixed shows there.
 */
#include "unit/gate_world.h"
#include "unit/mem_world.h"
#include "vram/feed.h"
#include "vram/transfer.h"

#define MS UINT64_C(1000000)

enum { BYTES = 20000, ROUNDS = 30 };

static vram_feed *feed_of(struct rig *rig, uint32_t slots, vram_feed_mode mode) {
    vram_feed_options options = {.size = sizeof options, .slots = slots, .mode = mode};
    vram_feed *feed;
    assert_ok(vram_feed_create(rig->device, &options, &feed));
    return feed;
}

static vram_feed_stats stats_of_feed(vram_feed *feed) {
    vram_feed_stats stats = {.size = sizeof stats};
    assert_ok(vram_feed_stats_get(feed, &stats));
    return stats;
}

static vram_addr memory_of(struct rig *rig, uint64_t bytes) {
    vram_addr addr;
    assert_ok(vram_device_alloc(rig->device, bytes, VRAM_MEMORY_DEVICE, &addr));
    return addr;
}

/* With the consumer held up: staged blocks are uploaded all the same, so that slots come free;
   direct ones wait for it. No deadline is outlived, and the handle tells when a block lies in its
   place. */
TEST(uploads_run_beside_the_consumer) {
    for (int mode = VRAM_FEED_STAGED; mode <= VRAM_FEED_DIRECT; mode++) {
        struct gate gate;
        vram_feed_block block;
        vram_async async[2];
        struct rig rig = rig_make("host", NULL);
        vram_feed *feed = feed_of(&rig, 2, (vram_feed_mode)mode);
        vram_addr target = memory_of(&rig, BYTES);
        gate_shut(rig.device, rig.queue, &gate);
        for (int i = 0; i < 2; i++) {
            assert_ok(vram_feed_begin(feed, BYTES, 30 * SECOND, &block));
            memset(block.data, i + 1, BYTES);
            assert_ok(vram_feed_submit(feed, rig.queue, target, block.number, BYTES, &async[i]));
        }
        vram_status status = VRAM_OK;
        assert_took(status = vram_feed_begin(
                        feed, BYTES, mode == VRAM_FEED_STAGED ? 10 * SECOND : 20 * MS, &block),
                    0, 5 * SECOND);
        assert_int_equal(status, mode == VRAM_FEED_STAGED ? VRAM_OK : VRAM_ERR_TIMEOUT);
        assert_int_equal(vram_async_poll(&async[0]), VRAM_ERR_NOT_READY);
        gate_open(&gate);
        assert_ok(vram_async_wait(&async[0], 10 * SECOND));
        assert_ok(vram_async_wait(&async[1], 10 * SECOND));
        uint8_t found[BYTES];
        assert_ok(vram_queue_download(rig.queue, found, target, BYTES));
        assert_ok(vram_queue_wait(rig.queue, 10 * SECOND));
        assert_int_equal(found[0], 2);
        assert_int_equal(found[BYTES - 1], 2);
        vram_feed_destroy(feed); /* with a block open */
        vram_context_destroy(rig.context);
    }
}

/* All slots in the program's hands: nobody will come and free one. */
TEST(slots_in_the_programs_hands, "sim:memory=64M") {
    vram_feed_block blocks[3];
    vram_feed *feed = feed_of(rig, 2, VRAM_FEED_STAGED);
    vram_addr target = memory_of(rig, 3 * BYTES);
    assert_ok(vram_feed_begin(feed, 100, 0, &blocks[0]));
    assert_ok(vram_feed_begin(feed, 200, 0, &blocks[1]));
    assert_took(assert_int_equal(vram_feed_begin(feed, 1, 30 * SECOND, &blocks[2]), VRAM_ERR_BUSY),
                0, 10 * SECOND);
    assert_ok(vram_feed_release(feed, blocks[0].number));
    assert_int_equal(vram_feed_release(feed, blocks[0].number), VRAM_ERR_INVALID);
    assert_ok(vram_feed_begin(feed, 3 * BYTES, 0, &blocks[2])); /* and it grows */
    assert_int_equal(blocks[2].slot, blocks[0].slot);
    memset(blocks[2].data, 5, 3 * BYTES);
    memset(blocks[1].data, 6, 200);
    assert_ok(vram_feed_submit(feed, rig->queue, target, blocks[2].number, 3 * BYTES, NULL));
    assert_ok(vram_feed_submit(feed, rig->queue, target + 1, blocks[1].number, 7, NULL));
    uint8_t found[3 * BYTES];
    assert_ok(vram_queue_download(rig->queue, found, target, sizeof found));
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    for (uint32_t i = 0; i < sizeof found; i++) {
        assert_int_equal(found[i], i >= 1 && i < 8 ? 6 : 5);
    }
    assert_int_equal(stats_of_feed(feed).host_bytes, 3 * BYTES + 200);
    vram_feed_destroy(feed);
    assert_ok(vram_device_free(rig->device, target));
}

/* Neither page-locked memory nor device memory of its own: the blocks come all the same. */
TEST(memory_may_run_short, "sim:memory=4M,lag=10") {
    vram_feed_block block;
    vram_feed *feed = feed_of(rig, 2, VRAM_FEED_STAGED);
    vram_addr target = memory_of(rig, 3 * MIB);
    static uint8_t found[3 * 1024 * 1024];
    fault(rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    vram_error_clear();
    assert_ok(vram_feed_begin(feed, 3 * MIB, 0, &block));
    assert_false(block.pinned);
    memset(block.data, 9, 3 * MIB);
    assert_ok(vram_feed_submit(feed, rig->queue, target, block.number, 3 * MIB, NULL));
    expect_no_record();
    assert_ok(vram_queue_download(rig->queue, found, target, 3 * MIB));
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    assert_int_equal(found[0], 9);
    assert_int_equal(found[3 * MIB - 1], 9);
    assert_int_equal(stats_of_feed(feed).direct, 1);
    assert_int_equal(stats_of_feed(feed).pinned_bytes, 0);
    vram_feed_destroy(feed);
    assert_ok(vram_device_free(rig->device, target));
}

TEST(a_lost_device_hangs_nobody, "sim:memory=64M,lag=100,seed=5") {
    vram_feed_block block;
    vram_async async;
    vram_feed *feed = feed_of(rig, 2, VRAM_FEED_STAGED);
    vram_addr target = memory_of(rig, BYTES);
    assert_ok(vram_feed_begin(feed, BYTES, 0, &block));
    hook_set(rig->device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_feed_submit(feed, rig->queue, target, 1, BYTES, &async));
    assert_ok(vram_feed_begin(feed, BYTES, 0, &block));
    hook.poll_answer = VRAM_OK;
    fault(rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST);
    assert_int_equal(vram_queue_poll(rig->queue), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_async_wait(&async, 30 * SECOND), VRAM_ERR_DEVICE_LOST);
    vram_async_end(&async);
    assert_int_equal(vram_feed_submit(feed, rig->queue, target, 2, BYTES, NULL),
                     VRAM_ERR_DEVICE_LOST);
    assert_took((void)vram_feed_begin(feed, BYTES, 30 * SECOND, &block), 0, 10 * SECOND);
    assert_took(vram_feed_destroy(feed), 0, 10 * SECOND);
    assert_ok(vram_device_free(rig->device, target));
}
