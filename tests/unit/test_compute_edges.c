/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compute_edges.c: products and distances at the edge: shapes near 2^64, devices that tell
 * little of themselves, threads that do not start, numbers that are not finite, tiny or beyond 8
 * bits, and options that make no sense.
 */
#include "compute/calibration_cache.h"
#include "compute/scheduler_object.h"
#include "unit/compute_world.h"
#include "unit/fault_step.h"
#include "vram/distance.h"
#include "vram/labels.h"

#include <math.h>

/* ---------------------------------------------------------------------- decisions */

struct decider {
    struct rig rig;
    vram_scheduler *handle;
    struct vr_scheduler *scheduler;
    struct vr_arithmetic *arithmetic;
    struct vr_provider counting; /* one that counts elements in 32 bits, and lines in fewer */
    const struct vr_provider *own;
};

static struct decider decider_make(void) {
    struct decider d = {.rig = rig_make("sim", "memory=64M,real=on")};
    d.handle = scheduler_of(pool_of(&d.rig, 0), VRAM_PLACE_DEVICE);
    d.scheduler = vr_handle_pin(VR_KIND_SCHEDULER, d.handle);
    assert_non_null(d.scheduler);
    assert_ok(vr_scheduler_arithmetic(d.scheduler, &d.arithmetic));
    d.own = d.arithmetic->provider;
    d.counting = *d.own;
    d.counting.lines_max = VR_KERNEL_LINES_MAX;
    return d;
}

static void decider_end(struct decider *d) {
    d->arithmetic->provider = d->own;
    vr_leave(d->scheduler);
    vram_error_clear();
    rig_end_clean(&d->rig);
}

/* Operands in host memory that nobody reads, or on the device. */
static struct vr_product shape_of(uint64_t m, uint64_t k, uint64_t n, bool resident) {
    static float somewhere[1];
    return (struct vr_product){.m = m,
                               .k = k,
                               .n = n,
                               .precision = VRAM_PRECISION_FP32,
                               .each = 4,
                               .a = resident ? NULL : somewhere,
                               .b = resident ? NULL : somewhere,
                               .c = resident ? NULL : somewhere,
                               .resident = resident,
                               .place = VRAM_PLACE_DEVICE};
}

static vram_matmul_plan plan_of(struct decider *d, const struct vr_product *product) {
    vram_matmul_plan plan;
    assert_ok(vr_decide(d->scheduler, product, &plan));
    assert_int_equal(plan.place, VRAM_PLACE_DEVICE);
    return plan;
}

static void expect_too_large(struct decider *d, struct vr_product product) {
    vram_matmul_plan plan;
    assert_int_equal(vr_decide(d->scheduler, &product, &plan), VRAM_ERR_UNSUPPORTED);
}

/* Tiles are no larger than the device, a block, or what the kernels count. */
TEST(bounds_of_tiles) {
    const uint64_t lines = VR_KERNEL_LINES_MAX, many = UINT64_C(1) << 33;
    struct decider d = decider_make();
    struct vr_product product = shape_of(4096, 64, 4096, false);
    assert_true(plan_of(&d, &product).device_bytes <= 64 * MIB);
    d.scheduler->info.alloc_max = (vram_value){.value = MIB, .known = true};
    vram_matmul_plan plan = plan_of(&d, &product);
    assert_true(plan.tile_m * plan.tile_n * sizeof(float) <= MIB && plan.tiles > 1);
    d.scheduler->device_bytes = 256 * KIB;
    assert_true(plan_of(&d, &product).device_bytes <= 256 * KIB);
    d.scheduler->device_bytes = 1024 * MIB; /* more than there is */
    assert_true(plan_of(&d, &product).device_bytes <= 64 * MIB);

    /* A device that says nothing, or 0, has no bound of its own. */
    d.scheduler->device_bytes = 0;
    for (int i = 0; i < 2; i++) {
        d.scheduler->info.alloc_max = d.scheduler->info.memory_bytes = (vram_value){.known = i};
        product = shape_of(many, 1, 1, false);
        plan = plan_of(&d, &product);
        assert_int_equal(plan.tile_n, 1);
    }

    /* One of the library's own kernels. */
    d.arithmetic->provider = &d.counting;
    product = shape_of(2 * lines, 1, 1, false);
    assert_true(plan_of(&d, &product).tile_m <= lines);
    product = shape_of(1, 1, 2 * lines, false);
    assert_true(plan_of(&d, &product).tile_n <= lines);
    product = shape_of(lines, 8192, 1, false); /* 2^32 elements and more */
    assert_true(plan_of(&d, &product).tile_m * 8192 <= UINT32_MAX);
    product = shape_of(1, 8192, lines, false);
    assert_true(plan_of(&d, &product).tile_n * 8192 <= UINT32_MAX);
    expect_too_large(&d, shape_of(1, lines + 1, 1, false));
    expect_too_large(&d, shape_of(lines, 8192, 1, true));
    expect_too_large(&d, shape_of(1, 8192, lines, true));
    expect_too_large(&d, shape_of(65536, 1, 65537, true));
    product = shape_of(64, 64, 64, true);
    assert_int_equal(plan_of(&d, &product).tiles, 1);
    decider_end(&d);
}

