/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_pool.c: pools on CUDA's streams, over the fake driver: streams that are captured into
 * graphs, the default stream that every thread has under one name, handles that come back for other
 * streams, and threads on which another device is current. The driver counts what no correct caller
 * does.
 */
#include "unit/cuda_stage.h"

/* --------------------------------------------------------------------- captures */

/* Allocating, freeing, using, trimming and asking while a stream is captured: the capture goes on,
   and no marker goes into it. */
TEST(captures_go_on) {
    static const int versions[] = {12000, 13000};
    struct stage *stage = rig_state;
    for (int i = 0; i < 2; i++) {
        fake->version(versions[i]);
        stage_open(stage, UINT64_C(4) << 30, "5s");
        struct vr_cu_stream *stream = fake->stream_make(0, false, false);
        vram_queue *captured;
        vram_addr small, large, again, shared, fence, spare;
        assert_ok(vram_queue_adopt(stage->device, stream, &captured));
        assert_ok(vram_alloc(stage->pool, 5 * MIB, stage->queue, &shared));
        fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
        assert_ok(vram_alloc(stage->pool, 1000, captured, &small));
        assert_ok(vram_alloc(stage->pool, 40 * MIB, captured, &large));
        assert_ok(vram_resize(large, 44 * MIB, captured));
        assert_ok(vram_resize(large, 40 * MIB, captured));
        assert_ok(vram_queue_fill(captured, small, 1, 4, 400));
        assert_ok(vram_queue_fill(captured, large, 1, 4, 400));
        assert_ok(vram_queue_fill(captured, shared, 1, 4, 400));
        assert_ok(vram_use(shared, captured)); /* in the time of the graph's stream */
        assert_ok(vram_free(small, captured));
        assert_ok(vram_free(large, captured));
        assert_ok(vram_free(shared, stage->queue));
        assert_ok(vram_alloc(stage->pool, 40 * MIB, captured, &again));
        assert_int_equal(again, large); /* the graph runs in order with itself */
        assert_ok(vram_free(again, captured));
        /* What others have freed goes back all the same. */
        assert_ok(vram_alloc(stage->pool, 6 * MIB, stage->queue, &fence));
        assert_ok(vram_alloc(stage->pool, 30 * MIB, stage->queue, &spare));
        assert_ok(vram_free(spare, stage->queue));
        assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
        uint64_t before = stats_of(stage->pool).reserved_bytes;
        assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
        assert_true(stats_of(stage->pool).reserved_bytes + 20 * MIB <= before);
        assert_true(stats_of(stage->pool).reserved_bytes >= 45 * MIB);
        assert_int_equal(fake->captured(), 3);
        assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
        fake->capture(stream, VR_CU_CAPTURE_NONE);
        adoption_end(captured, stream);
        stage_close(stage);
        fake->reset();
        fake->devices(2);
    }
}

/* What was freed in a capture waits for its end, and is there for everybody after it. */
TEST(frees_in_a_capture_are_kept_for_later) {
    struct stage *stage = rig_state;
    stage_open(stage, 128 * MIB, "50ms");
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    vram_queue *captured;
    vram_addr freed, used, next, other;
    assert_ok(vram_queue_adopt(stage->device, stream, &captured));
    assert_ok(vram_alloc(stage->pool, 60 * MIB, captured, &freed));
    assert_ok(vram_alloc(stage->pool, 10 * MIB, stage->queue, &used));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_ok(vram_use(used, captured));
    assert_ok(vram_free(freed, captured));
    assert_ok(vram_free(used, stage->queue));
    assert_ok(vram_alloc(stage->pool, 10 * MIB, stage->queue, &next));
    assert_true(next != used);
    assert_true(next + 10 * MIB <= freed || freed + 60 * MIB <= next);
    assert_int_equal(vram_alloc(stage->pool, 60 * MIB, stage->queue, &other),
                     VRAM_ERR_DEVICE_MEMORY); /* a clean refusal, and the capture goes on */
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    assert_ok(vram_alloc(stage->pool, 60 * MIB, stage->queue, &other));
    assert_ok(vram_free(other, stage->queue));
    assert_ok(vram_free(next, stage->queue));
    assert_ok(vram_queue_wait(captured, FOR_EVER));
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
    assert_int_equal(stats_of(stage->pool).reserved_bytes, 0);
    adoption_end(captured, stream);
    stage_close(stage);
}

