/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hip.c: what HIP does differently from CUDA: how its runtime is found, how a thread's device
 * and last error are left alone, and the trials when a device is opened.
 */
#include "unit/cuda_world.h"

enum { HIP_DEINITIALIZED = 4 };

/* ----------------------------------------------------------------- starting */

static void its_version_says_that_no_hardware_was_seen(void **state) {
    struct world *world = *state;
    assert_string_equal(world->backend.version, "6.4 (not run on hardware)");
    assert_string_equal(world->device.info.architecture, "");
    assert_int_equal(world->device.info.alloc_granule.value, 4096);
}

static void assert_no_start(vram_status status, const char *part) {
    struct vr_backend backend = {.ops = &vr_hip_backend};
    assert_int_equal(backend.ops->start(&backend, NULL), status);
    assert_int_equal(vram_error_get()->status, status);
    if (!strstr(vram_error_get()->text, part)) {
        fail_msg("\"%s\" does not say \"%s\"", vram_error_get()->text, part);
    }
    assert_null(backend.impl);
}

static void reasons_for_its_absence(void **state) {
    (void)state;
    fake->version(40400000);
    assert_no_start(VRAM_ERR_NO_DRIVER, "HIP 4.4, libvram needs 5.0");
    fake->version(60443484);
    fake->devices(0);
    assert_no_start(VRAM_ERR_NO_DEVICE, "HIP_VISIBLE_DEVICES");
    fake->devices(1);
    fake->refuse("hipInit", 1, 35, false);
    assert_no_start(VRAM_ERR_NO_DRIVER, "amdgpu kernel driver");
    fake->refuse(NULL, 0, 0, false);
    assert_int_equal(vram_option_set("hip_library", "/nowhere/libamdhip64.so.6"), VRAM_OK);
    assert_no_start(VRAM_ERR_NO_DRIVER, "VRAM_HIP_LIBRARY");
    assert_int_equal(vram_option_set("hip_library", FAKE_HIP_PATH), VRAM_OK);
}

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

