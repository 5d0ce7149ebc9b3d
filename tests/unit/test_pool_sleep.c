/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_sleep.c: pools that give their memory back and keep their addresses. Contents are
 * compared through the simulated device; then every step of falling asleep and of waking fails in
 * turn.
 */
#include "unit/fault_step.h"
#include "unit/sleep_world.h"

#include "base/clock.h"
#include "device/ops.h"

#include <pthread.h>

/* ------------------------------------------------------------------ whole pools */

static void a_pool_sleeps_and_wakes(void **state) {
    static const char *const sims[] = {"memory=2M,granule=64K,lag=5",
                                       "memory=2M,granule=64K,lag=5,alias=off",
                                       "memory=2M,granule=64K,real=on"};
    (void)state;
    for (int i = 0; i < 9; i++) {
        struct rig rig = rig_make(sims[i % 3], i % 2 ? VRAM_POOL_DETERMINISTIC : 0);
        vram_sleep_contents contents = (vram_sleep_contents)(i / 3);
        vram_addr addr = 0;
        fill(&rig);
        uint64_t held = stats_of(rig.pool).reserved_bytes;
        assert_true(sim_state(&rig).live_bytes >= held);
        assert_ok(put_to_sleep(&rig, contents, NULL));
        spaces_are_sound(&rig);
        vram_pool_stats stats = stats_of(rig.pool);
        assert_int_equal(stats.reserved_bytes, 0);
        assert_int_equal(stats.live_blocks, BLOCKS);
        assert_true(stats.asleep_bytes > 0 && stats.asleep_bytes <= held);
        assert_true(contents ? stats.asleep_host_bytes > 600 * KIB &&
                                   stats.asleep_host_bytes <= stats.asleep_bytes
                             : !stats.asleep_host_bytes);
        assert_int_equal(stats.sleeps, 1);
        assert_int_equal(sim_state(&rig).live_bytes, 0); /* the driver has it all */
        for (int j = 0; j < BLOCKS; j++) {
            assert_false(is_usable(&rig, j));
        }
        assert_int_equal(vram_queue_fill(rig.queue, rig.addrs[1], 1, 1, 1), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "is asleep; call vram_pool_wake first"));
        assert_int_equal(vram_alloc(rig.pool, 1 * KIB, rig.queue, &addr), VRAM_ERR_BUSY);
        assert_non_null(strstr(vram_error_get()->text, "vram_pool_wake"));
        assert_int_equal(vram_alloc(rig.pool, 256 * KIB, NULL, &addr), VRAM_ERR_BUSY);
        assert_int_equal(vram_pool_warm(rig.pool, 1 * KIB, 2, rig.queue), VRAM_ERR_BUSY);
        assert_int_equal(vram_pin(rig.addrs[0]), VRAM_ERR_BUSY);
        assert_int_equal(native_of(rig.addrs[0]), VRAM_ERR_BUSY);
        assert_non_null(strstr(vram_error_get()->text, "vram_pool_wake"));
        assert_int_equal(native_of(rig.addrs[3] + 700), VRAM_ERR_BUSY);
        assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
        assert_ok(vram_pool_wake(rig.pool, NULL));
        spaces_are_sound(&rig);
        stats = stats_of(rig.pool);
        assert_int_equal(stats.asleep_bytes, 0);
        assert_int_equal(stats.asleep_host_bytes, 0);
        assert_int_equal(stats.wakes, 1);
        for (int j = 0; j < BLOCKS; j++) {
            assert_true(is_usable(&rig, j));
            assert_ok(native_of(rig.addrs[j]));
            if (contents) {
                expect_contents(&rig, j);
            }
            assert_ok(vram_free(rig.addrs[j], rig.queue));
        }
        assert_ok(vram_alloc(rig.pool, 1 * KIB, rig.queue, &addr));
        assert_ok(vram_alloc(rig.pool, 256 * KIB, rig.queue, &addr));
        spaces_are_sound(&rig);
        rig_end(&rig, true);
    }
}

