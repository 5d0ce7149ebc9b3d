/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ring_ends.c: every call of a ring beside the end of the ring, its pool, its device and its
 * context, with every strategy. The ring's memory stays until the last call has left it, and no
 * call waits or spins for an event that can no longer happen.
 */
#include "unit/end_race.h"
#include "unit/ring_world.h"

#include "vram/async.h"

/* What a round ends. */
struct ring_world {
    struct race_world base;
    vram_ring *ring;
};

static void end_ring(void *argument) {
    assert_ok(vram_ring_destroy(((struct ring_world *)argument)->ring));
}

/* The queue that the ring's copies go on, its own or lent. */
static void end_queue(void *argument) {
    struct ring_world *world = argument;
    vram_ring_info info = {.size = sizeof info};
    assert_ok(vram_ring_info_get(world->ring, &info));
    vram_queue_destroy(info.queue);
}

static race_end *const ends[] = {end_ring, race_end_pool, race_end_device, race_end_context};
enum { ENDS = sizeof ends / sizeof ends[0], BYTES = 4096 };

/* ------------------------------------------------------------------------- calls */

static const char message[BYTES];

static vram_status call_send(void *argument) {
    struct ring_world *world = argument;
    return vram_ring_send(world->ring, message, BYTES, 1, 0);
}

static vram_status call_send_many(void *argument) {
    struct ring_world *world = argument;
    vram_ring_message many[3] = {{.data = message, .bytes = BYTES},
                                 {.data = message, .bytes = 8},
                                 {.data = message, .bytes = BYTES}};
    uint64_t sent;
    return vram_ring_send_many(world->ring, many, 3, 0, &sent);
}

/* With a long timeout: the ring stays full, since no kernel runs. */
static vram_status call_send_and_wait(void *argument) {
    struct ring_world *world = argument;
    return vram_ring_send(world->ring, message, BYTES, 1, 30 * SECOND);
}

static vram_status call_receive(void *argument) {
    struct ring_world *world = argument;
    char got[BYTES];
    return vram_ring_receive(world->ring, got, BYTES, 0, NULL);
}

static vram_status call_receive_and_wait(void *argument) {
    struct ring_world *world = argument;
    char got[BYTES];
    return vram_ring_receive(world->ring, got, BYTES, 30 * SECOND, NULL);
}

static vram_status call_flush(void *argument) {
    struct ring_world *world = argument;
    (void)vram_ring_send(world->ring, message, BYTES, 1, 0);
    return vram_ring_flush(world->ring, NULL, NULL);
}

static vram_status call_flush_handle(void *argument) {
    struct ring_world *world = argument;
    vram_async async;
    (void)vram_ring_send(world->ring, message, BYTES, 1, 0);
    vram_status status = vram_ring_flush(world->ring, NULL, &async);
    if (status == VRAM_OK) {
        vram_async_end(&async);
    }
    return status;
}

static vram_status call_fetch(void *argument) {
    return vram_ring_fetch(((struct ring_world *)argument)->ring, NULL, NULL);
}

static vram_status call_stop(void *argument) {
    return vram_ring_stop(((struct ring_world *)argument)->ring);
}

static vram_status call_drain(void *argument) {
    struct ring_world *world = argument;
    (void)vram_ring_send(world->ring, message, 8, 1, 0);
    return vram_ring_drain(world->ring, 30 * SECOND);
}

static vram_status call_join(void *argument) {
    return vram_ring_join(((struct ring_world *)argument)->ring, 30 * SECOND);
}

static vram_status call_info(void *argument) {
    vram_ring_info info = {.size = sizeof info};
    return vram_ring_info_get(((struct ring_world *)argument)->ring, &info);
}

static vram_status call_stats(void *argument) {
    vram_ring_stats stats = {.size = sizeof stats};
    return vram_ring_stats_get(((struct ring_world *)argument)->ring, &stats);
}

static vram_status call_telemetry(void *argument) {
    vram_ring_telemetry telemetry;
    return vram_ring_telemetry_get(((struct ring_world *)argument)->ring, &telemetry);
}

static vram_status call_check(void *argument) {
    return vram_ring_check(((struct ring_world *)argument)->ring);
}

static const struct {
    const char *name;
    race_call *call;
} calls[] = {
    {"send", call_send},
    {"send_many", call_send_many},
    {"send, waiting", call_send_and_wait},
    {"receive", call_receive},
    {"receive, waiting", call_receive_and_wait},
    {"flush", call_flush},
    {"flush with a handle", call_flush_handle},
    {"fetch", call_fetch},
    {"stop", call_stop},
    {"drain", call_drain},
    {"join", call_join},
    {"info_get", call_info},
    {"stats_get", call_stats},
    {"telemetry_get", call_telemetry},
    {"check", call_check},
};
enum { CALLS = sizeof calls / sizeof calls[0], ROUNDS = 2, DELAYS = 8 };

/* ------------------------------------------------------------------------ rounds */

static struct ring_world world_make(const char *backend, const char *sim,
                                    vram_ring_strategy strategy, bool lent) {
    struct ring_world world = {.base = race_world_make(backend, sim)};
    vram_ring_options options = {.size = sizeof options,
                                 .strategy = strategy,
                                 .input_capacity = 8,
                                 .output_capacity = 8,
                                 .message_bytes = BYTES,
                                 .queue = lent ? world.base.rig.queue : NULL};
    assert_ok(vram_ring_create(world.base.pool, &options, &world.ring));
    return world;
}

