/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_async.c: work under way: pending, ready, in error; waits with deadlines; callbacks exactly
 * once; ends of handles, queues, devices and contexts in every order; and producers that finish
 * late or never say why. Item 2 of the acceptance list. And the end of a queue while the driver
 * takes a copy: whether the call then succeeds or fails, it leaves nothing behind, no copy that
 * writes later and no memory.
 */
#include "unit/child.h"
#include "unit/gate_world.h"
#include "unit/queue_ender.h"

#include "vram/extension.h"
#include "vram/vram.h"
#include "xfer/flight.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static vram_async async_here(vram_queue *queue, const char *operation) {
    vram_point point;
    vram_async async;
    assert_ok(vram_queue_mark(queue, &point));
    assert_ok(vram_async_of_point(point, operation, &async));
    return async;
}

static struct vr_device_object *pin_device(vram_device *handle) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, handle);
    assert_non_null(device);
    return device;
}

static struct vr_async *begin(vram_device *handle, uint64_t result, vram_async *async) {
    VR_OPERATION("vram_test_work");
    struct vr_device_object *device = pin_device(handle);
    struct vr_async *record;
    assert_ok(vr_async_begin(device, result, async, &record));
    vr_leave(device);
    return record;
}

/* -------------------------------------------------------------------- basics */

/* Acceptance item 2: pending on a long kernel while the host works; ready afterwards, and asked
   again. */
TEST(acceptance_2_pending_then_ready) {
    static struct gate gate;
    uint64_t host_work = 0, result = 7;
    vram_error error;
    struct rig rig = rig_make("host", NULL);
    gate_shut(rig.device, rig.queue, &gate);
    vram_async async = async_here(rig.queue, "long_kernel");
    for (int i = 0; i < 1000; i++) { /* the host's own work, all of it under the kernel */
        assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
        host_work += (uint64_t)i * (uint64_t)i;
    }
    assert_int_equal(host_work, 332833500);
    assert_int_equal(state_of(&async), VRAM_ASYNC_PENDING);
    assert_false(vram_async_is_ready(&async));
    assert_int_equal(vram_async_result_get(&async, &result), VRAM_ERR_NOT_READY);
    assert_int_equal(result, 7);
    vram_async bare = async; /* as where there was no memory for a record */
    bare.word[VR_ASYNC_RECORD] = 0;
    assert_int_equal(vram_async_poll(&bare), VRAM_ERR_NOT_READY);
    assert_int_equal(vram_async_error_get(&async, &error), VRAM_ERR_NOT_READY);
    expect_no_record();
    assert_int_equal(vram_async_wait(&async, MS), VRAM_ERR_TIMEOUT);
    assert_non_null(strstr(vram_error_get()->text, "long_kernel"));
    gate_open(&gate);
    for (int i = 0; i < 3; i++) { /* waiting again, and asking after the wait */
        assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_async_poll(&async));
        assert_int_equal(state_of(&async), VRAM_ASYNC_READY);
        assert_ok(vram_async_result_get(&async, &result));
        assert_int_equal(result, 0);
        assert_ok(vram_async_error_get(&async, &error));
        assert_int_equal(error.status, VRAM_OK);
    }
    assert_int_equal(vr_handle_live(VR_KIND_ASYNC), 0); /* a ready handle keeps nothing */
    vram_context_destroy(rig.context);
}

static atomic_int lost_lines;

static void count_lost(void *user, vram_log_level level, const char *text) {
    (void)user, (void)level;
    if (strstr(text, "long_kernel failed")) {
        atomic_fetch_add(&lost_lines, 1);
    }
}

