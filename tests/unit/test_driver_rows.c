/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_driver_rows.c: rectangles, over the tests' drivers: one call of the driver's for all rows,
 * whichever way they go, and the rows one by one where it has no such call or cannot say them. That
 * rows arrive on every backend is in the suite of `vram check`; calls that fail are in
 * tests/drivers.
 */
#include "byte_units.h"
#include "fake/fake_cuda.h"
#include "opencl/fake_opencl.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define FOR_EVER UINT64_C(10000000000)

enum {
    ROW = 333,      /* bytes */
    WIDE = 777,     /* a pitch, odd */
    NARROW = 341,   /* another */
    ROWS = 11,      /* too few for a launch of the library's own kernel */
    MANY = 100,     /* enough for it */
    ROOM = 1 << 17, /* of each side */
    FROM = 3,       /* where the rectangle begins */
    TO = 5
};

/* A way that a rectangle goes; TWIN is within one block. */
enum way { UP, UP_LOCKED, DOWN, DOWN_LOCKED, ACROSS, TWIN, WAYS };

/* A driver, and what it calls for rows and for a plain copy. */
struct driver {
    const char *name, *backend, *option, *path, *memory;
    const char *rows[3], *plain[3]; /* up, down, across; NULL: it has none */
    bool one_pitch;                 /* within one block only rows of one pitch */
    bool scatters;                  /* many small rows are for a kernel of the library's */
};

#define CUDA_ROWS                                                                                  \
    { "cuMemcpy2DAsync", "cuMemcpy2DAsync", "cuMemcpy2DAsync" }
#define HIP_ROWS                                                                                   \
    { "hipMemcpy2DAsync", "hipMemcpy2DAsync", "hipMemcpy2DAsync" }
#define OPENCL_ROWS                                                                                \
    { "clEnqueueWriteBufferRect", "clEnqueueReadBufferRect", "clEnqueueCopyBufferRect" }
#define OPENCL_PLAIN                                                                               \
    { "clEnqueueWriteBuffer", "clEnqueueReadBuffer", "clEnqueueCopyBuffer" }
#define SVM_PLAIN                                                                                  \
    { "clEnqueueSVMMemcpy", "clEnqueueSVMMemcpy", "clEnqueueSVMMemcpy" }
#define USM_PLAIN                                                                                  \
    { "clEnqueueMemcpyINTEL", "clEnqueueMemcpyINTEL", "clEnqueueMemcpyINTEL" }

