/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compute_edges.c: products and distances at the edge: shapes near 2^64, devices that tell
 * little of themselves, threads that do not start, numbers that are not finite, tiny or beyond 8
 * bits, and options that make no sense.
 */
#include "base/handle.h"
#include "compute/calibration_cache.h"
#include "compute/scheduler_object.h"
#include "unit/compute_world.h"
#include "unit/fault_step.h"
#include "vram/distance.h"
#include "vram/labels.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

/* --------------------------------------------------------- what the linker wraps */

/* Not NULL: parts of products are recorded and not computed. */
static struct record {
    struct vr_gemm parts[64];
    atomic_uint count;
} * recorded;
static unsigned threads_refused_from; /* the first thread that does not start; 0: all do */
static unsigned threads_asked;

void __real_vr_gemm_block(const struct vr_gemm *gemm);
void __wrap_vr_gemm_block(const struct vr_gemm *gemm);
void __wrap_vr_gemm_block(const struct vr_gemm *gemm) {
    if (recorded) {
        recorded->parts[atomic_fetch_add(&recorded->count, 1)] = *gemm;
    } else {
        __real_vr_gemm_block(gemm);
    }
}

vram_status __real_vr_os_thread_start(struct vr_thread *thread, const char *name,
                                      void (*run)(void *), void *argument);
vram_status __wrap_vr_os_thread_start(struct vr_thread *thread, const char *name,
                                      void (*run)(void *), void *argument);
vram_status __wrap_vr_os_thread_start(struct vr_thread *thread, const char *name,
                                      void (*run)(void *), void *argument) {
    if (threads_refused_from && ++threads_asked >= threads_refused_from) {
        return vr_fail_in(VRAM_ERR_LIMIT, "pthread_create", "refused");
    }
    return __real_vr_os_thread_start(thread, name, run, argument);
}

static void refuse_threads(unsigned from) {
    threads_refused_from = from;
    threads_asked = 0;
}

/* ----------------------------------------------------------------------- products */

static void no_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                     const float *a, int lda, const float *b, int ldb, float beta, float *c,
                     int ldc) {
    (void)order, (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)alpha, (void)a;
    (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;
    fail_msg("a BLAS was asked");
}

/* A BLAS counts in int, and gets operands of other types only if they are not too many. */
static void what_a_blas_cannot_count(void **state) {
    static const struct vr_blas blas = {.sgemm = no_sgemm};
    const uint64_t large = (uint64_t)INT_MAX + 1;
    (void)state;
    for (int i = 0; i < 7; i++) {
        struct vr_gemm gemm = {.m = i == 0 ? large : 2,
                               .n = i == 1 ? large : 2,
                               .k = i == 2 ? large : 2,
                               .lda = i == 3 ? large : 2,
                               .ldb = i == 4 ? large : 2,
                               .ldc = i == 5 ? large : 2,
                               .precision = VRAM_PRECISION_FP32};
        struct record record = {.count = 0};
        if (i == 6) {
            gemm.k = INT_MAX;
            gemm.precision = VRAM_PRECISION_FP16;
        }
        recorded = &record;
        vr_gemm_cpu(&gemm, &blas, 1);
        recorded = NULL;
        assert_int_equal(record.count, 1);
        assert_int_equal(record.parts[0].m, gemm.m);
    }
}

/* Every line of C is in one part, however many threads can be had. */
static void parts_make_the_whole(void **state) {
    static const struct vr_blas none = {.sgemm = NULL};
    static const uint64_t shapes[][3] = {
        {3000, 100, 100}, {100, 100, 3000}, {49, 1000, 2000}, {100, 1000, 400}, {48, 4000, 90}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] * 8; i++) {
        const uint64_t *shape = shapes[i / 8];
        struct vr_gemm gemm = {.m = shape[0],
                               .k = shape[1],
                               .n = shape[2],
                               .lda = i & 1 ? shape[0] : shape[1],
                               .ldb = i & 1 ? shape[1] : shape[2],
                               .ldc = shape[2],
                               .trans_a = i & 1,
                               .trans_b = i & 1,
                               .precision = VRAM_PRECISION_FP32};
        struct record record = {.count = 0};
        uint64_t covered = 0;
        recorded = &record;
        refuse_threads(i & 2 ? 2 : 0);
        vr_gemm_cpu(&gemm, &none, i & 4 ? 16 : 3);
        refuse_threads(0);
        recorded = NULL;
        for (unsigned j = 0; j < record.count; j++) {
            const struct vr_gemm *part = &record.parts[j];
            covered += part->m * part->n;
            uint64_t at = (uint64_t)(part->c - gemm.c);
            uint64_t row = at / gemm.ldc, column = at % gemm.ldc;
            uint64_t a = (uint64_t)((const float *)part->a - (const float *)gemm.a);
            uint64_t b = (uint64_t)((const float *)part->b - (const float *)gemm.b);
            assert_int_equal(a, row * (gemm.trans_a ? 1 : gemm.lda));
            assert_int_equal(b, column * (gemm.trans_b ? gemm.ldb : 1));
            assert_true(row + part->m <= gemm.m && column + part->n <= gemm.n);
        }
        assert_int_equal(covered, gemm.m * gemm.n);
    }
}

