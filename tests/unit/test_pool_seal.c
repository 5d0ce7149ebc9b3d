/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_seal.c: memory that is sealed: its contents go to the host once, nothing writes it, and
 * its addresses stay taken. Then every step of sealing, of sealed sleep and of unsealing fails in
 * turn.
 */
#include "unit/fault_step.h"
#include "unit/sleep_world.h"

#include "base/os/os.h"
#include "device/ops.h"

#include <errno.h>
#include <pthread.h>

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

static void contents_are_copied_once(void **state) {
    static const char *const sims[] = {"memory=2M,granule=64K,lag=5",
                                       "memory=2M,granule=64K,lag=5,alias=off",
                                       "memory=2M,granule=64K,real=on"};
    (void)state;
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

/* When they wake, sealed pieces of one tag become one: a driver takes its time for each. What lies
   under other tags stays apart. */
static void sealed_pieces_are_joined(void **state) {
    enum { COUNT = 4 };
    static const char *const owners[COUNT] = {"w/0", "w/1", "w/1", "w/0"};
    vram_addr addrs[COUNT];
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct rig rig = rig_make("memory=16M,granule=64K", 0);
        for (int i = 0; i < COUNT; i++) {
            vram_alloc_options wish = {.size = sizeof wish, .tag = owners[i]};
            assert_ok(vram_alloc_with(rig.pool, MIB, rig.queue, &wish, &addrs[i]));
            assert_ok(vram_queue_fill(rig.queue, addrs[i], (uint32_t)(i + 1), 1, MIB));
        }
        assert_ok(vram_pool_seal(rig.pool, NULL));
        uint64_t sealed = stats_of(rig.pool).sealed_bytes, kept = 0, before = 0;
        for (int round = 0; round < 3; round++) {
            vram_pool_stats was = stats_of(rig.pool);
            assert_ok(put_to_sleep(&rig, VRAM_SLEEP_DROP, turn ? "w/1" : NULL));
            uint64_t released = stats_of(rig.pool).driver_releases - was.driver_releases;
            assert_true(round == 0 || released < before);
            before = round == 0 ? released : before;
            assert_ok(vram_pool_wake(rig.pool, NULL));
            spaces_are_sound(&rig);
            assert_int_equal(stats_of(rig.pool).sealed_bytes, sealed);
            kept = round == 0 ? stats_of(rig.pool).asleep_host_bytes : kept;
            assert_int_equal(stats_of(rig.pool).asleep_host_bytes, kept);
        }
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_DROP, "w/0"));
        assert_ok(vram_queue_download(rig.queue, &before, addrs[1], 8)); /* it is awake */
        assert_ok(vram_pool_wake(rig.pool, "w/0"));
        assert_ok(vram_pool_unseal(rig.pool, "w/1"));
        assert_ok(vram_free(addrs[1], rig.queue));
        assert_ok(vram_pool_unseal(rig.pool, NULL));
        spaces_are_sound(&rig);
        for (int i = 0; i < COUNT; i++) {
            uint8_t found[2] = {0};
            if (i != 1) {
                assert_ok(vram_queue_download(rig.queue, &found[0], addrs[i], 1));
                assert_ok(vram_queue_download(rig.queue, &found[1], addrs[i] + MIB - 1, 1));
                assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
                assert_true(found[0] == i + 1 && found[1] == i + 1);
                assert_ok(vram_queue_fill(rig.queue, addrs[i], 9, 1, MIB));
            }
        }
        assert_int_equal(stats_of(rig.pool).asleep_host_bytes, 0);
        assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
        spaces_are_sound(&rig);
        rig_end(&rig, true);
    }
}

