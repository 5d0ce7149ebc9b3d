/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_peer.c: devices that use each other's memory, also what is mapped before and after one
 * became the other's peer, what is sealed, and what changes meanwhile; and hints.
 */
#include "unit/cuda_stage.h"

enum { COUNT = 3, MANY = 200 };

#define ACCESS WORLD_CALL("cuMemSetAccess", "hipMemSetAccess")

/* The stage's device is to become a peer of another, which has a range of granules. */
static vram_device *second;
static uint64_t granule;
static vram_addr base;
static vram_physical *physicals[MANY];

static void pair_open(struct stage *stage) {
    vram_device_info info = {.size = sizeof info};
    stage_open(stage, UINT64_C(4) << 30, "5s");
    assert_ok(vram_device_open(stage->context, 1, &second));
    assert_ok(vram_device_describe(second, &info));
    granule = info.vmm_granule.value;
    assert_ok(vram_range_create(second, MANY * granule, &base));
    for (int i = 0; i < MANY; i++) {
        assert_ok(vram_physical_create(second, granule, &physicals[i]));
    }
}

static vram_addr place(uint64_t at) {
    return base + at * granule;
}

static void map(uint64_t at, uint64_t count) {
    assert_ok(vram_range_map(second, place(at), physicals + at, (uint32_t)count));
}

static void unmap(uint64_t at, uint64_t count) {
    assert_ok(vram_range_unmap(second, place(at), count * granule));
}

static vram_status enable(struct stage *stage) {
    return vram_device_peer_enable(stage->device, second);
}

TEST(mappings_are_opened_to_peers) {
    struct stage *stage = rig_state;
    pair_open(stage);
    map(0, 2);
    assert_true(fake->reaches(1, place(0)));
    assert_false(fake->reaches(0, place(0)));
    assert_ok(enable(stage));
    assert_ok(enable(stage));                                              /* again */
    assert_true(fake->reaches(0, place(0)) && fake->reaches(0, place(1))); /* mapped before */
    map(2, 1);
    assert_true(fake->reaches(0, place(2))); /* and after */
    unmap(1, 2);
    map(1, 1);
    assert_true(fake->reaches(0, place(1))); /* and again in the same place */
    assert_false(fake->reaches(0, place(2)));
    stage_close(stage);
}

/* In no order, so that the list grows and is searched. */
TEST(many_mappings_are_kept_apart) {
    struct stage *stage = rig_state;
    pair_open(stage);
    for (uint64_t i = 0; i < MANY; i++) {
        map(i * 77 % MANY, 1);
    }
    assert_ok(enable(stage));
    for (uint64_t i = 0; i < MANY; i++) {
        assert_true(fake->reaches(0, place(i)));
    }
    for (uint64_t i = 0; i < MANY; i++) {
        unmap(i * 77 % MANY, 1);
    }
    assert_ok(enable(stage)); /* nothing is left to open */
    stage_close(stage);
}

/* Host memory for the list runs out, or the driver opens one to nobody: then it is no peer. */
TEST(a_peer_is_not_half_enabled) {
    struct stage *stage = rig_state;
    pair_open(stage);
    map(0, 1);
    fake->refuse(ACCESS, 1, VR_CU_INVALID_VALUE, false);
    assert_int_equal(enable(stage), VRAM_ERR_INVALID);
    map(1, 1);
    assert_false(fake->reaches(0, place(1)));
    assert_ok(enable(stage));
    assert_true(fake->reaches(0, place(0)) && fake->reaches(0, place(1)));
    stage_close(stage);
}

/* What is sealed is read-only for all devices when one becomes a peer, and writable for all when it
   is unsealed. */
