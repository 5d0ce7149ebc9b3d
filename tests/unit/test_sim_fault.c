/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sim_fault.c: the simulated driver when things go wrong: planned faults, lies, lost devices,
 * and kernels that call it or that others wait for. That each call may be the one that fails is in
 * tests/conformance/faults.c.
 */
#include "sim_world.h"

/* ------------------------------------------------------------------------ faults */

TEST(plans_count) {
    struct world world;
    vram_addr addr = 0;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    plan(&world, VRAM_SIM_ALLOC, 2, false, VRAM_SIM_OUT_OF_MEMORY);
    vram_addr first = alloc(device, PAGE);
    assert_int_equal(device->ops->alloc(device, PAGE, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(addr, 0);
    assert_true(strstr(vram_error_get()->text, "out_of_memory, as planned") != NULL);
    vram_addr second = alloc(device, PAGE); /* once */
    plan(&world, VRAM_SIM_ALLOC, 1, true, -77);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(device->ops->alloc(device, PAGE, &addr), VRAM_ERR_BACKEND);
        assert_int_equal(vram_error_get()->native_code, -77);
    }
    assert_ok(device->ops->free(device, first, PAGE)); /* another call */
    struct vram_sim_fault wrong = {.size = sizeof wrong};
    assert_int_equal(world.backend.ops->sim->fault(&world.backend, &wrong), VRAM_ERR_INVALID);
    assert_int_equal(device->ops->alloc(device, PAGE, &addr), VRAM_ERR_BACKEND); /* as before */
    plan_none(&world);
    assert_ok(device->ops->free(device, second, PAGE));
    assert_int_equal(state_of(&world).faults, 5);
    close_world(&world, 0);
}

/* What a planned fault kept from being given back is no leak; what was never tried is. */
TEST(refused_is_no_leak) {
    struct world world;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    vram_addr addr = alloc(device, PAGE);
    struct mapped made = map_range(device, GRANULE, 1);
    uint64_t loose;
    assert_ok(device->vmm->create(device, GRANULE, &loose));
    alloc(device, PAGE);
    plan(&world, VRAM_SIM_ANY, 1, true, 5);
    assert_int_equal(device->ops->free(device, addr, PAGE), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(device->vmm->unmap(device, made.addr, GRANULE), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(device->vmm->release(device, loose, GRANULE), VRAM_ERR_HOST_MEMORY);
    device->ops->close(device);
    expect_violation(&world, 1, "never given back");
    stop_world(&world);
}

/* ---------------------------------------------------------------------------- lies */

TEST(lies) {
    struct world world;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    vram_addr mine = alloc(device, PAGE), addr = 1;
    uint64_t handle = 1;
    plan_lie(&world, VRAM_SIM_ALLOC, VRAM_SIM_LIE_NULL);
    assert_ok(device->ops->alloc(device, PAGE, &addr));
    assert_int_equal(addr, 0);
    plan_lie(&world, VRAM_SIM_RESERVE, VRAM_SIM_LIE_MISALIGNED);
    assert_ok(device->vmm->reserve(device, GRANULE, GRANULE, &addr));
    assert_int_not_equal(addr % PAGE, 0);
    assert_ok(device->vmm->unreserve(device, addr, GRANULE)); /* a kindness, once */
    assert_int_equal(device->vmm->unreserve(device, addr, GRANULE), VRAM_ERR_INVALID);
    plan_lie(&world, VRAM_SIM_PINNED_ALLOC, VRAM_SIM_LIE_OVERLAP);
    assert_ok(device->pinned->alloc(device, PAGE, &addr));
    assert_int_equal(addr, mine);
    plan_lie(&world, VRAM_SIM_CREATE, VRAM_SIM_LIE_OVERLAP);
    assert_ok(device->vmm->create(device, GRANULE, &handle)); /* nothing to overlap: the truth */
    plan_lie(&world, VRAM_SIM_CREATE, VRAM_SIM_LIE_OVERLAP);
    uint64_t same = 0;
    assert_ok(device->vmm->create(device, GRANULE, &same));
    assert_int_equal(same, handle);
    plan_lie(&world, VRAM_SIM_CREATE, VRAM_SIM_LIE_NULL);
    assert_ok(device->vmm->create(device, GRANULE, &same));
    assert_int_equal(same, 0);
    /* Any call that can lie; those that cannot do not count. */
    plan_lie(&world, VRAM_SIM_ANY, VRAM_SIM_LIE_MISALIGNED);
    vram_value free, total;
    assert_ok(device->ops->memory_info(device, &free, &total));
    assert_ok(device->managed->alloc(device, PAGE, &addr));
    assert_int_not_equal(addr % PAGE, 0);
    assert_int_equal(state_of(&world).faults, 6);
    assert_int_equal(state_of(&world).live_bytes, PAGE + GRANULE); /* lies take nothing */
    plan_none(&world);
    assert_ok(device->vmm->release(device, handle, GRANULE));
    assert_ok(device->ops->free(device, mine, PAGE));
    close_world(&world, 1);
}

/* --------------------------------------------------------------------------- loss */

TEST(lost_is_lost) {
    struct world world;
    vram_addr more = 0;
    uint32_t back = 0;
    open_world(&world, "devices=2,lag=100");
    assert_ok(open_device(&world, 1, &world.second));
    struct vr_device *device = &world.device, *second = &world.second;
    struct vr_queue queue = create_queue(device), other = create_queue(second);
    vram_addr addr = alloc(device, PAGE);
    assert_ok(device->queue_ops->fill(&queue, addr, 5, 4, PAGE));
    assert_ok(device->queue_ops->download(&queue, &back, addr, 4));
    signal_queue(&queue, 1);
    assert_ok(second->queue_ops->after(&other, &queue, 1));
    signal_queue(&other, 1);
    plan(&world, VRAM_SIM_ALLOC, 1, false, VRAM_SIM_DEVICE_LOST);
    assert_int_equal(device->ops->alloc(device, PAGE, &more), VRAM_ERR_DEVICE_LOST);
    assert_true(strstr(vram_error_get()->text, "lost at call") != NULL);
    /* Its work vanished; who waited for it goes on; the other device is well. */
    wait_queue(&other, 1);
    assert_int_equal(back, 0);
    assert_int_equal(word_of(&queue), 0);
    assert_ok(second->queue_ops->after(&other, &queue, 1));
    destroy_queue(&other);
    /* This thread knows: it must not call again. */
    expect_violations(&world, 0);
    assert_int_equal(device->ops->alloc(device, PAGE, &more), VRAM_ERR_DEVICE_LOST);
    expect_violation(&world, 1, "known to be lost");
    uint64_t calls = state_of(&world).calls;
    vr_store(&device->lost, true, VR_RELEASE);
    assert_int_equal(device->ops->free(device, addr + 1, PAGE), VRAM_ERR_INVALID);
    expect_violations(&world, 2);
    assert_ok(device->ops->free(device, addr, PAGE));
    device->queue_ops->destroy(&queue);
    assert_int_equal(state_of(&world).calls, calls);
    device->ops->close(device);
    assert_int_equal(open_device(&world, 0, device), VRAM_ERR_DEVICE_LOST);
    second->ops->close(second);
    expect_violations(&world, 2);
    stop_world(&world);
}

static void call_once(struct vr_device *device) {
    vram_value free, total;
    assert_int_equal(device->ops->memory_info(device, &free, &total), VRAM_ERR_DEVICE_LOST);
}

static vr_atomic_u32 callers;

/* Stays until all have called, so that each is a thread of its own. */
static void caller(void *argument) {
    call_once(argument);
    vr_fetch_add(&callers, 1, VR_ACQ_REL);
    while (vr_load(&callers, VR_ACQUIRE) < VR_SIM_THREADS_MAX + 4) {
        vr_os_yield();
    }
}

/* Other threads may have looked just before the first was told: each may call once. */
TEST(every_thread_is_told) {
    struct world world;
    struct vr_thread threads[VR_SIM_THREADS_MAX + 4];
    open_world(&world, "lose=2");
    call_once(&world.device);
    for (unsigned i = 0; i < VR_SIM_THREADS_MAX + 4; i++) {
        assert_ok(vr_os_thread_start(&threads[i], "caller", caller, &world.device));
    }
    for (unsigned i = 0; i < VR_SIM_THREADS_MAX + 4; i++) {
        vr_os_thread_join(&threads[i]);
    }
    expect_violations(&world, 0);
    call_once(&world.device);
    expect_violation(&world, 1, "known to be lost");
    vr_store(&world.device.lost, true, VR_RELEASE);
    close_world(&world, 1);
}

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
