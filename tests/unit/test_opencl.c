/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_opencl.c: devices of several platforms, buffers behind addresses and their sub-buffers,
 * memory that runs out, and how kernels get what they are given. Drivers that are not the usual
 * one, and calls that fail, are in tests/drivers.
 */
#include "unit/opencl_world.h"

#include <pthread.h>

/* ------------------------------------------------------------------------ devices */

TEST(devices_of_all_platforms_are_there) {
    struct stage stage;
    vram_device *last;
    fake->settings->platforms = 3;
    fake->settings->devices = 2;
    for (int silent = 0; silent < 2; silent++) { /* one platform does not answer */
        plan->refuse(silent ? "clGetDeviceIDs" : NULL, 1, VR_CL_OUT_OF_HOST_MEMORY, false);
        stage_open(&stage, "svm");
        assert_int_equal(vram_device_count(stage.context), silent ? 4 : 6);
        assert_ok(vram_device_open(stage.context, silent ? 3 : 5, &last));
        stage_close(&stage);
    }
}

static void *contexts_come_and_go(void *user) {
    const vram_context_options options = {.size = sizeof options, .backends = "opencl"};
    vram_context *context;
    for (int i = 0; i < 20; i++) {
        if (vram_context_create(&options, &context) != VRAM_OK || vram_device_count(context) != 1) {
            return user;
        }
        vram_context_destroy(context);
    }
    return NULL;
}

TEST(devices_are_listed_by_one_thread_at_a_time) {
    pthread_t threads[3];
    void *failed;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, contexts_come_and_go, &threads), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

/* A CPU behind a driver is not taken for the host, which is nearer. */
TEST(the_host_is_preferred_to_a_driver_on_the_cpu) {
    for (int gpu = 0; gpu < 2; gpu++) {
        vram_context_options options = {.size = sizeof options, .backends = "opencl,host"};
        vram_device_info info = {.size = sizeof info};
        vram_context *context;
        uint32_t best = 77;
        fake->settings->gpu = gpu;
        assert_ok(vram_context_create(&options, &context));
        assert_ok(vram_device_best(context, &best));
        assert_ok(vram_device_info_get(context, best, &info));
        assert_string_equal(info.backend, gpu ? "opencl" : "host");
        vram_context_destroy(context);
    }
}

/* -------------------------------------------------------------------- sub-buffers */

static void *handle_of(vram_addr addr) {
    vram_native_info native = {.size = sizeof native};
    assert_ok(vram_native(addr, &native));
    assert_non_null(native.handle);
    return native.handle;
}

/* A block of a pool has a sub-buffer, which is made once, and anew when the block is another. */
TEST(a_block_has_a_sub_buffer_of_its_own) {
    struct stage stage;
    vram_native_info first = {.size = sizeof first}, inside = first;
    vram_pool *pool;
    vram_addr addrs[2], wider;
    stage_open(&stage, "buffer");
    assert_ok(vram_pool_create(stage.device, NULL, &pool));
    assert_ok(vram_alloc(pool, 500, stage.queue, &addrs[0]));
    assert_ok(vram_alloc(pool, 1000, stage.queue, &addrs[1]));
    uint64_t before = fake->live();
    assert_ok(vram_native(addrs[0], &first));
    assert_true(first.offset == 0 && first.base == addrs[0] && first.bytes == 512);
    assert_false(first.device_address.known);
    assert_ptr_not_equal(handle_of(addrs[1]), first.handle);
    assert_int_equal(fake->live(), before + 2);
    plan->refuse(NULL, 0, 0, false); /* from here on they are found, without the driver */
    assert_ptr_equal(handle_of(addrs[0]), first.handle);
    assert_ok(vram_native(addrs[0] + 5, &inside));
    assert_true(inside.handle != first.handle && inside.bytes > 512);
    assert_int_equal(inside.base + inside.offset, addrs[0] + 5);
    assert_int_equal(plan->calls("any"), 0);
    assert_ok(vram_free(addrs[0], stage.queue));
    assert_ok(vram_free(addrs[1], stage.queue));
    assert_ok(vram_queue_wait(stage.queue, FOR_EVER));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_ok(vram_alloc(pool, 2048, stage.queue, &wider));
    assert_ok(vram_native(wider, &first));
    assert_true(first.base == wider && first.bytes == 2048);
    stage_close(&stage);
}

/* Blocks of all sizes lie where others lay: what is there of sub-buffers stays near what is alive,
   and that of a live block is never swept. */
