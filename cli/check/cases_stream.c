/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_stream.c: sets of streams: queues that are made, waited for and ended together.
 */
#include "case.h"

#include <string.h>

enum { STREAMS = 4, BLOCK_BYTES = 16384 };

static bool get(struct check *check, vram_stream_set *set, uint32_t index, vram_queue **queue) {
    CHECK_OK(check, vram_stream_set_get(set, index, queue));
    return true;
}

/* The three of the default, with their names, one after the other in turn. */
static bool three(struct check *check) {
    static const char *const names[] = {"compute", "memory", "analysis"};
    struct check_device *device;
    vram_stream_set *set;
    vram_queue *queues[VRAM_STREAM_COUNT], *found;
    vram_stream_info info = {.size = sizeof info};

    CHECK_OPEN(check, &device);
    CHECK_OK(check, vram_stream_set_create(device->device, NULL, &set));
    for (uint32_t i = 0; i < VRAM_STREAM_COUNT; i++) {
        CHECK_TRY(get(check, set, i, &queues[i]));
        CHECK_THAT(check, i == 0 || queues[i] != queues[i - 1]);
        CHECK_THAT(check, i < 2 || queues[i] != queues[0]);
        CHECK_OK(check, vram_stream_set_find(set, names[i], &found));
        CHECK_THAT(check, found == queues[i]);
        CHECK_OK(check, vram_stream_info_get(set, i, &info));
        CHECK_THAT(check, strcmp(info.name, names[i]) == 0 && info.queue == found);
    }
    for (uint32_t i = 0; i < 7; i++) {
        CHECK_OK(check, vram_stream_set_next(set, &found));
        CHECK_THAT(check, found == queues[i % VRAM_STREAM_COUNT]);
    }
    CHECK_STATUS(check, vram_stream_set_get(set, VRAM_STREAM_COUNT, &found), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_stream_set_wait(set, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_stream_set_destroy(set));
    CHECK_STATUS(check, vram_queue_poll(queues[0]), VRAM_ERR_STALE);
    return true;
}

/* While the gate is shut, one stream and the point of the set wait; the other streams continue. */
static bool beside(struct check *check) {
    struct check_device *device;
    struct check_gate gate;
    vram_stream_set *set;
    vram_queue *held, *other;
    vram_point point;

    CHECK_OPEN(check, &device);
    CHECK_GATE(check, device, &gate);
    CHECK_OK(check, vram_stream_set_create(device->device, NULL, &set));
    CHECK_TRY(get(check, set, VRAM_STREAM_MEMORY, &held));
    CHECK_TRY(get(check, set, VRAM_STREAM_ANALYSIS, &other));
    CHECK_GATE_PASS(check, &gate, held);
    CHECK_OK(check, vram_stream_set_mark(set, &point));
    CHECK_OK(check, vram_queue_wait(other, CHECK_DEADLINE_NS));
    CHECK_STATUS(check, vram_stream_set_poll(set), VRAM_ERR_NOT_READY);
    CHECK_STATUS(check, vram_stream_set_wait(set, 10000000), VRAM_ERR_TIMEOUT);
    CHECK_STATUS(check, vram_point_wait(point, 10000000), VRAM_ERR_TIMEOUT);
    check_gate_open(&gate);
    CHECK_OK(check, vram_stream_set_wait(set, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_point_wait(point, CHECK_DEADLINE_NS));
    uint64_t deadline = check_now() + CHECK_DEADLINE_NS;
    vram_status status;
    while ((status = vram_stream_set_poll(set)) == VRAM_ERR_NOT_READY && check_now() < deadline) {
        check_sleep(20000);
    }
    CHECK_OK(check, status);
    return true;
}

/* Every stream writes a part; a queue behind the set's point reads all of it. */
static bool one_point(struct check *check) {
    vram_stream_set_options options = {.size = sizeof options, .count = STREAMS};
    struct check_device *device;
    vram_stream_set *set;
    vram_queue *queue, *reader;
    vram_point point;
    vram_addr addr;
    uint8_t *found, *expected;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &reader);
    CHECK_ALLOC(check, device, STREAMS * BLOCK_BYTES, &addr);
    CHECK_TRY(check_host_seeded(check, STREAMS * BLOCK_BYTES, 0, &found));
    CHECK_TRY(check_host_seeded(check, STREAMS * BLOCK_BYTES, 0, &expected));
    CHECK_OK(check, vram_stream_set_create(device->device, &options, &set));
    for (uint32_t round = 0; round < check_rounds(check, 20); round++) {
        for (uint32_t i = 0; i < STREAMS; i++) {
            memset(expected + i * BLOCK_BYTES, (int)(round * STREAMS + i), BLOCK_BYTES);
            CHECK_OK(check, vram_stream_set_next(set, &queue));
            CHECK_OK(check, vram_queue_fill(queue, addr + i * BLOCK_BYTES, round * STREAMS + i, 1,
                                            BLOCK_BYTES));
        }
        CHECK_OK(check, vram_stream_set_mark(set, &point));
        CHECK_OK(check, vram_queue_after(reader, point));
        CHECK_OK(check, vram_queue_download(reader, found, addr, STREAMS * BLOCK_BYTES));
        CHECK_WAIT(check, reader);
        CHECK_SAME(check, found, expected, STREAMS * BLOCK_BYTES);
        CHECK_OK(check, vram_queue_mark(reader, &point));
        CHECK_OK(check, vram_stream_set_after(set, point));
    }
    return true;
}

/* Streams hand a block on. The transfer queue reads it after a barrier, and no stream writes it
   before that read is complete. */
static bool barrier(struct check *check) {
    struct check_device *device;
    vram_stream_set *set;
    vram_queue *queue, *transfer;
    vram_addr addr;
    uint8_t *found, *expected;

    CHECK_OPEN(check, &device);
    CHECK_ALLOC(check, device, BLOCK_BYTES, &addr);
    CHECK_TRY(check_host_seeded(check, BLOCK_BYTES, 0, &found));
    CHECK_TRY(check_host_seeded(check, BLOCK_BYTES, 0, &expected));
    CHECK_OK(check, vram_stream_set_create(device->device, NULL, &set));
    CHECK_OK(check, vram_stream_set_transfer(set, &transfer));
    for (uint32_t round = 0; round < check_rounds(check, 20); round++) {
        for (uint32_t i = 0; i < VRAM_STREAM_COUNT; i++) {
            CHECK_TRY(get(check, set, i, &queue));
            CHECK_OK(check, vram_queue_fill(queue, addr, round * 3 + i, 1, BLOCK_BYTES));
            CHECK_OK(check, vram_stream_set_order(set, i, (i + 1) % VRAM_STREAM_COUNT));
        }
        memset(expected, (int)(round * 3 + 2), BLOCK_BYTES);
        CHECK_OK(check, vram_stream_set_barrier(set));
        CHECK_OK(check, vram_queue_download(transfer, found, addr, BLOCK_BYTES));
        CHECK_OK(check, vram_stream_set_barrier(set));
        CHECK_TRY(get(check, set, 0, &queue));
        CHECK_OK(check, vram_queue_fill(queue, addr, 0xEE, 1, BLOCK_BYTES));
        CHECK_OK(check, vram_stream_set_wait(set, CHECK_DEADLINE_NS));
        CHECK_SAME(check, found, expected, BLOCK_BYTES);
    }
    return true;
}

/* --------------------------------------------------------- handles that are none */

static bool refuses(struct check *check, void *bad) {
    vram_stream_set *set = bad;
    vram_stream_info info = {.size = sizeof info};
    vram_point point = {NULL, 0};
    vram_queue *queue = NULL;

    CHECK_REFUSED(check, vram_stream_set_get(set, 0, &queue));
    CHECK_REFUSED(check, vram_stream_set_find(set, "compute", &queue));
    CHECK_REFUSED(check, vram_stream_set_next(set, &queue));
    CHECK_REFUSED(check, vram_stream_set_transfer(set, &queue));
    CHECK_REFUSED(check, vram_stream_info_get(set, 0, &info));
    CHECK_REFUSED(check, vram_stream_set_poll(set));
    CHECK_REFUSED(check, vram_stream_set_wait(set, 0));
    CHECK_REFUSED(check, vram_stream_set_mark(set, &point));
    CHECK_REFUSED(check, vram_stream_set_sync(set, &(vram_async){{0}}));
    CHECK_REFUSED(check, vram_stream_set_order(set, 0, 1));
    CHECK_REFUSED(check, vram_stream_set_after(set, point));
    CHECK_REFUSED(check, vram_stream_set_barrier(set));
    CHECK_THAT(check, queue == NULL);
    CHECK_EQUAL(check, vram_stream_set_destroy(set) == VRAM_OK, set == NULL);
    return true;
}

static bool handles(struct check *check) {
    struct check_device *device;
    vram_stream_set *set, *ended;

    CHECK_TRY(refuses(check, NULL));
    CHECK_TRY(refuses(check, (void *)(uintptr_t)4096));
    CHECK_REFUSED(check, vram_stream_set_create(NULL, NULL, &set));
    CHECK_OPEN(check, &device);
    CHECK_OK(check, vram_stream_set_create(device->device, NULL, &ended));
    CHECK_OK(check, vram_stream_set_destroy(ended));
    CHECK_TRY(refuses(check, ended));
    CHECK_TRY(refuses(check, device->device));
    CHECK_REFUSED(check, vram_stream_set_create((vram_device *)(void *)ended, NULL, &set));
    CHECK_OK(check, vram_stream_set_create(device->device, NULL, &set));
    check_close(device);
    CHECK_TRY(refuses(check, set)); /* it ended with its device */
    return true;
}

const struct check_case check_cases_stream[] = {
    {"stream.three", "a set has three distinct queues, by place, by name and in turn", three},
    {"stream.beside", "a blocked stream does not block another, and no wait is endless", beside},
    {"stream.one_point", "the point of a set lies after the work of all its streams", one_point},
    {"stream.barrier", "streams wait for each other on the device", barrier},
    {"stream.handles", "invalid handles of sets are refused", handles},
    {NULL, NULL, NULL},
};
