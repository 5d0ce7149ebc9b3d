/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer.c: lists and rectangles of copies, what is counted, and transfers that may fail
 * half-way: deadlines, blocks that copies between devices go through, devices that close.
 */
#include "unit/gate_world.h"
#include "unit/pool_flags.h"
#include "unit/stats_of.h"
#include "unit/transfer_world.h"
#include "vram/pinned.h"
#include "vram/transfer.h"

/* ------------------------------------------------------------------- batches */

/* Neighbours on both sides are one copy; neighbours on the device alone are gathered into one. */
TEST(neighbours_become_one_copy) {
    enum { N = 1024, EACH = 4096 }; /* 4 MiB: all that one block takes */
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
    assert_int_equal(vram_transfer_copy(rig.queue, a + 8, a, 16, NULL, NULL), VRAM_ERR_INVALID);
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    vram_error_clear();
    const vram_copy neighbours[] = {good, {.to = a + 16, .from_host = host + 64, .bytes = 16}};
    assert_ok(vram_transfer_batch(rig.queue, neighbours, 2, NULL, &async)); /* one by one */
    expect_no_record();
    expect_result(&async, 32);
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

/* ---------------------------------------------------------------------- lists */

/* Nothing is copied where both sides are the same memory; in a list and in a rectangle, too. */
TEST(direct_lists, "sim:memory=64M") {
    vram_transfer_options direct = by(VRAM_TRANSFER_DIRECT);
    vram_addr locked, device = memory_of(rig->device, 4096);
    vram_async async;
    assert_ok(vram_device_alloc(rig->device, 4096, VRAM_MEMORY_MANAGED, &locked));
    vram_copy list[] = {{.to = locked, .from = locked, .bytes = 64},
                        {.to = locked + 128, .from = locked + 128, .bytes = 64}};
    assert_ok(vram_transfer_batch(rig->queue, list, 2, &direct, &async));
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    list[1].from = device;
    assert_int_equal(vram_transfer_batch(rig->queue, list, 2, &direct, &async), VRAM_ERR_INVALID);
    vram_copy_2d rectangle = {list[0], 64, 4, 256, 256};
    assert_ok(vram_transfer_2d(rig->queue, &rectangle, &direct, &async));
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(calls_of(rig, VRAM_SIM_COPY), 0);
}

/* --------------------------------------------------------------------------- ends */

struct late_copy {
    struct rig *rig;
    vram_addr to, from;
    vram_status status;
};

static void copy_now(void *user, vram_status status) {
    struct late_copy *copy = user;
    (void)status;
    copy->status = vram_transfer_copy(copy->rig->queue, copy->to, copy->from, 64, NULL, NULL);
}

/* While a device closes its memory is there, and no other device reads it any more. */
TEST(memory_of_a_closing_device) {
    vram_async async;
    vram_point point;
    struct rig rig = rig_make("sim", "memory=64M,devices=2,lag=1000");
    struct late_copy copy = {&rig, memory_of(rig.device, 4096), memory_of(rig.other, 4096), 0};
    hook_set(rig.other);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_fill(rig.other_queue, copy.from, 1, 1, 4096));
    assert_ok(vram_queue_mark(rig.other_queue, &point));
    assert_ok(vram_async_of_point(point, NULL, &async));
    assert_ok(vram_async_then(&async, copy_now, &copy));
    hook.poll_answer = VRAM_OK;
    vram_device_close(rig.other);
    rig.other = NULL;
    assert_int_equal(copy.status, VRAM_ERR_INVALID);
    assert_int_equal(calls_of(&rig, VRAM_SIM_COPY), 0);
    rig_end_clean(&rig);
}

/* Large enough for staging. */
static unsigned char much[300 * 1024];

/* The block that such a copy goes through stays until the download into it is known to have ended:
   also when the driver does not say how far it is. Its work is thousands of calls late. */
TEST(a_bridge_stays_under_work) {
    enum { BYTES = 4 << 20 };
    vram_addr there, here;
    vram_async async = {{0}};
    vram_device_info info = {.size = sizeof info};
    struct rig rig = rig_make("host,sim", "memory=64M,lag=10000,seed=3,real=on");
    assert_non_null(rig.other);
    assert_ok(vram_device_describe(rig.device, &info));
    bool first = strcmp(info.backend, "sim") == 0;
    vram_device *sim = first ? rig.device : rig.other, *host = first ? rig.other : rig.device;
    vram_queue *queue = first ? rig.other_queue : rig.queue;
    assert_ok(vram_device_alloc(sim, BYTES, VRAM_MEMORY_DEVICE, &there));
    assert_ok(vram_device_alloc(host, BYTES, VRAM_MEMORY_DEVICE, &here));
    uint64_t before = vr_mem_live_bytes();
    fault(&rig, VRAM_SIM_POLL, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    assert_int_equal(vram_transfer_copy(queue, here, there, BYTES, NULL, &async),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_DEVICE_MEMORY);
    assert_true(vr_mem_live_bytes() >= before + BYTES);
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    vram_context_destroy(rig.context);
}

/* A deadline holds for ordinary memory too, which staging and drivers wait for inside their
   calls. */
TEST(deadlines_hold_for_ordinary_memory, "sim:memory=64M,lag=10000") {
    vram_transfer_options sync = by(VRAM_TRANSFER_SYNC);
    vram_addr a = memory_of(rig->device, sizeof much);
    sync.timeout_ns = 3000000;
    hook_set(rig->device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_fill(rig->queue, a, 1, 1, 64));
    for (int i = 0; i < 2; i++) {
        uint64_t before = vr_os_now();
        assert_int_equal(i ? vram_transfer_download(rig->queue, much, a, sizeof much, &sync, NULL)
                           : vram_transfer_upload(rig->queue, a, much, sizeof much, &sync, NULL),
                         VRAM_ERR_TIMEOUT);
        assert_true(vr_os_now() - before < 30 * SECOND);
    }
    assert_int_equal(calls_of(rig, VRAM_SIM_DOWNLOAD) + calls_of(rig, VRAM_SIM_UPLOAD), 0);
    hook.poll_answer = VRAM_OK;
    sync.timeout_ns = 0;
    assert_ok(vram_transfer_download(rig->queue, much, a, sizeof much, &sync, NULL));
    assert_int_equal(much[63], 1);
}

/* Memory that is page-locked in place is copied as it is, and counted so; before and after it is
   staged. */
TEST(registered_memory_goes_as_it_is, "sim:memory=64M") {
    vram_addr a = memory_of(rig->device, sizeof much);
    vram_transfer_stats stats = {.size = sizeof stats};
    vram_async async;
    for (int i = 0; i < 3; i++) {
        if (i == 1) {
            assert_ok(vram_pinned_begin(rig->device, much, sizeof much));
        } else if (i == 2) {
            assert_ok(vram_pinned_end(rig->device, much, sizeof much));
            assert_ok(vram_pinned_forget(rig->device, much, sizeof much));
        }
        assert_ok(vram_transfer_upload(rig->queue, a, much, sizeof much, NULL, &async));
        expect_result(&async, sizeof much);
        assert_ok(vram_transfer_stats_get(rig->device, VRAM_TRANSFER_TO_DEVICE,
                                          VRAM_ROUTE_REGISTERED, &stats));
        assert_int_equal(stats.operations, i >= 1);
    }
    expect_contents(rig->queue, a, much, sizeof much);
    assert_ok(vram_transfer_download(rig->queue, much, a, 64, NULL, &async));
    expect_result(&async, 64);
    stats = transfer_stats_of(rig->device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_STAGED);
    assert_int_equal(stats.started, 0); /* too little */
}
