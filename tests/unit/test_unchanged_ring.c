/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unchanged_ring.c: a call of a ring that fails has changed nothing but how far messages are
 * on their way: none is lost, doubled or out of order, in either direction. Every call below it
 * fails in turn; trial_world.h says what holds after each.
 *
 * The test is the kernel: the simulated device's memory is one that the host may touch.
 */
#include "unit/trial_world.h"
#include "vram/ring.h"
#include "vram/ring_device.h"

#define REAL "memory=64M,granule=64K,lag=5,real=on"

enum { CAPACITY = 4, MESSAGE = 48 };

static struct {
    vram_ring_peer peer;
    uint64_t taken, given; /* by the kernel: messages of the input, and of the output */
    uint64_t sent;         /* by the trial's call, of several */
} kernel;

/* ------------------------------------------------------------------ the two ends */

static void note_make(unsigned char *note, uint64_t number, bool out) {
    memset(note, (int)(number + (out ? 1 : 101)), MESSAGE);
}
/* That the host gets or that the kernel does, in order. */
static void expect_note(const void *found, uint32_t bytes, uint64_t number, bool out) {
    unsigned char note[MESSAGE];
    note_make(note, number, out);
    assert_int_equal(bytes, MESSAGE);
    assert_memory_equal(found, note, MESSAGE);
}
static vram_status note_send(struct scene *scene, uint64_t number, uint64_t timeout) {
    note_make(scene->host, number, true);
    return vram_ring_send(scene->object, scene->host, MESSAGE, (uint32_t)number, timeout);
}
static void kernel_takes(uint64_t count) {
    uint32_t bytes;
    for (; count; count--) {
        const void *message = vram_ring_peer_take(&kernel.peer, &bytes);
        assert_non_null(message);
        expect_note(message, bytes, kernel.taken++, true);
        vram_ring_peer_done(&kernel.peer);
    }
}
static void kernel_gives(uint64_t count) {
    for (; count; count--) {
        void *message = vram_ring_peer_room(&kernel.peer);
        assert_non_null(message);
        note_make(message, kernel.given++, false);
        vram_ring_peer_publish(&kernel.peer, MESSAGE, 0);
    }
}

/* --------------------------------------------------------------------- the scene */

