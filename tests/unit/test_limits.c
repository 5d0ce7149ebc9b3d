/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_limits.c: what pools may hold: presets, fractions, what is left free, hard limits, limits
 * that are lowered, and the environment's word.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/limits.h"
#include "vram/named.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#define NONE VRAM_LIMIT_NONE

static vram_limits limits_of(vram_pool *pool) {
    vram_limits limits = {.size = sizeof limits};
    assert_ok(vram_pool_limits_get(pool, &limits));
    return limits;
}

static vram_pool *pool_with(vram_device *device, vram_limits limits) {
    vram_pool *pool;
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    limits.size = sizeof limits;
    assert_ok(vram_pool_create(device, &options, &pool));
    return pool;
}

static vram_status set_limits(vram_pool *pool, vram_limits limits) {
    limits.size = sizeof limits;
    return vram_pool_limits_set(pool, &limits);
}

/* Takes blocks until one is refused; how many bytes that were. */
static uint64_t fill(vram_pool *pool, uint64_t size, vram_queue *queue, vram_status *status) {
    uint64_t bytes = 0;
    vram_addr addr;
    while ((*status = vram_alloc(pool, size, queue, &addr)) == VRAM_OK) {
        bytes += size;
    }
    return bytes;
}

static void set_environment(const char *name, const char *text) {
    assert_int_equal(setenv(name, text, 1), 0);
    vr_option_reset();
}

static int clean_environment(void) {
    static const char *const names[] = {
        "VRAM_PRESET",       "VRAM_MEMORY_FRACTION", "VRAM_MIN_FREE",      "VRAM_POOL_LIMIT",
        "VRAM_DEVICE_LIMIT", "VRAM_CACHED_LIMIT",    "VRAM_CACHED_BLOCKS", "VRAM_MEMORY_SAMPLE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    vr_option_reset();
    return nothing_left();
}

/* ----------------------------------------------------------------------- presets */

/* The numbers of the presets, and those of a pool and a device that nobody has said anything
   about. */
TEST(acceptance_07_defaults_and_presets) {
    static const struct {
        vram_preset preset;
        double fraction;
        uint64_t free_mib;
        uint32_t blocks;
        vram_switch tracking, fallback;
    } rows[] = {
        {VRAM_PRESET_DEFAULT, 0.9, 512, 8, VRAM_SWITCH_DEFAULT, VRAM_SWITCH_ON},
        {VRAM_PRESET_INFERENCE, 0.95, 256, 4, VRAM_SWITCH_OFF, VRAM_SWITCH_ON},
        {VRAM_PRESET_TRAINING, 0.8, 1024, 16, VRAM_SWITCH_DEFAULT, VRAM_SWITCH_OFF},
        {VRAM_PRESET_CONSTRAINED, 0.7, 128, 2, VRAM_SWITCH_OFF, VRAM_SWITCH_ON},
    };
    for (size_t i = 0; i < 4; i++) {
        vram_limits limits = {.size = sizeof limits};
        assert_ok(vram_preset_get(rows[i].preset, &limits));
        assert_true(limits.fraction == rows[i].fraction);
        assert_int_equal(limits.min_free_bytes, rows[i].free_mib * MIB);
        assert_int_equal(limits.cached_blocks, rows[i].blocks);
        assert_int_equal(limits.tracking, rows[i].tracking);
        assert_int_equal(limits.cpu_fallback, rows[i].fallback);
        assert_true(limits.hard_bytes == NONE && limits.cached_bytes == NONE);
    }
    assert_int_equal(vram_preset_get(VRAM_PRESET_DEFAULT, NULL), VRAM_ERR_INVALID);
    struct rig rig = rig_make("sim", "memory=80G");
    vram_pool *pool = pool_with(rig.device, (vram_limits){0});
    vram_limits limits = limits_of(pool), whole = {.size = sizeof whole};
    assert_true(limits.fraction == 0.9);
    assert_int_equal(limits.min_free_bytes, 512 * MIB);
    assert_int_equal(limits.cached_blocks, 8);
    assert_true(limits.hard_bytes == NONE && limits.cached_bytes == NONE);
    assert_int_equal(limits.cpu_fallback, VRAM_SWITCH_ON);
    assert_int_not_equal(limits.tracking, VRAM_SWITCH_DEFAULT); /* one or the other, by the build */
    assert_ok(vram_device_limits_get(rig.device, &whole));
    assert_memory_equal(&whole, &limits, sizeof whole);
    rig_end_clean(&rig);
}

/* What is set after a preset counts, whatever the order; what lies outside is moved to the nearer
   end. */
TEST(acceptance_07_clamp_and_order, "sim:memory=80G") {
    static const double given[] = {0.5, 1e-9, 0.05, 0.1, 1.0, 1.5, 1e300};
    static const double kept[] = {0.5, 0.1, 0.1, 0.1, 1.0, 1.0, 1.0};
    vram_pool *pool = pool_with(rig->device, (vram_limits){0});
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        assert_ok(set_limits(pool, (vram_limits){.fraction = given[i]}));
        assert_true(limits_of(pool).fraction == kept[i]);
    }
    vram_limits built = {.size = sizeof built};
    assert_ok(vram_preset_get(VRAM_PRESET_CONSTRAINED, &built));
    built.min_free_bytes = GIB;
    built.fraction = 0.8;
    assert_ok(set_limits(pool, built));
    vram_limits limits = limits_of(pool);
    assert_true(limits.fraction == 0.8 && limits.min_free_bytes == GIB);
    assert_int_equal(limits.cached_blocks, 2);
    assert_int_equal(limits.tracking, VRAM_SWITCH_OFF);
    assert_ok(
        set_limits(pool, (vram_limits){0})); /* what is not set any more is the default's again */
    assert_true(limits_of(pool).fraction == 0.9);
}

