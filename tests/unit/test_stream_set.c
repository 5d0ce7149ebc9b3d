/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stream_set.c: sets of streams. On the host device a gate holds streams up, so that "beside
 * each other" and "one deadline" are facts and not likelihoods; on simulated devices every call
 * fails once.
 */
#include "unit/gate_world.h"
#include "unit/mem_world.h"
#include "vram/stream.h"

#include <pthread.h>
#include <stdio.h>

#define MS UINT64_C(1000000)

static vram_stream_set *set_of(struct rig *rig, uint32_t count) {
    vram_stream_set_options options = {.size = sizeof options, .count = count};
    vram_stream_set *set;
    assert_ok(vram_stream_set_create(rig->device, &options, &set));
    return set;
}

static vram_queue *stream(vram_stream_set *set, uint32_t index) {
    vram_queue *queue;
    assert_ok(vram_stream_set_get(set, index, &queue));
    return queue;
}

static vram_stream_info info_of(vram_stream_set *set, uint32_t index) {
    vram_stream_info info = {.size = sizeof info};
    assert_ok(vram_stream_info_get(set, index, &info));
    return info;
}

static void expect_told(const char *part) {
    if (!strstr(vram_error_get()->text, part)) {
        fail_msg("\"%s\" is not in \"%s\"", part, vram_error_get()->text);
    }
}

/* A wait that meets its deadline names the stream that is held up. On a busy machine another's
   point may be late too: then it gets more time, which the one that is held up does not use. */
static void expect_late(vram_stream_set *set, const char *name) {
    for (uint64_t timeout = 5 * MS; timeout < 20 * SECOND; timeout *= 4) {
        assert_int_equal(vram_stream_set_wait(set, timeout), VRAM_ERR_TIMEOUT);
        if (strstr(vram_error_get()->text, name)) {
            return;
        }
    }
    expect_told(name);
}

/* ------------------------------------------------------------- the three, in turn */

/* One stream that is held up holds up neither the others nor queues outside the set. */
TEST(acceptance_21_three_distinct_and_non_blocking) {
    static const char *const names[] = {"compute", "memory", "analysis"};
    vram_stream_set *set;
    struct gate gate;
    struct rig rig = rig_make("host", NULL);
    assert_ok(vram_stream_set_create(rig.device, NULL, &set));
    for (uint32_t held = 0; held < VRAM_STREAM_COUNT; held++) {
        gate_shut(rig.device, stream(set, held), &gate);
        for (uint32_t i = 0; i < VRAM_STREAM_COUNT; i++) {
            vram_queue *found;
            assert_string_equal(info_of(set, i).name, names[i]);
            assert_int_equal(info_of(set, i).index, i);
            assert_ok(vram_stream_set_find(set, names[i], &found));
            assert_ptr_equal(found, stream(set, i));
            assert_ptr_equal(info_of(set, i).queue, found);
            assert_ptr_not_equal(found, stream(set, (i + 1) % VRAM_STREAM_COUNT));
            assert_int_equal(vram_queue_wait(found, i == held ? 0 : SECOND * 10),
                             i == held ? VRAM_ERR_TIMEOUT : VRAM_OK);
        }
        assert_ok(vram_queue_wait(rig.queue, 10 * SECOND));
        vram_error_clear();
        assert_int_equal(vram_stream_set_poll(set), VRAM_ERR_NOT_READY);
        expect_no_record();
        expect_late(set, names[held]);
        gate_open(&gate);
        assert_ok(vram_stream_set_wait(set, 10 * SECOND));
        assert_ok(vram_stream_set_poll(set));
    }
    assert_int_equal(vram_stream_set_get(set, VRAM_STREAM_COUNT, &rig.other_queue),
                     VRAM_ERR_INVALID);
    vram_stream_set_destroy(set);
    vram_context_destroy(rig.context);
}

static void *ask_for_turns(void *argument) {
    for (int i = 0; i < 3000; i++) {
        vram_queue *queue;
        assert_ok(vram_stream_set_next(argument, &queue));
    }
    return NULL;
}

