/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_peer.c: devices that use each other's memory, also what is mapped before and after one
 * became the other's peer; and managed memory with its hints.
 */
#include "unit/cuda_world.h"

/* A second device beside the world's own, which is opened again so that it knows of it. */
static void open_pair(struct world *world, struct vr_device *second) {
    close_device(&world->device);
    world->backend.ops->stop(&world->backend);
    fake->devices(2);
    start_backend(&world->backend);
    open_device(&world->backend, 0, &world->device);
    open_device(&world->backend, 1, second);
    assert_non_null(world->device.peer);
}

/* A reserved range of `count` granules with memory under the first `mapped` of them. */
struct ground {
    vram_addr base;
    uint64_t handles[4];
    int count;
};

static void map_one(struct vr_device *device, struct ground *ground) {
    vram_addr at = ground->base + (uint64_t)ground->count * GRANULE;
    uint64_t *handle = &ground->handles[ground->count++];
    assert_int_equal(device->vmm->create(device, GRANULE, handle), VRAM_OK);
    assert_int_equal(device->vmm->map(device, at, *handle, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->access(device, at, GRANULE), VRAM_OK);
}

static void unmap_one(struct vr_device *device, struct ground *ground) {
    vram_addr at = ground->base + (uint64_t)--ground->count * GRANULE;
    assert_int_equal(device->vmm->unmap(device, at, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, ground->handles[ground->count], GRANULE),
                     VRAM_OK);
}

static void end_ground(struct vr_device *device, struct ground *ground) {
    while (ground->count) {
        unmap_one(device, ground);
    }
    assert_int_equal(device->vmm->unreserve(device, ground->base, 4 * GRANULE), VRAM_OK);
}

TEST(mappings_are_opened_to_peers) {
    struct world *world = rig_state;
    struct vr_device second, *first = &world->device;
    struct ground ground = {.count = 0};
    open_pair(world, &second);
    assert_int_equal(second.vmm->reserve(&second, 4 * GRANULE, GRANULE, &ground.base), VRAM_OK);
    map_one(&second, &ground);
    map_one(&second, &ground);
    assert_true(fake->reaches(1, ground.base));
    assert_false(fake->reaches(0, ground.base));
    assert_true(first->peer->reachable(first, &second));
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK);
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK); /* again */
    assert_true(fake->reaches(0, ground.base));                     /* mapped before */
    assert_true(fake->reaches(0, ground.base + GRANULE));
    map_one(&second, &ground);
    assert_true(fake->reaches(0, ground.base + 2 * GRANULE)); /* and after */
    unmap_one(&second, &ground);
    unmap_one(&second, &ground);
    map_one(&second, &ground);
    assert_true(fake->reaches(0, ground.base + GRANULE)); /* and again in the same place */
    assert_false(fake->reaches(0, ground.base + 2 * GRANULE));
    end_ground(&second, &ground);
    close_device(&second);
}

/* What is read-only stays so for all devices when one becomes a peer, and is writable for all when
   it is made so; of handles that became accessible in one call, too. */
TEST(read_only_mappings_stay_so) {
    struct world *world = rig_state;
    struct vr_device second, *first = &world->device;
    struct ground ground = {.count = 0};
    open_pair(world, &second);
    assert_int_equal(second.vmm->reserve(&second, 4 * GRANULE, GRANULE, &ground.base), VRAM_OK);
    map_one(&second, &ground);
    map_one(&second, &ground);
    map_one(&second, &ground);
    assert_int_equal(second.vmm->access(&second, ground.base, 3 * GRANULE), VRAM_OK);
    vram_addr middle = ground.base + GRANULE;
    assert_int_equal(second.vmm->protect(&second, middle, GRANULE, true), VRAM_OK);
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK);
    for (int i = 0; i < 3; i++) {
        vram_addr at = ground.base + (uint64_t)i * GRANULE;
        assert_true(fake->reaches(0, at) && fake->reaches(1, at));
        assert_int_equal(fake->writable(0, at), i != 1);
        assert_int_equal(fake->writable(1, at), i != 1);
    }
    fake->refuse(WORLD_TRIES ? "hipMemSetAccess" : "cuMemSetAccess", 1, VR_CU_INVALID_VALUE, false);
    assert_int_equal(second.vmm->protect(&second, middle, GRANULE, false), VRAM_ERR_INVALID);
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK);
    assert_false(fake->writable(0, middle) || fake->writable(1, middle));
    assert_int_equal(second.vmm->protect(&second, middle, GRANULE, false), VRAM_OK);
    assert_true(fake->writable(0, middle) && fake->writable(1, middle));
    /* The first of them goes, the others are still opened to a peer. */
    assert_int_equal(second.vmm->unmap(&second, ground.base, GRANULE), VRAM_OK);
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK);
    assert_true(fake->reaches(0, middle) && !fake->reaches(0, ground.base));
    assert_int_equal(second.vmm->map(&second, ground.base, ground.handles[0], GRANULE), VRAM_OK);
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK);
    assert_false(fake->reaches(0, ground.base)); /* it is not accessible to anyone yet */
    end_ground(&second, &ground);
    close_device(&second);
}

