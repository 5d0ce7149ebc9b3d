/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hip.c: what HIP does differently from CUDA: how a thread's device and last error are left
 * alone, and that trials end. What they find is in tests/drivers.
 */
#include "unit/cuda_world.h"

enum { HIP_DEINITIALIZED = 4 };

/* ------------------------------------------------------------ the thread's own */

typedef vr_cu_result set_device_fn(int);
typedef vr_cu_result alloc_fn(vr_cu_addr *, size_t);

static void *symbol(const char *name) {
    void *library = dlopen(FAKE_HIP_PATH, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

TEST(the_current_device_is_left_alone) {
    struct world *world = rig_state;
    struct vr_device second;
    set_device_fn *set_device = NULL;
    void *found = symbol("hipSetDevice");
    memcpy(&set_device, &found, sizeof set_device);
    close_device(&world->device);
    fake->devices(2);
    world->backend.ops->stop(&world->backend);
    start_backend(&world->backend);
    open_device(&world->backend, 1, &second);
    for (int device = 0; device < 2; device++) {
        assert_int_equal(set_device(device), 0);
        struct vr_cu_context *before = fake->current();
        vram_addr addr = take_memory(&second, GRANULE);
        give_memory(&second, addr, GRANULE);
        assert_int_equal(second.ops->alloc(&second, UINT64_C(1) << 50, &addr),
                         VRAM_ERR_DEVICE_MEMORY);
        assert_ptr_equal(fake->current(), before);
    }
    assert_int_equal(set_device(0), 0);
    close_device(&second);
}

TEST(a_failure_of_ours_is_not_the_programs) {
    struct world *world = rig_state;
    vram_addr addr;
    assert_int_equal(world->device.ops->alloc(&world->device, UINT64_C(1) << 50, &addr),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(fake->last_error(), 0);
}

TEST(an_error_of_the_programs_stays_to_be_read) {
    struct world *world = rig_state;
    alloc_fn *alloc = NULL;
    vr_cu_addr own;
    void *found = symbol("hipMalloc");
    memcpy(&alloc, &found, sizeof alloc);
    assert_int_equal(alloc(&own, 0), VR_CU_INVALID_VALUE);
    vram_addr addr = take_memory(&world->device, GRANULE);
    give_memory(&world->device, addr, GRANULE);
    assert_int_equal(fake->last_error(), VR_CU_INVALID_VALUE);
}

/* Also where the library did not even get to its device. */
TEST(an_error_of_the_programs_outlives_a_refused_device) {
    struct world *world = rig_state;
    alloc_fn *alloc = NULL;
    vr_cu_addr own;
    vram_addr addr = 7;
    void *found = symbol("hipMalloc");
    memcpy(&alloc, &found, sizeof alloc);
    assert_int_equal(alloc(&own, 0), VR_CU_INVALID_VALUE);
    fake->refuse("hipGetDevice", 1, VR_CU_INVALID_DEVICE, false);
    assert_int_equal(world->device.ops->alloc(&world->device, GRANULE, &addr), VRAM_ERR_INVALID);
    assert_int_equal(addr, 7);
    assert_int_not_equal(fake->last_error(), 0);
}

TEST(streams_of_another_device_are_not_adopted) {
    struct world *world = rig_state;
    struct vr_queue queue;
    fake->devices(2);
    struct vr_cu_stream *stream = fake->stream_make(1, false, false);
    assert_int_equal(adopt(&world->device, stream, &queue), VRAM_ERR_INVALID);
    assert_cuda_error(VRAM_ERR_INVALID, "hipStreamGetDevice", 0);
    fake->stream_end(stream);
}

/* ------------------------------------------------------------------- trials */

static void describe_again(struct world *world) {
    world->device = (struct vr_device){.backend = &world->backend, .info.backend = "hip"};
    assert_int_equal(world->backend.ops->describe(&world->backend, 0, &world->device.info), 0);
}

/* The runtime ends, or the device is lost, while a trial waits for its word. */
TEST(a_trial_does_not_wait_for_what_has_ended) {
    static const struct {
        vr_cu_result code;
        vram_status status;
    } cases[] = {{HIP_DEINITIALIZED, VRAM_ERR_SHUTDOWN},
                 {VR_CU_ILLEGAL_ADDRESS, VRAM_ERR_DEVICE_LOST}};
    struct world *world = rig_state;
    close_device(&world->device);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        describe_again(world);
        fake->hold(true);
        fake->refuse("any", 200, cases[i].code, true); /* it polls by then */
        assert_int_equal(world->backend.ops->device_open(&world->device), cases[i].status);
        fake->refuse(NULL, 0, 0, false);
        fake->hold(false);
        assert_null(world->device.impl);
        fake->reset();
        world->backend.ops->stop(&world->backend);
        start_backend(&world->backend);
    }
}

EACH_TEST(setup, teardown)
