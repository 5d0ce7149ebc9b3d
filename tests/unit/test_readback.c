/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_readback.c: frames of changing device data on the host. Every frame is filled with one value
 * by the producer's queue, which goes on to the next value at once: a frame that is torn, late or
 * somebody else's has a wrong byte in it.
 */
#include "base/clock.h"
#include "unit/gate_world.h"
#include "unit/mem_world.h"
#include "unit/pool_flags.h"
#include "vram/growth.h"
#include "vram/readback.h"
#include "vram/transfer.h"
#include "xfer/readback_object.h"

#include <pthread.h>
#include <stdio.h>

#define MS UINT64_C(1000000)

enum { BYTES = 20000 };

static vram_readback *readback_of(struct rig *rig, uint32_t slots, vram_readback_mode mode,
                                  vram_readback_policy policy) {
    vram_readback_options options = {
        .size = sizeof options, .slots = slots, .mode = mode, .policy = policy};
    vram_readback *readback;
    assert_ok(vram_readback_create(rig->device, &options, &readback));
    return readback;
}

static vram_readback_stats stats_of_readback(vram_readback *readback) {
    vram_readback_stats stats = {.size = sizeof stats};
    assert_ok(vram_readback_stats_get(readback, &stats));
    return stats;
}

static vram_addr memory_of(struct rig *rig, uint64_t bytes) {
    vram_addr addr;
    assert_ok(vram_device_alloc(rig->device, bytes, VRAM_MEMORY_DEVICE, &addr));
    return addr;
}

static void expect_all(const vram_frame *frame, uint8_t value, uint64_t bytes) {
    const uint8_t *data = frame->data;
    assert_int_equal(frame->bytes, bytes);
    for (uint64_t i = 0; i < bytes; i++) {
        if (data[i] != value) {
            fail_msg("frame %llu has %u at %llu, not %u", (unsigned long long)frame->number,
                     data[i], (unsigned long long)i, value);
        }
    }
}

/* The transfer queue, which nobody but a test gets to see. */
static vram_queue *transfer_of(vram_readback *handle) {
    struct vr_readback *readback = vr_handle_pin(VR_KIND_READBACK, handle);
    assert_non_null(readback);
    vram_queue *queue = readback->transfer;
    vr_leave(readback);
    return queue;
}

/* ----------------------------------------------------------------- frame by frame */

static void frames_in_a_row(struct rig *rig, vram_readback_mode mode, uint32_t slots) {
    vram_readback *readback = readback_of(rig, slots, mode, VRAM_READBACK_EVERY);
    vram_addr source[2] = {memory_of(rig, BYTES), memory_of(rig, BYTES)};
    uint64_t last = 0;
    for (uint32_t i = 0; i < 40; i++) {
        vram_addr from = source[mode == VRAM_READBACK_STEADY ? i % 2 : 0];
        vram_frame frame;
        uint64_t number = 0;
        assert_ok(vram_queue_fill(rig->queue, from, i, 1, BYTES));
        assert_ok(vram_readback_start(readback, rig->queue, from, BYTES, &number));
        assert_int_equal(number, i + 1);
        if (mode != VRAM_READBACK_STEADY) { /* the producer goes on at once */
            assert_ok(vram_queue_fill(rig->queue, from, 0xFF, 1, BYTES));
        }
        if (i + 1 >= slots) {
            assert_ok(vram_readback_next(readback, 10 * SECOND, &frame));
            assert_int_equal(frame.number, ++last);
            assert_int_equal(frame.mode, mode);
            assert_true(frame.pinned);
            expect_all(&frame, (uint8_t)(frame.number - 1), BYTES);
            assert_ok(vram_readback_release(readback, frame.number));
        }
    }
    vram_readback_stats stats = stats_of_readback(readback);
    vram_transfer_stats counted = {.size = sizeof counted};
    assert_int_equal(stats.started, 40);
    assert_ok(
        vram_readback_wait(readback, 0, 10 * SECOND)); /* all of them, in the device's counters */
    assert_ok(
        vram_transfer_stats_get(rig->device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK, &counted));
    assert_int_equal(counted.operations, 40);
    assert_int_equal(counted.bytes, 40 * BYTES);
    assert_int_equal(counted.failures, 0);
    assert_int_equal(stats.dropped + stats.refused + stats.failed + stats.held, 0);
    assert_int_equal(stats.host_bytes, slots * BYTES);
    assert_int_equal(stats.pinned_bytes, slots * BYTES);
    assert_int_equal(stats.device_bytes, mode == VRAM_READBACK_SNAPSHOT ? slots * BYTES : 0);
    vram_readback_destroy(readback);
    assert_ok(vram_queue_wait(rig->queue, 10 * SECOND));
    assert_ok(vram_device_free(rig->device, source[0]));
    assert_ok(vram_device_free(rig->device, source[1]));
}

/* In every mode, with work that is done late and out of order, and on threads of its own. */
static void acceptance_20_frame_by_frame(void **state) {
    (void)state;
    for (int mode = VRAM_READBACK_SNAPSHOT; mode <= VRAM_READBACK_STEADY; mode++) {
        for (uint32_t seed = 1; seed <= 8; seed++) {
            char sim[64];
            snprintf(sim, sizeof sim, "memory=64M,lag=30,seed=%u", seed);
            struct rig rig = rig_make("sim", sim);
            frames_in_a_row(&rig, (vram_readback_mode)mode, mode == VRAM_READBACK_STEADY ? 2 : 3);
            rig_end_clean(&rig);
        }
        struct rig rig = rig_make("host", NULL);
        frames_in_a_row(&rig, (vram_readback_mode)mode, 2);
        vram_context_destroy(rig.context);
    }
}

