/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_layer_opencl.c: the OpenCL layer in front of the tests' driver. The test is the loader: it
 * hands the layer a table of the driver's functions and calls what it gets back.
 */
#include "unit/child.h"

#include "unit/layer_opencl_world.h"
#include "unit/watched_world.h"

#include <pthread.h>

vr_cl_int clGetLayerInfo(vr_cl_uint what, size_t bytes, void *value, size_t *needed);
vr_cl_int clInitLayer(vr_cl_uint count, void *const *target, vr_cl_uint *own_count,
                      void *const **own);

static struct vr_cl_context *context_make(struct vr_cl_device *of) {
    vr_cl_int code = -1;
    struct vr_cl_context *made = cl.clCreateContext(NULL, 1, &of, NULL, NULL, &code);
    assert_non_null(made);
    assert_int_equal(code, VR_CL_SUCCESS);
    return made;
}

static struct vr_cl_device *device_at(int platform, int at) {
    struct vr_cl_platform *platforms[2];
    struct vr_cl_device *devices[2];
    vr_cl_uint count;
    assert_int_equal(cl.clGetPlatformIDs(2, platforms, &count), VR_CL_SUCCESS);
    assert_int_equal(
        cl.clGetDeviceIDs(platforms[platform], VR_CL_DEVICE_TYPE_ALL, 2, devices, &count),
        VR_CL_SUCCESS);
    return devices[at];
}

static struct watched now(void) {
    return watched_of(RUN_OPENCL, 0);
}

static struct vr_cl_memory *buffer(size_t bytes) {
    vr_cl_int code = -1;
    struct vr_cl_memory *memory = cl.clCreateBuffer(context, 0, bytes, NULL, &code);
    assert_non_null(memory);
    assert_int_equal(code, VR_CL_SUCCESS);
    return memory;
}

static void give(struct vr_cl_memory *memory) {
    assert_int_equal(cl.clReleaseMemObject(memory), VR_CL_SUCCESS);
}

/* --------------------------------------------------------------------- tests */

static int load_without_page(void *argument) {
    vr_cl_uint count = 0;
    void *const *own = NULL;
    (void)argument;
    unsetenv(RUN_PAGE_VARIABLE);
    if (clInitLayer(LAYER_CL_PLACES, driver_table, &count, &own) || !own) {
        return 1;
    }
    for (vr_cl_uint i = 0; i < count; i++) {
        if (own[i]) {
            return 2;
        }
    }
    return 0;
}

static int watch(void);

/* First: the recorder looks for its page once in a process. */
TEST(without_vram_run_nothing_is_replaced) {
    assert_int_equal(in_child(load_without_page, NULL), 0);
}

TEST_IN(watch, NULL, the_loader_learns_the_version_and_the_name) {
    vr_cl_uint version = 0;
    size_t bytes = 0;
    char name[64];
    assert_int_equal(clGetLayerInfo(LAYER_CL_API_VERSION, sizeof version, &version, &bytes), 0);
    assert_int_equal(version, 100);
    assert_int_equal(bytes, sizeof version);
    assert_int_equal(clGetLayerInfo(LAYER_CL_NAME, 0, NULL, &bytes), 0);
    assert_int_equal(clGetLayerInfo(LAYER_CL_NAME, bytes - 1, name, NULL), VR_CL_INVALID_VALUE);
    assert_int_equal(clGetLayerInfo(LAYER_CL_NAME, sizeof name, name, NULL), 0);
    assert_int_equal(strlen(name) + 1, bytes);
    assert_int_equal(clGetLayerInfo(0, sizeof name, name, NULL), VR_CL_INVALID_VALUE);
}

TEST(a_bad_table_is_refused) {
    vr_cl_uint count = 0;
    void *const *own = NULL, *nothing[LAYER_CL_PLACES] = {NULL};
    assert_int_equal(clInitLayer(LAYER_CL_PLACES, NULL, &count, &own), VR_CL_INVALID_VALUE);
    assert_int_equal(clInitLayer(0, driver_table, NULL, &own), VR_CL_INVALID_VALUE);
    assert_int_equal(clInitLayer(0, driver_table, &count, NULL), VR_CL_INVALID_VALUE);
    assert_int_equal(clInitLayer(LAYER_CL_PLACES, nothing, &count, &own), VR_CL_SUCCESS);
    assert_null(own[place_of("clCreateBuffer")]);
    assert_int_equal(clInitLayer(10, driver_table, &count, &own), VR_CL_SUCCESS);
    assert_null(own[place_of("clCreateBuffer")]);
}

