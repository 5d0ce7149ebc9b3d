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

/* What the blocks will need is there before the first one. */
TEST(memory_is_taken_ahead, "sim:memory=64M") {
    for (int mode = VRAM_FEED_STAGED; mode <= VRAM_FEED_DIRECT; mode++) {
        vram_feed_options options = {
            .size = sizeof options, .mode = (vram_feed_mode)mode, .bytes = BYTES};
        vram_feed_block block;
        vram_feed *feed;
        assert_ok(vram_feed_create(rig->device, &options, &feed));
        vram_feed_stats stats = stats_of_feed(feed);
        assert_int_equal(stats.host_bytes, 2 * BYTES);
        assert_int_equal(stats.device_bytes, mode == VRAM_FEED_STAGED ? 2 * BYTES : 0);
        assert_ok(vram_feed_begin(feed, 2 * BYTES, 0, &block)); /* one of them grows */
        assert_int_equal(stats_of_feed(feed).pinned_bytes, 3 * BYTES);
        assert_int_equal(vram_feed_begin(feed, 0, 0, &block), VRAM_ERR_INVALID);
        assert_ok(vram_feed_destroy(feed));
    }
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
