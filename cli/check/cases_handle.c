/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_handle.c: handles that are none. Every call that takes a handle is tried with NULL,
 * destroyed ones, made-up numbers and handles of another kind; all other arguments are good.
 */
#include "case.h"

#include <vram/extension.h>
#include <vram/model.h>

/* The status that a battery wants; VRAM_OK: VRAM_ERR_INVALID or VRAM_ERR_STALE, either. */
static bool refuses(struct check *check, vram_status status, vram_status want,
                    struct check_place place) {
    return want == VRAM_OK ? check_refused(check, status, place)
                           : check_status(check, status, want, place);
}
#define REFUSES(call) CHECK_TRY(refuses(check, call, want, CHECK_AT(#call)))

static bool take_text(void *user, const char *text, size_t bytes) {
    return (void)user, (void)text, (void)bytes, true;
}

static void ignore(void *user, const vram_pressure_event *event) {
    (void)user, (void)event;
}

/* ---------------------------------------------------------------- batteries */

static bool as_context(struct check *check, void *bad, vram_status want) {
    vram_context *context = bad;
    vram_device *device;
    vram_monitor *monitor;
    vram_trace *trace;
    uint64_t bytes;
    uint32_t index;
    vram_backend_info backend = {.size = sizeof backend};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_peaks peaks = {.size = sizeof peaks};
    vram_device_info info = {.size = sizeof info};
    vram_model_select_options model = {.size = sizeof model, .bytes = 1};
    vram_model_place place = {.size = sizeof place};
    REFUSES(vram_backend_info_get(context, 0, &backend));
    REFUSES(vram_device_info_get(context, 0, &info));
    REFUSES(vram_device_best(context, &index));
    REFUSES(vram_device_select(context, NULL, &index));
    REFUSES(vram_model_select(context, &model, &place));
    REFUSES(vram_device_open(context, 0, &device));
    REFUSES(vram_sim_fault_set(context, NULL));
    REFUSES(vram_sim_state_get(context, &(vram_sim_state){.size = sizeof(vram_sim_state)}));
    REFUSES(vram_sim_journal_get(context, 0, &(vram_sim_entry){0}));
    REFUSES(vram_sim_violation(context, 0, (char[8]){0}, 8));
    REFUSES(vram_sim_clock_advance(context, 1));
    REFUSES(vram_sim_others_set(context, 0, 0));
    REFUSES(vram_error_handler_set(context, NULL, NULL));
    REFUSES(vram_context_trim(context, NULL, &bytes));
    REFUSES(vram_context_stats_get(context, &stats));
    REFUSES(vram_context_stats_write(context, VRAM_REPORT_JSON, take_text, NULL));
    REFUSES(vram_metrics_write(context, take_text, NULL));
    REFUSES(vram_metrics_write_as(context, VRAM_METRICS_PROMETHEUS, take_text, NULL));
    REFUSES(vram_context_peaks_begin(context));
    REFUSES(vram_context_peaks_end(context, &peaks));
    REFUSES(vram_context_peaks_reset(context));
    REFUSES(vram_monitor_begin(context, NULL, &monitor));
    REFUSES(vram_trace_begin(context, NULL, &trace));
    CHECK_EQUAL(check, vram_device_count(context), 0);
    CHECK_EQUAL(check, vram_backend_count(context), 0);
    return true;
}

static uint64_t lets_go_of_nothing(void *user, const vram_oom_event *event) {
    (void)user, (void)event;
    return 0;
}