TEST(read_only_mappings_stay_so) {
    struct stage *stage = rig_state;
    vram_alloc_options sealed = {.size = sizeof sealed, .tag = "sealed"};
    vram_pool *pool;
    vram_addr addrs[COUNT];
    pair_open(stage);
    assert_ok(vram_pool_create(second, NULL, &pool));
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_alloc_with(pool, 4 * granule, NULL, i == 1 ? &sealed : NULL, &addrs[i]));
    }
    assert_ok(vram_pool_seal(pool, "sealed"));
    assert_ok(enable(stage));
    for (int i = 0; i < COUNT; i++) {
        assert_true(fake->reaches(0, addrs[i]) && fake->reaches(1, addrs[i]));
        assert_int_equal(fake->writable(0, addrs[i]), i != 1);
        assert_int_equal(fake->writable(1, addrs[i]), i != 1);
    }
    fake->refuse(ACCESS, 1, VR_CU_INVALID_VALUE, false);
    assert_int_equal(vram_pool_unseal(pool, NULL), VRAM_ERR_INVALID);
    assert_ok(enable(stage));
    assert_false(fake->writable(0, addrs[1]) || fake->writable(1, addrs[1]));
    assert_ok(vram_pool_unseal(pool, NULL));
    assert_true(fake->writable(0, addrs[1]) && fake->writable(1, addrs[1]));
    stage_close(stage);
}

/* ------------------------------------------------- what other threads do meanwhile */

static vram_pool *racing;

static void unmap_it(void) {
    unmap(0, 1);
}

static void map_it_anew(void) {
    unmap(0, 1);
    map(0, 1);
}

static void seal_it(void) {
    assert_ok(vram_pool_seal(racing, NULL));
}

/* A mapping that goes, comes anew or becomes read-only while a peer is given access to it. */
TEST(mappings_change_while_peers_are_enabled) {
    static void (*const changes[])(void) = {unmap_it, map_it_anew, seal_it};
    struct stage *stage = rig_state;
    for (int i = 0; i < COUNT; i++) {
        vram_addr addr;
        pair_open(stage);
        if (changes[i] == seal_it) {
            assert_ok(vram_pool_create(second, NULL, &racing));
            assert_ok(vram_alloc(racing, 4 * granule, NULL, &addr));
        } else {
            map(0, 1);
            addr = place(0);
        }
        fake->meanwhile(ACCESS, changes[i]);
        assert_ok(enable(stage));
        assert_int_equal(fake->reaches(0, addr), changes[i] != unmap_it);
        assert_int_equal(fake->writable(0, addr), changes[i] == map_it_anew);
        stage_close(stage);
        fake->reset();
        fake->devices(2);
    }
}

/* ------------------------------------------------------------------ managed */

/* Hints name any device of the driver, open or not, and the host. A driver that supports none has
   taken them. */
TEST(managed_memory_takes_hints) {
    struct stage *stage = rig_state;
    vram_addr addr;
    stage_open(stage, UINT64_C(4) << 30, "5s");
    assert_ok(vram_device_alloc(stage->device, 4 * PAGE, VRAM_MEMORY_MANAGED, &addr));
    for (int supported = 1; supported >= 0; supported--) {
        if (!supported) {
            fake->refuse(WORLD_CALL("cuMemPrefetchAsync", "hipMemPrefetchAsync"), 1,
                         VR_CU_NOT_SUPPORTED, true);
        }
        for (int32_t target = VRAM_TARGET_HOST; target < 2; target++) {
            assert_ok(vram_queue_prefetch(stage->queue, addr, PAGE, target));
            assert_true(!supported || fake->hinted() == target);
        }
        assert_int_equal(vram_queue_prefetch(stage->queue, addr, PAGE, 2), VRAM_ERR_NO_DEVICE);
        if (!supported) {
            fake->refuse(WORLD_CALL("cuMemAdvise", "hipMemAdvise"), 1, VR_CU_NOT_SUPPORTED, true);
        }
        for (int32_t target = VRAM_TARGET_HOST; target < 2; target++) {
            assert_ok(vram_device_advise(stage->device, addr, PAGE, VRAM_ADVICE_PREFER, target));
            assert_true(!supported || fake->hinted() == target);
        }
        fake->refuse(NULL, 0, 0, false);
    }
    stage_close(stage);
}

EACH_TEST(stage_begin, stage_end)
