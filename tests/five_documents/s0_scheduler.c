/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s0_scheduler.c: the code of document S0: buffers that products take from a pool, and results that
 * arrive later.
 */
#include "sample.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <vram/compat.h>

enum { M = 24, K = 32, N = 40, BATCHES = 4 };

static float a[M * K], b[K * N], c[M * N], a2[M * K], b2[K * N], c2[M * N];

/* A scheduler that uses the device for every product: these here are too small for its own rule. */
static vram_scheduler *scheduler_new(struct sample_world *world) {
    vram_scheduler_options options = {.size = sizeof options, .place = VRAM_PLACE_DEVICE};
    vram_scheduler *scheduler;
    must(vram_scheduler_create(world->pool, &options, &scheduler));
    sample_numbers(a, COUNT(a), 1);
    sample_numbers(b, COUNT(b), 2);
    sample_numbers(a2, COUNT(a2), 3);
    sample_numbers(b2, COUNT(b2), 4);
    memset(c, 0, sizeof c);
    memset(c2, 0, sizeof c2);
    return scheduler;
}

static vram_matmul product_of(const float *left, const float *right, float *result) {
    return (vram_matmul){
        .size = sizeof(vram_matmul), .m = M, .k = K, .n = N, .a = left, .b = right, .c = result};
}

static void matmul(vram_scheduler *scheduler, const float *left, const float *right,
                   float *result) {
    vram_matmul product = product_of(left, right, result);
    must(vram_matmul_run(scheduler, &product));
}

/* Row-major, M x K times K x N. */
static bool is_product(const float *left, const float *right, const float *result) {
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int p = 0; p < K; p++) {
                sum += (double)left[i * K + p] * right[p * N + j];
            }
            double off = sum - result[i * N + j];
            if (off > 1e-4 || off < -1e-4) {
                return false;
            }
        }
    }
    return true;
}

static vram_scheduler_stats scheduler_stats(vram_scheduler *scheduler) {
    vram_scheduler_stats stats = {.size = sizeof stats};
    must(vram_scheduler_stats_get(scheduler, &stats));
    return stats;
}

static void buffer_pooling(struct sample_world *world) {
    vram_scheduler *scheduler = scheduler_new(world);

    /* First call: takes memory for three buffers from the device. */
    matmul(scheduler, a, b, c);
    vram_scheduler_stats first = scheduler_stats(scheduler);

    /* Second call, other data: all three come from the pool, and no driver is asked. */
    matmul(scheduler, a2, b2, c2);
    vram_scheduler_stats second = scheduler_stats(scheduler);

    hold(is_product(a, b, c) && is_product(a2, b2, c2));
    hold(second.hits == first.hits + 3 && second.misses == first.misses);
    hold(second.pool_driver_allocs == first.pool_driver_allocs);
    must(vram_scheduler_destroy(scheduler));
}

static void pool_statistics(struct sample_world *world) {
    vram_scheduler *scheduler = scheduler_new(world);
    hold(scheduler_stats(scheduler).hit_rate == 0.0); /* of nothing at all: no division by zero */
    for (int i = 0; i < 4; i++) {
        matmul(scheduler, a, b, c);
    }
    vram_scheduler_stats stats = scheduler_stats(scheduler);
    char text[120];
    snprintf(text, sizeof text, "Hits: %d, misses: %d, hit rate: %.1f%%", (int)stats.hits,
             (int)stats.misses, stats.hit_rate * 100);
    hold(stats.hits + stats.misses == 12 && stats.hits >= 9);
    hold(strstr(text, stats.hits == 9    ? "hit rate: 75.0%"
                      : stats.hits == 10 ? "hit rate: 83.3%"
                                         : "hit rate: 91.7%"));
    must(vram_scheduler_destroy(scheduler));
}

/* The picture of the pool: what is in its three boxes, by the older names. */
static void buffer_pool_implementation(struct sample_world *world) {
    vram_buffer *buffer;
    vram_addr addr;
    must(vram_get_or_create(world->pool, 1024, &buffer)); /* nothing of that size: a miss */
    addr = sample_info(buffer).addr;
    hold(sample_stats(world->pool).hits == 0 && sample_stats(world->pool).misses == 1);
    hold(sample_info(buffer).used_bytes == 4096); /* elements are floats */

    must(vram_return_buffer(buffer));                     /* pushed back for reuse */
    must(vram_get_or_create(world->pool, 1024, &buffer)); /* popped: a hit */
    hold(sample_info(buffer).addr == addr && sample_stats(world->pool).hits == 1);
    must(vram_return_buffer(buffer));
}

