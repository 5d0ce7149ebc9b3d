/* SPDX-License-Identifier: Apache-2.0 */
/* test_host_kernel.c: C functions as kernels. */
#include "host_world.h"

struct triple {
    uint32_t x, y, z;
};

/* Arguments: address of a counter per group, a byte, a struct, a double. */
static void count_groups(const vram_kernel_call *call) {
    uint32_t *counters = vr_host_pointer(*(const vram_addr *)call->arguments[0]);
    uint8_t byte = *(const uint8_t *)call->arguments[1];
    const struct triple *sizes = call->arguments[2];
    double number = *(const double *)call->arguments[3];
    bool right = byte == 200 && number == 2.5 && call->group_size[0] == sizes->x &&
                 call->group_size[1] == sizes->y && call->group_size[2] == sizes->z;
    for (int i = 0; i < 4; i++) {
        right = right && (uintptr_t)call->arguments[i] % _Alignof(max_align_t) == 0;
    }
    const uint32_t *group = call->group, *groups = call->groups;
    counters[(group[2] * groups[1] + group[1]) * groups[0] + group[0]] += right;
}

static void kernels_run_once_per_group(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    struct vr_queue queue;
    uint32_t counters[2 * 3 * 4] = {0};
    vram_addr addr = (vram_addr)(uintptr_t)counters;
    uint8_t byte = 200;
    struct triple sizes = {32, 2, 1};
    double number = 2.5;
    struct vram_kernel_source source = {.size = sizeof source,
                                        .format = VRAM_KERNEL_C,
                                        .code = (const void *)(uintptr_t)count_groups,
                                        .entry = "count_groups"};
    const void *const arguments[] = {&addr, &byte, &sizes, &number};
    const size_t bytes[] = {sizeof addr, sizeof byte, sizeof sizes, sizeof number};
    struct vram_launch options = {.size = sizeof options,
                                  .groups = {2, 3, 4},
                                  .group_size = {32, 2, 1},
                                  .argument_count = 4,
                                  .arguments = arguments,
                                  .argument_bytes = bytes};
    void *kernel;
    make_queue(world, &queue);
    assert_int_equal(device->kernel->load(device, &source, &kernel), VRAM_OK);
    assert_int_equal(device->kernel->launch(&queue, kernel, &options), VRAM_OK);
    byte = 0, number = 0, addr = 0; /* copied already */
    signal_and_wait(&queue, 1);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        assert_int_equal(counters[i], 1);
    }
    device->kernel->unload(device, kernel);
    device->queue_ops->destroy(&queue);
}

static vr_atomic_u32 bare_runs;

static void run_bare(const vram_kernel_call *call) {
    vr_fetch_add(&bare_runs, call->groups[0], VR_RELAXED);
}

static void kernels_without_arguments_run(void **state) {
    struct world *world = *state;
    struct vr_queue queue;
    struct vram_launch options = {
        .size = sizeof options, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    make_queue(world, &queue);
    vr_store(&bare_runs, 0, VR_RELAXED);
    assert_int_equal(world->device.kernel->launch(&queue, (void *)(uintptr_t)run_bare, &options),
                     VRAM_OK);
    signal_and_wait(&queue, 1);
    assert_int_equal(vr_load(&bare_runs, VR_RELAXED), 1);
    world->device.queue_ops->destroy(&queue);
}

static void foreign_code_is_refused(void **state) {
    struct world *world = *state;
    struct vram_kernel_source source = {
        .size = sizeof source, .format = VRAM_KERNEL_PTX, .code = ".version 8.0", .code_bytes = 12};
    void *kernel = &source;
    assert_int_equal(world->device.kernel->load(&world->device, &source, &kernel),
                     VRAM_ERR_UNSUPPORTED);
    assert_host_error(VRAM_ERR_UNSUPPORTED, "load");
    assert_ptr_equal(kernel, &source);
}

/* A launch of 2^32 - 1 groups, each behind the gate, would never end by itself. */
static void a_lost_launch_stops_between_groups(void **state) {
    struct world *world = *state;
    struct vr_queue queue;
    struct gate gate = {false};
    struct opener opener = {.gate = &gate};
    vram_addr addr = (vram_addr)(uintptr_t)&gate;
    make_queue(world, &queue);
    assert_int_equal(launch(&queue, pass_gate, &addr, sizeof addr, UINT32_MAX), VRAM_OK);
    while (!vr_load(&gate.entered, VR_ACQUIRE)) {
        vr_os_yield();
    }
    vr_store(&world->device.lost, true, VR_RELEASE);
    assert_int_equal(vr_os_thread_start(&opener.thread, "opener", open_later, &opener), VRAM_OK);
    world->device.queue_ops->destroy(&queue);
    vr_os_thread_join(&opener.thread);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(kernels_run_once_per_group),
        HERE(kernels_without_arguments_run),
        HERE(foreign_code_is_refused),
        HERE(a_lost_launch_stops_between_groups),
    };
    return cmocka_run_group_tests_name("host_kernel", tests, NULL, NULL);
}
