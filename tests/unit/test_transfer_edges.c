/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer_edges.c: lists and rectangles at their bounds, transfers that copy nothing, marks
 * that a driver refuses, and memory whose page-locking does not come to an end.
 */
#include "unit/child.h"
#include "unit/transfer_world.h"
#include "vram/vram.h"

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
