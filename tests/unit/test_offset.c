/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_offset.c: the ten nearest among vectors far from the origin, and among clusters far from
 * each other, are those of a reference: direct differences in double precision of the same numbers.
 * Values of 8 bits with a scale. On the CPU and on the simulated device; `test_offset BACKEND` uses
 * the first device of another backend.
 */
#include "unit/compute_world.h"
#include "vram/distance.h"

#include <stdio.h>

enum { QUERIES = 5, VECTORS = 1300, DIM = 24, K = 10 };

#define SIM "memory=1G,real=on"

static const char *backend = "sim";

static struct rig rig_of(void) {
    return rig_make(backend, strcmp(backend, "sim") == 0 ? SIM : NULL);
}

static void rig_end(struct rig *rig) {
    if (strcmp(backend, "sim") == 0) {
        rig_end_clean(rig);
    } else {
        vram_context_destroy(rig->context);
    }
}

/* About normal, with variance 1. */
static double normal(uint64_t seed, uint64_t at) {
    double sum = 0;
    for (uint64_t i = 0; i < 12; i++) {
        sum += (double)made_up(seed, at * 12 + i) / 2;
    }
    return sum;
}

struct data {
    float query[QUERIES * DIM], corpus[VECTORS * DIM], best[QUERIES * K];
    float distances[QUERIES * VECTORS];
    uint64_t best_at[QUERIES * K];
};

static struct data data;

/* Around one of `count` offsets in turn; every number of a vector has the same. */
static vram_distance search_around(const double *offsets, uint64_t count) {
    for (uint64_t i = 0; i < QUERIES * DIM; i++) {
        data.query[i] = (float)(offsets[i / DIM % count] + normal(41, i));
    }
    for (uint64_t i = 0; i < VECTORS * DIM; i++) {
        data.corpus[i] = (float)(offsets[i / DIM % count] + normal(42, i));
    }
    /* One that is close to the first query, for a distance much smaller than the others. */
    for (uint64_t i = 0; i < DIM; i++) {
        data.corpus[77 * DIM + i] = data.query[i];
    }
    data.corpus[77 * DIM] += (float)(0.01 + offsets[0] * 1e-6);
    return (vram_distance){.size = sizeof(vram_distance),
                           .queries = QUERIES,
                           .vectors = VECTORS,
                           .dim = DIM,
                           .query = data.query,
                           .corpus = data.corpus,
                           .k = K,
                           .best = data.best,
                           .best_at = data.best_at};
}

/* ------------------------------------------------------------------ reference */

static double root(double value) {
    double guess = value > 1 ? value : 1, before = 0;
    for (int i = 0; value > 0 && i < 100 && guess != before; i++) {
        before = guess;
        guess = (guess + value / guess) / 2;
    }
    return value > 0 ? guess : 0;
}

static double number_in(const vram_distance *d, float value) {
    if (d->precision == VRAM_PRECISION_FP16) {
        return (double)vr_half_float(vr_float_half(value));
    }
    if (d->precision == VRAM_PRECISION_INT8) {
        float scaled = value * d->scale;
        int whole = (int)(scaled < 0 ? scaled - 0.5f : scaled + 0.5f);
        return (double)(whole > 127 ? 127 : whole < -128 ? -128 : whole);
    }
    return (double)value;
}

static double length_of(const vram_distance *d, const float *vector) {
    double sum = 0;
    for (uint64_t i = 0; i < DIM; i++) {
        sum += number_in(d, vector[i]) * number_in(d, vector[i]);
    }
    return root(sum);
}

static double query_lengths[QUERIES], vector_lengths[VECTORS]; /* for `reference` */

static void measure_all(const vram_distance *d) {
    for (uint64_t i = 0; i < QUERIES; i++) {
        query_lengths[i] = length_of(d, d->query + i * DIM);
    }
    for (uint64_t i = 0; i < VECTORS; i++) {
        vector_lengths[i] = length_of(d, d->corpus + i * DIM);
    }
}

/* Lower is nearer, and L2 is squared. 1 - cosine is half of the squared distance of the two unit
   vectors: the quotient of products has no correct digit left at an offset of 10^6. */
static double reference(const vram_distance *d, uint64_t query, uint64_t vector) {
    const float *q = d->query + query * DIM, *c = d->corpus + vector * DIM;
    bool cosine = d->metric == VRAM_METRIC_COSINE;
    double sum = 0, of_q = cosine ? query_lengths[query] : 1;
    double of_c = cosine ? vector_lengths[vector] : 1;
    for (uint64_t i = 0; i < DIM; i++) {
        double x = number_in(d, q[i]) / of_q, y = number_in(d, c[i]) / of_c;
        sum += d->metric == VRAM_METRIC_INNER_PRODUCT ? -x * y : (x - y) * (x - y);
    }
    return cosine ? sum / 2 : sum;
}

