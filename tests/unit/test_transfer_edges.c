/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer_edges.c: lists and rectangles at their bounds, transfers that copy nothing, marks
 * that a driver refuses, and memory whose page-locking does not come to an end.
 */
#include "unit/child.h"
#include "unit/transfer_world.h"
#include "vram/vram.h"

#include "device/objects.h"

#include <stdlib.h>

/* ---------------------------------------------------------------------- lists */

/* Nothing is copied where both sides are the same memory; in a list and in a rectangle, too. */
static void direct_lists(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_transfer_options direct = by(VRAM_TRANSFER_DIRECT);
    vram_addr locked, device = memory_of(rig.device, 4096);
    vram_async async;
    assert_ok(vram_device_alloc(rig.device, 4096, VRAM_MEMORY_MANAGED, &locked));
    vram_copy list[] = {{.to = locked, .from = locked, .bytes = 64},
                        {.to = locked + 128, .from = locked + 128, .bytes = 64}};
    assert_ok(vram_transfer_batch(rig.queue, list, 2, &direct, &async));
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    list[1].from = device;
    assert_int_equal(vram_transfer_batch(rig.queue, list, 2, &direct, &async), VRAM_ERR_INVALID);
    vram_copy_2d rectangle = {list[0], 64, 4, 256, 256};
    assert_ok(vram_transfer_2d(rig.queue, &rectangle, &direct, &async));
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(calls_of(&rig, VRAM_SIM_COPY), 0);
    rig_end_clean(&rig);
}

static void sizes_that_do_not_fit(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_addr a = memory_of(rig.device, 4096), b = memory_of(rig.device, 4096);
    vram_copy copy = {.to = a, .from = b, .bytes = 1};
    vram_async async;
    if (SIZE_MAX > UINT32_MAX) {
        assert_int_equal(
            vram_transfer_batch(rig.queue, &copy, (size_t)UINT32_MAX + 1, NULL, &async),
            VRAM_ERR_INVALID);
    }
    vram_copy_2d tall = {copy, 16, UINT64_MAX / 16, 16, 32};
    assert_int_equal(vram_transfer_2d(rig.queue, &tall, NULL, &async), VRAM_ERR_OVERFLOW);
    vram_copy_2d wide = {copy, UINT64_MAX / 2 + 2, 2, UINT64_MAX / 2 + 2, UINT64_MAX / 2 + 2};
    assert_int_equal(vram_transfer_2d(rig.queue, &wide, NULL, &async), VRAM_ERR_OVERFLOW);
    rig_end_clean(&rig);
}

/* More rows than are made into pieces at a time, and not a multiple of it. */
static void tall_rectangles(void **state) {
    enum { ROWS = 65536 + 3 };
    (void)state;
    struct rig rig = rig_make("host", NULL);
    unsigned char *from = pattern_of(2 * ROWS, 3), *back = calloc(2, ROWS);
    vram_addr addr = memory_of(rig.device, 2 * ROWS);
    vram_async async;
    vram_copy_2d up = {{.to = addr, .from_host = from}, 1, ROWS, 2, 2};
    vram_copy_2d down = {{.to_host = back, .from = addr}, 1, ROWS, 2, 2};
    assert_ok(vram_transfer_2d(rig.queue, &up, NULL, &async));
    expect_result(&async, ROWS);
    assert_ok(vram_transfer_2d(rig.queue, &down, NULL, &async));
    expect_result(&async, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(back[2 * i], from[2 * i]);
        assert_int_equal(back[2 * i + 1], 0);
    }
    free(from);
    free(back);
    vram_context_destroy(rig.context);
}

