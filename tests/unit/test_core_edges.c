/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_core_edges.c: pools, tags and limits at their edges: providers that answer nonsense,
 * devices that do not know their memory, tables that are full, memory that ran out, and options of
 * the environment that say nothing.
 */
#include "unit/mem_world.h"
#include "vram/extension.h"
#include "vram/vram.h"

#include "core/limit/limit.h"

#include <stdio.h>
#include <stdlib.h>

static int end(void **state) {
    static const char *const names[] = {"VRAM_MEMORY_FRACTION", "VRAM_CACHED_BLOCKS",
                                        "VRAM_POOL_LIMIT", "VRAM_TRACKING", "VRAM_MIN_FREE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    vr_mem_fail_at(0, false);
    return nothing_left(state);
}

/* -------------------------------------------------------------------- providers */

static vram_addr provided; /* what the provider answers */
static vram_status provider_answer;
static unsigned given_back;

static vram_status provide(void *user, uint64_t bytes, vram_addr *addr) {
    (void)user, (void)bytes;
    *addr = provided;
    return provider_answer;
}

static vram_status take_back(void *user, vram_addr addr, uint64_t bytes) {
    (void)user, (void)addr, (void)bytes;
    given_back++;
    return VRAM_OK;
}

/* Addresses that no memory has: not 0, not unaligned, not at the end of all addresses. */
static void providers_that_answer_nonsense(void **state) {
    static const vram_addr answers[] = {0, 4097, UINT64_MAX - 4095};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_provider provider = {
        .size = sizeof provider, .alloc = provide, .free = take_back, .granule = 4096};
    vram_pool_options options = {.size = sizeof options, .provider = &provider};
    vram_pool *pool;
    vram_addr addr = 77;
    assert_ok(vram_pool_create(rig.device, &options, &pool));
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        provided = answers[i];
        provider_answer = VRAM_OK;
        assert_int_equal(vram_alloc(pool, 100, NULL, &addr), VRAM_ERR_CORRUPT);
        assert_int_equal(addr, 77);
    }
    provider_answer = VRAM_ERR_DEVICE_MEMORY;
    assert_int_equal(vram_alloc(pool, 100, NULL, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(given_back, 0);
    rig_end_clean(&rig);
}

static void providers_are_checked(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    const vram_provider good = {.size = sizeof good, .alloc = provide, .free = take_back};
    vram_provider bad[5];
    for (int i = 0; i < 5; i++) {
        bad[i] = good;
    }
    bad[0].size = 8;
    bad[1].alloc = NULL;
    bad[2].free = NULL;
    bad[3].granule = 12288; /* not a power of two */
    bad[4].granule = 2048;
    for (int i = 0; i < 5; i++) {
        vram_pool_options options = {.size = sizeof options, .provider = &bad[i]};
        vram_pool *pool = NULL;
        assert_int_equal(vram_pool_create(rig.device, &options, &pool), VRAM_ERR_INVALID);
        assert_null(pool);
    }
    vram_pool_options shared = {.size = sizeof shared, .flags = VRAM_POOL_SHAREABLE};
    vram_pool *pool = NULL;
    shared.provider = &good;
    assert_int_equal(vram_pool_create(rig.device, &shared, &pool), VRAM_ERR_INVALID);
    shared.provider = NULL;
    shared.kind = VRAM_MEMORY_PINNED;
    assert_int_equal(vram_pool_create(rig.device, &shared, &pool), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

/* ------------------------------------------------- a device that does not know itself */

static vram_status knows_nothing(struct vr_device *device, vram_value *free_bytes,
                                 vram_value *total) {
    (void)device;
    *free_bytes = *total = (vram_value){0};
    return VRAM_OK;
}

/* Neither its memory nor what is free of it: sizes are guessed, and requests go to the driver. */
static void devices_of_unknown_memory(void **state) {
    static struct vr_device_ops ops;
    vram_pool_options segments = {.size = sizeof segments, .flags = VRAM_POOL_SEGMENTS},
                      fixed = {.size = sizeof fixed, .flags = VRAM_POOL_DETERMINISTIC};
    const vram_pool_options *kinds[] = {NULL, &segments, &fixed};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct rig rig = rig_make("sim", "memory=64M");
        struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
        ops = *device->base.ops;
        ops.memory_info = knows_nothing;
        device->base.ops = &ops;
        device->base.info.memory_bytes = (vram_value){0};
        vr_leave(device);
        vram_pool *pool;
        vram_addr addr;
        vram_oom_report report = {.size = sizeof report};
        vram_health_info health = {.size = sizeof health};
        assert_ok(vram_pool_create(rig.device, kinds[i], &pool));
        assert_ok(vram_alloc(pool, MIB, NULL, &addr));
        assert_int_not_equal(vram_alloc(pool, UINT64_C(1) << 42, NULL, &addr), VRAM_OK);
        assert_int_equal(vram_alloc(pool, 80 * MIB, NULL, &addr), VRAM_ERR_DEVICE_MEMORY);
        assert_ok(vram_oom_report_get(pool, &report));
        assert_false(report.total_bytes.known);
        assert_false(report.free_bytes.known);
        assert_false(report.others_bytes.known);
        assert_int_not_equal(report.cause, VRAM_OOM_TOO_LARGE);
        assert_int_not_equal(vram_pool_warm(pool, MIB, 100, NULL), VRAM_OK);
        vram_error_clear();
        assert_ok(vram_health(rig.device, NULL, &health));
        assert_int_equal(health.verdict, VRAM_HEALTH_UNKNOWN);
        rig_end_clean(&rig);
    }
}

/* ---------------------------------------------------------------- handles of memory */

static void handles_of_memory(void **state) {
    vram_addr base = 1, segment, range, block;
    uint64_t bytes = 2;
    vram_physical *physical;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_alloc(pool, 100, NULL, &block));
    assert_int_equal(vram_memory_handle_get(block, NULL, &bytes), VRAM_ERR_INVALID);
    assert_int_equal(vram_memory_handle_get(block, &base, NULL), VRAM_ERR_INVALID);
    assert_int_equal(base, 1);
    assert_ok(vram_memory_handle_get(block, &base, &bytes));
    assert_true(base <= block && base + bytes >= block + 100);
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &segment));
    assert_ok(vram_memory_handle_get(segment + 5, &base, &bytes));
    assert_int_equal(base, segment);
    assert_true(bytes >= MIB);
    assert_ok(vram_range_create(rig.device, 2 * MIB, &range));
    assert_ok(vram_physical_create(rig.device, 2 * MIB, &physical));
    assert_ok(vram_range_map(rig.device, range, &physical, 1));
    assert_int_equal(vram_memory_handle_get(range, &base, &bytes), VRAM_ERR_INVALID);
    assert_int_equal(base, segment);
    assert_ok(vram_range_unmap(rig.device, range, 2 * MIB));
    assert_ok(vram_physical_destroy(physical));
    assert_ok(vram_range_destroy(rig.device, range));
    assert_ok(vram_device_free(rig.device, segment));
    assert_ok(vram_free(block, NULL));
    rig_end_clean(&rig);
}

