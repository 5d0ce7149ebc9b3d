/* SPDX-License-Identifier: Apache-2.0 */
/* rows_pool.c: pools, blocks, limits, statistics and pressure beside the ends of what they
   belong to. */
#include "calls/call_table.h"
#include "trims.h"

/* ------------------------------------------------------------------------ pools */

CALL_WITH(vram_pool_create, DEVICE, 0, w->device, NULL, &w->made.pool);
CALL_WITH_AS(vram_pool_create, options, DEVICE, 0, w->device,
             SIZED(vram_pool_options, .name = "another"), &w->made.pool);

/* Memory that is not freed because the device ends first is freed by the device. */
CALL(vram_provider_get, DEVICE, ROW_INVALID) {
    vram_provider provider = {.size = sizeof provider};
    vram_addr addr;
    vram_status status = TRY(vram_provider_get, w->device, VRAM_MEMORY_PINNED, FIXED(&provider));
    if (status == VRAM_OK) {
        status = provider.alloc(provider.user, provider.granule, &addr);
    }
    return status ? status : provider.free(provider.user, addr, provider.granule);
}

CALL_WITH(vram_pool_destroy, POOL, ROW_USES_QUEUE | ROW_LOSES, OR_NULL(w->pool));
CALL_WITH(vram_alloc, POOL, ROW_USES_QUEUE, w->pool, COPY_BYTES, OR_NULL(w->queue), &w->made.block);
CALL_WITH_AS(vram_alloc, large, POOL, ROW_USES_QUEUE, w->pool, 5 << 20, OR_NULL(w->queue),
             &w->made.block);
CALL_WITH_AS(vram_alloc, no_queue, POOL, 0, w->pool, 1000, NULL, &w->made.block);
CALL_WITH(vram_alloc_with, POOL, ROW_USES_QUEUE, w->pool, COPY_BYTES, OR_NULL(w->queue),
          SIZED(vram_alloc_options, .tag = "tenant/model", .name = "x"), &w->made.block);
CALL_WITH(vram_free, BLOCK, ROW_INVALID | ROW_NEVER_FAILS, w->spare, OR_NULL(w->queue));
CALL_WITH_AS(vram_free, other_queue, BLOCK, ROW_INVALID, w->spare, OR_NULL(w->other));

CALL(vram_auto_block_auto_end, BLOCK, ROW_INVALID) {
    vram_auto_block block = {w->pool, w->spare, w->queue};
    vram_auto_block_auto_end(&block);
    return VRAM_OK;
}

CALL_WITH(vram_resize, BLOCK, ROW_INVALID | ROW_BUSY | ROW_LOSES, w->spare, COPY_BYTES / 2,
          OR_NULL(w->queue));

CALL_AFTER_AS(vram_resize, larger, POOL, ROW_USES_QUEUE | ROW_INVALID | ROW_BUSY | ROW_LOSES,
              vram_alloc(w->pool, 64 << 10, w->queue, &w->made.block), w->made.block, 1 << 20,
              OR_NULL(w->queue));
CALL_WITH(vram_use, BLOCK, ROW_INVALID, w->spare, w->other);
CALL_WITH_AS(vram_use, same_queue, BLOCK, ROW_INVALID, w->spare, w->queue);

CALL(vram_pin, BLOCK, ROW_INVALID) {
    vram_status status = TRY(vram_pin, w->spare);
    if (status == VRAM_OK) {
        vram_unpin(w->spare);
    }
    return status;
}

CALL_AFTER(vram_unpin, BLOCK, ROW_INVALID, vram_pin(w->spare), w->spare);
CALL_WITH(vram_block_info_get, BLOCK, ROW_INVALID, w->spare, TOLD(vram_block_info));
CALL_WITH(vram_pool_warm, POOL, ROW_USES_QUEUE, w->pool, COPY_BYTES, 4, OR_NULL(w->queue));
CALL_WITH(vram_pool_trim, POOL, ROW_USES_QUEUE, w->pool, NULL, NULL);

/* With blocks of many sizes in its caches. */
CALL_AS(vram_pool_trim, cached, POOL, ROW_USES_QUEUE | ROW_INVALID) {
    vram_status status = VRAM_OK;
    for (uint64_t i = 1; i <= 6 && status == VRAM_OK; i++) {
        status = vram_alloc(w->pool, i * 100 * 1024, w->queue, &w->made.block);
        status = status ? status : vram_free(w->made.block, w->queue);
    }
    status = status ? status : vram_queue_wait(w->queue, VRAM_TIMEOUT_DEFAULT);
    return status ? status : TRY(vram_pool_trim, w->pool, NULL, NULL);
}

