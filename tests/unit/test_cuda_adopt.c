/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_adopt.c: streams that the program made: which can be adopted, by whom they can be used,
 * and that a capture into a graph is neither entered nor spoiled.
 */
#include "unit/cuda_world.h"

/* ----------------------------------------------------------------- captures */

/* While a stream is captured no marker enters it and nothing spoils the capture: not the library's
   own questions, nor memory taken on the same thread. */
TEST(captures_are_left_alone) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    const struct vr_queue_ops *ops = device->queue_ops;
    struct vr_cu_stream *stream = fake->stream_make(0, true, false);
    struct vr_queue captured, other, legacy;
    vram_addr addr = take_memory(device, GRANULE);
    assert_int_equal(adopt(device, stream, &captured), VRAM_OK);
    assert_int_equal(adopt(device, NULL, &legacy), VRAM_OK);
    make_queue(device, &other);
    settle(&captured);
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(ops->signal(&captured, 2), VRAM_ERR_CAPTURE);
    assert_cuda_error(VRAM_ERR_CAPTURE, "cuStreamWriteValue64", 0);
    assert_int_equal(ops->after(&captured, &other, 1), VRAM_ERR_CAPTURE);
    assert_int_equal(ops->poll(&captured), VRAM_ERR_NOT_READY);
    assert_int_equal(ops->fill(&captured, addr, 1, 1, 8), VRAM_OK); /* the graph's own */
    assert_int_equal(fake->captured(), 1);
    /* The legacy stream would wait for the captured one. */
    assert_int_equal(ops->signal(&legacy, 1), VRAM_ERR_CAPTURE);
    assert_int_equal(ops->poll(&legacy), VRAM_ERR_NOT_READY);
    /* Other work goes on, and can still be waited for. */
    settle(&other);
    assert_int_equal(ops->poll(&other), VRAM_OK);
    vram_addr more = take_memory(device, GRANULE), pinned = 0;
    assert_int_equal(device->pinned->alloc(device, PAGE, &pinned), VRAM_OK);
    assert_int_equal(device->pinned->free(device, pinned, PAGE), VRAM_OK);
    give_memory(device, more, GRANULE);
    end_queue(&other);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    settle(&captured);
    settle(&legacy);
    end_queue(&captured);
    end_queue(&legacy);
    fake->stream_end(stream);
    give_memory(device, addr, GRANULE);
}

