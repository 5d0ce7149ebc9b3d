/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_guard.c: safety modes of pools. Zeros where they are promised, and every byte that a
 * program writes outside its blocks or after a free is found, with its block named.
 */
#include "unit/fault_step.h"
#include "unit/pool_world.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct rig rig_guarded(const char *sim, uint32_t modes, uint64_t quarantine) {
    const vram_pool_options options = {
        .size = sizeof options, .flags = modes, .quarantine_bytes = quarantine};
    return rig_make_with("sim", sim, &options);
}

static bool fault_struck(const struct rig *rig) {
    return vr_mem_failed() || sim_state(rig).faults;
}

static void disarm(const struct rig *rig) {
    vr_mem_fail_at(0, false);
    assert_ok(vram_sim_fault_set(rig->context, NULL));
}

/* All bytes of the range, as later work of the queue sees them. */
static void expect_bytes(vram_queue *queue, vram_addr addr, uint64_t bytes, uint8_t value) {
    static uint8_t found[300 * 1024];
    assert_true(bytes <= sizeof found);
    assert_ok(vram_queue_download(queue, found, addr, bytes));
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < bytes; i++) {
        assert_int_equal(found[i], value);
    }
}

/* -------------------------------------------------------------------------- zeros */

static atomic_bool kernel_may_end;

static void hold_queue(const vram_kernel_call *call) {
    (void)call;
    while (!kernel_may_end) {
        sched_yield();
    }
}

/* New blocks are filled on a queue that is busy. They are freed on another queue, or on none, and
   the next owner writes its bytes: the fill does not come after these, and is no damage. */
TEST(late_fills_hit_no_other_owner) {
    static const uint32_t modes[] = {VRAM_POOL_ZERO_ALLOC, VRAM_POOL_ZERO_FREE, VRAM_POOL_RED_ZONES,
                                     VRAM_POOL_ZERO_ALLOC | VRAM_POOL_RED_ZONES};
    enum { BYTES = 200 * 1024 };
    for (int i = 0; i < 8; i++) {
        vram_pool_options options = {.size = sizeof options, .flags = modes[i / 2]};
        vram_kernel_source source = {.size = sizeof source,
                                     .code = (const void *)(uintptr_t)hold_queue,
                                     .entry = "hold_queue"};
        vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
        struct rig rig = rig_make_with("host", NULL, &options);
        vram_queue *third;
        vram_kernel *kernel;
        vram_addr addr, next;
        assert_ok(vram_queue_create(rig.device, NULL, &third));
        assert_ok(vram_kernel_create(rig.device, &source, &kernel));
        kernel_may_end = false;
        assert_ok(vram_queue_launch(rig.queue, kernel, &launch));
        assert_ok(vram_alloc(rig.pool, BYTES, rig.queue, &addr));
        /* A free with a check waits for the fill. */
        kernel_may_end = modes[i / 2] & VRAM_POOL_RED_ZONES;
        assert_ok(vram_free(addr, i % 2 ? rig.other : NULL));
        assert_ok(vram_alloc(rig.pool, BYTES, third, &next));
        assert_ok(vram_queue_fill(third, next, 0x77, 1, BYTES));
        (void)vram_queue_wait(third, 20 * 1000 * 1000); /* it may wait for the first queue */
        kernel_may_end = true;
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        expect_bytes(third, next, BYTES, 0x77);
        assert_ok(vram_free(next, third));
        assert_int_equal(stats_of(rig.pool).unchecked_blocks, 0);
        assert_ok(vram_context_destroy(rig.context));
    }
}

/* ---------------------------------------------------------------------- red zones */

