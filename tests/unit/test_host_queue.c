/* SPDX-License-Identifier: Apache-2.0 */
/* test_host_queue.c: queues of the host: order, time, waits between them, and their end. */
#include "host_world.h"

/* ------------------------------------------------------------------- order */

static void submissions_do_not_wait(void **state) {
    struct world *world = *state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_queue queue;
    struct gate gate = {false};
    vram_addr addr;
    char data[16] = "early", back[16] = "untouched";
    assert_int_equal(world->device.ops->alloc(&world->device, PAGE, &addr), VRAM_OK);
    make_queue(world, &queue);
    shut(&queue, &gate);
    assert_int_equal(ops->upload(&queue, addr, data, sizeof data), VRAM_OK);
    assert_int_equal(ops->download(&queue, back, addr, sizeof back), VRAM_OK);
    assert_int_equal(ops->signal(&queue, 1), VRAM_OK);

    assert_int_equal(ops->poll(&queue), VRAM_ERR_NOT_READY);
    assert_int_equal(vram_error_get()->status, VRAM_OK); /* not a failure */
    assert_int_equal(vr_load(queue.word, VR_ACQUIRE), 0);
    assert_string_equal(back, "untouched");
    strcpy(data, "late"); /* host memory is read when the copy runs */
    vr_store(&gate.open, true, VR_RELEASE);
    assert_true(passes(&queue, 1));
    assert_string_equal(back, "late");

    ops->destroy(&queue);
    assert_null(queue.impl);
    assert_int_equal(world->device.ops->free(&world->device, addr, PAGE), VRAM_OK);
}

/* (3) of host_queue.c, from both sides. */
static void word_and_poll_agree(void **state) {
    struct world *world = *state;
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

static void work_runs_in_order(void **state) {
    struct world *world = *state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_queue queue;
    vram_addr addr;
    assert_int_equal(world->device.ops->alloc(&world->device, 2 * PAGE, &addr), VRAM_OK);
    make_queue(world, &queue);
    static uint32_t seen[1000];
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(ops->fill(&queue, addr, i, 4, PAGE), VRAM_OK);
        assert_int_equal(ops->copy(&queue, addr + PAGE, addr, PAGE), VRAM_OK);
        assert_int_equal(ops->download(&queue, &seen[i], addr + 2 * PAGE - 4, 4), VRAM_OK);
    }
    signal_and_wait(&queue, 1);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(seen[i], i);
    }
    ops->destroy(&queue);
    assert_int_equal(world->device.ops->free(&world->device, addr, 2 * PAGE), VRAM_OK);
}

static void fills_repeat_their_pattern(void **state) {
    struct world *world = *state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_queue queue;
    vram_addr addr;
    assert_int_equal(world->device.ops->alloc(&world->device, PAGE, &addr), VRAM_OK);
    const uint8_t *bytes = vr_host_pointer(addr);
    make_queue(world, &queue);
    for (uint32_t width = 1, round = 1; width <= 4; width *= 2, round++) {
        uint32_t pattern = 0xa1b2c3d4 + round; /* bits above the width are ignored */
        assert_int_equal(ops->fill(&queue, addr, 0, 1, PAGE), VRAM_OK);
        assert_int_equal(ops->fill(&queue, addr + 4, pattern, width, 8), VRAM_OK);
        signal_and_wait(&queue, round);
        for (uint32_t i = 0; i < 8; i++) {
            assert_int_equal(bytes[4 + i], (pattern >> 8 * (i % width)) & 0xff);
        }
        assert_int_equal(bytes[3] | bytes[12], 0);
    }
    ops->destroy(&queue);
    assert_int_equal(world->device.ops->free(&world->device, addr, PAGE), VRAM_OK);
}

static void prefetch_changes_nothing_and_keeps_order(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    struct vr_queue queue;
    vram_addr addr;
    assert_int_equal(device->managed->alloc(device, PAGE, &addr), VRAM_OK);
    make_queue(world, &queue);
    assert_int_equal(device->queue_ops->fill(&queue, addr, 9, 1, PAGE), VRAM_OK);
    assert_int_equal(device->managed->prefetch(&queue, addr, PAGE, 0), VRAM_OK);
    assert_int_equal(device->managed->prefetch(&queue, addr, PAGE, VRAM_TARGET_HOST), VRAM_OK);
    signal_and_wait(&queue, 1);
    assert_int_equal(*(char *)vr_host_pointer(addr), 9);
    vr_mem_fail_at(1, false);
    assert_int_equal(device->managed->prefetch(&queue, addr, PAGE, VRAM_TARGET_HOST),
                     VRAM_ERR_HOST_MEMORY);
    device->queue_ops->destroy(&queue);
    assert_int_equal(device->managed->free(device, addr, PAGE), VRAM_OK);
}