static void the_current_device_is_left_alone(void **state) {
    struct world *world = *state;
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

static void a_failure_of_ours_is_not_the_programs(void **state) {
    struct world *world = *state;
    vram_addr addr;
    assert_int_equal(world->device.ops->alloc(&world->device, UINT64_C(1) << 50, &addr),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(fake->last_error(), 0);
}

static void an_error_of_the_programs_stays_to_be_read(void **state) {
    struct world *world = *state;
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
static void an_error_of_the_programs_outlives_a_refused_device(void **state) {
    struct world *world = *state;
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

static void streams_of_another_device_are_not_adopted(void **state) {
    struct world *world = *state;
    struct vr_queue queue;
    fake->devices(2);
    struct vr_cu_stream *stream = fake->stream_make(1, false, false);
    assert_int_equal(adopt(&world->device, stream, &queue), VRAM_ERR_INVALID);
    assert_cuda_error(VRAM_ERR_INVALID, "hipStreamGetDevice", 0);
    fake->stream_end(stream);
}

/* ------------------------------------------------------------------- trials */

/* Opens the device again with a runtime that breaks a promise, once or always. */
static vram_status reopen(struct world *world, const char *call, int code, enum fake_cuda_lie lie) {
    close_device(&world->device);
    world->device = (struct vr_device){.backend = &world->backend, .info.backend = "hip"};
    assert_int_equal(world->backend.ops->describe(&world->backend, 0, &world->device.info), 0);
    if (code) {
        fake->refuse(call, 1, code, true);
    } else {
        fake->lie(call, 1, lie, true);
    }
    vram_status status = world->backend.ops->device_open(&world->device);
    fake->refuse(NULL, 0, 0, false);
    return status;
}

/* Whatever was taken away, the rest works. */
static void assert_usable(struct vr_device *device) {
    struct vr_queue first, second;
    char text[8] = "";
    vram_addr addr = take_memory(device, GRANULE);
    make_queue(device, &first);
    make_queue(device, &second);
    assert_int_equal(device->queue_ops->upload(&first, addr, "libvram", 8), VRAM_OK);
    uint64_t value = word_of(&first) + 1;
    assert_int_equal(device->queue_ops->signal(&first, value), VRAM_OK);
    assert_int_equal(device->queue_ops->after(&second, &first, value), VRAM_OK);
    assert_int_equal(device->queue_ops->download(&second, text, addr, 8), VRAM_OK);
    settle(&second);
    assert_string_equal(text, "libvram");
    end_queue(&second);
    end_queue(&first);
    give_memory(device, addr, GRANULE);
    assert_true(!device->pinned == !(device->info.caps & VRAM_CAP_PINNED));
    assert_true(!device->vmm == !(device->info.caps & VRAM_CAP_VMM));
}

static struct vr_cuda_device *hip_of(const struct world *world) {
    return world->device.impl;
}

static void a_device_that_keeps_its_promises_has_all(void **state) {
    struct world *world = *state;
    uint32_t caps = VRAM_CAP_PINNED | VRAM_CAP_VMM | VRAM_CAP_ALIAS;
    assert_int_equal(world->device.info.caps & caps, caps);
    assert_true(vr_load(&hip_of(world)->memory_ops, VR_RELAXED));
    assert_true(vr_load(&hip_of(world)->stream_waits, VR_RELAXED));
    assert_usable(&world->device);
}

static void words_that_streams_do_not_write(void **state) {
    struct world *world = *state;
    assert_int_equal(reopen(world, "hipStreamWriteValue64", 0, FAKE_CUDA_NULL), VRAM_OK);
    assert_false(vr_load(&hip_of(world)->memory_ops, VR_RELAXED));
    assert_usable(&world->device);
    assert_int_equal(reopen(world, "hipStreamWriteValue64", VR_CU_INVALID_VALUE, 0), VRAM_OK);
    assert_false(vr_load(&hip_of(world)->memory_ops, VR_RELAXED));
    assert_usable(&world->device);
}

static void words_that_streams_do_not_await(void **state) {
    struct world *world = *state;
    assert_int_equal(reopen(world, "hipStreamWaitValue64", VR_CU_INVALID_VALUE, 0), VRAM_OK);
    assert_false(vr_load(&hip_of(world)->stream_waits, VR_RELAXED));
    assert_true(vr_load(&hip_of(world)->memory_ops, VR_RELAXED));
    assert_usable(&world->device);
}

static void copies_that_never_come(void **state) {
    struct world *world = *state;
    assert_int_equal(reopen(world, "hipMemcpyDtoHAsync", 0, FAKE_CUDA_NULL), VRAM_OK);
    assert_false(world->device.info.caps & (VRAM_CAP_PINNED | VRAM_CAP_VMM));
    assert_usable(&world->device);
}

static void mapped_memory_that_cannot_be_used(void **state) {
    struct world *world = *state;
    static const char *const calls[] = {"hipMemAddressReserve", "hipMemCreate", "hipMemMap",
                                        "hipMemSetAccess"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(reopen(world, calls[i], VR_CU_INVALID_VALUE, 0), VRAM_OK);
        assert_false(world->device.info.caps & (VRAM_CAP_VMM | VRAM_CAP_ALIAS));
        assert_false(world->device.info.vmm_granule.known);
        assert_true(world->device.info.caps & VRAM_CAP_PINNED);
        assert_usable(&world->device);
    }
}

static void a_full_device_is_believed(void **state) {
    struct world *world = *state;
    assert_int_equal(reopen(world, "hipMemCreate", VR_CU_OUT_OF_MEMORY, 0), VRAM_OK);
    assert_true(world->device.info.caps & VRAM_CAP_VMM);
    assert_usable(&world->device);
}

static void a_device_without_time_is_not_opened(void **state) {
    struct world *world = *state;
    close_device(&world->device);
    fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, 0);
    world->device = (struct vr_device){.backend = &world->backend, .info.backend = "hip"};
    assert_int_equal(world->backend.ops->describe(&world->backend, 0, &world->device.info), 0);
    fake->refuse("hipLaunchHostFunc", 1, VR_CU_INVALID_VALUE, true);
    assert_int_equal(world->backend.ops->device_open(&world->device), VRAM_ERR_INVALID);
    fake->refuse(NULL, 0, 0, false);
    assert_null(world->device.impl);
    assert_non_null(strstr(vram_error_get()->text, "how far a stream has come"));
}

static void a_device_lost_in_its_trial_is_not_opened(void **state) {
    struct world *world = *state;
    assert_int_equal(reopen(world, "hipMemcpyHtoDAsync", VR_CU_ILLEGAL_ADDRESS, 0),
                     VRAM_ERR_DEVICE_LOST);
    assert_null(world->device.impl);
    fake->reset();
}

static void describe_again(struct world *world) {
    world->device = (struct vr_device){.backend = &world->backend, .info.backend = "hip"};
    assert_int_equal(world->backend.ops->describe(&world->backend, 0, &world->device.info), 0);
}

/* The runtime ends, or the device is lost, while a trial waits for its word. */
static void a_trial_does_not_wait_for_what_has_ended(void **state) {
    static const struct {
        vr_cu_result code;
        vram_status status;
    } cases[] = {{HIP_DEINITIALIZED, VRAM_ERR_SHUTDOWN},
                 {VR_CU_ILLEGAL_ADDRESS, VRAM_ERR_DEVICE_LOST}};
    struct world *world = *state;
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

/* ------------------------------------------------ every call of the trials */

static void assert_trial_answer(vr_cu_result code, vram_status status) {
    if (status == VRAM_OK) { /* what was refused is not needed, or goes another way */
        return;
    }
    bool ended = status == VRAM_ERR_DEVICE_LOST || status == VRAM_ERR_SHUTDOWN;
    switch ((int)code) {
    case VR_CU_OUT_OF_MEMORY:
        assert_true(status == VRAM_ERR_DEVICE_MEMORY || status == VRAM_ERR_HOST_MEMORY);
        break;
    case HIP_DEINITIALIZED:
        assert_int_equal(status, VRAM_ERR_SHUTDOWN);
        break;
    case VR_CU_ILLEGAL_ADDRESS:
        assert_int_equal(status, VRAM_ERR_DEVICE_LOST);
        break;
    default:
        assert_false(ended);
    }
}

/* Opens the device while its n-th call, or all from it on, answer `code`; whether it made so many.
   A device that opens works. What a runtime refused to take back is forgotten with it. */
static bool open_failing(struct world *world, uint64_t nth, vr_cu_result code, bool for_ever) {
    start_backend(&world->backend);
    describe_again(world);
    fake->refuse("any", nth, code, for_ever);
    vram_status status = world->backend.ops->device_open(&world->device);
    bool struck = fake->struck() > 0;
    fake->refuse(NULL, 0, 0, false);
    assert_trial_answer(code, status);
    assert_true(struck || status == VRAM_OK);
    assert_int_equal(!world->device.impl, status != VRAM_OK);
    if (status == VRAM_OK) {
        assert_usable(&world->device);
        close_device(&world->device);
    }
    world->backend.ops->stop(&world->backend);
    fake->reset();
    assert_int_equal(vr_mem_live_blocks(), world->blocks_before);
    return struck;
}

static void every_call_of_the_trials_fails(void **state) {
    static const vr_cu_result codes[] = {VR_CU_INVALID_VALUE, VR_CU_OUT_OF_MEMORY,
                                         HIP_DEINITIALIZED, VR_CU_ILLEGAL_ADDRESS};
    struct world *world = *state;
    uint64_t runs = 0;
    close_device(&world->device);
    world->backend.ops->stop(&world->backend);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            for (uint64_t nth = 1; open_failing(world, nth, codes[i], for_ever); nth++) {
                runs++;
            }
        }
    }
    print_message("%llu runs\n", (unsigned long long)runs);
    assert_true(runs > 200);
    start_backend(&world->backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(its_version_says_that_no_hardware_was_seen),
        HERE(reasons_for_its_absence),
        HERE(the_current_device_is_left_alone),
        HERE(a_failure_of_ours_is_not_the_programs),
        HERE(an_error_of_the_programs_stays_to_be_read),
        HERE(an_error_of_the_programs_outlives_a_refused_device),
        HERE(streams_of_another_device_are_not_adopted),
        HERE(a_device_that_keeps_its_promises_has_all),
        HERE(words_that_streams_do_not_write),
        HERE(words_that_streams_do_not_await),
        HERE(copies_that_never_come),
        HERE(mapped_memory_that_cannot_be_used),
        HERE(a_full_device_is_believed),
        HERE(a_device_without_time_is_not_opened),
        HERE(a_device_lost_in_its_trial_is_not_opened),
        HERE(a_trial_does_not_wait_for_what_has_ended),
        HERE(every_call_of_the_trials_fails),
    };
    return cmocka_run_group_tests_name("hip", tests, NULL, NULL);
}
