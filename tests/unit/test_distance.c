/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_distance.c: distances against double precision, by every metric and precision, as a matrix
 * and as the nearest, in tiles, on several devices, and what is refused. Item 27 of the acceptance
 * list.
 */
#include "unit/compute_world.h"
#include "vram/distance.h"

#include <math.h>

#define SIM "memory=1G,real=on"

static int begin(void) {
    int failed = start();
    assert_ok(vram_option_set("blas_library", "none"));
    return failed;
}

static void expect_told(const char *part) {
    if (!strstr(vram_error_get()->text, part)) {
        fail_msg("\"%s\" is not in \"%s\"", part, vram_error_get()->text);
    }
}

/* What a number counts as. */
static double rounded(const vram_distance *d, float value) {
    if (d->nonfinite == VRAM_NONFINITE_ZERO && !(value - value == 0)) {
        return 0;
    }
    if (d->precision == VRAM_PRECISION_FP16) {
        return vr_half_float(vr_float_half(value));
    }
    if (d->precision == VRAM_PRECISION_INT8) {
        double scale = d->scale ? (double)d->scale : 127, scaled = value * scale;
        scaled = scaled > 127 ? 127 : scaled < -128 ? -128 : scaled;
        return (double)(long)(scaled < 0 ? scaled - 0.5 : scaled + 0.5) / scale;
    }
    return value;
}

static double truth(const vram_distance *d, uint64_t query, uint64_t vector) {
    double squared = 0, product = 0, q = 0, c = 0;
    for (uint64_t i = 0; i < d->dim; i++) {
        double x = rounded(d, d->query[query * d->dim + i]);
        double y = rounded(d, d->corpus[vector * d->dim + i]);
        squared += (x - y) * (x - y);
        product += x * y;
        q += x * x;
        c += y * y;
    }
    switch (d->metric) {
    case VRAM_METRIC_L2:
        return sqrt(squared);
    case VRAM_METRIC_INNER_PRODUCT:
        return product;
    case VRAM_METRIC_COSINE:
        return q > 0 && c > 0 ? 1 - product / sqrt(q * c) : 1;
    default:
        return squared;
    }
}

static vram_distance search_of(uint64_t queries, uint64_t vectors, uint64_t dim, uint64_t k) {
    return (vram_distance){.size = sizeof(vram_distance),
                           .queries = queries,
                           .vectors = vectors,
                           .dim = dim,
                           .query = matrix_of(queries * dim, VRAM_PRECISION_FP32, 21),
                           .corpus = matrix_of(vectors * dim, VRAM_PRECISION_FP32, 22),
                           .query_elements = queries * dim,
                           .corpus_elements = vectors * dim,
                           .distances = calloc(queries * vectors, sizeof(float)),
                           .distance_elements = queries * vectors,
                           .k = k,
                           .best = k ? calloc(queries * k, sizeof(float)) : NULL,
                           .best_at = k ? calloc(queries * k, sizeof(uint64_t)) : NULL};
}

static void search_end(vram_distance *d) {
    free((void *)(uintptr_t)d->query);
    free((void *)(uintptr_t)d->corpus);
    free(d->distances);
    free(d->best);
    free(d->best_at);
}

static void expect_close(double is, double should) {
    double off = is > should ? is - should : should - is;
    if (off > 2e-5 * (1 + (should < 0 ? -should : should))) {
        fail_msg("%.9g is not %.9g", is, should);
    }
}

/* The matrix is right (every `stride`-th result of it), and the nearest are the best of the matrix,
   in order. */
static void expect_right(const vram_distance *d, uint64_t stride) {
    bool largest = d->metric == VRAM_METRIC_INNER_PRODUCT;
    for (uint64_t at = 0; at < d->queries * d->vectors; at += stride) {
        expect_close(d->distances[at], truth(d, at / d->vectors, at % d->vectors));
    }
    for (uint64_t q = 0; q < d->queries; q++) {
        const float *row = d->distances + q * d->vectors;
        for (uint64_t i = 0; i < d->k; i++) {
            float value = d->best[q * d->k + i];
            uint64_t at = d->best_at[q * d->k + i], better = 0;
            assert_true(at < d->vectors);
            assert_true(row[at] == value);
            for (uint64_t j = 0; j < d->vectors; j++) {
                bool same = row[j] == value;
                better += same ? j < at : largest ? row[j] > value : row[j] < value;
            }
            assert_int_equal(better, i);
        }
    }
}