TEST(an_old_loader_keeps_what_it_lacks) {
    may_leave("tables of vram run stay");
    vr_cl_uint count = 0;
    void *const *own = NULL;
    assert_int_equal(clInitLayer(83, driver_table, &count, &own), VR_CL_SUCCESS); /* OpenCL 1.1 */
    assert_non_null(own[place_of("clCreateSubBuffer")]);
    assert_null(own[place_of("clCreateImage")]);
    assert_null(own[place_of("clSVMAlloc")]);
}

TEST(a_layer_that_is_listed_twice_counts_once) {
    may_leave("tables of vram run stay");
    vr_cl_uint count = 0;
    void *const *own = NULL, *const *again = NULL, *table[LAYER_CL_PLACES];
    assert_int_equal(clInitLayer(LAYER_CL_PLACES, driver_table, &count, &own), VR_CL_SUCCESS);
    for (int i = 0; i < LAYER_CL_PLACES; i++) {
        table[i] = own[i] ? own[i] : driver_table[i];
    }
    assert_int_equal(clInitLayer(LAYER_CL_PLACES, table, &count, &again), VR_CL_SUCCESS);
    assert_null(again[place_of("clCreateBuffer")]);
    table_read(&cl, own);
    device = device_at(0, 0);
    context = context_make(device);
}

TEST(a_buffer_lives_until_its_last_reference) {
    may_leave("tables of vram run stay");
    struct watched before = now();
    struct vr_cl_memory *memory = buffer(MIB);
    assert_int_equal(now().live[RUN_DEVICE], before.live[RUN_DEVICE] + MIB);
    assert_int_equal(now().allocs, before.allocs + 1);
    assert_int_equal(cl.clRetainMemObject(memory), VR_CL_SUCCESS);
    give(memory);
    assert_int_equal(now().frees, before.frees);
    give(memory);
    assert_int_equal(now().frees, before.frees + 1);
    assert_int_equal(now().live[RUN_DEVICE], before.live[RUN_DEVICE]);
    assert_int_equal(now().strangers, before.strangers);
}

TEST(a_program_may_not_ask_for_the_code) {
    struct watched before = now();
    struct vr_cl_memory *memory = cl.clCreateBuffer(context, 0, KIB, NULL, NULL);
    assert_non_null(memory);
    assert_null(cl.clCreateBuffer(context, 0, 0, NULL, NULL)); /* of no bytes */
    assert_int_equal(now().allocs, before.allocs + 1);
    give(memory);
    assert_int_equal(now().counted, before.counted);
}

