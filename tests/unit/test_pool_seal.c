/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_seal.c: memory that is sealed: its contents go to the host once, nothing writes it, and
 * its addresses stay taken. Then every step of sealing, of sealed sleep and of unsealing fails in
 * turn.
 */
#include "unit/sleep_world.h"

#include "device/ops.h"

static void expect_all(const struct rig *rig) {
    for (int i = 0; i < BLOCKS; i++) {
        expect_contents(rig, i);
    }
}

/* Plans that every call of that kind fails, or ends it and returns how many did. */
static uint64_t refuse(const struct rig *rig, vram_sim_call call) {
    vram_sim_fault fault = {
        .size = sizeof fault, .call = call, .nth = 1, .for_ever = true, .code = 9999};
    uint64_t faults = sim_state(rig).faults;
    assert_ok(vram_sim_fault_set(rig->context, call ? &fault : NULL));
    return faults;
}

/* ---------------------------------------------------------------- sealed sleep */

TEST(contents_are_copied_once) {
    static const char *const sims[] = {"memory=2M,granule=64K,lag=5",
                                       "memory=2M,granule=64K,lag=5,alias=off",
                                       "memory=2M,granule=64K,real=on"};
    for (int i = 0; i < 9; i++) {
        struct rig rig = rig_make(sims[i % 3], i % 2 ? VRAM_POOL_DETERMINISTIC : 0);
        fill(&rig);
        assert_ok(vram_pool_seal(rig.pool, NULL));
        spaces_are_sound(&rig);
        vram_pool_stats stats = stats_of(rig.pool);
        assert_true(stats.sealed_bytes >= stats.allocated_bytes && stats.asleep_bytes == 0);
        assert_true(stats.asleep_host_bytes >= 600 * KIB &&
                    stats.asleep_host_bytes <= stats.sealed_bytes);
        for (int round = 0; round < 3; round++) {
            expect_all(&rig);
            refuse(&rig, VRAM_SIM_DOWNLOAD);
            assert_ok(put_to_sleep(&rig, (vram_sleep_contents)(i / 3), NULL));
            assert_int_equal(refuse(&rig, VRAM_SIM_ANY), 0); /* nothing was copied out */
            spaces_are_sound(&rig);
            assert_int_equal(sim_state(&rig).live_bytes, 0);
            assert_int_equal(stats_of(rig.pool).sealed_bytes, stats.sealed_bytes);
            assert_int_equal(stats_of(rig.pool).asleep_host_bytes, stats.asleep_host_bytes);
            assert_int_equal(native_of(rig.addrs[0]), VRAM_ERR_BUSY);
            assert_int_equal(vram_pool_unseal(rig.pool, NULL), VRAM_ERR_BUSY);
            assert_ok(vram_pool_wake(rig.pool, NULL));
            spaces_are_sound(&rig);
        }
        expect_all(&rig);
        assert_ok(vram_pool_unseal(rig.pool, NULL));
        spaces_are_sound(&rig);
        assert_int_equal(stats_of(rig.pool).sealed_bytes, 0);
        assert_int_equal(stats_of(rig.pool).asleep_host_bytes, 0);
        for (int j = 0; j < BLOCKS; j++) {
            assert_true(is_usable(&rig, j));
            expect_contents(&rig, j);
        }
        rig_end(&rig, true);
    }
}