/* A queue that waits for a frame's point may overwrite what the frame is copied from. */
static void a_point_holds_back_who_overwrites(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 8; seed++) {
        char sim[64];
        snprintf(sim, sizeof sim, "memory=64M,lag=50,seed=%u", seed);
        struct rig rig = rig_make("sim", sim);
        vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_STEADY, VRAM_READBACK_EVERY);
        vram_addr source = memory_of(&rig, BYTES);
        vram_queue *writer;
        assert_ok(vram_queue_create(rig.device, NULL, &writer));
        for (uint32_t i = 0; i < 10; i++) {
            vram_frame frame;
            vram_point point;
            uint64_t number = 0;
            assert_ok(vram_queue_fill(rig.queue, source, i, 1, BYTES));
            assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, &number));
            assert_ok(vram_readback_point(readback, number, &point));
            assert_ok(vram_queue_after(writer, point));
            assert_ok(vram_queue_fill(writer, source, 0xFF, 1, BYTES));
            assert_ok(vram_queue_mark(writer, &point));
            assert_ok(vram_queue_after(rig.queue, point));
            assert_ok(vram_readback_next(readback, 10 * SECOND, &frame));
            expect_all(&frame, (uint8_t)i, BYTES);
            assert_ok(vram_readback_release(readback, frame.number));
        }
        vram_readback_destroy(readback);
        assert_ok(vram_queue_wait(rig.queue, 10 * SECOND));
        assert_ok(vram_device_free(rig.device, source));
        rig_end_clean(&rig);
    }
}

/* While the producer is held up, nothing has arrived; both slots are taken by two starts, and the
   third has nothing to take. What it may take later is the policy's. */
static void acceptance_20_a_second_start_before_the_first_is_taken(void **state) {
    (void)state;
    for (int policy = VRAM_READBACK_NEWEST; policy <= VRAM_READBACK_EVERY; policy++) {
        struct gate gate;
        vram_frame frame, again;
        struct rig rig = rig_make("host", NULL);
        vram_readback *readback =
            readback_of(&rig, 2, VRAM_READBACK_SNAPSHOT, (vram_readback_policy)policy);
        vram_addr source = memory_of(&rig, BYTES);
        gate_shut(rig.device, rig.queue, &gate);
        for (uint32_t i = 1; i <= 2; i++) {
            assert_ok(vram_queue_fill(rig.queue, source, i, 1, BYTES));
            assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
        }
        assert_int_equal(vram_readback_start(readback, rig.queue, source, BYTES, NULL),
                         VRAM_ERR_BUSY);
        assert_int_equal(stats_of_readback(readback).refused, 1);
        vram_error_clear();
        assert_int_equal(vram_readback_latest(readback, &frame), VRAM_ERR_NOT_READY);
        assert_int_equal(vram_readback_poll(readback, 1), VRAM_ERR_NOT_READY);
        expect_no_record();
        assert_int_equal(vram_readback_wait(readback, 2, MS), VRAM_ERR_TIMEOUT);
        gate_open(&gate);
        assert_ok(vram_readback_wait(readback, 2, 10 * SECOND));
        assert_ok(vram_readback_poll(readback, 1));

        assert_ok(vram_queue_fill(rig.queue, source, 3, 1, BYTES));
        if (policy == VRAM_READBACK_EVERY) { /* nothing was taken: nothing is lost */
            assert_int_equal(vram_readback_start(readback, rig.queue, source, BYTES, NULL),
                             VRAM_ERR_BUSY);
            assert_ok(vram_readback_next(readback, 0, &frame));
            assert_int_equal(vram_readback_start(readback, rig.queue, source, BYTES, NULL),
                             VRAM_ERR_BUSY);
            expect_all(&frame, 1, BYTES);
            assert_ok(vram_readback_release(readback, 1));
            assert_int_equal(vram_readback_poll(readback, 1), VRAM_ERR_STALE);
            assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
        } else { /* the older one makes room, the newest stays to be read meanwhile */
            assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
            assert_int_equal(stats_of_readback(readback).dropped, 1);
            assert_int_equal(vram_readback_poll(readback, 1), VRAM_ERR_STALE);
            assert_ok(vram_readback_wait(readback, 2, 0));
        }
        assert_ok(vram_readback_wait(readback, 0, 10 * SECOND)); /* 0: the last */
        assert_ok(vram_readback_latest(readback, &frame));
        assert_int_equal(frame.number, 3);
        expect_all(&frame, 3, BYTES);
        assert_ok(vram_readback_next(readback, 0, &again)); /* 2 comes before 3 */
        assert_int_equal(again.number, 2);
        expect_all(&again, 2, BYTES);
        assert_ok(vram_readback_release(readback, 2));
        assert_ok(vram_readback_next(readback, 0, &again));
        assert_int_equal(again.number, 3);
        assert_ptr_equal(again.data, frame.data); /* one frame, two readers */
        assert_ok(vram_readback_release(readback, 3));
        assert_ok(vram_readback_release(readback, 3));
        assert_int_equal(vram_readback_release(readback, 3), VRAM_ERR_INVALID);
        assert_int_equal(vram_readback_next(readback, SECOND, &again), VRAM_ERR_NOT_READY);
        vram_readback_destroy(readback);
        vram_context_destroy(rig.context);
    }
}

