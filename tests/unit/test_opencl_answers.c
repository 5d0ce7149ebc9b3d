/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_opencl_answers.c: what drivers other than the usual answer about the program's objects, and
 * calls that fail where a queue or a sweep of sub-buffers goes on without them.
 */
#include "unit/opencl_world.h"
#include "unit/record_fault.h"
#include "vram/buffer.h"

#include <errno.h>

static const struct vr_opencl *opencl_of(const struct world *world) {
    return world->backend.impl;
}

static vram_status native(struct world *world, vram_addr addr, uint64_t bytes,
                          struct vr_native *found) {
    return world->device.handles->native(&world->device, addr, bytes, found);
}

static void *handle_of(struct world *world, vram_addr addr, uint64_t bytes) {
    struct vr_native found = {.handle = NULL};
    assert_int_equal(native(world, addr, bytes, &found), VRAM_OK);
    return found.handle;
}

/* --------------------------------------------------------------- sub-buffers */

/* Of blocks that lie in each other's place, the sweep keeps the newer, wherever it begins. */
TEST(a_block_behind_which_others_were_made_goes) {
    struct world world;
    begin(&world, "buffer");
    vram_addr addr = take_memory(&world.device, 16 * GRANULE);
    (void)handle_of(&world, addr, 64 * VR_KIB);
    for (uint64_t at = 512; at < 64 * VR_KIB; at += 512) {
        (void)handle_of(&world, addr + at, 512);
    }
    void *small = handle_of(&world, addr + 512, 512);
    plan->refuse(NULL, 0, 0, false);
    assert_ptr_equal(handle_of(&world, addr + 512, 512), small);
    assert_int_equal(plan->calls("clCreateSubBuffer"), 0);
    (void)handle_of(&world, addr, 64 * VR_KIB); /* which was swept */
    assert_int_equal(plan->calls("clCreateSubBuffer"), 1);
    give_memory(&world.device, addr, 16 * GRANULE);
    end(&world);
}

/* Without memory for a sweep the sub-buffers stay. */
TEST(a_sweep_may_be_left_out) {
    struct world world;
    begin(&world, "buffer");
    vram_addr addr = take_memory(&world.device, 16 * GRANULE);
    void *large = handle_of(&world, addr, 64 * VR_KIB);
    vr_mem_fail_at(1, true);
    for (uint64_t at = 512; at < 64 * VR_KIB; at += 512) {
        (void)handle_of(&world, addr + at, 512);
    }
    assert_true(vr_mem_failed() > 0);
    vr_mem_fail_at(0, false);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_ptr_equal(handle_of(&world, addr, 64 * VR_KIB), large);
    give_memory(&world.device, addr, 16 * GRANULE);
    end(&world);
}

/* ------------------------------------------------------------------ starting */

TEST(names_of_extensions_are_whole_words) {
    static const struct {
        const char *text;
        bool known;
    } cases[] = {{"cl_khr_priority_hints2 xcl_khr_priority_hints", false},
                 {"cl_khr_priority_hints", true},
                 {"cl_khr_icd cl_khr_priority_hints", true},
                 {"cl_khr_priority_hints2 cl_khr_priority_hints cl_khr_icd", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        fake->settings->extensions = cases[i].text;
        begin(&world, "svm");
        assert_int_equal(opencl_of(&world)->physicals[0].priorities, cases[i].known);
        end(&world);
    }
}

TEST(adopted_devices_are_of_their_context) {
    struct vr_backend backend = {.ops = &vr_opencl_backend};
    struct world world;
    vr_cl_int code = -1;
    fake->settings->devices = 2;
    begin(&world, "svm");
    const struct vr_opencl *opencl = opencl_of(&world);
    struct {
        struct vram_opencl_adoption known;
        unsigned char later;
    } adoption = {.known = {.size = sizeof adoption.known, .device = opencl->physicals[0].id}};
    const struct vram_context_options options = {.size = sizeof options, .opencl = &adoption.known};
    adoption.known.context =
        opencl->api.clCreateContext(NULL, 1, &opencl->physicals[0].id, NULL, NULL, &code);
    assert_int_equal(code, VR_CL_SUCCESS);
    assert_int_equal(backend.ops->start(&backend, &options), VRAM_OK);
    backend.ops->stop(&backend);
    adoption.known.device = opencl->physicals[1].id;
    assert_int_equal(backend.ops->start(&backend, &options), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "none of the context's"));
    adoption.known.size = 1 << 20;
    assert_int_equal(backend.ops->start(&backend, &options), VRAM_ERR_INVALID);
    adoption.known.size = sizeof adoption;
    adoption.later = 1;
    assert_int_equal(backend.ops->start(&backend, &options), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "does not know"));
    assert_int_equal(opencl->api.clReleaseContext(adoption.known.context), VR_CL_SUCCESS);
    end(&world);
}