/* ------------------------------------------------------------------------ right */

/* Multiples of a unit, exact in every precision, around an offset; some are not finite, and some
   vectors are 0 or equal. */
static void numbers_make(float *numbers, uint64_t rows, uint64_t dim, uint64_t seed, float offset,
                         float unit) {
    for (uint64_t at = 0; at < rows * dim; at++) {
        uint64_t row = at / dim == 9 ? 8 : at / dim, from = row * dim + at % dim;
        numbers[at] = from % 41 == 17 ? (from % 2 ? INFINITY : NAN)
                      : row == 2 || (row == 7 && seed == 2)
                          ? 0
                          : offset + (float)(int)(made_up(seed, from) * 7) * unit;
    }
}

/* Each of the nearest has its true distance, and no other vector is nearer. */
static void expect_nearest(const vram_distance *d) {
    for (uint64_t q = 0; q < d->queries; q++) {
        double size = d->metric == VRAM_METRIC_COSINE ? 1 : 0, sign = 1;
        sign = d->metric == VRAM_METRIC_INNER_PRODUCT ? -1 : 1;
        for (uint64_t v = 0; v < d->vectors; v++) {
            size = fmax(size, fabs(truth(d, q, v)));
        }
        for (uint64_t v = 0; d->distances && v < d->vectors; v++) {
            assert_true(fabs((double)d->distances[q * d->vectors + v] - truth(d, q, v)) <=
                        1e-5 * size);
        }
        for (uint64_t i = q * d->k; i < (q + 1) * d->k; i++) {
            uint64_t better = 0;
            double found = truth(d, q, d->best_at[i]);
            assert_true(fabs((double)d->best[i] - found) <= 1e-5 * size);
            for (uint64_t v = 0; v < d->vectors; v++) {
                better += sign * (found - truth(d, q, v)) > 1e-5 * size;
            }
            assert_true(better <= i - q * d->k);
        }
    }
}

/* Every precision, metric and place, as a matrix and as the nearest alone, with and without a
   centre, and with numbers whose squares vanish. */
TEST(acceptance_27_numbers_of_all_kinds, "sim:" SIM) {
    static const vram_precision precisions[] = {VRAM_PRECISION_FP32, VRAM_PRECISION_FP16,
                                                VRAM_PRECISION_INT8};
    static const uint64_t dims[] = {3, 8, 21};
    static const struct {
        float offset, unit;
        int precisions; /* of the above, in which these numbers are exact */
    } numbers[] = {{0, 0.25f, 3}, {6, 0.25f, 3}, {0, 0x1.0p-64f, 1}, {0, 0x1.0p-80f, 1}};
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    uint64_t saturated;
    for (int kind = 0; kind < 3 * 4 * 4 * 4; kind++) {
        vram_metric metric = (vram_metric)(kind / 12 % 4);
        float offset = numbers[kind / 3 % 4].offset, unit = numbers[kind / 3 % 4].unit;
        if (unit < 0x1.0p-64f && metric != VRAM_METRIC_L2 && metric != VRAM_METRIC_COSINE) {
            continue; /* no float holds the results */
        }
        vram_distance d = search_of(4, 60, dims[kind % 3], 5);
        numbers_make((float *)(uintptr_t)d.query, 4, d.dim, 1, offset, unit);
        numbers_make((float *)(uintptr_t)d.corpus, 60, d.dim, 2, offset, unit);
        d.metric = metric;
        d.place = kind / 48 % 2 ? VRAM_PLACE_DEVICE : VRAM_PLACE_CPU;
        d.nonfinite = VRAM_NONFINITE_ZERO;
        d.saturated = &saturated;
        float *matrix = d.distances;
        d.distances = kind / 96 ? matrix : NULL;
        for (int i = 0; i < numbers[kind / 3 % 4].precisions; i++) {
            d.precision = precisions[i];
            d.scale = 1 / unit;
            assert_ok(vram_distance_run(scheduler, &d));
            expect_nearest(&d);
        }
        d.distances = matrix;
        search_end(&d);
    }
    assert_int_equal(live_in(pool), 0);
}