/* Blocks that are freed while they sleep are free addresses when the pool wakes, and not before. */
static void blocks_are_freed_in_their_sleep(void **state) {
    vram_addr addr;
    (void)state;
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    fill(&rig);
    uint64_t held = stats_of(rig.pool).reserved_bytes;
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_free(rig.addrs[0], rig.queue));
    assert_int_equal(vram_free(rig.addrs[0], rig.queue), VRAM_ERR_INVALID);
    assert_ok(vram_free(rig.addrs[4], NULL));
    assert_int_equal(stats_of(rig.pool).live_blocks, BLOCKS - 2);
    assert_ok(vram_pool_wake(rig.pool, NULL));
    spaces_are_sound(&rig);
    expect_contents(&rig, 1);
    expect_contents(&rig, 3);
    assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    assert_in_range(stats_of(rig.pool).reserved_bytes, 1, held - 128 * KIB);
    assert_ok(vram_alloc(rig.pool, sizes[0], rig.queue, &addr));
    assert_int_equal(addr, rig.addrs[0]); /* its place is the best one for its size */
    assert_in_range(stats_of(rig.pool).reserved_bytes, 1, held);
    rig_end(&rig, true);
}

/* Caches of threads are no hiding place: what they keep goes with the rest, and comes back as
   memory. */
static void caches_sleep_too(void **state) {
    vram_addr addrs[20], addr;
    (void)state;
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    for (int i = 0; i < 20; i++) {
        assert_ok(vram_alloc(rig.pool, 4 * KIB, rig.queue, &addrs[i]));
    }
    for (int i = 0; i < 19; i++) {
        assert_ok(vram_free(addrs[i], rig.queue));
    }
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_DROP, NULL));
    assert_int_equal(stats_of(rig.pool).cached_bytes, 0);
    assert_int_equal(vram_alloc(rig.pool, 4 * KIB, rig.queue, &addr), VRAM_ERR_BUSY);
    assert_ok(vram_free(addrs[19], rig.queue));
    assert_int_equal(vram_alloc(rig.pool, 4 * KIB, rig.queue, &addr), VRAM_ERR_BUSY);
    assert_ok(vram_pool_wake(rig.pool, NULL));
    for (int i = 0; i < 1000; i++) {
        assert_ok(vram_alloc(rig.pool, 4 * KIB, rig.queue, &addr));
        assert_ok(vram_free(addr, rig.queue));
    }
    assert_true(stats_of(rig.pool).cache_hits > 900); /* and threads have caches again */
    rig_end(&rig, true);
}

