/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ring.c: item 16, every strategy in both directions, with wrap, full rings and stop, contents
 * and order checked at both ends. The host has a kernel that runs all the while, the simulation one
 * that is launched anew. With an argument, how many messages: what make test-long does.
 */
#include "unit/ring_world.h"

#include "vram/sim.h"
#include "vram/transfer.h"

#include <stdlib.h>

/* Per strategy and direction; rings of few slots have at most FEW. */
static uint64_t messages = 400;
enum { FEW = 20000 };

static uint64_t at_most_few(uint64_t count) {
    return count < FEW ? count : FEW;
}

static const vram_ring_strategy strategies[] = {VRAM_RING_SYNC, VRAM_RING_ASYNC, VRAM_RING_DIRECT,
                                                VRAM_RING_DMA_POLLING};
enum { STRATEGIES = 4 };

static vram_ring_options options_of(vram_ring_strategy strategy, uint32_t capacity,
                                    uint32_t flags) {
    return (vram_ring_options){.size = sizeof(vram_ring_options),
                               .strategy = strategy,
                               .flags = flags,
                               .input_capacity = capacity,
                               .output_capacity = capacity,
                               .message_bytes = 56,
                               .poll_ns = 20000};
}

static void send_note(struct ring_rig *world, uint64_t number, uint64_t timeout) {
    struct note note = note_of(number);
    assert_ok(vram_ring_send(world->ring, &note, note_bytes(number), (uint32_t)number, timeout));
}

static void expect_note(struct ring_rig *world, uint64_t number, uint64_t timeout) {
    struct note note;
    vram_ring_slot header;
    assert_ok(vram_ring_receive(world->ring, &note, sizeof note, timeout, &header));
    assert_true(note_is(&note, header.bytes, number));
    assert_int_equal(header.sequence, number + 1);
}

/* ---------------------------------------------------------- a kernel that runs */

static void host_to_kernel(vram_ring_strategy strategy, uint32_t capacity, uint32_t flags) {
    uint64_t count = capacity < 256 ? at_most_few(messages) : messages;
    vram_ring_options options = options_of(strategy, capacity, flags | VRAM_RING_INPUT);
    struct ring_rig world = ring_rig_make("host", &options, sink_kernel);
    world.order.resident = 1;
    assert_true(world.info.live);
    assert_int_equal(world.info.strategy, strategy);
    ring_launch(&world, world.rig.queue);
    for (uint64_t i = 0; i < count; i++) {
        send_note(&world, i, 20 * SECOND);
    }
    assert_ok(vram_ring_stop(world.ring));
    assert_int_equal(vram_ring_send(world.ring, "x", 1, 0, 0), VRAM_ERR_SHUTDOWN);
    assert_ok(vram_ring_drain(world.ring, 20 * SECOND));
    assert_ok(vram_ring_join(world.ring, 20 * SECOND));
    assert_ok(vram_ring_check(world.ring));
    vram_ring_stats stats = ring_stats(&world);
    vram_ring_telemetry telemetry;
    assert_ok(vram_ring_telemetry_get(world.ring, &telemetry));
    kernel_ends(&world);
    assert_int_equal(seen.taken, count);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(stats.sent, count);
    assert_int_equal(stats.host_to_device_count, count);
    assert_int_equal(stats.taken, count);
    assert_int_equal(stats.device_to_host_count, 0);
    assert_int_equal(stats.has_terminated, VRAM_RING_DONE);
    assert_int_equal(stats.copies == 0, strategy == VRAM_RING_DIRECT);
    assert_int_equal(telemetry.messages_processed, count);
    assert_int_equal(telemetry.error_code, VRAM_RING_ERROR_NONE);
    assert_true(telemetry.max_latency_nanos >= telemetry.min_latency_nanos);
    assert_true(telemetry.min_latency_nanos > 0);
    ring_rig_end(&world);
}

static void kernel_to_host(vram_ring_strategy strategy, uint32_t capacity, uint32_t flags) {
    uint64_t count = capacity < 256 ? at_most_few(messages) : messages;
    vram_ring_options options = options_of(strategy, capacity, flags | VRAM_RING_OUTPUT);
    struct ring_rig world = ring_rig_make("host", &options, source_kernel);
    world.order = (struct kernel_order){.count = count, .resident = 1};
    ring_launch(&world, world.rig.queue);
    for (uint64_t i = 0; i < count; i++) {
        expect_note(&world, i, 20 * SECOND);
    }
    assert_ok(vram_ring_join(world.ring, 20 * SECOND));
    assert_int_equal(vram_ring_receive(world.ring, &options, 56, 0, NULL), VRAM_ERR_NOT_READY);
    vram_ring_stats stats = ring_stats(&world);
    assert_int_equal(stats.received, count);
    assert_int_equal(stats.device_to_host_count, count);
    assert_int_equal(stats.host_to_device_count, 0);
    assert_int_equal(stats.crc_errors, 0);
    ring_rig_end(&world);
}