TEST(acceptance_21_round_robin_order, "sim:memory=64M") {
    pthread_t threads[4];
    vram_stream_set *set = set_of(rig, 0);
    for (uint32_t i = 0; i < 7; i++) {
        vram_queue *queue;
        assert_ok(vram_stream_set_next(set, &queue));
        assert_ptr_equal(queue, stream(set, i % 3));
    }
    assert_int_equal(info_of(set, 0).turns, 3);
    assert_int_equal(info_of(set, 1).turns, 2);
    assert_int_equal(info_of(set, 2).turns, 2);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_turns, set), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(info_of(set, 0).turns, 4003);
    assert_int_equal(info_of(set, 1).turns, 4002);
    assert_int_equal(info_of(set, 2).turns, 4002);
    vram_stream_set_destroy(set);
}

/* --------------------------------------------------------------------------- errors */

/* A driver that answers polls with an error: whoever waits is told at once, and by no means later
   than the deadline. The original took such an answer for "not ready" and looped for ever. */
TEST(acceptance_21_an_error_propagates, "sim:memory=64M") {
    vram_async async;
    vram_point point;
    vram_stream_set *set = set_of(rig, 0);
    hook_set(rig->device);
    hook.poll_answer = VRAM_ERR_NOT_READY; /* the device stands still, so that work is pending */
    assert_ok(vram_stream_set_mark(set, &point));
    hook.poll_answer = VRAM_ERR_BACKEND;
    assert_took(assert_int_equal(vram_point_wait(point, 30 * SECOND), VRAM_ERR_BACKEND), 0,
                10 * SECOND);
    assert_took(assert_int_equal(vram_stream_set_wait(set, 30 * SECOND), VRAM_ERR_BACKEND), 0,
                10 * SECOND);
    expect_told("stream \"");
    vram_error_clear();
    assert_int_equal(vram_stream_set_poll(set), VRAM_ERR_BACKEND);
    expect_told("stream \"");
    hook.poll_answer = VRAM_OK;
    hook.signal_answer = VRAM_ERR_BACKEND;
    assert_int_equal(vram_stream_set_sync(set, &async), VRAM_ERR_BACKEND);
    assert_int_equal(vram_stream_set_wait(set, 30 * SECOND), VRAM_ERR_BACKEND);
    assert_int_equal(vram_stream_set_mark(set, &point), VRAM_ERR_BACKEND);
    assert_int_equal(vram_stream_set_order(set, 0, 1), VRAM_ERR_BACKEND);
    assert_int_equal(vram_stream_set_barrier(set), VRAM_ERR_BACKEND);
    hook.signal_answer = VRAM_OK;
    assert_ok(vram_stream_set_wait(set, 30 * SECOND)); /* and it goes on */
    vram_stream_set_destroy(set);
}

/* ------------------------------------------------------------------------ deadlines */

/* Eight streams that do not finish take one deadline, not eight; so does the end of the set. */
TEST(one_deadline_serves_all_streams) {
    vram_point points[8];
    struct gate gate;
    assert_ok(vram_option_set("wait_timeout", "1s"));
    struct rig rig = rig_make("host", NULL);
    vram_stream_set *set = set_of(&rig, 8);
    for (uint32_t i = 0; i < 8; i++) {
        gate_shut(rig.device, stream(set, i), &gate);
        assert_ok(vram_queue_mark(stream(set, i), &points[i]));
    }
    assert_took(assert_int_equal(vram_stream_set_wait(set, 0), VRAM_ERR_TIMEOUT), 0, 30 * SECOND);
    assert_took(assert_int_equal(vram_stream_set_wait(set, VRAM_TIMEOUT_DEFAULT), VRAM_ERR_TIMEOUT),
                SECOND, 7 * SECOND);
    expect_told("stream \"0\"");
    vram_status ended = VRAM_OK;
    assert_took(ended = vram_stream_set_destroy(set), SECOND, 7 * SECOND);
    assert_int_equal(ended, VRAM_ERR_TIMEOUT);
    assert_string_equal(vram_error_get()->operation, "vram_stream_set_destroy");
    assert_int_equal(vram_stream_set_destroy(set), VRAM_ERR_STALE);
    assert_int_equal(vram_stream_set_poll(set), VRAM_ERR_STALE);
    gate_open(&gate);
    for (uint32_t i = 0; i < 8; i++) { /* kept aside, their points tell the truth */
        assert_ok(vram_point_wait(points[i], 30 * SECOND));
    }
    vram_context_destroy(rig.context);
}

