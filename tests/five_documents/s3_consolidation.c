/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_consolidation.c: the code of document S3: what three managers had, in one: tracking, growth,
 * and transfers that overlap other work. Its blocks are lists of types; here each shows what such a
 * type is for. The last three cases are not blocks but its comparison and its first two principles.
 */
#include "sample.h"

#include <pthread.h>
#include <vram/compat.h>

static bool append(void *user, const char *text, size_t bytes) {
    char *report = user;
    size_t used = strlen(report);
    if (used + bytes < 4096) {
        memcpy(report + used, text, bytes);
        report[used + bytes] = '\0';
    }
    return true;
}

static vram_pool *tracked_pool(struct sample_world *world) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_TRACKED};
    vram_pool *pool;
    must(vram_pool_create(world->device, &options, &pool));
    return pool;
}

/* Dense labels for those with gaps: 3, 17, 3, 40 become 0, 1, 0, 2. */
static vram_status compact(void *user, const int32_t *labels, size_t count, int32_t *mapping,
                           size_t room, size_t *mapped) {
    int *computed = user;
    int32_t dense = 0;
    hold(count <= room);
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        while (labels[first] != labels[i]) {
            first++;
        }
        mapping[i] = first < i ? mapping[first] : dense++;
    }
    *mapped = count;
    (*computed)++;
    return VRAM_OK;
}

static void memory_tracking(struct sample_world *world) {
    /* ManagedDeviceBuffer<T>: a wrapper with tracking. GPUMemoryTracker: what was never
       destroyed. */
    VRAM_AUTO(vram_pool) *pool = tracked_pool(world);
    vram_buffer_options named = {.size = sizeof named, .name = "node_positions"};
    vram_live_query all = {.size = sizeof all, .pool = pool};
    vram_leak_summary leaks = {.size = sizeof leaks};
    static char report[4096];
    vram_buffer *forgotten;
    report[0] = '\0';
    {
        VRAM_AUTO(vram_buffer) *managed = NULL;
        must(vram_buffer_create(pool, 4096, world->queue, NULL, &managed));
    }
    must(vram_buffer_create(pool, 1 * MIB, world->queue, &named, &forgotten));
    must(vram_leaks_write(&all, VRAM_REPORT_TEXT, append, report, &leaks));
    hold(leaks.blocks == 1 && leaks.bytes == 1 * MIB && strstr(report, "node_positions"));
    must(vram_buffer_destroy(forgotten));
    must(vram_leaks_write(&all, VRAM_REPORT_TEXT, append, report, &leaks));
    hold(leaks.blocks == 0);

    /* MultiStreamManager: three non-blocking streams, in turn. */
    vram_stream_set *streams;
    vram_queue *turn[4];
    must(vram_stream_set_create(world->device, NULL, &streams));
    for (int i = 0; i < 4; i++) {
        must(vram_stream_set_next(streams, &turn[i]));
    }
    hold(turn[0] != turn[1] && turn[1] != turn[2] && turn[2] != turn[0] && turn[3] == turn[0]);
    must(vram_stream_set_wait(streams, WAIT));
    vram_stream_set_destroy(streams);

    /* LabelMappingCache: computed once. */
    static const int32_t labels[] = {3, 17, 3, 40};
    vram_labels_info info = {.size = sizeof info};
    vram_labels *cache;
    int32_t mapping[4];
    size_t mapped;
    int computed = 0;
    must(vram_labels_create(NULL, &cache));
    for (int i = 0; i < 2; i++) {
        memset(mapping, 0xFF, sizeof mapping);
        must(vram_labels_get(cache, labels, 4, compact, &computed, mapping, 4, &mapped));
        hold(mapped == 4 && mapping[1] == 1 && mapping[2] == 0 && mapping[3] == 2);
    }
    must(vram_labels_info_get(cache, &info));
    hold(computed == 1 && info.hits == 1 && info.misses == 1 && info.hit_rate == 0.5);
    must(vram_labels_destroy(cache));
}

