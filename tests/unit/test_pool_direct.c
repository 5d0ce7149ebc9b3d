/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_direct.c: pools with pooling switched off (option pool). Same calls, same statuses, and
 * the driver sees every allocation and every free, the latter never under unfinished work.
 */
#include "byte_units.h"
#include "unit/assert_ok.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

#include <stdio.h>
#include <string.h>

struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *other;
    vram_pool *pool;
};

static struct rig rig_make(const char *sim, uint32_t flags) {
    struct rig rig = {.pool = NULL};
    vram_context_options wanted = {.size = sizeof wanted, .backends = "sim", .sim = sim};
    vram_pool_options options = {.size = sizeof options, .flags = flags};
    assert_ok(vram_option_set("pool", "off"));
    assert_ok(vram_context_create(&wanted, &rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.other));
    assert_ok(vram_pool_create(rig.device, &options, &rig.pool));
    return rig;
}

static vram_sim_state sim_state(const struct rig *rig) {
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_sim_state_get(rig->context, &state));
    return state;
}

static void rig_end(struct rig *rig, bool complete) {
    char text[200] = "";
    vram_device_close(rig->device);
    (void)vram_sim_violation(rig->context, 0, text, sizeof text);
    assert_string_equal(text, "");
    assert_true(!complete || sim_state(rig).live_bytes == 0);
    vram_context_destroy(rig->context);
}

/* Every allocation is one of the driver's, and every free one too; nothing is held between them. */
TEST(the_driver_sees_every_call) {
    static const uint64_t sizes[] = {0, 1, 700, 40 * 1024, 3 * 1024 * 1024 + 5};
    struct rig rig = rig_make("memory=64M", 0);
    uint64_t taken = 0;
    for (int round = 0; round < 3; round++) {
        vram_addr addrs[5];
        uint64_t held = 0;
        for (int i = 0; i < 5; i++) {
            assert_ok(vram_alloc(rig.pool, sizes[i], rig.queue, &addrs[i]));
            held += ((sizes[i] ? sizes[i] : 1) + 4095) / 4096 * 4096;
            assert_int_equal(stats_of(rig.pool).driver_allocs, ++taken);
            assert_int_equal(stats_of(rig.pool).reserved_bytes, held);
            assert_int_equal(sim_state(&rig).live_bytes, held);
        }
        assert_int_equal(stats_of(rig.pool).live_blocks, 5);
        assert_int_equal(stats_of(rig.pool).hits, 0);
        for (int i = 0; i < 5; i++) {
            assert_ok(vram_free(addrs[i], rig.queue));
            assert_int_equal(vram_free(addrs[i], rig.queue), VRAM_ERR_INVALID);
        }
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_free(0, rig.queue));
        vram_addr last;
        assert_ok(vram_alloc(rig.pool, 1, NULL, &last));
        taken++;
        assert_ok(vram_free(last, NULL));
        assert_int_equal(stats_of(rig.pool).driver_frees, taken);
        assert_int_equal(stats_of(rig.pool).reserved_bytes, 0);
        assert_int_equal(sim_state(&rig).live_bytes, 0);
        assert_int_equal(stats_of(rig.pool).cached_bytes, 0);
    }
    rig_end(&rig, true);
}

/* What work still uses is neither given back nor handed out again. */
TEST(work_keeps_its_memory) {
    for (uint32_t seed = 1; seed <= 20; seed++) {
        char sim[64];
        snprintf(sim, sizeof sim, "memory=64M,lag=60,seed=%u", seed);
        struct rig rig = rig_make(sim, seed % 2 ? VRAM_POOL_DETERMINISTIC : 0);
        for (int i = 0; i < 40; i++) {
            vram_addr addr;
            assert_ok(vram_alloc(rig.pool, 100 * KIB, rig.queue, &addr));
            assert_ok(vram_queue_fill(rig.queue, addr, 7, 1, 100 * KIB));
            if (i % 3 == 0) {
                assert_ok(vram_queue_fill(rig.other, addr, 7, 1, 100 * KIB));
                assert_ok(vram_use(addr, rig.other));
            }
            if (i % 5 == 0) {
                assert_ok(vram_pin(addr));
            }
            assert_ok(vram_free(addr, rig.queue));
            if (i % 5 == 0) {
                assert_ok(vram_unpin(addr));
            }
            assert_int_equal(sim_state(&rig).violations, 0);
        }
        rig_end(&rig, true);
    }
}

TEST(sleep_is_refused_in_words) {
    struct rig rig = rig_make("memory=1M", 0);
    assert_int_equal(vram_pool_sleep(rig.pool, NULL), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "option pool"));
    rig_end(&rig, true);
}
