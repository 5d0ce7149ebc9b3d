/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_streams.c: streams of the library's and of the program's: which can be adopted, by whom
 * they can be used, how queues wait for each other on devices of every kind, and how they end.
 */
#include "unit/cuda_stage.h"

#include <unistd.h>

#define MEMORY (256 * MIB)

static vram_addr take(struct stage *stage) {
    vram_addr addr;
    assert_ok(vram_device_alloc(stage->device, GRANULE, VRAM_MEMORY_DEVICE, &addr));
    return addr;
}

/* ----------------------------------------------------------------- adoption */

TEST(any_stream_can_be_adopted) {
    struct stage *stage = rig_state;
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    void *natives[] = {NULL, LEGACY, PER_THREAD, stream};
    stage_open(stage, MEMORY, "5s");
    vram_addr addr = take(stage);
    for (size_t i = 0; i < sizeof natives / sizeof natives[0]; i++) {
        unsigned char byte = 0;
        vram_queue *queue;
        void *native = &byte;
        assert_ok(vram_queue_adopt(stage->device, natives[i], &queue));
        assert_ok(vram_queue_native(queue, &native));
        assert_ptr_equal(native, natives[i]);
        assert_ok(vram_queue_fill(queue, addr, 9 + (uint32_t)i, 1, GRANULE));
        assert_ok(vram_queue_download(queue, &byte, addr, 1));
        assert_ok(vram_queue_wait(queue, FOR_EVER));
        assert_int_equal(byte, 9 + i);
        assert_ok(vram_queue_end(queue)); /* the stream stays the program's */
    }
    fake->stream_end(stream);
    stage_close(stage);
}

/* Of another context or device, and also while it is captured. */
TEST(foreign_streams_are_refused) {
    struct stage *stage = rig_state;
    vram_queue *queue = NULL;
    stage_open(stage, MEMORY, "5s");
    for (int captured = 0; captured < 2; captured++) {
        struct vr_cu_stream *stream = fake->stream_make(0, true, true);
        fake->capture(stream, captured ? VR_CU_CAPTURE_ACTIVE : VR_CU_CAPTURE_NONE);
        assert_int_equal(vram_queue_adopt(stage->device, stream, &queue), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "another device or context"));
        assert_null(queue);
        assert_int_equal(fake->capture_status(stream),
                         captured ? VR_CU_CAPTURE_ACTIVE : VR_CU_CAPTURE_NONE);
        fake->stream_end(stream);
    }
    stage_close(stage);
}

/* A program that destroys its stream too early, and makes another that gets the same handle. */
TEST(a_handle_used_again_is_another_stream) {
    struct stage *stage = rig_state;
    for (int captured = 0; captured < 2; captured++) { /* it was when it was adopted */
        vram_queue *queue;
        vram_point point;
        stage_open(stage, MEMORY, "5s");
        struct vr_cu_stream *stream = fake->stream_make(0, false, false);
        fake->capture(stream, captured ? VR_CU_CAPTURE_ACTIVE : VR_CU_CAPTURE_NONE);
        assert_ok(vram_queue_adopt(stage->device, stream, &queue));
        fake->capture(stream, VR_CU_CAPTURE_NONE);
        assert_ok(vram_queue_mark(queue, &point));
        assert_ok(vram_point_wait(point, FOR_EVER));
        fake->stream_renew(stream);
        uint64_t marked = fake->calls("cuStreamWriteValue64");
        assert_int_equal(vram_queue_mark(queue, &point), VRAM_ERR_STALE);
        assert_cuda_error(VRAM_ERR_STALE, "cuStreamWriteValue64", 0);
        assert_int_equal(fake->calls("cuStreamWriteValue64"), marked);
        (void)vram_queue_destroy(queue);
        fake->stream_end(stream);
        stage_close(stage);
    }
}

/* ------------------------------------------------------- the stream of a thread */

struct visitor {
    struct stage *stage;
    vram_queue *queue;
    vram_addr addr;
    vram_point point;
    vram_status adopt, mark, upload, after, poll;
};

/* Another thread's default stream has the same handle and is another stream. */
static void *visit(void *argument) {
    struct visitor *visitor = argument;
    vram_point point;
    visitor->mark = vram_queue_mark(visitor->queue, &point);
    visitor->upload = vram_queue_upload(visitor->queue, visitor->addr, "x", 1);
    visitor->after = vram_queue_after(visitor->stage->queue, visitor->point);
    visitor->poll = vram_queue_poll(visitor->queue);
    return NULL;
}

static void *ask(void *argument) {
    struct visitor *visitor = argument;
    visitor->poll = vram_queue_poll(visitor->queue);
    return NULL;
}