/* ------------------------------------------------------------------- kernels */

#define TEXT "__kernel void store() {}"

static vram_status load(struct world *world, const char *text, void **kernel) {
    const struct vram_kernel_source source = {.size = sizeof source,
                                              .format = VRAM_KERNEL_OPENCL_C,
                                              .code = text,
                                              .code_bytes = strlen(text),
                                              .entry = "store"};
    return world->device.kernel->load(&world->device, &source, kernel);
}

/* (cells, index, value); `place` is an address of `bytes`, or a struct vr_native. */
static vram_status store(struct vr_queue *queue, void *kernel, const void *place, size_t bytes,
                         uint32_t mask) {
    static const uint32_t index = 1;
    static const uint64_t value = 77;
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

TEST(arguments_are_looked_at) {
    struct world world, elsewhere;
    struct vr_queue queue;
    struct vr_native found;
    void *kernel;
    begin(&elsewhere, "buffer");
    vram_addr foreign = take_memory(&elsewhere.device, GRANULE);
    begin(&world, "svm");
    make_queue(&world.device, &queue);
    vram_addr addr = take_memory(&world.device, GRANULE);
    assert_int_equal(load(&world, TEXT, &kernel), VRAM_OK);
    assert_int_equal(store(&queue, kernel, &addr, 4, 1), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "8 bytes"));
    assert_int_equal(store(&queue, kernel, &addr, 8, 5), VRAM_OK); /* a value may be an address */
    settle(&queue);
    plan->refuse("clEnqueueNDRangeKernel", 1, VR_CL_OUT_OF_RESOURCES, false);
    assert_int_not_equal(store(&queue, kernel, &foreign, 8, 1),
                         VRAM_OK); /* the driver's to judge */
    assert_int_equal(plan->struck(), 1);
    world.device.kernel->unload(&world.device, kernel);
    give_memory(&world.device, addr, GRANULE);
    end_queue(&queue);

    make_queue(&elsewhere.device, &queue);
    assert_int_equal(load(&elsewhere, TEXT, &kernel), VRAM_OK);
    assert_int_equal(native(&elsewhere, foreign, 512, &found), VRAM_OK);
    assert_int_equal(store(&queue, kernel, &found, sizeof found, 3), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "is no pointer"));
    elsewhere.device.kernel->unload(&elsewhere.device, kernel);
    end_queue(&queue);
    give_memory(&elsewhere.device, foreign, GRANULE);
    world.device.ops->close(&world.device);
    world.backend.ops->stop(&world.backend);
    end(&elsewhere);
}

TEST(drivers_that_say_little_of_kernels) {
    struct world world;
    struct vr_queue queue;
    void *kernel = NULL;
    begin(&world, "svm");
    make_queue(&world.device, &queue);
    plan->refuse("clGetProgramBuildInfo", 1, VR_CL_SUCCESS, false); /* nothing to tell */
    assert_int_equal(load(&world, "#error", &kernel), VRAM_ERR_INVALID);
    assert_opencl_error(VRAM_ERR_INVALID, "clBuildProgram", VR_CL_BUILD_PROGRAM_FAILURE);
    plan->refuse("clGetKernelArgInfo", 1, VR_CL_SUCCESS, true); /* of no kind that there is */
    assert_int_equal(load(&world, TEXT, &kernel), VRAM_OK);
    assert_int_equal(plan->struck(), 3);
    plan->refuse(NULL, 0, 0, false);
    vram_addr addr = take_memory(&world.device, GRANULE);
    assert_int_equal(store(&queue, kernel, &addr, 8, 1), VRAM_OK);
    settle(&queue);
    assert_int_equal(((const uint64_t *)(uintptr_t)addr)[1], 77);
    world.device.kernel->unload(&world.device, kernel);
    give_memory(&world.device, addr, GRANULE);
    end_queue(&queue);
    end(&world);
}

/* -------------------------------------------------------------------- queues */

static void release(const struct world *world, struct vr_cl_queue *queue) {
    assert_int_equal(opencl_of(world)->api.clReleaseCommandQueue(queue), VR_CL_SUCCESS);
}