/* What is sealed sleeps beside what is not, whose contents are copied as ever. */
TEST(a_tag_is_sealed) {
    enum { COUNT = 4 };
    static const char *const owners[COUNT] = {"weights/0", "cache", "weights/1", "weightsx"};
    vram_addr addrs[COUNT];
    struct rig rig = rig_make("memory=8M,granule=256K", 0);
    for (int i = 0; i < COUNT; i++) {
        vram_alloc_options wish = {.size = sizeof wish, .tag = owners[i]};
        assert_ok(vram_alloc_with(rig.pool, 256 * KIB, rig.queue, &wish, &addrs[i]));
        assert_ok(vram_queue_fill(rig.queue, addrs[i], (uint32_t)(i + 1), 1, 256 * KIB));
    }
    assert_ok(vram_pool_seal(rig.pool, "weights/0"));
    assert_ok(vram_pool_seal(rig.pool, "weights"));
    assert_int_equal(vram_pool_seal(rig.pool, "weights"), VRAM_ERR_BUSY);
    assert_int_equal(stats_of(rig.pool).sealed_bytes, 512 * KIB);
    for (int i = 0; i < COUNT; i++) {
        vram_status status = vram_queue_fill(rig.queue, addrs[i], (uint32_t)(i + 1), 1, 8);
        assert_int_equal(status, i % 2 ? VRAM_OK : VRAM_ERR_INVALID);
    }
    for (int round = 0; round < 2; round++) {
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, round ? "weights" : NULL));
        assert_int_equal(vram_pool_unseal(rig.pool, "weights/1"), VRAM_ERR_BUSY);
        assert_ok(vram_pool_wake(rig.pool, round ? "weights/1" : NULL));
        if (round) {
            assert_ok(vram_pool_unseal(rig.pool, "weights/1"));
            assert_int_equal(stats_of(rig.pool).sealed_bytes, 256 * KIB);
            assert_ok(vram_queue_fill(rig.queue, addrs[2], 3, 1, 8));
            assert_ok(vram_pool_wake(rig.pool, NULL));
        }
        spaces_are_sound(&rig);
    }
    for (int i = 0; i < COUNT; i++) {
        uint8_t found[8];
        assert_ok(vram_queue_download(rig.queue, found, addrs[i] + 256 * KIB - 8, 8));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_int_equal(found[7], i + 1);
    }
    assert_int_equal(vram_pool_unseal(rig.pool, "weights/1"), VRAM_ERR_INVALID);
    assert_ok(vram_pool_unseal(rig.pool, NULL));
    assert_int_equal(vram_pool_unseal(rig.pool, NULL), VRAM_ERR_INVALID);
    rig_end(&rig, true);
}

/* ------------------------------------------------------------- what is refused */

TEST(writes_are_refused) {
    uint8_t data[64] = {0};
    vram_addr other;
    vram_transfer_options none = {.size = sizeof none};
    struct rig rig = rig_make("memory=4M,granule=64K", 0);
    fill(&rig);
    assert_ok(vram_pool_seal(rig.pool, NULL));
    assert_ok(vram_alloc(rig.pool, 64 * KIB, rig.queue, &other)); /* in memory of its own */
    assert_ok(vram_queue_fill(rig.queue, other, 9, 1, 64 * KIB));
    for (int i = 0; i < BLOCKS; i++) {
        vram_addr last = rig.addrs[i] + sizes[i] - 1;
        assert_int_equal(vram_queue_fill(rig.queue, last, 0, 1, 1), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "vram_pool_unseal"));
        assert_int_equal(vram_queue_upload(rig.queue, rig.addrs[i], data, 64), VRAM_ERR_INVALID);
        assert_int_equal(vram_queue_copy(rig.queue, rig.addrs[i], other, 64), VRAM_ERR_INVALID);
        assert_int_equal(vram_transfer_upload(rig.queue, rig.addrs[i], data, 64, &none, NULL),
                         VRAM_ERR_INVALID);
        assert_ok(vram_queue_copy(rig.queue, other, rig.addrs[i], 64));
        assert_ok(native_of(rig.addrs[i]));
        assert_int_equal(vram_resize(rig.addrs[i], sizes[i] / 2, rig.queue), VRAM_ERR_BUSY);
        assert_non_null(strstr(vram_error_get()->text, "sealed"));
    }
    expect_all(&rig);
    rig_end(&rig, true);
}

/* A fill past the checks of the library. */
static vram_status fill_unchecked(const struct rig *rig) {
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, rig->queue);
    vram_status status = vr_queue_fill(&queue->base, rig->addrs[0], 1, 1, 64);
    vr_handle_unpin(queue->object.handle);
    return status;
}

/* Sealed memory is mapped read-only, also after it has slept, or could not. */
TEST(the_device_refuses_too) {
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    fill(&rig);
    assert_ok(vram_pool_seal(rig.pool, NULL));
    assert_int_equal(fill_unchecked(&rig), VRAM_ERR_INVALID);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    assert_int_equal(fill_unchecked(&rig), VRAM_ERR_INVALID);
    refuse(&rig, VRAM_SIM_RELEASE);
    assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL), VRAM_ERR_BACKEND);
    refuse(&rig, VRAM_SIM_ANY);
    assert_int_equal(fill_unchecked(&rig), VRAM_ERR_INVALID);
    assert_ok(vram_pool_unseal(rig.pool, NULL));
    assert_ok(fill_unchecked(&rig));
    assert_int_equal(sim_state(&rig).violations, 3);
    expect_all(&rig);
    vram_device_close(rig.device);
    vram_context_destroy(rig.context);
}

