/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer.c: copies by strategy, between every kind of memory, strided, in lists, and between
 * devices that may read each other or not; and everything that a program can get wrong.
 */
#include "unit/gate_world.h"
#include "unit/pool_flags.h"
#include "unit/transfer_stats_of.h"
#include "unit/transfer_world.h"
#include "vram/transfer.h"

static const vram_transfer_strategy copying[] = {VRAM_TRANSFER_AUTO, VRAM_TRANSFER_SYNC,
                                                 VRAM_TRANSFER_ASYNC, VRAM_TRANSFER_DMA_POLLING};
enum { COPYING = sizeof copying / sizeof copying[0] };

static const struct {
    const char *backend, *sim;
} places[] = {{"host", NULL}, {"sim", "memory=64M"}, {"sim", "memory=64M,lag=50,seed=7"}};
enum { PLACES = sizeof places / sizeof places[0] };

/* ---------------------------------------------------------------- strategies */

/* Up, across, back, filled: S2-22's four ways and the automatic one. */
static void every_strategy_moves_bytes(void **state) {
    enum { BYTES = 300007 };
    unsigned char *from = pattern_of(BYTES, 1), *back = pattern_of(BYTES, 9);
    (void)state;
    for (int place = 0; place < PLACES; place++) {
        struct rig rig = rig_make(places[place].backend, places[place].sim);
        vram_addr a = memory_of(rig.device, BYTES), b = memory_of(rig.device, BYTES);
        for (int i = 0; i < COPYING; i++) {
            vram_transfer_options options = by(copying[i]);
            vram_async async[4];
            from[i]++;
            memset(back, 0, BYTES);
            assert_ok(vram_transfer_upload(rig.queue, a, from, BYTES, &options, &async[0]));
            assert_ok(vram_transfer_copy(rig.queue, b, a, BYTES, &options, &async[1]));
            assert_ok(vram_transfer_download(rig.queue, back, b, BYTES, &options, &async[2]));
            assert_ok(vram_transfer_fill(rig.queue, b, 0x1234, 2, 1000, &options, &async[3]));
            if (copying[i] == VRAM_TRANSFER_SYNC) {
                assert_int_equal(state_of(&async[2]), VRAM_ASYNC_READY);
            }
            for (int j = 0; j < 3; j++) {
                expect_result(&async[j], BYTES);
            }
            expect_result(&async[3], 1000);
            assert_memory_equal(back, from, BYTES);
        }
        expect_no_record();
        vram_context_destroy(rig.context);
    }
    free(from);
    free(back);
}

static void names_are_said(void **state) {
    static const char *const names[] = {"auto", "sync", "async", "direct", "dma_polling"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_string_equal(vram_transfer_strategy_name((vram_transfer_strategy)i), names[i]);
    }
    assert_string_equal(vram_transfer_strategy_name((vram_transfer_strategy)5), "unknown");
    assert_string_equal(vram_transfer_strategy_name((vram_transfer_strategy)-1), "unknown");
}

/* Behind a long kernel the call returns, the handle is pending, and the host works on; SYNC gives
   up. */
static void asynchronous_is_asynchronous(void **state) {
    static struct gate gate;
    static char data[4096], back[4096];
    (void)state;
    struct rig rig = rig_make("host", NULL);
    vram_addr addr = memory_of(rig.device, sizeof data);
    memset(data, 7, sizeof data);
    gate_shut(rig.device, rig.queue, &gate);
    vram_async up, down;
    assert_ok(vram_transfer_upload(rig.queue, addr, data, sizeof data, NULL, &up));
    assert_ok(vram_transfer_download(rig.queue, back, addr, sizeof back, NULL, &down));
    assert_int_equal(state_of(&up), VRAM_ASYNC_PENDING);
    assert_int_equal(state_of(&down), VRAM_ASYNC_PENDING);
    assert_int_equal(back[5], 0);
    vram_transfer_options sync = by(VRAM_TRANSFER_SYNC);
    sync.timeout_ns = 2000000;
    vram_async untouched = {{1, 2, 3, 4}}, copy = untouched;
    uint64_t before = vr_os_now();
    assert_int_equal(vram_transfer_upload(rig.queue, addr, data, sizeof data, &sync, &untouched),
                     VRAM_ERR_TIMEOUT);
    assert_true(vr_os_now() - before < 30 * SECOND);
    assert_memory_equal(&untouched, &copy, sizeof copy);
    gate_open(&gate);
    expect_result(&up, sizeof data);
    expect_result(&down, sizeof back);
    assert_memory_equal(back, data, sizeof data);
    vram_context_destroy(rig.context);
}

