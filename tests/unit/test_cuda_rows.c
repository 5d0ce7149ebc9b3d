/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_rows.c: rectangles on CUDA and HIP, over the fake drivers: one call of the driver's for
 * all rows, whichever way they go, and the rows one by one where it has no such call, refuses their
 * pitch, or does not support it.
 */
#include "unit/assert_ok.h"
#include "unit/cuda_world.h"
#include "vram/vram.h"

#include WORLD_TABLE

#include <limits.h>
#include <stdlib.h>

#ifdef WORLD_HIP
#define CALL      "hipMemcpy2DAsync"
#define PLAIN(to) "hipMemcpy" to "Async"
#else
#define CALL      "cuMemcpy2DAsync"
#define PLAIN(to) "cuMemcpy" to "Async"
#endif

enum {
    ROW = 333,      /* bytes */
    WIDE = 777,     /* a pitch, odd */
    NARROW = 341,   /* another */
    ROWS = 11,      /* too few for a launch of the library's own kernel */
    ROOM = 1 << 17, /* of each side */
    MANY = 100      /* rows, enough for it */
};

/* A way that a rectangle goes. */
enum way { UP, UP_LOCKED, DOWN, DOWN_LOCKED, ACROSS, WAYS };

struct stage {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_addr addr, other, locked;
    unsigned char *ordinary; /* ROOM bytes */
    unsigned char *from, *expected, *found;
};

static unsigned char *pattern_of(unsigned seed) {
    unsigned char *memory = malloc(ROOM);
    assert_non_null(memory);
    for (unsigned i = 0; i < ROOM; i++) {
        memory[i] = (unsigned char)(i * 131 + i / 251 + seed * 7);
    }
    return memory;
}

static void put(struct stage *stage, vram_addr to, const void *from) {
    assert_ok(vram_queue_upload(stage->queue, to, from, ROOM));
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
}

/* Every source has `from`, every destination what `expected` begins as. */
static void stage_open(struct stage *stage) {
    vram_context_options options = {.size = sizeof options, .backends = WORLD_NAME};
    assert_ok(vram_context_create(&options, &stage->context));
    assert_ok(vram_device_open(stage->context, 0, &stage->device));
    assert_ok(vram_queue_create(stage->device, NULL, &stage->queue));
    assert_ok(vram_device_alloc(stage->device, ROOM, VRAM_MEMORY_DEVICE, &stage->addr));
    assert_ok(vram_device_alloc(stage->device, ROOM, VRAM_MEMORY_DEVICE, &stage->other));
    assert_ok(vram_device_alloc(stage->device, ROOM, VRAM_MEMORY_PINNED, &stage->locked));
    stage->ordinary = malloc(ROOM);
    stage->found = malloc(ROOM);
    assert_true(stage->ordinary && stage->found);
    stage->from = pattern_of(1);
    stage->expected = pattern_of(2);
}

/* A lost device is asked for nothing any more, not even to take its memory back. */
static void stage_end(struct stage *stage, bool lost) {
    const char *text = "";
    vram_context_destroy(stage->context);
    free(stage->ordinary);
    free(stage->found);
    free(stage->from);
    free(stage->expected);
    assert_true(lost || live_total() == 0);
    assert_int_equal(fake->violations(&text), 0);
}

static void stage_close(struct stage *stage) {
    stage_end(stage, false);
}

static int begin(void) {
    static struct stage stage;
    if (!fake) {
        fake = fake_open(WORLD_PATH);
    }
    fake->reset();
    assert_ok(vram_option_set(WORLD_OPTION, WORLD_PATH));
    memset(&stage, 0, sizeof stage);
    rig_state = &stage;
    return 0;
}

