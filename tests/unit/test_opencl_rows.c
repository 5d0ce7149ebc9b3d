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

static void all_rows_of_buffers_are_one_command(void **state) {
    (void)state;
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

static void rows_of_pointers_go_one_by_one(void **state) {
    static const char *const ways[] = {"svm", "usm"};
    (void)state;
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
static void rows_between_rows_go_one_by_one(void **state) {
    (void)state;
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

/* What the driver says of the command becomes the caller's failure, or the rows go one by one. */
static void every_code_is_told_or_gone_around(void **state) {
    static const int codes[] = {
#define CODE(NAME, value) value,
        VR_CL_CODES(CODE)
#undef CODE
            12345,
        INT_MIN,
    };
    unsigned told = 0, around = 0;
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        vram_status expected = vr_opencl_status(codes[i]);
        bool gone_around = codes[i] == VR_CL_INVALID_VALUE || codes[i] == VR_CL_MEM_COPY_OVERLAP ||
                           expected == VRAM_ERR_UNSUPPORTED;
        if (codes[i] == VR_CL_SUCCESS) {
            continue;
        }
        if (codes[i] == VR_CL_INVALID_COMMAND_QUEUE) {
            expected = VRAM_ERR_DEVICE_LOST; /* of a queue of our own */
        }
        for (int way = UP; way < TWIN; way++) {
            struct stage *stage = stage_open("buffer");
            vram_copy_2d copy = rectangle_of(stage, (enum way)way, NARROW, WIDE);
            plan->refuse(commands[way], 1, codes[i], false);
            vram_error_clear();
            vram_status status = transfer(stage, &copy);
            assert_int_equal(plan->struck(), 1);
            plan->refuse(NULL, 0, 0, false);
            assert_int_equal(status, gone_around ? VRAM_OK : expected);
            assert_int_equal(vram_error_get()->status, status);
            if (status != VRAM_ERR_DEVICE_LOST) {
                expect_rows(stage, (enum way)way, &copy, gone_around);
            }
            stage_end(stage, status == VRAM_ERR_DEVICE_LOST);
        }
        told += !gone_around;
        around += gone_around;
    }
    assert_true(told && around);
    print_message("%u codes told, %u gone around\n", told, around);
}

/* A driver without one of the symbols: nothing is submitted, and nobody is asked. */
static void a_missing_symbol_is_no_command(void **state) {
    struct world world;
    struct vr_queue queue;
    char host[64] = "";
    (void)state;
    begin(&world, "buffer");
    make_queue(&world.device, &queue);
    vram_addr addr = take_memory(&world.device, GRANULE);
    const struct vr_opencl_device *opencl = world.device.impl;
    struct vr_opencl_api *api = (struct vr_opencl_api *)(uintptr_t)opencl->api;
    api->clEnqueueWriteBufferRect = NULL;
    api->clEnqueueReadBufferRect = NULL;
    api->clEnqueueCopyBufferRect = NULL;
    for (int way = UP; way <= ACROSS; way++) {
        const struct vr_rectangle rows = {.to = way == DOWN ? (uintptr_t)host : addr,
                                          .from = way == UP ? (uintptr_t)host : addr + 1024,
                                          .to_pitch = 8,
                                          .from_pitch = 9,
                                          .row_bytes = 4,
                                          .rows = 3,
                                          .to_host = way == DOWN,
                                          .from_host = way == UP};
        plan->refuse(NULL, 0, 0, false);
        assert_int_equal(world.device.queue_ops->copy_rows(&queue, &rows), VRAM_ERR_UNSUPPORTED);
        assert_opencl_error(VRAM_ERR_UNSUPPORTED, commands[way], 0);
        assert_int_equal(plan->calls("any"), 0);
    }
    give_memory(&world.device, addr, GRANULE);
    end_queue(&queue);
    end(&world);
}

static int teardown_options(void **state) {
    (void)state;
    assert_ok(vram_option_set("opencl_library", NULL));
    assert_ok(vram_option_set("opencl_memory", NULL));
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown_options)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(all_rows_of_buffers_are_one_command), TEST(rows_of_pointers_go_one_by_one),
        TEST(rows_between_rows_go_one_by_one),     TEST(a_missing_symbol_is_no_command),
        TEST(every_code_is_told_or_gone_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
