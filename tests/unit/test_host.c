/* SPDX-License-Identifier: Apache-2.0 */
/* test_host.c: the host backend: its one device, its memory, and what it counts. */
#include "host_world.h"

/* ----------------------------------------------------------------- backend */

static void describes_itself(void **state) {
    struct world *world = *state;
    const struct vram_device_info *info = &world->device.info;
    assert_int_equal(info->kind, VRAM_DEVICE_CPU);
    assert_string_equal(info->backend, "host");
    assert_true(info->name[0] != 0);
#if defined(__x86_64__)
    assert_string_equal(info->architecture, "x86_64");
#endif
    assert_true(info->memory_bytes.known && info->memory_bytes.value > 0);
    assert_true(info->alloc_granule.known && info->alloc_granule.value == PAGE);
    assert_false(info->alloc_max.known);
    assert_false(info->uuid_known || info->pci_known);
    assert_true(world->backend.version[0] != 0);
}

static void caps_agree_with_groups(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    uint32_t caps = device->info.caps;
    assert_int_equal(!!(caps & VRAM_CAP_VMM), device->vmm != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_PINNED), device->pinned != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_MANAGED), device->managed != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_PEERS), device->peer != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_KERNELS), device->kernel != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_VMM), device->info.vmm_granule.known);
    assert_false(caps & (VRAM_CAP_ADOPT | VRAM_CAP_SIMULATED | VRAM_CAP_PEERS));
    assert_true(caps & VRAM_CAP_TRUE_ADDRESS && caps & VRAM_CAP_HOST_ACCESS);
    assert_int_equal(caps & ~device->info.caps_known, 0);
}

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
static void refusals_at_start_take_capabilities(void **state) {
    struct world *world = *state;
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

static void start_without_host_memory_fails(void **state) {
    struct world *world = *state;
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

static void stop_tells_what_was_not_given_back(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    assert_int_equal(vr_host_charge(world.backend.impl, 4096, "test"), VRAM_OK);
    int warnings = 0;
    vram_log_set(count_warning, &warnings, VRAM_LOG_WARN);
    world.backend.ops->stop(&world.backend);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_int_equal(warnings, 1);
}

static void unknown_codes_are_no_exhaustion(void **state) {
    (void)state;
    vr_error_set(VRAM_ERR_CORRUPT, "os", "surprise", 77, "a class that the table does not know");
    assert_int_equal(vr_host_error(VRAM_ERR_DEVICE_MEMORY, "doing"), VRAM_ERR_BACKEND);
    assert_host_error(VRAM_ERR_BACKEND, "surprise");
    assert_int_equal(vram_error_get()->native_code, 77);
}

/* ------------------------------------------------------------------ memory */

static void memory_is_fresh_and_writable(void **state) {
    struct world *world = *state;
    const struct vr_device_ops *ops = world->device.ops;
    vram_addr addr;
    assert_int_equal(ops->alloc(&world->device, 3 * PAGE, &addr), VRAM_OK);
    assert_int_equal(addr % PAGE, 0);
    assert_int_equal(held_by(world), 3 * PAGE);
    unsigned char *bytes = vr_host_pointer(addr);
    assert_int_equal(bytes[0] | bytes[3 * PAGE - 1], 0);
    memset(bytes, 7, 3 * PAGE);
    assert_int_equal(ops->free(&world->device, addr, 3 * PAGE), VRAM_OK);
    assert_false(readable(addr));
    assert_int_equal(held_by(world), 0);
}

static void two_handles_share_one_memory(void **state) {
    struct world *world = *state;
    struct vr_device second;
    open_device(&world->backend, &second);
    vram_addr addr;
    assert_int_equal(second.ops->alloc(&second, PAGE, &addr), VRAM_OK);
    vram_value free, total;
    assert_int_equal(world->device.ops->memory_info(&world->device, &free, &total), VRAM_OK);
    assert_int_equal(total.value - free.value, PAGE);
    assert_int_equal(second.ops->free(&second, addr, PAGE), VRAM_OK);
    second.ops->close(&second);
}

static void the_set_size_is_kept(void **state) {
    struct world *world = *state;
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

/* Every kind of memory comes out of the one device. */
static void all_kinds_count(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    NEEDS(device->pinned && device->vmm);
    vram_addr managed, none = 99;
    uint64_t handle, no_handle = 99;
    assert_int_equal(device->managed->alloc(device, 4 << 20, &managed), VRAM_OK);
    assert_int_equal(device->vmm->create(device, 2 << 20, &handle), VRAM_OK);
    assert_int_equal(held_by(world), 6 << 20);
    assert_int_equal(device->managed->alloc(device, 4 << 20, &none), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(device->pinned->alloc(device, 4 << 20, &none), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(device->vmm->create(device, 4 << 20, &no_handle), VRAM_ERR_DEVICE_MEMORY);
    assert_host_error(VRAM_ERR_DEVICE_MEMORY, "create");
    assert_true(none == 99 && no_handle == 99);
    assert_int_equal(device->vmm->release(device, handle, 2 << 20), VRAM_OK);
    assert_int_equal(device->managed->free(device, managed, 4 << 20), VRAM_OK);
}

static void the_machine_bounds_what_nobody_set(void **state) {
    struct world *world = *state;
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

static void unknown_memory_is_unknown(void **state) {
    struct world *world = *state;
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

static void pinned_memory_is_locked_up_to_the_limit(void **state) {
    struct world *world = *state;
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

static void memory_calls_that_fail_change_nothing(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    NEEDS(device->pinned);
    vram_addr addr = 99;
    vr_os_fail_at(1, true, ENOMEM);
    assert_int_equal(device->ops->alloc(device, PAGE, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_host_error(VRAM_ERR_DEVICE_MEMORY, "mmap");
    assert_int_equal(vram_error_get()->native_code, ENOMEM);
    assert_int_equal(device->managed->alloc(device, PAGE, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(device->pinned->alloc(device, PAGE, &addr), VRAM_ERR_DEVICE_MEMORY);
    vr_os_fail_at(1, true, EINVAL);
    assert_int_equal(device->ops->alloc(device, PAGE, &addr), VRAM_ERR_IO);
    vr_os_fail_at(0, false, 0);
    assert_int_equal(addr, 99);
    assert_int_equal(held_by(world), 0);

    /* A free that the system refuses leaves the memory held. */
    assert_int_equal(device->ops->alloc(device, PAGE, &addr), VRAM_OK);
    assert_int_equal(device->ops->free(device, addr + 1, PAGE), VRAM_ERR_IO);
    assert_host_error(VRAM_ERR_IO, "munmap");
    assert_int_equal(held_by(world), PAGE);
    assert_int_equal(device->ops->free(device, addr, PAGE), VRAM_OK);
}

enum { TAKERS = 4, ROUNDS = 100 };

struct taker {
    struct vr_thread thread;
    struct world *world;
    bool wrong; /* a status that must not be, or more held than there is */
};

/* Takes 3 MiB and 2 MiB in turn, until each was had ROUNDS times. */
static void take_and_give(void *argument) {
    struct taker *self = argument;
    struct vr_device *device = &self->world->device;
    for (int had = 0; had < 2 * ROUNDS && !self->wrong;) {
        vram_addr addr;
        uint64_t handle;
        vram_status status = had % 2 ? device->vmm->create(device, GRANULE, &handle)
                                     : device->ops->alloc(device, 3 << 20, &addr);
        self->wrong = held_by(self->world) > 8 << 20;
        if (status == VRAM_OK) {
            status = had % 2 ? device->vmm->release(device, handle, GRANULE)
                             : device->ops->free(device, addr, 3 << 20);
            self->wrong = self->wrong || status != VRAM_OK;
            had++;
        } else {
            self->wrong = self->wrong || status != VRAM_ERR_DEVICE_MEMORY;
            vr_os_yield();
        }
    }
}

/* Four threads want up to 12 MiB of 8: some are refused, nothing is miscounted. */
static void many_threads_share_the_memory(void **state) {
    struct world *world = *state;
    struct taker takers[TAKERS];
    NEEDS(world->device.vmm);
    for (int i = 0; i < TAKERS; i++) {
        takers[i] = (struct taker){.world = world};
        assert_int_equal(vr_os_thread_start(&takers[i].thread, "taker", take_and_give, &takers[i]),
                         VRAM_OK);
    }
    for (int i = 0; i < TAKERS; i++) {
        vr_os_thread_join(&takers[i].thread);
    }
    for (int i = 0; i < TAKERS; i++) {
        assert_false(takers[i].wrong);
    }
    assert_int_equal(held_by(world), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(describes_itself),
        HERE(caps_agree_with_groups),
        HERE(refusals_at_start_take_capabilities),
        HERE(start_without_host_memory_fails),
        cmocka_unit_test(stop_tells_what_was_not_given_back),
        cmocka_unit_test(unknown_codes_are_no_exhaustion),
        HERE(memory_is_fresh_and_writable),
        LIMITED(two_handles_share_one_memory),
        LIMITED(the_set_size_is_kept),
        LIMITED(all_kinds_count),
        HERE(the_machine_bounds_what_nobody_set),
        HERE(unknown_memory_is_unknown),
        HERE(pinned_memory_is_locked_up_to_the_limit),
        HERE(memory_calls_that_fail_change_nothing),
        LIMITED(many_threads_share_the_memory),
    };
    return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