/* Threads that cannot be had cost time, or the call, but nothing else. */
static void threads_that_do_not_start(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_CPU);
    vram_scheduler *both[3] = {scheduler, scheduler, scheduler};
    float query[8] = {1}, corpus[80] = {2}, best[1];
    uint64_t at[1];
    vram_distance distance = {.size = sizeof distance,
                              .queries = 1,
                              .vectors = 10,
                              .dim = 8,
                              .query = query,
                              .corpus = corpus,
                              .k = 1,
                              .best = best,
                              .best_at = at};
    vram_matmul product = product_of(8, 8, 8, 0);
    vram_async first, second;
    refuse_threads(1);
    assert_int_equal(vram_matmul_start(scheduler, &product, &first), VRAM_ERR_LIMIT);
    assert_int_equal(vram_distance_split(both, 3, &distance), VRAM_ERR_LIMIT);
    refuse_threads(2);
    assert_int_equal(vram_distance_split(both, 3, &distance), VRAM_ERR_LIMIT);
    refuse_threads(2); /* of two threads for products the second: the first computes all */
    assert_ok(vram_matmul_start(scheduler, &product, &first));
    assert_ok(vram_matmul_start(scheduler, &product, &second));
    assert_ok(vram_async_wait(&first, 20 * SECOND));
    assert_ok(vram_async_wait(&second, 20 * SECOND));
    refuse_threads(0);
    assert_right(&product);
    assert_ok(vram_distance_split(both, 3, &distance));
    product_end(&product);
    vram_error_clear();
    rig_end_clean(&rig);
}

static void nan_stays_nan(void **state) {
    (void)state;
    assert_true(isnan(vr_bfloat_float(vr_float_bfloat(NAN))));
    assert_true(isnan(vr_bfloat_float(vr_float_bfloat(vr_bits_float(0x7F800001)))));
}

