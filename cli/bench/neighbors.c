/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neighbors.c: `vram bench distance`: the ten nearest of many vectors for a hundred queries, in three precisions,
 * where the scheduler's rule has it and on the CPU, beside the bare product of the same matrices.
 */
#include "bench/ways.h"
#include "survey.h"

#include <stdio.h>
#include <stdlib.h>

enum { FP32, FP16, INT8, ON_CPU, PRODUCT, WAYS };
enum { DIM = 128, NEAREST = 10, QUERIES = 100, QUERIES_GPU = 10000 };

struct searching {
    vram_device *device;
    vram_pool *pool;
    vram_scheduler *scheduler;
    vram_distance distance;
    float *query, *corpus, *best, *products;
    uint64_t *best_at;
};

static bool round_of(struct searching *searching, struct way *way, vram_precision precision,
                     vram_place place, uint64_t *ns) {
    vram_distance distance = searching->distance;
    distance.precision = precision;
    distance.place = place;
    uint64_t before = ways_now();
    vram_status status = vram_distance_run(searching->scheduler, &distance);
    *ns = ways_now() - before;
    return status == VRAM_OK || way_fail(way, status);
}

static bool round_fp32(void *user, struct way *way, uint64_t *ns) {
    return round_of(user, way, VRAM_PRECISION_FP32, VRAM_PLACE_AUTO, ns);
}

static bool round_fp16(void *user, struct way *way, uint64_t *ns) {
    return round_of(user, way, VRAM_PRECISION_FP16, VRAM_PLACE_AUTO, ns);
}

static bool round_int8(void *user, struct way *way, uint64_t *ns) {
    return round_of(user, way, VRAM_PRECISION_INT8, VRAM_PLACE_AUTO, ns);
}

static bool round_on_cpu(void *user, struct way *way, uint64_t *ns) {
    return round_of(user, way, VRAM_PRECISION_FP32, VRAM_PLACE_CPU, ns);
}

/* Queries times corpus in pieces that fit, and nothing done with it: what no search can go below. */
static bool round_product(void *user, struct way *way, uint64_t *ns) {
    struct searching *searching = user;
    const vram_distance *distance = &searching->distance;
    vram_status status = VRAM_OK;
    uint64_t before = ways_now(), piece = 4096;
    for (uint64_t at = 0; status == VRAM_OK && at < distance->vectors; at += piece) {
        uint64_t here = distance->vectors - at < piece ? distance->vectors - at : piece;
        vram_matmul product = {.size = sizeof product,
                               .m = distance->queries,
                               .k = DIM,
                               .n = here,
                               .a = searching->query,
                               .b = searching->corpus + at * DIM,
                               .c = searching->products,
                               .flags = VRAM_MATMUL_TRANSPOSED_B};
        status = vram_matmul_run(searching->scheduler, &product);
    }
    *ns = ways_now() - before;
    return status == VRAM_OK || way_fail(way, status);
}

static struct way ways[WAYS] = {
    [FP32] = {.name = "fp32", .about = "single precision, where the rule has it"},
    [FP16] = {.name = "fp16", .about = "half precision"},
    [INT8] = {.name = "int8", .about = "8 bits"},
    [ON_CPU] = {.name = "cpu", .about = "single precision, on the CPU"},
    [PRODUCT] = {.name = "product", .about = "the bare product of queries and corpus"},
};

static void measure(struct searching *searching, double seconds) {
    static way_fn *const rounds[WAYS] = {round_fp32, round_fp16, round_int8, round_on_cpu,
                                         round_product};
    for (int i = 0; i < WAYS; i++) {
        way_measure(&ways[i], rounds[i], searching, seconds / WAYS);
    }
}

/* Multiplications and additions a second, and bytes of vectors read a second. */
static double flops(const struct searching *searching, const struct way *way) {
    const vram_distance *d = &searching->distance;
    return way_measured(way)
               ? 2.0 * (double)d->queries * (double)d->vectors * DIM / way->median_ns * 1e9
               : 0;
}

static double bytes_rate(const struct searching *searching, const struct way *way) {
    return way_measured(way)
               ? (double)searching->distance.vectors * DIM * sizeof(float) / way->median_ns * 1e9
               : 0;
}