/* What is sealed sleeps beside what is not, whose contents are copied as ever. */
static void a_tag_is_sealed(void **state) {
    enum { COUNT = 4 };
    static const char *const owners[COUNT] = {"weights/0", "cache", "weights/1", "weightsx"};
    vram_addr addrs[COUNT];
    (void)state;
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

static void writes_are_refused(void **state) {
    uint8_t data[64] = {0};
    vram_addr other;
    vram_transfer_options none = {.size = sizeof none};
    (void)state;
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
static void the_device_refuses_too(void **state) {
    (void)state;
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

/* A part that wakes is made read-only while the next ones are copied, and not at the end. */
static void parts_are_protected_beside_copies(void **state) {
    vram_sim_entry entry;
    uint64_t last_upload = 0, protects_before = 0;
    (void)state;
    assert_ok(vram_option_set("staging_threads", "2"));
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    fill(&rig);
    assert_ok(vram_pool_seal(rig.pool, NULL));
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    uint64_t began = sim_state(&rig).calls, mapped = 0;
    assert_ok(vram_pool_wake(rig.pool, NULL));
    for (uint64_t back = 0; back < sim_state(&rig).calls - began; back++) {
        assert_ok(vram_sim_journal_get(rig.context, back, &entry));
        last_upload = last_upload || entry.call != VRAM_SIM_UPLOAD ? last_upload : entry.number;
        protects_before += last_upload && entry.call == VRAM_SIM_ACCESS;
        mapped += entry.call == VRAM_SIM_MAP;
    }
    assert_true(last_upload && mapped > 4);
    assert_true(protects_before > mapped); /* one access for each after it was mapped, and more */
    assert_int_equal(fill_unchecked(&rig), VRAM_ERR_INVALID);
    expect_all(&rig);
    vram_device_close(rig.device);
    vram_context_destroy(rig.context);
}

static void mistakes_are_told(void **state) {
    (void)state;
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    assert_int_equal(vram_pool_seal(rig.pool, NULL), VRAM_ERR_INVALID);
    fill(&rig);
    assert_int_equal(vram_pool_seal(rig.pool, ""), VRAM_ERR_INVALID);
    assert_int_equal(vram_pool_seal(rig.pool, "mode"), VRAM_ERR_INVALID);
    assert_int_equal(vram_pool_unseal(rig.pool, NULL), VRAM_ERR_INVALID);
    assert_ok(vram_pin(rig.addrs[3]));
    assert_int_equal(vram_pool_seal(rig.pool, NULL), VRAM_ERR_BUSY);
    assert_ok(vram_unpin(rig.addrs[3]));
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_int_equal(vram_pool_seal(rig.pool, NULL), VRAM_ERR_BUSY);
    assert_ok(vram_pool_wake(rig.pool, NULL));
    assert_ok(vram_pool_seal(rig.pool, NULL));
    assert_ok(vram_pin(rig.addrs[3]));
    assert_int_equal(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL), VRAM_ERR_BUSY);
    expect_all(&rig);
    rig_end(&rig, true);
    rig = rig_make("memory=64M", VRAM_POOL_SEGMENTS);
    fill(&rig);
    assert_int_equal(vram_pool_seal(rig.pool, NULL), VRAM_ERR_UNSUPPORTED);
    assert_int_equal(vram_pool_unseal(rig.pool, NULL), VRAM_ERR_UNSUPPORTED);
    rig_end(&rig, true);
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
static void poison_finds_writes(void **state) {
    uint8_t found[2];
    (void)state;
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

/* A check that the driver or the system refuses finds nothing, and changes nothing. */
static void what_cannot_be_checked_is_no_damage(void **state) {
    (void)state;
    struct rig rig = rig_make("memory=4M,granule=64K", VRAM_POOL_POISON);
    fill(&rig);
    seal_and_break(&rig, 0);
    refuse(&rig, VRAM_SIM_DOWNLOAD);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_DROP, NULL));
    assert_true(refuse(&rig, VRAM_SIM_ANY) > 0);
    assert_ok(vram_pool_wake(rig.pool, NULL));
    expect_all(&rig);
    refuse(&rig, VRAM_SIM_DOWNLOAD);
    assert_ok(vram_pool_unseal(rig.pool, NULL));
    refuse(&rig, VRAM_SIM_ANY);
    rig_end(&rig, true);
}

/* ---------------------------------------------------------- what stays in place */

/* A sealed block that is freed, awake or asleep, keeps its memory until it is unsealed. */
static void frees_wait(void **state) {
    (void)state;
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

/* The rest of a sealed piece is not allocated, and is again once it is unsealed. */
static void holes_are_kept(void **state) {
    vram_addr block, other;
    (void)state;
    struct rig rig = rig_make("memory=4M,granule=64K", 0);
    assert_ok(vram_alloc(rig.pool, 512, rig.queue, &block));
    assert_ok(vram_pool_seal(rig.pool, NULL));
    uint64_t sealed = stats_of(rig.pool).sealed_bytes;
    assert_ok(vram_alloc(rig.pool, 512, rig.queue, &other));
    assert_true(other / sealed != block / sealed);
    assert_ok(vram_queue_fill(rig.queue, other, 1, 1, 512));
    assert_ok(vram_free(other, rig.queue));
    assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
    assert_ok(vram_pool_unseal(rig.pool, NULL));
    spaces_are_sound(&rig);
    assert_ok(vram_alloc(rig.pool, 512, rig.queue, &other));
    assert_int_equal(other / sealed, block / sealed);
    assert_ok(vram_queue_fill(rig.queue, other, 1, 1, 512));
    rig_end(&rig, true);
}

static void sealed_pools_end(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct rig rig = rig_make("memory=2M,granule=64K", 0);
        fill(&rig);
        assert_ok(vram_pool_seal(rig.pool, i % 2 ? "model" : NULL));
        assert_ok(vram_free(rig.addrs[3], rig.queue));
        if (i / 2) {
            assert_ok(put_to_sleep(&rig, VRAM_SLEEP_PINNED, NULL));
        }
        assert_ok(vram_pool_destroy(rig.pool));
        rig_end(&rig, true);
    }
}

/* A driver that cannot map read-only: the library still refuses writes. */
static void read_only_may_be_refused(void **state) {
    (void)state;
    struct rig rig = rig_make("memory=2M,granule=64K", 0);
    fill(&rig);
    uint64_t faults = refuse(&rig, VRAM_SIM_ACCESS);
    assert_ok(vram_pool_seal(rig.pool, NULL));
    assert_true(refuse(&rig, VRAM_SIM_ANY) > faults);
    assert_int_equal(vram_queue_fill(rig.queue, rig.addrs[0], 0, 1, 1), VRAM_ERR_INVALID);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    expect_all(&rig);
    refuse(&rig, VRAM_SIM_ACCESS);
    assert_int_equal(vram_pool_unseal(rig.pool, NULL), VRAM_ERR_BACKEND);
    refuse(&rig, VRAM_SIM_ANY);
    assert_true(stats_of(rig.pool).sealed_bytes > 0); /* it may still be read-only */
    expect_all(&rig);
    assert_ok(vram_pool_unseal(rig.pool, NULL));
    assert_true(is_usable(&rig, 0));
    rig_end(&rig, true);
}

/* ---------------------------------------------------------------------- faults */

enum stage { SEAL, SLEEP, WAKE, UNSEAL, STAGES };

enum fault { MEMORY, SYSTEM, DRIVER };

struct plan {
    enum fault fault;
    bool for_ever;
    int32_t code; /* of the driver */
};

static void set_fault(const struct rig *rig, const struct plan *plan, uint64_t nth) {
    vram_sim_fault fault = {
        .size = sizeof fault, .nth = nth, .for_ever = plan->for_ever, .code = plan->code};
    vr_mem_fail_at(plan->fault == MEMORY ? nth : 0, plan->for_ever);
    vr_os_fail_at(plan->fault == SYSTEM ? nth : 0, plan->for_ever, ENOMEM);
    assert_ok(vram_sim_fault_set(rig->context, plan->fault == DRIVER && nth ? &fault : NULL));
}

static vram_status act(const struct rig *rig, enum stage stage, const char *tag) {
    return stage == SEAL    ? vram_pool_seal(rig->pool, tag)
           : stage == SLEEP ? put_to_sleep(rig, VRAM_SLEEP_HOST, NULL)
           : stage == WAKE  ? vram_pool_wake(rig->pool, NULL)
                            : vram_pool_unseal(rig->pool, tag);
}

/* Every stage up to `stage`, which has the n-th call fail. Whether the fault struck. */
static bool try_stage(const struct plan *plan, enum stage stage, const char *tag, uint64_t nth) {
    struct rig rig = rig_make("memory=2M,granule=64K,lag=3", 0);
    fill(&rig);
    for (int i = SEAL; i < (int)stage; i++) {
        assert_ok(act(&rig, (enum stage)i, tag));
    }
    set_fault(&rig, plan, nth);
    vram_status status = act(&rig, stage, tag);
    assert_true(status == VRAM_OK || vram_error_get()->status == status);
    bool struck = vr_mem_failed() || vr_os_failed() || sim_state(&rig).faults;
    set_fault(&rig, plan, 0);
    spaces_are_sound(&rig);
    /* The simulation's own memory is the system's: a device that cannot keep it is lost. */
    bool lost = vram_queue_poll(rig.queue) == VRAM_ERR_DEVICE_LOST;
    assert_true(!lost || plan->fault == SYSTEM || plan->code == VRAM_SIM_DEVICE_LOST);
    if (!lost) {
        vram_pool_stats stats = stats_of(rig.pool);
        assert_true(stage == SEAL ? !stats.sealed_bytes == (status != VRAM_OK)
                                  : stage != UNSEAL || !stats.sealed_bytes || status != VRAM_OK);
        if (stats.asleep_bytes) {
            assert_ok(vram_pool_wake(rig.pool, NULL));
        }
        expect_all(&rig);
        if (stats.sealed_bytes) {
            assert_ok(vram_pool_unseal(rig.pool, NULL));
        }
        for (int i = 0; i < BLOCKS; i++) {
            assert_true(is_usable(&rig, i));
            assert_ok(vram_free(rig.addrs[i], rig.queue));
        }
        assert_int_equal(stats_of(rig.pool).asleep_host_bytes, 0);
        spaces_are_sound(&rig);
    }
    rig_end(&rig, plan->fault == MEMORY || (!plan->for_ever && plan->fault == DRIVER) || !lost);
    assert_int_equal(vr_mem_live_bytes(), 0);
    return struck;
}

static void any_step_may_fail(void **state) {
    static const struct plan plans[] = {
        {.fault = MEMORY},
        {.fault = MEMORY, .for_ever = true},
        {.fault = SYSTEM},
        {.fault = SYSTEM, .for_ever = true},
        {.fault = DRIVER, .code = VRAM_SIM_OUT_OF_MEMORY},
        {.fault = DRIVER, .code = 9999, .for_ever = true},
        {.fault = DRIVER, .code = VRAM_SIM_DEVICE_LOST},
    };
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "20s"));
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        for (int turn = 0; turn < 2 * STAGES; turn++) {
            uint64_t nth = 1;
            while (try_stage(&plans[i], (enum stage)(turn / 2), turn % 2 ? "model" : NULL, nth)) {
                nth += FAULT_STEP;
            }
            assert_true(nth > 1 || plans[i].fault == SYSTEM); /* not every stage calls it */
        }
    }
}