/* From a device that may not be read: a plain copy goes through the host, rows are refused. */
static void rectangles_of_other_devices(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    vram_addr here = memory_of(rig.device, 4096), there = memory_of(rig.other, 4096);
    vram_async async;
    vram_copy_2d rows = {{.to = here, .from = there}, 16, 20, 64, 64};
    assert_int_equal(vram_transfer_2d(rig.queue, &rows, NULL, &async), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "vram_device_peer_enable"));
    assert_ok(vram_device_peer_enable(rig.device, rig.other));
    put(rig.other_queue, there, "there and back again", 21);
    assert_ok(vram_transfer_2d(rig.queue, &rows, NULL, &async));
    expect_result(&async, 320);
    expect_contents(rig.queue, here, "there and back a", 16);
    rig_end_clean(&rig);
}

/* Neighbours of ordinary and of page-locked memory in turn: joined where both sides are. */
static void mixed_neighbours(void **state) {
    enum { N = 8, EACH = 64 };
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    unsigned char *ordinary = pattern_of(N * EACH, 5);
    vram_addr locked, to = memory_of(rig.device, N * EACH);
    vram_copy list[N];
    vram_async async;
    assert_ok(vram_device_alloc(rig.device, N * EACH, VRAM_MEMORY_PINNED, &locked));
    memcpy((void *)(uintptr_t)locked, ordinary, N * EACH);
    for (uint64_t i = 0; i < N; i++) {
        list[i] = (vram_copy){.to = to + i * EACH, .bytes = EACH};
        if (i / 2 % 2) {
            list[i].from = locked + i * EACH;
        } else {
            list[i].from_host = ordinary + i * EACH;
        }
    }
    assert_ok(vram_transfer_batch(rig.queue, list, N, NULL, &async));
    expect_result(&async, N * EACH);
    expect_contents(rig.queue, to, ordinary, N * EACH);
    free(ordinary);
    rig_end_clean(&rig);
}

/* More than one block of page-locked memory takes: the next part has a block of its own. */
static void more_than_a_block(void **state) {
    enum { N = 160, EACH = 32768 };
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    unsigned char *from = pattern_of((size_t)2 * N * EACH, 6), *expected = malloc(N * EACH);
    vram_addr to = memory_of(rig.device, N * EACH);
    vram_copy *list = calloc(N, sizeof *list);
    vram_async async;
    for (uint64_t i = 0; i < N; i++) { /* neighbours at their destination alone */
        list[i] = (vram_copy){.to = to + i * EACH, .from_host = from + 2 * i * EACH, .bytes = EACH};
        memcpy(expected + i * EACH, from + 2 * i * EACH, EACH);
    }
    assert_ok(vram_transfer_batch(rig.queue, list, N, NULL, &async));
    expect_result(&async, N * EACH);
    assert_int_equal(calls_of(&rig, VRAM_SIM_UPLOAD), 2);
    expect_contents(rig.queue, to, expected, N * EACH);
    free(list);
    free(expected);
    free(from);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------- markers */

/* A driver that accepts the work and refuses its marker for good: the caller is told. */
static void refused_markers(void **state) {
    static const vram_status refusals[] = {VRAM_ERR_CAPTURE, VRAM_ERR_SHUTDOWN};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_transfer_options sync = by(VRAM_TRANSFER_SYNC);
    unsigned char byte = 1;
    vram_addr addr = memory_of(rig.device, 4096);
    vram_async async;
    sync.timeout_ns = SECOND;
    hook_set(rig.device);
    for (size_t i = 0; i < 2; i++) {
        hook.signal_answer = refusals[i];
        assert_int_equal(vram_transfer_fill(rig.queue, addr, 1, 1, 64, NULL, &async), refusals[i]);
        assert_int_equal(vram_transfer_upload(rig.queue, addr, &byte, 1, &sync, NULL), refusals[i]);
    }
    hook.signal_answer = VRAM_OK;
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    rig_end_clean(&rig);
}

/* With a deadline of its own: page-locked memory and copies on the device do not wait before. */
static void deadlines_of_copies_that_do_not_wait(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=3");
    vram_transfer_options sync = by(VRAM_TRANSFER_SYNC);
    vram_addr locked, a = memory_of(rig.device, 4096), b = memory_of(rig.device, 4096);
    sync.timeout_ns = 60 * SECOND;
    assert_ok(vram_device_alloc(rig.device, 4096, VRAM_MEMORY_PINNED, &locked));
    memset((void *)(uintptr_t)locked, 7, 4096);
    assert_ok(vram_transfer_copy(rig.queue, a, locked, 4096, &sync, NULL));
    assert_ok(vram_transfer_copy(rig.queue, b, a, 4096, &sync, NULL));
    expect_contents(rig.queue, b, (void *)(uintptr_t)locked, 4096);
    rig_end_clean(&rig);
}

/* Work of a queue that is being captured has no handle, and nothing of it is submitted. */
static void captured_queues_have_no_handles(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_addr addr = memory_of(rig.device, 4096);
    vram_async async;
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, rig.queue);
    vr_store(&queue->captured, true, VR_RELEASE);
    assert_int_equal(vram_transfer_fill(rig.queue, addr, 1, 1, 64, NULL, &async), VRAM_ERR_CAPTURE);
    vr_store(&queue->captured, false, VR_RELEASE);
    vr_leave(queue);
    assert_int_equal(calls_of(&rig, VRAM_SIM_FILL), 0);
    assert_ok(vram_transfer_fill(rig.queue, addr, 1, 1, 0, NULL, &async)); /* 0 bytes */
    assert_ok(vram_async_poll(&async));
    assert_int_equal(calls_of(&rig, VRAM_SIM_FILL), 0);
    rig_end_clean(&rig);
}