/* With the transfer queue held up: a snapshot lets the producer go on, a hold makes it wait, and
   both give the frame as it was. The host is held up by neither. */
static void acceptance_20_transfers_overlap(void **state) {
    (void)state;
    for (int mode = VRAM_READBACK_SNAPSHOT; mode <= VRAM_READBACK_HOLD; mode++) {
        struct gate gate;
        vram_frame frame;
        struct rig rig = rig_make("host", NULL);
        vram_readback *readback =
            readback_of(&rig, 2, (vram_readback_mode)mode, VRAM_READBACK_NEWEST);
        vram_addr source = memory_of(&rig, BYTES);
        gate_shut(rig.device, transfer_of(readback), &gate);
        assert_ok(vram_queue_fill(rig.queue, source, 1, 1, BYTES));
        assert_took(assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL)), 0,
                    5 * SECOND);
        assert_ok(vram_queue_fill(rig.queue, source, 2, 1, BYTES));
        assert_int_equal(
            vram_queue_wait(rig.queue, mode == VRAM_READBACK_HOLD ? 20 * MS : 10 * SECOND),
            mode == VRAM_READBACK_HOLD ? VRAM_ERR_TIMEOUT : VRAM_OK);
        assert_int_equal(vram_readback_latest(readback, &frame), VRAM_ERR_NOT_READY);
        gate_open(&gate);
        assert_ok(vram_readback_wait(readback, 1, 10 * SECOND));
        assert_ok(vram_readback_latest(readback, &frame));
        expect_all(&frame, 1, BYTES);
        assert_ok(vram_queue_wait(rig.queue, 10 * SECOND));
        vram_readback_destroy(readback); /* with a frame borrowed */
        vram_context_destroy(rig.context);
    }
}

/* -------------------------------------------------------------------- readers, slots */

/* A reader that keeps its frame for long sees it unchanged, and with three slots keeps nobody from
   starting. */
