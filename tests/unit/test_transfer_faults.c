/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer_faults.c: transfers whose every driver call and every allocation fails in turn,
 * once and for ever, and devices that are lost under them.
 */
#include "unit/gate_world.h"
#include "unit/mem_world.h"
#include "unit/transfer_world.h"
#include "vram/pinned.h"
#include "vram/transfer.h"

/* ------------------------------------------------------------------ each part */

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
}
