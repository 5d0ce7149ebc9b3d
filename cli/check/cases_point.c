/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_point.c: points in time: a number that rises, and waits that end.
 *
 * The heart of it: when a point has passed, all work before it has taken effect. It is looked at
 * with one thread, and with several that mark the same queue at once.
 */
#include "case.h"

#include <stdlib.h>
#include <string.h>

/* So that a point can be kept in zeroed memory before anything was marked. */
static bool zero(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_point none = {NULL, 0};

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_OK(check, vram_point_poll(none));
    CHECK_OK(check, vram_point_wait(none, 0));
    CHECK_OK(check, vram_point_wait(none, VRAM_TIMEOUT_DEFAULT));
    CHECK_OK(check, vram_queue_after(queue, none));
    return true;
}

/* Memory is reused by comparing these numbers: they must be in order. */
static bool rise(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_point last = {NULL, 0}, point;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    for (uint32_t i = 0; i < check_rounds(check, 200); i++) {
        CHECK_OK(check, vram_queue_mark(queue, &point));
        CHECK_THAT(check, point.queue == queue && point.value > last.value);
        last = point;
    }
    CHECK_OK(check, vram_point_wait(last, CHECK_DEADLINE_NS));
    for (uint64_t value = 1; value <= last.value; value++) {
        CHECK_OK(check, vram_point_poll((vram_point){queue, value})); /* all before it as well */
    }
    return true;
}

/* Effects are there when the point has passed, found by polling or by waiting. */
static bool effects(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    uint8_t *found;
    uint64_t bytes = check->target->quick ? 4096 : UINT64_C(2) << 20;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, bytes, &buffer);
    CHECK_TRY(check_host_seeded(check, bytes, 0, &found));
    for (uint32_t round = 0; round < check_rounds(check, 20); round++) {
        uint64_t deadline = check_now() + CHECK_DEADLINE_NS;
        vram_status status = VRAM_ERR_NOT_READY;
        vram_point point;
        check_note(check, "round %u", round);
        CHECK_FILL(check, &buffer, 0, round * 0x01234567u, 4, bytes);
        CHECK_OK(check, vram_queue_download(queue, found, buffer.addr, bytes));
        CHECK_OK(check, vram_queue_mark(queue, &point));
        while (round % 2 == 0 && status == VRAM_ERR_NOT_READY && check_now() < deadline) {
            status = vram_point_poll(point);
        }
        status = round % 2 == 0 ? status : vram_point_wait(point, CHECK_DEADLINE_NS);
        CHECK_OK(check, status);
        CHECK_SAME(check, found, buffer.model, bytes);
    }
    return true;
}

/* Timeout and success are both right here, anything else is not, nor is a wait that sticks. */
static bool short_waits(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_point point;
    struct check_buffer buffer;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 1000000, &buffer);
    CHECK_OK(check, vram_queue_mark(queue, &point));
    for (uint64_t timeout = 0; timeout < 1000000; timeout = timeout * 10 + 1) {
        vram_status status = vram_point_wait(point, timeout);
        if (status != VRAM_ERR_TIMEOUT) {
            CHECK_OK(check, status);
        }
    }
    CHECK_OK(check, vram_point_wait(point, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_point_wait(point, 0)); /* it has passed: no time is needed */
    CHECK_OK(check, vram_point_poll(point));
    return true;
}

/* With work that certainly hangs: a wait ends at its deadline, not before and not long after. */
static bool deadlines(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_gate gate;
    vram_point point, behind;
    const uint64_t timeout = 30000000;

    CHECK_OPEN(check, &device);
    CHECK_GATE(check, device, &gate);
    CHECK_QUEUE(check, device, &queue);
    CHECK_OK(check, vram_queue_mark(queue, &point));
    CHECK_GATE_PASS(check, &gate, queue);
    CHECK_OK(check, vram_queue_mark(queue, &behind));
    CHECK_OK(check, vram_point_wait(point, CHECK_DEADLINE_NS));
    CHECK_STATUS(check, vram_point_poll(behind), VRAM_ERR_NOT_READY);
    CHECK_STATUS(check, vram_point_wait(behind, 0), VRAM_ERR_TIMEOUT);
    uint64_t start = check_now();
    CHECK_STATUS(check, vram_point_wait(behind, timeout), VRAM_ERR_TIMEOUT);
    uint64_t waited = check_now() - start;
    CHECK_THAT(check, waited >= timeout && waited < CHECK_DEADLINE_NS / 4);
    CHECK_STATUS(check, vram_queue_wait(queue, timeout), VRAM_ERR_TIMEOUT);
    CHECK_OK(check, vram_point_poll(point)); /* what has passed stays passed */
    check_gate_open(&gate);
    CHECK_OK(check, vram_point_wait(behind, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_point_poll(behind));
    return true;
}

/* Polling is done in loops; it would wipe out the record of a true failure each time. */
static bool quiet_poll(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_gate gate;
    vram_point point;

    CHECK_OPEN(check, &device);
    CHECK_GATE(check, device, &gate);
    CHECK_QUEUE(check, device, &queue);
    CHECK_GATE_PASS(check, &gate, queue);
    CHECK_OK(check, vram_queue_mark(queue, &point));
    vram_error_clear();
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_STATUS(check, vram_point_poll(point), VRAM_ERR_NOT_READY);
        CHECK_THAT(check, vram_error_get()->status == VRAM_OK);
    }
    return true;
}

