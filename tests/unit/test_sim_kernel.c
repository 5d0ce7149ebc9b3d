/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_kernel.c: real addresses, and kernels that run on them. */
#include "sim_world.h"

/* --------------------------------------------------------------------- kernels */

static void *load(struct vr_device *device, vram_kernel_fn *code) {
    struct vram_kernel_source source = {.size = sizeof source, .format = VRAM_KERNEL_C};
    void *kernel = NULL;
    memcpy(&source.code, &code, sizeof code);
    assert_ok(device->kernel->load(device, &source, &kernel));
    assert_non_null(kernel);
    return kernel;
}

static vram_status launch_add(struct vr_queue *queue, void *kernel, vram_addr addr, uint32_t step) {
    const void *arguments[] = {&addr, &step};
    const size_t bytes[] = {sizeof addr, sizeof step};
    struct vram_launch launch = {.size = sizeof launch,
                                 .groups = {4, 3, 2},
                                 .group_size = {16, 1, 1},
                                 .argument_count = 2,
                                 .arguments = arguments,
                                 .argument_bytes = bytes};
    return queue->device->kernel->launch(queue, kernel, &launch);
}

/* A kernel that frees what it was given: it would wait for itself, and must not. */
static struct vr_device *kernel_device;
static struct vr_queue *kernel_queue;
static vram_status kernel_status[2];

static void calling_kernel(const vram_kernel_call *call) {
    vram_value free, total;
    vram_addr addr = *(const vram_addr *)call->arguments[0];
    kernel_status[0] = kernel_device->ops->memory_info(kernel_device, &free, &total);
    kernel_status[1] = kernel_device->ops->free(kernel_device, addr, PAGE);
    (void)kernel_device->queue_ops->poll(kernel_queue);
}

TEST(kernels_may_call) {
    struct world world;
    open_world(&world, "real=on,memory=64M,fault=signal:1:99");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    void *kernel = load(device, calling_kernel);
    vram_addr addr = alloc(device, PAGE);
    kernel_device = device;
    kernel_queue = &queue;
    assert_int_equal(device->queue_ops->signal(&queue, 1), VRAM_ERR_BACKEND);
    assert_ok(launch_add(&queue, kernel, addr, 1));
    finish_queue(&queue);
    assert_int_equal(kernel_status[0], VRAM_OK);
    assert_int_equal(kernel_status[1], VRAM_ERR_INVALID);
    expect_violation(&world, 24, "unfinished work");
    destroy_queue(&queue);
    device->kernel->unload(device, kernel);
    assert_ok(device->ops->free(device, addr, PAGE));
    close_world(&world, 24);
}

/* ---------------------------------------------------------------------- threads */

static vr_atomic_u32 inside;

/* Stays inside until the host says so, for at most a few seconds. */
static void slow_kernel(const vram_kernel_call *call) {
    (void)call;
    uint32_t nobody = 0;
    (void)vr_cas(&inside, &nobody, 1, VR_ACQ_REL); /* once open, it stays open */
    for (unsigned i = 0; i < 5000 && vr_load(&inside, VR_ACQUIRE) == 1; i++) {
        vr_os_sleep(1000000);
    }
}

struct waiter {
    struct vr_queue *queue;
    vram_status status;
};

static void wait_for_kernel(void *argument) {
    struct waiter *waiter = argument;
    do {
        waiter->status = poll_queue(waiter->queue);
    } while (waiter->status == VRAM_ERR_NOT_READY);
}

/* While a kernel runs on one thread the driver serves others; its queue's work waits for it. */
TEST(others_go_on) {
    struct world world;
    struct vr_thread thread;
    open_world(&world, "real=on,memory=64M,lag=10000"); /* so that no call runs it by the way */
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device), other = create_queue(device);
    void *kernel = load(device, slow_kernel);
    vram_addr addr = alloc(device, PAGE), more;
    struct waiter waiter = {.queue = &queue};
    assert_ok(launch_add(&queue, kernel, addr, 1));
    assert_ok(device->queue_ops->fill(&queue, addr, 5, 4, 4));
    signal_queue(&queue, 1);
    assert_int_equal(word_of(&queue), 0);
    assert_ok(vr_os_thread_start(&thread, "waiter", wait_for_kernel, &waiter));
    while (!vr_load(&inside, VR_ACQUIRE)) {
        vr_os_yield();
    }
    more = alloc(device, PAGE);
    finish_queue(&other);
    assert_int_equal(poll_queue(&queue), VRAM_ERR_NOT_READY);
    assert_int_equal(word_of(&queue), 0);
    if (rig_state) { /* the device is lost meanwhile: the kernel ends, what is behind it does not */
        plan(&world, VRAM_SIM_MEMORY_INFO, 1, false, VRAM_SIM_DEVICE_LOST);
        vram_value free, total;
        assert_int_equal(device->ops->memory_info(device, &free, &total), VRAM_ERR_DEVICE_LOST);
        vr_store(&device->lost, true, VR_RELEASE);
    }
    vr_store(&inside, 2, VR_RELEASE);
    vr_os_thread_join(&thread);
    assert_int_equal(waiter.status, rig_state ? VRAM_ERR_DEVICE_LOST : VRAM_OK);
    assert_int_equal(word_of(&queue), rig_state ? 0 : 1);
    device->queue_ops->destroy(&queue);
    device->queue_ops->destroy(&other);
    device->kernel->unload(device, kernel);
    assert_ok(device->ops->free(device, addr, PAGE));
    assert_ok(device->ops->free(device, more, PAGE));
    close_world(&world, 0);
    vr_store(&inside, 0, VR_RELAXED);
}

static void open_later(void *argument) {
    (void)argument;
    vr_os_sleep(20000000);
    vr_store(&inside, 2, VR_RELEASE);
}

/* Giving back waits for the kernel of another thread, where the driver has to wait at all. */
TEST(giving_back_waits) {
    struct world world;
    struct vr_thread threads[2];
    open_world(&world, "real=on,memory=64M,lag=10000,fault=signal:1:99");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    void *kernel = load(device, slow_kernel);
    vram_addr addr = alloc(device, PAGE);
    struct waiter waiter = {.queue = &queue};
    assert_int_equal(device->queue_ops->signal(&queue, 1), VRAM_ERR_BACKEND);
    assert_ok(launch_add(&queue, kernel, addr, 1));
    assert_ok(vr_os_thread_start(&threads[0], "waiter", wait_for_kernel, &waiter));
    while (!vr_load(&inside, VR_ACQUIRE)) {
        vr_os_yield();
    }
    assert_ok(vr_os_thread_start(&threads[1], "opener", open_later, NULL));
    assert_ok(device->ops->free(device, addr, PAGE)); /* after the kernel that was given it */
    assert_int_equal(vr_load(&inside, VR_ACQUIRE), 2);
    vr_os_thread_join(&threads[0]);
    vr_os_thread_join(&threads[1]);
    device->queue_ops->destroy(&queue);
    device->kernel->unload(device, kernel);
    close_world(&world, 0);
    vr_store(&inside, 0, VR_RELAXED);
}

static int lose(void) {
    static bool lost = true;
    rig_state = &lost;
    return 0;
}
RUN_AS("others_go_on_when_it_is_lost", lose, NULL, others_go_on)
