/* SPDX-License-Identifier: Apache-2.0 */
/* cases_fill.c: fills with patterns of 1, 2 and 4 bytes. */
#include "case.h"

static const uint32_t widths[] = {1, 2, 4};

enum { WIDTHS = sizeof widths / sizeof widths[0] };

/* Two fills that overlap, so that order matters too; odd counts leave a tail to get wrong. */
static bool patterns(struct check *check) {
    static const uint64_t counts[] = {1, 3, 1023, 1024, 1025, 65537};
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 300000, &buffer);
    for (uint32_t w = 0; w < WIDTHS; w++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            check_note(check, "%llu times %u bytes", (unsigned long long)counts[i], widths[w]);
            CHECK_FILL(check, &buffer, 0, 0xC0FFEE11u, widths[w], counts[i] * widths[w]);
            CHECK_FILL(check, &buffer, 5 * widths[w], 0x12345678u, widths[w],
                       counts[i] * widths[w]);
            CHECK_VERIFY(check, &buffer);
        }
    }
    return true;
}

/* The bytes right before and right behind are the most likely to suffer. */
static bool edges(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    uint64_t bytes = check_granule(device) < 65536 ? check_granule(device) : 65536;
    CHECK_BUFFER(check, device, queue, bytes, &buffer);
    for (uint64_t length = 1; length <= 33; length++) {
        check_note(check, "%llu bytes", (unsigned long long)length);
        CHECK_FILL(check, &buffer, length * 40, 0xAB, 1, length);
        CHECK_FILL(check, &buffer, bytes - length, (uint32_t)length, 1, length);
        CHECK_FILL(check, &buffer, 0, ~(uint32_t)length, 1, length);
    }
    CHECK_VERIFY(check, &buffer);
    CHECK_FILL(check, &buffer, 0, 0xDEADBEEFu, 4, bytes);
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Some drivers refuse these and some do something else: here all refuse. */
static bool unaligned(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 4096, &buffer);
    vram_addr a = buffer.addr;
    CHECK_STATUS(check, vram_queue_fill(queue, a + 1, 0, 2, 4), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue, a, 0, 2, 3), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue, a + 1, 0, 4, 8), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue, a + 2, 0, 4, 8), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue, a, 0, 4, 6), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue, a, 0, 0, 8), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue, a, 0, 3, 9), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue, a, 0, 8, 8), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue, a, 0, UINT32_MAX, 8), VRAM_ERR_INVALID);
    CHECK_VERIFY(check, &buffer);
    return true;
}

const struct check_case check_cases_fill[] = {
    {"fill.patterns", "patterns of 1, 2 and 4 bytes repeat over exactly their range", patterns},
    {"fill.edges", "no byte before or after a filled range changes", edges},
    {"fill.unaligned", "unaligned ranges and other pattern widths are refused", unaligned},
    {NULL, NULL, NULL},
};