/* Each byte near a block, one at a time. */
TEST(every_stray_byte_is_found) {
    static const int64_t offsets[] = {-512, -511, -1, 0, 1, 100, 511};
    struct rig rig = rig_guarded("memory=8M,granule=64K,lag=3", VRAM_POOL_RED_ZONES, 0);
    vram_alloc_options wish = {.size = sizeof wish, .tag = "model/layer"};
    uint64_t damaged = 0;
    for (int with_queue = 0; with_queue < 2; with_queue++) {
        for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
            uint64_t size = 1000 + i * 37;
            vram_addr addr;
            char expected[32];
            assert_ok(vram_alloc_with(rig.pool, size, rig.queue, &wish, &addr));
            int64_t at = offsets[i] < 0 ? offsets[i] : (int64_t)size + offsets[i];
            assert_ok(vram_queue_fill(rig.queue, addr + (uint64_t)at, 0x11, 1, 1));
            if (!with_queue) {
                assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
            }
            assert_int_equal(vram_free(addr, with_queue ? rig.queue : NULL), VRAM_ERR_CORRUPT);
            const char *text = vram_error_get()->text;
            assert_int_equal(vram_error_get()->status, VRAM_ERR_CORRUPT);
            snprintf(expected, sizeof expected, "byte %lld is 0x11", (long long)at);
            assert_non_null(strstr(text, expected));
            assert_non_null(strstr(text, "model/layer"));
            snprintf(expected, sizeof expected, "of %llu bytes", (unsigned long long)size);
            assert_non_null(strstr(text, expected));
            assert_int_equal(stats_of(rig.pool).damaged_blocks, ++damaged);
            assert_int_equal(stats_of(rig.pool).live_blocks, 0); /* it is freed all the same */
        }
    }
    rig_end(&rig, true);
}

/* ------------------------------------------------------------------------- poison */

static void count_messages(void *user, vram_log_level level, const char *text) {
    int *count = user;
    *count += level == VRAM_LOG_ERROR && strstr(text, "after it was freed") != NULL;
}

TEST(late_writes_are_found) {
    vram_alloc_options wish = {.size = sizeof wish, .tag = "late"};
    vram_addr freed, addr;
    int messages = 0;
    vram_log_set(count_messages, &messages, VRAM_LOG_ERROR);
    for (int zones = 0; zones < 2; zones++) {
        struct rig rig =
            rig_guarded("memory=8M,granule=64K,lag=3",
                        VRAM_POOL_POISON | (zones ? VRAM_POOL_RED_ZONES : 0), 600 * KIB);
        assert_ok(vram_alloc_with(rig.pool, 500 * KIB, rig.queue, &wish, &freed));
        assert_ok(vram_free(freed, rig.queue));
        assert_ok(vram_queue_fill(rig.other, freed + 400 * KIB + 3, 0x33, 1, 2));
        assert_ok(vram_queue_wait(rig.other, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_alloc(rig.pool, 200 * KIB, rig.queue, &addr));
        assert_int_equal(vram_free(addr, rig.queue), VRAM_ERR_CORRUPT);
        assert_non_null(strstr(vram_error_get()->text, "after it was freed: byte 409603 is 0x33"));
        assert_non_null(strstr(vram_error_get()->text, "late"));
        assert_int_equal(messages, zones + 1);
        assert_int_equal(stats_of(rig.pool).damaged_blocks, 1);
        assert_int_equal(stats_of(rig.pool).live_blocks, 0);
        rig_end(&rig, true);
    }
}

/* Memory in quarantine is no reason to refuse a request. */
TEST(quarantine_gives_way) {
    vram_addr addr;
    struct rig rig = rig_guarded("memory=2M,granule=64K,lag=3", VRAM_POOL_POISON, UINT64_MAX);
    for (int i = 0; i < 20; i++) {
        assert_ok(vram_alloc(rig.pool, 1100 * KIB, rig.queue, &addr));
        assert_ok(vram_free(addr, rig.queue));
    }
    rig_end(&rig, true);
}

/* ------------------------------------------------------ frees that cannot fail */

enum { SECRET = 0x53, SECRET_BYTES = 50 * 1024 };

/* A block full of secrets; another queue uses it, too, so that a free has to order itself behind
   that. */
static vram_addr hide_secret(struct rig *rig) {
    vram_addr addr;
    assert_ok(vram_alloc(rig->pool, SECRET_BYTES, rig->queue, &addr));
    assert_ok(vram_queue_fill(rig->queue, addr, SECRET, 1, SECRET_BYTES));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_queue_fill(rig->other, addr, SECRET, 1, SECRET_BYTES));
    assert_ok(vram_use(addr, rig->other));
    return addr;
}

