/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s4_vectors.c: the code of document S4: buffers that are freed automatically, pressure, batches,
 * limits, and distances between vectors that clean up whatever happens.
 */
#include "sample.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <vram/compat.h>

static void raii_memory_management(struct sample_world *world) {
    vram_addr addr;
    {
        /* A managed buffer goes back to the pool at the end of the block. */
        VRAM_AUTO(vram_buffer) *buffer = NULL;
        must(vram_buffer_create_elements(world->pool, 1024, VRAM_PRECISION_FP32, world->queue, NULL,
                                         &buffer));
        addr = sample_info(buffer).addr;
        hold(sample_info(buffer).used_bytes == 4096); /* sizes are in elements */
        hold(sample_stats(world->pool).live_blocks == 1);
    } /* here */
    hold(sample_stats(world->pool).live_blocks == 0);

    VRAM_AUTO(vram_buffer) *again = NULL; /* and is used again */
    must(vram_buffer_create_elements(world->pool, 1024, VRAM_PRECISION_FP32, world->queue, NULL,
                                     &again));
    hold(sample_info(again).addr == addr);
}

/* A pool that may hold 16 MiB. As much of 15 MiB as asked for is live, and the rest is cached. Its
   automatic responses are off, so that the effect of the program's calls can be seen. */
static vram_pool *pressed_pool(struct sample_world *world, uint64_t live, vram_addr blocks[16]) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 16 * MIB};
    vram_response_options by_hand = {.size = sizeof by_hand, .off = 0xF};
    vram_pool_options options = {
        .size = sizeof options, .limits = &limits, .response = &by_hand, .slack_bytes = 16 * MIB};
    vram_pool *pool;
    must(vram_pool_create(world->device, &options, &pool));
    for (uint64_t i = 0; i < 15; i++) {
        must(vram_alloc(pool, 1 * MIB, world->queue, &blocks[i]));
    }
    for (uint64_t i = live; i < 15; i++) {
        must(vram_free(blocks[i], world->queue));
    }
    must(vram_queue_wait(world->queue, WAIT));
    return pool;
}

static void free_all(vram_queue *queue, uint64_t live, const vram_addr *blocks) {
    for (uint64_t i = 0; i < live; i++) {
        must(vram_free(blocks[i], queue));
    }
}

static void pressure_handling(struct sample_world *world) {
    vram_addr blocks[16];
    VRAM_AUTO(vram_pool) *pool = pressed_pool(world, 4, blocks);
    vram_pressure pressure = {.size = sizeof pressure};
    char text[60] = "";
    uint64_t released;

    /* 0.0 is no pressure, 1.0 at the limit; unknown stays unknown. */
    must(vram_pool_pressure_get(pool, &pressure));
    if (pressure.known && pressure.own > 0.8) {
        snprintf(text, sizeof text, "High memory pressure: %.1f%%", pressure.own * 100.0);
    }
    hold(strcmp(text, "High memory pressure: 100.0%") == 0 ||
         strcmp(text, "High memory pressure: 93.8%") == 0);

    /* Emergency cleanup if needed. What is live stays, and stays counted. */
    if (pressure.known && pressure.own > 0.9) {
        must(vram_device_trim(world->device, NULL, &released));
    }
    must(vram_pool_pressure_get(pool, &pressure));
    hold(released >= 10 * MIB && pressure.own < 0.5);
    hold(sample_stats(pool).requested_bytes == 4 * MIB);
    free_all(world->queue, 4, blocks);
}

static void batch_of_buffers(struct sample_world *world) {
    static const unsigned char fp32[256], fp16[128];
    VRAM_AUTO(vram_batch) *batch = NULL;
    vram_batch_item items[] = {
        {.size = sizeof items[0],
         .elements = 64,
         .precision = VRAM_PRECISION_FP32,
         .host = fp32,
         .host_bytes = sizeof fp32},
        {.size = sizeof items[0],
         .elements = 64,
         .precision = VRAM_PRECISION_FP16,
         .host = fp16,
         .host_bytes = sizeof fp16},
    };
    uint32_t first;
    must(vram_batch_create(world->pool, world->queue, NULL, &batch));
    must(vram_batch_add(batch, &items[0], 1, &first));
    must(vram_batch_add(batch, &items[1], 1, &first));
    items[1].host_bytes = 100; /* not 64 halves: there it would be served later, too small */
    hold(vram_batch_add(batch, &items[1], 1, &first) == VRAM_ERR_INVALID);
    vram_batch_info info = {.size = sizeof info};
    must(vram_batch_info_get(batch, &info));
    hold(info.count == 2);
    must(vram_queue_wait(world->queue, WAIT)); /* what is uploaded stays until then */
} /* all buffers go with the batch */