/* A wait that sleeps between looks keeps its deadline, with no interval and with one of
   centuries. */
static void polling_keeps_deadlines(void **state) {
    static const uint64_t intervals[] = {0, 1, 1000, 50000000, UINT64_MAX};
    static struct gate gate;
    static char data[64];
    (void)state;
    struct rig rig = rig_make("host", NULL);
    vram_addr addr = memory_of(rig.device, sizeof data);
    for (size_t i = 0; i < sizeof intervals / sizeof intervals[0]; i++) {
        vram_transfer_options options = by(VRAM_TRANSFER_DMA_POLLING);
        vram_async async;
        options.poll_ns = intervals[i];
        gate_shut(rig.device, rig.queue, &gate);
        assert_ok(vram_transfer_upload(rig.queue, addr, data, sizeof data, &options, &async));
        uint64_t before = vr_os_now();
        assert_int_equal(vram_async_wait(&async, 3000000), VRAM_ERR_TIMEOUT);
        uint64_t took = vr_os_now() - before;
        assert_true(took >= 3000000 && took < 30 * SECOND);
        gate_open(&gate);
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_async_wait(&async, 0));
    }
    vram_context_destroy(rig.context);
}

/* --------------------------------------------------------------------- direct */

static void direct_copies_nothing(void **state) {
    static char other[4096];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_transfer_options direct = by(VRAM_TRANSFER_DIRECT);
    vram_addr managed, device = memory_of(rig.device, 4096);
    vram_async async;
    assert_ok(vram_device_alloc(rig.device, 4096, VRAM_MEMORY_MANAGED, &managed));
    void *host = (void *)(uintptr_t)managed;
    const vram_transfer_options *const ways[] = {&direct, NULL}; /* AUTO finds out */
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_transfer_upload(rig.queue, managed, host, 4096, ways[i], &async));
        expect_result(&async, 0);
        assert_ok(vram_transfer_download(rig.queue, host, managed, 4096, ways[i], &async));
        expect_result(&async, 0);
    }
    assert_int_equal(calls_of(&rig, VRAM_SIM_UPLOAD) + calls_of(&rig, VRAM_SIM_DOWNLOAD), 0);
    assert_int_equal(calls_of(&rig, VRAM_SIM_PREFETCH), 4); /* the fence of memory that migrates */
    assert_int_equal(vram_transfer_upload(rig.queue, managed, other, 4096, &direct, &async),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_transfer_copy(rig.queue, device, managed, 4096, &direct, &async),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_transfer_fill(rig.queue, managed, 0, 1, 4096, &direct, &async),
                     VRAM_ERR_INVALID);
    fault(&rig, VRAM_SIM_PREFETCH, 1, false, 9999); /* a hint that is refused is no failure */
    assert_ok(vram_transfer_upload(rig.queue, managed, host, 4096, &direct, &async));
    expect_result(&async, 0);
    rig_end_clean(&rig);
}

/* ---------------------------------------------------------------------- staged */

