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

/* The host's own memory is not held on the device, nor was it ever. */
static void host_memory_is_not_the_devices(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    vram_pool *pool = pool_on(rig.device, "main", 0);
    climb_by(pool, NULL, VRAM_FALLBACK_HOST);
    fault(&rig, VRAM_SIM_CREATE, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    vram_addr addr = take(pool, MIB, rig.queue);
    assert_int_equal(block_info_of(addr).kind, VRAM_MEMORY_HOST);
    assert_int_equal(vr_load(&device->slot->charged_bytes, VR_RELAXED), 0);
    assert_int_equal(vr_load(&device->slot->charged_peak, VR_RELAXED), 0);
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_ok(vram_free(addr, rig.queue));
    vr_leave(device);
    rig_end_clean(&rig);
}

/* Off unless asked for; then counted, seen by its kind, and usable by whom it says. */
static void acceptance_10_each_kind_of_fallback_is_counted(void **state) {
    (void)state;
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

static void not_where_limits_forbid_it(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = full_pool(&rig, VRAM_FALLBACK_HOST);
    vram_limits limits = {.size = sizeof limits, .cpu_fallback = VRAM_SWITCH_OFF};
    int asked = 0;
    assert_ok(vram_error_handler_set(rig.context, fall_back, &asked));
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
    assert_ok(vram_device_limits_set(rig.device, &limits));
    refused(pool, MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_ok(vram_option_set("preset", "training"));
    limits.cpu_fallback = VRAM_SWITCH_DEFAULT;
    assert_ok(vram_device_limits_set(rig.device, &limits));
    refused(pool, MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_ok(vram_option_set("preset", NULL));
    assert_int_equal(stats_of(pool).fallbacks, 1);
    rig_end_clean(&rig);
}

/* The first kind that can be had, in the declared order. */
static void kinds_are_tried_in_order(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool =
        full_pool(&rig, VRAM_FALLBACK_HOST | VRAM_FALLBACK_PINNED | VRAM_FALLBACK_MANAGED);
    assert_int_equal(block_info_of(take(pool, MIB, NULL)).kind, VRAM_MEMORY_MANAGED);
    fault(&rig, VRAM_SIM_MANAGED_ALLOC, 1, false, VRAM_SIM_OUT_OF_MEMORY);
    assert_int_equal(block_info_of(take(pool, MIB, NULL)).kind, VRAM_MEMORY_PINNED);
    fault(&rig, VRAM_SIM_MANAGED_ALLOC, 1, false, 99); /* no exhaustion: it is returned */
    refused(pool, MIB, NULL, VRAM_ERR_BACKEND);
    rig_end_clean(&rig);
}

/* Freed memory of that kind serves nobody else: the next request gets the device's when there is
   some. */
static void device_memory_comes_back_first(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_on(rig.device, "main", 0);
    vram_addr all = ballast(&rig, 64 * MIB);
    climb_by(pool, NULL, VRAM_FALLBACK_PINNED);
    vram_addr small = take(pool, 4 * KIB, rig.queue), large = take(pool, 4 * MIB, rig.queue);
    assert_int_equal(block_info_of(small).kind, VRAM_MEMORY_PINNED);
    assert_ok(vram_free(small, rig.queue));
    assert_ok(vram_free(large, rig.queue));
    assert_ok(vram_device_free(rig.device, all));
    vram_addr again = take(pool, 4 * KIB, rig.queue);
    assert_int_equal(block_info_of(again).kind, VRAM_MEMORY_DEVICE);
    assert_int_equal(block_info_of(take(pool, 4 * MIB, rig.queue)).kind, VRAM_MEMORY_DEVICE);
    assert_int_equal(stats_of(pool).fallbacks, 2);
    rig_end_clean(&rig);
}

/* Work that uses it keeps it, whatever is drained meanwhile; so do pins and uses of other
   queues. */
static void work_keeps_it(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM ",profile=h200");
    vram_queue *other;
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    vram_pool *pool = full_pool(&rig, VRAM_FALLBACK_MANAGED);
    vram_addr addr = take(pool, 8 * MIB, rig.queue);
    assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 8 * MIB));
    assert_ok(vram_queue_fill(other, addr, 2, 1, 8 * MIB));
    assert_ok(vram_use(addr, other));
    assert_ok(vram_pin(addr));
    assert_ok(vram_free(addr, rig.queue));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    expect_protocol(&rig); /* it was not freed under the work */
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_queue_wait(other, VRAM_TIMEOUT_DEFAULT));
    uint64_t handles = sim_state(&rig).live_handles;
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(sim_state(&rig).live_handles, handles); /* pinned */
    assert_ok(vram_unpin(addr));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(sim_state(&rig).live_handles, handles - 1);
    rig_end_clean(&rig);
}

/* Alignment, sizes of every sort, and blocks that nobody frees before the pool goes. */
static void odd_requests(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = full_pool(&rig, VRAM_FALLBACK_PINNED);
    for (uint64_t align = 256; align <= GRANULE; align *= 2) {
        vram_alloc_options options = {.size = sizeof options, .alignment = align};
        vram_addr addr = 0;
        assert_ok(vram_alloc_with(pool, align / 2 + 3, rig.queue, &options, &addr));
        assert_int_equal(addr % align, 0);
        memset((void *)(uintptr_t)addr, 1, align / 2 + 3);
    }
    vram_addr none = take(pool, 0, NULL);
    assert_int_equal(block_info_of(none).requested_bytes, 0);
    assert_ok(vram_free(none, NULL));
    assert_int_equal(vram_pool_warm(pool, MIB, 2, NULL), VRAM_ERR_DEVICE_MEMORY);
    vram_addr large = take(pool, 128 * MIB, NULL); /* more than the device has */
    assert_int_equal(block_info_of(large).kind, VRAM_MEMORY_PINNED);
    assert_ok(vram_pool_destroy(pool));
    rig_end_clean(&rig);
}

/* What a driver refuses to take back is tried again. */
static void a_refused_free_is_tried_again(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = full_pool(&rig, VRAM_FALLBACK_MANAGED);
    vram_addr addr = take(pool, MIB, NULL);
    uint64_t handles = sim_state(&rig).live_handles;
    assert_ok(vram_free(addr, NULL));
    fault(&rig, VRAM_SIM_MANAGED_FREE, 1, true, 99);
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(sim_state(&rig).live_handles, handles);
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(sim_state(&rig).live_handles, handles - 1);
    rig_end_clean(&rig);
}

/* Host memory that fails at every place on the way leaves everything as it was. */
static void every_allocation_fails(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = full_pool(&rig, VRAM_FALLBACK_MANAGED);
    (void)take(pool, MIB, rig.queue);
    uint64_t failed = 1;
    for (uint64_t nth = 1; failed; nth++) {
        vram_addr addr = 0;
        vr_mem_fail_at(nth, false);
        vram_status status = vram_alloc(pool, MIB, rig.queue, &addr);
        failed = vr_mem_failed();
        vr_mem_fail_at(0, false);
        assert_true(status == VRAM_OK ? addr != 0 : vram_status_is_exhausted(status));
        if (status == VRAM_OK) {
            assert_ok(vram_free(addr, rig.queue));
        }
    }
    rig_end_clean(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, nothing_left)
        TEST(acceptance_10_each_kind_of_fallback_is_counted),
        TEST(host_memory_is_not_the_devices),
        TEST(not_where_limits_forbid_it),
        TEST(kinds_are_tried_in_order),
        TEST(device_memory_comes_back_first),
        TEST(work_keeps_it),
        TEST(odd_requests),
        TEST(a_refused_free_is_tried_again),
        TEST(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