/* The next owner of the memory does not find the secret in it. */
static void expect_no_secret(struct rig *rig) {
    static uint8_t found[SECRET_BYTES];
    vram_addr addrs[3];
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_queue_wait(rig->other, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < 3; i++) {
        vram_queue *queue = i == 0 ? rig->queue : i == 1 ? rig->other : NULL;
        assert_ok(vram_alloc(rig->pool, SECRET_BYTES, queue, &addrs[i]));
        queue = queue ? queue : rig->queue;
        assert_ok(vram_queue_download(queue, found, addrs[i], sizeof found));
        assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
        assert_null(memchr(found, SECRET, sizeof found));
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_free(addrs[i], rig->queue));
    }
}

/* One free during which a call fails, of the driver (`code`) or of the host's memory; whether one
   did. */
static bool try_free(uint32_t modes, int32_t code, bool for_ever, uint64_t nth) {
    struct rig rig = rig_guarded("memory=2M,granule=64K,lag=9", modes, 100 * KIB);
    vram_sim_fault planned = {
        .size = sizeof planned, .nth = nth, .for_ever = for_ever, .code = code};
    vram_addr addr = hide_secret(&rig);
    vram_error_clear();
    if (code) {
        assert_ok(vram_sim_fault_set(rig.context, &planned));
    } else {
        vr_mem_fail_at(nth, for_ever);
    }
    assert_ok(vram_free(addr, nth % 3 ? rig.queue : NULL));
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    bool struck = fault_struck(&rig);
    disarm(&rig);
    assert_int_equal(stats_of(rig.pool).live_blocks, 0);
    assert_int_equal(stats_of(rig.pool).frees, 1);
    assert_int_equal(stats_of(rig.pool).damaged_blocks, 0);
    assert_int_equal(vram_free(addr, rig.queue), VRAM_ERR_INVALID);
    if (code != VRAM_SIM_DEVICE_LOST) {
        expect_no_secret(&rig);
    }
    assert_int_equal(stats_of(rig.pool).damaged_blocks, 0);
    (void)vram_pool_destroy(rig.pool);
    rig_end(&rig, code != VRAM_SIM_DEVICE_LOST);
    return struck;
}

/* A free is done and says so, whatever the driver and the host's memory do, and no later owner of
   the memory sees what was in it. */
TEST(a_free_is_done_whatever_fails) {
    static const uint32_t modes[] = {VRAM_POOL_ZERO_FREE, VRAM_POOL_ZERO_FREE | VRAM_POOL_RED_ZONES,
                                     VRAM_POOL_ZERO_FREE | VRAM_POOL_POISON,
                                     VRAM_POOL_ZERO_FREE | VRAM_POOL_POISON | VRAM_POOL_RED_ZONES |
                                         VRAM_POOL_DETERMINISTIC,
                                     VRAM_POOL_ZERO_FREE | VRAM_POOL_SEGMENTS};
    static const int32_t codes[] = {0, VRAM_SIM_OUT_OF_MEMORY, 9999, VRAM_SIM_DEVICE_LOST};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        for (size_t c = 0; c < sizeof codes / sizeof codes[0]; c++) {
            for (int for_ever = 0; for_ever < 2; for_ever++) {
                uint64_t nth = 1;
                while (try_free(modes[m], codes[c], for_ever, nth)) {
                    nth += FAULT_STEP;
                }
                assert_true(nth > 1 || codes[c] == 0);
            }
        }
    }
}

