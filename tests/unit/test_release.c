/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_release.c: giving back: trim, shrink, clear, emergency cleanup of one device and of all,
 * maintenance, fragmentation, health, and the monitor that does it from time to time.
 */
#include "trims.h"
#include "unit/pressure_world.h"
#include "vram/foreign.h"
#include "vram/growth.h"

static vram_fragmentation fragmentation_of(vram_pool *pool) {
    vram_fragmentation found = {.size = sizeof found};
    assert_ok(vram_pool_fragmentation_get(pool, &found));
    return found;
}

/* ---------------------------------------------------------------- giving back */

/* Clearing a pool gives the driver all that is free, whatever kept it: caches of threads, the
   central cache, buffers that nothing uses, holes between live blocks. */
TEST(a_cleared_pool_keeps_what_is_live) {
    static const uint64_t sizes[] = {600, 32 * KIB, 40 * KIB, MIB, 16 * MIB};
    vram_addr addrs[5][8], live;
    uint64_t released = 0;
    for (int all = 0; all < 2; all++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_of(&rig, NULL);
        for (int i = 0; i < 40; i++) {
            assert_ok(vram_alloc(pool, sizes[i / 8], rig.queue, &addrs[i / 8][i % 8]));
        }
        assert_ok(vram_alloc(pool, 4 * MIB, rig.queue, &live));
        for (int i = 0; i < 40; i++) {
            assert_ok(vram_free(addrs[i / 8][i % 8], rig.queue));
        }
        vram_pool_stats before = stats_of(pool);
        const uint32_t flags =
            VRAM_TRIM_MEMORY | VRAM_TRIM_CACHES | VRAM_TRIM_RARE | VRAM_TRIM_BUFFERS;
        assert_ok(vram_pool_trim(pool, all ? TRIM(.flags = flags) : NULL, &released));
        vram_pool_stats after = stats_of(pool);
        assert_int_equal(after.allocated_bytes, 4 * MIB);
        assert_int_equal(after.cached_bytes, 0);
        assert_in_range(after.reserved_bytes, 4 * MIB, 8 * MIB); /* whole handles */
        assert_int_equal(released, before.reserved_bytes - after.reserved_bytes);
        assert_int_equal(sim_state(&rig).live_bytes, after.reserved_bytes);
        assert_ok(vram_free(live, rig.queue));
        assert_ok(vram_pool_trim(pool, NULL, &released));
        assert_int_equal(sim_state(&rig).live_bytes, 0);
        rig_end_clean(&rig);
    }
}

/* ------------------------------------------------------------------- cleanup */

/* What is live stays, its accounting too, on this device and on all. */
TEST(acceptance_25_cleanup_keeps_live_accounting, "sim:devices=2,memory=1G") {
    enum { LIVE = 20 };
    vram_addr live[2][LIVE];
    uint64_t released = 0;
    vram_pool *pools[3];
    assert_ok(vram_pool_create(rig->device, NULL, &pools[0]));
    assert_ok(vram_pool_create(rig->other, NULL, &pools[1]));
    assert_ok(vram_pool_create(rig->device, NULL, &pools[2]));
    for (int d = 0; d < 2; d++) {
        vram_queue *queue = d ? rig->other_queue : rig->queue;
        struct rig part = {.queue = queue};
        for (int i = 0; i < LIVE; i++) {
            assert_ok(vram_alloc(pools[d], i % 2 ? 3 * MIB : 5 * KIB, queue, &live[d][i]));
        }
        cache_blocks(&part, pools[d], 6 * MIB, 5, 0);
        cache_blocks(&part, pools[d], 2 * KIB, 40, 0);
    }
    cache_blocks(rig, pools[2], 6 * MIB, 5, 0);
    vram_pool_stats before[3] = {stats_of(pools[0]), stats_of(pools[1]), stats_of(pools[2])};
    assert_ok(vram_device_trim(rig->device, NULL, &released));
    vram_pool_stats after[3] = {stats_of(pools[0]), stats_of(pools[1]), stats_of(pools[2])};
    assert_int_equal(released, before[0].reserved_bytes - after[0].reserved_bytes +
                                   before[2].reserved_bytes - after[2].reserved_bytes);
    assert_true(released >= 30 * MIB);
    assert_int_equal(after[2].reserved_bytes, 0);
    assert_int_equal(after[1].reserved_bytes, before[1].reserved_bytes);
    assert_ok(vram_context_trim(rig->context, NULL, &released));
    after[1] = stats_of(pools[1]);
    assert_int_equal(released, before[1].reserved_bytes - after[1].reserved_bytes);
    assert_true(released >= 30 * MIB);
    for (int d = 0; d < 2; d++) {
        assert_int_equal(after[d].cached_bytes, 0);
        assert_int_equal(after[d].live_blocks, LIVE);
        assert_int_equal(after[d].requested_bytes, before[d].requested_bytes);
        assert_int_equal(after[d].allocated_bytes, before[d].allocated_bytes);
        assert_int_equal(after[d].allocs, before[d].allocs);
        for (int i = 0; i < LIVE; i++) {
            assert_ok(vram_free(live[d][i], d ? rig->other_queue : rig->queue));
        }
        assert_int_equal(stats_of(pools[d]).requested_bytes, 0);
        assert_int_equal(stats_of(pools[d]).allocated_bytes, 0);
    }
    assert_ok(vram_context_trim(rig->context, NULL, &released));
    assert_int_equal(stats_of(pools[0]).reserved_bytes + stats_of(pools[1]).reserved_bytes, 0);
    assert_ok(vram_context_trim(rig->context, NULL, &released));
    assert_int_equal(released, 0);
}

