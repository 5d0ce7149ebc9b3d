/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_queue.c: when and in which order simulated work is done. */
#include "sim_world.h"

#include <stdio.h>

/* Lets one call pass that has nothing to do with any queue. */
static void pass_call(struct world *world) {
    vram_value free, total;
    assert_ok(world->device.ops->memory_info(&world->device, &free, &total));
}

/* ------------------------------------------------------------------- asynchrony */

TEST(lag_keeps_work_back) {
    struct world world;
    open_world(&world, "lag=200,seed=4");
    struct vr_queue queue = create_queue(&world.device);
    unsigned longest = 0;
    for (uint64_t value = 1; value <= 50; value++) {
        unsigned calls = 0;
        signal_queue(&queue, value);
        for (; word_of(&queue) < value; calls++) {
            pass_call(&world);
        }
        assert_in_range(calls, 1, 201);
        longest = calls > longest ? calls : longest;
    }
    assert_true(longest > 100);
    assert_true(poll_queue(&queue) == VRAM_OK);
    /* Who waits is not kept waiting: polls in a row count for more and more. */
    for (uint64_t value = 51; value <= 100; value++) {
        signal_queue(&queue, value);
        assert_true(wait_queue(&queue, value) <= 9);
    }
    destroy_queue(&queue);
    close_world(&world, 0);
}

TEST(waits_take_few_polls) {
    struct world world;
    open_world(&world, "profile=h200,lag=10000");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    vram_addr addr = alloc(device, VR_GIB);
    for (unsigned i = 0; i < 1000; i++) {
        assert_ok(device->queue_ops->fill(&queue, addr, 0, 4, VR_GIB));
    }
    signal_queue(&queue, 1);
    assert_int_equal(poll_queue(&queue), VRAM_ERR_NOT_READY);
    assert_in_range(wait_queue(&queue, 1), 2, 20);
    /* 1000 fills of 1 GiB at 2 TB/s. */
    assert_in_range(state_of(&world).clock_ns, 536000000, 545000000);
    destroy_queue(&queue);
    assert_ok(device->ops->free(device, addr, VR_GIB));
    close_world(&world, 0);
}

/* ------------------------------------------------------------------------- order */