static void pool_limits(struct sample_world *world) {
    /* Set the maximum (1 GB there; here what is quick to fill). */
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 32 * MIB};
    vram_pool_stats total = {.size = sizeof total};
    vram_addr block, refused;
    must(vram_device_limits_set(world->device, &limits));
    must(vram_alloc(world->pool, 20 * MIB, world->queue, &block));
    hold(vram_alloc(world->pool, 20 * MIB, world->queue, &refused) == VRAM_ERR_LIMIT);

    /* Monitor total memory usage across all devices. */
    must(vram_context_stats_get(world->context, &total));
    char text[100];
    snprintf(text, sizeof text, "Total allocated: %d bytes, Peak: %d bytes",
             (int)total.requested_bytes, (int)total.peak_requested_bytes);
    hold(strcmp(text, "Total allocated: 20971520 bytes, Peak: 20971520 bytes") == 0);
    must(vram_free(block, world->queue));
}

static void usage_monitoring(struct sample_world *world) {
    vram_pool_stats usage = {.size = sizeof usage};
    vram_device_info info = {.size = sizeof info};
    vram_addr block;
    must(vram_alloc(world->pool, 3 * MIB, world->queue, &block));
    must(vram_free(block, world->queue));
    must(vram_device_stats_get(world->device, &usage)); /* of one device: now and at its peak */
    hold(usage.requested_bytes == 0 && usage.peak_requested_bytes == 3 * MIB);
    hold(vram_device_info_get(world->context, 1000, &info) == VRAM_ERR_NO_DEVICE); /* None */
}

enum { DIM = 6, QUERIES = 3, VECTORS = 2000 };

static float queries[QUERIES * DIM], corpus[VECTORS * DIM], distances[QUERIES * VECTORS];

static vram_distance search_of(vram_precision precision) {
    sample_numbers(queries, COUNT(queries), 1);
    sample_numbers(corpus, COUNT(corpus), 2);
    return (vram_distance){.size = sizeof(vram_distance),
                           .queries = QUERIES,
                           .vectors = VECTORS,
                           .dim = DIM,
                           .query = queries,
                           .corpus = corpus,
                           .query_elements = COUNT(queries),
                           .corpus_elements = COUNT(corpus),
                           .precision = precision,
                           .distances = distances,
                           .distance_elements = COUNT(distances)};
}

/* The largest difference from the squared distances, as they are. */
static double off_by(void) {
    double most = 0;
    for (int q = 0; q < QUERIES; q++) {
        for (int v = 0; v < VECTORS; v++) {
            double sum = 0;
            for (int i = 0; i < DIM; i++) {
                double gap = (double)queries[q * DIM + i] - corpus[v * DIM + i];
                sum += gap * gap;
            }
            double off = sum - distances[q * VECTORS + v];
            most = off > most ? off : -off > most ? -off : most;
        }
    }
    return most;
}

/* There it computes the first 256 vectors at most; here all of them, in each precision. */
static void cleanup_on_errors(struct sample_world *world) {
    static const struct {
        vram_precision precision;
        double off;
    } precisions[] = {
        {VRAM_PRECISION_FP32, 1e-4}, {VRAM_PRECISION_FP16, 2e-2}, {VRAM_PRECISION_INT8, 2e-1}};
    for (size_t i = 0; i < COUNT(precisions); i++) {
        vram_distance search = search_of(precisions[i].precision);
        must(vram_distance_on(world->context, world->index, &search));
        hold(off_by() < precisions[i].off);
    }

    /* "GPU operation failed": nothing has to be cleaned up, which the end of this case checks. */
    vram_distance mismatched = search_of(VRAM_PRECISION_FP32);
    mismatched.corpus_elements--;
    hold(vram_distance_on(world->context, world->index, &mismatched) == VRAM_ERR_INVALID);
    hold(strstr(vram_error_get()->text, "11999") && strstr(vram_error_get()->text, "12000"));
    mismatched = search_of(VRAM_PRECISION_FP32);
    hold(vram_distance_on(world->context, 1000, &mismatched) == VRAM_ERR_NO_DEVICE);
}

