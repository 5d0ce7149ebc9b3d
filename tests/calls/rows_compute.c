/* SPDX-License-Identifier: Apache-2.0 */
/* rows_compute.c: rings, schedulers, weights and caches of labels beside the ends of what they
   belong to. */
#include "calls/call_table.h"

#define SHORT UINT64_C(300000) /* ns that a call waits for a kernel that does not run */

/* ------------------------------------------------------------------------ rings */

static const unsigned char message[4096];

CALL_WITH(vram_ring_create, POOL, ROW_USES_QUEUE, w->pool,
          SIZED(vram_ring_options, .strategy = VRAM_RING_DMA_POLLING, .input_capacity = 8,
                .output_capacity = 8, .queue = w->queue),
          &w->made.ring);
CALL_WITH(vram_ring_destroy, RING, ROW_NEVER_FAILS, OR_NULL(w->ring));
CALL_WITH(vram_ring_send, RING, 0, w->ring, message, LENGTH(sizeof message), FIXED(0), FIXED(0));

/* The ring is full and stays so. */
CALL_AS(vram_ring_send, full, RING, ROW_UNTIL_END) {
    vram_status status = VRAM_OK;
    for (int i = 0; i < 20 && status == VRAM_OK; i++) {
        status = TRY(vram_ring_send, w->ring, message, 16, 0, ANY(VRAM_TIMEOUT_DEFAULT));
    }
    return status;
}

CALL(vram_ring_send_many, RING, ROW_PARTIAL) {
    vram_ring_message messages[4] = {{message, 4096, 0}, {message, 1, 0}, {message, 2, 0}, {0}};
    uint64_t sent;
    return TRY(vram_ring_send_many, w->ring, messages, FIXED(4), FIXED(0), &sent);
}

CALL(vram_ring_receive, RING, ROW_NOT_READY) {
    unsigned char data[4096];
    return TRY(vram_ring_receive, w->ring, data, FIXED(sizeof data), FIXED(0), NULL);
}

CALL_AS(vram_ring_receive, empty, RING, ROW_UNTIL_END) {
    unsigned char data[4096];
    return TRY(vram_ring_receive, w->ring, data, sizeof data, ANY(VRAM_TIMEOUT_DEFAULT), NULL);
}

CALL_AFTER(vram_ring_flush, RING, ROW_PARTIAL, vram_ring_send(w->ring, message, 100, 0, 0), w->ring,
           OR_NULL(OUT(uint64_t)), OR_NULL(&w->made.async));
CALL_WITH(vram_ring_fetch, RING, ROW_PARTIAL, w->ring, OR_NULL(OUT(uint64_t)),
          OR_NULL(&w->made.async));
CALL_WITH(vram_ring_stop, RING, ROW_PARTIAL, w->ring);

CALL_AFTER(vram_ring_drain, RING, ROW_TIMEOUT | ROW_PARTIAL,
           vram_ring_send(w->ring, message, 100, 0, 0), w->ring, FIXED(SHORT));
CALL_AFTER_AS(vram_ring_drain, long, RING, ROW_UNTIL_END,
              vram_ring_send(w->ring, message, 100, 0, 0), w->ring, ANY(VRAM_TIMEOUT_DEFAULT));
CALL_WITH(vram_ring_join, RING, ROW_TIMEOUT, w->ring, FIXED(SHORT));
CALL_WITH_AS(vram_ring_join, long, RING, ROW_UNTIL_END, w->ring, ANY(VRAM_TIMEOUT_DEFAULT));
CALL_WITH(vram_ring_info_get, RING, 0, w->ring, TOLD(vram_ring_info));
CALL_WITH(vram_ring_stats_get, RING, 0, w->ring, TOLD(vram_ring_stats));

CALL(vram_ring_telemetry_get, RING, 0) {
    vram_ring_telemetry telemetry = {0};
    return TRY(vram_ring_telemetry_get, w->ring, &telemetry);
}

CALL_WITH(vram_ring_check, RING, 0, w->ring);

/* ------------------------------------------------------------------- schedulers */

enum { SIDE = 8 };
static const float operand[SIDE * SIDE];

static vram_matmul product_of(struct world *w, float *c) {
    return (vram_matmul){.size = sizeof(vram_matmul),
                         .m = SIDE,
                         .k = SIDE,
                         .n = SIDE,
                         .a = operand,
                         .b = w->weights ? NULL : operand,
                         .c = c,
                         .weights = w->weights};
}

CALL_WITH(vram_scheduler_create, POOL, 0, OR_NULL(w->pool), NULL, &w->made.scheduler);
CALL_WITH_AS(vram_scheduler_create, options, POOL, 0, OR_NULL(w->pool),
             SIZED(vram_scheduler_options, .cpu_threads = 1), &w->made.scheduler);