/* Large copies of ordinary memory go through staging first, then by what was measured. */
static void ordinary_memory_is_staged(void **state) {
    enum { BYTES = 3 * 1024 * 1024 + 77 };
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    unsigned char *from = pattern_of(BYTES, 1), *back = pattern_of(BYTES, 2);
    vram_addr a = memory_of(rig.device, BYTES);
    for (int i = 0; i < 6; i++) {
        vram_async async;
        from[i] ^= 0xff;
        assert_ok(vram_transfer_upload(rig.queue, a, from, BYTES, NULL, &async));
        expect_result(&async, BYTES);
        assert_ok(vram_transfer_download(rig.queue, back, a, BYTES, NULL, &async));
        expect_result(&async, BYTES);
        assert_memory_equal(back, from, BYTES);
    }
    vram_transfer_stats stats = {.size = sizeof stats};
    assert_ok(
        vram_transfer_stats_get(rig.device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_STAGED, &stats));
    assert_true(stats.operations >= 2 && stats.operations <= 5); /* and one the driver's way */
    assert_ok(
        vram_transfer_stats_get(rig.device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_STAGED, &stats));
    assert_true(stats.operations >= 2 && stats.operations <= 5);
    free(from);
    free(back);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------ page-locked */

static void pinned_memory_is_an_address_or_a_pointer(void **state) {
    (void)state;
    struct rig rig = rig_make("host", NULL);
    unsigned char *from = pattern_of(8192, 3);
    vram_addr pinned, device = memory_of(rig.device, 8192);
    vram_async async;
    assert_ok(vram_device_alloc(rig.device, 8192, VRAM_MEMORY_PINNED, &pinned));
    memcpy((void *)(uintptr_t)pinned, from, 8192);
    assert_ok(vram_transfer_copy(rig.queue, device, pinned, 8192, NULL, &async));
    expect_result(&async, 8192);
    memset((void *)(uintptr_t)pinned, 0, 8192);
    assert_ok(vram_transfer_copy(rig.queue, pinned, device, 8192, NULL, &async));
    expect_result(&async, 8192);
    assert_memory_equal((void *)(uintptr_t)pinned, from, 8192);
    /* What is the library's is checked on the host's side, too. */
    assert_int_equal(
        vram_transfer_upload(rig.queue, device, (char *)(uintptr_t)pinned + 1, 8192, NULL, &async),
        VRAM_ERR_INVALID);
    assert_int_equal(vram_transfer_download(rig.queue, (char *)(uintptr_t)pinned + 4096, device,
                                            8192, NULL, NULL),
                     VRAM_ERR_INVALID);
    free(from);
    vram_context_destroy(rig.context);
}

/* -------------------------------------------------------------------- 2-D */

enum { ROWS = 37, ROW = 53, PITCH_A = 64, PITCH_B = 101 };

static void rows_expect(const unsigned char *to, size_t to_pitch, const unsigned char *from,
                        size_t from_pitch) {
    for (size_t row = 0; row < ROWS; row++) {
        assert_memory_equal(to + row * to_pitch, from + row * from_pitch, ROW);
    }
}

static void rectangles_move(void **state) {
    enum { BYTES = ROWS * PITCH_B };
    (void)state;
    for (int place = 0; place < PLACES; place++) {
        struct rig rig = rig_make(places[place].backend, places[place].sim);
        unsigned char *from = pattern_of(BYTES, 1), *back = pattern_of(BYTES, 2);
        unsigned char *kept = pattern_of(BYTES, 2);
        vram_addr a = memory_of(rig.device, BYTES), b = memory_of(rig.device, BYTES);
        vram_async async;
        vram_copy_2d up = {{.to = a, .from_host = from}, ROW, ROWS, PITCH_A, PITCH_B};
        vram_copy_2d across = {{.to = b, .from = a}, ROW, ROWS, 0, PITCH_A};
        vram_copy_2d down = {{.to_host = back, .from = b}, ROW, ROWS, PITCH_B, 0};
        assert_ok(vram_transfer_2d(rig.queue, &up, NULL, &async));
        expect_result(&async, ROWS * ROW);
        assert_ok(vram_transfer_2d(rig.queue, &across, NULL, &async));
        assert_ok(vram_transfer_2d(rig.queue, &down, NULL, &async));
        expect_result(&async, ROWS * ROW);
        rows_expect(back, PITCH_B, from, PITCH_B);
        for (size_t row = 0; row + 1 < ROWS; row++) { /* the gaps are not touched */
            assert_memory_equal(back + row * PITCH_B + ROW, kept + row * PITCH_B + ROW,
                                PITCH_B - ROW);
        }
        free(from);
        free(back);
        free(kept);
        vram_context_destroy(rig.context);
    }
}

static void rectangles_without_gaps_are_one_copy(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    unsigned char *from = pattern_of(64 * 64, 1);
    vram_addr a = memory_of(rig.device, 64 * 64);
    vram_async async;
    vram_copy_2d up = {{.to = a, .from_host = from}, 64, 64, 0, 64};
    assert_ok(vram_transfer_2d(rig.queue, &up, NULL, &async));
    expect_result(&async, 64 * 64);
    assert_int_equal(calls_of(&rig, VRAM_SIM_UPLOAD), 1);
    expect_contents(rig.queue, a, from, 64 * 64);
    free(from);
    rig_end_clean(&rig);
}

static void rectangles_that_cannot_be(void **state) {
    static char host[4096];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_addr a = memory_of(rig.device, 4096); /* rounded up to the granule */
    vram_memory_info memory = {.size = sizeof memory};
    assert_ok(vram_memory_info_get(rig.device, &memory));
    uint64_t held = memory.held_bytes;
    const struct {
        vram_copy_2d copy;
        vram_status status;
    } cases[] = {
        {{{.to = a, .from_host = host}, 16, 4, 15, 16}, VRAM_ERR_INVALID},
        {{{.to = a, .from_host = host}, 16, 4, 16, 15}, VRAM_ERR_INVALID},
        {{{.to = a, .from_host = host}, 16, UINT64_MAX, 16, 16}, VRAM_ERR_OVERFLOW},
        {{{.to = a, .from_host = host}, 16, 4, UINT64_MAX / 2, 16}, VRAM_ERR_OVERFLOW},
        {{{.to = a, .from_host = host}, 16, held / 16 + 1, 16, 16}, VRAM_ERR_INVALID},
        {{{.to = a, .from = a + 32}, 64, 8, 256, 256}, VRAM_ERR_INVALID},
        {{{.to = a + 256 * 3 - 8, .from = a}, 64, 8, 256, 256}, VRAM_ERR_INVALID},
        {{{.to = a, .from = a + 64}, 32, 8, 256, 128}, VRAM_ERR_INVALID},
        {{{.to = a, .from = a}, 64, 8, 256, 256}, VRAM_ERR_INVALID},
        {{{.from_host = host}, 16, 4, 16, 16}, VRAM_ERR_INVALID},
        {{{.to = a}, 16, 4, 16, 16}, VRAM_ERR_INVALID},
        {{{.to = a, .from = a + 64}, 64, 8, 256, 256}, VRAM_OK}, /* side by side */
        {{{.to = a, .from_host = host}, 0, 4, 0, 0}, VRAM_OK},
        {{{.to = 1, .from_host = host}, 4, 0, 0, 0}, VRAM_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vram_async async;
        vram_error_clear();
        assert_int_equal(vram_transfer_2d(rig.queue, &cases[i].copy, NULL, &async),
                         cases[i].status);
        assert_int_equal(vram_error_get()->status, cases[i].status);
    }
    assert_int_equal(vram_transfer_2d(rig.queue, NULL, NULL, NULL), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------- batches */

/* Copies of every direction in one list, in any order. */
static void lists_move_every_direction(void **state) {
    enum { N = 40, EACH = 777 };
    (void)state;
    for (int place = 0; place < PLACES; place++) {
        struct rig rig = rig_make(places[place].backend, places[place].sim);
        unsigned char *from = pattern_of(N * EACH, 1), *back = pattern_of(N * EACH, 5);
        unsigned char *third = pattern_of(N * EACH, 6);
        vram_addr a = memory_of(rig.device, N * EACH), b = memory_of(rig.device, N * EACH);
        vram_addr c = memory_of(rig.device, N * EACH);
        put(rig.queue, b, third, N * EACH);
        vram_copy list[3 * N];
        for (uint64_t i = 0; i < N; i++) {
            uint64_t at = (i * 7 % N) * EACH, other = (i * 11 % N) * EACH; /* all over the place */
            list[3 * i] = (vram_copy){.to = a + at, .from_host = from + other, .bytes = EACH};
            list[3 * i + 1] = (vram_copy){.to_host = back + at, .from = b + at, .bytes = EACH};
            list[3 * i + 2] = (vram_copy){.to = c + at, .from = b + at, .bytes = EACH};
        }
        vram_async async;
        assert_ok(vram_transfer_batch(rig.queue, list, 3 * N, NULL, &async));
        expect_result(&async, 3 * N * EACH);
        assert_memory_equal(back, third, N * EACH);
        expect_contents(rig.queue, c, third, N * EACH);
        for (uint64_t i = 0; i < N; i++) {
            expect_contents(rig.queue, a + (i * 7 % N) * EACH, from + (i * 11 % N) * EACH, EACH);
        }
        free(from);
        free(back);
        free(third);
        vram_context_destroy(rig.context);
    }
}

/* Neighbours on both sides are one copy; neighbours on the device alone are gathered into one. */
static void neighbours_become_one_copy(void **state) {
    enum { N = 500, EACH = 4096 };
    (void)state;
    SKIP_UNDER(0, true, "without pooling blocks are no neighbours");
    for (int scattered = 0; scattered < 2; scattered++) {
        struct rig rig = rig_make("sim", "memory=64M,real=on");
        unsigned char *from = pattern_of(N * EACH, 1), *expected = pattern_of(N * EACH, 2);
        vram_addr a = memory_of(rig.device, N * EACH);
        static vram_copy list[N];
        for (uint64_t i = 0; i < N; i++) {
            uint64_t source = scattered ? i * 77 % N : i;
            list[i] =
                (vram_copy){.to = a + i * EACH, .from_host = from + source * EACH, .bytes = EACH};
            memcpy(expected + i * EACH, from + source * EACH, EACH);
        }
        vram_async async;
        assert_ok(vram_transfer_batch(rig.queue, list, N, NULL, &async));
        assert_int_equal(calls_of(&rig, VRAM_SIM_UPLOAD), 1);
        assert_int_equal(calls_of(&rig, VRAM_SIM_SIGNAL), 1);
        expect_result(&async, N * EACH);
        expect_contents(rig.queue, a, expected, N * EACH);
        free(from);
        free(expected);
        rig_end_clean(&rig);
    }
}

static void lists_that_cannot_be(void **state) {
    static char host[4096];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    vram_addr a = memory_of(rig.device, 64 * KIB), b = memory_of(rig.device, 64 * KIB);
    vram_addr foreign = memory_of(rig.other, 4096);
    const vram_copy good = {.to = a, .from_host = host, .bytes = 16};
    const vram_copy cases[][2] = {
        {good, {.to = a + 15, .from_host = host, .bytes = 16}}, /* written twice */
        {good, {.to = b, .from = a + 8, .bytes = 16}},          /* read and written */
        {good, {.to = b, .from_host = NULL, .bytes = 16}},
        {good, {.to = b, .from_host = host, .from = a, .bytes = 16}},
        {good, {.to_host = host + 64, .from_host = host, .bytes = 16}},
        {good, {.to = b, .from_host = host, .bytes = UINT64_MAX}},
        {good, {.to = foreign, .from_host = host, .bytes = 16}},
        {good, {.to = b, .from = foreign, .bytes = 16}},
        {good, {.to = 12345, .from_host = host, .bytes = 16}},
        {good, {.to = b, .from = b, .bytes = 16}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vram_async async = {{9, 9, 9, 9}}, kept = async;
        vram_error_clear();
        assert_int_equal(vram_transfer_batch(rig.queue, cases[i], 2, NULL, &async),
                         VRAM_ERR_INVALID);
        assert_int_equal(vram_error_get()->status, VRAM_ERR_INVALID);
        assert_string_equal(vram_error_get()->operation, "vram_transfer_batch");
        assert_memory_equal(&async, &kept, sizeof kept);
    }
    assert_int_equal(calls_of(&rig, VRAM_SIM_UPLOAD), 0); /* not even what was good */
    assert_int_equal(vram_transfer_batch(rig.queue, NULL, 1, NULL, NULL), VRAM_ERR_INVALID);
    vram_async async;
    assert_ok(vram_transfer_batch(rig.queue, NULL, 0, NULL, &async));
    expect_result(&async, 0);
    const vram_copy empty[] = {{.bytes = 0}, good, {.to = 1, .bytes = 0}};
    assert_ok(vram_transfer_batch(rig.queue, empty, 3, NULL, &async));
    expect_result(&async, 16);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------- devices */

static void other_devices_are_reached(void **state) {
    static const uint64_t sizes[] = {1, 4096, 4 * 1024 * 1024, 13 * 1024 * 1024 + 5};
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        struct rig rig = rig_make("sim", "memory=64M,devices=2,real=on,lag=20");
        vram_addr there = memory_of(rig.other, sizes[3]), here = memory_of(rig.device, sizes[3]);
        unsigned char *data = pattern_of(sizes[3], 4);
        put(rig.other_queue, there, data, sizes[3]);
        if (enabled) {
            assert_ok(vram_device_peer_enable(rig.device, rig.other));
        }
        for (int i = 0; i < 4; i++) {
            vram_async async;
            assert_ok(vram_queue_fill(rig.queue, here, 0, 1, sizes[i]));
            assert_ok(vram_transfer_copy(rig.queue, here, there, sizes[i], NULL, &async));
            expect_result(&async, sizes[i]);
            expect_contents(rig.queue, here, data, sizes[i]);
        }
        assert_int_equal(calls_of(&rig, VRAM_SIM_PEER_COPY), enabled ? 4 : 0);
        free(data);
        rig_end_clean(&rig);
    }
}

/* ----------------------------------------------------------------- bad input */

static void what_is_wrong_is_said_before_anything_happens(void **state) {
    static char host[4096];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    vram_pool *pool;
    vram_addr freed, a = memory_of(rig.device, 4096), there = memory_of(rig.other, 4096);
    vram_native_info native = {.size = sizeof native};
    assert_ok(vram_native(a, &native));
    assert_ok(test_pool_create(rig.device, NULL, &pool));
    assert_ok(vram_device_alloc(rig.device, 4096, VRAM_MEMORY_DEVICE, &freed));
    assert_ok(vram_device_free(rig.device, freed));
    vram_async async = {{9, 9, 9, 9}}, kept = async;
    vram_transfer_options none = by((vram_transfer_strategy)99);
    vram_transfer_options negative = by((vram_transfer_strategy)-1);
    vram_transfer_options no_size = {0};
    uint64_t calls = sim_state(&rig).calls;
#define INVALID(call) assert_int_equal(call, VRAM_ERR_INVALID)
    INVALID(vram_transfer_upload(NULL, a, host, 1, NULL, &async));
    INVALID(vram_transfer_upload(rig.queue, a, NULL, 1, NULL, &async));
    INVALID(vram_transfer_upload(rig.queue, 0, host, 1, NULL, &async));
    INVALID(vram_transfer_upload(rig.queue, freed, host, 1, NULL, &async));
    INVALID(vram_transfer_upload(rig.queue, there, host, 1, NULL, &async));
    INVALID(vram_transfer_upload(rig.queue, a + native.bytes - 1, host, 2, NULL, &async));
    INVALID(vram_transfer_upload(rig.queue, a, host, UINT64_MAX, NULL, &async));
    INVALID(vram_transfer_upload(rig.queue, a, host, 1, &none, &async));
    INVALID(vram_transfer_upload(rig.queue, a, host, 1, &negative, &async));
    INVALID(vram_transfer_upload(rig.queue, a, host, 1, &no_size, &async));
    INVALID(vram_transfer_upload(rig.queue, a, (void *)(uintptr_t)a, 1, NULL, &async));
    INVALID(vram_transfer_download(rig.queue, NULL, a, 1, NULL, &async));
    INVALID(vram_transfer_download(rig.queue, host, freed, 1, NULL, &async));
    INVALID(vram_transfer_download(rig.queue, host, there, 1, NULL, &async));
    INVALID(vram_transfer_download(rig.queue, host, a + 1, native.bytes, NULL, &async));
    INVALID(vram_transfer_copy(rig.queue, a, freed, 1, NULL, &async));
    INVALID(vram_transfer_copy(rig.queue, freed, a, 1, NULL, &async));
    INVALID(vram_transfer_copy(rig.queue, there, a, 1, NULL, &async));
    INVALID(vram_transfer_copy(rig.queue, a, a + 8, 16, NULL, &async));
    INVALID(vram_transfer_copy(rig.queue, a + 8, a, 16, NULL, &async));
    INVALID(vram_transfer_copy(rig.queue, a, a, 16, NULL, &async));
    INVALID(vram_transfer_fill(rig.queue, a, 0, 3, 9, NULL, &async));
    INVALID(vram_transfer_fill(rig.queue, a, 0, 4, 6, NULL, &async));
    INVALID(vram_transfer_fill(rig.queue, freed, 0, 1, 1, NULL, &async));
    INVALID(vram_transfer_fill(rig.queue, a, 0, 1, native.bytes + 1, NULL, &async));
#undef INVALID
    assert_memory_equal(&async, &kept, sizeof kept);
    assert_int_equal(sim_state(&rig).calls, calls);
    vram_error_clear();
    assert_ok(vram_transfer_upload(rig.queue, 0, NULL, 0, NULL, &async)); /* nothing to do */
    expect_result(&async, 0);
    assert_ok(vram_transfer_upload(rig.queue, a, host, 64, NULL, NULL)); /* no handle wanted */
    vram_queue_destroy(rig.queue);
    assert_int_equal(vram_transfer_upload(rig.queue, a, host, 1, NULL, NULL), VRAM_ERR_STALE);
    rig_end_clean(&rig);
}

/* A queue that is destroyed finishes its work first: the handle says so, and its bytes are
   there. */
static void a_destroyed_queue_finishes_its_transfers(void **state) {
    static struct gate gate;
    static char data[4096], back[4096];
    struct told told = {0};
    (void)state;
    struct rig rig = rig_make("host", NULL);
    vram_addr addr = memory_of(rig.device, sizeof data);
    memset(data, 5, sizeof data);
    memset(back, 0, sizeof back);
    put(rig.queue, addr, data, sizeof data);
    gate_shut(rig.device, rig.queue, &gate);
    vram_async async;
    assert_ok(vram_transfer_download(rig.queue, back, addr, sizeof back, NULL, &async));
    assert_ok(vram_async_then(&async, tell, &told));
    gate_open(&gate);
    vram_queue_destroy(rig.queue);
    assert_memory_equal(back, data, sizeof data);
    assert_int_equal(times(&told), 1);
    assert_int_equal(told.status, VRAM_OK);
    expect_result(&async, sizeof back);
    vram_context_destroy(rig.context);
}

/* --------------------------------------------------------------------- counted */

/* Every transfer ends exactly once in the statistics, also when its handle was given up or never
   asked. */
static void transfers_are_counted(void **state) {
    static struct gate gate;
    static char data[4096];
    (void)state;
    struct rig rig = rig_make("host", NULL);
    vram_addr a = memory_of(rig.device, sizeof data), b = memory_of(rig.device, sizeof data);
    vram_transfer_options sync = by(VRAM_TRANSFER_SYNC), dma = by(VRAM_TRANSFER_DMA_POLLING);
    vram_async async[4];
    gate_shut(rig.device, rig.queue, &gate);
    assert_ok(vram_transfer_upload(rig.queue, a, data, 100, NULL, &async[0]));
    assert_ok(vram_transfer_upload(rig.queue, a, data, 200, NULL, &async[1]));
    assert_ok(vram_transfer_download(rig.queue, data, b, 300, &dma, &async[2]));
    vram_copy list[] = {{.to = a, .from = b, .bytes = 10}, {.to = a + 50, .from = b, .bytes = 20}};
    assert_ok(vram_transfer_batch(rig.queue, list, 2, NULL, &async[3]));
    vram_async_end(&async[1]);
    assert_int_equal(vram_async_wait(&async[2], 2000000), VRAM_ERR_TIMEOUT);
    vram_transfer_stats up =
        transfer_stats_of(rig.device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_ASYNC);
    assert_int_equal(up.started, 2);
    assert_int_equal(up.operations, 0);
    gate_open(&gate);
    assert_ok(vram_transfer_fill(rig.queue, a, 0, 1, 64, &sync, NULL));
    assert_ok(vram_async_poll_all(rig.device, NULL));
    up = transfer_stats_of(rig.device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_ASYNC);
    assert_int_equal(up.operations, 2);
    assert_int_equal(up.bytes, 300);
    assert_int_equal(up.failures, 0);
    vram_transfer_stats down =
        transfer_stats_of(rig.device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_DMA_POLLING);
    assert_int_equal(down.operations, 1);
    assert_int_equal(down.bytes, 300);
    assert_true(down.waited_ns >= 2000000);
    assert_true(down.latency_ns >= down.waited_ns);
    vram_transfer_stats listed =
        transfer_stats_of(rig.device, VRAM_TRANSFER_ON_DEVICE, VRAM_ROUTE_BATCH);
    assert_int_equal(listed.operations, 1);
    assert_int_equal(listed.bytes, 30);
    vram_transfer_stats filled = transfer_stats_of(rig.device, VRAM_TRANSFER_FILL, VRAM_ROUTE_SYNC);
    assert_int_equal(filled.operations, 1);
    assert_int_equal(filled.bytes, 64);
    assert_int_equal(vram_transfer_upload(rig.queue, 1, data, 1, NULL, NULL), VRAM_ERR_INVALID);
    vram_transfer_stats all = transfer_stats_of(rig.device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY);
    assert_int_equal(all.started, 5); /* what was refused never began */
    assert_int_equal(all.operations, 5);
    gate_shut(rig.device, rig.queue, &gate);
    assert_ok(vram_transfer_upload(rig.queue, a, data, 100, NULL, &async[0]));
    gate_open(&gate);
    vram_context_destroy(rig.context);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(every_strategy_moves_bytes),
        HERE(names_are_said),
        HERE(asynchronous_is_asynchronous),
        HERE(polling_keeps_deadlines),
        HERE(direct_copies_nothing),
        HERE(ordinary_memory_is_staged),
        HERE(pinned_memory_is_an_address_or_a_pointer),
        HERE(rectangles_move),
        HERE(rectangles_without_gaps_are_one_copy),
        HERE(rectangles_that_cannot_be),
        HERE(lists_move_every_direction),
        HERE(neighbours_become_one_copy),
        HERE(lists_that_cannot_be),
        HERE(other_devices_are_reached),
        HERE(what_is_wrong_is_said_before_anything_happens),
        HERE(a_destroyed_queue_finishes_its_transfers),
        HERE(transfers_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