/* Acceptance item 2: a forced failure is an error with text, logged once, told every time. */
TEST(acceptance_2_failure_has_text) {
    struct told told = {0};
    vram_error error;
    struct rig rig = rig_make("sim", "memory=64M,lag=10000");
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    vram_async async = async_here(rig.queue, "long_kernel");
    hook.poll_answer = VRAM_OK;
    fault(&rig, VRAM_SIM_POLL, 1, false, VRAM_SIM_DEVICE_LOST);
    atomic_store(&lost_lines, 0);
    vram_log_set(count_lost, NULL, VRAM_LOG_WARN);
    assert_ok(vram_async_then(&async, tell, &told));
    for (int i = 0; i < 3; i++) {
        vram_error_clear();
        assert_int_equal(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT), VRAM_ERR_DEVICE_LOST);
        assert_string_equal(vram_error_get()->operation, "long_kernel");
        assert_int_equal(vram_async_poll(&async), VRAM_ERR_DEVICE_LOST);
        assert_int_equal(state_of(&async), VRAM_ASYNC_ERROR);
        assert_ok(vram_async_error_get(&async, &error));
        assert_int_equal(error.status, VRAM_ERR_DEVICE_LOST);
        assert_string_equal(error.operation, "long_kernel");
        assert_true(error.text[0] != 0);
        assert_true(vram_async_is_ready(&async));
        assert_false(vram_async_is_ready(NULL));
    }
    assert_int_equal(times(&told), 1);
    assert_int_equal(told.status, VRAM_ERR_DEVICE_LOST);
    assert_string_equal(told.text, error.text);
    assert_int_equal(atomic_load(&lost_lines), 1);
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    vram_device_close(rig.device); /* the error outlives the device, */
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_DEVICE_LOST);
    vram_context_destroy(rig.context); /* and goes with the context */
    assert_ok(vram_async_poll(&async));
    vram_async_end(&async);
}

/* ------------------------------------------------------------ several at once */

enum { SEVERAL = 3 };

/* The first that is ready or has failed, in the order of the list. */
TEST(the_first_of_several, "sim:memory=64M") {
    vram_async asyncs[SEVERAL], zero[2] = {{{0}}, {{0}}};
    struct vr_async *records[SEVERAL];
    size_t index = 77;
    for (int i = 0; i < SEVERAL; i++) {
        records[i] = begin(rig->device, 0, &asyncs[i]);
    }
    assert_int_equal(vram_async_wait_any(asyncs, SEVERAL, 2000000, &index), VRAM_ERR_TIMEOUT);
    assert_int_equal(index, 77);
    vr_async_finish(records[2], VRAM_OK);
    assert_ok(vram_async_wait_any(asyncs, SEVERAL, VRAM_TIMEOUT_DEFAULT, &index));
    assert_int_equal(index, 2);
    vr_async_finish(records[1], VRAM_ERR_BUSY);
    assert_int_equal(vram_async_wait_any(asyncs, SEVERAL, 0, &index), VRAM_ERR_BUSY);
    assert_int_equal(index, 1);
    vr_async_finish(records[0], VRAM_OK);
    assert_ok(vram_async_wait_any(asyncs, SEVERAL, 0, &index));
    assert_int_equal(index, 0);
    index = 77;
    assert_ok(vram_async_wait_any(zero, 2, VRAM_TIMEOUT_DEFAULT, &index));
    assert_int_equal(index, 0);
    assert_int_equal(vram_async_wait_any(NULL, 1, 0, &index), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_wait_any(asyncs, 0, 0, &index), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_wait_any(asyncs, 1, 0, NULL), VRAM_ERR_INVALID);
    zero[1].word[VR_ASYNC_RECORD] = (uint64_t)(uintptr_t)rig->queue;
    assert_int_equal(vram_async_end(&zero[1]), VRAM_ERR_INVALID);
    vram_error_clear();
    for (int i = 0; i < SEVERAL; i++) {
        vram_async_end(&asyncs[i]);
    }
}

static bool is_readable(int fd, int patience_ms) {
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    return poll(&wanted, 1, patience_ms) == 1 && wanted.revents == POLLIN;
}