static void *let_go(void *argument) {
    (void)argument;
    vr_os_sleep(30000000);
    fake->hold(false);
    return NULL;
}

/* A captured stream cannot be told to wait for another one: the host does. */
TEST(captured_queues_get_others_memory) {
    struct stage *stage = rig_state;
    stage_open(stage, 128 * MIB, "5s");
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    vram_queue *captured;
    vram_addr freed, next;
    pthread_t thread;
    assert_ok(vram_queue_adopt(stage->device, stream, &captured));
    assert_ok(vram_alloc(stage->pool, 100 * MIB, stage->queue, &freed));
    fake->hold(true);
    assert_ok(vram_queue_fill(stage->queue, freed, 1, 4, 400));
    assert_ok(vram_free(freed, stage->queue));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
    assert_ok(vram_alloc(stage->pool, 100 * MIB, captured, &next));
    pthread_join(thread, NULL);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    assert_ok(vram_free(next, captured));
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    adoption_end(captured, stream);
    stage_close(stage);
}

static void *capture_one(void *argument) {
    struct stage *stage = argument;
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    vram_queue *captured;
    vram_addr addrs[4];
    assert_ok(vram_queue_adopt(stage->device, stream, &captured));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 4; i++) {
            assert_ok(
                vram_alloc(stage->pool, (uint64_t)(round + 1) * 70 * KIB, captured, &addrs[i]));
            assert_ok(vram_queue_fill(captured, addrs[i], 1, 4, 400));
        }
        for (int i = 0; i < 4; i++) {
            assert_ok(vram_free(addrs[i], captured));
        }
    }
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    adoption_end(captured, stream);
    return NULL;
}

/* Captures of several threads at once are nobody's but their own streams'. */
TEST(captures_do_not_mix) {
    enum { THREADS = 4 };
    struct stage *stage = rig_state;
    pthread_t threads[THREADS];
    stage_open(stage, UINT64_C(4) << 30, "5s");
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, capture_one, stage), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
    assert_int_equal(stats_of(stage->pool).reserved_bytes, 0);
    stage_close(stage);
}

/* A hit calls no driver, so it need not know of captures at all. */
TEST(hits_ask_nobody) {
    struct stage *stage = rig_state;
    vram_addr addr;
    stage_open(stage, UINT64_C(4) << 30, "5s");
    for (int warm = 1; warm >= 0; warm--) {
        uint64_t before = fake->calls(NULL);
        for (int i = 0; i < 10000; i++) {
            assert_ok(vram_alloc(stage->pool, 1000, stage->queue, &addr));
            assert_ok(vram_free(addr, stage->queue));
        }
        assert_true(warm || fake->calls(NULL) == before);
    }
    stage_close(stage);
}

/* --------------------------------------------------------------- default streams */

struct other_thread {
    struct stage *stage;
    vram_queue *queue;
    vram_addr addr;
};

static void *use_own_default_stream(void *argument) {
    struct other_thread *thread = argument;
    assert_ok(vram_queue_adopt(thread->stage->device, PER_THREAD, &thread->queue));
    assert_ok(vram_alloc(thread->stage->pool, 40 * KIB, thread->queue, &thread->addr));
    return NULL;
}