/* ---------------------------------------------------------------------------- order */

/* A point of the set lies behind every stream, and holds none of them up. */
TEST(a_mark_lies_behind_every_stream) {
    struct gate gate;
    vram_point point;
    vram_queue *transfer;
    vram_async async;
    struct rig rig = rig_make("host", NULL);
    vram_stream_set *set = set_of(&rig, 4);
    for (uint32_t held = 0; held < 5; held++) {
        assert_ok(vram_stream_set_transfer(set, &transfer));
        gate_shut(rig.device, held < 4 ? stream(set, held) : transfer, &gate);
        assert_ok(vram_stream_set_mark(set, &point));
        assert_ok(vram_stream_set_sync(set, &async));
        assert_int_equal(vram_point_wait(point, 5 * MS), VRAM_ERR_TIMEOUT);
        assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
        assert_int_equal(vram_point_poll(point), VRAM_ERR_NOT_READY);
        assert_int_equal(vram_stream_set_wait(set, MS), VRAM_ERR_TIMEOUT);
        assert_ok(vram_queue_wait(stream(set, (held + 1) % 4), 10 * SECOND));
        gate_open(&gate);
        assert_ok(vram_point_wait(point, 10 * SECOND));
        assert_ok(vram_async_wait(&async, 10 * SECOND));
        assert_ok(vram_async_wait(&async, 0)); /* twice is fine */
    }
    vram_stream_set_destroy(set);
    vram_context_destroy(rig.context);
}

/* Work of each stream is ordered by waits between them alone: completion is late and out of
   order. */
TEST(waits_order_streams) {
    enum { COUNT = 3, BYTES = 4096 };
    for (uint32_t seed = 1; seed <= 20; seed++) {
        char sim[64];
        uint8_t found[BYTES];
        vram_addr addr;
        snprintf(sim, sizeof sim, "memory=64M,lag=50,seed=%u", seed);
        struct rig rig = rig_make("sim", sim);
        vram_stream_set *set = set_of(&rig, COUNT);
        vram_queue *transfer;
        vram_point point;
        assert_ok(vram_stream_set_transfer(set, &transfer));
        assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &addr));
        for (uint32_t i = 0; i < 12; i++) { /* one stream after the other */
            assert_ok(vram_queue_fill(stream(set, i % COUNT), addr, i, 1, BYTES));
            assert_ok(vram_stream_set_order(set, i % COUNT, (i + 1) % COUNT));
        }
        assert_ok(vram_stream_set_order(set, 0, 0));
        assert_ok(vram_stream_set_barrier(set)); /* the transfer queue behind all of them */
        assert_ok(vram_queue_download(transfer, found, addr, BYTES));
        assert_ok(vram_stream_set_barrier(set)); /* and all behind it */
        assert_ok(vram_queue_fill(stream(set, 2), addr, 0x55, 1, BYTES));
        assert_ok(vram_stream_set_wait(set, 30 * SECOND));
        for (uint32_t i = 0; i < BYTES; i++) {
            assert_int_equal(found[i], 11);
        }
        assert_ok(vram_queue_fill(rig.queue, addr, 0x66, 1, BYTES)); /* a queue outside */
        assert_ok(vram_queue_mark(rig.queue, &point));
        assert_ok(vram_stream_set_after(set, point));
        assert_ok(vram_queue_download(stream(set, 1), found, addr, BYTES));
        assert_ok(vram_stream_set_wait(set, 30 * SECOND));
        assert_int_equal(found[0], 0x66);
        assert_int_equal(found[BYTES - 1], 0x66);
        vram_stream_set_destroy(set);
        assert_ok(vram_device_free(rig.device, addr));
        rig_end_clean(&rig);
    }
}