/* (1, 2, 3) and (1, 0, 0) are 13 apart: squared, and said to be. */
TEST(acceptance_27_squared) {
    float query[] = {1, 2, 3}, corpus[] = {1, 0, 0, 1, 2, 3}, distances[2], best;
    uint64_t at;
    vram_distance d = {.size = sizeof d,
                       .queries = 1,
                       .vectors = 2,
                       .dim = 3,
                       .query = query,
                       .corpus = corpus,
                       .distances = distances,
                       .k = 1,
                       .best = &best,
                       .best_at = &at};
    struct rig rig = rig_make("host", NULL);
    assert_ok(vram_distance_on(rig.context, 0, &d));
    assert_true(distances[0] == 13.0f && distances[1] == 0.0f);
    assert_true(best == 0.0f && at == 1);
    d.precision = VRAM_PRECISION_FP16;
    assert_ok(vram_distance_on(rig.context, 0, &d));
    assert_true(distances[0] == 13.0f && distances[1] == 0.0f);
    d.precision = VRAM_PRECISION_INT8;
    assert_int_equal(vram_distance_on(rig.context, 0, &d), VRAM_ERR_INVALID);
    expect_told("number 1 of query 0 is 2, beyond int8 with a scale of 127");
    d.scale = 127.0f / 3;
    assert_ok(vram_distance_on(rig.context, 0, &d));
    assert_true(distances[1] == 0 && best == 0 && at == 1);
    assert_true(distances[0] > 12.9f && distances[0] < 13.1f);
    uint64_t saturated = 0;
    d.scale = 0, d.saturated = &saturated; /* what is beyond 1 is 1: (1, 1, 1) and (1, 0, 0) */
    assert_ok(vram_distance_on(rig.context, 0, &d));
    expect_close(distances[0], 2);
    assert_int_equal(saturated, 4);
    assert_int_equal(vram_distance_on(rig.context, 9, &d), VRAM_ERR_NO_DEVICE);
    assert_int_equal(vram_distance_on(rig.context, 0, NULL), VRAM_ERR_INVALID);
    vram_context_destroy(rig.context);
}

/* Far more vectors than a group has threads, more than one tile of both, and equal ones among
   them. */
TEST(acceptance_27_many_vectors, "sim:" SIM) {
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_distance d = search_of(3, 5000, 7, 10);
    memcpy((float *)(uintptr_t)d.corpus + 4900 * 7, d.corpus, 50 * 7 * sizeof(float));
    assert_ok(vram_distance_run(scheduler, &d));
    expect_right(&d, 97);
    search_end(&d);
    d = search_of(2100, 40, 5, 3);
    assert_ok(vram_distance_run(scheduler, &d));
    expect_right(&d, 11);
    /* The nearest alone, without the matrix, and all of them in order. */
    float *all = calloc(2100 * 40, sizeof(float));
    uint64_t *order = calloc(2100 * 40, sizeof(uint64_t));
    vram_distance nearest = d;
    nearest.distances = NULL;
    nearest.k = 40, nearest.best = all, nearest.best_at = order;
    assert_ok(vram_distance_run(scheduler, &nearest));
    for (uint64_t q = 0; q < 2100; q++) {
        assert_memory_equal(all + q * 40, d.best + q * 3, 3 * sizeof(float));
        for (uint64_t i = 1; i < 40; i++) {
            assert_true(all[q * 40 + i - 1] <= all[q * 40 + i]);
        }
    }
    free(all);
    free(order);
    search_end(&d);
}

