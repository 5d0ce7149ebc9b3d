/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_staging.c: copies of ordinary memory that are large enough to go through the library's own
 * page-locked slots, where a device has any use for those. The cases hold whichever way is taken.
 */
#include "case.h"

#include <string.h>

#define KIB UINT64_C(1024)

/* More than one chunk, and no multiple of anything. */
static uint64_t size_of(const struct check *check) {
    return check->target->quick ? 300 * KIB + 13 : 5000 * KIB + 13;
}

static bool begin(struct check *check, struct check_device **device, vram_queue **queue) {
    CHECK_OPEN(check, device);
    (*device)->unledgered = true; /* slots are memory of the device's, too */
    CHECK_QUEUE(check, *device, queue);
    return true;
}

/* Up and back several times, so that both ways are tried; the bytes around stay as they are. */
static bool through(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    uint8_t *from, *back, *expected;
    vram_async async;
    const uint64_t bytes = size_of(check), edge = 7;

    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, bytes + 2 * edge, &buffer);
    CHECK_TRY(check_host_seeded(check, bytes, 21, &from));
    CHECK_TRY(check_host_seeded(check, bytes + 2 * edge, 22, &back));
    CHECK_TRY(check_host_seeded(check, bytes + 2 * edge, 22, &expected));
    for (uint32_t i = 0; i < check_rounds(check, 8); i++) {
        check_note(check, "round %u", i);
        check_seed(from, bytes, 30 + i);
        CHECK_OK(check, vram_transfer_upload(queue, buffer.addr + edge, from, bytes, NULL, NULL));
        memcpy(buffer.model + edge, from, bytes);
        CHECK_OK(check, vram_transfer_download(queue, back + edge, buffer.addr + edge, bytes, NULL,
                                               &async));
        CHECK_OK(check, vram_async_wait(&async, CHECK_DEADLINE_NS));
        memcpy(expected + edge, from, bytes);
        CHECK_SAME(check, back, expected, bytes + 2 * edge);
    }
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* What is given to the queue before and behind it comes before and behind it on the device; its
   source is the program's again when the handle is ready. */
static bool order(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    uint8_t *from;
    vram_async async;
    const uint64_t bytes = size_of(check), filled = 100 * KIB;

    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, bytes, &buffer);
    CHECK_TRY(check_host_seeded(check, bytes, 23, &from));
    for (uint32_t i = 0; i < check_rounds(check, 4); i++) {
        check_note(check, "round %u", i);
        check_seed(from, bytes, 40 + i);
        memcpy(buffer.model, from, bytes);
        CHECK_OK(check, vram_queue_fill(queue, buffer.addr, 0x11, 1, bytes));
        CHECK_OK(check, vram_transfer_upload(queue, buffer.addr, from, bytes, NULL, &async));
        CHECK_FILL(check, &buffer, 4096, 0x77, 1, filled);
        CHECK_OK(check, vram_async_wait(&async, CHECK_DEADLINE_NS));
        memset(from, 0xEE, bytes);
        CHECK_VERIFY(check, &buffer);
    }
    return true;
}

/* Two downloads at once end each with its own bytes, whichever is waited for first. */
static bool together(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer one, two;
    uint8_t *first, *second;
    vram_async asyncs[2];
    const uint64_t bytes = size_of(check);

    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, bytes, &one);
    CHECK_BUFFER(check, device, queue, bytes, &two);
    CHECK_TRY(check_host_seeded(check, bytes, 24, &first));
    CHECK_TRY(check_host_seeded(check, bytes, 25, &second));
    CHECK_OK(check, vram_transfer_download(queue, first, one.addr, bytes, NULL, &asyncs[0]));
    vram_status status = vram_transfer_download(queue, second, two.addr, bytes, NULL, &asyncs[1]);
    if (status == VRAM_OK) {
        status = vram_async_wait(&asyncs[1], CHECK_DEADLINE_NS);
    }
    vram_status other = vram_async_wait(&asyncs[0], CHECK_DEADLINE_NS);
    CHECK_OK(check, status);
    CHECK_OK(check, other);
    CHECK_SAME(check, second, two.model, bytes);
    CHECK_SAME(check, first, one.model, bytes);
    return true;
}