TEST(a_peer_is_not_half_enabled) {
    struct world *world = rig_state;
    struct vr_device second, *first = &world->device;
    struct ground ground = {.count = 0};
    open_pair(world, &second);
    assert_int_equal(second.vmm->reserve(&second, 4 * GRANULE, GRANULE, &ground.base), VRAM_OK);
    map_one(&second, &ground);
    fake->refuse(WORLD_TRIES ? "hipMemSetAccess" : "cuMemSetAccess", 1, VR_CU_INVALID_VALUE, false);
    assert_int_equal(first->peer->enable(first, &second), VRAM_ERR_INVALID);
    map_one(&second, &ground);
    assert_false(fake->reaches(0, ground.base + GRANULE));
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK);
    assert_true(fake->reaches(0, ground.base) && fake->reaches(0, ground.base + GRANULE));
    end_ground(&second, &ground);
    close_device(&second);
}

/* Many mappings, in no order, so that the list grows and is searched. */
TEST(many_mappings_are_kept_apart) {
    enum { COUNT = 200 };
    struct world *world = rig_state;
    struct vr_device second, *first = &world->device;
    uint64_t handles[COUNT];
    vram_addr base = 0;
    open_pair(world, &second);
    assert_int_equal(second.vmm->reserve(&second, COUNT * GRANULE, GRANULE, &base), VRAM_OK);
    for (uint64_t i = 0; i < COUNT; i++) {
        vram_addr at = base + i * 77 % COUNT * GRANULE;
        assert_int_equal(second.vmm->create(&second, GRANULE, &handles[i]), VRAM_OK);
        assert_int_equal(second.vmm->map(&second, at, handles[i], GRANULE), VRAM_OK);
        assert_int_equal(second.vmm->access(&second, at, GRANULE), VRAM_OK);
    }
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_true(fake->reaches(0, base + i * GRANULE));
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        vram_addr at = base + i * 77 % COUNT * GRANULE;
        assert_int_equal(second.vmm->unmap(&second, at, GRANULE), VRAM_OK);
        assert_int_equal(second.vmm->release(&second, handles[i], GRANULE), VRAM_OK);
    }
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK); /* nothing is left to open */
    assert_int_equal(second.vmm->unreserve(&second, base, COUNT * GRANULE), VRAM_OK);
    close_device(&second);
}

/* ------------------------------------------------------------------ managed */

/* Hints name any device of the driver, open or not, and the host. */
TEST(managed_memory_takes_hints) {
    struct world *world = rig_state;
    struct vr_device *device = &world->device, second;
    struct vr_queue queue;
    vram_addr addr = 0;
    open_pair(world, &second);
    close_device(&second);
    make_queue(device, &queue);
    assert_int_equal(device->managed->alloc(device, 4 * PAGE, &addr), VRAM_OK);
    memset((void *)(uintptr_t)addr, 7, 4 * PAGE);
    for (int32_t target = VRAM_TARGET_HOST; target < 2; target++) {
        assert_int_equal(device->managed->prefetch(&queue, addr, PAGE, target), VRAM_OK);
        assert_int_equal(fake->hinted(), target);
    }
    assert_int_equal(device->managed->prefetch(&queue, addr, PAGE, 2), VRAM_ERR_INVALID);
    for (int32_t target = VRAM_TARGET_HOST; target < 2; target++) {
        assert_int_equal(device->managed->advise(device, addr, PAGE, VRAM_ADVICE_PREFER, target),
                         VRAM_OK);
        assert_int_equal(fake->hinted(), target);
    }
    for (int advice = VRAM_ADVICE_NONE; advice <= VRAM_ADVICE_READ_MOSTLY; advice++) {
        assert_int_equal(
            device->managed->advise(device, addr, PAGE, (vram_advice)advice, VRAM_TARGET_HOST),
            VRAM_OK);
    }
    settle(&queue);
    assert_int_equal(*(char *)(uintptr_t)addr, 7);
    /* A driver that supports no hints has taken them. */
    fake->refuse(WORLD_TRIES ? "hipMemPrefetchAsync" : "cuMemPrefetchAsync", 1, VR_CU_NOT_SUPPORTED,
                 false);
    assert_int_equal(device->managed->prefetch(&queue, addr, PAGE, VRAM_TARGET_HOST), VRAM_OK);
    fake->refuse(WORLD_TRIES ? "hipMemAdvise" : "cuMemAdvise", 1, VR_CU_NOT_SUPPORTED, false);
    assert_int_equal(device->managed->advise(device, addr, PAGE, VRAM_ADVICE_NONE, 0), VRAM_OK);
    fake->refuse(NULL, 0, 0, false);
    end_queue(&queue);
    assert_int_equal(device->managed->free(device, addr, 4 * PAGE), VRAM_OK);
}

EACH_TEST(setup, teardown)
