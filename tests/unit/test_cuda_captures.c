/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_captures.c: pools beside captures in every mode, over the fake driver, which ends a
 * capture where NVIDIA's does: what each call answers, streams that the library meets in their
 * capture, and the legacy stream.
 */
#include "unit/cuda_stage.h"

/* ------------------------------------------------------------------- single calls */

/* What becomes of a call while a stream is captured: it goes into the graph, it is refused, or it
   has nothing to do with it. */
enum call { MARK, AFTER, POLL, FILL, COPY, ROWS, UPLOAD, DOWNLOAD, PREFETCH, ADVISE, PEER, CALLS };

struct calls {
    struct stage *stage;
    vram_queue *queue;
    vram_device *other;
    vram_addr addr, managed, far;
    vram_point point; /* of another queue */
    char host[64];
};

static vram_status call_one(struct calls *calls, enum call call) {
    vram_queue *queue = calls->queue;
    vram_addr addr = calls->addr;
    const vram_copy_2d rows = {{.to = addr + 64, .from = addr}, 8, 2, 16, 16};
    vram_point point;
    switch (call) {
    case MARK:
        return vram_queue_mark(queue, &point);
    case AFTER:
        return vram_queue_after(queue, calls->point);
    case POLL:
        return vram_queue_poll(queue);
    case FILL:
        return vram_queue_fill(queue, addr, 1, 4, 8);
    case COPY:
        return vram_queue_copy(queue, addr + 8, addr, 8);
    case ROWS:
        return vram_transfer_2d(queue, &rows, NULL, NULL);
    case UPLOAD:
        return vram_queue_upload(queue, addr, calls->host, 8);
    case DOWNLOAD:
        return vram_queue_download(queue, calls->host, addr, 8);
    case PREFETCH:
        return vram_queue_prefetch(queue, calls->managed, PAGE, VRAM_TARGET_OWN);
    case ADVISE:
        return vram_device_advise(calls->stage->device, calls->managed, PAGE, VRAM_ADVICE_PREFER,
                                  VRAM_TARGET_OWN);
    default:
        return vram_queue_copy(queue, addr, calls->far, 8);
    }
}

/* The stream itself, the legacy stream beside a blocking one, which would end its capture, and
   queues that have nothing to do with it. */
TEST(each_call_knows_of_captures) {
    static const struct {
        const char *what;
        bool blocking, legacy, own;
        enum vr_cu_capture_status state;
        vram_status expected[CALLS];
    } rows[] = {
#define GRAPH   VRAM_OK
#define REFUSED VRAM_ERR_CAPTURE
        {"the captured stream",
         true,
         false,
         false,
         VR_CU_CAPTURE_ACTIVE,
         {REFUSED, REFUSED, VRAM_ERR_NOT_READY, GRAPH, GRAPH, GRAPH, GRAPH, GRAPH, REFUSED, VRAM_OK,
          REFUSED}},
        {"a stream whose capture was spoiled",
         false,
         false,
         false,
         VR_CU_CAPTURE_INVALIDATED,
         {REFUSED, REFUSED, VRAM_ERR_NOT_READY, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED,
          REFUSED, VRAM_OK, REFUSED}},
        {"the legacy stream beside one that waits for it",
         true,
         true,
         false,
         VR_CU_CAPTURE_ACTIVE,
         {REFUSED, REFUSED, VRAM_ERR_NOT_READY, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED,
          REFUSED, VRAM_OK, REFUSED}},
        {"the legacy stream beside one that does not",
         false,
         true,
         false,
         VR_CU_CAPTURE_ACTIVE,
         {VRAM_OK}},
        {"a queue of the library's", true, false, true, VR_CU_CAPTURE_ACTIVE, {VRAM_OK}},
    };
    struct stage *stage = rig_state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct calls calls = {.stage = stage};
        vram_queue *second;
        stage_open(stage, 256 * MIB, "5s");
        struct vr_cu_stream *stream = fake->stream_make(0, rows[i].blocking, false);
        assert_ok(vram_device_open(stage->context, 1, &calls.other));
        assert_ok(vram_device_alloc(calls.other, PAGE, VRAM_MEMORY_DEVICE, &calls.far));
        assert_ok(vram_device_peer_enable(stage->device, calls.other));
        assert_ok(vram_device_alloc(stage->device, PAGE, VRAM_MEMORY_DEVICE, &calls.addr));
        assert_ok(vram_device_alloc(stage->device, PAGE, VRAM_MEMORY_MANAGED, &calls.managed));
        assert_ok(vram_queue_create(stage->device, NULL, &second));
        calls.queue = stage->queue;
        if (!rows[i].own) {
            assert_ok(
                vram_queue_adopt(stage->device, rows[i].legacy ? NULL : stream, &calls.queue));
        }
        assert_ok(vram_queue_wait(calls.queue, FOR_EVER));
        for (int call = 0; call < CALLS; call++) {
            fake->capture(stream, VR_CU_CAPTURE_NONE);
            assert_ok(vram_queue_wait(calls.queue, FOR_EVER));
            assert_ok(vram_queue_wait(second, FOR_EVER));
            fake->hold(call == AFTER); /* what has passed is not waited for */
            assert_ok(vram_queue_mark(second, &calls.point));
            fake->capture(stream, rows[i].state);
            vram_status status = call_one(&calls, (enum call)call);
            if (status != rows[i].expected[call]) {
                fail_msg("%s: call %d answers %s", rows[i].what, call, vram_status_name(status));
            }
            assert_int_equal(fake->capture_status(stream), rows[i].state);
            fake->hold(false);
        }
        fake->capture(stream, VR_CU_CAPTURE_NONE);
        assert_ok(vram_queue_wait(calls.queue, FOR_EVER));
        fake->stream_end(stream);
        stage_close(stage);
        fake->reset();
        fake->devices(2);
    }
}

