/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neighbors.c: `vram bench distance`: the ten nearest of many vectors, for a hundred queries or, on
 * a GPU, for ten thousand, in three precisions, placed by the scheduler's rule and on the CPU,
 * compared with the product of the same matrices. The last two take long for many queries: they
 * compute a part, and report the time of the whole from it.
 */
#include "bench/ways.h"
#include "survey.h"

#include <vram/compute.h>

#include <stdio.h>
#include <stdlib.h>

enum { FP32, FP16, INT8, ON_CPU, PRODUCT, WAYS };
enum { DIM = 128, NEAREST = 10, QUERIES = 100, QUERIES_GPU = 10000, PIECE = 4096, COPIES = 6 };

#define PART_CPU     UINT64_C(100000000)  /* distances that the CPU's way computes in a round */
#define COPY_BYTES   (UINT64_C(64) << 20) /* of the corpus, to see how fast copies are */
#define PART_PRODUCT UINT64_C(400000000)  /* results that the bare product brings home in one */

struct searching {
    vram_device *device;
    vram_pool *pool;
    vram_scheduler *scheduler;
    vram_distance distance;
    float *query, *corpus, *best, *products;
    uint64_t *best_at;
    uint64_t cpu_queries, product_vectors; /* the parts */
    char about_cpu[96], about_product[96];
    double product_rate; /* multiplications a second on the device; 0: not to be had */
    double copy_rate;    /* bytes a second of the corpus to the device; the same */
};