static void memory_beyond_64_bits(void **state) {
    (void)state;
    assert_null(vr_scratch_alloc(UINT64_MAX, 2));
    assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
    assert_null(vr_scratch_alloc(UINT64_MAX, 1));
    vram_error_clear();
    struct vr_product product = {.m = UINT64_MAX, .k = 2, .n = 1};
    assert_int_equal(vr_product_work(&product), UINT64_MAX);
    product = (struct vr_product){.m = UINT64_MAX, .k = 1, .n = 2};
    assert_int_equal(vr_product_work(&product), UINT64_MAX);
    product.n = 1;
    assert_int_equal(vr_product_work(&product), UINT64_MAX);
}

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
static void bounds_of_tiles(void **state) {
    const uint64_t lines = VR_KERNEL_LINES_MAX, many = UINT64_C(1) << 33;
    (void)state;
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
static void tiles_beyond_64_bits(void **state) {
    const uint64_t one = 1;
    (void)state;
    struct vr_product product = shape_of(one << 31, one << 31, one << 30, false);
    vram_matmul_plan plan = {.tile_m = one << 31, .tile_n = one << 30};
    assert_true(vr_plan_shrink(&product, &plan)); /* A and B have 2^63 bytes each */
    assert_int_equal(plan.device_bytes, UINT64_MAX);
    product = shape_of(one << 32, 1, (one << 31) - 1, false);
    plan = (vram_matmul_plan){.tile_m = one << 32, .tile_n = (one << 31) - 1};
    assert_true(vr_plan_shrink(&product, &plan)); /* C has 2^64 - 2^33 */
    assert_int_equal(plan.device_bytes, UINT64_MAX);
}

/* Large operands are sent in parts, by all queues: unless there is one, or the program's. */
static void parts_for_queues(void **state) {
    (void)state;
    struct decider d = decider_make();
    struct vr_product product = shape_of(2048, 1024, 2048, false);
    assert_true(plan_of(&d, &product).tiles > 1);
    product.queue = d.rig.queue;
    assert_int_equal(plan_of(&d, &product).tiles, 1);
    product.queue = NULL;
    d.scheduler->queue_count = 1;
    assert_int_equal(plan_of(&d, &product).tiles, 1);
    d.scheduler->queue_count = 3;
    product = shape_of(2048, 64, 64, false); /* small */
    assert_int_equal(plan_of(&d, &product).tiles, 1);
    decider_end(&d);
}

static void exhaustion_is_told_if_asked(void **state) {
    (void)state;
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

/* ------------------------------------------------------------------------ options */

static void handles_run_out(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on");
    vram_pool *pool = pool_of(&rig, 0);
    float b[4] = {0};
    vram_weights_options options = {.size = sizeof options, .k = 2, .n = 2, .b = b};
    vram_scheduler *scheduler = NULL;
    vram_weights *weights = NULL;
    vr_handle_limits_set(0, 1);
    assert_int_equal(vram_scheduler_create(pool, NULL, &scheduler), VRAM_ERR_LIMIT);
    assert_string_equal(vram_error_get()->operation, "vram_scheduler_create");
    vr_handle_limits_set(0, 0);
    assert_ok(vram_scheduler_create(pool, NULL, &scheduler));
    vr_handle_limits_set(0, 1);
    assert_int_equal(vram_weights_create(scheduler, &options, &weights), VRAM_ERR_LIMIT);
    vr_handle_limits_set(0, 0);
    assert_int_equal(stats_of_scheduler(scheduler).weights, 0);
    assert_int_equal(live_in(pool), 0);
    vram_error_clear();
    rig_end_clean(&rig);
}

static void options_that_make_no_sense(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on");
    vram_pool *pool = pool_of(&rig, 0);
    const vram_calibration good = {sizeof good, 1, 1, 1, 1, 0};
    vram_calibration bad[] = {{sizeof good - 1, 1, 1, 1, 1, 0}, {sizeof good, 0, 1, 1, 1, 0},
                              {sizeof good, 1, 0, 1, 1, 0},     {sizeof good, 1, 1, 0, 1, 0},
                              {sizeof good, 1, 1, 1, 0, 0},     {sizeof good, 1, 1, 1, 1, -1},
                              {sizeof good, NAN, 1, 1, 1, 0},   {sizeof good, 1, 1, 1, 1, NAN}};
    vram_scheduler_options options = {.size = sizeof options};
    vram_scheduler *scheduler;
    vram_weights *weights;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options.calibration = &bad[i];
        assert_int_equal(vram_scheduler_create(pool, &options, &scheduler), VRAM_ERR_INVALID);
    }
    struct {
        vram_calibration rates;
        uint64_t tail;
    } longer = {good, 1};
    longer.rates.size = sizeof longer;
    options.calibration = &longer.rates;
    assert_int_equal(vram_scheduler_create(pool, &options, &scheduler), VRAM_ERR_INVALID);
    options.calibration = &good;
    assert_ok(vram_scheduler_create(pool, &options, &scheduler));

    float b[4] = {0};
    const uint64_t half = UINT64_C(1) << 63;
    const struct {
        uint64_t k, n;
        const float *b;
        vram_status status;
    } cases[] = {{0, 2, b, VRAM_ERR_INVALID},         {2, 0, b, VRAM_ERR_INVALID},
                 {2, 2, NULL, VRAM_ERR_INVALID},      {half, 2, b, VRAM_ERR_OVERFLOW},
                 {half / 2, 1, b, VRAM_ERR_OVERFLOW}, {half / 4, 1, b, VRAM_ERR_OVERFLOW}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vram_weights_options of_weights = {
            .size = sizeof of_weights, .k = cases[i].k, .n = cases[i].n, .b = cases[i].b};
        assert_int_equal(vram_weights_create(scheduler, &of_weights, &weights), cases[i].status);
    }

    /* B as weights and besides, and of another shape. */
    vram_weights_options of_weights = {.size = sizeof of_weights, .k = 2, .n = 2, .b = b};
    assert_ok(vram_weights_create(scheduler, &of_weights, &weights));
    vram_matmul product = {
        .size = sizeof product, .m = 2, .k = 2, .n = 2, .a = b, .c = b, .weights = weights};
    product.b_addr = 1;
    assert_int_equal(vram_matmul_run(scheduler, &product), VRAM_ERR_INVALID);
    product.b_addr = 0;
    product.n = 1;
    assert_int_equal(vram_matmul_run(scheduler, &product), VRAM_ERR_INVALID);
    vram_error_clear();
    rig_end_clean(&rig);
}

/* On a CPU only a scheduler that may use any device puts weights there. */
static void weights_on_a_cpu(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make("host", NULL);
        vram_pool *pool = pool_of(&rig, 0);
        vram_scheduler_options options = {.size = sizeof options,
                                          .flags = i ? VRAM_SCHEDULER_ANY_DEVICE : 0};
        float b[4] = {0};
        vram_weights_options of_weights = {.size = sizeof of_weights, .k = 2, .n = 2, .b = b};
        vram_scheduler *scheduler;
        vram_weights *weights;
        assert_ok(vram_scheduler_create(pool, &options, &scheduler));
        assert_ok(vram_weights_create(scheduler, &of_weights, &weights));
        assert_int_equal(live_in(pool), i);
        assert_ok(vram_context_destroy(rig.context));
    }
}