/* The sample asks is_ready after wait: a handle stays readable until it is ended. */
static void async_operations(struct sample_world *world) {
    vram_scheduler *scheduler = scheduler_new(world);
    vram_matmul product = product_of(a, b, c);
    vram_async async;

    /* Start the computation without blocking, do other work, wait when it is needed. */
    must(vram_matmul_start(scheduler, &product, &async));
    uint64_t cpu_work = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        cpu_work += i;
    }
    must(vram_async_wait(&async, WAIT));
    hold(cpu_work == 499500 && is_product(a, b, c));

    /* Without blocking: ready, and what came of it. */
    uint64_t result;
    hold(vram_async_is_ready(&async));
    must(vram_async_result_get(&async, &result)); /* try_get */
    hold((float *)(uintptr_t)result == c);
    must(vram_async_poll(&async));
    must(vram_async_wait(&async, 0)); /* waiting twice is fine */
    vram_async_end(&async);
    must(vram_scheduler_destroy(scheduler));
}

static void held_up(const vram_kernel_call *call) {
    int *gate = *(int *const *)call->arguments[0];
    while (!__atomic_load_n(gate, __ATOMIC_ACQUIRE)) {
    }
}

/* The picture of the three states. A kernel that is held up is pending for certain. */
static void async_result_states(struct sample_world *world) {
    static int gate;
    int *gate_at = &gate;
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)held_up,
                                 .entry = "held_up"};
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 1,
                          .arguments = (const void *[]){&gate_at},
                          .argument_bytes = (size_t[]){sizeof gate_at}};
    vram_async async;
    vram_async_state state;
    vram_error error;
    vram_kernel *kernel;
    vram_point point;
    must(vram_kernel_create(world->device, &source, &kernel));
    __atomic_store_n(&gate, world->simulated, __ATOMIC_RELEASE); /* whose kernels run in a poll */
    must(vram_queue_launch(world->queue, kernel, &launch));
    must(vram_queue_mark(world->queue, &point));
    must(vram_async_of_point(point, "held_up", &async));
    vram_status asked = vram_async_state_get(&async, &state), polled = vram_async_poll(&async);
    __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
    must(asked);
    hold(world->simulated || (state == VRAM_ASYNC_PENDING && polled == VRAM_ERR_NOT_READY));
    must(vram_async_wait(&async, WAIT));
    must(vram_async_state_get(&async, &state));
    hold(state == VRAM_ASYNC_READY);
    vram_async_end(&async);
    vram_kernel_destroy(kernel);

    /* An error carries its text: here of a device whose memory is all spoken for. */
    vram_scheduler_options strict = {
        .size = sizeof strict, .place = VRAM_PLACE_DEVICE, .flags = VRAM_SCHEDULER_NO_FALLBACK};
    vram_limits none = {.size = sizeof none, .hard_bytes = 1};
    vram_scheduler *scheduler;
    vram_matmul product = product_of(a, b, c);
    must(vram_pool_limits_set(world->pool, &none));
    must(vram_scheduler_create(world->pool, &strict, &scheduler));
    must(vram_matmul_start(scheduler, &product, &async));
    hold(vram_status_is_exhausted(vram_async_wait(&async, WAIT)));
    must(vram_async_state_get(&async, &state));
    must(vram_async_error_get(&async, &error));
    hold(state == VRAM_ASYNC_ERROR && error.text[0] != '\0');
    vram_async_end(&async);
    must(vram_scheduler_destroy(scheduler));
}

/* The picture of the memory: A and B go up, C is made there, and the result comes down. */
static void memory_layout(struct sample_world *world) {
    vram_scheduler *scheduler = scheduler_new(world);
    VRAM_AUTO(vram_scope) *scope = NULL;
    vram_matmul product = {.size = sizeof product, .m = M, .k = K, .n = N, .queue = world->queue};
    must(vram_scope_begin(world->pool, NULL, &scope));
    must(vram_scope_alloc(scope, sizeof a, world->queue, &product.a_addr));
    must(vram_scope_alloc(scope, sizeof b, world->queue, &product.b_addr));
    must(vram_scope_alloc(scope, sizeof c, world->queue, &product.c_addr));
    must(vram_queue_upload(world->queue, product.a_addr, a, sizeof a));
    must(vram_queue_upload(world->queue, product.b_addr, b, sizeof b));
    must(vram_matmul_run(scheduler, &product));
    must(vram_queue_download(world->queue, c, product.c_addr, sizeof c));
    must(vram_queue_wait(world->queue, WAIT));
    hold(is_product(a, b, c));
    must(vram_scheduler_destroy(scheduler));
}