/* With events an `after` would have to mark the other queue: not while that one is captured. */
TEST(captured_queues_cannot_be_marked) {
    struct world *world = rig_state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    struct vr_queue captured, other;
    assert_int_equal(adopt(&world->device, stream, &captured), VRAM_OK);
    make_queue(&world->device, &other);
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    vr_store(&((struct vr_cuda_device *)world->device.impl)->memory_ops, false, VR_RELAXED);
    assert_int_equal(ops->after(&other, &captured, 1), VRAM_ERR_CAPTURE);
    assert_cuda_error(VRAM_ERR_CAPTURE, "cuEventRecord", 0);
    fake->capture(stream, VR_CU_CAPTURE_INVALIDATED);
    assert_int_equal(ops->signal(&captured, 1), VRAM_ERR_CAPTURE);
    assert_int_equal(ops->upload(&captured, 0, "", 1), VRAM_ERR_CAPTURE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    end_queue(&captured);
    end_queue(&other);
    fake->stream_end(stream);
}

/* CuPy allocates for the first time in a capture. The stream has no id yet; later it does. */
TEST(a_captured_stream_is_adopted) {
    struct world *world = rig_state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_cu_stream *stream = fake->stream_make(0, true, false);
    struct vr_queue queue;
    vram_addr addr = take_memory(&world->device, GRANULE);
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(adopt(&world->device, stream, &queue), VRAM_OK);
    assert_int_equal(ops->fill(&queue, addr, 1, 1, 8), VRAM_OK); /* the graph's own */
    assert_int_equal(ops->signal(&queue, 1), VRAM_ERR_CAPTURE);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(fake->captured(), 1);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    settle(&queue);
    fake->stream_renew(stream);
    assert_int_equal(ops->signal(&queue, 2), VRAM_ERR_STALE);
    end_queue(&queue);
    fake->stream_end(stream);
    /* Another context's is refused while it is captured, too. */
    stream = fake->stream_make(0, true, true);
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(adopt(&world->device, stream, &queue), VRAM_ERR_INVALID);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->stream_end(stream);
    give_memory(&world->device, addr, GRANULE);
}

/* Work for the legacy stream ends the capture of a blocking one, so it is refused before. */
TEST(the_legacy_stream_ends_no_capture) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    const struct vr_queue_ops *ops = device->queue_ops;
    for (int blocking = 0; blocking < 2; blocking++) {
        struct vr_cu_stream *stream = fake->stream_make(0, blocking, false);
        const vram_status expected = blocking ? VRAM_ERR_CAPTURE : VRAM_OK;
        char bytes[8] = "1234567";
        struct vr_queue legacy;
        vram_addr addr = take_memory(device, GRANULE), managed = 0;
        struct vr_rectangle rows = {.from = addr,
                                    .to = addr + 64,
                                    .from_pitch = 16,
                                    .to_pitch = 16,
                                    .row_bytes = 8,
                                    .rows = 2};
        assert_int_equal(device->managed->alloc(device, PAGE, &managed), VRAM_OK);
        assert_int_equal(adopt(device, blocking ? NULL : (void *)1, &legacy), VRAM_OK);
        fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
        assert_int_equal(ops->fill(&legacy, addr, 1, 1, 8), expected);
        assert_int_equal(ops->fill(&legacy, addr, 1, 2, 8), expected);
        assert_int_equal(ops->fill(&legacy, addr, 1, 4, 8), expected);
        assert_int_equal(ops->copy(&legacy, addr + 8, addr, 8), expected);
        assert_int_equal(ops->copy_rows(&legacy, &rows), expected);
        assert_int_equal(ops->upload(&legacy, addr, bytes, sizeof bytes), expected);
        assert_int_equal(ops->download(&legacy, bytes, addr, sizeof bytes), expected);
        assert_int_equal(device->managed->prefetch(&legacy, managed, PAGE, 0), expected);
        assert_int_equal(ops->signal(&legacy, 1), expected);
        if (blocking) {
            assert_cuda_error(VRAM_ERR_CAPTURE, "cuStreamWriteValue64", 0);
        }
        assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
        fake->capture(stream, VR_CU_CAPTURE_NONE);
        settle(&legacy);
        end_queue(&legacy);
        fake->stream_end(stream);
        assert_int_equal(device->managed->free(device, managed, PAGE), VRAM_OK);
        give_memory(device, addr, GRANULE);
    }
}

/* Graphs have no such work: the driver would end the capture. */
TEST(a_capture_takes_no_prefetch) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    struct vr_queue queue;
    vram_addr managed = 0, addr = take_memory(device, GRANULE);
    assert_int_equal(device->managed->alloc(device, PAGE, &managed), VRAM_OK);
    assert_int_equal(adopt(device, stream, &queue), VRAM_OK);
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(device->managed->prefetch(&queue, managed, PAGE, 0), VRAM_ERR_CAPTURE);
    assert_int_equal(device->managed->advise(device, managed, PAGE, VRAM_ADVICE_PREFER, 0),
                     VRAM_OK);
    assert_int_equal(vr_cuda_peer_ops.copy(&queue, addr, device, addr + 64, 64), VRAM_ERR_CAPTURE);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    end_queue(&queue);
    fake->stream_end(stream);
    assert_int_equal(device->managed->free(device, managed, PAGE), VRAM_OK);
    give_memory(device, addr, GRANULE);
}

/* A driver without the call for relaxed mode is used as it is. */
TEST(relaxing_may_fail) {
    struct world *world = rig_state;
    fake->refuse("cuThreadExchangeStreamCaptureMode", 1, VR_CU_UNKNOWN, true);
    vram_addr addr = take_memory(&world->device, GRANULE);
    give_memory(&world->device, addr, GRANULE);
    fake->refuse("cuStreamIsCapturing", 1, VR_CU_UNKNOWN, true);
    struct vr_queue queue;
    make_queue(&world->device, &queue);
    assert_int_equal(world->device.queue_ops->signal(&queue, 1), VRAM_ERR_BACKEND);
    assert_int_equal(world->device.queue_ops->poll(&queue), VRAM_ERR_BACKEND);
    assert_cuda_error(VRAM_ERR_BACKEND, "cuStreamIsCapturing", VR_CU_UNKNOWN);
    end_queue(&queue);
}