/* Seals on a device that cannot refuse writes, and writes a byte past the checks of the library. */
static void seal_and_break(const struct rig *rig, uint64_t offset) {
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, rig->queue);
    refuse(rig, VRAM_SIM_ACCESS);
    assert_ok(vram_pool_seal(rig->pool, NULL));
    refuse(rig, VRAM_SIM_ANY);
    assert_ok(vr_queue_fill(&queue->base, rig->addrs[3] + offset, 0x77, 1, 1));
    vr_handle_unpin(queue->object.handle);
}

/* With poison it is found that sealed memory was written; without, sleep brings back what was
   sealed. */
TEST(poison_finds_writes) {
    uint8_t found[2];
    for (int threads = 1; threads < 4; threads++) {
        assert_ok(vram_option_set("staging_threads", (const char[]){(char)('0' + threads), 0}));
        struct rig rig = rig_make("memory=4M,granule=64K,lag=3", VRAM_POOL_POISON);
        fill(&rig);
        assert_ok(vram_pool_seal(rig.pool, NULL));
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_DROP, NULL)); /* nothing was written */
        assert_ok(vram_pool_wake(rig.pool, NULL));
        assert_ok(vram_pool_unseal(rig.pool, NULL));
        seal_and_break(&rig, 200 * KIB + 7);
        assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_DROP, NULL), VRAM_ERR_CORRUPT);
        assert_non_null(strstr(vram_error_get()->text, "tagged \"model\""));
        assert_non_null(strstr(vram_error_get()->text, "byte 204807 is 0x77 and was 0x04"));
        spaces_are_sound(&rig);
        assert_int_equal(stats_of(rig.pool).asleep_bytes, 0);
        assert_true(stats_of(rig.pool).sealed_bytes > 0);
        assert_int_equal(vram_pool_unseal(rig.pool, NULL), VRAM_ERR_CORRUPT);
        assert_int_equal(stats_of(rig.pool).damaged_blocks, 2);
        assert_int_equal(stats_of(rig.pool).sealed_bytes, 0);
        assert_ok(vram_queue_download(rig.queue, found, rig.addrs[3] + 200 * KIB + 6, 2));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_int_equal(found[0], 4);
        assert_int_equal(found[1], 0x77);
        rig_end(&rig, true);
    }
    struct rig rig = rig_make("memory=4M,granule=64K,lag=3", 0);
    fill(&rig);
    seal_and_break(&rig, 0);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_DROP, NULL));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    expect_all(&rig);
    assert_ok(vram_pool_unseal(rig.pool, NULL));
    assert_int_equal(stats_of(rig.pool).damaged_blocks, 0);
    rig_end(&rig, true);
}

/* ---------------------------------------------------------- what stays in place */

/* A sealed block that is freed, awake or asleep, keeps its memory until it is unsealed. */
TEST(frees_wait) {
    for (int modes = 0; modes < 2; modes++) {
        vram_addr again;
        struct rig rig =
            rig_make("memory=4M,granule=64K", modes ? VRAM_POOL_POISON | VRAM_POOL_ZERO_FREE : 0);
        fill(&rig);
        assert_ok(vram_pool_seal(rig.pool, NULL));
        assert_ok(vram_free(rig.addrs[0], rig.queue));
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
        assert_ok(vram_free(rig.addrs[3], rig.queue));
        assert_ok(vram_pool_wake(rig.pool, NULL));
        assert_int_equal(stats_of(rig.pool).live_blocks, BLOCKS - 2);
        assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
        spaces_are_sound(&rig);
        assert_ok(vram_alloc(rig.pool, sizes[0], rig.queue, &again));
        assert_true(again != rig.addrs[0]);
        assert_ok(vram_queue_fill(rig.queue, again, 7, 1, sizes[0]));
        assert_ok(vram_free(again, rig.queue));
        uint64_t held = stats_of(rig.pool).reserved_bytes;
        assert_ok(vram_pool_unseal(rig.pool, "model")); /* the tags of both */
        assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
        assert_true(stats_of(rig.pool).reserved_bytes + sizes[0] <= held);
        spaces_are_sound(&rig);
        expect_contents(&rig, 1);
        expect_contents(&rig, 2);
        rig_end(&rig, true);
    }
}

EACH_TEST(NULL, nothing_left)