static void an_empty_pool_sleeps(void **state) {
    vram_addr addr;
    (void)state;
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    assert_int_equal(vram_pool_wake(rig.pool, NULL), VRAM_ERR_INVALID);
    assert_ok(vram_pool_sleep(rig.pool, NULL));
    assert_int_equal(vram_pool_sleep(rig.pool, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_alloc(rig.pool, 1, rig.queue, &addr), VRAM_ERR_BUSY);
    assert_ok(vram_pool_wake(rig.pool, NULL));
    assert_int_equal(vram_pool_wake(rig.pool, NULL), VRAM_ERR_INVALID);
    assert_ok(vram_alloc(rig.pool, 1, rig.queue, &addr));
    rig_end(&rig, true);
}

/* A wake that fails leaves an empty pool asleep. */
static void an_empty_pool_stays_asleep(void **state) {
    vram_addr addr;
    vram_status status = VRAM_ERR_HOST_MEMORY;
    (void)state;
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    assert_ok(vram_pool_sleep(rig.pool, NULL));
    for (uint64_t nth = 1; status != VRAM_OK; nth++) {
        vr_mem_fail_at(nth, true);
        status = vram_pool_wake(rig.pool, NULL);
        vr_mem_fail_at(0, false);
        if (status != VRAM_OK) {
            assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
            assert_int_equal(vram_alloc(rig.pool, 1, rig.queue, &addr), VRAM_ERR_BUSY);
            assert_int_equal(vram_pool_sleep(rig.pool, NULL), VRAM_ERR_INVALID);
        }
    }
    assert_ok(vram_alloc(rig.pool, 1, rig.queue, &addr));
    rig_end(&rig, true);
}

/* Without page-locked memory contents go through ordinary memory, which is no error; but what the
   program wants page-locked is refused. */
static void sleep_without_page_locked_memory(void **state) {
    (void)state;
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

/* A pool may end in its sleep. */
static void a_sleeping_pool_ends(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct rig rig = rig_make("memory=2M,granule=64K", 0);
        fill(&rig);
        assert_ok(put_to_sleep(&rig, (vram_sleep_contents)(i / 2), NULL));
        assert_ok(vram_free(rig.addrs[2], rig.queue));
        if (i % 2) {
            assert_ok(vram_pool_destroy(rig.pool));
        }
        rig_end(&rig, true);
    }
}

/* ------------------------------------------------------------------------ tags */

/* Blocks of a granule each. */
static void a_tag_sleeps_alone(void **state) {
    enum { COUNT = 6 };
    static const char *const owners[COUNT] = {"weights/0", "cache", "weights/1",
                                              "weights",   NULL,    "weightsx"};
    vram_addr addrs[COUNT], other;
    (void)state;
    struct rig rig = rig_make("memory=8M,granule=256K", 0);
    for (int i = 0; i < COUNT; i++) {
        vram_alloc_options wish = {.size = sizeof wish, .tag = owners[i]};
        assert_ok(vram_alloc_with(rig.pool, 256 * KIB, rig.queue, &wish, &addrs[i]));
        assert_ok(vram_queue_fill(rig.queue, addrs[i], (uint32_t)(i + 1), 1, 256 * KIB));
    }
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (int round = 0; round < 2; round++) {
        assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
        uint64_t before = sim_state(&rig).live_bytes;
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, "weights"));
        spaces_are_sound(&rig);
        uint64_t asleep = stats_of(rig.pool).asleep_bytes;
        assert_true(asleep >= 256 * KIB && asleep <= 768 * KIB);
        assert_int_equal(sim_state(&rig).live_bytes, before - asleep);
        assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_HOST, "weights"), VRAM_ERR_BUSY);
        /* The rest of the pool goes on. */
        for (int i = 0; i < COUNT; i++) {
            bool mine = owners[i] && (i == 0 || i == 2 || i == 3);
            vram_status status = vram_queue_fill(rig.queue, addrs[i], (uint32_t)(i + 1), 1, 1);
            assert_true(status == VRAM_OK || mine);
        }
        assert_ok(vram_alloc(rig.pool, 96 * KIB, rig.queue, &other));
        assert_ok(vram_free(other, rig.queue));
        assert_ok(vram_pool_wake(rig.pool, round ? "weights" : NULL));
        spaces_are_sound(&rig);
        assert_int_equal(vram_pool_wake(rig.pool, "weights"), VRAM_ERR_INVALID);
        for (int i = 0; i < COUNT; i++) {
            uint8_t found[8];
            assert_ok(vram_queue_download(rig.queue, found, addrs[i] + 256 * KIB - 8, 8));
            assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
            assert_int_equal(found[7], i + 1);
        }
    }
    rig_end(&rig, true);
}

/* Everything sleeps, and one tag after the other wakes: as when weights are needed before the
   cache. */
static void tags_wake_one_by_one(void **state) {
    vram_addr weights, cache, addr;
    vram_alloc_options wish = {.size = sizeof wish, .tag = "weights"};
    (void)state;
    struct rig rig = rig_make("memory=8M,granule=256K", 0);
    assert_ok(vram_alloc_with(rig.pool, 1024 * KIB, rig.queue, &wish, &weights));
    wish.tag = "cache";
    assert_ok(vram_alloc_with(rig.pool, 2048 * KIB, rig.queue, &wish, &cache));
    assert_ok(vram_queue_fill(rig.queue, weights, 5, 1, 1024 * KIB));
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_pool_wake(rig.pool, "weights"));
    spaces_are_sound(&rig);
    assert_ok(vram_queue_fill(rig.queue, weights, 6, 1, 1024 * KIB));
    assert_int_equal(vram_queue_fill(rig.queue, cache, 6, 1, 2048 * KIB), VRAM_ERR_INVALID);
    assert_int_equal(vram_alloc(rig.pool, 32 * KIB, rig.queue, &addr), VRAM_ERR_BUSY);
    assert_int_equal(vram_pool_sleep(rig.pool, NULL), VRAM_ERR_INVALID);
    assert_ok(vram_pool_wake(rig.pool, "cache"));
    assert_ok(vram_queue_fill(rig.queue, cache, 6, 1, 2048 * KIB));
    assert_ok(vram_alloc(rig.pool, 32 * KIB, rig.queue, &addr));
    rig_end(&rig, true);
}