static void dynamic_allocation(struct sample_world *world) {
    /* BufferConfig: a growth strategy for each type of buffer. */
    vram_named_config config = {.size = sizeof config};
    must(vram_named_config_preset("positions", &config));
    hold(config.growth.factor_ppm == 1300000 && config.growth.element_bytes == 12);

    /* DynamicBufferManager, with the limit of the document; DynamicGpuBuffer: contents stay. */
    vram_named_options options = {.size = sizeof options, .limit_bytes = VRAM_NAMED_LIMIT_PRESET};
    VRAM_AUTO(vram_named) *manager = NULL;
    vram_buffer *positions;
    float before[300], after[300] = {0};
    sample_numbers(before, COUNT(before), 5);
    must(vram_named_create(world->pool, world->queue, &options, &manager));
    must(vram_named_add(manager, "positions", 100, &config, &positions));
    must(vram_span_upload(world->queue, (vram_span){positions, 0, sizeof before}, before));
    must(vram_named_ensure(manager, "positions", 100000, &positions)); /* old and new may coexist */
    must(vram_span_download(world->queue, after, (vram_span){positions, 0, sizeof after}));
    must(vram_queue_wait(world->queue, WAIT));
    hold(memcmp(before, after, sizeof after) == 0);

    /* BufferStats: utilisation. */
    vram_named_info info = {.size = sizeof info};
    must(vram_named_info_get(manager, "positions", &info));
    hold(info.used_bytes == 1200000 && info.utilisation > 0.7 && info.utilisation <= 1);
    hold(info.resizes == 1);
}

enum { FRAMES = 8, FRAME_BYTES = 4096 };

/* transfer_stream, transfer_events, host_pos_buffer_a and _b, current_pos_buffer: a readback has
   them all, and its slots are page-locked, so that the copies are asynchronous as in the
   document. */
static void async_transfers(struct sample_world *world) {
    vram_readback_options options = {
        .size = sizeof options, .slots = 2, .policy = VRAM_READBACK_EVERY};
    vram_readback *readback;
    vram_addr positions;
    uint32_t slots = 0;
    must(vram_readback_create(world->device, &options, &readback));
    must(vram_alloc(world->pool, FRAME_BYTES, world->queue, &positions));
    for (uint32_t step = 1; step <= FRAMES + 1; step++) {
        if (step <= FRAMES) { /* into one host buffer, */
            must(vram_queue_fill(world->queue, positions, step, 1, FRAME_BYTES)); /* simulate */
            must(vram_readback_start(readback, world->queue, positions, FRAME_BYTES, NULL));
        }
        if (step > 1) { /* while the host reads the other */
            vram_point event;
            vram_frame frame;
            must(vram_readback_next(readback, WAIT, &frame));
            must(vram_readback_point(readback, frame.number, &event));
            hold(vram_point_poll(event) == VRAM_OK && frame.number == step - 1);
            for (uint32_t i = 0; i < FRAME_BYTES; i++) {
                hold(((const unsigned char *)frame.data)[i] == step - 1);
            }
            slots |= 1U << frame.slot;
            must(vram_readback_release(readback, frame.number));
        }
    }
    vram_readback_stats stats = {.size = sizeof stats};
    must(vram_readback_stats_get(readback, &stats));
    hold(stats.arrived == FRAMES && stats.dropped == 0 && slots == 3); /* a and b in turn */
    vram_readback_destroy(readback);
    must(vram_free(positions, world->queue));
}

static vram_error_answer on_error(void *user, const vram_error_event *event) {
    int *errors = user;
    (void)event;
    (*errors)++;
    return VRAM_ERROR_FAIL;
}

