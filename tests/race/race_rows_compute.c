/* SPDX-License-Identifier: Apache-2.0 */
/* race_rows_compute.c: rings, schedulers, weights and caches of labels beside the ends of what they
   belong to. */
#include "race/race_table.h"

#define SHORT UINT64_C(300000) /* ns that a call waits for a kernel that does not run */

/* ------------------------------------------------------------------------ rings */

static const unsigned char message[4096];

ROW(vram_ring_create, POOL, ROW_USES_QUEUE) {
    vram_ring_options options = {.size = sizeof options,
                                 .strategy = VRAM_RING_DMA_POLLING,
                                 .input_capacity = 8,
                                 .output_capacity = 8,
                                 .queue = w->queue};
    return vram_ring_create(w->pool, &options, &w->made.ring);
}

ROW(vram_ring_destroy, RING, 0) {
    return vram_ring_destroy(w->ring);
}

ROW(vram_ring_send, RING, 0) {
    return vram_ring_send(w->ring, message, sizeof message, 0, 0);
}

/* The ring is full and stays so. */
ROW_AS(vram_ring_send, _full, RING, ROW_UNTIL_END) {
    vram_status status = VRAM_OK;
    for (int i = 0; i < 20 && status == VRAM_OK; i++) {
        status = vram_ring_send(w->ring, message, 16, 0, VRAM_TIMEOUT_DEFAULT);
    }
    return status;
}

ROW(vram_ring_send_many, RING, 0) {
    vram_ring_message messages[4] = {{message, 4096, 0}, {message, 1, 0}, {message, 2, 0}, {0}};
    uint64_t sent;
    return vram_ring_send_many(w->ring, messages, 4, 0, &sent);
}

ROW(vram_ring_receive, RING, ROW_NOT_READY) {
    unsigned char data[4096];
    return vram_ring_receive(w->ring, data, sizeof data, 0, NULL);
}

ROW_AS(vram_ring_receive, _empty, RING, ROW_UNTIL_END) {
    unsigned char data[4096];
    return vram_ring_receive(w->ring, data, sizeof data, VRAM_TIMEOUT_DEFAULT, NULL);
}

ROW(vram_ring_flush, RING, 0) {
    uint64_t messages;
    vram_status status = vram_ring_send(w->ring, message, 100, 0, 0);
    return status ? status : vram_ring_flush(w->ring, &messages, &w->made.async);
}

ROW(vram_ring_fetch, RING, 0) {
    uint64_t messages;
    return vram_ring_fetch(w->ring, &messages, &w->made.async);
}

ROW(vram_ring_stop, RING, 0) {
    return vram_ring_stop(w->ring);
}

ROW(vram_ring_drain, RING, ROW_TIMEOUT) {
    vram_status status = vram_ring_send(w->ring, message, 100, 0, 0);
    return status ? status : vram_ring_drain(w->ring, SHORT);
}

ROW_AS(vram_ring_drain, _long, RING, ROW_UNTIL_END) {
    vram_status status = vram_ring_send(w->ring, message, 100, 0, 0);
    return status ? status : vram_ring_drain(w->ring, VRAM_TIMEOUT_DEFAULT);
}

ROW(vram_ring_join, RING, ROW_TIMEOUT) {
    return vram_ring_join(w->ring, SHORT);
}

ROW_AS(vram_ring_join, _long, RING, ROW_UNTIL_END) {
    return vram_ring_join(w->ring, VRAM_TIMEOUT_DEFAULT);
}

ROW(vram_ring_info_get, RING, 0) {
    LOOK(vram_ring_info, vram_ring_info_get(w->ring, &info));
}

ROW(vram_ring_stats_get, RING, 0) {
    LOOK(vram_ring_stats, vram_ring_stats_get(w->ring, &info));
}

ROW(vram_ring_telemetry_get, RING, 0) {
    vram_ring_telemetry telemetry = {0};
    return vram_ring_telemetry_get(w->ring, &telemetry);
}

ROW(vram_ring_check, RING, 0) {
    return vram_ring_check(w->ring);
}

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

ROW(vram_scheduler_create, POOL, 0) {
    return vram_scheduler_create(w->pool, NULL, &w->made.scheduler);
}