/* An event loop sleeps in poll(2) until the first is over; the descriptor is the program's. */
TEST(a_descriptor_tells_of_the_first) {
    vram_async asyncs[SEVERAL];
    struct vr_async *records[SEVERAL];
    size_t index;
    int fd = -1, early = -1;
    struct rig rig = rig_make("sim", "memory=64M");
    for (int i = 0; i < SEVERAL; i++) {
        records[i] = begin(rig.device, 0, &asyncs[i]);
    }
    assert_ok(vram_async_fd_open(asyncs, SEVERAL, &fd));
    assert_ok(vram_async_fd_open(asyncs, SEVERAL, &early));
    assert_false(is_readable(fd, 5));
    assert_int_equal(close(early), 0); /* nobody needs it any more */
    vr_async_finish(records[1], VRAM_OK);
    assert_true(is_readable(fd, 60000));
    assert_true(is_readable(fd, 0)); /* and stays so */
    assert_ok(vram_async_wait_any(asyncs, SEVERAL, 0, &index));
    assert_int_equal(index, 1);
    assert_int_equal(close(fd), 0);
    assert_ok(vram_async_fd_open(&asyncs[1], 1, &fd)); /* over already */
    assert_true(is_readable(fd, 60000));
    assert_int_equal(close(fd), 0);
    assert_int_equal(vram_async_fd_open(NULL, 1, &fd), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_fd_open(asyncs, 0, &fd), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_fd_open(asyncs, 1, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_fd_open(asyncs, SIZE_MAX, &fd), VRAM_ERR_HOST_MEMORY);
    vram_error_clear();
    vr_async_finish(records[0], VRAM_OK);
    vr_async_finish(records[2], VRAM_OK);
    rig_end_clean(&rig);
    for (int i = 0; i < 60000 && vr_mem_live_bytes() > bytes_before; i++) {
        vr_os_sleep(1000000); /* until the thread of the closed one has ended */
    }
}

/* Work of a queue, and a context that ends: the loop is woken, too. */
TEST(a_descriptor_ends_with_the_context) {
    int fd = -1;
    struct rig rig = rig_make("sim", "memory=64M,lag=1000");
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    vram_async async = async_here(rig.queue, "transfer");
    assert_ok(vram_async_fd_open(&async, 1, &fd));
    assert_false(is_readable(fd, 5));
    hook.poll_answer = VRAM_OK;
    assert_true(is_readable(fd, 60000));
    assert_int_equal(close(fd), 0);
    struct vr_async *record = begin(rig.device, 0, &async);
    assert_ok(vram_async_fd_open(&async, 1, &fd));
    vr_async_finish(record, VRAM_OK);
    vram_context_destroy(rig.context);
    assert_true(is_readable(fd, 60000));
    assert_int_equal(close(fd), 0);
}

/* ----------------------------------------------------------------- callbacks */

struct end_of {
    struct rig *rig;
    vram_async *async;
    int calls;
};

static void end_everything(void *user, vram_status status) {
    struct end_of *end_of = user;
    end_of->calls++;
    assert_ok(status);
    assert_ok(vram_async_poll(end_of->async));
    vram_async_end(end_of->async);
    vram_context_destroy(end_of->rig->context);
}

TEST(a_callback_may_end_everything) {
    static struct gate gate;
    struct rig rig = rig_make("host", NULL);
    gate_shut(rig.device, rig.queue, &gate);
    vram_async async = async_here(rig.queue, "work");
    struct end_of end_of = {&rig, &async, 0};
    assert_ok(vram_async_then(&async, end_everything, &end_of));
    vram_async copy = async;
    gate_open(&gate);
    assert_ok(vram_async_wait(&copy, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(end_of.calls, 1);
}

/* ------------------------------------------------------------------- threads */

struct finisher {
    pthread_t thread;
    struct vr_async *record;
    vram_status status;
};

static void *finish_later(void *argument) {
    struct finisher *finisher = argument;
    vr_os_sleep(2 * MS);
    if (finisher->status != VRAM_OK) {
        vr_error_set(finisher->status, "sim", "cuMemcpyAsync", 77, "the wire is cut");
    }
    vr_async_finish(finisher->record, finisher->status);
    return NULL;
}

TEST(producers_finish_from_any_thread) {
    static const vram_status statuses[] = {VRAM_OK, VRAM_ERR_BACKEND};
    struct rig rig = rig_make("host", NULL);
    for (int i = 0; i < 2; i++) {
        vram_async async;
        struct told told = {0};
        struct finisher finisher = {.record = begin(rig.device, 4096, &async),
                                    .status = statuses[i]};
        assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
        assert_ok(vram_async_then(&async, tell, &told));
        assert_int_equal(pthread_create(&finisher.thread, NULL, finish_later, &finisher), 0);
        assert_int_equal(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT), statuses[i]);
        pthread_join(finisher.thread, NULL);
        uint64_t result = 0;
        assert_int_equal(vram_async_result_get(&async, &result), statuses[i]);
        assert_int_equal(result, i ? 0 : 4096);
        assert_int_equal(times(&told), 1);
        if (i) {
            assert_string_equal(vram_error_get()->operation, "vram_test_work");
            assert_string_equal(vram_error_get()->backend, "sim");
            assert_int_equal(vram_error_get()->native_code, 77);
            assert_string_equal(vram_error_get()->text, "cuMemcpyAsync: the wire is cut");
        }
        vram_async_end(&async);
    }
    assert_int_equal(vr_handle_live(VR_KIND_ASYNC), 0);
    vram_context_destroy(rig.context);
}

/* ---------------------------------------------------------------------- ends */

TEST(a_device_closes_under_a_producer) {
    vram_async async[3];
    struct vr_async *record[3];
    struct told told = {0};
    struct rig rig = rig_make("host", NULL);
    for (int i = 0; i < 3; i++) {
        record[i] = begin(rig.device, 1, &async[i]);
    }
    assert_ok(vram_async_then(&async[0], tell, &told));
    vram_async_end(&async[1]);
    vram_device_close(rig.device);
    assert_int_equal(vram_async_poll(&async[0]), VRAM_ERR_NOT_READY);
    vr_fail_in(VRAM_ERR_SHUTDOWN, "staging", "stopped");
    vr_async_finish(record[0], VRAM_ERR_SHUTDOWN);
    assert_int_equal(times(&told), 1);
    assert_int_equal(vram_async_poll(&async[0]),
                     VRAM_ERR_SHUTDOWN); /* told as long as it is asked */
    vr_async_finish(record[1], VRAM_OK);
    vram_context_destroy(rig.context);
    vr_async_finish(record[2], VRAM_OK); /* after the context's handle: it goes now */
    assert_ok(vram_async_poll(&async[2]));
}

/* The result is the first end's; what a producer says later changes nothing. */
TEST(the_first_end_stays) {
    vram_async async;
    struct rig rig = rig_make("host", NULL);
    struct vr_async *record = begin(rig.device, 0, &async);
    uint64_t result = 0;
    vr_handle_ref(record->object.handle);
    vr_async_finish_value(record, 12);
    vr_async_settle(record, VRAM_ERR_BUSY, NULL);
    vr_leave(record);
    assert_ok(vram_async_result_get(&async, &result));
    assert_int_equal(result, 12);
    vram_async_end(&async);
    vram_context_destroy(rig.context);
}

/* A device that closes before its work has ended: the handle says so until it is ended, and nothing
   is left of it then. The device stays for ever, so this is a process of its own. */
static int close_under_work(void *unused) {
    (void)unused;
    struct rig rig = rig_make("sim", "memory=64M,lag=1000");
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    vram_async async = async_here(rig.queue, "endless");
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    if (vram_device_close(rig.device) != VRAM_ERR_TIMEOUT ||
        vram_async_poll(&async) != VRAM_ERR_SHUTDOWN ||
        !strstr(vram_error_get()->text, "closed before the work had ended")) {
        return 1;
    }
    uint64_t blocks = vr_mem_live_blocks();
    vram_async_end(&async);
    return vr_mem_live_blocks() == blocks - 2 ? 0 : 2; /* the record and its failure */
}

TEST(work_that_outlives_its_device) {
    assert_ok(vram_option_set("wait_timeout", "5ms"));
    assert_int_equal(in_child(close_under_work, NULL), 0);
}

TEST(callbacks_need_no_question) {
    static struct gate gate;
    struct told told[3] = {{0}};
    uint64_t pending = 7;
    struct rig rig = rig_make("host", NULL);
    gate_shut(rig.device, rig.queue, &gate);
    vram_async first = async_here(rig.queue, "first"), ended = async_here(rig.queue, "ended");
    assert_ok(vram_async_then(&first, tell, &told[0]));
    assert_ok(vram_async_then(&ended, tell, &told[1]));
    vram_async copy = ended;
    vram_async_end(&ended); /* given up, the call is made all the same */
    assert_int_equal(vram_async_then(&copy, tell, &told[2]), VRAM_ERR_STALE);
    assert_ok(vram_async_poll_all(rig.device, &pending));
    assert_int_equal(pending, 2);
    gate_open(&gate);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(times(&told[0]) + times(&told[1]), 0);
    assert_ok(vram_async_poll_all(rig.device, &pending));
    assert_int_equal(pending, 0);
    assert_int_equal(times(&told[0]), 1);
    assert_int_equal(times(&told[1]), 1);
    assert_int_equal(vr_handle_live(VR_KIND_ASYNC), 0);

    gate_shut(rig.device, rig.queue, &gate);
    vram_async last = async_here(rig.queue, "last");
    assert_ok(vram_async_then(&last, tell, &told[2]));
    gate_open(&gate);
    vram_queue_destroy(rig.queue); /* nobody asked: the end of the queue is the last moment */
    assert_int_equal(times(&told[2]), 1);
    assert_ok(vram_async_poll(&last));
    vram_context_destroy(rig.context);
}

/* ----------------------------------------------------- a queue that ends in a copy */

enum { BYTES = 512 << 10, SMALL = 4096 };

static unsigned char source[BYTES], target[BYTES];

/* Blocks that the library has of its own pool of page-locked memory. */
static uint64_t own_blocks(vram_device *handle) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, handle);
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(vr_flight_pinned(device), &stats));
    vr_leave(device);
    return stats.live_blocks;
}