TEST(the_environment_is_a_ceiling) {
    set_environment("VRAM_MEMORY_FRACTION", "50%");
    set_environment("VRAM_MIN_FREE", "2G");
    set_environment("VRAM_POOL_LIMIT", "10G");
    set_environment("VRAM_CACHED_LIMIT", "1G");
    set_environment("VRAM_CACHED_BLOCKS", "3");
    struct rig rig = rig_make("sim", "memory=80G");
    vram_pool *plain = pool_with(rig.device, (vram_limits){0});
    vram_pool *bold = pool_with(rig.device, (vram_limits){.fraction = 1,
                                                          .min_free_bytes = NONE,
                                                          .hard_bytes = NONE,
                                                          .cached_bytes = NONE,
                                                          .cached_blocks = 16});
    vram_pool *shy = pool_with(rig.device, (vram_limits){.fraction = 0.2,
                                                         .min_free_bytes = 3 * GIB,
                                                         .hard_bytes = GIB,
                                                         .cached_bytes = MIB,
                                                         .cached_blocks = 1});
    for (int i = 0; i < 2; i++) {
        vram_limits limits = limits_of(i ? bold : plain);
        assert_true(limits.fraction == 0.5);
        assert_int_equal(limits.min_free_bytes, 2 * GIB);
        assert_int_equal(limits.hard_bytes, 10 * GIB);
        assert_int_equal(limits.cached_bytes, GIB);
        assert_int_equal(limits.cached_blocks, 3);
    }
    vram_limits limits = limits_of(shy);
    assert_true(limits.fraction == 0.2);
    assert_int_equal(limits.min_free_bytes, 3 * GIB);
    assert_int_equal(limits.hard_bytes, GIB);
    assert_int_equal(limits.cached_bytes, MIB);
    assert_int_equal(limits.cached_blocks, 1);
    assert_int_equal(vram_option_set("memory_fraction", "0.6"), VRAM_ERR_LIMIT);
    rig_end_clean(&rig);
}