/* Bytes of tiles that do not fit into 64 bits count as all there are. */
TEST(tiles_beyond_64_bits) {
    const uint64_t one = 1;
    struct vr_product product = shape_of(one << 31, one << 31, one << 30, false);
    vram_matmul_plan plan = {.tile_m = one << 31, .tile_n = one << 30};
    assert_true(vr_plan_shrink(&product, &plan)); /* A and B have 2^63 bytes each */
    assert_int_equal(plan.device_bytes, UINT64_MAX);
    product = shape_of(one << 32, 1, (one << 31) - 1, false);
    plan = (vram_matmul_plan){.tile_m = one << 32, .tile_n = (one << 31) - 1};
    assert_true(vr_plan_shrink(&product, &plan)); /* C has 2^64 - 2^33 */
    assert_int_equal(plan.device_bytes, UINT64_MAX);
}

TEST(exhaustion_is_told_if_asked) {
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make("sim", "memory=64M,real=on");
        vram_scheduler_options options = {
            .size = sizeof options, .flags = i ? VRAM_SCHEDULER_NO_FALLBACK : 0, .threshold = 1};
        vram_matmul product = product_of(8, 8, 8, 0);
        vram_weights_options of_weights = {
            .size = sizeof of_weights, .k = 2048, .n = 2048, .b = product.b};
        vram_scheduler *scheduler;
        vram_weights *weights;
        vram_pool *pool = pool_of(&rig, 0);
        assert_ok(vram_scheduler_create(pool, &options, &scheduler));
        vr_mem_fail_at(1, false); /* of what computes on the device */
        vram_status status = vram_matmul_run(scheduler, &product);
        vr_mem_fail_at(0, false);
        assert_int_equal(status, i ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
        assert_ok(vram_matmul_run(scheduler, &product));
        assert_right(&product);

        /* Weights go to the host only if they may. */
        void *b = calloc(2048 * 2048, sizeof(float));
        of_weights.b = b;
        fault(&rig, VRAM_SIM_ANY, 1, true, VRAM_SIM_OUT_OF_MEMORY);
        status = vram_weights_create(scheduler, &of_weights, &weights);
        assert_int_equal(status, i ? VRAM_ERR_DEVICE_MEMORY : VRAM_OK);
        assert_ok(vram_sim_fault_set(rig.context, NULL));
        free(b);
        product_end(&product);
        vram_error_clear();
        rig_end_clean(&rig);
    }
}

/* ---------------------------------------------------------------------- distances */

enum { QUERIES = 4, VECTORS = 60, NEAREST = 5 };

struct kind {
    vram_precision precision;
    vram_metric metric;
    uint64_t dim;
    float offset, unit;
    vram_place place;
    bool matrix; /* all distances, and none of the nearest */
};

/* Multiples of a unit, exact in every precision, around an offset; some are not finite, and some
   vectors are 0 or equal. */
static float edge_number(const struct kind *kind, uint64_t seed, uint64_t row, uint64_t column) {
    uint64_t at = row * kind->dim + column;
    if (row == 2 || (row == 7 && seed == 2)) {
        return 0;
    }
    row = row == 9 ? 8 : row;
    if (at % 41 == 17) {
        return at % 2 ? INFINITY : NAN;
    }
    int steps = (int)(made_up(seed, row * kind->dim + column) * 7);
    return kind->offset + (float)steps * kind->unit;
}

static double taken(float value) {
    return isfinite(value) ? (double)value : 0;
}

static double distance_of(const struct kind *kind, const float *query, const float *vector) {
    double squared = 0, product = 0, q = 0, v = 0;
    for (uint64_t i = 0; i < kind->dim; i++) {
        double a = taken(query[i]), b = taken(vector[i]);
        squared += (a - b) * (a - b);
        product += a * b;
        q += a * a;
        v += b * b;
    }
    switch (kind->metric) {
    case VRAM_METRIC_L2:
        return sqrt(squared);
    case VRAM_METRIC_INNER_PRODUCT:
        return product;
    case VRAM_METRIC_COSINE:
        return q > 0 && v > 0 ? 1 - product / sqrt(q * v) : 1;
    default:
        return squared;
    }
}

static void expect_near(const struct kind *kind, double is, double should, double size) {
    if (!(fabs(is - should) <= 1e-5 * size)) {
        fail_msg("precision %d, metric %d, dim %d, offset %g, unit %g, place %d: %.9g, not %.9g",
                 (int)kind->precision, (int)kind->metric, (int)kind->dim, (double)kind->offset,
                 (double)kind->unit, (int)kind->place, is, should);
    }
}

