/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sleep_copy.c: contents that several threads copy to the host and back, through slots and
 * without them: every word is compared, for small and large parts; any call of any
 * thread may fail; and the host's memory is what bounds a sleep.
 */
#include "unit/fault_step.h"
#include "unit/sleep_world.h"

#include "base/os/os.h"

#include <errno.h>

enum { FILLED = 4 }; /* blocks of a large pool */

/* ThreadSanitizer takes long for large copies and for many runs, and the threads do the same for
   either kind of contents, and for calls that fail for ever. */
#ifdef __SANITIZE_THREAD__
enum { LARGE_LAST = VRAM_SLEEP_HOST, TURNS = 2 };
#else
enum { LARGE_LAST = VRAM_SLEEP_PINNED, TURNS = 4 };
#endif

/* Blocks whose sizes are no multiples of a chunk or of a piece. */
static void fill_words(struct rig *rig, uint64_t bytes) {
    for (uint32_t i = 0; i < FILLED; i++) {
        vram_alloc_options wish = {.size = sizeof wish, .tag = i % 2 ? "odd" : "even"};
        assert_ok(vram_alloc_with(rig->pool, bytes + i * 512, rig->queue, &wish, &rig->addrs[i]));
        for (uint64_t at = 0; at < bytes; at += 64 * KIB) {
            assert_ok(vram_queue_fill(rig->queue, rig->addrs[i] + at, (uint32_t)(at / 64 * 4 + i),
                                      4, 64 * KIB));
        }
    }
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
}

static void expect_words(const struct rig *rig, uint64_t bytes) {
    static uint32_t words[16384];
    for (uint32_t i = 0; i < FILLED; i++) {
        for (uint64_t at = 0; at < bytes; at += sizeof words) {
            assert_ok(vram_queue_download(rig->queue, words, rig->addrs[i] + at, sizeof words));
            assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
            for (size_t j = 0; j < sizeof words / sizeof words[0]; j += 1021) {
                assert_int_equal(words[j], (uint32_t)(at / 64 * 4 + i));
            }
        }
    }
}

/* Tags wake one after the other, and each gives its host memory back. */
static void sleep_and_wake(const char *threads, const char *sim, uint64_t bytes, int last) {
    assert_ok(vram_option_set("staging_threads", threads));
    for (int contents = VRAM_SLEEP_HOST; contents <= last; contents++) {
        struct rig rig = rig_make(sim, 0);
        fill_words(&rig, bytes);
        assert_ok(put_to_sleep(&rig, (vram_sleep_contents)contents, NULL));
        uint64_t host = stats_of(rig.pool).asleep_host_bytes;
        assert_true(host >= FILLED * bytes && host <= stats_of(rig.pool).asleep_bytes);
        assert_ok(vram_pool_wake(rig.pool, "odd"));
        assert_true(stats_of(rig.pool).asleep_host_bytes <= host / 2 + MIB);
        if (stats_of(rig.pool).asleep_bytes) {
            assert_ok(vram_pool_wake(rig.pool, NULL));
        }
        assert_int_equal(stats_of(rig.pool).asleep_host_bytes, 0);
        expect_words(&rig, bytes);
        rig_end(&rig, true);
    }
}

static void one_part(void **state) {
    (void)state;
    for (int threads = 1; threads < 6; threads++) {
        sleep_and_wake((const char[]){(char)('0' + threads), 0}, "memory=8M,granule=64K,lag=3", MIB,
                       VRAM_SLEEP_PINNED);
    }
}

/* Parts of more than a chunk, and more than one. */
static void large_parts(void **state) {
    (void)state;
    sleep_and_wake("3", "memory=1G", 68 * MIB, LARGE_LAST);
}

/* ---------------------------------------------------------------------- faults */

enum fault { MEMORY, SYSTEM, DRIVER, FAULTS };

static void plan(const struct rig *rig, enum fault fault, uint64_t nth, bool for_ever) {
    vram_sim_fault planned = {
        .size = sizeof planned, .nth = nth, .for_ever = for_ever, .code = VRAM_SIM_OUT_OF_MEMORY};
    vr_mem_fail_at(fault == MEMORY ? nth : 0, for_ever);
    vr_os_fail_at(fault == SYSTEM ? nth : 0, for_ever, ENOMEM);
    assert_ok(vram_sim_fault_set(rig->context, fault == DRIVER && nth ? &planned : NULL));
}