/* A device is lost while memory moves to it: a direct transfer says so, and so does a copy from
   its memory to another device. */
static void losses_are_told(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    vram_transfer_options direct = by(VRAM_TRANSFER_DIRECT);
    vram_addr managed, here = memory_of(rig.other, 4096);
    vram_async async;
    assert_ok(vram_device_alloc(rig.device, 4096, VRAM_MEMORY_MANAGED, &managed));
    vram_addr there = memory_of(rig.device, 4096);
    fault(&rig, VRAM_SIM_PREFETCH, 1, false, VRAM_SIM_DEVICE_LOST);
    assert_int_equal(vram_transfer_copy(rig.queue, managed, managed, 64, &direct, &async),
                     VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_transfer_copy(rig.other_queue, here, there, 64, NULL, &async),
                     VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_error_get()->native_code, 0); /* the driver is not asked any more */
    vram_context_destroy(rig.context);
}

/* -------------------------------------------------------------- page-locked memory */

static struct {
    const struct vr_pinned_ops *real;
    struct vr_pinned_ops copy;
    vram_device *device;
    char *pages;
    vram_status inside[3]; /* what calls on the same pages return meanwhile */
    unsigned refusals;     /* how many unlocks are refused */
} lock_hook;

/* The driver takes its time: whoever wants the same pages waits, and not for ever. */
static vram_status hooked_register(struct vr_device *device, uint64_t addr, uint64_t bytes) {
    vram_device *handle = lock_hook.device;
    lock_hook.device = NULL;
    if (handle) {
        lock_hook.inside[0] = vram_pinned_begin(handle, lock_hook.pages, 100);
        lock_hook.inside[1] = vram_pinned_end(handle, lock_hook.pages, 100);
        lock_hook.inside[2] = vram_pinned_forget(handle, lock_hook.pages, 100);
    }
    return lock_hook.real->register_pages(device, addr, bytes);
}

static vram_status hooked_unregister(struct vr_device *device, uint64_t addr, uint64_t bytes) {
    if (lock_hook.refusals) {
        lock_hook.refusals--;
        return vr_error_set(VRAM_ERR_BACKEND, "hook", "unregister", 1, "refused");
    }
    return lock_hook.real->unregister_pages(device, addr, bytes);
}