static void a_borrowed_frame_is_never_written(void **state) {
    vram_frame held, frame;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=5");
    vram_readback *readback = readback_of(&rig, 3, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(&rig, BYTES);
    assert_ok(vram_queue_fill(rig.queue, source, 0xAB, 1, BYTES));
    assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    assert_ok(vram_readback_wait(readback, 0, 30 * SECOND));
    assert_ok(vram_readback_latest(readback, &held));
    for (uint32_t i = 2; i <= 20; i++) {
        assert_ok(vram_queue_fill(rig.queue, source, i, 1, BYTES));
        assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
        assert_ok(vram_readback_wait(readback, i, 30 * SECOND));
        assert_ok(vram_readback_latest(readback, &frame));
        assert_int_equal(frame.number, i);
        assert_int_not_equal(frame.slot, held.slot);
        expect_all(&frame, (uint8_t)i, BYTES);
        assert_ok(vram_readback_release(readback, i));
        expect_all(&held, 0xAB, BYTES);
    }
    assert_int_equal(stats_of_readback(readback).refused, 0);
    assert_int_equal(stats_of_readback(readback).dropped, 0); /* all were looked at */
    assert_ok(vram_readback_release(readback, held.number));
    vram_readback_destroy(readback);
    assert_ok(vram_device_free(rig.device, source));
    rig_end_clean(&rig);
}

/* Sources of any size, one after the other; slots grow and stay as large as they are. */
static void a_source_may_change_and_grow(void **state) {
    static const uint64_t sizes[] = {1, 100, 70000, 4096, 300000, 299999, 5};
    vram_frame frame;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=5");
    vram_readback_options options = {.size = sizeof options, .bytes = 1000};
    vram_readback *readback;
    assert_ok(vram_readback_create(rig.device, &options, &readback));
    assert_int_equal(stats_of_readback(readback).pinned_bytes, 2000);
    assert_int_equal(stats_of_readback(readback).device_bytes, 2000);
    for (uint32_t i = 0; i < 7; i++) {
        vram_addr source = memory_of(&rig, sizes[i]);
        assert_ok(vram_queue_fill(rig.queue, source, i, 1, sizes[i]));
        assert_ok(vram_readback_start(readback, rig.queue, source, sizes[i], NULL));
        assert_ok(vram_readback_wait(readback, 0, 30 * SECOND));
        assert_ok(vram_readback_latest(readback, &frame));
        expect_all(&frame, (uint8_t)i, sizes[i]);
        assert_ok(vram_readback_release(readback, frame.number));
        assert_ok(vram_device_free(rig.device, source));
    }
    assert_int_equal(stats_of_readback(readback).host_bytes, 2 * 300000 - 1);
    vram_readback_destroy(readback);
    rig_end_clean(&rig);
}

/* Three buffers in one frame, on the device and in host memory, growing between starts. */
static void spans_of_buffers_make_one_frame(void **state) {
    vram_buffer_options on_host = {.size = sizeof on_host, .kind = VRAM_BUFFER_PINNED};
    (void)state;
    for (int mode = VRAM_READBACK_SNAPSHOT; mode <= VRAM_READBACK_HOLD; mode++) {
        vram_buffer *buffers[3];
        vram_frame frame;
        struct rig rig = rig_make("sim", "memory=64M,lag=10");
        vram_pool *pool = pool_of(&rig, 0);
        vram_readback *readback =
            readback_of(&rig, 2, (vram_readback_mode)mode, VRAM_READBACK_EVERY);
        for (int i = 0; i < 3; i++) {
            assert_ok(
                vram_buffer_create(pool, 1000, rig.queue, i == 1 ? &on_host : NULL, &buffers[i]));
        }
        for (uint32_t round = 1; round <= 6; round++) {
            uint64_t bytes = 1000 * round;
            vram_span spans[3];
            static uint8_t data[3][6000];
            for (int i = 0; i < 3; i++) {
                memset(data[i], (int)(round * 3) + i, bytes);
                assert_ok(vram_buffer_resize(buffers[i], bytes, rig.queue));
                assert_ok(vram_buffer_span(buffers[i], 0, bytes, &spans[i]));
                assert_ok(vram_span_upload(rig.queue, spans[i], data[i]));
            }
            assert_ok(vram_readback_start_spans(readback, rig.queue, spans, 3, NULL));
            for (int i = 0; i < 3; i++) { /* at once the next contents */
                static const uint8_t other[6000] = {0};
                assert_ok(vram_span_upload(rig.queue, spans[i], other));
            }
            assert_ok(vram_readback_next(readback, 30 * SECOND, &frame));
            assert_int_equal(frame.bytes, 3 * bytes);
            for (int i = 0; i < 3; i++) {
                assert_memory_equal((const uint8_t *)frame.data + i * bytes, data[i], bytes);
            }
            assert_ok(vram_readback_release(readback, frame.number));
        }
        vram_readback_destroy(readback);
        assert_ok(vram_pool_destroy(pool));
        rig_end_clean(&rig);
    }
}

/* ----------------------------------------------------------------- what runs short */

/* Without page-locked memory frames come all the same, and say so. */
static void pinned_memory_may_be_refused(void **state) {
    vram_frame frame;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(&rig, BYTES);
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    assert_ok(vram_queue_fill(rig.queue, source, 9, 1, BYTES));
    vram_error_clear();
    assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    expect_no_record();
    assert_ok(vram_readback_wait(readback, 1, 30 * SECOND));
    assert_ok(vram_readback_latest(readback, &frame));
    assert_false(frame.pinned);
    expect_all(&frame, 9, BYTES);
    assert_int_equal(stats_of_readback(readback).pinned_bytes, 0);
    assert_int_equal(stats_of_readback(readback).host_bytes, BYTES);
    vram_readback_destroy(readback);
    assert_ok(vram_device_free(rig.device, source));
    rig_end_clean(&rig);
}

/* Without device memory for a copy the producer waits instead, and the frame is as whole as
   ever. */
static void a_snapshot_without_memory_becomes_a_hold(void **state) {
    vram_frame frame;
    (void)state;
    struct rig rig = rig_make("sim", "memory=4M,lag=20");
    vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(&rig, 3 * MIB);
    assert_ok(vram_queue_fill(rig.queue, source, 9, 1, 3 * MIB));
    vram_error_clear();
    assert_ok(vram_readback_start(readback, rig.queue, source, 3 * MIB, NULL));
    expect_no_record();
    assert_ok(vram_queue_fill(rig.queue, source, 10, 1, 3 * MIB));
    assert_ok(vram_readback_wait(readback, 1, 30 * SECOND));
    assert_ok(vram_readback_latest(readback, &frame));
    assert_int_equal(frame.mode, VRAM_READBACK_HOLD);
    expect_all(&frame, 9, 3 * MIB);
    assert_int_equal(stats_of_readback(readback).held, 1);
    vram_readback_destroy(readback);
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_ok(vram_device_free(rig.device, source));
    rig_end_clean(&rig);
}

/* A copy on the device that is too small for the next frame goes before a larger one is given up;
   a frame whose larger one does not fit either holds the producer, and its slot has none. */
static void a_smaller_copy_makes_room(void **state) {
    enum { SOURCE = 7 * MIB / 2 };
    vram_frame frame;
    (void)state;
    struct rig rig = rig_make("sim", "memory=6M");
    vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_EVERY);
    vram_addr source = memory_of(&rig, SOURCE);
    static const struct {
        uint64_t bytes, device_bytes;
        vram_readback_mode mode;
    } frames[] = {{MIB, MIB, VRAM_READBACK_SNAPSHOT},
                  {2 * MIB, 2 * MIB, VRAM_READBACK_SNAPSHOT},
                  {3 * MIB, 0, VRAM_READBACK_HOLD},
                  {MIB, MIB, VRAM_READBACK_SNAPSHOT}};
    for (uint32_t i = 0; i < 4; i++) {
        assert_ok(vram_queue_fill(rig.queue, source, i, 1, SOURCE));
        vram_error_clear();
        assert_ok(vram_readback_start(readback, rig.queue, source, frames[i].bytes, NULL));
        expect_no_record();
        assert_ok(vram_readback_next(readback, 30 * SECOND, &frame));
        assert_int_equal(frame.mode, frames[i].mode);
        expect_all(&frame, (uint8_t)i, frames[i].bytes);
        assert_ok(vram_readback_release(readback, frame.number));
        assert_int_equal(stats_of_readback(readback).device_bytes, frames[i].device_bytes);
    }
    vram_readback_destroy(readback);
    assert_ok(vram_device_free(rig.device, source));
    rig_end_clean(&rig);
}