/* The program chooses the order: what it wakes first is awake although memory is too short for the
   rest, which sleeps on with its contents and wakes when there is memory again. */
static void the_first_tag_to_wake_gets_the_memory(void **state) {
    static const char *const order[3] = {"cache", "model/b", "model/a"};
    vram_addr addrs[3];
    uint8_t found = 0;
    (void)state;
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
static void sleeping_blocks_stay_out_of_caches(void **state) {
    vram_addr mine, other, addr;
    vram_alloc_options wish = {.size = sizeof wish, .tag = "mine"};
    (void)state;
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

static void mistakes_are_told(void **state) {
    vram_sleep_options options = {.size = sizeof options};
    (void)state;
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    fill(&rig);
    options.contents = (vram_sleep_contents)9;
    assert_int_equal(vram_pool_sleep(rig.pool, &options), VRAM_ERR_INVALID);
    options = (vram_sleep_options){.size = 1};
    assert_int_equal(vram_pool_sleep(rig.pool, &options), VRAM_ERR_INVALID);
    assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_DROP, ""), VRAM_ERR_INVALID);
    assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_DROP, "mode"), VRAM_ERR_INVALID);
    assert_int_equal(vram_pool_wake(rig.pool, "model"), VRAM_ERR_INVALID);
    assert_ok(vram_pin(rig.addrs[3]));
    assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL), VRAM_ERR_BUSY);
    assert_non_null(strstr(vram_error_get()->text, "pinned"));
    assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_HOST, "model"), VRAM_ERR_BUSY);
    for (int i = 0; i < BLOCKS; i++) {
        expect_contents(&rig, i);
    }
    assert_ok(vram_unpin(rig.addrs[3]));
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    rig_end(&rig, true);
}

/* Work that touches sleeping memory, past the checks of the library, breaks a rule of drivers. */
static void the_device_misses_sleeping_memory(void **state) {
    char text[200] = "";
    (void)state;
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, rig.queue);
    fill(&rig);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_int_equal(vr_queue_fill(&queue->base, rig.addrs[3], 1, 1, 64), VRAM_ERR_INVALID);
    assert_ok(vram_sim_violation(rig.context, 0, text, sizeof text));
    assert_non_null(strstr(text, "mapped"));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    assert_ok(vr_queue_fill(&queue->base, rig.addrs[3], 4, 1, 64));
    expect_contents(&rig, 3);
    assert_int_equal(sim_state(&rig).violations, 1);
    vr_handle_unpin(queue->object.handle);
    vram_device_close(rig.device);
    vram_context_destroy(rig.context);
}

static void segments_do_not_sleep(void **state) {
    (void)state;
    struct rig rig = rig_make("memory=64M", VRAM_POOL_SEGMENTS);
    fill(&rig);
    assert_int_equal(vram_pool_sleep(rig.pool, NULL), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "segments"));
    assert_int_equal(vram_pool_wake(rig.pool, NULL), VRAM_ERR_INVALID);
    rig_end(&rig, true);
}

/* A copy under way is waited for, whatever queue it is on; one that does not end in time is not
   pulled the memory from under. */
static void copies_are_not_cut_short(void **state) {
    uint8_t data[64];
    (void)state;
    memset(data, 9, sizeof data);
    struct rig rig = rig_make("memory=2M,granule=64K,lag=2000,seed=3", 0);
    vram_queue *stranger; /* no block was ever allocated or freed on it */
    assert_ok(vram_queue_create(rig.device, NULL, &stranger));
    fill(&rig);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_queue_upload(stranger, rig.addrs[0], data, sizeof data));
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_int_equal(sim_state(&rig).violations, 0);
    assert_ok(vram_pool_wake(rig.pool, NULL));
    memset(data, 0, sizeof data);
    assert_ok(vram_queue_download(rig.queue, data, rig.addrs[0], sizeof data));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(data[63], 9);
    rig_end(&rig, true);
}

/* A clock on which every wait is over at the second look. */
static uint64_t hurry(void *user) {
    return *(uint64_t *)user += UINT64_C(60000000000);
}

static void no_sleep(void *user, uint64_t ns) {
    (void)user, (void)ns;
}

