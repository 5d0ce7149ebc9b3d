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

static void not_inside_the_call(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    assert_int_equal(word_of(&queue), 0);
    assert_int_equal(poll_queue(&queue), VRAM_OK); /* nothing to do */
    vram_addr addr = alloc(device, PAGE);
    uint32_t value = 5, back = 0;
    assert_ok(device->queue_ops->upload(&queue, addr, &value, 4));
    value = 6; /* read when the upload is done, not when it is submitted */
    assert_ok(device->queue_ops->download(&queue, &back, addr, 4));
    assert_int_equal(back, 0);
    signal_queue(&queue, 7);
    assert_int_equal(word_of(&queue), 0);
    pass_call(&world);
    assert_int_equal(word_of(&queue), 7);
    assert_int_equal(back, 6);
    signal_queue(&queue, 8);
    assert_int_equal(word_of(&queue), 7);
    assert_int_equal(poll_queue(&queue), VRAM_OK);
    assert_int_equal(word_of(&queue), 8);
    device->queue_ops->destroy(&queue);
    assert_ok(device->ops->free(device, addr, PAGE));
    close_world(&world, 0);
}

static void lag_keeps_work_back(void **state) {
    (void)state;
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

static void waits_take_few_polls(void **state) {
    (void)state;
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

static void one_queue_keeps_order(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "lag=30,seed=9");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    vram_addr addr = alloc(device, PAGE);
    uint32_t seen[200];
    for (uint32_t i = 0; i < 200; i++) {
        assert_ok(device->queue_ops->fill(&queue, addr, i, 4, 4));
        assert_ok(device->queue_ops->download(&queue, &seen[i], addr, 4));
        signal_queue(&queue, i + 1);
    }
    uint64_t last = 0;
    while (word_of(&queue) < 200) {
        pass_call(&world);
        assert_true(word_of(&queue) >= last);
        last = word_of(&queue);
    }
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(seen[i], i);
    }
    destroy_queue(&queue);
    assert_ok(device->ops->free(device, addr, PAGE));
    close_world(&world, 0);
}

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

static void seed_decides_across_queues(void **state) {
    (void)state;
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

static void after_is_respected(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 20; seed++) {
        struct world world;
        char text[32];
        uint32_t back[3] = {0};
        snprintf(text, sizeof text, "lag=25,seed=%u", seed);
        open_world(&world, text);
        struct vr_device *device = &world.device;
        const struct vr_queue_ops *ops = device->queue_ops;
        struct vr_queue one = create_queue(device), two = create_queue(device);
        vram_addr addr = alloc(device, PAGE);
        for (uint32_t round = 1; round <= 10; round++) {
            assert_ok(ops->fill(&one, addr, round, 4, 4));
            signal_queue(&one, round);
            assert_ok(ops->after(&two, &one, round));
            assert_ok(ops->download(&two, &back[0], addr, 4));
            signal_queue(&two, round);
            assert_ok(ops->after(&one, &two, round));
            if (round % 3 == 0) {
                wait_queue(&two, round);
                assert_int_equal(back[0], round);
            }
        }
        wait_queue(&two, 10);
        assert_int_equal(back[0], 10);
        destroy_queue(&one);
        destroy_queue(&two);
        assert_ok(device->ops->free(device, addr, PAGE));
        close_world(&world, 0);
    }
}

static void after_what_cannot_come(void **state) {
    (void)state;
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

/* -------------------------------------------------------------------------- time */

static void queues_work_side_by_side(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "profile=h200,memory=1T");
    struct vr_device *device = &world.device;
    const struct vr_queue_ops *ops = device->queue_ops;
    struct vr_queue one = create_queue(device), two = create_queue(device);
    vram_addr a = alloc(device, 200000000000), b = alloc(device, 200000000000);
    uint64_t start = state_of(&world).clock_ns;
    /* 100 ms each at 2 TB/s: together they take 100 ms, one behind the other 200. */
    assert_ok(ops->fill(&one, a, 0, 4, 200000000000));
    assert_ok(ops->fill(&two, b, 0, 4, 200000000000));
    finish_queue(&one);
    finish_queue(&two);
    assert_in_range(state_of(&world).clock_ns - start, 100000000, 100100000);
    start = state_of(&world).clock_ns;
    assert_ok(ops->fill(&one, a, 0, 4, 200000000000));
    signal_queue(&one, 10);
    assert_ok(ops->after(&two, &one, 10));
    assert_ok(ops->fill(&two, b, 0, 4, 200000000000));
    finish_queue(&two);
    assert_in_range(state_of(&world).clock_ns - start, 200000000, 200100000);
    destroy_queue(&one);
    destroy_queue(&two);
    assert_ok(device->ops->free(device, a, 200000000000));
    assert_ok(device->ops->free(device, b, 200000000000));
    close_world(&world, 0);
}

/* ----------------------------------------------------------------- native queues */