/* A slot that cannot grow leaves the frame that is in it alone. */
static void a_failed_start_changes_nothing(void **state) {
    vram_frame frame;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_HOLD, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(&rig, 2 * BYTES);
    for (uint32_t i = 1; i <= 2; i++) {
        assert_ok(vram_queue_fill(rig.queue, source, i, 1, BYTES));
        assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    }
    assert_ok(vram_readback_wait(readback, 2, 30 * SECOND));
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    vr_mem_fail_at(1, true); /* nor ordinary memory in its place */
    assert_int_equal(vram_readback_start(readback, rig.queue, source, 2 * BYTES, NULL),
                     VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    assert_ok(vram_readback_poll(readback, 1)); /* which would have made room */
    assert_ok(vram_readback_next(readback, 0, &frame));
    expect_all(&frame, 1, BYTES);
    assert_ok(vram_readback_release(readback, 1));
    fault(&rig, VRAM_SIM_DOWNLOAD, 1, false, 9999);
    assert_int_equal(vram_readback_start(readback, rig.queue, source, BYTES, NULL),
                     VRAM_ERR_BACKEND);
    assert_ok(vram_readback_poll(readback, 1));
    fault(&rig, VRAM_SIM_SIGNAL, 2, true, 9999); /* submitted, and cannot be marked */
    assert_int_equal(vram_readback_start(readback, rig.queue, source, BYTES, NULL),
                     VRAM_ERR_BACKEND);
    assert_int_equal(vram_readback_poll(readback, 1), VRAM_ERR_STALE);
    assert_int_equal(vram_readback_start(readback, rig.queue, source, BYTES, NULL), VRAM_ERR_BUSY);
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_ok(vram_readback_latest(readback, &frame));
    assert_int_equal(frame.number, 2);
    expect_all(&frame, 2, BYTES);
    assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL)); /* settled */
    vram_readback_destroy(readback);
    assert_ok(vram_device_free(rig.device, source));
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------ lost, unfinished */

/* What arrived before stays readable; what was on its way fails, and is told once by next. */
static void a_lost_device_hangs_nobody(void **state) {
    vram_frame frame;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=100,seed=5");
    vram_readback *readback = readback_of(&rig, 3, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_EVERY);
    vram_addr source = memory_of(&rig, BYTES);
    assert_ok(vram_queue_fill(rig.queue, source, 1, 1, BYTES));
    assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    assert_ok(vram_readback_wait(readback, 1, 30 * SECOND));
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    hook.poll_answer = VRAM_OK;
    fault(&rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST);
    assert_int_equal(vram_queue_poll(rig.queue), VRAM_ERR_DEVICE_LOST);
    assert_took(
        assert_int_equal(vram_readback_wait(readback, 2, 30 * SECOND), VRAM_ERR_DEVICE_LOST), 0,
        10 * SECOND);
    assert_int_equal(vram_readback_poll(readback, 2), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(stats_of_readback(readback).failed, 1);
    assert_ok(vram_readback_next(readback, 30 * SECOND, &frame));
    expect_all(&frame, 1, BYTES);
    assert_int_equal(vram_readback_next(readback, 30 * SECOND, &frame), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_readback_next(readback, 30 * SECOND, &frame), VRAM_ERR_NOT_READY);
    assert_ok(vram_readback_latest(readback, &frame));
    assert_int_equal(vram_readback_start(readback, rig.queue, source, BYTES, NULL),
                     VRAM_ERR_DEVICE_LOST);
    assert_ok(vram_readback_release(readback, 1));
    assert_ok(vram_readback_release(readback, 1));
    assert_int_equal(vram_readback_latest(readback, &frame), VRAM_ERR_DEVICE_LOST);
    assert_took(vram_readback_destroy(readback), 0, 10 * SECOND);
    assert_ok(vram_device_free(rig.device, source));
    rig_end_clean(&rig);
}

/* A driver that cannot be asked is no reason to give a frame up, nor to keep quiet about it. */
static void a_driver_that_cannot_tell_is_told_of(void **state) {
    vram_frame frame;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(&rig, BYTES);
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_fill(rig.queue, source, 1, 1, BYTES));
    assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    hook.poll_answer = VRAM_ERR_BACKEND;
    vram_status status = VRAM_ERR_NOT_READY;
    for (int i = 0; i < 20 && status == VRAM_ERR_NOT_READY; i++) {
        status = vram_readback_latest(readback, &frame);
    }
    assert_int_equal(status, VRAM_ERR_BACKEND);
    status = VRAM_ERR_NOT_READY;
    for (int i = 0; i < 20 && status == VRAM_ERR_NOT_READY; i++) {
        vram_error_clear();
        status = vram_readback_poll(readback, 1);
    }
    assert_int_equal(status, VRAM_ERR_BACKEND);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_BACKEND);
    assert_took(
        assert_int_equal(vram_readback_next(readback, 30 * SECOND, &frame), VRAM_ERR_BACKEND), 0,
        10 * SECOND);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_readback_next(readback, 30 * SECOND, &frame));
    expect_all(&frame, 1, BYTES);
    vram_readback_destroy(readback);
    assert_ok(vram_device_free(rig.device, source));
    rig_end_clean(&rig);
}

/* A transfer that does not finish: the end waits one deadline and leaves the memory to the
   device. */
