/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_readback.c: device data that keeps changing, frame by frame to the host; and host data,
 * block by block to the device.
 *
 * The producer fills the source with one value per frame and continues at once, so a frame that is
 * torn or late has a wrong byte.
 */
#include "case.h"

#include <string.h>

static uint64_t frame_bytes(const struct check *check) {
    return check->target->quick ? 4096 : UINT64_C(1) << 18;
}

static bool expect_all(struct check *check, const vram_frame *frame, uint8_t value,
                       uint64_t bytes) {
    const uint8_t *data = frame->data;
    CHECK_EQUAL(check, frame->bytes, bytes);
    CHECK_EQUAL(check, data[0], value);
    CHECK_THAT(check, memcmp(data, data + 1, bytes - 1) == 0); /* all of it is the same */
    return true;
}

/* One mode: every frame arrives, in order, as it was behind the producer's step. */
static bool in_mode(struct check *check, struct check_device *device, vram_readback_mode mode) {
    vram_readback_options options = {
        .size = sizeof options, .mode = mode, .policy = VRAM_READBACK_EVERY};
    vram_readback *readback;
    vram_queue *producer;
    vram_addr sources[2];
    vram_frame frame;
    uint64_t bytes = frame_bytes(check), number;
    uint32_t rounds = check_rounds(check, 30);

    CHECK_QUEUE(check, device, &producer);
    CHECK_ALLOC(check, device, bytes, &sources[0]);
    CHECK_ALLOC(check, device, bytes, &sources[1]);
    device->unledgered = true; /* a readback takes memory of its own */
    CHECK_OK(check, vram_readback_create(device->device, &options, &readback));
    for (uint32_t i = 1; i <= rounds; i++) {
        vram_addr from = sources[mode == VRAM_READBACK_STEADY ? i % 2 : 0];
        CHECK_OK(check, vram_queue_fill(producer, from, i, 1, bytes));
        CHECK_OK(check, vram_readback_start(readback, producer, from, bytes, &number));
        CHECK_EQUAL(check, number, i);
        if (mode != VRAM_READBACK_STEADY) {
            CHECK_OK(check, vram_queue_fill(producer, from, 0xFF, 1, bytes));
        }
        if (i > 1) { /* the one before, while this one is on its way */
            CHECK_OK(check, vram_readback_next(readback, CHECK_DEADLINE_NS, &frame));
            CHECK_EQUAL(check, frame.number, i - 1);
            CHECK_TRY(expect_all(check, &frame, (uint8_t)(i - 1), bytes));
            CHECK_OK(check, vram_readback_release(readback, i - 1));
        }
    }
    CHECK_OK(check, vram_readback_wait(readback, rounds, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_readback_poll(readback, 0));
    CHECK_OK(check, vram_readback_destroy(readback));
    return true;
}

static bool snapshot(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    return in_mode(check, device, VRAM_READBACK_SNAPSHOT);
}

static bool hold(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    return in_mode(check, device, VRAM_READBACK_HOLD);
}

static bool steady(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    return in_mode(check, device, VRAM_READBACK_STEADY);
}

/* The newest frame is there whenever one has arrived, and is not written while somebody has it. */
static bool newest(struct check *check) {
    vram_readback_options options = {.size = sizeof options, .slots = 3};
    struct check_device *device;
    vram_readback *readback;
    vram_readback_stats stats = {.size = sizeof stats};
    vram_queue *producer;
    vram_addr source;
    vram_frame held, frame;
    uint64_t bytes = frame_bytes(check);
    uint32_t rounds = check_rounds(check, 30);

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &producer);
    CHECK_ALLOC(check, device, bytes, &source);
    device->unledgered = true;
    CHECK_OK(check, vram_readback_create(device->device, &options, &readback));
    CHECK_STATUS(check, vram_readback_latest(readback, &held), VRAM_ERR_NOT_READY);
    CHECK_OK(check, vram_queue_fill(producer, source, 1, 1, bytes));
    CHECK_OK(check, vram_readback_start(readback, producer, source, bytes, NULL));
    CHECK_OK(check, vram_readback_wait(readback, 1, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_readback_latest(readback, &held));
    for (uint32_t i = 2; i <= rounds; i++) {
        CHECK_OK(check, vram_queue_fill(producer, source, i, 1, bytes));
        CHECK_OK(check, vram_readback_start(readback, producer, source, bytes, NULL));
        CHECK_OK(check, vram_readback_wait(readback, 0, CHECK_DEADLINE_NS));
        CHECK_OK(check, vram_readback_latest(readback, &frame));
        CHECK_EQUAL(check, frame.number, i);
        CHECK_TRY(expect_all(check, &frame, (uint8_t)i, bytes));
        CHECK_TRY(expect_all(check, &held, 1, bytes));
        CHECK_OK(check, vram_readback_release(readback, i));
    }
    CHECK_STATUS(check, vram_readback_release(readback, rounds + 1), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_readback_release(readback, 1));
    CHECK_OK(check, vram_readback_stats_get(readback, &stats));
    CHECK_EQUAL(check, stats.started, rounds);
    CHECK_EQUAL(check, stats.arrived, rounds);
    CHECK_EQUAL(check, stats.bytes, rounds * bytes);
    return true; /* the device ends it */
}

/* Blocks lie in their place for work that the consumer gets behind them, and not before. */
static bool feed_in_mode(struct check *check, vram_feed_mode mode) {
    vram_feed_options options = {.size = sizeof options, .mode = mode};
    struct check_device *device;
    vram_feed *feed;
    vram_queue *consumer;
    vram_addr target, seen;
    vram_feed_block block;
    vram_async async;
    uint8_t *found, *expected;
    uint64_t bytes = frame_bytes(check) / 4;
    uint32_t rounds = check_rounds(check, 20);

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &consumer);
    CHECK_ALLOC(check, device, bytes, &target);
    CHECK_ALLOC(check, device, 2 * rounds * bytes, &seen);
    CHECK_TRY(check_host_seeded(check, 2 * rounds * bytes, 0, &found));
    CHECK_TRY(check_host_seeded(check, 2 * rounds * bytes, 0, &expected));
    device->unledgered = true;
    CHECK_OK(check, vram_feed_create(device->device, &options, &feed));
    CHECK_OK(check, vram_queue_fill(consumer, target, 0, 1, bytes));
    for (uint32_t i = 0; i < rounds; i++) {
        memset(expected + 2 * i * bytes, (int)i, bytes);
        memset(expected + (2 * i + 1) * bytes, (int)i + 1, bytes);
        CHECK_OK(check, vram_feed_begin(feed, bytes, CHECK_DEADLINE_NS, &block));
        memset(block.data, (int)i + 1, bytes);
        CHECK_OK(check, vram_queue_copy(consumer, seen + 2 * i * bytes, target, bytes));
        CHECK_OK(check, vram_feed_submit(feed, consumer, target, block.number, bytes, &async));
        CHECK_OK(check, vram_queue_copy(consumer, seen + (2 * i + 1) * bytes, target, bytes));
    }
    CHECK_OK(check, vram_async_wait(&async, CHECK_DEADLINE_NS));
    CHECK_OK(check, vram_queue_download(consumer, found, seen, 2 * rounds * bytes));
    CHECK_WAIT(check, consumer);
    CHECK_SAME(check, found, expected, 2 * rounds * bytes);
    CHECK_OK(check, vram_feed_destroy(feed));
    return true;
}

