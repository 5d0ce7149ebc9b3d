/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_compute.c: matrix products and the nearest of many vectors on every device, compared with
 * double precision; mappings of labels; and invalid handles of such objects.
 */
#include "case.h"

#include <vram/compute.h>

#include <math.h>
#include <string.h>

static vram_status reversed(void *user, const int32_t *labels, size_t count, int32_t *mapping,
                            size_t room, size_t *mapped) {
    (void)user;
    for (size_t i = 0; i < count && i < room; i++) {
        mapping[i] = labels[count - 1 - i];
    }
    *mapped = count;
    return VRAM_OK;
}

/* The status that a battery wants; VRAM_OK: VRAM_ERR_INVALID or VRAM_ERR_STALE, either. */
static bool refuses(struct check *check, vram_status status, vram_status want,
                    struct check_place place) {
    return want == VRAM_OK ? check_refused(check, status, place)
                           : check_status(check, status, want, place);
}
#define REFUSES(call) CHECK_TRY(refuses(check, call, want, CHECK_AT(#call)))

static bool as_labels(struct check *check, void *bad, vram_status want) {
    vram_labels *cache = bad;
    vram_labels_info info = {.size = sizeof info};
    int32_t label = 1, mapping = 0;
    size_t mapped;

    REFUSES(vram_labels_get(cache, &label, 1, reversed, NULL, &mapping, 1, &mapped));
    REFUSES(vram_labels_clear(cache, NULL));
    REFUSES(vram_labels_info_get(cache, &info));
    if (cache != NULL) { /* destroying NULL is allowed */
        REFUSES(vram_labels_destroy(cache));
    }
    return true;
}

static bool as_scheduler(struct check *check, void *bad, vram_status want) {
    vram_scheduler *scheduler = bad;
    vram_scheduler_stats stats = {.size = sizeof stats};
    vram_matmul_plan plan = {.size = sizeof plan};
    float number = 1;
    vram_matmul product = {
        .size = sizeof product, .m = 1, .k = 1, .n = 1, .a = &number, .b = &number, .c = &number};
    vram_weights_options options = {.size = sizeof options, .k = 1, .n = 1, .b = &number};
    vram_weights *weights;
    vram_async async;

    REFUSES(vram_matmul_run(scheduler, &product));
    REFUSES(vram_matmul_start(scheduler, &product, &async));
    REFUSES(vram_matmul_batch(scheduler, &product, 1));
    REFUSES(vram_matmul_plan_get(scheduler, &product, &plan));
    REFUSES(vram_matmul_warm_up(scheduler, 1, 1, 1));
    REFUSES(vram_scheduler_stats_get(scheduler, &stats));
    REFUSES(vram_scheduler_calibrate(scheduler, NULL));
    REFUSES(vram_weights_create(scheduler, &options, &weights));
    vram_distance distance = {.size = sizeof distance,
                              .queries = 1,
                              .vectors = 1,
                              .dim = 1,
                              .query = &number,
                              .corpus = &number,
                              .distances = &number};
    REFUSES(vram_distance_run(scheduler, &distance));
    REFUSES(vram_distance_split(&scheduler, 1, &distance));
    if (bad != check->context) { /* the only one that is what this call wants */
        REFUSES(vram_distance_on(bad, 0, &distance));
    }
    if (scheduler != NULL) {
        REFUSES(vram_scheduler_destroy(scheduler));
        REFUSES(vram_weights_destroy((vram_weights *)bad));
    }
    return true;
}

static bool as_all(struct check *check, void *bad, vram_status want) {
    vram_scheduler *scheduler;
    CHECK_TRY(as_labels(check, bad, want));
    CHECK_TRY(as_scheduler(check, bad, want));
    if (bad != NULL) { /* without a pool it makes one */
        REFUSES(vram_scheduler_create(bad, NULL, &scheduler));
    }
    return true;
}

static bool handles(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_labels *cache;
    vram_scheduler *scheduler;
    CHECK_TRY(as_all(check, NULL, VRAM_ERR_INVALID));
    CHECK_TRY(as_all(check, check->context, VRAM_OK));
    CHECK_TRY(as_all(check, check, VRAM_OK));
    CHECK_OK(check, vram_labels_create(NULL, &cache));
    CHECK_TRY(as_scheduler(check, cache, VRAM_OK));
    CHECK_OK(check, vram_labels_destroy(cache));
    CHECK_TRY(as_labels(check, cache, VRAM_ERR_STALE));
    CHECK_OPEN(check, &device);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_scheduler_create(stock.pool, NULL, &scheduler));
    CHECK_OK(check, vram_scheduler_destroy(scheduler));
    CHECK_STATUS(check, vram_scheduler_destroy(scheduler), VRAM_ERR_STALE);
    for (uint32_t i = 0; i < check_rounds(check, 100); i++) {
        void *number = (void *)(uintptr_t)check_random(check, UINT64_MAX);
        CHECK_TRY(as_all(check, number, VRAM_OK));
    }
    return true;
}