/* By no option, before a context is made or after, and by no limits of a device. */
TEST(no_option_lifts_the_environment) {
    static const char *const names[][2] = {{"VRAM_MEMORY_FRACTION", "0.5"},
                                           {"VRAM_POOL_LIMIT", "10G"},
                                           {"VRAM_DEVICE_LIMIT", "20G"},
                                           {"VRAM_CACHED_LIMIT", "1G"},
                                           {"VRAM_CACHED_BLOCKS", "3"}};
    static const char *const limits_set[][2] = {{"memory_fraction", "0.9"},
                                                {"pool_limit", "11G"},
                                                {"device_limit", "21G"},
                                                {"cached_limit", "2G"},
                                                {"cached_blocks", "4"}};
    static const char *const others[][2] = {{"preset", "inference"}, {"min_free", "1"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        set_environment(names[i][0], names[i][1]);
    }
    set_environment("VRAM_PRESET", "constrained");
    set_environment("VRAM_MIN_FREE", "2G");
    for (int before = 1; before >= 0; before--) {
        struct rig rig = before ? (struct rig){0} : rig_make("sim", "memory=80G");
        for (size_t i = 0; i < sizeof limits_set / sizeof limits_set[0]; i++) {
            assert_int_equal(vram_option_set(limits_set[i][0], limits_set[i][1]), VRAM_ERR_LIMIT);
            assert_int_equal(vram_option_set(limits_set[i][0], "0"), VRAM_ERR_LIMIT);
            assert_ok(vram_option_set(limits_set[i][0], NULL));
        }
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            assert_ok(vram_option_set(others[i][0], others[i][1]));
        }
        rig = before ? rig_make("sim", "memory=80G") : rig;
        vram_limits loose = {.size = sizeof loose,
                             .fraction = 1,
                             .min_free_bytes = NONE,
                             .hard_bytes = NONE,
                             .cached_bytes = NONE,
                             .cached_blocks = 16};
        assert_ok(vram_device_limits_set(rig.device, &loose));
        vram_limits device = {.size = sizeof device};
        vram_limits pool = limits_of(pool_with(rig.device, loose));
        assert_ok(vram_device_limits_get(rig.device, &device));
        assert_int_equal(device.hard_bytes, 20 * GIB);
        assert_int_equal(pool.hard_bytes, 10 * GIB);
        const vram_limits *const both[] = {&device, &pool};
        for (int i = 0; i < 2; i++) {
            assert_true(both[i]->fraction == 0.5);
            assert_int_equal(both[i]->min_free_bytes, 2 * GIB);
            assert_int_equal(both[i]->cached_bytes, GIB);
            assert_int_equal(both[i]->cached_blocks, 3);
        }
        rig_end_clean(&rig);
    }
}

/* --------------------------------------------------- fraction, and what stays free */

/* All that may be held is, and not a byte more; segments come whole, and some of their ends are no
   use. */
static void expect_filled(vram_pool *pool, uint64_t filled, uint64_t most) {
    vram_pool_stats stats = stats_of(pool);
    assert_true(stats.peak_reserved_bytes <= most);
    assert_true(filled <= most && filled >= (stats.driver_allocs ? most / 4 * 3 : most));
}

TEST(acceptance_10_fraction_is_enforced) {
    static const char *const sims[] = {"memory=1G", "memory=1G,vmm=off", "memory=1G,info=off"};
    for (size_t i = 0; i < 3; i++) {
        vram_status status;
        vram_addr coarse;
        struct rig rig = rig_make("sim", sims[i]);
        vram_pool *pool = pool_with(rig.device, (vram_limits){.fraction = 0.5});
        uint64_t filled = fill(pool, 4 * MIB, rig.queue, &status);
        assert_int_equal(status, VRAM_ERR_LIMIT);
        assert_non_null(strstr(vram_error_get()->text, "fraction of the pool"));
        expect_filled(pool, filled, 512 * MIB);
        /* What else the program has there counts, and is not itself bound by it. */
        vram_pool *other = pool_with(rig.device, (vram_limits){.fraction = 0.75});
        assert_ok(vram_device_alloc(rig.device, 128 * MIB, VRAM_MEMORY_DEVICE, &coarse));
        expect_filled(other, fill(other, 4 * MIB, rig.queue, &status), 128 * MIB);
        assert_int_equal(status, VRAM_ERR_LIMIT);
        assert_ok(vram_device_free(rig.device, coarse));
        assert_true(fill(other, 4 * MIB, rig.queue, &status) >= 96 * MIB);
        rig_end_clean(&rig);
    }
}

TEST(acceptance_10_min_free_is_enforced) {
    static const char *const sims[] = {"memory=1G", "memory=1G,vmm=off"};
    for (size_t i = 0; i < 2; i++) {
        vram_status status;
        struct rig rig = rig_make("sim", sims[i]);
        vram_pool *pool =
            pool_with(rig.device, (vram_limits){.fraction = 1, .min_free_bytes = 700 * MIB});
        uint64_t filled = fill(pool, 4 * MIB, rig.queue, &status);
        assert_int_equal(status, VRAM_ERR_LIMIT);
        assert_non_null(strstr(vram_error_get()->text, "min_free"));
        expect_filled(pool, filled, 324 * MIB);
        assert_true(sim_state(&rig).live_bytes <= 324 * MIB);
        rig_end_clean(&rig);
    }
}

