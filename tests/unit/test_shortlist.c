/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shortlist.c: the nearest found on the device, against those that the CPU finds, and that
 * nothing else comes back. On the simulated device; `test_shortlist BACKEND` does what can be done
 * on the first device of another. Vectors are of whole numbers, so that both ways have the same
 * distances to the last bit but for cosine.
 */
#include "unit/compute_world.h"
#include "vram/distance.h"
#include "vram/limits.h"

#include <math.h>

static const char *backend = "sim";

static struct rig rig_of(const char *sim) {
    return rig_make(backend, strcmp(backend, "sim") == 0 ? sim : NULL);
}

static void rig_end(struct rig *rig) {
    if (strcmp(backend, "sim") == 0) {
        rig_end_clean(rig);
    } else {
        vram_context_destroy(rig->context);
    }
}

#define SIM "memory=1G,real=on"

/* A list has more places than were asked for, and what kernels report is this many bytes. */
enum { SLACK = 3, FOUND = 24 };

static float whole(uint64_t seed, uint64_t at) {
    return (float)(int)(made_up(seed, at) * 9);
}

/* Numbers of 8 bits are a 127th of what they count as. */
static vram_distance search_of(uint64_t queries, uint64_t vectors, uint64_t dim, uint64_t k,
                               vram_precision precision) {
    float *query = malloc(queries * dim * sizeof(float));
    float *corpus = malloc(vectors * dim * sizeof(float));
    assert_true(query && corpus);
    for (uint64_t i = 0; i < queries * dim; i++) {
        query[i] = whole(31, i) / (precision == VRAM_PRECISION_INT8 ? 127 : 1);
    }
    for (uint64_t i = 0; i < vectors * dim; i++) {
        corpus[i] = whole(32, i) / (precision == VRAM_PRECISION_INT8 ? 127 : 1);
    }
    return (vram_distance){.size = sizeof(vram_distance),
                           .queries = queries,
                           .vectors = vectors,
                           .dim = dim,
                           .query = query,
                           .corpus = corpus,
                           .precision = precision,
                           .place = VRAM_PLACE_DEVICE,
                           .k = k,
                           .best = calloc(queries * k, sizeof(float)),
                           .best_at = calloc(queries * k, sizeof(uint64_t))};
}

static void search_end(vram_distance *d) {
    free((void *)(uintptr_t)d->query);
    free((void *)(uintptr_t)d->corpus);
    free(d->best);
    free(d->best_at);
}

static void expect_near(double is, double should) {
    double off = is > should ? is - should : should - is;
    if (!(off <= 2e-6 * (1 + (should < 0 ? -should : should)))) {
        fail_msg("%.9g is not %.9g", is, should);
    }
}

/* Runs it, and compares with the CPU's answer; what came back from the device. */
static uint64_t expect_same(vram_scheduler *scheduler, vram_distance *d) {
    vram_distance cpu = *d;
    cpu.place = VRAM_PLACE_CPU;
    cpu.best = calloc(d->queries * d->k, sizeof(float));
    cpu.best_at = calloc(d->queries * d->k, sizeof(uint64_t));
    memset(d->best_at, 0xff, d->queries * d->k * sizeof(uint64_t));
    assert_ok(vram_distance_run(scheduler, &cpu));
    uint64_t before = stats_of_scheduler(scheduler).downloaded_bytes;
    assert_ok(vram_distance_run(scheduler, d));
    for (uint64_t i = 0; i < d->queries * d->k; i++) {
        expect_near((double)d->best[i], (double)cpu.best[i]);
        if (d->metric != VRAM_METRIC_COSINE) { /* where rounding decides between equal ones */
            assert_int_equal(d->best_at[i], cpu.best_at[i]);
        }
    }
    free(cpu.best);
    free(cpu.best_at);
    return stats_of_scheduler(scheduler).downloaded_bytes - before;
}

static vram_scheduler *scheduler_in(vram_pool *pool, uint64_t device_bytes, uint32_t queues) {
    vram_scheduler_options options = {
        .size = sizeof options, .device_bytes = device_bytes, .queues = queues};
    vram_scheduler *scheduler;
    assert_ok(vram_scheduler_create(pool, &options, &scheduler));
    return scheduler;
}

/* -------------------------------------------------------------------------- right */