static bool as_device(struct check *check, void *bad, vram_status want) {
    vram_device *device = bad;
    vram_addr addr;
    vram_queue *queue;
    vram_physical *physical;
    vram_kernel *kernel;
    vram_pool *pool;
    vram_device_info info = {.size = sizeof info};
    vram_memory_info memory = {.size = sizeof memory};
    vram_limits limits = {.size = sizeof limits};
    vram_pressure pressure = {.size = sizeof pressure};
    vram_watch_options watched = {.size = sizeof watched, .call = ignore};
    vram_watch *watch;
    vram_health_info health = {.size = sizeof health};
    uint64_t bytes;
    vram_tag_info tag = {.size = sizeof tag};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_peaks peaks = {.size = sizeof peaks};
    vram_transfer_stats transfers = {.size = sizeof transfers};
    vram_kernel_source source = {.size = sizeof source, .code = &source, .entry = "none"};
    vram_foreign_info foreign = {.size = sizeof foreign};
    vram_foreign_totals totals = {.size = sizeof totals};
    vram_pinned_info pinned = {.size = sizeof pinned};
    uint64_t id = 0;
    REFUSES(vram_async_poll_all(device, NULL));
    REFUSES(vram_async_begin(device, "none", 0, &(vram_async){{0}}, &(vram_async_work *){NULL}));
    REFUSES(vram_memory_check(device, 4096, 1));
    REFUSES(vram_host_free_later(device, &id));
    REFUSES(vram_pinned_begin(device, &id, sizeof id));
    REFUSES(vram_pinned_end(device, &id, sizeof id));
    REFUSES(vram_pinned_forget(device, &id, sizeof id));
    REFUSES(vram_pinned_info_get(device, &pinned));
    REFUSES(vram_device_trim(device, CHECK_TRIM(.flags = VRAM_TRIM_PINNED), &bytes));
    REFUSES(vram_device_describe(device, &info));
    REFUSES(vram_memory_info_get(device, &memory));
    REFUSES(vram_device_alloc(device, 1, VRAM_MEMORY_DEVICE, &addr));
    REFUSES(vram_device_free(device, 4096));
    REFUSES(vram_device_advise(device, 4096, 1, VRAM_ADVICE_NONE, VRAM_TARGET_OWN));
    REFUSES(vram_queue_create(device, NULL, &queue));
    REFUSES(vram_queue_adopt(device, NULL, &queue));
    REFUSES(vram_queue_shared(device, NULL, &queue));
    REFUSES(vram_range_create(device, 1, &addr));
    REFUSES(vram_range_destroy(device, 4096));
    REFUSES(vram_physical_create(device, 1, &physical));
    REFUSES(vram_range_map(device, 4096, &physical, 1));
    REFUSES(vram_range_unmap(device, 4096, 4096));
    REFUSES(vram_kernel_create(device, &source, &kernel));
    REFUSES(vram_device_peer_enable(device, device));
    REFUSES(vram_pool_create(device, NULL, &pool));
    REFUSES(vram_pool_shared(device, &pool));
    REFUSES(vram_provider_get(device, VRAM_MEMORY_DEVICE,
                              &(vram_provider){.size = sizeof(vram_provider)}));
    REFUSES(vram_device_limits_set(device, &limits));
    REFUSES(vram_device_limits_get(device, &limits));
    REFUSES(vram_oom_callback_add(device, lets_go_of_nothing, NULL, &id));
    REFUSES(vram_oom_callback_remove(device, 1));
    REFUSES(vram_device_pressure_get(device, &pressure));
    REFUSES(vram_device_watch_begin(device, &watched, &watch));
    REFUSES(vram_device_trim(device, NULL, &bytes));
    REFUSES(vram_health(device, NULL, &health));
    REFUSES(vram_tag_quota_set(device, "tag", 1, 2));
    REFUSES(vram_tag_handler_set(device, NULL, NULL));
    REFUSES(vram_tag_info_get(device, "tag", &tag));
    REFUSES(vram_tag_info_at(device, 0, &tag));
    REFUSES(vram_tag_stats_get(device, "tag", &stats));
    REFUSES(vram_device_stats_get(device, &stats));
    REFUSES(vram_device_stats_write(device, VRAM_REPORT_JSON, take_text, NULL));
    REFUSES(vram_transfer_stats_get(device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY, &transfers));
    REFUSES(vram_transfer_stats_write(device, VRAM_REPORT_JSON, take_text, NULL));
    REFUSES(vram_device_peaks_begin(device));
    REFUSES(vram_device_peaks_end(device, &peaks));
    REFUSES(vram_device_peaks_reset(device));
    REFUSES(vram_foreign_track(device, 1, NULL, &id));
    REFUSES(vram_foreign_untrack(device, 1));
    REFUSES(vram_foreign_info_get(device, 1, &foreign));
    REFUSES(vram_foreign_info_after(device, 0, &foreign));
    REFUSES(vram_foreign_totals_get(device, &totals));
    CHECK_THAT(check, vram_tag_count(device) == 0);
    return true;
}