static void an_end_with_a_transfer_under_way(void **state) {
    vram_point point = {NULL, 0};
    struct gate gate;
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "1s"));
    struct rig rig = rig_make("host", NULL);
    vram_readback *readback = readback_of(&rig, 8, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(&rig, BYTES);
    gate_shut(rig.device, transfer_of(readback), &gate);
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    }
    assert_ok(vram_readback_point(readback, 8, &point));
    vram_status ended = VRAM_OK;
    assert_took(ended = vram_readback_destroy(readback), SECOND, 7 * SECOND);
    assert_int_equal(ended, VRAM_ERR_TIMEOUT);
    assert_string_equal(vram_error_get()->operation, "vram_readback_destroy");
    assert_int_equal(vram_readback_destroy(readback), VRAM_ERR_STALE);
    assert_int_equal(vram_readback_poll(readback, 0), VRAM_ERR_STALE);
    gate_open(&gate);
    assert_ok(vram_point_wait(point, 30 * SECOND));
    vram_context_destroy(rig.context);
}

/* Work that is under way is waited for, as long as the deadline allows. */
static void a_slot_settles_when_its_work_ends(void **state) {
    struct vr_frame_slot slot = {.host = NULL};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=100,seed=5");
    vram_addr source = memory_of(&rig, BYTES);
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_fill(rig.queue, source, 1, 1, BYTES));
    assert_ok(vr_slot_mark(&slot, VR_SLOT_TRANSFER, rig.queue, NULL));
    assert_int_equal(vr_slot_settle(&slot, vr_deadline_in(SECOND / 100)), VRAM_ERR_TIMEOUT);
    hook.poll_answer = VRAM_OK;
    assert_ok(vr_slot_settle(&slot, vr_deadline_in(30 * SECOND)));
    assert_ok(vr_slot_settle(&slot, 0)); /* nothing is pending any more */
    assert_ok(vram_device_free(rig.device, source));
    rig_end_clean(&rig);
}

/* All frames have arrived, but the transfer queue has other work and does not end. */
static void an_end_with_a_busy_queue(void **state) {
    struct gate gate;
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "1s")); /* in which the queue must end once it can */
    struct rig rig = rig_make("host", NULL);
    vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(&rig, BYTES);
    assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    assert_ok(vram_readback_wait(readback, 0, 30 * SECOND));
    gate_shut(rig.device, transfer_of(readback), &gate);
    assert_int_equal(vram_readback_destroy(readback), VRAM_ERR_TIMEOUT);
    gate_open(&gate);
    vram_context_destroy(rig.context);
}

/* A driver that refuses to free a frame's memory at the end is reported by the log alone. */
static void an_end_leaves_the_record(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(&rig, BYTES);
    assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    assert_ok(vram_readback_wait(readback, 0, 30 * SECOND));
    fault(&rig, VRAM_SIM_FREE, 1, false, 9999);
    vram_error_clear();
    assert_ok(vram_readback_destroy(readback));
    expect_no_record();
    assert_ok(vram_device_free(rig.device, source));
    rig_end_clean(&rig);
}

/* The producer's queue, or the device, ends while frames are on their way. */
static void queues_and_devices_end_under_it(void **state) {
    vram_frame frame;
    vram_queue *producer;
    (void)state;
    for (int mode = VRAM_READBACK_SNAPSHOT; mode <= VRAM_READBACK_HOLD; mode++) {
        struct rig rig = rig_make("sim", "memory=64M,lag=50");
        vram_readback *readback =
            readback_of(&rig, 2, (vram_readback_mode)mode, VRAM_READBACK_NEWEST);
        vram_addr source = memory_of(&rig, BYTES);
        assert_ok(vram_queue_create(rig.device, NULL, &producer));
        assert_ok(vram_queue_fill(producer, source, 7, 1, BYTES));
        assert_ok(vram_readback_start(readback, producer, source, BYTES, NULL));
        vram_queue_destroy(producer);
        assert_ok(vram_readback_wait(readback, 1, 30 * SECOND));
        assert_ok(vram_readback_latest(readback, &frame));
        expect_all(&frame, 7, BYTES);
        assert_int_equal(vram_readback_start(readback, producer, source, BYTES, NULL),
                         VRAM_ERR_STALE);
        assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
        vram_device_close(rig.device);
        rig.device = NULL;
        assert_int_equal(vram_readback_latest(readback, &frame), VRAM_ERR_STALE);
        vram_readback_destroy(readback);
        rig_end_clean(&rig);
    }
}

/* ------------------------------------------------------------------------ bad input */

#define INVALID(call) assert_int_equal(call, VRAM_ERR_INVALID)

