/* SPDX-License-Identifier: Apache-2.0 */
/* test_host_queue.c: queues of the host: order, time, waits between them, and their end. */
#include "host_world.h"

/* ------------------------------------------------------------------- order */

/* (3) of host_queue.c, from both sides. */
TEST(word_and_poll_agree) {
    struct world *world = rig_state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_queue queue;
    make_queue(world, &queue);
    for (uint64_t i = 1; i <= 1000; i += 2) {
        signal_and_wait(&queue, i);
        assert_int_equal(ops->poll(&queue), VRAM_OK);
        assert_int_equal(ops->signal(&queue, i + 1), VRAM_OK);
        while (ops->poll(&queue) == VRAM_ERR_NOT_READY) {
        }
        assert_int_equal(vr_load(queue.word, VR_ACQUIRE), i + 1);
    }
    ops->destroy(&queue);
}

/* (3) of host_queue.c again. */
TEST(a_risen_word_means_no_bookkeeping_left) {
    struct world *world = rig_state;
    struct vr_queue queue, other;
    make_queue(world, &queue);
    make_queue(world, &other);
    uint64_t blocks = vr_mem_live_blocks();
    char byte = 1, to = 0;
    for (uint64_t i = 1; i <= 200; i++) {
        signal_and_wait(&other, i);
        assert_int_equal(world->device.queue_ops->after(&queue, &other, i), VRAM_OK);
        assert_int_equal(
            world->device.queue_ops->upload(&queue, (vram_addr)(uintptr_t)&to, &byte, 1), VRAM_OK);
        signal_and_wait(&queue, i);
        assert_int_equal(vr_mem_live_blocks(), blocks);
    }
    world->device.queue_ops->destroy(&queue);
    world->device.queue_ops->destroy(&other);
}

/* ---------------------------------------------------- waits between queues */

/* Many waits in a ring of queues: a lost wake-up would hang it. */
TEST(no_wake_up_is_lost) {
    struct world *world = rig_state;
    enum { QUEUES = 4, ROUNDS = 300 };
    struct vr_queue queues[QUEUES];
    for (int i = 0; i < QUEUES; i++) {
        make_queue(world, &queues[i]);
    }
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < QUEUES; i++) {
            struct vr_queue *before = &queues[(i + QUEUES - 1) % QUEUES];
            uint64_t value = i ? round : round - 1;
            const struct vr_queue_ops *ops = world->device.queue_ops;
            assert_int_equal(ops->after(&queues[i], before, value), VRAM_OK);
            assert_int_equal(ops->signal(&queues[i], round), VRAM_OK);
        }
    }
    assert_true(passes(&queues[QUEUES - 1], ROUNDS));
    for (int i = 0; i < QUEUES; i++) {
        world->device.queue_ops->destroy(&queues[i]);
    }
}

/* The queue waited for is destroyed, with its signal submitted, before the other one gets there. */
TEST(a_queue_may_end_under_those_who_wait) {
    struct world *world = rig_state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_queue ends, waits;
    struct gate gate = {false};
    make_queue(world, &ends);
    make_queue(world, &waits);
    shut(&waits, &gate);
    assert_int_equal(ops->signal(&ends, 1), VRAM_OK);
    assert_int_equal(ops->after(&waits, &ends, 1), VRAM_OK);
    assert_int_equal(ops->signal(&waits, 1), VRAM_OK);
    ops->destroy(&ends);
    vr_store(&gate.open, true, VR_RELEASE);
    assert_true(passes(&waits, 1));
    ops->destroy(&waits);
}

/* ----------------------------------------------------------- a lost device */

/* What has not run when a lost device's queue goes is dropped. */
TEST(a_lost_queue_drops_its_work) {
    struct world *world = rig_state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_device other;
    struct vr_queue lost, survivor;
    struct gate gate = {false};
    struct opener opener = {.gate = &gate};
    char to = 0, from = 1;
    open_device(&world->backend, &other);
    make_queue(world, &lost);
    survivor = (struct vr_queue){.device = &other};
    assert_int_equal(ops->create(&survivor, NULL), VRAM_OK);
    shut(&lost, &gate);
    assert_int_equal(ops->upload(&lost, (vram_addr)(uintptr_t)&to, &from, 1), VRAM_OK);
    assert_int_equal(ops->signal(&lost, 1), VRAM_OK);
    assert_int_equal(ops->after(&survivor, &lost, 1), VRAM_OK);
    assert_int_equal(ops->signal(&survivor, 1), VRAM_OK);

    vr_store(&world->device.lost, true, VR_RELEASE);
    assert_int_equal(vr_os_thread_start(&opener.thread, "opener", open_later, &opener), VRAM_OK);
    ops->destroy(&lost); /* ends with the kernel that is running, and runs nothing more */
    vr_os_thread_join(&opener.thread);
    assert_int_equal(to, 0);
    /* Its signal will never come, but its points count as passed. */
    assert_true(passes(&survivor, 1));
    ops->destroy(&survivor);
    other.ops->close(&other);
}

TEST(a_lost_queue_stops_waiting) {
    struct world *world = rig_state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_device other;
    struct vr_queue lost, held;
    struct gate gate = {false};
    open_device(&world->backend, &other);
    make_queue(world, &lost);
    held = (struct vr_queue){.device = &other};
    assert_int_equal(ops->create(&held, NULL), VRAM_OK);
    shut(&held, &gate);
    assert_int_equal(ops->signal(&held, 1), VRAM_OK);
    assert_int_equal(ops->after(&lost, &held, 1), VRAM_OK);
    vr_os_sleep(2000000);
    vr_store(&world->device.lost, true, VR_RELEASE);
    ops->destroy(&lost); /* the gate is shut: this would hang */
    vr_store(&gate.open, true, VR_RELEASE);
    assert_true(passes(&held, 1));
    ops->destroy(&held);
    other.ops->close(&other);
}

EACH_TEST(setup, teardown)