/* Sleeps and wakes with the n-th call failing, in whichever thread; whether one failed. */
static bool try_with_fault(enum fault fault, bool waking, uint64_t nth, bool for_ever) {
    struct rig rig = rig_make("memory=8M,granule=64K,lag=3", 0);
    fill_words(&rig, MIB);
    if (waking) {
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    }
    plan(&rig, fault, nth, for_ever);
    vram_status status =
        waking ? vram_pool_wake(rig.pool, NULL) : put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL);
    assert_true(status == VRAM_OK || vram_error_get()->status == status);
    bool failed = vr_mem_failed() || vr_os_failed() || sim_state(&rig).faults;
    plan(&rig, MEMORY, 0, false);
    spaces_are_sound(&rig);
    /* The simulation's own memory is the system's: a device that cannot keep it is lost. */
    bool lost = fault == SYSTEM && vram_queue_poll(rig.queue) == VRAM_ERR_DEVICE_LOST;
    if (!lost) {
        if (stats_of(rig.pool).asleep_bytes) {
            assert_ok(vram_pool_wake(rig.pool, NULL));
        }
        expect_words(&rig, MIB);
        assert_int_equal(stats_of(rig.pool).asleep_host_bytes, 0);
    }
    rig_end(&rig, !for_ever && !lost);
    return failed;
}

static void any_call_may_fail(void **state) {
    (void)state;
    assert_ok(vram_option_set("staging_threads", "3"));
    for (int fault = 0; fault < FAULTS; fault++) {
        for (int turn = 0; turn < TURNS; turn++) {
            uint64_t nth = 1;
            while (try_with_fault((enum fault)fault, turn % 2, nth, turn / 2)) {
                nth += FAULT_STEP * (fault == DRIVER ? 23 : 3);
            }
            assert_true(nth > 1);
        }
    }
}

/* Whether the pool stays awake when its n-th download is refused; false: there is none. */
static bool stays_awake(uint64_t nth) {
    struct rig rig = rig_make("memory=8M,granule=64K,lag=3", 0);
    vram_sim_fault fault = {
        .size = sizeof fault, .call = VRAM_SIM_DOWNLOAD, .nth = nth, .code = 9999};
    fill_words(&rig, MIB);
    assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
    vram_pool_stats before = stats_of(rig.pool);
    assert_ok(vram_sim_fault_set(rig.context, &fault));
    vram_status status = put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL);
    spaces_are_sound(&rig);
    vram_pool_stats after = stats_of(rig.pool);
    if (status != VRAM_OK) {
        assert_int_equal(status, VRAM_ERR_BACKEND);
        assert_int_equal(after.asleep_bytes, 0);
        assert_int_equal(after.asleep_host_bytes, 0);
        assert_int_equal(after.reserved_bytes, before.reserved_bytes);
        assert_int_equal(after.sleeps, 0);
        assert_int_equal(after.driver_maps - before.driver_maps,
                         after.driver_unmaps - before.driver_unmaps);
        assert_int_equal(after.driver_releases, before.driver_releases);
        expect_words(&rig, MIB);
    }
    rig_end(&rig, true);
    return status != VRAM_OK;
}

/* When a copy fails, whichever, the pool is as before. */
static void a_copy_that_fails_changes_nothing(void **state) {
    (void)state;
    for (int threads = 1; threads < 4; threads++) {
        uint64_t nth = 1;
        assert_ok(vram_option_set("staging_threads", (const char[]){(char)('0' + threads), 0}));
        while (stays_awake(nth)) {
            nth += FAULT_STEP;
        }
        assert_true(nth > 4);
    }
}

/* A pool stays awake if there is no host memory for its contents. */
static void no_host_memory(void **state) {
    (void)state;
    struct rig rig = rig_make("memory=8M,granule=64K", 0);
    fill_words(&rig, MIB);
    vr_os_fail_at(1, true, ENOMEM);
    assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL), VRAM_ERR_HOST_MEMORY);
    vr_os_fail_at(0, false, 0);
    assert_int_equal(stats_of(rig.pool).asleep_bytes, 0);
    expect_words(&rig, MIB);
    rig_end(&rig, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_part, nothing_left),
        cmocka_unit_test_teardown(large_parts, nothing_left),
        cmocka_unit_test_teardown(any_call_may_fail, nothing_left),
        cmocka_unit_test_teardown(a_copy_that_fails_changes_nothing, nothing_left),
        cmocka_unit_test_teardown(no_host_memory, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
