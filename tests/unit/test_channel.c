/* SPDX-License-Identifier: Apache-2.0 */
/* test_channel.c: the host's end of a ring on plain memory: order, contents, wrap, full, damage,
   threads. */
#include "ring/channel.h"
#include "unit/assert_ok.h"

#include "base/os/os.h"

#include <stdlib.h>
#include <string.h>

/* A channel on memory of the test. */
struct bench {
    vram_ring_line head, tail;
    struct vr_channel channel;
};

static void bench_make(struct bench *bench, uint64_t capacity, uint32_t message_bytes) {
    memset(bench, 0, sizeof *bench);
    bench->channel = (struct vr_channel){.head = (vr_atomic_u64 *)(void *)&bench->head.count,
                                         .claim = (vr_atomic_u64 *)(void *)&bench->head.claim,
                                         .tail = (vr_atomic_u64 *)(void *)&bench->tail.count,
                                         .capacity = capacity,
                                         .stride = VRAM_RING_STRIDE(message_bytes),
                                         .message_bytes = message_bytes};
    bench->channel.slots = calloc(capacity, bench->channel.stride);
    assert_non_null(bench->channel.slots);
}

static void bench_end(struct bench *bench) {
    free(bench->channel.slots);
}

static uint64_t send_text(struct bench *bench, const char *text) {
    vram_ring_message message = {.data = text, .bytes = (uint32_t)strlen(text), .kind = 7};
    uint64_t sent = 99;
    assert_ok(vr_channel_send(&bench->channel, &message, 1, 5, &sent));
    return sent;
}

static void expect_text(struct bench *bench, const char *text) {
    char data[64] = "";
    vram_ring_slot slot;
    assert_ok(vr_channel_receive(&bench->channel, data, sizeof data - 1, &slot));
    assert_int_equal(slot.bytes, strlen(text));
    assert_int_equal(slot.kind, 7);
    assert_string_equal(data, text);
}

static vram_status receive(struct bench *bench) {
    char data[64];
    vram_ring_slot slot;
    return vr_channel_receive(&bench->channel, data, sizeof data, &slot);
}

/* Item 17: the layout by numbers, as a program in another language would have it. */
TEST(acceptance_17_the_layout_is_fixed) {
    unsigned char bytes[128] = {0};
    vram_ring_control control;
    int32_t one = 1, two = 2;
    uint64_t head = 0x1122334455667788, magic = VRAM_RING_MAGIC;
    memcpy(bytes + 4, &one, 4);
    memcpy(bytes + 8, &two, 4);
    memcpy(bytes + 32, &head, 8);
    memcpy(bytes + 96, &magic, 8);
    memcpy(&control, bytes, sizeof control);
    assert_int_equal(control.should_terminate, 1);
    assert_int_equal(control.has_terminated, VRAM_RING_RELAUNCHABLE);
    assert_int_equal(control.input_queue_head_ptr, head);
    assert_memory_equal(&control.reserved[0], "DRVRING1", 8);
    assert_int_equal(VRAM_RING_STRIDE(0), 64);
    assert_int_equal(VRAM_RING_STRIDE(32), 64);
    assert_int_equal(VRAM_RING_STRIDE(33), 128);
    assert_int_equal(VRAM_RING_STRIDE(65536 + 224), 65792);
    struct VRAM_CACHE_ALIGNED aligned {
        char one;
    };
    assert_int_equal(sizeof(struct aligned), 128);
    assert_int_equal(_Alignof(struct aligned), 128);
}

TEST(a_short_place_leaves_the_message) {
    struct bench bench;
    vram_ring_slot slot;
    char data[4];
    bench_make(&bench, 2, 40);
    send_text(&bench, "too long");
    assert_int_equal(vr_channel_receive(&bench.channel, data, sizeof data, &slot), VRAM_ERR_LIMIT);
    assert_int_equal(slot.bytes, 8);
    expect_text(&bench, "too long");
    bench_end(&bench);
}

TEST(counters_near_their_end_work) {
    struct bench bench;
    bench_make(&bench, 4, 40);
    bench.head.count = bench.tail.count = UINT64_MAX - 1; /* after an age: the numbers wrap */
    for (int i = 0; i < 5; i++) {
        send_text(&bench, "x");
        expect_text(&bench, "x");
    }
    assert_int_equal(bench.head.count, 3);
    bench_end(&bench);
}

/* ---------------------------------------------------------------- damage */

