/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multiply.c: `vram bench matmul`: matrix products by a scheduler, compared with the libraries
 * called directly.
 *
 * All ways take turns, one round each, so that disturbances of the machine affect all of them.
 * `cblas` and `cublas` are the libraries themselves, loaded here; `naive` is a program without a
 * pool: memory from the driver, upload, product, download, and all of it freed.
 */
#include "bench/direct_blas.h"
#include "bench/ways.h"
#include "survey.h"

#include <vram/compute.h>

#include <stdio.h>
#include <stdlib.h>

enum {
    CPU,
    CBLAS,
    OWN,
    HOST_TO_HOST,
    NAIVE,
    RESIDENT,
    CUBLAS,
    POOLED_SMALL,
    DRIVER_SMALL,
    BATCH,
    SINGLES,
    WAYS
};
enum { SMALL = 256, BATCHED = 64, BATCH_ROWS = 16, BATCH_SIDE = 512, WARM_ROUNDS = 40 };

struct multiplying {
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_scheduler *scheduler; /* with whatever libraries there are */
    vram_scheduler *own;       /* with libvram's own CPU kernel */
    struct direct_blas direct;
    uint64_t side;
    float *a, *b, *c;      /* side x side */
    vram_addr resident[3]; /* the same on the device; 0: not allocated */
    bool brought;          /* with contents */
    vram_matmul batch[BATCHED];
};

static vram_matmul product_of(const struct multiplying *m, uint64_t side, vram_place place) {
    return (vram_matmul){.size = sizeof(vram_matmul),
                         .m = side,
                         .k = side,
                         .n = side,
                         .a = m->a,
                         .b = m->b,
                         .c = m->c,
                         .place = place};
}

static bool timed(struct way *way, vram_scheduler *scheduler, const vram_matmul *product,
                  uint64_t *ns) {
    uint64_t before = ways_now();
    vram_status status = vram_matmul_run(scheduler, product);
    *ns = ways_now() - before;
    return way_good(way, status);
}

/* ------------------------------------------------------------------- the CPU's */

static bool round_cpu(void *user, struct way *way, uint64_t *ns) {
    struct multiplying *m = user;
    vram_matmul product = product_of(m, m->side, VRAM_PLACE_CPU);
    return timed(way, m->scheduler, &product, ns);
}

static bool round_own(void *user, struct way *way, uint64_t *ns) {
    struct multiplying *m = user;
    vram_matmul product = product_of(m, m->side, VRAM_PLACE_CPU);
    return timed(way, m->own, &product, ns);
}

static bool round_cblas(void *user, struct way *way, uint64_t *ns) {
    struct multiplying *m = user;
    uint64_t before = ways_now();
    if (!direct_cblas(&m->direct, m->side, m->a, m->b, m->c)) {
        snprintf(way->reason, sizeof way->reason, "no OpenBLAS or BLIS here");
        return false;
    }
    *ns = ways_now() - before;
    return true;
}

/* ----------------------------------------------------------------- the device's */

static bool round_host_to_host(void *user, struct way *way, uint64_t *ns) {
    struct multiplying *m = user;
    vram_matmul product = product_of(m, m->side, VRAM_PLACE_DEVICE);
    return timed(way, m->scheduler, &product, ns);
}

static vram_matmul product_there(const struct multiplying *m, uint64_t side,
                                 const vram_addr at[3]) {
    vram_matmul product = product_of(m, side, VRAM_PLACE_DEVICE);
    product.a = product.b = NULL;
    product.c = NULL;
    product.a_addr = at[0];
    product.b_addr = at[1];
    product.c_addr = at[2];
    product.queue = m->queue;
    return product;
}

