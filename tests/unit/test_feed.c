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

#include <pthread.h>
#include <stdio.h>

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

/* The consumer keeps a copy of what it sees before and after each submit. */
static void blocks_in_a_row(struct rig *rig, vram_feed_mode mode, uint32_t slots) {
    vram_feed *feed = feed_of(rig, slots, mode);
    vram_addr target = memory_of(rig, BYTES), seen = memory_of(rig, 2 * ROUNDS * BYTES);
    static uint8_t found[2 * ROUNDS * BYTES];
    assert_ok(vram_queue_fill(rig->queue, target, 0, 1, BYTES));
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        vram_addr place = seen + 2 * (i - 1) * (uint64_t)BYTES;
        vram_feed_block block;
        assert_ok(vram_feed_begin(feed, BYTES, 10 * SECOND, &block));
        assert_int_equal(block.number, i);
        assert_int_equal(block.bytes, BYTES);
        assert_true(block.pinned);
        memset(block.data, (int)i, BYTES);
        assert_ok(vram_queue_copy(rig->queue, place, target, BYTES));
        assert_ok(vram_feed_submit(feed, rig->queue, target, i, BYTES, NULL));
        assert_ok(vram_queue_copy(rig->queue, place + BYTES, target, BYTES));
    }
    assert_ok(vram_queue_download(rig->queue, found, seen, sizeof found));
    assert_ok(vram_queue_wait(rig->queue, 10 * SECOND));
    for (uint32_t i = 0; i < 2 * ROUNDS; i++) {
        for (uint32_t at = 0; at < BYTES; at++) {
            if (found[i * BYTES + at] != (i + 1) / 2) {
                fail_msg("look %u at %u: %u", i, at, found[i * BYTES + at]);
            }
        }
    }
    vram_feed_stats stats = stats_of_feed(feed);
    assert_int_equal(stats.submitted, ROUNDS);
    assert_int_equal(stats.bytes, ROUNDS * BYTES);
    vram_feed_destroy(feed);
    vram_transfer_stats counted = {.size = sizeof counted};
    assert_ok(
        vram_transfer_stats_get(rig->device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_FEED, &counted));
    assert_int_equal(counted.operations, ROUNDS);
    assert_int_equal(counted.bytes, ROUNDS * BYTES);
    assert_int_equal(counted.failures, 0);
    assert_ok(vram_device_free(rig->device, target));
    assert_ok(vram_device_free(rig->device, seen));
}

static void blocks_arrive_in_the_order_of_the_consumer(void **state) {
    (void)state;
    for (int mode = VRAM_FEED_STAGED; mode <= VRAM_FEED_DIRECT; mode++) {
        for (uint32_t seed = 1; seed <= 8; seed++) {
            char sim[64];
            snprintf(sim, sizeof sim, "memory=64M,lag=30,seed=%u", seed);
            struct rig rig = rig_make("sim", sim);
            blocks_in_a_row(&rig, (vram_feed_mode)mode, 2 + seed % 2);
            rig_end_clean(&rig);
        }
        struct rig rig = rig_make("host", NULL);
        blocks_in_a_row(&rig, (vram_feed_mode)mode, 2);
        vram_context_destroy(rig.context);
    }
}

/* With the consumer held up: staged blocks are uploaded all the same, so that slots come free;
   direct ones wait for it. No deadline is outlived, and the handle tells when a block lies in its
   place. */
