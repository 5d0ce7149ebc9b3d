/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_transfer.c: uploads, downloads and copies. Buffers carry a model of their contents and are
 * compared whole, so a byte too many or in the wrong place is found anywhere.
 */
#include "case.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)

static const uint64_t lengths[] = {1, 3, 16, 4095, 4096, 4097, MIB + 1};
static const uint64_t offsets[] = {0, 1, 3, 4095, 4096};

enum {
    LENGTHS = sizeof lengths / sizeof lengths[0],
    OFFSETS = sizeof offsets / sizeof offsets[0],
};

/* A megabyte more than the longest transfer at the farthest offset. */
#define ROOM (2 * MIB)

/* One wait for each length: transfers of all offsets are under way together. */
static bool upload(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    uint32_t count = check->target->quick ? LENGTHS - 1 : LENGTHS;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, check->target->quick ? 16384 : ROOM, &buffer);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < OFFSETS; j++) {
            check_note(check, "%llu bytes at %llu", (unsigned long long)lengths[i],
                       (unsigned long long)offsets[j]);
            CHECK_UPLOAD(check, &buffer, offsets[j], lengths[i], i * OFFSETS + j);
        }
        CHECK_VERIFY(check, &buffer);
    }
    return true;
}

/* The bytes around what is downloaded are the host's, and stay as they are. */
static bool download(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    uint32_t count = check->target->quick ? LENGTHS - 1 : LENGTHS;
    uint64_t room = check->target->quick ? 16384 : ROOM;
    uint8_t *found, *expected;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, room, &buffer);
    CHECK_TRY(check_host_seeded(check, room, 5, &found));
    CHECK_TRY(check_host_seeded(check, room, 5, &expected));
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < OFFSETS; j++) {
            uint64_t from = offsets[j], to = offsets[OFFSETS - 1 - j];
            CHECK_OK(check, vram_queue_download(queue, found + to, buffer.addr + from, lengths[i]));
            memcpy(expected + to, buffer.model + from, lengths[i]);
        }
        CHECK_WAIT(check, queue);
        check_note(check, "%llu bytes", (unsigned long long)lengths[i]);
        CHECK_SAME(check, found, expected, room);
    }
    return true;
}

/* Every pairing of aligned and odd on both sides; drivers have fast paths for some. */
static bool copy(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer from, to;
    uint32_t count = check->target->quick ? LENGTHS - 1 : LENGTHS;
    uint64_t room = check->target->quick ? 16384 : ROOM;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, room, &from);
    CHECK_BUFFER(check, device, queue, room, &to);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < OFFSETS; j++) {
            uint64_t source = offsets[OFFSETS - 1 - j];
            CHECK_COPY(check, &to, offsets[j], &from, source, lengths[i]);
        }
        check_note(check, "%llu bytes", (unsigned long long)lengths[i]);
        CHECK_VERIFY(check, &to);
    }
    CHECK_VERIFY(check, &from);
    return true;
}

/* Drivers differ on overlapping copies, so none of them ever sees one. */
static bool copy_within(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 30000, &buffer);
    vram_addr a = buffer.addr;
    CHECK_STATUS(check, vram_queue_copy(queue, a, a, 100), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_copy(queue, a + 1, a, 100), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_copy(queue, a, a + 1, 100), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_copy(queue, a + 99, a, 100), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_copy(queue, a, a + 99, 100), VRAM_ERR_INVALID);
    CHECK_VERIFY(check, &buffer);
    CHECK_COPY(check, &buffer, 100, &buffer, 0, 100); /* side by side is not overlapping */
    CHECK_COPY(check, &buffer, 200, &buffer, 300, 100);
    CHECK_COPY(check, &buffer, 15000, &buffer, 0, 15000);
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Loops over empty parts end up here. */
static bool no_bytes(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    uint8_t host[4] = {1, 2, 3, 4};

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 1000, &buffer);
    CHECK_OK(check, vram_queue_upload(queue, buffer.addr, host, 0));
    CHECK_OK(check, vram_queue_download(queue, host, buffer.addr, 0));
    CHECK_OK(check, vram_queue_copy(queue, buffer.addr, buffer.addr + 500, 0));
    CHECK_OK(check, vram_queue_fill(queue, buffer.addr, 1, 1, 0));
    CHECK_VERIFY(check, &buffer);
    CHECK_THAT(check, host[0] == 1 && host[3] == 4);
    return true;
}