static int end(void) {
    assert_ok(vram_option_set(WORLD_OPTION, NULL));
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

/* ------------------------------------------------------------- one rectangle */

static bool goes_down(enum way way) {
    return way == DOWN || way == DOWN_LOCKED;
}

/* Fills both sides of a way, and says what the rectangle between them is. */
static vram_copy_2d rectangle_of(struct stage *stage, enum way way, uint64_t row, uint64_t rows,
                                 uint64_t to_pitch, uint64_t from_pitch) {
    unsigned char *locked = (unsigned char *)(uintptr_t)stage->locked;
    vram_copy_2d copy = {
        .row_bytes = row, .rows = rows, .to_pitch = to_pitch, .from_pitch = from_pitch};
    put(stage, stage->addr, goes_down(way) ? stage->from : stage->expected);
    put(stage, stage->other, stage->from);
    memcpy(stage->ordinary, goes_down(way) ? stage->expected : stage->from, ROOM);
    memcpy(locked, goes_down(way) ? stage->expected : stage->from, ROOM);
    copy.first.to = goes_down(way) ? 0 : stage->addr + 5;
    copy.first.from = goes_down(way) ? stage->addr + 3 : way == ACROSS ? stage->other + 3 : 0;
    copy.first.to_host = way == DOWN ? stage->ordinary + 5 : way == DOWN_LOCKED ? locked + 5 : NULL;
    copy.first.from_host = way == UP ? stage->ordinary + 3 : way == UP_LOCKED ? locked + 3 : NULL;
    return copy;
}

/* The whole destination against a copy by hand: the rows are there, and the gaps as they were. */
static void expect_rows(struct stage *stage, enum way way, const vram_copy_2d *copy, bool done) {
    unsigned char *expected = malloc(ROOM);
    assert_non_null(expected);
    memcpy(expected, stage->expected, ROOM);
    for (uint64_t row = 0; row < copy->rows && done; row++) {
        memcpy(expected + 5 + row * copy->to_pitch, stage->from + 3 + row * copy->from_pitch,
               copy->row_bytes);
    }
    if (goes_down(way)) {
        memcpy(stage->found,
               way == DOWN ? stage->ordinary : (unsigned char *)(uintptr_t)stage->locked, ROOM);
    } else {
        assert_ok(vram_queue_download(stage->queue, stage->found, stage->addr, ROOM));
        assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    }
    assert_memory_equal(stage->found, expected, ROOM);
    free(expected);
}

static uint64_t plain_calls(void) {
    return fake->calls(PLAIN("HtoD")) + fake->calls(PLAIN("DtoH")) + fake->calls(PLAIN("DtoD"));
}

/* Makes the copy and waits for it. */
static vram_status transfer(struct stage *stage, const vram_copy_2d *copy) {
    vram_async async = {{0}};
    vram_status status = vram_transfer_2d(stage->queue, copy, NULL, &async);
    if (status == VRAM_OK) {
        status = vram_async_wait(&async, FOR_EVER);
        uint64_t result = 0;
        if (status == VRAM_OK) {
            assert_ok(vram_async_result_get(&async, &result));
            assert_int_equal(result, copy->rows * copy->row_bytes);
        }
        vram_async_end(&async);
    }
    return status;
}

/* --------------------------------------------------------------------- tests */

TEST(all_rows_are_one_call) {
    static const uint64_t pitches[][2] = {{WIDE, NARROW}, {NARROW, WIDE}, {ROW, WIDE},
                                          {WIDE, ROW},    {WIDE, WIDE},   {4096, NARROW}};
    struct stage *stage = rig_state;
    stage_open(stage);
    for (int way = UP; way < WAYS; way++) {
        for (size_t i = 0; i < sizeof pitches / sizeof pitches[0]; i++) {
            vram_copy_2d copy =
                rectangle_of(stage, (enum way)way, ROW, ROWS, pitches[i][0], pitches[i][1]);
            uint64_t calls = fake->calls(CALL), plain = plain_calls();
            assert_ok(transfer(stage, &copy));
            assert_int_equal(fake->calls(CALL) - calls, 1);
            assert_int_equal(plain_calls() - plain, 0);
            expect_rows(stage, (enum way)way, &copy, true);
        }
    }
    stage_close(stage);
}

/* Many small rows are the library's own to move, where it has a kernel that reaches them or reads
   what was gathered. */
TEST(small_rows_are_scattered) {
    struct stage *stage = rig_state;
    stage_open(stage);
    for (int way = UP; way < WAYS; way++) {
        bool gathered = way != DOWN && !WORLD_TRIES;
        vram_copy_2d copy = rectangle_of(stage, (enum way)way, ROW, MANY, NARROW, WIDE);
        uint64_t calls = fake->calls(CALL), plain = plain_calls();
        assert_ok(transfer(stage, &copy));
        assert_int_equal(fake->calls(CALL) - calls, !gathered);
        assert_int_equal(plain_calls() - plain, 0);
        expect_rows(stage, (enum way)way, &copy, true);
    }
    stage_close(stage);
}

/* A plain copy and a single row need no such call. */
TEST(rows_without_gaps_are_a_plain_copy) {
    struct stage *stage = rig_state;
    stage_open(stage);
    for (int i = 0; i < 2; i++) {
        vram_copy_2d copy = i ? rectangle_of(stage, UP_LOCKED, ROW, 1, WIDE, NARROW)
                              : rectangle_of(stage, UP_LOCKED, ROW, ROWS, ROW, ROW);
        uint64_t calls = fake->calls(CALL), plain = plain_calls();
        assert_ok(transfer(stage, &copy));
        assert_int_equal(fake->calls(CALL) - calls, 0);
        assert_int_equal(plain_calls() - plain, 1);
        expect_rows(stage, UP_LOCKED, &copy, true);
    }
    stage_close(stage);
}

/* Two rows further apart than the driver can say: one copy each. */
TEST(rows_too_far_apart_go_one_by_one) {
    const uint64_t far = (UINT64_C(2) << 30) + 4096;
    struct stage *stage = rig_state;
    vram_addr addr;
    fake->capacity(UINT64_C(8) << 30);
    stage_open(stage);
    assert_ok(vram_device_alloc(stage->device, far + 4096, VRAM_MEMORY_DEVICE, &addr));
    vram_copy_2d copy = {{.to = addr, .from_host = stage->from}, ROW, 2, far, WIDE};
    uint64_t plain = plain_calls();
    assert_ok(transfer(stage, &copy));
    assert_int_equal(plain_calls() - plain, 2);
    for (uint64_t row = 0; row < 2; row++) {
        assert_ok(vram_queue_download(stage->queue, stage->found, addr + row * far, ROW));
        assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
        assert_memory_equal(stage->found, stage->from + row * WIDE, ROW);
    }
    stage_close(stage);
}

EACH_TEST(begin, end)