CALL(vram_pool_sleep, POOL, ROW_USES_QUEUE | ROW_BUSY | ROW_LOSES) {
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_HOST};
    vram_status status = TRY(vram_pool_sleep, w->pool, &options);
    vram_status woken = vram_pool_wake(w->pool, NULL);
    return status ? status : woken;
}

CALL(vram_pool_wake, POOL, ROW_USES_QUEUE | ROW_BUSY | ROW_INVALID) {
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_DROP};
    vram_status status = vram_pool_sleep(w->pool, &options);
    return status ? status : TRY(vram_pool_wake, w->pool, NULL);
}

CALL(vram_pool_seal, POOL, ROW_USES_QUEUE | ROW_BUSY | ROW_INVALID | ROW_LOSES) {
    vram_status status = TRY(vram_pool_seal, w->pool, NULL);
    vram_status unsealed = vram_pool_unseal(w->pool, NULL);
    return status ? status : unsealed;
}

CALL_AFTER(vram_pool_unseal, POOL, ROW_USES_QUEUE | ROW_BUSY | ROW_INVALID,
           vram_pool_seal(w->pool, NULL), w->pool, NULL);
CALL_WITH(vram_pool_rebuild, POOL, ROW_USES_QUEUE | ROW_BUSY, w->pool, NULL, NULL);
CALL_WITH(vram_pool_stats_write, POOL, 0, w->pool, VRAM_REPORT_JSON, call_ignore_text, NULL);
CALL_WITH(vram_pool_stats_get, POOL, 0, w->pool, TOLD(vram_pool_stats));

/* ------------------------------------------------------------- limits and peaks */

CALL_WITH(vram_pool_limits_set, POOL, 0, w->pool, SIZED(vram_limits, .hard_bytes = 32 << 20));
CALL_WITH(vram_pool_limits_get, POOL, 0, w->pool, TOLD(vram_limits));
CALL_WITH(vram_device_limits_set, DEVICE, ROW_WALKS, w->device,
          SIZED(vram_limits, .hard_bytes = 32 << 20));
CALL_WITH(vram_device_limits_get, DEVICE, 0, w->device, TOLD(vram_limits));
CALL_WITH(vram_tag_quota_set, DEVICE, ROW_WALKS, w->device, "tenant", ANY(1 << 20), ANY(2 << 20));

static void on_tag(void *user, const vram_tag_event *event) {
    (void)user, (void)event;
}

CALL_WITH(vram_tag_handler_set, DEVICE, 0, w->device, OR_NULL(on_tag), NULL);

CALL_AFTER(vram_tag_info_get, DEVICE, ROW_INVALID, vram_tag_quota_set(w->device, "tenant", 1, 0),
           w->device, "tenant", TOLD(vram_tag_info));

CALL(vram_tag_count, DEVICE, 0) {
    vram_tag_count(w->device);
    return VRAM_OK;
}

CALL_AFTER(vram_tag_info_at, DEVICE, ROW_INVALID, vram_tag_quota_set(w->device, "tenant", 1, 0),
           w->device, 0, TOLD(vram_tag_info));
CALL_WITH(vram_device_stats_get, DEVICE, ROW_WALKS, w->device, TOLD(vram_pool_stats));
CALL_WITH(vram_context_stats_get, CONTEXT, ROW_WALKS, w->context, TOLD(vram_pool_stats));
CALL_WITH(vram_device_stats_write, DEVICE, ROW_WALKS, w->device, VRAM_REPORT_JSON, call_ignore_text,
          NULL);
CALL_WITH(vram_context_stats_write, CONTEXT, ROW_WALKS, w->context, VRAM_REPORT_JSON,
          call_ignore_text, NULL);
CALL_WITH(vram_metrics_write, CONTEXT, ROW_WALKS, w->context, call_ignore_text, NULL);
CALL_WITH(vram_metrics_write_as, CONTEXT, ROW_WALKS, w->context, VRAM_METRICS_PROMETHEUS,
          call_ignore_text, NULL);