/* One for each queue of three, if it gets them. */
static uint64_t lists_on(const struct rig *rig) {
    vram_device_info info = {.size = sizeof info};
    assert_ok(vram_device_describe(rig->device, &info));
    return info.kind == VRAM_DEVICE_CPU && strcmp(info.backend, "opencl") == 0 ? 1 : 3;
}

static int begin(void);

static int begin_simulated(void);

TEST(every_metric_and_precision) {
    static const vram_precision precisions[] = {VRAM_PRECISION_FP32, VRAM_PRECISION_FP16,
                                                VRAM_PRECISION_INT8};
    static const uint64_t room[] = {0, UINT64_C(300) << 10}; /* one tile; many, on every queue */
    struct rig rig = rig_of(SIM);
    vram_pool *pool = pool_of(&rig, 0);
    for (int r = 0; r < 2; r++) {
        vram_scheduler *scheduler = scheduler_in(pool, room[r], 3);
        for (int i = 0; i < 3; i++) {
            vram_distance d = search_of(5, 1300, 13, 7, precisions[i]);
            for (int metric = VRAM_METRIC_L2_SQUARED; metric <= VRAM_METRIC_COSINE; metric++) {
                d.metric = (vram_metric)metric;
                /* A list of each queue's and four words: nothing else comes back. */
                uint64_t lists = r ? lists_on(&rig) : 1;
                assert_int_equal(expect_same(scheduler, &d), lists * (5 * (7 + SLACK) * 8 + FOUND));
            }
            search_end(&d);
        }
        vram_scheduler_stats stats = stats_of_scheduler(scheduler);
        assert_true(r ? stats.tiles > 30 : stats.tiles == 12);
        assert_int_equal(stats.last_place, VRAM_PLACE_DEVICE);
        assert_ok(vram_scheduler_destroy(scheduler));
    }
    assert_int_equal(live_in(pool), 0);
    rig_end(&rig);
}

/* Whatever the order in which they come: equal, ever better, ever worse; and lists of every
   length. */
TEST(any_order_and_any_length) {
    static const uint64_t lengths[] = {1, 2, 31, 127, 128};
    struct rig rig = rig_of(SIM);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_in(pool, 0, 2);
    for (int i = 0; i < 5; i++) {
        vram_distance d = search_of(3, 4500, 2, lengths[i], VRAM_PRECISION_FP32);
        float *corpus = (float *)(uintptr_t)d.corpus, *query = (float *)(uintptr_t)d.query;
        memset(query, 0, 3 * 2 * sizeof(float));
        for (int order = 0; order < 3; order++) {
            for (uint64_t j = 0; j < 4500; j++) {
                corpus[2 * j] = order == 0 ? 3 : order == 1 ? (float)(4500 - j) : (float)j;
                corpus[2 * j + 1] = 0;
            }
            (void)expect_same(scheduler, &d);
            for (uint64_t j = 0; j < 3 * d.k; j++) {
                assert_int_equal(d.best_at[j], order == 1 ? 4499 - j % d.k : j % d.k);
            }
        }
        search_end(&d);
    }
    /* All of a small corpus, one vector, and more than a list has places for: which the host then
       sorts. */
    vram_distance d = search_of(3, 128, 5, 128, VRAM_PRECISION_FP16);
    (void)expect_same(scheduler, &d);
    search_end(&d);
    d = search_of(3, 1, 5, 1, VRAM_PRECISION_INT8);
    (void)expect_same(scheduler, &d);
    search_end(&d);
    d = search_of(3, 200, 5, 129, VRAM_PRECISION_FP32);
    assert_int_equal(expect_same(scheduler, &d), 3 * 200 * sizeof(float));
    search_end(&d);
    rig_end(&rig);
}

/* More queries than a block and a pass take. */
TEST(many_queries) {
    struct rig rig = rig_of(SIM);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_in(pool, UINT64_C(200) << 10, 3);
    vram_distance d = search_of(1500, 90, 9, 3, VRAM_PRECISION_FP16);
    uint64_t lists = 1500 * (3 + SLACK) * 8;
    uint64_t back = expect_same(scheduler, &d);
    assert_true(back >= lists && back < 4 * lists);
    search_end(&d);
    rig_end(&rig);
}