TEST(parts_keep_their_buffer) {
    struct vr_cl_region region = {0, 8192};
    struct layer_cl_image_desc desc = {.type = 0x10F1};
    struct watched before = now();
    vr_cl_int code = -1;
    struct vr_cl_memory *memory = buffer(MIB);
    struct vr_cl_memory *part =
        cl.clCreateSubBuffer(memory, 0, VR_CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    assert_non_null(part);
    desc.parent = memory;
    struct vr_cl_memory *image = cl.clCreateImage(context, 0, NULL, &desc, NULL, &code);
    assert_non_null(image);
    assert_int_equal(now().allocs, before.allocs + 1);
    give(memory);
    give(part);
    assert_int_equal(now().frees, before.frees);
    give(image);
    assert_int_equal(now().frees, before.frees + 1);
    assert_int_equal(now().counted, before.counted);
    assert_int_equal(now().strangers, before.strangers);
}

TEST(images_and_pipes_are_as_large_as_the_driver_says) {
    struct layer_cl_image_desc desc = {.type = 0x10F1};
    struct watched before = now();
    vr_cl_int code = -1;
    struct vr_cl_memory *image = cl.clCreateImage(context, 0, NULL, &desc, NULL, NULL);
    struct vr_cl_memory *older = cl.clCreateImage2D(context, 0, NULL, 64, 64, 0, NULL, &code);
    struct vr_cl_memory *pipe = cl.clCreatePipe(context, 0, 16, 256, NULL, &code);
    assert_int_equal(now().live[RUN_ARRAY], before.live[RUN_ARRAY] + image_bytes + 4096);
    assert_int_equal(now().live[RUN_DEVICE], before.live[RUN_DEVICE] + 4096);
    watched_limit(now().counted + image_bytes - 1);
    assert_null(cl.clCreateImage(context, 0, NULL, &desc, NULL, &code));
    assert_int_equal(code, VR_CL_MEM_OBJECT_ALLOCATION_FAILURE);
    watched_limit(0);
    give(pipe);
    give(image);
    give(older);
    assert_int_equal(now().counted, before.counted);
    assert_int_equal(now().limit_refusals, before.limit_refusals + 1);
}

TEST(memory_of_the_host_and_of_others_is_told_apart) {
    const vr_cl_bits imports[] = {0x2060, 7, 0}, plain[] = {0x7777, 1, 0};
    static char bytes[4096];
    struct watched before = now();
    vr_cl_int code = -1;
    struct vr_cl_memory *memory[4];
    watched_limit(1); /* of none of the device's memory */
    memory[0] = cl.clCreateBuffer(context, VR_CL_MEM_ALLOC_HOST_PTR, 4096, NULL, &code);
    memory[1] = cl.clCreateBuffer(context, LAYER_CL_MEM_USE_HOST_PTR, 4096, bytes, &code);
    memory[2] = cl.clCreateBufferWithProperties(context, imports, 0, 4096, NULL, &code);
    assert_null(cl.clCreateBufferWithProperties(context, plain, 0, 4096, NULL, &code));
    watched_limit(0);
    memory[3] = cl.clCreateBufferWithProperties(context, plain, 0, 4096, NULL, &code);
    assert_int_equal(now().live[RUN_PINNED], before.live[RUN_PINNED] + 4096);
    assert_int_equal(now().live[RUN_REGISTERED], before.live[RUN_REGISTERED] + 4096);
    assert_int_equal(now().live[RUN_IMPORTED], before.live[RUN_IMPORTED] + 4096);
    assert_int_equal(now().counted, before.counted + 4096);
    for (int i = 0; i < 4; i++) {
        give(memory[i]);
    }
    assert_int_equal(now().frees, before.frees + 4);
}

TEST(a_refused_release_leaves_the_buffer) {
    struct watched before = now();
    struct vr_cl_memory *memory = buffer(MIB);
    plan->refuse("clReleaseMemObject", 1, VR_CL_OUT_OF_RESOURCES, false);
    assert_int_equal(cl.clReleaseMemObject(memory), VR_CL_OUT_OF_RESOURCES);
    assert_int_equal(now().counted, before.counted + MIB);
    cl.clRetainMemObject(memory);
    plan->refuse("clReleaseMemObject", 1, VR_CL_OUT_OF_RESOURCES, false);
    assert_int_equal(cl.clReleaseMemObject(memory), VR_CL_OUT_OF_RESOURCES);
    plan->refuse(NULL, 0, 0, false);
    give(memory);
    assert_int_equal(now().counted, before.counted + MIB);
    give(memory);
    assert_int_equal(now().counted, before.counted);
}

TEST(a_driver_that_is_out_of_memory_is_noted) {
    struct watched before = now();
    vr_cl_int code = 0;
    plan->refuse("clCreateBuffer", 1, VR_CL_MEM_OBJECT_ALLOCATION_FAILURE, false);
    assert_null(cl.clCreateBuffer(context, 0, MIB, NULL, &code));
    plan->refuse("clCreateBuffer", 1, VR_CL_INVALID_VALUE, false);
    assert_null(cl.clCreateBuffer(context, 0, MIB, NULL, &code));
    plan->refuse(NULL, 0, 0, false);
    assert_int_equal(now().refusals, before.refusals + 1);
    assert_int_equal(now().counted, before.counted);
}

/* ---------------------------------------------------------------- pointers */

static void free_them(struct vr_cl_queue *queue, vr_cl_uint count, void **pointers, void *user) {
    (void)queue, (void)user;
    for (vr_cl_uint i = 0; i < count; i++) {
        cl.clSVMFree(context, pointers[i]);
    }
}

TEST(shared_virtual_memory_is_freed_in_three_ways) {
    struct watched before = now();
    void *pointers[40];
    for (int i = 0; i < 40; i++) {
        assert_non_null(pointers[i] = cl.clSVMAlloc(context, 0, 4096, 0));
    }
    assert_int_equal(now().live[RUN_MANAGED], before.live[RUN_MANAGED] + 40 * 4096);
    cl.clSVMFree(context, NULL);
    cl.clSVMFree(context, pointers[39]);
    enqueue_free_code = VR_CL_INVALID_COMMAND_QUEUE;
    cl.clEnqueueSVMFree(NULL, 30, pointers, NULL, NULL, 0, NULL, NULL);
    assert_int_equal(now().live[RUN_MANAGED], before.live[RUN_MANAGED] + 39 * 4096);
    enqueue_free_code = 0;
    cl.clEnqueueSVMFree(NULL, 2, pointers, free_them, NULL, 0, NULL, NULL);
    cl.clEnqueueSVMFree(NULL, 28, pointers + 2, NULL, NULL, 0, NULL, NULL);
    cl.clEnqueueSVMFree(NULL, 9, pointers + 30, NULL, NULL, 0, NULL, NULL);
    cl.clEnqueueSVMFree(NULL, 0, NULL, NULL, NULL, 0, NULL, NULL);
    assert_int_equal(now().live[RUN_MANAGED], before.live[RUN_MANAGED]);
    assert_int_equal(now().strangers, before.strangers);
    watched_limit(now().counted + 1);
    assert_null(cl.clSVMAlloc(context, 0, 4096, 0));
    watched_limit(0);
}

TEST(unified_shared_memory_is_found_by_name) {
    void *(*alloc)(struct vr_cl_context *, struct vr_cl_device *, const vr_cl_bits *, size_t,
                   vr_cl_uint, vr_cl_int *);
    void *(*shared)(struct vr_cl_context *, struct vr_cl_device *, const vr_cl_bits *, size_t,
                    vr_cl_uint, vr_cl_int *);
    vr_cl_int (*release)(struct vr_cl_context *, void *);
    struct watched before = now();
    vr_cl_int code = -1;
    void *own = cl.clGetExtensionFunctionAddress("clDeviceMemAllocINTEL");
    assert_true(own != get_any("clDeviceMemAllocINTEL"));
    function_set(&alloc, own);
    function_set(&shared,
                 cl.clGetExtensionFunctionAddressForPlatform(NULL, "clSharedMemAllocINTEL"));
    function_set(&release, cl.clGetExtensionFunctionAddressForPlatform(NULL, "clMemFreeINTEL"));
    assert_ptr_equal(cl.clGetExtensionFunctionAddress("clEnqueueMemcpyINTEL"),
                     get_any("clEnqueueMemcpyINTEL"));
    assert_null(cl.clGetExtensionFunctionAddress("clHostMemAllocINTEL")); /* the driver has none */
    void *first = alloc(context, device, NULL, 4096, 0, &code);
    void *second = shared(context, NULL, NULL, 8192, 0, NULL);
    assert_true(first && second);
    assert_int_equal(now().live[RUN_DEVICE], before.live[RUN_DEVICE] + 4096);
    assert_int_equal(now().live[RUN_MANAGED], before.live[RUN_MANAGED] + 8192);
    watched_limit(now().counted + 4095);
    assert_null(alloc(context, device, NULL, 4096, 0, &code));
    assert_int_equal(code, VR_CL_OUT_OF_RESOURCES);
    watched_limit(0);
    assert_int_equal(release(context, first), VR_CL_SUCCESS);
    assert_int_equal(release(context, second), VR_CL_SUCCESS);
    assert_int_equal(now().counted, before.counted);
    assert_null(alloc(NULL, device, NULL, 4096, 0, &code));
    assert_int_equal(code, VR_CL_INVALID_CONTEXT);
    assert_int_equal(release(NULL, first), VR_CL_INVALID_CONTEXT);
}

/* ------------------------------------------------------------------- limits */

TEST(a_limit_makes_the_device_look_smaller) {
    uint64_t total = 0, largest = 0;
    size_t free_kib[2], needed = 0;
    vr_cl_int code = 0;
    char name[64];
    watched_limit(now().counted + 100 * MIB);
    struct vr_cl_memory *memory = buffer(60 * MIB);
    cl.clGetDeviceInfo(device, VR_CL_DEVICE_GLOBAL_MEM_SIZE, 8, &total, &needed);
    cl.clGetDeviceInfo(device, VR_CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8, &largest, NULL);
    assert_int_equal(total, watched_page->settings.limit_bytes);
    assert_int_equal(largest, watched_page->settings.limit_bytes);
    assert_int_equal(needed, 8);
    cl.clGetDeviceInfo(device, LAYER_CL_DEVICE_FREE_MEMORY_AMD, sizeof free_kib, free_kib, NULL);
    assert_int_equal(free_kib[0], 40 * 1024);
    assert_int_equal(free_kib[1], 40 * 1024);
    assert_int_equal(cl.clGetDeviceInfo(device, VR_CL_DEVICE_NAME, sizeof name, name, NULL), 0);
    assert_int_equal(cl.clGetDeviceInfo(device, VR_CL_DEVICE_GLOBAL_MEM_SIZE, 0, NULL, &needed), 0);
    uint64_t calls = plan->calls("clCreateBuffer");
    assert_null(cl.clCreateBuffer(context, 0, 41 * MIB, NULL, &code));
    assert_int_equal(code, VR_CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(plan->calls("clCreateBuffer"), calls); /* the driver was not asked */
    assert_null(cl.clCreateBuffer(context, 0, SIZE_MAX, NULL, NULL));
    give(memory);
    memory = buffer(100 * MIB);
    give(memory);
    watched_limit(0);
    cl.clGetDeviceInfo(device, VR_CL_DEVICE_GLOBAL_MEM_SIZE, 8, &total, NULL);
    assert_int_equal(total, UINT64_C(1024) * MIB);
}

TEST(devices_are_numbered_as_the_loader_lists_them) {
    vr_cl_int code = -1;
    struct vr_cl_context *other = context_make(device_at(1, 1));
    struct vr_cl_memory *memory = cl.clCreateBuffer(other, 0, MIB, NULL, &code);
    assert_int_equal(watched_of(RUN_OPENCL, 3).live[RUN_DEVICE], MIB);
    give(memory);
    assert_int_equal(watched_of(RUN_OPENCL, 3).live[RUN_DEVICE], 0);
    context_release(other);
}

/* ------------------------------------------------------------------- threads */

enum { THREADS = 4, ROUNDS = 400, HELD = 8 };

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    struct vr_cl_memory *held[HELD] = {NULL};
    struct vr_cl_region region = {0, 4096};
    vr_cl_int code;
    for (int i = 0; i < ROUNDS; i++) {
        int at = rand_r(&seed) % HELD;
        int with = rand_r(&seed) % HELD;
        if (held[at] && rand_r(&seed) % 3 == 0) {
            cl.clRetainMemObject(held[at]);
            cl.clReleaseMemObject(held[at]);
        } else if (held[at]) {
            cl.clReleaseMemObject(held[at]);
            held[at] = NULL;
        } else if (held[with] && rand_r(&seed) % 2) {
            held[at] = cl.clCreateSubBuffer(held[with], 0, VR_CL_BUFFER_CREATE_TYPE_REGION, &region,
                                            &code); /* NULL for a part of a part */
        } else {
            held[at] = cl.clCreateBuffer(context, 0, 16384, NULL, &code);
        }
    }
    for (int i = 0; i < HELD; i++) {
        if (held[i]) {
            cl.clReleaseMemObject(held[i]);
        }
    }
    return NULL;
}

TEST(threads_leave_nothing) {
    pthread_t threads[THREADS];
    struct watched before = now();
    uint64_t live = fake->live();
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(now().counted, before.counted);
    assert_int_equal(now().strangers, before.strangers);
    assert_int_equal(now().allocs - before.allocs, now().frees - before.frees);
    assert_int_equal(fake->live(), live);
}

/* Without memory for its records the layer stays out of the program's way. */
TEST(the_program_does_not_notice_a_lack_of_host_memory) {
    may_leave("tables of vram run stay");
    uint64_t live = fake->live();
    struct vr_cl_memory *memory[200];
    for (uint64_t nth = 1; nth < 4; nth++) {
        memory_fails(nth, true);
        struct vr_cl_context *other = context_make(device_at(0, 1));
        for (int i = 0; i < 200; i++) {
            vr_cl_int code = -1;
            assert_non_null(memory[i] = cl.clCreateBuffer(other, 0, 4096, NULL, &code));
        }
        for (int i = 0; i < 200; i++) {
            give(memory[i]);
        }
        context_release(other);
        memory_fails(0, false);
    }
    assert_int_equal(fake->live(), live);
}

static int load(void) {
    driver_load();
    return 0;
}

static int watch(void) {
    watched_begin();
    return 0;
}

WHOLE_FILE(load, NULL)