/* Memory that cannot be overwritten when it is freed is overwritten before it is handed out. */
TEST(what_stays_as_it_was_is_zeroed_later) {
    for (int way = 0; way < 2; way++) {
        struct rig rig = rig_guarded("memory=2M,granule=64K,lag=9", VRAM_POOL_ZERO_FREE, 0);
        vram_sleep_options keep = {.size = sizeof keep, .contents = VRAM_SLEEP_HOST};
        vram_addr addr = hide_secret(&rig);
        if (way == 0) {
            assert_ok(vram_pin(addr));
            assert_ok(vram_free(addr, rig.queue));
            assert_ok(vram_unpin(addr));
        } else {
            assert_ok(vram_pool_sleep(rig.pool, &keep));
            assert_ok(vram_free(addr, rig.queue));
            assert_ok(vram_pool_wake(rig.pool, NULL));
        }
        expect_no_secret(&rig);
        rig_end(&rig, true);
    }
}

/* The poison of a failed allocation does not overwrite the next owner's data. */
TEST(poison_under_way_keeps_the_block) {
    vram_addr addr = 0;
    int failed = 0;
    for (uint32_t seed = 1; seed < 9; seed++) {
        char sim[64];
        snprintf(sim, sizeof sim, "memory=2M,granule=64K,lag=60,seed=%u", seed);
        struct rig rig = rig_guarded(sim, VRAM_POOL_POISON, 1);
        vram_sim_fault planned = {.size = sizeof planned,
                                  .call = VRAM_SIM_POLL,
                                  .nth = 1,
                                  .for_ever = true,
                                  .code = 9999};
        assert_ok(vram_sim_fault_set(rig.context, &planned));
        vram_status status = vram_alloc(rig.pool, SECRET_BYTES, NULL, &addr);
        disarm(&rig);
        if (status == VRAM_OK) { /* its poison was not late enough */
            assert_ok(vram_free(addr, rig.queue));
        } else {
            assert_int_equal(status, VRAM_ERR_BACKEND);
            failed++;
        }
        assert_ok(vram_alloc(rig.pool, SECRET_BYTES, rig.queue, &addr));
        assert_ok(vram_queue_fill(rig.queue, addr, 0x66, 1, SECRET_BYTES));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        for (int i = 0; i < 80; i++) { /* calls in which late work is done */
            assert_ok(vram_queue_fill(rig.other, addr, 0x66, 1, 1));
        }
        assert_ok(vram_queue_wait(rig.other, VRAM_TIMEOUT_DEFAULT));
        expect_bytes(rig.queue, addr, SECRET_BYTES, 0x66);
        assert_ok(vram_free(addr, rig.queue));
        rig_end(&rig, true);
    }
    assert_true(failed > 0);
}

/* A block that another queue was said to use is poisoned behind that use, and pinned ones are left
   alone. */
TEST(other_users_are_waited_for) {
    for (uint32_t seed = 1; seed < 12; seed++) {
        char sim[64];
        snprintf(sim, sizeof sim, "memory=8M,granule=64K,lag=80,seed=%u", seed);
        struct rig rig = rig_guarded(sim, VRAM_POOL_POISON | VRAM_POOL_RED_ZONES, 300 * KIB);
        for (int i = 0; i < 12; i++) {
            vram_addr addr;
            assert_ok(vram_alloc(rig.pool, 60 * KIB, rig.queue, &addr));
            vram_point made;
            assert_ok(vram_queue_mark(rig.queue, &made));
            assert_ok(vram_queue_after(rig.other, made));
            assert_ok(vram_queue_fill(rig.other, addr, 0x44, 1, 60 * KIB));
            assert_ok(vram_use(addr, rig.other));
            if (i % 4 == 0) {
                assert_ok(vram_pin(addr));
            }
            assert_ok(vram_free(addr, rig.queue));
            if (i % 4 == 0) {
                assert_ok(vram_unpin(addr));
            }
        }
        assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
        assert_int_equal(stats_of(rig.pool).damaged_blocks, 0);
        assert_int_equal(stats_of(rig.pool).unchecked_blocks, 3); /* the pinned ones */
        rig_end(&rig, true);
    }
}
