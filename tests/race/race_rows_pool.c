/* SPDX-License-Identifier: Apache-2.0 */
/* race_rows_pool.c: pools, blocks, limits, statistics and pressure beside the ends of what they
   belong to. */
#include "race/race_table.h"
#include "trims.h"

/* ------------------------------------------------------------------------ pools */

ROW(vram_pool_create, DEVICE, 0) {
    return vram_pool_create(w->device, NULL, &w->made.pool);
}

/* Memory that is not freed because the device ends first is freed by the device. */
ROW(vram_provider_get, DEVICE, ROW_INVALID) {
    vram_provider provider = {.size = sizeof provider};
    vram_addr addr;
    vram_status status = vram_provider_get(w->device, VRAM_MEMORY_PINNED, &provider);
    if (status == VRAM_OK) {
        status = provider.alloc(provider.user, provider.granule, &addr);
    }
    return status ? status : provider.free(provider.user, addr, provider.granule);
}

ROW(vram_pool_destroy, POOL, ROW_USES_QUEUE) {
    return vram_pool_destroy(w->pool);
}

ROW(vram_alloc, POOL, ROW_USES_QUEUE) {
    return vram_alloc(w->pool, COPY_BYTES, w->queue, &w->made.block);
}

ROW_AS(vram_alloc, _large, POOL, ROW_USES_QUEUE) {
    return vram_alloc(w->pool, 5 << 20, w->queue, &w->made.block);
}

ROW_AS(vram_alloc, _no_queue, POOL, 0) {
    return vram_alloc(w->pool, 1000, NULL, &w->made.block);
}

ROW(vram_alloc_with, POOL, ROW_USES_QUEUE) {
    vram_alloc_options options = {.size = sizeof options, .tag = "tenant/model", .name = "x"};
    return vram_alloc_with(w->pool, COPY_BYTES, w->queue, &options, &w->made.block);
}

ROW(vram_free, BLOCK, ROW_INVALID) {
    return vram_free(w->spare, w->queue);
}

ROW_AS(vram_free, _other_queue, BLOCK, ROW_INVALID) {
    return vram_free(w->spare, w->other);
}

ROW(vram_auto_block_auto_end, BLOCK, ROW_INVALID) {
    vram_auto_block block = {w->pool, w->spare, w->queue};
    vram_auto_block_auto_end(&block);
    return VRAM_OK;
}

ROW(vram_resize, BLOCK, ROW_INVALID | ROW_BUSY) {
    return vram_resize(w->spare, COPY_BYTES / 2, w->queue);
}

ROW(vram_use, BLOCK, ROW_INVALID) {
    return vram_use(w->spare, w->other);
}

ROW_AS(vram_use, _same_queue, BLOCK, ROW_INVALID) {
    return vram_use(w->spare, w->queue);
}

ROW(vram_pin, BLOCK, ROW_INVALID) {
    vram_status status = vram_pin(w->spare);
    if (status == VRAM_OK) {
        vram_unpin(w->spare);
    }
    return status;
}

ROW(vram_unpin, BLOCK, ROW_INVALID) {
    vram_status status = vram_pin(w->spare);
    return status ? status : vram_unpin(w->spare);
}

ROW(vram_block_info_get, BLOCK, ROW_INVALID) {
    LOOK(vram_block_info, vram_block_info_get(w->spare, &info));
}

ROW(vram_pool_warm, POOL, ROW_USES_QUEUE) {
    return vram_pool_warm(w->pool, COPY_BYTES, 4, w->queue);
}

ROW(vram_pool_trim, POOL, ROW_USES_QUEUE) {
    return vram_pool_trim(w->pool, NULL, NULL);
}

ROW(vram_pool_sleep, POOL, ROW_USES_QUEUE | ROW_BUSY) {
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_HOST};
    vram_status status = vram_pool_sleep(w->pool, &options);
    vram_status woken = vram_pool_wake(w->pool, NULL);
    return status ? status : woken;
}

ROW(vram_pool_wake, POOL, ROW_USES_QUEUE | ROW_BUSY | ROW_INVALID) {
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_DROP};
    vram_status status = vram_pool_sleep(w->pool, &options);
    return status ? status : vram_pool_wake(w->pool, NULL);
}

ROW(vram_pool_seal, POOL, ROW_USES_QUEUE | ROW_BUSY | ROW_INVALID) {
    vram_status status = vram_pool_seal(w->pool, NULL);
    vram_status unsealed = vram_pool_unseal(w->pool, NULL);
    return status ? status : unsealed;
}