/* Has eight queues signal at once; writes down in which order they are seen to. */
static void finishing_order(const char *text, uint64_t order[8]) {
    struct world world;
    struct vr_queue queues[8];
    open_world(&world, text);
    for (unsigned i = 0; i < 8; i++) {
        queues[i] = create_queue(&world.device);
    }
    for (unsigned i = 0; i < 8; i++) {
        signal_queue(&queues[i], 1);
    }
    uint64_t seen = 0;
    for (unsigned count = 0; count < 8;) {
        pass_call(&world);
        for (unsigned i = 0; i < 8; i++) {
            if (word_of(&queues[i]) && !(seen & 1u << i)) {
                seen |= 1u << i;
                order[count++] = i;
            }
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        destroy_queue(&queues[i]);
    }
    close_world(&world, 0);
}

TEST(seed_decides_across_queues) {
    uint64_t first[8], again[8], other[8];
    unsigned different = 0, sorted = 0;
    finishing_order("lag=40,seed=1", first);
    finishing_order("lag=40,seed=1", again);
    assert_memory_equal(first, again, sizeof first);
    for (unsigned seed = 2; seed < 12; seed++) {
        char text[32];
        snprintf(text, sizeof text, "lag=40,seed=%u", seed);
        finishing_order(text, other);
        different += memcmp(first, other, sizeof first) != 0;
        bool in_order = true;
        for (unsigned i = 1; i < 8; i++) {
            in_order = in_order && other[i - 1] < other[i];
        }
        sorted += in_order;
    }
    assert_true(different >= 8 && sorted <= 2);
}

/* ------------------------------------------------------------------------- after */

TEST(after_what_cannot_come) {
    struct world world, elsewhere;
    open_world(&elsewhere, "");
    struct vr_queue foreign = create_queue(&elsewhere.device);
    open_world(&world, "");
    struct vr_queue one = create_queue(&world.device), two = create_queue(&world.device);
    const struct vr_queue_ops *ops = world.device.queue_ops;
    signal_queue(&one, 3);
    assert_int_equal(ops->after(&two, &one, 4), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "not told to signal 4");
    assert_int_equal(ops->after(&two, &foreign, 0), VRAM_ERR_INVALID);
    expect_violation(&world, 2, "another machine");
    assert_ok(ops->after(&two, &one, 3)); /* has passed by now */
    destroy_queue(&one);
    destroy_queue(&two);
    close_world(&world, 2);
    destroy_queue(&foreign);
    elsewhere.device.ops->close(&elsewhere.device);
    stop_world(&elsewhere);
}

/* ----------------------------------------------------------------- native queues */

TEST(words_outlive_queues) {
    struct world world;
    open_world(&world, "");
    struct vr_queue queue = create_queue(&world.device), other = create_queue(&world.device);
    vr_atomic_u64 *word = queue.word;
    assert_ptr_not_equal(word, other.word);
    signal_queue(&queue, 41);
    destroy_queue(&queue);
    assert_int_equal(vr_load(word, VR_ACQUIRE), 42);
    queue = create_queue(&world.device);
    assert_ptr_equal(queue.word, word);
    assert_int_equal(word_of(&queue), 42); /* counting goes on from here */
    destroy_queue(&queue);
    destroy_queue(&other);
    close_world(&world, 0);
}

/* A late signal has lowered the word, and the higher number is not written again: a queue that
   waits for it waits for ever. Nobody who ends something may be held up by that. */
TEST(late_signals_hold_up_nobody) {
    for (unsigned ending = 0; ending < 3; ending++) {
        struct world world;
        open_world(&world, "");
        struct vr_device *device = &world.device;
        struct vr_queue queue = create_queue(device), other = create_queue(device);
        vram_addr addr = alloc(device, PAGE);
        signal_queue(&queue, 8);
        signal_queue(&queue, 7);
        assert_int_equal(poll_queue(&queue), VRAM_OK);
        assert_int_equal(word_of(&queue), 7);
        assert_ok(device->queue_ops->after(&other, &queue, 8));
        assert_ok(device->queue_ops->fill(&other, addr, 1, 1, PAGE));
        assert_int_equal(poll_queue(&other), VRAM_ERR_NOT_READY);
        if (ending == 0) { /* the work was never done: it goes with its queue */
            device->queue_ops->destroy(&other);
            expect_violation(&world, 1, "unfinished work");
            assert_ok(device->ops->free(device, addr, PAGE));
            destroy_queue(&queue);
            close_world(&world, 1);
        } else if (ending == 1) { /* a driver that waits, since a poll was refused, does not wait */
            plan(&world, VRAM_SIM_POLL, 1, false, 99);
            assert_int_equal(poll_queue(&queue), VRAM_ERR_BACKEND);
            assert_int_equal(device->ops->free(device, addr, PAGE), VRAM_ERR_INVALID);
            expect_violation(&world, 1, "in use by unfinished work");
            destroy_queue(&queue); /* lets the other one go on */
            destroy_queue(&other);
            assert_ok(device->ops->free(device, addr, PAGE));
            close_world(&world, 1);
        } else { /* nothing was ended at all: the queues and the memory are three breaches */
            close_world(&world, 3);
        }
    }
}

/* A library whose signals or polls fail cannot know what is done: then the driver waits. */
TEST(unknown_progress_is_excused) {
    static const vram_sim_call calls[] = {VRAM_SIM_SIGNAL, VRAM_SIM_POLL};
    for (unsigned i = 0; i < 2; i++) {
        struct world world;
        uint32_t back = 0;
        open_world(&world, "lag=1000");
        struct vr_device *device = &world.device;
        struct vr_queue queue = create_queue(device);
        vram_addr addr = alloc(device, PAGE);
        assert_ok(device->queue_ops->fill(&queue, addr, 5, 4, PAGE));
        assert_ok(device->queue_ops->download(&queue, &back, addr, 4));
        plan(&world, calls[i], 1, true, 99);
        assert_int_equal(calls[i] == VRAM_SIM_POLL ? poll_queue(&queue)
                                                   : device->queue_ops->signal(&queue, 1),
                         VRAM_ERR_BACKEND);
        assert_ok(device->ops->free(device, addr, PAGE));
        assert_int_equal(back, 5);
        device->queue_ops->destroy(&queue);
        close_world(&world, 0);
    }
}