/* Memory from the driver each time, one thing after the other. */
static bool round_from_driver(struct multiplying *m, struct way *way, uint64_t side, uint64_t *ns) {
    uint64_t bytes = side * side * sizeof(float);
    vram_addr at[3] = {0, 0, 0};
    vram_status status = VRAM_OK;
    uint64_t before = ways_now();
    for (int i = 0; i < 3 && status == VRAM_OK; i++) {
        status = vram_device_alloc(m->device, bytes, VRAM_MEMORY_DEVICE, &at[i]);
    }
    for (int i = 0; i < 2 && status == VRAM_OK; i++) {
        status = vram_queue_upload(m->queue, at[i], i ? m->b : m->a, bytes);
        vram_status waited = vram_queue_wait(m->queue, VRAM_TIMEOUT_DEFAULT);
        status = status == VRAM_OK ? waited : status;
    }
    if (status == VRAM_OK) {
        vram_matmul product = product_there(m, side, at);
        status = vram_matmul_run(m->scheduler, &product);
    }
    if (status == VRAM_OK) {
        status = vram_queue_download(m->queue, m->c, at[2], bytes);
        vram_status waited = vram_queue_wait(m->queue, VRAM_TIMEOUT_DEFAULT);
        status = status == VRAM_OK ? waited : status;
    }
    for (int i = 0; i < 3; i++) {
        (void)vram_device_free(m->device, at[i]);
    }
    *ns = ways_now() - before;
    return way_good(way, status);
}

static bool round_naive(void *user, struct way *way, uint64_t *ns) {
    return round_from_driver(user, way, ((struct multiplying *)user)->side, ns);
}

static bool round_driver_small(void *user, struct way *way, uint64_t *ns) {
    return round_from_driver(user, way, SMALL, ns);
}

static bool round_pooled_small(void *user, struct way *way, uint64_t *ns) {
    struct multiplying *m = user;
    vram_matmul product = product_of(m, SMALL, VRAM_PLACE_DEVICE);
    return timed(way, m->scheduler, &product, ns);
}

/* Once; the next way tries again what failed. */
static vram_status bring(struct multiplying *m) {
    uint64_t bytes = m->side * m->side * sizeof(float);
    vram_status status = VRAM_OK;
    if (m->brought) {
        return VRAM_OK;
    }
    for (int i = 0; i < 3 && status == VRAM_OK; i++) {
        status = m->resident[i] ? VRAM_OK : vram_alloc(m->pool, bytes, m->queue, &m->resident[i]);
        if (status == VRAM_OK) {
            status = vram_queue_upload(m->queue, m->resident[i], i ? m->b : m->a, bytes);
        }
    }
    vram_status waited = vram_queue_wait(m->queue, VRAM_TIMEOUT_DEFAULT);
    status = status == VRAM_OK ? waited : status;
    m->brought = status == VRAM_OK;
    return status;
}

static bool round_resident(void *user, struct way *way, uint64_t *ns) {
    struct multiplying *m = user;
    vram_status status = bring(m);
    if (status != VRAM_OK) {
        return way_fail(way, status);
    }
    vram_matmul product = product_there(m, m->side, m->resident);
    return timed(way, m->scheduler, &product, ns);
}

static bool round_cublas(void *user, struct way *way, uint64_t *ns) {
    struct multiplying *m = user;
    vram_status status = bring(m);
    if (status != VRAM_OK) {
        return way_fail(way, status);
    }
    uint64_t before = ways_now();
    if (!direct_cublas(&m->direct, m->queue, m->side, m->resident)) {
        snprintf(way->reason, sizeof way->reason, "no cuBLAS here");
        return false;
    }
    status = vram_queue_wait(m->queue, VRAM_TIMEOUT_DEFAULT);
    *ns = ways_now() - before;
    return way_good(way, status);
}

/* --------------------------------------------------------------------- batches */

static bool round_batch(void *user, struct way *way, uint64_t *ns) {
    struct multiplying *m = user;
    uint64_t before = ways_now();
    vram_status status = vram_matmul_batch(m->scheduler, m->batch, BATCHED);
    *ns = ways_now() - before;
    return way_good(way, status);
}

static bool round_singles(void *user, struct way *way, uint64_t *ns) {
    struct multiplying *m = user;
    vram_status status = VRAM_OK;
    uint64_t before = ways_now();
    for (int i = 0; i < BATCHED && status == VRAM_OK; i++) {
        status = vram_matmul_run(m->scheduler, &m->batch[i]);
    }
    *ns = ways_now() - before;
    return way_good(way, status);
}

/* ------------------------------------------------------------------------ verb */