/* --------------------------------------------------------------------- threads */

struct crew {
    struct rig *rig;
    vr_atomic_bool stop;
    vr_atomic_u64 turns;
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
            (void)vram_queue_fill(queue, addr, 1, 1, 512); /* it may be sealed by now */
            assert_ok(vram_free(addr, queue));
        }
    }
    vram_queue_destroy(queue);
    return NULL;
}

static void *turn(void *user) {
    struct crew *crew = user;
    for (int i = 0; i < 60; i++) {
        for (int stage = SEAL; stage < STAGES; stage++) {
            const char *tag = i % 3 ? NULL : "model";
            vram_status status = act(crew->rig, (enum stage)stage, tag);
            assert_true(status == VRAM_OK || status == VRAM_ERR_BUSY || status == VRAM_ERR_INVALID);
            vr_fetch_add(&crew->turns, status == VRAM_OK && stage == UNSEAL, VR_RELAXED);
        }
    }
    return NULL;
}

/* Threads that go on allocating while two others seal, put to sleep, wake and unseal. */
static void threads_go_on(void **state) {
    pthread_t workers[2], turners[2];
    (void)state;
    struct rig rig = rig_make("memory=4M,granule=64K,lag=3", 0);
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
    expect_all(&rig);
    (void)vram_pool_unseal(rig.pool, NULL);
    assert_true(vr_load(&crew.turns, VR_RELAXED) > 0);
    spaces_are_sound(&rig);
    assert_int_equal(stats_of(rig.pool).live_blocks, BLOCKS);
    assert_int_equal(stats_of(rig.pool).asleep_host_bytes, 0);
    rig_end(&rig, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(contents_are_copied_once, nothing_left),
        cmocka_unit_test_teardown(sealed_pieces_are_joined, nothing_left),
        cmocka_unit_test_teardown(a_tag_is_sealed, nothing_left),
        cmocka_unit_test_teardown(writes_are_refused, nothing_left),
        cmocka_unit_test_teardown(the_device_refuses_too, nothing_left),
        cmocka_unit_test_teardown(parts_are_protected_beside_copies, nothing_left),
        cmocka_unit_test_teardown(mistakes_are_told, nothing_left),
        cmocka_unit_test_teardown(poison_finds_writes, nothing_left),
        cmocka_unit_test_teardown(what_cannot_be_checked_is_no_damage, nothing_left),
        cmocka_unit_test_teardown(frees_wait, nothing_left),
        cmocka_unit_test_teardown(holes_are_kept, nothing_left),
        cmocka_unit_test_teardown(sealed_pools_end, nothing_left),
        cmocka_unit_test_teardown(read_only_may_be_refused, nothing_left),
        cmocka_unit_test_teardown(any_step_may_fail, nothing_left),
        cmocka_unit_test_teardown(threads_go_on, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