/* ------------------------------------------------------------------------ copies */

static const vram_transfer_options sync_options = {.size = sizeof sync_options,
                                                   .strategy = VRAM_TRANSFER_SYNC};

/* No page-locked memory can be had: the driver writes the program's own. */
TEST(a_download_that_failed_writes_nothing) {
    for (int bytes = SMALL; bytes <= BYTES; bytes += BYTES - SMALL) {
        vram_addr addr;
        struct rig rig = rig_make("sim", "memory=64M,lag=60");
        assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &addr));
        assert_ok(vram_queue_fill(rig.queue, addr, 7, 1, BYTES));
        fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, 2);
        ender_set(rig.device, rig.queue, AFTER_COPY);
        memset(target, 0, sizeof target);
        vram_status status =
            vram_transfer_download(rig.queue, target, addr, (uint64_t)bytes, &sync_options, NULL);
        unsigned char expected = status == VRAM_OK ? 7 : 0xEE;
        if (status != VRAM_OK) {
            memset(target, 0xEE, sizeof target);
        }
        ender_join();
        for (int i = 0; i < bytes; i++) {
            assert_int_equal(target[i], expected);
        }
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        rig_end_clean(&rig);
    }
}

TEST(an_upload_leaves_no_copy_behind, "sim:memory=64M,lag=60") {
    vram_addr addr;
    assert_ok(vram_device_alloc(rig->device, BYTES, VRAM_MEMORY_DEVICE, &addr));
    ender_set(rig->device, rig->queue, AFTER_COPY);
    vram_status status = vram_transfer_upload(rig->queue, addr, source, BYTES, &sync_options, NULL);
    assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
    assert_ok(vram_device_free(rig->device, addr)); /* the driver sees whether work uses it */
    expect_protocol(rig);
    ender_join();
}

