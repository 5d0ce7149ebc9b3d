/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_failed_copies.c: the queue of a copy is destroyed while the driver takes the copy. Whether
 * the call then succeeds or fails, it leaves nothing behind: no copy that writes later, and no
 * memory.
 */
#include "unit/queue_ender.h"
#include "vram/vram.h"
#include "xfer/flight.h"

enum { BYTES = 512 << 10, SMALL = 4096 };

static unsigned char source[BYTES], target[BYTES];

/* Blocks that the library has of its own pool of page-locked memory. */
static uint64_t own_blocks(vram_device *handle) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, handle);
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(vr_flight_pinned(device), &stats));
    vr_leave(device);
    return stats.live_blocks;
}

/* ------------------------------------------------------------------------ copies */

static const vram_transfer_options sync_options = {.size = sizeof sync_options,
                                                   .strategy = VRAM_TRANSFER_SYNC};

/* No page-locked memory can be had: the driver writes the program's own. */
TEST(a_download_that_failed_writes_nothing) {
    for (int bytes = SMALL; bytes <= BYTES; bytes += BYTES - SMALL) {
        vram_addr addr;
        struct rig rig = rig_make("sim", "memory=64M,lag=60");
        assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &addr));
        assert_ok(vram_queue_fill(rig.queue, addr, 7, 1, BYTES));
        fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, 2);
        ender_set(rig.device, rig.queue, AFTER_COPY);
        memset(target, 0, sizeof target);
        vram_status status =
            vram_transfer_download(rig.queue, target, addr, (uint64_t)bytes, &sync_options, NULL);
        unsigned char expected = status == VRAM_OK ? 7 : 0xEE;
        if (status != VRAM_OK) {
            memset(target, 0xEE, sizeof target);
        }
        ender_join();
        for (int i = 0; i < bytes; i++) {
            assert_int_equal(target[i], expected);
        }
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        rig_end_clean(&rig);
    }
}

TEST(an_upload_leaves_no_copy_behind, "sim:memory=64M,lag=60") {
    vram_addr addr;
    assert_ok(vram_device_alloc(rig->device, BYTES, VRAM_MEMORY_DEVICE, &addr));
    ender_set(rig->device, rig->queue, AFTER_COPY);
    vram_status status = vram_transfer_upload(rig->queue, addr, source, BYTES, &sync_options, NULL);
    assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
    assert_ok(vram_device_free(rig->device, addr)); /* the driver sees whether work uses it */
    expect_protocol(rig);
    ender_join();
}

TEST(a_list_leaves_no_memory_behind, "sim:memory=64M,lag=60") {
    vram_addr addr;
    vram_copy copies[8];
    assert_ok(vram_device_alloc(rig->device, BYTES, VRAM_MEMORY_DEVICE, &addr));
    for (unsigned i = 0; i < 8;
         i++) { /* adjacent targets, separate sources: the copies are gathered */
        copies[i] = (vram_copy){
            .to = addr + i * 256, .from_host = source + i * (uint64_t)1024, .bytes = 256};
    }
    ender_set(rig->device, rig->queue, AFTER_COPY);
    vram_status status = vram_transfer_batch(rig->queue, copies, 8, NULL, NULL);
    assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
    ender_join();
    assert_int_equal(own_blocks(rig->device), 0);
}

TEST(a_bridge_leaves_no_memory_behind) {
    for (int both = 0; both < 2; both++) {
        vram_addr to, from;
        struct rig rig = rig_make("sim", "memory=64M,lag=60,devices=2");
        assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &to));
        assert_ok(vram_device_alloc(rig.other, BYTES, VRAM_MEMORY_DEVICE, &from));
        ender_set(both ? rig.other : rig.device, rig.queue,
                  AFTER_COPY); /* in the read, or in the write */
        vram_status status = vram_transfer_copy(rig.queue, to, from, BYTES, &sync_options, NULL);
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        ender_join();
        assert_int_equal(own_blocks(rig.device), 0);
        rig_end_clean(&rig);
    }
}

/* The caller's queue is idle, and nobody knows of the other one, which fills the block: it is kept
   until the device is closed. */
TEST(a_bridge_keeps_what_is_read_into) {
    vram_addr to, from;
    assert_ok(vram_option_set("wait_timeout", "200ms"));
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &to));
    assert_ok(vram_device_alloc(rig.other, BYTES, VRAM_MEMORY_DEVICE, &from));
    hook_set(rig.other);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    fault(&rig, VRAM_SIM_UPLOAD, 1, true, 9999);
    assert_int_equal(vram_transfer_copy(rig.queue, to, from, BYTES, &sync_options, NULL),
                     VRAM_ERR_BACKEND);
    assert_int_equal(own_blocks(rig.device), 1);
    hook.poll_answer = VRAM_OK;
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------- feeds, readbacks */

TEST(a_block_arrives_or_does_not) {
    for (int mode = VRAM_FEED_STAGED; mode <= VRAM_FEED_DIRECT; mode++) {
        vram_addr addr;
        vram_feed *feed;
        vram_feed_block block;
        struct rig rig = rig_make("sim", "memory=64M,lag=60");
        vram_feed_options options = {.size = sizeof options, .mode = (vram_feed_mode)mode};
        assert_ok(vram_device_alloc(rig.device, SMALL, VRAM_MEMORY_DEVICE, &addr));
        assert_ok(vram_feed_create(rig.device, &options, &feed));
        assert_ok(vram_feed_begin(feed, SMALL, 0, &block));
        ender_set(rig.device, rig.queue, AFTER_COPY);
        vram_status status = vram_feed_submit(feed, rig.queue, addr, block.number, SMALL, NULL);
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        if (status != VRAM_OK) { /* nothing of it uses that memory any more */
            assert_ok(vram_device_free(rig.device, addr));
            expect_protocol(&rig);
            assert_ok(vram_feed_release(feed, block.number));
        }
        ender_join();
        vram_feed_destroy(feed);
        rig_end_clean(&rig);
    }
}

TEST(a_frame_that_failed_reads_nothing) {
    for (int mode = VRAM_READBACK_SNAPSHOT; mode <= VRAM_READBACK_HOLD; mode++) {
        vram_addr addr;
        vram_readback *readback;
        struct rig rig = rig_make("sim", "memory=64M,lag=60");
        vram_readback_options options = {.size = sizeof options, .mode = (vram_readback_mode)mode};
        assert_ok(vram_device_alloc(rig.device, SMALL, VRAM_MEMORY_DEVICE, &addr));
        assert_ok(vram_readback_create(rig.device, &options, &readback));
        ender_set(rig.device, rig.queue, AFTER_COPY);
        vram_status status = vram_readback_start(readback, rig.queue, addr, SMALL, NULL);
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        if (status != VRAM_OK) {
            assert_ok(vram_device_free(rig.device, addr));
            expect_protocol(&rig);
        }
        ender_join();
        vram_readback_destroy(readback);
        rig_end_clean(&rig);
    }
}