/* A driver that does not take memory back fails the call, which goes on with the other pools. */
TEST(a_refusing_driver_is_told_of, "sim:memory=1G") {
    uint64_t released = 0;
    vram_pool *first = pool_of(rig, NULL), *second = pool_of(rig, NULL);
    cache_blocks(rig, first, 6 * MIB, 3, 0);
    cache_blocks(rig, second, 6 * MIB, 3, 0);
    fault(rig, VRAM_SIM_UNMAP, 1, false, VRAM_SIM_INVALID_VALUE);
    assert_int_not_equal(vram_device_trim(rig->device, NULL, &released), VRAM_OK);
    assert_int_not_equal(vram_error_get()->status, VRAM_OK);
    assert_true(released >= 18 * MIB);
    assert_int_equal(stats_of(first).reserved_bytes * stats_of(second).reserved_bytes, 0);
    vram_error_clear();
    assert_ok(vram_sim_fault_set(rig->context, NULL));
    assert_ok(vram_device_trim(rig->device, NULL, &released));
}

/* The bytes to keep are those of all pools together, on a device and on all of them. */
TEST(pools_keep_so_much_together, "sim:memory=1G") {
    uint64_t released = 0;
    vram_pool *pools[2] = {pool_of(rig, NULL), pool_of(rig, NULL)};
    for (int i = 0; i < 2; i++) {
        cache_blocks(rig, pools[i], 6 * MIB, 5, 0);
    }
    uint64_t held = stats_of(pools[0]).reserved_bytes + stats_of(pools[1]).reserved_bytes;
    assert_true(held >= 60 * MIB);
    assert_ok(vram_device_trim(rig->device, TRIM(.keep_bytes = held), &released));
    assert_int_equal(released, 0);
    assert_ok(vram_device_trim(rig->device, TRIM(.keep_bytes = 20 * MIB), &released));
    uint64_t left = stats_of(pools[0]).reserved_bytes + stats_of(pools[1]).reserved_bytes;
    assert_int_equal(released, held - left);
    assert_in_range(left, 14 * MIB, 20 * MIB);
    assert_ok(vram_context_trim(rig->context, TRIM(.keep_bytes = 5 * MIB), NULL));
    left = stats_of(pools[0]).reserved_bytes + stats_of(pools[1]).reserved_bytes;
    assert_in_range(left, 0, 5 * MIB);
}

/* ---------------------------------------------------------------- maintenance */

