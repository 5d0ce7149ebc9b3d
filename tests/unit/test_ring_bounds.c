/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ring_bounds.c: rings with bad input, damage, peers that die, drivers that fail, and ends at
 * bad moments.
 */
#include "unit/ring_world.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define MILLISECOND UINT64_C(1000000)

static vram_ring_options small(vram_ring_strategy strategy) {
    return (vram_ring_options){.size = sizeof(vram_ring_options),
                               .strategy = strategy,
                               .input_capacity = 4,
                               .output_capacity = 4,
                               .message_bytes = 56,
                               .poll_ns = 20000};
}

static const vram_ring_strategy strategies[] = {VRAM_RING_SYNC, VRAM_RING_ASYNC, VRAM_RING_DIRECT,
                                                VRAM_RING_DMA_POLLING};
enum { STRATEGIES = 4 };

/* ---------------------------------------------------------------- bad input */

static void refuse(vram_pool *pool, vram_ring_options options, vram_status status,
                   const char *text) {
    vram_ring *ring = (vram_ring *)(uintptr_t)1;
    vram_error_clear();
    assert_int_equal(vram_ring_create(pool, &options, &ring), status);
    assert_ptr_equal(ring, (void *)(uintptr_t)1);
    assert_int_equal(vram_error_get()->status, status);
    if (!strstr(vram_error_get()->text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", vram_error_get()->text, text);
    }
}

#define REFUSE(status, text, ...)                                                                  \
    refuse(pool, (vram_ring_options){.size = sizeof(vram_ring_options), __VA_ARGS__}, status, text)

/* WSL by an injected text, other systems by visibility: what a program there would get. */
TEST(strategies_are_refused_with_a_reason) {
    struct rig sim = rig_make("sim", "real=on");
    vram_pool *pool;
    assert_ok(vram_pool_create(sim.device, NULL, &pool));
    REFUSE(VRAM_ERR_UNSUPPORTED, "inside a call", .strategy = VRAM_RING_DIRECT);
    REFUSE(VRAM_ERR_UNSUPPORTED, "visibility \"system\"", .visibility = VRAM_VISIBILITY_SYSTEM);
    vram_ring *ring;
    assert_ok(vram_ring_create(pool, NULL, &ring));
    vram_ring_info info = {.size = sizeof info};
    assert_ok(vram_ring_info_get(ring, &info));
    assert_int_equal(info.strategy, VRAM_RING_DMA_POLLING);
    assert_int_equal(info.poll_ns, VRAM_RING_POLL_NS);
    assert_non_null(info.queue);
    assert_ok(vram_ring_destroy(ring));
    vram_context_destroy(sim.context);
    assert_string_equal(vram_ring_strategy_name(VRAM_RING_DMA_POLLING), "dma_polling");
    assert_string_equal(vram_ring_strategy_name((vram_ring_strategy)5), "unknown");
}

/* --------------------------------------------------------------------- deaths */

TEST(a_consumer_that_dies_is_noticed) {
    for (int i = 0; i < STRATEGIES; i++) {
        vram_ring_options options = small(strategies[i]);
        struct ring_rig world = ring_rig_make("host", &options, sink_kernel);
        struct note note;
        world.order = (struct kernel_order){.count = 3, .resident = 1};
        ring_launch(&world, world.rig.queue);
        for (uint64_t sent = 0; sent < 7; sent++) { /* three that it takes, four that wait */
            note = note_of(sent);
            assert_ok(vram_ring_send(world.ring, &note, note_bytes(sent), 0, 20 * SECOND));
            assert_ok(sent == 2 ? vram_ring_drain(world.ring, 20 * SECOND) : VRAM_OK);
        }
        assert_int_equal(vram_ring_send(world.ring, "x", 1, 0, 5 * MILLISECOND), VRAM_ERR_TIMEOUT);
        assert_int_equal(vram_ring_drain(world.ring, MILLISECOND), VRAM_ERR_TIMEOUT);
        assert_non_null(strstr(vram_error_get()->text, "taken 3 of 7"));
        assert_ok(vram_ring_stop(world.ring));
        assert_int_equal(vram_ring_join(world.ring, MILLISECOND), VRAM_ERR_TIMEOUT);
        ring_rig_end(&world);
    }
}

/* --------------------------------------------------------------------- damage */

/* Writes over a part of the block as a kernel gone wild would. */
static void scribble(struct ring_rig *world, uint64_t offset, uint64_t value) {
    assert_ok(vram_queue_upload(world->rig.queue, world->info.control + offset, &value, 8));
    assert_ok(vram_queue_wait(world->rig.queue, 20 * SECOND));
}

TEST(a_damaged_control_block_is_found) {
    static const uint64_t places[] = {
        32, 56, 80, 88, 96, 104, 112, 120, VRAM_RING_AT_INPUT_TAIL, VRAM_RING_AT_OUTPUT_HEAD};
    for (int i = 0; i < STRATEGIES; i++) {
        for (size_t j = 0; j < sizeof places / sizeof places[0]; j++) {
            vram_ring_options options = small(strategies[i]);
            options.poll_ns = VRAM_RING_POLL_MAX_NS; /* only we look */
            struct ring_rig world = ring_rig_make("host", &options, sink_kernel);
            assert_ok(vram_ring_check(world.ring));
            scribble(&world, places[j], 0x4141414141);
            assert_int_equal(vram_ring_check(world.ring), VRAM_ERR_CORRUPT);
            assert_int_equal(vram_ring_check(world.ring), VRAM_ERR_CORRUPT); /* it stays */
            assert_int_equal(vram_ring_send(world.ring, "x", 1, 0, 0), VRAM_ERR_CORRUPT);
            assert_int_equal(vram_ring_flush(world.ring, NULL, NULL), VRAM_ERR_CORRUPT);
            assert_true(ring_stats(&world).corrupt);
            if (places[j] < 120 && places[j] != VRAM_RING_AT_INPUT_TAIL) {
                ring_launch(&world, world.rig.queue); /* a kernel refuses it too, and says so */
                assert_ok(vram_queue_wait(world.rig.queue, 20 * SECOND));
                assert_int_equal(seen.opened, 0);
            }
            ring_rig_end(&world);
        }
    }
}

/* ------------------------------------------------------------- ends at bad moments */

/* Inside an upload of the ring: ends it, or its pool, in another thread, up to where that waits. */
static struct {
    struct ring_rig *world;
    bool pool;
    pthread_t ender;
} meanwhile;

static void *end_meanwhile(void *unused) {
    assert_ok(meanwhile.pool ? vram_pool_destroy(meanwhile.world->pool)
                             : vram_ring_destroy(meanwhile.world->ring));
    return unused;
}

static void end_begins(void *unused) {
    (void)unused;
    assert_int_equal(pthread_create(&meanwhile.ender, NULL, end_meanwhile, NULL), 0);
    while (meanwhile.pool ? !vr_handle_was(VR_KIND_POOL, meanwhile.world->pool)
                          : !vr_handle_was(VR_KIND_RING, meanwhile.world->ring)) {
        sched_yield();
    }
}

static void end_inside(struct ring_rig *world, bool pool) {
    meanwhile.world = world;
    meanwhile.pool = pool;
    hook_set(world->rig.device);
    hook.meanwhile = end_begins;
}

/* A fetch that has more to do finds that its ring ends, and says so at once. */
TEST(a_fetch_does_not_outlast_its_ring) {
    vram_ring_options options = small(VRAM_RING_SYNC);
    struct ring_rig world = ring_rig_make("sim", &options, sink_kernel);
    assert_ok(vram_ring_send(world.ring, "x", 1, 0, 0));
    end_inside(&world, false);
    uint64_t begun = vr_os_now();
    vram_status status = vram_ring_fetch(world.ring, NULL, NULL);
    assert_true(vr_os_now() - begun < 3 * SECOND);
    assert_true(status == VRAM_OK || status == VRAM_ERR_SHUTDOWN);
    pthread_join(meanwhile.ender, NULL);
    vram_context_destroy(world.rig.context);
}

/* The pool's memory waits for copies that a call submits while the pool ends. */
TEST(a_late_copy_keeps_its_memory) {
    for (int lent = 0; lent < 2; lent++) {
        vram_ring_options options = small(VRAM_RING_ASYNC);
        struct rig rig = rig_make("sim", "memory=64M,lag=40");
        struct ring_rig world = {.rig = rig};
        options.queue = lent ? rig.queue : NULL;
        assert_ok(vram_pool_create(rig.device, NULL, &world.pool));
        assert_ok(vram_ring_create(world.pool, &options, &world.ring));
        assert_ok(vram_ring_send(world.ring, "x", 1, 0, 0));
        end_inside(&world, true);
        assert_int_equal(vram_ring_flush(world.ring, NULL, NULL), VRAM_ERR_SHUTDOWN);
        pthread_join(meanwhile.ender, NULL);
        rig_end_clean(&rig);
    }
}

/* -------------------------------------------------------- from its own thread */

/* What a log callback does that is told of the loss on the thread of a ring. */
static struct {
    struct rig *rig;
    vram_ring *ring;
    vram_pool *pool;
    enum { END_RING, END_POOL, END_DEVICE, END_CONTEXT } what;
    vr_atomic_u32 done; /* 1: it is being done, 2: it was */
    vram_status status;
    char text[256]; /* of the error record */
} doomed;

static void end_on_loss(void *user, vram_log_level level, const char *text) {
    uint32_t not_yet = 0;
    (void)user, (void)level;
    if (!strstr(text, "was lost") || !vr_cas(&doomed.done, &not_yet, 1, VR_ACQ_REL)) {
        return;
    }
    switch (doomed.what) {
    case END_RING:
        doomed.status = vram_ring_destroy(doomed.ring);
        snprintf(doomed.text, sizeof doomed.text, "%s", vram_error_get()->text);
        break;
    case END_POOL:
        doomed.status = vram_pool_destroy(doomed.pool);
        break;
    case END_DEVICE:
        vram_device_close(doomed.rig->device);
        break;
    case END_CONTEXT:
        vram_context_destroy(doomed.rig->context);
        break;
    }
    vr_store(&doomed.done, 2, VR_RELEASE);
}

TEST(a_ring_is_not_ended_by_its_own_thread) {
    const vram_ring_options options = {.size = sizeof options,
                                       .strategy = VRAM_RING_DMA_POLLING,
                                       .flags = VRAM_RING_INPUT | VRAM_RING_OUTPUT,
                                       .poll_ns = 50000};
    for (int what = END_RING; what <= END_CONTEXT; what++) {
        struct rig rig = rig_make("sim", "memory=1G,real=on");
        memset(&doomed, 0, sizeof doomed);
        doomed.rig = &rig;
        doomed.what = what;
        assert_ok(vram_pool_create(rig.device, NULL, &doomed.pool));
        assert_ok(vram_ring_create(doomed.pool, &options, &doomed.ring));
        vram_log_set(end_on_loss, NULL, VRAM_LOG_ERROR);
        fault(&rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST);
        uint64_t end = vr_os_now() + 20 * SECOND;
        while (vr_load(&doomed.done, VR_ACQUIRE) != 2 && vr_os_now() < end) {
            vr_os_sleep(MILLISECOND / 10);
        }
        assert_int_equal(vr_load(&doomed.done, VR_ACQUIRE), 2);
        if (what == END_RING) { /* refused: another thread may do it */
            assert_int_equal(doomed.status, VRAM_ERR_BUSY);
            assert_non_null(strstr(doomed.text, "own thread"));
            assert_ok(vram_ring_destroy(doomed.ring));
        } else {
            assert_int_equal(vram_ring_stop(doomed.ring), VRAM_ERR_STALE);
        }
        while (vr_handle_live(VR_KIND_RING) && vr_os_now() < end) {
            vr_os_sleep(MILLISECOND /
                        10); /* its thread ends behind the callback, and the ring with it */
        }
        assert_int_equal(vr_handle_live(VR_KIND_RING), 0);
        vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
        vram_context_destroy(rig.context);
        while (vram_host_bytes() > bytes_before && vr_os_now() < end) {
            vr_os_sleep(MILLISECOND / 10);
        }
    }
}