/* One handle, as many streams as threads: what one thread has freed is not free for another's. */
TEST(default_streams_are_told_apart) {
    struct stage *stage = rig_state;
    struct other_thread other = {.stage = stage};
    vram_queue *mine;
    vram_addr addr, again;
    pthread_t thread;
    stage_open(stage, UINT64_C(4) << 30, "5s");
    assert_ok(vram_queue_adopt(stage->device, PER_THREAD, &mine));
    assert_ok(vram_alloc(stage->pool, 40 * KIB, mine, &addr));
    fake->hold(true);
    assert_ok(vram_queue_fill(mine, addr, 1, 4, 400));
    assert_ok(vram_free(addr, mine));
    assert_int_equal(pthread_create(&thread, NULL, use_own_default_stream, &other), 0);
    pthread_join(thread, NULL);
    assert_int_not_equal(other.addr, addr);
    assert_ok(vram_alloc(stage->pool, 40 * KIB, mine, &again));
    assert_int_equal(again, addr); /* its own stream may have it at once */
    fake->hold(false);
    /* This thread frees for that one: it may not mark a stream that it cannot reach. */
    assert_ok(vram_free(other.addr, other.queue));
    assert_ok(vram_free(again, mine));
    assert_ok(vram_queue_wait(mine, FOR_EVER));
    assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
    assert_int_equal(stats_of(stage->pool).reserved_bytes, 0);
    stage_close(stage);
}

/* ------------------------------------------------- what the other queue is at the free */

enum other_kind { RUNNING, CAPTURED, IMPLICIT, OTHER_THREAD, KINDS };

struct other_user {
    struct stage *stage;
    enum other_kind kind;
    struct vr_cu_stream *stream;
    vram_queue *queue;
    vram_addr used;
};

/* Names the queue, and submits the work later. */
static void *other_user_begin(void *argument) {
    struct other_user *user = argument;
    void *native = user->kind == IMPLICIT       ? NULL
                   : user->kind == OTHER_THREAD ? PER_THREAD
                                                : user->stream;
    assert_ok(vram_queue_adopt(user->stage->device, native, &user->queue));
    assert_ok(vram_use(user->used, user->queue));
    assert_ok(vram_queue_wait(user->queue, FOR_EVER));
    fake->hold(true);
    assert_ok(vram_queue_fill(user->queue, user->used, 0xDD, 1, 40 * KIB));
    return NULL;
}

/* A free waits for the work that another queue has by then, whatever that queue is: running, being
   captured, the default stream that a capture elsewhere makes unusable, or another thread's. It
   neither fails nor blocks, and the capture goes on. */
TEST(the_free_covers_late_work) {
    struct stage *stage = rig_state;
    for (enum other_kind kind = RUNNING; kind < KINDS; kind++) {
        struct other_user user = {.stage = stage, .kind = kind};
        vram_addr next;
        pthread_t thread;
        stage_open(stage, UINT64_C(4) << 30, "5s");
        user.stream = fake->stream_make(0, kind == IMPLICIT, false);
        assert_ok(vram_alloc(stage->pool, 40 * KIB, stage->queue, &user.used));
        assert_int_equal(pthread_create(&thread, NULL, other_user_begin, &user), 0);
        pthread_join(thread, NULL);
        bool captures = kind == CAPTURED || kind == IMPLICIT;
        fake->capture(user.stream, captures ? VR_CU_CAPTURE_ACTIVE : VR_CU_CAPTURE_NONE);
        vram_error_clear();
        assert_ok(vram_free(user.used, stage->queue));
        assert_int_equal(vram_error_get()->status, VRAM_OK);
        for (int i = 0; i < 3; i++) {
            assert_ok(vram_alloc(stage->pool, 40 * KIB, stage->queue, &next));
            assert_int_not_equal(next, user.used);
            assert_ok(vram_free(next, NULL));
            assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
        }
        assert_int_equal(fake->capture_status(user.stream),
                         captures ? VR_CU_CAPTURE_ACTIVE : VR_CU_CAPTURE_NONE);
        assert_int_equal(fake->captured(), 0);
        fake->capture(user.stream, VR_CU_CAPTURE_NONE);
        fake->hold(false);
        assert_ok(vram_queue_wait(user.queue, FOR_EVER));
        assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
        assert_int_equal(stats_of(stage->pool).reserved_bytes, 0); /* and nothing is stranded */
        adoption_end(user.queue, user.stream);
        stage_close(stage);
        fake->reset();
        fake->devices(2);
    }
}

