/* SPDX-License-Identifier: Apache-2.0 */
/* test_host_vmm.c: reserving, mapping and moving memory on the host. */
#include "host_world.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reserves `count` granules: addresses that nobody can touch yet. */
static vram_addr reserve_granules(struct vr_device *device, uint64_t count, uint64_t align) {
    vram_addr range;
    assert_int_equal(device->vmm->reserve(device, count * GRANULE, align, &range), VRAM_OK);
    assert_int_equal(range % align, 0);
    assert_false(readable(range));
    return range;
}

static void map_at(struct vr_device *device, vram_addr addr, uint64_t handle) {
    assert_int_equal(device->vmm->map(device, addr, handle, GRANULE), VRAM_OK);
    assert_false(readable(addr)); /* not before access */
    assert_int_equal(device->vmm->access(device, addr, GRANULE), VRAM_OK);
    assert_true(readable(addr));
}

static void memory_moves_and_keeps_its_contents(void **state) {
    struct world *world = *state;
    NEEDS(world->device.vmm);
    struct vr_device *device = &world->device;
    vram_addr range = reserve_granules(device, 4, GRANULE);
    uint64_t handle;
    assert_int_equal(device->vmm->create(device, GRANULE, &handle), VRAM_OK);
    assert_true(handle != 0);
    assert_int_equal(held_by(world), GRANULE);
    map_at(device, range + GRANULE, handle);
    memset(vr_host_pointer(range + GRANULE), 0x5a, GRANULE);
    assert_false(readable(range) || readable(range + 2 * GRANULE));

    assert_int_equal(device->vmm->unmap(device, range + GRANULE, GRANULE), VRAM_OK);
    assert_false(readable(range + GRANULE));
    map_at(device, range + 3 * GRANULE, handle);
    unsigned char *moved = vr_host_pointer(range + 3 * GRANULE);
    assert_int_equal(moved[0], 0x5a);
    assert_int_equal(moved[GRANULE - 1], 0x5a);

    assert_int_equal(device->vmm->unmap(device, range + 3 * GRANULE, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, handle, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->unreserve(device, range, 4 * GRANULE), VRAM_OK);
}

/* Whether the system can write there. */
static bool writable(vram_addr addr) {
    int zeros = open("/dev/zero", O_RDONLY);
    assert_true(zeros >= 0);
    bool written = read(zeros, vr_host_pointer(addr), 1) == 1;
    close(zeros);
    return written;
}

static void memory_becomes_read_only(void **state) {
    struct world *world = *state;
    NEEDS(world->device.vmm);
    struct vr_device *device = &world->device;
    vram_addr range = reserve_granules(device, 2, GRANULE);
    uint64_t handle;
    assert_int_equal(device->vmm->create(device, GRANULE, &handle), VRAM_OK);
    assert_int_equal(device->vmm->map(device, range, handle, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->access(device, range, GRANULE), VRAM_OK);
    assert_true(writable(range));
    assert_int_equal(device->vmm->protect(device, range, GRANULE, true), VRAM_OK);
    assert_true(readable(range) && !writable(range));
    assert_int_equal(device->vmm->protect(device, range, GRANULE, false), VRAM_OK);
    assert_true(writable(range + GRANULE - 1));
    vr_os_fail_at(1, false, ENOMEM);
    assert_int_equal(device->vmm->protect(device, range, GRANULE, true), VRAM_ERR_HOST_MEMORY);
    vr_os_fail_at(0, false, 0);
    assert_int_equal(device->vmm->unmap(device, range, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, handle, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->unreserve(device, range, 2 * GRANULE), VRAM_OK);
}

static void several_handles_side_by_side(void **state) {
    struct world *world = *state;
    NEEDS(world->device.vmm);
    struct vr_device *device = &world->device;
    vram_addr range = reserve_granules(device, 3, GRANULE);
    uint64_t large, small;
    assert_int_equal(device->vmm->create(device, 2 * GRANULE, &large), VRAM_OK);
    assert_int_equal(device->vmm->create(device, GRANULE, &small), VRAM_OK);
    assert_int_equal(device->vmm->map(device, range, small, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->map(device, range + GRANULE, large, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->access(device, range, 3 * GRANULE), VRAM_OK);
    memset(vr_host_pointer(range), 1, 3 * GRANULE);
    assert_int_equal(device->vmm->unmap(device, range + GRANULE, 2 * GRANULE), VRAM_OK);
    assert_true(readable(range + GRANULE - 1));
    assert_false(readable(range + GRANULE));
    assert_int_equal(device->vmm->unmap(device, range, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, large, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, small, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->unreserve(device, range, 3 * GRANULE), VRAM_OK);
}

/* Bytes of memory behind all physical handles. */
static uint64_t file_bytes(const struct world *world) {
    const struct vr_host *host = world->backend.impl;
    struct stat file;
    assert_int_equal(fstat(host->file, &file), 0);
    return (uint64_t)file.st_blocks * 512;
}

/* A released handle is never given out again and its memory is the system's. */
static void released_memory_is_gone(void **state) {
    struct world *world = *state;
    NEEDS(world->device.vmm);
    struct vr_device *device = &world->device;
    vram_addr range = reserve_granules(device, 1, GRANULE);
    uint64_t first, second;
    assert_int_equal(device->vmm->create(device, GRANULE, &first), VRAM_OK);
    map_at(device, range, first);
    memset(vr_host_pointer(range), 0xee, GRANULE);
    assert_int_equal(device->vmm->unmap(device, range, GRANULE), VRAM_OK);
    assert_int_equal(file_bytes(world), GRANULE);
    assert_int_equal(device->vmm->release(device, first, GRANULE), VRAM_OK);
    assert_int_equal(file_bytes(world), 0);
    assert_int_equal(device->vmm->create(device, GRANULE, &second), VRAM_OK);
    assert_true(second >= first + GRANULE);
    map_at(device, range, first); /* stale, on purpose */
    assert_int_equal(*(unsigned char *)vr_host_pointer(range), 0);
    assert_int_equal(device->vmm->unmap(device, range, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, second, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->unreserve(device, range, GRANULE), VRAM_OK);
}

static void ranges_take_any_alignment(void **state) {
    struct world *world = *state;
    NEEDS(world->device.vmm);
    for (uint64_t align = GRANULE; align <= UINT64_C(1) << 34; align <<= 4) {
        vram_addr range = reserve_granules(&world->device, 1, align);
        assert_int_equal(world->device.vmm->unreserve(&world->device, range, GRANULE), VRAM_OK);
    }
    vram_addr none = 99;
    vram_status status =
        world->device.vmm->reserve(&world->device, UINT64_C(1) << 62, GRANULE, &none);
    assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
    assert_host_error(VRAM_ERR_HOST_MEMORY, "mmap");
    assert_int_equal(none, 99);
}

static void offsets_end_before_they_repeat(void **state) {
    struct world *world = *state;
    NEEDS(world->device.vmm);
    struct vr_device *device = &world->device;
    struct vr_host *host = device->impl;
    vr_store(&host->next, (UINT64_C(1) << 62) - GRANULE, VR_RELAXED);
    uint64_t handle = 99, last;
    assert_int_equal(device->vmm->create(device, 2 * GRANULE, &handle), VRAM_ERR_LIMIT);
    assert_host_error(VRAM_ERR_LIMIT, "create");
    assert_int_equal(handle, 99);
    assert_int_equal(held_by(world), 0);
    assert_int_equal(device->vmm->create(device, GRANULE, &last), VRAM_OK);
    assert_int_equal(device->vmm->create(device, GRANULE, &handle), VRAM_ERR_LIMIT);
    assert_int_equal(device->vmm->release(device, last, GRANULE), VRAM_OK);
}

static void vmm_calls_that_fail_change_nothing(void **state) {
    struct world *world = *state;
    NEEDS(world->device.vmm);
    struct vr_device *device = &world->device;
    const struct vr_vmm_ops *vmm = device->vmm;
    vram_addr range = reserve_granules(device, 1, GRANULE), none = 99;
    uint64_t handle;
    assert_int_equal(vmm->create(device, GRANULE, &handle), VRAM_OK);

    vr_os_fail_at(1, true, ENOMEM);
    assert_int_equal(vmm->reserve(device, GRANULE, GRANULE, &none), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(vmm->map(device, range, handle, GRANULE), VRAM_ERR_HOST_MEMORY);
    assert_host_error(VRAM_ERR_HOST_MEMORY, "mmap");
    vr_os_fail_at(0, false, 0);
    assert_int_equal(none, 99);

    assert_int_equal(vmm->map(device, range, handle, GRANULE), VRAM_OK);
    vr_os_fail_at(1, false, EACCES);
    assert_int_equal(vmm->access(device, range, GRANULE), VRAM_ERR_IO);
    assert_host_error(VRAM_ERR_IO, "mprotect");
    assert_false(readable(range));
    assert_int_equal(vmm->access(device, range, GRANULE), VRAM_OK);

    /* What cannot be given back stays: the system refuses addresses off the page. */
    assert_int_equal(vmm->unmap(device, range + 1, GRANULE), VRAM_ERR_IO);
    assert_true(readable(range));
    assert_int_equal(vmm->unreserve(device, range + 1, GRANULE), VRAM_ERR_IO);
    assert_true(vmm->release(device, handle, UINT64_C(1) << 63) != VRAM_OK);
    assert_int_equal(held_by(world), GRANULE);

    assert_int_equal(vmm->unmap(device, range, GRANULE), VRAM_OK);
    assert_int_equal(vmm->release(device, handle, GRANULE), VRAM_OK);
    assert_int_equal(vmm->unreserve(device, range, GRANULE), VRAM_OK);
}

static void a_lost_device_gives_back(void **state) {
    struct world *world = *state;
    NEEDS(world->device.vmm);
    struct vr_device *device = &world->device;
    vram_addr memory, range;
    uint64_t handle;
    assert_int_equal(device->ops->alloc(device, PAGE, &memory), VRAM_OK);
    assert_int_equal(device->vmm->reserve(device, GRANULE, GRANULE, &range), VRAM_OK);
    assert_int_equal(device->vmm->create(device, GRANULE, &handle), VRAM_OK);
    assert_int_equal(device->vmm->map(device, range, handle, GRANULE), VRAM_OK);
    vr_store(&device->lost, true, VR_RELEASE);
    assert_int_equal(device->vmm->unmap(device, range, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, handle, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->unreserve(device, range, GRANULE), VRAM_OK);
    assert_int_equal(device->ops->free(device, memory, PAGE), VRAM_OK);
    assert_false(readable(memory));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(a_lost_device_gives_back),       HERE(memory_moves_and_keeps_its_contents),
        HERE(memory_becomes_read_only),       HERE(several_handles_side_by_side),
        HERE(released_memory_is_gone),        HERE(ranges_take_any_alignment),
        HERE(offsets_end_before_they_repeat), HERE(vmm_calls_that_fail_change_nothing),
    };
    return cmocka_run_group_tests_name("host_vmm", tests, NULL, NULL);
}