/* What a match on the error does there. */
static const char *kind_of(vram_status status) {
    return status == VRAM_OK                  ? "ok"
           : status == VRAM_ERR_INVALID       ? "Invalid input"
           : vram_status_is_exhausted(status) ? "Memory allocation failed"
                                              : "Other GPU error";
}

static void error_types(struct sample_world *world) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 1 * MIB};
    vram_buffer *buffer = NULL;
    vram_addr addr;
    uint64_t released;
    hold(strcmp(kind_of(vram_buffer_create_elements(world->pool, 1, (vram_precision)99, NULL, NULL,
                                                    &buffer)),
                "Invalid input") == 0);
    hold(vram_error_get()->text[0] != '\0'); /* every error has its message */

    must(vram_pool_limits_set(world->pool, &limits));
    vram_status status = vram_alloc(world->pool, 64 * MIB, NULL, &addr);
    hold(strcmp(kind_of(status), "Memory allocation failed") == 0);
    must(vram_context_trim(world->context, NULL, &released)); /* of all devices */

    vram_pool_destroy(world->pool);
    hold(strcmp(kind_of(vram_alloc(world->pool, 64, NULL, &addr)), "Other GPU error") == 0);
    must(vram_pool_create(world->device, NULL, &world->pool));
}

static void managed_before_raw(struct sample_world *world) {
    {
        /* Preferred: automatic cleanup. */
        VRAM_AUTO(vram_scope) *scope = NULL;
        vram_buffer *buffer;
        must(vram_scope_begin(world->pool, NULL, &scope));
        must(vram_scope_buffer_create(scope, 4096, world->queue, NULL, &buffer));
    }
    hold(sample_stats(world->pool).live_blocks == 0);

    /* Avoid: manual cleanup, easy to forget. It needs no size and no precision, which could be
       wrong. */
    vram_buffer *raw_buffer;
    must(vram_get_buffer(world->pool, 1024, VRAM_PRECISION_FP32, &raw_buffer));
    hold(sample_stats(world->pool).live_blocks == 1);
    must(vram_return_buffer(raw_buffer));
}

struct seen {
    unsigned warnings, errors;
};

static void on_log(void *user, vram_log_level level, const char *text) {
    struct seen *seen = user;
    (void)text;
    seen->warnings += level == VRAM_LOG_WARN;
    seen->errors += level == VRAM_LOG_ERROR;
}

/* check_memory_health in one call: it looks, logs above 0.7 and above 0.9, and cleans up. */
static void monitor_pressure(struct sample_world *world) {
    vram_addr blocks[16];
    VRAM_AUTO(vram_pool) *pool = pressed_pool(world, 4, blocks);
    vram_health_info health = {.size = sizeof health};
    struct seen seen = {0};
    vram_log_set(on_log, &seen, VRAM_LOG_WARN);
    must(vram_health(world->device, NULL, &health));
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    hold(health.verdict == VRAM_HEALTH_EMERGENCY && health.cleaned && seen.errors == 1);
    hold(health.released_bytes >= 10 * MIB && sample_stats(pool).requested_bytes == 4 * MIB);
    free_all(world->queue, 4, blocks);
}

static void appropriate_limits(struct sample_world *world) {
    vram_memory_info stats = {.size = sizeof stats};
    must(vram_memory_info_get(world->device, &stats));
    vram_limits limits = {.size = sizeof limits,
                          .hard_bytes = stats.total_bytes.value / 100 * 70}; /* 70 % */
    vram_limits in_force = {.size = sizeof in_force};
    vram_addr addr;
    must(vram_device_limits_set(world->device, &limits));
    must(vram_device_limits_get(world->device, &in_force));
    hold(in_force.hard_bytes == limits.hard_bytes);
    hold(vram_alloc(world->pool, stats.total_bytes.value / 100 * 71, NULL, &addr) ==
         VRAM_ERR_LIMIT);

    limits = (vram_limits){.size = sizeof limits, .fraction = 0.7}; /* the same in one field */
    must(vram_device_limits_set(world->device, &limits));
    hold(vram_alloc(world->pool, stats.total_bytes.value / 100 * 71, NULL, &addr) ==
         VRAM_ERR_LIMIT);
}

