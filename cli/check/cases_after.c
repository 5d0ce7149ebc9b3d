/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_after.c: one queue waits for a point of another, on the device.
 *
 * Producers write slowly and consumers read at once, so that a wait that is dropped shows as old
 * contents. Where kernels run beside the host a gate makes that certain instead of likely.
 */
#include "case.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* Later work of `later` starts behind everything submitted to `earlier` so far. */
static bool follow(struct check *check, vram_queue *later, vram_queue *earlier) {
    vram_point point;
    CHECK_OK(check, vram_queue_mark(earlier, &point));
    CHECK_OK(check, vram_queue_after(later, point));
    return true;
}

static uint64_t block_bytes(const struct check *check) {
    return check->target->quick ? 4096 : MIB / 4;
}

/* The consumer takes every value once, and the producer overwrites none before it was taken. */
static bool producer_consumer(struct check *check) {
    struct check_device *device;
    vram_queue *producer, *consumer;
    vram_addr shared, taken;
    uint8_t *found, *expected;
    uint64_t bytes = block_bytes(check);
    uint32_t rounds = check_rounds(check, 40);

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &producer);
    CHECK_QUEUE(check, device, &consumer);
    CHECK_ALLOC(check, device, bytes, &shared);
    CHECK_ALLOC(check, device, rounds * bytes, &taken);
    CHECK_TRY(check_host_seeded(check, rounds * bytes, 0, &found));
    CHECK_TRY(check_host_seeded(check, rounds * bytes, 0, &expected));
    for (uint32_t i = 0; i < rounds; i++) {
        CHECK_OK(check, vram_queue_fill(producer, shared, 0xFF, 1, bytes)); /* takes its time */
        CHECK_OK(check, vram_queue_fill(producer, shared, i + 1, 1, bytes));
        CHECK_TRY(follow(check, consumer, producer));
        CHECK_OK(check, vram_queue_copy(consumer, taken + i * bytes, shared, bytes));
        CHECK_TRY(follow(check, producer, consumer));
        memset(expected + i * bytes, (int)(i + 1), bytes);
    }
    CHECK_OK(check, vram_queue_download(consumer, found, taken, rounds * bytes));
    CHECK_WAIT(check, consumer);
    CHECK_SAME(check, found, expected, rounds * bytes);
    return true;
}

/* While the gate is shut the copy cannot have happened, or it did not wait. */
static bool gated(struct check *check) {
    struct check_device *device;
    vram_queue *producer, *consumer;
    struct check_gate gate;
    vram_addr addr;
    vram_point point;
    uint8_t *found, *old, *fresh;

    CHECK_OPEN(check, &device);
    CHECK_GATE(check, device, &gate);
    CHECK_QUEUE(check, device, &producer);
    CHECK_QUEUE(check, device, &consumer);
    CHECK_ALLOC(check, device, 4096, &addr);
    CHECK_TRY(check_host_seeded(check, 4096, 1, &found));
    CHECK_TRY(check_host_seeded(check, 4096, 1, &old));
    CHECK_TRY(check_host_seeded(check, 4096, 1, &fresh));
    memset(fresh, 0x66, 4096);
    if (check_has(check, VRAM_CAP_PINNED)) {
        /* Drivers may make the host wait in a copy to pageable memory: pinned memory it is. */
        vram_addr pinned;
        CHECK_ALLOC_KIND(check, device, 4096, VRAM_MEMORY_PINNED, &pinned);
        found = (uint8_t *)(uintptr_t)pinned;
        memcpy(found, old, 4096);
    }
    CHECK_GATE_PASS(check, &gate, producer);
    CHECK_OK(check, vram_queue_fill(producer, addr, 0x66, 1, 4096));
    CHECK_TRY(follow(check, consumer, producer));
    CHECK_OK(check, vram_queue_download(consumer, found, addr, 4096));
    CHECK_OK(check, vram_queue_mark(consumer, &point));
    CHECK_STATUS(check, vram_point_wait(point, 20000000), VRAM_ERR_TIMEOUT);
    CHECK_SAME(check, found, old, 4096); /* nothing came through yet */
    check_gate_open(&gate);
    CHECK_OK(check, vram_point_wait(point, CHECK_DEADLINE_NS));
    CHECK_SAME(check, found, fresh, 4096);
    return true;
}

enum { PRODUCERS = 8 };