static void ring_make(struct scene *scene, vram_ring_strategy strategy) {
    vram_ring_options options = {.size = sizeof options,
                                 .strategy = strategy,
                                 .flags = VRAM_RING_CRC,
                                 .input_capacity = CAPACITY,
                                 .output_capacity = CAPACITY,
                                 .message_bytes = MESSAGE,
                                 .queue = scene->side};
    vram_ring_info info = {.size = sizeof info};
    vram_ring *ring;
    memset(&kernel, 0, sizeof kernel);
    assert_ok(vram_ring_create(scene->pool, &options, &ring));
    scene->object = ring;
    assert_ok(vram_ring_info_get(ring, &info));
    assert_ok(vram_queue_wait(scene->side, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(
        vram_ring_peer_open((vram_ring_control *)(uintptr_t)info.control, &kernel.peer), 0);
}
/* The kernel has taken two messages and given two, which the host does not know yet: the input
   seems full. */
static void fill_ring(struct scene *scene, vram_ring_strategy strategy) {
    ring_make(scene, strategy);
    assert_ok(note_send(scene, 0, 0));
    assert_ok(note_send(scene, 1, 0));
    assert_ok(vram_ring_flush(scene->object, NULL, NULL));
    scene_drain(scene);
    kernel_takes(2);
    kernel_gives(2);
    assert_ok(note_send(scene, 2, 0));
    assert_ok(note_send(scene, 3, 0));
    host_fill(scene);
}
static void make_sync(struct scene *scene) {
    fill_ring(scene, VRAM_RING_SYNC);
}
static void make_async(struct scene *scene) {
    fill_ring(scene, VRAM_RING_ASYNC);
}
/* It has taken all, and has ended. */
static void make_ended(struct scene *scene) {
    make_sync(scene);
    assert_ok(vram_ring_flush(scene->object, NULL, NULL));
    kernel_takes(2);
    vram_ring_peer_end(&kernel.peer, VRAM_RING_DONE);
}

static vram_ring_stats stats_of(struct scene *scene) {
    vram_ring_stats stats = {.size = sizeof stats};
    assert_ok(vram_ring_stats_get(scene->object, &stats));
    return stats;
}
static void look_ring(struct scene *scene, struct object_state *state) {
    vram_ring_stats stats = stats_of(scene);
    state_number(state, "ring.sent", stats.sent);
    state_number(state, "ring.received", stats.received);
    state_number(state, "ring.crc_errors", stats.crc_errors);
    state_number(state, "ring.stopped", stats.stopped);
    state_number(state, "ring.corrupt", stats.corrupt);
    if (state->contents) {
        assert_ok(vram_ring_check(scene->object));
    }
}
static void look_flush(struct scene *scene, struct object_state *state) {
    look_ring(scene, state);
    state_number(state, "~ring.to_device", stats_of(scene).host_to_device_count);
}
static void look_fetch(struct scene *scene, struct object_state *state) {
    look_ring(scene, state);
    state_number(state, "~ring.to_host", stats_of(scene).device_to_host_count);
}
static void look_some_sent(struct scene *scene, struct object_state *state) {
    state_number(state, "~ring.sent", stats_of(scene).sent);
    state_number(state, "received", stats_of(scene).received);
}
static void look_stop(struct scene *scene, struct object_state *state) {
    state_number(state, "ring.sent", stats_of(scene).sent);
    state_number(state, "~ring.stopped", stats_of(scene).stopped);
}

/* All that was sent arrives and all that was given is received, once and in order; then there is
   nothing more. */
static void end_ring(struct scene *scene) {
    vram_ring_stats stats = stats_of(scene);
    unsigned char note[MESSAGE];
    vram_ring_slot header;
    uint32_t bytes;
    assert_ok(vram_ring_flush(scene->object, NULL, NULL));
    scene_drain(scene);
    kernel_takes(stats.sent - kernel.taken);
    assert_null(vram_ring_peer_take(&kernel.peer, &bytes));
    assert_int_equal(vram_ring_peer_stopping(&kernel.peer) != 0, stats.stopped);
    assert_ok(vram_ring_drain(scene->object, SECOND));
    for (uint64_t i = stats.received; i < kernel.given; i++) {
        assert_ok(vram_ring_receive(scene->object, note, sizeof note, SECOND, &header));
        expect_note(note, header.bytes, i, false);
    }
    assert_int_equal(vram_ring_receive(scene->object, note, sizeof note, 0, NULL),
                     VRAM_ERR_NOT_READY);
    assert_int_equal(stats_of(scene).kernel_errors, 0);
    assert_ok(vram_ring_check(scene->object));
    assert_ok(vram_ring_destroy(scene->object));
}

/* --------------------------------------------------------------------- its calls */

static vram_status call_create(struct scene *scene) {
    vram_ring_options options = {
        .size = sizeof options, .strategy = VRAM_RING_SYNC, .input_capacity = CAPACITY};
    vram_ring *ring = NULL;
    vram_status status = vram_ring_create(scene->pool, &options, &ring);
    scene->object = ring;
    return status;
}
static void look_created(struct scene *scene, struct object_state *state) {
    state_number(state, "made", scene->object != NULL); /* its memory may be in the pool's cache */
}
static void end_made(struct scene *scene) {
    assert_ok(vram_ring_check(scene->object));
    assert_ok(vram_ring_destroy(scene->object));
}
static vram_status call_send(struct scene *scene) {
    vram_status status = note_send(scene, 4, SECOND);
    host_fill(scene);
    return status;
}
/* Of several those that the ring has not yet. */
static vram_status call_send_many(struct scene *scene) {
    vram_ring_message messages[2];
    uint64_t sent = 0;
    for (uint64_t i = 0; i < 2; i++) {
        note_make(scene->host + i * MESSAGE, 4 + i, true);
        messages[i] = (vram_ring_message){.data = scene->host + i * MESSAGE, .bytes = MESSAGE};
    }
    vram_status status =
        vram_ring_send_many(scene->object, messages + kernel.sent, 2 - kernel.sent, SECOND, &sent);
    kernel.sent += sent;
    host_fill(scene);
    return status;
}
static vram_status call_flush(struct scene *scene) {
    return vram_ring_flush(scene->object, NULL, NULL);
}
static vram_status call_fetch(struct scene *scene) {
    return vram_ring_fetch(scene->object, NULL, NULL);
}
static vram_status call_flush_async(struct scene *scene) {
    vram_async async;
    uint64_t messages;
    vram_status status = vram_ring_flush(scene->object, &messages, &async);
    if (status == VRAM_OK) {
        (void)trial_disarm(scene);
        vram_async_end(&async);
    }
    return status;
}
static vram_status call_receive(struct scene *scene) {
    vram_ring_slot header;
    vram_status status =
        vram_ring_receive(scene->object, scene->host, (uint32_t)scene->bytes, SECOND, &header);
    if (status == VRAM_OK) {
        expect_note(scene->host, header.bytes, 0, false);
    }
    return status;
}
static vram_status call_drain(struct scene *scene) {
    return vram_ring_drain(scene->object, SECOND);
}
static vram_status call_join(struct scene *scene) {
    return vram_ring_join(scene->object, SECOND);
}
static vram_status call_stop(struct scene *scene) {
    return vram_ring_stop(scene->object);
}
static vram_status call_telemetry(struct scene *scene) {
    vram_ring_telemetry telemetry;
    return vram_ring_telemetry_get(scene->object, &telemetry);
}
static vram_status call_check(struct scene *scene) {
    return vram_ring_check(scene->object);
}
static vram_status call_destroy(struct scene *scene) {
    vram_status status = vram_ring_destroy(scene->object);
    scene->object = NULL;
    return status;
}

#define RING(name_, make_, call_, look_, end_, marks_)                                             \
    {                                                                                              \
        .name = name_, .make = make_, .call = call_, .look = look_, .end = end_, .marks = marks_,  \
        .bytes = 4 * KIB, .sim = REAL                                                              \
    }

static void rings(void **state) {
    static const struct trial trials[] = {
        RING("create", NULL, call_create, look_created, end_made, 0),
        RING("send", make_sync, call_send, look_ring, end_ring, 0),
        RING("send, ASYNC", make_async, call_send, look_ring, end_ring, 0),
        RING("send several", make_sync, call_send_many, look_some_sent, end_ring, TRIAL_PARTIAL),
        RING("flush", make_sync, call_flush, look_flush, end_ring, TRIAL_PARTIAL),
        RING("flush, ASYNC", make_async, call_flush_async, look_flush, end_ring, TRIAL_PARTIAL),
        RING("fetch", make_sync, call_fetch, look_fetch, end_ring, TRIAL_PARTIAL),
        RING("fetch, ASYNC", make_async, call_fetch, look_ring, end_ring, 0),
        RING("receive", make_sync, call_receive, look_ring, end_ring, 0),
        RING("receive, ASYNC", make_async, call_receive, look_ring, end_ring, 0),
        RING("drain", make_ended, call_drain, look_ring, end_ring, 0),
        RING("join", make_ended, call_join, look_ring, end_ring, 0),
        RING("stop", make_sync, call_stop, look_stop, end_ring, TRIAL_PARTIAL),
        RING("telemetry", make_ended, call_telemetry, look_ring, end_ring, 0),
        RING("check", make_sync, call_check, look_ring, end_ring, 0),
        RING("destroy", make_sync, call_destroy, NULL, NULL, TRIAL_NEVER_FAILS),
    };
    (void)state;
    TRIALS(trials);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {HERE(rings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