/* -------------------------------------------------------------- recycled handles */

/* The native handle of a stream comes back for another one, which is another queue. */
TEST(recycled_handles_are_other_queues) {
    struct stage *stage = rig_state;
    vram_queue *first, *second;
    vram_addr addr, next;
    stage_open(stage, UINT64_C(4) << 30, "5s");
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    assert_ok(vram_queue_adopt(stage->device, stream, &first));
    assert_ok(vram_alloc(stage->pool, 40 * KIB, first, &addr));
    assert_ok(vram_queue_fill(first, addr, 1, 4, 400));
    assert_ok(vram_free(addr, first));
    assert_ok(vram_queue_end(first));
    assert_ok(vram_queue_adopt(stage->device, stream, &second)); /* as if it were a new one */
    assert_true(first != second);
    assert_int_equal(vram_alloc(stage->pool, 40 * KIB, first, &next), VRAM_ERR_STALE);
    fake->hold(true);
    assert_ok(vram_alloc(stage->pool, 40 * KIB, second, &next)); /* all work of `first` was done */
    assert_int_equal(next, addr);
    assert_ok(vram_queue_fill(second, next, 1, 4, 400));
    assert_ok(vram_free(next, second));
    assert_ok(vram_alloc(stage->pool, 40 * KIB, stage->queue, &next));
    assert_int_not_equal(next, addr); /* and none of `second` */
    fake->hold(false);
    adoption_end(second, stream);
    stage_close(stage);
}

/* A stream that the program forgets about strands nothing: when it is idle its memory is there. */
TEST(forgotten_streams_strand_nothing) {
    struct stage *stage = rig_state;
    vram_queue *forgotten;
    vram_addr addr, next;
    stage_open(stage, 128 * MIB, "5s");
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    assert_ok(vram_queue_adopt(stage->device, stream, &forgotten));
    for (int i = 0; i < 20; i++) { /* small enough that nobody marks the stream */
        assert_ok(vram_alloc(stage->pool, 5 * MIB, forgotten, &addr));
        assert_ok(vram_queue_fill(forgotten, addr, 1, 4, 400));
        assert_ok(vram_free(addr, forgotten));
    }
    uint64_t before = fake->calls("cuStreamWriteValue64");
    assert_ok(vram_alloc(stage->pool, 124 * MIB, stage->queue, &next));
    assert_int_equal(fake->calls("cuStreamWriteValue64"), before); /* not this thread's to mark */
    adoption_end(forgotten, stream);
    stage_close(stage);
}

/* ------------------------------------------------------------------ other devices */

/* Whatever context is current on the calling thread: it stays so, and the work of the pool's own
   device is what counts before memory is unmapped. */
TEST(other_devices_may_be_current) {
    struct stage *stage = rig_state;
    vram_addr addrs[8], large;
    stage_open(stage, 128 * MIB, "5s");
    fake->push_other(1);
    struct vr_cu_context *current = fake->current();
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_alloc(stage->pool, 10 * MIB, stage->queue, &addrs[i]));
    }
    fake->hold(true);
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_queue_fill(stage->queue, addrs[i], 1, 4, 400));
    }
    for (int i = 0; i < 8; i += 2) {
        assert_ok(vram_free(addrs[i], stage->queue));
    }
    assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
    assert_true(stats_of(stage->pool).reserved_bytes >= 80 * MIB); /* all of it is at work */
    fake->hold(false);
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    assert_ok(vram_alloc(stage->pool, 70 * MIB, stage->queue, &large)); /* from holes */
    assert_true(fake->current() == current);
    assert_int_equal(fake->depth(), 1);
    fake->pop();
    stage_close(stage);
}