TEST(damage_is_found) {
    for (int multi = 0; multi < 2; multi++) {
        struct bench bench;
        vram_ring_message message = {.data = "x", .bytes = 1};
        uint64_t sent;
        bench_make(&bench, 4, 40);
        bench.channel.multi = multi;
        send_text(&bench, "fine");
        bench.tail.count = 2; /* the consumer claims to be ahead of the producer */
        assert_int_equal(vr_channel_send(&bench.channel, &message, 1, 5, &sent), VRAM_ERR_CORRUPT);
        assert_int_equal(receive(&bench), VRAM_ERR_CORRUPT);
        assert_int_equal(vr_channel_depth(&bench.channel), UINT64_MAX);
        bench.tail.count = 0;
        bench.head.count = 5; /* more than fit */
        assert_int_equal(receive(&bench), VRAM_ERR_CORRUPT);
        bench.head.count = 1;
        vr_channel_slot(&bench.channel, 0)->sequence ^= 4;
        assert_int_equal(receive(&bench), VRAM_ERR_CORRUPT);
        vr_channel_slot(&bench.channel, 0)->sequence ^= 4;
        vr_channel_slot(&bench.channel, 0)->bytes = 41;
        assert_int_equal(receive(&bench), VRAM_ERR_CORRUPT);
        vr_channel_slot(&bench.channel, 0)->bytes = 4;
        expect_text(&bench, "fine"); /* nothing was taken meanwhile */
        bench_end(&bench);
    }
}

TEST(a_payload_is_held_against_its_crc) {
    struct bench bench;
    bench_make(&bench, 4, 40);
    bench.channel.crc = true;
    send_text(&bench, "whole");
    send_text(&bench, "broken");
    send_text(&bench, "");
    ((char *)(vr_channel_slot(&bench.channel, 1) + 1))[2] ^= 1;
    expect_text(&bench, "whole");
    assert_int_equal(receive(&bench), VRAM_ERR_IO);
    expect_text(&bench, ""); /* the ring goes on behind it */
    bench_end(&bench);
}

/* --------------------------------------------------------------- threads */

enum { MESSAGES = 20000, PRODUCERS_MAX = 3 };

struct producer {
    struct bench *bench;
    uint64_t number, count;
    struct vr_thread thread;
};

static void produce(void *argument) {
    struct producer *producer = argument;
    for (uint64_t i = 0; i < producer->count;) {
        uint64_t payload[2][2] = {{producer->number, i}, {producer->number, i + 1}};
        vram_ring_message messages[2] = {{.data = payload[0], .bytes = 16, .kind = 7},
                                         {.data = payload[1], .bytes = 16, .kind = 7}};
        uint64_t sent = 0;
        assert_ok(vr_channel_send(&producer->bench->channel, messages,
                                  i + 1 < producer->count ? 2 : 1, 5, &sent));
        i += sent;
        if (sent == 0) {
            vr_os_yield();
        }
    }
}

/* Every message of every producer comes once, whole, and in the order of its producer. */
static void run_threads(uint64_t producers, uint64_t capacity) {
    struct bench bench;
    struct producer team[PRODUCERS_MAX] = {0};
    uint64_t next[PRODUCERS_MAX] = {0}, payload[2];
    vram_ring_slot slot;
    bench_make(&bench, capacity, 16);
    bench.channel.multi = producers > 1;
    bench.channel.crc = true;
    for (uint64_t i = 0; i < producers; i++) {
        team[i].bench = &bench;
        team[i].number = i;
        team[i].count = MESSAGES / producers;
        assert_ok(vr_os_thread_start(&team[i].thread, "producer", produce, &team[i]));
    }
    for (uint64_t left = MESSAGES / producers * producers; left;) {
        vram_status status = vr_channel_receive(&bench.channel, payload, sizeof payload, &slot);
        if (status == VRAM_ERR_NOT_READY) {
            vr_os_yield();
            continue;
        }
        assert_ok(status);
        assert_in_range(payload[0], 0, producers - 1);
        assert_int_equal(payload[1], next[payload[0]]++);
        left--;
    }
    for (uint64_t i = 0; i < producers; i++) {
        vr_os_thread_join(&team[i].thread);
    }
    assert_int_equal(receive(&bench), VRAM_ERR_NOT_READY);
    bench_end(&bench);
}

TEST(several_producers_and_one_consumer) {
    run_threads(2, 2);
    run_threads(3, 4);
    run_threads(3, 256);
}