/* The consumer reads once for all, so a single wait that is dropped shows. */
static bool fan_in(struct check *check) {
    struct check_device *device;
    vram_queue *producers[PRODUCERS], *consumer;
    vram_addr addr;
    uint8_t *found, *expected;
    uint64_t bytes = block_bytes(check);

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &consumer);
    CHECK_ALLOC(check, device, PRODUCERS * bytes, &addr);
    CHECK_TRY(check_host_seeded(check, PRODUCERS * bytes, 0, &found));
    CHECK_TRY(check_host_seeded(check, PRODUCERS * bytes, 0, &expected));
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        CHECK_QUEUE(check, device, &producers[i]);
        CHECK_OK(check, vram_queue_fill(producers[i], addr + i * bytes, 0xFF, 1, bytes));
        CHECK_OK(check, vram_queue_fill(producers[i], addr + i * bytes, i, 1, bytes));
        CHECK_TRY(follow(check, consumer, producers[i]));
        memset(expected + i * bytes, (int)i, bytes);
    }
    CHECK_OK(check, vram_queue_download(consumer, found, addr, PRODUCERS * bytes));
    CHECK_WAIT(check, consumer);
    CHECK_SAME(check, found, expected, PRODUCERS * bytes);
    return true;
}

enum { LINKS = 6 };

/* One block goes through a ring of queues; the last holds what the first wrote. */
static bool chain(struct check *check) {
    struct check_device *device;
    vram_queue *queues[LINKS];
    vram_addr blocks[LINKS];
    uint8_t *start, *found;
    uint64_t bytes = block_bytes(check);

    CHECK_OPEN(check, &device);
    CHECK_TRY(check_host_seeded(check, bytes, 77, &start));
    CHECK_TRY(check_host_seeded(check, bytes, 0, &found));
    for (uint32_t i = 0; i < LINKS; i++) {
        CHECK_QUEUE(check, device, &queues[i]);
        CHECK_ALLOC(check, device, bytes, &blocks[i]);
        CHECK_OK(check, vram_queue_fill(queues[i], blocks[i], i, 1, bytes));
    }
    CHECK_OK(check, vram_queue_upload(queues[0], blocks[0], start, bytes));
    for (uint32_t i = 1; i < LINKS; i++) {
        CHECK_TRY(follow(check, queues[i], queues[i - 1]));
        CHECK_OK(check, vram_queue_copy(queues[i], blocks[i], blocks[i - 1], bytes));
    }
    CHECK_OK(check, vram_queue_download(queues[LINKS - 1], found, blocks[LINKS - 1], bytes));
    CHECK_WAIT(check, queues[LINKS - 1]);
    CHECK_SAME(check, found, start, bytes);
    return true;
}

/* Waiting for oneself, for the past, and twice for the same are all allowed. */
static bool trivial(struct check *check) {
    struct check_device *device;
    vram_queue *queue, *other;
    struct check_buffer buffer;
    vram_point own, past;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_QUEUE(check, device, &other);
    CHECK_BUFFER(check, device, queue, 20000, &buffer);
    CHECK_OK(check, vram_queue_mark(queue, &own));
    CHECK_OK(check, vram_queue_after(queue, own));
    CHECK_OK(check, vram_queue_mark(other, &past));
    CHECK_OK(check, vram_point_wait(past, CHECK_DEADLINE_NS));
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_OK(check, vram_queue_after(queue, past));
        CHECK_OK(check, vram_queue_after(queue, own));
    }
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* The queue waited for ends while the wait may still be pending. */
static bool source_destroyed(struct check *check) {
    struct check_device *device;
    uint64_t bytes = block_bytes(check);

    CHECK_OPEN(check, &device);
    for (uint32_t round = 0; round < check_rounds(check, 20); round++) {
        vram_queue *producer, *consumer;
        vram_addr addr;
        uint8_t *found, *expected;
        check_note(check, "round %u", round);
        CHECK_QUEUE(check, device, &producer);
        CHECK_QUEUE(check, device, &consumer);
        CHECK_ALLOC(check, device, bytes, &addr);
        CHECK_TRY(check_host_seeded(check, bytes, 0, &found));
        CHECK_TRY(check_host_seeded(check, bytes, 0, &expected));
        memset(expected, 0x11, bytes);
        CHECK_OK(check, vram_queue_fill(producer, addr, 0x11, 1, bytes));
        CHECK_TRY(follow(check, consumer, producer));
        CHECK_OK(check, vram_queue_download(consumer, found, addr, bytes));
        vram_queue_destroy(producer);
        CHECK_WAIT(check, consumer);
        CHECK_SAME(check, found, expected, bytes);
        vram_queue_destroy(consumer);
        CHECK_FREE(check, device, addr);
    }
    return true;
}

const struct check_case check_cases_after[] = {
    {"after.producer_consumer", "two queues hand a block back and forth and no value is lost",
     producer_consumer},
    {"after.gated", "a queue does not start before the point it waits for", gated},
    {"after.fan_in", "one queue waits for many", fan_in},
    {"after.chain", "data goes through a chain of queues in order", chain},
    {"after.trivial", "waiting for the same queue, for a passed point or twice is harmless",
     trivial},
    {"after.source_destroyed", "a wait outlives the queue it waits for", source_destroyed},
    {NULL, NULL, NULL},
};