/* Several devices, and a scheduler that is named twice: numbers are those of the whole corpus. */
TEST(parts_of_a_corpus) {
    struct rig rig = rig_of(SIM);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *twice[2] = {scheduler_in(pool, 0, 3), scheduler_in(pool, 0, 1)};
    vram_distance d = search_of(4, 401, 6, 9, VRAM_PRECISION_FP32);
    (void)expect_same(twice[0], &d);
    uint64_t at[4 * 9];
    memcpy(at, d.best_at, sizeof at);
    memset(d.best_at, 0xff, sizeof at);
    assert_ok(vram_distance_split(twice, 2, &d));
    assert_memory_equal(at, d.best_at, sizeof at);
    search_end(&d);
    rig_end(&rig);
}

/* ------------------------------------------------------------------ odd numbers */

TEST(what_is_not_finite) {
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    static const vram_precision precisions[] = {VRAM_PRECISION_FP32, VRAM_PRECISION_FP16,
                                                VRAM_PRECISION_INT8};
    struct rig rig = rig_of(SIM);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_in(pool, 0, 2);
    for (int i = 0; i < 3; i++) {
        vram_distance d = search_of(2, 300, 5, 4, precisions[i]);
        float *corpus = (float *)(uintptr_t)d.corpus, *query = (float *)(uintptr_t)d.query;
        for (int j = 0; j < 3; j++) {
            char said[2][VRAM_ERROR_TEXT_MAX];
            corpus[291 * 5 + 4] = odd[j];
            query[7] = j == 2 ? odd[j] : 0;
            d.nonfinite = VRAM_NONFINITE_REJECT;
            for (int place = VRAM_PLACE_CPU; place <= VRAM_PLACE_DEVICE; place++) {
                d.place = (vram_place)place; /* the same words on every path */
                assert_int_equal(vram_distance_run(scheduler, &d), VRAM_ERR_INVALID);
                strcpy(said[place - VRAM_PLACE_CPU], vram_error_get()->text);
            }
            assert_string_equal(said[0], said[1]);
            d.nonfinite = VRAM_NONFINITE_ZERO;
            vram_error_clear();
            assert_int_equal(expect_same(scheduler, &d), 2 * (4 + SLACK) * 8 + FOUND);
        }
        search_end(&d);
    }
    vram_distance d = search_of(2, 300, 5, 4, VRAM_PRECISION_FP16);
    ((float *)(uintptr_t)d.corpus)[1] = 65520; /* infinite as a half; below it is not */
    assert_int_equal(vram_distance_run(scheduler, &d), VRAM_ERR_INVALID);
    ((float *)(uintptr_t)d.corpus)[1] = 65519;
    vram_error_clear();
    (void)expect_same(scheduler, &d);
    search_end(&d);
    assert_ok(
        vram_scheduler_destroy(scheduler)); /* a library for products keeps memory until then */
    assert_int_equal(live_in(pool), 0);
    rig_end(&rig);
}

/* Squares that single precision does not hold: the host's way finds them all the same. */
TEST(very_long_and_very_short) {
    static const float sizes[] = {1e19f, 1e-18f};
    struct rig rig = rig_of(SIM);
    vram_scheduler *scheduler = scheduler_in(pool_of(&rig, 0), 0, 2);
    for (int i = 0; i < 2; i++) {
        vram_distance d = search_of(2, 300, 2, 4, VRAM_PRECISION_FP32);
        d.metric = VRAM_METRIC_COSINE;
        for (int j = 0; j < 600; j++) {
            ((float *)(uintptr_t)d.corpus)[j] *= sizes[i];
        }
        uint64_t back = expect_same(scheduler, &d);
        assert_true(strcmp(backend, "sim") == 0 || strcmp(backend, "host") == 0 ||
                    back > 2 * 300 * sizeof(float));
        search_end(&d);
    }
    rig_end(&rig);
}

/* Halves between two of theirs go to the nearest, those in the middle to the even one: as on the
   CPU. */
TEST(halves_are_rounded_alike) {
    struct rig rig = rig_of(SIM);
    vram_scheduler *scheduler = scheduler_in(pool_of(&rig, 0), 0, 2);
    vram_distance d = search_of(2, 2000, 1, 128, VRAM_PRECISION_FP16);
    d.metric = VRAM_METRIC_INNER_PRODUCT;
    ((float *)(uintptr_t)d.query)[0] = ((float *)(uintptr_t)d.query)[1] = 1;
    for (uint32_t j = 0; j < 2000; j++) { /* every kind of rest below a half's last bit */
        uint32_t exponent = 127 - 26 + j % 40 < 127 + 15 ? 127 - 26 + j % 40 : 127;
        uint32_t bits = exponent << 23 | (j / 40 % 2) << 13 | (j / 80 % 4) << 12 | (j & 1);
        ((float *)(uintptr_t)d.corpus)[j] = vr_bits_float(bits);
    }
    (void)expect_same(scheduler, &d);
    ((float *)(uintptr_t)d.query)[0] = -1; /* the smallest first */
    (void)expect_same(scheduler, &d);
    search_end(&d);
    rig_end(&rig);
}