/* Every call beside every end, each pair with different delays, up to the time of a call that waits
   for a late copy. */
static void race_all(const char *backend, const char *sim, vram_ring_strategy strategy, bool lent) {
    for (unsigned c = 0; c < CALLS; c++) {
        for (unsigned i = 0; i < ENDS * ROUNDS; i++) {
            struct ring_world world = world_make(backend, sim, strategy, lent);
            uint64_t delay = race_delay((c + 3 * i) % DELAYS, DELAYS, 150000);
            bool good = race_run(calls[c].name, &world, calls[c].call, ends[i % ENDS], delay);
            race_world_end(&world.base, ends[i % ENDS]);
            assert_true(good);
        }
    }
}

static void calls_of_a_sync_ring(void **state) {
    (void)state;
    race_all("sim", "memory=64M,lag=20", VRAM_RING_SYNC, false);
}

static void calls_of_an_async_ring(void **state) {
    (void)state;
    race_all("sim", "memory=64M,lag=20", VRAM_RING_ASYNC, true);
}

static void calls_of_a_polled_ring(void **state) {
    (void)state;
    race_all("host", NULL, VRAM_RING_DMA_POLLING, false);
}

static void calls_of_a_direct_ring(void **state) {
    (void)state;
    race_all("host", NULL, VRAM_RING_DIRECT, false);
}

/* ----------------------------------------------------------- at one certain moment */

static void *destroy_the_ring(void *argument) {
    end_ring(argument);
    return NULL;
}

static pthread_t ender;

/* Inside an upload of the ring: destroys the ring on another thread, up to where that waits. */
static void destroy_meanwhile(void *argument) {
    assert_int_equal(pthread_create(&ender, NULL, destroy_the_ring, argument), 0);
    struct ring_world *world = argument;
    while (!vr_handle_was(VR_KIND_RING, world->ring)) {
        sched_yield();
    }
}

/* A fetch that has more to do finds that its ring ends, and says so at once. */
static void a_fetch_does_not_outlast_its_ring(void **state) {
    (void)state;
    struct ring_world world = world_make("sim", "memory=64M,lag=20", VRAM_RING_SYNC, false);
    assert_ok(vram_ring_send(world.ring, message, 8, 1, 0));
    hook_set(world.base.rig.device);
    hook.meanwhile = destroy_meanwhile;
    hook.argument = &world;
    uint64_t begun = race_clock(CLOCK_MONOTONIC);
    vram_status status = vram_ring_fetch(world.ring, NULL, NULL);
    assert_true(race_clock(CLOCK_MONOTONIC) - begun < 3 * SECOND);
    assert_true(status == VRAM_OK || status == VRAM_ERR_SHUTDOWN);
    pthread_join(ender, NULL);
    expect_protocol(&world.base.rig);
    vram_context_destroy(world.base.rig.context);
}

static void *destroy_the_pool(void *argument) {
    race_end_pool(argument);
    return NULL;
}

/* Inside an upload of the ring: destroys its pool on another thread, up to where that waits. */
static void end_pool_meanwhile(void *argument) {
    struct ring_world *world = argument;
    assert_int_equal(pthread_create(&ender, NULL, destroy_the_pool, argument), 0);
    while (!vr_handle_was(VR_KIND_POOL, world->base.pool)) {
        sched_yield();
    }
}

/* The pool's memory waits for copies that a call submits while the pool ends. */
static void a_late_copy_keeps_its_memory(void **state) {
    (void)state;
    for (int lent = 0; lent < 2; lent++) {
        struct ring_world world = world_make("sim", "memory=64M,lag=40", VRAM_RING_ASYNC, lent);
        assert_ok(vram_ring_send(world.ring, message, BYTES, 1, 0));
        hook_set(world.base.rig.device);
        hook.meanwhile = end_pool_meanwhile;
        hook.argument = &world;
        assert_int_equal(vram_ring_flush(world.ring, NULL, NULL), VRAM_ERR_SHUTDOWN);
        pthread_join(ender, NULL);
        expect_protocol(&world.base.rig);
        rig_end_clean(&world.base.rig);
    }
}

/* The queue that copies go on may end before the ring does. */
static void a_queue_ends_under_its_ring(void **state) {
    static race_call *const some[] = {call_send, call_flush, call_fetch, call_check, call_stop};
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct ring_world world = world_make("sim", "memory=64M,lag=20", VRAM_RING_SYNC, i % 2);
        bool good = race_run("a call", &world, some[i % 5], end_queue,
                             race_delay(i % DELAYS, DELAYS, 150000));
        assert_ok(vram_ring_destroy(world.ring));
        expect_protocol(&world.base.rig);
        vram_context_destroy(world.base.rig.context);
        assert_true(good);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_fetch_does_not_outlast_its_ring),
        TEST(a_late_copy_keeps_its_memory),
        TEST(a_queue_ends_under_its_ring),
        TEST(calls_of_a_sync_ring),
        TEST(calls_of_an_async_ring),
        TEST(calls_of_a_polled_ring),
        TEST(calls_of_a_direct_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
