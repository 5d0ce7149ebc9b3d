/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pressure.c: the number and its levels, and who is told of it.
 */
#include "unit/pressure_world.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>

/* -------------------------------------------------------------------- levels */

static const struct {
    uint64_t ten_thousandths;
    vram_pressure_level level;
} boundaries[] = {
    {0, VRAM_PRESSURE_LOW},         {5999, VRAM_PRESSURE_LOW},       {6000, VRAM_PRESSURE_MEDIUM},
    {7999, VRAM_PRESSURE_MEDIUM},   {8000, VRAM_PRESSURE_HIGH},      {9500, VRAM_PRESSURE_HIGH},
    {9501, VRAM_PRESSURE_CRITICAL}, {10000, VRAM_PRESSURE_CRITICAL},
};

enum { BOUNDARIES = sizeof boundaries / sizeof boundaries[0] };

TEST(acceptance_06_boundaries_of_numbers) {
    for (unsigned i = 0; i < BOUNDARIES; i++) {
        double value = (double)boundaries[i].ten_thousandths / 10000;
        assert_int_equal(vram_pressure_level_of(value), boundaries[i].level);
    }
    assert_int_equal(vram_pressure_level_of(1.5), VRAM_PRESSURE_CRITICAL);
    assert_int_equal(vram_pressure_level_of(INFINITY), VRAM_PRESSURE_CRITICAL);
    assert_int_equal(vram_pressure_level_of(NAN), VRAM_PRESSURE_UNKNOWN);
    assert_int_equal(vram_pressure_level_of(-0.1), VRAM_PRESSURE_UNKNOWN);
    assert_int_equal(vram_pressure_level_of(-INFINITY), VRAM_PRESSURE_UNKNOWN);
    assert_string_equal(vram_pressure_level_name(VRAM_PRESSURE_HIGH), "high");
    assert_string_equal(vram_pressure_level_name((vram_pressure_level)99), "unknown");
}

/* A pool's own limit counts where it is nearer than the device's. */
TEST(acceptance_06_boundaries_of_limits) {
    static const struct {
        uint64_t held; /* MiB, of 200 */
        vram_pressure_level level;
    } steps[] = {{118, VRAM_PRESSURE_LOW},     {120, VRAM_PRESSURE_MEDIUM},
                 {158, VRAM_PRESSURE_MEDIUM},  {160, VRAM_PRESSURE_HIGH},
                 {190, VRAM_PRESSURE_HIGH},    {192, VRAM_PRESSURE_CRITICAL},
                 {200, VRAM_PRESSURE_CRITICAL}};
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 200 * MIB};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    struct rig rig = rig_told();
    for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        vram_pool *pool = pool_of(&rig, &options);
        vram_addr addr;
        assert_ok(vram_alloc(pool, steps[i].held * MIB, rig.queue, &addr));
        vram_pressure pressure = pressure_of(pool);
        assert_true(pressure.own_known && pressure.limit_bytes.known);
        assert_int_equal(pressure.limit_bytes.value, 200 * MIB);
        assert_int_equal(pressure.reserved_bytes, steps[i].held * MIB);
        assert_true(pressure.value == (double)steps[i].held / 200 && pressure.device == 0);
        assert_int_equal(pressure.level, steps[i].level);
        assert_ok(vram_pool_destroy(pool));
    }
    rig_end_clean(&rig);
}

