/* SPDX-License-Identifier: Apache-2.0 */
/* test_device_exit.c: no driver is called any more once the process has begun to exit. */
#include "base/os/os.h"
#include "device/objects.h"
#include "device/ops.h"
#include "unit/assert_ok.h"
#include "unit/child.h"
#include "unit/mem_world.h"
#include "unit/transfer_world.h"
#include "vram/extension.h"
#include "vram/vram.h"

static unsigned char host[16];

/* Every call of a driver, once the process has begun to exit: how many went through, or did not say
   why. */
static int calls_at_exit(void *argument) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = "devices=2"};
    vram_context *context;
    vram_device *handle;
    vram_queue *submitted;
    vram_addr addr = 4096;
    vram_value value;
    uint64_t number = 0;
    int descriptor = -1;
    uint8_t fabric[VR_FABRIC_BYTES] = {0};
    struct vr_native native;
    void *kernel = NULL;
    (void)argument;
    assert_ok(vram_context_create(&options, &context));
    assert_ok(vram_device_open(context, 0, &handle));
    assert_ok(vram_queue_create(handle, NULL, &submitted));
    struct vr_device_object *object = vr_handle_pin(VR_KIND_DEVICE, handle);
    struct vr_queue_object *of = vr_handle_pin(VR_KIND_QUEUE, submitted);
    struct vr_device *device = &object->base;
    struct vr_queue *queue = &of->base;
    vr_os_exit_begins();
    vr_device_close(device);
    vr_queue_destroy(queue);
    vr_object_give(device, addr, 4096);
    vr_kernel_unload(device, kernel);
    const vram_status all[] = {
        vr_device_open(device),
        vr_memory_info(device, &value, &value),
        vr_memory_alloc(device, 4096, &addr),
        vr_memory_free(device, addr, 4096),
        vr_queue_create(queue, NULL),
        vr_queue_adopt(queue),
        vr_queue_upload(queue, addr, host, 16),
        vr_queue_download(queue, host, addr, 16),
        vr_queue_copy(queue, addr, addr, 16),
        vr_queue_fill(queue, addr, 0, 4, 16),
        vr_queue_signal(queue, 1),
        vr_queue_after(queue, queue, 1),
        vr_queue_poll(queue),
        vr_queue_launch(queue, kernel, NULL),
        vr_pinned_alloc(device, 4096, &addr),
        vr_pinned_free(device, addr, 4096),
        vr_pinned_register(device, addr, 4096),
        vr_pinned_unregister(device, addr, 4096),
        vr_vmm_reserve(device, 4096, 4096, &addr),
        vr_vmm_unreserve(device, addr, 4096),
        vr_vmm_create(device, 4096, &number),
        vr_vmm_release(device, number, 4096),
        vr_vmm_map(device, addr, number, 4096),
        vr_vmm_access(device, addr, 4096),
        vr_vmm_unmap(device, addr, 4096),
        vr_share_export_handle(device, number, 4096, false, &descriptor),
        vr_share_import_handle(device, descriptor, 4096, &number),
        vr_share_release(device, number, 4096),
        vr_fabric_export(device, number, fabric),
        vr_fabric_import(device, fabric, &number),
        vr_managed_alloc(device, 4096, &addr),
        vr_managed_free(device, addr, 4096),
        vr_managed_prefetch(queue, addr, 4096, 0),
        vr_peer_enable(device, device),
        vr_peer_copy(queue, addr, device, addr, 16),
        vr_memory_native(device, addr, 4096, &native),
        vr_object_adopt(device, NULL, &addr),
        vr_object_native(device, addr, 4096, &native),
        vr_kernel_load(device, NULL, &kernel),
    };
    int through = vr_peer_reachable(device, device);
    through += vram_error_get()->status != VRAM_ERR_SHUTDOWN;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        through += all[i] != VRAM_ERR_SHUTDOWN;
    }
    return through;
}

TEST(no_driver_is_called_at_exit) {
    assert_int_equal(in_child(calls_at_exit, NULL), 0);
}

/* ------------------------------------------------- calls of a process that exits */

static void exit_begins(void *argument) {
    (void)argument;
    vr_os_exit_begins();
}