static void mistakes_are_refused(void **state) {
    vram_readback_options options = {.size = sizeof options};
    vram_readback *readback = NULL;
    vram_readback_stats stats = {.size = 1};
    vram_frame frame = {.number = 77};
    vram_async async;
    vram_point point;
    vram_span span = {.buffer = NULL}, spans[VRAM_READBACK_SPANS_MAX + 1] = {{.buffer = NULL}};
    vram_buffer *buffer;
    uint64_t number = 77;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    vram_pool *pool = pool_of(&rig, 0), *far_pool;
    INVALID(vram_readback_create(rig.device, NULL, NULL));
    INVALID(vram_readback_create(NULL, NULL, &readback));
    options.slots = 1;
    INVALID(vram_readback_create(rig.device, &options, &readback));
    options.slots = VRAM_READBACK_SLOTS_MAX + 1;
    INVALID(vram_readback_create(rig.device, &options, &readback));
    options = (vram_readback_options){.size = sizeof options, .mode = (vram_readback_mode)3};
    INVALID(vram_readback_create(rig.device, &options, &readback));
    options = (vram_readback_options){.size = sizeof options, .policy = (vram_readback_policy)2};
    INVALID(vram_readback_create(rig.device, &options, &readback));
    options.size = 2;
    INVALID(vram_readback_create(rig.device, &options, &readback));
    assert_null(readback);

    assert_ok(vram_readback_create(rig.device, NULL, &readback));
    vram_addr source = memory_of(&rig, 4096);
    INVALID(vram_readback_start(readback, rig.queue, source, 0, &number));
    INVALID(vram_readback_start(readback, rig.queue, 0, 1, &number));
    INVALID(vram_readback_start(readback, rig.queue, source, UINT64_MAX, &number));
    INVALID(vram_readback_start(readback, rig.queue, source + 1, 1 << 20, &number));
    INVALID(vram_readback_start(readback, rig.other_queue, source, 4096, &number));
    INVALID(vram_readback_start(readback, (vram_queue *)readback, source, 4096, &number));
    INVALID(vram_readback_start_spans(readback, rig.queue, NULL, 1, &number));
    INVALID(vram_readback_start_spans(readback, rig.queue, &span, 0, &number));
    INVALID(vram_readback_start_spans(readback, rig.queue, &span, 1, &number));
    INVALID(vram_readback_start_spans(readback, rig.queue, spans, VRAM_READBACK_SPANS_MAX + 1,
                                      &number));
    assert_ok(vram_buffer_create(pool, 100, rig.queue, NULL, &buffer));
    span = (vram_span){buffer, 1, 100};
    INVALID(vram_readback_start_spans(readback, rig.queue, &span, 1, &number));
    span = (vram_span){buffer, 0, 0};
    INVALID(vram_readback_start_spans(readback, rig.queue, &span, 1, &number));
    spans[0] = (vram_span){buffer, 0, 100};
    spans[1] = (vram_span){(vram_buffer *)pool, 0, 1}; /* the first is let go of again */
    INVALID(vram_readback_start_spans(readback, rig.queue, spans, 2, &number));
    assert_ok(vram_buffer_resize(buffer, 200, rig.queue));
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(test_pool_create(rig.other, NULL, &far_pool));
    assert_ok(vram_buffer_create(far_pool, 100, rig.other_queue, NULL, &buffer));
    span = (vram_span){buffer, 0, 100};
    INVALID(vram_readback_start_spans(readback, rig.queue, &span, 1, &number));
    assert_int_equal(number, 77);

    INVALID(vram_readback_poll(readback, 0));
    INVALID(vram_readback_poll(readback, 1));
    INVALID(vram_readback_wait(readback, 0, SECOND));
    INVALID(vram_readback_point(readback, 0, &point));
    INVALID(vram_readback_latest(readback, NULL));
    INVALID(vram_readback_next(readback, 0, NULL));
    INVALID(vram_readback_release(readback, 0));
    INVALID(vram_readback_release(readback, 1));
    INVALID(vram_readback_stats_get(readback, &stats));
    INVALID(vram_readback_stats_get(readback, NULL));
    assert_int_equal(vram_readback_latest(readback, &frame), VRAM_ERR_NOT_READY);
    assert_int_equal(frame.number, 77);

    /* Without a producer the source is steady. */
    INVALID(vram_readback_start(readback, rig.queue, source, 4096, NULL) == VRAM_OK
                ? vram_readback_point(readback, 1, NULL)
                : VRAM_OK);
    assert_ok(vram_readback_start(readback, NULL, source, 4096, &number));
    assert_int_equal(number, 2);
    assert_ok(vram_readback_point(readback, 2, &point));
    INVALID(vram_readback_async(readback, 2, NULL));
    INVALID(vram_readback_async(readback, 3, &async));
    assert_ok(vram_readback_async(readback, 2, &async));
    assert_ok(vram_async_wait(&async, 30 * SECOND));
    assert_ok(vram_point_wait(point, 30 * SECOND));
    assert_ok(vram_readback_latest(readback, &frame));
    assert_int_equal(frame.mode, VRAM_READBACK_STEADY);
    assert_int_equal(vram_readback_destroy(NULL), VRAM_OK);
    assert_ok(vram_readback_destroy(readback));
    assert_int_equal(vram_readback_start(readback, rig.queue, source, 4096, NULL), VRAM_ERR_STALE);
    assert_int_equal(vram_readback_destroy(readback), VRAM_ERR_STALE);
    assert_ok(vram_device_free(rig.device, source));
    assert_ok(vram_pool_destroy(pool));
    assert_ok(vram_pool_destroy(far_pool));
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------- faults, storm */

static vram_readback_mode tried_mode;

static vram_status use_a_readback(struct rig *rig, vram_pool *pool) {
    vram_readback_options options = {.size = sizeof options, .mode = tried_mode};
    vram_readback *readback;
    vram_addr source = 0;
    vram_frame frame;
    vram_status status = vram_readback_create(rig->device, &options, &readback);
    if (status != VRAM_OK) {
        return status;
    }
    status = vram_alloc(pool, BYTES, rig->queue, &source);
    for (uint32_t i = 1; i <= 3 && status == VRAM_OK; i++) {
        status = vram_queue_fill(rig->queue, source, i, 1, BYTES);
        if (status == VRAM_OK) {
            status = vram_readback_start(readback, rig->queue, source, BYTES, NULL);
        }
        if (status == VRAM_OK) {
            status = vram_readback_next(readback, 10 * SECOND, &frame);
        }
        if (status == VRAM_OK) {
            expect_all(&frame, (uint8_t)i, BYTES);
            status = vram_readback_release(readback, frame.number);
        }
    }
    struct vram_error error;
    vr_error_save(&error);
    vram_readback_destroy(readback);
    if (source) {
        vram_status freed = vram_free(source, rig->queue);
        if (freed != VRAM_OK) { /* a marker that was refused: once more */
            (void)vram_free(source, rig->queue);
        }
    }
    vr_error_restore(&error);
    return status;
}

static void every_call_may_fail(void **state) {
    (void)state;
    for (tried_mode = VRAM_READBACK_SNAPSHOT; tried_mode <= VRAM_READBACK_STEADY; tried_mode++) {
        fail_every_call(use_a_readback, "memory=64M,lag=3");
    }
}

struct storm {
    struct rig rig;
    vram_readback *readback;
    vr_atomic_bool stop;
};

/* Reads whatever is the newest; numbers never go back, no frame is mixed. */
static void *read_frames(void *argument) {
    struct storm *storm = argument;
    uint64_t last = 0;
    while (!vr_load(&storm->stop, VR_ACQUIRE)) {
        vram_frame frame;
        vram_status status = vram_readback_latest(storm->readback, &frame);
        if (status == VRAM_OK) {
            assert_true(frame.number >= last);
            last = frame.number;
            expect_all(&frame, (uint8_t)frame.number, BYTES);
            assert_ok(vram_readback_release(storm->readback, frame.number));
        } else {
            assert_int_equal(status, VRAM_ERR_NOT_READY);
        }
    }
    return NULL;
}

/* One producer, two readers that look at frames while they come; then the end, with a reader
   inside. */
static void readers_beside_a_producer(void **state) {
    (void)state;
    for (int mode = VRAM_READBACK_SNAPSHOT; mode <= VRAM_READBACK_HOLD; mode++) {
        struct storm storm = {.rig = rig_make("host", NULL)};
        pthread_t threads[2];
        vram_addr source = memory_of(&storm.rig, BYTES);
        storm.readback = readback_of(&storm.rig, 4, (vram_readback_mode)mode, VRAM_READBACK_NEWEST);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, read_frames, &storm), 0);
        }
        uint64_t made = 0;
        for (int i = 0; i < 400; i++) {
            uint64_t number;
            assert_ok(vram_queue_fill(storm.rig.queue, source, (uint32_t)(made + 1), 1, BYTES));
            vram_status status =
                vram_readback_start(storm.readback, storm.rig.queue, source, BYTES, &number);
            if (status == VRAM_ERR_BUSY) {
                assert_ok(vram_queue_wait(storm.rig.queue, 10 * SECOND));
            } else {
                assert_ok(status);
                assert_int_equal(number, ++made);
            }
        }
        assert_true(made > 3);
        assert_ok(vram_readback_wait(storm.readback, 0, 10 * SECOND));
        vr_store(&storm.stop, true, VR_RELEASE);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        vram_readback_destroy(storm.readback);
        vram_context_destroy(storm.rig.context);
    }
}