static double value_of(const vram_distance *d, double lower) {
    double scale = d->precision == VRAM_PRECISION_INT8 ? (double)d->scale * (double)d->scale : 1;
    lower /= d->metric == VRAM_METRIC_COSINE ? 1 : scale;
    return d->metric == VRAM_METRIC_L2              ? root(lower)
           : d->metric == VRAM_METRIC_INNER_PRODUCT ? -lower
                                                    : lower;
}

static void expect_reference(const vram_distance *d, const char *what) {
    static double all[VECTORS];
    static bool taken[VECTORS];
    measure_all(d);
    for (uint64_t q = 0; q < QUERIES; q++) {
        memset(taken, 0, sizeof taken);
        for (uint64_t j = 0; j < VECTORS; j++) {
            all[j] = reference(d, q, j);
        }
        for (uint64_t i = 0; i < d->k; i++) {
            uint64_t best = VECTORS;
            for (uint64_t j = 0; j < VECTORS; j++) {
                best = !taken[j] && (best == VECTORS || all[j] < all[best]) ? j : best;
            }
            taken[best] = true;
            double should = value_of(d, all[best]), is = (double)d->best[q * d->k + i];
            double off = is > should ? is - should : should - is;
            if (d->best_at[q * d->k + i] != best || off > 4e-6 * (should < 0 ? -should : should)) {
                fail_msg("%s, metric %d, precision %d, place %d: number %d of query %d is %d at "
                         "%.9g, should be %d at %.9g",
                         what, (int)d->metric, (int)d->precision, (int)d->place, (int)i, (int)q,
                         (int)d->best_at[q * d->k + i], is, (int)best, should);
            }
        }
    }
}

/* A device with two schedulers: one that has memory for one tile, and one for many. */
struct place {
    struct rig rig;
    vram_scheduler *schedulers[2];
};

static struct place place_of(void) {
    struct place place = {.rig = rig_of()};
    vram_pool *pool = pool_of(&place.rig, 0);
    for (int few = 0; few < 2; few++) {
        vram_scheduler_options options = {.size = sizeof options,
                                          .device_bytes = few ? UINT64_C(700) << 10 : 0};
        assert_ok(vram_scheduler_create(pool, &options, &place.schedulers[few]));
    }
    return place;
}

/* Every metric on the CPU and on the device, in one tile and in many. */
static void expect_everywhere(const struct place *at, vram_distance d, const char *what) {
    for (int way = 0; way < 3; way++) {
        d.place = way == 0 ? VRAM_PLACE_CPU : VRAM_PLACE_DEVICE;
        for (int metric = VRAM_METRIC_L2_SQUARED; metric <= VRAM_METRIC_COSINE; metric++) {
            d.metric = (vram_metric)metric;
            memset(data.best_at, 0xff, sizeof data.best_at);
            assert_ok(vram_distance_run(at->schedulers[way == 2], &d));
            expect_reference(&d, what);
        }
    }
}

/* --------------------------------------------------------------------- single */

TEST(nearest_at_every_offset) {
    static const double offsets[] = {0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, -1e6};
    struct place place = place_of();
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        char what[32];
        snprintf(what, sizeof what, "offset %g", offsets[i]);
        expect_everywhere(&place, search_around(&offsets[i], 1), what);
    }
    rig_end(&place.rig);
}

/* No one centre serves them: the answer must not depend on it. */
TEST(nearest_among_far_clusters) {
    static const double offsets[] = {0, 1e3, -1e4, 1e5, 1e6};
    struct place place = place_of();
    expect_everywhere(&place, search_around(offsets, 5), "clusters");
    expect_everywhere(&place, search_around(offsets, 2), "two clusters");
    rig_end(&place.rig);
}

