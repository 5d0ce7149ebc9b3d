/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_wake.c: pools that wake when memory is short: what is tried before they sleep on, and
 * what is left of it.
 */
#include "unit/sleep_world.h"

/* Frees some blocks of a pool that sleeps, and wakes it where `left` bytes and less than a granule
   are free: what lies
   under no live block needs no memory, on the device or the host, and becomes addresses. */
static void wake_without(uint32_t freed, bool sealed, uint64_t left) {
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    vram_addr taken, addr;
    fill(&rig);
    assert_true(!sealed || vram_pool_seal(rig.pool, NULL) == VRAM_OK);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    for (int i = 0; i < BLOCKS; i++) {
        assert_true(!(freed >> i & 1) || vram_free(rig.addrs[i], rig.queue) == VRAM_OK);
    }
    assert_ok(vram_device_alloc(rig.device, 1792 * KIB - left, VRAM_MEMORY_DEVICE, &taken));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    spaces_are_sound(&rig);
    assert_int_equal(stats_of(rig.pool).asleep_bytes, 0);
    assert_true(stats_of(rig.pool).reserved_bytes <= left);
    assert_int_equal(stats_of(rig.pool).sealed_bytes,
                     sealed ? stats_of(rig.pool).reserved_bytes : 0);
    assert_true(sealed || stats_of(rig.pool).asleep_host_bytes == 0);
    for (int i = 0; i < BLOCKS; i++) {
        if (!(freed >> i & 1)) {
            expect_contents(&rig, i);
        }
    }
    assert_ok(vram_device_free(rig.device, taken));
    assert_ok(vram_alloc(rig.pool, 1024 * KIB, rig.queue, &addr)); /* in use again */
    assert_ok(vram_pool_destroy(rig.pool));
    rig_end(&rig, false);
}

TEST(what_was_freed_needs_no_memory) {
    for (int sealed = 0; sealed < 2; sealed++) {
        wake_without(63, sealed, 0);
        wake_without(63 & ~4, sealed, 192 * KIB); /* blocks of the same pieces, in part */
        wake_without(9, sealed, 448 * KIB);
    }
}

/* A tag whose blocks were all freed wakes without memory; the others sleep on, with theirs. */
TEST(a_freed_tag_wakes_to_nothing) {
    struct rig rig = rig_make("memory=4M,granule=64K", 0);
    vram_addr addrs[2], taken;
    vram_alloc_options wish = {.size = sizeof wish};
    for (int i = 0; i < 2; i++) {
        wish.tag = i ? "kept" : "freed";
        assert_ok(vram_alloc_with(rig.pool, 1024 * KIB, rig.queue, &wish, &addrs[i]));
        assert_ok(vram_queue_fill(rig.queue, addrs[i], 7, 1, 1024 * KIB));
    }
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_free(addrs[0], rig.queue));
    assert_ok(vram_device_alloc(rig.device, 3968 * KIB, VRAM_MEMORY_DEVICE, &taken));
    assert_ok(vram_pool_wake(rig.pool, "freed"));
    assert_int_equal(stats_of(rig.pool).asleep_bytes, 1024 * KIB);
    assert_int_equal(vram_pool_wake(rig.pool, "freed"), VRAM_ERR_INVALID);
    assert_true(vram_status_is_exhausted(vram_pool_wake(rig.pool, "kept")));
    assert_ok(vram_device_free(rig.device, taken));
    assert_ok(vram_pool_wake(rig.pool, "kept"));
    uint8_t found = 0;
    assert_ok(vram_queue_download(rig.queue, &found, addrs[1] + 1024 * KIB - 1, 1));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(found, 7);
    assert_ok(vram_alloc(rig.pool, 512 * KIB, rig.queue, &addrs[0])); /* all is awake */
    rig_end(&rig, true);
}

static vram_pool *second_pool(const struct rig *rig) {
    vram_pool_options options = {.size = sizeof options, .name = "second"};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

/* Memory that lies free in another pool is memory for the one that wakes. */
TEST(waking_climbs_the_ladder) {
    vram_addr addr;
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    vram_pool *second = second_pool(&rig);
    fill(&rig);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_alloc(second, 1600 * KIB, NULL, &addr));
    assert_ok(vram_free(addr, NULL));
    assert_true(stats_of(second).reserved_bytes >= 1600 * KIB);
    vram_ladder_options none = {.size = sizeof none, .steps = "none"};
    assert_ok(vram_pool_ladder_set(rig.pool, &none));
    assert_true(vram_status_is_exhausted(vram_pool_wake(rig.pool, NULL)));
    assert_ok(vram_pool_ladder_set(rig.pool, NULL));
    vram_error_clear();
    assert_ok(vram_pool_wake(rig.pool, NULL));
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_int_equal(stats_of(rig.pool).ladder_rescues[VRAM_LADDER_OTHERS], 1);
    assert_int_equal(stats_of(rig.pool).ladder_steps[VRAM_LADDER_CALLBACKS], 0);
    for (int i = 0; i < BLOCKS; i++) {
        expect_contents(&rig, i);
    }
    rig_end(&rig, true);
}

struct sitter {
    struct rig *rig;
    vram_pool *pool;
    vram_addr addr;
    enum { FREES, SLEEPS, WAKES, DESTROYS, NOTHING } does;
    vram_status inner;
    unsigned calls;
};