/* Many sizes that were used once, and one that is used all the time: before any cleanup. */
TEST(acceptance_26_one_off_sizes_go_and_hot_ones_stay, "sim:memory=1G") {
    vram_addr addr;
    uint64_t released = 7, cached;
    vram_pool *pool = pool_of(rig, NULL);
    cache_blocks(rig, pool, 8 * MIB, 2, 0); /* holes: who has to grow drains all caches first */
    assert_ok(vram_pool_warm(pool, 32 * KIB, 512, rig->queue));
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_CACHES), &cached));
    for (uint64_t i = 1; i <= 40; i++) {
        cache_blocks(rig, pool, i * 700, 1, 0);
        cache_blocks(rig, pool, 33 * KIB + i * 512, 1, 0);
    }
    cache_blocks(rig, pool, 4 * KIB, 8, 1000);
    vram_fragmentation before = fragmentation_of(pool);
    assert_int_equal(before.level, VRAM_FRAGMENTATION_HIGH);
    assert_true(before.rare > 0.5 && before.rare_types >= 40);
    assert_int_equal(before.types, before.rare_types + 1);
    assert_int_equal(before.cached_bytes, stats_of(pool).cached_bytes);
    assert_int_equal(stats_of(pool).cleaned_bytes, 0);
    uint64_t hot = before.cached_bytes - before.rare_bytes;
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_RARE, .interval_ns = 60 * SECOND),
                             &released)); /* the first is due at once */
    vram_fragmentation after = fragmentation_of(pool);
    assert_int_equal(after.types, 1);
    assert_int_equal(after.rare_types, 0);
    assert_int_equal(after.cached_bytes, hot);
    assert_true(after.rare == 0);
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.response_steps[VRAM_RESPONSE_MAINTAIN], 1);
    assert_int_equal(stats.response_bytes[VRAM_RESPONSE_MAINTAIN], before.rare_bytes);
    assert_int_equal(stats.cleaned_bytes, released);
    /* The hot size hits as before. */
    assert_ok(vram_alloc(pool, 4 * KIB, rig->queue, &addr));
    assert_int_equal(stats_of(pool).misses, stats.misses);
    assert_ok(vram_free(addr, rig->queue));
    /* The next one is due after the interval, in the device's time. */
    assert_ok(
        vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_RARE, .interval_ns = 60 * SECOND), &released));
    assert_int_equal(released, 0);
    assert_int_equal(stats_of(pool).response_steps[VRAM_RESPONSE_MAINTAIN], 1);
    assert_ok(vram_sim_clock_advance(rig->context, 60 * SECOND));
    assert_ok(
        vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_RARE, .interval_ns = 60 * SECOND), &released));
    assert_int_equal(stats_of(pool).response_steps[VRAM_RESPONSE_MAINTAIN], 2);
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_RARE), &released));
    assert_int_equal(stats_of(pool).response_steps[VRAM_RESPONSE_MAINTAIN], 3);
}

/* Maintenance forgets uses by and by, so that what was hot long ago becomes rare; to empty the
   caches does not. */
TEST(what_is_used_no_more_goes, "sim:memory=1G") {
    vram_pool *pool = pool_of(rig, NULL);
    cache_blocks(rig, pool, 4 * KIB, 0, 1000);
    for (int i = 0; i < 16; i++) {
        assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_CACHES), NULL));
    }
    cache_blocks(rig, pool, 16 * KIB, 1, 300);
    cache_blocks(rig, pool, 4 * KIB, 8, 0);
    uint64_t cached = stats_of(pool).cached_bytes;
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_RARE), NULL));
    assert_int_equal(stats_of(pool).cached_bytes, cached);
    for (int i = 0; i < 16; i++) {
        assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_RARE), NULL));
    }
    assert_int_equal(stats_of(pool).cached_bytes, 0);
}

/* Memory that was needed once and never again goes back, not at the first maintenance but at the
   next. */
TEST(unneeded_memory_goes_back, "sim:memory=1G") {
    uint64_t released;
    vram_addr live;
    vram_pool *pool = pool_of(rig, NULL);
    assert_ok(vram_alloc(pool, 8 * MIB, rig->queue, &live));
    cache_blocks(rig, pool, 64 * MIB, 4, 0);
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_RARE), &released));
    assert_true(stats_of(pool).reserved_bytes >= 264 * MIB);
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_RARE), &released));
    assert_true(released >= 256 * MIB);
    assert_int_equal(stats_of(pool).reserved_bytes, 8 * MIB);
}

