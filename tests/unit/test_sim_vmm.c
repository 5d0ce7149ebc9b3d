/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_vmm.c: virtual memory management of the simulated driver, and how strict it is. */
#include "sim_world.h"

#include <stdlib.h>

/* A handle that moves takes its contents along; the range keeps its addresses. */
static void handles_move(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    const struct vr_vmm_ops *vmm = device->vmm;
    struct mapped made = map_range(device, GRANULE, 2);
    struct vr_queue queue = create_queue(device);
    uint64_t values[2] = {0x1111, 0x2222}, back[2] = {0};
    vram_addr seam = made.addr + GRANULE - 8; /* the last word of one, the first of the other */
    assert_ok(device->queue_ops->upload(&queue, seam, values, 16));
    finish_queue(&queue);
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(vmm->unmap(device, made.addr + i * GRANULE, GRANULE));
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(vmm->map(device, made.addr + i * GRANULE, made.handles[1 - i], GRANULE));
    }
    assert_ok(vmm->access(device, made.addr, 2 * GRANULE));
    assert_ok(device->queue_ops->download(&queue, &back[1], made.addr, 8));
    assert_ok(device->queue_ops->download(&queue, &back[0], made.addr + 2 * GRANULE - 8, 8));
    finish_queue(&queue);
    assert_memory_equal(values, back, 16);
    uint64_t first = made.handles[0];
    made.handles[0] = made.handles[1];
    made.handles[1] = first;
    destroy_queue(&queue);
    unmap_range(device, &made);
    close_world(&world, 0);
}