/* Each device has a part of the corpus; the answer is that of one. */
TEST(several_devices, "sim:" SIM ",devices=2") {
    vram_pool *pool = pool_of(rig, 0), *other;
    assert_ok(vram_pool_create(rig->other, NULL, &other));
    vram_scheduler *schedulers[3] = {scheduler_of(pool, VRAM_PLACE_DEVICE),
                                     scheduler_of(other, VRAM_PLACE_DEVICE), NULL};
    schedulers[2] = schedulers[0];
    vram_distance d = search_of(4, 103, 9, 6);
    for (int metric = VRAM_METRIC_L2_SQUARED; metric <= VRAM_METRIC_INNER_PRODUCT; metric++) {
        d.metric = (vram_metric)metric;
        memset(d.distances, 0xff, 4 * 103 * sizeof(float));
        assert_ok(vram_distance_split(schedulers, 3, &d));
        expect_right(&d, 1);
    }
    assert_true(stats_of_scheduler(schedulers[1]).device_products > 0);
    d.vectors = 2, d.corpus_elements = d.distance_elements = 0, d.k = 2; /* fewer than devices */
    assert_ok(vram_distance_split(schedulers, 3, &d));
    assert_int_equal(vram_distance_split(schedulers, 0, &d), VRAM_ERR_INVALID);
    assert_int_equal(vram_distance_split(schedulers, 17, &d), VRAM_ERR_INVALID);
    assert_int_equal(vram_distance_split(NULL, 1, &d), VRAM_ERR_INVALID);
    assert_int_equal(vram_distance_split(schedulers, 1, NULL), VRAM_ERR_INVALID);
    assert_ok(vram_scheduler_destroy(schedulers[1]));
    assert_int_equal(vram_distance_split(schedulers, 2, &d), VRAM_ERR_STALE);
    d.vectors = 103;
    search_end(&d);
}

/* ---------------------------------------------------------------------- refused */

/* Of numbers that are wrong in two ways the one that is not allowed is named. */
TEST(the_wrong_number_is_named, "sim:" SIM) {
    vram_scheduler *scheduler = scheduler_of(pool_of(rig, 0), VRAM_PLACE_AUTO);
    static const float corpus[8] = {0.5f, NAN, 900, 1, 1, 1, 1, 1};
    static const float other[8] = {0.5f, 900, NAN, 1, 1, 1, 1, 1};
    static const float query[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t saturated, at[2];
    float best[2];
    for (int i = 0; i < 4; i++) {
        vram_distance distance = {.size = sizeof distance,
                                  .queries = 1,
                                  .vectors = 2,
                                  .dim = 4,
                                  .query = query,
                                  .corpus = i & 1 ? other : corpus,
                                  .precision = VRAM_PRECISION_INT8,
                                  .place = i & 2 ? VRAM_PLACE_DEVICE : VRAM_PLACE_CPU,
                                  .k = 2,
                                  .best = best,
                                  .best_at = at,
                                  .nonfinite = i & 1 ? VRAM_NONFINITE_REJECT : VRAM_NONFINITE_ZERO,
                                  .saturated = i & 1 ? &saturated : NULL};
        assert_int_equal(vram_distance_run(scheduler, &distance), VRAM_ERR_INVALID);
        expect_told("number 2 of vector 0");
        distance.query = other;
        distance.corpus = query;
        assert_int_equal(vram_distance_run(scheduler, &distance), VRAM_ERR_INVALID);
        expect_told(i & 1 ? "number 2 of query 0" : "number 1 of query 0");
    }
    vram_error_clear();
}

/* Integers whose sums are beyond the 24 bits that are exact, and many vectors that are equally
   near: the lower indices. */
TEST(large_integers, "sim:" SIM) {
    enum { DIM = 2048, COUNT = 70 };
    static float query[DIM], corpus[COUNT * DIM];
    vram_scheduler *scheduler = scheduler_of(pool_of(rig, 0), VRAM_PLACE_DEVICE);
    for (uint64_t i = 0; i < DIM; i++) {
        query[i] = 1;
        for (uint64_t v = 0; v < COUNT; v++) {
            corpus[v * DIM + i] = v == 50 ? 0.5f : -1;
        }
    }
    for (int metric = 0; metric < 4; metric++) {
        uint64_t at[4];
        float best[4];
        vram_distance distance = {.size = sizeof distance,
                                  .queries = 1,
                                  .vectors = COUNT,
                                  .dim = DIM,
                                  .query = query,
                                  .corpus = corpus,
                                  .metric = (vram_metric)metric,
                                  .precision = VRAM_PRECISION_INT8,
                                  .k = 4,
                                  .best = best,
                                  .best_at = at};
        assert_ok(vram_distance_run(scheduler, &distance));
        assert_int_equal(at[0], 50);
        for (uint64_t i = 1; i < 4; i++) {
            assert_int_equal(at[i], i - 1);
        }
    }
}

EACH_TEST(begin, nothing_left)
