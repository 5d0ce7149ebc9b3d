/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ladder.c: what a pool does when memory is short, step by step: each step alone gets a
 * request through that fails without it, the order is the declared one, and what is no shortage is
 * tried once.
 */
#include "unit/device_world.h"
#include "unit/ladder_world.h"
#include "unit/stats_of.h"

/* ----------------------------------------------------------------- each step alone */

/* What lies free in small blocks serves a large one when the pool is trimmed, and not before. */
TEST(trim_serves, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    vram_addr small[512];
    ballast(rig, 64 * MIB - 4 * GRANULE);
    for (int i = 0; i < 512; i++) {
        small[i] = take(pool, 8 * KIB, NULL); /* 4 MiB of them */
    }
    for (int i = 0; i < 512; i++) {
        assert_ok(vram_free(small[i], NULL));
    }
    climb_by(pool, "others,cleanup", 0);
    climb_by(pool, "retry,others", 0);
    refused(pool, 4 * GRANULE, NULL, VRAM_ERR_DEVICE_MEMORY);
    climb_by(pool, "trim", 0);
    (void)take(pool, 4 * GRANULE, NULL);
    assert_int_equal(stats_of(pool).ladder_steps[VRAM_LADDER_TRIM], 1);
    assert_true(stats_of(pool).ladder_bytes[VRAM_LADDER_TRIM] >= 4 * MIB);
    assert_int_equal(stats_of(pool).ladder_rescues[VRAM_LADDER_TRIM], 1);
}

/* The same memory in another pool, which may be one of another handle of the same device. */
static void others_serve(const char *steps, vram_ladder_step step, bool twice) {
    struct rig rig = rig_make("sim", SIM);
    vram_device *second = NULL;
    if (twice) {
        assert_ok(vram_device_open(rig.context, 0, &second));
    }
    vram_pool *pool = pool_on(rig.device, "main", 0);
    vram_pool *other = pool_on(twice ? second : rig.device, "other", 0);
    vram_pool *still = pool_on(rig.device, "still", VRAM_POOL_DETERMINISTIC);
    assert_ok(vram_free(take(other, 30 * MIB, NULL), NULL));
    assert_ok(vram_free(take(still, 4 * MIB, NULL), NULL));
    uint64_t kept = stats_of(still).reserved_bytes;
    climb_by(pool, "drain,finished,move,trim,retry", 0);
    refused(pool, 40 * MIB, rig.queue, VRAM_ERR_DEVICE_MEMORY);
    climb_by(pool, steps, 0);
    (void)take(pool, 40 * MIB, rig.queue);
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.ladder_steps[step], 1);
    assert_int_equal(stats.ladder_rescues[step], 1);
    assert_true(stats.ladder_bytes[step] >= 30 * MIB);
    assert_int_equal(stats_of(still).reserved_bytes, kept); /* its addresses depend on it */
    vram_device_close(second);
    rig_end_clean(&rig);
}

TEST(others_serve_alone) {
    others_serve("others", VRAM_LADDER_OTHERS, false);
    others_serve("others", VRAM_LADDER_OTHERS, true);
}

/* Under a limit that all pools share, what others keep at hand is no reason to give a request
   up. */
TEST(others_serve_under_a_fraction, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0), *other = pool_on(rig->device, "other", 0);
    vram_limits limits = {
        .size = sizeof limits, .fraction = 0.75, .min_free_bytes = VRAM_LIMIT_NONE};
    assert_ok(vram_device_limits_set(rig->device, &limits));
    assert_ok(vram_free(take(other, 40 * MIB, NULL), NULL));
    (void)take(pool, 44 * MIB, rig->queue);
    assert_int_equal(stats_of(pool).ladder_rescues[VRAM_LADDER_OTHERS], 1);
    refused(pool, 49 * MIB, rig->queue, VRAM_ERR_LIMIT); /* more than the fraction: no step helps */
    assert_int_equal(stats_of(pool).ladder_steps[VRAM_LADDER_OTHERS], 1);
}

