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

EACH_TEST(NULL, nothing_left)
