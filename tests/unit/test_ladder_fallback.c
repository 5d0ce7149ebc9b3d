/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ladder_fallback.c: pools that may hand out other memory than the device's: it is only done
 * when allowed and when nothing else is left, it can be seen, and it goes back where it came from.
 */
#include "unit/block_info_of.h"
#include "unit/ladder_world.h"

static const struct {
    uint32_t bit;
    vram_memory_kind kind;
} kinds[] = {{VRAM_FALLBACK_MANAGED, VRAM_MEMORY_MANAGED},
             {VRAM_FALLBACK_PINNED, VRAM_MEMORY_PINNED},
             {VRAM_FALLBACK_HOST, VRAM_MEMORY_HOST}};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A pool on a device that has nothing left. */
static vram_pool *full_pool(struct rig *rig, uint32_t fallback) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    ballast(rig, 64 * MIB);
    climb_by(pool, NULL, fallback);
    return pool;
}

/* Off unless asked for; then counted, seen by its kind, and usable by whom it says. */
TEST(acceptance_10_each_kind_of_fallback_is_counted) {
    for (int i = 0; i < KINDS; i++) {
        struct rig rig = rig_make("sim", SIM);
        vram_pool *pool = full_pool(&rig, 0);
        refused(pool, MIB, rig.queue, VRAM_ERR_DEVICE_MEMORY);
        climb_by(pool, NULL, kinds[i].bit);
        uint64_t handles = sim_state(&rig).live_handles;
        vram_addr addr = take(pool, MIB - 1, rig.queue);
        vram_native_info native = {.size = sizeof native};
        assert_int_equal(block_info_of(addr).kind, kinds[i].kind);
        assert_int_equal(block_info_of(addr).held_bytes, MIB);
        assert_int_equal(block_info_of(addr).requested_bytes, MIB - 1);
        assert_ptr_equal(block_info_of(addr).pool, pool);
        assert_ok(vram_native(addr + 5, &native));
        assert_int_equal(native.kind, kinds[i].kind);
        assert_ptr_equal(native.host_pointer, (void *)(uintptr_t)(addr + 5));
        memset((void *)(uintptr_t)addr, 0x5A, MIB - 1);
        vram_status status = vram_queue_fill(rig.queue, addr, 1, 1, MIB - 1);
        assert_int_equal(status, kinds[i].kind == VRAM_MEMORY_MANAGED ? VRAM_OK : VRAM_ERR_INVALID);
        vram_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.fallbacks, 1);
        assert_int_equal(stats.fallback_bytes, MIB);
        assert_int_equal(stats.live_blocks, 1);
        assert_int_equal(stats.reserved_bytes, 0);
        assert_int_equal(stats.ladder_rescues[VRAM_LADDER_FALLBACK], 1);
        assert_int_equal(vram_free(addr + 512, rig.queue), VRAM_ERR_INVALID);
        assert_ok(vram_free(addr, rig.queue));
        assert_int_equal(vram_free(addr, rig.queue), VRAM_ERR_INVALID);
        assert_int_equal(stats_of(pool).fallback_bytes, 0);
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_int_equal(sim_state(&rig).live_handles, handles);
        assert_int_equal(vram_native(addr, &native), VRAM_ERR_INVALID);
        vram_error_clear();
        rig_end_clean(&rig);
    }
}

/* What the limits say counts more than what the pool or the error handler allows. */
static vram_error_answer fall_back(void *user, const vram_error_event *event) {
    (void)event;
    ++*(int *)user;
    return VRAM_ERROR_FALL_BACK;
}

TEST(not_where_limits_forbid_it, "sim:" SIM) {
    vram_pool *pool = full_pool(rig, VRAM_FALLBACK_HOST);
    vram_limits limits = {.size = sizeof limits, .cpu_fallback = VRAM_SWITCH_OFF};
    int asked = 0;
    assert_ok(vram_error_handler_set(rig->context, fall_back, &asked));
    assert_ok(vram_pool_limits_set(pool, &limits));
    refused(pool, MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(asked, 1);
    assert_int_equal(stats_of(pool).fallbacks, 0);
    limits.cpu_fallback = VRAM_SWITCH_DEFAULT;
    assert_ok(vram_pool_limits_set(pool, &limits));
    (void)take(pool, MIB, NULL);
    assert_int_equal(stats_of(pool).fallbacks, 1);
    limits.cpu_fallback = VRAM_SWITCH_OFF; /* a device's counts for pools that say nothing */
    limits.fraction = 1;
    limits.min_free_bytes = VRAM_LIMIT_NONE;
    assert_ok(vram_device_limits_set(rig->device, &limits));
    refused(pool, MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_ok(vram_option_set("preset", "training"));
    limits.cpu_fallback = VRAM_SWITCH_DEFAULT;
    assert_ok(vram_device_limits_set(rig->device, &limits));
    refused(pool, MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_ok(vram_option_set("preset", NULL));
    assert_int_equal(stats_of(pool).fallbacks, 1);
}

/* The first kind that can be had, in the declared order. */
TEST(kinds_are_tried_in_order, "sim:" SIM) {
    vram_pool *pool =
        full_pool(rig, VRAM_FALLBACK_HOST | VRAM_FALLBACK_PINNED | VRAM_FALLBACK_MANAGED);
    assert_int_equal(block_info_of(take(pool, MIB, NULL)).kind, VRAM_MEMORY_MANAGED);
    fault(rig, VRAM_SIM_MANAGED_ALLOC, 1, false, VRAM_SIM_OUT_OF_MEMORY);
    vram_error_clear();
    assert_int_equal(block_info_of(take(pool, MIB, NULL)).kind, VRAM_MEMORY_PINNED);
    expect_no_record();
    fault(rig, VRAM_SIM_MANAGED_ALLOC, 1, false, 99); /* no exhaustion: it is returned */
    refused(pool, MIB, NULL, VRAM_ERR_BACKEND);
}

/* What a driver refuses to take back is tried again. */
TEST(a_refused_free_is_tried_again, "sim:" SIM) {
    vram_pool *pool = full_pool(rig, VRAM_FALLBACK_MANAGED);
    vram_addr addr = take(pool, MIB, NULL);
    uint64_t handles = sim_state(rig).live_handles;
    assert_ok(vram_free(addr, NULL));
    fault(rig, VRAM_SIM_MANAGED_FREE, 1, true, 99);
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(sim_state(rig).live_handles, handles);
    assert_ok(vram_sim_fault_set(rig->context, NULL));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(sim_state(rig).live_handles, handles - 1);
}