/* The program of the report: 0.786 for a true 0.00012, and the wrong second neighbour. */
TEST(the_whole_matrix) {
    static const double offsets[] = {0, 1e3, 1e6};
    struct rig rig = rig_of();
    vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_AUTO);
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        vram_distance d = search_around(&offsets[i], 1);
        d.distances = data.distances;
        for (int metric = VRAM_METRIC_L2_SQUARED; metric <= VRAM_METRIC_COSINE; metric++) {
            for (int place = VRAM_PLACE_CPU; place <= VRAM_PLACE_DEVICE; place++) {
                d.metric = (vram_metric)metric;
                d.place = (vram_place)place;
                assert_ok(vram_distance_run(scheduler, &d));
                expect_reference(&d, "matrix");
                for (uint64_t at = 0; at < QUERIES * VECTORS; at += 7) {
                    double should = value_of(&d, reference(&d, at / VECTORS, at % VECTORS));
                    double off = (double)d.distances[at] - should;
                    /* A product may be far smaller than what it is the sum of. */
                    double size = metric == VRAM_METRIC_INNER_PRODUCT
                                      ? DIM * (2 + offsets[i]) * (2 + offsets[i])
                                      : should;
                    if ((off < 0 ? -off : off) > 4e-5 * size) {
                        fail_msg("offset %g, metric %d, place %d: %.9g should be %.9g", offsets[i],
                                 metric, place, (double)d.distances[at], should);
                    }
                }
            }
        }
    }
    rig_end(&rig);
}

/* ----------------------------------------------------------------------- half */

/* Halves hold up to 65,504, and from 2,048 on not even all whole numbers: distances are those of
   the numbers after that rounding, many of which are equal. */
TEST(halves_at_every_offset) {
    static const double offsets[] = {0, 1, 10, 100, 1e3, 1e4};
    static const double clusters[] = {0, 1e3, -1e4};
    struct place place = place_of();
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        vram_distance d = search_around(&offsets[i], 1);
        char what[32];
        d.precision = VRAM_PRECISION_FP16;
        snprintf(what, sizeof what, "halves at %g", offsets[i]);
        expect_everywhere(&place, d, what);
    }
    vram_distance d = search_around(clusters, 3);
    d.precision = VRAM_PRECISION_FP16;
    expect_everywhere(&place, d, "clusters of halves");
    rig_end(&place.rig);
}

/* ------------------------------------------------------------------- of 8 bits */

/* A scale that fits the numbers; what is exact for whole numbers is exact here. */
TEST(integers_with_a_scale) {
    static const double offsets[] = {0, 1, 10, 100};
    struct place place = place_of();
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        vram_distance d = search_around(&offsets[i], 1);
        char what[32];
        d.precision = VRAM_PRECISION_INT8;
        d.scale = (float)(127 / (offsets[i] + 6));
        snprintf(what, sizeof what, "integers at %g", offsets[i]);
        expect_everywhere(&place, d, what);
    }
    rig_end(&place.rig);
}

/* Numbers beyond 8 bits are refused with their place, or clamped and counted; on every path. */
TEST(what_saturates) {
    static const double offset = 0;
    struct place place = place_of();
    vram_distance d = search_around(&offset, 1);
    uint64_t all[3], beyond = 0;
    d.precision = VRAM_PRECISION_INT8;
    d.scale = 60;
    for (uint64_t i = 0; i < QUERIES * DIM + VECTORS * DIM; i++) {
        float value = i < QUERIES * DIM ? data.query[i] : data.corpus[i - QUERIES * DIM];
        value = value * 60 + (value < 0 ? -0.5f : 0.5f);
        beyond += value >= 128 || value <= -129;
    }
    assert_true(beyond > 100);
    for (int way = 0; way < 3; way++) {
        char said[VRAM_ERROR_TEXT_MAX];
        vram_scheduler *scheduler = place.schedulers[way == 2];
        d.place = way == 0 ? VRAM_PLACE_CPU : VRAM_PLACE_DEVICE;
        d.saturated = NULL;
        assert_int_equal(vram_distance_run(scheduler, &d), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "beyond int8 with a scale of 60"));
        assert_true(way == 0 || strcmp(said, vram_error_get()->text) == 0);
        strcpy(said, vram_error_get()->text);
        d.saturated = &all[way];
        assert_ok(vram_distance_run(scheduler, &d));
        expect_reference(&d, "saturated");
        assert_int_equal(all[way], beyond);
    }
    vram_scheduler *both[] = {place.schedulers[0], place.schedulers[1]};
    assert_ok(vram_distance_split(both, 2, &d)); /* queries are counted once */
    assert_int_equal(all[2], beyond);
    d.scale = -1;
    assert_int_equal(vram_distance_run(both[0], &d), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "the scale is -1"));
    rig_end(&place.rig);
}

static int begin(void) {
    int failed = start();
    assert_ok(vram_option_set("blas_library", "none"));
    return failed;
}

static int begin_file(void) {
    backend = rig_word(1) ? rig_word(1) : backend;
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(begin, nothing_left)