/* ---------------------------------------------------------------------- distances */

static void shapes_beyond_64_bits(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on");
    vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_CPU);
    const uint64_t one = 1, half = one << 32;
    const uint64_t shapes[][3] = {/* queries, vectors, dim */
                                  {half, 1, half},   {1, half, half},   {half, half, 1},
                                  {one << 61, 1, 1}, {1, one << 61, 1}, {one << 31, half, 1},
                                  {1, 1, one << 62}};
    float numbers[4] = {0}, best[4];
    uint64_t at[4];
    vram_distance distance = {.size = sizeof distance,
                              .query = numbers,
                              .corpus = numbers,
                              .k = 1,
                              .best = best,
                              .best_at = at};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        distance.queries = shapes[i][0];
        distance.vectors = shapes[i][1];
        distance.dim = shapes[i][2];
        assert_int_equal(vram_distance_run(scheduler, &distance), VRAM_ERR_OVERFLOW);
    }
    distance.queries = distance.vectors = distance.dim = 1;
    static const float scales[] = {INFINITY, NAN, -1};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        distance.scale = scales[i];
        assert_int_equal(vram_distance_run(scheduler, &distance), VRAM_ERR_INVALID);
    }
    vram_error_clear();
    rig_end_clean(&rig);
}

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
static void numbers_of_all_kinds(void **state) {
    static const vram_precision precisions[] = {VRAM_PRECISION_FP32, VRAM_PRECISION_FP16,
                                                VRAM_PRECISION_INT8};
    static const uint64_t dims[] = {3, 8, 21};
    static const float offsets[] = {0, 6}, units[] = {0.25f, 0x1.0p-64f};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on");
    vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_AUTO);
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
    rig_end_clean(&rig);
}

/* Of numbers that are wrong in two ways the one that is not allowed is named. */
static void the_wrong_number_is_named(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on");
    vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_AUTO);
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
    rig_end_clean(&rig);
}

/* Integers whose sums are beyond the 24 bits that are exact, and many vectors that are equally
   near: the lower indices. */
static void large_integers(void **state) {
    enum { DIM = 2048, COUNT = 70 };
    static float query[DIM], corpus[COUNT * DIM];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on");
    vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_DEVICE);
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
    rig_end_clean(&rig);
}

