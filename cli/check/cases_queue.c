/* SPDX-License-Identifier: Apache-2.0 */
/* cases_queue.c: queues: order within one, independence of several, adoption, their end. */
#include "case.h"

#define MIB (UINT64_C(1) << 20)

enum { QUEUES_MAX = 32 };

/* Programs make a queue for every thread and every stage. */
static bool many(struct check *check) {
    struct check_device *device;
    vram_queue *queues[QUEUES_MAX];
    struct check_buffer buffers[QUEUES_MAX];
    uint32_t count = check_rounds(check, QUEUES_MAX);

    CHECK_OPEN(check, &device);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_QUEUE(check, device, &queues[i]);
        CHECK_BUFFER(check, device, queues[i], 4096 + i, &buffers[i]);
        CHECK_FILL(check, &buffers[i], i, i, 1, 1000);
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK_VERIFY(check, &buffers[i]);
    }
    for (uint32_t i = 0; i < count; i += 2) {
        vram_queue_destroy(queues[i]);
        CHECK_STATUS(check, vram_queue_poll(queues[i]), VRAM_ERR_STALE);
    }
    for (uint32_t i = 1; i < count; i += 2) {
        CHECK_VERIFY(check, &buffers[i]);
    }
    return true;
}

/* Each step reads what the one before wrote, and the first is overwritten at once. */
static bool order(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer a, b, c;
    uint64_t bytes = check->target->quick ? 4096 : MIB / 2;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, bytes, &a);
    CHECK_BUFFER(check, device, queue, bytes, &b);
    CHECK_BUFFER(check, device, queue, 32 * bytes, &c);
    for (uint32_t round = 0; round < check_rounds(check, 32); round++) {
        CHECK_UPLOAD(check, &a, 0, bytes, round);
        CHECK_COPY(check, &b, 0, &a, 0, bytes);
        CHECK_COPY(check, &c, round * bytes, &b, 0, bytes);
        CHECK_FILL(check, &a, 0, round, 1, bytes);
        CHECK_FILL(check, &b, 0, ~round, 4, bytes);
    }
    CHECK_VERIFY(check, &c);
    CHECK_VERIFY(check, &b);
    CHECK_VERIFY(check, &a);
    return true;
}

/* Bounded like every wait, so that a poll that never says done is a failure and not a hang. */
static bool poll_until_done(struct check *check, vram_queue *queue) {
    uint64_t deadline = check_now() + CHECK_DEADLINE_NS;
    vram_status status;
    while ((status = vram_queue_poll(queue)) == VRAM_ERR_NOT_READY && check_now() < deadline) {
        check_sleep(20000);
    }
    CHECK_OK(check, status);
    return true;
}

/* Shown with work that hangs until it is let go, so nothing depends on speed. */
static bool independent(struct check *check) {
    struct check_device *device;
    vram_queue *held, *going;
    struct check_gate gate;
    struct check_buffer buffer;

    CHECK_OPEN(check, &device);
    CHECK_GATE(check, device, &gate);
    CHECK_QUEUE(check, device, &held);
    CHECK_QUEUE(check, device, &going);
    CHECK_BUFFER(check, device, going, 100000, &buffer); /* drivers may wait when they allocate */
    CHECK_GATE_PASS(check, &gate, held);
    CHECK_FILL(check, &buffer, 1000, 0x77, 1, 50000);
    CHECK_UPLOAD(check, &buffer, 60000, 30000, 7);
    CHECK_VERIFY(check, &buffer); /* waits for `going` alone */
    CHECK_STATUS(check, vram_queue_poll(held), VRAM_ERR_NOT_READY);
    CHECK_STATUS(check, vram_queue_wait(held, 1000000), VRAM_ERR_TIMEOUT);
    check_gate_open(&gate);
    CHECK_WAIT(check, held);
    return poll_until_done(check, held);
}

/* The driver says done before the last write lands: a mistake that only contents show. */
static bool poll(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    uint8_t *found;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_TRY(poll_until_done(check, queue)); /* nothing submitted yet */
    for (uint32_t round = 0; round < check_rounds(check, 20); round++) {
        CHECK_BUFFER(check, device, queue, 65536, &buffer);
        CHECK_TRY(check_host_seeded(check, 65536, 0, &found));
        CHECK_OK(check, vram_queue_download(queue, found, buffer.addr, buffer.bytes));
        CHECK_TRY(poll_until_done(check, queue));
        CHECK_SAME(check, found, buffer.model, buffer.bytes);
        CHECK_FREE(check, device, buffer.addr);
    }
    return true;
}

