/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_opencl_adopt.c: a program's own context, queue and buffers, used by libvram through the
 * public API, and memory of libvram used in the program's own commands. Over the tests' driver;
 * with --installed over whatever OpenCL the machine has.
 */
#include "opencl/opencl_entries.h"
#include "unit/wrapped_world.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

static bool installed;

/* What the program has of OpenCL. */
static struct {
    struct vr_opencl_api api;
    struct vr_cl_device *device;
    struct vr_cl_context *context;
    struct vr_cl_queue *queue;
} program;

static int program_start(void) {
    struct vr_cl_platform *platform = NULL;
    vr_cl_uint count = 0;
    vr_cl_int code;
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

static int program_end(void) {
    program.api.clReleaseCommandQueue(program.queue);
    program.api.clReleaseContext(program.context);
    options_reset();
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

TEST(bad_adoptions_are_refused) {
    struct vram_opencl_adoption cases[5];
    int other;
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
TEST(the_context_is_the_programs) {
    struct vram_opencl_adoption adoption = adoption_of();
    vram_context *context;
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
TEST(memory_is_the_programs_to_use) {
    struct vram_opencl_adoption adoption = adoption_of();
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr;
    vram_native_info native = {.size = sizeof native};
    vram_device_info info = {.size = sizeof info};
    unsigned char found[4096], expected[sizeof found];
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
    assert_ok(vram_free(addr, queue));
    assert_ok(vram_queue_end(queue));
    vram_context_destroy(context);
}

/* The program lets go of its context first: what is open keeps it. */
TEST(an_open_device_keeps_the_context) {
    struct vram_opencl_adoption adoption = adoption_of();
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_addr addr;
    unsigned char byte = 0;
    vr_cl_int code;
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

/* --------------------------------------------------- buffers of the program's */

static struct vr_cl_memory *object_in(struct vr_cl_context *context, size_t bytes) {
    vr_cl_int code = -1;
    struct vr_cl_memory *object =
        program.api.clCreateBuffer(context, VR_CL_MEM_READ_WRITE, bytes, NULL, &code);
    assert_int_equal(code, 0);
    return object;
}

static int64_t live_objects(void) {
    return 0; /* each object counts its references */
}

static vram_status create_adopted(vram_context **context) {
    struct vram_opencl_adoption adoption = adoption_of();
    return create(&adoption, context);
}

static void object_new(struct rig *rig) {
    static unsigned char bytes[OBJECT];
    rig->object = object_in(program.context, OBJECT);
    memset(bytes, 0x11, sizeof bytes);
    assert_int_equal(program.api.clEnqueueWriteBuffer(program.queue, rig->object, 1, 0, OBJECT,
                                                      bytes, 0, NULL, NULL),
                     0);
}

static void object_read(const struct rig *rig, unsigned char *bytes) {
    assert_int_equal(program.api.clEnqueueReadBuffer(program.queue, rig->object, 1, 0, OBJECT,
                                                     bytes, 0, NULL, NULL),
                     0);
}

/* A driver keeps what a command used until after it has said that the command is done, so its own
   references may still be there for a moment. */
static void expect_references(const struct rig *rig, unsigned expected) {
    vr_cl_uint count = 0;
    for (int tries = 0; tries < 10000; tries++) {
        assert_int_equal(program.api.clGetMemObjectInfo(rig->object, VR_CL_MEM_REFERENCES,
                                                        sizeof count, &count, NULL),
                         0);
        if (count == expected) {
            return;
        }
        usleep(1000);
    }
    assert_int_equal(count, expected);
}

static void rig_end(struct rig *rig) {
    vram_context_destroy(rig->context);
    expect_references(rig, 1); /* whatever was wrapped is let go of, and not more */
    assert_int_equal(program.api.clReleaseMemObject(rig->object), 0);
}

/* In both ways that memory can be had, with the tests' driver; as the environment says, with
   another. */
static void in_both_ways(void (*test)(void)) {
    static const char *const ways[] = {"buffer", "svm"};
    for (int i = 0; i < (installed ? 1 : 2); i++) {
        if (!installed) {
            assert_ok(vram_option_set("opencl_memory", ways[i]));
        }
        test();
    }
}

TEST(objects_are_copied_and_mapped) {
    in_both_ways(wrapped_part_is_used);
}

/* A kernel gets the object itself, and so only from its first byte on. */
static void launches(void) {
    static const char code[] =
        "__kernel void store(__global ulong *cells, ulong index, ulong value) "
        "{ cells[index] = value; }";
    struct rig rig = rig_make();
    vram_buffer *whole = wrapped(&rig, 0, OBJECT), *part = wrapped(&rig, 8, 800);
    uint64_t index = 3, value = 77, found = 0;
    vram_kernel *kernel;
    vram_addr addr;
    const void *arguments[] = {&addr, &index, &value};
    const size_t bytes[] = {8, 8, 8};
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 3,
                          .arguments = arguments,
                          .argument_bytes = bytes,
                          .address_mask = 1};
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_OPENCL_C,
                                       .code = code,
                                       .code_bytes = sizeof code - 1,
                                       .entry = "store"};
    assert_ok(vram_kernel_create(rig.device, &source, &kernel));
    assert_ok(vram_buffer_addr(whole, &addr));
    assert_ok(vram_queue_launch(rig.queue, kernel, &launch));
    assert_ok(vram_queue_download(rig.queue, &found, addr + 8 * index, 8));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(found, value);
    assert_ok(vram_buffer_addr(part, &addr));
    assert_int_equal(vram_queue_launch(rig.queue, kernel, &launch), VRAM_ERR_INVALID);
    vram_kernel_destroy(kernel);
    rig_end(&rig); /* with both buffers */
}

TEST(kernels_get_the_object) {
    in_both_ways(launches);
}

/* A program that lets go of its buffer too early loses nothing. */
TEST(a_wrapped_object_is_kept) {
    struct rig rig = rig_make();
    vram_buffer *buffer = wrapped(&rig, OFFSET, PART);
    vram_addr addr;
    assert_int_equal(program.api.clReleaseMemObject(rig.object), 0);
    expect_references(&rig, 1);
    assert_ok(vram_buffer_addr(buffer, &addr));
    assert_ok(vram_queue_fill(rig.queue, addr, 0x66, 1, PART));
    expect_part(&rig, 0x66);
    assert_int_equal(program.api.clRetainMemObject(rig.object), 0);
    assert_ok(vram_buffer_destroy(buffer));
    rig_end(&rig);
}

/* Whatever ends before the buffer does, the object is let go of once, and the buffer may still be
   destroyed. */
static void what_ends_first(void) {
    for (int first = 0; first < 4; first++) {
        struct rig rig = rig_make();
        vram_buffer *buffer = wrapped(&rig, OFFSET, PART);
        vram_addr addr;
        assert_ok(vram_buffer_addr(buffer, &addr));
        assert_ok(vram_queue_fill(rig.queue, addr, 0x77, 1, PART));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT)); /* commands keep it, too */
        if (first == 0) {
            vram_queue_destroy(rig.queue);
        } else if (first == 1) {
            (void)vram_pool_destroy(rig.pool);
        } else if (first == 2) {
            vram_device_close(rig.device);
        } else {
            vram_context_destroy(rig.context);
            expect_references(&rig, 1);
        }
        (void)vram_buffer_destroy(buffer);
        expect_references(&rig, 1);
        if (first == 3) {
            assert_int_equal(program.api.clReleaseMemObject(rig.object), 0);
        } else {
            rig_end(&rig);
        }
    }
}

TEST(a_wrapped_object_may_end_last) {
    in_both_ways(what_ends_first);
}

TEST(objects_that_will_not_do) {
    vr_cl_int code;
    struct rig rig = rig_make(), other = rig, none = rig;
    struct vr_cl_context *elsewhere =
        program.api.clCreateContext(NULL, 1, &program.device, NULL, NULL, &code);
    other.object = object_in(elsewhere, OBJECT);
    none.object = NULL;
    const vram_wrap cases[] = {
        wrap_of(&rig, 0, OBJECT + 1), wrap_of(&rig, 1, OBJECT), wrap_of(&rig, UINT64_MAX, 2),
        wrap_of(&rig, 0, UINT64_MAX), wrap_of(&none, 0, 100),   wrap_of(&rig, 0, 0),
        wrap_of(&other, 0, 100),
    };
    refuse_wraps(&rig, cases, sizeof cases / sizeof cases[0]);
    assert_non_null(strstr(vram_error_get()->text, "another context"));
    program.api.clReleaseMemObject(other.object);
    program.api.clReleaseContext(elsewhere);
    rig_end(&rig);
}

static int begin_file(void) {
    installed = rig_word(1) && strcmp(rig_word(1), "--installed") == 0;
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(program_start, program_end)