TEST(a_list_leaves_no_memory_behind, "sim:memory=64M,lag=60") {
    vram_addr addr;
    vram_copy copies[8];
    assert_ok(vram_device_alloc(rig->device, BYTES, VRAM_MEMORY_DEVICE, &addr));
    for (unsigned i = 0; i < 8;
         i++) { /* adjacent targets, separate sources: the copies are gathered */
        copies[i] = (vram_copy){
            .to = addr + i * 256, .from_host = source + i * (uint64_t)1024, .bytes = 256};
    }
    ender_set(rig->device, rig->queue, AFTER_COPY);
    vram_status status = vram_transfer_batch(rig->queue, copies, 8, NULL, NULL);
    assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
    ender_join();
    assert_int_equal(own_blocks(rig->device), 0);
}

TEST(a_bridge_leaves_no_memory_behind) {
    for (int both = 0; both < 2; both++) {
        vram_addr to, from;
        struct rig rig = rig_make("sim", "memory=64M,lag=60,devices=2");
        assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &to));
        assert_ok(vram_device_alloc(rig.other, BYTES, VRAM_MEMORY_DEVICE, &from));
        ender_set(both ? rig.other : rig.device, rig.queue,
                  AFTER_COPY); /* in the read, or in the write */
        vram_status status = vram_transfer_copy(rig.queue, to, from, BYTES, &sync_options, NULL);
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        ender_join();
        assert_int_equal(own_blocks(rig.device), 0);
        rig_end_clean(&rig);
    }
}

