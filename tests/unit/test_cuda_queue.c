/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_queue.c: streams of the CUDA backend: work in order, words, waits and ending. Captures
 * and adoption are in test_cuda_adopt.c.
 */
#include "unit/cuda_world.h"

#include <errno.h>
#include <limits.h>

#define WORDS_OF_A_PAGE 64

/* --------------------------------------------------------------------- time */

static bool has_event_path(void) {
    return fake->calls("cuStreamWaitEvent") > 0;
}

/* Has `second` copy what `first` fills, in that order, whatever the engine would like. */
static void follow_each_other(struct vr_queue *first, struct vr_queue *second) {
    const struct vr_queue_ops *ops = first->device->queue_ops;
    vram_addr addr = take_memory(first->device, GRANULE), seen = 0;
    assert_int_equal(first->device->pinned->alloc(first->device, PAGE, &seen), VRAM_OK);
    volatile unsigned char *bytes = (unsigned char *)(uintptr_t)seen;
    for (unsigned char round = 1; round <= 20; round++) {
        uint64_t value = word_of(first) + 1;
        fake->hold(true);
        assert_int_equal(ops->fill(first, addr, round, 1, GRANULE), VRAM_OK);
        assert_int_equal(ops->signal(first, value), VRAM_OK);
        assert_int_equal(ops->after(second, first, value), VRAM_OK);
        /* What `first` does next must not be waited for by the word, and may be by an event. */
        assert_int_equal(ops->download(second, (void *)(uintptr_t)seen, addr + GRANULE - 1, 1),
                         VRAM_OK);
        assert_int_equal(ops->signal(second, value), VRAM_OK);
        fake->hold(false);
        assert_true(passes(second, value));
        assert_int_equal(bytes[0], round);
    }
    assert_int_equal(first->device->pinned->free(first->device, seen, PAGE), VRAM_OK);
    give_memory(first->device, addr, GRANULE);
}

/* A device without 64-bit operations on streams: host functions write, events make queues wait. */
TEST(older_devices_wait_for_events) {
    struct world *world = rig_state;
    struct vr_device device;
    struct vr_queue first, second;
    fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, 0);
    fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS_V1, -1);
    open_device(&world->backend, 0, &device);
    fake->refuse(NULL, 0, 0, false);
    make_queue(&device, &first);
    make_queue(&device, &second);
    follow_each_other(&first, &second);
    assert_int_equal(fake->calls("cuStreamWaitValue64"), 0);
    assert_int_equal(fake->calls("cuStreamWriteValue64"), 0);
    assert_true(fake->calls("cuLaunchHostFunc") >= 40 && has_event_path());
    end_queue(&second);
    end_queue(&first);
    close_device(&device);
}

/* Drivers before 11.7 answer another attribute. */
TEST(older_drivers_are_asked_by_the_older_number) {
    struct world *world = rig_state;
    struct vr_device device;
    fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, -1);
    open_device(&world->backend, 0, &device);
    assert_true(vr_load(&((struct vr_cuda_device *)device.impl)->memory_ops, VR_RELAXED));
    close_device(&device);
}

/* A device that promised and does not keep it is found out once, and served the other way. */
TEST(broken_promises_are_worked_around) {
    struct world *world = rig_state;
    struct vr_queue first, second;
    make_queue(&world->device, &first);
    make_queue(&world->device, &second);
    fake->refuse("cuStreamWriteValue64", 1, VR_CU_NOT_SUPPORTED, true);
    settle(&first);
    settle(&first);
    assert_int_equal(fake->calls("cuStreamWriteValue64"), 1);
    end_queue(&second);
    end_queue(&first);
}

TEST(broken_waits_are_worked_around) {
    struct world *world = rig_state;
    struct vr_queue first, second;
    make_queue(&world->device, &first);
    make_queue(&world->device, &second);
    fake->refuse("cuStreamWaitValue64", 1, VR_CU_NOT_SUPPORTED, true);
    follow_each_other(&first, &second);
    assert_int_equal(fake->calls("cuStreamWaitValue64"), 1);
    assert_true(has_event_path());
    end_queue(&second);
    end_queue(&first);
}

TEST(queues_of_two_devices_wait_for_each_other) {
    struct vr_backend backend;
    struct vr_device devices[2];
    struct vr_queue first, second;
    fake->devices(2);
    for (int by_event = 0; by_event < 2; by_event++) {
        start_backend(&backend);
        for (uint32_t i = 0; i < 2; i++) {
            open_device(&backend, i, &devices[i]);
            if (by_event) {
                vr_store(&((struct vr_cuda_device *)devices[i].impl)->memory_ops, false,
                         VR_RELAXED);
            }
        }
        make_queue(&devices[0], &first);
        make_queue(&devices[1], &second);
        fake->hold(true);
        assert_int_equal(devices[0].queue_ops->signal(&first, 1), VRAM_OK);
        assert_int_equal(devices[1].queue_ops->after(&second, &first, 1), VRAM_OK);
        assert_int_equal(devices[1].queue_ops->signal(&second, 1), VRAM_OK);
        fake->hold(false);
        assert_true(passes(&second, 1));
        assert_int_equal(word_of(&first), 1);
        end_queue(&second);
        end_queue(&first);
        close_device(&devices[1]);
        close_device(&devices[0]);
        backend.ops->stop(&backend);
    }
}