static void print(const struct terminal *terminal, const struct target *target,
                  const struct searching *searching) {
    char label[DEVICE_LABEL_MAX];
    terminal_print(terminal, STYLE_BOLD, "distance");
    printf(" of %llu queries and %llu vectors of %d, the %d nearest, on %s, ",
           (unsigned long long)searching->distance.queries,
           (unsigned long long)searching->distance.vectors, DIM, NEAREST,
           device_label(&target->info, label));
    terminal_print(terminal, STYLE_PLAIN, "%s", target->info.name);
    printf("\n\n");
    ways_print(terminal, ways, WAYS);
    printf("\nfp32: %.1f GFLOP/s, %.2f GB/s of the corpus.\n", flops(searching, &ways[FP32]) / 1e9,
           bytes_rate(searching, &ways[FP32]) / 1e9);
}

static bool write(const struct target *target, const struct searching *searching) {
    vram_json json;
    output_json_begin(&json, "vram.bench.distance/1");
    vram_json_text(&json, "bench", "distance");
    ways_write_device(&json, target);
    vram_json_unsigned(&json, "queries", searching->distance.queries);
    vram_json_unsigned(&json, "vectors", searching->distance.vectors);
    vram_json_unsigned(&json, "dim", DIM);
    vram_json_unsigned(&json, "nearest", NEAREST);
    ways_write(&json, ways, WAYS);
    vram_json_number(&json, "fp32_flops", flops(searching, &ways[FP32]));
    vram_json_number(&json, "fp32_bytes_per_second", bytes_rate(searching, &ways[FP32]));
    ways_write_ratio(&json, "ratio_product", &ways[FP32], &ways[PRODUCT]);
    return output_json_end(&json);
}

static bool fill(struct searching *searching, uint64_t queries, uint64_t vectors) {
    searching->query = malloc(queries * DIM * sizeof(float));
    searching->corpus = malloc(vectors * DIM * sizeof(float));
    searching->best = malloc(queries * NEAREST * sizeof(float));
    searching->best_at = malloc(queries * NEAREST * sizeof(uint64_t));
    searching->products = malloc(queries * 4096 * sizeof(float));
    if (!searching->query || !searching->corpus || !searching->best || !searching->best_at ||
        !searching->products) {
        return false;
    }
    for (uint64_t i = 0; i < queries * DIM; i++) {
        searching->query[i] = (float)(i * 40503u % 2000) / 1000 - 1;
    }
    for (uint64_t i = 0; i < vectors * DIM; i++) {
        searching->corpus[i] = (float)(i * 2654435761u % 2000) / 1000 - 1;
    }
    searching->distance = (vram_distance){.size = sizeof(vram_distance),
                                          .queries = queries,
                                          .vectors = vectors,
                                          .dim = DIM,
                                          .query = searching->query,
                                          .corpus = searching->corpus,
                                          .k = NEAREST,
                                          .best = searching->best,
                                          .best_at = searching->best_at};
    return true;
}

static vram_status open(const struct target *target, struct searching *searching) {
    vram_status status = vram_device_open(target->context, target->index, &searching->device);
    if (status == VRAM_OK) {
        status = vram_pool_create(searching->device, NULL, &searching->pool);
    }
    return status == VRAM_OK ? vram_scheduler_create(searching->pool, NULL, &searching->scheduler)
                             : status;
}

static void close(struct searching *searching) {
    (void)vram_scheduler_destroy(searching->scheduler);
    vram_pool_destroy(searching->pool);
    vram_device_close(searching->device);
    free(searching->query);
    free(searching->corpus);
    free(searching->best);
    free(searching->best_at);
    free(searching->products);
}

int bench_distance(struct invocation *invocation, const struct target *target, uint64_t vectors,
                   double seconds) {
    struct searching searching = {0};
    uint64_t queries = target->info.kind == VRAM_DEVICE_GPU ? QUERIES_GPU : QUERIES;
    vram_status status = open(target, &searching);
    if (status == VRAM_OK && !fill(&searching, queries, vectors)) {
        status = VRAM_ERR_HOST_MEMORY;
    }
    if (status != VRAM_OK) {
        int code = say_failure("cannot compute on this device", status);
        close(&searching);
        return code;
    }
    measure(&searching, seconds);
    int code = EXIT_YES;
    if (invocation->json) {
        code = write(target, &searching) ? EXIT_YES : EXIT_MISUSE;
    } else {
        print(&invocation->terminal, target, &searching);
    }
    close(&searching);
    return code;
}