/* The caller's queue is idle, and nobody knows of the other one, which fills the block: it is kept
   until the device is closed. */
TEST(a_bridge_keeps_what_is_read_into) {
    vram_addr to, from;
    assert_ok(vram_option_set("wait_timeout", "200ms"));
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &to));
    assert_ok(vram_device_alloc(rig.other, BYTES, VRAM_MEMORY_DEVICE, &from));
    hook_set(rig.other);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    fault(&rig, VRAM_SIM_UPLOAD, 1, true, 9999);
    assert_int_equal(vram_transfer_copy(rig.queue, to, from, BYTES, &sync_options, NULL),
                     VRAM_ERR_BACKEND);
    assert_int_equal(own_blocks(rig.device), 1);
    hook.poll_answer = VRAM_OK;
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------- feeds, readbacks */

TEST(a_block_arrives_or_does_not) {
    for (int mode = VRAM_FEED_STAGED; mode <= VRAM_FEED_DIRECT; mode++) {
        vram_addr addr;
        vram_feed *feed;
        vram_feed_block block;
        struct rig rig = rig_make("sim", "memory=64M,lag=60");
        vram_feed_options options = {.size = sizeof options, .mode = (vram_feed_mode)mode};
        assert_ok(vram_device_alloc(rig.device, SMALL, VRAM_MEMORY_DEVICE, &addr));
        assert_ok(vram_feed_create(rig.device, &options, &feed));
        assert_ok(vram_feed_begin(feed, SMALL, 0, &block));
        ender_set(rig.device, rig.queue, AFTER_COPY);
        vram_status status = vram_feed_submit(feed, rig.queue, addr, block.number, SMALL, NULL);
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        if (status != VRAM_OK) { /* nothing of it uses that memory any more */
            assert_ok(vram_device_free(rig.device, addr));
            expect_protocol(&rig);
            assert_ok(vram_feed_release(feed, block.number));
        }
        ender_join();
        vram_feed_destroy(feed);
        rig_end_clean(&rig);
    }
}

TEST(a_frame_that_failed_reads_nothing) {
    for (int mode = VRAM_READBACK_SNAPSHOT; mode <= VRAM_READBACK_HOLD; mode++) {
        vram_addr addr;
        vram_readback *readback;
        struct rig rig = rig_make("sim", "memory=64M,lag=60");
        vram_readback_options options = {.size = sizeof options, .mode = (vram_readback_mode)mode};
        assert_ok(vram_device_alloc(rig.device, SMALL, VRAM_MEMORY_DEVICE, &addr));
        assert_ok(vram_readback_create(rig.device, &options, &readback));
        ender_set(rig.device, rig.queue, AFTER_COPY);
        vram_status status = vram_readback_start(readback, rig.queue, addr, SMALL, NULL);
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        if (status != VRAM_OK) {
            assert_ok(vram_device_free(rig.device, addr));
            expect_protocol(&rig);
        }
        ender_join();
        vram_readback_destroy(readback);
        rig_end_clean(&rig);
    }
}
