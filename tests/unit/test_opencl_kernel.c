/* SPDX-License-Identifier: Apache-2.0 */
/* test_opencl_kernel.c: programs, and how kernels get what they are given. */
#include "unit/opencl_world.h"

#define TEXT "__kernel void store() {} __kernel void scratch() {}"

static vram_status load(struct vr_device *device, const char *text, const char *entry,
                        void **kernel) {
    struct vram_kernel_source source = {.size = sizeof source,
                                        .format = VRAM_KERNEL_OPENCL_C,
                                        .code = text,
                                        .code_bytes = strlen(text),
                                        .entry = entry};
    return device->kernel->load(device, &source, kernel);
}

/* (cells, index, value) as a launch; `place` is an address, or a struct vr_native. */
static vram_status store(struct vr_queue *queue, void *kernel, const void *place, size_t bytes,
                         uint32_t mask) {
    static const uint32_t index = 1;
    static const uint64_t value = 0x1234567890ABCDEF;
    const void *const arguments[] = {place, &index, &value};
    const size_t sizes[] = {bytes, sizeof index, sizeof value};
    const struct vram_launch launch = {.size = sizeof launch,
                                       .groups = {1, 1, 1},
                                       .group_size = {1, 1, 1},
                                       .argument_count = 3,
                                       .arguments = arguments,
                                       .argument_bytes = sizes,
                                       .address_mask = mask};
    return queue->device->kernel->launch(queue, kernel, &launch);
}

static uint64_t stored(struct vr_queue *queue, vram_addr addr) {
    uint64_t value = 0;
    assert_int_equal(queue->device->queue_ops->download(queue, &value, addr + 8, 8), VRAM_OK);
    settle(queue);
    return value;
}

TEST(buffers_reach_the_kernel) {
    for (int info = 0; info < 2; info++) {
        struct world world;
        struct vr_queue queue;
        struct vr_native native;
        void *kernel;
        fake->settings->arg_info = info;
        begin(&world, "buffer");
        make_queue(&world.device, &queue);
        assert_int_equal(load(&world.device, TEXT, "store", &kernel), VRAM_OK);
        vram_addr addr = take_memory(&world.device, GRANULE), managed;
        assert_int_equal(world.device.handles->native(&world.device, addr + 1024, 512, &native),
                         VRAM_OK);
        assert_int_equal(store(&queue, kernel, &native, sizeof native, 1), VRAM_OK);
        assert_int_equal(stored(&queue, addr + 1024), 0x1234567890ABCDEF);

        assert_int_equal(world.device.managed->alloc(&world.device, 4096, &managed), VRAM_OK);
        native = (struct vr_native){.device_address = {managed, true}};
        assert_int_equal(store(&queue, kernel, &native, sizeof native, 1), VRAM_OK);
        settle(&queue);
        assert_int_equal(((uint64_t *)(uintptr_t)managed)[1], 0x1234567890ABCDEF);

        assert_int_equal(world.device.handles->native(&world.device, addr + 8, 0, &native),
                         VRAM_OK);
        assert_int_equal(store(&queue, kernel, &native, sizeof native, 1), VRAM_ERR_INVALID);
        assert_opencl_error(VRAM_ERR_INVALID, "clSetKernelArg", VR_CL_INVALID_ARG_VALUE);
        if (info) {
            assert_int_equal(store(&queue, kernel, &addr, 8, 0), VRAM_ERR_INVALID);
            assert_int_equal(store(&queue, kernel, &native, sizeof native, 3), VRAM_ERR_INVALID);
        }
        assert_int_equal(world.device.managed->free(&world.device, managed, 4096), VRAM_OK);
        world.device.kernel->unload(&world.device, kernel);
        give_memory(&world.device, addr, GRANULE);
        end_queue(&queue);
        end(&world);
        fake->reset();
    }
}

TEST(local_memory_is_a_size) {
    struct world world;
    struct vr_queue queue;
    void *kernel;
    uint32_t count = 1, unused = 0;
    begin(&world, "svm");
    make_queue(&world.device, &queue);
    assert_int_equal(load(&world.device, TEXT, "scratch", &kernel), VRAM_OK);
    vram_addr addr = take_memory(&world.device, GRANULE);
    const void *const arguments[] = {&addr, &unused, &count};
    const size_t sizes[] = {8, 96, sizeof count};
    struct vram_launch launch = {.size = sizeof launch,
                                 .groups = {1, 1, 1},
                                 .group_size = {1, 1, 1},
                                 .argument_count = 3,
                                 .arguments = arguments,
                                 .argument_bytes = sizes};
    assert_int_equal(world.device.kernel->launch(&queue, kernel, &launch), VRAM_OK);
    assert_int_equal(stored(&queue, addr - 8), 96);
    launch.argument_count = 2;
    assert_int_equal(world.device.kernel->launch(&queue, kernel, &launch), VRAM_ERR_INVALID);
    world.device.kernel->unload(&world.device, kernel);
    give_memory(&world.device, addr, GRANULE);
    end_queue(&queue);
    end(&world);
}

TEST(what_the_compiler_says_is_in_the_record) {
    struct world world;
    void *canary = &world, *kernel = canary;
    struct vram_kernel_source foreign = {
        .size = sizeof foreign, .format = VRAM_KERNEL_PTX, .code = TEXT, .entry = "store"};
    begin(&world, "svm");
    assert_int_equal(load(&world.device, "#error", "store", &kernel), VRAM_ERR_INVALID);
    assert_opencl_error(VRAM_ERR_INVALID, "clBuildProgram", VR_CL_BUILD_PROGRAM_FAILURE);
    assert_non_null(strstr(vram_error_get()->text, "1: this is no program"));
    assert_int_equal(load(&world.device, TEXT, "nothing", &kernel), VRAM_ERR_INVALID);
    assert_opencl_error(VRAM_ERR_INVALID, "clCreateKernel", VR_CL_INVALID_KERNEL_NAME);
    assert_int_equal(world.device.kernel->load(&world.device, &foreign, &kernel),
                     VRAM_ERR_UNSUPPORTED);
    assert_ptr_equal(kernel, canary);
    end(&world);
}

EACH_TEST(setup, teardown)