/* ---------------------------------------------------------------- captured regions */

static bool overlap(vram_addr a, uint64_t a_bytes, vram_addr b, uint64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

/* Nobody else is given what a region holds: not after the capture, not after waiting, not when the
   pool is trimmed. */
static void assert_kept(struct stage *stage, vram_addr kept, uint64_t bytes) {
    vram_addr found[24];
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
    for (int i = 0; i < 24; i++) {
        assert_ok(vram_alloc(stage->pool, 5 * MIB, stage->queue, &found[i]));
        assert_false(overlap(found[i], 5 * MIB, kept, bytes));
    }
    for (int i = 0; i < 24; i++) {
        assert_ok(vram_free(found[i], stage->queue));
    }
    assert_true(fake->reaches(0, kept) && fake->reaches(0, kept + bytes - 1)); /* for the graph */
}

/* The life of a graph: captured, launched again and again, thrown away. */
TEST(what_a_graph_uses_is_kept_for_it) {
    struct stage *stage = rig_state;
    vram_queue *adopted, *region;
    vram_addr block, again;
    vram_point point;
    stage_open(stage, UINT64_C(4) << 30, "5s");
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    assert_ok(vram_queue_adopt(stage->device, stream, &adopted));
    assert_ok(vram_capture_begin(adopted, &region));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_ok(vram_alloc(stage->pool, 20 * MIB, region, &block));
    assert_ok(vram_queue_fill(region, block, 1, 4, 400));
    assert_ok(vram_free(block, region));
    assert_ok(vram_alloc(stage->pool, 20 * MIB, region, &again));
    assert_int_equal(again, block); /* the graph runs in order with itself */
    assert_ok(vram_free(again, region));
    assert_int_equal(vram_capture_end(region), VRAM_ERR_CAPTURE);
    assert_kept(stage, block, 20 * MIB);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    /* The stream is idle and could be marked; the graph may be launched at any time. */
    assert_int_equal(vram_queue_mark(region, &point), VRAM_ERR_CAPTURE);
    assert_int_equal(vram_queue_end(region), VRAM_ERR_INVALID);
    assert_int_equal(vram_capture_end(adopted), VRAM_ERR_INVALID);
    assert_ok(vram_queue_wait(adopted, FOR_EVER));
    assert_kept(stage, block, 20 * MIB);
    uint64_t before = stats_of(stage->pool).reserved_bytes;
    assert_ok(vram_capture_end(region));
    assert_ok(vram_queue_wait(adopted, FOR_EVER));
    assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
    assert_true(stats_of(stage->pool).reserved_bytes + 10 * MIB <= before); /* it is free now */
    adoption_end(adopted, stream);
    stage_close(stage);
}

/* A pool sleeps between launches of its graphs, and what they use is kept, whatever is asked. */
TEST(graphs_find_their_memory_after_sleep) {
    struct stage *stage = rig_state;
    vram_queue *adopted, *region;
    vram_addr block, freed;
    uint32_t word = 0;
    stage_open(stage, UINT64_C(4) << 30, "5s");
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    assert_ok(vram_queue_adopt(stage->device, stream, &adopted));
    assert_ok(vram_capture_begin(adopted, &region));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_ok(vram_alloc(stage->pool, 20 * MIB, region, &block));
    assert_ok(vram_alloc(stage->pool, 10 * MIB, region, &freed));
    assert_ok(vram_free(freed, region));
    assert_int_equal(vram_pool_sleep(stage->pool, NULL), VRAM_ERR_CAPTURE);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    for (int i = 0; i < 2; i++) { /* the graph is launched, and the pool sleeps */
        assert_ok(vram_queue_fill(region, block, 0xABCD0000u + (uint32_t)i, 4, 20 * MIB));
        assert_ok(vram_queue_fill(region, freed, 1, 4, 10 * MIB));
        assert_ok(vram_pool_sleep(stage->pool, NULL));
        assert_true(stats_of(stage->pool).asleep_host_bytes >= 20 * MIB);
        assert_false(fake->reaches(0, block));
        assert_ok(vram_pool_wake(stage->pool, NULL));
        assert_int_equal(stats_of(stage->pool).asleep_host_bytes, 0);
        assert_ok(vram_queue_download(stage->queue, &word, block + 20 * MIB - 4, 4));
        assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
        assert_int_equal(word, 0xABCD0000u + (uint32_t)i);
        assert_kept(stage, freed, 10 * MIB);
    }
    assert_ok(vram_pool_sleep(stage->pool, NULL));
    assert_ok(vram_free(block, region)); /* asleep, and the graph still has it */
    assert_ok(vram_pool_wake(stage->pool, NULL));
    assert_kept(stage, block, 20 * MIB);
    assert_ok(vram_capture_end(region));
    assert_ok(vram_pool_sleep(stage->pool, NULL));
    assert_int_equal(stats_of(stage->pool).asleep_host_bytes, 0); /* dropped, as was asked */
    assert_ok(vram_pool_wake(stage->pool, NULL));
    adoption_end(adopted, stream);
    stage_close(stage);
}

/* A region that nobody ended goes with its device. */
TEST(forgotten_regions_strand_nothing) {
    struct stage *stage = rig_state;
    vram_queue *region;
    vram_addr block;
    stage_open(stage, UINT64_C(4) << 30, "5s");
    assert_ok(vram_capture_begin(stage->queue, &region));
    assert_ok(vram_alloc(stage->pool, 20 * MIB, region, &block));
    assert_ok(vram_queue_fill(region, block, 1, 4, 400));
    assert_ok(vram_free(block, region));
    stage_close(stage);
}

/* ---------------------------------------------------------------------- buffers */

/* Acceptance item 13: a pinned buffer is page-locked by the driver's own word, or is none. */
TEST(acceptance_13_the_driver_says_what_is_pinned) {
    struct stage *stage = rig_state;
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    vram_buffer_info info = {.size = sizeof info};
    vram_buffer *buffer = NULL;
    stage_open(stage, 64 * MIB, "1s");
    uint64_t asked = fake->calls("cuMemHostGetFlags");
    assert_ok(vram_buffer_create(stage->pool, 100 * KIB, stage->queue, &options, &buffer));
    assert_int_equal(fake->calls("cuMemHostGetFlags"), asked + 1);
    assert_ok(vram_buffer_info_get(buffer, &info));
    assert_true(info.pinned);
    assert_ok(vram_buffer_destroy(buffer));
    buffer = NULL;
    fake->refuse("cuMemHostGetFlags", 1, VR_CU_INVALID_VALUE, true);
    assert_int_equal(vram_buffer_create(stage->pool, 100 * KIB, stage->queue, &options, &buffer),
                     VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "not page-locked"));
    assert_null(buffer);
    options.flags = VRAM_BUFFER_PAGEABLE;
    assert_ok(vram_buffer_create(stage->pool, 100 * KIB, stage->queue, &options, &buffer));
    assert_ok(vram_buffer_info_get(buffer, &info));
    assert_false(info.pinned); /* and says so */
    fake->refuse("cuMemHostGetFlags", 1, VR_CU_UNKNOWN, true);
    vram_buffer *none = NULL;
    assert_int_equal(vram_buffer_create(stage->pool, 100 * KIB, stage->queue, &options, &none),
                     VRAM_ERR_BACKEND);
    assert_null(none);
    fake->refuse(NULL, 0, 0, false);
    stage_close(stage);
}

EACH_TEST(stage_begin, stage_end)