static struct way ways[WAYS] = {
    [CPU] = {.name = "cpu", .about = "a scheduler, on the CPU"},
    [CBLAS] = {.name = "cblas", .about = "cblas_sgemm called directly"},
    [OWN] = {.name = "own", .about = "libvram's own CPU kernel"},
    [HOST_TO_HOST] = {.name = "device", .about = "a scheduler, on the device, from host memory"},
    [NAIVE] = {.name = "naive", .about = "the driver's memory, upload, product, download, free"},
    [RESIDENT] = {.name = "resident", .about = "a scheduler, with operands on the device"},
    [CUBLAS] = {.name = "cublas", .about = "cublasSgemm called directly, the same operands"},
    [POOLED_SMALL] = {.name = "pooled_256", .about = "256 x 256 x 256 with memory of the pool"},
    [DRIVER_SMALL] = {.name = "driver_256", .about = "256 x 256 x 256 with memory of the driver"},
    [BATCH] = {.name = "batch", .about = "64 products with one B, in one call"},
    [SINGLES] = {.name = "singles", .about = "the same, one call each"},
};

/* Runs small products as often as a scheduler needs to find out how to copy them; the same for both
   ways. */
static void warm_up(struct multiplying *multiplying) {
    uint64_t ns;
    for (int i = 0; i < WARM_ROUNDS; i++) {
        if (!round_pooled_small(multiplying, &ways[POOLED_SMALL], &ns) ||
            !round_driver_small(multiplying, &ways[DRIVER_SMALL], &ns)) {
            return;
        }
    }
}

/* A way runs twice in its turn and the second run counts, because the first one finds the data of
   others in the caches. One that fails is not measured, whatever it came to before. */
static void take_turn(struct multiplying *multiplying, way_fn *round, struct way *way) {
    uint64_t ns;
    if (way->reason[0] != 0 || way->count == WAY_SAMPLES) {
        return;
    }
    if (round(multiplying, way, &ns) && round(multiplying, way, &ns)) {
        way->samples[way->count++] = (double)ns;
    } else {
        way->count = 0;
    }
}

static void measure(struct multiplying *multiplying, double seconds) {
    static way_fn *const rounds[WAYS] = {round_cpu,          round_cblas,        round_own,
                                         round_host_to_host, round_naive,        round_resident,
                                         round_cublas,       round_pooled_small, round_driver_small,
                                         round_batch,        round_singles};
    warm_up(multiplying);
    uint64_t end = ways_now() + (uint64_t)(seconds * 1e9);
    for (uint32_t turn = 0; turn < WAY_ROUNDS_LEAST || ways_now() < end; turn++) {
        for (int i = 0; i < WAYS; i++) {
            take_turn(multiplying, rounds[i], &ways[i]);
        }
    }
    for (int i = 0; i < WAYS; i++) {
        way_sum_up(&ways[i]);
    }
}

static double rate(const struct way *way, double side) {
    return way_measured(way) ? 2 * side * side * side / way->median_ns : 0;
}

static void print(const struct terminal *terminal, const struct target *target,
                  const struct multiplying *m, const vram_scheduler_stats *stats) {
    char label[DEVICE_LABEL_MAX];
    terminal_print(terminal, STYLE_BOLD, "matmul");
    printf(" of %llu x %llu, on %s, ", (unsigned long long)m->side, (unsigned long long)m->side,
           device_label(&target->info, label));
    terminal_print(terminal, STYLE_PLAIN, "%s", target->info.name);
    printf("\nCPU: %s; device: %s\n\n", stats->cpu_arithmetic,
           *stats->device_arithmetic ? stats->device_arithmetic : "none");
    ways_print(terminal, ways, WAYS);
    printf("\n");
    for (int i = CPU; i <= OWN; i++) {
        if (way_measured(&ways[i])) {
            printf("%s %.1f GFLOP/s%s", ways[i].name, rate(&ways[i], (double)m->side),
                   i == OWN ? ".\n" : ", ");
        }
    }
}