static bool feed_staged(struct check *check) {
    return feed_in_mode(check, VRAM_FEED_STAGED);
}

static bool feed_direct(struct check *check) {
    return feed_in_mode(check, VRAM_FEED_DIRECT);
}

/* --------------------------------------------------------- handles that are none */

static bool feed_refuses(struct check *check, void *bad) {
    vram_feed *feed = bad;
    vram_feed_block block;
    vram_feed_stats stats = {.size = sizeof stats};

    CHECK_REFUSED(check, vram_feed_begin(feed, 1, 0, &block));
    CHECK_REFUSED(check, vram_feed_submit(feed, NULL, 4096, 1, 1, NULL));
    CHECK_REFUSED(check, vram_feed_release(feed, 1));
    CHECK_REFUSED(check, vram_feed_stats_get(feed, &stats));
    CHECK_EQUAL(check, vram_feed_destroy(feed) == VRAM_OK, feed == NULL);
    return true;
}

static bool refuses(struct check *check, void *bad) {
    vram_readback *readback = bad;
    vram_readback_stats stats = {.size = sizeof stats};
    vram_span span = {.buffer = NULL};
    vram_frame frame;
    vram_point point;

    CHECK_REFUSED(check, vram_readback_start(readback, NULL, 4096, 1, NULL));
    CHECK_REFUSED(check, vram_readback_start_spans(readback, NULL, &span, 1, NULL));
    CHECK_REFUSED(check, vram_readback_poll(readback, 0));
    CHECK_REFUSED(check, vram_readback_wait(readback, 0, 0));
    CHECK_REFUSED(check, vram_readback_point(readback, 0, &point));
    CHECK_REFUSED(check, vram_readback_async(readback, 0, &(vram_async){{0}}));
    CHECK_REFUSED(check, vram_readback_latest(readback, &frame));
    CHECK_REFUSED(check, vram_readback_next(readback, 0, &frame));
    CHECK_REFUSED(check, vram_readback_release(readback, 1));
    CHECK_REFUSED(check, vram_readback_stats_get(readback, &stats));
    CHECK_EQUAL(check, vram_readback_destroy(readback) == VRAM_OK, readback == NULL);
    return true;
}