/* Other threads can neither submit nor mark it; they can wait for its points where the device
   waits for words, and know of work behind the last signal: else memory would be given back under
   it. */
TEST(the_per_thread_stream_belongs_to_its_thread) {
    struct stage *stage = rig_state;
    for (int words = 0; words < 2; words++) {
        struct visitor visitor = {.stage = stage};
        fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, words);
        fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS_V1, words);
        stage_open(stage, MEMORY, "5s");
        visitor.addr = take(stage);
        assert_ok(vram_queue_adopt(stage->device, PER_THREAD, &visitor.queue));
        assert_ok(vram_queue_wait(visitor.queue, FOR_EVER));
        in_a_thread(ask, &visitor);
        assert_ok(visitor.poll);
        fake->hold(true);
        assert_ok(vram_queue_mark(visitor.queue, &visitor.point));
        in_a_thread(visit, &visitor);
        assert_int_equal(visitor.mark, VRAM_ERR_INVALID);
        assert_int_equal(visitor.upload, VRAM_ERR_INVALID);
        assert_int_equal(visitor.after, words ? VRAM_OK : VRAM_ERR_INVALID);
        assert_int_equal(visitor.poll, VRAM_ERR_NOT_READY);
        fake->hold(false);
        assert_ok(vram_queue_wait(visitor.queue, FOR_EVER));
        fake->hold(true); /* all signals have come, and it has work */
        assert_ok(vram_queue_fill(visitor.queue, visitor.addr, 1, 1, GRANULE));
        in_a_thread(ask, &visitor);
        assert_int_equal(visitor.poll, VRAM_ERR_NOT_READY);
        fake->hold(false);
        assert_ok(vram_queue_wait(visitor.queue, FOR_EVER));
        in_a_thread(ask, &visitor);
        assert_ok(visitor.poll);
        /* A capture elsewhere is neither spoiled nor taken for done. */
        struct vr_cu_stream *stream = fake->stream_make(0, true, false);
        fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
        in_a_thread(ask, &visitor);
        assert_int_equal(visitor.poll, VRAM_ERR_NOT_READY);
        assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
        fake->capture(stream, VR_CU_CAPTURE_NONE);
        assert_ok(vram_queue_end(visitor.queue));
        fake->stream_end(stream);
        stage_close(stage);
    }
}

static void *adopt_own(void *argument) {
    struct visitor *visitor = argument;
    visitor->adopt = vram_queue_adopt(visitor->stage->device, PER_THREAD, &visitor->queue);
    return NULL;
}

/* The thread has ended. Another that lies where it lay in memory is another all the same. */
TEST(ended_threads_are_not_mistaken_for_others) {
    struct visitor visitor = {.stage = rig_state};
    stage_open(visitor.stage, MEMORY, "5s");
    visitor.addr = take(visitor.stage);
    in_a_thread(adopt_own, &visitor);
    assert_ok(visitor.adopt);
    in_a_thread(visit, &visitor);
    assert_int_equal(visitor.upload, VRAM_ERR_INVALID);
    stage_close(visitor.stage);
}

/* ------------------------------------------------- how queues wait for each other */

/* Devices without words that streams write, drivers before 11.7, which answer another attribute,
   and such that promise what they do not keep: found out once, and served the other way. */
TEST(queues_wait_for_each_other_on_any_device) {
    static const struct {
        const char *what;
        int now, before; /* the attribute, and the one of older drivers; -1: it is not known */
        const char *broken;
        bool writes, waits;
    } rows[] = {
        {"usual", 1, 1, NULL, true, true},
        {"older driver", -1, 1, NULL, true, true},
        {"older device", 0, -1, NULL, false, false},
        {"cannot write", 1, 1, "cuStreamWriteValue64", true, true},
        {"cannot wait", 1, 1, "cuStreamWaitValue64", true, true},
    };
    struct stage *stage = rig_state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_device *far;
        vram_queue *followers[2];
        fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, rows[i].now);
        fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS_V1, rows[i].before);
        stage_open(stage, MEMORY, "5s");
        assert_ok(vram_device_open(stage->context, 1, &far));
        assert_ok(vram_queue_create(stage->device, NULL, &followers[0]));
        assert_ok(vram_queue_create(far, NULL, &followers[1]));
        vram_addr addr = take(stage), seen;
        assert_ok(vram_device_alloc(stage->device, PAGE, VRAM_MEMORY_PINNED, &seen));
        fake->refuse(rows[i].broken, 1, VR_CU_NOT_SUPPORTED, true);
        for (uint32_t round = 1; round <= 10; round++) {
            vram_point point;
            fake->hold(true);
            assert_ok(vram_queue_fill(stage->queue, addr, round, 1, GRANULE));
            assert_ok(vram_queue_mark(stage->queue, &point));
            assert_ok(vram_queue_after(followers[0], point));
            assert_ok(vram_queue_after(followers[1], point));
            assert_ok(
                vram_queue_download(followers[0], (void *)(uintptr_t)seen, addr + GRANULE - 1, 1));
            fake->hold(false);
            assert_ok(vram_queue_wait(followers[1], FOR_EVER));
            assert_ok(vram_point_poll(point));
            assert_ok(vram_queue_wait(followers[0], FOR_EVER));
            assert_int_equal(*(volatile unsigned char *)(uintptr_t)seen, round);
        }
        uint64_t tried = fake->struck();
        assert_in_range(tried, rows[i].broken ? 1 : 0, rows[i].broken ? 2 : 0); /* of each device */
        assert_int_equal(fake->calls("cuStreamWriteValue64") > 0, rows[i].writes);
        assert_int_equal(fake->calls("cuStreamWaitValue64") > 0, rows[i].waits);
        fake->refuse(NULL, 0, 0, false);
        stage_close(stage);
        fake->reset();
        fake->devices(2);
    }
}

