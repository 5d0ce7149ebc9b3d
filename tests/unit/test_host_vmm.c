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

/* Whether the system can write there. */
static bool writable(vram_addr addr) {
    int zeros = open("/dev/zero", O_RDONLY);
    assert_true(zeros >= 0);
    bool written = read(zeros, vr_host_pointer(addr), 1) == 1;
    close(zeros);
    return written;
}

TEST(memory_becomes_read_only) {
    struct world *world = rig_state;
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

/* Bytes of memory behind all physical handles. */
static uint64_t file_bytes(const struct world *world) {
    const struct vr_host *host = world->backend.impl;
    struct stat file;
    assert_int_equal(fstat(host->file, &file), 0);
    return (uint64_t)file.st_blocks * 512;
}

/* A released handle is never given out again and its memory is the system's. */
TEST(released_memory_is_gone) {
    struct world *world = rig_state;
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

TEST(offsets_end_before_they_repeat) {
    struct world *world = rig_state;
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

TEST(a_lost_device_gives_back) {
    struct world *world = rig_state;
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

EACH_TEST(setup, teardown)
