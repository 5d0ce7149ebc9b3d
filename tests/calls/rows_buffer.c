/* SPDX-License-Identifier: Apache-2.0 */
/* rows_buffer.c: buffers, scopes, batches and named buffers beside the ends of what they
   belong to. */
#include "calls/call_table.h"
#include "trims.h"

/* ---------------------------------------------------------------------- buffers */

CALL_WITH(vram_buffer_create, POOL, ROW_USES_QUEUE, w->pool, COPY_BYTES, OR_NULL(w->queue), NULL,
          &w->made.buffer);
CALL_WITH_AS(vram_buffer_create, pinned, POOL, ROW_USES_QUEUE, w->pool, COPY_BYTES,
             OR_NULL(w->queue), SIZED(vram_buffer_options, .kind = VRAM_BUFFER_PINNED),
             &w->made.buffer);
CALL_WITH_AS(vram_buffer_create, managed, POOL, ROW_USES_QUEUE, w->pool, COPY_BYTES,
             OR_NULL(w->queue), SIZED(vram_buffer_options, .kind = VRAM_BUFFER_MANAGED),
             &w->made.buffer);

CALL_WITH_AS(vram_buffer_create, fallback, POOL, ROW_USES_QUEUE, w->pool, COPY_BYTES,
             OR_NULL(w->queue),
             SIZED(vram_buffer_options, .kind = VRAM_BUFFER_FALLBACK, .name = "made", .tag = "a/b"),
             &w->made.buffer);
CALL_WITH(vram_buffer_create_elements, POOL, ROW_USES_QUEUE, w->pool, 100, VRAM_PRECISION_FP32,
          OR_NULL(w->queue), NULL, &w->made.buffer);
CALL_WITH(vram_buffer_destroy, BUFFER, ROW_NEVER_FAILS, OR_NULL(w->buffer));
CALL_WITH_AS(vram_buffer_destroy, mapped, MAPPED, 0, OR_NULL(w->buffer));
CALL_WITH(vram_buffer_use, BUFFER, 0, w->buffer, w->other);
CALL_WITH_AS(vram_buffer_use, home, BUFFER, 0, w->buffer, w->queue);
CALL_WITH(vram_buffer_info_get, BUFFER, 0, w->buffer, TOLD(vram_buffer_info));
CALL_WITH(vram_buffer_addr, BUFFER, 0, w->buffer, OUT(vram_addr));
CALL_WITH(vram_buffer_host, BUFFER, 0, w->buffer, OUT(void *));
CALL_WITH(vram_buffer_span, BUFFER, 0, w->buffer, 0, 1000, OUT(vram_span));

CALL(vram_span_addr, BUFFER, 0) {
    vram_addr addr;
    vram_span span = {w->buffer, 0, 1000};
    return TRY(vram_span_addr, span, &addr);
}

CALL(vram_span_upload, BUFFER, ROW_UNDERWAY) {
    vram_span span = {w->buffer, 0, COPY_BYTES};
    return TRY(vram_span_upload, OR_NULL(w->queue), span, w->host);
}

CALL(vram_span_download, BUFFER, ROW_UNDERWAY) {
    vram_span span = {w->buffer, 0, COPY_BYTES};
    return TRY(vram_span_download, OR_NULL(w->queue), w->host, span);
}

/* On the buffer's home. */
CALL_AS(vram_span_upload, home, BUFFER, 0) {
    vram_span span = {w->buffer, 0, COPY_BYTES};
    return TRY(vram_span_upload, NULL, span, w->host);
}

CALL_AS(vram_span_download, home, BUFFER, 0) {
    vram_span span = {w->buffer, 0, COPY_BYTES};
    return TRY(vram_span_download, NULL, w->host, span);
}

/* On a queue other than the buffer's home, and from the block, whose contents are known. */
CALL_AS(vram_span_download, wrapped, POOL,
        ROW_USES_QUEUE | ROW_DOWNLOAD | ROW_INVALID | ROW_UNDERWAY) {
    vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = w->block, .bytes = COPY_BYTES};
    vram_status status = vram_buffer_wrap(w->pool, &wrap, w->other, NULL, &w->made.buffer);
    vram_span span = {w->made.buffer, 0, COPY_BYTES};
    return status ? status : TRY(vram_span_download, OR_NULL(w->queue), w->host, span);
}