/* Without its barrier nothing is submitted to a queue that is not in order. */
TEST(kernels_and_hints_need_their_barrier) {
    struct world world;
    struct vr_queue own, queue;
    void *kernel;
    begin(&world, "svm");
    make_queue(&world.device, &own);
    struct vr_cl_queue *unordered = fake->queue_new(own.native, true, false);
    assert_int_equal(adopt(&world.device, unordered, &queue), VRAM_OK);
    vram_addr addr = take_memory(&world.device, GRANULE);
    assert_int_equal(load(&world, TEXT, &kernel), VRAM_OK);
    plan->refuse("clEnqueueBarrierWithWaitList", 1, VR_CL_OUT_OF_RESOURCES, true);
    assert_int_not_equal(store(&queue, kernel, &addr, 8, 1), VRAM_OK);
    assert_int_not_equal(world.device.managed->prefetch(&queue, addr, 64, VRAM_TARGET_HOST),
                         VRAM_OK);
    assert_int_equal(plan->calls("clEnqueueNDRangeKernel"), 0);
    assert_int_equal(plan->calls("clEnqueueSVMMigrateMem"), 0);
    plan->refuse(NULL, 0, 0, false);
    struct vr_opencl_api *api = (struct vr_opencl_api *)(uintptr_t)&opencl_of(&world)->api;
    api->clEnqueueSVMMigrateMem = NULL; /* a driver without it ignores the hint */
    assert_int_equal(world.device.managed->prefetch(&queue, addr, 64, VRAM_TARGET_HOST), VRAM_OK);
    assert_int_equal(plan->calls("any"), 0);
    world.device.kernel->unload(&world.device, kernel);
    give_memory(&world.device, addr, GRANULE);
    end_queue(&queue);
    release(&world, unordered);
    end_queue(&own);
    end(&world);
}

static void let_go_soon(void *unused) {
    (void)unused;
    vr_os_sleep(20000000);
    fake->hold(false);
}

TEST(queues_of_the_program_are_its_own) {
    struct world world;
    struct vr_queue own = {.device = &world.device}, queue;
    struct vr_thread thread;
    begin(&world, "svm");
    assert_int_equal(world.device.queue_ops->create(&own, NULL), VRAM_OK);
    struct vr_cl_queue *native_queue = fake->queue_new(own.native, false, false);
    plan->refuse("clGetCommandQueueInfo", 2, VR_CL_SUCCESS, false); /* of no device */
    assert_int_equal(adopt(&world.device, native_queue, &queue), VRAM_ERR_INVALID);
    plan->refuse(NULL, 0, 0, false);
    assert_int_equal(adopt(&world.device, native_queue, &queue), VRAM_OK);
    vram_addr addr = take_memory(&world.device, GRANULE);
    plan->refuse("clEnqueueSVMMemcpy", 1, VR_CL_INVALID_COMMAND_QUEUE, false);
    vram_status status = world.device.queue_ops->upload(&queue, addr, "libvram", 8);
    assert_int_equal(status, VRAM_ERR_INVALID); /* the program ended it; the device is well */
    plan->refuse(NULL, 0, 0, false);
    /* It is waited for while a signal of the library is under way. */
    fake->hold(true);
    uint64_t point = vr_load(queue.word, VR_ACQUIRE) + 1;
    assert_int_equal(world.device.queue_ops->signal(&queue, point), VRAM_OK);
    assert_int_equal(vr_os_thread_start(&thread, "let_go", let_go_soon, NULL), VRAM_OK);
    end_queue(&queue);
    assert_int_equal(plan->calls("clFinish"), 1);
    vr_os_thread_join(&thread);
    give_memory(&world.device, addr, GRANULE);
    release(&world, native_queue);
    end_queue(&own);
    end(&world);
}

/* A driver that never waits is asked four times, and the queue ends all the same. */
TEST(a_queue_ends_whatever_is_refused) {
    struct world world;
    struct vr_queue queue;
    begin(&world, "svm");
    make_queue(&world.device, &queue);
    settle(&queue);
    fake->settle();
    plan->refuse("clFinish", 1, VR_CL_OUT_OF_RESOURCES, true);
    end_queue(&queue);
    assert_int_equal(plan->struck(), 4);
    plan->refuse(NULL, 0, 0, false);
    end(&world);
}

/* --------------------------------------------------------------------- polls */

static vram_status poll_ready(struct vr_queue *queue) {
    vram_status status;
    while ((status = queue->device->queue_ops->poll(queue)) == VRAM_ERR_NOT_READY) {
        vr_os_yield();
    }
    return status;
}

/* -------------------------------------------------------------------- memory */