static void native_queues_are_shared(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "lag=20,seed=3");
    struct vr_device *device = &world.device;
    const struct vr_queue_ops *ops = device->queue_ops;
    int program;
    struct vr_queue own = create_queue(device);
    struct vr_queue adopted[4] = {
        {.device = device, .native = &program, .adopted = true},
        {.device = device, .native = &program, .adopted = true},
        {.device = device, .native = NULL, .adopted = true},
        {.device = device, .native = own.native, .adopted = true},
    };
    assert_non_null(own.native);
    for (unsigned i = 0; i < 4; i++) {
        void *native = adopted[i].native;
        assert_ok(ops->adopt(&adopted[i]));
        assert_ptr_equal(adopted[i].native, native);
    }
    /* Each pair is one queue: what the second says has passed, has passed on the first. */
    for (uint64_t round = 1; round <= 30; round++) {
        signal_queue(&adopted[0], round);
        signal_queue(&adopted[1], round);
        wait_queue(&adopted[1], round);
        assert_true(word_of(&adopted[0]) >= round);
        signal_queue(&own, round);
        signal_queue(&adopted[3], round);
        signal_queue(&adopted[2], round);
        wait_queue(&adopted[3], round);
        assert_true(word_of(&own) >= round);
    }
    destroy_queue(&own); /* the other user of its stream goes on */
    for (unsigned i = 0; i < 4; i++) {
        destroy_queue(&adopted[i]);
    }
    close_world(&world, 0);
}

static void words_outlive_queues(void **state) {
    (void)state;
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

/* Work that is left when a queue goes is finished, and told. */
static void destroyed_with_work(void **state) {
    (void)state;
    struct world world;
    uint32_t back = 0;
    open_world(&world, "lag=1000,profile=h200");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device), other = create_queue(device);
    vram_addr addr = alloc(device, PAGE);
    assert_ok(device->queue_ops->fill(&queue, addr, 77, 4, PAGE));
    signal_queue(&queue, 1);
    assert_ok(device->queue_ops->after(&other, &queue, 1));
    assert_ok(device->queue_ops->download(&other, &back, addr, 4));
    device->queue_ops->destroy(&queue);
    expect_violation(&world, 1, "unfinished work");
    finish_queue(&other);
    assert_int_equal(back, 77);
    device->queue_ops->destroy(&other);
    assert_ok(device->ops->free(device, addr, PAGE));
    close_world(&world, 1);
}

/* A late signal has lowered the word, and the higher number is not written again: a queue that
   waits for it waits for ever. Nobody who ends something may be held up by that. */
static void late_signals_hold_up_nobody(void **state) {
    (void)state;
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
static void unknown_progress_is_excused(void **state) {
    (void)state;
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

/* ----------------------------------------------------------------------- threads */

struct worker {
    struct vr_device *device;
    uint32_t seed;
    unsigned failures;
};

static void work(void *argument) {
    struct worker *worker = argument;
    struct vr_device *device = worker->device;
    const struct vr_queue_ops *ops = device->queue_ops;
    struct vr_queue queue = {.device = device};
    struct vram_queue_options options = {.size = sizeof options};
    worker->failures += ops->create(&queue, &options) != VRAM_OK;
    /* The word may be one that another thread's queue has left. */
    uint64_t first = vr_load(queue.word, VR_ACQUIRE) + 1;
    for (uint64_t round = first; round < first + 200; round++) {
        vram_addr addr = 0;
        uint32_t out = worker->seed * 1000 + (uint32_t)round, in = 0;
        worker->failures += device->ops->alloc(device, PAGE, &addr) != VRAM_OK;
        worker->failures += ops->upload(&queue, addr, &out, 4) != VRAM_OK;
        worker->failures += ops->copy(&queue, addr + 64, addr, 4) != VRAM_OK;
        worker->failures += ops->download(&queue, &in, addr + 64, 4) != VRAM_OK;
        worker->failures += ops->signal(&queue, round) != VRAM_OK;
        while (vr_load(queue.word, VR_ACQUIRE) < round) {
            vram_status status = ops->poll(&queue);
            worker->failures += status != VRAM_OK && status != VRAM_ERR_NOT_READY;
        }
        worker->failures += in != out;
        worker->failures += device->ops->free(device, addr, PAGE) != VRAM_OK;
    }
    ops->destroy(&queue);
}

static void threads(void **state) {
    (void)state;
    struct world world;
    struct vr_thread threads[4];
    struct worker workers[4];
    open_world(&world, "lag=10,profile=h200");
    for (uint32_t i = 0; i < 4; i++) {
        workers[i] = (struct worker){.device = &world.device, .seed = i + 1};
        assert_ok(vr_os_thread_start(&threads[i], "worker", work, &workers[i]));
    }
    for (unsigned i = 0; i < 4; i++) {
        vr_os_thread_join(&threads[i]);
        assert_int_equal(workers[i].failures, 0);
    }
    close_world(&world, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_inside_the_call),
        cmocka_unit_test(lag_keeps_work_back),
        cmocka_unit_test(waits_take_few_polls),
        cmocka_unit_test(one_queue_keeps_order),
        cmocka_unit_test(seed_decides_across_queues),
        cmocka_unit_test(after_is_respected),
        cmocka_unit_test(after_what_cannot_come),
        cmocka_unit_test(queues_work_side_by_side),
        cmocka_unit_test(native_queues_are_shared),
        cmocka_unit_test(words_outlive_queues),
        cmocka_unit_test(destroyed_with_work),
        cmocka_unit_test(late_signals_hold_up_nobody),
        cmocka_unit_test(unknown_progress_is_excused),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