/* Both ways at once; the output is small, so that the kernel waits too. */
static void there_and_back(vram_ring_strategy strategy) {
    uint64_t count = at_most_few(messages);
    vram_ring_options options = options_of(strategy, 16, VRAM_RING_CRC);
    options.output_capacity = 4;
    struct ring_rig world = ring_rig_make("host", &options, echo_kernel);
    uint64_t sent = 0, received = 0;
    world.order.resident = 1;
    ring_launch(&world, world.rig.queue);
    while (received < count) {
        struct note note = note_of(sent);
        vram_status status = VRAM_ERR_NOT_READY;
        if (sent < count) {
            status = vram_ring_send(world.ring, &note, note_bytes(sent), 0, 0);
            sent += status == VRAM_OK;
        }
        if (status == VRAM_ERR_NOT_READY) { /* full, or all is sent: so something comes */
            expect_note(&world, received++, 20 * SECOND);
        } else {
            assert_ok(status);
        }
    }
    assert_ok(vram_ring_stop(world.ring));
    assert_ok(vram_ring_join(world.ring, 20 * SECOND));
    kernel_ends(&world);
    assert_int_equal(seen.taken, count);
    assert_int_equal(seen.wrong, 0);
    ring_rig_end(&world);
}

/* Item 16. Capacity 4 is full and wraps all the time; 256 wraps now and then. */
TEST(acceptance_16_every_strategy_carries_to_a_kernel) {
    for (int i = 0; i < STRATEGIES; i++) {
        host_to_kernel(strategies[i], 256, 0);
        host_to_kernel(strategies[i], 4, VRAM_RING_CRC);
    }
    host_to_kernel(VRAM_RING_DIRECT, 8, VRAM_RING_MULTI_INPUT);
    host_to_kernel(VRAM_RING_ASYNC, 8, VRAM_RING_MULTI_INPUT);
}

TEST(acceptance_16_every_strategy_carries_from_a_kernel) {
    for (int i = 0; i < STRATEGIES; i++) {
        kernel_to_host(strategies[i], 256, 0);
        kernel_to_host(strategies[i], 4, VRAM_RING_CRC);
    }
}

TEST(acceptance_16_every_strategy_carries_there_and_back) {
    for (int i = 0; i < STRATEGIES; i++) {
        there_and_back(strategies[i]);
    }
}

/* -------------------------------------------------- a kernel that is launched anew */

/* One launch for what was flushed, then what it published is fetched. */
static void relaunched(vram_ring_strategy strategy) {
    vram_ring_options options = options_of(strategy, 8, 0);
    struct ring_rig world = ring_rig_make("sim", &options, echo_kernel);
    uint64_t sent = 0, received = 0, goal = at_most_few(messages) / 10;
    assert_false(world.info.live);
    assert_int_equal(world.info.visibility, VRAM_VISIBILITY_DEVICE);
    assert_true(world.info.reason[0]);
    while (received < goal) {
        struct note note = note_of(sent);
        while (sent < goal &&
               vram_ring_send(world.ring, &note, note_bytes(sent), 0, 0) == VRAM_OK) {
            note = note_of(++sent);
        }
        assert_ok(vram_ring_flush(world.ring, NULL, NULL));
        ring_launch(&world, NULL);
        while (vram_ring_receive(world.ring, &note, sizeof note, 0, NULL) == VRAM_OK) {
            assert_int_equal(note.number, received);
            received++;
        }
    }
    assert_ok(vram_ring_drain(world.ring, 20 * SECOND));
    assert_true(seen.opened > 1);
    assert_int_equal(seen.taken, goal);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(ring_stats(&world).has_terminated, VRAM_RING_RELAUNCHABLE);
    expect_protocol(&world.rig);
    ring_rig_end(&world);
}

TEST(a_kernel_goes_on_where_it_stopped) {
    relaunched(VRAM_RING_SYNC);
    relaunched(VRAM_RING_ASYNC);
}

/* ------------------------------------------------------------------- copies */

static vram_transfer_stats counted(struct ring_rig *world, vram_transfer_direction direction) {
    vram_transfer_stats stats = {.size = sizeof stats};
    assert_ok(vram_transfer_stats_get(world->rig.device, direction, VRAM_ROUTE_RING, &stats));
    return stats;
}

/* Copies of slots are transfers like others: one for each step that has any, in both directions. */
TEST(copies_are_counted_as_transfers) {
    vram_ring_options options = options_of(VRAM_RING_SYNC, 16, 0);
    struct ring_rig world = ring_rig_make("sim", &options, echo_kernel);
    uint64_t number = 0, moved, arrived;
    for (uint64_t round = 1; round <= 100; round++) { /* more than there are steps at a time */
        for (int i = 0; i < 11; i++) {
            send_note(&world, number + (uint64_t)i, 0);
        }
        assert_ok(vram_ring_flush(world.ring, &moved, NULL));
        ring_launch(&world, NULL);
        assert_ok(vram_ring_fetch(world.ring, &arrived, NULL));
        assert_int_equal(arrived, 11);
        for (int i = 0; i < 11; i++) {
            expect_note(&world, number++, 0);
        }
        vram_transfer_stats up = counted(&world, VRAM_TRANSFER_TO_DEVICE);
        vram_transfer_stats down = counted(&world, VRAM_TRANSFER_TO_HOST);
        assert_int_equal(up.operations, round);
        assert_int_equal(up.started, round);
        assert_int_equal(up.bytes, number * VRAM_RING_STRIDE(56));
        assert_int_equal(down.operations, round);
        assert_int_equal(down.bytes, number * VRAM_RING_STRIDE(56));
        assert_int_equal(up.failures + down.failures, 0);
        assert_true(up.latency_ns > 0 && down.latency_ns > 0);
    }
    assert_true(counted(&world, VRAM_TRANSFER_TO_DEVICE).waited_ns > 0);
    ring_rig_end(&world);
}