/* A device that tells nothing of its memory is not asked for more than the search needs. */
static void devices_that_tell_little(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct decider d = decider_make();
        struct kind kind = {
            .precision = VRAM_PRECISION_FP32, .dim = 8, .unit = 0.25f, .place = VRAM_PLACE_DEVICE};
        d.scheduler->info.memory_bytes = (vram_value){.known = i == 1};
        d.scheduler->info.alloc_max = (vram_value){.known = i < 2, .value = i ? 0 : 4096};
        try_kind(d.handle, &kind);
        decider_end(&d);
    }
}

/* By measured rates a search runs where it is sooner done, and fetches little. */
static void searches_by_measured_rates(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make("sim", "memory=64M,real=on");
        const vram_calibration rates = {sizeof rates, i ? 1e3 : 1e12, 1e9, 1e9, 1e9, 1e-6};
        vram_scheduler_options options = {.size = sizeof options, .calibration = &rates};
        struct kind kind = {.precision = VRAM_PRECISION_FP32, .dim = 8, .unit = 0.25f};
        vram_scheduler *scheduler;
        assert_ok(vram_scheduler_create(pool_of(&rig, 0), &options, &scheduler));
        try_kind(scheduler, &kind);
        assert_int_equal(stats_of_scheduler(scheduler).device_products > 0, i);
        rig_end_clean(&rig);
    }
}

/* ------------------------------------------------------------------- calibrations */

static void rates_at_the_edge(void **state) {
    (void)state;
    vram_calibration rates = {sizeof rates, 0, 1e30, 2.4, 2.6, 0};
    vr_calibration_round(&rates);
    assert_true(rates.cpu_rate == 1 && rates.device_rate == 1e18);
    assert_true(rates.upload_rate == 2 && rates.download_rate == 3);
    assert_true(rates.device_seconds > 0);
}

static void files_at_the_edge(void **state) {
    static const char *const texts[] = {
        "vram calibration 2\nkey\ncpu_rate 0\n",
        "vram calibration 2\nkey\ncpu_rate 1000000000000000001\n",
        "vram calibration 2\nkey\ncpu_rate 5",
        "vram calibration 2\nkey\ncpu_rate 5x",
        "vram calibration 2\nkey\ncpu_rate5 5\n",
        "vram",
    };
    vram_calibration rates;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(vr_calibration_parse("key\n", texts[i], strlen(texts[i]), &rates));
    }
}

/* What rates depend on is in the key, and a folder must be a path. */
static void places_of_rates(void **state) {
    static struct vr_scheduler scheduler = {.cpu_name = "own", .queue_count = 3};
    static struct vr_arithmetic arithmetic = {.name = "device's"};
    struct vr_calibration_place place;
    char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char had_cache[1024], had_home[1024];
    (void)state;
    (void)snprintf(had_cache, sizeof had_cache, "%s", cache ? cache : "");
    (void)snprintf(had_home, sizeof had_home, "%s", home ? home : "");
    scheduler.info.backend = "sim";
    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
    assert_int_equal(setenv("HOME", "relative", 1), 0);
    assert_false(vr_calibration_place(&scheduler, &arithmetic, &place));
    assert_int_equal(unsetenv("HOME"), 0);
    assert_false(vr_calibration_place(&scheduler, &arithmetic, &place));
    assert_int_equal(setenv("HOME", "/home/somebody", 1), 0);
    assert_true(vr_calibration_place(&scheduler, &arithmetic, &place));
    assert_memory_equal(place.path, "/home/somebody/.cache/vram/calibration-", 39);
    assert_non_null(strstr(place.key, "cpu arithmetic own"));
    assert_non_null(strstr(place.key, "uuid 00000000000000000000000000000000\n"));
    scheduler.info.uuid_known = true;
    memset(scheduler.info.uuid, 0xAB, sizeof scheduler.info.uuid);
    scheduler.blas.sgemm = no_sgemm;
    (void)snprintf(scheduler.blas.name, sizeof scheduler.blas.name, "a BLAS");
    assert_true(vr_calibration_place(&scheduler, &arithmetic, &place));
    assert_non_null(strstr(place.key, "cpu arithmetic a BLAS"));
    assert_non_null(strstr(place.key, "uuid abababab"));
    if (cache) {
        assert_int_equal(setenv("XDG_CACHE_HOME", had_cache, 1), 0);
    } else {
        assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
    }
    if (home) {
        assert_int_equal(setenv("HOME", had_home, 1), 0);
    } else {
        assert_int_equal(unsetenv("HOME"), 0);
    }
}

