/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_async.c: work under way: pending, ready, in error; waits with deadlines; callbacks exactly
 * once; ends of handles, queues, devices and contexts in every order; and producers that finish
 * late or never say why. Item 2 of the acceptance list.
 */
#include "base/error.h"
#include "unit/child.h"
#include "unit/gate_world.h"
#include "vram/extension.h"
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

static void zeros_are_ready(void **state) {
    vram_async async = {{0}};
    vram_async_state found;
    vram_error error = {.status = VRAM_ERR_LIMIT};
    uint64_t result = 7;
    struct told told = {0};
    (void)state;
    assert_int_equal(sizeof async, 32);
    assert_ok(vram_async_poll(&async));
    assert_ok(vram_async_wait(&async, 0));
    assert_ok(vram_async_state_get(&async, &found));
    assert_int_equal(found, VRAM_ASYNC_READY);
    assert_true(vram_async_is_ready(&async));
    assert_ok(vram_async_result_get(&async, &result));
    assert_int_equal(result, 0);
    assert_ok(vram_async_error_get(&async, &error));
    assert_int_equal(error.status, VRAM_OK);
    assert_ok(vram_async_then(&async, tell, &told));
    assert_int_equal(times(&told), 1);
    vram_async_end(&async);
    assert_int_equal(vram_async_end(NULL), VRAM_OK);
    expect_no_record();
}

/* Acceptance item 2: pending on a long kernel while the host works; ready afterwards, and asked
   again. */