static void uploads_run_beside_the_consumer(void **state) {
    (void)state;
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
static void slots_in_the_programs_hands(void **state) {
    vram_feed_block blocks[3];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_feed *feed = feed_of(&rig, 2, VRAM_FEED_STAGED);
    vram_addr target = memory_of(&rig, 3 * BYTES);
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
    assert_ok(vram_feed_submit(feed, rig.queue, target, blocks[2].number, 3 * BYTES, NULL));
    assert_ok(vram_feed_submit(feed, rig.queue, target + 1, blocks[1].number, 7, NULL));
    uint8_t found[3 * BYTES];
    assert_ok(vram_queue_download(rig.queue, found, target, sizeof found));
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    for (uint32_t i = 0; i < sizeof found; i++) {
        assert_int_equal(found[i], i >= 1 && i < 8 ? 6 : 5);
    }
    assert_int_equal(stats_of_feed(feed).host_bytes, 3 * BYTES + 200);
    vram_feed_destroy(feed);
    assert_ok(vram_device_free(rig.device, target));
    rig_end_clean(&rig);
}

/* Memory for blocks of a known size is there from the start; on the device only where blocks are
   copied once more there. */
static void memory_is_taken_ahead(void **state) {
    (void)state;
    for (int mode = VRAM_FEED_STAGED; mode <= VRAM_FEED_DIRECT; mode++) {
        struct rig rig = rig_make("sim", "memory=64M");
        vram_feed_options options = {
            .size = sizeof options, .slots = 2, .mode = (vram_feed_mode)mode, .bytes = BYTES};
        vram_feed *feed;
        assert_ok(vram_feed_create(rig.device, &options, &feed));
        assert_int_equal(stats_of_feed(feed).host_bytes, 2 * BYTES);
        assert_int_equal(stats_of_feed(feed).device_bytes,
                         mode == VRAM_FEED_STAGED ? 2 * BYTES : 0);
        vram_feed_destroy(feed);
        rig_end_clean(&rig);
    }
}

/* Neither page-locked memory nor device memory of its own: the blocks come all the same. */
static void memory_may_run_short(void **state) {
    vram_feed_block block;
    (void)state;
    struct rig rig = rig_make("sim", "memory=4M,lag=10");
    vram_feed *feed = feed_of(&rig, 2, VRAM_FEED_STAGED);
    vram_addr target = memory_of(&rig, 3 * MIB);
    static uint8_t found[3 * 1024 * 1024];
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    vram_error_clear();
    assert_ok(vram_feed_begin(feed, 3 * MIB, 0, &block));
    assert_false(block.pinned);
    memset(block.data, 9, 3 * MIB);
    assert_ok(vram_feed_submit(feed, rig.queue, target, block.number, 3 * MIB, NULL));
    expect_no_record();
    assert_ok(vram_queue_download(rig.queue, found, target, 3 * MIB));
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_int_equal(found[0], 9);
    assert_int_equal(found[3 * MIB - 1], 9);
    assert_int_equal(stats_of_feed(feed).direct, 1);
    assert_int_equal(stats_of_feed(feed).pinned_bytes, 0);
    vram_feed_destroy(feed);
    assert_ok(vram_device_free(rig.device, target));
    rig_end_clean(&rig);
}

/* A submit that failed leaves the block in the program's hands, to be submitted again. */
static void a_failed_submit_may_be_repeated(void **state) {
    static const vram_sim_call calls[] = {VRAM_SIM_UPLOAD, VRAM_SIM_SIGNAL, VRAM_SIM_AFTER,
                                          VRAM_SIM_COPY};
    (void)state;
    for (int mode = VRAM_FEED_STAGED; mode <= VRAM_FEED_DIRECT; mode++) {
        for (size_t i = 0; i < 4; i++) {
            for (uint64_t nth = 1; nth <= 2; nth++) {
                vram_feed_block block;
                struct rig rig = rig_make("sim", "memory=64M,lag=20");
                vram_feed *feed = feed_of(&rig, 2, (vram_feed_mode)mode);
                vram_addr target = memory_of(&rig, BYTES);
                uint8_t found[BYTES];
                assert_ok(vram_queue_fill(rig.queue, target, 1, 1, BYTES));
                assert_ok(vram_feed_begin(feed, BYTES, 0, &block));
                memset(block.data, 2, BYTES);
                fault(&rig, calls[i], nth, false, 9999);
                vram_status status =
                    vram_feed_submit(feed, rig.queue, target, block.number, BYTES, NULL);
                assert_ok(vram_sim_fault_set(rig.context, NULL));
                if (status != VRAM_OK) {
                    assert_int_equal(status, VRAM_ERR_BACKEND);
                    assert_ok(vram_feed_submit(feed, rig.queue, target, block.number, BYTES, NULL));
                }
                assert_ok(vram_queue_download(rig.queue, found, target, BYTES));
                assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
                assert_int_equal(found[0], 2);
                assert_int_equal(found[BYTES - 1], 2);
                fault(&rig, calls[i], 1, false, 9999); /* once more, and given back */
                assert_ok(vram_feed_begin(feed, BYTES, 30 * SECOND, &block));
                status = vram_feed_submit(feed, rig.queue, target, block.number, BYTES, NULL);
                assert_int_equal(vram_feed_release(feed, block.number),
                                 status == VRAM_OK ? VRAM_ERR_INVALID : VRAM_OK);
                assert_ok(vram_sim_fault_set(rig.context, NULL));
                assert_ok(vram_feed_begin(feed, BYTES, 30 * SECOND, &block));
                assert_ok(vram_feed_begin(feed, BYTES, 30 * SECOND, &block));
                vram_feed_destroy(feed);
                assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
                assert_ok(vram_device_free(rig.device, target));
                rig_end_clean(&rig);
            }
        }
    }
}

static void a_lost_device_hangs_nobody(void **state) {
    vram_feed_block block;
    vram_async async;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=100,seed=5");
    vram_feed *feed = feed_of(&rig, 2, VRAM_FEED_STAGED);
    vram_addr target = memory_of(&rig, BYTES);
    assert_ok(vram_feed_begin(feed, BYTES, 0, &block));
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_feed_submit(feed, rig.queue, target, 1, BYTES, &async));
    assert_ok(vram_feed_begin(feed, BYTES, 0, &block));
    hook.poll_answer = VRAM_OK;
    fault(&rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST);
    assert_int_equal(vram_queue_poll(rig.queue), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_async_wait(&async, 30 * SECOND), VRAM_ERR_DEVICE_LOST);
    vram_async_end(&async);
    assert_int_equal(vram_feed_submit(feed, rig.queue, target, 2, BYTES, NULL),
                     VRAM_ERR_DEVICE_LOST);
    assert_took((void)vram_feed_begin(feed, BYTES, 30 * SECOND, &block), 0, 10 * SECOND);
    assert_took(vram_feed_destroy(feed), 0, 10 * SECOND);
    assert_ok(vram_device_free(rig.device, target));
    rig_end_clean(&rig);
}