static vram_status submits_nothing(void *user, void *native) {
    (void)user, (void)native;
    return VRAM_OK;
}

static bool as_queue(struct check *check, void *bad, vram_status want) {
    vram_queue *queue = bad;
    const vram_copy_2d rectangle = {0};
    vram_point point, none = {NULL, 0};
    void *native;
    vram_queue *region;
    char byte = 0;

    REFUSES(vram_queue_submit(queue, submits_nothing, NULL));
    REFUSES(vram_queue_native(queue, &native));
    REFUSES(vram_queue_poll(queue));
    REFUSES(vram_queue_wait(queue, 0));
    REFUSES(vram_queue_mark(queue, &point));
    REFUSES(vram_queue_after(queue, none));
    REFUSES(vram_capture_begin(queue, &region));
    REFUSES(vram_queue_upload(queue, 4096, &byte, 1));
    REFUSES(vram_transfer_upload(queue, 4096, &byte, 1, NULL, NULL));
    REFUSES(vram_transfer_download(queue, &byte, 4096, 1, NULL, NULL));
    REFUSES(vram_transfer_copy(queue, 4096, 8192, 1, NULL, NULL));
    REFUSES(vram_transfer_fill(queue, 4096, 0, 1, 1, NULL, NULL));
    REFUSES(vram_transfer_batch(queue, NULL, 0, NULL, NULL));
    REFUSES(vram_transfer_2d(queue, &rectangle, NULL, NULL));
    REFUSES(vram_queue_download(queue, &byte, 4096, 1));
    REFUSES(vram_queue_copy(queue, 4096, 8192, 1));
    REFUSES(vram_queue_fill(queue, 4096, 0, 1, 1));
    REFUSES(vram_queue_prefetch(queue, 4096, 1, VRAM_TARGET_OWN));
    REFUSES(vram_use(4096, queue));
    return true;
}

static bool as_buffer(struct check *check, void *bad, vram_status want) {
    vram_buffer *buffer = bad;
    vram_buffer_info info = {.size = sizeof info};
    vram_growth_info growth = {.size = sizeof growth};
    vram_span span;
    void *pointer;
    vram_addr addr = CHECK_CANARY;

    REFUSES(vram_buffer_info_get(buffer, &info));
    REFUSES(vram_buffer_addr(buffer, &addr));
    REFUSES(vram_buffer_use(buffer, NULL));
    REFUSES(vram_buffer_growth_set(buffer, NULL));
    REFUSES(vram_buffer_growth_get(buffer, &growth));
    REFUSES(vram_buffer_reserve(buffer, 1, NULL));
    REFUSES(vram_buffer_resize(buffer, 1, NULL));
    REFUSES(vram_buffer_resize_elements(buffer, 1, NULL));
    REFUSES(vram_buffer_fit(buffer, NULL));
    REFUSES(vram_buffer_host(buffer, &pointer));
    REFUSES(vram_buffer_span(buffer, 0, 0, &span));
    REFUSES(vram_span_addr((vram_span){.buffer = buffer}, &addr));
    REFUSES(vram_span_upload(NULL, (vram_span){.buffer = buffer}, &addr));
    REFUSES(vram_span_download(NULL, &addr, (vram_span){.buffer = buffer}));
    REFUSES(vram_buffer_map(buffer, 0, 0, VRAM_MAP_READ, NULL, &pointer));
    REFUSES(vram_buffer_unmap(buffer));
    REFUSES(vram_buffer_promote(buffer, NULL));
    REFUSES(vram_buffer_demote(buffer, NULL));
    REFUSES(vram_buffer_prefetch(buffer, 0, 0, VRAM_TARGET_HOST, NULL));
    REFUSES(vram_buffer_advise(buffer, VRAM_ADVICE_NONE, VRAM_TARGET_OWN));
    if (buffer != NULL) { /* destroying NULL is allowed */
        REFUSES(vram_buffer_destroy(buffer));
    }
    CHECK_EQUAL(check, addr, CHECK_CANARY);
    return true;
}