TEST(old_sub_buffers_go) {
    enum { ROUNDS = 40, BLOCKS = 60 };
    struct stage stage;
    vram_pool *pool;
    vram_addr addrs[BLOCKS];
    void *handles[BLOCKS];
    uint64_t most = 0;
    stage_open(&stage, "buffer");
    assert_ok(vram_pool_create(stage.device, NULL, &pool));
    assert_ok(vram_alloc(pool, 200 * MIB, stage.queue, &addrs[0])); /* that is cut into blocks */
    assert_ok(vram_free(addrs[0], stage.queue));
    uint64_t before = fake->live();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            uint64_t bytes = MIB + (i * 37 + round * 101) % 200 * 4096;
            assert_ok(vram_alloc(pool, bytes, stage.queue, &addrs[i]));
            handles[i] = handle_of(addrs[i]);
        }
        for (unsigned i = 0; i < BLOCKS; i++) {
            assert_ptr_equal(handle_of(addrs[i]), handles[i]);
        }
        uint64_t now = fake->live() - before;
        most = now > most ? now : most;
        for (unsigned i = 0; i < BLOCKS; i++) {
            assert_ok(vram_free(addrs[i], stage.queue));
        }
    }
    assert_in_range(most, BLOCKS, 4 * BLOCKS + 64);
    stage_close(&stage);
}

static vram_addr shared_addrs[256];

static void *ask_often(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < 3000; i++) {
        vram_native_info one = {.size = sizeof one}, other = one;
        vram_addr addr = shared_addrs[i * 7 % 256];
        if (vram_native(addr, &one) || vram_native(addr, &other) || one.handle != other.handle) {
            return shared_addrs;
        }
    }
    return NULL;
}

TEST(threads_get_the_same_sub_buffer) {
    struct stage stage;
    pthread_t threads[3];
    vram_pool *pool;
    void *failed;
    stage_open(&stage, "buffer");
    assert_ok(vram_pool_create(stage.device, NULL, &pool));
    for (int i = 0; i < 256; i++) {
        assert_ok(vram_alloc(pool, 512, stage.queue, &shared_addrs[i]));
    }
    uint64_t before = fake->live();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(fake->live(), before + 256);
    stage_close(&stage);
}

/* ------------------------------------------------------------- memory that runs out */

static const char *const memories[] = {"buffer", "svm", "usm"};

/* The driver says yes and has nothing, since another context took it: the allocation fails, not
   what comes after it. */