/* -------------------------------------------------------------------------- tags */

/* Two names of one hash (FNV-1a), and the most that a device has. */
static void tags_fill_their_table(void **state) {
    enum { MOST = 65536 };
    char name[32];
    vram_tag_info info = {.size = sizeof info};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    assert_ok(vram_tag_quota_set(rig.device, "costarring", MIB, 2 * MIB));
    assert_ok(vram_tag_quota_set(rig.device, "liquid", 3 * MIB, 4 * MIB));
    assert_ok(vram_tag_info_get(rig.device, "costarring", &info));
    assert_int_equal(info.hard_bytes, 2 * MIB);
    assert_ok(vram_tag_info_get(rig.device, "liquid", &info));
    assert_int_equal(info.hard_bytes, 4 * MIB);
    for (unsigned i = vram_tag_count(rig.device); i < MOST; i++) {
        snprintf(name, sizeof name, "%x", i);
        assert_ok(vram_tag_quota_set(rig.device, name, 0, MIB));
    }
    assert_int_equal(vram_tag_count(rig.device), MOST);
    assert_int_equal(vram_tag_quota_set(rig.device, "one more", 0, MIB), VRAM_ERR_LIMIT);
    assert_ok(vram_tag_quota_set(rig.device, "liquid", 0, MIB));
    vr_mem_fail_at(1, false);
    assert_int_equal(vram_tag_info_at(rig.device, 0, &info), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    assert_ok(vram_tag_info_at(rig.device, 0, &info));
    rig_end_clean(&rig);
}

/* Quotas of the option, without memory for the first, second, third ... of their records. */
static void quotas_without_memory(void **state) {
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        assert_ok(vram_option_set("quotas", "a=1M,b/c=2M,d=3M"));
        struct rig rig = rig_make("sim", "memory=64M");
        vram_tag_info info = {.size = sizeof info};
        vr_mem_fail_at(nth, false);
        vram_status status = vram_tag_quota_set(rig.device, "e", 0, MIB);
        bool failed = vr_mem_failed() > 0;
        vr_mem_fail_at(0, false);
        assert_int_equal(status, failed ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
        assert_ok(vram_tag_quota_set(rig.device, "e", 0, MIB));
        assert_ok(vram_tag_info_get(rig.device, "d", &info));
        assert_int_equal(info.hard_bytes, 3 * MIB);
        rig_end_clean(&rig);
        if (!failed) {
            assert_true(nth > 5);
            break;
        }
    }
}

static void names_of_nothing(void **state) {
    uint64_t id;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_limits limits = {.size = sizeof limits};
    vram_foreign_options unnamed = {.size = sizeof unnamed, .tag = "", .name = ""};
    assert_ok(vram_device_limits_get(rig.device, &limits)); /* nobody has set any */
    assert_ok(vram_foreign_track(rig.device, 100, &unnamed, &id));
    assert_int_equal(vram_tag_count(rig.device), 0);
    assert_ok(vram_foreign_untrack(rig.device, id));
    assert_string_equal(vr_lease_why_text((vram_lease_why)9999), "unknown");
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------------- limits */

/* Variables that are set to 0 say nothing: the pool has what it had without them. */
static void an_environment_of_zeros(void **state) {
    static const char *const names[] = {"VRAM_MEMORY_FRACTION", "VRAM_CACHED_BLOCKS",
                                        "VRAM_POOL_LIMIT", "VRAM_TRACKING", "VRAM_MIN_FREE"};
    vram_limits plain, zeros;
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; round && i < sizeof names / sizeof names[0]; i++) {
            assert_int_equal(setenv(names[i], i == 3 ? "auto" : "0", 1), 0);
        }
        vr_option_reset();
        struct rig rig = rig_make("sim", "memory=64M");
        vram_limits own = {.size = sizeof own, .hard_bytes = 8 * MIB};
        vram_pool_options options = {.size = sizeof options, .limits = &own};
        vram_pool *pool;
        vram_addr addr;
        assert_ok(vram_pool_create(rig.device, &options, &pool));
        memset(round ? &zeros : &plain, 0, sizeof plain);
        (round ? &zeros : &plain)->size = sizeof plain;
        assert_ok(vram_pool_limits_get(pool, round ? &zeros : &plain));
        assert_int_equal(vram_alloc(pool, 9 * MIB, NULL, &addr), VRAM_ERR_LIMIT);
        rig_end_clean(&rig);
    }
    assert_memory_equal(&plain, &zeros, sizeof plain);
}

int main(void) {
#define HERE(test) cmocka_unit_test_setup_teardown(test, start, end)
    const struct CMUnitTest tests[] = {
        HERE(providers_that_answer_nonsense),
        HERE(providers_are_checked),
        HERE(devices_of_unknown_memory),
        HERE(handles_of_memory),
        HERE(tags_fill_their_table),
        HERE(quotas_without_memory),
        HERE(names_of_nothing),
        HERE(an_environment_of_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