/* Section 4: with DIRECT a flush copies nothing and says so; the counter tells what is visible. */
TEST(a_direct_flush_copies_nothing) {
    vram_ring_options options = options_of(VRAM_RING_AUTO, 16, 0);
    struct ring_rig world = ring_rig_make("host", &options, sink_kernel);
    uint64_t moved = 99, result = 99;
    vram_async async;
    assert_int_equal(world.info.strategy, VRAM_RING_DIRECT);
    assert_null(world.info.queue);
    send_note(&world, 0, 0);
    assert_ok(vram_ring_flush(world.ring, &moved, &async));
    assert_int_equal(moved, 0);
    assert_ok(vram_async_result_get(&async, &result));
    assert_int_equal(result, 0);
    assert_int_equal(ring_stats(&world).host_to_device_count, 1);
    assert_int_equal(ring_stats(&world).copies, 0);
    ring_rig_end(&world);
}

/* ------------------------------------------------------------- several threads */

enum { SENDERS = 3, EACH = 500 };

static void send_many(void *argument) {
    struct ring_rig *world = argument;
    for (uint64_t i = 0; i < EACH;) {
        vram_ring_message batch[8];
        uint64_t count = EACH - i < 8 ? EACH - i : 8, sent;
        for (uint64_t j = 0; j < count; j++) {
            batch[j] = (vram_ring_message){.data = "fine", .bytes = 4, .kind = 1};
        }
        assert_ok(vram_ring_send_many(world->ring, batch, count, 20 * SECOND, &sent));
        assert_int_equal(sent, count);
        i += sent;
    }
}

static void count_kernel(const vram_kernel_call *call) {
    vram_ring_peer peer;
    uint32_t bytes;
    assert_int_equal(vram_ring_peer_open(control_of(call), &peer), 0);
    while (!vram_ring_peer_stopping(&peer)) {
        const void *in = vram_ring_peer_take(&peer, &bytes);
        if (in) {
            seen.taken += bytes == 4 && memcmp(in, "fine", 4) == 0;
            vram_ring_peer_done(&peer);
        } else {
            vr_os_yield();
        }
    }
    vram_ring_peer_end(&peer, VRAM_RING_DONE);
}

TEST(several_threads_send) {
    for (int i = 0; i < STRATEGIES; i++) {
        vram_ring_options options =
            options_of(strategies[i], 8, VRAM_RING_INPUT | VRAM_RING_MULTI_INPUT);
        struct ring_rig world = ring_rig_make("host", &options, count_kernel);
        struct vr_thread team[SENDERS] = {0};
        world.order.resident = 1;
        ring_launch(&world, world.rig.queue);
        for (int j = 0; j < SENDERS; j++) {
            assert_ok(vr_os_thread_start(&team[j], "sender", send_many, &world));
        }
        for (int j = 0; j < SENDERS; j++) {
            vr_os_thread_join(&team[j]);
        }
        assert_ok(vram_ring_stop(world.ring));
        assert_ok(vram_ring_join(world.ring, 20 * SECOND));
        kernel_ends(&world);
        assert_int_equal(seen.taken, SENDERS * EACH);
        ring_rig_end(&world);
    }
}

static int begin_file(void) {
    if (rig_word(1)) {
        messages = strtoull(rig_word(1), NULL, 10);
    }
    return 0;
}
/* A send that finds the ring full is a stall, whatever the strategy. */
TEST(a_full_ring_is_a_stall) {
    for (int direct = 0; direct < 2; direct++) {
        vram_ring_options options = options_of(direct ? VRAM_RING_DIRECT : VRAM_RING_SYNC, 4, 0);
        struct ring_rig world = ring_rig_make(direct ? "host" : "sim", &options, echo_kernel);
        struct note note = note_of(4);
        for (uint64_t i = 0; i < 4; i++) {
            send_note(&world, i, 0);
        }
        assert_int_equal(counted(&world, VRAM_TRANSFER_TO_DEVICE).stalls, 0);
        assert_int_equal(vram_ring_send(world.ring, &note, note_bytes(4), 4, 2000000),
                         VRAM_ERR_TIMEOUT);
        assert_int_equal(counted(&world, VRAM_TRANSFER_TO_DEVICE).stalls, 1);
        assert_true(counted(&world, VRAM_TRANSFER_TO_DEVICE).stall_ns >= 2000000);
        vram_error_clear();
        ring_rig_end(&world);
    }
}

WHOLE_FILE(begin_file, NULL)
EACH_TEST(start, nothing_left)