CALL_AFTER(vram_tag_stats_get, DEVICE, ROW_WALKS | ROW_INVALID,
           vram_tag_quota_set(w->device, "tenant", 1, 0), w->device, "tenant",
           PLAIN(vram_pool_stats));
CALL_WITH(vram_pool_peaks_begin, POOL, 0, w->pool);

CALL_AFTER(vram_pool_peaks_end, POOL, 0, vram_pool_peaks_begin(w->pool), w->pool,
           PLAIN(vram_peaks));
CALL_WITH(vram_device_peaks_begin, DEVICE, ROW_WALKS, w->device);

CALL_AFTER(vram_device_peaks_end, DEVICE, ROW_WALKS, vram_device_peaks_begin(w->device), w->device,
           PLAIN(vram_peaks));
CALL_WITH(vram_context_peaks_begin, CONTEXT, ROW_WALKS, w->context);

CALL_AFTER(vram_context_peaks_end, CONTEXT, ROW_WALKS, vram_context_peaks_begin(w->context),
           w->context, PLAIN(vram_peaks));
CALL_WITH(vram_pool_peaks_reset, POOL, 0, w->pool);
CALL_WITH(vram_device_peaks_reset, DEVICE, ROW_WALKS, w->device);
CALL_WITH(vram_context_peaks_reset, CONTEXT, ROW_WALKS, w->context);

/* -------------------------------------------------------------- foreign memory */

CALL_WITH(vram_foreign_track, DEVICE, 0, w->device, ANY(1000),
          SIZED(vram_foreign_options, .flags = VRAM_FOREIGN_COUNTS, .tag = "library"),
          OUT(uint64_t));
CALL_WITH(vram_foreign_untrack, FOREIGN, ROW_INVALID, w->device, w->foreign);
CALL_WITH(vram_foreign_info_get, FOREIGN, ROW_INVALID, w->device, w->foreign,
          TOLD(vram_foreign_info));
CALL_WITH(vram_foreign_info_after, FOREIGN, ROW_INVALID, w->device, 0, TOLD(vram_foreign_info));
CALL_WITH(vram_foreign_totals_get, FOREIGN, 0, w->device, TOLD(vram_foreign_totals));

/* --------------------------------------------------------- pressure and cleanup */

CALL_WITH(vram_pool_pressure_get, POOL, 0, w->pool, TOLD(vram_pressure));
CALL_WITH(vram_device_pressure_get, DEVICE, ROW_WALKS, w->device, TOLD(vram_pressure));
CALL_WITH(vram_pool_watch_begin, POOL, 0, w->pool,
          SIZED(vram_watch_options, .call = call_ignore_pressure), &w->made.watch);
CALL_WITH(vram_device_watch_begin, DEVICE, 0, w->device,
          SIZED(vram_watch_options, .call = call_ignore_pressure), &w->made.watch);
CALL_WITH(vram_watch_end, WATCH, 0, OR_NULL(w->watch));
CALL_WITH_AS(vram_watch_end, device, DEVICE_WATCH, 0, OR_NULL(w->watch));
CALL_WITH(vram_pool_response_set, POOL, 0, w->pool, NULL);
CALL_WITH_AS(vram_pool_response_set, options, POOL, 0, w->pool, PLAIN(vram_response_options));
CALL_WITH_AS(vram_pool_trim, caches, POOL, ROW_USES_QUEUE, w->pool, TRIM(.flags = VRAM_TRIM_CACHES),
             OR_NULL(OUT(uint64_t)));
CALL_WITH(vram_device_trim, DEVICE, ROW_WALKS, w->device, NULL, OR_NULL(OUT(uint64_t)));
CALL_WITH(vram_context_trim, CONTEXT, ROW_WALKS, w->context, NULL, OR_NULL(OUT(uint64_t)));
CALL_WITH_AS(vram_pool_trim, rare, POOL, ROW_USES_QUEUE, w->pool, TRIM(.flags = VRAM_TRIM_RARE),
             OR_NULL(OUT(uint64_t)));
CALL_WITH(vram_pool_fragmentation_get, POOL, ROW_USES_QUEUE, w->pool, TOLD(vram_fragmentation));
CALL_WITH(vram_health, DEVICE, ROW_WALKS, w->device,
          SIZED(vram_health_options, .warn = 0.9999, .emergency = 1), TOLD(vram_health_info));

