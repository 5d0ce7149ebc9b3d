/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_extension.c: what libraries on top of libvram stand on: attachments to pools, work that
 * others submit, async handles of their own, checks of memory, and host memory that goes with the
 * device.
 */
#include "unit/mem_world.h"
#include "vram/extension.h"

#define SIM "memory=1G,real=on"

struct told {
    uint32_t times;
    vram_attachment *ends; /* ended by the callback; NULL: none */
};

static void on_end(void *user) {
    struct told *told = user;
    assert_int_equal(vr_locks_held(), 0);
    told->times++;
    assert_ok(vram_attachment_end(told->ends));
}

/* Memory that all pools of a device have taken from its driver. */
static uint64_t held_by(vram_device *device) {
    vram_memory_info info = {.size = sizeof info};
    assert_ok(vram_memory_info_get(device, &info));
    return info.held_bytes;
}

TEST(memory_stays_for_the_attachment, "sim:" SIM) {
    vram_pool *pool = pool_of(rig, 0);
    struct told told = {0};
    vram_attachment *attachment;
    vram_device *device;
    vram_addr addr;
    assert_ok(vram_pool_attach(pool, on_end, &told, &device, &attachment));
    assert_ptr_equal(device, rig->device);
    assert_ok(vram_alloc(pool, 4096, rig->queue, &addr));
    assert_ok(vram_pool_destroy(pool));
    assert_int_equal(told.times, 1);
    assert_true(held_by(rig->device) > 0);
    assert_int_equal(vram_pool_attach(pool, NULL, NULL, NULL, &attachment), VRAM_ERR_STALE);
    assert_ok(vram_attachment_end(attachment));
    assert_int_equal(held_by(rig->device), 0);
    assert_int_equal(vram_attachment_end(attachment), VRAM_ERR_STALE);
    assert_int_equal(told.times, 1);
}

/* What has let go before is not told; what lets go when it is told may end itself. */
TEST(who_is_told) {
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
    struct told early = {0}, late = {0};
    vram_attachment *attachment;
    assert_ok(vram_pool_attach(pool, on_end, &early, NULL, &attachment));
    assert_ok(vram_attachment_end(attachment));
    assert_ok(vram_pool_attach(pool, on_end, &late, NULL, &late.ends));
    vram_context_destroy(rig.context);
    assert_int_equal(early.times, 0);
    assert_int_equal(late.times, 1);
    assert_int_equal(vr_mem_live_blocks(), 0);
}