static bool round_of(struct searching *searching, struct way *way, vram_precision precision,
                     vram_place place, uint64_t *ns) {
    vram_distance distance = searching->distance;
    distance.precision = precision;
    distance.place = place;
    uint64_t before = ways_now();
    vram_status status = vram_distance_run(searching->scheduler, &distance);
    *ns = ways_now() - before;
    return way_good(way, status);
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

/* What the whole takes, by its part. */
static void whole(uint64_t *ns, uint64_t part, uint64_t all) {
    *ns = (uint64_t)((double)*ns * ((double)all / (double)part));
}

static bool round_on_cpu(void *user, struct way *way, uint64_t *ns) {
    struct searching *searching = user;
    struct searching part = *searching;
    part.distance.queries = searching->cpu_queries;
    bool good = round_of(&part, way, VRAM_PRECISION_FP32, VRAM_PLACE_CPU, ns);
    if (good) {
        whole(ns, searching->cpu_queries, searching->distance.queries);
    }
    return good;
}

/* Queries times corpus in pieces that fit, brought home, and nothing done with it. */
static bool round_product(void *user, struct way *way, uint64_t *ns) {
    struct searching *searching = user;
    const vram_distance *distance = &searching->distance;
    vram_status status = VRAM_OK;
    uint64_t before = ways_now(), all = searching->product_vectors;
    for (uint64_t at = 0; status == VRAM_OK && at < all; at += PIECE) {
        uint64_t here = all - at < PIECE ? all - at : PIECE;
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
    whole(ns, all, distance->vectors);
    return way_good(way, status);
}

static struct way ways[WAYS] = {
    [FP32] = {.name = "fp32", .about = "single precision, placed by the rule"},
    [FP16] = {.name = "fp16", .about = "half precision"},
    [INT8] = {.name = "int8", .about = "8 bits"},
    [ON_CPU] = {.name = "cpu", .about = "single precision, on the CPU"},
    [PRODUCT] = {.name = "product", .about = "only the product of queries and corpus, downloaded"},
};

/* The parts that the slow ways do, and what is said of them. */
static void share_out(struct searching *searching) {
    uint64_t queries = searching->distance.queries, vectors = searching->distance.vectors;
    uint64_t fit = PART_CPU / vectors, columns = PART_PRODUCT / queries;
    searching->cpu_queries = fit < 1 ? 1 : fit < queries ? fit : queries;
    searching->product_vectors = columns < 1 ? 1 : columns < vectors ? columns : vectors;
    if (searching->cpu_queries < queries) {
        (void)snprintf(searching->about_cpu, sizeof searching->about_cpu,
                       "%s; measured with %llu of the queries", ways[ON_CPU].about,
                       (unsigned long long)searching->cpu_queries);
        ways[ON_CPU].about = searching->about_cpu;
    }
    if (searching->product_vectors < vectors) {
        (void)snprintf(searching->about_product, sizeof searching->about_product,
                       "%s; measured with %llu vectors", ways[PRODUCT].about,
                       (unsigned long long)searching->product_vectors);
        ways[PRODUCT].about = searching->about_product;
    }
}

/* How fast the corpus is copied to the device, without any other work: the best of a few copies of
   a part of it. */
static vram_status copy_rate(struct searching *searching) {
    uint64_t all = searching->distance.vectors * DIM * sizeof(float);
    uint64_t bytes = all < COPY_BYTES ? all : COPY_BYTES;
    vram_queue *queue;
    vram_addr addr;
    vram_status status = vram_queue_create(searching->device, NULL, &queue);
    if (status != VRAM_OK) {
        return status;
    }
    status = vram_alloc(searching->pool, bytes, queue, &addr);
    for (int i = 0; status == VRAM_OK && i < COPIES; i++) {
        uint64_t before = ways_now();
        status = vram_transfer_upload(queue, addr, searching->corpus, bytes, NULL, NULL);
        if (status == VRAM_OK) {
            status = vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
        }
        double rate = (double)bytes / (double)(ways_now() - before + 1) * 1e9;
        searching->copy_rate = rate > searching->copy_rate ? rate : searching->copy_rate;
    }
    vram_queue_destroy(queue); /* the block goes with the pool */
    return status;
}

/* How fast this machine multiplies and copies, if that can be measured. It comes last, because the
   rule uses the result from then on. */
static void calibrate(struct searching *searching) {
    vram_calibration rates = {.size = sizeof rates};
    if (vram_scheduler_calibrate(searching->scheduler, &rates) == VRAM_OK) {
        searching->product_rate = rates.device_rate;
        if (copy_rate(searching) != VRAM_OK) {
            searching->copy_rate = 0;
        }
    }
    vram_error_clear();
}

static void measure(struct searching *searching, double seconds) {
    static way_fn *const rounds[WAYS] = {round_fp32, round_fp16, round_int8, round_on_cpu,
                                         round_product};
    for (int i = 0; i < WAYS; i++) {
        way_measure(&ways[i], rounds[i], searching, seconds / WAYS);
    }
    calibrate(searching);
}

/* How often a second a way did `what`; 0: it was not measured. */
static double rate_of(const struct way *way, double what) {
    return way_measured(way) ? what / way->median_ns * 1e9 : 0;
}

/* Multiplications and additions a second, and bytes of vectors read a second. */
static double flops(const struct searching *searching, const struct way *way) {
    const vram_distance *d = &searching->distance;
    return rate_of(way, 2.0 * (double)d->queries * (double)d->vectors * DIM);
}

static double bytes_rate(const struct searching *searching, const struct way *way) {
    return rate_of(way, (double)searching->distance.vectors * DIM * sizeof(float));
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
    printf("\n");
    for (int i = FP32; i <= INT8; i++) {
        if (!way_measured(&ways[i])) {
            continue;
        }
        printf("%s: %.1f GFLOP/s, %.2f GB/s of the corpus.\n", ways[i].name,
               flops(searching, &ways[i]) / 1e9, bytes_rate(searching, &ways[i]) / 1e9);
    }
    if (searching->product_rate > 0 && searching->copy_rate > 0) {
        printf("This machine: %.1f GFLOP/s of products in single precision, %.2f GB/s of ordinary "
               "memory "
               "to the device.\n",
               2 * searching->product_rate / 1e9, searching->copy_rate / 1e9);
    }
}

static void write_rate(struct json_out *json, const char *key, double rate) {
    if (rate > 0) {
        json_number(json, key, rate);
    } else {
        json_null(json, key);
    }
}

static bool write(const struct target *target, const struct searching *searching) {
    struct json_out json;
    output_json_begin(&json, "vram.bench.distance/1");
    json_text(&json, "bench", "distance");
    ways_write_device(&json, target);
    json_unsigned(&json, "queries", searching->distance.queries);
    json_unsigned(&json, "vectors", searching->distance.vectors);
    json_unsigned(&json, "dim", DIM);
    json_unsigned(&json, "nearest", NEAREST);
    ways_write(&json, ways, WAYS);
    write_rate(&json, "fp32_flops", flops(searching, &ways[FP32]));
    write_rate(&json, "fp32_bytes_per_second", bytes_rate(searching, &ways[FP32]));
    write_rate(&json, "fp16_flops", flops(searching, &ways[FP16]));
    write_rate(&json, "int8_flops", flops(searching, &ways[INT8]));
    write_rate(&json, "machine_product_flops", 2 * searching->product_rate);
    write_rate(&json, "machine_upload_bytes_per_second", searching->copy_rate);
    json_unsigned(&json, "cpu_queries", searching->cpu_queries);
    json_unsigned(&json, "product_vectors", searching->product_vectors);
    ways_write_ratio(&json, "ratio_product", &ways[FP32], &ways[PRODUCT]);
    return output_json_end(&json);
}

/* From -1 to 1, no two vectors alike. */
static float made_up(uint64_t at) {
    at = (at ^ at >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    at = (at ^ at >> 27) * UINT64_C(0x94D049BB133111EB);
    return (float)(int32_t)(at >> 32) / 2147483648.0f;
}

static bool fill(struct searching *searching, uint64_t queries, uint64_t vectors) {
    searching->query = malloc(queries * DIM * sizeof(float));
    searching->corpus = malloc(vectors * DIM * sizeof(float));
    searching->best = malloc(queries * NEAREST * sizeof(float));
    searching->best_at = malloc(queries * NEAREST * sizeof(uint64_t));
    searching->products = malloc(queries * PIECE * sizeof(float));
    if (!searching->query || !searching->corpus || !searching->best || !searching->best_at ||
        !searching->products) {
        return false;
    }
    for (uint64_t i = 0; i < queries * DIM; i++) {
        searching->query[i] = made_up(i);
    }
    for (uint64_t i = 0; i < vectors * DIM; i++) {
        searching->corpus[i] = made_up(i + (UINT64_C(1) << 48));
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
    share_out(&searching);
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