static bool handles(struct check *check) {
    struct check_device *device;
    vram_readback *readback, *ended;
    vram_feed *feed;

    CHECK_TRY(feed_refuses(check, NULL));
    CHECK_TRY(feed_refuses(check, (void *)(uintptr_t)4096));
    CHECK_REFUSED(check, vram_feed_create(NULL, NULL, &feed));
    CHECK_TRY(refuses(check, NULL));
    CHECK_TRY(refuses(check, (void *)(uintptr_t)4096));
    CHECK_REFUSED(check, vram_readback_create(NULL, NULL, &readback));
    CHECK_OPEN(check, &device);
    CHECK_OK(check, vram_readback_create(device->device, NULL, &ended));
    CHECK_OK(check, vram_readback_destroy(ended));
    CHECK_TRY(refuses(check, ended));
    CHECK_TRY(refuses(check, device->device));
    CHECK_TRY(feed_refuses(check, ended));
    CHECK_OK(check, vram_readback_create(device->device, NULL, &readback));
    CHECK_OK(check, vram_feed_create(device->device, NULL, &feed));
    check_close(device);
    CHECK_TRY(refuses(check, readback)); /* they ended with their device */
    CHECK_TRY(feed_refuses(check, feed));
    return true;
}

const struct check_case check_cases_readback[] = {
    {"readback.snapshot", "every frame arrives complete while the producer continues", snapshot},
    {"readback.hold", "the producer waits for the download on the device", hold},
    {"readback.steady", "a producer that writes two sources in turn waits for nothing", steady},
    {"readback.newest", "the newest frame is always there, and none is written while it is read",
     newest},
    {"readback.feed", "blocks arrive in the order of their consumer, by way of a copy",
     feed_staged},
    {"readback.feed_direct", "blocks arrive in the order of their consumer, at once", feed_direct},
    {"readback.handles", "invalid handles of readbacks and feeds are refused", handles},
    {NULL, NULL, NULL},
};