static void reuse_buffers(struct sample_world *world) {
    vram_scheduler *scheduler = scheduler_new(world);

    /* Good: one scheduler for the loop. From the second round on nothing is taken. */
    must(vram_matmul_warm_up(scheduler, M, K, N));
    uint64_t misses = scheduler_stats(scheduler).misses;
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        sample_numbers(a, COUNT(a), batch);
        matmul(scheduler, a, b, c);
        hold(is_product(a, b, c));
    }
    hold(scheduler_stats(scheduler).misses == misses);
    must(vram_scheduler_destroy(scheduler));

    /* Avoid: a scheduler for each. It works; the memory is the pool's, and it is reused all the
       same. */
    uint64_t reserved = sample_stats(world->pool).reserved_bytes;
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        scheduler = scheduler_new(world);
        matmul(scheduler, a, b, c);
        must(vram_scheduler_destroy(scheduler));
    }
    hold(sample_stats(world->pool).reserved_bytes == reserved);
}

static void batch_operations(struct sample_world *world) {
    static float inputs[BATCHES][M * K], together[BATCHES][M * N], single[BATCHES][M * N];
    vram_scheduler *scheduler = scheduler_new(world);
    vram_matmul ops[BATCHES];
    for (uint32_t i = 0; i < BATCHES; i++) {
        sample_numbers(inputs[i], M * K, i);
        ops[i] = product_of(inputs[i], b, together[i]);
    }

    /* Good: one call. The weights, which all have in common, are sent once. */
    must(vram_matmul_batch(scheduler, ops, BATCHES));
    hold(scheduler_stats(scheduler).shared_operands == BATCHES - 1);

    /* Less efficient: one by one. The results are the same, bit for bit and in the same order. */
    for (uint32_t i = 0; i < BATCHES; i++) {
        matmul(scheduler, inputs[i], b, single[i]);
        hold(is_product(inputs[i], b, together[i]));
    }
    hold(memcmp(together, single, sizeof single) == 0);
    must(vram_scheduler_destroy(scheduler));
}

static double postprocess(const float *result) {
    double sum = 0;
    for (int i = 0; i < M * N; i++) {
        sum += result[i];
    }
    return sum;
}

static void pipeline_parallelism(struct sample_world *world) {
    vram_scheduler *scheduler = scheduler_new(world);
    float *now = c, *previous = c2;
    double sums[BATCHES + 1] = {0};
    for (uint32_t batch = 0; batch <= BATCHES; batch++) {
        vram_matmul product = product_of(a, b, now);
        vram_async async;
        must(vram_matmul_start(scheduler, &product, &async)); /* this one on the device, */
        sums[batch] = postprocess(previous);                  /* that one on the CPU */
        must(vram_async_wait(&async, WAIT));
        vram_async_end(&async);
        float *taken = now;
        now = previous;
        previous = taken;
    }
    hold(is_product(a, b, c) && is_product(a, b, c2));
    hold(sums[0] == 0 && sums[1] != 0 && sums[1] == sums[BATCHES]);
    must(vram_scheduler_destroy(scheduler));
}

const struct sample s0_samples[] = {
    {"S0-02 S0-04 S0-10", "Buffer Pooling", buffer_pooling},
    {"S0-06 S0-13 S0-14", "Pool Statistics", pool_statistics},
    {"S0-01 S0-05 S0-08 S0-15 S0-16", "Buffer Pool Implementation", buffer_pool_implementation},
    {"S0-11 S0-17 S0-18 S0-19 S0-20", "Async GPU Operations", async_operations},
    {"S0-01 S0-07", "Async Result States", async_result_states},
    {"S0-22 S0-23", "Memory Layout", memory_layout},
    {"S0-09 S0-24", "Reuse Buffers for Repeated Operations", reuse_buffers},
    {"S0-12 S0-25", "Batch Operations When Possible", batch_operations},
    {"S0-26", "Use Async for Pipeline Parallelism", pipeline_parallelism},
    {0},
};