CALL_AS(vram_span_upload, wrapped, POOL, ROW_USES_QUEUE | ROW_UPLOAD | ROW_INVALID | ROW_UNDERWAY) {
    vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = w->block, .bytes = COPY_BYTES};
    vram_status status = vram_buffer_wrap(w->pool, &wrap, w->other, NULL, &w->made.buffer);
    vram_span span = {w->made.buffer, 0, COPY_BYTES};
    return status ? status : TRY(vram_span_upload, OR_NULL(w->queue), span, w->host);
}

CALL_WITH(vram_buffer_map, BUFFER, 0, w->buffer, 0, COPY_BYTES, VRAM_MAP_READ | VRAM_MAP_WRITE,
          OR_NULL(w->queue), OUT(void *));
CALL_WITH(vram_buffer_unmap, MAPPED, ROW_PARTIAL, w->buffer);

static vram_status fallback_made(struct world *w) {
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_FALLBACK};
    return vram_buffer_create(w->pool, COPY_BYTES, w->queue, &options, &w->made.buffer);
}

CALL_AFTER(vram_buffer_demote, BUFFER, 0, fallback_made(w), w->made.buffer, OR_NULL(w->queue));

CALL(vram_buffer_promote, BUFFER, 0) {
    vram_status status = fallback_made(w);
    status = status ? status : vram_buffer_demote(w->made.buffer, w->queue);
    return status ? status : TRY(vram_buffer_promote, w->made.buffer, OR_NULL(w->queue));
}

CALL_WITH(vram_pool_demote, BUFFER, 0, w->pool, ANY(1 << 20), OR_NULL(w->queue),
          OR_NULL(OUT(uint64_t)));

CALL(vram_pool_promote, BUFFER, ROW_CHOOSES) {
    uint64_t bytes;
    vram_status status = vram_pool_demote(w->pool, 1 << 20, w->queue, &bytes);
    return status ? status : TRY(vram_pool_promote, w->pool, OR_NULL(w->queue), OR_NULL(&bytes));
}

static vram_status managed_made(struct world *w) {
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_MANAGED};
    return vram_buffer_create(w->pool, COPY_BYTES, w->queue, &options, &w->made.buffer);
}

CALL_AFTER(vram_buffer_prefetch, POOL, ROW_USES_QUEUE, managed_made(w), w->made.buffer, 0,
           COPY_BYTES, ANY(VRAM_TARGET_OWN), OR_NULL(w->queue));
CALL_AFTER(vram_buffer_advise, POOL, ROW_USES_QUEUE, managed_made(w), w->made.buffer,
           VRAM_ADVICE_PREFER, ANY(VRAM_TARGET_HOST));
CALL_WITH(vram_buffer_wrap, POOL, ROW_USES_QUEUE, w->pool,
          SIZED(vram_wrap, .kind = VRAM_WRAP_HOST, .pointer = w->host, .bytes = COPY_BYTES),
          OR_NULL(w->queue), NULL, &w->made.buffer);

/* ----------------------------------------------------------------------- growth */

CALL_WITH(vram_buffer_growth_set, BUFFER, 0, w->buffer, NULL);

CALL_WITH_AS(vram_buffer_growth_set, factor, BUFFER, 0, w->buffer,
             SIZED(vram_growth, .policy = VRAM_GROWTH_FACTOR, .factor_ppm = 1500000));
CALL_WITH(vram_buffer_growth_get, BUFFER, 0, w->buffer, TOLD(vram_growth_info));
CALL_WITH(vram_buffer_reserve, BUFFER, 0, w->buffer, 2 * COPY_BYTES, OR_NULL(w->queue));
CALL_WITH_AS(vram_buffer_reserve, other_queue, BUFFER, 0, w->buffer, 2 * COPY_BYTES,
             OR_NULL(w->other));

/* Past a granule, and what it has. */
CALL_WITH_AS(vram_buffer_reserve, more, BUFFER, 0, w->buffer, 1 << 20, OR_NULL(w->queue));
CALL_WITH_AS(vram_buffer_resize, more, BUFFER, 0, w->buffer, 1 << 20, OR_NULL(w->queue));
CALL_WITH_AS(vram_buffer_resize, smaller, BUFFER, 0, w->buffer, COPY_BYTES / 4, OR_NULL(w->queue));
CALL_WITH(vram_buffer_resize, BUFFER, 0, w->buffer, 3 * COPY_BYTES, OR_NULL(w->queue));
CALL_WITH(vram_buffer_resize_elements, BUFFER, 0, w->buffer, COPY_BYTES / 2, OR_NULL(w->queue));