CALL_WITH(vram_scheduler_destroy, SCHEDULER, 0, OR_NULL(w->scheduler));
CALL_WITH(vram_scheduler_calibrate, SCHEDULER, ROW_SLOW, w->scheduler, NULL);
CALL_WITH(vram_weights_create, SCHEDULER, ROW_CHOOSES, w->scheduler,
          SIZED(vram_weights_options, .k = SIDE, .n = SIDE, .b = operand), &w->made.weights);
CALL_WITH(vram_weights_destroy, WEIGHTS, 0, OR_NULL(w->weights));

CALL(vram_matmul_run, SCHEDULER, 0) {
    float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    return TRY(vram_matmul_run, w->scheduler, &product);
}

CALL_AS(vram_matmul_run, weights, WEIGHTS, 0) {
    float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    return TRY(vram_matmul_run, w->scheduler, &product);
}

/* An operand on the device, on a queue of the program's. */
CALL_AS(vram_matmul_run, queue, SCHEDULER, ROW_USES_QUEUE | ROW_USES_BLOCK | ROW_INVALID) {
    float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    product.a = NULL;
    product.a_addr = w->block;
    product.queue = w->queue;
    return TRY(vram_matmul_run, w->scheduler, &product);
}

CALL(vram_matmul_start, SCHEDULER, 0) {
    static float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    vram_status status = TRY(vram_matmul_start, w->scheduler, &product, &w->made.async);
    return status ? status : vram_async_wait(&w->made.async, VRAM_TIMEOUT_DEFAULT);
}

CALL(vram_matmul_batch, SCHEDULER, 0) {
    float c[2][SIDE * SIDE];
    vram_matmul products[2] = {product_of(w, c[0]), product_of(w, c[1])};
    return TRY(vram_matmul_batch, w->scheduler, FIXED(products), FIXED(2));
}

CALL(vram_matmul_plan_get, SCHEDULER, 0) {
    float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    vram_matmul_plan plan = {.size = sizeof plan};
    return TRY(vram_matmul_plan_get, w->scheduler, &product, &plan);
}

CALL_WITH(vram_matmul_warm_up, SCHEDULER, 0, w->scheduler, FIXED(SIDE), FIXED(SIDE), FIXED(SIDE));
CALL_WITH(vram_scheduler_stats_get, SCHEDULER, 0, w->scheduler, TOLD(vram_scheduler_stats));

static vram_distance distance_of(float *distances) {
    return (vram_distance){.size = sizeof(vram_distance),
                           .queries = SIDE,
                           .vectors = SIDE,
                           .dim = SIDE,
                           .query = operand,
                           .corpus = operand,
                           .distances = distances};
}

CALL(vram_distance_run, SCHEDULER, 0) {
    float distances[SIDE * SIDE];
    vram_distance distance = distance_of(distances);
    return TRY(vram_distance_run, w->scheduler, &distance);
}

CALL(vram_distance_split, SCHEDULER, 0) {
    float distances[SIDE * SIDE];
    vram_distance distance = distance_of(distances);
    vram_scheduler *const schedulers[] = {w->scheduler, w->scheduler};
    return TRY(vram_distance_split, schedulers, FIXED(2), &distance);
}

CALL(vram_distance_on, CONTEXT, ROW_WALKS) {
    float distances[SIDE * SIDE];
    vram_distance distance = distance_of(distances);
    return TRY(vram_distance_on, w->context, 0, &distance);
}

/* ----------------------------------------------------------------------- labels */

static vram_status map_labels(void *user, const int32_t *labels, size_t count, int32_t *mapping,
                              size_t room, size_t *mapped) {
    (void)user;
    *mapped = count < room ? count : room;
    for (size_t i = 0; i < *mapped; i++) {
        mapping[i] = labels[i];
    }
    return VRAM_OK;
}

CALL_WITH(vram_labels_create, CONTEXT, 0, PLAIN(vram_labels_options), &w->made.labels);
CALL_WITH(vram_labels_destroy, LABELS, 0, OR_NULL(w->labels));

CALL(vram_labels_get, LABELS, 0) {
    const int32_t labels[] = {1, 2, 3};
    int32_t mapping[3];
    size_t mapped;
    return TRY(vram_labels_get, w->labels, labels, FIXED(3), map_labels, NULL, mapping, FIXED(3),
               &mapped);
}

CALL_WITH(vram_labels_clear, LABELS, 0, w->labels, OR_NULL(OUT(uint64_t)));
CALL_WITH(vram_labels_info_get, LABELS, 0, w->labels, TOLD(vram_labels_info));

/* ----------------------------------------------------------------------- models */

CALL(vram_inference_estimate, CONTEXT, 0) {
    (void)w;
    vram_inference_shape shape = {.size = sizeof shape, .layers = 2, .hidden = 64, .heads = 4};
    vram_inference_memory memory = {.size = sizeof memory};
    vram_status status = TRY(vram_inference_estimate, &shape, &memory);
    return status == VRAM_ERR_INVALID ? VRAM_OK : status;
}
