/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_readback.c: frames of changing device data on the host. Every frame is filled with one value
 * by the producer's queue, which goes on to the next value at once: a frame that is torn, late or
 * somebody else's has a wrong byte in it.
 */
#include "unit/gate_world.h"
#include "unit/mem_world.h"
#include "vram/growth.h"
#include "vram/readback.h"
#include "vram/transfer.h"

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

/* ----------------------------------------------------------------- frame by frame */

/* A queue that waits for a frame's point may overwrite what the frame is copied from. */
TEST(a_point_holds_back_who_overwrites) {
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
TEST(acceptance_20_a_second_start_before_the_first_is_taken) {
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

/* -------------------------------------------------------------------- readers, slots */

/* Three buffers in one frame, on the device and in host memory, growing between starts. */
TEST(spans_of_buffers_make_one_frame) {
    vram_buffer_options on_host = {.size = sizeof on_host, .kind = VRAM_BUFFER_PINNED};
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

/* Without device memory for a copy the producer waits instead, and the frame is as whole as
   ever. */
TEST(a_snapshot_without_memory_becomes_a_hold, "sim:memory=4M,lag=20") {
    vram_frame frame;
    vram_readback *readback = readback_of(rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(rig, 3 * MIB);
    assert_ok(vram_queue_fill(rig->queue, source, 9, 1, 3 * MIB));
    vram_error_clear();
    assert_ok(vram_readback_start(readback, rig->queue, source, 3 * MIB, NULL));
    expect_no_record();
    assert_ok(vram_queue_fill(rig->queue, source, 10, 1, 3 * MIB));
    assert_ok(vram_readback_wait(readback, 1, 30 * SECOND));
    assert_ok(vram_readback_latest(readback, &frame));
    assert_int_equal(frame.mode, VRAM_READBACK_HOLD);
    expect_all(&frame, 9, 3 * MIB);
    assert_int_equal(stats_of_readback(readback).held, 1);
    vram_readback_destroy(readback);
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    assert_ok(vram_device_free(rig->device, source));
}

/* Neither a queue of another device nor a span that is longer than its buffer; without a queue the
   spans are read at once. */
TEST(sources_that_cannot_be) {
    static uint8_t fives[1000];
    vram_buffer *buffer;
    vram_span span;
    vram_frame frame;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    vram_pool *pool = pool_of(&rig, 0);
    vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_HOLD, VRAM_READBACK_EVERY);
    vram_addr source = memory_of(&rig, BYTES);
    assert_ok(vram_buffer_create(pool, 1000, rig.queue, NULL, &buffer));
    assert_ok(vram_buffer_span(buffer, 0, 1000, &span));
    memset(fives, 5, sizeof fives);
    assert_ok(vram_span_upload(rig.queue, span, fives));
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    vram_span longer = span;
    longer.bytes++;
    assert_int_equal(vram_readback_start_spans(readback, rig.queue, &longer, 1, NULL),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_readback_start_spans(readback, rig.other_queue, &span, 1, NULL),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_readback_start(readback, rig.other_queue, source, BYTES, NULL),
                     VRAM_ERR_INVALID);
    assert_ok(vram_readback_start_spans(readback, NULL, &span, 1, NULL));
    assert_ok(vram_readback_next(readback, 30 * SECOND, &frame));
    expect_all(&frame, 5, 1000);
    vram_readback_destroy(readback);
    assert_ok(vram_device_free(rig.device, source));
    assert_ok(vram_pool_destroy(pool));
    rig_end_clean(&rig);
}

/* A slot that cannot grow leaves the frame that is in it alone. */
TEST(a_failed_start_changes_nothing) {
    vram_frame frame;
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
TEST(a_lost_device_hangs_nobody, "sim:memory=64M,lag=100,seed=5") {
    vram_frame frame;
    vram_readback *readback = readback_of(rig, 3, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_EVERY);
    vram_addr source = memory_of(rig, BYTES);
    assert_ok(vram_queue_fill(rig->queue, source, 1, 1, BYTES));
    assert_ok(vram_readback_start(readback, rig->queue, source, BYTES, NULL));
    assert_ok(vram_readback_wait(readback, 1, 30 * SECOND));
    hook_set(rig->device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_readback_start(readback, rig->queue, source, BYTES, NULL));
    hook.poll_answer = VRAM_OK;
    fault(rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST);
    assert_int_equal(vram_queue_poll(rig->queue), VRAM_ERR_DEVICE_LOST);
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
    assert_int_equal(vram_readback_start(readback, rig->queue, source, BYTES, NULL),
                     VRAM_ERR_DEVICE_LOST);
    assert_ok(vram_readback_release(readback, 1));
    assert_ok(vram_readback_release(readback, 1));
    assert_int_equal(vram_readback_latest(readback, &frame), VRAM_ERR_DEVICE_LOST);
    assert_took(vram_readback_destroy(readback), 0, 10 * SECOND);
    assert_ok(vram_device_free(rig->device, source));
}

/* A driver that cannot say how far it is: the frame is under way, and the caller is told why nobody
   knows more. */
TEST(a_driver_that_cannot_tell_is_told_of, "sim:memory=64M") {
    vram_readback *readback = readback_of(rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_NEWEST);
    vram_addr source = memory_of(rig, BYTES);
    hook_set(rig->device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_fill(rig->queue, source, 1, 1, BYTES));
    assert_ok(vram_readback_start(readback, rig->queue, source, BYTES, NULL));
    vr_error_set(VRAM_ERR_BACKEND, "hook", "poll", 3, "cannot say");
    hook.poll_answer = VRAM_ERR_BACKEND;
    vram_error_clear();
    assert_int_equal(vram_readback_poll(readback, 1), VRAM_ERR_BACKEND);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_BACKEND);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_readback_wait(readback, 1, 30 * SECOND));
    vram_readback_destroy(readback);
    assert_ok(vram_device_free(rig->device, source));
}

/* Work of a start that failed half-way is waited for at the end. */
TEST(a_slot_settles_when_its_work_ends, "sim:memory=64M,lag=100,seed=5") {
    vram_readback *readback = readback_of(rig, 2, VRAM_READBACK_SNAPSHOT, VRAM_READBACK_EVERY);
    vram_addr source = memory_of(rig, BYTES);
    hook_set(rig->device);
    hook.poll_answer = VRAM_ERR_BACKEND;
    hook.signals_left = 1; /* the copy is submitted, and cannot be marked */
    hook.refusals = 1000;
    assert_int_not_equal(vram_readback_start(readback, rig->queue, source, BYTES, NULL), VRAM_OK);
    hook.refusals = 0;
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_readback_destroy(readback));
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    assert_ok(vram_device_free(rig->device, source));
}

static void let_queue_end(void *user, vram_log_level level, const char *text) {
    (void)user, (void)level, (void)text;
    hook.poll_answer = VRAM_OK;
}

/* The readback's own queue does not end in time, although its frame arrives a moment later. */
TEST(an_end_with_a_busy_queue) {
    assert_ok(vram_option_set("wait_timeout", "200ms"));
    struct rig rig = rig_make("sim", "memory=64M");
    vram_readback *readback = readback_of(&rig, 2, VRAM_READBACK_STEADY, VRAM_READBACK_EVERY);
    vram_addr source = memory_of(&rig, BYTES);
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_readback_start(readback, rig.queue, source, BYTES, NULL));
    vram_log_set(let_queue_end, NULL, VRAM_LOG_WARN); /* "destroyed with unfinished work" */
    assert_int_equal(vram_readback_destroy(readback), VRAM_ERR_TIMEOUT);
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    assert_string_equal(vram_error_get()->operation, "vram_readback_destroy");
    rig_end_clean(&rig);
}

/* A copy on the device that is too small for the next frame goes before a larger one is given up;
   a frame whose larger one does not fit either holds the producer, and its slot has none. */
TEST(a_smaller_copy_makes_room) {
    enum { SOURCE = 7 * MIB / 2 };
    vram_frame frame;
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