CALL_AFTER(vram_buffer_fit, BUFFER, 0, vram_buffer_resize(w->buffer, 100, w->queue), w->buffer,
           OR_NULL(w->queue));
CALL_AFTER_AS(vram_pool_trim, buffers, BUFFER, 0, vram_buffer_resize(w->buffer, 0, w->queue),
              w->pool, TRIM(.flags = VRAM_TRIM_BUFFERS), OR_NULL(OUT(uint64_t)));

/* ----------------------------------------------------------------------- scopes */

CALL_WITH(vram_scope_begin, SCOPE, 0, w->pool, OR_NULL(w->scope), &w->made.scope);
CALL_WITH(vram_scope_end, SCOPE, ROW_NEVER_FAILS, OR_NULL(w->scope));
CALL_WITH(vram_scope_alloc, SCOPE, 0, w->scope, COPY_BYTES, OR_NULL(w->queue), OUT(vram_addr));
CALL_WITH(vram_scope_alloc_with, SCOPE, 0, w->scope, COPY_BYTES, OR_NULL(w->queue),
          SIZED(vram_alloc_options, .tag = "tenant"), OUT(vram_addr));

CALL(vram_scope_free, SCOPE, ROW_INVALID | ROW_NEVER_FAILS) {
    vram_addr addr;
    vram_status status = vram_scope_alloc(w->scope, COPY_BYTES, w->queue, &addr);
    return status ? status : TRY(vram_scope_free, w->scope, addr, OR_NULL(w->queue));
}

CALL(vram_scope_take, SCOPE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_scope_alloc(w->scope, COPY_BYTES, w->queue, &addr);
    status = status ? status : TRY(vram_scope_take, w->scope, addr);
    if (status == VRAM_OK) {
        w->made.block = addr;
    }
    return status;
}

CALL_AFTER(vram_scope_give, SCOPE, ROW_INVALID,
           vram_alloc(w->pool, COPY_BYTES, w->queue, &w->made.block), w->scope, w->made.block,
           OR_NULL(w->queue));
CALL_WITH(vram_scope_buffer_create, SCOPE, 0, w->scope, COPY_BYTES, OR_NULL(w->queue), NULL,
          OUT(vram_buffer *));

CALL(vram_scope_buffer_take, SCOPE, ROW_INVALID) {
    vram_buffer *buffer;
    vram_status status = vram_scope_buffer_create(w->scope, COPY_BYTES, w->queue, NULL, &buffer);
    status = status ? status : TRY(vram_scope_buffer_take, w->scope, buffer);
    if (status == VRAM_OK) {
        w->made.buffer = buffer;
    }
    return status;
}

CALL_AFTER(vram_scope_buffer_give, SCOPE, 0,
           vram_buffer_create(w->pool, COPY_BYTES, w->queue, NULL, &w->made.buffer), w->scope,
           w->made.buffer);
CALL_WITH(vram_scope_info_get, SCOPE, 0, w->scope, TOLD(vram_scope_info));

/* ---------------------------------------------------------------------- batches */

CALL_WITH(vram_batch_create, POOL, ROW_USES_QUEUE, w->pool, OR_NULL(w->queue), NULL,
          &w->made.batch);
CALL_WITH_AS(vram_batch_create, options, POOL, ROW_USES_QUEUE, w->pool, OR_NULL(w->queue),
             PLAIN(vram_batch_options), &w->made.batch);
CALL_WITH_AS(vram_batch_add, one, BATCH, 0, w->batch, SIZED(vram_batch_item, .elements = 1000),
             FIXED(1), OUT(uint32_t));
CALL_WITH(vram_batch_destroy, BATCH, ROW_NEVER_FAILS, OR_NULL(w->batch));

CALL(vram_batch_add, BATCH, 0) {
    vram_batch_item items[] = {
        {.size = sizeof *items, .elements = 1000, .host = w->host, .host_bytes = 1000},
        {.size = sizeof *items, .elements = 1000, .kind = VRAM_BUFFER_PINNED}};
    uint32_t first;
    return TRY(vram_batch_add, w->batch, FIXED(items), FIXED(2), &first);
}