static bool write(const struct target *target, const struct multiplying *m,
                  const vram_scheduler_stats *stats) {
    struct json_out json;
    output_json_begin(&json, "vram.bench.matmul/1");
    json_text(&json, "bench", "matmul");
    ways_write_device(&json, target);
    json_unsigned(&json, "side", m->side);
    json_text(&json, "cpu_arithmetic", stats->cpu_arithmetic);
    json_text(&json, "device_arithmetic", stats->device_arithmetic);
    ways_write(&json, ways, WAYS);
    ways_write_ratio(&json, "ratio_cblas", &ways[CPU], &ways[CBLAS]);
    ways_write_ratio(&json, "ratio_own", &ways[OWN], &ways[CBLAS]);
    ways_write_ratio(&json, "ratio_cublas", &ways[RESIDENT], &ways[CUBLAS]);
    ways_write_ratio(&json, "ratio_naive", &ways[NAIVE], &ways[HOST_TO_HOST]);
    ways_write_ratio(&json, "ratio_driver_256", &ways[DRIVER_SMALL], &ways[POOLED_SMALL]);
    ways_write_ratio(&json, "ratio_singles", &ways[SINGLES], &ways[BATCH]);
    return output_json_end(&json);
}

static bool fill(struct multiplying *m) {
    uint64_t side = m->side > BATCH_SIDE ? m->side : BATCH_SIDE, count = side * side;
    m->a = malloc(count * sizeof(float));
    m->b = malloc(count * sizeof(float));
    m->c = malloc((count + UINT64_C(1) * BATCHED * BATCH_ROWS * BATCH_SIDE) * sizeof(float));
    if (!m->a || !m->b || !m->c) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        m->a[i] = (float)(i * 2654435761u % 1000) / 1000;
        m->b[i] = (float)(i * 40503u % 1000) / 1000;
    }
    for (uint64_t i = 0; i < BATCHED; i++) {
        m->batch[i] = (vram_matmul){.size = sizeof(vram_matmul),
                                    .m = BATCH_ROWS,
                                    .k = BATCH_SIDE,
                                    .n = BATCH_SIDE,
                                    .a = m->a + i * BATCH_ROWS,
                                    .b = m->b,
                                    .c = m->c + i * BATCH_ROWS * BATCH_SIDE,
                                    .place = VRAM_PLACE_DEVICE};
    }
    return true;
}

/* The second scheduler is made while the option says that there is no BLAS. */
static vram_status open(const struct target *target, struct multiplying *m) {
    char before[256];
    vram_status status = vram_device_open(target->context, target->index, &m->device);
    if (status == VRAM_OK) {
        status = vram_queue_create(m->device, NULL, &m->queue);
    }
    if (status == VRAM_OK) {
        status = vram_pool_create(m->device, NULL, &m->pool);
    }
    if (status == VRAM_OK) {
        status = vram_scheduler_create(m->pool, NULL, &m->scheduler);
    }
    if (status == VRAM_OK &&
        (status = vram_option_get("blas_library", before, sizeof before, NULL)) == VRAM_OK) {
        (void)vram_option_set("blas_library", "none");
        status = vram_scheduler_create(m->pool, NULL, &m->own);
        (void)vram_option_set("blas_library", *before ? before : NULL);
    }
    return status;
}

static void close(struct multiplying *m) {
    direct_end(&m->direct);
    (void)vram_scheduler_destroy(m->own);
    (void)vram_scheduler_destroy(m->scheduler);
    vram_pool_destroy(m->pool);
    vram_queue_destroy(m->queue);
    vram_device_close(m->device);
    free(m->a);
    free(m->b);
    free(m->c);
}

int bench_matmul(struct invocation *invocation, const struct target *target, uint64_t side,
                 double seconds) {
    struct multiplying m = {.side = side};
    vram_scheduler_stats stats = {.size = sizeof stats};
    vram_status status = open(target, &m);
    if (status == VRAM_OK && !fill(&m)) {
        status = VRAM_ERR_HOST_MEMORY;
    }
    if (status != VRAM_OK) {
        int code = say_failure("cannot compute on this device", status);
        close(&m);
        return code;
    }
    direct_begin(&m.direct);
    measure(&m, seconds);
    status = vram_scheduler_stats_get(m.scheduler, &stats);
    int code = EXIT_YES;
    if (status != VRAM_OK) {
        code = say_failure("cannot tell what computed", status);
    } else if (invocation->json) {
        code = write(target, &m, &stats) ? EXIT_YES : EXIT_MISUSE;
    } else {
        print(&invocation->terminal, target, &m, &stats);
    }
    close(&m);
    return code;
}