CALL_WITH(vram_monitor_begin, CONTEXT, ROW_WALKS, w->context,
          SIZED(vram_monitor_options, .interval_ns = 50000, .maintain_ns = 50000),
          &w->made.monitor);
CALL_WITH(vram_monitor_end, MONITOR, ROW_USES_QUEUE, OR_NULL(w->monitor));

/* -------------------------------------------------------------- out of memory */

CALL_WITH(vram_pool_ladder_set, POOL, 0, w->pool, NULL);
CALL_WITH_AS(vram_pool_ladder_set, options, POOL, 0, w->pool, PLAIN(vram_ladder_options));

static uint64_t on_oom(void *user, const vram_oom_event *event) {
    (void)user, (void)event;
    return 0;
}

CALL_WITH(vram_oom_callback_add, DEVICE, 0, w->device, on_oom, NULL, OUT(uint64_t));
CALL_WITH(vram_oom_callback_remove, OOM_CALLBACK, ROW_INVALID, w->device, w->callback);

/* More than there is: the whole ladder is climbed, cleanup of the device included. */
CALL_AS(vram_alloc, too_much, OOM_CALLBACK, ROW_USES_QUEUE | ROW_USES_BLOCK) {
    vram_status status = TRY(vram_alloc, w->pool, UINT64_C(1) << 45, w->queue, &w->made.block);
    return vram_status_is_exhausted(status) ? VRAM_OK : status;
}

CALL(vram_oom_report_get, POOL, ROW_INVALID) {
    vram_oom_report report = {.size = sizeof report};
    vram_addr addr;
    vram_alloc(w->pool, UINT64_C(1) << 45, w->queue, &addr);
    return TRY(vram_oom_report_get, OR_NULL(w->pool), &report);
}

CALL(vram_oom_report_write, POOL, ROW_INVALID) {
    vram_oom_report told = {.size = sizeof told};
    vram_alloc(w->pool, UINT64_C(1) << 45, w->queue, &w->made.block);
    vram_status status = vram_oom_report_get(w->pool, &told);
    return status ? status
                  : TRY(vram_oom_report_write, &told, VRAM_REPORT_TEXT, call_ignore_text, NULL);
}

static vram_error_answer on_error(void *user, const vram_error_event *event) {
    (void)user, (void)event;
    return VRAM_ERROR_FAIL;
}

CALL_WITH(vram_error_handler_set, CONTEXT, 0, w->context, OR_NULL(on_error), NULL);

/* --------------------------------------------------------- live blocks, traces */

static bool on_live(void *user, const vram_live_block *block) {
    (void)user, (void)block;
    return true;
}

static bool on_group(void *user, const vram_live_group *group) {
    (void)user, (void)group;
    return true;
}

CALL_WITH(vram_live_visit, POOL, ROW_USES_QUEUE, SIZED(vram_live_query, .pool = w->pool), on_live,
          NULL);
CALL_WITH_AS(vram_live_visit, context, CONTEXT, ROW_WALKS,
             SIZED(vram_live_query, .context = w->context), on_live, NULL);
CALL_WITH(vram_live_get, BLOCK, ROW_INVALID, w->spare, TOLD(vram_live_block));
CALL_WITH(vram_live_stats_get, DEVICE, ROW_WALKS, SIZED(vram_live_query, .device = w->device),
          TOLD(vram_live_stats));
CALL_WITH(vram_live_groups, POOL, ROW_USES_QUEUE, SIZED(vram_live_query, .pool = w->pool),
          VRAM_LIVE_BY_QUEUE, on_group, NULL);
CALL_WITH(vram_leaks_write, CONTEXT, ROW_WALKS, SIZED(vram_live_query, .context = w->context),
          VRAM_REPORT_TEXT, call_ignore_text, NULL, NULL);
CALL_WITH(vram_trace_begin, CONTEXT, ROW_WALKS, w->context,
          SIZED(vram_trace_options, .path = "/tmp/vram_calls_%p.trace"), &w->made.trace);
CALL_WITH(vram_trace_end, TRACE, 0, OR_NULL(w->trace));
CALL_WITH(vram_trace_mark, TRACE, 0, w->trace, "mark");
CALL_WITH(vram_trace_info_get, TRACE, 0, w->trace, TOLD(vram_trace_info));