/* GpuMemoryManager and GpuBuffer, field by field. */
static void proposed_structure(struct sample_world *world) {
    VRAM_AUTO(vram_pool) *pool = tracked_pool(world);
    VRAM_AUTO(vram_named) *manager = NULL;
    vram_named_config config = {.size = sizeof config};
    vram_buffer *edges;
    must(vram_named_create(pool, world->queue, NULL, &manager));

    /* buffers and configs, by name. */
    must(vram_named_config_preset("edges", &config));
    must(vram_named_config_set(manager, "edges", &config));
    must(vram_named_add(manager, "edges", 1000, NULL, &edges));

    /* allocations, total_allocated, peak_allocated. */
    vram_live_block live = {.size = sizeof live};
    must(vram_live_get(sample_info(edges).addr, &live));
    hold(live.requested_bytes >= 32000 && strcmp(live.name, "edges") == 0);
    hold(sample_stats(pool).requested_bytes == live.requested_bytes);
    hold(sample_stats(pool).peak_requested_bytes >= live.requested_bytes);

    /* transfer_stream, transfer_events. */
    vram_stream_set *streams;
    vram_queue *transfer;
    vram_point events[2];
    must(vram_stream_set_create(world->device, NULL, &streams));
    must(vram_stream_set_transfer(streams, &transfer));
    for (int i = 0; i < 2; i++) {
        must(vram_queue_fill(transfer, sample_info(edges).addr, 7, 1, 32000));
        must(vram_queue_mark(transfer, &events[i]));
    }
    must(vram_queue_after(world->queue, events[1]));
    must(vram_point_wait(events[1], WAIT));
    must(vram_point_poll(events[0]));
    vram_stream_set_destroy(streams);

    /* error_handler, max_total_memory, performance_metrics. */
    vram_limits most = {.size = sizeof most, .hard_bytes = 8 * MIB};
    vram_transfer_stats metrics = {.size = sizeof metrics};
    vram_addr addr;
    int errors = 0;
    must(vram_error_handler_set(world->context, on_error, &errors));
    must(vram_pool_limits_set(pool, &most));
    hold(vram_alloc(pool, 16 * MIB, world->queue, &addr) == VRAM_ERR_LIMIT && errors == 1);
    must(vram_error_handler_set(world->context, NULL, NULL));
    must(vram_transfer_stats_get(world->device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY, &metrics));

    /* GpuBuffer: ptr, capacity_bytes, used_bytes, name; allocation_time, last_access. */
    vram_buffer_info info = sample_info(edges);
    hold(info.addr && info.capacity_bytes >= info.used_bytes && info.used_bytes == 32000);
    hold(strcmp(info.name, "edges") == 0 && info.accessed_ns >= info.created_ns);

    /* config. */
    vram_growth_info growth = {.size = sizeof growth};
    must(vram_buffer_growth_get(edges, &growth));
    hold(growth.growth.factor_ppm == 2000000 && growth.growth.max_bytes == 2 * GIB);

    /* host_buffer_a, host_buffer_b, current_buffer, transfer_pending. */
    vram_readback *readback;
    vram_frame frame;
    uint64_t number;
    must(vram_readback_create(world->device, NULL, &readback));
    must(vram_readback_start_spans(readback, world->queue, &(vram_span){edges, 0, 32000}, 1,
                                   &number));
    vram_status pending = vram_readback_poll(readback, number);
    hold(pending == VRAM_OK || pending == VRAM_ERR_NOT_READY);
    must(vram_readback_wait(readback, number, WAIT));
    must(vram_readback_latest(readback, &frame));
    hold(((const char *)frame.data)[31999] == 7);
    must(vram_readback_release(readback, frame.number));
    vram_readback_destroy(readback);
}

enum { THREADS = 4, ROUNDS = 100 };

static void *grow_by_turns(void *user) {
    vram_named *manager = user;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (vram_named_ensure(manager, "nodes", i * 100, NULL) != VRAM_OK) {
            return user;
        }
    }
    return NULL;
}

/* The ten rows of the comparison, on one manager. Two rows of the last column cannot be shown by a
   program: that the API is clean (this file includes nothing but public headers), and that tests
   reach the lines (make coverage). */