/* Of nothing there is no share, and what a driver does not say is not known. */
TEST(acceptance_06_unknown_stays_unknown) {
    vram_pressure pressure = {.size = sizeof pressure};
    struct rig rig = rig_told();
    told.free = told.total = 0; /* 0 of 0 bytes are free */
    assert_ok(vram_device_pressure_get(rig.device, &pressure));
    assert_false(pressure.known || pressure.device_known || pressure.own_known);
    assert_int_equal(pressure.level, VRAM_PRESSURE_UNKNOWN);
    told.free = 5 * MIB; /* more than there is */
    assert_ok(vram_device_pressure_get(rig.device, &pressure));
    assert_false(pressure.known);
    told.total = 1;
    assert_ok(vram_device_pressure_get(rig.device, &pressure));
    assert_true(pressure.known && pressure.value == 0);
    fault(&rig, VRAM_SIM_MEMORY_INFO, 1, true, VRAM_SIM_INVALID_VALUE);
    assert_ok(vram_device_pressure_get(rig.device, &pressure));
    assert_false(pressure.known);
    expect_no_record();
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    rig_end_clean(&rig);

    rig = rig_make("sim", "memory=64M,info=off");
    assert_ok(vram_device_pressure_get(rig.device, &pressure));
    assert_false(pressure.known);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------ watching */

/* Told once on the way up, once on the way down, and not of what happens between. */
TEST(thresholds_have_hysteresis) {
    static const struct {
        uint64_t value;
        unsigned calls;
    } walk[] = {{5000, 0}, {7000, 0}, {7001, 1}, {6999, 1}, {7100, 1}, {6501, 1},
                {6499, 2}, {6999, 2}, {7001, 3}, {9000, 3}, {9001, 4}, {8501, 4},
                {8499, 5}, {9999, 6}, {1000, 8}, {9999, 10}};
    struct log log = {0}, device_log = {0};
    vram_watch *watch;
    struct rig rig = rig_told();
    vram_pool *pool = pool_of(&rig, NULL);
    vram_watch_options options = {.size = sizeof options, .call = write_down, .user = &device_log};
    watch_pool(pool, write_down, &log, 0);
    assert_ok(vram_device_watch_begin(rig.device, &options, &watch));
    for (unsigned i = 0; i < sizeof walk / sizeof walk[0]; i++) {
        told_pressure(walk[i].value);
        pressure_of(pool);
        assert_int_equal(log.calls, walk[i].calls);
        assert_int_equal(device_log.calls, walk[i].calls);
    }
    /* Falling from above, emergency ends first; rising from below, it comes last. */
    assert_int_equal(log.all[6].edge, VRAM_PRESSURE_EMERGENCY);
    assert_false(log.all[6].up);
    assert_int_equal(log.all[7].edge, VRAM_PRESSURE_WARN);
    assert_int_equal(log.all[8].edge, VRAM_PRESSURE_WARN);
    assert_int_equal(log.last.edge, VRAM_PRESSURE_EMERGENCY);
    assert_true(log.last.up && log.last.threshold == 0.9 && log.last.value == 0.9999);
    assert_int_equal(log.last.level, VRAM_PRESSURE_CRITICAL);
    assert_ptr_equal(log.last.pool, pool);
    assert_ptr_equal(log.last.device, rig.device);
    assert_null(device_log.last.pool);
    assert_ok(vram_watch_end(watch));
    assert_int_equal(vram_watch_end(watch), VRAM_ERR_STALE);
    assert_ok(vram_watch_end(NULL));
    told_pressure(0);
    pressure_of(pool);
    assert_int_equal(device_log.calls, 10);
    assert_int_equal(log.calls, 12);
    rig_end_clean(&rig);
}

/* The same at other values than 0.7 and 0.9, with a hysteresis of its own. */
TEST(thresholds_are_the_programs_choice) {
    static const struct {
        uint64_t value;
        unsigned calls;
        double threshold; /* of the last call */
    } walk[] = {{4999, 0, 0},   {5001, 1, 0.5}, {4901, 1, 0.5}, {5100, 1, 0.5},
                {4899, 2, 0.5}, {6001, 4, 0.6}, {5901, 4, 0.6}, {5899, 5, 0.6}};
    struct log log = {0};
    vram_watch *watch;
    struct rig rig = rig_told();
    vram_pool *pool = pool_of(&rig, NULL);
    vram_watch_options options = {.size = sizeof options,
                                  .call = write_down,
                                  .user = &log,
                                  .warn = 0.5,
                                  .emergency = 0.6,
                                  .hysteresis = 0.01};
    assert_ok(vram_pool_watch_begin(pool, &options, &watch));
    for (unsigned i = 0; i < sizeof walk / sizeof walk[0]; i++) {
        told_pressure(walk[i].value);
        pressure_of(pool);
        assert_int_equal(log.calls, walk[i].calls);
        assert_true(log.last.threshold == walk[i].threshold);
    }
    rig_end_clean(&rig);
}

/* Every level is entered both ways, and counted. */
TEST(levels_are_told_and_counted) {
    struct log log = {0};
    struct rig rig = rig_told();
    vram_pool *pool = pool_of(&rig, NULL);
    watch_pool(pool, write_down, &log, VRAM_PRESSURE_LEVEL);
    static const uint64_t up[] = {0, 6000, 8000, 9501}, down[] = {8999, 7499, 5499};
    for (unsigned i = 0; i < 4; i++) {
        told_pressure(up[i]);
        pressure_of(pool);
        assert_int_equal(log.calls, i);
    }
    told_pressure(9001); /* within the hysteresis */
    pressure_of(pool);
    assert_int_equal(log.calls, 3);
    for (unsigned i = 0; i < 3; i++) {
        told_pressure(down[i]);
        pressure_of(pool);
        assert_int_equal(log.downs, i + 1);
        assert_int_equal(log.last.level, VRAM_PRESSURE_HIGH - i);
        assert_int_equal(log.last.last, VRAM_PRESSURE_CRITICAL - i);
    }
    vram_pool_stats stats = stats_of(pool);
    for (unsigned i = 0; i < VRAM_PRESSURE_ROOM; i++) {
        assert_int_equal(stats.rises[i], i >= VRAM_PRESSURE_MEDIUM && i <= VRAM_PRESSURE_CRITICAL);
        assert_int_equal(stats.falls[i], i >= VRAM_PRESSURE_LOW && i <= VRAM_PRESSURE_HIGH);
    }
    rig_end_clean(&rig);
}

/* ---------------------------------------------------- callbacks that do things */

static void allocate_and_free(void *user, const vram_pressure_event *event) {
    struct log *log = user;
    vram_addr addr;
    write_down(user, event);
    assert_ok(vram_free(log->addr, log->queue));
    log->addr = 0;
    assert_ok(vram_alloc(log->pool, 3 * MIB, log->queue, &addr));
    assert_ok(vram_free(addr, log->queue));
    vram_error_clear();
    (void)vram_free(12345, log->queue); /* leaves an error that is nobody's business */
}

static void destroy_context(void *user, const vram_pressure_event *event) {
    struct log *log = user;
    write_down(user, event);
    vram_context_destroy(log->context);
}

TEST(callbacks_may_call_the_library) {
    struct log log = {0};
    struct rig rig = rig_told();
    log.pool = pool_of(&rig, NULL);
    log.queue = rig.queue;
    assert_ok(vram_alloc(log.pool, 5 * MIB, rig.queue, &log.addr));
    watch_pool(log.pool, allocate_and_free, &log, 0);
    told_pressure(7500);
    vram_error_clear();
    pressure_of(log.pool);
    expect_no_record();
    assert_int_equal(log.calls, 1);
    assert_int_equal(log.addr, 0);
    rig_end_clean(&rig);
}

TEST(callbacks_may_end_everything) {
    struct log log = {0};
    vram_addr addr;
    struct rig rig = rig_make("sim", "memory=100M");
    log.context = rig.context;
    vram_pool *pool = pool_of(&rig, NULL);
    watch_pool(pool, destroy_context, &log, VRAM_PRESSURE_WARN);
    assert_ok(vram_alloc(pool, 90 * MIB, rig.queue, &addr));
    assert_int_equal(log.calls, 1);
    assert_int_equal(vram_free(addr, rig.queue), VRAM_ERR_INVALID);
}

/* ------------------------------------------------ callbacks that do not return */

struct stuck {
    vram_pool *pool;
    sem_t inside, leave;
};

static void stay(void *user, const vram_pressure_event *event) {
    struct stuck *stuck = user;
    (void)event;
    sem_post(&stuck->inside);
    sem_wait(&stuck->leave);
}

static void *notice(void *argument) {
    struct stuck *stuck = argument;
    vram_pressure pressure = {.size = sizeof pressure};
    assert_ok(vram_pool_pressure_get(stuck->pool, &pressure));
    return NULL;
}

/* It holds up its own thread and no other; ending its watch has a deadline. */
TEST(a_callback_that_does_not_return_stops_nobody) {
    struct stuck stuck;
    vram_watch_options options = {
        .size = sizeof options, .call = stay, .user = &stuck, .edges = VRAM_PRESSURE_WARN};
    vram_watch *watch;
    pthread_t thread;
    assert_ok(vram_option_set("wait_timeout", "20ms"));
    struct rig rig = rig_told();
    stuck.pool = pool_of(&rig, NULL);
    sem_init(&stuck.inside, 0, 0);
    sem_init(&stuck.leave, 0, 0);
    assert_ok(vram_pool_watch_begin(stuck.pool, &options, &watch));
    told_pressure(7500);
    assert_int_equal(pthread_create(&thread, NULL, notice, &stuck), 0);
    sem_wait(&stuck.inside);
    cache_blocks(&rig, stuck.pool, 3 * MIB, 4, 10); /* others go on */
    pressure_of(stuck.pool);
    assert_int_equal(vram_watch_end(watch), VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_watch_end(watch), VRAM_ERR_STALE);
    sem_post(&stuck.leave);
    pthread_join(thread, NULL);
    sem_destroy(&stuck.inside);
    sem_destroy(&stuck.leave);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------ bad input */

TEST(bad_thresholds_are_refused) {
    static const struct {
        double warn, emergency, hysteresis;
    } bad[] = {{NAN, 0.9, 0.05}, {0.7, NAN, 0.05},  {0.7, 0.9, NAN},
               {0.9, 0.7, 0.05}, {-0.1, 0.9, 0.05}, {0.7, 1.01, 0.05},
               {0.7, 0.9, 0.7},  {0.7, 0.9, -0.01}, {INFINITY, INFINITY, 0.05}};
    static const bool is_hysteresis[] = {[2] = true, [6] = true, [7] = true, [8] = false};
    struct rig rig = rig_told();
    vram_pool *pool = pool_of(&rig, NULL);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vram_watch *watch = NULL;
        vram_watch_options options = {.size = sizeof options,
                                      .call = write_down,
                                      .warn = bad[i].warn,
                                      .emergency = bad[i].emergency,
                                      .hysteresis = bad[i].hysteresis};
        vram_response_options response = {.size = sizeof response,
                                          .emergency = bad[i].emergency,
                                          .hysteresis = bad[i].hysteresis};
        vram_pool_options wanted = {.size = sizeof wanted, .response = &response};
        vram_pool *none = NULL;
        assert_int_equal(vram_pool_watch_begin(pool, &options, &watch), VRAM_ERR_INVALID);
        assert_int_equal(vram_device_watch_begin(rig.device, &options, &watch), VRAM_ERR_INVALID);
        assert_null(watch);
        assert_int_equal(strstr(vram_error_get()->text, "thresholds are invalid") == NULL,
                         is_hysteresis[i]); /* the text names the right one */
        if (i == 1 || i == 2 || i == 5 || i == 7 || i == 8) {
            assert_int_equal(vram_pool_response_set(pool, &response), VRAM_ERR_INVALID);
            assert_int_equal(vram_pool_create(rig.device, &wanted, &none), VRAM_ERR_INVALID);
            assert_null(none);
        }
    }
    rig_end_clean(&rig);
}