static bool as_pool(struct check *check, void *bad, vram_status want) {
    vram_pool *pool = bad;
    vram_addr addr = CHECK_CANARY;
    vram_pool_stats stats = {.size = sizeof stats};
    vram_peaks peaks = {.size = sizeof peaks};
    vram_limits limits = {.size = sizeof limits};
    vram_pressure pressure = {.size = sizeof pressure};
    vram_watch_options watched = {.size = sizeof watched, .call = ignore};
    vram_watch *watch;
    vram_fragmentation fragmentation = {.size = sizeof fragmentation};
    uint64_t bytes;
    vram_oom_report report = {.size = sizeof report};
    vram_buffer *buffer;
    vram_scope *scope;
    vram_batch *batch;
    vram_named *named;
    vram_wrap wrap = {.size = sizeof wrap, .pointer = &bytes, .bytes = sizeof bytes};

    REFUSES(vram_pool_attach(pool, NULL, NULL, NULL, &(vram_attachment *){NULL}));
    REFUSES(vram_alloc(pool, 1, NULL, &addr));
    REFUSES(vram_alloc_with(pool, 1, NULL, NULL, &addr));
    REFUSES(vram_alloc_with(pool, 1, NULL, &(vram_alloc_options){.size = sizeof(size_t)}, &addr));
    REFUSES(vram_pool_trim(pool, CHECK_TRIM(.flags = VRAM_TRIM_BUFFERS), &bytes));
    REFUSES(vram_pool_warm(pool, 1, 1, NULL));
    REFUSES(vram_pool_warm(pool, 1, UINT32_MAX, NULL));
    REFUSES(vram_pool_trim(pool, NULL, NULL));
    REFUSES(vram_pool_sleep(pool, NULL));
    REFUSES(vram_pool_wake(pool, NULL));
    REFUSES(vram_pool_seal(pool, NULL));
    REFUSES(vram_pool_unseal(pool, NULL));
    REFUSES(vram_pool_rebuild(pool, NULL, NULL));
    REFUSES(vram_pool_stats_get(pool, &stats));
    REFUSES(vram_pool_stats_write(pool, VRAM_REPORT_JSON, take_text, NULL));
    REFUSES(vram_pool_limits_set(pool, &limits));
    REFUSES(vram_pool_limits_get(pool, &limits));
    REFUSES(vram_pool_peaks_begin(pool));
    REFUSES(vram_pool_peaks_end(pool, &peaks));
    REFUSES(vram_pool_peaks_reset(pool));
    REFUSES(vram_pool_ladder_set(pool, NULL));
    REFUSES(vram_pool_pressure_get(pool, &pressure));
    REFUSES(vram_pool_watch_begin(pool, &watched, &watch));
    REFUSES(vram_pool_response_set(pool, NULL));
    REFUSES(vram_pool_trim(pool, CHECK_TRIM(.flags = VRAM_TRIM_CACHES), &bytes));
    REFUSES(vram_pool_trim(pool, CHECK_TRIM(.flags = VRAM_TRIM_RARE), &bytes));
    REFUSES(vram_pool_fragmentation_get(pool, &fragmentation));
    REFUSES(vram_buffer_create(pool, 1, NULL, NULL, &buffer));
    REFUSES(vram_buffer_create_elements(pool, 1, VRAM_PRECISION_FP32, NULL, NULL, &buffer));
    REFUSES(vram_scope_begin(pool, NULL, &scope));
    REFUSES(vram_batch_create(pool, NULL, NULL, &batch));
    REFUSES(vram_named_create(pool, NULL, NULL, &named));
    REFUSES(vram_buffer_wrap(pool, &wrap, NULL, NULL, &buffer));
    REFUSES(vram_pool_promote(pool, NULL, &bytes));
    REFUSES(vram_pool_demote(pool, 1, NULL, &bytes));
    if (pool != NULL) {
        REFUSES(vram_oom_report_get(pool, &report));
        REFUSES(vram_pool_destroy(pool));
    }
    CHECK_EQUAL(check, addr, CHECK_CANARY);
    return true;
}

