/* SPDX-License-Identifier: Apache-2.0 */
/* test_opencl_queue.c: order, points in time, waits, queues of the program's, and lost devices. */
#include "unit/opencl_world.h"

#include "base/os/os.h"

static vram_status upload(struct vr_queue *queue, vram_addr to, const void *from, uint64_t bytes) {
    return queue->device->queue_ops->upload(queue, to, from, bytes);
}

static vram_status poll(struct vr_queue *queue) {
    return queue->device->queue_ops->poll(queue);
}

/* ------------------------------------------------------------------- points */

/* Callbacks that come late, and in the other order, neither hold a wait up nor set the word
   back. */
TEST(late_callbacks_do_no_harm) {
    struct world world;
    struct vr_queue queue;
    begin(&world, "svm");
    make_queue(&world.device, &queue);
    uint64_t start = vr_load(queue.word, VR_ACQUIRE);
    fake->settings->late_callbacks = 1;
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(world.device.queue_ops->signal(&queue, start + i), VRAM_OK);
    }
    uint64_t deadline = vr_os_now() + FOR_EVER;
    while (poll(&queue) == VRAM_ERR_NOT_READY && vr_os_now() < deadline) {
    }
    assert_int_equal(vr_load(queue.word, VR_ACQUIRE), start + 5); /* without a callback */
    end_queue(&queue);
    fake->call_back(); /* to a queue that is gone: its line is still there */
    end(&world);
}

/* A later queue goes on where an earlier one stopped, and a callback of that one is not its own. */
TEST(a_word_serves_one_queue_at_a_time) {
    struct world world;
    struct vr_queue first, second;
    begin(&world, "svm");
    make_queue(&world.device, &first);
    fake->settings->late_callbacks = 1;
    uint64_t start = vr_load(first.word, VR_ACQUIRE);
    vr_atomic_u64 *word = first.word;
    assert_int_equal(world.device.queue_ops->signal(&first, start + 9), VRAM_OK);
    end_queue(&first);
    make_queue(&world.device, &second);
    assert_true(second.word != word); /* one is still owed a callback */
    fake->call_back();
    end_queue(&second);
    make_queue(&world.device, &second);
    end_queue(&second);
    end(&world);
}

TEST(an_idle_queue_says_so) {
    struct world world;
    struct vr_queue queue;
    begin(&world, "buffer");
    make_queue(&world.device, &queue);
    vram_addr addr = take_memory(&world.device, GRANULE);
    vram_status status;
    while ((status = poll(&queue)) == VRAM_ERR_NOT_READY) { /* the driver's thread may be late */
        vr_os_yield();
    }
    assert_int_equal(status, VRAM_OK);
    fake->hold(true);
    assert_int_equal(upload(&queue, addr, "libvram", 8), VRAM_OK);
    assert_int_equal(poll(&queue), VRAM_ERR_NOT_READY);
    uint64_t markers = plan->calls("clEnqueueMarkerWithWaitList");
    for (int i = 0; i < 10; i++) { /* one question is open: no more are asked */
        assert_int_equal(poll(&queue), VRAM_ERR_NOT_READY);
    }
    assert_int_equal(plan->calls("clEnqueueMarkerWithWaitList"), markers);
    fake->hold(false);
    settle(&queue);
    assert_int_equal(poll(&queue), VRAM_OK);
    give_memory(&world.device, addr, GRANULE);
    end_queue(&queue);
    end(&world);
}

/* -------------------------------------------------------------------- waits */

/* Two queues of one context, and of two, where events are no good. */
TEST(a_queue_waits_for_another) {
    for (int apart = 0; apart < 2; apart++) {
        struct world world;
        struct vr_device other;
        struct vr_queue first, second;
        char text[8] = "";
        begin(&world, "svm");
        open_device(&world.backend, 0, &other);
        make_queue(&world.device, &first);
        make_queue(apart ? &other : &world.device, &second);
        vram_addr addr = take_memory(&world.device, GRANULE);
        uint64_t point = vr_load(first.word, VR_ACQUIRE) + 1;
        fake->hold(true);
        assert_int_equal(upload(&first, addr, "libvram", 8), VRAM_OK);
        assert_int_equal(world.device.queue_ops->signal(&first, point), VRAM_OK);
        assert_int_equal(world.device.queue_ops->after(&second, &first, point), VRAM_OK);
        assert_int_equal(world.device.queue_ops->download(&second, text, addr, 8), VRAM_OK);
        fake->hold(false);
        settle(&second);
        assert_string_equal(text, "libvram");
        assert_true(passes(&first, point));
        assert_int_equal(world.device.queue_ops->after(&second, &first, point), VRAM_OK);
        end_queue(&second);
        end_queue(&first);
        give_memory(&world.device, addr, GRANULE);
        other.ops->close(&other);
        end(&world);
    }
}