/* On a small device the default leaves 1/16 free, not all of 512 MiB; what is said is taken as
   said. */
TEST(by_default_a_sixteenth_stays_free, "sim:memory=64M") {
    vram_status status;
    vram_pool *pool = pool_with(rig->device, (vram_limits){.fraction = 1});
    assert_int_equal(limits_of(pool).min_free_bytes, 4 * MIB);
    assert_int_equal(fill(pool, 2 * MIB, rig->queue, &status), 60 * MIB);
    assert_int_equal(status, VRAM_ERR_LIMIT);
    assert_ok(vram_pool_destroy(pool));
    pool = pool_with(rig->device, (vram_limits){.fraction = 1, .min_free_bytes = 512 * MIB});
    assert_int_equal(fill(pool, 2 * MIB, rig->queue, &status), 0); /* more than there is */
    assert_int_equal(status, VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text, "min_free"));
    assert_ok(set_limits(pool, (vram_limits){.fraction = 1, .min_free_bytes = NONE}));
    assert_int_equal(fill(pool, 2 * MIB, rig->queue, &status), 64 * MIB);
    assert_int_equal(status, VRAM_ERR_DEVICE_MEMORY); /* no limit stands in the way now */
}

/* What no limit could help is told as what it is; what is beyond a hard limit is its to refuse, be
   there as many addresses and as much memory or not. */
TEST(more_than_the_device_has_is_no_matter_of_limits) {
    static const char *const devices[] = {"memory=64M", "memory=64M,vmm=off"};
    static const uint64_t sizes[] = {65 * MIB, 5 * GIB, UINT64_C(1) << 40, UINT64_C(1) << 62,
                                     UINT64_MAX - 3 * MIB};
    const vram_limits hard = {.size = sizeof hard, .hard_bytes = 8 * MIB},
                      none = {.size = sizeof none};
    for (unsigned d = 0; d < 2; d++) {
        struct rig rig = rig_make("sim", devices[d]);
        const vram_named_options options = {.size = sizeof options};
        vram_named *named;
        vram_buffer *buffer;
        vram_pool *pool = pool_with(rig.device, none);
        assert_ok(vram_named_create(pool, rig.queue, &options, &named));
        assert_ok(vram_named_add(named, "a", MIB, NULL, &buffer));
        for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (unsigned limit = 0; limit < 3; limit++) { /* none, the pool's, the device's */
                vram_status expected = limit ? VRAM_ERR_LIMIT : VRAM_ERR_DEVICE_MEMORY;
                vram_addr addr;
                assert_ok(set_limits(pool, limit == 1 ? hard : none));
                assert_ok(vram_device_limits_set(rig.device, limit == 2 ? &hard : &none));
                assert_int_equal(vram_alloc(pool, sizes[i], rig.queue, &addr), expected);
                assert_int_equal(vram_named_ensure(named, "a", sizes[i], NULL), expected);
            }
        }
        assert_ok(vram_named_destroy(named));
        rig_end_clean(&rig);
    }
}

/* ------------------------------------------------------------------- hard limits */

TEST(hard_limits_of_pools) {
    static const char *const sims[] = {"memory=1G", "memory=1G,vmm=off", "memory=1G,alias=off"};
    for (size_t i = 0; i < 3; i++) {
        vram_status status;
        vram_addr addr;
        struct rig rig = rig_make("sim", sims[i]);
        vram_pool *pool = pool_with(rig.device, (vram_limits){.hard_bytes = 32 * MIB});
        for (int round = 0; round < 3; round++) { /* small blocks and large ones share it */
            assert_ok(vram_alloc(pool, 30 * MIB, rig.queue, &addr));
            assert_int_equal(vram_alloc(pool, 3 * MIB, rig.queue, &addr), VRAM_ERR_LIMIT);
            assert_non_null(strstr(vram_error_get()->text, "hard_bytes of the pool"));
            assert_ok(vram_free(addr, rig.queue));
            uint64_t small = 0;
            vram_addr first = 0, list[1200];
            while ((status = vram_alloc(pool, 32 * KIB, rig.queue, &addr)) == VRAM_OK) {
                first = first ? first : addr;
                list[small++] = addr;
            }
            assert_int_equal(status, VRAM_ERR_LIMIT);
            assert_true(small >= 1000); /* of 1024 */
            while (small) {
                assert_ok(vram_free(list[--small], rig.queue));
            }
        }
        assert_true(stats_of(pool).peak_reserved_bytes <= 32 * MIB);
        rig_end_clean(&rig);
    }
}

