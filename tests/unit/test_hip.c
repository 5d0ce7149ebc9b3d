/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hip.c: what HIP does differently from CUDA: how a thread's device and last error are left
 * alone, and that trials end. What they find is in tests/drivers.
 */
#include "unit/cuda_stage.h"

enum { HIP_DEINITIALIZED = 4 };

typedef vr_cu_result set_device_fn(int);
typedef vr_cu_result alloc_fn(vr_cu_addr *, size_t);
typedef vr_cu_result last_error_fn(void);

/* What a program calls in the runtime. */
static set_device_fn *set_device;
static alloc_fn *alloc;
static last_error_fn *last_error_take;

static int begin(void) {
    void *library = dlopen(FAKE_HIP_PATH, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    *(void **)&set_device = dlsym(library, "hipSetDevice");
    *(void **)&alloc = dlsym(library, "hipMalloc");
    *(void **)&last_error_take = dlsym(library, "hipGetLastError");
    assert_true(set_device && alloc && last_error_take);
    return stage_begin();
}

TEST(the_current_device_is_left_alone) {
    struct stage *stage = rig_state;
    vram_device *second;
    vram_addr addr;
    stage_open(stage, 256 * MIB, "5s");
    assert_ok(vram_device_open(stage->context, 1, &second));
    for (int device = 0; device < 2; device++) {
        assert_int_equal(set_device(device), 0);
        struct vr_cu_context *before = fake->current();
        assert_ok(vram_device_alloc(second, GRANULE, VRAM_MEMORY_DEVICE, &addr));
        assert_ok(vram_device_free(second, addr));
        assert_int_equal(vram_device_alloc(second, UINT64_C(1) << 50, VRAM_MEMORY_DEVICE, &addr),
                         VRAM_ERR_DEVICE_MEMORY);
        assert_ptr_equal(fake->current(), before);
    }
    assert_int_equal(set_device(0), 0);
    stage_close(stage);
}

/* A failure of ours is not the program's, and one of the program's stays to be read, also where the
   library did not even get to its device. */
TEST(errors_of_the_thread_are_the_programs) {
    static const struct {
        const char *refused;
        uint64_t bytes;
        vram_status status;
    } rows[] = {{NULL, GRANULE, VRAM_OK},
                {NULL, UINT64_C(1) << 50, VRAM_ERR_DEVICE_MEMORY},
                {"hipGetDevice", GRANULE, VRAM_ERR_INVALID}};
    struct stage *stage = rig_state;
    stage_open(stage, 256 * MIB, "5s");
    for (int own = 0; own < 2; own++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            vr_cu_addr none;
            vram_addr addr = 7;
            (void)last_error_take();
            if (own) {
                assert_int_equal(alloc(&none, 0), VR_CU_INVALID_VALUE);
            }
            fake->refuse(rows[i].refused, 1, VR_CU_INVALID_DEVICE, false);
            assert_int_equal(
                vram_device_alloc(stage->device, rows[i].bytes, VRAM_MEMORY_DEVICE, &addr),
                rows[i].status);
            assert_true(rows[i].status == VRAM_OK || addr == 7);
            fake->refuse(NULL, 0, 0, false);
            if (rows[i].status == VRAM_OK) {
                assert_int_equal(fake->last_error(), own ? VR_CU_INVALID_VALUE : 0);
            } else if (!rows[i].refused || own) { /* the one or the other */
                assert_int_equal(fake->last_error() != 0, own);
            }
        }
    }
    stage_close(stage);
}

TEST(streams_of_another_device_are_not_adopted) {
    struct stage *stage = rig_state;
    vram_queue *queue;
    stage_open(stage, 256 * MIB, "5s");
    struct vr_cu_stream *stream = fake->stream_make(1, false, false);
    assert_int_equal(vram_queue_adopt(stage->device, stream, &queue), VRAM_ERR_INVALID);
    assert_cuda_error(VRAM_ERR_INVALID, "hipStreamGetDevice", 0);
    fake->stream_end(stream);
    stage_close(stage);
}

/* The runtime ends, or the device is lost, while a trial waits for its word. */
TEST(a_trial_does_not_wait_for_what_has_ended) {
    static const struct {
        vr_cu_result code;
        vram_status status;
    } cases[] = {{HIP_DEINITIALIZED, VRAM_ERR_SHUTDOWN},
                 {VR_CU_ILLEGAL_ADDRESS, VRAM_ERR_DEVICE_LOST}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const vram_context_options options = {.size = sizeof options, .backends = "hip"};
        vram_context *context;
        vram_device *device = NULL;
        assert_ok(vram_context_create(&options, &context));
        fake->hold(true);
        fake->refuse("any", 200, cases[i].code, true); /* it polls by then */
        assert_int_equal(vram_device_open(context, 0, &device), cases[i].status);
        fake->refuse(NULL, 0, 0, false);
        fake->hold(false);
        assert_null(device);
        fake->reset();
        vram_context_destroy(context);
    }
}

EACH_TEST(begin, stage_end)