/* A mapping that was not stored because host memory ran out is computed again, and counted. */
static bool found_again(struct check *check, vram_labels *cache) {
    vram_labels_info info = {.size = sizeof info};
    int32_t list[3] = {3, 1, 2}, mapping[3];
    size_t mapped = 0;

    for (uint64_t round = 0; round < 2; round++) {
        memset(mapping, 0, sizeof mapping);
        CHECK_OK(check, vram_labels_get(cache, list, 3, reversed, NULL, mapping, 3, &mapped));
        CHECK_EQUAL(check, mapped, 3);
        CHECK_THAT(check, mapping[0] == 2 && mapping[1] == 1 && mapping[2] == 3);
    }
    CHECK_OK(check, vram_labels_info_get(cache, &info));
    CHECK_EQUAL(check, info.hits, info.unkept == 0);
    CHECK_EQUAL(check, info.misses, info.entries + info.unkept);
    CHECK_EQUAL(check, info.hits + info.misses, 2);
    return true;
}

/* A cache belongs to no context, so that the runner does not end it. */
static bool labels(struct check *check) {
    vram_labels *cache;
    CHECK_OK(check, vram_labels_create(NULL, &cache));
    bool good = found_again(check, cache);
    CHECK_OK(check, vram_labels_destroy(cache));
    return good;
}

enum { M = 70, K = 33, N = 91 };

/* Whole numbers, so that every sum is exact in whatever order it is made. */
static float whole(uint64_t at) {
    return (float)(int)(at * 2654435761u % 17) - 8;
}

static bool same(struct check *check, const float *a, const float *b, const float *c,
                 uint32_t flags) {
    for (uint64_t i = 0; i < M; i++) {
        for (uint64_t j = 0; j < N; j++) {
            double sum = 0;
            for (uint64_t p = 0; p < K; p++) {
                sum += (double)a[flags & VRAM_MATMUL_TRANSPOSED_A ? p * M + i : i * K + p] *
                       (double)b[flags & VRAM_MATMUL_TRANSPOSED_B ? j * K + p : p * N + j];
            }
            CHECK_THAT(check, (double)c[i * N + j] == sum);
        }
    }
    return true;
}

/* The device if something computes there, else the CPU: the results are the same. */
static bool matmul(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_scheduler *scheduler;
    vram_scheduler_options options = {.size = sizeof options,
                                      .flags = VRAM_SCHEDULER_ANY_DEVICE,
                                      .threshold = 1,
                                      .device_bytes = 40000};
    static float a[M * K], b[K * N], c[3][M * N];
    vram_matmul products[3];

    for (uint64_t i = 0; i < M * K; i++) {
        a[i] = whole(i);
    }
    for (uint64_t i = 0; i < K * N; i++) {
        b[i] = whole(i + 7);
    }
    CHECK_OPEN(check, &device);
    device->unledgered = true;
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_scheduler_create(stock.pool, &options, &scheduler));
    for (uint32_t flags = 0; flags < 4; flags++) {
        for (int i = 0; i < 3; i++) {
            memset(c[i], 0xff, sizeof c[i]);
            products[i] = (vram_matmul){.size = sizeof products[i],
                                        .m = M,
                                        .k = K,
                                        .n = N,
                                        .a = a,
                                        .b = b,
                                        .c = c[i],
                                        .flags = flags};
        }
        CHECK_OK(check, vram_matmul_run(scheduler, &products[0]));
        CHECK_OK(check, vram_matmul_batch(scheduler, products + 1, 2));
        for (int i = 0; i < 3; i++) {
            CHECK_TRY(same(check, a, b, c[i], flags));
        }
    }
    CHECK_OK(check, vram_scheduler_destroy(scheduler));
    return true;
}

enum { QUERIES = 3, VECTORS = 2600, DIM = 5, NEAREST_MAX = 20 };

/* The squared distance, the inner product or 1 - cosine of a query and a vector of whole numbers,
   both generated by `each`. */
static double apart(const vram_distance *distance, uint64_t query, uint64_t vector, double each) {
    double product = 0, q = 0, c = 0;
    for (uint64_t i = 0; i < DIM; i++) {
        double x = (double)distance->query[query * DIM + i] * each;
        double y = (double)distance->corpus[vector * DIM + i] * each;
        x = (double)(int64_t)(x < 0 ? x - 0.5 : x + 0.5);
        y = (double)(int64_t)(y < 0 ? y - 0.5 : y + 0.5);
        product += x * y;
        q += x * x;
        c += y * y;
    }
    switch (distance->metric) {
    case VRAM_METRIC_INNER_PRODUCT:
        return product;
    case VRAM_METRIC_COSINE: /* squared, with its sign: the same order without a root */
        return -product * fabs(product) / (q * c); /* no vector is made of zeros */
    default:
        return q + c - 2 * product;
    }
}

