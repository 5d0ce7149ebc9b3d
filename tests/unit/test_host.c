/* SPDX-License-Identifier: Apache-2.0 */
/* test_host.c: the host backend: its one device, its memory, and what it counts. */
#include "host_world.h"

/* ----------------------------------------------------------------- backend */

/* Opens a world while system call `nth` of the start fails; false when none was left to fail. */
static bool start_with_failure(uint64_t nth, uint32_t *caps) {
    struct world world;
    vr_error_set(VRAM_ERR_BUSY, "test", "before", 0, "must stay");
    vr_os_fail_at(nth, false, EPERM);
    open_world(&world);
    bool struck = vr_os_failed() > 0;
    vr_os_fail_at(0, false, 0);
    *caps = world.device.info.caps;
    assert_int_equal(!!(*caps & VRAM_CAP_PINNED), world.device.pinned != NULL);
    assert_int_equal(!!(*caps & VRAM_CAP_VMM), world.device.vmm != NULL);
    assert_string_equal(vram_error_get()->operation, "before");
    close_world(&world);
    return struck;
}

/* What the system refuses is absent as a whole, and success leaves the error record alone. */
TEST(refusals_at_start_take_capabilities) {
    struct world *world = rig_state;
    NEEDS(world->device.pinned && world->device.vmm);
    uint32_t caps, without_pinned = 0, without_vmm = 0;
    uint64_t nth = 1;
    for (; start_with_failure(nth, &caps); nth++) {
        without_pinned += !(caps & VRAM_CAP_PINNED) && (caps & VRAM_CAP_VMM);
        without_vmm += !(caps & VRAM_CAP_VMM) && (caps & VRAM_CAP_PINNED);
    }
    assert_int_equal(nth, 5); /* page, lock; file, its size */
    assert_int_equal(without_pinned, 2);
    assert_int_equal(without_vmm, 2);
}

/* The lowest free descriptor tells whether one was left open. */
static int free_descriptor(void) {
    int descriptor = dup(STDERR_FILENO);
    close(descriptor);
    return descriptor;
}