TEST(objects_are_looked_at) {
    struct world world;
    vram_addr addr = 7;
    vr_cl_int code = -1;
    begin(&world, "buffer");
    const struct vr_opencl_device *opencl = world.device.impl;
    const struct vr_object_ops *ops = world.device.objects;
    struct vr_cl_memory *object =
        opencl->api->clCreateBuffer(opencl->context, VR_CL_MEM_READ_WRITE, 4096, NULL, &code);
    const struct vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_HANDLE, .pointer = object, .bytes = 4096};
    plan->refuse("clGetMemObjectInfo", 1, VR_CL_SUCCESS, false); /* of no type that is a buffer */
    assert_int_equal(ops->adopt(&world.device, &wrap, &addr), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "not a buffer"));
    plan->refuse(NULL, 0, 0, false);
    record_fail_at(1);
    assert_int_equal(ops->adopt(&world.device, &wrap, &addr), VRAM_ERR_HOST_MEMORY);
    record_fail_at(0);
    vr_os_fail_at(1, false, ENOMEM); /* addresses for it */
    assert_int_equal(ops->adopt(&world.device, &wrap, &addr), VRAM_ERR_HOST_MEMORY);
    vr_os_fail_at(0, false, 0);
    assert_int_equal(addr, 7);
    assert_int_equal(object->head.references, 1);
    assert_int_equal(ops->adopt(&world.device, &wrap, &addr), VRAM_OK);
    ops->give(&world.device, addr, 4096);
    assert_int_equal(opencl->api->clReleaseMemObject(object), VR_CL_SUCCESS);
    end(&world);
}

TEST(managed_memory_is_the_device_s) {
    struct world world;
    vram_addr addr = 7;
    fake->settings->memory_mib = 1;
    begin(&world, "svm");
    assert_int_equal(world.device.managed->alloc(&world.device, 2 * VR_MIB, &addr),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(addr, 7);
    end(&world);
}

/* Rows of a buffer of another context are rows of no buffer. */
TEST(rows_of_another_context_are_refused) {
    struct world world, elsewhere;
    struct vr_queue queue;
    char host[64] = "";
    begin(&elsewhere, "buffer");
    begin(&world, "buffer");
    make_queue(&world.device, &queue);
    const struct vr_rectangle rows = {.to = (uintptr_t)host,
                                      .from = take_memory(&elsewhere.device, GRANULE),
                                      .to_pitch = 8,
                                      .from_pitch = 8,
                                      .row_bytes = 4,
                                      .rows = 3,
                                      .to_host = true};
    assert_int_equal(world.device.queue_ops->copy_rows(&queue, &rows), VRAM_ERR_UNSUPPORTED);
    give_memory(&elsewhere.device, rows.from, GRANULE);
    end_queue(&queue);
    world.device.ops->close(&world.device);
    world.backend.ops->stop(&world.backend);
    end(&elsewhere);
}

/* What a lost device held stays with the driver: the next test begins with a clean count. */
static int teardown_lost(void) {
    (void)teardown();
    return 0;
}

EACH_TEST(setup, teardown)

/* A queue that has failed says so without a question, and one that is lost is not asked. */
TEST_IN(setup, teardown_lost, lost_queues_are_not_asked) {
    struct world world;
    struct vr_queue failed, asked;
    begin(&world, "buffer");
    make_queue(&world.device, &failed);
    make_queue(&world.device, &asked);
    vram_addr addr = take_memory(&world.device, GRANULE);
    fake->hold(true);
    assert_int_equal(world.device.queue_ops->upload(&asked, addr, "libvram", 8), VRAM_OK);
    assert_int_equal(world.device.queue_ops->poll(&asked), VRAM_ERR_NOT_READY);
    uint64_t point = vr_load(failed.word, VR_ACQUIRE) + 1;
    assert_int_equal(world.device.queue_ops->signal(&failed, point), VRAM_OK);
    fake->crash(VR_CL_OUT_OF_RESOURCES);
    fake->hold(false);
    assert_int_equal(poll_ready(&failed), VRAM_ERR_DEVICE_LOST);
    fake->settle();
    plan->refuse(NULL, 0, 0, false);
    assert_int_equal(world.device.queue_ops->poll(&failed), VRAM_ERR_DEVICE_LOST);
    vr_store(&world.device.lost, true, VR_RELEASE);
    end_queue(&failed);
    end_queue(&asked);
    assert_int_equal(plan->calls("any"), 0);
    give_memory(&world.device, addr, GRANULE);
    end(&world);
}
