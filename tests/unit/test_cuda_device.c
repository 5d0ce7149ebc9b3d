/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_device.c: whose context is current, devices that are reset or lost, and page-locked
 * memory where the driver puts it.
 */
#include "unit/cuda_stage.h"

static vram_addr take(vram_device *device, vram_memory_kind kind) {
    vram_addr addr;
    assert_ok(vram_device_alloc(device, PAGE, kind, &addr));
    return addr;
}

/* All that needs a context. */
static void use_everything(struct stage *stage) {
    vram_memory_info memory = {.size = sizeof memory};
    vram_device *device = stage->device;
    vram_addr base;
    vram_physical *physical;
    for (int kind = VRAM_MEMORY_DEVICE; kind <= VRAM_MEMORY_MANAGED; kind++) {
        assert_ok(vram_device_free(device, take(device, (vram_memory_kind)kind)));
    }
    vram_addr addr = take(device, VRAM_MEMORY_DEVICE);
    assert_ok(vram_queue_fill(stage->queue, addr, 1, 1, PAGE));
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    assert_ok(vram_device_free(device, addr));
    assert_ok(vram_memory_info_get(device, &memory));
    assert_ok(vram_range_create(device, GRANULE, &base));
    assert_ok(vram_physical_create(device, GRANULE, &physical));
    assert_ok(vram_range_map(device, base, &physical, 1));
    assert_ok(vram_range_unmap(device, base, GRANULE));
    assert_ok(vram_physical_destroy(physical));
    assert_ok(vram_range_destroy(device, base));
}

/* Whatever context the program has current, or none, it finds it again; where a call fails, too:
   tests/drivers. */
TEST(the_callers_context_is_found_again) {
    struct stage *stage = rig_state;
    stage_open(stage, 256 * MIB, "5s");
    assert_null(fake->current());
    use_everything(stage);
    assert_null(fake->current());
    fake->push_other(0);
    struct vr_cu_context *mine = fake->current();
    use_everything(stage);
    assert_ptr_equal(fake->current(), mine);
    assert_int_equal(fake->depth(), 1);
    fake->pop();
    stage_close(stage);
}

/* ------------------------------------------------------------------ page-locked */

TEST(pinned_memory_is_page_aligned) {
    struct stage *stage = rig_state;
    stage_open(stage, 256 * MIB, "5s");
    for (unsigned offset = 0; offset < 1024; offset += 512) { /* behind somebody else's */
        fake->pinned_offset(offset);
        vram_addr addr = take(stage->device, VRAM_MEMORY_PINNED);
        assert_int_equal(addr % PAGE, 0);
        memset((void *)(uintptr_t)addr, 1, PAGE);
    }
    stage_close(stage);
}

/* The driver allocates the words of streams, and lies about them. */
TEST(a_device_opened_by_a_liar_is_not) {
    struct stage *stage = rig_state;
    stage_open(stage, 256 * MIB, "5s");
    uint64_t before = live_total();
    fake->attribute(VR_CU_ATTRIBUTE_HOST_ADDRESS, 0);
    for (int kind = FAKE_CUDA_NULL; kind <= FAKE_CUDA_MISALIGNED; kind++) {
        vram_device *device = NULL;
        fake->lie("cuMemHostAlloc", 1, (enum fake_cuda_lie)kind, false);
        assert_int_equal(vram_device_open(stage->context, 1, &device), VRAM_ERR_CORRUPT);
        assert_null(device);
        assert_int_equal(live_total(), before);
    }
    stage_close(stage);
}

/* --------------------------------------------------------------------------- loss */

/* cudaDeviceReset behind our back: what we had is gone, and the device says so; also when something
   else in the program has made the context anew: its handle is as before. */
TEST(a_device_that_was_reset_is_lost) {
    struct stage *stage = rig_state;
    for (int again = 0; again < 2; again++) {
        vram_device *other = NULL;
        vram_addr addr = 7;
        vram_point point;
        stage_open(stage, 256 * MIB, "5s");
        fake->device_reset(0);
        if (again) {
            assert_ok(vram_device_open(stage->context, 0, &other));
            assert_int_equal(vram_queue_mark(stage->queue, &point), VRAM_ERR_DEVICE_LOST);
        } else {
            assert_int_equal(vram_device_alloc(stage->device, PAGE, VRAM_MEMORY_DEVICE, &addr),
                             VRAM_ERR_DEVICE_LOST);
            assert_int_equal(addr, 7);
        }
        assert_cuda_error(VRAM_ERR_DEVICE_LOST, "cuCtxGetId", VR_CU_CONTEXT_DESTROYED);
        assert_non_null(strstr(vram_error_get()->text, "cudaDeviceReset"));
        if (other) { /* which is well */
            assert_ok(vram_device_free(other, take(other, VRAM_MEMORY_DEVICE)));
        }
        stage->lost = true;
        stage_close(stage);
        fake->reset();
        fake->devices(2);
    }
}

/* A sticky error is a loss, whichever call meets it; then no driver is called any more, and giving
   back succeeds as bookkeeping. The other device does not notice. */
TEST(a_lost_device_is_left_alone) {
    struct stage *stage = rig_state;
    vram_device *good;
    vram_addr base, addr, pinned;
    vram_physical *physical;
    stage_open(stage, 256 * MIB, "5s");
    assert_ok(vram_device_open(stage->context, 1, &good));
    addr = take(stage->device, VRAM_MEMORY_DEVICE);
    pinned = take(stage->device, VRAM_MEMORY_PINNED);
    assert_ok(vram_range_create(stage->device, GRANULE, &base));
    assert_ok(vram_physical_create(stage->device, GRANULE, &physical));
    assert_ok(vram_range_map(stage->device, base, &physical, 1));
    fake->lose(0, VR_CU_ILLEGAL_ADDRESS);
    assert_int_equal(vram_queue_fill(stage->queue, addr, 1, 1, PAGE), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_error_get()->native_code, VR_CU_ILLEGAL_ADDRESS);
    assert_non_null(strstr(vram_error_get()->text, "restart the process"));
    uint64_t before = fake->calls(NULL);
    assert_ok(vram_range_unmap(stage->device, base, GRANULE));
    assert_ok(vram_physical_destroy(physical));
    assert_ok(vram_range_destroy(stage->device, base));
    assert_ok(vram_device_free(stage->device, pinned));
    assert_ok(vram_device_free(stage->device, addr));
    (void)vram_queue_destroy(stage->queue);
    vram_device_close(stage->device);
    assert_int_equal(fake->calls(NULL), before);
    assert_ok(vram_device_free(good, take(good, VRAM_MEMORY_DEVICE)));
    stage->lost = true;
    stage_close(stage);
}

/* A device that is lost while it is closed, before anybody noticed. */
TEST(closing_meets_the_loss_first) {
    struct stage *stage = rig_state;
    stage_open(stage, 256 * MIB, "5s");
    assert_ok(vram_pool_destroy(stage->pool));
    assert_ok(vram_queue_destroy(stage->queue));
    vram_error_clear();
    fake->refuse("cuCtxPushCurrent", 1, VR_CU_ILLEGAL_ADDRESS, false);
    assert_ok(vram_device_close(stage->device));
    assert_int_equal(fake->struck(), 1);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    stage->lost = true;
    stage_close(stage);
}

EACH_TEST(stage_begin, stage_end)