TEST(lazy_buffers_fail_when_they_are_allocated) {
    for (int i = 0; i < 3; i++) {
        struct stage stage, elsewhere;
        vram_addr addr = 7;
        fake->settings->memory_mib = 8;
        fake->settings->usm = i == 2;
        stage_open(&elsewhere, memories[i]);
        stage_open(&stage, memories[i]);
        (void)take(&elsewhere, 2 * MIB);
        (void)take(&elsewhere, 2 * MIB);
        uint64_t before = fake->live();
        assert_int_equal(vram_device_alloc(stage.device, 6 * MIB, VRAM_MEMORY_DEVICE, &addr),
                         VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(addr, 7);
        assert_true(live_falls_to(before));
        (void)take(&stage, 2 * MIB);
        stage_close(&stage);
        stage_close(&elsewhere);
        assert_true(live_falls_to(0));
        fake->reset();
    }
}

/* What the device has is all that is given, whatever the driver would promise; it is not asked. */
TEST(the_device_says_no_when_it_is_full) {
    static const vram_memory_kind kinds[] = {VRAM_MEMORY_DEVICE, VRAM_MEMORY_MANAGED};
    struct stage stage;
    fake->settings->memory_mib = 2;
    stage_open(&stage, "svm");
    (void)take(&stage, 2 * MIB - 128 * KIB);
    uint64_t calls = plan->calls("any");
    for (int i = 0; i < 2; i++) {
        vram_addr addr = 7;
        assert_int_equal(vram_device_alloc(stage.device, 256 * KIB, kinds[i], &addr),
                         VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(addr, 7);
    }
    assert_int_equal(plan->calls("any"), calls);
    stage_close(&stage);
}

/* The driver maps it 128 bytes behind a page. */
TEST(pinned_memory_is_page_aligned) {
    struct stage stage;
    stage_open(&stage, "buffer");
    for (int i = 0; i < 3; i++) {
        vram_addr addr;
        assert_ok(vram_device_alloc(stage.device, 8192, VRAM_MEMORY_PINNED, &addr));
        assert_int_equal(addr % vr_os_page_bytes(), 0);
        memset((void *)(uintptr_t)addr, i, 8192);
    }
    stage_close(&stage);
}

/* ------------------------------------------------------------------------ kernels */

#define TEXT "__kernel void store() {} __kernel void scratch() {}"

static vram_status load(struct stage *stage, const char *text, const char *entry,
                        vram_kernel **kernel) {
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_OPENCL_C,
                                       .code = text,
                                       .code_bytes = strlen(text),
                                       .entry = entry};
    return vram_kernel_create(stage->device, &source, kernel);
}

/* (cells, index, value), of which the first `count`. */
static vram_status launch(struct stage *stage, vram_kernel *kernel, vram_addr addr, size_t second,
                          uint64_t third, size_t third_bytes, uint32_t mask, uint32_t count) {
    const uint32_t index = 1;
    const void *const arguments[] = {&addr, &index, &third};
    const size_t sizes[] = {8, second, third_bytes};
    const vram_launch call = {.size = sizeof call,
                              .groups = {1, 1, 1},
                              .group_size = {1, 1, 1},
                              .argument_count = count,
                              .arguments = arguments,
                              .argument_bytes = sizes,
                              .address_mask = mask};
    return vram_queue_launch(stage->queue, kernel, &call);
}

static vram_status store(struct stage *stage, vram_kernel *kernel, vram_addr addr, uint64_t value,
                         uint32_t mask) {
    return launch(stage, kernel, addr, 4, value, 8, mask, 3);
}

static uint64_t stored(struct stage *stage, vram_addr addr) {
    uint64_t value = 0;
    assert_ok(vram_queue_download(stage->queue, &value, addr, 8));
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    return value;
}

/* Of a pool, of the device's own and managed; a place inside a block has no buffer of its own. */
TEST(memory_of_all_kinds_reaches_the_kernel) {
    for (int i = 0; i < 3; i++) {
        for (int info = 0; info < 2; info++) {
            struct stage stage;
            vram_kernel *kernel;
            vram_pool *pool;
            vram_addr block, managed;
            fake->settings->arg_info = info;
            fake->settings->usm = i == 2;
            stage_open(&stage, memories[i]);
            assert_ok(load(&stage, TEXT, "store", &kernel));
            assert_ok(vram_pool_create(stage.device, NULL, &pool));
            assert_ok(vram_alloc(pool, 1000, stage.queue, &managed));
            assert_ok(vram_alloc(pool, 1000, stage.queue, &block)); /* not at the beginning */
            vram_addr own = take(&stage, 4096);
            assert_ok(vram_device_alloc(stage.device, 4096, VRAM_MEMORY_MANAGED, &managed));
            assert_ok(store(&stage, kernel, block, 11, 1));
            assert_ok(store(&stage, kernel, own, 12, 1));
            assert_ok(store(&stage, kernel, managed, 13, 1));
            assert_int_equal(stored(&stage, block + 8), 11);
            assert_int_equal(stored(&stage, own + 8), 12);
            assert_int_equal(stored(&stage, managed + 8), 13);
            if (i == 0) {
                assert_int_equal(store(&stage, kernel, block + 512, 1, 1), VRAM_ERR_INVALID);
                assert_non_null(strstr(vram_error_get()->text, "inside a block"));
            } else {
                assert_ok(store(&stage, kernel, block + 512, 14, 1));
                assert_int_equal(stored(&stage, block + 520), 14);
                assert_ok(store(&stage, kernel, block, own, 5)); /* a value may be an address */
                assert_int_equal(stored(&stage, block + 8), own);
            }
            if (i == 0 && info) { /* what is no pointer is told by the kernel */
                assert_int_equal(store(&stage, kernel, block, 1, 0), VRAM_ERR_INVALID);
                assert_int_equal(store(&stage, kernel, block, own, 5), VRAM_ERR_INVALID);
                assert_non_null(strstr(vram_error_get()->text, "is no pointer"));
            }
            stage_close(&stage);
            fake->reset();
        }
    }
}

TEST(local_memory_is_a_size) {
    struct stage stage;
    vram_kernel *kernel;
    stage_open(&stage, "svm");
    assert_ok(load(&stage, TEXT, "scratch", &kernel));
    vram_addr addr = take(&stage, 4096);
    assert_ok(launch(&stage, kernel, addr, 96, 1, 4, 0, 3));
    assert_int_equal(stored(&stage, addr), 96);
    assert_int_equal(launch(&stage, kernel, addr, 96, 1, 4, 0, 2), VRAM_ERR_INVALID);
    stage_close(&stage);
}

/* Drivers may tell nothing about a failed build, or about arguments. */
TEST(what_the_compiler_says_is_in_the_record) {
    struct stage stage;
    vram_kernel *kernel = NULL;
    stage_open(&stage, "svm");
    assert_int_equal(load(&stage, "#error", "store", &kernel), VRAM_ERR_INVALID);
    assert_opencl_error(VRAM_ERR_INVALID, "clBuildProgram", VR_CL_BUILD_PROGRAM_FAILURE);
    assert_non_null(strstr(vram_error_get()->text, "1: this is no program"));
    assert_int_equal(load(&stage, TEXT, "nothing", &kernel), VRAM_ERR_INVALID);
    assert_opencl_error(VRAM_ERR_INVALID, "clCreateKernel", VR_CL_INVALID_KERNEL_NAME);
    plan->refuse("clGetProgramBuildInfo", 1, VR_CL_SUCCESS, false); /* nothing to tell */
    assert_int_equal(load(&stage, "#error", "store", &kernel), VRAM_ERR_INVALID);
    assert_opencl_error(VRAM_ERR_INVALID, "clBuildProgram", VR_CL_BUILD_PROGRAM_FAILURE);
    assert_null(kernel);
    plan->refuse("clGetKernelArgInfo", 1, VR_CL_SUCCESS, true); /* of no kind that there is */
    assert_ok(load(&stage, TEXT, "store", &kernel));
    assert_int_equal(plan->struck(), 3);
    plan->refuse(NULL, 0, 0, false);
    vram_addr addr = take(&stage, 4096);
    assert_ok(store(&stage, kernel, addr, 77, 1));
    assert_int_equal(stored(&stage, addr + 8), 77);
    stage_close(&stage);
}

EACH_TEST(begin, end)