/* With events a wait would have to mark the other queue: not while that one is captured. */
TEST(captured_queues_cannot_be_marked) {
    struct stage *stage = rig_state;
    vram_queue *captured;
    vram_point point;
    vram_addr addr;
    fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, 0);
    fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS_V1, 0);
    stage_open(stage, 256 * MIB, "5s");
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    assert_ok(vram_queue_adopt(stage->device, stream, &captured));
    assert_ok(vram_alloc(stage->pool, PAGE, captured, &addr));
    fake->hold(true);
    assert_ok(vram_queue_fill(captured, addr, 1, 1, PAGE));
    assert_ok(vram_queue_mark(captured, &point));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(vram_queue_after(stage->queue, point), VRAM_ERR_CAPTURE);
    assert_cuda_error(VRAM_ERR_CAPTURE, "cuEventRecord", 0);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    assert_ok(vram_queue_after(stage->queue, point));
    fake->hold(false);
    adoption_end(captured, stream);
    stage_close(stage);
}

/* A buffer with contents does not move into a graph that may never run. */
TEST(a_buffer_does_not_move_in_a_capture) {
    struct stage *stage = rig_state;
    vram_queue *captured;
    vram_buffer *buffer;
    vram_addr before, after, wall;
    stage_open(stage, 256 * MIB, "5s");
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    assert_ok(vram_queue_adopt(stage->device, stream, &captured));
    assert_ok(vram_buffer_create(stage->pool, PAGE, captured, NULL, &buffer));
    assert_ok(vram_alloc(stage->pool, PAGE, captured, &wall));
    assert_ok(vram_buffer_addr(buffer, &before));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(vram_buffer_resize(buffer, 100 * PAGE, captured), VRAM_ERR_CAPTURE);
    assert_ok(vram_buffer_addr(buffer, &after));
    assert_int_equal(after, before);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    assert_ok(vram_buffer_resize(buffer, 100 * PAGE, captured));
    assert_ok(vram_buffer_destroy(buffer));
    adoption_end(captured, stream);
    stage_close(stage);
}

/* --------------------------------------------------------------------- in a pool */

/* Beside the capture of a blocking stream the legacy stream, on which the freed block's work still
   runs, can be neither marked nor asked: nobody gets the block before it can. */
