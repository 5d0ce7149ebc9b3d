/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_opencl.c: devices of several platforms, and pools whose blocks have sub-buffers. Drivers
 * that are not the usual one are in tests/drivers.
 */
#include "unit/opencl_world.h"
#include "vram/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TEST(devices_of_all_platforms_are_there) {
    struct vr_backend backend;
    struct vr_device device;
    fake->settings->platforms = 3;
    fake->settings->devices = 2;
    assert_int_equal(start_at(FAKE_OPENCL_PATH, &backend), VRAM_OK);
    assert_int_equal(backend.ops->count(&backend), 6);
    assert_string_equal(backend.version, "3.0");
    open_device(&backend, 5, &device);
    vram_addr addr = take_memory(&device, GRANULE);
    give_memory(&device, addr, GRANULE);
    device.ops->close(&device);
    backend.ops->stop(&backend);
    plan->refuse("clGetDeviceIDs", 1, VR_CL_OUT_OF_HOST_MEMORY, false); /* one does not answer */
    assert_int_equal(start_at(FAKE_OPENCL_PATH, &backend), VRAM_OK);
    assert_int_equal(backend.ops->count(&backend), 4);
    backend.ops->stop(&backend);
}

static void *backends_start(void *user) {
    for (int i = 0; i < 20; i++) {
        struct vr_backend backend = {.ops = &vr_opencl_backend};
        if (backend.ops->start(&backend, NULL) != VRAM_OK) {
            return user;
        }
        backend.ops->stop(&backend);
    }
    return NULL;
}

TEST(devices_are_listed_by_one_thread_at_a_time) {
    pthread_t threads[3];
    void *failed;
    assert_int_equal(vram_option_set("opencl_library", FAKE_OPENCL_PATH), VRAM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, backends_start, NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_rules_kept();
}

/* ---------------------------------------------------- through the public calls */

/* A CPU behind a driver is not taken for the host, which is nearer. */
TEST(the_host_is_preferred_to_a_driver_on_the_cpu) {
    for (int gpu = 0; gpu < 2; gpu++) {
        vram_context_options options = {.size = sizeof options, .backends = "opencl,host"};
        vram_device_info info = {.size = sizeof info};
        vram_context *context;
        uint32_t best = 77;
        fake->settings->gpu = gpu;
        assert_int_equal(vram_option_set("opencl_library", FAKE_OPENCL_PATH), VRAM_OK);
        assert_int_equal(vram_context_create(&options, &context), VRAM_OK);
        assert_int_equal(vram_device_best(context, &best), VRAM_OK);
        assert_int_equal(vram_device_info_get(context, best, &info), VRAM_OK);
        assert_string_equal(info.backend, gpu ? "opencl" : "host");
        vram_context_destroy(context);
    }
}

/* Blocks of a pool have sub-buffers of their own; launches name them, and refuse what is inside. */
TEST(pools_name_their_blocks) {
    vram_context_options options = {.size = sizeof options, .backends = "opencl"};
    vram_native_info native = {.size = sizeof native}, inside = native;
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_OPENCL_C,
                                 .code = "__kernel void store() {}",
                                 .entry = "store"};
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_kernel *kernel;
    vram_addr addr, other;
    uint64_t value = 42, found = 0;
    uint32_t index = 3;
    assert_int_equal(vram_option_set("opencl_library", FAKE_OPENCL_PATH), VRAM_OK);
    assert_int_equal(vram_option_set("opencl_memory", "buffer"), VRAM_OK);
    assert_int_equal(vram_context_create(&options, &context), VRAM_OK);
    assert_int_equal(vram_device_open(context, 0, &device), VRAM_OK);
    assert_int_equal(vram_queue_create(device, NULL, &queue), VRAM_OK);
    assert_int_equal(vram_kernel_create(device, &source, &kernel), VRAM_OK);
    assert_int_equal(vram_pool_create(device, NULL, &pool), VRAM_OK);
    assert_int_equal(vram_alloc(pool, 1000, queue, &other), VRAM_OK);
    assert_int_equal(vram_alloc(pool, 1000, queue, &addr), VRAM_OK);
    assert_int_equal(vram_native(addr, &native), VRAM_OK);
    assert_int_equal(native.offset, 0);
    assert_int_equal(native.base, addr);
    assert_int_equal(native.bytes, 1024);
    assert_int_equal(vram_native(addr + 512, &inside), VRAM_OK);
    assert_true(inside.handle != native.handle && inside.bytes > native.bytes);
    assert_int_equal(inside.base + inside.offset, addr + 512);
    const void *arguments[] = {&addr, &index, &value};
    const size_t sizes[] = {8, 4, 8};
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 3,
                          .arguments = arguments,
                          .argument_bytes = sizes,
                          .address_mask = 1};
    assert_int_equal(vram_queue_launch(queue, kernel, &launch), VRAM_OK);
    assert_int_equal(vram_queue_download(queue, &found, addr + 24, 8), VRAM_OK);
    assert_int_equal(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    assert_int_equal(found, 42);
    vram_addr middle = addr + 512;
    arguments[0] = &middle;
    assert_int_equal(vram_queue_launch(queue, kernel, &launch), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "inside a block"));
    vram_context_destroy(context);
    assert_rules_kept();
}

EACH_TEST(setup, teardown)