static void a_copy_without_an_end_keeps_the_pool_awake(void **state) {
    uint8_t data[64];
    uint64_t time = 0;
    struct vr_clock_source clock = {.now = hurry, .sleep = no_sleep, .user = &time};
    (void)state;
    memset(data, 9, sizeof data);
    struct rig rig = rig_make("memory=2M,granule=64K,lag=10000,seed=3", 0);
    fill(&rig);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_queue_upload(rig.queue, rig.addrs[0], data, sizeof data));
        vr_clock_set(&clock);
        assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_HOST, i ? "model" : NULL), VRAM_ERR_TIMEOUT);
        vr_clock_set(NULL);
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

/* ---------------------------------------------------------------------- faults */

struct plan {
    bool memory; /* else the driver's */
    bool for_ever;
    int32_t code;
    vram_sim_lie lie;
};

static void set_fault(const struct rig *rig, const struct plan *plan, uint64_t nth) {
    vram_sim_fault planned = {.size = sizeof planned,
                              .nth = nth,
                              .for_ever = plan->for_ever,
                              .code = plan->code,
                              .lie = plan->lie};
    if (plan->memory) {
        vr_mem_fail_at(nth, plan->for_ever);
    } else {
        assert_ok(vram_sim_fault_set(rig->context, &planned));
    }
}

static bool clear_fault(const struct rig *rig) {
    bool struck = vr_mem_failed() || sim_state(rig).faults;
    vr_mem_fail_at(0, false);
    assert_ok(vram_sim_fault_set(rig->context, NULL));
    return struck;
}

/* Falls asleep, or wakes, with the n-th call failing. Whether the fault struck. */
static bool try_turn(const struct plan *plan, bool waking, const char *tag, uint64_t nth) {
    struct rig rig = rig_make("memory=2M,granule=64K,lag=3", 0);
    bool lost = plan->code == VRAM_SIM_DEVICE_LOST;
    fill(&rig);
    if (waking) {
        assert_ok(put_to_sleep(&rig, nth % 2 ? VRAM_SLEEP_HOST : VRAM_SLEEP_PINNED, tag));
    }
    uint64_t asleep = stats_of(rig.pool).asleep_bytes;
    set_fault(&rig, plan, nth);
    vram_status status =
        waking ? vram_pool_wake(rig.pool, tag)
               : put_to_sleep(&rig, nth % 2 ? VRAM_SLEEP_HOST : VRAM_SLEEP_PINNED, tag);
    if (status != VRAM_OK) {
        assert_int_equal(vram_error_get()->status, status);
    }
    bool struck = clear_fault(&rig);
    spaces_are_sound(&rig);
    if (!lost) {
        /* As it was, or as it should be, once the driver can again: no byte is lost on the way. */
        vram_pool_stats stats = stats_of(rig.pool);
        bool slept = waking ? status != VRAM_OK : status == VRAM_OK;
        if (waking && slept) {
            assert_in_range(stats.asleep_bytes, 1, asleep); /* less what is under no block */
        } else if (!slept && !plan->for_ever) {
            assert_int_equal(stats.asleep_bytes, 0);
        }
        if (stats.asleep_bytes || (slept && !tag)) {
            assert_ok(vram_pool_wake(rig.pool, slept ? tag : NULL));
        }
        for (int i = 0; i < BLOCKS; i++) {
            expect_contents(&rig, i);
            assert_ok(vram_free(rig.addrs[i], rig.queue));
        }
        spaces_are_sound(&rig);
    }
    (void)vram_pool_destroy(rig.pool);
    rig_end(&rig, !plan->for_ever || plan->memory);
    assert_int_equal(vr_mem_live_bytes(), 0);
    return struck;
}

static void any_step_may_fail(void **state) {
    static const struct plan plans[] = {
        {.memory = true},
        {.memory = true, .for_ever = true},
        {.code = VRAM_SIM_OUT_OF_MEMORY},
        {.code = VRAM_SIM_OUT_OF_MEMORY, .for_ever = true},
        {.code = 9999},
        {.code = 9999, .for_ever = true},
        {.code = VRAM_SIM_DEVICE_LOST},
        {.lie = VRAM_SIM_LIE_NULL},
        {.lie = VRAM_SIM_LIE_MISALIGNED},
        {.lie = VRAM_SIM_LIE_OVERLAP},
    };
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "20s"));
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        for (int turn = 0; turn < 4; turn++) {
            uint64_t nth = 1;
            while (try_turn(&plans[i], turn % 2, turn / 2 ? "model" : NULL, nth)) {
                nth += FAULT_STEP;
            }
            assert_true(nth > 1 || plans[i].lie);
        }
    }
}