/* The end of a feed, of the consumer's queue and of the device with blocks on their way. */
static void ends_with_blocks_under_way(void **state) {
    vram_async async = {{0}};
    vram_feed_block block;
    vram_queue *consumer;
    struct gate gate;
    (void)state;
    for (int mode = VRAM_FEED_STAGED; mode <= VRAM_FEED_DIRECT; mode++) {
        struct rig rig = rig_make("sim", "memory=64M,lag=50");
        vram_feed *feed = feed_of(&rig, 3, (vram_feed_mode)mode);
        vram_addr target = memory_of(&rig, BYTES);
        assert_ok(vram_queue_create(rig.device, NULL, &consumer));
        assert_ok(vram_feed_begin(feed, BYTES, 0, &block));
        assert_ok(vram_feed_submit(feed, consumer, target, 1, BYTES, NULL));
        vram_queue_destroy(consumer);
        assert_ok(vram_feed_begin(feed, BYTES, 0, &block));
        assert_int_equal(vram_feed_submit(feed, consumer, target, 2, BYTES, NULL), VRAM_ERR_STALE);
        assert_ok(vram_feed_submit(feed, rig.queue, target, 2, BYTES, NULL));
        vram_device_close(rig.device);
        rig.device = NULL;
        assert_int_equal(vram_feed_begin(feed, BYTES, 0, &block), VRAM_ERR_STALE);
        rig_end_clean(&rig);
    }
    assert_ok(vram_option_set("wait_timeout", "1s"));
    struct rig rig = rig_make("host", NULL);
    vram_feed *feed = feed_of(&rig, 8, VRAM_FEED_DIRECT);
    vram_addr target = memory_of(&rig, BYTES);
    gate_shut(rig.device, rig.queue, &gate);
    for (int i = 0; i < 8; i++) {
        vram_async_end(&async);
        assert_ok(vram_feed_begin(feed, BYTES, 0, &block));
        assert_ok(vram_feed_submit(feed, rig.queue, target, block.number, BYTES, &async));
    }
    vram_status ended = VRAM_OK;
    assert_took(ended = vram_feed_destroy(feed), SECOND, 7 * SECOND);
    assert_int_equal(ended, VRAM_ERR_TIMEOUT);
    assert_string_equal(vram_error_get()->operation, "vram_feed_destroy");
    assert_int_equal(vram_feed_destroy(feed), VRAM_ERR_STALE);
    gate_open(&gate);
    assert_ok(vram_async_wait(&async, 30 * SECOND));
    vram_context_destroy(rig.context);
}