ROW(vram_pool_unseal, POOL, ROW_USES_QUEUE | ROW_BUSY | ROW_INVALID) {
    vram_status status = vram_pool_seal(w->pool, NULL);
    return status ? status : vram_pool_unseal(w->pool, NULL);
}

ROW(vram_pool_rebuild, POOL, ROW_USES_QUEUE | ROW_BUSY) {
    return vram_pool_rebuild(w->pool, NULL, NULL);
}

ROW(vram_pool_stats_write, POOL, 0) {
    return vram_pool_stats_write(w->pool, VRAM_REPORT_JSON, race_ignore_text, NULL);
}

ROW(vram_pool_stats_get, POOL, 0) {
    LOOK(vram_pool_stats, vram_pool_stats_get(w->pool, &info));
}

/* ------------------------------------------------------------- limits and peaks */

ROW(vram_pool_limits_set, POOL, 0) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 32 << 20};
    return vram_pool_limits_set(w->pool, &limits);
}

ROW(vram_pool_limits_get, POOL, 0) {
    LOOK(vram_limits, vram_pool_limits_get(w->pool, &info));
}

ROW(vram_device_limits_set, DEVICE, ROW_WALKS) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 32 << 20};
    return vram_device_limits_set(w->device, &limits);
}

ROW(vram_device_limits_get, DEVICE, 0) {
    LOOK(vram_limits, vram_device_limits_get(w->device, &info));
}

ROW(vram_tag_quota_set, DEVICE, ROW_WALKS) {
    return vram_tag_quota_set(w->device, "tenant", 1 << 20, 2 << 20);
}

static void on_tag(void *user, const vram_tag_event *event) {
    (void)user, (void)event;
}

ROW(vram_tag_handler_set, DEVICE, 0) {
    return vram_tag_handler_set(w->device, on_tag, NULL);
}

ROW(vram_tag_info_get, DEVICE, ROW_INVALID) {
    vram_tag_info info = {.size = sizeof info};
    vram_status status = vram_tag_quota_set(w->device, "tenant", 1, 0);
    return status ? status : vram_tag_info_get(w->device, "tenant", &info);
}

ROW(vram_tag_count, DEVICE, 0) {
    vram_tag_count(w->device);
    return VRAM_OK;
}

ROW(vram_tag_info_at, DEVICE, ROW_INVALID) {
    vram_tag_info info = {.size = sizeof info};
    vram_status status = vram_tag_quota_set(w->device, "tenant", 1, 0);
    return status ? status : vram_tag_info_at(w->device, 0, &info);
}

ROW(vram_device_stats_get, DEVICE, ROW_WALKS) {
    LOOK(vram_pool_stats, vram_device_stats_get(w->device, &info));
}

ROW(vram_context_stats_get, CONTEXT, ROW_WALKS) {
    LOOK(vram_pool_stats, vram_context_stats_get(w->context, &info));
}

ROW(vram_device_stats_write, DEVICE, ROW_WALKS) {
    return vram_device_stats_write(w->device, VRAM_REPORT_JSON, race_ignore_text, NULL);
}

ROW(vram_context_stats_write, CONTEXT, ROW_WALKS) {
    return vram_context_stats_write(w->context, VRAM_REPORT_JSON, race_ignore_text, NULL);
}

ROW(vram_metrics_write, CONTEXT, ROW_WALKS) {
    return vram_metrics_write(w->context, race_ignore_text, NULL);
}

ROW(vram_metrics_write_as, CONTEXT, ROW_WALKS) {
    return vram_metrics_write_as(w->context, VRAM_METRICS_PROMETHEUS, race_ignore_text, NULL);
}

ROW(vram_tag_stats_get, DEVICE, ROW_WALKS | ROW_INVALID) {
    vram_pool_stats stats = {.size = sizeof stats};
    vram_status status = vram_tag_quota_set(w->device, "tenant", 1, 0);
    return status ? status : vram_tag_stats_get(w->device, "tenant", &stats);
}

ROW(vram_pool_peaks_begin, POOL, 0) {
    return vram_pool_peaks_begin(w->pool);
}

ROW(vram_pool_peaks_end, POOL, 0) {
    vram_peaks peaks = {.size = sizeof peaks};
    vram_status status = vram_pool_peaks_begin(w->pool);
    return status ? status : vram_pool_peaks_end(w->pool, &peaks);
}