/* Every second of many blocks is freed: half is free, in small runs. */
TEST(scattered_memory_is_a_number, "sim:memory=1G") {
    enum { COUNT = 64 };
    vram_addr addrs[COUNT];
    vram_pool *pool = pool_of(rig, NULL);
    vram_fragmentation none = fragmentation_of(pool);
    assert_true(none.scattered == 0 && none.rare == 0);
    assert_int_equal(none.level, VRAM_FRAGMENTATION_LOW);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_alloc(pool, 2 * MIB, rig->queue, &addrs[i]));
    }
    for (int i = 0; i < COUNT; i += 2) {
        assert_ok(vram_free(addrs[i], rig->queue));
    }
    uint64_t cached;
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_CACHES), &cached));
    vram_fragmentation half = fragmentation_of(pool);
    assert_true(half.free_bytes >= 64 * MIB);
    assert_true(half.scattered == 1 - (double)half.largest_free_bytes / (double)half.free_bytes);
    assert_true(half.scattered > 0.5);
    assert_int_equal(half.level, VRAM_FRAGMENTATION_HIGH);
    for (int i = 1; i < COUNT; i += 2) {
        assert_ok(vram_free(addrs[i], rig->queue));
    }
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_CACHES), &cached));
    assert_int_equal(fragmentation_of(pool).level, VRAM_FRAGMENTATION_LOW);
}

/* ---------------------------------------------------------------------- health */

static unsigned warnings, errors;

static void on_health_log(void *user, vram_log_level level, const char *text) {
    (void)user, (void)text;
    warnings += level == VRAM_LOG_WARN;
    errors += level == VRAM_LOG_ERROR;
}

static vram_health_info health_of(struct rig *rig, bool look_only) {
    vram_health_options options = {.size = sizeof options, .look_only = look_only};
    vram_health_info health = {.size = sizeof health};
    assert_ok(vram_health(rig->device, &options, &health));
    return health;
}

TEST(health_looks_warns_and_cleans_up) {
    vram_response_options off = {.size = sizeof off, .off = 15};
    vram_pool_options options = {.size = sizeof options, .response = &off};
    vram_addr live;
    warnings = errors = 0;
    struct rig rig = rig_told();
    vram_log_set(on_health_log, NULL, VRAM_LOG_WARN);
    vram_pool *pool = pool_of(&rig, &options);
    assert_ok(vram_alloc(pool, 8 * MIB, rig.queue, &live));
    cache_blocks(&rig, pool, 16 * MIB, 4, 3);
    told_pressure(7000);
    vram_health_info good = health_of(&rig, false);
    assert_int_equal(good.verdict, VRAM_HEALTH_GOOD);
    assert_int_equal(good.pools, 1);
    assert_int_equal(good.live_bytes, 8 * MIB);
    assert_int_equal(good.reserved_bytes, stats_of(pool).reserved_bytes);
    assert_true(good.hit_rate == stats_of(pool).hit_rate);
    assert_int_equal(warnings + errors, 0);
    told_pressure(7001);
    vram_health_info warned = health_of(&rig, false);
    assert_int_equal(warned.verdict, VRAM_HEALTH_WARN);
    assert_false(warned.cleaned);
    assert_int_equal(warnings, 1);
    assert_string_equal(warned.text, "sim device 0: 70.0% of its memory is in use; most of what is "
                                     "held is not live: shrink the pools");
    told_pressure(9001);
    vram_health_info seen = health_of(&rig, true);
    assert_int_equal(seen.verdict, VRAM_HEALTH_EMERGENCY);
    assert_false(seen.cleaned);
    assert_int_equal(seen.released_bytes, 0);
    vram_health_info cleaned = health_of(&rig, false);
    assert_int_equal(errors, 2);
    assert_int_equal(cleaned.verdict, VRAM_HEALTH_EMERGENCY);
    assert_true(cleaned.cleaned);
    assert_int_equal(cleaned.released_bytes, good.reserved_bytes - 8 * MIB);
    assert_int_equal(stats_of(pool).reserved_bytes, 8 * MIB);
    assert_int_equal(stats_of(pool).allocated_bytes, 8 * MIB);
    rig_end_clean(&rig);
}