/* All that is taken from a device, through whatever handle and by whatever call. */
TEST(hard_limits_of_devices, "sim:memory=1G") {
    vram_status status;
    vram_addr coarse;
    vram_device *again;
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 64 * MIB}, seen = limits;
    assert_ok(vram_device_limits_set(rig->device, &limits));
    assert_ok(vram_device_open(rig->context, 0, &again));
    assert_ok(vram_device_limits_get(again, &seen));
    assert_int_equal(seen.hard_bytes, 64 * MIB);
    vram_pool *pool = pool_with(rig->device, (vram_limits){0});
    vram_pool *other = pool_with(again, (vram_limits){0});
    assert_ok(vram_device_alloc(again, 16 * MIB, VRAM_MEMORY_DEVICE, &coarse));
    assert_int_equal(fill(pool, 2 * MIB, rig->queue, &status), 48 * MIB);
    assert_int_equal(status, VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text, "hard_bytes of the device"));
    assert_int_equal(fill(other, 2 * MIB, NULL, &status), 0);
    assert_int_equal(vram_device_alloc(again, MIB, VRAM_MEMORY_DEVICE, &coarse), VRAM_ERR_LIMIT);
    limits.hard_bytes = 0; /* not set any more */
    assert_ok(vram_device_limits_set(again, &limits));
    assert_int_equal(fill(other, 2 * MIB, NULL, &status), 856 * MIB); /* nine tenths */
    vram_device_close(again);
}

/* ---------------------------------------------------------------------- lowering */

/* Free memory goes back at once, live memory stays, and nothing more is given until it fits
   again. */
TEST(lowering_trims_and_keeps_what_is_live) {
    static const char *const sims[] = {"memory=1G", "memory=1G,vmm=off"};
    for (size_t i = 0; i < 2; i++) {
        vram_addr kept[8], loose[8], addr;
        struct rig rig = rig_make("sim", sims[i]);
        vram_pool *pool = pool_with(rig.device, (vram_limits){.hard_bytes = 256 * MIB});
        for (int n = 0; n < 8; n++) {
            assert_ok(vram_alloc(pool, 16 * MIB, rig.queue, &kept[n]));
        }
        for (int n = 0; n < 8; n++) {
            assert_ok(vram_alloc(pool, 16 * MIB, rig.queue, &loose[n]));
        }
        for (int n = 0; n < 8; n++) {
            assert_ok(vram_free(loose[n], rig.queue));
        }
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(set_limits(pool, (vram_limits){.hard_bytes = 160 * MIB})); /* it can be met */
        assert_true(stats_of(pool).reserved_bytes <= 160 * MIB);
        assert_int_equal(set_limits(pool, (vram_limits){.hard_bytes = 64 * MIB}), VRAM_ERR_LIMIT);
        assert_int_equal(limits_of(pool).hard_bytes, 64 * MIB); /* in force all the same */
        assert_int_equal(stats_of(pool).reserved_bytes, 128 * MIB);
        assert_int_equal(stats_of(pool).live_blocks, 8);
        assert_int_equal(vram_alloc(pool, 2 * MIB, rig.queue, &addr), VRAM_ERR_LIMIT);
        for (int n = 0; n < 6; n++) {
            assert_ok(vram_free(kept[n], rig.queue));
        }
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_ok(
            vram_alloc(pool, 32 * MIB, rig.queue, &addr)); /* with the two it is at the limit */
        assert_int_equal(vram_alloc(pool, 2 * MIB, rig.queue, &addr), VRAM_ERR_LIMIT);
        rig_end_clean(&rig);
    }
}