/* Blocks remember the last point that used them, long after the queue is gone. */
static bool destroyed_queue(struct check *check) {
    struct check_device *device;
    vram_queue *queue, *other;
    vram_point point;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_QUEUE(check, device, &other);
    CHECK_OK(check, vram_queue_mark(queue, &point));
    vram_queue_destroy(queue);
    CHECK_OK(check, vram_point_poll(point));
    CHECK_OK(check, vram_point_wait(point, 0));
    CHECK_OK(check, vram_queue_after(other, point));
    CHECK_WAIT(check, other);
    check_close(device);
    CHECK_OK(check, vram_point_poll(point)); /* also when the device is gone */
    return true;
}

/* Points are plain data, so programs can get them wrong. */
static bool made_up(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_point point, canary = {NULL, CHECK_CANARY};

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_OK(check, vram_queue_mark(queue, &point));
    vram_point future = {queue, point.value + 1000};
    vram_point foreign = {(vram_queue *)(uintptr_t)CHECK_CANARY, 1};
    vram_point other_kind = {(vram_queue *)(void *)device->device, 1};
    CHECK_STATUS(check, vram_point_poll(future), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_point_wait(future, 0), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_after(queue, future), VRAM_ERR_INVALID);
    CHECK_REFUSED(check, vram_point_poll(foreign));
    CHECK_REFUSED(check, vram_point_wait(foreign, CHECK_DEADLINE_NS));
    CHECK_REFUSED(check, vram_queue_after(queue, foreign));
    CHECK_REFUSED(check, vram_point_poll(other_kind));
    CHECK_REFUSED(check, vram_point_poll((vram_point){NULL, 5}));
    CHECK_STATUS(check, vram_queue_mark(queue, NULL), VRAM_ERR_INVALID);
    CHECK_REFUSED(check, vram_queue_mark(NULL, &canary));
    CHECK_EQUAL(check, canary.value, CHECK_CANARY);
    CHECK_WAIT(check, queue);
    return true;
}

/* ------------------------------------------- several threads on one queue */

enum { MARKERS = 4, MARKS = 200 };

struct marker {
    vram_queue *queue;
    vram_addr slot;    /* 8 bytes of its own */
    uint64_t *written; /* host words, one for each mark; uploaded and downloaded again */
    uint64_t *read;
    uint64_t values[MARKS];
    uint32_t rounds;
};

/* What was downloaded before the mark must be there once the point has passed; and a point that
   has passed must not come back, whatever the other threads mark meanwhile. */
static bool mark_and_look(struct check *check, void *argument) {
    struct marker *marker = argument;
    for (uint32_t i = 0; i < marker->rounds; i++) {
        vram_point point;
        marker->written[i] = marker->slot + i;
        CHECK_OK(check, vram_queue_upload(marker->queue, marker->slot, &marker->written[i], 8));
        CHECK_OK(check, vram_queue_download(marker->queue, &marker->read[i], marker->slot, 8));
        CHECK_OK(check, vram_queue_mark(marker->queue, &point));
        marker->values[i] = point.value;
        CHECK_THAT(check, i == 0 || marker->values[i - 1] < point.value);
        if (i % 4 == 0) {
            CHECK_OK(check, vram_point_wait(point, CHECK_DEADLINE_NS));
            CHECK_EQUAL(check, marker->read[i], marker->written[i]);
            for (uint32_t look = 0; look < 10; look++) {
                CHECK_OK(check, vram_point_poll(point));
            }
        }
    }
    return true;
}

static int compare_values(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Two marks with one number would let the later one pass with the earlier. */
static bool values_are_unique(struct check *check, const struct marker *markers, uint32_t rounds) {
    uint64_t all[MARKERS * MARKS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < MARKERS; i++) {
        memcpy(all + count, markers[i].values, rounds * sizeof all[0]);
        count += rounds;
    }
    qsort(all, count, sizeof all[0], compare_values);
    for (uint32_t i = 1; i < count; i++) {
        CHECK_THAT(check, all[i - 1] != all[i]);
    }
    return true;
}

static bool shared_queue(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_addr slots;
    void *memory;
    uint32_t rounds = check_rounds(check, MARKS);

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC(check, device, MARKERS * 8, &slots);
    CHECK_TRY(check_host(check, MARKERS * sizeof(struct marker), &memory));
    struct marker *markers = memory;
    CHECK_TRY(check_host(check, MARKERS * 2 * MARKS * sizeof(uint64_t), &memory));
    uint64_t *words = memory;
    for (uint32_t i = 0; i < MARKERS; i++) {
        markers[i].queue = queue;
        markers[i].slot = slots + i * 8;
        markers[i].written = words + i * 2 * MARKS;
        markers[i].read = markers[i].written + MARKS;
        markers[i].rounds = rounds;
    }
    CHECK_TRY(check_threads(check, MARKERS, mark_and_look, markers, sizeof markers[0]));
    CHECK_TRY(values_are_unique(check, markers, rounds));
    CHECK_WAIT(check, queue);
    return true;
}

const struct check_case check_cases_point[] = {
    {"point.zero", "a point of all zeros has passed", zero},
    {"point.rise", "points of a queue rise, and one passed means all before it passed", rise},
    {"point.effects", "when a point has passed, all work before it has taken effect", effects},
    {"point.short_waits", "waits with a zero or short timeout check and return", short_waits},
    {"point.deadlines", "a wait on work that hangs ends at its deadline with a timeout", deadlines},
    {"point.quiet_poll", "a poll that is not ready leaves no error record", quiet_poll},
    {"point.destroyed_queue", "the points of a destroyed queue have passed", destroyed_queue},
    {"point.made_up", "points that no queue made are refused", made_up},
    {"point.shared_queue", "threads may mark one queue at once, and each point is correct",
     shared_queue},
    {NULL, NULL, NULL},
};
