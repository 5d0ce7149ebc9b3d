/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_opencl.c: the backend is found, or absent with a reason; devices are described; each symbol
 * of the driver is missing in turn.
 */
#include "unit/opencl_world.h"
#include "vram/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void assert_absent(const char *path, vram_status status, const char *words) {
    struct vr_backend backend;
    assert_int_equal(start_at(path, &backend), status);
    if (!strstr(vram_error_get()->text, words)) {
        fail_msg("\"%s\" does not speak of \"%s\"", vram_error_get()->text, words);
    }
    assert_null(backend.impl);
}

static void a_missing_driver_has_a_reason(void **state) {
    (void)state;
    uint64_t blocks = vr_mem_live_blocks();
    assert_absent("/nonexistent/libOpenCL.so.1", VRAM_ERR_NO_DRIVER, "opencl_library");
    assert_absent("libc.so.6", VRAM_ERR_NO_DRIVER, "clGetPlatformIDs");
    fake->settings->platforms = 0;
    assert_absent(FAKE_OPENCL_PATH, VRAM_ERR_NO_DEVICE, "install an OpenCL driver");
    fake->settings->platforms = 1;
    fake->settings->devices = 0;
    assert_absent(FAKE_OPENCL_PATH, VRAM_ERR_NO_DEVICE, "CL_DEVICE_NOT_FOUND");
    fake->settings->devices = 1;
    fake->settings->version = 110;
    assert_absent(FAKE_OPENCL_PATH, VRAM_ERR_NO_DEVICE, "CL_DEVICE_NOT_FOUND");
    fake->settings->version = 300;
    fake->settings->available = 0;
    assert_absent(FAKE_OPENCL_PATH, VRAM_ERR_NO_DEVICE, "CL_DEVICE_NOT_FOUND");
    assert_int_equal(vr_mem_live_blocks(), blocks);
}

static void describe(const char *memory, struct vram_device_info *info) {
    struct vr_backend backend;
    assert_int_equal(vram_option_set("opencl_memory", memory), VRAM_OK);
    assert_int_equal(start_at(FAKE_OPENCL_PATH, &backend), VRAM_OK);
    memset(info, 0, sizeof *info);
    assert_int_equal(backend.ops->describe(&backend, 0, info), VRAM_OK);
    backend.ops->stop(&backend);
}

static void devices_say_what_they_can(void **state) {
    struct vram_device_info info;
    (void)state;
    describe(NULL, &info);
    assert_int_equal(info.kind, VRAM_DEVICE_GPU);
    assert_string_equal(info.name, "Fake OpenCL device");
    assert_int_equal(info.caps, VRAM_CAP_ADOPT | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_MANAGED |
                                    VRAM_CAP_KERNELS | VRAM_CAP_PINNED);
    assert_true(info.memory_bytes.known && info.memory_bytes.value == VR_GIB);
    assert_true(info.alloc_max.known && info.alloc_max.value == 256 * VR_MIB);
    assert_true(info.uuid_known && info.uuid[0] == 0xFA);
    assert_string_equal(info.pci, "0000:07:00.0");
    describe("buffer", &info);
    assert_int_equal(info.caps & (VRAM_CAP_HANDLES | VRAM_CAP_TRUE_ADDRESS), VRAM_CAP_HANDLES);
    fake->settings->svm = 0;
    fake->settings->compiler = 0;
    fake->settings->gpu = 0;
    describe("svm", &info); /* which it has not */
    assert_int_equal(info.kind, VRAM_DEVICE_CPU);
    assert_int_equal(info.caps, VRAM_CAP_ADOPT | VRAM_CAP_HANDLES);
    fake->settings->usm = 1;
    describe(NULL, &info);
    assert_int_equal(info.caps, VRAM_CAP_ADOPT | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_MANAGED);
}