/* -------------------------------------------------------------------- threads */

struct crew {
    struct rig *rig;
    vr_atomic_bool stop;
    vr_atomic_u64 turns, pairs;
};

static void *work(void *user) {
    struct crew *crew = user;
    vram_queue *queue;
    assert_ok(vram_queue_create(crew->rig->device, NULL, &queue));
    while (!vr_load(&crew->stop, VR_RELAXED)) {
        vram_addr addr = 0;
        vram_status status = vram_alloc(crew->rig->pool, 20 * KIB, queue, &addr);
        assert_true(status == VRAM_OK || status == VRAM_ERR_BUSY);
        if (addr) {
            (void)vram_queue_fill(queue, addr, 1, 1, 512); /* it may be asleep by now */
            assert_ok(vram_free(addr, queue));
            vr_fetch_add(&crew->pairs, 1, VR_RELAXED);
        }
    }
    vram_queue_destroy(queue);
    return NULL;
}

static void *turn(void *user) {
    struct crew *crew = user;
    for (int i = 0; i < 60; i++) {
        const char *tag = i % 3 ? NULL : "model";
        vram_status status = put_to_sleep(crew->rig, (vram_sleep_contents)(i % 3), tag);
        if (status == VRAM_OK) {
            vr_fetch_add(&crew->turns, 1, VR_RELAXED);
            status = vram_pool_wake(crew->rig->pool, NULL);
        }
        assert_true(status == VRAM_OK || status == VRAM_ERR_BUSY || status == VRAM_ERR_INVALID);
    }
    return NULL;
}

/* Threads that go on allocating while two others put the pool to sleep and wake it. */
static void threads_go_on(void **state) {
    pthread_t workers[2], turners[2];
    (void)state;
    struct rig rig = rig_make("memory=2M,granule=64K,lag=3", 0);
    struct crew crew = {.rig = &rig};
    fill(&rig);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&workers[i], NULL, work, &crew), 0);
        assert_int_equal(pthread_create(&turners[i], NULL, turn, &crew), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(turners[i], NULL);
    }
    vr_store(&crew.stop, true, VR_RELAXED);
    for (int i = 0; i < 2; i++) {
        pthread_join(workers[i], NULL);
    }
    (void)vram_pool_wake(rig.pool, NULL);
    assert_true(vr_load(&crew.turns, VR_RELAXED) > 0);
    spaces_are_sound(&rig);
    assert_int_equal(stats_of(rig.pool).live_blocks, BLOCKS);
    assert_int_equal(stats_of(rig.pool).asleep_bytes, 0);
    rig_end(&rig, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_pool_sleeps_and_wakes, nothing_left),
        cmocka_unit_test_teardown(blocks_are_freed_in_their_sleep, nothing_left),
        cmocka_unit_test_teardown(caches_sleep_too, nothing_left),
        cmocka_unit_test_teardown(an_empty_pool_sleeps, nothing_left),
        cmocka_unit_test_teardown(an_empty_pool_stays_asleep, nothing_left),
        cmocka_unit_test_teardown(sleep_without_page_locked_memory, nothing_left),
        cmocka_unit_test_teardown(a_sleeping_pool_ends, nothing_left),
        cmocka_unit_test_teardown(a_tag_sleeps_alone, nothing_left),
        cmocka_unit_test_teardown(tags_wake_one_by_one, nothing_left),
        cmocka_unit_test_teardown(the_first_tag_to_wake_gets_the_memory, nothing_left),
        cmocka_unit_test_teardown(sleeping_blocks_stay_out_of_caches, nothing_left),
        cmocka_unit_test_teardown(mistakes_are_told, nothing_left),
        cmocka_unit_test_teardown(the_device_misses_sleeping_memory, nothing_left),
        cmocka_unit_test_teardown(segments_do_not_sleep, nothing_left),
        cmocka_unit_test_teardown(copies_are_not_cut_short, nothing_left),
        cmocka_unit_test_teardown(a_copy_without_an_end_keeps_the_pool_awake, nothing_left),
        cmocka_unit_test_teardown(any_step_may_fail, nothing_left),
        cmocka_unit_test_teardown(threads_go_on, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