/* The test goes on where a process would not. */
static void exit_ends(void) {
    assert_true(vr_os_exiting());
    vr_store(&vr_os_exit_began, false, VR_SEQ_CST);
    vram_error_clear();
}

/* A handle of work that does not end. */
static vram_async async_pending(struct rig *rig) {
    vram_async async;
    vram_point point;
    hook_set(rig->device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_mark(rig->queue, &point));
    assert_ok(vram_async_of_point(point, "work", &async));
    return async;
}

TEST(waits_stop, "sim:memory=64M,lag=1000") {
    size_t index = 77;
    vram_async async = async_pending(rig);
    hook.meanwhile = exit_begins;
    assert_int_equal(vram_async_wait(&async, 60 * SECOND), VRAM_ERR_SHUTDOWN);
    exit_ends();
    hook.meanwhile = exit_begins;
    assert_int_equal(vram_async_wait_any(&async, 1, 60 * SECOND, &index), VRAM_ERR_SHUTDOWN);
    assert_int_equal(index, 77);
    exit_ends();
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
}

/* What ends something does nothing; the rest is refused. */
TEST(calls_are_refused, "sim:memory=64M") {
    vram_async async, other;
    vram_async_work *work;
    vram_physical *physical;
    vram_addr range, block;
    vram_point point;
    vram_pool *pool = pool_of(rig, 0);
    assert_ok(vram_alloc(pool, 100, NULL, &block));
    assert_ok(vram_physical_create(rig->device, 2 * MIB, &physical));
    assert_ok(vram_range_create(rig->device, 2 * MIB, &range));
    assert_ok(vram_async_begin(rig->device, "work", 0, &async, &work));
    assert_ok(vram_queue_mark(rig->queue, &point));
    other = async;
    vr_os_exit_begins();
    assert_int_equal(vram_async_of_point(point, NULL, &other), VRAM_ERR_SHUTDOWN);
    assert_memory_equal(&other, &async, sizeof async);
    assert_int_equal(vram_async_finish(work, VRAM_OK), VRAM_ERR_SHUTDOWN);
    assert_ok(vram_async_end(&other));
    assert_ok(vram_physical_destroy(physical));
    assert_ok(vram_range_destroy(rig->device, range));
    exit_ends();
    assert_int_equal(stats_of(pool).live_blocks, 1);
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
    assert_ok(vram_async_finish(work, VRAM_OK));
    assert_ok(vram_async_poll(&async));
    assert_ok(vram_async_end(&async));
    assert_int_equal(vram_physical_bytes(physical), 2 * MIB);
    assert_ok(vram_physical_destroy(physical));
    assert_ok(vram_range_destroy(rig->device, range));
    assert_ok(vram_free(block, NULL));
}

/* The memory and the queue of an object whose last reference is dropped while the process exits
   stay with the device. */
TEST(last_references_call_no_driver, "sim:memory=64M") {
    vram_readback_options frames = {.size = sizeof frames, .bytes = 4096};
    vram_feed_options blocks = {.size = sizeof blocks, .bytes = 4096};
    vram_readback *readback;
    vram_feed *feed;
    vram_stream_set *set;
    assert_ok(vram_readback_create(rig->device, &frames, &readback));
    assert_ok(vram_feed_create(rig->device, &blocks, &feed));
    assert_ok(vram_stream_set_create(rig->device, NULL, &set));
    void *held[] = {vr_handle_pin(VR_KIND_READBACK, readback), vr_handle_pin(VR_KIND_FEED, feed),
                    vr_handle_pin(VR_KIND_STREAM_SET, set)};
    (void)vram_readback_destroy(readback);
    (void)vram_feed_destroy(feed);
    (void)vram_stream_set_destroy(set);
    uint64_t before = sim_state(rig).calls, live = sim_state(rig).live_bytes;
    assert_true(live > 0);
    vr_os_exit_begins();
    for (int i = 0; i < 3; i++) {
        assert_non_null(held[i]);
        vr_leave(held[i]);
    }
    exit_ends();
    assert_int_equal(sim_state(rig).calls, before);
    assert_int_equal(sim_state(rig).live_bytes, live);
}