/* What others take may leave a pool less than it holds; nothing has more than all of its memory in
   use. */
TEST(health_beyond_a_limit, "sim:memory=1000M,granule=2M") {
    vram_limits limits = {.size = sizeof limits, .fraction = 0.9, .min_free_bytes = 1};
    vram_foreign_options counts = {.size = sizeof counts, .flags = VRAM_FOREIGN_COUNTS};
    uint64_t id;
    vram_pool *pool = pool_of(rig, NULL);
    vram_addr addr;
    assert_ok(vram_pool_limits_set(pool, &limits));
    assert_ok(vram_alloc(pool, 160 * MIB, rig->queue, &addr));
    assert_ok(vram_foreign_track(rig->device, 800 * MIB, &counts, &id));
    vram_log_set(on_health_log, NULL, VRAM_LOG_OFF);
    vram_health_info seen = health_of(rig, true), cleaned = health_of(rig, false);
    assert_int_equal(seen.verdict, VRAM_HEALTH_EMERGENCY);
    assert_string_equal(seen.text, "sim device 0: a limit of 104857600 bytes is exceeded by 60.0%; "
                                   "most of it is live: free blocks, or raise the limit");
    assert_non_null(strstr(cleaned.text, "was exceeded by 60.0%; a cleanup gave 0 bytes back, now "
                                         "160.0% of the limit"));
    assert_null(strstr(cleaned.text, "of its memory"));
    assert_ok(vram_foreign_untrack(rig->device, id));
    assert_ok(vram_free(addr, rig->queue));
}

TEST(health_of_what_is_unknown_or_lost) {
    struct rig rig = rig_make("sim", "memory=64M,info=off");
    assert_int_equal(health_of(&rig, false).verdict, VRAM_HEALTH_UNKNOWN);
    rig_end_clean(&rig);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    rig = rig_make("sim", "memory=64M");
    vram_error_clear();
    fault(&rig, VRAM_SIM_MEMORY_INFO, 1, false, VRAM_SIM_DEVICE_LOST);
    vram_health_info lost = health_of(&rig, false);
    assert_int_equal(lost.verdict, VRAM_HEALTH_LOST);
    assert_non_null(strstr(lost.text, "lost"));
    expect_no_record();
    vram_context_destroy(rig.context);
}

/* --------------------------------------------------------------------- monitor */

static void count_calls(void *user, const vram_pressure_event *event) {
    (void)event;
    atomic_fetch_add((atomic_int *)user, 1);
}

static bool wait_for(atomic_int *value, int least) {
    for (int i = 0; i < 5000 && atomic_load(value) < least; i++) {
        vr_os_sleep(1000000);
    }
    return atomic_load(value) >= least;
}

static const vram_monitor_options quick = {
    .size = sizeof quick, .interval_ns = 1000000, .maintain_ns = 1};

/* Nobody allocates, and yet pressure is told of, and idle caches go. */
TEST(a_monitor_looks_from_time_to_time, "sim:memory=1G") {
    atomic_int calls = 0;
    vram_watch_options options = {.size = sizeof options, .call = count_calls, .user = &calls};
    vram_monitor_options rare = {.size = sizeof rare, .interval_ns = 600 * SECOND};
    vram_monitor *monitor, *second;
    vram_watch *watch;
    vram_pool *pool = pool_of(rig, NULL);
    vram_addr taken;
    cache_blocks(rig, pool, 2 * KIB, 20, 0);
    assert_ok(vram_pool_watch_begin(pool, &options, &watch));
    assert_ok(vram_monitor_begin(rig->context, &quick, &monitor));
    assert_ok(vram_monitor_begin(rig->context, &rare, &second));
    assert_ok(vram_device_alloc(rig->device, 960 * MIB, VRAM_MEMORY_DEVICE, &taken));
    assert_true(wait_for(&calls, 2)); /* up: warn and emergency */
    assert_ok(vram_device_free(rig->device, taken));
    assert_true(wait_for(&calls, 4)); /* and down */
    for (int i = 0; i < 5000 && stats_of(pool).cached_bytes; i++) {
        assert_ok(vram_sim_clock_advance(rig->context, 1000)); /* maintenance goes by that */
        vr_os_sleep(1000000);
    }
    assert_int_equal(stats_of(pool).cached_bytes, 0);
    assert_ok(vram_monitor_end(monitor));
    assert_int_equal(vram_monitor_end(monitor), VRAM_ERR_STALE);
    assert_ok(vram_monitor_end(NULL));
    assert_ok(vram_monitor_end(second)); /* which does not wait for its next look */
    assert_ok(vram_monitor_begin(rig->context, NULL, &second)); /* and ends with the context */
    vram_device_close(rig->device);
}