static bool as_physical(struct check *check, void *bad, vram_status want) {
    vram_physical *physical = bad;
    if (physical != NULL) { /* destroying NULL is allowed */
        REFUSES(vram_physical_destroy(physical));
    }
    CHECK_EQUAL(check, vram_physical_bytes(physical), 0);
    return true;
}

static bool as_watch(struct check *check, void *bad, vram_status want) {
    vram_trace_info traced = {.size = sizeof traced};

    REFUSES(vram_trace_mark(bad, "mark"));
    REFUSES(vram_trace_info_get(bad, &traced));
    REFUSES(vram_attachment_wait(bad, NULL, 0));
    REFUSES(vram_async_finish(bad, VRAM_OK));
    if (bad != NULL) { /* ending NULL is allowed */
        REFUSES(vram_watch_end(bad));
        REFUSES(vram_monitor_end(bad));
        REFUSES(vram_trace_end(bad));
        REFUSES(vram_attachment_end(bad));
    }
    return true;
}

static bool as_scope(struct check *check, void *bad, vram_status want) {
    vram_scope *scope = bad;
    vram_scope_info info = {.size = sizeof info};
    vram_buffer *buffer = NULL;
    vram_addr addr = CHECK_CANARY;

    REFUSES(vram_scope_alloc(scope, 1, NULL, &addr));
    REFUSES(vram_scope_alloc_with(scope, 1, NULL, NULL, &addr));
    REFUSES(vram_scope_free(scope, 4096, NULL));
    REFUSES(vram_scope_take(scope, 4096));
    REFUSES(vram_scope_give(scope, 4096, NULL));
    REFUSES(vram_scope_info_get(scope, &info));
    REFUSES(vram_scope_buffer_create(scope, 1, NULL, NULL, &buffer));
    REFUSES(vram_scope_buffer_take(scope, buffer));
    REFUSES(vram_scope_buffer_give(scope, buffer));
    if (scope != NULL) { /* ending NULL is allowed */
        REFUSES(vram_scope_end(scope));
    }
    CHECK_EQUAL(check, addr, CHECK_CANARY);
    return true;
}

static bool as_batch(struct check *check, void *bad, vram_status want) {
    vram_batch *batch = bad;
    vram_batch_item item = {.size = sizeof item, .elements = 1};
    vram_batch_info info = {.size = sizeof info};
    vram_buffer *buffer = NULL;
    uint32_t index = 77;

    REFUSES(vram_batch_add(batch, &item, 1, &index));
    REFUSES(vram_batch_give(batch, buffer, &index));
    REFUSES(vram_batch_get(batch, 0, &buffer));
    REFUSES(vram_batch_info_get(batch, &info));
    if (batch != NULL) { /* destroying NULL is allowed */
        REFUSES(vram_batch_destroy(batch));
    }
    CHECK_EQUAL(check, index, 77);
    return true;
}

