/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_channel.c: the host's end of a ring on plain memory: order, contents, wrap, full, damage,
 * threads. And what host and device see of each other, by platform and device: item 15 and its
 * table.
 */
#include "unit/assert_ok.h"
#include "unit/device_world.h"

#include "base/os/os.h"
#include "ring/channel.h"
#include "ring/visibility_table.h"
#include "vram/visibility.h"

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

/* ---------------------------------------------------------------------- visibility */

static vram_visibility of_text(const char *text) {
    vram_visibility visibility = VRAM_VISIBILITY_AUTO;
    assert_ok(vram_visibility_of_platform(VRAM_PLATFORM_LINUX, text, &visibility));
    return visibility;
}

/* Item 15: texts as /proc/version has them. */
TEST(acceptance_15_wsl_is_known_by_its_kernel) {
    assert_int_equal(of_text("Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1) "
                             "(gcc (GCC) 11.2.0) #1 SMP Fri Mar 29 23:14:13 UTC 2024"),
                     VRAM_VISIBILITY_DEVICE);
    assert_int_equal(of_text("Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc "
                             "version 5.4.0 (GCC) ) #1237-Microsoft Sat Sep 11 14:32:00 PST 2021"),
                     VRAM_VISIBILITY_DEVICE);
    assert_int_equal(of_text("Linux version 6.6.36-custom-WSL2+ (me@here) #1 SMP"),
                     VRAM_VISIBILITY_DEVICE);
    assert_int_equal(of_text("Linux version 6.1.0-21-amd64 (debian-kernel@lists.debian.org) "
                             "(gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP PREEMPT_DYNAMIC"),
                     VRAM_VISIBILITY_SYSTEM);
    assert_int_equal(of_text(NULL), VRAM_VISIBILITY_SYSTEM); /* unreadable */
    assert_int_equal(of_text(""), VRAM_VISIBILITY_SYSTEM);
    assert_int_equal(of_text("microsof"), VRAM_VISIBILITY_SYSTEM);
    assert_int_equal(of_text("awsl"), VRAM_VISIBILITY_SYSTEM); /* part of a word in small letters */
}

TEST(platforms_differ) {
    static const struct {
        vram_platform platform;
        vram_visibility visibility;
    } rows[] = {{VRAM_PLATFORM_LINUX, VRAM_VISIBILITY_SYSTEM},
                {VRAM_PLATFORM_WINDOWS, VRAM_VISIBILITY_SYSTEM},
                {VRAM_PLATFORM_MACOS, VRAM_VISIBILITY_DEVICE},
                {VRAM_PLATFORM_UNKNOWN, VRAM_VISIBILITY_DMA}};
    vram_visibility visibility = VRAM_VISIBILITY_AUTO;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_ok(vram_visibility_of_platform(rows[i].platform, NULL, &visibility));
        assert_int_equal(visibility, rows[i].visibility);
    }
    assert_int_equal(vram_visibility_of_platform((vram_platform)9, NULL, &visibility),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_visibility_of_platform(VRAM_PLATFORM_LINUX, "x", NULL), VRAM_ERR_INVALID);
#if defined(__linux__)
    assert_int_equal(vram_platform_here(), VRAM_PLATFORM_LINUX);
#endif
    assert_string_equal(vram_visibility_name(VRAM_VISIBILITY_DMA), "dma");
    assert_string_equal(vram_visibility_name(VRAM_VISIBILITY_SYSTEM), "system");
    assert_string_equal(vram_visibility_name((vram_visibility)7), "unknown");
}

static vram_visibility of_device(const char *backend, vram_device_kind kind, uint32_t caps,
                                 vram_visibility most) {
    vram_device_info info = {.size = sizeof info, .backend = backend, .kind = kind, .caps = caps};
    char reason[VRAM_VISIBILITY_REASON_MAX] = "unwritten";
    vram_visibility visibility = vr_visibility_of_device(&info, most, reason);
    assert_string_not_equal(reason, "unwritten");
    assert_int_equal(reason[0] == 0, visibility == VRAM_VISIBILITY_SYSTEM);
    return visibility;
}

TEST(devices_differ) {
    const vram_visibility system = VRAM_VISIBILITY_SYSTEM, device = VRAM_VISIBILITY_DEVICE,
                          dma = VRAM_VISIBILITY_DMA;
    const uint32_t cuda = VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_KERNELS;
    const uint32_t svm = VRAM_CAP_MANAGED | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_KERNELS;
    assert_int_equal(of_device("host", VRAM_DEVICE_CPU, 0, dma), system);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "hip" : "cuda";
        assert_int_equal(of_device(name, VRAM_DEVICE_GPU, cuda, system), system);
        assert_int_equal(of_device(name, VRAM_DEVICE_GPU, cuda, device), device); /* WSL */
        assert_int_equal(of_device(name, VRAM_DEVICE_GPU, cuda, dma), dma);
        assert_int_equal(of_device(name, VRAM_DEVICE_GPU, VRAM_CAP_PINNED, system), dma);
    }
    assert_int_equal(of_device("opencl", VRAM_DEVICE_CPU, svm, device), system);
    assert_int_equal(of_device("opencl", VRAM_DEVICE_GPU, svm, system), device);
    assert_int_equal(of_device("opencl", VRAM_DEVICE_GPU, VRAM_CAP_KERNELS, system), dma);
    assert_int_equal(of_device("vulkan", VRAM_DEVICE_GPU, cuda, system), dma);
    assert_int_equal(of_device("metal", VRAM_DEVICE_GPU, cuda, system), dma);
    assert_int_equal(of_device("sim", VRAM_DEVICE_SIMULATED, 0, system), dma);
    assert_int_equal(of_device("new", VRAM_DEVICE_GPU, cuda, system), dma);
}

TEST_IN(start, nothing_left, a_device_is_asked) {
    struct rig host = rig_make("host", NULL), sim = rig_make("sim", "real=on");
    vram_visibility visibility = VRAM_VISIBILITY_AUTO;
    char reason[VRAM_VISIBILITY_REASON_MAX];
    assert_ok(vram_visibility_detect(host.device, NULL, &visibility, reason));
    assert_int_equal(visibility, VRAM_VISIBILITY_SYSTEM);
    assert_string_equal(reason, "");
    assert_ok(vram_visibility_detect(sim.device, "Linux", &visibility, NULL));
    assert_int_equal(visibility, VRAM_VISIBILITY_DEVICE);
    assert_int_equal(vram_visibility_detect(sim.device, NULL, NULL, reason), VRAM_ERR_INVALID);
    assert_int_equal(vram_visibility_detect(NULL, NULL, &visibility, reason), VRAM_ERR_INVALID);
    vram_context_destroy(host.context);
    vram_context_destroy(sim.context);
}