/* ---------------------------------------------------------- the program's own */

static void release(struct vr_cl_queue *queue) {
    vr_cl_int (*give)(struct vr_cl_queue *) = NULL;
    void *found =
        symbol_of(dlopen(FAKE_OPENCL_PATH, RTLD_NOW | RTLD_LOCAL), "clReleaseCommandQueue");
    memcpy(&give, &found, sizeof give);
    assert_int_equal(give(queue), VR_CL_SUCCESS);
}

/* The fake runs such a queue last come first served: only barriers keep the order. */
TEST(adopted_queues_are_in_order) {
    for (int unordered = 0; unordered < 2; unordered++) {
        struct world world;
        struct vr_queue own, queue;
        char text[8] = "";
        begin(&world, "buffer");
        make_queue(&world.device, &own);
        struct vr_cl_queue *native = fake->queue_new(own.native, unordered, false);
        assert_int_equal(adopt(&world.device, native, &queue), VRAM_OK);
        assert_ptr_equal(queue.native, native);
        vram_addr addr = take_memory(&world.device, GRANULE);
        fake->hold(true);
        assert_int_equal(upload(&queue, addr, "before", 7), VRAM_OK);
        assert_int_equal(world.device.queue_ops->copy(&queue, addr + 64, addr, 7), VRAM_OK);
        assert_int_equal(upload(&queue, addr, "behind", 7), VRAM_OK);
        assert_int_equal(world.device.queue_ops->download(&queue, text, addr + 64, 7), VRAM_OK);
        fake->hold(false);
        settle(&queue);
        assert_string_equal(text, "before");
        if (unordered) { /* without its barrier nothing is submitted */
            const struct vr_queue_ops *ops = world.device.queue_ops;
            plan->refuse("clEnqueueBarrierWithWaitList", 1, VR_CL_OUT_OF_RESOURCES, true);
            assert_int_not_equal(upload(&queue, addr, "nobody", 7), VRAM_OK);
            assert_int_not_equal(ops->download(&queue, text, addr, 7), VRAM_OK);
            assert_int_not_equal(ops->copy(&queue, addr + 64, addr, 7), VRAM_OK);
            assert_int_not_equal(ops->fill(&queue, addr, 0, 4, 8), VRAM_OK);
            plan->refuse(NULL, 0, 0, false);
            assert_string_equal(text, "before");
        }
        uint64_t releases = plan->calls("clReleaseCommandQueue");
        end_queue(&queue);
        assert_int_equal(plan->calls("clReleaseCommandQueue"), releases + 1);
        release(native); /* it is still the program's */
        end_queue(&own);
        give_memory(&world.device, addr, GRANULE);
        end(&world);
    }
}

TEST(queues_of_other_contexts_are_refused) {
    struct world world;
    struct vr_queue own, queue;
    begin(&world, "svm");
    make_queue(&world.device, &own);
    struct vr_cl_queue *native = fake->queue_new(own.native, false, true);
    assert_int_equal(adopt(&world.device, native, &queue), VRAM_ERR_INVALID);
    assert_opencl_error(VRAM_ERR_INVALID, "clGetCommandQueueInfo", 0);
    assert_int_equal(adopt(&world.device, NULL, &queue), VRAM_ERR_INVALID);
    release(native);
    end_queue(&own);
    end(&world);
}

TEST(priorities_are_asked_for_where_there_are_any) {
    for (int known = 0; known < 2; known++) {
        struct world world;
        struct vr_queue queue = {.device = &world.device};
        struct vram_queue_options options = {.size = sizeof options, .priority = 3};
        fake->settings->priorities = known;
        begin(&world, "svm");
        plan->refuse(NULL, 0, 0, false);
        assert_int_equal(world.device.queue_ops->create(&queue, &options), VRAM_OK);
        assert_int_equal(plan->calls("clCreateCommandQueueWithProperties"), known);
        end_queue(&queue);
        end(&world);
    }
}

/* --------------------------------------------------------------- lost devices */

TEST(an_invalid_queue_of_our_own_is_a_lost_device) {
    struct world world;
    struct vr_queue queue;
    begin(&world, "svm");
    make_queue(&world.device, &queue);
    vram_addr addr = take_memory(&world.device, GRANULE);
    plan->refuse("clEnqueueSVMMemcpy", 1, VR_CL_INVALID_COMMAND_QUEUE, false);
    assert_int_equal(upload(&queue, addr, "libvram", 8), VRAM_ERR_DEVICE_LOST);
    assert_opencl_error(VRAM_ERR_DEVICE_LOST, "clEnqueueSVMMemcpy", VR_CL_INVALID_COMMAND_QUEUE);
    give_memory(&world.device, addr, GRANULE);
    end_queue(&queue);
    end(&world);
}