CALL_AS(vram_batch_add, uploads, BATCH, 0) {
    vram_batch_item items[3];
    uint32_t first;
    for (int i = 0; i < 3; i++) {
        items[i] = (vram_batch_item){.size = sizeof items[i],
                                     .elements = 5000,
                                     .kind = i == 2 ? VRAM_BUFFER_PINNED : VRAM_BUFFER_DEVICE,
                                     .host = w->host + i * 64,
                                     .host_bytes = 5000};
    }
    return TRY(vram_batch_add, w->batch, FIXED(items), FIXED(3), &first);
}

CALL_AFTER(vram_batch_give, BATCH, 0,
           vram_buffer_create(w->pool, COPY_BYTES, w->queue, NULL, &w->made.buffer), w->batch,
           w->made.buffer, OUT(uint32_t));
CALL_WITH(vram_batch_get, BATCH, 0, w->batch, 0, OUT(vram_buffer *));
CALL_WITH(vram_batch_info_get, BATCH, 0, w->batch, TOLD(vram_batch_info));

/* ---------------------------------------------------------------- named buffers */

CALL_WITH(vram_named_create, POOL, ROW_USES_QUEUE, w->pool, OR_NULL(w->queue), NULL,
          &w->made.named);
CALL_WITH_AS(vram_named_create, options, POOL, ROW_USES_QUEUE, w->pool, OR_NULL(w->queue),
             PLAIN(vram_named_options), &w->made.named);
CALL_WITH(vram_named_destroy, NAMED, ROW_NEVER_FAILS, OR_NULL(w->named));
CALL_WITH(vram_named_config_set, NAMED, 0, w->named, "a", PLAIN(vram_named_config));
CALL_WITH(vram_named_add, NAMED, 0, w->named, "b", 1000, NULL, OUT(vram_buffer *));
CALL_WITH(vram_named_get, NAMED, ROW_INVALID, w->named, "a", NULL, OUT(vram_buffer *));
CALL_WITH(vram_named_get_or_create, NAMED, 0, w->named, "a", ANY(1000), NULL, OUT(vram_buffer *));
CALL_WITH(vram_named_ensure, NAMED, ROW_INVALID, w->named, "a", 5000, NULL);
CALL_WITH_AS(vram_named_add, precision, NAMED, 0, w->named, "b", 90000,
             SIZED(vram_named_config, .precision = VRAM_PRECISION_FP32), OUT(vram_buffer *));
CALL_WITH_AS(vram_named_config_set, unknown, NAMED, 0, w->named, "d", PLAIN(vram_named_config));
CALL_WITH_AS(vram_named_get_or_create, unknown, NAMED, 0, w->named, "c", 90000, NULL,
             OUT(vram_buffer *));
CALL_WITH_AS(vram_named_ensure, more, NAMED, ROW_INVALID, w->named, "a", 3 << 20, NULL);

CALL_AS(vram_named_cleanup, unused, NAMED, ROW_INVALID | ROW_NEVER_FAILS) {
    vram_buffer *buffer;
    uint64_t bytes;
    vram_status status = vram_named_get(w->named, "a", NULL, &buffer);
    status = status ? status : vram_buffer_resize(buffer, 0, w->queue);
    return status ? status : TRY(vram_named_cleanup, w->named, ANY(0), OR_NULL(&bytes));
}

CALL_WITH(vram_named_remove, NAMED, ROW_INVALID | ROW_NEVER_FAILS, w->named, "a");
CALL_WITH(vram_named_cleanup, NAMED, ROW_NEVER_FAILS, w->named, ANY(0), OR_NULL(OUT(uint64_t)));
CALL_WITH(vram_named_info_get, NAMED, ROW_INVALID, w->named, "a", TOLD(vram_named_info));
CALL_WITH(vram_named_info_at, NAMED, ROW_INVALID, w->named, 0, TOLD(vram_named_info));
CALL_WITH(vram_named_stats_get, NAMED, 0, w->named, TOLD(vram_named_stats));
CALL_WITH(vram_named_write, NAMED, 0, w->named, VRAM_REPORT_JSON, call_ignore_text, NULL);