/* Allocations of a measurement fail in their turn: the first ones all, later ones here and there,
   since each costs a measurement. */
static void measurements_without_memory(void **state) {
    (void)state;
    assert_ok(vram_option_set("calibration_cache", "off"));
    assert_ok(vram_option_set("blas_library", "none"));
    vram_status status = VRAM_ERR_HOST_MEMORY;
    for (uint64_t nth = 1; status != VRAM_OK; nth += FAULT_STEP + nth / 4) {
        struct rig rig = rig_make("host", NULL);
        vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_AUTO);
        vr_mem_fail_at(nth, false);
        status = vram_scheduler_calibrate(scheduler, NULL);
        bool failed = vr_mem_failed();
        vr_mem_fail_at(0, false);
        assert_true(status == VRAM_OK || status == VRAM_ERR_HOST_MEMORY);
        assert_int_equal(stats_of_scheduler(scheduler).calibrated, status == VRAM_OK);
        assert_ok(vram_context_destroy(rig.context));
        status = failed ? VRAM_ERR_HOST_MEMORY : status; /* it may do without that memory */
    }
    vram_error_clear();
}

/* ------------------------------------------------------------------------- labels */

static vram_status many_labels(void *user, const int32_t *labels, size_t count, int32_t *mapping,
                               size_t room, size_t *mapped) {
    (void)user, (void)labels, (void)count;
    memset(mapping, 0, room * sizeof *mapping);
    *mapped = room;
    return VRAM_OK;
}

/* A mapping that is larger than the whole cache is not kept. */
static void mappings_that_are_not_kept(void **state) {
    static int32_t mapping[2000];
    static const int32_t label = 1;
    (void)state;
    vram_labels_options options = {.size = sizeof options, .entries = 4, .max_bytes = 400};
    vram_labels_info info = {.size = sizeof info};
    vram_labels *cache;
    size_t mapped;
    assert_ok(vram_labels_create(&options, &cache));
    assert_ok(vram_labels_get(cache, &label, 1, many_labels, NULL, mapping, 2000, &mapped));
    assert_int_equal(mapped, 2000);
    assert_ok(vram_labels_get(cache, mapping, 2000, many_labels, NULL, mapping, 1, &mapped));
    assert_ok(vram_labels_info_get(cache, &info));
    assert_int_equal(info.entries, 0);
    assert_int_equal(vram_labels_get(cache, &label, 1, many_labels, NULL, NULL, 1, &mapped),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_labels_get(cache, NULL, 1, many_labels, NULL, mapping, 1, &mapped),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_labels_get(cache, NULL, 0, many_labels, NULL, mapping, 1, NULL),
                     VRAM_ERR_INVALID);
    assert_ok(vram_labels_destroy(cache));
    vram_error_clear();
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, start, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(handles_run_out), /* first: no handle of its kinds is free */
        TEST(what_a_blas_cannot_count),
        TEST(parts_make_the_whole),
        TEST(threads_that_do_not_start),
        TEST(nan_stays_nan),
        TEST(memory_beyond_64_bits),
        TEST(bounds_of_tiles),
        TEST(tiles_beyond_64_bits),
        TEST(parts_for_queues),
        TEST(exhaustion_is_told_if_asked),
        TEST(options_that_make_no_sense),
        TEST(weights_on_a_cpu),
        TEST(shapes_beyond_64_bits),
        TEST(numbers_of_all_kinds),
        TEST(the_wrong_number_is_named),
        TEST(large_integers),
        TEST(devices_that_tell_little),
        TEST(searches_by_measured_rates),
        TEST(rates_at_the_edge),
        TEST(files_at_the_edge),
        TEST(places_of_rates),
        TEST(measurements_without_memory),
        TEST(mappings_that_are_not_kept),
    };
    return cmocka_run_group_tests_name("compute_edges", tests, NULL, NULL);
}