/* One handle at two places: the same contents, and each place has users of its own. */
static void handles_have_aliases(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    const struct vr_vmm_ops *vmm = device->vmm;
    struct mapped made = map_range(device, GRANULE, 1);
    struct vr_queue queue = create_queue(device);
    static uint8_t data[GRANULE];
    uint64_t value = 0x4711, back = 0;
    vram_addr other;
    assert_ok(vmm->reserve(device, GRANULE, GRANULE, &other));
    assert_ok(vmm->map(device, other, made.handles[0], GRANULE));
    assert_ok(vmm->access(device, other, GRANULE));
    assert_ok(device->queue_ops->upload(&queue, made.addr + 8, &value, 8));
    assert_ok(device->queue_ops->download(&queue, &back, other + 8, 8));
    finish_queue(&queue);
    assert_int_equal(back, value);
    /* Work at one place does not hold the other. */
    assert_ok(device->queue_ops->upload(&queue, other, data, GRANULE));
    assert_int_equal(vmm->unmap(device, other, GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "unfinished work");
    finish_queue(&queue);
    assert_ok(device->queue_ops->upload(&queue, other, data, GRANULE));
    assert_ok(vmm->unmap(device, made.addr, GRANULE));
    finish_queue(&queue);
    assert_int_equal(vmm->release(device, made.handles[0], GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, 2, "is mapped");
    assert_ok(vmm->map(device, made.addr, made.handles[0], GRANULE));
    assert_ok(vmm->unmap(device, other, GRANULE));
    assert_ok(vmm->unreserve(device, other, GRANULE));
    destroy_queue(&queue);
    unmap_range(device, &made);
    close_world(&world, 2);
}

/* Aliases that the library forgets are taken down with their handle. */
static void aliases_are_swept(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    struct mapped made = map_range(device, GRANULE, 1);
    vram_addr other;
    assert_ok(device->vmm->reserve(device, GRANULE, GRANULE, &other));
    assert_ok(device->vmm->map(device, other, made.handles[0], GRANULE));
    close_world(&world, 3); /* two ranges and a handle */
}

TEST(aliases_may_be_switched_off) {
    struct world world;
    open_world(&world, "alias=off");
    struct vr_device *device = &world.device;
    struct mapped made = map_range(device, GRANULE, 1);
    vram_addr other;
    assert_ok(device->vmm->reserve(device, GRANULE, GRANULE, &other));
    assert_int_equal(device->vmm->map(device, other, made.handles[0], GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "is mapped");
    assert_ok(device->vmm->unreserve(device, other, GRANULE));
    unmap_range(device, &made);
    close_world(&world, 1);
}

TEST(memory_is_limited) {
    struct world world;
    open_world(&world, "memory=8M");
    struct vr_device *device = &world.device;
    uint64_t handles[4], more = 0;
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(device->vmm->create(device, GRANULE, &handles[i]));
        assert_int_not_equal(handles[i], 0);
    }
    assert_int_equal(device->vmm->create(device, GRANULE, &more), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(more, 0);
    assert_int_equal(state_of(&world).live_bytes, 8 * VR_MIB);
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(device->vmm->release(device, handles[i], GRANULE));
    }
    close_world(&world, 0);
}

static void ranges_are_aligned(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    for (uint64_t align = GRANULE; align <= 64 * GRANULE; align *= 2) {
        vram_addr addr;
        assert_ok(device->vmm->reserve(device, 3 * GRANULE, align, &addr));
        assert_int_equal(addr % align, 0);
        assert_ok(device->vmm->unreserve(device, addr, 3 * GRANULE));
    }
    close_world(&world, 0);
}

/* Every breach is refused, written down, and changes nothing. */
static void breaches(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    const struct vr_vmm_ops *vmm = device->vmm;
    struct mapped made = map_range(device, GRANULE, 2);
    uint64_t spare, other, big, none = 0, count = 0;
    vram_addr place = 0;
    assert_ok(vmm->create(device, GRANULE, &spare));
    assert_ok(vmm->create(device, 2 * GRANULE, &big));
    assert_ok(vmm->create(device, GRANULE, &other));
    assert_ok(vmm->release(device, other, GRANULE));
    assert_ok(vmm->reserve(device, 4 * GRANULE, GRANULE, &place));
    uint64_t live = state_of(&world).live_handles;
#define BREACH(call, part)                                                                         \
    do {                                                                                           \
        assert_int_equal(call, VRAM_ERR_INVALID);                                                  \
        expect_violation(&world, ++count, part);                                                   \
        assert_int_equal(state_of(&world).live_handles, live);                                     \
    } while (0)
    vram_addr at = made.addr;
    /* Sizes. */
    BREACH(vmm->reserve(device, GRANULE + 1, GRANULE, &none), "granule");
    BREACH(vmm->reserve(device, GRANULE, GRANULE / 2, &none), "granule");
    BREACH(vmm->reserve(device, GRANULE, 3 * GRANULE, &none), "alignment");
    BREACH(vmm->create(device, 0, &none), "granule");
    BREACH(vmm->map(device, place + PAGE, spare, GRANULE), "granule");
    /* In part, twice, elsewhere. */
    BREACH(vmm->map(device, place, big, GRANULE), "has");
    BREACH(vmm->map(device, at, spare, GRANULE), "mapped in");
    BREACH(vmm->map(device, place, other, GRANULE), "no handle");
    BREACH(vmm->map(device, place, 12345, GRANULE), "no handle");
    BREACH(vmm->map(device, place + 3 * GRANULE, big, 2 * GRANULE), "no reserved range");
    BREACH(vmm->map(device, 0x100000 * GRANULE, spare, GRANULE), "no reserved range");
    BREACH(vmm->unmap(device, at, 2 * GRANULE), "has");
    BREACH(vmm->unmap(device, at + GRANULE / 2, GRANULE), "no handle");
    BREACH(vmm->unmap(device, place, GRANULE), "no handle");
    BREACH(vmm->access(device, at, 4 * GRANULE), "no handle");
    BREACH(vmm->access(device, place, GRANULE), "no handle");
    BREACH(vmm->protect(device, place, GRANULE, true), "no handle");
    /* While something depends on it. */
    BREACH(vmm->release(device, made.handles[0], GRANULE), "is mapped");
    BREACH(vmm->release(device, spare, 2 * GRANULE), "has");
    BREACH(vmm->release(device, other, GRANULE), "released before");
    BREACH(vmm->unreserve(device, at, 2 * GRANULE), "still mapped");
    BREACH(vmm->unreserve(device, place, GRANULE), "bytes, not");
    BREACH(vmm->unreserve(device, place + GRANULE, GRANULE), "not given out so");
#undef BREACH
    assert_int_equal(none, 0);
    /* A handle that covers the seam of the range asked for. */
    assert_ok(vmm->map(device, place, big, 2 * GRANULE));
    assert_int_equal(vmm->access(device, place, GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "splits");
    assert_int_equal(vmm->map(device, place + GRANULE, spare, GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "mapped in");
    assert_ok(vmm->unmap(device, place, 2 * GRANULE));
    assert_ok(vmm->map(device, place + GRANULE, spare, GRANULE));
    assert_int_equal(vmm->map(device, place, big, 2 * GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "mapped in");
    assert_ok(vmm->unmap(device, place + GRANULE, GRANULE));
    assert_ok(vmm->release(device, spare, GRANULE));
    assert_ok(vmm->release(device, big, 2 * GRANULE));
    assert_ok(vmm->unreserve(device, place, 4 * GRANULE));
    unmap_range(device, &made);
    close_world(&world, count);
}

/* Memory that is not mapped, or not made accessible, cannot be copied. */
static void access_is_needed(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    struct mapped made = {.bytes = GRANULE, .count = 1};
    uint64_t value = 1;
    assert_ok(device->vmm->reserve(device, 2 * GRANULE, GRANULE, &made.addr));
    assert_ok(device->vmm->create(device, GRANULE, &made.handles[0]));
    assert_int_equal(device->queue_ops->upload(&queue, made.addr, &value, 8), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "not mapped");
    assert_ok(device->vmm->map(device, made.addr, made.handles[0], GRANULE));
    assert_int_equal(device->queue_ops->upload(&queue, made.addr, &value, 8), VRAM_ERR_INVALID);
    assert_ok(device->vmm->access(device, made.addr, GRANULE));
    assert_ok(device->queue_ops->upload(&queue, made.addr, &value, 8));
    vram_addr over = made.addr + GRANULE - 4; /* runs out of the mapped part */
    assert_int_equal(device->queue_ops->copy(&queue, over, made.addr, 8), VRAM_ERR_INVALID);
    assert_int_equal(device->queue_ops->copy(&queue, made.addr, over, 8), VRAM_ERR_INVALID);
    assert_int_equal(device->queue_ops->fill(&queue, 64, 0, 1, 8), VRAM_ERR_INVALID);
    expect_violations(&world, 5);
    finish_queue(&queue);
    /* Mapped again, it has to be made accessible again. */
    assert_ok(device->vmm->unmap(device, made.addr, GRANULE));
    assert_ok(device->vmm->map(device, made.addr, made.handles[0], GRANULE));
    assert_int_equal(device->queue_ops->download(&queue, &value, made.addr, 8), VRAM_ERR_INVALID);
    destroy_queue(&queue);
    assert_ok(device->vmm->unmap(device, made.addr, GRANULE));
    assert_ok(device->vmm->release(device, made.handles[0], GRANULE));
    assert_ok(device->vmm->unreserve(device, made.addr, 2 * GRANULE));
    close_world(&world, 6);
}

/* Nothing is taken from under unfinished work. */
static void busy_memory_stays(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    struct mapped made = map_range(device, GRANULE, 3);
    vram_addr plain = alloc(device, PAGE);
    static uint8_t data[GRANULE];
    /* The first takes about 38 us; all in all, the first two handles and the plain memory. */
    assert_ok(device->queue_ops->upload(&queue, made.addr + GRANULE / 2, data, GRANULE));
    assert_ok(device->queue_ops->copy(&queue, plain, made.addr, 8));
    assert_int_equal(device->vmm->unmap(device, made.addr + GRANULE, GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "unfinished work");
    finish_queue(&queue);
    assert_ok(device->queue_ops->upload(&queue, made.addr, data, GRANULE));
    assert_ok(device->queue_ops->copy(&queue, plain, made.addr, 8));
    assert_int_equal(device->ops->free(device, plain, PAGE), VRAM_ERR_INVALID);
    expect_violation(&world, 2, "unfinished work");
    finish_queue(&queue);
    unmap_range(device, &made);
    assert_ok(device->ops->free(device, plain, PAGE));
    destroy_queue(&queue);
    close_world(&world, 2);
}

/* Access is charged per handle. */
TEST(access_costs_per_handle) {
    struct world world;
    open_world(&world, "profile=h200");
    struct vr_device *device = &world.device;
    struct mapped made = map_range(device, GRANULE, 4);
    assert_int_equal(state_of(&world).clock_ns, 21000 + 4 * (15000 + 1000) + 4 * 60000);
    uint64_t before = state_of(&world).clock_ns;
    unmap_range(device, &made);
    assert_int_equal(state_of(&world).clock_ns - before, 4 * (40000 + 15000) + 21000);
    close_world(&world, 0);
}

/* The map against a plain array, through many splits and emptied shelves. */
TEST(address_map) {
    enum { COUNT = 4000, ROUNDS = 200000 };
    static bool present[COUNT];
    static uint64_t values[COUNT];
    struct vr_sim_map map = {0};
    uint64_t random = 99, blocks = vr_mem_live_blocks();
    assert_null(vr_sim_map_below(&map, UINT64_MAX));
    for (unsigned round = 0; round < ROUNDS; round++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        /* First it fills up, then it empties, and so on. */
        uint64_t at = (random >> 33) % COUNT;
        bool filling = round / 20000 % 2 == 0;
        if (present[at] != filling) {
            if (filling) {
                assert_true(vr_sim_map_insert(&map, at * 10, &values[at]));
            } else {
                vr_sim_map_remove(&map, at * 10);
            }
            present[at] = filling;
        }
        uint64_t key = (random >> 20) % (COUNT * 10 + 20);
        uint64_t low = key / 10 < COUNT - 1 ? key / 10 : COUNT - 1;
        while (low && !present[low]) {
            low--;
        }
        assert_ptr_equal(vr_sim_map_below(&map, key), present[low] ? &values[low] : NULL);
    }
    vr_sim_map_free(&map);
    assert_int_equal(vr_mem_live_blocks(), blocks);
}

static char synthetic[] = "profile=h200", real[] = "real=on,memory=64M,profile=h200";

static int on_synthetic(void) {
    rig_state = synthetic;
    return 0;
}

static int on_real(void) {
    rig_state = real;
    return 0;
}

#define BOTH(function)                                                                             \
    RUN_AS(#function, on_synthetic, NULL, function)                                                \
    RUN_AS(#function "_really", on_real, NULL, function)
BOTH(handles_move)
BOTH(handles_have_aliases)
BOTH(aliases_are_swept)
BOTH(ranges_are_aligned)
BOTH(breaches)
BOTH(access_is_needed)
BOTH(busy_memory_stays)
