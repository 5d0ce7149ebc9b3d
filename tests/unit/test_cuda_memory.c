/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_memory.c: device memory, pinned memory and virtual memory management of the CUDA
 * backend; whose context is current; what a lost device and a lying driver do to it.
 */
#include "unit/cuda_world.h"

/* ------------------------------------------------------------------- memory */

TEST(pinned_memory_is_page_aligned) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    vram_addr small = 0, behind = 0;
    assert_int_equal(device->pinned->alloc(device, PAGE, &small), VRAM_OK);
    assert_int_equal(small % PAGE, 0);
    memset((void *)(uintptr_t)small, 1, PAGE);
    /* Where the driver puts small blocks behind somebody else's, a larger one is taken. */
    fake->pinned_offset(512);
    assert_int_equal(device->pinned->alloc(device, PAGE, &behind), VRAM_OK);
    assert_int_equal(behind % PAGE, 0);
    memset((void *)(uintptr_t)behind, 2, PAGE);
    assert_int_equal(device->pinned->free(device, behind, PAGE), VRAM_OK);
    assert_int_equal(device->pinned->free(device, small, PAGE), VRAM_OK);
    assert_int_equal(device->pinned->free(device, small, PAGE), VRAM_ERR_INVALID);
}

/* --------------------------------------------------------------------- lies */

TEST(a_device_opened_by_a_liar_is_not) {
    struct world *world = rig_state;
    struct vr_device device = {.backend = &world->backend, .info = world->device.info};
    uint64_t before = live_total();
    fake->attribute(VR_CU_ATTRIBUTE_HOST_ADDRESS, 0); /* the driver allocates the words */
    for (int kind = FAKE_CUDA_NULL; kind <= FAKE_CUDA_MISALIGNED; kind++) {
        fake->lie("cuMemHostAlloc", 1, (enum fake_cuda_lie)kind, false);
        assert_int_equal(world->backend.ops->device_open(&device), VRAM_ERR_CORRUPT);
        assert_null(device.impl);
        assert_int_equal(live_total(), before);
    }
}

/* ---------------------------------------------------------------------- vmm */