/* Slots that nobody uses are given back on request, what was given back is counted, and copies go
   on. */
static bool given_back(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    vram_pinned_info before = {.size = sizeof before}, after = {.size = sizeof after};
    uint8_t *from;
    uint64_t released = CHECK_CANARY;
    const uint64_t bytes = size_of(check);

    CHECK_TRY(begin(check, &device, &queue));
    CHECK_BUFFER(check, device, queue, bytes, &buffer);
    CHECK_TRY(check_host_seeded(check, bytes, 26, &from));
    for (uint32_t i = 0; i < 2; i++) {
        check_seed(from, bytes, 50 + i);
        memcpy(buffer.model, from, bytes);
        CHECK_OK(check, vram_transfer_upload(queue, buffer.addr, from, bytes, NULL, NULL));
        CHECK_WAIT(check, queue);
        CHECK_OK(check, vram_pinned_info_get(device->device, &before));
        CHECK_OK(check, vram_device_trim(device->device, CHECK_TRIM(.flags = VRAM_TRIM_PINNED),
                                         &released));
        CHECK_OK(check, vram_pinned_info_get(device->device, &after));
        CHECK_THAT(check, before.slots <= before.slots_most && after.slots <= before.slots);
        CHECK_EQUAL(check, released, (before.slots - after.slots) * before.slot_bytes);
        CHECK_VERIFY(check, &buffer);
    }
    return true;
}

#define IDLE_TEXT "20ms"
#define IDLE_NS   UINT64_C(20000000)

/* Drivers wait for kernels when they take page-locked memory back. Whoever did so here would come
   back when the gate has given up, and its queue would have nothing to do. */
static bool beside_a_kernel(struct check *check) {
    struct check_device *device;
    vram_queue *queue, *listening, *third;
    struct check_buffer buffer;
    struct check_gate gate;
    uint8_t *from;
    uint64_t released;
    const uint64_t bytes = size_of(check);

    CHECK_TRY(begin(check, &device, &queue));
    CHECK_QUEUE(check, device, &listening);
    CHECK_QUEUE(check, device, &third);
    CHECK_BUFFER(check, device, queue, bytes, &buffer);
    CHECK_TRY(check_host_seeded(check, bytes, 27, &from));
    CHECK_GATE(check, device, &gate);
    CHECK_GATE_PASS(check, &gate, listening);
    for (uint32_t i = 0; i < 2; i++) {
        check_note(check, "round %u", i);
        check_seed(from, bytes, 60 + i);
        memcpy(buffer.model, from, bytes);
        CHECK_OK(check, vram_transfer_upload(queue, buffer.addr, from, bytes, NULL, NULL));
        CHECK_WAIT(check, queue);
        check_sleep(3 * IDLE_NS);
        CHECK_OK(check, vram_device_trim(device->device, CHECK_TRIM(.flags = VRAM_TRIM_PINNED),
                                         &released));
    }
    /* Last, since two kernels that stay leave no worker for the copies where a device is two
       processors. */
    CHECK_GATE_PASS(check, &gate, third);
    CHECK_STATUS(check, vram_queue_poll(listening), VRAM_ERR_NOT_READY);
    check_gate_open(&gate);
    CHECK_WAIT(check, listening);
    CHECK_WAIT(check, third);
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Slots go back soon, so that their time comes within the case. */
static bool beside(struct check *check) {
    char text[64];
    CHECK_OK(check, vram_option_get("staging_idle", text, sizeof text, NULL));
    CHECK_OK(check, vram_option_set("staging_idle", IDLE_TEXT));
    bool held = beside_a_kernel(check);
    vram_option_set("staging_idle", text);
    return held;
}

const struct check_case check_cases_staging[] = {
    {"staging.through", "large copies of ordinary memory arrive complete, and write nothing else",
     through},
    {"staging.order",
     "a large upload keeps the queue's order, and its source is free when it is ready", order},
    {"staging.together", "of two downloads at once each gets its own bytes", together},
    {"staging.given_back", "idle slots are released on request, and copies still work", given_back},
    {"staging.beside", "copies, idle slots and launches do not wait for a running kernel", beside},
    {NULL, NULL, NULL},
};