/* -------------------------------------------------------------- words, ends */

TEST(priorities_count_the_other_way) {
    struct world *world = rig_state;
    static const struct {
        int32_t asked;
        int given;
    } rows[] = {{0, 0}, {3, -3}, {INT32_MAX, -5}, {-2, 0}, {INT32_MIN, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct vram_queue_options options = {.size = sizeof options, .priority = rows[i].asked};
        struct vr_queue queue = {.device = &world->device};
        assert_int_equal(world->device.queue_ops->create(&queue, &options), VRAM_OK);
        assert_int_equal(fake->stream_priority(queue.native), rows[i].given);
        end_queue(&queue);
    }
}

/* More queues than a page has words; no two share one. */
TEST(words_come_in_pages) {
    struct world *world = rig_state;
    struct vr_queue queues[2 * WORDS_OF_A_PAGE];
    enum { COUNT = sizeof queues / sizeof queues[0] };
    struct fake_cuda_live live;
    for (int i = 0; i < COUNT; i++) {
        make_queue(&world->device, &queues[i]);
        for (int j = 0; j < i; j++) {
            assert_true(queues[i].word != queues[j].word);
        }
        assert_int_equal((uintptr_t)queues[i].word % 64, 0);
    }
    fake->live(&live);
    assert_int_equal(live.pinned, 2);
    for (int i = 0; i < COUNT; i++) {
        settle(&queues[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        end_queue(&queues[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        make_queue(&world->device, &queues[i]);
        assert_int_equal(word_of(&queues[i]), 1); /* goes on where the last one stopped */
        settle(&queues[i]);
        assert_int_equal(word_of(&queues[i]), 2);
    }
    fake->live(&live);
    assert_int_equal(live.pinned, 2);
    for (int i = 0; i < COUNT; i++) {
        end_queue(&queues[i]);
    }
}

/* A queue that cannot be made leaves its word to the next; a page that cannot be had is said. */
TEST(queues_that_fail_give_their_word_back) {
    struct world *world = rig_state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_queue queue = {.device = &world->device}, queues[WORDS_OF_A_PAGE];
    for (int i = 0; i < 3 * WORDS_OF_A_PAGE; i++) {
        fake->refuse("cuStreamCreateWithPriority", 1, VR_CU_OUT_OF_MEMORY, false);
        assert_int_equal(ops->create(&queue, NULL), VRAM_ERR_DEVICE_MEMORY);
        assert_true(!queue.impl && !queue.word);
    }
    for (int i = 0; i < WORDS_OF_A_PAGE; i++) {
        make_queue(&world->device, &queues[i]);
    }
    fake->refuse("cuMemHostRegister", 1, VR_CU_OUT_OF_MEMORY, false);
    assert_int_equal(ops->create(&queue, NULL), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(2, false);
    assert_int_equal(ops->create(&queue, NULL), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(1, false);
    assert_int_equal(ops->create(&queue, NULL), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    fake->refuse("cuCtxPushCurrent", 1, VR_CU_UNKNOWN, false);
    assert_int_equal(ops->create(&queue, NULL), VRAM_ERR_BACKEND);
    for (int i = 0; i < WORDS_OF_A_PAGE; i++) {
        end_queue(&queues[i]);
    }
}

static void release_later(void *argument) {
    (void)argument;
    vr_os_sleep(5000000);
    fake->hold(false);
}

/* Ending a queue finishes its work, the copies behind the last signal included; also when the
   driver refuses to wait at first, because memory that the work is at goes back next. */
TEST(ending_finishes_the_work) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    vram_addr addr = take_memory(device, GRANULE);
    for (int round = 0; round < 4; round++) {
        bool adopted = round & 1, refused = round & 2;
        struct vr_queue queue;
        struct vr_thread thread;
        struct vr_cu_stream *stream = fake->stream_make(0, false, false);
        char byte = 0;
        if (adopted) {
            assert_int_equal(adopt(device, stream, &queue), VRAM_OK);
        } else {
            make_queue(device, &queue);
        }
        uint64_t value = word_of(&queue) + 1;
        vr_atomic_u64 *word = queue.word;
        fake->hold(true);
        assert_int_equal(device->queue_ops->fill(&queue, addr, 7u + round, 1, GRANULE), VRAM_OK);
        assert_int_equal(device->queue_ops->signal(&queue, value), VRAM_OK);
        assert_int_equal(vr_os_thread_start(&thread, "release", release_later, NULL), VRAM_OK);
        if (refused) {
            fake->refuse("cuStreamSynchronize", 1, VR_CU_UNKNOWN, false);
        }
        end_queue(&queue);
        assert_true(vr_load(word, VR_ACQUIRE) == value);
        assert_true(fake->peek(addr + GRANULE - 1, &byte, 1));
        assert_int_equal(byte, 7 + round);
        vr_os_thread_join(&thread);
        fake->stream_end(stream);
    }
    give_memory(device, addr, GRANULE);
}

/* A word whose last write may still come is not used again. */
TEST(words_with_writes_outstanding_are_kept) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    struct vr_queue queue, next;
    assert_int_equal(adopt(device, stream, &queue), VRAM_OK);
    fake->hold(true);
    assert_int_equal(device->queue_ops->signal(&queue, 5), VRAM_OK);
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE); /* may not be synchronised */
    vr_atomic_u64 *word = queue.word;
    end_queue(&queue);
    make_queue(device, &next);
    assert_true(next.word != word);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    fake->hold(false);
    settle(&next);
    assert_int_equal(word_of(&next), 1);
    assert_true(reaches(word, 5));
    /* The same when the driver refuses to wait. */
    assert_int_equal(device->queue_ops->signal(&next, 2), VRAM_OK);
    word = next.word;
    fake->refuse("cuStreamSynchronize", 1, VR_CU_UNKNOWN, true);
    vram_error_clear();
    end_queue(&next);
    fake->refuse(NULL, 0, 0, false);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    make_queue(device, &next);
    assert_true(next.word != word);
    assert_true(reaches(word, 2));
    end_queue(&next);
    fake->stream_end(stream);
    world->kept_pages = 1;
}

TEST(refused_ends_are_forgotten) {
    struct world *world = rig_state;
    struct vr_queue queue;
    make_queue(&world->device, &queue);
    fake->refuse("cuStreamDestroy", 1, VR_CU_UNKNOWN, false);
    vram_error_clear();
    end_queue(&queue);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    fake->reset(); /* the stream that the driver would not take */
    note_loss(&world->device);
}

/* Streams that were lost with a host function outstanding leave nothing behind but its record. */
TEST(loss_with_writes_outstanding) {
    struct world *world = rig_state;
    struct vr_queue queue;
    make_queue(&world->device, &queue);
    vr_store(&((struct vr_cuda_device *)world->device.impl)->memory_ops, false, VR_RELAXED);
    fake->hold(true);
    assert_int_equal(world->device.queue_ops->signal(&queue, 1), VRAM_OK);
    fake->lose(0, VR_CU_LAUNCH_FAILED);
    assert_int_equal(world->device.queue_ops->signal(&queue, 2), VRAM_ERR_DEVICE_LOST);
    note_loss(&world->device);
    fake->hold(false);
    end_queue(&queue);
}

/* ------------------------------------------------------------------ threads */

struct worker {
    struct vr_thread thread;
    struct vr_device *device;
    struct vr_queue *shared;
    unsigned char mark;
    unsigned rounds, wrong;
};

/* Neither words nor functions: each signal is an event, and the word rises when the queue is
   polled. */
TEST(events_stand_for_signals) {
    struct world *world = rig_state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_queue queue, other;
    vram_addr addr = take_memory(&world->device, GRANULE);
    vr_store(&((struct vr_cuda_device *)world->device.impl)->memory_ops, false, VR_RELAXED);
    fake->host_functions(false);
    make_queue(&world->device, &queue);
    make_queue(&world->device, &other);
    uint64_t first = word_of(&queue);
    fake->hold(true);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(ops->fill(&queue, addr, 1, 1, 64), VRAM_OK);
        assert_int_equal(ops->signal(&queue, first + i), VRAM_OK);
    }
    assert_int_equal(ops->after(&other, &queue, first + 5), VRAM_OK);
    assert_int_equal(ops->poll(&queue), VRAM_ERR_NOT_READY);
    assert_int_equal(word_of(&queue), first);
    fake->hold(false);
    while (ops->poll(&queue) == VRAM_ERR_NOT_READY) {
        assert_true(word_of(&queue) <= first + 5);
    }
    assert_int_equal(word_of(&queue), first + 5);
    struct fake_cuda_live live;
    fake->live(&live);
    assert_int_equal(live.events, 0);
    /* One that is never polled again: its end sees to the rest. */
    assert_int_equal(ops->signal(&queue, first + 6), VRAM_OK);
    fake->refuse("cuEventQuery", 1, VR_CU_UNKNOWN, false);
    assert_int_equal(ops->poll(&queue), VRAM_ERR_BACKEND);
    fake->refuse(NULL, 0, 0, false);
    vr_atomic_u64 *word = queue.word;
    end_queue(&queue);
    assert_int_equal(vr_load(word, VR_ACQUIRE), first + 6);
    end_queue(&other);
    fake->live(&live);
    assert_int_equal(live.events, 0);
    give_memory(&world->device, addr, GRANULE);
}

EACH_TEST(setup, teardown)
