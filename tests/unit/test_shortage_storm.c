/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shortage_storm.c: everything at once on a device that is too small: threads that allocate
 * for tags with quotas, a pool that sleeps and wakes under them, limits that change, cleanups,
 * reports, callbacks and watches that come and go. Nothing may hang or break, what is live keeps
 * its contents, and all of it is given back.
 */
#include "trims.h"
#include "unit/ladder_world.h"
#include "unit/report_text.h"

#include "base/atomic.h"
#include "vram/foreign.h"
#include "vram/limits.h"
#include "vram/pressure.h"
#include "vram/stats.h"

#include <stdlib.h>

enum { ROUNDS = 4000, HELD = 8, POOLS = 2 };

struct storm {
    struct rig rig;
    vram_pool *pools[POOLS];
    vr_atomic_bool stop;
    vr_atomic_bool sleeping, meddling; /* each has been through once, and goes on until `stop` */
    vr_atomic_u64 served, refused, slept, woke, told;
};

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* What any of these calls may answer here; anything else is a mistake of the library's. */
static void expect_allowed(vram_status status) {
    bool allowed = status == VRAM_OK || vram_status_is_exhausted(status) ||
                   status == VRAM_ERR_BUSY || status == VRAM_ERR_INVALID ||
                   status == VRAM_ERR_TIMEOUT;
    if (!allowed) {
        print_error("%s: %s\n", vram_status_name(status), vram_error_get()->text);
        abort();
    }
}

struct worker {
    struct storm *storm;
    uint32_t seed;
};

static void *allocate(void *user) {
    static const char *const tags[] = {"a/x", "a/y", "b", NULL};
    struct worker *worker = user;
    struct storm *storm = worker->storm;
    struct {
        vram_pool *pool;
        vram_addr addr;
    } held[HELD] = {{NULL, 0}};
    /* However late the last thread starts: limits are set, and nothing is over before they
       change. */
    while (!vr_load(&storm->sleeping, VR_RELAXED) || !vr_load(&storm->meddling, VR_RELAXED)) {
        vr_os_yield();
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t at = next(&worker->seed) % HELD;
        if (held[at].addr) {
            expect_allowed(vram_free(held[at].addr, NULL));
            held[at].addr = 0;
            continue;
        }
        vram_alloc_options options = {.size = sizeof options, .tag = tags[next(&worker->seed) % 4]};
        held[at].pool = storm->pools[next(&worker->seed) % POOLS];
        uint64_t bytes = 1 + next(&worker->seed) % (round % 8 ? 64 * KIB : 12 * MIB);
        vram_status status = vram_alloc_with(held[at].pool, bytes, NULL,
                                             options.tag ? &options : NULL, &held[at].addr);
        expect_allowed(status);
        vr_fetch_add(status == VRAM_OK ? &storm->served : &storm->refused, 1, VR_RELAXED);
    }
    for (int at = 0; at < HELD; at++) {
        if (held[at].addr) {
            assert_ok(vram_free(held[at].addr, NULL));
        }
    }
    return NULL;
}

static void *sleep_and_wake(void *user) {
    struct worker *worker = user;
    struct storm *storm = worker->storm;
    while (!vr_load(&storm->stop, VR_RELAXED)) {
        vram_sleep_options options = {.size = sizeof options,
                                      .contents = VRAM_SLEEP_HOST,
                                      .tag = next(&worker->seed) % 3 ? "keep" : NULL};
        vram_status status = vram_pool_sleep(storm->pools[0], &options);
        expect_allowed(status);
        vr_fetch_add(&storm->slept, status == VRAM_OK, VR_RELAXED);
        status = vram_pool_wake(storm->pools[0], NULL);
        expect_allowed(status);
        vr_fetch_add(&storm->woke, status == VRAM_OK, VR_RELAXED);
        vr_store(&storm->sleeping, true, VR_RELAXED);
    }
    return NULL;
}

static uint64_t let_go(void *user, const vram_oom_event *event) {
    struct storm *storm = user;
    vram_oom_report report = {.size = sizeof report};
    (void)vram_oom_report_get(event->pool, &report);
    vr_fetch_add(&storm->told, 1, VR_RELAXED);
    expect_allowed(vram_pool_trim(storm->pools[1], NULL, NULL));
    return event->bytes % 3;
}

static void pressed(void *user, const vram_pressure_event *event) {
    struct storm *storm = user;
    (void)event;
    vr_fetch_add(&storm->told, 1, VR_RELAXED);
}

static vram_error_answer answer(void *user, const vram_error_event *event) {
    struct storm *storm = user;
    vr_fetch_add(&storm->told, 1, VR_RELAXED);
    return (vram_error_answer)(event->total % 3);
}

static void change_limits(struct storm *storm, uint32_t *seed) {
    vram_limits limits = {.size = sizeof limits,
                          .fraction = 0.5 + next(seed) % 5 / 10.0,
                          .min_free_bytes = VRAM_LIMIT_NONE,
                          .cached_bytes = (1 + next(seed) % 8) * MIB,
                          .cpu_fallback = next(seed) % 3};
    if (next(seed) % 2) {
        expect_allowed(vram_device_limits_set(storm->rig.device, &limits));
    } else {
        expect_allowed(vram_pool_limits_set(storm->pools[next(seed) % POOLS], &limits));
    }
    expect_allowed(vram_tag_quota_set(storm->rig.device, "a", MIB, (2 + next(seed) % 16) * MIB));
}