static uint64_t sit(void *user, const vram_oom_event *event) {
    struct sitter *sitter = user;
    sitter->calls++;
    assert_ptr_equal(event->pool, sitter->rig->pool);
    assert_true(event->bytes >= 64 * KIB);
    switch (sitter->does) {
    case FREES:
        sitter->inner = vram_free(sitter->addr, NULL);
        break;
    case SLEEPS: /* another pool makes room */
        sitter->inner = vram_pool_sleep(sitter->pool, NULL);
        break;
    case WAKES:
        sitter->inner = vram_pool_wake(sitter->rig->pool, NULL);
        break;
    case DESTROYS:
        sitter->inner = vram_pool_destroy(sitter->rig->pool);
        break;
    case NOTHING:
        return 0;
    }
    return 1600 * KIB;
}

/* The program is asked before waking fails, and may do whatever it likes. */
TEST(waking_asks_the_program) {
    static const struct {
        vram_status status, inner;
    } ends[] = {
        [FREES] = {VRAM_OK, VRAM_OK},
        [SLEEPS] = {VRAM_OK, VRAM_OK},
        [WAKES] = {VRAM_ERR_LIMIT, VRAM_ERR_BUSY},
        [DESTROYS] = {VRAM_ERR_STALE, VRAM_OK},
        [NOTHING] = {VRAM_ERR_LIMIT, VRAM_OK},
    };
    for (int does = FREES; does <= NOTHING; does++) {
        struct rig rig = rig_make("memory=2M,granule=64K", 0);
        struct sitter sitter = {.rig = &rig, .pool = second_pool(&rig), .does = does};
        uint64_t id;
        fill(&rig);
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
        assert_ok(vram_alloc(sitter.pool, 1600 * KIB, NULL, &sitter.addr));
        assert_ok(vram_oom_callback_add(rig.device, sit, &sitter, &id));
        uint64_t live = sim_state(&rig).live_bytes;
        assert_int_equal(vram_pool_wake(rig.pool, NULL), ends[does].status);
        assert_int_equal(sitter.inner, ends[does].inner);
        assert_int_equal(sitter.calls, 1);
        if (ends[does].status == VRAM_OK) {
            for (int i = 0; i < BLOCKS; i++) {
                expect_contents(&rig, i);
            }
        } else {
            assert_int_equal(sim_state(&rig).live_bytes, live); /* nothing is held halfway */
        }
        if (ends[does].status == VRAM_ERR_LIMIT) {
            vram_oom_report report = {.size = sizeof report};
            spaces_are_sound(&rig);
            assert_ok(vram_oom_report_get(rig.pool, &report));
            assert_true(report.asked_bytes >= stats_of(rig.pool).asleep_bytes / 2);
            assert_int_equal(report.step_count, 6);
        }
        rig_end(&rig, does != DESTROYS);
    }
}

struct keeper {
    struct rig *rig;
    vram_addr taken; /* freed at call number `at` */
    unsigned calls, at;
    bool destroys;
    vram_error_answer answer;
    vram_status status;
    uint64_t bytes;
};

static vram_error_answer keep(void *user, const vram_error_event *event) {
    struct keeper *keeper = user;
    keeper->status = event->error->status;
    keeper->bytes = event->bytes;
    if (++keeper->calls == keeper->at) {
        assert_ok(vram_device_free(keeper->rig->device, keeper->taken));
    }
    if (keeper->destroys) {
        assert_ok(vram_pool_destroy(keeper->rig->pool));
    }
    return keeper->answer;
}

/* The error handler is told, and may have it tried again, so often and no more. */
TEST(waking_asks_the_handler) {
    static const struct {
        vram_error_answer answer;
        unsigned at, calls;
        bool destroys;
        vram_status status;
    } cases[] = {
        {VRAM_ERROR_FAIL, 0, 1, false, VRAM_ERR_LIMIT},
        {VRAM_ERROR_FALL_BACK, 0, 1, false, VRAM_ERR_LIMIT},
        {VRAM_ERROR_RETRY, 0, 1 + VRAM_ERROR_RETRIES_MAX, false, VRAM_ERR_LIMIT},
        {VRAM_ERROR_RETRY, 2, 2, false, VRAM_OK},
        {VRAM_ERROR_RETRY, 0, 1, true, VRAM_ERR_STALE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig = rig_make("memory=2M,granule=64K", 0);
        struct keeper keeper = {.rig = &rig,
                                .answer = cases[i].answer,
                                .at = cases[i].at,
                                .destroys = cases[i].destroys};
        fill(&rig);
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
        uint64_t asleep = stats_of(rig.pool).asleep_bytes;
        assert_ok(vram_device_alloc(rig.device, 1536 * KIB, VRAM_MEMORY_DEVICE, &keeper.taken));
        assert_ok(vram_error_handler_set(rig.context, keep, &keeper));
        vram_error_clear();
        vram_status status = vram_pool_wake(rig.pool, NULL);
        assert_int_equal(status, cases[i].status);
        assert_int_equal(vram_error_get()->status, status);
        assert_int_equal(keeper.calls, cases[i].calls);
        assert_int_equal(keeper.status, VRAM_ERR_LIMIT);
        assert_int_equal(keeper.bytes, asleep);
        for (int j = 0; j < BLOCKS && status == VRAM_OK; j++) {
            expect_contents(&rig, j);
        }
        rig_end(&rig, true);
    }
}

EACH_TEST(NULL, nothing_left)