/* Every half times one is the float of the same value: a shader may have its own way from the one
   to the other. */
TEST(every_half_is_exact) {
    enum { ROWS = 4096, SIDE = 16 };
    static uint16_t a[ROWS * SIDE], one[SIDE * SIDE];
    static float c[ROWS * SIDE];
    struct rig rig = rig_of(SIM);
    vram_scheduler *scheduler = scheduler_in(pool_of(&rig, 0), 0, 1);
    for (uint32_t i = 0; i < ROWS * SIDE; i++) { /* what is not finite would spread in its row */
        a[i] = (uint16_t)((i & 0x7C00) == 0x7C00 ? 0 : i);
    }
    for (uint32_t i = 0; i < SIDE; i++) {
        one[i * SIDE + i] = 0x3C00;
    }
    vram_matmul product = {.size = sizeof product,
                           .m = ROWS,
                           .k = SIDE,
                           .n = SIDE,
                           .a = a,
                           .b = one,
                           .c = c,
                           .precision = VRAM_PRECISION_FP16,
                           .place = VRAM_PLACE_DEVICE};
    assert_ok(vram_matmul_run(scheduler, &product));
    for (uint32_t i = 0; i < ROWS * SIDE; i++) {
        if (!(c[i] == vr_half_float(a[i]))) {
            fail_msg("the half %04x is %.9g, should be %.9g", a[i], (double)c[i],
                     (double)vr_half_float(a[i]));
        }
    }
    rig_end(&rig);
}

/* ------------------------------------------------------------------------- memory */

/* A pool that is too small for the tiles that were planned: they become smaller, and at last it is
   the CPU's turn. */
TEST_IN(begin_simulated, nothing_left, memory_runs_out) {
    static const uint64_t limits[] = {UINT64_C(24) << 20, UINT64_C(4) << 20, UINT64_C(1) << 12};
    uint64_t shrinks = 0, fallbacks = 0;
    for (int i = 0; i < 3; i++) {
        struct rig rig = rig_of(SIM);
        vram_limits limit = {.size = sizeof limit, .hard_bytes = limits[i]};
        vram_pool_options options = {.size = sizeof options, .limits = &limit};
        vram_pool *pool;
        assert_ok(vram_pool_create(rig.device, &options, &pool));
        vram_scheduler *scheduler = scheduler_in(pool, 0, 3);
        vram_distance d = search_of(400, 3000, 8, 5, VRAM_PRECISION_FP32);
        d.place = VRAM_PLACE_AUTO;
        (void)expect_same(scheduler, &d);
        shrinks += stats_of_scheduler(scheduler).shrinks;
        fallbacks += stats_of_scheduler(scheduler).cpu_fallbacks;
        search_end(&d);
        assert_int_equal(live_in(pool), 0);
        rig_end(&rig);
    }
    assert_true(shrinks > 0);
    assert_true(fallbacks > 0);
}

/* The second search of a shape finds all memory in the pool. */
TEST_IN(begin_simulated, nothing_left, a_second_search_takes_no_memory) {
    struct rig rig = rig_of(SIM);
    vram_scheduler *scheduler = scheduler_in(pool_of(&rig, 0), UINT64_C(2) << 20, 3);
    vram_distance d = search_of(20, 3000, 8, 5, VRAM_PRECISION_FP16);
    assert_ok(vram_distance_run(scheduler, &d));
    uint64_t before = stats_of_scheduler(scheduler).pool_driver_allocs;
    assert_ok(vram_distance_run(scheduler, &d));
    assert_int_equal(stats_of_scheduler(scheduler).pool_driver_allocs, before);
    search_end(&d);
    rig_end(&rig);
}

/* -------------------------------------------------------------------------- threads */

static int begin(void) {
    int failed = start();
    assert_ok(vram_option_set("blas_library", "none"));
    return failed;
}

/* Without a backend that is asked for. */
static int begin_simulated(void) {
    if (rig_word(1)) {
        skip();
    }
    return begin();
}

static int begin_file(void) {
    backend = rig_word(1) ? rig_word(1) : backend;
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(begin, nothing_left)