static void look(struct storm *storm, uint32_t *seed) {
    static _Thread_local struct report_text text;
    vram_oom_report report = {.size = sizeof report};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_health_info health = {.size = sizeof health};
    uint64_t released;
    if (vram_oom_report_get(storm->pools[next(seed) % POOLS], &report) == VRAM_OK) {
        text.bytes = 0;
        assert_ok(vram_oom_report_write(&report, VRAM_REPORT_TEXT, report_text_take, &text));
    }
    assert_ok(vram_context_stats_get(storm->rig.context, &stats));
    assert_ok(vram_health(storm->rig.device, NULL, &health));
    expect_allowed(vram_context_trim(storm->rig.context, NULL, &released));
    expect_allowed(
        vram_pool_trim(storm->pools[next(seed) % POOLS], TRIM(.flags = VRAM_TRIM_RARE), &released));
}

static void *meddle(void *user) {
    struct worker *worker = user;
    struct storm *storm = worker->storm;
    while (!vr_load(&storm->stop, VR_RELAXED)) {
        vram_watch_options options = {.size = sizeof options, .call = pressed, .user = storm};
        vram_foreign_options foreign = {
            .size = sizeof foreign, .flags = VRAM_FOREIGN_COUNTS, .tag = "b"};
        vram_watch *watch = NULL;
        uint64_t callback = 0, record = 0;
        expect_allowed(vram_pool_watch_begin(storm->pools[1], &options, &watch));
        expect_allowed(vram_oom_callback_add(storm->rig.device, let_go, storm, &callback));
        bool tracked = vram_foreign_track(storm->rig.device, 4 * MIB, &foreign, &record) == VRAM_OK;
        change_limits(storm, &worker->seed);
        look(storm, &worker->seed);
        if (tracked) {
            assert_ok(vram_foreign_untrack(storm->rig.device, record));
        }
        expect_allowed(vram_oom_callback_remove(storm->rig.device, callback));
        expect_allowed(vram_watch_end(watch));
        vr_store(&storm->meddling, true, VR_RELAXED);
    }
    return NULL;
}

static void all_at_once(void **state) {
    (void)state;
    static struct storm storm;
    enum { ALLOCATORS = 3, THREADS = ALLOCATORS + 2 };
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    vram_alloc_options kept = {.size = sizeof kept, .tag = "keep"};
    vram_addr addr;
    uint8_t found[64];
    memset(&storm, 0, sizeof storm);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF); /* vram_health has a lot to say here */
    storm.rig = rig_make("sim", SIM);
    for (int i = 0; i < POOLS; i++) {
        /* The ways of a hit and of a miss differ, and a debug build would track both. */
        assert_ok(vram_option_set("tracking", i ? "on" : "off"));
        storm.pools[i] = pool_on(storm.rig.device, i ? "second" : "first", 0);
        vram_ladder_options ladder = {.size = sizeof ladder,
                                      .steps = "",
                                      .fallback = i ? VRAM_FALLBACK_HOST : 0,
                                      .wait_ns = 200000};
        assert_ok(vram_pool_ladder_set(storm.pools[i], &ladder));
    }
    assert_ok(vram_error_handler_set(storm.rig.context, answer, &storm));
    assert_ok(vram_alloc_with(storm.pools[0], 4 * MIB, storm.rig.queue, &kept, &addr));
    assert_ok(vram_queue_fill(storm.rig.queue, addr, 77, 1, 4 * MIB));
    assert_ok(vram_queue_wait(storm.rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.storm = &storm, .seed = (uint32_t)i + 1};
        void *(*run)(void *) = i < ALLOCATORS    ? allocate
                               : i == ALLOCATORS ? sleep_and_wake
                                                 : meddle;
        assert_int_equal(pthread_create(&threads[i], NULL, run, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        if (i == ALLOCATORS) {
            vr_store(&storm.stop, true, VR_RELAXED);
        }
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    whole_device(storm.rig.device);
    vram_limits none = {.size = sizeof none};
    for (int i = 0; i < POOLS; i++) {
        assert_ok(vram_pool_limits_set(storm.pools[i], &none));
    }
    expect_allowed(vram_pool_wake(storm.pools[0], NULL));
    assert_true(vr_load(&storm.served, VR_RELAXED) > 0 && vr_load(&storm.refused, VR_RELAXED) > 0);
    assert_ok(vram_queue_download(storm.rig.queue, found, addr + 4 * MIB - 64, 64));
    assert_ok(vram_queue_wait(storm.rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < 64; i++) {
        assert_int_equal(found[i], 77);
    }
    assert_int_equal(stats_of(storm.pools[0]).live_blocks, 1);
    assert_int_equal(stats_of(storm.pools[1]).live_blocks, 0);
    vram_tag_info info = {.size = sizeof info};
    assert_ok(vram_tag_info_get(storm.rig.device, "a", &info));
    assert_int_equal(info.used_bytes, 0);
    rig_end_clean(&storm.rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_at_once, start, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