static void lock_hook_set(struct rig *rig) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig->device);
    memset(&lock_hook, 0, sizeof lock_hook);
    lock_hook.real = device->base.pinned;
    lock_hook.copy = *lock_hook.real;
    lock_hook.copy.register_pages = hooked_register;
    lock_hook.copy.unregister_pages = hooked_unregister;
    device->base.pinned = &lock_hook.copy;
    vr_leave(device);
}

static void locks_that_take_long(void **state) {
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "50ms"));
    struct rig rig = rig_make("sim", "memory=64M");
    uint64_t page = vr_os_page_bytes();
    char *pages = aligned_alloc(page, 4 * page);
    lock_hook_set(&rig);
    lock_hook.device = rig.device;
    lock_hook.pages = pages;
    assert_ok(vram_pinned_begin(rig.device, pages, 2 * page));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lock_hook.inside[i], VRAM_ERR_TIMEOUT);
    }
    assert_int_equal(lock_hook.inside[2], VRAM_ERR_BUSY); /* its use has begun */
    /* Not the pages that were locked, and not once more than they were. */
    assert_int_equal(vram_pinned_end(rig.device, pages + page, 2 * page), VRAM_ERR_INVALID);
    assert_ok(vram_pinned_end(rig.device, pages, 2 * page));
    assert_int_equal(vram_pinned_end(rig.device, pages, 2 * page), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_begin(rig.device, (void *)(uintptr_t)(UINT64_MAX - 100), 50),
                     VRAM_ERR_OVERFLOW);
    rig_end_clean(&rig);
    free(pages);
}

/* Memory that a driver does not unlock: kept while the device is open, tried twice at its end. */
static void unlocks_that_are_refused(void **state) {
    (void)state;
    for (unsigned refusals = 1; refusals <= 2; refusals++) {
        struct rig rig = rig_make("sim", "memory=64M");
        vram_pinned_info info = {.size = sizeof info};
        uint64_t page = vr_os_page_bytes();
        char *pages = aligned_alloc(page, 4 * page);
        lock_hook_set(&rig);
        for (int i = 0; i < 2; i++) {
            assert_ok(vram_pinned_begin(rig.device, pages + 2 * (uint64_t)i * page, page));
            assert_int_equal(vram_pinned_forget(rig.device, pages, 4 * page), VRAM_ERR_BUSY);
        }
        for (int i = 0; i < 2; i++) {
            assert_ok(vram_pinned_end(rig.device, pages + 2 * (uint64_t)i * page, page));
        }
        lock_hook.refusals = 1;
        assert_int_equal(vram_pinned_forget(rig.device, pages, 4 * page), VRAM_ERR_BACKEND);
        assert_ok(vram_pinned_info_get(rig.device, &info));
        assert_int_equal(info.entries, 2);
        atomic_store(&complaints, 0);
        vram_log_set(NULL, NULL, VRAM_LOG_OFF);
        lock_hook.refusals = refusals;
        vram_device_close(rig.device);
        assert_int_equal(lock_hook.refusals, 0);
        if (refusals == 1) {
            assert_int_equal(sim_state(&rig).live_handles, 0);
        }
        vram_context_destroy(rig.context);
        free(pages);
    }
}

/* ------------------------------------------------------------- feeds and readbacks */

/* A block of its own bytes, delivered; whether through a copy on the device. */
static void deliver(struct rig *rig, vram_feed *feed, vram_addr to, uint64_t bytes) {
    vram_feed_block block;
    vram_async async;
    assert_ok(vram_feed_begin(feed, bytes, VRAM_TIMEOUT_DEFAULT, &block));
    memset(block.data, (int)(block.number & 0xff), bytes);
    assert_ok(vram_feed_submit(feed, rig->queue, to, block.number, bytes, &async));
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    vram_async_end(&async);
    unsigned char last;
    assert_ok(vram_queue_download(rig->queue, &last, to + bytes - 1, 1));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(last, block.number & 0xff);
}

