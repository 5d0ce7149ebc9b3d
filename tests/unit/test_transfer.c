/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer.c: copies by strategy, between every kind of memory, strided, in lists, and between
 * devices that may read each other or not; and everything that a program can get wrong.
 */
#include "unit/gate_world.h"
#include "unit/pool_flags.h"
#include "unit/transfer_stats_of.h"
#include "unit/transfer_world.h"
#include "vram/transfer.h"

/* ------------------------------------------------------------------- batches */

/* Neighbours on both sides are one copy; neighbours on the device alone are gathered into one. */
TEST(neighbours_become_one_copy) {
    enum { N = 500, EACH = 4096 };
    SKIP_UNDER(0, true, "without pooling blocks are no neighbours");
    for (int scattered = 0; scattered < 2; scattered++) {
        struct rig rig = rig_make("sim", "memory=64M,real=on");
        unsigned char *from = pattern_of(N * EACH, 1), *expected = pattern_of(N * EACH, 2);
        vram_addr a = memory_of(rig.device, N * EACH);
        static vram_copy list[N];
        for (uint64_t i = 0; i < N; i++) {
            uint64_t source = scattered ? i * 77 % N : i;
            list[i] =
                (vram_copy){.to = a + i * EACH, .from_host = from + source * EACH, .bytes = EACH};
            memcpy(expected + i * EACH, from + source * EACH, EACH);
        }
        vram_async async;
        assert_ok(vram_transfer_batch(rig.queue, list, N, NULL, &async));
        assert_int_equal(calls_of(&rig, VRAM_SIM_UPLOAD), 1);
        assert_int_equal(calls_of(&rig, VRAM_SIM_SIGNAL), 1);
        expect_result(&async, N * EACH);
        expect_contents(rig.queue, a, expected, N * EACH);
        free(from);
        free(expected);
        rig_end_clean(&rig);
    }
}

TEST(lists_that_cannot_be) {
    static char host[4096];
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    vram_addr a = memory_of(rig.device, 64 * KIB), b = memory_of(rig.device, 64 * KIB);
    vram_addr foreign = memory_of(rig.other, 4096);
    const vram_copy good = {.to = a, .from_host = host, .bytes = 16};
    const vram_copy cases[][2] = {
        {good, {.to = a + 15, .from_host = host, .bytes = 16}}, /* written twice */
        {good, {.to = b, .from = a + 8, .bytes = 16}},          /* read and written */
        {good, {.to = b, .from_host = NULL, .bytes = 16}},
        {good, {.to = b, .from_host = host, .from = a, .bytes = 16}},
        {good, {.to_host = host + 64, .from_host = host, .bytes = 16}},
        {good, {.to = b, .from_host = host, .bytes = UINT64_MAX}},
        {good, {.to = foreign, .from_host = host, .bytes = 16}},
        {good, {.to = b, .from = foreign, .bytes = 16}},
        {good, {.to = 12345, .from_host = host, .bytes = 16}},
        {good, {.to = b, .from = b, .bytes = 16}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vram_async async = {{9, 9, 9, 9}}, kept = async;
        vram_error_clear();
        assert_int_equal(vram_transfer_batch(rig.queue, cases[i], 2, NULL, &async),
                         VRAM_ERR_INVALID);
        assert_int_equal(vram_error_get()->status, VRAM_ERR_INVALID);
        assert_string_equal(vram_error_get()->operation, "vram_transfer_batch");
        assert_memory_equal(&async, &kept, sizeof kept);
    }
    assert_int_equal(calls_of(&rig, VRAM_SIM_UPLOAD), 0); /* not even what was good */
    assert_int_equal(vram_transfer_batch(rig.queue, NULL, 1, NULL, NULL), VRAM_ERR_INVALID);
    vram_async async;
    assert_ok(vram_transfer_batch(rig.queue, NULL, 0, NULL, &async));
    expect_result(&async, 0);
    const vram_copy empty[] = {{.bytes = 0}, good, {.to = 1, .bytes = 0}};
    assert_ok(vram_transfer_batch(rig.queue, empty, 3, NULL, &async));
    expect_result(&async, 16);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------- counted */

/* Every transfer ends exactly once in the statistics, also when its handle was given up or never
   asked. */
TEST(transfers_are_counted) {
    static struct gate gate;
    static char data[4096];
    struct rig rig = rig_make("host", NULL);
    vram_addr a = memory_of(rig.device, sizeof data), b = memory_of(rig.device, sizeof data);
    vram_transfer_options sync = by(VRAM_TRANSFER_SYNC), dma = by(VRAM_TRANSFER_DMA_POLLING);
    vram_async async[4];
    gate_shut(rig.device, rig.queue, &gate);
    assert_ok(vram_transfer_upload(rig.queue, a, data, 100, NULL, &async[0]));
    assert_ok(vram_transfer_upload(rig.queue, a, data, 200, NULL, &async[1]));
    assert_ok(vram_transfer_download(rig.queue, data, b, 300, &dma, &async[2]));
    vram_copy list[] = {{.to = a, .from = b, .bytes = 10}, {.to = a + 50, .from = b, .bytes = 20}};
    assert_ok(vram_transfer_batch(rig.queue, list, 2, NULL, &async[3]));
    vram_async_end(&async[1]);
    assert_int_equal(vram_async_wait(&async[2], 2000000), VRAM_ERR_TIMEOUT);
    vram_transfer_stats up =
        transfer_stats_of(rig.device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_ASYNC);
    assert_int_equal(up.started, 2);
    assert_int_equal(up.operations, 0);
    gate_open(&gate);
    assert_ok(vram_transfer_fill(rig.queue, a, 0, 1, 64, &sync, NULL));
    assert_ok(vram_async_poll_all(rig.device, NULL));
    up = transfer_stats_of(rig.device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_ASYNC);
    assert_int_equal(up.operations, 2);
    assert_int_equal(up.bytes, 300);
    assert_int_equal(up.failures, 0);
    vram_transfer_stats down =
        transfer_stats_of(rig.device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_DMA_POLLING);
    assert_int_equal(down.operations, 1);
    assert_int_equal(down.bytes, 300);
    assert_true(down.waited_ns >= 2000000);
    assert_true(down.latency_ns >= down.waited_ns);
    vram_transfer_stats listed =
        transfer_stats_of(rig.device, VRAM_TRANSFER_ON_DEVICE, VRAM_ROUTE_BATCH);
    assert_int_equal(listed.operations, 1);
    assert_int_equal(listed.bytes, 30);
    vram_transfer_stats filled = transfer_stats_of(rig.device, VRAM_TRANSFER_FILL, VRAM_ROUTE_SYNC);
    assert_int_equal(filled.operations, 1);
    assert_int_equal(filled.bytes, 64);
    assert_int_equal(vram_transfer_upload(rig.queue, 1, data, 1, NULL, NULL), VRAM_ERR_INVALID);
    vram_transfer_stats all = transfer_stats_of(rig.device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY);
    assert_int_equal(all.started, 5); /* what was refused never began */
    assert_int_equal(all.operations, 5);
    gate_shut(rig.device, rig.queue, &gate);
    assert_ok(vram_transfer_upload(rig.queue, a, data, 100, NULL, &async[0]));
    gate_open(&gate);
    vram_context_destroy(rig.context);
}
