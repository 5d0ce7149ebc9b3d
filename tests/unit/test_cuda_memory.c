/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_memory.c: device memory, pinned memory and virtual memory management of the CUDA
 * backend; whose context is current; what a lost device and a lying driver do to it.
 */
#include "unit/cuda_world.h"

/* ------------------------------------------------------------------- memory */

static void memory_is_taken_and_given(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    vram_value free_before, free_now, total;
    assert_int_equal(device->ops->memory_info(device, &free_before, &total), VRAM_OK);
    assert_true(free_before.known && total.known && total.value == UINT64_C(4) << 30);
    vram_addr addr = take_memory(device, 4 * GRANULE);
    assert_int_equal(addr % GRANULE, 0);
    assert_int_equal(device->ops->memory_info(device, &free_now, &total), VRAM_OK);
    assert_int_equal(free_now.value, free_before.value - 4 * GRANULE);
    give_memory(device, addr, 4 * GRANULE);
    assert_int_equal(device->ops->memory_info(device, &free_now, &total), VRAM_OK);
    assert_int_equal(free_now.value, free_before.value);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
}

static void a_full_device_says_so(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    fake->capacity(8 * GRANULE);
    vram_addr first = take_memory(device, 6 * GRANULE), second = 7;
    assert_int_equal(device->ops->alloc(device, 4 * GRANULE, &second), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(second, 7);
    assert_cuda_error(VRAM_ERR_DEVICE_MEMORY, "cuMemAlloc", VR_CU_OUT_OF_MEMORY);
    assert_non_null(strstr(vram_error_get()->text, "CUDA_ERROR_OUT_OF_MEMORY, 2"));
    second = take_memory(device, 2 * GRANULE);
    give_memory(device, second, 2 * GRANULE);
    give_memory(device, first, 6 * GRANULE);
}

static void a_free_that_fails_changes_nothing(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    vram_addr addr = take_memory(device, GRANULE);
    fake->refuse("cuMemFree", 1, VR_CU_UNKNOWN, false);
    assert_int_equal(device->ops->free(device, addr, GRANULE), VRAM_ERR_BACKEND);
    assert_cuda_error(VRAM_ERR_BACKEND, "cuMemFree", VR_CU_UNKNOWN);
    give_memory(device, addr, GRANULE);
}

static void pinned_memory_is_page_aligned(void **state) {
    struct world *world = *state;
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

/* Pinned memory is the host's: that it ran out is not the device's exhaustion. */
static void pinned_memory_may_run_out(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    vram_addr addr = 7;
    fake->refuse("cuMemHostAlloc", 1, VR_CU_OUT_OF_MEMORY, false);
    assert_int_equal(device->pinned->alloc(device, PAGE, &addr), VRAM_ERR_HOST_MEMORY);
    assert_cuda_error(VRAM_ERR_HOST_MEMORY, "cuMemHostAlloc", VR_CU_OUT_OF_MEMORY);
    assert_int_equal(addr, 7);
    /* ... also when it runs out at the second, larger try. */
    fake->pinned_offset(512);
    fake->refuse("cuMemHostAlloc", 2, VR_CU_OUT_OF_MEMORY, false);
    assert_int_equal(device->pinned->alloc(device, PAGE, &addr), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(addr, 7);
}

/* --------------------------------------------------------------------- lies */

static void lies_are_found_and_given_back(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    uint64_t before = live_total();
    for (int kind = FAKE_CUDA_NULL; kind <= FAKE_CUDA_MISALIGNED; kind++) {
        enum fake_cuda_lie lie = (enum fake_cuda_lie)kind;
        vram_addr addr = 7;
        fake->lie("cuMemAlloc", 1, lie, false);
        assert_int_equal(device->ops->alloc(device, GRANULE, &addr), VRAM_ERR_CORRUPT);
        assert_cuda_error(VRAM_ERR_CORRUPT, "cuMemAlloc", 0);
        fake->lie("cuMemHostAlloc", 1, lie, true);
        assert_int_equal(device->pinned->alloc(device, PAGE, &addr), VRAM_ERR_CORRUPT);
        assert_cuda_error(VRAM_ERR_CORRUPT, "cuMemHostAlloc", 0);
        fake->lie("cuMemAddressReserve", 1, lie, false);
        assert_int_equal(device->vmm->reserve(device, GRANULE, GRANULE, &addr), VRAM_ERR_CORRUPT);
        assert_cuda_error(VRAM_ERR_CORRUPT, "cuMemAddressReserve", 0);
        assert_int_equal(addr, 7);
        assert_int_equal(live_total(), before);
    }
    uint64_t handle = 7;
    fake->lie("cuMemCreate", 1, FAKE_CUDA_NULL, false);
    assert_int_equal(device->vmm->create(device, GRANULE, &handle), VRAM_ERR_CORRUPT);
    assert_int_equal(handle, 7);
    struct vr_queue queue = {.device = device};
    fake->lie("cuStreamCreateWithPriority", 1, FAKE_CUDA_NULL, false);
    assert_int_equal(device->queue_ops->create(&queue, NULL), VRAM_ERR_CORRUPT);
    assert_null(queue.impl);
}

static void a_device_opened_by_a_liar_is_not(void **state) {
    struct world *world = *state;
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

static void handles_are_mapped_whole(void **state) {
    struct world *world = *state;
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

/* Addresses, device memory and host memory run out apart from each other. */
static void exhaustions_are_told_apart(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    vram_addr base = 0;
    uint64_t handle = 0;
    fake->refuse("cuMemAddressReserve", 1, VR_CU_OUT_OF_MEMORY, false);
    assert_int_equal(device->vmm->reserve(device, GRANULE, GRANULE, &base), VRAM_ERR_LIMIT);
    fake->capacity(4 * GRANULE);
    assert_int_equal(device->vmm->create(device, 8 * GRANULE, &handle), VRAM_ERR_DEVICE_MEMORY);
    assert_cuda_error(VRAM_ERR_DEVICE_MEMORY, "cuMemCreate", VR_CU_OUT_OF_MEMORY);
}

static void devices_without_vmm_have_no_group(void **state) {
    struct world *world = *state;
    struct vr_device device;
    fake->attribute(VR_CU_ATTRIBUTE_VMM, 0);
    fake->attribute(VR_CU_ATTRIBUTE_CONCURRENT_MANAGED, 0);
    open_device(&world->backend, 0, &device);
    assert_null(device.vmm);
    assert_non_null(device.pinned);
    assert_null(device.managed);
    assert_null(device.peer); /* there is one device */
    assert_non_null(device.kernel);
    close_device(&device);
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
static void the_callers_context_is_found_again(void **state) {
    struct world *world = *state;
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

/* A context that cannot be made current is an answer, and leaves nothing behind. */
static void a_context_that_is_refused_fails_the_call(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    vram_addr addr = 7;
    fake->refuse("cuCtxPushCurrent", 1, VR_CU_UNKNOWN, false);
    assert_int_equal(device->ops->alloc(device, GRANULE, &addr), VRAM_ERR_BACKEND);
    assert_cuda_error(VRAM_ERR_BACKEND, "cuCtxPushCurrent", VR_CU_UNKNOWN);
    assert_int_equal(addr, 7);
    fake->refuse("cuCtxPopCurrent", 1, VR_CU_UNKNOWN, false);
    addr = take_memory(device, GRANULE);
    assert_int_equal(fake->depth(), 1); /* nobody can help that */
    fake->pop();
    give_memory(device, addr, GRANULE);
}

/* cudaDeviceReset behind our back: what we had is gone, and the device says so. */
static void a_device_that_was_reset_is_lost(void **state) {
    struct world *world = *state;
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
static void a_reset_is_noticed_when_the_context_lives_again(void **state) {
    struct world *world = *state;
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

static void devices_can_be_opened_twice(void **state) {
    struct world *world = *state;
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
static void a_lost_device_is_left_alone(void **state) {
    struct world *world = *state;
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

static void one_lost_device_leaves_the_other(void **state) {
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
    note_loss(&((struct world *)*state)->device); /* the reset forgot its page too */
}

/* A device that is lost while it is closed, before anybody noticed. */
static void closing_meets_the_loss_first(void **state) {
    struct world *world = *state;
    vram_error_clear();
    fake->refuse("cuCtxPushCurrent", 1, VR_CU_ILLEGAL_ADDRESS, false);
    world->device.ops->close(&world->device);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    fake->reset(); /* forgets the page that could not be freed */
}

static void opening_undoes_what_it_did(void **state) {
    struct world *world = *state;
    struct vr_device device = {.backend = &world->backend, .info = world->device.info};
    static const struct {
        const char *call;
        vr_cu_result code;
        vram_status status;
    } rows[] = {
        {"cuDeviceGet", VR_CU_INVALID_DEVICE, VRAM_ERR_INVALID},
        {"cuDevicePrimaryCtxRetain", VR_CU_DEVICE_UNAVAILABLE, VRAM_ERR_BUSY},
        {"cuDevicePrimaryCtxRetain", VR_CU_OUT_OF_MEMORY, VRAM_ERR_DEVICE_MEMORY},
        {"cuCtxPushCurrent", VR_CU_UNKNOWN, VRAM_ERR_BACKEND},
        {"cuCtxGetId", VR_CU_UNKNOWN, VRAM_ERR_BACKEND},
        {"cuMemHostRegister", VR_CU_OUT_OF_MEMORY, VRAM_ERR_HOST_MEMORY},
    };
    uint64_t live = live_total(), blocks = vr_mem_live_blocks();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake->refuse(rows[i].call, 1, rows[i].code, false);
        assert_int_equal(world->backend.ops->device_open(&device), rows[i].status);
        assert_cuda_error(rows[i].status, rows[i].call, rows[i].code);
        assert_null(device.impl);
        assert_int_equal(live_total(), live);
    }
    for (uint64_t nth = 1;; nth++) {
        vr_mem_fail_at(nth, false);
        vram_status status = world->backend.ops->device_open(&device);
        bool failed = vr_mem_failed() > 0;
        vr_mem_fail_at(0, false);
        if (!failed) {
            assert_int_equal(status, VRAM_OK);
            break;
        }
        assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
        assert_int_equal(vr_mem_live_blocks(), blocks);
        assert_int_equal(live_total(), live);
    }
    close_device(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(memory_is_taken_and_given),
        HERE(a_full_device_says_so),
        HERE(a_free_that_fails_changes_nothing),
        HERE(pinned_memory_is_page_aligned),
        HERE(pinned_memory_may_run_out),
        HERE(lies_are_found_and_given_back),
        HERE(a_device_opened_by_a_liar_is_not),
        HERE(handles_are_mapped_whole),
        HERE(exhaustions_are_told_apart),
        HERE(devices_without_vmm_have_no_group),
        HERE(the_callers_context_is_found_again),
        HERE(a_context_that_is_refused_fails_the_call),
        HERE(a_device_that_was_reset_is_lost),
        HERE(a_reset_is_noticed_when_the_context_lives_again),
        HERE(devices_can_be_opened_twice),
        HERE(a_lost_device_is_left_alone),
        HERE(one_lost_device_leaves_the_other),
        HERE(closing_meets_the_loss_first),
        HERE(opening_undoes_what_it_did),
    };
    return cmocka_run_group_tests_name("cuda_memory", tests, NULL, NULL);
}