static void *wait_for_frames(void *argument) {
    struct storm *storm = argument;
    vram_status status = VRAM_OK;
    while (status == VRAM_OK || status == VRAM_ERR_NOT_READY) {
        vram_frame frame;
        status = vram_readback_next(storm->readback, 10 * SECOND, &frame);
        if (status == VRAM_OK) {
            status = vram_readback_release(storm->readback, frame.number);
        }
    }
    assert_int_equal(status, VRAM_ERR_STALE);
    return NULL;
}

static void it_may_be_destroyed_under_its_users(void **state) {
    (void)state;
    for (int round = 0; round < 6; round++) {
        struct storm storm = {.rig = rig_make("host", NULL)};
        pthread_t threads[2];
        vram_addr source = memory_of(&storm.rig, BYTES);
        storm.readback = readback_of(&storm.rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_EVERY);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_frames, &storm), 0);
        }
        for (int i = 0; i < 10 * round; i++) {
            (void)vram_readback_start(storm.readback, storm.rig.queue, source, BYTES, NULL);
        }
        vram_readback_destroy(storm.readback);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        vram_context_destroy(storm.rig.context);
    }
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(acceptance_20_frame_by_frame),
        HERE(a_point_holds_back_who_overwrites),
        HERE(acceptance_20_a_second_start_before_the_first_is_taken),
        HERE(acceptance_20_transfers_overlap),
        HERE(a_borrowed_frame_is_never_written),
        HERE(a_source_may_change_and_grow),
        HERE(spans_of_buffers_make_one_frame),
        HERE(pinned_memory_may_be_refused),
        HERE(a_snapshot_without_memory_becomes_a_hold),
        HERE(a_smaller_copy_makes_room),
        HERE(a_failed_start_changes_nothing),
        HERE(a_lost_device_hangs_nobody),
        HERE(a_driver_that_cannot_tell_is_told_of),
        HERE(an_end_with_a_transfer_under_way),
        HERE(a_slot_settles_when_its_work_ends),
        HERE(an_end_with_a_busy_queue),
        HERE(an_end_leaves_the_record),
        HERE(queues_and_devices_end_under_it),
        HERE(mistakes_are_refused),
        HERE(every_call_may_fail),
        HERE(readers_beside_a_producer),
        HERE(it_may_be_destroyed_under_its_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