ROW(vram_device_peaks_begin, DEVICE, ROW_WALKS) {
    return vram_device_peaks_begin(w->device);
}

ROW(vram_device_peaks_end, DEVICE, ROW_WALKS) {
    vram_peaks peaks = {.size = sizeof peaks};
    vram_status status = vram_device_peaks_begin(w->device);
    return status ? status : vram_device_peaks_end(w->device, &peaks);
}

ROW(vram_context_peaks_begin, CONTEXT, ROW_WALKS) {
    return vram_context_peaks_begin(w->context);
}

ROW(vram_context_peaks_end, CONTEXT, ROW_WALKS) {
    vram_peaks peaks = {.size = sizeof peaks};
    vram_status status = vram_context_peaks_begin(w->context);
    return status ? status : vram_context_peaks_end(w->context, &peaks);
}

ROW(vram_pool_peaks_reset, POOL, 0) {
    return vram_pool_peaks_reset(w->pool);
}

ROW(vram_device_peaks_reset, DEVICE, ROW_WALKS) {
    return vram_device_peaks_reset(w->device);
}

ROW(vram_context_peaks_reset, CONTEXT, ROW_WALKS) {
    return vram_context_peaks_reset(w->context);
}

/* -------------------------------------------------------------- foreign memory */

ROW(vram_foreign_track, DEVICE, 0) {
    vram_foreign_options options = {
        .size = sizeof options, .flags = VRAM_FOREIGN_COUNTS, .tag = "library"};
    uint64_t id;
    return vram_foreign_track(w->device, 1000, &options, &id);
}

ROW(vram_foreign_untrack, FOREIGN, ROW_INVALID) {
    return vram_foreign_untrack(w->device, w->foreign);
}

ROW(vram_foreign_info_get, FOREIGN, ROW_INVALID) {
    LOOK(vram_foreign_info, vram_foreign_info_get(w->device, w->foreign, &info));
}

ROW(vram_foreign_info_after, FOREIGN, ROW_INVALID) {
    LOOK(vram_foreign_info, vram_foreign_info_after(w->device, 0, &info));
}

ROW(vram_foreign_totals_get, FOREIGN, 0) {
    LOOK(vram_foreign_totals, vram_foreign_totals_get(w->device, &info));
}

/* --------------------------------------------------------- pressure and cleanup */

ROW(vram_pool_pressure_get, POOL, 0) {
    LOOK(vram_pressure, vram_pool_pressure_get(w->pool, &info));
}

ROW(vram_device_pressure_get, DEVICE, ROW_WALKS) {
    LOOK(vram_pressure, vram_device_pressure_get(w->device, &info));
}

ROW(vram_pool_watch_begin, POOL, 0) {
    vram_watch_options options = {.size = sizeof options, .call = race_ignore_pressure};
    return vram_pool_watch_begin(w->pool, &options, &w->made.watch);
}

ROW(vram_device_watch_begin, DEVICE, 0) {
    vram_watch_options options = {.size = sizeof options, .call = race_ignore_pressure};
    return vram_device_watch_begin(w->device, &options, &w->made.watch);
}

ROW(vram_watch_end, WATCH, 0) {
    return vram_watch_end(w->watch);
}

ROW_AS(vram_watch_end, _device, DEVICE_WATCH, 0) {
    return vram_watch_end(w->watch);
}

ROW(vram_pool_response_set, POOL, 0) {
    return vram_pool_response_set(w->pool, NULL);
}

ROW_AS(vram_pool_trim, _caches, POOL, ROW_USES_QUEUE) {
    uint64_t cached;
    return vram_pool_trim(w->pool, TRIM(.flags = VRAM_TRIM_CACHES), &cached);
}

ROW(vram_device_trim, DEVICE, ROW_WALKS) {
    uint64_t released;
    return vram_device_trim(w->device, NULL, &released);
}

ROW(vram_context_trim, CONTEXT, ROW_WALKS) {
    uint64_t released;
    return vram_context_trim(w->context, NULL, &released);
}

ROW_AS(vram_pool_trim, _rare, POOL, ROW_USES_QUEUE) {
    uint64_t released;
    return vram_pool_trim(w->pool, TRIM(.flags = VRAM_TRIM_RARE), &released);
}

ROW(vram_pool_fragmentation_get, POOL, ROW_USES_QUEUE) {
    LOOK(vram_fragmentation, vram_pool_fragmentation_get(w->pool, &info));
}

