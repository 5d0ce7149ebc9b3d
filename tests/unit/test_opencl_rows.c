/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_opencl_rows.c: rectangles on OpenCL, over the tests' driver: one command for all rows of
 * buffers, whichever way they go, and the rows one by one where memory is pointers, or the driver
 * has no such command or refuses it.
 */
#include "unit/assert_ok.h"
#include "unit/opencl_world.h"
#include "vram/vram.h"

#include <limits.h>
#include <stdlib.h>

enum {
    ROW = 333,     /* bytes */
    WIDE = 777,    /* a pitch, odd */
    NARROW = 341,  /* another */
    ROWS = 11,     /* and their number */
    ROOM = 1 << 16 /* of each side */
};

/* A way that a rectangle goes; TWIN is within one buffer. */
enum way { UP, DOWN, ACROSS, TWIN, WAYS };

static const char *const commands[] = {"clEnqueueWriteBufferRect", "clEnqueueReadBufferRect",
                                       "clEnqueueCopyBufferRect", "clEnqueueCopyBufferRect"};

struct stage {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    uint64_t live;                       /* the driver's objects before */
    vram_addr addr, other;               /* of 2 * ROOM bytes, and of ROOM */
    unsigned char from[ROOM], old[ROOM]; /* what sources have, and destinations at first */
    unsigned char host[ROOM], found[ROOM], expected[ROOM];
};

static void put(struct stage *stage, vram_addr to, const void *from) {
    assert_ok(vram_queue_upload(stage->queue, to, from, ROOM));
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
}

static struct stage *stage_open(const char *memory) {
    struct stage *stage = calloc(1, sizeof *stage);
    vram_context_options options = {.size = sizeof options, .backends = "opencl"};
    assert_non_null(stage);
    stage->live = fake->live();
    fake->settings->usm = strcmp(memory, "usm") == 0;
    assert_ok(vram_option_set("opencl_library", FAKE_OPENCL_PATH));
    assert_ok(vram_option_set("opencl_memory", memory));
    assert_ok(vram_context_create(&options, &stage->context));
    assert_ok(vram_device_open(stage->context, 0, &stage->device));
    assert_ok(vram_queue_create(stage->device, NULL, &stage->queue));
    assert_ok(vram_device_alloc(stage->device, 2 * ROOM, VRAM_MEMORY_DEVICE, &stage->addr));
    assert_ok(vram_device_alloc(stage->device, ROOM, VRAM_MEMORY_DEVICE, &stage->other));
    for (unsigned i = 0; i < ROOM; i++) {
        stage->from[i] = (unsigned char)(i * 131 + i / 251);
        stage->old[i] = (unsigned char)(i * 7 + 3);
    }
    return stage;
}

/* A lost device is asked for nothing any more, not even to take its objects back. */
static void stage_end(struct stage *stage, bool lost) {
    uint64_t live = stage->live;
    vram_context_destroy(stage->context);
    free(stage);
    assert_true(lost || live_falls_to(live));
    assert_rules_kept();
}

static void stage_close(struct stage *stage) {
    stage_end(stage, false);
}

/* Fills both sides, and says what the rectangle between them is. */
static vram_copy_2d rectangle_of(struct stage *stage, enum way way, uint64_t to_pitch,
                                 uint64_t from_pitch) {
    vram_copy_2d copy = {
        .row_bytes = ROW, .rows = ROWS, .to_pitch = to_pitch, .from_pitch = from_pitch};
    put(stage, stage->addr, way == DOWN ? stage->from : stage->old);
    put(stage, stage->addr + ROOM, stage->from);
    put(stage, stage->other, stage->from);
    memcpy(stage->host, way == DOWN ? stage->old : stage->from, ROOM);
    copy.first.to = way == DOWN ? 0 : stage->addr + 5;
    copy.first.to_host = way == DOWN ? stage->host + 5 : NULL;
    copy.first.from = way == DOWN     ? stage->addr + 3
                      : way == ACROSS ? stage->other + 3
                      : way == TWIN   ? stage->addr + ROOM + 3
                                      : 0;
    copy.first.from_host = way == UP ? stage->host + 3 : NULL;
    return copy;
}

