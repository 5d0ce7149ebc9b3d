/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_opencl_adopt.c: a program's own context and queue, used by libvram through the public API, and memory
 * of libvram used in the program's own commands. Over the tests' driver; with --installed over whatever
 * OpenCL the machine has.
 */
#include "backend/opencl/opencl_api.h"
#include "vram/vram.h"

#include "base/memory.h"
#include "base/option.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define assert_ok(call) assert_int_equal((call), VRAM_OK)

static bool installed;

/* What the program has of OpenCL. */
static struct {
    struct vr_opencl_api api;
    struct vr_cl_device *device;
    struct vr_cl_context *context;
    struct vr_cl_queue *queue;
} program;

static int program_start(void **state) {
    struct vr_cl_platform *platform = NULL;
    vr_cl_uint count = 0;
    vr_cl_int code;
    (void)state;
    void *library = dlopen(installed ? "libOpenCL.so.1" : FAKE_OPENCL_PATH, RTLD_NOW | RTLD_LOCAL);
    void *found;
    assert_non_null(library);
#define LOAD(name, need, parameters, arguments)                                                    \
    found = dlsym(library, #name);                                                                 \
    memcpy(&program.api.name, &found, sizeof found);
#define LOAD_MAKE(name, need, type, parameters, arguments) LOAD(name, need, parameters, arguments)
    VR_OPENCL_FUNCTIONS(LOAD, LOAD_MAKE, LOAD, LOAD)
#undef LOAD
#undef LOAD_MAKE
    if (!installed) {
        assert_ok(vram_option_set("opencl_library", FAKE_OPENCL_PATH));
    }
    assert_int_equal(program.api.clGetPlatformIDs(1, &platform, &count), 0);
    assert_int_equal(
        program.api.clGetDeviceIDs(platform, VR_CL_DEVICE_TYPE_ALL, 1, &program.device, &count), 0);
    program.context = program.api.clCreateContext(NULL, 1, &program.device, NULL, NULL, &code);
    program.queue = program.api.clCreateCommandQueue(program.context, program.device, 0, &code);
    return program.context && program.queue ? 0 : -1;
}

static int program_end(void **state) {
    (void)state;
    program.api.clReleaseCommandQueue(program.queue);
    program.api.clReleaseContext(program.context);
    vr_option_reset();
    return vram_host_bytes() == 0 ? 0 : -1;
}

static struct vram_opencl_adoption adoption_of(void) {
    return (struct vram_opencl_adoption){.size = sizeof(struct vram_opencl_adoption),
                                         .context = program.context,
                                         .device = program.device};
}

static vram_status create(const struct vram_opencl_adoption *adoption, vram_context **context) {
    const vram_context_options options = {
        .size = sizeof options, .backends = "opencl", .opencl = adoption};
    return vram_context_create(&options, context);
}

/* --------------------------------------------------------------------- tests */

static void bad_adoptions_are_refused(void **state) {
    struct vram_opencl_adoption cases[5];
    int other;
    (void)state;
    for (int i = 0; i < 5; i++) {
        cases[i] = adoption_of();
    }
    cases[0].size = 0;
    cases[1].size = sizeof cases[1].size; /* a header that knew of nothing else */
    cases[2].context = NULL;
    cases[3].device = NULL;
    cases[4].device = &other;
    for (int i = 0; i < 5; i++) {
        vram_context *context = NULL;
        assert_int_equal(create(&cases[i], &context), VRAM_ERR_INVALID);
        assert_null(context);
        assert_non_null(strstr(vram_error_get()->text, "vram_context_options.opencl"));
    }
    /* Who does not use OpenCL does not look at it. */
    const vram_context_options options = {
        .size = sizeof options, .backends = "host", .opencl = &cases[0]};
    vram_context *context;
    assert_ok(vram_context_create(&options, &context));
    vram_context_destroy(context);
}

/* Every handle has the program's context, and leaves it with the references it had. */
static void the_context_is_the_programs(void **state) {
    struct vram_opencl_adoption adoption = adoption_of();
    vram_context *context;
    (void)state;
    assert_ok(create(&adoption, &context));
    assert_int_equal(vram_device_count(context), 1);
    for (int round = 0; round < 3; round++) {
        vram_device *devices[2];
        for (int i = 0; i < 2; i++) {
            vram_queue *queue;
            struct vr_cl_context *found = NULL;
            void *native;
            assert_ok(vram_device_open(context, 0, &devices[i]));
            assert_ok(vram_queue_create(devices[i], NULL, &queue));
            assert_ok(vram_queue_native(queue, &native));
            assert_int_equal(program.api.clGetCommandQueueInfo(native, VR_CL_QUEUE_CONTEXT,
                                                               sizeof found, &found, NULL),
                             0);
            assert_ptr_equal(found, program.context);
        }
        vram_device_close(devices[0]);
        vram_device_close(devices[1]);
    }
    vram_context_destroy(context);
    /* It is still the program's to use. */
    assert_int_equal(program.api.clFinish(program.queue), 0);
}

/* A block of a pool is filled by the library on the program's queue, and read by the program. */
static void memory_is_the_programs_to_use(void **state) {
    struct vram_opencl_adoption adoption = adoption_of();
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr;
    vram_native_info native = {.size = sizeof native};
    vram_device_info info = {.size = sizeof info};
    unsigned char found[4096], expected[sizeof found];
    (void)state;
    memset(expected, 0x5A, sizeof expected);
    assert_ok(create(&adoption, &context));
    assert_ok(vram_device_open(context, 0, &device));
    assert_ok(vram_device_describe(device, &info));
    assert_ok(vram_queue_adopt(device, program.queue, &queue));
    assert_ok(vram_pool_create(device, NULL, &pool));
    assert_ok(vram_alloc(pool, sizeof found, queue, &addr));
    assert_ok(vram_queue_fill(queue, addr, 0x5A, 1, sizeof found));
    if (info.caps & VRAM_CAP_HANDLES) {
        assert_ok(vram_native(addr, &native));
        assert_int_equal(program.api.clEnqueueReadBuffer(
                             program.queue, (struct vr_cl_memory *)(uintptr_t)native.handle, 1,
                             native.offset, sizeof found, found, 0, NULL, NULL),
                         0);
    } else {
        assert_int_equal(program.api.clEnqueueSVMMemcpy(program.queue, 1, found,
                                                        (void *)(uintptr_t)addr, sizeof found, 0,
                                                        NULL, NULL),
                         0);
    }
    assert_memory_equal(found, expected, sizeof found);
    assert_ok(vram_free(pool, addr, queue));
    assert_ok(vram_queue_end(queue));
    vram_context_destroy(context);
}

/* The program lets go of its context first: what is open keeps it. */
static void an_open_device_keeps_the_context(void **state) {
    struct vram_opencl_adoption adoption = adoption_of();
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_addr addr;
    unsigned char byte = 0;
    vr_cl_int code;
    (void)state;
    adoption.context = program.api.clCreateContext(NULL, 1, &program.device, NULL, NULL, &code);
    assert_non_null(adoption.context);
    assert_ok(create(&adoption, &context));
    assert_ok(vram_device_open(context, 0, &device));
    assert_int_equal(program.api.clReleaseContext(adoption.context), 0);
    assert_ok(vram_queue_create(device, NULL, &queue));
    /* The program's other queue is of another context. */
    vram_queue *foreign;
    assert_int_equal(vram_queue_adopt(device, program.queue, &foreign), VRAM_ERR_INVALID);
    assert_ok(vram_device_alloc(device, 4096, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_queue_fill(queue, addr, 7, 1, 4096));
    assert_ok(vram_queue_download(queue, &byte, addr + 4095, 1));
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(byte, 7);
    vram_context_destroy(context);
}

int main(int argc, char **argv) {
    installed = argc > 1 && strcmp(argv[1], "--installed") == 0;
#define TEST(function) cmocka_unit_test_setup_teardown(function, program_start, program_end)
    const struct CMUnitTest tests[] = {
        TEST(bad_adoptions_are_refused),
        TEST(the_context_is_the_programs),
        TEST(memory_is_the_programs_to_use),
        TEST(an_open_device_keeps_the_context),
    };
    return cmocka_run_group_tests_name("opencl_adopt", tests, NULL, NULL);
}