static bool as_named(struct check *check, void *bad, vram_status want) {
    vram_named *named = bad;
    vram_named_config config = {.size = sizeof config};
    vram_named_info info = {.size = sizeof info};
    vram_named_stats stats = {.size = sizeof stats};
    vram_buffer *buffer = NULL;

    REFUSES(vram_named_config_set(named, "a", &config));
    REFUSES(vram_named_add(named, "a", 1, NULL, &buffer));
    REFUSES(vram_named_get(named, "a", NULL, &buffer));
    REFUSES(vram_named_get_or_create(named, "a", 1, NULL, &buffer));
    REFUSES(vram_named_ensure(named, "a", 1, &buffer));
    REFUSES(vram_named_remove(named, "a"));
    REFUSES(vram_named_cleanup(named, 0, NULL));
    REFUSES(vram_named_info_get(named, "a", &info));
    REFUSES(vram_named_info_at(named, 0, &info));
    REFUSES(vram_named_stats_get(named, &stats));
    REFUSES(vram_named_write(named, VRAM_REPORT_JSON, take_text, NULL));
    if (named != NULL) { /* destroying NULL is allowed */
        REFUSES(vram_named_destroy(named));
    }
    CHECK_THAT(check, buffer == NULL);
    return true;
}

/* Ending NULL does nothing; what is none otherwise is refused. */
static bool end_as_all(struct check *check, void *bad, vram_status want) {
    if (bad) {
        REFUSES(vram_context_destroy(bad));
        REFUSES(vram_device_close(bad));
        REFUSES(vram_queue_destroy(bad));
        REFUSES(vram_queue_end(bad));
        REFUSES(vram_capture_end(bad));
        REFUSES(vram_kernel_destroy(bad));
        REFUSES(vram_pool_destroy(bad));
        REFUSES(vram_buffer_destroy(bad));
        return true;
    }
    CHECK_OK(check, vram_context_destroy(NULL));
    CHECK_OK(check, vram_device_close(NULL));
    CHECK_OK(check, vram_queue_destroy(NULL));
    CHECK_OK(check, vram_queue_end(NULL));
    CHECK_OK(check, vram_capture_end(NULL));
    CHECK_OK(check, vram_kernel_destroy(NULL));
    CHECK_OK(check, vram_pool_destroy(NULL));
    CHECK_OK(check, vram_buffer_destroy(NULL));
    return true;
}

static bool as_all(struct check *check, void *bad, vram_status want) {
    CHECK_TRY(as_context(check, bad, want));
    CHECK_TRY(as_device(check, bad, want));
    CHECK_TRY(as_queue(check, bad, want));
    CHECK_TRY(as_physical(check, bad, want));
    CHECK_TRY(as_pool(check, bad, want));
    CHECK_TRY(as_watch(check, bad, want));
    CHECK_TRY(as_buffer(check, bad, want));
    CHECK_TRY(as_scope(check, bad, want));
    CHECK_TRY(as_batch(check, bad, want));
    CHECK_TRY(as_named(check, bad, want));
    CHECK_TRY(end_as_all(check, bad, want));
    return true;
}

/* -------------------------------------------------------------------- cases */

/* A handle that was never set is the most frequent mistake of all. */
static bool null(struct check *check) {
    return as_all(check, NULL, VRAM_ERR_INVALID);
}