static uint64_t feed_device_bytes(vram_feed *feed) {
    vram_feed_stats stats = {.size = sizeof stats};
    assert_ok(vram_feed_stats_get(feed, &stats));
    return stats.device_bytes;
}

/* A larger block without memory on the device: the copy that was too small is freed and forgotten,
   and later blocks of the old size do not use it. */
static void a_copy_on_the_device_that_was_freed(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_addr to = memory_of(rig.device, 65536);
    vram_feed_options options = {.size = sizeof options, .slots = 2, .mode = VRAM_FEED_STAGED};
    vram_feed *feed;
    assert_ok(vram_feed_create(rig.device, &options, &feed));
    for (int i = 0; i < 2; i++) {
        deliver(&rig, feed, to, 4096);
    }
    assert_true(feed_device_bytes(feed) > 0);
    fault(&rig, VRAM_SIM_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    for (int i = 0; i < 2; i++) {
        deliver(&rig, feed, to, 65536);
    }
    assert_int_equal(feed_device_bytes(feed), 0);
    for (int i = 0; i < 2; i++) {
        deliver(&rig, feed, to, 4096);
    }
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    vram_addr others[8]; /* some of them where the freed copies were */
    for (int i = 0; i < 8; i++) {
        others[i] = memory_of(rig.device, 4096);
    }
    for (int i = 0; i < 2; i++) {
        deliver(&rig, feed, to, 4096);
    }
    assert_true(feed_device_bytes(feed) > 0);
    assert_ok(vram_feed_destroy(feed));
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_device_free(rig.device, others[i]));
    }
    rig_end_clean(&rig);
}

/* A delivery that failed with its upload on the way: the slot is free when the upload is known to
   have ended. */
static void a_released_block_settles(void **state) {
    vram_feed_block blocks[2], again;
    vram_async async;
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "200ms"));
    struct rig rig = rig_make("sim", "memory=64M,lag=20");
    vram_addr to = memory_of(rig.device, 4096);
    vram_feed_options options = {.size = sizeof options, .slots = 2, .mode = VRAM_FEED_DIRECT};
    vram_feed *feed;
    assert_ok(vram_feed_create(rig.device, &options, &feed));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_feed_begin(feed, 4096, VRAM_TIMEOUT_DEFAULT, &blocks[i]));
        memset(blocks[i].data, i, 4096);
    }
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    hook.signals_left = 2; /* the consumer's is accepted, the upload's is not */
    hook.refusals = 1000;
    assert_int_not_equal(vram_feed_submit(feed, rig.queue, to, blocks[0].number, 4096, &async),
                         VRAM_OK);
    assert_ok(vram_feed_release(feed, blocks[0].number));
    assert_int_not_equal(vram_feed_begin(feed, 4096, 2000000, &again), VRAM_OK);
    hook.refusals = 0;
    assert_int_equal(vram_feed_begin(feed, 4096, 2000000, &again), VRAM_ERR_TIMEOUT);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_feed_begin(feed, 4096, 20 * SECOND, &again));
    assert_int_equal(again.slot, blocks[0].slot);
    assert_ok(vram_feed_release(feed, again.number));
    assert_ok(vram_feed_release(feed, blocks[1].number));
    assert_ok(vram_feed_destroy(feed));
    rig_end_clean(&rig);
}

/* Memory that could not be page-locked, under a transfer that does not end: it stays for ever, as
   the log says, so this is a process of its own. */