static void acceptance_2_pending_then_ready(void **state) {
    static struct gate gate;
    uint64_t host_work = 0, result = 7;
    vram_error error;
    (void)state;
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

struct keeper {
    pthread_t thread;
    struct gate *gate;
};

static void *open_after_a_while(void *argument) {
    struct keeper *keeper = argument;
    vr_os_sleep(40 * MS);
    gate_open(keeper->gate);
    return NULL;
}

/* Acceptance item 2: the host has the time of a long kernel for itself, all but the polls. */
static void acceptance_2_overlap_is_measured(void **state) {
    static struct gate gate;
    uint64_t asked = 0, worked = 0, sum = 0;
    (void)state;
    struct rig rig = rig_make("host", NULL);
    struct keeper keeper = {.gate = &gate};
    gate_shut(rig.device, rig.queue, &gate);
    uint64_t begin = vr_os_now();
    vram_async async = async_here(rig.queue, "long_kernel");
    assert_int_equal(pthread_create(&keeper.thread, NULL, open_after_a_while, &keeper), 0);
    for (bool pending = true; pending;) {
        uint64_t before = vr_os_now();
        for (uint64_t i = 0; i < 20000; i++) {
            sum += i * i ^ sum >> 3;
        }
        uint64_t between = vr_os_now();
        pending = vram_async_poll(&async) == VRAM_ERR_NOT_READY;
        asked += vr_os_now() - between;
        worked += between - before;
    }
    uint64_t total = vr_os_now() - begin;
    pthread_join(keeper.thread, NULL);
    print_message("overlap %.3f: %.1f ms of host work and %.3f ms of polls in %.1f ms (%u)\n",
                  (double)worked / (double)total, (double)worked / 1e6, (double)asked / 1e6,
                  (double)total / 1e6, (unsigned)(sum & 1));
    assert_true(total >= 40 * MS);
    assert_true(worked > total / 2); /* a busy machine takes its part */
    assert_ok(vram_async_wait(&async, 0));
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
static void acceptance_2_failure_has_text(void **state) {
    struct told told = {0};
    vram_error error;
    (void)state;
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

/* The queue of a lost device ends, and with it its points count as passed: the handle knows
   better. */
static void a_lost_device_is_told_after_its_queue(void **state) {
    struct told told = {0};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=1000");
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    vram_async async = async_here(rig.queue, "transfer");
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
    assert_ok(vram_async_then(&async, tell, &told));
    hook.poll_answer = VRAM_OK;
    fault(&rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST);
    vram_queue_destroy(rig.queue);
    assert_int_equal(times(&told), 1);
    assert_int_equal(told.status, VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_DEVICE_LOST);
    vram_async_end(&async);
    assert_ok(vram_async_poll(&async));
    vram_context_destroy(rig.context);
}

/* ------------------------------------------------------------ several at once */

enum { SEVERAL = 3 };

/* The first that is ready or has failed, in the order of the list. */
static void the_first_of_several(void **state) {
    vram_async asyncs[SEVERAL], zero[2] = {{{0}}, {{0}}};
    struct vr_async *records[SEVERAL];
    size_t index = 77;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    for (int i = 0; i < SEVERAL; i++) {
        records[i] = begin(rig.device, 0, &asyncs[i]);
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
    vram_error_clear();
    for (int i = 0; i < SEVERAL; i++) {
        vram_async_end(&asyncs[i]);
    }
    rig_end_clean(&rig);
}

static bool is_readable(int fd, int patience_ms) {
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    return poll(&wanted, 1, patience_ms) == 1 && wanted.revents == POLLIN;
}

/* An event loop sleeps in poll(2) until the first is over; the descriptor is the program's. */
static void a_descriptor_tells_of_the_first(void **state) {
    vram_async asyncs[SEVERAL];
    struct vr_async *records[SEVERAL];
    size_t index;
    int fd = -1, early = -1;
    (void)state;
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
static void a_descriptor_ends_with_the_context(void **state) {
    int fd = -1;
    (void)state;
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

/* A driver that cannot answer tells nothing of the work: the memory may still be written to. */
static void a_refused_question_is_no_failure(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    vram_async async = async_here(rig.queue, "transfer");
    hook.poll_answer = VRAM_ERR_BACKEND;
    vr_error_set(VRAM_ERR_BACKEND, "hook", "poll", 3, "cannot say");
    assert_int_equal(vram_async_wait(&async, MS), VRAM_ERR_BACKEND);
    assert_int_equal(state_of(&async), VRAM_ASYNC_PENDING);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------------- callbacks */

static void callbacks_come_once_and_in_order(void **state) {
    static struct gate gate;
    struct told told[4] = {{0}};
    (void)state;
    struct rig rig = rig_make("host", NULL);
    gate_shut(rig.device, rig.queue, &gate);
    vram_async async = async_here(rig.queue, "work");
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_async_then(&async, tell, &told[i]));
    }
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
    assert_int_equal(times(&told[0]), 0);
    gate_open(&gate);
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_async_then(&async, tell, &told[3])); /* over: at once */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(times(&told[i]), 1);
        assert_int_equal(told[i].status, VRAM_OK);
        assert_true(i == 0 || told[i].order > told[i - 1].order);
    }
    vram_context_destroy(rig.context);
}

static void callbacks_need_no_question(void **state) {
    static struct gate gate;
    struct told told[3] = {{0}};
    uint64_t pending = 7;
    (void)state;
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

struct ender {
    struct rig *rig;
    vram_async *async;
    int calls;
};

static void end_everything(void *user, vram_status status) {
    struct ender *ender = user;
    ender->calls++;
    assert_ok(status);
    assert_ok(vram_async_poll(ender->async));
    vram_async_end(ender->async);
    vram_context_destroy(ender->rig->context);
}

static void a_callback_may_end_everything(void **state) {
    static struct gate gate;
    (void)state;
    struct rig rig = rig_make("host", NULL);
    gate_shut(rig.device, rig.queue, &gate);
    vram_async async = async_here(rig.queue, "work");
    struct ender ender = {&rig, &async, 0};
    assert_ok(vram_async_then(&async, end_everything, &ender));
    vram_async copy = async;
    gate_open(&gate);
    assert_ok(vram_async_wait(&copy, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(ender.calls, 1);
}

/* ------------------------------------------------------------------- threads */

struct crowd {
    pthread_t thread[4];
    const vram_async *async;
    int by;
};

static void *crowd_waits(void *argument) {
    struct crowd *crowd = argument;
    for (int i = 0; i < 100; i++) {
        vram_status status = vram_async_poll(crowd->async);
        assert_true(status == VRAM_OK || status == VRAM_ERR_NOT_READY);
    }
    assert_ok(vram_async_wait(crowd->async, VRAM_TIMEOUT_DEFAULT));
    return NULL;
}

static void many_ask_and_one_calls(void **state) {
    static struct gate gate;
    (void)state;
    struct rig rig = rig_make("host", NULL);
    for (int round = 0; round < 10; round++) {
        struct told told = {0};
        gate_shut(rig.device, rig.queue, &gate);
        vram_async async = async_here(rig.queue, "work");
        struct crowd crowd = {.async = &async};
        assert_ok(vram_async_then(&async, tell, &told));
        for (int i = 0; i < 4; i++) {
            assert_int_equal(pthread_create(&crowd.thread[i], NULL, crowd_waits, &crowd), 0);
        }
        gate_open(&gate);
        for (int i = 0; i < 4; i++) {
            pthread_join(crowd.thread[i], NULL);
        }
        assert_int_equal(times(&told), 1);
    }
    vram_context_destroy(rig.context);
}

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

static void producers_finish_from_any_thread(void **state) {
    static const vram_status statuses[] = {VRAM_OK, VRAM_ERR_BACKEND};
    (void)state;
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

/* A count that is known at the end stays readable until the handle is ended; S0-20. */
static void a_late_result_stays(void **state) {
    vram_async async, forgotten;
    uint64_t result = 0;
    (void)state;
    struct rig rig = rig_make("host", NULL);
    vr_async_finish_value(begin(rig.device, 0, &async), 12);
    vr_async_finish_value(begin(rig.device, 0, &forgotten), 13);
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_async_wait(&async, 0));
        assert_ok(vram_async_result_get(&async, &result));
        assert_int_equal(result, 12);
    }
    assert_int_equal(vr_handle_live(VR_KIND_ASYNC), 2);
    vram_async_end(&async);
    vram_async_end(&async);
    assert_int_equal(vr_handle_live(VR_KIND_ASYNC), 1);
    vram_context_destroy(rig.context);
}

/* Whoever learns of the end once more changes nothing of it. */
static void the_first_end_stays(void **state) {
    vram_async async;
    uint64_t result = 0;
    (void)state;
    struct rig rig = rig_make("host", NULL);
    struct vr_async *record = begin(rig.device, 0, &async);
    vr_handle_ref(record->object.handle);
    vr_async_finish_value(record, 12);
    vr_async_settle(record, VRAM_ERR_BUSY, NULL);
    vr_async_leave(record);
    assert_ok(vram_async_wait(&async, 0));
    assert_ok(vram_async_result_get(&async, &result));
    assert_int_equal(result, 12);
    vram_async_end(&async);
    vram_context_destroy(rig.context);
}

/* What a producer begins may be ended by the device: first held, then behind a point. */
static void a_record_may_follow_a_point(void **state) {
    static struct gate gate;
    vram_async async;
    vram_point point;
    (void)state;
    struct rig rig = rig_make("host", NULL);
    gate_shut(rig.device, rig.queue, &gate);
    struct vr_async *record = begin(rig.device, 5, &async);
    assert_ok(vram_queue_mark(rig.queue, &point));
    assert_int_equal(vram_async_wait(&async, MS), VRAM_ERR_TIMEOUT);
    vr_async_follow(record, (uint64_t)(uintptr_t)point.queue, point.value);
    assert_int_equal(vram_async_wait(&async, MS), VRAM_ERR_TIMEOUT);
    gate_open(&gate);
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    vram_context_destroy(rig.context);
}

/* ---------------------------------------------------------------------- ends */

static void a_device_closes_under_a_producer(void **state) {
    vram_async async[3];
    struct vr_async *record[3];
    struct told told = {0};
    (void)state;
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

/* A point that a producer knows only when its device has closed: the work is over, and the callback
   is made without a question. */
static void a_record_may_follow_an_ended_queue(void **state) {
    struct told told = {0};
    vram_async async;
    vram_point point;
    (void)state;
    struct rig rig = rig_make("host", NULL);
    struct vr_async *record = begin(rig.device, 5, &async);
    assert_ok(vram_async_then(&async, tell, &told));
    assert_ok(vram_queue_mark(rig.queue, &point));
    vram_device_close(rig.device);
    assert_int_equal(times(&told), 0);
    vr_async_follow(record, (uint64_t)(uintptr_t)point.queue, point.value);
    assert_int_equal(times(&told), 1);
    assert_int_equal(told.status, VRAM_OK);
    assert_ok(vram_async_poll(&async));
    vram_context_destroy(rig.context);
}

static void forgotten_handles_do_not_add_up(void **state) {
    uint64_t most = 0;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY; /* so that each begins pending */
    for (int i = 0; i < 3000; i++) {
        (void)async_here(rig.queue, "forgotten");
        uint64_t live = vr_handle_live(VR_KIND_ASYNC);
        most = live > most ? live : most;
    }
    assert_true(most < 100);
    hook.poll_answer = VRAM_OK;
    rig_end_clean(&rig);
    assert_int_equal(vr_handle_live(VR_KIND_ASYNC), 0);
}

static void ending_does_not_stop_the_work(void **state) {
    static struct gate gate;
    vram_async zero = {{0}};
    (void)state;
    struct rig rig = rig_make("host", NULL);
    gate_shut(rig.device, rig.queue, &gate);
    vram_async async = async_here(rig.queue, "work"), copy = async;
    vram_async_end(&async);
    assert_memory_equal(&async, &zero, sizeof zero);
    vram_async_end(&async);
    vram_async_end(&copy);
    assert_int_equal(vr_handle_live(VR_KIND_ASYNC), 0);
    gate_open(&gate);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    vram_context_destroy(rig.context);
}

/* A copy of a handle that was ended still knows its point, and no more than that. */
static void a_copy_outlives_its_handle(void **state) {
    struct told told = {0};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    vram_async async = async_here(rig.queue, "work"), copy = async;
    vram_async_end(&async);
    assert_int_equal(state_of(&copy), VRAM_ASYNC_PENDING);
    assert_int_equal(vram_async_then(&copy, tell, &told), VRAM_ERR_STALE);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_async_wait(&copy, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(state_of(&copy), VRAM_ASYNC_READY);
    assert_ok(vram_async_then(&copy, tell, &told));
    assert_int_equal(times(&told), 1);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------ watchdog */

/* No wait outlives its deadline, whichever way the work hangs. */
static void no_wait_outlives_its_deadline(void **state) {
    static const uint64_t deadlines[] = {0, 1, MS / 10, 5 * MS, 30 * MS};
    static struct gate gate;
    vram_async held;
    (void)state;
    struct rig rig = rig_make("host", NULL);
    gate_shut(rig.device, rig.queue, &gate);
    struct vr_async *record = begin(rig.device, 0, &held);
    vram_async async = async_here(rig.queue, "work");
    for (size_t i = 0; i < sizeof deadlines / sizeof deadlines[0]; i++) {
        const vram_async *asked[] = {&async, &held};
        for (int j = 0; j < 2; j++) {
            uint64_t before = vr_os_now();
            assert_int_equal(vram_async_wait(asked[j], deadlines[i]), VRAM_ERR_TIMEOUT);
            uint64_t took = vr_os_now() - before;
            assert_true(took >= deadlines[i]);
            assert_true(took < deadlines[i] + 30 * SECOND); /* slow is not stuck */
        }
    }
    gate_open(&gate);
    vr_async_finish(record, VRAM_OK);
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_async_wait(&held, VRAM_TIMEOUT_DEFAULT));
    vram_context_destroy(rig.context);
}

/* ----------------------------------------------------------------- bad input */

static void what_is_no_handle_is_refused(void **state) {
    vram_async bad = {{1, 2, 3, 4}}, kept = bad;
    vram_async_state found = 7;
    vram_error error;
    uint64_t result = 7;
    (void)state;
    struct rig rig = rig_make("host", NULL);
    assert_int_equal(vram_async_poll(&bad), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_wait(&bad, 0), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_state_get(&bad, &found), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_error_get(&bad, &error), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_result_get(&bad, &result), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_then(&bad, tell, NULL), VRAM_ERR_INVALID);
    assert_false(vram_async_is_ready(&bad));
    assert_int_equal(vram_async_poll(NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_wait(NULL, 0), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_state_get(NULL, &found), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_error_get(NULL, &error), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_result_get(NULL, &result), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_then(NULL, tell, NULL), VRAM_ERR_INVALID);
    assert_false(vram_async_is_ready(NULL));
    assert_int_equal(found, 7);
    vram_async queue_made_up = {{0xabc, 1, 0, 0}};
    assert_int_equal(vram_async_poll(&queue_made_up), VRAM_ERR_INVALID);
    vram_async not_made = {{(uint64_t)(uintptr_t)rig.queue, 99, 0, 0}};
    assert_int_equal(vram_async_poll(&not_made), VRAM_ERR_INVALID);
    vram_async good = {{0}};
    assert_int_equal(vram_async_state_get(&good, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_error_get(&good, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_result_get(&good, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_then(&good, NULL, NULL), VRAM_ERR_INVALID);
    vram_point point = {rig.queue, 99};
    assert_int_equal(vram_async_of_point(point, NULL, &kept), VRAM_ERR_INVALID);
    assert_memory_equal(&kept, &bad, sizeof bad);
    assert_int_equal(vram_async_of_point((vram_point){0}, NULL, NULL), VRAM_ERR_INVALID);
    assert_ok(vram_async_of_point((vram_point){0}, NULL, &kept));
    assert_ok(vram_async_poll(&kept));
    assert_int_equal(vram_async_poll_all(NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_async_end(&bad), VRAM_ERR_INVALID);
    assert_ok(vram_async_end(&bad)); /* zeros now */
    vram_context_destroy(rig.context);
    assert_int_equal(vram_async_poll_all(rig.device, NULL), VRAM_ERR_STALE);
}

/* A child may ask, and learns that the work is its parent's; giving the handle up is harmless. */
static vram_async_work *work_of_parent;

static int ask_in_child(void *argument) {
    vram_async *async = argument, other = *async;
    vram_point point = {(vram_queue *)(uintptr_t)async->word[0], async->word[1]};
    if (vram_async_finish(work_of_parent, VRAM_OK) != VRAM_ERR_FORKED ||
        vram_async_of_point(point, NULL, &other) != VRAM_ERR_FORKED) {
        return 3;
    }
    if (vram_async_poll(async) != VRAM_ERR_FORKED || vram_async_wait(async, 0) != VRAM_ERR_FORKED ||
        vram_async_is_ready(async)) {
        return 1;
    }
    vram_async_end(async);
    return vram_async_poll(async) == VRAM_OK ? 0 : 2;
}

static void a_forked_child_is_told(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    vram_async async = async_here(rig.queue, "work");
    vram_async produced;
    assert_ok(vram_async_begin(rig.device, "product", 0, &produced, &work_of_parent));
    assert_int_equal(in_child(ask_in_child, &async), 0);
    assert_int_equal(vram_async_poll(&produced), VRAM_ERR_NOT_READY);
    assert_ok(vram_async_finish(work_of_parent, VRAM_OK));
    assert_ok(vram_async_poll(&produced));
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    rig_end_clean(&rig);
}

/* Every allocation of the library's own fails in turn. */
static void out_of_host_memory(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    hook_set(rig.device);
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        struct told told = {0};
        vram_point point;
        vram_async async = {{0}};
        assert_true(nth < 20);
        hook.poll_answer = VRAM_ERR_NOT_READY;
        assert_ok(vram_queue_mark(rig.queue, &point));
        vr_mem_fail_at(nth, false);
        vram_status made = vram_async_of_point(point, "work", &async);
        vram_status then = made == VRAM_OK ? vram_async_then(&async, tell, &told) : made;
        failed = vr_mem_failed() > 0;
        vr_mem_fail_at(0, false);
        assert_int_equal(then, failed ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
        hook.poll_answer = VRAM_OK;
        assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
        assert_int_equal(times(&told), !failed);
    }
    rig_end_clean(&rig);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(zeros_are_ready),
        HERE(acceptance_2_pending_then_ready),
        HERE(acceptance_2_overlap_is_measured),
        HERE(acceptance_2_failure_has_text),
        HERE(the_first_of_several),
        HERE(a_descriptor_tells_of_the_first),
        HERE(a_descriptor_ends_with_the_context),
        HERE(a_lost_device_is_told_after_its_queue),
        HERE(a_refused_question_is_no_failure),
        HERE(callbacks_come_once_and_in_order),
        HERE(callbacks_need_no_question),
        HERE(a_callback_may_end_everything),
        HERE(many_ask_and_one_calls),
        HERE(producers_finish_from_any_thread),
        HERE(a_late_result_stays),
        HERE(the_first_end_stays),
        HERE(a_record_may_follow_a_point),
        HERE(a_device_closes_under_a_producer),
        HERE(a_record_may_follow_an_ended_queue),
        HERE(forgotten_handles_do_not_add_up),
        HERE(ending_does_not_stop_the_work),
        HERE(a_copy_outlives_its_handle),
        HERE(no_wait_outlives_its_deadline),
        HERE(what_is_no_handle_is_refused),
        HERE(a_forked_child_is_told),
        HERE(out_of_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