TEST(start_without_host_memory_fails) {
    struct world *world = rig_state;
    NEEDS(world->device.pinned && world->device.vmm);
    struct vr_backend backend = {.ops = &vr_host_backend};
    uint64_t blocks = vr_mem_live_blocks();
    int descriptor = free_descriptor();
    vr_mem_fail_at(1, false);
    assert_int_equal(backend.ops->start(&backend, NULL), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
    static const char *const calls[] = {"mmap", "memfd_create", "ftruncate"};
    static const uint64_t numbers[] = {1, 3, 4}; /* mlock's ENOMEM, the second, is a limit */
    for (int i = 0; i < 3; i++) {
        vr_os_fail_at(numbers[i], false, ENOMEM);
        assert_int_equal(backend.ops->start(&backend, NULL), VRAM_ERR_HOST_MEMORY);
        assert_host_error(VRAM_ERR_HOST_MEMORY, calls[i]);
    }
    vr_os_fail_at(0, false, 0);
    assert_null(backend.impl);
    assert_int_equal(vr_mem_live_blocks(), blocks);
    assert_int_equal(free_descriptor(), descriptor);
}

static void count_warning(void *user, vram_log_level level, const char *text) {
    assert_int_equal(level, VRAM_LOG_WARN);
    assert_non_null(strstr(text, "4096 bytes were never given back"));
    ++*(int *)user;
}

TEST_IN(NULL, NULL, stop_tells_what_was_not_given_back) {
    struct world world;
    open_world(&world);
    assert_int_equal(vr_host_charge(world.backend.impl, 4096, "test"), VRAM_OK);
    int warnings = 0;
    vram_log_set(count_warning, &warnings, VRAM_LOG_WARN);
    world.backend.ops->stop(&world.backend);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_int_equal(warnings, 1);
}

TEST_IN(NULL, NULL, unknown_codes_are_no_exhaustion) {
    vr_error_set(VRAM_ERR_CORRUPT, "os", "surprise", 77, "a class that the table does not know");
    assert_int_equal(vr_host_error(VRAM_ERR_DEVICE_MEMORY, "doing"), VRAM_ERR_BACKEND);
    assert_host_error(VRAM_ERR_BACKEND, "surprise");
    assert_int_equal(vram_error_get()->native_code, 77);
}

/* ------------------------------------------------------------------ memory */

TEST_IN(setup_limited, teardown, the_set_size_is_kept) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    vram_addr first, second = 99;
    vram_value free, total;
    assert_int_equal(device->info.memory_bytes.value, 8 << 20);
    assert_int_equal(device->ops->alloc(device, 6 << 20, &first), VRAM_OK);
    assert_int_equal(device->ops->memory_info(device, &free, &total), VRAM_OK);
    assert_true(free.known && free.value == 2 << 20);
    assert_true(total.known && total.value == 8 << 20);

    assert_int_equal(device->ops->alloc(device, (2 << 20) + PAGE, &second), VRAM_ERR_DEVICE_MEMORY);
    assert_host_error(VRAM_ERR_DEVICE_MEMORY, "alloc");
    assert_non_null(strstr(vram_error_get()->text, "host_memory"));
    assert_int_equal(device->ops->alloc(device, UINT64_MAX - PAGE + 1, &second),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(second, 99);
    assert_int_equal(held_by(world), 6 << 20);

    assert_int_equal(device->ops->alloc(device, 2 << 20, &second), VRAM_OK);
    assert_int_equal(device->ops->free(device, first, 6 << 20), VRAM_OK);
    assert_int_equal(device->ops->free(device, second, 2 << 20), VRAM_OK);
}

TEST(the_machine_bounds_what_nobody_set) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    vram_value free, total;
    assert_int_equal(device->ops->memory_info(device, &free, &total), VRAM_OK);
    assert_true(total.known && total.value == device->info.memory_bytes.value);
    assert_true(free.known && free.value <= total.value);
    vram_addr addr = 99;
    assert_int_equal(device->ops->alloc(device, total.value / PAGE * PAGE + PAGE, &addr),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_null(strstr(vram_error_get()->text, "host_memory"));
    assert_int_equal(addr, 99);
}

TEST(unknown_memory_is_unknown) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    struct vr_host *host = device->impl;
    struct vram_device_info info = {0};
    vram_value free, total;
    host->total = UINT64_MAX; /* as measured where the system does not tell */
    assert_int_equal(vr_host_backend.describe(&world->backend, 0, &info), VRAM_OK);
    assert_false(info.memory_bytes.known);
    assert_int_equal(device->ops->memory_info(device, &free, &total), VRAM_OK);
    assert_false(total.known);
    assert_int_equal(total.value, 0);
}

TEST(pinned_memory_is_locked_up_to_the_limit) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device;
    NEEDS(device->pinned);
    vram_addr addr, more = 99;
    assert_int_equal(device->pinned->alloc(device, PAGE, &addr), VRAM_OK);
    memset(vr_host_pointer(addr), 1, PAGE);
    for (int error = 0; error < 3; error++) {
        static const int codes[] = {ENOMEM, EAGAIN, EPERM};
        vr_os_fail_at(2, false, codes[error]); /* the pages come, the lock does not */
        assert_int_equal(device->pinned->alloc(device, PAGE, &more), VRAM_ERR_LIMIT);
        assert_host_error(VRAM_ERR_LIMIT, "mlock");
        assert_int_equal(vram_error_get()->native_code, codes[error]);
        assert_int_equal(held_by(world), PAGE);
    }
    assert_int_equal(more, 99);
    assert_int_equal(device->pinned->free(device, addr, PAGE), VRAM_OK);
}

EACH_TEST(setup, teardown)