struct ending {
    vram_context *context;
    vram_monitor *monitor;
    atomic_int calls;
};

static void end_monitor(void *user, const vram_pressure_event *event) {
    struct ending *ending = user;
    (void)event;
    if (ending->monitor) {
        assert_ok(vram_monitor_end(ending->monitor));
    } else {
        vram_context_destroy(ending->context);
    }
    atomic_fetch_add(&ending->calls, 1);
}

struct stuck {
    atomic_int calls, leave;
};

static void stay_inside(void *user, const vram_pressure_event *event) {
    struct stuck *stuck = user;
    (void)event;
    atomic_fetch_add(&stuck->calls, 1);
    while (!atomic_load(&stuck->leave)) {
        vr_os_sleep(1000000);
    }
}

/* A callback that does not return keeps the thread, but not for ever who ends the monitor. */
TEST(a_stuck_monitor_is_given_up) {
    struct stuck stuck = {.calls = 0};
    vram_watch_options options = {.size = sizeof options, .call = stay_inside, .user = &stuck};
    vram_monitor *monitor;
    vram_watch *watch;
    vram_addr taken;
    assert_ok(vram_option_set("wait_timeout", "20ms"));
    struct rig rig = rig_make("sim", "memory=1G");
    assert_ok(vram_device_alloc(rig.device, 960 * MIB, VRAM_MEMORY_DEVICE, &taken));
    assert_ok(vram_monitor_begin(rig.context, &quick, &monitor));
    assert_ok(vram_device_watch_begin(rig.device, &options, &watch));
    assert_true(wait_for(&stuck.calls, 1));
    assert_int_equal(vram_monitor_end(monitor), VRAM_ERR_TIMEOUT);
    atomic_store(&stuck.leave, 1);
    vram_context_destroy(rig.context);
    for (int i = 0; i < 5000 && vr_locks_live() > locks_before; i++) {
        vr_os_sleep(1000000); /* the thread is on its way out */
    }
    for (int i = 0; i < 5000 && vr_mem_live_bytes() > bytes_before; i++) {
        vr_os_sleep(1000000);
    }
}

/* A callback of the monitor's own thread ends it, or everything. */
TEST(a_monitor_may_be_ended_by_its_own_callback) {
    for (int whole = 0; whole < 2; whole++) {
        struct ending ending = {.calls = 0};
        vram_watch_options options = {.size = sizeof options,
                                      .call = end_monitor,
                                      .user = &ending,
                                      .edges = VRAM_PRESSURE_WARN};
        vram_monitor *monitor;
        vram_watch *watch;
        vram_addr taken;
        struct rig rig = rig_make("sim", "memory=1G");
        assert_ok(vram_device_alloc(rig.device, 800 * MIB, VRAM_MEMORY_DEVICE, &taken));
        assert_ok(vram_monitor_begin(rig.context, &quick, &monitor));
        ending.context = rig.context;
        ending.monitor = whole ? NULL : monitor;
        assert_ok(vram_device_watch_begin(rig.device, &options, &watch));
        assert_true(wait_for(&ending.calls, 1));
        if (!whole) {
            vram_context_destroy(rig.context);
        }
        for (int i = 0; i < 5000 && vr_mem_live_bytes() > bytes_before; i++) {
            vr_os_sleep(1000000); /* the thread may still be on its way out */
        }
    }
}