/* Lowered for a device: every pool of it gives back what it can. */
TEST(lowering_a_devices_limit_trims_all_its_pools, "sim:memory=1G") {
    vram_addr addr, live;
    vram_pool *pools[3];
    for (int i = 0; i < 3; i++) {
        pools[i] = pool_with(rig->device, (vram_limits){0});
        assert_ok(vram_alloc(pools[i], 10 * MIB, rig->queue, &live));
        assert_ok(vram_alloc(pools[i], 100 * MIB, rig->queue, &addr));
        assert_ok(vram_free(addr, rig->queue));
    }
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 40 * MIB};
    assert_ok(vram_device_limits_set(rig->device, &limits));
    assert_true(sim_state(rig).live_bytes <= 40 * MIB);
    limits.hard_bytes = 20 * MIB;
    assert_int_equal(vram_device_limits_set(rig->device, &limits), VRAM_ERR_LIMIT);
    assert_int_equal(sim_state(rig).live_bytes, 30 * MIB);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vram_alloc(pools[i], 2 * MIB, rig->queue, &addr), VRAM_ERR_LIMIT);
    }
}

/* ------------------------------------------------------------------------ cached */

/* Memory that unfinished work uses stays, and the free does not wait for it. */
TEST(cached_bytes_do_not_wait, "sim:memory=1G,lag=10000") {
    vram_addr addrs[8], small[4];
    vram_pool *pool = pool_with(rig->device, (vram_limits){.cached_bytes = 20 * MIB});
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_alloc(pool, 16 * MIB, rig->queue, &addrs[i]));
        assert_ok(vram_queue_fill(rig->queue, addrs[i], 1, 1, 16 * MIB));
    }
    for (int i = 0; i < 4; i++) {
        assert_ok(vram_alloc(pool, 100 * KIB, rig->queue, &small[i]));
    }
    for (int i = 0; i < 7; i++) {
        assert_ok(vram_free(addrs[i], rig->queue));
    }
    assert_in_range(stats_of(pool).reserved_bytes, 128 * MIB, 130 * MIB);
    assert_int_equal(sim_state(rig).violations, 0);
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    for (int i = 0; i < 4; i++) { /* one of the next frees releases it, however little it adds */
        assert_ok(vram_free(small[i], rig->queue));
    }
    assert_in_range(stats_of(pool).reserved_bytes, 0, 20 * MIB + 20 * MIB / 8 + 18 * MIB);
    assert_ok(vram_free(addrs[7], rig->queue));
    assert_in_range(stats_of(pool).reserved_bytes, 0, 20 * MIB + 20 * MIB / 8 + 2 * MIB);
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    assert_ok(set_limits(pool, (vram_limits){.cached_bytes = 1}));
    assert_int_equal(stats_of(pool).reserved_bytes, 0);
}

struct keeper {
    pthread_t thread;
    pthread_barrier_t *barrier;
    vram_pool *pool;
    vram_queue *queue;
    uint64_t bytes;
};

static void use_blocks(vram_pool *pool, vram_queue *queue, uint64_t bytes) {
    vram_addr addrs[40];
    for (int n = 0; n < 40; n++) {
        assert_ok(vram_alloc(pool, bytes, queue, &addrs[n]));
    }
    for (int n = 0; n < 40; n++) {
        assert_ok(vram_free(addrs[n], queue));
    }
}

/* Fills the thread's cache and keeps it until the second barrier. */
static void *keep_cached(void *argument) {
    const struct keeper *keeper = argument;
    use_blocks(keeper->pool, keeper->queue, keeper->bytes);
    pthread_barrier_wait(keeper->barrier);
    pthread_barrier_wait(keeper->barrier);
    return NULL;
}