static void let_go_soon(void *unused) {
    (void)unused;
    vr_os_sleep(20000000);
    fake->hold(false);
}

/* What comes behind a queue's end gives memory back that its work writes to. */
TEST(a_queue_ends_behind_its_work) {
    struct world world;
    struct vr_queue queue;
    struct vr_thread thread;
    begin(&world, "svm");
    make_queue(&world.device, &queue);
    vram_addr addr = take_memory(&world.device, GRANULE);
    fake->hold(true);
    assert_int_equal(upload(&queue, addr, "libvram", 8), VRAM_OK);
    plan->refuse("clFinish", 1, VR_CL_OUT_OF_RESOURCES, false);
    assert_int_equal(vr_os_thread_start(&thread, "let_go", let_go_soon, NULL), VRAM_OK);
    end_queue(&queue);
    assert_memory_equal((const void *)(uintptr_t)addr, "libvram", 8);
    vr_os_thread_join(&thread);
    give_memory(&world.device, addr, GRANULE);
    end(&world);
}

/* What a lost device held stays with the driver: the next test begins with a clean count. */
static int teardown_lost(void) {
    (void)teardown();
    return 0;
}

EACH_TEST(setup, teardown)

/* Work that ends abnormally leaves the word alone; the device is lost, and who waits elsewhere goes
   on. */
TEST_IN(setup, teardown_lost, failed_work_loses_the_device) {
    struct world world;
    struct vr_device other;
    struct vr_queue queue, waiter;
    begin(&world, "buffer");
    open_device(&world.backend, 0, &other);
    make_queue(&world.device, &queue);
    make_queue(&other, &waiter);
    uint64_t start = vr_load(queue.word, VR_ACQUIRE);
    vram_addr addr = take_memory(&world.device, GRANULE);
    fake->hold(true);
    assert_int_equal(upload(&queue, addr, "libvram", 8), VRAM_OK);
    assert_int_equal(world.device.queue_ops->signal(&queue, start + 1), VRAM_OK);
    assert_int_equal(world.device.queue_ops->after(&waiter, &queue, start + 1), VRAM_OK);
    fake->crash(VR_CL_OUT_OF_RESOURCES);
    fake->hold(false);
    vram_status status;
    while ((status = poll(&queue)) == VRAM_ERR_NOT_READY) {
    }
    assert_int_equal(status, VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vr_load(queue.word, VR_ACQUIRE), start);
    assert_int_equal(world.device.queue_ops->signal(&queue, start + 2), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(world.device.queue_ops->after(&waiter, &queue, start + 1),
                     VRAM_ERR_DEVICE_LOST);
    fake->crash(0);
    settle(&waiter); /* was let go */
    fake->settle();  /* callbacks call the driver */
    vr_store(&world.device.lost, true, VR_RELEASE);
    uint64_t calls = plan->calls("any");
    give_memory(&world.device, addr, GRANULE);
    end_queue(&queue);
    assert_int_equal(plan->calls("any"), calls); /* no driver call on a lost device */
    end_queue(&waiter);
    other.ops->close(&other);
    end(&world);
}

/* A device that is given up before its work came to an end lets go of those who wait for it too. */
TEST_IN(setup, teardown_lost, a_lost_queue_lets_go) {
    struct world world;
    struct vr_device other;
    struct vr_queue queue, waiter;
    begin(&world, "svm");
    open_device(&world.backend, 0, &other);
    make_queue(&world.device, &queue);
    make_queue(&other, &waiter);
    uint64_t point = vr_load(queue.word, VR_ACQUIRE) + 1;
    fake->settings->late_callbacks = 1; /* it never comes, as far as anyone can tell */
    assert_int_equal(world.device.queue_ops->signal(&queue, point), VRAM_OK);
    assert_int_equal(world.device.queue_ops->after(&waiter, &queue, point), VRAM_OK);
    while (poll(&queue) == VRAM_ERR_NOT_READY) { /* all that is done later calls back again */
    }
    fake->settings->late_callbacks = 0;
    vr_store(&world.device.lost, true, VR_RELEASE);
    end_queue(&queue);
    settle(&waiter);
    end_queue(&waiter);
    other.ops->close(&other);
    end(&world);
    fake->call_back();
}