/* From the leaves to the root, so that every kind is seen dead under a living parent as well. */
static bool stale(struct check *check) {
    vram_context *context;
    vram_buffer *buffer;
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_physical *physical = NULL;
    vram_scope *scope;
    vram_batch *batch;
    vram_named *named;

    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_OPEN_OF(check, context, check->target->device, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_buffer_create(stock.pool, 100, queue, NULL, &buffer));
    CHECK_OK(check, vram_buffer_destroy(buffer));
    CHECK_TRY(as_buffer(check, buffer, VRAM_ERR_STALE));
    CHECK_OK(check, vram_scope_begin(stock.pool, NULL, &scope));
    CHECK_OK(check, vram_scope_end(scope));
    CHECK_TRY(as_scope(check, scope, VRAM_ERR_STALE));
    CHECK_OK(check, vram_batch_create(stock.pool, queue, NULL, &batch));
    CHECK_OK(check, vram_batch_destroy(batch));
    CHECK_TRY(as_batch(check, batch, VRAM_ERR_STALE));
    CHECK_OK(check, vram_named_create(stock.pool, queue, NULL, &named));
    CHECK_OK(check, vram_named_destroy(named));
    CHECK_TRY(as_named(check, named, VRAM_ERR_STALE));
    CHECK_OK(check, vram_pool_destroy(stock.pool));
    CHECK_TRY(as_pool(check, stock.pool, VRAM_ERR_STALE));
    if ((device->info.caps & VRAM_CAP_VMM) != 0) {
        CHECK_PHYSICAL(check, device, 1, &physical);
        CHECK_PHYSICAL_END(check, device, physical);
        CHECK_TRY(as_physical(check, physical, VRAM_ERR_STALE));
    }
    CHECK_OK(check, vram_queue_destroy(queue));
    CHECK_TRY(as_queue(check, queue, VRAM_ERR_STALE));
    CHECK_STATUS(check, vram_queue_destroy(queue), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_queue_end(queue), VRAM_ERR_STALE);
    vram_device *closed = device->device;
    check_close(device);
    CHECK_STATUS(check, vram_device_close(closed), VRAM_ERR_STALE);
    CHECK_TRY(as_device(check, closed, VRAM_ERR_STALE));
    CHECK_TRY(as_queue(check, queue, VRAM_ERR_STALE));
    check_context_end(check, context);
    CHECK_STATUS(check, vram_context_destroy(context), VRAM_ERR_STALE);
    CHECK_TRY(as_context(check, context, VRAM_ERR_STALE));
    CHECK_TRY(as_device(check, closed, VRAM_ERR_STALE));
    CHECK_TRY(as_queue(check, queue, VRAM_ERR_STALE));
    CHECK_TRY(as_pool(check, stock.pool, VRAM_ERR_STALE));
    return true;
}

/* The children of a destroyed parent, of every kind, without destroying them first. */
static bool orphans(struct check *check) {
    vram_context *context;
    vram_buffer *buffer;
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr;
    vram_physical *physical = NULL;
    vram_scope *scope;
    vram_batch *batch;

    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_OPEN_OF(check, context, check->target->device, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_TAKE(check, &stock, 5000, queue, &addr);
    CHECK_OK(check, vram_buffer_create(stock.pool, 100, queue, NULL, &buffer));
    CHECK_OK(check, vram_scope_begin(stock.pool, NULL, &scope));
    CHECK_OK(check, vram_batch_create(stock.pool, queue, NULL, &batch));
    if ((device->info.caps & VRAM_CAP_VMM) != 0) {
        CHECK_PHYSICAL(check, device, 1, &physical);
    }
    vram_device *orphan = device->device;
    device->device = NULL;
    check_context_end(check, context);
    CHECK_TRY(as_device(check, orphan, VRAM_ERR_STALE));
    CHECK_TRY(as_queue(check, queue, VRAM_ERR_STALE));
    CHECK_TRY(as_pool(check, stock.pool, VRAM_ERR_STALE));
    CHECK_TRY(as_buffer(check, buffer, VRAM_ERR_STALE));
    CHECK_TRY(as_scope(check, scope, VRAM_ERR_STALE));
    CHECK_TRY(as_batch(check, batch, VRAM_ERR_STALE));
    CHECK_STATUS(check, vram_free(addr, queue), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_resize(addr, 1, queue), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_pin(addr), VRAM_ERR_INVALID);
    if (physical != NULL) {
        CHECK_TRY(as_physical(check, physical, VRAM_ERR_STALE));
    }
    CHECK_TRY(end_as_all(check, orphan, VRAM_OK));
    CHECK_TRY(end_as_all(check, queue, VRAM_OK));
    CHECK_TRY(end_as_all(check, stock.pool, VRAM_OK));
    return true;
}

/* Small numbers look like kinds, large ones like generations, a pointer like nothing. */
static bool made_up(struct check *check) {
    static const uint64_t list[] = {1, 2, 3, 4, 5, 6, 255, 256, 4096, UINT64_MAX};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        check_note(check, "handle 0x%llx", (unsigned long long)list[i]);
        CHECK_TRY(as_all(check, (void *)(uintptr_t)list[i], VRAM_OK));
    }
    for (uint32_t i = 0; i < check_rounds(check, 300); i++) {
        uint64_t number = check_random(check, UINT64_MAX);
        check_note(check, "handle 0x%llx", (unsigned long long)number);
        CHECK_TRY(as_all(check, (void *)(uintptr_t)number, VRAM_OK));
    }
    CHECK_TRY(as_all(check, check, VRAM_OK)); /* a true pointer is no handle either */
    return true;
}