/* What the value of a result should be, in the numbers of `apart`. */
static double undone(const vram_distance *distance, double value, double each) {
    switch (distance->metric) {
    case VRAM_METRIC_L2:
        return value * value * each * each;
    case VRAM_METRIC_COSINE:
        return -(1 - value) * fabs(1 - value);
    default:
        return value * each * each;
    }
}

static bool near_to(double a, double b) {
    double off = a > b ? a - b : b - a, size = b < 0 ? -b : b;
    return off <= 1e-5 * (1 + size);
}

/* Each result is the best of those that are left; of equal ones the first, except if rounding
   decides. */
static bool in_order(struct check *check, const vram_distance *distance, double each) {
    static bool taken[VECTORS];
    static double values[VECTORS];
    bool rounds = distance->metric == VRAM_METRIC_COSINE;
    double sign = distance->metric == VRAM_METRIC_INNER_PRODUCT ? -1 : 1;
    for (uint64_t q = 0; q < QUERIES; q++) {
        memset(taken, 0, sizeof taken);
        for (uint64_t j = 0; j < VECTORS; j++) {
            values[j] = apart(distance, q, j, each);
        }
        for (uint64_t i = 0; i < distance->k; i++) {
            uint64_t at = distance->best_at[q * distance->k + i], best = VECTORS;
            for (uint64_t j = 0; j < VECTORS; j++) {
                if (!taken[j] && (best == VECTORS || sign * values[j] < sign * values[best])) {
                    best = j;
                }
            }
            CHECK_THAT(check, at < VECTORS && !taken[at]);
            CHECK_THAT(check, rounds ? near_to(values[at], values[best]) : at == best);
            double value = (double)distance->best[q * distance->k + i];
            CHECK_THAT(check, near_to(undone(distance, value, each), values[at]));
            taken[at] = true;
        }
    }
    return true;
}

/* Every metric and precision, in tiles over two queues; each tile is more than one group
   handles. */
static bool search(struct check *check, vram_scheduler *scheduler) {
    static float query[QUERIES * DIM], corpus[VECTORS * DIM], best[QUERIES * NEAREST_MAX];
    static uint64_t best_at[QUERIES * NEAREST_MAX];
    static const vram_precision precisions[] = {VRAM_PRECISION_FP32, VRAM_PRECISION_FP16,
                                                VRAM_PRECISION_INT8};
    vram_distance distance = {.size = sizeof distance,
                              .queries = QUERIES,
                              .vectors = VECTORS,
                              .dim = DIM,
                              .query = query,
                              .corpus = corpus,
                              .best = best,
                              .best_at = best_at};
    for (int way = 0; way < 4; way++) {
        distance.metric = (vram_metric)way;
        distance.precision = precisions[way % 3];
        distance.k = way == 0 ? NEAREST_MAX : 3;
        double each = distance.precision == VRAM_PRECISION_INT8 ? 127 : 1;
        for (uint64_t i = 0; i < QUERIES * DIM; i++) {
            query[i] = (float)((double)whole(i) / each);
        }
        for (uint64_t i = 0; i < VECTORS * DIM; i++) {
            corpus[i] = (float)((double)whole(i * 31 + 7) / each);
        }
        memset(best_at, 0xff, sizeof best_at);
        CHECK_OK(check, vram_distance_run(scheduler, &distance));
        CHECK_TRY(in_order(check, &distance, each));
    }
    return true;
}

static bool nearest(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_scheduler *scheduler;
    vram_scheduler_options options = {.size = sizeof options,
                                      .flags = VRAM_SCHEDULER_ANY_DEVICE,
                                      .threshold = 1,
                                      .queues = 2,
                                      .device_bytes = 850000};

    CHECK_OPEN(check, &device);
    device->unledgered = true;
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_scheduler_create(stock.pool, &options, &scheduler));
    CHECK_TRY(search(check, scheduler));
    CHECK_OK(check, vram_scheduler_destroy(scheduler));
    return true;
}

const struct check_case check_cases_compute[] = {
    {"compute.handles", "calls of compute.h, distance.h and labels.h refuse invalid handles",
     handles},
    {"compute.matmul", "products of every layout, alone and in a batch, in tiles", matmul},
    {"compute.nearest", "the nearest of many vectors, by every metric and precision", nearest},
    {"compute.labels", "a mapping of labels is computed once and found again", labels},
    {NULL, NULL, NULL},
};