TEST(handles_are_mapped_whole) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    vram_addr base = 0;
    uint64_t handle = 0;
    char text[8] = "";
    struct vr_queue queue;
    make_queue(device, &queue);
    assert_int_equal(device->vmm->reserve(device, 16 * GRANULE, 4 * GRANULE, &base), VRAM_OK);
    assert_int_equal(base % (4 * GRANULE), 0);
    assert_int_equal(device->vmm->create(device, 2 * GRANULE, &handle), VRAM_OK);
    assert_int_equal(device->vmm->map(device, base, handle, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->access(device, base, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->queue_ops->upload(&queue, base + GRANULE, "carried", 8), VRAM_OK);
    settle(&queue);
    /* Moved: the same memory at another address, no copy. */
    assert_int_equal(device->vmm->unmap(device, base, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->map(device, base + 8 * GRANULE, handle, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->access(device, base + 8 * GRANULE, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->queue_ops->download(&queue, text, base + 9 * GRANULE, 8), VRAM_OK);
    settle(&queue);
    assert_string_equal(text, "carried");
    /* Read-only, and writable again. */
    assert_int_equal(device->vmm->protect(device, base + 8 * GRANULE, 2 * GRANULE, true), VRAM_OK);
    assert_int_equal(device->queue_ops->download(&queue, text, base + 9 * GRANULE, 4), VRAM_OK);
    settle(&queue);
    assert_false(fake->writable(0, base + 9 * GRANULE));
    assert_int_equal(device->vmm->protect(device, base + 8 * GRANULE, 2 * GRANULE, false), VRAM_OK);
    assert_true(fake->writable(0, base + 9 * GRANULE));
    assert_int_equal(device->vmm->protect(device, base, GRANULE, true), VRAM_ERR_INVALID);
    /* What the driver refuses stays as it was. */
    assert_int_equal(device->vmm->unreserve(device, base, 16 * GRANULE), VRAM_ERR_INVALID);
    assert_int_equal(device->vmm->unmap(device, base, 2 * GRANULE), VRAM_ERR_INVALID);
    assert_int_equal(device->vmm->access(device, base, GRANULE), VRAM_ERR_INVALID);
    assert_int_equal(device->vmm->unmap(device, base + 8 * GRANULE, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, handle, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, handle, 2 * GRANULE), VRAM_ERR_INVALID);
    assert_int_equal(device->vmm->unreserve(device, base, 16 * GRANULE), VRAM_OK);
    end_queue(&queue);
}

/* ----------------------------------------------------------------- contexts */

static vram_status use_everything(struct vr_device *device) {
    vram_value free_bytes, total;
    vram_addr addr = 0, pinned = 0, base = 0;
    uint64_t handle = 0;
    vram_status worst = device->ops->memory_info(device, &free_bytes, &total);
    worst = device->ops->alloc(device, GRANULE, &addr) ? VRAM_ERR_BACKEND : worst;
    worst = device->pinned->alloc(device, PAGE, &pinned) ? VRAM_ERR_BACKEND : worst;
    worst = device->vmm->reserve(device, GRANULE, GRANULE, &base) ? VRAM_ERR_BACKEND : worst;
    worst = device->vmm->create(device, GRANULE, &handle) ? VRAM_ERR_BACKEND : worst;
    worst = device->vmm->map(device, base, handle, GRANULE) ? VRAM_ERR_BACKEND : worst;
    worst = device->vmm->access(device, base, GRANULE) ? VRAM_ERR_BACKEND : worst;
    worst = device->vmm->unmap(device, base, GRANULE) ? VRAM_ERR_BACKEND : worst;
    worst = device->vmm->release(device, handle, GRANULE) ? VRAM_ERR_BACKEND : worst;
    worst = device->vmm->unreserve(device, base, GRANULE) ? VRAM_ERR_BACKEND : worst;
    worst = device->pinned->free(device, pinned, PAGE) ? VRAM_ERR_BACKEND : worst;
    worst = device->ops->free(device, addr, GRANULE) ? VRAM_ERR_BACKEND : worst;
    return worst;
}

/* Whatever context the program has current, or none, it finds it again. */
TEST(the_callers_context_is_found_again) {
    struct world *world = rig_state;
    assert_null(fake->current());
    assert_int_equal(use_everything(&world->device), VRAM_OK);
    assert_null(fake->current());
    fake->push_other(0);
    struct vr_cu_context *mine = fake->current();
    assert_int_equal(use_everything(&world->device), VRAM_OK);
    assert_ptr_equal(fake->current(), mine);
    static const char *const calls[] = {
        "cuMemGetInfo",   "cuMemAlloc",  "cuMemFree",           "cuMemHostAlloc",
        "cuMemFreeHost",  "cuMemCreate", "cuMemRelease",        "cuMemMap",
        "cuMemSetAccess", "cuMemUnmap",  "cuMemAddressReserve", "cuMemAddressFree"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        fake->refuse(calls[i], 1, VR_CU_UNKNOWN, false);
        assert_true(use_everything(&world->device) < 0);
        assert_int_equal(fake->struck(), 1);
        assert_ptr_equal(fake->current(), mine);
        assert_int_equal(fake->depth(), 1);
    }
    fake->pop();
    fake->reset();             /* forgets what the refusals left behind, */
    note_loss(&world->device); /* and what the device holds with it */
}

/* cudaDeviceReset behind our back: what we had is gone, and the device says so. */
TEST(a_device_that_was_reset_is_lost) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    vram_addr addr = 7;
    fake->device_reset(0);
    assert_int_equal(device->ops->alloc(device, GRANULE, &addr), VRAM_ERR_DEVICE_LOST);
    assert_cuda_error(VRAM_ERR_DEVICE_LOST, "cuCtxGetId", VR_CU_CONTEXT_DESTROYED);
    assert_non_null(strstr(vram_error_get()->text, "cudaDeviceReset"));
    note_loss(device);
}

/* The same, and something else in the program has made the context anew: its handle is as
   before. */
TEST(a_reset_is_noticed_when_the_context_lives_again) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device, again;
    struct vr_queue queue;
    make_queue(device, &queue);
    fake->device_reset(0);
    open_device(&world->backend, 0, &again);
    assert_int_equal(device->queue_ops->signal(&queue, 1), VRAM_ERR_DEVICE_LOST);
    assert_cuda_error(VRAM_ERR_DEVICE_LOST, "cuCtxGetId", VR_CU_CONTEXT_DESTROYED);
    assert_int_equal(vr_load(queue.word, VR_ACQUIRE), 0); /* and can be read */
    note_loss(device);
    end_queue(&queue);
    close_device(&again);
}

TEST(devices_can_be_opened_twice) {
    struct world *world = rig_state;
    struct vr_device again;
    struct fake_cuda_live live;
    open_device(&world->backend, 0, &again);
    fake->live(&live);
    assert_int_equal(live.retains, 2);
    vram_addr addr = take_memory(&again, GRANULE);
    give_memory(&again, addr, GRANULE);
    close_device(&again);
    addr = take_memory(&world->device, GRANULE);
    give_memory(&world->device, addr, GRANULE);
}

/* --------------------------------------------------------------------- loss */

/* A sticky error is a loss, whichever call meets it; then no driver is called any more, and giving
   back succeeds as bookkeeping. */
TEST(a_lost_device_is_left_alone) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    struct vr_queue queue;
    vram_addr addr = take_memory(device, GRANULE), pinned = 0, base = 0;
    uint64_t handle = 0;
    make_queue(device, &queue);
    assert_int_equal(device->pinned->alloc(device, PAGE, &pinned), VRAM_OK);
    assert_int_equal(device->vmm->reserve(device, GRANULE, GRANULE, &base), VRAM_OK);
    assert_int_equal(device->vmm->create(device, GRANULE, &handle), VRAM_OK);
    assert_int_equal(device->vmm->map(device, base, handle, GRANULE), VRAM_OK);
    /* Work that touches memory without access, as a stray kernel would. */
    assert_int_equal(device->queue_ops->fill(&queue, base, 1, 1, GRANULE), VRAM_OK);
    vram_status status = VRAM_OK;
    for (int i = 0; i < 10000 && status != VRAM_ERR_DEVICE_LOST; i++) {
        status = device->queue_ops->poll(&queue);
        vr_os_sleep(100000);
    }
    assert_int_equal(status, VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_error_get()->native_code, VR_CU_ILLEGAL_ADDRESS);
    assert_non_null(strstr(vram_error_get()->text, "restart the process"));
    note_loss(device);
    uint64_t before = fake->calls(NULL);
    assert_int_equal(device->vmm->unmap(device, base, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, handle, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->unreserve(device, base, GRANULE), VRAM_OK);
    assert_int_equal(device->pinned->free(device, pinned, PAGE), VRAM_OK);
    assert_int_equal(device->ops->free(device, addr, GRANULE), VRAM_OK);
    end_queue(&queue);
    assert_int_equal(fake->calls(NULL), before);
}

TEST(one_lost_device_leaves_the_other) {
    struct vr_backend backend;
    struct vr_device good, bad;
    vram_addr addr = 0;
    fake->devices(2);
    start_backend(&backend);
    open_device(&backend, 0, &good);
    open_device(&backend, 1, &bad);
    fake->lose(1, VR_CU_ECC_UNCORRECTABLE);
    assert_int_equal(bad.ops->alloc(&bad, GRANULE, &addr), VRAM_ERR_DEVICE_LOST);
    note_loss(&bad);
    close_device(&bad);
    addr = take_memory(&good, GRANULE);
    give_memory(&good, addr, GRANULE);
    close_device(&good);
    backend.ops->stop(&backend);
    fake->lose(1, 0);
    struct fake_cuda_live live;
    fake->live(&live);
    assert_int_equal(live.retains, 2); /* the world's, and the lost one's, for good */
    fake->reset();
    note_loss(&((struct world *)rig_state)->device); /* the reset forgot its page too */
}

/* A device that is lost while it is closed, before anybody noticed. */
TEST(closing_meets_the_loss_first) {
    struct world *world = rig_state;
    vram_error_clear();
    fake->refuse("cuCtxPushCurrent", 1, VR_CU_ILLEGAL_ADDRESS, false);
    world->device.ops->close(&world->device);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    fake->reset(); /* forgets the page that could not be freed */
}

EACH_TEST(setup, teardown)
