/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_sleep.c: pools that give their memory back and keep their addresses. Contents, which
 * several threads copy to the host and back, are compared through the simulated device.
 */
#include "unit/sleep_world.h"
#include "unit/test_time.h"

/* ------------------------------------------------------------------ whole pools */

/* Without page-locked memory contents go through ordinary memory, which is no error; but what the
   program wants page-locked is refused. */
TEST(sleep_without_page_locked_memory) {
    assert_ok(vram_option_set("staging_threads", "2"));
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, rig.pool);
    struct vr_device *device = &pool->device->base;
    vram_sim_fault refused = {.size = sizeof refused,
                              .call = VRAM_SIM_PINNED_REGISTER,
                              .nth = 1,
                              .for_ever = true,
                              .code = VRAM_SIM_OUT_OF_MEMORY};
    fill(&rig);
    assert_ok(vram_sim_fault_set(rig.context, &refused));
    vram_error_clear();
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_ok(vram_pool_wake(rig.pool, NULL));
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_int_not_equal(put_to_sleep(&rig, VRAM_SLEEP_PINNED, NULL), VRAM_OK);
    assert_true(is_usable(&rig, 0));
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    const struct vr_pinned_ops *pinned = device->pinned;
    device->pinned = NULL;
    assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_PINNED, NULL), VRAM_ERR_UNSUPPORTED);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    device->pinned = pinned;
    for (int i = 0; i < BLOCKS; i++) {
        expect_contents(&rig, i);
    }
    vr_handle_unpin(pool->object.handle);
    rig_end(&rig, true);
}

/* ------------------------------------------------------------------------ tags */

/* The program chooses the order: what it wakes first is awake although memory is too short for the
   rest, which sleeps on with its contents and wakes when there is memory again. */
TEST(the_first_tag_to_wake_gets_the_memory) {
    static const char *const order[3] = {"cache", "model/b", "model/a"};
    vram_addr addrs[3];
    uint8_t found = 0;
    struct rig rig = rig_make("memory=8M,granule=256K", 0);
    for (int i = 0; i < 3; i++) {
        vram_alloc_options wish = {.size = sizeof wish, .tag = order[i]};
        assert_ok(vram_alloc_with(rig.pool, 2 * MIB, rig.queue, &wish, &addrs[i]));
        assert_ok(vram_queue_fill(rig.queue, addrs[i], (uint32_t)(i + 1), 1, 2 * MIB));
    }
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_sim_others_set(rig.context, 0, 3 * MIB + 512 * KIB)); /* memory for two */
    for (int i = 2; i >= 0; i--) {
        vram_status status = vram_pool_wake(rig.pool, order[i]);
        assert_int_equal(status, i ? VRAM_OK : VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(native_of(addrs[i]), i ? VRAM_OK : VRAM_ERR_BUSY);
        spaces_are_sound(&rig);
    }
    assert_int_equal(vram_pool_wake(rig.pool, "model"), VRAM_ERR_INVALID); /* it is awake */
    assert_ok(vram_sim_others_set(rig.context, 0, 0));
    assert_ok(vram_pool_wake(rig.pool, "cache"));
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_queue_download(rig.queue, &found, addrs[i] + MIB, 1));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_int_equal(found, i + 1);
    }
    rig_end(&rig, true);
}

/* A block of the tag that is freed while its tag sleeps, by a thread with a cache. */
TEST(sleeping_blocks_stay_out_of_caches) {
    vram_addr mine, other, addr;
    vram_alloc_options wish = {.size = sizeof wish, .tag = "mine"};
    struct rig rig = rig_make("memory=8M,granule=256K", 0);
    assert_ok(vram_alloc_with(rig.pool, 512 * KIB, rig.queue, &wish, &mine));
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, "mine"));
    for (int i = 0; i < 40; i++) { /* caches come back, and keep what is awake */
        assert_ok(vram_alloc(rig.pool, 8 * KIB, rig.queue, &other));
        assert_ok(vram_free(other, rig.queue));
    }
    assert_true(stats_of(rig.pool).cache_hits > 30);
    assert_ok(vram_free(mine, rig.queue));
    assert_ok(vram_alloc(rig.pool, 512 * KIB, rig.queue, &addr));
    assert_true(addr != mine);
    assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 512 * KIB));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    assert_ok(vram_free(addr, rig.queue));
    rig_end(&rig, true);
}

/* -------------------------------------------------------------------- refusals */

TEST(a_copy_without_an_end_keeps_the_pool_awake) {
    uint8_t data[64];
    memset(data, 9, sizeof data);
    struct rig rig = rig_make("memory=2M,granule=64K,lag=10000,seed=3", 0);
    fill(&rig);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_queue_upload(rig.queue, rig.addrs[0], data, sizeof data));
        test_time_begin(0, UINT64_C(60000000000)); /* every wait is over at the second look */
        assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_HOST, i ? "model" : NULL), VRAM_ERR_TIMEOUT);
        test_time_end();
        spaces_are_sound(&rig);
        assert_int_equal(stats_of(rig.pool).asleep_bytes, 0);
        assert_int_equal(stats_of(rig.pool).sleeps, 0);
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    }
    assert_true(is_usable(&rig, 0));
    for (int i = 1; i < BLOCKS; i++) {
        expect_contents(&rig, i);
    }
    vram_addr addr;
    assert_ok(vram_alloc(rig.pool, 1 * KIB, rig.queue, &addr));
    rig_end(&rig, true);
}

/* -------------------------------------------------------------------- contents */

enum { FILLED = 4 }; /* blocks of a large pool */

/* ThreadSanitizer takes long for large copies, and the threads do the same for either kind of
   contents. */
#ifdef __SANITIZE_THREAD__
enum { LARGE_LAST = VRAM_SLEEP_HOST };
#else
enum { LARGE_LAST = VRAM_SLEEP_PINNED };
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

TEST(one_part) {
    for (int threads = 1; threads < 6; threads++) {
        sleep_and_wake((const char[]){(char)('0' + threads), 0}, "memory=8M,granule=64K,lag=3", MIB,
                       VRAM_SLEEP_PINNED);
    }
}

/* Parts of more than a chunk, and more than one. */
TEST(large_parts) {
    sleep_and_wake("3", "memory=1G", 68 * MIB, LARGE_LAST);
}

/* Pieces of one block that have no contents become larger ones when they wake: the next sleep takes
   fewer driver calls, and the one after that no fewer. */
TEST(pieces_of_a_block_are_joined) {
    struct rig rig = rig_make("memory=64M,granule=64K", 0);
    uint64_t creates[4];
    vram_addr addr;
    assert_ok(vram_alloc(rig.pool, 32 * MIB, rig.queue, &addr));
    creates[0] = stats_of(rig.pool).driver_creates;
    for (int i = 1; i < 4; i++) {
        uint64_t before = stats_of(rig.pool).driver_creates;
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_DROP, NULL));
        assert_ok(vram_pool_wake(rig.pool, NULL));
        spaces_are_sound(&rig);
        creates[i] = stats_of(rig.pool).driver_creates - before;
    }
    assert_true(creates[1] * 3 < creates[0]);
    assert_int_equal(creates[2], creates[1]);
    assert_int_equal(creates[3], creates[1]);
    assert_ok(vram_free(addr, rig.queue));
    rig_end(&rig, true);
}

/* --------------------------------------------------- waking when memory is short */

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