static int leave_a_transfer(void *unused) {
    uint64_t number;
    (void)unused;
    struct rig rig = rig_make("sim", "memory=64M,lag=1000");
    vram_addr from = memory_of(rig.device, 4096);
    vram_readback *readback;
    assert_ok(vram_readback_create(rig.device, NULL, &readback));
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_readback_start(readback, rig.queue, from, 4096, &number));
    atomic_store(&complaints, 0);
    if (vram_readback_destroy(readback) != VRAM_ERR_TIMEOUT || atomic_load(&complaints) != 1) {
        return 1;
    }
    hook.poll_answer = VRAM_OK;
    vram_device_close(rig.device);
    vram_context_destroy(rig.context);
    return vr_mem_live_bytes() >= bytes_before + 4096 ? 0 : 2;
}

static void memory_of_a_transfer_that_never_ends(void **state) {
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "5ms"));
    assert_int_equal(in_child(leave_a_transfer, NULL), 0);
}

/* Frames that are held by their buffers need no memory of the device. */
static void frames_allocated_ahead(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_readback_options options = {
        .size = sizeof options, .mode = VRAM_READBACK_HOLD, .bytes = 4096};
    vram_readback_stats stats = {.size = sizeof stats};
    vram_readback *readback;
    assert_ok(vram_readback_create(rig.device, &options, &readback));
    assert_ok(vram_readback_stats_get(readback, &stats));
    assert_true(stats.host_bytes >= 2 * 4096);
    assert_int_equal(stats.device_bytes, 0);
    assert_ok(vram_readback_destroy(readback));
    rig_end_clean(&rig);
}

static void the_first_name_is_wrong(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_stream_plan plans[] = {{.name = ""}, {.name = "b"}, {.name = "c"}};
    vram_stream_set_options options = {.size = sizeof options, .count = 3, .streams = plans};
    vram_stream_set *set = NULL;
    assert_int_equal(vram_stream_set_create(rig.device, &options, &set), VRAM_ERR_INVALID);
    assert_null(set);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------------- ends */

/* A device that closes before its work has ended: the handle says so until it is ended, and its
   record goes then. The device stays for ever, so this is a process of its own. */
static int close_under_work(void *unused) {
    vram_async async;
    vram_point point;
    (void)unused;
    struct rig rig = rig_make("sim", "memory=64M,lag=1000");
    vram_addr addr = memory_of(rig.device, 4096);
    assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 4096));
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_mark(rig.queue, &point));
    assert_ok(vram_async_of_point(point, NULL, &async));
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    if (vram_device_close(rig.device) != VRAM_ERR_TIMEOUT ||
        vram_async_poll(&async) != VRAM_ERR_SHUTDOWN ||
        !strstr(vram_error_get()->text, "closed before the work had ended")) {
        return 1;
    }
    uint64_t blocks = vr_mem_live_blocks();
    if (vram_async_end(&async) != VRAM_OK || vram_async_poll(&async) != VRAM_OK) {
        return 2;
    }
    return vr_mem_live_blocks() == blocks - 2 ? 0 : 3; /* the record and its failure */
}

static void work_that_outlives_its_device(void **state) {
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "5ms"));
    assert_int_equal(in_child(close_under_work, NULL), 0);
}

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
static void memory_of_a_closing_device(void **state) {
    vram_async async;
    vram_point point;
    (void)state;
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

int main(void) {
#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)
    const struct CMUnitTest tests[] = {
        HERE(direct_lists),
        HERE(sizes_that_do_not_fit),
        HERE(tall_rectangles),
        HERE(rectangles_of_other_devices),
        HERE(mixed_neighbours),
        HERE(more_than_a_block),
        HERE(refused_markers),
        HERE(deadlines_of_copies_that_do_not_wait),
        HERE(captured_queues_have_no_handles),
        HERE(losses_are_told),
        HERE(locks_that_take_long),
        HERE(unlocks_that_are_refused),
        HERE(a_copy_on_the_device_that_was_freed),
        HERE(a_released_block_settles),
        HERE(memory_of_a_transfer_that_never_ends),
        HERE(frames_allocated_ahead),
        HERE(the_first_name_is_wrong),
        HERE(work_that_outlives_its_device),
        HERE(memory_of_a_closing_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