TEST(the_legacy_stream_waits_for_the_capture) {
    struct stage *stage = rig_state;
    stage_open(stage, UINT64_C(4) << 30, "5s");
    struct vr_cu_stream *stream = fake->stream_make(0, true, false);
    vram_queue *legacy;
    vram_addr freed, other, again;
    unsigned char bytes[4] = {0};
    assert_ok(vram_queue_adopt(stage->device, NULL, &legacy));
    assert_ok(vram_alloc(stage->pool, 3 * MIB, legacy, &freed));
    fake->hold(true);
    assert_ok(vram_queue_fill(legacy, freed, 7, 1, 3 * MIB));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_int_equal(vram_queue_fill(legacy, freed, 8, 1, 8), VRAM_ERR_CAPTURE);
    assert_ok(vram_free(freed, legacy));
    assert_ok(vram_alloc(stage->pool, 3 * MIB, stage->queue, &other));
    assert_true(other + 3 * MIB <= freed || freed + 3 * MIB <= other);
    assert_ok(vram_queue_fill(stage->queue, other, 9, 1, 3 * MIB));
    assert_int_equal(vram_queue_wait(legacy, 0), VRAM_ERR_CAPTURE);
    assert_int_equal(vram_queue_end(legacy), VRAM_ERR_CAPTURE);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->hold(false);
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    assert_true(fake->peek(other, bytes, sizeof bytes));
    assert_memory_equal(bytes, "\x9\x9\x9\x9", 4);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    assert_ok(vram_queue_wait(legacy, FOR_EVER));
    assert_ok(vram_alloc(stage->pool, 3 * MIB, legacy, &again));
    assert_int_equal(again, freed);
    adoption_end(legacy, stream);
    stage_close(stage);
}

/* A stream that the library meets in its capture. */
struct met {
    struct vr_cu_stream *stream;
    int mode;
    pthread_barrier_t barrier; /* of a thread that captures, and the test */
};

static vr_cu_result (*capture_begin)(struct vr_cu_stream *stream, int mode);
static vr_cu_result (*capture_end)(struct vr_cu_stream *stream, void **graph);
static vr_cu_result (*graph_destroy)(void *graph);

static void graph_calls(void) {
    void *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW);
    void *found[] = {dlsym(library, "cuStreamBeginCapture_v2"),
                     dlsym(library, "cuStreamEndCapture"), dlsym(library, "cuGraphDestroy")};
    memcpy(&capture_begin, &found[0], sizeof found[0]);
    memcpy(&capture_end, &found[1], sizeof found[1]);
    memcpy(&graph_destroy, &found[2], sizeof found[2]);
}

static void met_end(struct met *met) {
    void *graph = NULL;
    assert_int_equal(capture_end(met->stream, &graph), 0);
    assert_int_equal(graph_destroy(graph), 0);
}

static void *capture_elsewhere(void *argument) {
    struct met *met = argument;
    assert_int_equal(capture_begin(met->stream, met->mode), 0);
    pthread_barrier_wait(&met->barrier);
    pthread_barrier_wait(&met->barrier);
    met_end(met);
    return NULL;
}

/* What CuPy does that allocates for the first time in a capture, and what goes on beside it. */
static void meet(const struct stage *stage, const struct met *met, vram_queue **queue) {
    vram_addr first, second, other;
    assert_ok(vram_queue_shared(stage->device, met->stream, queue));
    assert_ok(vram_alloc(stage->pool, 5 * MIB, *queue, &first));
    assert_ok(vram_queue_fill(*queue, first, 1, 4, 400));
    assert_ok(vram_free(first, *queue));
    assert_ok(vram_alloc(stage->pool, 5 * MIB, *queue, &second));
    assert_int_equal(second, first);
    assert_ok(vram_free(second, *queue));
    assert_ok(vram_alloc(stage->pool, 70 * MIB, stage->queue, &other));
    assert_ok(vram_free(other, stage->queue));
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
    assert_int_equal(fake->capture_status(met->stream), VR_CU_CAPTURE_ACTIVE);
}

/* In each mode, blocking or not, begun by this thread or by another one. */
TEST(streams_are_met_in_their_capture) {
    struct stage *stage = rig_state;
    graph_calls();
    for (int i = 0; i < 12; i++) {
        struct met met = {.mode = i / 4};
        vram_queue *queue;
        pthread_t thread;
        bool other = i & 2;
        stage_open(stage, UINT64_C(4) << 30, "5s");
        met.stream = fake->stream_make(0, i & 1, false);
        if (other) {
            pthread_barrier_init(&met.barrier, NULL, 2);
            assert_int_equal(pthread_create(&thread, NULL, capture_elsewhere, &met), 0);
            pthread_barrier_wait(&met.barrier);
            meet(stage, &met, &queue);
            pthread_barrier_wait(&met.barrier);
            pthread_join(thread, NULL);
            pthread_barrier_destroy(&met.barrier);
        } else {
            assert_int_equal(capture_begin(met.stream, met.mode), 0);
            meet(stage, &met, &queue);
            met_end(&met);
        }
        assert_ok(vram_queue_wait(queue, FOR_EVER));
        adoption_end(queue, met.stream);
        stage_close(stage);
        fake->reset();
        fake->devices(2);
    }
}

EACH_TEST(stage_begin, stage_end)