/* Lengths that wrap around the end of the address space must not come out small. */
static bool past_end(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    uint8_t *host;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    uint64_t bytes = 2 * check_granule(device);
    CHECK_BUFFER(check, device, queue, bytes, &buffer);
    CHECK_TRY(check_host_seeded(check, bytes + 16, 3, &host));
    const struct {
        uint64_t offset, bytes;
    } bad[] = {{0, bytes + 1},     {1, bytes},          {bytes - 1, 2},
               {bytes / 2, bytes}, {0, UINT64_MAX},     {bytes - 1, UINT64_MAX},
               {1, UINT64_MAX},    {8, UINT64_MAX - 7}, {0, UINT64_C(1) << 63}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vram_addr addr = buffer.addr + bad[i].offset;
        check_note(check, "%llu bytes at %llu", (unsigned long long)bad[i].bytes,
                   (unsigned long long)bad[i].offset);
        CHECK_STATUS(check, vram_queue_upload(queue, addr, host, bad[i].bytes), VRAM_ERR_INVALID);
        CHECK_STATUS(check, vram_queue_download(queue, host, addr, bad[i].bytes), VRAM_ERR_INVALID);
        CHECK_STATUS(check, vram_queue_fill(queue, addr, 0, 1, bad[i].bytes), VRAM_ERR_INVALID);
        CHECK_STATUS(check, vram_queue_copy(queue, addr, buffer.addr, bad[i].bytes),
                     VRAM_ERR_INVALID);
    }
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Among them a block that was freed a moment ago, and memory of the host. */
static bool not_memory(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    vram_addr freed;
    uint8_t host[16] = {0};

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 100, &buffer);
    CHECK_ALLOC(check, device, 100, &freed);
    CHECK_FREE(check, device, freed);
    const vram_addr bad[] = {0, 1, 4096, freed, UINT64_MAX, UINT64_MAX - 15, (uintptr_t)&buffer};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_note(check, "address 0x%llx", (unsigned long long)bad[i]);
        CHECK_STATUS(check, vram_queue_upload(queue, bad[i], host, 16), VRAM_ERR_INVALID);
        CHECK_STATUS(check, vram_queue_download(queue, host, bad[i], 16), VRAM_ERR_INVALID);
        CHECK_STATUS(check, vram_queue_fill(queue, bad[i], 0, 1, 16), VRAM_ERR_INVALID);
        CHECK_STATUS(check, vram_queue_copy(queue, buffer.addr, bad[i], 16), VRAM_ERR_INVALID);
        CHECK_STATUS(check, vram_queue_copy(queue, bad[i], buffer.addr, 16), VRAM_ERR_INVALID);
    }
    CHECK_STATUS(check, vram_queue_upload(queue, buffer.addr, NULL, 16), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_download(queue, NULL, buffer.addr, 16), VRAM_ERR_INVALID);
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Memory of another handle is another device's memory. */
static bool wrong_device(struct check *check) {
    struct check_device *one, *two;
    vram_queue *queue_one, *queue_two;
    struct check_buffer buffer, own;
    uint8_t host[16] = {0};

    CHECK_OPEN(check, &one);
    CHECK_OPEN(check, &two);
    CHECK_QUEUE(check, one, &queue_one);
    CHECK_QUEUE(check, two, &queue_two);
    CHECK_BUFFER(check, one, queue_one, 100, &buffer);
    CHECK_BUFFER(check, two, queue_two, 100, &own);
    CHECK_STATUS(check, vram_queue_upload(queue_two, buffer.addr, host, 16), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_download(queue_two, host, buffer.addr, 16), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue_two, buffer.addr, 0, 1, 16), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_copy(queue_two, buffer.addr, own.addr, 16), VRAM_ERR_INVALID);
    CHECK_VERIFY(check, &buffer);
    CHECK_VERIFY(check, &own);
    return true;
}

/* Longer than any staging buffer a driver may use, and not a multiple of anything. */
static bool large(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer from, to;
    uint64_t bytes = check->target->quick ? 300000 : 48 * MIB + 13;

    CHECK_OPEN(check, &device);
    if (device->info.memory_bytes.known && bytes > device->info.memory_bytes.value / 8) {
        bytes = device->info.memory_bytes.value / 8 + 13; /* a small device, simulated or limited */
    }
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, bytes, &from);
    CHECK_BUFFER(check, device, queue, bytes, &to);
    CHECK_COPY(check, &to, 0, &from, 0, bytes);
    CHECK_FILL(check, &from, 0, 0, 1, bytes);
    CHECK_VERIFY(check, &to);
    return true;
}

/* More than a driver's ring of commands holds. */
static bool many_small(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    uint32_t count = check_rounds(check, 1000);

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 1000 * 16, &buffer);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_UPLOAD(check, &buffer, i * 16, 16, i);
    }
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Any mixture of operations, against the model. */
static bool random_mix(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer a, b;
    const uint64_t bytes = 50000;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, bytes, &a);
    CHECK_BUFFER(check, device, queue, bytes, &b);
    for (uint32_t i = 0; i < check_rounds(check, 400); i++) {
        uint64_t length = 1 + check_random(check, bytes / 4);
        uint64_t to = check_random(check, bytes - length),
                 from = check_random(check, bytes - length);
        check_note(check, "step %u", i);
        switch (check_random(check, 4)) {
        case 0:
            CHECK_UPLOAD(check, &a, to, length, i);
            break;
        case 1:
            CHECK_FILL(check, &b, to, i, 1, length);
            break;
        case 2:
            CHECK_COPY(check, &a, to, &b, from, length);
            break;
        default:
            CHECK_COPY(check, &b, to, &a, from, length);
        }
        if (i % 100 == 99) {
            CHECK_VERIFY(check, &a);
        }
    }
    CHECK_VERIFY(check, &a);
    CHECK_VERIFY(check, &b);
    return true;
}

const struct check_case check_cases_transfer[] = {
    {"transfer.upload", "uploads of any length and offset write exactly their range", upload},
    {"transfer.download", "downloads of any length and offset read exactly their range", download},
    {"transfer.copy", "copies of any length and offset move exactly their range", copy},
    {"transfer.copy_within", "a block may be copied within itself unless the ranges overlap",
     copy_within},
    {"transfer.no_bytes", "transfers of no bytes do nothing", no_bytes},
    {"transfer.past_end", "ranges that leave their block are refused, and nothing is written",
     past_end},
    {"transfer.not_memory", "addresses without memory and NULL are refused", not_memory},
    {"transfer.wrong_device", "memory of another device handle is out of reach", wrong_device},
    {"transfer.large", "tens of megabytes arrive whole", large},
    {"transfer.many_small", "a thousand small transfers without a wait all arrive", many_small},
    {"transfer.random_mix", "any mixture of operations leaves the contents that a model predicts",
     random_mix},
    {NULL, NULL, NULL},
};