static vram_status transfer(struct stage *stage, const vram_copy_2d *copy) {
    vram_async async = {{0}};
    vram_status status = vram_transfer_2d(stage->queue, copy, NULL, &async);
    if (status == VRAM_OK) {
        status = vram_async_wait(&async, FOR_EVER);
        vram_async_end(&async);
    }
    return status;
}

/* The whole destination: the rows are there, and the gaps as they were. */
static void expect_rows(struct stage *stage, enum way way, const vram_copy_2d *copy, bool done) {
    memcpy(stage->expected, stage->old, ROOM);
    for (uint64_t row = 0; row < ROWS && done; row++) {
        memcpy(stage->expected + 5 + row * copy->to_pitch, stage->from + 3 + row * copy->from_pitch,
               ROW);
    }
    memcpy(stage->found, stage->host, ROOM);
    if (way != DOWN) {
        assert_ok(vram_queue_download(stage->queue, stage->found, stage->addr, ROOM));
        assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    }
    assert_memory_equal(stage->found, stage->expected, ROOM);
}

/* --------------------------------------------------------------------- tests */

static const uint64_t pitches[][2] = {{WIDE, NARROW}, {NARROW, WIDE}, {ROW, WIDE}, {WIDE, ROW},
                                      {WIDE, WIDE},   {4096, NARROW}, {345, 345}};

enum { PITCHES = sizeof pitches / sizeof pitches[0] };

TEST(all_rows_of_buffers_are_one_command) {
    struct stage *stage = stage_open("buffer");
    for (int way = UP; way < WAYS; way++) {
        for (int i = 0; i < PITCHES; i++) {
            vram_copy_2d copy = rectangle_of(stage, (enum way)way, pitches[i][0], pitches[i][1]);
            bool one_pitch = pitches[i][0] == pitches[i][1];
            plan->refuse(NULL, 0, 0, false);
            assert_ok(transfer(stage, &copy));
            assert_int_equal(plan->calls(commands[way]), 1);
            assert_int_equal(plan->calls("clEnqueueWriteBuffer"), 0);
            assert_int_equal(plan->calls("clEnqueueReadBuffer"), 0);
            /* Within one buffer OpenCL copies rows of one pitch only. */
            assert_int_equal(plan->calls("clEnqueueCopyBuffer"),
                             way == TWIN && !one_pitch ? ROWS : 0);
            expect_rows(stage, (enum way)way, &copy, true);
        }
    }
    stage_close(stage);
}

TEST(rows_of_pointers_go_one_by_one) {
    static const char *const ways[] = {"svm", "usm"};
    for (int i = 0; i < 2; i++) {
        struct stage *stage = stage_open(ways[i]);
        for (int way = UP; way < WAYS; way++) {
            vram_copy_2d copy = rectangle_of(stage, (enum way)way, WIDE, NARROW);
            plan->refuse(NULL, 0, 0, false);
            assert_ok(transfer(stage, &copy));
            assert_int_equal(plan->calls(commands[way]), 0);
            expect_rows(stage, (enum way)way, &copy, true);
        }
        stage_close(stage);
    }
}

/* Rows between each other's: the driver calls it an overlap, and the rows are none. */
TEST(rows_between_rows_go_one_by_one) {
    struct stage *stage = stage_open("buffer");
    vram_copy_2d copy = {{.to = stage->addr + 400, .from = stage->addr}, ROW, ROWS, WIDE, WIDE};
    put(stage, stage->addr, stage->from);
    plan->refuse(NULL, 0, 0, false);
    assert_ok(transfer(stage, &copy));
    assert_int_equal(plan->calls("clEnqueueCopyBuffer"), ROWS);
    memcpy(stage->expected, stage->from, ROOM);
    for (size_t row = 0; row < ROWS; row++) {
        memcpy(stage->expected + 400 + row * WIDE, stage->from + row * WIDE, ROW);
    }
    assert_ok(vram_queue_download(stage->queue, stage->found, stage->addr, ROOM));
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    assert_memory_equal(stage->found, stage->expected, ROOM);
    stage_close(stage);
}

static int teardown_options(void) {
    assert_ok(vram_option_set("opencl_library", NULL));
    assert_ok(vram_option_set("opencl_memory", NULL));
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

EACH_TEST(setup, teardown_options)
