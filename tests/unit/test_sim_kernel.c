/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_kernel.c: real addresses, and kernels that run on them. */
#include "sim_world.h"

#include "base/lock.h"

static void *host(vram_addr addr) {
    return (void *)(uintptr_t)addr;
}

/* What the host writes the device reads, and the other way round. */
static void memory_is_real(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "real=on,memory=64M");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    struct mapped made = map_range(device, GRANULE, 2);
    vram_addr plain = alloc(device, 2 * PAGE);
    uint32_t *words = host(made.addr + GRANULE - 4);
    words[0] = 1; /* on both sides of a seam */
    words[1] = 2;
    assert_ok(device->queue_ops->copy(&queue, plain + PAGE, made.addr + GRANULE - 4, 8));
    finish_queue(&queue);
    assert_int_equal(((uint32_t *)host(plain + PAGE))[0], 1);
    assert_int_equal(((uint32_t *)host(plain + PAGE))[1], 2);
    assert_ok(device->queue_ops->fill(&queue, made.addr, 9, 4, 2 * GRANULE));
    destroy_queue(&queue);
    assert_int_equal(words[0] + words[1], 18);
    unmap_range(device, &made);
    assert_ok(device->ops->free(device, plain, 2 * PAGE));
    plain = alloc(device, 2 * PAGE);
    assert_int_equal(*(uint32_t *)host(plain + PAGE), 0); /* nothing is left of the last owner */
    assert_ok(device->ops->free(device, plain, 2 * PAGE));
    close_world(&world, 0);
}

/* --------------------------------------------------------------------- kernels */

/* Adds `step` to each word of its group's part. */
static void add_kernel(const vram_kernel_call *call) {
    uint32_t *words = host(*(const vram_addr *)call->arguments[0]);
    uint32_t step = *(const uint32_t *)call->arguments[1];
    uint32_t group =
        call->group[0] + call->groups[0] * (call->group[1] + call->groups[1] * call->group[2]);
    for (uint32_t i = 0; i < call->group_size[0]; i++) {
        words[group * call->group_size[0] + i] += step + vr_locks_held();
    }
}

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

static void kernels_run(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "real=on,memory=64M,lag=20,profile=h200");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    void *kernel = load(device, add_kernel);
    vram_addr addr = alloc(device, PAGE);
    for (uint32_t step = 1; step <= 10; step++) {
        assert_ok(launch_add(&queue, kernel, addr, step));
    }
    finish_queue(&queue);
    for (unsigned i = 0; i < 4 * 3 * 2 * 16; i++) {
        assert_int_equal(((uint32_t *)host(addr))[i], 55);
    }
    destroy_queue(&queue);
    device->kernel->unload(device, kernel);
    assert_ok(device->ops->free(device, addr, PAGE));
    close_world(&world, 0);
}

static void kernels_are_checked(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "real=on,memory=64M,lag=10000");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    vram_addr addr = alloc(device, PAGE);
    struct vram_kernel_source source = {.size = sizeof source, .format = VRAM_KERNEL_PTX};
    void *none = NULL, *kernel = load(device, add_kernel);
    assert_int_equal(device->kernel->load(device, &source, &none), VRAM_ERR_UNSUPPORTED);
    assert_null(none);
    struct vram_launch launch = {.size = sizeof launch,
                                 .groups = {1, 1, 1},
                                 .group_size = {1, 1, 1},
                                 .argument_count = VR_SIM_ARGUMENTS_MAX + 1};
    size_t bytes[VR_SIM_ARGUMENTS_MAX + 1] = {0};
    launch.argument_bytes = bytes;
    assert_int_equal(device->kernel->launch(&queue, kernel, &launch), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "33 arguments");
    launch.argument_count = 1;
    bytes[0] = SIZE_MAX;
    assert_int_equal(device->kernel->launch(&queue, kernel, &launch), VRAM_ERR_INVALID);
    assert_int_equal(launch_add(&queue, &world, addr, 1), VRAM_ERR_INVALID);
    expect_violation(&world, 3, "no kernel");
    /* Memory that a launch was given as an argument is in use; so is the kernel. */
    assert_ok(launch_add(&queue, kernel, addr, 1));
    assert_int_equal(device->ops->free(device, addr, PAGE), VRAM_ERR_INVALID);
    expect_violation(&world, 4, "unfinished work");
    device->kernel->unload(device, kernel);
    expect_violation(&world, 5, "unfinished launches");
    assert_int_equal(*(uint32_t *)host(addr), 1);
    device->kernel->unload(device, kernel);
    expect_violation(&world, 6, "unloaded before");
    assert_ok(device->ops->free(device, addr, PAGE));
    destroy_queue(&queue);
    load(device, add_kernel);
    device->ops->close(device);
    expect_violation(&world, 7, "never unloaded");
    stop_world(&world);
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

static void kernels_may_call(void **state) {
    (void)state;
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
static void others_go_on(void **state) {
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
    if (*state) { /* the device is lost meanwhile: the kernel ends, what is behind it does not */
        plan(&world, VRAM_SIM_MEMORY_INFO, 1, false, VRAM_SIM_DEVICE_LOST);
        vram_value free, total;
        assert_int_equal(device->ops->memory_info(device, &free, &total), VRAM_ERR_DEVICE_LOST);
        vr_store(&device->lost, true, VR_RELEASE);
    }
    vr_store(&inside, 2, VR_RELEASE);
    vr_os_thread_join(&thread);
    assert_int_equal(waiter.status, *state ? VRAM_ERR_DEVICE_LOST : VRAM_OK);
    assert_int_equal(word_of(&queue), *state ? 0 : 1);
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
static void giving_back_waits(void **state) {
    struct world world;
    struct vr_thread threads[2];
    (void)state;
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

int main(void) {
    static char lost[] = "lost";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_real),
        cmocka_unit_test(kernels_run),
        cmocka_unit_test(kernels_are_checked),
        cmocka_unit_test(kernels_may_call),
        cmocka_unit_test(others_go_on),
        {"others_go_on (lost)", others_go_on, NULL, NULL, lost},
        cmocka_unit_test(giving_back_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