static void comparison(struct sample_world *world) {
    VRAM_AUTO(vram_pool) *pool = tracked_pool(world);
    vram_named_options options = {.size = sizeof options, .limit_bytes = 4 * MIB};
    vram_live_query all = {.size = sizeof all, .pool = pool};
    vram_leak_summary leaks = {.size = sizeof leaks};
    vram_named_stats stats = {.size = sizeof stats};
    vram_named *manager;
    vram_buffer *nodes;
    vram_async async;
    pthread_t threads[THREADS];
    void *failed;
    float sent[256], back[256];
    sample_numbers(sent, COUNT(sent), 9);
    must(vram_named_create(pool, world->queue, &options, &manager));
    must(vram_named_add(manager, "nodes", 4096, NULL, &nodes));
    must(vram_span_upload(world->queue, (vram_span){nodes, 0, sizeof sent}, sent));

    for (int i = 0; i < THREADS; i++) { /* dynamic resizing, thread safety */
        hold(pthread_create(&threads[i], NULL, grow_by_turns, manager) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        hold(pthread_join(threads[i], &failed) == 0 && !failed);
    }
    must(vram_transfer_download(world->queue, back, sample_info(nodes).addr, sizeof back, NULL,
                                &async)); /* async transfers */
    must(vram_async_wait(&async, WAIT));
    vram_async_end(&async);
    hold(memcmp(sent, back, sizeof back) == 0);

    hold(vram_named_ensure(manager, "nodes", 5 * MIB, NULL) == VRAM_ERR_LIMIT); /* memory limits */
    hold(strstr(vram_error_get()->text, "limit_bytes"));                        /* error handling */
    must(vram_named_stats_get(manager, &stats)); /* utilisation, metrics */
    hold(stats.used_bytes == ROUNDS * 100 && stats.used_bytes <= stats.total_bytes);
    hold(stats.resizes > 0 && stats.refusals == 1 && stats.peak_bytes <= 4 * MIB);

    static char report[4096];
    report[0] = '\0';
    must(vram_leaks_write(&all, VRAM_REPORT_TEXT, append, report, &leaks)); /* leak detection */
    hold(leaks.blocks == 1 && strstr(report, "nodes"));
    must(vram_named_destroy(manager));
    must(vram_leaks_write(&all, VRAM_REPORT_TEXT, append, report, &leaks));
    hold(leaks.blocks == 0);
}

/* One manager for all GPU memory: whichever call asked for it, every byte is in one account, and
   the driver's account agrees. */
static void single_source_of_truth(struct sample_world *world) {
    vram_memory_info driver = {.size = sizeof driver};
    vram_pool_stats device = {.size = sizeof device}, context = {.size = sizeof context};
    VRAM_AUTO(vram_named) *manager = NULL;
    VRAM_AUTO(vram_batch) *batch = NULL;
    VRAM_AUTO(vram_scope) *scope = NULL;
    VRAM_AUTO(vram_pool) *other = NULL;
    vram_batch_item item = {
        .size = sizeof item, .elements = 1000, .precision = VRAM_PRECISION_FP16};
    vram_batch_info held = {.size = sizeof held};
    vram_addr raw, scoped, outside;
    vram_buffer *weights;
    uint32_t first;
    must(vram_pool_create(world->device, NULL, &other));
    must(vram_named_create(world->pool, world->queue, NULL, &manager));
    must(vram_named_add(manager, "weights", 1 * MIB, NULL, &weights));
    must(vram_batch_create(other, world->queue, NULL, &batch));
    must(vram_batch_add(batch, &item, 1, &first));
    must(vram_scope_begin(other, NULL, &scope));
    must(vram_scope_alloc(scope, 5000, world->queue, &scoped));
    must(vram_alloc(world->pool, 3000, world->queue, &raw));
    must(vram_device_alloc(world->device, 1 * MIB, VRAM_MEMORY_DEVICE, &outside));

    must(vram_batch_info_get(batch, &held));
    vram_pool_stats one = sample_stats(world->pool), two = sample_stats(other);
    hold(one.requested_bytes == 1 * MIB + 3000 && two.requested_bytes == held.shared_bytes + 5000);
    must(vram_device_stats_get(world->device, &device));
    must(vram_context_stats_get(world->context, &context));
    must(vram_memory_info_get(world->device, &driver));
    hold(device.requested_bytes == one.requested_bytes + two.requested_bytes);
    hold(device.reserved_bytes >= one.reserved_bytes + two.reserved_bytes + 1 * MIB);
    hold(context.requested_bytes == device.requested_bytes);
    hold(context.reserved_bytes == device.reserved_bytes);
    hold(driver.held_bytes >= device.reserved_bytes);
    if (world->simulated) {
        vram_sim_state state = {.size = sizeof state};
        must(vram_sim_state_get(world->context, &state));
        hold(state.live_bytes == device.reserved_bytes);
    }
    must(vram_device_free(world->device, outside));
    must(vram_free(raw, world->queue));
}

/* The three strengths at once: a buffer that is tracked, grows, and is copied to the host
   meanwhile. */
static void best_of_breed(struct sample_world *world) {
    VRAM_AUTO(vram_pool) *pool = tracked_pool(world);
    vram_live_query all = {.size = sizeof all, .pool = pool};
    vram_live_stats live = {.size = sizeof live};
    vram_readback_options every = {.size = sizeof every, .policy = VRAM_READBACK_EVERY};
    vram_growth_info growth = {.size = sizeof growth};
    vram_growth policy = {.size = sizeof policy};
    vram_buffer_options options = {.size = sizeof options, .name = "state", .growth = &policy};
    vram_readback *readback;
    vram_buffer *state;
    must(vram_growth_preset("default", &policy));
    must(vram_buffer_create(pool, 4096, world->queue, &options, &state));
    must(vram_readback_create(world->device, &every, &readback));
    for (uint32_t step = 1; step <= FRAMES; step++) {
        uint64_t bytes = UINT64_C(4096) << step;
        vram_frame frame;
        must(vram_buffer_resize(state, bytes, world->queue));
        must(vram_queue_fill(world->queue, sample_info(state).addr, step, 1, bytes));
        must(vram_readback_start_spans(readback, world->queue, &(vram_span){state, 0, bytes}, 1,
                                       NULL));
        must(vram_readback_next(readback, WAIT, &frame));
        const unsigned char *data = frame.data;
        hold(frame.bytes == bytes && data[0] == step && data[bytes - 1] == step);
        must(vram_readback_release(readback, frame.number));
        must(vram_live_stats_get(&all, &live));
        hold(live.live_blocks == 1 && live.live_bytes >= bytes); /* the truth at every step */
    }
    must(vram_buffer_growth_get(state, &growth));
    hold(growth.in_place + growth.copies == FRAMES && growth.refusals == 0);
    vram_readback_destroy(readback);
    must(vram_buffer_destroy(state));
    must(vram_live_stats_get(&all, &live));
    hold(live.live_blocks == 0 && live.live_bytes == 0);
}

const struct sample s3_samples[] = {
    {"S3-01 S3-02 S3-03 S3-05 S3-06 S3-07", "Memory Tracking Focus", memory_tracking},
    {"S3-08 S3-09 S3-10 S3-11 S3-12 S3-13 S3-14 S3-15", "Dynamic Allocation Focus",
     dynamic_allocation},
    {"S3-16 S3-17 S3-18 S3-19 S3-20 S3-21", "Async Transfer Focus", async_transfers},
    {"S3-28 S3-29 S3-30 S3-31 S3-32 S3-33 S3-34 S3-35", "Proposed Structure", proposed_structure},
    {"S3-22", "Comparison Matrix", comparison},
    {"S3-23", "Single Source of Truth", single_source_of_truth},
    {"S3-24", "Best-of-Breed", best_of_breed},
    {0},
};