/* ----------------------------------------------------------------- adoption */

TEST(any_stream_can_be_adopted) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    void *natives[] = {NULL, (void *)(uintptr_t)VR_CU_STREAM_LEGACY,
                       (void *)(uintptr_t)VR_CU_STREAM_PER_THREAD, stream};
    for (size_t i = 0; i < sizeof natives / sizeof natives[0]; i++) {
        struct vr_queue queue;
        assert_int_equal(adopt(device, natives[i], &queue), VRAM_OK);
        assert_ptr_equal(queue.native, natives[i]);
        vram_addr addr = take_memory(device, GRANULE);
        unsigned char byte = 0;
        assert_int_equal(device->queue_ops->fill(&queue, addr, 9, 1, GRANULE), VRAM_OK);
        assert_int_equal(device->queue_ops->download(&queue, &byte, addr, 1), VRAM_OK);
        settle(&queue);
        assert_int_equal(byte, 9);
        end_queue(&queue); /* the stream stays the program's: teardown finds breaches */
        give_memory(device, addr, GRANULE);
    }
    fake->stream_end(stream);
}

TEST(foreign_streams_are_refused) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    struct vr_queue queue;
    struct vr_cu_stream *stream = fake->stream_make(0, false, true);
    assert_int_equal(adopt(device, stream, &queue), VRAM_ERR_INVALID);
    assert_null(queue.impl);
    assert_non_null(strstr(vram_error_get()->text, "another device or context"));
    fake->refuse("cuStreamGetCtx", 1, VR_CU_INVALID_HANDLE, false);
    assert_int_equal(adopt(device, stream, &queue), VRAM_ERR_INVALID);
    assert_cuda_error(VRAM_ERR_INVALID, "cuStreamGetCtx", VR_CU_INVALID_HANDLE);
    fake->stream_end(stream);
}

struct visitor {
    struct vr_queue *queue, *other;
    vram_addr addr;
    vram_status signal, upload, after, poll_before, poll_after;
};

/* Another thread's default stream has the same handle and is another stream. */
static void visit(void *argument) {
    struct visitor *visitor = argument;
    const struct vr_queue_ops *ops = visitor->queue->device->queue_ops;
    visitor->signal = ops->signal(visitor->queue, 2);
    visitor->upload = ops->upload(visitor->queue, visitor->addr, "x", 1);
    vr_store(&((struct vr_cuda_device *)visitor->queue->device->impl)->memory_ops, false,
             VR_RELAXED);
    visitor->after = ops->after(visitor->other, visitor->queue, 1);
    visitor->poll_before = ops->poll(visitor->queue);
    fake->hold(false);
    passes(visitor->queue, 1);
    visitor->poll_after = ops->poll(visitor->queue);
}

TEST(the_per_thread_stream_belongs_to_its_thread) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    struct vr_queue queue, other;
    struct vr_thread thread;
    struct visitor visitor = {.queue = &queue, .other = &other};
    visitor.addr = take_memory(device, GRANULE);
    assert_int_equal(adopt(device, (void *)(uintptr_t)VR_CU_STREAM_PER_THREAD, &queue), VRAM_OK);
    make_queue(device, &other);
    fake->hold(true);
    assert_int_equal(device->queue_ops->signal(&queue, 1), VRAM_OK);
    assert_int_equal(vr_os_thread_start(&thread, "visitor", visit, &visitor), VRAM_OK);
    vr_os_thread_join(&thread);
    assert_int_equal(visitor.signal, VRAM_ERR_INVALID);
    assert_int_equal(visitor.upload, VRAM_ERR_INVALID);
    assert_int_equal(visitor.after, VRAM_ERR_INVALID);
    assert_int_equal(visitor.poll_before, VRAM_ERR_NOT_READY);
    assert_int_equal(visitor.poll_after, VRAM_OK);
    end_queue(&other);
    end_queue(&queue);
    give_memory(device, visitor.addr, GRANULE);
}

static void adopt_and_end(void *argument) {
    struct visitor *visitor = argument;
    visitor->signal =
        adopt(visitor->queue->device, (void *)(uintptr_t)VR_CU_STREAM_PER_THREAD, visitor->queue);
}

