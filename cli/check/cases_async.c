/* SPDX-License-Identifier: Apache-2.0 */
/* cases_async.c: handles of work under way: pending, ready, asked again, called back, given up. */
#include "case.h"

/* What a callback counts, in memory that outlives the device. */
struct told {
    uint32_t times;
    vram_status status;
};

static void tell(void *user, vram_status status) {
    struct told *told = user;
    told->times++;
    told->status = status;
}

static bool told_make(struct check *check, struct told **told) {
    void *memory;
    CHECK_TRY(check_host(check, sizeof **told, &memory));
    *told = memory;
    return true;
}

static bool async_here(struct check *check, vram_queue *queue, vram_async *async) {
    vram_point point;
    CHECK_OK(check, vram_queue_mark(queue, &point));
    CHECK_OK(check, vram_async_of_point(point, "check", async));
    return true;
}

/* Nothing to wait for is ready, and a point that has passed is. */
static bool ready(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_async zero = {{0}}, async;
    vram_async_state state = VRAM_ASYNC_PENDING;
    vram_error error;
    uint64_t result = 7;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_THAT(check, sizeof zero == 32);
    CHECK_OK(check, vram_async_poll(&zero));
    CHECK_TRY(async_here(check, queue, &async));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(check, vram_async_wait(&async, CHECK_DEADLINE_NS));
        CHECK_OK(check, vram_async_poll(&async));
        CHECK_OK(check, vram_async_state_get(&async, &state));
        CHECK_THAT(check, state == VRAM_ASYNC_READY);
        CHECK_THAT(check, vram_async_is_ready(&async));
        CHECK_OK(check, vram_async_result_get(&async, &result));
        CHECK_EQUAL(check, result, 0);
        CHECK_OK(check, vram_async_error_get(&async, &error));
        CHECK_THAT(check, error.status == VRAM_OK);
    }
    vram_async_end(&async);
    CHECK_OK(check, vram_async_poll(&async));
    return true;
}

/* Behind work that certainly runs the handle is pending; waits keep their deadlines; then it is
   ready. */
static bool pending(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_gate gate;
    struct told *told;
    vram_async async, kept;
    vram_error error;
    uint64_t result = 7, left = 7;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_GATE(check, device, &gate);
    CHECK_TRY(told_make(check, &told));
    CHECK_GATE_PASS(check, &gate, queue);
    CHECK_TRY(async_here(check, queue, &async));
    kept = async;
    CHECK_STATUS(check, vram_async_poll(&async), VRAM_ERR_NOT_READY);
    CHECK_THAT(check, !vram_async_is_ready(&async));
    CHECK_STATUS(check, vram_async_result_get(&async, &result), VRAM_ERR_NOT_READY);
    CHECK_STATUS(check, vram_async_error_get(&async, &error), VRAM_ERR_NOT_READY);
    CHECK_EQUAL(check, result, 7);
    uint64_t before = check_now();
    CHECK_STATUS(check, vram_async_wait(&async, 2000000), VRAM_ERR_TIMEOUT);
    CHECK_THAT(check, check_now() - before >= 2000000);
    CHECK_OK(check, vram_async_then(&async, tell, told));
    CHECK_OK(check, vram_async_poll_all(device->device, &left));
    CHECK_EQUAL(check, left, 1);
    CHECK_EQUAL(check, told->times, 0);
    check_gate_open(&gate);
    CHECK_OK(check, vram_async_wait(&async, CHECK_DEADLINE_NS));
    CHECK_EQUAL(check, told->times, 1);
    CHECK_THAT(check, told->status == VRAM_OK);
    CHECK_OK(check, vram_async_wait(&kept, 0)); /* copies are as good */
    CHECK_EQUAL(check, told->times, 1);
    return true;
}

/* Who never asks is told at the end of the queue; who gave the handle up, too. */
static bool called_back(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_gate gate;
    struct told *first, *second;
    vram_async async, ended;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_GATE(check, device, &gate);
    CHECK_TRY(told_make(check, &first));
    CHECK_TRY(told_make(check, &second));
    CHECK_GATE_PASS(check, &gate, queue);
    CHECK_TRY(async_here(check, queue, &async));
    CHECK_TRY(async_here(check, queue, &ended));
    CHECK_OK(check, vram_async_then(&async, tell, first));
    CHECK_OK(check, vram_async_then(&ended, tell, second));
    vram_async_end(&ended);
    vram_async_end(&ended);
    CHECK_EQUAL(check, first->times + second->times, 0);
    check_gate_open(&gate);
    vram_queue_destroy(queue);
    CHECK_EQUAL(check, first->times, 1);
    CHECK_EQUAL(check, second->times, 1);
    CHECK_OK(check, vram_async_poll(&async));
    return true;
}

/* Handles that are thrown away cost nothing that lasts. */
static bool forgotten(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_async async;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_TRY(async_here(check, queue, &async));
    CHECK_WAIT(check, queue);
    uint64_t before = vram_host_bytes(), most = 0;
    for (uint32_t i = 0; i < check_rounds(check, 1000); i++) {
        CHECK_TRY(async_here(check, queue, &async));
        if (i % 50 == 49) {
            CHECK_WAIT(check, queue);
            uint64_t now = vram_host_bytes();
            most = now > before + most ? now - before : most;
        }
    }
    CHECK_THAT(check, most < 1 << 20);
    return true;
}

static bool refused(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_async bad = {{1, 2, 3, 4}}, async;
    vram_async_state state;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STATUS(check, vram_async_poll(&bad), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_async_wait(&bad, 0), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_async_state_get(&bad, &state), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_async_poll(NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_async_then(&bad, tell, NULL), VRAM_ERR_INVALID);
    CHECK_THAT(check, !vram_async_is_ready(&bad));
    vram_point forged = {queue, UINT64_MAX};
    CHECK_STATUS(check, vram_async_of_point(forged, "check", &async), VRAM_ERR_INVALID);
    vram_async_end(&bad);
    CHECK_OK(check, vram_async_poll(&bad));
    return true;
}

const struct check_case check_cases_async[] = {
    {"async.ready",
     "a handle of 32 bytes is ready when its point has passed, however often it is asked", ready},
    {"async.pending",
     "after running work a handle is pending, waits keep their deadlines, and one callback runs",
     pending},
    {"async.called_back", "callbacks come once, at the latest when the queue ends", called_back},
    {"async.forgotten", "handles that are never polled do not accumulate", forgotten},
    {"async.refused", "values that are not handles are refused", refused},
    {NULL, NULL, NULL},
};