/* Memory that a queue's work holds is waited for, behind the row of own steps. */
TEST(finished_serves, "sim:" SIM ",lag=10000") {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    vram_addr addr = take(pool, 40 * MIB, rig->queue);
    assert_ok(vram_queue_fill(rig->queue, addr, 7, 1, 4 * KIB)); /* which takes its time */
    assert_ok(vram_free(addr, rig->queue));
    climb_by(pool, "drain,move,trim,retry", 0);
    refused(pool, 40 * MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    climb_by(pool, "finished", 0);
    (void)take(pool, 40 * MIB, NULL);
    vram_pool_stats stats = stats_of(pool);
    assert_true(stats.ladder_steps[VRAM_LADDER_FINISHED] > 0);
    assert_int_equal(stats.ladder_rescues[VRAM_LADDER_FINISHED], 1);
}

/* ------------------------------------------------------------------- trying again */

/* Acceptance item 25: the retry is one attempt and no more, and what is no exhaustion is not
   retried. */
TEST(acceptance_25_retry_once_and_nothing_else, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    climb_by(pool, "retry", 0);
    fault(rig, VRAM_SIM_CREATE, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    refused(pool, MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(stats_of(pool).driver_creates, 2); /* the first, and the retry */
    assert_int_equal(stats_of(pool).ladder_steps[VRAM_LADDER_RETRY], 1);
    fault(rig, VRAM_SIM_CREATE, 1, false, VRAM_SIM_OUT_OF_MEMORY);
    (void)take(pool, MIB, rig->queue);
    assert_int_equal(stats_of(pool).driver_creates, 4);
    assert_int_equal(stats_of(pool).ladder_rescues[VRAM_LADDER_RETRY], 1);

    static const int32_t codes[] = {VRAM_SIM_INVALID_VALUE, VRAM_SIM_NOT_SUPPORTED, 99, -7};
    assert_ok(vram_pool_ladder_set(pool, NULL)); /* with every step there is */
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        uint64_t runs = stats_of(pool).ladder_runs, creates = stats_of(pool).driver_creates;
        vram_addr addr = 0;
        fault(rig, VRAM_SIM_CREATE, 1, true, codes[i]);
        vram_status status = vram_alloc(pool, 20 * MIB, rig->queue, &addr);
        assert_false(vram_status_is_exhausted(status));
        assert_int_equal(vram_error_get()->native_code, codes[i]);
        assert_int_equal(stats_of(pool).driver_creates, creates + 1);
        assert_int_equal(stats_of(pool).ladder_runs, runs);
    }
    assert_ok(vram_sim_fault_set(rig->context, NULL));
}

/* Another error in the middle of a climb ends it, and is what the caller gets. */
TEST(another_error_ends_the_climb, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0), *other = pool_on(rig->device, "other", 0);
    ballast(rig, 40 * MIB);
    assert_ok(vram_free(take(other, 20 * MIB, NULL), NULL));
    climb_by(pool, "others,callbacks,retry", 0);
    fault(rig, VRAM_SIM_MAP, 1, false, 99); /* of the attempt behind `others` */
    refused(pool, 20 * MIB, rig->queue, VRAM_ERR_BACKEND);
    assert_int_equal(stats_of(pool).ladder_steps[VRAM_LADDER_OTHERS], 1);
    assert_int_equal(stats_of(pool).ladder_steps[VRAM_LADDER_RETRY], 0);
    (void)take(pool, 20 * MIB, rig->queue);
}

/* Who asks for cached memory alone, or for more than there is, does not disturb anybody. */
TEST(some_requests_do_not_climb, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0), *other = pool_on(rig->device, "other", 0);
    assert_ok(vram_free(take(other, 30 * MIB, NULL), NULL));
    vram_alloc_options cached = {.size = sizeof cached, .flags = VRAM_ALLOC_CACHED_ONLY};
    vram_addr addr = 0;
    assert_int_equal(vram_alloc_with(pool, MIB, rig->queue, &cached, &addr), VRAM_ERR_LIMIT);
    assert_int_equal(stats_of(pool).ladder_runs, 0);
    refused(pool, 65 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    for (int i = 0; i < VRAM_LADDER_STEPS; i++) {
        assert_int_equal(stats_of(pool).ladder_steps[i], 0);
    }
    assert_true(stats_of(other).reserved_bytes >= 30 * MIB);
    const vram_limits tight = {.size = sizeof tight, .hard_bytes = 8 * MIB};
    assert_ok(vram_pool_limits_set(pool, &tight));
    refused(pool, 9 * MIB, rig->queue, VRAM_ERR_LIMIT);
    assert_int_equal(stats_of(pool).ladder_steps[VRAM_LADDER_RETRY], 0);
    assert_true(stats_of(other).reserved_bytes >= 30 * MIB);
}

/* ------------------------------------------------------------------ host memory */

/* The next request of that size finds nothing at hand, and needs host memory for its
   bookkeeping. */
static void spoil(vram_pool *pool) {
    climb_by(pool, NULL, 0);
    assert_ok(vram_pool_trim(pool, NULL, NULL));
}

/* Item 25: when the library's own memory runs out, all devices are cleaned up, and the request is
   tried once more. */
TEST(acceptance_25_host_memory_cleans_all_devices, "sim:" SIM ",devices=2") {
    vram_device *second;
    assert_ok(vram_device_open(rig->context, 1, &second));
    vram_pool *pool = pool_on(rig->device, "main", 0), *far = pool_on(second, "far", 0);
    uint64_t rescues = 0;
    bool struck = true;
    for (uint64_t nth = 1; struck; nth++) {
        spoil(pool);
        assert_ok(vram_free(take(far, 20 * MIB, NULL), NULL));
        assert_true(stats_of(far).reserved_bytes >= 20 * MIB);
        vram_pool_stats before = stats_of(pool);
        vram_addr addr = 0;
        vram_error_clear();
        vr_mem_fail_at(nth, false);
        vram_status status = vram_alloc(pool, 5 * MIB + nth * 64 * KIB, NULL, &addr);
        struck = vr_mem_failed() > 0;
        vr_mem_fail_at(0, false);
        vram_pool_stats after = stats_of(pool);
        uint64_t cleaned =
            after.ladder_steps[VRAM_LADDER_CLEANUP] - before.ladder_steps[VRAM_LADDER_CLEANUP];
        assert_ok(status);
        expect_no_record();
        assert_int_equal(stats_of(far).reserved_bytes == 0, cleaned == 1);
        rescues += cleaned;
        assert_ok(vram_free(addr, NULL));
    }
    assert_true(rescues > 0);
    vram_device_close(second);
}

/* ------------------------------------------------ other memory than the device's */

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