ROW(vram_scheduler_destroy, SCHEDULER, 0) {
    return vram_scheduler_destroy(w->scheduler);
}

ROW(vram_scheduler_calibrate, SCHEDULER, ROW_SLOW) {
    return vram_scheduler_calibrate(w->scheduler, NULL);
}

ROW(vram_weights_create, SCHEDULER, 0) {
    vram_weights_options options = {.size = sizeof options, .k = SIDE, .n = SIDE, .b = operand};
    return vram_weights_create(w->scheduler, &options, &w->made.weights);
}

ROW(vram_weights_destroy, WEIGHTS, 0) {
    return vram_weights_destroy(w->weights);
}

ROW(vram_matmul_run, SCHEDULER, 0) {
    float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    return vram_matmul_run(w->scheduler, &product);
}

ROW_AS(vram_matmul_run, _weights, WEIGHTS, 0) {
    float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    return vram_matmul_run(w->scheduler, &product);
}

/* An operand on the device, on a queue of the program's. */
ROW_AS(vram_matmul_run, _queue, SCHEDULER, ROW_USES_QUEUE | ROW_USES_BLOCK | ROW_INVALID) {
    float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    product.a = NULL;
    product.a_addr = w->block;
    product.queue = w->queue;
    return vram_matmul_run(w->scheduler, &product);
}

ROW(vram_matmul_start, SCHEDULER, 0) {
    static float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    vram_status status = vram_matmul_start(w->scheduler, &product, &w->made.async);
    return status ? status : vram_async_wait(&w->made.async, VRAM_TIMEOUT_DEFAULT);
}

ROW(vram_matmul_batch, SCHEDULER, 0) {
    float c[2][SIDE * SIDE];
    vram_matmul products[2] = {product_of(w, c[0]), product_of(w, c[1])};
    return vram_matmul_batch(w->scheduler, products, 2);
}

ROW(vram_matmul_plan_get, SCHEDULER, 0) {
    float c[SIDE * SIDE];
    vram_matmul product = product_of(w, c);
    vram_matmul_plan plan = {.size = sizeof plan};
    return vram_matmul_plan_get(w->scheduler, &product, &plan);
}

ROW(vram_matmul_warm_up, SCHEDULER, 0) {
    return vram_matmul_warm_up(w->scheduler, SIDE, SIDE, SIDE);
}

ROW(vram_scheduler_stats_get, SCHEDULER, 0) {
    LOOK(vram_scheduler_stats, vram_scheduler_stats_get(w->scheduler, &info));
}

static vram_distance distance_of(float *distances) {
    return (vram_distance){.size = sizeof(vram_distance),
                           .queries = SIDE,
                           .vectors = SIDE,
                           .dim = SIDE,
                           .query = operand,
                           .corpus = operand,
                           .distances = distances};
}

ROW(vram_distance_run, SCHEDULER, 0) {
    float distances[SIDE * SIDE];
    vram_distance distance = distance_of(distances);
    return vram_distance_run(w->scheduler, &distance);
}

ROW(vram_distance_split, SCHEDULER, 0) {
    float distances[SIDE * SIDE];
    vram_distance distance = distance_of(distances);
    vram_scheduler *const schedulers[] = {w->scheduler, w->scheduler};
    return vram_distance_split(schedulers, 2, &distance);
}

ROW(vram_distance_on, CONTEXT, ROW_WALKS) {
    float distances[SIDE * SIDE];
    vram_distance distance = distance_of(distances);
    return vram_distance_on(w->context, 0, &distance);
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

ROW(vram_labels_destroy, LABELS, 0) {
    return vram_labels_destroy(w->labels);
}

ROW(vram_labels_get, LABELS, 0) {
    const int32_t labels[] = {1, 2, 3};
    int32_t mapping[3];
    size_t mapped;
    return vram_labels_get(w->labels, labels, 3, map_labels, NULL, mapping, 3, &mapped);
}

ROW(vram_labels_clear, LABELS, 0) {
    uint64_t bytes;
    return vram_labels_clear(w->labels, &bytes);
}

ROW(vram_labels_info_get, LABELS, 0) {
    LOOK(vram_labels_info, vram_labels_info_get(w->labels, &info));
}