ROW(vram_health, DEVICE, ROW_WALKS) {
    vram_health_info info = {.size = sizeof info};
    vram_health_options options = {.size = sizeof options, .warn = 0.9999, .emergency = 1};
    return vram_health(w->device, &options, &info);
}

ROW(vram_monitor_begin, CONTEXT, ROW_WALKS) {
    vram_monitor_options options = {
        .size = sizeof options, .interval_ns = 50000, .maintain_ns = 50000};
    return vram_monitor_begin(w->context, &options, &w->made.monitor);
}

ROW(vram_monitor_end, MONITOR, ROW_USES_QUEUE) {
    return vram_monitor_end(w->monitor);
}

/* -------------------------------------------------------------- out of memory */

ROW(vram_pool_ladder_set, POOL, 0) {
    return vram_pool_ladder_set(w->pool, NULL);
}

static uint64_t on_oom(void *user, const vram_oom_event *event) {
    (void)user, (void)event;
    return 0;
}

ROW(vram_oom_callback_add, DEVICE, 0) {
    uint64_t id;
    return vram_oom_callback_add(w->device, on_oom, NULL, &id);
}

ROW(vram_oom_callback_remove, OOM_CALLBACK, ROW_INVALID) {
    return vram_oom_callback_remove(w->device, w->callback);
}

/* More than there is: the whole ladder is climbed, cleanup of the device included. */
ROW_AS(vram_alloc, _too_much, OOM_CALLBACK, ROW_USES_QUEUE | ROW_USES_BLOCK) {
    vram_addr addr;
    vram_status status = vram_alloc(w->pool, UINT64_C(1) << 45, w->queue, &addr);
    return vram_status_is_exhausted(status) ? VRAM_OK : status;
}

ROW(vram_oom_report_get, POOL, ROW_INVALID) {
    vram_oom_report report = {.size = sizeof report};
    vram_addr addr;
    vram_alloc(w->pool, UINT64_C(1) << 45, w->queue, &addr);
    return vram_oom_report_get(w->pool, &report);
}

static vram_error_answer on_error(void *user, const vram_error_event *event) {
    (void)user, (void)event;
    return VRAM_ERROR_FAIL;
}

ROW(vram_error_handler_set, CONTEXT, 0) {
    return vram_error_handler_set(w->context, on_error, NULL);
}

/* --------------------------------------------------------- live blocks, traces */

static bool on_live(void *user, const vram_live_block *block) {
    (void)user, (void)block;
    return true;
}

static bool on_group(void *user, const vram_live_group *group) {
    (void)user, (void)group;
    return true;
}

ROW(vram_live_visit, POOL, ROW_USES_QUEUE) {
    vram_live_query query = {.size = sizeof query, .pool = w->pool};
    return vram_live_visit(&query, on_live, NULL);
}

ROW_AS(vram_live_visit, _context, CONTEXT, ROW_WALKS) {
    vram_live_query query = {.size = sizeof query, .context = w->context};
    return vram_live_visit(&query, on_live, NULL);
}

ROW(vram_live_get, BLOCK, ROW_INVALID) {
    LOOK(vram_live_block, vram_live_get(w->spare, &info));
}

ROW(vram_live_stats_get, DEVICE, ROW_WALKS) {
    vram_live_query query = {.size = sizeof query, .device = w->device};
    LOOK(vram_live_stats, vram_live_stats_get(&query, &info));
}

ROW(vram_live_groups, POOL, ROW_USES_QUEUE) {
    vram_live_query query = {.size = sizeof query, .pool = w->pool};
    return vram_live_groups(&query, VRAM_LIVE_BY_QUEUE, on_group, NULL);
}

ROW(vram_leaks_write, CONTEXT, ROW_WALKS) {
    vram_live_query query = {.size = sizeof query, .context = w->context};
    return vram_leaks_write(&query, VRAM_REPORT_TEXT, race_ignore_text, NULL, NULL);
}

ROW(vram_trace_begin, CONTEXT, ROW_WALKS) {
    vram_trace_options options = {.size = sizeof options, .path = "/tmp/vram_race_%p.trace"};
    return vram_trace_begin(w->context, &options, &w->made.trace);
}

ROW(vram_trace_end, TRACE, 0) {
    return vram_trace_end(w->trace);
}

ROW(vram_trace_mark, TRACE, 0) {
    return vram_trace_mark(w->trace, "mark");
}

ROW(vram_trace_info_get, TRACE, 0) {
    LOOK(vram_trace_info, vram_trace_info_get(w->trace, &info));
}