/* ------------------------------------------------------------------------ bad input */

#define INVALID(call) assert_int_equal(call, VRAM_ERR_INVALID)

static void mistakes_are_refused(void **state) {
    vram_feed_options options = {.size = sizeof options, .slots = 1};
    vram_feed_block block = {.number = 77};
    vram_feed_stats stats = {.size = 1};
    vram_feed *feed = NULL;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    INVALID(vram_feed_create(rig.device, NULL, NULL));
    INVALID(vram_feed_create(NULL, NULL, &feed));
    INVALID(vram_feed_create(rig.device, &options, &feed));
    options.slots = VRAM_FEED_SLOTS_MAX + 1;
    INVALID(vram_feed_create(rig.device, &options, &feed));
    options = (vram_feed_options){.size = sizeof options, .mode = (vram_feed_mode)2};
    INVALID(vram_feed_create(rig.device, &options, &feed));
    options.size = 2;
    INVALID(vram_feed_create(rig.device, &options, &feed));
    assert_null(feed);
    options = (vram_feed_options){.size = sizeof options, .bytes = 1000};
    assert_ok(vram_feed_create(rig.device, &options, &feed));
    assert_int_equal(stats_of_feed(feed).pinned_bytes, 2000);
    assert_int_equal(stats_of_feed(feed).device_bytes, 2000);
    vram_addr target = memory_of(&rig, BYTES);
    INVALID(vram_feed_begin(feed, BYTES, 0, NULL));
    INVALID(vram_feed_begin(feed, 0, 0, &block));
    assert_true(vram_feed_begin(feed, UINT64_MAX, 0, &block) != VRAM_OK);
    assert_int_equal(block.number, 77);
    assert_ok(vram_feed_begin(feed, 100, 0, &block));
    INVALID(vram_feed_submit(feed, rig.queue, target, 0, 100, NULL));
    INVALID(vram_feed_submit(feed, rig.queue, target, 2, 100, NULL));
    INVALID(vram_feed_submit(feed, NULL, target, 1, 100, NULL));
    INVALID(vram_feed_submit(feed, rig.other_queue, target, 1, 100, NULL));
    INVALID(vram_feed_submit(feed, rig.queue, 0, 1, 100, NULL));
    INVALID(vram_feed_submit(feed, rig.queue, target, 1, 0, NULL));
    INVALID(vram_feed_submit(feed, rig.queue, target, 1, 101, NULL));
    INVALID(vram_feed_submit(feed, rig.queue, target + (1 << 20), 1, 100, NULL));
    INVALID(vram_feed_release(feed, 0));
    INVALID(vram_feed_release(feed, 2));
    INVALID(vram_feed_stats_get(feed, &stats));
    INVALID(vram_feed_stats_get(feed, NULL));
    assert_ok(vram_feed_submit(feed, rig.queue, target, 1, 100, NULL)); /* it was still there */
    INVALID(vram_feed_submit(feed, rig.queue, target, 1, 100, NULL));
    assert_int_equal(vram_feed_destroy(NULL), VRAM_OK);
    assert_ok(vram_feed_destroy(feed));
    assert_int_equal(vram_feed_begin(feed, 100, 0, &block), VRAM_ERR_STALE);
    assert_int_equal(vram_feed_destroy(feed), VRAM_ERR_STALE);
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_ok(vram_device_free(rig.device, target));
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------- faults, storm */

static vram_feed_mode tried_mode;

static vram_status use_a_feed(struct rig *rig, vram_pool *pool) {
    vram_feed_options options = {.size = sizeof options, .mode = tried_mode};
    vram_addr target = 0;
    vram_feed *feed = NULL;
    vram_status status = vram_feed_create(rig->device, &options, &feed);
    assert_int_equal(feed != NULL, status == VRAM_OK);
    if (status != VRAM_OK) {
        return status;
    }
    status = vram_alloc(pool, BYTES, rig->queue, &target);
    for (int i = 0; i < 3 && status == VRAM_OK; i++) {
        vram_feed_block block;
        vram_async async = {{0}};
        status = vram_feed_begin(feed, BYTES, 10 * SECOND, &block);
        if (status == VRAM_OK) {
            memset(block.data, i, BYTES);
            status = vram_feed_submit(feed, rig->queue, target, block.number, BYTES, &async);
        }
        if (status == VRAM_OK) {
            status = vram_async_wait(&async, 10 * SECOND);
        }
        vram_async_end(&async);
    }
    struct vram_error error;
    vr_error_save(&error);
    vram_feed_destroy(feed);
    if (target && vram_free(target, rig->queue) != VRAM_OK) {
        (void)vram_free(target, rig->queue); /* a marker that was refused: once more */
    }
    vr_error_restore(&error);
    return status;
}

static void every_call_may_fail(void **state) {
    (void)state;
    for (tried_mode = VRAM_FEED_STAGED; tried_mode <= VRAM_FEED_DIRECT; tried_mode++) {
        fail_every_call(use_a_feed, "memory=64M,lag=3");
    }
}

struct storm {
    struct rig rig;
    vram_feed *feed;
    vram_addr target;
};

static void *feed_wildly(void *argument) {
    struct storm *storm = argument;
    vram_status status = VRAM_OK;
    for (int i = 0; status == VRAM_OK || status == VRAM_ERR_BUSY; i++) {
        vram_feed_block block;
        status = vram_feed_begin(storm->feed, BYTES, 10 * SECOND, &block);
        if (status == VRAM_OK && i % 5 == 4) {
            status = vram_feed_release(storm->feed, block.number);
        } else if (status == VRAM_OK) {
            memset(block.data, i, BYTES);
            status = vram_feed_submit(storm->feed, storm->rig.queue, storm->target, block.number,
                                      BYTES, NULL);
        }
    }
    assert_int_equal(status, VRAM_ERR_STALE);
    return NULL;
}

static void threads_feed_until_the_end(void **state) {
    (void)state;
    for (int round = 0; round < 6; round++) {
        struct storm storm = {.rig = rig_make("host", NULL)};
        pthread_t threads[3];
        storm.target = memory_of(&storm.rig, BYTES);
        storm.feed = feed_of(&storm.rig, 2, (vram_feed_mode)(round % 2));
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, feed_wildly, &storm), 0);
        }
        vr_os_sleep((uint64_t)round * 2 * MS);
        /* Blocks that are being filled go with the feed; here they are to last until nobody writes
           any more. */
        struct vr_object *object = vr_handle_pin(VR_KIND_FEED, storm.feed);
        vram_feed_destroy(storm.feed);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        vr_leave(object);
        vram_context_destroy(storm.rig.context);
    }
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(blocks_arrive_in_the_order_of_the_consumer),
        HERE(uploads_run_beside_the_consumer),
        HERE(slots_in_the_programs_hands),
        HERE(memory_may_run_short),
        HERE(memory_is_taken_ahead),
        HERE(a_failed_submit_may_be_repeated),
        HERE(a_lost_device_hangs_nobody),
        HERE(ends_with_blocks_under_way),
        HERE(mistakes_are_refused),
        HERE(every_call_may_fail),
        HERE(threads_feed_until_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