static const struct driver drivers[] = {
    {"cuda",
     "cuda",
     "cuda_library",
     FAKE_CUDA_PATH,
     NULL,
     CUDA_ROWS,
     {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync"},
     false,
     true},
    {"hip",
     "hip",
     "hip_library",
     FAKE_HIP_PATH,
     NULL,
     HIP_ROWS,
     {"hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipMemcpyDtoDAsync"},
     false,
     false},
    {"opencl buffers", "opencl", "opencl_library", FAKE_OPENCL_PATH, "buffer", OPENCL_ROWS,
     OPENCL_PLAIN, true, false},
    {"opencl svm",
     "opencl",
     "opencl_library",
     FAKE_OPENCL_PATH,
     "svm",
     {NULL},
     SVM_PLAIN,
     false,
     false},
    {"opencl usm",
     "opencl",
     "opencl_library",
     FAKE_OPENCL_PATH,
     "usm",
     {NULL},
     USM_PLAIN,
     false,
     false},
};
enum { DRIVERS = sizeof drivers / sizeof drivers[0] };

/* ------------------------------------------------------------------------- stage */

static struct {
    const struct driver *driver;
    const struct fake_cuda_control *cuda; /* one of the two is there */
    const struct opencl_control *opencl;
    const struct fake_opencl_control *fake;
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_addr addr, other, locked;       /* of 2 * ROOM bytes, and of ROOM */
    unsigned char from[ROOM], old[ROOM]; /* what sources and destinations have */
    unsigned char ordinary[ROOM], found[ROOM], expected[ROOM];
} stage;

static void control_find(void) {
    void *library = dlopen(stage.driver->path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    const void *(*get)(void) = NULL;
    stage.cuda = NULL;
    if ((*(void **)&get = dlsym(library, "fake_cuda_control")) != NULL) {
        stage.cuda = get();
        stage.cuda->reset();
        stage.cuda->capacity(8 * GIB);
        return;
    }
    *(void **)&get = dlsym(library, "opencl_control");
    stage.opencl = get();
    *(void **)&get = dlsym(library, "fake_opencl_control");
    stage.fake = get();
    stage.fake->reset();
    stage.fake->settings->usm = strcmp(stage.driver->memory, "usm") == 0;
}

static uint64_t calls(const char *name) {
    return stage.cuda ? stage.cuda->calls(name) : stage.opencl->calls(name);
}

static void calls_from_here(void) {
    if (stage.cuda) {
        stage.cuda->refuse(NULL, 0, 0, false);
    } else {
        stage.opencl->refuse(NULL, 0, 0, false);
    }
}

static void stage_open(const struct driver *driver) {
    const vram_context_options options = {.size = sizeof options, .backends = driver->backend};
    stage.driver = driver;
    control_find();
    assert_ok(vram_option_set(driver->option, driver->path));
    assert_ok(vram_option_set("opencl_memory", driver->memory));
    assert_ok(vram_context_create(&options, &stage.context));
    assert_ok(vram_device_open(stage.context, 0, &stage.device));
    assert_ok(vram_queue_create(stage.device, NULL, &stage.queue));
    assert_ok(vram_device_alloc(stage.device, 2 * ROOM, VRAM_MEMORY_DEVICE, &stage.addr));
    assert_ok(vram_device_alloc(stage.device, ROOM, VRAM_MEMORY_DEVICE, &stage.other));
    assert_ok(vram_device_alloc(stage.device, ROOM, VRAM_MEMORY_PINNED, &stage.locked));
    for (unsigned i = 0; i < ROOM; i++) {
        stage.from[i] = (unsigned char)(i * 131 + i / 251);
        stage.old[i] = (unsigned char)(i * 7 + 3);
    }
}

static void stage_close(void) {
    const char *text = "";
    vram_context_destroy(stage.context);
    if (stage.cuda ? stage.cuda->violations(&text) : stage.fake->violations(&text)) {
        fail_msg("%s: %s", stage.driver->name, text);
    }
    assert_ok(vram_option_set(stage.driver->option, NULL));
    assert_ok(vram_option_set("opencl_memory", NULL));
}

/* ------------------------------------------------------------- one rectangle */

static unsigned char *locked(void) {
    return (unsigned char *)(uintptr_t)stage.locked;
}

static bool goes_down(enum way way) {
    return way == DOWN || way == DOWN_LOCKED;
}

static void put(vram_addr to, const void *from) {
    assert_ok(vram_queue_upload(stage.queue, to, from, ROOM));
    assert_ok(vram_queue_wait(stage.queue, FOR_EVER));
}

/* Fills both sides of a way, and says what the rectangle between them is. */
static vram_copy_2d rectangle(enum way way, uint64_t rows, uint64_t to_pitch, uint64_t from_pitch) {
    vram_copy_2d copy = {
        .row_bytes = ROW, .rows = rows, .to_pitch = to_pitch, .from_pitch = from_pitch};
    bool down = goes_down(way);
    put(stage.addr, down ? stage.from : stage.old);
    put(stage.addr + ROOM, stage.from);
    put(stage.other, stage.from);
    memcpy(stage.ordinary, down ? stage.old : stage.from, ROOM);
    memcpy(locked(), down ? stage.old : stage.from, ROOM);
    copy.first.to = down ? 0 : stage.addr + TO;
    copy.first.from = down            ? stage.addr + FROM
                      : way == ACROSS ? stage.other + FROM
                      : way == TWIN   ? stage.addr + ROOM + FROM
                                      : 0;
    copy.first.to_host = way == DOWN          ? stage.ordinary + TO
                         : way == DOWN_LOCKED ? locked() + TO
                                              : NULL;
    copy.first.from_host = way == UP          ? stage.ordinary + FROM
                           : way == UP_LOCKED ? locked() + FROM
                                              : NULL;
    return copy;
}

/* Makes the copy; the whole destination is then as a copy by hand makes it, the gaps as before. */
static void transfer(enum way way, const vram_copy_2d *copy) {
    vram_async async = {{0}};
    uint64_t result = 0;
    calls_from_here();
    assert_ok(vram_transfer_2d(stage.queue, copy, NULL, &async));
    assert_ok(vram_async_wait(&async, FOR_EVER));
    assert_ok(vram_async_result_get(&async, &result));
    assert_int_equal(result, copy->rows * copy->row_bytes);
    vram_async_end(&async);
    memcpy(stage.expected, stage.old, ROOM);
    for (uint64_t row = 0; row < copy->rows; row++) {
        memcpy(stage.expected + TO + row * copy->to_pitch,
               stage.from + FROM + row * copy->from_pitch, ROW);
    }
    memcpy(stage.found, way == DOWN ? stage.ordinary : locked(), ROOM);
}

static void expect_contents(enum way way) {
    if (!goes_down(way)) {
        assert_ok(vram_queue_download(stage.queue, stage.found, stage.addr, ROOM));
        assert_ok(vram_queue_wait(stage.queue, FOR_EVER));
    }
    assert_memory_equal(stage.found, stage.expected, ROOM);
}

static uint64_t row_calls(enum way way) {
    const char *name = stage.driver->rows[way >= ACROSS ? 2 : goes_down(way)];
    return name ? calls(name) : 0;
}

static uint64_t plain_calls(void) {
    const char *const *names = stage.driver->plain;
    return calls(names[0]) + (strcmp(names[0], names[1]) ? calls(names[1]) + calls(names[2]) : 0);
}

/* --------------------------------------------------------------------- tests */

TEST(all_rows_are_one_call) {
    static const uint64_t pitches[][2] = {{WIDE, NARROW}, {NARROW, WIDE}, {ROW, WIDE}, {WIDE, ROW},
                                          {WIDE, WIDE},   {4096, NARROW}, {345, 345}};
    for (int i = 0; i < DRIVERS; i++) {
        stage_open(&drivers[i]);
        for (int way = UP; way < WAYS; way++) {
            for (size_t j = 0; j < sizeof pitches / sizeof pitches[0]; j++) {
                vram_copy_2d copy = rectangle((enum way)way, ROWS, pitches[j][0], pitches[j][1]);
                bool apart =
                    stage.driver->one_pitch && way == TWIN && pitches[j][0] != pitches[j][1];
                bool has_rows = stage.driver->rows[0] != NULL; /* which may refuse these */
                transfer((enum way)way, &copy);
                assert_int_equal(row_calls((enum way)way), has_rows);
                if (has_rows) {
                    assert_int_equal(plain_calls(), apart ? ROWS : 0);
                }
                expect_contents((enum way)way);
            }
        }
        stage_close();
    }
}

/* Many small rows are the library's own to move, where it has a kernel that reaches them or reads
   what was gathered. */
TEST(small_rows_are_scattered) {
    for (int i = 0; i < DRIVERS; i++) {
        stage_open(&drivers[i]);
        for (int way = UP; way < WAYS && stage.driver->rows[0]; way++) {
            vram_copy_2d copy = rectangle((enum way)way, MANY, NARROW, way == TWIN ? NARROW : WIDE);
            transfer((enum way)way, &copy);
            assert_int_equal(row_calls((enum way)way), !stage.driver->scatters || way == DOWN);
            assert_int_equal(plain_calls(), 0);
            expect_contents((enum way)way);
        }
        stage_close();
    }
}

TEST(rows_without_gaps_are_a_plain_copy) {
    for (int i = 0; i < DRIVERS; i++) {
        stage_open(&drivers[i]);
        for (int single = 0; single < 2; single++) {
            vram_copy_2d copy = single ? rectangle(UP_LOCKED, 1, WIDE, NARROW)
                                       : rectangle(UP_LOCKED, ROWS, ROW, ROW);
            transfer(UP_LOCKED, &copy);
            assert_int_equal(row_calls(UP_LOCKED), 0);
            assert_int_equal(plain_calls(), 1);
            expect_contents(UP_LOCKED);
        }
        stage_close();
    }
}

/* Rows between each other's: OpenCL calls it an overlap, and the rows are none. */
TEST(rows_between_rows_are_no_overlap) {
    enum { SHIFT = 400 };
    for (int i = 0; i < DRIVERS; i++) {
        stage_open(&drivers[i]);
        vram_copy_2d copy = {{.to = stage.addr + SHIFT, .from = stage.addr}, ROW, ROWS, WIDE, WIDE};
        put(stage.addr, stage.from);
        transfer(TWIN, &copy);
        memcpy(stage.expected, stage.from, ROOM);
        for (size_t row = 0; row < ROWS; row++) {
            memcpy(stage.expected + SHIFT + row * WIDE, stage.from + row * WIDE, ROW);
        }
        expect_contents(TWIN);
        stage_close();
    }
}

/* Two rows further apart than the driver can say: one copy each. */
TEST(rows_too_far_apart_go_one_by_one) {
    const uint64_t far = 2 * GIB + 4096;
    for (int i = 0; i < DRIVERS; i++) {
        vram_addr addr;
        if (drivers[i].memory) {
            continue; /* allocations are no larger there */
        }
        stage_open(&drivers[i]);
        assert_ok(vram_device_alloc(stage.device, far + 4096, VRAM_MEMORY_DEVICE, &addr));
        const vram_copy_2d copy = {{.to = addr, .from_host = stage.from}, ROW, 2, far, WIDE};
        calls_from_here();
        assert_ok(vram_transfer_2d(stage.queue, &copy, NULL, NULL));
        assert_ok(vram_queue_wait(stage.queue, FOR_EVER));
        assert_int_equal(plain_calls(), 2);
        for (uint64_t row = 0; row < 2; row++) {
            assert_ok(vram_queue_download(stage.queue, stage.found, addr + row * far, ROW));
            assert_ok(vram_queue_wait(stage.queue, FOR_EVER));
            assert_memory_equal(stage.found, stage.from + row * WIDE, ROW);
        }
        stage_close();
    }
}