/* How many blocks of a size the whole pool keeps, over threads, queues and the central cache. */
TEST(cached_blocks_bound_the_pool) {
    enum { KEEPERS = 3 };
    static const uint64_t sizes[] = {512, 32 * KIB, 40 * KIB, 80 * KIB};
    static const uint32_t given[] = {2, 8, 16};
    for (size_t i = 0; i < 12; i++) {
        const uint64_t bytes = sizes[i % 4], most = given[i / 4];
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_with(
            rig.device, (vram_limits){.cached_blocks = given[i / 4], .tracking = VRAM_SWITCH_OFF});
        pthread_barrier_t barrier;
        vram_queue *queue;
        assert_ok(vram_queue_create(rig.device, NULL, &queue));
        assert_int_equal(pthread_barrier_init(&barrier, NULL, KEEPERS + 1), 0);
        struct keeper crew[KEEPERS];
        use_blocks(pool, rig.queue, bytes); /* alone: all of them */
        if (bytes <= 64 * KIB) { /* threads that miss keep larger ones only later: cache.c (3) */
            assert_in_range(stats_of(pool).cached_bytes, (most / 2 + 1) * bytes, most * bytes);
        }
        for (int k = 0; k < KEEPERS; k++) {
            crew[k] = (struct keeper){
                .barrier = &barrier, .pool = pool, .queue = rig.queue, .bytes = bytes};
            assert_int_equal(pthread_create(&crew[k].thread, NULL, keep_cached, &crew[k]), 0);
        }
        pthread_barrier_wait(&barrier);
        use_blocks(pool, rig.queue, bytes);
        use_blocks(pool, queue, bytes);
        bool some = bytes <= 64 * KIB && most > KEEPERS + 2;
        assert_in_range(stats_of(pool).cached_bytes, some ? bytes : 0, most * bytes);
        pthread_barrier_wait(&barrier);
        for (int k = 0; k < KEEPERS; k++) {
            assert_int_equal(pthread_join(crew[k].thread, NULL), 0);
        }
        assert_ok(vram_queue_destroy(queue));
        use_blocks(pool, rig.queue, bytes); /* alone again */
        use_blocks(pool, rig.queue, bytes);
        if (bytes <= 64 * KIB) {
            assert_in_range(stats_of(pool).cached_bytes, (most / 2 + 1) * bytes, most * bytes);
        }
        pthread_barrier_destroy(&barrier);
        rig_end_clean(&rig);
    }
}

/* --------------------------------------------------------------------- bad input */

/* Numbers that are none are refused by every call that takes limits, and change nothing. */
TEST(bad_limits_are_refused, "sim:memory=1G") {
    const vram_limits bad[] = {{.size = sizeof bad[0], .fraction = -0.1},
                               {.size = sizeof bad[0], .fraction = NAN},
                               {.size = sizeof bad[0], .fraction = INFINITY},
                               {.size = sizeof bad[0], .tracking = (vram_switch)3}};
    vram_pool *pool = pool_with(rig->device, (vram_limits){.fraction = 0.6}), *none = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vram_pool_options options = {.size = sizeof options, .limits = &bad[i]};
        assert_int_equal(vram_pool_limits_set(pool, &bad[i]), VRAM_ERR_INVALID);
        assert_int_equal(vram_device_limits_set(rig->device, &bad[i]), VRAM_ERR_INVALID);
        assert_int_equal(vram_pool_create(rig->device, &options, &none), VRAM_ERR_INVALID);
    }
    assert_null(none);
    assert_true(limits_of(pool).fraction == 0.6);
}

/* 0 is what was not set, of a pool, a device and in the environment: it takes no limit away and
   sets none. */
TEST(limits_of_0_are_not_set) {
    set_environment("VRAM_POOL_LIMIT", "0");
    set_environment("VRAM_DEVICE_LIMIT", "0");
    set_environment("VRAM_MIN_FREE", "0");
    struct rig rig = rig_make("sim", "memory=1G");
    vram_limits zero = {.size = sizeof zero};
    vram_pool *pool = pool_with(rig.device, zero);
    assert_ok(vram_device_limits_set(rig.device, &zero));
    vram_limits limits = limits_of(pool);
    assert_true(limits.fraction == 0.9);
    assert_int_equal(limits.min_free_bytes, 64 * MIB);
    assert_int_equal(limits.hard_bytes, NONE);
    assert_int_equal(limits.cached_bytes, NONE);
    assert_int_equal(limits.cached_blocks, 8);
    vram_addr addr;
    assert_ok(vram_alloc(pool, 256 * MIB, NULL, &addr));
    rig_end_clean(&rig);
}

/* Lowered later, caches give up what they have too much. */
TEST(cached_blocks_can_be_lowered) {
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_with(rig.device, (vram_limits){.tracking = VRAM_SWITCH_OFF});
    use_blocks(pool, rig.queue, 4 * KIB);
    assert_true(stats_of(pool).cached_bytes > 3 * 4 * KIB);
    assert_ok(set_limits(pool, (vram_limits){.cached_blocks = 3}));
    assert_true(stats_of(pool).cached_bytes <= 3 * 4 * KIB);
    use_blocks(pool, rig.queue, 4 * KIB);
    assert_in_range(stats_of(pool).cached_bytes, 4 * KIB, 3 * 4 * KIB);
    rig_end_clean(&rig);
}

EACH_TEST(start, clean_environment)