static void batch_related(struct sample_world *world) {
    enum { CHUNKS = 5, SIZE = 300 };
    static float chunks[CHUNKS][SIZE];
    VRAM_AUTO(vram_batch) *batch = NULL;
    uint32_t index;
    must(vram_batch_create(world->pool, world->queue, NULL, &batch));
    vram_batch_item items[CHUNKS];
    for (uint32_t i = 0; i < CHUNKS; i++) {
        sample_numbers(chunks[i], SIZE, i);
        items[i] = (vram_batch_item){.size = sizeof items[0],
                                     .elements = SIZE,
                                     .precision = VRAM_PRECISION_FP32,
                                     .host = chunks[i],
                                     .host_bytes = sizeof chunks[i]};
    }
    must(vram_batch_add(batch, items, CHUNKS, &index)); /* all of them, or none */
    vram_batch_info info = {.size = sizeof info};
    must(vram_batch_info_get(batch, &info));
    hold(info.count == CHUNKS && info.blocks == 1); /* and they leave one hole, not five */
    for (uint32_t i = 0; i < CHUNKS; i++) {
        static float back[SIZE];
        vram_buffer *buffer;
        must(vram_batch_get(batch, index + i, &buffer));
        must(vram_span_download(world->queue, back, (vram_span){buffer, 0, sizeof back}));
        must(vram_queue_wait(world->queue, WAIT));
        hold(memcmp(back, chunks[i], sizeof back) == 0);
    }
    must(vram_batch_destroy(batch)); /* all buffers cleaned up together */
    hold(sample_stats(world->pool).live_blocks == 0);
}

/* robust_gpu_operation: cleanup, and another attempt. The pool does that itself: the sample is one
   call. */
static void error_recovery(struct sample_world *world) {
    vram_addr blocks[16], wanted;
    VRAM_AUTO(vram_pool) *hoarder = pressed_pool(world, 0, blocks); /* 15 MiB that nobody uses */
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 20 * MIB};
    must(vram_device_limits_set(world->device, &limits));
    must(vram_alloc(world->pool, 10 * MIB, world->queue, &wanted)); /* not without a cleanup */
    vram_pool_stats stats = sample_stats(world->pool);
    hold(stats.ladder_runs == 1 && stats.refusals == 0);
    hold(sample_stats(hoarder).reserved_bytes < 15 * MIB);
    must(vram_free(wanted, world->queue));

    /* What no cleanup helps is told once, and other errors are not tried again. */
    hold(vram_alloc(world->pool, 30 * MIB, world->queue, &wanted) == VRAM_ERR_LIMIT);
    uint64_t runs = sample_stats(world->pool).ladder_runs;
    hold(vram_free(12345, world->queue) == VRAM_ERR_INVALID);
    hold(sample_stats(world->pool).ladder_runs == runs);
}

const struct sample s4_samples[] = {
    {"S4-01 S4-02 S4-03 S4-04 S4-24", "RAII Memory Management", raii_memory_management},
    {"S4-05 S4-08", "Memory Pressure Handling", pressure_handling},
    {"S4-10 S4-11 S4-12", "Batch Operations", batch_of_buffers},
    {"S4-13 S4-14", "Setting Pool Limits", pool_limits},
    {"S4-15", "Memory Usage Monitoring", usage_monitoring},
    {"S4-16 S4-17", "Automatic Cleanup on Errors", cleanup_on_errors},
    {"S4-09 S4-18 S4-19", "Enhanced Error Types", error_types},
    {"S4-21 S4-29", "Use Managed Buffers", managed_before_raw},
    {"S4-06 S4-27", "Monitor Memory Pressure", monitor_pressure},
    {"S4-22", "Set Appropriate Pool Limits", appropriate_limits},
    {"S4-23", "Batch Related Operations", batch_related},
    {"S4-20", "Error Recovery", error_recovery},
    {0},
};