static void try_kind(vram_scheduler *scheduler, const struct kind *kind) {
    float *query = calloc(QUERIES * kind->dim, sizeof *query);
    float *corpus = calloc(VECTORS * kind->dim, sizeof *corpus);
    float all[QUERIES * VECTORS], best[QUERIES * NEAREST];
    uint64_t at[QUERIES * NEAREST], saturated;
    for (uint64_t i = 0; i < VECTORS * kind->dim; i++) {
        corpus[i] = edge_number(kind, 2, i / kind->dim, i % kind->dim);
        query[i % (QUERIES * kind->dim)] =
            edge_number(kind, 1, i / kind->dim % QUERIES, i % kind->dim);
    }
    vram_distance distance = {.size = sizeof distance,
                              .queries = QUERIES,
                              .vectors = VECTORS,
                              .dim = kind->dim,
                              .query = query,
                              .corpus = corpus,
                              .metric = kind->metric,
                              .precision = kind->precision,
                              .nonfinite = VRAM_NONFINITE_ZERO,
                              .place = kind->place,
                              .distances = kind->matrix ? all : NULL,
                              .k = kind->matrix ? 0 : NEAREST,
                              .best = kind->matrix ? NULL : best,
                              .best_at = kind->matrix ? NULL : at,
                              .scale = 1 / kind->unit,
                              .saturated = &saturated};
    assert_ok(vram_distance_run(scheduler, &distance));
    for (uint64_t q = 0; q < QUERIES; q++) {
        double should[VECTORS], size = kind->metric == VRAM_METRIC_COSINE ? 1 : 0;
        for (uint64_t v = 0; v < VECTORS; v++) {
            should[v] = distance_of(kind, query + q * kind->dim, corpus + v * kind->dim);
            size = fabs(should[v]) > size ? fabs(should[v]) : size;
        }
        for (uint64_t v = 0; kind->matrix && v < VECTORS; v++) {
            expect_near(kind, (double)all[q * VECTORS + v], should[v], size);
        }
        for (uint64_t i = 0; !kind->matrix && i < NEAREST; i++) {
            uint64_t better = 0, found = at[q * NEAREST + i];
            expect_near(kind, (double)best[q * NEAREST + i], should[found], size);
            for (uint64_t v = 0; v < VECTORS; v++) {
                double by = kind->metric == VRAM_METRIC_INNER_PRODUCT ? should[v] - should[found]
                                                                      : should[found] - should[v];
                better += by > 1e-5 * size;
            }
            assert_true(better <= i);
        }
    }
    free(query);
    free(corpus);
}

/* Every precision, metric and place, with and without a centre, and with numbers whose squares
   vanish. */
TEST(numbers_of_all_kinds, "sim:memory=64M,real=on") {
    static const vram_precision precisions[] = {VRAM_PRECISION_FP32, VRAM_PRECISION_FP16,
                                                VRAM_PRECISION_INT8};
    static const uint64_t dims[] = {3, 8, 21};
    static const float offsets[] = {0, 6}, units[] = {0.25f, 0x1.0p-64f};
    vram_scheduler *scheduler = scheduler_of(pool_of(rig, 0), VRAM_PLACE_AUTO);
    for (unsigned i = 0; i < 3 * 4 * 3 * 2 * 2 * 2; i++) {
        struct kind kind = {.precision = precisions[i % 3],
                            .metric = (vram_metric)(i / 3 % 4),
                            .dim = dims[i / 12 % 3],
                            .offset = offsets[i / 36 % 2],
                            .unit = 0.25f,
                            .place = i / 72 % 2 ? VRAM_PLACE_DEVICE : VRAM_PLACE_CPU,
                            .matrix = i / 144 % 2};
        try_kind(scheduler, &kind);
        if (kind.precision == VRAM_PRECISION_FP32 && kind.offset == 0) {
            kind.unit = units[1];
            try_kind(scheduler, &kind);
        }
    }
}

/* Of numbers that are wrong in two ways the one that is not allowed is named. */
TEST(the_wrong_number_is_named, "sim:memory=64M,real=on") {
    vram_scheduler *scheduler = scheduler_of(pool_of(rig, 0), VRAM_PLACE_AUTO);
    static const float corpus[8] = {0.5f, NAN, 900, 1, 1, 1, 1, 1};
    static const float other[8] = {0.5f, 900, NAN, 1, 1, 1, 1, 1};
    static const float query[4] = {1, 1, 1, 1};
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
        assert_non_null(strstr(vram_error_get()->text, "number 2 of vector 0"));
    }
    vram_error_clear();
}

/* Integers whose sums are beyond the 24 bits that are exact, and many vectors that are equally
   near: the lower indices. */
TEST(large_integers, "sim:memory=64M,real=on") {
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