static void devices_of_all_platforms_are_there(void **state) {
    struct vr_backend backend;
    struct vr_device device;
    (void)state;
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

static void devices_are_listed_by_one_thread_at_a_time(void **state) {
    pthread_t threads[3];
    void *failed;
    assert_int_equal(vram_option_set("opencl_library", FAKE_OPENCL_PATH), VRAM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, backends_start, state), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_rules_kept();
}

/* -------------------------------------------------------------------- codes */

static void every_code_has_a_status(void **state) {
    (void)state;
    assert_int_equal(vr_opencl_status(VR_CL_SUCCESS), VRAM_OK);
    assert_int_equal(vr_opencl_status(VR_CL_MEM_OBJECT_ALLOCATION_FAILURE), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(vr_opencl_status(VR_CL_OUT_OF_HOST_MEMORY), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(vr_opencl_status(VR_CL_INVALID_BUFFER_SIZE), VRAM_ERR_LIMIT);
    assert_int_equal(vr_opencl_status(VR_CL_INVALID_KERNEL_NAME), VRAM_ERR_INVALID);
    assert_int_equal(vr_opencl_status(VR_CL_CONTEXT_TERMINATED_KHR), VRAM_ERR_DEVICE_LOST);
    for (int code = -3000; code <= 3000; code++) {
        vram_status status = vr_opencl_status(code);
        bool named = vr_opencl_code_name(code) != NULL;
        assert_int_equal(status == VRAM_OK, code == 0);
        assert_int_equal(status == VRAM_ERR_BACKEND, !named);
    }
}

/* ------------------------------------------------------------------ symbols */

/* A copy of the fake that lacks a symbol: its name is misspelt, so that nobody finds it. */
static void make_variant(const char *name, char *path, size_t path_bytes) {
    size_t length = strlen(name) + 2, found = 0;
    char needle[96] = "";
    FILE *from = fopen(FAKE_OPENCL_PATH, "rb");
    const char *folder = getenv("TMPDIR");
    snprintf(path, path_bytes, "%s/fake_opencl_XXXXXX", folder && *folder ? folder : "/tmp");
    int file = mkstemp(path);
    assert_non_null(from);
    assert_true(file >= 0);
    memcpy(needle + 1, name, length - 1);
    fseek(from, 0, SEEK_END);
    size_t bytes = (size_t)ftell(from);
    rewind(from);
    char *image = malloc(bytes);
    assert_non_null(image);
    assert_int_equal(fread(image, 1, bytes, from), bytes);
    fclose(from);
    for (size_t at = 0; at + length <= bytes; at++) {
        if (memcmp(image + at, needle, length) == 0) {
            image[at + 1] = '#';
            found++;
        }
    }
    assert_true(found > 0);
    assert_int_equal(write(file, image, bytes), bytes);
    free(image);
    close(file);
}

/* What must work whatever optional symbol is absent. */
static void smoke(struct vr_backend *backend) {
    struct vr_device device;
    struct vr_queue queue;
    char text[8] = "";
    open_device(backend, 0, &device);
    make_queue(&device, &queue);
    vram_addr addr = take_memory(&device, GRANULE);
    assert_int_equal(device.queue_ops->upload(&queue, addr, "libvram", 8), VRAM_OK);
    assert_int_equal(device.queue_ops->download(&queue, text, addr, 8), VRAM_OK);
    settle(&queue);
    assert_string_equal(text, "libvram");
    end_queue(&queue);
    give_memory(&device, addr, GRANULE);
    device.ops->close(&device);
}

static const struct {
    const char *name;
    bool optional;
} symbols[] = {
#define SYMBOL(name, need, parameters, arguments)            {#name, need},
#define SYMBOL_MAKE(name, need, type, parameters, arguments) {#name, need},
    VR_OPENCL_FUNCTIONS(SYMBOL, SYMBOL_MAKE, SYMBOL, SYMBOL)
#undef SYMBOL
#undef SYMBOL_MAKE
};

static void each_symbol_missing_in_turn(void **state) {
    const struct fake_opencl_control *all = fake;
    const struct opencl_control *all_plan = plan;
    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        char path[256];
        struct vr_backend backend;
        make_variant(symbols[i].name, path, sizeof path);
        vram_status status = start_at(path, &backend);
        if (symbols[i].optional) {
            assert_int_equal(status, VRAM_OK);
            fake_load(path);
            smoke(&backend);
            assert_true(live_falls_to(0));
            assert_rules_kept();
            backend.ops->stop(&backend);
            fake = all;
            plan = all_plan;
        } else {
            assert_int_equal(status, VRAM_ERR_NO_DRIVER);
            assert_non_null(strstr(vram_error_get()->text, symbols[i].name));
        }
        unlink(path);
    }
}

/* ---------------------------------------------------- through the public calls */

/* A CPU behind a driver is not taken for the host, which is nearer. */
static void the_host_is_preferred_to_a_driver_on_the_cpu(void **state) {
    (void)state;
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
static void pools_name_their_blocks(void **state) {
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
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(a_missing_driver_has_a_reason),
        HERE(devices_say_what_they_can),
        HERE(devices_of_all_platforms_are_there),
        HERE(devices_are_listed_by_one_thread_at_a_time),
        HERE(every_code_has_a_status),
        HERE(each_symbol_missing_in_turn),
        HERE(the_host_is_preferred_to_a_driver_on_the_cpu),
        HERE(pools_name_their_blocks),
    };
    return cmocka_run_group_tests_name("opencl", tests, NULL, NULL);
}