static void queues_run_beside_each_other(void **state) {
    struct world *world = *state;
    struct vr_queue held, other;
    struct gate gate = {false};
    make_queue(world, &held);
    make_queue(world, &other);
    shut(&held, &gate);
    signal_and_wait(&other, 5);
    vr_store(&gate.open, true, VR_RELEASE);
    world->device.queue_ops->destroy(&held);
    world->device.queue_ops->destroy(&other);
}

/* Two submitters may count in one order and submit in the other. */
static void words_never_fall(void **state) {
    struct world *world = *state;
    struct vr_queue queue;
    make_queue(world, &queue);
    signal_and_wait(&queue, 7);
    assert_int_equal(world->device.queue_ops->signal(&queue, 3), VRAM_OK);
    signal_and_wait(&queue, 8);
    assert_int_equal(vr_load(queue.word, VR_ACQUIRE), 8);
    world->device.queue_ops->destroy(&queue);
}

/* (3) of host_queue.c again. */
static void a_risen_word_means_no_bookkeeping_left(void **state) {
    struct world *world = *state;
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

static void work_after_another_queue_waits(void **state) {
    struct world *world = *state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_queue first, second;
    struct gate gate = {false};
    int value = 0, one = 1, seen = 0;
    vram_addr shared = (vram_addr)(uintptr_t)&value;
    make_queue(world, &first);
    make_queue(world, &second);
    shut(&first, &gate);
    assert_int_equal(ops->upload(&first, shared, &one, sizeof one), VRAM_OK);
    assert_int_equal(ops->signal(&first, 1), VRAM_OK);
    assert_int_equal(ops->after(&second, &first, 1), VRAM_OK);
    assert_int_equal(ops->download(&second, &seen, shared, sizeof seen), VRAM_OK);
    assert_int_equal(ops->signal(&second, 1), VRAM_OK);

    vr_os_sleep(2000000);
    assert_int_equal(vr_load(second.word, VR_ACQUIRE), 0);
    vr_store(&gate.open, true, VR_RELEASE);
    assert_true(passes(&second, 1));
    assert_int_equal(seen, 1);
    ops->destroy(&first);
    ops->destroy(&second);
}

static void waiting_for_oneself_is_no_deadlock(void **state) {
    struct world *world = *state;
    struct vr_queue queue;
    make_queue(world, &queue);
    assert_int_equal(world->device.queue_ops->signal(&queue, 1), VRAM_OK);
    assert_int_equal(world->device.queue_ops->after(&queue, &queue, 1), VRAM_OK);
    signal_and_wait(&queue, 2);
    world->device.queue_ops->destroy(&queue);
}

/* Many waits in a ring of queues: a lost wake-up would hang it. */
static void no_wake_up_is_lost(void **state) {
    struct world *world = *state;
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
static void a_queue_may_end_under_those_who_wait(void **state) {
    struct world *world = *state;
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
static void a_lost_queue_drops_its_work(void **state) {
    struct world *world = *state;
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

static void a_lost_queue_stops_waiting(void **state) {
    struct world *world = *state;
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

/* ---------------------------------------------------------------- failures */

static void queue_creation_fails_cleanly(void **state) {
    struct world *world = *state;
    uint64_t blocks = vr_mem_live_blocks();
    uint64_t nth = 1;
    for (;; nth++) {
        struct vr_queue queue = {.device = &world->device};
        vr_mem_fail_at(nth, false);
        vram_status status = world->device.queue_ops->create(&queue, NULL);
        bool struck = vr_mem_failed() > 0;
        vr_mem_fail_at(0, false);
        if (!struck) {
            assert_int_equal(status, VRAM_OK);
            world->device.queue_ops->destroy(&queue);
            break;
        }
        assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
        assert_true(!queue.impl && !queue.word);
        assert_int_equal(vr_mem_live_blocks(), blocks);
    }
    assert_int_equal(nth, 3); /* worker and word */

    static const struct {
        int error;
        vram_status status;
    } codes[] = {{EAGAIN, VRAM_ERR_LIMIT}, {ENOMEM, VRAM_ERR_HOST_MEMORY}, {EPERM, VRAM_ERR_IO}};
    for (size_t i = 0; i < 3; i++) {
        struct vr_queue queue = {.device = &world->device};
        vr_os_fail_at(1, false, codes[i].error);
        assert_int_equal(world->device.queue_ops->create(&queue, NULL), codes[i].status);
        assert_host_error(codes[i].status, "pthread_create");
        assert_true(!queue.impl && !queue.word);
        assert_int_equal(vr_mem_live_blocks(), blocks);
    }
}

static void submissions_that_fail_submit_nothing(void **state) {
    struct world *world = *state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    struct vr_queue queue, other;
    vr_atomic_u32 runs = 0;
    uint32_t source = 5, target = 0;
    vram_addr to = (vram_addr)(uintptr_t)&target, counter = (vram_addr)(uintptr_t)&runs;
    vram_addr from = (vram_addr)(uintptr_t)&source;
    make_queue(world, &queue);
    make_queue(world, &other);
    uint64_t blocks = vr_mem_live_blocks();
    vr_mem_fail_at(1, true);
    assert_int_equal(ops->upload(&queue, to, &source, 4), VRAM_ERR_HOST_MEMORY);
    assert_string_equal(vram_error_get()->operation, "upload");
    assert_int_equal(ops->download(&queue, &target, from, 4), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(ops->copy(&queue, to, from, 4), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(ops->fill(&queue, to, 1, 4, 4), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(ops->after(&queue, &other, 1), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(ops->signal(&queue, 1), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(launch(&queue, touch, &counter, sizeof counter, 1), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(vr_mem_failed(), 7);
    vr_mem_fail_at(0, false);
    assert_int_equal(vr_mem_live_blocks(), blocks);
    assert_int_equal(ops->poll(&queue), VRAM_OK);
    signal_and_wait(&queue, 2);
    assert_int_equal(target, 0);
    assert_int_equal(vr_load(&runs, VR_RELAXED), 0);
    ops->destroy(&queue);
    ops->destroy(&other);
}

/* ----------------------------------------------------------------- threads */

struct submitter {
    struct vr_thread thread;
    struct vr_queue *queue;
    vr_atomic_u64 *number; /* shared by all submitters of the queue */
    vram_addr counter;
    vram_status status;
};

static void submit_many(void *argument) {
    struct submitter *self = argument;
    for (int i = 0; i < 200 && !self->status; i++) {
        self->status = launch(self->queue, touch, &self->counter, sizeof self->counter, 1);
        uint64_t value = vr_fetch_add(self->number, 1, VR_RELAXED) + 1;
        self->status = self->status ? self->status
                                    : self->queue->device->queue_ops->signal(self->queue, value);
    }
}

static void many_threads_share_a_queue(void **state) {
    struct world *world = *state;
    enum { THREADS = 4 };
    struct vr_queue queue;
    struct submitter submitters[THREADS];
    vr_atomic_u64 number = 0;
    vr_atomic_u32 runs = 0;
    make_queue(world, &queue);
    for (int i = 0; i < THREADS; i++) {
        submitters[i] = (struct submitter){
            .queue = &queue, .number = &number, .counter = (vram_addr)(uintptr_t)&runs};
        assert_int_equal(
            vr_os_thread_start(&submitters[i].thread, "submitter", submit_many, &submitters[i]),
            VRAM_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        vr_os_thread_join(&submitters[i].thread);
        assert_int_equal(submitters[i].status, VRAM_OK);
    }
    assert_true(passes(&queue, THREADS * 200));
    world->device.queue_ops->destroy(&queue); /* what stands behind the last signal runs, too */
    assert_int_equal(vr_load(&runs, VR_RELAXED), THREADS * 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(submissions_do_not_wait),
        HERE(word_and_poll_agree),
        HERE(work_runs_in_order),
        HERE(fills_repeat_their_pattern),
        HERE(prefetch_changes_nothing_and_keeps_order),
        HERE(queues_run_beside_each_other),
        HERE(words_never_fall),
        HERE(a_risen_word_means_no_bookkeeping_left),
        HERE(work_after_another_queue_waits),
        HERE(waiting_for_oneself_is_no_deadlock),
        HERE(no_wake_up_is_lost),
        HERE(a_queue_may_end_under_those_who_wait),
        HERE(a_lost_queue_drops_its_work),
        HERE(a_lost_queue_stops_waiting),
        HERE(queue_creation_fails_cleanly),
        HERE(submissions_that_fail_submit_nothing),
        HERE(many_threads_share_a_queue),
    };
    return cmocka_run_group_tests_name("host_queue", tests, NULL, NULL);
}