TEST(waits_for_queues) {
    struct rig rig = rig_make("sim", SIM ",lag=50,seed=3");
    struct rig other = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
    static unsigned char bytes[4096];
    vram_attachment *attachment;
    vram_addr addr;
    assert_ok(vram_pool_attach(pool, NULL, NULL, NULL, &attachment));
    assert_ok(vram_alloc(pool, sizeof bytes, rig.queue, &addr));
    assert_ok(vram_queue_download(rig.queue, bytes, addr, sizeof bytes));
    assert_ok(vram_attachment_wait(attachment, rig.queue, 0)); /* for the pool's end alone */
    assert_ok(vram_attachment_wait(attachment, rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_queue_poll(rig.queue));
    assert_int_equal(vram_attachment_wait(attachment, other.queue, 0), VRAM_ERR_INVALID);
    vram_queue_destroy(rig.queue);
    assert_ok(vram_attachment_wait(attachment, rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_attachment_end(attachment));
    rig_end_clean(&other);
    rig_end_clean(&rig);
}

static vram_status submit_fill(void *user, void *native) {
    (void)native;
    struct rig *rig = user;
    assert_int_equal(vr_locks_held(), 0);
    return vram_queue_poll(rig->queue); /* calls on the queue go through */
}

static vram_status refuse(void *user, void *native) {
    (void)user, (void)native;
    vram_error error = {VRAM_ERR_BACKEND, "other", "otherCall", 7, "it answered 7"};
    return vram_error_set(&error);
}

TEST(others_submit, "sim:" SIM) {
    assert_ok(vram_queue_submit(rig->queue, submit_fill, rig));
    assert_int_equal(vram_queue_submit(rig->queue, refuse, NULL), VRAM_ERR_BACKEND);
    assert_string_equal(vram_error_get()->operation, "otherCall");
    vram_queue_destroy(rig->queue);
    assert_int_equal(vram_queue_submit(rig->queue, submit_fill, rig), VRAM_ERR_STALE);
}

static void note_status(void *user, vram_status status) {
    *(vram_status *)user = status;
}

TEST(work_of_others, "sim:" SIM) {
    vram_status called = VRAM_ERR_NOT_READY;
    vram_async_work *work, *failing;
    vram_async async, failed;
    vram_error error;
    assert_ok(vram_async_begin(rig->device, "other_start", 7, &async, &work));
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
    assert_ok(vram_async_then(&async, note_status, &called));
    assert_ok(vram_async_finish(work, VRAM_OK));
    assert_int_equal(called, VRAM_OK);
    assert_ok(vram_async_wait(&async, 0));
    uint64_t result = 0;
    assert_ok(vram_async_result_get(&async, &result));
    assert_int_equal(result, 7);
    assert_int_equal(vram_async_finish(work, VRAM_OK), VRAM_ERR_STALE);

    assert_ok(vram_async_begin(rig->device, "other_start", 7, &failed, &failing));
    assert_ok(vram_async_finish(failing, refuse(NULL, NULL)));
    assert_int_equal(vram_async_wait(&failed, 0), VRAM_ERR_BACKEND);
    assert_ok(vram_async_error_get(&failed, &error));
    assert_string_equal(error.operation, "other_start");
    assert_string_equal(error.text, "otherCall: it answered 7");
    assert_int_equal(vram_async_finish(failing, VRAM_OK), VRAM_ERR_STALE); /* its error stays */
    assert_int_equal(vram_async_wait(&failed, 0), VRAM_ERR_BACKEND);

    /* Whoever gave up is called back all the same. */
    called = VRAM_ERR_NOT_READY;
    vram_async given_up;
    assert_ok(vram_async_begin(rig->device, "other_start", 7, &given_up, &work));
    assert_ok(vram_async_then(&given_up, note_status, &called));
    vram_async_end(&given_up);
    assert_ok(vram_async_finish(work, VRAM_OK));
    assert_int_equal(called, VRAM_OK);

    vram_async_end(&async);
    vram_async_end(&failed);
}

TEST(memory_that_kernels_can_use, "sim:" SIM) {
    vram_pool *pool = pool_of(rig, 0);
    vram_addr addr;
    assert_ok(vram_alloc(pool, 4096, rig->queue, &addr));
    assert_ok(vram_memory_check(rig->device, addr, 4096));
    assert_int_equal(vram_memory_check(rig->device, addr, 1 << 20), VRAM_ERR_INVALID);
    assert_string_equal(vram_error_get()->operation, "vram_memory_check");
    assert_int_equal(vram_memory_check(rig->device, 0, 1), VRAM_ERR_INVALID);
    assert_ok(vram_free(addr, rig->queue));

    vram_addr pinned;
    assert_ok(vram_device_alloc(rig->device, 4096, VRAM_MEMORY_PINNED, &pinned));
    vram_error_clear();
    assert_true(vram_memory_is_known((const void *)(uintptr_t)(pinned + 100)));
    assert_false(vram_memory_is_known(rig));
    assert_false(vram_memory_is_known(NULL));
    assert_string_equal(vram_error_get()->text, "");
    assert_ok(vram_device_free(rig->device, pinned));
}

TEST(memory_goes_with_the_device) {
    struct rig rig = rig_make("sim", SIM);
    void *memory = vram_host_alloc(1, 1 << 20), *kept = vram_host_alloc(1, 64);
    vram_device *device = rig.device;
    assert_non_null(memory);
    assert_non_null(kept);
    assert_ok(vram_host_free_later(device, NULL));
    assert_ok(vram_host_free_later(device, memory));
    assert_true(vram_host_bytes() >= 1 << 20);
    vram_context_destroy(rig.context);
    assert_int_equal(vram_host_free_later(device, kept), VRAM_ERR_STALE);
    vram_host_free(kept);
    assert_int_equal(vr_mem_live_blocks(), 0);
}

EACH_TEST(start, NULL)