TEST(priorities_count_the_other_way) {
    static const struct {
        int32_t asked;
        int given;
    } rows[] = {{0, 0}, {3, -3}, {INT32_MAX, -5}, {-2, 0}, {INT32_MIN, 0}};
    struct stage *stage = rig_state;
    stage_open(stage, MEMORY, "5s");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_queue_options options = {.size = sizeof options, .priority = rows[i].asked};
        vram_queue *queue;
        void *native;
        assert_ok(vram_queue_create(stage->device, &options, &queue));
        assert_ok(vram_queue_native(queue, &native));
        assert_int_equal(fake->stream_priority(native), rows[i].given);
        assert_ok(vram_queue_destroy(queue));
    }
    stage_close(stage);
}

/* --------------------------------------------------------------------------- ends */

static void release(void) {
    fake->hold(false);
}

/* Memory that the work is at goes back next: the end waits, also when the driver refuses at
   first. */
TEST(ending_finishes_the_work) {
    struct stage *stage = rig_state;
    for (int round = 0; round < 4; round++) {
        bool adopted = round & 1, refused = round & 2;
        vram_queue *queue;
        char byte = 0;
        stage_open(stage, MEMORY, "5s");
        vram_addr addr = take(stage);
        struct vr_cu_stream *stream = fake->stream_make(0, false, false);
        assert_ok(adopted ? vram_queue_adopt(stage->device, stream, &queue)
                          : vram_queue_create(stage->device, NULL, &queue));
        fake->hold(true);
        assert_ok(vram_queue_fill(queue, addr, 7u + (uint32_t)round, 1, GRANULE));
        fake->meanwhile("cuStreamQuery", release);
        fake->refuse(refused ? "cuStreamSynchronize" : NULL, 1, VR_CU_UNKNOWN, false);
        assert_ok(adopted ? vram_queue_end(queue) : vram_queue_destroy(queue));
        assert_int_equal(fake->struck(), refused && !adopted); /* that one has been waited for */
        assert_true(fake->peek(addr + GRANULE - 1, &byte, 1));
        assert_int_equal(byte, 7 + round);
        fake->refuse(NULL, 0, 0, false);
        fake->stream_end(stream);
        stage_close(stage);
        fake->reset();
        fake->devices(2);
    }
}

/* The driver does not say whether the work is done: the word may still be written, and the page
   that it is in outlives the device. A wait that a capture forbids is not repeated. */
TEST(a_late_write_outlives_the_device) {
    static const struct {
        vr_cu_result code;
        uint64_t asked; /* times */
    } rows[] = {{VR_CU_CAPTURE_FIRST, 1}, {VR_CU_UNKNOWN, 4}};
    struct stage *stage = rig_state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_queue *queue;
        vram_point point;
        stage_open(stage, MEMORY, "5s");
        assert_ok(vram_queue_create(stage->device, NULL, &queue));
        assert_ok(vram_queue_mark(queue, &point));
        assert_ok(vram_queue_wait(queue, FOR_EVER));
        fake->refuse("cuStreamSynchronize", 1, rows[i].code, true);
        vram_error_clear();
        assert_ok(vram_queue_destroy(queue));
        assert_int_equal(vram_error_get()->status, VRAM_OK);
        assert_int_equal(fake->struck(), rows[i].asked);
        fake->refuse(NULL, 0, 0, false);
        stage->kept_pages = 1;
        stage_close(stage);
        fake->reset();
        fake->devices(2);
    }
}

EACH_TEST(stage_begin, stage_end)