/* C converts between pointers with a cast; the handles must notice. */
static bool wrong_kind(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_stock stock;
    vram_addr addr;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_TAKE(check, &stock, 2000, queue, &addr);
    CHECK_TRY(as_context(check, device->device, VRAM_OK));
    CHECK_TRY(as_context(check, queue, VRAM_OK));
    CHECK_TRY(as_device(check, check->context, VRAM_OK));
    CHECK_TRY(as_device(check, queue, VRAM_OK));
    CHECK_TRY(as_queue(check, check->context, VRAM_OK));
    CHECK_TRY(as_queue(check, device->device, VRAM_OK));
    CHECK_TRY(as_physical(check, queue, VRAM_OK));
    CHECK_TRY(as_pool(check, queue, VRAM_OK));
    CHECK_TRY(as_pool(check, device->device, VRAM_OK));
    CHECK_TRY(as_scope(check, stock.pool, VRAM_OK));
    CHECK_TRY(as_device(check, stock.pool, VRAM_OK));
    CHECK_TRY(as_queue(check, stock.pool, VRAM_OK));
    CHECK_TRY(as_buffer(check, stock.pool, VRAM_OK));
    CHECK_TRY(as_buffer(check, queue, VRAM_OK));
    CHECK_REFUSED(check, vram_free(addr, (vram_queue *)(void *)stock.pool));
    CHECK_REFUSED(check, vram_queue_destroy((vram_queue *)(void *)stock.pool));
    CHECK_REFUSED(check, vram_kernel_destroy((vram_kernel *)(void *)queue));
    CHECK_REFUSED(check, vram_queue_destroy((vram_queue *)(void *)device->device));
    CHECK_REFUSED(check, vram_device_close((vram_device *)(void *)queue));
    CHECK_STOCK_VERIFY(check, &stock); /* everything is still there */
    return true;
}

enum { GENERATIONS = 200 };

/* A number that was a queue never becomes another one: old points and handles stay harmless. */
static bool never_again(struct check *check) {
    struct check_device *device;
    vram_queue *seen[GENERATIONS];
    uint32_t rounds = check_rounds(check, GENERATIONS);

    CHECK_OPEN(check, &device);
    for (uint32_t i = 0; i < rounds; i++) {
        CHECK_QUEUE(check, device, &seen[i]);
        for (uint32_t j = 0; j < i; j++) {
            CHECK_THAT(check, seen[i] != seen[j]);
        }
        CHECK_OK(check, vram_queue_destroy(seen[i]));
    }
    for (uint32_t i = 0; i < rounds; i++) {
        CHECK_STATUS(check, vram_queue_poll(seen[i]), VRAM_ERR_STALE);
    }
    return true;
}

const struct check_case check_cases_handle[] = {
    {"handle.null", "every call refuses NULL where it needs an object", null},
    {"handle.stale", "every call tells a destroyed object from a live one", stale},
    {"handle.orphans", "objects end with their parents and are known to have ended", orphans},
    {"handle.made_up", "numbers that never were handles are refused and never followed", made_up},
    {"handle.wrong_kind", "a handle of one kind is refused where another is needed", wrong_kind},
    {"handle.never_again", "a destroyed queue's number is never given to another", never_again},
    {NULL, NULL, NULL},
};