static void submit(void *argument) {
    struct visitor *visitor = argument;
    visitor->upload =
        visitor->queue->device->queue_ops->upload(visitor->queue, visitor->addr, "x", 1);
}

/* The thread has ended. Another that lies where it lay in memory is another all the same. */
TEST(ended_threads_are_not_mistaken_for_others) {
    struct world *world = rig_state;
    struct vr_queue queue = {.device = &world->device};
    struct visitor visitor = {.queue = &queue, .signal = VRAM_ERR_INVALID};
    struct vr_thread thread;
    visitor.addr = take_memory(&world->device, GRANULE);
    assert_int_equal(vr_os_thread_start(&thread, "one", adopt_and_end, &visitor), VRAM_OK);
    vr_os_thread_join(&thread);
    assert_int_equal(visitor.signal, VRAM_OK);
    assert_int_equal(vr_os_thread_start(&thread, "two", submit, &visitor), VRAM_OK);
    vr_os_thread_join(&thread);
    assert_int_equal(visitor.upload, VRAM_ERR_INVALID);
    end_queue(&queue);
    give_memory(&world->device, visitor.addr, GRANULE);
}

/* Asks from a thread that did not adopt the stream. */
static void ask(void *argument) {
    struct visitor *visitor = argument;
    visitor->poll_before = visitor->queue->device->queue_ops->poll(visitor->queue);
}

static vram_status ask_elsewhere(struct vr_queue *queue) {
    struct visitor visitor = {.queue = queue};
    struct vr_thread thread;
    assert_int_equal(vr_os_thread_start(&thread, "asker", ask, &visitor), VRAM_OK);
    vr_os_thread_join(&thread);
    return visitor.poll_before;
}

/* All signals of the stream have come, and yet it has work: other threads must not hear that it is
   done, since memory would be given back under it. */
TEST(work_behind_the_last_signal_counts_everywhere) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    struct vr_queue queue;
    vram_addr addr = take_memory(device, GRANULE);
    assert_int_equal(adopt(device, (void *)(uintptr_t)VR_CU_STREAM_PER_THREAD, &queue), VRAM_OK);
    settle(&queue);
    assert_int_equal(ask_elsewhere(&queue), VRAM_OK);
    fake->hold(true);
    assert_int_equal(device->queue_ops->fill(&queue, addr, 1, 1, GRANULE), VRAM_OK);
    assert_int_equal(device->queue_ops->poll(&queue), VRAM_ERR_NOT_READY);
    assert_int_equal(ask_elsewhere(&queue), VRAM_ERR_NOT_READY);
    fake->hold(false);
    settle(&queue);
    assert_int_equal(ask_elsewhere(&queue), VRAM_OK);
    /* A capture elsewhere is neither spoiled nor taken for done. */
    struct vr_cu_stream *stream = fake->stream_make(0, true, false);
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(ask_elsewhere(&queue), VRAM_ERR_NOT_READY);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    fake->refuse("cuStreamQuery", 1, VR_CU_UNKNOWN, false);
    assert_int_equal(ask_elsewhere(&queue), VRAM_ERR_BACKEND);
    end_queue(&queue);
    fake->stream_end(stream);
    give_memory(device, addr, GRANULE);
}

/* A program that destroys its stream too early, and makes another that gets the same handle. */
TEST(a_handle_used_again_is_another_stream) {
    struct world *world = rig_state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    struct vr_queue queue, other;
    assert_int_equal(adopt(&world->device, stream, &queue), VRAM_OK);
    make_queue(&world->device, &other);
    settle(&queue);
    settle(&other);
    fake->stream_renew(stream);
    uint64_t value = word_of(&queue) + 1, marked = fake->calls("cuStreamWriteValue64");
    assert_int_equal(ops->signal(&queue, value), VRAM_ERR_STALE);
    assert_cuda_error(VRAM_ERR_STALE, "cuStreamWriteValue64", 0);
    assert_int_equal(ops->after(&queue, &other, word_of(&other)), VRAM_ERR_STALE);
    assert_int_equal(fake->calls("cuStreamWriteValue64"), marked);
    end_queue(&queue);
    end_queue(&other);
    fake->stream_end(stream);
}

EACH_TEST(setup, teardown)