/* What the driver does not know it clamps; a priority is a wish, never a reason to fail. */
static bool priorities(struct check *check) {
    static const int32_t list[] = {0, 1, -1, 100, INT32_MAX, INT32_MIN};
    struct check_device *device;

    CHECK_OPEN(check, &device);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        vram_queue_options options = {.size = sizeof options, .priority = list[i]};
        vram_queue *queue;
        struct check_buffer buffer;
        check_note(check, "priority %d", (int)list[i]);
        CHECK_OK(check, vram_queue_create(device->device, &options, &queue));
        CHECK_BUFFER(check, device, queue, 500, &buffer);
        CHECK_VERIFY(check, &buffer);
        vram_queue_destroy(queue);
    }
    vram_queue_options unsized = {.size = 0};
    vram_queue *canary = (vram_queue *)(uintptr_t)CHECK_CANARY, *queue = canary;
    CHECK_STATUS(check, vram_queue_create(device->device, &unsized, &queue), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_create(device->device, NULL, NULL), VRAM_ERR_INVALID);
    CHECK_THAT(check, queue == canary);
    return true;
}

/* The work of a destroyed queue is done, not dropped. */
static bool destroy_with_work(struct check *check) {
    struct check_device *device;
    vram_queue *queue, *reader;
    struct check_buffer from, to;
    uint64_t bytes = check->target->quick ? 65536 : 8 * MIB;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_QUEUE(check, device, &reader);
    CHECK_BUFFER(check, device, queue, bytes, &from);
    CHECK_BUFFER(check, device, queue, bytes, &to);
    for (uint32_t round = 0; round < 8; round++) {
        CHECK_FILL(check, &from, 0, round * 77, 2, bytes);
        CHECK_COPY(check, &to, 0, &from, 0, bytes);
    }
    vram_queue_destroy(queue);
    CHECK_STATUS(check, vram_queue_wait(queue, 0), VRAM_ERR_STALE);
    to.queue = from.queue = reader;
    CHECK_VERIFY(check, &to);
    CHECK_VERIFY(check, &from);
    vram_queue_destroy(queue); /* again, and nothing at all */
    vram_queue_destroy(NULL);
    return true;
}

/* The native queue of one of our own stands in for a stream that the program made itself. */
static bool adopt(struct check *check) {
    struct check_device *device;
    vram_queue *made, *adopted;
    void *native = NULL;
    struct check_buffer buffer;
    vram_point point;

    CHECK_NEEDS(check, VRAM_CAP_ADOPT);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &made);
    CHECK_OK(check, vram_queue_native(made, &native));
    CHECK_OK(check, vram_queue_adopt(device->device, native, &adopted));
    CHECK_THAT(check, adopted != made);
    CHECK_BUFFER(check, device, adopted, 50000, &buffer);
    CHECK_OK(check, vram_queue_mark(adopted, &point));
    CHECK_OK(check, vram_point_wait(point, CHECK_DEADLINE_NS));
    CHECK_VERIFY(check, &buffer);
    CHECK_OK(check, vram_queue_end(adopted));
    CHECK_OK(check, vram_point_poll(point));
    CHECK_STATUS(check, vram_queue_end(adopted), VRAM_ERR_STALE);
    buffer.queue = made; /* the native queue is as alive as before */
    CHECK_FILL(check, &buffer, 0, 9, 1, 50000);
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Ending is for what was adopted, destroying for what was created: never one for the other. */
static bool end_of_own(struct check *check) {
    struct check_device *device;
    vram_queue *queue, *canary = (vram_queue *)(uintptr_t)CHECK_CANARY, *none = canary;
    struct check_buffer buffer;
    void *native = &native;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STATUS(check, vram_queue_end(queue), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_queue_native(queue, &native));
    CHECK_THAT(check, native != (void *)&native);
    CHECK_STATUS(check, vram_queue_native(queue, NULL), VRAM_ERR_INVALID);
    if (!check_has(check, VRAM_CAP_ADOPT)) {
        CHECK_STATUS(check, vram_queue_adopt(device->device, NULL, &none), VRAM_ERR_UNSUPPORTED);
        CHECK_THAT(check, none == canary);
    }
    CHECK_BUFFER(check, device, queue, 3000, &buffer); /* it is still a queue */
    CHECK_VERIFY(check, &buffer);
    return true;
}

const struct check_case check_cases_queue[] = {
    {"queue.many", "many queues work at once and end in any order", many},
    {"queue.order", "work on one queue takes effect in the order it was submitted", order},
    {"queue.independent", "a queue whose work hangs does not hold up another", independent},
    {"queue.poll", "when a poll reports completion, the results are there", poll},
    {"queue.priorities", "any priority is accepted and the queue works", priorities},
    {"queue.destroy_with_work", "destroying a queue finishes its work", destroy_with_work},
    {"queue.adopt", "an adopted native queue works, ends, and still belongs to the program", adopt},
    {"queue.end_of_own", "only adopted queues are ended, and only where adoption exists",
     end_of_own},
    {NULL, NULL, NULL},
};
